"""include/sdtw.h through ctypes: the C library as the benchmarks call it, with no binding in between."""

import ctypes as ct
import re
from pathlib import Path

i32, u32, i64, f64, size, ptr = ct.c_int32, ct.c_uint32, ct.c_int64, ct.c_double, ct.c_size_t, ct.c_void_p

HEADER = Path(__file__).resolve().parent.parent / "include/sdtw.h"


def constants(enumeration, prefix):
    """Values of an enumeration of sdtw.h by their names, in lower case and without the prefix."""
    found = re.search(rf"typedef int32_t {enumeration};\s*enum {{(.*?)}};", HEADER.read_text(), re.DOTALL)
    return {name.lower(): int(value) for name, value in re.findall(rf"{prefix}(\w+) = (\d+)", found[1])}


METRICS = constants("sdtw_metric", "SDTW_")
DTYPES = constants("sdtw_dtype", "SDTW_")
BANDS = constants("sdtw_band", "SDTW_BAND_")
DEVICES = constants("sdtw_device", "SDTW_")
ISAS = constants("sdtw_cpu_isa", "SDTW_CPU_ISA_")
ISAS[""] = ISAS["auto"]
ALL_PAIRS, SYMMETRIC = 1, 2  # of Problem.flags
NO_STATE, WITH_VALUE = 2, 4  # of Exec.flags


class Problem(ct.Structure):
    _fields_ = [("struct_size", size), ("metric", i32), ("dtype", i32), ("flags", u32)]
    _fields_ += [(name, i64) for name in ("batch_x", "batch_y", "n", "m", "features")]
    _fields_ += [("gamma", f64), ("band", i32), ("band_radius", f64)]
    _fields_ += [("step_weight", f64 * 3), ("step_penalty", f64 * 3), ("length_bits", i32), ("reserved", i32)]


class Exec(ct.Structure):
    _fields_ = [("struct_size", size), ("device", i32), ("flags", u32)]
    _fields_ += [("num_threads", i32), ("cpu_isa", i32), ("stream", ptr)]


class Array(ct.Structure):
    """sdtw_in and sdtw_out."""

    _fields_ = [("data", ptr), ("stride", i64 * 3)]


class Buffers(ct.Structure):
    _fields_ = [("struct_size", size), ("x", Array), ("y", Array)]
    _fields_ += [(name, ptr) for name in ("x_len", "y_len", "value", "grad_value")]
    _fields_ += [("grad_x", Array), ("grad_y", Array), ("alignment", Array)]
    _fields_ += [("state", ptr), ("state_bytes", size), ("workspace", ptr), ("workspace_bytes", size)]
    _fields_ += [("tangent_x", Array), ("tangent_y", Array), ("value_tangent", ptr)]
    _fields_ += [("grad_x_tangent", Array), ("grad_y_tangent", Array)]


class Sizes(ct.Structure):
    _fields_ = [(name, size) for name in ("struct_size", "state", "forward", "backward", "jvp", "alignment")]


class SdtwError(RuntimeError):
    """A call did not return SDTW_STATUS_OK; carries the status' name and sdtw_last_error()."""


class Library:
    """One loaded libsdtw.so. Every function raises SdtwError where the C function returns an error."""

    def __init__(self, path):
        self.path = Path(path).resolve()
        self._dll = ct.CDLL(str(self.path))
        for name in ("sdtw_build_info", "sdtw_status_string", "sdtw_last_error"):
            getattr(self._dll, name).restype = ct.c_char_p
        self.build_info = self._dll.sdtw_build_info().decode()

    def call(self, function, *args):
        status = getattr(self._dll, function)(*args)
        if status:
            name = self._dll.sdtw_status_string(status).decode()
            raise SdtwError(f"{function}: {name}: {self._dll.sdtw_last_error().decode()}")

    def _init(self, function, struct, fields):
        self.call(function, ct.byref(struct), size(ct.sizeof(struct)))
        for name, value in fields.items():
            setattr(struct, name, value)
        return struct

    def problem(self, **fields):
        return self._init("sdtw_problem_init", Problem(), fields)

    def exec(self, **fields):
        return self._init("sdtw_exec_init", Exec(), fields)

    def buffers(self, **fields):
        return self._init("sdtw_buffers_init", Buffers(), fields)

    def sizes(self, problem, exec_):
        sizes = self._init("sdtw_sizes_init", Sizes(), {})
        self.call("sdtw_get_sizes", ct.byref(problem), ct.byref(exec_), ct.byref(sizes))
        return sizes

    def describe(self, problem, exec_):
        text = ct.create_string_buffer(4096)
        self.call("sdtw_describe", ct.byref(problem), ct.byref(exec_), text, size(len(text)))
        return text.value.decode()


def find_library(root):
    """libsdtw.so of the release preset, else of the last build that is not a sanitizer's."""
    release = Path(root, "build/release/libsdtw.so")
    if release.exists():
        return release
    found = [p for p in Path(root, "build").glob("*/libsdtw.so") if p.parent.name not in ("asan", "tsan")]
    if not found:
        raise FileNotFoundError(
            f"no libsdtw.so under {root}/build: run ./dev build release, or pass --library"
        )
    return max(found, key=lambda path: path.stat().st_mtime)
