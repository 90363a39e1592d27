"""docs/results.md, docs/claims.md and the READMEs' figures, from results/: python -m tools.results [ROOT]"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from recollect.core.language import LANGUAGES, speaking
from recollect.report.drawing import chart

from . import claims, lengths, published, races
from .tables import table

TITLES = {
    "adding": (
        "Adding two numbers out of 600",
        "mean squared error after 4,000 steps, the TCN 6,000 at its recipe's rate (27 minutes) and 2,500 more from "
        "there at half of it (its row); guessing 1 every time gives 1/6 = 0.167. Bai 2018 has "
        ".177 for an RNN, .164 for an LSTM, 5.3e-5 for a GRU and 5.8e-5 for a TCN of this size",
    ),
    "captions-flickr8k": (
        "Flickr8k at 96 pixels, from scratch",
        "on the development part, which also chose the weights. The same captions given to other pictures, and one "
        "caption for all, show how much comes from looking",
    ),
    "captions-scenes": (
        "Rendered scenes",
        "share of captions without a mistake, on scenes that were not trained on; one CPU core",
    ),
    "captions-scenes-heldout": (
        "Rendered scenes, combinations of shape and colour that training held out",
        "the run of the next table, on things that it has never seen together",
    ),
    "films": (
        "Films: events told in their order",
        "share of captions without a mistake by number of events, on films that were not trained on, half of them with "
        "combinations that training held out; trained on up to three events. A model that ignores the order of frames "
        "(`bag`) is right about one half at most. One CPU core",
    ),
    "copy": (
        "Copying ten symbols over 1,000 steps",
        "nats per step, after 3,000 steps, the TCN after 5,000; a guess gives 10·ln 8 / 1,020 = 0.0204. Bai 2018 has "
        "3.5e-5 for a TCN",
    ),
    "labels-fsdd": (
        "Spoken digits, the official split, about 46,000 parameters",
        "accuracy on takes 0 to 4 of all six speakers, who are heard in training too; after 900 steps of 64 rows. "
        "Settings were chosen for speakers who are not heard (its own table), with the GRU; the others' were not tuned",
    ),
    "labels-fsdd-speakers": (
        "Spoken digits, a speaker left out, about 46,000 parameters",
        "accuracy on the 500 recordings of a speaker who is not heard in training, in the mean over the speakers "
        "(lowest – highest), by the same recipes as on the official split. The choice was not blind: bands and level "
        "were found by a kernel machine on all six speakers left out in turn, augmentation by the GRU on one of them, "
        "theo. The next table asks again, without the speaker of the test",
    ),
    "labels-fsdd-choice": (
        "Spoken digits, which settings a fold would choose without its speaker",
        "accuracy on a validation speaker, of a TCN trained for 400 steps on the four speakers who are neither that "
        "one nor the one of the fold's test; the best of each fold stands out. `mild` is how the recipes alter frames, "
        "`strong` what recipes/speakers.py names so: wider ranges, more masks, noise up to the loudness of the voice "
        "and a random response. One seed",
    ),
    "labels-mnist": (
        "MNIST, pixel by pixel, about 70,000 parameters",
        "accuracy on the test part, after 5,500 steps of 200 rows (RNN and Transformer 4,000, GRU 3,000). Bai 2018 has "
        "21.5 for an RNN, 87.2 for an LSTM, 96.2 for a GRU, 99.0 for a TCN",
    ),
    "labels-pmnist": (
        "MNIST, pixel by pixel in one fixed random order, about 70,000 parameters",
        "accuracy on the test part, after 5,500 steps of 200 rows (the RNN 2,000, the Transformer 4,000). Bai 2018 has "
        "25.3 for an RNN, 85.7 for an LSTM, 87.3 for a GRU, 97.2 for a TCN",
    ),
    "labels-sst2": (
        "SST-2 from scratch",
        "accuracy on its development part, which serves as the test; settings were chosen on a part of training",
    ),
    "recall": (
        "Recall of pairs (MQAR in zoology's settings)",
        "share of values recalled, vocabulary of 8,192, width 64, after 3,000 steps of 512 rows on an H200 (the "
        "Transformer, and TTT-linear at 8 pairs and where it was trained on all loads up to 16: 6,000) or 2,000 of 256 "
        "on a CPU; 4 pairs in 64 steps, 8 in 128, 16 in 256. Vectors of tokens start with a deviation of .02 in "
        "residual models, but of 1 in TTT-linear at 4 pairs. Naming any value of the row is right once in so many",
    ),
    "tinyshakespeare": (
        "Tiny Shakespeare, characters, first 90 % / last 10 %",
        "nats per character on the whole validation part; nanoGPT's published figure for 10.7 M parameters is 1.4697, "
        "on random windows of it",
    ),
    "timemachine": (
        "The Time Machine, letters and blanks, in the settings of Dive into Deep Learning",
        "nats per character; trained on the first 10,000 characters by 500 passes of plain SGD, measured on those that "
        "follow. Learning the text by heart is what the figures of the book show: two columns give the "
        "perplexity at the end, on the training text and on validation; the mean is the best validation on the way",
    ),
    "tinyshakespeare-cpu": (
        "Tiny Shakespeare on two CPU cores, nanoGPT's small setting",
        "nats per character on the whole validation part; windows of 64, batches of 12; the Transformer has nanoGPT's "
        "4 layers of 128 and 2,000 steps, for which it publishes 1.88; the LSTM has as many parameters and no more "
        "time. One thread each, beside other work",
    ),
    "ratings-generated": (
        "Ratings made from known features",
        "`dot`: vectors of three numbers and biases; `plain`: vectors alone; `biases`: biases alone; `features`: the "
        "items' true features given, users learned. The noise in the ratings is 0.3. From `dot`'s vectors the true "
        "features are recovered up to a rotation: the least canonical correlation of items is 0.995 for every seed",
    ),
    "series-etth1": (
        "ETTh1, 96 to 720 hours ahead",
        "MSE and MAE of all windows of the test part, scaled by the training part; published figures are MSE. `ar` is "
        "least squares in closed form",
    ),
    "series-ettm1": (
        "ETTm1, 96 to 720 quarters of an hour ahead",
        "MSE and MAE of all windows of the test part, scaled by the training part; published figures are MSE. `ar` is "
        "least squares in closed form",
    ),
    "series-exchange": (
        "Exchange rates",
        "MSE and MAE on the test part. The naive forecast, tomorrow as today, is hard to beat; where its error is "
        "less, it wins",
    ),
    "series-sine": (
        "A noisy sine, the next point from the last four",
        "as in Dive into Deep Learning, on points of its own noise; see also the claim [k-step](claims.md#k-step)",
    ),
    "tang": (
        "Poems of the Tang, by character, last 10 % of them for validation",
        "nats per character; networks of about 4 million parameters, 3,000 steps of 64 windows of 128 characters. "
        "Times are of many trainings side by side on one GPU",
    ),
    "translation-multi30k": (
        "Multi30k, English to German, test 2016",
        "BLEU on tokenised, lowercased text as the papers give it, and beside it cased BLEU on the text as one would "
        "write it; validation chose the weights. The best published Transformer of this size (Wu 2021) has 41.02. "
        "Times are of nine to fourteen trainings side by side on one GPU",
    ),
    "translation-chained": (
        "Multi30k in texts of up to 80 words, English to German",
        "sentences of each part joined to texts of many lengths, in training and in test: what a source of one vector "
        "loses as it grows. BLEU on tokenised, lowercased text; 2,500 steps and one seed each, with the settings "
        "for single sentences (the Transformer without consistency)",
    ),
    "translation-french": (
        "Multi30k, English to French, test 2016",
        "BLEU as for German, with the settings that validation chose there and 5,000 steps in place of 6,000",
    ),
    "translation-chinese": (
        "Tatoeba, English to Chinese",
        "BLEU by sacreBLEU's tokeniser for Chinese; parts are split by source sentence",
    ),
    "translation-chinese-small": (
        "Tatoeba, English to Chinese, five small translators on two CPU cores",
        "BLEU by sacreBLEU's tokeniser for Chinese. 800,000 parameters and 1,200 steps of about 1,000 tokens for each, "
        "Chinese by character; the recipes differ in the model alone, none was tuned. Two or three passes over the "
        "text are few: how soon each learns is what is compared. One thread each, beside much other work",
    ),
    "translation-numbers": (
        "Numbers in words, English to French",
        "Numbers up to 999,999 that no model has seen; 600 steps of 2,048 tokens, one CPU core each",
    ),
    "transcribe-fsdd": (
        "Strings of spoken digits (fsdd)",
        "character errors on strings joined of takes that were not trained on (0 to 4 of each digit and speaker), of 1 "
        "to 5 digits as in training and, apart, of each length, also lengths that training never had. One core of a "
        "CPU that many jobs shared, so that the time says little; no setting was searched for. Trained with recordings "
        "played up to 10 % faster or slower and faint noise; since then frames are altered as for labels",
    ),
    "wikitext2": (
        "WikiText-2, words, test part",
        "nats per word; perplexity is its exponential. Times are of many trainings side by side on one GPU",
    ),
}
READMES = {"README.md": "en", "README.zh-CN.md": "zh"}
FIGURES = {  # file in docs/ without its ending, and what it is drawn from
    "translation-chained": ("length", lengths.texts),
    "translation-multi30k": ("length-sentences", lengths.sentences),
}


def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The rows of results/*.jsonl, by the name of the file."""
    return {
        path.stem: [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
        for path in sorted(folder.glob("*.jsonl"))
    }


def page(folder: Path) -> str:
    """One table a file of rows: models by their mean, with the range over seeds."""
    parts = ["# Results\n", "Made from the rows in `results/` by `python -m tools.results`.\n"]
    for name, found in rows(folder).items():
        title, note = TITLES.get(name, (name, "nats per token"))
        parts += [f"## {title}\n", f"{note}.\n"]
        if name in FIGURES:
            file, drawn = FIGURES[name]
            parts.append(f"![{drawn(found)['title']}]({file}.svg)\n")
        parts.append(table(found))
        if any("samples" in row for row in found):
            parts.append(samples(found))
    if (folder / "bptt.json").exists():
        parts.append(gradients(folder / "bptt.json"))
    return "\n".join(parts)


def samples(found: list[dict[str, Any]]) -> str:
    """What each model makes of the same sentences, which none was trained on."""
    head = ["model", *(source for source, _ in found[0]["samples"])]
    rows = [[f"`{row['model']}`", *(target for _, target in row["samples"])] for row in found]
    return "\n".join(["Sentences that are not in the data:\n", *_table(head, rows), ""])


def claims_page(folder: Path) -> str:
    """docs/claims.md, from results/claims.json and claims-full.json."""
    return claims.document(*(claims.read_rows(folder, effort) for effort in claims.FILES))


def in_language(folder: Path, language: str) -> Iterator[tuple[str, str]]:
    """The pages and pictures in docs/ that speak more than one language: file and content."""
    end = "" if language == "en" else f".{language}"
    with speaking(language):
        yield f"claims{end}.md", claims_page(folder)
        yield f"races{end}.md", races.page(folder)
        yield from races.pictures(folder)
        yield from ((f"{file}{end}.svg", drawn) for file, drawn in curves(folder))


def curves(folder: Path) -> Iterator[tuple[str, str]]:
    """The figures drawn from rows: their names in docs/, and the SVG in them."""
    found = rows(folder)
    yield from ((file, chart.standalone(drawn(found[name]))) for name, (file, drawn) in FIGURES.items())


def gradients(path: Path) -> str:
    """What cutting backpropagation through time costs and buys, from results/bptt.json."""
    content = json.loads(path.read_text(encoding="utf-8"))
    tables = {"segments": step_table, "carrying": carrying_table, "book": book_table, "estimators": estimator_table}
    parts = ["## Backpropagation through time, cut\n"]
    for name, draw in tables.items():
        if name in content:
            parts += draw(content[name])
    return "\n".join(parts) + "\n"


def step_table(found: dict[str, Any]) -> list[str]:
    rows = []
    for row in found["rows"]:
        sizes = [f"{row[name] / 1e6:.1f} MB" for name in ("kept", "resident")]
        rows.append([f"`{row['model']}`", f"{row['segment']:,}", *sizes, f"{row['seconds']:.2f}"])
    head = ["model", "steps of a segment", "kept for the backward pass", "growth of the process", "seconds"]
    about = "One step of training; the longest segment is the whole window"
    return [f"{about}. {found['task']}: {found['rule']}.\n", *_table(head, rows), ""]


def carrying_table(found: dict[str, Any]) -> list[str]:
    rows = [
        [row["gradient"], str(row["segment"]), f"{fmean(row['lost']):.3f}", _spread(row["lost"])]
        for row in found["rows"]
    ]
    about = f"Where a cut must hurt: {found['task']}; {found['rule']}, {len(found['seeds'])} seeds.\n"
    return [about, *_table(["gradient", "steps of a segment", "lost", "range"], rows), ""]


def book_table(found: dict[str, Any]) -> list[str]:
    rows = [[row["gradient"], f"{fmean(row['nats']):.4f}", _spread(row["nats"], 4)] for row in found["rows"]]
    drawn = [f"{name:10} {line}" for name, line in found["drawn"].items()]
    about = f"{found['task']}; {found['rule']}, {len(found['seeds'])} seeds. Three ways to cut its first line:\n"
    lines = [f"    {line}" for line in drawn]
    return [about, "", *lines, "", *_table(["gradient", "nats per character", "range"], rows), ""]


def estimator_table(found: dict[str, Any]) -> list[str]:
    """Bias and variance of the four gradients."""
    rows = []
    for row in found["rows"]:
        cells = [f"`{row['model']}`", row["estimator"], f"{row['bias']:.4f}", f"{row['error']:.4f}"]
        rows.append([*cells, f"{row['variance']:.2f}", f"{row['total']:.2f}", f"{row['slope']:.3f}"])
    head = ["model", "gradient", "bias²", "±", "variance over data", "bias² + variance", "cosine to the full one"]
    about = (
        f"Four gradients as estimators: {found['task']}; after {found['steps']} steps of training, on "
        f"{found['batches']} batches; {found['rule']}. Bias² is freed of the noise of its own estimate and so may fall "
        "below 0.\n"
    )
    return [about, *_table(head, rows)]


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _spread(values: list[float], digits: int = 3) -> str:
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


if __name__ == "__main__":
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    (root / "docs" / "results.md").write_text(page(root / "results"), encoding="utf-8")
    for language in LANGUAGES:
        for file, text in in_language(root / "results", language):
            (root / "docs" / file).write_text(text, encoding="utf-8")
    all_rows = rows(root / "results")
    for name, language in READMES.items():
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(published.insert_table(text, all_rows, language), encoding="utf-8")
