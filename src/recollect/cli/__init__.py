"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

import codecs
import contextlib
import io
import os
import signal
import sys
from types import FrameType

from .. import tasks
from ..core.limits import describe_shortage, is_out_of_memory, one_line
from ..core.outside import describe_outside
from . import claims, doctor, export, inspect, learn, plan, race, serve, studio, train, use
from .common import app

__all__ = [
    "app", "claims", "doctor", "export", "inspect", "learn", "main", "plan", "race", "serve", "studio", "train", "use",
]  # fmt: skip

LOWER = "--length, --beam, the batch (--set batch=N), the width or the amount of text"


def main() -> None:
    """Run the command line; an error of the user's is one line on stderr and exit code 1, Ctrl-C exit code 130."""
    stopped = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True
        raise KeyboardInterrupt

    prepare_streams()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where the caller ignores Ctrl-C
        signal.signal(signal.SIGINT, note)
    message = None
    try:
        try:
            app()
        finally:
            flush_stdout()
    except (Exception, SystemExit) as error:
        message = _message(error)
        # Ctrl-C amid an import may surface as whatever error the half-made module gives.
        if message is None and (isinstance(error, SystemExit) or not stopped):
            raise
        if message is not None:
            _print_line(f"recollect: {message}")
        sys.exit(130 if stopped else 1)
    finally:
        for problem in _notes():
            if problem != message:
                _print_line(f"note: {problem}")


def prepare_streams() -> None:
    """Standard streams that the caller closed lead nowhere, and what a terminal cannot show is written as escapes."""
    for number, name, mode in ((0, None, os.O_RDONLY), (1, "stdout", os.O_WRONLY), (2, "stderr", os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:  # else the next file that is opened would take its place
            os.open(os.devnull, mode)
        if name and getattr(sys, name) is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(os.open(os.devnull, mode), "w"), encoding="utf-8"))
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and codecs.lookup(out.encoding).name != "utf-8":
        out.reconfigure(errors="backslashreplace")


def flush_stdout() -> None:
    """Write what is left. Where it cannot be written, the stream is led nowhere, else Python would try again."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "stdout") from None
        sys.exit(1)  # nobody reads on: no reason for words


def _message(error: BaseException) -> str | None:
    """The line for an error of the user's or of the machine's; None for one of the program's own, and for an exit."""
    if is_out_of_memory(error):
        return describe_shortage(error, LOWER)
    if (message := describe_outside(error)) is not None:
        return message
    # Our own errors are ValueErrors with a message of one line; an OSError names its file.
    return str(error) if isinstance(error, ValueError | OSError) else None


def _notes() -> list[str]:
    """What RECOLLECT_LAYERS and RECOLLECT_TASKS name and the command could not use."""
    found = dict(tasks.BROKEN)
    if layers := sys.modules.get("recollect.layers.outside"):  # None where the command needed no layers
        found |= layers.BROKEN
    return [str(error) for error in found.values()]


def _print_line(message: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # stderr may be closed
        print(one_line(message), file=sys.stderr)
