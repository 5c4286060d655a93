# Which device the memory of a call is on, and of which GPU its plans are.
import contextlib

import pytest
import torch

from libsdtw import _core
from libsdtw.torch import SoftDTW, _direct, _kernels, soft_dtw
from torch_data import grads, pair


def test_plans_are_of_their_gpu(monkeypatch):
    # The default stream of each GPU has the address 0, and sizes are those of the GPU that is current.
    current, made = [-1], []

    @contextlib.contextmanager
    def on(device):
        before, current[0] = current[0], device
        yield
        current[0] = before

    def plan(problem, exec_):
        made.append(current[0])
        return object()

    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(_core, "Plan", plan)
    shape = torch.Size((2, 7, 3))
    options = shape, torch.float32, None, 1.25, "sqeuclidean"
    _kernels.plan.cache_clear()
    try:
        plans = [_kernels.plan(shape, *options, gpu, 0, 0, True, False) for gpu in (0, 1, 0, 1)]
    finally:
        _kernels.plan.cache_clear()  # of what are no plans
    assert made == [0, 1]
    assert plans[0] is plans[2]
    assert plans[1] is plans[3]
    assert plans[0] is not plans[1]


def test_plans_of_two_gpus(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("PyTorch sees one GPU")
    x, y = pair("cuda:0", torch.float32, (4, 200, 150, 3))
    expected = soft_dtw(x, y), *grads(soft_dtw(x, y), x, y)
    # Plans of the second GPU are made while the first is current, and the other way round.
    for here, there in ((0, 1), (1, 0)):
        _kernels.plan.cache_clear()
        _direct._calls.clear()
        with torch.cuda.device(here):
            a, b = (t.detach().to(f"cuda:{there}").requires_grad_() for t in (x, y))
            for call in (soft_dtw, SoftDTW()):
                value = call(a, b)
                for ours, want in zip((value, *grads(value, a, b)), expected, strict=True):
                    assert ours.get_device() == there
                    torch.testing.assert_close(ours.cpu(), want.cpu())
            assert torch.cuda.current_device() == here
    plans = [
        _kernels.plan_for(x.to(f"cuda:{k}"), y.to(f"cuda:{k}"), None, 1.0, "sqeuclidean") for k in (0, 1)
    ]
    assert plans[0] is not plans[1]


def elsewhere(tensor):
    """The tensor on a device that it is not on: "meta", which has no memory."""
    return tensor.to("meta")


@pytest.mark.parametrize("saved", ["x", "lengths", "gradient"])
@pytest.mark.parametrize("native", [True, False])
def test_hooks_that_give_back_another_device(monkeypatch, native, saved):
    if not native:
        monkeypatch.setattr(_direct, "native", None)
    elif _direct.native is None:
        pytest.skip("the extension is not built")
    x, y = pair("cpu", shape=(3, 7, 6, 2))
    lengths = torch.tensor([7, 3, 5])
    wanted = {
        "x": lambda t: t.shape == x.shape and t.requires_grad,
        "lengths": lambda t: t.dtype == torch.int64,
        "gradient": lambda t: t.shape == y.shape and not t.requires_grad,
    }

    def unpack(tensor):
        return elsewhere(tensor) if wanted[saved](tensor) else tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        value = soft_dtw(x, y, x_lengths=lengths).sum()
    message = r"hook of saved tensors gave .*expected .*cpu.*, as it was saved"
    with pytest.raises(RuntimeError, match=f"(?s){message}"):
        value.backward()


def test_hooks_that_give_back_lengths_on_another_device():
    x, y = pair("cpu", shape=(3, 7, 6, 2))

    def unpack(tensor):
        return elsewhere(tensor) if tensor.dtype == torch.int64 else tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        value = soft_dtw(x, y, x_lengths=torch.tensor([7, 3, 5]), normalize=True)
    with pytest.raises(ValueError, match="x_lengths is on device meta and x on cpu: expected the same"):
        value.backward(torch.full_like(value, 1e300))  # beyond what is multiplied


def test_operators_on_two_devices():
    x, y = (t.detach() for t in pair("cpu", shape=(3, 7, 6, 2)))
    lengths, ones = torch.tensor([7, 3, 5]), torch.ones(3, dtype=x.dtype)
    options = 1.0, "sqeuclidean"
    state = _kernels.forward(x, y, None, None, *options, True, False, False)[1]
    for name, kernel, args in [
        ("y", "forward", (x, elsewhere(y), None, None, *options, False, False, False)),
        ("y_lengths", "all_pairs", (x, y, lengths, elsewhere(lengths), *options)),
        ("kept_x", "backward", (ones, x, y, None, None, elsewhere(x), y, *options, True, True)),
        ("grad_value", "backward", (elsewhere(ones), x, y, None, None, x, y, *options, True, True)),
        ("state", "alignment", (x, y, None, None, elsewhere(state), *options)),
        ("tangent_y", "tangents", (ones, x, y, None, None, x, elsewhere(y), *options)),
        ("grad_value", "all_pairs_backward", (elsewhere(ones), x, y, None, None, *options, True, True)),
        ("tangent_x", "all_pairs_tangents", (ones, x, y, None, None, elsewhere(x), y, *options)),
    ]:
        with pytest.raises(ValueError, match=f"{name} is on device meta and x on cpu: expected the same"):
            _kernels.KERNELS[kernel](*args)
