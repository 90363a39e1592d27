"""The progress of a long job: one live line on a terminal, plain lines elsewhere."""

import sys
import time
from typing import Any

import torch

from ..core.language import localize

try:
    import resource
except ImportError:  # not on Windows
    resource = None


def format_seconds(seconds: float) -> str:
    """`3:07` or `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_left(share: float, seconds: float) -> str:
    """`3:07 left`, when so many seconds were a `share` of the whole; nothing before anything was done."""
    return f"{format_seconds(seconds / share * (1 - share))} left" if share > 0 else ""


def peak_bytes(device: torch.device) -> int | None:
    """Peak bytes: of the GPU where there is one, else of the process; None where the system does not count them."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Progress:
    """Prints to stderr, so that stdout stays for results."""

    def __init__(self, quiet: bool = False, every: float = 10.0) -> None:
        self.live = sys.stderr.isatty()
        self.quiet = quiet
        self.every = 0.2 if self.live else every
        self.last = 0.0
        self.open = False

    def due(self) -> bool:
        return not self.quiet and time.monotonic() - self.last >= self.every

    def show(self, fields: dict[str, Any], share: float, seconds: float) -> None:
        self.last = time.monotonic()
        named = [f"{localize(name)} {value}" for name, value in fields.items()]
        line = "  ".join([*named, localize(format_left(share, seconds))])
        if self.live:
            print(f"\r\x1b[2K{line}", end="", file=sys.stderr, flush=True)
            self.open = True
        else:
            print(line, file=sys.stderr, flush=True)

    def say(self, line: str) -> None:
        """A line that stays, in the language of the reader."""
        if self.quiet:
            return
        if self.open:
            print(file=sys.stderr)
            self.open = False
        print(localize(line), file=sys.stderr, flush=True)
