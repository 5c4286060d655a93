# libsdtw.jax under JAX's transforms: derivatives of both orders, vmap over anything, loops, devices.
import functools
import itertools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import libsdtw
from draws import METRICS
from jax_data import LENGTHS, pair
from libsdtw.jax import (
    _library,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
)

RULES = [
    {"band": "sakoe_chiba", "radius": 2, "step_weights": (1.5, 1, 1)},
    {"band": "itakura", "radius": 2.0},
]
GAMMA = 0.7

pytestmark = pytest.mark.usefixtures("x64")


def inputs_of(metric, shape=(3, 5, 4, 2)):
    x, y = pair(shape=shape)
    return (np.abs(x[:, :, :1] - y[:, :, 0][:, None]),) if metric == "precomputed" else (x, y)


@pytest.mark.parametrize("metric", METRICS)
def test_derivatives_of_both_orders(metric):
    options = {"metric": metric, "x_lengths": [5, 3, 0], "y_lengths": [2, 4, 0]}

    @jax.jit
    def function(gamma, *series):
        return soft_dtw(*series, gamma=gamma, **options)

    check_grads(function, (jnp.asarray(GAMMA), *inputs_of(metric)), order=2, modes=("rev",), rtol=1e-5)
    check_grads(function, (jnp.asarray(GAMMA), *inputs_of(metric)), order=1, modes=("fwd",), rtol=1e-5)


@pytest.mark.parametrize("rules", RULES)
def test_derivatives_with_rules(rules):
    function = jax.jit(lambda gamma, x, y: soft_dtw(x, y, gamma=gamma, metric="cityblock", **rules))
    check_grads(function, (jnp.asarray(GAMMA), *inputs_of("cityblock")), order=2, modes=("rev",), rtol=1e-5)


@pytest.mark.usefixtures("on_cpu")  # gamma is traced
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "precomputed"])
@pytest.mark.parametrize("penalties", [(0.1, 0.3, 0.7), (1, 0.3, 0.7), (0.5, -1, 0)])
def test_derivatives_with_penalties(metric, penalties):
    options = {"step_penalties": penalties, "metric": metric, "x_lengths": [5, 3, 0], "y_lengths": [2, 4, 0]}
    function = jax.jit(lambda gamma, *series: soft_dtw(*series, gamma=gamma, **options))
    given = jnp.asarray(GAMMA), *inputs_of(metric)
    check_grads(function, given, order=2, modes=("rev",), rtol=1e-5)
    check_grads(function, given, order=1, modes=("fwd",), rtol=1e-5)


@pytest.mark.usefixtures("on_cpu")
def test_derivatives_with_penalties_and_weights():
    given = jnp.asarray(GAMMA), *inputs_of("euclidean")
    options = {"metric": "euclidean", "step_penalties": (0.1, 0.3, 0.7)}

    def function(gamma, x, y, weights=(1, 2, 0.5)):
        return soft_dtw(x, y, gamma=gamma, step_weights=weights, **options)

    check_grads(function, given, order=1, modes=("rev", "fwd"), rtol=1e-5)
    mixed = jax.jacobian(jax.jacobian(function, 1))(*given)
    step = 1e-6
    there, back = (jax.jacobian(function, 1)(GAMMA + s, *given[1:]) for s in (step, -step))
    np.testing.assert_allclose(mixed, (there - back) / (2 * step), rtol=1e-5, atol=1e-8)
    with pytest.raises(libsdtw.UnsupportedError, match="the diagonal one is the sum"):
        jax.jacobian(jax.jacobian(functools.partial(function, weights=(2, 1, 1)), 1))(*given)


@pytest.mark.parametrize("metric", ["sqeuclidean", "precomputed"])
def test_derivatives_of_alignments(metric):
    def function(gamma, *series):
        values, alignment = soft_dtw_with_alignment(*series, gamma=gamma, metric=metric)
        return values, alignment**2

    series = inputs_of(metric, (2, 4, 3, 2))
    check_grads(jax.jit(function), (jnp.asarray(GAMMA), *series), order=1, modes=("fwd", "rev"), rtol=1e-5)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_derivatives_of_what_is_built_on_them(metric):
    x, y = pair(shape=(2, 4, 3, 2))
    for of in (sharp_soft_dtw, soft_dtw_divergence, functools.partial(soft_dtw_divergence, kind="mean_cost")):
        function = jax.jit(lambda gamma, x, y, of=of: of(x, y, gamma=gamma, metric=metric))
        check_grads(function, (jnp.asarray(GAMMA), x, y), order=1, modes=("rev",), rtol=1e-5)


@pytest.mark.parametrize("block", [100, 3])
def test_derivatives_of_all_pairs(block):
    x, y = pair(shape=(3, 4, 3, 2))
    for series in ((x, y), (x,)):
        function = jax.jit(lambda *series: soft_dtw_cdist(*series, gamma=GAMMA, block=block))
        check_grads(function, series, order=1, modes=("rev",), rtol=1e-5)


def test_hard_paths_are_held_fixed():
    x, y = pair()
    function = functools.partial(soft_dtw, gamma=0)
    check_grads(jax.jit(function), (x, y), order=1, modes=("fwd", "rev"), rtol=1e-5)
    hessian = jax.hessian(lambda x: function(x, y[0]))(x[0])  # twice the number of steps at each point
    assert np.array_equal(np.unique(hessian - hessian * np.eye(14).reshape(7, 2, 7, 2)), [0])
    assert (np.diag(hessian.reshape(14, 14)) >= 2).all()


def test_all_ways_to_a_hessian():
    x, y = (t[0, :4] for t in pair())
    both = [
        jax.jit(outer(inner(soft_dtw, (0, 1)), (0, 1)))(x, y)
        for outer, inner in itertools.product((jax.jacfwd, jax.jacrev), repeat=2)
    ]
    for one in both[1:]:
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9), one, both[0])


def test_the_third_order_is_refused():
    x, y = (t[0] for t in pair())
    with pytest.raises(NotImplementedError, match="third order of soft-DTW is not implemented"):
        jax.jacfwd(jax.hessian(soft_dtw))(x, y)
    with pytest.raises(libsdtw.UnsupportedError, match="alignment with step_weights"):
        jax.grad(lambda x: soft_dtw_alignment(x, y, step_weights=(2, 1, 1)).sum())(x)


@pytest.mark.parametrize("axes", [a for a in itertools.product((0, 1, None), repeat=2) if a != (None, None)])
@pytest.mark.parametrize(("of_gamma", "of_lengths"), [(0, None), (None, 0)])
def test_vmap_over_anything(axes, of_gamma, of_lengths):
    x, y = pair(shape=(3, 7, 6, 2))
    gamma, n = jnp.array([0.2, 0.7, 0.7]), jnp.array([7, 3, 5])

    def function(x, y, gamma, n):
        total = soft_dtw(x, y, gamma=gamma, x_lengths=n)
        return total, jax.grad(lambda x, y, g: soft_dtw(x, y, gamma=g, x_lengths=n), (0, 1, 2))(x, y, gamma)

    def arranged(array, axis):
        return array[1] if axis is None else np.moveaxis(array, 0, axis)

    given = arranged(x, axes[0]), arranged(y, axes[1]), arranged(gamma, of_gamma), arranged(n, of_lengths)
    in_axes = (*axes, of_gamma, of_lengths)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-11)
    ours = jax.jit(jax.vmap(function, in_axes))(*given)
    for b in range(3):
        each = [
            array[1 if axis is None else b] for array, axis in zip((x, y, gamma, n), in_axes, strict=True)
        ]
        want = jax.jit(function)(*each)
        jax.tree.map(lambda a, w, b=b: close(a[b], w), ours, want)


def test_vmap_of_vmap_and_of_batches():
    x, y = pair(shape=(6, 7, 6, 2))
    x, y = x.reshape(2, 3, 7, 2), y.reshape(2, 3, 6, 2)
    gammas = jnp.array([0.3, 0.9])
    want = jnp.stack([soft_dtw(x[k], y[k], gamma=gammas[k]) for k in range(2)])
    each = jax.vmap(lambda x, y, g: soft_dtw(x, y, gamma=g))
    np.testing.assert_allclose(each(x, y, gammas), want, rtol=1e-12)
    inner = jax.vmap(lambda x, y, g: soft_dtw(x, y, gamma=g), (0, 0, None))
    np.testing.assert_allclose(jax.vmap(inner)(x, y, gammas), want, rtol=1e-12)
    product = jax.vmap(jax.vmap(soft_dtw, (None, 0)), (0, None))(x[0], y[0])
    np.testing.assert_allclose(product, soft_dtw_cdist(x[0], y[0]), rtol=1e-12)
    hessians = jax.jit(jax.vmap(jax.hessian(soft_dtw)))(x[0], y[0])
    np.testing.assert_allclose(hessians[1], jax.hessian(soft_dtw)(x[0, 1], y[0, 1]), rtol=1e-9, atol=1e-10)
    assert jax.vmap(soft_dtw_alignment)(x, y).shape == (2, 3, 7, 6)


@pytest.mark.usefixtures("on_cpu")
def test_vmap_over_gamma_alone_takes_penalties_and_zero():
    x, y = (t[0] for t in pair())
    gammas = jnp.array([0.0, 0.5, 2.0])
    options = {"step_penalties": (0, 1, 1), "band": "sakoe_chiba", "radius": 2}
    ours = jax.vmap(lambda gamma: soft_dtw(x, y, gamma=gamma, **options))(gammas)
    want = [float(soft_dtw(x, y, gamma=float(g), **options)) for g in gammas]
    # Programs of GPUs scale the series by gamma, not the costs: a rounding error of each.
    np.testing.assert_allclose(ours, want, rtol=1e-14)


@pytest.mark.parametrize("of", [soft_dtw, soft_dtw_alignment, soft_dtw_divergence, sharp_soft_dtw])
@pytest.mark.parametrize("transform", [lambda f: f, jax.grad])
def test_vmap_of_conditions(of, transform):
    # JAX batches all that the branches take, which the number that is gamma is a part of
    x, y = pair(shape=(4, 4, 3, 2))
    function = transform(lambda x, y: of(x, y, gamma=0.5).sum())

    def chosen(k, x, y):
        return jax.lax.switch(k, [function, lambda x, y: jnp.zeros_like(function(x, y))], x, y)

    ours = jax.jit(jax.vmap(chosen))(jnp.array([0, 1, 1, 0]), x, y)
    want = jnp.where(jnp.arange(4).reshape(-1, *[1] * (ours.ndim - 1)) % 3 == 0, jax.vmap(function)(x, y), 0)
    np.testing.assert_allclose(ours, want, rtol=1e-9, atol=1e-11)
    assert jax.vmap(chosen)(jnp.zeros(0, int), x[:0], y[:0]).shape == (0, *ours.shape[1:])


def test_annealing_compiles_once():
    x, y = pair(np.float32)
    traced = 0

    @jax.jit
    def step(x, gamma):
        nonlocal traced
        traced += 1
        return jax.grad(lambda x: soft_dtw(x, y, gamma=gamma).sum())(x)

    for gamma in (1.0, 0.5, 0.1, 0.0):
        want = jax.grad(lambda x, gamma=gamma: soft_dtw(x, y, gamma=gamma).sum())(x)
        np.testing.assert_allclose(step(x, gamma), want, rtol=1e-5, atol=1e-6)
    assert traced == 1


def test_loops_and_checkpoints():
    x, y = pair()

    def total(x, wrap):
        def body(carry, gamma):
            value = wrap(lambda z: soft_dtw(z, y, gamma=gamma).sum())(carry)
            return carry * 1.1, value

        return jax.lax.scan(body, x, jnp.array([1.0, 0.5, 0.2]))[1].sum()

    want = sum(
        jax.grad(lambda x, k=k, g=g: soft_dtw(x * 1.1**k, y, gamma=g).sum())(x)
        for k, g in enumerate((1.0, 0.5, 0.2))
    )
    for wrap in (lambda f: f, jax.checkpoint):
        np.testing.assert_allclose(jax.jit(jax.grad(total), static_argnums=1)(x, wrap), want, rtol=1e-9)
    both = jax.jit(jax.vmap(jax.grad(lambda x: total(x, jax.checkpoint))))(jnp.stack([x, 2 * x]))
    np.testing.assert_allclose(both[0], want, rtol=1e-9)
    ahead = jax.jvp(lambda x: total(x, jax.checkpoint), (x,), (x,))[1]
    np.testing.assert_allclose(ahead, (want * x).sum(), rtol=1e-9)
    line = jax.linearize(lambda x: total(x, lambda f: f), x)[1]
    np.testing.assert_allclose(line(x), ahead, rtol=1e-9)


def test_what_derivatives_keep_may_be_taken_apart():
    # vjp's functions hold arrays, which are sliced as any others: no state of a batch is among them.
    x, y = pair()
    back = jax.vmap(lambda x, y: jax.vjp(soft_dtw, x, y)[1])(x, y)
    one = jax.tree.map(lambda array: array[1], back)
    want = jax.grad(soft_dtw, (0, 1))(x[1], y[1])
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-12), one(1.0), want)


def test_padding_of_any_content():
    x, y = pair()
    x[1, 3:], y[2, 4:] = np.nan, np.inf
    options = {"gamma": GAMMA, **LENGTHS}

    def total(x, y, gamma):
        return soft_dtw(
            x, y, gamma=gamma, x_lengths=LENGTHS["x_lengths"], y_lengths=LENGTHS["y_lengths"]
        ).sum()

    assert jnp.isfinite(soft_dtw(x, y, **options)).all()
    for grad in jax.jit(jax.grad(total, (0, 1, 2)))(x, y, GAMMA):
        assert jnp.isfinite(grad).all()
    product = jax.jit(jax.grad(lambda x: (jax.grad(total)(x, y, GAMMA) ** 2).sum()))(x)
    assert jnp.isfinite(product).all()
    assert not product[1, 3:].any()
    for of in (sharp_soft_dtw, soft_dtw_divergence, soft_dtw_alignment):
        grad = jax.jit(jax.grad(lambda x, of=of: (of(x, y, **options) ** 2).sum()))(x)
        assert jnp.isfinite(grad).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_half_types_are_rounded_once(dtype):
    x, y = (jnp.asarray(t, dtype) for t in pair())
    weights = jnp.array([3.0, 1e-3, 1e4], jnp.float32)

    def total(x, y):
        return (soft_dtw(x, y) * weights).sum()

    want = jax.grad(total)(x.astype(jnp.float32), y.astype(jnp.float32))
    ours = jax.grad(total)(x, y)
    assert ours.dtype == dtype
    assert np.array_equal(ours, want.astype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("gamma", [1e-8, 1e5])  # neither of which float16 has
def test_alignments_of_half_types_by_gamma(gamma, dtype):
    x, y = (jnp.asarray(t * gamma**0.5, dtype) for t in pair())

    def by_gamma(x, y):
        at = (jnp.float32(gamma),)
        return jax.jvp(lambda gamma: soft_dtw_alignment(x, y, gamma=gamma), at, at)[1]

    want, ours = by_gamma(x.astype(jnp.float32), y.astype(jnp.float32)), by_gamma(x, y)
    assert ours.dtype == dtype
    assert jnp.abs(want).max() > 0.1
    np.testing.assert_allclose(ours.astype(jnp.float32), want, atol=2 * jnp.finfo(dtype).eps)


def test_derivatives_hold_no_matrix():
    # One matrix of the pair would be 256 MB.
    program = """
    import resource, sys
    import jax, jax.numpy as jnp
    from libsdtw.jax import soft_dtw

    def product(n):
        x, y = jnp.ones((1, n, 2)), jnp.zeros((1, n, 2))
        grad = jax.grad(lambda x: soft_dtw(x, y).sum())
        return jax.jit(lambda x: jax.jvp(grad, (x,), (x,)))(x)[1]

    product(64).block_until_ready()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert jnp.isfinite(product(8000)).all()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    assert int(run(program, JAX_PLATFORMS="cpu")) < 96 * 1024  # memory of the host is counted


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_batches_split_over_devices_stay_split(platform):
    if platform == "cuda" and len(gpus()) != 2:
        pytest.skip(f"JAX sees {len(gpus())} GPUs, not 2, or libsdtw has no handlers for them")
    program = """
    import jax, jax.numpy as jnp, numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from libsdtw.jax import soft_dtw, soft_dtw_alignment

    if hasattr(jax, "shard_map"):
        shard_map = jax.shard_map
    else:  # JAX 0.5
        import functools
        from jax.experimental.shard_map import shard_map
        shard_map = functools.partial(shard_map, check_rep=False)
    mesh = Mesh(np.array(jax.devices()), ("batch",))
    assert mesh.size == 2
    split = NamedSharding(mesh, P("batch"))
    x = jax.random.normal(jax.random.key(0), (4, 7, 2))
    y = jax.random.normal(jax.random.key(1), (4, 6, 2))
    n = jnp.array([7, 3, 5, 0])

    def total(x, y, n, gamma):
        return soft_dtw(x, y, gamma=gamma, x_lengths=n, zero_infinity=True).sum()

    def product(x, y, n, gamma):
        return jax.jvp(lambda x: jax.grad(total)(x, y, n, gamma), (x,), (x,))[1]

    functions = [
        lambda x, y, n, gamma: soft_dtw(x, y, gamma=gamma, x_lengths=n),
        lambda x, y, n, gamma: soft_dtw(x, y, gamma=0.5),  # gamma as a constant, and no lengths
        lambda x, y, n, gamma: soft_dtw_alignment(x, y, gamma=gamma, x_lengths=n),
        jax.grad(total, (0, 1)),
        product,
    ]
    for function in functions:
        here = jax.jit(function)(x, y, n, jnp.float32(0.5))
        args = *(jax.device_put(t, split) for t in (x, y, n)), jnp.float32(0.5)
        program = jax.jit(function).lower(*args).compile()
        assert "all-gather" not in program.as_text()
        there = program(*args)
        for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
            assert b.sharding.is_equivalent_to(split, b.ndim), b.sharding
            np.testing.assert_array_equal(a, b)
        mapped = shard_map(function, mesh=mesh, in_specs=(P("batch"),) * 3 + (P(),), out_specs=P("batch"))
        for a, b in zip(jax.tree.leaves(here), jax.tree.leaves(jax.jit(mapped)(*args)), strict=True):
            np.testing.assert_array_equal(a, b)
    if hasattr(jax, "shard_map"):  # else gradients of what is the same on all devices are not summed
        both = shard_map(jax.grad(total, (0, 1)), mesh=mesh, in_specs=(P("batch"), P(), P("batch"), P()),
                         out_specs=(P("batch"), P()))
        here = jax.grad(lambda x, y: total(x, jnp.concatenate([y, y]), n, 0.5), (0, 1))(x, y[:2])
        for a, b in zip(here, both(x, y[:2], n, 0.5), strict=True):  # y is the same on both devices
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)  # a sum in another order
    slope = jax.jit(jax.grad(total, 3))
    np.testing.assert_allclose(slope(*args), slope(x, y, n, 0.5), rtol=1e-6)
    outside = soft_dtw(*args[:2])  # not in a program
    assert outside.sharding.is_equivalent_to(split, 1)
    print("split")
    """
    virtual = "--xla_force_host_platform_device_count=2"
    assert run(program, JAX_PLATFORMS=platform, XLA_FLAGS=virtual if platform == "cpu" else "") == "split"


def gpus():
    return jax.devices("cuda") if _library.on_gpus() else []


def run(program, **environment):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    env = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def as_people_write_it(a, b):
    a, b = (v / jnp.linalg.norm(v, axis=-1, keepdims=True) for v in (a, b))
    return 1 - jnp.einsum("bnd,bmd->bnm", a, b)


def test_padding_beside_a_metric_that_has_no_derivative_at_0():
    x, y = pair()
    lengths = jnp.asarray([3, *[x.shape[1]] * (len(x) - 1)])

    def loss(x, y, metric):
        return soft_dtw(x, y, metric=metric, x_lengths=lengths).sum()

    grads = jax.grad(loss, (0, 1))(x, y, as_people_write_it)
    expected = jax.grad(loss, (0, 1))(x, y, "cosine")
    np.testing.assert_allclose(grads[0], expected[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(grads[1], expected[1], rtol=1e-3, atol=1e-5)


def test_derivative_by_an_upstream_gradient_of_0():
    x, y = pair()
    along, weights = jnp.ones_like(x), jnp.ones_like(x)

    def product(upstream):
        gradient = jax.grad(lambda x: (upstream * soft_dtw(x, y, gamma=0.5)).sum())
        return jnp.vdot(weights, jax.jvp(gradient, (x,), (along,))[1])

    at_zero, beside = jax.grad(product)(0.0), jax.grad(product)(1e-2)
    assert abs(beside) > 0
    np.testing.assert_allclose(at_zero, beside, rtol=1e-3)


def test_the_derivative_by_gamma_of_nan_is_nan():
    x, y = pair()
    derivative = jax.grad(lambda gamma, x: soft_dtw(x, y, gamma=gamma).sum())
    assert np.isfinite(derivative(0.5, x))
    assert np.isnan(derivative(0.5, jnp.asarray(x).at[0, 1].set(jnp.nan)))
