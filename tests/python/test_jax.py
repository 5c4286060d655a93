# libsdtw.jax: values, gradients and alignments of the family against the oracle, and what is built on them.
import functools
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

import libsdtw.jax
import libsdtw.numpy
import oracle
from draws import DTYPES, METRICS, SERIES_METRICS, Drawn
from jax_data import LENGTHS, expected, pair, x_of
from libsdtw.jax import (
    _library,
    pad,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
    to_lengths,
)
from lines import problem_line

# Of values, relative to their terms; of gradients and alignments, relative to the largest; of what is stored.
BOUNDS = {
    "float64": (1e-12, 1e-9, 0),
    "float32": (4e-7, 2e-5, 0),
    "float16": (4e-7, 2e-5, 2**-10),
    "bfloat16": (4e-7, 2e-5, 2**-8),
}


@st.composite
def problems(draw):
    metric, short = draw(st.sampled_from(METRICS)), draw(st.sampled_from(list(DTYPES)))
    batch, n, m, d = (draw(st.integers(1, most)) for most in (4, 12, 12, 3))
    band = draw(st.sampled_from([None, None, "sakoe_chiba", "absolute", "itakura"]))
    radius = None if band is None else float(draw(st.integers(1 if band == "itakura" else 0, 8)))
    weights = draw(st.sampled_from([(1.0, 1.0, 1.0), (2.0, 1.0, 0.5), (0.0, 1.0, 1.0)]))
    penalties = draw(st.sampled_from([(0.0, 0.0, 0.0), (0.25, -0.5, 0.75)]))
    gamma = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 10.0]))
    seed, traced, least = (
        draw(st.integers(0, 2**32 - 1)),
        draw(st.booleans()),
        draw(st.sampled_from([None, 0])),
    )
    if metric == "cosine" and gamma == 0:  # equal angles are so but for rounding: of one feature all are
        d = max(d, 2)
    # Of others at gamma = 0 costs that are equal in all digits but the last decide.
    data = "integers" if gamma == 0 and metric != "cosine" else "noise"
    drawn = Drawn(seed, data, (batch, batch), (n, m, 0 if metric == "precomputed" else d), "batch", least)
    line = problem_line(
        metric=metric, dtype=short, B=batch, n=n, m=m, d=d, gamma=gamma, weights=weights,
        band=None if band is None else (band, radius), penalties=penalties, lengths=least, data=data,
        seed=seed,
    )  # fmt: skip
    rules = oracle.Rules(gamma, band, radius, weights, penalties)
    x, y = (None if array is None else array.astype(np.float64) for array in (drawn.x, drawn.y))
    return metric, np.dtype(DTYPES[short]).name, x, y, rules, drawn.lengths, traced, line


def needs_number(metric, dtype, rules):
    equal = metric == "cosine" and rules.gamma == 0  # costs, of which rounding chooses one
    return equal or any(rules.step_penalties) or dtype != "float64"


@settings(max_examples=40)
@given(problems())
def test_family_agrees_with_the_oracle(problem):
    metric, dtype, x, y, rules, lengths, traced, line = problem
    note(line)
    # An array as gamma scales the inputs on GPUs: some problems do not allow that, and it rounds.
    assume(not (traced and _library.on_gpus() and needs_number(metric, dtype, rules)))
    value_bound, bound, stored = BOUNDS[dtype]
    with x_of(64 if dtype == "float64" else 32):
        x = jnp.asarray(x, dtype)
        y = None if y is None else jnp.asarray(y, dtype)
        options = rules._asdict() | {"metric": metric} | lengths
        gamma = options.pop("gamma")
        if traced:  # gamma as an operand, rounded to what JAX has
            gamma = jnp.asarray(gamma)
            rules = rules._replace(gamma=float(gamma))

        def compute(gamma):
            def total(*series):
                values = soft_dtw(*series, gamma=gamma, **options)
                return jnp.where(jnp.isfinite(values), values, 0).sum(), values

            series = (x,) if y is None else (x, y)
            grads, values = jax.grad(total, tuple(range(len(series))), has_aux=True)(*series)
            return values, grads, soft_dtw_alignment(x, y, gamma=gamma, **options)

        constant = () if traced else (0,)
        values, grads, alignment = jax.jit(compute, static_argnums=constant)(gamma)
        values = np.asarray(values)
        want, *want_grads, want_alignment, sizes, scales = expected(
            metric,
            np.asarray(x, np.float64),
            None if y is None else np.asarray(y, np.float64),
            rules,
            **lengths,
        )
    assert values.dtype == (np.float64 if dtype == "float64" else np.float32)
    scale = (
        np.abs(np.where(np.isfinite(want), want, 0))
        + sizes
        + rules.gamma * (x.shape[1] + want_alignment.shape[2])
    )
    assert np.array_equal(np.isinf(values), np.isinf(want))
    some = np.isfinite(want)
    assert (np.abs(values[some] - want[some]) <= value_bound * scale[some]).all()
    for grad, wanted, of in zip(grads, want_grads, (x, y), strict=False):
        assert grad.dtype == of.dtype
        off = np.abs(np.asarray(grad, np.float64) - wanted)
        least = 1e-10 + (2**-25 if dtype == "float16" else 0)  # E below 1e-12 may count as 0 (sdtw.h)
        assert (off <= bound * scales[:, None, None] + stored * np.abs(wanted) + least).all()
    assert np.abs(np.asarray(alignment, np.float64) - want_alignment).max() <= bound + stored


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("bits", [32, 64])
def test_what_is_exact_is_exact(bits):
    # gamma below float32's smallest number, where JAX has no float64 either
    with x_of(bits):
        x, y = pair(np.float32)
        for gamma in (1e-200, 1e-50, 1e-3, 0.1, 0):
            want = libsdtw.numpy.soft_dtw(x, y, gamma=gamma)
            assert np.array_equal(soft_dtw(x, y, gamma=gamma), want)
            assert np.array_equal(jax.jit(lambda x, y, gamma=gamma: soft_dtw(x, y, gamma=gamma))(x, y), want)


@pytest.mark.usefixtures("on_cpu")  # programs of GPUs round the series by gamma, too
@pytest.mark.parametrize("gamma", [1.0, 0.1, 1e-2])
def test_derivative_by_gamma_in_float32(gamma, x64):
    # Minus an entropy, as a difference of two numbers that may be much larger.
    x, y = pair(np.float32, (4, 64, 64, 4))
    of = jax.jit(jax.vmap(jax.grad(lambda gamma, x, y: soft_dtw(x, y, gamma=gamma)), (None, 0, 0)))
    slope = of(np.float32(gamma), x, y)
    want = of(gamma, x.astype(np.float64), y.astype(np.float64))
    value = soft_dtw(x, y, gamma=gamma)
    larger = np.maximum(abs(value), abs(value - gamma * want))
    assert (slope <= 0).all()
    assert (np.abs(slope - want) <= 3e-7 * larger / gamma).all()


def test_shapes(x64):
    x, y = pair(shape=(4, 7, 6, 2))
    each = soft_dtw(x, y)
    assert each.shape == (4,)
    assert soft_dtw(x[0], y[0]).shape == ()
    assert np.array_equal(soft_dtw(x, y[0])[1], soft_dtw(x[1], y[0]))
    assert np.array_equal(soft_dtw(x.reshape(2, 2, 7, 2), y.reshape(2, 2, 6, 2)).ravel(), each)
    assert soft_dtw(x[:, None], y).shape == (4, 4)
    assert soft_dtw(x[0, :, 0], y[0, :, 0]).shape == ()
    assert soft_dtw(x[:0], y[:0]).shape == (0,)
    assert soft_dtw_alignment(x[:, None], y).shape == (4, 4, 7, 6)
    value, alignment = soft_dtw_with_alignment(x, y)
    assert np.array_equal(value, each)
    assert np.array_equal(alignment, soft_dtw_alignment(x, y))
    assert jax.grad(lambda x: soft_dtw(x, y[:0]).sum())(x[:0]).shape == (0, 7, 2)


def test_the_package_s_own_functions(x64):
    x, y = map(jnp.asarray, pair())
    for name in ("soft_dtw", "soft_dtw_alignment", "soft_dtw_cdist"):
        ours = getattr(libsdtw, name)(x, y, gamma=0.5)
        assert isinstance(ours, jax.Array)
        assert np.array_equal(ours, getattr(libsdtw.jax, name)(x, y, gamma=0.5))


def test_lists_and_padding(x64):
    x, y = pair()
    ragged = [x[b, :n] for b, n in enumerate(LENGTHS["x_lengths"])]
    batch, lengths = pad(ragged, np.nan)
    assert lengths.tolist() == to_lengths(batch).tolist() == LENGTHS["x_lengths"]
    assert to_lengths(batch[:, :0]).tolist() == [0, 0, 0]
    want = soft_dtw(x, y, **LENGTHS)
    assert np.array_equal(soft_dtw(ragged, y, y_lengths=LENGTHS["y_lengths"]), want)
    assert np.array_equal(soft_dtw(batch, y, x_lengths=lengths, y_lengths=LENGTHS["y_lengths"]), want)
    grad = jax.grad(lambda x: soft_dtw(x, y, x_lengths=lengths, reduction="mean"))(batch)
    assert not grad[1, 3:].any()
    assert jnp.isfinite(grad).all()
    for kind in ("int8", "uint8", "int32", "int64", "uint32"):
        given = {name: np.asarray(n, kind) for name, n in LENGTHS.items()}
        assert np.array_equal(soft_dtw(x, y, **given), want)


def test_lengths_out_of_range_in_a_program():
    x, y = pair(np.float32)
    values = jax.jit(lambda n: soft_dtw(x, y, x_lengths=n))(jnp.array([7, 8, -1]))
    assert jnp.isnan(values).tolist() == [False, True, True]


def test_reductions(x64):
    x, y = pair()
    values = soft_dtw(x, y, band="absolute", radius=0, **LENGTHS)
    assert jnp.isinf(values).all()
    assert soft_dtw(x, y, band="absolute", radius=0, zero_infinity=True, **LENGTHS).tolist() == [0, 0, 0]
    grad = jax.grad(lambda x: soft_dtw(x, y, band="absolute", radius=0, zero_infinity=True, reduction="sum"))(
        x
    )
    assert not grad.any()
    assert soft_dtw(x, y, reduction="mean") == soft_dtw(x, y).mean()
    assert soft_dtw(x, y, reduction="sum") == soft_dtw(x, y).sum()


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_a_function_as_metric(metric, x64):
    x, y = pair()

    def function(x, y):
        assert x.ndim == y.ndim == 3
        return jnp.stack([jnp.stack([cost(a, b) for b in y.swapaxes(0, 1)], 1) for a in x.swapaxes(0, 1)], 1)

    def cost(a, b):
        return jax.vmap(lambda a, b: soft_dtw(a[None], b[None], metric=metric))(a, b)  # of one step each

    want = soft_dtw(x, y, metric=metric, **LENGTHS)
    np.testing.assert_allclose(soft_dtw(x, y, metric=function, **LENGTHS), want, rtol=1e-12)


@pytest.mark.parametrize("kind", ["soft", "sharp", "mean_cost"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_divergences(metric, kind, x64):
    x, y = pair()
    options = {"kind": kind, "metric": metric, "gamma": 0.7}
    of = jax.jit(lambda x, y: soft_dtw_divergence(x, y, **options))
    value = jax.jit(lambda x, y: soft_dtw_divergence(x, y, **options, **LENGTHS))(x, y)
    same = of(x, x)
    np.testing.assert_allclose(same, 0, atol=1e-12)
    if kind == "soft":
        assert (value > 0).all()
        assert np.array_equal(soft_dtw(x, y, metric=metric, gamma=0.7, normalize=True, **LENGTHS), value)
    apart = [of(x[b, :n], y[b, :m]) for b, (n, m) in enumerate(zip(*LENGTHS.values(), strict=True))]
    np.testing.assert_allclose(value, np.array(apart), atol=1e-11)


@pytest.mark.parametrize("lengths", [2, [2], [2, 2, 2]])
def test_divergence_of_one_univariate_series(lengths):
    x, y = pair(np.float32, (3, 7, 6, 1))
    one, of = x[0, :, 0], functools.partial(soft_dtw, normalize=True)
    np.testing.assert_allclose(of(one, y, x_lengths=lengths), of(x[0, :2], y), rtol=1e-5)
    np.testing.assert_allclose(of(y, one, y_lengths=lengths), of(y, x[0, :2]), rtol=1e-5)


@pytest.mark.parametrize("metric", SERIES_METRICS)
def test_mean_costs_of_nan(metric):
    x, y = pair(np.float32)
    x[1, 2, 0] = np.nan
    value = soft_dtw_divergence(x, y, kind="mean_cost", metric=metric)
    assert jnp.isnan(value).tolist() == [False, True, False]


def test_mean_costs_of_forbidden_cells(x64):
    x, y = pair()

    def band(x, y):
        steps = jnp.arange(x.shape[1])[:, None] - jnp.arange(y.shape[1])
        return jnp.where(abs(steps) <= 2, abs(x[:, :, None] - y[:, None]).sum(-1), jnp.inf)

    of = functools.partial(soft_dtw_divergence, kind="mean_cost")
    want = of(x, y, metric="cityblock", band="absolute", radius=2, **LENGTHS)
    np.testing.assert_allclose(of(x, y, metric=band, **LENGTHS), want, rtol=1e-12)
    grad = jax.grad(lambda x: of(x, y, metric=band).sum())(x)
    want = jax.grad(lambda x: of(x, y, metric="cityblock", band="absolute", radius=2).sum())(x)
    np.testing.assert_allclose(grad, want, atol=1e-12)


def test_alignments_of_any_size():
    def slope(scale):  # of what is the same for all of them
        x, y = (np.float32(scale) * t for t in pair(np.float32))
        of = functools.partial(soft_dtw_alignment, metric="euclidean", gamma=scale)
        return jax.jvp(lambda x, y: (of(x, y) ** 2).sum(), (x, y), (x, -y))[1]

    for scale in (1e-25, 1e25):  # float32 has no squares of them
        np.testing.assert_allclose(slope(scale), slope(1.0), rtol=1e-4)


@pytest.mark.parametrize("metric", SERIES_METRICS)
def test_expected_cost(metric, x64):
    x, y = pair()
    rules = oracle.Rules(0.7, "sakoe_chiba", 2.0)
    value = sharp_soft_dtw(x, y, **rules._asdict(), metric=metric)
    alignment = expected(metric, x, y, rules)[3]
    cost = np.stack([oracle.costs(metric, a, b) for a, b in zip(x, y, strict=True)])
    np.testing.assert_allclose(value, (alignment * cost).sum((1, 2)), rtol=1e-9)


@pytest.mark.parametrize("block", [4096, 6, 1])
def test_all_pairs(block, x64):
    (x, _), (y, _) = pair(shape=(7, 6, 1, 2)), pair(shape=(5, 4, 1, 2), seed=1)
    n = np.array([6, 5, 4, 3, 2, 1, 6])

    def soft_dtw_cdist(*series, **options):
        return jax.jit(lambda *series: libsdtw.jax.soft_dtw_cdist(*series, **options))(*series)

    rules = {"gamma": 0.3, "metric": "cityblock", "band": "sakoe_chiba", "radius": 3}
    want = libsdtw.numpy.soft_dtw_cdist(x, y, x_lengths=n, **rules)
    np.testing.assert_allclose(soft_dtw_cdist(x, y, x_lengths=n, block=block, **rules), want, rtol=1e-12)
    want, of_x = libsdtw.numpy.soft_dtw_cdist_grad(x, x_lengths=n, **rules)
    ours = soft_dtw_cdist(x, x_lengths=n, block=block, **rules)
    np.testing.assert_allclose(ours, want, rtol=1e-12)
    assert np.array_equal(ours, ours.T)
    grad = jax.jit(jax.grad(lambda x: soft_dtw_cdist(x, x_lengths=n, block=block, **rules).sum()))(x)
    np.testing.assert_allclose(grad, of_x, atol=1e-10)
    uneven = soft_dtw_cdist(x, step_penalties=(0, 1, 2), block=block)
    np.testing.assert_allclose(uneven, soft_dtw_cdist(x, x, step_penalties=(0, 1, 2)), rtol=1e-12)
    divergence = soft_dtw_cdist(x, y, normalize=True, block=np.int64(block))
    np.testing.assert_allclose(divergence, soft_dtw_divergence(x[:, None], y), atol=1e-11)
    assert soft_dtw_cdist(x[:0], y, block=block).shape == (0, 5)
    assert soft_dtw_cdist(x[:0], block=block).shape == (0, 0)


def test_averages(x64):
    # tslearn's softdtw_barycenter of these, to its own tolerance
    series = [np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.0, 4.0, 5.0])]
    average = soft_dtw_barycenter(series, max_iter=100, tol=1e-8)

    def total(z):
        return sum(soft_dtw(z, s[:, None]) for s in series)

    assert average.shape == (4, 1)
    assert jnp.abs(jax.grad(total)(average)).max() < 1e-5
    assert total(average) < total(jnp.array([[1.25161574], [2.03821705], [3.5101956], [4.36140605]]))
    x, _ = pair(np.float32)
    weighted = soft_dtw_barycenter(x, weights=[1, 0, 0], gamma=0.01, normalize=True)
    assert weighted.dtype == np.float32
    np.testing.assert_allclose(weighted, x[0], atol=1e-2)
    assert soft_dtw_barycenter(x, init=x[1, :4], max_iter=np.int64(0)).tolist() == x[1, :4].tolist()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_averages_of_halves(dtype):
    rng = np.random.default_rng(0)
    series = jnp.asarray(np.cumsum(rng.normal(size=(6, 60, 2)), 1), dtype)
    average = soft_dtw_barycenter(series)
    want = soft_dtw_barycenter(series.astype(jnp.float32)).astype(dtype)
    assert average.dtype == dtype
    np.testing.assert_array_equal(average, want)
    # Gradients there are 160000
    far = soft_dtw_barycenter(jnp.full((2, 20, 1), 2e4, dtype), init=jnp.zeros((5, 1), dtype))
    np.testing.assert_allclose(far.astype(jnp.float32), 2e4, rtol=4e-3)


def test_averages_of_large_numbers():
    x = np.cumsum(np.random.default_rng(0).normal(size=(8, 50, 2)), 1).astype(np.float32)
    lengths = np.array([50, 30] * 4)
    x[1, 30:] = np.inf
    for scale in (1e7, 1e9):
        found = (soft_dtw_barycenter(scale * x, gamma=scale**2, lengths=lengths, max_iter=k) for k in (0, 50))
        begin, found = (soft_dtw(average / scale, x, y_lengths=lengths).mean() for average in found)
        assert found < 0.6 * begin


def test_import_without_the_handlers():
    # As of a build where jaxlib was not found: the package says so, and the rest of it works.
    program = (
        "import ctypes\n"
        "real = ctypes.CDLL\n"
        "def missing(path, *args, **kwargs):\n"
        "    if 'libsdtw_jax' in str(path): raise OSError('no such file')\n"
        "    return real(path, *args, **kwargs)\n"
        "ctypes.CDLL = missing\n"
        "import libsdtw\n"
        "try: import libsdtw.jax\n"
        "except libsdtw.NotBuiltError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "without its handlers for JAX" in done.stdout


def test_handlers_of_an_editable_install_are_beside_the_core(tmp_path):
    # Of such an install what is compiled lies in site-packages, and Python's files in the tree.
    package, core = Path(libsdtw.__file__).parent, Path(libsdtw._core.__file__)
    tree, site = tmp_path / "tree" / "libsdtw", tmp_path / "site" / "libsdtw"
    shutil.copytree(package, tree, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    (site / "jax").mkdir(parents=True)
    (site / core.name).symlink_to(core)
    (site / "jax" / "libsdtw_jax.so").symlink_to(_library.PATH)
    program = (
        "import sys, numpy as np, importlib.util as util\n"
        f"tree, core = {str(tree.parent)!r}, {str(site / core.name)!r}\n"
        "class Redirect:\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'libsdtw._core': return util.spec_from_file_location(name, core)\n"
        "sys.meta_path.insert(0, Redirect); sys.path.insert(0, tree)\n"
        "import libsdtw.jax\n"
        "print(libsdtw.jax.__file__, libsdtw.jax.soft_dtw(np.zeros((1, 1)), np.ones((1, 1))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == [str(tree / "jax" / "__init__.py"), "1.0"], done.stderr
