"""The trainings of a claim while they run: which one it is, its step, and the time that is left of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ...training.progress import Progress, format_left

ERASE = "\r\x1b[2K"  # the line of a terminal
_CURRENT: ContextVar["ClaimProgress | None"] = ContextVar("progress", default=None)


class ClaimProgress(Progress):
    """Progress in the line that a claim's name begins, on a terminal; elsewhere in lines below it."""

    def __init__(self, head: str, say: Callable[[str, str], None]) -> None:
        super().__init__()
        self.head, self.write = head, say
        self.trainings = 0
        self.last = time.monotonic()  # a claim of a few seconds shows none

    def show(self, fields: dict[str, Any], share: float, seconds: float) -> None:
        self.last = time.monotonic()
        words = [f"{name} {fields[name]}" for name in ("step", "loss") if name in fields]
        line = "  ".join([f"training {self.trainings}", *words, format_left(share, seconds)])
        if self.live:
            self.write(f"{ERASE}{self.head}{line}", "")
        else:
            self.write("" if self.open else "\n", "")
            self.write(f"  {line}", "\n")
        self.open = True

    def say(self, line: str) -> None:
        """What a training of its own would leave on the terminal is too much among several."""

    def close(self) -> None:
        """Begin the claim's line again, where progress has ended it."""
        if self.open:
            self.write(f"{ERASE if self.live else ''}{self.head}", "")


@contextmanager
def watched(head: str, say: Callable[[str, str], None]) -> Iterator[None]:
    """Trainings inside show their progress; `say` is given a text and what ends it."""
    progress = ClaimProgress(head, say)
    token = _CURRENT.set(progress)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        progress.close()


def next_training() -> Progress:
    """The progress of the training that begins now; a silent one where no claim is watched."""
    found = _CURRENT.get()
    if found is None:
        return Progress(quiet=True)
    found.trainings += 1
    return found
