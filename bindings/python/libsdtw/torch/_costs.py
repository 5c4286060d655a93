# Costs of all pairs of time steps with PyTorch's own operations, for where a matrix of them is wanted.
"""Cost matrices (B, N, M) of batches (B, N, D) and (B, M, D), differentiable any number of times."""

from __future__ import annotations

import torch
from torch import Tensor


def sqeuclidean(x: Tensor, y: Tensor) -> Tensor:
    # Sums of products take the digits of small differences: so in float64, and around 0.
    shift = x.detach().double().mean(-2, keepdim=True)
    a, b = x.double() - shift, y.double() - shift
    cost = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :] - 2 * a @ b.mT
    return cost.to(x.dtype)


COSTS = {"sqeuclidean": sqeuclidean}


def without_padding(series: Tensor, lengths: Tensor | None) -> Tensor:
    """The batch with 0 for padding, which costs would carry into gradients: NaN times 0 is NaN."""
    if lengths is None:
        return series
    inside = torch.arange(series.shape[1], device=series.device) < lengths[:, None]
    return torch.where(inside[..., None], series, 0)
