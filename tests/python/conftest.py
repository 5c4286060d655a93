# Fixtures and settings of all Python tests.
import os
import sys
from collections.abc import Iterator
from datetime import timedelta

import numpy as np
import pytest
import torch
from hypothesis import settings

import libsdtw
from programs import ROOT

sys.path.append(str(ROOT / "benchmarks"))  # its lines.py

# tslearn and aeon are compiled at each run, which takes longer than they take uncompiled at tests' sizes.
os.environ["NUMBA_DISABLE_JIT"] = "1"

settings.register_profile(
    "libsdtw",
    max_examples=300,
    deadline=timedelta(seconds=5),  # of one example; the largest takes well under 0.1 s on an idle core
    derandomize="CI" in os.environ,
    print_blob=True,
)
settings.load_profile("libsdtw")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20170306)


def require_cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch sees no GPU")
    if not libsdtw.device_available("cuda"):
        pytest.skip("libsdtw has no CUDA backend, or no code for this GPU")
    return torch.device("cuda")


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> torch.device:
    return require_cuda() if request.param == "cuda" else torch.device("cpu")


@pytest.fixture(scope="session")
def cuda() -> torch.device:
    return require_cuda()


@pytest.fixture
def filled_memory(device: torch.device) -> Iterator[None]:
    """torch.empty returns the same bytes each time: opcheck compares state, which has gaps on a GPU."""
    torch.use_deterministic_algorithms(device.type == "cuda")
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def python_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """libsdtw.torch without its extension: for tests that look at calls of the core, or compare the two."""
    from libsdtw.torch import _direct

    monkeypatch.setattr(_direct, "native", None)


@pytest.fixture
def x64() -> Iterator[None]:
    """JAX with float64, for one test."""
    from jax_data import x_of

    with x_of(64):
        yield


@pytest.fixture
def on_cpu() -> Iterator[None]:
    """JAX on the CPU, also where it sees a GPU: for a test of what GPUs have not."""
    import jax

    with jax.default_device(jax.devices("cpu")[0]):
        yield
