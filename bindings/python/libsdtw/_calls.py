# One call on arrays of NumPy or CuPy: what the functions of libsdtw.numpy and libsdtw.cupy share.
"""Arrays of a call, checked and in the core's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from . import _core
from ._arrays import NUMPY, Floats, NumpyArrays
from ._core import InvalidArgumentError
from ._problem import Sizes, batched, check_options, check_threads, explain, pair_sizes, require_y
from ._rules import Rules, check_rules

MOST_CELLS = 2**24  # of alignments that are held at a time, where paths alone are wanted


class Options(NamedTuple):
    """The keyword arguments that every function has."""

    gamma: float
    metric: str
    x_lengths: ArrayLike | None
    y_lengths: ArrayLike | None
    band: str | None
    radius: float | None
    step_weights: Sequence[float]
    step_penalties: Sequence[float]
    num_threads: int | None


class Call:
    """The pairs of one call: series b of x with series b of y, or with all_pairs every one with every one.

    Nothing is kept between calls of the library: gradients and values come from one, which is faster.
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike | None,
        options: Options,
        *,
        all_pairs: bool = False,
        arrays: NumpyArrays = NUMPY,
    ) -> None:
        self.arrays, self.options, self.all_pairs = arrays, options, all_pairs
        check_options(options.gamma, options.metric)
        rules = check_rules(options.band, options.radius, options.step_weights, options.step_penalties)
        self.of_itself = all_pairs and y is None
        self.symmetric = self.of_itself and rules.is_symmetric(ragged=options.x_lengths is not None)
        if all_pairs:
            if options.metric == "precomputed":
                raise InvalidArgumentError("metric is 'precomputed': expected a metric of series")
            if y is None and options.y_lengths is not None:
                raise InvalidArgumentError("y_lengths is given without y: expected x_lengths alone")
        else:
            require_y(y, options.metric)
        if options.metric != "precomputed":
            x, x_lengths = arrays.batch("x", x, options.x_lengths)
            y, y_lengths = arrays.batch("y", y, options.y_lengths)
            options = options._replace(x_lengths=x_lengths, y_lengths=y_lengths)
        self.given = [arrays.floats("x", x)] if y is None else [arrays.floats("x", x), arrays.floats("y", y)]
        self.dtype = self._common_dtype()
        inputs = [arrays.readable(array, self.dtype) for array in self.given]
        if all_pairs:
            self._set_all_pairs(inputs)
        else:
            self._set_pairs(inputs)
        self._set_lengths(options)
        self.problem = self._problem(options, rules)
        self.exec = self._exec()
        try:
            self.bytes = _core.get_sizes(self.problem, self.exec)
        except _core.SdtwError as error:
            raise type(error)(explain(error)) from None

    def _common_dtype(self) -> np.dtype[Any]:
        names = [array.dtype.name for array in self.given]
        try:
            dtype = np.result_type(*(array.dtype for array in self.given)).newbyteorder("=")
            together = dtype.name
        except TypeError:  # float16 and bfloat16 have no type that is both
            together = "of no type"
        if together not in _core.DTYPES:
            raise InvalidArgumentError(
                f"x and y, of {' and '.join(names)}, are {together} together: "
                "expected float16, bfloat16, float32 or float64"
            )
        return dtype

    def _set_pairs(self, inputs: list[Floats]) -> None:
        self.y: Floats | None
        if len(inputs) == 1:
            self.x, self.y = batched("x", inputs[0], "N, M"), None
            self.sizes = Sizes(self.x.shape[0], self.x.shape[1], self.x.shape[2], 0)
            self.series_y = self.sizes.batch
        else:
            self.x, self.y = batched("x", inputs[0], "N, D"), batched("y", inputs[1], "N, D")
            self.sizes = pair_sizes(self.x.shape, self.y.shape)
            broadcast_to = self.arrays.namespace.broadcast_to
            self.x = broadcast_to(self.x, (self.sizes.batch, *self.x.shape[1:]))
            self.y = broadcast_to(self.y, (self.sizes.batch, *self.y.shape[1:]))
            self.series_y = self.sizes.batch
        self.shape: tuple[int, ...] = (self.sizes.batch,)

    def _set_all_pairs(self, inputs: list[Floats]) -> None:
        for name, array in zip("xy", inputs, strict=False):
            if array.ndim != 3:
                raise InvalidArgumentError(f"{name} has shape {array.shape}: expected (B, N, D)")
        self.x, self.y = inputs[0], None if self.symmetric else inputs[-1]
        other = self.x if self.y is None else self.y
        if self.x.shape[2] != other.shape[2]:
            raise InvalidArgumentError(
                f"x has {self.x.shape[2]} features and y has {other.shape[2]} "
                f"(shapes {self.x.shape} and {other.shape}): expected the same number"
            )
        self.sizes = Sizes(self.x.shape[0], self.x.shape[1], other.shape[1], self.x.shape[2])
        self.series_y = other.shape[0]
        self.shape = (self.sizes.batch, self.series_y)

    def _set_lengths(self, options: Options) -> None:
        lengths = self.arrays.lengths
        self.x_lengths = lengths("x_lengths", options.x_lengths, self.sizes.batch, self.sizes.n)
        self.y_lengths = (
            self.x_lengths
            if self.of_itself
            else lengths("y_lengths", options.y_lengths, self.series_y, self.sizes.m)
        )

    def _problem(self, options: Options, rules: Rules) -> _core.Problem:
        metric, dtype = _core.METRICS[options.metric], _core.DTYPES[self.dtype.name]
        flags = (_core.ALL_PAIRS if self.all_pairs else 0) | (_core.SYMMETRIC if self.symmetric else 0)
        batch_y = self.series_y if self.all_pairs else None
        return _core.Problem(
            metric, dtype, *self.sizes, options.gamma, flags=flags, batch_y=batch_y, **rules._asdict()
        )

    def _exec(self, with_value: bool = False) -> _core.Exec:
        device, threads = _core.DEVICES[self.arrays.device], check_threads(self.options.num_threads)
        return _core.Exec(device, threads, self.arrays.stream(), no_state=True, with_value=with_value)

    @property
    def pairs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def value_dtype(self) -> Any:
        return np.float64 if self.dtype == np.float64 else np.float32

    def _inputs(self) -> tuple[_core._Array, _core._Array | None, int, int]:
        return (
            self.arrays.view(self.x),
            self._view(self.y),
            self._address(self.x_lengths),
            self._address(self.y_lengths),
        )

    def _view(self, array: Floats | None) -> _core._Array | None:
        return None if array is None else self.arrays.view(array)

    def _address(self, array: Floats | None) -> int:
        return 0 if array is None else self.arrays.address(array)

    def _empty(self, shape: Sequence[int], dtype: Any) -> Floats:
        result: Floats = self.arrays.namespace.empty(shape, dtype)
        return result

    def _workspace(self, size: int) -> tuple[tuple[int, int], Floats]:
        """Memory for a call, to be kept until the call is made."""
        memory = self.arrays.memory(size)
        return self.arrays.span(memory), memory

    def upstream(self, grad_value: ArrayLike | None) -> Floats | None:
        if grad_value is None:
            return None
        given = self.arrays.asarray("grad_value", grad_value, self.value_dtype)
        shape = self.shape if self.batched else ()
        if given.shape != shape:
            raise InvalidArgumentError(
                f"grad_value has shape {given.shape}: expected {shape}, one for each pair"
            )
        upstream: Floats = self.arrays.namespace.ascontiguousarray(given)
        return upstream

    def _outputs(self) -> list[Floats]:
        return [self._empty(array.shape, self.dtype) for array in (self.x, self.y) if array is not None]

    def forward(self) -> Floats:
        value = self._empty(self.shape, self.value_dtype)
        workspace, _kept = self._workspace(self.bytes.forward)
        _core.forward(self.problem, self.exec, *self._inputs(), self._address(value), None, workspace)
        return value

    def value_and_gradients(self, grad_value: ArrayLike | None = None) -> tuple[Floats, list[Floats]]:
        upstream = self.upstream(grad_value)
        value = self._empty(self.shape, self.value_dtype)
        grads = self._outputs()
        workspace, _kept = self._workspace(self.bytes.backward)
        of_x, of_y = (*grads, None)[:2]
        _core.backward(
            self.problem,
            self._exec(with_value=True),
            *self._inputs(),
            self._address(upstream),
            self._view(of_x),
            self._view(of_y),
            None,
            workspace,
            self._address(value),
        )
        return value, self._reduced(grads)

    def alignment(self, value: Floats | None = None) -> Floats:
        """Expected alignments; values are written as well, if there is memory for them."""
        alignment = self._empty((self.pairs, self.sizes.n, self.sizes.m), self.dtype)
        workspace, _kept = self._workspace(self.bytes.alignment)
        exec_, place = self._exec(with_value=value is not None), self.arrays.view(alignment)
        _core.alignment(self.problem, exec_, *self._inputs(), place, None, workspace, self._address(value))
        return alignment

    def paths(self) -> tuple[list[Floats], Floats]:
        """The cells that paths at gamma = 0 visit, (K, 2) each and in order, and values: as many pairs at a
        time as have MOST_CELLS, or one."""
        xp = self.arrays.namespace
        paths, value = [], self._empty(self.shape, self.value_dtype)
        together = max(1, MOST_CELLS // max(1, self.sizes.n * self.sizes.m))
        for begin in range(0, self.sizes.batch, together):
            some = slice(begin, begin + together)
            visited = self._part(some).alignment(value[some])
            cells = xp.argwhere(visited > 0)  # none of a NaN
            ends = xp.bincount(cells[:, 0], minlength=len(visited)).cumsum().tolist()
            both = xp.ascontiguousarray(cells[:, 1:].astype(np.int64, copy=False))
            paths += [both[first:end] for first, end in zip([0, *ends], ends, strict=False)]
        return paths, value

    def _part(self, some: slice) -> Call:
        y, x_lengths, y_lengths = (
            None if array is None else array[some] for array in (self.y, self.x_lengths, self.y_lengths)
        )
        options = self.options._replace(x_lengths=x_lengths, y_lengths=y_lengths)
        return Call(self.x[some], y, options, arrays=self.arrays)

    def jvp(
        self, tangents: Sequence[ArrayLike | None], grad_value: ArrayLike | None
    ) -> tuple[Floats, list[Floats]]:
        directions = [
            None if tangent is None else self._tangent(name, tangent, given, array)
            for name, tangent, given, array in zip(
                ("tangent_x", "tangent_y"), tangents, (*self.given, None), (self.x, self.y), strict=False
            )
        ]
        if all(direction is None for direction in directions):
            raise InvalidArgumentError("tangent_x and tangent_y are None: expected one of them")
        upstream = self.upstream(grad_value)
        value = self._empty(self.shape, self.value_dtype)
        grads = self._outputs()
        workspace, _kept = self._workspace(self.bytes.jvp)
        along_x, along_y = (*directions, None)[:2]
        of_x, of_y = (*grads, None)[:2]
        _core.jvp(
            self.problem,
            self.exec,
            *self._inputs(),
            self._view(along_x),
            self._view(along_y),
            self._address(upstream),
            self._address(value),
            self._view(of_x),
            self._view(of_y),
            workspace,
        )
        return value, self._reduced(grads)

    def _reduced(self, grads: list[Floats]) -> list[Floats]:
        if len(grads) > len(self.given):  # x is y as well
            grads = [grads[0] + grads[1]]
        return [reduced(grad, given) for grad, given in zip(grads, self.given, strict=True)]

    def _tangent(self, name: str, tangent: ArrayLike, given: Floats | None, array: Floats | None) -> Floats:
        if given is None or array is None:
            raise InvalidArgumentError(f"{name} is given, but there is no {name[-1]}: expected None")
        result = self.arrays.floats(name, tangent)
        if result.shape != given.shape:
            raise InvalidArgumentError(
                f"{name} has shape {result.shape}: expected {given.shape}, as {name[-1]}"
            )
        result = self.arrays.readable(result, self.dtype)
        if result.ndim == 1:
            result = result[None, :, None]
        elif result.ndim == 2:
            result = result[None]
        broadcast: Floats = self.arrays.namespace.broadcast_to(result, array.shape)
        return broadcast

    def divergence(self) -> Floats:
        """S(x, y) - 1/2 S(x, x) - 1/2 S(y, y) of the pairs."""
        own = [] if self.of_itself else [own.call.forward() for own in self._own()]
        return self._less_own(self.forward(), own)

    def divergence_and_gradients(self, grad_value: ArrayLike | None = None) -> tuple[Floats, list[Floats]]:
        value, grads = self.value_and_gradients(grad_value)
        values = []
        for k, (own, upstream) in enumerate(zip(self._own(), self._own_upstreams(grad_value), strict=True)):
            of_own, grad = own.value_and_gradient(upstream)
            values.append(of_own)
            grads[k] = grads[k] - 0.5 * grad
        return self._less_own(value, values), grads

    def _own(self) -> list[Own]:
        """The series of x with themselves, and those of y unless they are x's."""
        if self.options.metric == "precomputed":
            raise InvalidArgumentError("normalize is True with metric 'precomputed': expected series")
        sets = (self.x, self.x_lengths), (self.y, self.y_lengths)
        return [Own(self, *one, given) for one, given in zip(sets, self.given, strict=False)]

    def _own_upstreams(self, grad_value: ArrayLike | None) -> list[Floats]:
        """Upstream gradients of these, each of which is a term of all pairs that the series is in."""
        upstream = self.upstream(grad_value)
        if upstream is None:
            upstream = self.arrays.namespace.full(self.shape, 1, self.value_dtype)
        if not self.all_pairs:
            return [upstream, upstream]
        of_x, of_y = upstream.sum(1), upstream.sum(0)
        return [of_x + of_y] if self.of_itself else [of_x, of_y]

    def _less_own(self, value: Floats, own: Sequence[Floats]) -> Floats:
        """S(x, y) less half of S(x, x) and S(y, y) each; of x with itself all of them are on the diagonal."""
        of_x, of_y = [value.diagonal()] * 2 if self.of_itself else own
        result: Floats = value - 0.5 * ((of_x[:, None] if self.all_pairs else of_x) + of_y)
        return result

    @property
    def batched(self) -> bool:
        return any(array.ndim == 3 for array in self.given)

    def unbatch(self, result: Floats | list[Floats]) -> Any:
        return result if self.batched else result[0]


class Own:
    """Series of a call with themselves; one that all pairs share only once, if its length is shared."""

    def __init__(self, call: Call, series: Floats, lengths: Floats | None, given: Floats) -> None:
        shared = lengths is None and given.shape != series.shape and len(series) > 0
        self.series, self.given, self.pairs = series[:1] if shared else series, given, len(series)
        options = call.options._replace(x_lengths=lengths, y_lengths=lengths)
        self.call = Call(self.series, self.series, options, arrays=call.arrays)

    def value_and_gradient(self, upstream: Floats) -> tuple[Floats, Floats]:
        """Values, and the gradient of the sum over all pairs in the shape of the argument."""
        if len(self.series) < self.pairs:  # once for all
            upstream = self.call.arrays.namespace.full(1, upstream.sum(), self.call.value_dtype)
        value, (of_x, of_y) = self.call.value_and_gradients(upstream)
        return value, reduced(of_x + of_y, self.given)


def reduced(grad: Floats, given: Floats) -> Floats:
    """Gradient of the argument as it was given: summed over the pairs that share it, in its shape."""
    if grad.shape[0] != (given.shape[0] if given.ndim == 3 else 1):
        wide = np.float64 if grad.dtype == np.float64 else np.float32
        grad = grad.sum(axis=0, keepdims=True, dtype=wide).astype(grad.dtype)
    return grad.reshape(given.shape)
