# Bands that leave pairs of series without a path: what estimators make of values that are infinite.
import numpy as np
import pytest

from libsdtw.collections import (
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWKNeighborsClassifier,
    SoftDTWKNeighborsRegressor,
    SoftDTWNearestNeighbors,
    _seeding,
    soft_dtw_barycenter,
    soft_dtw_matrix,
)

NARROW = {"band": "absolute", "radius": 1, "gamma": 1.0}
BANDS = [NARROW, {"band": "itakura", "radius": 2.0, "gamma": 1.0}]
NO_PATH = (
    r"X\[{}\] has no path to any {} in band '{}' of radius {}: expected a larger radius, band 'sakoe_chiba'"
)

# Of 3, 8 and 30 steps, of which only those of one length have paths to each other
OF_LENGTHS = [np.arange(float(n)) + shift for n in (3, 8, 30) for shift in (0, 1, 4)]
KINDS = np.repeat([0, 1, 2], 3)


@pytest.mark.parametrize("band", BANDS)
@pytest.mark.parametrize("init", ["k-means++", "random", [0, 1, 2]])
@pytest.mark.parametrize("weight", [1, 0])
def test_medoids_are_those_that_series_have_a_path_to(weight, init, band):
    weights = np.array([1, 1, weight, 1, 1, 1, weight, 1, weight])
    for seed in range(3):
        model = SoftDTWKMedoids(3, init=init, random_state=seed, **band).fit(
            OF_LENGTHS, sample_weight=weights
        )
        near = model.transform(OF_LENGTHS)
        np.testing.assert_array_equal(np.isfinite(near).sum(axis=1), 1)
        np.testing.assert_array_equal(near.argmin(axis=1), model.labels_)
        np.testing.assert_array_equal(model.predict(OF_LENGTHS), model.labels_)
        # The best of each length, by the whole matrix
        matrix = np.where(np.equal.outer(KINDS, KINDS), soft_dtw_matrix(OF_LENGTHS, **band), 0)
        sums = (weights @ matrix).reshape(3, 3)
        assert model.inertia_ == pytest.approx(sums.min(axis=1).sum(), rel=1e-12)


@pytest.mark.parametrize("band", BANDS)
def test_a_series_without_a_path_is_named(band):
    said = NO_PATH.format(r"\d", "{}", band["band"], band["radius"])
    with pytest.raises(ValueError, match=said.format("medoid") + ".* or more clusters"):
        SoftDTWKMedoids(2, **band).fit(OF_LENGTHS)
    for options in ({}, {"batch_size": 4}, {"init": [np.arange(30.0)] * 2}, {"init": "random"}):
        with pytest.raises(ValueError, match=said.format("center") + ".* or another center_length"):
            SoftDTWKMeans(2, random_state=0, **options, **band).fit(OF_LENGTHS)
    with pytest.raises(ValueError, match=r"series\[3\] has no path to any average"):
        soft_dtw_barycenter(OF_LENGTHS, weights=KINDS > 0, **band)
    assert soft_dtw_barycenter(OF_LENGTHS, weights=KINDS == 2, **band).shape == (30, 1)


@pytest.mark.parametrize("options", [{}, {"batch_size": 8}])
def test_kmeans_of_series_that_have_a_path_to_centers_alone(options):
    # Those of 5 steps and of 8 have none to each other
    x = [np.arange(float(n)) + shift for n in (5, 8) for shift in (0, 1, 40, 41)]
    model = SoftDTWKMeans(2, center_length=6, band="absolute", radius=2, gamma=1.0, random_state=0, **options)
    labels = model.fit(x).labels_
    np.testing.assert_array_equal(labels, labels[[0, 0, 2, 2] * 2])
    assert labels[0] != labels[2]
    assert np.isfinite(model.inertia_)
    new = [np.arange(5.0), np.arange(12.0)]
    for ask in (model.predict, model.score):
        with pytest.raises(ValueError, match=NO_PATH.format(1, "center", "absolute", 2)):
            ask(new)
    np.testing.assert_array_equal(np.isfinite(model.transform(new)), [[True] * 2, [False] * 2])


def test_values_beyond_the_type_are_no_values(rng):
    x = 1e25 * rng.normal(size=(4, 6)).astype(np.float32)
    with pytest.raises(
        ValueError, match=r"X\[\d\] has no finite value with any center: expected numbers whose costs"
    ):
        SoftDTWKMeans(2, random_state=0, gamma=1.0).fit(x)
    neighbors = SoftDTWNearestNeighbors(2, gamma=1.0).fit(x)
    for queries in (None, -x):
        with pytest.raises(ValueError, match=r"X\[0\] has no finite value with any training series"):
            neighbors.kneighbors(queries)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_neighbours_without_a_path_have_no_say(weights):
    options = {"weights": weights, **NARROW}
    queries = [np.arange(4.0) + 0.5, np.arange(8.0) + 3]
    classifier = SoftDTWKNeighborsClassifier(4, **options).fit(OF_LENGTHS, KINDS)
    np.testing.assert_array_equal(classifier.predict_proba(queries), [[1, 0, 0], [0, 1, 0]])
    targets = np.arange(9.0)
    found = SoftDTWKNeighborsRegressor(4, **options).fit(OF_LENGTHS, targets).predict(queries)
    for query, kind, ours in zip(queries, (0, 1), found, strict=True):
        there = [OF_LENGTHS[i] for i in np.flatnonzero(KINDS == kind)]
        alone = SoftDTWKNeighborsRegressor(3, **options).fit(there, targets[kind == KINDS])
        assert ours == pytest.approx(alone.predict([query])[0], rel=1e-12)
    for model in (classifier, SoftDTWKNeighborsRegressor(4, **options).fit(OF_LENGTHS, targets)):
        with pytest.raises(ValueError, match=NO_PATH.format(1, "training series", "absolute", 1)):
            model.predict([queries[0], np.arange(12.0)])


@pytest.mark.parametrize("weight", [1.0, 0.0])
def test_first_centers_reach_all_that_they_can(weight, rng):
    # Three groups that have no path to each other, of which the last is large
    group = np.repeat([0, 1, 2], [2, 3, 30])
    values = np.where(np.equal.outer(group, group), rng.uniform(size=(35, 35)), np.inf)
    weights = np.where(np.arange(35) == 0, weight, 1.0)
    for _ in range(10):
        chosen = _seeding.plus_plus(lambda indices: values[:, indices], weights, 3, rng)
        assert sorted(group[chosen]) == [0, 1, 2]


@pytest.mark.parametrize(("init", "starts"), [("random", 3), ([1, 4], 1)])
def test_starts_of_medoids_are_counted(init, starts, rng, capsys):
    # Of indices that are given there is one start, which was said to be the first of n_init
    SoftDTWKMedoids(2, init=init, n_init=3, verbose=1).fit(rng.normal(size=(8, 6, 1)))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"start {s + 1} of {starts}" for s in range(starts)]
