"""The value that every library must give before it is timed: tslearn's in float64, or else our own."""

import dataclasses

import numpy as np

import cases
from devices import Host
from ours import Prepared

CELL_LIMIT = 20_000_000  # of one pair: larger ones are timed unchecked


def check_alignments(alignments, data):
    """Every path visits each row, each column and both corners, so that E sums to 1 at least."""
    for b, e in enumerate(alignments):
        n = len(e) if data.x_len is None else data.x_len[b]
        m = e.shape[1] if data.y_len is None else data.y_len[b]
        e = e[:n, :m].astype(np.float64)
        least = min(e.sum(0).min(), e.sum(1).min(), e[0, 0], e[-1, -1])
        if not (least >= 1 - 1e-5 and e.max() <= 1 + 1e-5 and e.min() >= 0):
            raise SystemExit(f"pair {b}: E is no alignment, the least of its sums and corners is {least}")


class ExpectedValues:
    """Values of cases' first pairs, computed once; None for too large a pair.

    Without tslearn they are the CPU backend's in float64, which the tests hold against the oracle.
    """

    def __init__(self, library):
        self._values, self._library = {}, library
        try:
            from scipy.spatial.distance import cdist
            from tslearn.metrics import SoftDTW

            self._cdist, self._soft_dtw = cdist, SoftDTW
        except ImportError:
            self._soft_dtw = None

    def value(self, case, dtype):
        if (case, dtype) not in self._values:
            data = cases.make_data(case, dtype)
            evaluate = self._own if self._soft_dtw is None else self._tslearn
            self._values[case, dtype] = None if case.N * case.M > CELL_LIMIT else evaluate(case, data)
        return self._values[case, dtype]

    def _own(self, case, data):
        arrays = [None if a is None else a[:1] for a in (data.x, data.y, data.cost, data.x_len, data.y_len)]
        series = [None if a is None else a.astype(np.float64) for a in arrays[:3]]
        one = dataclasses.replace(case, B=1), cases.Data(*series, *arrays[3:], case.N * case.M)
        prepared = Prepared(self._library, Host(), *one, "f64", "value", "", 0)
        prepared.run()
        return float(prepared.output("value")[0])

    def _tslearn(self, case, data):
        n = case.N if data.x_len is None else data.x_len[0]
        m = case.M if data.y_len is None else data.y_len[0]
        if case.fused:
            cost = self._cdist(
                data.x[0, :n].astype(np.float64), data.y[0, :m].astype(np.float64), "sqeuclidean"
            )
        else:
            cost = data.cost[0, :n, :m].astype(np.float64)
        return float(self._soft_dtw(cost, gamma=case.gamma).compute())

    def check(self, name, case, dtype, got, tolerance, magnitude=False):
        """Ends the run where a value (or magnitude) is off by more than tolerance * max(1, |expected|)."""
        expected = self.value(case, dtype)
        if magnitude and expected is not None:
            expected = abs(expected)
        if expected is not None and not abs(got - expected) <= tolerance * max(1.0, abs(expected)):
            raise SystemExit(f"{name} at {case}: value {got!r} of the first pair, expected {expected!r}")
