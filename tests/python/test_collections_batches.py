# k-means by batches: what it finds, what a round sees, how centers move and when it ends.
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from libsdtw.collections import SoftDTWKMeans, _assignments, _batches, _blocks
from test_collections_estimators import waves


@pytest.mark.parametrize("normalize", [True, False])
def test_shapes_are_found(normalize, rng, monkeypatch):
    x, labels = waves(rng, each=100)
    assigned, made = [], _assignments.Assignments.__init__

    def counted(self, series, *rest):
        assigned.append(len(series))
        made(self, series, *rest)

    monkeypatch.setattr(_assignments.Assignments, "__init__", counted)
    options = {"batch_size": 30, "n_init": 2, "normalize": normalize, "random_state": 0, "max_iter": 200}
    model = SoftDTWKMeans(3, **options).fit(x)
    assert adjusted_rand_score(labels, model.labels_) == 1
    assert model.converged_
    assert max(assigned) <= 90  # first centers are chosen from three times as many as a round sees
    monkeypatch.undo()
    whole = SoftDTWKMeans(3, random_state=0, gamma=model.gamma_, normalize=normalize).fit(x)
    assert model.inertia_ < whole.inertia_ + 0.05 * abs(whole.inertia_)
    np.testing.assert_array_equal(model.predict(x), model.labels_)
    assert model.score(x) == pytest.approx(-model.inertia_, rel=1e-6)
    again = SoftDTWKMeans(3, num_threads=3, **options).fit(x)
    np.testing.assert_array_equal(again.cluster_centers_, model.cluster_centers_)


def test_what_has_no_weight_is_not_seen(rng):
    x, _ = waves(rng, each=20)
    weights = rng.integers(0, 3, len(x)).astype(float)
    spoilt = [s if w else s + 1e6 for s, w in zip(x, weights, strict=True)]
    options = {"batch_size": 8, "random_state": 0, "gamma": 0.1, "max_iter": 5}
    first, second = (SoftDTWKMeans(3, **options).fit(s, sample_weight=weights) for s in (x, spoilt))
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.inertia_ == second.inertia_


def test_more_than_there_are(rng):
    x, labels = waves(rng, each=3)
    model = SoftDTWKMeans(3, batch_size=1000, random_state=0).fit(x)
    assert adjusted_rand_score(labels, model.labels_) == 1


def test_centers_have_the_steps_of_the_longest_series(rng):
    x = [rng.normal(size=5) for _ in range(99)] + [rng.normal(size=9)]
    model = SoftDTWKMeans(2, batch_size=2, max_iter=2, random_state=0).fit(x)
    assert model.cluster_centers_.shape == (2, 9, 1)


def test_batches(rng):
    series = _blocks.Series(np.zeros((50, 4, 1)))
    weights = np.where(np.arange(50) % 3, 1.0, 0.0)
    state = np.random.RandomState(0)
    batches = _batches.Batches(series, weights, 20, 2, 1e-3)
    drawn = np.concatenate([batches.draw(state) for _ in range(200)])
    times = np.bincount(drawn, minlength=50)
    assert not times[weights == 0].any()
    assert times[weights > 0].min() > 60  # 121 each is expected
    assert len(np.unique(batches.first(state))) >= 2
    few = _batches.Batches(series, np.where(np.arange(50) < 2, 1.0, 0.0), 1, 2, 1e-3)
    for _ in range(20):
        assert sorted(few.first(state)) in ([0, 1],)
    # Averages that do not depend on the center make it their mean over all batches
    centers, sums = rng.normal(size=(2, 3, 1)), np.zeros((2, 3, 1))
    for _ in range(10):
        labels, found = rng.integers(2, size=20), rng.normal(size=(2, 3, 1))
        centers = batches.moved(centers, found, labels)
        sums += np.bincount(labels, minlength=2)[:, None, None] * found
    np.testing.assert_allclose(centers, sums / batches.seen[:, None, None], rtol=1e-12)
    # It ends when ten rounds have brought nothing
    assert not batches.settled
    batches.rounds = 0
    for number in range(12):
        batches.rounds += 1
        batches.watch(np.full(20, 5.0 if number else 9.0))
    assert batches.inertia < 5.1
    while not batches.settled:
        batches.rounds += 1
        batches.watch(np.full(20, 5.0))
    assert batches.rounds < 40


def test_interrupted(rng, monkeypatch):
    x, _ = waves(rng, each=20)
    calls, watch = [], _batches.Batches.watch

    def interrupted(self, nearest):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return watch(self, nearest)

    monkeypatch.setattr(_batches.Batches, "watch", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted"):
        model = SoftDTWKMeans(3, batch_size=10, random_state=0).fit(x)
    assert model.interrupted_
    assert model.transform(x).min(1).sum() == pytest.approx(model.inertia_, rel=1e-6)


@pytest.mark.parametrize(("size", "exception"), [(0, ValueError), (2.5, TypeError)])
def test_misuse(size, exception, rng):
    with pytest.raises(exception, match=f"batch_size is {size}: expected an integer"):
        SoftDTWKMeans(2, batch_size=size).fit(rng.normal(size=(5, 4)))
