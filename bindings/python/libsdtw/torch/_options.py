# The table of options of a problem: what each may be, and what is said where one cannot be had.
"""Options that say which cost is accumulated, and how.

An operator has them as one string, Options.key, which compilers and graphs keep as a constant.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch

from .. import _core
from .._problem import choice

# Degree in (x, y) of a metric, so that metric(s x, s y) = s ** degree metric(x, y).
DEGREES = {"precomputed": 1, "sqeuclidean": 2, "euclidean": 1, "cityblock": 1, "cosine": 0}

# What computes a metric that the core does not have.
INSTEAD = {
    "euclidean": "metric=torch.cdist",
    "cityblock": "metric=lambda x, y: torch.cdist(x, y, p=1)",
    "cosine": "metric=lambda x, y: 1 - torch.nn.functional.normalize(x, dim=-1) "
    "@ torch.nn.functional.normalize(y, dim=-1).mT",
}


class Options(NamedTuple):
    """What the operators need to know beside sizes and gamma."""

    metric: str = "sqeuclidean"

    @property
    def key(self) -> str:
        return self.metric


@functools.lru_cache(maxsize=256)
def parse(key: str) -> Options:
    choice("metric", key, _core.METRICS)
    return Options(key)


def problem(
    options: Options, dtype: torch.dtype, batch: int, n: int, m: int, features: int, gamma: float, bits: int
) -> _core.Problem:
    """The core's description of a problem."""
    code = _core.DTYPES[str(dtype).removeprefix("torch.")]
    return _core.Problem(_core.METRICS[options.metric], code, batch, n, m, features, gamma, bits)


# Fields of the core's structs, in the words of this package.
_FIELDS = {
    "problem.gamma": "gamma",
    "problem.n": "the number of time steps of x",
    "problem.m": "the number of time steps of y",
    "problem.features": "the number of features",
    "problem: pairs * n * m": "pairs * N * M",
    "problem: ": "",
}


def explain(error: _core.SdtwError, options: Options, gamma: float) -> str:
    """What the core says about a problem, as users of PyTorch would put it."""
    if isinstance(error, _core.UnsupportedError) and gamma == 0:
        return (
            "gamma is 0, hard DTW, which this version does not compute: a small gamma, as 1e-3 times a "
            "typical "
            "cost, comes close"
        )
    instead = INSTEAD.get(options.metric)
    if isinstance(error, _core.UnsupportedError) and instead:
        return f"metric {options.metric!r} is not implemented in this version: {instead} computes it"
    message = str(error)
    for field, words in _FIELDS.items():
        message = message.replace(field, words)
    return message
