# Two OpenMP runtimes in one process, of PyTorch and of the package, in any order: results are the same bits
# and those of PyTorch right. Elsewhere two of them have computed wrong numbers.
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, sys
sys.path[:0] = {path!r}
import {first}
import {second}
import numpy as np
import torch
import libsdtw.numpy, libsdtw.torch

torch.set_num_threads(4)
x, y = np.random.default_rng(0).standard_normal((2, 64, 90, 3))
results = []
for _ in range(3):  # by turns, so that each meets what the other left
    for threads in (1, 4):
        results += libsdtw.numpy.soft_dtw_grad(x, y, num_threads=threads)
    a = torch.arange(1 << 20, dtype=torch.float64)
    assert torch.add(a, a).sum() == (1 << 20) * ((1 << 20) - 1)  # by all threads
    tensors = [torch.tensor(series, requires_grad=True) for series in (x, y)]
    value = libsdtw.torch.soft_dtw(*tensors)
    value.sum().backward()
    results += [value.detach().numpy(), *(tensor.grad.numpy() for tensor in tensors)]
digests = [hashlib.sha256(result.tobytes()).hexdigest() for result in results]
assert len(set(digests)) == 3, digests  # of values, and of gradients of x and y
print(*digests[:3])
"""


def digests(first: str, second: str) -> str:
    program = PROGRAM.format(first=first, second=second, path=sys.path)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_torch_first_or_last() -> None:
    pytest.importorskip("torch")
    assert digests("torch", "libsdtw.numpy") == digests("libsdtw.numpy", "torch")
