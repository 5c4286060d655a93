# One call on NumPy arrays: what the functions of libsdtw.numpy share.
"""Arrays of a call, checked and in the core's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._core import InvalidArgumentError
from ._problem import Sizes, batched, check_length_shape, check_options, pair_sizes, require_y
from ._rules import Rules, check_rules

Floats: TypeAlias = NDArray[Any]  # of any type in _core.DTYPES


class Options(NamedTuple):
    """The keyword arguments that every function has."""

    gamma: float
    metric: str
    x_lengths: ArrayLike | None
    y_lengths: ArrayLike | None
    band: str | None
    radius: float | None
    step_weights: Sequence[float]
    step_penalties: Sequence[float]
    num_threads: int


class Call:
    """The pairs of one call: series b of x with series b of y, or with all_pairs every one with every one."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | None,
        options: Options,
        *,
        no_state: bool = False,
        all_pairs: bool = False,
    ) -> None:
        check_options(options.gamma, options.metric)
        rules = check_rules(options.band, options.radius, options.step_weights, options.step_penalties)
        self.symmetric = all_pairs and y is None
        if all_pairs:
            if options.metric == "precomputed":
                raise InvalidArgumentError("metric is 'precomputed': expected a metric of series")
            if y is None and options.y_lengths is not None:
                raise InvalidArgumentError("y_lengths is given without y: expected x_lengths alone")
        else:
            require_y(y, options.metric)
        self.given = [floats("x", x)] if y is None else [floats("x", x), floats("y", y)]
        self.dtype = np.result_type(*self.given).newbyteorder("=")
        if self.dtype.name not in _core.DTYPES:
            raise InvalidArgumentError(
                f"x and y are {self.dtype} together: expected float16, bfloat16, float32 or float64"
            )
        inputs = [readable(array, self.dtype) for array in self.given]
        if all_pairs:
            self._set_all_pairs(inputs)
        else:
            self._set_pairs(inputs)
        self._set_lengths(options)
        self.problem = self._problem(options, rules, all_pairs)
        self.exec = _core.Exec(num_threads=options.num_threads, no_state=no_state)
        self.bytes = _core.get_sizes(self.problem, self.exec)
        self.state = None if no_state else memory(self.bytes.state)

    def _set_pairs(self, inputs: list[Floats]) -> None:
        self.y: Floats | None
        if len(inputs) == 1:
            self.x, self.y = batched("x", inputs[0], "N, M"), None
            self.sizes = Sizes(self.x.shape[0], self.x.shape[1], self.x.shape[2], 0)
            self.series_y = self.sizes.batch
        else:
            self.x, self.y = batched("x", inputs[0], "N, D"), batched("y", inputs[1], "N, D")
            self.sizes = pair_sizes(self.x.shape, self.y.shape)
            self.x = np.broadcast_to(self.x, (self.sizes.batch, *self.x.shape[1:]))
            self.y = np.broadcast_to(self.y, (self.sizes.batch, *self.y.shape[1:]))
            self.series_y = self.sizes.batch
        self.shape: tuple[int, ...] = (self.sizes.batch,)

    def _set_all_pairs(self, inputs: list[Floats]) -> None:
        for name, array in zip("xy", inputs, strict=False):
            if array.ndim != 3:
                raise InvalidArgumentError(f"{name} has shape {array.shape}: expected (B, N, D)")
        self.x, self.y = inputs[0], None if self.symmetric else inputs[1]
        other = self.x if self.y is None else self.y
        if self.x.shape[2] != other.shape[2]:
            raise InvalidArgumentError(
                f"x has {self.x.shape[2]} features and y has {other.shape[2]} "
                f"(shapes {self.x.shape} and {other.shape}): expected the same number"
            )
        self.sizes = Sizes(self.x.shape[0], self.x.shape[1], other.shape[1], self.x.shape[2])
        self.series_y = other.shape[0]
        self.shape = (self.sizes.batch, self.series_y)

    def _set_lengths(self, options: Options) -> None:
        self.x_lengths = lengths("x_lengths", options.x_lengths, self.sizes.batch, self.sizes.n)
        self.y_lengths = lengths("y_lengths", options.y_lengths, self.series_y, self.sizes.m)

    def _problem(self, options: Options, rules: Rules, all_pairs: bool) -> _core.Problem:
        metric, dtype = _core.METRICS[options.metric], _core.DTYPES[self.dtype.name]
        flags = (_core.ALL_PAIRS if all_pairs else 0) | (_core.SYMMETRIC if self.symmetric else 0)
        batch_y = self.series_y if all_pairs else None
        return _core.Problem(
            metric, dtype, *self.sizes, options.gamma, flags=flags, batch_y=batch_y, **rules._asdict()
        )

    @property
    def pairs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def value_dtype(self) -> Any:
        return np.float64 if self.dtype == np.float64 else np.float32

    def _inputs(self) -> tuple[_core._Array, _core._Array | None, int, int]:
        return (
            view(self.x),
            None if self.y is None else view(self.y),
            0 if self.x_lengths is None else self.x_lengths.ctypes.data,
            0 if self.y_lengths is None else self.y_lengths.ctypes.data,
        )

    def _upstream(self, grad_value: ArrayLike | None) -> Floats | None:
        if grad_value is None:
            return None
        given = np.asarray(grad_value, self.value_dtype)
        shape = self.shape if self.batched else ()
        if given.shape != shape:
            raise InvalidArgumentError(
                f"grad_value has shape {given.shape}: expected {shape}, one for each pair"
            )
        return np.ascontiguousarray(given)

    def _outputs(self) -> list[Floats]:
        return [np.empty(array.shape, self.dtype) for array in (self.x, self.y) if array is not None]

    def forward(self) -> Floats:
        value = np.empty(self.shape, self.value_dtype)
        state = None if self.state is None else span(self.state)
        workspace = memory(self.bytes.forward)
        _core.forward(self.problem, self.exec, *self._inputs(), value.ctypes.data, state, span(workspace))
        return value

    def backward(self, grad_value: ArrayLike | None = None) -> list[Floats]:
        upstream = self._upstream(grad_value)
        grads = self._outputs()
        workspace = memory(self.bytes.backward)
        _core.backward(
            self.problem,
            self.exec,
            *self._inputs(),
            0 if upstream is None else upstream.ctypes.data,
            view(grads[0]),
            view(grads[1]) if len(grads) == 2 else None,
            None if self.state is None else span(self.state),
            span(workspace),
        )
        return [reduced(grad, given) for grad, given in zip(grads, self.given, strict=True)]

    def alignment(self) -> Floats:
        alignment = np.empty((self.pairs, self.sizes.n, self.sizes.m), self.dtype)
        state = None if self.state is None else span(self.state)
        workspace = memory(self.bytes.alignment)
        _core.alignment(self.problem, self.exec, *self._inputs(), view(alignment), state, span(workspace))
        return alignment

    def jvp(
        self, tangents: Sequence[ArrayLike | None], grad_value: ArrayLike | None
    ) -> tuple[Floats, list[Floats]]:
        directions = [
            None if tangent is None else self._tangent(name, tangent, given, array)
            for name, tangent, given, array in zip(
                ("tangent_x", "tangent_y"), tangents, (*self.given, None), (self.x, self.y), strict=False
            )
        ]
        if all(direction is None for direction in directions):
            raise InvalidArgumentError("tangent_x and tangent_y are None: expected one of them")
        upstream = self._upstream(grad_value)
        value = np.empty(self.shape, self.value_dtype)
        grads = self._outputs()
        workspace = memory(self.bytes.jvp)
        along_x, along_y = (*directions, None)[:2]
        _core.jvp(
            self.problem,
            self.exec,
            *self._inputs(),
            None if along_x is None else view(along_x),
            None if along_y is None else view(along_y),
            0 if upstream is None else upstream.ctypes.data,
            value.ctypes.data,
            view(grads[0]),
            view(grads[1]) if len(grads) == 2 else None,
            span(workspace),
        )
        return value, [reduced(grad, given) for grad, given in zip(grads, self.given, strict=True)]

    def _tangent(self, name: str, tangent: ArrayLike, given: Floats | None, array: Floats | None) -> Floats:
        if given is None or array is None:
            raise InvalidArgumentError(f"{name} is given, but there is no {name[-1]}: expected None")
        result = floats(name, tangent)
        if result.shape != given.shape:
            raise InvalidArgumentError(
                f"{name} has shape {result.shape}: expected {given.shape}, as {name[-1]}"
            )
        result = readable(result, self.dtype)
        if result.ndim == 1:
            result = result[None, :, None]
        elif result.ndim == 2:
            result = result[None]
        return np.broadcast_to(result, array.shape)

    @property
    def batched(self) -> bool:
        return any(array.ndim == 3 for array in self.given)

    def unbatch(self, result: Floats) -> Any:
        return result if self.batched else result[0]


def floats(name: str, array: ArrayLike) -> Floats:
    """The argument as an array of floating-point numbers."""
    result = np.asarray(array)
    if result.dtype.kind not in "fiu" and result.dtype.name != "bfloat16":
        raise TypeError(f"{name} has dtype {result.dtype}: expected a floating-point type or integers")
    return result.astype(np.float64) if result.dtype.kind in "iu" else result


def readable(array: Floats, dtype: np.dtype[Any]) -> Floats:
    """The array itself if the core can read it: of this type, aligned, with strides in whole elements."""
    array = array.astype(dtype, copy=False)
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    return array if whole and array.flags.aligned else array.copy()


def lengths(name: str, given: ArrayLike | None, batch: int, longest: int) -> NDArray[np.int64] | None:
    """Lengths as the core reads them."""
    if given is None:
        return None
    array = np.asarray(given)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {array.dtype}: expected integers")
    check_length_shape(name, array.shape, batch)
    outside = (array < 0) | (array > longest)
    if outside.any():
        raise InvalidArgumentError(f"{name} holds {array[outside][0]}: expected lengths in [0, {longest}]")
    return np.ascontiguousarray(np.broadcast_to(array, batch), np.int64)


def reduced(grad: Floats, given: Floats) -> Floats:
    """Gradient of the argument as it was given: summed over the pairs that share it, in its shape."""
    if grad.shape[0] != (given.shape[0] if given.ndim == 3 else 1):
        wide = np.float64 if grad.dtype == np.float64 else np.float32
        grad = grad.sum(axis=0, keepdims=True, dtype=wide).astype(grad.dtype)
    return grad.reshape(given.shape)


def memory(size: int) -> NDArray[np.uint8]:
    """Uninitialised memory that begins on a cache line."""
    block = np.empty(size + 63, np.uint8)
    skip = -block.ctypes.data % 64
    return block[skip : skip + size]


def span(block: NDArray[np.uint8]) -> tuple[int, int]:
    return block.ctypes.data, block.size


def view(array: Floats) -> tuple[int, tuple[int, ...]]:
    return array.ctypes.data, tuple(stride // array.itemsize for stride in array.strides)
