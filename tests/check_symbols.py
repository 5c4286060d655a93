"""The shared library exports the functions that sdtw.h declares, and nothing else; the static one nothing."""

import argparse
import re
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--nm", default="nm")
parser.add_argument("--header", required=True)
parser.add_argument("--plugin", required=True, help="a shared object that has the static library inside")
parser.add_argument("library")
arguments = parser.parse_args()


def exports(library: str) -> set[str]:
    """The dynamic symbols that a shared object defines."""
    listing = subprocess.run(
        [arguments.nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[-1].split("@")[0] for line in listing.splitlines()}


with open(arguments.header, encoding="utf-8") as header:
    declared = set(re.findall(r"^SDTW_API [^;(]*?(sdtw_\w+)\(", header.read(), re.MULTILINE))
exported, of_plugin = exports(arguments.library), exports(arguments.plugin)

if not declared:
    sys.exit("found no declaration in the header: this check is broken")
if exported != declared:
    sys.exit(f"not exported: {sorted(declared - exported)}\nnot in sdtw.h: {sorted(exported - declared)}")
if "plugin_run" not in of_plugin or any("sdtw" in name for name in of_plugin):
    sys.exit(f"what links the static library exports {sorted(of_plugin)}")
print(f"{len(declared)} functions declared and exported")
