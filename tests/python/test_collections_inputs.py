# What a collection may be given as, and the gamma that is chosen by it.
import re
import tracemalloc

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from libsdtw import InvalidArgumentError
from libsdtw.collections import (
    Matrix,
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWKNeighborsClassifier,
    SoftDTWKNeighborsRegressor,
    Sums,
    TopK,
    _blocks,
    median_gamma,
    reduce_pairs,
    soft_dtw_barycenter,
    soft_dtw_histogram,
    soft_dtw_matrix,
    soft_dtw_sums,
    soft_dtw_top_k,
)
from libsdtw.collections._pairs import PairOptions
from libsdtw.collections._series import as_series
from libsdtw.numpy import soft_dtw
from test_collections import ragged


def test_forms_of_a_collection(rng):
    # One collection as a list, padded with lengths, and padded with NaN
    x = ragged(rng, 6)
    padded = np.full((6, 9, 2), np.nan)
    for row, series in zip(padded, x, strict=True):
        row[: len(series)] = series
    expected = soft_dtw_matrix(x, gamma=0.3)
    np.testing.assert_array_equal(soft_dtw_matrix(padded, gamma=0.3), expected)
    lengths = [len(series) for series in x]
    for fill in (0.0, np.nan):
        filled = np.nan_to_num(padded, nan=fill)
        np.testing.assert_array_equal(soft_dtw_matrix(filled, x_lengths=lengths, gamma=0.3), expected)
    # A table is one of univariate series, as are lists of lists
    table = rng.normal(size=(4, 6))
    expected = soft_dtw_matrix(table[:, :, None], gamma=0.3)
    for same in (table, table.tolist(), list(table), [row[:, None] for row in table]):
        np.testing.assert_array_equal(soft_dtw_matrix(same, gamma=0.3), expected)
    assert soft_dtw_matrix(table > 0, gamma=0.3).dtype == np.float64


def test_lengths_of_other_libraries(rng):
    x, lengths = rng.normal(size=(4, 6, 2)), [3, 6, 1, 5]
    expected = soft_dtw_matrix(x, x_lengths=lengths, gamma=0.3)
    for name, array in (("torch", "tensor"), ("pandas", "Series"), ("jax.numpy", "asarray")):
        given = getattr(pytest.importorskip(name), array)(lengths)
        np.testing.assert_array_equal(soft_dtw_matrix(x, x_lengths=given, gamma=0.3), expected)


def test_nan_ends_series_of_a_list(rng):
    x = ragged(rng, 6)
    ended = [np.concatenate([one, np.full((b % 3, 2), np.nan)]) for b, one in enumerate(x)]
    np.testing.assert_array_equal(soft_dtw_matrix(ended, gamma=0.3), soft_dtw_matrix(x, gamma=0.3))
    with pytest.raises(InvalidArgumentError, match=r"^x\[0\] has no time step"):
        soft_dtw_matrix([np.full((3, 2), np.nan), *x], gamma=0.3)


def test_series_are_no_indices_of_medoids(rng):
    x = ragged(rng, 6)
    for init in (x[:2], [x[2], x[2]]):  # of different lengths, and of one
        with pytest.raises(
            InvalidArgumentError, match=r"(?s)^init is .*: expected 2 different indices in \[0, 6\)"
        ):
            SoftDTWKMedoids(2, gamma=1.0, init=init).fit(x)


@pytest.mark.parametrize("gamma", [0.0, 1.0])
@pytest.mark.parametrize("devices", [(), ("cpu",) * 8])
@pytest.mark.parametrize("keep", [Sums(), Matrix(np.empty((3000, 3000), np.float32))])
def test_the_block_that_an_error_names_fits(keep, devices, gamma, monkeypatch):
    x = as_series("x", np.zeros((3000, 2, 1), np.float32))
    monkeypatch.setattr(_blocks, "free_bytes", lambda: 5 << 20)
    with pytest.raises(MemoryError, match=r"^block is \(3000, 3000\), .* expected at most block=") as error:
        _blocks.Job(x, x, PairOptions(gamma), keep, (3000, 3000), devices).check_memory(False)
    fits = re.search(r"at most block=\((\d+), (\d+)\)", str(error.value)).groups()
    _blocks.Job(x, x, PairOptions(gamma), keep, tuple(map(int, fits)), devices).check_memory(False)


def test_only_of_a_set_with_itself_a_series_is_skipped(rng):
    x, y = rng.normal(size=(2, 5, 4))
    with pytest.raises(InvalidArgumentError, match=r"^keep is TopK\(k=2, skip_self=True\) and y is given"):
        reduce_pairs(x, y, keep=TopK(2, skip_self=True), gamma=1.0)
    found = reduce_pairs(x, keep=TopK(4, skip_self=True), gamma=1.0)
    assert (found["indices"] != np.arange(5)[:, None]).all()


def test_a_panels_own_square_has_to_fit(monkeypatch):
    x = np.zeros((3000, 2, 1), np.float32)
    monkeypatch.setattr(_blocks, "free_bytes", lambda: 50 << 20)
    for block in ((3000, 10), 3000):
        with pytest.raises(MemoryError, match=r"takes 0\.1 GB for 3000 x 3000 pairs of a panel with itself"):
            soft_dtw_sums(x, gamma=1.0, block=block)
    assert soft_dtw_sums(x, x[:10], gamma=1.0, block=(3000, 10)).shape == (3000,)


@pytest.mark.parametrize("padded", [True, False])
def test_memory_of_a_check_is_that_of_a_part(padded):
    x = np.zeros((300_000, 40, 1), np.float32)
    x[:, 37:] = np.nan
    lengths = None if padded else np.full(len(x), 37)
    tracemalloc.start()
    try:
        series = as_series("x", x, lengths)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(series.lengths, 37)
    assert series.data is x
    assert peak < 20e6  # masks of all took 113 MB with padding, and 24 with lengths
    x[50_000, 3] = np.nan
    with pytest.raises(InvalidArgumentError, match=r"^x\[50000\] has NaN at time step 3: expected finite"):
        as_series("x", x, lengths)
    x[50_000] = np.nan
    if padded:
        with pytest.raises(InvalidArgumentError, match=r"^x\[50000\] has no time step"):
            as_series("x", x)


@pytest.mark.parametrize("block", [(2, 5000), None])  # by default all of y are in one of two series of x
def test_memory_of_a_search_in_narrower_series_is_that_of_a_part(block, rng, monkeypatch):
    monkeypatch.setattr(_blocks, "CONVERTED", 1 << 19)
    x, y = rng.normal(size=(2, 20)), np.ones((400_000, 20), np.float32)
    y[7] = x[1]
    tracemalloc.start()
    try:
        values, indices = soft_dtw_top_k(x, y, gamma=1.0, block=block, num_threads=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert indices[1] == 7
    assert values.dtype == np.float64
    assert peak < 30e6  # all series in float64 are 64 MB


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i4"])
def test_series_in_the_other_byte_order(kind, rng):
    x = (8 * rng.normal(size=(20, 9, 2)).cumsum(1)).astype(kind)
    expected = SoftDTWKMeans(3, random_state=0).fit(x)
    for order in "<>":  # one of them is the processor's
        other = x.astype(order + kind)
        for same in (other, list(other)):
            found = SoftDTWKMeans(3, random_state=0).fit(same)
            assert found.inertia_ == expected.inertia_
            np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
            np.testing.assert_array_equal(soft_dtw_matrix(same, other[:3]), soft_dtw_matrix(x, x[:3]))


def test_masked_padding_is_no_part_of_series(rng):
    x = ragged(rng, 6)
    padded = np.ma.masked_all((6, 9, 2))
    padded.data[:] = 1e3
    for row, series in zip(padded, x, strict=True):
        row[: len(series)] = series
    expected = soft_dtw_matrix(x, gamma=0.3)
    for same in (padded, list(padded)):
        np.testing.assert_array_equal(soft_dtw_matrix(same, gamma=0.3), expected)
    one_feature = [series[:, 0] for series in x]
    expected = soft_dtw_matrix(one_feature, gamma=0.3)
    for same in (padded[..., 0], list(padded[..., 0])):
        np.testing.assert_array_equal(soft_dtw_matrix(same, gamma=0.3), expected)
    full = np.ma.masked_invalid(rng.normal(size=(3, 5, 2)))  # without a masked element
    np.testing.assert_array_equal(soft_dtw_matrix(full, x_lengths=[5, 4, 3]).shape, (3, 3))


def test_masks_that_are_no_padding(rng):
    x = np.ma.array(rng.normal(size=(4, 6, 2)))
    with pytest.raises(InvalidArgumentError, match=r"^X\[1\] has no time step"):
        SoftDTWKMeans(1).fit(np.ma.array(x, mask=np.arange(4)[:, None, None] == np.ones((6, 2))))
    x[2, 3, 1] = np.ma.masked
    with pytest.raises(InvalidArgumentError, match=r"^X has a mask that is not padding"):
        SoftDTWKMeans(1).fit(x)
    with pytest.raises(InvalidArgumentError, match=r"^X\[2\] has a mask that is not padding"):
        SoftDTWKMeans(1).fit(list(x))
    with pytest.raises(InvalidArgumentError, match=r"^x is a masked array and x_lengths is given"):
        soft_dtw_matrix(x, x_lengths=[6] * 4)
    for name, given in (("init", x[2]), ("weights", x[2, :4, 1])):
        with pytest.raises(InvalidArgumentError, match=f"^{name} has masked elements"):
            soft_dtw_barycenter(x.data, **{name: given})


def test_object_arrays_of_series(rng):
    x = ragged(rng, 4)
    for series in (x, [one[:, 0].tolist() for one in x]):
        boxed = np.empty(4, object)
        boxed[:] = series
        np.testing.assert_array_equal(soft_dtw_matrix(boxed, gamma=0.3), soft_dtw_matrix(series, gamma=0.3))


def test_columns_of_series(rng):
    pandas = pytest.importorskip("pandas")
    for x in (ragged(rng, 4), list(rng.normal(size=(4, 6)))):
        column = pandas.Series(x, index=[3, 5, 1, 7])
        np.testing.assert_array_equal(soft_dtw_matrix(column, gamma=0.3), soft_dtw_matrix(x, gamma=0.3))


def test_missing_numbers_of_pandas(rng):
    pandas = pytest.importorskip("pandas")
    x = rng.integers(9, size=(4, 6)).astype(float)
    x[1, 4:] = x[3, 1:] = np.nan
    tables = [pandas.DataFrame({"a": row, "b": -row}) for row in x]
    for given in (pandas.DataFrame(x), tables):
        expected = soft_dtw_matrix(given, gamma=0.3)
        for kind in ("Int64", "Float64"):  # NA in the place of NaN
            nullable = [one.astype(kind) for one in given] if given is tables else given.astype(kind)
            np.testing.assert_array_equal(soft_dtw_matrix(nullable, gamma=0.3), expected)


def test_errors_name_what_is_wrong(rng):
    x = rng.normal(size=(4, 6, 2))
    for given in ([["1", "a"]], [[1, 1j]], [[1, np.ones(2)]]):
        boxed = np.empty((1, 2), object)
        boxed[0, :] = given[0]
        with pytest.raises((TypeError, ValueError), match=r"^X holds what is no number: "):
            SoftDTWKMeans(1).fit(boxed)
    with pytest.raises(ValueError, match=r"^X\[1\] holds what is no number: .* 'a'$"):
        SoftDTWKMeans(1).fit([np.ones(3), np.array([1, "a"], object)])
    no_array = [[1, 2], [3]]
    for given in ([no_array], [no_array, no_array[0]]):
        with pytest.raises(InvalidArgumentError, match=r"^x(\[0\])? is a list that makes no array"):
            soft_dtw_sums(given)
    for name, fails in (("lengths", median_gamma), ("x_lengths", soft_dtw_sums)):
        with pytest.raises(InvalidArgumentError, match=rf"^{name} is a list that makes no array"):
            fails(x, **{name: no_array})
        with pytest.raises(InvalidArgumentError, match=rf"^{name} has masked elements"):
            fails(x, **{name: np.ma.masked_equal([3, 4, 5, 6], 4)})
    for given in (no_array, "auto"):
        with pytest.raises(InvalidArgumentError, match=r"^edges is a .* that makes no array"):
            soft_dtw_histogram(x, edges=given)
    with pytest.raises(InvalidArgumentError, match=r"^x_lengths is a list that makes no array"):
        soft_dtw(x, x, x_lengths=no_array)
    with pytest.raises(InvalidArgumentError, match=r"^init has NaN or infinity"):
        soft_dtw_barycenter(x, init=np.full((5, 2), np.nan))
    with pytest.raises(InvalidArgumentError, match=r"^metric is 'manhattan': expected one of 'sqeuclidean'"):
        median_gamma(x, "manhattan")
    for fails in (median_gamma, soft_dtw_matrix, SoftDTWKMeans(2).fit):
        with pytest.raises(InvalidArgumentError, match=r"median rule is infinite, as costs .* overflow"):
            fails(1e200 * x)
    if np.dtype(np.longdouble).name != "float64":
        for given in (x.astype(np.longdouble), list(x.astype(np.longdouble))):
            with pytest.raises(InvalidArgumentError, match=r"^X has dtype .*: expected .* float64 at most"):
                SoftDTWKMeans(2).fit(given)


@pytest.mark.parametrize(
    ("y", "error", "said"),
    [
        (np.ma.masked_equal([0, 1, 0, 1], 1), ValueError, "y has masked elements"),
        (np.ones(4) + 1j, ValueError, "y has dtype complex128: expected numbers"),
        (np.arange(4).astype("datetime64[D]"), ValueError, r"y has dtype datetime64\[D\]: expected numbers"),
        (["a"] * 4, ValueError, "y has dtype <U1: expected numbers"),
        (np.array([1, "a", None, 2], object), ValueError, "y holds what is no number: could not convert"),
        ([[1], [1, 2], [1], [2]], ValueError, "y is a list that makes no array"),
    ],
)
def test_targets_that_are_no_numbers(y, error, said, rng):  # some were taken for what lies under a mask
    x = rng.normal(size=(4, 6, 1))
    with pytest.raises(error, match=said):
        SoftDTWKNeighborsRegressor(1).fit(x, y)
    if np.ma.isMaskedArray(y):
        with pytest.raises(error, match=said):
            SoftDTWKNeighborsClassifier(1).fit(x, y)


def test_a_fit_that_failed_is_none(rng):
    # Neighbours had the series of the fit that failed with the classes of the one before
    x, other, labels = rng.normal(size=(8, 6, 1)), rng.normal(size=(8, 6, 1)), np.arange(8) % 2
    for model in (SoftDTWKNeighborsClassifier(1), SoftDTWKNeighborsRegressor(1)):
        model.fit(x, labels)
        with pytest.raises(ValueError, match="y has 5 targets and X 8 series"):
            model.fit(other, labels[:5])
        with pytest.raises(NotFittedError):
            model.predict(x)
        assert (model.fit(other, labels).predict(other) == labels).all()
        with pytest.raises(ValueError, match=r"X\[0\] has inf"):  # which is seen before anything is changed
            model.fit(np.full((8, 6, 1), np.inf), labels)
        assert (model.predict(other) == labels).all()
    for kind in (SoftDTWKMeans, SoftDTWKMedoids):
        for model in (kind(9), kind(2).fit(x).set_params(n_clusters=9)):
            with pytest.raises(ValueError, match="n_clusters is 9"):
                model.fit(other)
            for method in (model.predict, model.transform):
                with pytest.raises(NotFittedError):
                    method(x)


def test_torch_tensors_are_read_in_place(rng):
    torch = pytest.importorskip("torch")
    x = rng.normal(size=(5, 6, 2))
    expected = soft_dtw_matrix(x, gamma=0.3)
    np.testing.assert_array_equal(soft_dtw_matrix(torch.from_numpy(x), gamma=0.3), expected)
    np.testing.assert_array_equal(soft_dtw_matrix(list(torch.from_numpy(x)), gamma=0.3), expected)


def test_bfloat16_is_read_in_float32(rng):
    torch, ml_dtypes = pytest.importorskip("torch"), pytest.importorskip("ml_dtypes")
    x = torch.from_numpy(rng.normal(size=(6, 8, 2))).bfloat16()
    expected = soft_dtw_matrix(x.float(), gamma=0.3)
    array = x.float().numpy().astype(ml_dtypes.bfloat16)
    for same in (x, list(x), array, list(array)):
        np.testing.assert_array_equal(soft_dtw_matrix(same, gamma=0.3), expected)


def test_median_rule(rng):
    x = rng.normal(size=(30, 40, 2))
    gamma = median_gamma(x)
    # The squared distance of two normal points of two dimensions is 2 chi-squared(2), of median 4 log 2
    assert gamma == pytest.approx(0.1 * 4 * np.log(2), rel=0.05)
    assert median_gamma(10 * x) == pytest.approx(100 * gamma, rel=1e-12)
    assert median_gamma(10 * x, "cityblock") == pytest.approx(10 * median_gamma(x, "cityblock"), rel=1e-12)
    assert median_gamma(np.ones((3, 4, 1))) == 1.0
    # Two time steps are of different series, which are far apart here, but for a single series
    near, far = x[0, :, 0], x[1, :30, 0] + 100
    assert median_gamma([near, far]) == pytest.approx(
        0.1 * np.median(np.subtract.outer(near, far) ** 2), rel=1e-2
    )
    assert median_gamma([near]) < 1
    np.testing.assert_array_equal(soft_dtw_matrix(x[:4]), soft_dtw_matrix(x[:4], gamma=median_gamma(x[:4])))
