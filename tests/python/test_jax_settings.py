# libsdtw.jax under JAX's settings for debugging, which run programs in other ways.
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jax_data import enable_x64, pair
from libsdtw.jax import (
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
    soft_dtw_cdist,
    soft_dtw_divergence,
)

LENGTHS = {"x_lengths": jnp.array([3, 0]), "y_lengths": jnp.array([2, 3])}
FUNCTIONS = {
    "value": lambda x, y: soft_dtw(x, y, gamma=0.5),
    "grad": lambda x, y: jax.grad(lambda x: soft_dtw(x, y, zero_infinity=True, **LENGTHS).sum())(x),
    "hessian": lambda x, y: jax.hessian(soft_dtw)(x[0], y[0]),
    "gamma": lambda x, y: jax.grad(lambda g: soft_dtw(x, y, gamma=g).sum())(0.5),
    "alignment": lambda x, y: soft_dtw_alignment(x, y),
    "divergence": lambda x, y: soft_dtw_divergence(x, y, metric="cosine"),
    "sharp": lambda x, y: jax.grad(lambda x: sharp_soft_dtw(x, y).sum())(x),
    "metric": lambda x, y: soft_dtw(x, y, metric=lambda x, y: x @ y.swapaxes(1, 2), **LENGTHS),
    "cdist": lambda x, y: soft_dtw_cdist(x, normalize=True, block=1),
    "barycenter": lambda x, y: soft_dtw_barycenter(x, max_iter=2),
}


def assert_unchanged(name, setting):
    x, y = map(jnp.asarray, pair(np.float32, (2, 3, 3, 2)))
    want = FUNCTIONS[name](x, y)
    with setting:
        np.testing.assert_allclose(FUNCTIONS[name](x, y), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_without_jit(name):
    assert_unchanged(name, jax.disable_jit())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_at_compile_time(name):
    assert_unchanged(name, jax.ensure_compile_time_eval())


@pytest.mark.parametrize("name", ["grad", "gamma"])
def test_debug_nans_of_finite_data(name):
    assert_unchanged(name, jax.debug_nans(True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_promotion(name):
    assert_unchanged(name, jax.numpy_rank_promotion("raise"))
    with enable_x64(True):
        assert_unchanged(name, jax.numpy_dtype_promotion("strict"))


@pytest.mark.parametrize("transform", [lambda f: f, lambda f: jax.jit(jax.grad(f))])
def test_debug_nans_finds_them(transform):
    x, y = pair(np.float32)
    x[1, 2, 0] = np.nan
    x, y = jnp.asarray(x), jnp.asarray(y)
    function = transform(lambda x: soft_dtw(x, y).sum())
    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"invalid value \(nan\)"):
        function(x)
