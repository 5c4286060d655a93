"""Float64 instructions that CUDA kernels execute, and times, with and without the code that avoids them.

    cmake -B build/without -DSDTW_CUDA=ON -DSDTW_CUDA_WITHOUT_FLOAT64=ON ...
    python benchmarks/float64.py --library build/release/libsdtw.so --without build/without/libsdtw.so

Wants NVIDIA's profiler, ncu. GPUs with little float64 get the second library's code. Writes JSON, of which
a row is

    commit, date, device, hardware, what, B, By, N, M, d, metric, gamma, pairs, phase, problem, cells,
    median_ms, per_cell, without_ms, without_per_cell

problem is a line of lines.py. per_cell: float64 instructions of all threads over cells: arithmetic,
conversions, and products of matrices, of which one has 16 x 8 x 8 multiplications or more. without_...: of
the code that avoids float64.
"""

import argparse
import csv
import io
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import capi
from devices import DEVICES
from family import METRICS_BESIDE, Prepared, Variant, measured
from run import ROOT, common_fields

# Warps' instructions of the pipe that float64 has: arithmetic, conversions and matrix products.
METRIC = "smsp__inst_executed_pipe_fp64.sum"
WARP = 32


def variants():
    for d in (1, 2, 4, 8, 64):
        yield Variant("core", 32, 1024, d)
    for d in (1, 8, 64):
        yield Variant("small gamma", 32, 1024, d, gamma=1e-4)
    yield Variant("short", 4096, 64, 2)
    for metric in METRICS_BESIDE:
        for d in (1, 64):
            yield Variant(metric, 32, 512, d, metric=metric)
    yield Variant("sakoe_chiba", 32, 2048, 8, band="sakoe_chiba", radius=204.8)
    yield Variant("penalties", 32, 512, 8, penalties=(0.0, 128.0, 128.0))
    yield Variant("weights", 32, 512, 12, weights=(2.0, 1.0, 1.0))
    yield Variant("tangents", 32, 512, 8, "jvp")
    for gamma in (1.0, 1e-4, 0.0):
        yield Variant("all pairs", 300, 128, 1, "value", By=300, pairs="all", state=False, gamma=gamma)
    yield Variant("gamma 0", 32, 1024, 8, gamma=0.0)


def cells_of(v):
    return v.B * (v.By if v.pairs == "all" else 1) * v.N * (v.M or v.N)


def counted(library, number):
    """What all kernels of one run execute: of a process of its own under the profiler."""
    command = ["ncu", "--csv", "--metrics", METRIC, sys.executable, __file__]
    command += ["--library", str(library), "--only", str(number)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    start = out.index('"ID"')
    rows = csv.DictReader(io.StringIO(out[start:]))
    return WARP * sum(int(row["Metric Value"].replace(",", "")) for row in rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--library", type=Path, required=True)
    parser.add_argument("--without", type=Path, help="the library without float64")
    parser.add_argument("--commit", help="what to call what is measured, where git is not at hand")
    parser.add_argument("--output", type=Path, default=ROOT / "build/float64.json")
    parser.add_argument("--only", type=int, help="runs this problem once, for the profiler")
    args = parser.parse_args()
    device = DEVICES["cuda"]()
    library = capi.Library(args.library)
    if args.only is not None:
        prepared = Prepared(library, device, list(variants())[args.only])
        prepared.run()
        device.get(device.empty(1), "u1")  # waits
        return
    fields, rows = common_fields(device, args.commit), []
    names = ("what", "B", "By", "N", "d", "metric", "gamma", "pairs", "phase")
    for number, variant in enumerate(variants()):
        cells = cells_of(variant)
        row = {name: asdict(variant)[name] for name in names}
        row |= {"M": variant.M or variant.N, "problem": variant.line(), "cells": cells}
        for prefix, path in (("", args.library), ("without_", args.without)):
            found = measured(capi.Library(path), device, variant)
            row[prefix + "ms" if prefix else "median_ms"] = found["median_ms"]
            row[prefix + "per_cell"] = round(counted(path, number) / cells, 4)
        rows.append({**fields, **row})
        print(*(f"{key}={row[key]}" for key in row), flush=True)
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main()
