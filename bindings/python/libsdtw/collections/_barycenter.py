# The average of a collection: L-BFGS of SciPy on the exact gradient.
"""soft_dtw_barycenter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import InvalidArgumentError
from ._keep import count
from ._objective import Objectives
from ._pairs import PairOptions, resolve_gamma
from ._progress import Bar
from ._series import Series, as_series, stretched


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
    tol: float = 1e-5,
    device: str | None = None,
    progress: bool = False,
    num_threads: int = 0,
) -> NDArray[np.float64]:
    """The series with the least weighted mean value to all given ones (Cuturi and Blondel 2017).

    Args:
        series: a collection, as :func:`reduce_pairs` takes it, with its lengths.
        weights: (B,), not negative; None: all alike.
        init: where the search begins, (M, D) or (M,); None: the mean of the series, each stretched to
            `length`.
        length: time steps of the average; None: of init, or of the longest series.
        normalize: minimise the divergence, which does not shrink the average as soft-DTW does where gamma is
            large.
        max_iter: steps of L-BFGS at most.
        tol: stop where the largest entry of the gradient of the mean is smaller, relative to gamma.
        progress: show a progress bar of tqdm.

    The other arguments are those of :func:`reduce_pairs`. Ctrl-C gives the best series so far.

    Returns:
        The barycenter, (M, D), in float64.
    """
    batch = as_series("series", series, lengths, device)
    options = PairOptions(
        resolve_gamma(gamma, batch, metric),
        *(metric, band, radius, step_weights, step_penalties, normalize, num_threads),
    )
    options.check()
    share = check_weights("weights", weights, len(batch))
    if length is not None:
        count("length", length)
    begin = _start(init, batch, share, length)
    with Bar(progress, count("max_iter", max_iter, least=0), "barycenter") as bar:
        best, _, _ = descend(begin, batch, share, options, max_iter, tol, bar)
    return best


def check_weights(name: str, given: Any, size: int) -> NDArray[np.float64]:
    """Weights of series, not negative and not all 0; ones for None."""
    if given is None:
        return np.ones(size)
    weights = np.asarray(given, np.float64)
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


def _start(init: Any, batch: Series, share: NDArray[Any], length: int | None) -> NDArray[np.float64]:
    if init is not None:
        begin = np.array(init, np.float64)
        if begin.ndim == 1:
            begin = begin[:, None]
        if begin.ndim != 2 or begin.shape[1] != batch.features or 0 in begin.shape:
            raise InvalidArgumentError(f"init has shape {np.shape(init)}: expected (M, {batch.features})")
        return begin if length is None else stretched(begin, length)
    return stretched_mean(batch, share, length or int(batch.sizes().max()))


def stretched_mean(batch: Series, share: NDArray[Any], length: int) -> NDArray[np.float64]:
    """The weighted mean of series that are stretched to one length."""
    mean = np.zeros((length, batch.features))
    for b in np.flatnonzero(share):
        mean += share[b] / share.sum() * stretched(batch.one(int(b)), length)
    return mean


def descend(
    begin: NDArray[Any],
    batch: Series,
    share: NDArray[Any],
    options: PairOptions,
    max_iter: int,
    tol: float = 1e-5,
    bar: Bar | None = None,
) -> tuple[NDArray[np.float64], float, bool]:
    """The series that L-BFGS finds from begin, its weighted sum of values (less the series' own share), and
    whether Ctrl-C cut the search short: it is then the best of those tried."""
    from scipy.optimize import minimize  # type: ignore[import-untyped]

    scale = 1.0 / (float(share.sum()) * (options.gamma if options.gamma > 0 else 1.0))
    best: tuple[float, NDArray[Any]] = np.inf, begin
    evaluate = Objectives(begin.shape, batch, 1, options).of(share, np.zeros(len(batch), np.intp))

    def objective(flat: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        nonlocal best
        center = flat.reshape(begin.shape)
        (value,), grad, _ = evaluate(center[None])
        if value < best[0]:
            best = float(value), center.copy()
        return float(value) * scale, grad.reshape(-1) * scale

    def after(*_: Any) -> None:
        if bar is not None:
            bar.update(value=f"{best[0] * scale:.6g}")

    interrupted = False
    if max_iter > 0:
        limits = {"maxiter": max_iter, "gtol": tol, "ftol": 1e-9, "maxls": 30}
        try:
            minimize(
                objective, begin.reshape(-1), jac=True, method="L-BFGS-B", callback=after, options=limits
            )
        except KeyboardInterrupt:
            interrupted = True
    return np.array(best[1], np.float64), best[0], interrupted
