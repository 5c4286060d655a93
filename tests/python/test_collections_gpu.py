# Collections whose arrays are on a GPU: of PyTorch, where there is one and on the CPU as if they were there;
# of CuPy in the memory of the host.
import sys
import types
from contextlib import nullcontext

import numpy as np
import pytest
import torch

from conftest import require_cuda
from libsdtw import InvalidArgumentError
from libsdtw._arrays import NUMPY
from libsdtw.collections import (
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWKNeighborsClassifier,
    SoftDTWKNeighborsRegressor,
    _series,
    soft_dtw_barycenter,
    soft_dtw_histogram,
    soft_dtw_matrix,
    soft_dtw_top_k,
)
from libsdtw.collections._series import as_series
from test_collections import ragged
from test_collections_estimators import KINDS


class GpuArray:
    """An array of CuPy, as far as collections look at one; its memory is the host's."""

    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape, self.dtype, self.ndim = self.array.shape, self.array.dtype, self.array.ndim

    def __len__(self):
        return len(self.array)

    def __getitem__(self, index):
        return GpuArray(self.array[index])

    def min(self):
        return self.array.min()

    def max(self):
        return self.array.max()

    def get(self):
        LOOKED.append(self.shape)
        return self.array


LOOKED = []  # the shape of what was brought to the host


class CupyArrays:
    def at(self, given):
        return nullcontext()

    def pad(self, given, name):
        assert all(isinstance(one, GpuArray) for one in given)
        return tuple(map(GpuArray, NUMPY.pad([one.array for one in given], name)))


GpuArray.__module__ = "cupy"


@pytest.fixture
def cupy(monkeypatch):
    """CuPy and libsdtw.cupy for such arrays; anything else is refused."""
    import libsdtw.numpy

    def on_gpu(name):
        def call(x, y, **options):
            assert isinstance(x, GpuArray)
            result = getattr(libsdtw.numpy, name)(x.array, None if y is None else y.array, **options)
            return tuple(map(GpuArray, result)) if isinstance(result, tuple) else GpuArray(result)

        return call

    names = "soft_dtw", "soft_dtw_cdist", "soft_dtw_grad"
    module = types.SimpleNamespace(CupyArrays=CupyArrays, **{name: on_gpu(name) for name in names})
    monkeypatch.setitem(sys.modules, "libsdtw.cupy", module)
    package = types.SimpleNamespace(
        asarray=lambda array, dtype: GpuArray(array.astype(dtype)),
        zeros=lambda shape, dtype: GpuArray(np.zeros(shape, dtype)),
        concatenate=lambda arrays, axis: GpuArray(np.concatenate([a.array for a in arrays], axis)),
    )
    monkeypatch.setitem(sys.modules, "cupy", package)


@pytest.mark.usefixtures("cupy")
@pytest.mark.parametrize("scaler", [None, "standard"])
def test_arrays_stay_where_they_are(scaler, rng):
    x, labels = rng.normal(size=(14, 9, 2)).cumsum(1), np.arange(14) % 2
    lengths = rng.integers(4, 10, 14)
    for kind in KINDS:
        supervised = (labels,) if hasattr(kind, "predict") and "Neighbors" in kind.__name__ else ()
        options = {"scaler": scaler, "num_threads": 1}
        if "n_clusters" in kind().get_params():
            options |= {"n_clusters": 3, "random_state": 0}
        ours, expected = (
            kind(**options).fit(data, *supervised, lengths=lengths) for data in (GpuArray(x), x)
        )
        assert ours.gamma_ == expected.gamma_
        if supervised:
            np.testing.assert_array_equal(ours.predict(GpuArray(x)), expected.predict(x))
        elif hasattr(kind, "predict"):
            np.testing.assert_array_equal(ours.labels_, expected.labels_)
            np.testing.assert_array_equal(ours.predict(GpuArray(x)), expected.predict(x))
            assert ours.inertia_ == pytest.approx(expected.inertia_, rel=1e-6)
        else:
            for found, other in zip(ours.kneighbors(GpuArray(x)), expected.kneighbors(x), strict=True):
                np.testing.assert_array_equal(found, other)


@pytest.fixture(params=["cupy", "torch", "torch on a GPU"])
def there(request, monkeypatch):
    """Makes arrays of NumPy ones of a GPU."""
    if request.param == "cupy":
        request.getfixturevalue("cupy")
        return GpuArray
    if request.param == "torch on a GPU":
        require_cuda()
        return lambda array: torch.from_numpy(array).cuda()
    monkeypatch.setattr(_series, "_host_array", lambda given: given)
    return torch.from_numpy


def test_nan_at_the_end_is_padding_on_a_gpu(there, rng):
    x = ragged(rng, 8)
    lengths = [len(one) for one in x]
    padded = np.full((8, max(lengths) + 2, 2), np.nan)
    for row, one in zip(padded, x, strict=True):
        row[: len(one)] = one
    for given, of_given in (
        (there(padded), None),
        (there(padded), lengths),
        ([there(one) for one in x], None),
        ([there(np.concatenate([one, np.full((b % 3, 2), np.nan)])) for b, one in enumerate(x)], None),
    ):
        series = as_series("x", given, of_given)
        assert isinstance(series.data, (GpuArray, torch.Tensor))
        np.testing.assert_array_equal(series.lengths, lengths)
        found = soft_dtw_matrix(given, x_lengths=of_given, gamma=0.3)
        np.testing.assert_allclose(found, soft_dtw_matrix(x, gamma=0.3), rtol=1e-9, atol=1e-9)
    values, indices = soft_dtw_top_k(there(padded), k=2, gamma=0.3)
    assert np.isfinite(values).all()
    np.testing.assert_array_equal(indices, soft_dtw_top_k(x, k=2, gamma=0.3)[1])


def test_what_no_series_has_is_named_on_a_gpu(there, rng, monkeypatch):
    monkeypatch.setattr(_series, "_CHECKED", 30)  # of which the parts are of two series
    x = rng.normal(size=(5, 6, 2))
    x[2, 4:] = np.nan
    x[3, 2, 1] = np.inf
    for given in (there(x), [there(one) for one in x]):
        with pytest.raises(InvalidArgumentError, match=r"^X\[3\] has inf at time step 2: expected finite"):
            SoftDTWKMeans(1).fit(given)
    x[3, 2] = np.nan
    with pytest.raises(InvalidArgumentError, match=r"^X\[3\] has NaN at time step 2: expected finite"):
        SoftDTWKMeans(1).fit(there(x))
    x[3] = np.nan
    for given in (there(x), [there(one) for one in x]):
        with pytest.raises(InvalidArgumentError, match=r"^X\[3\] has no time step"):
            SoftDTWKMeans(1).fit(given)
    with pytest.raises(InvalidArgumentError, match=r"^X\[1\] has no time step"):
        SoftDTWKMeans(1).fit([there(x[0]), there(x[1, :0])])
    with pytest.raises(InvalidArgumentError, match=r"^X\[1\] has shape \(6, 1\) and X\[0\] \(6, 2\)"):
        SoftDTWKMeans(1).fit([there(x[0]), there(x[1, :, :1])])
    with pytest.raises(InvalidArgumentError, match=r"^X has dtype .*complex128: Complex data not supported"):
        SoftDTWKMeans(1).fit(there(x.astype(complex)))


@pytest.mark.usefixtures("cupy")
def test_finite_series_are_not_brought_to_the_host(rng):
    x = rng.normal(size=(5, 6, 2))
    LOOKED.clear()
    as_series("x", GpuArray(x))
    assert as_series("x", GpuArray(x), [6, 5, 6, 6, 6]).lengths is not None
    assert not LOOKED
    x[1, 5] = np.nan
    np.testing.assert_array_equal(as_series("x", GpuArray(x)).lengths, [6, 5, 6, 6, 6])
    assert LOOKED == [(5, 6, 2)]


def test_no_graph_of_tensors_is_kept_on_a_gpu(cuda, rng):
    x = torch.from_numpy(rng.normal(size=(5, 6, 2))).to(cuda).requires_grad_()
    assert not as_series("x", x).data.requires_grad
    assert not as_series("x", [x[0], x[1, :4]]).data.requires_grad


@pytest.mark.parametrize("kind", ["cupy", "torch", "torch on a GPU"])
def test_other_arguments_may_be_anywhere(kind, rng, request):
    x, codes = rng.normal(size=(6, 8, 1)).cumsum(1), np.arange(6) % 2
    weights, init, edges = rng.uniform(size=6), rng.normal(size=(2, 8, 1)), np.linspace(0, 50, 5)
    if kind == "cupy":
        request.getfixturevalue("cupy")
        there = GpuArray
    else:
        where = require_cuda() if "GPU" in kind else "cpu"

        def there(array):
            return torch.tensor(array, device=where, requires_grad=array.dtype.kind == "f")

    ours, expected = (
        (
            soft_dtw_barycenter(x, gamma=1.0, weights=of(weights), init=of(init[0]), max_iter=2),
            soft_dtw_histogram(x, gamma=1.0, edges=of(edges)),
            (means := SoftDTWKMeans(2, gamma=1.0, init=of(init)).fit(x, sample_weight=of(weights))).inertia_,
            means.score(x, sample_weight=of(weights)),
            SoftDTWKMedoids(2, gamma=1.0, init=of(np.arange(2))).fit(x, sample_weight=of(weights)).inertia_,
            (voices := SoftDTWKNeighborsClassifier(3, gamma=1.0).fit(x, of(codes))).predict(x),
            voices.score(x, of(codes), sample_weight=of(weights)),
            (model := SoftDTWKNeighborsRegressor(3, gamma=1.0).fit(x, of(weights))).predict(x),
            model.score(x, of(weights), sample_weight=of(weights)),
        )
        for of in (there, np.asarray)
    )
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one, other)
