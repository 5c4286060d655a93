"""Trains a generator of series, from noise and a class, with the soft-DTW divergence as the loss.

    python examples/generator.py --output generator.png

Data are the gestures of GunPoint, two classes, from the package aeon. Each generated series is compared with
the real ones of its class, aligned: a squared error would blur gestures that begin at different times.
"""

import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from aeon.datasets import load_gunpoint
from tqdm import tqdm

from libsdtw.torch import SoftDTW, soft_dtw_cdist


def load(every):
    """Series (B, N, 1) and classes (B,) of the training set."""
    series, labels = load_gunpoint(split="train")
    series = torch.from_numpy(series.astype(np.float32)).mT[:, ::every].contiguous()
    return series, torch.from_numpy((labels == labels[0]).astype(np.int64))


class Generator(torch.nn.Module):
    def __init__(self, steps, noise=8, hidden=48):
        super().__init__()
        self.noise = noise
        self.begin = torch.nn.Linear(noise + 2, hidden)
        self.cells = torch.nn.GRU(noise + 3, hidden, batch_first=True)
        self.read = torch.nn.Linear(hidden, 1)
        self.register_buffer("time", torch.linspace(-1, 1, steps)[None, :, None])

    def forward(self, labels):
        code = torch.cat([torch.randn(len(labels), self.noise), torch.nn.functional.one_hot(labels, 2)], 1)
        steps = self.time.shape[1]
        inputs = torch.cat([code[:, None].expand(-1, steps, -1), self.time.expand(len(labels), -1, -1)], 2)
        return self.read(self.cells(inputs, self.begin(code)[None].contiguous())[0])


def draw(path, series, labels, made, gamma):
    figure, axes = plt.subplots(2, 2, figsize=(9, 5), sharex=True, sharey=True)
    for k in range(2):
        for axis, lines, what in (
            (axes[k, 0], series[labels == k], "real"),
            (axes[k, 1], made[k], "generated"),
        ):
            axis.plot(
                lines[:12, :, 0].T, color="#0b6e99" if what == "generated" else "#7b8794", linewidth=0.9
            )
            axis.set_title(f"class {k + 1}, {what}", fontsize=10)
    figure.suptitle(f"A generator trained with the soft-DTW divergence at gamma {gamma:g}")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=5, help="of how many time steps one is taken")
    parser.add_argument("--gamma", type=float, default=0.1)
    parser.add_argument("--output", default="generator.png")
    args = parser.parse_args()
    torch.manual_seed(0)
    series, labels = load(args.every)
    generator = Generator(series.shape[1])
    loss = SoftDTW(gamma=args.gamma, reduction="mean", normalize=True)
    optimizer = torch.optim.Adam(generator.parameters(), lr=5e-3)

    def distance():
        """Mean divergence of generated series to the nearest real one of their class."""
        with torch.no_grad():
            near = []
            for k in range(2):
                made = generator(torch.full((12,), k))
                near.append(
                    soft_dtw_cdist(made, series[labels == k], gamma=args.gamma, normalize=True).amin(1)
                )
            return torch.cat(near).mean().item()

    before = distance()
    progress = tqdm(range(args.steps), desc="training")
    for _ in progress:
        chosen = torch.randint(len(series), (32,))
        optimizer.zero_grad()
        value = loss(generator(labels[chosen]), series[chosen])
        value.backward()
        torch.nn.utils.clip_grad_norm_(generator.parameters(), 1.0)
        optimizer.step()
        progress.set_postfix(loss=f"{value.item():.3f}")
    after = distance()
    with torch.no_grad():
        made = [generator(torch.full((12,), k)) for k in range(2)]
    draw(args.output, series, labels, made, args.gamma)
    print(f"divergence of generated series to the nearest real one: {before:.2f} -> {after:.2f}")
    if not after < 0.5 * before:
        raise SystemExit("the generator has not learned")


if __name__ == "__main__":
    main()
