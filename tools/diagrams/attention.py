"""Diagrams of chapters 8 and 9: dot products, Q K V, kernel regression, heads, masks, positions."""

import math
from collections.abc import Sequence

from .kit import SMALL, Diagram, spread

WORDS = ((1.0, 0.0), (1.0, 1.0), (0.0, 2.0))  # the three of chapter 8 by hand


def softmax(scores: Sequence[float]) -> list[float]:
    parts = [math.exp(score - max(scores)) for score in scores]
    return [part / sum(parts) for part in parts]


def draw_dot_product(d: Diagram) -> None:
    unit, x0, y0 = 100.0, 60.0, 270.0

    def place(x: float, y: float) -> tuple[float, float]:
        return x0 + unit * x, y0 - unit * y

    d.arrow((x0, y0), place(1.75, 0), look="thin")
    d.arrow((x0, y0), place(0, 2.45), look="thin")
    d.text(place(1.75, 0)[0] - 40, y0 + 20, "romance", look="soft", size=SMALL)
    d.text(x0 + 14, place(0, 2.4)[1], "action", anchor="start", look="soft", size=SMALL)
    for i, (x, y) in enumerate(WORDS, 1):
        d.arrow((x0, y0), place(x, y), role="input" if i == 2 else "state", look="wide")
        d.text(place(x, y)[0] + 14, place(x, y)[1] - 12, f"$x_{i}$", anchor="start")
    products = [sum(a * b for a, b in zip(WORDS[1], word, strict=True)) for word in WORDS]
    weights = softmax(products)
    y = [sum(w * word[i] for w, word in zip(weights, WORDS, strict=True)) for i in (0, 1)]
    d.dot(*place(*y), "output", 7)
    d.text(place(*y)[0] - 14, place(*y)[1] - 14, "$y_2$", anchor="end")
    d.text(300, 30, "agreement", look="soft", size=SMALL)
    d.text(490, 30, "weight", look="soft", size=SMALL)
    for j, (product, weight, down) in enumerate(zip(products, weights, spread(76, 56, 3), strict=True), 1):
        agree = d.box(300, down, f"$x_2·x_{j}$ = {product:.0f}", "plain", w=120)
        d.arrow(agree, (446, down), role="gate")
        d.bar(450 + 75 * weight, down + 13, 150 * weight, 26, "gate")
        d.text(462 + 150 * weight, down, f"{weight:.3f}", anchor="start", size=SMALL)
    d.text(405, 104, "softmax", size=SMALL, look="soft")
    d.text(262, 250, f"$y_2$ = {weights[0]:.3f}$x_1$ + {weights[1]:.3f}$x_2$ + {weights[2]:.3f}$x_3$", anchor="start")
    d.text(288, 280, f"= ({y[0]:.2f}, {y[1]:.2f})", anchor="start")


def draw_qkv(d: Diagram) -> None:
    cell, n = 26.0, len(WORDS)
    scores = [[sum(a * b for a, b in zip(q, k, strict=True)) / math.sqrt(2) for k in WORDS] for q in WORDS]
    weights = [softmax(row) for row in scores]
    x = d.grid(44, 150, n, 2, cell, "plain")
    d.text(44, 96, "$X$")
    made = []
    for name, role, y in (("q", "input", 60.0), ("k", "state", 150.0), ("v", "state", 290.0)):
        project = d.box(126, y, f"$W_{name}$", "weight", w=50, h=34)
        made.append(d.grid(204, y, n, 2, cell, role))
        d.arrow(x, *(() if y == x.y else ((82, x.y), (82, y))), project)
        d.arrow(project, made[-1])
        d.text(240, y - 26, f"${name.upper()}$", anchor="start")
    q, k, v = made
    shade = [[score / max(map(max, scores)) for score in row] for row in scores]
    scored = d.grid(342, 105, n, n, 34, "plain", shade=shade)
    for part, down in ((q, 95), (k, 115)):
        d.arrow(part, (270, part.y), (270, down), (scored.rect.left - 3, down), role="input" if part is q else "state")
    d.text(342, 34, "$QK^⊤$ ∕ √$d$")
    shown = [[f"{w:.2f}" for w in row] for row in weights]
    looked = d.grid(538, 105, n, n, 34, "gate", shade=weights, texts=shown, size=13.5, wide=42)
    d.arrow(scored, looked, role="gate")
    d.text(434, 86, "softmax", size=SMALL, look="soft")
    d.text(538, 34, "every row sums to 1", size=SMALL, look="soft")
    times = d.circle(538, 228, "×", "gate")
    d.arrow(looked, times, role="gate")
    d.arrow(v, (538, v.y), times, role="state")
    y = d.grid(636, times.y, n, 2, cell, "output")
    d.arrow(times, y, role="output")
    d.text(636, times.y - 56, "$Y$")


def draw_kernel_regression(d: Diagram) -> None:
    keys = (0.3, 1.1, 1.7, 2.9, 3.6, 4.4, 5.2)
    values = [math.sin(k) + 0.25 * math.cos(7 * k) for k in keys]
    q = 2.4

    def across(k: float) -> float:
        return 60 + 100 * k

    def forecast(at: float) -> float:
        weights = softmax([-0.5 * (at - k) ** 2 for k in keys])
        return sum(w * v for w, v in zip(weights, values, strict=True))

    base, low = 130.0, 330.0
    d.arrow((40, low), (620, low), look="thin")
    d.text(606, low + 24, "$k$")
    d.curve([(across(0.05 * i), base - 75 * forecast(0.05 * i)) for i in range(112)], "output")
    d.line((across(q), 28), (across(q), low), role="input", look="dashed")
    d.text(across(q), low + 24, "$q$")
    weights = softmax([-0.5 * (q - k) ** 2 for k in keys])
    for k, v, weight in zip(keys, values, weights, strict=True):
        d.dot(across(k), base - 75 * v, "state", 4 + 14 * weight)
        d.bar(across(k), low, 20, 320 * weight, "gate")
    peak = max(weights) / math.exp(-0.5 * min((q - k) ** 2 for k in keys))
    bell = [(across(0.05 * i), low - 320 * peak * math.exp(-0.5 * (q - 0.05 * i) ** 2)) for i in range(112)]
    d.curve(bell, "gate", "thin")
    d.dot(across(q), base - 75 * forecast(q), "output", 7)
    d.text(across(q) + 14, base - 75 * forecast(q) - 18, "forecast $v̂$($q$)", anchor="start")
    d.text(across(0) - 20, base - 75 * 1.25, "known: $k_j$, $v_j$", anchor="start")
    d.text(across(4.0), low - 70, "weights: nearness to $q$", anchor="start", size=SMALL)


def draw_heads(d: Diagram) -> None:
    n, cell, places = 4, 17.0, spread(70, 132, 3)
    middle = places[1]
    patterns = (
        [[float(j == max(i - 1, 0)) for j in range(n)] for i in range(n)],
        [[0.25] * n for _ in range(n)],
        [[float(j == 0) for j in range(n)] for _ in range(n)],
    )
    x = d.grid(40, middle, n, 6, 12, "plain")
    joined = d.grid(486, middle, n, 6, 12, "output")
    for m, (y, pattern) in enumerate(zip(places, patterns, strict=True), 1):
        for at, role, name in zip((142, 186, 230), ("input", "state", "state"), "QKV", strict=True):
            d.grid(at, y, n, 2, cell, role)
            d.text(at, y - 48, f"${name}_{m}$")
        parts = d.frame((116, y - 62, 256, y + 42))
        looks = d.grid(314, y, n, n, cell, "gate", shade=pattern)
        head = d.grid(392, y, n, 2, cell, "output")
        turn = () if m == 2 else ((96, middle), (96, y))
        d.arrow(x, *turn, parts)
        d.arrow(parts, looks)
        d.arrow(looks, head, role="gate")
        d.arrow(head, *(() if m == 2 else ((432, y), (432, middle))), joined, role="output")
        d.text(388, y - 48, f"‘head’$_{m}$", size=SMALL)
    mix = d.box(562, middle, "$W_o$", "weight", w=46)
    y = d.grid(644, middle, n, 6, 12, "output")
    d.arrow(joined, mix, role="output")
    d.arrow(mix, y, role="output")
    for grid, name in ((x, "$X$"), (joined, "side by side"), (y, "$Y$")):
        d.text(grid.x + (10 if grid is joined else 0), middle - 42, name, size=SMALL if grid is joined else 17)
        d.text(grid.x, middle + 40, "$T$ × $D$", size=SMALL, look="soft")
    d.text(392, places[-1] + 52, "$T$ × $D ∕ h$", look="soft", size=SMALL)
    d.text(314, places[-1] + 52, "$T$ × $T$", look="soft", size=SMALL)


def draw_mask_positions(d: Diagram) -> None:
    n, cell = 5, 38.0
    seen = [[float(i <= t) * 0.5 for i in range(n)] for t in range(n)]
    signs = [["" if i <= t else "−∞" for i in range(n)] for t in range(n)]
    grid = d.grid(290, 165, n, n, cell, "gate", shade=seen, texts=signs)
    for i in range(n):
        d.text(grid.rect.left + (i + 0.5) * cell, grid.rect.top - 18, f"{i + 1}", size=SMALL)
        d.text(grid.rect.left - 18, grid.rect.top + (i + 0.5) * cell, f"{i + 1}", size=SMALL)
    d.text(290, 22, "place $t$ looks at $i$", size=SMALL, look="soft")
    d.text(154, 165, "$t$", look="soft")
    d.text(290, 290, "$e_{t,i}$ = −∞ for $i > t$")
    left, step = 40.0, 18.0
    for row, (omega, under) in enumerate(((1.0, ""), (0.1, " ∕ 10"), (0.01, " ∕ 100"))):
        y = 410.0 + 84 * row
        d.line((left, y), (left + 22 * step, y), look="thin")
        for wave, look in ((math.sin, ""), (math.cos, "dashed")):
            d.curve([(left + 0.25 * i * step, y - 28 * wave(0.25 * i * omega)) for i in range(89)], "input", look)
        for t in range(23):
            d.dot(left + t * step, y - 28 * math.sin(t * omega), "input", 2.6)
        for name, down, look in (("sin", -12, ""), ("cos", 12, "dashed")):
            end = left + 22 * step + 36
            d.line((end - 24, y + down), (end, y + down), role="input", look=look)
            d.text(end + 8, y + down, f"{name} $t${under}", anchor="start", size=SMALL)
    d.text(left + 11 * step, 354, "positions, $D$ = 8: a wave for each pair of numbers", size=SMALL, look="soft")
    for t in (0, 5, 10, 15, 20):
        d.text(left + t * step, 630, f"{t}", size=SMALL)
    d.text(left + 22.5 * step, 630, "$t$")
