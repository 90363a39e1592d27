"""The tables of docs/export.md, from results/export.json: python -m tools.export_page [ROOT]"""

import json
import sys
from pathlib import Path
from typing import Any

START, END = "<!-- {name}: made by tools/export_page.py -->\n", "<!-- end -->"


def tasks_table(rows: list[dict[str, Any]]) -> str:
    """One line a task: how many models, the largest error, seconds, microseconds."""
    lines = [
        "| task | exports | largest error, float32 | seconds to export | a step, µs | a whole call, µs |",
        "|---|---|---|---|---|---|",
    ]
    for task in dict.fromkeys(row["task"] for row in rows):
        own = [row for row in rows if row["task"] == task]
        plain = [row["precisions"]["float32"] for row in own]
        steps = [found["micros"]["step"] for found in plain if "step" in found["micros"]]
        calls: dict[str, list[float]] = {}
        for found in plain:
            for name, micros in found["micros"].items():
                if name != "step":
                    calls.setdefault(name, []).append(micros)
        whole = "; ".join(f"`{name}` {span(values)}" for name, values in calls.items())
        seconds = span([row["seconds"]["all"] for row in own], 1)
        worst = max(found["largest_error"] for found in plain)
        lines.append(f"| {task} | {len(own)} | {worst:.1e} | {seconds} | {span(steps)} | {whole or '–'} |")
    return "\n".join(lines) + "\n"


def precisions_table(rows: list[dict[str, Any]]) -> str:
    """One line a language model: a step, the file and the largest error in each precision."""
    lines = [
        "| model | µs, float32 | µs, int8 | KiB, float32 | float16 | int8 | error, float16 | int8 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if row["task"] != "text":
            continue
        plain, half, small = (row["precisions"][name] for name in ("float32", "float16", "int8"))
        sizes = " | ".join(f"{found['bytes']['step'] / 1024:,.0f}" for found in (plain, half, small))
        lines.append(
            f"| {row['model']} | {plain['micros']['step']:,.0f} | {small['micros']['step']:,.0f} | {sizes} | "
            f"{half['largest_error']:.1e} | {small['largest_error']:.1e} |"
        )
    return "\n".join(lines) + "\n"


def span(values: list[float], digits: int = 0) -> str:
    """The smallest and the largest of some values."""
    if not values:
        return "–"
    low, high = (f"{value:,.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def fill(page: str, rows: list[dict[str, Any]]) -> str:
    """The page with its tables made anew."""
    for name, table in (("tasks", tasks_table(rows)), ("precisions", precisions_table(rows))):
        start = START.format(name=name)
        before, rest = page.split(start, 1)
        page = before + start + "\n" + table + "\n" + END + rest.split(END, 1)[1]
    return page


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rows = json.loads((root / "results" / "export.json").read_text(encoding="utf-8"))["rows"]
    page = root / "docs" / "export.md"
    page.write_text(fill(page.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
