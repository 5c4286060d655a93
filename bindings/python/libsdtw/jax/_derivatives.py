# Derivatives of the primitives.
"""Forward rules of the primitives, from which JAX makes the reverse ones.

They are linear in the tangents by operations that JAX can transpose: products with gradients, and the product
with the Hessian, a primitive that is its own transpose. By gamma the derivative of the value V is
(V - <G, D>) / gamma, with the cost D and the gradient G by it; as V is homogeneous of degree 1 in (D, gamma),
that of G is minus the Hessian's product with D, divided by gamma. Where the metric is of degree k in (x, y)
both are known without D: <G, D> = (<grad_x, x> + <grad_y, y>) / k. Step penalties are costs, too: V is
homogeneous in (D, penalties, gamma), and the derivatives have terms of theirs.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

from .._core import UnsupportedError
from . import _costs, _primitives
from ._lowering import dot, weighed
from ._options import Operands, Options, per_pair, unpack

_HALVES = (jnp.float16, jnp.bfloat16)
_EACH = (True, False), (False, True)  # x, y


def widened(operands: Operands) -> Operands:
    """float32 for the half types: gradients are rounded once, behind the product with what comes upstream."""
    if operands.x.dtype not in _HALVES:
        return operands
    y = None if operands.y is None else operands.y.astype(jnp.float32)
    return operands._replace(x=operands.x.astype(jnp.float32), y=y)


def _tangents_of(options: Options, tangents: Any) -> tuple[list[Any], Any]:
    """Tangents of x and y, and of gamma; None for those that are zero."""
    of, _ = unpack(options, tangents)
    x, y, gamma = (None if t is None or type(t) is ad.Zero else t for t in (of.x, of.y, of.gamma))
    return [t if t is None else _wide(t) for t in (x, y)], gamma


def _wide(array: Any) -> Any:
    return array.astype(jnp.float32) if array.dtype in _HALVES else array


def of_costs(options: Options, operands: Operands) -> tuple[Options, Operands]:
    """The same pairs with given costs."""
    x, y, x_lengths, y_lengths, _ = operands
    cost = _costs.matrix(options.metric, x, y, x_lengths, y_lengths)
    return options._replace(metric="precomputed"), operands._replace(x=cost, y=None)


def centred(options: Options, operands: Operands) -> tuple[Any, Any]:
    """x and y, or the cost, as what the metric is homogeneous in."""
    x, y, x_lengths, y_lengths, _ = operands
    if y is None:
        return x, None
    return _costs.centred(x, y, x_lengths, y_lengths)


def expected_cost(options: Options, operands: Operands) -> Any:
    """<G, D>, (B,): the cost of a path that is expected, times step weights; infinite or NaN as the value."""
    if options.degree == 0:
        options, operands = of_costs(options, operands)
    value, grad_x, grad_y = _primitives.gradients(options, operands)
    x, y = centred(options, operands)
    total = dot(grad_x, x) if grad_y is None else dot(grad_x, x) + dot(grad_y, y)
    return jnp.where(jnp.isfinite(value), total / options.degree, value)


def _expected_penalties(options: Options, operands: Operands) -> Any:
    """What a path is expected to pay for its steps, (B,).

    It takes diagonal + vertical = n - 1 steps down and diagonal + horizontal = m - 1 to the right, and so
    visits n + m - 1 - diagonal cells: as many as the alignment's sum says are expected.
    """
    d, v, h = options.rules.step_penalty
    value, alignment = _primitives.alignment(options, widened(operands))
    n, m = operands.lengths(value.dtype)
    diagonal = n + m - 1 - jnp.sum(alignment, (1, 2))
    total = v * (n - 1 - diagonal) + h * (m - 1 - diagonal) + d * diagonal
    return jnp.where((n > 0) & (m > 0), total, 0)


def _value_by_gamma(options: Options, operands: Operands, value: Any, tangent: Any) -> Any:
    """Minus the entropy of the path, times the tangent: a difference of what is 1 / gamma times as large."""
    expected = expected_cost(options, operands)
    if options.has_penalties:
        expected += _expected_penalties(options, operands)
    # Infinity less infinity, of pairs without a path, would be NaN in second derivatives.
    value, expected = (jnp.where(value == jnp.inf, 0, of) for of in (value, expected))
    slope = (value - expected) / operands.gamma.astype(value.dtype)
    slope -= jax.lax.stop_gradient(jnp.maximum(slope, 0))  # minus an entropy: what is above 0 is rounding
    return tangent.astype(value.dtype) * slope


def _gradients_by_gamma(
    options: Options, operands: Operands, grads: tuple[Any, Any], needs: tuple[bool, bool], tangent: Any
) -> list[Any]:
    """Tangents of gradients by x and y along one of gamma."""
    gamma = per_pair(operands.gamma)
    more = options.rules.penalty_as_cost()
    if more is None:
        raise UnsupportedError(
            "the derivative of gradients by gamma is not implemented for step_penalties with step_weights of "
            "which the diagonal one is the sum of the others"
        )
    if options.degree > 0 and (more == 0 or not options.has_y):
        x, y = centred(options, operands)
        products = _primitives.tangents(options, operands, (x + more if more else x, y), needs)
        k = options.degree
        slopes = [
            None if grad is None else ((k - 1) * grad - product) / (k * gamma).astype(grad.dtype)
            for grad, product in zip(grads, products, strict=True)
        ]
    else:
        cost, pullback = jax.vjp(
            lambda x, y: of_costs(options, operands._replace(x=x, y=y))[1].x, operands.x, operands.y
        )
        given = options._replace(metric="precomputed")
        hessian_cost = _primitives.tangents(given, operands._replace(x=cost, y=None), (cost + more, None))[0]
        pulled = pullback(-hessian_cost / gamma.astype(cost.dtype))
        slopes = [slope if need else None for slope, need in zip(pulled, needs, strict=True)]
    along = per_pair(tangent)
    return [None if slope is None else along.astype(slope.dtype) * slope for slope in slopes]


def _added(terms: list[Any], like: Any) -> Any:
    """The sum of the terms that there are."""
    some = [term for term in terms if term is not None]
    return sum(some[1:], start=some[0]) if some else jnp.zeros_like(like)


def _needed(tangents: list[Any]) -> tuple[bool, bool]:
    return tangents[0] is not None, tangents[1] is not None


def _value_tangent(
    options: Options, operands: Operands, value: Any, grads: Any, along: list[Any], gamma: Any
) -> Any:
    terms = [
        _primitives.along(options, operands, of, grad, t)
        for of, grad, t in zip(_EACH, grads, along, strict=True)
        if t is not None
    ]
    if gamma is not None:
        terms.append(_value_by_gamma(options, operands, value, gamma))
    return _added(terms, value)


def _value_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    operands = widened(unpack(options, primals)[0])
    along, gamma = _tangents_of(options, tangents)
    value, *grads = _primitives.gradients(options, operands, _needed(along))
    return [value], [_value_tangent(options, operands, value, grads, along, gamma)]


def _gradients_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    operands, _ = unpack(options, primals)
    along, gamma = _tangents_of(options, tangents)
    needs, moved = kind[1], _needed(along)
    asked = needs[0] or moved[0], needs[1] or moved[1]
    value, *grads = _primitives.gradients(options, operands, asked)
    terms: list[list[Any]] = [[], []]
    if any(moved):
        products = _primitives.tangents(options, operands, (along[0], along[1]), needs)
        terms = [[product] for product in products]
    if gamma is not None:
        wanted = tuple(grad if need else None for grad, need in zip(grads, needs, strict=True))
        of_gamma = _gradients_by_gamma(options, operands, wanted, needs, gamma)  # type: ignore[arg-type]
        terms = [[*some, one] for some, one in zip(terms, of_gamma, strict=True)]
    results, directions = [value], [_value_tangent(options, operands, value, grads, along, gamma)]
    for grad, some, need in zip(grads, terms, needs, strict=True):
        if need:
            results.append(grad)
            directions.append(_added(some, grad))
    return results, directions


def _alignment_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    operands, _ = unpack(options, primals)
    along, gamma = _tangents_of(options, tangents)
    if options.weighs_steps:
        raise UnsupportedError("the derivative of an alignment with step_weights is not implemented")
    value, alignment = _primitives.alignment(options, operands)
    wide = widened(operands)
    given, cost, terms = options._replace(metric="precomputed"), wide, []
    if options.has_y:
        inputs, moves = (
            (wide.x, wide.y),
            tuple(
                jnp.zeros_like(t) if a is None else a for t, a in zip((wide.x, wide.y), along, strict=True)
            ),
        )
        matrix, move = jax.jvp(lambda x, y: of_costs(options, wide._replace(x=x, y=y))[1].x, inputs, moves)
        cost = wide._replace(x=matrix, y=None)
    else:
        move = along[0]
    if any(_needed(along)):
        terms.append(_primitives.tangents(given, cost, (move, None))[0])
    if gamma is not None:
        terms += _gradients_by_gamma(given, cost, (_wide(alignment), None), (True, False), gamma)[:1]
    grads = _primitives.gradients(options, wide, _needed(along))[1:]
    return [value, alignment], [
        _value_tangent(options, wide, value, grads, along, gamma),
        _added(terms, alignment).astype(alignment.dtype),
    ]


def _tangents_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    _, there = unpack(options, primals)
    moved, along = unpack(options, tangents)
    if any(t is not None and type(t) is not ad.Zero for t in (moved.x, moved.y, moved.gamma)):
        raise UnsupportedError("the third order of soft-DTW is not implemented")
    results = _primitives.tangents_p.bind(*primals, options=options, kind=kind)
    along = tuple(ad.instantiate_zeros(t) for t in along)
    packed = primals[: len(primals) - len(there)]
    return results, _primitives.tangents_p.bind(*packed, *along, options=options, kind=kind)


def _tangents_transpose(cotangents: Any, *primals: Any, options: Options, kind: Any) -> Any:
    """The Hessian is symmetric: the transpose is the same product."""
    operands, linear = unpack(options, primals)
    _, needs, along = kind
    given = iter(cotangents)
    back = [next(given) if need else None for need in needs]
    back = [None if t is None or type(t) is ad.Zero else t for t in back]
    nothing = [None] * len(operands.packed)
    if all(t is None for t in back):
        return [*nothing, *(ad.Zero(t.aval) for t in linear)]
    products = _primitives.tangents(options, operands, (back[0], back[1]), along)
    return [*nothing, *(product for product in products if product is not None)]


def _moved(tangent: Any) -> bool:
    return type(tangent) is not ad.Zero


def _along_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    """A product of its last two operands; the others have no part in its result."""
    operands, (grad, values) = unpack(options, primals)
    of_grad, of_values = tangents[-2:]
    terms = []
    if _moved(of_values):
        terms.append(_primitives.along(options, operands, kind[1], grad, of_values))
    if _moved(of_grad):
        terms.append(jnp.sum(of_grad * weighed(grad, values), (1, 2)))
    result = _primitives.along(options, operands, kind[1], grad, values)
    return [result], [_added(terms, result)]


def _products_jvp(primals: Any, tangents: Any, *, options: Options, kind: Any) -> Any:
    operands, (grad, upstream) = unpack(options, primals)
    of_grad, of_upstream = tangents[-2:]
    terms = []
    if _moved(of_upstream):
        terms.append(_primitives.products(options, operands, kind[1], grad, of_upstream))
    if _moved(of_grad):
        # An upstream gradient of 0 silences what is not finite, and is a variable like any other.
        silent = (per_pair(upstream) == 0) & ~jnp.isfinite(grad)
        terms.append(per_pair(upstream) * jnp.where(silent, 0, of_grad))
    result = _primitives.products(options, operands, kind[1], grad, upstream)
    return [result], [_added(terms, result)]


def _transpose(other: Any) -> Any:
    """The rule of a product that is linear in its last operand, whose transpose is the other one."""

    def rule(cotangents: Any, *primals: Any, options: Options, kind: Any) -> Any:
        operands, (grad, linear) = unpack(options, primals)
        (given,) = cotangents
        nothing = [None] * (len(primals) - 1)
        if not _moved(given):
            return [*nothing, ad.Zero(linear.aval)]
        return [*nothing, other(options, operands, kind[1], grad, given)]

    return rule


ad.primitive_jvps[_primitives.value_p] = _value_jvp
ad.primitive_jvps[_primitives.gradients_p] = _gradients_jvp
ad.primitive_jvps[_primitives.alignment_p] = _alignment_jvp
ad.primitive_jvps[_primitives.tangents_p] = _tangents_jvp
ad.primitive_transposes[_primitives.tangents_p] = _tangents_transpose
ad.primitive_jvps[_primitives.along_p] = _along_jvp
ad.primitive_jvps[_primitives.products_p] = _products_jvp
ad.primitive_transposes[_primitives.along_p] = _transpose(_primitives.products)
ad.primitive_transposes[_primitives.products_p] = _transpose(_primitives.along)
