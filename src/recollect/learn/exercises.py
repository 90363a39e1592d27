"""The exercises: layers whose definition the learner writes, line by line.

Each stands in `answers` as a complete file; the exercise is that file without the bodies of the methods in `written`.
A method is a line of the definition, and its docstring is the formula, with a remark where one is needed. The file is
graded by `grade`: each line against that of the answer, the whole against this package's own layer and the laws.
"""

import ast
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from ..core.errors import RecollectError
from ..core.language import localize
from ..core.settings import known

# what may become of a line; LATER: what `read` gives depends on an `update` that is wrong
RIGHT, OFF, OPEN, FAILED, LATER = "right", "wrong", "not written", "raised an error", "not compared"
CHECK = "recollect learn --check"
TODO = 'raise NotImplementedError("{}: {}")'
REMARK = "  # "  # what stands behind it in the docstring of a line


class ExerciseError(RecollectError):
    """An exercise that cannot be written or graded as asked; the message is one line."""


class Exercise(NamedTuple):
    """A layer to be written."""

    chapter: int
    layer: str  # the class in the file
    lines: tuple[str, ...]  # the methods that are lines of the definition, in its order
    parts: dict[str, str]  # the lines of `update` by the part of the state that they make
    settings: dict[str, int]  # of Config, when it is graded
    memory: bool = False  # whether it reads the memory of an encoder

    @property
    def written(self) -> tuple[str, ...]:
        return (*self.lines, "update", "read")


class Mistake(NamedTuple):
    """A wrong way to write one line of an answer; what the learner has is compared with what it gives."""

    line: str
    right: str  # in the text of the answer
    wrong: str
    words: str  # what is wrong with it


EXERCISES = {
    "lstm": Exercise(
        chapter=4,
        layer="LSTM",
        lines=("input_gate", "forget_gate", "output_gate", "candidate", "cell", "hidden"),
        parts={"c": "c ← f·c + i·g", "h": "h ← o·tanh(c)"},
        settings={"dim": 3, "width": 4},
    ),
    "soft-align": Exercise(
        chapter=6,
        layer="SoftAlign",
        lines=("scores", "weights", "mixture"),
        parts={
            "context": "context ← Σ softmax(score(h, K))·V",
            "h": "h ← cell([x, context], h)",
            "keys": "K stays as it is",
            "values": "V stays as it is",
            "valid": "valid stays as it is",
        },
        settings={"dim": 2, "width": 4, "memory_dim": 3},
        memory=True,
    ),
    "attention": Exercise(
        chapter=8,
        layer="Attention",
        lines=("query", "key", "value", "scores", "weights", "mixture"),
        parts={"keys": "append k = W_k x", "values": "append v = W_v x", "clock": "clock ← clock + 1"},
        settings={"dim": 4},
    ),
    "ttt-linear": Exercise(
        chapter=12,
        layer="TttLinear",
        lines=("predict", "rate", "gradient", "step"),
        parts={
            "clock": "clock ← clock + 1",
            "G": "G ← G + η(x)·∇ℓ(W; k, v), and 0 at every b-th step",
            "W": "at every b-th step W ← W − G",
        },
        settings={"dim": 4, "mini_batch": 3},
    ),
}
MISTAKES = {
    "lstm": (
        Mistake("forget_gate", 'x @ self.W["f"]', 'x @ self.W["i"]', "W_i stands where W_f should"),
        Mistake("candidate", "torch.tanh(x", "torch.sigmoid(x", "σ stands where tanh should"),
        Mistake("cell", "f * c + i * g", "c + i * g", "the forget gate is left out"),
        Mistake("cell", "f * c + i * g", "f * c + g", "the input gate is left out"),
        Mistake("cell", "f * c + i * g", "i * c + f * g", "i and f are exchanged"),
        Mistake("hidden", "o * torch.tanh(c)", "o * c", "tanh is left out"),
        Mistake("hidden", "o * torch.tanh(c)", "torch.tanh(c)", "the output gate is left out"),
        Mistake("update", "g, state.c)", "g, torch.zeros_like(state.c))", "the old c is left out"),
        Mistake("update", "state.h), c), c)", "state.h), state.c), c)", "h is made from the old c, not from the new"),
        Mistake("read", "return state.h", "return state.c", "c is read, not h"),
    ),
    "soft-align": (
        Mistake("scores", "torch.tanh(self.query(h)[:, None] + keys)", "(self.query(h)[:, None] + keys)",
                "tanh is left out"),
        Mistake("weights", 'e.masked_fill(~valid, float("-inf"))', "e", "the mask is left out: padding gets weight"),
        Mistake("weights", 'e.masked_fill(~valid, float("-inf")).softmax(dim=-1)',
                "e.softmax(dim=-1).masked_fill(~valid, 0)",
                "the mask comes after the softmax, so that the weights do not sum to 1"),
        Mistake("mixture", ".sum(dim=1)", ".mean(dim=1)", "the mean is taken, not the sum"),
        Mistake(
            "update",
            """alpha = self.weights(self.scores(state.h, state.keys), state.valid)
        context = self.mixture(alpha, state.values)
        h = self.cell(torch.cat([x, context], dim=-1), state.h)""",
            """h = self.cell(torch.cat([x, state.context], dim=-1), state.h)
        alpha = self.weights(self.scores(h, state.keys), state.valid)
        context = self.mixture(alpha, state.values)""",
            "the context is that of the new h (cell-first, Luong 2015); here it comes before the cell",
        ),
        Mistake("update", "torch.cat([x, context], dim=-1), state.h", "torch.cat([x, state.context], dim=-1), state.h",
                "the cell reads the context of the step before"),
        Mistake("read", "torch.tanh(self.mix(torch.cat([state.h, state.context], dim=-1)))",
                "self.mix(torch.cat([state.h, state.context], dim=-1))", "tanh is left out"),
    ),
    "attention": (
        Mistake("key", "self.W_k(x)", "self.W_q(x)", "W_q stands where W_k should"),
        Mistake("scores", " / sqrt(self.dim)", "", "the scale 1/√d is left out"),
        Mistake("scores", " / sqrt(self.dim)", " / self.dim", "it is divided by d, not by √d"),
        Mistake("weights", 'e.masked_fill(~filled, float("-inf"))', "e",
                "the mask is left out: empty slots get weight"),
        Mistake("mixture", "alpha[:, None] @ values", "alpha[:, None] @ values / alpha.shape[1]",
                "the mean is taken, not the sum"),
        Mistake("update", "state.values, self.value(x)", "state.values, self.key(x)", "keys are stored as values"),
        Mistake("update", "state.clock + 1)", "state.clock)", "the clock stands still"),
        Mistake("read", "self.W_o(self.mixture(alpha, state.values))",
                "self.mixture(alpha, state.values)", "W_o is left out"),
    ),
    "ttt-linear": (
        Mistake("rate", " / self.dim", "", "it is not divided by d"),
        Mistake("gradient", "(self.predict(W, k) - v)", "(v - self.predict(W, k))", "its sign is wrong"),
        Mistake("gradient", "k[:, :, None] * (self.predict(W, k) - v)[:, None]",
                "k[:, None] * (self.predict(W, k) - v)[:, :, None]", "it is transposed"),
        Mistake("step", "torch.where(boundary, W - G, W)", "torch.where(boundary, W + G, W)",
                "its sign is wrong, so that the loss grows"),
        Mistake("step", "G.masked_fill(boundary, 0)", "G", "G is not emptied at a boundary"),
        Mistake("update", "G = state.G + ", "G = ", "the gradients of earlier steps are lost"),
        Mistake("update", "self.rate(x)[..., None] * ", "", "the rate η(x) is left out"),
        Mistake("update", "state.clock + 1", "state.clock + 0", "the clock stands still"),
        Mistake("read", "state.W - state.G", "state.W", "G, gathered since the boundary, is left out"),
    ),
}  # fmt: skip


def find_exercise(name: str) -> Exercise:
    return EXERCISES[known("exercise", name, list(EXERCISES))]


def show_answer(name: str) -> str:
    """The text of an answer, its remarks in the language of the reader."""
    text = read_answer(name)
    for method in find_methods(text).values():
        remark = (ast.get_docstring(method) or "").partition(REMARK)[2]
        text = text.replace(f'{REMARK}{remark}"""', f'{REMARK}{localize(remark)}"""') if remark else text
    return text


def read_answer(name: str) -> str:
    """The text of an answer."""
    find_exercise(name)
    return resources.files(f"{__package__}.answers").joinpath(f"{name.replace('-', '_')}.py").read_text("utf-8")


def write_mistake(name: str, mistake: Mistake) -> str:
    """The text of an answer with one mistake in it."""
    text = read_answer(name)
    method = ast.get_source_segment(text, find_methods(text)[mistake.line])
    assert method is not None
    if method.count(mistake.right) != 1:
        raise ExerciseError(f"{name}, {mistake.line}: expected {mistake.right!r} once, found {method!r}")
    return text.replace(method, method.replace(mistake.right, mistake.wrong))


def find_methods(text: str) -> dict[str, ast.FunctionDef]:
    """The methods of the last class of a file."""
    last = [node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)][-1]
    return {node.name: node for node in last.body if isinstance(node, ast.FunctionDef)}


def formulas(name: str) -> dict[str, str]:
    """The lines of the definition, by their methods."""
    methods = find_methods(read_answer(name))
    texts = {line: ast.get_docstring(methods[line]) or "" for line in find_exercise(name).written}
    return {line: text.split(REMARK)[0] for line, text in texts.items()}


def file_name(name: str) -> str:
    return f"my_{name.replace('-', '_')}.py"


def write_exercise(name: str, out: str | None = None) -> Path:
    """A file with the definition, Config and State, and with what the learner has to write left open."""
    path = Path(out or file_name(name))
    if path.is_dir():
        path = path / file_name(name)
    text = make_exercise(name, path)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ExerciseError(f"{path}: expected a new file, found one that is there; name another with --out") from None
    return path


def make_exercise(name: str, path: Path) -> str:
    """The answer without the bodies of what is to be written, and with a word on how to go on."""
    text = show_answer(name)
    methods, formula, rows = find_methods(text), formulas(name), text.splitlines()
    for line in reversed(find_exercise(name).written):
        first, *body = methods[line].body
        assert first.end_lineno is not None
        assert body[-1].end_lineno is not None
        todo = TODO.format(localize("write"), formula[line])
        rows[first.end_lineno : body[-1].end_lineno] = [" " * first.col_offset + todo]
    hint = localize(
        "Write what raises NotImplementedError: one small method for each line of the definition, then update and "
        "read, which are composed of them. B rows, D the width of x. What else stands here stays as it is."
    )
    return "\n".join([*(f"# {line}" for line in (*fold(hint), f"{CHECK} {path.name}")), *rows]) + "\n"


def texts() -> Iterator[str]:
    """What is shown of the exercises beside their definitions: verdicts, mistakes, remarks."""
    yield from (RIGHT, OFF, OPEN, FAILED, LATER)
    for name, mistakes in MISTAKES.items():
        yield from (mistake.words for mistake in mistakes)
        docstrings = (ast.get_docstring(method) or "" for method in find_methods(read_answer(name)).values())
        remarks = (text.partition(REMARK)[2] for text in docstrings)
        yield from (remark for remark in remarks if re.search("[a-z]{2}", remark))


def fold(text: str, width: int = 110) -> list[str]:
    """A text in lines; a Chinese sign is as wide as two letters."""
    from rich.console import Console
    from rich.text import Text

    return [str(line).rstrip() for line in Text(text).wrap(Console(width=width), width)]
