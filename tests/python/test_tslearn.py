# tslearn as a live oracle: values, expected alignments and gradients of the same series.
import numpy as np
import pytest
from tslearn.metrics import SoftDTW, SquaredEuclidean, soft_dtw, soft_dtw_alignment

import libsdtw.numpy

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
