# Panels as tasks of Ray.
"""shares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ._blocks import Job
from ._keep import Panel

AHEAD = 3  # panels for each CPU of the cluster, in hand or waiting


def shares(job: Job, panels: list[Panel], ray: Any) -> Iterator[tuple[Panel, Any]]:
    """Shares of panels as they are finished. What a lost worker had in hand is computed by another."""
    if job.options.normalize:
        job.own_of_y()  # travels with the job
    common, task = ray.put(job.without_x()), ray.remote(_share).options(max_retries=3)

    def submit(panel: Panel) -> Any:
        x = None if job.y is None else job.x.part(panel.begin, panel.end)
        return task.remote(common, panel, x)

    rest = iter(panels)
    most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
    waiting = {submit(panel): panel for panel in islice(rest, most)}
    try:
        while waiting:
            (finished,), _ = ray.wait(list(waiting))
            yield waiting.pop(finished), ray.get(finished)
            waiting |= {submit(panel): panel for panel in islice(rest, 1)}
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _share(job: Job, panel: Panel, x: Any) -> Any:
    return job.share(panel, x)
