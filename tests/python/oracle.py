# Soft-DTW in plain Python floats, written from the equations and from nothing of the library's; and an
# enumeration of all alignments that the oracle is itself checked against.
from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

INF = math.inf


class Pair(NamedTuple):
    """What the equations give for one pair of series."""

    value: float
    alignment: np.ndarray  # E, (n, m)
    grad_x: np.ndarray
    grad_y: np.ndarray
    value_scale: float  # what a rounding error of the value is relative to
    grad_scale: float  # and one of the gradients: the largest sum of the sizes of an entry's terms


def sqeuclidean(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def accumulate(cost: np.ndarray, gamma: float) -> np.ndarray:
    """R of Cuturi and Blondel 2017, Algorithm 1, with its padded border: (i, j) is in R[i + 1, j + 1]."""
    n, m = cost.shape
    r = np.full((n + 1, m + 1), INF)
    r[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            before = (r[i - 1, j - 1], r[i - 1, j], r[i, j - 1])
            low = min(before)
            if low < INF:
                total = sum(math.exp((low - b) / gamma) for b in before)
                r[i, j] = cost[i - 1, j - 1] + low - gamma * math.log(total)
    return r


def expected_alignment(cost: np.ndarray, gamma: float) -> np.ndarray:
    """E of Algorithm 2. A cell passes its E to its predecessors in proportion to exp(-R / gamma)."""
    r = accumulate(cost, gamma)
    n, m = cost.shape
    e = np.zeros((n + 1, m + 1))
    if r[n, m] == INF:
        return e[1:, 1:]
    e[n, m] = 1.0
    for i in range(n, 0, -1):
        for j in range(m, 0, -1):
            before = ((i - 1, j - 1), (i - 1, j), (i, j - 1))
            low = min(r[b] for b in before)
            if e[i, j] == 0 or low == INF:
                continue
            weights = [math.exp((low - r[b]) / gamma) for b in before]
            for b, weight in zip(before, weights, strict=True):
                e[b] += e[i, j] * weight / sum(weights)
    return e[1:, 1:]


def soft_dtw(x: np.ndarray, y: np.ndarray, gamma: float) -> Pair:
    """Value, alignment and gradients for the squared Euclidean distance of (n, d) and (m, d)."""
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(x) == 0 or len(y) == 0:
        value = 0.0 if len(x) == len(y) else INF
        return Pair(value, np.zeros((len(x), len(y))), np.zeros_like(x), np.zeros_like(y), 1.0, 1.0)
    cost = sqeuclidean(x, y)
    value = float(accumulate(cost, gamma)[-1, -1])
    e = expected_alignment(cost, gamma)
    terms = 2 * (x[:, None, :] - y[None, :, :]) * e[:, :, None]
    sizes = np.abs(terms)
    grad_scale = float(max(sizes.sum(1).max(), sizes.sum(0).max()))
    # The library holds exp(-R / gamma), so each step rounds R relative to gamma. It shows where costs are far
    # below gamma and there is hardly more than one path (measured: 2.8e-7 gamma in float32 at (29, 1)).
    value_scale = max(abs(value), float((e * np.abs(cost)).sum()), gamma * max(cost.shape))
    return Pair(value, e, terms.sum(1), -terms.sum(0), value_scale, grad_scale)


def alignments(n: int, m: int) -> Iterator[list[tuple[int, int]]]:
    """Every path from (0, 0) to (n - 1, m - 1) in steps (1, 1), (1, 0) and (0, 1)."""
    if n == 1 and m == 1:
        yield [(0, 0)]
        return
    for before in ((n - 1, m - 1), (n - 1, m), (n, m - 1)):
        if min(before) >= 1:
            for path in alignments(*before):
                yield [*path, (n - 1, m - 1)]


def enumerate_alignments(cost: np.ndarray, gamma: float) -> tuple[float, np.ndarray]:
    """Value and E as the definitions have them: a soft minimum over all alignments, and their expectation."""
    paths = list(alignments(*cost.shape))
    totals = np.array([sum(cost[cell] for cell in path) for path in paths])
    weights = np.exp((totals.min() - totals) / gamma)
    expected = np.zeros(cost.shape)
    for path, weight in zip(paths, weights, strict=True):
        for cell in path:
            expected[cell] += weight / weights.sum()
    return float(totals.min() - gamma * np.log(weights.sum())), expected
