"""Texts that people share (rows, pages, manifests), without the places of the machine that they come from.

A path under the working folder becomes relative; any other absolute path, and one that begins with `../`, keeps its
last part alone, behind `…/`. So no home directory and no name of a user leaves the machine with a result.

What is known to be a path, or a word of a command, is shortened as a whole, whatever blanks are in it; in prose a path
ends at the first blank.
"""

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ELSEWHERE = "…"
BEFORE = r"(?<![\w/.…~-])"  # what may not stand before the first slash of a path: 1/2, and/or, https://
PART = r"[^\s/'\"`,;:()\[\]{}<>|]"
ABSOLUTE = re.compile(rf"{BEFORE}(?:file://)?(?:~{PART}*|(?:/{PART}+))/(?:{PART}*/)*({PART}*)")
OUTWARD = re.compile(rf"{BEFORE}(?:\.\./)+(?:{PART}*/)*({PART}*)")
WINDOWS = re.compile(r"""(?:(?<!\w)[A-Za-z]:|(?<![\w\\:])\\)\\+(?:[^\\\n'"<>|:*?]+\\+)*([^\\\s'"]*)""")
START = r"/|~|\.\./|file://|[A-Za-z]:[\\/]|\\\\"  # of a path that names a place of the machine
PATH = re.compile(START)
HOMES = re.compile(r"(?:.*[\\/])?(?:home|Users)[\\/]+[^\\/]+|~[^\\/]+", re.IGNORECASE)  # their last part names a user
PATHS = ("data", "valid", "test", "features", "titles", "of", "init", "run", "out")  # keys whose texts are paths
COMMAND = "command"
PLAIN = re.compile(r"[\w@%+=:,./…~-]+")  # words of a command that need no quotes


def share(value: Any, key: str = "") -> Any:
    """A JSON value with every text of it shortened: by its key as a path or a command, else as prose."""
    if isinstance(value, str):
        return share_path(value) if key in PATHS else share_command(value) if key == COMMAND else share_text(value)
    if isinstance(value, dict):
        return {name: share(part, name) for name, part in value.items()}
    return [share(part, key) for part in value] if isinstance(value, list | tuple) else value


def share_path(path: str) -> str:
    """A path that stands alone, blanks and all; names of known sets and relative paths stay."""
    if not PATH.match(path):
        return path
    path = path.removeprefix("file://")
    for own in _working_folders():
        if path.startswith(f"{own}/"):
            return path[len(own) + 1 :]
        if path == own:
            return "."
    whole = path.rstrip("/\\")
    if path == "~" or whole in _homes():
        return "~"
    name = re.split(r"[/\\]", whole)[-1]
    return f"{ELSEWHERE}/{name}" if name and not HOMES.fullmatch(whole) else ELSEWHERE


def share_command(command: str) -> str:
    """A command of the shell, word by word: paths, and paths in `name=value`, are shortened as wholes."""
    words = shlex.shlex(command, posix=True, punctuation_chars=False)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    try:
        shared = [_share_word(word) for word in words]
    except ValueError:  # quotes that do not close
        return share_text(command)
    return " ".join(word if PLAIN.fullmatch(word) else shlex.quote(word) for word in shared)


def _share_word(word: str) -> str:
    named = re.fullmatch(r"([\w-]+=)?(.*)", word, re.DOTALL)
    if named is None or not PATH.match(named[2]):
        return share_text(word)
    parts = re.split(rf",(?={START})", named[2])
    return (named[1] or "") + ",".join(map(share_path, parts))


def list_paths(value: Any, key: str = "") -> Iterator[str]:
    """The paths of a JSON value that name places, by their keys."""
    if isinstance(value, str):
        if key in PATHS and PATH.match(value):
            yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from list_paths(part, name)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from list_paths(part, key)


def share_about(text: str, paths: Iterable[str]) -> str:
    """Prose in which some paths are known to occur."""
    for path in sorted(paths, key=len, reverse=True):
        text = text.replace(path, share_path(path))
    return share_text(text)


def share_text(text: str) -> str:
    """A text with its absolute paths shortened, and nothing else changed."""
    if "/" not in text and "\\" not in text:
        return text
    for own in _working_folders():
        text = re.sub(rf"{BEFORE}{re.escape(own)}/", "", text)
        text = re.sub(rf"{BEFORE}{re.escape(own)}(?![\w/.-])", ".", text)
    for home in _homes():
        text = re.sub(rf"{BEFORE}{re.escape(home)}(?=/)", "~", text)
        text = re.sub(rf"{BEFORE}{re.escape(home)}(?![\w.-])", "~", text)
    for pattern in (WINDOWS, ABSOLUTE, OUTWARD):
        text = pattern.sub(_shorten, text)
    return text


def _shorten(found: re.Match[str]) -> str:
    return ELSEWHERE if HOMES.fullmatch(found[0]) else f"{ELSEWHERE}/{found[1]}"


def _working_folders() -> list[str]:
    """The working folder as it is named, and as it is where that is a link."""
    try:
        found = [os.getcwd(), os.path.realpath(os.getcwd()), os.environ.get("PWD", "")]
    except FileNotFoundError:  # somebody removed it
        return []
    return [name for name in dict.fromkeys(found) if len(Path(name).parts) > 1 and Path(name).is_absolute()]


def _homes() -> list[str]:
    return _known_homes(os.path.expanduser("~"))


@cache
def _known_homes(home: str) -> list[str]:
    found = [home, os.path.realpath(home)]
    try:
        import pwd

        found.append(pwd.getpwuid(os.getuid()).pw_dir)
    except (ImportError, KeyError):  # Windows; a user without an entry
        pass
    return [name for name in dict.fromkeys(found) if len(Path(name).parts) > 1]
