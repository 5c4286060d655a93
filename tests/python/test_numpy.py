# libsdtw.numpy: shapes, types, broadcasting, and errors for every argument broken one at a time.
import numpy as np
import pytest

import libsdtw
from libsdtw.numpy import soft_dtw, soft_dtw_alignment, soft_dtw_grad


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
    (arguments(x=np.zeros((2, 0, 3))), ValueError, r"problem\.n is 0"),
    (arguments(y=np.zeros((2, 0, 3))), ValueError, r"problem\.m is 0"),
    (arguments(x=np.zeros((2, 5, 0)), y=np.zeros((2, 4, 0))), ValueError, r"problem\.features is 0"),
    (arguments(x=np.zeros((2, 5, 3), np.longdouble)), ValueError, "expected float32 or float64"),
    (
        arguments(x=np.zeros((2, 5, 3), np.float16), y=np.zeros((2, 4, 3), np.float16)),
        NotImplementedError,
        "F16",
    ),
    (arguments(y=None), ValueError, "y is None with metric 'sqeuclidean'"),
    (arguments(metric="precomputed"), ValueError, "y is given with metric 'precomputed'"),
    ({**COST, "x": np.zeros(5)}, ValueError, r"x has shape \(5,\): expected \(B, N, M\) or \(N, M\)$"),
    ({**COST, "x": np.zeros((5, 0))}, ValueError, r"problem\.m is 0"),
    (arguments(metric="manhattan"), ValueError, "metric is 'manhattan': expected one of 'precomputed'"),
    (arguments(metric=1), ValueError, "metric is 1"),
    (arguments(metric=["sqeuclidean"]), ValueError, "metric is"),
    (arguments(metric="cosine"), NotImplementedError, "SDTW_COSINE"),
    (arguments(gamma=0), NotImplementedError, "gamma"),
    (arguments(gamma=-1.0), ValueError, r"gamma is -1\.0: expected a finite number >= 0"),
    (arguments(gamma=np.nan), ValueError, "gamma is nan"),
    (arguments(gamma=np.inf), ValueError, "gamma is inf"),
    (arguments(gamma="1"), TypeError, "gamma is '1': expected a number"),
    (arguments(gamma=None), TypeError, "gamma is None"),
    (arguments(gamma=1j), TypeError, "gamma is 1j"),
    (arguments(x_lengths=[1, 2, 3]), ValueError, r"x_lengths has shape \(3,\): expected \(2,\)"),
    (arguments(y_lengths=[[1, 2]]), ValueError, r"y_lengths has shape \(1, 2\)"),
    (arguments(x_lengths=[1.0, 2.0]), TypeError, "x_lengths has dtype float64"),
    (arguments(y_lengths=[True, False]), TypeError, "y_lengths has dtype bool"),
    (arguments(x_lengths=[1, 6]), ValueError, r"x_lengths holds 6: expected lengths in \[0, 5\]"),
    (arguments(y_lengths=[-1, 2]), ValueError, r"y_lengths holds -1: expected lengths in \[0, 4\]"),
    (arguments(num_threads=-1), ValueError, "num_threads is -1"),
    (arguments(num_threads=5000), ValueError, "num_threads is 5000"),
    (arguments(num_threads=1.5), TypeError, "incompatible"),
]


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_grad, soft_dtw_alignment])
@pytest.mark.parametrize(("broken", "error", "message"), BROKEN)
def test_broken_arguments(function, broken, error, message):
    with pytest.raises(error, match=message) as caught:
        function(**broken)
    if error is not TypeError:
        assert isinstance(caught.value, libsdtw.SdtwError)


def test_errors_carry_their_status():
    for name, status in [("InvalidArgumentError", 1), ("UnsupportedError", 3), ("NotBuiltError", 5)]:
        assert getattr(libsdtw, name).status == status
    with pytest.raises(libsdtw.InvalidArgumentError) as caught:
        soft_dtw(np.zeros((0, 3)), np.zeros((4, 3)))
    assert caught.value.status == 1
