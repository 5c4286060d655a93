# What users hand over as a collection of series, in one form: a padded array and lengths.
"""Collections of series: arrays, tensors, ragged lists and NaN padding as :class:`Series`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._arrays import NUMPY
from .._core import InvalidArgumentError

_ELSEWHERE = ("torch", "cupy")  # whose arrays may be on a GPU
_CHECKED = 1 << 20  # numbers that are looked at at a time


@dataclass(frozen=True)
class Series:
    """data (B, N, D), an array of NumPy, or of CuPy or PyTorch on a GPU; lengths (B,) on the host, or
    None."""

    data: Any
    lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return int(self.data.shape[0])

    @property
    def steps(self) -> int:
        return int(self.data.shape[1])

    @property
    def features(self) -> int:
        return int(self.data.shape[2])

    @property
    def on_host(self) -> bool:
        return isinstance(self.data, np.ndarray)

    @property
    def value_dtype(self) -> Any:
        """Of soft-DTW values, as libsdtw.numpy has them."""
        kind = self.data.dtype
        wide = kind == np.float64 if self.on_host else str(kind).endswith("float64")
        return np.float64 if wide else np.float32

    def sizes(self) -> NDArray[np.int64]:
        return np.full(len(self), self.steps) if self.lengths is None else self.lengths

    def as_values(self, dtype: Any) -> Series:
        """The series in float64 if values are, so that a divergence is not of two precisions."""
        if not self.on_host or dtype != np.float64 or self.data.dtype == dtype:
            return self
        return Series(self.data.astype(dtype), self.lengths)

    def part(self, begin: int, end: int) -> Series:
        lengths = None if self.lengths is None else self.lengths[begin:end]
        return Series(self.data[begin:end], lengths)

    def take(self, indices: NDArray[Any]) -> Series:
        rows = indices if self.on_host else indices.tolist()
        return Series(self.data[rows], None if self.lengths is None else self.lengths[indices])

    def one(self, index: int) -> Any:
        """(N_b, D), on the host."""
        return on_host(self.data[index])[: self.sizes()[index]]


def as_series(
    name: str, given: Any, lengths: Any = None, device: str | None = None, of_lengths: str = "lengths"
) -> Series:
    """The argument, checked: every series has a time step, and every time step of it is finite.

    Args:
        given: (B, N, D), or (B, N) of one feature; a list of series (N_b, D) or (N_b,); either may end in
            time steps that are NaN or masked, which are padding. Or a :class:`Series`, which has been
            checked.
        lengths: (B,) integers, or None.
        device: "cpu", "cuda" or "cuda:N": where the data are to be; None: where they are.
        of_lengths: the name of the argument that lengths are.
    """
    if isinstance(given, Series):
        return given
    given = _host_array(given)
    if getattr(getattr(given, "dtype", None), "kind", "") == "O" and given.ndim == 1:
        given = list(given)  # as NumPy, or a column of pandas, holds series of different lengths
    if isinstance(given, (list, tuple)) and _is_ragged(given):
        if lengths is not None:
            raise InvalidArgumentError(
                f"{name} is a list of series and {of_lengths} is given: they have lengths"
            )
        given = [_host_array(one) for one in given]
        there = {library_of(one) for one in given} & set(_ELSEWHERE)
        series = _padded_there(name, given, there.pop()) if there else _padded(name, given)
    elif np.ma.is_masked(given):
        if lengths is not None:
            raise InvalidArgumentError(
                f"{name} is a masked array and {of_lengths} is given: its mask says where series end"
            )
        data, sizes = NUMPY.batch(name, given[..., None] if given.ndim == 2 else given, None)
        series = Series(_floats(name, data), sizes)
    else:
        data = _floats(name, given)
        series = Series(data, _lengths(of_lengths, data, lengths))
    series = _checked(name, series, trim=lengths is None)
    return _moved(series, device)


def on_host(array: Any) -> Any:
    """A NumPy array of one of NumPy, PyTorch or CuPy; of bfloat16, which NumPy has not, in float32."""
    if isinstance(array, np.ndarray):
        return array
    if hasattr(array, "get"):
        return array.get()
    tensor = array.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def as_numpy(name: str, given: Any, dtype: Any = None) -> NDArray[Any]:
    """An argument that is no collection as a NumPy array, wherever it is."""
    return NUMPY.asarray(name, hosted(given), dtype)


def hosted(given: Any) -> Any:
    """Arrays of PyTorch and CuPy as NumPy's; anything else as it is."""
    return on_host(given) if library_of(given) in _ELSEWHERE else given


def like(array: NDArray[Any], other: Any) -> Any:
    """A NumPy array as one of another's package, type and device."""
    if isinstance(other, np.ndarray):
        return np.asarray(array, other.dtype)
    if library_of(other) == "torch":
        return other.new_tensor(array)
    return importlib.import_module("cupy").asarray(array, other.dtype)


def centers_like(array: NDArray[Any], series: Series) -> Any:
    """A NumPy array as one of a collection's package and device, in the type of its values: halves have
    neither the digits nor the range of centers."""
    if series.on_host:
        return np.asarray(array, series.value_dtype)
    if library_of(series.data) == "torch":
        torch = importlib.import_module("torch")
        return series.data.new_tensor(array, dtype=getattr(torch, series.value_dtype.__name__))
    return importlib.import_module("cupy").asarray(array, series.value_dtype)


def beside(other: Any, data: Any) -> Any:
    """Tensors of halves in the type of others, as PyTorch's functions take no two types."""
    halves = library_of(data) == "torch" and data.dtype.itemsize == 2
    return data.to(other.dtype) if halves else data


def widened(series: Series) -> Series:
    """The series with one more feature, 0 at every time step, in the type of values, as what is small in it
    would be 0 in halves."""
    data, kind, shape = series.data, series.value_dtype, (*series.data.shape[:2], 1)
    if library_of(data) == "torch":
        torch = importlib.import_module("torch")
        wide = torch.cat([data, data.new_zeros(shape, dtype=getattr(torch, kind.__name__))], dim=2)
    else:
        package = importlib.import_module(library_of(data))
        wide = package.concatenate([data, package.zeros(shape, kind)], axis=2)
    return Series(wide, series.lengths)


def library_of(array: Any) -> str:
    """The package that an array belongs to."""
    return type(array).__module__.partition(".")[0]


def _host_array(given: Any) -> Any:
    """PyTorch's tensors on the CPU as the NumPy arrays that they share their memory with, where they can."""
    if library_of(given) != "torch":
        return given
    return on_host(given) if given.device.type == "cpu" else given.detach()


def _is_ragged(given: Sequence[Any]) -> bool:
    """Whether a list holds series, not numbers of one array."""
    sizes = {(len(one),) if isinstance(one, (list, tuple)) else np.shape(one)[:1] for one in given}
    return any(hasattr(one, "ndim") for one in given) or len(sizes) > 1


def _padded_there(name: str, given: Sequence[Any], library: str) -> Series:
    """Of arrays of a library on a GPU, and there."""
    if library == "torch":
        from ..torch._ragged import padded

        data, lengths = padded(name, given, None)
    else:
        from ..cupy import CupyArrays

        arrays = CupyArrays()
        with arrays.at(given):
            data, lengths = arrays.pad(given, name)
    return Series(data, on_host(lengths).astype(np.int64))


def _padded(name: str, given: Sequence[Any]) -> Series:
    parts = [_unpadded(f"{name}[{k}]", one) for k, one in enumerate(given)]
    for k, one in enumerate(parts):
        if one.ndim not in (1, 2) or one.ndim != parts[0].ndim or one.shape[1:] != parts[0].shape[1:]:
            raise InvalidArgumentError(
                f"{name}[{k}] has shape {one.shape} and {name}[0] {parts[0].shape}: expected (N_b, D), or "
                "(N_b,), with the same features"
            )
    parts = [one[:, None] if one.ndim == 1 else one for one in parts]
    lengths = np.array([len(one) for one in parts], np.int64)
    dtype = _floats(name, np.empty((1, 1), np.result_type(*parts))).dtype
    data = np.zeros((len(parts), max(1, int(lengths.max())), parts[0].shape[1]), dtype)
    for row, one in zip(data, parts, strict=True):
        row[: len(one)] = one
    return Series(data, None if (lengths == data.shape[1]).all() else lengths)


def _unpadded(name: str, given: Any) -> NDArray[Any]:
    """One series as an array, without the end that is masked."""
    if not np.ma.is_masked(given):
        return _numbers(name, NUMPY.asarray(name, given))
    data, size = NUMPY.batch(name, given, None)
    return np.asarray(data[:size])


def _floats(name: str, given: Any) -> Any:
    """An array (B, N, D) of floating-point numbers, on the host in the byte order of its processor."""
    data = given
    if library_of(given) not in _ELSEWHERE:
        if hasattr(given, "toarray"):
            raise TypeError(f"{name} is a sparse {type(given).__name__}: expected a dense array of series")
        data = NUMPY.asarray(name, given)
        if data.dtype.kind == "O" and data.ndim == 0:
            raise TypeError(f"{name} is a {type(given).__name__}: expected an array, or a list of series")
        _require_real(name, data)
        data = _numbers(name, data)
        if data.dtype.kind in "iub":
            data = data.astype(np.float64)
        if data.dtype.name == "bfloat16":  # of ml_dtypes
            data = data.astype(np.float32)
        if data.dtype.name not in _core.DTYPES:
            raise InvalidArgumentError(
                f"{name} has dtype {data.dtype}: expected floats, of float64 at most, or integers"
            )
        data = data.astype(data.dtype.newbyteorder("="), copy=False)
    else:
        _require_real(name, data)
    if data.ndim == 2:
        data = data[:, :, None]
    if data.ndim != 3:
        raise InvalidArgumentError(
            f"{name} has shape {tuple(data.shape)}: expected (B, N, D) or (B, N), or a list of series. "
            "Reshape your data: one series is X[None], a sample of (N,) reshape(1, -1)"
        )
    shape = tuple(given.shape) if hasattr(given, "shape") else data.shape
    steps = (
        "feature(s)" if len(shape) == 2 else "time step(s)"
    )  # a table's columns are scikit-learn's features
    for axis, what in enumerate(("sample(s)", steps, "feature(s)")):
        if data.shape[axis] == 0:
            raise InvalidArgumentError(
                f"{name}: Found array with 0 {what} (shape={shape}) while a minimum of 1 is required."
            )
    return data


def _require_real(name: str, data: Any) -> None:
    if "complex" in str(data.dtype):
        raise InvalidArgumentError(f"{name} has dtype {data.dtype}: Complex data not supported")


def _numbers(name: str, data: NDArray[Any]) -> NDArray[Any]:
    """Python's objects as numbers, as scikit-learn takes them; float() says what cannot be one."""
    if data.dtype.kind != "O":
        return data
    if "pandas" in sys.modules:  # whose tables of Int64, Float64 and the like are of objects, NA among them
        data = np.where(sys.modules["pandas"].isna(data), np.nan, data)
    try:
        return data.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} holds what is no number: {error}") from None


def _lengths(name: str, data: Any, given: Any) -> NDArray[np.int64] | None:
    if given is None:
        return None
    lengths = as_numpy(name, given)
    if lengths.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {lengths.dtype}: expected integers")
    if lengths.shape != (len(data),):
        raise InvalidArgumentError(f"{name} has shape {lengths.shape}: expected ({len(data)},)")
    outside = (lengths < 1) | (lengths > data.shape[1])
    if outside.any():
        raise InvalidArgumentError(
            f"{name} holds {lengths[outside][0]}: expected lengths in [1, {data.shape[1]}]"
        )
    return np.ascontiguousarray(lengths, np.int64)


def _checked(name: str, series: Series, trim: bool) -> Series:
    """Series without NaN: at the end of one it is padding, anywhere else an error."""
    data, sizes = series.data, series.sizes().astype(np.int64)
    if not series.on_host and _is_finite(data):  # all that comes from a GPU, as a rule
        _require_steps(name, sizes)
        return Series(data, None if (sizes == series.steps).all() else sizes)
    rows = max(1, _CHECKED // (series.steps * series.features))
    for begin in range(0, len(data), rows):  # of a memory-mapped array masks of all would fill memory
        part, ends = data[begin : begin + rows], sizes[begin : begin + rows]
        if series.on_host and _is_finite(part):
            _require_steps(name, ends, begin)
        else:
            _check_part(name, on_host(part), ends, begin, trim)
    return Series(data, None if (sizes == series.steps).all() else sizes)


def _is_finite(data: Any) -> bool:
    return all(np.isfinite(float(one)) for one in (data.min(), data.max()))


def _check_part(name: str, part: NDArray[Any], sizes: NDArray[np.int64], begin: int, trim: bool) -> None:
    """Of the series from begin on; with trim their sizes become less by what is padding."""
    steps = np.arange(part.shape[1])
    if trim:
        there = ~np.isnan(part).all(axis=2) & (steps < sizes[:, None])
        np.minimum(sizes, np.where(there, steps + 1, 0).max(axis=1), out=sizes)
    _require_steps(name, sizes, begin)
    bad = ~np.isfinite(part).all(axis=2) & (steps < sizes[:, None])
    if bad.any():
        b, i = np.argwhere(bad)[0]
        what = "NaN" if np.isnan(part[b, i]).any() else "inf"
        raise InvalidArgumentError(
            f"{name}[{begin + b}] has {what} at time step {i}: expected finite numbers (NaN and infinity "
            "are no values of a series; NaN may pad its end)"
        )


def _require_steps(name: str, sizes: NDArray[Any], begin: int = 0) -> None:
    empty = np.flatnonzero(sizes == 0)
    if empty.size:
        raise InvalidArgumentError(
            f"{name}[{begin + empty[0]}] has no time step: expected one or more in each series"
        )


def _moved(series: Series, device: str | None) -> Series:
    if device is None or (device == "cpu" and series.on_host):
        return series
    if device == "cpu":
        return Series(on_host(series.data), series.lengths)
    if not series.on_host:
        return series
    try:
        import torch
    except ImportError:
        raise ImportError(
            f"device is {device!r} and the data are on the host: PyTorch moves them there"
        ) from None
    require_gpu(device, f"is {device!r}")
    return Series(torch.from_numpy(np.ascontiguousarray(series.data)).to(device), series.lengths)


def require_gpu(name: str, given: str) -> None:
    """Raises unless PyTorch sees the GPU. given: what the argument `device` is, or has in it."""
    import torch

    count = torch.cuda.device_count()
    if (torch.device(name).index or 0) >= count:
        raise InvalidArgumentError(
            f"device {given}, and PyTorch sees {count} GPUs: expected 'cpu', or GPUs that it sees"
        )
