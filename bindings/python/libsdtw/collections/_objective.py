# What averages minimise, evaluated again and again: everything but centers and labels is made once.
"""Objectives."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._calls import Call, Options
from . import _pairs
from ._pairs import PairOptions, Unit, sum_and_grad, unit_of
from ._series import Series, library_of, widened

if TYPE_CHECKING:
    from ._objective_torch import TensorParts

Sums = tuple[int, float, NDArray[Any]]  # a cluster, and what its value and gradient gain
Found = list[Sums]  # of a part
# The number e, by what is between time steps: its square is below the rounding of costs, and it is far above
# what underflows.
MARK = 2.0**-50


class Evaluated(NamedTuple):
    """Of clusters: values (k,), gradients by centers (k, M, D), and of squared distances masses (k, M)."""

    values: NDArray[np.float64]
    grads: NDArray[np.float64]
    masses: NDArray[np.float64] | None


class Objectives:
    """Objectives of a collection, for any labels and weights, of which one is in use at a time.

    A call of the library takes tens of microseconds for short series, as much as checking its arguments does,
    and computes several pairs at a time. So the pairs of all clusters are those of one call, or of one for
    each 2048 of them, made ready once for memory that series and centers are then written to.

    With "sqeuclidean" a feature is added, which is 0 in series and a small number e in centers. It changes
    costs by e^2, which is nothing, and its gradient is 2 e times the mass of each time step of a center: the
    weighted sum over its series of what the expected alignment has in its row.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        series: Series,
        clusters: int,
        options: PairOptions,
        share: tuple[int, int] = (0, 1),
    ) -> None:
        """shape: of a center; share: (i, n): only every nth of the parts in which pairs are computed, from
        the ith on."""
        self.shape, self.series, self.clusters = shape, series, clusters
        self.options, self.share = options, share
        self.marks = options.metric == "sqeuclidean"
        self.unit: Unit | None = None  # of the series that have a weight in the first objective
        self.mark = MARK
        self.width = shape[1] + self.marks
        self.step = _pairs.STATE_PAIRS
        self.memory: _Memory | None = None
        self.calls: dict[int, _Prepared] = {}
        self.in_calls = options.rules.is_symmetric(ragged=False) or not options.normalize

    def of(self, weights: NDArray[Any], labels: NDArray[Any]) -> Objective:
        if self.unit is None:
            self.unit = unit_of(self.series, np.flatnonzero(weights > 0), self.options.metric)
            self.mark = _mark(self.unit.apart, self.series.value_dtype)
        return Objective(self, self.unit, weights, labels)

    def call(self, size: int) -> _Prepared:
        """A call for so many pairs."""
        if self.memory is None:
            self.memory = _Memory(self, min(self.step, len(self.series)))
        if size not in self.calls:
            self.calls[size] = _Prepared(self.memory, size, self.options)
        return self.calls[size]

    def marked(self, centers: NDArray[Any]) -> NDArray[Any]:
        """Centers (k, M, D) with what is added to them."""
        if not self.marks:
            return centers
        return np.concatenate([centers, np.full((*centers.shape[:2], 1), self.mark)], axis=2)

    def evaluated(self, found: Iterable[Found]) -> Evaluated:
        """What the parts have found, together."""
        values = np.zeros(self.clusters)
        grads = np.zeros((self.clusters, self.shape[0], self.width))
        for part in found:
            for cluster, value, grad in part:
                values[cluster] += value
                grads[cluster] += grad
        if not self.marks:
            return Evaluated(values, grads, None)
        return Evaluated(values, grads[..., :-1], grads[..., -1] / (2 * self.mark))


def _mark(apart: float, kind: Any) -> float:
    """MARK for series of a unit: a power of two, by which no gradient is rounded."""
    mark = math.ldexp(MARK, math.frexp(apart)[1] - 1)
    return max(mark, float(np.finfo(kind).tiny))


class Objective:
    """Of each cluster k, sum_b weights[b] value(center k, series b) over its series, and the gradient by its
    center; the divergence's with normalize, less the series' own share, which does not depend on the center.

    Under the divergence a center is one of its series, too: with weight W of all, d/dc (-W/2 s(c, c)) is -W
    times the derivative by the first argument.
    """

    def __init__(self, made: Objectives, unit: Unit, weights: NDArray[Any], labels: NDArray[Any]) -> None:
        self.made, self.unit, options = made, unit, made.options
        there = np.flatnonzero(weights > 0)  # a series without weight has no say, be it ever so far away
        self.order = there[np.argsort(labels[there], kind="stable")]
        self.labels, self.weights = labels[self.order], weights[self.order]
        self.totals = np.asarray(np.bincount(self.labels, self.weights, made.clusters), np.float64)
        self.own = np.flatnonzero(self.totals) if options.normalize else np.empty(0, np.intp)
        self.parts: list[_Part] = []
        self.on_device: TensorParts | None = None
        if not made.in_calls or not len(self.order):
            return
        if made.series.on_host:
            starts = range(0, len(self.order), made.step)
            for i in starts[made.share[0] :: made.share[1]]:
                self.parts.append(_Part(self, slice(i, i + made.step), i == starts[-1]))
        elif library_of(made.series.data) == "torch":
            from ._objective_torch import TensorParts

            self.on_device = TensorParts(self)

    def __call__(self, centers: NDArray[Any]) -> Evaluated:
        """For centers (k, M, D); zeros for clusters without a series."""
        return self.made.evaluated(self.found(centers))

    def found(self, centers: NDArray[Any]) -> Iterator[Found]:
        """What each part adds, in their order."""
        if self.on_device is not None:
            yield from self.on_device.found(centers)
        elif self.parts:
            marked = self.made.marked(centers).astype(self.made.series.value_dtype)
            for part in self.parts:
                yield part.found(marked)
        elif self.made.share[0] == 0:
            yield [self._of_cluster(int(k), centers) for k in np.flatnonzero(self.totals)]

    def _of_cluster(self, k: int, centers: NDArray[Any]) -> Sums:
        of, made = self.labels == k, self.made
        series = made.series.take(self.order[of])
        if made.marks:
            series = widened(series)
        center = made.marked(centers[k : k + 1])[0]
        return k, *sum_and_grad(center, series, self.weights[of], made.options, made.marks)


class _Memory:
    """What the parts of objectives are computed in, one after the other."""

    def __init__(self, made: Objectives, pairs: int) -> None:
        series, steps, own = made.series, made.shape[0], made.options.normalize
        if own:
            pairs += made.clusters
        longest = max(series.steps, steps) if own else series.steps
        kind = series.value_dtype
        self.centers = np.zeros((pairs, steps, made.width), kind)
        self.series = np.zeros((pairs, longest, made.width), kind)
        self.grads = np.zeros((pairs, steps, made.width), kind)
        self.slopes, self.value = np.empty(pairs, kind), np.empty(pairs, kind)
        ragged = series.lengths is not None or (own and steps != series.steps)
        self.lengths = np.zeros(pairs, np.int64) if ragged else None
        self.workspace: Any = np.empty(0, np.uint8)
        self.holds: _Part | None = None  # whose series are there


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
        if memory.workspace.size < self.bytes.backward:
            memory.workspace = self.arrays.memory(self.bytes.backward)
        self.workspace = memory.workspace
        self.args = (
            self.problem,
            self._exec(with_value=True),
            *self._inputs(),
            self._address(memory.slopes),
            self._view(memory.grads[:size]),
            None,
            None,
            self.arrays.span(self.workspace),
            self._address(memory.value),
        )

    def evaluate(self) -> None:
        _core.backward(*self.args)


class _Part:
    """Some pairs of series with their centers, by cluster, and behind them centers with themselves."""

    def __init__(self, of: Objective, chosen: slice, last: bool) -> None:
        self.order, self.labels, weights = of.order[chosen], of.labels[chosen], of.weights[chosen]
        self.own = of.own if last else of.own[:0]
        totals = of.totals[self.own]
        self.share = np.concatenate([weights, -0.5 * totals])
        self.slopes = np.concatenate([weights, -totals])
        starts = np.flatnonzero(np.diff(self.labels, prepend=-1)).tolist()
        ends = [*starts[1:], len(self.order)]
        self.ranges = [(int(self.labels[i]), slice(i, j)) for i, j in zip(starts, ends, strict=True)]
        self.call = of.made.call(len(self.share))
        self.made, self.features = of.made, of.made.shape[1]

    def _load(self, memory: _Memory) -> None:
        """Brings the series to the memory of the call."""
        size, series = len(self.order), self.made.series
        memory.series[:size, : series.steps, : self.features] = series.data[self.order]
        if memory.lengths is not None:
            memory.lengths[:size] = series.sizes()[self.order]
            memory.lengths[size : len(self.share)] = memory.centers.shape[1]
        memory.slopes[: len(self.share)] = self.slopes
        memory.holds = self

    def found(self, centers: NDArray[Any]) -> Found:
        """For centers (k, M, D) with what is added to them."""
        memory = self.made.memory
        assert memory is not None
        size, end, steps = len(self.order), len(self.share), centers.shape[1]
        if memory.holds is not self:
            self._load(memory)
        np.take(centers, self.labels, axis=0, out=memory.centers[:size], mode="clip")
        if len(self.own):  # without what is added, so that they have no mass
            for there in (memory.centers[size:end], memory.series[size:end, :steps]):
                there[..., : self.features] = centers[self.own, :, : self.features]
                there[..., self.features :] = 0
        self.call.evaluate()
        shares, grads = memory.value[:end] * self.share, memory.grads
        own = enumerate(self.own.tolist(), size)
        return [
            *((k, shares[r].sum(), grads[r].sum(axis=0, dtype=np.float64)) for k, r in self.ranges),
            *((k, shares[i], grads[i].astype(np.float64)) for i, k in own),
        ]
