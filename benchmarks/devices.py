"""Where a benchmark's buffers live and which clock times a call: one class per device."""

import ctypes as ct
import ctypes.util
import time

import numpy as np

from timing import cpu_name


class Host:
    """The CPU: 64-byte aligned NumPy buffers, wall-clock time."""

    name = "cpu"
    least = 5  # calls that a median is taken of

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
    """The current CUDA device: buffers of the runtime, times between events on the default stream."""

    name = "cuda"
    least = 20

    def __init__(self):
        self._runtime = ct.CDLL(ctypes.util.find_library("cudart") or "/usr/local/cuda/lib64/libcudart.so")
        self._runtime.cudaGetErrorString.restype = ct.c_char_p
        self._events = ct.c_void_p(), ct.c_void_p()
        for event in self._events:
            self._call("cudaEventCreate", ct.byref(event))
        driver, name = ct.CDLL("libcuda.so.1"), ct.create_string_buffer(100)
        driver.cuInit(0)
        driver.cuDeviceGetName(name, len(name), 0)
        self.hardware = name.value.decode()

    def _call(self, function, *args):
        status = getattr(self._runtime, function)(*args)
        if status:
            raise RuntimeError(f"{function}: {self._runtime.cudaGetErrorString(status).decode()}")

    def empty(self, nbytes):
        address = ct.c_void_p()
        self._call("cudaMalloc", ct.byref(address), ct.c_size_t(nbytes))
        return _DeviceBuffer(self, address, nbytes)

    def put(self, array):
        array = np.ascontiguousarray(array)
        buffer = self.empty(array.nbytes)
        self._call("cudaMemcpy", buffer.pointer, ct.c_void_p(array.ctypes.data), ct.c_size_t(array.nbytes), 1)
        return buffer

    def address(self, buffer):
        return buffer.pointer.value

    def get(self, buffer, dtype):
        array = np.empty(buffer.nbytes // np.dtype(dtype).itemsize, dtype)
        self._call("cudaMemcpy", ct.c_void_p(array.ctypes.data), buffer.pointer, ct.c_size_t(array.nbytes), 2)
        return array

    def time(self, work):
        """Seconds of one call; of short ones many are queued, so that the host's part is hidden."""
        seconds = self._time(work, 1)
        return seconds if seconds > 2e-3 else self._time(work, 20)

    def _time(self, work, count):
        begin, end = self._events
        self._call("cudaDeviceSynchronize")
        self._call("cudaEventRecord", begin, None)
        for _ in range(count):
            work()
        self._call("cudaEventRecord", end, None)
        self._call("cudaEventSynchronize", end)
        milliseconds = ct.c_float()
        self._call("cudaEventElapsedTime", ct.byref(milliseconds), begin, end)
        return milliseconds.value / 1e3 / count


class _DeviceBuffer:
    """Device memory, freed with its last reference."""

    def __init__(self, device, pointer, nbytes):
        self._device, self.pointer, self.nbytes = device, pointer, nbytes

    def __del__(self):
        self._device._runtime.cudaFree(self.pointer)


DEVICES = {"cpu": Host, "cuda": Cuda}
