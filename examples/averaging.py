"""Averages a class of series under soft-DTW (a barycenter), beside tslearn's softdtw_barycenter.

    python examples/averaging.py --output averaging.png

Both minimise the mean soft-DTW to all series by L-BFGS from the same start: one takes values and gradients
of the whole batch from one call of the library, the other from tslearn. (Cuturi and Blondel 2017.)
"""

import argparse
import time

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from tslearn.barycenters import softdtw_barycenter
from tslearn.datasets import CachedDatasets

from libsdtw.numpy import soft_dtw, soft_dtw_grad

COLORS, LINES = ("#d1495b", "#0b6e99", "#d9822b"), ("--", "-", ":")


def barycenter(series, start, gamma, max_iter):
    """Minimiser of the mean soft-DTW to series (B, N, D), descending from start (M, D)."""

    def objective(flat):
        value, grad, _ = soft_dtw_grad(flat.reshape(start.shape), series, gamma=gamma)
        return value.mean(), grad.reshape(-1) / len(series)

    found = minimize(objective, start.reshape(-1), jac=True, method="L-BFGS-B", options={"maxiter": max_iter})
    return found.x.reshape(start.shape)


def timed(function, *args, **kwargs):
    begin = time.perf_counter()
    return function(*args, **kwargs), time.perf_counter() - begin


def draw(path, series, averages):
    figure, axis = plt.subplots(figsize=(8, 4), layout="constrained")
    axis.plot(series[..., 0].T, color="#c9d1d9", linewidth=0.8)
    for (name, average), color, line in zip(averages.items(), COLORS, LINES, strict=True):
        axis.plot(average[:, 0], color=color, linestyle=line, linewidth=2, label=name)
    axis.set(title=f"{len(series)} series of Trace and their averages", xlabel="time step")
    axis.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--label", type=int, default=3, choices=(1, 2, 3, 4), help="class of the Trace data")
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--max-iter", type=int, default=20)
    parser.add_argument("--every", type=int, default=1, help="take every so many-th time step")
    parser.add_argument("--output", default="averaging.png")
    args = parser.parse_args()

    x, labels, _, _ = CachedDatasets().load_dataset("Trace")
    series = np.ascontiguousarray(x[labels == args.label, :: args.every], np.float64)
    start = series.mean(axis=0)
    ours, seconds = timed(barycenter, series, start, args.gamma, args.max_iter)
    theirs, their_seconds = timed(
        softdtw_barycenter, series, gamma=args.gamma, init=start.copy(), max_iter=args.max_iter
    )

    def mean_loss(average):
        return soft_dtw(average, series, gamma=args.gamma).mean()

    print(f"mean soft-DTW to {len(series)} series of length {series.shape[1]}")
    print(f"  of their arithmetic mean  {mean_loss(start):10.4f}")
    print(f"  of libsdtw's average      {mean_loss(ours):10.4f}   {seconds:6.2f} s")
    print(f"  of tslearn's average      {mean_loss(theirs):10.4f}   {their_seconds:6.2f} s")
    if not mean_loss(ours) <= mean_loss(theirs) + 1e-3 * abs(mean_loss(theirs)):
        raise SystemExit("the average is worse than tslearn's")
    draw(args.output, series, {"arithmetic mean": start, "libsdtw's": ours, "tslearn's": theirs})


if __name__ == "__main__":
    main()
