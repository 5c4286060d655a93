"""How well the compiler has ordered the innermost loops of CUDA kernels: in how many cycles they issue.

    python benchmarks/loops.py build/release/libsdtw.so "backward_kernel<FloatCell, InlineCosts<2>"

Reads the machine code of compute capability 7.0 or later (cuobjdump). There each instruction says how many
cycles its warp waits before the next one, until results of fixed latency are there. A loop whose cycles are
not many more than its instructions is ordered well; one that takes twice as many has too few registers, as a
rule, for what is independent to be side by side. What a warp waits for beyond that is not in it: memory,
shuffles, functions of the hardware, and other warps of its scheduler.

For each innermost loop of kernels whose name contains the text (spaces do not matter): its first
instruction's number in the kernel, instructions, cycles, their ratio, and how many are shuffles, of which a
step of a sweep has two or more.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from check_kernels import find_cuobjdump, name_of  # noqa: E402

# An instruction is 128 bits, printed in two lines; its address, its text, and the high 64 bits.
INSTRUCTION = re.compile(
    r"/\*([0-9a-f]{4,})\*/\s+(.*?);\s+/\* 0x[0-9a-f]{16} \*/\s+/\* (0x[0-9a-f]{16}) \*/", re.S
)
BRANCH = re.compile(r"BRA.*?(0x[0-9a-f]+)")
STALL_BIT = 41  # in the high 64 bits: four bits, the cycles until the warp's next instruction


def kernels(library):
    """The mangled name and the instructions of each kernel: (address, text, cycles)."""
    cuobjdump = find_cuobjdump()
    if not cuobjdump:
        sys.exit("there is no cuobjdump: it comes with the CUDA Toolkit")
    done = subprocess.run([cuobjdump, "-sass", str(library)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"cuobjdump cannot read {library}: {(done.stderr or done.stdout).strip()}")
    code = done.stdout
    for part in code.split("Function : ")[1:]:
        name, _, body = part.partition("\n")
        yield (
            name.strip(),
            [
                (int(address, 16), text.strip(), max(1, int(high, 16) >> STALL_BIT & 15))
                for address, text, high in INSTRUCTION.findall(body)
            ],
        )


def innermost_loops(instructions):
    """The ranges of instructions that end with a branch back and have no such range within."""
    number = {address: i for i, (address, _, _) in enumerate(instructions)}
    loops = []
    for i, (address, text, _) in enumerate(instructions):
        target = BRANCH.search(text)
        first = number.get(int(target.group(1), 16)) if target else None
        if first is not None and instructions[first][0] < address:
            loops.append(range(first, i + 1))
    return [
        loop
        for loop in loops
        if not any(other is not loop and other[0] >= loop[0] and other[-1] <= loop[-1] for other in loops)
    ]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("library", type=Path, help="a library or an object file with CUDA code")
    parser.add_argument("kernel", help="a part of the kernels' names")
    parser.add_argument("--least", type=int, default=50, help="instructions of a loop that is shown")
    args = parser.parse_args()
    wanted, found = args.kernel.replace(" ", ""), False
    for mangled, instructions in kernels(args.library):
        name = name_of(mangled)
        if wanted not in name.replace(" ", ""):
            continue
        found = True
        print(f"{name}: {len(instructions)} instructions")
        for loop in innermost_loops(instructions):
            if len(loop) < args.least:
                continue
            cycles = sum(instructions[i][2] for i in loop)
            shuffles = sum("SHFL" in instructions[i][1] for i in loop)
            print(
                f"  {loop[0]:6d}: {len(loop):5d} instructions, {cycles:5d} cycles,"
                f" {cycles / len(loop):4.2f} each; {shuffles} shuffles"
            )
    if not found:
        sys.exit(f"no kernel of {args.library} has {args.kernel!r} in its name")


if __name__ == "__main__":
    main()
