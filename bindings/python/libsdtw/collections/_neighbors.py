# Nearest neighbours of series: search, classification and regression.
"""SoftDTWNearestNeighbors, SoftDTWKNeighborsClassifier, SoftDTWKNeighborsRegressor."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from .._core import InvalidArgumentError
from .._problem import choice, count
from ._base import SeriesEstimator, check_size, documented, encoded
from ._keep import TopK
from ._paths import require_paths
from ._search import run
from ._series import Series, as_numpy, hosted

WEIGHTS = ("uniform", "distance")


class _Neighbors(SeriesEstimator):
    """The k series of the training set that are nearest, in memory of one block of values."""

    n_neighbors: int
    progress: bool
    checkpoint: str | os.PathLike[str] | None
    _last = "_series"

    def _keep_training(self, X: Any, lengths: Any) -> Series:
        count("n_neighbors", self.n_neighbors)
        self._series = self._fit_series(X, lengths)
        self.n_samples_fit_ = len(self._series)
        return self._series

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
        check_is_fitted(self)
        k = count("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        most = self.n_samples_fit_ - (X is None)
        if k > most:
            raise InvalidArgumentError(
                f"n_neighbors is {k}: Expected n_neighbors <= n_samples_fit, of which there are {most}"
            )
        series = self._series if X is None else self._new_series(X, lengths)
        other = None if X is None else self._series
        found = run(self._job(series, other, TopK(k, X is None)), self.checkpoint, self.progress)
        instead = "training series of about its length"
        require_paths("X", found["values"][:, 0], self._options(), "training series", instead)
        return (found["values"], found["indices"]) if return_distance else found["indices"]


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
        if self.weights == "distance" and not self.normalize:
            raise InvalidArgumentError(
                "weights is 'distance' with normalize False: soft-DTW itself may be negative; expected "
                "'uniform', or "
                "normalize True"
            )

    def _voices(self, X: Any, lengths: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Indices of the neighbours, and what each counts for, (B, k): nothing without a path to it."""
        values, indices = self.kneighbors(X, lengths=lengths)
        if self.weights == "uniform":
            return indices, np.isfinite(values).astype(np.float64)
        values = np.maximum(values.astype(np.float64), 0)
        same = values == 0  # a copy of the query outvotes all that are not
        with np.errstate(divide="ignore"):
            return indices, np.where(same.any(axis=1, keepdims=True), same, 1 / values)


@documented
class SoftDTWKNeighborsClassifier(ClassifierMixin, _Supervised):  # type: ignore[misc]
    """The class that most of the nearest training series are of.

    Args:
        n_neighbors: how many.
        weights: what a neighbour counts for: "uniform", the same; "distance", the inverse of its value.
        checkpoint: a directory from which a search that was killed goes on; see :func:`reduce_pairs`.
        progress: show a progress bar of tqdm.
    """

    _last = "_codes"

    def fit(self, X: Any, y: Any, *, lengths: Any = None) -> SoftDTWKNeighborsClassifier:
        """Keeps X, a collection, and its classes y, (B,)."""
        if y is None:
            raise InvalidArgumentError("This estimator requires y to be passed, but the target y is None")
        self._check_weights()
        series = self._keep_training(X, lengths)
        self.classes_, self._codes = encoded(y, len(series))
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
        weights: what a neighbour counts for: "uniform", the same; "distance", the inverse of its value.
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
        series = self._keep_training(X, lengths)
        targets = as_numpy("y", y)
        if targets.dtype.kind not in "biufO":
            raise InvalidArgumentError(f"y has dtype {targets.dtype}: expected numbers")
        try:
            targets = targets.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise type(error)(f"y holds what is no number: {error}") from None
        if targets.ndim not in (1, 2):
            raise InvalidArgumentError(f"y has shape {targets.shape}: expected (B,) or (B, targets)")
        check_size(targets, len(series))
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
