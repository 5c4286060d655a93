# The primitives: what JAX sees of the library, with their rules for shapes, batching and compilation.
"""Primitives on batches: x (B, N, D) and y (B, M, D), or x a cost (B, N, M) and no y.

    value(x, y, lengths, gamma) -> value
    gradients(x, y, lengths, gamma) -> value, grad_x, grad_y
    tangents(x, y, lengths, gamma, tangent_x, tangent_y) -> grad_x_tangent, grad_y_tangent
    alignment(x, y, lengths, gamma) -> value, alignment
    along(x, y, lengths, gamma, grad, tangent) -> <grad, tangent>
    products(x, y, lengths, gamma, grad, upstream) -> upstream grad

Gradients are those of the sum of values: a pair's value depends on that pair alone, so the gradient with an
upstream one is a product. What differentiation keeps is then gradients, of the shape of x and y, and no state
of the core, which could not be split over devices nor indexed as JAX may do with what is kept. The last two,
of x or of y, are each other's transposes. Where products are not what the core makes of an upstream gradient,
as of one of 0 and a gradient beyond the range of its type, they are computed anew: hence the other operands.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from . import _lowering, _private, _split
from ._lowering import Kind
from ._options import Operands, Options, is_number, number, unpack

BOTH = (True, True)
NEITHER = (False, False)


def _abstract(*packed: Any, options: Options, kind: Kind) -> list[Any]:
    operands, _ = unpack(options, packed)
    results = _lowering.results(kind, operands)
    return [_private.result(operands.x, one.shape, one.dtype) for one in results]


def _batched(
    primitive: Primitive, packed: Any, dims: Any, *, options: Options, kind: Kind
) -> tuple[Any, tuple[int, ...]]:
    """vmap folds its dimension into the batch: one call computes all."""
    size = next(array.shape[d] for array, d in zip(packed, dims, strict=True) if d is not None)
    gamma_at = sum(operand is not None for operand in unpack(options, packed)[0]) - 1
    batch = packed[0].shape[0 if dims[0] is None else 1 if dims[0] == 0 else 0]

    def front(array: Any, dim: Any) -> Any:
        if dim is None:
            return jnp.broadcast_to(array, (size, *array.shape))
        return jnp.moveaxis(array, dim, 0)

    folded, fronts = {}, {}
    for k, (array, dim) in enumerate(zip(packed, dims, strict=True)):
        if k == gamma_at and is_number(array):
            folded[k] = array if dim is None else _one_number(array, dim)
        elif k == gamma_at and dim is None and array.ndim == 0:
            folded[k] = array
        elif k == gamma_at and dim is not None and array.ndim == 1:  # one for each of the new dimension
            fronts[k] = jnp.broadcast_to(array[:, None], (size, batch))
        else:
            fronts[k] = front(array, dim)
    axis, sizes = 0, (size, batch)
    split = _split.of_dimensions(fronts.values(), 2)
    if split is not None and split.spec[0] is None:  # then the batch is the outer one, and stays split
        axis, sizes = 1, (batch, size)
        fronts = {k: array.swapaxes(0, 1) for k, array in fronts.items()}
        split = _split.of_dimensions(fronts.values(), 2)
    for k, array in fronts.items():
        folded[k] = _split.placed(array, _split.of_first(split)).reshape(size * batch, *array.shape[2:])
    outputs = primitive.bind(*(folded[k] for k in range(len(packed))), options=options, kind=kind)
    each = [_split.placed(output.reshape(*sizes, *output.shape[1:]), split) for output in outputs]
    return each, (axis,) * len(each)


def _one_number(gamma: Any, dim: int) -> Any:
    """The number of which there are copies: a constant, which JAX copies where it batches all that it can.

    So do lax.cond and lax.switch on a batch of conditions. Of no copies any number will do, for no pairs.
    """
    return jax.lax.index_in_dim(gamma, 0, dim, keepdims=False) if gamma.shape[dim] else number(1.0)


def _primitive(name: str) -> Primitive:
    primitive = Primitive(f"libsdtw_{name}")
    primitive.multiple_results = True
    primitive.def_impl(_private.computed(primitive))
    primitive.def_abstract_eval(_abstract)
    batching.primitive_batchers[primitive] = functools.partial(_batched, primitive)
    splits = _private.lower_with_devices(primitive)
    for platform in ("cpu", "cuda"):
        split, local = (_lowering.lowering(platform, of_devices) for of_devices in (splits, False))
        rule = _private.lowered(split, local)
        mlir.register_lowering(primitive, rule, platform=platform)
    return primitive


value_p = _primitive("value")
gradients_p = _primitive("gradients")
tangents_p = _primitive("tangents")
alignment_p = _primitive("alignment")
along_p = _primitive("along")
products_p = _primitive("products")


def _bind(
    primitive: Primitive, options: Options, kind: Kind, operands: Operands, more: tuple[Any, ...] = ()
) -> list[Any]:
    packed = _private.vary_alike((*operands.packed, *more))
    return list(primitive.bind(*packed, options=options, kind=kind))


def value(options: Options, operands: Operands) -> Any:
    return _bind(value_p, options, ("value", NEITHER, NEITHER), operands)[0]


def gradients(options: Options, operands: Operands, needs: tuple[bool, bool] = BOTH) -> tuple[Any, Any, Any]:
    """Values, and gradients by x and y; None for what is not needed or not there."""
    needs = needs[0], needs[1] and options.has_y
    if not any(needs):
        return value(options, operands), None, None
    outputs = iter(_bind(gradients_p, options, ("gradients", needs, NEITHER), operands))
    return (next(outputs), *(next(outputs) if need else None for need in needs))


def tangents(
    options: Options, operands: Operands, along: tuple[Any, Any], needs: tuple[bool, bool] = BOTH
) -> tuple[Any, Any]:
    """Products of the Hessian with tangents of x and y, of which None is zero."""
    there = along[0] is not None, along[1] is not None
    given = tuple(tangent for tangent in along if tangent is not None)
    needs = needs[0], needs[1] and options.has_y
    outputs = iter(_bind(tangents_p, options, ("tangents", needs, there), operands, given))
    return next(outputs) if needs[0] else None, next(outputs) if needs[1] else None


def alignment(options: Options, operands: Operands) -> tuple[Any, Any]:
    """Values and expected alignments."""
    value, expected = _bind(alignment_p, options, ("alignment", NEITHER, NEITHER), operands)
    return value, expected


def along(options: Options, operands: Operands, of: tuple[bool, bool], grad: Any, tangent: Any) -> Any:
    """The derivative of values along a tangent of x or y; of: which."""
    return _bind(along_p, options, ("along", of, NEITHER), operands, (grad, tangent))[0]


def products(options: Options, operands: Operands, of: tuple[bool, bool], grad: Any, upstream: Any) -> Any:
    """The gradient by x or y, of: which, for upstream gradients of values, from that for 1."""
    return _bind(products_p, options, ("products", of, NEITHER), operands, (grad, upstream))[0]
