"""Measures the library, and other packages beside it, on the shapes of shapes.json; writes JSON.

    python benchmarks/run.py                 the quick suite
    python benchmarks/run.py --publish       all that README and docs report, and their tables and plots

The library is called through its C API with buffers allocated beforehand. Before a row is timed its values
are compared with tslearn's in float64, and alignments must be some. One row is

    library, commit, date, device, hardware, isa, threads, launch, B, N, M, d, dtype, metric, gamma, use,
    phase, problem, median_ms, p10_ms, p90_ms, reps, cells, cells_per_s, extra_bytes, pairs_timed, groups

problem is a line of lines.py. extra_bytes is memory beyond inputs and outputs: state + workspace for the
library, the growth of the process' resident memory (of torch's on a GPU) for the others. Where pairs_timed <
B, so many pairs were timed: times are scaled to B, and so is the memory of packages that work on a whole
batch at once.

On a GPU (--device cuda) launch says whether the calls were put on a stream or replayed from a CUDA graph;
times are between events, and calls shorter than 2 ms are queued by twenty. The library's float32 rows also
have floor_ms (see floors.py) and of_floor = floor_ms / median_ms, and rows of phase "ceiling" have what the
GPU was measured to do at most in the same run: ceiling, rate, unit.
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

import capi
import cases
import floors
import peer_cuda
import peers
import timing
from devices import DEVICES
from expected_values import ExpectedValues, check_alignments
from lines import line_of
from ours import Prepared, available_isas

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
PEER_CELLS = 3_000_000  # a peer times as many pairs as fit this many cells, at least one
TOLERANCE = {"f32": 1e-5, "f64": 1e-10}  # of values, see ExpectedValues.check
PEER_TOLERANCE = 1e-3  # some sum float32 costs of 64 features by |x|^2 + |y|^2 - 2xy


@dataclass(frozen=True)
class Options:
    """How a case is computed."""

    phase: str
    threads: int
    dtype: str
    isa: str
    launch: str = ""


def row_of(name, case, options, common, cells, seconds, extra_bytes, pairs_timed):
    stats = timing.statistics(seconds)
    shape = {k: getattr(case, k) for k in ("B", "N", "M", "d", "metric", "gamma", "use")}
    fields = {**asdict(options), **shape}
    return {
        "library": name,
        **common,
        **fields,
        "problem": line_of(fields, lengths=case.N // 2 if case.ragged else None),
        **stats,
        "cells": cells,
        "cells_per_s": round(cells / (stats["median_ms"] / 1e3)),
        "extra_bytes": extra_bytes,
        "pairs_timed": pairs_timed,
    }


def measure_ours(library, device, expected, case, options, common):
    data = cases.make_data(case, options.dtype)
    prepared = Prepared(
        library, device, case, data, options.dtype, options.phase, options.isa, options.threads
    )
    work = device.captured(prepared.run) if options.launch == "graph" else prepared.run
    work()
    first = float(prepared.output("value")[0])
    expected.check("libsdtw", case, options.dtype, first, TOLERANCE[options.dtype])
    if options.phase == "value+alignment":
        check_alignments(prepared.output("alignment"), data)
    elif options.phase != "value" and not case.fused:
        check_alignments(prepared.output("grad_x"), data)
    seconds = timing.measure(work, device)
    return row_of("libsdtw", case, options, common, data.cells, seconds, prepared.extra_bytes, case.B)


def measure_peer(peer, device, expected, case, options, common):
    pairs = case.B
    if device.name == "cpu":
        peers.set_threads(options.threads)
        pairs = int(np.clip(PEER_CELLS // (case.N * case.M), 1, case.B))
    data = cases.make_data(case, "f32")
    work = peer.prepare(data.x[:pairs], data.y[:pairs], case.gamma, options.phase)
    expected.check(peer.name, case, "f32", float(work()[0]), PEER_TOLERANCE, peer.magnitude)
    scale = case.B / pairs
    seconds = np.array(timing.measure(work, device, budget_s=0.4, least=3, warm=True)) * scale
    extra = peer.extra_bytes(work)
    if peer.batched and extra is not None:
        extra = round(extra * scale)
    return row_of(peer.name, case, options, common, data.cells, seconds, extra, pairs)


def try_peer(peer, *args):
    """measure_peer's row; None where the case is too much for the peer."""
    try:
        return measure_peer(peer, *args)
    except peer.refusals:
        return None
    finally:
        peer.release()


def plan_jobs(groups, suite, library, found):
    """Every row to measure, once: {(peer or None, case, options): names of the groups it belongs to}."""
    isas = available_isas(library)
    jobs = {}
    for part in suite:
        wanted = [isas[0] if isa == "best" else isa for isa in part["isas"]]
        ways = [
            (isa, launch) for isa in wanted if isa in [*isas, ""] for launch in part.get("launches", [""])
        ]
        axes = part["phases"], part["threads"], part.get("dtypes", ["f32"])
        for name in part["groups"]:
            for case, phase, threads, dtype in itertools.product(groups[name], *axes):
                rows = [(None, case, Options(phase, threads, dtype, *way)) for way in ways]
                if part.get("peers"):
                    capable = [p for p in found if phase in p.phases and max(case.N, case.M) <= p.longest]
                    launch = ways[0][1] if ways else ""
                    rows += [(p, case, Options(phase, threads, p.dtype, "", launch)) for p in capable]
                for row in rows:
                    jobs.setdefault(row, []).append(name)
    return jobs


def measure(jobs, library, device, expected, common):
    """The rows of all jobs, each printed when it is there."""
    ceilings = floors.measure_ceilings(ROOT / "build") if device.name == "cuda" else []
    rows = [{**common, **ceiling} for ceiling in ceilings]
    for (peer, case, options), names in jobs.items():
        what = f"{peer.name if peer else 'libsdtw'} {case} {options.phase} {options.launch}"
        if peer:
            row = try_peer(peer, device, expected, case, options, common)
        else:
            row = measure_ours(library, device, expected, case, options, common)
            row |= floors.fields(row, ceilings)
        print(f"{len(rows) + 1}: {what} {row['median_ms']} ms" if row else f"left out: {what}", flush=True)
        if row:
            rows.append({**row, "groups": names})
    return rows


def publish(library, device, output):
    """Accuracy beside the speeds just written, the plots of docs/images and the tables of README and docs."""
    accuracy = ["accuracy.py", "--library", library.path, "--device", device.name]
    accuracy += ["--output", RESULTS / "accuracy.json"]
    accuracy += [] if device.name == "cpu" else ["--only", "extremes"]
    scripts = [accuracy, ["plot.py", output, "--output", ROOT / "docs/images"], ["tables.py"]]
    for script, *args in scripts:
        subprocess.run([sys.executable, Path(__file__).with_name(script), *args], check=True)


def available_peers(device):
    return peers.available() if device.name == "cpu" else peer_cuda.available(device)


def common_fields(device, commit):
    today = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
    return {
        "commit": commit or timing.commit(ROOT),
        "date": today,
        "device": device.name,
        "hardware": device.hardware,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", help="a suite of shapes.json (default: quick, or quick cuda)")
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--output", type=Path, default=ROOT / "build/benchmark.json")
    parser.add_argument("--commit", help="what to call what is measured, where git is not at hand")
    parser.add_argument("--no-peers", action="store_true", help="measure the library only")
    parser.add_argument(
        "--publish", action="store_true", help="the device's suite; rewrites results, plots, tables"
    )
    args = parser.parse_args()
    if args.publish:
        args.suite, args.output = args.device, RESULTS / f"{args.device}.json"
    args.suite = args.suite or {"cpu": "quick", "cuda": "quick cuda"}[args.device]

    groups, suites = cases.load()
    library = capi.Library(args.library or capi.find_library(ROOT))
    device, expected = DEVICES[args.device](), ExpectedValues(library)
    print(f"{library.path}\n{library.build_info}\n{device.hardware}")
    found, missing = ([], []) if args.no_peers else available_peers(device)
    print("".join(f"left out: {line}\n" for line in missing), end="")
    jobs = plan_jobs(groups, suites[args.suite], library, found)
    rows = measure(jobs, library, device, expected, common_fields(device, args.commit))
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    print(f"{len(rows)} rows in {args.output}")
    if args.publish:
        publish(library, device, args.output)


if __name__ == "__main__":
    main()
