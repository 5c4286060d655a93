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
import itertools
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

import capi
import cases
import peers
import timing
from devices import DEVICES, Host
from oracle import Oracle
from ours import Prepared, available_isas

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PEER_CELLS = 3_000_000  # a peer times as many pairs as fit this many cells, at least one
PEER_LIMIT = 20_000_000  # a peer is not run on pairs larger than this
TOLERANCE = {"f32": 1e-5, "f64": 1e-10}  # of values, see Oracle.check
PEER_TOLERANCE = 1e-3  # some sum float32 costs of 64 features by |x|^2 + |y|^2 - 2xy


@dataclass(frozen=True)
class Options:
    """How a case is computed."""

    phase: str
    threads: int
    dtype: str
    isa: str


def row_of(name, case, options, common, cells, seconds, extra_bytes, pairs_timed):
    stats = timing.statistics(seconds)
    shape = {k: getattr(case, k) for k in ("B", "N", "M", "d", "metric", "gamma", "use")}
    return {
        "library": name,
        **common,
        **asdict(options),
        **shape,
        **stats,
        "cells": cells,
        "cells_per_s": round(cells / (stats["median_ms"] / 1e3)),
        "extra_bytes": extra_bytes,
        "pairs_timed": pairs_timed,
    }


def measure_ours(library, device, oracle, case, options, common):
    data = cases.make_data(case, options.dtype)
    prepared = Prepared(library, device, case, data, **asdict(options))
    prepared.run()
    first = float(prepared.output("value")[0])
    oracle.check("libsdtw", case, options.dtype, first, TOLERANCE[options.dtype])
    seconds = timing.measure(prepared.run, device)
    return row_of("libsdtw", case, options, common, data.cells, seconds, prepared.extra_bytes, case.B)


def measure_peer(peer, oracle, case, options, common):
    peers.set_threads(options.threads)
    pairs = int(np.clip(PEER_CELLS // (case.N * case.M), 1, case.B))
    data = cases.make_data(case, "f32")
    work = peer.prepare(data.x[:pairs], data.y[:pairs], case.gamma, options.phase)
    oracle.check(peer.name, case, "f32", float(work()[0]), PEER_TOLERANCE, peer.magnitude)
    scale = case.B / pairs
    seconds = np.array(timing.measure(work, Host(), budget_s=0.4, least=3, warm=True)) * scale
    extra = timing.peak_extra_bytes(work)
    if peer.batched and extra is not None:
        extra = round(extra * scale)
    return row_of(peer.name, case, options, common, data.cells, seconds, extra, pairs)


def plan_jobs(groups, suite, library, found):
    """Every row to measure, once: {(peer or None, case, options): names of the groups it belongs to}."""
    isas = available_isas(library)
    jobs = {}
    for part in suite:
        axes = part["phases"], part["threads"], part.get("dtypes", ["f32"])
        wanted = [isas[0] if isa == "best" else isa for isa in part["isas"]]
        for name, (phase, threads, dtype) in itertools.product(part["groups"], itertools.product(*axes)):
            for case in groups[name]:
                rows = [(None, case, Options(phase, threads, dtype, i)) for i in wanted if i in [*isas, ""]]
                if part.get("peers") and case.N * case.M <= PEER_LIMIT:
                    capable = [peer for peer in found if phase in peer.phases]
                    rows += [(peer, case, Options(phase, threads, peer.dtype, "")) for peer in capable]
                for row in rows:
                    jobs.setdefault(row, []).append(name)
    return jobs


def publish(library, device, output):
    """Accuracy beside the speeds just written, the plots of docs/images and the tables of README and docs."""
    scripts = [["plot.py", output, "--output", ROOT / "docs/images"], ["tables.py"]]
    if device.name == "cpu":
        scripts.insert(0, ["accuracy.py", "--library", library.path, "--output", RESULTS / "accuracy.json"])
    for script, *args in scripts:
        subprocess.run([sys.executable, Path(__file__).with_name(script), *args], check=True)


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
    found, missing = ([], []) if args.no_peers else peers.available()
    print("".join(f"left out: {line}\n" for line in missing), end="")
    progress = tqdm(plan_jobs(groups, suites[args.suite], library, found).items(), unit="row")
    for (peer, case, options), names in progress:
        progress.set_postfix_str(f"{peer.name if peer else 'libsdtw'} {case} {options.phase}")
        if peer:
            row = measure_peer(peer, oracle, case, options, common)
        else:
            row = measure_ours(library, device, oracle, case, options, common)
        rows.append({**row, "groups": names})
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} rows in {args.output}")
    if args.publish:
        publish(library, device, args.output)


if __name__ == "__main__":
    main()
