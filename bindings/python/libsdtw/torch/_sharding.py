# DTensor: a batch that is sharded over devices stays so.
"""Sharding rules: every operator takes each pair by itself, so that the batch may be sharded, or all be
replicated."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ._operators import OPS


@functools.cache
def register() -> None:
    """Registers the rules, once; torch.distributed.tensor takes long to import, and few need it."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    for name, outputs in (("forward", 3), ("backward", 2), ("tangents", 3), ("alignment", 1)):
        operator = getattr(OPS, name).default
        tensors = ["Tensor" in str(argument.type) for argument in operator._schema.arguments]

        def rule(*args: Any, outputs: int = outputs, tensors: list[bool] = tensors) -> Any:
            def everywhere(placement: Any) -> Any:
                given = zip(args, tensors, strict=True)
                return [placement] * outputs, [
                    placement if tensor and arg is not None else None for arg, tensor in given
                ]

            return [everywhere(Shard(0)), everywhere(Replicate())]

        register_sharding(operator)(rule)


def prepare(*tensors: Any) -> None:
    """Registers the rules if one of the tensors is a DTensor."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and type(tensor).__name__ == "DTensor":
            register()
