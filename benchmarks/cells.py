"""Tables and numbers as pages show them: digits, units, and where they were measured."""


def markdown(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def filled(header, rows):
    """Both without the columns that have nothing in any row."""
    kept = [k for k in range(len(header)) if any(line[k] != "" for line in rows)]
    return markdown([header[k] for k in kept], [[line[k] for k in kept] for line in rows])


def digits(value):
    """Two digits, or all of those before the decimal point."""
    return f"{value:.0f}" if value >= 99.5 else f"{value:.2g}"


def scaled(value, units):
    """value, given in units[0]; each unit is a thousand of the one before."""
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{digits(value)} {units[0]}"


def milliseconds(row):
    return scaled(row["median_ms"] * 1000, ["us", "ms", "s"])


def megabytes(row):
    return "" if row["extra_bytes"] is None else scaled(row["extra_bytes"], ["B", "kB", "MB", "GB"])


def source(rows):
    """Where the numbers come from, in a sentence."""
    first = {row.get("device", "cpu"): row for row in reversed(rows)}
    runs = [f"{r['hardware']}, commit {r['commit']}, {r['date']}" for _, r in sorted(first.items())]
    return f"Measured on {'; on '.join(runs)}."


def percent(row):
    return f"{100 * row['of_floor']:.0f}%" if row.get("of_floor") else ""
