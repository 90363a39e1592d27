"""Diagrams of chapters 1 to 3: a window that moves, a network unrolled, ways to cut backpropagation through time."""

import math

from .kit import SMALL, Diagram, spread


def draw_sequence(d: Diagram) -> None:
    places, seen, tau = spread(50, 66, 10), 7, 4
    values = [math.sin(0.75 * i + 0.3) for i in range(len(places))]
    errors = [0.10, 0.18, 0.22]  # those of chapter 1 by hand

    def height(value: float) -> float:
        return 105 - 48 * value

    d.curve([(50 + i * 6.6, height(math.sin(0.075 * i + 0.3))) for i in range(91)], look="thin dashed")
    for i, (x, value) in enumerate(zip(places, values, strict=True)):
        ahead = i - seen
        d.dot(x, height(value if ahead < 0 else value + 1.4 * errors[ahead]), "input" if ahead < 0 else "output", 5.5)
    border = (places[seen - 1] + places[seen]) / 2
    d.line((border, 18), (border, 175), look="thin")
    d.text(border - 14, 22, "seen: interpolation", anchor="end", look="soft", size=SMALL)
    d.text(border + 14, 22, "ahead: extrapolation", anchor="start", look="soft", size=SMALL)
    last = None
    for step, y in enumerate((222.0, 352.0)):
        first = seen - tau + step
        names = [
            f"$x_{{t{i - seen + 1:+d}}}$".replace("+0", "").replace("-", "−") for i in range(first, seen + step + 1)
        ]
        *window, ahead = (
            d.box(places[first + i], y, name, "input" if first + i < seen else "output", w=50)
            for i, name in enumerate(names)
        )
        d.frame((window[0].x - 32, y - 29, window[-1].x + 32, y + 29))
        middle = (window[0].x + window[-1].x) / 2
        f = d.box(middle, y + 66, "$f$", "weight", w=50, h=34)
        d.arrow((middle, y + 30), f, role="input")
        d.arrow(f, (ahead.x - 10, f.y), ahead, role="output")
        d.text(window[0].x - 44, y, "the last $τ$ values" if not step else "one step later", anchor="end")
        if last:
            d.arrow((last.x + 10, last.rect.bottom + 2), (last.x + 10, y - 31), role="output")
            d.text(last.x + 22, y - 66, "fed back", anchor="start", size=SMALL, look="soft")
        last = ahead


def draw_unrolled_rnn(d: Diagram) -> None:
    def column(x: float, step: str) -> tuple:
        o, h, i = (
            d.circle(x, 40, f"$o_{step}$", "output", r=20),
            d.box(x, 140, f"$h_{step}$", "state", w=56, h=46),
            d.circle(x, 240, f"$x_{step}$", "input", r=20),
        )
        d.arrow(i, h, role="input")
        d.arrow(h, o, role="output")
        d.text(x + 9, 192, "$W$", anchor="start")
        d.text(x + 9, 88, "$V$", anchor="start")
        return o, h, i

    _, loop, _ = column(60, "t")
    d.arrow((loop.x + 30, 129), (loop.x + 62, 129), (loop.x + 62, 152), (loop.x + 30, 152), role="state")
    d.text(loop.x + 72, 140, "$U$", anchor="start")
    d.text(186, 140, "=", size=24, look="soft")
    before = d.text(228, 140, "$h_0$")
    for step, x in enumerate(spread(304, 92, 4), 1):
        _, h, _ = column(x, str(step))
        d.arrow(before, h, role="state")
        d.text((before.x + before.w / 2 + x - 28) / 2, 122, "$U$")
        before = h
    d.arrow(before, (before.x + 62, 140), role="state")
    d.text(before.x + 76, 140, "…")
    d.text(32, 290, "one cell with a loop", anchor="start", look="soft", size=SMALL)
    d.text(442, 290, "unrolled: many copies, one set of weights $W$, $U$, $V$", look="soft", size=SMALL)


TEXT = "the time traveller for so"  # how The Time Machine begins, in small letters


def draw_bptt_cuts(d: Diagram) -> None:
    cell, left = 24.0, 30.0
    rows = (
        ("random lengths", (3, 8, 11, 18, 20)),
        ("equal lengths: truncated", (5, 10, 15, 20)),
        ("no cut: full", ()),
    )
    for row, (name, cuts) in enumerate(rows):
        y = 70.0 + 118 * row
        letters = [["␣" if letter == " " else letter for letter in TEXT]]
        text = d.grid(
            left + len(TEXT) * cell / 2, y, 1, len(TEXT), cell, "input", texts=[[f"‘{a}’" for a in letters[0]]]
        )
        d.text(left, y - 42, name, anchor="start", look="bold", size=SMALL)
        for begin, end in zip((0, *cuts), (*cuts, len(TEXT)), strict=True):
            d.arrow((left + end * cell - 5, y - 20), (left + begin * cell + 5, y - 20), role="gradient")
        for cut in cuts:
            d.line((left + cut * cell, y - 30), (left + cut * cell, y - 13), role="plain")
        d.arrow((left + 3, y + 22), (text.rect.right + 22, y + 22), role="state")
    d.arrow((left + 3, 366), (left + 48, 366), role="state")
    d.text(left + 58, 366, "the state always goes on", anchor="start", size=SMALL)
    d.arrow((left + 358, 366), (left + 313, 366), role="gradient")
    d.text(left + 368, 366, "the gradient ends at a cut", anchor="start", size=SMALL)
