# The options that say which paths there are and what their steps cost, checked in the words of the package.
"""Bands, step weights and step penalties."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any, NamedTuple

from . import _core
from ._core import InvalidArgumentError
from ._problem import choice, is_finite

# Degree in (x, y) of a metric, so that metric(s x, s y) = s ** degree metric(x, y).
DEGREES = {"precomputed": 1, "sqeuclidean": 2, "euclidean": 1, "cityblock": 1, "cosine": 0}


class Rules(NamedTuple):
    """What the core's Problem has beside sizes, metric and gamma."""

    band: int = 0
    band_radius: float = 0.0
    step_weight: tuple[float, float, float] = (1.0, 1.0, 1.0)
    step_penalty: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def penalty_as_cost(self) -> float | None:
        """What every cell may cost more instead of step penalties, so that paths differ as they do with them.

        A path to the last cell (n, m) takes diagonal + vertical = n - 1 steps down and diagonal + horizontal
        = m - 1 to the right. So its penalties (d, v, h), and its step weights likewise, are

            d diagonal + v vertical + h horizontal = v (n - 1) + h (m - 1) + (d - v - h) diagonal,

        of which the last term alone is not the same for all paths. None where only penalties have that term.
        """
        ours, of_weights = (d - v - h for d, v, h in (self.step_penalty, self.step_weight))
        if ours == 0:
            return 0.0
        return ours / of_weights if of_weights != 0 else None

    def penalty_beside(self, cost: float, n: Any, m: Any) -> Any:
        """What paths of n and m steps pay beside that cost of cells. The first has the diagonal weight."""
        (_, v, h), (of_d, of_v, of_h) = self.step_penalty, self.step_weight
        total = (v - cost * of_v) * (n - 1.0) + (h - cost * of_h) * (m - 1.0) - cost * of_d
        return total * ((n > 0) & (m > 0))

    def is_symmetric(self, ragged: bool) -> bool:
        """Whether the value of (y, x) is that of (x, y): vertical and horizontal steps cost the same.

        ragged: series may differ in length. Then Itakura's band, whose bounds are rounded in rows, is another
        of (y, x).
        """
        (_, v, h), (_, of_v, of_h) = self.step_penalty, self.step_weight
        return v == h and of_v == of_h and not (ragged and self.band == _core.BANDS["itakura"])

    def without_penalties(self) -> Rules:
        return self._replace(step_penalty=Rules().step_penalty)


def check_rules(
    band: str | None,
    radius: float | None,
    step_weights: Sequence[float],
    step_penalties: Sequence[float],
) -> Rules:
    """The rules of a call; raises InvalidArgumentError or TypeError that names the argument."""
    weights = _three("step_weights", step_weights)
    penalties = _three("step_penalties", step_penalties)
    if min(weights) < 0:
        raise InvalidArgumentError(f"step_weights is {step_weights!r}: expected no number below 0")
    if band is None:
        if radius is not None:
            raise InvalidArgumentError(f"radius is {radius!r} without a band: expected band, too")
        return Rules(step_weight=weights, step_penalty=penalties)
    choice("band", band, [name for name in _core.BANDS if name != "none"])
    if not isinstance(radius, Real) or isinstance(radius, bool):
        raise TypeError(f"radius is {radius!r}: expected a number, with band {band!r}")
    least, what = (1, ", the maximum slope,") if band == "itakura" else (0, "")
    if not (radius >= least and is_finite(radius)):
        raise InvalidArgumentError(f"radius is {radius!r}: expected a finite number{what} >= {least}")
    return Rules(_core.BANDS[band], float(radius), weights, penalties)


def _three(name: str, values: Sequence[float]) -> tuple[float, float, float]:
    try:
        if isinstance(values, (str, bytes)):  # of which each digit would be a number
            raise TypeError
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} is {values!r}: expected three numbers") from None
    if len(numbers) != 3:
        raise InvalidArgumentError(
            f"{name} holds {len(numbers)} numbers: expected those of a diagonal, vertical and horizontal step"
        )
    if not all(map(math.isfinite, numbers)):
        raise InvalidArgumentError(f"{name} is {values!r}: expected finite numbers")
    return numbers
