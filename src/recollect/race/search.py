"""The search for learning rates: one grid for all, an equal share of the budget for each rate, the best by validation.

python -m recollect.race.search recall translation text    writes the committed rates.json anew
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.files import write_aside
from ..train.progress import Progress
from . import rates
from .entry import Entry, folder_of, grid, nothing, run_tasks, try_rate
from .processes import Died, Task, count_cores
from .terms import Terms, task_of

DEFAULT_COUNT = 3  # rates that are tried where none is committed
SEED = 1000  # of committed searches: no race is scored on it
FILE = "search.json"
Rates = dict[tuple[str, str], dict[str, Any]]  # heat and label → lr, and what finding it took


def rates_for(entries: Sequence[Entry], out: Path, *, jobs: int, progress: Progress) -> Rates:
    """A rate for every entrant: the committed one, or the best of a search, with what the search cost.

    A search serves all seeds and is kept in search.json; one in which every trial failed is made again.
    """
    found: Rates = {}
    wanted: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        key = entry.key[:2]
        terms = entry.terms
        committed = None if terms.search else rates.rate_of(entry.heat, entry.entrant)
        given = terms.search == 0 or "lr" in terms.settings or entry.entrant.model in task_of(entry.heat).counted
        if given or committed is not None:
            found[key] = {"lr": committed}
        else:
            wanted.setdefault(key, entry)
    known = load_searches(out)
    missing = [entry for key, entry in wanted.items() if "/".join(key) not in known]
    if missing:
        count = missing[0].terms.search or DEFAULT_COUNT
        who = "1 entrant" if len(missing) == 1 else f"{len(missing)} entrants"
        progress.say(f"searching rates for {who}: {count} each, 1/{count} of the budget each")
        for name, own in search(missing, out, count, 1 / count, jobs=jobs, progress=progress):
            known[name] = own
            write_aside(out / FILE, (json.dumps(known, indent=1) + "\n").encode())
    for key in wanted:
        own = known["/".join(key)]
        found[key] = {"lr": own["lr"], "search": own}
    return found


def search(
    entries: Sequence[Entry], out: Path, count: int, share: float, *, jobs: int, progress: Progress
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each entry, as its trials end, the best of `count` rates, each tried with `share` of the budget."""
    trials = [
        replace(entry, lr=lr, share=share, folder=out / "search" / f"{entry.folder.name}-{number}")
        for entry in entries
        for number, lr in enumerate(grid(count))
    ]
    tried: dict[str, list[dict[str, Any]]] = {}
    tasks = [Task(number, try_rate, trial) for number, trial in reversed(list(enumerate(trials)))]
    for done, (task, answer) in enumerate(run_tasks(tasks, jobs), 1):
        trial = trials[task.number]
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Died):
            answer = nothing(trial) | {"error": answer.reason}
        value = "failed" if answer["value"] is None else f"{answer['value']:.4f}"
        progress.say(f"[{done}/{len(trials)}] {trial.heat.name}: {trial.entrant.label} at {trial.lr:g}: {value}")
        name = "/".join(trial.key[:2])
        tried.setdefault(name, []).append(answer)
        if len(tried[name]) == count:
            yield name, _best(tried[name], share)


def _best(answers: list[dict[str, Any]], share: float) -> dict[str, Any]:
    """The rate with the lowest validation; of several with the same, the one that came there sooner."""
    answers = sorted(answers, key=lambda answer: answer["rate"])
    good = [answer for answer in answers if answer["value"] is not None]
    best = min(good, key=lambda answer: (answer["value"], answer["way"])) if good else answers[0]
    totals = {name: sum(answer[name] or 0 for answer in answers) for name in ("seconds", "tokens", "flops")}
    return {"lr": best["rate"], "share": share, "tried": answers} | totals


def load_searches(out: Path) -> dict[str, dict[str, Any]]:
    """What earlier searches found, by heat and label, without those in which every trial failed."""
    path = out / FILE
    found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {name: own for name, own in found.items() if any(one["value"] is not None for one in own["tried"])}


def commit(names: Sequence[str], count: int, share: float, jobs: int) -> None:
    """Search the rates of built-in heats anew and write them beside this file."""
    from .heats import heats as every_heat
    from .heats import ladders

    place = Path(__file__).with_name("rates.json")
    heats = {heat.name: heat for heat in (*every_heat().values(), *ladders().values())}
    for name in names:
        heat, terms = heats[name], Terms()
        with TemporaryDirectory() as scratch:
            out = Path(scratch)
            entries = [
                Entry(heat=heat, terms=terms, entrant=entrant, seed=SEED, folder=folder_of(out, heat, entrant, SEED))
                for entrant in heat.entrants()
                if entrant.model not in task_of(heat).counted
            ]
            found = dict(search(entries, out, count, share, jobs=jobs, progress=Progress()))
        content = json.loads(place.read_text(encoding="utf-8"))
        steps = entries[0].heat.steps * share
        of = f"{heat.params:,} parameters" if heat.params else "the settings of the heat"
        content[name] = {
            "how": f"each of {', '.join(f'{rate:g}' for rate in grid(count))} for {steps:.0f} steps at {of}, "
            f"seed {SEED}; the lowest on validation, by the figure that chooses checkpoints, and of equals the sooner",
            "rates": {entry.entrant.label: found["/".join(entry.key[:2])]["lr"] for entry in entries},
            "tried": {
                entry.entrant.label: {
                    f"{answer['rate']:g}": answer["value"] for answer in found["/".join(entry.key[:2])]["tried"]
                }
                for entry in entries
            },
        }
        write_aside(place, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())


if __name__ == "__main__":
    commit(sys.argv[1:] or ["recall", "translation", "text"], count=5, share=1.0, jobs=count_cores())
