# Gradients that forward computes on the CPU, for upstream gradients of 1, and keeps for backward to multiply:
# beside what state and a call for the true upstream gradients make, by each of the ways that lead there.
import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from libsdtw.torch import SoftDTW, _direct, _kernels, sharp_soft_dtw, soft_dtw
from torch_data import OPTIONS, grads, pair

OPS = torch.ops.libsdtw
WAYS = ["native", "python", "operators"] if _direct.native else ["python", "operators"]


@contextlib.contextmanager
def way(name):
    """Calls of soft_dtw by the extension, by the function in Python or by the operators; or with state."""
    native, keeps = _direct.native, _kernels.keeps_gradients
    if name != "native":
        _direct.native = None
    if name == "state":
        _kernels.keeps_gradients = lambda x, y: False
    _direct._calls.clear()
    try:
        yield
    finally:
        _direct.native, _kernels.keeps_gradients = native, keeps
        _direct._calls.clear()


def call(name, x, y, **options):
    if name == "operators":  # which series of one more dimension take
        options |= {k: v[None] for k, v in options.items() if k.endswith("_lengths")}
        value = soft_dtw(x[None], y[None], **options)
        return value[0] if options.get("reduction", "none") == "none" else value
    return soft_dtw(x, y, **options)


def step(name, x, y, needs, upstream, **options):
    """(value, gradients) that a way makes."""
    with way(name):
        a, b = (t.detach().clone().requires_grad_(need) for t, need in zip((x, y), needs, strict=True))
        value = call(name, a, b, **options)
        return value.detach(), *torch.autograd.grad(value, [t for t in (a, b) if t.requires_grad], upstream)


def assert_same(ours, theirs, dtype):
    rtol = 3e-6 if dtype == torch.float32 else 1e-13
    # The operators' mean is PyTorch's, in another order.
    torch.testing.assert_close(
        ours[0], theirs[0], rtol=rtol if ours[0].ndim == 0 else 0, atol=0, equal_nan=True
    )
    for one, other in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=rtol, atol=2e-38, equal_nan=True)


def has_digits(x, y, gamma):
    """Whether costs leave exponents their digits: else one call makes others of them than two (sdtw.h)."""
    largest = max(torch.where(t.isfinite(), t, 0).abs().max().item() for t in (x, y))
    steps, features = x.shape[1] + y.shape[1], x.shape[2]
    return gamma == 0 or steps * features * (2 * largest) ** 2 < 2.0**51 * gamma


SPECIAL = [0.0, 1.0, -2.5, 1e-3, 2.0**24, torch.inf, -torch.inf, torch.nan, 1e30, 3e38]


@st.composite
def steps(draw):
    dtype = draw(st.sampled_from([torch.float32, torch.float64]))
    batch, n, m, d = (draw(st.integers(1, most)) for most in (4, 9, 9, 3))
    x, y = (
        t.detach().to(dtype) for t in pair("cpu", torch.float64, (batch, n, m, d), draw(st.integers(0, 99)))
    )
    if draw(st.booleans()):
        x, y = x.mT.contiguous().mT, y.flip(1)
    for series in (x, y):
        if draw(st.integers(0, 4)) == 0:
            series[0, -1, 0] = draw(st.sampled_from([torch.nan, torch.inf, 1e30, 0.0]))
        if draw(st.integers(0, 4)) == 0:
            series[-1] = series[-1].sign() * draw(st.sampled_from([3e38, 1e-38, 0.0]))
    lengths = {}
    for name, longest in (("x_lengths", n), ("y_lengths", m)):
        if draw(st.booleans()):
            some = draw(st.lists(st.integers(0, longest), min_size=batch, max_size=batch))
            lengths[name] = torch.tensor(some)
    reduction = draw(st.sampled_from(["none", "none", "mean", "sum"]))
    upstream = torch.tensor([draw(st.sampled_from(SPECIAL)) for _ in range(batch)], dtype=dtype)
    upstream = upstream if reduction == "none" else upstream[0]
    needs = draw(st.sampled_from([(True, True), (True, False), (False, True)]))
    options = lengths | draw(st.sampled_from(OPTIONS)) | {"reduction": reduction}
    return x, y, needs, upstream, options


@settings(max_examples=400)
@given(steps())
def test_what_state_makes(drawn):
    x, y, needs, upstream, options = drawn
    expected = step("state", x, y, needs, upstream, **options)
    for name in WAYS:
        ours = step(name, x, y, needs, upstream, **options)
        if has_digits(x, y, options.get("gamma", 1)):
            assert_same(ours, expected, x.dtype)
        else:
            for one, other in zip(ours, expected, strict=True):
                assert torch.equal(one.isnan(), other.isnan())


@pytest.mark.parametrize("shape", [(40, 60, 50, 1), (3, 300, 280, 5), (2, 64, 64, 40)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_state_makes_of_larger_pairs(shape, dtype):
    x, y = (t.detach() for t in pair("cpu", dtype, shape))
    upstream = torch.linspace(-1, 2, shape[0], dtype=dtype)
    expected = step("state", x, y, (True, True), upstream, gamma=0.5)
    for name in WAYS:
        ours = step(name, x, y, (True, True), upstream, gamma=0.5)
        for one, other in zip(ours, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6 * other.abs().max().item())


@pytest.mark.parametrize("name", WAYS)
def test_beyond_the_range_of_the_type(name):
    # Gradients for upstream ones of 1 are infinite, those for the true ones are not.
    x, y = torch.full((2, 5, 3), 1.5e38), torch.full((2, 6, 3), -1.5e38)
    x[1], y[1] = 1, 2
    for factor in (0, 1e-3):
        ours = step(name, x, y, (True, True), torch.tensor([factor, 1.0]))
        assert ours[0][0].isinf()
        assert all(grad.isfinite().all() for grad in ours[1:])
        assert_same(ours, step("state", x, y, (True, True), torch.tensor([factor, 1.0])), torch.float32)
    a = x.clone().requires_grad_()
    with way(name):
        soft_dtw(a, y, zero_infinity=True).sum().backward()
    assert torch.equal(a.grad[0], torch.zeros(5, 3))
    assert a.grad[1].any()


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (1e-2, {"metric": "cityblock", "step_weights": (1e38, 1e38, 1e38)}),
        (1e-2, {"metric": "euclidean", "step_weights": (1e38, 1e38, 1e38)}),
        (1e-38, {"metric": "cosine"}),
        (1e38, {"gamma": 1e300}),
    ],
)
def test_gradients_beyond_the_range_of_finite_values(name, size, options):
    x, y = torch.zeros(1, 1, 2), torch.zeros(1, 8, 2)
    x[..., 0], y[..., 1] = size, -size if options.get("metric") == "cosine" else 0
    value, grad_x, _ = step("state", x, y, (True, True), torch.ones(1), **options)
    assert value.isfinite()
    assert grad_x.isinf().any()
    for factor in (0.0, 1e-3):
        upstream = torch.tensor([factor])
        ours, theirs = (step(of, x, y, (True, True), upstream, **options) for of in (name, "state"))
        assert_same(ours, theirs, torch.float32)


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("upstream", [torch.nan, torch.inf])
def test_padding_stays_zero(name, upstream):
    x, y = (t.detach() for t in pair("cpu"))
    lengths = {"x_lengths": torch.tensor([7, 3, 0]), "y_lengths": torch.tensor([4, 6, 5])}
    grad_value = torch.tensor([1.0, upstream, upstream], dtype=x.dtype)
    _, grad_x, grad_y = step(name, x, y, (True, True), grad_value, **lengths)
    assert not grad_x[1, :3].isfinite().any()
    assert not grad_y[1].isfinite().any()
    grad_x[1, :3], grad_y[1] = 0, 0
    assert grad_x.isfinite().all()
    assert not grad_x[2].any()
    assert not grad_y[2].any()
    assert not grad_y[0, 4:].any()


@pytest.mark.parametrize("name", WAYS)
def test_what_is_kept_serves_again(name):
    x, y = pair("cpu")
    with way(name):
        value = call(name, x, y)
        weights = torch.tensor([2.0, 3.0, 5.0], dtype=x.dtype)
        first = torch.autograd.grad(value, (x, y), weights, retain_graph=True)
        expected = [grad.clone() for grad in first]
        for grad in first:
            grad.zero_()  # what has been given away
        for again in (True, False):
            second = torch.autograd.grad(value, (x, y), weights, retain_graph=again)
            torch.testing.assert_close(second, tuple(expected), rtol=0, atol=0)
        with pytest.raises(RuntimeError, match="second time"):
            torch.autograd.grad(value, (x, y), weights)
        # One after the other, as of a graph with two ends.
        value = call(name, x, y)
        one = torch.autograd.grad(value, x, weights, retain_graph=True)[0]
        other = torch.autograd.grad(value, y, weights)[0]
        torch.testing.assert_close([one, other], expected, rtol=0, atol=0)


@pytest.mark.parametrize("name", WAYS)
def test_gradients_are_the_memory_that_was_kept(name):
    addresses = []
    x, y = pair("cpu")
    with torch.autograd.graph.saved_tensors_hooks(lambda t: addresses.append(t.data_ptr()) or t, lambda t: t):
        with way(name):
            value = call(name, x, y)
    value.sum().backward()
    assert x.grad.data_ptr() in addresses
    assert y.grad.data_ptr() in addresses


def node_of(value):
    """The node of soft-DTW behind a value, or behind a view of it."""
    node = value.grad_fn
    while not node.name().startswith(("SoftDtw", "_Reduced", "_Forward")):
        node = node.next_functions[0][0]
    return node


@pytest.mark.parametrize("name", WAYS)
def test_a_pass_behind_one_that_failed(name):
    # What the first one has multiplied is not multiplied again.
    def fail(*_):
        raise KeyError("of the hook")

    x, y = pair("cpu")
    weights = torch.tensor([2.0, 3.0, 5.0], dtype=x.dtype)
    with way(name):
        expected = torch.autograd.grad(call(name, x, y), (x, y), weights)
        for retain in (True, False):
            value = call(name, x, y)
            handle = node_of(value).register_hook(fail)
            with pytest.raises(KeyError, match="of the hook"):
                torch.autograd.grad(value, (x, y), weights, retain_graph=retain)
            handle.remove()
            if retain:
                again = torch.autograd.grad(value, (x, y), weights)
                torch.testing.assert_close(again, expected, rtol=0, atol=0)
            else:
                with pytest.raises(RuntimeError, match="second time"):
                    torch.autograd.grad(value, (x, y), weights)


@pytest.mark.parametrize("name", WAYS)
def test_inputs_that_change(name):
    x, y = pair("cpu")
    a = x * 1
    with way(name):
        value = call(name, a, y).sum()
        with torch.no_grad():
            a.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            value.backward()


@pytest.mark.parametrize("name", WAYS)
def test_what_is_kept(name):
    """Gradients of what needs one; of half types and given costs state."""
    sizes = []

    def pack(tensor):
        sizes.append((tensor.dtype, tuple(tensor.shape)))
        return tensor

    def kept(x, y, **options):
        sizes.clear()
        with way(name), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            call(name, x, y, **options)
        return sizes[2:]

    x, y = pair("cpu", torch.float32, (4, 40, 30, 2))
    of_x, of_y = ((t.dtype, tuple(t.shape)) for t in (x, y))
    assert kept(x, y) == [of_x, of_y]
    assert kept(x, y.detach()) == [of_x]
    assert kept(x.detach(), y, gamma=0) == [of_y]
    ((dtype, _),) = kept(x.half(), y.half())
    assert dtype == torch.uint8

    cost = torch.rand(4, 40, 30, requires_grad=True)
    sizes.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        soft_dtw(cost, metric="precomputed")
    assert sizes[0] == (torch.float32, (4, 40, 30))
    ((dtype, (state,)),) = sizes[1:]
    assert dtype == torch.uint8
    assert state < cost.numel()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_rounded_once(dtype):
    # A gradient of 1e-6 and one of 1e6 leave float16's range and precision, but for the scale of a loss.
    for size, scale in ((1e-7, 2.0**20), (3e4, 2.0**-12)):
        x, y = torch.full((1, 20, 2), size, dtype=dtype), torch.zeros(1, 20, 2, dtype=dtype)
        exact = step("state", x.float(), y.float(), (True, False), torch.tensor([scale]), gamma=size**2)[1]
        for name in WAYS:
            ours = step(name, x, y, (True, False), torch.tensor([scale]), gamma=size**2)[1]
            torch.testing.assert_close(ours, exact.to(dtype), rtol=torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_second_derivatives(needs):
    def second(name):
        x, y = (t.detach().requires_grad_(need) for t, need in zip(pair("cpu"), needs, strict=True))
        inputs = [t for t in (x, y) if t.requires_grad]
        with way(name):
            value = call(name, x, y, gamma=0.5)
            upstream = torch.tensor([1.0, -2.0, 0.5], dtype=x.dtype, requires_grad=True)
            first = torch.autograd.grad(value, inputs, upstream, create_graph=True)
            return *first, *torch.autograd.grad(sum((g**2).sum() for g in first), (*inputs, upstream))

    expected = second("state")
    for name in WAYS:
        torch.testing.assert_close(second(name), expected)


def test_operator_that_lacks_what_is_needed():
    x, y = (t.detach() for t in pair("cpu"))
    options, ones = (0.5, "sqeuclidean"), torch.ones(3, dtype=x.dtype)
    value, kept_x, kept_y = OPS.forward(x, y, None, None, *options, False, True, False)
    assert kept_x.shape == x.shape
    assert kept_y.numel() == 0
    expected = step("state", x, y, (True, True), ones, gamma=0.5)
    torch.testing.assert_close(value, expected[0])
    for kept in ((kept_x, kept_y), (kept_x, None), (None, None), (kept_x[:2], None)):
        got = OPS.backward(ones, x, y, None, None, *kept, *options, True, True)
        torch.testing.assert_close(got, expected[1:])
    only = OPS.backward(ones, x, y, None, None, kept_x, None, *options, False, True)
    torch.testing.assert_close(only[1], expected[2])


def test_compiled_programs_keep_them():
    x, y = pair("cpu", torch.float32)

    def loss(x, y):
        return soft_dtw(x, y, gamma=0.5, reduction="mean")

    compiled = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.dtype) or t, lambda t: t):
        value = compiled(x, y)
    assert torch.uint8 not in saved
    torch.testing.assert_close(grads(value, x, y), grads(loss(x, y), x, y))


def test_one_call_for_expected_costs(monkeypatch):
    x, y = (t.detach() for t in pair("cpu"))
    with way("state"):
        expected = sharp_soft_dtw(x, y, gamma=0.5)
    monkeypatch.setattr(_kernels._core.Plan, "forward", None)
    torch.testing.assert_close(sharp_soft_dtw(x, y, gamma=0.5), expected)


def test_threads_that_share_a_graph():
    x, y = pair("cpu", shape=(4, 30, 20, 2))
    loss = SoftDTW(gamma=0.5, reduction="mean")
    value = loss(x, y)
    expected = torch.autograd.grad(value, x, retain_graph=True)[0]
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(torch.autograd.grad, value, x, retain_graph=True) for _ in range(20)]
        for job in jobs:
            torch.testing.assert_close(job.result()[0], expected, rtol=0, atol=0)
