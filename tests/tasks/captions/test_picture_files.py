"""Picture files of any kind, and files that are none."""

import io
import os

import numpy as np
import pytest
from PIL import Image

from recollect.tasks.captions import picture_files
from recollect.tasks.captions.picture_files import PictureError, read_picture
from tasks.captions.cases import flat, truncated_png
from tasks.cases import photo


def test_a_picture_keeps_its_pixels_where_nothing_must_change(tmp_path):
    image = photo(size=(16, 16))
    image.save(tmp_path / "a.png")
    found, notes = read_picture(tmp_path / "a.png", 16)
    assert np.array_equal(found, np.asarray(image))
    assert found.dtype == np.uint8
    assert not notes


def test_a_picture_is_squashed_to_a_square_or_keeps_its_proportions(tmp_path):
    photo(size=(40, 20)).save(tmp_path / "a.png")
    assert read_picture(tmp_path / "a.png", 16)[0].shape == (16, 16, 3)
    assert read_picture(tmp_path / "a.png", 16, square=False)[0].shape == (8, 16, 3)
    assert read_picture(tmp_path / "a.png", 100, square=False)[0].shape == (20, 40, 3)


def sixteen_bits():
    return Image.fromarray(np.full((8, 10), 32_896, np.uint16))  # half of the scale


def see_through():
    image = flat((255, 0, 0, 255), "RGBA")
    image.paste((0, 0, 255, 0), (0, 0, 10, 4))  # the upper half is not there
    return image


def palette_with_a_hole():
    image = flat((255, 0, 0)).convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    image.info["transparency"] = image.getpixel((0, 0))
    return image


KINDS = {
    "grey": (flat(90, "L"), "png", (90, 90, 90)),
    "one bit": (flat(1, "1"), "png", (255, 255, 255)),
    "grey of 16 bits": (sixteen_bits(), "png", (128, 128, 128)),
    "CMYK": (flat((0, 255, 255, 0), "CMYK"), "tiff", (255, 0, 0)),
    "a palette whose only colour is transparent": (palette_with_a_hole(), "png", (255, 255, 255)),
    "grey that is half transparent": (flat((0, 128), "LA"), "png", (127, 127, 127)),
    "fractions": (flat(0.5, "F"), "tiff", (128, 128, 128)),
    "whole numbers of 32 bits": (flat(200, "I"), "tiff", (200, 200, 200)),
    "a bitmap": (flat((1, 2, 3)), "bmp", (1, 2, 3)),
    "webp": (flat((250, 250, 250)), "webp", (250, 250, 250)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_picture_becomes_rgb(tmp_path, kind):
    image, ending, wanted = KINDS[kind]
    image.save(tmp_path / f"a.{ending}")
    found, _ = read_picture(tmp_path / f"a.{ending}", 16)
    assert np.abs(found.reshape(-1, 3).astype(int) - wanted).max() <= 1


def test_what_is_transparent_shows_white(tmp_path):
    see_through().save(tmp_path / "a.png")
    found, _ = read_picture(tmp_path / "a.png", 8)
    assert found[0, 4].tolist() == [255, 255, 255]
    assert found[-1, 4].tolist() == [255, 0, 0]


def test_a_camera_held_upright_is_heard(tmp_path):
    image = flat((0, 0, 0), size=(20, 10))
    image.paste((255, 255, 255), (0, 0, 10, 10))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned a quarter, clockwise
    image.save(tmp_path / "a.png", exif=exif)
    assert read_picture(tmp_path / "a.png", 20, square=False)[0].shape == (20, 10, 3)
    found, _ = read_picture(tmp_path / "a.png", 8)
    assert (found[0].min(), found[-1].max()) == (255, 0), "what was left is above"


def test_an_animation_is_its_first_frame_and_says_so(tmp_path):
    frames = [flat(colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    found, notes = read_picture(tmp_path / "a.gif", 8)
    assert found[4, 4].tolist() == [255, 0, 0]
    assert notes == [f"{tmp_path / 'a.gif'}: an animation; its first frame is read"]


def broken(kind, path):
    """A file that is no picture, and what is said of it."""
    if kind == "truncated jpeg":
        photo(size=(200, 200)).save(path)
        path.write_bytes(path.read_bytes()[:3000])
    elif kind == "truncated png":
        path.write_bytes(truncated_png())
    elif kind == "a text named .jpg":
        path.write_text("It was the best of times.")
    elif kind == "nothing in it":
        path.touch()
    elif kind == "only the beginning of a header":
        path.write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    elif kind == "a folder":
        path.mkdir()
    return path


BROKEN = {
    "truncated jpeg": "found a damaged one",
    "truncated png": "found a damaged one",
    "a text named .jpg": "does not know as one",
    "nothing in it": "found an empty file",
    "only the beginning of a header": "expected a",
    "a folder": "found a folder",
    "not there": "No such file",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_is_no_picture_is_one_line_with_its_name(tmp_path, kind):
    path = broken(kind, tmp_path / "bad.jpg")
    with pytest.raises(PictureError, match=BROKEN[kind]) as raised:
        read_picture(path, 16)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("seed", range(12))
def test_bytes_that_were_tampered_with_never_leave_another_error(seed):
    """Any picture file with bytes changed is read or refused in a line."""
    draw, said = np.random.default_rng(seed), []
    for ending in ("png", "jpeg", "gif", "tiff", "webp", "bmp"):
        held = io.BytesIO()
        photo(seed, (30, 20)).save(held, ending)
        content = bytearray(held.getvalue())
        for place in draw.integers(0, len(content), size=20):
            content[place] = draw.integers(256)
        try:
            assert read_picture(bytes(content), 8)[0].shape == (8, 8, 3)
        except PictureError as error:
            said.append(str(error))
    assert all("\n" not in line for line in said)


def test_a_huge_jpeg_is_read_smaller_and_a_huge_png_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(picture_files, "MOST", 10_000)
    photo(size=(400, 200)).save(tmp_path / "a.jpg")
    photo(size=(400, 200)).save(tmp_path / "a.png")
    found, notes = read_picture(tmp_path / "a.jpg", 16)
    assert found.shape == (16, 16, 3)
    assert "very large; it is read at 100 × 50" in notes[0]
    with pytest.raises(PictureError, match="at most 10,000 pixels, found 400 × 200; make it smaller"):
        read_picture(tmp_path / "a.png", 16)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    """14,000 × 14,000 pixels of one colour are a small file."""
    flat(1, "1", (14_000, 14_000)).save(tmp_path / "a.png", compress_level=1)
    with pytest.raises(PictureError, match="expected a picture of at most 50,000,000 pixels, found far more"):
        read_picture(tmp_path / "a.png", 16)
    flat(1, "1", (9_000, 11_000)).save(tmp_path / "b.png", compress_level=1)  # where Pillow itself would only warn
    with pytest.raises(PictureError, match="found 9,000 × 11,000; make it smaller"):
        read_picture(tmp_path / "b.png", 16)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "nothing", "null"])
def test_what_is_no_file_is_no_picture(tmp_path, kind):
    path = {"device": "/dev/zero", "null": "a\0b"}.get(kind, str(tmp_path / kind))
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    with pytest.raises(PictureError, match="expected (a picture|the name of a file), found"):
        read_picture(path, 16)


def test_a_picture_that_is_a_program_is_not_run(tmp_path, monkeypatch):
    """Pillow hands EPS to Ghostscript."""
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *a, **k: pytest.fail("it was run"))
    path = tmp_path / "a.eps"
    path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n")
    with pytest.raises(PictureError, match="found something that Pillow does not know as one"):
        read_picture(path, 16)


def test_a_file_too_large_for_a_picture_is_not_read(tmp_path):
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate((1 << 29) + 1)  # takes no room
    with pytest.raises(PictureError, match="found a file of 536,870,913 bytes, more than 536,870,912"):
        read_picture(tmp_path / "large.png", 16)
