"""Compares results: two files row by row, or one file with targets.json.

    python benchmarks/compare.py before.json after.json
    python benchmarks/compare.py --targets benchmarks/results/cpu.json

The second form ends with status 1 if a target is missed.
"""

import argparse
import json
import sys
from pathlib import Path

from results import KEY, by_key, gcells, load, select, shape_of

TARGETS = Path(__file__).with_name("targets.json")


def table(header, rows):
    """Text in aligned columns."""
    lines = [header, *rows]
    widths = [max(len(str(line[i])) for line in lines) for i in range(len(header))]
    return "\n".join("  ".join(str(c).rjust(w) for c, w in zip(line, widths, strict=True)) for line in lines)


def ratios(before, after):
    """One line per row that both files have: times and the speedup of the second, slowest first."""
    old, new = by_key(before), by_key(after)
    common = sorted(old.keys() & new.keys(), key=lambda k: old[k]["median_ms"] / new[k]["median_ms"])
    lines = []
    for key in common:
        fields = dict(zip(KEY, key, strict=True))
        what = " ".join(str(fields[k]) for k in ("library", "isa", "dtype", "phase", "launch") if fields[k])
        a, b = old[key]["median_ms"], new[key]["median_ms"]
        lines.append((what, fields["threads"], shape_of(new[key]), f"{a:.3f}", f"{b:.3f}", f"{a / b:.2f}"))
    return table(("what", "threads", "shape", "before ms", "after ms", "speedup"), lines)


def kind_of(row):
    return "cost given" if row["metric"] == "precomputed" else f"d={row['d']}"


def measured_targets(rows, targets):
    """(isa, shape, phase, Gcells/s, target) for every row that has a target."""
    ours = select(rows, library="libsdtw", dtype="f32", threads=1)
    for row in ours:
        goals = targets.get(row["isa"], {}).get(kind_of(row))
        if goals and {"targets", "cost"} & set(row["groups"]):
            yield row["isa"], shape_of(row), row["phase"], gcells(row), goals[row["phase"] != "value"]


def measured_ratios(rows, targets):
    """(what, shape, phase, ratio, target): two threads over one and float64 over float32."""
    ours = select(rows, "targets", library="libsdtw")
    find = {(r["isa"], shape_of(r), r["phase"], r["dtype"], r["threads"]): gcells(r) for r in ours}
    for (isa, shape, phase, dtype, threads), speed in find.items():
        base = find.get((isa, shape, phase, "f32", 1))
        if base and threads == 2:
            yield "2 threads / 1", shape, phase, speed / base, targets["two threads over one"]
        if base and dtype == "f64":
            yield "f64 / f32", shape, phase, speed / base, targets["float64 over float32"]


LIMITS = {
    "ms": lambda row: row["median_ms"],
    "MB": lambda row: row["extra_bytes"] / 1e6,
    "floors": lambda row: 1 / row["of_floor"],
    "Tcells/s": lambda row: gcells(row) / 1e3,
}


def measured_limits(rows, targets):
    """(unit, shape, phase, measured, target) for every row on a GPU's stream that has one."""
    for row in select(rows, library="libsdtw", device="cuda", dtype="f32", launch="stream"):
        limits = targets["cuda"].get(row["phase"], {}).get(shape_of(row), {})
        if {"gpu", "gpu value"} & set(row["groups"]):
            for unit, goal in limits.items():
                yield unit, shape_of(row), row["phase"], LIMITS[unit](row), goal


def against_targets(rows):
    """Table of measured and wanted, the number missed, and how many there are."""
    targets, lines, missed = json.loads(TARGETS.read_text()), [], 0
    found = [
        *measured_targets(rows, targets),
        *measured_ratios(rows, targets),
        *measured_limits(rows, targets),
    ]
    for what, shape, phase, got, goal in found:
        reached = got <= goal if what in ("ms", "MB", "floors") else got >= goal
        missed += not reached
        lines.append((what, shape, phase, f"{got:.3f}", goal, "yes" if reached else "NO"))
    return table(("what", "shape", "phase", "measured", "target", "reached"), lines), missed, len(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="file.json")
    parser.add_argument("--targets", action="store_true", help="compare one file with targets.json")
    args = parser.parse_args()
    if args.targets:
        text, missed, total = against_targets(load(args.files[0]))
        print(f"{text}\n{total - missed} of {total} reached (an instruction set: Gcells/s)")
        sys.exit(missed > 0)
    if len(args.files) != 2:
        parser.error("give two files, or --targets and one")
    print(ratios(*(load(f) for f in args.files)))


if __name__ == "__main__":
    main()
