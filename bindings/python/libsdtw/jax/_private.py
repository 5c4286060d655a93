# Private interfaces of JAX, all that the package uses.
"""What JAX has no public name for."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy


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


def result(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The abstract value of a result for each pair of a batch x, which is where the batch is on a mesh."""
    try:
        pairs = x.sharding.spec[0] if x.sharding.spec else None
        spec = jax.sharding.PartitionSpec(pairs, *(None for _ in shape[1:]))
        return x.update(shape=shape, dtype=dtype, weak_type=False, sharding=x.sharding.update(spec=spec))
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
