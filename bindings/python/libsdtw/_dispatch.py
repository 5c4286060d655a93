# The functions of the package itself, which hand their arguments to the module for that kind of array.
"""soft_dtw and its kin for arrays of any kind."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

# What an array is an instance of, and the module that computes with it. A library that the program has not
# imported has no arrays in it.
_KINDS = {
    "torch": ("torch", "Tensor"),
    "jax": ("jax", "Array"),
    "cupy": ("cupy", "ndarray"),
    "numpy": ("numpy", "ndarray"),
}
# DLPack's numbers of devices: of the host's memory, pinned too; of a GPU's, and of what GPU and host share.
_DLPACK_HOST, DLPACK_CUDA = (1, 3), (2, 13)


def soft_dtw(x: Any, y: Any = None, **options: Any) -> Any:
    """Soft-DTW of x and y, computed by libsdtw.torch, .jax, .cupy or .numpy, whichever x and y are of.

    What is none of these but has ``__cuda_array_interface__`` or ``__dlpack__`` is read where it is, by CuPy
    on a GPU and NumPy elsewhere; its results are arrays of its own library if it has
    ``__array_namespace__``, and otherwise CuPy's or NumPy's. Sequences of numbers are NumPy's, and a list of
    arrays of any library is a batch of series of their lengths.

    Args:
        options: those of the module's function of this name, such as :func:`libsdtw.numpy.soft_dtw`, of
            which all have gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties
            and normalize.
    """
    return _call("soft_dtw", x, y, options)


def soft_dtw_alignment(x: Any, y: Any = None, **options: Any) -> Any:
    """Expected alignment of x and y. Arguments are as of :func:`libsdtw.soft_dtw`, without normalize."""
    return _call("soft_dtw_alignment", x, y, options)


def soft_dtw_cdist(x: Any, y: Any = None, **options: Any) -> Any:
    """Soft-DTW of every series of x with every one of y. Arguments are as of :func:`libsdtw.soft_dtw`."""
    return _call("soft_dtw_cdist", x, y, options)


def _call(function: str, x: Any, y: Any, options: dict[str, Any]) -> Any:
    kinds = {name: _kind(name, value) for name, value in (("x", x), ("y", y)) if value is not None}
    found = {kind for kind in kinds.values() if kind is not None}
    computing = {kind.removeprefix("dlpack ") for kind in found}
    if len(computing) == 1 < len(found):  # CuPy's array and one that CuPy can see, for example
        found = {f"dlpack {computing.pop()}"}
    if len(found) > 1:
        what = " and ".join(f"{name} of {kind}" for name, kind in kinds.items())
        raise TypeError(f"{what}: expected arrays of one kind")
    (kind,) = found or {"numpy"}
    if kind.startswith("dlpack"):
        return _through_dlpack(function, kind.removeprefix("dlpack "), x, y, options)
    return _function(kind, function)(x, y, **options)


def _function(kind: str, name: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(importlib.import_module(f"libsdtw.{kind}"), name)
    return function


def _kind(name: str, value: Any) -> str | None:
    """The module for an argument, after "dlpack " if it is another library's; None: no array of any kind."""
    if isinstance(value, (list, tuple)):
        kinds = {_kind(name, one) for one in value[:1]}
        return kinds.pop() if kinds else None
    for kind, (module, of) in _KINDS.items():
        loaded = sys.modules.get(module)
        if loaded is not None and isinstance(value, getattr(loaded, of, ())):
            return kind
    if hasattr(value, "__dlpack_device__"):
        device = int(value.__dlpack_device__()[0])
        if device in _DLPACK_HOST + DLPACK_CUDA:
            return "dlpack numpy" if device in _DLPACK_HOST else "dlpack cupy"
        raise TypeError(f"{name} is on a device of DLPack's number {device}: expected a CPU or an NVIDIA GPU")
    return "dlpack cupy" if hasattr(value, "__cuda_array_interface__") else None


def _through_dlpack(function: str, kind: str, x: Any, y: Any, options: dict[str, Any]) -> Any:
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    namespace = first.__array_namespace__() if hasattr(first, "__array_namespace__") else None
    try:
        compute = _function(kind, function)
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            raise
        raise TypeError(
            f"x is a {type(first).__name__} in a GPU's memory: "
            "expected CuPy to be installed, or tensors of PyTorch"
        ) from None
    result = compute(x, y, **options)
    if namespace is None:
        return result
    return namespace.from_dlpack(importlib.import_module(kind).asarray(result))
