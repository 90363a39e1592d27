"""Chinese pages beside English ones: each section holds the hash of the English section that it translates.

python -m tools.translated          which sections are stale, missing or out of place
python -m tools.translated --stamp PAGE.zh.md …     after the translation was brought up to date

A section begins with a heading of any level. Its hash stands in a comment on the line before the heading and covers the
English text without code and without what is generated. Code is the same in both languages but for its comments; what
a command printed is in the language of the page.
"""

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>[^`\n]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.M | re.S)
GENERATED = re.compile(r"^<!-- (?P<name>[a-z][^>\n]*?) -->\n.*?^<!-- (?:end|/)[^>\n]*-->$", re.M | re.S)
STAMP = re.compile(r"^<!-- en (?P<hash>[0-9a-f]+) -->\n", re.M)
COMMENT = re.compile(r"(?:^|[ ]+)#.*", re.M)
HEADING = re.compile(r"^#{1,6} ", re.M)
# Chinese pages that translate nothing, or are made as the English ones are
ALONE = {"glossary.zh.md", "claims.zh.md", "races.zh.md"}


class Section(NamedTuple):
    """A heading with what stands below it, up to the next heading."""

    heading: str
    text: str
    stamp: str  # in a Chinese page, the hash of the English section
    line: int


def sections(text: str) -> list[Section]:
    """The sections of a page; # inside code is no heading."""
    hidden = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    starts = [found.start() for found in HEADING.finditer(hidden)]
    found = []
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        stamp = re.search(r"<!-- en ([0-9a-f]+) -->\n\Z", text[:begin])
        heading, _, body = text[begin:end].partition("\n")
        found.append(Section(heading, STAMP.sub("", body), stamp[1] if stamp else "", text.count("\n", 0, begin) + 1))
    return found


def digest(section: Section) -> str:
    """What a translation depends on: heading and prose, by their words."""
    prose = GENERATED.sub("", FENCE.sub("", f"{section.heading}\n{section.text}"))
    return hashlib.sha256(" ".join(prose.split()).encode()).hexdigest()[:12]


def code(section: Section) -> list[tuple[str, str]]:
    """Code of a section without its comments; of what a command printed only that it is there."""
    found: list[tuple[str, str]] = []
    for fence in FENCE.finditer(section.text):
        kind = fence["kind"].strip()
        printed = kind == "text" and bool(found) and found[-1][0] == "sh"
        found.append((kind, "" if printed else COMMENT.sub("", fence["body"])))
    return found


def problems(english: str, chinese: str) -> list[str]:
    """What is stale or missing in a Chinese page."""
    ours, theirs = sections(english), sections(chinese)
    if len(ours) != len(theirs):
        names = [f"{section.heading}" for section in ours]
        return [f"expected {len(ours)} sections ({', '.join(names)}), found {len(theirs)}"]
    found = []
    for section, translated in zip(ours, theirs, strict=True):
        where = f"line {translated.line}, {translated.heading}"
        if section.heading.split(" ")[0] != translated.heading.split(" ")[0]:
            found.append(f"{where}: expected a heading of the level of {section.heading!r}")
        if not translated.stamp:
            found.append(f"{where}: expected <!-- en {digest(section)} --> on the line before, found nothing")
        elif translated.stamp != digest(section):
            found.append(f"{where}: stale: {section.heading!r} has changed; bring it up to date, then stamp it")
        if code(section) != code(translated):
            found.append(f"{where}: expected the code of {section.heading!r}, but for its comments")
    return found


def stamp(english: str, chinese: str) -> str:
    """The Chinese page with the hashes of the English one."""
    ours, theirs = sections(english), sections(chinese)
    if len(ours) != len(theirs):
        raise ValueError(problems(english, chinese)[0])
    lines = [line for line in chinese.split("\n") if not STAMP.match(line + "\n")]
    bare = "\n".join(lines)
    for section, place in reversed(list(zip(ours, sections(bare), strict=True))):
        lines.insert(place.line - 1, f"<!-- en {digest(section)} -->")
    return "\n".join(lines)


def pairs() -> list[tuple[Path, Path]]:
    """Every Chinese page with the English one beside it."""
    every = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    chinese = sorted(path for path in every if path.name.endswith((".zh.md", ".zh-CN.md")) and path.name not in ALONE)
    return [(path.with_name(re.sub(r"\.zh(-CN)?\.md$", ".md", path.name)), path) for path in chinese]


def main() -> int:
    parser = argparse.ArgumentParser(description="Chinese pages beside English ones.")
    parser.add_argument(
        "--stamp", nargs="+", type=Path, metavar="PAGE", help="write the hashes of the English sections"
    )
    options = parser.parse_args()
    for path in options.stamp or ():
        english = path.with_name(re.sub(r"\.zh(-CN)?\.md$", ".md", path.name))
        path.write_text(stamp(english.read_text("utf-8"), path.read_text("utf-8")), encoding="utf-8")
    stale = [
        f"{theirs.relative_to(ROOT)}: {problem}"
        for ours, theirs in pairs()
        for problem in problems(ours.read_text("utf-8"), theirs.read_text("utf-8"))
    ]
    print("\n".join(stale) if stale else "every Chinese section stands beside the English one that it translates")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
