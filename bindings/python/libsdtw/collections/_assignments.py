# Values of a collection with centers, in each round of k-means anew: everything but the centers is made once.
"""Assignments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _core
from .._calls import Call, Options
from ._pairs import PairOptions, raw_values
from ._series import Series, like


class Assignments:
    """Soft-DTW of every series with every one of some centers, in float64."""

    def __init__(self, series: Series, options: PairOptions) -> None:
        self.series, self.options = series, options
        self.calls: dict[int, _Prepared] = {}

    def __call__(self, centers: NDArray[Any]) -> NDArray[np.float64]:
        """(B, k) for centers (k, M, D)."""
        if not self.series.on_host:
            others = Series(like(centers, self.series.data))
            return raw_values(self.series, others, self.options).astype(np.float64)
        if len(centers) not in self.calls:
            self.calls[len(centers)] = _Prepared(self.series, centers.shape, self.options)
        call = self.calls[len(centers)]
        call.centers[...] = centers
        _core.forward(*call.args)
        return call.value.astype(np.float64)


class _Prepared(Call):
    """The call for so many centers."""

    def __init__(self, series: Series, shape: tuple[int, ...], options: PairOptions) -> None:
        self.centers = np.zeros(shape, series.value_dtype)
        of_call = Options(x_lengths=series.lengths, y_lengths=None, **options.of_call(self.centers))
        super().__init__(series.data, self.centers, of_call, all_pairs=True)
        self.value = np.empty(self.shape, self.value_dtype)
        self.workspace = self.arrays.memory(self.bytes.forward)
        self.args = (
            *(self.problem, self.exec, *self._inputs(), self._address(self.value), None),
            self.arrays.span(self.workspace),
        )
