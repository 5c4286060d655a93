"""k-means, neighbours and averages of libsdtw.collections beside tslearn, aeon and dtaidistance, on one core.

    python benchmarks/clustering.py --output benchmarks/results/collections.json

All compute in one thread, and on the same data, gamma, first centers and numbers of iterations. Times are of
the processor, so that what else the machine does counts for little; the time on the clock is recorded beside
them. Numba's compilation is not counted. problem is a line of lines.py. Results are compared too: k-means and
averages by the float64 soft-DTW of what they found, neighbours by whose they are. With --million the job of a
million series against 10,000 is begun, killed after that many seconds, and gone on with.

k-means ends in a minimum near its first centers, and which one is a matter of luck. So its times are sums
over several first centers, and its inertias means. What counts is the row "to tslearn's inertia": from each
first centers the least rounds, of the usual steps, whose centers have tslearn's inertia or less; and where no
number of rounds has, a fit until nothing changes, beside which it says how far that is off.
"""
# ruff: noqa: E402, since libraries read these variables when they are imported

import os

for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import argparse
import json
import sys
import time
import warnings
from datetime import date
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from sklearn.metrics import adjusted_rand_score

import timing
from libsdtw import _core
from libsdtw.collections import (
    SoftDTWKMeans,
    median_gamma,
    soft_dtw_barycenter,
    soft_dtw_matrix,
    soft_dtw_top_k,
)
from lines import line_of_sets
from million import million

ROUNDS, STEPS = 3, 10  # of k-means (ours end with one more, which only assigns), and of centers in each
MOST_ROUNDS = 15  # to another's inertia
LONG = "Trace", "walks, 1000 of 60"  # a fit takes tslearn ten seconds: half as many first centers
QUERIES = 40  # series whose neighbours are searched: the others take up to a minute for more


def trace():
    from tslearn.datasets import CachedDatasets

    x, labels, test, of_test = CachedDatasets().load_dataset("Trace")
    return x.astype(np.float32), labels, test.astype(np.float32), of_test


def from_aeon(load):
    def read():
        parts = []
        for split in ("train", "test"):
            series, labels = load(split=split)
            longest = max(one.shape[1] for one in series)
            x = np.full((len(series), longest, series[0].shape[0]), np.nan, np.float32)
            for row, one in zip(x, series, strict=True):
                row[: one.shape[1]] = one.T
            parts += [x, labels]
        return parts

    return read


def datasets(smoke):
    from aeon.datasets import load_basic_motions, load_gunpoint, load_japanese_vowels

    yield "GunPoint", from_aeon(load_gunpoint)
    if not smoke:
        yield "Trace", trace
        yield "BasicMotions", from_aeon(load_basic_motions)
        yield "JapaneseVowels", from_aeon(load_japanese_vowels)
        yield "walks, 1000 of 60", walks


def walks(count=1000, steps=60):
    """Random walks around ten others."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(10, steps)).cumsum(1)
    labels = np.arange(2 * count) % 10
    x = centers[labels] + 0.5 * rng.normal(size=(2 * count, steps)).cumsum(1)
    x = ((x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)).astype(np.float32)[:, :, None]
    return x[:count], labels[:count], x[count:], labels[count:]


class Core:
    """Seconds spent in calls of the core, while it is entered."""

    names = "forward", "backward"

    def __enter__(self):
        self.seconds, self.real = 0.0, {name: getattr(_core, name) for name in self.names}
        for name, function in self.real.items():
            setattr(_core, name, self._counted(function))
        return self

    def _counted(self, function):
        def call(*args):
            begin = time.process_time()
            function(*args)
            self.seconds += time.process_time() - begin

        return call

    def __exit__(self, *_):
        for name, function in self.real.items():
            setattr(_core, name, function)


def measured(work, repeat=1, memory=True):
    """What work returns, and its times and memory: of the fastest run of so many, or of what a second has."""
    seconds, clock = [], []
    while len(seconds) < repeat and sum(seconds) < 1:
        begin, wall = time.process_time(), time.perf_counter()
        result = work()
        seconds.append(time.process_time() - begin)
        clock.append(time.perf_counter() - wall)
    peak = timing.peak_extra_bytes(work) if memory and min(seconds) < 2 else None
    return result, {"cpu_s": min(seconds), "wall_s": min(clock), "extra_bytes": peak}


def share_of_core(work):
    begin = time.process_time()
    with Core() as core:
        work()
    return core.seconds / (time.process_time() - begin)


def first_centers(x, clusters, seed=0):
    """Series of the collection, stretched to the longest."""
    chosen = np.random.default_rng(seed).choice(len(x), clusters, replace=False)
    at = np.linspace(0, 1, x.shape[1])
    centers = np.empty((clusters, *x.shape[1:]))
    for center, one in zip(centers, x[chosen], strict=True):
        there = one[~np.isnan(one).all(1)]
        for d in range(x.shape[2]):
            center[:, d] = np.interp(at, np.linspace(0, 1, len(there)), there[:, d])
    return centers


def kmeans(name, x, labels, gamma, peers, starts):
    """From the same centers; inertia is that of raw soft-DTW, which is what both minimise."""
    clusters = len(np.unique(labels))
    first = [first_centers(x, clusters, seed) for seed in range(starts)]

    def ours(init, rounds=ROUNDS, normalize=False):
        limits = {} if rounds is None else {"max_iter": rounds, "tol": -1}
        options = {"gamma": gamma, "normalize": normalize, "max_iter_barycenter": STEPS, "num_threads": 1}
        return SoftDTWKMeans(clusters, init=init, **options, **limits).fit(x)

    def inertia(model):
        values = soft_dtw_matrix(x.astype(np.float64), model.cluster_centers_, gamma=gamma, normalize=False)
        return float(values.min(1).sum())

    sizes = {"N": x.shape[1], "d": x.shape[2], "gamma": gamma}
    line = line_of_sets(len(x), clusters, sizes, gradients=True)

    def row(library, works, **more):
        measurements = [measured(work, 3, memory=work is works[0]) for work in works]
        models, costs = zip(*measurements, strict=True)
        return {
            "what": "k-means", "data": name, "library": library, "B": len(x), **sizes, "k": clusters,
            "starts": starts, "problem": line,
            **{of: sum(cost[of] for cost in costs) for of in ("cpu_s", "wall_s")},
            "extra_bytes": costs[0]["extra_bytes"],
            "inertia": float(np.mean([*map(inertia, models)])), "inertias": [*map(inertia, models)],
            "ari": float(np.mean([adjusted_rand_score(labels, model.labels_) for model in models])), **more,
        }  # fmt: skip

    def share(works):
        return share_of_core(lambda: [work() for work in works])

    works = [partial(ours, init) for init in first]
    yield row("libsdtw", works, core_share=share(works))
    yield row("libsdtw, divergence", [partial(ours, init, normalize=True) for init in first])
    if not peers:
        return
    theirs = row(
        f"tslearn {version('tslearn')}", [partial(tslearn_kmeans, x, init, clusters, gamma) for init in first]
    )
    yield theirs
    rounds, off = [], []
    for init, least in zip(first, theirs["inertias"], strict=True):
        enough = (n for n in range(1, MOST_ROUNDS + 1) if inertia(ours(init, n)) <= least)
        rounds.append(next(enough, None))
        off.append(0.0 if rounds[-1] else max(0.0, (inertia(ours(init, None)) - least) / abs(least)))
    works = [partial(ours, init, n) for init, n in zip(first, rounds, strict=True)]
    yield row("libsdtw, to tslearn's inertia", works, core_share=share(works), rounds=rounds, off=off)


def tslearn_kmeans(x, init, clusters, gamma):
    from tslearn.clustering import TimeSeriesKMeans

    model = TimeSeriesKMeans(
        clusters, init=init.copy(), metric="softdtw", metric_params={"gamma": gamma}, max_iter=ROUNDS, tol=-1,
        max_iter_barycenter=STEPS, n_jobs=1,
    )  # fmt: skip
    return model.fit(x.astype(np.float64))


def neighbours(name, train, of_train, test, of_test, gamma, peers):
    """The nearest training series of each test series, by raw soft-DTW as the others have it."""

    def row(library, indices, cost, hard=False, **more):
        sizes = {"N": test.shape[1], "d": test.shape[2], "gamma": 0.0 if hard else gamma}
        return {
            "what": "neighbours, gamma 0" if hard else "neighbours", "data": name, "library": library,
            "B": len(test), "Q": len(train), **sizes,
            "problem": line_of_sets(len(test), len(train), sizes, gradients=False), **cost,
            "accuracy": float((of_train[indices] == of_test).mean()), **more,
        }  # fmt: skip

    test, of_test = test[:QUERIES], of_test[:QUERIES]

    def ours(gamma=gamma, normalize=False):
        return soft_dtw_top_k(test, train, gamma=gamma, normalize=normalize, num_threads=1)[1][:, 0]

    found, cost = measured(ours, 3)
    yield row("libsdtw", found, cost, core_share=share_of_core(ours), same=1.0)
    divergent, cost = measured(lambda: ours(normalize=True), 3)
    yield row("libsdtw, divergence", divergent, cost)
    if not peers:
        return
    for library, theirs in (("tslearn", tslearn_neighbours), ("aeon", aeon_neighbours)):
        work = theirs(train, of_train, test, gamma)
        if work is not None:
            indices, cost = measured(work)
            yield row(f"{library} {version(library)}", indices, cost, same=float((indices == found).mean()))
    work = dtaidistance_neighbours(train, test)
    if work is not None:
        hard, cost = measured(lambda: ours(gamma=0.0), 3)
        yield row("libsdtw", hard, cost, hard=True, same=1.0)
        indices, cost = measured(work)
        row_name = f"dtaidistance {version('dtaidistance')}"
        yield row(row_name, indices, cost, hard=True, same=float((indices == hard).mean()))


def tslearn_neighbours(train, labels, test, gamma):
    from tslearn.neighbors import KNeighborsTimeSeriesClassifier

    model = KNeighborsTimeSeriesClassifier(1, metric="softdtw", metric_params={"gamma": gamma}, n_jobs=1)
    model.fit(train.astype(np.float64), labels)
    model.kneighbors(test[:1].astype(np.float64), return_distance=False)
    return lambda: model.kneighbors(test.astype(np.float64), return_distance=False)[:, 0]


def aeon_neighbours(train, labels, test, gamma):
    from aeon.distances import soft_dtw_pairwise_distance

    if np.isnan(train).any() or np.isnan(test).any() or len(train) > 100:
        return None
    x, y = (np.ascontiguousarray(a.transpose(0, 2, 1), np.float64) for a in (test, train))
    soft_dtw_pairwise_distance(x[:1], y[:1], gamma=gamma)
    return lambda: soft_dtw_pairwise_distance(x, y, gamma=gamma).argmin(1)


def dtaidistance_neighbours(train, test):
    from dtaidistance import dtw

    if train.shape[2] > 1 or np.isnan(train).any() or np.isnan(test).any():
        return None
    series = [*test[:, :, 0].astype(np.float64), *train[:, :, 0].astype(np.float64)]
    block = (0, len(test)), (len(test), len(series))
    options = {"block": block, "parallel": False, "use_c": True}
    try:
        dtw.distance_matrix(series[:4], block=((0, 2), (2, 4)), parallel=False, use_c=True)
    except Exception as error:  # its C library is missing in some of its wheels
        print(f"dtaidistance: {error}", file=sys.stderr)
        return None
    return lambda: dtw.distance_matrix(series, **options)[: len(test), len(test) :].argmin(1)


def barycenters(name, x, labels, gamma, peers):
    series = x[labels == labels[0]]
    init = first_centers(series, 1)[0]
    sizes = {"N": x.shape[1], "d": x.shape[2], "gamma": gamma}
    line = line_of_sets(len(series), 1, sizes, gradients=True)

    def loss(center):
        return float(
            soft_dtw_matrix(series.astype(np.float64), center[None], gamma=gamma, normalize=False).mean()
        )

    def ours():
        return soft_dtw_barycenter(
            series, init=init, gamma=gamma, normalize=False, max_iter=20, tol=1e-3, num_threads=1
        )

    def theirs():
        from tslearn.barycenters import softdtw_barycenter

        return softdtw_barycenter(series.astype(np.float64), gamma=gamma, init=init.copy(), max_iter=20)

    works = [("libsdtw", ours, 2), (f"tslearn {version('tslearn')}", theirs, 1)]
    for library, work, repeat in works if peers else works[:1]:
        center, cost = measured(work, repeat)
        yield {
            "what": "barycenter", "data": name, "library": library, "B": len(series), **sizes,
            "problem": line, **cost, "loss": loss(center),
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON; without it rows are printed only")
    parser.add_argument("--smoke", action="store_true", help="GunPoint alone, and no other package")
    parser.add_argument("--million", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--starts", type=int, default=10, help="first centers of k-means; half of it of some")
    parser.add_argument("--only", nargs="+", help="names of data")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")

    machine = {
        "hardware": timing.cpu_name(),
        "commit": timing.commit(Path(__file__).parents[1]),
        "date": date.today().isoformat(),
        "threads": 1,
    }
    rows = []

    def keep(found):
        for row in found:
            rows.append({**row, **machine})
            if args.output:
                args.output.write_text(json.dumps(rows, indent=1) + "\n")
            print(
                json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}),
                flush=True,
            )

    soft_dtw_top_k(np.zeros((2, 3)))  # loads the library
    for name, load in datasets(args.smoke):
        if args.only and name not in args.only:
            continue
        x, labels, test, of_test = load()
        gamma = median_gamma(x)
        if args.smoke:
            x, labels, test, of_test = x[:12], labels[:12], test[:10], of_test[:10]
        if not args.smoke:
            warm(x, gamma)
        keep(neighbours(name, x, labels, test, of_test, gamma, not args.smoke))
        keep(barycenters(name, x, labels, gamma, not args.smoke))
        starts = 1 if args.smoke else args.starts // (2 if name in LONG else 1)
        keep(kmeans(name, x, labels, gamma, not args.smoke, starts))
    if args.million:
        keep(million(args.million))


def warm(x, gamma):
    """Compiles what Numba compiles."""
    from tslearn.barycenters import softdtw_barycenter

    softdtw_barycenter(x[:2, :5].astype(np.float64), gamma=gamma, max_iter=1)


if __name__ == "__main__":
    main()
