# The functions: soft-DTW, its alignment, and what is built on them.
"""soft_dtw and its kin. See libsdtw.torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import UnsupportedError
from .._problem import KINDS, REDUCTIONS, choice
from . import _direct, _expected, _operators
from ._arguments import Lengths, Metric, Series, check_divergence, prepare
from ._options import GivenRules
from ._pairs import Pairs
from ._ragged import padded


def soft_dtw(
    x: Series,
    y: Series | None = None,
    *,
    gamma: float | Tensor = 1.0,
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
    check_lengths: bool = False,
) -> Tensor:
    """Soft-DTW of x and y, differentiable with respect to both, and to gamma.

    Args:
        x: series (..., N, D), or (N,) for one univariate series; or a list of tensors (N_b, D), or a jagged
            nested tensor. For metric "precomputed" the costs, (..., N, M).
        y: series (..., M, D) likewise, of x's type and device; None for metric "precomputed". Leading
            dimensions broadcast as torch.cdist's do. Two tensors (B, N) are one pair of series of N features:
            batches of univariate series are ``x[..., None]``.
        gamma: smoothing, a finite number >= 0, or a tensor of one > 0: on any device, and with a gradient if
            it requires one. 0 is dynamic time warping, whose gradient is that along the best path; of paths
            that are equally good the one that, read from its end, goes diagonal before vertical before
            horizontal.
        metric: "sqeuclidean", sum_k (x_ik - y_jk)^2; "euclidean", its root; "cityblock", sum_k |x_ik - y_jk|;
            "cosine", 1 - <x_i, y_j> / (|x_i| |y_j|); "precomputed"; or a function of two batches (B, N, D)
            and (B, M, D) that returns their costs (B, N, M), which is differentiated too.
        x_lengths, y_lengths: integers, one for each pair, as a tensor on x's device, a list or an array: time
            steps of each series, the rest being padding, which is never read and whose gradient is 0. A
            length outside of [0, N] is an error on the CPU. On a GPU, which the host does not wait for, it
            makes its pair's value and gradient NaN, unless check_lengths asks to wait and look.
        band: None, every cell may be visited; "sakoe_chiba", those within radius of the diagonal and of the
            corner, as in tslearn; "absolute", |i - j| <= radius; or "itakura", a parallelogram of maximum
            slope radius. i and j are rows and columns of each pair's own lengths.
        radius: of the band, in time steps; for "itakura" the slope, >= 1.
        step_weights: factors >= 0 of the cost in diagonal, vertical (x alone advances) and horizontal (y
            alone advances) steps; of the first cell that of diagonal ones.
        step_penalties: what is added for such a step, not for the first cell.
        reduction: "none", "mean" or "sum" over all pairs.
        normalize: the soft-DTW divergence instead: see :func:`soft_dtw_divergence`.
        zero_infinity: 0 instead of infinite values, with gradient 0, as in torch.nn.CTCLoss.
        check_lengths: raise for lengths out of range on a GPU too, which synchronises.

    Returns:
        Values, of the shape of the leading dimensions; a scalar if there are none, or with a reduction. Their
        type is x's, and float32 for float16 and bfloat16. A pair of two empty series has value 0, of one
        empty series, or without a path in the band, +infinity, and one with a NaN in it NaN.

    Raises:
        InvalidArgumentError (a ValueError): an argument has a shape, device or value that it may not have.
        UnsupportedError (a NotImplementedError): what this version does not implement: a third derivative,
            or gamma as a tensor with step penalties and some step weights, as (2, 1, 1).
        TypeError: an argument is not of the kind that is expected.
    """
    if reduction not in REDUCTIONS:
        choice("reduction", reduction, REDUCTIONS)
    rules = band, radius, step_weights, step_penalties
    if normalize:
        given = x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules
        return _reduced(_divergence(_soft, *given), None, reduction, zero_infinity)
    if not zero_infinity and not check_lengths:
        value = _direct.soft_dtw(x, y, x_lengths, y_lengths, gamma, metric, rules, reduction)
        if value is not None:
            return value
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules)
    return _reduced(_soft(pairs), pairs, reduction, zero_infinity)


def soft_dtw_alignment(
    x: Series,
    y: Series | None = None,
    *,
    gamma: float | Tensor = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    check_lengths: bool = False,
) -> Tensor:
    """Expected alignment of x and y: E[i, j] is the probability that a path visits the cell (i, j).

    Arguments and errors are those of :func:`soft_dtw`. Where x, y or gamma requires a gradient the result has
    one, of first order, but with step weights; the matrix of costs is then held in memory too.

    Returns:
        E, (..., N, M), of paths drawn with weight exp(-cost / gamma) (Cuturi and Blondel 2017, Algorithm 2);
        at gamma = 0 it is 1 on the best path. 0 in the padding. With step weights of 1 it is the derivative
        of the value by the cost of the cell.
    """
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules)
    return pairs.alignments(_operators.alignment(*pairs.inputs())[1])


def soft_dtw_with_alignment(
    x: Series,
    y: Series | None = None,
    *,
    gamma: float | Tensor = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    check_lengths: bool = False,
) -> tuple[Tensor, Tensor]:
    """(value, alignment): :func:`soft_dtw` and :func:`soft_dtw_alignment` from one computation."""
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules)
    value, alignment = _operators.alignment(*pairs.inputs())
    return pairs.shaped(pairs.values(value)), pairs.alignments(alignment)


def sharp_soft_dtw(
    x: Series,
    y: Series | None = None,
    *,
    gamma: float | Tensor = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    reduction: str = "none",
    zero_infinity: bool = False,
    check_lengths: bool = False,
) -> Tensor:
    """<E, D>, the expected cost of a path (Blondel, Mensch and Vert 2021): soft-DTW without its entropy.

    Arguments, shapes and errors are those of :func:`soft_dtw`; there are no step penalties. Costs are those
    that the path accumulates, times step weights. The gradient takes second derivatives of soft-DTW.
    Of series that share a trend of 1000 times what lies between them float32 was off by up to 1e-5, of
    10 000 times by 1e-4, as products of gradients and series are summed up; float64 has the digits for that.
    """
    choice("reduction", reduction, REDUCTIONS)
    rules = band, radius, step_weights, step_penalties
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules)
    return _reduced(_sharp(pairs), pairs, reduction, zero_infinity)


def soft_dtw_divergence(
    x: Series,
    y: Series,
    *,
    kind: str = "soft",
    gamma: float | Tensor = 1.0,
    metric: Metric = "sqeuclidean",
    x_lengths: Lengths = None,
    y_lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    reduction: str = "none",
    zero_infinity: bool = False,
    check_lengths: bool = False,
) -> Tensor:
    """S(x, y) - 1/2 S(x, x) - 1/2 S(y, y), which is 0 at x = y and, of kind "soft", hardly ever below 0.

    Blondel, Mensch and Vert, Differentiable Divergences Between Time Series, AISTATS 2021. Series may be of
    different lengths.

    Args:
        kind: what S is: "soft", soft-DTW; "sharp", the expected cost <E, D>, see :func:`sharp_soft_dtw`; or
            "mean_cost", the mean cost of all paths, without step weights: for large gamma the limit of
            "sharp" and, of series of the same length, of "soft".

    The other arguments, shapes and errors are those of :func:`soft_dtw`.
    """
    choice("reduction", reduction, REDUCTIONS)
    choice("kind", kind, KINDS)
    of = {"soft": _soft, "sharp": _sharp, "mean_cost": _mean_cost}[kind]
    rules = band, radius, step_weights, step_penalties
    given = x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules
    return _reduced(_divergence(of, *given), None, reduction, zero_infinity)


def _soft(pairs: Pairs) -> Tensor:
    value: Tensor = _operators.value(*pairs.inputs())
    return pairs.values(value)


def _sharp(pairs: Pairs) -> Tensor:
    _require_no_offset(pairs)
    return pairs.values(_expected.sharp(*pairs.inputs()))


def _require_no_offset(pairs: Pairs) -> None:
    if pairs.offset is not None:  # what else the operators would say
        raise UnsupportedError("expected costs with step_penalties are not implemented")


def _mean_cost(pairs: Pairs) -> Tensor:
    _require_no_offset(pairs)
    return pairs.values(_expected.mean_cost(*pairs.inputs()))


def _divergence(
    of: Callable[[Pairs], Tensor],
    x: Any,
    y: Any,
    gamma: Any,
    metric: Any,
    x_lengths: Any,
    y_lengths: Any,
    check_lengths: bool,
    rules: GivenRules,
) -> Tensor:
    check_divergence(metric)
    x, x_lengths = padded("x", x, x_lengths)
    y, y_lengths = padded("y", y, y_lengths)
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, check_lengths, rules)

    def own(series: Tensor, lengths: Any) -> Tensor:
        if lengths is not None and pairs.shape:  # which may be of more pairs than there are series
            series = series[:, None] if series.ndim == 1 else series
            series = series.expand(*pairs.shape, *series.shape[-2:])
        pair = prepare(series, series, gamma, metric, lengths, lengths, rules=rules)
        return of(pair).reshape(pair.shape)

    value = of(pairs).reshape(pairs.shape)
    return value - 0.5 * (own(x, x_lengths) + own(y, y_lengths))


def _reduced(value: Tensor, pairs: Pairs | None, reduction: str, zero_infinity: bool) -> Tensor:
    if zero_infinity:
        value = torch.where(value == torch.inf, 0, value)
    if reduction == "mean":
        return value.mean()
    if reduction == "sum":
        return value.sum()
    return value if pairs is None or pairs.shape == value.shape else value.reshape(pairs.shape)
