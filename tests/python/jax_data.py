# What the tests of libsdtw.jax share: a random batch, and the oracle's numbers.
import contextlib

import jax
import jax.experimental
import numpy as np

import oracle

# Most of the time of these tests is that of compiling programs that run once.
jax.config.update("jax_disable_most_optimizations", True)

# JAX 0.5, the oldest that is supported, has it elsewhere.
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64

LENGTHS = {"x_lengths": [7, 3, 5], "y_lengths": [6, 4, 4]}


def x_of(bits):
    """JAX with float64, or as it is."""
    return enable_x64(True) if bits == 64 else contextlib.nullcontext()


def pair(dtype=np.float64, shape=(3, 7, 6, 2), seed=0):
    """x (B, N, D) and y (B, M, D) for shape (B, N, M, D)."""
    batch, n, m, d = shape
    rng = np.random.default_rng(seed)
    return rng.normal(size=(batch, n, d)).astype(dtype), rng.normal(size=(batch, m, d)).astype(dtype)


def expected(metric, x, y, rules, x_lengths=None, y_lengths=None):
    """(value, grad_x, grad_y, alignment, scales of values and of gradients) of a batch by the definitions."""
    given = x if metric == "precomputed" else None
    shape = (len(x), x.shape[1], x.shape[2] if given is not None else y.shape[1])
    values, alignments = np.zeros(len(x)), np.zeros(shape)
    sizes, scales = np.zeros(len(x)), np.zeros(len(x))
    grad_x, grad_y = np.zeros(x.shape), None if y is None else np.zeros(y.shape)
    for b in range(len(x)):
        n = shape[1] if x_lengths is None else x_lengths[b]
        m = shape[2] if y_lengths is None else y_lengths[b]
        if n == 0 or m == 0:
            values[b] = 0 if n == m else np.inf
            continue
        if given is not None:
            cost = given[b, :n, :m].astype(np.float64)
        else:
            one, other = x[b, :n].astype(np.float64), y[b, :m].astype(np.float64)
            cost = oracle.costs(metric, one, other)
        pair = oracle.solve(cost, rules)
        values[b], sizes[b], alignments[b, :n, :m] = pair.value, pair.path, pair.alignment
        if given is not None:
            grad_x[b, :n, :m] = pair.gradient
            scales[b] = pair.gradient.max()
            continue
        grad_x[b, :n] = (pair.gradient[:, :, None] * oracle.slopes(metric, one, other)).sum(1)
        grad_y[b, :m] = (pair.gradient.T[:, :, None] * oracle.slopes(metric, other, one)).sum(1)
        scales[b] = oracle.gradient_scale(metric, one, other, pair.gradient, grad_x[b], grad_y[b])
    return values, grad_x, grad_y, alignments, sizes, scales
