"""docs/claims.md, and results/claims.json and claims-full.json: the verdict on every claim.

    python -m tools.claims [FOLDER …]    takes the rows of `recollect claims --out FOLDER` in, quick forms into the one
                                         file and full forms into the other, and brings the words of rows up to date

The words of a claim (its sentence, sources, note) may change while what decides it does not; where that has changed, a
row is stale, which a test says.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from recollect import claims
from recollect.claims import runner
from recollect.claims.claim import CHAPTERS
from recollect.core.language import language, localize

FILES = {"quick": "claims.json", "full": "claims-full.json"}


def read_rows(results: Path, effort: str) -> list[dict[str, Any]]:
    """The rows of one effort in results/; none where there is no file."""
    path = results / FILES[effort]
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []


def merge(results: Path, folders: Sequence[Path]) -> list[str]:
    """Take rows in. Returns a line for each row that is stale."""
    new = [row for folder in folders for row in runner.read(folder / runner.FILE) if row["verdict"] != runner.FAILED]
    stale = []
    for effort, name in FILES.items():
        rows = {row["id"]: row for row in read_rows(results, effort)}
        rows |= {row["id"]: row for row in new if row["effort"] == effort}
        known = [reword(rows[claim]) for claim in claims.names() if claim in rows]
        stale += [f"{effort} {row['id']}: run it again" for row in known if is_stale(row)]
        if known:
            flag = " --full" if effort == "full" else ""
            devices = "|".join(sorted({row.get("device", "cpu") for row in known}))
            command = f"recollect claims{flag} --device {devices}"
            lines = ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in known)
            text = f'{{"command": "{command}", "rows": [\n{lines}\n]}}\n'
            (results / name).write_text(text, encoding="utf-8")
    return stale


def reword(row: dict[str, Any]) -> dict[str, Any]:
    """A row with the words that its claim has now; those of a stale row, which say how it was decided, are kept."""
    return row if is_stale(row) else row | runner.words(claims.load(row["id"]))


def is_stale(row: dict[str, Any]) -> bool:
    """Whether what decides the claim has changed since the row was made."""
    return row.get("code") != claims.code_of(row["id"], full=row["effort"] == "full")


def count(rows: Iterable[dict[str, Any]]) -> str:
    """`3 does not hold here, 20 holds, …`."""
    verdicts = [row["verdict"] for row in rows]
    return ", ".join(f"{verdicts.count(name)} {localize(name)}" for name in dict.fromkeys(sorted(verdicts)))


def document(results: Sequence[dict[str, Any]], full: Sequence[dict[str, Any]] = ()) -> str:
    """All verdicts in a table for each chapter of the course, then each claim with its experiment and what it found."""
    large = {row["id"]: row for row in full}
    sizes = [("quick", results)] + ([("full", full)] if full else [])
    told = "; ".join(
        localize(f"{name} form on {', '.join(sorted({row['device'] for row in rows}))}: {count(rows)}")
        for name, rows in sizes
    )
    about = [
        "What textbooks, papers and notes say about this lineage, each put to the smallest clean experiment and judged "
        "by thresholds that stand in its file under `src/recollect/claims`, which also says where something was "
        "changed after a first result. *Not learnt* means that a model failed at the easiest case already, so that "
        "nothing was compared.",
        "`recollect claims ID` runs one again, with charts. Made from `results/claims.json` and "
        "`results/claims-full.json` by `python -m tools.results`.",
        f"{len(results)} claims ({told}).",
        "A verdict is about these sizes and seeds, not about all.",
    ]
    first, second = (join_sentences(map(localize, half)) for half in (about[:2], about[2:]))
    parts = [f"# {localize('Claims')}\n", f"{first}\n", f"{second}\n"]
    for number, title in [*enumerate(CHAPTERS, 1), (None, "Others")]:
        own = [row for row in results if row.get("chapter") == number]
        if own:
            parts += _table(f"{number}. {localize(title)}" if number else localize(title), own, large)
    for row in results:
        parts += _section(row, large.get(row["id"]))
    return "\n".join(parts).rstrip() + "\n"


def _table(title: str, rows: Sequence[dict[str, Any]], full: dict[str, dict[str, Any]]) -> list[str]:
    heads = [*map(localize, ("claim", "what is said", "verdict") + (("full form",) if full else ()))]
    lines = [f"## {title}\n", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [f"[`{row['id']}`](#{row['id']})", localize(row["statement"]), localize(row["verdict"])]
        cells += [localize(full[row["id"]]["verdict"] if row["id"] in full else "not run")] if full else []
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _section(row: dict[str, Any], full: dict[str, Any] | None) -> list[str]:
    large = "" if full is None else join_sentences((_end(full["verdict"]), localize(full["summary"])))
    facts = [
        ("Experiment", row["experiment"]),
        ("Decided by", row["decided"]),
        ("Found", row["summary"]),
        ("Full form", large),
        ("Note", row.get("note", "")),
    ]
    head = [f"## {row['id']}\n", f"**{localize(row['statement'])}** {_end(row['verdict'])}\n"]
    told = [(name, localize(" ".join(text.split()))) for name, text in facts if text]
    between, colon = ("；", "：") if language() == "zh" else ("; ", ": ")
    told.insert(0, ("Said in", between.join(map(localize, row["sources"]))))
    return [*head, *(f"- {localize(name)}{colon}{text}" for name, text in told), ""]


def _end(verdict: str) -> str:
    """A verdict as a sentence."""
    return localize(f"{verdict.capitalize()}.")


def join_sentences(sentences: Iterable[str]) -> str:
    """Sentences with blanks between, where the first of two does not end as Chinese does."""
    return re.sub(r"(?<=。) ", "", " ".join(sentences))


if __name__ == "__main__":
    root = Path(__file__).parents[1]
    for line in merge(root / "results", [Path(name) for name in sys.argv[1:]]):
        print(line)
    page = document(*(read_rows(root / "results", effort) for effort in FILES))
    (root / "docs" / "claims.md").write_text(page, encoding="utf-8")
