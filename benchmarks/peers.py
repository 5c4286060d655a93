"""Other soft-DTW packages from PyPI, called the fastest way each offers. A missing package is left out.

Each peer is a class with
  name        package and version
  dtype       what it computes in
  phases      what it can compute
  batched     whether a call works on the whole batch at once
  magnitude   whether it returns the absolute value
  longest     the longest series that it is run on
  refusals    exceptions that mean that a case is too much for it
  prepare     (x, y, gamma, phase) -> a function of no arguments that returns the values (B,)
  extra_bytes that function -> how much memory grows while it runs, at its peak; None where that is unknown
  release     gives back memory that it keeps
x and y are NumPy arrays (B, N, d) and (B, M, d). All of them compute sqeuclidean costs without a factor.
"""

import contextlib
import importlib
import warnings
from importlib.metadata import version

import numpy as np

import timing

VALUE_AND_GRAD = {"value", "value+grad"}


class _Peer:
    """What all on the CPU have in common."""

    longest, refusals = 4500, ()
    extra_bytes = staticmethod(timing.peak_extra_bytes)

    def release(self):
        pass


class Tslearn(_Peer):
    """tslearn.metrics.SoftDTW, pair by pair.

    It is told that arrays are NumPy's: to find out it prints them, which of short series is most of the time.
    """

    package, dtype, phases = "tslearn", "f64", VALUE_AND_GRAD | {"value+alignment"}
    batched, magnitude = False, False

    def __init__(self):
        self._metrics = importlib.import_module("tslearn.metrics")

    def prepare(self, x, y, gamma, phase):
        def pair(a, b):
            distance = self._metrics.SquaredEuclidean(a, b, be="numpy")
            soft_dtw = self._metrics.SoftDTW(distance, gamma=gamma, be="numpy")
            value = soft_dtw.compute()
            if phase != "value":
                alignment = soft_dtw.grad()
            if phase == "value+grad":
                distance.jacobian_product(alignment)
                transposed = self._metrics.SquaredEuclidean(b, a, be="numpy")
                transposed.jacobian_product(np.ascontiguousarray(alignment.T))
            return value

        return lambda: np.array([pair(a, b) for a, b in zip(x, y, strict=True)])


class Aeon(_Peer):
    """aeon.distances.soft_dtw_distance, pair by pair; it has no gradient."""

    package, dtype, phases = "aeon", "f32", {"value"}
    batched, magnitude = False, True

    def __init__(self):
        self._distance = importlib.import_module("aeon.distances").soft_dtw_distance

    def prepare(self, x, y, gamma, phase):
        pairs = [(np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)) for a, b in zip(x, y, strict=True)]
        return lambda: np.array([self._distance(a, b, gamma=gamma) for a, b in pairs])


class _TorchModule(_Peer):
    """A peer whose loss is a torch module on batches of float32 tensors."""

    dtype, phases = "f32", VALUE_AND_GRAD
    batched, magnitude = True, False

    def __init__(self):
        self._torch = importlib.import_module("torch")

    def _loss(self, gamma):
        raise NotImplementedError

    def prepare(self, x, y, gamma, phase):
        loss = self._loss(gamma)
        grad = phase == "value+grad"
        x, y = (self._torch.from_numpy(a).requires_grad_(grad) for a in (x, y))

        def work():
            value = loss(x, y)
            if grad:
                self._torch.autograd.grad(value.sum(), (x, y))
            return value.detach().numpy()

        return work


class TslearnTorch(_TorchModule):
    """tslearn.metrics.SoftDTWLossPyTorch."""

    package = "tslearn"
    suffix = " (torch)"

    def __init__(self):
        super().__init__()
        self._module = importlib.import_module("tslearn.metrics").SoftDTWLossPyTorch

    def _loss(self, gamma):
        return self._module(gamma=gamma)


class Pysdtw(_TorchModule):
    """pysdtw.SoftDTW, a descendant of Maghoumi's pytorch-softdtw-cuda, on its CPU path."""

    package = "pysdtw"

    def __init__(self):
        super().__init__()
        self._module = importlib.import_module("pysdtw").SoftDTW

    def _loss(self, gamma):
        return self._module(gamma=gamma, use_cuda=False)


def available():
    """Instances of every peer that can be imported, and a line about each that cannot."""
    warnings.filterwarnings("ignore", module="tslearn|pysdtw|aeon|numba")
    found, missing = [], []
    for cls in (Tslearn, TslearnTorch, Pysdtw, Aeon):
        try:
            peer = cls()
            peer.name = f"{cls.package} {version(cls.package)}{getattr(cls, 'suffix', '')}"
            found.append(peer)
        except ImportError as error:
            missing.append(f"{cls.package}: {error}")
    return found, missing


def set_threads(threads):
    """Restricts numba, torch and BLAS to so many threads."""
    for module, function in (("numba", "set_num_threads"), ("torch", "set_num_threads")):
        with contextlib.suppress(ImportError):
            getattr(importlib.import_module(module), function)(threads)
    with contextlib.suppress(ImportError):
        importlib.import_module("threadpoolctl").threadpool_limits(threads, user_api="blas")
