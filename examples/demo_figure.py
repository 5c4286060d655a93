"""The demo's picture: a class of series with its average, and the expected alignment of two of them."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.lines import Line2D

INK, MUTED, FAINT = "#1d2733", "#7b8794", "#c9d1d9"
BLUE, CORAL = "#0b6e99", "#d1495b"
HEAT = ["#ffffff", "#cfe8f3", "#73bfe2", "#1696d2", "#0a4c6a", "#05263a"]
LINES = {
    "the series": {"color": FAINT, "linewidth": 0.8},
    "arithmetic mean": {"color": CORAL, "linewidth": 1.7, "linestyle": (0, (4, 2))},
    "soft-DTW average": {"color": BLUE, "linewidth": 2.4},
}


def draw(path, series, center, x, y, alignment, gamma):
    """Writes the picture. series (B, N); center, x and y (N,); alignment (N, N), at gamma."""
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 9, "text.color": INK})
    figure = plt.figure(figsize=(10, 4.7), facecolor="white")
    outer = figure.add_gridspec(
        1, 2, width_ratios=[1.3, 1], left=0.04, right=0.985, top=0.83, bottom=0.1, wspace=0.1
    )
    _average(figure.add_subplot(outer[0]), series, center)
    _alignment(figure, outer[1], x, y, alignment)
    right = outer[1].get_position(figure).x0
    _title(
        figure, 0.04, "An average that keeps the shape", f"{len(series)} series of the Trace data, class 1"
    )
    note = f"probability that a path visits a cell; gamma = {gamma:g}"
    _title(figure, right, "Expected alignment of two of them", note)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _title(figure, left, title, note):
    figure.text(left, 0.92, title, fontsize=12, fontweight="bold", va="bottom")
    figure.text(left, 0.87, note, fontsize=8.5, color=MUTED, va="bottom")


def _average(axis, series, center):
    time = np.arange(series.shape[1])
    for curve, style in zip((series.T, series.mean(axis=0), center), LINES.values(), strict=True):
        axis.plot(time, curve, **style)
    for side, spine in axis.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(FAINT)
    axis.tick_params(colors=MUTED, length=3)
    axis.set_xlim(0, len(time) - 1)
    axis.set_xlabel("time step", color=MUTED)
    axis.legend(
        [Line2D([], [], **style) for style in LINES.values()], LINES, frameon=False, loc="upper right"
    )


def _alignment(figure, place, x, y, alignment):
    """Heat map with x down its left side and y along its top, each to scale with its rows or columns."""
    grid = place.subgridspec(2, 2, width_ratios=[1, 4.4], height_ratios=[1, 4.4], wspace=0.02, hspace=0.02)
    top, left, heat = (figure.add_subplot(grid[at]) for at in ((0, 1), (1, 0), (1, 1)))
    rows, columns = (-0.5, len(x) - 0.5), (-0.5, len(y) - 0.5)
    values = (min(x.min(), y.min()) - 0.5, max(x.max(), y.max()) + 0.2)
    top.plot(np.arange(len(y)), y, color=INK, linewidth=1.3)
    top.set(xlim=columns, ylim=values)
    left.plot(x, np.arange(len(x)), color=INK, linewidth=1.3)
    left.set(xlim=values[::-1], ylim=rows[::-1])
    top.axis("off")
    left.axis("off")

    colors = LinearSegmentedColormap.from_list("heat", HEAT)
    shown = np.maximum(alignment, 1e-3)
    image = heat.imshow(shown, cmap=colors, norm=LogNorm(1e-3, 1), aspect="auto", interpolation="nearest")
    heat.set(xticks=[], yticks=[])
    for spine in heat.spines.values():
        spine.set_color(FAINT)
    bar = figure.colorbar(image, cax=heat.inset_axes([0.5, 0.9, 0.42, 0.032]), orientation="horizontal")
    bar.set_ticks([1e-3, 1e-2, 1e-1, 1], labels=["0.001", "0.01", "0.1", "1"], fontsize=7, color=MUTED)
    bar.ax.tick_params(which="both", length=0, pad=2)
    bar.outline.set_visible(False)
