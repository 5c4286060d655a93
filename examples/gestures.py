"""Classifies gestures of different lengths by nearest neighbours, of raw values and of the divergence.

    python examples/gestures.py --output gestures.png

Data are PickupGestureWiimoteZ of the package aeon: ten gestures of a hand that holds a remote control, 50
recordings to learn from and 50 to recognise, of 29 to 361 time steps. All pairs are computed in one call.

A raw value is a soft minimum: with every path that there is it falls, below 0 in the end, and long series
have the most paths. So the nearest neighbour by raw values is the longest recording, whatever the gesture.
The divergence S(x, y) - 1/2 S(x, x) - 1/2 S(y, y) takes this bias away.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from aeon.datasets import __file__ as aeon_datasets
from aeon.datasets import load_from_ts_file

from libsdtw.numpy import soft_dtw_cdist

COLOURS = {"raw values": "#d1495b", "divergence": "#0b6e99"}


def load(part):
    """Series (N_i, 1) and their classes."""
    path = Path(aeon_datasets).parent / f"data/PickupGestureWiimoteZ/PickupGestureWiimoteZ_{part}.ts"
    series, labels = load_from_ts_file(str(path))
    return [np.asarray(one, np.float64).T for one in series], labels


def neighbours(test, train, gamma):
    """The nearest recording of each, by raw values and by the divergence."""
    return {
        name: soft_dtw_cdist(test, train, gamma=gamma, normalize=name == "divergence").argmin(1)
        for name in COLOURS
    }


def draw(path, gammas, accuracy, test, train, nearest):
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4))
    for name, colour in COLOURS.items():
        left.plot(gammas, [100 * of[name] for of in accuracy], "o-", color=colour, label=name)
        lengths = [len(train[k]) for k in nearest[name]]
        right.scatter([len(one) for one in test], lengths, color=colour, s=16, alpha=0.7, label=name)
    left.set_xscale("log")
    left.set_ylim(0, 100)
    left.set_xlabel("gamma")
    left.set_ylabel("gestures recognised, %")
    left.legend(fontsize=8)
    right.set_xlabel("steps of a recording")
    right.set_ylabel("steps of its nearest neighbour")
    right.set_title(f"gamma = {gammas[-1]:g}: raw values prefer the longest", fontsize=10)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gammas", type=float, nargs="+", default=[0.001, 0.01, 0.1, 1.0])
    parser.add_argument("--output", type=Path, default=Path("gestures.png"))
    options = parser.parse_args()

    (train, classes), (test, truth) = load("TRAIN"), load("TEST")
    lengths = [len(one) for one in train + test]
    print(f"{len(test)} gestures of {min(lengths)} to {max(lengths)} steps, {len(train)} to compare with")
    begin = time.perf_counter()
    accuracy = []
    for gamma in options.gammas:
        nearest = neighbours(test, train, gamma)
        accuracy.append({name: np.mean(classes[of] == truth) for name, of in nearest.items()})
        said = ", ".join(f"{name} {100 * share:.0f}%" for name, share in accuracy[-1].items())
        print(f"gamma {gamma:g}: recognised by {said}")
    pairs = 2 * len(options.gammas) * len(test) * len(train)
    print(f"{pairs} pairs in {time.perf_counter() - begin:.2f} s")
    draw(options.output, options.gammas, accuracy, test, train, nearest)
    print(f"the picture is in {options.output}")


if __name__ == "__main__":
    main()
