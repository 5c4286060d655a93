# Batches of series of different lengths: lists, nested tensors, and NaN for padding.
"""Padded batches and lengths from lists of series, jagged nested tensors and NaN-padded tensors, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_sequence

from .._core import InvalidArgumentError


def pad(series: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """A padded batch and lengths of a list of series.

    Args:
        series: tensors (N_b, D) or (N_b,), with the same number of features, type and device; or a jagged
            nested tensor (B, N_b, D).

    Returns:
        The batch (B, N, D), N the longest length, padded with 0 and differentiable, and lengths (B,).
    """
    return _padded("series", series)


def to_lengths(series: Tensor) -> Tensor:
    """Lengths of series that are padded with NaN at their ends, as tslearn's are.

    Args:
        series: (..., N, D), or (..., N) with ``series[..., None]``.

    Returns:
        (...,) integers: one more than the last time step of which a feature is not NaN.
    """
    if not isinstance(series, Tensor) or series.ndim < 2:
        raise InvalidArgumentError(
            "series is not (..., N, D): expected a tensor with time steps and features"
        )
    if series.shape[-2] == 0:
        return series.new_zeros(series.shape[:-2], dtype=torch.int64)
    steps = torch.arange(1, series.shape[-2] + 1, device=series.device)
    return torch.where(series.isnan().all(-1), 0, steps).amax(-1)


def padded(name: str, series: Any, lengths: Any, of_lengths: str | None = None) -> tuple[Any, Any]:
    """A batch and lengths, from whatever form of a batch; what is a tensor already is given back.

    of_lengths: the name of the argument, if it is not "x_lengths" of "x".
    """
    nested = isinstance(series, Tensor) and series.is_nested
    if not nested and not isinstance(series, (list, tuple)):
        return series, lengths
    if lengths is not None:
        kind = "a nested tensor" if nested else f"a {type(series).__name__}"
        of_lengths = of_lengths or f"{name}_lengths"
        raise InvalidArgumentError(f"{name} is {kind} and {of_lengths} is given: its series have lengths")
    return _padded(name, series)


def _padded(name: str, series: Any) -> tuple[Tensor, Tensor]:
    if isinstance(series, Tensor):
        if not series.is_nested:
            raise TypeError(f"{name} is a tensor: expected a list of series, or a nested tensor")
        series = series.unbind()
    if isinstance(series, PackedSequence):  # a tuple, but not of series
        raise TypeError(
            f"{name} is a PackedSequence: expected a padded batch and lengths, as "
            "torch.nn.utils.rnn.pad_packed_sequence gives with batch_first=True, or a list of series"
        )
    if not isinstance(series, (list, tuple)):
        raise TypeError(f"{name} is a {type(series).__name__}: expected a list of series, or a nested tensor")
    if len(series) == 0:
        raise InvalidArgumentError(f"{name} is empty: expected one series or more")
    for k, one in enumerate(series):
        if not isinstance(one, Tensor):
            raise TypeError(f"{name}[{k}] is a {type(one).__name__}: expected a tensor")
        if one.ndim not in (1, 2):
            raise InvalidArgumentError(
                f"{name}[{k}] has shape {tuple(one.shape)}: expected (N_b, D), or (N_b,)"
            )
        if one.ndim != series[0].ndim or one.shape[1:] != series[0].shape[1:]:
            raise InvalidArgumentError(
                f"{name}[{k}] has shape {tuple(one.shape)} and {name}[0] {tuple(series[0].shape)}: expected "
                "(N_b, D), or (N_b,), with the same features"
            )
        if one.dtype != series[0].dtype or one.device != series[0].device:
            raise InvalidArgumentError(
                f"{name}[{k}] is {one.dtype} on {one.device} and {name}[0] {series[0].dtype} on "
                f"{series[0].device}: expected the same"
            )
    lengths = torch.tensor([len(one) for one in series], device=series[0].device)
    batch = pad_sequence([one if one.ndim == 2 else one[:, None] for one in series], batch_first=True)
    if batch.shape[1] == 0:
        batch = batch.new_zeros(len(series), 1, *batch.shape[2:])
    return batch, lengths
