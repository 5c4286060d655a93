# Several devices of a host that compute the rounds of k-means together.
"""Team."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._blocks import in_parts
from ._devices import Device, opened
from ._objective import Evaluated, Found, Objectives
from ._pairs import PairOptions, raw_values
from ._series import Series

# Cells of a part of values, so few that devices end together. Of GPUs 40 ms: pairs that leave the range of
# float32 take a warp each, in double, and of few pairs at a time most of a GPU would be idle.
CPU_CELLS, GPU_CELLS = 1 << 28, 1 << 35


class Team:
    """Devices, each with a thread of its own and the series that it was given last.

    Pairs are computed in the parts in which one device computes them one after the other, and their sums are
    added up in that order: who computes a part, and on how many devices, changes no bit.
    """

    def __init__(self, names: tuple[str, ...], options: PairOptions) -> None:
        self.names, self.devices = names, opened(names, options)
        self.threads = [ThreadPoolExecutor(1, "libsdtw") for _ in self.devices]
        self.series: Series | None = None
        self.held: list[Series] = []

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: Any) -> None:
        with ExitStack() as stack:
            for thread in self.threads:
                stack.enter_context(thread)

    def each(self, function: Callable[[int, Device], Any]) -> list[Any]:
        """What the function gives of each device, by its thread."""

        def there(number: int, device: Device) -> Any:
            with device.entered():
                return function(number, device)

        pairs = enumerate(zip(self.threads, self.devices, strict=True))
        waiting = [thread.submit(there, number, device) for number, (thread, device) in pairs]
        return [future.result() for future in waiting]

    def hold(self, series: Series) -> list[Series]:
        if self.series is not series:
            self.series, self.held = series, self.each(lambda _, device: device.keep(series))
        return self.held

    def raw_values(self, x: Series, y: Series, options: PairOptions) -> NDArray[Any]:
        """Each device has every nth part of x, whose series it holds."""
        held, kind = self.hold(x), np.result_type(x.value_dtype, y.value_dtype)
        cells = len(x) * len(y) * x.steps * y.steps
        count = min(len(x), math.ceil(cells / (CPU_CELLS if self.names[0] == "cpu" else GPU_CELLS)))
        edges = np.linspace(0, len(x), count + 1).astype(int).tolist()
        parts = list(itertools.pairwise(edges))

        def mine(number: int, device: Device) -> list[NDArray[Any]]:
            own, others = device.of(replace(options, normalize=False)), device.keep(y.as_values(kind))
            return [
                raw_values(held[number].part(*part).as_values(kind), others, own, device.fetch)
                for part in parts[number :: len(self.devices)]
            ]

        found, n = self.each(mine), len(self.devices)
        return np.concatenate([found[part % n][part // n] for part in range(count)])

    def own_values(self, series: Series, options: PairOptions) -> NDArray[Any]:
        """Values of series with themselves: few enough for one device."""

        def of_first(number: int, device: Device) -> Any:
            return in_parts(device.keep(series), device.of(options)) if number == 0 else None

        found: NDArray[Any] = self.each(of_first)[0]
        return found

    def objectives(self, *args: Any) -> SharedObjectives:
        """Arguments are those of Objectives."""
        return SharedObjectives(self, *args)


class SharedObjectives:
    """Objectives, of which each device has every nth part."""

    def __init__(
        self, team: Team, shape: tuple[int, ...], series: Series, clusters: int, options: PairOptions
    ) -> None:
        held = team.hold(series)

        def mine(number: int, device: Device) -> Objectives:
            share = number, len(team.devices)
            return Objectives(shape, held[number], clusters, device.of(options), share)

        self.team, self.series, self.made = team, series, team.each(mine)

    def of(self, weights: NDArray[Any], labels: NDArray[Any]) -> SharedObjective:
        return SharedObjective(self, weights, labels)


class SharedObjective:
    """An Objective, likewise."""

    def __init__(self, shared: SharedObjectives, weights: NDArray[Any], labels: NDArray[Any]) -> None:
        self.team = shared.team
        self.made: Objectives = shared.made[0]
        self.each = self.team.each(lambda number, _: shared.made[number].of(weights, labels))
        self.totals, self.unit = self.each[0].totals, self.each[0].unit

    def __call__(self, centers: NDArray[Any]) -> Evaluated:
        found: list[list[Found]] = self.team.each(lambda number, _: list(self.each[number].found(centers)))
        parts, n = sum(map(len, found)), len(found)
        return self.made.evaluated(found[part % n][part // n] for part in range(parts))
