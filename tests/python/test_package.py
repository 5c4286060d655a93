# The package as it is installed: one version, no framework at import, types that match the core, devices.
import os
import re
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

import capi
import libsdtw
from libsdtw import _core, _rules

HEADER = Path(__file__).parents[2] / "include" / "sdtw.h"


def test_version_is_the_headers():
    number = int(re.search(r"define SDTW_VERSION (\d+)", HEADER.read_text())[1])
    assert _core.version() == number
    assert libsdtw.__version__ == f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    assert metadata.version("libsdtw") == libsdtw.__version__
    assert libsdtw.__version__ in libsdtw.build_info()


def test_names_are_those_of_the_headers_constants():
    """benchmarks/capi.py reads them there, and the module has a list of its own in C++."""
    assert _core.METRICS == capi.METRICS
    assert _core.BANDS == capi.BANDS
    assert _core.DEVICES == capi.DEVICES
    assert [*_core.DTYPES.values()] == [*capi.DTYPES.values()]
    assert _rules.DEGREES.keys() == _core.METRICS.keys()


def test_numpy_that_is_asked_for_has_what_is_called():
    least = re.search(r'"numpy>=(\d+)\.(\d+)"', (HEADER.parents[1] / "pyproject.toml").read_text())
    assert tuple(map(int, least.groups())) >= (1, 23)  # from_dlpack


def test_import_loads_no_framework():
    code = "import sys, libsdtw; print({'torch', 'jax', 'numpy'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "set()"


def test_devices():
    assert libsdtw.device_available("cpu")
    assert isinstance(libsdtw.device_available("cuda"), bool)
    with pytest.raises(ValueError, match="device is 'tpu': expected one of 'cpu', 'cuda'"):
        libsdtw.device_available("tpu")


def test_stub_has_the_cores_names():
    stub = (Path(libsdtw.__file__).parent / "_core.pyi").read_text()
    in_stub = set(re.findall(r"^(?:def|class) (\w+)|^([A-Z_]+):", stub, re.MULTILINE))
    in_stub = {a or b for a, b in in_stub if not a.startswith("_")}
    assert in_stub == {name for name in vars(_core) if not name.startswith("_")}


def test_describe_and_sizes():
    problem = _core.Problem(_core.METRICS["sqeuclidean"], _core.DTYPES["float32"], 4, 100, 90, 3, 1.0)
    assert _core.describe(problem, _core.Exec(num_threads=1))
    sizes = _core.get_sizes(problem, _core.Exec())
    assert sizes.state > 0
    assert _core.get_sizes(problem, _core.Exec(no_state=True)).state == 0


def test_small_buffers_are_refused():
    problem = _core.Problem(_core.METRICS["sqeuclidean"], _core.DTYPES["float64"], 1, 50, 50, 1, 1.0)
    exec_ = _core.Exec(num_threads=1)
    sizes = _core.get_sizes(problem, exec_)
    x, value = np.zeros(50), np.full(1, 7.0)
    state, workspace = np.empty(sizes.state, np.uint8), np.empty(sizes.forward, np.uint8)
    array = x.ctypes.data, (0, 1, 1)
    with pytest.raises(libsdtw.BufferTooSmallError, match=str(sizes.state)):
        _core.forward(
            problem, exec_, array, array, 0, 0, value.ctypes.data,
            (state.ctypes.data, sizes.state - 1), (workspace.ctypes.data, workspace.size),
        )  # fmt: skip
    assert value[0] == 7.0


def test_values_beside_gradients_alignments_and_tangents(rng):
    problem = _core.Problem(_core.METRICS["sqeuclidean"], _core.DTYPES["float64"], 3, 20, 20, 1, 1.0)
    x, out, value, other = rng.normal(size=(3, 20, 1)), np.empty((3, 20, 1)), np.empty(3), np.empty(3)
    e, array, place = np.empty((3, 20, 20)), (x.ctypes.data, (20, 1, 1)), (out.ctypes.data, (20, 1, 1))
    plain, exec_ = (_core.Exec(num_threads=1, no_state=True, with_value=wanted) for wanted in (False, True))
    at, none = other.ctypes.data, (0, 1 << 24)
    _core.forward(problem, plain, array, array, 0, 0, value.ctypes.data, None, none)
    calls = (
        lambda how, at: _core.backward(problem, how, array, array, 0, 0, 0, place, None, None, none, at),
        lambda how, at: _core.alignment(
            problem, how, array, array, 0, 0, (e.ctypes.data, (400, 20, 1)), None, none, at
        ),
        lambda how, at: _core.jvp(problem, how, array, array, 0, 0, array, None, 0, 0, place, None, none, at),
    )
    for call in calls:
        other[:] = 7
        call(plain, at)
        assert (other == 7).all()
        call(exec_, at)
        np.testing.assert_allclose(other, value, rtol=1e-12)
        with pytest.raises(libsdtw.InvalidArgumentError, match=r"buffers\.value is NULL"):
            call(exec_, 0)


def test_concurrent_calls_agree_and_keep_their_own_errors(rng):
    # The GIL is released in a call: results and messages must be those of the calling thread.
    x, y = rng.normal(size=(8, 200, 4)), rng.normal(size=(8, 150, 4))
    expected = libsdtw_grad(x, y)
    failures = []

    def work(index):
        for repeat in range(5):
            if not all(np.array_equal(a, b) for a, b in zip(libsdtw_grad(x, y), expected, strict=True)):
                failures.append((index, repeat))
            try:
                _core.Problem(_core.METRICS["sqeuclidean"], 0, 1, 1, 1, 1, 1.0)
                _core.get_sizes(_core.Problem(1, 0, 1, -index - 1, 1, 1, 1.0), _core.Exec())
            except ValueError as error:
                if f"is {-index - 1}:" not in str(error):
                    failures.append((index, str(error)))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def libsdtw_grad(x, y):
    from libsdtw.numpy import soft_dtw_grad

    return soft_dtw_grad(x, y, num_threads=1)


@pytest.mark.skipif(os.environ.get("LIBSDTW_TORCH_NATIVE") == "0", reason="told to do without it")
def test_the_extension_for_pytorch_is_found_where_it_was_built():
    import torch

    from libsdtw.torch import _direct, _extension

    name = f"_native-{torch.__version__}-"  # with what it was built for, which the wheel's version may lack
    assert _extension.file_name().startswith(name)
    built = list(Path(_extension.__file__).parent.glob(f"{name}*"))
    if not built:
        pytest.skip("it was not built: python -m libsdtw.torch.build")
    assert _direct.native is not None


def test_a_folder_near_the_root_may_hold_the_package():
    # As pip install --target /app does: where the source tree would be is above the root.
    from libsdtw.torch import _extension

    module = {"__file__": "/nowhere/libsdtw/torch/_extension.py", "__name__": "libsdtw.torch._extension"}
    exec(Path(_extension.__file__).read_text(), module)
    assert module["load"]() is None
