# What the estimators share: the options of a value, checks in scikit-learn's manner, device and gamma of a
# fit.
"""SeriesEstimator; MatrixEstimator of those that take values as well; ClusterEstimator of those that find
clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from .._core import InvalidArgumentError
from .._problem import choice
from ._blocks import Job
from ._devices import parse
from ._keep import Keep, Matrix
from ._pairs import PairOptions, resolve_gamma
from ._paths import require_paths
from ._search import run
from ._series import Series, as_series, hosted
from ._transforms import SCALERS, scaled

SHARED = """        gamma: smoothing, a number; "median": a tenth of the median cost of two time steps of
            different training series.
        metric, band, radius, step_weights, step_penalties: as of :func:`libsdtw.numpy.soft_dtw`{or_values}.
        normalize: compare by the soft-DTW divergence; False: by soft-DTW itself.
        scaler: what is done to each feature of each series first: None, nothing; "standard", mean 0 and
            deviation 1; "minmax", in [0, 1]. Either makes constants 0.
        device: "cpu", "cuda" or "cuda:N"; None: where the series are. A list: several that
            share the work.
        num_threads: threads of the calls; 0: OpenMP's default. Any number gives the same result.
"""
OR_VALUES = """;
            metric "precomputed": X is a matrix of values, in ``fit`` (B, B) of the training series with each
            other, elsewhere (Q, B) of others with them, and what says how values are computed is not used"""
PRECOMPUTED = "precomputed"
T = TypeVar("T", bound=type)


def documented(kind: T) -> T:
    """The class with what all estimators share at the end of its arguments."""
    before, attributes, after = (kind.__doc__ or "").partition("\n    Attributes:")
    shared = SHARED.format(or_values=OR_VALUES if issubclass(kind, MatrixEstimator) else "")
    kind.__doc__ = before.rstrip() + "\n" + shared + attributes + after
    return kind


class SeriesEstimator(BaseEstimator):  # type: ignore[misc]
    """Options of values, and series in every form that :func:`libsdtw.collections.reduce_pairs` takes."""

    gamma: float | str
    metric: str
    band: str | None
    radius: float | None
    step_weights: Sequence[float]
    step_penalties: Sequence[float]
    normalize: bool
    scaler: str | None
    device: str | Sequence[str] | None
    num_threads: int
    _last: str  # what fit sets last: an estimator whose fit has failed is not fitted

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, self._last)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True  # at the end of a series, where it is padding
        return tags

    def _check_shared(self) -> None:
        if self.scaler is not None:
            choice("scaler", self.scaler, SCALERS)
        parse(self.device)

    def _fit_series(self, given: Any, lengths: Any) -> Series:
        """The training series; sets n_features_in_ and gamma_."""
        self._check_shared()
        series = scaled(as_series("X", given, lengths, parse(self.device)[0]), self.scaler)
        self.__dict__.pop(self._last, None)  # of an earlier fit, which does not go with what is set now
        self.n_features_in_ = series.features
        self.gamma_ = resolve_gamma(self.gamma, series, self.metric)
        self._options().check()
        return series

    def _new_series(self, given: Any, lengths: Any) -> Series:
        """Series to predict."""
        self._check_fit_of(values=False)
        self._check_shared()  # what is set now, be it after fit
        series = scaled(as_series("X", given, lengths, parse(self.device)[0]), self.scaler)
        self._check_features(series.features)
        return series

    def _check_features(self, there: int) -> None:
        if there != self.n_features_in_:
            raise InvalidArgumentError(
                f"X has {there} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )

    def _check_fit_of(self, values: bool) -> None:
        """Raises unless fit was given series, or values of them."""
        check_is_fitted(self)
        if values == hasattr(self, "gamma_"):
            raise InvalidArgumentError(
                f"metric is {self.metric!r}, and fit was given {'series' if values else 'values'}: expected "
                "the metric of fit, or another fit"
            )

    def _options(self) -> PairOptions:
        return PairOptions(
            self.gamma_,
            *(self.metric, self.band, self.radius, self.step_weights, self.step_penalties),
            *(self.normalize, self.num_threads),
        )

    def _values(self, x: Series, y: Series | None, progress: bool = False) -> NDArray[Any]:
        """The matrix of all pairs."""
        matrix: NDArray[Any] = run(self._job(x, y, Matrix()), progress=progress)["matrix"]
        return matrix

    def _job(self, x: Series, y: Series | None, keep: Keep) -> Job:
        return Job(x, y, self._options(), keep, devices=parse(self.device)[1])


class MatrixEstimator(SeriesEstimator):
    """Takes series or, with metric "precomputed", values of series that were computed before."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self._of_values
        tags.input_tags.allow_nan = not self._of_values
        return tags

    @property
    def _of_values(self) -> bool:
        return isinstance(self.metric, str) and self.metric == PRECOMPUTED

    def _fit_values(self, given: Any, lengths: Any) -> NDArray[Any]:
        """Values of the training series with each other; sets n_features_in_."""
        values = _matrix(given, lengths)
        if values.shape[0] != values.shape[1]:
            raise InvalidArgumentError(
                f"X has shape {values.shape} and metric is 'precomputed': expected (B, B), the values of "
                "training series with each other"
            )
        for name in (self._last, "gamma_"):
            self.__dict__.pop(name, None)
        self.n_features_in_ = len(values)
        return values

    def _new_values(self, given: Any, lengths: Any) -> NDArray[Any]:
        """Values of series to predict with those of the training set."""
        self._check_fit_of(values=True)
        values = _matrix(given, lengths)
        self._check_features(values.shape[1])
        return values

    def _require_finite(self, least: NDArray[Any], other: str, instead: str) -> None:
        """Raises if a series of X, of which the least values are given, has a path to none of the others."""
        if not self._of_values:
            require_paths("X", least, self._options(), other, instead)
        elif not np.isfinite(least).all():
            raise InvalidArgumentError(
                f"X[{np.flatnonzero(~np.isfinite(least))[0]}] has no finite value with any {other}: expected "
                "one or more"
            )


def _matrix(given: Any, lengths: Any) -> NDArray[Any]:
    if lengths is not None:
        raise InvalidArgumentError("lengths is given and metric is 'precomputed': expected None")
    if np.ma.is_masked(given):  # what is under the mask would be taken for values
        raise InvalidArgumentError("X has masked elements: expected an array without")
    kinds = [np.float64, np.float32]
    values = check_array(hosted(given), dtype=kinds, ensure_all_finite=False, input_name="X")
    if not values.min() > -np.inf:
        i, j = np.argwhere(~(values > -np.inf))[0]
        raise InvalidArgumentError(
            f"X[{i}, {j}] is {values[i, j]}: expected numbers, or infinity where there is no path"
        )
    return np.asarray(values)


class ClusterEstimator(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, SeriesEstimator):  # type: ignore[misc]
    """What fits clusters: the methods that scikit-learn's mixins have, for series that come with lengths."""

    cluster_centers_: Any
    _last = "cluster_centers_"

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None
    ) -> NDArray[Any]:
        """labels_ of fit."""
        labels: NDArray[np.int32] = self.fit(X, y, sample_weight, lengths=lengths).labels_
        return labels

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None
    ) -> NDArray[Any]:
        """transform of what was fitted."""
        values: NDArray[Any] = self.fit(X, y, sample_weight, lengths=lengths).transform(X, lengths=lengths)
        return values

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)


def encoded(targets: Any, size: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Class labels and each series' index into them, checked as scikit-learn's classifiers do."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import column_or_1d

    if np.ma.is_masked(targets):  # what is under the mask would be taken for classes
        raise InvalidArgumentError("y has masked elements: expected an array without")
    targets = hosted(targets)
    check_classification_targets(targets)
    labels = column_or_1d(targets, warn=True)
    check_size(labels, size)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def check_size(targets: NDArray[Any], size: int) -> None:
    if len(targets) != size:
        raise InvalidArgumentError(f"y has {len(targets)} targets and X {size} series: expected as many")
