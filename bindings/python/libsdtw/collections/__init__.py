# Collections of series: neighbours, clusters, averages and matrices of all pairs, in bounded memory.
"""Collections: neighbours, clusters and averages under soft-DTW, by scikit-learn's conventions.

Functions need NumPy alone (barycenters of other metrics than squared distances SciPy, too), estimators
scikit-learn: ``pip install 'libsdtw[collections]'``. Nothing is imported before it is used.

A collection is an array (B, N, D), or (B, N) of one feature, of NumPy, PyTorch or CuPy, or a list of series
(N_b, D) or (N_b,). NaN at the end of a series is padding.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._barycenter import BarycenterInfo, soft_dtw_barycenter
from ._keep import Histogram, Matrix, Sums, TopK
from ._pairs import median_gamma as _median_gamma
from ._search import (
    reduce_pairs,
    soft_dtw_argmin,
    soft_dtw_histogram,
    soft_dtw_matrix,
    soft_dtw_sums,
    soft_dtw_top_k,
)
from ._series import as_series as _as_series

if TYPE_CHECKING:
    from ._kmeans import SoftDTWKMeans
    from ._medoids import SoftDTWKMedoids
    from ._neighbors import SoftDTWKNeighborsClassifier, SoftDTWKNeighborsRegressor, SoftDTWNearestNeighbors

_ESTIMATORS = {
    "SoftDTWKMeans": "_kmeans",
    "SoftDTWKMedoids": "_medoids",
    "SoftDTWKNeighborsClassifier": "_neighbors",
    "SoftDTWKNeighborsRegressor": "_neighbors",
    "SoftDTWNearestNeighbors": "_neighbors",
}

__all__ = [
    "BarycenterInfo",
    "Histogram",
    "Matrix",
    "SoftDTWKMeans",
    "SoftDTWKMedoids",
    "SoftDTWKNeighborsClassifier",
    "SoftDTWKNeighborsRegressor",
    "SoftDTWNearestNeighbors",
    "Sums",
    "TopK",
    "median_gamma",
    "reduce_pairs",
    "soft_dtw_argmin",
    "soft_dtw_barycenter",
    "soft_dtw_histogram",
    "soft_dtw_matrix",
    "soft_dtw_sums",
    "soft_dtw_top_k",
]


def median_gamma(x: Any, metric: str = "sqeuclidean", *, lengths: Any = None, random_state: Any = 0) -> float:
    """A gamma for series of unknown scale: a tenth of the median cost of two time steps of different series.

    Args:
        x: a collection; of a single series it is the median cost of two time steps of that one.
        metric: of time steps.
        lengths: time steps of each series, (B,).
        random_state: seed of the 20 000 pairs of time steps that the median is taken of.
    """
    return _median_gamma(_as_series("x", x, lengths), metric, random_state)


def __getattr__(name: str) -> Any:
    if name not in _ESTIMATORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f".{_ESTIMATORS[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("sklearn", "scipy"):
            raise
        raise ImportError(
            f"{__name__}.{name} needs {error.name}, which is not installed: pip install "
            f"'libsdtw[collections]'"
        ) from error
