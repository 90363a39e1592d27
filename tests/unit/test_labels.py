"""Labels: tables and images read as they are, figures by hand, a bag of words by its counts, runs like any other."""

import gzip
import json
import math
import os
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from recollect.core.contract import ContractError
from recollect.core.settings import number as parse_number
from recollect.data.files import DataError
from recollect.data.tokenizers import Words
from recollect.models.size import parameters
from recollect.tasks.labels import bag
from recollect.tasks.labels import data as sets
from recollect.tasks.labels import task as labels
from recollect.tasks.labels.idx import read_idx
from recollect.tasks.labels.labelled import Artifacts, Labelled, Part
from recollect.tasks.labels.task import LabelsTask
from recollect.tasks.labels.texts import has_low_hash, sort_labels
from recollect.tasks.labels.use import classify
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder
from recollect.train.loop import Trainer
from recollect.train.recipe import read_recipe

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("RECOLLECT_DATA") or ROOT.parent / "shared" / "data")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


def sentences(count=160, seed=0):
    """Texts of `good` or `bad` words among others, and their labels."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        words = list(draw.choice(["the", "film", "was", "so", "long", "and"], size=draw.integers(1, 9)))
        words.insert(int(draw.integers(0, len(words) + 1)), ("bad", "good")[number % 2])
        yield f"{' '.join(words)} {number}", ("neg", "pos")[number % 2]


def write(path, rows, *, order=(0, 1), header=None, end="\n", mark=""):
    lines = ([header] if header else []) + ["\t".join(row[place] for place in order) for row in rows]
    path.write_bytes((mark + "".join(line + end for line in lines)).encode())
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "films.tsv", sentences())


def idx(array, kind=8):
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def pictures(tmp_path):
    """Images of 4 × 3 pixels, of which label 1 is bright at the beginning and label 0 at the end."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    draw = np.random.default_rng(0)
    for name, count in (("train", 48), ("t10k", 10)):
        answers = np.arange(count) % 2
        images = draw.integers(0, 80, size=(count, 4, 3))
        images[answers == 1, :2] += 120
        images[answers == 0, 2:] += 120
        (folder / f"{name}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(answers)))
    return folder


def configure(data, model="gru", **settings):
    given = {"steps": 12, "batch": 8, "warmup": 3, "save_every": 3, "eval_every": 5, "log_every": 2}
    texts = tiny.small(model) if model != "bag" else {}
    texts = texts | {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(LabelsTask, texts, model=model, data=[str(data)])


# ------------------------------------------------------------------------------------------------ figures by hand


def test_the_confusion_matrix_has_a_row_for_each_true_label():
    found = labels.confusion(np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2]), 3)
    assert found.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 1]]


def test_f1_is_the_mean_over_labels_that_are_there_or_were_said():
    # label 0: 1 hit, 1 miss, 1 false alarm; label 1: 1, 0, 1; label 2: 1, 1, 0; label 3 neither there nor said
    table = np.array([[1, 1, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0]])
    assert labels.macro_f1(table) == pytest.approx((2 / 4 + 2 / 3 + 2 / 3) / 3)
    assert labels.macro_f1(np.array([[3, 0], [2, 0]])) == pytest.approx((6 / 8 + 0) / 2), "one that is never said"


def test_the_calibration_error_is_the_distance_bin_by_bin():
    right = np.array([True, False, True, True])
    sure = np.array([0.62, 0.64, 0.95, 1.0], np.float32)
    # (9/15, 10/15]: half right at a mean of .63; (14/15, 1]: all right at a mean of .975
    assert labels.calibration_error(right, sure) == pytest.approx((2 * 0.13 + 2 * 0.025) / 4, abs=1e-6)
    assert labels.calibration_error(np.array([True, False]), np.array([0.5, 0.5])) == pytest.approx(0)
    assert labels.calibration_error(np.array([False]), np.array([1.0])) == pytest.approx(1)


def test_a_bin_ends_where_it_should():
    """At 2 bins, .5 is in the lower one and a little more in the upper one."""
    right, sure = np.array([True, False]), np.array([0.5, 0.75])
    assert labels.calibration_error(right, sure, bins=2) == pytest.approx((0.5 + 0.75) / 2)
    assert labels.calibration_error(right, np.array([0.6, 0.75]), bins=2) == pytest.approx(abs(1 - 1.35) / 2)


# ------------------------------------------------------------------------------------------------ the bag of words


def test_naive_bayes_is_its_counts():
    """Texts 0 0 1 and 1 1 of label 0, 2 1 of label 1; a vocabulary of 4."""
    model = bag.Config(inputs=4, outputs=2).build()
    model.train_on(np.array([0, 0, 1, 1, 1, 2, 1]), np.array([3, 2, 2]), np.array([0, 0, 1]))
    words = [[3 / 9, 1 / 6], [4 / 9, 2 / 6], [1 / 9, 2 / 6], [1 / 9, 1 / 6]]
    assert model.words.exp().tolist() == [pytest.approx(row) for row in words]
    found = model.last(torch.tensor([[2, 0, 0], [3, 2, 2]]), torch.tensor([1, 3])).exp()
    assert found[0].tolist() == pytest.approx([2 / 3 * 1 / 9, 1 / 3 * 2 / 6])
    assert found[1].tolist() == pytest.approx([2 / 3 * (1 / 9) ** 3, 1 / 3 * 1 / 6 * (2 / 6) ** 2])


def test_a_bag_knows_nothing_of_order():
    model = bag.Config(inputs=5, outputs=3).build()
    model.train_on(np.array([0, 1, 2, 3, 4, 4]), np.array([2, 2, 2]), np.array([0, 1, 2]))
    x = torch.tensor([[0, 3, 4, 2]])
    assert torch.allclose(model(x)[0][:, -1], model(x.flip(1))[0][:, -1])


def test_a_bag_is_a_run_like_any_other(table, tmp_path):
    found = runs.train(LabelsTask, configure(table, "bag"), str(tmp_path / "run"))
    assert found["accuracy"] == 1.0, "good and bad tell"
    assert runs.evaluate(str(tmp_path / "run"), split="valid")["baseline_accuracy"]["bag of words"] == 1.0
    assert max(runs.verify(str(tmp_path / "run")).values()) < 1e-10
    assert runs.resume(str(tmp_path / "run")) == found
    said = list(classify(runs.load(tmp_path / "run"), ["a good film", "so bad"]))
    assert [answer.label for answer in said] == ["pos", "neg"]


# ------------------------------------------------------------------------------------------------ tables


def texts_of(data, split="train"):
    part, artifacts = getattr(data, split), data.artifacts
    ends = part.lengths.cumsum()
    return [
        artifacts.tokenizer.decode(part.values[end - length : end])
        for end, length in zip(ends, part.lengths, strict=True)
    ]


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ({}, {}),
        ({"order": (1, 0)}, {}),
        ({"order": (1, 0)}, {"label_column": "1"}),
        ({"header": "sentence\tlabel"}, {}),
        ({"header": "Label\tText", "order": (1, 0)}, {}),
        ({"header": "what\tverdict"}, {"label_column": "verdict"}),
        ({"header": "what\tverdict"}, {"header": True}),
        ({"end": "\r\n"}, {}),
        ({"mark": "\ufeff"}, {}),
    ],
    ids=lambda value: str(value),
)
def test_columns_headers_marks_and_line_ends_are_told_apart(tmp_path, shape, settings):
    plain = sets.load(write(tmp_path / "plain.tsv", sentences()))
    path = write(tmp_path / "other.tsv", sentences(), **shape)
    packed = tmp_path / "packed.tsv.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for given in (path, packed):
        found = sets.load(given, **settings)
        assert found.fingerprint == plain.fingerprint
    assert plain.artifacts.classes == ("neg", "pos")
    assert len(plain.train.labels) + len(plain.valid.labels) == 160


def test_a_first_line_that_may_be_a_header_is_doubted_aloud(tmp_path):
    path = write(tmp_path / "odd.tsv", sentences(), header="what\tverdict")
    assert any("line 1 of" in note and "its label 'verdict'" in note for note in sets.load(path).notes)
    for settings in ({"header": True}, {"header": False}, {"label_column": "verdict"}):
        assert not any("line 1 of" in note for note in sets.load(path, **settings).notes)
    plain = sets.load(write(tmp_path / "plain.tsv", sentences()))
    assert not any("line 1 of" in note for note in plain.notes)
    second = sets.load([tmp_path / "plain.tsv", path])
    assert any("line 1 of" in note and "odd.tsv" in note for note in second.notes)


def test_more_columns_are_named(tmp_path):
    rows = [(str(n), text, label) for n, (text, label) in enumerate(sentences())]
    path = write(tmp_path / "three.tsv", rows, order=(0, 1, 2))
    found = sets.load(path, label_column="3", text_column="2")
    assert found.fingerprint == sets.load(write(tmp_path / "two.tsv", sentences())).fingerprint
    with pytest.raises(DataError, match="in two columns, found 3 in line 1"):
        sets.load(path)
    with pytest.raises(DataError, match="label_column: expected a number from 1 to 3 of .*, found '4'"):
        sets.load(path, label_column="4", text_column="2")


def test_a_text_that_comes_twice_is_on_one_side(tmp_path):
    rows = [(f"word{n} again", str(n % 2)) for n in range(100)]
    found = sets.load(write(tmp_path / "twice.tsv", rows + rows[::-1]))
    assert not set(texts_of(found)) & set(texts_of(found, "valid"))
    assert 0.02 < len(found.valid.labels) / 200 < 0.25
    assert any("hash" in note for note in found.notes)


def test_the_vocabulary_is_that_of_training_and_the_rest_is_unknown(tmp_path, table):
    other = write(tmp_path / "valid.tsv", [("good marmalade", "pos"), ("bad", "neg")])
    found = sets.load(table, valid=[other])
    assert texts_of(found, "valid") == ["good <unk>", "bad"]
    assert len(found.train.labels) == 160
    assert any("<unk>: valid 33.3 %" in note for note in found.notes)


def test_characters_have_room_for_what_training_lacks(table):
    artifacts = sets.load(table, tokenizer="chars").artifacts
    assert artifacts.encode("good 電影").tolist()[-2:] == [artifacts.tokenizer.unknown] * 2


def test_long_texts_are_cut_and_that_is_told(table):
    found = sets.load(table, longest=3)
    assert found.train.lengths.max() == 3
    assert any("where they are cut" in note for note in found.notes)
    assert len(found.artifacts.encode("good " * 50)) == 3


def test_labels_are_in_the_order_of_their_numbers_or_letters():
    assert sort_labels(["10", "9", "-1"]) == ("-1", "9", "10")
    assert sort_labels(["b", "a", "10"]) == ("10", "a", "b")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("good\tpos\nbad\n", "found no tab in line 2 of .*bad.tsv: 'bad'"),
        ("good\tpos\nbad\tneg\tx\n", "expected 2 columns as in line 1, found 3 in line 2"),
        ("a good one\tpos\nmore good\tpos\n", "at least two labels to tell apart, found only 'pos' in .*bad.tsv"),
        ("\n\n", "found only blank ones in .*bad.tsv"),
        ("a\tb\nc\td\n", "expected a column with fewer different values for the labels, found two alike"),
        ("", "found an empty file"),
    ],
)
def test_what_is_no_table_is_refused_with_file_and_line(tmp_path, content, message):
    path = tmp_path / "bad.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        sets.load(path)
    assert "\n" not in str(caught.value)


def test_the_wrong_column_is_noticed(tmp_path):
    rows = [(f"{n}", f"label {n}") for n in range(300)]
    with pytest.raises(DataError, match="expected labels that come again"):
        sets.load(write(tmp_path / "all.tsv", rows), label_column="2")


def test_empty_texts_are_left_out_and_counted(tmp_path):
    rows = [*sentences(), ("", "pos"), ("  ", "neg"), ("good", "")]
    found = sets.load(write(tmp_path / "gaps.tsv", rows))
    assert len(found.train.labels) + len(found.valid.labels) == 160
    assert any("3 rows without a text or a label were left out, the first in line 161 of" in n for n in found.notes)


def test_a_label_that_training_lacks_is_refused_with_its_line(tmp_path, table):
    other = write(tmp_path / "valid.tsv", [("good", "pos"), ("so so", "meh")])
    with pytest.raises(DataError, match=r"training has \(neg, pos\), found 'meh' in line 2 of .*valid.tsv"):
        sets.load(table, valid=[other])


def test_a_label_that_the_hash_took_from_training_is_left_out_and_told(tmp_path):
    rare = next(f"rare{n}" for n in range(1000) if has_low_hash(f"rare{n}", 0.1))
    found = sets.load(write(tmp_path / "rare.tsv", [*sentences(), (rare, "odd")]))
    assert found.artifacts.classes == ("neg", "pos")
    assert any("1 rows of labels that training lacks were left out, the first in line 161" in n for n in found.notes)


def test_unknown_names_are_told_what_there_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="known sets are mnist, sst2"):
        sets.load("mnits")
    with pytest.raises(DataError, match="name a .tsv file with --data, or mnist or sst2"):
        sets.load([])


# ------------------------------------------------------------------------------------------------ images


def test_an_idx_file_is_its_bytes(tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    for name, data in (("plain", idx(array)), ("packed.gz", gzip.compress(idx(array)))):
        (tmp_path / name).write_bytes(data)
        assert np.array_equal(read_idx(tmp_path / name, 3), array)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "found nothing in"),
        (b"\x00\x00\x08\x03\x00", "expected 16 bytes at the head of an IDX file, found 5"),
        (idx(np.zeros((2, 3, 4)), kind=9), "begins with 00 00 08 03.*found 00 00 09 03"),
        (idx(np.zeros(24)), "in 3 dimensions .*found 00 00 08 01"),
        (idx(np.zeros((2, 3, 4)))[:-1], "expected 2 × 3 × 4 = 24 bytes after the head, found 23"),
        (idx(np.zeros((2, 3, 4))) + b"x", "expected 2 × 3 × 4 = 24 bytes after the head, found 25"),
        (idx(np.zeros((0, 3, 4))), "expected 0 × 3 × 4 = 0 bytes"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "bytes after the head, found 0"),
        (gzip.compress(idx(np.zeros((2, 3, 4))))[:-9], "expected an IDX file, found .*get a new copy"),
    ],
    ids=["empty", "head", "type", "dimensions", "short", "long", "none", "huge", "damaged"],
)
def test_what_is_no_idx_file_is_refused_in_a_line(tmp_path, data, message):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(tmp_path / "file", 3)
    assert "\n" not in str(caught.value)


def test_an_image_is_a_sequence_of_pixels_or_of_rows(pictures):
    raw = read_idx(pictures / "train-images-idx3-ubyte", 3)
    by_pixel, by_row = sets.load(pictures), sets.load(pictures, step="row")
    assert by_pixel.train.values.shape == (44, 12, 1)
    assert by_row.train.values.shape == (44, 4, 3)
    assert np.array_equal(by_row.train.values, raw[:44])
    assert np.array_equal(by_pixel.train.values.reshape(44, 4, 3), raw[:44])
    assert np.array_equal(by_pixel.valid.values.reshape(4, 4, 3), raw[44:]), "the last twelfth"
    assert by_pixel.notes == ["validation: the last 4 of 48 training images"]
    assert len(by_pixel.test.labels) == 10
    assert (by_pixel.artifacts.inputs, by_row.artifacts.inputs) == (1, 3)


def test_one_permutation_serves_all_images(pictures):
    plain, mixed, other = (sets.load(pictures, permute=seed) for seed in (None, 0, 1))
    order = np.random.default_rng(0).permutation(12)
    for split in ("train", "valid", "test"):
        a, b = getattr(plain, split).values, getattr(mixed, split).values
        assert np.array_equal(a[:, order], b)
    assert len({plain.fingerprint, mixed.fingerprint, other.fingerprint}) == 3


def test_numbers_go_in_from_0_to_1(pictures):
    task = labels.LabelsTask(labels.Config(batch=4), sets.load(pictures))
    batch = next(task.batches("train", 0))
    assert batch.x.shape == (4, 12, 1)
    assert batch.lengths is None
    assert 0.5 < batch.x.max() <= 1
    row = task.rows("train").take(np.array([3]))
    assert torch.equal(row.x[0, :, 0] * 255, torch.from_numpy(task.data.train.values[3, :, 0]).float())


def test_images_that_do_not_fit_are_refused(pictures):
    (pictures / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(9))))
    with pytest.raises(DataError, match="a label for each of 10 images of .*, found 9"):
        sets.load(pictures)
    (pictures / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(10, 7))))
    with pytest.raises(DataError, match="labels from 0 to 1 as training has, found 7 for image 0 of the test part"):
        sets.load(pictures)
    (pictures / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="expected t10k-labels-idx1-ubyte or .* found neither"):
        sets.load(pictures)


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs {SHARED}")
def test_the_known_sets_are_what_they_should_be():
    films = sets.load("sst2", data_dir=SHARED)
    assert (len(films.train.labels) + len(films.valid.labels), len(films.test.labels)) == (6920, 872)
    digits = sets.load("mnist", data_dir=SHARED)
    assert [len(part.labels) for part in (digits.train, digits.valid, digits.test)] == [55_000, 5_000, 10_000]
    assert digits.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.train.values.shape == (55_000, 784, 1)


# ------------------------------------------------------------------------------------------------ batches and figures


@pytest.fixture
def task(table):
    return labels.LabelsTask(labels.Config(batch=16, bucket=3), sets.load(table))


def test_any_batch_is_reached_by_its_number(task):
    stream = task.batches("train", 3)
    batches = [next(stream) for _ in range(25)]  # into the third epoch
    for number in (0, 7, 8, 24):
        again = next(task.batches("train", 3, start=number))
        assert again.number == number
        assert torch.equal(again.x, batches[number].x)
        assert torch.equal(again.y, batches[number].y)
    assert not torch.equal(next(task.batches("train", 4)).y, batches[0].y)


def test_an_epoch_has_every_row_once_and_batches_of_like_length(task):
    sizes = task.rows("train").sizes
    plan = task.plan(sizes, 16, np.random.default_rng(0))
    assert len(set(plan.ravel().tolist())) == plan.size == len(sizes) // 16 * 16
    spread = np.ptp(sizes[plan], axis=1).mean()
    assert (
        spread
        < 0.6 * np.ptp(sizes[np.random.default_rng(0).permutation(len(sizes))[:128]].reshape(8, 16), axis=1).mean()
    )


def test_a_batch_larger_than_the_data_is_all_of_it(table):
    task = labels.LabelsTask(labels.Config(batch=10_000), sets.load(table))
    batch = next(task.batches("train", 0))
    assert len(batch.y) == len(task.data.train.labels)


def test_each_row_is_judged_at_its_own_end(task):
    model = LabelsTask.build_model({"name": "gru", "width": 8, "pool": "mean"}, task.data.artifacts, runs.load).eval()
    batch = next(task.batches("train", 0))
    assert len(set(batch.lengths.tolist())) > 1
    expected = []
    for row, length, answer in zip(batch.x, batch.lengths, batch.y, strict=True):
        alone, _ = model(row[None, :length])
        expected.append(-alone[0, -1].log_softmax(-1)[answer])
    found = task.loss(model, batch)
    assert found.value.item() == pytest.approx(torch.stack(expected).mean().item(), rel=1e-5)
    assert found.tokens == sum(batch.lengths.tolist()) < batch.x.numel(), "what was read, without padding"


def test_steps_of_images_are_counted_as_they_are_read(pictures):
    task = labels.LabelsTask(labels.Config(batch=4), sets.load(pictures))
    model = LabelsTask.build_model({"name": "rnn", "width": 8}, task.data.artifacts, runs.load)
    assert task.loss(model, next(task.batches("train", 0))).tokens == 4 * 12


def test_figures_are_those_of_all_rows(task):
    model = LabelsTask.build_model({"name": "rnn", "width": 8}, task.data.artifacts, runs.load).eval()
    part, nats, right = task.data.valid, [], []
    for text, answer in zip(texts_of(task.data, "valid"), part.labels, strict=True):
        said = model(torch.from_numpy(task.data.artifacts.encode(text).astype(np.int64))[None])[0][0, -1].log_softmax(
            -1
        )
        nats.append(-said[answer].item())
        right.append(said.argmax().item() == answer)
    found = task.evaluate(model, "valid")
    assert found["nats"] == pytest.approx(np.mean(nats), rel=1e-5)
    assert found["accuracy"] == pytest.approx(np.mean(right))
    assert found["error"] == pytest.approx(1 - np.mean(right))
    assert np.sum(found["confusion"]) == len(right)
    small = labels.LabelsTask(labels.Config(eval_batch=3), task.data).evaluate(model, "valid")
    assert small["confusion"] == found["confusion"]
    first = labels.LabelsTask(labels.Config(eval_rows=5), task.data).evaluate(model, "valid")
    assert first["nats"] == pytest.approx(np.mean(nats[:5]), rel=1e-5)
    assert first["rule"].startswith(f"the first 5 of {len(right)} rows")


def test_a_part_that_is_not_there_is_told_with_what_to_do(task):
    with pytest.raises(DataError, match="expected a test part, found none; measure a file with --data"):
        task.part("test")
    with pytest.raises(DataError, match="a split out of train, valid, test, found 'tset'"):
        task.part("tset")


def test_the_majority_is_the_commonest_label_of_training(tmp_path):
    rows = [(f"text {n}", "ab"[n % 4 == 0]) for n in range(100)]
    valid = [(f"new {n}", "ab"[n < 4]) for n in range(5)]
    data = sets.load(write(tmp_path / "a.tsv", rows), valid=[write(tmp_path / "v.tsv", valid)])
    found = labels.LabelsTask(labels.Config(), data).guesses("valid")["majority"]
    assert found["accuracy"] == pytest.approx(1 / 5)
    assert found["nats"] == pytest.approx(-(math.log(76 / 102) + 4 * math.log(26 / 102)) / 5)
    nats = labels.LabelsTask(labels.Config(choose="nats"), data).baselines("valid")
    assert nats["majority"] == found["nats"]


# ------------------------------------------------------------------------------------------------ runs


class Killed(BaseException):
    """The process is gone, as far as the run can tell."""


@pytest.mark.parametrize(
    ("source", "model", "settings"),
    [
        ("table", "gru", {"dropout": 0.3, "pool": "attention"}),
        ("table", "transformer", {"smoothing": 0.1}),
        ("pictures", "lstm", {"permute": 0, "choose": "nats"}),
        ("pictures", "tcn", {"step": "row", "pool": "mean"}),
    ],
    ids=str,
)
def test_a_resumed_run_equals_the_uninterrupted_one(request, tmp_path, monkeypatch, source, model, settings):
    run = configure(request.getfixturevalue(source), model, **settings)
    runs.train(LabelsTask, run, str(tmp_path / "whole"))
    real = Trainer.save

    def save(self):
        real(self)
        if self.spent.step == 6:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", save)
        with pytest.raises(Killed):
            runs.train(LabelsTask, run, str(tmp_path / "resumed"))
    runs.resume(str(tmp_path / "resumed"))
    whole, resumed = (tiny.outcome(RunFolder(tmp_path / name)) for name in ("whole", "resumed"))
    assert resumed == whole
    assert whole["metrics"][-1]["step"] == 12


@pytest.mark.parametrize(("source", "model"), [("table", "lstm"), ("pictures", "transformer")])
def test_a_run_of_labels_keeps_the_laws(request, tmp_path, source, model):
    runs.train(LabelsTask, configure(request.getfixturevalue(source), model, pool="attention"), str(tmp_path / "run"))
    errors = runs.verify(str(tmp_path / "run"))
    assert set(errors) == {"chunk", "cause", "row", "ragged", "purity", "size", "file"}
    assert max(errors.values()) < 1e-10


def test_a_run_folder_holds_all_that_is_needed(table, tmp_path):
    runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "labels.json", "metrics.jsonl"}
    content = RunFolder(tmp_path / "run").config()
    assert content["task"] == "labels"
    assert content["labels"]["length"] == int(np.median(sets.load(table).train.lengths))
    row = runs.result(str(tmp_path / "run"), split="valid", device="cpu")
    assert row["metric"]["name"] == "error"
    assert set(row["baselines"]) == {"majority", "bag of words"}
    assert row["state_bytes"] == 2 * 8 * 4, "two layers of 8 numbers"
    columns, rows, below = LabelsTask.table(row)
    assert len(columns) == len(rows[0])
    assert any("bag of words" in line for line in below)
    assert LabelsTask.headline(runs.train(LabelsTask, configure(table), str(tmp_path / "again"))).startswith(
        "validation accuracy"
    )


def test_other_data_is_measured_whole_with_the_labels_of_the_run(table, tmp_path):
    runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    other = write(tmp_path / "other.tsv", [("good", "pos"), ("bad", "neg"), ("so", "neg")], order=(1, 0))
    for split in ("valid", "test"):
        found = runs.evaluate(str(tmp_path / "run"), split=split, data=[str(other)])
        assert (found["rows"], found["classes"]) == (3, ["neg", "pos"])
    one = write(tmp_path / "one.tsv", [("good", "pos"), ("fine", "pos")])
    assert runs.evaluate(str(tmp_path / "run"), split="valid", data=[str(one)])["rows"] == 2, "one label is enough here"
    strange = write(tmp_path / "strange.tsv", [("good", "1"), ("bad", "0"), ("so", "0")])
    with pytest.raises(DataError, match="found '1' in line 1 of .*strange.tsv"):
        runs.evaluate(str(tmp_path / "run"), split="valid", data=[str(strange)])


def test_lines_are_labelled_in_order_whatever_their_batch(table, tmp_path):
    runs.train(LabelsTask, configure(table, pool="mean"), str(tmp_path / "run"))
    used = runs.load(tmp_path / "run")
    lines = ["so good\n", "\n", "bad", "  ", "the film was so long and so long and good", "unheard of words"]
    found = list(classify(used, iter(lines)))
    assert [answer is None for answer in found] == [False, True, False, True, False, False]
    for line, answer in zip(lines, found, strict=True):
        if answer is not None:
            (alone,) = classify(used, [line], batch=1)
            assert alone.label == answer.label
            assert alone.probability == pytest.approx(answer.probability, abs=1e-5)
            assert 0.5 <= answer.probability <= 1
    assert list(classify(used, [])) == []


def test_more_lines_than_a_block_are_labelled(table, tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.tasks.labels.use.BLOCK", 4)
    runs.train(LabelsTask, configure(table, "bag"), str(tmp_path / "run"))
    used = runs.load(tmp_path / "run")
    found = [answer.label for answer in classify(used, ["good", "bad"] * 9, batch=3)]
    assert found == ["pos", "neg"] * 9


def test_images_are_labelled_from_lines_of_numbers(pictures, tmp_path):
    runs.train(LabelsTask, configure(pictures, steps=40, permute=3, lr=0.02), str(tmp_path / "run"))
    used, test = runs.load(tmp_path / "run"), read_idx(pictures / "t10k-images-idx3-ubyte", 3)
    lines = [" ".join(map(str, image.ravel())) for image in test]
    found = [answer.label for answer in classify(used, [*lines[:5], *(line.replace(" ", ",") for line in lines[5:])])]
    matrix = np.array(runs.evaluate(str(tmp_path / "run"), split="test")["confusion"])
    assert found.count("1") == matrix[:, 1].sum()
    with pytest.raises(DataError, match="the 12 pixels of an image of 4 × 3, from 0 to 255, in line 1, found 2"):
        list(classify(used, ["1 2"]))
    with pytest.raises(DataError, match="expected numbers from 0 to 255 in line 2, found something else"):
        list(classify(used, ["", "a b"]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[]", "expected the labels of a run"),
        ("{", "expected JSON"),
        ('{"classes": ["a"], "shape": null, "step": "pixel", "longest": 9, "permute": null}', "are not the labels"),
        ('{"classes": ["a", "b"], "shape": [4], "step": "pixel", "longest": 9, "permute": null}', "labels of a run"),
    ],
)
def test_a_damaged_run_is_told_in_a_line(table, tmp_path, content, message):
    runs.train(LabelsTask, configure(table), str(tmp_path / "run"))
    (tmp_path / "run" / "labels.json").write_text(content)
    with pytest.raises(RunError, match=message) as caught:
        runs.load(tmp_path / "run")
    assert "\n" not in str(caught.value)
    (tmp_path / "run" / "labels.json").unlink()
    with pytest.raises(RunError, match="labels.json: expected this file"):
        runs.load(tmp_path / "run")


def test_what_is_kept_comes_back():
    text = Artifacts(classes=("a", "b"), tokenizer=Words(["<unk>", "<eos>", "good"]), longest=7)
    image = Artifacts(classes=("0", "1"), shape=(4, 3), step="row", permute=5)
    for artifacts in (text, image):
        assert Artifacts.from_json(json.loads(json.dumps(artifacts.to_json())), artifacts.tokenizer) == artifacts


@pytest.mark.parametrize(
    ("model", "settings", "message"),
    [
        ("gru", {"pool": "each"}, "pool last, mean or attention, found 'each'"),
        ("gru", {"inputs": "3"}, "expected settings of 'gru', found others"),
        ("gru", {"smoothing": "1"}, "expected smoothing in"),
        ("gru", {"permute": "-1"}, "permute to be a whole number of at least 0"),
        ("gru", {"step": "column"}, "step: expected one of pixel, row"),
        ("gru", {"poool": "mean"}, "did you mean 'pool'"),
        ("grru", {}, "did you mean 'gru'"),
        ("bag", {"width": "3"}, "expected a known setting, found 'width'"),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_a_line(table, tmp_path, model, settings, message):
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(
            LabelsTask, runs.configure(LabelsTask, settings, model=model, data=[str(table)]), str(tmp_path / "run")
        )
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_bag_is_for_words(pictures, tmp_path):
    with pytest.raises(ContractError, match="expected one that reads numbers, found 'bag'"):
        runs.train(LabelsTask, configure(pictures, "bag"), str(tmp_path / "run"))


# ------------------------------------------------------------------------------------------------ recipes

RECIPES = sorted((ROOT / "recipes").glob("labels/*.json"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_of_labels_can_be_built_at_the_size_it_names(path):
    found = read_recipe(str(path))
    assert found.about
    given = {"data": found.data, "tokenizer": found.tokenizer}
    run = runs.configure(
        LabelsTask, found.settings, model=found.model, **{name: value for name, value in given.items() if value}
    )
    if "mnist" not in path.stem:
        return
    artifacts = Artifacts(
        classes=tuple(map(str, range(10))), shape=(28, 28), step=run.data.step, permute=run.data.permute
    )
    part = Part(np.zeros((2, 784, 1), np.uint8), np.array([784, 784]), np.array([0, 1]))
    data = Labelled("mnist", artifacts, part, part, None, "", [])
    resolved = LabelsTask.resolve(run, data, int(parse_number(found.params)))
    with torch.device("meta"):
        assert parameters(LabelsTask.build_model(resolved.model, artifacts, runs.load)) == pytest.approx(
            70_000, rel=0.03
        )
    assert (run.data.permute is not None) == ("pmnist" in path.stem)


def test_other_tables_have_a_header_where_those_of_the_run_have_one(tmp_path):
    """Its names may be any; a table that begins with a row is read from that row on."""
    first = write(tmp_path / "films.tsv", sentences(), header="what\tverdict")
    runs.train(LabelsTask, configure(first, "bag", header="true"), str(tmp_path / "run"))
    rows = list(sentences(20, seed=1))
    for header in ("what\tverdict", "prose\tsentiment", None):
        other = write(tmp_path / "other.tsv", rows, header=header)
        assert runs.evaluate(str(tmp_path / "run"), split="test", data=[str(other)])["rows"] == 20
    runs.train(LabelsTask, configure(write(tmp_path / "plain.tsv", sentences()), "bag"), str(tmp_path / "plain"))
    other = write(tmp_path / "other.tsv", rows, header="prose\tsentiment")
    with pytest.raises(DataError, match="expected a label that training has .*found 'sentiment' in line 1"):
        runs.evaluate(str(tmp_path / "plain"), split="test", data=[str(other)])
