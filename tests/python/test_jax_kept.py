# Gradients that the forward pass computes, for upstream gradients of 1, and keeps for the reverse pass to
# multiply: beside those of float64, whose range is not left.
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from libsdtw.jax import soft_dtw

pytestmark = pytest.mark.usefixtures("x64")
each_transform = pytest.mark.parametrize("transform", [lambda f: f, jax.jit, jax.checkpoint])


def step(x, y, upstream, transform=lambda f: f, **options):
    """Values and gradients for upstream ones."""
    value, pull = jax.vjp(transform(lambda x, y: soft_dtw(x, y, **options)), x, y)
    return value, *pull(jnp.asarray(upstream, value.dtype))


def assert_as_float64(x, y, upstream, transform, **options):
    ours = step(x, y, upstream, transform, **options)
    exact = step(x.astype(jnp.float64), y.astype(jnp.float64), upstream, **options)
    for one, other in zip(ours, exact, strict=True):
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(one, np.asarray(other).astype(np.float32), rtol=2e-6)
    return ours


@each_transform
@pytest.mark.parametrize("factor", [0.0, 1e-3, -1e-30])
def test_beyond_the_range_of_the_type(transform, factor):
    # Gradients for upstream ones of 1 are infinite, those for the true ones are not.
    x, y = jnp.full((2, 5, 3), 1.5e38, jnp.float32), jnp.full((2, 6, 3), -1.5e38, jnp.float32)
    x, y = x.at[1].set(1), y.at[1].set(2)
    value, *grads = assert_as_float64(x, y, [factor, 1], transform)
    assert value[0] == jnp.inf
    assert all(jnp.isfinite(grad).all() for grad in grads)


@each_transform
@pytest.mark.parametrize("factor", [0.0, 1e-3])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1e-2, {"metric": "cityblock", "step_weights": (1e38, 1e38, 1e38)}),
        (1e-2, {"metric": "euclidean", "step_weights": (1e38, 1e38, 1e38)}),
        (1.2e-38, {"metric": "cosine"}),
        (1e38, {"gamma": 1e300}),
    ],
)
def test_gradients_beyond_the_range_of_finite_values(transform, factor, size, options):
    x, y = np.zeros((1, 1, 2), np.float32), np.zeros((1, 8, 2), np.float32)
    x[..., 0], y[..., 1] = size, -size if options.get("metric") == "cosine" else 0
    value, grad_x, _ = step(jnp.asarray(x), jnp.asarray(y), [1], **options)
    assert jnp.isfinite(value).all()
    assert jnp.isinf(grad_x).any()
    ours = step(jnp.asarray(x), jnp.asarray(y), [factor], transform, **options)
    exact = step(jnp.asarray(x, jnp.float64), jnp.asarray(y, jnp.float64), [factor], **options)
    for one, other in zip(ours[1:], exact[1:], strict=True):
        assert jnp.isfinite(one).all()
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6 * abs(other).max())


def test_a_masked_loss():
    x, y = jnp.full((2, 5, 3), 1.5e38, jnp.float32), jnp.full((2, 6, 3), -1.5e38, jnp.float32)
    x, y = x.at[1].set(1), y.at[1].set(2)

    def loss(x):
        value = soft_dtw(x, y)
        return jnp.where(jnp.isinf(value), 0, value).sum()

    for grad in (jax.grad(loss)(x), jax.jit(jax.grad(loss))(x)):
        assert not grad[0].any()
        assert grad[1].any()


@pytest.mark.parametrize("upstream", [np.nan, np.inf])
def test_padding_stays_zero(upstream):
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.normal(size=(3, steps, 2)), jnp.float32) for steps in (7, 6))
    lengths = {"x_lengths": jnp.array([7, 3, 0]), "y_lengths": jnp.array([4, 6, 5])}
    _, grad_x, grad_y = step(x, y, [1, upstream, upstream], **lengths)
    assert not jnp.isfinite(grad_x[1, :3]).any()
    assert not jnp.isfinite(grad_y[1]).any()
    grad_x, grad_y = grad_x.at[1, :3].set(0), grad_y.at[1].set(0)
    for grad in (grad_x, grad_y):
        assert jnp.isfinite(grad).all()
        assert not grad[2].any()
    assert not grad_y[0, 4:].any()


def test_many_upstream_gradients_at_once():
    x, y = jnp.full((2, 5, 3), 1.5e38, jnp.float32), jnp.full((2, 6, 3), -1.5e38, jnp.float32)
    x, y = x.at[1].set(1), y.at[1].set(2)
    _, pull = jax.vjp(soft_dtw, x, y)
    many = jnp.asarray([[0, 1], [1e-3, 0], [1e-3, 2]], jnp.float32)
    for ours, theirs in zip(jax.vmap(pull)(many), zip(*map(pull, many), strict=True), strict=True):
        np.testing.assert_array_equal(ours, jnp.stack(theirs))
        assert jnp.isfinite(ours).all()


@pytest.mark.parametrize("options", [{}, {"metric": "euclidean"}, {"gamma": 0.3, "step_weights": (2, 1, 1)}])
def test_second_derivatives_where_gradients_are_zero(options):
    # Of a feature that is the same all over gradients are 0 and their derivatives are not.
    rng = np.random.default_rng(1)
    x, y = (jnp.asarray(rng.normal(size=(steps, 2))).at[:, 1].set(0.5) for steps in (4, 5))
    u, v = (jnp.asarray(rng.normal(size=t.shape)) for t in (x, y))

    def slope(x, y):
        return jax.jvp(lambda x, y: soft_dtw(x, y, **options), (x, y), (u, v))[1]

    def pulled(x, y):
        grads = jax.grad(lambda x, y: soft_dtw(x, y, **options), (0, 1))(x, y)
        return (grads[0] * u).sum() + (grads[1] * v).sum()

    h = 1e-5
    for function in (slope, pulled):
        for grad in (jax.grad(function, (0, 1))(x, y), [jax.jacfwd(function, k)(x, y) for k in (0, 1)]):
            for k, of in enumerate(grad):
                for at in np.ndindex(of.shape):
                    moved = [[x, y], [x, y]]
                    for sign, pair in zip((h, -h), moved, strict=True):
                        pair[k] = pair[k].at[at].add(sign)
                    difference = (function(*moved[0]) - function(*moved[1])) / (2 * h)
                    np.testing.assert_allclose(of[at], difference, rtol=1e-4, atol=1e-6)


def test_hessian_of_equal_points():
    x = jnp.zeros((1, 1))
    for outer in (jax.jacfwd, jax.jacrev):
        for inner in (jax.jacfwd, jax.jacrev):
            np.testing.assert_allclose(outer(inner(soft_dtw))(x, x).ravel(), [2])


def test_second_derivatives_beyond_the_range_of_the_type():
    x, y = jnp.full((2, 5, 3), 1.5e38, jnp.float32), jnp.full((2, 6, 3), -1.5e38, jnp.float32)
    x, y = x.at[1].set(1), y.at[1].set(2)
    weights = jnp.array([0, 1], jnp.float32)

    def loss(x):
        return jax.vjp(lambda x: soft_dtw(x, y), x)[1](weights)[0].sum()

    assert not jax.grad(loss)(x)[0].any()
    np.testing.assert_allclose(jax.grad(loss)(x)[1], jax.grad(loss)(x[1:].repeat(2, 0))[1], rtol=1e-5)


@pytest.mark.parametrize("penalties", [(0, 0, 0), (0, 1, 1)])
def test_second_derivatives_by_gamma_of_pairs_without_a_path(penalties):
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.normal(size=(2, steps, 2)), jnp.float32) for steps in (5, 6))

    def total(gamma, x, y, **lengths):
        values = soft_dtw(x, y, gamma=gamma, step_penalties=penalties, zero_infinity=True, **lengths)
        return values.sum()

    slope = jax.grad(total)
    with jax.debug_nans(True):
        ours = jax.grad(slope, (0, 1, 2))(0.7, x, y, x_lengths=jnp.array([5, 0]))
    other = jax.grad(slope, (0, 1, 2))(0.7, x[:1], y[:1])
    np.testing.assert_allclose(ours[0], other[0], rtol=1e-4)
    for one, want in zip(ours[1:], other[1:], strict=True):
        np.testing.assert_allclose(one[:1], want, rtol=1e-4, atol=1e-5)
        assert not one[1].any()
