# Calls of the handlers: what XLA runs for a primitive on each platform, and how it is split over devices.
"""From operands to jax.ffi.ffi_call. Nothing here is differentiated or batched: the primitives are."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.sharding import NamedSharding, PartitionSpec

from .. import _core
from .._core import NotBuiltError, UnsupportedError
from . import _library, _private
from ._options import Operands, Options, is_number, per_pair, problem, unpack, value_dtype

# What a primitive computes: the target, which of x and y it computes derivatives by, and which have tangents.
Kind = tuple[str, tuple[bool, bool], tuple[bool, bool]]


def results(kind: Kind, operands: Operands) -> list[jax.ShapeDtypeStruct]:
    """Shapes and types of the results of a primitive."""
    target, needs, _ = kind
    batch, n, m, _ = operands.sizes
    dtype = operands.x.dtype
    value = jax.ShapeDtypeStruct((batch,), value_dtype(operands.x))
    if target in ("value", "along"):
        return [value]
    if target == "alignment":
        return [value, jax.ShapeDtypeStruct((batch, n, m), dtype)]
    grads = [
        jax.ShapeDtypeStruct(t.shape, dtype)
        for t, need in zip((operands.x, operands.y), needs, strict=True)
        if need
    ]
    return grads if target in ("tangents", "products") else [value, *grads]


def weighed(weights: Any, values: Any) -> Any:
    """Values with 0 for those of weight 0 that are not finite, as padding and forbidden cells may hold.

    Others stay, as a weight of 0 may have a derivative.
    """
    return jnp.where((weights == 0) & ~jnp.isfinite(values), 0, values)


def dot(weights: Any, values: Any) -> Any:
    """Sums of products, pair by pair."""
    return jnp.sum(weights * weighed(weights, values), (1, 2))


def lowering(platform: str, splits: bool) -> Callable[..., list[Any]]:
    """What computes a primitive there, as a function of packed operands; splits: over devices, by pairs."""

    def run(*packed: Any, options: Options, kind: Kind) -> list[Any]:
        operands, more = unpack(options, packed)
        if kind[0] == "along":
            return [dot(*more)]
        if not splits:
            return _CALLS[platform](options, kind, operands, more)
        one_gamma = is_number(operands.gamma) or operands.gamma.ndim == 0
        return list(_split(platform, options, kind, len(packed), one_gamma)(*packed))

    return run


@functools.lru_cache(maxsize=1024)
def _split(platform: str, options: Options, kind: Kind, count: int, one_gamma: bool) -> Callable[..., Any]:
    """The call, of which each device computes the pairs that it has."""
    gamma_at = sum((True, options.has_y, options.has_x_lengths, options.has_y_lengths))

    def local(*packed: Any) -> tuple[Any, ...]:
        return tuple(_CALLS[platform](options, kind, *unpack(options, packed)))

    def shardings(mesh: Any, arguments: Any, shapes: Any) -> tuple[Any, Any]:
        spec = getattr(arguments[0].sharding, "spec", PartitionSpec())
        axis = spec[0] if len(spec) else None
        split, whole = NamedSharding(mesh, PartitionSpec(axis)), NamedSharding(mesh, PartitionSpec())
        of_arguments = [whole if one_gamma and k == gamma_at else split for k in range(count)]
        return tuple(split for _ in shapes), tuple(of_arguments)

    def partition(mesh: Any, arguments: Any, shapes: Any) -> Any:
        of_results, of_arguments = shardings(mesh, arguments, shapes)
        return mesh, local, of_results, of_arguments

    def infer(mesh: Any, arguments: Any, shapes: Any) -> Any:
        return shardings(mesh, arguments, shapes)[0]

    def rule(mesh: Any, arguments: Any, shapes: Any) -> str:
        def of(k: int, rank: int) -> str:
            first = f"g{k}" if one_gamma and k == gamma_at else "b"
            return " ".join([first, *(f"d{k}{i}" for i in range(1, rank))][:rank])

        names = [of(k, len(one.shape)) for k, one in enumerate((*arguments, *shapes))]
        return f"{', '.join(names[:count])} -> {', '.join(names[count:])}"

    split = custom_partitioning(local)
    split.def_partition(partition=partition, infer_sharding_from_operands=infer, sharding_rule=rule)
    return split


def _given(array: Any, dtype: Any) -> Any:
    """An operand of a handler: one without elements is absent."""
    return jnp.zeros(0, dtype) if array is None else array


def _arguments(operands: Operands) -> list[Any]:
    x, y, x_lengths, y_lengths, gamma = operands
    some = next((k for k in (x_lengths, y_lengths) if k is not None), jnp.zeros(0, np.int32))
    return [x, _given(y, x.dtype), _given(x_lengths, some.dtype), _given(y_lengths, some.dtype), gamma]


def _call(
    options: Options,
    kind: Kind,
    operands: Operands,
    more: tuple[Any, ...],
    gamma: float = 1.0,
    memory: tuple[int, ...] = (),
) -> list[Any]:
    """The results that are wanted; memory: bytes of results that hold what the call needs beside them.

    more: tangents, or of gradients the upstream one, if it is not 1.
    """
    target, needs, along = kind
    arguments = _arguments(operands)
    shapes = results(kind, operands)
    if target == "gradients":
        arguments.append(_given(more[0] if more else None, shapes[0].dtype))
    if target == "tangents":
        given = iter(more)
        arguments += [next(given) if there else jnp.zeros(0, operands.x.dtype) for there in along]
    if target in ("gradients", "tangents"):  # whose handlers have a result for x and one for y
        at = 1 if target == "gradients" else 0
        wanted, shapes = iter(shapes[at:]), shapes[:at]
        shapes += [next(wanted) if need else jax.ShapeDtypeStruct((0,), operands.x.dtype) for need in needs]
    extra = [jax.ShapeDtypeStruct((size,), np.uint8) for size in memory]
    outputs = jax.ffi.ffi_call(_library.target(target), [*shapes, *extra])(
        *arguments, **options.attributes(gamma)
    )
    outputs = list(outputs)[: len(shapes)]
    if target in ("gradients", "tangents"):
        kept = [True] * (len(shapes) - 2) + list(needs)
        outputs = [output for output, keep in zip(outputs, kept, strict=True) if keep]
    return outputs


# Upstream gradients of which products are good: what float32 gradients for 1 lose below their least number
# is, times these, less than the least normal number.
_MOST_UPSTREAM = 2.0**24


def _cpu(options: Options, kind: Kind, operands: Operands, more: tuple[Any, ...]) -> list[Any]:
    if kind[0] != "products":
        return _call(options, kind, operands, more)
    kept, upstream = more

    def anew() -> Any:
        computed = _call(options, ("gradients", *kind[1:]), operands, (upstream,))[1]
        return _private.vary_alike((computed, kept))[0]

    good = jnp.all(jnp.isfinite(kept)) & jnp.all(jnp.abs(upstream) <= _MOST_UPSTREAM)
    return [jax.lax.cond(good, lambda: kept * per_pair(upstream), anew)]


def _padding(operands: Operands, needs: tuple[bool, bool], shape: tuple[int, ...]) -> Any:
    """Where gradients by x, or y, are 0 whatever the upstream ones: beyond lengths, and of empty series."""
    lengths = [operands.x_lengths, operands.y_lengths]
    own_first = lengths if needs[0] else lengths[::-1]
    nothing = jnp.zeros((1, 1, 1), bool)
    for axis, length in enumerate(own_first, 1):
        if length is None:
            continue
        nothing |= (length == 0)[:, None, None]
        if axis == 1 or operands.y is None:  # of a cost both axes have lengths
            step = jax.lax.broadcasted_iota(length.dtype, shape, axis)
            nothing |= (step >= length[:, None, None]) & (length >= 0)[:, None, None]
    return nothing


def _cuda(options: Options, kind: Kind, operands: Operands, more: tuple[Any, ...]) -> list[Any]:
    """The same on a GPU, whose host does not see gamma: of an operand the inputs are scaled instead."""
    if kind[0] == "products":  # to compute them anew the host would wait for the device to say so
        kept, upstream = more
        nothing = (per_pair(upstream) == 0) & jnp.isinf(kept) | _padding(operands, kind[1], kept.shape)
        return [jnp.where(nothing, 0, kept * per_pair(upstream))]
    if "cuda" not in _library.PLATFORMS:
        raise NotBuiltError("libsdtw.jax was built without CUDA: build libsdtw where nvcc is, or use the CPU")
    expected = results(kind, operands)
    scales = options.degree > 0 and not (options.has_penalties and options.has_y)
    if not is_number(operands.gamma) and scales:
        outputs = _of_operand(options, kind, operands, more)
    elif not is_number(operands.gamma) or options.known_gamma is None:  # see _arguments.prepare
        raise UnsupportedError("a program for GPUs was asked for where JAX has none")
    else:
        outputs = _of_number(options, kind, operands, more, options.known_gamma)
    return [output.astype(one.dtype) for output, one in zip(outputs, expected, strict=True)]


def _of_number(
    options: Options, kind: Kind, operands: Operands, tangents: tuple[Any, ...], gamma: float
) -> list[Any]:
    return _call(options, kind, operands, tangents, gamma, _memory(options, kind, operands, gamma))


def _of_operand(options: Options, kind: Kind, operands: Operands, tangents: tuple[Any, ...]) -> list[Any]:
    """At gamma 0 what the number 0 gives: a program computes that, and the rest, only where it is needed.

    NaN at a gamma that would be an error where the host sees it.
    """
    gamma = operands.gamma.astype(value_dtype(operands.x))
    zero = gamma == 0
    scale = jnp.where(zero, 1, jnp.where((gamma > 0) & (gamma < jnp.inf), gamma, jnp.nan))

    def soft() -> list[Any]:
        free, scaled, along = _scaled(options, operands, tangents, scale)
        return _unscaled(options, kind, operands, _of_number(free, kind, scaled, along, 1.0), scale)

    def hard() -> list[Any]:
        like = jax.eval_shape(soft)
        outputs = _of_number(options, kind, operands, tangents, 0.0)
        return [output.astype(one.dtype) for output, one in zip(outputs, like, strict=True)]

    if gamma.ndim == 0:
        return list(jax.lax.cond(zero, hard, soft))
    chosen = jax.lax.cond(jnp.any(zero), hard, lambda: [jnp.zeros_like(one) for one in jax.eval_shape(soft)])
    pairs = zip(chosen, soft(), strict=True)
    return [jnp.where(zero.reshape(-1, *(1,) * (one.ndim - 1)), one, other) for one, other in pairs]


_CALLS = {"cpu": _cpu, "cuda": _cuda}


def _factor(options: Options, scale: Any) -> Any:
    return per_pair(jax.lax.rsqrt(scale) if options.degree == 2 else 1 / scale)


def _scaled(
    options: Options, operands: Operands, tangents: tuple[Any, ...], scale: Any
) -> tuple[Options, Operands, tuple[Any, ...]]:
    """At gamma 1: a soft minimum of costs is gamma times the one at gamma 1 of costs / gamma.

    Of given costs penalties are made a part, which scales with them.
    """
    factor, x = _factor(options, scale), operands.x
    if options.has_penalties:
        x = x.astype(value_dtype(x)) + _penalty(options)
        options = options._replace(rules=options.rules.without_penalties())
    x, y = x * factor, None if operands.y is None else operands.y * factor
    return options, operands._replace(x=x, y=y), tuple(t * factor for t in tangents)


def _penalty(options: Options) -> float:
    more = options.rules.penalty_as_cost()
    if more is None:
        raise UnsupportedError(
            "gamma as an array is not implemented on GPUs for step_penalties with step_weights of which the "
            "diagonal one is the sum of the others: expected a number"
        )
    return more


def _unscaled(options: Options, kind: Kind, operands: Operands, outputs: list[Any], scale: Any) -> list[Any]:
    """Results of what _scaled made, in the terms of what it was given."""
    back = per_pair(scale) * _factor(options, scale)
    if kind[0] == "tangents":
        return [output * back for output in outputs]
    value, *others = outputs
    value = value * scale
    if options.has_penalties:
        value += options.rules.penalty_beside(_penalty(options), *operands.lengths(value.dtype))
    return [value, *(others if kind[0] == "alignment" else [grad * back for grad in others])]


def _memory(options: Options, kind: Kind, operands: Operands, gamma: float) -> tuple[int, ...]:
    """Bytes of state and workspace, which are results of a handler on a GPU: it allocates nothing."""
    if operands.is_symbolic:
        raise UnsupportedError(
            f"x has shape {operands.x.shape}: expected numbers, as programs for GPUs make room for what they "
            "compute; jax.export takes symbols for the CPU alone"
        )
    target = kind[0]
    no_state = target in ("value", "tangents")
    exec_ = _core.Exec(device=_core.DEVICES["cuda"], no_state=no_state)
    sizes = _core.get_sizes(problem(options, operands, gamma), exec_)
    workspace = {
        "value": sizes.forward,
        "gradients": max(sizes.forward, sizes.backward),
        "alignment": max(sizes.forward, sizes.alignment),
        "tangents": sizes.jvp,
    }[target]
    return (_whole(sizes.state) + _whole(workspace),)


def _whole(size: int) -> int:
    return -(-size // 64) * 64


def check(options: Options, operands: Operands, gamma: float) -> None:
    """Raises what the core says of a problem before it is computed; with symbols as sizes it does so then."""
    if operands.is_symbolic:
        return
    _core.get_sizes(problem(options, operands, gamma), _core.Exec(no_state=True))
