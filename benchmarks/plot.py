"""Draws result files: speed per shape beside other packages, time and memory against length.

python benchmarks/plot.py benchmarks/results/cpu.json --output docs/images
"""

import argparse
import functools
import itertools
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from results import faster, load, name_of, select

STYLE = {
    "libsdtw": ("#0b6e99", "o"),
    "tslearn": ("#d9822b", "s"),
    "tslearn (torch)": ("#b8860b", "D"),
    "pysdtw": ("#8e5ea2", "^"),
    "aeon": ("#4c9f70", "v"),
    "anti-diagonals, one block a pair": ("#d9822b", "s"),
    "anti-diagonals, one launch each": ("#8e5ea2", "^"),
}
RC = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.7,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}
PHASES = {"value": "value", "value+grad": "value and gradients"}


def libraries_of(rows):
    present = {name_of(r) for r in rows}
    return [name for name in STYLE if name in present]


def caption_text(rows):
    row = rows[0]
    what = f"{row['hardware']}, one core" if row["device"] == "cpu" else row["hardware"]
    return f"{what}, float32, gamma 1; commit {row['commit']}, {row['date']}"


def caption(figure, rows):
    figure.text(0.995, 0.008, caption_text(rows), ha="right", va="bottom", fontsize=7, color="#777777")


def speed(rows, path):
    """Millions of cells per second of every library on the shapes that peers publish."""
    rows = select(rows, "beside")
    shapes = sorted({(r["d"], r["N"]) for r in rows}, reverse=True)
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharex=True, sharey=True, layout="constrained")
    for axis, (phase, title) in zip(axes, PHASES.items(), strict=True):
        for name in libraries_of(rows):
            color, marker = STYLE[name]
            found = select(rows, phase=phase) if phase == "value" else faster(select(rows))
            chosen = [r for r in found if name_of(r) == name]
            at = [shapes.index((r["d"], r["N"])) for r in chosen]
            speeds = [r["cells_per_s"] / 1e6 for r in chosen]
            size = 64 if name == "libsdtw" else 36
            axis.scatter(speeds, at, s=size, color=color, marker=marker, label=name, zorder=3)
        axis.set(xscale="log", title=title, xlabel="million cells per second")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_yticks(range(len(shapes)), [f"N = M = {n},  d = {d}" for d, n in shapes])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.get_layout_engine().set(rect=(0, 0.035, 1, 0.965))
    caption(figure, rows)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def length(rows, path, group="length"):
    """Time and memory of value and gradients against length, a line per library and number of features."""
    rows = select(rows, group, phase="value+grad")
    features = sorted({r["d"] for r in rows})
    figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
    for name, d in itertools.product(libraries_of(rows), features):
        color, marker = STYLE[name]
        chosen = sorted((r for r in rows if (name_of(r), r["d"]) == (name, d)), key=lambda r: r["N"])
        style = {
            "color": color,
            "marker": marker,
            "markersize": 5,
            "linestyle": "--" if d > features[0] else "-",
        }
        style["label"] = f"{name}, d = {d}" if len(features) > 1 else name
        axes[0].plot([r["N"] for r in chosen], [r["median_ms"] / 1e3 for r in chosen], **style)
        known = [r for r in chosen if r["extra_bytes"]]
        axes[1].plot([r["N"] for r in known], [r["extra_bytes"] / 1e6 for r in known], **style)
    batch = f", {rows[0]['B']} pairs" if rows[0]["B"] > 1 else ""
    axes[0].set(title=f"time, s{batch}", xlabel="N = M", xscale="log", yscale="log")
    axes[1].set(title="memory beyond inputs and outputs, MB", xlabel="N = M", xscale="log", yscale="log")
    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:.0f}")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.tick_params(axis="x", rotation=30)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 3), frameon=False)
    figure.get_layout_engine().set(rect=(0, 0.04, 1, 0.96))
    caption(figure, rows)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--output", type=Path, default=Path("build"), help="folder for the pictures")
    args = parser.parse_args()
    rows = load(args.file)
    plt.rcParams.update(RC)
    args.output.mkdir(parents=True, exist_ok=True)
    draw_gpu = functools.partial(length, group="gpu length")
    for group, draw in (("beside", speed), ("length", length), ("gpu length", draw_gpu)):
        if select(rows, group):
            path = args.output / f"benchmark-{rows[0]['device']}-{group.split()[-1]}.png"
            draw(rows, path)
            print(path)


if __name__ == "__main__":
    main()
