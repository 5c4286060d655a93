# What an average minimises, evaluated again and again: everything but the center is prepared once.
"""Objective."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._calls import Call, Options
from . import _pairs
from ._pairs import PairOptions, sum_and_grad
from ._series import Series


class Objective:
    """sum_b weights[b] value(center, series b), and its gradient by the center; the divergence's with
    normalize, less the series' own share, which does not depend on the center.

    A call of the library takes tens of microseconds for short series, as much as checking its arguments does.
    So the calls are made ready once, for the memory that centers are then written to. Under the divergence
    the center is one of the series, too: with weight W of all, d/dc (-W/2 s(c, c)) is -W times the derivative
    by the first argument.
    """

    def __init__(
        self, shape: tuple[int, ...], series: Series, weights: NDArray[Any], options: PairOptions
    ) -> None:
        there = np.flatnonzero(weights > 0)  # a series without weight has no say, be it ever so far away
        self.series = series if len(there) == len(series) else series.take(there)
        self.weights, self.options = weights[there], options
        self.calls: list[_Prepared] = []
        if series.on_host and (options.mirrored or not options.normalize):
            self._prepare(shape)

    def _prepare(self, shape: tuple[int, ...]) -> None:
        series, whole, step = self.series, float(self.weights.sum()), _pairs.STATE_PAIRS
        self.center = np.zeros((1, *shape), series.data.dtype)
        state: Any = np.empty(0, np.uint8)
        workspace = state
        for i in range(0, len(series), step):
            part, share = series.part(i, i + step), self.weights[i : i + step]
            slopes = share
            own = self.options.normalize and i + step >= len(series)
            if own:
                part = _with_one_more(part, shape)
                share, slopes = np.append(share, -0.5 * whole), np.append(share, -whole)
            call = _Prepared(self.center, part, share, slopes, self.options, own, state, workspace)
            state, workspace = call.state, call.workspace  # the largest come first
            self.calls.append(call)

    def __call__(self, center: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        if not self.calls:
            return sum_and_grad(center, self.series, self.weights, self.options)
        self.center[0] = center
        parts = [call.evaluate(center) for call in self.calls]
        return sum(value for value, _ in parts), np.sum([grad for _, grad in parts], axis=0)


def _with_one_more(part: Series, shape: tuple[int, ...]) -> Series:
    """The series, and room for one of another shape behind them."""
    data = np.zeros((len(part) + 1, max(part.steps, shape[0]), shape[1]), part.data.dtype)
    data[:-1, : part.steps] = part.data
    return Series(data, np.append(part.sizes(), shape[0]))


class _Prepared(Call):
    """One series with all of a part, of which values and the gradient by the one are wanted."""

    def __init__(
        self,
        center: NDArray[Any],
        part: Series,
        share: NDArray[Any],
        slopes: NDArray[Any],
        options: PairOptions,
        own: bool,
        state: Any,
        workspace: Any,
    ) -> None:
        of_call = options.of_call(part.data)
        super().__init__(
            center,
            part.data,
            Options(x_lengths=None, y_lengths=part.lengths, **of_call),
            no_state=True,
            all_pairs=True,
        )
        self.exec = _core.Exec(num_threads=options.num_threads)
        self.bytes = _core.get_sizes(self.problem, self.exec)
        needed = max(self.bytes.forward, self.bytes.backward)
        self.state = state if state.size >= self.bytes.state else self.arrays.memory(self.bytes.state)
        self.workspace = workspace if workspace.size >= needed else self.arrays.memory(needed)
        self.share, self.slopes = share, slopes.astype(self.value_dtype)[None]
        self.last = part.data[-1, : center.shape[1]] if own else None
        self.value, self.grad = np.empty(self.shape, self.value_dtype), np.empty(center.shape, self.dtype)
        memory = self.arrays.span(self.state), self.arrays.span(self.workspace)
        call = self.problem, self.exec, *self._inputs()
        self.to_forward = *call, self.arrays.address(self.value), *memory
        of_x = self.arrays.view(self.grad)
        self.to_backward = *call, self.arrays.address(self.slopes), of_x, None, *memory

    def evaluate(self, center: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        if self.last is not None:
            self.last[...] = center
        _core.forward(*self.to_forward)
        _core.backward(*self.to_backward)
        return float(self.value[0].astype(np.float64) @ self.share), self.grad[0].astype(np.float64)
