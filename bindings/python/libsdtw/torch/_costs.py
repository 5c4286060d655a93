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


def euclidean(x: Tensor, y: Tensor) -> Tensor:
    difference = _differences(x, y)
    largest = difference.detach().abs().amax(-1)
    apart = largest > 0  # the slope at 0 is taken as 0
    largest = torch.where(apart, largest, 1)
    square = (difference / largest[..., None]).square().sum(-1)  # neither overflows nor vanishes
    return torch.where(apart, torch.where(apart, square, 1).sqrt() * largest, 0)


def cityblock(x: Tensor, y: Tensor) -> Tensor:
    return _differences(x, y).abs().sum(-1)


def cosine(x: Tensor, y: Tensor) -> Tensor:
    # In float64, of which neither autocast nor TF32 makes products of a few digits.
    cost = 1 - _directions(x.double()) @ _directions(y.double()).mT
    return cost.to(x.dtype)


def _directions(series: Tensor) -> Tensor:
    """Unit vectors, and 0 with gradient 0 for vectors of zeros, which cost 1 to everything."""
    largest = series.detach().abs().amax(-1, keepdim=True)
    series = series / torch.where(largest > 0, largest, 1)  # squares neither overflow nor vanish
    square = series.square().sum(-1, keepdim=True)
    some = square > 0
    return torch.where(some, series / torch.where(some, square, 1).sqrt(), 0)


def _differences(x: Tensor, y: Tensor) -> Tensor:
    return x[..., :, None, :] - y[..., None, :, :]


COSTS = {"sqeuclidean": sqeuclidean, "euclidean": euclidean, "cityblock": cityblock, "cosine": cosine}


def without_padding(series: Tensor, lengths: Tensor | None) -> Tensor:
    """The batch with 0 for padding, which costs would carry into gradients: NaN times 0 is NaN."""
    return series if lengths is None else torch.where(_inside(series, lengths), series, 0)


def repeated(series: Tensor, lengths: Tensor | None) -> Tensor:
    """The batch with a series' first time step for padding, or ones where it has none: a function may have no
    derivative at 0, and 0 times its NaN would be the other series' gradient."""
    if lengths is None:
        return series
    first = torch.where((lengths > 0)[:, None, None], series[:, :1].detach(), 1)
    return torch.where(_inside(series, lengths), series, first)


def _inside(series: Tensor, lengths: Tensor) -> Tensor:
    return (torch.arange(series.shape[1], device=series.device) < lengths[:, None])[..., None]


def times(tensor: Tensor, factor: Tensor, aside: Tensor) -> Tensor:
    """The tensor times a factor that has a derivative, which leaves out what is aside and not multiplied.

    Else autograd would multiply what the tensor holds there by a gradient of 0, and infinity times 0 is NaN.
    """
    return torch.where(aside, tensor, torch.where(aside, 0, tensor) * factor)


def wide(series: Tensor, least: torch.dtype = torch.float32) -> Tensor:
    """The series in a type of at least that many digits and that range."""
    return series.to(torch.promote_types(series.dtype, least))


def matrix(
    metric: str, x: Tensor, y: Tensor, x_lengths: Tensor | None = None, y_lengths: Tensor | None = None
) -> Tensor:
    """Costs of a metric by its name, in float32 or more; padding is 0 for it."""
    x, of_x = _finite(wide(without_padding(x, x_lengths)))
    y, of_y = _finite(wide(without_padding(y, y_lengths)))
    if metric == "cosine":  # which has no direction of infinity
        of_x, of_y = 0 * of_x, 0 * of_y
    return COSTS[metric](x, y) + of_x[..., :, None] + of_y[..., None, :]


def _finite(series: Tensor) -> tuple[Tensor, Tensor]:
    """The series with 0 for points that hold NaN or infinity, and what these add to the costs of each point:
    neither is to reach others, as by sums over all of them, nor to be lost."""
    largest = series.detach().abs().amax(-1)
    finite = largest.isfinite()
    return torch.where(finite[..., None], series, 0), torch.where(finite, 0, largest)


def dot(weights: Tensor, values: Tensor) -> Tensor:
    """Sums of products, pair by pair, in float32 or more: 0 where weights are, whatever padding or forbidden
    cells hold. Finite values stay, as weights may be 0 and have a derivative."""
    if weights.dtype in (torch.float16, torch.bfloat16):
        weights, values = weights.float(), values.float()
    return (weights * torch.where((weights == 0) & ~values.isfinite(), 0, values)).sum((1, 2))
