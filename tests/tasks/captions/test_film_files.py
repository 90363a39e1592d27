"""Film files of any kind, and files that are none."""

import io
import os
import tracemalloc

import numpy as np
import pytest
from PIL import Image

from recollect.data.limits import FILM_FRAMES
from recollect.tasks.captions.films import film_files
from recollect.tasks.captions.films.film_files import list_frames, read_film
from recollect.tasks.captions.picture_files import PictureError
from tasks.cases import photo

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def flats(*colours, size=(8, 8)):
    return [Image.new("RGB", size, colour) for colour in colours]


def saved(frames, kind="gif", **options):
    """The bytes of an animation."""
    held = io.BytesIO()
    frames[0].save(held, kind, save_all=True, append_images=frames[1:], **options)
    return held.getvalue()


def colours(film):
    """The colour in the middle of each frame."""
    return [tuple(int(v) for v in frame[len(frame) // 2, frame.shape[1] // 2]) for frame in film]


TABLE = bytes([*RED, *GREEN, *BLUE, *WHITE])


def frame_of(index, left=0, width=1, height=1, disposal=0):
    """A frame of a GIF by hand, all of one colour of TABLE: every pixel is coded anew."""
    codes = [code for _ in range(width * height) for code in (4, index)] + [5]  # clear, the colour; the end
    bits = sum(code << 3 * place for place, code in enumerate(codes))
    data = bits.to_bytes((3 * len(codes) + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255))
    control = b"\x21\xf9\x04" + bytes([disposal << 2]) + b"\x0a\x00\x00\x00"
    box = b"".join(number.to_bytes(2, "little") for number in (left, 0, width, height))
    return control + b"\x2c" + box + b"\x00\x02" + blocks + b"\x00"


def gif(frames, width=1, height=1, table=TABLE):
    """A GIF of such frames, on white ground."""
    size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    return b"GIF89a" + size + bytes([0b10000001, 3, 0]) + table + b"".join(frames) + b"\x3b"


@pytest.mark.parametrize("kind", ["gif", "png", "webp"])
def test_the_frames_of_a_film_come_in_their_order(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    exact = {"lossless": True} if kind == "webp" else {}
    path.write_bytes(saved(flats(RED, GREEN, BLUE, RED), kind, duration=50, **exact))
    film, notes = read_film(path, 16, 10)
    assert film.shape == (4, 16, 16, 3)
    assert colours(film) == [RED, GREEN, BLUE, RED]
    assert not notes
    assert np.array_equal(read_film(path.read_bytes(), 16, 10)[0], film)


@pytest.mark.parametrize(("disposal", "left"), [(0, GREEN), (1, GREEN), (2, WHITE), (3, RED)])
def test_what_a_frame_leaves_behind_follows_its_disposal(disposal, left):
    """A green frame over the left half of a red one, then a blue one over the right half: what is on the left then?"""
    frames = [frame_of(0, 0, 8, 8, 1), frame_of(1, 0, 4, 8, disposal), frame_of(2, 4, 4, 8, 1)]
    film, _ = read_film(gif(frames, 8, 8), 8, 10)
    assert film.shape == (3, 8, 8, 3)
    assert tuple(map(int, film[2, 4, 1])) == left
    assert tuple(map(int, film[2, 4, 6])) == BLUE


def test_what_is_transparent_shows_white():
    clear = [Image.new("RGBA", (8, 8), (0, 0, 0, 0)), Image.new("RGBA", (8, 8), (*BLUE, 255))]
    film, _ = read_film(saved(clear, "png", duration=50), 8, 10)
    assert colours(film) == [WHITE, BLUE]
    film, _ = read_film(saved(clear, "gif", duration=50, disposal=2), 8, 10)
    assert colours(film) == [WHITE, BLUE]


def test_a_frame_counts_as_often_as_the_shortest_fits_into_it():
    film, _ = read_film(saved(flats(RED, GREEN, BLUE), duration=[50, 150, 50]), 8, 10)
    assert colours(film) == [RED, GREEN, GREEN, GREEN, BLUE]
    film, _ = read_film(saved(flats(RED, GREEN), duration=[100, 0]), 8, 10)
    assert colours(film) == [RED, GREEN], "no time is the usual time"


def test_a_long_film_is_read_evenly_and_says_so():
    film, notes = read_film(gif([frame_of(i) for i in range(4)] * 500), 8, 5)
    assert len(film) == 5
    assert colours(film)[0] == RED
    assert colours(film)[-1] == WHITE
    assert notes == ["the film: a long film; 5 of its 2,000 frames are read, evenly spread"]


def test_a_frame_that_is_shown_for_long_is_named_as_one():
    film, notes = read_film(saved(flats(RED, GREEN, BLUE), duration=[50, 50, 60_000]), 8, 5)
    assert colours(film) == [RED, *[BLUE] * 4]
    assert notes == [
        "the film: a long film (3 frames, shown for 1,202 times the shortest); it is read at 5 times, evenly spread"
    ]


def test_of_a_long_film_only_the_frames_that_are_read_are_kept():
    content = gif([frame_of(i % 4, 0, 100, 100) for i in range(400)], 100, 100)  # 12 MB of frames
    read_film(content, 100, 2)  # what is imported at first use
    tracemalloc.start()
    film, _ = read_film(content, 100, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(film) == 5
    assert peak < 2_000_000


def test_a_film_of_too_many_frames_is_one_line():
    frames = [frame_of(i % 4) for i in range(FILM_FRAMES)]
    film, _ = read_film(gif(frames), 2, 3)
    assert len(film) == 3
    with pytest.raises(PictureError, match=f"of at most {FILM_FRAMES:,} frames, found more; cut it") as caught:
        read_film(gif([*frames, frames[0]]), 2, 3)
    assert "\n" not in str(caught.value)


def test_frames_that_are_large_together_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr(film_files, "FILM_PIXELS", 3 * 64)
    assert len(read_film(saved(flats(RED, GREEN, BLUE), duration=50), 8, 10)[0]) == 3
    with pytest.raises(
        PictureError, match="expected a film of at most 192 pixels in all frames together, found 4 frames"
    ):
        read_film(saved(flats(RED, GREEN, BLUE, RED), duration=50), 8, 10)
    bomb = gif([frame_of(0)], 60_000, 60_000)
    with pytest.raises(PictureError, match="of at most 50,000,000 pixels"):
        read_film(bomb, 8, 10)


def test_one_picture_is_a_film_of_one_frame_and_says_so(tmp_path):
    photo(size=(8, 8)).save(tmp_path / "a.png")
    photo(size=(8, 8)).convert("P").save(tmp_path / "a.gif")
    for name in ("a.png", "a.gif"):
        film, notes = read_film(tmp_path / name, 8, 10)
        assert len(film) == 1
        assert notes == [f"{tmp_path / name}: one picture; a film has several frames"]


def test_a_picture_beside_an_animated_png_is_no_frame_of_it():
    held = io.BytesIO()
    first, *rest = flats(WHITE, RED, GREEN)
    first.save(held, "png", save_all=True, append_images=rest, default_image=True, duration=50)
    assert colours(read_film(held.getvalue(), 8, 10)[0]) == [RED, GREEN]


def test_a_folder_of_frames_is_read_in_natural_order(tmp_path):
    for number, colour in ((10, BLUE), (9, GREEN), (1, RED)):
        Image.new("RGB", (12, 6), colour).save(tmp_path / f"frame {number}.png")
    (tmp_path / "notes.txt").write_text("no frame")
    assert [path.name for path in list_frames(tmp_path)] == ["frame 1.png", "frame 9.png", "frame 10.png"]
    assert colours(read_film(tmp_path, 8, 10)[0]) == [RED, GREEN, BLUE]
    assert read_film(tmp_path, 8, 10, square=False)[0].shape == (3, 4, 8, 3)
    assert len(read_film(tmp_path, 8, 2)[0]) == 2
    Image.new("RGB", (5, 30), RED).save(tmp_path / "frame 11.png")
    assert read_film(tmp_path, 8, 10, square=False)[0].shape == (4, 4, 8, 3), "all frames are as large as the first"


def test_an_array_is_a_film():
    given = np.stack([np.asarray(frame) for frame in flats(RED, GREEN)])
    assert colours(read_film(given, 16, 10)[0]) == [RED, GREEN]


def test_a_frame_of_a_folder_that_is_no_picture_is_named(tmp_path):
    for number in range(3):
        Image.new("RGB", (12, 6), RED).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_text("no picture")
    with pytest.raises(PictureError, match=r"1\.png: expected a picture, found something that Pillow does not know"):
        read_film(tmp_path, 8, 10)


BROKEN = {
    "half an animated PNG": (
        saved([photo(i, (60, 60)) for i in range(3)], "png", duration=50)[:6000],
        "expected a whole film, found a damaged",
    ),
    "noise after a GIF's first bytes": (
        b"GIF89a" + np.random.default_rng(0).bytes(3000),
        "expected a (whole )?film",
    ),
    "a GIF without a frame": (gif([]), "expected a (whole )?film"),
    "nothing": (b"", "expected a film, found something that Pillow does not know as one"),
    "text": (b"no film at all", "found something that Pillow does not know"),
    "half": (
        saved([photo(i, (60, 60)) for i in range(3)], duration=50)[:4000],
        "expected a whole film, found a damaged",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_bytes_that_are_no_film_are_one_line(name):
    content, message = BROKEN[name]
    with pytest.raises(PictureError, match=message) as caught:
        read_film(content, 8, 10)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_one_line(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.gif").touch()
    os.mkfifo(tmp_path / "pipe.gif")
    for name, message in (
        ("none.gif", "expected a film, found No such file"),
        ("empty", "expected a film, found a folder without a picture"),
        ("empty.gif", "found an empty file"),
        ("pipe.gif", "expected a film, found"),
    ):
        with pytest.raises(PictureError, match=message) as caught:
            read_film(tmp_path / name, 8, 10)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
