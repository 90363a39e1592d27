"""Altered recordings: each is read or refused in one line, in bounded time and memory."""

import io

import hypothesis
import numpy as np
import pytest
import soundfile
from hypothesis import strategies as st

from faults.fuzzing.sounds import changed_sound
from faults.fuzzing.strategies import changed_bytes
from recollect.data.sound import LogMel, SoundError, read_sound

FORMATS = ("WAV", "FLAC", "OGG", "MP3", "AIFF", "AU", "CAF", "W64", "RF64", "NIST")


def recording(form):
    out, draw = io.BytesIO(), np.random.default_rng(0)
    soundfile.write(out, 0.3 * draw.standard_normal(3_000), 8_000, format=form)
    return out.getvalue()


GOOD = {form: recording(form) for form in FORMATS}


def altered(form):
    return changed_sound(GOOD[form]).map(lambda found: found[1]) | changed_bytes(GOOD[form]).map(lambda c: c.content)


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(st.sampled_from(FORMATS).flatmap(altered))
def test_altered_recordings_are_read_or_refused_in_a_line(content):
    try:
        found = read_sound(content, 8_000)
    except SoundError as error:
        refusal = str(error)
    else:
        refusal = None
    if refusal is not None:
        assert "\n" not in refusal
        assert len(refusal) < 400
        return
    assert np.isfinite(found.samples).all()
    assert np.isfinite(LogMel().frames(found.samples).numpy()).all()


@pytest.mark.parametrize("form", FORMATS)
def test_the_recordings_that_are_altered_are_good(form):
    assert read_sound(GOOD[form]).rate == 8_000
