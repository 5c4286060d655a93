# Values of a collection with its own series and with centers, which each round of k-means asks for anew.
"""Assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._calls import Call, Options
from ._blocks import in_parts
from ._pairs import PairOptions, raw_values
from ._series import Series, centers_like

if TYPE_CHECKING:
    from ._team import Team

Floats = NDArray[np.float64]


class Assignments:
    """Values of every series of a collection, with what does not change computed and made ready once."""

    def __init__(self, series: Series, options: PairOptions, team: Team | None = None) -> None:
        self.series, self.options, self.team = series, options, team
        self.own = self._own(series).astype(np.float64) if options.normalize else None
        self.memory: _Memory | None = None
        self.calls: dict[int, _Prepared] = {}  # by the number of centers, in the same memory

    def to_series(self, indices: NDArray[Any]) -> NDArray[Any]:
        """Values with series of the collection, (B, k)."""
        values = self._raw(self.series.take(indices))
        return values if self.own is None else values - 0.5 * (self.own[:, None] + self.own[indices])

    def to_centers(self, centers: Floats) -> Floats:
        """Values with centers (k, M, D), (B, k)."""
        others = Series(centers_like(centers, self.series))
        if self.series.on_host and self.team is None:
            values = self._call(centers.shape).values(others.data)
        else:
            values = self._raw(others).astype(np.float64)
        if self.own is not None:
            values -= 0.5 * (self.own[:, None] + self._own(others))
        return values

    def _call(self, shape: tuple[int, ...]) -> _Prepared:
        """A call for centers of this shape."""
        if self.memory is None or len(self.memory.centers) < shape[0]:
            self.memory, self.calls = _Memory(self.series, shape), {}
        if shape[0] not in self.calls:
            self.calls[shape[0]] = _Prepared(self.memory, shape[0], self.series.lengths, self.options)
        return self.calls[shape[0]]

    def sums(self, values: Floats, weights: Floats, labels: NDArray[Any]) -> Floats:
        """What the objective of each cluster is at the centers that have these values; labels: -1 of none."""
        there = np.flatnonzero(labels >= 0)
        mine = values[there, labels[there]]
        if self.own is not None:
            mine = mine + 0.5 * self.own[there]
        return np.asarray(np.bincount(labels[there], weights[there] * mine, values.shape[1]), np.float64)

    def _raw(self, others: Series) -> NDArray[Any]:
        of = raw_values if self.team is None else self.team.raw_values
        return of(self.series, others, self.options)

    def _own(self, series: Series) -> NDArray[Any]:
        of = in_parts if self.team is None else self.team.own_values
        return of(series, self.options)


class _Memory:
    """What calls for so many centers, and for fewer of them, read and write, one after the other."""

    def __init__(self, series: Series, shape: tuple[int, ...]) -> None:
        kind = series.value_dtype
        self.series = series.data.astype(kind, copy=False)  # once: of halves each call would make a copy
        self.centers, self.value = np.zeros(shape, kind), np.empty(len(series) * shape[0], kind)
        self.workspace: Any = np.empty(0, np.uint8)


class _Prepared(Call):
    """The call for so many centers."""

    def __init__(self, memory: _Memory, count: int, lengths: Any, options: PairOptions) -> None:
        self.centers = memory.centers[:count]
        of_call = Options(x_lengths=lengths, y_lengths=None, **options.of_call(self.centers))
        super().__init__(memory.series, self.centers, of_call, all_pairs=True)
        self.value = memory.value[: self.pairs].reshape(self.shape)
        if memory.workspace.size < self.bytes.forward:
            memory.workspace = self.arrays.memory(self.bytes.forward)
        self.workspace = memory.workspace
        span = self.arrays.span(self.workspace)
        self.args = self.problem, self.exec, *self._inputs(), self._address(self.value), None, span

    def values(self, centers: NDArray[Any]) -> Floats:
        self.centers[...] = centers
        _core.forward(*self.args)
        return self.value.astype(np.float64)
