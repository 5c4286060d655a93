# A progress bar, or none: tqdm is asked for only where it is shown.
"""Bar."""

from __future__ import annotations

from typing import Any


class Bar:
    """A progress bar of tqdm, or nothing."""

    def __init__(self, shown: bool, total: int | None, what: str, done: int = 0) -> None:
        self.bar: Any = None
        if shown:
            try:
                from tqdm.auto import tqdm  # type: ignore[import-untyped]
            except ImportError:
                raise ImportError("progress is True: it is shown by tqdm, which is not installed") from None
            self.bar = tqdm(total=total, desc=what, initial=done)

    def __enter__(self) -> Bar:
        return self

    def update(self, **said: Any) -> None:
        if self.bar is not None:
            if said:
                self.bar.set_postfix(said)
            self.bar.update()

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
