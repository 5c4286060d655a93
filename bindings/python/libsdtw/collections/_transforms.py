# What is done to series before they are compared: numbers of one scale, centers of one length.
"""scaled and stretched."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._series import Series, like, on_host

SCALERS = ("standard", "minmax")


def scaled(series: Series, scaler: str | None) -> Series:
    """Each feature of each series, on its own, with mean 0 and deviation 1, or in [0, 1]. Constants become
    0."""
    if scaler is None:
        return series
    data = np.array(on_host(series.data), dtype=series.value_dtype, order="C")  # sums have one order
    for row, size in zip(data, series.sizes(), strict=True):
        part = row[:size]
        # The largest is near 1, by a power of two, as differences and squares of any numbers could overflow.
        part[...] = np.ldexp(part, -np.frexp(np.abs(part).max(0))[1])
        last_digit = np.finfo(part.dtype).eps * np.abs(part).max(0)
        part -= part[0].copy()  # so that the mean of a constant is the constant, without rounding
        if scaler == "standard":  # in float64, as rounding errors of many time steps add up
            shift, scale = part.mean(0, dtype=np.float64), part.std(0, dtype=np.float64)
        else:
            shift, scale = part.min(0), np.ptp(part, 0)
        part -= shift
        # Values that differ in their last digit alone are a constant that was computed, and rounded.
        part /= np.where(scale > last_digit, scale, np.inf)
    return Series(like(data, series.data), series.lengths)


def stretched(one: NDArray[Any], steps: int) -> NDArray[Any]:
    """A series (N, D) at so many evenly spaced points of its own time, by linear interpolation."""
    if len(one) == steps:
        return np.array(one, np.float64)
    at = np.linspace(0, len(one) - 1, steps)
    return np.stack([np.interp(at, np.arange(len(one)), column) for column in one.T], axis=1)
