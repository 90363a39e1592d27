"""Diagrams of chapters 5 to 7: encoder and decoder, both ways, soft alignment, captions."""

import math
from itertools import pairwise

from recollect.report.drawing.svg import tag

from .kit import SMALL, Diagram, spread

SOURCE = ("I", "do", "not", "know")
TARGET = ("je", "ne", "sais", "pas")


def draw_encoder_decoder(d: Diagram) -> None:
    for name, y in (("fixed", 110.0), ("context", 350.0)):
        d.text(24, y - 68, f"‘{name}’", anchor="start", look="bold")
        reading, writing = spread(50, 72, 4), spread(420, 72, 4)
        source = [d.box(x, y, f"$h_{i}$", "state", w=48) for i, x in enumerate(reading, 1)]
        target = [d.box(x, y, f"$s_{i}$", "state", w=48) for i, x in enumerate(writing, 1)]
        c = d.circle(343, y, "$c$", "state", r=21)
        for before, after in zip([*source, *target[:-1]], [*source[1:], c, *target[1:]], strict=False):
            d.arrow(before, after, role="state")
        for before, after in pairwise(target):
            d.arrow(before, after, role="state")
        for cell, word in zip(source, SOURCE, strict=True):
            d.arrow(d.text(cell.x, y + 92, f"‘{word}’"), cell, role="input")
        aside = 0 if name == "fixed" else 11
        for cell, word, before in zip(target, TARGET, ("$y_0$", *TARGET), strict=False):
            read = d.text(cell.x + aside, y + 92, before if "$" in before else f"‘{before}’")
            d.arrow(read, (cell.x + aside, cell.rect.bottom + 2), role="input")
            d.arrow(cell, d.text(cell.x, y - 66, f"‘{word}’"), role="output")
        if name == "fixed":
            d.arrow(c, target[0], role="state", look="wide")
        else:
            d.arrow(c, (c.x, y + 54), (target[-1].x - 11, y + 54), target[-1], role="state", look="wide")
            for cell in target[:-1]:
                d.arrow((cell.x - 11, y + 54), cell, role="state", look="wide")
        d.text(158, y + 122, "encoder", look="soft", size=SMALL)
        d.text(528, y + 122, "decoder", look="soft", size=SMALL)


def draw_both_ways(d: Diagram) -> None:
    places = spread(120, 128, 4)
    top, middle, low = 50.0, 140.0, 230.0
    ahead = [d.box(x - 26, low, f"$h^{{→}}_{i}$", "state", w=62) for i, x in enumerate(places, 1)]
    back = [d.box(x + 26, middle, f"$h^{{←}}_{i}$", "state", w=62) for i, x in enumerate(places, 1)]
    for a, b, x, i in zip(ahead, back, places, range(1, 5), strict=True):
        word, _ = d.box(x, 316, f"$x_{i}$", "input", w=90), d.box(x, top, f"$h_{i}$", "output", w=90)
        d.arrow(word, (x - 26, a.rect.bottom + 2), role="input")
        d.arrow((x + 26, word.rect.top - 2), b, role="input")
        d.arrow(a, (x - 26, top + 22), role="state")
        d.arrow(b, (x + 26, top + 22), role="state")
    start, end = d.text(24, low, "$h^{→}_0$"), d.text(places[-1] + 128, middle, "$h^{←}_5$")
    for before, after in zip([start, *ahead], ahead, strict=False):
        d.arrow(before, after, role="state")
    for before, after in zip([end, *reversed(back)], reversed(back), strict=False):
        d.arrow(before, after, role="state")


def draw_alignment_step(d: Diagram) -> None:
    places, numbers = spread(110, 96, 3), (1, 2, 4)
    total = sum(math.exp(e) for e in numbers)
    sum_y, bars, soft, score, source = 48.0, 190.0, 232.0, 306.0, 420.0
    d.frame((62, source - 32, 350, source + 32))
    query = d.box(470, score + 40, "$s_{t−1}$", "state", w=72)
    add = d.circle(206, sum_y, "Σ", "gate")
    softmax = d.box(206, soft, "softmax", "gate", w=266, h=32)
    d.line(query, (places[0] + 14, score + 40), role="input")
    for i, (x, e) in enumerate(zip(places, numbers, strict=True), 1):
        h = d.box(x, source, f"$h_{i}$ = {e}", "state", w=80)
        a = d.box(x, score, f"$e_{i}$ = {e}", "plain", w=80, h=34)
        d.arrow(h, (x - 14, a.rect.bottom + 2), role="state")
        d.arrow((x + 14, score + 40), (x + 14, a.rect.bottom + 2), role="input")
        d.arrow(a, softmax)
        weight = math.exp(e) / total
        d.bar(x, bars + 14, 34, 84 * weight, "gate")
        d.text(x + 24, bars + 6, f"{weight:.3f}", anchor="start", size=SMALL)
    d.text(84, bars - 24, "$α$", size=20)
    d.line((93, 118), (319, 118), role="gate")
    d.arrow((206, 118), add, role="gate")
    d.arrow((60, source), (18, source), (18, sum_y), add, role="state")
    d.text(30, 350, "values", anchor="start", size=SMALL, look="soft")
    context = d.box(352, sum_y, "$c_t$ = 3.646", "state", w=126)
    after = d.box(500, sum_y, "$s_t$", "state", w=72)
    d.arrow(add, context, role="state")
    d.arrow(context, after, role="state")
    d.arrow((500, query.rect.top - 2), after, role="state")
    d.arrow(after, d.text(590, sum_y, "$y_t$"), role="output")
    d.arrow(d.text(590, sum_y + 70, "$y_{t−1}$"), (522, sum_y + 70), after, role="input")
    d.text(388, score + 24, "query", size=SMALL, look="soft")
    d.text(362, source, "source, read by the encoder", anchor="start", size=SMALL, look="soft")


CELLS = ((0, 0), (2, 2), (0, 2), (0, 0))  # red, round: the picture of chapter 7 by hand


def draw_picture_to_words(d: Diagram) -> None:
    d.text(90, 20, "picture", look="soft", size=SMALL)
    seen = d.grid(90, 105, 2, 2, 70)
    for x, y, paint in ((125, 70, "#d62f2f"), (55, 140, "#8b949e")):
        d.parts.append(tag("circle", cx=x, cy=y, r=24, style=f"fill:{paint}"))
    d.text(366, 20, "features $h_{ij}$: (red, round)", look="soft", size=SMALL)
    texts = [[f"({a}, {b})" for a, b in CELLS[i : i + 2]] for i in (0, 2)]
    grid = d.grid(366, 105, 2, 2, 70, "state", texts=texts, size=17, wide=86)
    cnn = d.box(222, 105, "CNN", "weight", w=62)
    d.arrow(seen, cnn)
    d.arrow(cnn, grid)
    d.text(236, 224, "$α$ = softmax($s·h_{ij}$)")
    d.line((352, grid.rect.bottom + 2), (352, 404), role="state")
    for word, s, y in (("red", (1, 0), 304.0), ("round", (0, 1), 444.0)):
        scores = [a * s[0] + b * s[1] for a, b in CELLS]
        total = sum(map(math.exp, scores))
        weights = [math.exp(score) / total for score in scores]
        c = [sum(w * cell[i] for w, cell in zip(weights, CELLS, strict=True)) for i in (0, 1)]
        ask = d.box(76, y, f"$s$ = ({s[0]}, {s[1]})", "state", w=104)
        look = d.grid(244, y, 2, 2, 54, "gate", shade=[weights[:2], weights[2:]],
                      texts=[[f"{w:.3f}" for w in weights[i : i + 2]] for i in (0, 2)], wide=70)  # fmt: skip
        add = d.circle(392, y, "Σ", "gate")
        mixed = d.box(518, y, f"$c$ = ({c[0]:.2f}, {c[1]:.2f})", "state", w=164)
        d.arrow(ask, look, role="input")
        d.arrow(look, add, role="gate")
        d.arrow((352, y - 40), (392, y - 40), add, role="state")
        d.arrow(add, mixed, role="state")
        d.arrow(mixed, d.text(518, y + 64, word, look="bold"), role="output")
    d.text(76, 262, "question", look="soft", size=SMALL)
