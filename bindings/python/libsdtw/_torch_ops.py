# The operators torch.ops.libsdtw.*: what PyTorch's dispatcher, autograd and compiler see of the library.
"""Operators on batches: x (B, N, D) and y (B, M, D), or x a cost (B, N, M) and no y.

    forward(x, y, lengths, gamma, metric, save_state) -> (value, state)
    backward(grad_value, x, y, lengths, state, gamma, metric, need_x, need_y) -> (grad_x, grad_y)
    alignment(x, y, lengths, state, gamma, metric) -> alignment

state is a uint8 tensor whose size follows from the sizes alone; it is empty without save_state, as is a
gradient that is not needed. The operators take what libsdtw.torch has checked, and leave the rest to the
core.
"""

from __future__ import annotations

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


def _problem(x: Tensor, y: Tensor | None, lengths: Tensor | None, gamma: float, metric: str) -> _core.Problem:
    batch, n, m = x.shape
    features = 0
    if y is not None:
        m, features = y.shape[1], m
    bits = 32 if lengths is not None and lengths.dtype == torch.int32 else 64
    return _core.Problem(_core.METRICS[metric], DTYPES[x.dtype], batch, n, m, features, gamma, bits)


def _exec(device: torch.device, no_state: bool = False) -> _core.Exec:
    if device.type == "cuda":
        return _core.Exec(
            device=_core.DEVICES["cuda"],
            stream=torch.cuda.current_stream(device).cuda_stream,
            no_state=no_state,
            deterministic=torch.are_deterministic_algorithms_enabled(),
        )
    return _core.Exec(num_threads=torch.get_num_threads(), no_state=no_state)


def _value_dtype(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _memory(size: int, device: torch.device) -> Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def _span(memory: Tensor) -> tuple[int, int]:
    return memory.data_ptr(), memory.numel()


def _array(tensor: Tensor) -> tuple[int, tuple[int, ...]]:
    return tensor.data_ptr(), tensor.stride()


_Inputs: TypeAlias = "tuple[_core._Array, _core._Array | None, int, int]"


class _Call:
    """Problem, exec and inputs of one call; holds what the addresses point to."""

    def __init__(
        self,
        x: Tensor,
        y: Tensor | None,
        x_lengths: Tensor | None,
        y_lengths: Tensor | None,
        gamma: float,
        metric: str,
        no_state: bool = False,
    ) -> None:
        self.lengths = tuple(None if t is None else t.contiguous() for t in (x_lengths, y_lengths))
        self.problem = _problem(x, y, x_lengths if y_lengths is None else y_lengths, gamma, metric)
        self.exec = _exec(x.device, no_state)
        self.bytes = _core.get_sizes(self.problem, self.exec)
        x_length, y_length = (0 if t is None else t.data_ptr() for t in self.lengths)
        self.inputs: _Inputs = (_array(x), None if y is None else _array(y), x_length, y_length)


def _forward(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    metric: str,
    save_state: bool,
) -> tuple[Tensor, Tensor]:
    call = _Call(x, y, x_lengths, y_lengths, gamma, metric, no_state=not save_state)
    value = torch.empty(x.shape[0], dtype=_value_dtype(x), device=x.device)
    state = _memory(call.bytes.state, x.device)
    workspace = _memory(call.bytes.forward, x.device)
    _core.forward(
        call.problem,
        call.exec,
        *call.inputs,
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
    call = _Call(x, y, x_lengths, y_lengths, gamma, metric)
    grad_value = grad_value.contiguous()
    grad_x, grad_y = _new_grads(x, y, need_x, need_y)
    workspace = _memory(call.bytes.backward, x.device)
    _core.backward(
        call.problem,
        call.exec,
        *call.inputs,
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
    call = _Call(x, y, x_lengths, y_lengths, gamma, metric)
    alignment = _new_alignment(x, y)
    workspace = _memory(call.bytes.alignment, x.device)
    _core.alignment(call.problem, call.exec, *call.inputs, _array(alignment), _span(state), _span(workspace))
    return alignment


def _new_grads(x: Tensor, y: Tensor | None, need_x: bool, need_y: bool) -> tuple[Tensor, Tensor]:
    grad_x = x.new_empty(x.shape if need_x else (0,))
    grad_y = x.new_empty(y.shape if need_y and y is not None else (0,))
    return grad_x, grad_y


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
        exec_ = _core.Exec(device=_core.DEVICES.get(x.device.type, _core.DEVICES["cpu"]))
        size = _core.get_sizes(_problem(x, y, None, gamma, metric), exec_).state
    return x.new_empty(x.shape[:1], dtype=_value_dtype(x)), x.new_empty(size, dtype=torch.uint8)


def _fake_backward(grad_value: Tensor, x: Tensor, y: Tensor | None, *args: Any) -> tuple[Tensor, Tensor]:
    return _new_grads(x, y, *args[-2:])


def _fake_alignment(x: Tensor, y: Tensor | None, *args: Any) -> Tensor:
    return _new_alignment(x, y)


class _Forward(torch.autograd.Function):
    """The operator forward, differentiated by the operator backward.

    Registered by hand: torch.library.register_autograd does the same, but where this takes 50 us for forward
    and backward, the computation left out, it takes 75 us (PyTorch 2.13).
    """

    @staticmethod
    def forward(ctx: Any, *args: Any) -> tuple[Tensor, Tensor]:
        x, y, x_lengths, y_lengths, gamma, metric, save_state = args
        if not save_state and any(ctx.needs_input_grad):
            raise RuntimeError(
                "torch.ops.libsdtw.forward: save_state is False, but x or y requires a gradient"
            )
        value, state = _below_autograd(_OPS.forward.default, *args)
        ctx.save_for_backward(x, y, x_lengths, y_lengths, state)
        ctx.gamma, ctx.metric = gamma, metric
        ctx.set_materialize_grads(False)  # for state, as large as itself
        return value, state

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        need_x, need_y = ctx.needs_input_grad[:2]
        grad_x = grad_y = None
        if grads[0] is not None:
            args = (grads[0], *ctx.saved_tensors, ctx.gamma, ctx.metric, need_x, need_y)
            if torch.is_grad_enabled():
                grad_x, grad_y = _OPS.backward.default(*args)
            else:
                grad_x, grad_y = _below_autograd(_OPS.backward.default, *args)
        return grad_x if need_x else None, grad_y if need_y else None, None, None, None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise _core.UnsupportedError(
            "forward-mode differentiation of torch.ops.libsdtw.forward is not implemented"
        )


def _below_autograd(op: Callable[..., Any], *args: Any) -> Any:
    with torch._C._AutoDispatchBelowAutograd():
        return op(*args)


def _autograd_forward(*args: Any) -> Any:
    differentiated = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in args[:2])
    if differentiated or forward_ad._current_level >= 0:
        return _Forward.apply(*args)  # type: ignore[no-untyped-call]
    return _below_autograd(_OPS.forward.default, *args)


def _no_derivative(name: str) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise _core.UnsupportedError(
            f"the derivative of torch.ops.libsdtw.{name} (second order) is not implemented"
        )

    return refuse


def _on_own_device(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The kernel with its first argument's GPU as the current device."""

    def run(tensor: Tensor, *args: Any) -> Any:
        if tensor.get_device() == torch.cuda.current_device():
            return kernel(tensor, *args)
        with torch.cuda.device(tensor.device):
            return kernel(tensor, *args)

    return run


def _register() -> None:
    kernels: dict[str, Callable[..., Any]] = {
        "forward": _forward,
        "backward": _backward,
        "alignment": _alignment,
    }
    fakes: dict[str, Callable[..., Any]] = {
        "forward": _fake_forward,
        "backward": _fake_backward,
        "alignment": _fake_alignment,
    }
    for name, schema in _SCHEMAS.items():
        qualified = f"libsdtw::{name}"
        torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(qualified, "cpu", kernels[name])
        torch.library.impl(qualified, "cuda", _on_own_device(kernels[name]))
        torch.library.register_fake(qualified, fakes[name])
    torch.library.impl("libsdtw::forward", "Autograd", _autograd_forward)
    for name in ("backward", "alignment"):
        torch.library.register_autograd(f"libsdtw::{name}", _no_derivative(name))


_register()
