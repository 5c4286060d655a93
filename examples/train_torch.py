"""Trains a network to forecast the rest of a series from its beginning, with soft-DTW as the loss.

    python examples/train_torch.py --output forecasts.png

The last experiment of Cuturi and Blondel (2017), on the Trace data that tslearn carries: the jumps of these
series come at different times, and soft-DTW asks for the right shape where a squared error would blur them.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from tqdm import tqdm
from tslearn.datasets import CachedDatasets

from libsdtw.torch import SoftDTW, soft_dtw


def load(observed=0.6):
    """Standardised series of Trace cut in two: (train, test), each a pair (beginnings, rests)."""
    x_train, _, x_test, _ = CachedDatasets().load_dataset("Trace")
    cut = int(observed * x_train.shape[1])
    sets = []
    for series in (x_train, x_test):
        series = torch.from_numpy(np.asarray(series, np.float32)).squeeze(-1)
        sets.append((series[:, :cut], series[:, cut:]))
    return sets


def draw(path, begin, rest, forecast):
    """Three series of the test set, and how their beginnings are continued."""
    figure, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
    for k, axis in enumerate(axes):
        steps = range(begin.shape[1], begin.shape[1] + rest.shape[1])
        axis.plot(begin[k], color="#7b8794", linewidth=1)
        axis.plot(
            steps, rest[k], color="#7b8794", linewidth=1, linestyle="--", label="the rest of the series"
        )
        axis.plot(steps, forecast[k], color="#0b6e99", linewidth=1.8, label="forecast")
    axes[0].legend(frameon=False, fontsize=8)
    figure.suptitle("Forecasts of a network trained with soft-DTW", fontsize=10)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--output", default="forecasts.png")
    args = parser.parse_args()

    torch.manual_seed(0)
    (begin, rest), (test_begin, test_rest) = load()
    network = torch.nn.Sequential(
        torch.nn.Linear(begin.shape[1], 128), torch.nn.ReLU(), torch.nn.Linear(128, rest.shape[1])
    )
    loss = SoftDTW(gamma=args.gamma, reduction="mean")
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)

    def test_loss():
        """Mean over the test set at a gamma so small that it is hard DTW but for rounding."""
        with torch.no_grad():
            forecast = network(test_begin)[..., None]
            return soft_dtw(forecast, test_rest[..., None], gamma=1e-4, reduction="mean").item()

    before = test_loss()
    progress = tqdm(range(args.epochs), desc="training")
    for _ in progress:
        optimizer.zero_grad()
        value = loss(network(begin)[..., None], rest[..., None])
        value.backward()
        optimizer.step()
        progress.set_postfix(loss=f"{value.item():.2f}")
    after = test_loss()
    print(f"mean DTW of {len(test_begin)} test series to their forecasts: {before:.2f} -> {after:.2f}")
    if not after < 0.5 * before:
        raise SystemExit("the network has not learned")
    with torch.no_grad():
        draw(args.output, test_begin, test_rest, network(test_begin))


if __name__ == "__main__":
    main()
