# The calls of the core behind the operators: memory, plans and devices.
"""What the operators of _operators.py compute, on CPU and CUDA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._problem import explain
from . import _options, _private

# Types of series and costs.
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


@functools.lru_cache(maxsize=1024)  # a program has few shapes, and asks for them in every step
def plan(
    x: torch.Size, y: torch.Size | None, dtype: torch.dtype, length_dtype: torch.dtype | None,
    gamma: float, options: str,
    device: int, num_threads: int, stream: int, no_state: bool, deterministic: bool,
    flags: int = 0, with_value: bool = False,
) -> _core.Plan:  # fmt: skip
    """A problem's plan for a GPU of that number, or the CPU's, -1. The sizes in it are that GPU's, as they
    follow from its shared memory and multiprocessors, and the core asks them of the current one."""
    batch, n, m = x
    features, batch_y = 0, batch
    if y is not None:
        batch_y, m, features = y
    elif flags:  # x with itself
        m, features = n, m
    bits = 32 if length_dtype == torch.int32 else 64
    try:
        sizes = batch, n, m, features
        problem = _options.problem(_options.parse(options), dtype, *sizes, gamma, bits, flags, batch_y)
        kind = _core.DEVICES["cpu" if device < 0 else "cuda"]
        exec_ = _core.Exec(kind, num_threads, stream, no_state, deterministic, with_value)
        with torch.cuda.device(device):  # of -1 it does nothing
            return _core.Plan(problem, exec_)
    except _core.SdtwError as error:
        raise type(error)(explain(error)) from None


def plan_for(
    x: Tensor,
    y: Tensor | None,
    lengths: Tensor | None,
    gamma: float,
    options: str,
    no_state: bool = False,
    flags: int = 0,
    with_value: bool = False,
) -> _core.Plan:
    y_shape = None if y is None else y.shape
    length_dtype = None if lengths is None else lengths.dtype
    problem = x.shape, y_shape, x.dtype, length_dtype, gamma, options
    if not x.is_cuda:
        return plan(*problem, -1, torch.get_num_threads(), 0, no_state, False, flags, with_value)
    stream = _private.current_stream(x)
    deterministic = torch.are_deterministic_algorithms_enabled()
    return plan(*problem, x.get_device(), 0, stream, no_state, deterministic, flags)


def keeps_gradients(x: Tensor, y: Tensor | None) -> bool:
    """Whether forward of what is to be differentiated computes gradients at once, for upstream gradients of
    1, and keeps them in place of state, so that backward multiplies.

    On CPUs one call of the core takes less time than two, and for long series and at gamma = 0 as long. A
    gradient of given costs would be a matrix to hold, larger than state. Those of half types would be
    rounded, and leave their range, before the upstream gradient scales them.
    """
    return x.is_cpu and y is not None and x.dtype in (torch.float32, torch.float64)


def value_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def _memory(size: int, device: torch.device) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def workspace(plan: _core.Plan, call: str, x: Tensor) -> Tensor | None:
    """Memory for a call: PyTorch's on a GPU, whose stream says when it is free again; the binding's own on
    the CPU."""
    return None if x.is_cpu else _memory(getattr(plan, call + "_bytes"), x.device)


def _require_alike(sizes: slice, name: str, tensor: Tensor | None, of: str, other: Tensor | None) -> None:
    """Raises for what would be read as another type than it has, or beyond its end: a hook of saved tensors
    may give back anything."""
    if tensor is None or other is None:
        return
    if other.dtype is not tensor.dtype or other.shape[sizes] != tensor.shape[sizes]:
        raise _core.InvalidArgumentError(
            f"{name} is {tensor.dtype} of shape {tuple(tensor.shape)} and {of} {other.dtype} of shape "
            f"{tuple(other.shape)}: expected the same type and sizes that go together"
        )


_FEATURES, _ALL = slice(2, None), slice(None)


def _require_beside(x: Tensor, *others: tuple[str, Tensor | None]) -> None:
    """Raises for tensors that are not on the device of x, of whose memory the address would be another's."""
    for name, tensor in others:
        if tensor is not None and tensor.device != x.device:
            raise _core.InvalidArgumentError(
                f"{name} is on device {tensor.device} and x on {x.device}: expected the same"
            )


class _Inputs:
    """What all computations read, as the core reads it."""

    __slots__ = ("gamma", "options", "x", "x_lengths", "y", "y_lengths")

    def __init__(
        self,
        x: Tensor,
        y: Tensor | None,
        x_lengths: Tensor | None,
        y_lengths: Tensor | None,
        gamma: float,
        options: str,
    ) -> None:
        _require_alike(_FEATURES, "x", x, "y", y)
        _require_alike(_FEATURES, "x_lengths", x_lengths, "y_lengths", y_lengths)
        _require_beside(x, ("y", y), ("x_lengths", x_lengths), ("y_lengths", y_lengths))
        self.x, self.y = x, y
        self.x_lengths = None if x_lengths is None else x_lengths.contiguous()
        self.y_lengths = None if y_lengths is None else y_lengths.contiguous()
        self.gamma, self.options = gamma, options

    def plan(self, no_state: bool = False, flags: int = 0, with_value: bool = False) -> _core.Plan:
        lengths = self.x_lengths if self.y_lengths is None else self.y_lengths
        return plan_for(self.x, self.y, lengths, self.gamma, self.options, no_state, flags, with_value)

    def all_pairs(self) -> _core.Plan:
        return self.plan(True, _core.ALL_PAIRS | (_core.SYMMETRIC if self.y is None else 0))

    @property
    def arrays(self) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
        return self.x, self.y, self.x_lengths, self.y_lengths


def forward(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
    save_state: bool,
    need_x: bool,
    need_y: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    value = torch.empty(x.shape[0], dtype=value_dtype(x.dtype), device=x.device)
    some = need_x or need_y
    if some and keeps_gradients(x, y) and not save_state:
        grad_x, grad_y = new_grads(x, y, need_x, need_y)
        grads = grad_x if need_x else None, grad_y if need_y else None
        inputs.plan(no_state=True, with_value=True).value_and_gradients(*inputs.arrays, value, *grads)
        return value, grad_x, grad_y
    plan = inputs.plan(no_state=not (save_state or some))
    state = _memory(plan.state_bytes, x.device)
    kept = state if save_state or some else None
    plan.forward(*inputs.arrays, value, kept, workspace(plan, "forward", x))
    return value, state, x.new_empty(0)


def scaled(
    plan: _core.Plan, grad_value: Tensor, kept_x: Tensor | None, kept_y: Tensor | None, in_place: bool
) -> tuple[Tensor | None, Tensor | None] | None:
    """Gradients from those that forward has kept; None where they are to be computed for grad_value."""
    if not plan.are_products(grad_value, kept_x, kept_y):
        return None
    factors = grad_value.view(-1, 1, 1)  # half the time of an index
    run = Tensor.mul_ if in_place else Tensor.mul
    return kept_x if kept_x is None else run(kept_x, factors), kept_y if kept_y is None else run(
        kept_y, factors
    )


def backward(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    kept_x: Tensor | None,
    kept_y: Tensor | None,
    gamma: float,
    options: str,
    need_x: bool,
    need_y: bool,
    in_place: bool = False,
) -> tuple[Tensor, Tensor]:
    """From what forward has kept or, where that lacks what is needed, without it."""
    grad_value = grad_value.contiguous()
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    _require_beside(x, ("grad_value", grad_value), ("kept_x", kept_x), ("kept_y", kept_y))
    need_y = need_y and y is not None
    state = kept_x if kept_x is not None and kept_x.dtype == torch.uint8 and kept_x.numel() else None
    plan = inputs.plan(no_state=state is None)
    if state is None and _has(kept_x, x, need_x) and _has(kept_y, y, need_y):
        wanted = kept_x if need_x else None, kept_y if need_y else None
        products = scaled(plan, grad_value, *wanted, in_place)
        if products is not None:
            of_x, of_y = products
            return x.new_empty(0) if of_x is None else of_x, x.new_empty(0) if of_y is None else of_y
    grad_x, grad_y = new_grads(x, y, need_x, need_y)
    grads = grad_x if need_x else None, grad_y if need_y else None
    plan.backward(*inputs.arrays, grad_value, *grads, state, workspace(plan, "backward", x))
    return grad_x, grad_y


def _has(kept: Tensor | None, series: Tensor | None, need: bool) -> bool:
    return not need or (kept is not None and series is not None and kept.shape == series.shape)


def alignment(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    state: Tensor,
    gamma: float,
    options: str,
) -> Tensor:
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    _require_beside(x, ("state", state))
    plan = inputs.plan()
    result = new_alignment(x, y)
    plan.alignment(*inputs.arrays, result, state, workspace(plan, "alignment", x))
    return result


def tangents(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    tangent_x: Tensor,
    tangent_y: Tensor | None,
    gamma: float,
    options: str,
) -> tuple[Tensor, Tensor, Tensor]:
    grad_value = grad_value.contiguous()
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    _require_beside(x, ("grad_value", grad_value), ("tangent_x", tangent_x), ("tangent_y", tangent_y))
    plan = inputs.plan(no_state=True)
    value = torch.empty(x.shape[0], dtype=value_dtype(x.dtype), device=x.device)
    grad_x, grad_y = new_grads(x, y, True, True)
    _require_alike(_ALL, "x", x, "tangent_x", tangent_x)
    _require_alike(_ALL, "y", y, "tangent_y", tangent_y)
    directions, results = (tangent_x, tangent_y), (grad_x, None if y is None else grad_y)
    scratch = workspace(plan, "jvp", x)
    plan.jvp(*inputs.arrays, *directions, grad_value, value, *results, scratch)
    return value, grad_x, grad_y


def all_pairs(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
) -> Tensor:
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    plan = inputs.all_pairs()
    value = new_all_pairs(x, y)
    plan.forward(*inputs.arrays, value, None, workspace(plan, "forward", x))
    return value


def all_pairs_backward(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
    need_x: bool,
    need_y: bool,
) -> tuple[Tensor, Tensor]:
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    _require_beside(x, ("grad_value", grad_value))
    plan = inputs.all_pairs()
    grad_x, grad_y = new_grads(x, y, need_x, need_y)
    grads = grad_x if need_x else None, grad_y if need_y and y is not None else None
    plan.backward(*inputs.arrays, grad_value.contiguous(), *grads, None, workspace(plan, "backward", x))
    return grad_x, grad_y


def all_pairs_tangents(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    tangent_x: Tensor,
    tangent_y: Tensor | None,
    gamma: float,
    options: str,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = _Inputs(x, y, x_lengths, y_lengths, gamma, options)
    _require_beside(x, ("grad_value", grad_value), ("tangent_x", tangent_x), ("tangent_y", tangent_y))
    plan = inputs.all_pairs()
    value = new_all_pairs(x, y)
    grad_x, grad_y = new_grads(x, y, True, True)
    _require_alike(_ALL, "x", x, "tangent_x", tangent_x)
    _require_alike(_ALL, "y", y, "tangent_y", tangent_y)
    directions, results = (tangent_x, tangent_y), (grad_x, None if y is None else grad_y)
    scratch = workspace(plan, "jvp", x)
    plan.jvp(*inputs.arrays, *directions, grad_value.contiguous(), value, *results, scratch)
    return value, grad_x, grad_y


def new_all_pairs(x: Tensor, y: Tensor | None) -> Tensor:
    return x.new_empty((x.shape[0], (x if y is None else y).shape[0]), dtype=value_dtype(x.dtype))


def new_grads(x: Tensor, y: Tensor | None, need_x: bool, need_y: bool) -> tuple[Tensor, Tensor]:
    def new(tensor: Tensor) -> Tensor:  # half the time of new_empty(shape)
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    return new(x) if need_x else x.new_empty(0), new(y) if need_y and y is not None else x.new_empty(0)


def new_alignment(x: Tensor, y: Tensor | None) -> Tensor:
    return x.new_empty(x.shape if y is None else (x.shape[0], x.shape[1], y.shape[1]))


def _on_own_device(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with its first argument's GPU, if it is on one, as the current device."""

    @functools.wraps(kernel)
    def run(tensor: Tensor, *args: Any) -> Any:
        if not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device():
            return kernel(tensor, *args)
        with torch.cuda.device(tensor.device):
            return kernel(tensor, *args)

    return run


KERNELS: dict[str, Callable[..., Any]] = {
    kernel.__name__: _on_own_device(kernel)
    for kernel in (
        *(forward, backward, alignment, tangents),
        *(all_pairs, all_pairs_backward, all_pairs_tangents),
    )
}
