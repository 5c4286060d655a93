"""Where a benchmark's buffers live and which clock times a call: one class per device."""

import ctypes as ct
import time

import numpy as np

from timing import cpu_name


class Host:
    """The CPU: 64-byte aligned NumPy buffers, wall-clock time."""

    name = "cpu"
    least = 5  # calls that a median is taken of
    stream = None

    def __init__(self):
        self.hardware = cpu_name()

    def empty(self, nbytes):
        """A buffer of nbytes; keep it alive while its address is in use."""
        raw = np.empty(nbytes + 64, dtype=np.uint8)
        offset = -raw.ctypes.data % 64
        return raw[offset : offset + nbytes]

    def put(self, array):
        """A buffer with the array's bytes, in C order."""
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        buffer[:] = array.reshape(-1).view(np.uint8)
        return buffer

    def address(self, buffer):
        return buffer.ctypes.data

    def get(self, buffer, dtype):
        """The buffer's contents as a new NumPy array."""
        return buffer.view(dtype).copy()

    def time(self, work):
        """Seconds that work takes."""
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin


class Cuda:
    """The first CUDA device, through the driver's API: its memory, one stream, times between events."""

    name = "cuda"
    least = 20

    def __init__(self):
        self._driver = ct.CDLL("libcuda.so.1")
        device, context, name = ct.c_int(), ct.c_void_p(), ct.create_string_buffer(100)
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ct.byref(device), 0)
        self._call("cuDeviceGetName", name, len(name), device)
        self._call("cuDevicePrimaryCtxRetain", ct.byref(context), device)
        self._call("cuCtxSetCurrent", context)
        self.hardware = name.value.decode()
        self.stream = self._new("cuStreamCreate", 0)  # the default stream cannot be captured
        self._events = self._new("cuEventCreate", 0), self._new("cuEventCreate", 0)

    def _call(self, function, *args):
        status = getattr(self._driver, function)(*args)
        if status:
            text = ct.c_char_p()
            self._driver.cuGetErrorString(status, ct.byref(text))
            raise RuntimeError(f"{function}: {(text.value or b'unknown error').decode()}")

    def _new(self, function, *args):
        handle = ct.c_void_p()
        self._call(function, ct.byref(handle), *args)
        return handle

    def empty(self, nbytes):
        address = ct.c_uint64()
        self._call("cuMemAlloc_v2", ct.byref(address), ct.c_size_t(nbytes))
        return _DeviceBuffer(self, address, nbytes)

    def put(self, array):
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        self._call(
            "cuMemcpyHtoD_v2", buffer.pointer, ct.c_void_p(array.ctypes.data), ct.c_size_t(array.nbytes)
        )
        return buffer

    def address(self, buffer):
        return buffer.pointer.value

    def get(self, buffer, dtype):
        array = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
        self._call("cuCtxSynchronize")
        self._call(
            "cuMemcpyDtoH_v2", ct.c_void_p(array.ctypes.data), buffer.pointer, ct.c_size_t(array.nbytes)
        )
        return array

    def captured(self, work):
        """A function that replays work from a CUDA graph, which lives as long as the process."""
        graph = ct.c_void_p()
        self._call("cuStreamBeginCapture_v2", self.stream, 0)
        work()
        self._call("cuStreamEndCapture", self.stream, ct.byref(graph))
        executable = self._new("cuGraphInstantiateWithFlags", graph, ct.c_uint64(0))
        return lambda: self._call("cuGraphLaunch", executable, self.stream)

    def time(self, work):
        """Seconds of one call; of short ones many are queued, so that the host's part is hidden."""
        seconds = self._time(work, 1)
        return seconds if seconds > 2e-3 else self._time(work, 20)

    def _time(self, work, count):
        begin, end = self._events
        self._call("cuCtxSynchronize")
        self._call("cuEventRecord", begin, self.stream)
        for _ in range(count):
            work()
        self._call("cuEventRecord", end, self.stream)
        self._call("cuEventSynchronize", end)
        milliseconds = ct.c_float()
        self._call("cuEventElapsedTime", ct.byref(milliseconds), begin, end)
        return milliseconds.value / 1e3 / count


class _DeviceBuffer:
    """Device memory, freed with its last reference."""

    def __init__(self, device, pointer, nbytes):
        self._device, self.pointer, self.nbytes = device, pointer, nbytes

    def __del__(self):
        self._device._driver.cuMemFree_v2(self.pointer)


DEVICES = {"cpu": Host, "cuda": Cuda}
