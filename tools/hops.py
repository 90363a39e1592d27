"""Hops from a command to the arithmetic: the files on the call stack when a training step reaches its layer.

    python -m tools.hops train text --model lstm --steps 2 --out runs/traced

A hop is a step from one file of the package to another along the call stack; a file that comes twice was left and
entered again. Beside the stack, the number of files of the package in which any function ran.
"""

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import recollect

# the entry point, the class of all commands, and the wrapper that every call of a layer passes
SKIPPED = {"cli/__init__.py", "cli/common.py", "core/contract.py"}
HOME = str(Path(recollect.__file__).parent) + "/"


def file_of(frame: FrameType) -> str | None:
    """The file of a frame, relative to the package; None for other code."""
    name = frame.f_code.co_filename
    return name.removeprefix(HOME) if name.startswith(HOME) else None


def stack_of(frame: FrameType | None) -> list[str]:
    """Files of the package on the call stack, outermost first, neighbours that are the same counted once."""
    files: list[str] = []
    while frame is not None:
        file = file_of(frame)
        if file is not None and file not in SKIPPED and (not files or files[-1] != file):
            files.append(file)
        frame = frame.f_back
    return files[::-1]


def trace(words: list[str]) -> tuple[list[str], set[str]]:
    """The longest stack in training that ends in a layer, and all files in which a function was called."""
    longest: list[str] = []
    ran: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal longest
        if event != "call" or (file := file_of(frame)) is None or frame.f_code.co_name == "<module>":
            return
        ran.add(file)
        if file.startswith("layers/"):
            found = stack_of(frame)
            if "training/loop.py" in found and len(found) > len(longest) and "evaluate" not in _functions(frame):
                longest = found

    import torch._dynamo  # imports would cost most of the time  # noqa: F401

    from recollect.cli import main

    sys.argv = ["recollect", *words]
    sys.setprofile(note)
    threading.setprofile(note)
    try:
        main()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return longest, ran


def _functions(frame: FrameType | None) -> set[str]:
    names = set()
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


if __name__ == "__main__":
    stack, files = trace(sys.argv[1:])
    twice = sorted({file for file in stack if stack.count(file) > 1})
    print(f"{len(stack) - 1} hops: {' → '.join(stack)}")
    print(f"entered more than once: {', '.join(twice) or 'none'}; {len(files)} files ran")
