"""Forecasts the rest of a series with a loss of two terms: its shape, and when things happen.

    python examples/forecast_shape_and_time.py --output forecast.png

The loss of Le Guen and Thome, Shape and Time Distortion Loss for Training Deep Time Series Forecasting Models
(DILATE, NeurIPS 2019): soft-DTW, which does not mind delays, plus the expected squared delay <E, (i - j)^2>
of the alignment, whose gradient takes second derivatives of soft-DTW. Data are the Trace series inside the
package tslearn.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from tqdm import tqdm
from tslearn.datasets import CachedDatasets

from libsdtw.torch import soft_dtw_with_alignment


def load(every):
    """(beginnings, rests) for training and for testing, standardised series at every so many time steps."""
    x_train, _, x_test, _ = CachedDatasets().load_dataset("Trace")
    sets = []
    for x in (x_train, x_test):
        series = torch.from_numpy(np.asarray(x, np.float32)).squeeze(-1)[:, ::every]
        cut = int(0.6 * series.shape[1])
        sets.append((series[:, :cut], series[:, cut:]))
    return sets


def terms(forecast, target, gamma):
    """Mean shape term and mean time term."""
    steps = torch.arange(target.shape[1], dtype=target.dtype)
    delay = ((steps[:, None] - steps) / len(steps)) ** 2
    value, alignment = soft_dtw_with_alignment(forecast[..., None], target[..., None], gamma=gamma)
    return value.mean(), (alignment * delay).sum((1, 2)).mean()


def train(alpha, begin, rest, args):
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(begin.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, rest.shape[1])
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    for _ in tqdm(range(args.steps), desc=f"alpha {alpha:g}"):
        optimizer.zero_grad()
        shape, time = terms(network(begin), rest, args.gamma)
        (alpha * shape + (1 - alpha) * 10 * time).backward()
        optimizer.step()
    return network


def draw(path, begin, rest, forecasts):
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.4), sharey=True)
    for k, axis in enumerate(axes):
        now = np.arange(begin.shape[1])
        later = begin.shape[1] + np.arange(rest.shape[1])
        axis.plot(now, begin[k], color="#7b8794", linewidth=1)
        axis.plot(later, rest[k], color="#1d2733", linewidth=1.2, label="what came")
        for (name, forecast), color in zip(forecasts.items(), ("#d1495b", "#0b6e99"), strict=True):
            axis.plot(later, forecast[k], color=color, linewidth=1.6, label=name)
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--gamma", type=float, default=0.01)
    parser.add_argument("--alpha", type=float, default=0.5, help="weight of the shape")
    parser.add_argument("--output", default="forecast.png")
    args = parser.parse_args()
    # Series as short as in the paper: the second order holds matrices of costs.
    (begin, rest), (test_begin, test_rest) = load(args.every)
    forecasts, results = {}, {}
    for name, alpha in (("shape alone", 1.0), ("shape and time", args.alpha)):
        network = train(alpha, begin, rest, args)
        with torch.no_grad():
            forecasts[name] = network(test_begin)
            results[name] = [t.item() for t in terms(forecasts[name], test_rest, args.gamma)]
        print(f"{name}: shape {results[name][0]:.3f}, time {1e3 * results[name][1]:.3f}e-3 on the test set")
    draw(args.output, test_begin, test_rest, forecasts)
    if not results["shape and time"][1] < results["shape alone"][1]:
        raise SystemExit("the time term was not learned")


if __name__ == "__main__":
    main()
