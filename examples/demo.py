"""The library's main job on real data: losses and gradients beside tslearn's, a class average, a picture.

    python examples/demo.py --output demo.png

The data are inside the packages tslearn (Trace) and aeon (GunPoint, JapaneseVowels): nothing is downloaded.
The picture has a class of series with its average, and the expected alignment of two of the series.
"""

import argparse
import time
import warnings
from pathlib import Path

import demo_figure
import numpy as np
import torch
from tqdm import tqdm

import libsdtw
from libsdtw.torch import SoftDTW, soft_dtw, soft_dtw_alignment

warnings.filterwarnings("ignore", message="h5py not installed")
BOUNDS = 1e-6, 2e-5  # of differences() between float32 and float64


def choose_device():
    if torch.cuda.is_available() and libsdtw.device_available("cuda"):
        return torch.device("cuda"), torch.cuda.get_device_name()
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return torch.device("cpu"), f"{names[0] if names else 'unknown'}, {torch.get_num_threads()} threads"


def trace(label=None):
    """Series (B, N, 1) of the Trace data: training set, or its members of one class."""
    from tslearn.datasets import CachedDatasets

    train, labels, test, _ = CachedDatasets().load_dataset("Trace")
    if label is not None:
        return torch.from_numpy(train[labels == label].astype(np.float32))
    return [torch.from_numpy(a.astype(np.float32)) for a in (train, test)]


def batches():
    """(name, x, y, x_lengths, y_lengths) of real batches: padded (B, N, D), lengths None where all are N."""
    from aeon.datasets import load_gunpoint, load_japanese_vowels

    yield ("Trace", *trace(), None, None)
    train, test = (
        torch.from_numpy(load_gunpoint(split=s)[0].astype(np.float32)).mT for s in ("train", "test")
    )
    yield "GunPoint", train.repeat(3, 1, 1), test, None, None
    sets = []
    for split in ("train", "test"):
        series = [
            torch.from_numpy(a.T.astype(np.float32)) for a in load_japanese_vowels(split=split)[0][:270]
        ]
        lengths = torch.tensor([len(s) for s in series])
        sets.append((torch.nn.utils.rnn.pad_sequence(series, batch_first=True), lengths))
    (x, x_lengths), (y, y_lengths) = sets
    yield "JapaneseVowels", x, y, x_lengths, y_lengths


def by_tslearn(x, y, x_lengths, y_lengths, gamma, name):
    """Values and gradients of all pairs, in float64 and pair by pair, and the seconds they take."""
    from tslearn.metrics import SoftDTW as TslearnSoftDTW
    from tslearn.metrics import SquaredEuclidean

    def pair(a, b):
        distance = SquaredEuclidean(a, b, be="numpy")  # else it prints arrays to find out what they are
        recursion = TslearnSoftDTW(distance, gamma=gamma, be="numpy")
        value, alignment = recursion.compute(), recursion.grad()
        transposed = np.ascontiguousarray(alignment.T)
        return (
            value,
            distance.jacobian_product(alignment),
            SquaredEuclidean(b, a, be="numpy").jacobian_product(transposed),
        )

    x, y = x.double().numpy(), y.double().numpy()
    n = [x.shape[1]] * len(x) if x_lengths is None else x_lengths.tolist()
    m = [y.shape[1]] * len(y) if y_lengths is None else y_lengths.tolist()
    pair(x[0, : n[0]], y[0, : m[0]])  # compiles
    values, grad_x, grad_y = np.empty(len(x)), np.zeros_like(x), np.zeros_like(y)
    begin = time.perf_counter()
    for b in tqdm(range(len(x)), desc=f"tslearn on {name}", leave=False):
        values[b], grad_x[b, : n[b]], grad_y[b, : m[b]] = pair(x[b, : n[b]], y[b, : m[b]])
    return (values, grad_x, grad_y), time.perf_counter() - begin


def by_libsdtw(x, y, x_lengths, y_lengths, gamma, device, repeat=5):
    """The same from one call on the whole batch in float32; the median time of some repetitions."""
    x, y = x.to(device).requires_grad_(), y.to(device).requires_grad_()
    lengths = {"x_lengths": x_lengths, "y_lengths": y_lengths}
    lengths = {k: v if v is None else v.to(device) for k, v in lengths.items()}
    seconds = []
    for _ in range(repeat + 1):
        begin = time.perf_counter()
        values = soft_dtw(x, y, gamma=gamma, **lengths)
        grads = torch.autograd.grad(values.sum(), (x, y))
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return [t.detach().double().cpu().numpy() for t in (values, *grads)], float(np.median(seconds[1:]))


def differences(ours, theirs, gamma):
    """Largest difference of values and of gradients, over the pairs.

    A value is a cost less gamma times an entropy, which may cancel: its difference is relative to
    max(|value|, gamma n). A gradient's is relative to the pair's largest entry.
    """
    value, other = ours[0], theirs[0]
    scale = np.maximum(np.abs(other), gamma * theirs[1].shape[1])
    peaks = [np.abs(grad).max(axis=(1, 2), keepdims=True) for grad in theirs[1:]]
    gradients = [np.max(np.abs(a - b) / p) for a, b, p in zip(ours[1:], theirs[1:], peaks, strict=True)]
    return np.max(np.abs(value - other) / scale), max(gradients)


def compare(device, gamma):
    """Prints one line per batch: how long both take, on one thread of the CPU, and how far they are apart."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    where = "one thread each" if device.type == "cpu" else "tslearn on one thread, libsdtw on the GPU"
    print(f"\nValue and gradients of real batches, gamma {gamma:g}, {where}:\n")
    print(f"  {'':15}{'pairs':>5}{'length':>8}{'features':>10}{'tslearn':>10}{'libsdtw':>11}", end="")
    print(f"{'faster':>9}{'value off':>12}{'gradient off':>14}")
    for name, x, y, x_lengths, y_lengths in batches():
        theirs, their_seconds = by_tslearn(x, y, x_lengths, y_lengths, gamma, name)
        ours, seconds = by_libsdtw(x, y, x_lengths, y_lengths, gamma, device)
        value_off, gradient_off = differences(ours, theirs, gamma)
        length = f"{x.shape[1]}" if x_lengths is None else f"{x_lengths.min()}-{x_lengths.max()}"
        times = f"{their_seconds * 1e3:>7.0f} ms{seconds * 1e3:>8.2f} ms{their_seconds / seconds:>7.0f} x"
        print(
            f"  {name:15}{len(x):>5}{length:>8}{x.shape[2]:>10}{times}{value_off:>12.1e}{gradient_off:>14.1e}"
        )
        if value_off > BOUNDS[0] or gradient_off > BOUNDS[1]:
            raise SystemExit(f"{name}: libsdtw and tslearn disagree")
    print("\n  off: largest difference of float32 from float64, of values relative to max(|value|, gamma n),")
    print("  of gradients relative to their largest entry")
    torch.set_num_threads(threads)


def medoid(series, gamma):
    """The series with the smallest mean soft-DTW to all: a start for the descent with a shape of its own."""
    totals = [
        soft_dtw(one, series, gamma=gamma, reduction="mean")
        for one in tqdm(series, desc="medoid", leave=False)
    ]
    return series[torch.stack(totals).argmin()]


def average(series, gamma, steps=80):
    """Descends the mean soft-DTW to all series, from their medoid."""
    center = medoid(series, gamma).clone().requires_grad_()
    loss = SoftDTW(gamma=gamma, reduction="mean")
    optimizer = torch.optim.Adam([center], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    progress = tqdm(range(steps), desc="averaging", leave=False)
    for _ in progress:
        optimizer.zero_grad()
        value = loss(center, series)
        value.backward()
        optimizer.step()
        schedule.step()
        progress.set_postfix(loss=f"{value.item():.2f}")
    return center.detach()


def show_average(series, gamma):
    """Averages, and prints how near to all series the average is."""
    begin = time.perf_counter()
    center = average(series, gamma)
    seconds = time.perf_counter() - begin
    print(
        f"\nAverage of {len(series)} series of Trace, by descent in {seconds:.1f} s. Mean soft-DTW to them:\n"
    )
    nearest = medoid(series, gamma)
    candidates = {
        "their arithmetic mean": series.mean(dim=0),
        "the nearest of them": nearest,
        "the average": center,
    }
    for name, candidate in candidates.items():
        print(f"  {name:22}{soft_dtw(candidate, series, gamma=gamma, reduction='mean').item():8.3f}")
    print(f"\n  gamma {gamma:g}; below 0 since soft-DTW subtracts gamma times the entropy of the paths")
    return center


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--output", type=Path, default=Path("demo.png"), help="the picture (default: demo.png)"
    )
    args = parser.parse_args()

    device, hardware = choose_device()
    print(f"{libsdtw.build_info()}\nrunning on: {device.type}, {hardware}")
    compare(device, gamma=1.0)
    series = trace(label=1).to(device)
    center = show_average(series, gamma=0.01)

    # The two series whose peaks are farthest apart
    peaks = series[..., 0].argmax(dim=1)
    x, y = series[peaks.argmin()], series[peaks.argmax()]
    alignment = soft_dtw_alignment(x, y, gamma=1.0)
    arrays = [t.squeeze(-1).cpu().numpy() for t in (series, center, x, y)]
    args.output.parent.mkdir(parents=True, exist_ok=True)
    demo_figure.draw(args.output, *arrays, alignment.cpu().numpy(), gamma=1.0)
    print(f"\npicture: {args.output.resolve()}")


if __name__ == "__main__":
    main()
