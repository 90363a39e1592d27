"""Recordings in, texts out: files, arrays, streams, maps, and what cannot be transcribed."""

import json

import numpy as np
import pytest

import recollect
from recollect.core.errors import RecollectError
from recollect.data.sound import SoundError, read_sound
from recollect.export import package
from recollect.measure.instruments import inspect
from recollect.training import run as runs
from tasks.cases import write_sound

ALL = [("ctc", {}), ("ctc", {"both_ways": True}), ("attend", {}), ("fixed", {})]


@pytest.fixture
def file(tmp_path):
    write_sound(tmp_path / "said.wav", "abcab")
    return tmp_path / "said.wav"


@pytest.mark.parametrize(("model", "settings"), ALL)
def test_a_recording_has_the_same_text_however_it_is_given(run_of, file, tmp_path, model, settings):
    write_sound(tmp_path / "other.wav", "ab")
    own = recollect.load(run_of(model, **settings), engine="torch")
    samples = read_sound(file, 8_000).samples
    alone = own.transcribe(file)
    assert alone.text == own.transcribe(samples).text == own.transcribe(file.read_bytes()).text
    together = own.transcribe([file, tmp_path / "other.wav"])
    assert [one.file for one in together] == [str(file), str(tmp_path / "other.wav")]
    assert together[0].text == alone.text, "whoever is beside it"
    assert alone.scores[0] == pytest.approx(together[0].scores[0], abs=1e-4)
    assert alone.seconds == pytest.approx(1.23, abs=0.01)


@pytest.mark.parametrize(("model", "settings"), ALL)
def test_each_character_has_its_place_in_the_sound(run_of, file, model, settings):
    own = recollect.load(run_of(model, **settings), engine="torch")
    found = own.transcribe(file, alignment=True, beam=4)
    assert found.alignment.shape[0] == len(found.characters)
    assert found.alignment.shape[1] * found.step == pytest.approx(1.2, abs=0.05)
    assert found.spectrum.shape[1] == 16
    if model == "ctc":
        assert len(found.spans) == len(found.characters) == len(found.text)
        assert all(0 <= begin < end <= 1.25 for begin, end in found.spans)
    else:
        assert np.allclose(found.alignment.sum(axis=1), 1, atol=1e-4)


def test_chunks_of_sound_give_the_text_of_the_whole(run_of, file):
    own = recollect.load(run_of("ctc"), engine="torch")
    samples = read_sound(file, 8_000).samples
    wanted = own.transcribe(samples, beam=1).text
    for size in (100, 999, 4_000, len(samples)):
        chunks = [samples[start : start + size] for start in range(0, len(samples), size)]
        assert "".join(own.listen(chunks)) == wanted
    assert "".join(own.listen(own.open(file))) == wanted


@pytest.mark.parametrize("model", ["attend", "ctc"])
def test_a_model_of_whole_recordings_does_not_listen(run_of, model):
    own = recollect.load(run_of(model, **({"both_ways": True} if model == "ctc" else {})))
    with pytest.raises(RecollectError, match="expected a model by ctc without both_ways"):
        list(own.listen([np.zeros(100)]))


def test_what_is_no_sound_is_one_line(run_of, tmp_path):
    own = recollect.load(run_of("ctc"))
    (tmp_path / "text.wav").write_text("no sound")
    write_sound(tmp_path / "long.wav", "a" * 500)
    silent = np.zeros(2_000, np.int16)
    cases = [
        (tmp_path / "text.wav", "expected a recording"),
        (tmp_path / "long.wav", "expected a recording of at most 120 s, found 125 s.*--stream"),
        (b"", "found an empty file"),
        (np.zeros((3, 4, 5)), "expected samples, found an array of shape"),
        (np.array([np.nan]), "found NaN"),
        (np.zeros(8_000 * 121), "expected at most 120 s of sound"),
        (3, "expected samples, found an array of shape"),
        ("nothing.wav", "expected a recording, found No such file"),
    ]
    for given, message in cases:
        with pytest.raises((RecollectError, SoundError), match=message) as caught:
            own.transcribe(given)
        assert "\n" not in str(caught.value)
    with pytest.raises(RecollectError, match="did you mean 'beam'"):
        own.transcribe(silent, beem=2)
    assert isinstance(own.transcribe(silent).text, str), "silence in an array has a text, if only an empty one"
    write_sound(tmp_path / "long.wav", "ab" * 10)
    assert isinstance("".join(own.listen(own.open(tmp_path / "long.wav"))), str)


def test_the_command_prints_a_line_each_and_draws_maps(run_of, command, file, tmp_path):
    run = run_of("attend")
    code, out, _ = command("transcribe", run, file, "--map", tmp_path / "map.svg")
    assert (code, out.count("\n")) == (0, 1)
    assert "seconds" in (tmp_path / "map.svg").read_text()
    code, out, _ = command("transcribe", run, file, file, "--nbest", 2, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["file"] for row in rows] == [str(file)] * 2
    assert len(rows[0]["best"]) == 2
    code, out, _ = command("transcribe", run_of("ctc"), file, "--stream")
    assert (code, out.count("\n")) == (0, 1)
    code, _, error = command("transcribe", run_of("ctc"), file, "--stream", "--nbest", 2)
    assert code == 1
    assert "--stream: expected it without" in error


@pytest.mark.parametrize(("model", "settings"), [("ctc", {}), ("ctc", {"both_ways": True}), ("attend", {})])
def test_an_exported_folder_writes_the_same(run_of, file, tmp_path, model, settings):
    run = run_of(model, **settings)
    package.export(runs.load(run), tmp_path / "out")
    whole, exported = recollect.load(run, engine="torch"), recollect.load(tmp_path / "out")
    for beam in (1, 3):
        a, b = whole.transcribe(file, beam=beam), exported.transcribe(file, beam=beam)
        assert a.texts == b.texts
        assert a.scores == pytest.approx(b.scores, abs=1e-3)
    if model == "ctc" and not settings:
        samples = read_sound(file, 8_000).samples
        assert "".join(exported.listen([samples[:3_000], samples[3_000:]])) == whole.transcribe(file, beam=1).text


@pytest.mark.parametrize("model", ["attend", "fixed", "ctc"])
def test_the_instrument_shows_where_each_character_was_heard(run_of, file, command, tmp_path, model):
    run = run_of(model)
    found = inspect(run, "alignment", sound=str(file))
    assert len(found.charts) == 2, "before training, and after"
    weights = np.array(found.figures["weights"])
    assert weights.shape[0] == len(found.figures["characters"])
    code, _, _ = command("inspect", run, "alignment", "--sound", file, "--out", tmp_path / "map.png")
    assert code == 0
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(RecollectError, match="--text: expected a run of another task"):
        inspect(run, "alignment", text="a")
