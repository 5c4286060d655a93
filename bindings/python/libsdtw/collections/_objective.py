# What averages minimise, evaluated again and again: everything but the centers is prepared once.
"""Objectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._calls import Call, Options
from . import _pairs
from ._pairs import PairOptions, sum_and_grad
from ._series import Series, library_of

if TYPE_CHECKING:
    from ._objective_torch import TensorParts

Sums = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]  # clusters, and what their values and gradients gain
Found = list[Sums]  # of a part


class Objectives:
    """Of each cluster k, sum_b weights[b] value(center k, series b) over its series, and the gradient by its
    center; the divergence's with normalize, less the series' own share, which does not depend on the center.

    A call of the library takes tens of microseconds for short series, as much as checking its arguments does,
    and computes several pairs at a time. So the pairs of all clusters are those of one call, or of one for
    each 2048 of them, made ready once for memory that series and centers are then written to. Under the
    divergence a center is one of its series, too: with weight W of all, d/dc (-W/2 s(c, c)) is -W times the
    derivative by the first argument.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        series: Series,
        weights: NDArray[Any],
        labels: NDArray[Any],
        clusters: int,
        options: PairOptions,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """share: (i, n): only every nth of the parts in which pairs are computed, from the ith on."""
        there = np.flatnonzero(weights > 0)  # a series without weight has no say, be it ever so far away
        self.order = there[np.argsort(labels[there], kind="stable")]
        self.labels, self.weights = labels[self.order], weights[self.order]
        self.totals = np.bincount(self.labels, self.weights, clusters)
        self.series, self.options, self.shape, self.share = series, options, shape, share
        self.parts: list[_Part] = []
        self.on_device: TensorParts | None = None
        if not options.mirrored and options.normalize:
            return
        if series.on_host:
            self._prepare()
        elif library_of(series.data) == "torch" and len(self.order):
            from ._objective_torch import TensorParts

            self.on_device = TensorParts(self)

    def _prepare(self) -> None:
        own = np.flatnonzero(self.totals) if self.options.normalize else np.empty(0, np.intp)
        step, (first, every) = _pairs.STATE_PAIRS, self.share
        starts = range(0, len(self.order), step)
        sizes = [min(step, len(self.order) - i) for i in starts]
        sizes[-1] += len(own)
        mine = list(zip(starts, sizes, strict=True))[first::every]
        if not mine:
            return
        memory = _Memory(self.series, self.shape, max(sizes), bool(len(own)))
        calls = {size: _Prepared(memory, size, self.options) for _, size in mine}
        for i, size in mine:
            chosen = slice(i, min(i + step, len(self.order)))
            self.parts.append(_Part(self, chosen, own if i == starts[-1] else own[:0], memory, calls[size]))
        if len(self.parts) == 1:
            self.parts[0].load()

    def __call__(self, centers: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values (k,) and gradients (k, M, D) for centers (k, M, D); zeros for clusters without a series."""
        return added(centers, self.found(centers))

    def found(self, centers: NDArray[Any]) -> Iterator[Found]:
        """What each part adds, in their order."""
        if self.on_device is not None:
            yield from self.on_device.found(centers)
        elif self.parts:
            for part in self.parts:
                if len(self.parts) > 1:
                    part.load()
                yield part.found(centers)
        elif self.share[0] == 0:
            yield [self._of_cluster(k, centers) for k in np.flatnonzero(self.totals)]

    def _of_cluster(self, k: int, centers: NDArray[Any]) -> Sums:
        of = self.labels == k
        series = self.series.take(self.order[of])
        value, grad = sum_and_grad(centers[k], series, self.weights[of], self.options)
        return np.array([k]), np.array([value]), grad[None]


def added(centers: NDArray[Any], found: Iterable[Found]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values and gradients of the parts together."""
    values, grads = np.zeros(len(centers)), np.zeros(centers.shape)
    for part in found:
        for clusters, of_values, of_grads in part:
            values[clusters] += of_values
            grads[clusters] += of_grads
    return values, grads


class _Memory:
    """What the parts of an objective are computed in, one after the other."""

    def __init__(self, series: Series, shape: tuple[int, int], pairs: int, own: bool) -> None:
        steps = max(series.steps, shape[0]) if own else series.steps
        kind = series.data.dtype
        self.centers = np.zeros((pairs, *shape), kind)
        self.series = np.zeros((pairs, steps, shape[1]), kind)
        self.grads = np.zeros((pairs, *shape), kind)
        ragged = series.lengths is not None or (own and shape[0] != series.steps)
        self.lengths = np.zeros(pairs, np.int64) if ragged else None
        self.workspace: Any = np.empty(0, np.uint8)


class _Prepared(Call):
    """The first so many pairs of the memory, of which values and the gradient by the centers are wanted."""

    def __init__(self, memory: _Memory, size: int, options: PairOptions) -> None:
        lengths = None if memory.lengths is None else memory.lengths[:size]
        of_call = options.of_call(memory.series)
        super().__init__(
            memory.centers[:size],
            memory.series[:size],
            Options(x_lengths=None, y_lengths=lengths, **of_call),
        )
        self.exec = self._exec(with_value=True)
        if memory.workspace.size < self.bytes.backward:
            memory.workspace = self.arrays.memory(self.bytes.backward)
        self.value = np.empty(size, self.value_dtype)
        self.slopes = np.empty(size, self.value_dtype)
        self.memory, self.grads = memory, memory.grads[:size]

    def evaluate(self) -> None:
        _core.backward(
            self.problem,
            self.exec,
            *self._inputs(),
            self._address(self.slopes),
            self._view(self.grads),
            None,
            None,
            self.arrays.span(self.memory.workspace),
            self._address(self.value),
        )


class _Part:
    """Some pairs of series with their centers, by cluster, and behind them centers with themselves."""

    def __init__(
        self, of: Objectives, chosen: slice, own: NDArray[np.intp], memory: _Memory, call: _Prepared
    ) -> None:
        self.series, self.order = of.series, of.order[chosen]
        self.labels, self.own, self.memory, self.call = of.labels[chosen], own, memory, call
        self.starts = np.flatnonzero(np.diff(self.labels, prepend=-1))  # of clusters
        totals = of.totals[own]
        self.share = np.concatenate([of.weights[chosen], -0.5 * totals])
        self.slopes = np.concatenate([of.weights[chosen], -totals])

    def load(self) -> None:
        """Brings the series to the memory of the call."""
        size, memory = len(self.order), self.memory
        memory.series[:size, : self.series.steps] = self.series.data[self.order]
        if memory.lengths is not None:
            memory.lengths[:size] = self.series.sizes()[self.order]
            memory.lengths[size : len(self.share)] = memory.centers.shape[1]
        self.call.slopes[:] = self.slopes

    def found(self, centers: NDArray[Any]) -> Found:
        size, memory, steps = len(self.order), self.memory, centers.shape[1]
        memory.centers[:size] = centers[self.labels]
        if len(self.own):
            memory.centers[size : len(self.share)] = centers[self.own]
            memory.series[size : len(self.share), :steps] = centers[self.own]
        self.call.evaluate()
        shares, found = self.call.value * self.share, self.call.grads
        values = np.add.reduceat(shares[:size], self.starts)
        grads = np.add.reduceat(found[:size], self.starts, axis=0, dtype=np.float64)
        sums = [(self.labels[self.starts], values, grads)]
        if len(self.own):
            sums.append((self.own, shares[size:], found[size:].astype(np.float64)))
        return sums
