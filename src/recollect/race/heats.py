"""The heats that there are: one for each task, with settings that suit two cores and a few minutes."""

from typing import Any

from ..models.body import KINDS
from ..train.jobs import JOBS
from .heat import Heat, Metric

NETWORKS = tuple(name for name in KINDS if name != "ar")
DEFAULT = ("recall", "translation")  # where memory decides

EXACT: Any = {"name": "exact", "better": "higher", "unit": "share"}
BLEU = Metric(name="bleu", place=("metric", "value"), label="BLEU", better="higher")
RIGHT = Metric(name="accuracy", place=("accuracy",), label="share right", better="higher", unit="share")
NATS = Metric(name="nats_per_token", place=("metric", "value"), label="nats per token")
OWN = ("metric", "value")


def _memory(task: str, title: str, question: str, **given: object) -> Heat:
    usual: dict[str, object] = {"metric": RIGHT, "validation": RIGHT, "models": NETWORKS, "params": 30_000}
    usual |= {"steps": 400, "settings": {"batch": "64", "eval_rows": "500"}}
    return Heat(name=task, task=task, title=title, question=question, **usual | given)  # type: ignore[arg-type]


HEATS: dict[str, Heat] = {
    heat.name: heat
    for heat in (
        _memory(
            "recall",
            "Recall: who was with whom?",
            "A row names pairs, a key and its value each, and later asks for the value of every key. Whoever "
            "keeps all pairs apart answers all; whoever squeezes them into a small state mixes them up. Every memory "
            "stands in the same block, which shows it each token beside the one before, since keeping is asked for "
            "here and not how soon one finds out what to look back at.",
            metric=Metric(name="accuracy", place=("accuracy",), label="share recalled", better="higher", unit="share"),
            settings={
                "length": "16",
                "load": "4",
                "vocab": "32",
                "batch": "64",
                "heads": "1",
                "block": "residual",
                "taps": "2",
                "eval_rows": "400",
                "eval_batch": "200",
            },
        ),
        Heat(
            name="translation",
            task="translation",
            title="Translation: read it once, then write it",
            question="Read a line in one language, then write it in another: with nothing at hand, numbers in words, "
            "English to French. Whoever must carry the line in one vector forgets parts of long ones; whoever may look "
            "back at it does not have to.",
            metric=Metric(
                place=("translated", "exact"),
                label="share without a mistake",
                rule="every word as in the reference, the likeliest word each time, all of validation",
                **EXACT,
            ),
            elsewhere=BLEU,
            validation=NATS,
            models=JOBS["translation"].models,
            params=60_000,
            steps=400,
            settings={"batch": "1024", "count": "10000", "highest": "999999999", "beam": "1"},
            data={"tokenizer": "words"},
        ),
        Heat(
            name="text",
            task="text",
            title="Text: what comes next?",
            question="Predict each token of a text from those before it. Most of that needs only the last few tokens, "
            "which counting does well; a longer memory pays off late, with more to learn from.",
            metric=NATS,
            validation=NATS,
            models=JOBS["text"].models,
            params=150_000,
            steps=200,
            settings={"batch": "16", "context": "64", "eval_tokens": "16384"},
            data={"tokenizer": "bytes"},
        ),
        _memory(
            "copy",
            "Copy: say it again, later",
            "A few symbols, a silence, then the same symbols in their order: the state must hold them all the while.",
            validation=Metric(name="loss", place=("loss",), label="nats per step"),
        ),
        _memory(
            "adding",
            "Adding: two numbers among many",
            "Of a row of numbers two are marked; their sum is asked for at the end.",
            metric=Metric(name="mse", place=("mse",), label="squared error"),
            validation=Metric(name="mse", place=("mse",), label="squared error"),
        ),
        _memory(
            "parity",
            "Parity: odd or even so far?",
            "After each bit, whether the ones so far are odd: one bit of state is enough, but it must never slip.",
        ),
        _memory(
            "gap",
            "Gap: who grew up where?",
            "A country is named early, its language asked for late, with other sentences between.",
        ),
        Heat(
            name="series",
            task="series",
            title="Series: what comes next, in numbers",
            question="Foretell the next points of a series from its past.",
            metric=Metric(name="mse", place=OWN, label="squared error, scaled"),
            validation=Metric(name="mse", place=OWN, label="squared error, scaled"),
            models=JOBS["series"].models,
            params=20_000,
            steps=300,
        ),
        Heat(
            name="captions",
            task="captions",
            title="Captions: say what a picture shows",
            question="One picture, one sentence. Whoever may look again while writing names the right thing.",
            metric=Metric(place=("described", "exact"), label="share exact", **EXACT),
            elsewhere=BLEU,
            validation=NATS,
            models=JOBS["captions"].models,
            params=250_000,  # the eye alone, which is the same for all, takes 160,000
            steps=300,
            settings={"batch": "32", "beam": "1", "eval_images": "100", "count": "2000"},
        ),
        Heat(
            name="labels",
            task="labels",
            title="Labels: tell sequences apart",
            question="Read a whole row, then give it one label.",
            metric=RIGHT,
            validation=RIGHT,
            chosen={"nats": Metric(name="nats", place=("nats",), label="nats per row")},
            models=JOBS["labels"].models,
            params=150_000,
            steps=300,
        ),
        Heat(
            name="ratings",
            task="ratings",
            title="Ratings: who likes what?",
            question="Foretell a rating from a vector of the user and one of the item: the smallest picture of why "
            "attention's dot product works. No memory is asked for here.",
            metric=Metric(name="rmse", place=OWN, label="root mean squared error"),
            validation=Metric(name="rmse", place=OWN, label="root mean squared error"),
            models=JOBS["ratings"].models,
            params=None,
            steps=300,
            settings={"features": "truth"},
            floor="noise",
        ),
    )
}
