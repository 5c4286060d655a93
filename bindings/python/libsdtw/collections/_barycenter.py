# The average of a collection: of squared distances by majorants, of other metrics by L-BFGS of SciPy.
"""soft_dtw_barycenter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import InvalidArgumentError
from .._problem import count
from ._blocks import Job
from ._descent import FLAT, NOISE
from ._devices import parse
from ._keep import Matrix
from ._majorize import Majorants
from ._objective import Evaluated, Objective, Objectives
from ._pairs import PairOptions, raw_values, resolve_gamma
from ._paths import require_paths
from ._progress import Bar
from ._search import run
from ._series import Series, as_numpy, as_series, centers_like
from ._team import Team
from ._transforms import stretched


class BarycenterInfo(NamedTuple):
    """What the search for a barycenter came to.

    Attributes:
        value: the weighted mean of its values with all series.
        n_iter: steps that were tried.
        converged: whether the search ended by itself, where `tol` says or steps lower the mean no more, and
            not at max_iter.
        interrupted: whether Ctrl-C ended it.
    """

    value: float
    n_iter: int
    converged: bool
    interrupted: bool


def soft_dtw_barycenter(
    series: Any,
    *,
    weights: ArrayLike | None = None,
    init: ArrayLike | None = None,
    length: int | None = None,
    gamma: float | str = "median",
    metric: str = "sqeuclidean",
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    normalize: bool = True,
    lengths: Any = None,
    max_iter: int = 50,
    tol: float = FLAT,
    return_info: bool = False,
    device: str | Sequence[str] | None = None,
    progress: bool = False,
    num_threads: int = 0,
) -> Any:
    """The series with the least weighted mean value to all given ones (Cuturi and Blondel 2017).

    Args:
        series: a collection, as :func:`reduce_pairs` takes it, with its lengths.
        weights: (B,), not negative; None: all alike.
        init: where the search begins, (M, D) or (M,); None: the mean of the series, each stretched to
            `length`.
        length: time steps of the average; None: of init, or of the longest series.
        normalize: minimise the divergence, which does not shrink the average as soft-DTW does where gamma is
            large.
        max_iter: steps at most: of squared distances those of DTW barycenter averaging by soft alignments,
            with momentum; of other metrics those of L-BFGS.
        tol: stop where the largest entry of the gradient of the mean, times what is typically between two
            time steps, is smaller, relative to gamma, or to that of :func:`median_gamma` where gamma is 0 or
            larger.
        return_info: say what the search came to, too.
        progress: show a progress bar of tqdm.

    The other arguments are those of :func:`reduce_pairs`. Ctrl-C gives the best series so far.

    Returns:
        The barycenter, (M, D), in float64; with return_info that and a :class:`BarycenterInfo`.
    """
    if not isinstance(return_info, (bool, np.bool_)):
        raise TypeError(f"return_info is {return_info!r}: expected True or False")
    place, names = parse(device)
    batch = as_series("series", series, lengths, place)
    options = PairOptions(
        resolve_gamma(gamma, batch, metric),
        *(metric, band, radius, step_weights, step_penalties, normalize, num_threads),
    )
    options.check()
    share = check_weights("weights", weights, len(batch))
    check_tol(tol)
    if length is not None:
        count("length", length)
    begin = _start(init, batch, share, length)
    with ExitStack() as stack:
        bar = stack.enter_context(Bar(progress, count("max_iter", max_iter, least=0), "barycenter"))
        of = stack.enter_context(Team(names, options)).objectives if names else Objectives
        found = descend(begin, batch, share, options, max_iter, tol, bar, of)
    if not return_info:
        return found.best
    there = np.flatnonzero(share)
    job = Job(batch.take(there), _alone(found.best, batch), options, Matrix(), devices=names)
    value = float(share[there] @ run(job)["matrix"][:, 0].astype(np.float64) / share.sum())
    return found.best, BarycenterInfo(value, found.steps, found.converged, found.interrupted)


def check_weights(name: str, given: Any, size: int) -> NDArray[np.float64]:
    """Weights of series, not negative and not all 0; ones for None."""
    if given is None:
        return np.ones(size)
    weights = as_numpy(name, given, np.float64)
    if weights.ndim == 0:
        weights = np.full(size, float(weights))
    if weights.shape != (size,):
        raise InvalidArgumentError(
            f"{name} has shape {weights.shape}: expected ({size},), one for each series"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise InvalidArgumentError(
            f"{name} has one that is negative or not finite, or all are zero: expected >= 0"
        )
    return weights


def check_tol(tol: object) -> None:
    """Raises unless a step's gain can be compared with it."""
    if not isinstance(tol, Real):
        raise TypeError(f"tol is {tol!r}: expected a number")
    if np.isnan(float(tol)):
        raise InvalidArgumentError(f"tol is {tol!r}: expected a number")


def _start(init: Any, batch: Series, share: NDArray[Any], length: int | None) -> NDArray[np.float64]:
    if init is not None:
        begin = np.array(as_numpy("init", init, np.float64))
        if begin.ndim == 1:
            begin = begin[:, None]
        if begin.ndim != 2 or begin.shape[1] != batch.features or 0 in begin.shape:
            raise InvalidArgumentError(
                f"init has shape {tuple(np.shape(init))}: expected (M, {batch.features})"
            )
        if not np.isfinite(begin).all():
            raise InvalidArgumentError("init has NaN or infinity: expected finite numbers")
        return begin if length is None else stretched(begin, length)
    return stretched_mean(batch, share, length or int(batch.sizes().max()))


def stretched_mean(batch: Series, share: NDArray[Any], length: int) -> NDArray[np.float64]:
    """The weighted mean of series that are stretched to one length."""
    mean = np.zeros((length, batch.features))
    for b in np.flatnonzero(share):
        mean += share[b] / share.sum() * stretched(batch.one(int(b)), length)
    return mean


def descend(
    begin: NDArray[np.float64],
    batch: Series,
    share: NDArray[Any],
    options: PairOptions,
    max_iter: int,
    tol: float,
    bar: Bar,
    of: Callable[..., Any],
) -> _Watched:
    """A search from begin for the best series, which Ctrl-C ends. of: Objectives, or a team's."""
    objective = of(begin.shape, batch, 1, options).of(share, np.zeros(len(batch), int))
    watched = _Watched(begin, objective, bar)
    if max_iter == 0:
        return watched
    if options.metric == "sqeuclidean":
        noise = NOISE if batch.value_dtype == np.float32 else NOISE**2
        descents = Majorants(1, options.gamma, tol, enough=0, noise=noise)
        _, watched.interrupted = descents.run(begin[None], lambda _: watched, max_iter + 1)
        watched.steps, watched.converged = max(0, watched.calls - 1), bool(descents.settled[0])
    else:
        try:
            _by_scipy(watched, options, max_iter, tol)
        except KeyboardInterrupt:
            watched.interrupted = True
    if not np.isfinite(watched.value):
        _require_paths(begin, batch, share, options)
    return watched


def _require_paths(begin: NDArray[Any], batch: Series, share: NDArray[Any], options: PairOptions) -> None:
    """Raises if a series that has a weight has no path to an average of these time steps."""
    there = np.flatnonzero(share)
    values = raw_values(batch.take(there), _alone(begin, batch), options)[:, 0]
    require_paths("series", values, options, "average", "another length", there)


def _alone(center: NDArray[Any], batch: Series) -> Series:
    """A center as a collection beside another."""
    return Series(centers_like(center[None], batch))


def _by_scipy(watched: _Watched, options: PairOptions, max_iter: int, tol: float) -> None:
    try:
        from scipy.optimize import minimize  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            f"metric is {options.metric!r}, for which averages need scipy, which is not installed: pip "
            "install 'libsdtw[collections]'; of 'sqeuclidean' they need NumPy alone"
        ) from None

    begin, unit = watched.best, watched.unit
    share = 1.0 / (watched.totals[0] * unit.cost(options.gamma))

    # All numbers are without a unit, as SciPy's first step and limits are: the gradient is the steepness.
    def objective(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        (value,), grad, _ = watched(flat.reshape(1, *begin.shape) * unit.apart)
        return float(value) * share, grad.reshape(-1) * (share * unit.apart)

    def stepped(_: NDArray[Any]) -> None:
        watched.steps += 1

    limits = {"maxiter": max_iter, "gtol": tol, "ftol": 1e-9, "maxls": 30}
    start = begin.reshape(-1) / unit.apart
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options=limits, callback=stepped)
    watched.converged = bool(found.success)


class _Watched:
    """An objective of one cluster that keeps the best center, and shows its mean value; and how the search
    ended."""

    def __init__(self, begin: NDArray[np.float64], objective: Objective, bar: Bar) -> None:
        self.objective, self.totals, self.unit, self.bar = objective, objective.totals, objective.unit, bar
        self.best, self.value = begin, np.inf
        self.calls, self.steps, self.converged, self.interrupted = 0, 0, False, False

    def __call__(self, centers: NDArray[np.float64]) -> Evaluated:
        found = self.objective(centers)
        self.calls += 1
        if found.values[0] < self.value:
            if np.isfinite(self.value):  # a step has been taken
                self.bar.update(value=f"{found.values[0] / self.totals[0]:.6g}")
            self.best, self.value = np.array(centers[0], np.float64), float(found.values[0])
        return found
