"""Diagrams of chapter 4: the way of a gradient, the cell of an LSTM, the cell of a GRU."""

from itertools import pairwise

from .kit import SMALL, Diagram, spread


def draw_gradient_path(d: Diagram) -> None:
    rows = (
        ("RNN", "$h$", 0.5, "every step back: × diag(1 − $h^2$)$U$, here like × 0.5"),
        ("LSTM", "$c$", 0.95, "every step back: × $f$, here 0.95"),
    )
    for row, (name, state, factor, label) in enumerate(rows):
        y, places = 190.0 + 260 * row, spread(60, 118, 6)
        d.text(24, y - 152, name, anchor="start", look="bold")
        cells = [d.box(x, y, f"{state[:-1]}_{i}$", "state", w=52) for i, x in enumerate(places)]
        for before, after in pairwise(cells):
            d.arrow(before, after, role="state")
            d.arrow((after.x - 8, y + 40), (before.x + 8, y + 40), role="gradient")
        d.text(355, y + 66, label)
        for back, x in enumerate(reversed(places)):
            d.bar(x, y - 30, 30, 88 * factor**back, "gradient")
            d.text(x, y - 44 - 88 * factor**back, f"{factor**back:.3g}", size=SMALL)


def draw_lstm_cell(d: Diagram) -> None:
    d.frame((84, 28, 612, 342))
    c, product, bus = 76.0, 160.0, 312.0
    names = (
        ("forget gate", "$f$", "σ"),
        ("input gate", "$i$", "σ"),
        ("candidate cell", "$g$", "tanh"),
        ("output gate", "$o$", "σ"),
    )
    f, i, g, o = (
        d.box(x, 245, f"{name}\n{symbol} = {of}", "input" if of == "tanh" else "gate", w=118, h=56, size=SMALL)
        for x, (name, symbol, of) in zip(spread(158, 126, 4), names, strict=True)
    )
    between = (i.x + g.x) / 2
    forget, add = d.circle(f.x, c, "×", "gate"), d.circle(between, c, "+", "state")
    write, squash, read = (
        d.circle(between, product, "×", "gate"),
        d.box(580, 118, "tanh", w=54, h=30, size=SMALL),
        d.circle(580, 175, "×", "gate"),
    )
    before, after = d.text(42, c, "$c_{t−1}$"), d.text(652, c, "$c_t$")
    for start, end in ((before, forget), (forget, add), (add, after)):
        d.arrow(start, end, role="state", look="wide")
    d.arrow(f, forget, role="gate")
    d.arrow(i, (i.x, product), write, role="gate")
    d.arrow(g, (g.x, product), write, role="input")
    d.arrow(write, add, role="input")
    d.dot(580, c, "state", 5)
    d.arrow((580, c), squash, role="state")
    d.arrow(squash, read, role="state")
    d.arrow(o, (o.x, 175), read, role="gate")
    hidden, last, x = d.text(652, 175, "$h_t$"), d.text(42, bus, "$h_{t−1}$"), d.text(112, 372, "$x_t$")
    d.arrow(read, hidden, role="output")
    d.line(last, (o.x, bus), role="plain")
    d.arrow(x, (112, bus + 2), role="input")
    for gate in (f, i, g, o):
        d.arrow((gate.x, bus), gate)
        d.dot(gate.x, bus)
    d.dot(112, bus)
    d.text(250, 372, "$c$ ← $f·c$ + $i·g$", anchor="start")
    d.text(450, 372, "$h$ ← $o$·tanh($c$)", anchor="start")


def draw_gru_cell(d: Diagram) -> None:
    d.frame((84, 28, 560, 392))
    h, blend, inner = 76.0, 136.0, 200.0
    names = (("reset gate", "$r$", "σ"), ("update gate", "$z$", "σ"), ("candidate", "$n$", "tanh"))
    r, z, n = (
        d.box(x, 272, f"{name}\n{symbol} = {of}", "input" if of == "tanh" else "gate", w=116, h=56, size=SMALL)
        for x, (name, symbol, of) in zip((186, 324, 474), names, strict=True)
    )
    keep, add, mix = (
        d.circle(z.x, h, "×", "gate"),
        d.circle(n.x + 22, h, "+", "state"),
        d.circle(n.x + 22, blend, "×", "gate"),
    )
    reset, rest = d.circle(r.x, inner, "×", "gate"), d.box(405, blend, "1 −", "gate", w=44, h=30)
    before, after, x = d.text(42, h, "$h_{t−1}$"), d.text(600, h, "$h_t$"), d.text(42, 372, "$x_t$")
    for start, end in ((before, keep), (keep, add), (add, after)):
        d.arrow(start, end, role="state", look="wide")
    d.dot(r.x, h, "state", 5)
    d.arrow((r.x, h), reset, role="state")
    d.arrow(r, reset, role="gate")
    d.arrow(reset, (n.x - 22, inner), n, role="state")
    d.arrow(z, keep, role="gate")
    d.dot(z.x, blend, "gate", 5)
    d.arrow((z.x, blend), rest, role="gate")
    d.arrow(rest, mix, role="gate")
    d.arrow((n.x + 22, n.rect.top - 2), mix, role="input")
    d.arrow(mix, add, role="input")
    d.dot(110, h, "state", 5)
    d.arrow((110, h), (110, 336), (z.x - 18, 336), z, role="state")
    d.dot(r.x - 18, 336, "state")
    d.arrow((r.x - 18, 336), r, role="state")
    d.arrow(x, (n.x, 372), n, role="input")
    for gate in (r, z):
        d.dot(gate.x + 18, 372, "input")
        d.arrow((gate.x + 18, 372), gate, role="input")
    d.text(322, 418, "$h$ ← (1 − $z$)·$n$ + $z·h$")
    d.text(322, 446, "$z$ = 1: keep; $z$ = 0: replace by $n$", look="soft", size=SMALL)
