"""Soft-DTW of batches in NumPy, from the equations alone: what results of small pairs are compared with.

Logarithms of long doubles (64 bits on x86), along anti-diagonals: no extended exponents, nothing of the
library's.
"""

from dataclasses import dataclass

import numpy as np

Wide = np.longdouble
EXACT = np.finfo(Wide).eps < 1e-18  # elsewhere a long double may be a double, which has too few bits for this


@dataclass
class Expected:
    """What is to come out, (B, ...) each: values, <E, D>, gradients by name, E or None."""

    value: np.ndarray
    path: np.ndarray
    gradients: dict
    alignment: np.ndarray | None


def squared_distances(x, y):
    rows = [np.square(x[:, i, None, :] - y).sum(axis=-1) for i in range(x.shape[1])]
    return np.stack(rows, axis=1)


def skewed(matrix):
    """Anti-diagonal s in row s: [s, b, i] is matrix[b, i, s - i], else infinite."""
    batch, n, m = matrix.shape
    out = np.full((n + m - 1, batch, n), np.inf, dtype=matrix.dtype)
    for i in range(n):
        out[i : i + m, :, i] = matrix[:, i].T
    return out


def straight(skew, m):
    """The inverse of skewed."""
    _, batch, n = skew.shape
    out = np.empty((batch, n, m), dtype=skew.dtype)
    for i in range(n):
        out[:, i] = skew[i : i + m, :, i].T
    return out


def shifted(row, fill):
    """[b, i] of row [b, i - 1]."""
    out = np.full_like(row, fill)
    out[:, 1:] = row[:, :-1]
    return out


def alignment_and_value(cost, gamma):
    """Algorithms 1 and 2 of Cuturi and Blondel 2017 for costs (B, n, m) that are finite."""
    batch, n, m = cost.shape
    t = skewed(cost / Wide(gamma))
    steps = len(t)
    weights = np.zeros((steps, 3, batch, n), dtype=Wide)  # of the ways into a cell: diagonal, up, left
    before = [np.full((batch, n), np.inf, dtype=Wide) for _ in range(2)]  # R / gamma, one and two steps ago
    for s in range(steps):
        ways = np.stack([shifted(before[1], np.inf), shifted(before[0], np.inf), before[0]])
        if s == 0:
            ways[0, :, 0] = 0
        least = ways.min(axis=0)
        reached = np.isfinite(least) & np.isfinite(t[s])
        low = np.where(reached, least, 0)
        terms = np.where(reached, np.exp(low - ways), 0)
        total = np.where(reached, terms.sum(axis=0), 1)
        weights[s] = terms / total
        before = [np.where(reached, np.where(reached, t[s], 0) + low - np.log(total), np.inf), before[0]]
    value = before[0][:, n - 1] * Wide(gamma)

    flow = np.zeros((steps + 2, batch, n), dtype=Wide)
    flow[steps - 1, :, n - 1] = 1
    for s in range(steps - 1, 0, -1):
        diagonal, up, left = weights[s] * flow[s]
        flow[s - 1] += left
        flow[s - 1, :, :-1] += up[:, 1:]
        if s > 1:
            flow[s - 2, :, :-1] += diagonal[:, 1:]
    return straight(flow, m), value


def evaluate(case, data):
    if not case.fused:
        cost = data.cost.astype(Wide)
        alignment, value = alignment_and_value(cost, case.gamma)
        return Expected(value, (alignment * cost).sum(axis=(1, 2)), {"grad_x": alignment}, alignment)
    x, y = data.x.astype(Wide), data.y.astype(Wide)
    cost = squared_distances(x, y)
    alignment, value = alignment_and_value(cost, case.gamma)
    gradients = {"grad_x": np.empty_like(x), "grad_y": np.empty_like(y)}
    for b in range(len(x)):  # sum of E (x - y): no large products cancel where points are far from 0
        for i in range(x.shape[1]):
            differences = 2 * alignment[b, i, :, None] * (x[b, i] - y[b])
            gradients["grad_x"][b, i] = differences.sum(axis=0)
            gradients["grad_y"][b] = gradients["grad_y"][b] - differences if i else -differences
    return Expected(value, (alignment * cost).sum(axis=(1, 2)), gradients, alignment)
