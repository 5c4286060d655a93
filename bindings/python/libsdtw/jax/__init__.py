# Soft-DTW for JAX: functions that can be differentiated, compiled, batched and split over devices.
"""Soft-DTW for JAX.

    loss, grad = jax.value_and_grad(lambda x: soft_dtw(x, y, gamma=0.1, reduction="mean"))(x)

A series is an array of shape (N, D), N time steps of D features; a batch is (B, N, D), or has more leading
dimensions. Values and gradients have the type of x and y.

The recurrence is that of Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML
2017, with by default the squared Euclidean distance (no factor) between time steps.
"""

from . import _derivatives as _derivatives  # the rules of the primitives
from ._barycenter import soft_dtw_barycenter
from ._cdist import soft_dtw_cdist
from ._functional import (
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
)
from ._ragged import pad, to_lengths

__all__ = [
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
