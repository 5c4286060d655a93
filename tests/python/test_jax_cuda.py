# libsdtw.jax for CUDA: the programs that it makes, which takes no GPU; and what they compute, which does.
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libsdtw
from jax_data import pair, x_of
from libsdtw.jax import _costs, _library, _lowering, soft_dtw, soft_dtw_alignment
from libsdtw.jax._options import Operands

N = jnp.array([7, 3, 5])
GRADIENTS = {"x": (True, False), "y": (False, True)}  # of what a primitive's derivative is


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
    "cosine": lambda x, y, gamma: jax.grad(
        lambda x: soft_dtw(x, y, gamma=gamma, metric="cosine", x_lengths=N).sum()
    )(x),
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
    options = {"step_penalties": (0, 1, 1), "step_weights": (2, 1, 1)}
    function = jax.jit(lambda x, y, gamma: soft_dtw(x, y, gamma=gamma, **options))
    program = function.trace(x, y, jnp.float32(1))
    with pytest.raises(libsdtw.UnsupportedError, match="not implemented on GPUs for step_penalties"):
        program.lower(lowering_platforms=("cuda",))


@pytest.fixture
def as_on_gpus(monkeypatch):
    """The programs of GPUs, whose calls the CPU's handlers carry out: those take gamma from the operand."""
    of_number = _lowering._of_number

    def with_operand(options, kind, operands, tangents, gamma):
        operands = operands._replace(gamma=jnp.full((), gamma, operands.x.dtype))
        return of_number(options, kind, operands, tangents, gamma)

    with monkeypatch.context() as patch:
        patch.setattr(_library, "PLATFORMS", frozenset({"cpu", "cuda"}))
        patch.setattr(_library, "on_gpus", lambda: True)
        patch.setitem(_lowering._CALLS, "cpu", _lowering._cuda)
        patch.setattr(_lowering, "_of_number", with_operand)
        patch.setattr(_lowering, "_memory", lambda *_: ())
        jax.clear_caches()
        yield patch
    jax.clear_caches()


def every(metric, dtype, rules):
    """Value, gradients, tangents and alignment, and series."""
    options = {"metric": metric, "x_lengths": N, **rules}
    if metric == "precomputed":
        options |= {"metric": lambda x, y: jnp.sum(jnp.abs(x[:, :, None] - y[:, None]), -1) ** 1.5}

    def value(x, y, gamma):
        return soft_dtw(x, y, gamma=gamma, **options)

    def first(x, y, gamma):
        return jax.grad(lambda x, y: value(x, y, gamma).sum(), (0, 1))(x, y)

    def all_of_them(x, y, gamma):
        second = jax.jvp(lambda x, y: first(x, y, gamma), (x, y), (jnp.cos(x), jnp.sin(y)))[1]
        return (
            value(x, y, gamma),
            first(x, y, gamma),
            second,
            soft_dtw_alignment(x, y, gamma=gamma, **options),
        )

    x, y = (t.astype(dtype) for t in pair())
    return all_of_them, jnp.asarray(x), jnp.asarray(y)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize(
    ("metric", "zeros", "dtype", "rules"),
    [
        ("sqeuclidean", False, "float64", {}),
        ("euclidean", False, "float64", {}),
        ("cityblock", False, "float64", {}),
        ("precomputed", False, "float64", {}),
        ("cosine", False, "float32", {}),
        ("cosine", True, "float64", {}),
        ("sqeuclidean", False, "float64", {"step_penalties": (0.1, 0.3, 0.7)}),
        ("precomputed", False, "float64", {"step_penalties": (1, -0.5, 0)}),
        ("euclidean", False, "float64", {"step_penalties": (0, 1, 1), "step_weights": (1, 2, 0.5)}),
    ],
)
def test_gamma_as_an_array_gives_what_a_number_does(metric, zeros, dtype, rules, as_on_gpus):
    with x_of(64 if dtype == "float64" else 32):
        function, x, y = every(metric, dtype, rules)
        gammas = (0.0, 0.3)
        if zeros:  # whose costs are all alike, so that at gamma 0 rounding chooses the path
            x, y, gammas = x.at[0, 2].set(0), y.at[0, 1].set(0).at[1, 3].set(0), (0.3, 2.0)
        program = jax.jit(function)
        traced = [program(x, y, jnp.asarray(gamma, dtype)) for gamma in gammas]
        of_each = jax.jit(jax.vmap(function, (None, None, 0)))(x, y, jnp.asarray(gammas, dtype))
        as_on_gpus.undo()
        jax.clear_caches()
        tolerance = 1e-4 if dtype == "float32" else 1e-9
        for k, gamma in enumerate(gammas):
            want = jax.tree.leaves(jax.jit(function, static_argnums=2)(x, y, gamma))
            each = jax.tree.leaves(jax.tree.map(lambda array, k=k: array[k], of_each))
            for expected, *found in zip(want, jax.tree.leaves(traced[k]), each, strict=True):
                for one in found:
                    np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("upstream", [np.nan, np.inf])
@pytest.mark.parametrize("costs", [False, True])
@pytest.mark.parametrize("of", GRADIENTS)
def test_padding_of_kept_gradients_stays_zero(of, costs, upstream):
    if costs and of == "y":
        return
    arrays = [jnp.ones((3, 7, 6)), None] if costs else [jnp.ones((3, 7, 2)), jnp.ones((3, 6, 2))]
    lengths = [jnp.array([7, 3, 0]), jnp.array([4, 6, 5])]
    kept = arrays[0] if of == "x" else arrays[1]
    kind = ("products", GRADIENTS[of], (False, False))
    operands = Operands(*arrays, *lengths, jnp.float32(1))
    (product,) = _lowering._cuda(None, kind, operands, (kept, jnp.full(3, upstream)))
    own, other = (np.asarray(one) for one in (lengths if of == "x" else lengths[::-1]))
    there = np.broadcast_to((np.arange(kept.shape[1]) < own[:, None])[..., None], kept.shape)
    there = there & (np.arange(kept.shape[2]) < other[:, None] if costs else other[:, None] > 0)[:, None]
    np.testing.assert_array_equal(jnp.isfinite(product), ~there)
    np.testing.assert_array_equal(product[~there], 0)


def test_cosine_costs_as_squares():
    x, y = (t.astype(np.float32) for t in pair())
    x[0, 1] = y[0, 2] = y[1, 0] = 0
    x[1, 2], y[2, 1] = 1e-30 * x[1, 2], 1e30 * y[2, 1]
    one, other = _costs.cosine_as_squares(jnp.asarray(x), jnp.asarray(y))
    wide = _costs.cosine(*(jnp.asarray(t) for t in (x, y)))
    np.testing.assert_allclose(_costs.sqeuclidean(one, other), wide, atol=1e-6)
    x64, y64 = x.astype(np.float64), y.astype(np.float64)
    norms = np.linalg.norm(x64, axis=2)[:, :, None] * np.linalg.norm(y64, axis=2)[:, None]
    by_definition = 1 - np.einsum("bnd,bmd->bnm", x64, y64) / np.where(norms, norms, 1)
    np.testing.assert_allclose(wide, by_definition, atol=1e-6)
    missing = _costs.cosine(jnp.asarray(x).at[0, 0, 0].set(jnp.nan), jnp.asarray(y))
    assert np.isnan(missing[0, 0]).all()
    assert not np.isnan(missing[1:]).any()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_cpu(name, dtype):
    if not _library.on_gpus():
        pytest.skip("JAX sees no GPU, or libsdtw has no handlers for it")
    x, y = (jnp.asarray(t, dtype) for t in pair())
    for gamma in (jnp.float32(0.5), 0.5, jnp.float32(0)):
        if name == "by gamma" and (isinstance(gamma, float) or gamma == 0):
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
