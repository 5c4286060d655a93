"""Writes the measured tables into README.md and docs/*.md, between their markers, from benchmarks/results/.

    python benchmarks/tables.py            rewrite
    python benchmarks/tables.py --check    end with status 1 if a page differs from what the results say

A page holds <!-- table: NAME --> and <!-- end of table --> on lines of their own; TABLES has the names.
"""

import argparse
import itertools
import json
import re
import sys
from pathlib import Path

from cells import digits, filled, markdown, megabytes, milliseconds, percent, scaled, source
from compare import TARGETS, measured_ratios, measured_targets
from family_tables import cliffs, family
from results import faster, gcells, load, load_ceilings, name_of, select, shape_of

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks/results"
MARKER = re.compile(r"(<!-- table: (?P<name>[\w-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
PAGES = ("README.md", "docs/*.md")


def fastest_peer(rows, shape):
    rows = [r for r in rows if name_of(r) != "libsdtw" and r["phase"] == "value+grad"]
    return min((r for r in rows if shape_of(r) == shape), key=lambda r: r["median_ms"], default=None)


def ours_and_peers(rows):
    """Value and gradients on the grid that peers publish: the library, by two calls and by one, and how much
    faster the faster of these is than the fastest of the others."""
    lines = []
    ours = select(rows, library="libsdtw", phase="value+grad")
    for row in sorted(ours, key=lambda r: (r["B"], r["N"], r["d"])):
        same = select(rows, library="libsdtw", **{k: row[k] for k in ("B", "N", "M", "d")})
        value, *one = select(same, phase="value") + select(same, phase="one call")
        peer = fastest_peer(rows, shape_of(row))
        other = ["", "", ""]
        if peer:
            ratio = peer["median_ms"] / faster(same)[0]["median_ms"]
            other = [f"{milliseconds(peer)} ({name_of(peer)})", megabytes(peer), f"{ratio:.0f} times"]
        size = [row["B"], row["N"], row["d"]]
        once = [milliseconds(one[0]), megabytes(one[0])] if one else ["", ""]
        lines.append([*size, milliseconds(value), milliseconds(row), megabytes(row), *once, *other])
    header = [
        "B",
        "N = M",
        "d",
        "value",
        "value and gradients",
        "memory",
        "in one call",
        "its memory",
        "fastest peer",
        "its memory",
        "faster",
    ]
    return filled(header, lines)


def targets(rows):
    goals = json.loads(TARGETS.read_text())
    ways = "value", "with gradients", "in one call"
    of_phase = {"value": ways[0], "one call": ways[2]}
    speeds = {
        (isa, shape, of_phase.get(phase, ways[1])): got
        for isa, shape, phase, got, _ in measured_targets(rows, goals)
    }
    columns = list(itertools.product(("avx512", "avx2"), ways))
    lines = []
    for shape in dict.fromkeys(shape for _, shape, _ in speeds):
        cells = [speeds.get((isa, shape, way)) for isa, way in columns]
        lines.append([shape, *("" if c is None else f"{c:.2f}" for c in cells)])
    names = {"avx512": "AVX-512", "avx2": "AVX2"}
    titles = [f"{names[isa]} {way}" if way == "value" else way for isa, way in columns]
    return filled(["(B, N, M, d)", *titles], lines)


def ratios(rows):
    goals = json.loads(TARGETS.read_text())
    found = {}
    for what, shape, phase, ratio, _ in measured_ratios(rows, goals):
        found.setdefault(shape, {})[what, phase] = ratio
    columns = [(what, phase) for what in ("2 threads / 1", "f64 / f32") for phase in ("value", "value+grad")]
    lines = [
        [shape, *(f"{cells[c]:.2f}" if c in cells else "" for c in columns)] for shape, cells in found.items()
    ]
    header = [
        "(B, N, M, d)",
        "2 threads over 1, value",
        "with gradients",
        "float64 over float32, value",
        "with gradients",
    ]
    return markdown(header, lines)


def speeds(rows, group):
    """Every case of a group: its use, times, memory and speed of the value, and with gradients."""
    chosen = select(rows, group, library="libsdtw")
    values = {(r["use"], shape_of(r), r["gamma"]): r for r in chosen if r["phase"] == "value"}
    lines = []
    for row in (r for r in chosen if r["phase"] == "value+grad"):
        pair = values[row["use"], shape_of(row), row["gamma"]], row
        what = [row["use"], shape_of(row), f"{row['gamma']:g}"]
        lines.append([*what, *map(milliseconds, pair), megabytes(row), *(digits(gcells(r)) for r in pair)])
    header = [
        "use",
        "(B, N, M, d)",
        "gamma",
        "value",
        "with gradients",
        "memory",
        "Gcells/s",
        "with gradients",
    ]
    empty = 0 if any(line[0] for line in lines) else 1
    return markdown(header[empty:], [line[empty:] for line in lines])


def launches(rows, **fields):
    """A case's row on a stream, and its time on a stream and from a graph."""
    stream, graph = (select(rows, library="libsdtw", launch=how, **fields)[0] for how in ("stream", "graph"))
    return stream, [milliseconds(stream), milliseconds(graph)]


def gpu_targets(rows):
    """What a GPU reaches beside what it is to reach."""
    goals, lines = json.loads(TARGETS.read_text())["cuda"], []
    rows = [r for r in rows if {"gpu", "gpu value"} & set(r["groups"])]
    for row in (r for r in rows if r["launch"] == "stream" and shape_of(r) in goals.get(r["phase"], {})):
        fields = {k: row[k] for k in ("B", "N", "M", "d", "metric", "gamma", "dtype", "phase")}
        goal = ", ".join(f"{number:g} {unit}" for unit, number in goals[row["phase"]][shape_of(row)].items())
        _, times = launches(rows, **fields)
        what = [shape_of(row), row["phase"], *times, megabytes(row)]
        lines.append([*what, f"{gcells(row) / 1e3:.2f}", percent(row), goal])
    header = ["(B, N, M, d)", "phase", "stream", "graph", "memory", "Tcells/s", "of its floor", "aim"]
    return markdown(header, lines)


def gpu_grid(rows):
    """The grid that peers publish: times on a stream and from a graph, beside the fastest of the others."""
    rows, lines = select(rows, "peers"), []
    ours = select(rows, library="libsdtw", phase="value+grad", launch="stream")
    for row in sorted(ours, key=lambda r: (r["B"], r["N"], r["d"])):
        size = {k: row[k] for k in ("B", "N", "M", "d")}
        value, value_times = launches(rows, phase="value", **size)
        _, times = launches(rows, phase="value+grad", **size)
        peer = fastest_peer(rows, shape_of(row))
        other = [milliseconds(peer), megabytes(peer)] if peer else ["", ""]
        what = [row["B"], row["N"], row["d"], *value_times, percent(value), *times, percent(row)]
        lines.append([*what, megabytes(row), *other])
    header = [
        "B",
        "N = M",
        "d",
        "value",
        "graph",
        "of floor",
        "with gradients",
        "graph",
        "of floor",
        "memory",
    ]
    return markdown([*header, "anti-diagonals", "their memory"], lines)


def gpu_ceilings(ceilings):
    return markdown(["", "rate", ""], [[c["ceiling"], f"{c['rate']:.3g}", c["unit"]] for c in ceilings])


def accuracy(rows):
    """The largest errors over inputs and features, by gamma and length."""
    lines = []
    for gamma, n in sorted({(r["gamma"], r["N"]) for r in rows}):
        chosen = [r for r in rows if (r["gamma"], r["N"]) == (gamma, n)]
        errors = [max(r[name] for r in chosen) for name in ("value_error", "gradient_error", "corner_error")]
        parts = [r["value_error"] * min(1, abs(r["value"]) / r["path_cost"]) for r in chosen]
        errors.insert(1, max(parts))
        lines.append([f"{gamma:g}", n, *(f"{e:.1e}" for e in errors)])
    return markdown(["gamma", "N = M", "value", "value, of its parts", "gradient", "corners of E"], lines)


def scaled_costs(rows):
    """Gradient errors by t (n + m), t the largest scaled cost, which decides how costs are computed."""
    products = [(r, 2 * r["N"] * r["scaled_cost"]) for r in rows]
    lines = []
    for low, high in itertools.pairwise((0, 1e4, 1e5, 1e6, 1e7, float("inf"))):
        chosen = [r for r, product in products if low < product <= high]
        name = f"{low:.0e} to {high:.0e}" if low and high < float("inf") else f"below {high:.0e}"
        name = name if high < float("inf") else f"above {low:.0e}"
        errors = [
            max((r["gradient_error"] for r in chosen if (r["d"] >= 16) == many), default=None)
            for many in (False, True)
        ]
        lines.append([name, len(chosen), *("" if e is None else f"{e:.1e}" for e in errors)])
    return markdown(["t (n + m)", "measurements", "1 or 8 features", "64 features"], lines)


def extremes(rows):
    """The largest errors of each kind of extreme inputs, on either device."""
    errors = (
        ("value", lambda r: r["value_error"]),
        ("gradient", lambda r: r["gradient_error"]),
        ("E", lambda r: r.get("alignment_error")),
        ("corners of E", lambda r: r.get("corner_error")),
        ("missing", lambda r: max(0, 1 - r["least_sum"]) if "least_sum" in r else None),
    )
    devices = {"cpu": "CPU", "cuda": "GPU"}
    lines = []
    for name in dict.fromkeys(r["extreme"] for r in rows):
        chosen = {d: [r for r in rows if (r["extreme"], r["device"]) == (name, d)] for d in devices}
        line = [name, max(map(len, chosen.values()))]
        for (_, error), device in itertools.product(errors, devices):
            found = [e for e in map(error, chosen[device]) if e is not None]
            line.append(f"{max(found):.1e}" if found else "")
        lines.append(line)
    columns = [f"{what}, {device}" for (what, _), device in itertools.product(errors, devices.values())]
    return markdown(["inputs", "measurements", *columns], lines)


def collections(rows):
    """k-means, neighbours and averages beside other packages, each beside the library's row of the same: of
    k-means that which ends where the other does."""
    lines = []
    for row in rows:
        if "library" not in row or "million" in row["what"]:
            continue
        same = [r for r in rows if (r["what"], r.get("data")) == (row["what"], row["data"])]
        ours = next(r for r in same if r["library"] == "libsdtw")
        ours = next((r for r in same if r["library"].endswith("inertia")), ours)
        found = {"inertia": "inertia {:.1f}", "ari": "ARI {:.2f}", "accuracy": "accuracy {:.2f}", "same":
        "{:.0%} the same",
                 "loss": "mean {:.3f}"}  # fmt: skip
        parts = [text.format(row[key]) for key, text in found.items() if key in row]
        parts += [f"one {share:.1%} above" for share in row.get("off", ()) if share]
        result = ", ".join(parts)
        is_ours = row["library"].startswith("libsdtw")
        ratio = "" if is_ours else f"{row['cpu_s'] / ours['cpu_s']:.0f} times"
        time = scaled(row["cpu_s"] * 1e6, ["us", "ms", "s"])
        memory = "" if row.get("extra_bytes") is None else megabytes(row)
        lines.append([row["what"], row["data"], row["library"], time, ratio, memory, result])
    return markdown(["", "data", "package", "processor time", "slower", "memory", "result"], lines)


def threads(rows):
    """How many times as fast some threads are as one."""
    counts = [count for count in sorted({row["threads"] for row in rows}) if count > 1]
    lines = []
    for shape in dict.fromkeys(map(shape_of, rows)):
        line = [shape]
        for phase in ("value", "value+grad"):
            same = {row["threads"]: row for row in rows if (shape_of(row), row["phase"]) == (shape, phase)}
            line += [digits(same[1]["median_ms"] / same[count]["median_ms"]) for count in counts]
        lines.append(line)
    header = [f"{count} threads, {way}" for way in ("value", "with gradients") for count in counts]
    return markdown(["(B, N, M, d)", *header], lines)


def float64(rows):
    """What avoiding float64 saves of it, and takes on a GPU that has plenty."""
    lines = []
    for row in rows:
        size = f"{row['B']} x {row['By']}" if row["pairs"] != "batch" else row["B"]
        what = row["what"] + (f", gamma {row['gamma']:g}" if row["what"] == "all pairs" else "")
        counts = [digits(row["per_cell"]), digits(row["without_per_cell"])]
        times = [milliseconds(row), milliseconds({"median_ms": row["without_ms"]})]
        lines.append([what, f"({size}, {row['N']}, {row['M']}, {row['d']})", *counts, *times])
    return markdown(["problem", "shape", "a cell", "without", "time", "without"], lines)


def collections_cuda(rows):
    """The estimators on a GPU, beside one core of its host."""
    lines = []
    for row in rows:
        of = f"{row['series']:,} of {row['steps']} steps".replace(",", " ")
        times = scaled(row["gpu_s"] * 1e6, ["us", "ms", "s"]), scaled(row["core_s"] * 1e6, ["us", "ms", "s"])
        shares = [row["of_gpu"], times[0], row["of_core"], times[1]]
        lines.append([row["what"], of, *shares, digits(row["times_a_core"])])
    header = ["", "collection", "series or queries", "GPU", "of them for the core", "core", "faster"]
    return markdown(header, lines)


def builds(rows):
    """How long the library takes to build, and how large it is."""
    names = {"cpu": "the CPU", "9.0": "compute capability 9.0", "all-major": "all-major"}
    lines = []
    for row in rows:
        times = [scaled(row[key], ["s"]) for key in ("configure_s", "build_s", "cpu_s")]
        size, packed = (scaled(row[key], ["B", "kB", "MB"]) for key in ("library_bytes", "fatbin_bytes"))
        code = "; ".join(
            f"{name} {scaled(bytes_, ['B', 'kB', 'MB'])}" for name, bytes_ in (row["code"] or {}).items()
        )
        packed = packed if row["fatbin_bytes"] else ""
        lines.append([names[row["what"]], row["compilers"], row["jobs"], *times, size, packed, code])
    header = ["for", "compilers", "jobs", "configure", "build", "processor time", "library"]
    return filled([*header, "code for GPUs, packed", "unpacked"], lines)


DRAWN = {
    "--residues": "lengths around multiples of 16, 32 and 128",
    "--thin": "long series beside short ones",
    "--large": "large ones",
    "--problem": "lines for what had failed, or might",
    "--lines": "lines for what had failed, or might",
    "sdtw_fuzz": "calls from bytes, valid and invalid",
    "test_family.py": "the Python package, by hypothesis",
    "sdtw_differential": "all shapes",
}


def random_problems(rows):
    """How many random problems were held against the oracle, and failed, by where and what was drawn."""
    sums = {}
    for row in rows:
        drawn = next((what for sign, what in DRAWN.items() if sign in row["driver"]), None)
        if drawn is None:
            continue  # what compute-sanitizer watched
        where = {"cpu": "CPU", "cuda": "GPU"}.get(row["device"], "GPU's kernels on a CPU")
        count = row.get("executions") or row.get("problems_compared") or row["problems"]
        before = sums.get((where, drawn), (0, 0))
        sums[where, drawn] = (before[0] + count, before[1] + row["failed"])
    places = {what: place for place, what in enumerate(DRAWN.values())}
    order = sorted(sums, key=lambda key: (key[0], -places[key[1]]))
    lines = [[*key, f"{sums[key][0]:,}".replace(",", " "), sums[key][1]] for key in order]
    return markdown(["where", "what is drawn", "problems", "failed"], lines)


def rows_of(table, file):
    """What a table is of: accuracy.json has two parts, and of the grid's rows the CPU's are shown."""
    rows = load(RESULTS / file)
    if table == "extremes":
        return [row for row in rows if "extreme" in row]
    if file == "accuracy.json":
        return [row for row in rows if "extreme" not in row and row["device"] == "cpu"]
    if file == "family.json":
        return [row for row in rows if row["device"] == ("cpu" if table == "family-cpu" else "cuda")]
    return rows


TABLES = {
    "cpu-summary": ("cpu.json", lambda rows: ours_and_peers(select(rows, "beside"))),
    "cpu-peers": ("cpu.json", lambda rows: ours_and_peers(select(rows, "peers") + select(rows, "beside"))),
    "cpu-targets": ("cpu.json", targets),
    "cpu-ratios": ("cpu.json", ratios),
    "cpu-users": ("cpu.json", lambda rows: speeds(rows, "users")),
    "cuda-ceilings": ("cuda.json", lambda rows: gpu_ceilings(load_ceilings(RESULTS / "cuda.json"))),
    "cuda-targets": ("cuda.json", gpu_targets),
    "cuda-grid": ("cuda.json", gpu_grid),
    "cuda-users": ("cuda.json", lambda rows: speeds(select(rows, launch="stream"), "users")),
    "accuracy": ("accuracy.json", accuracy),
    "extremes": ("accuracy.json", extremes),
    "collections": ("collections.json", collections),
    "collections-cuda": ("collections-cuda.json", collections_cuda),
    "family": ("family.json", family),
    "family-cpu": ("family.json", family),
    "cuda-cliffs": ("family.json", cliffs),
    "cpu-threads": ("threads.json", threads),
    "cuda-float64": ("float64.json", float64),
    "scaled-costs": ("accuracy.json", scaled_costs),
    "builds": ("build.json", builds),
    "random": ("random.json", random_problems),
}


def render(match):
    file, build = TABLES[match["name"]]
    rows = rows_of(match["name"], file)
    if match["name"] == "random":  # of many commits
        return f"{match[1]}{build(rows)}{match[3]}"
    return f"{match[1]}{build(rows)}\n{source(rows)}\n{match[3]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    stale = []
    for page in sorted(p for pattern in PAGES for p in ROOT.glob(pattern)):
        before = page.read_text()
        after = MARKER.sub(render, before)
        if after != before:
            stale.append(page.relative_to(ROOT))
            if not args.check:
                page.write_text(after)
    print(
        "\n".join(f"{'differs' if args.check else 'rewrote'}: {page}" for page in stale)
        or "all pages are current"
    )
    sys.exit(bool(args.check and stale))


if __name__ == "__main__":
    main()
