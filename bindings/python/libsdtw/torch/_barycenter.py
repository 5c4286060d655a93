# Averages of series under soft-DTW.
"""soft_dtw_barycenter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from .._core import InvalidArgumentError
from .._problem import choice, count
from . import _costs
from ._arguments import (
    Lengths,
    Metric,
    Series,
    check_floats,
    check_metric_of_series,
    check_supported,
    lengths_of,
)
from ._functional import soft_dtw, soft_dtw_divergence
from ._ragged import padded

METHODS = ("lbfgs", "adam")


def soft_dtw_barycenter(
    series: Series,
    *,
    weights: Tensor | None = None,
    init: Tensor | None = None,
    gamma: float = 1.0,
    metric: Metric = "sqeuclidean",
    lengths: Lengths = None,
    band: str | None = None,
    radius: float | None = None,
    step_weights: Sequence[float] = (1, 1, 1),
    step_penalties: Sequence[float] = (0, 0, 0),
    normalize: bool = False,
    method: str = "lbfgs",
    max_iter: int = 50,
    tol: float = 1e-5,
    lr: float | None = None,
    progress: bool = False,
) -> Tensor:
    """The series with the least weighted sum of soft-DTW to all given ones (Cuturi and Blondel 2017).

    Args:
        series: a batch (B, N, D), or a list of tensors (N_b, D), which may be of different lengths; of finite
            numbers. NaN for padding are to be told so by lengths: ``lengths=to_lengths(series)``.
        weights: (B,), not negative; None: 1 / B each. A series of weight 0 has no say, whatever it holds.
        init: where the search begins, (M, D), which also says how long the result is; None: the mean of the
            series, each stretched to the longest length.
        gamma, metric, band, radius, step_weights, step_penalties: as of :func:`soft_dtw`.
        lengths: integers, (B,), for a padded batch.
        normalize: minimise the soft-DTW divergence, which does not shrink the average as large gamma else
            does.
        method: "lbfgs", or "adam", which needs more steps and no line search.
        max_iter: steps at most.
        tol: stop where the largest entry of the gradient is smaller.
        lr: step size; None: 1 for L-BFGS and 0.05 for Adam.
        progress: show a progress bar of tqdm, which is then to be installed.

    Returns:
        The barycenter, (M, D), without a gradient.
    """
    choice("method", method, METHODS)
    check_metric_of_series(metric)
    check_supported(gamma, metric, (band, radius, step_weights, step_penalties))
    max_iter = count("max_iter", max_iter, least=0)
    if not _is_number(tol) or not tol >= 0:
        raise _error("tol", tol, "a number >= 0")
    if lr is not None and not (_is_number(lr) and 0 < lr < math.inf):
        raise _error("lr", lr, "a finite number > 0, or None")
    batch, lengths = padded("series", series, lengths, "lengths")
    check_floats("series", batch)
    if batch.ndim != 3 or 0 in batch.shape:
        raise InvalidArgumentError(
            f"series has shape {tuple(batch.shape)}: expected (B, N, D) with one series or more; a batch of "
            "univariate series (B, N) is given as series[..., None]"
        )
    of_lengths = "lengths", lengths, batch.shape[:1], batch, batch.shape[1]
    sizes = lengths_of(*of_lengths, check=True, of="series")
    function = soft_dtw_divergence if normalize else soft_dtw
    options: dict[str, Any] = {"gamma": gamma, "metric": metric, "band": band, "radius": radius}
    options |= {"step_weights": step_weights, "step_penalties": step_penalties}

    def each() -> Tensor:
        result: Tensor = function(average, given, y_lengths=sizes, **options)
        return result

    def loss() -> Tensor:
        return (each() * share).sum()

    with torch.inference_mode(False), torch.enable_grad(), _Bar(progress, max_iter) as bar:
        given = _kept(_costs.wide(batch))  # steps of halves would be lost in rounding, or leave their range
        sizes = None if sizes is None else _kept(sizes)
        largest, share = _largest(given, sizes), _weights(weights, given)
        counted = [k for k, weight in enumerate(share.tolist()) if weight > 0]
        if isinstance(metric, str) or init is None:  # a function and init may know what NaN means
            _require_finite(largest, counted)
        if isinstance(metric, str) and _loses_steps(given, max(largest[k] for k in counted)):
            given = given.double()
            share = _weights(weights, given)
        average = _start(init, given, sizes, share).requires_grad_()
        if len(counted) < len(share):
            given, share = given[counted], share[counted]
            sizes = None if sizes is None else sizes[counted]
        least = _minimise(loss, average, method, max_iter, tol, lr, bar)
        if least == math.inf:
            raise InvalidArgumentError(
                f"series[{counted[int(each().argmax())]}] has an infinite value with any average of "
                f"{len(average)} time steps: expected at least one time step, a band with a path, and costs "
                "in the range of their type"
            )
        if not bool(average.isfinite().all()):
            raise InvalidArgumentError(
                "the average came to hold NaN or infinity: expected a metric whose values and gradients are "
                "finite, and an lr whose steps are"
            )
    return average.detach().to(batch.dtype)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _error(name: str, value: Any, expected: str) -> Exception:
    kind = InvalidArgumentError if _is_number(value) else TypeError
    return kind(f"{name} is {value!r}: expected {expected}")


def _kept(tensor: Tensor) -> Tensor:
    """The tensor without a gradient, as autograd may keep it: a copy of one that is of inference mode."""
    return tensor.clone() if tensor.is_inference() else tensor.detach()


def _largest(batch: Tensor, lengths: Tensor | None) -> list[float]:
    """The size of the largest number of each series; NaN if it has one."""
    largest = batch.abs().amax(2)
    if lengths is not None:
        steps = torch.arange(batch.shape[1], device=batch.device)
        largest = torch.where(steps < lengths[:, None], largest, 0)
    result: list[float] = largest.amax(1).tolist()
    return result


def _require_finite(largest: list[float], counted: list[int]) -> None:
    for k in counted:
        if not math.isfinite(largest[k]):
            raise InvalidArgumentError(
                f"series[{k}] holds {'NaN' if math.isnan(largest[k]) else 'infinity'}: expected finite "
                "numbers, and lengths where NaN is padding, as to_lengths finds them"
            )


def _loses_steps(batch: Tensor, largest: float) -> bool:
    """Whether numbers are so large that L-BFGS's first step, of 1 in all entries together, is rounded off."""
    return 10 * torch.finfo(batch.dtype).eps * batch[0].numel() * largest > 1


def _weights(weights: Any, batch: Tensor) -> Tensor:
    if weights is None:
        return batch.new_full(batch.shape[:1], 1 / len(batch))
    try:
        real = not torch.as_tensor(weights).is_complex()
    except (TypeError, ValueError, RuntimeError):
        real = False
    if not real:
        raise TypeError(f"weights is {weights!r}: expected numbers >= 0, one for each series")
    share = _kept(torch.as_tensor(weights, dtype=batch.dtype, device=batch.device))
    if share.shape != batch.shape[:1]:
        raise InvalidArgumentError(
            f"weights has shape {tuple(share.shape)}: expected ({len(batch)},), one for each series"
        )
    if not bool((share >= 0).all()) or not bool(share.isfinite().all()):
        raise InvalidArgumentError("weights has one that is negative or not finite: expected numbers >= 0")
    if not bool(share.any()):
        raise InvalidArgumentError("weights are all 0: expected one that is greater, at least")
    return share


def _start(init: Any, batch: Tensor, lengths: Tensor | None, share: Tensor) -> Tensor:
    if init is not None:
        if not isinstance(init, Tensor):
            raise TypeError(f"init is a {type(init).__name__}: expected a tensor (M, {batch.shape[2]})")
        check_floats("init", init)
        if init.ndim == 1 and batch.shape[2] == 1:
            init = init[:, None]
        if init.ndim != 2 or init.shape[1] != batch.shape[2] or init.shape[0] == 0:
            raise InvalidArgumentError(f"init has shape {tuple(init.shape)}: expected (M, {batch.shape[2]})")
        begin: Tensor = init.detach().to(batch, copy=True)
        if not bool(begin.isfinite().all()):
            raise InvalidArgumentError("init holds NaN or infinity: expected finite numbers")
        return begin
    sizes = [batch.shape[1]] * len(batch) if lengths is None else lengths.tolist()
    longest = max(1, *sizes)
    mean = batch.new_zeros(longest, batch.shape[2], dtype=torch.float64)
    total = 0.0
    for one, size, weight in zip(batch, sizes, share.tolist(), strict=True):
        if size > 0 and weight > 0:
            stretched = one[:size].T[None].double()
            if size != longest:
                stretched = torch.nn.functional.interpolate(
                    stretched, size=longest, mode="linear", align_corners=True
                )
            mean += weight * stretched[0].T
            total += weight
    return (mean / (total or 1.0)).to(batch.dtype)


def _minimise(
    loss: Any, average: Tensor, method: str, max_iter: int, tol: float, lr: float | None, bar: Any
) -> float | None:
    """Moves the average; the value before the last step, if there was one."""
    options: dict[str, Any] = {"lr": lr if lr is not None else 1.0 if method == "lbfgs" else 0.05}
    if method == "lbfgs":
        # One step at a time, for the bar and the test of the gradient: its memory of past steps stays.
        options |= {"max_iter": 1, "max_eval": 25, "line_search_fn": "strong_wolfe", "tolerance_grad": tol}
        optimizer: torch.optim.Optimizer = torch.optim.LBFGS([average], **options)
    else:
        optimizer = torch.optim.Adam([average], **options)

    def closure() -> float:
        optimizer.zero_grad()
        value: Any = loss()
        value.backward(inputs=[average])  # and of nothing else that has a gradient, as a learned gamma
        result: float = value.item()
        return result

    before = None
    for _ in range(max_iter):
        value = float(optimizer.step(closure)) if method == "lbfgs" else closure()
        bar.update(value)
        assert average.grad is not None
        if bool(average.grad.abs().amax() <= tol) or (method == "lbfgs" and value == before):
            return value
        if method == "adam":  # behind the test: its first steps are of lr, however small the gradient
            optimizer.step()
        before = value
    return before


class _Bar:
    """A progress bar, or none."""

    def __init__(self, shown: bool, total: int) -> None:
        self.bar: Any = None
        if shown:
            from tqdm.auto import tqdm  # type: ignore[import-untyped]

            self.bar = tqdm(total=total, desc="barycenter")

    def __enter__(self) -> _Bar:
        return self

    def update(self, value: float) -> None:
        if self.bar is not None:
            self.bar.set_postfix(loss=f"{value:.6g}")
            self.bar.update()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
