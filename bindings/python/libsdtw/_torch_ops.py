# The operators torch.ops.libsdtw.*: what PyTorch's dispatcher, autograd and compiler see of the library.
"""Operators on batches: x (B, N, D) and y (B, M, D), or x a cost (B, N, M) and no y.

    forward(x, y, lengths, gamma, metric, save_state) -> (value, state)
    backward(grad_value, x, y, lengths, state, gamma, metric, need_x, need_y) -> (grad_x, grad_y)
    alignment(x, y, lengths, state, gamma, metric) -> alignment

state is a uint8 tensor whose size follows from the sizes alone; it is empty without save_state, as is a
gradient that is not needed. The operators take what libsdtw.torch has checked, and leave the rest to the
core.

The dispatcher takes 5 to 8 us for each call of an operator that is written in Python (PyTorch 2.13), and one
training step has three. Where only autograd looks on, as in most programs, `forward` here, and its backward,
go past the dispatcher: see _is_observed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import _core

DTYPES = {getattr(torch, name): code for name, code in _core.DTYPES.items()}

_OPS = torch.ops.libsdtw

_INPUTS = "Tensor x, Tensor? y, Tensor? x_lengths, Tensor? y_lengths"
_OPTIONS = "float gamma, str metric"
_SCHEMAS = {
    "forward": f"({_INPUTS}, {_OPTIONS}, bool save_state) -> (Tensor value, Tensor state)",
    "backward": f"(Tensor grad_value, {_INPUTS}, Tensor state, {_OPTIONS}, bool need_x, bool need_y)"
    " -> (Tensor grad_x, Tensor grad_y)",
    "alignment": f"({_INPUTS}, Tensor state, {_OPTIONS}) -> Tensor",
}


_Plan: TypeAlias = "tuple[_core.Problem, _core.Exec, _core.Sizes]"


@functools.lru_cache(maxsize=1024)  # a program has few shapes, and asks for them in every step
def _plan(
    x: torch.Size, y: torch.Size | None, dtype: torch.dtype, length_dtype: torch.dtype | None,
    gamma: float, metric: str,
    device: str, num_threads: int, stream: int, no_state: bool, deterministic: bool,
) -> _Plan:  # fmt: skip
    batch, n, m = x
    features = 0
    if y is not None:
        m, features = y[1], m
    bits = 32 if length_dtype == torch.int32 else 64
    problem = _core.Problem(_core.METRICS[metric], DTYPES[dtype], batch, n, m, features, gamma, bits)
    exec_ = _core.Exec(_core.DEVICES[device], num_threads, stream, no_state, deterministic)
    return problem, exec_, _core.get_sizes(problem, exec_)


def _plan_for(
    x: Tensor, y: Tensor | None, lengths: Tensor | None, gamma: float, metric: str, no_state: bool = False
) -> _Plan:
    y_shape = None if y is None else y.shape
    length_dtype = None if lengths is None else lengths.dtype
    problem = x.shape, y_shape, x.dtype, length_dtype, gamma, metric
    if not x.is_cuda:
        return _plan(*problem, "cpu", torch.get_num_threads(), 0, no_state, False)
    stream = torch._C._cuda_getCurrentRawStream(x.get_device())  # without an object made for it
    return _plan(*problem, "cuda", 0, stream, no_state, torch.are_deterministic_algorithms_enabled())


def _value_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _memory(size: int, device: torch.device) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def _span(memory: Tensor) -> tuple[int, int]:
    return memory.data_ptr(), memory.numel()


def _array(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.stride()


def _contiguous(lengths: Tensor | None) -> Tensor | None:
    return None if lengths is None else lengths.contiguous()


def _inputs(
    x: Tensor, y: Tensor | None, x_lengths: Tensor | None, y_lengths: Tensor | None
) -> tuple[_core._Array, _core._Array | None, int, int]:
    return (
        _array(x),
        None if y is None else _array(y),
        0 if x_lengths is None else x_lengths.data_ptr(),
        0 if y_lengths is None else y_lengths.data_ptr(),
    )


def _forward(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    metric: str,
    save_state: bool,
) -> tuple[Tensor, Tensor]:
    x_lengths, y_lengths = _contiguous(x_lengths), _contiguous(y_lengths)
    lengths = x_lengths if y_lengths is None else y_lengths
    problem, exec_, sizes = _plan_for(x, y, lengths, gamma, metric, no_state=not save_state)
    value = torch.empty(x.shape[0], dtype=_value_dtype(x), device=x.device)
    state = _memory(sizes.state, x.device)
    workspace = _memory(sizes.forward, x.device)
    _core.forward(
        problem,
        exec_,
        *_inputs(x, y, x_lengths, y_lengths),
        value.data_ptr(),
        _span(state) if save_state else None,
        _span(workspace),
    )
    return value, state


def _backward(
    grad_value: Tensor,
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    state: Tensor,
    gamma: float,
    metric: str,
    need_x: bool,
    need_y: bool,
) -> tuple[Tensor, Tensor]:
    grad_value = grad_value.contiguous()
    x_lengths, y_lengths = _contiguous(x_lengths), _contiguous(y_lengths)
    lengths = x_lengths if y_lengths is None else y_lengths
    problem, exec_, sizes = _plan_for(x, y, lengths, gamma, metric)
    grad_x, grad_y = _new_grads(x, y, need_x, need_y)
    workspace = _memory(sizes.backward, x.device)
    _core.backward(
        problem,
        exec_,
        *_inputs(x, y, x_lengths, y_lengths),
        grad_value.data_ptr(),
        _array(grad_x) if need_x else None,
        _array(grad_y) if need_y else None,
        _span(state),
        _span(workspace),
    )
    return grad_x, grad_y


def _alignment(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    state: Tensor,
    gamma: float,
    metric: str,
) -> Tensor:
    x_lengths, y_lengths = _contiguous(x_lengths), _contiguous(y_lengths)
    lengths = x_lengths if y_lengths is None else y_lengths
    problem, exec_, sizes = _plan_for(x, y, lengths, gamma, metric)
    alignment = _new_alignment(x, y)
    workspace = _memory(sizes.alignment, x.device)
    inputs = _inputs(x, y, x_lengths, y_lengths)
    _core.alignment(problem, exec_, *inputs, _array(alignment), _span(state), _span(workspace))
    return alignment


def _new_grads(x: Tensor, y: Tensor | None, need_x: bool, need_y: bool) -> tuple[Tensor, Tensor]:
    def new(tensor: Tensor) -> Tensor:  # half the time of new_empty(shape)
        return torch.empty_like(tensor, memory_format=torch.contiguous_format)

    return new(x) if need_x else x.new_empty(0), new(y) if need_y and y is not None else x.new_empty(0)


def _new_alignment(x: Tensor, y: Tensor | None) -> Tensor:
    return x.new_empty(x.shape if y is None else (x.shape[0], x.shape[1], y.shape[1]))


def _fake_forward(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    metric: str,
    save_state: bool,
) -> tuple[Tensor, Tensor]:
    if not save_state:
        size: Any = 0
    elif any(isinstance(s, torch.SymInt) for t in (x, y) if t is not None for s in t.shape):
        size = torch.library.get_ctx().new_dynamic_size()
    else:
        y_shape = None if y is None else y.shape
        device = "cuda" if x.is_cuda else "cpu"
        size = _plan(x.shape, y_shape, x.dtype, None, gamma, metric, device, 0, 0, False, False)[2].state
    return x.new_empty(x.shape[:1], dtype=_value_dtype(x)), x.new_empty(size, dtype=torch.uint8)


def _fake_backward(grad_value: Tensor, x: Tensor, y: Tensor | None, *args: Any) -> tuple[Tensor, Tensor]:
    return _new_grads(x, y, *args[-2:])


def _fake_alignment(x: Tensor, y: Tensor | None, *args: Any) -> Tensor:
    return _new_alignment(x, y)


class _SoftDTW(torch.autograd.Function):
    """run, which computes the operator forward, differentiated by the operator backward.

    What has no derivative comes as one argument: autograd looks at each.
    """

    @staticmethod
    def forward(
        ctx: Any, run: Callable[..., Any], x: Tensor, y: Tensor | None, others: tuple[Any, ...]
    ) -> tuple[Tensor, Tensor]:
        x_lengths, y_lengths, ctx.gamma, ctx.metric, save_state = others
        if not save_state and any(ctx.needs_input_grad):
            raise RuntimeError(
                "torch.ops.libsdtw.forward: save_state is False, but x or y requires a gradient"
            )
        value, state = run(x, y, *others)
        ctx.save_for_backward(x, y, x_lengths, y_lengths, state)
        ctx.set_materialize_grads(False)  # for state, as large as itself
        return value, state

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor | None, _: None) -> tuple[Tensor | None, ...]:
        if grad_value is None:
            return None, None, None, None
        x, y, *saved = ctx.saved_tensors
        _, need_x, need_y, _ = ctx.needs_input_grad
        twice = torch.is_grad_enabled()  # the gradient is to have a gradient, which the operator refuses
        run = _OPS.backward.default if twice or _is_observed(grad_value, x, y) else _KERNELS["backward"]
        grad_x, grad_y = run(grad_value, x, y, *saved, ctx.gamma, ctx.metric, need_x, need_y)
        return None, grad_x if need_x else None, grad_y if need_y else None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _core.UnsupportedError(
            "forward-mode differentiation of torch.ops.libsdtw.forward is not implemented"
        )


_PLAIN = frozenset((Tensor, torch.nn.Parameter, type(None)))


def _is_observed(*tensors: Tensor | None) -> bool:
    """Whether anything but autograd is to see a call on these tensors as an operator.

    That is the compiler, vmap and its kin, a trace, an active mode, or a subclass of Tensor.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._len_torch_function_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
        or not _PLAIN.issuperset(map(type, tensors))
    )


def _below_autograd(*args: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return _OPS.forward.default(*args)


def _differentiable(run: Callable[..., Any], x: Tensor, y: Tensor | None, *others: Any) -> Any:
    needs_grad = x.requires_grad or (y is not None and y.requires_grad)
    if (needs_grad and torch.is_grad_enabled()) or forward_ad._current_level >= 0:
        return _SoftDTW.apply(run, x, y, others)  # type: ignore[no-untyped-call]
    return run(x, y, *others)


def forward(*args: Any) -> Any:
    """The operator forward, by the shortest way."""
    if _is_observed(*args[:4]) or not (args[0].is_cpu or args[0].is_cuda):
        return _OPS.forward.default(*args)
    return _differentiable(_KERNELS["forward"], *args)


def _no_derivative(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise _core.UnsupportedError(
            f"the derivative of torch.ops.libsdtw.{name} (second order) is not implemented"
        )

    return refuse


def _on_own_device(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with its first argument's GPU, if it is on one, as the current device."""

    def run(tensor: Tensor, *args: Any) -> Any:
        if not tensor.is_cuda or tensor.get_device() == torch.cuda.current_device():
            return kernel(tensor, *args)
        with torch.cuda.device(tensor.device):
            return kernel(tensor, *args)

    return run


_KERNELS: dict[str, Callable[..., Any]] = {
    "forward": _on_own_device(_forward),
    "backward": _on_own_device(_backward),
    "alignment": _on_own_device(_alignment),
}
_FAKES: dict[str, Callable[..., Any]] = {
    "forward": _fake_forward,
    "backward": _fake_backward,
    "alignment": _fake_alignment,
}


def _register() -> None:
    for name, schema in _SCHEMAS.items():
        qualified = f"libsdtw::{name}"
        torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(qualified, ("cpu", "cuda"), _KERNELS[name])
        torch.library.register_fake(qualified, _FAKES[name])
    torch.library.impl("libsdtw::forward", "Autograd", functools.partial(_differentiable, _below_autograd))
    for name in ("backward", "alignment"):
        torch.library.register_autograd(f"libsdtw::{name}", _no_derivative(name))


_register()
