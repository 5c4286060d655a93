"""All pairs of two collections on 1, 2, 4 devices of a host: time, efficiency, and whether bits are the same.

    python benchmarks/several_devices.py --output benchmarks/results/several-devices.json
    python benchmarks/several_devices.py --cpu --rows 2000 --steps 60

20,000 x 20,000 series of 128 steps, of which the nearest is kept, on as many GPUs as there are; with --cpu
each device is one core. Efficiency is the time of one device over that of n, divided by n. Each row is the
fastest of its repetitions.
"""

import argparse
import json
import time
from datetime import date
from pathlib import Path

import numpy as np

import timing
from libsdtw.collections import TopK, reduce_pairs


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON; without it rows are printed only")
    parser.add_argument("--cpu", action="store_true", help="cores in the place of GPUs")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, help="default: as many as rows")
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    args = parser.parse_args()

    if args.cpu:
        import os

        there, hardware = [["cpu"] * n for n in args.devices if n <= len(os.sched_getaffinity(0))], None
    else:
        import torch

        count, hardware = torch.cuda.device_count(), None
        there = [[f"cuda:{i}" for i in range(n)] for n in args.devices if n <= count]
        hardware = torch.cuda.get_device_name(0) if count else None
    rng = np.random.default_rng(0)
    x = rng.normal(size=(args.rows, args.steps, 1)).astype(np.float32)
    y = rng.normal(size=(args.columns or args.rows, args.steps, 1)).astype(np.float32)
    rows, first = [], None
    for devices in there:
        options = {"keep": TopK(1), "gamma": 0.1, "device": devices}
        if args.cpu:
            options["num_threads"] = len(devices)
        reduce_pairs(x[:64], y[:64], **options)  # loads what there is to load
        seconds = []
        for _ in range(args.repeat):
            begin = time.perf_counter()
            found = reduce_pairs(x, y, **options)
            seconds.append(time.perf_counter() - begin)
        first = first or (min(seconds), found)
        rows.append({
            "what": "nearest of all pairs", "device": "cpu" if args.cpu else "cuda", "devices": len(devices),
            "B": len(x), "Q": len(y), "N": args.steps, "d": 1, "wall_s": min(seconds),
            "cells_per_s": len(x) * len(y) * args.steps**2 / min(seconds),
            "efficiency": first[0] / min(seconds) / (len(devices) / len(there[0])),
            "same_bits": all((found[name] == array).all() for name, array in first[1].items()),
            "hardware": hardware or timing.cpu_name(), "commit": timing.commit(Path(__file__).parents[1]),
            "date": date.today().isoformat(),
        })  # fmt: skip
        print(
            json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}),
            flush=True,
        )
        if args.output:
            args.output.write_text(json.dumps(rows, indent=1) + "\n")
    if not rows:
        raise SystemExit("no GPU is there: --cpu measures cores")


if __name__ == "__main__":
    main()
