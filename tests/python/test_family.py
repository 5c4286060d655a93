# The whole family: combinations of metric, type, band, steps, lengths, gamma, batches, strides and state
# against the oracle; and tslearn, aeon and dtaidistance as live oracles for what they have. A failing example
# prints the line of its problem, which sdtw_differential --problem computes.
#
# LIBSDTW_EXAMPLES=2000 draws more combinations than the 300 of an ordinary run.
import os
from typing import NamedTuple

import numpy as np
import pytest
from aeon.distances import dtw_distance as aeon_dtw
from aeon.distances import soft_dtw_distance as aeon_soft_dtw
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tslearn import metrics as tslearn

import oracle
from draws import DTYPES, METRICS, Drawn
from libsdtw import _core
from libsdtw._calls import Call, Options
from libsdtw.numpy import (
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_cdist_grad,
    soft_dtw_grad,
    soft_dtw_jvp,
)
from lines import problem_line
from test_properties import layouts, strided

# Of values, relative to their terms; of gradients and alignments, relative to the largest; of what is stored.
BOUNDS = {
    "bfloat16": (4e-7, 2e-5, 2**-8),
    "float16": (4e-7, 2e-5, 2**-10),
    "float32": (4e-7, 2e-5, 0),
    "float64": (1e-12, 1e-9, 0),
}
# E below 1e-12 may count as 0 (sdtw.h): here of a few cells, times slopes of up to 20.
NEGLIGIBLE = 1e-10
IN_LINES = {"reversed": "reversed_time", "read-only": "contiguous"}  # layouts that have other names there


class Problem(NamedTuple):
    x: np.ndarray
    y: np.ndarray | None
    metric: str
    pairs: str
    rules: oracle.Rules
    lengths: dict[str, np.ndarray]
    state: str  # yes: calls keep it for each other; no: each computes anew
    line: str


@st.composite
def problems(draw, dtypes=tuple(DTYPES), modes=("batch", "batch", "all", "symmetric")):
    metric, dtype = draw(st.sampled_from(METRICS)), draw(st.sampled_from(dtypes))
    n, m, d = draw(st.integers(1, 14)), draw(st.integers(1, 14)), draw(st.sampled_from([1, 2, 3, 9]))
    pairs = "batch" if metric == "precomputed" else draw(st.sampled_from(modes))
    batch = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    band = draw(st.sampled_from([None, None, "sakoe_chiba", "absolute", "itakura"]))
    radius = None if band is None else float(draw(st.integers(1 if band == "itakura" else 0, 8)))
    steps = st.sampled_from([(1.0, 1.0, 1.0), (2.0, 1.0, 1.0), (1.0, 0.5, 0.5), (0.0, 1.0, 1.0)])
    penalties = st.sampled_from([(0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (0.25, -0.5, -0.5)])
    gamma = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0, 10.0]))
    rules = oracle.Rules(gamma, band, radius, draw(steps), draw(penalties))
    if pairs == "symmetric":
        m, batch = n, (batch[0], batch[0])
    if pairs == "batch":
        batch = (batch[0], batch[0])
    # At gamma = 0 costs that are equal in all digits but the last decide: whole numbers have none of those.
    data = "integers" if gamma == 0 else "noise"
    seed, least = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([None, 0, 1]))
    given, state = (draw(layouts), draw(layouts)), draw(st.sampled_from(["yes", "no"]))
    drawn = Drawn(seed, data, batch, (n, m, 0 if metric == "precomputed" else d), pairs, least)
    x, y = (
        None if array is None else strided(array.astype(DTYPES[dtype]), layout)
        for array, layout in zip((drawn.x, drawn.y), given, strict=True)
    )
    names = *(IN_LINES.get(layout, layout) for layout in given), *["contiguous"] * 3  # of results, too
    line = problem_line(
        metric=metric, dtype=dtype, B=batch if pairs == "all" else batch[0], n=n, m=m, d=d, gamma=gamma,
        band=None if band is None else (band, radius), weights=rules.step_weights,
        penalties=rules.step_penalties, pairs=pairs, state=state, lengths=least,
        layout=names if len(set(names)) > 1 else None, data=data, seed=seed,
    )  # fmt: skip
    return Problem(x, y, metric, pairs, rules, drawn.lengths, state, line)


def with_state(problem, options):
    """Value, alignments and gradients, by calls of the core that keep state, as a training step has it."""
    given = {"num_threads": None, "x_lengths": None, "y_lengths": None} | options
    call = Call(problem.x, problem.y, Options(**given), all_pairs=problem.pairs != "batch")
    exec_ = _core.Exec()
    sizes = _core.get_sizes(call.problem, exec_)
    state, workspace = (
        call.arrays.memory(size)
        for size in (sizes.state, max(sizes.forward, sizes.backward, sizes.alignment))
    )
    memory = call.arrays.span(state), call.arrays.span(workspace)
    value, grads = call._empty(call.shape, call.value_dtype), call._outputs()
    aligned = call._empty((*call.shape, call.sizes.n, call.sizes.m), call.dtype)
    _core.forward(call.problem, exec_, *call._inputs(), call._address(value), *memory)
    of_x, of_y = (*map(call._view, grads), None)[:2]
    _core.backward(call.problem, exec_, *call._inputs(), 0, of_x, of_y, *memory)
    flat = aligned.reshape(call.pairs, *aligned.shape[-2:])
    _core.alignment(call.problem, exec_, *call._inputs(), call._view(flat), *memory)
    return value, aligned, grads


def without_state(problem, options):
    """The same by functions that each compute all they need; of all pairs there is none for alignments."""
    x, y = problem.x, problem.y
    if problem.pairs != "batch":
        value, *grads = soft_dtw_cdist_grad(x, y, **options)
        return value, None, grads
    value, *grads = soft_dtw_grad(x, y, **options)
    return value, soft_dtw_alignment(x, y, **options), grads


def pairs_of(x, y, pairs, lengths):
    """Index of the value, of x and of y, and both lengths, of each pair."""
    other = x if y is None else y
    for i in range(len(x)):
        for j in range(len(other)) if pairs != "batch" else [i]:
            n = lengths.get("x_lengths", np.full(len(x), x.shape[1]))[i]
            ys = lengths.get("x_lengths" if pairs == "symmetric" else "y_lengths")
            m = (x.shape[2] if y is None and pairs == "batch" else other.shape[1]) if ys is None else ys[j]
            yield (i if pairs == "batch" else (i, j)), i, j, n, m


def expected(problem):
    """Values, terms, alignments, gradients and the scales of these, from the oracle."""
    x, y, metric, pairs, rules, lengths, *_ = problem
    wide_x = x.astype(np.float64)
    wide_y = wide_x if y is None else y.astype(np.float64)
    shape = (len(x),) if pairs == "batch" else (len(x), len(wide_y))
    value, terms = np.full(shape, np.inf), np.zeros(shape)
    grads, scales = [np.zeros_like(wide_x), np.zeros_like(wide_y)], [np.zeros(len(x)), np.zeros(len(wide_y))]
    alignments = {}
    for index, i, j, n, m in pairs_of(x, y, pairs, lengths):
        if n == 0 or m == 0:
            value[index] = 0 if n == m else np.inf
            continue
        swap = pairs == "symmetric" and j < i  # which is (j, i), transposed
        if metric == "precomputed":
            cost = wide_x[i, :n, :m]
        else:
            a, b = wide_x[i, :n], wide_y[j, :m]
            cost = oracle.costs(metric, a, b)
        pair = oracle.solve(cost.T if swap else cost, rules)
        visits, by_cost = (pair.alignment.T, pair.gradient.T) if swap else (pair.alignment, pair.gradient)
        value[index], alignments[index] = pair.value, visits
        terms[index] = abs(pair.value) + pair.path + rules.gamma * np.sqrt(n + m)
        if metric == "cosine":
            terms[index] += visits.sum()  # rounded where it is near 1
        if pair.value == np.inf:
            continue
        if metric == "precomputed":
            grads[0][i, :n, :m] = by_cost
            scales[0][i] = by_cost.max()
            continue
        of_x = (by_cost[..., None] * oracle.slopes(metric, a, b)).sum(1)
        of_y = (by_cost.T[..., None] * oracle.slopes(metric, b, a)).sum(1)
        grads[0][i, :n] += of_x
        grads[1][j, :m] += of_y
        size = oracle.gradient_scale(metric, a, b, by_cost, of_x, of_y)
        scales[0][i] += size
        scales[1][j] += size
    if pairs == "symmetric":
        grads, scales = [grads[0] + grads[1]], [scales[0] + scales[1]]
    count = 1 if y is None else 2
    return value, terms, alignments, grads[:count], scales[:count]


def near(ours, want, bound, scale, stored, least=0.0):
    finite = np.isfinite(want)
    assert (ours[~finite] == want[~finite]).all()
    want, ours = np.where(finite, want, 0), np.where(finite, ours.astype(np.float64), 0)
    allowed = bound * np.where(finite, scale, 0) + stored * np.abs(want) + (2**-24 if stored else 0) + least
    assert (np.abs(ours - want) <= allowed).all()


@settings(max_examples=int(os.environ.get("LIBSDTW_EXAMPLES", "300")))
@given(problems())
def test_combinations_are_the_oracles(problem):
    x, y, metric, pairs, rules, lengths, state, line = problem
    note(line)
    options = {"metric": metric, **rules._asdict(), **lengths}
    value, terms, alignments, grads, scales = expected(problem)
    of_value, of_gradient, stored = BOUNDS[x.dtype.name]
    ours, aligned, our_grads = (with_state if state == "yes" else without_state)(problem, options)
    near(ours, value, of_value, terms, 0)
    alone = (soft_dtw if pairs == "batch" else soft_dtw_cdist)(x, y, **options)
    near(alone, value, of_value, terms, 0)
    if rules.gamma == 0 and metric in ("euclidean", "cosine"):  # roots are not whole
        return
    for index, want in alignments.items() if aligned is not None else ():
        n, m = want.shape
        near(aligned[index][:n, :m], want, of_gradient, 1, stored)
        assert not aligned[index][n:].any()
        assert not aligned[index][:, m:].any()
    for our_grad, grad, scale in zip(our_grads, grads, scales, strict=True):
        near(our_grad, grad, of_gradient, scale[:, None, None], stored, NEGLIGIBLE)


@given(problems(dtypes=["f64"], modes=["batch"]))
def test_tangents_are_the_gradients_products(problem):
    x, y, metric, _, rules, lengths, _, line = problem
    note(line)
    options = {"metric": metric, **rules._asdict(), **lengths}
    rng = np.random.default_rng(1)
    tangents = {"tangent_x": rng.normal(size=x.shape)}
    if y is not None:
        tangents["tangent_y"] = rng.normal(size=y.shape)
    value, *grads = soft_dtw_grad(x, y, **options)
    along, *_ = soft_dtw_jvp(x, y, **tangents, **options)
    terms = [grad * tangent for grad, tangent in zip(grads, tangents.values(), strict=True)]
    for b in np.flatnonzero(np.isfinite(value)):
        parts = np.concatenate([term[b].ravel() for term in terms])
        assert along[b] == pytest.approx(parts.sum(), rel=1e-9, abs=1e-9 * (1 + np.abs(parts).sum()))


@pytest.mark.parametrize(("n", "m"), [(20, 20), (13, 30), (31, 12)])
@pytest.mark.parametrize("radius", [1, 3, 50])
def test_tslearn_has_the_same_bands(n, m, radius, rng):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    theirs = tslearn.dtw(x, y, global_constraint="sakoe_chiba", sakoe_chiba_radius=radius)
    assert soft_dtw(x, y, gamma=0, band="sakoe_chiba", radius=radius) == pytest.approx(theirs**2, rel=1e-12)
    slope = 2 + radius
    theirs = tslearn.dtw(x, y, global_constraint="itakura", itakura_max_slope=slope)
    assert soft_dtw(x, y, gamma=0, band="itakura", radius=slope) == pytest.approx(theirs**2, rel=1e-12)


def test_tslearn_has_the_same_path_and_pairs(rng):
    x, y = rng.normal(size=(4, 20, 2)), rng.normal(size=(3, 25, 2))
    path, theirs = tslearn.dtw_path(x[0], y[0])
    assert soft_dtw(x[0], y[0], gamma=0) == pytest.approx(theirs**2, rel=1e-12)
    assert [tuple(cell) for cell in np.argwhere(soft_dtw_alignment(x[0], y[0], gamma=0))] == path
    np.testing.assert_allclose(soft_dtw_cdist(x, y, gamma=0), tslearn.cdist_dtw(x, y) ** 2, rtol=1e-12)
    for other in (y, None):
        theirs = tslearn.cdist_soft_dtw(x, other, gamma=0.7)
        np.testing.assert_allclose(soft_dtw_cdist(x, other, gamma=0.7), theirs, rtol=1e-12)


def test_aeon_has_the_same_values(rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(25, 2))
    assert soft_dtw(x, y, gamma=0) == pytest.approx(aeon_dtw(x.T, y.T), rel=1e-12)
    assert abs(soft_dtw(x, y, gamma=0.3)) == pytest.approx(aeon_soft_dtw(x.T, y.T, gamma=0.3), rel=1e-12)


def test_dtaidistance_has_the_same_values(rng):
    dtw = pytest.importorskip("dtaidistance").dtw
    x, y = rng.normal(size=20), rng.normal(size=25)
    assert soft_dtw(x, y, gamma=0) == pytest.approx(dtw.distance(x, y) ** 2, rel=1e-12)
    # It squares its penalty, too.
    ours = soft_dtw(x, y, gamma=0, step_penalties=(0, 0.25, 0.25))
    assert ours == pytest.approx(dtw.distance(x, y, penalty=0.5) ** 2, rel=1e-12)
