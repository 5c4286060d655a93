# Soft-DTW of CuPy arrays, and of whatever else in a GPU's memory CuPy can see without a copy.
"""Soft-DTW for CuPy arrays, with the functions, arguments and results of libsdtw.numpy, on the GPU.

Arguments are CuPy arrays, or objects with ``__cuda_array_interface__`` or ``__dlpack__`` in memory of one
GPU; lengths may be in host memory, too. They are read in place. Calls are put on CuPy's current stream of
that GPU and return without waiting for it; results and scratch memory come from CuPy's pool. Lengths in a
GPU's memory are not looked at: one outside of [0, N] makes its pair's value and gradients NaN.
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
    if hasattr(given, "__cuda_array_interface__"):
        return True
    return hasattr(given, "__dlpack_device__") and given.__dlpack_device__()[0] in DLPACK_CUDA


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
        if hasattr(given, "__cuda_array_interface__") or isinstance(given, Real):
            result = as_real(name, cupy.asarray(given), dtype)
        else:
            result = as_real(name, cupy.asarray(cupy.from_dlpack(given)), dtype)
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
        if not hasattr(given, "__dlpack_device__") or not _is_on_gpu(given):
            return nullcontext()
        device: AbstractContextManager[Any] = cupy.cuda.Device(given.__dlpack_device__()[1])
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
pad = _functions.pad
soft_dtw = _functions.soft_dtw
soft_dtw_alignment = _functions.soft_dtw_alignment
soft_dtw_cdist = _functions.soft_dtw_cdist
soft_dtw_cdist_grad = _functions.soft_dtw_cdist_grad
soft_dtw_grad = _functions.soft_dtw_grad
soft_dtw_jvp = _functions.soft_dtw_jvp
