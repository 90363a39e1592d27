"""The colours of pages and figures, for light and dark: eight that stay apart for colour-blind eyes too."""

import itertools
import re
from collections.abc import Sequence

THEMES = ("light", "dark")
SERIES = (  # each 3 : 1 or more against its paper; any two 20 or more apart in CIELAB, also to colour-blind eyes
    ("#2066e5", "#3eaee2"),
    ("#ee6d21", "#f4d1b9"),
    ("#20a078", "#327f4a"),
    ("#c81ca7", "#d149a7"),
    ("#735107", "#a19233"),
    ("#1b0bbc", "#7a5ce0"),
    ("#750823", "#d68c9d"),
    ("#05505f", "#ace1ea"),
)
INKS = {
    "paper": ("#ffffff", "#14171a"),
    "panel": ("#f5f6f8", "#1d2226"),
    "ink": ("#1a1f24", "#e6e9ec"),
    "soft": ("#56616c", "#a5afb9"),
    "rule": ("#d5dae0", "#363d44"),
    "grid": ("#e8ebef", "#272d33"),
    "link": ("#0b57c2", "#7db9f5"),
    "good": ("#0a6b4a", "#5fd0a2"),
    "bad": ("#a3192f", "#ff98a3"),
    "mixed": ("#7a5200", "#e5bd5c"),
}
COLOURS = {f"series-{i}": pair for i, pair in enumerate(SERIES)} | INKS


def variables() -> str:
    """The declarations that a page's root needs: one variable a colour, which follows the theme."""
    return "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items())


def resolve(css: str, theme: str) -> str:
    """The same rules with plain colours, for files that stand alone."""
    return re.sub(r"var\(--([\w-]+)\)", lambda found: COLOURS[found[1]][THEMES.index(theme)], css)


class Keys:
    """Style numbers of names, the same in every chart of a page, assigned in the order of first use."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}

    def of(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = max(self.names.values(), default=-1) + 1
        return self.names[name]

    def alike(self, name: str, other: str) -> None:
        """Give a name the style of another."""
        self.names.setdefault(name, self.of(other))

    def together(self, names: Sequence[str]) -> None:
        """Assign styles to names that share charts: no colour twice among them while there are enough."""
        for name in names:
            taken = {self.names[one] % len(SERIES) for one in names if one in self.names}
            free = (key for key in itertools.count() if key not in self.names.values())
            if name not in self.names:
                self.names[name] = next(
                    key for key in free if key % len(SERIES) not in taken or len(taken) == len(SERIES)
                )

    def within(self, names: Sequence[str]) -> "Keys":
        """Styles for one chart: known names as everywhere, the others the first that are free."""
        found = Keys()
        found.names = {name: self.names[name] for name in names if name in self.names}
        found.together(names)
        return found

    def __contains__(self, name: str) -> bool:
        return name in self.names
