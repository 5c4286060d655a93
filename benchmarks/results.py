"""Reading result files: rows as dictionaries, rows by key, rows by group, and the ceilings among them."""

import json
from pathlib import Path

KEY = (
    *("library", "device", "isa", "threads", "launch"),
    *("B", "N", "M", "d", "dtype", "metric", "gamma", "use", "phase"),
)


def load(path):
    """The measurements in a result file that run.py wrote."""
    return [row for row in json.loads(Path(path).read_text()) if row.get("phase") != "ceiling"]


def load_ceilings(path):
    """The ceilings of the GPU that were measured in the same run."""
    return [row for row in json.loads(Path(path).read_text()) if row.get("phase") == "ceiling"]


def by_key(rows):
    """Rows by what was measured; a package's version is no part of the key."""
    return {tuple(name_of(row) if k == "library" else row.get(k, "") for k in KEY): row for row in rows}


def select(rows, group=None, **fields):
    """Rows of a group whose fields have the given values, each once per key."""
    chosen = [r for r in rows if group is None or group in r["groups"]]
    chosen = [r for r in chosen if all(r.get(k, "") == v for k, v in fields.items())]
    return list(by_key(chosen).values())


def faster(rows):
    """Rows with values and gradients that come from two calls, or where that takes less time from one."""
    one = {(name_of(r), shape_of(r)): r for r in rows if r["phase"] == "one call"}
    two = [r for r in rows if r["phase"] == "value+grad"]
    return [min(r, one.get((name_of(r), shape_of(r)), r), key=lambda row: row["median_ms"]) for r in two]


def name_of(row):
    """A library's name without its version."""
    return " ".join(word for word in row["library"].split() if not word[0].isdigit())


def gcells(row):
    return row["cells_per_s"] / 1e9


def shape_of(row):
    """(B, N, M, d) as text; d is "cost" where the cost matrix is given."""
    last = "cost" if row["metric"] == "precomputed" else row["d"]
    return f"({row['B']}, {row['N']}, {row['M']}, {last})"
