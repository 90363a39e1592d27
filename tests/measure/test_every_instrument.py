"""Every instrument on every kind of run: numbers that JSON can hold, pictures that can be drawn, or one clear line."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import tiny
from recollect import tasks
from recollect.core.chart import Chart, Map
from recollect.measure import gradients
from recollect.measure.instruments import inspect, instruments
from recollect.report.drawing import chart as drawing
from recollect.report.inspection import Inspected, draw
from recollect.training import run as training
from report.test_inspection import overlapping

STEPS = {"steps": 6, "warmup": 2, "save_every": 3, "eval_every": 3, "log_every": 1}
SMALL = {
    "text": {"context": 12, "batch": 4, "width": 8, "layers": 2},
    "labels": {"batch": 8, "width": 8, "layers": 1},
    "recall": {"batch": 8, "width": 8, "layers": 1, "eval_rows": 30},
    "adding": {"batch": 8, "width": 8, "layers": 1, "eval_rows": 30},
    "series": {"lookback": 12, "horizon": 4, "width": 8, "batch": 8},
    "translation": {"batch": 200, "width": 8, "count": 200, "highest": 999},
    "captions": {"batch": 4, "width": 8, "channels": 8, "count": 24, "pixels": 32, "eval_images": 4, "extra": 8},
    "films": {"batch": 4, "width": 8, "channels": 8, "count": 24, "eval_films": 4, "extra": 8, "heads": 2},
    "ratings": {"users": 30, "items": 20, "ratings": 400, "batch": 64},
}
RUNS = [
    *(("text", model) for model in ("ngram", *tiny.KINDS)),
    ("text", "mixture"),
    *(("labels", model) for model in ("bag", "gru", "transformer")),
    ("recall", "lstm"),
    ("recall", "transformer"),
    ("adding", "gru"),
    *(("series", model) for model in ("ar", "gru", "tcn", "transformer", "full")),
    *(("translation", model) for model in ("fixed", "context", "attend", "conv", "transformer")),
    *(("captions", model) for model in ("fixed", "attend", "transformer")),
    *(("films", model) for model in ("bag", "gru")),
    ("ratings", "dot"),
]
COUNTED = {("text", "ngram"), ("text", "mixture"), ("labels", "bag")}
EVERYWHERE = ("gradients", "influence", "horizon", "state", "cost")
ELSEWHERE = {
    "alignment": "translation", "gaze": "captions", "ahead": "series", "directions": "ratings", "nearest": "ratings",
    "exposure": "text",
}  # fmt: skip


def refused(task, model, what):
    """Why an instrument has nothing to look at, or None."""
    if what in ELSEWHERE:
        return None if tasks.folder_of(task) == ELSEWHERE[what] else f"expected a run of {ELSEWHERE[what]}"
    if task == "ratings":
        return "expected a model that reads a sequence"
    if what == "gradients" and (task, model) in COUNTED:
        return "expected a model that was trained, found one that counts"
    if what == "state" and model == "ngram":
        return "expected a state with numbers in it"
    if what in ("state", "cost") and model == "full":
        return "expected a model that goes step by step"
    return None


def train(task, model, folder):
    """A run of a few steps."""
    out = folder / f"{task}-{model}"
    kind = tasks.find(task)
    settings = STEPS | SMALL[task]
    sources = {}
    if task == "text":
        (folder / "text.txt").write_text(tiny.prose(400), encoding="utf-8")
        sources = {"data": [str(folder / "text.txt")], "tokenizer": "chars"}
    if task == "labels":
        lines = [f"{tiny.prose(6, seed)}\t{'ab'[seed % 2]}" for seed in range(60)]
        (folder / "table.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        sources = {"data": [str(folder / "table.tsv")]}
    if model == "mixture":
        parts = [train(task, part, folder) for part in ("ngram", "gru")]
        training.combine(kind, model, [str(part) for part in parts], str(out))
        return out
    if model in ("ngram", "bag"):
        settings = {name: value for name, value in settings.items() if name not in ("width", "layers")}
    if model == "full":
        model, settings = "transformer", settings | {"attention": "full"}
    if model in tiny.HEADED and task != "ratings":
        settings = settings | {"heads": 2}
    if not out.exists():
        texts = {name: str(value) for name, value in settings.items()}
        training.train(kind, training.configure(kind, texts, model=model, **sources), str(out))
    return out


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    found = {}

    def of(task, model):
        if (task, model) not in found:
            torch.manual_seed(0)
            found[task, model] = train(task, model, folder)
        return found[task, model]

    return of


def look(path, what):
    more = {"cost": {"lengths": "4,8,16", "tries": 1}, "gradients": {"rows": 3}, "horizon": {"rows": 20}}
    given = more.get(what, {})
    if what == "nearest" and "ratings" in str(path):
        given = {"item": training.load(path).artifacts.items[0]}
    return inspect(path, what, **given)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "model", "what"),
    [
        (task, model, what)
        for task, model in RUNS
        for what in instruments()
        if what in EVERYWHERE or tasks.folder_of(task) == ELSEWHERE[what] or model == "lstm"
    ],
)
def test_every_instrument_reads_every_kind_of_run_or_says_in_a_line_why_not(runs, task, model, what, tmp_path):
    path = runs(task, model)
    if why := refused(task, model, what):
        with pytest.raises(ValueError, match=why) as caught:
            look(path, what)
        assert "\n" not in str(caught.value)
        return
    found = look(path, what)
    assert found.summary
    assert all(line and "\n" not in line for line in found.summary)
    text = json.dumps(found.to_json(), allow_nan=False)
    assert json.loads(text)["charts"], "something to look at"
    for picture in found.charts:
        check(picture)
    charts = [picture.to_json() for picture in found.charts]
    assert found.model
    drawn = draw(what, [Inspected(f"{task} run", found.model, charts)])
    assert drawn.count('class="frame scale"') == sum("values" in one for one in charts), "every map has its scale"
    assert overlapping(drawn) == []
    assert not re.search(r">[^<]*\d\.[a-z]+[^<]*</text>", drawn), "plain names, not paths of tensors"
    drawing.save(drawn, str(tmp_path / "found.png"))


def check(picture):
    """A picture as data: as many names as there are rows and columns, as many y as x, and some numbers in it."""
    if isinstance(picture, Map):
        assert len({len(row) for row in picture.values}) == 1
        assert picture.rows is None or len(picture.rows) == len(picture.values)
        assert picture.columns is None or len(picture.columns) == len(picture.values[0])
        assert all(math.isfinite(value) for row in picture.values for value in row)
    else:
        assert isinstance(picture, Chart)
        assert picture.lines
        for line in picture.lines:
            assert len(line.x) == len(line.y)
            for end in (line.low, line.high):
                assert end is None or len(end) == len(line.x)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model"), [("text", "gru"), ("captions", "attend")])
def test_what_is_looked_at_stays_as_it_was(runs, task, model):
    """No instrument writes into a run folder, nor leaves the weights of another stage behind."""
    path = runs(task, model)
    before = {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}
    run = training.load(path)
    weights = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    for what in EVERYWHERE:
        look(path, what)
    gradients.inspect(run, gradients.Options(rows=2))
    assert {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()} == before
    assert all(torch.equal(tensor, weights[name]) for name, tensor in run.model.state_dict().items())


@pytest.mark.slow
def test_the_first_weights_are_those_that_training_began_with(runs, tmp_path):
    """A run of one step whose rate is next to nothing ends where it began."""
    kind = tasks.find("text")
    text = tmp_path / "text.txt"
    text.write_text(tiny.prose(400), encoding="utf-8")
    settings = STEPS | SMALL["text"] | {"steps": 1, "lr": 1e-12, "weight_decay": 0}
    texts = {name: str(value) for name, value in settings.items()}
    config = training.configure(kind, texts, model="lstm", data=[str(text)])
    training.train(kind, config, str(tmp_path / "run"))
    found = gradients.stages(training.load(tmp_path / "run"))
    assert list(found) == ["initial", "trained"]
    for name, tensor in found["trained"].items():
        assert torch.allclose(found["initial"][name], tensor, atol=1e-9), name


@pytest.mark.slow
def test_clipping_is_shown_as_it_works(runs):
    run = training.load(runs("text", "rnn"))
    for clip in (1e-3, 1e3, None):
        run.config = replace(run.config, train=replace(run.config.train, clip=clip))
        found = gradients.clipping(run, run.model)
        assert found["after"] == pytest.approx(min(found["before"], clip or math.inf), rel=1e-4)
    assert found["before"] == pytest.approx(norm_by_hand(run))


def norm_by_hand(run):
    """The norm of the gradient of the first training batch, from the loss alone."""
    model, batch = run.model, next(run.task.batches("train", run.config.train.seed))
    loss = run.task.loss(model, batch).value
    found = torch.autograd.grad(loss, [p for p in model.parameters() if p.requires_grad])
    return math.sqrt(sum(float(part.square().sum()) for part in found))


@pytest.mark.slow
def test_the_command_speaks_gives_json_and_draws(command, runs, tmp_path):
    path = runs("text", "transformer")
    given = ("influence", "--text", "the cat", "--out", tmp_path / "map.png")
    code, out, _ = command("inspect", path, *given)
    assert code == 0
    assert out.startswith("by gradient: 't', the last output, rests most on ")
    assert [file.name for file in tmp_path.iterdir()] == ["map.png"], "one panel"
    assert command("inspect", path, *given, "--parts")[0] == 0
    for name in ("map.png", "map-1.png", "map-2.png", "map-3.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    code, out, _ = command("inspect", path, "influence", "--text", "the cat", "--layer", 2, "--json")
    found = json.loads(out)
    assert (code, found["instrument"]) == (0, "influence")
    assert found["inputs"] == ["t", "h", "e", "␣", "c", "a"]
    assert found["charts"][2]["title"] == "attention, mean of all heads"
    assert len(found["attention"]) == 4


@pytest.mark.slow
def test_several_runs_stand_side_by_side_in_one_picture(command, runs, tmp_path):
    paths = [runs("text", model) for model in ("rnn", "lstm", "transformer")]
    code, out, _ = command("inspect", *paths, "influence", "--text", "the cat", "--out", tmp_path / "all.svg")
    assert code == 0
    assert out.count("the last output, rests most on") == 6
    drawn = (tmp_path / "all.svg").read_text("utf-8")
    assert "Influence: rnn, lstm, transformer" in drawn
    assert "The same input for all: t h e" in drawn
    for model in ("rnn", "lstm", "transformer"):
        assert f"{model}: influence by ablation" in drawn
    code, out, _ = command("inspect", *paths, "horizon", "--rows", "4", "--json")
    assert [row["run"] for row in json.loads(out)] == [str(path) for path in paths]


@pytest.mark.slow
def test_a_gaze_is_drawn_over_its_picture(command, runs, tmp_path):
    code, out, _ = command("inspect", runs("captions", "fixed"), "gaze", "--out", tmp_path / "gaze.pdf")
    assert code == 0
    assert "influence of each part of the picture, by gradient" in out
    assert (tmp_path / "gaze.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("horizn",), "did you mean 'horizon'?"),
        (("horizon", "--item", "x"), "--item: expected with nearest, found with horizon"),
        (("horizon", "--out", "map.gif"), "expected a figure that ends in .png, .svg, .pdf"),
        (("horizon", "--rows", "0"), "--rows: expected at least 1, found 0"),
        (("influence", "--text", "t"), "--text: expected at least two tokens, found 1"),
        (("influence", "--layer", "1"), "--layer: expected a model with attention"),
        (("influence", "--by", "magic"), "another, zero"),
        (("influence", "--image", "x.png"), "--image: expected a run of captions, films, found one of text"),
        (("state", "--at", "99"), "--at: expected a step from 1 to"),
        (("state", "--change", "the"), "expected a text that is one token, found 3"),
        (("cost", "--lengths", "8,4"), "--lengths: expected rising numbers"),
        (("nearest",), "expected a run of ratings for nearest, found one of text"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(command, runs, words, message):
    code, out, error = command("inspect", runs("text", "lstm"), *words)
    assert code == 1
    assert not out
    assert message in error
    assert error.count("\n") == 1
