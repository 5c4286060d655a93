# The package's own face: version, build, devices and errors. It imports no framework.
"""Soft Dynamic Time Warping, its gradients and expected alignments, on CPUs and NVIDIA GPUs.

``libsdtw.soft_dtw`` takes arrays of any kind. ``libsdtw.numpy`` computes on NumPy arrays and ``libsdtw.cupy``
on CuPy's, with gradients and more; ``libsdtw.torch`` is a differentiable loss for PyTorch, and
``libsdtw.jax`` has it for JAX.
"""

from ._core import (
    BufferTooSmallError,
    CudaError,
    InternalError,
    InvalidArgumentError,
    InvalidStructError,
    NoDeviceError,
    NotBuiltError,
    SdtwError,
    UnsupportedError,
    build_info,
)
from ._core import version as _version
from ._dispatch import soft_dtw, soft_dtw_alignment, soft_dtw_cdist
from ._problem import device_available

__all__ = [
    "BufferTooSmallError",
    "CudaError",
    "InternalError",
    "InvalidArgumentError",
    "InvalidStructError",
    "NoDeviceError",
    "NotBuiltError",
    "SdtwError",
    "UnsupportedError",
    "__version__",
    "build_info",
    "device_available",
    "soft_dtw",
    "soft_dtw_alignment",
    "soft_dtw_cdist",
]

__version__ = f"{_version() // 10000}.{_version() // 100 % 100}.{_version() % 100}"
