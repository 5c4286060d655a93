# k-means of series: assignment by all pairs, averages of all clusters at once.
"""SoftDTWKMeans."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from .._core import InvalidArgumentError
from .._problem import choice, count
from ._assignments import Assignments
from ._barycenter import check_tol, check_weights
from ._base import ClusterEstimator, documented
from ._batches import Batches
from ._descent import Descents
from ._devices import parse
from ._keep import TopK
from ._labels import moves, with_a_series_each
from ._lbfgs import QuasiNewton
from ._majorize import Majorants
from ._objective import Objectives
from ._paths import require_paths
from ._progress import Bar
from ._search import run
from ._seeding import given_centers, plus_plus
from ._series import Series, centers_like
from ._team import Team
from ._transforms import stretched


class _Start(NamedTuple):
    """What one start came to."""

    inertia: float
    centers: NDArray[np.float64]
    labels: NDArray[np.int32]
    iterations: int = 0
    converged: bool = False


@documented
class SoftDTWKMeans(ClusterEstimator):
    """k-means of series under soft-DTW or its divergence (Cuturi and Blondel 2017, section 4).

    Series are given to their nearest center, and each center goes a few steps towards the average of its
    series from where it was, all clusters at once; and again, until nothing changes. Of squared distances
    the steps are those of DTW barycenter averaging by soft alignments, with momentum, and of other metrics
    those of L-BFGS. A cluster that is left without a series takes the one that is farthest from its center.
    Ctrl-C during ``fit`` keeps the best clusters so far and sets ``interrupted_``.

    Args:
        n_clusters: clusters.
        init: "k-means++"; "random", series drawn at random; or centers, a collection of k series, each of
            which is stretched to `center_length`.
        n_init: starts, of which the one with the least inertia is kept.
        max_iter: rounds of one start at most, each of which moves the centers once.
        tol: stop where two rounds together lower the inertia by less than this share of it; with batches
            where ten have not lowered its moving average so. A center rests while its series stay and it has
            gained less than its part of that.
        batch_size: None: each round takes all series. A number: each takes so many, drawn at random, and
            moves a center to their average by their share of all that it was given (Sculley 2010, as
            scikit-learn's MiniBatchKMeans). Labels and inertia are of all series.
        max_iter_barycenter: steps of a center in each round at most. A round ends before where a step gains
            little, and of squared distances after two if series have come or gone: the next one goes on from
            there.
        center_length: time steps of the centers; None: of the longest of init, if it holds centers, or of the
            longest series.
        random_state: seed, or numpy.random.RandomState.
        verbose: 1: a line for each start; 2: for each round.
        progress: show a progress bar of tqdm.

    Attributes:
        cluster_centers_: (k, M, D), in the scaler's units.
        labels_: (B,), the cluster of each series: the nearest of cluster_centers_.
        inertia_: the weighted sum of the values of series and their centers.
        n_iter_: rounds that the best start took; converged_ and interrupted_ say how it ended.
        gamma_: the number that gamma is.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: int = 1,
        max_iter: int = 50,
        tol: float = 1e-3,
        batch_size: int | None = None,
        max_iter_barycenter: int = 10,
        center_length: int | None = None,
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
        self.tol = tol
        self.batch_size = batch_size
        self.max_iter_barycenter = max_iter_barycenter
        self.center_length = center_length
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> SoftDTWKMeans:
        """Finds the clusters of X, a collection; y is not used. sample_weight: (B,), not negative."""
        series = self._fit_series(X, lengths)
        weights = check_weights("sample_weight", sample_weight, len(series))
        self._check(series, weights)
        rng = check_random_state(self.random_state)
        names = parse(self.device)[1]
        try:
            with Team(names, self._options()) if names else nullcontext() as self._team:
                best = self._best(series, weights, rng)
        finally:  # threads and calls made ready would keep even an estimator that failed from being pickled
            for name in ("_assignments", "_team"):
                self.__dict__.pop(name, None)
        if best is None:
            raise KeyboardInterrupt("interrupted before the first clusters were known")
        self._keep(best)
        return self

    def _best(self, series: Series, weights: NDArray[Any], rng: np.random.RandomState) -> _Start | None:
        """The best of all starts."""
        start = self._start if self.batch_size is None else self._start_of_batches
        if self.batch_size is None:
            self._assign(series)
        starts = 1 if not isinstance(self.init, str) else self.n_init
        best: _Start | None = None
        self.interrupted_ = False
        for number in range(starts):
            found = start(series, weights, rng)
            if found is not None and (best is None or found.inertia < best.inertia):
                best = found
            if self.verbose and found is not None:
                print(
                    f"start {number + 1} of {starts}: inertia {found.inertia:.6g} after {found.iterations} "
                    f"rounds"
                )
            if self.interrupted_:
                break
        return best

    def _check(self, series: Series, weights: NDArray[Any]) -> None:
        for name in ("n_clusters", "n_init", "max_iter", "max_iter_barycenter"):
            count(name, getattr(self, name))
        for name in ("center_length", "batch_size"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name))
        check_tol(self.tol)
        there = int((weights > 0).sum())
        if self.n_clusters > there:
            raise InvalidArgumentError(
                f"n_samples={there} should be >= n_clusters={self.n_clusters}: n_clusters is "
                f"{self.n_clusters}, and "
                "there are fewer series (with a weight above 0)"
            )
        if isinstance(self.init, str):
            choice("init", self.init, ("k-means++", "random"))

    def _keep(self, best: _Start) -> None:
        self.cluster_centers_, self.labels_ = best.centers, best.labels
        self.inertia_, self.n_iter_, self.converged_ = best.inertia, best.iterations, best.converged
        if self.interrupted_:
            warnings.warn(
                f"SoftDTWKMeans was interrupted: these are the best clusters so far, of inertia "
                f"{best.inertia:.6g}",
                ConvergenceWarning,
                stacklevel=3,
            )
        elif len(np.unique(best.labels)) < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({len(np.unique(best.labels))}) found smaller than n_clusters "
                f"({self.n_clusters}). Possibly due to duplicate points in X.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def _assign(self, series: Series) -> Assignments:
        """The series whose values are asked for next."""
        self._assignments = Assignments(series, self._options(), self._team)
        return self._assignments

    def _start_of_batches(
        self, series: Series, weights: NDArray[Any], rng: np.random.RandomState
    ) -> _Start | None:
        """One start of which each round sees a batch."""
        batches = Batches(series, weights, self.batch_size or 1, self.n_clusters, self.tol)
        centers: NDArray[np.float64] | None = None
        try:
            longest, sample = int(series.sizes().max()), series.take(batches.first(rng))
            self._assign(sample)
            centers = self._first_centers(sample, np.ones(len(sample)), rng, longest)
            with Bar(self.progress, self.max_iter, "k-means") as bar:
                while batches.rounds < self.max_iter and not batches.settled:
                    drawn = batches.draw(rng)
                    batch = series.take(drawn)
                    values = self._assign(batch).to_centers(centers)
                    self._require_paths(values.min(axis=1), drawn)
                    labels = values.argmin(axis=1)
                    bar.update(inertia=f"{batches.watch(values.min(axis=1)):.6g}")
                    if self.verbose > 1:
                        print(f"  batch {batches.rounds}: inertia {batches.inertia:.6g}")
                    nobody = np.zeros(len(batch), bool)
                    of, descents = self._objectives(batch, centers), self._descents()
                    found = self._averages(of, np.ones(len(batch)), labels, centers, nobody, descents)
                    centers = batches.moved(centers, found, labels)
                    if self.interrupted_:
                        break
        except KeyboardInterrupt:
            self.interrupted_ = True
        if centers is None:
            return None
        nearest = self._nearest(series, centers)
        inertia = float(weights @ nearest["values"][:, 0].astype(np.float64))
        labels = nearest["indices"][:, 0].astype(np.int32)
        return _Start(inertia, centers, labels, batches.rounds, batches.settled)

    def _start(self, series: Series, weights: NDArray[Any], rng: np.random.RandomState) -> _Start | None:
        """One start; None if Ctrl-C came before there were any clusters."""
        best: _Start | None = None
        history: list[float] = []  # of inertia: that of the first centers, and one after each round
        stop = False
        try:
            centers = self._first_centers(series, weights, rng, int(series.sizes().max()))
            of, descents = self._objectives(series, centers), self._descents()
            to_centers = self._assignments.to_centers
            everyone, before = np.arange(len(series)), np.full(len(series), -1, np.int32)
            values, moving = np.empty((len(series), self.n_clusters)), np.ones(self.n_clusters, bool)
            with Bar(self.progress, self.max_iter, "k-means") as bar:
                while True:
                    if moving.any():
                        values[:, moving] = to_centers(centers[moving])
                        worse = descents.undone(centers, self._assignments.sums(values, weights, before))
                        if worse.any():
                            values[:, worse] = to_centers(centers[worse])
                    labels = values.argmin(axis=1).astype(np.int32)
                    nearest = values[everyone, labels]
                    if best is None:  # later ones have as many time steps
                        self._require_paths(nearest)
                    inertia = float(weights @ nearest)
                    stop = len(history) > 1 and history[-2] - inertia <= self.tol * abs(history[-2])
                    history.append(inertia)
                    if best is None or inertia <= best.inertia:
                        best = _Start(inertia, centers, labels)
                    rounds = len(history) - 1
                    if rounds:
                        bar.update(inertia=f"{inertia:.6g}")
                    if self.verbose > 1:
                        print(f"  round {rounds}: inertia {inertia:.6g}")
                    if stop or rounds == self.max_iter:
                        break
                    used = with_a_series_each(labels, nearest, weights, self.n_clusters)
                    moved = moves(before, used, self.n_clusters)
                    # What has its series, and gained less than its share of tol, stays where it is
                    descents.least_gain = max(self.tol, 0) * abs(inertia) / self.n_clusters
                    moving = (moved > 0) | (descents.gained >= descents.least_gain)
                    changed = moved / np.maximum(np.bincount(used, minlength=self.n_clusters), 1)
                    lost, resting = used != labels, ~moving
                    centers = self._averages(of, weights, used, centers, lost, descents, changed, resting)
                    before = used
                    if self.interrupted_:
                        break
        except KeyboardInterrupt:
            self.interrupted_ = True
        return None if best is None else best._replace(iterations=len(history) - 1, converged=stop)

    def _first_centers(
        self, series: Series, weights: NDArray[Any], rng: np.random.RandomState, longest: int
    ) -> NDArray[np.float64]:
        if not isinstance(self.init, str):
            return given_centers(self.init, self.n_clusters, series.features, self.center_length)
        if self.init == "random":
            drawn = rng.choice(len(series), self.n_clusters, replace=False, p=weights / weights.sum())
        else:
            drawn = plus_plus(self._assignments.to_series, weights, self.n_clusters, rng)
        length = self.center_length or longest
        return np.stack([stretched(series.one(int(b)), length) for b in drawn])

    def _descents(self) -> Descents:
        if self.metric == "sqeuclidean":
            return Majorants(self.n_clusters, self.gamma_)
        return QuasiNewton(self.n_clusters, self.metric, self.gamma_)

    def _objectives(self, series: Series, centers: NDArray[Any]) -> Any:
        of = Objectives if self._team is None else self._team.objectives
        return of(centers.shape[1:], series, self.n_clusters, self._options())

    def _averages(
        self,
        of: Any,
        weights: NDArray[Any],
        labels: NDArray[Any],
        centers: NDArray[Any],
        moved: NDArray[Any],
        descents: Descents,
        changed: NDArray[Any] | None = None,
        resting: NDArray[np.bool_] | None = None,
    ) -> NDArray[np.float64]:
        """Each cluster's average, searched from its center, or from the series that an empty one was
        given."""
        begin, anew = centers.copy(), np.zeros(self.n_clusters, bool)
        for cluster in np.unique(labels[moved & (weights > 0)]):
            members = np.flatnonzero((labels == cluster) & (weights > 0))
            begin[cluster] = stretched(of.series.one(int(members[0])), begin.shape[1])
            anew[cluster] = True
        descents.forget(anew)

        def objectives(some: NDArray[np.bool_]) -> Any:
            return of.of(np.where(some[labels], weights, 0), labels)

        averages, interrupted = descents.run(begin, objectives, self.max_iter_barycenter, changed, resting)
        self.interrupted_ |= interrupted
        return averages

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[np.int32]:
        """The cluster of each series of X, (B,), in memory of one block of values."""
        labels: NDArray[np.int32] = self._assigned(X, lengths)["indices"][:, 0].astype(np.int32)
        return labels

    def transform(self, X: Any, *, lengths: Any = None) -> NDArray[Any]:
        """Values of each series of X with each center, (B, k); infinite without a path."""
        series = self._new_series(X, lengths)
        return self._values(series, _batch(self.cluster_centers_, series))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """Minus the inertia of X."""
        nearest = self._assigned(X, lengths)["values"][:, 0].astype(np.float64)
        return -float(check_weights("sample_weight", sample_weight, len(nearest)) @ nearest)

    def _assigned(self, given: Any, lengths: Any) -> Any:
        return self._nearest(self._new_series(given, lengths), self.cluster_centers_)

    def _nearest(self, series: Series, centers: NDArray[Any]) -> Any:
        """Each series' center, and the value with it."""
        found = run(self._job(series, _batch(centers, series), TopK(1)))
        self._require_paths(found["values"][:, 0])
        return found

    def _require_paths(self, least: NDArray[Any], numbers: NDArray[Any] | None = None) -> None:
        """As centers have the same time steps, a band leaves a series a path to all of them or to none."""
        require_paths("X", least, self._options(), "center", "another center_length", numbers)


def _batch(centers: NDArray[Any], series: Series) -> Series:
    """Centers of the type of a collection's values, and on its device."""
    return Series(centers_like(centers, series))
