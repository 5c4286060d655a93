"""Trains a small network with the soft-DTW loss of another package and with ours, and compares the losses.

    python examples/switching.py    # with each of tslearn, pysdtw, pytorch-softdtw-cuda and sdtw-cuda-torch
                                    # that can be imported
Data are the beginnings and rests of tslearn's Trace series. Both networks begin with the same weights.
"""

import argparse
import importlib
import time
import warnings

import numpy as np
import torch
from tslearn.datasets import CachedDatasets

from libsdtw.torch import compat
from libsdtw.torch.compat import pysdtw

# The module and class of each package, arguments beside gamma, and our class of the same name.
ON_GPU = {"use_cuda": torch.cuda.is_available()}
PEERS = {
    "tslearn": ("tslearn.metrics", "SoftDTWLossPyTorch", {}, compat.SoftDTWLossPyTorch),
    "pysdtw": ("pysdtw", "SoftDTW", ON_GPU, pysdtw.SoftDTW),
    "pytorch-softdtw-cuda": ("soft_dtw_cuda", "SoftDTW", ON_GPU, compat.SoftDTW),
    "sdtw-cuda-torch": ("softdtw_cuda", "SoftDTW", {}, compat.SoftDTW),
}


def load(every):
    """Beginnings (B, N) and rests (B, M) of the training series, every so many time steps."""
    x, _, _, _ = CachedDatasets().load_dataset("Trace")
    series = torch.from_numpy(np.asarray(x, np.float32)).squeeze(-1)[:, ::every]
    cut = int(0.6 * series.shape[1])
    return series[:, :cut], series[:, cut:]


def train(loss, begin, rest, steps):
    """Losses of each step."""
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(begin.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, rest.shape[1])
    ).to(begin.device)
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
    values = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(network(begin)[..., None], rest[..., None]).mean()
        value.backward()
        optimizer.step()
        values.append(value.item())
    return np.array(values)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=2, help="of how many time steps one is taken")
    parser.add_argument("--gamma", type=float, nargs="+", default=[1.0, 0.1, 0.01])
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    begin, rest = (t.to(device) for t in load(args.every))
    print(
        f"{len(begin)} series, {rest.shape[1]} steps to forecast, {args.steps} steps of training on {device}"
    )
    for name, (module, kind, arguments, ours) in PEERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = getattr(importlib.import_module(module), kind)
        except ImportError:
            print(f"{name}: not installed")
            continue
        theirs(**arguments, gamma=1.0)(begin[:2, :5, None], rest[:2, :5, None])  # compiled at its first call
        for gamma in args.gamma:
            values, seconds = {}, {}
            for who, loss in (("theirs", theirs), ("ours", ours)):
                start = time.perf_counter()
                values[who] = train(loss(**arguments, gamma=gamma), begin, rest, args.steps)
                seconds[who] = time.perf_counter() - start
            apart = np.abs(values["ours"] - values["theirs"]) / np.abs(values["theirs"]).max()
            print(
                f"{name}, gamma {gamma:g}: loss {values['theirs'][0]:.4f} -> {values['theirs'][-1]:.4f} "
                f"with theirs, "
                f"{values['ours'][-1]:.4f} with ours; apart by {apart[0]:.1e} at the first step, "
                f"{apart.max():.1e} at most; {seconds['theirs']:.1f} s and {seconds['ours']:.1f} s"
            )
            if not apart[0] < 1e-4:
                raise SystemExit("the first losses differ")


if __name__ == "__main__":
    main()
