# libsdtw.torch under torch.func, vmap, forward mode and second derivatives.
import itertools

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

import libsdtw
from libsdtw.torch import soft_dtw, soft_dtw_alignment
from torch_data import grads, pair

pytestmark = [
    pytest.mark.filterwarnings("error"),  # vmap says by a warning that it calls an operator in a loop
    pytest.mark.filterwarnings("ignore:.torch.jit.script. is"),
]


def data(device, shape=(3, 7, 6, 2)):
    return tuple(t.detach() for t in pair(device, shape=shape))


def lengths_of(device):
    return torch.tensor([7, 3, 0], device=device), torch.tensor([6, 4, 0], device=device)


def summed(x, y=None, **options):
    return soft_dtw(x, y, gamma=0.5, reduction="sum", **options)


def test_first_order(device):
    x, y = data(device)
    expected = grads(summed(x.requires_grad_(), y.requires_grad_()), x, y)
    x, y = x.detach(), y.detach()
    torch.testing.assert_close(grad(summed, argnums=(0, 1))(x, y), expected)
    value, pull = vjp(summed, x, y)
    torch.testing.assert_close(pull(torch.ones_like(value)), expected)
    jacobian = jacrev(lambda x: soft_dtw(x, y, gamma=0.5))(x)
    torch.testing.assert_close(jacobian.diagonal(dim1=0, dim2=1).movedim(-1, 0), expected[0])
    torch.testing.assert_close(jacfwd(lambda x: soft_dtw(x, y, gamma=0.5))(x), jacobian)
    direction = torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1)).to(device)
    value, tangent = jvp(lambda x: soft_dtw(x, y, gamma=0.5), (x,), (direction,))
    torch.testing.assert_close(value, soft_dtw(x, y, gamma=0.5))
    torch.testing.assert_close(tangent, (expected[0] * direction).sum((1, 2)))


def test_forward_mode_of_dual_tensors(device):
    x, y = data(device)
    u, v = (torch.randn_like(t) for t in (x, y))
    for requires_grad in (False, True):
        x.requires_grad_(requires_grad)
        with forward_ad.dual_level():
            value = soft_dtw(forward_ad.make_dual(x, u), forward_ad.make_dual(y, v), gamma=0.5)
            tangent = forward_ad.unpack_dual(value).tangent
            assert forward_ad.unpack_dual(soft_dtw(x.detach(), y)).tangent is None
        expected = jacrev(lambda x, y: soft_dtw(x, y, gamma=0.5), argnums=(0, 1))(x.detach(), y)
        expected = sum((j * t).sum((1, 2, 3)) for j, t in zip(expected, (u, v), strict=True))
        torch.testing.assert_close(tangent, expected)


def test_gamma_that_is_a_dual_tensor(device):
    x, y = data(device)
    gamma = torch.tensor(0.7, dtype=x.dtype)

    def function(gamma):
        return soft_dtw(x, y, gamma=gamma)

    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(gamma, 2 * gamma))).tangent
        assert forward_ad.unpack_dual(function(gamma)).tangent is None
        with pytest.raises(ValueError, match=r"gamma is 0\.0 and has a tangent"):
            function(forward_ad.make_dual(0 * gamma, gamma))
    torch.testing.assert_close(tangent, 2 * gamma * jacrev(function)(gamma))


def test_gradient_of_the_tangent_of_dual_tensors(device):
    x, y = data(device)
    u, weights = torch.randn_like(x), torch.arange(1.0, 4.0, device=device)  # a product: its gradients are 0

    def function(x):
        return (soft_dtw(x, y, gamma=0.5) * weights).sum()

    expected = torch.func.grad(lambda x: jvp(function, (x,), (u,))[1])(x)
    x.requires_grad_()
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(x, u))).tangent
    torch.testing.assert_close(torch.autograd.grad(tangent, x)[0], expected)


IN_DIMS = [*itertools.product([None, 0, 1, 3], [None, 0, 3], [None, 0, 1], [None, 0])][1:]


@pytest.mark.parametrize("dims", IN_DIMS)
def test_vmap(dims):
    size, device = 4, "cpu"
    x, y = data(device, (size * 3, 7, 6, 2))
    lengths = torch.randint(0, 6, (2, size, 3), generator=torch.Generator().manual_seed(0))
    whole = (x.view(size, 3, 7, 2), y.view(size, 3, 6, 2), *lengths)
    mapped = [t.movedim(0, d) if d is not None else t[0] for t, d in zip(whole, dims, strict=True)]

    def each(x, y, n, m):
        return soft_dtw(x, y, gamma=0.5, x_lengths=n, y_lengths=m)

    def gradient(*args):
        return grad(lambda *a: torch.where(torch.isfinite(v := each(*a)), v, 0).sum(), argnums=(0, 1))(*args)

    for function in (each, gradient):
        value = vmap(function, in_dims=dims)(*mapped)
        one_by_one = [
            function(*(t.select(d, k) if d is not None else t for t, d in zip(mapped, dims, strict=True)))
            for k in range(size)
        ]
        expected = torch.utils._pytree.tree_map(lambda *t: torch.stack(t), *one_by_one)
        torch.testing.assert_close(value, expected)


@pytest.mark.usefixtures("python_way")
def test_vmap_is_one_call(device, monkeypatch):
    calls = []
    forward = libsdtw._core.Plan.forward
    monkeypatch.setattr(libsdtw._core.Plan, "forward", lambda *args: (calls.append(args), forward(*args)))
    x, y = data(device)
    value = vmap(lambda x, y: soft_dtw(x, y))(x, y)
    torch.testing.assert_close(value, soft_dtw(x, y))
    nested = vmap(vmap(lambda x, y: soft_dtw(x, y), in_dims=(None, 0)), in_dims=(0, None))(x, y)
    assert nested.shape == (3, 3)
    torch.testing.assert_close(nested.diagonal(), value)
    assert len(calls) == 3


def test_vmap_of_alignment_and_costs(device):
    x, y = data(device)
    torch.testing.assert_close(vmap(soft_dtw_alignment)(x, y), soft_dtw_alignment(x, y))
    cost = torch.cdist(x, y)
    value = vmap(grad(lambda c: soft_dtw(c, metric="precomputed")))(cost)
    torch.testing.assert_close(value, soft_dtw_alignment(cost, metric="precomputed"))


def test_batched_upstream_gradients(device):
    x, y = pair(device)
    values = soft_dtw(x, y, gamma=0.5)
    upstream = torch.eye(3, dtype=x.dtype, device=device)
    batched = torch.autograd.grad(values, (x, y), upstream, is_grads_batched=True, retain_graph=True)
    for k in range(3):
        alone = torch.autograd.grad(values, (x, y), upstream[k], retain_graph=True)
        torch.testing.assert_close(tuple(b[k] for b in batched), alone)


def test_batched_upstream_gradients_that_halves_have_no_room_for(device):
    x, y = (1e-3 * t.detach().half() for t in pair(device))
    x.requires_grad_()
    value, upstream = soft_dtw(x, y), 70000 * torch.eye(3, device=device)
    (batched,) = torch.autograd.grad(value, x, upstream, is_grads_batched=True, retain_graph=True)
    expected = [torch.autograd.grad(value, x, row, retain_graph=True)[0] for row in upstream]
    torch.testing.assert_close(batched, torch.stack(expected), rtol=2e-3, atol=0)


CASES = [{}, {"lengths": True}, {"metric": "precomputed"}, {"shared": True}]


@pytest.mark.parametrize("gamma", [0.3, 2.0])
@pytest.mark.parametrize("case", CASES)
def test_gradcheck(device, gamma, case):
    x, y = pair(device, shape=(3, 5, 4, 2))
    inputs, options = (x, y), {"gamma": gamma}
    if "lengths" in case:
        options["x_lengths"] = torch.tensor([5, 3, 0], device=device)
        options["y_lengths"] = torch.tensor([2, 4, 0], device=device)
    if "metric" in case:
        inputs, options["metric"] = (torch.cdist(x, y).detach().requires_grad_(),), case["metric"]
    if "shared" in case:
        inputs = x, y.detach()[:1].requires_grad_()

    def function(*inputs):
        return soft_dtw(*inputs, **options)

    every = {"check_batched_grad": True, "check_forward_ad": True, "check_batched_forward_grad": True}
    assert torch.autograd.gradcheck(function, inputs, **every)
    assert torch.autograd.gradgradcheck(
        function, inputs, check_batched_grad=True, check_fwd_over_rev=True, check_rev_over_rev=True
    )
    for one in range(len(inputs)):  # the others are constants
        only = [t if k == one else t.detach() for k, t in enumerate(inputs)]
        assert torch.autograd.gradgradcheck(function, only)


def test_hessian(device):
    x, y = data(device, (2, 5, 4, 2))

    def function(x):
        return summed(x, y)

    matrix = hessian(function)(x)
    torch.testing.assert_close(matrix, jacrev(jacrev(function))(x))
    torch.testing.assert_close(matrix, jacrev(jacfwd(function))(x))
    torch.testing.assert_close(matrix, torch.autograd.functional.hessian(function, x))
    torch.testing.assert_close(matrix, matrix.permute(3, 4, 5, 0, 1, 2))
    torch.testing.assert_close(jacfwd(jacfwd(function))(x), matrix)
    assert not matrix[0, :, :, 1].any()  # pairs know nothing of each other
    step = 1e-5 * torch.randn_like(x)
    difference = grad(function)(x + step) - grad(function)(x - step)
    torch.testing.assert_close(
        torch.einsum("bndcme,cme->bnd", matrix, 2 * step), difference, rtol=1e-6, atol=1e-12
    )
    per_pair = vmap(hessian(lambda x, y: soft_dtw(x, y, gamma=0.5)))(x, y)
    torch.testing.assert_close(per_pair, torch.stack([matrix[b, :, :, b] for b in range(2)]))


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_hessian_where_gradients_are_zero(device, outer, inner):
    x = torch.zeros(1, 1, dtype=torch.float64, device=device)
    torch.testing.assert_close(outer(inner(soft_dtw))(x, x).flatten(), x.new_tensor([2]))
    # Of a feature that is the same all over.
    x, y = (torch.stack((t.detach()[0, :, 0], torch.full_like(t[0, :, 0], 0.5)), -1) for t in pair(device))
    torch.testing.assert_close(outer(inner(soft_dtw))(x, y), jacrev(jacrev(soft_dtw))(x, y))


def test_values_inside_of_transforms_have_derivatives(device):
    x, y = data(device)
    u = torch.randn_like(x)
    expected = grad(summed)(x, y)
    torch.testing.assert_close(grad(lambda x: vjp(summed, x, y)[0])(x), expected)
    torch.testing.assert_close(grad(lambda x: jvp(lambda x: summed(x, y), (x,), (u,))[0])(x), expected)
    torch.testing.assert_close(grad(lambda x: jvp(lambda x: summed(x, y), (x,), (u,))[1])(x),
                               jvp(lambda x: grad(summed)(x, y), (x,), (u,))[1])  # fmt: skip
    with torch.no_grad():
        assert not soft_dtw(x.clone().requires_grad_(), y).requires_grad


def test_second_order_of_forbidden_cells_and_padding(device):
    # Costs of +infinity and whatever is in the padding change nothing but what they say.
    x, y = pair(device, shape=(2, 6, 5, 2))
    n, m = torch.tensor([4, 6], device=device), torch.tensor([5, 3], device=device)
    u = torch.randn_like(x)

    def product(x, y, **lengths):
        first = torch.autograd.grad(soft_dtw(x, y, **lengths).sum(), x, create_graph=True)[0]
        return torch.autograd.grad((first * u[: len(x), : x.shape[1]]).sum(), x)[0]

    broken = x.detach().clone(), y.detach().clone()
    broken[0][0, 4:], broken[1][1, 3:] = torch.nan, torch.inf
    result = product(broken[0].requires_grad_(), broken[1], x_lengths=n, y_lengths=m)
    u_all, expected = u, torch.zeros_like(x)
    for b in range(2):
        u = u_all[b : b + 1]
        rows, columns = int(n[b]), int(m[b])
        part = x.detach()[b : b + 1, :rows].requires_grad_()
        expected[b, :rows] = product(part, y.detach()[b : b + 1, :columns])[0]
    torch.testing.assert_close(result, expected)

    cost = torch.rand(1, 5, 4, dtype=torch.float64, device=device)
    band = torch.full_like(cost, torch.inf).where(torch.ones_like(cost).triu(3).bool(), 0)
    assert torch.autograd.gradgradcheck(
        lambda c: soft_dtw(c + band, metric="precomputed"), (cost.requires_grad_(),)
    )


def test_third_derivative_is_refused(device):
    x, y = pair(device)
    first = torch.autograd.grad(summed(x, y), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
    with pytest.raises(libsdtw.UnsupportedError, match="third order"):
        second.sum().backward()


def test_autograd_functional(device):
    x, y = data(device, (1, 4, 3, 2))
    of = torch.autograd.functional

    def function(x):
        return summed(x, y)

    expected = hessian(function)(x)
    ways = [(False, "reverse-mode"), (True, "reverse-mode"), (True, "forward-mode")]
    for vectorize, strategy in ways:
        options = {"vectorize": vectorize}
        jacobian = of.jacobian(function, x, strategy=strategy, **options)
        torch.testing.assert_close(jacobian, grad(function)(x))
        torch.testing.assert_close(
            of.hessian(function, x, outer_jacobian_strategy=strategy, **options), expected
        )
    v = torch.randn_like(x)
    product = (expected * v).sum((3, 4, 5))
    torch.testing.assert_close(of.vhp(function, x, v)[1], product)
    torch.testing.assert_close(of.jvp(function, x, v)[1], (jacobian * v).sum())
    with pytest.raises(libsdtw.UnsupportedError, match="third order"):  # it takes one, for what vhp gives too
        of.hvp(function, x, v)


@pytest.mark.parametrize("metric", ["sqeuclidean", "precomputed"])
def test_alignment_is_differentiable_where_that_is_asked_for(device, metric):
    x, y = pair(device, shape=(2, 5, 4, 2))
    lengths = {
        "x_lengths": torch.tensor([5, 3], device=device),
        "y_lengths": torch.tensor([2, 4], device=device),
    }
    inputs = (x, y) if metric == "sqeuclidean" else (torch.cdist(x, y).detach().requires_grad_(),)

    def function(*inputs):
        return soft_dtw_alignment(*inputs, gamma=0.7, metric=metric, **lengths)

    alignment = function(*inputs)
    plain = function(*(t.detach() for t in inputs))
    assert alignment.requires_grad
    assert not plain.requires_grad
    torch.testing.assert_close(alignment.detach(), plain)
    assert torch.autograd.gradcheck(function, inputs, check_forward_ad=True)


def test_compiled_transforms(device):
    # Compiled, forward mode and second derivatives are what they are in eager mode.
    x, y = data(device)

    def function(x, y):
        return grad(lambda x: summed(x, y))(x), vmap(lambda x, y: soft_dtw(x, y))(x, y)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x, y), function(x, y))


def test_compiled_forward_mode_is_not_lost(device):
    # Where the compiler cannot trace forward mode, as in PyTorch 2.13, it says so instead of leaving it out.
    x, y = data(device)
    u = torch.randn_like(x)

    def tangent(x, u):
        return jvp(lambda x: soft_dtw(x, y), (x,), (u,))[1]

    expected = tangent(x, u)
    try:
        compiled = torch.compile(tangent, backend="aot_eager")(x, u)
    except torch._dynamo.exc.TorchDynamoException:
        return
    torch.testing.assert_close(compiled, expected)
