# The averages of all clusters at once, of any metric: L-BFGS in step, which remembers from round to round.
"""QuasiNewton."""

from __future__ import annotations

import numpy as np

from ._descent import FLAT, NOISE, Bools, Descents, Floats, Objectives, steepness

PAIRS = 6  # of steps and changes of the gradient that are remembered
TRIES = 8  # of a step's length, each at most half of the one before
ENOUGH = 0.02  # a step that lowers a value by less than this share of the round's descent ends the round
MANY = 1 / 3  # of a cluster's series: when so many have come or gone, what is remembered is of another one


class QuasiNewton(Descents):
    """L-BFGS (Nocedal 1980) for each cluster on its own, all in the same calls of the library.

    SciPy's is for one problem at a time, and begins each time as if nothing were known. k-means asks for a
    few steps of each cluster in each round, of problems that hardly differ from those of the round before.
    """

    def __init__(self, clusters: int, metric: str, gamma: float) -> None:
        super().__init__(clusters)
        self.metric, self.gamma = metric, gamma
        self.steps: list[tuple[Floats, Floats, Floats]] = []  # steps, changes, and 1 / their product or 0
        self.scale = np.full(clusters, np.nan)

    def forget(self, clusters: Bools) -> None:
        for _, _, weight in self.steps:
            weight[clusters] = 0
        self.scale[clusters] = np.nan

    def _run(
        self, centers: Floats, objectives: Objectives, limit: int, changed: Floats, active: Bools
    ) -> None:
        self.forget(changed > MANY)
        at = centers.reshape(len(centers), -1)  # a view
        objective = objectives(active)
        totals = objective.totals
        mean = 1 / np.where(totals > 0, totals, 1)
        active = active & (totals > 0)
        self.gained[active] = 0
        held = float(totals.sum())

        def evaluate(rows: Floats) -> tuple[Floats, Floats]:
            values, grads, _ = objective(rows.reshape(centers.shape))
            return values * mean, grads.reshape(at.shape) * mean[:, None]

        value, slope = evaluate(at)
        active &= np.isfinite(value) & np.isfinite(slope).all(axis=1)
        value[~active], slope[~active] = 0, 0
        first, taken, tried = value.copy(), np.zeros(len(at), int), np.zeros(len(at), int)
        length, unit = np.ones(len(at)), objective.unit
        direction, along = self._directions(slope, unit.apart)
        while True:
            active &= -along * length > NOISE * np.abs(value)
            active &= steepness(slope, unit, self.gamma) > FLAT
            if not active.any():
                return
            if totals[active].sum() < 0.5 * held:  # most series have nothing to say any more
                objective, held = objectives(active), float(totals[active].sum())
            trial = np.where(active[:, None], at + length[:, None] * direction, at)
            there, slopes = evaluate(trial)
            better = active & (there <= value + 1e-4 * length * along)
            worse = active & ~better
            self._remember(trial - at, slopes - slope, better)
            gain = value - there
            self.gained[better] += (gain * totals)[better]
            taken += better
            tried = np.where(better, 0, tried + 1)
            done = better & ((taken >= limit) | (gain <= ENOUGH * (first - there)))
            length = np.where(worse, length * _shorter(along * length, gain), 1.0)
            at[better], value[better], slope[better] = trial[better], there[better], slopes[better]
            active &= ~(done | (tried >= TRIES))
            new, steeper = self._directions(slope, unit.apart)
            direction, along = np.where(better[:, None], new, direction), np.where(better, steeper, along)

    def _directions(self, slope: Floats, apart: float) -> tuple[Floats, Floats]:
        """Where to go from gradients (k, n), by the recursion of two loops, and the slopes there."""
        way = slope.copy()
        known = []
        for step, change, weight in reversed(self.steps):
            known.append(weight * _dot(step, way))
            way -= known[-1][:, None] * change
        fresh = np.isnan(self.scale)
        way *= np.where(fresh, self._first(slope, apart), self.scale)[:, None]
        for (step, change, weight), before in zip(self.steps, reversed(known), strict=True):
            way += (before - weight * _dot(change, way))[:, None] * step
        along = -_dot(slope, way)
        uphill = ~(along < 0)
        if uphill.any():  # what is remembered is of another place
            self.forget(uphill)
            way[uphill] = (self._first(slope, apart)[:, None] * slope)[uphill]
            along = -_dot(slope, way)
        return -way, along

    def _first(self, slope: Floats, apart: float) -> Floats:
        """What a gradient is multiplied by where no step is known.

        The first step is a tenth of what is typically between time steps of the series.
        """
        largest = np.abs(slope).max(axis=1)
        return 0.1 * apart / np.where(largest > 0, largest, 1)

    def _remember(self, step: Floats, change: Floats, better: Bools) -> None:
        product, size = _dot(step, change), _dot(change, change)
        good = better & (product > 1e-8 * np.sqrt(_dot(step, step) * size))
        if not good.any():
            return
        weight = np.where(good, 1 / np.where(good, product, 1), 0)
        for one in (step, change):
            one[~good] = 0
        self.scale[good] = product[good] / size[good]
        self.steps = [*self.steps[1 - PAIRS :], (step, change, weight)]


def _dot(a: Floats, b: Floats) -> Floats:
    result: Floats = np.einsum("kn,kn->k", a, b)
    return result


def _shorter(along: Floats, gain: Floats) -> Floats:
    """The share of a step that failed at which the parabola through what is known is least."""
    with np.errstate(divide="ignore"):
        share = along / (2 * (gain + along))
    result: Floats = np.clip(np.nan_to_num(share, nan=0.5, posinf=0.5, neginf=0.1), 0.1, 0.5)
    return result
