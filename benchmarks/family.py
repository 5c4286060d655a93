"""Measures the family beside the core: metrics, types, bands, steps, gamma = 0, pairs, tangents. Writes JSON.

    python benchmarks/family.py --device cuda --output benchmarks/results/family.json

On a GPU it also measures what might be a cliff: small gamma, large inputs, many features and others.
Rows of the same device that the output has are replaced, others stay. One row is

    commit, date, device, hardware, what, B, By, N, M, d, scale, data, dtype, metric, gamma, band, radius,
    weights, penalties, pairs, state, phase, problem, median_ms, p10_ms, p90_ms, reps, extra_bytes, core_ms,
    of_core, aim

problem is a line of lines.py. Values and gradients without state are one call. core_ms is what the problem
takes that a row stands beside, in the same run: the same shape as float32, squared Euclidean, gamma 1, unit
steps and no band, with state, unless the row says another. of_core is the ratio to it. Both are null where
there is no such problem. aim: what of_core, or the milliseconds, are to be at most on an H200, or on one core
of a CPU.
"""

import argparse
import ctypes as ct
import itertools
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

import capi
import timing
from cases import stored
from devices import DEVICES
from lines import STATES, line_of
from run import ROOT, common_fields

CALLS = {
    "value": ("forward",),
    "value+grad": ("forward", "backward"),
    "value+alignment": ("forward", "alignment"),
    "jvp": ("jvp",),
}
METRICS_BESIDE = [name for name in capi.METRICS if name not in ("precomputed", "sqeuclidean")]  # the core
FLAGS = {"batch": 0, "all": capi.ALL_PAIRS, "symmetric": capi.ALL_PAIRS | capi.SYMMETRIC}


@dataclass(frozen=True)
class Variant:
    """A problem, and what is called of it."""

    what: str
    B: int
    N: int
    d: int
    phase: str = "value+grad"
    aim: str = ""
    By: int = 0  # of all pairs
    dtype: str = "f32"
    metric: str = "sqeuclidean"
    gamma: float = 1.0
    band: str = "none"
    radius: float = 0.0
    weights: tuple = (1.0, 1.0, 1.0)
    penalties: tuple = (0.0, 0.0, 0.0)
    pairs: str = "batch"
    state: bool = True
    lengths: tuple = ()  # least and most
    M: int = 0  # 0: as N
    scale: float = 1.0  # of the inputs
    data: str = "noise"  # or "spikes": noise, and in each series a step a thousand times as large
    has_core: bool = True
    beside: "Variant | None" = None  # what it is measured beside, if not the core

    def line(self):
        """The line that sdtw_differential reads."""
        state = "no" if self.phase == "value+grad" and not self.state else STATES.get(self.phase)
        least = min(self.lengths, default=None)
        return line_of({**asdict(self), "M": self.M or self.N}, state=state, lengths=least, data=self.data)

    def core(self):
        """The core's problem of the same shape, or what the row says."""
        phase = "value+grad" if self.phase == "jvp" else self.phase
        return self.beside or Variant("core", self.B, self.N, self.d, phase, M=self.M)


# What of_core is to be at most on one core of a CPU. sakoe_chiba: one and a half times as long a cell that is
# admitted.
AIMS_OF_CPU = {
    "euclidean": "2",
    "cityblock": "1.5",
    "cosine": "2",
    "sakoe_chiba N/10": "0.29",
    "wide band": "1.5",
    "weights": "1.5",
    "gamma 0": "1",
    "tangents": "3",
}


def variants(device):
    """The rows for a device."""
    if device == "cuda":
        yield from rows_of(device)
    else:
        yield from (replace(row, aim=AIMS_OF_CPU.get(row.what, "")) for row in rows_of(device))


def rows_of(device):
    """On a CPU of a sixteenth of the pairs."""
    some = (lambda count: count) if device == "cuda" else (lambda count: max(2, count // 16))
    for d in (1, 8, 64):
        for metric in METRICS_BESIDE:
            yield Variant(metric, some(32), 512, d, aim="2.5", metric=metric)
    if device == "cuda":
        yield from short_pairs()
    speech = {"metric": "cityblock", "gamma": 0.05, "penalties": (0.0, 128.0, 128.0), "lengths": (300, 1000)}
    yield Variant("text to speech", some(8), 1000, 80, aim="1.0 ms", has_core=False, **speech)
    band = {"band": "sakoe_chiba", "radius": 204.8}
    wide = Variant("wide band", some(32), 2048, 8, band="absolute", radius=2048.0)
    yield Variant("sakoe_chiba N/10", some(32), 2048, 8, aim="0.6", **band)
    if device == "cuda":
        yield Variant("beside the wide band", some(32), 2048, 8, aim="0.35", beside=wide, **band)
        for count, steps in ((256, 1024), (1000, 128)):
            for phase in ("value", "value+grad"):
                yield Variant(
                    "sakoe_chiba N/10", count, steps, 1, phase, band="sakoe_chiba", radius=steps / 10
                )
    yield wide
    for d in (1, 8, 64):
        yield Variant("alignment, band", some(32), 512, d, "value+alignment", band="sakoe_chiba", radius=51.2)
    for dtype in ("f16", "bf16"):
        yield Variant("half precision", some(32), 512, 64, aim="1.1", dtype=dtype)
        yield Variant("half precision", some(4096), 64, 63, aim="1.1", dtype=dtype)
    yield Variant("weights", some(32), 512, 12, aim="2.5", weights=(2.0, 1.0, 1.0))
    yield Variant("gamma 0", some(256), 1024, 1, "value", aim="0.33", gamma=0.0)
    yield Variant("gamma 0", some(32), 1024, 8, aim="1.5", gamma=0.0)
    yield Variant("tangents", some(32), 512, 8, "jvp", aim="4")
    yield Variant("tangents", some(100), 20, 1, "jvp", aim="4")
    yield Variant("no state", some(32), 512, 8, state=False)
    many = {"has_core": False, "state": False}
    series = 1000 if device == "cuda" else 100
    for pairs, gamma, aim in (("all", 1.0, "30 ms"), ("symmetric", 1.0, "15 ms"), ("all", 0.0, "6 ms")):
        yield Variant(
            "all pairs", series, 128, 1, "value", aim=aim, By=series, pairs=pairs, gamma=gamma, **many
        )
    if device == "cuda":
        for steps, gamma in itertools.product((127, 128, 1023), (1.0, 0.0)):
            count = 65536 if steps < 1000 else 8192
            yield Variant("one and many", 1, steps, 1, "value", By=count, pairs="all", gamma=gamma, **many)
        for gamma in (1e-4, 1e-5):
            yield Variant("large costs", 1, 1023, 1, "value", By=8192, pairs="all", gamma=gamma, **many)
        lengths = {"lengths": (100, 1000)}
        yield Variant(
            "unequal lengths", 200, 1000, 1, "value", By=200, pairs="all", gamma=0.0, **many, **lengths
        )
    for metric, gamma in (
        itertools.product(("euclidean", "cityblock"), (1.0, 0.0)) if device == "cuda" else ()
    ):
        yield Variant(
            "all pairs", 300, 128, 3, "value", By=300, pairs="all", gamma=gamma, metric=metric, **many
        )
    yield from windows(device)
    some_pairs = 256 if device == "cuda" else 32
    value = Variant("all pairs", some_pairs, 128, 3, "value", By=some_pairs, pairs="all", **many)
    yield value
    yield replace(value, phase="value+grad", aim="3", has_core=True, beside=value)
    if device == "cuda":
        yield from cliffs()


def short_pairs():
    """Other metrics, gamma = 0, steps, bands: gestures, embeddings of videos, forecasts; and all pairs."""
    shapes = ((4096, 64, 63), (64, 32, 128), (1024, 60, 256), (100, 20, 1))
    for count, steps, d in (*shapes, (32, 128, 64), (64, 128, 512)):
        for metric in METRICS_BESIDE:
            yield Variant(metric, count, steps, d, aim="2.5", metric=metric)
    for count, steps, d in (*shapes, (32, 128, 64)):
        for phase in ("value", "value+grad"):
            yield Variant("gamma 0", count, steps, d, phase, gamma=0.0)
            yield Variant("weights", count, steps, d, phase, weights=(2.0, 1.0, 1.0))
            yield Variant("penalties", count, steps, d, phase, penalties=(0.0, 1.0, 1.0))
            yield Variant("gamma 0, weights", count, steps, d, phase, gamma=0.0, weights=(2.0, 1.0, 1.0))
            yield Variant("band", count, steps, d, phase, band="sakoe_chiba", radius=steps / 10)
            yield Variant("band", count, steps, d, phase, metric="euclidean", band="itakura", radius=2.0)
    squares = Variant("all pairs", 64, 64, 64, By=64, pairs="all", state=False)
    for metric in METRICS_BESIDE:
        yield replace(squares, metric=metric, aim="2.5", beside=squares)


def windows(device):
    """Values of all pairs within a band, as nearest neighbours ask for, beside those without."""
    several = (
        ((1000, 128, 1), (300, 500, 1), (200, 1000, 1), (300, 500, 8))
        if device == "cuda"
        else ((100, 128, 1),)
    )
    for count, steps, d in several:
        for gamma in (1.0, 0.0):
            row = Variant("window", count, steps, d, "value", By=count, pairs="all", gamma=gamma, state=False)
            for band in ("sakoe_chiba", "itakura")[: 2 if d == 1 else 1]:
                radius = 2.0 if band == "itakura" else steps / 10
                yield replace(row, band=band, radius=radius, beside=row)


def cliffs():
    """Each beside a problem that is no cliff: gamma 1, the other way round, 128 features."""
    for d, gamma in ((64, 1e-3), (64, 1e-4), (1, 1e-4)):
        yield Variant("cliff", 32, 1024, d, aim="2", gamma=gamma)
    for d in (1, 8, 64):
        yield Variant("cliff", 32, 512, d, aim="2", scale=1000.0)
    for d in (8, 64, 128):  # costs are nearly alike, so that E is in every cell
        yield Variant("cliff", 32, 512, d, aim="2", gamma=1e3)
    yield Variant("cliff", 2, 8191, 17, aim="4 ms", gamma=0.01, M=8193)
    yield Variant("cliff", 32, 128, 64, "value", aim="2", gamma=1e-3)
    for d in (129, 192, 256, 512, 1024):
        aim = "1.2 ms" if d == 512 else f"{1.2 * d / 128:.2g}"
        yield Variant("cliff", 32, 512, d, aim=aim, beside=Variant("core", 32, 512, 128))
    for count, n, m, d in ((32, 10, 5000, 8), (3, 5, 70000, 2)):
        yield Variant("cliff", count, n, d, aim="1.2", M=m, beside=Variant("core", count, m, d, M=n))
    for d in (1, 64):
        yield Variant("cliff", 32, 512, d, aim="4", dtype="f64")
    # At gamma 0 sums in float32 are not trusted beside a spike.
    hard = {"phase": "value", "gamma": 0.0, "state": False}
    for row in (
        Variant("cliff", 256, 1024, 1, **hard),
        Variant("cliff", 1000, 128, 1, By=1000, pairs="all", **hard),
        Variant("cliff", 300, 500, 8, By=300, pairs="all", **hard),
    ):
        yield replace(row, data="spikes", beside=row)


class Prepared:
    """The calls of a variant, with all buffers in place."""

    def __init__(self, library, device, v):
        self._library, self._device, self._keep = library, device, []
        rng = np.random.default_rng(1)
        count_y = v.By or v.B
        npairs = v.B * count_y if v.pairs != "batch" else v.B
        self._problem = library.problem(
            metric=capi.METRICS[v.metric], dtype=capi.DTYPES[v.dtype], flags=FLAGS[v.pairs],
            batch_x=v.B, batch_y=count_y, n=v.N, m=v.M or v.N, features=v.d, gamma=v.gamma,
            band=capi.BANDS[v.band], band_radius=v.radius,
            step_weight=(ct.c_double * 3)(*v.weights), step_penalty=(ct.c_double * 3)(*v.penalties),
        )  # fmt: skip
        one_call = not v.state and v.phase == "value+grad"
        flags = 0 if v.state and v.phase != "value" else capi.NO_STATE
        flags |= capi.WITH_VALUE if one_call else 0
        self._exec = library.exec(
            device=capi.DEVICES[device.name], num_threads=1, flags=flags, stream=device.stream
        )
        sizes = library.sizes(self._problem, self._exec)
        calls = ("backward",) if one_call else CALLS[v.phase]
        workspace = max(getattr(sizes, name) for name in calls)
        state = 0 if flags else sizes.state
        self.extra_bytes = state + workspace
        b = self._buffers = library.buffers()
        b.state, b.state_bytes = self._empty(state), state
        b.workspace, b.workspace_bytes = self._empty(workspace), workspace
        series = [("x", v.B, v.N)] + ([("y", count_y, v.M or v.N)] if v.pairs != "symmetric" else [])
        for name, count, steps in series:
            shape = (count, steps, v.d)
            values = v.scale * rng.standard_normal(shape)
            if v.data == "spikes":
                values[np.arange(count), rng.integers(0, steps, count)] *= 1000
            data = stored(values, v.dtype)
            setattr(b, name, self._array(self._device.put(data), shape))
            outputs = {"value+grad": "grad_{}", "jvp": "grad_{}_tangent"}
            if v.phase in outputs:
                setattr(b, outputs[v.phase].format(name), self._array(device.empty(data.nbytes), shape))
            if v.phase == "jvp":
                tangent = stored(rng.standard_normal(shape), v.dtype)
                setattr(b, f"tangent_{name}", self._array(device.put(tangent), shape))
            if v.lengths:
                lengths = rng.integers(v.lengths[0], v.lengths[1] + 1, count)
                setattr(b, f"{name}_len", self._hold(device.put(lengths)))
        if v.phase == "value+alignment":
            b.alignment = self._array(
                device.empty(npairs * v.N * (v.M or v.N) * 8), (npairs, v.N, v.M or v.N)
            )
        b.value = b.value_tangent = self._empty(npairs * 8)
        self._calls = [f"sdtw_{name}" for name in calls]

    def _hold(self, buffer):
        self._keep.append(buffer)
        return self._device.address(buffer)

    def _empty(self, nbytes):
        return self._hold(self._device.empty(nbytes)) if nbytes else None

    def _array(self, buffer, shape):
        return capi.Array(self._hold(buffer), (capi.i64 * 3)(shape[1] * shape[2], shape[2], 1))

    def run(self):
        for function in self._calls:
            self._library.call(
                function, ct.byref(self._problem), ct.byref(self._buffers), ct.byref(self._exec)
            )


def measured(library, device, variant):
    prepared = Prepared(library, device, variant)
    seconds = timing.measure(prepared.run, device, budget_s=0.3, least=5)
    return {**timing.statistics(seconds), "extra_bytes": prepared.extra_bytes}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--commit", help="what to call what is measured, where git is not at hand")
    parser.add_argument("--output", type=Path, default=ROOT / "build/family.json")
    args = parser.parse_args()
    library = capi.Library(args.library or capi.find_library(ROOT))
    device = DEVICES[args.device]()
    fields = common_fields(device, args.commit)
    rows, core = [], {}
    for variant in variants(args.device):
        found = measured(library, device, variant)
        shape = variant.core()
        core_ms = None
        if variant.has_core:
            if shape not in core:
                core[shape] = measured(library, device, shape)["median_ms"]
            core_ms = core[shape]
        unwanted = ("has_core", "lengths", "beside")
        options = {k: value for k, value in asdict(variant).items() if k not in unwanted}
        row = {**fields, **options, "M": variant.M or variant.N, "problem": variant.line()}
        row |= {**found, "core_ms": core_ms}
        row["of_core"] = round(found["median_ms"] / core_ms, 3) if core_ms else None
        rows.append(row)
        print(variant.what, variant.metric, variant.dtype, variant.B, variant.N, variant.d, variant.phase,
              f"{found['median_ms']:.3f} ms", row["of_core"], variant.aim, flush=True)  # fmt: skip
    kept = json.loads(args.output.read_text()) if args.output.exists() else []
    rows = [row for row in kept if row["device"] != args.device] + rows
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
