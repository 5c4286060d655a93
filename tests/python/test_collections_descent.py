# The descent that k-means takes with all clusters at once: known minima, what cannot move, all metrics.
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libsdtw.collections import _descent, _objective, _pairs, _series


class Known:
    """Objectives that are functions of each cluster's center."""

    def __init__(self, functions, weights):
        self.functions, self.totals, self.calls = functions, np.array(weights, float), 0

    def __call__(self, centers):
        self.calls += 1
        found = [
            (0.0, 0 * c) if f is None or w == 0 else f(c)
            for f, c, w in zip(self.functions, centers, self.totals, strict=True)
        ]
        scale = self.totals
        values = np.array([v for v, _ in found]) * scale
        return values, np.stack([g for _, g in found]) * scale[:, None, None]


def quadratic(curvatures, minimum):
    return lambda c: (float((curvatures * (c - minimum) ** 2).sum()) - 3, 2 * curvatures * (c - minimum))


def rosenbrock(c):
    (a, b), slope = c[:, 0], np.zeros_like(c)
    slope[:, 0] = -2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2, slope


def test_known_minima(monkeypatch):
    monkeypatch.setattr(_descent, "ENOUGH", 0)
    monkeypatch.setattr(_descent, "NOISE", 0)
    minimum = np.array([[2.0], [-1]])
    functions = [quadratic(np.array([[100.0], [0.1]]), minimum), rosenbrock, None, quadratic(1, minimum)]
    known = Known(functions, [3, 1, 0, 0.5])
    begin = np.zeros((4, 2, 1))
    begin[1] = [[-1.2], [1]]
    descents = _descent.Descents(4, "sqeuclidean", 1.0)
    found, interrupted = descents.run(begin, lambda some: known, 200)
    assert not interrupted
    np.testing.assert_allclose(found[0], minimum, atol=1e-4)
    np.testing.assert_allclose(found[1], 1, atol=1e-3)
    np.testing.assert_array_equal(found[2], begin[2])  # nobody is there
    np.testing.assert_allclose(found[3], minimum, atol=1e-4)
    assert known.calls < 80
    # What is remembered outlives a round: one step of many
    again = Known(functions[:1], [1])
    one = _descent.Descents(1, "sqeuclidean", 1.0)
    at = begin[:1]
    for _ in range(20):
        at, _ = one.run(at, lambda some: again, 1)
    np.testing.assert_allclose(at[0], minimum, atol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_has_no_value_stays(value):
    def none(c):
        return value, np.full_like(c, np.nan)

    known = Known([none, quadratic(1, 1.0)], [1, 1])
    found, _ = _descent.Descents(2, "sqeuclidean", 1.0).run(np.zeros((2, 3, 1)), lambda some: known, 10)
    np.testing.assert_array_equal(found[0], 0)
    np.testing.assert_allclose(found[1], 1, atol=1e-3)


def test_the_finished_are_left_out():
    asked = []

    def objectives(some):
        asked.append(some.copy())
        weights = np.where(some, [10.0, 1], 0)
        return Known([quadratic(1, 1.0), rosenbrock], weights)

    begin = np.zeros((2, 2, 1))
    _descent.Descents(2, "sqeuclidean", 1.0).run(begin, objectives, 30)
    assert [some.tolist() for some in asked] == [[True, True], [False, True]]


@settings(max_examples=60)
@given(st.data())
def test_each_cluster_descends(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    metric = data.draw(st.sampled_from(["sqeuclidean", "euclidean", "cityblock", "cosine"]))
    gamma, normalize = data.draw(st.sampled_from([0.0, 0.1, 3.0])), data.draw(st.booleans())
    options = _pairs.PairOptions(gamma=gamma, metric=metric, normalize=normalize)
    scale = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    series = _series.as_series("x", scale * rng.normal(size=(12, 7, 2)).cumsum(1).astype(np.float32))
    labels, weights = rng.integers(3, size=12), rng.uniform(size=12)
    begin = scale * rng.normal(size=(3, 5, 2))

    def objectives(some):
        share = np.where(some[labels], weights, 0)
        return _objective.Objectives((5, 2), series, share, labels, 3, options)

    found, _ = _descent.Descents(3, metric, gamma).run(begin, objectives, 5)
    every = objectives(np.ones(3, bool))
    before, after = every(begin)[0], every(found)[0]
    assert (after <= before + 1e-5 * np.abs(before)).all()
    moves = np.bincount(labels, minlength=3) > 0
    if gamma > 0 and metric != "cosine":
        assert (after[moves] < before[moves]).all()
