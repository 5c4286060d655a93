# Programs that tests run: away from the tree, with the package as it is installed.
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, numba_jit: bool = False) -> str:
    """Output of a program, run away from the tree so that it uses the installed package; numba_jit: with
    other packages compiled, where it gives them much to do."""
    env = {**os.environ, "NUMBA_DISABLE_JIT": str(int(not numba_jit))}
    arguments = [str(c) for c in command]
    done = subprocess.run(arguments, cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def shared_library() -> Path:
    """libsdtw.so of one of the builds that ./dev test and ./dev build make; SDTW_LIBRARY overrides."""
    if "SDTW_LIBRARY" in os.environ:
        return Path(os.environ["SDTW_LIBRARY"]).resolve()
    return _newest("libsdtw.so", "dev", "cuda", "release")


def differential_driver() -> Path:
    """sdtw_differential, which computes a problem of one line."""
    return _newest("tests/sdtw_differential", "dev", "cuda")


def _newest(built: str, *presets: str) -> Path:
    found = [path for preset in presets if (path := ROOT / "build" / preset / built).exists()]
    if not found:
        pytest.skip(f"no {built} in {', '.join(f'build/{preset}' for preset in presets)}: run ./dev build")
    return max(found, key=lambda path: path.stat().st_mtime)
