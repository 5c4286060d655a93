# Soft-DTW of NumPy arrays: values, gradients and expected alignments, on the CPU.
"""Soft-DTW, its gradients and expected alignments for NumPy arrays.

A series is an array of shape (N, D), N time steps of D features, or (N,) for D = 1; a batch is (B, N, D).
With ``metric="precomputed"`` x is the cost matrix, (N, M) or (B, N, M), and there is no y. Where x and y hold
different numbers of series, one of them must hold a single one: it is paired with every series of the other.

float32 and float64 arrays in the machine's byte order are read in place, at any strides, and never written.
Integers are converted to float64, arrays of two types to the one that holds both, arrays in the other byte
order to native ones. Values and gradients have that type.

The recurrence is that of Cuturi and Blondel, Soft-DTW: a Differentiable Loss Function for Time-Series, ICML
2017, with the squared Euclidean distance (no factor) between time steps, or the given cost.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _core
from ._core import InvalidArgumentError
from ._problem import Sizes, batched, check_length_shape, check_options, pair_sizes, require_y

__all__ = ["soft_dtw", "soft_dtw_alignment", "soft_dtw_grad"]

Floats: TypeAlias = NDArray[Any]  # float32 or float64


def soft_dtw(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    gamma: float = 1.0,
    metric: str = "sqeuclidean",
    x_lengths: ArrayLike | None = None,
    y_lengths: ArrayLike | None = None,
    num_threads: int = 0,
) -> Any:
    """Soft-DTW of x and y.

    Args:
        x: series, (B, N, D), (N, D) or (N,); for metric "precomputed" the cost, (B, N, M) or (N, M).
        y: series likewise, (B, M, D), (M, D) or (M,); None for metric "precomputed".
        gamma: smoothing, finite and >= 0.
        metric: "sqeuclidean", sum_k (x_ik - y_jk)^2, or "precomputed".
        x_lengths, y_lengths: integers of shape (B,): time steps of each series, the rest being padding, which
            is never read; None: all.
        num_threads: threads of this call; 0 is OpenMP's default.

    Returns:
        Values, (B,); a scalar if neither x nor y has a batch dimension. A pair of two empty series has value
        0, of one empty series +infinity, and one with a NaN in it NaN.

    Raises:
        InvalidArgumentError (a ValueError): an argument has a shape or a value that it may not have.
        UnsupportedError (a NotImplementedError): a gamma, metric or type that this version does not
            implement.
        TypeError: an argument is not numeric.
    """
    pairs = _Pairs(x, y, gamma, metric, x_lengths, y_lengths, num_threads, no_state=True)
    return pairs.unbatch(pairs.forward())


def soft_dtw_grad(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    gamma: float = 1.0,
    metric: str = "sqeuclidean",
    x_lengths: ArrayLike | None = None,
    y_lengths: ArrayLike | None = None,
    num_threads: int = 0,
) -> tuple[Any, ...]:
    """Soft-DTW of x and y and its gradients.

    Arguments and errors are those of :func:`soft_dtw`.

    Returns:
        (value, grad_x, grad_y), or (value, grad_cost) for metric "precomputed". A gradient has its argument's
        shape and is 0 in the padding; where one series is paired with many it is the sum over its pairs.
    """
    pairs = _Pairs(x, y, gamma, metric, x_lengths, y_lengths, num_threads)
    value = pairs.forward()
    return (pairs.unbatch(value), *pairs.backward())


def soft_dtw_alignment(
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    gamma: float = 1.0,
    metric: str = "sqeuclidean",
    x_lengths: ArrayLike | None = None,
    y_lengths: ArrayLike | None = None,
    num_threads: int = 0,
) -> Floats:
    """Expected alignment of x and y: E[i, j] is the derivative of the value by the cost of the cell (i, j).

    Arguments and errors are those of :func:`soft_dtw`.

    Returns:
        E, (B, N, M), or (N, M) if neither x nor y has a batch dimension: the probability that a path drawn
        with weight exp(-cost / gamma) visits the cell (Cuturi and Blondel 2017, Algorithm 2). 0 in the
        padding.
    """
    pairs = _Pairs(x, y, gamma, metric, x_lengths, y_lengths, num_threads)
    pairs.forward()
    alignment: Floats = pairs.unbatch(pairs.alignment())
    return alignment


class _Pairs:
    """The arrays of one call, checked and in the core's terms."""

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | None,
        gamma: float,
        metric: str,
        x_lengths: ArrayLike | None,
        y_lengths: ArrayLike | None,
        num_threads: int,
        no_state: bool = False,
    ) -> None:
        check_options(gamma, metric)
        require_y(y, metric)
        self.given = [_floats("x", x)] if y is None else [_floats("x", x), _floats("y", y)]
        dtype = np.result_type(*self.given).newbyteorder("=")
        if dtype.name not in _core.DTYPES:
            raise InvalidArgumentError(f"x and y are {dtype} together: expected float32 or float64")
        inputs = [_readable(array, dtype) for array in self.given]
        if y is None:
            self.x, self.y = batched("x", inputs[0], "N, M"), None
            self.sizes = Sizes(self.x.shape[0], self.x.shape[1], self.x.shape[2], 0)
        else:
            self.x, self.y = batched("x", inputs[0], "N, D"), batched("y", inputs[1], "N, D")
            self.sizes = pair_sizes(self.x.shape, self.y.shape)
            self.x = np.broadcast_to(self.x, (self.sizes.batch, *self.x.shape[1:]))
            self.y = np.broadcast_to(self.y, (self.sizes.batch, *self.y.shape[1:]))
        self.x_lengths = _lengths("x_lengths", x_lengths, self.sizes.batch, self.sizes.n)
        self.y_lengths = _lengths("y_lengths", y_lengths, self.sizes.batch, self.sizes.m)
        self.dtype = dtype
        self.problem = _core.Problem(_core.METRICS[metric], _core.DTYPES[dtype.name], *self.sizes, gamma)
        self.exec = _core.Exec(num_threads=num_threads, no_state=no_state)
        self.bytes = _core.get_sizes(self.problem, self.exec)
        self.state = _memory(self.bytes.state)

    def inputs(self) -> tuple[_core._Array, _core._Array | None, int, int]:
        return (
            _array(self.x),
            None if self.y is None else _array(self.y),
            0 if self.x_lengths is None else self.x_lengths.ctypes.data,
            0 if self.y_lengths is None else self.y_lengths.ctypes.data,
        )

    def forward(self) -> Floats:
        value = np.empty(self.sizes.batch, np.float64 if self.dtype == np.float64 else np.float32)
        workspace = _memory(self.bytes.forward)
        _core.forward(
            self.problem, self.exec, *self.inputs(), value.ctypes.data, _span(self.state), _span(workspace)
        )
        return value

    def backward(self) -> list[Floats]:
        arrays = [self.x] if self.y is None else [self.x, self.y]
        grads = [np.empty(array.shape, self.dtype) for array in arrays]
        grad_x, grad_y = _array(grads[0]), _array(grads[1]) if len(grads) == 2 else None
        workspace = _memory(self.bytes.backward)
        _core.backward(
            self.problem, self.exec, *self.inputs(), 0, grad_x, grad_y, _span(self.state), _span(workspace)
        )
        return [_reduced(grad, given) for grad, given in zip(grads, self.given, strict=True)]

    def alignment(self) -> Floats:
        alignment = np.empty((self.sizes.batch, self.sizes.n, self.sizes.m), self.dtype)
        workspace = _memory(self.bytes.alignment)
        _core.alignment(
            self.problem, self.exec, *self.inputs(), _array(alignment), _span(self.state), _span(workspace)
        )
        return alignment

    def unbatch(self, result: Floats) -> Any:
        return result if any(array.ndim == 3 for array in self.given) else result[0]


def _floats(name: str, array: ArrayLike) -> Floats:
    """The argument as an array of floating-point numbers."""
    result = np.asarray(array)
    if result.dtype.kind not in "fiu":
        raise TypeError(f"{name} has dtype {result.dtype}: expected float32, float64 or integers")
    return result if result.dtype.kind == "f" else result.astype(np.float64)


def _readable(array: Floats, dtype: np.dtype[Any]) -> Floats:
    """The array itself if the core can read it: of this type, aligned, with strides in whole elements."""
    array = array.astype(dtype, copy=False)
    whole = all(stride % array.itemsize == 0 for stride in array.strides)
    return array if whole and array.flags.aligned else array.copy()


def _lengths(name: str, lengths: ArrayLike | None, batch: int, longest: int) -> NDArray[np.int64] | None:
    if lengths is None:
        return None
    given = np.asarray(lengths)
    if given.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {given.dtype}: expected integers")
    check_length_shape(name, given.shape, batch)
    outside = (given < 0) | (given > longest)
    if outside.any():
        raise InvalidArgumentError(f"{name} holds {given[outside][0]}: expected lengths in [0, {longest}]")
    return np.ascontiguousarray(np.broadcast_to(given, batch), np.int64)


def _reduced(grad: Floats, given: Floats) -> Floats:
    """Gradient of the argument as it was given: summed over the pairs that share it, in its shape."""
    if grad.shape[0] != (given.shape[0] if given.ndim == 3 else 1):
        grad = grad.sum(axis=0, keepdims=True)
    return grad.reshape(given.shape)


def _memory(size: int) -> NDArray[np.uint8]:
    """Uninitialised memory that begins on a cache line."""
    memory = np.empty(size + 63, np.uint8)
    skip = -memory.ctypes.data % 64
    return memory[skip : skip + size]


def _span(memory: NDArray[np.uint8]) -> tuple[int, int]:
    return memory.ctypes.data, memory.size


def _array(array: Floats) -> tuple[int, tuple[int, ...]]:
    return array.ctypes.data, tuple(stride // array.itemsize for stride in array.strides)
