# What is kept of all values of a collection with another: never the values themselves, unless that is wanted.
"""Keepers: what :func:`libsdtw.collections.reduce_pairs` makes of blocks of values.

A keeper names its arrays, makes one panel's share of them (the values of a few series of x with all of y),
and knows what that share changes in the arrays. Panels may be computed in any order, by anybody, and again
after a crash, for no two fill the same element.

Of a set with itself half of the values are enough, where they are symmetric: a panel's blocks right of its
own square are those of later series, too. Then the shares of several panels meet in one element, and a
keeper merges them: see `first` and `ordered`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import InvalidArgumentError
from .._problem import count
from ._series import as_numpy

Arrays = dict[str, Any]  # of NumPy arrays, memory-mapped or not, or of what else takes slices
BLOCK_PAIRS = 1 << 20  # of a block: 4 MB of float32 values, far above what a call costs beside its work


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


class Change(NamedTuple):
    """Elements of the arrays and what they are to be: the index of all of them, and the content by name."""

    where: Any
    content: dict[str, Any]


class Keep(Protocol):
    """What a keeper is."""

    first: ClassVar[dict[str, Any]]  # what merging begins with, by name; empty if there is nothing to merge
    ordered: ClassVar[bool]  # whether the bits depend on the order in which shares are merged
    whole_panel: ClassVar[bool]  # whether a share holds all values of a panel

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        """Shapes and types of what is kept, by name."""

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        """The share of a panel of which no block has been seen."""

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        """The share with one more block, (end - begin, columns)."""

    def changes(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> list[Change]:
        """What a finished share makes of the arrays."""

    def named(self) -> dict[str, Any]:
        """What a checkpoint must agree on."""


def merges(keep: Keep, pairs: Pairs) -> bool:
    """Whether what a share makes of the arrays depends on what is there."""
    return pairs.symmetric and bool(keep.first)


_NOBODY = np.iinfo(np.int64).max  # an index behind all others


class _Best(NamedTuple):
    """The least values so far of a panel's series, and of the later ones with which it was compared."""

    values: NDArray[Any]
    indices: NDArray[np.int64]
    panel: Panel
    symmetric: bool
    later: tuple[tuple[int, NDArray[Any], NDArray[np.int64]], ...] = ()  # from which series on, and theirs


@dataclass(frozen=True)
class TopK:
    """The k least values of each series of x, least first, and whose they are: values and indices, (P, k).

    Equal values come in the order of their indices, and NaN as if it were infinite. With skip_self, which is
    for x with itself (y None), no series is its own neighbour.
    """

    k: int = 1
    skip_self: bool = False
    # Behind every series. Sorted by value and index, the least of a union are the same in any order.
    first: ClassVar[dict[str, Any]] = {"values": np.inf, "indices": _NOBODY}
    ordered: ClassVar[bool] = False
    whole_panel: ClassVar[bool] = False

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        k, most = count("k", self.k), pairs.columns - self.skip_self
        if k > most:
            raise InvalidArgumentError(f"k is {self.k}: expected at most {most}, as many as there are series")
        return {
            "values": ((pairs.rows, k), pairs.dtype),
            "indices": ((pairs.rows, k), np.int64),
        }

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        rows = panel.end - panel.begin
        empty = np.empty((rows, 0), pairs.dtype), np.empty((rows, 0), np.int64)
        return _Best(*empty, panel, pairs.symmetric)

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        panel, later = share.panel, share.later
        if np.isnan(values.min()):
            values = np.where(np.isnan(values), np.inf, values)
        if share.symmetric and first_column >= panel.end:
            columns = np.ascontiguousarray(values.T)
            theirs = _least(columns, self.k)
            later += ((first_column, np.take_along_axis(columns, theirs, 1), theirs + panel.begin),)
        rows = np.arange(panel.begin, panel.end)
        if self.skip_self:
            inside = (rows >= first_column) & (rows < first_column + values.shape[1])
            values[np.flatnonzero(inside), rows[inside] - first_column] = np.inf
        chosen = _least(values, self.k + self.skip_self)
        best = np.concatenate([share.values, np.take_along_axis(values, chosen, 1)], 1)
        where = np.concatenate([share.indices, chosen + first_column], 1)
        if self.skip_self:  # infinite values of others come before a series' own
            where[where == rows[:, None]] = _NOBODY
        order = np.lexsort((where, best), axis=1)[:, : self.k]
        best, where = np.take_along_axis(best, order, 1), np.take_along_axis(where, order, 1)
        return share._replace(values=best, indices=where, later=later)

    def of(self, matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Values and indices of a whole matrix, as many rows at a time as a block has."""
        rows = max(1, BLOCK_PAIRS // matrix.shape[1])
        pairs = Pairs(len(matrix), matrix.shape[1], 1, matrix.dtype, False)
        self.arrays(pairs)
        parts = []
        for number, begin in enumerate(range(0, len(matrix), rows)):
            values = matrix[begin : begin + rows]
            share = self.begin(pairs, Panel(number, begin, begin + len(values)))
            parts.append(self.add(share, values.copy() if self.skip_self else values, 0))
        values, indices = (np.concatenate([part[k] for part in parts]) for k in range(2))
        return values, indices

    def limit(self, share: Any) -> NDArray[Any]:
        """The values above which no more of a panel are kept, (rows,)."""
        full = share.values.shape[1] == self.k
        return share.values[:, -1] if full else np.full(len(share.values), np.inf, share.values.dtype)

    def changes(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> list[Change]:
        own = panel.begin, share.values, share.indices
        if not pairs.symmetric:
            return [Change(slice(panel.begin, panel.end), {"values": own[1], "indices": own[2]})]
        return [self._merged(arrays, *some) for some in (own, *share.later)]

    def _merged(self, arrays: Arrays, begin: int, values: NDArray[Any], indices: NDArray[np.int64]) -> Change:
        """The rows from begin on into which some of these come."""
        there = slice(begin, begin + len(values))
        rows = np.flatnonzero(values[:, 0] <= arrays["values"][there, -1])
        where = rows + begin
        values = np.concatenate([arrays["values"][where], values[rows]], 1)
        indices = np.concatenate([arrays["indices"][where], indices[rows]], 1)
        order = np.lexsort((indices, values), axis=1)[:, : self.k]
        content = {
            "values": np.take_along_axis(values, order, 1),
            "indices": np.take_along_axis(indices, order, 1),
        }
        return Change(where, content)

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

    first: ClassVar[dict[str, Any]] = {"sum": 0.0}
    ordered: ClassVar[bool] = True  # for rounding
    whole_panel: ClassVar[bool] = False

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"sum": ((pairs.rows,), np.float64)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return np.zeros(pairs.rows - panel.begin if pairs.symmetric else panel.end - panel.begin), panel

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        sums, panel = share
        rows = panel.end - panel.begin
        sums[:rows] += values.sum(axis=1, dtype=np.float64)
        if len(sums) > rows and first_column >= panel.end:
            later = first_column - panel.begin
            sums[later : later + values.shape[1]] += values.sum(axis=0, dtype=np.float64)
        return share

    def changes(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> list[Change]:
        sums, _ = share
        where = slice(panel.begin, panel.begin + len(sums))
        return [Change(where, {"sum": arrays["sum"][where] + sums if pairs.symmetric else sums})]

    def named(self) -> dict[str, Any]:
        return {"keep": "sums"}


@dataclass(frozen=True)
class Histogram:
    """counts, (panels, bins): how many values are in each bin, as numpy.histogram counts them, by panel.

    ``counts.sum(0)`` is the histogram. Values outside the edges are not counted. Of a set with itself, of
    which half is computed, a value that stands for two is counted twice in its panel.
    """

    edges: ArrayLike
    first: ClassVar[dict[str, Any]] = {}
    ordered: ClassVar[bool] = False
    whole_panel: ClassVar[bool] = False

    def _edges(self) -> NDArray[np.float64]:
        edges = as_numpy("edges", self.edges, np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise InvalidArgumentError(f"edges is {self.edges!r}: expected two increasing numbers or more")
        return edges

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        return {"counts": ((pairs.panels, len(self._edges()) - 1), np.int64)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return np.zeros(len(self._edges()) - 1, np.int64), panel.end if pairs.symmetric else pairs.columns

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        counts, mirrored_from = share
        found = np.histogram(values[~np.isnan(values)], self._edges())[0]
        return counts + (2 if first_column >= mirrored_from else 1) * found, mirrored_from

    def changes(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> list[Change]:
        return [Change(panel.number, {"counts": share[0]})]

    def named(self) -> dict[str, Any]:
        return {"keep": "histogram", "edges": self._edges().tolist()}


@dataclass(frozen=True)
class Matrix:
    """matrix, (P, Q): all values. In memory, or in a checkpoint's directory, or in `out`.

    out: what takes slices of such a matrix, as a memory-mapped array of NumPy or an array of Zarr does.
    """

    out: Any = None
    first: ClassVar[dict[str, Any]] = {}
    ordered: ClassVar[bool] = False
    whole_panel: ClassVar[bool] = True

    def __reduce__(self) -> Any:
        return Matrix, ()  # who computes shares elsewhere does not write them

    def arrays(self, pairs: Pairs) -> dict[str, tuple[tuple[int, ...], Any]]:
        shape = (pairs.rows, pairs.columns)
        if self.out is not None:
            given = tuple(getattr(self.out, "shape", ()))
            if given != shape:
                raise InvalidArgumentError(f"out has shape {given}: expected {shape}")
            if isinstance(self.out, np.ndarray) and not self.out.flags.writeable:
                raise InvalidArgumentError("out is read-only: expected an array that can be written")
            if np.dtype(self.out.dtype).kind != "f":
                raise InvalidArgumentError(f"out has dtype {self.out.dtype}: expected floating-point numbers")
            return {}
        return {"matrix": (shape, pairs.dtype)}

    def begin(self, pairs: Pairs, panel: Panel) -> Any:
        return []

    def add(self, share: Any, values: NDArray[Any], first_column: int) -> Any:
        return [*share, (first_column, values)]

    def changes(self, arrays: Arrays, panel: Panel, share: Any, pairs: Pairs) -> list[Change]:
        rows, changes = slice(panel.begin, panel.end), []
        for first, values in share:
            columns = slice(first, first + values.shape[1])
            if pairs.symmetric:  # row i of a panel begins at the panel's own square, whose lower half mirrors
                changes.append(Change((columns, rows), {"matrix": np.ascontiguousarray(values.T)}))
            changes.append(Change((rows, columns), {"matrix": values}))
        return changes

    def named(self) -> dict[str, Any]:
        return {"keep": "matrix", "out": None if self.out is None else type(self.out).__name__}


KEEPERS = (TopK, Sums, Histogram, Matrix)
