"""How long the library takes to configure and to build, and how large it and its code for each GPU are.

    python benchmarks/build.py                        for the CPU, for one architecture and for all-major
    python benchmarks/build.py --only cpu --jobs 2    rows of the other builds stay as they are

Writes benchmarks/results/build.json, of which tables.py makes a table. Each build is the shared library's, as
a release, from nothing and without ccache, in a folder of its own that is removed. One row is

    what, commit, date, device, hardware, compilers, jobs, configure_s, build_s, cpu_s, library_bytes,
    fatbin_bytes, code

device: what it is built for; hardware: what it is built on. cpu_s: of all processors, which says more where a
machine has other things to do. fatbin_bytes: all code for GPUs, packed as it is in the library; code: by
architecture, unpacked, as the driver loads it (cuobjdump), or null where there is no cuobjdump.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import timing

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from check_kernels import find_cuobjdump  # noqa: E402

BUILDS = {
    "cpu": {"SDTW_CUDA": "OFF"},
    "9.0": {"SDTW_CUDA": "ON", "CMAKE_CUDA_ARCHITECTURES": "90"},
    "all-major": {"SDTW_CUDA": "ON", "CMAKE_CUDA_ARCHITECTURES": "all-major"},
}


def seconds_of(*command):
    begin = time.perf_counter()
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
    return round(time.perf_counter() - begin, 1)


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fatbin_bytes(library):
    """Of the section that holds code for GPUs; 0 without one."""
    sections = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\.nv_fatbin\s+PROGBITS\s+\w+\s+\w+\s+(\w+)", sections)
    return int(found[1], 16) if found else 0


def code_bytes(library):
    """Bytes of code by architecture, and of PTX; None where nothing can tell."""
    if fatbin_bytes(library) == 0:
        return {}
    if (cuobjdump := find_cuobjdump()) is None:
        return None
    sizes = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("elf", "ptx"):  # where there is none of a kind it fails
            command = [cuobjdump, f"--extract-{kind}", "all", library.resolve()]
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for path in sorted(Path(folder).iterdir()):
            architecture, kind = path.name.split(".")[-2:]
            name = f"PTX of {architecture}" if kind == "ptx" else architecture
            sizes[name] = sizes.get(name, 0) + path.stat().st_size
    return sizes


def compilers(folder):
    """The compilers that CMake has found, with their versions."""
    found = []
    for language in ("CXX", "CUDA"):
        for path in folder.glob(f"CMakeFiles/*/CMake{language}Compiler.cmake"):
            fields = dict(re.findall(r'set\((\w+) "([^"]*)"\)', path.read_text()))
            name, version = (fields[f"CMAKE_{language}_COMPILER_{what}"] for what in ("ID", "VERSION"))
            found.append(f"{name} {version}")
    return ", ".join(found)


def measure(options, jobs):
    with tempfile.TemporaryDirectory() as folder:
        settings = {"CMAKE_BUILD_TYPE": "Release", "SDTW_TESTS": "OFF", **options}
        before = cpu_seconds()
        definitions = [f"-D{key}={value}" for key, value in settings.items()]
        configure = seconds_of("cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *definitions)
        build = seconds_of("cmake", "--build", folder, "--target", "sdtw", "--parallel", jobs)
        library = Path(folder, "libsdtw.so")
        return {
            "compilers": compilers(Path(folder)),
            "jobs": jobs,
            "configure_s": configure,
            "build_s": build,
            "cpu_s": round(cpu_seconds() - before, 1),
            "library_bytes": library.stat().st_size,
            "fatbin_bytes": fatbin_bytes(library),
            "code": code_bytes(library),
        }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=BUILDS, default=list(BUILDS))
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--commit", help="what to call what is built, where git is not at hand")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks/results/build.json")
    args = parser.parse_args()
    rows = {row["what"]: row for row in json.loads(args.output.read_text())} if args.output.exists() else {}
    for what in args.only:
        rows[what] = {
            "what": what, "commit": args.commit or timing.commit(ROOT), "date": date.today().isoformat(),
            "device": "cpu" if what == "cpu" else "cuda", "hardware": timing.cpu_name(),
            **measure(BUILDS[what], args.jobs),
        }  # fmt: skip
        print(json.dumps(rows[what]), flush=True)
        ordered = [rows[name] for name in BUILDS if name in rows]
        args.output.write_text("[\n" + ",\n".join(json.dumps(row) for row in ordered) + "\n]\n")


if __name__ == "__main__":
    main()
