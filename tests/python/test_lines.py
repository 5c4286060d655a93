# Lines of problems, which failing tests print and rows of benchmarks carry: sdtw_differential reads them, and
# draws the data that Python does.
import json
import re
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings

from draws import Drawn
from lines import problem_line
from programs import ROOT, differential_driver
from test_family import problems


def compute(line):
    command = [differential_driver(), "--problem", line]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"


def test_lines_are_words_of_the_grammar():
    line = problem_line(metric="precomputed", B=(3, 4), n=5, d=7, gamma=0.25, weights=[2.0, 1, 1], scale=1.0)
    assert line == "metric=precomputed B=3x4 n=5 gamma=0.25 weights=2,1,1"
    with pytest.raises(ValueError, match="radius"):
        problem_line(radius=3)


@settings(max_examples=20, deadline=None)
@given(problems())
def test_lines_of_the_family_are_computed(problem):
    compute(problem.line)


def rows_of_results():
    """Rows that are of one problem each: not of random ones, of builds, or of what a GPU does at most."""
    for path in (ROOT / "benchmarks/results").glob("*.json"):
        found = [] if path.stem in ("random", "build") else json.loads(path.read_text())
        for row in found["rows"] if isinstance(found, dict) else found:
            if row.get("phase") != "ceiling":
                yield from row.get("cliffs", [row])


def test_every_row_of_results_has_a_line():
    lines = {row["problem"] for row in rows_of_results()}
    # Some are of millions of pairs. With other sizes there are as many as ways in which problems differ.
    sizes = {"B": "2", "n": "9", "m": "9", "d": "2", "lengths": "1"}
    small = {
        re.sub(r"\b(B|n|m|d|lengths)=\d+(x\d+)?", lambda m: f"{m[1]}={sizes[m[1]]}", line) for line in lines
    }
    assert len(small) > 50
    for line in sorted(small):
        compute(line)


def test_data_are_those_of_the_line():
    """tests/test_family.cpp has the same numbers of the same lines."""
    drawn = Drawn(42, "noise", (2, 3), (3, 2, 2), "all", least=0)
    assert drawn.x[1, 2, 1] == np.float32(-1.42570448)
    assert drawn.y[2, 1, 1] == np.float32(-0.333912998)
    assert [*drawn.lengths["x_lengths"], *drawn.lengths["y_lengths"]] == [3, 1, 1, 0, 2]
    drawn = Drawn(42, "noise", (3, 3), (3, 2, 0), "batch")
    assert [*drawn.x[:, 2, 1]] == [*np.float32([0.141300917, -1.42570448, 3.23392558])]
    assert not drawn.lengths
    drawn = Drawn(42, "integers", (2, 2), (3, 2, 0), "batch", least=0)
    assert [*drawn.x.ravel()] == [5, 4, 6, 5, 5, 4, 1, 1, 7, 0, 0, 1]
    assert [*drawn.lengths["x_lengths"], *drawn.lengths["y_lengths"]] == [3, 0, 0, 2]
    drawn = Drawn(4_000_000_000, "integers", (2, 2), (300, 20, 2), "batch")
    assert [*drawn.x[0].ravel()[:8]] == [3, -1, 1, -1, 4, 0, -2, -1]
    assert drawn.x.sum() == 2
