# What users give, checked and brought into the one form that the primitives take.
"""Arguments of the functions: from series, batches and lists of them, lengths and options to a Pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from .._core import InvalidArgumentError, SdtwError
from .._problem import HINT, REDUCTIONS, choice, explain
from .._rules import check_rules
from . import _costs, _library, _lowering, _options, _ragged, _split
from ._options import Operands, Options, is_traced

Array: TypeAlias = jax.Array
Series: TypeAlias = "jax.typing.ArrayLike | Sequence[jax.typing.ArrayLike]"
Lengths: TypeAlias = "jax.typing.ArrayLike | Sequence[int] | None"
Metric: TypeAlias = "str | Callable[[Array, Array], Array]"
Gamma: TypeAlias = "float | jax.typing.ArrayLike"

# band, radius, step_weights and step_penalties, as functions have them.
GivenRules = tuple[Any, Any, Any, Any]


class Pairs(NamedTuple):
    """A batch of pairs as the primitives take it, and the shape that the values are to have."""

    options: Options
    operands: Operands
    shape: tuple[int, ...]

    def shaped(self, result: Array) -> Array:
        if self.shape == result.shape[:1]:
            return result
        return result.reshape(*self.shape, *result.shape[1:])


def prepare(
    x: Any, y: Any, gamma: Any, metric: Any, x_lengths: Any, y_lengths: Any, rules: GivenRules
) -> Pairs:
    """Checks all arguments."""
    check_metric(metric)
    gamma, known = _gamma(gamma)
    if y is None and metric != "precomputed":
        raise InvalidArgumentError(f"y is None with metric {metric!r}: expected series")
    if y is not None and metric == "precomputed":
        raise InvalidArgumentError(
            "y is given with metric 'precomputed': expected the costs (..., N, M) in x and no y"
        )
    x, x_lengths = _ragged.padded("x", x, x_lengths)
    x = floats("x", x)
    if y is None:
        if x.ndim < 2:
            raise InvalidArgumentError(f"x has shape {x.shape}: expected costs (..., N, M)")
        if 0 in x.shape[-2:]:
            raise InvalidArgumentError(f"x has shape {x.shape}: expected costs (..., N, M) with N, M >= 1")
        shape: tuple[int, ...] = x.shape[:-2]
        split = _split.of_pairs((x,), shape)
        x = _batch(x, shape, x.dtype, split)
    else:
        y, y_lengths = _ragged.padded("y", y, y_lengths)
        x, y, shape, split = _paired(x, floats("y", y))
    longest = x.shape[2] if y is None else y.shape[1]
    x_lengths = lengths_of("x_lengths", x_lengths, shape, x.shape[1])
    y_lengths = lengths_of("y_lengths", y_lengths, shape, longest)
    x_lengths, y_lengths = (_split.placed(n, split) for n in _alike(x_lengths, y_lengths))
    if callable(metric):
        x, y, metric = _called(metric, x, y, x_lengths, y_lengths), None, "precomputed"
    elif metric == "cosine" and known is None and _library.on_gpus():
        # Whose costs do not scale with the series, as is needed there: see _lowering
        x, y, metric = *_squares(x, y, x_lengths, y_lengths), "sqeuclidean"
    options = Options(metric, check_rules(*rules), None, x_lengths is not None, y_lengths is not None)
    if options.has_penalties and options.has_y and known is None and _library.on_gpus():
        # Costs scale together with what penalties add to them
        x, y = _matrix(metric, x, y, x_lengths, y_lengths), None
        options = options._replace(metric="precomputed")
    operands = Operands(x, y, x_lengths, y_lengths, gamma)
    try:
        _lowering.check(options, operands, 1.0 if known is None else known)
    except SdtwError as error:
        raise type(error)(explain(error)) from None
    if known is not None and _library.on_gpus():
        options = options._replace(known_gamma=known)
    return Pairs(options, operands, shape)


def _gamma(gamma: Any) -> tuple[Any, float | None]:
    """gamma as an operand, and the number if it is one."""
    if isinstance(gamma, Real) and not isinstance(gamma, bool):
        try:
            known = float(gamma)
        except OverflowError:  # of an integer
            known = math.inf
        if not 0 <= known < math.inf:
            raise InvalidArgumentError(f"gamma is {gamma!r}: expected a finite number >= 0")
        return _options.number(known), known
    if not isinstance(gamma, (jax.Array, np.ndarray)):
        raise TypeError(f"gamma is {gamma!r}: expected a number >= 0, or an array of one")
    if gamma.size != 1 or not jnp.issubdtype(gamma.dtype, jnp.floating):
        raise TypeError(
            f"gamma is an array of shape {gamma.shape} and {gamma.dtype}: expected a number or an array of "
            "one floating-point number; jax.vmap gives each pair its own"
        )
    if isinstance(gamma, np.ndarray):
        return _gamma(float(gamma.reshape(())))
    wide = gamma.dtype if gamma.dtype in (jnp.float32, jnp.float64) else jnp.float32
    return gamma.reshape(()).astype(wide), None


_DTYPES = frozenset(jnp.dtype(name) for name in _core.DTYPES)


def check_metric(metric: Any) -> None:
    if not callable(metric) and (not isinstance(metric, str) or metric not in _core.METRICS):
        names = ", ".join(map(repr, _core.METRICS))
        raise InvalidArgumentError(
            f"metric is {metric!r}: expected one of {names}, or a function of two batches (B, N, D) and "
            "(B, M, D) that returns their costs (B, N, M)"
        )


def floats(name: str, given: Any) -> Array:
    """The argument as an array of a type that the core computes."""
    if not isinstance(given, (jax.Array, np.ndarray)):
        raise TypeError(f"{name} is a {type(given).__name__}: expected an array, or a list of arrays")
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: expected one without a mask, as {name}.filled() is")
    if given.dtype not in _DTYPES:
        raise TypeError(
            f"{name} has dtype {given.dtype}: expected one of {', '.join(_core.DTYPES)}; "
            f"{name}.astype(float) is one"
        )
    return given if isinstance(given, jax.Array) else jnp.asarray(given)


def _paired(x: Array, y: Array) -> tuple[Array, Array, tuple[int, ...], Any]:
    """(B, N, D) and (B, M, D) from (..., N, D) or (N,) each, the leading dimensions of both together, and how
    pairs are split over a mesh.
    """
    given = f"shapes {x.shape} and {y.shape}"
    for name, series in (("x", x), ("y", y)):
        if series.ndim == 0:
            raise InvalidArgumentError(f"{name} has shape (): expected (..., N, D) or (N,)")
    check_sizes(x, y)
    x = x[:, None] if x.ndim == 1 else x
    y = y[:, None] if y.ndim == 1 else y
    shape = x.shape[:-2]
    try:
        if y.shape[:-2] != shape:
            shape = jnp.broadcast_shapes(shape, y.shape[:-2])
    except ValueError:
        raise InvalidArgumentError(
            f"x has the batch {x.shape[:-2]} and y {y.shape[:-2]} ({given}): expected shapes that broadcast; "
            f"soft_dtw_cdist pairs all with all; {HINT}"
        ) from None
    dtype, split = jnp.promote_types(x.dtype, y.dtype), _split.of_pairs((x, y), shape)
    return _batch(x, shape, dtype, split), _batch(y, shape, dtype, split), shape, split


def _batch(series: Array, shape: tuple[int, ...], dtype: Any, split: Any) -> Array:
    """(B, N, D) of a type. What changes nothing is left out: outside of programs each is a call."""
    if series.dtype != dtype:
        series = series.astype(dtype)
    series = _split.aligned(series, shape, split)
    if series.shape[:-2] != shape:
        series = _split.placed(jnp.broadcast_to(series, (*shape, *series.shape[-2:])), split)
    return series if len(shape) == 1 else series.reshape(math.prod(shape), *series.shape[-2:])


def check_sizes(x: Array, y: Array) -> None:
    """Raises for series of different features, and for empty ones, which no alignment begins in."""
    features = [1 if series.ndim == 1 else series.shape[-1] for series in (x, y)]
    if features[0] != features[1]:
        raise InvalidArgumentError(
            f"x has {features[0]} features and y has {features[1]} (shapes {x.shape} and {y.shape}): "
            f"expected the same number; {HINT}"
        )
    for name, series in (("x", x), ("y", y)):
        if 0 in series.shape[-2:]:
            what = "features" if series.ndim > 1 and series.shape[-2] != 0 else "time steps"
            raise InvalidArgumentError(
                f"{name} has 0 {what} (shape {series.shape}): expected at least 1; a padded batch with "
                f"{name}_lengths may hold empty series"
            )


def lengths_of(
    name: str, lengths: Any, shape: Sequence[int], longest: int, of_each: str = "pair"
) -> Array | None:
    """Lengths of any integer type, array or not, as (B,) of int32 or int64."""
    if lengths is None:
        return None
    if isinstance(lengths, (list, tuple)) and any(isinstance(one, jax.Array) for one in lengths):
        lengths = jnp.asarray(lengths)  # of ones that may be traced
    if not isinstance(lengths, jax.Array):
        try:
            array = np.asarray(lengths)
        except ValueError:
            array = np.asarray("lists of different lengths")
        if array.size and array.dtype.kind not in "iu":
            raise TypeError(f"{name} is {lengths!r}: expected integers, as an array or a list")
        _check_lengths(name, array, longest)
        lengths = jnp.asarray(array.astype(np.int32))
    if not jnp.issubdtype(lengths.dtype, jnp.integer):
        raise TypeError(f"{name} has dtype {lengths.dtype}: expected integers; {name}.astype(int) has them")
    if not is_traced(lengths) and _is_in_memory(lengths):
        _check_lengths(name, np.asarray(lengths), longest)
    if lengths.dtype.name == "uint32":
        lengths = jnp.minimum(lengths, np.iinfo(np.int32).max)
    if lengths.dtype.name == "uint64":
        lengths = jnp.minimum(lengths, np.iinfo(np.int64).max)
    wide = jnp.int64 if lengths.dtype.itemsize == 8 else jnp.int32
    if lengths.dtype != wide:
        lengths = lengths.astype(wide)
    result: Array = lengths
    if lengths.shape == tuple(shape) and lengths.ndim == 1:
        return result
    try:
        return jnp.broadcast_to(_split.whole(result), tuple(shape) or (1,)).reshape(-1)
    except ValueError:
        wanted = f"{tuple(shape)}, one for each {of_each}" if shape else "(), the length of the one pair"
        raise InvalidArgumentError(f"{name} has shape {lengths.shape}: expected {wanted}") from None


def _is_in_memory(array: Array) -> bool:
    """Whether all of it is in host memory of this process."""
    return array.is_fully_addressable and all(device.platform == "cpu" for device in array.devices())


def _check_lengths(name: str, lengths: Any, longest: int) -> None:
    most = longest if isinstance(longest, int) else np.inf  # a symbol of jax.export: the core looks
    outside = lengths[(lengths < 0) | (lengths > most)]
    if outside.size:
        raise InvalidArgumentError(f"{name} has {outside[0]}: expected lengths in [0, {longest}]")


def _alike(x_lengths: Array | None, y_lengths: Array | None) -> tuple[Array | None, Array | None]:
    """Both of one type, as the core takes them."""
    if x_lengths is None or y_lengths is None or x_lengths.dtype == y_lengths.dtype:
        return x_lengths, y_lengths
    return x_lengths.astype(jnp.int64), y_lengths.astype(jnp.int64)


def _called(
    metric: Callable[[Array, Array], Any],
    x: Array,
    y: Array,
    x_lengths: Array | None,
    y_lengths: Array | None,
) -> Array:
    """Costs that a user's function computes. Padding is a real time step for it, and has gradient 0."""
    x, y = _costs.repeated(x, x_lengths), _costs.repeated(y, y_lengths)
    cost = metric(x, y)
    expected = x.shape[0], x.shape[1], y.shape[1]
    if not isinstance(cost, jax.Array) or cost.shape != expected:
        got = f"shape {cost.shape}" if isinstance(cost, jax.Array) else f"a {type(cost).__name__}"
        raise InvalidArgumentError(
            f"metric returned {got} for batches of shapes {x.shape} and {y.shape}: expected the costs, "
            f"{expected}"
        )
    return floats("what metric returned", cost)


def _squares(x: Array, y: Array, x_lengths: Array | None, y_lengths: Array | None) -> tuple[Array, Array]:
    wide = x.dtype if x.dtype in (jnp.float32, jnp.float64) else jnp.float32
    x, y = _costs.without_padding(x, x_lengths), _costs.without_padding(y, y_lengths)
    return _costs.cosine_as_squares(x.astype(wide), y.astype(wide))


def _matrix(metric: str, x: Array, y: Array, x_lengths: Array | None, y_lengths: Array | None) -> Array:
    wide = x.dtype if x.dtype in (jnp.float32, jnp.float64) else jnp.float32
    cost: Array = _costs.matrix(metric, x.astype(wide), y.astype(wide), x_lengths, y_lengths)
    return cost


def check_reduction(reduction: Any) -> None:
    choice("reduction", reduction, REDUCTIONS)
