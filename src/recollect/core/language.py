"""The language of what is shown: English texts are translated where they are shown, by a catalogue of messages.

Files, rows and JSON stay English. `localize` takes a finished English text: the catalogue has it whole, as a template
with named places (`{rows:,} runs`), or sentence by sentence. What it lacks stays English.
"""

import json
import math
import os
import re
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple
from unicodedata import east_asian_width

from .errors import RecollectError

LANGUAGES = ("en", "zh")
VARIABLE = "RECOLLECT_LANG"
LOCALE = ("LC_ALL", "LC_MESSAGES", "LANG")  # the first that is set counts
WHOLE = r"[-+−]?\d[\d,]*"  # what a place such as {rows:,} holds
NUMBER = r"\s*[-+−]?(?:[\d.,]*\d(?:e[-+]?\d+)?(?:[\u00a0 ]?[%kMGT])?|nan|inf)"  # {value:.4f}
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z\u2068])")
MARKS = {", ": "，", "; ": "；"}  # between the parts of a list
LISTS = [re.compile(f"({between})") for between in ("; ", " {2,}", ", ")]
NAMED = re.compile(r"(\D+?) ([-+−]?\d.*)", re.DOTALL)  # a name and its number
MEASURED = re.compile(r"\d\.\d|\de-\d|%")
NOTE = re.compile(r" \(.*?\)")
FROM_TO = re.compile(r"^[-+−\d.]+ to ")
NAME = re.compile(r"[a-z][a-z0-9_-]*")  # of a model or a setting
PREFIXED = re.compile(r"(.+?): (.+)", re.DOTALL)  # who or what a text is about, and the text
NOTED = re.compile(r"(.+) \((.+)\)", re.DOTALL)  # a text and a note in brackets
WIDE = "\u2e80-\u9fff\uff01-\uffef"  # Chinese characters and their punctuation
BREAKABLE = re.compile(rf"\s*(?:[{WIDE}“‘（《][、。，；：！？”’）》…]*|[^\s{WIDE}]+[、。，；：！？”’）》…]*)")
LETTERS = re.compile(r"[^\W\d_]{2}")
FEW, FEWEST, SHORT = 12, 8, 24  # letters that a template fixes; with the fewest, letters of a place at most
KEPT = 4096  # texts whose translation is remembered
_READER: ContextVar[str | None] = ContextVar("reader", default=None)  # the language of one request of a server


class LanguageError(RecollectError):
    """A language that is none of those known; the message is one line."""


class Template(NamedTuple):
    """A message with places: the texts that it stands for, the longest of its fixed parts, and its translation."""

    pattern: re.Pattern[str]
    fixed: str
    sentences: int
    general: bool  # little but places: what is known in parts goes before
    longest: float  # of the texts in its places
    translation: str
    ends: bool  # with a place that is not translated
    lists: frozenset[str]  # places that may hold parts between semicolons: what stands beside is not of one of them

    def read(self, key: str) -> dict[str, str] | None:
        """What stands in the places, where the text is of this template."""
        found = self.pattern.fullmatch(key) if self.fixed in key else None
        if found is None or max(map(len, found.groups())) > self.longest:
            return None
        values = found.groupdict()
        listed = {name for name, value in values.items() if "; " in value}
        ended = self.ends and key.endswith(".")  # a full stop behind the last place, which is filled in as it is
        return values if listed <= self.lists and not ended else None


def language() -> str:
    """`zh` or `en`: as the reader who is answered asks, else as RECOLLECT_LANG or the locale says; else English."""
    if own := _READER.get():
        return own
    named = os.environ.get(VARIABLE) or next((own for name in LOCALE if (own := os.environ.get(name))), "")
    return next((code for code in LANGUAGES if re.match(rf"{code}(?![a-z])", named.lower())), "en")


@contextmanager
def speaking(code: str) -> Iterator[None]:
    """Show texts in this language, in this process and in those that it starts."""
    if code not in LANGUAGES:
        raise LanguageError(f"--lang: expected one of {', '.join(LANGUAGES)}, found {code!r}")
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = code
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(VARIABLE, None)
        else:
            os.environ[VARIABLE] = before


@contextmanager
def answering(code: str) -> Iterator[None]:
    """Show texts in this language in what runs inside alone: other threads and requests have their own."""
    token = _READER.set(code if code in LANGUAGES else None)
    try:
        yield
    finally:
        _READER.reset(token)


def localize(text: str) -> str:
    """A finished English text in the language of the reader."""
    code = language()
    return text if code == "en" else _find(str(text), code)


def localize_note(note: str) -> str:
    """A finished English note, marked as one, in the language of the reader."""
    return f"note: {note}" if language() == "en" else f"{localize('note')}：{localize(note)}"


def _find(text: str, code: str) -> str:
    found = _search(text, code)
    return text if found is None else found


@lru_cache(KEPT)
def _search(text: str, code: str) -> str | None:
    """The translation of a text; None where the catalogue has neither it nor its parts."""
    messages, templates = _prepare(code)
    key = _start_small(text.strip(" "))
    if key in messages:
        return messages[key]
    if key.endswith(".") and key[:-1] in messages:
        return f"{messages[key[:-1]]}。"
    if not LETTERS.search(key):
        return None
    sentences = SENTENCES.split(key)
    for template in templates:
        if not template.general and template.sentences == len(sentences) and (found := template.read(key)):
            return fill(template.translation, found, code)
    if len(sentences) > 1 and any(_search(each, code) is not None for each in sentences):
        return _join([_find(each, code) for each in sentences])
    parts = None
    for template in templates:
        if template.general and parts is None and (parts := _search_parts(text, code)) is not None:
            return parts
        if found := template.read(key):
            return fill(template.translation, found, code)
    return _search_parts(text, code)


def _search_parts(text: str, code: str) -> str | None:
    """The translation of lines, of a list all of whose parts are known, of a name and its number, of a note."""
    if len(lines := text.split("\n")) > 1 and any(_search(line, code) is not None for line in lines):
        return "\n".join(_find(line, code) for line in lines)
    if text.endswith(".") and (found := _search(text[:-1], code)) is not None:
        return f"{found}。"
    for between in LISTS:
        listed = between.split(text)
        if len(listed) > 1 and None not in (found := [_known(part, code) or _name(part, text) for part in listed]):
            return "".join(MARKS.get(part or "", part or "") for part in found)
    if (noted := NOTED.fullmatch(text)) and None not in (found := [_known(part, code) for part in noted.groups()]):
        return f"{found[0]}（{found[1]}）"
    if prefixed := PREFIXED.fullmatch(text):
        name, rest = _search(prefixed[1], code) or _search(f"{prefixed[1]}:", code), _known(prefixed[2], code)
        if rest is not None and (name is not None or " " not in prefixed[1] or not LETTERS.search(prefixed[1])):
            return f"{(name or prefixed[1]).rstrip('：')}：{rest}"
    if named := NAMED.fullmatch(text):
        found = _search(named[1], code) or _name(named[1], NOTE.sub("", named[2]))
        number = None if found is None else _known(named[2], code)
        return None if number is None else f"{found} {number}"
    return None


def _known(text: str, code: str) -> str | None:
    """The translation of a text; one without words needs none."""
    found = _search(text, code)
    return text if found is None and not LETTERS.search(text) else found


def _name(text: str, figures: str) -> str | None:
    """The name of a model or a setting beside its figures, which is the same in every language."""
    return text if NAME.fullmatch(text) and MEASURED.search(figures) and not FROM_TO.search(figures) else None


def _join(sentences: list[str]) -> str:
    """Sentences one after the other; a blank stands behind those that are not Chinese."""
    return "".join(each if re.search(f"[{WIDE}]$", each) else f"{each} " for each in sentences).rstrip()


def columns(text: str) -> int:
    """How many columns of a terminal a text takes: Chinese characters take two."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def breakable(text: str) -> list[str]:
    """The parts between which a line may end: at blanks, which begin a part, and around Chinese characters."""
    return BREAKABLE.findall(text)


def fill(translation: str, values: Mapping[str, str], code: str) -> str:
    """A translation with its places filled in: `{name}` as it is, `{name!t}` translated itself."""
    parts = []
    for fixed, name, _, conversion in string.Formatter().parse(translation):
        parts.append(fixed)
        if name is not None:
            parts.append(_find(values[name], code) if conversion == "t" else values[name])
    return "".join(parts)


@cache
def _prepare(code: str) -> tuple[dict[str, str], list[Template]]:
    """The messages without places, and the templates of the others, those with the most fixed text first."""
    plain, templates = {}, []
    for message, translation in read_catalogue(code).items():
        key = _start_small(message.strip(" "))
        if list(places(message)):
            templates.append(_template(key, translation))
            if key.startswith(", "):  # the end of a list, which may stand alone once the list is taken apart
                templates.append(_template(key[2:], translation.removeprefix("，")))
        else:
            plain[key.replace("{{", "{").replace("}}", "}")] = fill(translation, {}, code)
    return plain, [template for _, template in sorted(templates, key=lambda each: -each[0])]


def _template(message: str, translation: str) -> tuple[int, Template]:
    """How many letters a template fixes, and the template."""
    pattern, fixed, formats = "", [""], 0
    for part, name, form, _ in string.Formatter().parse(message):
        fixed.append(part)
        pattern += re.sub(r"\\\.$", r"\\.(?!\\d)", re.escape(part))  # a full stop, not the point of a number
        if name is not None:
            formats += bool(form)
            pattern += f"(?P<{name}>{WHOLE if form in (',', 'd') else NUMBER if form else '.*?'})"
    count = 4 * sum(map(len, fixed)) + formats
    sentences = len(SENTENCES.split(message))
    letters = math.inf if formats else sum(map(len, fixed))
    longest = SHORT if letters < FEWEST else math.inf
    found = re.compile(pattern, re.DOTALL)
    lists = {name for name in places(message) if re.search(rf"\{{{name}[^}}]*\}}(?:$|[.;])", message)}
    translated = set(re.findall(r"\{(\w+)!t\}", translation))
    last = re.search(r"\{(\w+)\}$", message)
    ends = last is not None and last[1] not in translated
    named, general = frozenset(lists & translated), letters < FEW
    return count, Template(found, max(fixed, key=len), sentences, general, longest, translation, ends, named)


def places(message: str) -> Iterator[str]:
    """The names of the places of a message."""
    return (name for _, name, _, _ in string.Formatter().parse(message) if name is not None)


def _start_small(text: str) -> str:
    """The same title or sentence wherever it stands: Chinese has no capitals."""
    return text[:1].lower() + text[1:]


def read_catalogue(code: str) -> dict[str, str]:
    """The messages of a language, from a file in gettext's format."""
    file = resources.files("recollect").joinpath("locale", code, "LC_MESSAGES", "recollect.po")
    return parse_catalogue(file.read_text(encoding="utf-8"))


def parse_catalogue(text: str) -> dict[str, str]:
    """{message: translation} of a .po file; what has no translation is left out."""
    found: dict[str, str] = {}
    for entry in re.split(r"\n\s*\n", text):
        parts, key = {"msgid": "", "msgstr": ""}, "msgid"
        for line in entry.splitlines():
            if (start := line.partition(" ")[0]) in parts:
                key, line = start, line.partition(" ")[2]
            if line.startswith('"'):
                parts[key] += json.loads(line)
        if parts["msgid"] and parts["msgstr"]:
            found[parts["msgid"]] = parts["msgstr"]
    return found
