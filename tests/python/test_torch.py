# libsdtw.torch: values and gradients, reductions, lengths, strides, what autograd asks for.
import numpy as np
import pytest
import torch

import libsdtw
import libsdtw.numpy
from libsdtw.torch import SoftDTW, soft_dtw, soft_dtw_alignment, soft_dtw_cdist
from torch_data import grads, pair


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [0.1, 1, 10.0])
def test_agrees_with_numpy(device, dtype, gamma):
    x, y = pair(device, dtype, (5, 40, 33, 3))
    value = soft_dtw(x, y, gamma=gamma)
    arrays = [t.detach().cpu().numpy() for t in (x, y)]
    expected = libsdtw.numpy.soft_dtw_grad(*arrays, gamma=gamma)
    alignment = soft_dtw_alignment(x, y, gamma=gamma)
    results = [value, *grads(value, x, y), alignment]
    assert all(t.dtype == dtype and t.device == x.device for t in results)
    expected = [*expected, libsdtw.numpy.soft_dtw_alignment(*arrays, gamma=gamma)]
    tolerance = 1e-10 if dtype == torch.float64 else 2e-5
    for ours, want in zip(results, expected, strict=True):
        torch.testing.assert_close(
            ours.detach().cpu(), torch.from_numpy(want), rtol=0, atol=tolerance * np.abs(want).max()
        )


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_gradcheck(device, gamma):
    x, y = pair(device)
    lengths = {
        "x_lengths": torch.tensor([7, 3, 0]).to(device),
        "y_lengths": torch.tensor([6, 4, 0]).to(device),
    }
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, gamma=gamma), (x, y))
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, gamma=gamma, **lengths), (x, y))
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, gamma=gamma, reduction="mean"), (x, y))
    cost = torch.rand(2, 4, 5, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, gamma=gamma, metric="precomputed"), (cost,))
    one = y[:1].detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, gamma=gamma), (x, one))


def test_shapes(device):
    x, y = pair(device)
    assert soft_dtw(x, y).shape == (3,)
    assert soft_dtw(x[0], y[0]).shape == ()
    assert soft_dtw(x[0, :, 0], y[0, :, 0]).shape == ()
    assert soft_dtw(x, y[0]).shape == (3,)
    assert soft_dtw(x[:0], y[:0]).shape == (0,)
    assert soft_dtw_alignment(x, y).shape == (3, 7, 6)
    assert soft_dtw_alignment(x[0], y[0]).shape == (7, 6)
    torch.testing.assert_close(soft_dtw(x[1], y[1]), soft_dtw(x, y)[1])
    torch.testing.assert_close(soft_dtw(x[0, :, 0], y[0, :, 0]), soft_dtw(x[0, :, :1], y[0, :, :1]))


def test_one_series_is_paired_with_all(device):
    x, y = pair(device)
    one = y[:1].detach().requires_grad_()
    repeated = one.detach().repeat(3, 1, 1).requires_grad_()
    shared, separate = soft_dtw(x, one), soft_dtw(x, repeated)
    torch.testing.assert_close(shared, separate)
    torch.testing.assert_close(grads(shared, one)[0], grads(separate, repeated)[0].sum(0, keepdim=True))


def test_reductions(device):
    x, y = pair(device)
    values = soft_dtw(x, y)
    weights = torch.tensor([0.5, -2.0, 0.0], dtype=x.dtype, device=device)
    each = torch.stack([grads(soft_dtw(x[b], y[b]), x)[0][b] for b in range(3)])
    for reduction, reduced, factor in [("mean", values.mean(), 1 / 3), ("sum", values.sum(), 1.0)]:
        value = soft_dtw(x, y, reduction=reduction)
        torch.testing.assert_close(value, reduced)
        torch.testing.assert_close(grads(value, x)[0], factor * each)
    weighted = torch.autograd.grad(values, x, weights)[0]
    torch.testing.assert_close(weighted, weights[:, None, None] * each)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_lengths(device, dtype):
    x, y = pair(device)
    n, m = [7, 2, 5], [1, 6, 3]
    value = soft_dtw(
        x, y, x_lengths=torch.tensor(n, dtype=dtype).to(device), y_lengths=torch.tensor(m).to(device)
    )
    grad_x, grad_y = grads(value, x, y)
    for b in range(3):
        alone = soft_dtw(x[b, : n[b]], y[b, : m[b]])
        torch.testing.assert_close(value[b], alone)
        expected_x, expected_y = grads(alone, x, y)
        torch.testing.assert_close(grad_x[b], expected_x[b])
        torch.testing.assert_close(grad_y[b], expected_y[b])
    spaced = torch.tensor([7, 0, 2, 0, 5, 0], dtype=dtype).to(device)[::2]
    torch.testing.assert_close(soft_dtw(x, y, x_lengths=spaced, y_lengths=torch.tensor(m).to(device)), value)
    everywhere = torch.tensor(4, dtype=dtype).to(device)
    torch.testing.assert_close(soft_dtw(x, y, x_lengths=everywhere), soft_dtw(x[:, :4], y))


def test_lengths_out_of_range(device):
    # An error where the host can read them; where it would have to wait, NaN.
    x, y = pair(device)
    lengths = torch.tensor([8, 7, -1]).to(device)
    if device.type == "cpu":
        with pytest.raises(ValueError, match=r"x_lengths\[0\] is 8: expected lengths in \[0, 7\]"):
            soft_dtw(x, y, x_lengths=lengths)
    else:
        value = soft_dtw(x, y, x_lengths=lengths)
        assert value.isnan().tolist() == [True, False, True]
        assert grads(value, x)[0].isnan().any(-1).any(-1).tolist() == [True, False, True]
    with pytest.raises(ValueError, match="x_lengths"):
        soft_dtw(x, y, x_lengths=lengths, check_lengths=True)
    inside = lengths.clamp(0, 7)
    torch.testing.assert_close(
        soft_dtw(x, y, x_lengths=inside, check_lengths=True), soft_dtw(x, y, x_lengths=inside)
    )


def test_strides(device):
    x, y = pair(device)
    expected = soft_dtw(x, y)
    expected_grads = grads(expected, x, y)
    transposed = x.detach().permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    spaced = torch.full((3, 12, 4), float("nan"), dtype=x.dtype, device=device)[:, ::2, 1::2].copy_(
        y.detach()
    )
    spaced.requires_grad_()
    assert not transposed.is_contiguous()
    assert not spaced.is_contiguous()
    value = soft_dtw(transposed, spaced)
    torch.testing.assert_close(value, expected, rtol=0, atol=0)
    torch.testing.assert_close(grads(value, transposed, spaced), expected_grads, rtol=0, atol=0)
    constant = torch.ones(3, 1, 1, dtype=x.dtype, device=device).expand(3, 6, 2)
    torch.testing.assert_close(soft_dtw(x, constant), soft_dtw(x, constant.contiguous()), rtol=0, atol=0)


def test_threads_change_nothing():
    x, y = pair("cpu", torch.float32, (7, 300, 200, 3))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            value = soft_dtw(x, y)
            results.append((value, *grads(value, x, y)))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=0, atol=0)


@pytest.mark.usefixtures("python_way")
def test_only_the_gradients_that_are_needed(device, monkeypatch):
    calls = []
    x, y = pair(device)
    name = "value_and_gradients" if x.is_cpu else "backward"
    run = getattr(libsdtw._core.Plan, name)

    def spy(*args):
        calls.append(tuple(grad is not None for grad in args[6:8]))
        run(*args)

    monkeypatch.setattr(libsdtw._core.Plan, name, spy)
    both = grads(soft_dtw(x, y), x, y)
    torch.testing.assert_close(grads(soft_dtw(x, y.detach()), x)[0], both[0], rtol=0, atol=0)
    torch.testing.assert_close(grads(soft_dtw(x.detach(), y), y)[0], both[1], rtol=0, atol=0)
    assert calls == [(True, True), (True, False), (False, True)]


@pytest.mark.usefixtures("python_way")
def test_nothing_kept_without_gradients(device, monkeypatch):
    kept = []

    def spy_on(name, keeps):
        run = getattr(libsdtw._core.Plan, name)

        def spy(*args):
            kept.append(keeps(args))
            run(*args)

        monkeypatch.setattr(libsdtw._core.Plan, name, spy)

    spy_on("forward", lambda args: "state" if args[6] is not None else None)
    spy_on("value_and_gradients", lambda args: "gradients")
    x, y = pair(device)
    with torch.no_grad():
        assert not soft_dtw(x, y).requires_grad
    assert not soft_dtw(x.detach(), y.detach()).requires_grad
    assert soft_dtw(x, y).requires_grad
    assert soft_dtw(x.half(), y.half()).requires_grad
    assert kept == [None, None, "gradients" if x.is_cpu else "state", "state"]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_repeated_calls_of_other_kinds(device, reduction):
    # What a table of checked calls must not confuse: types, lengths, options, and what needs gradients.
    x, y = pair(device)
    lengths = torch.tensor([7, 3, 5], device=device)
    reduce = {"none": lambda v: v, "mean": torch.mean, "sum": torch.sum}[reduction]
    for _ in range(2):
        for dtype in (torch.float32, torch.float64):
            a, b = (t.detach().to(dtype).requires_grad_() for t in (x, y))
            for given in ({}, {"gamma": 2}, {"x_lengths": lengths}, {"x_lengths": lengths.int()}):
                for wanted in ((a, b), (a,), (b,)):
                    value = soft_dtw(a, b, reduction=reduction, **given)
                    expected = reduce(soft_dtw(a[:, None], b[:, None], **_with_axis(given))[:, 0])
                    torch.testing.assert_close(value, expected)
                    torch.testing.assert_close(grads(value, *wanted), grads(expected, *wanted))
                torch.testing.assert_close(soft_dtw(a.detach(), b, reduction=reduction, **given), value)
        with pytest.raises(TypeError, match="gamma is True"):
            soft_dtw(x, y, gamma=True, reduction=reduction)
        with pytest.raises(TypeError, match="x has layout"):
            soft_dtw(x.detach().to_sparse(), y, reduction=reduction)


def _with_axis(given):
    return given | ({"x_lengths": given["x_lengths"][:, None]} if "x_lengths" in given else {})


def test_views_that_negate(device):
    # imag of a conjugate says of its memory that its numbers are to be negated.
    z = torch.randn(2, 5, 3, dtype=torch.complex128, device=device)
    x, (_, y) = z.conj().imag, pair(device, shape=(2, 5, 4, 3))
    assert x.is_neg()
    torch.testing.assert_close(soft_dtw(x, y), soft_dtw(x.resolve_neg(), y))
    upstream = torch.randn(2, dtype=torch.complex128, device=device).conj().imag
    value = soft_dtw(x.resolve_neg(), y)
    expected = torch.autograd.grad(value, y, upstream.resolve_neg(), retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(value, y, upstream), expected)
    torch.testing.assert_close(soft_dtw_cdist(x, y), soft_dtw_cdist(x.resolve_neg(), y))


def test_retain_graph_and_accumulation(device):
    x, y = pair(device)
    value = soft_dtw(x, y).sum()
    first = torch.autograd.grad(value, x, retain_graph=True)[0]
    torch.testing.assert_close(torch.autograd.grad(value, x, retain_graph=True)[0], first, rtol=0, atol=0)
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()
    soft_dtw(x, y).sum().backward()
    torch.testing.assert_close(x.grad, 2 * first)


def test_input_changed_in_place_is_noticed(device):
    x, y = pair(device)
    value = soft_dtw(2 * x, y.detach().clone().requires_grad_())
    scaled = 2 * x
    value = soft_dtw(scaled, y).sum()
    scaled.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()


def test_unbroken_gradient_of_a_graph(device):
    # The gradient reaches what x was computed from, through a reduction with an expanded upstream gradient.
    weight = torch.ones(2, dtype=torch.float64, device=device, requires_grad=True)
    x, y = pair(device)
    soft_dtw(x.detach() * weight, y.detach(), reduction="sum").backward()
    expected = (grads(soft_dtw(x, y), x)[0] * x).sum((0, 1))
    torch.testing.assert_close(weight.grad, expected.detach())


def test_module(device):
    loss = SoftDTW(gamma=0.5, reduction="sum")
    assert repr(loss) == "SoftDTW(gamma=0.5, metric='sqeuclidean', reduction='sum')"
    assert loss.state_dict() == {}
    assert list(loss.parameters()) == []
    x, y = pair(device)
    lengths = torch.tensor([7, 2, 5]).to(device)
    expected = soft_dtw(x, y, gamma=0.5, reduction="sum", x_lengths=lengths)
    torch.testing.assert_close(loss.to(device)(x, y, lengths), expected)
    cost = torch.rand(2, 4, 5, device=device)
    torch.testing.assert_close(
        SoftDTW(metric="precomputed")(cost), soft_dtw(cost, metric="precomputed"), rtol=0, atol=0
    )


def test_training_descends(device):
    # What a user does: an optimiser moves x until it aligns with y.
    _, y = pair(device, torch.float32)
    x = torch.zeros(3, 7, 2, device=device, requires_grad=True)
    optimiser, loss = torch.optim.Adam([x], lr=0.1), SoftDTW(gamma=0.1, reduction="mean")
    values = []
    for _ in range(60):
        optimiser.zero_grad()
        value = loss(x, y.detach())
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert values[-1] < 0.1 * values[0]
