# What PyTorch has no public name for: here alone, each with what is done where a version does not have it.
"""Private interfaces of PyTorch that libsdtw.torch uses."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

_C = torch._C


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_: value


def _found(name: str, otherwise: Any) -> Callable[..., Any]:
    """torch._C's function of that name, or one that always answers otherwise."""
    return getattr(_C, name, None) or _constant(otherwise)


# Where these cannot be asked, the answer is that somebody looks on: slower, never wrong.
_dispatch_modes = _found("_len_torch_dispatch_stack", 1)
_function_modes = _found("_len_torch_function_stack", 1)
_transforms = _found("_are_functorch_transforms_active", True)
_tracing = _found("_get_tracing_state", True)
_legacy_batch = getattr(getattr(_C, "_functorch", None), "is_legacy_batchedtensor", None) or _constant(False)

_SingleLevelFunction: Any = getattr(torch.autograd.function, "_SingleLevelFunction", torch.autograd.Function)


class Function(_SingleLevelFunction):  # type: ignore[misc]
    """An autograd.Function for one level of torch.func's transforms: what a kernel of key Autograd sees.

    The public one is made for all levels, and refuses to be called in a kernel.
    """

    @staticmethod
    def _compiled_autograd_key(ctx: Any) -> tuple[Any, ...]:
        """What compiled autograd knows a backward pass by: as the public one has it."""
        return (ctx._autograd_function_id,)


_PLAIN = Tensor, torch.nn.Parameter  # no set, into which the compiler of PyTorch 2.8 does not look


def is_plain(tensor: Any) -> bool:
    """Whether it is a tensor whose memory holds its numbers: no subclass, and no view that negates."""
    return type(tensor) in _PLAIN and not tensor.is_neg()


def are_plain(*tensors: Tensor) -> bool:
    """Whether none is of a subclass."""
    for tensor in tensors:  # nor into all()
        if type(tensor) not in _PLAIN:
            return False
    return True


def is_watched() -> bool:
    """Whether the compiler, vmap and its kin, a trace or an active mode is to see calls of operators."""
    return (
        torch.compiler.is_compiling()
        or _dispatch_modes() > 0
        or _function_modes() > 0
        or _transforms()
        or _tracing() is not None
    )


def is_observed(*tensors: Tensor | None) -> bool:
    """Whether anything but autograd is to see a call on these tensors as an operator."""
    if is_watched():
        return True
    for tensor in tensors:  # a comprehension takes longer
        if tensor is not None and not is_plain(tensor):
            return True
    return False


_keeps_graph = getattr(getattr(_C, "_autograd", None), "_get_current_graph_task_keep_graph", _constant(True))


def release(ctx: Any) -> bool:
    """Whether what a Function has saved is its backward's alone, as the graph is not kept for another pass.

    It is released at once, not when backward is over: what is changed in place neither another thread's pass
    is to find, nor one that follows an error.
    """
    if _keeps_graph():
        return False
    ctx.maybe_clear_saved_tensors()
    return True


def is_transformed() -> bool:
    """Whether a transform of torch.func is at work."""
    return bool(_transforms())


def apply(function: Any, *args: Any) -> Any:
    """function.apply, for one level of transforms where there are any."""
    if not _transforms() or function.apply is torch.autograd.Function.apply:
        return function.apply(*args)
    from torch._functorch.utils import enable_single_level_autograd_function

    with enable_single_level_autograd_function():
        return function.apply(*args)


def is_batched_by_autograd(tensor: Tensor) -> bool:
    """Whether this is a batch of upstream gradients, of torch.autograd.grad(is_grads_batched=True).

    Its vmap is an older one than torch.func's, which asks no operator for a rule.
    """
    return not torch.compiler.is_compiling() and bool(_legacy_batch(tensor))


def is_forward_mode() -> bool:
    """Whether tensors may have tangents: in a dual_level, or in torch.func.jvp."""
    return getattr(forward_ad, "_current_level", 0) >= 0


def has_tangent(tensor: Tensor) -> bool:
    """Whether it is a dual tensor, of the innermost dual_level."""
    unpack: Any = forward_ad.unpack_dual
    return is_forward_mode() and unpack(tensor).tangent is not None


def is_forward_mode_differentiated(*tensors: Tensor) -> bool:
    """Whether forward mode differentiates a call on these tensors first, and its result is differentiated in
    turn: by a transform around torch.func.jvp, or by autograd."""
    functorch: Any = getattr(_C, "_functorch", None)
    if not is_forward_mode() or not hasattr(functorch, "get_interpreter_stack"):
        return False
    kinds = [level.key().name for level in functorch.get_interpreter_stack() or ()]  # the innermost is last
    levels = [kind for kind in kinds if kind in ("Grad", "Jvp")]
    if "Jvp" not in levels:  # it is a dual_level, around them
        levels.insert(0, "Jvp")
    for tensor in tensors:
        while functorch.is_functorch_wrapped_tensor(tensor):
            tensor = functorch.get_unwrapped(tensor)
        if tensor.requires_grad and torch.is_grad_enabled():
            levels.insert(0, "Grad")
    return len(levels) > 1 and levels[-1] == "Jvp"


# In a program that is compiled: leaves it here, or says why that is needed where it must be one graph.
# Without it PyTorch fails further on, without a word about why (2.13).
def leave_the_compiler() -> None:
    """Does nothing, uncompiled. These are the marks of torch.compiler.disable, which imports the compiler."""


_marks: Any = leave_the_compiler
_marks._torchdynamo_disable = True
_marks._torchdynamo_disable_msg = (
    "PyTorch cannot compile forward mode (torch.func.jvp, jacfwd, hessian) of soft-DTW: without "
    "fullgraph=True it runs as it is; torch.func.vjp and jacrev compile"
)

# What imports the compiler when first called, not here: some seconds.
_uncompiled: Any = getattr(torch, "_disable_dynamo", torch.compiler.disable)


def _set_forward_mode(enabled: bool) -> Any:
    return getattr(forward_ad, "_set_fwd_grad_enabled", contextlib.nullcontext)(enabled)


def in_jvp(derivative: Callable[..., Any]) -> Callable[..., Any]:
    """A Function's jvp that transforms around it can differentiate in forward mode again.

    PyTorch switches forward mode off for it, at all levels. Switched on, what it computes is to have no
    tangent of its own level, which primals have none of.
    """

    @functools.wraps(derivative)
    def run(ctx: Any, *tangents: Any) -> Any:
        if not _transforms():
            return derivative(ctx, ctx.saved_tensors, *tangents)
        with _set_forward_mode(True):
            unpack: Any = forward_ad.unpack_dual
            saved = [None if t is None else unpack(t).primal for t in ctx.saved_tensors]
            return derivative(ctx, saved, *tangents)

    result: Callable[..., Any] = _uncompiled(run)  # what is left of forward mode there runs as it is
    return result


def call_below_autograd(operator: Any, *args: Any) -> Any:
    """The operator without autograd's level, as its kernels call it.

    The levels of transforms below have a grad mode of their own, which a Function's forward has switched off.
    """
    if not _transforms():
        with _C._AutoDispatchBelowAutograd():
            return operator(*args)
    with torch.enable_grad(), _set_forward_mode(True), _C._AutoDispatchBelowAutograd():
        return operator(*args)


def current_stream(tensor: Tensor) -> int:
    """Address of the current CUDA stream of the tensor's device, without an object made for it."""
    get = getattr(_C, "_cuda_getCurrentRawStream", None)
    return get(tensor.get_device()) if get else torch.cuda.current_stream(tensor.device).cuda_stream


def is_constant(number: Any) -> bool:
    """Whether a number is known to the compiler that traces, rather than an input of the program that it
    makes."""
    try:
        from torch.fx.experimental.symbolic_shapes import statically_known_true
    except ImportError:
        return True
    return statically_known_true(number >= 0) or statically_known_true(number < 0)


def constant(number: Any) -> Any:
    """The number as the compiler knows it now: for another one it is to compile anew. Uncompiled, itself."""
    if not torch.compiler.is_compiling():
        return number
    if not isinstance(number, (int, float, torch.SymInt, torch.SymFloat)):
        return number
    try:
        from torch.fx.experimental.symbolic_shapes import guard_scalar
    except ImportError:
        return number
    return guard_scalar(number)


def new_size() -> Any:
    """A size in a fake kernel that follows from symbolic ones, by a rule that compilers cannot know.

    The public name is for sizes that data decide, at which compilers leave the program, unless they are told
    to go on or are to make one graph; and it is an error where a tensor of that size is no result, as what
    autograd alone keeps is none.
    """
    context: Any = torch.library.get_ctx()
    try:
        from torch._library import fake_impl

        allocate: Any = fake_impl.allocate_size
        size = allocate(context._shape_env)
    except (ImportError, AttributeError):
        size = context.new_dynamic_size()
    with contextlib.suppress(AttributeError):
        context._shape_env.ignorable_fresh_unbacked_symbols.append(size.node._expr)
    return size
