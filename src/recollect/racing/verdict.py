"""Who won a heat: nobody below a guess, and nobody whose lead has no interval, or one that holds 0."""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ..core import numbers
from ..core.metric import Metric
from .standing import Lead, Standing, measure_lead, measure_margin

MORE_SEEDS = "--seeds 3 gives one"
OPEN, CLOSE = "\u2068", "\u2069"  # Unicode's isolates: around each name in a sentence, until it is cut into pieces


CLOSE_COMMA_OPEN = f"{CLOSE}, {OPEN}"


class Name(str):
    """The name of a model inside a sentence; a page sets it in bold."""


def mark_names(pieces: Sequence[str]) -> str:
    """Pieces as one text, with a mark on each side of a name."""
    return "".join(_named(piece) if isinstance(piece, Name) else piece for piece in pieces)


def split_names(text: str) -> list[str]:
    """A text with marked names as pieces of a sentence."""
    parts = re.split(f"{OPEN}(.*?){CLOSE}", text)
    return [Name(part) if place % 2 else part for place, part in enumerate(parts) if part]


def _named(name: str) -> str:
    return f"{OPEN}{name}{CLOSE}"


class Place(NamedTuple):
    """An entrant beside the first."""

    standing: Standing
    verdict: str  # first, won, level, behind or unknown
    lead: Lead | None = None  # of the first on it


class Verdict:
    """The entrants that finished, the best mean first, and what can be said of the differences between them."""

    def __init__(self, metric: Metric, ranked: Sequence[Standing], baselines: Sequence[tuple[str, float]]) -> None:
        self.metric, self.ranked, self.baselines = metric, ranked, baselines

    @cached_property
    def places(self) -> list[Place]:
        """Every entrant; the first has won where all others are behind it and a guess is too."""
        if not self.ranked:
            return []
        best, *rest = self.ranked
        found = [self._compare(best, other) for other in rest]
        won = bool(found) and not self.below_guess and all(place.verdict == "behind" for place in found)
        return [Place(best, "won" if won else "first"), *found]

    def _compare(self, best: Standing, other: Standing) -> Place:
        lead = measure_lead(best, other, self.metric.sign)
        if self.metric.is_tie(best.mean, other.mean) or (lead is not None and not lead.clear):
            return Place(other, "level", lead)
        return Place(other, "unknown" if lead is None else "behind", lead)

    @cached_property
    def guess(self) -> tuple[str, float] | None:
        """The best guess without a network."""
        return max(self.baselines, key=lambda item: self.metric.sign * item[1]) if self.baselines else None

    @cached_property
    def below_guess(self) -> str:
        """Why the first is not above the best guess; empty where it is."""
        if self.guess is None or not self.ranked:
            return ""
        best, (_, value) = self.ranked[0], self.guess
        if self.metric.sign * (best.mean - value) <= 0:
            return "which is no better than a guess"
        margin = measure_margin(best, value, self.metric.sign)
        return f"but {self._words_over(margin)} a guess is not ruled out" if margin and not margin.clear else ""

    def in_words(self) -> list[str]:
        """The winner and its lead, who is level, or why nobody won; pieces of a sentence."""
        return split_names(self._sentence())

    def _sentence(self) -> str:
        if not self.ranked:
            return "No entry finished, so nobody won."
        best, metric = self.ranked[0], self.metric
        name = _named(best.name)
        score = f"{metric.label} {metric.write(best.mean)}"
        if self.below_guess:
            return f"Nobody won: first is {name}, {score}, {self.below_guess}."
        if len(self.ranked) == 1:
            return f"Only {name} has a result: {score}." + f" {self._range_of(best)}"
        others = self.places[1:]
        level = [place.standing for place in others if place.verdict == "level"]
        behind = next((place for place in others if place.verdict != "level"), None)
        mark = self._mark(best)
        if level:
            leaders = [best, *level]
            means = [standing.mean for standing in leaders]
            if len({metric.write(mean) for mean in means}) > 1:
                score = f"{metric.label} {metric.write_range(min(means), max(means))}"
            following = f"next is {behind.standing.name} ({metric.write(behind.standing.mean)})" if behind else ""
            score = "; ".join(part for part in (score, following) if part)
            return f"{_join_names(leaders)} are level: {score}." + f"{mark} {self._why_level(others)}"
        second, lead = others[0].standing, others[0].lead
        ahead, by = metric.write(second.mean), metric.write_difference(abs(best.mean - second.mean))
        if any(place.verdict == "unknown" for place in others):
            words = (
                f"Nobody won: {name} is first: {score}, ahead of {second.name} ({ahead}) by {by}; but one seed gives "
                f"no interval, so that they count as level: {MORE_SEEDS}."
            )
            return words + mark
        assert lead is not None
        if lead.over == "counts":
            words = (
                f"{name} won: {score}, ahead of {second.name} ({ahead}) by {by}, and what is counted is the same with "
                "every seed."
            )
        else:
            low, high = numbers.fixed(metric.factor * lead.low, metric.digits), metric.write_difference(lead.high)
            words = (
                f"{name} won: {score}, ahead of {second.name} ({ahead}) by {by} (95 % interval {low} to {high}, "
                f"{self._words_over(lead)})."
            )
        return words + mark + self._luck(lead)

    def _words_over(self, lead: Lead) -> str:
        """What an interval is over."""
        if lead.over == "seeds":
            return f"over {lead.number} seeds"
        split = self.ranked[0].rows[0].get("split")
        part = "the test part" if split == "test" else "validation"
        return f"over {lead.number} pieces of {part}, one seed"

    @staticmethod
    def _luck(lead: Lead) -> str:
        return " Another seed may still turn it: --seeds 3 tells." if lead.over == "pieces" else ""

    def _why_level(self, others: Sequence[Place]) -> str:
        """What a difference is held to."""
        known = [place.lead for place in others if place.lead is not None]
        if len(known) < len(others):
            return f"One seed gives no interval: {MORE_SEEDS}."
        lead = next((lead for lead in known if lead.over != "counts"), known[0])
        if lead.over == "counts":
            return "What is counted is the same with every seed."
        return f"A lead counts where its 95 % interval leaves out 0, {self._words_over(lead)}." + self._luck(lead)

    def _range_of(self, best: Standing) -> str:
        if best.counted:
            return "What is counted is the same with every seed."
        if len(best.rows) == 1:
            return f"One seed gives no interval: {MORE_SEEDS}."
        return f"Over seeds, it ranges from {self.metric.write_range(min(best.values), max(best.values))}."

    @staticmethod
    def _mark(best: Standing) -> str:
        return f" It is marked: {'; '.join(best.unfair_sentences)}." if best.unfair else ""

    def compare_to_baselines(self) -> list[str]:
        """How the models stand against the best guess without a network; pieces of a sentence."""
        if self.guess is None or not self.ranked:
            return []
        sign, (guess, value) = self.metric.sign, self.guess
        behind = [standing for standing in self.ranked if sign * standing.mean <= sign * value]
        who = "no model does better"
        if not behind:
            who = "every model does better"
        elif len(behind) < len(self.ranked):
            who = f"{_join_names(behind)} {'does' if len(behind) == 1 else 'do'} no better"
        best = self.metric.write(value)
        return split_names(f"The best guess without a network, {guess}, gets {best}; {who} than that.")

    # In tables and rows

    def behind_cell(self, name: str) -> str:
        """How far an entrant is behind the first: the interval, or that it is level."""
        place = next((place for place in self.places if place.standing.name == name), None)
        if place is None or place.verdict in ("first", "won"):
            return numbers.MISSING
        if place.verdict == "level":
            return "level"
        if place.lead is None or place.lead.over == "counts":
            return "no interval"
        ends = [
            numbers.fixed(self.metric.factor * end, self.metric.digits) for end in (place.lead.low, place.lead.high)
        ]
        return " to ".join(ends)

    def to_json(self, name: str) -> dict[str, Any] | None:
        """The same for the rows of an entrant."""
        for number, place in enumerate(self.places, 1):
            if place.standing.name == name:
                found = {"place": number, "verdict": place.verdict, "below_guess": self._is_below(place.standing)}
                return found | {"behind": place.lead.to_json() if place.lead else None}
        return None

    def _is_below(self, standing: Standing) -> bool:
        return self.guess is not None and self.metric.sign * (standing.mean - self.guess[1]) <= 0


def _join_names(standings: Sequence[Standing]) -> str:
    """a, b and c."""
    *first, last = (standing.name for standing in standings)
    return f"\u2068{CLOSE_COMMA_OPEN.join(first)}\u2069 and \u2068{last}\u2069" if first else _named(last)
