# libsdtw.torch: every argument broken one at a time.
import numpy as np
import pytest
import torch

import libsdtw
from libsdtw.torch import SoftDTW, soft_dtw, soft_dtw_alignment


def arguments(**changed):
    return {"x": torch.zeros(2, 5, 3), "y": torch.zeros(2, 4, 3), **changed}


BROKEN = [  # arguments, exception, what its message says
    (arguments(x=np.zeros((2, 5, 3))), TypeError, "x is a ndarray: expected a tensor"),
    (arguments(x=None), TypeError, "x is a NoneType"),
    (arguments(y=[[1.0]]), TypeError, "y is a list"),
    (arguments(x=torch.zeros(2, 5, 3, dtype=torch.int64)), TypeError, "x has dtype torch.int64"),
    (arguments(y=torch.zeros(2, 4, 3, dtype=torch.bool)), TypeError, "y has dtype torch.bool"),
    (arguments(x=torch.zeros(2, 5, 3, dtype=torch.complex64)), TypeError, "x has dtype torch.complex64"),
    (arguments(x=torch.zeros(2, 5, 3, dtype=torch.float64)), ValueError, "float64 and y has torch.float32"),
    (arguments(y=torch.zeros(2, 4, 3, device="meta")), ValueError, "x is on device cpu and y on meta"),
    (arguments(x=torch.tensor(1.0)), ValueError, r"x has shape \(\): expected \(B, N, D\), \(N, D\) or"),
    (arguments(y=torch.zeros(1, 2, 4, 3)), ValueError, r"y has shape \(1, 2, 4, 3\)"),
    (arguments(y=torch.zeros(2, 4, 2)), ValueError, "x has 3 features and y has 2"),
    (arguments(y=torch.zeros(3, 4, 3)), ValueError, "x has 2 series and y has 3"),
    (arguments(x=torch.zeros(2, 0, 3)), ValueError, r"problem\.n is 0"),
    (arguments(y=torch.zeros(2, 0, 3)), ValueError, r"problem\.m is 0"),
    (arguments(x=torch.zeros(2, 5, 0), y=torch.zeros(2, 4, 0)), ValueError, r"problem\.features is 0"),
    (arguments(y=None), ValueError, "y is None with metric 'sqeuclidean'"),
    (arguments(metric="precomputed"), ValueError, "y is given with metric 'precomputed'"),
    (arguments(metric="manhattan"), ValueError, "metric is 'manhattan': expected one of"),
    (arguments(metric=None), ValueError, "metric is None"),
    (arguments(metric="euclidean"), NotImplementedError, "SDTW_EUCLIDEAN"),
    (arguments(gamma=0.0), NotImplementedError, "gamma"),
    (arguments(gamma=-0.5), ValueError, r"gamma is -0\.5: expected a finite number >= 0"),
    (arguments(gamma=float("nan")), ValueError, "gamma is nan"),
    (arguments(gamma=float("inf")), ValueError, "gamma is inf"),
    (arguments(gamma="0.1"), TypeError, "gamma is '0.1': expected a number"),
    (arguments(gamma=torch.ones((), requires_grad=True)), TypeError, "gamma is tensor"),
    (arguments(x_lengths=[1, 2]), TypeError, "x_lengths is a list: expected a tensor"),
    (arguments(x_lengths=torch.ones(2)), TypeError, "x_lengths has dtype torch.float32"),
    (arguments(y_lengths=torch.ones(2, dtype=torch.int16)), TypeError, "y_lengths has dtype torch.int16"),
    (arguments(y_lengths=torch.ones(3, dtype=torch.int64)), ValueError, r"y_lengths has shape \(3,\)"),
    (
        arguments(x_lengths=torch.ones(2, dtype=torch.int64, device="meta")),
        ValueError,
        "x_lengths is on device meta and x on cpu",
    ),
]


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_alignment])
@pytest.mark.parametrize(("broken", "error", "message"), BROKEN)
def test_broken_arguments(function, broken, error, message):
    with pytest.raises(error, match=message) as caught:
        function(**broken)
    if error is not TypeError:
        assert isinstance(caught.value, libsdtw.SdtwError)


def test_broken_reduction():
    with pytest.raises(ValueError, match="reduction is 'avg': expected one of 'none', 'mean', 'sum'"):
        soft_dtw(**arguments(), reduction="avg")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"gamma": -1}, ValueError),
        ({"gamma": None}, TypeError),
        ({"metric": "l2"}, ValueError),
        ({"reduction": None}, ValueError),
        ({"bandwidth": 3}, TypeError),
    ],
)
def test_module_checks_its_options_when_it_is_made(options, error):
    with pytest.raises(error):
        SoftDTW(**options)
