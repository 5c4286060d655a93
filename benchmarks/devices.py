"""Where a benchmark's buffers live and which clock times a call: one class per device."""

import time

import numpy as np

from timing import cpu_name


class Host:
    """The CPU: 64-byte aligned NumPy buffers, wall-clock time."""

    name = "cpu"

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


DEVICES = {"cpu": Host}
