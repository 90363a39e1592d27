"""What the page shows of one heat, as plain data for heat.html."""

import re
from collections.abc import Sequence
from typing import Any

from ...core import numbers
from ...core.language import localize
from ...racing.summary import MEANINGS, Standing, Summary
from ..drawing.looks import Keys
from . import charts
from .page import anchor, describe_machine

SOURCES = 4  # of answers, that are shown
LONGEST = 90  # characters of each side of an example
EXAMPLES = {  # of tasks whose rows show none: what is read, and what is asked for
    "recall": ("k3 v7  k9 v1  k5 v4  …  k9 ?", "v1"),
    "copy": ("4 1 7 3  go", "4 1 7 3"),
    "adding": (".2  .7*  .1  .5*  .9", "1.2, the sum of the two that are marked"),
    "parity": ("1 0 1 1", "1: the count of ones is odd"),
    "gap": ("Anna grew up in France … she speaks fluent", "French"),
    "order": ("3 17 5 40", "shuffled"),
    "clouds": ("… It rained . The clouds are in the", "sky"),
    "agreement": ("the key near the doors behind the windows", "is"),
    "nested": ("the dog the cats the boy", "sings sing sings"),
}
ORDER = {  # of models that are made with what a Transformer learns from examples: in what
    **dict.fromkeys(("attend", "context", "fixed", "lstm", "gru", "rnn"), "its recurrence"),
    **dict.fromkeys(("conv", "tcn"), "its kernels"),
}


def describe(heat: Summary) -> dict[str, Any]:
    """Everything that the templates show of a heat."""
    near, far = split_baselines(heat)
    return {
        "id": anchor("heat", heat.name),
        "title": heat.title,
        "question": part_question(str(heat.heat.get("question") or "")),
        "metric": heat.metric,
        "meaning": MEANINGS.get(heat.metric.name),
        "terms": heat.terms_in_words(),
        "example": find_example(heat),
        "holds_for": limit_to_terms(heat),
        "verdict": heat.verdict(),
        "baselines": heat.compare_to_baselines(),
        "seeds": count_seeds(heat),
        "several_seeds": any(len(standing.rows) > 1 for standing in heat.ranked),
        "ranking": rank_entries(heat),
        "notes": heat.notes,
        "rungs": heat.rungs,
        "ladder": compare_rungs(heat),
        "dots": charts.draw_results(heat, near),
        "beyond": ", ".join(f"{name} {heat.metric.write(value)}" for name, value in far),
        "bands": charts.explain_bands(heat),
        "worth_of_state": charts.draw_worth_of_state(heat),
        "seen_and_written": charts.draw_seen_and_written(heat),
        "learning": charts.draw_learning(heat),
        "positions": charts.draw_positions(heat),
        "costs": charts.draw_costs(heat),
        "has_source": reads_source(heat.ranked),
        "gradients": charts.draw_gradients(heat),
        "texts": list_texts(heat.ranked),
        "answers": list_answers(heat.ranked),
        "facts": list_facts(heat),
        "runs": list_runs(heat),
    }


def share_looks(heat: Summary, keys: Keys) -> None:
    """A rung looks like its model elsewhere on the page, unless several rungs are of one model."""
    models = [standing.model for standing in heat.standings]
    if len(set(models)) < len(models):
        models = [standing.name for standing in heat.standings]
        keys.together(models)
    else:
        keys.models(models)
        for standing, model in zip(heat.standings, models, strict=True):
            keys.alike(standing.name, model)


def part_question(text: str) -> tuple[str, str]:
    """The first sentence, for above the results, and the rest, in the language of the reader."""
    first, *rest = re.split(r"(?<=\.) |(?<=。)", localize(text), maxsplit=1)
    return first, "".join(rest)


def find_example(heat: Summary) -> tuple[str, str] | None:
    """What is given and what is asked for: from a row of the heat, else as the task is."""
    for answer in list_answers(heat.standings):
        if answer["source"] and answer["reference"]:
            return _shorten(answer["source"]), _shorten(answer["reference"])
    for _, prompt, _ in list_texts(heat.standings):
        if prompt:
            return f"…{prompt[-LONGEST:]}" if len(prompt) > LONGEST else prompt, localize(
                "the next token, one after the other"
            )
    asked, answer = EXAMPLES.get(str(heat.heat.get("task")), ("", ""))
    return (localize(asked), localize(answer)) if asked else None


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST].rstrip() + "…"


def limit_to_terms(heat: Summary) -> str:
    """What size and what training the order holds for, and why a Transformer may stand behind smaller ideas there."""
    params, steps = heat.terms.get("params"), heat.terms.get("steps")
    size = numbers.brief(params) if params is not None and numbers.known(params) else ""
    length = numbers.brief(steps) if steps is not None and numbers.known(steps) else ""
    terms = f"about {size} parameters" if size else f"{length} steps of training" if length else ""
    if size and length:
        terms = f"about {size} parameters and {length} steps of training"
    if not terms or not heat.ranked:
        return ""
    text = f"This order is that of {terms}; at other sizes, or after more training, it may be another."
    models = [standing.model for standing in heat.ranked]
    before = models[: models.index("transformer")] if "transformer" in models else []
    ahead = next((model for model in before if model in ORDER), None)
    if ahead is None:
        return text
    return (
        f"{text} A Transformer has to learn from examples what order means and where to look, and here it gets few of "
        f"them; {ahead} has the order in {ORDER[ahead]}."
    )


def count_seeds(heat: Summary) -> str:
    """ "one seed", "3 seeds" or "2 to 3 seeds"; of no results nothing."""
    found = sorted({len(standing.rows) for standing in heat.ranked})
    if not found or found == [1]:
        return "one seed" if found else ""
    return f"{found[0]} seeds" if len(found) == 1 else f"{found[0]} to {found[-1]} seeds"


def split_baselines(heat: Summary) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
    """The baselines near the results, and those so far off that results would crowd beside them.

    All shares are near: their axis has two ends. So is what is a tenth of a result away.
    """
    values = [value for standing in heat.ranked for value in standing.values]
    if not values or heat.metric.unit == "share":
        return heat.baselines, []
    low, high = min(values), max(values)
    reach = max(high - low, 0.1 * max(abs(low), abs(high)))
    near = [(name, value) for name, value in heat.baselines if low - reach <= value <= high + reach]
    return near, [guess for guess in heat.baselines if guess not in near]


def rank_entries(heat: Summary) -> list[dict[str, Any]]:
    """The cells of the ranking."""
    found = []
    for standing, place in zip(heat.ranked, heat.places(), strict=True):
        counts, params = standing.average("entries"), numbers.count(standing.average("params"))
        several = len(standing.rows) > 1
        found.append(
            {
                "place": place,
                "name": standing.name,
                "model": standing.model,
                "unfair": standing.unfair,
                "value": heat.metric.write(standing.mean),
                "range": heat.metric.write_range(min(standing.values), max(standing.values)) if several else "one seed",
                "behind": heat.judged.behind_cell(standing.name),
                "costs": [
                    f"{numbers.count(counts)} counts" if counts else params,
                    numbers.count(standing.average("tokens")),
                    numbers.flops(standing.average("flops")),
                    numbers.duration(standing.average("seconds")),
                    numbers.size(standing.average("state_bytes")),
                ],
            }
        )
    return found


def compare_rungs(heat: Summary) -> list[list[str]]:
    """For each rung: name, change, value, gain, range of the gain, and whether seeds agree on it."""
    metric, gains = heat.metric, heat.gains()
    by_name = {standing.name: standing for standing in heat.standings}
    found, before = [], None
    for rung in heat.rungs:
        standing = by_name.get(str(rung["name"]))
        done = standing is not None and bool(standing.rows)
        cells = ["", "", ""]
        if gain := gains[str(rung["name"])]:
            ends = metric.write_differences(gain.low, gain.high) if gain.seeds > 1 else numbers.MISSING
            cells = [metric.write_difference(gain.mean, sign=True), ends, gain.verdict]
        elif before is not None:
            cells[2] = "the rung before has no result" if done else "no result"
        value = metric.write(standing.mean) if standing is not None and done else numbers.MISSING
        found.append([str(rung["name"]), str(rung.get("change") or ""), value, *cells])
        before = standing
    return found


def list_texts(standings: Sequence[Standing]) -> list[tuple[str, str, str]]:
    """Model, prompt and continuation, of the models that wrote a text."""
    found = []
    for standing in standings:
        sample = _sample(standing)
        if isinstance(sample, dict):
            prompt = str(sample.get("prompt") or "")
            found.append((standing.name, prompt, str(sample.get("text") or "").removeprefix(prompt)))
    return found


def list_answers(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    """By source, so that the models stand beneath each other; each with its answer and whether that is right."""
    asked: dict[tuple[str, str], list[tuple[str, str, bool]]] = {}
    for standing in standings:
        sample = _sample(standing)
        for one in sample if isinstance(sample, list) else []:
            source, reference = str(one.get("source") or ""), str(one.get("reference") or "")
            output = str(one.get("output") or "")
            answer = (standing.name, output, one.get("right", output == reference))
            asked.setdefault((source, reference), []).append(answer)
    return [
        {"source": source, "reference": reference, "outputs": outputs}
        for (source, reference), outputs in list(asked.items())[:SOURCES]
    ]


def reads_source(standings: Sequence[Standing]) -> bool:
    """Whether what is written has a source of tokens; of a picture, samples say which of its references count."""
    samples = [_sample(standing) for standing in standings]
    return any("right" not in one for sample in samples if isinstance(sample, list) for one in sample)


def _sample(standing: Standing) -> Any:
    """Of the first seed that has one."""
    return next((row["sample"] for row in standing.rows if row.get("sample")), None)


def list_facts(heat: Summary) -> list[tuple[str, list[str]]]:
    """How the rows were made: each fact with the values that occur."""
    rows = [row for standing in heat.standings for row in (*standing.rows, *standing.failed)]
    found = {
        "rule": [localize((row.get("metric") or {}).get("rule") or "") for row in rows],
        "data": [", ".join(str(row[key]) for key in ("data", "split") if row.get(key)) for row in rows],
        "code": [row.get("commit") for row in rows],
        "machine": [describe_machine(row.get("machine")) for row in rows],
        "search": [describe_search(row) for row in rows if isinstance(row.get("search"), dict)],
    }
    return [(name, list(dict.fromkeys(str(text) for text in texts if text))) for name, texts in found.items()]


def describe_search(row: dict[str, Any]) -> str:
    """The rates that were tried for an entry, each with what it was worth on validation, and the one taken."""
    tried = []
    for trial in row["search"]["tried"]:
        value = f"{trial['value']:.4g}" if numbers.known(trial.get("value")) else localize("failed")
        tried.append(f"{trial['rate']:g} → {value}")
    taken = localize("the rate with the lowest value on validation")
    return f"{row['entry']}: {', '.join(tried)}; {taken}: {row['search']['lr']:g}"


def list_runs(heat: Summary) -> list[tuple[str, list[Any], str]]:
    """Every row: its entry, its numbers, and its run folder."""
    return [
        (standing.name, _run_cells(row), str(row.get("run") or row.get("command") or numbers.MISSING))
        for standing in heat.standings
        for row in (*standing.rows, *standing.failed)
    ]


def _run_cells(row: dict[str, Any]) -> list[Any]:
    value = (row.get("metric") or {}).get("value")
    rate = ((row.get("settings") or {}).get("train") or {}).get("lr")
    exact = [row.get(key) for key in ("params", "tokens")]
    return [
        row.get("seed", numbers.MISSING),
        f"{value:.6g}" if numbers.known(value) else "failed",
        f"{rate:g}" if numbers.known(rate) else numbers.MISSING,
        *(f"{number:,.0f}" if numbers.known(number) else numbers.MISSING for number in exact),
        numbers.flops(row.get("flops")),
        f"{row['seconds']:,.1f}" if numbers.known(row.get("seconds")) else numbers.MISSING,
        numbers.size(row.get("peak_bytes")),
    ]
