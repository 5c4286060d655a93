# Batches of k-means: which series a round sees, how far it moves the centers, and when enough was seen.
"""Batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._series import Series

PATIENCE = 10  # rounds without a better inertia, as scikit-learn's MiniBatchKMeans has it


class Batches:
    """The state of mini-batch k-means (Sculley 2010) apart from the centers."""

    def __init__(
        self, series: Series, weights: NDArray[np.float64], size: int, clusters: int, tol: float
    ) -> None:
        self.size, self.clusters, self.tol = min(size, len(series)), clusters, tol
        self.total = len(series)
        self._until = np.cumsum(weights)
        self.seen = np.zeros(clusters)  # series that each center was given
        self.rounds, self.waited = 0, 0
        self.inertia = self.best = np.inf

    def _drawn(self, count: int, rng: np.random.RandomState) -> NDArray[np.int64]:
        """Indices in proportion to weights, any of them more than once."""
        at = rng.uniform(size=count) * self._until[-1]
        found = np.searchsorted(self._until, at, side="right")
        last = np.searchsorted(self._until, self._until[-1])  # which rounding could draw past
        return np.asarray(np.minimum(found, last), np.int64)

    def first(self, rng: np.random.RandomState) -> NDArray[np.int64]:
        """Different series, enough of them for first centers to be chosen from."""
        count = min(self.total, 3 * max(self.size, self.clusters))
        drawn = np.unique(self._drawn(count, rng))
        if len(drawn) >= self.clusters:
            return drawn
        there = np.flatnonzero(np.diff(self._until, prepend=0.0) > 0)
        return rng.permutation(there)[:count]

    def draw(self, rng: np.random.RandomState) -> NDArray[np.int64]:
        """The series of the next round, in their order, as files are read fastest."""
        self.rounds += 1
        return np.sort(self._drawn(self.size, rng))

    def watch(self, nearest: NDArray[np.float64]) -> float:
        """The moving average of the mean value of a batch's series with their centers."""
        now, share = float(nearest.mean()), min(1.0, 2 * self.size / (self.total + 1))
        self.inertia = now if self.rounds == 1 else self.inertia + share * (now - self.inertia)
        better = self.rounds == 1 or self.best - self.inertia > self.tol * abs(self.best)
        self.waited = 0 if better else self.waited + 1
        self.best = min(self.best, self.inertia)
        return self.inertia

    @property
    def settled(self) -> bool:
        return self.waited >= PATIENCE

    def moved(
        self, centers: NDArray[np.float64], found: NDArray[np.float64], labels: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """Centers, each nearer to the average of its series of the batch, the less the more it has seen."""
        given = np.bincount(labels, minlength=self.clusters)
        self.seen += given
        share = given / np.maximum(self.seen, 1)
        return np.asarray(centers + share[:, None, None] * (found - centers))
