# The shared library with the handlers: loaded with ctypes, and made known to XLA.
"""Loads libsdtw_jax and registers its handlers as targets of jax.ffi."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import jax

from .. import _core
from .._core import NotBuiltError

# Beside the core that it was built with, which in editable installs is not where this file is.
PATH = Path(_core.__file__).parent / "jax" / "libsdtw_jax.so"
TARGETS = ("value", "gradients", "alignment", "tangents")

# Platforms by XLA's names and, in the symbols of handlers, ours.
_PLATFORMS = {"cpu": "cpu", "CUDA": "cuda"}


def target(name: str) -> str:
    """The name that XLA knows a target by."""
    return f"libsdtw_{name}"


def _register() -> frozenset[str]:
    """Registers all handlers that there are; returns the platforms that have them."""
    try:
        library = ctypes.CDLL(str(PATH))
    except OSError as error:
        raise NotBuiltError(
            f"libsdtw was built without its handlers for JAX ({error}): install jax first, and then libsdtw "
            "from source, which finds the headers of jaxlib; or see docs/jax.md"
        ) from None
    library.sdtw_jax_set_core.argtypes = ctypes.c_char_p, ctypes.c_void_p
    for name, address in _core.functions().items():
        if not library.sdtw_jax_set_core(name.encode(), address):
            raise NotBuiltError(f"{PATH.name} is of another build than libsdtw: it does not know {name}")
    platforms = set()
    for platform, ours in _PLATFORMS.items():
        if not hasattr(library, f"sdtw_jax_{ours}_value"):
            continue
        for name in TARGETS:
            handler = getattr(library, f"sdtw_jax_{ours}_{name}")
            jax.ffi.register_ffi_target(target(name), jax.ffi.pycapsule(handler), platform=platform)
        platforms.add(ours)
    return frozenset(platforms)


PLATFORMS = _register()


@functools.cache
def on_gpus() -> bool:
    """Whether programs may run on a GPU with these handlers."""
    try:
        return "cuda" in PLATFORMS and bool(jax.devices("cuda"))
    except RuntimeError:  # JAX has no such platform here
        return False
