# Checkpoints: a process that is killed, and who goes on from what it left.
import io
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from libsdtw import InvalidArgumentError
from libsdtw.collections import (
    Histogram,
    Matrix,
    SoftDTWKMedoids,
    Sums,
    TopK,
    _blocks,
    _checkpoint,
    _medoids,
    reduce_pairs,
    soft_dtw_matrix,
    soft_dtw_top_k,
)

PROGRAM = """
import sys
import numpy as np
from libsdtw.collections import Histogram, Matrix, Sums, TopK, reduce_pairs
x = np.load(sys.argv[1])
y = np.load(sys.argv[2]) if sys.argv[2] else None
reduce_pairs(x, y, keep=eval(sys.argv[4]), gamma=0.5, block=(8, 50), checkpoint=sys.argv[3], num_threads=1)
"""


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.fixture
def counted(monkeypatch):
    """The panels that were computed."""
    panels, share = [], _blocks.Job.share

    def counting(self, panel, x=None):
        panels.append(panel.number)
        return share(self, panel, x)

    monkeypatch.setattr(_blocks.Job, "share", counting)
    return panels


KEEPERS = [
    (TopK(3), False),
    (Matrix(), True),
    (Matrix(), False),
    (Sums(), False),
    (Histogram([0, 1, 2.5]), False),
    (TopK(3, skip_self=True), True),  # of half of the values: shares are merged
    (Sums(), True),
]


@pytest.mark.parametrize(("keep", "own"), KEEPERS)
def test_killed_and_resumed(keep, own, rng, tmp_path, counted):
    x, y = rng.normal(size=(200, 100, 1)), rng.normal(size=(150, 90, 1))
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    folder = tmp_path / "run"
    arguments = [str(tmp_path / "x.npy"), "" if own else str(tmp_path / "y.npy"), str(folder), repr(keep)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments])
    try:
        wait_for(lambda: lines(folder / "done") >= 3 or process.poll() is not None)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    finished = lines(folder / "done")
    assert 3 <= finished < 25
    options = {"keep": keep, "gamma": 0.5, "block": (8, 50)}
    resumed = reduce_pairs(x, None if own else y, checkpoint=folder, **options)
    assert len(counted) == 25 - finished  # nothing twice
    unbroken = reduce_pairs(x, None if own else y, **options)
    for name, array in unbroken.items():
        np.testing.assert_array_equal(resumed[name], array)
    # A third call has nothing left to do
    counted.clear()
    again = reduce_pairs(x, None if own else y, checkpoint=folder, **options)
    assert not counted
    for name, array in unbroken.items():
        np.testing.assert_array_equal(again[name], array)


WITH_ZARR = """
import sys
import numpy as np
import zarr
from libsdtw.collections import soft_dtw_matrix
x, out = np.load(sys.argv[1]), zarr.open_array(sys.argv[2], mode="r+")
soft_dtw_matrix(x, gamma=0.5, out=out, block=20, checkpoint=sys.argv[3], num_threads=1)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_killed_and_resumed_into_zarr(rng, tmp_path, counted):
    zarr = pytest.importorskip("zarr")
    x, folder = rng.normal(size=(300, 80, 1)), tmp_path / "run"
    np.save(tmp_path / "x.npy", x)
    out = zarr.create_array(str(tmp_path / "out.zarr"), shape=(300, 300), chunks=(20, 20), dtype=np.float64)
    arguments = [str(tmp_path / "x.npy"), str(tmp_path / "out.zarr"), str(folder)]
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", WITH_ZARR, *arguments])
    try:
        wait_for(lambda: lines(folder / "done") >= 2 or process.poll() is not None)
    finally:
        process.kill()
        process.wait()
    finished = lines(folder / "done")
    assert 2 <= finished < 15
    soft_dtw_matrix(x, gamma=0.5, out=out, block=20, checkpoint=folder)
    assert len(counted) == 15 - finished
    np.testing.assert_array_equal(out[:], soft_dtw_matrix(x, gamma=0.5, block=20))


def test_a_line_that_was_cut_is_computed_again(rng, tmp_path, counted):
    x = rng.normal(size=(48, 10, 1))
    options = {"y": x[:40], "keep": TopK(1), "gamma": 0.5, "block": 4}
    expected = reduce_pairs(x, checkpoint=tmp_path / "run", **options)["values"].copy()
    done = tmp_path / "run" / "done"
    done.write_bytes(done.read_bytes()[:-1])  # "11\n" is cut to "11"
    values = np.load(tmp_path / "run" / "values.npy", mmap_mode="r+")
    values[-4:] = np.nan
    values.flush()
    counted.clear()
    np.testing.assert_array_equal(reduce_pairs(x, checkpoint=tmp_path / "run", **options)["values"], expected)
    assert counted == [11]
    assert done.read_text().split()[-1] == "11"


class CutError(Exception):
    pass


@pytest.mark.parametrize("keep", [TopK(2, skip_self=True), Sums()])
@pytest.mark.parametrize("where", ["before redo", "in the arrays", "before done", "in done"])
def test_a_merge_that_was_cut_is_made_once(keep, where, rng, tmp_path, counted, monkeypatch):
    # As if the process had been killed at each point of one panel's writing
    x, folder = rng.normal(size=(30, 10, 1)), tmp_path / "run"
    options = {"keep": keep, "gamma": 0.5, "block": (4, 7)}
    expected = reduce_pairs(x, **options)
    writes, write, save = [], _checkpoint.Directory._write, _checkpoint.Directory._save

    def writing(self, job, changes):
        writes.append(1)
        if len(writes) < 4:
            return write(self, job, changes)
        if where == "in the arrays":  # some rows, of some arrays
            rows, content = changes[0]
            name = next(iter(content))
            self.arrays[name][rows] = content[name]
        elif where != "before redo":
            write(self, job, changes)
            if where == "in done":
                os.write(self._journal, b"3")
        raise CutError

    def saving(self, panel, changes):
        if where == "before redo" and len(writes) == 3:
            raise CutError
        save(self, panel, changes)

    with monkeypatch.context() as patched:
        patched.setattr(_checkpoint.Directory, "_write", writing)
        patched.setattr(_checkpoint.Directory, "_save", saving)
        with pytest.raises(CutError):
            reduce_pairs(x, checkpoint=folder, **options)
    counted.clear()
    resumed = reduce_pairs(x, checkpoint=folder, **options)
    assert counted == list(range(3 if where == "before redo" else 4, 8))
    for name, array in expected.items():
        np.testing.assert_array_equal(resumed[name], array)


def test_killed_before_the_first_panel(rng, tmp_path):
    x = rng.normal(size=(8, 10, 1))
    options = {"keep": TopK(1), "gamma": 0.5}
    expected = reduce_pairs(x, checkpoint=tmp_path / "run", **options)["values"].copy()
    # As if it had been killed before the description was whole
    (tmp_path / "run" / "job.json").rename(tmp_path / "run" / "job.part")
    (tmp_path / "run" / "done").unlink()
    np.testing.assert_array_equal(reduce_pairs(x, checkpoint=tmp_path / "run", **options)["values"], expected)


@pytest.mark.parametrize("keep", [Sums(), TopK(2)])
def test_without_its_description_a_job_begins_anew(keep, rng, tmp_path):
    x, folder = rng.normal(size=(20, 10, 1)), tmp_path / "run"
    reduce_pairs(x, keep=keep, gamma=0.5, block=5, checkpoint=folder)
    (folder / "job.json").unlink()
    expected = reduce_pairs(x, keep=keep, gamma=2.0, block=5)
    found = reduce_pairs(x, keep=keep, gamma=2.0, block=5, checkpoint=folder)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array)
    assert lines(folder / "done") == 4


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"gamma": 0.6}, "gamma was 0.5 and is 0.6"),
        ({"keep": TopK(2)}, "k was 1 and is 2"),
        ({"block": 3}, r"block was \[4, 8\] and is \[3, 8\]"),
        ({"band": "absolute", "radius": 3}, "band was None and is 'absolute'"),
        ({"x": np.ones((8, 10, 1))}, "x was '"),
    ],
)
def test_of_another_job(changed, said, tmp_path):
    options = {"x": np.zeros((8, 10, 1)), "keep": TopK(1), "gamma": 0.5, "block": (4, 8)}
    reduce_pairs(checkpoint=tmp_path / "run", **options)
    if "block" in changed:
        changed = {"block": (3, 8)}
    with pytest.raises(ValueError, match=f"is of another job: {said}"):
        reduce_pairs(checkpoint=tmp_path / "run", **{**options, **changed})


def test_numbers_of_numpy_are_the_same_job(rng, tmp_path, counted):
    x, same = rng.normal(size=(8, 10, 1)), {"gamma": 0.5, "band": "absolute", "checkpoint": tmp_path / "run"}
    keep = TopK(np.int64(2), np.True_)
    found = reduce_pairs(x, keep=keep, radius=np.float32(2), normalize=np.True_, **same)
    assert counted == [0]
    again = reduce_pairs(x, keep=TopK(2, True), radius=2, **same)
    assert counted == [0]
    np.testing.assert_array_equal(found["indices"], again["indices"])


def test_directories_that_are_not_ours(tmp_path):
    options = {"x": np.zeros((8, 10, 1)), "keep": Matrix(), "gamma": 0.5}
    with pytest.raises(TypeError, match=r"^checkpoint is 3: expected the path of a directory$"):
        reduce_pairs(checkpoint=3, **options)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="which is a file: expected a directory"):
        reduce_pairs(checkpoint=tmp_path / "file", **options)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "matrix.npy").write_text("precious")
    with pytest.raises(ValueError, match=r"has 'matrix.npy' in it: expected an empty directory"):
        reduce_pairs(checkpoint=tmp_path / "mine", **options)
    assert (tmp_path / "mine" / "matrix.npy").read_text() == "precious"


@pytest.mark.parametrize("text", ['{"format": 2, "lib', "", "[]", "\xff"])
def test_a_description_that_is_none(text, tmp_path):
    options = {"x": np.zeros((8, 10, 1)), "keep": TopK(1), "gamma": 0.5, "checkpoint": tmp_path / "run"}
    reduce_pairs(**options)
    (tmp_path / "run" / "job.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError, match=r"checkpoint is .*run', whose job.json describes no job: expected"):
        reduce_pairs(**options)


@pytest.mark.parametrize("left", [None, 0, 100, -8])
def test_an_array_that_was_cut(left, tmp_path):
    options = {"x": np.zeros((8, 10, 1)), "keep": TopK(1), "gamma": 0.5, "checkpoint": tmp_path / "run"}
    reduce_pairs(**options)
    file = tmp_path / "run" / "values.npy"
    whole = file.read_bytes()
    file.unlink()
    if left is not None:
        file.write_bytes(whole[:left])
    with pytest.raises(ValueError, match=r"checkpoint is .*run', whose values.npy does not hold its array"):
        reduce_pairs(**options)
    file.write_bytes(whole)
    reduce_pairs(**options)


@pytest.mark.parametrize(
    "text", [b"one\n0\n", b"1.5\n", b"-1\n", b"4\n", b"0 1\n", b"\xff\n", b"0\n\n", None]
)
def test_numbers_of_panels_that_are_none(text, rng, tmp_path):
    options = {"keep": Sums(), "gamma": 0.5, "block": 5, "checkpoint": tmp_path / "run"}
    x = rng.normal(size=(20, 10, 1))
    reduce_pairs(x, **options)
    done = tmp_path / "run" / "done"
    if text is None:
        done.unlink()
    else:
        done.write_bytes(text)
    said = "is gone" if text is None else r"has a line b'.*', which is the number of no panel"
    with pytest.raises(InvalidArgumentError, match=rf"checkpoint is .*run', whose done {said}"):
        reduce_pairs(x, **options)
    assert text is None or done.read_bytes() == text


def _archive(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (b"", "is no archive"),
        (b"hello", "is no archive"),
        (lambda whole: whole[:-40], "is no archive"),
        (lambda whole: whole.replace(b"NUMPY", b"PLAIN", 1), "is no archive"),
        (_archive(rows=[1]), "is no archive"),
        (_archive(**{"panel": 9, "0 rows": [1], "0 sum": [1.0]}), "holds changes of other arrays"),
        (_archive(**{"panel": 3, "0 rows": [1], "0 values": [1.0]}), "holds changes of other arrays"),
        (_archive(**{"panel": 3, "0 rows": [1], "0 sum": [1]}), "holds changes of other arrays"),
    ],
)
def test_changes_that_are_none(left, said, rng, tmp_path):
    options = {"keep": Sums(), "gamma": 0.5, "block": 5, "checkpoint": tmp_path / "run"}
    x = rng.normal(size=(20, 10, 1))
    expected = reduce_pairs(x, **options)["sum"].copy()
    file, done = tmp_path / "run" / "redo.npz", tmp_path / "run" / "done"
    whole = file.read_bytes()
    file.write_bytes(left(whole) if callable(left) else left)
    done.write_bytes(b"0\n1\n2\n")  # as if it had been killed before the last line
    open_files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(InvalidArgumentError, match=rf"checkpoint is .*run', whose redo.npz {said}"):
        reduce_pairs(x, **options)
    assert len(os.listdir("/proc/self/fd")) <= open_files
    file.write_bytes(whole)
    np.testing.assert_array_equal(reduce_pairs(x, **options)["sum"], expected)


def test_results_cannot_be_written_into_the_checkpoint(rng, tmp_path):
    options = {"x": rng.normal(size=(8, 10, 1)), "k": 2, "gamma": 0.5, "checkpoint": tmp_path / "run"}
    for _ in range(2):  # of a job that was computed, and of one that was finished
        values, _ = soft_dtw_top_k(**options)
        with pytest.raises(ValueError, match="read-only"):
            np.sqrt(values, out=values)


def test_one_process_at_a_time(tmp_path):
    import fcntl

    options = {"x": np.zeros((8, 10, 1)), "keep": TopK(1), "gamma": 0.5, "checkpoint": tmp_path / "run"}
    reduce_pairs(**options)
    descriptor = os.open(tmp_path / "run" / "lock", os.O_WRONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        with pytest.raises(ValueError, match="which another process is writing"):
            reduce_pairs(**options)
    finally:
        os.close(descriptor)
    reduce_pairs(**options)


def test_interrupt_while_a_share_is_saved(rng, tmp_path, monkeypatch):
    x, folder = rng.normal(size=(40, 20, 1)), tmp_path / "run"
    options = {"keep": TopK(3, skip_self=True), "gamma": 0.5, "block": 10, "num_threads": 1}
    opened = zipfile.ZipFile.open

    def interrupted(archive, *arguments, **keywords):
        opened(archive, *arguments, **keywords)  # and left open
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reduce_pairs(x, checkpoint=folder, **options)
    for found, expected in zip(
        reduce_pairs(x, checkpoint=folder, **options), reduce_pairs(x, **options), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_interrupt_between_starts_keeps_medoids(rng, monkeypatch):
    x, starts, plus_plus = rng.normal(size=(20, 5)), [], _medoids.plus_plus

    def interrupted(*arguments):
        starts.append(1)
        if len(starts) == 3:
            raise KeyboardInterrupt
        return plus_plus(*arguments)

    monkeypatch.setattr(_medoids, "plus_plus", interrupted)
    with pytest.warns(ConvergenceWarning, match="was interrupted: these are the best medoids so far"):
        found = SoftDTWKMedoids(3, n_init=5, random_state=0).fit(x)
    assert found.interrupted_
    monkeypatch.undo()
    expected = SoftDTWKMedoids(3, n_init=2, random_state=0).fit(x)
    np.testing.assert_array_equal(found.medoid_indices_, expected.medoid_indices_)
