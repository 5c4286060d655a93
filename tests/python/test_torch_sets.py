# libsdtw.torch on sets of series: all pairs, and averages.
import warnings

import numpy as np
import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import forward_ad
from tslearn.datasets import CachedDatasets

import libsdtw
from libsdtw.numpy import soft_dtw_cdist as numpy_cdist
from libsdtw.torch import soft_dtw, soft_dtw_barycenter, soft_dtw_cdist
from torch_data import grads, pair

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that h5py is not installed
    from tslearn.barycenters import softdtw_barycenter


def sets(device):
    x, _ = pair(device, shape=(5, 7, 6, 2))
    _, y = pair(device, shape=(4, 7, 6, 2), seed=1)
    n, m = torch.tensor([7, 2, 5, 1, 7], device=device), torch.tensor([6, 6, 3, 4], device=device)
    return x, y, n, m


@pytest.mark.parametrize("block", [1, 3, 4, 7, 4096])
@pytest.mark.parametrize("normalize", [False, True])
def test_all_pairs(device, block, normalize):
    x, y, n, m = sets(device)
    each = {"gamma": 0.5, "normalize": normalize}
    expected = torch.stack(
        [
            torch.stack([soft_dtw(a[:k], b[:j], **each) for b, j in zip(y, m, strict=True)])
            for a, k in zip(x, n, strict=True)
        ]
    )
    value = soft_dtw_cdist(x, y, x_lengths=n, y_lengths=m, block=block, **each)
    torch.testing.assert_close(value, expected)
    weights = torch.randn_like(value)
    torch.testing.assert_close(grads(value * weights, x, y), grads(expected * weights, x, y))
    lists = [a[:k] for a, k in zip(x, n, strict=True)], [b[:k] for b, k in zip(y, m, strict=True)]
    torch.testing.assert_close(soft_dtw_cdist(*lists, block=block, **each), expected)


@pytest.mark.parametrize("block", [1, 4, 4096])
def test_symmetric(device, block):
    x, _, n, _ = sets(device)
    value = soft_dtw_cdist(x, x_lengths=n, gamma=0.5, block=block)
    expected = soft_dtw_cdist(x, x, x_lengths=n, y_lengths=n, gamma=0.5)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(value, value.mT, rtol=0, atol=0)
    weights = torch.randn_like(value)
    torch.testing.assert_close(grads(value * weights, x), grads(expected * weights, x))
    divergence = soft_dtw_cdist(x, normalize=True, block=np.int64(block))
    torch.testing.assert_close(divergence.diagonal(), torch.zeros_like(n, dtype=x.dtype), rtol=0, atol=1e-12)


def divergence_of_kl(x, y):
    p, q = x.softmax(-1)[:, :, None], y.softmax(-1)[:, None]
    return (p * (p.log() - q.log())).sum(-1)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(
    "options", [{"metric": divergence_of_kl}, {"band": "itakura", "radius": 2}, {"step_penalties": (0, 2, 1)}]
)
def test_all_pairs_that_are_not_symmetric(device, options, normalize):
    x, _, _, _ = sets(device)
    n = torch.tensor([7, 4, 5, 6, 7], device=device)
    value = soft_dtw_cdist(x, x_lengths=n, gamma=0.1, normalize=normalize, **options)
    expected = soft_dtw_cdist(x, x, x_lengths=n, y_lengths=n, gamma=0.1, normalize=normalize, **options)
    torch.testing.assert_close(value, expected)
    assert not torch.allclose(value, value.mT) or "band" in options
    torch.testing.assert_close(grads(value.nan_to_num(0, 0), x), grads(expected.nan_to_num(0, 0), x))


def test_itakura_of_series_with_lengths_is_not_symmetric(device):
    x, _ = pair(device, shape=(2, 150, 150, 1))
    n = torch.tensor([101, 126], device=device)
    options = {"gamma": 0.1, "band": "itakura", "radius": 2}
    value = soft_dtw_cdist(x, x_lengths=n, **options)
    torch.testing.assert_close(value, soft_dtw_cdist(x, x, x_lengths=n, y_lengths=n, **options))
    if device.type == "cpu":
        series, lengths = x.detach().numpy(), n.numpy()
        of_numpy = numpy_cdist(series, x_lengths=lengths, **options)
        np.testing.assert_allclose(of_numpy, value.detach().numpy(), rtol=1e-12)


def test_forward_mode_before_the_derivative_by_gamma(device):
    x, y = (t.detach() for t in pair(device))
    gamma = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)
    along = torch.randn_like(x)
    with forward_ad.dual_level():
        value = soft_dtw_cdist(forward_ad.make_dual(x, along), y, gamma=gamma)
        tangent = forward_ad.unpack_dual(value).tangent
    (forward_first,) = torch.autograd.grad(tangent.sum(), gamma)
    x.requires_grad_()
    (grad,) = torch.autograd.grad(soft_dtw_cdist(x, y, gamma=gamma).sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad((grad * along).sum(), gamma)
    torch.testing.assert_close(forward_first, expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_metric_that_draws_random_numbers(device, compiled):
    x, y, _, _ = sets(device)

    def metric(x, y):
        return torch.cdist(torch.nn.functional.dropout(x, 0.5), y)

    def of_all(x, y):
        return soft_dtw_cdist(x, y, metric=metric).sum()

    def of_each(x, y):  # the same numbers in the same order
        each = x[:, None].expand(len(x), *y.shape[:1], *x.shape[1:]).flatten(0, 1)
        return soft_dtw(each, y.repeat(len(x), 1, 1), metric=metric).sum()

    results = []
    for function in (of_all, of_each):
        torch.compiler.reset()
        run = torch.compile(function, backend="aot_eager") if compiled else function
        torch.manual_seed(1)
        value = run(x, y)
        results.append((value, *grads(value, x, y)))
    torch.testing.assert_close(*results)


def test_all_pairs_keep_no_state(device, monkeypatch):
    # Memory does not grow with the number of pairs: there is one call without state, or one for each block.
    batches = []
    problems, execs = libsdtw._core.Problem, libsdtw._core.Exec

    def spy_problem(*args):
        batches.append(args[2])
        return problems(*args)

    def spy_exec(*args):
        states.append(not args[3])
        return execs(*args)

    monkeypatch.setattr(libsdtw._core, "Problem", spy_problem)
    monkeypatch.setattr(libsdtw._core, "Exec", spy_exec)
    x, y = pair(device, shape=(13, 9, 8, 3))
    states = []
    grads(soft_dtw_cdist(x, y), x, y)
    assert batches == [13]  # forward and backward have the same plan
    assert states == [False]
    grads(soft_dtw_cdist(x, y, block=26, metric=torch.cdist), x, y)
    assert max(batches) <= 26


def test_gradcheck_of_all_pairs(device):
    x, y = pair(device, shape=(3, 4, 5, 2))
    assert torch.autograd.gradcheck(lambda x, y: soft_dtw_cdist(x, y, block=2), (x, y))
    assert torch.autograd.gradcheck(lambda x: soft_dtw_cdist(x, block=2), (x,))
    assert torch.autograd.gradgradcheck(lambda x, y: soft_dtw_cdist(x, y, block=2), (x, y))
    jacobian = torch.func.jacrev(soft_dtw_cdist)(x.detach(), y.detach())
    assert jacobian.shape == (3, 3, 3, 4, 2)


FAMILY = [
    {"metric": "euclidean"},
    {"metric": "cosine", "band": "sakoe_chiba", "radius": 2},
    {"metric": "cityblock", "step_weights": (2, 1, 1), "step_penalties": (0, 0.5, 0.5)},
    {"step_penalties": (0, 0.5, 0.1)},  # where (i, j) and (j, i) are two things
]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("rules", FAMILY)
def test_all_pairs_are_pairs_of_each(device, rules, symmetric):
    x, y, n, m = sets(device)
    options = rules | {"gamma": 0.7}
    given = (x, None, n, None) if symmetric else (x, y, n, m)
    second, k = (x, n) if symmetric else (y, m)
    value = soft_dtw_cdist(given[0], given[1], x_lengths=given[2], y_lengths=given[3], **options)
    each = soft_dtw(
        x[:, None],
        second,
        x_lengths=n[:, None].expand_as(value),
        y_lengths=k.expand_as(value),
        **options,
    )
    torch.testing.assert_close(value, each)
    weights = torch.randn_like(value)
    inputs = (x,) if symmetric else (x, y)
    torch.testing.assert_close(grads(value * weights, *inputs), grads(each * weights, *inputs))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is")  # of PyTorch's forward mode
def test_derivatives_of_all_pairs(device):
    x, y = pair(device, shape=(2, 4, 3, 2))
    every = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    options = {"gamma": 0.7, "metric": "euclidean", "x_lengths": [4, 2]}
    for inputs in ((x, y), (x,)):
        assert torch.autograd.gradcheck(lambda *given: soft_dtw_cdist(*given, **options), inputs, **every)
        assert torch.autograd.gradgradcheck(
            lambda *given: soft_dtw_cdist(*given, **options), inputs, check_fwd_over_rev=True
        )
    more = torch.stack([x.detach(), 2 * x.detach()])
    mapped = torch.func.vmap(soft_dtw_cdist, in_dims=(0, None))(more, y.detach())
    torch.testing.assert_close(mapped, torch.stack([soft_dtw_cdist(one, y.detach()) for one in more]))


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
@pytest.mark.parametrize("y", [None, pair("cpu", shape=(3, 4, 5, 1))[1].detach()])
@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_second_derivatives_of_all_pairs(y, metric):
    x = pair("cpu", shape=(2, 4, 5, 1))[0].detach()
    weights = torch.arange(1.0, 2 * len(x if y is None else y) + 1, dtype=torch.float64).view(2, -1)

    def function(x):
        return (soft_dtw_cdist(x, y, metric=metric, gamma=0.5) * weights).sum()

    jacfwd, jacrev = torch.func.jacfwd, torch.func.jacrev
    expected = torch.func.hessian(function)(x)
    for first in (jacfwd, jacrev):
        for second in (jacfwd, jacrev):
            torch.testing.assert_close(second(first(function))(x), expected)
    leaf = x.clone().requires_grad_()
    ones = torch.ones_like(x)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(leaf, ones))).tangent
    of_dual = torch.autograd.grad(tangent, leaf)[0]
    of_jvp = torch.autograd.grad(torch.func.jvp(function, (leaf,), (ones,))[1], leaf)[0]
    for ours in (of_dual, of_jvp):
        torch.testing.assert_close(ours, expected.sum((3, 4, 5)))


@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock", "cosine"])
def test_all_pairs_at_a_gamma_that_is_learned(device, metric):
    x, y = pair(device, shape=(3, 4, 5, 2))
    gamma = torch.tensor(0.7, dtype=torch.float64, device=device, requires_grad=True)
    for inputs in ((x, y), (x,)):
        value = soft_dtw_cdist(*inputs, gamma=gamma, metric=metric)
        torch.testing.assert_close(value, soft_dtw_cdist(*inputs, gamma=0.7, metric=metric))
        assert torch.autograd.gradcheck(
            lambda gamma, *given: soft_dtw_cdist(*given, gamma=gamma, metric=metric), (gamma, *inputs)
        )


def test_all_pairs_of_halves(device):
    x, y = pair(device, shape=(3, 4, 5, 2))
    x, y = (t.detach().half().requires_grad_() for t in (x, y))
    value = soft_dtw_cdist(x, y)
    assert value.dtype == torch.float32
    assert {g.dtype for g in grads(value, x, y)} == {torch.float16}
    torch.testing.assert_close(value, soft_dtw_cdist(x.float(), y.float()))
    with torch.autocast(device.type, dtype=torch.bfloat16):
        torch.testing.assert_close(soft_dtw_cdist(x, y.float()), value)


def test_all_pairs_compiled(device):
    x, y = pair(device, shape=(3, 4, 5, 2))
    compiled = torch.compile(soft_dtw_cdist, fullgraph=True, backend="aot_eager")
    for inputs in ((x, y), (x,)):
        value, expected = compiled(*inputs), soft_dtw_cdist(*inputs)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grads(value, *inputs), grads(expected, *inputs))


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("options", [{"normalize": True}, {"metric": lambda x, y: x @ y.mT}])
def test_all_pairs_compiled_for_any_batch(device, options, second):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(soft_dtw_cdist, fullgraph=True, backend=counter)
    for size in range(2, 6):
        x = torch.randn(size, 4, 2, device=device)
        y = torch.randn(size + 3, 5, 2, device=device) if second else None
        torch.testing.assert_close(compiled(x, y, **options), soft_dtw_cdist(x, y, **options))
    assert counter.frame_count == 2


@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"metric": lambda x, y: x @ y.mT}])
def test_all_pairs_exported_for_any_batch(device, options):
    class Loss(torch.nn.Module):
        def forward(self, x, y):
            return soft_dtw_cdist(x, y, **options)

    x, y = (t.detach() for t in pair(device))
    sizes = [{0: torch.export.Dim(name, min=2, max=60)} for name in ("first", "second")]
    program = torch.export.export(Loss(), (x, y), dynamic_shapes=sizes, strict=False).module()
    more = torch.cat([x, x]), y[:2]
    torch.testing.assert_close(program(*more), Loss()(*more))


def test_all_pairs_of_none(device):
    x, y = pair(device)
    assert soft_dtw_cdist(x[:0], y).shape == (0, 3)
    assert soft_dtw_cdist(x, y[:0]).shape == (3, 0)
    assert soft_dtw_cdist(x[:0]).shape == (0, 0)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 0}, ValueError, "block is 0"),
        ({"block": 1.5}, TypeError, "block is 1.5"),
        ({"metric": "precomputed"}, ValueError, "metric is 'precomputed'"),
        ({"y": None, "y_lengths": [1, 2, 3]}, ValueError, "y_lengths is given without y"),
        ({"y": torch.zeros(3, 4)}, ValueError, r"y has shape \(3, 4\): .*y\[\.\.\., None\]"),
        ({"x_lengths": [1, 2]}, ValueError, r"x_lengths has shape \(2,\)"),
        ({"y": "abc"}, TypeError, "y is a str"),
        ({"x": torch.zeros(3, 4, 2).to_sparse()}, TypeError, "x has layout torch.sparse_coo"),
        ({"metric": "l2"}, ValueError, "metric is 'l2': expected one of"),
        ({"y_lengths": torch.ones(3, dtype=int, device="meta")}, ValueError, "y_lengths is on .* and y on"),
    ],
)
def test_broken_all_pairs(options, error, message):
    x, y = pair("cpu", torch.float32)
    with pytest.raises(error, match=message):
        soft_dtw_cdist(**({"x": x, "y": y} | options))


def test_barycenter_of_tslearns_documentation():
    series = np.array([[1.0, 2, 3, 4], [1, 2, 4, 5]])[..., None]
    theirs = softdtw_barycenter(series, max_iter=5)
    assert theirs.ravel() == pytest.approx([1.25161574, 2.03821705, 3.5101956, 4.36140605])
    x = torch.from_numpy(series)
    ours = soft_dtw_barycenter(x, max_iter=50)

    def loss(average):
        return soft_dtw(average, x).mean().item()

    assert loss(ours) <= loss(torch.from_numpy(theirs)) + 1e-9
    better = softdtw_barycenter(series, max_iter=200, tol=1e-9)
    np.testing.assert_allclose(ours.numpy(), better, rtol=2e-3)


@pytest.mark.parametrize(("method", "steps"), [("lbfgs", 30), ("adam", 150)])
def test_barycenter_of_unequal_lengths(device, method, steps):
    x, labels, _, _ = CachedDatasets().load_dataset("Trace")
    series = torch.from_numpy(x[labels == 3][:6, ::5]).to(device)
    lengths = torch.tensor([55, 50, 40, 55, 45, 55], device=device)
    options = {"gamma": 0.5, "max_iter": steps, "method": method}
    average = soft_dtw_barycenter(series, lengths=lengths, **options)
    assert average.shape == (55, 1)
    assert not average.requires_grad

    def loss(average):
        return soft_dtw(average, series, gamma=0.5, y_lengths=lengths).mean()

    stretched = soft_dtw_barycenter(series, lengths=lengths, **(options | {"max_iter": 0}))
    assert loss(average) < loss(stretched) - 0.1
    ragged = [s[:k] for s, k in zip(series, lengths, strict=True)]
    torch.testing.assert_close(soft_dtw_barycenter(ragged, **options), average)


@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_barycenter_stays_where_its_gradient_is_small(device, method):
    x = pair(device)[0].detach()
    best = soft_dtw_barycenter(x, max_iter=200)
    again = soft_dtw_barycenter(x, init=best, method=method, tol=1e-3)
    torch.testing.assert_close(again, best, rtol=0, atol=0)


@pytest.mark.parametrize("scale", [1e7, 1e9])
def test_barycenter_of_large_numbers(device, scale):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 50, 2, generator=generator).cumsum(1).to(device)
    lengths = torch.tensor([50, 30, 50, 50, 20, 50, 50, 50], device=device)
    x[1, 30:] = torch.inf

    def loss(**options):
        average = soft_dtw_barycenter(scale * x, gamma=scale**2, lengths=lengths, **options)
        assert average.dtype == torch.float32
        return soft_dtw(average / scale, x, y_lengths=lengths).mean()

    assert loss() < 0.6 * loss(max_iter=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", ["lbfgs", "adam"])
def test_barycenter_of_halves(device, dtype, method):
    x = pair(device)[0].detach().to(dtype)
    options = {"method": method, "max_iter": 5}
    average = soft_dtw_barycenter(x, **options)
    torch.testing.assert_close(average, soft_dtw_barycenter(x.float(), **options).to(dtype), rtol=0, atol=0)


def test_barycenter_in_inference_mode(device):
    x = pair(device)[0].detach()
    options = {"weights": [1, 2, 3], "lengths": [7, 3, 5], "max_iter": 3}
    expected = soft_dtw_barycenter(x, **options)
    with torch.inference_mode():
        torch.testing.assert_close(soft_dtw_barycenter(x, **options), expected)
        x = x.clone()  # of inference mode, as are these
        options |= {name: torch.tensor(options[name], device=device) for name in ("weights", "lengths")}
        torch.testing.assert_close(soft_dtw_barycenter(x, **options), expected)
    torch.testing.assert_close(soft_dtw_barycenter(x, **options), expected)


def test_barycenter_leaves_other_gradients_alone(device):
    x = pair(device)[0].requires_grad_()
    gamma = torch.tensor(0.5, device=device, requires_grad=True)
    soft_dtw_barycenter(x, gamma=gamma, max_iter=2)
    assert x.grad is None
    assert gamma.grad is None


def test_barycenter_options(device, capsys):
    x, _ = pair(device)
    x = x.detach()
    one = soft_dtw_barycenter(x, weights=[0, 1, 0], normalize=True, gamma=0.1, max_iter=200, tol=1e-8)
    torch.testing.assert_close(one, x[1], rtol=0, atol=1e-4)  # the divergence is least at the series itself
    short = soft_dtw_barycenter(x, init=torch.zeros(4, 2), max_iter=3, progress=True)
    assert short.shape == (4, 2)
    assert short.dtype == x.dtype
    assert "barycenter" in capsys.readouterr().err
    with torch.no_grad():
        soft_dtw_barycenter(x, max_iter=2)
    for options, message in [
        ({"method": "sgd"}, "method is 'sgd'"),
        ({"weights": [1.0]}, r"weights has shape \(1,\)"),
        ({"weights": [1.0, -1, 0]}, "weights has one that is negative"),
        ({"weights": [0, 0, 0]}, "weights are all 0"),
        ({"init": torch.zeros(4, 3)}, r"init has shape \(4, 3\): expected \(M, 2\)"),
        ({"max_iter": -1}, "max_iter is -1"),
        ({"tol": -1}, "tol is -1: expected a number >= 0"),
        ({"lr": 0}, "lr is 0: expected a finite number > 0, or None"),
        ({"metric": "precomputed"}, "metric is 'precomputed': expected a metric of series"),
        ({"lengths": torch.ones(3, dtype=int, device="meta")}, "lengths is on device meta and series on"),
        ({"lengths": [1, 2]}, r"lengths has shape \(2,\)"),
        ({"lengths": torch.tensor([7, 5, 9], device=device)}, r"lengths has 9: expected lengths in \[0, 7\]"),
        ({"lengths": torch.tensor([7, 5, -1], device=device)}, "lengths has -1"),
    ]:
        with pytest.raises(ValueError, match=message):
            soft_dtw_barycenter(x, **options)
    for options, message in [
        ({"weights": "abc"}, "weights is 'abc': expected numbers >= 0"),
        ({"weights": [1, 2j, 0]}, "weights is .*: expected numbers"),
        ({"init": [[0, 0]]}, r"init is a list: expected a tensor \(M, 2\)"),
        ({"tol": "a"}, "tol is 'a': expected a number >= 0"),
        ({"lr": "a"}, "lr is 'a': expected a finite number > 0, or None"),
    ]:
        with pytest.raises(TypeError, match=message):
            soft_dtw_barycenter(x, **options)
    with pytest.raises(ValueError, match="series is a list and lengths is given"):
        soft_dtw_barycenter([x[0], x[1]], lengths=[7, 7])
    with pytest.raises(ValueError, match=r"series\[\.\.\., None\]"):
        soft_dtw_barycenter(x[..., 0])
