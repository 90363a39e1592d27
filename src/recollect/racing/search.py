"""The search for learning rates: one grid for all, an equal share of the budget for each rate, the best by validation.

Committed rates are used where every entrant has one. As soon as one has none, a layer of the user's own for example,
all are searched in this race: the same rates, sizes and steps for each. An entrant with results keeps its rate.

python -m recollect.racing.search recall translation text    writes the committed rates.json anew
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..core.files import write_aside
from ..core.heat import Entrant
from ..training.progress import Progress
from . import rates
from .entry import Entry, folder_of, grid, nothing, try_rate
from .processes import Died, Task, count_cores
from .rates import COMMITTED, SEED, Plan
from .rows import SEARCHES, Row, is_failed, read_searches
from .terms import Terms, task_of
from .workers import Local, Workers

DEFAULT_COUNT = 3  # rates that are tried where the heat has no committed ones
Rates = dict[tuple[str, str], dict[str, Any]]  # heat and label → lr, and what finding it took


def rates_for(
    entries: Sequence[Entry],
    rows: Iterable[Row],
    out: Path,
    *,
    own: Sequence[Entry],
    workers: Workers,
    progress: Progress,
) -> Rates:
    """A rate for every entrant: that of its rows, the committed one, or the best of a search, with the search's cost.

    `entries` are all entries of the race, of which `own` are to be run here, `rows` those that have ended. A search
    serves all seeds and is kept in search.json; one in which every trial failed, or that tried other rates, is made
    again.
    """
    done = [row for row in rows if not is_failed(row)]
    own_rows = {(row["heat"], row["entry"]): row for row in done}
    ended = {(row["heat"], row["entry"], row["seed"]) for row in done}
    plans = {entry.heat.name: plan_for(entry, entries, done) for entry in entries}
    found: Rates = {}
    wanted: dict[tuple[str, str], Entry] = {}
    for entry in own:
        key = entry.key[:2]
        plan = plans[entry.heat.name]
        if entry.key in ended:
            continue
        committed = None if entry.terms.search else rates.rate_of(entry.heat, entry.entrant)
        if entry.entrant.model in task_of(entry.heat).counted:
            found[key] = {"lr": None}
        elif "lr" in entry.heat.settings:
            found[key] = {"lr": None, "sought": "given, the same for all"}
        elif before := own_rows.get(key):
            rate, how = before["settings"]["train"]["lr"], before["fair"].get("search")
            found[key] = {"lr": rate, "search": before.get("search"), "sought": how}
        elif committed is not None and (plan is None or entry.terms.committed):
            found[key] = {"lr": committed, "sought": COMMITTED}
        elif plan is None:
            found[key] = {"lr": None, "sought": "not sought"}
        else:
            wanted.setdefault(key, entry)
    known = load_searches(out)
    for plan, missing in _by_plan(wanted.values(), plans).items():
        missing = [entry for entry in missing if not _is_searched(known, entry, plan)]
        if not missing:
            continue
        who = "1 entrant" if len(missing) == 1 else f"{len(missing)} entrants"
        progress.say(f"searching rates for {who}: {plan.in_words()}; the lowest on validation is taken")
        for name, best in search(missing, out, plan, workers=workers, progress=progress):
            known[name] = best
            write_aside(out / SEARCHES, (json.dumps(known, indent=1) + "\n").encode())
    for key in wanted:
        best = known["/".join(key)]
        found[key] = {"lr": best["lr"], "search": best, "sought": plan_of_search(best).in_words()}
    return found


def plan_for(entry: Entry, entries: Iterable[Entry], done: Iterable[Row]) -> Plan | None:
    """How rates are sought in the heat of this entry, the same for all; None where there is nothing to seek.

    Who has results counts as in the field, and whoever comes later is searched as those before were.
    """
    heat, terms = entry.heat, entry.terms
    if terms.search is not None:
        return Plan(tuple(grid(terms.search)), 1 / terms.search) if terms.search else None
    rows = [row for row in done if row["heat"] == heat.name]
    if searches := [row["search"] for row in rows if row.get("search")]:
        return plan_of_search(searches[0])
    field = [own.entrant for own in entries if own.heat.name == heat.name]
    field += [Entrant(label=row["entry"], model=row["model"]) for row in rows]
    counted = task_of(heat).counted
    if all(own.model in counted or rates.rate_of(heat, own) is not None for own in field):
        return None
    return rates.plan_of(heat) or Plan(tuple(grid(DEFAULT_COUNT)), 1 / DEFAULT_COUNT)


def _is_searched(known: Mapping[str, dict[str, Any]], entry: Entry, plan: Plan) -> bool:
    own = known.get("/".join(entry.key[:2]))
    return own is not None and plan_of_search(own) == plan


def plan_of_search(found: dict[str, Any]) -> Plan:
    """How a rate was sought, from what the search found."""
    return Plan(tuple(trial["rate"] for trial in found["tried"]), found.get("share", 1.0))


def _by_plan(entries: Iterable[Entry], plans: Mapping[str, Plan | None]) -> dict[Plan, list[Entry]]:
    found: dict[Plan, list[Entry]] = {}
    for entry in entries:
        if plan := plans[entry.heat.name]:
            found.setdefault(plan, []).append(entry)
    return found


def search(
    entries: Sequence[Entry], out: Path, plan: Plan, *, workers: Workers, progress: Progress
) -> Iterator[tuple[str, dict[str, Any]]]:
    """For each entry, as its trials end, the best of the rates that were tried."""
    trials = [
        replace(
            entry,
            lr=lr,
            share=plan.share,
            seed=SEED,
            folder=out / "search" / f"{entry.folder.name}-{number}",
        )
        for entry in entries
        for number, lr in enumerate(plan.rates)
    ]
    tried: dict[str, list[dict[str, Any]]] = {}
    tasks = [Task(number, try_rate, trial) for number, trial in reversed(list(enumerate(trials)))]
    for done, (task, answer) in enumerate(workers.run(tasks), 1):
        trial = trials[task.number]
        if answer is None:
            raise KeyboardInterrupt
        if isinstance(answer, Died):
            answer = nothing(trial) | {"error": answer.reason}
        value = (
            f"failed: {answer.get('error') or 'no validation was reached'}"
            if answer["value"] is None
            else f"{answer['value']:.4f} on validation, less is better"
        )
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
        heat, terms, plan = heats[name], Terms(), Plan(tuple(grid(count)), share)
        with TemporaryDirectory() as scratch:
            out = Path(scratch)
            entries = [
                Entry(heat=heat, terms=terms, entrant=entrant, seed=SEED, folder=folder_of(out, heat, entrant, SEED))
                for entrant in heat.entrants()
                if entrant.model not in task_of(heat).counted
            ]
            found = dict(search(entries, out, plan, workers=Local(jobs=jobs), progress=Progress()))
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
