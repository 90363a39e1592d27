"""Diagrams of chapters 10 to 12: the block, three methods, receptive field, three stores, KV cache, a step of TTT."""

from itertools import pairwise

from .kit import SMALL, Diagram, Node, spread


def sublayer(d: Diagram, x: float, y: float, label: str, role: str = "weight") -> tuple[Node, Node]:
    """A residual sublayer, upwards from (x, y): norm, what it does, the sum; its block and where it ends."""
    norm = d.box(x, y - 38, "layer norm", "plain", w=150, h=30, size=SMALL)
    block = d.box(x, y - 102, label, role, w=150, h=48, size=SMALL)
    add = d.circle(x, y - 164, "+", "state")
    for start, end in (((x, y), norm), (norm, block), (block, add)):
        d.arrow(start, end, role="state")
    d.arrow((x, y - 10), (x - 94, y - 10), (x - 94, add.y), add, role="state")
    return block, add


def draw_transformer_block(d: Diagram) -> None:
    foot, ends = 640.0, []
    for x, labels, word in (
        (150.0, ("self-attention", "feed-forward"), "source + positions"),
        (480.0, ("masked\nself-attention", "cross-attention", "feed-forward"), "target so far + positions"),
    ):
        y, blocks = foot - 30, []
        d.line(d.text(x, foot + 16, word, look="soft", size=SMALL), (x, y), role="input")
        for label in labels:
            block, add = sublayer(d, x, y, label, "gate" if "attention" in label else "weight")
            blocks.append(block)
            y = add.rect.top - 2
        d.frame((x - 112, y - 14, x + 100, foot - 14))
        name = "encoder, × $N$" if x < 300 else "decoder, × $N$"
        d.text(x - 112, y - 32, name, anchor="start", look="bold", size=SMALL)
        last = d.box(x, y - 66, "layer norm", "plain", w=150, h=30, size=SMALL)
        d.arrow((x, y), last, role="state")
        ends.append((blocks, last))
    (_, memory), (blocks, last) = ends
    d.arrow(memory, (302, memory.y), (302, blocks[1].y), blocks[1], role="state", look="wide")
    d.text(330, blocks[1].y - 20, "$k$, $v$")
    d.text(blocks[1].x + 12, blocks[1].rect.bottom + 13, "$q$", anchor="start", size=SMALL)
    d.arrow(last, d.text(480, last.y - 50, "next word", look="soft", size=SMALL), role="output")


def draw_three_methods(d: Diagram) -> None:
    n, xs = 7, spread(60, 88, 7)
    for name, cost, y, layers, reach in (
        ("recurrence", "path $T$ − 1; one step after another", 60.0, 0, 1),
        ("convolution, $k$ = 3", "path ($T$ − 1) ∕ ($k$ − 1); all places at once", 215.0, 3, 3),
        ("attention", "path 1; all places at once; $T$($T$ + 1) ∕ 2 pairs", 490.0, 1, n),
    ):
        d.text(36, y - 42, name, anchor="start", look="bold")
        d.text(xs[-1] + 24, y - 42, cost, anchor="end", look="soft", size=SMALL)
        high = 64.0 if layers == 3 else 120.0 if layers else 58.0
        foot = y + high * max(layers, 1)
        rows = [[d.box(x, foot, f"$x_{i}$", "input", w=38, h=30) for i, x in enumerate(xs, 1)]]
        for level in reversed(range(max(layers, 1))):
            roles = ["output" if level == 0 and x == xs[-1] else "state" for x in xs]
            rows.append([d.circle(x, y + high * level, "", role, r=11) for x, role in zip(xs, roles, strict=True)])
        if not layers:
            for low, cell in zip(*rows, strict=True):
                d.arrow(low, cell, role="input")
            for before, after in pairwise(rows[1]):
                d.arrow(before, after, role="state", look="wide")
        for level, (below, upper) in enumerate(pairwise(rows) if layers else ()):
            way = (reach - 1) * level
            lower = below if level else [box.at(0, -1.1) for box in below]
            for i, back in ((place, back) for place in range(n) for back in range(min(reach, place + 1))):
                if (i - back, back) != (way, reach - 1):
                    d.line(lower[i - back], upper[i], look="thin")
            d.arrow(lower[way], upper[way + reach - 1], role="state", look="wide")


def draw_receptive_field(d: Diagram) -> None:
    n, kernel, dilations, high = 15, 3, (1, 2, 4), 92.0
    xs = spread(40, 42, n)
    needed = [{n - 1}]
    for dilation in reversed(dilations):
        needed.insert(0, {i - j * dilation for i in needed[0] for j in range(kernel)})
    below: dict[int, Node] = {}
    for level, units in enumerate(needed):
        y, role = 330 - high * level, "input" if level == 0 else "output" if len(units) == 1 else "state"
        for i in {*range(n)} - units:
            d.dot(xs[i], y, r=2.5)
        row = {i: d.circle(xs[i], y, "", role, r=10) for i in sorted(units)}
        for i in row if level else ():
            for j in range(kernel):
                d.arrow(below[i - j * dilations[level - 1]], row[i], role="state")
        if level:
            d.text(xs[-1] + 22, y + high / 2, f"$d_{level}$ = {dilations[level - 1]}", anchor="start")
        below = row
    d.text(xs[0], 364, "$x_1$")
    d.text(xs[-1], 364, "$x_{15}$")
    d.text(xs[-1] + 22, 54, "$y_{15}$", anchor="start")
    d.text((xs[0] + xs[-1]) / 2, 364, "receptive field $R$ = 1 + 2·(1 + 2 + 4) = 15")


def draw_three_stores(d: Diagram) -> None:
    columns = (
        ("a vector", "RNN: $h$", "$h$ ← φ($Wx$ + $Uh$ + $b$)", "overwritten; same size"),
        ("a list", "attention: $k$, $v$", "append $k$, $v$", "nothing lost; grows"),
        ("weights", "TTT: $W$", "$W$ ← $W$ − $η$∇$ℓ$($W$)", "trained; same size"),
    )
    for column, (name, store, update, cost) in enumerate(columns):
        x = 150.0 + 212 * column
        d.frame((x - 98, 16, x + 98, 440))
        d.text(x, 42, name, look="bold")
        d.text(x, 70, store, look="soft", size=SMALL)
        nodes = []
        for t, y in enumerate(spread(124, 88, 3), 1):
            if column == 0:
                nodes.append(
                    d.grid(x, y, 1, 4, 26, "state", shade=[[0.1 + 0.2 * ((3 * t + j * j) % 4) for j in range(4)]])
                )
            elif column == 1:
                nodes.append(
                    d.grid(
                        x, y, 2, t, 24, "state", wide=40, texts=[[f"${s}_{i}$" for i in range(1, t + 1)] for s in "kv"]
                    )
                )
            else:
                nodes.append(
                    d.grid(
                        x,
                        y,
                        3,
                        3,
                        20,
                        "state",
                        shade=[[0.1 + 0.2 * ((t * i + j + t) % 4) for j in range(3)] for i in range(3)],
                    )
                )
        for before, after in pairwise(nodes):
            start, end = (x, before.rect.bottom + 2), (x, after.rect.top - 2)
            d.arrow(start, end, role="gradient" if column == 2 else "state")
        d.text(x, 374, update, size=SMALL)
        d.text(x, 412, cost, look="soft", size=SMALL)
    for t, y in enumerate(spread(124, 88, 3), 1):
        d.arrow(d.text(22, y, f"$x_{t}$"), (50, y), role="input")


def draw_kv_cache(d: Diagram) -> None:
    cell, left = 58.0, 250.0
    d.text(58, 24, "one new token", look="soft", size=SMALL)
    d.text(left - 14, 24, "cache", look="soft", size=SMALL, anchor="start")
    for t, y in enumerate(spread(92, 130, 4), 1):
        x = d.text(30, y, f"$x_{t}$")
        q = d.box(104, y - 24, f"$q_{t}$", "input", w=50, h=34)
        new = d.box(104, y + 24, f"$k_{t}$, $v_{t}$", "state", w=76, h=34)
        d.arrow(x, q, role="input")
        d.arrow(x, new, role="input")
        names = [[f"$k_{i}$" for i in range(1, t + 1)], [f"$v_{i}$" for i in range(1, t + 1)]]
        fresh = [[0.1] * (t - 1) + [0.5]] * 2
        kept = d.grid(left - 14 + cell * t / 2, y + 24, 2, t, 27, "state", wide=cell, shade=fresh, texts=names)
        turn = () if t == 1 else ((new.x, y + 69), (kept.rect.right - cell / 2, y + 69))
        d.arrow(new, *turn, kept, role="state")
        y_t = d.text(560, y - 30, f"$y_{t}$")
        look = d.circle(500, y - 30, "Σ", "gate")
        d.arrow((q.rect.right + 3, y - 30), look, role="input")
        for x in spread(left - 14 + cell / 2, cell, t):
            d.line((x, kept.rect.top - 2), (x, y - 27), role="gate")
        d.arrow(look, y_t, role="output")


def draw_ttt_step(d: Diagram) -> None:
    x = d.text(34, 190, "$x_t$")
    keys = []
    for name, role, y in (("k", "state", 90.0), ("v", "state", 190.0), ("q", "input", 300.0)):
        project = d.box(112, y, f"$W_{name}$", "weight", w=52, h=34)
        keys.append(d.box(190, y, f"${name}_t$", role, w=44, h=34))
        d.arrow(x, *(() if y == 190 else ((66, 190), (66, y))), project, role="input")
        d.arrow(project, keys[-1], role=role)
    k, v, q = keys
    inner = d.box(302, 90, "$f$($k_t$; $W_{t−1}$)", "state", w=130)
    loss = d.box(302, 190, "$ℓ$ = ½‖$f$ − $v_t$‖$^2$", "plain", w=150)
    d.arrow(k, inner, role="state")
    d.arrow(v, loss, role="state")
    d.arrow(inner, loss)
    before = d.box(302, 24, "$W_{t−1}$", "state", w=80)
    after = d.box(536, 24, "$W_t$", "state", w=80)
    step = d.circle(420, 24, "−", "gradient")
    d.arrow(before, inner, role="state")
    d.arrow(before, step, role="state", look="wide")
    d.arrow(step, after, role="state", look="wide")
    d.arrow(loss, (420, 190), step, role="gradient")
    d.text(430, 110, "$η$∇$ℓ$($W_{t−1}$)", anchor="start")
    read = d.box(536, 300, "$f$($q_t$; $W_t$)", "output", w=124)
    d.arrow(q, read, role="input")
    d.arrow(after, read, role="state")
    d.arrow(read, d.text(640, 300, "$y_t$"), role="output")
    d.text(302, 236, "one step of training", look="soft", size=SMALL)
    d.text(336, 324, "read with the new weights", look="soft", size=SMALL)


def draw_matrix_dials(d: Diagram) -> None:
    high, middle, low = 110.0, 212.0, 304.0
    shades = [[[0.1 + 0.2 * ((t * i + j + t) % 4) for j in range(3)] for i in range(3)] for t in (1, 2)]
    before, after = (
        d.grid(x, high, 3, 3, 22, "state", shade=shade) for x, shade in zip((92.0, 566.0), shades, strict=True)
    )
    d.text(92, 52, "$S_{t−1}$")
    d.text(566, 52, "$S_t$")
    fade, add = d.circle(196, high, "×", "gate"), d.circle(452, high, "+", "state")
    for start, end in ((before, fade), (fade, add), (add, after)):
        d.arrow(start, end, role="state", look="wide")
    d.text(196, 66, "forget", look="bold")
    d.text(452, 66, "write", look="bold")
    fork = 284.0
    d.dot(fork, high, "state", 5)
    answer = d.box(fork, middle, "$S^T k_t$", "state", w=76)
    d.arrow((fork, high + 6), answer, role="gradient")
    less, strong = d.circle(372, middle, "−", "gradient"), d.circle(452, middle, "×", "gate")
    d.arrow(answer, less, role="gradient")
    d.arrow(less, strong, role="state")
    d.arrow(strong, add, role="state")
    d.text(466, 164, "$k_t$(…)$^T$", anchor="start", size=SMALL)
    read = d.box(566, middle, "$S_t^T q_t$", "output", w=80)
    d.arrow(after, read, role="state")
    d.arrow(read, d.text(664, middle, "$y_t$"), role="output")
    boxes = [
        d.box(x, low, name, role, w=52, h=36)
        for x, name, role in (
            (196, "$α_t$", "gate"),
            (fork, "$k_t$", "state"),
            (372, "$v_t$", "state"),
            (452, "$β_t$", "gate"),
            (566, "$q_t$", "input"),
        )
    ]
    for box, end in zip(boxes, (fade, answer, less, strong, read), strict=True):
        d.arrow(box, end, role="gate" if end in (fade, strong) else "input" if end is read else "state")
    x = d.text(92, 366, "$x_t$")
    for box in boxes:
        d.arrow(x, (box.x, 366), box, role="input")
    d.text(372, 402, "add: without the dashed way; delta: with it", look="soft", size=SMALL)
