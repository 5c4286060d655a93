# The averages of all clusters at once, of squared distances: least points of a majorant, with momentum.
"""Majorants."""

from __future__ import annotations

import itertools

import numpy as np

from ._descent import FLAT, NOISE, Bools, Descents, Floats, Objectives, steepness

MOMENTUM, ALONE = 0.8, 0.95  # of a cluster that has other series than before, and of one that has not
FEW = 2  # steps of the first, which the next round may give others again
ENOUGH = 0.05  # a step that promises less than this share of what the round's best has ends the round
NEAR = 0.003  # likewise of a step from which on momentum ends where it leads uphill (O'Donoghue, Candes 2015)
GAINED = 10  # times what a step promises without momentum, which those of a round may bring with it
SURE = 1e-5  # of a value: by so much the calls of averages and assignments may differ in float32


class Majorants(Descents):
    """Steps to the least points of majorants, of each cluster on its own, with momentum.

    Soft-DTW is concave in the costs. So with E the expected alignment of a center z and a series x,
    sum_ij E_ij |c_i - x_j|^2 lies nowhere below it, but for a constant, and touches it at c = z. Its least
    point, c_i = (E x)_i / (E 1)_i, is the step of DTW barycenter averaging (Petitjean, Ketterlin and
    Gancarski 2011) for soft alignments, and in terms of the gradient z - g / (2 E 1), of many series as of
    one. From there it goes on by a share of the way from the least point before (Nesterov 1983), which
    outlives the round; but not where that led up. The divergence takes the same steps, though it has another
    majorant, and half of one that led up.

    The last step of a round waits for its value until the assignment has found that out, and no length is
    searched for: a round of two steps takes two evaluations of each series.
    """

    def __init__(
        self, clusters: int, gamma: float, tol: float = FLAT, enough: float = ENOUGH, noise: float = NOISE
    ) -> None:
        """tol: of the steepness of the mean, below which a center stays."""
        super().__init__(clusters)
        self.gamma, self.tol = gamma, tol
        self.enough, self.noise = enough, noise
        self.fresh = np.ones(clusters, bool)  # without momentum
        self.least: Floats | None = None  # the last least points
        self.known: Floats | None = None  # the last centers that have values, and these
        self.value = np.full(clusters, np.inf)
        self.settled = np.zeros(clusters, bool)  # clusters that had nowhere to go in the last run
        self.totals = np.zeros(clusters)

    def forget(self, clusters: Bools) -> None:
        self.fresh |= clusters

    def _run(self, at: Floats, objectives: Objectives, limit: int, changed: Floats, active: Bools) -> None:
        objective = objectives(active)
        totals = self.totals = objective.totals
        if self.least is None or self.known is None:
            self.least, self.known = at.copy(), at.copy()
        self.least[self.fresh], self.known[self.fresh] = at[self.fresh], at[self.fresh]
        self.fresh[:] = False
        self.moved = active = active & (totals > 0)
        self.value[active], self.gained[active], self.settled[:] = np.inf, 0, False
        held = totals.sum()
        mean = 1 / np.where(totals > 0, totals, 1)
        last = np.where(changed > 0, min(FEW, limit), limit)
        momentum = np.where(changed > 0, MOMENTUM, ALONE)
        first, most, carried = self.value, np.zeros(len(at)), np.zeros(len(at), bool)
        for step in itertools.count(1):
            if totals[active].sum() < 0.5 * held:  # most series have nothing to say any more
                objective, held = objectives(active), totals[active].sum()
            values, grads, masses = objective(at)
            assert masses is not None
            way = grads * (0.5 / np.where(masses > 0, masses, np.inf))[:, :, None]
            value, fall = values * mean, 0.5 * mean * np.einsum("kmd,kmd->k", grads, way)
            better = active & (value - self.value <= self.noise * np.abs(value)) & np.isfinite(fall)
            if step == 1:
                self.moved = active = better  # what has no value stays
                first = value
            downhill = np.einsum("kmd,kmd->k", grads, at - self.known) <= 0
            np.copyto(self.known, at, where=better[:, None, None])
            self.value[better] = value[better]
            self.gained[better] = (totals * (first - value + fall))[better]
            most = np.where(better, np.maximum(most, fall), most)
            onward = better & (downhill | (fall > NEAR * most))
            steep = steepness(grads, objective.unit, self.gamma) * mean > self.tol
            settled = better & ~(steep & (fall > self.noise * np.abs(value)))
            self.settled |= settled
            least = at - way
            for k in np.flatnonzero(active & ~better):
                least[k] = self.least[k] if carried[k] else 0.5 * (at[k] + self.known[k])
            carried = onward
            goes = (active & ~settled)[:, None, None]
            np.copyto(at, least + (momentum * onward)[:, None, None] * (least - self.least), where=goes)
            np.copyto(self.least, least, where=goes)
            ahead = GAINED * fall * totals * (last - step)
            little = (step >= FEW) & ((fall <= self.enough * most) | (ahead < self.least_gain))
            active = active & ~(settled | (better & little) | (step >= last))
            if not active.any():
                return

    def undone(self, centers: Floats, values: Floats) -> Bools:
        mean = values / np.where(self.totals > 0, self.totals, 1)
        worse: Bools = self.moved & ~(mean - self.value <= SURE * np.abs(self.value))
        if self.known is not None and worse.any():
            centers[worse] = self.known[worse]
            self.forget(worse)
        return worse
