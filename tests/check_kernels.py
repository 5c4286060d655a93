"""The CUDA kernels take no more registers, shared memory and local memory than was recorded.

    python tests/check_kernels.py build/cuda/libsdtw.so            compare with tests/cuda/kernels.json
    python tests/check_kernels.py --record build/cuda/libsdtw.so   write it

What is compared is what cuobjdump says of the code for one architecture, by the kernels' demangled names.
Registers and static shared memory may grow by SLACK: compilers have moods.
Local memory (the stack, where registers spill to) may not grow at all. Dynamic shared memory is chosen at
launch and is not seen here. The numbers hold for one version of nvcc: with another, or without cuobjdump, the
check says so and is skipped (status 77). With --names, for what nvcc has not optimised or not even assembled,
it compares the names of kernels alone, of which the library has a function each that launches them.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests/cuda/kernels.json"
SLACK = {"registers": 8, "local": 0, "shared": 512}
SKIPPED = 77
ARCHITECTURE = "sm_90"


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def find_cuobjdump():
    """The toolkit's, or that of the package nvidia-cuda-cuobjdump in .venv, which ./dev installs."""
    if found := shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin"):
        return found
    return next(ROOT.glob(".venv/lib/python*/site-packages/nvidia/*/bin/cuobjdump"), None)


def name_of(mangled):
    """A kernel's name and template arguments, without its parameters and this project's namespaces."""
    name = subprocess.run(["c++filt", mangled], check=True, capture_output=True, text=True).stdout.strip()
    name = name.replace("(anonymous namespace)::", "").replace("sdtw::cuda::", "").removeprefix("void ")
    depth = 0
    for k, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            return name[:k]
    return name


def measure(cuobjdump, library):
    """{kernel: {registers, local, shared}} of every kernel in the library's code for ARCHITECTURE."""
    command = [cuobjdump, "--dump-resource-usage", library]  # fails where there is no code for any GPU
    text = subprocess.run(command, check=False, capture_output=True, text=True).stdout
    kernels = {}
    for part in text.split("Fatbin elf code:")[1:]:
        if re.search(r"arch = (\w+)", part)[1] != ARCHITECTURE:
            continue
        for mangled, usage in re.findall(r"Function (\w+):\s*\n\s*(.*)", part):
            name = name_of(mangled) if "_kernel" in mangled else ""
            if not re.match(r"[\w:]+_kernel(<|$)", name):  # what kernels call, where nothing is inlined
                continue
            used = {key: int(number) for key, number in re.findall(r"(\w+):(\d+)", usage)}
            row = {"registers": used["REG"], "local": used["STACK"] + used["LOCAL"], "shared": used["SHARED"]}
            most = kernels.setdefault(name, row)  # a file-local name may be there more than once
            most.update({what: max(most[what], row[what]) for what in row})
    return dict(sorted(kernels.items()))


def named(library):
    """{kernel: {}} of every kernel in the library."""
    command = ["nm", "--defined-only", "--format=posix", library]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    symbols = [line.split()[:2] for line in text.splitlines()]
    names = {name_of(name) for name, kind in symbols if "_kernel" in name and kind in "tTwW"}
    return {name: {} for name in sorted(names) if re.match(r"(?!launch_)[\w:]+_kernel(<|$)", name)}


def compiler():
    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout
    return re.search(r"V([\d.]+)", version)[1]


def complaints(recorded, found, slack):
    """A line about every kernel that is new, gone, or takes more than it may."""
    lines = [f"{name}: not recorded" for name in found if name not in recorded]
    lines += [f"{name}: recorded, but not in the library" for name in recorded if name not in found]
    for name in recorded.keys() & found.keys():
        for what, allowed in slack.items():
            before, now = recorded[name][what], found[name][what]
            if now > before + allowed:
                lines.append(f"{name}: {what} {now}, recorded {before}, allowed {before + allowed}")
    return sorted(lines)


def write(found):
    rows = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    head = f'  "nvcc": "{compiler()}",\n  "architecture": "{ARCHITECTURE}"'
    RECORD.write_text(f'{{\n{head},\n  "kernels": {{\n{rows}\n  }}\n}}\n')
    print(f"{len(found)} kernels in {RECORD}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the numbers instead of comparing them")
    parser.add_argument(
        "--names", action="store_true", help="compare which kernels there are, not what they take"
    )
    parser.add_argument("library", type=Path, help="libsdtw.so or libsdtw.a, built for sm_90")
    arguments = parser.parse_args()
    cuobjdump = find_cuobjdump()
    if not cuobjdump and not arguments.names:
        skip("no cuobjdump, neither the toolkit's nor the one that ./dev installs")
    found = named(arguments.library) if arguments.names else measure(cuobjdump, arguments.library)
    if not found:
        skip(f"{arguments.library} has no code for {ARCHITECTURE}")
    if arguments.record:
        write(found)
        return
    how = f"python tests/check_kernels.py --record {arguments.library}"
    if not RECORD.exists():
        sys.exit(f"nothing is recorded: {how}, and commit {RECORD.relative_to(ROOT)}")
    record = json.loads(RECORD.read_text())
    if record["nvcc"] != compiler():
        skip(f"recorded with nvcc {record['nvcc']}, this is {compiler()}")
    lines = complaints(record["kernels"], found, {} if arguments.names else SLACK)
    if lines:
        print("\n".join(lines), flush=True)
        sys.exit(f"If this is meant: {how}, and commit {RECORD.relative_to(ROOT)}")
    what = (
        "are those recorded; what they take was not compared"
        if arguments.names
        else "take what was recorded, or less"
    )
    print(f"{len(found)} kernels {what}")


if __name__ == "__main__":
    main()
