# Matrices of all pairs as arrays of Dask.
"""Collections that are arrays of Dask. For searches on a cluster see ``cluster`` of
:func:`libsdtw.collections.reduce_pairs`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import InvalidArgumentError
from .._problem import check_options
from ._search import soft_dtw_matrix as _matrix

__all__ = ["soft_dtw_matrix"]


def soft_dtw_matrix(x: Any, y: Any, *, gamma: float, **options: Any) -> Any:
    """Values of every series of x with every one of y, a lazy array (P, Q).

    Args:
        x, y: arrays of Dask, (P, N, D) and (Q, M, D), in chunks of whole series; or NumPy arrays.
        gamma: a number: no chunk could know the median of all.

    The other arguments are those of :func:`libsdtw.collections.reduce_pairs`, without lengths; NaN at the end
    of a series is padding. A block of the result is one chunk of x with one of y.
    """
    import dask.array as da

    check_options(gamma, options.get("metric", "sqeuclidean"))
    for name, a in (("x", x), ("y", y)):
        if np.ndim(a) != 3:
            raise InvalidArgumentError(f"{name} has shape {np.shape(a)}: expected (B, N, D)")
    x, y = (
        da.asarray(a).rechunk({1: -1, 2: -1})
        if isinstance(a, da.Array)
        else da.from_array(a, chunks=(-1, -1, -1))
        for a in (x, y)
    )
    kinds = [np.float64 if a.dtype.kind in "iu" else a.dtype for a in (x, y)]
    wide = np.result_type(*kinds, np.float32)
    return da.blockwise(
        _block, "ij", x, "iab", y, "jcd", dtype=wide, concatenate=True, meta=np.empty((0, 0), wide),
        gamma=gamma, **options,
    )  # fmt: skip


def _block(x: Any, y: Any, **options: Any) -> Any:
    return _matrix(x, y, **options)
