# Arrays of any kind: libsdtw.soft_dtw, which finds the module for them; libsdtw.cupy, over NumPy's memory in
# place of a GPU's; exchange by DLPack and __cuda_array_interface__; masked arrays, lists, NaN padding, and
# the divergence. What only CuPy itself can show, its streams, pool and events, runs nowhere here.
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fake_cupy
import libsdtw
import libsdtw.numpy
import libsdtw.torch
from libsdtw import _core

OPTIONS = {
    "gamma": 0.5, "metric": "euclidean", "band": "sakoe_chiba", "radius": 3, "step_weights": (2, 1, 1),
    "step_penalties": (0, 0.5, 0.5), "x_lengths": [9, 4, 7],
}  # fmt: skip
FUNCTIONS = ["soft_dtw", "soft_dtw_grad", "soft_dtw_alignment", "soft_dtw_cdist", "soft_dtw_cdist_grad"]


class Exchanged:
    """An array of a library that knows DLPack alone, on a device of any number."""

    def __init__(self, array: np.ndarray, device: int = 1, number: int = 0) -> None:
        self.array, self.device, self.number = array, device, number

    def on_host(self) -> np.ndarray:
        return self.array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, self.number


class WithNamespace(Exchanged):
    def __array_namespace__(self, **_: object) -> SimpleNamespace:
        return SimpleNamespace(from_dlpack=lambda array: WithNamespace(np.from_dlpack(array)))


class OnGpu:
    """An array with __cuda_array_interface__ and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__


@pytest.fixture
def pairs(rng):
    return rng.normal(size=(3, 9, 2)), rng.normal(size=(3, 8, 2))


@pytest.fixture
def cupy(monkeypatch):
    return fake_cupy.install(monkeypatch)


def assert_same(ours, expected):
    if not isinstance(ours, tuple):
        ours, expected = (ours,), (expected,)
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(one), other)


def test_the_module_is_that_of_the_arrays(pairs):
    x, y = pairs
    expected = libsdtw.numpy.soft_dtw(x, y, **OPTIONS)
    assert_same(libsdtw.soft_dtw(x, y, **OPTIONS), expected)
    tensors = [torch.tensor(series, requires_grad=True) for series in pairs]
    value = libsdtw.soft_dtw(*tensors, **OPTIONS)
    assert value.requires_grad
    assert_same(value.detach(), expected)
    ragged = libsdtw.soft_dtw([t[:5] for t in tensors[0]], tensors[1])
    assert isinstance(ragged, torch.Tensor)
    for name in ("soft_dtw_alignment", "soft_dtw_cdist"):
        expected = getattr(libsdtw.numpy, name)(x, y)
        ours = getattr(libsdtw, name)(*tensors)
        assert ours.requires_grad
        np.testing.assert_allclose(ours.detach(), expected, rtol=1e-12, atol=1e-15)
        assert_same(getattr(libsdtw, name)(x, y), expected)
    assert_same(libsdtw.soft_dtw_cdist(x), libsdtw.numpy.soft_dtw_cdist(x))
    assert libsdtw.soft_dtw([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(-0.8954437807)


def test_jax_is_one_of_the_kinds(pairs):
    jax = pytest.importorskip("jax")
    x, y = (jax.numpy.asarray(series.astype(np.float32)) for series in pairs)
    try:
        value = libsdtw.soft_dtw(x, y)
    except libsdtw.NotBuiltError as error:
        pytest.skip(str(error))
    assert isinstance(value, jax.Array)
    np.testing.assert_allclose(value, libsdtw.numpy.soft_dtw(*map(np.asarray, (x, y))), rtol=1e-5)


def test_other_libraries_through_dlpack(pairs):
    x, y = (Exchanged(series) for series in pairs)
    lengths = Exchanged(np.array([9, 4, 7]))
    expected = libsdtw.numpy.soft_dtw(*pairs, x_lengths=[9, 4, 7])
    assert_same(libsdtw.soft_dtw(x, y, x_lengths=lengths), expected)
    assert_same(libsdtw.soft_dtw(x, pairs[1]), libsdtw.numpy.soft_dtw(*pairs))
    back = libsdtw.soft_dtw(*(WithNamespace(series) for series in pairs))
    assert isinstance(back, WithNamespace)
    assert_same(back.array, libsdtw.numpy.soft_dtw(*pairs))
    scalar = libsdtw.soft_dtw(WithNamespace(pairs[0][0]), WithNamespace(pairs[1][0]))
    assert scalar.array == libsdtw.numpy.soft_dtw(*pairs)[0]


def test_what_cannot_be_dispatched(pairs, monkeypatch):
    x, y = pairs
    with pytest.raises(TypeError, match="x of numpy and y of torch: expected arrays of one kind"):
        libsdtw.soft_dtw(x, torch.tensor(y))
    with pytest.raises(
        TypeError, match="y is on a device of DLPack's number 10: expected a CPU or an NVIDIA"
    ):
        libsdtw.soft_dtw(x, Exchanged(y, device=10))
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.delitem(sys.modules, "libsdtw.cupy", raising=False)
    with pytest.raises(TypeError, match="x is a OnGpu in a GPU's memory: expected CuPy to be installed"):
        libsdtw.soft_dtw(OnGpu(x), OnGpu(y))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_cupy_is_numpy_elsewhere(name, dtype, pairs, cupy):
    x, y = (series.astype(dtype) for series in pairs)
    expected = getattr(libsdtw.numpy, name)(x, y, **OPTIONS)
    on_gpu = [fake_cupy.asarray(series) for series in (x, y)]
    ours = getattr(cupy, name)(*on_gpu, **OPTIONS)
    assert_same(ours, expected)
    for array in ours if isinstance(ours, tuple) else (ours,):
        assert isinstance(array, fake_cupy.ndarray)
        assert array.dtype in (dtype, np.float64 if dtype == np.float64 else np.float32)
    lengths = {"x_lengths": fake_cupy.asarray([9, 4, 7]), "y_lengths": fake_cupy.asarray([8, 1, 8])}
    assert_same(
        getattr(cupy, name)(*(array[:, ::-1] for array in on_gpu), **lengths),
        getattr(libsdtw.numpy, name)(x[:, ::-1], y[:, ::-1], x_lengths=[9, 4, 7], y_lengths=[8, 1, 8]),
    )


def test_cupy_functions_of_other_shapes(pairs, cupy):
    x, y = pairs
    gpu_x, gpu_y = (fake_cupy.asarray(series) for series in pairs)
    assert_same(cupy.soft_dtw_grad(gpu_x, gpu_y[0]), libsdtw.numpy.soft_dtw_grad(x, y[0]))
    upstream = np.arange(3.0)
    assert_same(
        cupy.soft_dtw_jvp(gpu_x, gpu_y, tangent_x=gpu_x, grad_value=fake_cupy.asarray(upstream)),
        libsdtw.numpy.soft_dtw_jvp(x, y, tangent_x=x, grad_value=upstream),
    )
    one = cupy.soft_dtw_grad(gpu_x[0], gpu_y[0], grad_value=2.0)
    assert_same(one, libsdtw.numpy.soft_dtw_grad(x[0], y[0], grad_value=2.0))
    ragged = [gpu_x[0, :3], gpu_x[1], gpu_x[2, :5]]
    assert_same(cupy.soft_dtw(ragged, gpu_y), libsdtw.numpy.soft_dtw(x, y, x_lengths=[3, 9, 5]))


def test_cupy_reads_what_is_on_the_gpu_in_place(pairs, cupy):
    expected = libsdtw.numpy.soft_dtw(*pairs)
    assert_same(libsdtw.soft_dtw(*map(fake_cupy.asarray, pairs)), expected)
    assert_same(libsdtw.soft_dtw(*map(OnGpu, pairs)), expected)
    assert_same(libsdtw.soft_dtw(*(Exchanged(series, device=2) for series in pairs)), expected)
    assert_same(libsdtw.soft_dtw(fake_cupy.asarray(pairs[0]), OnGpu(pairs[1])), expected)
    fake_cupy.allocated.clear()
    cupy.soft_dtw(*map(OnGpu, pairs))
    # The value and the workspace: no copy of x or y
    assert len(fake_cupy.allocated) == 2
    assert fake_cupy.allocated[0] == expected.nbytes


def test_cupy_computes_on_the_current_stream_and_xs_gpu(pairs, cupy, monkeypatch):
    made = []
    create = _core.Exec
    monkeypatch.setattr(_core, "Exec", lambda *args, **options: made.append(args) or create(*args, **options))
    x, y = (fake_cupy.asarray(series) for series in pairs)
    cupy.soft_dtw(x, y)
    assert made[0][2] == fake_cupy.STREAM
    x.number = 1
    with pytest.raises(ValueError, match="y is on GPU 0: expected x's, GPU 1"):
        cupy.soft_dtw(x, y)
    y.number = 1
    value = cupy.soft_dtw(x, y)
    assert value.device.id == 1
    assert_same(value, libsdtw.numpy.soft_dtw(*pairs))


@pytest.mark.parametrize("kind", ["dlpack", "interface", "list"])
def test_cupy_finds_the_gpu_of_what_it_can_see(kind, pairs, cupy, monkeypatch):
    x, y = pairs
    if kind == "dlpack":
        given = [Exchanged(one, device=2, number=3) for one in pairs]
    else:
        given = [OnGpu(x), OnGpu(y)] if kind == "interface" else [[OnGpu(one) for one in of] for of in pairs]
        for one in (*pairs, *x, *y):
            monkeypatch.setitem(fake_cupy.places, one.ctypes.data, 3)
    value = cupy.soft_dtw(*given)
    assert value.device.id == 3
    assert fake_cupy.Device().id == 0
    assert_same(value, libsdtw.numpy.soft_dtw(*pairs))
    with pytest.raises(ValueError, match="y is on GPU 0: expected x's, GPU 3"):
        cupy.soft_dtw(given[0], fake_cupy.asarray(y))
    if kind == "interface":  # which CuPy would copy to the current GPU
        with pytest.raises(ValueError, match="y is on GPU 3: expected x's, GPU 0"):
            cupy.soft_dtw(fake_cupy.asarray(x), given[1])


def test_cupy_asks_dlpack_before_the_interface_without_a_stream(pairs, cupy):
    class Both(Exchanged):
        """As PyTorch's tensors are: the interface has what is there before the producer's stream is done."""

        @property
        def __cuda_array_interface__(self):
            return np.zeros_like(self.array).__array_interface__

    given = [Both(one, device=2) for one in pairs]
    assert_same(cupy.soft_dtw(*given), libsdtw.numpy.soft_dtw(*pairs))
    assert_same(libsdtw.soft_dtw(*given), libsdtw.numpy.soft_dtw(*pairs))
    with pytest.raises(TypeError, match="x is a Both, not in a GPU's memory"):
        cupy.soft_dtw(Both(pairs[0], device=1), given[1])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cupy_refuses_host_arrays(name, pairs, cupy):
    x, y = pairs
    with pytest.raises(TypeError, match="y is a ndarray, not in a GPU's memory: expected an array there"):
        getattr(cupy, name)(fake_cupy.asarray(x), y)
    with pytest.raises(ValueError, match=r"x_lengths holds 10: expected lengths in \[0, 9\]"):
        getattr(cupy, name)(fake_cupy.asarray(x), fake_cupy.asarray(y), x_lengths=[1, 2, 10])
    with pytest.raises(TypeError, match="x_lengths has dtype float64: expected integers"):
        getattr(cupy, name)(
            fake_cupy.asarray(x), fake_cupy.asarray(y), x_lengths=fake_cupy.asarray([1.0] * 3)
        )


def test_masked_time_steps_are_padding(pairs):
    x, y = pairs
    mask = np.zeros(x.shape, bool)
    mask[1, 4:], mask[2, 7:] = True, True
    hidden = np.where(mask, np.nan, x)
    masked = np.ma.MaskedArray(hidden, mask)
    value, grad_x, grad_y = libsdtw.numpy.soft_dtw_grad(masked, y)
    assert_same((value, grad_x, grad_y), libsdtw.numpy.soft_dtw_grad(x, y, x_lengths=[9, 4, 7]))
    assert not isinstance(value, np.ma.MaskedArray)
    assert_same(libsdtw.numpy.soft_dtw(masked[1], y[1]), libsdtw.numpy.soft_dtw(x[1, :4], y[1]))
    assert_same(
        libsdtw.numpy.soft_dtw(masked[1, :, 0], y[1, :, 0]), libsdtw.numpy.soft_dtw(x[1, :4, 0], y[1, :, 0])
    )
    assert_same(libsdtw.numpy.soft_dtw(np.ma.MaskedArray(x), y), libsdtw.numpy.soft_dtw(x, y))
    assert_same(libsdtw.numpy.to_lengths(hidden), [9, 4, 7])
    assert_same(libsdtw.numpy.to_lengths(np.full((2, 3, 1), np.nan)), [0, 0])
    assert_same(libsdtw.numpy.to_lengths(np.ones((2, 0, 1))), [0, 0])

    inside = mask.copy()
    inside[0, 2] = True
    feature = mask.copy()
    feature[0, 8, 1] = True
    for wrong in (inside, feature):
        with pytest.raises(ValueError, match="x has a mask that is not padding: expected whole time steps"):
            libsdtw.numpy.soft_dtw(np.ma.MaskedArray(x, wrong), y)
    with pytest.raises(ValueError, match="x is a masked array and x_lengths is given"):
        libsdtw.numpy.soft_dtw(masked, y, x_lengths=[1, 2, 3])
    with pytest.raises(ValueError, match="x has masked elements: expected an array without"):
        libsdtw.numpy.soft_dtw(np.ma.MaskedArray(x[..., 0], mask[..., 0]), metric="precomputed")
    with pytest.raises(ValueError, match="tangent_x has masked elements"):
        libsdtw.numpy.soft_dtw_jvp(x, y, tangent_x=masked)


def test_lists_of_series_are_batches(pairs):
    x, y = pairs
    ragged = [x[0], x[1, :4], x[2, :7]]
    expected = libsdtw.numpy.soft_dtw_grad(x, y, x_lengths=[9, 4, 7])
    assert_same(libsdtw.numpy.soft_dtw_grad(ragged, list(y)), expected)
    batch, lengths = libsdtw.numpy.pad(ragged)
    assert (batch.shape, list(lengths)) == (x.shape, [9, 4, 7])
    assert_same(libsdtw.numpy.soft_dtw_cdist(ragged), libsdtw.numpy.soft_dtw_cdist(x, x_lengths=[9, 4, 7]))
    assert libsdtw.numpy.pad([np.zeros(0), np.zeros(0)])[0].shape == (2, 1, 1)
    with pytest.raises(ValueError, match=r"x\[1\] has shape \(4, 1\) and x\[0\] \(9, 2\)"):
        libsdtw.numpy.soft_dtw([x[0], x[1, :4, :1]], y)
    with pytest.raises(TypeError, match=r"x\[1\] is a list: expected an array"):
        libsdtw.numpy.soft_dtw([x[0], [1, 2]], y)
    with pytest.raises(ValueError, match="series is empty"):
        libsdtw.numpy.pad([])
    with pytest.raises(TypeError, match="series is a NoneType: expected a list of arrays"):
        libsdtw.numpy.pad(None)


class WithArray:
    """An array of a library that knows __array__ alone, as a column of a table does."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return self.array.astype(dtype or self.array.dtype)


@pytest.mark.parametrize("kind", [WithArray, Exchanged, WithNamespace, torch.tensor])
def test_lists_of_any_librarys_arrays_are_batches(kind, pairs):
    x, y = (series[..., 0] for series in pairs)
    ragged = [x[0], x[1, :4], x[2, :7]]
    own = [kind(one) for one in ragged], [kind(one) for one in y]
    for name in ("soft_dtw", "soft_dtw_alignment", "soft_dtw_cdist"):
        expected = getattr(libsdtw.numpy, name)(ragged, list(y))
        assert_same(getattr(libsdtw.numpy, name)(*own), expected)
        ours = getattr(libsdtw, name)(*own)
        np.testing.assert_allclose(ours.array if kind is WithNamespace else ours, expected, rtol=1e-12)
    assert isinstance(libsdtw.soft_dtw([np.float64(1), np.float64(2)], [1.0, 3.0]), float)


def test_lists_of_what_cupy_can_see_are_batches(pairs, cupy):
    x, y = pairs
    expected = libsdtw.numpy.soft_dtw(list(x), list(y))
    assert_same(libsdtw.soft_dtw([OnGpu(one) for one in x], [OnGpu(one) for one in y]), expected)
    assert_same(
        libsdtw.soft_dtw([Exchanged(one, device=2) for one in x], [OnGpu(one) for one in y]), expected
    )


@pytest.mark.parametrize("lengths", [{}, {"x_lengths": [9, 4, 7], "y_lengths": [2, 8, 5]}])
@pytest.mark.parametrize("shared", [False, True])
def test_divergence_is_pytorchs(lengths, shared, pairs):
    x, y = pairs
    y = y[0] if shared else y
    upstream = np.array([1.0, -2.0, 0.5])
    tensors = [torch.tensor(series, requires_grad=True) for series in (x, y)]
    options = {"gamma": 0.7, "normalize": True, **lengths}
    expected = libsdtw.torch.soft_dtw(*tensors, **options)
    expected.backward(torch.tensor(upstream))
    value, grad_x, grad_y = libsdtw.numpy.soft_dtw_grad(x, y, grad_value=upstream, **options)
    np.testing.assert_allclose(value, expected.detach(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(libsdtw.numpy.soft_dtw(x, y, **options), value, rtol=1e-12)
    for ours, tensor in zip((grad_x, grad_y), tensors, strict=True):
        np.testing.assert_allclose(ours, tensor.grad, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="normalize is True with metric 'precomputed'"):
        libsdtw.numpy.soft_dtw(x, metric="precomputed", normalize=True)


def test_divergence_of_all_pairs(pairs):
    x, y = pairs
    options = {"gamma": 0.7, "x_lengths": [9, 4, 7], "normalize": True}
    own = libsdtw.numpy.soft_dtw_cdist(x, **options)
    np.testing.assert_array_equal(own.diagonal(), 0)
    np.testing.assert_allclose(
        own, libsdtw.numpy.soft_dtw_cdist(x, x, y_lengths=[9, 4, 7], **options), atol=1e-12
    )
    expected = libsdtw.torch.soft_dtw_cdist(*map(torch.tensor, (x, y)), **options)
    np.testing.assert_allclose(
        libsdtw.numpy.soft_dtw_cdist(x, y, **options), expected, rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("of_itself", [False, True])
@pytest.mark.parametrize("upstream", [False, True])
@pytest.mark.parametrize("options", [
    {}, {"x_lengths": [9, 4, 1]}, {"gamma": 0, "metric": "cityblock"},
    {"metric": "euclidean", "band": "sakoe_chiba", "radius": 2, "step_penalties": (0, 0.1, 0.1)},
    {"step_weights": (1, 2, 1), "step_penalties": (0, 0.5, 0)},  # y x is not x y
])  # fmt: skip
def test_gradients_of_divergences_of_all_pairs(of_itself, upstream, options, pairs, rng, cupy):
    x, y = pairs[0], np.concatenate([pairs[1], pairs[1][:1] + 1])
    given = (x,) if of_itself else (x, y)
    options = {"gamma": 0.7, "normalize": True} | options
    value, *grads = libsdtw.numpy.soft_dtw_cdist_grad(*given, **options)
    weights = np.ones(value.shape)
    if upstream:
        weights = rng.normal(size=value.shape)
        value, *grads = libsdtw.numpy.soft_dtw_cdist_grad(*given, grad_value=weights, **options)
    np.testing.assert_array_equal(value, libsdtw.numpy.soft_dtw_cdist(*given, **options))
    tensors = [torch.tensor(series, requires_grad=True) for series in given]
    expected = libsdtw.torch.soft_dtw_cdist(*tensors, **options)
    expected.backward(torch.tensor(weights))
    np.testing.assert_allclose(value, expected.detach(), rtol=1e-12, atol=1e-12)
    for ours, tensor in zip(grads, tensors, strict=True):
        np.testing.assert_allclose(ours, tensor.grad, rtol=0, atol=1e-12)
    moved = [rng.normal(size=one.shape) for one in given]
    ends = (
        (
            weights
            * libsdtw.numpy.soft_dtw_cdist(*(g + s * m for g, m in zip(given, moved, strict=True)), **options)
        ).sum()
        for s in (1e-6, -1e-6)
    )
    slope = sum((g * m).sum() for g, m in zip(grads, moved, strict=True))
    assert (next(ends) - next(ends)) / 2e-6 == pytest.approx(slope, rel=1e-6, abs=1e-6)
    on_gpu = [fake_cupy.asarray(one) for one in given]
    weights_there = {"grad_value": fake_cupy.asarray(weights)}
    assert_same(cupy.soft_dtw_cdist_grad(*on_gpu, **weights_there, **options), (value, *grads))


def test_functions_can_be_sent_to_other_processes():
    assert pickle.loads(pickle.dumps(libsdtw.numpy.soft_dtw))([1.0], [2.0]) == 1
    assert pickle.loads(pickle.dumps(libsdtw.soft_dtw))([1.0], [2.0]) == 1
