# libsdtw.torch.compat: the arguments and results of other packages.
import warnings

import numpy as np
import pytest
import torch

import oracle
from libsdtw.torch import soft_dtw, soft_dtw_divergence
from libsdtw.torch.compat import SoftDTW, SoftDTWLossPyTorch, pysdtw, softdtw_barycenter
from torch_data import grads, pair

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tslearn.metrics import SoftDTWLossPyTorch as TslearnLoss


def cityblock(x, y):
    return (x[:, :, None] - y[:, None]).abs().sum(-1)


@pytest.mark.parametrize(("gamma", "normalize"), [(0.5, False), (1.0, True)])
@pytest.mark.parametrize("shape", [(3, 7, 5, 2), (2, 6, 9, 1)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dist_func": cityblock},
        {"global_constraint": "sakoe_chiba"},
        {"global_constraint": "sakoe_chiba", "sakoe_chiba_radius": 2},
        {"sakoe_chiba_radius": 3},
        {"global_constraint": "itakura"},
        {"itakura_max_slope": 3.0},
    ],
)
def test_agrees_with_tslearn(gamma, normalize, shape, options):
    x, y = pair("cpu", shape=shape)
    theirs_x, theirs_y = (t.detach().clone().requires_grad_() for t in (x, y))
    theirs = TslearnLoss(gamma=gamma, normalize=normalize, **options)(theirs_x, theirs_y)
    ours = SoftDTWLossPyTorch(gamma=gamma, normalize=normalize, **options)(x, y)
    # tslearn's values and gradients pass through float32, whatever the input.
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(grads(ours, x, y), grads(theirs, theirs_x, theirs_y), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bandwidth", [None, 0, 2, 3.5])
@pytest.mark.parametrize("lengths", [(7, 7, 7), (7, 5, 7), (5, 5, 9), (7, 7, None), (7, 9, None)])
def test_agrees_with_pysdtw(lengths, bandwidth):
    theirs = pytest.importorskip("pysdtw")
    torch.manual_seed(0)
    rows, columns = lengths, [n or 9 for n in reversed(lengths)]
    x, y = (torch.randn(3, max(filter(None, of)), 2, requires_grad=True) for of in (rows, columns))
    given = []
    for t, of in ((x, rows), (y, columns)):
        series = [t[k, :n] for k, n in enumerate(of)]
        given.append(t if None in of else torch.nn.utils.rnn.pack_sequence(series, enforce_sorted=False))
    options = {
        "dist_func": lambda a, b: (a[:, :, None] - b[:, None]).square().sum(-1),
        "bandwidth": bandwidth,
    }
    want = theirs.SoftDTW(0.5, use_cuda=False, **options)(*given)
    for of_ours in (options, {"bandwidth": bandwidth}):
        ours = pysdtw.SoftDTW(0.5, **of_ours)(*given)
        torch.testing.assert_close(ours, want, rtol=1e-5, atol=1e-5)
        if bandwidth and rows != tuple(columns):  # their gradients are of another band there, and NaN
            continue
        got, expected = (torch.autograd.grad(v.sum(), (x, y), retain_graph=True) for v in (ours, want))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_pysdtw_beside_infinity(device):
    x, y = (t.detach().clone() for t in pair(device, shape=(1, 5, 6, 2)))
    x[0, 2, 1] = torch.inf
    for bandwidth in (None, 9):
        assert pysdtw.SoftDTW(1.0, bandwidth=bandwidth)(x, y).tolist() == [torch.inf]


def test_arguments_of_pysdtw(device):
    x, y = pair(device)
    expected = soft_dtw(x, y, gamma=0.1)
    for loss in (pysdtw.SoftDTW(0.1), pysdtw.SoftDTW(gamma=0.1, dist_func=None, use_cuda=False, bandwidth=0)):
        torch.testing.assert_close(loss(x, y), expected)
        torch.testing.assert_close(loss(X=x, Y=y), expected)
    torch.testing.assert_close(pysdtw.SoftDTW(dist_func=cityblock)(x, y), soft_dtw(x, y, metric=cityblock))
    banded = pysdtw.SoftDTW(1, cityblock, True, 3)
    for loss in (banded, pysdtw.SoftDTW(bandwidth=3)):
        assert torch.autograd.gradcheck(loss, (x, y))
    banded.bandwidth = 0
    torch.testing.assert_close(banded(x, y), soft_dtw(x, y, metric=cityblock))
    with pytest.raises(ValueError, match=r"X and Y have shapes \(3, 7, 2\) and \(2, 6, 2\)"):
        banded(x, y[:2])
    with pytest.raises(ValueError, match=r"X has shape \(7, 2\): expected \(B, N, D\)"):
        banded(x[0], y)
    with pytest.raises(TypeError, match="Y is a list: expected a tensor or a PackedSequence"):
        banded(x, [y[0]])
    with pytest.raises(ValueError, match="gamma is -1"):
        pysdtw.SoftDTW(-1)
    with pytest.raises(TypeError, match="bandwidth is 'a'"):
        pysdtw.SoftDTW(bandwidth="a")


def test_arguments_of_both_packages(device):
    x, y = pair(device)
    expected = soft_dtw(x, y, gamma=0.1)
    use_cuda = device.type == "cuda"
    for loss in (
        SoftDTW(use_cuda, 0.1),
        SoftDTW(use_cuda=use_cuda, gamma=0.1, normalize=False, bandwidth=None, dist_func=None),
        SoftDTW(gamma=0.1, bandwidth=None, normalize=False, dist="sqeuclidean", fused=None),
        SoftDTW(gamma=0.1, fused=True, bandwidth=0),
    ):
        torch.testing.assert_close(loss(x, y), expected)
        assert loss(x[:1], y[:1]).shape == loss(x[0], y[0]).shape == (1,)
        torch.testing.assert_close(loss(X=x, Y=y), expected)
    torch.testing.assert_close(SoftDTW(normalize=True)(x, y), soft_dtw_divergence(x, y))
    torch.testing.assert_close(SoftDTW(dist_func=cityblock)(x, y), soft_dtw(x, y, metric=cityblock))


@pytest.mark.parametrize("bandwidth", [1, 2.0, 3])
def test_bandwidth(device, bandwidth):
    x, y = pair(device)
    value = SoftDTW(gamma=0.5, bandwidth=bandwidth)(x, y)
    for b in range(3):
        cost = oracle.costs("sqeuclidean", *(t.detach()[b].cpu().numpy() for t in (x, y)))
        expected = oracle.solve(cost, oracle.Rules(0.5, "absolute", bandwidth)).value
        assert value[b].item() == pytest.approx(expected, rel=1e-9)
    assert all(g.isfinite().all() for g in grads(value, x, y))
    assert torch.autograd.gradcheck(SoftDTW(gamma=0.5, bandwidth=bandwidth), (x, y))


def test_bandwidth_may_be_changed():
    x, y = pair("cpu")
    loss = SoftDTW(bandwidth=2)
    for loss.bandwidth in (0, None, -1.0):
        torch.testing.assert_close(loss(x, y), soft_dtw(x, y), rtol=0, atol=0)
    loss.bandwidth = 3
    torch.testing.assert_close(loss(x, y), SoftDTW(bandwidth=3)(x, y), rtol=0, atol=0)


def test_unreachable_corner_of_a_band(device):
    x, y = pair(device, shape=(2, 9, 5, 2))
    value = SoftDTW(bandwidth=2)(x, y)
    assert value.isposinf().all()
    assert not any(g.any() for g in grads(value, x, y))


def test_barycenter(device):
    x, _ = pair(device, torch.float32)
    average = softdtw_barycenter(x.detach(), gamma=0.5, max_iter=60, lr=0.1, verbose=False, fused=None)
    assert average.shape == (7, 2)

    def loss(average):
        return soft_dtw(average, x.detach(), gamma=0.5).mean()

    assert loss(average) < loss(x.detach().mean(0))


def test_scale_of_weights_has_no_say(device):
    x = pair(device)[0].detach()
    weights = torch.tensor([1.0, 2.0, 3.0], device=device)
    average, tiny = (softdtw_barycenter(x, weights=scale * weights) for scale in (1, 2.0**-30))
    torch.testing.assert_close(average, tiny, rtol=0, atol=0)
    assert not torch.equal(average, softdtw_barycenter(x, weights=weights, max_iter=0))


def test_barycenter_takes_the_arguments_of_the_other_alone(device):
    x = pair(device, torch.float32)[0].detach()
    assert softdtw_barycenter(x, max_iter=1, early_stopping=True, patience=3, tol=1e-3).shape == (7, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'gama'"):
        softdtw_barycenter(x, gama=100.0)


def test_what_is_refused():
    with pytest.raises(ValueError, match="dist is 'cosine': expected 'sqeuclidean'"):
        SoftDTW(dist="cosine")
    with pytest.raises(ValueError, match="gamma is -1"):
        SoftDTW(gamma=-1)
    for gamma in (0.1, 1.0, 10):
        with pytest.raises(TypeError, match=f"use_cuda is {gamma}: expected True or False; gamma, the"):
            SoftDTW(gamma)
    with pytest.raises(ValueError, match="global_constraint is 'band'"):
        SoftDTWLossPyTorch(global_constraint="band")
    with pytest.raises(ValueError, match="sakoe_chiba_radius is 2 and itakura_max_slope 3 without global_"):
        SoftDTWLossPyTorch(sakoe_chiba_radius=2, itakura_max_slope=3)
    with pytest.raises(ValueError, match="sakoe_chiba_radius is -1: expected a finite number >= 0, or None"):
        SoftDTWLossPyTorch(sakoe_chiba_radius=-1)
    with pytest.raises(
        ValueError, match=r"itakura_max_slope is 0\.5: expected a finite number >= 1, or None"
    ):
        SoftDTWLossPyTorch(global_constraint="itakura", itakura_max_slope=0.5)
    with pytest.raises(TypeError, match="bandwidth is '5': expected a finite number, or None"):
        SoftDTW(bandwidth="5")
    with pytest.raises(ValueError, match="bandwidth is nan: expected a finite number, or None"):
        SoftDTW(bandwidth=float("nan"))
    with pytest.raises(TypeError, match="X is a list: expected a tensor"):
        softdtw_barycenter([torch.zeros(5, 1)], device="cpu")
    with pytest.raises(ValueError, match=r"expected \(B, N, D\) and \(B, M, D\)"):
        SoftDTW()(torch.zeros(2, 5, 1), torch.zeros(3, 5, 1))
    with pytest.raises(TypeError, match="x is a ndarray"):
        SoftDTW()(np.zeros((2, 5, 1)), torch.zeros(2, 5, 1))
