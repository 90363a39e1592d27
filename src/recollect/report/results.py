"""docs/results.md, from the rows in results/: python -m recollect.report.results [ROOT]"""

import json
import statistics
import sys
from pathlib import Path
from typing import Any

TITLES = {
    "tinyshakespeare": (
        "Tiny Shakespeare, characters, first 90 % / last 10 %",
        "nats per character on the whole validation part; nanoGPT's published figure for 10.7 M parameters is 1.4697, "
        "on random windows of it",
    ),
    "wikitext2": ("WikiText-2, words, test part", "nats per word; perplexity is its exponential"),
}


def rows(folder: Path) -> list[dict[str, Any]]:
    """Every row of results/*.jsonl."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
    return found


def page(found: list[dict[str, Any]]) -> str:
    """One table a data set: models by their mean, with the range over seeds."""
    parts = ["# Results\n", "Made from the rows in `results/` by `python -m recollect.report.results`.\n"]
    for data in sorted({row["data"] for row in found}):
        title, note = TITLES.get(data, (data, "nats per token"))
        parts += [f"## {title}\n", f"{note}.\n", table([row for row in found if row["data"] == data])]
    return "\n".join(parts)


def table(found: list[dict[str, Any]]) -> str:
    lines = [
        "| model | mean | range | seeds | perplexity | carried state | parameters | training | machine |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(row["model"], []).append(row)
    ranked = sorted(groups.items(), key=lambda item: statistics.mean(row["metric"]["value"] for row in item[1]))
    for model, group in ranked:
        values = [row["metric"]["value"] for row in group]
        mean = statistics.mean(values)
        carried = [row["rules"]["stateful"]["nats_per_token"] for row in group if "stateful" in row["rules"]]
        seconds = [row["seconds"] for row in group if row["seconds"]]
        size = f"{group[0]['entries']:,} n-grams" if group[0]["entries"] else f"{group[0]['params']:,}"
        cells = [
            f"`{model}`",
            f"{mean:.4f}",
            f"{min(values):.4f} – {max(values):.4f}" if len(values) > 1 else "–",
            str(len(values)),
            f"{2.718281828459045**mean:.2f}",
            f"{statistics.mean(carried):.4f}" if carried else "–",
            size,
            f"{statistics.mean(seconds):.0f} s" if seconds else "–",
            group[0]["machine"]["gpu"] or f"{group[0]['machine']['cores']} CPU cores",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    rules = sorted({row["metric"]["rule"] for row in found})
    return "\n".join(lines) + "\n\nRule: " + "; or ".join(rules) + ".\n"


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    (root / "docs" / "results.md").write_text(page(rows(root / "results")), encoding="utf-8")
