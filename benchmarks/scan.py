"""Looks for cliffs: shapes whose time a cell is more than three times that of their neighbours.

    python benchmarks/scan.py [--device cuda] [--only n,d] [--output benchmarks/results/scan.json]

From each base one axis at a time is varied: n, m, both, d, batch, gamma, the minimum (gamma 0), data, layout,
lengths, dtype, metric, band, its radius, what steps cost, all pairs. Of sizes, gamma and radii, which are in
order, neighbours are next to each other; of the others the base is every point's. Time is per cell and (8 +
features), as a cell takes about as long as eight of them; cells outside of a band count. What stands out is
measured again in turns with its neighbour, and the least is taken of each; on the CPU it is the processor's
time of one thread, so that the machine may have other things to do. Calls that are too short to tell, or too
long, are left out.

The output has how many points were measured, and the cliffs, the worst first, with lines of lines.py of the
point and of its neighbour: problem, beside. What it has of the same device is replaced.
"""

import argparse
import ctypes as ct
import itertools
import json
import math
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import capi
from cases import stored
from devices import DEVICES
from lines import line_of
from run import ROOT, common_fields

CALLS = {"value": ("forward",), "value+grad": ("forward", "backward")}
CLIFF = 3.0
SIZES = (
    *(1, 2, 3, 4, 6, 8, 12, 16, 17, 24, 32, 33, 48),
    *(64, 65, 96, 128, 129, 192, 256, 257, 384, 512, 513, 768),
)
LONG_SIZES = (*SIZES, 1024, 1025, 1536, 2048, 2049, 4096, 4097, 8192)
FEATURES = (
    *(1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32),
    *(33, 48, 64, 65, 96, 128, 129, 192, 256, 257, 512, 1024),
)


# Of data and layouts, in the words of a problem's line, those that have others there.
DATA_WORDS = {"zeros": {"data": "noise", "scale": 0}, "times 1000": {"data": "noise", "scale": 1000}}
LAYOUT_WORDS = {"rows": None, "columns": "feature_major", "backwards": "reversed_time", "gaps": "spaced"}


@dataclass(frozen=True)
class Point:
    """One problem: B pairs of x (n, d) and y (m, d), and how they lie in memory."""

    B: int
    n: int
    m: int
    d: int
    gamma: float = 1.0
    data: str = "noise"
    layout: str = "rows"
    lengths: str = "full"
    dtype: str = "f32"
    metric: str = "sqeuclidean"
    band: str = "none"
    radius: float = 0.0
    weights: tuple = (1.0, 1.0, 1.0)
    penalties: tuple = (0.0, 0.0, 0.0)
    pairs: str = "batch"  # of all pairs there are B series on either side
    phase: str = "value+grad"

    def count(self):
        """How many pairs there are."""
        return self.B if self.pairs == "batch" else self.B**2

    def is_one_call(self):
        """Whether value and gradients come from one call, without state."""
        return self.pairs != "batch" and self.phase == "value+grad"

    def work(self):
        """What its time is to be divided by."""
        return (
            self.count()
            * self.n
            * self.m
            * (8 + self.d)
            * {"full": 1, "half": 0.25, "one": 0.25}[self.lengths]
        )

    def line(self):
        """The line that sdtw_differential reads; None of layouts that have no name there."""
        if self.layout not in LAYOUT_WORDS:
            return None
        words = {"data": self.data, "scale": None} | DATA_WORDS.get(self.data, {})
        least = {"full": None, "half": math.ceil(min(self.n, self.m) / 2), "one": 0}[self.lengths]
        words |= {"layout": LAYOUT_WORDS[self.layout], "lengths": least}
        if self.is_one_call():
            words["state"] = "no"
        return line_of({**asdict(self), "N": self.n, "M": self.m, "By": self.B}, **words)

    def __str__(self):
        rest = [f"{k}={v}" for k, v in asdict(self).items() if k not in "Bnmd" and v != getattr(Point, k)]
        return f"({self.B}, {self.n}, {self.m}, {self.d}) " + " ".join(rest)


BASES = (
    Point(32, 128, 128, 1),
    Point(32, 128, 128, 64),
    Point(16, 512, 512, 8),
    Point(256, 64, 64, 3),
    Point(64, 16, 16, 2),
    Point(2, 1024, 1024, 2),
    Point(16, 128, 128, 1, pairs="all"),
    Point(24, 64, 64, 3, pairs="all"),
    Point(8, 512, 512, 8, pairs="all"),
)
GAMMAS = tuple(10.0**k for k in range(-6, 5))
RADII = tuple(2.0**k for k in range(11))
DATA = ("noise", "smooth", "constant", "zeros", "walk", "spikes", "offset", "equal", "times 1000")
LAYOUTS = ("rows", "columns", "time first", "backwards", "broadcast", "gaps")


def axes(base):
    """(axis, points, whether they are in order) around a base."""
    yield "n", [replace(base, n=n) for n in LONG_SIZES], True
    yield "m", [replace(base, m=m) for m in LONG_SIZES], True
    yield "n = m", [replace(base, n=n, m=n) for n in LONG_SIZES], True
    yield "short n", [replace(base, n=7, m=m) for m in LONG_SIZES], True
    yield "short m", [replace(base, n=n, m=7) for n in LONG_SIZES], True
    yield "d", [replace(base, d=d) for d in FEATURES], True
    yield "batch", [replace(base, B=B) for B in LONG_SIZES], True
    metrics = [metric for metric in capi.METRICS if metric != "precomputed"]
    for metric in capi.METRICS if base.pairs == "batch" else metrics:
        yield "gamma", [replace(base, metric=metric, gamma=gamma) for gamma in GAMMAS], True
        yield "minimum", [replace(base, metric=metric, gamma=gamma) for gamma in (1.0, 0.0)], False
    for gamma in (1.0, 1e-3):
        yield "data", [replace(base, data=data, gamma=gamma) for data in DATA], False
    yield "layout", [replace(base, layout=layout) for layout in LAYOUTS], False
    yield "lengths", [replace(base, lengths=lengths) for lengths in ("full", "half", "one")], False
    yield "dtype", [replace(base, dtype=dtype) for dtype in capi.DTYPES], False
    yield "metric", [replace(base, metric=metric) for metric in metrics], False
    costly = {"weights": (2.0, 1.0, 1.0)}, {"weights": (1.0, 2.0, 3.0)}, {"penalties": (0.0, 1.0, 1.0)}
    yield "steps", [base, *(replace(base, **steps) for steps in costly)], False
    if base.pairs == "batch":
        few = replace(base, B=max(2, math.isqrt(8 * base.B)))
        yield "pairs", [replace(few, B=few.B**2), replace(few, pairs="all")], False
    for gamma in (1.0, 0.0):
        plain = replace(base, gamma=gamma)
        yield "band", [plain, *within_bands(plain)], False
    within = replace(base, band="sakoe_chiba")
    yield "radius", [replace(within, radius=radius) for radius in RADII if radius < base.n - 1], True
    yield "minimum", [replace(within, radius=4.0, gamma=gamma) for gamma in (1.0, 0.0)], False


def within_bands(point):
    for band, radius in (("sakoe_chiba", point.n / 10), ("absolute", point.n / 10), ("itakura", 2.0)):
        yield replace(point, band=band, radius=radius)


def series(rng, data, count, steps, features):
    shape = (count, steps, features)
    noise = rng.standard_normal(shape)
    if data == "smooth":
        return np.sin(0.05 * np.arange(steps)[:, None] + 0.5 * np.arange(features) + 0.01 * noise)
    if data == "constant":
        return np.broadcast_to(noise[:, :1], shape)
    if data == "walk":
        return np.cumsum(noise, axis=1) / 4
    if data == "spikes":
        return np.where(rng.random((count, steps, 1)) < 0.01, 1e3, 1.0) * noise
    return {"noise": noise, "equal": noise, "zeros": 0 * noise, "offset": 1e4 + noise}.get(data, 1000 * noise)


def laid_out(layout, shape):
    """(elements, first element, strides) of an array of this shape, [series, step, feature]."""
    count, steps, features = shape
    if layout == "columns":  # the steps of a feature side by side
        return count * steps * features, 0, (steps * features, 1, steps)
    if layout == "time first":
        return count * steps * features, 0, (features, count * features, 1)
    if layout == "gaps":
        return count * steps * features * 3, 0, (steps * features * 3, features * 3, 3)
    if layout == "backwards":
        return count * steps * features, (steps - 1) * features, (steps * features, -features, 1)
    return count * steps * features, 0, (steps * features, features, 1)


class Prepared:
    """The calls of a point, with all buffers in place."""

    def __init__(self, library, device, point):
        self._library, self._device, self._keep = library, device, []
        p = point
        fused = p.metric != "precomputed"
        self._problem = library.problem(
            metric=capi.METRICS[p.metric], dtype=capi.DTYPES[p.dtype], batch_x=p.B, batch_y=p.B, n=p.n, m=p.m,
            features=p.d if fused else 0, gamma=p.gamma, flags=0 if p.pairs == "batch" else capi.ALL_PAIRS,
            band=capi.BANDS[p.band], band_radius=p.radius,
            step_weight=(ct.c_double * 3)(*p.weights), step_penalty=(ct.c_double * 3)(*p.penalties),
        )  # fmt: skip
        flags = capi.NO_STATE if p.phase == "value" or p.is_one_call() else 0
        flags |= capi.WITH_VALUE if p.is_one_call() else 0
        calls = ("backward",) if p.is_one_call() else CALLS[p.phase]
        self._exec = library.exec(
            device=capi.DEVICES[device.name], num_threads=1, flags=flags, stream=device.stream
        )
        sizes = library.sizes(self._problem, self._exec)
        b = self._buffers = library.buffers()
        if not flags:
            b.state, b.state_bytes = self._empty(sizes.state), sizes.state
        b.workspace_bytes = max(getattr(sizes, name) for name in calls)
        b.workspace = self._empty(b.workspace_bytes)
        b.value = self._empty(p.count() * 8)
        self._series(p) if fused else self._costs(p)
        if p.lengths != "full":
            least = {"half": 0.5, "one": 0.0}[p.lengths]
            for name, steps in (("x_len", p.n), ("y_len", p.m)):
                lengths = np.full(p.B, math.ceil(steps * least))
                lengths[0] = steps
                setattr(b, name, self._hold(device.put(lengths.astype(np.int64))))
        self._calls = [f"sdtw_{name}" for name in calls]

    def _series(self, p):
        rng = np.random.default_rng(1)
        x = series(rng, p.data, p.B, p.n, p.d)
        y = x if p.data == "equal" and p.n == p.m else series(rng, p.data, p.B, p.m, p.d)
        for name, values in (("x", x), ("y", y)):
            size, first, strides = laid_out(p.layout, values.shape)
            flat = np.zeros(size)
            view = np.lib.stride_tricks.as_strided(
                flat[first:], values.shape, [8 * s for s in strides], writeable=True
            )
            view[:] = values
            flat = stored(flat, p.dtype)
            read = (0, *strides[1:]) if p.layout == "broadcast" else strides
            setattr(self._buffers, name, self._array(self._device.put(flat), first * flat.itemsize, read))
            if p.phase != "value":
                out = self._array(self._device.empty(flat.nbytes), first * flat.itemsize, strides)
                setattr(self._buffers, f"grad_{name}", out)

    def _costs(self, p):
        costs = stored(np.random.default_rng(1).standard_normal((p.B, p.n, p.m)) ** 2, p.dtype)
        strides = (p.n * p.m, p.m, 1)
        self._buffers.x = self._array(self._device.put(costs), 0, strides)
        if p.phase != "value":
            self._buffers.grad_x = self._array(self._device.empty(costs.nbytes), 0, strides)

    def _hold(self, buffer):
        self._keep.append(buffer)
        return self._device.address(buffer)

    def _empty(self, nbytes):
        return self._hold(self._device.empty(nbytes)) if nbytes else None

    def _array(self, buffer, offset, strides):
        return capi.Array(self._hold(buffer) + offset, (capi.i64 * 3)(*strides))

    def run(self):
        for function in self._calls:
            self._library.call(
                function, ct.byref(self._problem), ct.byref(self._buffers), ct.byref(self._exec)
            )


class Scan:
    """Times of points, each measured once, and again beside its neighbours where that matters."""

    def __init__(self, library, device, shortest, most_work):
        self._library, self._device = library, device
        self._shortest, self._most_work = shortest, most_work
        self.seconds = {}

    def least(self, points, calls):
        """The least seconds of each point, measured in turns."""
        prepared = [Prepared(self._library, self._device, p) for p in points]
        for call in prepared:
            call.run()
        rounds = [[self._time(call.run) for call in prepared] for _ in range(calls)]
        return [min(times) for times in zip(*rounds, strict=True)]

    def _time(self, work):
        if self._device.name != "cpu":
            return self._device.time(work)
        begin = time.process_time_ns()
        work()
        return (time.process_time_ns() - begin) / 1e9

    def measure(self, point):
        """Seconds, or None of a call that is too long."""
        if point.work() > self._most_work:
            return None
        if point not in self.seconds:
            self.seconds[point] = self.least([point], 3)[0]
        return self.seconds[point]

    def ratio(self, point, neighbour):
        """How many times as long a cell takes, or 0 where a call is too short to tell."""
        mine, other = self.measure(point), self.measure(neighbour)
        if mine is None or other is None or min(mine, other) < self._shortest:
            return 0.0
        return mine / point.work() / (other / neighbour.work())

    def confirmed(self, point, neighbour):
        self.seconds[point], self.seconds[neighbour] = self.least([point, neighbour], 9)
        return self.ratio(point, neighbour)

    def cliffs(self, points, ordered):
        """(point, neighbour, how many times)."""
        pairs = itertools.pairwise(points) if ordered else ((p, points[0]) for p in points[1:])
        for a, b in pairs:
            for point, neighbour in ((a, b), (b, a)) if ordered else ((a, b),):
                if (
                    self.ratio(point, neighbour) > CLIFF
                    and (times := self.confirmed(point, neighbour)) > CLIFF
                ):
                    yield point, neighbour, times


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--commit", help="what to call what is measured, where git is not at hand")
    parser.add_argument("--only", help="axes, with commas between")
    parser.add_argument("--bases", type=int, default=len(BASES), help="of how many bases")
    parser.add_argument("--shortest-us", type=float, default=40, help="calls that take less are not compared")
    parser.add_argument("--most-work", type=float, help="cells times (8 + features) of a call, at most")
    parser.add_argument("--output", type=Path, default=ROOT / "build/scan.json")
    args = parser.parse_args()
    library = capi.Library(args.library or capi.find_library(ROOT))
    device = DEVICES[args.device]()
    fields = common_fields(device, args.commit)
    scan = Scan(
        library, device, args.shortest_us / 1e6, args.most_work or (1e8 if args.device == "cpu" else 1e10)
    )
    found = []
    for base in BASES[: args.bases]:
        for phase in CALLS:
            for axis, points, ordered in axes(replace(base, phase=phase)):
                if args.only and axis not in args.only.split(","):
                    continue
                for point, neighbour, times in scan.cliffs(points, ordered):
                    found.append(
                        {
                            "axis": axis,
                            "point": str(point),
                            "neighbour": str(neighbour),
                            "times": round(times, 1),
                            "problem": point.line(),
                            "beside": neighbour.line(),
                        }
                    )
                    print(
                        f"{axis}: {point} takes {times:.1f} times as long a cell as {neighbour}", flush=True
                    )
    found.sort(key=lambda row: -row["times"])
    result = {**fields, "points": len(scan.seconds), "cliffs": found}
    kept = json.loads(args.output.read_text()) if args.output.exists() else []
    kept = [row for row in kept if row["device"] != args.device] + [result]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"{len(scan.seconds)} points, {len(found)} cliffs")


if __name__ == "__main__":
    main()
