"""Repetition, statistics and memory growth of a call; names of the machine and of the commit."""

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np


def measure(work, device, budget_s=0.6, least=None, most=40, warm=False):
    """Seconds of repeated calls: until the budget or `most`, at least `least`, after a warm-up."""
    least = least or device.least
    if not warm:
        work()
    seconds = []
    while len(seconds) < least or (sum(seconds) < budget_s and len(seconds) < most):
        seconds.append(device.time(work))
    return seconds


def statistics(seconds):
    p10, median, p90 = np.percentile(seconds, [10, 50, 90]) * 1e3
    return {
        "median_ms": round(median, 5),
        "p10_ms": round(p10, 5),
        "p90_ms": round(p90, 5),
        "reps": len(seconds),
    }


def peak_extra_bytes(work):
    """Growth of the process' resident memory while work runs, at its peak; None where Linux does not tell."""

    def resident(field):
        return int(re.search(rf"{field}:\s+(\d+)", Path("/proc/self/status").read_text()).group(1)) * 1024

    try:
        ctypes.CDLL(None).malloc_trim(0)  # memory that malloc kept from earlier calls would hide the growth
        Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM
        before = resident("VmRSS")
        work()
        return max(resident("VmHWM") - before, 0)
    except (OSError, AttributeError):
        return None


def cpu_name():
    text = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*:\s*(.*)$", text, re.MULTILINE))
    if "model name" not in fields:
        return "unknown"
    return f"{fields['model name']} (family {fields.get('cpu family')}, model {fields.get('model')})"


def commit(root):
    """Short hash of HEAD, with + where src or include differ from it; 'unknown' outside a checkout."""
    git = ["git", "-C", str(root)]
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "include"]).returncode
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed else "")
