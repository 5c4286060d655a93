"""Tables of the family beside the core, of which family.py has measured the rows."""

from cells import digits, markdown, milliseconds


def options_of(row):
    """What a row of family.json is of, beside its shape."""
    usual = {
        "metric": "sqeuclidean",
        "dtype": "f32",
        "gamma": 1.0,
        "scale": 1.0,
        "data": "noise",
        "weights": [1.0] * 3,
        "penalties": [0.0] * 3,
    }
    names = {"f16": "float16", "bf16": "bfloat16", "f64": "float64", "scale": "inputs times"}
    parts = []
    for name, of_core in usual.items():
        if row.get(name, of_core) == of_core:
            continue
        value = row[name] if not isinstance(row[name], list) else ", ".join(f"{v:g}" for v in row[name])
        alone = name in ("metric", "dtype", "data")
        parts.append(
            names.get(value, value)
            if alone
            else f"{names.get(name, name)} {value if isinstance(value, str) else f'{value:g}'}"
        )
    if row["band"] != "none":
        parts.append(f"{row['band']}, radius {row['radius']:g}")
    more = {
        "text to speech": "lengths 300 to 1000",
        "unequal lengths": "lengths 100 to 1000",
        "beside the wide band": "beside no band",
        "alignment, band": "beside no band",
        "window": "beside no band",
    }
    if row["what"] in more:
        parts.append(more[row["what"]])
    if row["pairs"] != "batch":
        parts.append("pairs of one set" if row["pairs"] == "symmetric" else "all pairs")
    elif not row["state"]:
        parts.append("without state")
    return ", ".join(parts) or "squared Euclidean"


def family(rows):
    """The family, beside the core's problem of the same shape."""
    return beside_others([row for row in rows if row["what"] != "cliff"])


def cliffs(rows):
    """What might be a cliff, beside what is none."""
    return beside_others([row for row in rows if row["what"] == "cliff"])


def beside_others(rows):
    lines = []
    for row in rows:
        size = f"{row['B']} x {row['By']}" if row["pairs"] != "batch" else row["B"]
        shape = f"({size}, {row['N']}, {row['M']}, {row['d']})"
        phase = {
            "value": "value",
            "value+grad": "with gradients",
            "value+alignment": "alignment",
            "jvp": "gradients' derivatives",
        }[row["phase"]]
        of_core = "" if row["of_core"] is None else digits(row["of_core"])
        lines.append([options_of(row), shape, phase, milliseconds(row), of_core, row["aim"]])
    return markdown(["problem", "shape", "phase", "time", "beside", "aim"], lines)
