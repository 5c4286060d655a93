# libsdtw.torch: metrics, bands, step weights and penalties, hard DTW.
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

import libsdtw
import libsdtw.numpy
from draws import METRICS, SERIES_METRICS
from libsdtw.torch import (
    SoftDTW,
    _direct,
    _options,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_barycenter,
    soft_dtw_cdist,
    soft_dtw_divergence,
)
from torch_data import grads, pair

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script")  # script_method, too: PyTorch 2.11

RULES = [
    {"band": "sakoe_chiba", "radius": 1},
    {"band": "absolute", "radius": 2.5},
    {"band": "itakura", "radius": 2.0},
    {"step_weights": (2, 1, 0.5)},
    {"step_penalties": [0.0, 0.3, 0.7]},
    {"band": "sakoe_chiba", "radius": 2, "step_weights": (1.5, 1, 1), "step_penalties": (0.1, 0.2, 0)},
]
LENGTHS = {"x_lengths": [7, 3, 5], "y_lengths": [6, 4, 4]}


def numbers(*tensors):
    return [t.detach().cpu().numpy() for t in tensors]


@pytest.mark.parametrize("gamma", [0.0, 0.5])
@pytest.mark.parametrize("metric", SERIES_METRICS)
@pytest.mark.parametrize("rules", [{}, *RULES])
def test_is_what_numpy_computes(device, rules, metric, gamma):
    x, y = pair(device)
    options = {"gamma": gamma, "metric": metric, **rules, **LENGTHS}
    value, *expected = libsdtw.numpy.soft_dtw_grad(*numbers(x, y), **options)
    ours = soft_dtw(x, y, **options)
    np.testing.assert_allclose(*numbers(ours), value, rtol=1e-12)
    for grad, want in zip(grads(torch.where(ours.isfinite(), ours, 0), x, y), expected, strict=True):
        np.testing.assert_allclose(*numbers(grad), want, rtol=1e-10, atol=1e-11)  # E below 1e-12 may be 0
    plain = [t.detach() for t in (x, y)]
    alignment = libsdtw.numpy.soft_dtw_alignment(*numbers(x, y), **options)
    np.testing.assert_allclose(*numbers(soft_dtw_alignment(*plain, **options)), alignment, atol=1e-12)
    if "step_weights" not in rules:
        np.testing.assert_allclose(*numbers(soft_dtw_alignment(x, y, **options)), alignment, atol=1e-9)
    loss = SoftDTW(gamma, metric, **rules)
    lengths = {name: torch.tensor(k, device=device) for name, k in LENGTHS.items()}
    torch.testing.assert_close(loss(x, y, **lengths), ours, rtol=0, atol=0)


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine", "precomputed"])
@pytest.mark.parametrize("band", [{}, {"band": "sakoe_chiba", "radius": 1}, {"step_weights": (1, 2, 0.5)}])
def test_gamma_that_is_learned_with_penalties(device, metric, band):
    x, y = pair(device, shape=(4, 5, 4, 2))
    inputs = (torch.cdist(x, y).detach().requires_grad_(),) if metric == "precomputed" else (x, y)
    lengths = {"x_lengths": [5, 3, 0, 0], "y_lengths": [2, 4, 0, 3]}
    options = {"metric": metric, "step_penalties": (0.1, 0.7, 0.4)} | lengths | band
    gamma = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)
    value, expected = soft_dtw(*inputs, gamma=gamma, **options), soft_dtw(*inputs, gamma=0.7, **options)
    torch.testing.assert_close(value, expected)
    some = expected.isfinite()
    torch.testing.assert_close(grads(value[some], *inputs), grads(expected[some], *inputs))
    for name, k in lengths.items():
        options[name] = k[:3]
    first = tuple(t[:3].detach().requires_grad_() for t in inputs)
    assert torch.autograd.gradcheck(
        lambda gamma, *given: soft_dtw(*given, gamma=gamma, **options), (gamma, *first)
    )
    with pytest.raises(libsdtw.UnsupportedError, match="the diagonal one is the sum"):
        soft_dtw(*first, gamma=gamma, **options | {"step_weights": (2, 1, 1)})
    with pytest.raises(libsdtw.UnsupportedError, match="step_penalties"):
        sharp_soft_dtw(*inputs, gamma=gamma, **options | lengths)


@pytest.mark.parametrize("metric", METRICS)
def test_gradients_of_both_orders_of_metrics(device, metric):
    x, y = pair(device, shape=(3, 5, 4, 2))
    inputs = (torch.cdist(x, y).detach().requires_grad_(),) if metric == "precomputed" else (x, y)
    options = {"x_lengths": [5, 3, 0], "y_lengths": [2, 4, 0]}

    def function(*inputs):
        return soft_dtw(*inputs, gamma=0.7, metric=metric, **options)

    every = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(function, inputs, **every)
    assert torch.autograd.gradgradcheck(
        function, inputs, check_batched_grad=True, check_fwd_over_rev=True, check_rev_over_rev=True
    )


@pytest.mark.parametrize("metric", ["cityblock", "precomputed"])
@pytest.mark.parametrize("rules", RULES)
def test_gradients_of_both_orders_of_rules(device, rules, metric):
    x, y = pair(device, shape=(2, 5, 4, 2))
    inputs = (torch.cdist(x, y).detach().requires_grad_(),) if metric == "precomputed" else (x, y)

    def function(*inputs):
        return soft_dtw(*inputs, gamma=0.7, metric=metric, **rules)

    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("metric", SERIES_METRICS)
def test_what_is_built_on_them(device, metric):
    x, y = pair(device, shape=(2, 5, 4, 2))
    band = {"metric": metric, "band": "sakoe_chiba", "radius": 1}
    for function in (soft_dtw_divergence, sharp_soft_dtw):
        assert torch.autograd.gradcheck(lambda x, y, of=function: of(x, y, **band), (x, y))
    gamma = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)
    assert torch.autograd.gradcheck(lambda g, x, y: soft_dtw(x, y, gamma=g, **band), (gamma, x, y))
    pairs = soft_dtw_cdist(x, y, **band)
    torch.testing.assert_close(pairs.diagonal(), soft_dtw(x, y, **band))
    same = soft_dtw_divergence(x, x, kind="mean_cost", **band)
    torch.testing.assert_close(same, torch.zeros_like(same), rtol=0, atol=1e-12)
    # The expected cost of a path, by the alignment.
    expected = (soft_dtw_alignment(x, y, **band) * costs(x, y, metric)).sum((1, 2))
    torch.testing.assert_close(sharp_soft_dtw(x, y, **band), expected)


def test_mean_costs_of_forbidden_cells(device):
    x, y = pair(device, shape=(3, 7, 6, 2))

    def band(x, y):
        steps = torch.arange(x.shape[1])[:, None] - torch.arange(y.shape[1])
        return torch.cdist(x, y, p=1).masked_fill((steps.abs() > 2).to(x.device), torch.inf)

    for lengths in ({}, LENGTHS):
        forbidden = soft_dtw_divergence(x, y, kind="mean_cost", metric=band, **lengths)
        rules = {"metric": "cityblock", "band": "absolute", "radius": 2}
        wanted = soft_dtw_divergence(x, y, kind="mean_cost", **rules, **lengths)
        torch.testing.assert_close(forbidden, wanted)
        torch.testing.assert_close(grads(forbidden, x), grads(wanted, x))


def costs(x, y, metric):
    from libsdtw.torch._costs import COSTS

    return COSTS[metric](x, y)


@pytest.mark.parametrize("rules", RULES)
def test_all_pairs_of_one_set(device, rules):
    # Which are not symmetric where vertical and horizontal steps cost different amounts.
    x, _ = pair(device)
    value, expected = soft_dtw_cdist(x, **rules), soft_dtw_cdist(x, x, **rules)
    torch.testing.assert_close(value, expected)
    weights = torch.arange(9, device=device).view(3, 3)
    torch.testing.assert_close(grads(value * weights, x), grads(expected * weights, x))


def test_barycenter_in_a_band():
    x, _ = pair("cpu")
    rules = {"band": "sakoe_chiba", "radius": 1, "step_penalties": (0, 0.1, 0.1)}
    average = soft_dtw_barycenter(x, gamma=0.5, max_iter=20, **rules)
    begin = soft_dtw_barycenter(x, gamma=0.5, max_iter=np.int64(0), **rules)
    assert soft_dtw(average, x, gamma=0.5, **rules).mean() < soft_dtw(begin, x, gamma=0.5, **rules).mean()


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
@pytest.mark.parametrize(
    "options", [{"lengths": [7, 0, 5]}, {"band": "absolute", "radius": 1, "lengths": [7, 4, 7]}]
)
def test_barycenter_of_what_has_no_path(options, method):
    x, _ = pair("cpu", shape=(3, 7, 6, 2))
    for normalize in (False, True):
        with pytest.raises(libsdtw.InvalidArgumentError, match=r"series\[1\] has an infinite value with any"):
            soft_dtw_barycenter(x.detach(), method=method, normalize=normalize, **options)
    average = soft_dtw_barycenter(x.detach(), weights=[1, 0, 1], method=method, max_iter=3, **options)
    assert average.isfinite().all()


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
@pytest.mark.parametrize(("number", "name"), [(torch.nan, "NaN"), (torch.inf, "infinity")])
def test_barycenter_of_what_is_not_finite(device, method, number, name):
    x, _ = (t.detach() for t in pair(device))
    options = {"method": method, "max_iter": 3}
    want = soft_dtw_barycenter([x[0], x[1, :5], x[2]], **options)
    x[1, 5:] = number  # padding, as tslearn has it
    for given_options in ({}, {"metric": "cityblock", "gamma": 0}, {"normalize": True}, {"init": x[0, :4]}):
        with pytest.raises(ValueError, match=rf"series\[1\] holds {name}: expected finite .*lengths"):
            soft_dtw_barycenter(x, **options, **given_options)
    ours = soft_dtw_barycenter(x, lengths=[7, 5, 7], **options)
    torch.testing.assert_close(ours, want)
    with pytest.raises(ValueError, match="init holds NaN or infinity"):
        soft_dtw_barycenter(x, lengths=[7, 5, 7], init=x[1])
    # Of weight 0 it has no say.
    alone = soft_dtw_barycenter(x[[0, 2]], weights=[0.5, 1.5], **options)
    weighted = soft_dtw_barycenter(x, weights=[0.5, 0, 1.5], **options)
    torch.testing.assert_close(weighted, alone)


def test_barycenter_by_a_function_that_knows_what_nan_means():
    x, _ = (t.detach() for t in pair("cpu"))
    x[1, 2] = torch.nan

    def known(a, b):
        return (a[:, :, None] - b[:, None]).nan_to_num().square().sum(-1)

    assert soft_dtw_barycenter(x, metric=known, init=x[0], max_iter=3).isfinite().all()
    with pytest.raises(ValueError, match="the average came to hold NaN"):
        soft_dtw_barycenter(x, metric=lambda a, b: known(a, b) * torch.nan, init=x[0], max_iter=3)


def test_hard_dtw(device):
    # gamma = 0 is the limit of small gamma; the path is fixed where it is differentiated.
    x, y = pair(device)
    value, near = soft_dtw(x, y, gamma=0), soft_dtw(x, y, gamma=1e-6)
    torch.testing.assert_close(value, near, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(grads(value, x, y), grads(near, x, y), rtol=1e-5, atol=1e-5)
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw(x, y, gamma=0), (x, y), check_forward_ad=True)
    alignment = soft_dtw_alignment(x, y, gamma=0)
    assert set(alignment.unique().tolist()) == {0, 1}
    assert not grads(alignment, x)[0].any()
    torch.testing.assert_close(sharp_soft_dtw(x, y, gamma=0), value)
    torch.testing.assert_close(soft_dtw(x, y, gamma=torch.tensor(0.0)), value)


def test_no_path_in_a_band(device):
    x, y = pair(device, shape=(2, 9, 5, 2))
    value = soft_dtw(x, y, band="absolute", radius=2)
    assert value.isposinf().all()
    assert not any(g.any() for g in grads(value, x, y))
    assert soft_dtw(x, y, band="absolute", radius=2, zero_infinity=True).tolist() == [0, 0]


def test_points_without_a_slope(device):
    x, y = pair(device)
    with torch.no_grad():
        y[:, 0], x[:, 3] = x[:, 0], 0
    for metric in SERIES_METRICS:
        for function in (soft_dtw, sharp_soft_dtw, soft_dtw_divergence):
            value = function(x, y, metric=metric)
            assert value.isfinite().all()
            assert all(g.isfinite().all() for g in grads(value, x, y))


@pytest.mark.parametrize("rules", RULES)
def test_transforms_and_compilers(device, rules):
    x, y = (t.detach() for t in pair(device))

    def function(x, y):
        return soft_dtw(x, y, metric="cityblock", **rules)

    expected = function(x, y)
    torch.testing.assert_close(torch.func.vmap(function)(x, y), expected)
    torch.compiler.reset()  # which counts the rules and devices that the function was compiled for
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="aot_eager")(x, y), expected)


def test_compiled_with_changing_options():
    x, y = (t.detach() for t in pair("cpu"))
    torch.compiler.reset()
    compiled = torch.compile(
        lambda x, y, gamma, radius: soft_dtw(x, y, gamma=gamma, band="absolute", radius=radius),
        fullgraph=True, backend="aot_eager",
    )  # fmt: skip
    for gamma, radius in ((1.0, 2), (0.5, 3), (0.25, 2.5), (0.0, 4), (0.5, 1)):
        expected = soft_dtw(x, y, gamma=gamma, band="absolute", radius=radius)
        torch.testing.assert_close(compiled(x, y, gamma, radius), expected)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", ["step_weights", "step_penalties"])
def test_steps_in_a_tensor_that_changes(name, native, monkeypatch):
    if not native:
        monkeypatch.setattr(_direct, "native", None)
    x, y = pair("cpu")
    steps = torch.ones(3)
    for last in (2.0, 3.0):
        steps[2] = last
        expected = soft_dtw(x, y, **{name: (1, 1, last)})
        for given in (steps, tuple(steps)):
            torch.testing.assert_close(soft_dtw(x, y, **{name: given}), expected)
    loss = SoftDTW(**{name: steps})
    torch.testing.assert_close(loss(x, y), expected)


def test_keys_of_options():
    assert _options.key("cosine", _options.NO_RULES) == "cosine"
    assert _options.key("cosine", (None, None, [1.0, 1.0, 1.0], [0, 0, 0])) == "cosine"
    for rules in RULES:
        given = {"band": None, "radius": None, "step_weights": (1, 1, 1), "step_penalties": (0, 0, 0)} | rules
        key = _options.key("euclidean", tuple(given.values()))
        assert _options.parse(key).key() == key
        assert _options.parse(_options.parse(key).of_costs()).rules == _options.parse(key).rules
    loss = SoftDTW(metric="cosine", band="absolute", radius=3, step_weights=(1, 2, 2))
    assert repr(loss) == (
        "SoftDTW(gamma=1.0, metric='cosine', reduction='none', band='absolute', radius=3, "
        "step_weights=(1, 2, 2))"
    )


def test_what_cannot_be_combined():
    x, y = pair("cpu")
    penalties, weights = {"step_penalties": (0, 1, 1)}, {"step_weights": (2, 1, 1)}
    refused = [
        lambda: soft_dtw(x, y, gamma=torch.ones((), requires_grad=True), **penalties, **weights),
        lambda: sharp_soft_dtw(x, y, **penalties),
        lambda: soft_dtw_divergence(x, y, kind="sharp", **penalties),
        lambda: soft_dtw_divergence(x, y, kind="mean_cost", **weights),
        lambda: soft_dtw_alignment(x, y, **weights).sum().backward(),
    ]
    for call in refused:
        with pytest.raises(libsdtw.UnsupportedError, match=r"step.weights|step.penalties"):
            call()


def test_second_derivatives_hold_no_matrix():
    # One matrix of the pair would be 256 MB.
    program = """
    import resource
    import torch
    from libsdtw.torch import soft_dtw

    def product(n):
        x, y = torch.randn(2, 1, n, 2, dtype=torch.float64).requires_grad_()
        first = torch.autograd.grad(soft_dtw(x, y).sum(), x, create_graph=True)[0]
        return torch.autograd.grad(first.sum(), x)[0]

    torch.set_num_threads(1)
    product(64)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert product(5800).isfinite().all()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 64 * 1024
