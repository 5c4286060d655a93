"""Clusters series of the Trace data and draws them, their averages, and a tree of recorded gestures.

    python examples/cluster_series.py --output clusters.png

The upper row has the clusters that k-means under the soft-DTW divergence finds, with their centers; the
middle row the same series, each moved onto its center's time by the expected alignment; the lower row the
tree that SciPy builds of the matrix of all pairs of a set of gestures, colored by what the gesture was. The
data are inside tslearn and aeon.
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from demo_figure import BLUE, CORAL, FAINT, INK, MUTED
from scipy.cluster.hierarchy import dendrogram, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from libsdtw.collections import SoftDTWKMeans, median_gamma, soft_dtw_matrix
from libsdtw.numpy import soft_dtw_alignment

COLORS = [BLUE, CORAL, "#3d8f5f", "#b08900"]


def traces(each):
    from tslearn.datasets import CachedDatasets

    x, labels, _, _ = CachedDatasets().load_dataset("Trace")
    rows = np.concatenate([np.flatnonzero(labels == label)[:each] for label in np.unique(labels)])
    return x[rows].astype(np.float32), labels[rows]


def gestures(each):
    """Accelerations of a hand that holds a remote control, of different lengths, and what was done."""
    from aeon.datasets import load_basic_motions

    x, labels = load_basic_motions(split="train")
    rows = np.concatenate([np.flatnonzero(labels == label)[:each] for label in np.unique(labels)])
    return x[rows].transpose(0, 2, 1).astype(np.float32), labels[rows]


def on_centers_time(series, center, gamma):
    """Series (B, N, D) as the expected alignment with the center sees them: (B, M, D)."""
    alignment = soft_dtw_alignment(center.astype(series.dtype), series, gamma=gamma)
    weights = alignment / alignment.sum(axis=2, keepdims=True)
    return weights @ series


def draw(path, x, model, motions, tree, leaves):
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9, "text.color": INK})
    clusters = len(model.cluster_centers_)
    figure = plt.figure(figsize=(11, 8), facecolor="white")
    grid = figure.add_gridspec(
        3, clusters, left=0.04, right=0.985, top=0.91, bottom=0.08, hspace=0.42, wspace=0.12
    )
    for k, center in enumerate(model.cluster_centers_):
        members = x[model.labels_ == k]
        moved = on_centers_time(members, center, model.gamma_)
        for row, curves in enumerate((members, moved)):
            axis = figure.add_subplot(grid[row, k])
            axis.plot(curves[:, :, 0].T, color=FAINT, linewidth=0.8)
            axis.plot(center[:, 0], color=COLORS[k % len(COLORS)], linewidth=2)
            axis.set(yticks=[], xlim=(0, x.shape[1] - 1))
            axis.tick_params(colors=MUTED, length=3)
            for side, spine in axis.spines.items():
                spine.set_visible(side == "bottom")
                spine.set_color(FAINT)
            if row == 0:
                axis.set_title(f"{len(members)} series", fontsize=9, color=MUTED)
    figure.text(0.04, 0.955, "Clusters of the Trace data and their centers", fontsize=12, fontweight="bold")
    figure.text(0.04, 0.625, "The same on their centers' time", fontsize=12, fontweight="bold")
    figure.text(0.04, 0.325, "A tree of gestures", fontsize=12, fontweight="bold")
    _tree(figure.add_subplot(grid[2, :]), motions, tree, leaves)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _tree(axis, motions, tree, leaves):
    dendrogram(tree, ax=axis, no_labels=True, link_color_func=lambda _: MUTED)
    names = list(np.unique(motions))
    at = 10 * np.arange(len(leaves)) + 5  # where SciPy draws leaves
    for k, name in enumerate(names):
        these = at[motions[leaves] == name]
        axis.scatter(
            these,
            np.zeros(len(these)),
            s=40,
            color=COLORS[k % len(COLORS)],
            label=name,
            zorder=3,
            clip_on=False,
        )
    axis.set_yscale("symlog", linthresh=float(np.median(tree[:, 2])))
    axis.yaxis.set_visible(False)
    for spine in axis.spines.values():
        spine.set_visible(False)
    axis.legend(frameon=False, ncols=len(names), loc="upper center", bbox_to_anchor=(0.5, -0.04))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("clusters.png"), help="the picture")
    parser.add_argument("--each", type=int, default=25, help="series of each class, at most")
    parser.add_argument("--starts", type=int, default=5, help="starts of k-means")
    args = parser.parse_args()

    x, labels = traces(args.each)
    begin = time.perf_counter()
    model = SoftDTWKMeans(4, n_init=args.starts, random_state=0).fit(x)
    seconds = time.perf_counter() - begin
    score = adjusted_rand_score(labels, model.labels_)
    print(
        f"k-means of {len(x)} series of Trace, {args.starts} starts, gamma {model.gamma_:.3g}: "
        f"{seconds:.2f} s"
    )
    print(f"  inertia {model.inertia_:.2f}, adjusted Rand index with the classes {score:.2f}")

    series, motions = gestures(args.each)
    begin = time.perf_counter()
    matrix = soft_dtw_matrix(series, gamma=median_gamma(series))
    seconds = time.perf_counter() - begin
    print(f"all pairs of {len(series)} gestures of {series.shape[1]} steps: {seconds:.2f} s")
    tree = linkage(squareform(np.maximum(matrix, 0), checks=False), method="average")
    leaves = dendrogram(tree, no_plot=True)["leaves"]
    neighbours = np.argsort(matrix, axis=1)[:, 1]
    print(f"  whose nearest gesture is of the same kind: {np.mean(motions[neighbours] == motions):.0%}")

    args.output.parent.mkdir(parents=True, exist_ok=True)
    draw(args.output, x, model, motions, tree, np.array(leaves))
    print(f"picture: {args.output.resolve()}")


if __name__ == "__main__":
    main()
