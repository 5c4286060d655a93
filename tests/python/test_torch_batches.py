# libsdtw.torch: batches as people have them.
import numpy as np
import pytest
import torch
from tslearn.utils import to_time_series_dataset

from libsdtw.torch import (
    SoftDTW,
    pad,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_with_alignment,
    to_lengths,
)
from torch_data import grads, pair


@pytest.mark.parametrize(
    ("left", "right", "shape"),
    [
        ((), (), ()),
        ((3,), (), (3,)),
        ((), (3,), (3,)),
        ((2, 1), (3,), (2, 3)),
        ((2, 3), (2, 3), (2, 3)),
        ((4, 1, 3), (2, 1), (4, 2, 3)),
        ((0,), (1,), (0,)),
        ((2, 0), (2, 1), (2, 0)),
    ],
)
def test_leading_dimensions_broadcast(device, left, right, shape):
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(*left, 7, 2, generator=rng, dtype=torch.float64).to(device).requires_grad_()
    y = torch.randn(*right, 6, 2, generator=rng, dtype=torch.float64).to(device).requires_grad_()
    value = soft_dtw(x, y, gamma=0.5)
    assert value.shape == shape == torch.cdist(x, y).shape[:-2]
    assert soft_dtw_alignment(x, y).shape == (*shape, 7, 6)
    full = [t.detach().expand(*shape, *t.shape[-2:]).reshape(-1, *t.shape[-2:]) for t in (x, y)]
    each = [soft_dtw(a, b, gamma=0.5) for a, b in zip(*full, strict=True)]
    torch.testing.assert_close(value.flatten(), torch.stack(each) if each else value.flatten())
    assert [g.shape for g in grads(value, x, y)] == [x.shape, y.shape]
    lengths = torch.full(shape, 3, device=device)
    torch.testing.assert_close(soft_dtw(x, y, x_lengths=lengths), soft_dtw(x[..., :3, :], y))


def test_costs_of_any_leading_dimensions(device):
    cost = torch.rand(2, 3, 5, 4, device=device)
    value = soft_dtw(cost, metric="precomputed")
    torch.testing.assert_close(value, soft_dtw(cost.view(6, 5, 4), metric="precomputed").view(2, 3))


def test_univariate(device):
    x, y = pair(device, shape=(3, 7, 7, 1))
    torch.testing.assert_close(soft_dtw(x[0, :, 0], y[0, :, 0]), soft_dtw(x[0], y[0]))
    value, alignment = soft_dtw_with_alignment(x[0, :, 0], y[0, :, 0])
    assert value.shape == ()
    assert alignment.shape == (7, 7)
    # (B, N) is one pair with N features; [..., None] makes it a batch.
    assert soft_dtw(x[..., 0], y[..., 0]).shape == ()
    assert soft_dtw(x[..., 0][..., None], y[..., 0][..., None]).shape == (3,)


INTEGERS = torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint64


@pytest.mark.parametrize(
    "lengths",
    [
        [7, 2, 5], (7, 2, 5), np.array([7, 2, 5]), np.array([7, 2, 5], np.uint16),
        *[torch.tensor([7, 2, 5], dtype=t) for t in INTEGERS],
    ],
)  # fmt: skip
def test_lengths_of_any_kind(device, lengths):
    x, y = pair(device)
    if isinstance(lengths, torch.Tensor):
        lengths = lengths.to(device)
    expected = soft_dtw(x, y, x_lengths=torch.tensor([7, 2, 5]).to(device))
    torch.testing.assert_close(soft_dtw(x, y, x_lengths=lengths), expected)
    torch.testing.assert_close(SoftDTW()(x, y, lengths), expected)
    torch.testing.assert_close(soft_dtw(x, y, x_lengths=4), soft_dtw(x[:, :4], y))


def ragged(device):
    rng = torch.Generator().manual_seed(0)
    return [
        torch.randn(n, 2, generator=rng, dtype=torch.float64).to(device).requires_grad_() for n in (7, 2, 5)
    ]


def test_lists(device):
    x, _ = ragged(device), None
    y = pair(device)[1]
    value = soft_dtw(x, y)
    torch.testing.assert_close(value, torch.stack([soft_dtw(a, b) for a, b in zip(x, y, strict=True)]))
    for ours, a, b in zip(torch.autograd.grad(value.sum(), x), x, y, strict=True):
        torch.testing.assert_close(ours, grads(soft_dtw(a, b), a)[0])
    torch.testing.assert_close(soft_dtw(tuple(x), list(y)), value)
    torch.testing.assert_close(
        soft_dtw([a[:, 0] for a in x], y[..., :1]), soft_dtw([a[:, :1] for a in x], y[..., :1])
    )
    torch.testing.assert_close(SoftDTW(normalize=True)(x, y), torch.stack(
        [soft_dtw(a, b, normalize=True) for a, b in zip(x, y, strict=True)]))  # fmt: skip
    batch, lengths = pad(x)
    assert batch.shape == (3, 7, 2)
    assert lengths.tolist() == [7, 2, 5]
    torch.testing.assert_close(soft_dtw(batch, y, x_lengths=lengths), value)


@pytest.mark.filterwarnings("ignore:.*nested tensors is in prototype:UserWarning")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensors(device, layout):
    x = ragged(device)
    y = pair(device)[1]
    nested = torch.nested.as_nested_tensor(x, layout=layout)
    value, expected = soft_dtw(nested, y), soft_dtw(x, y)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(torch.autograd.grad(value.sum(), x), torch.autograd.grad(expected.sum(), x))


def test_nan_padding_of_tslearn(device):
    series = ragged("cpu")
    dataset = torch.from_numpy(to_time_series_dataset([s.detach().numpy() for s in series])).to(device)
    assert dataset.isnan().any()
    lengths = to_lengths(dataset)
    assert lengths.tolist() == [7, 2, 5]
    y = pair(device)[1]
    expected = soft_dtw([s.to(device) for s in series], y)
    torch.testing.assert_close(soft_dtw(dataset.requires_grad_(), y, x_lengths=lengths), expected)
    grad = grads(soft_dtw(dataset, y, x_lengths=lengths), dataset)[0]
    assert grad.isfinite().all()
    assert to_lengths(torch.full((2, 4, 1), torch.nan)).tolist() == [0, 0]
    assert to_lengths(torch.ones(2, 0, 1)).tolist() == [0, 0]
    inner = torch.zeros(1, 4, 1)
    inner[0, 1] = torch.nan  # a gap is no padding
    assert to_lengths(inner).tolist() == [4]


@pytest.mark.parametrize("missing", [torch.nan, torch.inf])
@pytest.mark.parametrize("metric", ["sqeuclidean", "euclidean", "cityblock", "cosine"])
@pytest.mark.parametrize("band", [{}, {"band": "absolute", "radius": 1}])  # which has no path to the point
def test_missing_points_where_costs_are_held(device, metric, missing, band):
    x, y = (t.detach() for t in pair(device, shape=(3, 9, 6, 2)))
    x[0, 8, 1] = missing
    options = {"metric": metric, **band}
    value, alignment = soft_dtw_with_alignment(x, y, **options)
    assert not value[0].isfinite()
    held = soft_dtw_with_alignment(x.clone().requires_grad_(), y, **options)
    torch.testing.assert_close([t.detach() for t in held], [value, alignment], equal_nan=True)
    sharp = sharp_soft_dtw(x, y, **options)
    torch.testing.assert_close(sharp[0], value[0], equal_nan=True)
    gamma = torch.tensor(1.0, device=device, requires_grad=True)
    options |= {"gamma": gamma, "step_penalties": (0, 1e-9, 1e-9)}
    torch.testing.assert_close(soft_dtw(x, y, **options).detach(), value, equal_nan=True)
    if not value.isnan().any():
        inputs = gamma, x.requires_grad_(), y.requires_grad_()
        found = grads(soft_dtw(x, y, **options, zero_infinity=True), *inputs)
        assert all(grad.isfinite().all() for grad in found)
        assert not found[1][0].any()


@pytest.mark.parametrize("metric", ["sqeuclidean", "cosine"])
def test_costs_that_are_held_under_autocast(device, metric):
    x, y = pair(device, torch.float32)

    def results():
        alignment = soft_dtw_alignment(x, y, metric=metric, gamma=0.1)
        return [alignment, *grads(alignment.square(), x, y), sharp_soft_dtw(x, y, metric=metric)]

    expected = results()
    with torch.autocast(device.type, dtype=torch.bfloat16):
        torch.testing.assert_close(results(), expected, rtol=0, atol=0)


# Of series so small or large that their type has no squares of them.
@pytest.mark.parametrize(
    ("metric", "gamma", "scale", "dtype"),
    [
        ("euclidean", 1e-25, 1e-25, torch.float32),
        ("euclidean", 1e25, 1e25, torch.float32),
        ("cosine", 1, 1e-25, torch.float32),
        ("cosine", 1, 1e-200, torch.float64),
        ("cosine", 1, 1e200, torch.float64),
    ],
)
def test_costs_that_are_held_of_any_size(device, metric, gamma, scale, dtype):
    x, y = pair(device)
    expected = soft_dtw_alignment(x, y, metric=metric)
    slopes = grads(expected.square(), x, y)
    x, y = ((scale * t.detach()).to(dtype).requires_grad_() for t in (x, y))
    alignment = soft_dtw_alignment(x, y, metric=metric, gamma=gamma)
    torch.testing.assert_close(alignment.double(), expected, rtol=0, atol=2e-6)
    found = tuple(scale * grad.double() for grad in grads(alignment.square(), x, y))
    torch.testing.assert_close(found, slopes, rtol=0, atol=2e-5)
