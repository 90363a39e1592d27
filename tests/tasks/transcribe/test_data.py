"""Recordings and the strings that are joined of them."""

import numpy as np
import pytest
import torch

from recollect.data.errors import DataError
from recollect.data.known import SoundSet
from recollect.data.sound.listing import find_recordings, label_by_name
from recollect.tasks.transcribe import data
from recollect.tasks.transcribe.batches import altered_steps, make_batch
from recollect.tasks.transcribe.settings import Config, DataConfig
from recollect.tasks.transcribe.sources import SETS
from recollect.tasks.transcribe.transcribed import Artifacts
from tasks.cases import sounds_of, write_sound

TONES = {"letters": 3, "takes": 10, "bands": 16, "count": 12, "join": 3}


def tones(**settings):
    return data.load(DataConfig(**TONES | settings))


@pytest.fixture
def digits(tmp_path, monkeypatch):
    """A small fsdd: two digits, two speakers, 12 takes."""
    for digit in range(2):
        for speaker in ("ann", "bob"):
            for take in range(12):
                write_sound(tmp_path / f"{digit}_{speaker}_{take}.wav", "ab"[digit])
    found = list(label_by_name(tmp_path, find_recordings(tmp_path), SETS["fsdd"].pattern, []))
    found = [own._replace(split=SETS["fsdd"].split(int(own.take))) for own in found]
    monkeypatch.setattr(SoundSet, "recordings", lambda *_: found)


def test_a_string_is_its_recordings_with_silence_around_them():
    part = tones().valid
    lengths = part.length_of(part.plan)
    for row in range(len(part)):
        members, gaps = part.plan.of(row)
        samples = part.samples_of(part.plan, row)
        assert len(samples) == lengths[row] == gaps.sum() + sum(len(part.recordings.samples_of(n)) for n in members)
        first = part.recordings.samples_of(int(members[0]))
        assert np.array_equal(samples[gaps[0] : gaps[0] + len(first)], first)
        assert np.abs(samples[: gaps[0]]).max(initial=0) < 0.03
        assert part.text_of(part.plan, row) == "".join(part.recordings.texts[n] for n in members)
        assert np.array_equal(samples, part.samples_of(part.plan, row)), "the same each time"


def test_strings_have_every_length_and_the_test_has_longer_ones():
    found = tones(longer=(2, 4))
    assert set(found.valid.plan.sizes()) == {1, 2, 3}
    assert not found.valid.longer.any()
    assert set(found.test.plan.sizes()) == {1, 2, 3, 6, 12}
    assert set(found.test.plan.sizes()[found.test.longer]) == {6, 12}
    draw = found.train.draw(np.random.default_rng(0), 100)
    assert set(draw.sizes()) == {1, 2, 3}


def test_no_recording_is_in_two_parts():
    found = tones()
    parts = [{p.recordings.samples_of(n).tobytes() for n in range(len(p.recordings))} for p in found.parts().values()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 30


def test_another_seed_of_a_batch_draws_other_strings_and_the_same_seed_the_same():
    train = tones().train
    one, again, other = (train.draw(np.random.default_rng(seed), 8) for seed in (0, 0, 1))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not np.array_equal(one.members, other.members)


def test_digits_are_split_by_their_takes_and_strings_are_of_one_speaker(digits):
    found = data.load(DataConfig(data=("fsdd",), count=20, bands=16))
    counts = {split: len(part.recordings) for split, part in found.parts().items()}
    assert counts == {"train": 8, "valid": 20, "test": 20}
    own = found.test.recordings
    for row in range(len(found.test)):
        assert len({own.speakers[n] for n in found.test.plan.of(row)[0]}) == 1


def test_a_speaker_that_is_held_out_is_in_the_test_alone(digits):
    found = data.load(DataConfig(data=("fsdd",), count=8, bands=16, speaker="bob"))
    assert set(found.test.recordings.speakers) == {"bob"}
    assert set(found.train.recordings.speakers) == set(found.valid.recordings.speakers) == {"ann"}
    with pytest.raises(DataError, match=r"expected a speaker of fsdd \(ann, bob\), found 'eve'"):
        data.load(DataConfig(data=("fsdd",), speaker="eve"))


def test_a_folder_has_its_table_and_names_what_it_cannot_use(tmp_path):
    place = sounds_of(tmp_path / "said")
    (place / "bad.wav").write_bytes(b"no sound")
    with (place / "transcripts.tsv").open("a") as table:
        table.write("bad.wav\tab\tp0\nmissing.wav\tab\tp0\ns1.wav\t\tp0\n../said/s2.wav\tab\tp0\n")
    found = data.load(DataConfig(data=(str(place),), bands=16, stack=2))
    assert sum(len(part.recordings) for part in found.parts().values()) == 30
    assert found.join == 1
    notes = "\n".join(found.notes)
    assert "1 recordings that cannot be read" in notes
    assert "2 recordings that are not there: missing.wav, ../said/s2.wav" in notes
    assert "1 recordings without a text: s1.wav" in notes
    held = data.load(DataConfig(data=(str(place),), bands=16, stack=2, speaker="p1"))
    assert set(held.test.recordings.speakers) == {"p1"}
    assert set(held.train.recordings.speakers) == {"p0"}


@pytest.mark.parametrize(
    ("table", "rows"),
    [
        ("metadata.csv", "s0|ab\ns1|ba\n"),
        ("transcripts.csv", 'text,path\n"ab",s0.wav\nba,s1.wav\n'),
        ("transcripts.txt", "s0.wav\tab\ns1.wav\tba\n"),
    ],
)
def test_tables_of_other_forms_are_read(tmp_path, table, rows):
    for name, text in (("s0.wav", "ab"), ("s1.wav", "ba")):
        write_sound(tmp_path / name, text)
    (tmp_path / table).write_text(rows)
    found = data.load(DataConfig(data=(str(tmp_path),), whole=True, bands=16))
    assert found.valid.recordings.texts == ["ab", "ba"]


def test_the_parts_that_a_table_names_are_kept(tmp_path):
    rows = ["file\ttext\tsplit"]
    for number, split in enumerate(["train", "dev", "test"]):
        write_sound(tmp_path / f"s{number}.wav", "ab")
        rows.append(f"s{number}.wav\tab\t{split}")
    (tmp_path / "transcripts.tsv").write_text("\n".join(rows))
    found = data.load(DataConfig(data=(str(tmp_path),), bands=16))
    assert [(split, len(part.recordings)) for split, part in found.parts().items()] == [
        ("train", 1), ("valid", 1), ("test", 1),
    ]  # fmt: skip


def test_training_leaves_out_what_is_too_long_or_too_short_for_its_text(tmp_path):
    rows = []
    for number, text in enumerate(["ab", "ab", "abcabc", "ab"]):
        write_sound(tmp_path / f"s{number}.wav", text)
        said = "a" * 60 if number == 1 else text
        rows.append(f"s{number}.wav\t{said}\t{'valid' if number == 3 else 'train'}")
    (tmp_path / "transcripts.tsv").write_text("\n".join(["file\ttext\tsplit", *rows]))
    found = data.load(DataConfig(data=(str(tmp_path),), bands=16, longest=1.0))
    assert found.train.texts() == ["ab"]
    assert [note for note in found.notes if "left out" in note] == [
        "train: 1 recordings of more than 1 s are left out",
        "train: 1 recordings with fewer steps than their texts have characters are left out",
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda place: None, "expected a folder of recordings, found nothing"),
        (lambda place: place.mkdir(), "with a table of their transcripts"),
        (lambda place: sounds_of(place) and (place / "transcripts.tsv").write_text("a\tb\n"), "found none that can be"),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_line(tmp_path, make, message):
    make(tmp_path / "said")
    with pytest.raises(DataError, match=message) as caught:
        data.load(DataConfig(data=(str(tmp_path / "said"),)))
    assert "\n" not in str(caught.value)


def test_the_scale_is_that_of_the_training_frames():
    found = tones()
    own = found.train.recordings
    frames = [found.artifacts.scaled(found.artifacts.mel.frames(own.samples_of(n))).numpy() for n in range(len(own))]
    every = np.concatenate(frames)
    assert np.allclose(every.mean(axis=0), 0, atol=1e-3)
    assert np.allclose(every.std(axis=0), 1, atol=1e-3)


def test_artifacts_come_back_and_others_are_refused():
    artifacts = tones().artifacts
    again = Artifacts.from_json(artifacts.to_json())
    assert again.to_json() == artifacts.to_json()
    assert (again.inputs, again.labels) == (64, 5)
    for change in (
        {"format": 2},
        {"stack": 0},
        {"scaler": {"mean": [0.0], "deviation": [1.0]}},
        {"mel": {"rate": "x"}},
    ):
        with pytest.raises(ValueError, match="expected"):
            Artifacts.from_json(artifacts.to_json() | change)


def test_a_sound_shorter_than_a_step_has_one():
    artifacts = tones().artifacts
    for count in (1, 100, 500):
        assert artifacts.steps(np.full(count, 0.1, np.float32)).shape == (1, 64)
    samples = np.random.default_rng(0).normal(0, 0.1, 4_000).astype(np.float32)
    assert len(artifacts.steps(samples)) == artifacts.count(len(samples))


ALTERED = {"tempo": 0.3, "warp": 0.2, "tilt": 6, "response": 6, "noise": 5, "time_masks": 2, "band_masks": 1}


def batch_of(found, config, seed, count=8):
    plan = found.train.draw(np.random.default_rng(3), count)
    draw = None if seed is None else np.random.default_rng(seed)
    return make_batch(found.artifacts, config, found.train, plan, np.arange(count), 0, draw)


def test_training_alters_frames_and_the_texts_stay():
    found = tones()
    plain, same = batch_of(found, Config(**ALTERED), None), batch_of(found, Config(tempo=0, noise=None), 1)
    assert torch.equal(plain.frames, same.frames)
    altered = batch_of(found, Config(**ALTERED), 1)
    assert torch.equal(altered.y, plain.y)
    assert not torch.equal(altered.lengths, plain.lengths)
    ratio = altered.lengths / plain.lengths
    assert 1 / 1.3 - 0.1 < ratio.min() < ratio.max() < 1.3 + 0.1
    assert torch.equal(altered.frames, batch_of(found, Config(**ALTERED), 1).frames)
    other = batch_of(found, Config(**ALTERED), 2)
    assert altered.frames.shape != other.frames.shape or not torch.equal(altered.frames, other.frames)
    for row, steps in zip(altered.frames, altered.lengths, strict=True):
        assert row.isfinite().all()
        assert not row[steps:].any()


def test_what_becomes_shorter_than_a_step_still_has_one():
    found = tones()
    samples = [np.sin(np.arange(400) / 3).astype(np.float32)] * 8  # a step of four frames
    frames, lengths = altered_steps(found.artifacts, Config(tempo=0.5), samples, np.random.default_rng(1))
    assert lengths.tolist() == [1] * 8
    assert frames.shape == (8, 1, found.artifacts.inputs)
    assert frames.isfinite().all()


def test_loud_floats_are_made_softer(tmp_path):
    from recollect.tasks.transcribe.parts import limit, to_whole

    assert np.abs(limit(np.array([0.5, -20_000.0], np.float32))).max() == 1
    assert to_whole(np.array([1.0, -1.0, 0.0], np.float32)).tolist() == [32_767, -32_767, 0]
