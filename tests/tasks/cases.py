"""Runs of a moment for the suite of every task: small settings, data to read, and the models that are trained.

A task that makes its own data needs no entry in SMALL.
"""

import gzip
import io
import math
import struct
import wave
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tiny
from recollect import tasks
from recollect.training import run as runs

OUTSIDE = Path(__file__).parent / "outside" / "first"  # a task outside the package, which the suite registers
STEPS = {"steps": 8, "warmup": 2, "save_every": 3, "eval_every": 4, "log_every": 2}

TRAIN = [
    ("the cat sees the dog", "le chat voit le chien"),
    ("the dog sees", "le chien voit"),
    ("a cat", "un chat"),
    ("The dog sleeps.", "Le chien dort."),
    ("the cat eats a fish", "le chat mange un poisson"),
    ("a dog eats", "un chien mange"),
    ("a fish", "un poisson"),
    ("the fish sleeps", "le poisson dort"),
    ("the cat sees a fish", "le chat voit un poisson"),
    ("a dog sees the cat", "un chien voit le chat"),
    ("sleeps", "dort"),
    ("now, now, now", "tout de suite, tout de suite, tout de suite"),
]
VALID = [
    ("a dog sees a fish", "un chien voit un poisson"),
    ("the cat", "le chat"),
    ("a cat sees the dog", "un chat voit le chien"),
    ("eats", "mange"),
    ("the fish eats", "le poisson mange"),
]


def table(path, pairs):
    """A table of sentences and their translations."""
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def hourly(rows=300, columns=("a", "b"), missing=()):
    """A table of waves with a season of 12."""
    lines = [",".join(["date", *columns])]
    draw = np.random.default_rng(0)
    for t in range(rows):
        day, hour = divmod(t, 24)
        cells = [
            f"{10 * c + math.sin(2 * math.pi * t / 12 + c) + draw.normal(0, 0.05):.4f}" for c in range(len(columns))
        ]
        cells = ["" if (t, c) in missing else cell for c, cell in enumerate(cells)]
        lines.append(",".join([f"2024-{1 + day // 28:02}-{1 + day % 28:02} {hour:02}:00:00", *cells]))
    return "\n".join(lines) + "\n"


def sentences(count=160, seed=0):
    """Texts of `good` or `bad` words among others, and their labels."""
    draw = np.random.default_rng(seed)
    for number in range(count):
        words = list(draw.choice(["the", "film", "was", "so", "long", "and"], size=draw.integers(1, 9)))
        words.insert(int(draw.integers(0, len(words) + 1)), ("bad", "good")[number % 2])
        yield f"{' '.join(words)} {number}", ("neg", "pos")[number % 2]


def idx(array, kind=8):
    """An IDX file of bytes."""
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_images(folder):
    """Images of 4 × 3 pixels, of which label 1 is bright at the beginning and label 0 at the end."""
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


def photo(seed=0, size=(20, 12)):
    """An image without any sense, of width × height."""
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, size=(size[1], size[0], 3), dtype=np.uint8))


def folder_of(path, count=30, captions_file="captions.tsv"):
    """A folder of pictures with two captions each."""
    path.mkdir()
    lines = []
    for number in range(count):
        photo(number).save(path / f"p{number}.png")
        lines += [f"p{number}.png\tA {word} thing, number {number % 3}!" for word in ("fine", "good")]
    (path / captions_file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_sound(path, letters, rate=8_000):
    """A recording of 16 bits in which each letter is a tone."""
    draw = np.random.default_rng(sum(map(ord, path.name)))
    at = np.arange(rate // 4) / rate
    tones = [0.3 * np.sin(2 * np.pi * 300 * (1 + "abc".index(letter)) * at) for letter in letters]
    samples = np.concatenate(tones) + draw.normal(0, 0.01, len(tones) * len(at))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((32_000 * samples).astype("<i2").tobytes())


def sounds_of(path, count=30):
    """A folder of recordings with a table of their transcripts."""
    path.mkdir()
    texts = ["abc"[number % 3] + "acb"[number // 3 % 3] for number in range(count)]
    for number, text in enumerate(texts):
        write_sound(path / f"s{number}.wav", text)
    rows = [f"s{number}.wav\t{text}\tp{number % 2}" for number, text in enumerate(texts)]
    (path / "transcripts.tsv").write_text("\n".join(["file\ttext\tspeaker", *rows]) + "\n", encoding="utf-8")
    return path


def recording(hertz, seconds=0.2, rate=8_000, seed=0):
    """A WAV file of a tone and some noise."""
    draw, out = np.random.default_rng(seed), io.BytesIO()
    time = np.arange(int(seconds * rate)) / rate
    samples = 0.5 * np.sin(2 * np.pi * hertz * time) + 0.02 * draw.standard_normal(len(time))
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(np.rint(32_000 * samples).astype("<i2").tobytes())
    return out.getvalue()


def write_recordings(folder, count=16):
    """Recordings of unequal length in two folders, of high and of low tones, by speakers p and q."""
    for number in range(count):
        for label, hertz in (("low", 300), ("high", 1_500)):
            place = folder / label / f"{'pq'[number % 2]}{number}.wav"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(recording(hertz + 10 * number, 0.12 + 0.01 * (number % 5), seed=number))
    return folder


def clips_of(path, count=30):
    """A folder of films with a caption each: GIF files, and two folders of frames."""
    path.mkdir()
    lines = []
    for number in range(count):
        frames = [photo(10 * number + frame, (12, 8)) for frame in range(1 + number % 4)]
        if number < 2:
            name = f"film{number}"
            (path / name).mkdir()
            for at, frame in enumerate(frames):
                frame.save(path / name / f"{at}.png")
        else:
            name = f"film{number}.gif"
            frames[0].save(path / name, save_all=True, append_images=frames[1:], duration=80)
        lines.append(f"{name}\tA {('fine', 'good')[number % 2]} film, number {number % 3}!")
    (path / "captions.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def write_data(folder):
    """The files that the runs of SMALL read."""
    (folder / "text.txt").write_text(tiny.prose(400), encoding="utf-8")
    (folder / "hours.csv").write_text(hourly(), encoding="utf-8")
    table(folder / "films.tsv", sentences())
    table(folder / "pairs.tsv", TRAIN * 2)
    table(folder / "pairs-valid.tsv", VALID)
    write_images(folder / "images")
    write_recordings(folder / "spoken")
    folder_of(folder / "photos")
    clips_of(folder / "clips")
    sounds_of(folder / "said")


CHANGES = {  # of those files, such that other data are read
    "text.txt": (b"cat", b"dog"),
    "hours.csv": (b".1", b".2"),
    "films.tsv": (b"film", b"tape"),
    "pairs.tsv": (b"fish", b"bird"),
    "images/train-images-idx3-ubyte": (b"\x14", b"\x15"),
    "photos/captions.tsv": (b"fine", b"nice"),
    "said/transcripts.tsv": (b"\tab\t", b"\tad\t"),
    "spoken/low/p0.wav": (b"\x40\x1f\x00\x00", b"\x41\x1f\x00\x00"),  # the rate
    "clips/captions.tsv": (b"fine", b"nice"),
}


@dataclass(frozen=True, kw_only=True)
class Small:
    """The small runs of a task: settings of all, files of `write_data`, and the settings of each model beside those.

    A key of `models` is a model's name, with a note after a comma where it stands there twice.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    data: str | None = None
    valid: str | None = None
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=lambda: {"": {}})  # "": the task's default


DIALS = {  # of the tests of memory
    "copy": {"distance": 5, "load": 3},
    "adding": {"length": 8},
    "recall": {"length": 16, "load": 3, "vocab": 20},
    "parity": {"length": 8},
    "gap": {"distance": 12},
    "order": {"length": 6, "vocab": 12},
    "clouds": {"distance": 6},
    "agreement": {"distance": 2},
    "nested": {"depth": 1},
}


def _memory(dials):
    return Small(
        settings={"batch": 4, "eval_rows": 12, "width": 8, "layers": 1} | dials,
        models={"lstm": {}, "lstm, varied": {"vary": True}},
    )


SMALL = {
    "text": Small(
        settings={"context": 12, "batch": 4},
        data="text.txt",
        models={"lstm": {"width": 8, "layers": 2}, "ngram": {}},
    ),
    "translation": Small(
        settings={"batch": 40, "width": 8, "heads": 2, "tokenizer": "words", "pair": "en-fr"},
        data="pairs.tsv",
        valid="pairs-valid.tsv",
        models={
            "fixed": {"cell": "lstm", "layers": 2, "reverse": True},
            "context": {"sampling": 0.3},
            "attend": {"choose": "bleu", "eval_sentences": 3, "keep": 2},
            "conv": {"layers": 2},
            "transformer": {"positions": "learned", "ema": 0.9, "tokenizer": "bpe", "joint": True, "share": "all"},
        },
    ),
    "series": Small(
        settings={"lookback": 12, "horizon": 4, "batch": 8, "width": 8, "valid_share": 0.2},
        data="hours.csv",
        models={
            "gru": {"segment": 4, "head_dropout": 0.3, "calendar": True},
            "lstm": {"ahead": "recursive", "intervals": "gaussian", "target": "a", "past": "b"},
            "transformer": {
                "heads": 2,
                "segment": 4,
                "stride": 2,
                "attention": "full",
                "dropout": 0.2,
                "normalise": "window",
            },
            "mlp": {"intervals": "quantile"},
            "ar": {},
            "ar, trained": {"fit": "steps"},
        },
    ),
    "captions": Small(
        settings={
            "count": 24,
            "pixels": 32,
            "channels": 8,
            "width": 8,
            "heads": 2,
            "batch": 4,
            "eval_images": 4,
            "beam": 2,
            "extra": 14,
            "self_attention": "true",
            "flip": "true",
            "crop": 0.1,
            "smoothing": 0.1,
        },
        models={"attend": {}, "fixed, photos": {"data": "photos", "pixels": 16}, "transformer": {}},
    ),
    "films": Small(
        settings={
            "count": 24,
            "channels": 8,
            "width": 8,
            "heads": 2,
            "batch": 4,
            "eval_films": 4,
            "extra": 14,
            "smoothing": 0.1,
            "dropout": 0.1,
        },
        models={
            "gru": {},
            "bag": {"decoder": "transformer"},
            "transformer, grid": {"grid": "true", "decoder": "context"},
            "lstm, folder": {"data": "clips", "pixels": 16, "decoder": "fixed", "frames": 3},
        },
    ),
    "labels": Small(
        settings={"batch": 8},
        data="films.tsv",
        models={
            "gru": {"width": 8, "layers": 2, "dropout": 0.3, "pool": "attention"},
            "transformer": {"width": 8, "layers": 2, "heads": 2, "smoothing": 0.1},
            "lstm, both ways": {"width": 8, "layers": 2, "dropout": 0.2, "both_ways": True, "pool": "mean"},
            "gru, both ways, images": {"data": "images", "width": 8, "layers": 1, "both_ways": True},
            "lstm, images": {"data": "images", "width": 8, "layers": 2, "permute": 0, "choose": "nats"},
            "tcn, images": {"data": "images", "width": 8, "layers": 2, "step": "row", "pool": "mean"},
            "gru, recordings": {
                "data": "spoken",
                "width": 8,
                "layers": 1,
                "bands": 12,
                "tempo": 0.1,
                "warp": 0.1,
                "gain": 6,
                "tilt": 3,
                "noise": 20,
                "shift": 20,
                "time_masks": 1,
                "band_masks": 1,
                "level": True,
            },
            "bag": {},
        },
    ),
    "transcribe": Small(
        settings={
            "batch": 4,
            "count": 6,
            "takes": 10,
            "letters": 3,
            "bands": 16,
            "eval_rows": 4,
            "beam": 2,
            "extra": 3,
        },
        models={
            "ctc": {"width": 8, "layers": 1},
            "ctc, both ways": {"width": 8, "layers": 2, "both_ways": True, "dropout": 0.2, "tempo": 0},
            "ctc, folder": {"data": "said", "encoder": "lstm", "width": 8, "stack": 2},
            "attend": {"width": 8},
            "fixed, folder": {"data": "said", "width": 8, "cell": "lstm"},
            "transformer": {"width": 8, "heads": 2},
        },
    ),
    "ratings": Small(
        settings={"users": 30, "items": 20, "ratings": 400, "rank": 2, "batch": 64, "lr": 0.03, "features": "truth"},
        models={"dot": {}, "features": {}, "biases": {}},
    ),
} | {name: _memory(dials) for name, dials in DIALS.items()}
NAMES = [*tasks.names(), OUTSIDE.name]
CASES = [(name, label) for name in NAMES for label in SMALL.get(name, Small()).models]
FROM_FILES = [
    (name, label)
    for name, label in CASES
    if name in SMALL and (SMALL[name].data or "data" in SMALL[name].models[label])
]


def configure(folder, name, label=None, **settings):
    """The settings of a small run on the files in `folder`; without a label that of the first model."""
    kind, small = tasks.find(name), SMALL.get(name, Small())
    label = next(iter(small.models)) if label is None else label
    own = dict(small.models[label])
    files = {"data": own.pop("data", small.data), "valid": small.valid}
    given = {place: [str(folder / file)] for place, file in files.items() if file}
    texts = {key: str(value) for key, value in (STEPS | dict(small.settings) | own | settings).items()}
    return runs.configure(kind, texts, model=label.partition(",")[0] or kind.default, **given)
