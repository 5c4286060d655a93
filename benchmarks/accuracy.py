"""Measures float32 results against float64's on the same float32 inputs; writes JSON.

    python benchmarks/accuracy.py --output benchmarks/results/accuracy.json
    python benchmarks/accuracy.py --output ... --only extremes --device cuda    needs NumPy alone

Rows of the same device and part that the output has are replaced, others stay. There are two parts. Rows of
the grid, random series against tslearn, are

    commit, date, device, hardware, isa, input, N, d, gamma, problem, scaled_cost, path_cost, value,
    value_error, gradient_error, corner_error

problem is a line of lines.py; scaled_cost is the largest cost times log2(e) / gamma; path_cost is <E, D>;
value_error is relative to the value; gradient_error is relative to the gradient's largest entry, the larger
of both; corner_error is the larger of |E[0,0] - 1| and |E[N-1,M-1] - 1|. Rows of the extremes (extremes.py),
the largest error of a batch, are

    commit, date, device, hardware, isa, extreme, B, N, M, d, metric, gamma, use, problem, reference,
    value_error, gradient_error, corner_error, alignment_error, least_sum

of which value_error is relative to |value| + <E, |D|> + gamma, and gradient_error to the largest entry of the
pair's gradients. least_sum is the least sum of a row or a column of E, none of which is below 1 in exact
arithmetic. reference: "numpy" (reference.py), or "float64", the CPU backend's, of pairs that are too large.
"""

import argparse
import itertools
import json
import time
from pathlib import Path

import numpy as np

import capi
import cases
import extremes
import reference
from devices import DEVICES, Host
from lines import line_of
from ours import Prepared, available_isas
from run import ROOT, common_fields

LENGTHS, FEATURES, GAMMAS, INPUTS = (
    (128, 1024, 4096),
    (1, 8, 64),
    (0.001, 0.01, 0.1, 1.0, 10.0),
    ("normal", "smooth"),
)
PARTS = "grid", "extremes"


def smooth_series(rng, n, d):
    """Unit-variance sums of eight slow sinusoids."""
    time = np.arange(n)[:, None, None] / n
    frequency, phase = rng.uniform(1, 12, (1, d, 8)), rng.uniform(0, 2 * np.pi, (1, d, 8))
    return np.sin(2 * np.pi * frequency * time + phase).sum(axis=-1) / 2


def make_data(kind, n, d):
    rng = np.random.default_rng(1)
    draw = (lambda: rng.standard_normal((n, d))) if kind == "normal" else (lambda: smooth_series(rng, n, d))
    x, y = (draw().astype(np.float32)[None] for _ in range(2))
    return cases.Data(x, y, None, None, None, n * n)


def expected(data, gamma):
    """In float64: the largest cost, the expected cost of a path <E, D>, the value and both gradients."""
    from scipy.spatial.distance import cdist
    from tslearn.metrics import SoftDTW

    x, y = data.x[0].astype(np.float64), data.y[0].astype(np.float64)
    cost = cdist(x, y, "sqeuclidean")
    recursion = SoftDTW(cost, gamma=gamma)
    value, alignment = float(recursion.compute()), recursion.grad()
    grad_x = 2 * (alignment.sum(axis=1)[:, None] * x - alignment @ y)
    grad_y = 2 * (alignment.sum(axis=0)[:, None] * y - alignment.T @ x)
    return cost.max(), np.vdot(alignment, cost), value, grad_x, grad_y


def measure(library, device, isa, kind, n, d, gamma):
    data, case = make_data(kind, n, d), cases.Case(1, n, n, d, gamma=gamma)
    phases = "value+grad", "value+alignment"
    prepared = {p: Prepared(library, device, case, data, "f32", p, isa, 0) for p in phases}
    for calls in prepared.values():
        calls.run()
    cost, path, value, *grads = expected(data, gamma)
    got, *got_grads = (prepared["value+grad"].output(name)[0] for name in ("value", "grad_x", "grad_y"))
    corners = prepared["value+alignment"].output("alignment")[0, [0, -1], [0, -1]]
    gradient_errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(got_grads, grads, strict=True)]
    return {
        "scaled_cost": cost * np.log2(np.e) / gamma,
        "path_cost": path,
        "value": value,
        "value_error": abs(float(got) - value) / abs(value),
        "gradient_error": max(gradient_errors),
        "corner_error": float(np.abs(corners - 1).max()),
    }


def measure_grid(library, device, isa):
    from tqdm import tqdm

    for kind, n, d, gamma in tqdm(list(itertools.product(INPUTS, LENGTHS, FEATURES, GAMMAS)), unit="row"):
        fields = {"input": kind, "N": n, "d": d, "gamma": gamma}
        line = line_of({**fields, "B": 1}, data=kind.replace("normal", "noise"))
        yield {**fields, "problem": line, **measure(library, device, isa, kind, n, d, gamma)}


def results(library, device, isa, case, data, dtype):
    """Values, gradients by name, and E where a pair is not too large for it."""
    calls = Prepared(library, device, case, data, dtype, "value+grad", isa, 0)
    calls.run()
    names = ("grad_x", "grad_y") if case.fused else ("grad_x",)
    value, gradients = calls.output("value"), {name: calls.output(name) for name in names}
    if case.N * case.M > extremes.MOST_CELLS:
        return value, gradients, None
    calls = Prepared(library, device, case, data, dtype, "value+alignment", isa, 0)
    calls.run()
    return value, gradients, calls.output("alignment")


def in_float64(library, case, data):
    arrays = [None if a is None else a.astype(np.float64) for a in (data.x, data.y, data.cost)]
    wide = cases.Data(*arrays, None, None, data.cells)
    value, gradients, alignment = results(library, Host(), "", case, wide, "f64")
    if not case.fused:
        return reference.Expected(value, (alignment * wide.cost).sum(axis=(1, 2)), gradients, alignment)
    # The costs are homogeneous of degree two in x and y, so <E, D> is half of what Euler's theorem says.
    path = sum((gradients[f"grad_{name}"] * getattr(wide, name)).sum(axis=(1, 2)) for name in "xy") / 2
    return reference.Expected(value, path, gradients, alignment)


def relative(error, scale):
    """The largest of errors relative to scales; 0 of 0 is no error."""
    return float(np.where(error == 0, 0, error / np.where(error == 0, 1, scale)).max())


def largest(arrays):
    """Of each pair."""
    return np.max([np.abs(a).max(axis=(1, 2)) for a in arrays], axis=0)


def measure_extreme(library, device, isa, case, data):
    small = reference.EXACT and data.cells <= 600_000 and case.N + case.M <= 20_000
    want = reference.evaluate(case, data) if small else in_float64(library, case, data)
    value, gradients, alignment = results(library, device, isa, case, data, "f32")
    off = largest([gradients[name] - want.gradients[name] for name in gradients])
    row = {
        "reference": "numpy" if small else "float64",
        "value_error": relative(np.abs(value - want.value), np.abs(want.value) + want.path + case.gamma),
        "gradient_error": relative(off, largest(want.gradients.values())),
    }
    if alignment is not None:
        corners = np.abs(alignment[:, [0, -1], [0, -1]] - 1)
        sums = [alignment.sum(axis=axis, dtype=np.float64).min() for axis in (1, 2)]
        row["corner_error"] = float(corners.max())
        row["alignment_error"] = float(np.abs(alignment - want.alignment).max())
        row["least_sum"] = float(min(sums))
    return row


def measure_extremes(library, device, isa):
    for name, case, data in extremes.extremes():
        begin = time.perf_counter()
        found = measure_extreme(library, device, isa, case, data)
        what = {k: getattr(case, k) for k in ("B", "N", "M", "d", "metric", "gamma", "use")}
        errors = " ".join(f"{k} {v:.3g}" for k, v in found.items() if k != "reference")
        print(f"{name} {case}: {errors} ({time.perf_counter() - begin:.1f} s)", flush=True)
        yield {"extreme": name, **what, "problem": line_of(what, **extremes.words_of(name)), **found}


def part_of(row):
    return "extremes" if "extreme" in row else "grid"


def merged(path, rows):
    """The rows that a file has of other devices and parts, and these."""
    replaced = {(row["device"], part_of(row)) for row in rows}
    old = json.loads(path.read_text()) if path.exists() else []
    rows = [row for row in old if (row["device"], part_of(row)) not in replaced] + rows
    return sorted(rows, key=lambda row: (PARTS.index(part_of(row)), row["device"]))  # stable


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--only", choices=PARTS, help="a part of the rows (default: both)")
    parser.add_argument("--commit", help="what to call what is measured, where git is not at hand")
    parser.add_argument("--output", type=Path, default=ROOT / "build/accuracy.json")
    args = parser.parse_args()
    library, device = capi.Library(args.library or capi.find_library(ROOT)), DEVICES[args.device]()
    isa = available_isas(library)[0] if args.device == "cpu" else ""
    common, rows = {**common_fields(device, args.commit), "isa": isa}, []
    for part, measure_part in zip(PARTS, (measure_grid, measure_extremes), strict=True):
        if args.only in (None, part):
            rows += [{**common, **row} for row in measure_part(library, device, isa)]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(row) for row in merged(args.output, rows)]
    args.output.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(rows)} of {len(lines)} rows in {args.output} are new")


if __name__ == "__main__":
    main()
