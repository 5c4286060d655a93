# First centers of k-means and k-medoids: k-means++ in the geometry of the values themselves.
"""given_centers and plus_plus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import InvalidArgumentError
from ._series import as_series
from ._transforms import stretched


def given_centers(init: Any, clusters: int, features: int, length: int | None) -> NDArray[np.float64]:
    """The centers that the caller begins with, (k, length, D); None: the length of the longest."""
    given = as_series("init", init)
    if len(given) != clusters or given.features != features:
        raise InvalidArgumentError(
            f"init has shape {tuple(given.data.shape)}: expected ({clusters}, M, {features})"
        )
    steps = length or int(given.sizes().max())
    return np.stack([stretched(given.one(k), steps) for k in range(clusters)])


def plus_plus(
    columns: Callable[[NDArray[Any]], NDArray[Any]],
    weights: NDArray[Any],
    clusters: int,
    rng: np.random.RandomState,
) -> NDArray[np.int64]:
    """Indices of series that are far from each other (Arthur and Vassilvitskii 2007, with greedy trials).

    A divergence of squared distances is itself a square, so that it takes the place of the squared distance.
    Of 2 + log(k) candidates, drawn in proportion to the value with the nearest center, the one that leaves
    the least sum is taken. Raw soft-DTW, which may be negative, counts from the least value of all. Series
    without a path to a center are farther than all others: they are drawn first, and counted first.

    Args:
        columns: values of all series with those of some indices, (B, len(indices)).
    """
    trials = 2 + int(np.log(clusters))
    chosen = [int(rng.choice(len(weights), p=weights / weights.sum()))]
    nearest = columns(np.array(chosen))[:, 0].astype(np.float64)
    while len(chosen) < clusters:
        unreached = ~np.isfinite(nearest)
        known = np.where(unreached, 0, nearest)
        far = (unreached & (weights > 0)).any()
        potential = weights * (unreached if far else known - min(0.0, float(known.min())))
        potential[chosen] = 0
        total = potential.sum()
        if not total > 0:  # no series is apart from the chosen ones: any other will do
            potential = np.where(np.isin(np.arange(len(weights)), chosen), 0.0, 1.0)
            total = potential.sum()
        drawn = np.unique(
            np.searchsorted(np.cumsum(potential), rng.uniform(size=trials) * total, side="right")
        )
        candidates = np.minimum(drawn, np.flatnonzero(potential)[-1])
        candidates = np.unique(candidates)
        after = np.minimum(nearest[:, None], columns(candidates))
        unreached = ~np.isfinite(after)
        best = int(np.lexsort((weights @ np.where(unreached, 0, after), weights @ unreached))[0])
        chosen.append(int(candidates[best]))
        nearest = after[:, best]
    return np.array(chosen)
