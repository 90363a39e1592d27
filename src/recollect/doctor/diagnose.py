"""What a broken law is a case of, and in which submodule it begins; found by running the parts of a module."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..core import laws
from ..core import state as states
from ..core.comparison import LawBroken
from ..core.contract import Layer
from . import foreign, locate
from .checks import Attempt
from .locate import Call, Place
from .subject import Subject, Whole

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d)
FIRST_DIFFERENCE = 1e-3  # of outputs, beyond the constant that norms add to a variance


class Case(NamedTuple):
    """A diagnosis."""

    cause: str | None = None
    where: str | None = None


class Situation(NamedTuple):
    """A broken law on its smallest input."""

    layer: Layer[Any]
    x: Tensor
    broken: LawBroken
    attempt: Attempt
    tolerance: float
    root: nn.Module | None

    def run(self, x: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        with torch.no_grad():
            return self.layer(x, self.fresh(len(x)) if state is None else states.map(torch.clone, state))

    def fresh(self, rows: int) -> Any:
        return states.map(torch.clone, self.layer.initial_state(rows))

    def like(self, rows: int, steps: int) -> Tensor:
        """An input of another shape, for finding axes."""
        x = self.x[:1, :1].expand(rows, steps, *self.x.shape[2:])
        return x.clone()

    def axes(self) -> locate.Axes:
        assert self.root is not None
        return locate.find_axes(self.root, lambda b, t: self.run(self.like(b, t)), *self.x.shape[:2])

    def place(self, call: Call | None) -> Place:
        """The submodule of a call; the module as a whole where none was found."""
        if call is None or self.root is None:
            return Place("", self.root)
        return Place(call.name, self.root.get_submodule(call.name), call.arguments)


def diagnose(law: str, layer: Layer[Any], x: Tensor, broken: LawBroken, attempt: Attempt, tolerance: float) -> Case:
    """Name the case and the place of a broken law; what cannot be found is left open."""
    situation = Situation(layer, x, broken, attempt, tolerance, locate.root_of(layer))
    if "it raised" in str(broken):
        return Case("an error was raised")
    if broken.error is not None and not math.isfinite(broken.error):
        return Case("outputs are not finite: NaN or infinity", str(situation.place(None)))
    try:
        return CASES[law](situation)
    except (RuntimeError, ValueError, IndexError, TypeError):  # of the module, on another shape than that of x
        return Case(None, str(situation.place(None)))


def diagnose_repeat(found: Situation) -> Case:
    with Draws() as draws:
        found.run(found.x)
    place = found.place(None)
    if found.root is not None:
        runs = [locate.record(found.root, lambda: found.run(found.x)) for _ in range(2)]
        place = found.place(locate.find_split(runs[0], runs[1], {}, lambda a, b, _, __: (a, b), found.tolerance))
    if any("dropout" in name or "bernoulli" in name for name in draws.names):
        cause = "dropout left on: it draws random numbers in eval()"
    elif draws.names:
        cause = f"random numbers drawn in eval(): {', '.join(sorted(draws.names))}"
    else:
        cause = "memory outside the state: no random number is drawn, and yet the same call differs"
    return Case(cause, str(place))


def diagnose_purity(found: Situation) -> Case:
    _, used = found.run(found.x[:, :1])
    where = Place("", found.root)
    if found.root is not None:
        for part in (found.x, found.x[:, :1]):
            native, run = callable_on(found, used, part)
            if name := locate.find_writer(found.root, native, run):
                where = Place(name, found.root.get_submodule(name))
                break
    return Case("a state changed in place", str(where))


def callable_on(found: Situation, state: Any, x: Tensor) -> tuple[list[Tensor], Callable[[], Any]]:
    """The tensors of a state as the module gets them, and the call on them."""
    if isinstance(found.layer, Subject):
        layer, given = found.layer, foreign.release(state)
        return [tensor for _, tensor in foreign.flatten(given)], lambda: layer.call(x, given)
    given = states.map(torch.clone, state)
    return states.leaves(given), lambda: found.layer(x, given)


def diagnose_cause(found: Situation) -> Case:
    t = found.attempt.arguments[0]
    changed = torch.cat([found.x[:, :t], laws.disturb(found.x[:, t:])], dim=1)
    place = found.place(None)
    if found.root is not None:

        def align(a: Tensor, b: Tensor, rows: int | None, steps: int | None) -> tuple[Tensor, Tensor] | None:
            return (
                None
                if steps is None
                else (a.narrow(steps, 0, min(t, a.shape[steps])), b.narrow(steps, 0, min(t, b.shape[steps])))
            )

        runs = [locate.record(found.root, lambda x=x: found.run(x)) for x in (found.x, changed)]
        place = found.place(locate.find_split(runs[0], runs[1], found.axes(), align, found.tolerance))
    ahead, length = reach(found)
    if isinstance(place.module, CONVOLUTIONS):
        return Case(f"a convolution that is not causal: it looks {count(ahead)} ahead", str(place))
    if isinstance(place.module, nn.RNNBase) and place.module.bidirectional:
        return Case("a recurrent layer that reads backward as well", str(place))
    if ahead == length - 1:
        if ignores_scale(found, place):
            return Case("a norm over time: every output depends on all of the sequence", str(place))
        return Case("every output depends on all of the sequence, as with attention without a mask", str(place))
    return Case(f"outputs look {count(ahead)} ahead", str(place))


def count(steps: int) -> str:
    """A number of steps in words."""
    return f"{steps} step{'' if steps == 1 else 's'}"


def reach(found: Situation) -> tuple[int, int]:
    """How many steps before a changed input the first changed output stands, and of how many steps in all."""
    length = max(12, found.x.shape[1])
    generator = torch.Generator().manual_seed(1)
    x = found.like(1, length)
    x = torch.randint(2, x.shape, generator=generator) if not x.is_floating_point() else torch.randn(
        x.shape, generator=generator, dtype=x.dtype
    )  # fmt: skip
    changed = x.clone()
    changed[:, -1] = (1 - x[:, -1]) if not x.is_floating_point() else x[:, -1] * -30 + 10
    a, b = found.run(x)[0], found.run(changed)[0]
    scale = float(a.abs().max())
    steps = ((a - b).abs().flatten(2).amax(dim=(0, 2)) > found.tolerance * scale).nonzero()[:, 0]
    return length - 1 - int(steps[0]) if len(steps) else 0, length


def ignores_scale(found: Situation, place: Place) -> bool:
    """Whether a submodule, or the module as a whole, gives the same for twice its input: it divides by a statistic."""
    if place.module is None or not place.name:
        x = found.like(1, 12)
        if not x.is_floating_point():
            return False
        x = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
        y, z = found.run(x)[0], found.run(4 * x)[0]
    else:
        if len(place.arguments) != 1 or not isinstance(place.arguments[0], Tensor):
            return False
        with torch.no_grad():
            given = place.arguments[0]
            y, z = place.module(given), place.module(4 * given)
    return bool((y - z).abs().max() <= 1e-2 * y.abs().max())


def diagnose_chunk(found: Situation) -> Case:
    step, tensor = found.broken.step, found.broken.tensor or ""
    if tensor.startswith("gradient"):
        return Case(f"outputs agree, gradients do not: {tensor}; is the state detached, or a loop cut?")
    place = found.place(None)
    cut = max(1, step or 1) if found.x.shape[1] > 1 else 0
    if found.root is not None and cut:
        place = found.place(split_chunk(found, cut))
    if isinstance(found.layer, Whole):
        return Case("an output depends on how long the sequence is", str(place))
    if ignores_state(found, cut):
        return Case("the state is not read: a chunk gives what it gives at the start", str(place))
    if positions_restart(found):
        return Case("positions restart at each chunk: step by step the order of the past is lost", str(place))
    return Case("the state that is handed on lacks something that the whole sequence has", str(place))


def split_chunk(found: Situation, cut: int) -> Call | None:
    """Where the second of two chunks parts from the whole sequence."""
    assert found.root is not None
    length = found.x.shape[1]
    whole = locate.record(found.root, lambda: found.run(found.x))
    if isinstance(found.layer, Whole):
        part, offset = locate.record(found.root, lambda: found.run(found.x[:, :cut])), 0
    else:
        _, state = found.run(found.x[:, :cut])
        part, offset = locate.record(found.root, lambda: found.run(found.x[:, cut:], state)), cut

    def align(a: Tensor, b: Tensor, rows: int | None, steps: int | None) -> tuple[Tensor, Tensor] | None:
        if steps is None:
            return None
        if a.shape[steps] == b.shape[steps]:
            return a, b
        if a.shape[steps] == length and b.shape[steps] == (length - cut if offset else cut):
            return a.narrow(steps, offset, b.shape[steps]), b
        return None

    return locate.find_split(whole, part, found.axes(), align, found.tolerance)


def ignores_state(found: Situation, cut: int) -> bool:
    """Whether the second chunk gives what it gives from a fresh state."""
    if not cut:
        return False
    _, state = found.run(found.x[:, :cut])
    continued, fresh = found.run(found.x[:, cut:], state)[0], found.run(found.x[:, cut:])[0]
    return bool((continued - fresh).abs().max() <= found.tolerance * fresh.abs().max())


def positions_restart(found: Situation) -> bool:
    """Whether the order of earlier single steps no longer matters, though within one chunk it does."""
    steps = 6
    x = draw_like(found, steps)
    turned = torch.cat([x[:, :-1].flip(1), x[:, -1:]], dim=1)

    def last(x: Tensor, at_once: bool) -> Tensor:
        state, y = None, None
        for part in (x,) if at_once else x.split(1, dim=1):
            y, state = found.run(part, state)
        assert y is not None
        return y[:, -1]

    def moved(at_once: bool) -> float:
        a, b = last(x, at_once), last(turned, at_once)
        return float((a - b).abs().max() / a.abs().max())

    return moved(at_once=False) <= 100 * found.tolerance < FIRST_DIFFERENCE < moved(at_once=True)


def draw_like(found: Situation, steps: int) -> Tensor:
    """A random input of one row."""
    x = found.like(1, steps)
    generator = torch.Generator().manual_seed(1)
    if x.is_floating_point():
        return torch.randn(x.shape, generator=generator, dtype=x.dtype)
    return torch.randint(int(getattr(found.layer, "vocab", 2)), x.shape, generator=generator)


def diagnose_row(found: Situation) -> Case:
    place = found.place(None)
    if found.root is not None:

        def align(a: Tensor, b: Tensor, rows: int | None, steps: int | None) -> tuple[Tensor, Tensor] | None:
            return None if rows is None or b.shape[rows] != 1 else (a.narrow(rows, 0, 1), b)

        runs = [locate.record(found.root, lambda x=x: found.run(x)) for x in (found.x, found.x[:1])]
        place = found.place(locate.find_split(runs[0], runs[1], found.axes(), align, found.tolerance))
    return Case("a row depends on its neighbours", str(place))


def diagnose_ragged(found: Situation) -> Case:
    place = found.place(None)
    lengths = found.attempt.arguments[0]
    row = next((row for row, length in enumerate(lengths) if 0 < length < found.x.shape[1]), None)
    if found.root is not None and row is not None:
        length = lengths[row]

        def align(a: Tensor, b: Tensor, rows: int | None, steps: int | None) -> tuple[Tensor, Tensor] | None:
            if steps is None or rows is None or a.shape[rows] <= row or a.shape[steps] < length:
                return None
            return a.narrow(rows, row, 1).narrow(steps, 0, length), b

        padded = locate.record(found.root, lambda: laws.run(found.layer, found.x, lengths))
        alone = locate.record(found.root, lambda: found.run(found.x[row : row + 1, :length]))
        place = found.place(locate.find_split(padded, alone, found.axes(), align, found.tolerance))
    what = "the outputs" if found.broken.tensor == "y" else "the state"
    return Case(f"padding leaks into {what}", str(place))


def diagnose_size(found: Situation) -> Case:
    part = part_of(found, laws.size)
    return Case("costs declared wrongly: bytes of state", part)


def diagnose_cost(found: Situation) -> Case:
    return Case("costs declared wrongly: FLOPs", part_of(found, laws.cost))


def part_of(found: Situation, law: Callable[[Layer[Any], Tensor], float]) -> str:
    """The innermost layer whose own declaration is wrong."""

    def broken(part: Layer[Any]) -> float:
        return law(part, torch.zeros(1, 2, part.dim, dtype=part.like().dtype))

    name = locate.find_part(found.root, broken) if found.root is not None else None
    return str(Place(name or "", found.root.get_submodule(name) if name and found.root else found.root))


def diagnose_file(found: Situation) -> Case:
    return Case("memory outside the state, which a file does not hold", str(found.place(None)))


class Draws(TorchDispatchMode):
    """Notes the operations meanwhile that draw random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.names.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


CASES: dict[str, Callable[[Situation], Case]] = {
    "repeat": diagnose_repeat,
    "purity": diagnose_purity,
    "cause": diagnose_cause,
    "chunk": diagnose_chunk,
    "row": diagnose_row,
    "ragged": diagnose_ragged,
    "size": diagnose_size,
    "file": diagnose_file,
    "cost": diagnose_cost,
}
