# Private interfaces of JAX, all that the package uses.
"""What JAX has no public name for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy
from jax.interpreters import mlir


def lower_with_devices(primitive: Any) -> bool:
    """Has programs with this primitive lowered for known devices, as custom_partitioning in its rule needs.

    JAX does so for programs in which it sees custom_partitioning itself, which has no rules for derivatives
    and batches, so that the primitives here are around it. False where JAX has no such list: calls on
    sharded arrays then gather them, with the same results.
    """
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering
    except ImportError:
        return False
    prim_requires_devices_during_lowering.add(primitive)
    return True


def computed(primitive: Any) -> Any:
    """The function that computes a primitive outside of programs, as those of JAX are computed."""
    try:
        from jax.interpreters.xla import apply_primitive
    except ImportError:  # not where JAX has had it so far
        from jax._src.dispatch import apply_primitive
    return functools.partial(apply_primitive, primitive)


def lowered(split: Any, local: Any) -> Any:
    """The rule that lowers a primitive to a function of whole arrays, which are split by custom_partitioning.

    XLA, or some versions of it, fails beside that on meshes with explicit axes, where types say how arrays
    are split, and within shard_map. There each device computes `local` of what it has.
    """
    rules = [mlir.lower_fun(function, multiple_results=True) for function in (split, local)]

    @_staged()
    def by_types(context: Any, *operands: Any, **parameters: Any) -> Any:
        mesh = _mesh(context.avals_in)
        explicit = _axes_of_kind(mesh, "Explicit")
        if not explicit:
            return rules[bool(_axes_of_kind(mesh, "Manual"))](context, *operands, **parameters)
        on_each = jax.shard_map(
            functools.partial(local, **parameters),
            mesh=mesh,
            in_specs=tuple(aval.sharding.spec for aval in context.avals_in),
            out_specs=[aval.sharding.spec for aval in context.avals_out],
            axis_names=explicit,
            check_vma=False,
        )
        return mlir.lower_fun(on_each, multiple_results=True)(context, *operands)

    return by_types


@contextlib.contextmanager
def _staged() -> Iterator[None]:
    """All operations are of the program: custom_partitioning takes no constants.

    jax.ensure_compile_time_eval makes constants of those without traced operands, as of empty arrays.
    """
    try:
        from jax._src.config import eager_constant_folding
    except ImportError:  # not where JAX has had it so far
        yield
        return
    with eager_constant_folding(False):
        yield


def _mesh(types: Any) -> Any:
    """The mesh that abstract values are on; None if on none."""
    meshes = (getattr(getattr(aval, "sharding", None), "mesh", None) for aval in types)
    return next((mesh for mesh in meshes if mesh is not None and not mesh.empty), None)


def _axes_of_kind(mesh: Any, kind: str) -> set[Any]:
    """The axes of a mesh that are of a kind, which JAX tells since 0.6."""
    if mesh is None or not hasattr(jax.sharding, "AxisType"):
        return set()
    wanted = getattr(jax.sharding.AxisType, kind)
    return {name for name, own in zip(mesh.axis_names, mesh.axis_types, strict=True) if own == wanted}


def result(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The abstract value of a result for each pair of a batch x, which is where the batch is on a mesh."""
    try:
        pairs = x.sharding.spec[0] if x.sharding.spec else None
        spec = jax.sharding.PartitionSpec(pairs, *(None for _ in shape[1:]))
        sharding = x.sharding.update(spec=spec)
        if sharding.mesh.empty and hasattr(jax.sharding, "get_abstract_mesh"):
            # x was made before jax.set_mesh: results are on the mesh, as those of JAX's own operations
            sharding = sharding.update(mesh=jax.sharding.get_abstract_mesh())
        return x.update(shape=shape, dtype=dtype, weak_type=False, sharding=sharding)
    except (AttributeError, TypeError):  # JAX before abstract values had shardings
        return jax.core.ShapedArray(shape, dtype)


def _varying(array: Any) -> frozenset[Any]:
    """Axes of a mesh along which an array differs, in a function that jax.shard_map maps."""
    of = jax.typeof(array)
    if hasattr(of, "mat"):  # JAX 0.10
        return frozenset(of.mat.varying)
    return frozenset(getattr(of, "vma", ()))


def vary_alike(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """All of them marked as differing along the same axes of a mesh, as JAX's own operations do."""
    if not hasattr(jax, "typeof"):
        return arrays
    axes = [_varying(array) for array in arrays]
    every = frozenset[Any]().union(*axes)
    if not every:
        return arrays
    cast: Any = getattr(jax.lax, "pcast", None) or getattr(jax.lax, "pvary")  # noqa: B009 (of other versions)
    to = {"to": "varying"} if hasattr(jax.lax, "pcast") else {}
    return tuple(
        array if of == every else cast(jax.numpy.asarray(array), tuple(every - of), **to)
        for array, of in zip(arrays, axes, strict=True)
    )
