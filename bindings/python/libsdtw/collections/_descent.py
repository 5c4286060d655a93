# The averages of all clusters at once, in step: what k-means asks of the ways to find them.
"""Descents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._objective import Evaluated
from ._pairs import Unit

FLAT = 1e-5  # of steepness: below it a center stays
NOISE = 1e-7  # of a value, which float32 may hold
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class Objective(Protocol):
    """As _objective.Objective is."""

    totals: Floats
    unit: Unit

    def __call__(self, centers: Floats) -> Evaluated: ...


Objectives: TypeAlias = Callable[[Bools], Objective]  # the objective of some clusters


def steepness(slopes: Floats, unit: Unit, gamma: float) -> Floats:
    """The largest entry of the gradient (k, M, D) or (k, n) of each mean, (k,), as numbers without a unit.

    A gradient is a cost by what is between time steps. Times that it is a cost, here relative to `Unit.cost`.
    """
    largest = np.abs(slopes).reshape(len(slopes), -1).max(axis=1)
    return np.asarray(largest * (unit.apart / unit.cost(gamma)))


class Descents(ABC):
    """Searches for the centers of all clusters, all in the same calls of the library.

    Attributes:
        gained: what its last round lowered each cluster's weighted sum of values by.
        moved: clusters that the last run has moved.
        least_gain: what is worth a round of a cluster.
    """

    def __init__(self, clusters: int) -> None:
        self.gained = np.full(clusters, np.inf)
        self.moved = np.zeros(clusters, bool)
        self.least_gain = 0.0

    @abstractmethod
    def forget(self, clusters: Bools) -> None:
        """Begins anew with clusters that are others than they were."""

    def run(
        self,
        begin: Floats,
        objectives: Objectives,
        limit: int,
        changed: Floats | None = None,
        resting: Bools | None = None,
    ) -> tuple[Floats, bool]:
        """Centers (k, M, D) that are better than begin, and whether Ctrl-C cut the search short.

        Args:
            limit: steps at most.
            changed: of each cluster, how many series have come or gone since the last run, as a share of its
                own.
            resting: clusters that stay where they are.
        """
        active = np.ones(len(begin), bool) if resting is None else ~resting
        self.moved = np.zeros(len(begin), bool)
        if not active.any():
            return begin, False
        if changed is None:
            changed = np.zeros(len(begin))
        at = begin.copy()
        try:
            with np.errstate(invalid="ignore", over="ignore"):  # a step may lead where there is no value
                self._run(at, objectives, limit, changed, active)
        except KeyboardInterrupt:
            return at, True
        return at, False

    @abstractmethod
    def _run(self, at: Floats, objectives: Objectives, limit: int, changed: Floats, active: Bools) -> None:
        """Moves `at`, the centers."""

    def undone(self, centers: Floats, values: Floats) -> Bools:
        """Takes back last steps that have led up, in `centers`, and says of which clusters.

        Args:
            centers: those that `run` has returned.
            values: (k,), the weighted sum of each cluster, which the caller finds out with what it asks next,
                so that `run` need not.
        """
        return np.zeros(len(centers), bool)
