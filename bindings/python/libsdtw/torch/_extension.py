# The compiled short way of soft_dtw: where its sources are, how it is built, and what is loaded.
"""The extension module of bindings/torch, which is compiled for one version of PyTorch.

    python -m libsdtw.torch.build              builds it for the PyTorch that is installed
    LIBSDTW_TORCH_NATIVE=0 python program.py   runs without it

Everything works without it, in a few microseconds more. The file's name has the version of PyTorch, that of
Python and a digest of the sources, so that one which is of others is not found. CMake runs this file as a
program (bindings/torch/CMakeLists.txt), where the package is not installed yet.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib.machinery
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch

_HERE = Path(__file__).resolve().parent


def _sources() -> tuple[Path, Path]:
    """Folders of the sources and of sdtw.h: one beside this file, or those of the source tree."""
    installed = _HERE / "native"
    if installed.is_dir() or len(_HERE.parents) < 4:  # an install may lie as near the root as /app/libsdtw
        return installed, installed
    tree = _HERE.parents[3]
    return tree / "bindings" / "torch", tree / "include"


def file_name() -> str:
    """The name of the extension for this PyTorch and Python, and these sources."""
    folder, include = _sources()
    files = {path.name: path for path in (*folder.glob("*.cpp"), *folder.glob("*.h"), include / "sdtw.h")}
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(files[name].read_bytes())
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return f"_native-{torch.__version__}-{digest.hexdigest()[:12]}{suffix}"


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "libsdtw"


def _folders() -> list[Path]:
    """Where an extension may be: beside this file or, where its user may not write there, in a cache. Where
    pip has built it, it is beside the core, which in editable installs is elsewhere."""
    from .. import _core  # here, as CMake runs this file without the package

    package = [_HERE, Path(_core.__file__).parent / "torch"]
    try:
        return [*package, _cache()]
    except RuntimeError:  # nobody's home
        return package


def load() -> Any:
    """The extension module, or None where there is none."""
    if os.environ.get("LIBSDTW_TORCH_NATIVE") == "0" or not _sources()[0].is_dir():
        return None
    name = file_name()
    for path in (folder / name for folder in _folders()):
        if not path.is_file():
            continue
        module_name = f"{__package__}._native"
        loader = importlib.machinery.ExtensionFileLoader(module_name, str(path))
        spec = importlib.util.spec_from_file_location(module_name, path, loader=loader)
        assert spec is not None
        try:
            module = importlib.util.module_from_spec(spec)
            loader.exec_module(module)
        except ImportError as error:
            warnings.warn(
                f"{path} is left out, as it cannot be loaded: {error}", RuntimeWarning, stacklevel=2
            )
            return None
        return module
    return None


def current_stream_function() -> int:
    """Address of the function of PyTorch's C interface that says which CUDA stream is current, 0 if there is
    none."""
    library = Path(torch.__file__).parent / "lib" / "libtorch_cuda.so"
    if torch.version.cuda is None or not library.exists():
        return 0
    function = getattr(ctypes.CDLL(str(library)), "aoti_torch_get_current_cuda_stream", None)
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0


def _command(output: Path) -> list[str]:
    """The call of the compiler. What torch.utils.cpp_extension has needs setuptools and ninja."""
    root = Path(torch.__file__).parent
    folder, include = _sources()
    headers = [root / "include", root / "include" / "torch" / "csrc" / "api" / "include"]
    abi = int(torch.compiled_with_cxx11_abi())
    return [
        *shlex.split(os.environ.get("CXX", "c++")),
        *("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-s"),
        *(f"-D_GLIBCXX_USE_CXX11_ABI={abi}", f"-I{include}"),
        *(f"-isystem{path}" for path in (*headers, sysconfig.get_path("include"))),
        *(str(path) for path in sorted(folder.glob("*.cpp"))),
        *(f"-L{root / 'lib'}", "-lc10", "-ltorch_cpu", "-ltorch_python", "-o", str(output)),
    ]


def build(folder: Path | None = None) -> Path:
    """Compiles the extension, in half a minute, into the folder or where `load` looks; returns its file."""
    if folder is None:
        folder = next((f for f in _folders() if os.access(f, os.W_OK)), _folders()[-1])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name()
    with tempfile.TemporaryDirectory(
        dir=folder
    ) as scratch:  # programs that start meanwhile see all or nothing
        made = Path(scratch) / path.name
        subprocess.run(_command(made), check=True)
        os.replace(made, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m libsdtw.torch.build",
        description="Compiles what makes small calls of libsdtw.torch faster, for the PyTorch that is "
        "installed. Needs a C++ compiler: c++, or what CXX says.",
    )
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="(default: where the package looks)")
    args = parser.parse_args()
    try:
        print(build(args.output))
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"not built: {error}")


if __name__ == "__main__":
    main()
