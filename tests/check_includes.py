"""Includes point one way: a file may include its own layer and what that layer's row in `allowed` names."""

import pathlib
import re
import sys

# Layers from the entry points inwards, and what each may include. All may use error.h, layout.h and names.h.
leaves = {"sdtw.h", "error", "layout", "names"}
allowed = {
    "api": leaves | {"problem", "plan", "backend"},
    "problem": leaves | {"core"},
    "backend": leaves | {"problem", "plan"},
    "plan": leaves | {"problem"},
    "plan_cpu": leaves
    | {"problem", "plan", "backend", "cpu", "core"},  # the decisions of a backend know its layout
    "plan_cuda": leaves | {"problem", "plan", "backend", "cuda"},
    "plan_cuda_general": leaves | {"problem", "plan", "backend", "cuda", "core"},
    "plan_cuda_short_pairs": leaves | {"problem", "plan", "backend", "core"},
    "plan_cuda_streams": leaves | {"problem", "plan", "core"},
    "plan_cuda_waves": leaves | {"problem", "plan", "backend", "core", "cuda"},
    "plan_cuda_describe": leaves | {"plan", "backend"},
    "cpu": leaves | {"problem", "plan", "backend", "core"},
    "cuda": leaves | {"problem", "plan", "backend", "core"},
    "core": {"sdtw.h"},
    "layout": {"sdtw.h", "error"},
    "error": {"sdtw.h"},
    "names": {"sdtw.h"},
}
# Files of src itself whose name is not that of their layer.
layer_of_file = {"buffers": "problem", "overlap": "problem"}


def layer(path: pathlib.Path) -> str:
    """The layer of a file in src, by its directory, or by its name if it is in src itself."""
    if len(path.parts) > 1:
        return path.parts[0]
    return layer_of_file.get(path.stem, path.stem)


def resolve(src: pathlib.Path, including: pathlib.Path, name: str) -> pathlib.Path | None:
    """The file of src that an include names, or None for sdtw.h."""
    if name == "sdtw.h":
        return None
    for candidate in (src / including.parent / name, src / name):
        if candidate.is_file():
            return candidate.resolve().relative_to(src.resolve())
    raise FileNotFoundError(name)


def faults(src: pathlib.Path) -> tuple[list[str], int]:
    """What is wrong in src, one line each, and how many includes were looked at."""
    found, count = [], 0
    for file in sorted(src.rglob("*")):
        if file.suffix not in {".h", ".cpp", ".cuh", ".cu"}:
            continue
        path = file.relative_to(src)
        if layer(path) not in allowed:
            found.append(f"{path}: it belongs to no layer that this check knows")
            continue
        for name in re.findall(
            r'^\s*#\s*include\s+"([^"]+)"', file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            count += 1
            try:
                target = resolve(src, path, name)
            except FileNotFoundError:
                found.append(f"{path}: includes {name}, which is not in src")
                continue
            target_layer = "sdtw.h" if target is None else layer(target)
            if target is not None and target.suffix in {".cpp", ".cu"}:
                found.append(f"{path}: includes the source file {name}")
            if target_layer != layer(path) and target_layer not in allowed[layer(path)]:
                found.append(f"{path}: {layer(path)} may not include {name}, of {target_layer}")
    return found, count


def main() -> None:
    """Exits with the faults of the tree at argv[1], if any."""
    root = pathlib.Path(sys.argv[1])
    found, count = faults(root / "src")
    header = (root / "include" / "sdtw.h").read_text(encoding="utf-8")
    standard = {"<stddef.h>", "<stdint.h>"}
    included = re.findall(r"^#include (\S+)", header, re.MULTILINE)
    found += [f"sdtw.h: includes {name}" for name in included if name not in standard]
    if found or count == 0:
        sys.exit("\n".join(found) or "found no include: this check is broken")
    print(f"{count} includes, all in order")


if __name__ == "__main__":
    main()
