# What is constant in a program: the options of a problem, and which operands its calls have.
"""Options of the primitives, and their operands by name."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .. import _core
from .._rules import DEGREES, Rules

_USUAL = Rules()


class Options(NamedTuple):
    """A parameter of the primitives: programs are compiled for it."""

    metric: str = "sqeuclidean"
    rules: Rules = _USUAL
    # The number that gamma is, where a GPU is to be told it: handlers there cannot read the operand.
    known_gamma: float | None = None
    has_x_lengths: bool = False
    has_y_lengths: bool = False

    @property
    def has_y(self) -> bool:
        return self.metric != "precomputed"

    @property
    def degree(self) -> int:
        return DEGREES[self.metric]

    @property
    def weighs_steps(self) -> bool:
        return self.rules.step_weight != _USUAL.step_weight

    @property
    def has_penalties(self) -> bool:
        return self.rules.step_penalty != _USUAL.step_penalty

    def attributes(self, gamma: float = 1.0) -> dict[str, Any]:
        """Attributes of a handler: fields of sdtw_problem."""
        rules = self.rules
        fields: dict[str, Any] = {
            "metric": np.int32(_core.METRICS[self.metric]),
            "band": np.int32(rules.band),
            "band_radius": np.float64(rules.band_radius),
            "gamma": np.float64(gamma),
        }
        for k in range(3):
            fields[f"step_weight_{k}"] = np.float64(rules.step_weight[k])
            fields[f"step_penalty_{k}"] = np.float64(rules.step_penalty[k])
        return fields


class Operands(NamedTuple):
    """The arrays that every primitive has; what is None is no operand of it."""

    x: Any  # (B, N, D), or a cost (B, N, M)
    y: Any  # (B, M, D) or None
    x_lengths: Any  # (B,) or None
    y_lengths: Any
    gamma: Any  # () or (B,), or the bits of a number: see is_number

    @property
    def packed(self) -> tuple[Any, ...]:
        return tuple(operand for operand in self if operand is not None)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """B, N, M, and the number of features, which is 0 of costs."""
        batch, n, last = self.x.shape
        return (batch, n, last, 0) if self.y is None else (batch, n, self.y.shape[1], last)

    @property
    def is_symbolic(self) -> bool:
        """Whether sizes are symbols of jax.export instead of numbers."""
        return not all(isinstance(size, int) for size in self.sizes)

    def lengths(self, dtype: Any) -> tuple[Any, Any]:
        """Lengths of x and of y, (B,), as numbers of a type to compute with."""
        batch, n, m, _ = self.sizes
        given = (self.x_lengths, n), (self.y_lengths, m)
        x, y = (jnp.full(batch, size, dtype) if of is None else of.astype(dtype) for of, size in given)
        return x, y


def unpack(options: Options, packed: Any) -> tuple[Operands, tuple[Any, ...]]:
    """The operands of a call by name, and what it has behind them."""
    rest = iter(packed)
    present = (True, options.has_y, options.has_x_lengths, options.has_y_lengths, True)
    return Operands(*(next(rest) if there else None for there in present)), tuple(rest)


def number(gamma: float) -> Any:
    """gamma as an operand that is exact where JAX has no float64, and that has no derivative."""
    return np.array([gamma], np.float64).view(np.uint32)


def is_number(gamma: Any) -> bool:
    return bool(gamma.dtype == np.uint32)


def per_pair(gamma: Any) -> Any:
    """gamma, or a tangent of it, as a factor of arrays (B, N, D)."""
    return gamma[:, None, None] if gamma.ndim else gamma


def problem(options: Options, operands: Operands, gamma: float = 1.0) -> _core.Problem:
    """The core's description of a call."""
    lengths = operands.y_lengths if operands.x_lengths is None else operands.x_lengths
    bits = 32 if lengths is not None and lengths.dtype == np.int32 else 64
    code = _core.DTYPES[operands.x.dtype.name]
    metric = _core.METRICS[options.metric]
    return _core.Problem(metric, code, *operands.sizes, gamma, bits, 0, None, *options.rules)


def value_dtype(x: Any) -> Any:
    return np.dtype(np.float64 if x.dtype == np.float64 else np.float32)


def is_traced(array: Any) -> bool:
    return isinstance(array, jax.core.Tracer)
