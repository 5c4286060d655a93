# CuPy as far as libsdtw.cupy uses it, in NumPy's memory: arrays that give no host address, streams, devices,
# which are those of addresses, and a record of what was allocated.
from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np

STREAM = 0x51
allocated: list[int] = []  # bytes of each block that was asked for
current: list[int] = [0]  # devices that were made the current one, which is the last
places: dict[int, int] = {}  # devices of addresses, where not 0


class Device:
    def __init__(self, number: int | None = None) -> None:
        self.id = current[-1] if number is None else number

    def __enter__(self) -> Device:
        current.append(self.id)
        return self

    def __exit__(self, *_: object) -> None:
        current.pop()


class ndarray(np.ndarray):  # noqa: N801
    """Named as CuPy's."""

    def __array_finalize__(self, other: object) -> None:
        self.number = getattr(other, "number", current[-1])

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
    if isinstance(given, np.ndarray) or not hasattr(given, "__cuda_array_interface__"):
        return np.asanyarray(given, dtype).view(ndarray)
    interface = given.__cuda_array_interface__
    result = np.asarray(SimpleNamespace(__array_interface__=interface)).view(ndarray)
    if places.get(interface["data"][0], 0) != current[-1]:
        result = result.copy()  # as CuPy's does
    result.number = current[-1]
    return result


def from_dlpack(given):
    result = given.on_host().view(ndarray)
    result.number = given.__dlpack_device__()[1]
    return result


def empty(shape, dtype):
    result = np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 0xA5, dtype).view(ndarray)
    allocated.append(result.nbytes)
    return result


def zeros(shape, dtype):
    return np.zeros(shape, dtype).view(ndarray)


def full(shape, value, dtype):
    return np.full(shape, value, dtype).view(ndarray)


def argwhere(array):
    return np.argwhere(np.asarray(array)).view(ndarray)


def broadcast_to(array, shape):
    return np.broadcast_to(array, shape, subok=True)


def bincount(array, minlength=0):
    return np.bincount(np.asarray(array), minlength=minlength).view(ndarray)


def ascontiguousarray(array, dtype=None):
    return np.ascontiguousarray(array, dtype).view(ndarray)


def attributes(address: int) -> SimpleNamespace:
    return SimpleNamespace(device=places.get(address, 0))


cuda = SimpleNamespace(
    Device=Device,
    get_current_stream=lambda: SimpleNamespace(ptr=STREAM),
    runtime=SimpleNamespace(pointerGetAttributes=attributes),
)


def install(monkeypatch):
    """libsdtw.cupy over this module, computing on the CPU, where the memory is."""
    monkeypatch.setitem(sys.modules, "cupy", sys.modules[__name__])
    monkeypatch.delitem(sys.modules, "libsdtw.cupy", raising=False)
    import libsdtw.cupy

    monkeypatch.setattr(libsdtw.cupy.CupyArrays, "device", "cpu")
    monkeypatch.setattr(libsdtw.cupy, "cupy", sys.modules[__name__])
    return libsdtw.cupy
