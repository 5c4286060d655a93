# tslearn as a live oracle: values, expected alignments and gradients of the same series.
import numpy as np
import pytest
from tslearn.metrics import SoftDTW, SquaredEuclidean, cdist_soft_dtw, soft_dtw, soft_dtw_alignment

import libsdtw.numpy
from libsdtw.collections import SoftDTWKMeans, soft_dtw_matrix

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
