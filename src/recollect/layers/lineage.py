"""The lineage table, from the code: each layer's own docstring and declared cost."""

from dataclasses import dataclass

from . import LINEAGE, Card, card

WIDTH, SOURCE, STEPS = 64, 20, (1, 100, 1000)
COLUMNS = ("layer", "STATE", "UPDATE", "READ", "grows", "fast form", "bytes")


@dataclass(frozen=True)
class Entry:
    """The card of a layer, with its parameters, bytes of state and FLOPs of a step at width 64."""

    card: Card
    params: int
    state_bytes: dict[int, int]
    flops_per_step: int

    def cells(self) -> list[str]:
        """The row of the table, by COLUMNS: bytes after 1 and after 1,000 steps, where they differ."""
        c = self.card
        sizes = sorted({self.state_bytes[STEPS[0]], self.state_bytes[STEPS[-1]]})
        return [c.name, c.state, c.update, c.read, c.grows, c.fast, " → ".join(f"{size:,}" for size in sizes)]


def entries() -> list[Entry]:
    """Every layer of the lineage, in the order of the history."""
    found = []
    for name, config in LINEAGE.items():
        layer = config(dim=WIDTH).build()
        costs = {steps: layer.cost(1, steps, SOURCE) for steps in STEPS}
        params = sum(parameter.numel() for parameter in layer.parameters())
        before, last = STEPS[-2:]
        step = (costs[last].flops - costs[before].flops) // (last - before)
        found.append(Entry(card(name), params, {steps: c.state_bytes for steps, c in costs.items()}, step))
    return found


def as_markdown() -> str:
    """The table for the README and the docs."""
    lines = ["| " + " | ".join(COLUMNS[:-1]) + " |", "|---" * (len(COLUMNS) - 1) + "|"]
    for entry in entries():
        name, *cells = (cell.replace("|", "\\|") for cell in entry.cells()[:-1])
        lines.append("| " + " | ".join([f"`{name}`", *cells]) + " |")
    return "\n".join(lines) + "\n"
