"""Parts of a race: each runs some entries anywhere, and a report joins the parts that were run on the same terms."""

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.errors import RecollectError
from ..core.files import locked, write_aside
from .rows import RACE, ROWS, SEARCHES, Row, read_race, read_rows, read_searches
from .summary import mark_unfair, note_standings


class PartError(RecollectError):
    """A part that is none, or parts that do not fit; the message is one line."""


@dataclass(frozen=True)
class Part:
    """The `number`-th of `count` parts of a race, from 1."""

    number: int = 1
    count: int = 1

    def select(self, entries: Sequence[Any]) -> list[Any]:
        """The entries of this part: all seeds of an entrant together, while there are enough entrants."""
        names = list(dict.fromkeys(entry.key[:2] for entry in entries))
        if self.count > len(entries):
            raise PartError(
                f"--part: expected at most {len(entries)} parts, one for each entry, found {self.count}; use fewer"
            )
        if self.count > len(names):
            return list(entries[self.number - 1 :: self.count])
        own = set(names[self.number - 1 :: self.count])
        return [entry for entry in entries if entry.key[:2] in own]


WHOLE = Part()


def read_part(text: str | None) -> Part:
    """`2/4` is the second of four."""
    if text is None:
        return WHOLE
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise PartError(f"--part: expected a part of several, such as 1/4, found {text!r}")
    return Part(int(found[1]), int(found[2]))


def join(folders: Sequence[Path], out: Path) -> None:
    """Write the race whose parts stand in `folders` into `out`; its standings are those of all rows together."""
    if out.resolve() in [folder.resolve() for folder in folders]:
        raise PartError(f"--out: expected another folder than those of the parts, found {out}; name a new one")
    abouts = [read_race(folder) for folder in folders]
    for folder, about in zip(folders[1:], abouts[1:], strict=True):
        if _terms(about) != _terms(abouts[0]):
            raise PartError(
                f"{folder}: expected a part of the race in {folders[0]}, found one on other terms; join "
                "parts of one race"
            )
    rows: dict[tuple[str, str, int], Row] = {}
    searches: dict[str, Any] = {}
    for folder in folders:
        searches |= read_searches(folder)
        for row in read_rows(folder):
            key = row["heat"], row["entry"], row["seed"]
            if key in rows and "error" not in rows[key]:
                continue
            place = {"run": f"{folder.name}/{row['run']}"} if row.get("run") else {}  # which part has it
            rows[key] = row | place
    _check_own(out, abouts[0], rows)
    about, ordered = abouts[0], list(rows.values())
    for index, heat in enumerate(about["heats"]):
        own = [row for row in ordered if row["heat"] == heat["name"]]
        heat["notes"] = list(dict.fromkeys(note for each in abouts for note in each["heats"][index].get("notes", ())))
        mark_unfair(own, heat["terms"].get("params"))
        note_standings(heat, own)
    out.mkdir(parents=True, exist_ok=True)
    busy = f"{out}: expected a folder that no race writes to, found one in use; use another --out"
    with locked(out, wait=False, busy=busy):
        for name, content in ((RACE, about), (SEARCHES, searches)):
            if content:
                write_aside(out / name, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ordered)
        write_aside(out / ROWS, lines.encode())


def _check_own(out: Path, about: dict[str, Any], rows: Container[tuple[str, str, int]]) -> None:
    """Refuse to write over a race with entries that no part has, or on other terms."""
    if not (out / ROWS).exists():
        return
    there = [(row["heat"], row["entry"], row["seed"]) for row in read_rows(out)]
    if _terms(read_race(out)) != _terms(about) or any(key not in rows for key in there):
        raise PartError(
            f"{out}: expected a new folder or an earlier joining of these parts, found another race; use another --out"
        )


def _terms(about: dict[str, Any]) -> list[Any]:
    return [(heat["name"], heat.get("task"), heat["terms"], heat.get("rungs")) for heat in about["heats"]]
