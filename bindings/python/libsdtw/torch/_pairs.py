# A batch of pairs between the arguments that users give and the operators, and gamma as a tensor in it.
"""Pairs, which the operators take and values are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core import UnsupportedError
from . import _costs, _kernels, _operators, _options


class Pairs(NamedTuple):
    """A batch of pairs as the operators take it, and how to give the results the shape of the arguments."""

    x: Tensor  # (B, N, D), or a cost (B, N, M)
    y: Tensor | None
    x_lengths: Tensor | None  # (B,)
    y_lengths: Tensor | None
    gamma: float
    options: str
    scale: Tensor | None  # values are to be multiplied by it: gamma as a tensor
    shape: tuple[int, ...]  # of the values
    dtype: torch.dtype  # what results are to have: the arguments', whatever it is computed in
    offset: Tensor | None = None  # is to be added to them: of penalties that are in the costs

    # Neither a property nor a slice nor _replace, which the compilers of PyTorch 2.7 and 2.8 do not trace.
    def inputs(self) -> tuple[Any, ...]:
        return self.x, self.y, self.x_lengths, self.y_lengths, self.gamma, self.options

    def of(self, x: Tensor, y: Tensor | None, options: str, offset: Tensor | None) -> Pairs:
        """The same batch with other costs."""
        lengths = self.x_lengths, self.y_lengths
        return Pairs(x, y, *lengths, self.gamma, options, self.scale, self.shape, self.dtype, offset)

    def values(self, result: Tensor) -> Tensor:
        """Values of what the operators have computed."""
        if self.scale is not None:
            scale = self.scale.to(result.dtype)
            if _operators.needs_grad(scale):  # pairs without a path have the derivative 0
                result = _costs.times(result, scale, result == torch.inf)
            else:
                result = result * scale
        if self.offset is not None:
            result = result + self.offset
        return result.to(_kernels.value_dtype(self.dtype))

    def alignments(self, result: Tensor) -> Tensor:
        return self.shaped(result.to(self.dtype))

    def shaped(self, result: Tensor) -> Tensor:
        if self.shape == result.shape[:1]:
            return result
        return result.reshape((*self.shape, *result.shape[1:]))


def with_gamma(pairs: Pairs, gamma: Tensor) -> Pairs:
    """The same with gamma 1: a soft minimum of costs is gamma times the one at gamma 1 of costs / gamma.

    So gamma may be anything that PyTorch differentiates, traces or keeps on a GPU. The derivative of the
    value V is (V - <E, D>) / gamma, E being the expected alignment and D the cost.
    """
    gamma = positive(gamma)
    options = _options.parse(pairs.options)
    x, y = _widened(pairs.x, pairs.y, gamma)
    pairs = pairs.of(x, y, pairs.options, None)
    if options.has_penalties():
        pairs = _with_penalties_in_costs(pairs, options)
        options = _options.parse(pairs.options)
    if pairs.y is not None and options.degree() == 0:  # costs can be scaled, but not by way of the series
        cost = _costs.matrix(options.metric, pairs.x, pairs.y, pairs.x_lengths, pairs.y_lengths)
        pairs = pairs.of(cost, None, options.of_costs(), pairs.offset)
    x, y = scaled_by_gamma(pairs.x, pairs.y, gamma, options)
    lengths = pairs.x_lengths, pairs.y_lengths
    scale, shape, dtype, offset = gamma.to(x.device), pairs.shape, pairs.dtype, pairs.offset
    return Pairs(x, y, *lengths, 1.0, pairs.options, scale, shape, dtype, offset)


def positive(gamma: Tensor) -> Tensor:
    """NaN for gamma of 0 and less, which the host may not be able to read."""
    return torch.where(gamma > 0, gamma, torch.nan)


def penalty_as_cost(options: _options.Options) -> float:
    """What every cell is to cost more where gamma is a tensor. Raises where that cannot be."""
    more = options.rules.penalty_as_cost()
    if more is None:
        raise UnsupportedError(
            "gamma as a tensor is not implemented for step_penalties with step_weights of which the diagonal "
            "one is the sum of the others: expected a number"
        )
    return more


def _with_penalties_in_costs(pairs: Pairs, options: _options.Options) -> Pairs:
    """The same without penalties, which nothing could scale, but with costs that are dearer for them, and
    what remains of them for all paths alike."""
    more = penalty_as_cost(options)
    x, y, n, m = pairs.inputs()[:4]
    cost = x if y is None else _costs.matrix(options.metric, x, y, n, m)
    n = torch.full(cost.shape[:1], cost.shape[1], device=cost.device) if n is None else n
    m = torch.full(cost.shape[:1], cost.shape[2], device=cost.device) if m is None else m
    dtype = _kernels.value_dtype(cost.dtype)
    offset = options.rules.penalty_beside(more, n.to(dtype), m.to(dtype))
    return pairs.of(cost + more, None, options.free_costs(), offset)


def scaled_by_gamma(
    x: Tensor, y: Tensor | None, gamma: Tensor, options: _options.Options
) -> tuple[Tensor, Tensor | None]:
    """Series whose costs are those of x and y divided by gamma; or costs, without y."""
    x, y = _widened(x, y, gamma)
    gamma = gamma.to(x.device, x.dtype)
    factor = gamma.rsqrt() if options.degree() == 2 else 1 / gamma
    learned = _operators.needs_grad(factor)

    def scaled(tensor: Tensor) -> Tensor:  # padding may hold NaN, and forbidden cells infinity
        return _costs.times(tensor, factor, ~tensor.isfinite()) if learned else tensor * factor

    return scaled(x), None if y is None else scaled(y)


def _widened(x: Tensor, y: Tensor | None, gamma: Tensor) -> tuple[Tensor, Tensor | None]:
    """In float32 or more, and in float64 where gamma has a derivative: that is the value less <E, D>, divided
    by gamma, and where gamma is small there is little left of the first digits of both."""
    least = torch.float64 if _operators.needs_grad(gamma) else torch.float32
    return _costs.wide(x, least), None if y is None else _costs.wide(y, least)
