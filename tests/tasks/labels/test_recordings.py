"""Recordings as labelled rows: where labels and parts come from, batches, use and export."""

import json

import numpy as np
import pytest
import torch

import recollect
from recollect.core.settings import ContractError
from recollect.data.errors import DataError
from recollect.data.known import KNOWN
from recollect.data.sound import LogMel, Sound, SoundError, read_sound
from recollect.data.sound.listing import compile_pattern
from recollect.data.sound.tones import ORDERS, tones
from recollect.export.package import export
from recollect.tasks.labels import data as sets
from recollect.tasks.labels.labelled import load_artifacts
from recollect.tasks.labels.task import LabelsTask
from recollect.training import run as runs
from shared_data import DATA
from tasks.cases import recording, sentences, write_recordings
from tasks.labels.cases import configure, write

SMALL = {"bands": 12, "share": 0.2}


@pytest.fixture
def spoken(tmp_path):
    return write_recordings(tmp_path / "spoken")


def named(folder, count=8):
    """Recordings of two labels by three speakers, all said by their names."""
    folder.mkdir()
    for label, hertz in (("low", 300), ("high", 1_500)):
        for speaker in ("ann", "bob", "cem"):
            for take in range(count):
                name = f"{label}_{speaker}_{take}.wav"
                (folder / name).write_bytes(recording(hertz + 9 * take + len(speaker), seed=take))
    return folder


def test_labels_are_the_folders_that_recordings_lie_in(spoken):
    found = sets.load([spoken], **SMALL)
    assert found.artifacts.classes == ("high", "low")
    assert found.artifacts.inputs == 12
    assert len(found.train.labels) + len(found.valid.labels) == 32
    assert found.test is None
    assert "hash" in found.notes[0]
    mel = LogMel(bands=12)
    one = mel.frames(read_sound(spoken / "high" / "p0.wav").samples).numpy()
    rows = [np.split(part.values, part.lengths.cumsum()[:-1]) for part in (found.train, found.valid)]
    assert any(row.shape == one.shape and np.array_equal(row, one) for row in [*rows[0], *rows[1]])
    scaled = found.artifacts.sound.scaler.scale(found.train.values)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(scaled.std(axis=0), 1, atol=1e-3)


def test_a_pattern_says_what_names_tell_and_speakers_may_be_left_out(tmp_path):
    folder = named(tmp_path / "digits")
    pattern = "{label}_{speaker}_{take}.wav"
    found = sets.load([folder], pattern=pattern, test_speaker="bob", valid_speaker="cem", **SMALL)
    assert [len(part.labels) for part in (found.train, found.valid, found.test)] == [16, 16, 16]
    assert ["bob" in note for note in found.notes] == [True, False]
    held = sets.load([folder], pattern=pattern, test_speaker="bob", **SMALL)
    assert len(held.test.labels) == 16
    assert len(held.train.labels) + len(held.valid.labels) == 32
    with pytest.raises(DataError, match=r"test_speaker: expected a speaker of digits \(ann, bob, cem\), found 'dan'"):
        sets.load([folder], pattern=pattern, test_speaker="dan")
    with pytest.raises(DataError, match="another for validation"):
        sets.load([folder], pattern=pattern, test_speaker="bob", valid_speaker="bob")
    with pytest.raises(DataError, match=r"none: name them with --set pattern"):
        sets.load([folder], pattern="{label}_{name}", test_speaker="bob")


@pytest.mark.parametrize("pattern", ["{speaker}", "{label}_{label}", "plain"])
def test_a_pattern_without_a_label_is_refused(pattern):
    with pytest.raises(DataError, match="pattern: expected a name"):
        compile_pattern(pattern)


def test_names_that_do_not_fit_the_pattern_are_skipped(tmp_path):
    folder = named(tmp_path / "digits", 4)
    (folder / "other.wav").write_bytes(recording(400))
    found = sets.load([folder], pattern="{label}_{speaker}_{take}", **SMALL)
    assert "1 file is skipped: other.wav (not named as {label}_{speaker}_{take})" in found.notes
    with pytest.raises(DataError, match=r"expected recordings with labels in digits, found none.*pattern"):
        sets.load([folder], pattern="{label}+{take}")
    with pytest.raises(DataError, match="_0.wav is not named as"):
        sets.load([folder])
    with pytest.raises(DataError, match="at least two labels to tell apart, found x"):
        sets.load([write_recordings(tmp_path / "one" / "x", 2).parent], pattern="{label}/{kind}/{name}")


@pytest.mark.parametrize(
    ("header", "end"), [("file,label,speaker,split\n", ".csv"), ("clip\tdigit\tperson\tset\n", ".tsv")]
)
def test_a_table_names_recordings_speakers_and_parts(tmp_path, header, end):
    named(tmp_path / "digits", 4)
    mark = "," if end == ".csv" else "\t"
    lines = [
        mark.join([f"digits/{label}_{who}_{take}.wav", label, who, part])
        for label in ("low", "high")
        for who in ("ann", "bob")
        for take, part in enumerate(("train", "training", "dev", "test"))
    ]
    path = tmp_path / f"all{end}"
    path.write_text(header + "\n".join([*lines, mark.join(["digits/gone.wav", "low", "ann", "train"])]) + "\n")
    found = sets.load([path], **SMALL)
    assert [len(part.labels) for part in (found.train, found.valid, found.test)] == [8, 4, 4]
    assert "gone.wav (not there)" in found.notes[0]
    assert len(sets.load([path], test_speaker="ann", **SMALL).test.labels) == 8


def test_a_table_of_two_columns_needs_no_header_and_one_in_the_folder_is_found(tmp_path):
    folder = named(tmp_path / "digits", 4)
    lines = [f"{path.name}\t{path.name.partition('_')[0]}\n" for path in sorted(folder.glob("*.wav"))]
    (folder / "labels.tsv").write_text("".join(lines))
    found = sets.load([folder], **SMALL)
    assert found.artifacts.classes == ("high", "low")
    assert len(found.train.labels) + len(found.valid.labels) == 24
    (folder / "labels.tsv").write_text("name\tkind\tmore\n" + "".join(f"{line[:-1]}\tx\n" for line in lines))
    with pytest.raises(DataError, match=r"a column of files and one of labels in .*text_column"):
        sets.load([folder])
    named_ones = sets.load([folder], text_column="name", label_column="2", **SMALL)
    assert named_ones.artifacts.classes == ("high", "low")


def test_what_cannot_be_read_is_skipped_and_said(spoken):
    (spoken / "low" / "bad.wav").write_bytes(b"RIFF")
    (spoken / "low" / "short.wav").write_bytes(recording(300, seconds=0.01))
    (note,) = [note for note in sets.load([spoken], **SMALL).notes if "skipped" in note]
    assert "2 files are skipped" in note
    assert "at least 25 ms" in note


def test_long_recordings_are_cut_where_settings_say(spoken):
    found = sets.load([spoken], longest=5, **SMALL)
    assert set(found.train.lengths) == {5}
    assert any("cut (--set longest=N)" in note for note in found.notes)


def test_generated_tones_need_no_file_and_their_labels_are_their_orders(monkeypatch):
    monkeypatch.setattr("recollect.tasks.labels.recordings.COUNTS", {"train": 40, "valid": 12, "test": 12})
    found, again = sets.load(bands=12), sets.load(["tones"], bands=12)
    assert found.name == "tones"
    assert found.artifacts.classes == tuple(ORDERS)
    assert found.fingerprint == again.fingerprint != sets.load(bands=13).fingerprint
    for number in range(12):  # the order is in the spectrum: where each third is loudest
        samples, label = tones(number, 8_000)
        frames = LogMel(bands=40).frames(samples).exp()
        loud = frames[frames.sum(dim=1) > frames.sum(dim=1).max() / 10]
        first, last = loud[: len(loud) // 4].sum(dim=0), loud[-len(loud) // 4 :].sum(dim=0)
        places = {"low": 0, "middle": 1, "high": 2}
        if label.split("-")[0] == "low" and label.split("-")[2] == "high":
            assert int(first.argmax()) < int(last.argmax()), label
        assert set(label.split("-")) == set(places)


def make_task(spoken, **settings):
    config = configure(spoken, width=8, layers=1, **SMALL, **settings)
    data = LabelsTask.load_data(config.data, None)
    return LabelsTask(config.task, data, seed=3)


def test_batches_hold_rows_of_like_length_and_only_training_is_altered(spoken):
    plain = make_task(spoken)
    first = next(plain.batches("train", 3))
    assert first.x.shape[2] == 12
    assert first.tokens == int(first.lengths.sum())
    altered = make_task(spoken, tempo=0.2, warp=0.2, gain=10, tilt=6, noise=10, shift=20, time_masks=2, band_masks=2)
    one, same = (next(altered.batches("train", 3)) for _ in range(2))
    assert torch.equal(one.x, same.x)
    assert not torch.equal(one.lengths, first.lengths)
    other = next(altered.batches("train", 4))
    assert other.x.shape != one.x.shape or not torch.equal(other.x, one.x)
    numbers = np.arange(4)
    for split in ("train", "valid"):  # what is measured is never altered
        assert torch.equal(altered.rows(split).take(numbers).x, plain.rows(split).take(numbers).x)
    whole = list(zip(range(6), altered.batches("train", 3), strict=False))
    later = next(altered.batches("train", 3, start=5))
    assert torch.equal(later.x, whole[5][1].x)  # a run that goes on draws what it would have drawn


def test_the_level_of_a_recording_does_not_count_where_it_is_taken_away(spoken):
    task = make_task(spoken, level=True)
    sounds = task.data.artifacts.sound
    sound = read_sound(spoken / "low" / "p0.wav")
    quiet, loud = (LogMel(bands=12, floor=1e-12).frames(sound.samples * gain).numpy() for gain in (0.1, 1.0))
    np.testing.assert_allclose(sounds.prepare(quiet), sounds.prepare(loud), atol=1e-3)
    rows = task.rows("valid")
    batch = rows.take(np.arange(len(rows)))
    values = np.split(task.data.valid.values, task.data.valid.lengths.cumsum()[:-1])
    for row, length, own in zip(batch.x, batch.lengths, values, strict=True):
        np.testing.assert_allclose(row[:length].numpy(), sounds.prepare(own), atol=1e-4)


@pytest.mark.parametrize(
    "wrong", [{"tempo": 2.0}, {"warp": -1.0}, {"gain": 100.0}, {"noise": 1_000.0}, {"time_masks": -1}]
)
def test_an_augmentation_that_cannot_be_is_refused(spoken, wrong):
    with pytest.raises(ContractError, match=next(iter(wrong))):
        configure(spoken, **wrong)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on recordings whose labels are easy to tell."""
    place = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        write_recordings(place / "spoken")
        config = configure(place / "spoken", width=8, layers=1, lr=0.03, **SMALL | {"steps": 40, "pool": "mean"})
        runs.train(LabelsTask, config, str(place / "run"))
    return place


def test_a_run_labels_recordings_by_path_sound_and_folder(trained):
    model = recollect.load(trained / "run")
    paths = [trained / "spoken" / "low" / "p2.wav", trained / "spoken" / "high" / "q3.wav"]
    found = model.classify([str(path) for path in paths])
    assert [answer.label for answer in found] == ["low", "high"]
    assert model.classify(paths[0]) == model.classify([paths[0]])[0]
    other = read_sound(paths[0], 16_000)
    answer = model.classify(Sound(other.samples, 16_000))
    assert answer.label == "low"
    assert answer.probability == pytest.approx(found[0].probability, abs=0.02)
    assert len(list(model.read(trained / "spoken"))) == 32
    (trained / "names.txt").write_text("".join(f"{path}\n" for path in paths))
    assert [a.label for a in model.stream(model.read(trained / "names.txt"))] == ["low", "high"]
    np.testing.assert_allclose(model.probabilities(paths).max(axis=1), [a.probability for a in found], atol=1e-5)
    (trained / "empty.wav").write_bytes(b"")
    for rows in (trained / "empty.wav", model.read(trained / "empty.wav")):
        with pytest.raises(SoundError, match="an empty file"):
            model.classify(rows)


@pytest.mark.slow
def test_an_export_labels_recordings_as_the_run_does(trained):
    out = trained / "export"
    export(runs.load(trained / "run"), out)
    paths = [trained / "spoken" / "low" / f"{name}.wav" for name in ("p0", "p4", "q1")]
    own, exported = (recollect.load(place).classify(paths) for place in (trained / "run", out))
    assert [a.label for a in own] == [a.label for a in exported]
    for a, b in zip(own, exported, strict=True):
        assert a.probability == pytest.approx(b.probability, abs=1e-4)


@pytest.mark.slow
def test_a_layer_that_is_exported_step_by_step_labels_recordings_too(tmp_path):
    """Test-time training cannot be traced over rows of any length: its graph scans the step."""
    write_recordings(tmp_path / "spoken")
    config = configure(tmp_path / "spoken", "ttt-linear", **SMALL)
    runs.train(LabelsTask, config, str(tmp_path / "run"))
    export(runs.load(tmp_path / "run"), tmp_path / "export")
    path = tmp_path / "spoken" / "low" / "p0.wav"
    own, exported = (recollect.load(tmp_path / place).classify(path) for place in ("run", "export"))
    assert own.label == exported.label
    assert own.probability == pytest.approx(exported.probability, abs=1e-4)


@pytest.mark.slow
def test_the_digits_are_split_as_their_authors_have_it(monkeypatch):
    if not (DATA / KNOWN["fsdd"].folder).is_dir():
        pytest.skip("fsdd is not here")
    monkeypatch.setenv("RECOLLECT_DATA", str(DATA))
    found = sets.load(["fsdd"])
    assert [len(part.labels) for part in (found.train, found.valid, found.test)] == [2_400, 300, 300]
    left = sets.load(["fsdd"], test_speaker="theo")
    assert [len(part.labels) for part in (left.train, left.valid, left.test)] == [2_250, 250, 500]


def test_a_run_is_measured_on_other_recordings_and_on_a_table_of_them(trained, tmp_path):
    run = trained / "run"
    other = write_recordings(tmp_path / "other", 6)
    found = recollect.load(run).evaluate(data=str(other))
    assert (found["rows"], found["accuracy"]) == (12, 1.0)
    table = tmp_path / "some.csv"
    table.write_text("file,label\nother/low/p0.wav,low\nother/high/q1.wav,low\n")
    assert recollect.load(run).evaluate(data=str(table))["accuracy"] == 0.5
    films = write(tmp_path / "films.tsv", sentences())
    with pytest.raises(DataError, match="expected recordings, as the run was trained on, found"):
        recollect.load(run).evaluate(data=str(films))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sound": None}, "tokenizer"),
        ({"shape": [4, 3]}, "not just one"),
        ({"sound": {"mel": {"bands": 0}}}, "bands"),
        ({"sound": {"mel": {"bands": 13}}}, "a scale for each of 13 bands"),
        ({"sound": {"mel": {"hop": 1e9}}}, "hop"),
        ({"sound": {"scaler": {"mean": [0.0] * 12, "deviation": [0.0] * 12}}}, "deviation"),
        ({"sound": {"scaler": {"mean": [0.0], "deviation": "x"}}}, "deviation"),
        ({"sound": {"level": "much"}}, "level"),
        ({"sound": 3}, "an object"),
    ],
)
def test_altered_artifacts_are_refused_in_a_line(trained, tmp_path, change, words):
    content = json.loads((trained / "run" / "labels.json").read_text())
    for name, value in change.items():
        if not isinstance(value, dict):
            content[name] = value
        elif "mel" in value:
            content[name]["mel"] |= value["mel"]
        else:
            content[name] |= value
    (tmp_path / "labels.json").write_text(json.dumps(content))
    with pytest.raises(recollect.RecollectError, match=words) as caught:
        load_artifacts(tmp_path)
    assert "\n" not in str(caught.value)
