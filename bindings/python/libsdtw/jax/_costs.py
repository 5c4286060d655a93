# Costs of all pairs of time steps with JAX's own operations, for where a matrix of them is wanted.
"""Cost matrices (B, N, M) of batches (B, N, D) and (B, M, D), differentiable any number of times."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def sqeuclidean(x: Any, y: Any) -> Any:
    return jnp.sum(_differences(x, y) ** 2, -1)


def euclidean(x: Any, y: Any) -> Any:
    square = sqeuclidean(x, y)
    apart = square > 0  # the slope at 0 is taken as 0
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)), 0)


def cityblock(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.abs(_differences(x, y)), -1)


def cosine(x: Any, y: Any) -> Any:
    product = jnp.einsum("...nd,...md->...nm", _directions(x), _directions(y), precision="highest")
    return 1 - product


def _directions(series: Any) -> Any:
    """Unit vectors, and 0 with gradient 0 for vectors of zeros, which cost 1 to everything."""
    square = jnp.sum(series**2, -1, keepdims=True)
    some = square > 0
    return jnp.where(some, series / jnp.sqrt(jnp.where(some, square, 1)), 0)


def _differences(x: Any, y: Any) -> Any:
    return x[..., :, None, :] - y[..., None, :, :]


COSTS = {"sqeuclidean": sqeuclidean, "euclidean": euclidean, "cityblock": cityblock, "cosine": cosine}


def inside(series: Any, lengths: Any) -> Any:
    """Which time steps are no padding: (B, N, 1)."""
    return (jnp.arange(series.shape[1]) < lengths[:, None])[..., None]


def without_padding(series: Any, lengths: Any) -> Any:
    """The batch with 0 for padding, which costs would carry into gradients: NaN times 0 is NaN."""
    return series if lengths is None else jnp.where(inside(series, lengths), series, 0)


def matrix(metric: str, x: Any, y: Any, x_lengths: Any = None, y_lengths: Any = None) -> Any:
    """Costs of a metric by its name; padding is 0 for it."""
    return COSTS[metric](without_padding(x, x_lengths), without_padding(y, y_lengths))


def centred(x: Any, y: Any, x_lengths: Any, y_lengths: Any) -> tuple[Any, Any]:
    """x and y around the mean of x: costs do not depend on where 0 is, but rounding does."""
    x, y = without_padding(x, x_lengths), without_padding(y, y_lengths)
    shift = jax.lax.stop_gradient(x.mean(1, keepdims=True))
    return without_padding(x - shift, x_lengths), without_padding(y - shift, y_lengths)
