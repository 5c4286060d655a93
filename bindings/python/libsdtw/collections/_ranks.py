# Panels on the ranks of torch.distributed.
"""run, in step on all ranks of a process group."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

from ._blocks import Job
from ._checkpoint import Memory
from ._keep import Arrays, Panel
from ._progress import Bar
from ._search import open_store


def run(job: Job, checkpoint: str | os.PathLike[str] | None, progress: bool, group: Any) -> Arrays:
    """Each rank takes every so many-th panel; after each round all have all shares. Rank 0 keeps the
    checkpoint.

    All backends exchange objects; NCCL does so through the current GPU of each rank, and
    torch.cuda.set_device says which.
    """
    import torch.distributed as dist

    rank, ranks = dist.get_rank(group), dist.get_world_size(group)

    def gathered(make: Callable[[], Any]) -> list[Any]:
        """What each rank makes; where one fails all raise, and none waits for it for ever."""
        own: Any = None
        error: Exception | None = None
        try:
            own = make()
        except Exception as failure:
            error = failure
        found: list[Any] = [None] * ranks
        dist.all_gather_object(found, (own, None if error is None else str(error)), group)
        if error is not None:
            raise error
        for number, (_, said) in enumerate(found):
            if said is not None:
                raise RuntimeError(f"rank {number} of {ranks} failed: {said}")
        return [made for made, _ in found]

    with ExitStack() as stack:
        stores: list[Memory] = []

        def begin() -> tuple[set[int], dict[str, Any]]:
            stores.append(stack.enter_context(closing(open_store(job, checkpoint if rank == 0 else None))))
            there = stores[0].done if rank == 0 else set()
            return there, {name: array[...] for name, array in stores[0].arrays.items()} if there else {}

        done, arrays = gathered(begin)[0]
        store = stores[0]
        if rank:
            for name, array in arrays.items():
                store.arrays[name][...] = array
        panels = [panel for panel in job.panels() if panel.number not in done]
        bar = stack.enter_context(Bar(progress and rank == 0, job.pairs.panels, "pairs", done=len(done)))
        for i in range(0, len(panels), ranks):
            these = panels[i : i + ranks]
            mine = these[rank] if rank < len(these) else None
            shares = gathered(partial(_share, job, mine))
            for panel, share in zip(these, shares, strict=False):
                store.put(job, panel, share)
                bar.update()
    return store.arrays


def _share(job: Job, panel: Panel | None) -> Any:
    return None if panel is None else job.share(panel)
