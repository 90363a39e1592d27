"""docs/claims.md: the verdict on every claim in results/claims.json."""

from collections.abc import Sequence
from typing import Any


def document(results: Sequence[dict[str, Any]]) -> str:
    """All verdicts in a table, then each claim with its experiment and what it found."""
    verdicts = [result["verdict"] for result in results]
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in dict.fromkeys(sorted(verdicts)))
    efforts = sorted({f"{result['effort']} form on {result['device']}" for result in results})
    parts = [
        "# Claims\n",
        "What textbooks, papers and notes say about this lineage, each put to the smallest clean experiment and judged "
        "by thresholds that stand in its file under `src/recollect/claims`, which also says where something was "
        "changed after a first result. `recollect claims ID` runs one again, with charts. Made from "
        "`results/claims.json` by `python -m tools.results`.\n",
        f"{len(results)} claims ({'; '.join(efforts)}): {counts}. A verdict is about these sizes and seeds, not about "
        "all.\n",
        "| claim | what is said | verdict |",
        "|---|---|---|",
        *(
            f"| [`{result['id']}`](#{result['id']}) | {result['statement']} | {result['verdict']} |"
            for result in results
        ),
        "",
    ]
    for result in results:
        parts.append(f"## {result['id']}\n")
        parts.append(f"**{result['statement']}** {result['verdict'].capitalize()}.\n")
        facts = [
            ("Said in", "; ".join(result["sources"])),
            ("Experiment", result["experiment"]),
            ("Decided by", result["decided"]),
            ("Found", result["summary"]),
            ("Note", result.get("note", "")),
        ]
        parts += [f"- {name}: {' '.join(text.split())}" for name, text in facts if text]
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"
