"""The messages that the catalogue must have, and what it lacks: python -m tools.messages [--write]

A message is a text that is shown: every sentence of the modules in `SHOWN` (an f-string is a template with named
places), of the templates of pages and the scripts of the studio, and what dataclasses and registries declare. Errors
stay English.
"""

import ast
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from jinja2 import nodes

import recollect
from recollect import tasks
from recollect.claims import load
from recollect.claims import names as claims
from recollect.claims.claim import CHAPTERS, Verdict
from recollect.cli.train import RUN_COLUMNS
from recollect.core.language import read_catalogue
from recollect.core.settings import flags_of
from recollect.layers import LINEAGE, card, lineage
from recollect.learn import exercises
from recollect.measure.instruments import instruments
from recollect.racing import heats
from recollect.racing.summary import TERMS
from recollect.report.pages.page import TEMPLATES
from recollect.report.pages.race import CARD
from recollect.studio import messages as studio
from recollect.training.listing import STATES

from . import claim_messages

HEAD = """\
# The texts of recollect in Chinese; python -m tools.messages --write puts new messages in and takes stale ones out.
msgid ""
msgstr "Language: zh\\nContent-Type: text/plain; charset=UTF-8\\n"
"""
SOURCE = Path(recollect.__file__).parent
TYPER = ("Options", "Arguments", "Commands", "Error", "[required]", "[default: {}]", "Show this message and exit.")
UNITS = ("second", "minute", "hour", "day", "week", "month", "year")
WORDS = (  # that are shown and stand alone: parts and counts of data, columns, progress, names of baselines
    "train", "valid", "test", "valid and test", "tokens/s", "entries", "model", "questions", "inputs", "outputs",
    "lines", "words", "note", "unknown", "vocabulary", "tokenizer", "pairs", "left out", "pixels", "pictures",
    "captions", "labels", "scores", "probability", "characters", "strings", "joined", "empty", "one for all", "users",
    "items", "series", "period", "missing values", "a row every",
    "{language} tokens", "{language} unknown", "{language} vocabulary", "uniform", "unigram", "majority",
    "bag of words", "mean", "biases", "noise", "last value", "naive", "seasonal naive", "linear", "markov",
    "chance", "one of the values seen", "all but the distractors", "experiment", "kind", "code", "lowercased",
    "machine", "command", "search", "starting", "reset", "keep", "candidate", "forget",
    "{number:,} hidden state h", "{number:,} cell state c", "initial", "trained", "flops", "declared", "parallel",
    "measured", "behind, 95 %", "coverage", "all", "with nothing beside the series", "sum", "last",
    "1 weekday", *(f"{{count:,}} {unit}{s}" for unit in UNITS for s in ("", "s")), "Found", "Full form", "claim",
    "what", "how much", "evaluations", "fits",
)  # fmt: skip
EARLIER = (  # as earlier versions wrote it into files that are still read
    "measured on validation",
    "A row names four pairs, a key and its value each, and later asks for the value of every key. Whoever keeps all "
    "pairs apart answers all; whoever squeezes them into a small state mixes them up. Every memory stands in the same "
    "block, which shows it each token beside the one before, since keeping is asked for here and not how soon one "
    "finds out what to look back at.",
    "Learning rates by a search of the same rates for all; it took {total:.0f} s of training beside.",
    "each of {rate} for {steps:.0f} steps at {of}, seed {seed}; the lowest on validation, by the figure that chooses "
    "checkpoints",
)
PATH = SOURCE / "locale" / "zh" / "LC_MESSAGES" / "recollect.po"
PAGES = SOURCE / "report" / "templates"
SHOWN = {  # files and folders of the package whose texts are shown → the functions that have them; none: all
    "cli": (),
    "report": (),
    "racing/notes.py": (),
    "racing/search.py": (),
    "racing/standing.py": (),
    "racing/summary.py": (),
    "racing/verdict.py": (),
    "racing/rates.py": (),
    "racing/run.py": (),
    "learn/check.py": ("report",),
    "learn/exercises.py": ("make_exercise",),
    "learn/grade.py": ("judge_error", "say_off"),
    "learn/walk.py": (
        "go",
        "keep",
        "list_chapters",
        "make_folder",
        "offer_run",
        "command_for",
        "show_figure",
        "show_section",
    ),
    "measure": (),
    "claims/runner.py": ("_run",),
    "claims/laboratory/watch.py": (),
    "core/baselines.py": (),
    "data/file_lists.py": ("describe_skipped",),
    "core/metric.py": (),
    "core/summary.py": (),
    "training/listing.py": (),
    "training/progress.py": (),
    "training/loop.py": ("_evaluate", "_evaluate_mean"),
    "training/run.py": ("_train", "train"),
    "runtime/reading.py": (),
    "../../tools/claims.py": ("document", "_table", "_section", "_end"),
    "../../tools/races.py": ("page", "rules", "heading", "table"),
    "tasks/series/tables/grid.py": ("place_rows",),
    "../../tools/lengths.py": ("texts", "sentences", "chart"),
}
TOLD = (  # functions of tasks whose texts are shown
    "headline", "table", "tabulate", "summarize_data", "rule", "describe_rule", "_rules", "_guesses", "_confusion",
    "figures", "forced", "solve", "described", "translated", "explain_missing", "explain_uncalibrated",
    "missing_bounds", "place", "describe_counts", "notes", "fit_scaler", "row_names", "grouping", "groups", "count",
    "look", "gaze",
)  # fmt: skip
KEYWORDS = ("title", "x", "y", "level_name", "unit", "label", "help")  # of calls, whose text may be one word
SENTENCE = re.compile(r"[A-Za-z]{2,}[^<>{}]*\s[^<>{}]*[A-Za-z]|[A-Za-z]{3,}: ")
WORD = re.compile(r"[A-Za-z]{2,}")
TECHNICAL = re.compile(  # what has words and is none that is shown as a text
    "|".join(
        (
            r"^(frame|strong|soft|mark|line|bar|band|reach|lead|seed|chart|under\{deep\}) ",  # classes of a drawing
            r"<(?!unk>)\w|>\w|^[.:@]|\\|rotate\(|^'sha256|^% |stacked$",  # markup and styles
            r"sans-serif|^DejaVu|^Last Resort|^Glyph",  # fonts
            r"^[{}.,:!\w-]*$|^\w+[-_./]\{|^runs/|^--\S*$",  # single words, names and flags
            r"expected (an?|no|one) |^; did you mean|^figure: |^recollect: \{|^--length",  # errors
            r"^Examples?: |^Usage: $",  # see `declared`
            r"^\{\w+\} to \{\w+\}$|^state of \{layer",  # ranges, see `declared`; groups of charts
        )
    )
)


def name_of(node: ast.expr) -> str:
    """A name for the place of a template that an expression fills."""
    for each in ast.walk(node):
        key = each.slice.value if isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Constant) else None
        if isinstance(key, str):
            return re.sub(r"\W", "_", key)
        if isinstance(each, ast.Attribute) and not isinstance(node, ast.Call):
            return each.attr.lstrip("_")
        if isinstance(each, ast.Name) and not (isinstance(node, ast.Call) and each is node.func):
            return each.id.lstrip("_").lower()
    return "value"


def plain(text: str) -> str:
    """A text as a message without places."""
    return text.replace("{", "{{").replace("}", "}}")


def options(node: ast.expr) -> list[str] | None:
    """The texts that an expression chooses from, where all of them are written there."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [plain(node.value)]
    if isinstance(node, ast.JoinedStr):
        return templates(node)
    if isinstance(node, ast.IfExp):
        both = options(node.body), options(node.orelse)
        return [*both[0], *both[1]] if both[0] and both[1] else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Constant):
        return [node.left.value, ""] if isinstance(node.left.value, str) else None
    return None


def templates(node: ast.JoinedStr) -> list[str]:
    """The messages of an f-string: one for each choice of the texts inside."""
    taken: dict[str, int] = {}
    parts: list[list[str]] = []
    for each in node.values:
        if isinstance(each, ast.FormattedValue):
            chosen = options(each.value)
            if chosen is None:
                name = name_of(each.value)
                taken[name] = taken.get(name, 0) + 1
                form = ast.unparse(each.format_spec)[2:-1] if each.format_spec else ""
                form = ":" + re.sub(r"\{.*?\}", "", form) if re.search(r"[,.%defgGs]", form) else ""
                chosen = [f"{{{name}{taken[name] if taken[name] > 1 else ''}{form}}}"]
            parts.append(chosen)
        elif isinstance(each, ast.Constant):
            parts.append([plain(str(each.value))])
    return ["".join(choice) for choice in itertools.product(*parts)]


class Finder(ast.NodeVisitor):
    """Gathers the texts of a module that are shown: not errors, nor docstrings of other than commands."""

    def __init__(self, functions: tuple[str, ...] = ()) -> None:
        self.functions, self.found, self.inside = functions, dict[str, int](), not functions

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign | ast.AugAssign) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "columns" for target in targets):
            for each in ast.walk(node.value):
                for cell in each.elts if isinstance(each, ast.Tuple | ast.List) else ():
                    for message in options(cell) or ():
                        self.add(message, node.lineno, word=True)
        self.generic_visit(node)

    visit_AugAssign = visit_Assign  # noqa: N815

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if any("command" in ast.unparse(each) for each in node.decorator_list):
            self.add(plain(ast.get_docstring(node) or ""), node.lineno)
        was, self.inside = self.inside, self.inside or node.name in self.functions
        self._without_docstring(node)
        self.inside = was

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._without_docstring(node)

    def visit_Module(self, node: ast.Module) -> None:
        self._without_docstring(node)

    def _without_docstring(self, node: ast.Module | ast.ClassDef | ast.FunctionDef) -> None:
        for field, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                first = field == "body" and each is value[0]
                documents = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                if isinstance(each, ast.AST) and not (first and documents):
                    self.visit(each)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and SENTENCE.search(node.value):
            self.add(plain(node.value), node.lineno)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for message in templates(node):
            if WORD.search(re.sub(r"\{.*?\}", "", message)):
                self.add(message, node.lineno)
        for each in node.values:
            if isinstance(each, ast.FormattedValue) and options(each.value) is None:
                self.visit(each.value)

    def visit_Call(self, node: ast.Call) -> None:
        called = (
            node.func.id
            if isinstance(node.func, ast.Name)
            else node.func.attr
            if isinstance(node.func, ast.Attribute)
            else ""
        )
        was = self.inside
        if called == "append" and isinstance(node.func, ast.Attribute):  # notes on data are shown, whoever makes them
            self.inside = was or (isinstance(node.func.value, ast.Name) and node.func.value.id == "notes")
        for place, each in enumerate(node.args):
            chosen = options(each) if called == "localize" or (called == "_chart" and place < 3) else None
            if chosen is None and called == "render" and isinstance(each, ast.Tuple):
                chosen = [one.value for one in each.elts if isinstance(one, ast.Constant)]
            for message in chosen or ():
                self.add(message, node.lineno, word=True)
            if chosen is None:
                self.visit(each)
        self.inside = was
        for keyword in node.keywords:
            chosen = options(keyword.value) if keyword.arg in KEYWORDS else None
            for message in chosen or ():
                self.add(message, node.lineno, word=True)
            if chosen is None:
                self.visit(keyword.value)
        self.visit(node.func)

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            chosen = options(value) if isinstance(key, ast.Constant) and key.value in KEYWORDS else None
            for message in chosen or ():
                self.add(message, node.lineno, word=True)
            if chosen is None:
                self.visit(value)
                if key is not None:
                    self.visit(key)

    def visit_Return(self, node: ast.Return) -> None:
        if isinstance(node.value, ast.Tuple) and self.functions:  # columns, rows, lines below
            for each in node.value.elts:
                for one in each.elts if isinstance(each, ast.Tuple) else ():
                    if isinstance(one, ast.Constant):
                        self.add(str(one.value), node.lineno, word=True)
        self.generic_visit(node)

    def add(self, message: str, line: int, *, word: bool = False) -> None:
        if self.inside and WORD.search(re.sub(r"\{.*?\}", "", message)) and (word or not TECHNICAL.search(message)):
            self.found.setdefault(message, line)


def in_source() -> Iterator[tuple[str, str]]:
    """Messages of the source, each with its file."""
    own = [f"tasks/{folder}/instruments.py" for folder in tasks.FOLDERS]
    every = SHOWN | {f"tasks/{folder}": TOLD for folder in tasks.FOLDERS}
    every |= {place: () for place in own if (SOURCE / place).is_file()}
    for place, functions in every.items():
        path = SOURCE / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            finder = Finder(functions)
            finder.visit(ast.parse(file.read_text(encoding="utf-8")))
            yield from (
                (message, file.resolve().relative_to(SOURCE.parents[1]).as_posix().removeprefix("src/recollect/"))
                for message in finder.found
            )


def in_pages() -> Iterator[tuple[str, str]]:
    """Messages of the templates of pages."""
    for path in sorted(PAGES.glob("*.html")):
        parsed = TEMPLATES.parse(path.read_text(encoding="utf-8"))
        inside = {id(part) for joined in parsed.find_all(nodes.Concat) for part in joined.find_all(nodes.Const)}
        for node in parsed.find_all((nodes.Const, nodes.Concat)):
            text = None if id(node) in inside else _of_template(node)
            if (
                text
                and WORD.search(re.sub(r"\{.*?\}", "", text))
                and (" " in text or text[0] == ":")
                and not text.endswith("stacked")
            ):
                yield text, f"report/templates/{path.name}"
        for joined in parsed.find_all(nodes.Concat):
            yield from (
                (text, path.name)
                for part in joined.find_all(nodes.CondExpr)
                for text in map(_of_template, (part.expr1, part.expr2))
                if text
            )
        for node in parsed.find_all(nodes.Call):
            if isinstance(node.node, nodes.Name) and node.node.name in ("t", "table"):
                for each in node.args[:1]:
                    for one in each.find_all(nodes.Const) if not isinstance(each, nodes.Const) else [each]:
                        if isinstance(one.value, str) and WORD.search(one.value):
                            yield one.value, f"report/templates/{path.name}"


def _of_template(node: nodes.Node) -> str | None:
    if isinstance(node, nodes.Const):
        return plain(node.value) if isinstance(node.value, str) else None
    parts = []
    for each in node.find_all(nodes.Const) if False else node.nodes:  # type: ignore[attr-defined]
        if isinstance(each, nodes.Const):
            parts.append(plain(str(each.value)))
        elif isinstance(each, nodes.Getattr):
            parts.append(f"{{{each.attr}}}")
        elif isinstance(each, nodes.Filter) and isinstance(each.node, nodes.Name):
            parts.append(f"{{{each.node.name}}}")
        elif isinstance(each, nodes.Name):
            parts.append(f"{{{each.name}}}")
        else:
            parts.append(f"{{{'abcdefg'[len(parts)]}}}")
    return "".join(parts)


def declared() -> Iterator[tuple[str, str]]:
    """Messages that dataclasses and registries declare."""
    yield from ((text, "earlier") for text in EARLIER)
    for part in ("DataConfig", "Config"):
        for folder, settings in tasks.declared("settings", part):
            yield from ((flag.help, f"tasks/{folder}") for flag, _ in flags_of(settings).values())
    for name, instrument in instruments().items():
        yield name, "measure"
        yield from ((flag.help, "measure") for flag, _ in flags_of(instrument.options).values())
    for name in LINEAGE:
        found = card(name)
        yield from (
            (text, f"layers/{name}")
            for text in (found.summary, found.state, found.update, found.read, found.grows, found.fast)
        )
    for heat in [*heats.heats().values(), *heats.ladders().values()]:
        yield from (
            (text, f"heat {heat.name}")
            for text in (heat.title, heat.question, heat.metric.label, heat.validation.label)
        )
        yield from ((rung.change, f"heat {heat.name}") for rung in heat.rungs)
    yield from ((plain(text), "typer") for text in TYPER)
    yield from ((text, "cli") for text in ("Example: {command}", "Examples: {command}, {command2}"))
    yield from (
        (text, "racing")
        for text in (
            ".",
            "{low:g} to {high:g}",
            "{low:g} to {high:g} points",
            "{value:g} points",
            "{count:g} parameters",
            "training",
            "yes",
            "quick",
            "full",
            "level",
            "failed",
        )
    )
    for task in tasks.every():
        yield from ((text, f"tasks/{task.name}") for text in task.instead.values())
    words = [*WORDS, *RUN_COLUMNS, *lineage.COLUMNS[1:], *TERMS.values(), *CARD.values(), *STATES.values()]
    yield from ((word, "registries") for word in words)
    yield from ((verdict.value, "claims") for verdict in Verdict)
    yield from ((chapter, "claims") for chapter in CHAPTERS)
    yield from ((plain(load(name).statement), f"claims/{name}") for name in claims())
    yield from claim_messages.said()
    yield from claim_messages.found(Finder)
    yield from ((text, "learn/exercises.py") for text in exercises.texts())


def required() -> dict[str, str]:
    """{message: its first place} of all that is shown."""
    found: dict[str, str] = {}
    for message, place in itertools.chain(in_source(), in_pages(), declared(), studio.required().items()):
        if message.strip():
            found.setdefault(message, place)
    return found


def write(wanted: dict[str, str], have: dict[str, str]) -> str:
    """The file of a catalogue: every message once, below the first place that has it; without a translation empty."""
    entries = [
        f"#: {place}\nmsgid {_quote(message)}\nmsgstr {_quote(have.get(message, ''))}\n"
        for message, place in wanted.items()
    ]
    return "\n".join([HEAD, *entries])


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def main() -> int:
    """Says which messages have no translation, and which translations have no message."""
    wanted, have = required(), read_catalogue("zh")
    if sys.argv[1:] == ["--write"]:
        PATH.write_text(write(wanted, have), encoding="utf-8")
    for message, place in wanted.items():
        if message not in have:
            print(f"missing\t{place}\t{message!r}")
    for message in have:
        if message not in wanted:
            print(f"stale\t{message!r}")
    return int(set(wanted) != set(have))


if __name__ == "__main__":
    sys.exit(main())
