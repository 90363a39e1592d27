"""The map of the lineage, drawn: ideas from left to right as they came, or from top to bottom on a narrow page."""

from ...core.language import breakable, localize
from ...report.drawing.svg import escape, picture, tag, words
from .history import BY_NAME, IDEAS, ROWS, Idea

BOX, HIGH = 88.0, 40.0
STEP_X, STEP_Y = 97.0, 72.0
LEFT, TOP = 8.0, 30.0
NARROW = 760  # pixels below which the map stands upright
SLOT = 50.0  # between two ideas of an upright map


def draw(chosen: str, wide: int) -> str:
    """The map with one idea chosen. Each idea can be focused and pressed: `data-name` says which it is."""
    upright = wide < NARROW
    columns, rows = max(idea.column for idea in IDEAS) + 1, len(ROWS)
    order = {idea.name: number for number, idea in enumerate(sorted(IDEAS, key=lambda idea: (idea.column, idea.row)))}
    step_x = (wide - BOX - 2) / (rows - 1) if upright else max(STEP_X, (wide - BOX - 2 * LEFT) / (columns - 1))
    width = float(wide) if upright else LEFT * 2 + (columns - 1) * step_x + BOX
    height = 10 + len(IDEAS) * SLOT if upright else TOP + rows * STEP_Y

    def place(idea: Idea) -> tuple[float, float]:
        if upright:
            return 1 + idea.row * step_x, 4 + order[idea.name] * SLOT
        return LEFT + idea.column * step_x, TOP + idea.row * STEP_Y

    parts = []
    if not upright:
        for number, name in enumerate(ROWS):
            y = TOP + number * STEP_Y
            parts.append(tag("line", x1=0.0, x2=width, y1=y - 18, y2=y - 18, class_="grid"))
            first = min((idea.column for idea in IDEAS if idea.row == number), default=0)
            after = first == 0
            last = max(idea.column for idea in IDEAS if idea.row == number)
            x = LEFT + (last + 1) * step_x + 6 if after else LEFT
            parts.append(words(x, y + HIGH / 2 + 4, localize(name), "soft"))
    for idea in IDEAS:
        for name in idea.after:
            near = chosen in (idea.name, name)
            parts.append(_edge(place(BY_NAME[name]), place(idea), BOX, upright=upright, near=near))
    near = {chosen, *BY_NAME[chosen].after, *(idea.name for idea in IDEAS if chosen in idea.after)}
    for idea in IDEAS:
        parts.append(_node(idea, *place(idea), BOX, chosen=idea.name == chosen, near=idea.name in near))
    title = localize("The lineage: which memory came after which")
    drawn = picture(*parts, width=width, height=height, title=title, description=title, class_="lineage")
    return drawn.replace('role="img"', 'role="group"', 1)


def _edge(start: tuple[float, float], end: tuple[float, float], box: float, *, upright: bool, near: bool) -> str:
    if upright or start[0] >= end[0]:
        x1, y1, x2, y2 = start[0] + box / 2, start[1] + HIGH, end[0] + box / 2, end[1]
        bend = max(10.0, abs(y2 - y1) / 2)
        path = f"M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    else:
        x1, y1, x2, y2 = start[0] + box, start[1] + HIGH / 2, end[0], end[1] + HIGH / 2
        bend = max(8.0, min(60.0, (x2 - x1) / 2))
        path = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    return tag("path", d=path, class_="edge near" if near else "edge")


def _node(idea: Idea, x: float, y: float, box: float, *, chosen: bool, near: bool) -> str:
    lines = _lines(idea.name, box)
    top = y + HIGH / 2 - 6.5 * (len(lines) - 1) - 2
    texts = [
        tag(
            "text", escape(line), x=x + box / 2, y=top + 13.0 * i, class_="strong", text_anchor="middle", font_size=11.5
        )
        for i, line in enumerate(lines)
    ]
    year = tag(
        "text", str(idea.year), x=x + box / 2, y=y + HIGH - 4, class_="soft", text_anchor="middle", font_size=9.5
    )
    shape = tag("rect", x=x, y=y, width=box, height=HIGH, rx=7, class_="box")
    state = "chosen" if chosen else "near" if near else ""
    return tag(
        "g", shape, *texts, year, class_=f"idea {state}".rstrip(), data_name=idea.name, tabindex=0, role="button",
        aria_pressed="true" if chosen else "false", aria_label=f"{idea.name}, {idea.year}",
    )  # fmt: skip


def _lines(name: str, box: float) -> list[str]:
    if len(name) * 6.6 <= box - 6:
        return [name]
    parts = [part for part in breakable(name.replace("-", "- ")) if part.strip()]
    return [part.strip() for part in parts][:2]
