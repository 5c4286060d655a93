"""Code compiled for one instruction set cannot be called by the rest of the library.

The linker keeps one copy of an inline function or template that several objects have. Were it the copy of
the AVX-512 object, processors without AVX-512 would stop at it. So those objects may share no function with
any other: each weak one must be of the instruction set's own namespace, or be instantiated with its types.
"""

import argparse
import pathlib
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--nm", default="nm")
parser.add_argument("objects", nargs="+", type=pathlib.Path)
arguments = parser.parse_args()

checked, shared = [], []
for path in arguments.objects:
    path.stat()  # raises where the build has moved them
    isa = re.match(r"kernels_(avx\w+|neon)\.", path.name)
    if not isa:
        continue
    listing = subprocess.run([arguments.nm, "-C", path], check=True, capture_output=True, text=True).stdout
    weak = [line.split(" W ", 1)[1] for line in listing.splitlines() if " W " in line]
    shared += [f"{path.name}: {name}" for name in weak if f"sdtw::cpu::{isa[1]}::" not in name]
    checked.append(isa[1])

if shared:
    sys.exit("\n".join(shared))
print(f"{checked} share no function with other objects")
