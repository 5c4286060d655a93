# Averages of series under soft-DTW.
"""soft_dtw_barycenter."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import InvalidArgumentError
from .._problem import HINT, count
from ._arguments import Lengths, Metric, Series, floats, lengths_of
from ._functional import soft_dtw, soft_dtw_divergence
from ._options import is_traced, value_dtype
from ._ragged import padded


def soft_dtw_barycenter(
    series: Series,
    *,
    weights: Any = None,
    init: Any = None,
    gamma: float = 1.0,
    metric: Metric = "sqeuclidean",
    lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    normalize: bool = False,
    max_iter: int = 50,
    tol: float = 1e-5,
) -> jax.Array:
    """The series with the least weighted sum of soft-DTW to all given ones (Cuturi and Blondel 2017).

    SciPy's L-BFGS-B minimises it on the host, with values and gradients from a program that is compiled once:
    it cannot be called within a program.

    Args:
        series: a batch (B, N, D), or a list of arrays (N_b, D), which may be of different lengths; of finite
            numbers. NaN for padding are to be told so by lengths: ``lengths=to_lengths(series)``.
        weights: (B,), not negative; None: 1 / B each. A series of weight 0 has no say, whatever it holds.
        init: where the search begins, (M, D), which also says how long the result is; None: the mean of the
            series, each stretched to the longest length.
        gamma, metric, band, radius, step_weights, step_penalties: as of :func:`soft_dtw`.
        lengths: integers, (B,), for a padded batch.
        normalize: minimise the soft-DTW divergence, which does not shrink the average as large gamma else
            does.
        max_iter: steps at most.
        tol: stop where the largest entry of the gradient is smaller.

    Returns:
        The barycenter, (M, D), of the type of the series.
    """
    if isinstance(metric, str) and metric == "precomputed":
        raise InvalidArgumentError("metric is 'precomputed': expected a metric of series, or a function")
    max_iter = count("max_iter", max_iter, least=0)
    if not isinstance(tol, Real) or not tol >= 0:
        raise InvalidArgumentError(f"tol is {tol!r}: expected a number >= 0")
    given, lengths = padded("series", series, lengths, "lengths")
    batch = floats("series", given)
    for name, one in (("series", batch), ("weights", weights), ("init", init), ("gamma", gamma)):
        _check_untraced(name, one)
    if batch.ndim != 3 or 0 in batch.shape:
        raise InvalidArgumentError(
            f"series has shape {batch.shape}: expected (B, N, D) with one series or more; {HINT}"
        )
    sizes = lengths_of("lengths", lengths, batch.shape[:1], batch.shape[1], "series")
    _check_untraced("lengths", sizes)
    dtype = batch.dtype
    batch = batch.astype(value_dtype(batch))  # steps of halves would be lost in rounding
    share = _weights(weights, batch)
    largest = _largest(batch, sizes)
    counted = np.flatnonzero(share > 0)
    if isinstance(metric, str) or init is None:  # a function and init may know what NaN means
        _require_finite(largest, counted)
    begin = _start(init, batch, sizes, share)
    unit = _unit(batch, largest[counted].max())
    if len(counted) < len(share):
        batch, share, sizes = batch[counted], share[counted], None if sizes is None else sizes[counted]
    function = soft_dtw_divergence if normalize else soft_dtw
    options: dict[str, Any] = {"gamma": gamma, "metric": metric, "band": band, "radius": radius}
    options |= {"step_weights": step_weights, "step_penalties": step_penalties}

    factors = jnp.asarray(share)

    def each(average: jax.Array) -> jax.Array:
        return function(average, batch, y_lengths=sizes, **options)

    def loss(average: jax.Array) -> jax.Array:
        return (each(average).astype(factors.dtype) * factors).sum()

    evaluate = jax.jit(jax.value_and_grad(loss))

    def on_host(flat: Any) -> tuple[float, Any]:
        value, grad = evaluate(jnp.asarray(unit * flat.reshape(begin.shape), batch.dtype))
        return float(value), unit * np.asarray(grad, np.float64).ravel()

    settings = {"maxiter": max_iter, "gtol": unit * tol}
    if max_iter == 0:
        jax.eval_shape(loss, jnp.asarray(begin, batch.dtype))  # checks the options
        return jnp.asarray(begin, dtype)
    from scipy.optimize import minimize  # type: ignore[import-untyped]  # half a second

    found = minimize(on_host, begin.ravel() / unit, jac=True, method="L-BFGS-B", options=settings)
    if found.fun == np.inf:
        k = counted[np.argmax(np.asarray(each(jnp.asarray(begin, batch.dtype))))]
        raise InvalidArgumentError(
            f"series[{k}] has an infinite value with any average of {len(begin)} time steps: expected at "
            "least one time step, a band with a path, and costs in the range of their type"
        )
    if not (np.isfinite(found.fun) and np.isfinite(found.x).all()):
        raise InvalidArgumentError(
            "the average or its value came to be NaN or infinite: expected a metric whose values and "
            "gradients are finite"
        )
    return jnp.asarray(unit * found.x.reshape(begin.shape), dtype)


def _check_untraced(name: str, given: Any) -> None:
    if is_traced(given):
        raise TypeError(f"{name} is traced: soft_dtw_barycenter searches on the host, outside of programs")


def _largest(batch: jax.Array, lengths: jax.Array | None) -> Any:
    """The size of the largest number of each series; NaN if it has one."""
    largest = np.abs(np.asarray(batch)).max(2)
    if lengths is not None:
        largest = np.where(np.arange(batch.shape[1]) < np.asarray(lengths)[:, None], largest, 0)
    return largest.max(1)


def _require_finite(largest: Any, counted: Any) -> None:
    for k in counted[~np.isfinite(largest[counted])][:1]:
        raise InvalidArgumentError(
            f"series[{k}] holds {'NaN' if np.isnan(largest[k]) else 'infinity'}: expected finite "
            "numbers, and lengths where NaN is padding, as to_lengths finds them"
        )


def _unit(batch: jax.Array, size: float) -> float:
    """What SciPy's variables are multiples of: 1, or the size of numbers that a step of 1 does not change."""
    lost = 10 * float(np.finfo(batch.dtype).eps) * batch[0].size
    return float(2.0 ** np.floor(np.log2(size))) if lost * size > 1 and size < np.inf else 1.0


def _weights(weights: Any, batch: jax.Array) -> Any:
    if weights is None:
        return np.full(batch.shape[0], 1 / len(batch))
    try:
        share = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"weights is {weights!r}: expected numbers >= 0, one for each series") from None
    if share.shape != batch.shape[:1]:
        raise InvalidArgumentError(
            f"weights has shape {share.shape}: expected ({len(batch)},), one for each series"
        )
    if not (np.isfinite(share) & (share >= 0)).all():
        raise InvalidArgumentError("weights has one that is negative or not finite: expected numbers >= 0")
    if not share.any():
        raise InvalidArgumentError("weights are all 0: expected one that is greater, at least")
    return share


def _start(init: Any, batch: jax.Array, lengths: jax.Array | None, share: Any) -> Any:
    """Where the search begins, in float64."""
    if init is not None:
        begin = np.asarray(floats("init", init), np.float64)
        if begin.ndim == 1 and batch.shape[2] == 1:
            begin = begin[:, None]
        if begin.ndim != 2 or begin.shape[1] != batch.shape[2] or begin.shape[0] == 0:
            raise InvalidArgumentError(f"init has shape {begin.shape}: expected (M, {batch.shape[2]})")
        if not np.isfinite(begin).all():
            raise InvalidArgumentError("init holds NaN or infinity: expected finite numbers")
        return begin
    sizes = [batch.shape[1]] * len(batch) if lengths is None else np.asarray(lengths).tolist()
    longest = max(1, *sizes)
    mean, total = np.zeros((longest, batch.shape[2])), 0.0
    steps = np.linspace(0, 1, longest)
    for one, size, weight in zip(np.asarray(batch, np.float64), sizes, share.tolist(), strict=True):
        if size > 0 and weight > 0:
            at = np.linspace(0, 1, size)
            mean += weight * np.stack([np.interp(steps, at, column) for column in one[:size].T], 1)
            total += weight
    return mean / (total or 1.0)  # 0 where only empty series have a weight
