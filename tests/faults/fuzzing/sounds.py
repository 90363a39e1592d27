"""A Hypothesis strategy that alters recordings: their bytes, the fields of their head, or their format."""

import io
import struct

import numpy as np
import soundfile
from hypothesis import strategies as st

NUMBERS = (0, 1, 2, 3, 64, 65, 255, 4_000, 44_100, 65_535)
SIZES = (0, 1, 2, 3, 100, 2**15, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1)
FORMATS = (
    ("WAV", "PCM_U8"), ("WAV", "PCM_24"), ("WAV", "PCM_32"), ("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("WAV", "ULAW"),
    ("WAV", "IMA_ADPCM"), ("WAV", "GSM610"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"),
    ("MP3", "MPEG_LAYER_III"), ("AIFF", "PCM_16"), ("AU", "PCM_16"), ("CAF", "ALAC_16"), ("W64", "PCM_16"),
    ("RF64", "PCM_16"), ("NIST", "PCM_16"), ("VOC", "PCM_16"), ("MAT5", "PCM_16"),
)  # fmt: skip
FIELDS = {  # of the head of a plain WAV file: place and form
    "size of the file": (4, "<I"), "size of the format": (16, "<I"), "coding": (20, "<H"), "channels": (22, "<H"),
    "rate": (24, "<I"), "bytes a second": (28, "<I"), "bytes a frame": (32, "<H"), "bits": (34, "<H"),
    "size of the samples": (40, "<I"),
}  # fmt: skip


@st.composite
def changed_sound(draw: st.DrawFn, good: bytes) -> tuple[str, bytes]:
    """What was altered, and a recording with another head, other samples or of another format."""
    kind = draw(st.sampled_from(["head", "head", "format", "samples"]))
    if kind == "head" and good[:4] == b"RIFF":
        name = draw(st.sampled_from(sorted(FIELDS)))
        at, form = FIELDS[name]
        value = draw(st.sampled_from(SIZES if form == "<I" else NUMBERS))
        return f"{name} {value}", good[:at] + struct.pack(form, value) + good[at + struct.calcsize(form) :]
    samples, rate = soundfile.read(io.BytesIO(good), dtype="float32")
    if kind == "samples":
        values = draw(st.sampled_from([np.nan, np.inf, -np.inf, 3e38, 1e-40, 0.0]))
        samples = np.full_like(samples, values) if draw(st.booleans()) else np.append(samples, np.float32(values))
        return f"samples of {values}", _write(samples, rate, "WAV", "FLOAT")
    form, coding = draw(st.sampled_from(FORMATS))
    content = _write(samples, rate, form, coding)
    if draw(st.booleans()) and content:
        at = draw(st.integers(0, len(content) - 1))
        content = content[:at] + draw(st.binary(max_size=8)) + content[at:]
    return f"{form} of {coding}", content


def _write(samples: np.ndarray, rate: int, form: str, coding: str) -> bytes:
    out = io.BytesIO()
    soundfile.write(out, samples, rate, coding, format=form)
    return out.getvalue()
