"""What a GPU can do at most, as ceilings.cu measures it, and the floors that this sets under times."""

import json
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("ceilings.cu")


def measure_ceilings(folder):
    """Rows of the current GPU's ceilings. nvcc compiles ceilings.cu into folder, unless it has."""
    program = Path(folder, "ceilings")
    if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["nvcc", "-O3", "-arch=native", "-o", program, SOURCE], check=True)
    output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def fields(row, ceilings):
    """What is added to a row of the library: nothing without ceilings or a floor."""
    floor = floor_ms(row, ceilings) if ceilings else None
    return {"floor_ms": round(floor, 5), "of_floor": round(floor / row["median_ms"], 4)} if floor else {}


def floor_ms(row, ceilings):
    """The least time that a row's calls could take; None for float64, whose exponentials have no instruction.

    A pass over the cells takes an exponential for each, and no less time than its share of the matrices in
    memory: forward reads given costs, backward reads them and writes their gradient. Series, values and state
    are not counted. Backward is a whole pass, although it may skip what no path visits.
    """
    if row["dtype"] != "f32":
        return None
    rate = {c["ceiling"]: c["rate"] for c in ceilings}

    def one_pass(matrices):
        given = 4 * matrices if row["metric"] == "precomputed" else 0
        return row["cells"] * max(1 / rate["ex2"], given / rate["copy"]) * 1e3

    return one_pass(1) if row["phase"] == "value" else one_pass(1) + one_pass(2)
