# Costs of all pairs of time steps with JAX's own operations, for where a matrix of them is wanted.
"""Cost matrices (B, N, M) of batches (B, N, D) and (B, M, D), differentiable any number of times."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def sqeuclidean(x: Any, y: Any) -> Any:
    return jnp.sum(_differences(x, y) ** 2, -1)


def euclidean(x: Any, y: Any) -> Any:
    difference = _differences(x, y)
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(difference), -1))
    apart = largest != 0  # the slope at 0 is taken as 0, and NaN stays
    largest = jnp.where(apart & jnp.isfinite(largest), largest, 1)
    square = jnp.sum((difference / largest[..., None]) ** 2, -1)  # neither overflows nor vanishes
    return jnp.where(apart, jnp.sqrt(jnp.where(apart, square, 1)) * largest, 0)


def cityblock(x: Any, y: Any) -> Any:
    return jnp.sum(jnp.abs(_differences(x, y)), -1)


def cosine(x: Any, y: Any) -> Any:
    product = jnp.einsum("...nd,...md->...nm", _directions(x), _directions(y), precision="highest")
    return 1 - product


def _directions(series: Any) -> Any:
    """Unit vectors, and 0 with gradient 0 for vectors of zeros, which cost 1 to everything."""
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(series), -1, keepdims=True))
    series = series / jnp.where(largest > 0, largest, 1)  # squares neither overflow nor vanish
    square = jnp.sum(series**2, -1, keepdims=True)
    return jnp.where(square == 0, 0, series / jnp.sqrt(jnp.where(square == 0, 1, square)))


def cosine_as_squares(x: Any, y: Any) -> tuple[Any, Any]:
    """Series whose squared Euclidean costs are the cosine costs of x and y.

    Half the squared distance of unit vectors is 1 - <u, v>. A vector of zeros costs 1 to everything: it is a
    unit vector in a dimension of its own, one for those of x and one for those of y.
    """

    def units(series: Any, dimension: int) -> Any:
        units = _directions(series)
        zero = jnp.all(units == 0, -1, keepdims=True)
        apart = [zero if k == dimension else jnp.zeros_like(zero) for k in range(2)]
        return np.sqrt(0.5).astype(units.dtype) * jnp.concatenate(
            [units, *(one.astype(units.dtype) for one in apart)], -1
        )

    return units(x, 0), units(y, 1)


def _differences(x: Any, y: Any) -> Any:
    return x[..., :, None, :] - y[..., None, :, :]


COSTS = {"sqeuclidean": sqeuclidean, "euclidean": euclidean, "cityblock": cityblock, "cosine": cosine}


def inside(series: Any, lengths: Any) -> Any:
    """Which time steps are no padding: (B, N, 1)."""
    return (jnp.arange(series.shape[1], dtype=lengths.dtype)[None] < lengths[:, None])[..., None]


def without_padding(series: Any, lengths: Any) -> Any:
    """The batch with 0 for padding, which costs would carry into gradients: NaN times 0 is NaN."""
    return series if lengths is None else jnp.where(inside(series, lengths), series, 0)


def repeated(series: Any, lengths: Any) -> Any:
    """The batch with a series' first time step for padding, or ones where it has none: a function may have no
    derivative at 0, and its cotangent 0 times NaN would be the other series' gradient."""
    if lengths is None:
        return series
    first = jax.lax.stop_gradient(jnp.where((lengths > 0)[:, None, None], series[:, :1], 1))
    return jnp.where(inside(series, lengths), series, first)


def matrix(metric: str, x: Any, y: Any, x_lengths: Any = None, y_lengths: Any = None) -> Any:
    """Costs of a metric by its name; padding is 0 for it."""
    return COSTS[metric](without_padding(x, x_lengths), without_padding(y, y_lengths))


def centred(x: Any, y: Any, x_lengths: Any, y_lengths: Any) -> tuple[Any, Any]:
    """x and y around the mean of x: costs do not depend on where 0 is, but rounding does."""
    x, y = without_padding(x, x_lengths), without_padding(y, y_lengths)
    shift = jax.lax.stop_gradient(x.mean(1, keepdims=True))
    return without_padding(x - shift, x_lengths), without_padding(y - shift, y_lengths)
