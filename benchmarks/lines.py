"""The line of a problem, as tests/problem.h reads it: benchmark rows carry it, failing Python tests print it.

    build/dev/tests/sdtw_differential --problem 'metric=cosine dtype=f32 B=32 n=512 m=512 d=8 gamma=1 seed=1'

computes the problem and holds it against the oracle. A row's line says what was computed; where and how is in
the row's other fields: device, threads, instruction set, launch. Its data are of the same kind as the row's,
and the driver draws them anew.
"""

KEYS = (
    *("metric", "dtype", "B", "n", "m", "d", "gamma", "band", "weights", "penalties", "pairs", "state"),
    *("lengths", "layout", "data", "scale", "tangents", "seed"),
)
# What goes without saying.
USUAL = {
    "band": "none",
    "weights": (1, 1, 1),
    "penalties": (0, 0, 0),
    "pairs": "batch",
    "state": "yes",
    "layout": "contiguous",
    "scale": 1,
    "tangents": "none",
}
BETWEEN = {"B": "x", "band": ":"}  # the parts of a value; of all others commas
# Of the value alone no state is kept, and by one call for value and gradients none either.
STATES = {"value": "none", "one call": "no"}


def problem_line(**words):
    """The line of these words, without those that are None or usual; parts of a value are a sequence."""
    if unknown := words.keys() - set(KEYS):
        raise ValueError(f"{sorted(unknown)} are no keys of a problem")
    if words.get("metric") == "precomputed":
        words["d"] = None
    parts = []
    for key in KEYS:
        value = words.get(key)
        value = tuple(value) if isinstance(value, list) else value
        if value is not None and value != USUAL.get(key):
            several = value if isinstance(value, tuple) else (value,)
            parts.append(f"{key}={BETWEEN.get(key, ',').join(map(_text, several))}")
    return " ".join(parts)


def line_of(row, **words):
    """The line of a row of results, from the fields that most have; words: what these do not say."""
    pairs, band, phase = row.get("pairs", "batch"), row.get("band", "none"), row.get("phase")
    fields = {
        "metric": row.get("metric", "sqeuclidean"),
        "dtype": row.get("dtype", "f32"),
        "B": (row["B"], row["By"]) if pairs == "all" else row["B"],
        "n": row["N"],
        "m": row.get("M", row["N"]),
        "d": row["d"],
        "gamma": row.get("gamma", 1.0),
        "band": None if band == "none" else (band, row["radius"]),
        "pairs": pairs,
        "state": STATES.get(phase),
        "data": "noise",
        "tangents": "xy" if phase == "jvp" else None,
        "seed": 1,
    }
    alike = {key: row.get(key) for key in ("weights", "penalties", "scale")}
    return problem_line(**fields | alike | words)


def line_of_sets(series, others, row, gradients, data="walk"):
    """The line of all pairs of series with others, of a row's N, d and gamma: what collections compute."""
    fields = {key: row[key] for key in ("N", "d", "gamma")}
    state = "no" if gradients else "none"
    return line_of({**fields, "B": series, "By": others, "pairs": "all"}, state=state, data=data)


def _text(value):
    return repr(float(value)).removesuffix(".0") if isinstance(value, float) else str(value)
