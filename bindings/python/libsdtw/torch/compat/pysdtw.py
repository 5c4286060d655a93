# The loss of pysdtw, by its name and arguments.
"""Drop-in replacement for pysdtw.

    from libsdtw.torch.compat import pysdtw               # import pysdtw
    from libsdtw.torch.compat.pysdtw import SoftDTW       # from pysdtw import SoftDTW

docs/migration.md says what differs: results agree where theirs are right.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from ..._core import InvalidArgumentError
from .. import _costs
from .._arguments import check_gamma, check_supported
from .._functional import soft_dtw
from . import Distance, _number

__all__ = ["SoftDTW"]


class SoftDTW(torch.nn.Module):
    """SoftDTW of pysdtw.

    Args:
        gamma: smoothing.
        dist_func: a function of (B, N, D) and (B, M, D) that returns costs (B, N, M); None: squared
            Euclidean.
        use_cuda: taken and ignored: computed where the tensors are.
        bandwidth: cells further than that from the diagonal, whose slope is that of each pair's own lengths,
            are forbidden; None or 0: none are.

    Calls take (B, N, D) and (B, M, D), or a PackedSequence of such a batch in place of either, and return
    (B,).
    """

    def __init__(
        self,
        gamma: float = 1.0,
        dist_func: Distance | None = None,
        use_cuda: bool = True,
        bandwidth: float | None = None,
    ) -> None:
        super().__init__()
        check_supported(gamma, "sqeuclidean" if dist_func is None else dist_func)
        check_gamma(gamma)
        self.gamma, self.dist_func, self.use_cuda, self.bandwidth = gamma, dist_func, use_cuda, bandwidth
        self._width()

    def forward(self, X: Any, Y: Any) -> Tensor:  # noqa: N803 (the names that callers may use)
        (x, of_x), (y, of_y) = _unpacked("X", X), _unpacked("Y", Y)
        if x.shape[0] != y.shape[0] or x.shape[2] != y.shape[2]:
            raise InvalidArgumentError(
                f"X and Y have shapes {tuple(x.shape)} and {tuple(y.shape)}: expected (B, N, D) and (B, M, D)"
            )
        options: dict[str, Any] = {"gamma": self.gamma, "metric": self.dist_func or "sqeuclidean"}
        if isinstance(X, PackedSequence) or isinstance(Y, PackedSequence):
            options |= {"x_lengths": of_x.to(x.device), "y_lengths": of_y.to(y.device)}
        width = self._width()
        if width > 0 and torch.equal(of_x, of_y):
            options |= {"band": "absolute", "radius": width}
        elif width > 0:
            outside = _outside(of_x.to(x.device), of_y.to(x.device), x.shape[1], y.shape[1], width)
            costs = self.dist_func or functools.partial(_costs.matrix, "sqeuclidean")
            options["metric"] = lambda a, b: costs(a, b).masked_fill(outside, math.inf)
        return soft_dtw(x, y, **options)

    def _width(self) -> float:
        return _number("bandwidth", self.bandwidth, 0.0, -math.inf)


def _unpacked(name: str, series: Any) -> tuple[Tensor, Tensor]:
    """A padded batch, and the lengths of its series in host memory."""
    if isinstance(series, PackedSequence):
        batch: tuple[Tensor, Tensor] = pad_packed_sequence(series, batch_first=True)
        return batch
    if not isinstance(series, Tensor):
        raise TypeError(f"{name} is a {type(series).__name__}: expected a tensor or a PackedSequence")
    if series.ndim != 3:
        raise InvalidArgumentError(f"{name} has shape {tuple(series.shape)}: expected (B, N, D)")
    return series, torch.full(series.shape[:1], series.shape[1], device="cpu")


def _outside(of_x: Tensor, of_y: Tensor, n: int, m: int, width: float) -> Tensor:
    """The cells (B, N, M) that theirs leaves out: the index of the shorter series is stretched."""
    i = torch.arange(1, n + 1, device=of_x.device)[:, None]
    j = torch.arange(1, m + 1, device=of_x.device)
    of_x, of_y = of_x[:, None, None], of_y[:, None, None]
    i = torch.where(of_y > of_x, i * of_y / of_x, i)
    j = torch.where(of_y < of_x, j * of_x / of_y, j)
    return (i - j).abs() > width
