# All pairs of two batches, in bounded memory: by the library's own mode for them, or in blocks.
"""soft_dtw_cdist: as torch.cdist, but of series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .._core import InvalidArgumentError
from .._problem import count
from . import _options, _private
from ._arguments import (
    Lengths,
    Metric,
    Series,
    check_floats,
    check_gamma,
    check_metric_of_series,
    lengths_of,
    prepare,
)
from ._functional import soft_dtw
from ._operators import all_pairs
from ._pairs import positive, scaled_by_gamma
from ._ragged import padded


def soft_dtw_cdist(
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
    normalize: bool = False,
    block: int = 4096,
) -> Tensor:
    """Soft-DTW of every series of x with every one of y, differentiable.

    Args:
        x: series, (P, N, D), or a list of tensors (N_p, D).
        y: series, (Q, M, D) likewise; None: x itself, of which every pair is computed once, but where
            vertical and horizontal steps cost different amounts, of series with lengths in Itakura's band,
            and where metric is a function, which need not be symmetric.
        gamma, metric, band, radius, step_weights, step_penalties: as of :func:`soft_dtw`.
        x_lengths, y_lengths: integers, (P,) and (Q,).
        normalize: the soft-DTW divergence instead.
        block: pairs that are computed at a time where metric is a function. Memory beyond inputs, outputs and
            gradients is that of so many pairs: backward computes a block anew instead of keeping its state.
            Of other metrics it is that of a few pairs for each thread, and sums of gradients in float64.
            Transforms of torch.func keep the state of all blocks; a second derivative that takes forward mode
            first, as jacfwd of jacfwd, and unlike hessian, computes every metric in blocks.

    Returns:
        Values, (P, Q); symmetric where every pair is computed once.
    """
    block = count("block", block)
    check_metric_of_series(metric)
    first, n = _batch("x", x, x_lengths)
    symmetric = y is None
    if symmetric and y_lengths is not None:
        raise InvalidArgumentError("y_lengths is given without y: expected x_lengths alone")
    second, m = (first, n) if symmetric else _batch("y", y, y_lengths)
    options = {
        "gamma": gamma,
        "metric": metric,
        "band": band,
        "radius": radius,
        "step_weights": step_weights,
        "step_penalties": step_penalties,
    }
    once = symmetric and _is_symmetric(options, n is not None)
    result = _of_the_library(first, None if once else second, n, None if once else m, options)
    if result is None:
        result = _symmetric(first, n, block, options) if once else _all(first, second, n, m, block, options)
    if normalize:
        of_x = result.diagonal() if symmetric else _own(first, n, block, options)
        of_y = of_x if symmetric else _own(second, m, block, options)
        result = result - 0.5 * (of_x[:, None] + of_y)
    return result


def _of_the_library(
    x: Tensor, y: Tensor | None, n: Tensor | None, m: Tensor | None, options: dict[str, Any]
) -> Tensor | None:
    """All pairs by one call; None where that cannot be: costs are given or must be, or there are no pairs, or
    forward mode comes before another derivative, which needs that of each pair, where the library adds up."""
    second = x if y is None else y
    gamma = options["gamma"]
    if _private.is_forward_mode_differentiated(x, second, *([gamma] if isinstance(gamma, Tensor) else [])):
        return None
    some = x.shape[0] > 0 and second.shape[0] > 0  # len would make them constants of exported programs
    if callable(options["metric"]) or not some or not _private.are_plain(x, second):
        return None
    names = ("band", "radius", "step_weights", "step_penalties")
    rules = tuple(options[name] for name in names)
    # The checks, and what becomes of gamma and the types, are those of pairs.
    one = prepare(x[:1], second[:1], gamma, options["metric"], None, None, rules=rules)
    if one.y is None:
        return None
    if one.scale is None:
        x, second = x.to(one.x.dtype), second.to(one.x.dtype)
    else:
        gamma = positive(check_gamma(gamma))
        x, scaled = scaled_by_gamma(x, second, gamma, _options.parse(one.options))
        second = x if scaled is None or y is None else scaled
    if n is not None and m is not None and n.dtype != m.dtype:
        n, m = n.long(), m.long()
    value: Tensor = all_pairs(x, None if y is None else second, n, m, one.gamma, one.options)
    return one.values(value)


def _is_symmetric(options: dict[str, Any], ragged: bool) -> bool:
    """Whether the value of (j, i) is that of (i, j). Of a metric that is a function nobody knows."""
    rules = tuple(options[name] for name in ("band", "radius", "step_weights", "step_penalties"))
    of_rules = _options.parse(_options.key("precomputed", rules)).rules.is_symmetric(ragged)
    return of_rules and not callable(options["metric"])


def _batch(name: str, series: Any, lengths: Any) -> tuple[Tensor, Tensor | None]:
    series, lengths = padded(name, series, lengths)
    check_floats(name, series)
    if series.ndim != 3:
        raise InvalidArgumentError(
            f"{name} has shape {tuple(series.shape)}: expected (P, N, D); a batch of univariate series (P, "
            f"N) is "
            f"given as {name}[..., None]"
        )
    given = f"{name}_lengths", lengths, series.shape[:1], series, series.shape[1]
    return series, lengths_of(*given, of=name)


def _block(
    x: Tensor, y: Tensor, x_lengths: Tensor | None, y_lengths: Tensor | None, options: dict[str, Any]
) -> Tensor:
    """(P, Q) at once."""
    n = None if x_lengths is None else x_lengths[:, None].expand(x.shape[0], y.shape[0])
    m = None if y_lengths is None else y_lengths.expand(x.shape[0], y.shape[0])
    return soft_dtw(x[:, None], y, x_lengths=n, y_lengths=m, **options)


def _again(*args: Any) -> Tensor:
    """A block, which backward computes again. Transforms, which have no checkpoints, keep its state."""
    if not torch.is_grad_enabled() or _private.is_transformed() or _private.is_forward_mode():
        return _block(*args)
    # A function may draw random numbers, as dropout does. Capture of a CUDA graph does not tell their state.
    captured = (
        not torch.compiler.is_compiling() and args[0].is_cuda and torch.cuda.is_current_stream_capturing()
    )
    result: Tensor = checkpoint(_block, *args, use_reentrant=False, preserve_rng_state=not captured)
    return result


def _parts(size: int, step: int) -> Sequence[slice]:
    """Parts of step each, one at least. Of one alone nothing asks for the size: a range would make a constant
    of it, so that a program would be compiled anew for each batch."""
    if size <= step:
        return (slice(None),)
    return [slice(begin, begin + step) for begin in range(0, size, step)]


def _part(tensor: Tensor | None, part: slice) -> Tensor | None:
    return None if tensor is None else tensor[part]


def _all(
    x: Tensor, y: Tensor, n: Tensor | None, m: Tensor | None, block: int, options: dict[str, Any]
) -> Tensor:
    height = block // (y.shape[0] or 1) or 1
    columns = _parts(y.shape[0], block)
    rows = []
    for i in _parts(x.shape[0], height):
        row = [_again(x[i], y[j], _part(n, i), _part(m, j), options) for j in columns]
        rows.append(row[0] if len(row) == 1 else torch.cat(row, 1))
    return rows[0] if len(rows) == 1 else torch.cat(rows)


def _symmetric(x: Tensor, n: Tensor | None, block: int, options: dict[str, Any]) -> Tensor:
    """The upper triangle in blocks, and its mirror image."""
    parts = _parts(x.shape[0], max(1, int(block**0.5)))
    blocks: dict[tuple[int, int], Tensor] = {}
    for a, i in enumerate(parts):
        for b, j in enumerate(parts[a:], a):
            values = _again(x[i], x[j], _part(n, i), _part(n, j), options)
            if a == b:  # of which both halves were computed, and may differ by rounding
                values = torch.where(torch.ones_like(values).triu().bool(), values, values.mT)
            blocks[a, b], blocks[b, a] = values, values.mT
    indices = range(len(parts))
    return torch.cat([torch.cat([blocks[a, b] for b in indices], 1) for a in indices])


def _own(series: Tensor, lengths: Tensor | None, block: int, options: dict[str, Any]) -> Tensor:
    """Values of series with themselves."""
    values = []
    for i in _parts(series.shape[0], block):
        part, n = series[i], _part(lengths, i)
        values.append(soft_dtw(part, part, x_lengths=n, y_lengths=n, **options))
    return torch.cat(values)
