# libsdtw.jax for CUDA: the programs that it makes, which takes no GPU; and what they compute, which does.
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libsdtw
from jax_data import pair
from libsdtw.jax import _library, soft_dtw, soft_dtw_alignment

N = jnp.array([7, 3, 5])


def total(x, y, gamma):
    return soft_dtw(x, y, gamma=gamma, x_lengths=N).sum()


def product(x, y, gamma):
    return jax.jvp(lambda x: jax.grad(total)(x, y, gamma), (x,), (x,))[1]


FUNCTIONS = {
    "value": total,
    "gradients": jax.grad(total, (0, 1)),
    "by gamma": jax.grad(total, 2),
    "tangents": product,
    "alignment": lambda x, y, gamma: soft_dtw_alignment(x, y, gamma=gamma, metric="cityblock", x_lengths=N),
    "each its own gamma": lambda x, y, gamma: jax.vmap(lambda g: soft_dtw(x, y, gamma=g * gamma))(
        jnp.ones(3)
    ),
}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_have_the_shapes_of_the_cpus(name, dtype, monkeypatch):
    monkeypatch.setattr(_library, "PLATFORMS", frozenset({"cpu", "cuda"}))
    monkeypatch.setattr(_library, "on_gpus", lambda: True)
    x, y = (jnp.asarray(t, dtype) for t in pair())
    for gamma in (jnp.float32(0.5), 0.5):
        if name == "by gamma" and isinstance(gamma, float):
            continue
        constant = (2,) if isinstance(gamma, float) else ()
        program = jax.jit(FUNCTIONS[name], static_argnums=constant).trace(x, y, gamma)
        text = program.lower(lowering_platforms=("cuda",)).as_text()
        operand = not constant or name == "each its own gamma"
        # The number is an attribute; an operand scales the inputs, to gamma 1.
        assert f"gamma = {1 if operand else 0.5:.6e} : f64" in text
        assert program.lower(lowering_platforms=("cpu",)).out_info == program.out_info
    function = jax.jit(lambda x, y, gamma: soft_dtw(x, y, gamma=gamma, step_penalties=(0, 1, 1)))
    program = function.trace(x, y, jnp.float32(1))
    with pytest.raises(libsdtw.UnsupportedError, match="step_penalties is not implemented on GPUs"):
        program.lower(lowering_platforms=("cuda",))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_cpu(name, dtype):
    if not _library.on_gpus():
        pytest.skip("JAX sees no GPU, or libsdtw has no handlers for it")
    x, y = (jnp.asarray(t, dtype) for t in pair())
    for gamma in (jnp.float32(0.5), 0.5):
        if name == "by gamma" and isinstance(gamma, float):
            continue
        constant = (2,) if isinstance(gamma, float) else ()
        there, here = (
            jax.jit(FUNCTIONS[name], static_argnums=constant)(
                *jax.device_put((x, y), jax.devices(kind)[0]), gamma
            )
            for kind in ("cuda", "cpu")
        )
        for a, b in zip(jax.tree.leaves(there), jax.tree.leaves(here), strict=True):
            tolerance = 2e-3 if dtype == "float16" else 1e-4
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
