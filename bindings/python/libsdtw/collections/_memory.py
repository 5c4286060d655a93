# Memory that is left: of the machine, and of the control groups that this process is in, as in a container.
"""free_bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

V1 = "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
V2 = "memory.max", "memory.current", ("inactive_file", "active_file")


def free_bytes(root: Path = Path("/")) -> int | None:
    """Memory that is free now, or None where the system does not say."""
    return min((size for size in (_of_machine(root), *_of_groups(root)) if size is not None), default=None)


def _of_machine(root: Path) -> int | None:
    try:
        fields = dict(line.split(":") for line in (root / "proc/meminfo").read_text().splitlines())
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        try:
            return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return None


def _of_groups(root: Path) -> Iterator[int | None]:
    """Of each control group that this process is in; the limits of all of them hold."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        mounted, names = root / "sys/fs/cgroup", V2
        if controllers:
            mounted, names = mounted / "memory", V1
        inside = Path(path.lstrip("/"))
        for group in (inside, *inside.parents):  # a container may see its own group as the outermost one
            yield _of_group(mounted / group, *names)


def _of_group(group: Path, limit: str, used: str, cached: tuple[str, ...]) -> int | None:
    """What it may still take: files that it has read it can do without."""
    try:
        most, now = (int((group / name).read_text()) for name in (limit, used))  # "max" where there is none
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return max(0, most - now + sum(int(stat.get(name, 0)) for name in cached))
    except (OSError, KeyError, ValueError):
        return None
