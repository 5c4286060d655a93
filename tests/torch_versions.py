"""Runs the PyTorch tests with several versions of PyTorch, each in an environment of its own.

    python tests/torch_versions.py                      the versions that docs/pytorch.md says are tested
    python tests/torch_versions.py 2.4.1 2.14.1 --write  these, and write the table there

The package is the one that the calling interpreter has: its extension module knows nothing of PyTorch, and
the one that does is built for each version. Wheels of PyTorch on PyPI are builds for CUDA, of 2 to 4 GB with
what they need. Environments stay in build/torch-versions, so that a second run installs nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import libsdtw

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "pytorch.md"
BEGIN, END = "<!-- torch-versions -->\n", "<!-- end of torch-versions -->\n"
TESTS = sorted((ROOT / "tests" / "python").glob("test_torch*.py"))
NEEDED = ("hypothesis", "numpy", "pytest", "pytest-timeout", "scipy", "tqdm", "tslearn")


def requirements():
    """What the tests need beside PyTorch, in the versions of requirements-dev.txt where that pins them."""
    pins = dict(
        line.split("==") for line in (ROOT / "requirements-dev.txt").read_text().splitlines() if "==" in line
    )
    return [f"{name}=={pins[name]}" if name in pins else name for name in NEEDED]


def environment(version, where):
    """The interpreter of an environment with that version and a copy of the package."""
    python = where / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"torch=={version}", *requirements()], check=True)
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(
        subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    )
    shutil.copytree(Path(libsdtw.__file__).parent, packages / "libsdtw", dirs_exist_ok=True)
    subprocess.run([python, "-m", "libsdtw.torch.build"], check=True)
    return python


def run(version, where):
    """The row of a version: what it calls itself, and pytest's own summary."""
    python = environment(version, where)
    ask = "import torch; print(torch.__version__)"
    name = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
    tests = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    (where / "pytest.log").write_text(tests.stdout + tests.stderr)
    summary = (tests.stdout.strip().splitlines() or ["no output"])[-1]
    counts = {
        word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", summary)
    }
    print(f"{name}: {summary} ({where / 'pytest.log'})", flush=True)
    return name, counts, tests.returncode


def table(rows):
    lines = ["| PyTorch | passed | failed | skipped |", "| --- | --- | --- | --- |"]
    for name, counts, _ in rows:
        failed = counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0)
        lines.append(f"| {name} | {counts.get('passed', 0)} | {failed} | {counts.get('skipped', 0)} |")
    return "\n".join(lines) + "\n"


def written_versions():
    """The versions of the page's table."""
    text = PAGE.read_text()
    rows = text[text.index(BEGIN) : text.index(END, text.index(BEGIN))].splitlines()
    return [row.split("|")[1].strip().partition("+")[0] for row in rows if re.match(r"\| \d", row)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*")
    parser.add_argument("--write", action="store_true", help="write the table of docs/pytorch.md")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "torch-versions")
    args = parser.parse_args()
    rows = [run(version, args.directory / version) for version in args.versions or written_versions()]
    text = table(rows)
    print(text)
    if args.write:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + text + END + rest.split(END, 1)[1])
    sys.exit(any(status for *_, status in rows))


if __name__ == "__main__":
    main()
