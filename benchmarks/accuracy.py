"""Measures float32 results against tslearn's float64 on the same float32 inputs; writes JSON.

    python benchmarks/accuracy.py --output benchmarks/results/accuracy.json

One row is

    commit, date, device, hardware, isa, input, N, d, gamma, scaled_cost, path_cost, value,
    value_error, gradient_error, corner_error

scaled_cost is the largest cost times log2(e) / gamma; path_cost is <E, D>; value_error is relative to the
value; gradient_error is relative to the gradient's largest entry, the larger of both; corner_error is
the larger of |E[0,0] - 1| and |E[N-1,N-1] - 1|.
"""

import argparse
import itertools
import json
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist
from tqdm import tqdm
from tslearn.metrics import SoftDTW

import capi
import cases
from devices import Host
from ours import Prepared, available_isas
from run import ROOT, common_fields

LENGTHS, FEATURES, GAMMAS, INPUTS = (
    (128, 1024, 4096),
    (1, 8, 64),
    (0.001, 0.01, 0.1, 1.0, 10.0),
    ("normal", "smooth"),
)


def smooth_series(rng, n, d):
    """Unit-variance sums of eight slow sinusoids."""
    time = np.arange(n)[:, None, None] / n
    frequency, phase = rng.uniform(1, 12, (1, d, 8)), rng.uniform(0, 2 * np.pi, (1, d, 8))
    return np.sin(2 * np.pi * frequency * time + phase).sum(axis=-1) / 2


def make_data(kind, n, d, seed=1):
    rng = np.random.default_rng(seed)
    draw = (lambda: rng.standard_normal((n, d))) if kind == "normal" else (lambda: smooth_series(rng, n, d))
    x, y = (draw().astype(np.float32)[None] for _ in range(2))
    return cases.Data(x, y, None, None, None, n * n)


def expected(data, gamma):
    """In float64: the largest cost, the expected cost of a path <E, D>, the value and both gradients."""
    x, y = data.x[0].astype(np.float64), data.y[0].astype(np.float64)
    cost = cdist(x, y, "sqeuclidean")
    recursion = SoftDTW(cost, gamma=gamma)
    value, alignment = float(recursion.compute()), recursion.grad()
    grad_x = 2 * (alignment.sum(axis=1)[:, None] * x - alignment @ y)
    grad_y = 2 * (alignment.sum(axis=0)[:, None] * y - alignment.T @ x)
    return cost.max(), np.vdot(alignment, cost), value, grad_x, grad_y


def measure(library, isa, kind, n, d, gamma):
    data, case = make_data(kind, n, d), cases.Case(1, n, n, d, gamma=gamma)
    phases = "value+grad", "value+alignment"
    prepared = {p: Prepared(library, Host(), case, data, "f32", p, isa, 0) for p in phases}
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--output", type=Path, default=ROOT / "build/accuracy.json")
    args = parser.parse_args()
    library = capi.Library(args.library or capi.find_library(ROOT))
    isa, rows = available_isas(library)[0], []
    common = {**common_fields(Host()), "isa": isa}
    for kind, n, d, gamma in tqdm(list(itertools.product(INPUTS, LENGTHS, FEATURES, GAMMAS)), unit="row"):
        rows.append(
            {
                **common,
                "input": kind,
                "N": n,
                "d": d,
                "gamma": gamma,
                **measure(library, isa, kind, n, d, gamma),
            }
        )
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} rows in {args.output}")


if __name__ == "__main__":
    main()
