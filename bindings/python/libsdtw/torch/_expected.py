# Expected costs of paths: soft-DTW without its entropy, at gamma and in the limit of large gamma.
"""<E, D> of pairs, and the mean cost of all their paths (Blondel, Mensch and Vert 2021)."""

from __future__ import annotations

import torch
from torch import Tensor

from .._core import UnsupportedError
from . import _costs, _options
from ._operators import OPS, kept_for


def sharp(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
) -> Tensor:
    """<E, D>, (B,), differentiable once.

    By Euler's theorem it is the product of the gradient with the inputs, divided by the metric's degree: no
    matrix is held, but of the cosine's costs, which have degree 0.
    """
    chosen = _options.parse(options)
    if chosen.has_penalties():
        raise UnsupportedError("expected costs with step_penalties are not implemented")
    x, y = (
        _costs.wide(x),
        None if y is None else _costs.wide(y),
    )  # gradients, which have their type, are terms
    if y is not None and chosen.degree() == 0:
        x, y = _costs.matrix(chosen.metric, x, y, x_lengths, y_lengths), None
        options, chosen = chosen.of_costs(), _options.parse(chosen.of_costs())
    if y is not None:
        # Costs do not depend on where 0 is, but rounding does.
        x, y = _costs.without_padding(x, x_lengths), _costs.without_padding(y, y_lengths)
        shift = torch.where(x.isfinite(), x, 0).detach().mean(1, keepdim=True)
        x, y = x - shift, y - shift
    given = x, y, x_lengths, y_lengths
    needs = True, y is not None
    value, *kept = OPS.forward.default(*given, gamma, options, False, *needs)
    value = value.detach()
    args = *given, *kept_for(needs, kept), gamma, options, *needs
    grads = OPS.backward.default(torch.ones_like(value), *args)
    products = [
        _costs.dot(g, t) / chosen.degree() for g, t in zip(grads, (x, y), strict=True) if t is not None
    ]
    # Where there is no path the expected cost is the value, infinite or NaN.
    return torch.where(value.isfinite(), sum(products[1:], start=products[0]).to(value.dtype), value)


def mean_cost(
    x: Tensor,
    y: Tensor | None,
    x_lengths: Tensor | None,
    y_lengths: Tensor | None,
    gamma: float,
    options: str,
) -> Tensor:
    """Mean cost of all paths, (B,), which does not depend on gamma. Holds the matrix of costs."""
    chosen = _options.parse(options)
    if chosen.has_penalties() or chosen.weighs_steps():
        raise UnsupportedError("mean costs with step_weights or step_penalties are not implemented")
    cost = _costs.wide(x) if y is None else _costs.matrix(chosen.metric, x, y, x_lengths, y_lengths)
    free = torch.zeros((), dtype=cost.dtype, device=cost.device)
    if x_lengths is None and y_lengths is None:
        free = free.expand(1, *cost.shape[1:])
    else:
        free = free.expand(cost.shape)
    if y is None:  # a function forbids cells by infinite costs: no path goes there
        free = torch.zeros_like(cost).masked_fill(cost == torch.inf, torch.inf)
    given = free, None, x_lengths, y_lengths
    value, state, _ = OPS.forward.default(*given, 1.0, chosen.of_costs(), True, False, False)
    visits = OPS.alignment.default(*given, state, 1.0, chosen.of_costs())
    return torch.where(value.isfinite(), _costs.dot(visits.expand(cost.shape), cost).to(value.dtype), value)
