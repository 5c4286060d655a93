# libsdtw.collections: what is kept of all pairs, against the oracle and against the whole matrix; misuses.
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import libsdtw
from libsdtw.collections import (
    Histogram,
    Matrix,
    Sums,
    TopK,
    _blocks,
    _keep,
    reduce_pairs,
    soft_dtw_argmin,
    soft_dtw_barycenter,
    soft_dtw_histogram,
    soft_dtw_matrix,
    soft_dtw_sums,
    soft_dtw_top_k,
)
from oracle import soft_dtw as oracle


def ragged(rng, count, features=2, most=9):
    return [rng.normal(size=(n, features)) for n in rng.integers(3, most, count)]


def by_oracle(x, y, gamma, normalize):
    def value(a, b):
        return oracle(a, b, gamma).value

    of_x, of_y = [value(a, a) for a in x], [value(b, b) for b in y]
    raw = np.array([[value(a, b) for b in y] for a in x])
    return raw - 0.5 * np.add.outer(of_x, of_y) if normalize else raw


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("block", [None, 3, np.int64(2), (2, 3), (100, 100)])
def test_matrix_is_the_oracles(normalize, block, rng):
    x, y = ragged(rng, 7), ragged(rng, 5)
    expected = by_oracle(x, y, 0.3, normalize)
    ours = soft_dtw_matrix(x, y, gamma=0.3, normalize=normalize, block=block)
    np.testing.assert_allclose(ours, expected, rtol=1e-10, atol=1e-10)
    own = soft_dtw_matrix(x, gamma=0.3, normalize=normalize, block=block)
    np.testing.assert_allclose(own, by_oracle(x, x, 0.3, normalize), rtol=1e-10, atol=1e-10)
    np.testing.assert_array_equal(own, own.T)
    if normalize:
        assert not own.diagonal().any()


def test_unequal_steps_compute_both_halves(rng):
    x = ragged(rng, 6)
    ours = soft_dtw_matrix(x, gamma=0.3, step_penalties=(0, 1, 0), normalize=False, block=(2, 2))
    whole = soft_dtw_matrix(x, x, gamma=0.3, step_penalties=(0, 1, 0), normalize=False)
    np.testing.assert_allclose(ours, whole, rtol=1e-12)
    assert np.abs(ours - ours.T).max() > 0.1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [None, (4, 3), (1, 1)])
def test_what_is_kept_is_that_of_the_matrix(dtype, block, rng):
    x, y = rng.normal(size=(13, 8, 2)).astype(dtype), rng.normal(size=(9, 7, 2)).astype(dtype)
    options = {"gamma": 0.5, "block": block}
    matrix = soft_dtw_matrix(x, y, **options)
    assert matrix.dtype == dtype
    order = np.argsort(matrix, axis=1, kind="stable")[:, :4]
    values, indices = soft_dtw_top_k(x, y, 4, **options)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(matrix, order, 1))
    np.testing.assert_array_equal(soft_dtw_argmin(x, y, **options), matrix.argmin(1))
    np.testing.assert_allclose(soft_dtw_sums(x, y, **options), matrix.sum(1, dtype=np.float64), rtol=1e-12)
    edges = np.quantile(matrix, [0.1, 0.4, 0.9])
    np.testing.assert_array_equal(
        soft_dtw_histogram(x, y, edges=edges, **options), np.histogram(matrix, edges)[0]
    )


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("block", [None, (4, 3), (1, 1), (5, 100)])
def test_half_of_a_set_with_itself_is_enough(normalize, dtype, block, rng, monkeypatch):
    x = np.repeat(rng.normal(size=(9, 8, 2)), 2, axis=0)[:17].astype(dtype)  # twins, so that there are ties
    options = {"gamma": 0.5, "block": block, "normalize": normalize}
    computed, real = [], _blocks.raw_values

    def raw_values(x, y, *options):
        values = real(x, y, *options)
        computed.append(values.size if y is not None else len(x) * (len(x) + 1) // 2)
        return values

    monkeypatch.setattr(_blocks, "raw_values", raw_values)
    matrix = soft_dtw_matrix(x, **options)
    np.testing.assert_array_equal(matrix, matrix.T)
    order = np.argsort(matrix, axis=1, kind="stable")
    for k in (1, 3, 17):
        found = reduce_pairs(x, keep=TopK(k), **options)
        np.testing.assert_array_equal(found["indices"], order[:, :k])
        np.testing.assert_array_equal(found["values"], np.take_along_axis(matrix, order[:, :k], 1))
    others = np.array([[j for j in row if j != i] for i, row in enumerate(order)])
    values, indices = soft_dtw_top_k(x, k=16, **options)
    np.testing.assert_array_equal(indices, others)
    np.testing.assert_array_equal(values, np.take_along_axis(matrix, others, 1))
    np.testing.assert_allclose(
        soft_dtw_sums(x, **options), matrix.sum(1, dtype=np.float64), rtol=1e-12, atol=1e-12
    )
    edges = np.quantile(matrix, [0.1, 0.4, 0.9])
    counts = soft_dtw_histogram(x, edges=edges, **options)
    np.testing.assert_array_equal(counts, np.histogram(matrix, edges)[0])
    assert sum(computed) == 7 * 17 * 18 // 2


def test_infinite_values_come_before_a_series_itself(rng):
    x = np.concatenate([np.full((3, 4, 1), 1e25), rng.normal(size=(2, 4, 1))]).astype(np.float32)
    for step_penalties in ((0, 0, 0), (0, 0.5, 0)):  # half of the values are computed, and all
        options = {"gamma": 0.5, "normalize": False, "block": (2, 2), "step_penalties": step_penalties}
        values, indices = soft_dtw_top_k(x, k=4, **options)
        assert np.isinf(values[3, 1:]).all()
        for own, found in enumerate(indices):
            assert sorted([*found, own]) == list(range(5))


def test_two_types_are_computed_in_the_wider(rng):
    x, y = rng.normal(size=(5, 8, 2)).astype(np.float32), rng.normal(size=(4, 7, 2))
    for one, other in ((x, y), (y, x)):
        expected = soft_dtw_matrix(one.astype(np.float64), other.astype(np.float64), gamma=0.5)
        np.testing.assert_array_equal(soft_dtw_matrix(one, other, gamma=0.5), expected)


def test_no_series_is_its_own_neighbour(rng):
    x = rng.normal(size=(11, 6, 1))
    for block in (None, (3, 4)):
        _, indices = soft_dtw_top_k(x, k=10, gamma=0.5, block=block)
        for own, found in enumerate(indices):
            assert sorted([*found, own]) == list(range(11))


@given(st.data())
def test_least_values_of_blocks(data):
    # Few distinct values, so that there are ties; NaN and infinities
    values = data.draw(
        st.lists(
            st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf, np.nan]), min_size=6, max_size=6),
            min_size=1,
            max_size=4,
        )
    )
    matrix = np.array(values)
    k, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    keep = TopK(k)
    pairs = _keep.Pairs(len(matrix), 6, 1, np.dtype(np.float64), False)
    panel = _keep.Panel(0, 0, len(matrix))
    share = keep.begin(pairs, panel)
    for j in range(0, 6, width):
        share = keep.add(share, matrix[:, j : j + width].copy(), j)
    expected = np.argsort(np.where(np.isnan(matrix), np.inf, matrix), axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(share[1], expected)


def test_memory_mapped_and_zarr(rng, tmp_path):
    x = rng.normal(size=(10, 8, 1)).astype(np.float32)
    expected = soft_dtw_matrix(x, gamma=0.5, block=(4, 4))
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.float32, (10, 10))
    assert soft_dtw_matrix(mapped, gamma=0.5, block=(4, 4), out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)
    kept = soft_dtw_matrix(x, gamma=0.5, block=(4, 4), checkpoint=tmp_path / "run")
    assert isinstance(kept, np.memmap)
    np.testing.assert_array_equal(kept, expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_zarr(rng, tmp_path):
    zarr = pytest.importorskip("zarr")
    x = rng.normal(size=(10, 8, 1)).astype(np.float32)
    out = zarr.create_array(str(tmp_path / "out.zarr"), shape=(10, 10), chunks=(3, 4), dtype=np.float32)
    soft_dtw_matrix(x, gamma=0.5, out=out)
    np.testing.assert_array_equal(out[:], soft_dtw_matrix(x, gamma=0.5))
    soft_dtw_matrix(x, x[::-1], gamma=0.5, out=out)
    np.testing.assert_array_equal(out[:], soft_dtw_matrix(x, x[::-1], gamma=0.5))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_blocks_have_no_more_rows_than_there_are(rng, monkeypatch):
    zarr = pytest.importorskip("zarr")
    x, chunks = rng.normal(size=(40, 6)), (13, 25)  # of which 325 rows are whole
    out = zarr.create_array(store={}, shape=(40, 40), chunks=chunks, dtype="f8")
    monkeypatch.setattr(_blocks, "free_bytes", lambda: 8 * 6 * 40 * 40)
    np.testing.assert_array_equal(soft_dtw_matrix(x, gamma=1.0, out=out)[:], soft_dtw_matrix(x, gamma=1.0))


@pytest.mark.parametrize("normalize", [True, False])
def test_barycenter_is_a_minimum(normalize, rng):
    series = [np.sin(np.linspace(0, 6, n))[:, None] + 0.1 * rng.normal(size=(n, 1)) for n in (20, 25, 30)]
    weights = np.array([1.0, 2.0, 0.5])
    options = {"gamma": 0.1, "normalize": normalize}

    def loss(center):
        return float(weights @ soft_dtw_matrix([center], series, **options)[0])

    found = soft_dtw_barycenter(series, weights=weights, max_iter=200, **options)
    assert found.shape == (30, 1)
    for _ in range(20):
        step = rng.normal(size=found.shape)
        assert loss(found + 1e-3 * step) > loss(found)
        slope = (loss(found + 1e-4 * step) - loss(found - 1e-4 * step)) / 2e-4
        assert abs(slope) < 2e-3
    assert soft_dtw_barycenter(series, length=12, max_iter=2).shape == (12, 1)
    # An average of one series alone is about that series, under the divergence. It may be less than 0 of
    # others: that of squared distances is -1e-4 here, by the oracle, too
    if normalize:
        options["gamma"] = 1.0
        begin = series[0] + 0.3 * rng.normal(size=(20, 1))
        one = soft_dtw_barycenter(series[:1], init=begin, max_iter=500, tol=1e-9, **options)
        values = soft_dtw_matrix([one, begin], series[:1], **options)
        assert abs(values[0]) < 1e-3 * values[1]
        assert soft_dtw_matrix([one], series[:1], **options) == pytest.approx(
            by_oracle([one], series[:1], 1.0, True), abs=1e-9
        )


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("penalties", [(0, 0, 0), (0, 1, 0)])
def test_objectives_of_averages(normalize, penalties, rng, monkeypatch):
    torch = pytest.importorskip("torch")
    from libsdtw.collections import _objective, _objective_torch, _pairs
    from libsdtw.collections._series import Series, as_series

    series, weights = as_series("x", ragged(rng, 9)), rng.uniform(size=9)
    labels = np.array([3, 0, 3, 1, 0, 3, 3, 1, 0])  # the third of four clusters has none
    weights[[2, 5]] = 0
    options = _pairs.PairOptions(gamma=0.4, normalize=normalize, step_penalties=penalties)
    for steps in (5, 12):  # shorter than the series, and longer
        centers = rng.normal(size=(4, steps, 2))
        objectives = _objective.Objectives((steps, 2), series, 4, options).of(weights, labels)
        assert bool(objectives.parts) == (penalties == (0, 0, 0) or not normalize)
        values, grads, masses = objectives(centers)
        plain = {"gamma": 0.4, "normalize": False}
        for k, center in enumerate(centers):
            of = np.flatnonzero(labels == k)
            backwards = penalties[0], *penalties[:0:-1]
            found = soft_dtw_matrix(
                [series.one(b) for b in [*of, 0]], [center], step_penalties=backwards, **plain
            )
            expected = weights[of] @ found[:-1, 0]
            if normalize:
                own = soft_dtw_matrix([center], step_penalties=penalties, **plain)[0, 0]
                expected -= 0.5 * weights[of].sum() * own
            assert values[k] == pytest.approx(expected, rel=1e-10)
            mass = np.zeros(steps)
            for b in of:
                one = libsdtw.soft_dtw_alignment(center, series.one(b), gamma=0.4, step_penalties=penalties)
                mass += weights[b] * one.sum(1)
            np.testing.assert_allclose(masses[k], mass, rtol=1e-10)
        for index in np.ndindex(centers.shape):
            step = np.zeros_like(centers)
            step[index] = 1e-5
            ends = [objectives(centers + s)[0].sum() for s in (step, -step)]
            assert grads[index] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6, abs=1e-7)
        # In parts; and as a tensor on a GPU would be handled, in one part and in several
        tensors = Series(torch.from_numpy(series.data), series.lengths)
        for batch, parts in ((series, 5), (tensors, 1), (tensors, 5)):
            if parts > 1:
                monkeypatch.setattr(_pairs, "STATE_PAIRS", 2)
                monkeypatch.setattr(_objective_torch, "CELLS", 2 * steps * series.steps)
            other = _objective.Objectives((steps, 2), batch, 4, options).of(weights, labels)(centers)
            np.testing.assert_allclose(other.values, values, rtol=1e-12)
            np.testing.assert_allclose(other.grads, grads, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(other.masses, masses, rtol=1e-10)
        monkeypatch.undo()


X = np.zeros((4, 5, 2))
MISUSES = [  # arguments, exception, what its message says
    ({"x": np.zeros(5)}, ValueError, r"x has shape \(5,\): expected \(B, N, D\) or \(B, N\), or a list"),
    ({"x": np.zeros((0, 5, 2))}, ValueError, r"0 sample\(s\) \(shape=\(0, 5, 2\)\)"),
    ({"x": np.zeros((4, 0, 2))}, ValueError, r"0 time step\(s\)"),
    (
        {"x": [np.zeros((5, 2)), np.zeros((5, 3))]},
        ValueError,
        r"x\[1\] has shape \(5, 3\) and x\[0\] \(5, 2\)",
    ),
    ({"x": [np.zeros((5, 2)), np.zeros((0, 2))]}, ValueError, r"x\[1\] has no time step"),
    (
        {"x": np.where(np.arange(5) == 2, np.nan, np.zeros((4, 5)))},
        ValueError,
        r"x\[0\] has NaN at time step 2",
    ),
    (
        {"x": np.where(np.arange(5) == 4, np.inf, np.zeros((4, 5)))},
        ValueError,
        r"x\[0\] has inf at time step 4",
    ),
    ({"x": X + 1j}, ValueError, "x has dtype complex128"),
    ({"y": np.zeros((4, 5, 3))}, ValueError, "x has 2 features and y has 3"),
    ({"x": None}, TypeError, "x is a NoneType: expected an array, or a list of series"),
    ({"x": iter(X)}, TypeError, r"x is a \w+: expected an array, or a list of series"),
    ({"x_lengths": [1, 2]}, ValueError, r"x_lengths has shape \(2,\): expected \(4,\)"),
    ({"x_lengths": [1, 2, 3, 6]}, ValueError, r"x_lengths holds 6: expected lengths in \[1, 5\]"),
    ({"x_lengths": [1.0, 2, 3, 4]}, TypeError, "x_lengths has dtype float64: expected integers"),
    ({"x": list(X), "x_lengths": [5] * 4}, ValueError, "x is a list of series and x_lengths is given"),
    ({"y_lengths": [5] * 3}, ValueError, r"y_lengths has shape \(3,\): expected \(4,\)"),
    ({"y": None, "y_lengths": [5] * 4}, ValueError, "y_lengths is given without y: expected x_lengths alone"),
    ({"device": "cuda:99"}, ValueError, "device is 'cuda:99', and PyTorch sees \\d+ GPUs: expected"),
    ({"device": ["cuda:99"]}, ValueError, "device has 'cuda:99' in it, and PyTorch sees \\d+ GPUs: expected"),
    ({"num_threads": 2.0}, TypeError, "num_threads is 2.0: expected an integer"),
    ({"num_threads": "a", "device": ["cpu", "cpu"]}, TypeError, "num_threads is 'a': expected an integer"),
    ({"num_threads": -1}, ValueError, "num_threads is -1: expected 0 to 4096, or None"),
    ({"gamma": -1.0}, ValueError, "gamma is -1.0: expected a finite number >= 0"),
    ({"gamma": "auto"}, ValueError, "gamma is 'auto': expected a number >= 0, or 'median'"),
    ({"metric": "precomputed"}, ValueError, "metric is 'precomputed': expected one of 'sqeuclidean'"),
    ({"band": "sakoe"}, ValueError, "band is 'sakoe': expected one of"),
    ({"normalize": "yes"}, TypeError, "normalize is 'yes': expected True or False"),
    ({"block": 0}, ValueError, "block is 0: expected an integer >= 1"),
    ({"block": (2, 0)}, ValueError, "block is 0: expected an integer >= 1"),
    ({"block": "big"}, TypeError, r"block is 'big': expected an integer, or \(rows, columns\)"),
    ({"keep": "matrix"}, TypeError, r"keep is 'matrix': expected TopK\(\), Sums\(\), Histogram\(edges\) or"),
    ({"keep": TopK(5)}, ValueError, "k is 5: expected at most 4"),
    ({"keep": TopK(0)}, ValueError, "k is 0: expected an integer >= 1"),
    ({"keep": TopK(1.5)}, TypeError, "k is 1.5: expected an integer"),
    ({"keep": Histogram([1.0])}, ValueError, r"edges is \[1.0\]: expected two increasing numbers"),
    ({"keep": Matrix(np.zeros((4, 5)))}, ValueError, r"out has shape \(4, 5\): expected \(4, 4\)"),
    ({"keep": Matrix(np.zeros((4, 4), int))}, ValueError, "out has dtype int64: expected floating-point"),
    ({"keep": Matrix(np.broadcast_to(0.0, (4, 4)))}, ValueError, "out is read-only: expected an array that"),
    ({"cluster": "localhost"}, TypeError, "cluster is 'localhost': expected a dask.distributed.Client"),
]


@pytest.mark.parametrize(("changed", "exception", "message"), MISUSES)
def test_misuse(changed, exception, message):
    with pytest.raises(exception, match=message):
        reduce_pairs(**{"x": X, "y": X, "gamma": 1.0, "keep": Sums(), **changed})


def test_out_of_memory_names_what_would_fit(monkeypatch):
    from libsdtw.collections import _blocks

    big = np.broadcast_to(np.zeros((1, 2, 1), np.float32), (2_000_000, 2, 1))
    monkeypatch.setattr(_blocks, "free_bytes", lambda: 1 << 30)
    with pytest.raises(
        MemoryError, match=r"block is \(2000000, 2000000\).*expected at most block=\((\d+), \1\)"
    ):
        soft_dtw_top_k(big, big, gamma=1.0, block=(2_000_000, 2_000_000), normalize=False)
    with pytest.raises(
        MemoryError, match=r"matrix\) takes 16000\.0 GB.*expected a checkpoint directory or out="
    ):
        soft_dtw_matrix(big, big, gamma=1.0, block=(10, 10), normalize=False)

    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(_blocks, "raw_values", fails)
    with pytest.raises(MemoryError, match=r"expected a smaller block, as block=\(1, 1\)"):
        soft_dtw_matrix(X, X, gamma=1.0, block=(4, 4))


def test_progress_bar(capsys):
    soft_dtw_matrix(X, gamma=1.0, block=2, progress=True)
    assert "2/2" in capsys.readouterr().err


def test_estimators_are_attributes():
    with pytest.raises(AttributeError, match="no attribute 'SoftDTWForest'"):
        libsdtw.collections.SoftDTWForest  # noqa: B018


@pytest.mark.filterwarnings("ignore")
def test_values_and_averages_of_tslearn(rng):
    barycenters = pytest.importorskip("tslearn.barycenters")
    metrics = pytest.importorskip("tslearn.metrics")
    x, y = rng.normal(size=(5, 9, 2)).cumsum(1), rng.normal(size=(4, 7, 2)).cumsum(1)
    for normalize, theirs in ((False, metrics.cdist_soft_dtw), (True, metrics.cdist_soft_dtw_normalized)):
        expected = theirs(x, y, gamma=0.7)
        ours = soft_dtw_matrix(x, y, gamma=0.7, normalize=normalize)
        np.testing.assert_allclose(ours, expected, rtol=1e-8, atol=1e-8)
    weights, init = rng.uniform(size=5), x[0]
    average = barycenters.softdtw_barycenter(x, gamma=0.7, weights=weights, init=init, max_iter=200, tol=1e-9)
    ours = soft_dtw_barycenter(
        x, gamma=0.7, weights=weights, init=init, normalize=False, max_iter=200, tol=1e-9
    )
    losses = [weights @ soft_dtw_matrix(x, [c], gamma=0.7, normalize=False)[:, 0] for c in (ours, average)]
    assert losses[0] <= losses[1] + 1e-3 * abs(losses[1])


def test_memory_is_that_of_a_block(rng):
    import tracemalloc

    x, y = rng.normal(size=(4000, 3, 1)).astype(np.float32), rng.normal(size=(3000, 3, 1)).astype(np.float32)
    tracemalloc.start()
    try:
        soft_dtw_top_k(x, y, k=2, gamma=0.5, block=(100, 1000), num_threads=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # All values are 48 MB; a block's are 0.4, and what is looked through and kept three times that
    assert peak < 4e6
