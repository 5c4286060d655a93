# Properties over drawn shapes, lengths, strides, scales and gammas: agreement with the oracle, and identities
# that need none.
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from libsdtw.numpy import soft_dtw, soft_dtw_alignment, soft_dtw_grad

# Bounds of (value, gradient and alignment), relative to the oracle's scales. The alignment's scale is 1.
TOLERANCE = {np.float64: (1e-13, 1e-10), np.float32: (2e-7, 2e-5)}

sizes = st.integers(1, 40)
gammas = st.sampled_from([0.01, 0.1, 0.5, 1.0, 10.0, 1000.0])
scales = st.sampled_from([0.01, 1.0, 3.0])
seeds = st.integers(0, 2**32 - 1)
dtypes = st.sampled_from([np.float32, np.float64])


def strided(array: np.ndarray, kind: str) -> np.ndarray:
    """The same numbers in another place: contiguous, transposed, reversed, every third, or read-only."""
    if kind == "transposed":
        return np.asfortranarray(array)
    if kind == "reversed":
        return np.ascontiguousarray(array[:, ::-1])[:, ::-1]
    if kind == "spaced":
        space = np.full((*array.shape[:-1], 3 * array.shape[-1] + 1), np.nan, array.dtype)
        space[..., 1::3] = array
        return space[..., 1::3]
    if kind == "read-only":
        array = array.copy()
        array.flags.writeable = False
    return array


layouts = st.sampled_from(["contiguous", "transposed", "reversed", "spaced", "read-only"])


@st.composite
def batches(draw, dtypes=dtypes, largest=40):
    """x, y, lengths (or None), gamma: a batch in some layout."""
    batch, d = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 3, 8, 17]))
    n, m = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    dtype, scale, gamma = draw(dtypes), draw(scales), draw(gammas)
    rng = np.random.default_rng(draw(seeds))
    x = strided((scale * rng.normal(size=(batch, n, d))).astype(dtype), draw(layouts))
    y = strided((scale * rng.normal(size=(batch, m, d))).astype(dtype), draw(layouts))
    lengths = {}
    if draw(st.booleans()):
        integer = draw(st.sampled_from([np.int32, np.int64]))
        lengths["x_lengths"] = rng.integers(0, n, batch, integer, endpoint=True)
        lengths["y_lengths"] = rng.integers(0, m, batch, integer, endpoint=True)
    return x, y, lengths, gamma


def pairs_of(x, y, lengths):
    """Index, x and y of each pair, cut to its lengths."""
    for b in range(len(x)):
        n = lengths["x_lengths"][b] if lengths else x.shape[1]
        m = lengths["y_lengths"][b] if lengths else y.shape[1]
        yield b, x[b, :n], y[b, :m]


@given(batches())
def test_oracle(case):
    x, y, lengths, gamma = case
    before = x.copy(), y.copy()
    value, grad_x, grad_y = soft_dtw_grad(x, y, gamma=gamma, **lengths)
    alignment = soft_dtw_alignment(x, y, gamma=gamma, **lengths)
    np.testing.assert_array_equal(value, soft_dtw(x, y, gamma=gamma, **lengths))
    assert value.dtype == grad_x.dtype == grad_y.dtype == alignment.dtype == x.dtype
    value_bound, grad_bound = TOLERANCE[x.dtype.type]
    for b, xb, yb in pairs_of(x, y, lengths):
        pair = oracle.soft_dtw(xb, yb, gamma)
        n, m = len(xb), len(yb)
        if np.isinf(pair.value):
            assert value[b] == pair.value
        else:
            assert abs(value[b] - pair.value) <= value_bound * pair.value_scale
        assert np.abs(alignment[b, :n, :m] - pair.alignment).max(initial=0) <= grad_bound
        assert np.abs(grad_x[b, :n] - pair.grad_x).max(initial=0) <= grad_bound * pair.grad_scale
        assert np.abs(grad_y[b, :m] - pair.grad_y).max(initial=0) <= grad_bound * pair.grad_scale
        for padding in (grad_x[b, n:], grad_y[b, m:], alignment[b, n:], alignment[b, :, m:]):
            assert not padding.any()
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize(("n", "d", "gamma"), [(20, 64, 1.0), (28, 8, 0.1), (20, 17, 0.1)])
def test_large_costs_of_short_series(n, d, gamma):
    """Many pairs at once: errors of a rare few had exceeded the bound where costs were rounded to float32."""
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=(3000, n, d)).astype(np.float32) for _ in range(2))
    exact = soft_dtw_alignment(x.astype(np.float64), y.astype(np.float64), gamma=gamma)
    assert np.abs(soft_dtw_alignment(x, y, gamma=gamma) - exact).max() <= TOLERANCE[np.float32][1]


@given(batches())
def test_layout_threads_and_repetition_change_nothing(case):
    x, y, lengths, gamma = case
    expected = soft_dtw_grad(x.copy(), y.copy(), gamma=gamma, num_threads=1, **lengths)
    for threads in (1, 2, 3):
        for ours, want in zip(
            soft_dtw_grad(x, y, gamma=gamma, num_threads=threads, **lengths), expected, strict=True
        ):
            np.testing.assert_array_equal(ours, want)


@given(batches(dtypes=st.just(np.float64)))
def test_pair_does_not_depend_on_its_batch_or_padding(case):
    x, y, lengths, gamma = case
    value, grad_x, grad_y = soft_dtw_grad(x, y, gamma=gamma, **lengths)
    for b, xb, yb in pairs_of(x, y, lengths):
        if len(xb) == 0 or len(yb) == 0:
            continue
        alone = soft_dtw_grad(xb, yb, gamma=gamma)
        for ours, want in zip((value[b], grad_x[b, : len(xb)], grad_y[b, : len(yb)]), alone, strict=True):
            # The batch may take another algorithm than the single pair: equal but for rounding.
            np.testing.assert_allclose(ours, want, rtol=1e-10, atol=1e-10 * np.abs(want).max())


@given(batches())
def test_corners_and_margins_of_the_alignment(case):
    x, y, _, gamma = case
    alignment = soft_dtw_alignment(x, y, gamma=gamma).astype(np.float64)
    np.testing.assert_allclose(alignment[:, 0, 0], 1, rtol=0, atol=1e-6)
    np.testing.assert_allclose(alignment[:, -1, -1], 1, rtol=0, atol=1e-6)
    assert alignment.min() >= 0
    assert alignment.max() <= 1 + 1e-5
    # Every path visits every row and every column.
    assert alignment.sum(1).min() >= 1 - 1e-5
    assert alignment.sum(2).min() >= 1 - 1e-5


@given(batches(dtypes=st.just(np.float64)))
def test_transposing_the_pair_transposes_the_alignment(case):
    x, y, _, gamma = case
    np.testing.assert_allclose(
        soft_dtw(x, y, gamma=gamma), soft_dtw(y, x, gamma=gamma), rtol=1e-12, atol=1e-12
    )
    forth, back = soft_dtw_alignment(x, y, gamma=gamma), soft_dtw_alignment(y, x, gamma=gamma)
    np.testing.assert_allclose(forth, back.transpose(0, 2, 1), rtol=0, atol=1e-10)


@given(batches(dtypes=st.just(np.float64)))
def test_precomputed_cost_is_the_fused_metric(case):
    x, y, lengths, gamma = case
    cost = ((x[:, :, None] - y[:, None]) ** 2).sum(-1)
    value, grad_cost = soft_dtw_grad(cost, gamma=gamma, metric="precomputed", **lengths)
    fused, grad_x, grad_y = soft_dtw_grad(x, y, gamma=gamma, **lengths)
    np.testing.assert_allclose(value, fused, rtol=1e-12, atol=1e-12)
    terms = 2 * (x[:, :, None] - y[:, None]) * grad_cost[..., None]
    scale = np.abs(terms).sum((1, 2)).max(initial=0)
    np.testing.assert_allclose(grad_x, terms.sum(2), rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(grad_y, -terms.sum(1), rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(grad_cost, soft_dtw_alignment(x, y, gamma=gamma, **lengths), atol=1e-10)


@given(batches(dtypes=st.just(np.float64)))
def test_value_decreases_in_gamma_and_tends_to_hard_dtw(case):
    x, y, _, _ = case
    gammas = [1e-7, 1e-3, 0.1, 1.0, 10.0, 1e3, 1e6]
    values = [soft_dtw(x, y, gamma=gamma) for gamma in gammas]
    for (smaller, larger), gamma in zip(pairwise(values), gammas[1:], strict=True):
        assert (smaller >= larger - 1e-13 * np.maximum(np.abs(larger), gamma)).all()
    for b, xb, yb in pairs_of(x, y, {}):
        hard = oracle.solve(oracle.costs("sqeuclidean", xb, yb), oracle.Rules(0.0)).value
        # softmin >= min - gamma log(number of paths), of which there are at most 3^(n + m).
        assert hard - 1e-7 * np.log(3) * (len(xb) + len(yb)) <= values[0][b] * (1 + 1e-12)
        assert values[0][b] <= hard * (1 + 1e-12)


@given(batches(dtypes=st.just(np.float64), largest=12))
def test_divergence_is_not_negative(case):
    x, y, _, gamma = case
    both = soft_dtw(x, y, gamma=gamma)
    own = (soft_dtw(x, x, gamma=gamma) + soft_dtw(y, y, gamma=gamma)) / 2
    assert (both - own >= -1e-12 * np.maximum(np.abs(both), np.abs(own))).all()


@given(sizes, sizes, gammas, seeds)
def test_gradient_is_the_finite_difference_along_a_direction(n, m, gamma, seed):
    rng = np.random.default_rng(seed)
    x, y, direction = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)), rng.normal(size=(n, 2))
    _, grad, _ = soft_dtw_grad(x, y, gamma=gamma)
    step = 1e-4 * min(gamma, 1)
    values = [soft_dtw(x + k * step * direction, y, gamma=gamma) for k in (-2, -1, 1, 2)]
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)  # of fourth order
    terms = np.abs(grad * direction).sum()
    assert (grad * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-6 * terms)


@given(st.sampled_from([1e-7, 1e-3, 1.0, 1e6]), st.sampled_from([1e-3, 1.0, 1e3]), dtypes, seeds)
def test_finite_inputs_give_finite_results(gamma, scale, dtype, seed):
    rng = np.random.default_rng(seed)
    x = (scale * rng.normal(size=(3, 50, 2))).astype(dtype)
    y = (scale * rng.normal(size=(3, 33, 2))).astype(dtype)
    results = soft_dtw_grad(x, y, gamma=gamma)
    assert all(np.isfinite(result).all() for result in results)
    alignment = soft_dtw_alignment(x, y, gamma=gamma)
    assert np.isfinite(alignment).all()
    np.testing.assert_allclose(alignment[:, [0, -1], [0, -1]], 1, rtol=0, atol=1e-6)
