# Series that a band leaves without a path to any center or neighbour: their values are infinite.
"""require_paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import InvalidArgumentError
from ._pairs import PairOptions


def require_paths(
    name: str,
    least: NDArray[Any],
    options: PairOptions,
    other: str,
    instead: str,
    numbers: NDArray[Any] | None = None,
) -> None:
    """Raises if a series has a finite value with none of the others.

    Args:
        name: the argument that holds the series.
        least: the least value of each of them, (B,).
        other: what a series is compared with, and instead: what else than the band may be changed.
        numbers: of the series in the argument; None: all of it.
    """
    none = np.flatnonzero(~np.isfinite(least))
    if not none.size:
        return
    one = f"{name}[{none[0] if numbers is None else numbers[none[0]]}]"
    if options.band is None:
        raise InvalidArgumentError(
            f"{one} has no finite value with any {other}: expected numbers whose costs are in the range "
            "of their type, as of float64"
        )
    raise InvalidArgumentError(
        f"{one} has no path to any {other} in band {options.band!r} of radius {options.radius!r}: expected a "
        f"larger radius, band 'sakoe_chiba', which has a path for any two lengths, or {instead}"
    )
