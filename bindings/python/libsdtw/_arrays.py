# What a call asks of a library of arrays, and NumPy's answers; CuPy's are in cupy.py.
"""Arrays of the libraries that name things as NumPy does, in the core's terms."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._core import InvalidArgumentError
from ._problem import check_length_shape

Floats: TypeAlias = NDArray[Any]  # of any type in _core.DTYPES; the array of another library, too


_PROTOCOLS = ("__array__", "__array_interface__", "__dlpack__")  # one of which every library's arrays have


def _on_host(given: Any, dtype: Any = None) -> NDArray[Any]:
    """A NumPy array, in place where that can be, of what NumPy can see by any protocol."""
    if hasattr(given, "__dlpack__") and not hasattr(given, "__array__"):
        given = np.from_dlpack(given)  # which asarray does not ask for
    return np.asarray(given, dtype)


def as_real(name: str, array: Any, dtype: Any) -> Any:
    """The array in a type, or as it is; raises for complex numbers, whose real part astype would take."""
    if dtype is None:
        return array
    if array.dtype.kind == "c":
        raise TypeError(f"{name} has dtype {array.dtype}: expected real numbers")
    return array.astype(dtype, copy=False)


class NumpyArrays:
    """NumPy's arrays, in host memory."""

    device = "cpu"

    @property
    def namespace(self) -> Any:
        """The module that has empty, broadcast_to and so on."""
        return np

    def asarray(self, name: str, given: Any, dtype: Any = None) -> Floats:
        """The argument as an array of this library, in place where that can be."""
        if np.ma.is_masked(given):  # which asarray would not see
            raise InvalidArgumentError(f"{name} has masked elements: expected an array without")
        try:
            array: Floats = as_real(name, _on_host(given), dtype)
            return array
        except ValueError:  # of a list of lists of different lengths
            raise InvalidArgumentError(
                f"{name} is a {type(given).__name__} that makes no array: "
                "expected an array, or a list of arrays"
            ) from None

    def is_array(self, given: object) -> bool:
        """Whether an element of a list is an array, of any library that this one can see, and no number."""
        return not isinstance(given, np.generic) and any(hasattr(given, name) for name in _PROTOCOLS)

    def address(self, array: Floats) -> int:
        return array.ctypes.data

    def stream(self) -> int:
        """The stream that the calls of the current thread are put on."""
        return 0

    def at(self, given: object) -> AbstractContextManager[Any]:
        """Within it what is allocated and computed is where the argument is."""
        return nullcontext()

    def memory(self, size: int) -> Floats:
        """Uninitialised memory that begins on a cache line."""
        block = np.empty(size + 63, np.uint8)
        skip = -block.ctypes.data % 64
        return block[skip : skip + size]

    def lengths(self, name: str, given: ArrayLike | None, batch: int, longest: int) -> Floats | None:
        """Lengths as the core reads them, (batch,) int64."""
        if given is None:
            return None
        array = self._integers(name, NUMPY.asarray(name, given), batch)
        outside = (array < 0) | (array > longest)
        if outside.any():
            raise InvalidArgumentError(
                f"{name} holds {array[outside][0]}: expected lengths in [0, {longest}]"
            )
        return np.ascontiguousarray(np.broadcast_to(array, batch), np.int64)

    def _integers(self, name: str, array: Any, batch: int) -> Any:
        if array.size and array.dtype.kind not in "iu":  # an empty list is of floats
            raise TypeError(f"{name} has dtype {array.dtype}: expected integers")
        check_length_shape(name, array.shape, batch)
        return array

    # Derived from the above, for any library

    def floats(self, name: str, given: Any) -> Floats:
        """The argument as an array of floating-point numbers."""
        result = self.asarray(name, given)
        if result.dtype.kind not in "fiu" and result.dtype.name != "bfloat16":
            raise TypeError(f"{name} has dtype {result.dtype}: expected a floating-point type or integers")
        return result.astype(np.float64) if result.dtype.kind in "iu" else result

    def readable(self, array: Floats, dtype: np.dtype[Any]) -> Floats:
        """The array itself if the core can read it: of this type, aligned, with strides in whole elements."""
        array = array.astype(dtype, copy=False)
        places = (self.address(array), *array.strides)
        return array.copy() if any(place % array.itemsize for place in places) else array

    def span(self, block: Floats) -> tuple[int, int]:
        return self.address(block), block.size

    def view(self, array: Floats) -> tuple[int, tuple[int, ...]]:
        return self.address(array), tuple(stride // array.itemsize for stride in array.strides)

    def batch(self, name: str, given: Any, lengths: Any) -> tuple[Any, Any]:
        """A padded batch and lengths, where the argument is a list of series or a masked array."""
        masked = isinstance(given, np.ma.MaskedArray)
        if isinstance(given, (list, tuple)) and len(given) == 0:
            raise InvalidArgumentError(f"{name} is an empty {type(given).__name__}: expected series")
        if not masked and not (isinstance(given, (list, tuple)) and any(map(self.is_array, given))):
            return given, lengths
        if masked and not np.ma.is_masked(given):
            return given.data, lengths
        if lengths is not None:
            kind = "a masked array" if masked else f"a {type(given).__name__} of arrays"
            raise InvalidArgumentError(
                f"{name} is {kind} and {name}_lengths is given: its series have lengths"
            )
        return _unmasked(name, given) if masked else self.pad(given, name)

    def pad(self, series: Sequence[Any], name: str = "series") -> tuple[Floats, Floats]:
        """A batch (B, N, D), padded with 0, and its lengths (B,), of arrays (N_b, D) or (N_b,)."""
        if not hasattr(series, "__len__"):
            raise TypeError(f"{name} is a {type(series).__name__}: expected a list of arrays")
        if len(series) == 0:
            raise InvalidArgumentError(f"{name} is empty: expected one series or more")
        arrays: list[Floats] = []
        for k, one in enumerate(series):
            if not self.is_array(one):
                raise TypeError(f"{name}[{k}] is a {type(one).__name__}: expected an array")
            arrays.append(self.floats(f"{name}[{k}]", one))
            shape, first = arrays[-1].shape, arrays[0].shape
            if len(shape) not in (1, 2) or len(shape) != len(first) or shape[1:] != first[1:]:
                raise InvalidArgumentError(
                    f"{name}[{k}] has shape {shape} and {name}[0] {first}: "
                    "expected (N_b, D), or (N_b,), with the same features"
                )
        lengths = np.array([len(one) for one in arrays], np.int64)
        arrays = [one if one.ndim == 2 else one[:, None] for one in arrays]
        dtype = np.result_type(*(one.dtype for one in arrays))
        xp = self.namespace
        batch = xp.zeros((len(arrays), max(1, int(lengths.max())), arrays[0].shape[1]), dtype)
        for row, one in zip(batch, arrays, strict=True):
            row[: len(one)] = one
        return batch, xp.asarray(lengths)


def _unmasked(name: str, given: np.ma.MaskedArray[Any, Any]) -> tuple[Floats, Any]:
    """Data and lengths of series whose padding, time steps at their ends, is masked."""
    mask = np.broadcast_to(given.mask, given.shape)
    steps = mask if mask.ndim == 1 else mask.all(-1)
    lengths = (~steps).sum(-1)
    padding = np.arange(steps.shape[-1]) >= lengths[..., None]
    if (mask != (padding if mask.ndim == 1 else padding[..., None])).any():
        raise InvalidArgumentError(
            f"{name} has a mask that is not padding: expected whole time steps at the ends of series"
        )
    return given.data, lengths


def to_lengths(series: Any) -> Any:
    """Lengths of series that are padded with NaN at their ends, as tslearn's are.

    Args:
        series: (..., N, D), an array of NumPy or CuPy.

    Returns:
        (...,) integers: one more than the last time step of which a feature is not NaN.
    """
    if getattr(series, "ndim", 0) < 2:
        raise InvalidArgumentError("series is not (..., N, D): expected an array of time steps and features")
    if series.shape[-2] == 0:
        return np.zeros_like(series, np.int64, shape=series.shape[:-2])
    real = (series == series).any(-1)[..., ::-1]  # the first True is the last time step
    return real.any(-1) * (series.shape[-2] - real.argmax(-1))


NUMPY = NumpyArrays()
