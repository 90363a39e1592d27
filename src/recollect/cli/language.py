"""The language of the command line: the flag --lang, and help in the language of the reader."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.language import LANGUAGES, LanguageError, language, localize, speaking

FLAG = "--lang"
HEADINGS = ("_PANEL_TITLE", "_LONG_STRING", "DEFAULT_STRING")  # names of typer's own texts


def take_language(args: Sequence[str]) -> tuple[str | None, list[str]]:
    """The language that --lang names, before the command or after it, and the other words; None where it is not there.

    A second one takes the place of the first. What stands behind -- is no flag.
    """
    code, rest, words = None, [], iter(args)
    for word in words:
        if word == "--":
            return code, [*rest, word, *words]
        if word == FLAG:
            code = next(words, "")
        elif word.startswith(f"{FLAG}="):
            code = word.partition("=")[2]
        else:
            rest.append(word)
    if code is not None and code not in LANGUAGES:
        raise LanguageError(f"{FLAG}: expected one of {', '.join(LANGUAGES)}, found {code!r}")
    return code, rest


@contextmanager
def help_in(code: str | None) -> Iterator[None]:
    """Texts in this language (None: that of the environment), the headings of typer's help too."""
    with speaking(code or language()):
        if language() == "en":
            yield
            return
        from typer import rich_utils

        make = rich_utils._make_rich_text

        def make_foldable(**given: Any) -> Any:
            found: Any = make(**given)
            found.overflow = "fold"  # Chinese has no blanks to break lines at
            return found

        before = {name: text for name, text in vars(rich_utils).items() if name.endswith(HEADINGS)}
        shown = {name: localize(text) for name, text in before.items()}
        _set(rich_utils, shown | {"_make_rich_text": make_foldable})
        try:
            yield
        finally:
            _set(rich_utils, before | {"_make_rich_text": make})


def _set(module: Any, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(module, name, value)


def localize_command(command: Any) -> Any:
    """A command whose help is in the language of the reader."""
    if language() == "en":
        return command
    for part in (command, *command.params):
        for name in ("help", "short_help", "epilog"):
            if text := getattr(part, name, None):
                setattr(part, name, localize(text))
    usage, option = command.get_usage, command.get_help_option

    def get_help_option(context: Any) -> Any:
        found = option(context)
        found.help = localize(found.help)
        return found

    command.get_help_option = get_help_option
    command.get_usage = lambda context: usage(context).replace("Usage: ", f"{localize('Usage')}: ", 1)
    return command
