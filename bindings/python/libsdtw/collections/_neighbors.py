# Nearest neighbours of series: search, classification and regression.
"""SoftDTWNearestNeighbors, SoftDTWKNeighborsClassifier, SoftDTWKNeighborsRegressor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from .._core import InvalidArgumentError
from .._problem import choice, count
from ._base import MatrixEstimator, check_size, documented, encoded
from ._keep import BLOCK_PAIRS, TopK
from ._search import run
from ._series import Series, as_numpy, hosted

WEIGHTS = ("uniform", "distance")
LEAST_ROWS = (
    64  # of new series at a time, each of which asks for the values of training series with themselves
)


class _Neighbors(MatrixEstimator):
    """The k series of the training set that are nearest, in memory of one block of values."""

    n_neighbors: int
    progress: bool
    checkpoint: str | os.PathLike[str] | None
    _last = "_training"
    _training: Series | NDArray[Any]  # or values of training series with each other

    def _keep_training(self, X: Any, lengths: Any) -> int:
        """How many series there are."""
        count("n_neighbors", self.n_neighbors)
        training = self._fit_values(X, lengths) if self._of_values else self._fit_series(X, lengths)
        self._training, self.n_samples_fit_ = training, len(training)
        return self.n_samples_fit_

    def kneighbors(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        return_distance: bool = True,
        *,
        lengths: Any = None,
    ) -> Any:
        """The training series that are nearest to each series of X, nearest first.

        Args:
            X: a collection; None: the training series, none of which is its own neighbour.
            n_neighbors: how many; None: as the estimator says.

        Returns:
            Values and indices, (B, k) each; without return_distance the indices.
        """
        values, indices = self._nearest(self._new(X, lengths), n_neighbors)
        return (values, indices) if return_distance else indices

    def kneighbors_graph(
        self,
        X: Any = None,
        n_neighbors: int | None = None,
        mode: str = "connectivity",
        *,
        lengths: Any = None,
    ) -> Any:
        """The graph of :meth:`kneighbors` as a sparse matrix (B, training series), without what has no path.

        Args:
            mode: what an edge has: "connectivity", 1; "distance", the value.
        """
        from scipy.sparse import csr_matrix  # type: ignore[import-untyped]

        choice("mode", mode, ("connectivity", "distance"))
        values, indices = self.kneighbors(X, n_neighbors, lengths=lengths)
        there = np.isfinite(values)
        ends = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
        data = values[there] if mode == "distance" else np.ones(ends[-1])
        return csr_matrix((data, indices[there], ends), shape=(len(values), self.n_samples_fit_))

    def radius_neighbors(
        self, X: Any, radius: float, return_distance: bool = True, *, lengths: Any = None
    ) -> Any:
        """The training series of which the value with each series of X is at most `radius`, nearest first.

        Args:
            X: a collection; None: the training series, none of which is its own neighbour.
            radius: a value; that of a band is the estimator's.

        Returns:
            Values and indices, arrays (B,) of arrays; without return_distance the indices.
        """
        if not isinstance(radius, Real):
            raise TypeError(f"radius is {radius!r}: expected a number, the largest value of a neighbour")
        if np.isnan(float(radius)):
            raise InvalidArgumentError(f"radius is {radius!r}: expected the largest value of a neighbour")
        given, training = self._new(X, lengths), self._training
        first = training if given is None else given
        found: list[tuple[NDArray[Any], NDArray[np.int64]]] = []
        rows = max(LEAST_ROWS, BLOCK_PAIRS // len(training))
        for begin in range(0, len(first), rows):
            if isinstance(training, Series):
                values = self._values(first.part(begin, begin + rows), training)
            else:
                values = first[begin : begin + rows]
            for row, of_row in enumerate(values, begin):
                near = of_row <= radius
                if given is None:
                    near[row] = False
                order = np.flatnonzero(near)[np.argsort(of_row[near], kind="stable")]
                found.append((of_row[order], order))
        values, indices = (np.empty(len(first), object) for _ in range(2))
        for row, (of_row, order) in enumerate(found):
            values[row], indices[row] = of_row, order
        return (values, indices) if return_distance else indices

    def _new(self, X: Any, lengths: Any) -> Any:
        """Series, or values, to predict; None for the training series themselves."""
        self._check_fit_of(values=self._of_values)
        if X is None:
            return None
        return self._new_values(X, lengths) if self._of_values else self._new_series(X, lengths)

    def _nearest(self, given: Any, n_neighbors: int | None = None) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Values and indices of what is new, or for None of the training series."""
        k = count("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        training, itself = self._training, given is None
        most = self.n_samples_fit_ - itself
        if k > most:
            raise InvalidArgumentError(
                f"n_neighbors is {k}: Expected n_neighbors <= n_samples_fit, of which there are {most}"
            )
        keep = TopK(k, itself)
        if isinstance(training, Series):
            first, second = (training, None) if itself else (given, training)
            found = run(self._job(first, second, keep), self.checkpoint, self.progress)
            values, indices = found["values"], found["indices"]
        else:
            values, indices = keep.of(training if itself else given)
        self._require_finite(values[:, 0], "training series", "training series of about its length")
        return values, indices


@documented
class SoftDTWNearestNeighbors(_Neighbors):
    """Search for the series of a database that are nearest to a query.

    Args:
        n_neighbors: how many.
        checkpoint: a directory from which a search that was killed goes on; see :func:`reduce_pairs`.
        progress: show a progress bar of tqdm.
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        gamma: float | str = "median",
        metric: str = "sqeuclidean",
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = True,
        scaler: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        device: str | Sequence[str] | None = None,
        num_threads: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.gamma = gamma
        self.metric = metric
        self.band = band
        self.radius = radius
        self.step_weights = step_weights
        self.step_penalties = step_penalties
        self.normalize = normalize
        self.scaler = scaler
        self.checkpoint = checkpoint
        self.progress = progress
        self.device = device
        self.num_threads = num_threads

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None) -> SoftDTWNearestNeighbors:
        """Keeps the database X, a collection; y is not used."""
        self._keep_training(X, lengths)
        return self


class _Supervised(_Neighbors):
    """Neighbours that have a target."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: str = "uniform",
        gamma: float | str = "median",
        metric: str = "sqeuclidean",
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = True,
        scaler: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        progress: bool = False,
        device: str | Sequence[str] | None = None,
        num_threads: int = 0,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.gamma = gamma
        self.metric = metric
        self.band = band
        self.radius = radius
        self.step_weights = step_weights
        self.step_penalties = step_penalties
        self.normalize = normalize
        self.scaler = scaler
        self.checkpoint = checkpoint
        self.progress = progress
        self.device = device
        self.num_threads = num_threads

    def _check_weights(self) -> None:
        choice("weights", self.weights, WEIGHTS)
        if self.weights == "distance" and not self.normalize and not self._of_values:
            raise InvalidArgumentError(
                "weights is 'distance' with normalize False: soft-DTW itself may be negative; expected "
                "'uniform', or "
                "normalize True"
            )

    def _voices(self, X: Any, lengths: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Indices of the neighbours, and what each counts for, (B, k): nothing without a path to it."""
        self._check_weights()  # those that are set now, be it after fit
        given = self._new(X, lengths)
        values, indices = self._nearest(given)
        if self.weights == "uniform":
            return indices, np.isfinite(values).astype(np.float64)
        return indices, inverses(values.astype(np.float64), self._rounding(given, indices, values.dtype))

    def _rounding(self, given: Any, indices: NDArray[np.int64], dtype: Any) -> NDArray[np.float64] | float:
        """What rounding may make of a divergence that is 0, by what the library promises of its terms.

        The value of a series with itself is between 0 and -gamma times the logarithm of the number of paths,
        which of n + m steps is at most (n + m) log(1 + sqrt(2)), but for the penalties of a path.
        """
        if not isinstance(self._training, Series):
            return 0.0
        sizes = self._training.sizes()
        steps = (sizes if given is None else given.sizes())[:, None] + sizes[indices]
        penalty = max(map(abs, self._options().rules.step_penalty))
        terms = (np.log1p(np.sqrt(2)) * self.gamma_ + penalty) * steps + self.gamma_ * np.sqrt(steps)
        return np.asarray(8 * float(np.finfo(dtype).eps) * terms, np.float64)


def inverses(values: NDArray[np.float64], rounding: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """What neighbours of these values (B, k) count for, relative to the nearest: see `weights`."""
    copies = np.abs(values) <= rounding
    least = np.maximum(values, np.maximum(rounding, -values.min(axis=1, keepdims=True)))
    with np.errstate(invalid="ignore"):  # 0 / 0 of copies
        shares = least.min(axis=1, keepdims=True) / least
    return np.where(copies.any(axis=1, keepdims=True), copies, shares)


@documented
class SoftDTWKNeighborsClassifier(ClassifierMixin, _Supervised):  # type: ignore[misc]
    """The class that most of the nearest training series are of.

    Args:
        n_neighbors: how many.
        weights: what a neighbour counts for: "uniform", the same; "distance", the inverse of its value. What
            differs from 0 by rounding alone is a copy of the series, and copies share the whole vote.
            Divergences may be a little negative: values below the size of the most negative one among the
            neighbours count as if they were of that size.
        checkpoint: a directory from which a search that was killed goes on; see :func:`reduce_pairs`.
        progress: show a progress bar of tqdm.
    """

    _last = "_codes"

    def fit(self, X: Any, y: Any, *, lengths: Any = None) -> SoftDTWKNeighborsClassifier:
        """Keeps X, a collection, and its classes y, (B,)."""
        if y is None:
            raise InvalidArgumentError("This estimator requires y to be passed, but the target y is None")
        self._check_weights()
        self.classes_, self._codes = encoded(y, self._keep_training(X, lengths))
        return self

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[Any]:
        """The class of each series of X; of two with the same weight the first."""
        check_is_fitted(self)
        classes: NDArray[Any] = self.classes_[self.predict_proba(X, lengths=lengths).argmax(axis=1)]
        return classes

    def predict_proba(self, X: Any, *, lengths: Any = None) -> NDArray[np.float64]:
        """Each class' share of the neighbours' weight, (B, classes)."""
        check_is_fitted(self)
        indices, voices = self._voices(X, lengths)
        shares = np.zeros((len(indices), len(self.classes_)))
        np.add.at(shares, (np.arange(len(indices))[:, None], self._codes[indices]), voices)
        shares /= shares.sum(axis=1, keepdims=True)
        return shares

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """The share of series of which the class is predicted."""
        return float(
            accuracy_score(hosted(y), self.predict(X, lengths=lengths), sample_weight=hosted(sample_weight))
        )


@documented
class SoftDTWKNeighborsRegressor(RegressorMixin, _Supervised):  # type: ignore[misc]
    """The mean target of the nearest training series.

    Args:
        n_neighbors: how many.
        weights: what a neighbour counts for: "uniform", the same; "distance", the inverse of its value. What
            differs from 0 by rounding alone is a copy of the series, and copies share the whole vote.
            Divergences may be a little negative: values below the size of the most negative one among the
            neighbours count as if they were of that size.
        checkpoint: a directory from which a search that was killed goes on; see :func:`reduce_pairs`.
        progress: show a progress bar of tqdm.
    """

    _last = "_targets"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, *, lengths: Any = None) -> SoftDTWKNeighborsRegressor:
        """Keeps X, a collection, and its targets y, (B,) or (B, targets)."""
        if y is None:
            raise InvalidArgumentError("This estimator requires y to be passed, but the target y is None")
        self._check_weights()
        size = self._keep_training(X, lengths)
        targets = as_numpy("y", y)
        if targets.dtype.kind not in "biufO":
            raise InvalidArgumentError(f"y has dtype {targets.dtype}: expected numbers")
        try:
            targets = targets.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(f"y holds what is no number: {error}") from None
        if targets.ndim not in (1, 2):
            raise InvalidArgumentError(f"y has shape {targets.shape}: expected (B,) or (B, targets)")
        check_size(targets, size)
        if not np.isfinite(targets).all():
            raise InvalidArgumentError("y has NaN or inf: expected finite numbers")
        self._targets = targets
        return self

    def predict(self, X: Any, *, lengths: Any = None) -> NDArray[np.float64]:
        """The weighted mean of the neighbours' targets."""
        check_is_fitted(self)
        indices, voices = self._voices(X, lengths)
        share = voices / voices.sum(axis=1, keepdims=True)
        mean: NDArray[np.float64] = np.einsum("bk,bk...->b...", share, self._targets[indices])
        return mean

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, lengths: Any = None) -> float:
        """R^2 of the predicted targets."""
        return float(
            r2_score(hosted(y), self.predict(X, lengths=lengths), sample_weight=hosted(sample_weight))
        )
