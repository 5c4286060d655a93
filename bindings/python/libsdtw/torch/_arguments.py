# What users give, checked and brought into the one form that the operators take.
"""Arguments of the functions: from series, batches and lists of them, lengths and options to a Pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias

import torch
from torch import Tensor

from .. import _core
from .._core import InvalidArgumentError
from .._problem import HINT, REDUCTIONS, choice, is_finite
from . import _costs, _kernels, _options, _private, _ragged, _sharding
from ._pairs import Pairs, penalty_as_cost, with_gamma

Series: TypeAlias = "Tensor | Sequence[Tensor]"
Lengths: TypeAlias = "Tensor | Sequence[int] | None"
Metric: TypeAlias = "str | Callable[[Tensor, Tensor], Tensor]"


def prepare(
    x: Any,
    y: Any,
    gamma: Any,
    metric: Any,
    x_lengths: Any,
    y_lengths: Any,
    check_lengths: bool = False,
    rules: _options.GivenRules = _options.NO_RULES,
) -> Pairs:
    """Checks all arguments."""
    if torch.compiler.is_compiling() and _private.is_forward_mode():
        _private.leave_the_compiler()
    if torch.compiler.is_compiling() and not _options.takes_tensors(rules):
        gamma = _private.constant(gamma)
    gamma = check_gamma(gamma)
    check_metric(metric)
    if y is None and metric != "precomputed":
        raise InvalidArgumentError(f"y is None with metric {metric!r}: expected series")
    if y is not None and metric == "precomputed":
        raise InvalidArgumentError(
            "y is given with metric 'precomputed': expected the costs (..., N, M) in x and no y"
        )
    if not (type(x) is Tensor and type(y) is Tensor) or x.is_nested or y.is_nested:
        _sharding.prepare(x, y)
        x, x_lengths = _ragged.padded("x", x, x_lengths)
        if y is not None:
            y, y_lengths = _ragged.padded("y", y, y_lengths)
    check_floats("x", x)
    if y is None:
        if x.ndim < 2:
            raise InvalidArgumentError(f"x has shape {tuple(x.shape)}: expected costs (..., N, M)")
        shape = x.shape[:-2]
        x = x if x.ndim == 3 else x.reshape(math.prod(shape), *x.shape[-2:])
        n, m = x.shape[1:]
    else:
        check_floats("y", y)
        if x.dtype is not y.dtype or x.device != y.device:
            x, y = _alike(x, y)
        x, y, shape = _paired(x, y)
        n, m = x.shape[1], y.shape[1]
    _check_sizes(x, y)
    dtype = _result_type(x)
    if x_lengths is not None or y_lengths is not None:
        x_lengths = lengths_of("x_lengths", x_lengths, shape, x, n, check_lengths)
        y_lengths = lengths_of("y_lengths", y_lengths, shape, x, m, check_lengths)
        if x_lengths is not None and y_lengths is not None and x_lengths.dtype != y_lengths.dtype:
            x_lengths, y_lengths = x_lengths.long(), y_lengths.long()
    if not isinstance(metric, str):
        x, y, metric = _called(metric, x, y, x_lengths, y_lengths), None, "precomputed"
    pairs = Pairs(x, y, x_lengths, y_lengths, gamma, _options.key(metric, rules), None, shape, dtype)
    if type(gamma) is not float:
        return with_gamma(pairs, gamma)
    return pairs


def check_gamma(gamma: Any) -> Any:
    """gamma as a float or, where it has a gradient or the host cannot read it, as a 0-d tensor."""
    if isinstance(gamma, Tensor):
        if gamma.numel() != 1 or not gamma.is_floating_point():
            raise TypeError(
                f"gamma is a tensor of shape {tuple(gamma.shape)} and {gamma.dtype}: expected a number or a "
                "tensor of one floating-point number"
            )
        readable = gamma.is_cpu and not _private.is_observed(gamma)
        differentiated = gamma.requires_grad or _private.has_tangent(gamma)
        if readable and differentiated and not 0 < gamma.item() < math.inf:
            what = "requires a gradient" if gamma.requires_grad else "has a tangent"
            raise InvalidArgumentError(
                f"gamma is {gamma.item()} and {what}: expected a finite number > 0, as exp() of a parameter "
                "is"
            )
        if differentiated or not readable:
            return gamma.reshape(())
        gamma = gamma.item()
    if torch.compiler.is_compiling() and isinstance(gamma, float):
        constant = _private.is_constant(gamma)
        _check_gamma_value(gamma)
        if gamma == 0:  # a program of its own: nothing can be scaled by it
            return 0.0
        # An input of the compiled program: as a tensor, so that another value does not compile it anew.
        return gamma if constant else torch.ones((), dtype=torch.float64) * gamma
    if isinstance(gamma, bool) or not isinstance(gamma, Real):
        raise TypeError(f"gamma is {gamma!r}: expected a number >= 0")
    _check_gamma_value(gamma)
    return float(gamma)


def _check_gamma_value(gamma: Any) -> None:
    if not 0 <= gamma < math.inf or (isinstance(gamma, int) and not is_finite(gamma)):
        raise InvalidArgumentError(f"gamma is {gamma!r}: expected a finite number >= 0")


def check_metric(metric: Any) -> None:
    if callable(metric):
        return
    if not isinstance(metric, str) or metric not in _core.METRICS:
        names = ", ".join(map(repr, _core.METRICS))
        raise InvalidArgumentError(
            f"metric is {metric!r}: expected one of {names}, or a function of two batches (B, N, D) and "
            "(B, M, D) that returns their costs (B, N, M)"
        )


def check_metric_of_series(metric: Any) -> None:
    check_metric(metric)
    if metric == "precomputed":
        raise InvalidArgumentError("metric is 'precomputed': expected a metric of series, or a function")


def check_supported(gamma: Any, metric: Any, rules: _options.GivenRules = _options.NO_RULES) -> None:
    """Raises for what no call can have: of a module when it is made, of a function when the core refuses."""
    gamma = check_gamma(gamma)
    check_metric(metric)
    key = _options.key(metric if isinstance(metric, str) else "precomputed", rules)
    if torch.compiler.is_compiling():  # it cannot trace the core, which the call asks
        return
    if isinstance(gamma, Tensor):
        penalty_as_cost(_options.parse(key))
    elif isinstance(metric, str):
        shape = torch.Size((1, 1, 1))
        y = None if metric == "precomputed" else shape
        _kernels.plan(shape, y, torch.float32, None, gamma, key, -1, 1, 0, True, False)


def check_floats(name: str, tensor: Any) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}: expected a tensor, or a list of tensors")
    if tensor.dtype not in _kernels.DTYPES:
        types = ", ".join(str(t) for t in _kernels.DTYPES)
        raise TypeError(f"{name} has dtype {tensor.dtype}: expected one of {types}; {name}.float() is one")
    if tensor.layout is not torch.strided:
        raise TypeError(
            f"{name} has layout {tensor.layout}: expected a dense tensor, as {name}.to_dense() is"
        )
    if type(tensor).__name__ == "MaskedTensor":  # of torch.masked, which has no rules for operators of others
        raise TypeError(
            f"{name} is a MaskedTensor: expected one without a mask, as {name}.to_tensor(0) is, and lengths "
            "for padding"
        )


def _alike(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if x.device != y.device:
        raise InvalidArgumentError(f"x is on device {x.device} and y on {y.device}: expected the same")
    if not _autocasts(x.device.type):
        raise InvalidArgumentError(
            f"x has dtype {x.dtype} and y has {y.dtype}: expected the same outside of torch.autocast"
        )
    dtype = torch.promote_types(x.dtype, y.dtype)
    return x.to(dtype), y.to(dtype)


def _result_type(x: Tensor) -> torch.dtype:
    """The type of alignments, and of values but for halves, whose values are float32."""
    halves = x.dtype in (torch.float16, torch.bfloat16)
    return torch.float32 if halves and _autocasts(x.device.type) else x.dtype


def _autocasts(device: str) -> bool:
    try:
        return torch.is_autocast_enabled(device)
    except (TypeError, RuntimeError):  # PyTorch before 2.4, or a device that has none
        return torch.is_autocast_enabled() if device == "cuda" else False


def _paired(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """(B, N, D) and (B, M, D) from (..., N, D) or (N,) each, and the leading dimensions of both together."""
    if x.ndim == 3 and y.ndim == 3 and x.shape[0] == y.shape[0] and x.shape[2] == y.shape[2]:
        return x, y, x.shape[:1]
    given = f"shapes {tuple(x.shape)} and {tuple(y.shape)}"
    for name, series in (("x", x), ("y", y)):
        if series.ndim == 0:
            raise InvalidArgumentError(f"{name} has shape (): expected (..., N, D) or (N,)")
    x = x[:, None] if x.ndim == 1 else x
    y = y[:, None] if y.ndim == 1 else y
    if x.shape[-1] != y.shape[-1]:
        raise InvalidArgumentError(
            f"x has {x.shape[-1]} features and y has {y.shape[-1]} ({given}): expected the same number; "
            f"{HINT}"
        )
    try:
        shape = tuple(
            torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])  # type: ignore[no-untyped-call]
        )
    except RuntimeError:
        raise InvalidArgumentError(
            f"x has the batch {tuple(x.shape[:-2])} and y {tuple(y.shape[:-2])} ({given}): expected shapes "
            f"that "
            f"broadcast; soft_dtw_cdist pairs all with all; {HINT}"
        ) from None
    batch = math.prod(shape)
    x, y = (t.expand(*shape, *t.shape[-2:]).reshape(batch, *t.shape[-2:]) for t in (x, y))
    return x, y, shape


def _check_sizes(x: Tensor, y: Tensor | None) -> None:
    """Raises for empty series, which no alignment begins in."""
    if y is None:
        if 0 in x.shape[1:]:
            raise InvalidArgumentError(
                f"x has shape {tuple(x.shape)}: expected costs (..., N, M) with N, M >= 1"
            )
        return
    for name, series in (("x", x), ("y", y)):
        if series.shape[1] == 0 or series.shape[2] == 0:
            what = "time steps" if series.shape[1] == 0 else "features"
            raise InvalidArgumentError(
                f"{name} has 0 {what} (shape {tuple(series.shape)}): expected at least 1; a padded batch "
                f"with "
                f"{name}_lengths may hold empty series"
            )


_OTHER_INTEGERS = (torch.int8, torch.int16, torch.uint8, torch.uint16, torch.uint32, torch.uint64)


def lengths_of(
    name: str,
    lengths: Any,
    shape: Sequence[int],
    x: Tensor,
    longest: int,
    check: bool = False,
    of: str = "x",
) -> Tensor | None:
    """Lengths of any integer type, tensor or not, as (B,) of int32 or int64 on the device of x, an argument
    that is named of."""
    if lengths is None:
        return None
    if not isinstance(lengths, Tensor):
        lengths = _lengths_from(name, lengths, longest).to(x.device)
    if lengths.dtype not in (torch.int32, torch.int64):
        if lengths.dtype not in _OTHER_INTEGERS:
            has = f"of a mask {name}.sum(-1)" if lengths.dtype is torch.bool else f"{name}.long()"
            raise TypeError(f"{name} has dtype {lengths.dtype}: expected integers; {has} has them")
        lengths = lengths.long()
    if lengths.device != x.device:
        raise InvalidArgumentError(
            f"{name} is on device {lengths.device} and {of} on {x.device}: expected the same"
        )
    if check and not _private.is_observed(lengths):
        outside = lengths[(lengths < 0) | (lengths > longest)]
        if outside.numel():
            raise InvalidArgumentError(f"{name} has {outside[0].item()}: expected lengths in [0, {longest}]")
    result: Tensor = lengths
    if lengths.shape == shape and lengths.ndim == 1:
        return result
    try:
        return result.broadcast_to(shape if shape else (1,)).reshape(-1)
    except RuntimeError:
        wanted = f"{tuple(shape)}, one for each pair" if shape else "(), the length of the one pair"
        raise InvalidArgumentError(f"{name} has shape {tuple(lengths.shape)}: expected {wanted}") from None


def _lengths_from(name: str, lengths: Any, longest: int) -> Tensor:
    try:
        result = torch.as_tensor(lengths, device="cpu")  # whatever the default is: it is looked at
    except (TypeError, ValueError, RuntimeError):
        result = None
    if (
        result is None
        or result.dtype is torch.bool
        or result.is_complex()
        or (result.numel() and result.is_floating_point())
    ):
        raise TypeError(
            f"{name} is {lengths!r}: expected integers, as a tensor, a list or an array"
        ) from None
    result = result.long()
    if torch.compiler.is_compiling() or not _private.are_plain(result):
        return result  # a program may not depend on them, nor a fake tensor: the core looks, as at tensors
    outside = result[(result < 0) | (result > longest)]
    if outside.numel():
        raise InvalidArgumentError(f"{name} has {outside[0].item()}: expected lengths in [0, {longest}]")
    return result


def _called(
    metric: Callable[[Tensor, Tensor], Any],
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
) -> Tensor:
    """Costs that a user's function computes. Padding is a real time step for it, and has gradient 0."""
    x, y = _costs.repeated(x, x_lengths), _costs.repeated(y, y_lengths)
    cost = metric(x, y)
    expected = x.shape[0], x.shape[1], y.shape[1]
    if not isinstance(cost, Tensor) or tuple(cost.shape) != expected:
        got = f"shape {tuple(cost.shape)}" if isinstance(cost, Tensor) else f"a {type(cost).__name__}"
        raise InvalidArgumentError(
            f"metric returned {got} for batches of shapes {tuple(x.shape)} and {tuple(y.shape)}: expected "
            f"the "
            f"costs, {expected}"
        )
    if cost.dtype not in _kernels.DTYPES or cost.device != x.device:
        raise InvalidArgumentError(
            f"metric returned {cost.dtype} on {cost.device} for {x.dtype} on {x.device}: expected "
            "floating-point costs there"
        )
    return cost


def check_divergence(metric: Any) -> None:
    """Raises for costs that are given, of which none are between a series and itself."""
    if isinstance(metric, str) and metric == "precomputed":
        raise InvalidArgumentError(
            "metric is 'precomputed', but a divergence compares x and y with themselves too: expected series "
            "and a metric of them, which may be a function"
        )


def check_options(
    gamma: Any, metric: Any, reduction: Any, rules: _options.GivenRules, normalize: bool
) -> None:
    """What a module checks when it is made."""
    check_supported(gamma, metric, rules)
    if normalize:
        check_divergence(metric)
    choice("reduction", reduction, REDUCTIONS)
