# The table of options of a problem: what each may be, and what is said where one cannot be had.
"""Options that say which cost is accumulated, and how.

An operator has them as one string, Options.key, which compilers and graphs keep as a constant: the metric,
and where there are other rules than the usual ones band, radius, step weights and penalties, as in
"sqeuclidean;absolute;3.0;1.0,1.0,2.0;0.0,0.0,0.0". For compilers "@100" follows: the library's version.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch

from .. import _core
from .._core import UnsupportedError
from .._problem import choice
from .._rules import DEGREES, Rules, check_rules
from . import _private

# band, radius, step_weights and step_penalties, as functions have them.
GivenRules = tuple[Any, Any, Any, Any]
NO_RULES: GivenRules = (None, None, (1, 1, 1), (0, 0, 0))

_USUAL = Rules()
_VERSION = _core.version()  # called here: compilers cannot


class Options(NamedTuple):
    """What the operators need to know beside sizes and gamma."""

    metric: str = "sqeuclidean"
    rules: Rules = _USUAL

    # Methods, no properties: compilers of PyTorch before 2.9 do not look into those of tuples with names.
    def key(self) -> str:
        if self.rules == _USUAL:
            return _versioned(self.metric)
        band = next(name for name, code in _core.BANDS.items() if code == self.rules.band)
        radius = _private.constant(self.rules.band_radius)  # compilers make an input of the default, too
        steps = (",".join(map(repr, three)) for three in (self.rules.step_weight, self.rules.step_penalty))
        return _versioned(";".join((self.metric, band, repr(radius), *steps)))

    def degree(self) -> int:
        return DEGREES[self.metric]

    def of_costs(self) -> str:
        """The key of the same with given costs."""
        return Options("precomputed", self.rules).key()

    def free_costs(self) -> str:
        """The key of the same with given costs and without penalties."""
        return Options("precomputed", self.rules.without_penalties()).key()

    def weighs_steps(self) -> bool:
        return self.rules.step_weight != _USUAL.step_weight

    def has_penalties(self) -> bool:
        return self.rules.step_penalty != _USUAL.step_penalty


def key(metric: str, given: GivenRules) -> str:
    """The key of options that users give, checked."""
    band, radius, weights, penalties = given
    _require_constant("step_weights", weights)
    _require_constant("step_penalties", penalties)
    if band is None and radius is None and _are_usual(weights, penalties):
        return _versioned(metric)
    if torch.compiler.is_compiling():  # whose numbers may be inputs of the program, but a key is a constant
        radius = _private.constant(radius)
        weights, penalties = (
            [_private.constant(number) for number in three] if type(three) in (tuple, list) else three
            for three in (weights, penalties)
        )
    return Options(metric, check_rules(band, radius, weights, penalties)).key()


def _require_constant(name: str, three: Any) -> None:
    """Raises for what is to be learned, and never would be."""
    for number in three if type(three) in (tuple, list) else (three,):
        if not isinstance(number, torch.Tensor):
            continue
        if (number.requires_grad and torch.is_grad_enabled()) or _private.has_tangent(number):
            what = "requires a gradient" if number.requires_grad else "has a tangent"
            raise UnsupportedError(
                f"{name} {what}, which is not implemented: expected three numbers, as detach() has them"
            )


def takes_tensors(given: GivenRules) -> bool:
    """Whether gamma may be a tensor with these options: costs can be dearer instead of steps."""
    if _are_usual(*given[2:]):
        return True
    return parse(key("precomputed", given)).rules.penalty_as_cost() is not None


def _are_usual(weights: Any, penalties: Any) -> bool:
    return type(weights) is tuple and type(penalties) is tuple and (weights, penalties) == NO_RULES[2:]


def _versioned(key: str) -> str:
    """What compilers get: with the library's version, so that programs which they keep on disk, and that know
    sizes of state, are not taken for another version."""
    return f"{key}@{_VERSION}" if torch.compiler.is_compiling() else key


def parse(key: str) -> Options:
    """The options of a key."""
    # Compilers trace through caches, and warn of it.
    return _parsed(key) if torch.compiler.is_compiling() else _cached(key)


def _parsed(key: str) -> Options:
    metric, *rules = key.partition("@")[0].split(";")
    choice("metric", metric, _core.METRICS)
    if not rules:
        return Options(metric)
    band, radius, *steps = rules
    weights, penalties = ([float(number) for number in three.split(",")] for three in steps)
    if band == "none":
        return Options(metric, check_rules(None, None, weights, penalties))
    return Options(metric, check_rules(band, float(radius), weights, penalties))


_cached = functools.lru_cache(maxsize=256)(_parsed)


def problem(
    options: Options,
    dtype: torch.dtype,
    batch: int,
    n: int,
    m: int,
    features: int,
    gamma: float,
    bits: int,
    flags: int = 0,
    batch_y: int | None = None,
) -> _core.Problem:
    """The core's description of a problem."""
    code = _core.DTYPES[str(dtype).removeprefix("torch.")]
    metric = _core.METRICS[options.metric]
    return _core.Problem(metric, code, batch, n, m, features, gamma, bits, flags, batch_y, *options.rules)
