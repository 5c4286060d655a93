# What the tests of libsdtw.torch share: a random batch, and gradients of a sum of values.
import torch


def pair(device, dtype=torch.float64, shape=(3, 7, 6, 2), seed=0):
    """x (B, N, D) and y (B, M, D) for shape (B, N, M, D), both with requires_grad."""
    batch, n, m, d = shape
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(batch, n, d, generator=rng, dtype=dtype).to(device).requires_grad_()
    y = torch.randn(batch, m, d, generator=rng, dtype=dtype).to(device).requires_grad_()
    return x, y


def grads(value, *inputs):
    return torch.autograd.grad(value.sum(), inputs)
