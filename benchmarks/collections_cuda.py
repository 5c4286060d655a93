"""k-means, neighbours and averages of libsdtw.collections on a GPU, beside one core of its host.

    python benchmarks/collections_cuda.py --output benchmarks/results/collections-cuda.json

Both compute the same: random walks around ten others, the same gamma, first centers and numbers of rounds.
Seconds are on the clock and of the fastest run, data going to the GPU and results coming back included; what
the core would take too long for is measured on a share of it. clustering.py has one core beside other
libraries: the product of the two ratios says how a GPU compares with these, as far as the cores are alike.
"""

import argparse
import functools
import json
import time
from datetime import date
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import timing
from clustering import first_centers, walks
from libsdtw.collections import SoftDTWKMeans, soft_dtw_barycenter, soft_dtw_top_k
from lines import line_of_sets

GAMMA, CLUSTERS, ROUNDS, STEPS = 0.1, 10, 3, 10
GPU, CORE = {"device": "cuda"}, {"num_threads": 1}


def fastest(work, repeat):
    seconds = []
    for _ in range(repeat):
        begin = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begin)
    return result, min(seconds)


def kmeans(x, labels, init, **where):
    model = SoftDTWKMeans(
        CLUSTERS, init=init, gamma=GAMMA, normalize=False, max_iter=ROUNDS, tol=-1,
        max_iter_barycenter=STEPS, **where,
    )  # fmt: skip
    return model, lambda: model.fit(x)


def works(count, steps, share):
    """(what, its size on the GPU and on the core, work(size, where), the others that each is paired with)."""
    x, labels, queries, _ = walks(count, steps)
    init = first_centers(x, CLUSTERS)

    def clusters(size, where):
        model, fit = kmeans(x[:size], labels[:size], init, **where)
        fit()
        return {"inertia": float(model.inertia_), "ari": adjusted_rand_score(labels[:size], model.labels_)}

    def nearest(size, where):
        return {"nearest": soft_dtw_top_k(queries[:size], x, gamma=GAMMA, normalize=False, **where)[1][:, 0]}

    def average(size, where):
        center = soft_dtw_barycenter(
            x[labels == 0][:size], init=init[0], gamma=GAMMA, normalize=False, max_iter=20, tol=0, **where
        )
        return {"center": center}

    yield "k-means", count, count // share, clusters, CLUSTERS
    yield "neighbours", 1000, 1000 // share, nearest, count
    yield "barycenter", count // CLUSTERS, count // CLUSTERS // share, average, 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON; without it rows are printed only")
    parser.add_argument(
        "--share", type=int, default=50, help="the core gets one of so many series, or queries"
    )
    parser.add_argument("--repeat", type=int, default=3, help="on the GPU")
    args = parser.parse_args()
    import torch

    rows = []
    for count, steps in ((20_000, 60), (10_000, 128), (2_000, 512)):
        for what, on_gpu, on_core, work, others in works(count, steps, args.share):
            work(on_core, GPU)  # loads what there is to load
            found, gpu_s = fastest(functools.partial(work, on_gpu, GPU), args.repeat)
            expected, core_s = fastest(functools.partial(work, on_core, CORE), 1)
            sizes = {"N": steps, "d": 1, "gamma": GAMMA}
            rows.append({
                "what": what, "series": count, "steps": steps,
                "problem": line_of_sets(on_gpu, others, sizes, gradients=what != "neighbours"),
                "of_gpu": on_gpu, "of_core": on_core,
                "gpu_s": gpu_s, "core_s": core_s, "times_a_core": core_s * on_gpu / on_core / gpu_s,
                **{name: value for name, value in found.items() if np.ndim(value) == 0},
                "difference": difference(expected, work(on_core, GPU)),
                "device": "cuda", "hardware": f"{torch.cuda.get_device_name(0)}, {timing.cpu_name()}",
                "commit": timing.commit(Path(__file__).parents[1]), "date": date.today().isoformat(),
            })  # fmt: skip
            print(json.dumps(rows[-1]), flush=True)
            if args.output:
                args.output.write_text(json.dumps(rows, indent=1) + "\n")


def difference(one, other):
    """Of results by name the largest difference; of indices the share that differs."""
    return {
        name: float(np.mean(value != other[name]))
        if name == "nearest"
        else float(np.abs(np.subtract(value, other[name])).max())
        for name, value in one.items()
    }


if __name__ == "__main__":
    main()
