# The short way of soft_dtw: batches that need no more than the library's call and, if asked for, autograd.
"""Calls of soft_dtw whose arguments have been found good before.

A training step asks for the same again and again. Its sizes, types and options are the key of a table in
which it finds the plans of the library's calls; what is left to check is lengths, which the binding does.
Where anything but autograd is to see the call, or the arguments are not yet as the operators take them, the
answer is None, and the long way is gone.

A Function in Python takes PyTorch longer than the rest of a small call. Where the extension of bindings/torch
has been built for this PyTorch (see _extension) it is asked first: it does the same with a table, and a node
of autograd, of its own, and what it does not take comes back here, errors too.

So values have one of three backward passes, of which each takes what those above it do not:

    SoftDtwBackward      bindings/torch/node.h  where the extension is built and only autograd looks on: plain
                                                tensors (B, N, D) and (B, M, D), lengths as tensors of one
                                                integer type, gamma as a number, options that are constants
    _Reduced             here                   the same without the extension, on the GPU that is current
    _operators._Forward  _operators.py          all else: other shapes, lists, gamma as a tensor, given costs,
                                                zero_infinity, divergences, and where a compiler, a transform,
                                                a mode or a subclass is to see operators

The first two go to the operators where their gradients are to have gradients in turn, or somebody looks on
in backward.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._problem import REDUCTIONS
from . import _extension, _kernels, _operators, _options, _private
from ._arguments import prepare

_LIMIT = 1024  # entries of the table: a program has few


class _Call:
    """What calls of one kind need."""

    __slots__ = ("batch", "dtype", "gamma", "inference", "keeps_gradients", "options", "training")

    def __init__(self, x: Tensor, y: Tensor, lengths: Tensor | None, gamma: float, options: str):
        self.batch, self.dtype = x.shape[0], _kernels.value_dtype(x.dtype)
        self.gamma, self.options = gamma, options
        given = x, y, lengths, gamma, options
        self.inference = _kernels.plan_for(*given, no_state=True)
        self.keeps_gradients = one = _kernels.keeps_gradients(x, y)  # or state
        self.training = _kernels.plan_for(*given, no_state=one, with_value=one)


_calls: dict[Any, _Call] = {}


def soft_dtw(
    x: Any,
    y: Any,
    x_lengths: Any,
    y_lengths: Any,
    gamma: Any,
    metric: Any,
    rules: _options.GivenRules,
    reduction: str,
) -> Tensor | None:
    """The reduced values, or None where this is not the way."""
    if native is not None and not torch.compiler.is_compiling():
        value = native.soft_dtw(x, y, x_lengths, y_lengths, gamma, metric, rules, reduction)
        if value is not None:
            return value  # type: ignore[no-any-return]
    if (
        _private.is_watched()
        or _private.is_forward_mode()
        or not (_is_usual(x) and _is_usual(y))
        or (type(gamma) is not float and type(gamma) is not int)
        or reduction not in REDUCTIONS
    ):
        return None
    where: Any
    if x.is_cpu and y.is_cpu:
        where = torch.get_num_threads()
    elif x.is_cuda and y.is_cuda and x.get_device() == y.get_device() == torch.cuda.current_device():
        where = _private.current_stream(x), torch.are_deterministic_algorithms_enabled(), x.get_device()
    else:
        return None
    if x_lengths is None and y_lengths is None:
        of_lengths = None
    else:
        of_lengths = _length_key(x, x_lengths), _length_key(x, y_lengths)
        if False in of_lengths:
            return None
    key = x.shape, y.shape, x.dtype, y.dtype, where, of_lengths, gamma, metric, rules
    try:
        call = _calls.get(key)
    except TypeError:  # options that are lists
        return None
    if call is None:
        call = _new_call(x, y, x_lengths, y_lengths, gamma, metric, rules)
        if call is None:
            return None
        if len(_calls) >= _LIMIT:
            _calls.clear()
        _calls[key] = call
    if (x.requires_grad or y.requires_grad) and torch.is_grad_enabled():
        return _Reduced.apply(x, y, (call, x_lengths, y_lengths, reduction))  # type: ignore[no-any-return]
    value = x.new_empty(call.batch, dtype=call.dtype)
    _forward(call.inference, x, y, x_lengths, y_lengths, value, None)
    return _reduced(call, value, reduction)


def _is_usual(tensor: Any) -> bool:
    return _private.is_plain(tensor) and tensor.layout is torch.strided and not tensor.is_nested


def _length_key(x: Tensor, lengths: Any) -> Any:
    """What is to be the same of lengths that are good; False where they are not as the core takes them."""
    if lengths is None:
        return None
    if not _is_usual(lengths) or not lengths.is_contiguous() or lengths.device != x.device:
        return False
    return lengths.shape, lengths.dtype


def _new_call(
    x: Tensor, y: Tensor, x_lengths: Any, y_lengths: Any, gamma: Any, metric: Any, rules: _options.GivenRules
) -> _Call | None:
    """Checks all arguments. None where they take the long way: they are to be reshaped, or converted."""
    if callable(metric):
        return None  # the long way calls it, once
    if not all(type(three) is tuple and all(isinstance(n, Real) for n in three) for three in rules[2:]):
        return None  # the table would find tensors by their identity, whatever they have come to hold
    pairs = prepare(x, y, gamma, metric, x_lengths, y_lengths, rules=rules)
    same = zip((x, y, x_lengths, y_lengths), pairs.inputs()[:4], strict=True)
    if any(given is not taken for given, taken in same) or pairs.scale is not None or not len(x):
        return None
    lengths = x_lengths if y_lengths is None else y_lengths
    return _Call(x, y, lengths, pairs.gamma, pairs.options)


def _forward(
    plan: _core.Plan,
    x: Tensor,
    y: Tensor,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    value: Tensor,
    state: Tensor | None,
) -> None:
    plan.forward(x, y, x_lengths, y_lengths, value, state, _kernels.workspace(plan, "forward", x))


def _reduced(call: _Call, value: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return value
    if not value.is_cpu:
        return value.mean() if reduction == "mean" else value.sum()
    result = value.new_empty(())
    call.inference.add_up(value, 1 / call.batch if reduction == "mean" else 1.0, result)
    return result


class _Reduced(_private.Function):
    """Reduced values of pairs. What is kept is no result and the reduction no node, which saves time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, others: tuple[Any, ...]) -> Tensor:
        call, x_lengths, y_lengths, ctx.reduction = others
        ctx.call = call
        given = x, y, x_lengths, y_lengths
        value = x.new_empty(call.batch, dtype=call.dtype)
        kept: tuple[Tensor | None, Tensor | None]
        if call.keeps_gradients:
            kept = _new_grads(x, y, *ctx.needs_input_grad[:2])
            call.training.value_and_gradients(*given, value, *kept)
        else:
            state = torch.empty(call.training.state_bytes, dtype=torch.uint8, device=x.device)
            kept = state, None
            _forward(call.training, *given, value, state)
        ctx.save_for_backward(*given, *kept)
        ctx.saved_as = [_form(tensor) for tensor in (*given, *kept)]
        return _reduced(call, value, ctx.reduction)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        call, reduction, tensors = ctx.call, ctx.reduction, ctx.saved_tensors
        need_x, need_y, _ = ctx.needs_input_grad
        for was, tensor in zip(ctx.saved_as, tensors, strict=True):
            if _form(tensor) != was:  # memory would be read as what was saved
                raise RuntimeError(
                    f"a hook of saved tensors gave {_form(tensor)} back: expected {was}, as it was saved"
                )
        x, y, x_lengths, y_lengths, *kept = tensors
        if not x.is_cpu or _is_more_than_gradients(grad, x, y):
            options = call.gamma, call.options
            return *_gradients(grad, tensors, options, reduction, need_x, need_y), None
        if reduction != "none":
            upstream = grad.item() / call.batch if reduction == "mean" else grad.item()
            grad = torch.full((call.batch,), upstream, dtype=call.dtype)
        grad = grad.contiguous()
        plan, state = call.training, kept[0]
        if call.keeps_gradients:
            plan, state = call.inference, None
            wanted = kept[0] if need_x else None, kept[1] if need_y else None
            grads = _kernels.scaled(plan, grad, *wanted, in_place=_private.release(ctx))
            if grads is not None:
                return *grads, None
        grads = _new_grads(x, y, need_x, need_y)
        plan.backward(x, y, x_lengths, y_lengths, grad, *grads, state, None)
        return *grads, None


def _form(tensor: Tensor | None) -> Any:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.device)


def _new_grads(x: Tensor, y: Tensor, need_x: bool, need_y: bool) -> tuple[Tensor | None, Tensor | None]:
    return (
        torch.empty_like(x, memory_format=torch.contiguous_format) if need_x else None,
        torch.empty_like(y, memory_format=torch.contiguous_format) if need_y else None,
    )


def _is_more_than_gradients(grad: Tensor, x: Tensor, y: Tensor) -> bool:
    """Whether gradients are to have derivatives in turn, or somebody looks on, which takes the operators."""
    return (
        torch.is_grad_enabled()
        or _private.is_forward_mode()
        or _private.is_batched_by_autograd(grad)
        or _private.is_observed(grad, x, y)
    )


def _gradients(
    grad: Tensor,
    tensors: tuple[Tensor, ...],
    options: tuple[float, str],
    reduction: str,
    need_x: bool,
    need_y: bool,
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of reduced values, by the operators."""
    if reduction != "none":
        batch = tensors[0].shape[0]  # len would make it a constant of compiled programs
        grad = grad.expand(batch)
        grad = grad / batch if reduction == "mean" else grad
    twice = torch.is_grad_enabled() or _private.is_forward_mode()
    return _operators.gradients(grad, tensors, options, need_x, need_y, twice)[:2]


native = _extension.load()  # None where there is none for this PyTorch
if native is not None:
    functions = _core.functions() | _core.kept_functions()
    native.connect(functions, _extension.current_stream_function(), _new_call, _gradients)
