# What k-means promises: its rounds, first centers, empty clusters, weights and Ctrl-C.
import pickle
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from libsdtw.collections import SoftDTWKMeans, SoftDTWKMedoids, _assignments, _majorize, _objective
from libsdtw.collections._seeding import given_centers
from test_collections_estimators import waves


@pytest.mark.parametrize("tol", [-1, 1e-3])
@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock"])
def test_max_iter_counts_updates_of_the_centers(metric, tol, rng, monkeypatch):
    x, _ = waves(rng)
    updates, averages = [], SoftDTWKMeans._averages
    monkeypatch.setattr(SoftDTWKMeans, "_averages", lambda *args: updates.append(0) or averages(*args))
    begin, last = given_centers(x[:3], 3, 2, None), np.inf
    for rounds in (1, 2, 40):
        updates.clear()
        model = SoftDTWKMeans(3, init=begin, metric=metric, gamma=0.1, tol=tol, max_iter=rounds).fit(x)
        assert model.n_iter_ == len(updates)
        assert model.converged_ == (tol > 0 and rounds == 40)
        assert model.converged_ or len(updates) == rounds
        assert (model.cluster_centers_ != begin).any()
        values = model.transform(x)
        np.testing.assert_array_equal(model.labels_, values.argmin(1))
        assert model.inertia_ == pytest.approx(values.min(1).sum(), rel=1e-6)
        assert model.inertia_ <= last
        last = model.inertia_


def test_max_iter_of_medoids_counts_exchanges(rng):
    x = rng.normal(size=(20, 12, 1)).cumsum(1)
    one, whole = (SoftDTWKMedoids(3, gamma=1.0, init=[0, 1, 2], max_iter=n).fit(x) for n in (1, 100))
    assert len(np.setdiff1d(one.medoid_indices_, [0, 1, 2])) == one.n_iter_ == 1
    assert 2 < whole.n_iter_ < 100
    last = SoftDTWKMedoids(3, gamma=1.0, init=whole.medoid_indices_, max_iter=100).fit(x)
    assert last.n_iter_ == 1


def test_kmeans_is_the_same_in_every_run(rng):
    x, _ = waves(rng)
    first, second = (SoftDTWKMeans(3, random_state=5, num_threads=n, max_iter=4).fit(x) for n in (1, 3))
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)
    assert first.inertia_ == second.inertia_


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_each_round_lowers_the_inertia(init, normalize, rng, capsys):
    x, _ = waves(rng)
    options = {"init": init, "normalize": normalize, "random_state": 1, "tol": 0, "max_iter": 8}
    model = SoftDTWKMeans(4, verbose=2, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x)
    rounds = [float(line.split()[-1]) for line in capsys.readouterr().out.splitlines() if "round " in line]
    assert len(rounds) > 1
    falling = rounds[:-1]  # the last one may rise, which stops it
    assert (np.diff(falling) <= 1e-6 * np.abs(falling[:-1])).all()
    assert min(rounds) == pytest.approx(model.inertia_, rel=1e-5)


def test_clusters_that_gain_nothing_rest(rng, monkeypatch):
    x, _ = waves(rng, each=20)
    columns, values = [], _assignments.Assignments.to_centers

    def counted(self, centers):
        columns.append(len(centers))
        return values(self, centers)

    monkeypatch.setattr(_assignments.Assignments, "to_centers", counted)
    options = {"init": np.stack([s[:18] for s in x[:4]]), "gamma": 0.1, "max_iter": 30}
    model = SoftDTWKMeans(4, tol=1e-4, **options).fit(x)
    assert model.converged_
    assert sum(columns) < 4 * len(columns)
    monkeypatch.undo()
    assert model.transform(x).min(1).sum() == pytest.approx(model.inertia_, rel=1e-9)
    # With tol 0 all go on: what rests has given up less than tol
    whole = SoftDTWKMeans(4, tol=0, **options).fit(x)
    assert model.inertia_ <= whole.inertia_ * (1 + 30 * 1e-4)


def test_weights_are_repetitions(rng):
    x, _ = waves(rng, each=4)
    weights = rng.integers(0, 4, len(x))
    init = np.stack([s[:18] for s in x[:3]])
    weighted = SoftDTWKMeans(3, init=init, gamma=0.1, max_iter=4).fit(x, sample_weight=weights)
    repeated = SoftDTWKMeans(3, init=init, gamma=0.1, max_iter=4).fit(
        [s for s, times in zip(x, weights, strict=True) for _ in range(times)]
    )
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-6)
    np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_, atol=1e-4)


@pytest.mark.parametrize("length", [None, 4, 20])
@pytest.mark.parametrize("padded", [False, True])
def test_centers_that_are_given_are_stretched(padded, length, rng):
    x, _ = waves(rng, each=4)
    init = x[:3]
    if padded:
        init = np.full((3, 30, 2), np.nan)
        for row, series in zip(init, x[:3], strict=True):
            row[: len(series)] = series
    steps, begins = length or max(map(len, x[:3])), given_centers(init, 3, 2, length)
    for center, series in zip(begins, x[:3], strict=True):
        at = np.linspace(0, len(series) - 1, steps)
        expected = [np.interp(at, np.arange(len(series)), column) for column in series.T]
        np.testing.assert_allclose(center.T, expected, rtol=1e-12)
    options = {"center_length": length, "gamma": 0.1, "max_iter": 1}
    ours, same = (SoftDTWKMeans(3, init=given, **options).fit(x) for given in (init, begins))
    np.testing.assert_array_equal(ours.cluster_centers_, same.cluster_centers_)


@pytest.mark.parametrize("device", [None, ["cpu", "cpu"]])
def test_a_fit_that_failed_can_be_pickled(device):
    x = [np.zeros(5), np.ones(9)]
    model = SoftDTWKMeans(2, init=x, band="absolute", radius=1, gamma=1.0, device=device)
    with pytest.raises(ValueError, match="has no path to any center"):
        model.fit(x)
    assert pickle.loads(pickle.dumps(model)).radius == 1


def test_empty_clusters_get_a_series(rng):
    x, _ = waves(rng, each=4)
    far = np.full((18, 2), 50.0)
    init = np.stack([x[0][:18], x[1][:18], far, far])  # nothing is near the last two
    model = SoftDTWKMeans(4, init=init, max_iter=10).fit(x)
    assert len(np.unique(model.labels_)) == 4
    assert np.abs(model.cluster_centers_).max() < 5


def test_more_clusters_than_different_series():
    x = np.repeat(np.eye(2, 6), 3, axis=0)
    with pytest.warns(
        ConvergenceWarning, match=r"distinct clusters \(2\) found smaller than n_clusters \(3\)"
    ):
        model = SoftDTWKMeans(3, random_state=0).fit(x)
    assert model.inertia_ == pytest.approx(0, abs=1e-9)


def test_interrupt_keeps_the_best_so_far(rng, monkeypatch):
    x, _ = waves(rng)
    rounds, runs, evaluate = [], _majorize.Majorants._run, _objective.Objective.__call__

    def run(*args):
        rounds.append(0)
        return runs(*args)

    def interrupted(*args):
        rounds[-1] += 1
        if len(rounds) == 2 and rounds[-1] == 2:
            raise KeyboardInterrupt
        return evaluate(*args)

    monkeypatch.setattr(_majorize.Majorants, "_run", run)
    monkeypatch.setattr(_objective.Objective, "__call__", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted: these are the best clusters so far"):
        model = SoftDTWKMeans(3, random_state=0, max_iter=20, tol=0).fit(x)
    assert model.interrupted_
    assert model.n_iter_ == 1
    assert model.transform(x).min(1).sum() == pytest.approx(model.inertia_, rel=1e-6)


def test_ctrl_c():
    program = """
import signal
import numpy as np
from libsdtw.collections import SoftDTWKMeans
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have programs behind & ignore it
x = np.random.default_rng(0).normal(size=(60, 80)).cumsum(1)
model = SoftDTWKMeans(5, random_state=0, verbose=2, tol=-1, max_iter=100000).fit(x)
print("interrupted", model.interrupted_, model.n_iter_, np.isfinite(model.cluster_centers_).all())
"""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if "round 2" in line:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "interrupted True" in out
    assert out.rstrip().endswith("True")
    assert "best clusters so far" in err
