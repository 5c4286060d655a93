# Forked processes: a pool whose parent has called with several threads before.
import multiprocessing

import numpy as np
import pytest

from libsdtw.numpy import soft_dtw_grad

threads = 4
limit = 120  # seconds until a child is taken to hang


def numpy_step(x, y):
    return soft_dtw_grad(x, y, num_threads=threads)


def torch_step(x, y):
    import torch

    from libsdtw.torch import soft_dtw

    torch.set_num_threads(threads)
    x, y = (torch.from_numpy(series).requires_grad_() for series in (x, y))
    value = soft_dtw(x, y)
    value.sum().backward()
    return value.detach().numpy(), x.grad.numpy(), y.grad.numpy()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("step", [numpy_step, torch_step])
def test_forked_pool(step, rng):
    if step is torch_step:
        pytest.importorskip("torch")
    pair = rng.normal(size=(64, 50, 2)), rng.normal(size=(64, 60, 2))
    expected = numpy_step(*pair)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.starmap_async(step, [pair] * 4).get(limit)
    for result in results:
        for ours, theirs in zip(result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs)
