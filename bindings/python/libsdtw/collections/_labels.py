# What k-means does with labels, the cluster of each series.
"""with_a_series_each and moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def with_a_series_each(
    labels: NDArray[np.int32], nearest: NDArray[Any], weights: NDArray[Any], clusters: int
) -> NDArray[np.int32]:
    """Labels in which no cluster is empty: those that were take the series that fit worst where they are."""
    sizes = np.bincount(labels[weights > 0], minlength=clusters)
    if sizes.all():
        return labels
    labels = labels.copy()
    worst = iter(np.argsort(-weights * (nearest - min(0.0, float(nearest.min()))), kind="stable"))
    for cluster in np.flatnonzero(sizes == 0):
        for b in worst:
            if weights[b] > 0 and sizes[labels[b]] > 1:
                sizes[labels[b]] -= 1
                sizes[cluster] += 1
                labels[b] = cluster
                break
    return labels


def moves(before: NDArray[Any], labels: NDArray[Any], clusters: int) -> NDArray[np.int64]:
    """How many series have come to each cluster and gone from it; before: -1 of those that had none."""
    changed = before != labels
    came = np.bincount(labels[changed], minlength=clusters)
    gone = before[changed]
    return np.asarray(came + np.bincount(gone[gone >= 0], minlength=clusters), np.int64)
