# The names, arguments and results of other soft-DTW losses, so that one import line switches a project.
"""Drop-in replacements.

    from libsdtw.torch.compat import SoftDTW              # pytorch-softdtw-cuda, and sdtw-cuda-torch
    from libsdtw.torch.compat import softdtw_barycenter   # sdtw-cuda-torch
    from libsdtw.torch.compat import SoftDTWLossPyTorch   # tslearn
    from libsdtw.torch.compat import pysdtw               # pysdtw.SoftDTW, whose first argument is gamma

docs/migration.md says what differs: results agree where theirs are right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from ..._core import InvalidArgumentError
from .._arguments import check_gamma, check_supported
from .._barycenter import soft_dtw_barycenter
from .._functional import soft_dtw

__all__ = ["SoftDTW", "SoftDTWLossPyTorch", "pysdtw", "softdtw_barycenter"]

Distance = Callable[[Tensor, Tensor], Tensor]

SQUARED = ("sqeuclidean", "sq_euclidean", "squared_euclidean")


class SoftDTW(torch.nn.Module):
    """SoftDTW of pytorch-softdtw-cuda and of sdtw-cuda-torch.

    Args:
        use_cuda: taken and ignored: computed where the tensors are.
        gamma: smoothing.
        normalize: the soft-DTW divergence, of different lengths too.
        bandwidth: cells with abs(i - j) > bandwidth are forbidden; None or 0: none are.
        dist_func: a function of (B, N, D) and (B, M, D) that returns costs (B, N, M); None: squared
            Euclidean.
        dist: "sqeuclidean".
        fused: taken and ignored: the squared Euclidean cost is never held in memory.

    Calls take (B, N, D) and (B, M, D), or (N, D) and (M, D), and return (B,).
    """

    def __init__(
        self,
        use_cuda: bool = False,
        gamma: float = 1.0,
        normalize: bool = False,
        bandwidth: float | None = None,
        dist_func: Distance | None = None,
        *,
        dist: str = "sqeuclidean",
        fused: bool | None = None,
    ) -> None:
        super().__init__()
        if isinstance(use_cuda, Real) and not (isinstance(use_cuda, Integral) and use_cuda in (0, 1)):
            raise TypeError(
                f"use_cuda is {use_cuda!r}: expected True or False; gamma, the second argument, can be named"
            )
        if not isinstance(dist, str) or dist.lower() not in SQUARED:
            raise InvalidArgumentError(
                f"dist is {dist!r}: expected 'sqeuclidean', or a function as dist_func"
            )
        check_supported(gamma, dist_func if dist_func is not None else "sqeuclidean")
        check_gamma(gamma)
        self.use_cuda, self.fused, self.dist = use_cuda, fused, dist
        self.gamma, self.normalize = gamma, normalize
        self.bandwidth, self.dist_func = bandwidth, dist_func
        self._band()

    def forward(self, X: Tensor, Y: Tensor) -> Tensor:  # noqa: N803 (the names that callers may use)
        return _values(X, Y, self.gamma, self.normalize, self.dist_func, *self._band())

    def _band(self) -> tuple[str | None, float | None]:
        width = _number("bandwidth", self.bandwidth, 0.0, -math.inf)
        return ("absolute", width) if width > 0 else (None, None)


class SoftDTWLossPyTorch(torch.nn.Module):
    """tslearn.metrics.SoftDTWLossPyTorch.

    Args:
        gamma: smoothing.
        normalize: the soft-DTW divergence.
        dist_func: a function of (B, N, D) and (B, M, D) that returns costs (B, N, M); None: squared
            Euclidean.
        global_constraint: "sakoe_chiba", "itakura" or None.
        sakoe_chiba_radius: of the band; 1 if it is not given.
        itakura_max_slope: of the parallelogram; 2 if it is not given.

    Calls take (B, N, D) and (B, M, D) and return (B,).
    """

    def __init__(
        self,
        gamma: float = 1.0,
        normalize: bool = False,
        dist_func: Distance | None = None,
        global_constraint: str | None = None,
        sakoe_chiba_radius: int | None = None,
        itakura_max_slope: float | None = None,
    ) -> None:
        super().__init__()
        if global_constraint not in (None, "", "sakoe_chiba", "itakura"):
            raise InvalidArgumentError(
                f"global_constraint is {global_constraint!r}: expected 'sakoe_chiba', 'itakura' or None"
            )
        check_supported(gamma, dist_func if dist_func is not None else "sqeuclidean")
        self.gamma, self.normalize, self.dist_func = gamma, normalize, dist_func
        self.global_constraint = global_constraint
        self.sakoe_chiba_radius, self.itakura_max_slope = sakoe_chiba_radius, itakura_max_slope
        self._band()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return _values(x, y, self.gamma, self.normalize, self.dist_func, *self._band())

    def _band(self) -> tuple[str | None, float | None]:
        radius, slope, kind = self.sakoe_chiba_radius, self.itakura_max_slope, self.global_constraint
        if not kind:  # one of the two says which is meant
            if radius is not None and slope is not None:
                raise InvalidArgumentError(
                    f"sakoe_chiba_radius is {radius!r} and itakura_max_slope {slope!r} without "
                    "global_constraint: expected one of them, or 'sakoe_chiba' or 'itakura' as "
                    "global_constraint"
                )
            kind = "sakoe_chiba" if radius is not None else "itakura" if slope is not None else None
        if kind == "sakoe_chiba":
            return kind, _number("sakoe_chiba_radius", radius, 1, 0)
        if kind == "itakura":
            return kind, _number("itakura_max_slope", slope, 2.0, 1)
        return None, None


def _number(name: str, value: Any, usual: float, least: float) -> float:
    """What says how wide a band is; usual where it is None."""
    if value is None:
        return usual
    expected = "a finite number" if least == -math.inf else f"a finite number >= {least}"
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}: expected {expected}, or None")
    if not least <= float(value) < math.inf:
        raise InvalidArgumentError(f"{name} is {value!r}: expected {expected}, or None")
    return float(value)


def _values(
    x: Any,
    y: Any,
    gamma: Any,
    normalize: bool,
    dist_func: Distance | None,
    band: str | None,
    radius: float | None,
) -> Tensor:
    if isinstance(x, Tensor) and isinstance(y, Tensor):
        x, y = x[None] if x.ndim == 2 else x, y[None] if y.ndim == 2 else y
        if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0]:
            raise InvalidArgumentError(
                f"x and y have shapes {tuple(x.shape)} and {tuple(y.shape)}: expected (B, N, D) and (B, M, D)"
            )
    metric = "sqeuclidean" if dist_func is None else dist_func
    return soft_dtw(x, y, gamma=gamma, metric=metric, normalize=normalize, band=band, radius=radius)


def softdtw_barycenter(
    X: Tensor,  # noqa: N803
    *,
    gamma: float = 1.0,
    weights: Tensor | None = None,
    max_iter: int = 100,
    lr: float = 0.1,
    init: Tensor | None = None,
    device: str | torch.device | None = None,
    verbose: bool = False,
    fused: bool | None = None,
    early_stopping: bool = True,
    patience: int = 10,
    tol: float = 1e-5,
) -> Tensor:
    """softdtw_barycenter of sdtw-cuda-torch: the average of (B, N, D), by at most max_iter steps of Adam.

    verbose shows a progress bar. fused, patience and tol are taken and ignored: ours decides when to stop.
    """
    if device is not None and not isinstance(X, Tensor):
        raise TypeError(f"X is a {type(X).__name__}: expected a tensor (B, N, D), as device is given")
    series = X if device is None else X.to(device)
    if isinstance(weights, Tensor) and (total := weights.sum(dtype=torch.float64)) > 0:
        weights = weights / total  # as theirs does: tol is that of a mean
    return soft_dtw_barycenter(
        series, gamma=gamma, weights=weights, init=init, method="adam", max_iter=max_iter, lr=lr,
        tol=1e-3 if early_stopping else 0.0, progress=verbose,
    )  # fmt: skip


from . import pysdtw  # noqa: E402 (it takes names from above)
