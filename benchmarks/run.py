"""Measures the library, and other packages beside it, on the shapes of shapes.json; writes JSON.

    python benchmarks/run.py                 the quick suite
    python benchmarks/run.py --publish       all that README and docs report, and their tables and plots

The library is called through its C API with buffers allocated beforehand. Before a row is timed its values
are compared with tslearn's in float64. One row is

    library, commit, date, device, hardware, isa, threads, B, N, M, d, dtype, metric, gamma, use, phase,
    median_ms, p10_ms, p90_ms, reps, cells, cells_per_s, extra_bytes, pairs_timed, groups

extra_bytes is memory beyond inputs and outputs: state + workspace for the library, the growth of the process'
resident memory for the others. Where pairs_timed < B, so many pairs were timed: times are scaled to B, and so
is the memory of packages that work on a whole batch at once.
"""

import argparse
import datetime
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from tqdm import tqdm

import capi
import cases
import peers
import timing
from devices import DEVICES
from oracle import Oracle
from ours import Prepared, best_isa

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PEER_CELLS = 6_000_000  # a peer times as many pairs as fit this many cells, at least one
PEER_LIMIT = 20_000_000  # a peer is not run on pairs larger than this
TOLERANCE = {"f32": 1e-5, "f64": 1e-10}  # of values, see Oracle.check
PEER_TOLERANCE = 1e-3  # some sum float32 costs of 64 features by |x|^2 + |y|^2 - 2xy


def row_of(case, common, seconds, scale, extra, cells, **fields):
    stats = timing.statistics(np.asarray(seconds) * scale)
    shape = {k: getattr(case, k) for k in ("B", "N", "M", "d", "metric", "gamma", "use")}
    rate = {"cells": cells, "cells_per_s": round(cells / (stats["median_ms"] / 1e3)), "extra_bytes": extra}
    return {**common, **shape, **fields, **stats, **rate}


def measure_ours(library, device, oracle, case, job, common):
    data = cases.make_data(case, job["dtype"])
    options = {k: job[k] for k in ("dtype", "phase", "isa", "threads")}
    prepared = Prepared(library, device, case, data, **options)
    prepared.run()
    oracle.check("libsdtw", case, job["dtype"], float(prepared.output("value")[0]), TOLERANCE[job["dtype"]])
    seconds = timing.measure(prepared.run, device)
    return row_of(
        case,
        common,
        seconds,
        1,
        prepared.extra_bytes,
        data.cells,
        library="libsdtw",
        pairs_timed=case.B,
        **options,
    )


def measure_peer(peer, oracle, case, job, common):
    pairs = int(np.clip(PEER_CELLS // (case.N * case.M), 1, case.B))
    data = cases.make_data(case, "f32")
    x, y = data.x[:pairs], data.y[:pairs]
    work = peer.prepare(x, y, case.gamma, job["phase"])
    oracle.check(peer.name, case, "f32", float(work()[0]), PEER_TOLERANCE, peer.magnitude)
    seconds = timing.measure(work, DEVICES["cpu"](), budget_s=0.4, least=3)
    extra = timing.peak_extra_bytes(work)
    scale = case.B / pairs
    if peer.batched and extra is not None:
        extra = round(extra * scale)
    fields = {
        "library": peer.name,
        "dtype": "f64" if peer.package == "tslearn" and not peer.batched else "f32",
    }
    fields |= {"phase": job["phase"], "isa": "", "threads": job["threads"], "pairs_timed": pairs}
    return row_of(case, common, seconds, scale, extra, data.cells, **fields)


def plan_jobs(groups, suite, library, with_peers):
    """Every row to measure, as (peer or None, case, options)."""
    found, missing = peers.available() if with_peers else ([], [])
    for line in missing:
        print(f"left out: {line}")
    best, jobs = best_isa(library), []
    for part in suite:
        unique = dict.fromkeys(case for name in part["groups"] for case in groups[name])
        for case in unique:
            for phase in part["phases"]:
                for threads in part["threads"]:
                    job = {"phase": phase, "threads": threads, "groups": part["groups"]}
                    for dtype in part.get("dtypes", ["f32"]):
                        for isa in part["isas"]:
                            isa = best if isa == "best" else isa
                            jobs.append((None, case, {**job, "dtype": dtype, "isa": isa}))
                    if part.get("peers") and case.N * case.M <= PEER_LIMIT:
                        jobs += [(peer, case, job) for peer in found if phase in peer.phases]
    order = {"avx512": 3, "avx2": 2, "baseline": 1}
    return [j for j in jobs if j[0] or order[j[2]["isa"]] <= order[best]]


def publish(library, output):
    """Accuracy beside the speeds just written, the plots of docs/images and the tables of README and docs."""
    here = Path(__file__).parent
    accuracy = ["accuracy.py", "--library", library.path, "--output", RESULTS / "accuracy.json"]
    for script, *args in (accuracy, ["plot.py", output, "--output", ROOT / "docs/images"], ["tables.py"]):
        subprocess.run([sys.executable, here / script, *args], check=True)


def common_fields(device):
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return {"commit": timing.commit(ROOT), "date": today, "device": device.name, "hardware": device.hardware}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", default="quick", help="a suite of shapes.json (default: quick)")
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--output", type=Path, default=ROOT / "build/benchmark.json")
    parser.add_argument("--no-peers", action="store_true", help="measure the library only")
    parser.add_argument(
        "--publish", action="store_true", help="the device's suite; rewrites results, plots, tables"
    )
    args = parser.parse_args()
    if args.publish:
        args.suite, args.output = args.device, RESULTS / f"{args.device}.json"

    groups, suites = cases.load()
    library = capi.Library(args.library or capi.find_library(ROOT))
    device, oracle = DEVICES[args.device](), Oracle()
    print(f"{library.path}\n{library.build_info}\n{device.hardware}")
    rows, common = [], common_fields(device)
    progress = tqdm(plan_jobs(groups, suites[args.suite], library, not args.no_peers), unit="row")
    for peer, case, job in progress:
        progress.set_postfix_str(f"{peer.name if peer else 'libsdtw'} {case} {job['phase']}")
        peers.set_threads(job["threads"] or 1)
        if peer:
            row = measure_peer(peer, oracle, case, job, common)
        else:
            row = measure_ours(library, device, oracle, case, job, common)
        rows.append({**row, "groups": job["groups"]})
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} rows in {args.output}")
    if args.publish:
        publish(library, args.output)


if __name__ == "__main__":
    main()
