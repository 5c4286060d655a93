# CuPy as far as libsdtw.cupy uses it, in NumPy's memory: arrays that give no host address, streams, devices,
# and a record of what was allocated.
from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np

STREAM = 0x51
allocated: list[int] = []  # bytes of each block that was asked for
entered: list[int] = []  # devices that were made the current one


class Device:
    def __init__(self, number: int = 0) -> None:
        self.id = number

    def __enter__(self) -> Device:
        entered.append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        pass


class ndarray(np.ndarray):  # noqa: N801
    """Named as CuPy's."""

    number = 0

    def __array_finalize__(self, other: object) -> None:
        self.number = getattr(other, "number", 0)

    @property
    def data(self) -> SimpleNamespace:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])

    @property
    def ctypes(self) -> None:
        raise AssertionError("the address of a GPU array was asked for as if it were in host memory")

    @property
    def flags(self) -> None:
        raise AssertionError("CuPy's flags have no 'aligned'")

    @property
    def device(self) -> Device:
        return Device(self.number)

    @property
    def __cuda_array_interface__(self) -> dict:
        return self.__array_interface__

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.number


def asarray(given, dtype=None):
    if not isinstance(given, np.ndarray) and hasattr(given, "__cuda_array_interface__"):
        given = np.asarray(SimpleNamespace(__array_interface__=given.__cuda_array_interface__))
    return np.asanyarray(given, dtype).view(ndarray)


def from_dlpack(given):
    return given.on_host().view(ndarray)


def empty(shape, dtype):
    result = np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0xA5, dtype).view(ndarray)
    allocated.append(result.nbytes)
    return result


def zeros(shape, dtype):
    return np.zeros(shape, dtype).view(ndarray)


def full(shape, value, dtype):
    return np.full(shape, value, dtype).view(ndarray)


def broadcast_to(array, shape):
    return np.broadcast_to(array, shape, subok=True)


def ascontiguousarray(array, dtype=None):
    return np.ascontiguousarray(array, dtype).view(ndarray)


cuda = SimpleNamespace(Device=Device, get_current_stream=lambda: SimpleNamespace(ptr=STREAM))


def install(monkeypatch):
    """libsdtw.cupy over this module, computing on the CPU, where the memory is."""
    monkeypatch.setitem(sys.modules, "cupy", sys.modules[__name__])
    monkeypatch.delitem(sys.modules, "libsdtw.cupy", raising=False)
    import libsdtw.cupy

    monkeypatch.setattr(libsdtw.cupy.CupyArrays, "device", "cpu")
    monkeypatch.setattr(libsdtw.cupy, "cupy", sys.modules[__name__])
    return libsdtw.cupy
