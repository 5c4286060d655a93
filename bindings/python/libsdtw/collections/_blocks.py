# All pairs of two collections, panel by panel: a few series of x with all of y, in memory of one block.
"""Panels and blocks of a job, how large they are, and the computation of one panel."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import InvalidArgumentError
from .._problem import count
from ._bounds import bounded
from ._keep import BLOCK_PAIRS, Keep, Pairs, Panel
from ._memory import free_bytes
from ._pairs import PairOptions, pair_values, raw_values
from ._series import Series, on_host

PANEL_CELLS = 4e9  # of a panel: a second or two of one CPU core, what a crash may lose
GPU_PANEL_CELLS = 1e11  # a quarter of a second of an H200: what is shared by several is to end together
CONVERTED = 1 << 22  # numbers of y that are brought to a wider type at a time
MOST_ROWS = 4096
MOST_SYMMETRIC_ROWS = 1024  # of a panel's own square, of which half is computed and mirrored through memory


@dataclass
class Job:
    """Values of every series of x with every one of y, and what is kept of them."""

    x: Series
    y: Series | None  # None: x itself
    options: PairOptions
    keep: Keep
    block: tuple[int, int] | int | None = None
    devices: tuple[str, ...] = ()  # that share the panels; none: where x is
    fetch: Callable[[Any], NDArray[Any]] = on_host  # values to the host
    pairs: Pairs = field(init=False)
    block_rows: int = field(init=False)
    block_columns: int = field(init=False)

    def __post_init__(self) -> None:
        self.options.check()
        other = self.other
        if self.x.features != other.features:
            raise InvalidArgumentError(
                f"x has {self.x.features} features and y has {other.features}: expected the same number"
            )
        symmetric = self.y is None and self.options.rules.is_symmetric(ragged=self.x.lengths is not None)
        self.block_rows, self.block_columns = self._block(symmetric)
        panels = -(-len(self.x) // self.block_rows)
        wide = np.result_type(self.x.value_dtype, other.value_dtype)
        self.pairs = Pairs(len(self.x), len(other), panels, wide, symmetric)
        self._own: NDArray[Any] | None = None

    @property
    def other(self) -> Series:
        return self.x if self.y is None else self.y

    @property
    def on_host(self) -> bool:
        """Whether values are computed on the CPU."""
        return self.devices[0] == "cpu" if self.devices else self.x.on_host

    def _block(self, symmetric: bool) -> tuple[int, int]:
        """Rows of a panel and columns of a block. Functions of the sizes alone: they decide which bits come
        out."""
        rows, columns = len(self.x), len(self.other)
        if self.block is None:
            cells = PANEL_CELLS if self.on_host else GPU_PANEL_CELLS
            work = columns * self.x.steps * self.other.steps
            most = MOST_SYMMETRIC_ROWS if symmetric else MOST_ROWS
            high = int(min(max(1, cells // work), most, rows))
            chunks = getattr(getattr(self.keep, "out", None), "chunks", None)
            if chunks:  # whole chunks of a Zarr array: of one that is cut, two panels would write parts
                step = int(np.lcm(*chunks[:2])) if symmetric else int(chunks[0])
                high = min(-(-high // step) * step, rows)
            return high, max(1, min(columns, BLOCK_PAIRS // high))
        given = (
            (self.block, max(1, BLOCK_PAIRS // max(1, self.block)))
            if isinstance(self.block, (int, np.integer))
            else self.block
        )
        if not isinstance(given, tuple) or len(given) != 2:
            raise TypeError(f"block is {self.block!r}: expected an integer, or (rows, columns)")
        high, wide = (count("block", size) for size in given)
        return min(high, rows), min(wide, columns)

    def panels(self) -> list[Panel]:
        return [
            Panel(p, begin, min(begin + self.block_rows, self.pairs.rows))
            for p, begin in enumerate(range(0, self.pairs.rows, self.block_rows))
        ]

    def own_of_y(self) -> NDArray[Any]:
        """The values of y with itself that its divergences are less; computed once."""
        if self._own is None:
            self._own = in_parts(self.other, self.options, self.pairs.dtype)
        return self._own

    def without_x(self) -> Job:
        """The same job for somebody who is given the series of each panel. Of x with itself there is no such
        job."""
        if self.y is None:
            return self
        lean = copy.copy(self)
        lean.x = self.x.part(0, 0)
        return lean

    def share(
        self, panel: Panel, x: Series | None = None, stopped: Callable[[], bool] = lambda: False
    ) -> Any:
        """What is kept of one panel, whose series x are, if the job is one without; nothing once it is
        stopped."""
        if x is None:
            x = self.x.part(panel.begin, panel.end)
        x = x.as_values(self.pairs.dtype)
        bounds = bounded(self, x)
        own = pair_values(x, x, self.options) if self.options.normalize and bounds is None else None
        share = self.keep.begin(self.pairs, panel)
        try:
            for columns in self._columns(panel):
                if stopped():
                    return None
                values = None
                if bounds is not None:
                    y = self.other.part(*columns).as_values(self.pairs.dtype)
                    values = bounds.values(bounds.keep.limit(share), y)
                if values is None:
                    values = self._values(x, panel, own, *columns)
                share = self.keep.add(share, values, columns[0])
        except MemoryError as error:
            raise self._too_large() from error
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
            raise self._too_large() from error
        return share

    def _columns(self, panel: Panel) -> Iterator[tuple[int, int]]:
        """Blocks of a panel; of x with itself its own square, and what is right of it."""
        first = 0
        if self.pairs.symmetric:
            yield panel.begin, panel.end
            first = panel.end
        step, y = self.block_columns, self.other
        if y.on_host and self.pairs.dtype != y.data.dtype:  # few series of x have blocks of all of a mapped y
            step = min(step, max(1, CONVERTED // (y.steps * y.features)))
        for j in range(first, self.pairs.columns, step):
            yield j, min(j + step, self.pairs.columns)

    def _values(
        self, x: Series, panel: Panel, own: NDArray[Any] | None, begin: int, end: int
    ) -> NDArray[Any]:
        square = self.pairs.symmetric and begin == panel.begin
        values = raw_values(x, None if square else self.other.part(begin, end), self.options, self.fetch)
        if own is not None:  # both at once, so that the value of (j, i) has the bits of that of (i, j)
            values -= 0.5 * (own[:, None] + self.own_of_y()[begin:end])
        if own is not None and self.y is None:  # a divergence of a series with itself, but for rounding
            both = np.arange(max(begin, panel.begin), min(end, panel.end))
            values[both - panel.begin, both - begin] = 0
        return values

    def _too_large(self) -> MemoryError:
        return MemoryError(
            f"a block of {self.block_rows} x {self.block_columns} pairs does not fit in memory: expected a "
            f"smaller "
            f"block, as block=({max(1, self.block_rows // 4)}, {max(1, self.block_columns // 4)})"
        )

    def check_memory(self, arrays_on_disk: bool) -> None:
        """Raises MemoryError, which says what would fit, before any work is done in vain."""
        free = free_bytes()
        if free is None:
            return
        size = np.dtype(self.pairs.dtype).itemsize
        square = self.pairs.symmetric and self.block_rows > self.block_columns  # a panel with itself
        wide = self.block_rows if square else self.block_columns
        size *= max(1, len(self.devices))
        # Values, and twice that while they are looked through; at gamma 0 also bounds of them
        of_pair = (5 if self.options.gamma == 0 else 3) * size
        # Of a matrix also its rows: a panel is written when it is complete
        of_row = self.pairs.columns * size if self.keep.whole_panel else 0
        need = self.block_rows * (of_pair * wide + of_row)
        if need > free:
            most = int(np.sqrt(free / (2 * of_pair)))
            fits = max(1, min(most, free // (2 * of_row)) if of_row else most)
            raise MemoryError(
                f"block is ({self.block_rows}, {self.block_columns}), which takes {need / 1e9:.1f} GB"
                f"{f' for {wide} x {wide} pairs of a panel with itself' if square else ''}, and "
                f"{free / 1e9:.1f} GB are free: expected at most block=({fits}, {fits})"
            )
        kept = self.keep.arrays(self.pairs)
        total = sum(
            float(np.prod(shape, dtype=np.float64)) * np.dtype(kind).itemsize for shape, kind in kept.values()
        )
        if total > free and not arrays_on_disk:
            raise MemoryError(
                f"what is kept of {self.pairs.rows} x {self.pairs.columns} pairs ({', '.join(kept)}) takes "
                f"{total / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free: expected a checkpoint directory "
                f"or out=, "
                "which keep it on disk, or top_k, sums or a histogram instead of a matrix"
            )


def in_parts(series: Series, options: PairOptions, dtype: Any = None, part: int = 65536) -> NDArray[Any]:
    """Values of series with themselves, in float64 if dtype is."""
    if series.on_host and dtype is not None and series.data.dtype != dtype:
        part = max(1, min(part, CONVERTED // (series.steps * series.features)))
    starts = range(0, len(series), part)
    parts = (series.part(i, i + part).as_values(dtype) for i in starts)
    return np.concatenate([pair_values(one, one, options) for one in parts])
