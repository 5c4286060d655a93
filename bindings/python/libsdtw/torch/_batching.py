# torch.vmap: how the operators take one more dimension, which becomes part of the batch.
"""Batching rules.

A dimension that vmap adds is folded into the batch, so that one call computes all. What forward has kept of a
folded batch is handed on as it is: backward and its kin are called with the same tensors, and fold them
likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Dims = tuple[Any, ...]
Tensors = list[Tensor | None]


def _front(size: int, tensor: Tensor | None, dim: int | None) -> Tensor | None:
    """(V, B, ...) from a tensor whose dimension dim vmap has added, or which is the same for all of V."""
    if tensor is None:
        return None
    return tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)


def _fold(size: int, tensors: Tensors, dims: Dims) -> Tensors:
    """(V * B, ...) of each tensor."""
    fronts = [_front(size, t, d) for t, d in zip(tensors, dims, strict=True)]
    return [None if t is None else t.reshape(t.shape[0] * t.shape[1], *t.shape[2:]) for t in fronts]


def _unfold(size: int, tensor: Tensor, batch: int) -> Tensor:
    return tensor.view(size, batch, *tensor.shape[1:])


def _some(dims: Dims) -> bool:
    return any(d is not None for d in dims)


def _batch(x: Tensor, dim: int | None) -> int:
    return x.shape[0] if dim != 0 else x.shape[1]


def _forward(info: Any, dims: Dims, *args: Any) -> Any:
    size, batch = info.batch_size, _batch(args[0], dims[0])
    inputs = _fold(size, list(args[:4]), dims[:4])
    value, *kept = torch.ops.libsdtw.forward(*inputs, *args[4:])
    return (_unfold(size, value, batch), *kept), (0, None, None)


def _backward(info: Any, dims: Dims, grad_value: Tensor, *args: Any) -> Any:
    size, batch = info.batch_size, _batch(args[0], dims[1])
    *others, need_x, need_y = args[4:]
    g = _front(size, grad_value, dims[0])
    assert g is not None
    if not _some(dims[1:5]):  # the same pairs with several upstream gradients, in which the result is linear
        ones = torch.ones_like(g[0])
        grads = torch.ops.libsdtw.backward(ones, *args[:4], *others, need_x, need_y)
        grads = [
            _scaled(g, grad) if need else grad for grad, need in zip(grads, (need_x, need_y), strict=True)
        ]
    else:
        inputs = _fold(size, list(args[:4]), dims[1:5])
        grads = torch.ops.libsdtw.backward(g.reshape(-1), *inputs, *others, need_x, need_y)
        grads = [
            _unfold(size, grad, batch) if need else grad
            for grad, need in zip(grads, (need_x, need_y), strict=True)
        ]
    return tuple(grads), (0 if need_x else None, 0 if need_y and args[1] is not None else None)


def _scaled(g: Tensor, grad: Tensor) -> Tensor:
    if grad.numel() == 0 and g.numel() > 0 and grad.ndim == 1:  # y of given costs
        return grad
    return (g[..., None, None].to(torch.promote_types(g.dtype, grad.dtype)) * grad).to(grad.dtype)


def _tangents(info: Any, dims: Dims, *args: Any) -> Any:
    size, batch = info.batch_size, _batch(args[1], dims[1])
    folded = _fold(size, list(args[:7]), dims[:7])
    value, grad_x, grad_y = torch.ops.libsdtw.tangents(*folded, *args[7:])
    grads = [_unfold(size, value, batch), _unfold(size, grad_x, batch)]
    if args[2] is None:
        return (*grads, grad_y), (0, 0, None)
    return (*grads, _unfold(size, grad_y, batch)), (0, 0, 0)


def _alignment(info: Any, dims: Dims, *args: Any) -> Any:
    size, batch = info.batch_size, _batch(args[0], dims[0])
    inputs = _fold(size, list(args[:4]), dims[:4])
    return _unfold(size, torch.ops.libsdtw.alignment(*inputs, *args[4:]), batch), 0


def _one_by_one(name: str) -> Callable[..., Any]:
    """The rule of an operator on all pairs, which have no batch to fold another dimension into."""

    def rule(info: Any, dims: Dims, *args: Any) -> Any:
        run = getattr(torch.ops.libsdtw, name)
        results = [
            run(*(a if d is None else a.select(d, k) for a, d in zip(args, dims, strict=True)))
            for k in range(info.batch_size)
        ]
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        return tuple(map(torch.stack, zip(*results, strict=True))), (0,) * len(results[0])

    return rule


RULES: dict[str, Callable[..., Any]] = {
    "forward": _forward,
    "backward": _backward,
    "tangents": _tangents,
    "alignment": _alignment,
    **{name: _one_by_one(name) for name in ("all_pairs", "all_pairs_backward", "all_pairs_tangents")},
}


def register(name: str, rule: Callable[..., Any]) -> None:
    if hasattr(torch.library, "register_vmap"):  # PyTorch 2.5; before, vmap calls an operator for each of V
        torch.library.register_vmap(name, rule)
