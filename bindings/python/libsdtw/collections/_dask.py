# Panels on the workers of a Dask cluster.
"""shares, and matrices of Dask's own arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._blocks import Job
from ._keep import Panel

AHEAD = 3  # panels that each thread of a worker has in hand or waiting


def shares(job: Job, panels: list[Panel], client: Any) -> Iterator[tuple[Panel, Any]]:
    """Shares of panels as they are finished. What a lost worker had in hand is computed by another."""
    from distributed import as_completed

    def submit(panel: Panel) -> Any:
        x = None if job.y is None else job.x.part(panel.begin, panel.end)
        future = client.submit(_share, common, panel, x, pure=False, retries=3)
        waiting[future.key] = panel
        return future

    waiting: dict[Any, Panel] = {}
    if job.options.normalize:
        job.own_of_y()  # travels with the job
    # Every worker has y, so that the loss of one loses nothing
    common = client.scatter(job.without_x(), broadcast=True, hash=False)
    threads = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    rest = iter(panels)
    first = [submit(panel) for _, panel in zip(range(AHEAD * max(1, threads)), rest, strict=False)]
    finished = as_completed(first)
    del first
    for future in finished:
        share = future.result()
        yield waiting.pop(future.key), share
        after = next(rest, None)
        if after is not None:
            finished.add(submit(after))


def _share(job: Job, panel: Panel, x: Any) -> Any:
    return job.share(panel, x)
