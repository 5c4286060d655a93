# libsdtw.numpy: shapes, types, broadcasting, and errors for every argument broken one at a time.
import ml_dtypes
import numpy as np
import pytest

import libsdtw
from libsdtw.numpy import (
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_cdist_grad,
    soft_dtw_grad,
    soft_dtw_jvp,
)


def test_shapes(rng):
    x, y = rng.normal(size=(4, 7, 3)), rng.normal(size=(4, 5, 3))
    value, grad_x, grad_y = soft_dtw_grad(x, y)
    assert (value.shape, grad_x.shape, grad_y.shape) == ((4,), (4, 7, 3), (4, 5, 3))
    assert soft_dtw_alignment(x, y).shape == (4, 7, 5)

    one = soft_dtw_grad(x[2], y[2])
    assert isinstance(one[0], np.float64)
    assert isinstance(soft_dtw(x[2], y[2]), np.float64)
    assert soft_dtw_alignment(x[2], y[2]).shape == (7, 5)
    for alone, batch in zip(one, (value, grad_x, grad_y), strict=True):
        np.testing.assert_allclose(alone, batch[2], rtol=1e-12)

    flat = soft_dtw_grad(x[2, :, 0], y[2, :, 0])
    columns = soft_dtw_grad(x[2, :, :1], y[2, :, :1])
    assert (flat[1].shape, flat[2].shape) == ((7,), (5,))
    for ours, column in zip(flat, columns, strict=True):
        np.testing.assert_array_equal(ours, np.squeeze(column))


def test_one_series_is_paired_with_all(rng):
    x, y = rng.normal(size=(4, 7, 3)), rng.normal(size=(5, 3))
    value, grad_x, grad_y = soft_dtw_grad(x, y, gamma=0.5)
    repeated = soft_dtw_grad(x, np.stack([y] * 4), gamma=0.5)
    np.testing.assert_array_equal(value, repeated[0])
    np.testing.assert_array_equal(grad_x, repeated[1])
    assert grad_y.shape == y.shape
    np.testing.assert_allclose(grad_y, repeated[2].sum(0), rtol=1e-12)
    assert soft_dtw_grad(y[None], x, gamma=0.5)[1].shape == (1, 5, 3)
    np.testing.assert_allclose(soft_dtw(y[None], x, gamma=0.5), value, rtol=1e-12)


def test_empty_batch():
    x, y = np.zeros((0, 7, 3)), np.zeros((0, 5, 3))
    value, grad_x, grad_y = soft_dtw_grad(x, y)
    assert (value.shape, grad_x.shape, grad_y.shape) == ((0,), (0, 7, 3), (0, 5, 3))
    assert soft_dtw(x, np.zeros((1, 5, 3))).shape == (0,)
    assert soft_dtw(x, y, x_lengths=[], y_lengths=()).shape == (0,)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.int64])
def test_integers_are_converted_to_float64(kind):
    x, y = np.array([1, 2, 2, 3], kind), np.array([1, 2, 3, 4], kind)
    value, grad_x, _ = soft_dtw_grad(x, y)
    assert value == soft_dtw(x.astype(float), y.astype(float))
    assert grad_x.dtype == np.float64


def test_two_types_are_promoted(rng):
    x, y = rng.normal(size=(6, 2)).astype(np.float32), rng.normal(size=(5, 2))
    value, grad_x, _ = soft_dtw_grad(x, y)
    assert value == soft_dtw(x.astype(np.float64), y)
    assert value.dtype == grad_x.dtype == np.float64


def test_foreign_byte_order_and_unaligned_fields(rng):
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(5, 2))
    expected = soft_dtw_grad(x, y)
    swapped = x.astype(x.dtype.newbyteorder())
    records = np.zeros((6, 2), np.dtype([("tag", np.int8), ("x", np.float64)]))
    records["x"] = x
    for other in (swapped, records["x"]):
        for ours, want in zip(soft_dtw_grad(other, y), expected, strict=True):
            np.testing.assert_array_equal(ours, want)
            assert ours.dtype.isnative


@pytest.mark.parametrize("lengths", [np.array([3, 5], np.int32), np.array([3, 5], np.uint8), [3, 5]])
def test_length_types(lengths, rng):
    x, y = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 5, 3))
    value = soft_dtw(x, y, x_lengths=lengths)
    assert value[0] == pytest.approx(soft_dtw(x[0, :3], y[0]), rel=1e-12)
    assert value[1] == pytest.approx(soft_dtw(x[1, :5], y[1]), rel=1e-12)


def test_one_length_for_all(rng):
    x, y = rng.normal(size=(3, 7, 2)), rng.normal(size=(3, 5, 2))
    np.testing.assert_array_equal(soft_dtw(x, y, y_lengths=4), soft_dtw(x, y, y_lengths=[4, 4, 4]))
    np.testing.assert_allclose(soft_dtw(x, y, y_lengths=[4]), soft_dtw(x, y[:, :4]), rtol=1e-12)


def arguments(**changed):
    return {"x": np.zeros((2, 5, 3)), "y": np.zeros((2, 4, 3)), **changed}


COST = {"x": np.zeros((2, 5, 4)), "y": None, "metric": "precomputed"}
BROKEN = [  # arguments, exception, what its message says
    (arguments(x="ab"), TypeError, "x has dtype <U2"),
    (arguments(x=np.zeros((2, 5, 3), complex)), TypeError, "x has dtype complex128"),
    (arguments(x=np.zeros((2, 5, 3), bool)), TypeError, "x has dtype bool"),
    (arguments(x=np.zeros((2, 5, 3), object)), TypeError, "x has dtype object"),
    (arguments(y=[None, 1]), TypeError, "y has dtype object"),
    (arguments(x=np.float64(1)), ValueError, r"x has shape \(\): expected \(B, N, D\)"),
    (arguments(x=np.zeros((1, 2, 5, 3))), ValueError, r"x has shape \(1, 2, 5, 3\)"),
    (arguments(y=np.zeros((2, 4, 3, 1))), ValueError, r"y has shape \(2, 4, 3, 1\)"),
    (arguments(y=np.zeros((2, 4, 2))), ValueError, "x has 3 features and y has 2"),
    (arguments(y=np.zeros(4)), ValueError, "x has 3 features and y has 1"),
    (arguments(y=np.zeros((3, 4, 3))), ValueError, "x has 2 series and y has 3"),
    (arguments(x=np.zeros((2, 0, 3))), ValueError, "the number of time steps of x is 0"),
    (arguments(y=np.zeros((2, 0, 3))), ValueError, "the number of time steps of y is 0"),
    (arguments(x=np.zeros((2, 5, 0)), y=np.zeros((2, 4, 0))), ValueError, "the number of features is 0"),
    (arguments(x=[]), ValueError, "x is an empty list: expected series"),
    (
        arguments(y=[[1.0], [2.0, 3.0]]),
        ValueError,
        "y is a list that makes no array: expected an array, or a",
    ),
    (
        arguments(x=np.zeros((2, 5, 3), np.float16), y=np.zeros((2, 4, 3), ml_dtypes.bfloat16)),
        ValueError,
        "x and y, of float16 and bfloat16, are of no type together",
    ),
    (arguments(x=np.zeros((2, 5, 3), np.longdouble)), ValueError, "expected float16, bfloat16, float32"),
    (arguments(y=None), ValueError, "y is None with metric 'sqeuclidean'"),
    (arguments(metric="precomputed"), ValueError, "y is given with metric 'precomputed'"),
    ({**COST, "x": np.zeros(5)}, ValueError, r"x has shape \(5,\): expected \(B, N, M\) or \(N, M\)$"),
    ({**COST, "x": np.zeros((5, 0))}, ValueError, "the number of time steps of y is 0"),
    (arguments(metric="manhattan"), ValueError, "metric is 'manhattan': expected one of 'precomputed'"),
    (arguments(metric=1), ValueError, "metric is 1"),
    (arguments(metric=["sqeuclidean"]), ValueError, "metric is"),
    (arguments(gamma=-1.0), ValueError, r"gamma is -1\.0: expected a finite number >= 0"),
    (arguments(gamma=np.nan), ValueError, "gamma is nan"),
    (arguments(gamma=np.inf), ValueError, "gamma is inf"),
    (arguments(gamma="1"), TypeError, "gamma is '1': expected a number"),
    (arguments(gamma=None), TypeError, "gamma is None"),
    (arguments(gamma=True), TypeError, "gamma is True: expected a number"),
    (arguments(gamma=10**400), ValueError, "gamma is 10+: expected a finite number >= 0"),
    (arguments(band="absolute", radius=10**400), ValueError, "radius is 10+: expected a finite number >= 0"),
    (arguments(step_weights=(1, 10**400, 1)), TypeError, r"step_weights is \(1, 10+, 1\): expected three"),
    (arguments(step_weights="111"), TypeError, "step_weights is '111': expected three numbers"),
    (arguments(gamma=1j), TypeError, "gamma is 1j"),
    (arguments(x_lengths=[1, 2, 3]), ValueError, r"x_lengths has shape \(3,\): expected \(2,\)"),
    (arguments(y_lengths=[[1, 2]]), ValueError, r"y_lengths has shape \(1, 2\)"),
    (arguments(x_lengths=[1.0, 2.0]), TypeError, "x_lengths has dtype float64"),
    (arguments(y_lengths=[True, False]), TypeError, "y_lengths has dtype bool"),
    (arguments(x_lengths=[1, 6]), ValueError, r"x_lengths holds 6: expected lengths in \[0, 5\]"),
    (arguments(y_lengths=[-1, 2]), ValueError, r"y_lengths holds -1: expected lengths in \[0, 4\]"),
    (arguments(band="sakoe", radius=1), ValueError, "band is 'sakoe': expected one of 'sakoe_chiba'"),
    (arguments(band="none", radius=1), ValueError, "band is 'none': expected one of"),
    (arguments(band="sakoe_chiba"), TypeError, "radius is None: expected a number, with band 'sakoe_chiba'"),
    (arguments(radius=3), ValueError, "radius is 3 without a band"),
    (arguments(band="absolute", radius=-1), ValueError, "radius is -1: expected a finite number >= 0"),
    (arguments(band="absolute", radius=np.inf), ValueError, "radius is inf"),
    (
        arguments(band="itakura", radius=0.5),
        ValueError,
        r"radius is 0\.5: expected .* the maximum slope, >= 1",
    ),
    (arguments(step_weights=(1, 1)), ValueError, "step_weights holds 2 numbers"),
    (arguments(step_weights=(1, -1, 1)), ValueError, r"step_weights is \(1, -1, 1\)"),
    (arguments(step_weights=2), TypeError, "step_weights is 2: expected three numbers"),
    (arguments(step_penalties=(0, np.nan, 0)), ValueError, "step_penalties is"),
    (arguments(step_penalties="abc"), TypeError, "step_penalties is 'abc'"),
    (arguments(num_threads=-1), ValueError, "^num_threads is -1: expected 0 to 4096, or None"),
    (arguments(num_threads=2**40), ValueError, "^num_threads is 1099511627776"),
    (arguments(num_threads=1.5), TypeError, "^num_threads is 1.5: expected an integer or None"),
]


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_grad, soft_dtw_alignment])
@pytest.mark.parametrize(("broken", "error", "message"), BROKEN)
def test_broken_arguments(function, broken, error, message):
    with pytest.raises(error, match=message) as caught:
        function(**broken)
    if error is not TypeError:
        assert isinstance(caught.value, libsdtw.SdtwError)


BROKEN_MORE = [  # function, arguments, exception, what its message says
    (soft_dtw_grad, {"grad_value": np.ones(2, complex)}, TypeError, "grad_value has dtype complex128"),
    (soft_dtw_grad, {"grad_value": np.ones(3)}, ValueError, r"grad_value has shape \(3,\): expected \(2,\)"),
    (soft_dtw_jvp, {}, ValueError, "tangent_x and tangent_y are None"),
    (
        soft_dtw_jvp,
        {"tangent_x": np.ones((5, 3))},
        ValueError,
        r"tangent_x has shape \(5, 3\): expected \(2, 5, 3\)",
    ),
    (soft_dtw_jvp, {"tangent_y": "abc"}, TypeError, "tangent_y has dtype"),
    (
        soft_dtw_jvp,
        {**COST, "tangent_y": np.ones((2, 5, 4))},
        ValueError,
        "tangent_y is given, but there is no y",
    ),
    (soft_dtw_cdist, {"x": np.zeros((5, 3))}, ValueError, r"x has shape \(5, 3\): expected \(B, N, D\)"),
    (soft_dtw_cdist, {"y": np.zeros((2, 4, 2))}, ValueError, "x has 3 features and y has 2"),
    (soft_dtw_cdist, {"y": None, "y_lengths": [1, 2]}, ValueError, "y_lengths is given without y"),
    (soft_dtw_cdist, {**COST}, ValueError, "metric is 'precomputed': expected a metric of series"),
    (soft_dtw_cdist, {"y_lengths": [1, 2, 3]}, ValueError, r"y_lengths has shape \(3,\)"),
    (soft_dtw_cdist_grad, {"grad_value": np.ones(2)}, ValueError, r"expected \(2, 2\)"),
]


@pytest.mark.parametrize(("function", "changed", "error", "message"), BROKEN_MORE)
def test_broken_arguments_of_single_functions(function, changed, error, message):
    with pytest.raises(error, match=message):
        function(**arguments(**changed))


def test_half_precision_is_read_in_place_and_computed_in_float32(rng):
    x, y = (rng.normal(size=(3, n, 2)).astype(np.float16) for n in (7, 5))
    value, grad_x, grad_y = soft_dtw_grad(x, y)
    wide = soft_dtw_grad(x.astype(np.float32), y.astype(np.float32))
    assert (value.dtype, grad_x.dtype, grad_y.dtype) == (np.float32, np.float16, np.float16)
    np.testing.assert_allclose(value, wide[0], rtol=1e-6)
    np.testing.assert_allclose(grad_x, wide[1], rtol=1e-3, atol=1e-5)
    assert soft_dtw_alignment(x, y).dtype == np.float16
    shared = soft_dtw_grad(x, y[0])[2]
    assert (shared.shape, shared.dtype) == (y[0].shape, np.float16)


def test_all_pairs(rng):
    x, y = rng.normal(size=(3, 7, 2)), rng.normal(size=(4, 5, 2))
    lengths = {"x_lengths": [7, 3, 0], "y_lengths": [5, 1, 2, 4]}
    value, grad_x, grad_y = soft_dtw_cdist_grad(x, y, metric="cityblock", **lengths)
    np.testing.assert_array_equal(value, soft_dtw_cdist(x, y, metric="cityblock", **lengths))
    assert (value.shape, grad_x.shape, grad_y.shape) == ((3, 4), x.shape, y.shape)
    expected = np.zeros_like(grad_x)
    for i, j in np.ndindex(value.shape):
        one = soft_dtw_grad(
            x[i, : lengths["x_lengths"][i]] if i < 2 else x[i],
            y[j, : lengths["y_lengths"][j]],
            metric="cityblock",
            x_lengths=lengths["x_lengths"][i],
        )
        assert value[i, j] == pytest.approx(one[0], rel=1e-12)
        expected[i, : len(one[1])] += one[1]
    np.testing.assert_allclose(grad_x, expected, rtol=0, atol=1e-12)


def test_pairs_of_one_set(rng):
    x, upstream = rng.normal(size=(5, 9, 2)), rng.normal(size=(5, 5))
    value, grad = soft_dtw_cdist_grad(x, grad_value=upstream)
    both, grad_x, grad_y = soft_dtw_cdist_grad(x, x, grad_value=upstream)
    np.testing.assert_array_equal(value, value.T)
    np.testing.assert_allclose(value, both, rtol=1e-12)
    np.testing.assert_allclose(grad, grad_x + grad_y, rtol=0, atol=1e-11)
    assert soft_dtw_cdist(x).shape == (5, 5)


@pytest.mark.parametrize("steps", [{"step_weights": (1, 2, 1)}, {"step_penalties": (0, 1, 2)}])
def test_pairs_of_one_set_whose_steps_differ(steps, rng):
    x, upstream, lengths = rng.normal(size=(4, 6, 2)), rng.normal(size=(4, 4)), [6, 3, 5, 1]
    value, grad = soft_dtw_cdist_grad(x, grad_value=upstream, x_lengths=lengths, **steps)
    both, grad_x, grad_y = soft_dtw_cdist_grad(
        x, x, grad_value=upstream, x_lengths=lengths, y_lengths=lengths, **steps
    )
    assert not np.allclose(value, value.T)
    np.testing.assert_array_equal(value, both)
    np.testing.assert_allclose(grad, grad_x + grad_y, rtol=0, atol=1e-11)
    divergence = soft_dtw_cdist(x, x_lengths=lengths, normalize=True, **steps)
    np.testing.assert_allclose(
        divergence,
        soft_dtw_cdist(x, x, x_lengths=lengths, y_lengths=lengths, normalize=True, **steps),
        atol=1e-12,
    )


def test_upstream_gradients(rng):
    x, y, upstream = rng.normal(size=(4, 9, 2)), rng.normal(size=(4, 8, 2)), rng.normal(size=4)
    _, grad_x, grad_y = soft_dtw_grad(x, y)
    value, ours_x, ours_y = soft_dtw_grad(x, y, grad_value=upstream)
    np.testing.assert_array_equal(value, soft_dtw(x, y))
    np.testing.assert_allclose(ours_x, upstream[:, None, None] * grad_x, rtol=1e-12)
    np.testing.assert_allclose(ours_y, upstream[:, None, None] * grad_y, rtol=1e-12)
    assert soft_dtw_grad(x[0], y[0], grad_value=2.0)[1] == pytest.approx(2 * grad_x[0])


def test_tangents_are_differences(rng):
    x, y = rng.normal(size=(2, 9, 2)), rng.normal(size=(2, 8, 2))
    tangent_x, tangent_y = rng.normal(size=x.shape), rng.normal(size=y.shape)
    ours = soft_dtw_jvp(x, y, tangent_x=tangent_x, tangent_y=tangent_y, gamma=0.5)
    step = 1e-5
    above = soft_dtw_grad(x + step * tangent_x, y + step * tangent_y, gamma=0.5)
    below = soft_dtw_grad(x - step * tangent_x, y - step * tangent_y, gamma=0.5)
    for tangent, up, down in zip(ours, above, below, strict=True):
        np.testing.assert_allclose(tangent, (up - down) / (2 * step), rtol=0, atol=1e-6)
    shared = soft_dtw_jvp(x, y[0], tangent_y=tangent_y[0], gamma=0.5)
    assert [array.shape for array in shared] == [(2,), x.shape, y[0].shape]


def test_errors_carry_their_status():
    for name, status in [("InvalidArgumentError", 1), ("UnsupportedError", 3), ("NotBuiltError", 5)]:
        assert getattr(libsdtw, name).status == status
    with pytest.raises(libsdtw.InvalidArgumentError) as caught:
        soft_dtw(np.zeros((0, 3)), np.zeros((4, 3)))
    assert caught.value.status == 1
