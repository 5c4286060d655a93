# What the tests of libsdtw.torch share: a random batch, gradients of a sum of values, and options.
import torch

# Of soft_dtw, one of each kind, for properties to draw from.
OPTIONS = [
    {},
    {"gamma": 0},
    {"gamma": 0.01, "metric": "cityblock"},
    {"gamma": 3, "metric": "cosine", "band": "sakoe_chiba", "radius": 2},
    {"metric": "euclidean", "band": "absolute", "radius": 1},
    {"band": "itakura", "radius": 2.5, "step_penalties": (0, 0.5, 1.0)},
    {"step_weights": (2, 1, 1)},
]


def pair(device, dtype=torch.float64, shape=(3, 7, 6, 2), seed=0):
    """x (B, N, D) and y (B, M, D) for shape (B, N, M, D), both with requires_grad."""
    batch, n, m, d = shape
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, n, d, generator=rng, dtype=dtype).to(device).requires_grad_()
    y = torch.randn(batch, m, d, generator=rng, dtype=dtype).to(device).requires_grad_()
    return x, y


def grads(value, *inputs):
    return torch.autograd.grad(value.sum(), inputs)
