"""The search for learning rates: one grid for all, an equal share of the budget for each rate, the best by validation.

An entrant without a committed rate is searched as the committed ones were, whoever else is in the field and whenever it
was added: the same rates, each at the heat's full length. Where none is committed all are searched here, alike.

python -m recollect.racing.search recall translation text    writes the committed rates.json anew
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.files import write_aside
from ..training.progress import Progress
from . import rates
from .entry import Entry, folder_of, grid, nothing, run_tasks, try_rate
from .processes import Died, Task, count_cores
from .rates import SEED, Plan
from .rows import SEARCHES, read_searches
from .terms import Terms, task_of

DEFAULT_COUNT = 3  # rates that are tried where none is committed
Rates = dict[tuple[str, str], dict[str, Any]]  # heat and label → lr, and what finding it took


def rates_for(entries: Sequence[Entry], out: Path, *, jobs: int, progress: Progress) -> Rates:
    """A rate for every entrant: the committed one, or the best of a search, with what the search cost.

    A search serves all seeds and is kept in search.json; one in which every trial failed is made again.
    """
    found: Rates = {}
    wanted: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        key = entry.key[:2]
        terms, heat = entry.terms, entry.heat
        committed = None if terms.search else rates.rate_of(heat, entry.entrant)
        if entry.entrant.model in task_of(heat).counted:
            found[key] = {"lr": None}
        elif "lr" in heat.settings:
            found[key] = {"lr": None, "sought": "given, the same for all"}
        elif committed is not None:
            plan = rates.plan_of(heat)
            found[key] = {"lr": committed, "sought": plan.in_words() if plan else None}
        elif terms.search == 0:
            found[key] = {"lr": None, "sought": "not sought"}
        else:
            wanted.setdefault(key, entry)
    known = load_searches(out)
    for plan, missing in _by_plan([entry for key, entry in wanted.items() if "/".join(key) not in known]).items():
        who = "1 entrant" if len(missing) == 1 else f"{len(missing)} entrants"
        progress.say(f"searching rates for {who}: {plan.in_words()}")
        for name, own in search(missing, out, plan, jobs=jobs, progress=progress):
            known[name] = own
            write_aside(out / SEARCHES, (json.dumps(known, indent=1) + "\n").encode())
    for key in wanted:
        own = known["/".join(key)]
        found[key] = {"lr": own["lr"], "search": own, "sought": plan_of_search(own).in_words()}
    return found


def plan_for(entry: Entry) -> Plan:
    """How the rate of an entrant is sought that has none."""
    own = None if entry.terms.search else rates.plan_of(entry.heat)
    count = entry.terms.search or DEFAULT_COUNT
    return own or Plan(tuple(grid(count)), 1 / count)


def plan_of_search(found: dict[str, Any]) -> Plan:
    """How a rate was sought, from what the search found."""
    return Plan(tuple(trial["rate"] for trial in found["tried"]), found.get("share", 1.0))


def _by_plan(entries: Sequence[Entry]) -> dict[Plan, list[Entry]]:
    found: dict[Plan, list[Entry]] = {}
    for entry in entries:
        found.setdefault(plan_for(entry), []).append(entry)
    return found


def search(
    entries: Sequence[Entry], out: Path, plan: Plan, *, jobs: int, progress: Progress
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each entry, as its trials end, the best of the rates that were tried."""
    trials = [
        replace(
            entry,
            lr=lr,
            share=plan.share,
            seed=entry.seed if plan.seed is None else plan.seed,
            folder=out / "search" / f"{entry.folder.name}-{number}",
        )
        for entry in entries
        for number, lr in enumerate(plan.rates)
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
        if len(tried[name]) == len(plan.rates):
            yield name, _best(tried[name], plan.share)


def _best(answers: list[dict[str, Any]], share: float) -> dict[str, Any]:
    """The rate with the lowest validation; of several with the same, the one that came there sooner."""
    answers = sorted(answers, key=lambda answer: answer["rate"])
    good = [answer for answer in answers if answer["value"] is not None]
    best = min(good, key=lambda answer: (answer["value"], answer["way"])) if good else answers[0]
    totals = {name: sum(answer[name] or 0 for answer in answers) for name in ("seconds", "tokens", "flops")}
    return {"lr": best["rate"], "share": share, "tried": answers} | totals


def load_searches(out: Path) -> dict[str, dict[str, Any]]:
    """What earlier searches found, by heat and label, without those in which every trial failed."""
    found = read_searches(out)
    return {name: own for name, own in found.items() if any(one["value"] is not None for one in own["tried"])}


def commit(names: Sequence[str], count: int, share: float, jobs: int) -> None:
    """Search the rates of built-in heats anew and write them beside this file."""
    from .heats import heats as every_heat
    from .heats import ladders

    place = Path(__file__).with_name("rates.json")
    heats = {heat.name: heat for heat in (*every_heat().values(), *ladders().values())}
    for name in names:
        heat, terms, plan = heats[name], Terms(), Plan(tuple(grid(count)), share, SEED)
        with TemporaryDirectory() as scratch:
            out = Path(scratch)
            entries = [
                Entry(heat=heat, terms=terms, entrant=entrant, seed=SEED, folder=folder_of(out, heat, entrant, SEED))
                for entrant in heat.entrants()
                if entrant.model not in task_of(heat).counted
            ]
            found = dict(search(entries, out, plan, jobs=jobs, progress=Progress()))
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
