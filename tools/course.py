"""What the pages of the course show is made here: python -m tools.course [PAGE …]

A ```text block right below a ```sh block is what those commands print, in the language of the page; a block from
<!-- claims: ID … --> to <!-- end --> is the table of those claims with their verdicts. Without pages all are made anew.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from recollect.core.language import localize, speaking
from recollect.learn.chapters import pages_folder

ROOT = Path(__file__).resolve().parents[1]
PRINTED = re.compile(r"^```sh\n(?P<commands>.*?)^```\n\n```text\n(?P<shown>.*?)^```$", re.M | re.S)
CLAIMS = re.compile(r"^<!-- claims: (?P<ids>[a-z0-9 -]+?) -->\n.*?^<!-- end -->$", re.M | re.S)
PROGRESS = re.compile(
    r"^(step [\d,]+|步 [\d,]+|第 [\d,]+ 步|\[\d+/\d+\]|entries |参赛者 |rows: |结果行：|$).*\n?", re.M
)
COLUMNS = "100"


def print_commands(commands: str, folder: Path, language: str) -> str:
    """What a block of commands prints, standard error between, without lines of progress."""
    script = folder / "recollect"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recollect "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    own = {
        "RECOLLECT_LANG": language,
        "RECOLLECT_CACHE": str(folder / "cache"),
        "COLUMNS": COLUMNS,
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["sh", "-e", "-c", commands], cwd=folder, env=os.environ | own, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError(f"{commands.strip()}: expected exit code 0, found {done.returncode}: {done.stdout[-2000:]}")
    text = PROGRESS.sub("", done.stdout)
    return "".join(line.rstrip() + "\n" for line in text.splitlines() if line.strip())


def words(printed: str) -> list[str]:
    """What must be the same on every machine: all but numbers and the lines of tables."""
    plain = re.sub(r"[\u2500-\u257f]", " ", printed)
    return re.sub(r"[-−+]?\d[\d,.]*(e[-+]?\d+)?", "#", plain).split()


def claims_table(ids: str, rows: dict[str, dict[str, Any]], language: str) -> str:
    """The claims of a chapter, what each says and what was found."""
    heads = {"en": ("claim", "what is said", "verdict"), "zh": ("论断", "说法", "结论")}[language]
    page = {"en": "../claims.md", "zh": "../claims.zh.md"}[language]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|---|"]
    for name in ids.split():
        if name not in rows:
            raise ValueError(f"{name}: expected a claim of results/claims.json, found none")
        with speaking(language):
            said, verdict = localize(rows[name]["statement"]), localize(rows[name]["verdict"])
        lines.append(f"| [`{name}`]({page}#{name}) | {said} | {verdict} |")
    return "\n".join(lines)


def claim_rows() -> dict[str, dict[str, Any]]:
    rows = json.loads((ROOT / "results" / "claims.json").read_text(encoding="utf-8"))["rows"]
    return {row["id"]: row for row in rows}


def language_of(path: Path) -> str:
    return "zh" if path.name.endswith(".zh.md") else "en"


def fill_claims(page: str, rows: dict[str, dict[str, Any]], language: str) -> str:
    """The page with its tables of claims made anew."""
    return CLAIMS.sub(
        lambda found: f"<!-- claims: {found['ids']} -->\n{claims_table(found['ids'], rows, language)}\n<!-- end -->",
        page,
    )


def fill_printed(page: str, language: str) -> str:
    """The page with what its commands print; all blocks of a page share a folder, one after the other."""
    with tempfile.TemporaryDirectory() as folder:
        return PRINTED.sub(
            lambda found: (
                f"```sh\n{found['commands']}```\n\n"
                f"```text\n{print_commands(found['commands'], Path(folder), language)}```"
            ),
            page,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description="Fills the pages of the course.")
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--claims", action="store_true", help="only the tables of claims, without running commands")
    options = parser.parse_args()
    rows = claim_rows()
    for path in options.pages or sorted(pages_folder().glob("*.md")):
        language = language_of(path)
        text = fill_claims(path.read_text(encoding="utf-8"), rows, language)
        if not options.claims:
            text = fill_printed(text, language)
        path.write_text(text, encoding="utf-8")
        print(path.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
