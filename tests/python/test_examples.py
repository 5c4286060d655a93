# The examples, the demo and the benchmarks run, and say what they should.
import ast
import json
import re
import sys
from pathlib import Path

import pytest

from programs import ROOT, run, shared_library

RESULTS = ROOT / "benchmarks/results/cpu.json"

# fmt: off
FIELDS = {
    "library", "commit", "device", "hardware", "isa", "threads", "B", "N", "M", "d", "dtype", "metric",
    "gamma", "phase", "problem", "median_ms", "p10_ms", "p90_ms", "cells_per_s", "extra_bytes",
}
# fmt: on


def test_training_example(tmp_path: Path) -> None:
    out = run(sys.executable, ROOT / "examples/train_torch.py", cwd=tmp_path)
    assert re.search(r"mean DTW of 100 test series", out)


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/*.py")), ids=lambda path: path.name)
def test_first_lines_are_sentences(example: Path) -> None:
    """--help shows the first line of an example's docstring alone."""
    text = ast.get_docstring(ast.parse(example.read_text()))
    assert text is not None
    assert text.splitlines()[0].endswith(".")


def test_averaging_example(tmp_path: Path) -> None:
    example = ROOT / "examples/averaging.py"
    out = run(sys.executable, example, "--max-iter", "8", "--every", "8", cwd=tmp_path)
    assert "libsdtw's average" in out


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("generator.py --steps 25 --every 8", "divergence of generated series to the nearest real one"),
        ("forecast_shape_and_time.py --steps 15 --every 14", "shape and time: shape .* on the test set"),
        ("cluster_series.py --each 6 --starts 1", r"adjusted Rand index with the classes 0\.\d\d"),
        ("align_gestures.py --max-iter 4", r"squared difference, stretched evenly: \S+, aligned: 0\.0"),
    ],
)
def test_example_with_a_picture(command: str, said: str, tmp_path: Path) -> None:
    script, *options = command.split()
    out = run(sys.executable, ROOT / "examples" / script, *options, "--output", "picture.png", cwd=tmp_path)
    assert re.search(said, out)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_gestures_need_the_divergence(tmp_path: Path) -> None:
    script = ROOT / "examples/gestures.py"
    out = run(sys.executable, script, "--gammas", "1", "--output", "picture.png", cwd=tmp_path)
    raw, divergence = map(int, re.findall(r"(\d+)%", out))
    assert raw < 20
    assert divergence > 70
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_switching_example(tmp_path: Path) -> None:
    script = ROOT / "examples/switching.py"
    options = ["--steps", "4", "--every", "16", "--gamma", "1.0", "0.1"]
    out = run(sys.executable, script, *options, cwd=tmp_path)
    assert len(re.findall(r"(tslearn|pysdtw), gamma .* apart by", out)) == 4


def test_demo(tmp_path: Path) -> None:
    out = run(sys.executable, ROOT / "examples/demo.py", "--output", "demo.png", cwd=tmp_path, numba_jit=True)
    assert re.search(r"running on: (cpu|cuda), ", out)
    assert len(re.findall(r"^  (Trace|GunPoint|JapaneseVowels) .* x .*$", out, re.MULTILINE)) == 3
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_benchmark_runner(tmp_path: Path) -> None:
    benchmark = [sys.executable, ROOT / "benchmarks/run.py", "--no-peers", "--library", shared_library()]
    run(*benchmark, "--output", "rows.json", cwd=tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert rows
    for row in rows:
        assert FIELDS <= row.keys()
        assert 0 < row["p10_ms"] <= row["median_ms"] <= row["p90_ms"]
        assert row["cells_per_s"] == pytest.approx(row["cells"] / row["median_ms"] * 1e3, rel=1e-3)
    assert {row["phase"] for row in rows} == {"value", "value+grad", "one call"}
    run(sys.executable, ROOT / "benchmarks/compare.py", "rows.json", "rows.json", cwd=tmp_path)


def test_scan(tmp_path: Path) -> None:
    scan = [sys.executable, ROOT / "benchmarks/scan.py", "--library", shared_library(), "--bases", "1"]
    run(*scan, "--only", "layout,lengths,dtype", "--output", "scan.json", cwd=tmp_path)
    (result,) = json.loads((tmp_path / "scan.json").read_text())
    assert result["points"] == 22  # of both phases; the base is on every axis
    assert all(row["times"] > 3 for row in result["cliffs"])


def test_overhead(tmp_path: Path) -> None:
    script = [sys.executable, ROOT / "benchmarks/overhead.py", "--shape", "2,3,1"]
    printed = run(*script, "--device", "cpu", "--library", shared_library(), cwd=tmp_path)
    rows = {row["layer"]: row for row in map(json.loads, printed.splitlines())}
    assert all(0 < row["p10_us"] <= row["median_us"] <= row["p90_us"] for row in rows.values())
    assert rows["C: step"]["median_us"] < rows["torch: soft_dtw, step"]["median_us"]


def test_overhead_of_jax(tmp_path: Path) -> None:
    printed = run(sys.executable, ROOT / "benchmarks/overhead_jax.py", "--shape", "1,2,1", cwd=tmp_path)
    rows = {row["layer"]: row for row in map(json.loads, printed.splitlines())}
    assert all(0 < row["p10_us"] <= row["median_us"] <= row["p90_us"] for row in rows.values())
    assert "jax: soft_dtw, step" in rows


@pytest.mark.skipif(not RESULTS.exists(), reason="no results are committed")
def test_published_tables_are_what_the_results_say() -> None:
    run(sys.executable, ROOT / "benchmarks/tables.py", "--check", cwd=ROOT)


def test_benchmark_of_collections(tmp_path: Path) -> None:
    script = ROOT / "benchmarks/clustering.py"
    run(sys.executable, script, "--smoke", "--output", "rows.json", cwd=tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["what"] for row in rows} >= {"k-means", "neighbours", "barycenter"}
    assert all(row["problem"].startswith("metric=sqeuclidean ") for row in rows)


def test_benchmarks_of_several_devices(tmp_path):
    pairs = [
        ROOT / "benchmarks/several_devices.py",
        "--cpu",
        "--rows",
        "30",
        "--steps",
        "5",
        "--series",
        "50",
    ]
    run(sys.executable, *pairs, "--repeat", "1", "--output", "rows.json", cwd=tmp_path)
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert all(row["same_bits"] and "pairs=all" in row["problem"] for row in rows)
    training = [ROOT / "benchmarks/training_scale.py", "--cpu", "--devices", "1", "--batch", "2"]
    printed = run(sys.executable, *training, "--length", "8", "--steps", "1", cwd=tmp_path)
    assert [json.loads(line)["way"] for line in printed.splitlines() if line[0] == "{"] == [
        "loss",
        "DistributedDataParallel",
        "fully_shard",
    ]
