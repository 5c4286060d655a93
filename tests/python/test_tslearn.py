# tslearn as a live oracle: values, expected alignments and gradients of the same series.
import importlib
import inspect

import numpy as np
import pytest
from tslearn.metrics import SoftDTW, SquaredEuclidean, cdist_soft_dtw, soft_dtw, soft_dtw_alignment

import libsdtw.numpy
from libsdtw.collections import SoftDTWKMeans, median_gamma, soft_dtw_matrix

SHAPES = [(1, 1, 1), (1, 9, 2), (17, 3, 1), (30, 30, 5), (33, 65, 2), (128, 100, 1)]


@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize(("n", "m", "d"), SHAPES)
def test_value_alignment_and_gradients(n, m, d, gamma, rng):
    x, y = rng.normal(size=(n, d)), rng.normal(size=(m, d))
    distance = SquaredEuclidean(x, y)
    theirs = SoftDTW(distance, gamma=gamma)
    their_value = theirs.compute()
    their_alignment = theirs.grad()

    value, grad_x, grad_y = libsdtw.numpy.soft_dtw_grad(x, y, gamma=gamma)
    assert value == pytest.approx(their_value, rel=1e-12, abs=1e-12)
    assert soft_dtw(x, y, gamma=gamma) == pytest.approx(value, rel=1e-12, abs=1e-12)

    alignment = libsdtw.numpy.soft_dtw_alignment(x, y, gamma=gamma)
    np.testing.assert_allclose(alignment, their_alignment, rtol=0, atol=1e-10)
    np.testing.assert_allclose(soft_dtw_alignment(x, y, gamma=gamma)[0], alignment, rtol=0, atol=1e-10)

    scale = np.abs(grad_x).max()
    np.testing.assert_allclose(grad_x, distance.jacobian_product(their_alignment), rtol=0, atol=1e-10 * scale)
    transposed = SquaredEuclidean(y, x).jacobian_product(their_alignment.T)
    np.testing.assert_allclose(grad_y, transposed, rtol=0, atol=1e-10 * np.abs(grad_y).max())


def test_precomputed_cost(rng):
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(25, 3))
    cost = SquaredEuclidean(x, y).compute()
    theirs = SoftDTW(cost, gamma=0.3)
    value, grad = libsdtw.numpy.soft_dtw_grad(cost, gamma=0.3, metric="precomputed")
    assert value == pytest.approx(theirs.compute(), rel=1e-12)
    np.testing.assert_allclose(grad, theirs.grad(), rtol=0, atol=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_what_the_page_on_migration_says_of_values_and_inertia(rng):
    from tslearn.clustering import TimeSeriesKMeans  # which may warn

    x = rng.normal(size=(6, 9, 1)).cumsum(1)
    ours = soft_dtw_matrix(x, gamma=0, normalize=False)
    np.testing.assert_allclose(cdist_soft_dtw(x, gamma=0.0) ** 2, ours, rtol=1e-12, atol=1e-12)
    theirs = TimeSeriesKMeans(2, metric="softdtw", metric_params={"gamma": 0.7}, init=x[:2], max_iter=1)
    values = soft_dtw_matrix(x, x[:2], gamma=0.7, normalize=False).min(axis=1)  # of its only assignment
    assert theirs.fit(x).inertia_ == pytest.approx(np.mean(values**2), rel=1e-10)
    found = SoftDTWKMeans(2, gamma=0.7, init=x[:2], normalize=False).fit(x)
    assert found.inertia_ == pytest.approx(found.transform(x).min(axis=1).sum(), rel=1e-10)


@pytest.mark.filterwarnings("ignore")
def test_what_the_page_on_migration_says_of_functions(rng):
    import tslearn.metrics as theirs
    from sklearn.metrics import silhouette_score
    from tslearn.clustering import silhouette_score as their_silhouette_score

    x = rng.normal(size=(8, 30, 2)).cumsum(1)
    np.testing.assert_allclose(
        theirs.dtw(x[0], x[1]), np.sqrt(libsdtw.numpy.soft_dtw(x[0], x[1], gamma=0)), rtol=1e-12
    )
    roots = np.sqrt(soft_dtw_matrix(x, x[:3], gamma=0, normalize=False))
    np.testing.assert_allclose(theirs.cdist_dtw(x, x[:3]), roots, rtol=1e-12, atol=1e-12)
    times = theirs.gamma_soft_dtw(x, n_samples=200, random_state=0) / median_gamma(x)
    assert 0.5 < times / (20 * 30) < 2
    labels = [0, 1, 0, 1, 1, 0, 1, 0]
    ours = silhouette_score(soft_dtw_matrix(x, gamma=2.0), labels, metric="precomputed")
    score = their_silhouette_score(x, labels, metric="softdtw", metric_params={"gamma": 2.0})
    assert score == pytest.approx(ours, rel=1e-9)


def test_what_the_page_on_migration_says_of_aeon(rng):
    from aeon import distances as theirs

    x = rng.normal(size=(5, 12, 2)).cumsum(1)
    channels_first = x.transpose(0, 2, 1)
    a, b = channels_first[:2]
    assert theirs.dtw_distance(a, b) == pytest.approx(libsdtw.numpy.soft_dtw(x[0], x[1], gamma=0), rel=1e-12)
    soft = libsdtw.numpy.soft_dtw(x[0], x[1], gamma=0.5)
    assert theirs.soft_dtw_distance(a, b, gamma=0.5) == pytest.approx(soft, rel=1e-12)
    soft = libsdtw.numpy.soft_dtw(x[0], x[0] + 0.01, gamma=0.5)
    assert soft < 0
    assert theirs.soft_dtw_distance(a, a + 0.01, gamma=0.5) == pytest.approx(-soft, rel=1e-12)
    assert theirs.soft_dtw_distance(a, a, gamma=0.5) == 0
    path, value = libsdtw.numpy.dtw_path(x[0], x[1])
    their_path, their_value = theirs.dtw_alignment_path(a, b)
    assert [tuple(cell) for cell in path.tolist()] == their_path
    assert their_value == pytest.approx(value, rel=1e-12)
    pairs = libsdtw.numpy.soft_dtw_cdist(x, gamma=0.5)
    np.fill_diagonal(pairs, 0)
    np.testing.assert_allclose(
        theirs.soft_dtw_pairwise_distance(channels_first, gamma=0.5), pairs, rtol=1e-12
    )


@pytest.mark.parametrize(("function", "modules", "gamma", "normalize"), [
    ("soft_dtw", ["numpy", "torch", "jax"], 1.0, False),
    ("soft_dtw_cdist", ["numpy", "torch", "jax"], 1.0, False),
    ("soft_dtw_barycenter", ["torch", "jax"], 1.0, False),
    ("soft_dtw_barycenter", ["collections"], "median", True),
    ("reduce_pairs", ["collections"], "median", True),
    ("SoftDTWKMeans", ["collections"], "median", True),
])  # fmt: skip
def test_defaults_that_the_page_on_migration_lists(function, modules, gamma, normalize):
    for module in modules:
        of = inspect.signature(getattr(importlib.import_module(f"libsdtw.{module}"), function)).parameters
        assert (of["gamma"].default, of["normalize"].default) == (gamma, normalize)
