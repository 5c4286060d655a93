# The examples, the demo, the code of README and docs, and the benchmarks run, and say what they should.
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks/results/cpu.json"

# fmt: off
FIELDS = {
    "library", "commit", "device", "hardware", "isa", "threads", "B", "N", "M", "d", "dtype", "metric",
    "gamma", "phase", "median_ms", "p10_ms", "p90_ms", "cells_per_s", "extra_bytes",
}
# fmt: on


def run(*command: str | Path, cwd: Path) -> str:
    """Output of a program, run away from the tree so that it uses the installed package."""
    done = subprocess.run([str(c) for c in command], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def code_blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks, f"{page} has no {language} code"
    return blocks


def shared_library() -> Path:
    """libsdtw.so of one of the builds that ./dev test and ./dev build make; SDTW_LIBRARY overrides."""
    if "SDTW_LIBRARY" in os.environ:
        return Path(os.environ["SDTW_LIBRARY"]).resolve()
    found = [ROOT / "build" / preset / "libsdtw.so" for preset in ("dev", "cuda", "release")]
    found = [path for path in found if path.exists()]
    if not found:
        pytest.skip("no libsdtw.so in build/dev, build/cuda or build/release: run ./dev build")
    return max(found, key=lambda path: path.stat().st_mtime)


def test_training_example(tmp_path: Path) -> None:
    out = run(sys.executable, ROOT / "examples/train_torch.py", cwd=tmp_path)
    assert re.search(r"mean DTW of 100 test series", out)


def test_averaging_example(tmp_path: Path) -> None:
    out = run(sys.executable, ROOT / "examples/averaging.py", "--max-iter", "8", cwd=tmp_path)
    assert "libsdtw's average" in out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("generator.py --steps 25 --every 8", "divergence of generated series to the nearest real one"),
        ("forecast_shape_and_time.py --steps 15 --every 14", "shape and time: shape .* on the test set"),
        ("align_gestures.py --max-iter 4", r"squared difference, stretched evenly: \S+, aligned: 0\.0"),
    ],
)
def test_example_with_a_picture(command: str, said: str, tmp_path: Path) -> None:
    script, *options = command.split()
    out = run(sys.executable, ROOT / "examples" / script, *options, "--output", "picture.png", cwd=tmp_path)
    assert re.search(said, out)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_switching_example(tmp_path: Path) -> None:
    script = ROOT / "examples/switching.py"
    options = ["--steps", "4", "--every", "8", "--gamma", "1.0", "0.1"]
    out = run(sys.executable, script, *options, cwd=tmp_path)
    assert len(re.findall(r"tslearn, gamma .* apart by", out)) == 2


def test_reference_is_what_the_docstrings_say() -> None:
    run(sys.executable, ROOT / "docs/reference.py", "--check", cwd=ROOT)


def test_demo(tmp_path: Path) -> None:
    out = run(sys.executable, ROOT / "examples/demo.py", "--output", "demo.png", cwd=tmp_path)
    assert re.search(r"running on: (cpu|cuda), ", out)
    assert len(re.findall(r"^  (Trace|GunPoint|JapaneseVowels) .* x .*$", out, re.MULTILINE)) == 3
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


PAGES = "README.md", "docs/getting-started.md", "docs/pytorch.md", "docs/numpy.md", "docs/migration.md"


@pytest.mark.parametrize("page", PAGES)
def test_python_of_pages(page: str, tmp_path: Path) -> None:
    program = "\n".join(code_blocks(page, "python"))
    (tmp_path / "program.py").write_text(program)
    printed = run(sys.executable, "program.py", cwd=tmp_path).splitlines()
    # A print with a comment prints what the comment says
    prints = re.findall(r"^print\(.*?\)(?:  # (.*))?$", program, re.MULTILINE)
    assert len(prints) == len(printed)
    for expected, line in zip(prints, printed, strict=True):
        if re.match(r"-?\d", expected):
            assert float(line) == pytest.approx(float(expected), rel=1e-6)
        elif expected:
            assert line == expected


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_readme_c(tmp_path: Path) -> None:
    (block,) = code_blocks("README.md", "c")
    (tmp_path / "program.c").write_text(block)
    folder = shared_library().parent
    flags = ["-std=c99", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    link = [f"-L{folder}", "-lsdtw", f"-Wl,-rpath,{folder}"]
    run("cc", *flags, "program.c", *link, "-o", "program", cwd=tmp_path)
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", run("./program", cwd=tmp_path))]
    # tslearn, float64: 41.187627, and -4.0001, -2.2852, 10.1643 as its documentation prints them
    assert numbers == pytest.approx([41.187627, -4.0001, -2.2852, 10.1643], rel=5e-5)


def test_benchmark_runner(tmp_path: Path) -> None:
    benchmark = [sys.executable, ROOT / "benchmarks/run.py", "--no-peers", "--library", shared_library()]
    run(*benchmark, "--output", "rows.json", cwd=tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert rows
    for row in rows:
        assert FIELDS <= row.keys()
        assert 0 < row["p10_ms"] <= row["median_ms"] <= row["p90_ms"]
        assert row["cells_per_s"] == pytest.approx(row["cells"] / row["median_ms"] * 1e3, rel=1e-3)
    assert {row["phase"] for row in rows} == {"value", "value+grad"}
    run(sys.executable, ROOT / "benchmarks/compare.py", "rows.json", "rows.json", cwd=tmp_path)


def test_overhead(tmp_path: Path) -> None:
    script = [sys.executable, ROOT / "benchmarks/overhead.py", "--shape", "2,3,1"]
    printed = run(*script, "--device", "cpu", "--library", shared_library(), cwd=tmp_path)
    rows = {row["layer"]: row for row in map(json.loads, printed.splitlines())}
    assert all(0 < row["p10_us"] <= row["median_us"] <= row["p90_us"] for row in rows.values())
    assert rows["C: step"]["median_us"] < rows["torch: soft_dtw, step"]["median_us"]


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are committed")
def test_published_tables_are_what_the_results_say() -> None:
    run(sys.executable, ROOT / "benchmarks/tables.py", "--check", cwd=ROOT)
