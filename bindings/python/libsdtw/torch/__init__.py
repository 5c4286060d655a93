# Soft-DTW as a differentiable loss for PyTorch: functions, a module, and what is built on them.
"""Soft-DTW for PyTorch.

    loss = SoftDTW(gamma=0.1, reduction="mean")
    loss(x, y).backward()

A series is a tensor of shape (N, D), N time steps of D features; a batch is (B, N, D), or has more leading
dimensions. Tensors are read in place, at any strides. Values and gradients have the type of x and y. On the
CPU a call uses torch.get_num_threads() threads.

The recurrence is that of Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML
2017, with by default the squared Euclidean distance (no factor) between time steps.
"""

from ._barycenter import soft_dtw_barycenter
from ._cdist import soft_dtw_cdist
from ._functional import (
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
)
from ._module import SoftDTW
from ._ragged import pad, to_lengths

__all__ = [
    "SoftDTW",
    "pad",
    "sharp_soft_dtw",
    "soft_dtw",
    "soft_dtw_alignment",
    "soft_dtw_barycenter",
    "soft_dtw_cdist",
    "soft_dtw_divergence",
    "soft_dtw_with_alignment",
    "to_lengths",
]
