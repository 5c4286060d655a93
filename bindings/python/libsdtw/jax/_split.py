# Meshes with explicit axes, on which types say how arrays are split.
"""Batches there: split by pairs, which are the first dimension; all of a pair is on one device.

JAX inserts no communication on such a mesh by itself: what is split in other ways is brought into this one
here. Elsewhere types say nothing of it, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

_KNOWN = hasattr(jax.sharding, "reshard") and hasattr(jax, "typeof")  # to JAX, since 0.7


def _axes(array: Any) -> tuple[Any, ...]:
    """Axes of a mesh by which its type says that an array is split, by dimension; () if by none."""
    sharding = getattr(getattr(array, "aval", None), "sharding", None)  # typeof takes 20 times as long
    return tuple(sharding.spec) if _KNOWN and sharding is not None and any(sharding.spec) else ()


def of_dimensions(arrays: Iterable[Any], count: int) -> NamedSharding | None:
    """How the first dimensions, which are the same of all arrays, are split: each as of the first that is.

    None if none of the arrays is split at all.
    """
    split = [(axes, jax.typeof(array).sharding.mesh) for array in arrays if (axes := _axes(array))]
    if not split:
        return None
    chosen = [next((axes[k] for axes, _ in split if axes[k] is not None), None) for k in range(count)]
    return NamedSharding(split[0][1], PartitionSpec(*chosen))


def of_pairs(series: Iterable[Any], shape: Sequence[int]) -> NamedSharding | None:
    """How pairs of series (..., N, D) are split that broadcast to the batch."""
    given = list(series)
    if not any(map(_axes, given)):
        return None
    split = of_dimensions((one for one in given if _begins(one, shape)), 1)
    return split if split is not None else of_dimensions(given, 0)


def _begins(series: Any, shape: Sequence[int]) -> bool:
    """Whether the first dimension of series (..., N, D) is that of the batch."""
    return len(shape) > 0 and series.ndim == len(shape) + 2 and series.shape[0] == shape[0]


def aligned(series: Any, shape: Sequence[int], split: NamedSharding | None) -> Any:
    """Series (..., N, D), which are to broadcast to the batch, split as its pairs are, or whole."""
    if split is None:
        return series
    return placed(series, split if _begins(series, shape) else NamedSharding(split.mesh, PartitionSpec()))


def of_first(split: NamedSharding | None) -> NamedSharding | None:
    """The first dimension alone."""
    return split if split is None else NamedSharding(split.mesh, PartitionSpec(*split.spec[:1]))


def placed(array: Any, split: NamedSharding | None) -> Any:
    """The array, split so in its first dimensions and whole in all others."""
    if split is None or array is None:
        return array
    own = jax.typeof(array).sharding
    if own.mesh.empty and jax.sharding.get_abstract_mesh().empty:  # JAX puts it where it is needed
        return array
    wanted = PartitionSpec(*split.spec, *[None] * (array.ndim - len(split.spec)))
    same = own.mesh == split.mesh and own.spec == wanted
    return array if same else jax.sharding.reshard(array, NamedSharding(split.mesh, wanted))


def whole(array: Any) -> Any:
    """The array, all of it on every device."""
    return placed(array, of_dimensions((array,), 0))
