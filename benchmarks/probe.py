"""Turns what tests/cuda/bench.cpp prints into a result file like those of run.py.

    sdtw_cuda_bench LABEL [shapes] | python benchmarks/probe.py --commit COMMIT > cuda-probe.json

For when a GPU is at hand for a minute and not for the whole suite: no values are checked and nothing else is
measured beside the library. Floors are those of the same shapes in results/cuda.json.
"""

import argparse
import datetime
import json
import sys
from pathlib import Path

from results import load, select, shape_of

RECORD = Path(__file__).resolve().parent / "results/cuda.json"
PHASES = {"forward": "value", "forward+backward": "value+grad"}
TYPES = {"float32": "f32", "float64": "f64"}
SAME = ("library", "device", "threads", "launch", "B", "N", "M", "d", "metric", "gamma")
MEASURED = ("median_ms", "p10_ms", "p90_ms", "cells_per_s", "extra_bytes")


def row_of(printed, commit, date, floors):
    row = {k: printed[k] for k in SAME + MEASURED}
    row |= {"phase": PHASES[printed["phase"]], "dtype": TYPES[printed["dtype"]], "hardware": printed["gpu"]}
    row |= {"commit": commit, "date": date, "isa": "", "use": "", "groups": ["gpu"]}
    row["cells"] = row["B"] * row["N"] * row["M"]
    if floor := floors.get((shape_of(row), row["phase"], row["launch"], row["dtype"], row["gamma"])):
        row |= {"floor_ms": floor, "of_floor": round(floor / row["median_ms"], 4)}
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commit", required=True)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    args = parser.parse_args()
    floors = {
        (shape_of(r), r["phase"], r["launch"], r["dtype"], r["gamma"]): r.get("floor_ms")
        for r in select(load(RECORD), library="libsdtw")
    }
    rows = [row_of(json.loads(line), args.commit, args.date, floors) for line in sys.stdin]
    print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")


if __name__ == "__main__":
    main()
