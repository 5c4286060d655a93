# libsdtw.cupy on a GPU, by CuPy itself: what test_arrays.py, with NumPy in its place, cannot show.
import numpy as np
import pytest

import libsdtw
import libsdtw.numpy
from test_arrays import FUNCTIONS, OPTIONS

cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
pytestmark = pytest.mark.usefixtures("cuda")


@pytest.fixture
def module():
    import libsdtw.cupy

    return libsdtw.cupy


@pytest.fixture
def pairs(rng):
    return rng.normal(size=(3, 9, 2)), rng.normal(size=(3, 8, 2))


def as_tuple(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_results_are_those_of_the_cpu(name, dtype, pairs, module):
    x, y = (series.astype(dtype) for series in pairs)
    expected = as_tuple(getattr(libsdtw.numpy, name)(x, y, **OPTIONS))
    tolerance = {np.float16: 2e-3, np.float32: 1e-5, np.float64: 1e-12}[dtype]
    function = getattr(module, name)
    for ours in (
        as_tuple(function(cupy.asarray(x), cupy.asarray(y), **OPTIONS)),
        # Not contiguous in memory.
        as_tuple(
            function(cupy.asarray(x.transpose(2, 1, 0).copy()).transpose(2, 1, 0), cupy.asarray(y), **OPTIONS)
        ),
    ):
        for one, other in zip(ours, expected, strict=True):
            assert isinstance(one, cupy.ndarray)
            np.testing.assert_allclose(cupy.asnumpy(one), other, rtol=tolerance, atol=tolerance)


def test_the_module_is_found_by_the_arrays(pairs):
    x, y = map(cupy.asarray, pairs)
    value = libsdtw.soft_dtw(x, y)
    assert isinstance(value, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(value), libsdtw.numpy.soft_dtw(*pairs), rtol=1e-12)


def test_calls_are_put_on_the_current_stream_and_wait_for_nothing(rng, module):
    series = [cupy.asarray(rng.normal(size=(8, 300, 4)).astype(np.float32)) for _ in range(2)]
    expected = cupy.asnumpy(module.soft_dtw(*series))
    stream, large = cupy.cuda.Stream(non_blocking=True), cupy.zeros((4096, 4096), np.float32)
    late = [cupy.zeros_like(one) for one in series]
    cupy.cuda.Device().synchronize()
    with stream:
        for _ in range(40):  # keeps the stream busy for some tens of milliseconds
            large = large @ large
        for to, of in zip(late, series, strict=True):
            to[...] = of
        ours = module.soft_dtw(*late)
        done = cupy.cuda.Event()
        done.record()
        assert not done.done  # the host is here while the stream still multiplies
    stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(ours), expected)


def test_memory_is_of_the_pool(rng, module):
    x, y = (cupy.asarray(rng.normal(size=(16, 512, 4)).astype(np.float32)) for _ in range(2))
    pool = cupy.get_default_memory_pool()
    module.soft_dtw_grad(x, y)
    cupy.cuda.Device().synchronize()
    held, taken = pool.total_bytes(), 1
    for _ in range(3):  # free memory is the whole GPU's, from which others take some now and then
        free = cupy.cuda.runtime.memGetInfo()[0]
        for _ in range(5):
            module.soft_dtw_grad(x, y)
        cupy.cuda.Device().synchronize()
        taken = min(taken, max(0, free - cupy.cuda.runtime.memGetInfo()[0]))
    assert pool.total_bytes() == held
    assert not taken


def test_tensors_of_a_side_stream_are_waited_for(rng, module):
    # PyTorch's stream is busy for about 0.1 s before it makes the numbers, and CuPy's is another.
    import torch

    series = [torch.tensor(rng.normal(size=(8, 30, 4)), device="cuda") for _ in range(2)]
    expected = cupy.asnumpy(module.soft_dtw(*series))
    side, late = torch.cuda.Stream(), [torch.zeros_like(one) for one in series]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        for to, of in zip(late, series, strict=True):
            to.copy_(of)
        ours = module.soft_dtw(*late)
    np.testing.assert_array_equal(cupy.asnumpy(ours), expected)


def test_arrays_of_another_gpu(pairs, module):
    if cupy.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("CuPy sees one GPU")

    class Seen:
        def __init__(self, array):
            self.__cuda_array_interface__ = array.__cuda_array_interface__

    with cupy.cuda.Device(1):
        arrays = [cupy.asarray(one) for one in pairs]
    for given in (arrays, [Seen(one) for one in arrays]):
        value = module.soft_dtw(*given)
        assert value.device.id == 1
        np.testing.assert_allclose(cupy.asnumpy(value), libsdtw.numpy.soft_dtw(*pairs), rtol=1e-12)
