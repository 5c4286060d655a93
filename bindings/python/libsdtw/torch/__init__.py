# Soft-DTW as a differentiable loss for PyTorch: a function, a module, and the expected alignment.
"""Soft-DTW for PyTorch.

    loss = SoftDTW(gamma=0.1, reduction="mean")
    loss(x, y).backward()

A series is a tensor of shape (N, D), N time steps of D features, or (N,) for D = 1; a batch is (B, N, D).
With ``metric="precomputed"`` x is the cost matrix, (N, M) or (B, N, M), and there is no y. Where x and y hold
different numbers of series, one of them must hold a single one: it is paired with every series of the other.

Tensors are read in place, at any strides. Values and gradients have the type of x and y. On the CPU a call
uses torch.get_num_threads() threads.

The recurrence is that of Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML
2017, with the squared Euclidean distance (no factor) between time steps, or the given cost.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import InvalidArgumentError
from .._problem import batched, check_length_shape, check_options, choice, pair_sizes, require_y
from . import _kernels, _operators

__all__ = ["SoftDTW", "soft_dtw", "soft_dtw_alignment"]

_REDUCTIONS = ("none", "mean", "sum")


def soft_dtw(
    x: Tensor,
    y: Tensor | None = None,
    *,
    gamma: float = 1.0,
    metric: str = "sqeuclidean",
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
    reduction: str = "none",
) -> Tensor:
    """Soft-DTW of x and y, differentiable with respect to both.

    Args:
        x: series, (B, N, D), (N, D) or (N,); for metric "precomputed" the cost, (B, N, M) or (N, M).
        y: series likewise, (B, M, D), (M, D) or (M,), of x's type and device; None for metric "precomputed".
        gamma: smoothing, finite and >= 0.
        metric: "sqeuclidean", sum_k (x_ik - y_jk)^2, or "precomputed".
        x_lengths, y_lengths: int32 or int64 tensors of shape (B,) on x's device: time steps of each series,
            the rest being padding, which is never read and whose gradient is 0; None: all. The host does not
            read them: a length outside [0, N] makes its pair's value and gradient NaN.
        reduction: "none", "mean" or "sum" over the batch.

    Returns:
        Values, (B,); a scalar if neither x nor y has a batch dimension, or with a reduction. A pair of two
        empty series has value 0, of one empty series +infinity, and one with a NaN in it NaN.

    Raises:
        InvalidArgumentError (a ValueError): an argument has a shape, device or value that it may not have.
        UnsupportedError (a NotImplementedError): a gamma, metric or type that this version does not
            implement, or a second derivative.
        TypeError: an argument is not a tensor of floating-point numbers, or lengths not one of integers.
    """
    choice("reduction", reduction, _REDUCTIONS)
    unbatched, inputs = _prepare(x, y, gamma, metric, x_lengths, y_lengths)
    save_state = torch.is_grad_enabled() and (x.requires_grad or (y is not None and y.requires_grad))
    value: Tensor = _operators.forward(*inputs, gamma, metric, save_state)[0]
    if reduction == "mean":
        return value.mean()
    if reduction == "sum":
        return value.sum()
    return value.squeeze(0) if unbatched else value


def soft_dtw_alignment(
    x: Tensor,
    y: Tensor | None = None,
    *,
    gamma: float = 1.0,
    metric: str = "sqeuclidean",
    x_lengths: Tensor | None = None,
    y_lengths: Tensor | None = None,
) -> Tensor:
    """Expected alignment of x and y: E[i, j] is the derivative of the value by the cost of the cell (i, j).

    Arguments and errors are those of :func:`soft_dtw`. Where x or y requires a gradient the result is
    differentiable, once, and the matrix of costs is held in memory too.

    Returns:
        E, (B, N, M), or (N, M) if neither x nor y has a batch dimension: the probability that a path drawn
        with weight exp(-cost / gamma) visits the cell (Cuturi and Blondel 2017, Algorithm 2). 0 in the
        padding.
    """
    unbatched, inputs = _prepare(x, y, gamma, metric, x_lengths, y_lengths)
    alignment = _operators.alignment(*inputs, gamma, metric)
    return alignment.squeeze(0) if unbatched else alignment


class SoftDTW(torch.nn.Module):
    """Soft-DTW as a loss module: see :func:`soft_dtw`, whose options the constructor takes."""

    def __init__(self, gamma: float = 1.0, metric: str = "sqeuclidean", reduction: str = "none") -> None:
        super().__init__()
        check_options(gamma, metric)
        choice("reduction", reduction, _REDUCTIONS)
        self.gamma = gamma
        self.metric = metric
        self.reduction = reduction

    def forward(
        self,
        x: Tensor,
        y: Tensor | None = None,
        x_lengths: Tensor | None = None,
        y_lengths: Tensor | None = None,
    ) -> Tensor:
        return soft_dtw(
            x,
            y,
            gamma=self.gamma,
            metric=self.metric,
            x_lengths=x_lengths,
            y_lengths=y_lengths,
            reduction=self.reduction,
        )

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, metric={self.metric!r}, reduction={self.reduction!r}"


_Inputs = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]


def _prepare(
    x: Tensor,
    y: Tensor | None,
    gamma: float,
    metric: str,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
) -> tuple[bool, _Inputs]:
    """Checks all arguments; returns whether no batch dimension was given, and the operators' inputs."""
    check_options(gamma, metric)
    require_y(y, metric)
    _check_floats("x", x)
    unbatched = x.ndim < 3
    if y is None:
        x = batched("x", x, "N, M")
        batch = x.shape[0]
    else:
        _check_floats("y", y)
        _check_same(x, y)
        unbatched = unbatched and y.ndim < 3
        x, y = batched("x", x, "N, D"), batched("y", y, "N, D")
        batch = pair_sizes(x.shape, y.shape).batch
        if x.shape[0] != y.shape[0]:
            x, y = x.expand(batch, -1, -1), y.expand(batch, -1, -1)
    if x_lengths is not None or y_lengths is not None:
        x_lengths = _lengths("x_lengths", x_lengths, batch, x.device)
        y_lengths = _lengths("y_lengths", y_lengths, batch, x.device)
        if x_lengths is not None and y_lengths is not None and x_lengths.dtype != y_lengths.dtype:
            x_lengths, y_lengths = x_lengths.long(), y_lengths.long()
    return unbatched, (x, y, x_lengths, y_lengths)


def _check_floats(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}: expected a tensor")
    if tensor.dtype not in _kernels.COMPUTED:
        raise TypeError(f"{name} has dtype {tensor.dtype}: expected torch.float32 or torch.float64")


def _check_same(x: Tensor, y: Tensor) -> None:
    if x.dtype != y.dtype:
        raise InvalidArgumentError(f"x has dtype {x.dtype} and y has {y.dtype}: expected the same")
    if x.device != y.device:
        raise InvalidArgumentError(f"x is on device {x.device} and y on {y.device}: expected the same")


def _lengths(name: str, lengths: Tensor | None, batch: int, device: torch.device) -> Tensor | None:
    if lengths is None:
        return None
    if not isinstance(lengths, Tensor):
        raise TypeError(f"{name} is a {type(lengths).__name__}: expected a tensor")
    if lengths.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"{name} has dtype {lengths.dtype}: expected torch.int32 or torch.int64")
    if lengths.device != device:
        raise InvalidArgumentError(
            f"{name} is on device {lengths.device} and x on {device}: expected the same"
        )
    check_length_shape(name, lengths.shape, batch)
    return lengths.expand(batch)
