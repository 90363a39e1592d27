"""A section of a chapter as parts that a terminal can show: text, formulas, figures, code, commands, answers."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

TOKEN = re.compile(
    r"^```(?P<kind>[^`\n]*)\n(?P<body>.*?)^```[ ]*$"
    r"|\$\$(?P<formula>.+?)\$\$"
    r"|!\[(?P<caption>[^\]]*)\]\((?P<file>[^)\s]+)\)"
    r"|<details><summary>(?P<summary>.*?)</summary>(?P<answer>.*?)</details>"
    r"|<!--.*?-->",
    re.M | re.S,
)
LINK = re.compile(r"\[(?P<text>[^\]]+)\]\((?P<place>[^)\s]+)\)")
CJK = "\u3000-\u9fff\uff00-\uffef—…“”"
GAPS = {r"\qquad": "\x03\x03", r"\quad": "\x03", r"\,": " ", r"\;": " ", r"\:": " ", r"\!": "", r"\ ": " "}
SYMBOLS = {
    "dots": "…", "prod": "∏", "sum": "Σ", "mid": "|", "approx": "≈", "partial": "∂", "infty": "∞", "cdot": "·",
    "odot": "⊙", "top": "ᵀ", "Rightarrow": "⇒", "leftarrow": "←", "rightarrow": "→", "to": "→", "le": "≤", "ge": "≥",
    "in": "∈", "nabla": "∇", "times": "×", "lVert": "‖", "rVert": "‖", "Vert": "‖", "pm": "±", "neq": "≠", "ll": "≪",
    "ell": "ℓ", "varphi": "φ", "varepsilon": "ε", "sim": "∼", "propto": "∝", "ldots": "…", "cdots": "⋯",
}  # fmt: skip
FUNCTIONS = ("exp", "log", "ln", "tanh", "sin", "cos", "max", "min", "arg", "det", "dim")
ABOVE = {"hat": "\u0302", "bar": "\u0304", "tilde": "\u0303"}
RAISED = str.maketrans("0123456789+−n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ")


class Part(NamedTuple):
    """A piece of a section: `kind` is text, formula, figure, python, sh, printed or answer."""

    kind: str
    text: str
    about: str = ""  # the file of a figure, the summary of an answer


def split_section(markdown: str) -> Iterator[Part]:
    """The parts of a section, in order."""
    at = 0
    for found in TOKEN.finditer(markdown):
        yield from _text(markdown[at : found.start()])
        at = found.end()
        if found["formula"]:
            yield Part("formula", read_formula(found["formula"]))
        elif found["file"]:
            yield Part("figure", found["caption"], found["file"])
        elif found["answer"]:
            yield Part("answer", clean(found["answer"]), found["summary"])
        elif found["body"] and found["kind"] in ("python", "sh"):
            yield Part(found["kind"], found["body"])
        elif found["body"]:
            yield Part("printed", found["body"])
    yield from _text(markdown[at:])


def _text(markdown: str) -> Iterator[Part]:
    if text := clean(markdown):
        yield Part("text", text)


def clean(markdown: str) -> str:
    """Text without links to other pages, and without blanks where a line of Chinese was folded."""
    text = re.sub(r"<!--.*?-->", "", markdown, flags=re.S).strip("\n").rstrip()
    text = LINK.sub(lambda link: link[0] if "://" in link["place"] else link["text"], text)
    return re.sub(rf"(?<=[{CJK}])\n *(?=[{CJK}])", "", text)


def read_formula(latex: str) -> str:
    """A formula as one reads it in plain text: `x_{t−1}`, `(a + b)/c`, `√d`, Greek letters."""
    text = re.sub(r"\\mathbb *\{?([A-Z])\}?", r" \1", latex.replace("\n", " "))
    text = re.sub(r"\\(?:mathrm|text|mathbf|operatorname)\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\(?:[Bb]ig[glr]*|left|right)(?![A-Za-z])", "", text).replace("-", "−")
    for gap, blank in GAPS.items():
        text = text.replace(gap, blank)
    text = re.sub(r"(\\(?:sum|prod)(?:[_^](?:\{[^{}]*\}|\w))*)", r"\1 ", text)
    text = re.sub(r"\\([A-Za-z]+) ?", _symbol, text)
    before = ""
    while before != text:  # the innermost first
        before = text
        text = re.sub(r"([_^])\{([^{}]*)\}", _script, text).replace("∂⁺ ", "∂⁺")
        text = re.sub(r"\\sqrt *(\{[^{}]*\}|\w)", lambda found: "√" + _group(found[1]), text)
        text = re.sub(r"\\t?frac *(\{[^{}]*\}|\w) *(\{[^{}]*\}|\w)", _fraction, text)
        text = re.sub(r"\\(hat|bar|tilde) *\{?(\w)\}?", lambda found: found[2] + ABOVE[found[1]], text)
    text = re.sub(r"\^([0-9+])", lambda found: found[1].translate(RAISED), text).replace("^ᵀ", "ᵀ")
    text = re.sub(
        r"\x01[^\x02]*\x02|(?<=[^ ]) *([=≈|⇒+]) *(?=[^ ])", lambda sign: f" {sign[1]} " if sign[1] else sign[0], text
    )
    text = re.sub(rf"(\b(?:{'|'.join(FUNCTIONS)})) +(?=\()", r"\1", text)
    text = re.sub(r" +", " ", text.translate({1: "{", 2: "}"}))
    text = re.sub(r"(?<=[(\[]) | (?=[)\],])|(?<=[(\[]−) |(?<== −) ", "", text)
    return re.sub(" ?\x03[\x03 ]*", lambda gap: " " * 4 * gap[0].count("\x03"), text).strip()


def _symbol(found: re.Match[str]) -> str:
    """A command without arguments; those with arguments stay for what follows."""
    name = found[1]
    if name in SYMBOLS:
        return SYMBOLS[name]
    if name in FUNCTIONS:
        return f" {name} "
    try:
        return unicodedata.lookup(f"GREEK {'CAPITAL' if name[0].isupper() else 'SMALL'} LETTER {name.upper()}")
    except KeyError:
        return found[0]


def _script(found: re.Match[str]) -> str:
    sign, inner = found[1], found[2].strip()
    if sign == "^" and re.fullmatch(r"[0-9+−n]+", inner):
        return inner.translate(RAISED)
    return f"{sign}{inner}" if re.fullmatch(r"\w+|ᵀ", inner) else f"{sign}\x01{inner}\x02"


def _fraction(found: re.Match[str]) -> str:
    return f" {_group(found[1])}/{_group(found[2])} "


def _group(text: str) -> str:
    """What a line or a root spans, in parentheses where it is more than one word."""
    inner = text.removeprefix("{").removesuffix("}").strip()
    return inner if re.fullmatch(r"[\w∂⁺ᵀ^]+(\x01[^\x02]*\x02)?|√(\w|\([^()]*\))", inner) else f"({inner})"
