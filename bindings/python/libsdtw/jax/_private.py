# Private interfaces of JAX, all that the package uses.
"""What JAX has no public name for."""

from __future__ import annotations

import functools
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


def lowered(function: Any) -> Any:
    """The rule that lowers a primitive to a function of whole arrays.

    On a mesh with explicit axes types say how arrays are split, but not those of what a foreign function
    returns. Within the rule none does: there custom_partitioning says it.
    """
    rule = mlir.lower_fun(function, multiple_results=True)

    def of_whole(context: Any, *operands: Any, **parameters: Any) -> Any:
        types = [_whole(aval) for aval in context.avals_in]
        return rule(context.replace(avals_in=types), *operands, **parameters)

    return of_whole


def result(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The abstract value of a result for each pair of a batch x, which is where the batch is on a mesh."""
    try:
        pairs = x.sharding.spec[0] if x.sharding.spec else None
        spec = jax.sharding.PartitionSpec(pairs, *(None for _ in shape[1:]))
        return x.update(shape=shape, dtype=dtype, weak_type=False, sharding=x.sharding.update(spec=spec))
    except (AttributeError, TypeError):  # JAX before abstract values had shardings
        return jax.core.ShapedArray(shape, dtype)


def _whole(x: Any) -> Any:
    """The abstract value, not split over a mesh."""
    try:
        spec = jax.sharding.PartitionSpec(*(None for _ in x.shape))
        return x.update(sharding=x.sharding.update(spec=spec))
    except (AttributeError, TypeError):
        return x


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
