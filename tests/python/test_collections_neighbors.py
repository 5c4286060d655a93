# Neighbours: what they count for, what is set after fit, values that were computed before, and graphs.
import warnings

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor, NearestNeighbors
from sklearn.utils.estimator_checks import check_estimator

from libsdtw import InvalidArgumentError
from libsdtw.collections import (
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWKNeighborsClassifier,
    SoftDTWKNeighborsRegressor,
    SoftDTWNearestNeighbors,
    _keep,
    _neighbors,
    soft_dtw_matrix,
)
from libsdtw.collections._neighbors import inverses
from test_collections_estimators import waves

PENALTIES = (0.5, 1, 2), (-1, -2, -1)


@pytest.mark.parametrize(
    ("values", "rounding", "expected"),
    [
        ([1, 2, 4], 0, [4, 2, 1]),
        ([1, 2, np.inf], 0, [2, 1, 0]),
        ([0, 1, 2], 0, [1, 0, 0]),
        ([-1e-6, 0, 1e-6, 1e-3], 1e-6, [1, 1, 1, 0]),  # copies, but for rounding
        ([-1e-4, 1e-4, 2e-4, 1], 1e-6, [1e4, 1e4, 5e3, 1]),  # near, as far as values tell
        ([-1e-4, 1e-6, 1], 1e-6, [0, 1, 0]),
        ([5e-324, 1e-323], 0, [2, 1]),
    ],
)
def test_what_neighbours_count_for(values, rounding, expected):
    found = inverses(np.array([values], np.float64), rounding)[0]
    np.testing.assert_allclose(found / found.sum(), np.array(expected) / np.sum(expected), rtol=1e-9)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("gamma", [0, 0.1, 30.0])
@pytest.mark.parametrize("options", [{}, {"metric": "cosine"}, *({"step_penalties": p} for p in PENALTIES)])
def test_copies_share_the_vote(options, gamma, kind, rng):
    x = [rng.normal(size=(n, 2)).cumsum(0).astype(kind) for n in rng.integers(20, 90, 12)]
    training, targets = [*x, *x], rng.normal(size=24)
    model = SoftDTWKNeighborsRegressor(6, weights="distance", gamma=gamma, num_threads=1, **options)
    found = model.fit(training, targets).predict(x)
    np.testing.assert_allclose(found, (targets[:12] + targets[12:]) / 2, rtol=1e-12)


def test_a_series_with_a_negative_divergence_is_no_copy():
    # -1e-4 of two noisy waves, in exact arithmetic too; the next one is as near
    rng = np.random.default_rng(1)
    wave = np.sin(np.linspace(0, 6, 20))
    for _ in range(200):
        query, *others = wave + 0.05 * rng.normal(size=(4, 20))
        values = soft_dtw_matrix(query[None], np.stack(others), gamma=1.0)[0]
        if values.min() < 0 and (values > 0).any():
            break
    model = SoftDTWKNeighborsClassifier(3, weights="distance", gamma=1.0).fit(np.stack(others), [0, 1, 2])
    shares = model.predict_proba(query[None])[0]
    size = np.maximum(values, -values.min())
    np.testing.assert_allclose(shares, (1 / size) / (1 / size).sum(), rtol=1e-6)
    assert (shares > 0).all()


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"weights": "nonsense"}, ValueError, "weights is 'nonsense': expected one of"),
        ({"weights": "distance", "normalize": False}, ValueError, "weights is 'distance' with normalize Fa"),
        ({"scaler": "nonsense"}, ValueError, "scaler is 'nonsense': expected one of"),
        ({"device": "gpu"}, ValueError, "device is 'gpu': expected"),
        ({"metric": "nonsense"}, ValueError, "metric is 'nonsense': expected one of"),
        ({"band": "nonsense"}, ValueError, "band is 'nonsense': expected one of"),
        ({"normalize": 2}, TypeError, "normalize is 2: expected True or False"),
        ({"num_threads": -1}, ValueError, "num_threads is -1"),
        ({"n_neighbors": 0}, ValueError, "n_neighbors is 0"),
        (
            {"metric": "precomputed"},
            ValueError,
            "metric is 'precomputed'(, and fit was given series)?: expected",
        ),
    ],
)
def test_what_is_set_after_fit_is_checked(changed, error, message, rng):
    x, y = rng.normal(size=(6, 8, 1)), np.arange(6) % 2
    models = [SoftDTWKNeighborsClassifier(2), SoftDTWKNeighborsRegressor(2), SoftDTWNearestNeighbors(2)]
    for model in [*models, SoftDTWKMeans(2), SoftDTWKMedoids(2)]:
        model.set_params(gamma=1.0).fit(x, y)
        if not changed.keys() <= model.get_params().keys():
            continue
        model.set_params(**changed)
        methods = [getattr(model, name, None) for name in ("predict", "kneighbors", "transform")]
        for method in methods[:1] if "weights" in changed else filter(None, methods):
            with pytest.raises(error, match=message):
                method(x)


def test_values_that_were_computed_before(rng):
    x, labels = waves(rng)
    train, test, of_train, targets = x[:16], x[16:], labels[:16], rng.normal(size=16)
    square, across = soft_dtw_matrix(train, gamma=0.2), soft_dtw_matrix(test, train, gamma=0.2)
    pairs = (
        (
            SoftDTWKNeighborsClassifier(3, weights="distance"),
            KNeighborsClassifier(3, weights="distance"),
            of_train,
        ),
        (SoftDTWKNeighborsRegressor(3), KNeighborsRegressor(3), targets),
        (SoftDTWNearestNeighbors(3), NearestNeighbors(n_neighbors=3), None),
    )
    for ours, theirs, y in pairs:
        of_series = type(ours)(**{**ours.get_params(), "gamma": 0.2}).fit(train, y)
        ours.set_params(metric="precomputed").fit(square, y)
        theirs.set_params(metric="precomputed").fit(np.maximum(square, 0), y)
        for given in (None, across):
            values, indices = ours.kneighbors(given)
            np.testing.assert_array_equal(indices, theirs.kneighbors(given)[1])
            of_those = of_series.kneighbors(None if given is None else test)
            np.testing.assert_array_equal(indices, of_those[1])
            np.testing.assert_allclose(values, of_those[0], rtol=1e-9)
        if y is not None:
            np.testing.assert_allclose(ours.predict(across), theirs.predict(across), rtol=1e-9)
            np.testing.assert_allclose(ours.predict(across), of_series.predict(test), rtol=1e-9)
    clusters = SoftDTWKMedoids(3, metric="precomputed", random_state=0).fit(square)
    expected = SoftDTWKMedoids(3, gamma=0.2, random_state=0).fit(train)
    np.testing.assert_array_equal(clusters.medoid_indices_, expected.medoid_indices_)
    np.testing.assert_array_equal(clusters.predict(across), expected.predict(test))
    np.testing.assert_array_equal(clusters.transform(across), across[:, clusters.medoid_indices_])
    assert clusters.cluster_centers_ is None
    assert len(clusters.get_feature_names_out()) == 3


@pytest.mark.parametrize("kind", [SoftDTWKNeighborsClassifier, SoftDTWKMedoids, SoftDTWNearestNeighbors])
def test_scikit_learns_checks_of_matrices(kind):
    unfit = {
        "check_estimators_nan_inf": "values are infinite where there is no path",
        "check_clustering": "it has a table where a square matrix is expected",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(kind(1, metric="precomputed"), on_fail=None, expected_failed_checks=unfit)
    assert not [result["check_name"] for result in results if result["status"] == "failed"]


def test_matrices_are_cut_by_cross_validation(rng):
    x, labels = waves(rng)
    model = SoftDTWKNeighborsClassifier(1, metric="precomputed")
    assert cross_val_score(model, soft_dtw_matrix(x), labels, cv=3).mean() > 0.9
    search = GridSearchCV(model, {"n_neighbors": [1, 3]}, cv=3).fit(soft_dtw_matrix(x), labels)
    assert search.best_score_ > 0.9


def test_matrices_that_are_none(rng):
    model = SoftDTWKNeighborsClassifier(1, metric="precomputed")
    square = rng.uniform(size=(4, 4))
    for given, message in (
        (square[:3], r"^X has shape \(3, 4\) and metric is 'precomputed': expected \(B, B\)"),
        (square[None], r"Found array with dim 3"),
        (np.where(np.eye(4), np.nan, square), r"^X\[0, 0\] is nan: expected numbers, or infinity"),
        (square + 1j, r"^Complex data not supported"),
        (np.ma.masked_greater(square, 0.5), r"^X has masked elements"),
    ):
        for kind in (model, SoftDTWKMedoids(1, metric="precomputed")):
            with pytest.raises(ValueError, match=message):
                kind.fit(given, np.arange(4))
    with pytest.raises(InvalidArgumentError, match=r"^lengths is given and metric is 'precomputed'"):
        model.fit(square, np.arange(4), lengths=[4] * 4)
    model.fit(square, np.arange(4))
    with pytest.raises(InvalidArgumentError, match=r"^X has 3 features, but .* is expecting 4 features"):
        model.predict(square[:, :3])
    with pytest.raises(InvalidArgumentError, match=r"^X\[1\] has no finite value with any training series"):
        model.predict(np.where(np.arange(4)[:, None] == 1, np.inf, square))
    with pytest.raises(InvalidArgumentError, match=r"^metric is 'sqeuclidean', and fit was given values"):
        model.set_params(metric="sqeuclidean").predict(square)
    whole = SoftDTWKNeighborsClassifier(1, metric="precomputed").fit((9 * square).astype(int), np.arange(4))
    assert whole.kneighbors()[0].dtype == np.float64


@pytest.mark.parametrize("precomputed", [False, True])
def test_graphs_and_all_within_a_radius(precomputed, rng, monkeypatch):
    x, _ = waves(rng)
    train, test = x[:16], x[16:]
    square = soft_dtw_matrix(train, gamma=0.2)
    across = soft_dtw_matrix(test, train, gamma=0.2)
    theirs = NearestNeighbors(n_neighbors=3, metric="precomputed").fit(np.maximum(square, 0))
    ours = SoftDTWNearestNeighbors(3, gamma=0.2).fit(train)
    if precomputed:
        ours = SoftDTWNearestNeighbors(3, metric="precomputed").fit(square)
    for module in (_keep, _neighbors):
        monkeypatch.setattr(module, "BLOCK_PAIRS", 50)  # three series at a time
    monkeypatch.setattr(_neighbors, "LEAST_ROWS", 1)
    for given, of_ours in ((None, None), (across, across if precomputed else test)):
        for mode in ("connectivity", "distance"):
            expected = theirs.kneighbors_graph(given, mode=mode).toarray()
            np.testing.assert_allclose(
                ours.kneighbors_graph(of_ours, mode=mode).toarray(), expected, rtol=1e-9
            )
        radius = float(np.median(across))
        expected = theirs.radius_neighbors(given, radius, sort_results=True)
        values, indices = ours.radius_neighbors(of_ours, radius)
        for found, other in ((values, expected[0]), (indices, expected[1])):
            assert [len(one) for one in found] == [len(one) for one in other]
            np.testing.assert_allclose(np.concatenate(found), np.concatenate(other), rtol=1e-9)
    with pytest.raises(ValueError, match="mode is 'nonsense': expected one of"):
        ours.kneighbors_graph(mode="nonsense")
    with pytest.raises(TypeError, match="radius is None: expected a number"):
        ours.radius_neighbors(None, None)


def test_graphs_have_no_edge_where_there_is_no_path(rng):
    x = [rng.normal(size=(n, 1)) for n in (5, 6, 20, 21)]
    model = SoftDTWNearestNeighbors(2, band="absolute", radius=3, gamma=1.0).fit(x)
    expected = np.kron(np.eye(2), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(model.kneighbors_graph().toarray(), expected)
