# Memory that is free, of a machine and of the control groups of a process.
import numpy as np
import pytest

from libsdtw.collections import _blocks, _memory, soft_dtw_sums
from libsdtw.collections._memory import V1, V2

GIB = 1 << 30


def stat(used, cached):
    """A part of the pages of files has been read twice."""
    parts = {"inactive_file": cached - cached // 3, "active_file": cached // 3}
    return f"anon {used}\n" + "".join(f"{k} {v}\ntotal_{k} {v}\n" for k, v in parts.items())


def machine(root, free, groups):
    """A tree of files as of Linux's, where so much is free."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {99 * GIB >> 10} kB\nMemAvailable: {free >> 10} kB\n")
    (root / "proc/self/cgroup").write_text(groups)


def group(root, path, names, limit, used=0, cached=0):
    there = root / "sys/fs/cgroup" / path
    there.mkdir(parents=True, exist_ok=True)
    (there / names[0]).write_text(f"{limit}\n")
    (there / names[1]).write_text(f"{used}\n")
    (there / "memory.stat").write_text(stat(used, cached))


def test_without_control_groups_the_machines_memory_is_free(tmp_path):
    machine(tmp_path, 4 * GIB, "0::/user.slice\n")
    assert _memory.free_bytes(tmp_path) == 4 * GIB
    (tmp_path / "proc/self/cgroup").unlink()
    assert _memory.free_bytes(tmp_path) == 4 * GIB
    assert _memory.free_bytes() > 0


@pytest.mark.parametrize(
    ("names", "line", "below"), [(V2, "0::/{}\n", ""), (V1, "5:cpu:/x\n4:memory:/{}\n0::/\n", "memory/")]
)
def test_the_least_limit_holds(names, line, below, tmp_path):
    machine(tmp_path, 8 * GIB, line.format("pod/job"))
    group(tmp_path, below + "pod/job", names, "max" if names is V2 else 1 << 63, used=GIB)
    assert _memory.free_bytes(tmp_path) == 8 * GIB
    group(tmp_path, below + "pod/job", names, 6 * GIB, used=3 * GIB, cached=2 * GIB)
    assert _memory.free_bytes(tmp_path) == 5 * GIB
    group(tmp_path, below + "pod", names, 4 * GIB, used=3 * GIB, cached=GIB)
    assert _memory.free_bytes(tmp_path) == 2 * GIB
    group(tmp_path, below + "pod", names, GIB, used=2 * GIB)
    assert _memory.free_bytes(tmp_path) == 0


@pytest.mark.parametrize(("names", "below"), [(V2, ""), (V1, "memory/")])
def test_a_container_sees_its_group_as_the_outermost(names, below, tmp_path):
    machine(tmp_path, 8 * GIB, f"{'0::' if names is V2 else '4:memory:'}/docker/0123\n")
    group(tmp_path, below, names, 3 * GIB, used=GIB)
    assert _memory.free_bytes(tmp_path) == 2 * GIB


def test_what_a_container_cannot_hold_is_refused(tmp_path, monkeypatch):
    machine(tmp_path, 8 * GIB, "0::/\n")
    group(tmp_path, "", V2, 20 << 20, used=10 << 20)
    monkeypatch.setattr(_blocks, "free_bytes", lambda: _memory.free_bytes(tmp_path))
    x = np.zeros((3000, 2, 1), np.float32)
    with pytest.raises(MemoryError, match=r"^block is \(3000, 3000\), .* and 0\.0 GB are free"):
        soft_dtw_sums(x, x, gamma=1.0, block=(3000, 3000))
