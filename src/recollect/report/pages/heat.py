"""One heat of a race as sections of a page: what was asked, who won, and what can be seen of why."""

from collections.abc import Sequence
from typing import Any

from ...core import numbers
from ..drawing.colour import Keys
from ..drawing.svg import escape, tag
from . import explain, page, samples, standing, views
from .metric import Metric
from .page import Once, figure, say, section
from .verdict import Write, listed, verdict


class Heat:
    """A heat with its rows, ready to be told."""

    def __init__(self, heat: dict[str, Any], rows: Sequence[dict[str, Any]], keys: Keys, once: Once) -> None:
        self.heat, self.keys, self.once = heat, keys, once
        self.name, self.title = str(heat["name"]), str(heat.get("title") or heat["name"])
        self.id = page.anchor("heat", self.name)
        self.metric = Metric(heat.get("metric") or {})
        self.entries = standing.entries(heat, rows)
        self.ranked = standing.ranked(self.entries, self.metric.better)
        self.baselines = standing.baselines(self.entries, self.metric, heat.get("learning"))
        self.metric.fit(value for entry in self.ranked for value in entry.values)
        self._share_looks()

    def _share_looks(self) -> None:
        """A rung looks like its model elsewhere on the page, unless several rungs are of one model."""
        models = [entry.model for entry in self.entries]
        if len(set(models)) < len(models):
            models = [entry.name for entry in self.entries]
        self.keys.together(models)
        for entry, model in zip(self.entries, models, strict=True):
            self.keys.alike(entry.name, model)

    # In words

    def seeds(self) -> str:
        """How many seeds there are: "one seed", "3 seeds", "2 to 3 seeds"."""
        found = sorted({len(entry.rows) for entry in self.ranked})
        if found == [1]:
            return "one seed"
        return f"{found[0]} seeds" if len(found) == 1 else f"{found[0]} to {found[-1]} seeds"

    def answer(self) -> str:
        """Who won, by how much, and whether that is more than luck; HTML."""
        return verdict(self.ranked, self.metric, text=escape, name=_stressed)

    def told(self) -> str:
        """The same in plain words, for a terminal."""
        said = f"{verdict(self.ranked, self.metric)} {self.guesses(text=str, name=str)}"
        return said.strip().replace(numbers.BLANK, " ")

    def guesses(self, *, text: Write = escape, name: Write | None = None) -> str:
        """How the models stand against the best guess without a network; HTML, unless written otherwise."""
        if not self.baselines or not self.ranked:
            return ""
        sign = self.metric.sign
        guess, value = max(self.baselines, key=lambda item: sign * item[1])
        behind = [entry for entry in self.ranked if sign * entry.mean <= sign * value]
        said = f"The best guess without a network, {text(guess)}, gets {self.metric.value(value)}"
        if not behind:
            return said + "; every model does better than that."
        if len(behind) == len(self.ranked):
            return said + "; no model does better than that."
        plural = "does" if len(behind) == 1 else "do"
        names = listed([(name or _stressed)(entry.name) for entry in behind])
        return said + f"; {names} {plural} no better than that."

    # Sections

    def sections(self) -> str:
        parts = [
            self.asked(),
            self.won(),
            self.ladder(),
            views.learning(self),
            views.positions(self),
            views.costs(self),
            samples.section(self.ranked),
            views.gradients(self),
        ]
        return section(self.title, *parts, id_=self.id)

    def asked(self) -> str:
        better = "more is better" if self.metric.better == "higher" else "less is better"
        meaning = explain.METRICS.get(self.metric.name)
        measured = f"Measured is {escape(self.metric.label)} ({better})" + (f": {meaning}." if meaning else ".")
        return section(
            "What was asked",
            say(page.prose(self.heat.get("question"))),
            say(measured),
            page.pairs((escape(name), text) for name, text in self._terms()),
            level=3,
        )

    def _terms(self) -> list[tuple[str, str]]:
        terms = self.heat.get("terms") or {}
        order = [key for key in explain.TERMS if key in terms]
        found = []
        for key in [*order, *(key for key in terms if key not in order)]:
            value = terms[key]
            if key == "budget" and terms.get("equal") == "params":
                continue  # it is the steps
            if value is None or value in ({}, [], ""):
                continue
            if key == "equal":
                sized = value != "params" or terms.get("params") is not None
                text = explain.EQUAL.get(str(value), str(value)) if sized else explain.STEPS
            elif key == "params":
                text = f"about {numbers.brief(value)} each. {self.once(explain.PARAMETERS)}"
            elif isinstance(value, bool):
                text = "yes" if value else "no"
            elif numbers.known(value):
                text = numbers.brief(value)
            else:
                text = escape(_listed(value))
            found.append((explain.TERMS.get(key, key.replace("_", " ")), text))
        return found

    def won(self) -> str:
        if not self.ranked:
            return section("Who won", say(self.answer(), class_="answer"), self._notes(), level=3)
        spread = explain.RANGE if any(len(entry.rows) > 1 for entry in self.ranked) else ""
        meanings = (explain.BEST, explain.SEED, spread, explain.TOKEN, explain.FLOP, explain.STATE)
        return section(
            "Who won",
            say(self.answer(), class_="answer"),
            say(self.guesses()),
            figure(self.dots(), self.keys, self._dots_note()),
            self.table(),
            say(*(self.once(meaning) for meaning in meanings), class_="note"),
            say(explain.UNFAIR, class_="note") if any(entry.unfair for entry in self.ranked) else "",
            self._notes(),
            level=3,
        )

    def _notes(self) -> str:
        notes = [tag("li", page.prose(note)) for note in self.heat.get("notes") or []]
        return tag("ul", *notes, class_="note") if notes else ""

    def dots(self) -> dict[str, Any]:
        """The main picture: a dot and a range for each, with the guesses without a network as lines across."""
        found = self.entries if self.heat.get("rungs") else [*self.ranked, *(e for e in self.entries if not e.rows)]
        lines = [
            {
                "name": entry.name,
                "x": [entry.name],
                "y": [self.metric.factor * entry.mean if entry.rows else None],
                "low": [self.metric.factor * min(entry.values)] if entry.rows else None,
                "high": [self.metric.factor * max(entry.values)] if entry.rows else None,
                "seeds": [self.metric.factor * value for value in entry.values],
                "said": self.metric.value(entry.mean) if entry.rows else "no result",
            }
            for entry in found
        ]
        arrow = "more is better →" if self.metric.better == "higher" else "← less is better"
        title = (
            f"{self.metric.label[:1].upper()}{self.metric.label[1:]} by {'rung' if self.heat.get('rungs') else 'model'}"
        )
        return {
            "title": title,
            "x": f"{self.metric.axis} ({arrow})",
            "y": "",
            "kind": "dots",
            "lines": lines,
            "levels": [(name, self.metric.factor * value) for name, value in self.guesses_near()[0]],
        }

    def guesses_near(self) -> tuple[list[tuple[str, float]], list[tuple[str, float]]]:
        """The guesses that stand near the results, and those so far off that results would crowd beside them.

        All shares are near: their axis has two ends. So is what is a tenth of a result away.
        """
        values = [value for entry in self.ranked for value in entry.values]
        if not values or self.metric.unit == "%":
            return self.baselines, []
        low, high = min(values), max(values)
        reach = max(high - low, 0.1 * max(abs(low), abs(high)))
        near = [(name, value) for name, value in self.baselines if low - reach <= value <= high + reach]
        return near, [guess for guess in self.baselines if guess not in near]

    def _dots_note(self) -> str:
        if self.seeds() == "one seed":
            what = "Mark: the result of the one seed."
        else:
            what = f"Large mark: mean over {self.seeds()}; small dots: each seed; line: from least to greatest."
        near, far = self.guesses_near()
        said = self.once(explain.BASELINE) if near else ""
        if far:
            beyond = ", ".join(f"{escape(name)} {self.metric.value(value)}" for name, value in far)
            said += f" Without a network, and beyond this picture: {beyond}."
        return f"{what} {said}"

    def table(self) -> str:
        spread = any(len(entry.rows) > 1 for entry in self.ranked)
        columns = [
            "place",
            "rung" if self.heat.get("rungs") else "model",
            self.metric.label,
            *(["range over seeds"] if spread else []),
            "parameters",
            "tokens learned from",
        ]
        columns += ["work", "time", "state"]
        rows = []
        means = [entry.mean for entry in self.ranked]
        for entry in self.ranked:
            low, high = min(entry.values), max(entry.values)
            dagger = tag("sup", page.link("†", "unequal")) if entry.unfair else ""
            reach = self.metric.range(low, high) if len(entry.rows) > 1 else "one seed"
            counted = entry.average("entries")
            size = numbers.count(entry.average("params"))
            rows.append(
                [
                    str(1 + means.index(entry.mean)),  # equals share a place
                    page.link(entry.name, page.anchor("card", entry.model)) + dagger,
                    f"<strong>{self.metric.value(entry.mean)}</strong>",
                    *([reach] if spread else []),
                    f"{numbers.count(counted)} counts" if counted else size,
                    numbers.count(entry.average("tokens")),
                    numbers.flops(entry.average("flops")),
                    numbers.duration(entry.average("seconds")),
                    numbers.size(entry.average("state_bytes")),
                ]
            )
        right = [i for i in range(len(columns)) if i != 1]
        return page.table(columns, rows, label=f"{self.title}: ranking", right=right)

    def ladder(self) -> str:
        rungs = self.heat.get("rungs") or []
        if not rungs:
            return ""
        by_name = {entry.name: entry for entry in self.entries}
        rows, before = [], None
        for rung in rungs:
            entry = by_name.get(str(rung["name"]))
            done = entry is not None and bool(entry.rows)
            found = standing.gain(before, entry, self.metric.better) if before and entry else None
            cells = ["", "", ""]
            if found is not None:
                ends = self.metric.steps(found.low, found.high)
                cells = [
                    self.metric.step(found.mean, sign=True),
                    ends if found.seeds > 1 else numbers.MISSING,
                    found.verdict,
                ]
            elif before is not None:
                cells[2] = "no result" if not done else "the rung before has no result"
            value = self.metric.value(entry.mean) if done and entry else numbers.MISSING
            rows.append([escape(rung["name"]), escape(rung.get("change") or ""), value, *cells])
            before = entry
        columns = ["rung", "what changed", self.metric.label, "bought", "range over seeds", "told by the seeds"]
        return section(
            "What each change bought",
            say(self.once(explain.RUNG), "“Bought” is counted so that more is better, seed by seed."),
            page.table(
                columns, rows, label=f"{self.title}: rung by rung", right=(2, 3, 4), class_="ladder", stacked=True
            ),
            views.against_state(self),
            views.written(self),
            level=3,
        )


def _stressed(name: str) -> str:
    return f"<strong>{escape(name)}</strong>"


def _listed(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_listed(one)}" for key, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
