# Values and gradients of pairs of series, wherever their arrays are; what a value is (gamma, metric,
# band...).
"""Options of a value, the median rule for gamma, and the calls of libsdtw.numpy, libsdtw.torch or
libsdtw.cupy."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._core import InvalidArgumentError
from .._problem import check_options, check_threads, choice
from .._rules import Rules, check_rules
from ._series import Series, beside, centers_like, library_of, on_host

METRICS = tuple(name for name in _core.METRICS if name != "precomputed")
MEDIAN_SHARE = 0.1  # of the median cost; docs/collections.md has what it was chosen by
STATE_PAIRS = 2048  # of a call for gradients, which of tensors keeps state for all of them
_DRAWS = 20_000  # pairs of time steps that the median is taken of
_FEW_DRAWS = 1000  # of the unit of a collection, of which the order of magnitude will do


@dataclass(frozen=True)
class PairOptions:
    """What a value is, apart from the two series. With normalize it is the divergence."""

    gamma: float = 1.0
    metric: str = "sqeuclidean"
    band: str | None = None
    radius: float | None = None
    step_weights: Sequence[float] = (1, 1, 1)
    step_penalties: Sequence[float] = (0, 0, 0)
    normalize: bool = True
    num_threads: int | None = 0

    def check(self) -> None:
        choice("metric", self.metric, METRICS)
        check_options(self.gamma, self.metric)
        check_rules(self.band, self.radius, self.step_weights, self.step_penalties)
        if not isinstance(self.normalize, (bool, np.bool_)):
            raise TypeError(f"normalize is {self.normalize!r}: expected True or False")
        check_threads(self.num_threads)

    @property
    def rules(self) -> Rules:
        return check_rules(self.band, self.radius, self.step_weights, self.step_penalties)

    @property
    def threads(self) -> int:
        """Those of a call on the CPU: what OpenMP takes by default, if num_threads does not say."""
        given = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        if self.num_threads or (given.isdigit() and int(given)):
            return self.num_threads or int(given)
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def named(self) -> dict[str, Any]:
        """As a checkpoint keeps them: what the bits of a value depend on."""
        kept = {name: value for name, value in vars(self).items() if name != "num_threads"}
        return {**kept, "gamma": float(self.gamma), "step_weights": [float(w) for w in self.step_weights],
                "step_penalties": [float(p) for p in self.step_penalties]}  # fmt: skip

    def of_call(self, array: Any) -> dict[str, Any]:
        """Keyword arguments of the functions of the array's package."""
        kept = dict(vars(self))
        del kept["normalize"]
        if not isinstance(array, np.ndarray):
            del kept["num_threads"]
        return kept


def median_gamma(series: Series, metric: str = "sqeuclidean", random_state: Any = 0) -> float:
    """A gamma for series whose scale one does not know: a tenth of the median cost of two time steps.

    The median is that of the metric between 20 000 pairs of time steps, each of two different series drawn at
    random, or of the one that there is. It scales as the costs do, so that series in other units get the same
    alignments.
    """
    choice("metric", metric, METRICS)
    x, y = _drawn_steps(series, np.arange(len(series)), np.random.default_rng(random_state), _DRAWS)
    gamma = _share_of_median(_costs(x, y, metric))
    if gamma == np.inf:
        raise InvalidArgumentError(
            "gamma of the median rule is infinite, as costs of two time steps overflow: expected series of "
            "smaller numbers"
        )
    return gamma


class Unit(NamedTuple):
    """What the numbers of a collection are measured by, so that no result depends on the unit that they
    have.

    Attributes:
        apart: what is typically between two time steps, in the unit of the series.
        gamma: as of median_gamma, of fewer pairs, in the unit of costs.
    """

    apart: float
    gamma: float

    def cost(self, gamma: float) -> float:
        """What costs are measured by: gamma, or the median rule's where gamma is 0 or larger."""
        return min(gamma, self.gamma) if gamma > 0 else self.gamma


def unit_of(series: Series, chosen: NDArray[np.intp], metric: str) -> Unit:
    """Of the series that are chosen, by their indices."""
    if not len(chosen):
        return Unit(1.0, 1.0)
    x, y = _drawn_steps(series, chosen, np.random.default_rng(0), _FEW_DRAWS)
    apart = np.abs(x - y).max(1)
    apart = apart[apart > 0]
    return Unit(float(np.median(apart)) if apart.size else 1.0, _share_of_median(_costs(x, y, metric)))


def _drawn_steps(
    series: Series, chosen: NDArray[np.intp], rng: np.random.Generator, draws: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Pairs of time steps, each of two different chosen series, or of the one that there is: (draws, D)
    twice."""
    sizes, count = series.sizes(), len(chosen)
    start = rng.integers(count, size=draws)
    apart = rng.integers(1, count, size=draws) if count > 1 else 0
    first, second = chosen[start], chosen[(start + apart) % count]
    i, j = rng.integers(sizes[first]), rng.integers(sizes[second])
    if series.on_host:
        x, y = series.data[first, i], series.data[second, j]
    else:
        x, y = (on_host(series.data[b.tolist(), s.tolist()]) for b, s in ((first, i), (second, j)))
    return np.asarray(x, np.float64), np.asarray(y, np.float64)


def _share_of_median(costs: NDArray[Any]) -> float:
    costs = costs[costs > 0]
    return MEDIAN_SHARE * float(np.median(costs)) if costs.size else 1.0  # all alike: any gamma will do


@np.errstate(over="ignore", invalid="ignore")
def _costs(x: NDArray[Any], y: NDArray[Any], metric: str) -> NDArray[Any]:
    if metric == "cosine":
        norms = np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1)
        return np.asarray(1 - (x * y).sum(1) / np.where(norms > 0, norms, 1))
    apart = np.abs(x - y)
    if metric == "cityblock":
        return np.asarray(apart.sum(1))
    squares = (apart**2).sum(1)
    return np.asarray(np.sqrt(squares) if metric == "euclidean" else squares)


def _package(array: Any) -> Any:
    """libsdtw.numpy, libsdtw.torch or libsdtw.cupy."""
    name = library_of(array)
    try:
        return importlib.import_module(f"libsdtw.{name}")
    except ModuleNotFoundError:
        raise TypeError(f"a collection is an array of {name}: expected NumPy, PyTorch or CuPy") from None


def raw_values(
    x: Series, y: Series | None, options: PairOptions, fetch: Callable[[Any], NDArray[Any]] = on_host
) -> NDArray[Any]:
    """Soft-DTW of every series of x with every one of y, or of x itself for y None; (P, Q) on the host."""
    lengths: dict[str, Any] = {"x_lengths": x.lengths}
    if y is not None:
        lengths["y_lengths"] = y.lengths
    package, other = _package(x.data), None if y is None else y.data
    first = x.data if y is None else beside(y.data, x.data)
    return fetch(package.soft_dtw_cdist(first, other, **lengths, **options.of_call(x.data)))


def pair_values(x: Series, y: Series, options: PairOptions) -> NDArray[Any]:
    """Soft-DTW of each series of x with the one of y that has its number, (B,) on the host."""
    values = _package(x.data).soft_dtw(
        x.data, y.data, x_lengths=x.lengths, y_lengths=y.lengths, **options.of_call(x.data)
    )
    result: NDArray[Any] = on_host(values)
    return result


def sum_and_grad(
    center: NDArray[Any], series: Series, weights: NDArray[Any], options: PairOptions, marked: bool = False
) -> tuple[float, NDArray[Any]]:
    """What _objective.Objective gives of a cluster, for arrays of any kind and any steps. marked: the last
    feature is the one that is added, which the center as one of its series is without."""
    total, grad = 0.0, np.zeros(center.shape)
    for i in range(0, len(series), STATE_PAIRS):
        part, share = series.part(i, i + STATE_PAIRS), weights[i : i + STATE_PAIRS]
        values, slope = _values_and_grad(center, part, share, options)
        total += float(share @ values)
        grad += slope
    if options.normalize:
        once, own = np.ones(1), center.copy()
        own[:, center.shape[1] - marked :] = 0
        itself = Series(centers_like(own[None], series))
        values, slope = _values_and_grad(own, itself, once, options, both=True)
        half = 0.5 * float(weights.sum())
        total -= half * float(values[0])
        grad -= half * slope
    return total, grad


def _values_and_grad(
    center: NDArray[Any], part: Series, share: NDArray[Any], options: PairOptions, both: bool = False
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Values (B,) and the gradient of their weighted sum by the center; with both also by what it is paired
    with, of which it is then a copy."""
    one = centers_like(center[None], part)
    call = {"y_lengths": part.lengths, **options.of_call(part.data)}
    if library_of(part.data) == "torch":
        import torch

        from ..torch import soft_dtw

        with torch.enable_grad():
            one.requires_grad_()
            values = soft_dtw(one, one if both else beside(one, part.data), **call)
            upstream = values.new_tensor(share)
            (grad,) = torch.autograd.grad((values * upstream).sum(), one)
        return on_host(values.double()), on_host(grad[0].double())
    values, first, second = _package(part.data).soft_dtw_grad(one, part.data, grad_value=share, **call)
    grad = on_host(first)[0].astype(np.float64)
    return on_host(values).astype(np.float64), grad + on_host(second)[0] if both else grad


def resolve_gamma(gamma: Any, series: Series, metric: str, random_state: Any = 0) -> float:
    """The number that gamma is: itself, or the median rule's."""
    if isinstance(gamma, str):
        if gamma != "median":
            raise InvalidArgumentError(f"gamma is {gamma!r}: expected a number >= 0, or 'median'")
        return median_gamma(series, metric, random_state)
    check_options(gamma, metric)
    return float(gamma)
