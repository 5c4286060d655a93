# Nearest series at gamma 0, of which bounds spare most pairs: results have the bits of all pairs.
import sys

import numpy as np
import pytest

from libsdtw.collections import (
    TopK,
    _blocks,
    _bounds,
    reduce_pairs,
    soft_dtw_barycenter,
    soft_dtw_matrix,
    soft_dtw_top_k,
)
from libsdtw.collections._bounds import Bounded
from libsdtw.collections._pairs import PairOptions
from libsdtw.collections._series import as_series


def walks(count, steps, features=1, seed=0, dtype=np.float32):
    """Series that are near to some and far from most."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).normal(size=(10, steps, features)).cumsum(1)
    return (centers[np.arange(count) % 10] + 0.1 * rng.normal(size=(count, steps, features))).astype(dtype)


def ragged(count, seed):
    rng = np.random.default_rng(seed)
    return [one[: rng.integers(40, 61)] for one in walks(count, 60, seed=seed)]


def unbounded(monkeypatch, *args, **options):
    with monkeypatch.context() as patch:
        patch.setattr(_blocks, "bounded", lambda job, x: None)
        return soft_dtw_top_k(*args, **options)


CASES = {
    "all cells": {},
    "several": {"k": 5},
    "sakoe_chiba": {"band": "sakoe_chiba", "radius": 9.5},
    "absolute": {"band": "absolute", "radius": 8, "k": 3},
    "itakura": {"band": "itakura", "radius": 2},
    "no band of columns": {"band": "sakoe_chiba", "radius": 1e9},
    "cityblock": {"metric": "cityblock"},
    "euclidean": {"metric": "euclidean", "band": "sakoe_chiba", "radius": 9},
    "soft-DTW": {"normalize": False},
    "blocks": {"block": (7, 50), "k": 2},
    "devices": {"device": ["cpu", "cpu"], "block": (7, 120)},
}
KINDS = {
    "float32": lambda: (walks(30, 60), walks(300, 60, seed=1)),
    "float16": lambda: (walks(30, 60, dtype=np.float16), walks(300, 60, seed=1, dtype=np.float16)),
    "float64": lambda: (walks(30, 60, dtype=np.float64), walks(300, 60, seed=1)),
    "two features": lambda: (walks(30, 60, 2), walks(300, 60, 2, seed=1)),
    "ragged": lambda: (ragged(30, 1), ragged(300, 2)),
    "lengths of y": lambda: (walks(30, 60), ragged(300, 2)),
    "other steps": lambda: (walks(30, 60), walks(300, 50, seed=1)),
    "equal series": lambda: (walks(30, 60), np.tile(walks(10, 60), (30, 1, 1))),
    "one query": lambda: (walks(1, 60), walks(300, 60, seed=1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_all_pairs(case, kind, monkeypatch):
    x, y = KINDS[kind]()
    options = {"k": 1, "gamma": 0, "num_threads": 1, **CASES[case]}
    expected = unbounded(monkeypatch, x, y, **options)
    for found, all_of_them in zip(soft_dtw_top_k(x, y, **options), expected, strict=True):
        np.testing.assert_array_equal(found, all_of_them)


@pytest.mark.parametrize("metric", _bounds.METRICS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [None, 0, 3, 20])
def test_bounds_are_below_values(metric, kind, radius):
    x, y = (as_series("x", given) for given in KINDS[kind]())
    x = x.as_values(np.float64) if y.value_dtype == np.float64 else x
    of = {"metric": metric, "band": None if radius is None else "absolute", "radius": radius}
    windows = None if radius is None or x.lengths is not None else radius
    bounds = Bounded(x, TopK(1), PairOptions(0.0, **of), windows)._bounds(y)
    assert (bounds <= soft_dtw_matrix(x, y, gamma=0, **of)).all()
    assert (bounds >= 0).all()


def test_most_pairs_are_spared(monkeypatch):
    computed = []

    def counted(x, y, options):
        computed.append(len(x))
        return pair_values(x, y, options)

    pair_values = _bounds.pair_values
    monkeypatch.setattr(_bounds, "pair_values", counted)
    monkeypatch.setattr(_blocks, "raw_values", lambda *_: pytest.fail("all pairs were computed"))
    x, y = walks(30, 100), walks(1000, 100, seed=1)
    soft_dtw_top_k(x, y, gamma=0, band="sakoe_chiba", radius=10, num_threads=1)
    assert sum(computed) < 0.2 * len(x) * len(y)


def test_bounds_that_spare_little_are_given_up(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 60)), rng.normal(size=(300, 60))
    found, every = [], []
    of_pairs, of_all = _bounds.pair_values, _blocks.raw_values
    monkeypatch.setattr(_bounds, "pair_values", lambda *a: found.append(len(a[0])) or of_pairs(*a))
    monkeypatch.setattr(_blocks, "raw_values", lambda *a: every.append(len(a[0]) * len(a[1])) or of_all(*a))
    soft_dtw_top_k(x, y, gamma=0, num_threads=1)
    assert sum(every) == len(x) * len(y)
    assert sum(found) < 0.1 * len(x) * len(y)


def test_a_set_with_itself():
    x = walks(100, 60)
    found = reduce_pairs(x, keep=TopK(2), gamma=0, num_threads=1, block=30)
    values, indices = soft_dtw_top_k(x, x, k=2, gamma=0, num_threads=1)
    np.testing.assert_array_equal(found["values"], values)
    np.testing.assert_array_equal(found["indices"], indices)
    others = soft_dtw_top_k(x, k=1, gamma=0, num_threads=1)
    np.testing.assert_array_equal(others[1][:, 0], indices[:, 1])


@pytest.mark.parametrize(
    "options",
    [
        {"gamma": 1e-3},
        {"metric": "cosine"},
        {"step_weights": (2, 1, 1)},
        {"step_penalties": (0, 1, 1)},
        {"num_threads": 64},
    ],
)
def test_there_are_bounds_only_where_they_hold_and_pay(options, monkeypatch):
    monkeypatch.setattr(_bounds, "Bounded", lambda *_: pytest.fail("bounds were taken"))
    soft_dtw_top_k(walks(2, 60), walks(40, 60), **{"gamma": 0, "num_threads": 1, **options})


@pytest.mark.parametrize("reach", [0, 1, 3, 9, 100])
def test_windows_are_the_ranges_of_the_steps_around(reach, rng):
    x = as_series("x", rng.normal(size=(3, 20, 2)).astype(np.float16))
    low, high = _bounds._windows(x, reach)
    for i in range(20):
        there = x.data[:, max(0, i - reach) : i + reach + 1]
        np.testing.assert_array_equal(low[:, i], there.min(axis=1))
        np.testing.assert_array_equal(high[:, i], there.max(axis=1))


def test_only_averages_of_other_metrics_need_scipy(monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "scipy"] + ["scipy"]:
        monkeypatch.setitem(sys.modules, name, None)
    x, y = walks(40, 60), walks(200, 60, seed=1)
    looked, windows = [], _bounds._windows
    monkeypatch.setattr(_bounds, "_windows", lambda *args: looked.append(0) or windows(*args))
    assert soft_dtw_top_k(x, y, gamma=0, band="sakoe_chiba", radius=6, num_threads=1)[1].shape == (40, 1)
    assert looked
    assert soft_dtw_barycenter(x, gamma=1.0, max_iter=1).shape == (60, 1)
    with pytest.raises(
        ImportError, match=r"^metric is 'cosine', for which averages need scipy, .* pip install"
    ):
        soft_dtw_barycenter(x, gamma=1.0, metric="cosine")
