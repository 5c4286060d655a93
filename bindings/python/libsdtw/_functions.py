# The functions of libsdtw.numpy and libsdtw.cupy, over the arrays of either.
"""Soft-DTW of arrays: values, gradients, tangents, alignments and all pairs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from ._arrays import NUMPY, Floats, NumpyArrays
from ._calls import Call, Options

Function = TypeVar("Function", bound=Callable[..., Any])


def _where_x_is(function: Function) -> Function:
    """The method with the device of its first argument as the current one."""

    @functools.wraps(function)
    def run(self: Functions, x: Any, *args: Any, **options: Any) -> Any:
        with self.arrays.at(x):
            return function(self, x, *args, **options)

    return run  # type: ignore[return-value]


class Functions:
    """The functions of a module, on one kind of array."""

    def __init__(self, arrays: NumpyArrays = NUMPY) -> None:
        self.arrays = arrays

    def pad(self, series: Sequence[Any]) -> tuple[Floats, Floats]:
        """A padded batch and lengths of a list of series.

        Args:
            series: arrays (N_b, D) or (N_b,), with the same number of features.

        Returns:
            The batch (B, N, D), N the longest length, padded with 0, and lengths (B,).
        """
        with self.arrays.at(series):
            return self.arrays.pad(series)

    @_where_x_is
    def soft_dtw(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = False,
        num_threads: int | None = None,
    ) -> Any:
        """Soft-DTW of x and y.

        Args:
            x: series, (B, N, D), (N, D) or (N,); for metric "precomputed" the cost, (B, N, M) or (N, M).
            y: series likewise, (B, M, D), (M, D) or (M,); None for metric "precomputed".
            gamma: smoothing, finite and >= 0. 0 is dynamic time warping; of paths that are equally good the
                one that, read from its end, goes diagonal before vertical before horizontal.
            metric: "sqeuclidean", sum_k (x_ik - y_jk)^2; "euclidean", its root; "cityblock", sum_k |x_ik -
                y_jk|; "cosine", 1 - <x_i, y_j> / (|x_i| |y_j|); or "precomputed".
            x_lengths, y_lengths: integers of shape (B,): time steps of each series, the rest being padding,
                which is never read; None: all.
            band: None, every cell may be visited; "sakoe_chiba", those within radius of the diagonal and of
                the corner, as in tslearn; "absolute", |i - j| <= radius; or "itakura", a parallelogram of
                maximum slope radius. i and j are rows and columns of each pair's own lengths.
            radius: of the band, in time steps; for "itakura" the slope, >= 1.
            step_weights: factors >= 0 of the cost in diagonal, vertical (x alone advances) and horizontal (y
                alone advances) steps; of the first cell that of diagonal ones.
            step_penalties: what is added for such a step, not for the first cell.
            normalize: the soft-DTW divergence S(x, y) - 1/2 S(x, x) - 1/2 S(y, y) instead, which is 0 at
                x = y and hardly ever below 0 (Blondel, Mensch and Vert 2021).
            num_threads: threads of this call on the CPU; None or 0 is OpenMP's default.

        Returns:
            Values, (B,); a scalar if neither x nor y has a batch dimension. A pair of two empty series has
            value 0, of one empty series, or without a path in the band, +infinity, and one with a NaN in it
            NaN.

        Raises:
            InvalidArgumentError (a ValueError): an argument has a shape or a value that it may not have.
            UnsupportedError (a NotImplementedError): a combination that this version does not implement.
            TypeError: an argument is not numeric.
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, arrays=self.arrays)
        return call.unbatch(call.divergence() if normalize else call.forward())

    @_where_x_is
    def soft_dtw_grad(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        grad_value: ArrayLike | None = None,
        normalize: bool = False,
        num_threads: int | None = None,
    ) -> tuple[Any, ...]:
        """Soft-DTW of x and y and its gradients, in memory of a few pairs.

        Args:
            grad_value: upstream gradient, of the shape of the value; None: ones.

        The other arguments and errors are those of :func:`soft_dtw`.

        Returns:
            (value, grad_x, grad_y), or (value, grad_cost) for metric "precomputed". A gradient has its
            argument's shape and is 0 in the padding; where one series is paired with many it is the sum over
            its pairs. At gamma = 0 it is that along the best path.
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, arrays=self.arrays)
        compute = call.divergence_and_gradients if normalize else call.value_and_gradients
        value, grads = compute(grad_value)
        return (call.unbatch(value), *grads)

    @_where_x_is
    def soft_dtw_alignment(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        num_threads: int | None = None,
    ) -> Floats:
        """Expected alignment of x and y: E[i, j] is the probability that a path visits the cell (i, j).

        Arguments and errors are those of :func:`soft_dtw`, without normalize: a divergence has no alignment.

        Returns:
            E, (B, N, M), or (N, M) if neither x nor y has a batch dimension, of paths drawn with weight
            exp(-cost / gamma) (Cuturi and Blondel 2017, Algorithm 2); at gamma = 0 it is 1 on the best path.
            0 in the padding. With step weights of 1 it is the derivative of the value by the cost of the
            cell.
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, arrays=self.arrays)
        alignment: Floats = call.unbatch(call.alignment())
        return alignment

    @_where_x_is
    def dtw_path(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        num_threads: int | None = None,
    ) -> tuple[Any, Any]:
        """The best path of dynamic time warping, and its value: :func:`soft_dtw` at gamma = 0.

        Arguments and errors are those of :func:`soft_dtw`. The alignments of up to 2^24 cells, or of one
        pair, are held at a time.

        Returns:
            (path, value). The path is (K, 2) int64, the cells (i, j) from (0, 0) to (N - 1, M - 1) that x[i]
            and y[j] are aligned in; of paths that are equally good it is the one that, read from its end,
            goes diagonal before vertical before horizontal. The value is the sum of costs on it, by their
            steps' weights and with their penalties, for "sqeuclidean" the square of what tslearn's dtw_path
            gives. Of a batch a list of paths, and values (B,). A pair whose value is infinite or NaN has the
            path (0, 2).
        """
        options = Options(
            0.0, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, arrays=self.arrays)
        paths, value = call.paths()
        return call.unbatch(paths), call.unbatch(value)

    @_where_x_is
    def soft_dtw_jvp(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        tangent_x: ArrayLike | None = None,
        tangent_y: ArrayLike | None = None,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        grad_value: ArrayLike | None = None,
        num_threads: int | None = None,
    ) -> tuple[Any, ...]:
        """Derivatives of the value and of its gradients along tangent_x and tangent_y.

        Args:
            tangent_x, tangent_y: directions of x and y, of their shapes; None: zeros, but not both.
            grad_value: upstream gradient of the gradients, of the shape of the value; None: ones.

        The other arguments and errors are those of :func:`soft_dtw`, without normalize.

        Returns:
            (value_tangent, grad_x_tangent, grad_y_tangent), or (value_tangent, grad_cost_tangent) for metric
            "precomputed": what :func:`soft_dtw_grad` returns, differentiated. The last are products of the
            Hessian, which is symmetric, with the tangents.
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, arrays=self.arrays)
        value, grads = call.jvp((tangent_x, tangent_y), grad_value)
        return (call.unbatch(value), *grads)

    @_where_x_is
    def soft_dtw_cdist(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = False,
        num_threads: int | None = None,
    ) -> Floats:
        """Soft-DTW of every series of x with every one of y.

        Args:
            x, y: series, (P, N, D) and (Q, M, D), or lists of (N_p, D); y None: x itself, of which every
                pair is computed once.
            normalize: the soft-DTW divergence instead.
            x_lengths, y_lengths: integers, (P,) and (Q,).

        The other arguments and errors are those of :func:`soft_dtw`; there is no metric "precomputed".

        Returns:
            Values, (P, Q).
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, all_pairs=True, arrays=self.arrays)
        return call.divergence() if normalize else call.forward()

    @_where_x_is
    def soft_dtw_cdist_grad(
        self,
        x: ArrayLike,
        y: ArrayLike | None = None,
        *,
        gamma: float = 1.0,
        metric: str = "sqeuclidean",
        x_lengths: ArrayLike | None = None,
        y_lengths: ArrayLike | None = None,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        grad_value: ArrayLike | None = None,
        normalize: bool = False,
        num_threads: int | None = None,
    ) -> tuple[Floats, ...]:
        """Soft-DTW of every series of x with every one of y, and gradients, in memory of a few pairs.

        Args:
            grad_value: upstream gradient, (P, Q); None: ones.

        The other arguments and errors are those of :func:`soft_dtw_cdist`.

        Returns:
            (value, grad_x, grad_y), or (value, grad_x) where y is None, which is then that of all that x is
            in.
        """
        options = Options(
            gamma, metric, x_lengths, y_lengths, band, radius, step_weights, step_penalties, num_threads
        )
        call = Call(x, y, options, all_pairs=True, arrays=self.arrays)
        compute = call.divergence_and_gradients if normalize else call.value_and_gradients
        value, grads = compute(grad_value)
        return (value, *grads)
