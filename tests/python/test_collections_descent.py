# The descents that k-means takes with all clusters at once: known minima, what cannot move, all metrics.
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from draws import SERIES_METRICS
from libsdtw.collections import (
    SoftDTWKMeans,
    _lbfgs,
    _majorize,
    _objective,
    _pairs,
    _series,
    soft_dtw_barycenter,
    soft_dtw_matrix,
)
from libsdtw.collections._objective import Evaluated


class Known:
    """Objectives that are functions of each cluster's center: they give values, gradients and curvatures."""

    def __init__(self, functions, weights):
        self.functions, self.totals, self.calls = functions, np.array(weights, float), 0
        self.unit = _pairs.Unit(1.0, 1.0)

    def __call__(self, centers):
        self.calls += 1
        found = [
            (0.0, 0 * c, 0 * c) if f is None or w == 0 else f(c)
            for f, c, w in zip(self.functions, centers, self.totals, strict=True)
        ]
        values, grads, curved = (
            np.stack([one[n] for one in found]) * (self.totals if n == 0 else self.totals[:, None, None])
            for n in range(3)
        )
        return Evaluated(values, grads, 0.5 * curved[:, :, 0])


def quadratic(curvatures, minimum, majorant=1.0):
    return lambda c: (
        float((curvatures * (c - minimum) ** 2).sum()) - 3,
        2 * curvatures * (c - minimum),
        2 * majorant * curvatures + 0 * c,
    )


def rosenbrock(c):
    (a, b), slope = c[:, 0], np.zeros_like(c)
    slope[:, 0] = -2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2, slope, 2000 + 0 * c


def lbfgs(clusters):
    return _lbfgs.QuasiNewton(clusters, "euclidean", 1.0)


def majorants(clusters, **limits):
    return _majorize.Majorants(clusters, 1.0, **limits)


def test_known_minima(monkeypatch):
    for name in ("ENOUGH", "NOISE"):
        monkeypatch.setattr(_lbfgs, name, 0)
    minimum = np.array([[2.0], [-1]])
    functions = [quadratic(np.array([[100.0], [0.1]]), minimum), rosenbrock, None, quadratic(1, minimum)]
    known = Known(functions, [3, 1, 0, 0.5])
    begin = np.zeros((4, 2, 1))
    begin[1] = [[-1.2], [1]]
    found, interrupted = lbfgs(4).run(begin, lambda some: known, 200)
    assert not interrupted
    np.testing.assert_allclose(found[0], minimum, atol=1e-4)
    np.testing.assert_allclose(found[1], 1, atol=1e-3)
    np.testing.assert_array_equal(found[2], begin[2])  # nobody is there
    np.testing.assert_allclose(found[3], minimum, atol=1e-4)
    assert known.calls < 80
    # What is remembered outlives a round: one step of many
    again = Known(functions[:1], [1])
    one = lbfgs(1)
    at = begin[:1]
    for _ in range(20):
        at, _ = one.run(at, lambda some: again, 1)
    np.testing.assert_allclose(at[0], minimum, atol=1e-4)


def test_least_points_of_majorants():
    minimum = np.array([[2.0], [-1]])
    loose = quadratic(1, minimum, np.array([[1.0], [20]]))
    known = Known([quadratic(np.array([[100.0], [0.1]]), minimum), loose, None], [3, 0.5, 0])
    begin = np.zeros((3, 2, 1))
    found, interrupted = majorants(3, enough=0, noise=0).run(begin, lambda some: known, 200)
    assert not interrupted
    np.testing.assert_allclose(found[0], minimum, atol=1e-4)
    np.testing.assert_allclose(found[1], minimum, atol=1e-3)
    np.testing.assert_array_equal(found[2], begin[2])
    # With momentum, which outlives a round: without it 1 - 1/20 of the way would be left at each step
    again, one, at = Known([loose], [1]), majorants(1, enough=0, noise=0), begin[:1]
    for _ in range(20):
        at, _ = one.run(at, lambda some: again, 2, np.ones(1))
    assert again.calls == 40
    assert np.abs(at - minimum).max() < 0.01 < 0.95**40


def test_a_step_that_leads_up_is_taken_back():
    steep = Known([quadratic(1, 1.0, 0.3), quadratic(1, 1.0)], [2, 1])  # the first is no majorant
    descents, begin = majorants(2), np.zeros((2, 3, 1))
    at, _ = descents.run(begin, lambda some: steep, 1)
    values = steep(at).values
    assert values[0] > steep(begin).values[0]
    np.testing.assert_array_equal(descents.undone(at, values), [True, False])
    np.testing.assert_array_equal(at[0], begin[0])
    np.testing.assert_allclose(at[1], 1.95)  # 1 and the momentum of the way there
    at, _ = descents.run(begin, lambda some: steep, 40)  # within a run half of it is tried
    descents.undone(at, steep(at).values)
    assert (steep(at).values < [0, -3 + 1e-6]).all()
    # What rests is not asked
    at, _ = descents.run(at, lambda some: steep, 1, resting=np.array([True, True]))
    assert not descents.undone(at, np.full(2, np.inf)).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("descents", [lbfgs, majorants])
def test_what_has_no_value_stays(value, descents):
    def none(c):
        return value, np.full_like(c, np.nan), np.ones_like(c)

    known = Known([none, quadratic(1, 1.0)], [1, 1])
    found, _ = descents(2).run(np.zeros((2, 3, 1)), lambda some: known, 10)
    np.testing.assert_array_equal(found[0], 0)
    np.testing.assert_allclose(found[1], 1, atol=1e-3)


@pytest.mark.parametrize("descents", [lbfgs, majorants])
def test_the_finished_are_left_out(descents):
    asked = []

    def objectives(some):
        asked.append(some.copy())
        weights = np.where(some, [10.0, 1], 0)
        return Known([quadratic(1, 1.0), rosenbrock], weights)

    descents(2).run(np.zeros((2, 2, 1)), objectives, 30)
    assert [some.tolist() for some in asked] == [[True, True], [False, True]]


@settings(max_examples=60)
@given(st.data())
def test_each_cluster_descends(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    metric = data.draw(st.sampled_from(SERIES_METRICS))
    gamma, normalize = data.draw(st.sampled_from([0.0, 0.1, 3.0])), data.draw(st.booleans())
    options = _pairs.PairOptions(gamma=gamma, metric=metric, normalize=normalize)
    scale = data.draw(st.sampled_from([1e-3, 1.0, 1e3]))
    series = _series.as_series("x", scale * rng.normal(size=(12, 7, 2)).cumsum(1).astype(np.float32))
    labels, weights = rng.integers(3, size=12), rng.uniform(size=12)
    begin = scale * rng.normal(size=(3, 5, 2))

    def objectives(some):
        return made.of(np.where(some[labels], weights, 0), labels)

    made = _objective.Objectives((5, 2), series, 3, options)
    squared = metric == "sqeuclidean"
    descents = _majorize.Majorants(3, gamma) if squared else _lbfgs.QuasiNewton(3, metric, gamma)
    found, _ = descents.run(begin, objectives, 5)
    every = objectives(np.ones(3, bool))
    before, after = every(begin).values, every(found).values
    descents.undone(found, after)
    after = every(found).values
    assert (after <= before + 1e-5 * np.abs(before)).all()
    moves = np.bincount(labels, minlength=3) > 0
    if gamma > 0 and metric != "cosine":
        assert (after[moves] < before[moves]).all()


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_rounds_of_k_means_do_not_lead_up(normalize, kind, rng, capsys):
    x = rng.normal(size=(40, 12, 2)).cumsum(1).astype(kind)
    for gamma in (0.0, 0.1, 10.0):
        options = {"gamma": gamma, "normalize": normalize, "random_state": 0, "verbose": 2, "tol": -1}
        model = SoftDTWKMeans(4, max_iter=12, **options).fit(x)
        lines = [line for line in capsys.readouterr().out.splitlines() if "round " in line]
        inertias = np.array([float(line.split()[-1]) for line in lines])
        assert len(inertias) == 13  # of the first centers, too
        assert (np.diff(inertias) <= 2e-5 * np.abs(inertias[:-1]).max()).all()
        assert model.inertia_ == pytest.approx(inertias[-1], rel=1e-4)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_an_average_that_is_interrupted(metric, rng, monkeypatch):
    x = rng.normal(size=(9, 12, 1)).cumsum(1)
    calls, evaluate = [], _objective.Objective.__call__

    def interrupted(self, centers):
        calls.append(centers.copy())
        if len(calls) == 4:
            raise KeyboardInterrupt
        return evaluate(self, centers)

    monkeypatch.setattr(_objective.Objective, "__call__", interrupted)
    found, info = soft_dtw_barycenter(x, metric=metric, gamma=0.1, return_info=True)
    monkeypatch.undo()
    assert info.interrupted
    assert not info.converged
    assert 1 <= info.n_iter <= 3
    means = [soft_dtw_matrix(x, c[None], metric=metric, gamma=0.1).mean() for c in (found, calls[0][0])]
    assert len(calls) == 4
    assert means[0] < means[1]


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
@pytest.mark.parametrize(("normalize", "device"), [(True, None), (False, ["cpu", "cpu"])])
def test_what_an_average_came_to(normalize, device, metric, rng):
    x, weights = rng.normal(size=(9, 12, 1)).cumsum(1), np.arange(9.0)
    options = {"metric": metric, "gamma": 1.0, "normalize": normalize}
    found = {}
    for most in (0, 1, 3, 2000):
        given = {"weights": weights, "max_iter": most, "device": device, "tol": 1e-3}
        average, info = soft_dtw_barycenter(x, return_info=True, **given, **options)
        np.testing.assert_array_equal(soft_dtw_barycenter(x, **given, **options), average)
        value = weights @ soft_dtw_matrix(x, average[None], **options)[:, 0] / weights.sum()
        assert info.value == pytest.approx(value, rel=1e-12)
        assert not info.interrupted
        found[most] = info
    assert [found[most].n_iter for most in (0, 1, 3)] == [0, 1, 3]
    assert [info.converged for info in found.values()] == [False, False, False, True]
    assert 3 < found[2000].n_iter < 2000
    assert found[2000].value < found[3].value < found[0].value
    again = soft_dtw_barycenter(x, init=average, return_info=True, **given, **options)[1]
    assert again.n_iter < found[2000].n_iter
    with pytest.raises(TypeError, match="return_info is 1: expected True or False"):
        soft_dtw_barycenter(x, return_info=1)


def test_averages_are_at_least_those_of_scipy(rng):
    x = rng.normal(size=(20, 30, 2)).cumsum(1)
    options = {"gamma": 1.0, "normalize": False}
    found = soft_dtw_barycenter(x, max_iter=60, **options)
    objective = _objective.Objectives(
        found.shape, _series.as_series("x", x), 1, _pairs.PairOptions(**options)
    )
    of = objective.of(np.ones(20), np.zeros(20, int))

    def by_scipy(flat):
        values, grads, _ = of(flat.reshape(1, 30, 2))
        return values[0], grads.ravel()

    theirs = minimize(by_scipy, x.mean(0).ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    assert of(found[None]).values[0] <= theirs.fun + 1e-3 * abs(theirs.fun)


@pytest.mark.parametrize("gamma", ["median", 0])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_nothing_depends_on_the_unit_of_series(metric, gamma, rng):
    x = rng.normal(size=(12, 15, 1)).cumsum(1)
    degree = 2 if metric == "sqeuclidean" else 1

    def results(unit, begin=None):
        series = x * unit
        kept = {"metric": metric, "gamma": gamma}
        center = soft_dtw_barycenter(series, init=begin, **kept)
        means = soft_dtw_matrix(series, center[None], **kept).mean()
        model = SoftDTWKMeans(3, random_state=0, **kept).fit(series)
        return np.array([means, model.inertia_]) / unit**degree, model.n_iter_

    start = np.zeros((15, 1))  # says nothing of the unit
    expected, rounds = results(1.0)
    from_start = results(1.0, start)[0]
    for unit in (1e-18, 1e-12, 1e-6, 1e6, 1e12):
        found, these = results(unit)
        np.testing.assert_allclose(found, expected, rtol=1e-4)  # rounding leads to other steps at gamma 0
        assert these == rounds
    for exponent in (-60, -20, 20, 40):  # without rounding
        np.testing.assert_allclose(results(2.0**exponent)[0], expected, rtol=1e-12)
        np.testing.assert_allclose(results(2.0**exponent, start)[0], from_start, rtol=1e-12)


@pytest.mark.parametrize(("tol", "error"), [("a", TypeError), (None, TypeError), (np.nan, ValueError)])
def test_tol_that_is_no_number(tol, error, rng):
    x = rng.normal(size=(4, 6, 1))
    for fails in (partial(soft_dtw_barycenter, tol=tol), SoftDTWKMeans(2, tol=tol).fit):
        with pytest.raises(error, match=f"^tol is {tol!r}: expected a number$"):
            fails(x)


def test_averages_of_halves_by_other_steps(rng):
    x = rng.normal(size=(12, 15, 1)).cumsum(1).astype(np.float16)
    options = {"gamma": 0.3, "step_weights": (1, 2, 1.5)}
    found, expected = (soft_dtw_barycenter(x.astype(kind), **options) for kind in (np.float16, np.float32))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    x = (1e-4 * rng.normal(size=(12, 20, 2))).astype(np.float16)  # steps of cosines lead beyond float16
    options = {"metric": "cosine", "gamma": 0.1, "step_weights": (1, 2, 1)}
    found, expected = (soft_dtw_barycenter(x.astype(kind), **options) for kind in (np.float16, np.float32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean"])
def test_series_without_weight_have_no_unit(metric, rng):
    x = rng.normal(size=(12, 15, 1)).cumsum(1)
    some = np.repeat([1, 0], [12, 30])

    def average(far):
        series = np.concatenate([x, far * rng.normal(size=(30, 15, 1))])
        return soft_dtw_barycenter(series, weights=some, gamma=0.3, metric=metric)

    np.testing.assert_array_equal(average(1e12), average(1.0))
