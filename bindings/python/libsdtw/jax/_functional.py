# The functions: soft-DTW, its alignment, and what is built on them.
"""soft_dtw and its kin. See libsdtw.jax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._core import InvalidArgumentError, UnsupportedError
from .._problem import KINDS, choice
from . import _derivatives, _library, _lowering, _options, _primitives, _split
from ._arguments import Gamma, GivenRules, Lengths, Metric, Pairs, Series, check_reduction, prepare
from ._ragged import padded


def soft_dtw(
    x: Series,
    y: Series | None = None,
    *,
    gamma: Gamma = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    reduction: str = "none",
    normalize: bool = False,
    zero_infinity: bool = False,
) -> jax.Array:
    """Soft-DTW of x and y, differentiable with respect to both, and to gamma.

    Args:
        x: series, (..., N, D), or (N,) for one univariate series; or a list of arrays (N_b, D). For metric
            "precomputed" the costs, (..., N, M).
        y: series, (..., M, D), likewise; None for metric "precomputed". Leading dimensions broadcast. Two
            arrays (B, N) are one pair of series of N features: batches of univariate series are
            ``x[..., None]``.
        gamma: smoothing, a finite number >= 0 or an array of one, which may be traced: a program is not
            compiled anew for another one, and may differentiate by it where it is > 0. 0 is dynamic time
            warping, whose gradient is that along the best path; of paths that are equally good the one that,
            read from its end, goes diagonal before vertical before horizontal.
        metric: "sqeuclidean", sum_k (x_ik - y_jk)^2; "euclidean", its root; "cityblock", sum_k |x_ik - y_jk|;
            "cosine", 1 - <x_i, y_j> / (|x_i| |y_j|); "precomputed"; or a function of two batches (B, N, D)
            and (B, M, D) that returns their costs (B, N, M), which is differentiated too.
        x_lengths, y_lengths: integers, one for each pair: time steps of each series, the rest being padding,
            which is never read and whose gradient is 0. A length outside of [0, N] is an error where it is
            not traced and in host memory; else it makes its pair's value and gradient NaN.
        band: None, every cell may be visited; "sakoe_chiba", those within radius of the diagonal and of the
            corner, as in tslearn; "absolute", |i - j| <= radius; or "itakura", a parallelogram of maximum
            slope radius. i and j are rows and columns of each pair's own lengths.
        radius: of the band, in time steps; for "itakura" the slope, >= 1.
        step_weights: factors >= 0 of the cost in diagonal, vertical (x alone advances) and horizontal (y
            alone advances) steps; of the first cell that of diagonal ones.
        step_penalties: what is added for such a step, not for the first cell.
        reduction: "none", "mean" or "sum" over all pairs.
        normalize: the soft-DTW divergence instead: see :func:`soft_dtw_divergence`.
        zero_infinity: 0 instead of infinite values, with gradient 0.

    Returns:
        Values, of the shape of the leading dimensions; a scalar if there are none, or with a reduction. Their
        type is x's, and float32 for float16 and bfloat16. A pair of two empty series has value 0, of one
        empty series, or without a path in the band, +infinity, and one with a NaN in it NaN.

    Raises:
        InvalidArgumentError (a ValueError): an argument has a shape or value that it may not have.
        UnsupportedError (a NotImplementedError): what this version does not implement: a third derivative,
            or one of gradients by gamma with step penalties and some step weights, as (2, 1, 1).
        TypeError: an argument is not of the kind that is expected.
    """
    check_reduction(reduction)
    rules = band, radius, step_weights, step_penalties
    given = x, y, gamma, metric, x_lengths, y_lengths, rules
    value = _divergence(_soft, *given) if normalize else _of(_soft, prepare(*given))
    return _reduced(value, reduction, zero_infinity)


def soft_dtw_alignment(
    x: Series,
    y: Series | None = None,
    *,
    gamma: Gamma = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
) -> jax.Array:
    """Expected alignment of x and y: E[i, j] is the probability that a path visits the cell (i, j).

    Arguments and errors are those of :func:`soft_dtw`. It has a derivative of first order, but with step
    weights; where that is taken the matrix of costs is held in memory too.

    Returns:
        E, (..., N, M), of paths drawn with weight exp(-cost / gamma) (Cuturi and Blondel 2017, Algorithm 2);
        at gamma = 0 it is 1 on the best path. 0 in the padding. With step weights of 1 it is the derivative
        of the value by the cost of the cell.
    """
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, rules)
    return pairs.shaped(_primitives.alignment(pairs.options, pairs.operands)[1])


def soft_dtw_with_alignment(
    x: Series,
    y: Series | None = None,
    *,
    gamma: Gamma = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
) -> tuple[jax.Array, jax.Array]:
    """(value, alignment): :func:`soft_dtw` and :func:`soft_dtw_alignment` from one computation."""
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, rules)
    value, alignment = _primitives.alignment(pairs.options, pairs.operands)
    return pairs.shaped(value), pairs.shaped(alignment)


def sharp_soft_dtw(
    x: Series,
    y: Series | None = None,
    *,
    gamma: Gamma = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    reduction: str = "none",
    zero_infinity: bool = False,
) -> jax.Array:
    """<E, D>, the expected cost of a path (Blondel, Mensch and Vert 2021): soft-DTW without its entropy.

    Arguments, shapes and errors are those of :func:`soft_dtw`; there are no step penalties. Costs are those
    that the path accumulates, times step weights. The gradient takes second derivatives of soft-DTW.
    """
    check_reduction(reduction)
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, rules)
    return _reduced(_of(_sharp, pairs), reduction, zero_infinity)


def soft_dtw_divergence(
    x: Series,
    y: Series,
    *,
    kind: str = "soft",
    gamma: Gamma = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    reduction: str = "none",
    zero_infinity: bool = False,
) -> jax.Array:
    """S(x, y) - 1/2 S(x, x) - 1/2 S(y, y), which is 0 at x = y and, of kind "soft", hardly ever below 0.

    Blondel, Mensch and Vert, Differentiable Divergences Between Time Series, AISTATS 2021. Series may be of
    different lengths.

    Args:
        kind: what S is: "soft", soft-DTW; "sharp", the expected cost <E, D>, see :func:`sharp_soft_dtw`; or
            "mean_cost", the mean cost of all paths, without step weights: for large gamma the limit of
            "sharp" and, of series of the same length, of "soft".

    The other arguments, shapes and errors are those of :func:`soft_dtw`.
    """
    check_reduction(reduction)
    choice("kind", kind, KINDS)
    of = {"soft": _soft, "sharp": _sharp, "mean_cost": _mean_cost}[kind]
    rules = band, radius, step_weights, step_penalties
    value = _divergence(of, x, y, gamma, metric, x_lengths, y_lengths, rules)
    return _reduced(value, reduction, zero_infinity)


def _of(function: Callable[[Pairs], jax.Array], pairs: Pairs) -> jax.Array:
    return pairs.shaped(function(pairs))


def _soft(pairs: Pairs) -> jax.Array:
    value: jax.Array = _primitives.value(pairs.options, pairs.operands)
    return value


def _sharp(pairs: Pairs) -> jax.Array:
    if pairs.options.has_penalties:
        raise UnsupportedError("expected costs with step_penalties are not implemented")
    value: jax.Array = _derivatives.expected_cost(pairs.options, _derivatives.widened(pairs.operands))
    return value


def _mean_cost(pairs: Pairs) -> jax.Array:
    """Mean cost of all paths, (B,), which does not depend on gamma. Holds the matrix of costs."""
    options, operands = pairs.options, _derivatives.widened(pairs.operands)
    if options.has_penalties or options.weighs_steps:
        raise UnsupportedError("mean costs with step_weights or step_penalties are not implemented")
    if options.has_y:
        options, operands = _derivatives.of_costs(options, operands)
        costs = jnp.zeros_like(operands.x)
    else:  # a function forbids cells by infinite costs: no path goes there
        costs = jnp.where(operands.x == jnp.inf, jnp.inf, jnp.zeros_like(operands.x))
    if _library.on_gpus():
        options = options._replace(known_gamma=1.0)
    free = operands._replace(x=costs, gamma=_options.number(1.0))
    value, visits = _primitives.alignment(options, free)
    return jnp.where(jnp.isfinite(value), _lowering.dot(visits, operands.x), value)


def _divergence(
    of: Callable[[Pairs], jax.Array],
    x: Any,
    y: Any,
    gamma: Any,
    metric: Any,
    x_lengths: Any,
    y_lengths: Any,
    rules: GivenRules,
) -> jax.Array:
    if isinstance(metric, str) and metric == "precomputed":
        raise InvalidArgumentError(
            "metric is 'precomputed', but a divergence compares x and y with themselves too: expected series "
            "and a metric of them, which may be a function"
        )
    x, x_lengths = padded("x", x, x_lengths)
    y, y_lengths = padded("y", y, y_lengths)
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, rules)
    split = _split.of_pairs((x, y), pairs.shape)

    def own(series: jax.Array, lengths: Any) -> jax.Array:
        series = series[:, None] if series.ndim == 1 else series
        series = _split.aligned(series, pairs.shape, split)
        if lengths is not None and pairs.shape:  # which may be of more pairs than there are series
            series = jnp.broadcast_to(series, (*pairs.shape, *series.shape[-2:]))
        return _of(of, prepare(series, series, gamma, metric, lengths, lengths, rules))

    return _of(of, pairs) - 0.5 * (own(x, x_lengths) + own(y, y_lengths))


def _reduced(value: jax.Array, reduction: str, zero_infinity: bool) -> jax.Array:
    if zero_infinity:
        value = jnp.where(value == jnp.inf, 0, value)
    if reduction == "mean":
        return value.mean()
    if reduction == "sum":
        return value.sum()
    return value
