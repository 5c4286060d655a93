# Private interfaces of JAX, all that the package uses.
"""What JAX has no public name for."""

from __future__ import annotations

from typing import Any


def lower_with_devices(primitive: Any) -> bool:
    """Has programs with this primitive lowered for known devices, as custom_partitioning in its rule needs.

    JAX does so for programs in which it sees custom_partitioning itself, which has no rules for derivatives
    and batches, so that the primitives here are around it. False where JAX has no such list: calls on
    sharded arrays then gather them, with the same results.
    """
    try:
        from jax._src.dispatch import prim_requires_devices_during_lowering
    except ImportError:
        return False
    prim_requires_devices_during_lowering.add(primitive)
    return True
