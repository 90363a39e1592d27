"""Our results beside published ones, for the READMEs: each figure from rows in results/, none by hand."""

import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

Row = dict[str, Any]
Found = dict[str, list[Row]]

BEGIN, END = "<!-- figures: python -m tools.results -->", "<!-- end of figures -->"
HEADS = {
    "en": ("task and measure", "model", "ours", "seeds", "published"),
    "zh": ("任务与指标", "模型", "我们的结果", "种子数", "已发表的结果"),
}


class Figure(NamedTuple):
    """A line of the table: which rows it averages, how the value is written, and what others have published."""

    file: str
    model: str
    task: dict[str, str]  # by language
    published: str = "–"
    shown: Callable[[float], str] = "{:.3f}".format
    value: Callable[[Row], float] = lambda row: row["metric"]["value"]
    rows: Callable[[Row], bool] = lambda row: True


def _two(value: float) -> str:
    return f"{value:.2f}"


def _ett(name: str, model: str, horizon: int, published: str) -> Figure:
    """Networks that read segments; those that read point by point are there for the contrast."""
    ahead = {"etth1": ("hours", "小时"), "ettm1": ("quarters of an hour", "刻钟")}[name]
    shown = name.replace("ett", "ETT")
    return Figure(
        f"series-{name}",
        model,
        {"en": f"{shown}, {horizon} {ahead[0]} ahead, MSE ↓", "zh": f"{shown}，提前 {horizon} {ahead[1]}，均方误差 ↓"},
        published,
        value=lambda row: row["figures"]["mse"],
        rows=lambda row: (
            row["settings"]["series"]["horizon"] == horizon
            and (model == "ar" or row["settings"]["model"]["segment"] > 1)
        ),
    )


def _has_self_attention(row: Row) -> bool:
    """Whether a captioner has self-attention in its CNN."""
    return row["settings"]["model"]["self_attention"]


def _wikitext(model: str, published: str = "–", seconds: float | None = None) -> Figure:
    return Figure(
        "wikitext2",
        model,
        {"en": "WikiText-2, test perplexity ↓", "zh": "WikiText-2，测试困惑度 ↓"},
        published,
        "{:.1f}".format,
        lambda row: math.exp(row["metric"]["value"]),
        lambda row: row["settings"].get("train", {}).get("seconds") == seconds,
    )


SHAKESPEARE = {"en": "Tiny Shakespeare, nats per character ↓", "zh": "Tiny Shakespeare，每字符 nats ↓"}
FLICKR = {
    "en": "Flickr8k at 96 px from scratch, development part, BLEU-4 ↑",
    "zh": "Flickr8k，96 像素，从零训练，开发集，BLEU-4 ↑",
}
MULTI30K = {"en": "Multi30k en→de, test 2016, BLEU ↑", "zh": "Multi30k 英→德，test 2016，BLEU ↑"}

FIGURES = (
    Figure("tinyshakespeare", "transformer", SHAKESPEARE, "1.4697 (nanoGPT)"),
    Figure("tinyshakespeare", "lstm", SHAKESPEARE),
    Figure("tinyshakespeare", "gru", SHAKESPEARE),
    Figure("tinyshakespeare", "tcn", SHAKESPEARE),
    Figure("tinyshakespeare", "ttt-linear", SHAKESPEARE, rows=lambda row: bool(row["settings"]["model"].get("taps"))),
    _wikitext("lstm", "65.8 (AWD-LSTM)", seconds=470),  # the longer of two
    *(_wikitext(model) for model in ("transformer", "tcn", "ngram")),
    Figure("translation-multi30k", "transformer", MULTI30K, "41.02 (Wu 2021)", _two),
    Figure(
        "translation-multi30k",
        "attend",
        MULTI30K,
        "≈ 36.8",
        _two,
        rows=lambda row: row["settings"]["model"]["score"] == "additive",  # the one with three seeds
    ),
    Figure("translation-multi30k", "conv", MULTI30K, "–", _two),
    Figure("translation-multi30k", "context", MULTI30K, "–", _two),
    Figure("translation-multi30k", "fixed", MULTI30K, "–", _two),
    *(
        _ett(name, model, horizon, published)
        for name, horizon, published in (
            ("etth1", 96, ".375 (DLinear), .351 (SegRNN), .370 (PatchTST)"),
            ("etth1", 720, ".472 (DLinear), .466 (SegRNN), .447 (PatchTST)"),
            ("ettm1", 96, ".299 (DLinear), .293 (SegRNN), .293 (PatchTST)"),
            ("ettm1", 720, ".425 (DLinear), .410 (SegRNN), .416 (PatchTST)"),
        )
        for model in ("gru", "transformer", "ar")
    ),
    *(
        Figure("captions-flickr8k", model, FLICKR, "–", _two, rows=lambda row: not _has_self_attention(row))
        for model in ("attend", "fixed")
    ),
)


def table(found: Found, language: str) -> str:
    """Markdown; a line whose rows are missing is left out."""
    heads = HEADS[language]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for figure in FIGURES:
        rows = [row for row in found.get(figure.file, []) if row["model"] == figure.model and figure.rows(row)]
        if rows:
            value = figure.shown(statistics.mean(map(figure.value, rows)))
            cells = (figure.task[language], f"`{figure.model}`", value, str(len(rows)), figure.published)
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def insert_table(text: str, found: Found, language: str) -> str:
    """A README with the table between its marks."""
    before, mark, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (mark and end):
        raise ValueError(f"README: expected the marks {BEGIN} and {END}, found none")
    return f"{before}{BEGIN}\n\n{table(found, language)}\n{END}{after}"
