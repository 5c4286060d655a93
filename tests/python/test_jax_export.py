# libsdtw.jax through jax.export, with sizes that are numbers and that are symbols.
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import libsdtw
from jax_data import pair
from libsdtw.jax import (
    _library,
    _lowering,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_divergence,
)

ALLOWED = [export.DisabledSafetyCheck.custom_call(_library.target(name)) for name in _library.TARGETS]


def total(x, y):
    return soft_dtw(x, y, gamma=0.5, x_lengths=jnp.full(x.shape[0], 3)).sum()


def product(x, y):
    return jax.jvp(lambda x: jax.grad(total)(x, y), (x,), (x,))[1]


def exported(function, x, y, shapes):
    symbols = export.symbolic_args_specs((x, y), shapes)
    return export.export(jax.jit(function), platforms=["cpu"], disabled_checks=ALLOWED)(*symbols)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("shapes", [("2, 4, 2", "2, 3, 2"), ("b, n, d", "b, m, d")])
@pytest.mark.parametrize(
    "function", [total, jax.grad(total), product, soft_dtw_alignment, soft_dtw_divergence]
)
def test_sizes(function, shapes):
    if _library.on_gpus():
        pytest.skip("a program that is made where JAX has GPUs has gamma as they take it")
    x, y = map(jnp.asarray, pair(np.float32, (2, 4, 3, 2)))
    ours = exported(function, x, y, shapes).call(x, y)
    np.testing.assert_allclose(ours, function(x, y), rtol=1e-5, atol=1e-6)


def test_errors(monkeypatch):
    x, y = map(jnp.asarray, pair(np.float32, (2, 4, 3, 2)))
    with pytest.raises(libsdtw.InvalidArgumentError, match=r"x has shape \(b, n, 2\): expected a number of"):
        exported(soft_dtw_cdist, x, y, ("b, n, 2", "b, m, 2"))
    with pytest.raises(libsdtw.InvalidArgumentError, match=r"x has 2 features and y has d"):
        exported(soft_dtw, x, y, ("b, n, 2", "b, m, d"))
    monkeypatch.setitem(_lowering._CALLS, "cpu", _lowering._cuda)
    monkeypatch.setattr(_library, "PLATFORMS", {"cuda"})
    monkeypatch.setattr(_library, "on_gpus", lambda: True)
    with pytest.raises(libsdtw.UnsupportedError, match=r"x has shape \(b, 4, 2\).* for the CPU alone"):
        exported(soft_dtw, x, y, ("b, 4, 2", "b, 3, 2"))
