# Functions of two collections: neighbours, sums, histograms and matrices of all pairs.
"""reduce_pairs and what is built on it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import InvalidArgumentError
from . import _devices
from ._blocks import Job
from ._checkpoint import Directory, Memory
from ._devices import parse
from ._keep import KEEPERS, Arrays, Histogram, Keep, Matrix, Panel, Sums, TopK, merges
from ._pairs import PairOptions, resolve_gamma
from ._progress import Bar
from ._series import as_series, library_of


def reduce_pairs(
    x: Any,
    y: Any = None,
    *,
    keep: Keep,
    gamma: float | str = "median",
    metric: str = "sqeuclidean",
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    normalize: bool = True,
    x_lengths: Any = None,
    y_lengths: Any = None,
    block: tuple[int, int] | int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    cluster: Any = None,
    device: str | Sequence[str] | None = None,
    progress: bool = False,
    num_threads: int = 0,
) -> Arrays:
    """What is kept of the values of every series of x with every one of y, in memory of one block of them.

    Args:
        x, y: collections: (B, N, D), (B, N) of one feature, or lists of series (N_b, D) or (N_b,); NaN at the
            end of a series is padding. Arrays of NumPy (memory-mapped ones are read a part at a time, but of
            integers a copy in float64 is made), or of PyTorch or CuPy, which are computed with where they
            are. y None: x itself.
        keep: :class:`TopK`, :class:`Sums`, :class:`Histogram` or :class:`Matrix`.
        gamma: smoothing; "median": a tenth of the median cost of two time steps of different series of x.
        metric, band, radius, step_weights, step_penalties: as of :func:`libsdtw.numpy.soft_dtw`.
        normalize: the soft-DTW divergence, which is 0 of a series with itself (and may be below it by a
            little elsewhere, where gamma is large); False: soft-DTW itself, which is negative where series
            are alike, and is not to be compared between series of different lengths.
        x_lengths, y_lengths: time steps of each series, (B,) integers; the rest is padding.
        block: rows, or (rows, columns), of a block of values. Rows are also what is computed between two
            writes of a checkpoint. None: chosen by the sizes.
        checkpoint: a directory. A call that was killed goes on from it when it is called again with the same
            arguments, and gives the same bits; what it has finished is not computed again.
        cluster: None: this process; a dask.distributed.Client: its workers, of which any may be lost; the
            module ray, after ray.init(): likewise; or a process group of torch.distributed, all of whose
            ranks make the same call and get the same arrays. The bits are those of one process.
        device: "cpu", "cuda" or "cuda:N"; None: where x is. A list, as ["cuda:0", "cuda:1"]: all of them,
            each of which takes the next panel when it is free; the bits are those of one. "cpu" in a list is
            a share of the cores.
        progress: show a progress bar of tqdm.
        num_threads: threads of the calls; 0: OpenMP's default. Any number gives the same bits.

    Returns:
        The keeper's arrays by name; with a checkpoint they are memory-mapped.
    """
    place, devices = parse(device)
    if not isinstance(keep, KEEPERS):
        raise TypeError(f"keep is {keep!r}: expected TopK(), Sums(), Histogram(edges) or Matrix()")
    if y is None and y_lengths is not None:
        raise InvalidArgumentError("y_lengths is given without y: expected x_lengths alone")
    if y is not None and isinstance(keep, TopK) and keep.skip_self:
        raise InvalidArgumentError(
            f"keep is {keep!r} and y is given: expected y None, which is x itself, or skip_self False"
        )
    first = as_series("x", x, x_lengths, place, "x_lengths")
    second = None if y is None else as_series("y", y, y_lengths, place, "y_lengths")
    options = PairOptions(
        resolve_gamma(gamma, first, metric),
        *(metric, band, radius, step_weights, step_penalties, normalize, num_threads),
    )
    return run(Job(first, second, options, keep, block, devices), checkpoint, progress, cluster)


def run(
    job: Job,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = False,
    cluster: Any = None,
) -> Arrays:
    """All panels of a job that are not yet done."""
    job.check_memory(checkpoint is not None)
    shares: Iterable[tuple[Panel, Any]]
    library = "" if cluster is None else getattr(cluster, "__name__", library_of(cluster))
    if library not in ("", "distributed", "ray", "torch"):
        raise TypeError(
            f"cluster is {cluster!r}: expected a dask.distributed.Client, a torch ProcessGroup or the module "
            "ray"
        )
    if library and job.devices:
        raise InvalidArgumentError(
            f"device is {list(job.devices)} and cluster is given: expected one device in each process"
        )
    if library == "torch":
        from . import _ranks

        return _ranks.run(job, checkpoint, progress, cluster)
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(job, checkpoint)))
        panels = [panel for panel in job.panels() if panel.number not in store.done]
        if library == "distributed":
            from . import _dask

            shares = _dask.shares(job, panels, cluster)
        elif library == "ray":
            from . import _ray

            shares = _ray.shares(job, panels, cluster)
        elif job.devices:
            shares = stack.enter_context(closing(_devices.shares(job, panels)))  # which ends its threads
        else:
            shares = ((panel, job.share(panel)) for panel in panels)
        if merges(job.keep, job.pairs) and job.keep.ordered:
            shares = in_order(panels, shares)
        bar = stack.enter_context(Bar(progress, job.pairs.panels, "pairs", done=len(store.done)))
        for panel, share in shares:
            store.put(job, panel, share)
            bar.update()
    return store.arrays


def in_order(panels: list[Panel], shares: Iterable[tuple[Panel, Any]]) -> Iterator[tuple[Panel, Any]]:
    """Shares that come as they are finished, in the order of their panels."""
    early: dict[int, Any] = {}
    rest = iter(panels)
    due = next(rest, None)
    for panel, share in shares:
        early[panel.number] = share
        while due is not None and due.number in early:
            yield due, early.pop(due.number)
            due = next(rest, None)


def open_store(job: Job, checkpoint: str | os.PathLike[str] | None) -> Memory:
    return Memory(job) if checkpoint is None else Directory(job, checkpoint)


def soft_dtw_top_k(x: Any, y: Any = None, k: int = 1, **options: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """The k nearest series of y of each series of x; for y None of x, none being its own neighbour.

    Other arguments are those of :func:`reduce_pairs`.

    Returns:
        Values, least first, and indices into y; (P, k) each.
    """
    found = reduce_pairs(x, y, keep=TopK(k, skip_self=y is None), **options)
    return found["values"], found["indices"]


def soft_dtw_argmin(x: Any, y: Any, **options: Any) -> NDArray[Any]:
    """The index of the series of y that is nearest to each series of x, (P,)."""
    indices: NDArray[Any] = reduce_pairs(x, y, keep=TopK(1), **options)["indices"][:, 0]
    return indices


def soft_dtw_sums(x: Any, y: Any = None, **options: Any) -> NDArray[Any]:
    """The sum of each series' values with all of y, (P,). The medoid of x is at the least of
    soft_dtw_sums(x)."""
    sums: NDArray[Any] = reduce_pairs(x, y, keep=Sums(), **options)["sum"]
    return sums


def soft_dtw_histogram(x: Any, y: Any = None, *, edges: ArrayLike, **options: Any) -> NDArray[Any]:
    """How many of the values of all pairs are between edges, (len(edges) - 1,)."""
    counts: NDArray[Any] = np.asarray(reduce_pairs(x, y, keep=Histogram(edges), **options)["counts"]).sum(
        axis=0
    )
    return counts


def soft_dtw_matrix(x: Any, y: Any = None, *, out: Any = None, **options: Any) -> Any:
    """All values, (P, Q): as scikit-learn's estimators take them with metric="precomputed".

    Args:
        out: where they are written: a memory-mapped array of NumPy, an array of Zarr, or anything else that
            takes slices. None: a new array, in the directory of the checkpoint if there is one.

    Other arguments are those of :func:`reduce_pairs`. Of x with itself half of the values are computed.
    """
    found = reduce_pairs(x, y, keep=Matrix(out), **options)
    return found["matrix"] if out is None else out
