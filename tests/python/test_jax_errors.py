# libsdtw.jax: every argument broken one at a time. Messages name the argument as Python has it.
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libsdtw
from libsdtw.jax import (
    pad,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
    soft_dtw_cdist,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
    to_lengths,
)


def series(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def given(**changed):
    return {"x": series(2, 5, 3), "y": series(2, 4, 3), **changed}


# What is given instead, the exception, and what its message says.
SHARED = [
    # no arrays, or arrays of no numbers
    (given(x=None), TypeError, "x is a NoneType: expected an array"),
    (given(x=1.0), TypeError, "x is a float"),
    (given(y="abc"), TypeError, "y is a str"),
    (given(y=[[1.0]]), TypeError, r"y\[0\] is a list: expected an array"),
    (given(x=series(2, 5, 3, dtype=np.int32)), TypeError, r"x has dtype int32: .*x\.astype\(float\)"),
    (given(y=series(2, 4, 3, dtype=bool)), TypeError, "y has dtype bool"),
    (given(x=series(2, 5, 3, dtype=np.complex64)), TypeError, "x has dtype complex64"),
    # shapes
    (given(x=series(2, 5, 2)), ValueError, r"x has 2 features and y has 3 \(shapes \(2, 5, 2\) and"),
    (given(x=series(3, 5, 3)), ValueError, r"x has the batch \(3,\) and y \(2,\).*soft_dtw_cdist"),
    (given(x=np.float32(1)), TypeError, "x is a float32"),
    (given(x=np.zeros((), np.float32)), ValueError, r"x has shape \(\): expected \(\.\.\., N, D\)"),
    (given(x=series(2, 0, 3)), ValueError, "x has 0 time steps"),
    (given(x=series(2, 5, 0), y=series(2, 4, 0)), ValueError, "x has 0 features"),
    (given(x=[]), ValueError, "x is an empty list"),
    (given(x=[series(5, 3), series(5, 2)]), ValueError, r"x\[1\] has shape \(5, 2\) where x\[0\]"),
    (
        given(x=series(2, 1, 5, 0), y=series(2, 4, 0)),
        ValueError,
        r"x has 0 features \(shape \(2, 1, 5, 0\)\)",
    ),
    (given(x=np.ma.array(series(2, 5, 3), mask=True)), TypeError, r"x is a masked array: .*x\.filled"),
    # metrics
    (given(metric="l2"), ValueError, "metric is 'l2': expected one of 'precomputed', 'sqeuclidean'"),
    (given(metric=None), ValueError, "metric is None"),
    (given(metric=["euclidean"]), ValueError, r"metric is \['euclidean'\]"),
    (
        given(metric=lambda x, y: 1.0),
        ValueError,
        r"metric returned a float .*expected the costs, \(2, 5, 4\)",
    ),
    (given(metric=lambda x, y: x), ValueError, r"metric returned shape \(2, 5, 3\)"),
    # gamma
    (given(gamma=-1), ValueError, "gamma is -1: expected a finite number >= 0"),
    (given(gamma=float("nan")), ValueError, "gamma is nan"),
    (given(gamma=float("inf")), ValueError, "gamma is inf"),
    (given(gamma=10**400), ValueError, "gamma is 10+: expected a finite number >= 0"),
    (given(gamma=1e-300), ValueError, "gamma is 1e-300.*1e-200"),
    (given(gamma=None), TypeError, "gamma is None: expected a number >= 0"),
    (given(gamma=True), TypeError, "gamma is True"),
    (given(gamma="1"), TypeError, "gamma is '1'"),
    (given(gamma=np.ones(2)), TypeError, r"gamma is an array of shape \(2,\) and float64.*jax\.vmap"),
    (given(gamma=np.array(1)), TypeError, r"gamma is an array of shape \(\) and int64"),
    (given(gamma=np.array(-1.0)), ValueError, "gamma is -1.0"),
    # lengths
    (given(x_lengths=[5, 6]), ValueError, r"x_lengths has 6: expected lengths in \[0, 5\]"),
    (given(y_lengths=np.array([-1, 2])), ValueError, r"y_lengths has -1: expected lengths in \[0, 4\]"),
    (given(y_lengths=[1, 2**40]), ValueError, "y_lengths has 1099511627776"),
    (given(x_lengths=[1.5, 2]), TypeError, r"x_lengths is \[1.5, 2\]: expected integers"),
    (given(x_lengths=[[1, 2], [3]]), TypeError, r"x_lengths is \[\[1, 2\], \[3\]\]: expected integers"),
    (given(x_lengths=jnp.ones(2)), TypeError, r"x_lengths has dtype float32: expected integers"),
    (given(x_lengths=[1, 2, 3]), ValueError, r"x_lengths has shape \(3,\): expected \(2,\), one for each"),
    (given(x=[series(5, 3)] * 2, x_lengths=[5, 5]), ValueError, "x is a list and x_lengths is given"),
    # rules
    (given(band="wide"), ValueError, "band is 'wide': expected one of 'sakoe_chiba'"),
    (given(band="absolute"), TypeError, "radius is None"),
    (given(radius=2), ValueError, "radius is 2 without a band"),
    (given(band="itakura", radius=0.5), ValueError, "radius is 0.5: .*slope"),
    (given(step_weights=(1, 1)), ValueError, "step_weights holds 2 numbers"),
    (given(step_weights=(1, -1, 1)), ValueError, "step_weights is .*below 0"),
    (given(step_penalties=None), TypeError, "step_penalties is None"),
]
FUNCTIONS = (soft_dtw, soft_dtw_alignment, soft_dtw_with_alignment, sharp_soft_dtw, soft_dtw_divergence)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("case", range(len(SHARED)))
def test_of_all_functions(function, case):
    arguments, exception, message = SHARED[case]
    with pytest.raises(exception, match=message) as caught:
        function(**arguments)
    if exception is ValueError:
        assert isinstance(caught.value, libsdtw.InvalidArgumentError)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_lengths_on_a_cpu_are_looked_at(function):
    with pytest.raises(libsdtw.InvalidArgumentError, match="x_lengths has 7"):
        function(**given(x_lengths=jnp.array([5, 7])))


COST = series(2, 5, 4)
OWN = [
    (lambda: soft_dtw(COST), ValueError, "y is None with metric 'sqeuclidean'"),
    (lambda: soft_dtw(COST, COST, metric="precomputed"), ValueError, "y is given with metric 'precomputed'"),
    (lambda: soft_dtw(COST[0, 0], metric="precomputed"), ValueError, r"x has shape \(4,\): expected costs"),
    (lambda: soft_dtw(COST[:, :0], metric="precomputed"), ValueError, "N, M >= 1"),
    (lambda: soft_dtw(**given(), reduction="max"), ValueError, "reduction is 'max': expected one of 'none'"),
    (lambda: soft_dtw_divergence(**given(), kind="hard"), ValueError, "kind is 'hard'"),
    (lambda: soft_dtw_divergence(COST, None, metric="precomputed"), ValueError, "compares x and y with them"),
    (
        lambda: soft_dtw(**given(), normalize=True, metric="precomputed"),
        ValueError,
        "metric is 'precomputed'",
    ),
    (
        lambda: soft_dtw_divergence(**given(), kind="sharp", step_penalties=(0, 1, 1)),
        NotImplementedError,
        "step",
    ),
    (
        lambda: soft_dtw_divergence(**given(), kind="mean_cost", step_weights=(2, 1, 1)),
        NotImplementedError,
        "mean costs",
    ),
    (lambda: soft_dtw_cdist(series(5, 3)), ValueError, r"x has shape \(5, 3\): expected \(P, N, D\)"),
    (lambda: soft_dtw_cdist(COST, block=0), ValueError, "block is 0"),
    (lambda: soft_dtw_cdist(COST, y_lengths=[1, 2]), ValueError, "y_lengths is given without y"),
    (lambda: soft_dtw_cdist(COST, x_lengths=[1, 2, 3]), ValueError, r"expected \(2,\), one for each series"),
    (lambda: soft_dtw_cdist(COST, series(3, 4, 2)), ValueError, r"features.*\(2, 5, 4\) and \(3, 4, 2\)"),
    (lambda: soft_dtw_cdist(COST[:, :0]), ValueError, r"x has 0 time steps \(shape \(2, 0, 4\)\)"),
    (lambda: soft_dtw_cdist(COST, metric="precomputed"), ValueError, "metric is 'precomputed'"),
    (lambda: soft_dtw_barycenter(series(5, 3)), ValueError, r"series has shape \(5, 3\)"),
    (
        lambda: soft_dtw_barycenter(COST, weights=[1]),
        ValueError,
        r"weights has shape \(1,\): expected \(2,\)",
    ),
    (lambda: soft_dtw_barycenter(COST, weights=[1, -1]), ValueError, "weights has one that is negative"),
    (lambda: soft_dtw_barycenter(COST, init=series(3, 2)), ValueError, r"init has shape \(3, 2\): expected"),
    (lambda: soft_dtw_barycenter(COST, weights=[0, 0]), ValueError, "weights are all 0"),
    (lambda: soft_dtw_barycenter(COST, weights="ab"), TypeError, "weights is 'ab': expected numbers"),
    (lambda: soft_dtw_barycenter(COST, tol="a"), ValueError, "tol is 'a': expected a number >= 0"),
    (lambda: soft_dtw_barycenter(COST, tol=-1), ValueError, "tol is -1: expected a number >= 0"),
    (
        lambda: soft_dtw_barycenter([COST[0]], lengths=[1]),
        ValueError,
        "series is a list and lengths is given",
    ),
    (lambda: soft_dtw_barycenter(COST, max_iter=-1), ValueError, "max_iter is -1"),
    (lambda: soft_dtw_barycenter(COST, metric="precomputed"), ValueError, "expected a metric of series"),
    (lambda: soft_dtw_barycenter(COST, band="wide", max_iter=0), ValueError, "band is 'wide'"),
    (lambda: soft_dtw_barycenter(COST, gamma=-1, max_iter=0), ValueError, "gamma is -1"),
    (
        lambda: soft_dtw_barycenter(COST, lengths=[5, 0], normalize=True),
        ValueError,
        r"series\[1\] has an infinite value with any average of 5 time steps: expected at least one",
    ),
    (
        lambda: soft_dtw_barycenter([COST[0], COST[1, :2]], band="absolute", radius=1, gamma=0.5),
        ValueError,
        r"series\[1\] has an infinite value with any average",
    ),
    (lambda: jax.jit(soft_dtw_barycenter)(COST), TypeError, "series is traced"),
    (lambda: pad(5), TypeError, "series is 5: expected a list of arrays"),
    (lambda: pad([]), ValueError, "series is empty"),
    (lambda: to_lengths(series(3)), ValueError, r"batch has shape \(3,\)"),
]


@pytest.mark.parametrize("case", range(len(OWN)))
def test_of_one_function(case):
    call, exception, message = OWN[case]
    with pytest.raises(exception, match=message):
        call()


@pytest.mark.parametrize("name", ["weights", "init", "gamma", "lengths"])
def test_averages_of_what_is_traced(name):
    given = {"weights": jnp.ones(2), "init": jnp.ones((3, 3)), "gamma": 1.0, "lengths": [5, 3]}[name]
    series = jnp.asarray(COST)
    with pytest.raises(TypeError, match=f"{name} is traced: soft_dtw_barycenter searches on the host"):
        jax.jit(lambda of: soft_dtw_barycenter(series, **{name: of}))(given)


@pytest.mark.usefixtures("on_cpu")  # a program on a GPU reports nothing: its values are NaN
def test_in_a_program():
    # What is wrong with shapes is found when it is traced; what is wrong with numbers when it runs.
    with pytest.raises(libsdtw.InvalidArgumentError, match="x has 2 features"):
        jax.jit(soft_dtw)(series(2, 5, 2), series(2, 4, 3))
    with pytest.raises(
        Exception, match=re.escape("libsdtw: SDTW_STATUS_INVALID_ARGUMENT: problem.gamma is -1")
    ):
        jax.jit(lambda gamma: soft_dtw(**given(), gamma=gamma))(-1.0).block_until_ready()


@pytest.mark.parametrize("platform", ["tpu", "rocm"])
def test_of_other_platforms(platform):
    with pytest.raises(NotImplementedError, match="libsdtw"):
        jax.jit(functools.partial(soft_dtw)).trace(**given()).lower(lowering_platforms=(platform,))


def test_lengths_that_are_traced_one_by_one():
    value = jax.jit(lambda n: soft_dtw(**given(), x_lengths=[n, 5]))(3)
    assert np.array_equal(value, soft_dtw(**given(), x_lengths=[3, 5]))


@pytest.mark.parametrize(("number", "name"), [(jnp.nan, "NaN"), (jnp.inf, "infinity")])
def test_averages_of_what_is_not_finite(number, name):
    x = np.asarray(series(3, 7, 2)).copy()
    want = soft_dtw_barycenter([x[0], x[1, :5], x[2]], max_iter=3)
    x[1, 5:] = number  # padding, as tslearn has it
    for options in ({}, {"metric": "cityblock", "gamma": 0}, {"normalize": True}, {"init": x[0, :4]}):
        with pytest.raises(ValueError, match=rf"series\[1\] holds {name}: expected finite .*lengths"):
            soft_dtw_barycenter(x, **options)
    np.testing.assert_allclose(soft_dtw_barycenter(x, lengths=[7, 5, 7], max_iter=3), want, rtol=1e-5)
    with pytest.raises(ValueError, match="init holds NaN or infinity"):
        soft_dtw_barycenter(x, lengths=[7, 5, 7], init=x[1])
    # Of weight 0 it has no say.
    alone = soft_dtw_barycenter(x[[0, 2]], weights=[0.5, 1.5], max_iter=3)
    np.testing.assert_allclose(soft_dtw_barycenter(x, weights=[0.5, 0, 1.5], max_iter=3), alone, rtol=1e-5)

    def known(a, b):
        return jnp.square(jnp.nan_to_num(a[:, :, None] - b[:, None], posinf=0, neginf=0)).sum(-1)

    assert jnp.isfinite(soft_dtw_barycenter(x, metric=known, init=x[0], max_iter=3)).all()
    with pytest.raises(ValueError, match="the average or its value came to be NaN"):
        soft_dtw_barycenter(x, metric=lambda a, b: known(a, b) * jnp.nan, init=x[0], max_iter=3)
