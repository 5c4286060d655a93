# The devices of one host that share a job's panels: each takes the next one when it is free.
"""parse, which reads the argument `device`, and shares."""

from __future__ import annotations

import copy
import re
import threading
from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import InvalidArgumentError
from ._blocks import Job
from ._keep import Panel
from ._pairs import PairOptions
from ._series import Series, require_gpu

AHEAD = 2  # panels for each thread: one in hand, and one waiting
GPU_THREADS = 2  # of a GPU: it computes a block of one while the other looks through the values of its own
_NAME = re.compile(r"cpu|cuda(:\d+)?")


def parse(device: Any) -> tuple[str | None, tuple[str, ...]]:
    """Where the series of a job are to be, and the devices that share it: none unless a list was given."""
    if device is None:
        return None, ()
    if isinstance(device, str):
        _check_name(device, device)
        return device, ()
    if not isinstance(device, (list, tuple)) or not device:
        raise TypeError(f"device is {device!r}: expected 'cpu', 'cuda', 'cuda:1' or a list of such names")
    for name in device:
        _check_name(device, name)
    if len({name.partition(":")[0] for name in device}) > 1:
        raise InvalidArgumentError(
            f"device is {device!r}: expected CPUs or GPUs; values of the two differ in their last bits"
        )
    return "cpu", tuple(device)


def _check_name(device: Any, name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        what = "" if name is device else f", in which {name!r} is no device"
        raise InvalidArgumentError(f"device is {device!r}{what}: expected 'cpu', 'cuda' or 'cuda:N'")


class _Cpu:
    """A share of the cores."""

    threads = 1

    def __init__(self, name: str, cores: int) -> None:
        self.name, self.cores = name, cores

    def hold(self, job: Job) -> Job:
        """The job as the threads of this device compute it, with what all panels need."""
        lean = copy.copy(job)
        lean.options = self.of(job.options)
        return lean

    def of(self, options: PairOptions) -> PairOptions:
        """Options of calls on this device."""
        return replace(options, num_threads=self.cores)

    def load(self, series: Series) -> Series:
        """The series of a panel."""
        return series

    keep = load  # for all threads

    def fetch(self, values: NDArray[Any]) -> NDArray[Any]:
        return values

    def entered(self) -> AbstractContextManager[Any]:
        """What is computed within it is computed on the device."""
        return nullcontext()


class _Gpu:
    """A GPU, by PyTorch: each thread has a stream of its own, and values come by way of pinned memory."""

    threads = GPU_THREADS

    def __init__(self, name: str) -> None:
        import torch

        self.name, self.device = name, torch.device(name)
        self.own = threading.local()  # each thread's stream and pinned memory
        require_gpu(name, f"has {name!r} in it")

    def hold(self, job: Job) -> Job:
        import torch

        lean = copy.copy(job.without_x())
        lean._own = None  # the GPU's values with themselves, not the host's
        lean.fetch = self.fetch
        with torch.cuda.device(self.device):
            if job.y is None:
                lean.x = self.keep(job.x.as_values(job.pairs.dtype))
            else:
                lean.y = self.keep(job.y.as_values(job.pairs.dtype))
            if job.options.normalize:
                lean.own_of_y()
                torch.cuda.synchronize(self.device)
        return lean

    def of(self, options: PairOptions) -> PairOptions:
        return options

    def keep(self, series: Series) -> Series:
        """Series that the streams of all threads see whole."""
        import torch

        held = self.load(series)
        torch.cuda.synchronize(self.device)
        return held

    def load(self, series: Series) -> Series:
        import torch

        data = torch.from_numpy(np.ascontiguousarray(series.data)).pin_memory()
        return Series(data.to(self.device, non_blocking=True), series.lengths)

    def entered(self) -> AbstractContextManager[Any]:
        import torch

        if not hasattr(self.own, "stream"):
            self.own.stream, self.own.pinned = torch.cuda.Stream(self.device), None  # type: ignore[no-untyped-call]
        stack = ExitStack()
        stack.enter_context(torch.cuda.device(self.device))
        stack.enter_context(torch.cuda.stream(self.own.stream))
        return stack

    def fetch(self, values: Any) -> NDArray[Any]:
        """The values on the host, by this thread's pinned memory; other threads go on meanwhile."""
        import torch

        own = self.own
        if own.pinned is None or own.pinned.numel() < values.numel() or own.pinned.dtype != values.dtype:
            own.pinned = torch.empty(values.numel(), dtype=values.dtype, pin_memory=True)
        host = own.pinned[: values.numel()].view(values.shape)
        host.copy_(values, non_blocking=True)
        own.stream.record_event().synchronize()
        return np.array(host.numpy())


Device = _Cpu | _Gpu


def opened(names: tuple[str, ...], options: PairOptions) -> list[Device]:
    if names[0] != "cpu":
        return [_Gpu(name) for name in names]
    cores = options.threads
    return [
        _Cpu(f"cpu {i} of {len(names)}", max(1, cores // len(names) + (i < cores % len(names))))
        for i in range(len(names))
    ]


def shares(job: Job, panels: list[Panel]) -> Generator[tuple[Panel, Any], None, None]:
    """Shares of panels as they are finished.

    Where a device fails, what the others have in hand is finished and given out before the error is raised.
    """
    devices = opened(job.devices, job.options)
    if job.options.normalize and job.on_host:
        job.own_of_y()  # once for all
    stop, mine = threading.Event(), threading.local()
    held = [(device, device.hold(job)) for device in devices]
    free = [one for one in held for _ in range(one[0].threads)]

    def work(panel: Panel) -> Any:
        if not hasattr(mine, "device"):
            mine.device, mine.job = free.pop()  # as many as there are threads
        try:
            with mine.device.entered():
                given = None if job.y is None else job.x.part(panel.begin, panel.end)
                x = None if given is None else mine.device.load(given.as_values(job.pairs.dtype))
                return mine.job.share(panel, x, stop.is_set)
        except (MemoryError, ValueError, TypeError):
            raise  # which say what is to be done
        except Exception as error:
            raise RuntimeError(
                f"device {mine.device.name} failed on series {panel.begin} to {panel.end - 1} of x: {error}"
            ) from error

    waiting: dict[Future[Any], Panel] = {}
    rest, failed = iter(panels), None
    with ThreadPoolExecutor(len(free), "libsdtw") as pool:
        try:
            for panel in islice(rest, AHEAD * len(free)):
                waiting[pool.submit(work, panel)] = panel
            while waiting:
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    panel, error = waiting.pop(future), future.exception()
                    if error is None:
                        yield panel, future.result()
                    failed = failed or error
                    if failed is not None:  # those that no device has begun are left
                        waiting = {f: p for f, p in waiting.items() if not f.cancel()}
                    else:
                        waiting |= {pool.submit(work, after): after for after in islice(rest, 1)}
        finally:
            stop.set()
            for future in waiting:
                future.cancel()
    if failed is not None:
        raise failed
