# All pairs of two batches, in blocks of bounded memory.
"""soft_dtw_cdist: as scipy's cdist, but of series."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._core import InvalidArgumentError
from .._problem import HINT, count
from .._rules import check_rules
from . import _split
from ._arguments import Gamma, Lengths, Metric, Series, check_sizes, floats, lengths_of
from ._functional import soft_dtw
from ._ragged import padded


def soft_dtw_cdist(
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
    normalize: bool = False,
    block: int = 4096,
) -> jax.Array:
    """Soft-DTW of every series of x with every one of y, differentiable.

    Args:
        x: series, (P, N, D), or a list of arrays (N_p, D).
        y: series, (Q, M, D) likewise; None: x itself, of which every pair is computed once, but where
            vertical and horizontal steps cost different amounts, of series with lengths in Itakura's band,
            and where metric is a function, which need not be symmetric.
        gamma, metric, band, radius, step_weights, step_penalties: as of :func:`soft_dtw`.
        x_lengths, y_lengths: integers, (P,) and (Q,).
        normalize: the soft-DTW divergence instead.
        block: pairs that are computed at a time. Memory beyond inputs, outputs and gradients is that of so
            many pairs: where there are more, derivatives compute a block anew instead of keeping its own.

    Returns:
        Values, (P, Q); symmetric where every pair is computed once.
    """
    block = count("block", block)
    if isinstance(metric, str) and metric == "precomputed":
        raise InvalidArgumentError("metric is 'precomputed': expected a metric of series, or a function")
    first = _batch("x", x, x_lengths)
    symmetric = y is None
    if symmetric and y_lengths is not None:
        raise InvalidArgumentError("y_lengths is given without y: expected x_lengths alone")
    second = first if symmetric else _batch("y", y, y_lengths)
    check_sizes(first[0], second[0])
    rules = check_rules(band, radius, step_weights, step_penalties)
    options: dict[str, Any] = {
        "gamma": gamma,
        "metric": metric,
        "band": band,
        "radius": radius,
        "step_weights": step_weights,
        "step_penalties": step_penalties,
    }
    of = (
        functools.partial(_symmetric, first)
        if symmetric and rules.is_symmetric(ragged=first[1] is not None) and not callable(metric)
        else functools.partial(_all, first, second)
    )
    result = of(block, options)
    if normalize:
        of_x = _own(first, block, options)
        of_y = of_x if symmetric else _own(second, block, options)
        result = result - 0.5 * (of_x[:, None] + _split.whole(of_y)[None])
    return result


_Batch = tuple[jax.Array, jax.Array | None]  # series (P, N, D) and their lengths (P,)


def _batch(name: str, series: Any, lengths: Any) -> _Batch:
    series, lengths = padded(name, series, lengths)
    series = floats(name, series)
    if series.ndim != 3:
        raise InvalidArgumentError(f"{name} has shape {series.shape}: expected (P, N, D); {HINT}")
    if not isinstance(series.shape[0], int):
        raise InvalidArgumentError(
            f"{name} has shape {series.shape}: expected a number of series, from which blocks are made; "
            "soft_dtw(x[:, None], y) takes symbols of jax.export"
        )
    return series, lengths_of(f"{name}_lengths", lengths, series.shape[:1], series.shape[1], "series")


def _rows(batch: _Batch, begin: Any, size: int) -> _Batch:
    """size series from one on, which may be traced."""
    part = functools.partial(jax.lax.dynamic_slice_in_dim, start_index=begin, slice_size=size)
    return part(batch[0]), None if batch[1] is None else part(batch[1])


def _whole(batch: _Batch) -> _Batch:
    """All of the batch on every device, where it is split by its type: blocks are parts of it."""
    return _split.whole(batch[0]), _split.whole(batch[1])


def _filled(batch: _Batch, count: int) -> _Batch:
    """The batch with its last series repeated, so that it has count."""
    batch, more = _whole(batch), count - len(batch[0])

    def fill(array: jax.Array) -> jax.Array:
        return jnp.pad(array, ((0, more), *((0, 0) for _ in array.shape[1:])), mode="edge")

    return (
        (batch[0], batch[1]) if more == 0 else (fill(batch[0]), None if batch[1] is None else fill(batch[1]))
    )


def _block(x: _Batch, y: _Batch, options: dict[str, Any]) -> jax.Array:
    """(P, Q) at once."""
    pairs = len(x[0]), len(y[0])
    n = None if x[1] is None else jnp.broadcast_to(x[1][:, None], pairs)
    m = None if y[1] is None else jnp.broadcast_to(y[1], pairs)
    return soft_dtw(x[0][:, None], y[0], x_lengths=n, y_lengths=m, **options)


def _in_turn(function: Any, *indices: jax.Array) -> jax.Array:
    """Blocks one after the other, each of which derivatives compute again."""
    result: jax.Array = jax.lax.map(lambda at: jax.checkpoint(function)(*at), indices)
    return result


def _parts(count: int, most: int) -> tuple[int, int]:
    """How many parts, and of how many each, with as little filling as can be."""
    parts = -(-count // most)
    return parts, -(-count // parts)


def _all(x: _Batch, y: _Batch, block: int, options: dict[str, Any]) -> jax.Array:
    p, q = len(x[0]), len(y[0])
    if p * q <= block:
        return _block(x, y, options)
    across, width = _parts(q, min(q, block))
    down, height = _parts(p, max(1, block // width))
    x, y = _filled(x, down * height), _filled(y, across * width)
    at = jnp.arange(down * across)

    def one(row: Any, column: Any) -> jax.Array:
        return _block(_rows(x, row * height, height), _rows(y, column * width, width), options)

    blocks = _in_turn(one, at // across, at % across).reshape(down, across, height, width)
    return blocks.swapaxes(1, 2).reshape(down * height, across * width)[:p, :q]


def _symmetric(x: _Batch, block: int, options: dict[str, Any]) -> jax.Array:
    """The upper triangle, and its mirror image."""
    x, p = _whole(x), len(x[0])
    parts, side = _parts(p, min(p, max(1, math.isqrt(block)))) if p else (0, 0)
    if parts <= 1:
        rows, columns = jnp.triu_indices(p)
        n, m = (None if x[1] is None else x[1][these] for these in (rows, columns))
        values = soft_dtw(x[0][rows], x[0][columns], x_lengths=n, y_lengths=m, **options)
        upper = jnp.zeros((p, p), values.dtype).at[rows, columns].set(values)
        return jnp.where(_upper(p), upper, upper.T)
    x = _filled(x, parts * side)
    rows, columns = jnp.triu_indices(parts)

    def block_of(row: Any, column: Any) -> jax.Array:
        return _block(_rows(x, row * side, side), _rows(x, column * side, side), options)

    blocks = _in_turn(block_of, rows, columns)
    whole = jnp.zeros((parts, parts, side, side), blocks.dtype).at[rows, columns].set(blocks)
    values = whole.swapaxes(1, 2).reshape(parts * side, parts * side)[:p, :p]
    return jnp.where(_upper(p), values, values.T)


def _upper(p: int) -> jax.Array:
    return jnp.arange(p)[:, None] <= jnp.arange(p)[None]


def _own(batch: _Batch, block: int, options: dict[str, Any]) -> jax.Array:
    """Values of series with themselves."""

    def of(part: _Batch) -> jax.Array:
        series, lengths = part
        return soft_dtw(series, series, x_lengths=lengths, y_lengths=lengths, **options)

    p = len(batch[0])
    if p <= block:
        return of(batch)
    parts, size = _parts(p, block)
    whole = _filled(batch, parts * size)

    def one(part: Any) -> jax.Array:
        return of(_rows(whole, part * size, size))

    return _in_turn(one, jnp.arange(parts)).reshape(-1)[:p]
