# The second order, with PyTorch's own operations: derivatives of the gradient along a direction.
"""Derivatives of value and gradient along a direction of the inputs, in float64.

Mensch and Blondel, Differentiable Dynamic Programming for Structured Prediction and Attention, ICML 2018,
Algorithm 2, for soft-DTW. With the tangent T of the cost and P[k] the probabilities of the three steps into a
cell,

    dR[i,j] = T[i,j] + sum_k P[k] dR[before_k]        dP[k] = P[k] (sum_l P[l] dR[before_l] - dR[before_k]) /
    gamma dE[i,j] = sum_k (dP[k] E + P[k] dE)[after_k]

and gradients are E times the slope of the metric, so that their derivatives have a part from dE and one from
the slope.

All cells of an anti-diagonal are computed at once. Unlike the first order, which the core computes, this
holds about a dozen matrices of a pair: pairs are taken in groups of at most CELLS cells.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import _core
from . import _options

CELLS = 2**22  # of a group of pairs: some 500 MB

INF = math.inf


def gradient_tangents(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    tangent_x: Tensor,
    tangent_y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(<E, T>, derivative of grad_x, derivative of grad_y) of pairs, along tangent_x and tangent_y."""
    metric = _options.parse(options).metric
    if metric not in ("sqeuclidean", "precomputed"):
        raise _core.UnsupportedError(f"the second derivative for metric {metric!r} is not implemented")
    batch, n = x.shape[:2]
    m = x.shape[2] if y is None else y.shape[1]
    rows, columns = _lengths(x_lengths, batch, n, x.device), _lengths(y_lengths, batch, m, x.device)
    group = max(1, CELLS // max(1, n * m))
    parts = []
    for begin in range(0, max(batch, 1), group):
        of = slice(begin, begin + group)
        series = [None if t is None else t[of].double() for t in (x, y, tangent_x, tangent_y)]
        arguments: Any = (grad_value[of].double(), *series, rows[of], columns[of], gamma)
        parts.append(_group(*arguments))
    value, grad_x, grad_y = zip(*parts, strict=True)
    return torch.cat(value), torch.cat(grad_x), None if y is None else torch.cat(grad_y)


def _lengths(lengths: Tensor | None, batch: int, longest: int, device: torch.device) -> Tensor:
    if lengths is None:
        return torch.full((batch,), longest, device=device)
    return lengths.long()


def _group(
    g: Tensor,
    x: Tensor,
    y: Tensor | None,
    u: Tensor,
    v: Tensor | None,
    rows: Tensor,
    columns: Tensor,
    gamma: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    inside_x = torch.arange(x.shape[1], device=x.device) < rows[:, None]
    if y is None or v is None:
        inside_y = torch.arange(x.shape[2], device=x.device) < columns[:, None]
        inside = inside_x[:, :, None] & inside_y[:, None]
        cost, tangent = (torch.where(inside, t, 0) for t in (x, u))
        e, de = _alignment_tangent(cost, tangent, rows, columns, gamma)
        return _dot(e, tangent), g[:, None, None] * de, None
    inside_y = torch.arange(y.shape[1], device=y.device) < columns[:, None]
    x, u = (torch.where(inside_x[..., None], t, 0) for t in (x, u))
    y, v = (torch.where(inside_y[..., None], t, 0) for t in (y, v))
    shift = x.mean(1, keepdim=True)  # which costs do not depend on, but rounding does
    x, y = x - shift, y - shift
    cost = (x * x).sum(-1)[:, :, None] + (y * y).sum(-1)[:, None] - 2 * x @ y.mT
    tangent = 2 * ((x * u).sum(-1)[:, :, None] + (y * v).sum(-1)[:, None] - x @ v.mT - u @ y.mT)
    e, de = _alignment_tangent(cost, tangent, rows, columns, gamma)
    scale = 2 * g[:, None, None]
    grad_x = de.sum(2, keepdim=True) * x - de @ y + e.sum(2, keepdim=True) * u - e @ v
    grad_y = de.sum(1)[..., None] * y - de.mT @ x + e.sum(1)[..., None] * v - e.mT @ u
    return _dot(e, tangent), scale * grad_x, scale * grad_y


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(a == 0, 0, a * b).sum((1, 2))


def _alignment_tangent(
    cost: Tensor, tangent: Tensor, rows: Tensor, columns: Tensor, gamma: float
) -> tuple[Tensor, Tensor]:
    """E and its derivative along a tangent of the cost, (B, n, m) both; +infinity is a forbidden cell."""
    _, n, m = cost.shape
    i, j = torch.arange(n, device=cost.device), torch.arange(m, device=cost.device)
    k = torch.arange(n + m - 1, device=cost.device)
    # Cell (i, j) of the matrices is (i + j, i) of the skewed ones, whose other cells no path can reach.
    column = k[:, None] - i
    exists = (column >= 0) & (column < m)
    column = column.clamp(0, m - 1)
    costs = torch.where(exists[:, None], cost[:, i, column].transpose(0, 1), INF)
    slopes = torch.where(exists[:, None], tangent[:, i, column].transpose(0, 1), 0)
    p, dp = _transitions(costs, slopes, gamma)
    valid = (rows >= 1) & (rows <= n) & (columns >= 1) & (columns <= m)
    ends = (k[:, None, None] == (rows + columns - 2)[:, None]) & (i == (rows - 1)[:, None]) & valid[:, None]
    e, de = _visits(p, dp, ends.to(cost.dtype))
    diagonal = i[:, None] + j
    e, de = (t[diagonal, :, i[:, None]].permute(2, 0, 1) for t in (e, de))
    outside = (rows < 0) | (rows > n) | (columns < 0) | (columns > m)
    nan = torch.where(outside, math.nan, 0.0)[:, None, None].to(cost.dtype)
    return e + nan, de + nan


def _transitions(costs: Tensor, slopes: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """P and dP, (diagonals, 3, B, n): of the diagonal, vertical and horizontal step into each cell."""

    def down(a: Tensor, first: float) -> Tensor:  # the cell of the row above
        return torch.cat((torch.full_like(a[:, :1], first), a[:, :-1]), 1)

    r, dr = costs[0], slopes[0]
    r2, dr2 = torch.full_like(r, INF), torch.zeros_like(r)
    p, dp = [torch.zeros_like(r).expand(3, -1, -1)], [torch.zeros_like(r).expand(3, -1, -1)]
    for cost, slope in zip(costs[1:], slopes[1:], strict=True):
        before = torch.stack((down(r2, INF), down(r, INF), r))
        d_before = torch.stack((down(dr2, 0), down(dr, 0), dr))
        low = before.amin(0)
        low = torch.where(low == INF, 0, low)
        weight = torch.exp((low - before) / gamma)
        total = weight.sum(0)
        weight = weight / torch.where(total == 0, 1, total)
        mean = (weight * d_before).sum(0)
        p.append(weight)
        dp.append(weight * (mean - d_before) / gamma)
        r2, dr2 = r, dr
        r, dr = cost + low - gamma * torch.log(total), slope + mean
    return torch.stack(p), torch.stack(dp)


def _visits(p: Tensor, dp: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """E and dE, (diagonals, B, n), from the ends, which have E = 1."""

    def up(a: Tensor) -> Tensor:  # the cell of the row below
        return torch.cat((a[:, 1:], torch.zeros_like(a[:, :1])), 1)

    none = torch.zeros_like(ends[0])
    e, de = [ends[-1]], [none]
    flow = d_flow = (
        None  # through the steps into the cells of the next diagonal, and those of the one behind it
    )
    diagonal = d_diagonal = none
    for k in range(len(ends) - 2, -1, -1):
        flow = p[k + 1] * e[-1]
        d_flow = dp[k + 1] * e[-1] + p[k + 1] * de[-1]
        e.append(ends[k] + up(diagonal) + up(flow[1]) + flow[2])
        de.append(up(d_diagonal) + up(d_flow[1]) + d_flow[2])
        diagonal, d_diagonal = flow[0], d_flow[0]
    return torch.stack(e[::-1]), torch.stack(de[::-1])
