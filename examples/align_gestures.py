"""Aligns two recordings of one gesture, of which the second took nearly twice as long.

    python examples/align_gestures.py --output gestures.png

Data are PickupGestureWiimoteZ of the package aeon: accelerations of a hand, of 29 to 361 time steps. The pair
of one class whose lengths differ most is aligned; each step of the first recording is then given the expected
time in the second.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from aeon.datasets import __file__ as aeon_datasets
from aeon.datasets import load_from_ts_file

from libsdtw.torch import soft_dtw_barycenter, soft_dtw_cdist, soft_dtw_with_alignment


def load():
    """Series (N, 1), standardised, and their classes."""
    path = Path(aeon_datasets).parent / "data/PickupGestureWiimoteZ/PickupGestureWiimoteZ_TRAIN.ts"
    series, labels = load_from_ts_file(str(path))
    series = [torch.from_numpy(np.asarray(s, np.float64)).mT for s in series]
    return [(s - s.mean()) / s.std() for s in series], labels


def choose(series, labels):
    """Indices of the pair of one class whose lengths differ most by no more than a factor of 3."""
    best, pair = 0, None
    for i, a in enumerate(series):
        for j, b in enumerate(series):
            if labels[i] == labels[j] and len(a) < len(b) <= 3 * len(a) and len(b) - len(a) > best:
                best, pair = len(b) - len(a), (i, j)
    return pair


def draw(path, x, y, alignment, warped):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    left.plot(x, color="#0b6e99", label=f"first, {len(x)} steps")
    left.plot(y, color="#d1495b", label=f"second, {len(y)} steps")
    left.plot(warped, color="#d1495b", linestyle=":", label="second in the first one's time")
    left.legend(fontsize=8)
    left.set_xlabel("time step")
    right.imshow(alignment.T, origin="lower", aspect="auto", cmap="Blues", vmax=0.5)
    right.set_xlabel("first")
    right.set_ylabel("second")
    right.set_title("expected alignment", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--max-iter", type=int, default=20, help="steps of the average of the class")
    parser.add_argument("--output", default="gestures.png")
    args = parser.parse_args()
    series, labels = load()
    first, second = choose(series, labels)
    x, y = series[first], series[second]
    value, alignment = soft_dtw_with_alignment(x, y, gamma=args.gamma)
    # The second recording where the first one is: the mean over the steps that a path visits beside each.
    warped = (alignment @ y) / alignment.sum(1, keepdim=True)
    stretched = torch.nn.functional.interpolate(y.mT[None], len(x), mode="linear").mT[0]
    errors = [((x - other) ** 2).mean().item() for other in (stretched, warped)]
    print(f"recordings {first} and {second}, {len(x)} and {len(y)} steps: soft-DTW {value.item():.3f}")
    print(f"squared difference, stretched evenly: {errors[0]:.3f}, aligned: {errors[1]:.3f}")

    members = [s for s, label in zip(series, labels, strict=True) if label == labels[first]]
    average = soft_dtw_barycenter(members, gamma=1.0, normalize=True, max_iter=args.max_iter)
    near = soft_dtw_cdist(series, average[None], gamma=1.0, normalize=True)[:, 0]
    own = np.array([label == labels[first] for label in labels])
    print(
        f"divergence from the class's average: {near[own].mean():.1f} of the class, {near[~own].mean():.1f} "
        f"of others"
    )
    draw(args.output, x[:, 0], y[:, 0], alignment, warped[:, 0])
    if not errors[1] < 0.5 * errors[0]:
        raise SystemExit("the alignment does not help")


if __name__ == "__main__":
    main()
