"""Code from outside the package: files that the user names, run as modules; errors in them are told with their line.

Nothing here imports torch, so that the command line can use it before anything is run.
"""

import contextlib
import os
import sys
import traceback
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from types import ModuleType

from .errors import RecollectError

_roots: list[str] = []  # the files and folders that were loaded from outside


class OutsideError(RecollectError):
    """Code from outside that cannot be used; the message is one line with its file and line."""


def load_module(name: str, path: Path, variable: str) -> ModuleType:
    """Run a file, or a folder as a package, that the environment variable `variable` names, as the module `name`.

    What it prints goes to stderr, since stdout belongs to the command.
    """
    root = os.path.abspath(path)
    _roots.append(root)
    file = os.path.join(root, "__init__.py") if path.is_dir() else root
    spec = util.spec_from_file_location(name, file, submodule_search_locations=[root] if path.is_dir() else None)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and cards ask for the module of a class
    if os.path.lexists(file):  # a package needs no file of its own
        with errors_named(variable, root):
            spec.loader.exec_module(module)
    return module


@contextlib.contextmanager
def errors_named(variable: str, root: str) -> Iterator[None]:
    """Any error of an import meanwhile, or an exit, becomes an `OutsideError` with file and line."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exit, or an exception of the user's own
        place = find_place(error) or _short(root, root)
        raise OutsideError(f"{variable}: {place}: {_words(error)}") from error


def find_place(error: BaseException) -> str | None:
    """`ema.py, line 12`: where in the user's code an error came from, innermost; None where it passed none of it."""
    if isinstance(error, SyntaxError) and error.filename and (name := _name_of(error.filename)):
        return f"{name}, line {error.lineno}" if error.lineno else name
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if name := _name_of(frame.f_code.co_filename):
            return f"{name}, line {line}"
    return None


def describe_outside(error: BaseException) -> str | None:
    """An error that came from the user's code in one line; None for any other, and for those with a line already."""
    if type(error).__module__.startswith("recollect.core") or (place := find_place(error)) is None:
        return None
    return f"{place}: {_words(error)}"


def describe_error(error: BaseException) -> str:
    """Any error in one line: its type, its message and where it was raised, in the user's code if it passed that."""
    place = find_place(error)
    if place is None and (frames := list(traceback.walk_tb(error.__traceback__))):
        place = f"{Path(frames[-1][0].f_code.co_filename).name}, line {frames[-1][1]}"
    return _words(error) + (f" ({place})" if place else "")


def _words(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"expected code that returns, found an exit with the code {error.code!r}"
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {' '.join(text.split()):.300}" if text else type(error).__name__


def _name_of(file: str) -> str | None:
    """The name of a file of the user's code: short, without the folders that it is in."""
    path = os.path.abspath(file)
    root = next((root for root in _roots if path == root or path.startswith(root + os.sep)), None)
    return None if root is None else _short(path, root)


def _short(path: str, root: str) -> str:
    return os.path.relpath(path, os.path.dirname(root))
