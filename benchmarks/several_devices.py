"""Collections on 1, 2, 4 devices of a host: time, efficiency, and whether bits are the same.

    python benchmarks/several_devices.py --output benchmarks/results/several-devices.json
    python benchmarks/several_devices.py --cpu --rows 2000 --steps 60 --series 4000

20,000 x 20,000 series of 128 steps, of which the nearest is kept, and three rounds of k-means of 400,000
series of 60 steps, on as many GPUs as there are; with --cpu each device is one core. Efficiency is the time
of one device over that of n, divided by n. Each row is the fastest of its repetitions.
"""

import argparse
import json
import time
from datetime import date
from pathlib import Path

import numpy as np

import timing
from libsdtw.collections import SoftDTWKMeans, TopK, reduce_pairs
from lines import line_of_sets


def search(args, rng):
    """The sizes of the work, and what does it on some devices and returns arrays."""
    x = rng.normal(size=(args.rows, args.steps, 1)).astype(np.float32)
    y = rng.normal(size=(args.columns or args.rows, args.steps, 1)).astype(np.float32)

    def work(**where):
        return reduce_pairs(x, y, keep=TopK(1), gamma=0.1, **where)

    sizes = {"N": args.steps, "d": 1, "gamma": 0.1}
    line = line_of_sets(len(x), len(y), sizes, gradients=False, data="noise")
    return {"B": len(x), "Q": len(y), **sizes, "problem": line}, work


def kmeans(args, rng):
    centers = rng.normal(size=(10, 60)).cumsum(1)
    x = centers[np.arange(args.series) % 10] + 0.5 * rng.normal(size=(args.series, 60)).cumsum(1)
    x = x.astype(np.float32)[:, :, None]

    def work(**where):
        model = SoftDTWKMeans(10, init=x[:10], gamma=0.1, normalize=False, max_iter=3, tol=-1, **where)
        model.fit(x)
        return {"centers": model.cluster_centers_, "labels": model.labels_}

    sizes = {"N": 60, "d": 1, "gamma": 0.1}
    line = line_of_sets(len(x), 10, sizes, gradients=True)
    return {"B": len(x), **sizes, "k": 10, "problem": line}, work


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON; without it rows are printed only")
    parser.add_argument("--cpu", action="store_true", help="cores in the place of GPUs")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, help="default: as many as rows")
    parser.add_argument("--steps", type=int, default=128)
    parser.add_argument("--series", type=int, default=400_000, help="of k-means")
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
    rows = []
    for what, of in (("nearest of all pairs", search), ("k-means", kmeans)):
        sizes, work = of(args, np.random.default_rng(0))
        first = None
        for devices in there:
            where = {"device": devices} | ({"num_threads": len(devices)} if args.cpu else {})
            seconds = []
            for repetition in range(args.repeat + (not args.cpu)):  # the first loads what there is to load
                begin = time.perf_counter()
                found = work(**where)
                if repetition or args.cpu:
                    seconds.append(time.perf_counter() - begin)
            first = first or (min(seconds), found)
            rows.append({
                "what": what, "device": "cpu" if args.cpu else "cuda", "devices": len(devices), **sizes,
                "wall_s": min(seconds),
                "efficiency": first[0] / min(seconds) / (len(devices) / len(there[0])),
                "same_bits": all(np.array_equal(found[name], array) for name, array in first[1].items()),
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
