"""The look of each name in a chart: a colour, a mark and a stroke; of a model the same in every figure, for ever.

Models whose layers are of one kind share a colour and differ in mark and stroke. A model from outside the package has a
colour that no other has; its mark follows from its name.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

from .colour import SERIES


class Look(NamedTuple):
    """`colour` and `mark` are numbers of `SERIES` and of `svg.MARKS`; `dashed` lines have hollow marks."""

    colour: int
    mark: int
    dashed: bool = False


MARKS = 8
BLUE, ORANGE, GREEN, MAGENTA, BROWN, INDIGO, RED, TEAL, BLACK, PURPLE = range(10)
MODELS = {  # never change a line: figures that were printed stand by it
    "transformer": Look(BLUE, 0),
    "lstm": Look(ORANGE, 1),
    "gru": Look(GREEN, 2),
    "rnn": Look(MAGENTA, 3),
    "mlp": Look(BROWN, 4),
    "ar": Look(BROWN, 5, True),
    "linear-transformer": Look(INDIGO, 6),
    "retention": Look(INDIGO, 2, True),
    "gla": Look(BLUE, 1, True),
    "mamba2": Look(TEAL, 5, True),
    "delta": Look(MAGENTA, 6, True),
    "gated-delta": Look(BLACK, 7, True),
    "ttt-linear": Look(RED, 7),
    "ttt-mlp": Look(RED, 0, True),
    "tcn": Look(TEAL, 1),
    "ngram": Look(BLACK, 2),
    "fixed": Look(MAGENTA, 0),
    "context": Look(GREEN, 4),
    "attend": Look(ORANGE, 2),
    "conv": Look(TEAL, 3),
    "bag": Look(BLACK, 5),
    "mixture": Look(BLACK, 6, True),
    "dot": Look(BROWN, 0),
    "features": Look(INDIGO, 1),
    "biases": Look(BLACK, 3, True),
    "mingru": Look(GREEN, 6, True),
    "minlstm": Look(ORANGE, 7, True),
    "ctc": Look(TEAL, 0),
}
LAYERS = {  # layers look like the models that are made of them
    "attention": MODELS["transformer"],
    "linear-attention": MODELS["linear-transformer"],
    "window": MODELS["mlp"],
    "soft-align": MODELS["attend"],
    "cross-attention": Look(BLUE, 4, True),
}
KNOWN = MODELS | LAYERS


def look_of_model(name: str, taken: Iterable[Look] = ()) -> Look:
    """Of a model from outside too: then a mark that follows from its name, in a colour that no entrant has."""
    if name in KNOWN:
        return KNOWN[name]
    used = {look.colour for look in taken}
    order = [PURPLE, *(colour for colour in range(len(SERIES)) if colour != PURPLE)]
    return Look(next((colour for colour in order if colour not in used), PURPLE), crc32(name.encode()) % MARKS)


class Keys:
    """Looks of names, the same in every chart of a page: of models those of `MODELS`, of others as they come."""

    def __init__(self) -> None:
        self.names: dict[str, Look] = {}

    def of(self, name: str) -> Look:
        if name not in self.names:
            self.names[name] = MODELS.get(name) or self._free(self.names)
        return self.names[name]

    def alike(self, name: str, model: str) -> None:
        """Give a name the look of a model."""
        self.models([model])
        self.names.setdefault(name, self.names[model])

    def models(self, names: Sequence[str]) -> None:
        """Looks of models that share charts."""
        for name in sorted(names):  # in any order of entrants the same
            if name not in self.names:
                taken = [self.names.get(one) or KNOWN.get(one) for one in names]
                self.names[name] = look_of_model(name, [look for look in taken if look is not None])

    def together(self, names: Sequence[str]) -> None:
        """Looks of names that share charts: no colour twice among them while there are enough."""
        for name in names:
            if name not in self.names:
                self.names[name] = MODELS.get(name) or self._free(names)

    def _free(self, group: Iterable[str]) -> Look:
        """The first look that nothing has, in a colour that the group has not."""
        taken = {look.colour for name in group if (look := self.names.get(name) or MODELS.get(name)) is not None}
        given = set(self.names.values())
        every = (Look(c, (c + turn) % MARKS, bool(turn)) for turn in range(MARKS) for c in range(len(SERIES)))
        free = (look for look in every if look not in given)
        full = len(taken) == len(SERIES)
        return next((look for look in free if look.colour not in taken or full), Look(0, 0))

    def within(self, names: Sequence[str]) -> "Keys":
        """Looks for one chart: known names as everywhere, the others the first that are free."""
        found = Keys()
        found.names = {name: self.names[name] for name in names if name in self.names}
        found.together(names)
        return found

    def of_chart(self, chart: dict[str, Any]) -> "Keys":
        """Looks of a chart's lines: those that name their model look like it, several of one model apart."""
        lines = [line for line in chart.get("lines") or [] if line.get("model")]
        if not lines:
            return self
        found = Keys()
        found.names = dict(self.names)
        found.models(sorted({str(line["model"]) for line in lines}))
        used: set[Look] = set()
        for line in lines:
            first = found.names[str(line["model"])]
            turns = itertools.count()
            look = next(
                look
                for turn in turns
                if (look := Look(first.colour, (first.mark + turn) % MARKS, first.dashed != bool(turn % 2))) not in used
                or turn > 2 * MARKS
            )
            used.add(look)
            found.names[str(line["name"])] = look
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.names
