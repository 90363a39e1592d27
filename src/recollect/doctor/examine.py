"""Putting something to the laws: which hold, and of a broken one the smallest input, the step and the submodule."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..core.comparison import TOLERANCE, LawBroken
from ..core.contract import Layer
from ..core.laws import judge, list_laws
from . import checks, diagnose
from .checks import Attempt
from .diagnose import Case
from .load import load
from .subject import OnCopies, Subject, SubjectError, draw_example

BATCH, STEPS = 3, 8
LEAST_ERROR = 0.01  # of a smaller input, as a share of the error at full width: rounding shows nothing
SMALLEST_DIMS = (1, 2, 3, 4, 8, 16, 32)  # that are tried for the smallest input


class Size(NamedTuple):
    """The shape of an input."""

    batch: int
    steps: int
    dim: int


class Finding(NamedTuple):
    """What became of one law."""

    law: str
    verdict: str  # "holds", "broken" or "skipped"
    error: float | None = None  # the largest of a law that holds
    reason: str | None = None  # why a law was not judged
    message: str | None = None  # how it was broken, on the smallest input
    cause: str | None = None  # what that is a case of, such as a convolution that is not causal
    where: str | None = None  # the submodule
    step: int | None = None
    size: Size | None = None
    seed: int | None = None
    reproduction: tuple[str, ...] = ()


class Examination(NamedTuple):
    """All laws on one target."""

    target: str
    kind: str
    dtype: str
    size: Size
    vocab: int | None  # where x are tokens
    findings: list[Finding]

    @property
    def broken(self) -> list[str]:
        return [finding.law for finding in self.findings if finding.verdict == "broken"]


class Patient(NamedTuple):
    """How the target is built again, at another width too."""

    target: str
    options: Mapping[str, Any]  # tokens, seed, settings
    batch: int
    steps: int

    def build(self, dim: int | None) -> Layer[Any]:
        return load(self.target, dim=dim, **self.options)


def examine(
    target: str,
    *,
    dim: int | None = None,
    batch: int = BATCH,
    steps: int = STEPS,
    tokens: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Examination:
    """Put `FILE:NAME`, or the folder of a Hugging Face causal model, to every law that binds it."""
    options = {name: value for name, value in (("tokens", tokens), ("settings", settings)) if value}
    patient = Patient(target, options | {"seed": seed}, batch, steps)
    layer = patient.build(dim)
    refuse_costs(layer)
    size = Size(batch, steps, layer.dim)
    findings: list[Finding] = []
    for law in checks.LAWS:
        broken = {finding.law for finding in findings if finding.verdict == "broken"}
        reason = checks.reason_against(law, layer) or follows_from(law, broken)
        if reason:
            findings.append(Finding(law, "skipped", reason=reason))
            continue
        findings.append(examine_law(law, patient, layer, dim, size, "purity" in broken))
    dtype = str(layer.like().dtype).removeprefix("torch.")
    return Examination(target, describe_kind(layer), dtype, size, getattr(layer, "vocab", None), findings)


def refuse_costs(layer: Layer[Any]) -> None:
    """Refuse a cost in a form that is not understood, which says nothing of what is declared."""
    if isinstance(layer, Subject) and callable(getattr(layer.target, "cost", None)):
        try:
            layer.cost(1, 1)
        except SubjectError:
            raise
        except Exception:
            return  # the law says so


def follows_from(law: str, broken: set[str]) -> str | None:
    """Why a law is not judged after others were found broken."""
    if "repeat" in broken:
        return "not judged: the same call gives different outputs"
    if law == "chunk" and "cause" in broken:
        return "not judged: an output that depends on later inputs cannot be had chunk by chunk"
    return None


def describe_kind(layer: Layer[Any]) -> str:
    """What was examined, in words."""
    return layer.traits.kind if isinstance(layer, Subject) else "a layer of the contract"


def examine_law(law: str, patient: Patient, layer: Layer[Any], dim: int | None, size: Size, copied: bool) -> Finding:
    """Judge one law at full size; where it is broken, look for the smallest input that shows it."""
    judged = guard(layer, law, copied)
    x = draw_example(layer, size.batch, size.steps, patient.options["seed"])
    verdict = judge(law, layer, lambda: run_all(law, judged, x))
    if isinstance(verdict, float):
        return Finding(law, "holds", error=verdict)
    assert isinstance(verdict, LawBroken)
    found = find_smallest(law, patient, layer, dim, size, copied)
    if found is None:  # only the full set of cuts shows it
        return Finding(law, "broken", message=words_of(verdict, layer), step=step_of(verdict), size=size)
    smallest, case = found
    return Finding(
        law,
        "broken",
        message=words_of(smallest.broken, layer) + (describe_time_first(layer) if law == "row" else ""),
        cause=case.cause,
        where=case.where,
        step=step_of(smallest.broken),
        size=smallest.size,
        seed=patient.options["seed"],
        reproduction=reproduce(patient, smallest, copied and not isinstance(layer, Subject)),
    )


def describe_time_first(layer: Layer[Any]) -> str:
    """A hint where a recurrent part of a module takes steps first, so that rows go on from one another."""
    parts = layer.named_modules()
    name = next((name for name, part in parts if isinstance(part, nn.RNNBase) and not part.batch_first), None)
    return "" if name is None else f"; {name.removeprefix('target.')} has batch_first=False, so it takes rows for steps"


def run_all(law: str, layer: Layer[Any], x: Tensor) -> float:
    """Every attempt at a law on one input; for layers of the contract, those of `core.laws` beside."""
    errors = [attempt.run(layer, x) for attempt in checks.attempts(law, layer, *x.shape[:2])]
    own = list_laws(layer, x) if not isinstance(layer, Subject) and x.shape[1] >= 4 else {}
    return max([*errors, *([own[law]()] if law in own and law != "purity" else [])])


class Shown(NamedTuple):
    """A broken law on one input."""

    layer: Layer[Any]
    attempt: Attempt
    size: Size
    broken: LawBroken
    dim: int | None  # with which the layer was built


def find_smallest(
    law: str, patient: Patient, layer: Layer[Any], dim: int | None, size: Size, copied: bool
) -> tuple[Shown, Case] | None:
    """The smallest input on which a law breaks for the same reason: few steps, then few rows, then a small width."""
    seed = patient.options["seed"]

    def show(own: Layer[Any], batch: int, steps: int, width: int | None) -> Shown | None:
        judged = guard(own, law, copied)
        x = draw_example(own, batch, steps, seed)
        for attempt in checks.attempts(law, own, batch, steps):
            verdict = judge(law, own, lambda attempt=attempt: attempt.run(judged, x))
            if isinstance(verdict, LawBroken):
                return Shown(own, attempt, Size(batch, steps, own.dim), verdict, width)
        return None

    def name(shown: Shown) -> Case:
        x = draw_example(shown.layer, shown.size.batch, shown.size.steps, seed)
        return diagnose.diagnose(law, shown.layer, x, shown.broken, shown.attempt, tolerance_of(shown.layer))

    def first(tries: Iterable[Shown | None]) -> Shown | None:
        return next((shown for shown in tries if shown is not None), None)

    least, rows = checks.least_steps(law), checks.least_rows(law)
    best = first(show(layer, size.batch, steps, dim) for steps in range(least, size.steps + 1))
    if best is None:
        return None
    best = first(show(layer, batch, best.size.steps, dim) for batch in range(rows, size.batch + 1)) or best
    case = name(best)
    for width in (width for width in SMALLEST_DIMS if width < size.dim):
        try:
            narrow = patient.build(width)
        except (ValueError, RuntimeError, TypeError, AssertionError):  # not every width suits every module
            continue
        if narrow.dim != width or (shown := show(narrow, best.size.batch, best.size.steps, width)) is None:
            continue
        plain = (shown.broken.error or 0) >= LEAST_ERROR * (best.broken.error or 0)
        if plain and (own := name(shown)).cause == case.cause:
            return shown, own
    return best, case


def guard(layer: Layer[Any], law: str, copied: bool) -> Layer[Any]:
    """The layer as a law calls it: on copies of its states, where it was found to write into them."""
    return OnCopies(layer) if copied and not isinstance(layer, Subject) and law != "purity" else layer


def reproduce(patient: Patient, shown: Shown, copied: bool) -> tuple[str, ...]:
    """Three lines of Python that show a broken law again."""
    own = {} if shown.dim is None else {"dim": shown.dim}
    words = [repr(patient.target), *(f"{name}={value!r}" for name, value in (own | dict(patient.options)).items())]
    module = shown.attempt.function.__module__.rpartition(".")[2]
    names = ["draw_example", module, "load", *(["OnCopies"] if copied else [])]
    x = f"draw_example(layer, batch={shown.size.batch}, steps={shown.size.steps}, seed={patient.options['seed']})"
    return (
        f"from recollect.doctor import {', '.join(sorted(names, key=str.lower))}",
        f"layer = load({', '.join(words)})",
        shown.attempt.source("OnCopies(layer)" if copied else "layer", x),
    )


def words_of(broken: LawBroken, layer: Layer[Any]) -> str:
    """How a law was broken, without the name of the law; tensors of a state by the module's own names."""
    _, _, rest = str(broken).partition(": ")
    return name_tensors(rest or str(broken), layer)


def name_tensors(text: str, layer: Layer[Any]) -> str:
    """`tensors.0` of a foreign state by the path that it has there."""
    if not isinstance(layer, Subject):
        return text
    paths = list(layer.axes)
    return re.sub(
        r"(?:state\.)?\btensors\.(\d+)", lambda hit: paths[int(hit[1])] if int(hit[1]) < len(paths) else hit[0], text
    )


def step_of(broken: LawBroken) -> int | None:
    """The step of the first output that differs; a tensor of a state has slots, not steps."""
    return broken.step if broken.tensor in ("y", None) else None


def tolerance_of(layer: Any) -> float:
    """The difference between two runs that counts as none."""
    own = getattr(layer, "tolerance", None)
    return own if own is not None else TOLERANCE.get(layer.like().dtype, 1e-5)
