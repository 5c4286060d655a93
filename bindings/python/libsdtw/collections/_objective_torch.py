# The same objectives of tensors: all pairs of a collection with their centers in a few calls, on its device.
"""Objectives on the device of a collection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..torch import soft_dtw
from ._pairs import PairOptions

if TYPE_CHECKING:
    from ._objective import Found, Objective, Sums

CELLS = 1 << 28  # of a call: some 3 ms of an H200, and a tenth of a GiB for their gradients
SUMS = 1 << 24  # elements of the matrix that adds up what a call has


class TensorParts:
    """Values and gradients of the pairs of an Objective whose series are tensors, a call for each part.

    A part's gradients are added up to those of its clusters by a product with a matrix of zeros and ones, in
    float64: that is the same in every run, as sums by atomics are not. Nothing is waited for but the results.
    """

    def __init__(self, of: Objective) -> None:
        made = of.made
        self.made, self.data, self.options = made, made.series.data, made.options
        self.dtype = torch.float64 if made.series.value_dtype == np.float64 else torch.float32
        self.own, self.totals = of.own, self._there(of.totals[of.own])
        cells = made.series.steps * made.shape[0]
        most = max(1, min(CELLS // cells, SUMS // max(1, min(made.clusters, 4096))))
        starts = range(0, len(of.order), most)
        first, every = made.share
        self.ends = first == (len(starts) - 1) % every  # whether the last part is one of them
        self.parts = [_Part(self, of, slice(i, i + most)) for i in starts[first::every]]
        if len(self.parts) == 1:
            self.parts[0].series = self._series(self.parts[0].order)

    def _there(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.data.device)

    def _series(self, order: torch.Tensor) -> torch.Tensor:
        """Series with what is added to them: see Objectives."""
        series = self.data[order].to(self.dtype)
        return torch.nn.functional.pad(series, (0, self.made.width - series.shape[2]))

    def found(self, centers: NDArray[Any]) -> list[Found]:
        """What each part adds for centers (k, M, D); nothing is waited for before all are under way."""
        at = self._there(self.made.marked(centers)).to(self.dtype)
        sums = [[(part.clusters, part.sums(self, at))] for part in self.parts]
        if len(self.own) and self.ends:
            own = at[self._there(self.own)]
            own[..., centers.shape[2] :] = 0
            rows = -0.5 * self.totals[:, None] * _rows(own, own, None, None, self.options)
            rows[:, 1:] *= 2
            sums[-1].append((self.own, rows))
        return [[one for sum in part for one in _on_host(*sum, at.shape)] for part in sums]


def _on_host(clusters: NDArray[Any], rows: torch.Tensor, shape: torch.Size) -> list[Sums]:
    host = rows.cpu().numpy()
    grads = host[:, 1:].reshape(-1, *shape[1:])
    return list(zip(clusters.tolist(), host[:, 0], grads, strict=True))


class _Part:
    """Some pairs of series with their centers, by cluster."""

    def __init__(self, of: TensorParts, objective: Objective, chosen: slice) -> None:
        labels, order = objective.labels[chosen], objective.order[chosen]
        first, last = int(labels[0]), int(labels[-1]) + 1
        self.clusters = np.arange(first, last)
        self.order, self.labels = of._there(order), of._there(labels)
        self.weights = of._there(objective.weights[chosen])
        lengths = objective.made.series.lengths
        self.lengths = None if lengths is None else of._there(lengths[order])
        self.ones = (self.labels == torch.arange(first, last, device=self.labels.device)[:, None]).double()
        self.series: torch.Tensor | None = None  # unless it is the only part: gathered for each call

    def sums(self, of: TensorParts, centers: torch.Tensor) -> torch.Tensor:
        """A row of each cluster: what its value gains, and its gradient."""
        series = of._series(self.order) if self.series is None else self.series
        return self.ones @ _rows(centers[self.labels], series, self.lengths, self.weights, of.options)


def _rows(
    centers: torch.Tensor,
    series: torch.Tensor,
    lengths: torch.Tensor | None,
    weights: torch.Tensor | None,
    options: PairOptions,
) -> torch.Tensor:
    """Of each pair weight times value, and weight times the gradient by the center: (B, 1 + M D), float64."""
    with torch.enable_grad():
        centers = centers.detach().requires_grad_()
        values = soft_dtw(centers, series.detach(), y_lengths=lengths, **options.of_call(centers))
        share = torch.ones_like(values) if weights is None else weights
        (grads,) = torch.autograd.grad(values, centers, share.to(values.dtype))
    return torch.cat([(values.detach() * share.double())[:, None], grads.double().flatten(1)], 1)
