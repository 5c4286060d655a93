# libsdtw.torch: every argument broken one at a time. Messages name the argument as Python has it.
import re
import warnings

import numpy as np
import pytest
import torch

import libsdtw
from libsdtw.torch import (
    SoftDTW,
    pad,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_divergence,
    soft_dtw_with_alignment,
    to_lengths,
)

i64 = torch.int64


def series(*shape, **options):
    return torch.zeros(*shape, **options)


def given(**changed):
    return {"x": series(2, 5, 3), "y": series(2, 4, 3), **changed}


def packed(*shape):
    return torch.nn.utils.rnn.pack_sequence([series(*shape), series(*shape)])


def sparse(*shape):
    return series(*shape).to_sparse()


def masked(*shape):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is a prototype
        return torch.masked.MaskedTensor(series(*shape), torch.ones(shape, dtype=torch.bool))


learned = torch.nn.Parameter(torch.ones(3))

# What is given instead, the exception, and what its message says.
SHARED = [
    # no tensors, or tensors of no numbers
    (given(x=np.zeros((2, 5, 3))), TypeError, "x is a ndarray: expected a tensor"),
    (given(x=None), TypeError, "x is a NoneType"),
    (given(x=1.0), TypeError, "x is a float"),
    (given(x="abc"), TypeError, "x is a str"),
    (given(y=np.zeros((2, 4, 3))), TypeError, "y is a ndarray"),
    (given(y=3), TypeError, "y is a int"),
    (given(y=[[1.0]]), TypeError, r"y\[0\] is a list: expected a tensor"),
    (given(x=[series(5, 3), np.zeros((4, 3))]), TypeError, r"x\[1\] is a ndarray"),
    (given(x=packed(5, 3)), TypeError, "x is a PackedSequence: .*pad_packed_sequence"),
    (given(y=packed(4)), TypeError, "y is a PackedSequence"),
    (given(x=series(2, 5, 3, dtype=i64)), TypeError, r"x has dtype torch.int64: .*x\.float\(\)"),
    (given(y=series(2, 4, 3, dtype=torch.int32)), TypeError, "y has dtype torch.int32"),
    (given(y=series(2, 4, 3, dtype=torch.bool)), TypeError, "y has dtype torch.bool"),
    (given(x=series(2, 5, 3, dtype=torch.uint8)), TypeError, "x has dtype torch.uint8"),
    (given(x=series(2, 5, 3, dtype=torch.complex64)), TypeError, "x has dtype torch.complex64"),
    (given(y=series(2, 4, 3, dtype=torch.complex128)), TypeError, "y has dtype torch.complex128"),
    (given(x=sparse(2, 5, 3)), TypeError, r"x has layout torch.sparse_coo: .*x\.to_dense\(\)"),
    (given(y=sparse(2, 4, 3)), TypeError, "y has layout torch.sparse_coo"),
    (given(x=masked(2, 5, 3)), TypeError, r"x is a MaskedTensor: .*x\.to_tensor\(0\)"),
    (given(y=masked(2, 4, 3)), TypeError, "y is a MaskedTensor"),
    # types and devices that differ
    (
        given(x=series(2, 5, 3, dtype=torch.float64)),
        ValueError,
        "x has dtype torch.float64 and y has torch.f",
    ),
    (given(y=series(2, 4, 3, dtype=torch.float16)), ValueError, "y has torch.float16: .*torch.autocast"),
    (given(y=series(2, 4, 3, device="meta")), ValueError, "x is on device cpu and y on meta"),
    (given(x=series(2, 5, 3, device="meta")), ValueError, "x is on device meta and y on cpu"),
    # shapes
    (given(x=torch.tensor(1.0)), ValueError, r"x has shape \(\): expected \(\.\.\., N, D\)"),
    (given(y=torch.tensor(1.0)), ValueError, r"y has shape \(\)"),
    (given(y=series(2, 4, 2)), ValueError, r"x has 3 features and y has 2 .*\[\.\.\., None\]"),
    (given(x=series(16, 120), y=series(16, 100)), ValueError, r"x has 120 features .*\[\.\.\., None\]"),
    (given(x=series(5), y=series(2, 4, 3)), ValueError, "x has 1 features and y has 3"),
    (given(y=series(3, 4, 3)), ValueError, r"x has the batch \(2,\) and y \(3,\) .*soft_dtw_cdist"),
    (given(x=series(2, 3, 5, 3), y=series(4, 4, 3)), ValueError, r"batch \(2, 3\) and y \(4,\)"),
    (given(x=series(2, 0, 3)), ValueError, "x has 0 time steps .*x_lengths"),
    (given(y=series(2, 0, 3)), ValueError, "y has 0 time steps"),
    (given(x=series(0), y=series(4)), ValueError, "x has 0 time steps"),
    (given(x=series(2, 5, 0), y=series(2, 4, 0)), ValueError, "x has 0 features"),
    # lists
    (given(x=[]), ValueError, "x is empty: expected one series or more"),
    (given(y=()), ValueError, "y is empty"),
    (given(x=[series(5, 3), series(4, 2)]), ValueError, r"x\[1\] has shape \(4, 2\) and x\[0\] \(5, 3\)"),
    (given(x=[series(5, 3), series(4)]), ValueError, r"x\[1\] has shape \(4,\)"),
    (given(x=[series(1, 5, 3)]), ValueError, r"x\[0\] has shape \(1, 5, 3\): expected \(N_b, D\)"),
    (given(x=[series(5, 3), series(4, 3).double()]), ValueError, r"x\[1\] is torch.float64"),
    (given(x=[series(5, 3, dtype=i64)] * 2), TypeError, "x has dtype torch.int64"),
    (given(x=[series(5, 3)] * 3), ValueError, r"x has the batch \(3,\)"),
    (given(x=[series(5, 3)] * 2, x_lengths=[5, 5]), ValueError, "x is a list and x_lengths is given"),
    # lengths
    (given(x_lengths=5.0), TypeError, "x_lengths is 5.0: expected integers"),
    (given(x_lengths="ab"), TypeError, "x_lengths is 'ab'"),
    (given(x_lengths=[5 + 0j, 4]), TypeError, "x_lengths is .*: expected integers"),
    (given(x_lengths=[1.5, 2.0]), TypeError, r"x_lengths is \[1.5, 2.0\]"),
    (given(x_lengths=[[1, 2], [3]]), TypeError, "x_lengths is"),
    (given(y_lengths=[True, False]), TypeError, "y_lengths is"),
    (given(x_lengths=torch.ones(2)), TypeError, r"x_lengths has dtype torch.float32: .*x_lengths\.long\(\)"),
    (given(y_lengths=torch.ones(2, 5, dtype=torch.bool)), TypeError, "of a mask y_lengths.sum"),
    (given(y_lengths=torch.ones(3, dtype=i64)), ValueError, r"y_lengths has shape \(3,\): expected \(2,\)"),
    (given(x_lengths=[1, 2, 3]), ValueError, r"x_lengths has shape \(3,\)"),
    (given(x_lengths=torch.ones(2, 2, dtype=i64)), ValueError, r"x_lengths has shape \(2, 2\)"),
    (given(x=series(5, 3), y=series(4, 3), x_lengths=[1, 2]), ValueError, r"expected \(\), the length of"),
    (given(x_lengths=[6, 5]), ValueError, r"x_lengths has 6: expected lengths in \[0, 5\]"),
    (given(y_lengths=[-1, 3]), ValueError, r"y_lengths has -1: expected lengths in \[0, 4\]"),
    (given(x_lengths=np.array([3, 9])), ValueError, "x_lengths has 9"),
    (given(x_lengths=torch.tensor([5, 6])), ValueError, r"x_lengths\[1\] is 6: expected lengths in \[0, 5\]"),
    (given(y_lengths=torch.tensor([-2, 4], dtype=torch.int32)), ValueError, r"y_lengths\[0\] is -2"),
    (given(y_lengths=torch.tensor(5)), ValueError, r"y_lengths\[0\] is 5"),
    (given(x_lengths=torch.tensor([6, 1]), check_lengths=True), ValueError, "x_lengths has 6"),
    (
        given(x_lengths=torch.ones(2, dtype=i64, device="meta")),
        ValueError,
        "x_lengths is on device meta and x",
    ),
    # metric
    (given(y=None), ValueError, "y is None with metric 'sqeuclidean': expected series"),
    (given(y=None, metric=torch.cdist), ValueError, "y is None"),
    (given(metric="precomputed"), ValueError, "y is given with metric 'precomputed'"),
    (given(metric="manhattan"), ValueError, "metric is 'manhattan': expected one of .*or a function"),
    (given(metric="SQEUCLIDEAN"), ValueError, "metric is 'SQEUCLIDEAN'"),
    (given(metric=None), ValueError, "metric is None"),
    (given(metric=2), ValueError, "metric is 2"),
    (given(metric=lambda x, y: 1.0), ValueError, "metric returned a float .*expected the costs"),
    (given(metric=lambda x, y: x), ValueError, r"metric returned shape \(2, 5, 3\) .*\(2, 5, 4\)"),
    (given(metric=lambda x, y: torch.cdist(x, y).long()), ValueError, "metric returned torch.int64"),
    # gamma
    (given(gamma=-0.5), ValueError, r"gamma is -0\.5: expected a finite number >= 0"),
    (given(gamma=float("nan")), ValueError, "gamma is nan"),
    (given(gamma=float("inf")), ValueError, "gamma is inf"),
    (given(gamma=1e-300), ValueError, "gamma is 1e-300"),
    (given(gamma="0.1"), TypeError, "gamma is '0.1': expected a number"),
    (given(gamma=None), TypeError, "gamma is None"),
    (given(gamma=True), TypeError, "gamma is True"),
    (given(gamma=1j), TypeError, "gamma is 1j"),
    (given(gamma=torch.tensor([0.1, 0.2])), TypeError, r"gamma is a tensor of shape \(2,\)"),
    (given(gamma=torch.tensor(1)), TypeError, "gamma is a tensor of shape .* torch.int64"),
    (given(gamma=torch.tensor(-1.0)), ValueError, r"gamma is -1\.0"),
    (given(gamma=10**400), ValueError, "gamma is 10+: expected a finite number >= 0"),
    (given(gamma=torch.tensor(0.0, requires_grad=True)), ValueError, r"gamma is 0\.0 and requires .*exp\(\)"),
    (given(gamma=torch.tensor(torch.nan, requires_grad=True)), ValueError, "gamma is nan"),
    (given(gamma=torch.nn.Parameter(torch.tensor([-2.0]))), ValueError, r"gamma is -2\.0"),
    # bands and steps
    (given(band="absolute"), TypeError, "radius is None: expected a number, with band 'absolute'"),
    (given(band="absolute", radius="2"), TypeError, "radius is '2'"),
    (given(band="absolute", radius=True), TypeError, "radius is True"),
    (given(band="absolute", radius=-1), ValueError, r"radius is -1: expected a finite number >= 0"),
    (given(band="sakoe_chiba", radius=float("nan")), ValueError, "radius is nan"),
    (given(band="itakura", radius=0.5), ValueError, "radius is 0.5: .*maximum slope, >= 1"),
    (given(band="none", radius=1), ValueError, "band is 'none': expected one of 'sakoe_chiba', 'absolute'"),
    (given(band="slanted", radius=1), ValueError, "band is 'slanted'"),
    (given(band=3, radius=1), ValueError, "band is 3"),
    (given(radius=3), ValueError, "radius is 3 without a band"),
    (given(step_weights=2), TypeError, "step_weights is 2: expected three numbers"),
    (given(step_weights="abc"), TypeError, "step_weights is 'abc'"),
    (given(step_weights=(1, 1)), ValueError, "step_weights holds 2 numbers"),
    (given(step_weights=(1, -1, 1)), ValueError, r"step_weights is \(1, -1, 1\): .*below 0"),
    (given(step_penalties=None), TypeError, "step_penalties is None"),
    (given(step_penalties=(0, 0, float("inf"))), ValueError, "step_penalties is .*finite"),
    (given(step_penalties=learned), NotImplementedError, "step_penalties requires a gradient.*three numbers"),
    (given(step_weights=tuple(learned)), NotImplementedError, "step_weights requires a gradient"),
    (given(step_weights=[1, learned[1], 1]), NotImplementedError, "step_weights requires a gradient"),
    # options that there are not
    (given(bandwidth=3), TypeError, "bandwidth"),
    (given(dist="sqeuclidean"), TypeError, "dist"),
]
COSTS = [
    ({"x": series(4), "metric": "precomputed"}, ValueError, r"x has shape \(4,\): expected costs"),
    ({"x": series(2, 0, 4), "metric": "precomputed"}, ValueError, r"x has shape \(2, 0, 4\): expected costs"),
    ({"x": series(2, 4, 4), "metric": "precomputed", "y_lengths": [1, 5]}, ValueError, "y_lengths has 5"),
    ({"x": sparse(2, 4, 4), "metric": "precomputed"}, TypeError, "x has layout"),
]
VALUES = [
    (given(reduction="avg"), ValueError, "reduction is 'avg': expected one of 'none', 'mean', 'sum'"),
    (given(reduction=None), ValueError, "reduction is None"),
    (given(reduction=["mean"]), ValueError, "reduction is"),
]
NO_C_NAMES = re.compile(
    r"SDTW_|problem\.|buffers\.|exec\.|pybind|_core|incompatible function arguments|invoked with", re.I
)


def check(function, arguments, error, message):
    with pytest.raises(error, match=message) as caught:
        function(**arguments)
    assert not NO_C_NAMES.search(str(caught.value))
    if error is not TypeError:
        assert isinstance(caught.value, libsdtw.SdtwError)


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_alignment, soft_dtw_with_alignment])
@pytest.mark.parametrize("case", [*SHARED, *COSTS])
def test_broken_arguments(function, case):
    check(function, *case)


@pytest.mark.parametrize("function", [soft_dtw, sharp_soft_dtw, soft_dtw_divergence])
@pytest.mark.parametrize("case", VALUES)
def test_broken_reduction(function, case):
    check(function, *case)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (given(kind="hard"), ValueError, "kind is 'hard': expected one of 'soft', 'sharp', 'mean_cost'"),
        (given(metric="precomputed"), ValueError, "metric is 'precomputed', but a divergence"),
        (given(x=None), TypeError, "x is a NoneType"),
        (given(y=None), ValueError, "y is None"),
    ],
)
def test_broken_divergence(arguments, error, message):
    check(soft_dtw_divergence, arguments, error, message)


def test_there_are_enough_of_them():
    assert len(SHARED) + len(COSTS) + len(VALUES) >= 80


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gamma": -1}, ValueError),
        ({"gamma": None}, TypeError),
        ({"gamma": True}, TypeError),
        ({"gamma": torch.ones(2)}, TypeError),
        ({"gamma": torch.nn.Parameter(torch.zeros(()))}, ValueError),
        ({"metric": "l2"}, ValueError),
        ({"band": "absolute"}, TypeError),
        ({"radius": 2}, ValueError),
        ({"step_weights": (1, 1)}, ValueError),
        ({"step_penalties": None}, TypeError),
        ({"reduction": None}, ValueError),
        ({"bandwidth": 3}, TypeError),
        ({"normalize": True, "metric": "precomputed"}, ValueError),
        (
            {
                "gamma": torch.ones((), requires_grad=True),
                "step_weights": (2, 1, 1),
                "step_penalties": (0, 1, 1),
            },
            NotImplementedError,
        ),
    ],
)
def test_module_refuses_what_a_call_would(options, error):
    with pytest.raises(error):
        SoftDTW(**options)


def test_helpers():
    with pytest.raises(ValueError, match="series is empty"):
        pad([])
    with pytest.raises(TypeError, match="series is a tensor: expected a list"):
        pad(torch.zeros(3, 4))
    with pytest.raises(TypeError, match="series is a NoneType: expected a list of series"):
        pad(None)
    with pytest.raises(ValueError, match=r"series is not \(\.\.\., N, D\)"):
        to_lengths(torch.zeros(3))


def test_sizes_beyond_memory():
    x = torch.zeros(1, 1, 1).expand(2**20, 2**20, 1)
    check(soft_dtw_alignment, {"x": x, "y": x}, ValueError, r"pairs \* N \* M is 1048576 \* 1048576")
    with pytest.raises(RuntimeError, match=r"memory|alloc"):  # PyTorch's own
        soft_dtw_alignment(x[:1], x[:1])
    long = torch.zeros(1, 1, 1).expand(1, 2**30, 1)
    check(soft_dtw, {"x": long, "y": long}, ValueError, "the number of time steps of x is 1073741824")


def test_gradient_of_integers_is_pytorchs_error():
    with pytest.raises(RuntimeError, match="floating point"):
        torch.zeros(2, 5, 3, dtype=i64).requires_grad_()


@pytest.mark.parametrize("options", [{}, {"metric": "cosine"}, {"band": "absolute", "radius": 9}])
@pytest.mark.parametrize("changed", [torch.Tensor.half, lambda t: t[:, :5], lambda t: t[:2]])
def test_hooks_of_saved_tensors_that_give_back_something_else(options, changed):
    x, y = (torch.randn(3, n, 2, requires_grad=True) for n in (20, 15))

    def pack(tensor):
        return changed(tensor) if tensor.ndim == 3 else tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        value = soft_dtw(x, y, **options).sum()
    with pytest.raises(RuntimeError, match=r"hook of saved tensors gave .*expected .*, as it was saved"):
        value.backward()


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_cdist])
@pytest.mark.parametrize("changed", [
    lambda t: t.half() if t.shape[1:] == (500, 2) else t,  # y alone
    lambda t: t.repeat(1, 1, 8) if t.shape[1:] == (500, 2) else t,
    lambda t: t.int() if t.dtype == torch.int64 and t[-1] == 20 else t,  # x_lengths alone
])  # fmt: skip
def test_hooks_that_change_one_of_two(function, changed):
    x, y = (torch.randn(3, n, 2, requires_grad=True) for n in (20, 500))
    options = {"zero_infinity": True} if function is soft_dtw else {}
    lengths = {"x_lengths": torch.tensor([5, 9, 20]), "y_lengths": torch.tensor([5, 9, 500])}
    with torch.autograd.graph.saved_tensors_hooks(changed, lambda tensor: tensor):
        value = function(x, y, **lengths, **options)
    with pytest.raises(ValueError, match=r"y.* of shape .*: expected the same type and sizes"):
        value.backward(torch.full_like(value, 1e30))  # beyond what is multiplied


def test_operators_on_tangents_of_another_kind():
    x, y, ones = torch.zeros(3, 5, 2), torch.zeros(3, 4, 2), torch.ones(3)
    for other in (x.half(), x[:, :3]):
        with pytest.raises(ValueError, match=r"x is .* and tangent_x .* of shape .*: expected the same"):
            torch.ops.libsdtw.tangents(ones, x, y, None, None, other, y, 1.0, "sqeuclidean")
