# The oracle of soft-DTW and its family in plain Python floats: metrics, bands, step weights and penalties,
# and gamma = 0, from the equations and the definitions in sdtw.h and from nothing of the library; and an
# enumeration of all alignments that the oracle is itself checked against.
from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np

INF = math.inf


class Rules(NamedTuple):
    """How paths may step, in the words of libsdtw.numpy."""

    gamma: float = 1.0
    band: str | None = None
    radius: float | None = None
    step_weights: tuple[float, float, float] = (1.0, 1.0, 1.0)
    step_penalties: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Solution(NamedTuple):
    """What the definitions give for one matrix of costs."""

    value: float
    alignment: np.ndarray  # E: the chance that a path visits the cell
    gradient: np.ndarray  # by its cost
    path: float  # the expected sum of the sizes of a path's terms


class Pair(NamedTuple):
    """What the equations give for one pair of series at the default rules."""

    value: float
    alignment: np.ndarray
    grad_x: np.ndarray
    grad_y: np.ndarray
    value_scale: float  # what a rounding error of the value is relative to
    grad_scale: float  # and one of the gradients: the largest sum of the sizes of an entry's terms


def costs(metric: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Costs (n, m) of two series, and 0-size ones too."""
    difference = x[:, None, :] - y[None, :, :]
    if metric == "sqeuclidean":
        return (difference**2).sum(-1)
    if metric == "euclidean":
        return np.sqrt((difference**2).sum(-1))
    if metric == "cityblock":
        return np.abs(difference).sum(-1)
    norms = np.sqrt((x**2).sum(-1))[:, None] * np.sqrt((y**2).sum(-1))[None, :]
    return np.where(norms == 0, 1.0, 1 - (x @ y.T) / np.where(norms == 0, 1, norms))


def slopes(metric: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Derivatives (n, m, d) of costs with respect to x; 0 where there are none."""
    difference = x[:, None, :] - y[None, :, :]
    if metric == "sqeuclidean":
        return 2 * difference
    if metric == "euclidean":
        cost = costs(metric, x, y)[..., None]
        return np.where(cost == 0, 0, difference / np.where(cost == 0, 1, cost))
    if metric == "cityblock":
        return np.sign(difference)
    length_x, length_y = np.sqrt((x**2).sum(-1))[:, None, None], np.sqrt((y**2).sum(-1))[None, :, None]
    good = (length_x * length_y) != 0
    length_x, length_y = np.where(length_x == 0, 1, length_x), np.where(length_y == 0, 1, length_y)
    unit_x, unit_y = x[:, None, :] / length_x, y[None, :, :] / length_y
    along = (unit_x * unit_y).sum(-1, keepdims=True)
    return np.where(good, (along * unit_x - unit_y) / length_x, 0)


def gradient_scale(
    metric: str, x: np.ndarray, y: np.ndarray, by_cost: np.ndarray, *grads: np.ndarray
) -> float:
    """What errors of a pair's gradients are relative to: the largest entry, but for terms that cancel."""
    size = max(np.abs(grad).max() for grad in grads) + 1e-3 * by_cost.max()
    if metric == "cosine":
        norms = np.linalg.norm(np.concatenate([x, y]), axis=-1)
        size += by_cost.sum(1).max() / norms[norms > 0].min(initial=1)
    return size


def admits(rules: Rules, n: int, m: int, i: int, j: int) -> bool:
    """Whether a path may visit the cell."""
    if rules.band == "absolute":
        return abs(i - j) <= rules.radius
    if rules.band == "sakoe_chiba":
        return -rules.radius <= j - i + max(0, n - m) and j - i - max(0, m - n) <= rules.radius
    if rules.band == "itakura":  # tslearn.metrics.itakura_mask rounds bounds of rows to hundredths
        most, least = Fraction(rules.radius) * n / m, 1 / Fraction(rules.radius) * n / m
        half = Fraction(1, 200)
        corners = (i, j), (n - 1 - i, m - 1 - j)
        return all(least * right - half <= down <= most * right + half for down, right in corners)
    return True


def solve(cost: np.ndarray, rules: Rules) -> Solution:
    """One pair of at least one step each, whose costs are finite."""
    n, m = cost.shape
    r = np.full((n + 1, m + 1), INF)
    chances = np.zeros((n, m, 3))
    before = ((-1, -1), (-1, 0), (0, -1))
    for i, j in np.ndindex(n, m):
        if not admits(rules, n, m, i, j):
            continue
        if i == 0 and j == 0:
            r[1, 1], chances[0, 0] = rules.step_weights[0] * cost[0, 0], (1, 0, 0)
            continue
        terms = [
            w * cost[i, j] + p + r[i + 1 + a, j + 1 + b]
            for w, p, (a, b) in zip(rules.step_weights, rules.step_penalties, before, strict=True)
        ]
        low = min(terms)
        if low == INF:
            continue
        if rules.gamma == 0:
            weights = [float(k == terms.index(low)) for k in range(3)]
            r[i + 1, j + 1] = low
        else:
            weights = [math.exp((low - term) / rules.gamma) for term in terms]
            r[i + 1, j + 1] = low - rules.gamma * math.log(sum(weights))
        chances[i, j] = np.array(weights) / sum(weights)
    alignment, gradient, path = np.zeros((n, m)), np.zeros((n, m)), 0.0
    if r[n, m] < INF:
        alignment[-1, -1] = 1
        for i, j in sorted(np.ndindex(n, m), reverse=True):
            for k, (a, b) in enumerate(before):
                chance = alignment[i, j] * chances[i, j, k]
                gradient[i, j] += chance * rules.step_weights[k]
                path += chance * abs(rules.step_weights[k] * cost[i, j])
                if i or j:
                    path += chance * abs(rules.step_penalties[k])
                    if chance:
                        alignment[i + a, j + b] += chance
    return Solution(r[n, m], alignment, gradient, path)


def soft_dtw(x: np.ndarray, y: np.ndarray, gamma: float) -> Pair:
    """Value, alignment and gradients for the squared Euclidean distance of (n, d) and (m, d)."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(x) == 0 or len(y) == 0:
        value = 0.0 if len(x) == len(y) else INF
        return Pair(value, np.zeros((len(x), len(y))), np.zeros_like(x), np.zeros_like(y), 1.0, 1.0)
    solution = solve(costs("sqeuclidean", x, y), Rules(gamma))
    e = solution.alignment
    terms = e[:, :, None] * slopes("sqeuclidean", x, y)
    sizes = np.abs(terms)
    grad_scale = float(max(sizes.sum(1).max(), sizes.sum(0).max()))
    # The library holds exp(-R / gamma), so each step rounds R relative to gamma. It shows where costs are far
    # below gamma and there is hardly more than one path (measured: 2.8e-7 gamma in float32 at (29, 1)).
    value_scale = max(abs(solution.value), solution.path, gamma * max(e.shape))
    return Pair(solution.value, e, terms.sum(1), -terms.sum(0), value_scale, grad_scale)


def alignments(n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """Every path from (0, 0) to (n - 1, m - 1) in steps (1, 1), (1, 0) and (0, 1)."""
    if n == 1 and m == 1:
        yield [(0, 0)]
        return
    for before in ((n - 1, m - 1), (n - 1, m), (n, m - 1)):
        if min(before) >= 1:
            for path in alignments(*before):
                yield [*path, (n - 1, m - 1)]


def enumerate_alignments(cost: np.ndarray, rules: Rules) -> Solution:
    """The same by the definition: the soft minimum over all admissible alignments, and expectations."""
    ways = [(1, 1), (1, 0), (0, 1)]
    totals, terms = [], []
    for path in alignments(*cost.shape):
        if not all(admits(rules, *cost.shape, *cell) for cell in path):
            continue
        steps = [ways.index((i - a, j - b)) for (a, b), (i, j) in pairwise(path)]
        weights = [rules.step_weights[way] for way in (0, *steps)]  # the first cell's is the diagonal step's
        weighed = [weight * cost[cell] for weight, cell in zip(weights, path, strict=True)]
        penalties = [rules.step_penalties[way] for way in steps]
        totals.append(sum(weighed) + sum(penalties))
        terms.append((path, weights, sum(map(abs, weighed)) + sum(map(abs, penalties))))
    expected, gradient, size = np.zeros(cost.shape), np.zeros(cost.shape), 0.0
    if not totals:
        return Solution(INF, expected, gradient, size)
    least = min(totals)
    if rules.gamma == 0:
        value, shares = least, [float(i == totals.index(least)) for i in range(len(totals))]
    else:
        shares = [math.exp((least - total) / rules.gamma) for total in totals]
        value = least - rules.gamma * math.log(sum(shares))
    for (path, weights, path_size), share in zip(terms, shares, strict=True):
        chance = share / sum(shares)
        size += chance * path_size
        for cell, weight in zip(path, weights, strict=True):
            expected[cell] += chance
            gradient[cell] += chance * weight
    return Solution(value, expected, gradient, size)
