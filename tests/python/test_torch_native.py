# The compiled short way of soft_dtw beside the one in Python: the same bits, where it is taken and where not.
# The other PyTorch tests run with it where it is built, and once more with LIBSDTW_TORCH_NATIVE=0.
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from libsdtw.torch import SoftDTW, _direct, _extension, soft_dtw
from torch_data import OPTIONS, grads, pair

pytestmark = [
    pytest.mark.skipif(
        _direct.native is None, reason="the extension is not built: python -m libsdtw.torch.build"
    ),
    # What PyTorch's own forward mode says of itself when it is first used.
    pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning"),
]

NODE = "SoftDtwBackward"


def is_native(value):
    return value.grad_fn is not None and value.grad_fn.name() == NODE


def both(function):
    """What the function returns with the extension and without it."""
    native, results = _direct.native, []
    try:
        for _direct.native in (native, None):
            results.append(function())
    finally:
        _direct.native = native
    return results


@st.composite
def calls(draw):
    """Tensors and options of a call, gradients of which it is to have, and an upstream gradient."""
    dtype = draw(st.sampled_from([torch.float32, torch.float64, torch.float16, torch.bfloat16]))
    batch, n, m, d = (draw(st.integers(1, most)) for most in (4, 9, 9, 3))
    x, y = pair("cpu", torch.float64, (batch, n, m, d), draw(st.integers(0, 99)))
    x, y = (t.detach().to(dtype) for t in (x, y))
    if draw(st.booleans()):
        x, y = x.mT.contiguous().mT, y.flip(1)
    if draw(st.integers(0, 9)) == 0:
        x[0, 0, 0] = draw(st.sampled_from([torch.nan, torch.inf]))
    lengths = {}
    length_type = draw(st.sampled_from([torch.int32, torch.int64]))
    for name, longest in (("x_lengths", n), ("y_lengths", m)):
        if draw(st.booleans()):
            some = draw(st.lists(st.integers(0, longest), min_size=batch, max_size=batch))
            lengths[name] = torch.tensor(some, dtype=length_type)
    options = draw(st.sampled_from(OPTIONS))
    needs = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    reduction = draw(st.sampled_from(["none", "mean", "sum"]))
    upstream = torch.randn(batch if reduction == "none" else (), dtype=torch.float64)
    value_type = torch.float64 if dtype == torch.float64 else torch.float32
    return x, y, lengths | options | {"reduction": reduction}, needs, upstream.to(value_type)


@settings(max_examples=400)
@given(calls())
def test_the_same_bits(call):
    x, y, options, needs, upstream = call

    def step():
        a, b = (t.detach().requires_grad_(need) for t, need in zip((x, y), needs, strict=True))
        value = soft_dtw(a, b, **options)
        assert is_native(value) == (_direct.native is not None)
        inputs = [t for t in (a, b) if t.requires_grad]
        with torch.no_grad():
            alone = soft_dtw(a, b, **options)
        assert not alone.requires_grad
        return value.detach(), alone, *torch.autograd.grad(value, inputs, upstream)

    for ours, theirs in zip(*both(step), strict=True):
        assert ours.dtype == theirs.dtype
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_taken_on_the_device(device):
    x, y = pair(device, torch.float32, (5, 40, 33, 3))
    lengths = torch.tensor([40, 3, 0, 17, 40], device=device)
    for reduction in ("none", "mean", "sum"):
        for given_lengths in (None, lengths, lengths.int()):
            loss = SoftDTW(gamma=0.5, reduction=reduction, zero_infinity=False)

            def step(loss=loss, given_lengths=given_lengths):
                value = loss(x, y, given_lengths, None)
                assert is_native(value) == (_direct.native is not None)
                finite = value.masked_fill(value.isinf(), 0)
                return value.detach(), *grads(finite, x, y)

            for ours, theirs in zip(*both(step), strict=True):
                torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Subclass(torch.Tensor):
    pass


def test_left_to_python(device):
    x, y = pair(device)
    assert is_native(soft_dtw(x, y))
    for mode in (Functions(), Dispatches(), forward_ad.dual_level()):
        with mode:
            value = (
                soft_dtw(forward_ad.make_dual(x, x), y) if isinstance(mode, forward_ad.dual_level) else None
            )
            assert not is_native(soft_dtw(x, y) if value is None else value)
    lengths = torch.tensor([3, 2, 1], device=device)
    for given_x, others in [
        (x.as_subclass(Subclass), {}),
        (x[0], {}),  # broadcasts
        (x[None], {}),
        (x, {"gamma": torch.tensor(0.5, device=device)}),
        (x, {"step_weights": [1, 1, 1]}),
        (x, {"normalize": True}),
        (x, {"x_lengths": lengths.short()}),
        (x, {"x_lengths": [3, 2, 1]}),
        (x, {"x_lengths": lengths, "y_lengths": lengths.int()}),
        (x, {"x_lengths": lengths.repeat(2)[::2]}),
        (torch.complex(x, x).conj().imag, {}),
    ]:
        values = both(lambda given_x=given_x, others=others: soft_dtw(given_x, y, **others))
        assert not any(map(is_native, values))
        assert torch.equal(values[0], values[1])


def test_inputs_that_change(device):
    x, y = pair(device)
    a = x * 1
    value = soft_dtw(a, y).sum()
    with torch.no_grad():
        a.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
    value = soft_dtw(x, y).sum()
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_saved_tensors_pass_through_hooks(device):
    x, y = pair(device)
    lengths = torch.tensor([7, 3, 5], device=device)
    packed, unpacked = [], []

    def pack(tensor):
        packed.append(tensor.shape)
        return tensor.cpu()

    def unpack(tensor):
        unpacked.append(tensor.shape)
        return tensor.to(device)

    expected = grads(soft_dtw(x, y, x_lengths=lengths), x, y)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        value = soft_dtw(x, y, x_lengths=lengths)
    assert is_native(value)
    assert len(packed) == (5 if x.is_cpu else 4)  # x, y, lengths and two gradients, or state
    torch.testing.assert_close(grads(value, x, y), expected, rtol=0, atol=0)
    assert unpacked == packed

    value = checkpoint(lambda x: soft_dtw(x * 2, y, x_lengths=lengths), x, use_reentrant=False)
    again = soft_dtw(x * 2, y, x_lengths=lengths)
    torch.testing.assert_close(grads(value, x), grads(again, x), rtol=0, atol=0)


def test_gradients_of_gradients(device):
    x, y = pair(device)
    for reduction in ("none", "mean", "sum"):

        def step(reduction=reduction):
            value = soft_dtw(x, y, reduction=reduction)
            upstream = torch.ones_like(value, requires_grad=True)
            first = torch.autograd.grad(value, (x, y), upstream, create_graph=True)
            second = torch.autograd.grad(sum((g**2).sum() for g in first), (x, y, upstream))
            return *first, *second

        for ours, theirs in zip(*both(step), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_batches_of_upstream_gradients(device):
    x, y = pair(device)
    upstream = torch.randn(4, 3, dtype=x.dtype, device=device)

    def step():
        value = soft_dtw(x, y)
        return torch.autograd.grad(value, (x, y), upstream, is_grads_batched=True)

    for ours, theirs in zip(*both(step), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_tangents_of_upstream_gradients(device):
    # Forward mode over a graph that was recorded outside of it: gradients are linear in the upstream ones.
    x, y = pair(device)
    tangent = torch.randn(3, dtype=x.dtype, device=device)

    def step():
        value = soft_dtw(x, y)
        with forward_ad.dual_level():
            upstream = forward_ad.make_dual(torch.ones_like(tangent), tangent)
            (grad,) = torch.autograd.grad(value, x, upstream)
            return forward_ad.unpack_dual(grad).tangent

    (expected,) = torch.autograd.grad(soft_dtw(x, y), x, tangent)
    for of_tangent in both(step):
        torch.testing.assert_close(of_tangent, expected)


def test_an_upstream_gradient_of_another_kind(device):
    # Given to the node itself, past the engine, which would have refused it.
    x, y = pair(device)
    for wrong in (torch.ones(2, dtype=x.dtype), torch.ones(3, dtype=torch.float32)):
        with pytest.raises(ValueError, match=r"grad_value has \d+ bytes: expected 24"):
            soft_dtw(x, y).grad_fn(wrong.to(device))
    node = soft_dtw(x, y).grad_fn
    expected = soft_dtw(x, y).grad_fn(torch.ones(3, dtype=x.dtype, device=device))
    for ours, want in zip(node(None), expected, strict=True):  # no gradient is a gradient of zeros
        torch.testing.assert_close(ours, torch.zeros_like(want))


def test_calls_of_many_threads(device):
    x, y = pair(device, shape=(4, 20, 17, 2))
    expected = [grads(soft_dtw(x[:, :n], y, gamma=0.5), x)[0] for n in range(1, 21)]
    failures = []

    def work():
        for n in range(1, 21):
            (grad,) = grads(soft_dtw(x[:, :n], y, gamma=0.5), x)
            if not torch.equal(grad, expected[n - 1]):
                failures.append(n)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_more_kinds_of_calls_than_are_remembered():
    x, y = pair("cpu", shape=(1, 3, 3, 1))
    first = [soft_dtw(x, y, gamma=1 + k / 4096).item() for k in range(1100)]
    assert [soft_dtw(x, y, gamma=1 + k / 4096).item() for k in range(1100)] == first
    assert first == sorted(first, reverse=True)
    penalised = [soft_dtw(x, y, step_penalties=(0, k, k)) for k in range(1100)]
    assert all(map(is_native, penalised))
    assert penalised == sorted(penalised)
    assert soft_dtw(x, y).item() == first[0]


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # PyTorch 2.11, of itself
def test_profiles_name_it(device):
    x, y = pair(device)
    with torch.profiler.profile() as profile:
        soft_dtw(x, y).sum().backward()
    names = {event.key for event in profile.key_averages()}
    assert {"libsdtw::soft_dtw", NODE} <= names


def test_what_cannot_be_loaded_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(_extension, "_folders", lambda: [tmp_path])
    assert _extension.load() is None
    (tmp_path / _extension.file_name()).write_bytes(b"no library")
    with pytest.warns(RuntimeWarning, match="cannot be loaded"):
        assert _extension.load() is None
    monkeypatch.setenv("LIBSDTW_TORCH_NATIVE", "0")
    assert _extension.load() is None


def test_of_an_editable_install_the_extension_is_beside_the_core(monkeypatch, tmp_path):
    # Python's files are in the tree there: no extension is beside them.
    monkeypatch.setattr(_extension, "_HERE", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    name = _direct.native.__file__.rpartition("/")[2]
    found = [folder / name for folder in _extension._folders() if (folder / name).is_file()]
    assert [str(path) for path in found] == [_direct.native.__file__]
