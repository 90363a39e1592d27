"""docs/speed.md, from results/bench-*.json: python -m benchmarks.speed_page [ROOT]"""

import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .reasons import find_reason

TITLES = {
    "sequence": ("Whole sequences", "rnn, lstm and gru beside `torch.nn` with the same weights."),
    "step": (
        "One step",
        "What decoding does over and over, beside torch's cells and modules, plain torch, and onnxruntime (our own "
        "step and torch's module, inputs and outputs bound in place).",
    ),
    "stepping": (
        "One step of an exported model",
        "What `recollect.load` runs on a CPU, beside onnxruntime's own two interfaces on the same file: this says what "
        "our call costs on top, and that a step costs by the tokens seen, not by the room.",
    ),
    "causal": ("Attention over a whole sequence", "With an empty cache, projections included."),
    "convolution": ("A causal convolution over a whole sequence", "Forward and backward, from an empty window."),
    "align": (
        "Soft alignment",
        "A decoder that looks its source up at every step, beside the loop that one writes by hand, with the same "
        "weights.",
    ),
    "scores": (
        "The four scores of soft alignment",
        "Training with each, beside the additive one. Both sides are ours: this says what a choice costs.",
    ),
    "decoding": (
        "The next token of a translation",
        "By the contract's step, beside reading the prefix again. Both sides are ours: this says what a state is "
        "worth, not how we stand. A recurrent step stays as it is, one of attention grows by its cache.",
    ),
    "training": ("Training a Transformer", "One step of training."),
    "writing": ("Writing with a Transformer", "Beside other ways to decode with the same weights."),
    "lineage": (
        "Writing with every model of the lineage",
        "The engine beside the contract's step in a loop. Both sides are ours: this says how many steps a second a "
        "model makes, not how we stand.",
    ),
    "ttt": ("Test-time training", "ttt-linear and ttt-mlp, whole sequences and steps."),
    "ngram": ("n-grams", "Counting and scoring."),
    "translating": ("Translation end to end", "Text in, text out, with beam search."),
    "scaling": (
        "Growth with the length",
        "One row through each layer, from 256 steps on, doubling, up to 64 thousand or until a call takes too long. "
        "The exponents say how time and peak memory grow over the last doublings: 1 is in proportion, 2 is quadratic.",
    ),
}
OURS_TWICE = ("scores", "decoding", "lineage")  # where the peer is ours too
DEVICES = {"cpu": "CPU", "cuda": "GPU"}
LEVEL = 0.05  # a ratio this near to 1 is called level

HEAD = """\
# Speed

Ours beside its peers, and beside what the machine allows. Made from `results/bench-*.json` by
`python -m benchmarks.speed_page`; every figure below was measured by

```sh
./recollect bench                       # all rows, on the CPU
./recollect bench step --device cuda    # some of them, on a GPU
./recollect bench ttt --only mlp        # what has that in its name; the others stay as they were
./recollect bench --list                # what there is
```

Peers other than torch come from PyPI; a checkout gets them by

```sh
.venv/bin/uv pip install -c constraints.txt -e '.[peers]'
```

and one that is not installed, or fails, is named below its table with the reason.

How a figure comes about: all sides of a row run in one process, warmed up, in turn (on a CPU with a rest between,
since some threads spin on), on inputs that are made anew for every round; before the clock runs, they must have
computed the same. A time is the median of the rounds; behind ± stands half the distance between the 10th and the 90th
percentile. **ratio** is our time over that of the best mode of the best peer: below 1 ours is faster. **of the floor**
is the least time that the machine allows over our time: 100 % cannot be beaten. The floor is the largest of three:
FLOPs over the rate of a large matrix product; bytes that must move over the bandwidth for as many bytes, both measured
in the same run; and for steps that wait for each other on a GPU, a barrier between them (0.25 µs within a cluster,
0.98 µs over the grid, measured on an H200).
"""


def page(folder: Path) -> str:
    """The whole page, one table for each name and device."""
    files = {path.stem.removeprefix("bench-"): path for path in sorted(folder.glob("bench-*.json"))}
    found = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in files.items()}
    order = sorted({name.rpartition("-")[0] for name in found}, key=lambda name: (place(name), name))
    parts = [HEAD, *summary(found), *explained(found), *compared(folder / "start.json")]
    for name in order:
        title, about = TITLES.get(name, (name.capitalize(), ""))
        parts.append(f"## {title}\n\n{textwrap.fill(about, 120)}".rstrip() + "\n")
        for device, word in DEVICES.items():
            if content := found.get(f"{name}-{device}"):
                parts += [f"### {title}, {word}\n", *section(content)]
    return "\n".join(parts)


def place(name: str) -> int:
    return list(TITLES).index(name) if name in TITLES else len(TITLES)


def summary(found: dict[str, Any]) -> Iterator[str]:
    """How often ours is faster, level and slower."""
    lines = []
    for device, word in DEVICES.items():
        names = [name for name in found if name.endswith(f"-{device}") and name.rpartition("-")[0] not in OURS_TWICE]
        contents = [found[name] for name in names]
        ratios = [row["ratio"] for content in contents for row in content["rows"] if row.get("ratio")]
        if ratios:
            faster, slower = sum(r < 1 - LEVEL for r in ratios), sum(r > 1 + LEVEL for r in ratios)
            level = len(ratios) - faster - slower
            lines.append(
                f"- {word}: of {len(ratios)} rows with a peer, ours is faster in {faster}, level (within "
                f"{percent(LEVEL)}) in {level}, slower in {slower}."
            )
    if lines:
        yield "\n".join(lines) + "\n"


def slower(found: dict[str, Any]) -> dict[str, float]:
    """The rows of a CPU in which a peer is faster, with the ratio, the largest first."""
    names = [name for name in found if name.endswith("-cpu") and name.rpartition("-")[0] not in OURS_TWICE]
    rows = [row for name in names for row in found[name]["rows"] if (row.get("ratio") or 0) > 1 + LEVEL]
    return {row["row"]: row["ratio"] for row in sorted(rows, key=lambda row: -row["ratio"])}


def explained(found: dict[str, Any]) -> Iterator[str]:
    """What is slower on a CPU, and why."""
    if ratios := slower(found):
        lines = [f"| {row} | {ratio:.2f} | {find_reason(row) or 'not known'} |" for row, ratio in ratios.items()]
        head = "| slower on a CPU | ratio | why |\n|---|---|---|\n"
        yield head + "\n".join(lines) + "\n"


def compared(path: Path) -> Iterator[str]:
    """Commands of an earlier commit and of a later one in turn, where `tools.beside` has timed them."""
    if path.is_file():
        content = json.loads(path.read_text(encoding="utf-8"))
        before, after = content["commits"]["before"], content["commits"]["after"]
        lines = ["## Commands from the shell\n", f"| command | {before} | {after} | ratio |", "|---|---|---|---|"]
        for row in content["rows"]:
            times = row["medians"]
            ratio = row["after / before"]
            lines.append(f"| {row['row']} | {duration(times['before'])} | {duration(times['after'])} | {ratio:.2f} |")
        about = (
            f"In turn on {content['machine']['cores']} cores that had other work, medians, by `{content['command']}`."
        )
        yield "\n".join(lines) + f"\n\n{textwrap.fill(about, 120)}\n"


def section(content: dict[str, Any]) -> Iterator[str]:
    """A table, what is absent, and where it was measured."""
    rows = content["rows"]
    good = [row for row in rows if row["ours"]]
    if any(row.get("series") for row in good):
        yield growth([row for row in good if row.get("series")])
    if plain := [row for row in good if not row.get("series")]:
        yield comparison(plain)
    failures = [f"- {row['row']}: failed ({code(row['error'])})" for row in rows if row.get("error")]
    if failures:
        yield "\n".join(failures) + "\n"
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for peer, why in row.get("absent", {}).items():
            reasons.setdefault((peer, why), []).append(row["row"])
    if reasons:
        lines = [f"- {peer}: {code(why)} ({several(names)})" for (peer, why), names in reasons.items()]
        yield "Absent:\n\n" + "\n".join(lines) + "\n"
    yield source(content) + "\n"


def comparison(rows: list[dict[str, Any]]) -> str:
    lines = ["| row | ours | best peer | its | ratio | of the floor | bound by |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        unit, amount = row.get("unit", ""), row.get("amount", 1)
        mode = row["ours"].get("mode", "")
        floor = row.get("floor")
        best = row.get("best_peer")
        cells = [
            row["row"],
            spread(row["ours"], unit, amount) + (f", {mode}" if mode and len(row.get("modes", {})) > 1 else ""),
            best or "none",
            spread(row["peers"][best], unit, amount) if best else "",
            f"{row['ratio']:.2f}" if row.get("ratio") else "",
            share(row),
            floor.get("bound", "") if floor else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def growth(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| row | steps | time | peak memory | time grows as | memory grows as | of the floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        fit = {what: f"length^{power:.2f}" for what, power in row["fit"].items()}
        cells = [
            row["row"],
            f"{row['series']['length'][-1]:,}",
            duration(row["ours"]["median"]),
            f"{row['series']['bytes'][-1] / 2**20:,.1f} MiB",
            fit.get("time", ""),
            fit.get("memory", ""),
            share(row),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def source(content: dict[str, Any]) -> str:
    """On what, with what and from which commit."""
    rows = content["rows"]
    first = next((row for row in rows if "commit" not in row), rows[0] if rows else {})
    machine = first.get("machine") or content.get("machine", {})
    versions = first.get("versions") or {"torch": machine.get("torch", "")}
    gpu = f"{machine['gpu']}, " if machine.get("gpu") and first.get("device") == "cuda" else ""
    where = f"{gpu}{machine.get('cpu', '')}, {machine.get('cores')} cores, {machine.get('threads')} threads"
    what = ", ".join(f"{name} {version}" for name, version in versions.items())
    told = (
        f"Measured by `{content['command']}` on {where}; Python {machine.get('python')}, {what}; "
        f"commit {content['commit']}."
    )
    older: dict[str, list[str]] = {}
    for row in content["rows"]:
        if row.get("commit", content["commit"]) != content["commit"]:
            older.setdefault(row["commit"], []).append(row["row"])
    for commit, rows in older.items():
        told += f" Not measured anew, from commit {commit}: {'; '.join(rows)}."
    return textwrap.fill(told, 120, break_on_hyphens=False)


def spread(times: dict[str, Any], unit: str, amount: float) -> str:
    """The median, and half of what lies between low and high in percent of it."""
    half = (times["high"] - times["low"]) / 2 / times["median"]
    return f"{figure(times, unit, amount)} ±{percent(half)}"


def figure(times: dict[str, Any], unit: str = "", amount: float = 1.0) -> str:
    """The median, as a rate where a call does an amount of something."""
    if not unit:
        return duration(times["median"])
    rate = amount / times["median"]
    return f"{rate:,.0f} {unit}/s" if rate >= 10 else f"{rate:.2f} {unit}/s"


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    size, name = next(
        (size, name) for size, name in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")) if seconds >= size or size < 1e-5
    )
    value = seconds / size
    return f"{value:,.0f} {name}" if value >= 100 else f"{value:.3g} {name}"


def percent(part: float) -> str:
    """Whole from 1 on, one digit below."""
    return f"{100 * part:.0f} %" if part >= 0.0095 or part == 0 else f"{100 * part:.1g} %"


def share(row: dict[str, Any]) -> str:
    """How near ours is to the floor."""
    return percent(row["floor_share"]) if row.get("floor_share") else ""


def code(text: str) -> str:
    """Words of a program, which may hold what a page would take for its own signs."""
    return "`" + text.replace("`", "'").replace("|", "/") + "`"


def several(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} others"


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    (root / "docs" / "speed.md").write_text(page(root / "results"), encoding="utf-8")
