"""Averages a class of series under soft-DTW (a barycenter), beside tslearn's softdtw_barycenter.

Both minimise the mean soft-DTW to all series by L-BFGS from the same start: one takes values and gradients
of the whole batch from one call of the library, the other from tslearn. (Cuturi and Blondel 2017.)
"""

import argparse
import time

import numpy as np
from scipy.optimize import minimize
from tslearn.barycenters import softdtw_barycenter
from tslearn.datasets import CachedDatasets

from libsdtw.numpy import soft_dtw, soft_dtw_grad


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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--label", type=int, default=3, choices=(1, 2, 3, 4), help="class of the Trace data")
    parser.add_argument("--gamma", type=float, default=1.0)
    parser.add_argument("--max-iter", type=int, default=20)
    args = parser.parse_args()

    x, labels, _, _ = CachedDatasets().load_dataset("Trace")
    series = np.ascontiguousarray(x[labels == args.label], np.float64)
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


if __name__ == "__main__":
    main()
