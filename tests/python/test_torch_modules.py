# SoftDTW as a part of programs: copies, workers, checkpoints. Several devices: test_torch_training.py.
import copy
import io
import pickle

import pytest
import torch
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from libsdtw.torch import SoftDTW, pad, soft_dtw
from torch_data import grads, pair


def distance(x, y):
    return torch.cdist(x, y)


@pytest.mark.parametrize("loss", [
    SoftDTW(gamma=0.5, reduction="mean", normalize=True, zero_infinity=True),
    SoftDTW(metric=distance),
    SoftDTW(gamma=torch.nn.Parameter(torch.tensor(0.5))),
    SoftDTW(gamma=torch.tensor(0.5)),
])  # fmt: skip
def test_copies(loss):
    x, y = pair("cpu", torch.float32)
    expected = loss(x, y)
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    for other in (
        copy.deepcopy(loss),
        pickle.loads(pickle.dumps(loss)),
        torch.load(file, weights_only=False),
    ):
        torch.testing.assert_close(other(x, y), expected, rtol=0, atol=0)
        assert repr(other) == repr(loss)
        other.load_state_dict(loss.state_dict())


class Distance(torch.nn.Module):
    """A cost that is learned, and that counts its calls as BatchNorm does."""

    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout())
        self.calls = 0

    def forward(self, x, y):
        self.calls += 1
        return torch.cdist(self.net(x), self.net(y))


def test_a_metric_that_is_a_module_is_called_once():
    x, y = (t.detach() for t in pair("cpu", torch.float32))
    metric = Distance()
    loss = SoftDTW(metric=metric, reduction="mean")
    assert list(loss.parameters()) == list(metric.parameters())
    for call, function in enumerate((loss, lambda x, y: soft_dtw(x, y, metric=metric)), 1):
        torch.manual_seed(0)
        value = function(x, y)
        assert metric.calls == call
        torch.manual_seed(0)
        expected = soft_dtw(torch.cdist(metric.net(x), metric.net(y)), metric="precomputed")
        torch.testing.assert_close(value.mean(), expected.mean(), rtol=0, atol=0)


def test_gamma_may_be_a_number_or_a_tensor():
    x, y = pair("cpu")
    loss = SoftDTW(gamma=torch.tensor(0.5))
    learned = torch.nn.Parameter(torch.tensor(0.3, dtype=torch.float64))
    for gamma in (0.7, torch.tensor(0.25), learned, 2, torch.tensor(1.5), torch.tensor(0.75), learned, 0.1):
        loss.gamma = gamma
        torch.testing.assert_close(loss(x, y), soft_dtw(x, y, gamma=gamma))
        assert list(loss.parameters()) == [learned] * (gamma is learned)
        assert list(loss.state_dict()) == ["gamma"] * (gamma is learned)
        assert len(list(loss.buffers())) == (isinstance(gamma, torch.Tensor) and gamma is not learned)
        torch.testing.assert_close(copy.deepcopy(loss)(x, y), loss(x, y))


def test_gamma_with_a_parametrization():
    class Exponential(torch.nn.Module):
        def forward(self, logarithm):
            return logarithm.exp()

        def right_inverse(self, gamma):
            return gamma.log()

    x, y = pair("cpu")
    for gamma in (torch.nn.Parameter(torch.tensor(0.5)), torch.tensor(0.5)):
        loss = SoftDTW(gamma=gamma)
        parametrize.register_parametrization(loss, "gamma", Exponential())
        torch.testing.assert_close(loss(x, y), soft_dtw(x, y, gamma=0.5))
        loss.gamma = torch.tensor(0.25)
        torch.testing.assert_close(loss(x, y), soft_dtw(x, y, gamma=0.25))
        assert loss.parametrizations.gamma.original.exp() == 0.25
        parametrize.remove_parametrizations(loss, "gamma")
        loss.gamma = 0.7
        torch.testing.assert_close(loss(x, y), soft_dtw(x, y, gamma=0.7))


def test_of_no_device_yet():
    loss = SoftDTW(gamma=torch.nn.Parameter(torch.tensor(0.5))).to("meta")
    assert repr(loss).startswith("SoftDTW(gamma=meta,")
    x, y = torch.zeros(2, 5, 3, device="meta"), torch.zeros(2, 4, 3, device="meta")
    assert loss(x, y).shape == (2,)
    for lengths in (None, torch.zeros(2, dtype=torch.int64, device="meta")):
        (grad,) = torch.autograd.grad(SoftDTW(reduction="mean")(x.requires_grad_(), y, lengths), x)
        assert grad.is_meta
        assert grad.shape == x.shape


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_script_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.script .*torch\.compile or torch\.export"):
        torch.jit.script(SoftDTW())
    with pytest.raises(NotImplementedError, match=r"torch\.compile"):
        torch.jit.script(torch.nn.Sequential(SoftDTW()))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing(device, use_reentrant):
    x, y = pair(device)
    expected = soft_dtw(2 * x, y)
    value = checkpoint(lambda x, y: soft_dtw(2 * x, y), x, y, use_reentrant=use_reentrant)
    value.sum().backward()
    torch.testing.assert_close((x.grad, y.grad), grads(expected, x, y), rtol=0, atol=0)


def test_deterministic_algorithms(device):
    x, y = pair(device)
    expected = soft_dtw(x, y)
    torch.use_deterministic_algorithms(True)
    try:
        value = soft_dtw(x, y)
        results = value, *grads(value, x, y)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(results, (expected, *grads(expected, x, y)), rtol=0, atol=0)


class Pairs(Dataset):
    """Each item has the value of its pair, computed by the worker."""

    def __len__(self):
        return 6

    def __getitem__(self, k):
        rng = torch.Generator().manual_seed(k)
        x, y = torch.randn(5 + k, 2, generator=rng), torch.randn(4, 2, generator=rng)
        return x, y, soft_dtw(x, y)


def collate(items):
    x, y, values = zip(*items, strict=True)
    return *pad(x), torch.stack(y), torch.stack(values)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader():
    soft_dtw(*pair("cpu"))  # the parent has threads of its own
    for x, lengths, y, values in DataLoader(Pairs(), batch_size=3, num_workers=2, collate_fn=collate):
        torch.testing.assert_close(soft_dtw(x, y, x_lengths=lengths), values)
