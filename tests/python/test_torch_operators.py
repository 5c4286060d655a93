# torch.ops.libsdtw: PyTorch's own checks of operators, and that whatever looks on sees them called.
import re
from pathlib import Path

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import libsdtw.torch
from libsdtw.torch import SoftDTW, soft_dtw
from libsdtw.torch._options import NO_RULES, key
from torch_data import grads, pair

OPS = torch.ops.libsdtw


GRAD_OF_NO_LEAF = "ignore:The .grad attribute of a Tensor that is not a leaf"  # opcheck's own, PyTorch 2.14


@pytest.mark.filterwarnings(GRAD_OF_NO_LEAF)
@pytest.mark.usefixtures("filled_memory")
def test_opcheck(device):
    x, y = pair(device)
    lengths = torch.tensor([7, 3, 5], device=device), torch.tensor([6, 4, 5], device=device)
    cost = torch.rand(2, 4, 5, device=device, requires_grad=True)
    for inputs in [(x, y, None, None), (x, y, *lengths), (cost, None, None, None)]:
        metric = "sqeuclidean" if inputs[1] is not None else "precomputed"
        for asked in ((True, False, False), (False, True, False), (False, True, inputs[1] is not None)):
            torch.library.opcheck(OPS.forward.default, (*inputs, 0.5, metric, *asked))
        plain = tuple(t.detach() if t is not None else None for t in inputs)
        value, *kept = OPS.forward(*plain, 0.5, metric, False, True, False)
        for given in (kept, (None, None)):
            torch.library.opcheck(
                OPS.backward.default, (torch.ones_like(value), *plain, *given, 0.5, metric, True, False)
            )
        tangents = [t if t is None else torch.randn_like(t) for t in plain[:2]]
        torch.library.opcheck(OPS.tangents.default, (torch.ones_like(value), *plain, *tangents, 0.5, metric))
        _, state, _ = OPS.forward(*plain, 0.5, metric, True, False, False)
        torch.library.opcheck(OPS.alignment.default, (*plain, state, 0.5, metric))
        torch.library.opcheck(OPS.forward.default, (*plain, 0.5, metric, False, False, False))


@pytest.mark.filterwarnings(GRAD_OF_NO_LEAF)
@pytest.mark.usefixtures("filled_memory")
@pytest.mark.parametrize("lengths", [None, [700, 300]])
def test_opcheck_with_a_band(device, lengths):
    x, y = pair(device, shape=(2, 700, 690, 1))
    if lengths is not None:
        lengths = torch.tensor(lengths, device=device)
    options = key("sqeuclidean", ("sakoe_chiba", 5, *NO_RULES[2:]))
    torch.library.opcheck(OPS.forward.default, (x, y, lengths, None, 0.5, options, True, False, False))


@pytest.mark.filterwarnings(GRAD_OF_NO_LEAF)
@pytest.mark.usefixtures("filled_memory")
@pytest.mark.parametrize("lengths", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_opcheck_of_all_pairs(device, symmetric, lengths):
    x, _ = pair(device, shape=(3, 5, 4, 2))
    _, y = pair(device, shape=(2, 5, 4, 2))
    of = [torch.tensor(n, device=device) if lengths else None for n in ([5, 0, 3], [4, 2])]
    inputs = (x, None, of[0], None) if symmetric else (x, y, *of)
    options = 0.5, "cityblock"
    torch.library.opcheck(OPS.all_pairs.default, (*inputs, *options))
    plain = tuple(None if t is None else t.detach() for t in inputs)
    ones = torch.ones(OPS.all_pairs(*plain, *options).shape, dtype=x.dtype, device=device)
    torch.library.opcheck(OPS.all_pairs_backward.default, (ones, *plain, *options, True, not symmetric))
    tangents = [t if t is None else torch.randn_like(t) for t in plain[:2]]
    torch.library.opcheck(OPS.all_pairs_tangents.default, (ones, *plain, *tangents, *options))


def test_compiles_without_a_graph_break(device):
    x, y = pair(device)
    loss = SoftDTW(gamma=0.5, reduction="mean")
    compiled = torch.compile(lambda x, y: loss(2 * x, y), fullgraph=True, backend="aot_eager")
    expected, value = loss(2 * x, y), compiled(x, y)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))


def test_private_interfaces_of_pytorch_are_in_one_file():
    private = re.compile(r"torch\._[A-Za-z]|from torch\.\S*_\w+ import|\b_C\.")
    for path in Path(libsdtw.torch.__file__).parent.glob("*.py"):
        lines = [line for line in path.read_text().splitlines() if private.search(line)]
        assert path.name == "_private.py" or not lines, f"{path}: {lines}"


class Record(TorchDispatchMode):
    """Names of the library's operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace == "libsdtw":
            self.names.append(func._opname)
        return func(*args, **(kwargs or {}))


def test_mode_sees_the_operators(device):
    x, y = pair(device)
    lengths = torch.tensor([7, 3, 5], device=device)
    expected = soft_dtw(x, y, x_lengths=lengths)
    with Record() as record:
        value = soft_dtw(x, y, x_lengths=lengths)
        assert record.names == ["forward"]
        results = value, *grads(value, x, y)
        assert record.names == ["forward", "backward"]
        soft_dtw(x.detach(), y.detach())
        assert record.names == ["forward", "backward", "forward"]
    # By way of the dispatcher or past it, in forward and backward, the numbers are the same.
    torch.testing.assert_close(results, (expected, *grads(expected, x, y)), rtol=0, atol=0)
    with Record() as record:
        grads(soft_dtw(x, y), x)
    assert record.names == ["forward", "backward"]


def test_fake_tensors_stay_fake():
    with FakeTensorMode() as mode:
        x, y = torch.zeros(3, 7, 2, requires_grad=True), torch.zeros(3, 6, 2)
        value = soft_dtw(x, y)
        assert isinstance(value, FakeTensor)
        assert grads(value, x)[0].shape == x.shape
    # A fake tensor outside of its mode is seen too.
    fake = mode.from_tensor(torch.zeros(3, 7, 2))
    assert isinstance(soft_dtw(fake, fake), FakeTensor)


def test_lengths_in_a_list_beside_fake_tensors():
    x, y = (t.detach() for t in pair("cpu"))
    lengths = [4] * len(x)
    expected = soft_dtw(x, y, x_lengths=lengths)
    with torch.device("meta"):  # as the default
        torch.testing.assert_close(soft_dtw(x, y, x_lengths=lengths), expected)
        with pytest.raises(ValueError, match="x_lengths has 99"):
            soft_dtw(x, y, x_lengths=[99] * len(x))
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in (x, y)]
        assert soft_dtw(*fakes, x_lengths=lengths).shape == expected.shape
    for mode in ("fake", "symbolic"):
        graph = make_fx(lambda x, y: soft_dtw(x, y, x_lengths=lengths), tracing_mode=mode)(x, y)
        torch.testing.assert_close(graph(x, y), expected)


def test_fx_trace_has_the_operators(device):
    x, y = pair(device)

    def gradient(x, y):
        return grads(soft_dtw(x, y, reduction="sum"), x)[0]

    graph = make_fx(gradient)(x, y)
    called = [str(node.target) for node in graph.graph.nodes if "libsdtw" in str(node.target)]
    assert called == ["libsdtw.forward.default", "libsdtw.backward.default"]
    others = [2 * t.detach().requires_grad_() for t in (x, y)]
    torch.testing.assert_close(graph(*others), gradient(*others))


@pytest.mark.filterwarnings("ignore:.torch.jit.", "ignore::torch.jit.TracerWarning")
def test_jit_trace_has_the_operator(device):
    x, y = (t.detach() for t in pair(device))
    traced = torch.jit.trace(lambda x, y: soft_dtw(x, y), (x, y))
    torch.testing.assert_close(traced(2 * x, y), soft_dtw(2 * x, y), rtol=0, atol=0)


class Named(torch.Tensor):
    """A subclass that hears of every function that is called on it."""

    called = ()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.called = (*cls.called, str(func))
        return super().__torch_function__(func, types, args, kwargs)


def test_subclass_sees_the_operator(device):
    x, y = (t.detach() for t in pair(device))
    value = soft_dtw(x, y.as_subclass(Named))
    assert isinstance(value, Named)
    assert "libsdtw.forward.default" in Named.called
    torch.testing.assert_close(value.as_subclass(torch.Tensor), soft_dtw(x, y), rtol=0, atol=0)


def test_parameters_and_operators_take_both_ways(device):
    x, y = pair(device)
    parameter = torch.nn.Parameter(x.detach().clone())
    by_function = soft_dtw(parameter, y)
    by_operator, *_ = OPS.forward(parameter, y, None, None, 1.0, "sqeuclidean", False, True, True)
    torch.testing.assert_close(by_operator, by_function, rtol=0, atol=0)
    torch.testing.assert_close(
        grads(by_operator, parameter, y), grads(by_function, parameter, y), rtol=0, atol=0
    )


def test_operator_that_is_not_asked_for_gradients_has_them(device):
    x, y = pair(device)
    value, *kept = OPS.forward(x, y, None, None, 1.0, "sqeuclidean", False, False, False)
    assert [t.numel() for t in kept] == [0, 0]
    torch.testing.assert_close(grads(value, x, y), grads(soft_dtw(x, y), x, y), rtol=0, atol=0)
