# The oracle of the family in plain Python floats: metrics, bands, step weights and penalties, and gamma = 0,
# from the definitions in sdtw.h and from nothing of the library.
from __future__ import annotations

import math
from fractions import Fraction
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


class Pair(NamedTuple):
    """What the definitions give for one pair."""

    value: float
    alignment: np.ndarray  # the chance that a path visits the cell
    gradient: np.ndarray  # by its cost
    path: float  # the expected sum of the sizes of a path's terms


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


def solve(cost: np.ndarray, rules: Rules) -> Pair:
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
    return Pair(r[n, m], alignment, gradient, path)
