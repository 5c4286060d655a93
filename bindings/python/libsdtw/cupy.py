# Soft-DTW of CuPy arrays, and of whatever else in a GPU's memory CuPy can see without a copy.
"""Soft-DTW for CuPy arrays, with the functions, arguments and results of libsdtw.numpy, on the GPU.

Arguments are CuPy arrays, or objects with ``__dlpack__`` or ``__cuda_array_interface__`` in memory of one
GPU; lengths may be in host memory, too. They are read in place. Calls are put on CuPy's current stream of
that GPU, behind what DLPack's producers have queued on theirs, and return without waiting for it, but for
dtw_path, whose results have sizes that follow from the numbers; results and scratch memory come from CuPy's
pool. Lengths in a GPU's memory are not looked at: one outside of [0, N] makes its pair's value and gradients
NaN.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from numbers import Real
from typing import Any

import cupy
from numpy.typing import ArrayLike

from ._arrays import Floats, NumpyArrays, as_real, to_lengths
from ._core import InvalidArgumentError
from ._dispatch import DLPACK_CUDA
from ._functions import Functions

__all__ = [
    "dtw_path",
    "pad",
    "soft_dtw",
    "soft_dtw_alignment",
    "soft_dtw_cdist",
    "soft_dtw_cdist_grad",
    "soft_dtw_grad",
    "soft_dtw_jvp",
    "to_lengths",
]


def _is_on_gpu(given: object) -> bool:
    if hasattr(given, "__dlpack_device__"):
        return given.__dlpack_device__()[0] in DLPACK_CUDA
    return hasattr(given, "__cuda_array_interface__")


def _seen(given: Any) -> Any:
    """What is on a GPU as CuPy's array, in place. DLPack has the current stream wait for the producer's, of
    which the other interface tells no more than its producer chooses: PyTorch's, nothing."""
    if isinstance(given, cupy.ndarray):
        return given
    if hasattr(given, "__dlpack_device__"):
        return cupy.from_dlpack(given)
    with _gpu_of(given.__cuda_array_interface__["data"][0]):
        return cupy.asarray(given)  # a copy, if it were on a GPU that is not current


def _gpu_of(address: int) -> AbstractContextManager[Any]:
    """The GPU in whose memory an address is; 0, of no elements, is in none."""
    number = cupy.cuda.runtime.pointerGetAttributes(address).device if address else -1
    device: AbstractContextManager[Any] = cupy.cuda.Device(number) if number >= 0 else nullcontext()
    return device


class CupyArrays(NumpyArrays):
    """CuPy's arrays, in a GPU's memory."""

    device = "cuda"

    @property
    def namespace(self) -> Any:
        return cupy

    def asarray(self, name: str, given: Any, dtype: Any = None) -> Floats:
        if not _is_on_gpu(given) and not isinstance(given, Real):
            raise TypeError(
                f"{name} is a {type(given).__name__}, not in a GPU's memory: expected an array there, as "
                "cupy.asarray makes it"
            )
        seen = cupy.asarray(given) if isinstance(given, Real) else _seen(given)
        result = as_real(name, seen, dtype)
        here = cupy.cuda.Device().id
        if result.device.id != here:
            raise InvalidArgumentError(f"{name} is on GPU {result.device.id}: expected x's, GPU {here}")
        array: Floats = result
        return array

    def is_array(self, given: object) -> bool:
        return _is_on_gpu(given)

    def address(self, array: Any) -> int:
        return int(array.data.ptr)

    def stream(self) -> int:
        return int(cupy.cuda.get_current_stream().ptr)

    def at(self, given: Any) -> AbstractContextManager[Any]:
        if isinstance(given, (list, tuple)) and given:
            given = given[0]
        if not _is_on_gpu(given):
            return nullcontext()
        device: AbstractContextManager[Any] = _seen(given).device  # where its address is
        return device

    def memory(self, size: int) -> Floats:
        block: Floats = cupy.empty(size, "uint8")
        return block

    def lengths(self, name: str, given: ArrayLike | None, batch: int, longest: int) -> Floats | None:
        if given is None or not _is_on_gpu(given):
            host = super().lengths(name, given, batch, longest)
            return None if host is None else cupy.asarray(host)
        array = self._integers(name, self.asarray(name, given), batch)
        result: Floats = cupy.ascontiguousarray(cupy.broadcast_to(array, batch), "int64")
        return result


_functions = Functions(CupyArrays())
dtw_path = _functions.dtw_path
pad = _functions.pad
soft_dtw = _functions.soft_dtw
soft_dtw_alignment = _functions.soft_dtw_alignment
soft_dtw_cdist = _functions.soft_dtw_cdist
soft_dtw_cdist_grad = _functions.soft_dtw_cdist_grad
soft_dtw_grad = _functions.soft_dtw_grad
soft_dtw_jvp = _functions.soft_dtw_jvp
