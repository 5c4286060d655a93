# What every framework's front end shares: checks of names, shapes and options, before they reach the core.
"""Checks of arguments that do not depend on a framework."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from . import _core
from ._core import InvalidArgumentError

MOST_THREADS = 4096  # sdtw_exec.num_threads
# Of libsdtw.torch and libsdtw.jax: what becomes of values, kinds of divergences, and what is often meant.
REDUCTIONS = ("none", "mean", "sum")
KINDS = ("soft", "sharp", "mean_cost")
HINT = "a batch of univariate series (B, N) is given as series[..., None]"


class Sizes(NamedTuple):
    """Sizes of a batch of pairs; features is 0 for a cost matrix."""

    batch: int
    n: int
    m: int
    features: int


def choice(name: str, value: object, choices: Sequence[str] | dict[str, int]) -> None:
    """Raises unless value is one of the names in choices."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidArgumentError(f"{name} is {value!r}: expected one of {', '.join(map(repr, choices))}")


def is_finite(value: Any) -> bool:
    """Whether a number is finite as a float: Python's integers may be larger."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def check_options(gamma: float, metric: str) -> None:
    """Raises unless gamma is finite and not negative and metric is one that sdtw.h names."""
    choice("metric", metric, _core.METRICS)
    if not isinstance(gamma, Real) or isinstance(gamma, bool):
        raise TypeError(f"gamma is {gamma!r}: expected a number")
    if not (gamma >= 0 and is_finite(gamma)):
        raise InvalidArgumentError(f"gamma is {gamma!r}: expected a finite number >= 0")


def count(name: str, value: Any, least: int = 1) -> int:
    """The argument, an integer >= least."""
    if isinstance(value, bool) or not isinstance(value, (int, Integral)):  # int: as torch.compile has it
        raise TypeError(f"{name} is {value!r}: expected an integer")
    if value < least:
        raise InvalidArgumentError(f"{name} is {value}: expected an integer >= {least}")
    return int(value)


def check_threads(num_threads: object) -> int:
    """num_threads as the core has it; raises unless it is None or a whole number of threads."""
    if num_threads is None:
        return 0
    try:
        threads = operator.index(num_threads)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"num_threads is {num_threads!r}: expected an integer or None") from None
    if not 0 <= threads <= MOST_THREADS:
        raise InvalidArgumentError(f"num_threads is {threads}: expected 0 to {MOST_THREADS}, or None")
    return threads


def batched(name: str, array: Any, layout: str) -> Any:
    """A view of an array of any framework as (B, N, D), from (B, N, D), (N, D) or (N,)."""
    if array.ndim == 3:
        return array
    if array.ndim == 2:
        return array[None]
    if array.ndim == 1 and layout == "N, D":
        return array[None, :, None]
    shapes = f"(B, {layout}), ({layout}) or (N,)" if layout == "N, D" else f"(B, {layout}) or ({layout})"
    raise InvalidArgumentError(f"{name} has shape {tuple(array.shape)}: expected {shapes}")


def pair_sizes(x: Sequence[int], y: Sequence[int]) -> Sizes:
    """Sizes of the pairs of two batches, of which one may hold a single series for all of the other."""
    if x[2] != y[2]:
        raise InvalidArgumentError(
            f"x has {x[2]} features and y has {y[2]} (shapes {tuple(x)} and {tuple(y)}): "
            "expected the same number"
        )
    if x[0] != y[0] and x[0] != 1 and y[0] != 1:
        raise InvalidArgumentError(
            f"x has {x[0]} series and y has {y[0]} (shapes {tuple(x)} and {tuple(y)}): "
            "expected the same number, or 1 in one of them"
        )
    return Sizes(y[0] if x[0] == 1 else x[0], x[1], y[1], x[2])


def check_length_shape(name: str, shape: Sequence[int], batch: int) -> None:
    """Raises unless lengths of this shape are one for each pair or one for all."""
    if tuple(shape) not in ((batch,), (1,), ()):
        raise InvalidArgumentError(f"{name} has shape {tuple(shape)}: expected ({batch},), one for each pair")


def require_y(y: object, metric: str) -> None:
    """Raises unless y is present exactly when the metric needs it."""
    if metric == "precomputed" and y is not None:
        raise InvalidArgumentError(
            "y is given with metric 'precomputed': expected the cost matrix in x and no y"
        )
    if metric != "precomputed" and y is None:
        raise InvalidArgumentError(f"y is None with metric {metric!r}: expected a series or a batch of them")


def device_available(device: str) -> bool:
    """Whether calls on the device, 'cpu' or 'cuda', can work now."""
    choice("device", device, _core.DEVICES)
    try:
        _core.device_available(_core.DEVICES[device])
    except (_core.NotBuiltError, _core.NoDeviceError):
        return False
    return True


# Fields of the core's structs, in the words of the package.
_FIELDS = {
    "problem.gamma": "gamma",
    "problem.n": "the number of time steps of x",
    "problem.m": "the number of time steps of y",
    "problem.features": "the number of features",
    "problem: pairs * n * m": "pairs * N * M",
    "problem: ": "",
}


def explain(error: _core.SdtwError) -> str:
    """What the core says about a problem, as users of Python would put it."""
    message = str(error)
    for field, words in _FIELDS.items():
        message = message.replace(field, words)
    return message
