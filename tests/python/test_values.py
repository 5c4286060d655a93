# Published values, by both front ends, and results that are defined for special inputs.
import numpy as np
import pytest
import torch

import libsdtw
import libsdtw.numpy
import libsdtw.torch


def numpy_value(x, y, gamma):
    return libsdtw.numpy.soft_dtw(x, y, gamma=gamma)


def torch_value(x, y, gamma):
    x, y = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
    return libsdtw.torch.soft_dtw(x, y, gamma=gamma).item()


PUBLISHED = [  # x, y, gamma, value, the digits it is published with
    ([1, 2, 2, 3], [1, 2, 3, 4], 1, -0.8954437807, 1e-10),  # tslearn.metrics.soft_dtw
    ([1, 2, 3, 3], [1, 2, 2.1, 3.2], 0.01, 0.09, 1e-2),  # tslearn.metrics.soft_dtw
    ([1, 2, 3], [3, 4, -3], 1, 41.187627, 1e-6),  # tslearn's tests
    (np.zeros((10, 8)), np.ones((12, 8)), 1, 91.9806137, 4e-6),  # tslearn's tests, in float32
    (np.zeros(10), np.zeros(10), 1, -14.1957009, 1e-7),  # tslearn's tests
    (np.arange(1, 11), np.arange(11, 21), 1, 767.43894416832, 1e-10),  # aeon.distances.soft_dtw_distance
]


@pytest.mark.parametrize("front_end", [numpy_value, torch_value])
@pytest.mark.parametrize(("x", "y", "gamma", "value", "digits"), PUBLISHED)
def test_published_values(front_end, x, y, gamma, value, digits):
    assert front_end(x, y, gamma) == pytest.approx(value, rel=0, abs=digits)


@pytest.mark.parametrize("front_end", [numpy_value, torch_value])
def test_published_divergence(front_end):
    x, y = [1, 2, 2, 3], [1, 2, 3, 4]
    divergence = front_end(x, y, 1) - (front_end(x, x, 1) + front_end(y, y, 1)) / 2
    assert divergence == pytest.approx(1.3094156980, rel=0, abs=1e-10)


def test_published_gradient():
    _, grad_x, _ = libsdtw.numpy.soft_dtw_grad([1, 2, 3], [3, 4, -3])
    np.testing.assert_allclose(grad_x, [-4.0001, -2.2852, 10.1643], rtol=0, atol=1e-4)


@pytest.mark.parametrize("of", [np.asarray, torch.tensor])
def test_the_first_cell_has_the_diagonal_weight_and_no_penalty(of):
    x, y = of([1.0]), of([3.0])
    assert libsdtw.soft_dtw(x, y, step_weights=(2, 1, 1), step_penalties=(10, 10, 10)) == 8


def test_empty_series(rng):
    x, y = rng.normal(size=(4, 5, 2)), rng.normal(size=(4, 6, 2))
    value, grad_x, grad_y = libsdtw.numpy.soft_dtw_grad(x, y, x_lengths=[0, 0, 3, 5], y_lengths=[0, 2, 0, 6])
    np.testing.assert_array_equal(value[:3], [0, np.inf, np.inf])
    assert np.isfinite(value[3])
    assert not grad_x[:3].any()
    assert not grad_y[:3].any()
    assert grad_x[3].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nan_stays_in_its_pair(dtype, rng):
    x, y = rng.normal(size=(3, 20, 2)).astype(dtype), rng.normal(size=(3, 9, 2)).astype(dtype)
    clean = libsdtw.numpy.soft_dtw_grad(x, y)
    x[1, 7, 1] = np.nan
    value, grad_x, grad_y = libsdtw.numpy.soft_dtw_grad(x, y)
    assert np.isnan(value).tolist() == [False, True, False]
    assert np.isnan(grad_x[1]).all()
    assert np.isnan(grad_y[1]).all()
    for ours, expected in zip((value, grad_x, grad_y), clean, strict=True):
        np.testing.assert_array_equal(ours[[0, 2]], expected[[0, 2]])


def test_infinite_cost_forbids_its_cell(rng):
    cost = rng.uniform(size=(6, 6))
    cost[3, 2:5] = np.inf
    alignment = libsdtw.numpy.soft_dtw_alignment(cost, metric="precomputed")
    assert not alignment[3, 2:5].any()
    np.testing.assert_allclose(alignment.sum(1) >= 1, True)
    cost[3] = np.inf
    value, grad = libsdtw.numpy.soft_dtw_grad(cost, metric="precomputed")
    assert value == np.inf
    assert not grad.any()


def test_padding_is_never_read(rng):
    x, y = rng.normal(size=(2, 8, 3)), rng.normal(size=(2, 7, 3))
    lengths = {"x_lengths": [5, 8], "y_lengths": [7, 4]}
    clean = libsdtw.numpy.soft_dtw_grad(x, y, **lengths)
    x[0, 5:] = np.nan
    y[1, 4:] = np.nan
    for ours, expected in zip(libsdtw.numpy.soft_dtw_grad(x, y, **lengths), clean, strict=True):
        np.testing.assert_array_equal(ours, expected)
    assert not clean[1][0, 5:].any()
    assert not clean[2][1, 4:].any()


@pytest.mark.parametrize("scale", [1e-20, 1e-30, 1e-40])
@pytest.mark.parametrize("gamma", [1, 1e10])
@pytest.mark.parametrize("batch", [2, 20])
def test_euclidean_distances_near_0_are_those_of_float64(scale, gamma, batch, rng):
    x, y = (scale * rng.normal(size=(batch, n, 3)).astype(np.float32) for n in (9, 7))
    along, options = np.ones_like(x), {"gamma": gamma, "metric": "euclidean"}
    wide = x.astype(np.float64), y.astype(np.float64)
    grads = libsdtw.numpy.soft_dtw_grad(x, y, **options)
    for got, expected in zip(grads[1:], libsdtw.numpy.soft_dtw_grad(*wide, **options)[1:], strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)
    tangents = libsdtw.numpy.soft_dtw_jvp(x, y, tangent_x=along, **options)
    wide_tangents = libsdtw.numpy.soft_dtw_jvp(*wide, tangent_x=along, **options)
    for got, expected in zip(tangents, wide_tangents, strict=True):
        largest = np.finfo(got.dtype).max
        expected = np.where(np.abs(expected) > largest, np.copysign(np.inf, expected), expected)
        in_range = np.abs(expected[np.isfinite(expected)]).max(initial=1)
        np.testing.assert_allclose(got, expected, rtol=0, atol=4e-5 * in_range)
