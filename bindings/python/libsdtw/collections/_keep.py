# What is kept of all values of a collection with another: never the values themselves, unless that is wanted.
"""Keepers: what :func:`libsdtw.collections.reduce_pairs` makes of blocks of values.

A keeper names its arrays, makes one panel's share of them (the values of a few series of x with all of y),
and knows which elements of the arrays that share fills. No two panels fill the same element: that is why
panels may be computed in any order, by anybody, and again after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import InvalidArgumentError

Arrays = dict[str, Any]  # of NumPy arrays, memory-mapped or not, or of what else takes slices


class Pairs(NamedTuple):
    """What a keeper is told of the job."""

    rows: int
    columns: int
    panels: int
    dtype: Any  # of values
    symmetric: bool  # of x with itself, half of which is computed


class Panel(NamedTuple):
    number: int
    begin: int  # rows [begin, end) of x
    end: int


class Keep(Protocol):
    """What a keeper is."""

    mirrors: bool  # whether half of the values of a set with itself are enough

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shapes and types of what is kept, by name."""

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        """The share of a panel of which no block has been seen."""

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        """The share with one more block, (end - begin, columns)."""

    def store(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> None:
        """Writes a finished share where it belongs."""

    def named(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""


def count(name: str, value: Any, least: int = 1) -> int:
    """The argument, an integer >= least."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}: expected an integer")
    if value < least:
        raise InvalidArgumentError(f"{name} is {value}: expected an integer >= {least}")
    return int(value)


@dataclass(frozen=True)
class TopK:
    """The k least values of each series of x, least first, and whose they are: values and indices, (P, k).

    Equal values come in the order of their indices, and NaN as if it were infinite. With skip_self, of x with
    itself, no series is its own neighbour.
    """

    k: int = 1
    skip_self: bool = False
    mirrors = False

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        most = pairs.columns - self.skip_self
        if not 1 <= count("k", self.k) <= most:
            raise InvalidArgumentError(f"k is {self.k}: expected at most {most}, as many as there are series")
        return {
            "values": ((pairs.rows, self.k), pairs.dtype),
            "indices": ((pairs.rows, self.k), np.int64),
        }

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        rows = panel.end - panel.begin
        return np.empty((rows, 0), pairs.dtype), np.empty((rows, 0), np.int64), panel

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        best, where, panel = share
        if np.isnan(values.min()):
            values = np.where(np.isnan(values), np.inf, values)
        if self.skip_self:
            rows = np.arange(panel.begin, panel.end)
            inside = (rows >= first_column) & (rows < first_column + values.shape[1])
            values[np.flatnonzero(inside), rows[inside] - first_column] = np.inf
        chosen = _least(values, self.k)
        best = np.concatenate([best, np.take_along_axis(values, chosen, 1)], 1)
        where = np.concatenate([where, chosen + first_column], 1)
        order = np.argsort(best, axis=1, kind="stable")[:, : self.k]  # earlier blocks have the lower indices
        return np.take_along_axis(best, order, 1), np.take_along_axis(where, order, 1), panel

    def store(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> None:
        arrays["values"][panel.begin : panel.end], arrays["indices"][panel.begin : panel.end] = share[:2]

    def named(self) -> dict[str, Any]:
        return {"keep": "top_k", "k": self.k, "skip_self": self.skip_self}


def _least(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """Columns of the k least of each row, in order, the first of equals first."""
    if k == 1:
        return np.expand_dims(values.argmin(axis=1), 1)
    k = min(k, values.shape[1])
    chosen = np.argpartition(values, k - 1, axis=1)[:, :k]
    last = np.take_along_axis(values, chosen, 1).max(axis=1, keepdims=True)
    chosen.sort(axis=1)
    for row in np.flatnonzero(
        (values <= last).sum(axis=1) > k
    ):  # a tie, which argpartition breaks as it likes
        chosen[row] = np.sort(np.argsort(values[row], kind="stable")[:k])
    order = np.argsort(np.take_along_axis(values, chosen, 1), axis=1, kind="stable")
    columns: NDArray[np.int64] = np.take_along_axis(chosen, order, 1)
    return columns


@dataclass(frozen=True)
class Sums:
    """sum, (P,): the sum of the values of each series of x with all of y, in float64."""

    mirrors = False

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"sum": ((pairs.rows,), np.float64)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return np.zeros(panel.end - panel.begin)

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        return share + values.sum(axis=1, dtype=np.float64)

    def store(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> None:
        arrays["sum"][panel.begin : panel.end] = share

    def named(self) -> dict[str, Any]:
        return {"keep": "sums"}


@dataclass(frozen=True)
class Histogram:
    """counts, (panels, bins): how many values are in each bin, as numpy.histogram counts them, by panel.

    ``counts.sum(0)`` is the histogram. Values outside the edges are not counted.
    """

    edges: ArrayLike
    mirrors = False

    def _edges(self) -> NDArray[np.float64]:
        edges = np.asarray(self.edges, np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InvalidArgumentError(f"edges is {self.edges!r}: expected two increasing numbers or more")
        return edges

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"counts": ((pairs.panels, len(self._edges()) - 1), np.int64)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return np.zeros(len(self._edges()) - 1, np.int64)

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        return share + np.histogram(values[~np.isnan(values)], self._edges())[0]

    def store(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> None:
        arrays["counts"][panel.number] = share

    def named(self) -> dict[str, Any]:
        return {"keep": "histogram", "edges": self._edges().tolist()}


@dataclass(frozen=True)
class Matrix:
    """matrix, (P, Q): all values. In memory, or in a checkpoint's directory, or in `out`.

    out: what takes slices of such a matrix, as a memory-mapped array of NumPy or an array of Zarr does.
    """

    out: Any = None
    mirrors = True

    def __reduce__(self) -> Any:
        return Matrix, ()  # who computes shares elsewhere does not write them

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        shape = (pairs.rows, pairs.columns)
        if self.out is not None:
            given = tuple(getattr(self.out, "shape", ()))
            if given != shape:
                raise InvalidArgumentError(f"out has shape {given}: expected {shape}")
            if np.dtype(self.out.dtype).kind != "f":
                raise InvalidArgumentError(f"out has dtype {self.out.dtype}: expected floating-point numbers")
            return {}
        return {"matrix": (shape, pairs.dtype)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return []

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        return [*share, (first_column, values)]

    def store(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> None:
        out = arrays["matrix"] if self.out is None else self.out
        for first, values in share:
            columns = slice(first, first + values.shape[1])
            if pairs.symmetric:  # row i of a panel begins at the panel's own square, whose lower half mirrors
                out[columns, panel.begin : panel.end] = np.ascontiguousarray(values.T)
            out[panel.begin : panel.end, columns] = values

    def named(self) -> dict[str, Any]:
        return {"keep": "matrix", "out": None if self.out is None else type(self.out).__name__}
