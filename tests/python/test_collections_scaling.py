# Scalers: what they make of series, of constants and of what varies little.
import numpy as np
import pytest

from libsdtw.collections import SoftDTWKMedoids, SoftDTWKNeighborsClassifier
from libsdtw.collections._series import as_series
from libsdtw.collections._transforms import scaled


def test_scalers(rng):
    x = rng.normal(size=(6, 12, 2)) * [1, 100] + [0, 1000]
    x[0, :, 0] = 7  # a constant
    for scaler, low, high in (("standard", -4, 4), ("minmax", 0, 1)):
        centers = SoftDTWKMedoids(6, scaler=scaler).fit(x).cluster_centers_
        assert low <= np.min(centers) <= np.max(centers) <= high
    model = SoftDTWKNeighborsClassifier(1, scaler="standard").fit(x, np.arange(6))
    np.testing.assert_array_equal(model.predict(3 * x + 5), np.arange(6))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("scaler", ["standard", "minmax"])
@pytest.mark.parametrize("constant", [0.1, 0.3, -7.7, 1e6 + 0.1])
def test_flat_series_are_0_after_scaling(constant, scaler, kind):
    wave = np.sin(np.linspace(0, 6, 49))
    x = [np.stack([wave[:n], np.full(n, constant)], axis=1).astype(kind) for n in (3, 7, 10, 49)]
    x[0][1, 1] = np.nextafter(x[0][1, 1], kind(np.inf))  # a constant that was computed, and rounded
    for one in SoftDTWKMedoids(4, scaler=scaler, gamma=1.0, init=range(4)).fit(x).cluster_centers_:
        assert not one[:, 1].any()
        assert np.ptp(one[:, 0]) > 0.9


@pytest.mark.parametrize(("kind", "share"), [(np.float64, 1e-6), (np.float64, 1e-13), (np.float32, 1e-5)])
def test_small_variations_are_scaled(kind, share):
    x = (0.3 * (1 + share * np.sin(np.linspace(0, 6, 40))))[None].astype(kind)
    (center,) = SoftDTWKMedoids(1, scaler="standard", gamma=1.0).fit(x).cluster_centers_
    assert center.mean() == pytest.approx(0, abs=1e-5)
    assert center.std() == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize("scaler", ["standard", "minmax"])
@pytest.mark.parametrize(
    ("kind", "units"), [(np.float64, (1e-300, 1e-200, 1e200, 1e307)), (np.float32, (1e-30, 1e30, 3e37))]
)
def test_any_finite_numbers_are_scaled(kind, units, scaler):
    def scaled(unit):
        x = (unit * np.array([-9.0, 3, 0, 1, 8, 9])).astype(kind)
        return SoftDTWKMedoids(1, scaler=scaler, gamma=1.0).fit(x[None]).cluster_centers_[0]

    expected = scaled(1.0)
    assert np.ptp(expected) >= 1
    for unit in units:
        np.testing.assert_allclose(scaled(unit), expected, rtol=4 * np.finfo(kind).eps, atol=1e-6)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_long_series_and_any_order_in_memory(kind, rng):
    # Sums of float32 numbers, one after another, were off by 4e-6 here, and by 4e-4 of a million steps
    x = rng.uniform(size=(1, 20_000, 2)).astype(kind)
    expected = (x - x.mean(1, dtype=np.float64)) / x.std(1, dtype=np.float64)
    by_row, by_column = (scaled(as_series("x", x.copy(order)), "standard").data for order in "CF")
    np.testing.assert_array_equal(by_row, by_column)
    np.testing.assert_allclose(by_row, expected, rtol=0, atol=max(4 * np.finfo(kind).eps, 1e-13))
