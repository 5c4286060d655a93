# Nearest series at gamma 0 without computing all values: lower bounds spare most of them, and change no bit.
"""Bounded, the values of a panel that may be among the nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._rules import Rules
from ._keep import TopK
from ._pairs import PairOptions, pair_values
from ._series import Series

if TYPE_CHECKING:
    from ._blocks import Job

METRICS = ("sqeuclidean", "euclidean", "cityblock")  # which grow with each feature's distance
FIRST = 3  # times k pairs of each series are computed first, to know which others bounds exclude
MOST = 0.5  # of a block's pairs: where bounds leave more, all of them at once take less time
WORTH = 8  # cells of a column for each of its numbers, and thread: bounding a number takes as long as 4
PROBED, PROBE = 4, 512  # series of x and of y by which it is seen what bounds leave
PART = 1 << 16  # numbers of y that are bounded at a time: they stay in the cache
GATHERED = 1 << 22  # numbers of x, and of y, in the pairs of one call
_USUAL = Rules()


def bounded(job: Job, x: Series) -> Bounded | None:
    """What bounds the values of a panel's series x; None where there are no bounds, or they would not pay."""
    options, rules, keep = job.options, job.options.rules, job.keep
    banded = options.band in ("sakoe_chiba", "absolute")
    cells = min(x.steps, 2 * rules.band_radius + 1) if banded else x.steps  # of a column
    if (
        options.gamma > 0
        or options.metric not in METRICS
        or (rules.step_weight, rules.step_penalty) != (_USUAL.step_weight, _USUAL.step_penalty)
        or not isinstance(keep, TopK)
        or keep.skip_self
        or job.pairs.symmetric  # where a value is two series'
        or not x.on_host
        or cells < WORTH * options.threads * x.features
    ):
        return None
    return Bounded(x, keep, options, int(rules.band_radius) if banded and x.lengths is None else None)


class Bounded:
    """Blocks of values of a panel, in which those that are surely not kept are +infinity.

    A path has a cell in every column, so that dynamic time warping costs at least what each time step of y
    is away from the range of the steps of x with which its column has cells: all of them, or with a band, of
    series of one length, a window (Keogh and Ratanamahatana 2005, Exact indexing of dynamic time warping).
    Soft-DTW with gamma > 0 is less by up to gamma times the logarithm of the number of paths: no bound of
    this kind excludes anything there.
    """

    def __init__(self, x: Series, keep: TopK, options: PairOptions, reach: int | None) -> None:
        """reach: time steps of a window before and behind its middle, or None for all steps."""
        self.x, self.keep, self.options, self.reach = x, keep, options, reach
        self.whole, self.windows = _ranges(x), None if reach is None else _windows(x, reach)
        self.pays: bool | None = None

    def values(self, limit: NDArray[Any], y: Series) -> NDArray[Any] | None:
        """Values of the panel with some of y, of which those above limit (rows,) are not kept; None where all
        are better computed."""
        first, k = FIRST * self.keep.k, self.keep.k
        if len(y) < 4 * first:
            return None
        if self.pays is None and len(self.x) > 2 * PROBED:
            probed = self.x.take(np.arange(PROBED) * len(self.x) // PROBED)
            probe = Bounded(probed, self.keep, self.options, self.reach)
            self.pays = probe.values(np.full(PROBED, np.inf), y.part(0, PROBE)) is not None
        if self.pays is False:
            return None
        bounds, values = self._bounds(y), np.full((len(self.x), len(y)), np.inf, self.x.value_dtype)
        chosen = np.zeros(bounds.shape, bool)
        np.put_along_axis(chosen, np.argpartition(bounds, first - 1, axis=1)[:, :first], True, axis=1)
        chosen &= bounds <= limit[:, None]
        self._compute(values, chosen, y)
        limit = np.minimum(limit, np.partition(values, k - 1, axis=1)[:, k - 1])
        rest = (bounds <= limit[:, None]) & ~chosen
        self.pays = bool(rest.mean() < MOST)
        if not self.pays:
            return None
        self._compute(values, rest, y)
        return values

    def _bounds(self, y: Series) -> NDArray[Any]:
        """(rows, len(y)), each below the value by more than rounding may change of the two."""
        bounds = np.empty((len(self.x), len(y)), self.x.value_dtype)
        same = y.lengths is None and y.steps == self.x.steps  # so that columns are those of the windows
        low, high = self.windows if same and self.windows is not None else self.whole
        padding = None if y.lengths is None else np.arange(y.steps) >= y.lengths[:, None]
        begins, ends = self.x.data[:, 0], self.x.data[np.arange(len(self.x)), self.x.sizes() - 1]
        last = y.sizes() - 1
        step = max(1, PART // (y.steps * y.features))
        for begin in range(0, len(y), step):
            some = slice(begin, begin + step)
            part = y.data[some].astype(bounds.dtype, copy=False)
            at_end = np.arange(len(part)), last[some]
            for row in range(len(bounds)):
                away = part - np.clip(part, low[row], high[row])
                away[:, 0] = part[:, 0] - begins[row]  # paths have both corners (Kim, Park and Chu 2001)
                away[at_end] = part[at_end] - ends[row]
                if padding is not None:
                    away[padding[some]] = 0
                bounds[row, some] = _sums(away, self.options.metric)
        rounding = (y.steps * y.features + 16) * np.finfo(bounds.dtype).eps
        bounds *= max(0.0, 1 - rounding)
        return bounds

    def _compute(self, values: NDArray[Any], chosen: NDArray[np.bool_], y: Series) -> None:
        rows, columns = np.nonzero(chosen)
        most = max(1, GATHERED // (max(self.x.steps, y.steps) * y.features))
        for begin in range(0, len(rows), most):
            i, j = rows[begin : begin + most], columns[begin : begin + most]
            found = pair_values(self.x.take(i), y.take(j), self.options)
            values[i, j] = np.where(np.isnan(found), np.inf, found)


def _sums(away: NDArray[Any], metric: str) -> NDArray[Any]:
    """(B,): the costs of being so far away, (B, N, D), summed."""
    if metric == "cityblock":
        return np.asarray(np.abs(away, out=away).sum(axis=(1, 2)))
    if metric == "sqeuclidean":
        return np.asarray(np.einsum("bnd,bnd->b", away, away))
    squares = np.einsum("bnd,bnd->bn", away, away)
    return np.asarray(np.sqrt(squares, out=squares).sum(axis=1))


def _ranges(x: Series) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the largest number of each feature of each series, (B, 1, D)."""
    data = x.data.astype(x.value_dtype, copy=False)
    there = True if x.lengths is None else (np.arange(x.steps) < x.lengths[:, None])[:, :, None]
    return (
        data.min(axis=1, keepdims=True, where=there, initial=np.inf),
        data.max(axis=1, keepdims=True, where=there, initial=-np.inf),
    )


def _windows(x: Series, reach: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The same of the steps around each one, (B, N, D)."""
    data = x.data.astype(x.value_dtype, copy=False)
    return _around(np.minimum, data, reach), _around(np.maximum, data, reach)


def _around(least: np.ufunc, data: NDArray[Any], reach: int) -> NDArray[Any]:
    """Of windows of 2 reach + 1 steps, each that of two that are half as long or overlap."""
    steps = data.shape[1]
    reach = min(reach, steps)
    found = np.pad(data, ((0, 0), (reach, reach), (0, 0)), "edge")
    size, whole = 1, 2 * reach + 1
    while 2 * size <= whole:
        found = least(found[:, :-size], found[:, size:])
        size *= 2
    last = whole - size
    return np.asarray(least(found[:, :steps], found[:, last : last + steps]))
