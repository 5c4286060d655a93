"""The cases of shapes.json, expanded, their input data, and how types store it."""

import functools
import itertools
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SHAPES = Path(__file__).with_name("shapes.json")


@dataclass(frozen=True)
class Case:
    """One problem: B pairs of x (N, d) and y (M, d), or B given cost matrices (N, M) where d is 0."""

    B: int
    N: int
    M: int
    d: int
    metric: str = "sqeuclidean"
    gamma: float = 1.0
    ragged: bool = False
    use: str = ""

    @property
    def fused(self):
        return self.metric != "precomputed"

    def __str__(self):
        return f"({self.B}, {self.N}, {self.M}, {self.d if self.fused else 'cost'})"


@dataclass
class Data:
    """Arrays of a case in C order: x, y or cost; lengths (int64) or None; the number of cells."""

    x: np.ndarray | None
    y: np.ndarray | None
    cost: np.ndarray | None
    x_len: np.ndarray | None
    y_len: np.ndarray | None
    cells: int


def load(path=SHAPES):
    """(cases by group, suites): lists in a case stand for their product; a case may be in several groups."""
    spec = json.loads(Path(path).read_text())
    groups = {}
    for entry in spec["cases"]:
        names = entry.pop("groups")
        entry = {"d": 0, **entry} if entry.get("metric") == "precomputed" else entry
        axes = {k: v if isinstance(v, list) else [v] for k, v in entry.items()}
        for values in itertools.product(*axes.values()):
            fields = dict(zip(axes, values, strict=True))
            case = Case(**{"M": fields["N"], **fields})
            for name in names:
                groups.setdefault(name, []).append(case)
    return groups, spec["suites"]


@functools.lru_cache(maxsize=1)  # a case is measured in several ways, one after the other
def make_data(case, dtype, seed=0):
    """Standard normal series (cost: squares of standard normals), the same for every library."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    x = y = cost = x_len = y_len = None
    cells = case.B * case.N * case.M
    if case.fused:
        x = rng.standard_normal((case.B, case.N, case.d), dtype=dtype)
        y = rng.standard_normal((case.B, case.M, case.d), dtype=dtype)
    else:
        cost = np.square(rng.standard_normal((case.B, case.N, case.M), dtype=dtype))
    if case.ragged:
        x_len = rng.integers(case.N // 2, case.N, case.B, endpoint=True)
        y_len = rng.integers(case.M // 2, case.M, case.B, endpoint=True)
        cells = int((x_len * y_len).sum())
    return Data(x, y, cost, x_len, y_len, cells)


def stored(array, dtype):
    """An array in C order as the type has it; bf16, of which NumPy has none, as its bits."""
    if dtype == "bf16":
        return (np.ascontiguousarray(array, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array, {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype])
