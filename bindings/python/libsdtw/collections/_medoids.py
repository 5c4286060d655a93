# k-medoids of series: clusters around members, from the matrix of all pairs.
"""SoftDTWKMedoids."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._core import InvalidArgumentError
from .._problem import choice, count
from ._barycenter import check_weights
from ._base import ClusterEstimator, MatrixEstimator, documented
from ._keep import TopK
from ._progress import Bar
from ._search import run
from ._seeding import plus_plus
from ._series import Series, hosted

_ENTRIES = 1 << 22  # of the matrix that are looked at at a time
_LEAST = 1e-200  # a weight that is nothing beside others, but not 0: 0 times infinity is NaN


@documented
class SoftDTWKMedoids(ClusterEstimator, MatrixEstimator):
    """Partitioning around medoids: clusters whose centers are series of the collection.

    All pairs of the training series are computed once, half of them if the value is symmetric; then the
    medoid and the series whose exchange lowers the inertia most are exchanged, until none does (Schubert
    and Rousseeuw 2019, FastPAM1). Ctrl-C during ``fit`` keeps the medoids so far.

    Args:
        n_clusters: clusters.
        init: "k-means++"; "random"; or the indices of k series.
        n_init: starts, of which the one with the least inertia is kept. The matrix is computed once.
        max_iter: exchanges of one start at most.
        random_state: seed, or numpy.random.RandomState.
        verbose: 1: a line for each start.
        progress: show a progress bar of tqdm.

    Attributes:
        medoid_indices_: (k,), indices into the training series.
        cluster_centers_: these series, a list of (N_b, D), in the scaler's units; None with metric
            "precomputed".
        n_iter_: rounds of the best start, each of which looks for the best exchange; the last one finds none,
            unless max_iter ends it.
        labels_, inertia_, interrupted_, gamma_: as of :class:`SoftDTWKMeans`.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 300,
        gamma: float | str = "median",
        metric: str = "sqeuclidean",
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = True,
        scaler: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
        progress: bool = False,
        device: str | Sequence[str] | None = None,
        num_threads: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.gamma = gamma
        self.metric = metric
        self.band = band
        self.radius = radius
        self.step_weights = step_weights
        self.step_penalties = step_penalties
        self.normalize = normalize
        self.scaler = scaler
        self.random_state = random_state
        self.verbose = verbose
        self.progress = progress
        self.device = device
        self.num_threads = num_threads

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None
    ) -> SoftDTWKMedoids:
        """Finds the medoids of X, a collection; y is not used. sample_weight: (B,), not negative."""
        given = self._fit_values(X, lengths) if self._of_values else self._fit_series(X, lengths)
        weights = check_weights("sample_weight", sample_weight, len(given))
        for name in ("n_clusters", "n_init", "max_iter"):
            count(name, getattr(self, name))
        if self.n_clusters > len(given):
            raise InvalidArgumentError(
                f"n_samples={len(given)} should be >= n_clusters={self.n_clusters}: n_clusters is "
                f"{self.n_clusters}, "
                "and there are fewer series"
            )
        rng = check_random_state(self.random_state)
        values = self._values(given, None, self.progress) if isinstance(given, Series) else given
        self.interrupted_ = False
        best: tuple[NDArray[np.int64], float, int] | None = None
        starts = self.n_init if isinstance(self.init, str) else 1
        for number in range(starts):
            try:
                medoids, inertia, swaps = self._start(values, weights, rng)
            except KeyboardInterrupt:  # before this start has medoids
                if best is None:
                    raise
                self.interrupted_ = True
                break
            if self.verbose:
                print(f"start {number + 1} of {starts}: inertia {inertia:.6g} after {swaps} exchanges")
            if best is None or inertia < best[1]:
                best = medoids, inertia, min(swaps + 1, self.max_iter)
            if self.interrupted_:
                break
        assert best is not None
        near = values[:, best[0]]
        self._require_finite(near.min(axis=1), "medoid", "more clusters")
        self.medoid_indices_, self.inertia_, self.n_iter_ = best
        self.labels_ = near.argmin(axis=1).astype(np.int32)
        self.labels_[self.medoid_indices_] = np.arange(self.n_clusters)
        self._medoids = given.take(self.medoid_indices_) if isinstance(given, Series) else None
        self.cluster_centers_ = (
            None if self._medoids is None else [self._medoids.one(k) for k in range(self.n_clusters)]
        )
        if self.interrupted_:
            warnings.warn(
                f"SoftDTWKMedoids was interrupted: these are the best medoids so far, of inertia "
                f"{self.inertia_:.6g}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _start(
        self, values: NDArray[Any], weights: NDArray[Any], rng: np.random.RandomState
    ) -> tuple[NDArray[np.int64], float, int]:
        medoids, swaps = self._first(values, weights, rng), 0
        goals = [(values, weights)]
        if not np.isfinite(values.max()):  # first of all, each series needs a path to a medoid
            unreached = ~np.isfinite(values)
            goals = [(unreached, np.ones(len(values))), (values, np.maximum(weights, _LEAST))]
        try:
            with Bar(self.progress, self.max_iter, "k-medoids") as bar:
                for costs, shares in goals:
                    while swaps < self.max_iter:
                        gain, cluster, candidate = best_exchange(costs, shares, medoids)
                        if not gain < -1e-9 * abs(_inertia(costs, shares, medoids)):
                            break
                        medoids[cluster] = candidate
                        swaps += 1
                        bar.update()
                    if _inertia(values, weights, medoids) == np.inf:
                        break
        except KeyboardInterrupt:
            self.interrupted_ = True
        return medoids, _inertia(values, weights, medoids), swaps

    def _first(
        self, values: NDArray[Any], weights: NDArray[Any], rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        if not isinstance(self.init, str):
            try:
                given = np.array(hosted(self.init))
            except ValueError:  # of series of different lengths, as k-means takes them
                given = np.array(None)
            inside = given.dtype.kind in "iu" and ((given >= 0) & (given < len(values))).all()
            if not inside or given.shape != (self.n_clusters,) or len(np.unique(given)) != len(given):
                raise InvalidArgumentError(
                    f"init is {self.init!r}: expected {self.n_clusters} different indices in [0, "
                    f"{len(values)})"
                )
            return given.astype(np.int64)
        choice("init", self.init, ("k-means++", "random"))
        if self.init == "random":
            return np.asarray(rng.choice(len(values), self.n_clusters, replace=False), np.int64)
        return plus_plus(lambda indices: values[:, indices], weights, self.n_clusters, rng)

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[np.int32]:
        """The cluster of each series of X, (B,), in memory of one block of values."""
        if self._of_values:
            values, indices = TopK(1).of(self.transform(X, lengths=lengths))
        else:
            found = run(self._job(self._new_series(X, lengths), self._medoids, TopK(1)))
            values, indices = found["values"], found["indices"]
        self._require_finite(values[:, 0], "medoid", "a fit to series of its length")
        labels: NDArray[np.int32] = indices[:, 0].astype(np.int32)
        return labels

    def transform(self, X: Any, *, lengths: Any = None) -> NDArray[Any]:
        """Values of each series of X with each medoid, (B, k); infinite without a path."""
        if self._of_values:
            return self._new_values(X, lengths)[:, self.medoid_indices_]
        return self._values(self._new_series(X, lengths), self._medoids)

    @property
    def _n_features_out(self) -> int:
        return len(self.medoid_indices_)


def _inertia(values: NDArray[Any], weights: NDArray[Any], medoids: NDArray[Any]) -> float:
    """Infinite if a series has no path to a medoid, whatever its weight."""
    nearest = values[:, medoids].min(axis=1)
    return float(weights @ nearest) if np.isfinite(nearest).all() else np.inf


def best_exchange(
    values: NDArray[Any], weights: NDArray[Any], medoids: NDArray[Any]
) -> tuple[float, int, int]:
    """What the best exchange of a medoid for a series adds to the inertia, which medoid, and which series.

    A series i with candidate j gains min(v_ij - first_i, 0), unless its own medoid goes: then it has the
    better of j and its second. So the candidates' sums over each cluster give all k n exchanges in O(n^2)
    together.
    """
    near = values[:, medoids].astype(np.float64)
    label = near.argmin(axis=1)
    first = near[np.arange(len(near)), label]
    near[np.arange(len(near)), label] = np.inf
    second = near.min(axis=1)
    order = np.argsort(label, kind="stable")
    there, begins = np.unique(label[order], return_index=True)
    first, second, share = (a[order, None] for a in (first, second, weights))
    best = (0.0, -1, -1)
    step = max(1, _ENTRIES // len(values))
    for j in range(0, values.shape[1], step):
        block = values[order, j : j + step].astype(np.float64)
        stay = share * np.minimum(block - first, 0)
        leave = share * (np.minimum(block, second) - first)
        change = np.add.reduceat(leave - stay, begins, axis=0) + stay.sum(axis=0)
        at = np.unravel_index(int(change.argmin()), change.shape)
        if change[at] < best[0]:
            best = (float(change[at]), int(there[at[0]]), j + int(at[1]))
    return best
