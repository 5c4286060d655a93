# libsdtw.torch: types, gamma as a tensor, metrics that are functions, divergences, expected costs.
import functools
import math

import numpy as np
import pytest
import torch
from tslearn.metrics import soft_dtw as tslearn_soft_dtw

import oracle
from libsdtw import _core
from libsdtw.torch import (
    SoftDTW,
    _costs,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
)
from torch_data import grads, pair


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types(device, dtype):
    x, y = (t.detach().to(dtype).requires_grad_() for t in pair(device))
    wide = [t.detach().float().requires_grad_() for t in (x, y)]
    value, expected = soft_dtw(x, y, gamma=0.5), soft_dtw(*wide, gamma=0.5)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, expected, rtol=0, atol=0)
    for ours, want in zip(grads(value, x, y), grads(expected, *wide), strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours, want.to(dtype), rtol=0, atol=0)
    expected = soft_dtw_alignment(*wide, gamma=0.5).detach().to(dtype)
    torch.testing.assert_close(soft_dtw_alignment(x.detach(), y.detach(), gamma=0.5), expected)
    torch.testing.assert_close(soft_dtw_alignment(x, y, gamma=0.5).detach(), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_costs_of_halves_are_no_halves(device, dtype):
    # Where the matrix of costs is held: squares of 300 are beyond float16.
    x, y = ((300 * t.detach()).to(dtype) for t in pair(device))
    wide = x.double(), y.double()
    gamma = torch.tensor(0.5, device=device, requires_grad=True)
    for function in (
        lambda x, y: soft_dtw_alignment(x.clone().requires_grad_(), y, gamma=2e4),
        lambda x, y: soft_dtw_with_alignment(x.clone().requires_grad_(), y)[0],
        lambda x, y: soft_dtw_divergence(x, y, kind="mean_cost"),
        lambda x, y: sharp_soft_dtw(x, y, metric="cosine"),
        lambda x, y: soft_dtw(x, y, metric="cosine", gamma=gamma),
        lambda x, y: soft_dtw(x, y, gamma=gamma, step_penalties=(0, 1, 1)),
    ):
        value, expected = function(x, y).detach(), function(*wide).detach()
        assert value.dtype == (dtype if value.ndim == 3 else torch.float32)
        torch.testing.assert_close(value, expected.to(value.dtype), rtol=2e-6, atol=1e-5)


def differences(x, y):
    return (x - y.mT).abs()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_expected_costs_of_halves(device, dtype):
    # Whole numbers, whose differences halves hold exactly.
    x, y = ((8 * t.detach()).round().to(dtype) for t in pair(device, shape=(3, 9, 8, 1)))
    for function, *given in (
        (sharp_soft_dtw, x, y),
        (functools.partial(sharp_soft_dtw, metric="precomputed"), differences(x, y)),
        (functools.partial(soft_dtw_divergence, metric=differences, kind="sharp"), x, y),
        (functools.partial(soft_dtw_divergence, metric=differences, kind="mean_cost"), x, y),
    ):
        function = functools.partial(function, gamma=5.0)
        halves, wide = ([t.to(of).requires_grad_() for t in given] for of in (dtype, torch.float32))
        value, expected = function(*halves), function(*wide)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, expected, rtol=2e-6, atol=1e-5)
        if function.func is sharp_soft_dtw:  # a divergence adds up gradients of its terms, of the type of x
            for ours, want in zip(grads(value, *halves), grads(expected, *wide), strict=True):
                torch.testing.assert_close(ours, want.to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(device, dtype):
    x, y = pair(device, torch.float32)
    layer = torch.nn.Linear(2, 2).to(device)
    with torch.autocast(device.type, dtype=dtype):
        moved = layer(x)
        value = soft_dtw(moved, y)  # of two types
        options = 1.0, "sqeuclidean", False, False, False
        direct, *_ = torch.ops.libsdtw.forward(moved, y, None, None, *options)
        doubled = soft_dtw(x, y.double())
    assert moved.dtype == dtype
    assert value.dtype == direct.dtype == torch.float32
    assert doubled.dtype == torch.float64
    torch.testing.assert_close(value, soft_dtw(moved.float(), y))
    torch.testing.assert_close(direct, soft_dtw(moved.float(), y))
    value.sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    assert layer.weight.grad.any()


def test_gamma_as_a_tensor(device):
    x, y = pair(device)
    expected = soft_dtw(x, y, gamma=0.3)
    expected_grads = grads(expected, x, y)
    for gamma in (torch.tensor(0.3), torch.tensor([0.3]), np.float64(0.3), torch.tensor(0.3, device=device)):
        value = soft_dtw(x, y, gamma=gamma)
        torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-6)  # 0.3 in float32
        torch.testing.assert_close(grads(value, x, y), expected_grads, rtol=1e-6, atol=1e-6)
    each = torch.func.vmap(lambda g: soft_dtw(x, y, gamma=g))(
        torch.tensor([0.3, 2.0], device=device).double()
    )
    torch.testing.assert_close(each, torch.stack([expected, soft_dtw(x, y, gamma=2.0)]))


@pytest.mark.parametrize("rules", [{}, {"step_penalties": (0, 1, 1)}])
@pytest.mark.parametrize(
    "metric", ["sqeuclidean", "euclidean", "cityblock", "cosine", "precomputed", torch.cdist]
)
def test_gamma_that_the_host_cannot_read_is_above_0(device, metric, rules):
    x, y = (t.detach() for t in pair(device))
    inputs = (torch.cdist(x, y),) if metric == "precomputed" else (x, y)
    gammas = torch.tensor([0.5, 0.0, -0.5], device=device).double()
    value = torch.func.vmap(lambda g: soft_dtw(*inputs, gamma=g, metric=metric, **rules))(gammas)
    torch.testing.assert_close(value[0], soft_dtw(*inputs, gamma=0.5, metric=metric, **rules))
    assert value[1:].isnan().all()
    if metric != "precomputed":
        value = torch.func.vmap(lambda g: soft_dtw_cdist(*inputs, gamma=g, metric=metric, **rules))(gammas)
        assert value[0].isfinite().all()
        assert value[1:].isnan().all()


@pytest.mark.parametrize("metric", ["sqeuclidean", "precomputed", torch.cdist])
def test_gamma_is_learned(device, metric):
    x, y = pair(device)
    inputs = (torch.cdist(x, y).detach().requires_grad_(),) if metric == "precomputed" else (x, y)
    gamma = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)

    def function(gamma, *inputs):
        return soft_dtw(*inputs, gamma=gamma, metric=metric)

    assert torch.autograd.gradcheck(function, (gamma, *inputs))
    if metric == "sqeuclidean":
        assert torch.autograd.gradgradcheck(function, (gamma, *inputs))
    # In closed form: (V - <E, D>) / gamma.
    value, alignment = soft_dtw_with_alignment(*(t.detach() for t in inputs), gamma=0.7, metric=metric)
    cost = {"sqeuclidean": lambda x, y: torch.cdist(x, y) ** 2, "precomputed": lambda c: c}.get(
        metric, metric
    )(*inputs)
    expected = (value - (alignment * cost).sum((1, 2))) / 0.7
    torch.testing.assert_close(grads(function(gamma, *inputs), gamma)[0], expected.sum().detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock", "cosine"])
def test_small_gamma_is_learned(device, dtype, metric):
    # The derivative is minus the entropy of the paths, however large the costs are beside gamma.
    x, y = ((t.detach() + 100).to(dtype) for t in pair(device))

    def derivative(dtype, gamma):
        gamma = torch.tensor(gamma, dtype=torch.float64, device=device, requires_grad=True)
        value = soft_dtw(x.to(dtype), y.to(dtype), gamma=gamma, metric=metric)
        assert value.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
        return torch.autograd.grad(value.sum(), gamma)[0]

    for gamma in (1.0, 1e-2, 1e-4, 1e-6):
        expected = derivative(torch.float64, gamma)
        assert -3 * 13 * math.log(3) <= expected <= 1e-6  # three pairs of at most 13 steps
        torch.testing.assert_close(derivative(dtype, gamma), expected, rtol=1e-3, atol=1e-5)


def fill(series, lengths, value):
    """The batch with that value for padding."""
    inside = torch.arange(series.shape[1], device=series.device) < lengths[:, None]
    return torch.where(inside[..., None], series.detach(), value)


def by_gamma(function, *given, gamma=0.7):
    gamma = torch.tensor(gamma, dtype=torch.float64, device=given[0].device, requires_grad=True)
    return torch.autograd.grad(function(*given, gamma=gamma).square().sum(), gamma)[0]


@pytest.mark.filterwarnings("ignore:.torch.jit.script")  # which PyTorch's forward mode calls
@pytest.mark.parametrize("padding", [math.nan, math.inf])
@pytest.mark.parametrize(
    "function", [soft_dtw, soft_dtw_divergence, soft_dtw_alignment, sharp_soft_dtw, soft_dtw_cdist]
)
def test_learned_gamma_beside_padding(device, function, padding):
    x, y = pair(device)
    n, m = torch.tensor([7, 3, 5], device=device), torch.tensor([6, 4, 1], device=device)
    function = functools.partial(function, x_lengths=n, y_lengths=m)
    expected = by_gamma(function, fill(x, n, 0), fill(y, m, 0))
    given = fill(x, n, padding), fill(y, m, padding)
    torch.testing.assert_close(by_gamma(function, *given), expected)
    with torch.no_grad():
        values = [function(*given, gamma=0.7 + step).square().sum() for step in (1e-6, -1e-6)]
    torch.testing.assert_close(expected, (values[0] - values[1]) / 2e-6, rtol=1e-6, atol=1e-8)
    gammas = (torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True),)
    if function.func is not sharp_soft_dtw and function.func is not soft_dtw_alignment:
        assert torch.autograd.gradgradcheck(lambda gamma: function(*given, gamma=gamma), gammas)
    tangent = torch.func.jvp(lambda g: function(*given, gamma=g).square().sum(), gammas, gammas)[1]
    torch.testing.assert_close(tangent, 0.7 * expected)


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_alignment, sharp_soft_dtw])
def test_learned_gamma_beside_forbidden_cells(device, function):
    x, y = (t.detach() for t in pair(device))

    def banded(forbidden, x, y):
        apart = torch.arange(x.shape[1])[:, None] - torch.arange(y.shape[1])
        return torch.cdist(x, y).masked_fill(apart.abs().to(x.device) > 2, forbidden)

    of = functools.partial(function, metric=functools.partial(banded, math.inf))
    given = functools.partial(function, metric="precomputed")
    for ours in (
        by_gamma(of, x, y),
        by_gamma(given, banded(math.inf, x, y)),
        by_gamma(functools.partial(given, x_lengths=torch.full((3,), 7)), banded(math.inf, x, y)),
    ):
        torch.testing.assert_close(ours, by_gamma(given, banded(1e6, x, y)), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_divergence, sharp_soft_dtw])
@pytest.mark.parametrize("rules", [{}, {"step_penalties": (0, 1, 2)}, {"band": "absolute", "radius": 1}])
def test_learned_gamma_beside_pairs_without_a_path(device, function, rules):
    x, y = (t.detach() for t in pair(device))
    if function is sharp_soft_dtw and "step_penalties" in rules:
        rules = {}
    n, m = torch.tensor([7, 0, 3], device=device), torch.tensor([6, 4, 6], device=device)
    of = functools.partial(function, zero_infinity=True, **rules)
    ours = by_gamma(functools.partial(of, x_lengths=n, y_lengths=m), x, y)
    some = [0] if "band" in rules else [0, 2]
    lengths = {"x_lengths": n[some], "y_lengths": m[some]}
    torch.testing.assert_close(ours, by_gamma(functools.partial(of, **lengths), x[some], y[some]))
    x[0, 2, 1] = torch.nan
    assert by_gamma(functools.partial(of, x_lengths=n, y_lengths=m), x, y).isnan()


def test_learned_gamma_is_a_parameter(device):
    x, y = pair(device)
    loss = SoftDTW(gamma=torch.nn.Parameter(torch.tensor(1.0)), reduction="mean").to(device)
    assert list(loss.state_dict()) == ["gamma"]
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.001)
    before = loss(x, y)
    before.backward()
    optimizer.step()
    assert loss(x, y) < before
    assert repr(loss).startswith("SoftDTW(gamma=1.")


def cityblock(x, y):
    return (x[:, :, None] - y[:, None]).abs().sum(-1)


def test_metric_as_a_function(device):
    x, y = pair(device)
    n, m = torch.tensor([7, 3, 5], device=device), torch.tensor([6, 4, 1], device=device)
    value = soft_dtw(x, y, gamma=0.5, metric=cityblock, x_lengths=n, y_lengths=m)
    for b in range(3):
        a, c = (t.detach()[b, :k].cpu().numpy() for t, k in ((x, n[b]), (y, m[b])))
        expected = oracle.solve(oracle.costs("cityblock", a, c), oracle.Rules(0.5)).value
        assert value[b].item() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, metric=cityblock), (x, y))
    loss = SoftDTW(metric=cityblock)
    assert repr(loss) == "SoftDTW(gamma=1.0, metric='cityblock', reduction='none')"
    torch.testing.assert_close(loss(x, y), soft_dtw(x, y, metric=cityblock))


def test_padding_reaches_no_function(device):
    # A distance has an infinite slope at 0, and NaN a NaN: neither may come out of the padding.
    x, y = pair(device)
    n, m = torch.tensor([7, 3, 5], device=device), torch.tensor([6, 4, 1], device=device)
    broken = [t.detach().clone() for t in (x, y)]
    for t, lengths in zip(broken, (n, m), strict=True):
        t[torch.arange(t.shape[1], device=device) >= lengths[:, None]] = torch.nan
        t.requires_grad_()

    def distance(x, y):
        return ((x[:, :, None] - y[:, None]) ** 2).sum(-1).sqrt()

    options = {"metric": distance, "x_lengths": n, "y_lengths": m}
    value, expected = soft_dtw(*broken, **options), soft_dtw(x, y, **options)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(
        grads(value, *broken), grads(soft_dtw(x, y, **(options | {"metric": torch.cdist})), x, y)
    )
    for function in (soft_dtw_divergence, sharp_soft_dtw, soft_dtw_alignment):
        lengths = {"x_lengths": n, "y_lengths": m}
        torch.testing.assert_close(function(*broken, **lengths), function(x, y, **lengths))
        torch.testing.assert_close(
            grads(function(*broken, **lengths), *broken), grads(function(x, y, **lengths), x, y)
        )


def test_zero_infinity(device):
    x, y = pair(device)
    n, m = torch.tensor([7, 0, 0], device=device), torch.tensor([6, 4, 0], device=device)
    value = soft_dtw(x, y, x_lengths=n, y_lengths=m, zero_infinity=True)
    assert value[1:].tolist() == [0, 0]
    assert not grads(value, x)[0][1:].any()
    assert soft_dtw(x, y, x_lengths=n, y_lengths=m)[1] == math.inf
    loss = SoftDTW(zero_infinity=True, reduction="mean")
    assert loss(x, y, n, m).isfinite()
    assert "zero_infinity=True" in repr(loss)


@pytest.mark.parametrize("gamma", [0.1, 1.0])
@pytest.mark.parametrize("kind", ["soft", "sharp", "mean_cost"])
def test_divergence(device, gamma, kind):
    x, y = pair(device)
    n, m = [7, 3, 5], [6, 4, 1]
    options = {"gamma": gamma, "kind": kind}
    lengths = {name: torch.tensor(k, device=device) for name, k in (("x_lengths", n), ("y_lengths", m))}
    value = soft_dtw_divergence(x, y, **options, **lengths)
    for b in range(3):
        alone = soft_dtw_divergence(x[b, : n[b]], y[b, : m[b]], **options)
        torch.testing.assert_close(value[b], alone)
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw_divergence(x, y, **options, **lengths), (x, y))
    same = soft_dtw_divergence(x, x.detach(), **options)
    torch.testing.assert_close(same, torch.zeros_like(same), rtol=0, atol=1e-12)
    if kind == "soft":
        assert (soft_dtw_divergence(x, y, **options) >= 0).all()
        torch.testing.assert_close(grads(same, x)[0], torch.zeros_like(x), rtol=0, atol=1e-12)
        torch.testing.assert_close(
            soft_dtw(x, y, gamma=gamma, normalize=True), soft_dtw_divergence(x, y, **options)
        )
        torch.testing.assert_close(SoftDTW(gamma, normalize=True)(x, y), soft_dtw_divergence(x, y, **options))
        function = soft_dtw(x, y, gamma=gamma, normalize=True, metric=lambda x, y: torch.cdist(x, y) ** 2)
        torch.testing.assert_close(function, soft_dtw_divergence(x, y, **options))
    one = soft_dtw_divergence(x, y[0], **options)
    torch.testing.assert_close(one, soft_dtw_divergence(x, y[:1].expand(3, -1, -1), **options))


@pytest.mark.parametrize("lengths", [torch.tensor(2), [2], [2, 2, 2]])
def test_divergence_of_one_univariate_series(lengths):
    x, y = pair("cpu", shape=(3, 7, 6, 1))
    one, of = x[0, :, 0], functools.partial(soft_dtw, normalize=True)
    torch.testing.assert_close(of(one, y, x_lengths=lengths), of(x[0, :2], y))
    torch.testing.assert_close(of(y, one, y_lengths=lengths), of(y, x[0, :2]))
    torch.testing.assert_close(of(one, y[0], x_lengths=[2]), of(one[:2], y[0]))


def test_divergence_agrees_with_tslearn():
    x, y = np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])
    terms = [tslearn_soft_dtw(a, b, gamma=1.0) for a, b in ((x, y), (x, x), (y, y))]
    value = soft_dtw_divergence(torch.from_numpy(x), torch.from_numpy(y))
    assert value.item() == pytest.approx(terms[0] - 0.5 * (terms[1] + terms[2]), rel=1e-9)
    assert value.item() == pytest.approx(1.3094156980, rel=1e-9)


@pytest.mark.parametrize("gamma", [0.1, 1.0])
def test_expected_costs_are_what_enumeration_gives(gamma):
    x, y = pair("cpu", shape=(2, 4, 3, 2))
    far = 1e3  # costs do not depend on where 0 is
    sharp = sharp_soft_dtw(x + far, y + far, gamma=gamma)
    costs = [soft_dtw_divergence(x, y, kind="mean_cost", gamma=gamma)]
    for b in range(2):
        a, c = x.detach()[b].numpy(), y.detach()[b].numpy()
        cost = oracle.costs("sqeuclidean", a, c)
        expected = oracle.enumerate_alignments(cost, oracle.Rules(gamma)).alignment
        assert sharp[b].item() == pytest.approx((expected * cost).sum(), rel=1e-9)
        terms = []
        for u, v in ((a, c), (a, a), (c, c)):
            cost = oracle.costs("sqeuclidean", u, v)
            paths = [sum(cost[cell] for cell in path) for path in oracle.alignments(*cost.shape)]
            terms.append(np.mean(paths))
        assert costs[0][b].item() == pytest.approx(terms[0] - 0.5 * (terms[1] + terms[2]), rel=1e-9)
    given = torch.cdist(x, y).detach() ** 2
    torch.testing.assert_close(
        sharp_soft_dtw(given, gamma=gamma, metric="precomputed"), sharp.detach(), rtol=1e-7, atol=0
    )
    assert torch.autograd.gradcheck(lambda x, y: sharp_soft_dtw(x, y, gamma=gamma), (x, y))


def test_value_and_alignment_in_one_call(device):
    x, y = pair(device)
    for inputs in ((x, y), (x.detach(), y.detach())):
        value, alignment = soft_dtw_with_alignment(*inputs, gamma=0.5)
        torch.testing.assert_close(value, soft_dtw(*inputs, gamma=0.5))
        torch.testing.assert_close(alignment, soft_dtw_alignment(*inputs, gamma=0.5))
        assert value.requires_grad == alignment.requires_grad == inputs[0].requires_grad
    value, alignment = soft_dtw_with_alignment(x, y, gamma=0.5)
    penalty = (torch.arange(7, device=device)[:, None] - torch.arange(6, device=device)) ** 2
    ours = torch.autograd.grad(value.sum(), (x, y), retain_graph=True)
    torch.testing.assert_close(ours, grads(soft_dtw(x, y, gamma=0.5), x, y))
    assert grads(alignment * penalty, x)[0].any()  # the temporal term of DILATE


def test_cost_matrices():
    # Of every metric that sdtw.h names, for where a matrix of costs is wanted.
    x, y = pair("cpu")
    with torch.no_grad():
        y[:, 0] = x[:, 0]  # coincident points
    similar = torch.nn.functional.cosine_similarity(x[:, :, None], y[:, None], dim=-1)
    expected = {
        "sqeuclidean": torch.cdist(x, y) ** 2,
        "euclidean": torch.cdist(x, y),
        "cityblock": torch.cdist(x, y, p=1),
        "cosine": 1 - similar,
    }
    assert _costs.COSTS.keys() == expected.keys()
    assert {"precomputed", *expected} == _core.METRICS.keys()
    for metric, cost in expected.items():
        ours = _costs.COSTS[metric](x, y)
        torch.testing.assert_close(ours, cost, rtol=1e-12, atol=1e-7)
        assert all(g.isfinite().all() for g in grads(ours, x, y))


def test_padding_beside_a_metric_that_has_no_derivative_at_0(device):
    x, y = pair(device)
    lengths = torch.tensor([3, *[x.shape[1]] * (len(x) - 1)], device=device)

    def as_people_write_it(a, b):
        a, b = (v / v.norm(dim=-1, keepdim=True) for v in (a, b))
        return 1 - a @ b.mT

    value = soft_dtw(x, y, metric=as_people_write_it, x_lengths=lengths)
    expected = soft_dtw(x, y, metric="cosine", x_lengths=lengths)
    torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))
