"""The colours of pages and figures, for light and dark: ten that stay apart for colour-blind eyes too."""

import re

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
    ("#01132b", "#56fd7c"),
    ("#3f0467", "#d6f905"),
)
INKS = {
    "paper": ("#ffffff", "#14171a"),
    "panel": ("#f5f6f8", "#1d2226"),
    "ink": ("#1a1f24", "#e6e9ec"),
    "soft": ("#56616c", "#a5afb9"),
    "rule": ("#d5dae0", "#363d44"),
    "grid": ("#e8ebef", "#272d33"),
    "shade": ("#9aa4af", "#5d6873"),  # at the edge of what scrolls
    "link": ("#0b57c2", "#7db9f5"),
    "good": ("#0a6b4a", "#5fd0a2"),
    "bad": ("#a3192f", "#ff98a3"),
    "mixed": ("#7a5200", "#e5bd5c"),
}
SIGNS = {  # of maps: what is above 0, and what is below it; they read on light and on dark paper
    "above": (46, 120, 200),
    "below": (214, 96, 30),
}
COLOURS = {f"series-{i}": pair for i, pair in enumerate(SERIES)} | INKS


def variables() -> str:
    """The declarations that a page's root needs: one variable a colour, which follows the theme."""
    return "".join(f"--{name}:light-dark({light},{dark});" for name, (light, dark) in COLOURS.items())


def resolve(css: str, theme: str) -> str:
    """The same rules with plain colours, for files that stand alone."""
    return re.sub(r"var\(--([\w-]+)\)", lambda found: COLOURS[found[1]][THEMES.index(theme)], css)
