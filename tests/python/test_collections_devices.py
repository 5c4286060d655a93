# Several devices of a host: CPU devices, a thread and a share of the cores each, in the place of GPUs.
import contextlib
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libsdtw.collections import (
    Histogram,
    Matrix,
    SoftDTWKMeans,
    SoftDTWKMedoids,
    SoftDTWNearestNeighbors,
    Sums,
    TopK,
    _blocks,
    _devices,
    _objective,
    _pairs,
    _search,
    _team,
    reduce_pairs,
    soft_dtw_barycenter,
    soft_dtw_top_k,
)

KEEPERS = [TopK(3), Sums(), Histogram([0, 1, 2.5]), Matrix()]


def workers():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("libsdtw")]


def same(ours, expected):
    assert ours.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(ours[name], array)


@pytest.fixture
def computed(monkeypatch):
    """Calls of `hook` before each panel; panels as (device, number), in the order in which they began."""
    found, share = [], _blocks.Job.share

    def computing(self, panel, x=None, stopped=lambda: False):
        found.append((threading.current_thread().name, panel.number))
        computing.hook(panel)
        return share(self, panel, x, stopped)

    computing.hook = lambda panel: None
    monkeypatch.setattr(_blocks.Job, "share", computing)
    return found, computing


@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_the_same_bits_on_any_number(keep, own, normalize, rng, tmp_path):
    x = [rng.normal(size=(n, 2)).astype(np.float32) for n in rng.integers(5, 20, 40)]
    y = None if own else rng.normal(size=(30, 25, 2))
    options = {"keep": keep, "gamma": 0.5, "block": (3, 7), "normalize": normalize}
    expected = reduce_pairs(x, y, **options)
    for count in (1, 2, 5):
        same(reduce_pairs(x, y, device=["cpu"] * count, **options), expected)
        same(
            reduce_pairs(x, y, device=["cpu"] * count, checkpoint=tmp_path / str(count), **options), expected
        )
    assert not workers()


@settings(max_examples=20)
@given(st.data())
def test_in_any_order(data):
    # Panels that take as long as they like
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, y = rng.normal(size=(2, 12, 6, 1))
    keep, own = data.draw(st.sampled_from(KEEPERS)), data.draw(st.booleans())
    delays = data.draw(st.lists(st.sampled_from([0, 0.002, 0.01]), min_size=12, max_size=12))
    job = {"keep": keep, "gamma": 0.5, "block": (1, 5)}
    expected = reduce_pairs(x, None if own else y, **job)
    share = _blocks.Job.share

    def late(self, panel, *rest):
        time.sleep(delays[panel.number])
        return share(self, panel, *rest)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_blocks.Job, "share", late)
        same(reduce_pairs(x, None if own else y, device=["cpu"] * 3, **job), expected)


def test_who_is_free_takes_the_next(rng, computed):
    began, computing = computed
    slow = threading.Event()

    def hook(panel):
        if panel.number == 0:  # whoever has it is busy until all others are done
            assert slow.wait(30)
        elif panel.number == 19:
            slow.set()

    computing.hook = hook
    x = rng.normal(size=(20, 5, 1))
    reduce_pairs(x, x, keep=TopK(1), gamma=0.5, block=1, device=["cpu", "cpu"])
    by = {number: device for device, number in began}
    assert [number for _, number in began] == list(range(20))
    assert {by[number] for number in range(1, 20)} == {d for d, _ in began} - {by[0]}


def test_cores_are_shared():
    job = _blocks.Job(_search.as_series("x", np.zeros((2, 3))), None, _blocks.PairOptions(), TopK(1))
    for cores, names, expected in ((7, 3, [3, 2, 2]), (2, 3, [1, 1, 1]), (8, 1, [8])):
        job.options = _blocks.PairOptions(num_threads=cores)
        job.devices = ("cpu",) * names
        held = [device.hold(job).options.num_threads for device in _devices.opened(job.devices, job.options)]
        assert held == expected


@pytest.mark.parametrize("error", [OSError("the bus is off"), MemoryError("a block does not fit")])
def test_a_device_that_fails(error, rng, tmp_path, computed):
    began, computing = computed
    x = rng.normal(size=(40, 30, 1))
    options = {"keep": TopK(2), "gamma": 0.5, "block": 2}
    expected = reduce_pairs(x, **options)
    began.clear()

    def hook(panel):
        if panel.number == 7:
            raise error
        time.sleep(0.002 * (panel.number == 8))  # which is in hand elsewhere, and is not lost

    computing.hook = hook
    said = (
        r"device cpu \d of 3 failed on series 14 to 15 of x: the bus" if isinstance(error, OSError) else "fit"
    )
    with pytest.raises((RuntimeError, MemoryError), match=said):
        reduce_pairs(x, device=["cpu"] * 3, checkpoint=tmp_path / "run", **options)
    assert not workers()
    done = {int(line) for line in (tmp_path / "run" / "done").read_text().split()}
    tried = {number for _, number in began}
    assert done == tried - {7} >= set(range(7))
    assert len(tried) < 20
    began.clear()
    computing.hook = lambda panel: None
    same(reduce_pairs(x, device=["cpu"] * 2, checkpoint=tmp_path / "run", **options), expected)
    assert {number for _, number in began} == set(range(20)) - done


INTERRUPTED = """
import sys
import numpy as np
from libsdtw.collections import TopK, reduce_pairs
x = np.load(sys.argv[1])
print("began", flush=True)
try:
    options = {"device": ["cpu", "cpu"], "num_threads": 2, "checkpoint": sys.argv[2]}
    reduce_pairs(x, keep=TopK(2), gamma=0.5, block=20, **options)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("signal", ["SIGINT", "SIGKILL"])
def test_interrupted_and_resumed(signal, rng, tmp_path, computed):
    import signal as signals

    x, done = rng.normal(size=(1000, 40, 1)), tmp_path / "run" / "done"
    np.save(tmp_path / "x.npy", x)
    restore = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", restore + INTERRUPTED, str(tmp_path / "x.npy"), str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (done.exists() and len(done.read_text().split()) >= 3):
        assert time.monotonic() < end
        time.sleep(0.002)
    sent = time.monotonic()
    process.send_signal(getattr(signals, signal))
    printed, said = process.communicate(timeout=60)
    if signal == "SIGINT":
        assert "interrupted" in printed, said
        assert time.monotonic() - sent < 10
    before = {int(line) for line in done.read_text().split()}
    assert 3 <= len(before) < 50
    options = {"keep": TopK(2), "gamma": 0.5, "block": 20}
    resumed = reduce_pairs(x, checkpoint=tmp_path / "run", device=["cpu"] * 3, **options)
    left, again = set(range(50)) - before, {number for _, number in computed[0]}
    assert again <= left
    assert len(left - again) <= 1  # one may have been saved and not yet counted as done
    same(resumed, reduce_pairs(x, **options))


def test_estimators(rng):
    x = rng.normal(size=(30, 8, 2))
    alone, shared = (
        SoftDTWNearestNeighbors(3, device=device).fit(x).kneighbors() for device in ("cpu", ["cpu", "cpu"])
    )
    for ours, expected in zip(shared, alone, strict=True):
        np.testing.assert_array_equal(ours, expected)
    one, two = (SoftDTWKMedoids(3, random_state=0, device=device).fit(x) for device in (None, ["cpu", "cpu"]))
    np.testing.assert_array_equal(one.labels_, two.labels_)


KMEANS = {
    "divergence": {},
    "soft-DTW": {"normalize": False},
    "batches": {"batch_size": 16},
    "unequal steps": {"step_penalties": (0, 1, 0)},  # whose clusters are averaged one by one
    "starts": {"init": "random", "n_init": 2},
}


def fitted(x, device, **options):
    options = {"gamma": 0.5, "max_iter": 4, "random_state": 0, **options}
    return SoftDTWKMeans(3, device=device, **options).fit(x, sample_weight=np.arange(len(x)) % 3)


def same_clusters(found, expected):
    np.testing.assert_array_equal(found.cluster_centers_, expected.cluster_centers_)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    assert found.inertia_ == expected.inertia_


@pytest.mark.parametrize("options", KMEANS)
@pytest.mark.parametrize("part", [5, 2048])
def test_kmeans(options, part, rng, monkeypatch):
    monkeypatch.setattr(_pairs, "STATE_PAIRS", part)
    monkeypatch.setattr(_team, "CPU_CELLS", part * 11 * 11)
    x = [rng.normal(size=(n, 2)) for n in rng.integers(5, 12, 40)]
    expected = fitted(x, None, **KMEANS[options])
    for count in (1, 2, 3):
        found = fitted(x, ["cpu"] * count, **KMEANS[options])
        same_clusters(found, expected)
        np.testing.assert_array_equal(found.predict(x), expected.predict(x))


@pytest.mark.parametrize("normalize", [True, False])
def test_kmeans_of_halves(normalize, rng):
    # A center was one of halves in its own values, on other devices and for score, and was not elsewhere
    x = rng.normal(size=(20, 11, 2)).cumsum(1).astype(np.float16)
    model = fitted(x, None, normalize=normalize)
    same_clusters(fitted(x, ["cpu", "cpu"], normalize=normalize), model)
    assert -model.score(x, sample_weight=np.arange(len(x)) % 3) == pytest.approx(model.inertia_, rel=1e-7)
    of_floats = fitted(x.astype(np.float32), None, normalize=normalize)
    np.testing.assert_array_equal(model.cluster_centers_, of_floats.cluster_centers_)
    np.testing.assert_array_equal(model.transform(x), of_floats.transform(x.astype(np.float32)))


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("options", KMEANS)
@pytest.mark.parametrize("device", [None, ["cpu", "cpu"], ["cuda:0", "cuda:1"]])
def test_centers_beyond_the_range_of_halves(device, options, rng):
    # Cosines leave the length of a center open: it was infinite in float16, which series had no value with
    x = (4000 * rng.normal(size=(24, 12, 2))).astype(np.float16)
    init = 100 * x[:3].astype(np.float64)
    options = {**KMEANS[options], "metric": "cosine", "init": init, "max_iter": 2}
    model, of_floats = (fitted(some, device, **options) for some in (x, x.astype(np.float32)))
    np.testing.assert_allclose(model.inertia_, of_floats.inertia_, rtol=1e-6)
    np.testing.assert_array_equal(model.predict(x), of_floats.predict(x))


@pytest.mark.parametrize("metric", ["sqeuclidean", "cityblock"])
def test_barycenter(metric, rng, monkeypatch):
    monkeypatch.setattr(_pairs, "STATE_PAIRS", 5)
    x = [rng.normal(size=(n, 2)) for n in rng.integers(5, 12, 23)]
    one, two, three = (
        soft_dtw_barycenter(x, metric=metric, max_iter=4, device=device)
        for device in (None, ["cpu", "cpu"], ["cpu"] * 3)
    )
    np.testing.assert_array_equal(two, one)
    np.testing.assert_array_equal(three, one)
    with pytest.raises(ValueError, match="device is 'gpu': expected 'cpu', 'cuda' or"):
        soft_dtw_barycenter(x, device="gpu")


def test_kmeans_computes_on_all_devices(rng, monkeypatch):
    monkeypatch.setattr(_pairs, "STATE_PAIRS", 5)
    threads = set()
    evaluate = _objective._Prepared.evaluate

    def noted(self):
        threads.add(threading.current_thread())
        return evaluate(self)

    monkeypatch.setattr(_objective._Prepared, "evaluate", noted)
    fitted(rng.normal(size=(40, 8)), ["cpu", "cpu"])
    assert len(threads) == 2
    assert not workers()


def test_kmeans_says_what_failed_on_a_device(rng, monkeypatch):
    monkeypatch.setattr(_objective._Prepared, "evaluate", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted(rng.normal(size=(40, 8)), ["cpu", "cpu"])


@pytest.fixture
def gpus(monkeypatch):
    """PyTorch's calls for two GPUs, answered by the CPU: that they are right on a GPU this does not show."""
    torch = pytest.importorskip("torch")

    class Stream:
        def __init__(self, device):
            pass

        record_event = synchronize = lambda self: self

    class OnCpu(_devices._Gpu):
        def __init__(self, name):
            super().__init__(name)
            self.device = torch.device("cpu")

    empty = torch.empty
    monkeypatch.setattr(_devices, "_Gpu", OnCpu)
    monkeypatch.setattr(torch, "empty", lambda *size, pin_memory=False, **kind: empty(*size, **kind))
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: self.clone())
    for name, answer in {
        "Stream": Stream, "device_count": lambda: 2, "device": contextlib.nullcontext,
        "stream": contextlib.nullcontext, "synchronize": lambda device: None,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, answer)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("keep", KEEPERS)
@pytest.mark.parametrize("own", [False, True])
def test_what_gpus_are_asked(keep, own, rng):
    x = [rng.normal(size=(n, 2)).astype(np.float32) for n in rng.integers(5, 20, 40)]
    y = None if own else rng.normal(size=(30, 25, 2))
    options = {"keep": keep, "gamma": 0.5, "block": (3, 7)}
    same(reduce_pairs(x, y, device=["cuda:0", "cuda:1"], **options), reduce_pairs(x, y, **options))
    with pytest.raises(ValueError, match="device has 'cuda:2' in it, and PyTorch sees 2 GPUs"):
        reduce_pairs(x, y, device=["cuda:0", "cuda:2"], **options)


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("options", KMEANS)
def test_kmeans_of_gpus(options, rng, monkeypatch):
    of_torch = pytest.importorskip("libsdtw.collections._objective_torch")
    monkeypatch.setattr(of_torch, "CELLS", 5 * 11 * 11)
    monkeypatch.setattr(_team, "GPU_CELLS", 5 * 11 * 11)
    x = [rng.normal(size=(n, 2)).astype(np.float32) for n in rng.integers(5, 12, 40)]
    one, two = (fitted(x, device, **KMEANS[options]) for device in (["cuda:0"], ["cuda:0", "cuda:1"]))
    same_clusters(two, one)
    np.testing.assert_allclose(one.inertia_, fitted(x, None, **KMEANS[options]).inertia_, rtol=1e-3)


@pytest.mark.parametrize(
    ("device", "exception", "said"),
    [
        ("gpu", ValueError, r"device is 'gpu': expected 'cpu', 'cuda' or 'cuda:N'"),
        (["cpu", "gpu"], ValueError, r"in which 'gpu' is no device"),
        (["cpu", "cuda:0"], ValueError, r"expected CPUs or GPUs"),
        ([], TypeError, r"device is \[\]"),
        (3, TypeError, r"device is 3"),
    ],
)
def test_misuse(device, exception, said):
    with pytest.raises(exception, match=said):
        soft_dtw_top_k(np.zeros((3, 4)), device=device)


def test_not_with_a_cluster():
    torch = pytest.importorskip("torch.distributed")
    with pytest.raises(ValueError, match="expected one device in each process"):
        soft_dtw_top_k(np.zeros((3, 4)), device=["cpu", "cpu"], cluster=torch.ProcessGroup(0, 1))
