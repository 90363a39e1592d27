"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

import signal
import sys
from types import FrameType

from . import claims, inspect, race, train, use
from .common import app

__all__ = ["app", "claims", "inspect", "main", "race", "train", "use"]


def main() -> None:
    """Run the command line; an error of the user's is one line on stderr and exit code 1, Ctrl-C exit code 130."""
    stopped = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller ignores Ctrl-C
        signal.signal(signal.SIGINT, note)
    try:
        app()
    except Exception as error:
        expected = isinstance(error, ValueError | OSError)
        # Ctrl-C amid an import may surface as whatever error the half-made module gives.
        if stopped and not expected:
            sys.exit(130)
        if not expected:
            raise
        # Our own errors are ValueErrors with a message of one line; an OSError names its file.
        print(f"recollect: {error}", file=sys.stderr)
        sys.exit(130 if stopped else 1)
