"""Captions as a task: batches, scores and baselines by hand, runs."""

import json

import numpy as np
import pytest
import torch

from recollect.core.contract import Memory
from recollect.decode import beam
from recollect.tasks.captions import data as pictures
from recollect.tasks.captions import model as captioner
from recollect.tasks.captions.bleu import score_captions
from recollect.tasks.captions.images import box_coverage, to_floats
from recollect.tasks.captions.settings import Config
from recollect.tasks.captions.task import CaptionsTask
from recollect.tasks.decoding import greedy_settings
from recollect.training import evaluation
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from tasks.captions.cases import configure
from tasks.cases import folder_of


def test_an_epoch_shows_each_picture_once_with_one_of_its_captions(shapes):
    task = CaptionsTask(Config(batch=4), shapes)
    part, side = shapes.train, shapes.tokenizer
    rows = {image.tobytes(): row for row, image in enumerate(part.images)}
    run, met, chosen = task.batches("train", seed=0), [], set()
    for _ in range(12):
        batch = next(run)
        for image, x, y in zip(batch.images, batch.x, batch.y, strict=True):
            row = rows[image.numpy().tobytes()]
            met.append(row)
            text = side.decode(y.tolist())
            chosen.add(part.captions[row].index(text))
            assert x[0] == side.begin
            assert torch.equal(x[1:][x[1:] != side.pad], y[: len(text.split())])
            assert side.end in y.tolist()
    assert sorted(met) == list(range(48))
    assert chosen == {0, 1}


def test_lengths_are_rounded_up_where_asked(shapes):
    plain, rounded = (CaptionsTask(Config(batch=4, grain=grain), shapes) for grain in (1, 8))
    a, b = next(plain.batches("train", 0)), next(rounded.batches("train", 0))
    assert b.x.shape[1] % 8 == 0
    assert a.tokens == b.tokens
    model = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8, dropout=0.0).build()
    first, second = plain.loss(model, a).value.item(), rounded.loss(model, b).value.item()
    assert first == pytest.approx(second, rel=1e-5)


def test_scenes_are_never_mirrored_and_photographs_are(shapes, tmp_path):
    assert not CaptionsTask(Config(), shapes).flip
    photos = pictures.load([folder_of(tmp_path / "mine")], pixels=16)
    task = CaptionsTask(Config(), photos)
    assert task.flip
    assert task.crop > 0
    assert not CaptionsTask(Config(flip=False, crop=0.0), photos).flip


def test_bleu_is_that_of_papers_over_all_references():
    """By hand: 'a b c d' against two references, clipped counts over both, the length of the nearer one."""
    found = score_captions(["a b c d"], [["a b x c d", "b c"]])
    one, two, three = 4 / 4, (1 + 1 + 1) / 3, 0 / 2
    assert found["bleu1"] == pytest.approx(100 * one * np.exp(1 - 5 / 4))
    assert found["bleu2"] == pytest.approx(100 * (one * two) ** 0.5 * np.exp(1 - 5 / 4))
    assert found["bleu4"] == three == 0
    assert found["exact"] == 0
    both = score_captions(["a b c d", "e f g h"], [["a b c d"], ["e f g h", "another one"]])
    assert both["bleu4"] == pytest.approx(100)
    assert both["exact"] == 1


def test_captions_without_blanks_are_compared_by_characters(tmp_path):
    folder = folder_of(tmp_path / "mine", 20)
    lines = [f"p{number}.png\t一只{'黑白'[number % 2]}狗在草地上跑。" for number in range(20)]
    (folder / "captions.tsv").write_text("\n".join(lines), encoding="utf-8")
    data = pictures.load([folder], pixels=16)
    assert data.tokenizer.decode(data.train.tokens_of(0)) == data.train.captions[0][0]
    task = CaptionsTask(Config(), data)
    found = task.scores(["一只黑狗在草地上跑"], [["一只白狗在草地上跑"]])
    assert found["bleu1"] == pytest.approx(100 * 8 / 9)
    assert found["exact"] == 0
    assert task.constant("valid")["bleu4"] > 50


def test_shuffled_captions_are_those_of_other_pictures(shapes, monkeypatch):
    """A model that knows the truth is right on its own pictures and on none of the others."""
    task = CaptionsTask(Config(batch=4), shapes)
    part = shapes.test
    known = [[beam.Hypothesis(part.tokens_of(first).tolist(), 0.0, 0.0, True)] for first in part.first[:-1]]
    monkeypatch.setattr(task, "hypotheses", lambda *_: known)
    found = task.described(None, "test", greedy_settings(task.config))
    assert found["exact"] == 1
    assert found["bleu"] == pytest.approx(100)
    assert found["shuffled"]["exact"] == 0
    assert found["shuffled"]["bleu"] < 60
    assert found["exact_by"] == {"seen": {"exact": 1, "images": 2}, "held out": {"exact": 1, "images": 2}}


def test_references_are_all_forced_once(shapes):
    task = CaptionsTask(Config(batch=3), shapes)
    model = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8).build().eval()
    found = task.forced(model, "valid")
    part = shapes.valid
    assert found["tokens"] == len(part.tokens) + len(part.offsets) - 1
    total = 0.0
    for row in range(len(part)):
        memory = model.encode(to_floats(torch.from_numpy(part.images[row].copy())[None], model))
        for number in range(part.first[row], part.first[row + 1]):
            ids = part.tokens_of(number).tolist()
            logits, _ = model(torch.tensor([[shapes.tokenizer.begin, *ids]]), memory=memory)
            wanted = torch.tensor([*ids, shapes.tokenizer.end])
            total -= logits[0].log_softmax(-1)[torch.arange(len(wanted)), wanted].sum().item()
    assert found["nats_per_token"] == pytest.approx(total / found["tokens"], rel=1e-5)


def test_baselines_are_the_frequencies_of_the_training_words(shapes):
    task = CaptionsTask(Config(), shapes)
    counts = np.ones(shapes.tokenizer.size)
    for token in [*shapes.train.tokens, *[shapes.tokenizer.end] * (len(shapes.train.offsets) - 1)]:
        counts[token] += 1
    asked = [*shapes.valid.tokens, *[shapes.tokenizer.end] * (len(shapes.valid.offsets) - 1)]
    found = task.baselines("valid")
    assert found["unigram"] == pytest.approx(float(np.mean(-np.log(counts[asked] / counts.sum()))))
    assert found["uniform"] == pytest.approx(np.log(shapes.tokenizer.size))


def test_one_caption_for_all_is_a_training_caption(shapes):
    task = CaptionsTask(Config(), shapes)
    found = task.constant("valid")
    assert any(found["caption"] in some for some in shapes.train.captions)
    assert found == score_captions([found["caption"]] * len(shapes.valid), shapes.valid.captions) | {
        "caption": found["caption"]
    }


class Pointer(torch.nn.Module):
    """Looks at the cell in the middle of the box that it is told to, whatever the words."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def like(self):
        return torch.zeros(1)

    def encode(self, images):
        cells = torch.zeros(len(images), 16, 1)
        return Memory(cells, torch.ones(len(images), 16, dtype=torch.bool), None, (4, 4))

    def initial_state(self, batch, memory=None):
        return torch.zeros(batch)

    def explain(self, state, x):
        weights = torch.nn.functional.one_hot(torch.tensor([[self.cell]]), 16).float()
        return {"0.source": weights, "source": weights[:, 0]}

    def forward(self, x, state):
        return torch.zeros(1, 1, 3), state


def test_the_gaze_on_a_box_is_measured_against_its_area(shapes):
    task = CaptionsTask(Config(), shapes)
    found = task.gaze(Pointer(5), "valid")
    part, wanted = shapes.valid, {"named": [], "other": [], "even": []}
    for row in range(len(part)):
        for thing in part.named_of(part.first[row]).tolist():
            if thing >= 0:
                covers = [box_coverage(box, (4, 4), 32) for box in part.boxes[row]]
                wanted["named"].append(covers[thing][5])
                wanted["other"].append(covers[1 - thing][5])
                left, top, right, bottom = part.boxes[row][thing]
                wanted["even"].append((right - left) * (bottom - top) / 32**2)
    assert found["words"] == 6 * len(part)
    for name, values in wanted.items():
        assert found[name] == pytest.approx(np.mean(values)), name
    blind = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8, model="fixed").build().eval()
    assert task.gaze(blind, "valid") is None


def test_a_run_is_measured_beside_its_baselines(run):
    found = evaluation.evaluate(str(run), split="test")
    assert found["metric"]["name"] == "exact"
    assert "one of the true captions" in found["metric"]["rule"]
    assert set(found["described"]["exact_by"]) == {"seen", "held out"}
    assert set(found["gaze"]) == {"named", "other", "even", "best", "words"}
    columns, rows, below = CaptionsTask.table(found)
    assert len(rows) == 3
    assert all(len(row) == len(columns) for row in rows)
    assert any("attention on the box" in line for line in below)
    row = evaluation.result(str(run), split="valid", device="cpu")
    assert row["task"] == "captions"
    assert row["state_bytes"] > 0
    json.dumps(row)


def test_a_run_is_measured_on_a_folder_as_a_whole(run, tmp_path):
    folder = folder_of(tmp_path / "mine", 6)
    found = evaluation.evaluate(str(run), split="valid", data=[str(folder)])
    assert found["described"]["images"] == 6
    assert found["metric"]["name"] == "bleu"
    assert found["gaze"] is None


@pytest.mark.parametrize("model", ["attend", "fixed"])
def test_a_folder_is_trained_on_and_its_place_is_kept(tmp_path, monkeypatch, model):
    folder_of(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    found = runs.train(CaptionsTask, configure(model, "mine", pixels=16), str(tmp_path / "run"))
    assert "BLEU-4" in CaptionsTask.headline(found)
    config = RunFolder.open(tmp_path / "run").config()
    assert config["data"]["data"] == [str(tmp_path / "mine")]
    assert config["data"]["pixels"] == 16
    assert config["captions"]["flip"] is True
    assert config["captions"]["crop"] == 0.15
    assert config["model"]["gist"] == ("mean" if model == "fixed" else None)
