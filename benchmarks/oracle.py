"""The value that every library must give before it is timed: tslearn's, in float64."""

import numpy as np

import cases

CELL_LIMIT = 20_000_000  # of one pair: larger ones are timed unchecked


class Oracle:
    """Values of cases' first pairs, computed once; None without tslearn or for too large a pair."""

    def __init__(self):
        self._values = {}
        try:
            from scipy.spatial.distance import cdist
            from tslearn.metrics import SoftDTW

            self._cdist, self._soft_dtw = cdist, SoftDTW
        except ImportError:
            self._soft_dtw = None

    def value(self, case, dtype):
        if (case, dtype) not in self._values:
            skip = self._soft_dtw is None or case.N * case.M > CELL_LIMIT
            self._values[case, dtype] = None if skip else self._evaluate(case, cases.make_data(case, dtype))
        return self._values[case, dtype]

    def _evaluate(self, case, data):
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
