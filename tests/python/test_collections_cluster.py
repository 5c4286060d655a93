# Collections on several processes: workers of Dask, of which one is killed, and ranks of torch.distributed.
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from libsdtw.collections import (
    Histogram,
    Matrix,
    Sums,
    TopK,
    _checkpoint,
    reduce_pairs,
    soft_dtw_matrix,
    soft_dtw_top_k,
)

# Dask's own threads and sockets end when they like
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "30s", "distributed.worker.daemon": True}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.mark.parametrize("keep", [TopK(3), Sums(), Matrix(), Histogram([0, 1, 2, 5])])
@pytest.mark.parametrize("own", [False, True])
def test_dask_gives_the_same_bits(keep, own, cluster, rng, tmp_path):
    x, y = rng.normal(size=(60, 30, 1)), None if own else rng.normal(size=(50, 25, 1))
    options = {"keep": keep, "gamma": 0.5, "block": (8, 20)}
    expected = reduce_pairs(x, y, **options)
    ours = reduce_pairs(x, y, cluster=cluster, **options)
    saved = reduce_pairs(x, y, cluster=cluster, checkpoint=tmp_path / "run", **options)
    for name, array in expected.items():
        np.testing.assert_array_equal(ours[name], array)
        np.testing.assert_array_equal(saved[name], array)


def killed_midway(victim, cluster, rng, monkeypatch):
    """Whether a search is that of one process although one worker of its cluster is killed."""
    x, y = rng.normal(size=(200, 128, 1)), rng.normal(size=(200, 128, 1))
    options = {"gamma": 0.5, "block": (5, 200), "k": 2}
    expected = soft_dtw_top_k(x, y, **options)
    put = _checkpoint.Memory.put

    def kill_after_some(self, job, panel, share):
        put(self, job, panel, share)
        if len(self.done) == 5:
            os.kill(victim, signal.SIGKILL)

    monkeypatch.setattr(_checkpoint.Memory, "put", kill_after_some)
    ours = soft_dtw_top_k(x, y, cluster=cluster, **options)
    for array, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(array, other)


def test_a_killed_worker_changes_nothing(cluster, rng, monkeypatch):
    victim = next(iter(cluster.run(os.getpid).values()))
    killed_midway(victim, cluster, rng, monkeypatch)
    assert victim not in cluster.run(os.getpid).values()


@pytest.fixture(scope="module")
def started_ray():
    ray = pytest.importorskip("ray")  # too large to be installed for every run
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("keep", [TopK(3), Sums(), Matrix()])
@pytest.mark.parametrize("own", [False, True])
def test_ray_gives_the_same_bits(keep, own, started_ray, rng, tmp_path):
    x, y = rng.normal(size=(60, 30, 1)), None if own else rng.normal(size=(50, 25, 1))
    options = {"keep": keep, "gamma": 0.5, "block": (8, 20)}
    expected = reduce_pairs(x, y, **options)
    found = reduce_pairs(x, y, cluster=started_ray, checkpoint=tmp_path / "run", **options)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)


def test_a_killed_worker_of_ray_changes_nothing(started_ray, rng, monkeypatch):
    victim = started_ray.get(started_ray.remote(lambda: os.getpid()).remote())
    killed_midway(victim, started_ray, rng, monkeypatch)
    assert victim not in started_ray.get([started_ray.remote(lambda: os.getpid()).remote() for _ in range(8)])


def test_matrix_of_dask_arrays(rng):
    da = pytest.importorskip("dask.array")
    from libsdtw.collections.dask import soft_dtw_matrix as lazy

    x, y = rng.normal(size=(10, 8, 2)).astype(np.float32), rng.normal(size=(7, 9, 2)).astype(np.float32)
    ours = lazy(
        da.from_array(x, chunks=(4, 8, 1)), da.from_array(y, chunks=(5, 3, 2)), gamma=0.5, num_threads=1
    )
    assert ours.chunks == ((4, 4, 2), (5, 2))
    assert ours.dtype == np.float32
    np.testing.assert_allclose(
        ours.compute(scheduler="sync"), soft_dtw_matrix(x, y, gamma=0.5), rtol=1e-5, atol=1e-5
    )
    assert lazy(x, y, gamma=0.5, normalize=False).shape == (10, 7)
    with pytest.raises(TypeError, match=r"^gamma is 'median': expected a number"):
        lazy(x, y, gamma="median")
    for name, given in (("x", (x[..., 0], y)), ("y", (x, None)), ("y", (x, da.from_array(y[..., 0])))):
        with pytest.raises(ValueError, match=rf"^{name} has shape \(.*\): expected \(B, N, D\)"):
            lazy(*given, gamma=0.5)


RANK = """
import os
import sys
import numpy as np
import torch.distributed as dist
from libsdtw.collections import TopK, Matrix, Sums, reduce_pairs
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2)
x, y = np.load(f"{folder}/x.npy"), np.load(f"{folder}/y.npy")
jobs = [("top", TopK(3), y, f"{folder}/run"), ("all", Matrix(), y, None)]
jobs += [("own", Sums(), None, f"{folder}/own")]  # of half of the values
for name, keep, other, checkpoint in jobs:
    options = {"gamma": 0.5, "block": (8, 20), "cluster": dist.group.WORLD, "num_threads": 1}
    found = reduce_pairs(x, other, keep=keep, checkpoint=checkpoint, **options)
    np.savez(f"{folder}/{name}{rank}.npz", **found)
try:  # one rank's error is all ranks'
    group = dist.group.WORLD
    reduce_pairs(x, y, keep=TopK(2), gamma=0.5, block=(8, 20), cluster=group, checkpoint=f"{folder}/run")
except (ValueError, RuntimeError) as error:
    print(error, flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # where gloo's threads now and then end an exiting process with "terminate called"
"""


def test_two_ranks_resume(rng, tmp_path):
    pytest.importorskip("torch.distributed")
    x, y = rng.normal(size=(60, 30, 1)), rng.normal(size=(50, 25, 1))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    options = {"gamma": 0.5, "block": (8, 20)}
    top = reduce_pairs(x, y, keep=TopK(3), checkpoint=tmp_path / "run", **options)
    expected = {
        "top": {name: array.copy() for name, array in top.items()},
        "all": reduce_pairs(x, y, keep=Matrix(), **options),
        "own": reduce_pairs(x, keep=Sums(), **options),
    }
    # As if it had been cut off in its middle, with nonsense where it did not come to
    (tmp_path / "run" / "done").write_text("0\n1\n5\n")
    np.load(tmp_path / "run" / "values.npy", mmap_mode="r+")[16:40] = -1
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in processes:
        printed, said = process.communicate(timeout=240)
        assert process.returncode == 0, said
        assert "of another job: k was 3 and is 2" in printed
    for name, arrays in expected.items():
        for rank in range(2):
            ours = np.load(tmp_path / f"{name}{rank}.npz")
            for key, array in arrays.items():
                np.testing.assert_array_equal(ours[key], array)
