# What the operators of _operators.py give where nothing is computed: shapes and types.
"""Fake kernels, for compilers, traces and the device "meta"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from . import _kernels, _private


def _fake_forward(
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
    value = x.new_empty(x.shape[:1], dtype=_kernels.value_dtype(x.dtype))
    if (need_x or need_y) and _kernels.keeps_gradients(x, y) and not save_state:
        return value, *_kernels.new_grads(x, y, need_x, need_y)
    if not (save_state or need_x or need_y):
        size: Any = 0
    elif any(isinstance(s, torch.SymInt) for t in (x, y) if t is not None for s in t.shape):
        size = _private.new_size()
    else:
        shapes = x.shape, None if y is None else y.shape
        device = x.get_device() if x.is_cuda else -1
        size = _kernels.plan(*shapes, x.dtype, None, gamma, options, device, 0, 0, False, False).state_bytes
    return value, x.new_empty(size, dtype=torch.uint8), x.new_empty(0)


def _fake_backward(grad_value: Tensor, x: Tensor, y: Tensor | None, *args: Any) -> tuple[Tensor, Tensor]:
    return _kernels.new_grads(x, y, *args[-2:])


def _fake_tangents(
    grad_value: Tensor, x: Tensor, y: Tensor | None, *args: Any
) -> tuple[Tensor, Tensor, Tensor]:
    value = x.new_empty(x.shape[:1], dtype=_kernels.value_dtype(x.dtype))
    return (value, *_kernels.new_grads(x, y, True, True))


def _fake_alignment(x: Tensor, y: Tensor | None, *args: Any) -> Tensor:
    return _kernels.new_alignment(x, y)


def _fake_all_pairs(x: Tensor, y: Tensor | None, *args: Any) -> Tensor:
    return _kernels.new_all_pairs(x, y)


def _fake_all_pairs_tangents(
    grad_value: Tensor, x: Tensor, y: Tensor | None, *args: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return (_kernels.new_all_pairs(x, y), *_kernels.new_grads(x, y, True, True))


FAKES: dict[str, Callable[..., Any]] = {
    "forward": _fake_forward,
    "backward": _fake_backward,
    "tangents": _fake_tangents,
    "alignment": _fake_alignment,
    "all_pairs": _fake_all_pairs,
    "all_pairs_backward": _fake_backward,
    "all_pairs_tangents": _fake_all_pairs_tangents,
}
