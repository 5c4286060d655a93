"""The job of a million series against 10,000 of clustering.py --million: begun, killed, and gone on with."""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lines import line_of_sets

MILLION = """
import sys, numpy as np
from libsdtw.collections import TopK, reduce_pairs
x, y = np.load(sys.argv[1], mmap_mode="r"), np.load(sys.argv[2])
reduce_pairs(x, y, keep=TopK(1), gamma=0.1, checkpoint=sys.argv[3], num_threads=1)
"""


def million(seconds, rows=1_000_000, columns=10_000, steps=60):
    """The whole job, in a process of its own that is killed, and again in another."""
    with tempfile.TemporaryDirectory() as folder:
        folder, rng = Path(folder), np.random.default_rng(0)
        x = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (rows, steps))
        for i in range(0, rows, 50_000):
            part = x[i : i + 50_000]
            part[...] = rng.normal(size=part.shape)
        x.flush()
        np.save(folder / "y.npy", x[rng.choice(rows, columns, replace=False)])
        del x, part
        done, journal, before = [], folder / "run" / "done", resource.getrusage(resource.RUSAGE_CHILDREN)
        peak = 0
        for limit in (seconds, seconds / 3):
            process = subprocess.Popen(
                [sys.executable, "-c", MILLION, *(str(folder / n) for n in ("x.npy", "y.npy", "run"))]
            )
            end = time.perf_counter() + limit
            while time.perf_counter() < end and process.poll() is None:
                time.sleep(0.5)
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = max(
                    [peak, *(int(line.split()[1]) for line in status.splitlines() if "RssAnon" in line)]
                )
            process.kill()
            process.wait()
            done.append(len(journal.read_text().split()))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        panel = json.loads((folder / "run" / "job.json").read_text())["block"][0]
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        pairs = done[-1] * panel * columns
        sizes = {"N": steps, "d": 1, "gamma": 0.1}
        yield {
            "what": "a million series against 10,000", "library": "libsdtw", "B": rows, "Q": columns, **sizes,
            "problem": line_of_sets(panel, columns, sizes, gradients=False, data="noise"),
            "panels_of_first": done[0], "panels": done[-1], "panel": panel,
            "pairs": pairs, "cpu_s": spent, "extra_bytes": peak * 1024, "pairs_per_s": pairs / spent,
            "cells_per_s": pairs / spent * steps**2, "whole_hours": rows * columns / (pairs / spent) / 3600,
        }  # fmt: skip
