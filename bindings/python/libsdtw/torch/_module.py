# Soft-DTW as a module of a network.
"""SoftDTW, the loss module. See libsdtw.torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._core import UnsupportedError
from ._arguments import Lengths, Metric, Series, check_options
from ._functional import soft_dtw


class SoftDTW(torch.nn.Module):
    """Soft-DTW as a loss module.

        loss = SoftDTW(gamma=0.1, reduction="mean")
        loss(x, y, x_lengths, y_lengths).backward()

    The options are those of :func:`soft_dtw`, which says what they mean, and what calls take and return.
    gamma may be changed between calls, to anneal it: a number or a tensor takes the place of either. A
    torch.nn.Parameter is learned; another tensor goes where the module goes, and is not saved with it.
    """

    gamma: Any

    def __init__(
        self,
        gamma: float | Tensor = 1.0,
        metric: Metric = "sqeuclidean",
        reduction: str = "none",
        *,
        band: str | None = None,
        radius: float | None = None,
        step_weights: Sequence[float] = (1, 1, 1),
        step_penalties: Sequence[float] = (0, 0, 0),
        normalize: bool = False,
        zero_infinity: bool = False,
        check_lengths: bool = False,
    ) -> None:
        super().__init__()
        rules = band, radius, step_weights, step_penalties
        check_options(gamma, metric, reduction, rules, normalize)
        self.gamma = gamma
        self.metric = metric
        self.reduction = reduction
        self.band, self.radius = band, radius
        self.step_weights, self.step_penalties = tuple(step_weights), tuple(step_penalties)
        self.normalize = normalize
        self.zero_infinity = zero_infinity
        self.check_lengths = check_lengths

    def forward(
        self,
        x: Series,
        y: Series | None = None,
        x_lengths: Lengths = None,
        y_lengths: Lengths = None,
    ) -> Tensor:
        return soft_dtw(
            x,
            y,
            gamma=self.gamma,
            metric=self.metric,
            x_lengths=x_lengths,
            y_lengths=y_lengths,
            band=self.band,
            radius=self.radius,
            step_weights=self.step_weights,
            step_penalties=self.step_penalties,
            reduction=self.reduction,
            normalize=self.normalize,
            zero_infinity=self.zero_infinity,
            check_lengths=self.check_lengths,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        ours = name == "gamma" and not hasattr(type(self), name)  # else of torch.nn.utils.parametrize
        if ours and hasattr(self, name):  # PyTorch puts no number where there was a tensor
            del self.gamma
        if ours and isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter):
            self.register_buffer(name, value, persistent=False)
        else:
            super().__setattr__(name, value)

    def __prepare_scriptable__(self) -> Any:
        """What torch.jit.script asks a module for."""
        raise UnsupportedError(
            "torch.jit.script of SoftDTW is not implemented: torch.compile or torch.export take it, and "
            "torch.jit.trace does"
        )

    def extra_repr(self) -> str:
        gamma = self.gamma
        if isinstance(gamma, Tensor):
            gamma = "meta" if gamma.is_meta else gamma.item()
        name = self.metric if isinstance(self.metric, str) else getattr(self.metric, "__name__", self.metric)
        shown = f"gamma={gamma}, metric={name!r}, reduction={self.reduction!r}"
        if self.band is not None:
            shown += f", band={self.band!r}, radius={self.radius}"
        usual = {"step_weights": (1, 1, 1), "step_penalties": (0, 0, 0)}
        shown += "".join(f", {f}={getattr(self, f)}" for f, of in usual.items() if getattr(self, f) != of)
        flags = [f for f in ("normalize", "zero_infinity", "check_lengths") if getattr(self, f)]
        return ", ".join([shown, *(f"{flag}=True" for flag in flags)])
