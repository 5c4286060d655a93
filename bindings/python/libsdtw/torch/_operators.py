# The operators torch.ops.libsdtw.*: what PyTorch's dispatcher, autograd and compiler see of the library.
"""Operators on batches: x (B, N, D) and y (B, M, D), or x a cost (B, N, M) and no y.

    forward(x, y, lengths, gamma, options, save_state, need_x, need_y) -> (value, kept_x, kept_y)
    backward(grad_value, x, y, lengths, kept_x, kept_y, gamma, options, need_x, need_y) -> (grad_x, grad_y)
    tangents(grad_value, x, y, lengths, tangent_x, tangent_y, gamma, options)
        -> (value_tangent, grad_x_tangent, grad_y_tangent)
    alignment(x, y, lengths, state, gamma, options) -> alignment

    all_pairs(x, y, lengths, gamma, options) -> value, of every x with every y, or of x with itself
    all_pairs_backward, all_pairs_tangents: as above, without state

need_x and need_y say of which backward is to compute gradients. For that forward keeps state, a uint8 tensor
in kept_x whose size follows from the sizes alone, or, where _kernels.keeps_gradients says so, the gradients
themselves, for upstream gradients of 1. With save_state it is state, which alignment takes. What is not kept
is empty, as is a gradient that is not needed; backward takes None for it, too, and computes anew what is
missing. tangents is the derivative of value and gradients along a direction of x and y: forward mode of
backward and, as the Hessian is symmetric, its reverse mode. The operators take what libsdtw.torch has
checked, and leave the rest to the core.

The dispatcher takes 5 to 8 us for each call of an operator that is written in Python (PyTorch 2.13), and one
training step has three. Where only autograd looks on, as in most programs, `value` here, and its backward,
go past the dispatcher: see _private.is_observed. What most programs do goes a shorter way still: see _direct.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .. import _core
from . import _batching, _costs, _kernels, _options, _private
from ._fakes import FAKES
from ._kernels import KERNELS

OPS = torch.ops.libsdtw

_SERIES = "Tensor x, Tensor? y"
_LENGTHS = "Tensor? x_lengths, Tensor? y_lengths"
_OPTIONS = "float gamma, str options"
_SCHEMAS = {
    "forward": f"({_SERIES}, {_LENGTHS}, {_OPTIONS}, bool save_state, bool need_x, bool need_y) -> "
    "(Tensor value, Tensor kept_x, Tensor kept_y)",
    "backward": f"(Tensor grad_value, {_SERIES}, {_LENGTHS}, Tensor? kept_x, Tensor? kept_y, {_OPTIONS}, "
    "bool need_x, bool need_y) -> (Tensor grad_x, Tensor grad_y)",
    "tangents": f"(Tensor grad_value, {_SERIES}, {_LENGTHS}, Tensor tangent_x, Tensor? tangent_y, {_OPTIONS})"
    " -> (Tensor value, Tensor grad_x, Tensor grad_y)",
    "alignment": f"({_SERIES}, {_LENGTHS}, Tensor state, {_OPTIONS}) -> Tensor",
    "all_pairs": f"({_SERIES}, {_LENGTHS}, {_OPTIONS}) -> Tensor",
    "all_pairs_backward": f"(Tensor grad_value, {_SERIES}, {_LENGTHS}, {_OPTIONS}, bool need_x, bool need_y)"
    " -> (Tensor grad_x, Tensor grad_y)",
    "all_pairs_tangents": f"(Tensor grad_value, {_SERIES}, {_LENGTHS}, Tensor tangent_x, Tensor? tangent_y, "
    f"{_OPTIONS}) -> (Tensor value, Tensor grad_x, Tensor grad_y)",
}


def kept_for(needs: Sequence[bool], kept: Sequence[Tensor]) -> tuple[Tensor | None, Tensor | None]:
    """What forward has kept, as backward takes it: None for what is empty, of which DTensor has no shards."""
    kept_x, kept_y = kept
    if kept_x.dtype == torch.uint8:
        return kept_x, None
    return kept_x if needs[0] else None, kept_y if needs[1] else None


def gradients(
    grad_value: Tensor,
    tensors: tuple[Tensor, ...],
    options: tuple[float, str],
    need_x: bool,
    need_y: bool,
    twice: bool,
    owner: Any = None,
) -> tuple[Tensor | None, Tensor | None, None]:
    """Gradients of x and y; twice: they are to have gradients in turn, which takes the operator. owner: the
    Function whose alone is what is kept."""
    x, y = tensors[:2]
    if _private.is_batched_by_autograd(grad_value):  # the gradient is linear in it
        ones = x.new_ones(x.shape[:1], dtype=_kernels.value_dtype(x.dtype))
        grads = OPS.backward.default(ones, *tensors, *options, need_x, need_y)
        wide = torch.promote_types(x.dtype, grad_value.dtype)
        factor = grad_value[:, None, None].to(wide)
        grad_x, grad_y = ((g * factor).to(g.dtype) if g.ndim == 3 else g for g in grads)
    else:
        args = grad_value, *tensors, *options, need_x, need_y
        # Zeros of forward mode have no memory until PyTorch's dispatcher gives them some, "meta" has none.
        seen = twice or _private.is_observed(grad_value, x, y) or not (x.is_cpu or x.is_cuda)
        if seen or grad_value._is_zerotensor():
            grad_x, grad_y = OPS.backward.default(*args)
        else:
            in_place = owner is not None and _private.release(owner)
            grad_x, grad_y = KERNELS["backward"](*args, in_place)
    return grad_x if need_x else None, grad_y if need_y else None, None


class _Forward(_private.Function):
    """run, which computes the operator forward, differentiated by the operator backward.

    What has no derivative comes as one argument: autograd looks at each.
    """

    @staticmethod
    def forward(
        ctx: Any, run: Callable[..., Any], x: Tensor, y: Tensor | None, others: tuple[Any, ...]
    ) -> Any:
        x_lengths, y_lengths, ctx.gamma, ctx.options, asked = others
        save_state, *needs = asked or (False, False, False)
        forward_mode = _private.is_forward_mode()  # in which either may have a tangent
        _, need_x, need_y, _ = ctx.needs_input_grad
        needs = needs[0] or need_x or forward_mode, needs[1] or need_y or forward_mode
        value, *kept = run(x, y, x_lengths, y_lengths, ctx.gamma, ctx.options, save_state, *needs)
        saved = x, y, x_lengths, y_lengths, *kept_for(needs, kept)
        ctx.save_for_backward(*saved)
        if forward_mode:
            ctx.save_for_forward(*saved)
        ctx.alone = asked is None  # what is kept is no result, and nobody else's
        if ctx.alone:
            return value
        if not any(asked):
            kept = [t.new_empty(0) for t in kept]
        ctx.mark_non_differentiable(*kept)
        ctx.set_materialize_grads(False)  # for these, as large as themselves
        return value, *kept

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor | None, *_: None) -> tuple[Tensor | None, ...]:
        if grad_value is None:
            return None, None, None, None
        _, need_x, need_y, _ = ctx.needs_input_grad
        twice = torch.is_grad_enabled()
        options, owner = (ctx.gamma, ctx.options), ctx if ctx.alone else None
        return (None, *gradients(grad_value, ctx.saved_tensors, options, need_x, need_y, twice, owner))

    @staticmethod
    @_private.in_jvp
    def jvp(
        ctx: Any, inputs: Any, _: None, tangent_x: Tensor | None, tangent_y: Tensor | None, __: None
    ) -> Any:
        x, y, *saved = inputs
        ones = x.new_ones(x.shape[:1], dtype=_kernels.value_dtype(x.dtype))
        needs = tangent_x is not None, tangent_y is not None
        grads = OPS.backward.default(ones, x, y, *saved, ctx.gamma, ctx.options, *needs)
        terms = [
            _costs.dot(g, t) for g, t in zip(grads, (tangent_x, tangent_y), strict=True) if t is not None
        ]
        return sum(terms) if ctx.alone else (sum(terms), None, None)


class _AllPairs(_private.Function):
    """The operator all_pairs, differentiated by all_pairs_backward and, forward, by all_pairs_tangents."""

    @staticmethod
    def forward(
        ctx: Any, run: Callable[..., Any], x: Tensor, y: Tensor | None, others: tuple[Any, ...]
    ) -> Tensor:
        x_lengths, y_lengths, ctx.gamma, ctx.options = others
        ctx.save_for_backward(x, y, x_lengths, y_lengths)
        if _private.is_forward_mode():
            ctx.save_for_forward(x, y, x_lengths, y_lengths)
        result: Tensor = run(x, y, *others)
        return result

    @staticmethod
    def backward(ctx: Any, grad_value: Tensor) -> tuple[Tensor | None, ...]:
        _, need_x, need_y, _ = ctx.needs_input_grad
        options = ctx.gamma, ctx.options, need_x, need_y
        grad_x, grad_y = OPS.all_pairs_backward.default(grad_value, *ctx.saved_tensors, *options)
        return None, grad_x if need_x else None, grad_y if need_y else None, None

    @staticmethod
    @_private.in_jvp
    def jvp(
        ctx: Any, inputs: Any, _: None, tangent_x: Tensor | None, tangent_y: Tensor | None, __: None
    ) -> Any:
        x, y = inputs[:2]
        ones = x.new_ones((len(x), len(x if y is None else y)), dtype=_kernels.value_dtype(x.dtype))
        tangent_x = torch.zeros_like(x) if tangent_x is None else tangent_x
        options = ctx.gamma, ctx.options
        return OPS.all_pairs_tangents.default(ones, *inputs, tangent_x, tangent_y, *options)[0]


class _Backward(_private.Function):
    """An operator backward, differentiated both ways by the operator tangents of the same kind."""

    @staticmethod
    def forward(
        ctx: Any,
        run: Callable[..., Any],
        grad_value: Tensor,
        x: Tensor,
        y: Tensor | None,
        others: tuple[Any, ...],
    ) -> tuple[Tensor, Tensor]:
        ctx.kind, *args = others
        *saved, ctx.gamma, ctx.options, ctx.need_x, ctx.need_y = args
        ctx.save_for_backward(grad_value, x, y, *saved)
        if _private.is_forward_mode():
            ctx.save_for_forward(grad_value, x, y, *saved)
        ctx.set_materialize_grads(False)
        result: tuple[Tensor, Tensor] = run(grad_value, x, y, *args)
        return result

    @staticmethod
    def backward(ctx: Any, u: Tensor | None, v: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_value, x, y, *saved = ctx.saved_tensors
        u, v = u if ctx.need_x else None, v if ctx.need_y else None
        if u is None and v is None:
            return None, None, None, None, None
        u = torch.zeros_like(x) if u is None else u
        v = torch.zeros_like(y) if v is None and y is not None else v
        tangents = getattr(OPS, ctx.kind + "tangents").default
        value, grad_x, grad_y = tangents(grad_value, x, y, *saved[:2], u, v, ctx.gamma, ctx.options)
        _, need_value, need_x, need_y, _ = ctx.needs_input_grad
        return (
            None,
            value if need_value else None,
            grad_x if need_x else None,
            grad_y if need_y else None,
            None,
        )

    @staticmethod
    @_private.in_jvp
    def jvp(
        ctx: Any, inputs: Any, _: None, t: Tensor | None, u: Tensor | None, v: Tensor | None, __: None
    ) -> Any:
        grad_value, x, y, *saved = inputs
        options, needs = (ctx.gamma, ctx.options), (ctx.need_x, ctx.need_y)
        parts = []
        backward, tangents = (getattr(OPS, ctx.kind + name).default for name in ("backward", "tangents"))
        if t is not None:
            parts.append(backward(t, x, y, *saved, *options, *needs))
        if u is not None or v is not None:
            u = torch.zeros_like(x) if u is None else u
            v = torch.zeros_like(y) if v is None and y is not None else v
            grads = tangents(grad_value, x, y, *saved[:2], u, v, *options)[1:]
            parts.append([g if need else g.new_empty(0) for g, need in zip(grads, needs, strict=True)])
        return tuple(sum(of) for of in zip(*parts, strict=True))


class _Undifferentiable(_private.Function):
    """An operator that refuses to be differentiated, and says why."""

    @staticmethod
    def forward(ctx: Any, run: Callable[..., Any], why: str, args: tuple[Any, ...], *tensors: Tensor) -> Any:
        ctx.why = why
        return run(*args)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise _core.UnsupportedError(ctx.why)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise _core.UnsupportedError(ctx.why)


def needs_grad(*tensors: Tensor | None) -> bool:
    """Whether autograd is to remember a call on these tensors, or may have tangents of them."""
    some = any(t is not None and t.requires_grad for t in tensors)
    return (some and torch.is_grad_enabled()) or _private.is_forward_mode()


def _differentiable_forward(run: Callable[..., Any], x: Tensor, y: Tensor | None, *others: Any) -> Any:
    if needs_grad(x, y):
        return _private.apply(_Forward, run, x, y, (*others[:4], others[4:]))
    return run(x, y, *others)


def _differentiable_all_pairs(run: Callable[..., Any], x: Tensor, y: Tensor | None, *others: Any) -> Any:
    if needs_grad(x, y):
        return _private.apply(_AllPairs, run, x, y, others)
    return run(x, y, *others)


def _differentiable_backward(
    kind: str, run: Callable[..., Any], grad_value: Tensor, x: Tensor, y: Tensor | None, *others: Any
) -> Any:
    if needs_grad(grad_value, x, y):
        return _private.apply(_Backward, run, grad_value, x, y, (kind, *others))
    return run(grad_value, x, y, *others)


def value(x: Tensor, y: Tensor | None, *others: Any) -> Any:
    """The value of the operator forward, by the shortest way."""
    run, alone = KERNELS["forward"], (False, False, False)
    if _private.is_observed(x, y, *others[:2]) or not (x.is_cpu or x.is_cuda):
        run = OPS.forward.default
    elif needs_grad(x, y):
        return _private.apply(_Forward, run, x, y, (*others, None))
    return run(x, y, *others, *alone)[0]


def all_pairs(*args: Any) -> Any:
    """The operator all_pairs."""
    return OPS.all_pairs.default(*args)


def alignment(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
) -> tuple[Tensor, Tensor]:
    """Values and the expected alignments, which are differentiable where that is asked for.

    They are the gradient with respect to the cost, and have a gradient as such, but for step weights: with
    these the two are different things.
    """
    chosen = _options.parse(options)
    if not needs_grad(x, y) or chosen.weighs_steps():
        value, state, _ = OPS.forward.default(x, y, x_lengths, y_lengths, gamma, options, True, False, False)
        return value, OPS.alignment.default(x, y, x_lengths, y_lengths, state, gamma, options)
    if y is not None:
        x = _costs.matrix(chosen.metric, x, y, x_lengths, y_lengths)
    given, needs = (x, None, x_lengths, y_lengths), (True, False)
    value, *kept = OPS.forward.default(*given, gamma, chosen.of_costs(), False, *needs)
    args = *given, *kept_for(needs, kept), gamma, chosen.of_costs(), *needs
    return value, OPS.backward.default(torch.ones_like(value.detach()), *args)[0]


def _undifferentiable(why: str, run: Callable[..., Any], *args: Any) -> Any:
    tensors = [arg for arg in args if isinstance(arg, Tensor) and arg.is_floating_point()]
    if needs_grad(*tensors):
        return _private.apply(_Undifferentiable, run, why, args, *tensors)
    return run(*args)


_THIRD_ORDER = "the third order of soft-DTW is not implemented"
_DERIVATIVES: dict[str, Callable[..., Any]] = {
    "forward": _differentiable_forward,
    "backward": functools.partial(_differentiable_backward, ""),
    "tangents": functools.partial(_undifferentiable, _THIRD_ORDER),
    "all_pairs": _differentiable_all_pairs,
    "all_pairs_backward": functools.partial(_differentiable_backward, "all_pairs_"),
    "all_pairs_tangents": functools.partial(_undifferentiable, _THIRD_ORDER),
    "alignment": functools.partial(
        _undifferentiable,
        "torch.ops.libsdtw.alignment has no derivative: differentiate libsdtw.torch.soft_dtw_alignment, "
        "without step weights",
    ),
}


def _register_autocast(qualified: str) -> None:
    """In regions of autocast the operators compute in float32, as losses of PyTorch do, or in float64 for
    float64."""
    if hasattr(torch.library, "register_autocast"):  # PyTorch 2.7; kernels before read what they are given
        for device in ("cpu", "cuda"):
            torch.library.register_autocast(qualified, device, torch.float32)


def _register() -> None:
    for name, schema in _SCHEMAS.items():
        qualified = f"libsdtw::{name}"
        torch.library.define(qualified, schema, tags=(torch.Tag.pt2_compliant_tag,))
        torch.library.impl(qualified, ("cpu", "cuda"), KERNELS[name])
        torch.library.register_fake(qualified, FAKES[name])
        _batching.register(qualified, _batching.RULES[name])
    for name, differentiable in _DERIVATIVES.items():
        run = functools.partial(_private.call_below_autograd, getattr(OPS, name).default)
        kernel = functools.partial(differentiable, run)
        torch.library.impl(f"libsdtw::{name}", "Autograd", kernel)
        _register_autocast(f"libsdtw::{name}")


_register()
