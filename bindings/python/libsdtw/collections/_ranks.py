# Panels on the ranks of torch.distributed.
"""run, in step on all ranks of a process group."""

from __future__ import annotations

import os
from contextlib import closing
from typing import Any

from ._blocks import Job
from ._keep import Arrays
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
    with closing(open_store(job, checkpoint if rank == 0 else None)) as store:
        before: list[Any] = [None] * ranks
        there = {name: array[...] for name, array in store.arrays.items()} if store.done and rank == 0 else {}
        dist.all_gather_object(before, (store.done, there), group)
        done, found = before[0]
        if rank:
            for name, array in found.items():
                store.arrays[name][...] = array
        panels = [panel for panel in job.panels() if panel.number not in done]
        with Bar(progress and rank == 0, job.pairs.panels, "pairs", done=len(done)) as bar:
            for i in range(0, len(panels), ranks):
                these = panels[i : i + ranks]
                mine = job.share(these[rank]) if rank < len(these) else None
                shares: list[Any] = [None] * ranks
                dist.all_gather_object(shares, mine, group)
                for panel, share in zip(these, shares, strict=False):
                    store.put(job, panel, share)
                    bar.update()
    return store.arrays
