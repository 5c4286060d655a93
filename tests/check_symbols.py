"""The shared library exports the functions that sdtw.h declares, and nothing else."""

import argparse
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--nm", default="nm")
parser.add_argument("--header", required=True)
parser.add_argument("library")
arguments = parser.parse_args()

with open(arguments.header, encoding="utf-8") as header:
    declared = set(re.findall(r"^SDTW_API [^;(]*?(sdtw_\w+)\(", header.read(), re.MULTILINE))
listing = subprocess.run(
    [arguments.nm, "-D", "--defined-only", arguments.library], check=True, capture_output=True, text=True
).stdout
exported = {line.split()[-1].split("@")[0] for line in listing.splitlines()}

if not declared:
    sys.exit("found no declaration in the header: this check is broken")
if exported != declared:
    sys.exit(f"not exported: {sorted(declared - exported)}\nnot in sdtw.h: {sorted(exported - declared)}")
print(f"{len(declared)} functions declared and exported")
