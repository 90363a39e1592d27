"""Recordings: what is read of every kind of file, and the line that refuses the others."""

import io
import os
import struct
import wave

import numpy as np
import pytest
import soundfile

from recollect.core.settings import ContractError
from recollect.data.sound import SoundError, read_blocks, read_sound
from recollect.data.sound.reading import BLOCK

RATE = 8_000


def tone(hertz=440.0, seconds=0.5, rate=RATE, loud=0.5):
    return loud * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)


def pcm(samples, bits, channels=1, rate=RATE):
    """A WAV file by Python's own writer."""
    out = io.BytesIO()
    whole = np.rint(samples * (2 ** (bits - 1) - 1)).astype(np.int64) + (128 if bits == 8 else 0)
    packed = whole.astype("<i8").reshape(-1, 1).view(np.uint8)[:, : bits // 8]
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(bits // 8)
        file.setframerate(rate)
        file.writeframes(np.ascontiguousarray(packed).tobytes())
    return out.getvalue()


def written(samples, rate=RATE, **options):
    out = io.BytesIO()
    soundfile.write(out, samples, rate, **({"format": "WAV"} | options))
    return out.getvalue()


@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_whole_numbers_of_any_width_are_samples_within_one(bits):
    found = read_sound(pcm(tone(), bits))
    assert (found.rate, found.samples.dtype, found.samples.shape) == (RATE, np.float32, (4_000,))
    np.testing.assert_allclose(found.samples, tone(), atol=2.0 ** (1 - bits) * 1.01 + 1e-6)


@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE", "ULAW", "ALAW"])
def test_other_codings_are_read(subtype):
    found = read_sound(written(tone(), subtype=subtype))
    np.testing.assert_allclose(found.samples, tone(), atol=0.03 if "LAW" in subtype else 1e-6)


@pytest.mark.parametrize("form", ["FLAC", "AIFF", "AU", "CAF", "W64", "RF64", "NIST", "OGG", "MP3"])
def test_other_formats_are_read(form):
    found = read_sound(written(tone(seconds=1.0), format=form))
    assert found.rate == RATE
    spectrum = np.abs(np.fft.rfft(found.samples[:RATE] * np.hanning(RATE)))
    assert abs(int(spectrum.argmax()) - 440) <= 1


def test_channels_become_their_mean():
    sides = np.stack([tone(440), tone(880), tone(100)], axis=1)
    found = read_sound(written(sides, subtype="FLOAT"))
    np.testing.assert_allclose(found.samples, sides.mean(axis=1), atol=1e-6)


@pytest.mark.parametrize("source", [8_000, 11_025, 16_000, 22_050, 44_100, 48_000, 96_000])
@pytest.mark.parametrize("rate", [8_000, 16_000])
def test_another_rate_is_the_same_sound(source, rate):
    found = read_sound(written(tone(440, 0.5, source), source, subtype="FLOAT"), rate)
    assert found.rate == rate
    assert abs(found.seconds - 0.5) <= 1 / rate
    want = tone(440, found.seconds, rate)
    np.testing.assert_allclose(found.samples[200:-200], want[200 : len(found.samples) - 200], atol=2e-4)


def test_what_a_lower_rate_cannot_hold_does_not_fold_back():
    both = tone(440, 0.5, 44_100) + tone(5_000, 0.5, 44_100)
    found = read_sound(written(both, 44_100, subtype="FLOAT"), RATE).samples
    np.testing.assert_allclose(found[200:-200], tone(440)[200 : len(found) - 200], atol=2e-4)


@pytest.mark.parametrize("rate", [None, 16_000, 11_025])
def test_blocks_are_the_whole(rate):
    content = written(np.random.default_rng(0).uniform(-1, 1, (2 * BLOCK, 2)), 48_000, subtype="FLOAT")
    blocks = list(read_blocks(content, rate))
    assert len(blocks) >= 4
    np.testing.assert_array_equal(np.concatenate(blocks), read_sound(content, rate).samples)


def refusal(source, **options):
    with pytest.raises(SoundError) as caught:
        read_sound(source, **options)
    text = str(caught.value)
    assert "\n" not in text
    assert "expected" in text
    assert "found" in text
    return text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"RIFF", "cut short or damaged"),
        (b"GIF89a and more", "begins with b'GIF8'"),
        (pcm(np.zeros(0), 16), "without samples"),
        (pcm(np.zeros(800), 16), "silence: every sample is 0"),
        (pcm(np.full(800, 0.25), 16), "silence: every sample is 0.25"),
        (pcm(tone(), 16)[:-100], "8,000 bytes of samples, found 7,900"),
        (pcm(tone(), 16)[:40], "cut short or damaged"),
        (pcm(tone(), 16)[:24], "cut short or damaged"),
        (pcm(tone(), 16, rate=3_000), "found 3,000"),
        (pcm(tone(), 16, rate=400_000), "found 400,000"),
        (pcm(tone(), 16, channels=80), "80"),
        (written(np.array([0.1, np.nan, 0.2]), subtype="FLOAT"), "numbers up to 2^31"),
        (written(np.array([0.1, np.inf, 0.2]), subtype="FLOAT"), "numbers up to 2^31"),
        (written(tone(), format="FLAC")[:-900], "damaged"),
        (b"fLaC" + bytes(range(256)) * 4, "damaged"),
        (b"OggS" + bytes(500), "damaged"),
    ],
    ids=lambda part: "bytes" if isinstance(part, bytes) else part,  # some hold the time at which they were written
)
def test_what_is_no_sound_is_refused_in_a_line(content, words):
    assert words in refusal(content)


def test_a_long_recording_is_refused_by_its_head(tmp_path):
    path = tmp_path / "long.wav"
    size = 2 * RATE * 3 * 3_600  # three hours
    with open(path, "wb") as file:
        head = pcm(tone(), 16)[:44]
        file.write(head[:40] + struct.pack("<I", size))
        file.truncate(44 + size)  # of holes: it takes no place
    assert "at most 3,600 s, found 10,800 s" in refusal(path)
    assert "at most 2 s, found 10,800 s" in refusal(path, seconds=2)


def test_a_length_that_is_not_known_is_what_is_there():
    content = bytearray(pcm(tone(), 16))
    content[40:44] = b"\xff\xff\xff\xff"
    assert len(read_sound(bytes(content)).samples) == 4_000


def test_places_that_are_no_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    (tmp_path / "away.wav").symlink_to(tmp_path / "nowhere.wav")
    assert "pipe" in refusal(tmp_path / "pipe.wav")
    assert "No such file" in refusal(tmp_path / "away.wav")
    assert "folder" in refusal(tmp_path) or "directory" in refusal(tmp_path)
    assert "recording" in refusal("/dev/zero")


def test_a_link_to_a_recording_is_read(tmp_path):
    (tmp_path / "a.wav").write_bytes(pcm(tone(), 16))
    (tmp_path / "b.wav").symlink_to(tmp_path / "a.wav")
    assert len(read_sound(tmp_path / "b.wav").samples) == 4_000


@pytest.mark.parametrize("rate", [0, 100, 10**9, 8_000.0])
def test_a_strange_rate_is_refused(rate):
    with pytest.raises((SoundError, ContractError), match="rate"):
        read_sound(pcm(tone(), 16, rate=16_000), rate)
