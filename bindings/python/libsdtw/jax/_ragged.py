# Series of different lengths: lists of them, and padding.
"""Lists of series as padded batches with lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._core import InvalidArgumentError


def pad(series: Sequence[Any], value: float = 0.0) -> tuple[jax.Array, jax.Array]:
    """A batch of series of different lengths.

    Args:
        series: arrays (N_b, D), or (N_b,) for univariate series.
        value: what padding holds, which nothing reads.

    Returns:
        (batch, lengths): (B, N, D), N being the greatest length, and (B,).
    """
    try:
        arrays = [jnp.asarray(one) for one in series]
    except TypeError:
        raise TypeError(f"series is {series!r}: expected a list of arrays (N_b, D) or (N_b,)") from None
    return _padded("series", arrays, value)


def _padded(name: str, arrays: list[jax.Array], value: float) -> tuple[jax.Array, jax.Array]:
    if not arrays:
        raise InvalidArgumentError(f"{name} is empty: expected one series or more")
    arrays = [one[:, None] if one.ndim == 1 else one for one in arrays]
    for k, one in enumerate(arrays):
        if one.ndim != 2 or one.shape[1] != arrays[0].shape[1]:
            raise InvalidArgumentError(
                f"{name}[{k}] has shape {one.shape} where {name}[0] has {arrays[0].shape}: expected (N, D) "
                "with the same D, or (N,)"
            )
    lengths = [one.shape[0] for one in arrays]
    longest = max(1, *lengths)
    padded = [
        jnp.pad(one, ((0, longest - n), (0, 0)), constant_values=value)
        for one, n in zip(arrays, lengths, strict=True)
    ]
    return jnp.stack(padded), jnp.asarray(lengths, jnp.int32)


def to_lengths(batch: Any) -> jax.Array:
    """Lengths of series that are padded with NaN at their ends, as tslearn's are.

    Args:
        batch: (..., N, D), or (..., N) with ``batch[..., None]``.

    Returns:
        (...,) integers: one more than the last time step of which a feature is not NaN.
    """
    given = jnp.asarray(batch)
    if given.ndim < 2:
        raise InvalidArgumentError(f"batch has shape {given.shape}: expected (..., N, D)")
    there = ~jnp.isnan(given).all(-1)
    steps = jnp.arange(1, given.shape[-2] + 1, dtype=jnp.int32)
    return jnp.max(jnp.where(there, steps, 0), -1, initial=0)  # there may be no steps


def padded(name: str, series: Any, lengths: Any, lengths_name: str = "") -> tuple[Any, Any]:
    """The argument as an array, with the lengths of a list of series."""
    if not isinstance(series, (list, tuple)):
        return series, lengths
    if not series:
        raise InvalidArgumentError(f"{name} is an empty list: expected one series or more")
    if lengths is not None:
        given = lengths_name or f"{name}_lengths"
        raise InvalidArgumentError(
            f"{name} is a {type(series).__name__} and {given} is given: its series have lengths"
        )
    for k, one in enumerate(series):
        if not isinstance(one, (jax.Array, np.ndarray)):
            raise TypeError(f"{name}[{k}] is a {type(one).__name__}: expected an array (N, D)")
    return _padded(name, [jnp.asarray(one) for one in series], 0.0)
