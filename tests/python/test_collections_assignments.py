# Values of a collection with centers, which k-means asks for with ever fewer of them.
import tracemalloc

import numpy as np
import pytest

from libsdtw.collections._assignments import Assignments
from libsdtw.collections._pairs import PairOptions, raw_values
from libsdtw.collections._series import Series

RAW = PairOptions(1.0, num_threads=1, normalize=False)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_calls_for_any_number_of_centers_share_their_memory(kind, rng):
    series, centers = Series(rng.normal(size=(500, 20, 4)).astype(kind)), rng.normal(size=(16, 20, 4))
    tracemalloc.start()
    try:
        of = Assignments(series, RAW)
        found = [of.to_centers(centers[:k]) for k in (3, *range(16, 0, -1))]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for values in found:
        expected = raw_values(series, Series(centers[: values.shape[1]].astype(series.value_dtype)), RAW)
        np.testing.assert_array_equal(values, expected)
    of_calls = [(call.x, call.centers, call.value, call.workspace) for call in of.calls.values()]
    assert len(of_calls) == 16
    for arrays in zip(*of_calls, strict=True):
        assert all(np.shares_memory(arrays[0], array) for array in arrays)
    copies = 4 * series.data.size if kind == np.float16 else 0
    results, kept = sum(values.nbytes for values in found), of.memory.value.nbytes + of.memory.workspace.size
    assert held - results < copies + kept + 300_000  # each of the calls had such arrays of its own
