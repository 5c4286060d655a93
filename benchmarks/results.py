"""Reading result files: rows as dictionaries, rows by key, rows by group."""

import json
from pathlib import Path

KEY = ("library", "device", "isa", "threads", "B", "N", "M", "d", "dtype", "metric", "gamma", "use", "phase")


def load(path):
    """The rows of a result file that run.py wrote."""
    return json.loads(Path(path).read_text())


def by_key(rows):
    """Rows by what was measured; a package's version is no part of the key."""
    return {tuple(name_of(row) if k == "library" else row[k] for k in KEY): row for row in rows}


def select(rows, group=None, **fields):
    """Rows of a group whose fields have the given values, each once per key."""
    chosen = [r for r in rows if group is None or group in r["groups"]]
    chosen = [r for r in chosen if all(r[k] == v for k, v in fields.items())]
    return list(by_key(chosen).values())


def name_of(row):
    """A library's name without its version."""
    return " ".join(word for word in row["library"].split() if not word[0].isdigit())


def gcells(row):
    return row["cells_per_s"] / 1e9


def shape_of(row):
    """(B, N, M, d) as text; d is "cost" where the cost matrix is given."""
    last = "cost" if row["metric"] == "precomputed" else row["d"]
    return f"({row['B']}, {row['N']}, {row['M']}, {last})"
