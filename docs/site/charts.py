"""Interactive charts of results, some in place of the pictures that benchmarks/plot.py draws from them."""

import functools
import json
import re
import sys

from links import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from plot import PHASES, STYLE, caption_text, libraries_of
from results import load, name_of, select

PICTURE = re.compile(r"^!\[(?P<title>[^\]]*)\]\((?P<path>images/(?P<name>benchmark-[\w-]+)\.png)\)$", re.M)
MARKER = re.compile(r"^<!-- chart: (?P<name>[\w-]+): (?P<title>.*) -->$", re.M)
SHADES = "#d9822b", "#0b6e99", "#8e5ea2"
DASHES = ("solid", "dash", "dot")
LOG = {"type": "log", "exponentformat": "none", "dtick": 1}


def trace(name, x, y, texts, color, **options):
    hover = {"text": texts, "hovertemplate": "%{text}<extra></extra>"}
    return {"name": name, "x": x, "y": y, **hover, "marker": {"color": color, "size": 9}, **options}


def seconds(row):
    return f"{row['median_ms']:.3g} ms"


def speed(rows):
    """Million cells per second of every library on the shapes that peers publish, a chart for each phase."""
    rows = select(rows, "beside")
    figures = []
    for phase, title in PHASES.items():
        traces = []
        for name in libraries_of(rows):
            chosen = [r for r in select(rows, phase=phase) if name_of(r) == name]
            chosen.sort(key=lambda r: (r["d"], r["N"]))
            shapes = [f"{r['N']} steps, d = {r['d']}" for r in chosen]
            speeds = [r["cells_per_s"] / 1e6 for r in chosen]
            texts = [
                f"<b>{name}</b>, {shape}<br>{speed:.4g} million cells/s<br>{seconds(r)} for {r['B']} pairs"
                for r, shape, speed in zip(chosen, shapes, speeds, strict=True)
            ]
            traces.append(trace(name, speeds, shapes, texts, STYLE[name][0], mode="markers"))
        axes = {"xaxis": {**LOG, "title": "million cells per second"}, "yaxis": {"autorange": "reversed"}}
        figures.append({"title": title, "data": traces, "layout": axes})
    return figures, caption_text(rows)


def length(rows, group):
    """Time and memory of value and gradients against length."""
    rows = select(rows, group, phase="value+grad")
    features = sorted({r["d"] for r in rows})
    batch = f", {rows[0]['B']} pairs" if rows[0]["B"] > 1 else ""
    measures = {
        f"time, ms{batch}": lambda r: r["median_ms"],
        "memory beyond inputs and outputs, MB": lambda r: r["extra_bytes"] and r["extra_bytes"] / 1e6,
    }
    figures = []
    for title, measure in measures.items():
        traces = []
        for name in libraries_of(rows):
            for d, dash in zip(features, DASHES, strict=False):
                chosen = [r for r in rows if (name_of(r), r["d"]) == (name, d) and measure(r)]
                chosen.sort(key=lambda r: r["N"])
                label = f"{name}, d = {d}" if len(features) > 1 else name
                texts = [
                    f"<b>{label}</b>, {r['N']} steps<br>{seconds(r)}"
                    + (f"<br>{r['extra_bytes'] / 1e6:.4g} MB" if r["extra_bytes"] else "")
                    for r in chosen
                ]
                color, x, y = STYLE[name][0], [r["N"] for r in chosen], [measure(r) for r in chosen]
                line = {"mode": "lines+markers", "line": {"color": color, "dash": dash}}
                traces.append(trace(label, x, y, texts, color, **line))
        lengths = sorted({r["N"] for r in rows})
        ticks = [str(n) if (len(lengths) - k) % 2 else "" for k, n in enumerate(lengths)]
        axes = {
            "xaxis": {"type": "log", "title": "N = M", "tickvals": lengths, "ticktext": ticks},
            "yaxis": LOG,
        }
        figures.append({"title": title, "data": traces, "layout": axes})
    return figures, caption_text(rows)


def accuracy(rows):
    """Errors of values and gradients against gamma, the largest over inputs and features, by length."""
    rows = [row for row in rows if "extreme" not in row and row["device"] == "cpu"]
    gammas, lengths = (sorted({row[key] for row in rows}) for key in ("gamma", "N"))
    titles = {"value_error": "value, relative", "gradient_error": "gradient, relative to its largest entry"}
    figures = []
    for error, title in titles.items():
        traces = []
        for n, color in zip(lengths, SHADES, strict=True):
            worst = [max(r[error] for r in rows if (r["N"], r["gamma"]) == (n, gamma)) for gamma in gammas]
            texts = [f"<b>{n} steps</b>, gamma {g:g}<br>{e:.1e}" for g, e in zip(gammas, worst, strict=True)]
            traces.append(
                trace(f"{n} steps", gammas, worst, texts, color, mode="lines+markers", line={"color": color})
            )
        axes = {
            "xaxis": {**LOG, "title": "gamma"},
            "yaxis": {**LOG, "exponentformat": "e", "range": [-8, -4.5]},
        }
        figures.append({"title": title, "data": traces, "layout": axes})
    return figures, f"{rows[0]['hardware']}, float32; commit {rows[0]['commit']}, {rows[0]['date']}"


CHARTS = {
    "benchmark-cpu-beside": ("cpu.json", speed),
    "benchmark-cpu-length": ("cpu.json", functools.partial(length, group="length")),
    "accuracy": ("accuracy.json", accuracy),
    "benchmark-cuda-length": ("cuda.json", functools.partial(length, group="gpu length")),
}


def put_into(markdown):
    """Pictures of results become charts, and so do comments <!-- chart: NAME: TITLE -->."""

    def chart(match):
        if match["name"] not in CHARTS:
            return match[0]
        file, draw = CHARTS[match["name"]]
        figures, source = draw(load(ROOT / "benchmarks/results" / file))
        content = json.dumps({"figures": figures, "label": match["title"]}).replace("</", "<\\/")
        path = match.groupdict().get("path")
        picture = f'<noscript><img alt="{match["title"]}" src="{path}"></noscript>' if path else ""
        return (
            f'<div class="chart"><script type="application/json">{content}</script>{picture}</div>\n'
            f'<p class="chart-source">{match["title"]}. {source}.</p>\n'
        )

    return MARKER.sub(chart, PICTURE.sub(chart, markdown))
