# A job's results on disk, so that one that was killed goes on where it stood.
"""The directory of a checkpoint.

``job.json`` says which job it is, ``NAME.npy`` are the kept arrays, memory-mapped, and each line of ``done``
is the number of a panel whose share is in them. A line is written when the share is on the disk, so that a
panel is either counted and whole, or computed again: into the same elements, with the same bits.

Where shares are merged, half a merge would be taken for what was there. So the elements that a panel changes
are in ``redo.npz``, whole, before they are written, and whoever goes on writes them once more.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import InvalidArgumentError
from ._blocks import Job
from ._keep import Arrays, Change, Panel, merges
from ._series import Series, on_host

FORMAT = 2  # 1: before halves of a set with itself were merged


class Memory:
    """What a job without a checkpoint keeps: arrays in memory."""

    def __init__(self, job: Job) -> None:
        self.arrays: Arrays = {
            name: np.empty(shape, kind) for name, (shape, kind) in job.keep.arrays(job.pairs).items()
        }
        self._begin(job)
        self.done: set[int] = set()

    def _begin(self, job: Job) -> None:
        if merges(job.keep, job.pairs):
            for name, nothing in job.keep.first.items():
                self.arrays[name][...] = nothing

    def close(self) -> None:
        pass

    def put(self, job: Job, panel: Panel, share: Any) -> None:
        self._write(job, job.keep.changes(self.arrays, panel, share, job.pairs))
        self.done.add(panel.number)

    def _write(self, job: Job, changes: list[Change]) -> None:
        for where, content in changes:
            for name, what in content.items():
                target: Any = self.arrays.get(name, getattr(job.keep, "out", None))
                target[where] = what


class Directory(Memory):
    """The same on disk. One process at a time; a lock that a killed process held is free."""

    def __init__(self, job: Job, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"checkpoint is {path!r}: expected the path of a directory")
        self.path = Path(path)
        if self.path.exists() and not self.path.is_dir():
            raise InvalidArgumentError(f"checkpoint is {str(path)!r}, which is a file: expected a directory")
        self.path.mkdir(parents=True, exist_ok=True)
        found = sorted(entry.name for entry in self.path.iterdir())
        if found and "lock" not in found:  # which each checkpoint begins with
            raise InvalidArgumentError(
                f"checkpoint is {str(path)!r}, which has {found[0]!r} in it: expected an empty directory, "
                f"a new "
                "one, or one of this job"
            )
        self._lock = self._locked()
        try:
            self._open(job)
        except BaseException:
            self._lock.close()
            raise

    def _locked(self) -> Any:
        import fcntl

        lock = open(self.path / "lock", "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise InvalidArgumentError(
                f"checkpoint is {str(self.path)!r}, which another process is writing: expected a directory "
                f"of this "
                "call's own"
            ) from None
        return lock

    def _open(self, job: Job) -> None:
        wanted, file = description(job), self.path / "job.json"
        if file.exists():
            self._require_same(self._description(file), wanted)
            self.arrays = {name: self._found(name, *of) for name, of in job.keep.arrays(job.pairs).items()}
            self.done = self._read_done(job.pairs.panels)
            left = self._left(job.pairs.panels) if merges(job.keep, job.pairs) else None
        else:
            for name in ("done", "redo.npz"):  # of a job whose description was deleted
                (self.path / name).unlink(missing_ok=True)
            self.arrays = {
                name: np.lib.format.open_memmap(self._file(name), "w+", kind, shape)
                for name, (shape, kind) in job.keep.arrays(job.pairs).items()
            }
            self._begin(job)
            self.done, left = set(), None
            _write_whole(file, json.dumps(wanted, indent=1).encode())
        self._journal = os.open(self.path / "done", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if left is not None:
            self._finish(job, *left)

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.npy"

    def _map(self, name: str, mode: Any) -> NDArray[Any]:
        array: NDArray[Any] = np.lib.format.open_memmap(self._file(name), mode)
        return array

    def _found(self, name: str, shape: tuple[int, ...], kind: Any) -> NDArray[Any]:
        """An array as it was left."""
        try:
            there = self._map(name, "r")  # "r+" would lengthen a file that was cut, by zeros
        except (FileNotFoundError, ValueError):
            there = None
        if there is None or there.shape != shape or there.dtype != kind:
            raise self._damaged(f"{name}.npy does not hold its array")
        return self._map(name, "r+")

    def _damaged(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"checkpoint is {str(self.path)!r}, whose {what}: expected the file as it was written, or "
            "another directory"
        )

    def _description(self, file: Path) -> dict[str, Any]:
        try:
            found = json.loads(file.read_text())
        except ValueError:  # it is written whole, so that this is no crash of ours
            found = None
        if not isinstance(found, dict):
            raise self._damaged("job.json describes no job")
        return found

    def _require_same(self, found: dict[str, Any], wanted: dict[str, Any]) -> None:
        for name in {**found, **wanted}:
            if found.get(name) != wanted.get(name):
                raise InvalidArgumentError(
                    f"checkpoint is {str(self.path)!r}, which is of another job: {name} was "
                    f"{found.get(name)!r} and "
                    f"is {wanted.get(name)!r}; expected the same arguments, or another directory"
                )

    def _read_done(self, panels: int) -> set[int]:
        file = self.path / "done"
        if not file.exists() and (self.path / "redo.npz").exists():  # which comes after it
            raise self._damaged("done is gone")
        content = file.read_bytes() if file.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        numbers = {b"%d" % number: number for number in range(panels)}
        lines = whole.split(b"\n")[:-1]
        strange = next((line for line in lines if line not in numbers), None)
        if strange is not None:
            raise self._damaged(f"done has a line {strange[:40]!r}, which is the number of no panel")
        if len(whole) < len(content):  # the line that a crash has cut
            os.truncate(file, len(whole))
        return {numbers[line] for line in lines}

    def put(self, job: Job, panel: Panel, share: Any) -> None:
        changes = job.keep.changes(self.arrays, panel, share, job.pairs)
        if merges(job.keep, job.pairs):
            self._save(panel, changes)
        self._finish(job, panel.number, changes)

    def _finish(self, job: Job, number: int, changes: list[Change]) -> None:
        self._write(job, changes)
        for array in (*self.arrays.values(), getattr(job.keep, "out", None)):
            if isinstance(array, np.memmap):
                array.flush()
        os.write(self._journal, f"{number}\n".encode())
        os.fsync(self._journal)
        self.done.add(number)

    def _save(self, panel: Panel, changes: list[Change]) -> None:
        """The changes in a file, before they are made."""
        kept = {"panel": np.array(panel.number)}
        for number, (where, content) in enumerate(changes):
            rows = np.arange(where.start, where.stop) if isinstance(where, slice) else where
            kept |= {f"{number} {name}": what for name, what in {"rows": rows, **content}.items()}
        buffer = io.BytesIO()
        try:
            np.savez(buffer, **kept)  # type: ignore[arg-type]  # which mypy takes for allow_pickle
        except ValueError as error:
            # An interrupt may leave an array open in the archive, which then refuses to be closed.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise error.__context__ from None
            raise
        _write_whole(self.path / "redo.npz", buffer.getbuffer())

    def _left(self, panels: int) -> tuple[int, list[Change]] | None:
        """The changes that were saved last and their panel, unless they are known to be made."""
        file = self.path / "redo.npz"
        if not file.exists():
            return None
        by_change: dict[str, dict[str, Any]] = {}
        try:
            with np.load(io.BytesIO(file.read_bytes())) as kept:  # of a path it may stay open
                number = int(kept["panel"])
                for key in set(kept.files) - {"panel"}:
                    change, _, name = key.partition(" ")
                    by_change.setdefault(change, {})[name] = kept[key]
            changes = [Change(content.pop("rows"), content) for content in by_change.values()]
            fit = number in range(panels) and all(map(self._fits, changes))
        except Exception as error:  # what an archive that is none raises is of many types
            raise self._damaged("redo.npz is no archive of a panel's changes") from error
        if not fit:
            raise self._damaged("redo.npz holds changes of other arrays")
        return None if number in self.done else (number, changes)

    def _fits(self, change: Change) -> bool:
        """Whether the change is one of all arrays."""
        there = {name: array[change.where] for name, array in self.arrays.items()}
        return change.content.keys() == there.keys() and all(
            (what.shape, what.dtype) == (there[name].shape, there[name].dtype)
            for name, what in change.content.items()
        )

    def close(self) -> None:
        os.close(self._journal)
        self._lock.close()
        # What a caller wrote into them would be taken for what was computed. Copies on writing would not do:
        # the system may refuse to map more of those than there is memory.
        self.arrays = {name: self._map(name, "r") for name in self.arrays}


def _write_whole(file: Path, content: Any) -> None:
    """All of it or nothing, whenever the process ends."""
    part = file.with_suffix(".part")
    with open(part, "wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(file)


def description(job: Job) -> dict[str, Any]:
    """What must be the same for finished panels to be this job's."""
    from libsdtw import __version__

    named = {**job.options.named(), **job.keep.named()}
    return {
        "format": FORMAT,
        "libsdtw": __version__,
        "x": _digest(job.x),
        "y": None if job.y is None else _digest(job.y),
        "rows": job.pairs.rows,
        "columns": job.pairs.columns,
        "dtype": np.dtype(job.pairs.dtype).name,
        "block": [job.block_rows, job.block_columns],
        "device": "cpu" if job.on_host else "cuda",
        # JSON has no numbers of NumPy's
        **{name: value.item() if isinstance(value, np.generic) else value for name, value in named.items()},
    }


def _digest(series: Series) -> str:
    """Of every bit of the series, read a part at a time."""
    hashed = hashlib.blake2b(digest_size=16)
    hashed.update(repr((tuple(series.data.shape), str(series.data.dtype))).encode())
    step = max(1, (64 << 20) // max(1, series.steps * series.features * 8))
    for i in range(0, len(series), step):
        hashed.update(np.ascontiguousarray(on_host(series.data[i : i + step])).data)
    hashed.update(np.ascontiguousarray(series.sizes()).data)
    return hashed.hexdigest()
