# libsdtw.numpy.dtw_path: paths beside tslearn's, ties included, and what is true of every path.
import itertools

import numpy as np
import pytest
from tslearn.metrics import dtw_path as theirs
from tslearn.metrics import dtw_path_from_metric

import fake_cupy
import libsdtw.numpy
from libsdtw import _calls
from libsdtw.numpy import dtw_path, soft_dtw, soft_dtw_alignment

OPTIONS = [
    {},
    {"metric": "cityblock"},
    {"metric": "euclidean", "band": "itakura", "radius": 2.5},
    {"metric": "cosine", "band": "sakoe_chiba", "radius": 2},
    {"step_weights": (2, 1, 1), "step_penalties": (0.25, 0, 0.5)},
    {"band": "absolute", "radius": 4, "step_penalties": (0, 1, 1)},
]
STEPS = [(1, 1), (1, 0), (0, 1)]  # diagonal, vertical, horizontal: in the order of what they cost


@pytest.mark.parametrize("constraint", [
    ({}, {}),
    ({"band": "sakoe_chiba", "radius": 3}, {"global_constraint": "sakoe_chiba", "sakoe_chiba_radius": 3}),
    ({"band": "itakura", "radius": 2.0}, {"global_constraint": "itakura", "itakura_max_slope": 2.0}),
])  # fmt: skip
@pytest.mark.parametrize("integers", [False, True])  # which have many paths that are equally good
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 5, 2), (12, 9, 1), (20, 31, 3)])
def test_beside_tslearn(shape, integers, constraint, rng):
    n, m, d = shape
    ours, of_theirs = constraint
    if ours.get("band") == "itakura" and n == 1:
        ours = of_theirs = {}
    x, y = ((rng.integers(0, 3, (k, d)) if integers else rng.normal(size=(k, d))) for k in (n, m))
    path, value = dtw_path(x, y, **ours)
    expected, root = theirs(x.astype(float), y.astype(float), **of_theirs)
    assert path.dtype == np.int64
    assert path.shape == (len(expected), 2)
    assert [tuple(cell) for cell in path.tolist()] == [tuple(map(int, cell)) for cell in expected]
    assert isinstance(value, np.float64)
    assert np.sqrt(value) == pytest.approx(root, rel=1e-12)
    costs = np.abs(x[:, None] - y).sum(-1).astype(float)
    path, value = dtw_path(costs, metric="precomputed", **ours)
    expected, same = dtw_path_from_metric(costs, metric="precomputed", **of_theirs)
    assert [tuple(cell) for cell in path.tolist()] == [tuple(map(int, cell)) for cell in expected]
    assert value == pytest.approx(same, rel=1e-12)


def costs_of(x, y, metric):
    if metric == "cosine":
        x, y = (one / np.linalg.norm(one, axis=-1, keepdims=True) for one in (x, y))
        return 1 - x @ y.T
    difference = x[:, None] - y
    powers = {"sqeuclidean": (difference**2).sum(-1), "cityblock": np.abs(difference).sum(-1)}
    return powers.get(metric, np.sqrt(powers["sqeuclidean"]))


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_are_the_costs_of_paths(options, dtype, rng):
    x, y = rng.normal(size=(4, 9, 2)).astype(dtype), rng.normal(size=(4, 8, 2)).astype(dtype)
    lengths = np.array([9, 6, 4, 1]), np.array([8, 4, 6, 1])
    given = {"x_lengths": lengths[0], "y_lengths": lengths[1]} | options
    paths, value = dtw_path(x, y, **given)
    assert value.dtype == (np.float64 if dtype == np.float64 else np.float32)
    np.testing.assert_allclose(value, soft_dtw(x, y, gamma=0, **given), rtol=1e-6)
    alignment = soft_dtw_alignment(x, y, gamma=0, **given)
    weights, penalties = options.get("step_weights", (1, 1, 1)), options.get("step_penalties", (0, 0, 0))
    for k, (n, m) in enumerate(zip(*lengths, strict=True)):
        cost = costs_of(x[k, :n].astype(float), y[k, :m].astype(float), options.get("metric", "sqeuclidean"))
        cells = [tuple(cell) for cell in paths[k].tolist()]
        assert (cells[0], cells[-1]) == ((0, 0), (n - 1, m - 1))
        total = weights[0] * cost[0, 0]
        for (i, j), (i_next, j_next) in itertools.pairwise(cells):
            step = STEPS.index((i_next - i, j_next - j))
            total += weights[step] * cost[i_next, j_next] + penalties[step]
        assert total == pytest.approx(value[k], rel=1e-12 if dtype == np.float64 else 1e-5, abs=1e-6)
        visited = np.zeros(alignment.shape[1:])
        visited[tuple(paths[k].T)] = 1
        np.testing.assert_array_equal(visited, alignment[k])


@pytest.mark.parametrize("cells", [1, 200, 1 << 24])
def test_batches_in_parts(cells, monkeypatch, rng):
    monkeypatch.setattr(_calls, "MOST_CELLS", cells)
    series = [rng.normal(size=(n, 2)) for n in (9, 1, 6, 7, 9)]
    y = rng.normal(size=(8, 2))
    paths, value = dtw_path(series, y)
    assert value.shape == (5,)
    for one, path, of_pair in zip(series, paths, value, strict=True):
        alone, same = dtw_path(one, y)
        np.testing.assert_array_equal(path, alone)
        assert of_pair == same
    back, value = dtw_path(y[None], series[:1])  # x and y the other way round, with a batch of one
    np.testing.assert_array_equal(value, [dtw_path(y, series[0])[1]])
    assert len(back) == 1
    costs = rng.random((3, 5, 4))
    paths, value = dtw_path(costs, metric="precomputed", x_lengths=[5, 2, 0], y_lengths=[4, 4, 4])
    assert [len(path) > 0 for path in paths] == [True, True, False]
    np.testing.assert_array_equal(paths[1], dtw_path(costs[1, :2], metric="precomputed")[0])
    assert dtw_path(np.zeros((0, 3, 1)), np.zeros((0, 4, 1)))[0] == []


def test_pairs_without_a_path(rng):
    x, y = rng.normal(size=(4, 9, 1)), rng.normal(size=(4, 9, 1))
    x[1, 3] = np.nan
    paths, value = dtw_path(x, y, band="absolute", radius=1, x_lengths=[9, 9, 4, 0], y_lengths=[9, 9, 9, 0])
    assert [path.shape for path in paths[1:]] == [(0, 2)] * 3
    assert len(paths[0]) >= 9
    np.testing.assert_array_equal(value[1:], [np.nan, np.inf, 0])


def test_errors(rng):
    x = rng.normal(size=(9, 1))
    with pytest.raises(ValueError, match="metric is 'wide'"):
        dtw_path(x, x, metric="wide")
    with pytest.raises(ValueError, match="y is None with metric 'sqeuclidean'"):
        dtw_path(x)
    with pytest.raises(TypeError, match="gamma"):
        dtw_path(x, x, gamma=1.0)


def test_of_cupys_arrays(monkeypatch, rng):
    cupy = fake_cupy.install(monkeypatch)
    x, y = rng.normal(size=(3, 9, 2)), rng.normal(size=(3, 8, 2))
    lengths = {"x_lengths": [9, 4, 7], "y_lengths": [8, 1, 8]}
    expected, values = libsdtw.numpy.dtw_path(x, y, **lengths)
    on_gpu = [fake_cupy.asarray(one) for one in (x, y)]
    for given in (lengths, {name: fake_cupy.asarray(of) for name, of in lengths.items()}):
        paths, value = cupy.dtw_path(*on_gpu, **given)
        np.testing.assert_array_equal(np.asarray(value), values)
        for ours, want in zip(paths, expected, strict=True):
            assert isinstance(ours, fake_cupy.ndarray)
            np.testing.assert_array_equal(np.asarray(ours), want)
