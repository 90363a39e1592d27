"""The messages of claims: what is said of each, and what its experiment may find, sentence by sentence.

Numbers in what a claim says of its experiment and of how it is decided are places, so that a translation outlives a
change of sizes or thresholds.
"""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from string import ascii_lowercase

from recollect import claims
from recollect.core.language import SENTENCES

FOLDER = Path(claims.__file__).parent
SHARED = ("laboratory/figures.py", "laboratory/floor.py", "laboratory/copying.py")
WORDED = ("CLAIM", "_form", "__str__")  # what is read as finished text
NUMBER = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d*\.?\d+)(?:e[-+]?\d+)?%?(?!\w)")
ENDS = re.compile(r"(?<=[.!?])\s+(?=[A-Z{])")  # of sentences, the next of which may begin with a place
PLACE = re.compile(r"\{.*?\}")
LETTERS = re.compile(r"[A-Za-z]")
WORD = re.compile(r"[A-Za-z]{2,}")
LEAST = 9  # letters beside places without a form: less stands for too much
LIMITS = "; the limits: "  # before the end of a summary, which is a message of its own
OVER_SEEDS = "{mean:.3f} ({low:.3f} to {high:.3f})"
COMMON = (  # parts of summaries, as lists of figures and of what was found make them
    f"{{found}}{LIMITS}{{which}}",
    "the limits",
    OVER_SEEDS,
    "{name} {mean:.3f} ({low:.3f} to {high:.3f}) of {mean2:.3f} ({low2:.3f} to {high2:.3f})",
    f"{OVER_SEEDS} where it is {{true:.2f}}",
    f"{OVER_SEEDS} in {{seconds:.0f}} s",
    f"{OVER_SEEDS} → {{mean2:.3f}} ({{low2:.3f}} to {{high2:.3f}})",
    f"{{places:d}} place: {{heads:d}} head {OVER_SEEDS}",
    f"{{places:d}} places: {{heads:d}} head {OVER_SEEDS}",
    f"{{heads:d}} heads {OVER_SEEDS}",
    f"{{model}} ({{sizes:,}} bytes) {OVER_SEEDS}",
    "{value:.2g} at b = {bias:g}",
    "{value:.2g} ({low:.2g} to {high:.2g}) at b = {bias:g}",
    "{share:.1%} ({low:.1%} to {high:.1%}) at d = {width:d}",
    "{value:.4f} of {size:d}",
    "answers right {share:.0%}",
    "at least {least:g}",
    "at most {most:g}",
    "RMSE mean",
    "random W",
    "many rates",
    "post-norm",
    "pre-norm",
    "shared",
    "copying",
    "{largest:g} and up to {largest2:g}",
    *(
        f"{{value:.2g}} by {change}"
        for change in (
            "a step every {inputs:d} inputs",
            "a learned W₀",
            "a learned rate",
            "a bias inside",
            "a LayerNorm inside",
            "a LayerNorm and a residual inside",
        )
    ),
    "exp(q·k), without √d {root:.2g}, Gaussian {gaussian:.2g}, even weights {even:.2g}",
    "Trained at each gap alone: {told}.",
    "Trained at gaps that widen: {told}.",
    "gru can",
    "transformer can",
    "gru, transformer can",
    "Of {bits:.0f} bits to copy {a:.1f} ({b:.1f} to {c:.1f}) and {d:.1f} ({e:.1f} to {f:.1f}) are held.",
    "the sequence-model note: {quoted}, but no better in practice",
    "the dial decides in neither family",
    "in copying {why}",
    "in recall {why}",
    "shown for {good}",
    "regular cuts are behind the full gradient {where}",
    "regular cuts are behind random ones {where}",
    "In training BatchNorm breaks row and cause; LayerNorm breaks neither.",
    "Over {steps:d} steps the additive score takes {told}.",
    "not within {newton:d} rounds: so 'cannot' means not exactly and in one pass",
    "and errs less than own weights of as many parameters",
    "not shown against own weights of as many parameters",
    "delta, β in (0, 1) {a:g} ({b:g} to {c:g}), delta, β in (0, 2) {d:g} ({e:g} to {f:g}), mamba2, α in (0, 1) "
    "{g:g} ({h:g} to {i:g}), mamba2, α in (−1, 1) {j:g} ({k:g} to {l:g})",
    "the overview note: {quoted}",
    "the sequence-model note: {quoted}",
    "the lecture note: {quoted}",
    "the self-attention note: {quoted}",
    "the Transformer note: {quoted}",
)


def said() -> Iterator[tuple[str, str]]:
    """Sentences on the experiments of claims, on what decides them, and notes; each with its place."""
    for name in claims.names():
        claim = claims.load(name)
        for text in (claim.experiment, claim.decided):
            yield from ((with_places(sentence), f"claims/{name}") for sentence in SENTENCES.split(text))
        if claim.note:
            yield from ((doubled(sentence), f"claims/{name}") for sentence in SENTENCES.split(claim.note))


def with_places(sentence: str) -> str:
    """A sentence whose numbers are places: {a:g}, {b:g}, …"""
    names = ("".join(letters) for size in (1, 2) for letters in itertools.product(ascii_lowercase, repeat=size))
    return NUMBER.sub(lambda _: f"{{{next(names)}:g}}", doubled(sentence))


def doubled(text: str) -> str:
    """A text as a message without places."""
    return text.replace("{", "{{").replace("}", "}}")


def found(gather: "type[ast.NodeVisitor]") -> Iterator[tuple[str, str]]:
    """Sentences of summaries and texts of charts, by a visitor that gathers the texts of a module as `found`."""
    files = [*sorted(FOLDER.glob("*.py")), *(FOLDER / name for name in SHARED)]
    for file in files:
        if file.stem in claims.SHARED or file.stem == "__init__":
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        tree.body = [node for node in tree.body if not set(WORDED) & set(_bound(node))]
        visitor = gather()
        visitor.visit(tree)
        for message in visitor.found:  # type: ignore[attr-defined]
            yield from ((sentence, f"claims/{file.stem}") for sentence in shown(ENDS.split(message.strip())))
    yield from ((message, "claims") for message in COMMON)


def shown(sentences: Iterable[str]) -> Iterator[str]:
    """Those that say something of their own, without what joins them to others."""
    for sentence in sentences:
        own = re.sub(r"^\{\w+\}(?=[a-z])", "", sentence.removeprefix(LIMITS)).rstrip(" ;:,")
        fixed = PLACE.sub("", own)
        whole = fixed.count("(") == fixed.count(")") and own != LIMITS.rstrip(" :")
        if whole and WORD.search(fixed) and ("{" not in own or len(LETTERS.findall(fixed)) >= LEAST):
            yield own


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef):
        return [node.name]
    return [target.id for target in getattr(node, "targets", ()) if isinstance(target, ast.Name)]
