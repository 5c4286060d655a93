# Estimators: scikit-learn's own checks, and against scikit-learn on the whole matrix.
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, adjusted_rand_score, r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

from libsdtw.collections import (
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWKNeighborsClassifier,
    SoftDTWKNeighborsRegressor,
    SoftDTWNearestNeighbors,
    _medoids,
    soft_dtw_matrix,
    soft_dtw_top_k,
)

STEPS = "columns of a table are time steps here, of which series may have any number"
UNFIT = {
    "check_n_features_in": STEPS,
    "check_n_features_in_after_fitting": STEPS,
    "check_transformer_general": STEPS,
    "check_classifiers_train": STEPS,
    "check_estimators_pickle": "NaN pads the end of a series, and is refused anywhere else",
    "check_sample_weight_equivalence_on_dense_data": "the first centers are drawn at random; tested below",
}
ESTIMATORS = [
    SoftDTWKMeans(2, num_threads=1, max_iter=2, max_iter_barycenter=2),
    SoftDTWKMedoids(2, num_threads=1),
    SoftDTWNearestNeighbors(1, num_threads=1),
    SoftDTWKNeighborsClassifier(1, num_threads=1),
    SoftDTWKNeighborsRegressor(1, num_threads=1),
]
KINDS = [type(estimator) for estimator in ESTIMATORS]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=[kind.__name__ for kind in KINDS])
def test_scikit_learns_checks(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, expected_failed_checks=UNFIT)
    failed = [result["check_name"] for result in results if result["status"] == "failed"]
    assert not failed
    assert sum(result["status"] == "passed" for result in results) >= 34


def waves(rng, each=8, shapes=3, steps=24):
    """Series of different lengths of a few shapes, at different speeds, and which shape each has."""
    series, labels = [], []
    for shape in range(shapes):
        for _ in range(each):
            time = np.linspace(0, 1, rng.integers(steps - 6, steps)) ** rng.uniform(0.7, 1.4)
            curve = np.stack([np.sin((2 * shape + 2) * time), np.cos((3 * shape + 1) * time)], axis=1)
            series.append(curve + 0.05 * rng.normal(size=curve.shape))
            labels.append(shape)
    order = rng.permutation(len(series))
    return [series[i] for i in order], np.array(labels)[order]


def test_kmeans_finds_shapes(rng):
    x, labels = waves(rng)
    model = SoftDTWKMeans(3, n_init=2, random_state=0, verbose=0).fit(x)
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert model.cluster_centers_.shape == (3, max(map(len, x)), 2)
    assert model.converged_
    assert not model.interrupted_
    np.testing.assert_array_equal(model.predict(x), model.labels_)
    values = model.transform(x)
    assert values.shape == (len(x), 3)
    np.testing.assert_array_equal(values.argmin(1), model.labels_)
    assert model.inertia_ == pytest.approx(values.min(1).sum(), rel=1e-6)
    assert model.score(x) == pytest.approx(-model.inertia_, rel=1e-6)
    np.testing.assert_array_equal(model.fit_predict(x), model.labels_)
    expected = soft_dtw_matrix(x, model.cluster_centers_, gamma=model.gamma_)
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", [SoftDTWKMeans, SoftDTWKMedoids])
def test_fit_transform_is_fit_and_transform(kind, rng):
    x, lengths = rng.normal(size=(8, 9, 1)), np.arange(8) % 3 + 4
    x[np.arange(9) >= lengths[:, None]] = 1e3
    model = kind(2, gamma=1.0, random_state=0)
    values = model.fit_transform(x, lengths=lengths)
    np.testing.assert_array_equal(values, model.transform(x, lengths=lengths))
    np.testing.assert_array_equal(model.fit_predict(x, lengths=lengths), values.argmin(1))


@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("k", [1, 4])
def test_neighbours_are_scikit_learns_on_the_matrix(k, weights, rng):
    x, labels = waves(rng)
    train, test, of_train = x[:16], x[16:], labels[:16]
    options = {"gamma": 0.2}
    # Rounding may put a copy below 0, which scikit-learn refuses
    square = np.maximum(soft_dtw_matrix(train, train, **options), 0)
    across = np.maximum(soft_dtw_matrix(test, train, **options), 0)
    theirs = KNeighborsClassifier(k, weights=weights, metric="precomputed").fit(square, of_train)
    ours = SoftDTWKNeighborsClassifier(k, weights=weights, **options).fit(train, of_train)
    np.testing.assert_array_equal(ours.predict(test), theirs.predict(across))
    np.testing.assert_allclose(ours.predict_proba(test), theirs.predict_proba(across), atol=1e-9)
    np.testing.assert_array_equal(ours.kneighbors(test)[1], theirs.kneighbors(across)[1])
    targets = rng.normal(size=(16, 2))
    theirs = KNeighborsRegressor(k, weights=weights, metric="precomputed").fit(square, targets)
    ours = SoftDTWKNeighborsRegressor(k, weights=weights, **options).fit(train, targets)
    np.testing.assert_allclose(ours.predict(test), theirs.predict(across), rtol=1e-9)
    assert ours.score(train, targets) == pytest.approx(theirs.score(square, targets), rel=1e-9)


@pytest.mark.parametrize("kind", [SoftDTWKNeighborsClassifier, SoftDTWKNeighborsRegressor])
def test_score_takes_lengths_and_weights(kind, rng):
    x, lengths = rng.normal(size=(12, 9, 1)).cumsum(1), np.arange(12) % 3 + 4
    ragged = [series[:n] for series, n in zip(x, lengths, strict=True)]
    targets, weights = np.arange(12) % 2, np.arange(12) / 12
    model = kind(3, gamma=1.0).fit(x, targets, lengths=lengths)
    assert model.score(x, targets, weights, lengths=lengths) == model.score(ragged, targets, weights)
    measure = accuracy_score if kind is SoftDTWKNeighborsClassifier else r2_score
    expected = measure(targets, model.predict(ragged), sample_weight=weights)
    assert model.score(x, targets, sample_weight=weights, lengths=lengths) == expected


def test_search(rng, tmp_path):
    x, _ = waves(rng)
    model = SoftDTWNearestNeighbors(3, gamma=0.2, checkpoint=tmp_path / "run").fit(x)
    values, indices = soft_dtw_top_k(x, k=3, gamma=0.2)
    np.testing.assert_array_equal(model.kneighbors()[1], indices)
    np.testing.assert_array_equal(model.kneighbors(n_neighbors=3)[0], values)
    model.set_params(checkpoint=None)
    own = model.kneighbors(x[:5], 1, return_distance=False)
    np.testing.assert_array_equal(own[:, 0], np.arange(5))


def test_medoids_are_a_local_optimum(rng):
    x, labels = waves(rng)
    model = SoftDTWKMedoids(3, random_state=0, n_init=3).fit(x)
    assert adjusted_rand_score(labels, model.labels_) == 1
    matrix = soft_dtw_matrix(x, gamma=model.gamma_)
    assert model.inertia_ == pytest.approx(matrix[:, model.medoid_indices_].min(1).sum(), rel=1e-12)
    np.testing.assert_array_equal(model.predict(x), model.labels_)
    for k, index in enumerate(model.medoid_indices_):
        np.testing.assert_array_equal(model.cluster_centers_[k], x[index])
        for other in range(len(x)):
            exchanged = model.medoid_indices_.copy()
            exchanged[k] = other
            assert matrix[:, exchanged].min(1).sum() >= model.inertia_ * (1 - 1e-9)


@pytest.mark.parametrize("clusters", [1, 2, 5])
def test_best_exchange_is_that_of_all(clusters, rng, monkeypatch):
    monkeypatch.setattr(_medoids, "_ENTRIES", 60)
    values, weights = rng.uniform(size=(20, 20)).astype(np.float32), rng.uniform(size=20)
    medoids = rng.choice(20, clusters, replace=False)
    now = weights @ values[:, medoids].min(1)
    changes = np.empty((clusters, 20))
    for m, j in np.ndindex(changes.shape):
        exchanged = medoids.copy()
        exchanged[m] = j
        changes[m, j] = weights @ values[:, exchanged].min(1) - now
    gain, m, j = _medoids.best_exchange(values, weights, medoids)
    assert gain == pytest.approx(changes.min(), rel=1e-6)
    assert changes[m, j] == pytest.approx(changes.min(), rel=1e-6)


def test_pipelines_and_grid_search(rng):
    x, labels = waves(rng)
    table = np.stack([np.interp(np.linspace(0, 1, 20), np.linspace(0, 1, len(s)), s[:, 0]) for s in x])
    smooth = FunctionTransformer(lambda t: 0.5 * (t[:, 1:] + t[:, :-1]))
    classifier = make_pipeline(smooth, SoftDTWKNeighborsClassifier(1))
    assert cross_val_score(classifier, table, labels, cv=3).mean() > 0.9
    grid = {"gamma": [0.01, "median"], "scaler": [None, "standard", "minmax"]}
    search = GridSearchCV(SoftDTWKNeighborsClassifier(1), grid, cv=3).fit(table, labels)
    assert search.best_score_ > 0.9
    clusters = make_pipeline(smooth, SoftDTWKMeans(3, random_state=0, max_iter=3))
    assert clusters.fit_predict(table).shape == (len(x),)
    copy = clone(SoftDTWKMeans(3, gamma=0.3, step_weights=(1, 2, 2)))
    assert copy.get_params()["step_weights"] == (1, 2, 2)
    fitted = SoftDTWKMeans(3, max_iter=1).fit(table).set_params(n_clusters=5)  # of the next fit
    assert list(fitted.get_feature_names_out()) == ["softdtwkmeans0", "softdtwkmeans1", "softdtwkmeans2"]
    assert not hasattr(SoftDTWKMedoids(3), "_n_features_out")  # by which scikit-learn knows what is fitted


@pytest.mark.parametrize("kind", KINDS)
def test_before_fit(kind):
    with pytest.raises(NotFittedError):
        kind().predict(np.zeros((2, 3))) if hasattr(kind, "predict") else kind().kneighbors()


X, Y = np.arange(40.0).reshape(4, 5, 2), np.arange(4)
MISUSES = [  # estimator, exception, what its message says
    (SoftDTWKMeans(0), ValueError, "n_clusters is 0: expected an integer >= 1"),
    (SoftDTWKMeans(2.0), TypeError, "n_clusters is 2.0: expected an integer"),
    (SoftDTWKMeans(5), ValueError, "n_clusters is 5, and there are fewer series"),
    (SoftDTWKMeans(2, init="kmeans++"), ValueError, r"init is 'kmeans\+\+': expected one of 'k-means\+\+'"),
    (SoftDTWKMeans(2, init=X), ValueError, r"init has shape \(4, 5, 2\): expected \(2, M, 2\)"),
    (SoftDTWKMeans(2, n_init=0), ValueError, "n_init is 0"),
    (SoftDTWKMeans(2, max_iter=0), ValueError, "max_iter is 0"),
    (SoftDTWKMeans(2, max_iter_barycenter=0), ValueError, "max_iter_barycenter is 0"),
    (SoftDTWKMeans(2, center_length=0), ValueError, "center_length is 0"),
    (SoftDTWKMeans(2, gamma=-1), ValueError, "gamma is -1: expected"),
    (SoftDTWKMeans(2, scaler="z"), ValueError, "scaler is 'z': expected one of 'standard', 'minmax'"),
    (SoftDTWKMeans(2, device="tpu"), ValueError, "device is 'tpu': expected 'cpu', 'cuda' or"),
    (SoftDTWKMeans(2, band="absolute"), TypeError, "radius is None: expected a number, with band 'absolute'"),
    (SoftDTWKMedoids(9), ValueError, "n_clusters is 9, and there are fewer series"),
    (
        SoftDTWKMedoids(2, init=[0, 0]),
        ValueError,
        r"init is \[0, 0\]: expected 2 different indices in \[0, 4\)",
    ),
    (SoftDTWKMedoids(2, init="best"), ValueError, "init is 'best'"),
    (SoftDTWKNeighborsClassifier(0), ValueError, "n_neighbors is 0"),
    (SoftDTWKNeighborsClassifier(weights="all"), ValueError, "weights is 'all': expected one of"),
    (
        SoftDTWKNeighborsRegressor(weights="distance", normalize=False),
        ValueError,
        "weights is 'distance' with normalize False",
    ),
]


@pytest.mark.parametrize(("estimator", "exception", "message"), MISUSES)
def test_misuse(estimator, exception, message):
    with pytest.raises(exception, match=message):
        estimator.fit(X, Y)


def test_misuse_of_data():
    with pytest.raises(ValueError, match=r"sample_weight has shape \(2,\): expected \(4,\)"):
        SoftDTWKMeans(2).fit(X, sample_weight=[1, 2])
    with pytest.raises(ValueError, match="sample_weight has one that is negative"):
        SoftDTWKMeans(2).fit(X, sample_weight=[1, 2, -1, 1])
    with pytest.raises(ValueError, match="y has 3 targets and X 4 series"):
        SoftDTWKNeighborsClassifier().fit(X, Y[:3])
    with pytest.raises(ValueError, match="y has NaN or inf"):
        SoftDTWKNeighborsRegressor().fit(X, [1, 2, 3, np.nan])
    with pytest.raises(ValueError, match="X has 3 features, but SoftDTWKMeans is expecting 2 features"):
        SoftDTWKMeans(2).fit(X).predict(np.zeros((2, 5, 3)))
    with pytest.raises(ValueError, match="n_neighbors is 5: Expected n_neighbors <= n_samples_fit, of which"):
        SoftDTWNearestNeighbors(5).fit(X).kneighbors(X)
