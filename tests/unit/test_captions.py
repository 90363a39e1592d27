"""Captions: pictures read whatever they are, a CNN whose grid is a Memory, figures by hand, runs like any other."""

import gzip
import io
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import tiny
from recollect.cli import app
from recollect.core import laws
from recollect.core.contract import ContractError, Memory
from recollect.data.files import DataError
from recollect.decode import beam
from recollect.models import seq2seq
from recollect.models.size import parameters
from recollect.report import gaze as drawing
from recollect.report.drawing import figure
from recollect.tasks.captions import data as pictures
from recollect.tasks.captions import model as captioner
from recollect.tasks.captions import picture_files, scenes, sources, vision
from recollect.tasks.captions.bleu import score_captions
from recollect.tasks.captions.caption_files import Skipped, plain, read_captions
from recollect.tasks.captions.images import apply_views, box_coverage, random_views, to_floats
from recollect.tasks.captions.instruments import gaze
from recollect.tasks.captions.picture_files import PictureError, read_picture
from recollect.tasks.captions.settings import Config
from recollect.tasks.captions.task import CaptionsTask
from recollect.tasks.captions.tokens import words_of
from recollect.tasks.captions.use import caption, view
from recollect.tasks.decoding import greedy_settings, search_settings
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("RECOLLECT_DATA") or ROOT.parent / "shared" / "data")
WORDS = 9
FAMILY = {
    "fixed": {"model": "fixed"},
    "context": {"model": "context", "cell": "lstm"},
    "attend": {"model": "attend"},
    "attend, cell first": {"model": "attend", "align": "cell-first", "score": "general", "cell": "lstm"},
    "conv": {"model": "conv"},
    "transformer": {"model": "transformer", "heads": 2, "layers": 2},
}
family = pytest.mark.parametrize("settings", FAMILY.values(), ids=FAMILY)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """A few scenes, read once for the whole file."""
    return pictures.load(count=48, pixels=32, cache=tmp_path_factory.mktemp("cache"))


def photo(seed=0, size=(20, 12)):
    """An image without any sense, of width × height."""
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, size=(size[1], size[0], 3), dtype=np.uint8))


def folder_of(path, count=30, captions_file="captions.tsv", **more):
    """A folder of pictures with two captions each."""
    path.mkdir()
    lines = []
    for number in range(count):
        photo(number).save(path / f"p{number}.png")
        lines += [f"p{number}.png\tA {word} thing, number {number % 3}!" for word in ("fine", "good")]
    (path / captions_file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def configure(model="attend", data=None, **settings):
    given = {"steps": 8, "batch": 4, "warmup": 2, "save_every": 3, "eval_every": 5, "log_every": 2, "eval_images": 4}
    given |= {"channels": 8, "width": 8, "heads": 2, "beam": 2, "extra": 14}
    if data is None:
        given |= {"count": 24, "pixels": 32}
    texts = {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(CaptionsTask, texts, model=model, **({} if data is None else {"data": [str(data)]}))


# ------------------------------------------------------------------------------------------------ any picture


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


def flat(colour, mode="RGB", size=(10, 8)):
    return Image.new(mode, size, colour)


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
        held = io.BytesIO()
        photo(size=(100, 100)).save(held, "png")
        path.write_bytes(held.getvalue()[:5000])
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


# ------------------------------------------------------------------------------------------------ captions


@pytest.mark.parametrize(
    ("caption", "wanted"),
    [
        ("A child in a pink dress is climbing .", "a child in a pink dress is climbing"),
        ("Two dogs, of different breeds; looking!", "two dogs of different breeds looking"),
        ('A man\'s tri-colored "dog" - running', "a man's tri-colored dog running"),
        ("ÉTÉ à la plage…", "été à la plage"),
        ("一只狗。", "一只狗"),
        ("  ... ", ""),
        ("$5 + 3 = 8", "5 3 8"),
    ],
)
def test_a_caption_is_its_words_in_small_letters(caption, wanted):
    assert plain(caption) == wanted


def test_captions_are_read_in_each_layout(tmp_path):
    layouts = {
        "captions.tsv": "a.jpg\tOne dog .\nb.jpg\tTwo dogs .\na.jpg\tA dog\n",
        "flickr.txt": "a.jpg#0\tOne dog .\na.jpg#1\tA dog\nb.jpg#0\tTwo dogs .\n",
        "kaggle.txt": 'image,caption\na.jpg,One dog .\na.jpg,"A, dog"\nb.jpg,Two dogs .\n',
        "headed.csv": '"File name","Caption"\r\n"a.jpg","One dog ."\r\na.jpg,A dog\r\nb.jpg,Two dogs .\r\n',
        "plain.csv": "a.jpg,One dog .\na.jpg,A dog\nb.jpg,Two dogs .\n",
        "tabs.csv": "a.jpg\tOne dog .\na.jpg\tA, dog\nb.jpg\tTwo dogs .\n",
        "headed.tsv": "image\tcaption\na.jpg\tOne dog .\na.jpg\tA dog\nb.jpg\tTwo dogs .\n",
    }
    for name, text in layouts.items():
        (tmp_path / name).write_text(text)
        assert read_captions(tmp_path / name) == {"a.jpg": ["one dog", "a dog"], "b.jpg": ["two dogs"]}, name


def test_a_line_that_is_no_caption_is_named_by_its_number_in_the_file(tmp_path):
    for name, text in {
        "kaggle.txt": 'image,caption\na.jpg,"One\ndog"\nb.jpg,...\nalone\n',
        "captions.tsv": "image\tcaption\na.jpg\tOne dog\n\nb.jpg\t...\nalone\n",
    }.items():
        (tmp_path / name).write_text(text)
        left = Skipped()
        assert list(read_captions(tmp_path / name, left)) == ["a.jpg"]
        assert [told.rpartition(": ")[2] for told in left.notes()] == [f"line 4 of {name}", f"line 5 of {name}"]


def test_a_cell_that_never_ends_is_one_line(tmp_path):
    (tmp_path / "captions.csv").write_text('image,caption\na.jpg,One dog\nb.jpg,"' + "dog " * 50_000 + "\n")
    with pytest.raises(DataError, match=r"captions.csv, line 3: expected CSV"):
        read_captions(tmp_path / "captions.csv")


def test_rare_words_are_unknown():
    some = [["a dog", "a cat"], ["a dog runs"]]
    assert words_of(some, 2).words[2:] == ["a", "dog"]
    assert words_of(some).words[2:] == ["a", "dog", "cat", "runs"], "few captions: every word"
    with pytest.raises(DataError, match="at least 9 times in training, found none"):
        words_of(some, 9)


# ------------------------------------------------------------------------------------------------ a folder


def test_a_folder_is_split_by_its_pictures(tmp_path):
    folder = folder_of(tmp_path / "mine", 60)
    for copy in range(3):  # the same picture under other names
        shutil.copy(folder / "p0.png", folder / f"again{copy}.png")
        with (folder / "captions.tsv").open("a") as lines:
            lines.write(f"again{copy}.png\tthe same thing\n")
    data = pictures.load([folder], pixels=16, share=0.2)
    parts = [set(part.names) for part in (data.train, data.valid, data.test)]
    assert sum(map(len, parts)) == 63
    assert not parts[0] & parts[1]
    assert not parts[1] & parts[2]
    assert all(parts)
    alike = {"p0.png", "again0.png", "again1.png", "again2.png"}
    assert sum(bool(part & alike) for part in parts) == 1, "no picture is in two parts"
    row = data.train.names.index(next(name for name in data.train.names if name.startswith("p") and name != "p0.png"))
    name = data.train.names[row]
    assert np.array_equal(data.train.images[row], read_picture(folder / name, 16)[0])
    number = int(name[1:-4]) % 3
    assert data.train.captions[row] == [f"a fine thing number {number}", f"a good thing number {number}"]
    first = data.train.first[row]
    assert data.tokenizer.decode(data.train.tokens_of(first)) == f"a fine thing number {number}"
    assert isinstance(data.train.images.base, np.memmap) or isinstance(data.train.images, np.memmap)


def test_what_cannot_be_used_is_counted_and_named(tmp_path):
    folder = folder_of(tmp_path / "mine", 40)
    (folder / "p7.png").write_bytes(b"")
    broken("truncated png", folder / "p8.png")
    photo(99).save(folder / "lonely.png")
    frames = [flat((i, 0, 0)) for i in (1, 99)]
    frames[0].save(folder / "moving.gif", save_all=True, append_images=frames[1:])
    with (folder / "captions.tsv").open("a") as lines:
        lines.write("moving.gif\tit moves\nmissing.png\tnobody sees this\np1.png\t ...\nno tab here\n")
    notes = "\n".join(pictures.load([folder], pixels=16).notes)
    assert "2 pictures that cannot be read: p7.png (expected a picture, found an empty file), p8.png (exp" in notes
    assert "1 pictures that have captions, but are not there: missing.png" in notes
    assert "1 files without captions: lonely.png" in notes
    assert "1 captions without a word: line 83 of captions.tsv" in notes
    assert "1 lines that are no `name TAB caption`: line 84 of captions.tsv" in notes
    assert "1 an animation; its first frame is read: moving.gif" in notes


def test_the_lists_of_the_authors_split_a_folder(tmp_path):
    folder = tmp_path / "flickr"
    folder_of(folder, 12, "Flickr8k.token.txt")
    for split, numbers in (("train", range(8)), ("dev", (8, 9)), ("test", (10,))):
        (folder / f"Flickr_8k.{split}Images.txt").write_text("".join(f"p{n}.png\n" for n in numbers))
    data = pictures.load([folder], pixels=16)
    assert [len(part) for part in (data.train, data.valid, data.test)] == [8, 2, 1]
    assert set(data.valid.names) == {"p8.png", "p9.png"}
    assert any("1 pictures that are in none of the lists: p11.png" in note for note in data.notes)


def test_pictures_may_lie_in_folders_of_the_folder(tmp_path):
    folder = folder_of(tmp_path / "mine", 30)
    (folder / "Images").mkdir()
    for path in folder.glob("*.png"):
        path.rename(folder / "Images" / path.name)
    assert len(pictures.load([folder], pixels=16).train) > 15


def test_pictures_are_read_once_and_again_when_one_changes(tmp_path, monkeypatch):
    folder = folder_of(tmp_path / "mine", 30)
    first = pictures.load([folder], pixels=16)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "read_picture", lambda *_, **__: pytest.fail("read again"))
        second = pictures.load([folder], pixels=16)
    assert second.fingerprint == first.fingerprint
    assert np.array_equal(second.train.images, first.train.images)
    assert second.notes == first.notes
    name = first.train.names[0]
    photo(500).save(folder / name)
    third = pictures.load([folder], pixels=16)
    assert third.fingerprint != first.fingerprint
    parts = [part for part in (third.train, third.valid, third.test) if name in part.names]
    assert np.array_equal(parts[0].images[parts[0].names.index(name)], read_picture(folder / name, 16)[0])
    for cached in Path(os.environ["RECOLLECT_CACHE"]).rglob("pictures-train-*.bin"):
        cached.write_bytes(cached.read_bytes()[:-5])
    again = pictures.load([folder], pixels=16)
    assert again.fingerprint == third.fingerprint, "what was damaged is made anew"


def test_the_fingerprint_does_not_depend_on_where_the_folder_lies(tmp_path):
    folder = folder_of(tmp_path / "mine", 30)
    first = pictures.load([folder], pixels=16).fingerprint
    shutil.move(folder, tmp_path / "moved")
    assert pictures.load([tmp_path / "moved"], pixels=16).fingerprint == first
    assert pictures.load([tmp_path / "moved"], pixels=20).fingerprint != first


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "expected a folder of pictures, flickr8k or shapes, found none"),
        (lambda path: path.touch(), "found a file at"),
        (lambda path: path.mkdir(), "expected captions in .* found none; write a line `name TAB caption`"),
        (
            lambda path: (path.mkdir(), (path / "captions.tsv").write_text("a.png\ta dog\n")),
            "expected captions that name pictures, found such as 'a.png', which is not in",
        ),
        (
            lambda path: (path.mkdir(), (path / "captions.tsv").write_text("nothing\n")),
            "expected captions that name pictures, found none that can be used",
        ),
        (
            lambda path: (folder_of(path, 3), [picture.write_bytes(b"x") for picture in path.glob("*.png")]),
            "expected pictures for the train part of mine, found none .*3 pictures that cannot be read: p0.png",
        ),
        (lambda path: folder_of(path, 1), "expected pictures for the .* part of mine, found none .1 pictures in all"),
    ],
)
def test_a_folder_that_is_none_is_one_line(tmp_path, prepare, message):
    prepare(tmp_path / "mine")
    with pytest.raises(DataError, match=message) as raised:
        pictures.load([tmp_path / "mine"], pixels=16)
    assert "\n" not in str(raised.value)


def test_long_captions_are_left_out_of_training_alone(tmp_path):
    folder = folder_of(tmp_path / "mine", 40)
    with (folder / "captions.tsv").open("a") as lines:
        for number in range(40):
            lines.write(f"p{number}.png\t{'very ' * 10} long\n")
    data = pictures.load([folder], pixels=16, longest=6)
    assert all(len(some) == 2 for some in data.train.captions)
    assert all(len(some) == 3 for some in data.valid.captions)
    assert any("captions of more than 6 words are left out" in note for note in data.notes)


def test_scenes_come_with_boxes_and_the_words_that_name_them(shapes):
    part = shapes.valid
    scene = scenes.scene("valid", 2, pixels=32)
    assert np.array_equal(part.images[2], scene.image)
    assert part.captions[2] == list(scene.captions)
    assert part.boxes[2].tolist() == [list(thing.box) for thing in scene.things]
    assert part.named_of(part.first[2] + 1).tolist() == list(scene.named[1])
    assert not part.held_out.any()
    assert shapes.test.held_out.sum() == len(shapes.test) // 2
    assert not shapes.mirrored


@pytest.mark.skipif(not (SHARED / "flickr8k").is_dir(), reason="needs the shared data")
@pytest.mark.slow
def test_flickr8k_is_what_its_authors_say(tmp_path):
    data = pictures.load(["flickr8k"], data_dir=SHARED)
    assert (len(data.train), len(data.valid), data.test) == (6000, 1000, None)
    assert data.train.images.shape == (6000, 96, 96, 3)
    assert {len(some) for some in data.valid.captions} <= {4, 5}
    assert data.mirrored
    raw = gzip.decompress((SHARED / "flickr8k" / "Flickr8k.token.txt.gz").read_bytes()).decode()
    name = data.valid.names[0]
    lines = [line.partition("\t")[2] for line in raw.split("\n") if line.startswith(name)]
    assert data.valid.captions[0] == [plain(line) for line in lines]


# ------------------------------------------------------------------------------------------------ the CNN


def look(pixels=32, **settings):
    torch.manual_seed(0)
    return vision.Config(pixels=pixels, channels=8, **settings).build().double().eval()


@pytest.mark.parametrize(("pixels", "grid"), [(96, 6), (48, 6), (64, 8), (32, 8), (224, 7), (100, 7), (16, 8)])
def test_a_picture_becomes_a_grid_of_at_most_8_cells_a_side(pixels, grid):
    model = look(pixels)
    memory = model(torch.rand(2, 3, pixels, pixels, dtype=torch.float64))
    assert memory.shape == (grid, grid)
    assert memory.values.shape == (2, grid**2, model.width)
    assert model.cells() == grid**2
    assert bool(memory.valid.all())
    assert memory.summary is None


def test_a_grid_need_not_be_square():
    assert look()(torch.rand(1, 3, 32, 48, dtype=torch.float64)).shape == (8, 12)


def test_a_picture_is_seen_the_same_whoever_stands_beside_it():
    """In training too: norms are over a picture's own channels."""
    model = look(self_attention=True).train()
    images = torch.rand(4, 3, 32, 32, dtype=torch.float64)
    together = model(images).values
    for row in range(4):
        assert torch.allclose(model(images[row : row + 1]).values[0], together[row], atol=1e-12)


def test_cells_lie_in_the_order_of_the_picture():
    """What a cell holds depends most on the pixels of its own corner."""
    model = look()
    images = torch.rand(1, 3, 32, 32, dtype=torch.float64, requires_grad=True)
    values = model(images).values.view(8, 8, -1)
    for row, column in ((0, 7), (7, 0), (2, 5)):
        (found,) = torch.autograd.grad(values[row, column].square().sum(), images, retain_graph=True)
        blocks = torch.nn.functional.avg_pool2d(found.abs().sum(dim=1), 4)[0]
        assert divmod(int(blocks.argmax()), 8) == (row, column)


def test_each_cell_is_told_its_row_and_column():
    found = vision.places(3, 4, 8, torch.zeros(1, dtype=torch.float64)).view(3, 4, 8)
    assert torch.equal(found[0, :, :4], found[0, :1, :4].expand(4, -1)), "a row's cells share the first half"
    assert torch.equal(found[:, 0, 4:], found[:1, 0, 4:].expand(3, -1))
    assert len({tuple(cell.tolist()) for cell in found.flatten(0, 1)}) == 12


def test_self_attention_begins_as_nothing_and_ends_as_its_definition():
    torch.manual_seed(0)
    block = vision.SelfAttention(16).double()
    x = torch.randn(2, 16, 3, 4, dtype=torch.float64)
    assert torch.equal(block(x), x)
    with torch.no_grad():
        block.gate.fill_(0.7)
    cells = x.flatten(2).mT  # B S C
    q, k, v = (cells @ layer.weight[:, :, 0, 0].mT + layer.bias for layer in (block.query, block.key, block.value))
    wanted = torch.empty_like(cells)
    for row in range(2):
        for place in range(12):
            scores = torch.stack([q[row, place] @ k[row, other] for other in range(12)])
            share = scores.exp() / scores.exp().sum()
            wanted[row, place] = cells[row, place] + 0.7 * sum(share[other] * v[row, other] for other in range(12))
    assert torch.allclose(block(x).flatten(2).mT, wanted)


def test_self_attention_stands_where_the_grid_is_twice_as_fine():
    model = look(48, self_attention=True)
    sizes = {}
    attention = next(module for module in model.modules() if isinstance(module, vision.SelfAttention))
    attention.register_forward_hook(lambda module, given, _: sizes.update(grid=given[0].shape[2:]))
    assert model(torch.rand(1, 3, 48, 48, dtype=torch.float64)).shape == (6, 6)
    assert tuple(sizes["grid"]) == (12, 12)


def test_flops_are_those_of_the_products():
    """Two for each weight at each place that a convolution writes, and for each pair of cells."""
    model, counts = look(48, self_attention=True, blocks=2), []

    def count(module, given, made):
        counts.append(2 * made.numel() * module.weight[0].numel())

    for module in model.modules():
        if isinstance(module, torch.nn.Conv2d):
            module.register_forward_hook(count)
    model(torch.rand(2, 3, 48, 48, dtype=torch.float64))
    pairs = 2 * 2 * 144**2 * (16 // 8 + 16)  # over a grid of 12 × 12 with 16 channels
    assert model.flops(2) == sum(counts) + pairs


@pytest.mark.parametrize(
    "images",
    [
        torch.zeros(2, 32, 32, 3),
        torch.zeros(3, 32, 32),
        torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(1, 3, 1, 9),
    ],
)
def test_what_is_no_picture_for_a_cnn_is_one_line(images):
    with pytest.raises(ContractError, match="expected pictures as numbers from 0 to 1 of shape"):
        vision.Config(channels=8).build()(images)


def test_settings_that_do_not_fit_a_picture_are_one_line():
    with pytest.raises(ContractError, match="expected channels to be a multiple of 8, found 12"):
        captioner.Config(words=5, channels=12)
    with pytest.raises(ContractError, match="expected gist=mean, since a picture has no last state, found gist=last"):
        captioner.Config(words=5, gist="last")
    with pytest.raises(ContractError, match="found share=all"):
        captioner.Config(words=5, share="all")


# ------------------------------------------------------------------------------------------------ the family


def build(settings, **more):
    torch.manual_seed(0)
    given = {"words": WORDS, "pixels": 32, "channels": 8, "width": 8, "dropout": 0.1}
    return captioner.Config(**given | settings | more).build().double().eval()


def seen(rows=3):
    return torch.rand(rows, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@family
def test_every_decoder_obeys_the_laws_over_a_picture(settings):
    model = build(settings)
    laws.check(model, torch.randint(WORDS, (3, 6)), model.encode(seen()))


@family
def test_every_weight_gets_a_gradient(settings):
    model = build(settings, self_attention=True)
    for module in model.modules():
        if isinstance(module, vision.SelfAttention):
            torch.nn.init.ones_(module.gate)  # at 0 nothing behind it learns yet
        if isinstance(module, vision.Residual):
            torch.nn.init.ones_(module.norm_second.weight)
    model(torch.randint(WORDS, (3, 5)), memory=model.encode(seen()))[0].square().sum().backward()
    # a key's bias shifts all scores alike, and a softmax does not see that
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle


@family
def test_a_decoder_does_not_know_that_it_reads_a_picture(settings):
    """The translator's own decoder, with a captioner's weights, writes what the captioner writes."""
    model = build(settings)
    config = seq2seq.Config(
        source=7, target=WORDS, width=8, gist="mean", dropout=0.1, **{"align": "cell-first"} | settings
    )
    reader = seq2seq.Decoder(config, WORDS, model.eye.width).double().eval()
    reader.load_state_dict({name: w for name, w in model.state_dict().items() if not name.startswith("eye.")})
    x, memory = torch.randint(WORDS, (3, 5)), model.encode(seen())
    written = model(x, memory=memory)[0]
    assert torch.equal(reader(x, memory=memory)[0], written)
    order = torch.randperm(memory.values.shape[1])
    turned = memory._replace(values=memory.values[:, order], shape=None)
    assert torch.allclose(reader(x, memory=turned)[0], written), "a Memory is a set: where a cell lies, it says itself"


@pytest.mark.parametrize("name", [name for name in FAMILY if name not in ("fixed", "context")])
def test_a_model_that_looks_says_where(name):
    model = build(FAMILY[name])
    memory = model.encode(seen())
    found = model.explain(model.initial_state(3, memory=memory), torch.randint(WORDS, (3,)))["source"]
    assert found.shape == (3, 64)
    assert torch.allclose(found.sum(dim=1), torch.ones(3, dtype=torch.float64))


def test_the_width_is_solved_for_the_parameters():
    config = captioner.Config(words=500, channels=8, pixels=48).sized(150_000)
    assert parameters(config.build()) == pytest.approx(150_000, rel=0.05)


def test_lengths_make_no_sense_for_pictures():
    with pytest.raises(ContractError, match="found lengths with them"):
        build({}).encode(seen(), torch.tensor([1, 2, 3]))


@family
def test_beam_search_writes_captions_as_exhaustive_search_does(settings):
    """The best of all texts of at most 3 words, with the model's own log p; for a beam as wide as all of them."""
    model = build(settings, words=4)
    memory = model.encode(seen(2))
    begin, end = 2, 3
    found = beam.search(
        model, memory, begin=begin, end=end, banned=(begin,),
        config=beam.Config(beam=30, ratio=0.0, extra=3, length_penalty=0.0),
    )  # fmt: skip
    texts = [[]] + [[a] for a in (0, 1)] + [[a, b] for a in (0, 1) for b in (0, 1)]
    for row in range(2):
        one = memory._replace(values=memory.values[row : row + 1], valid=memory.valid[row : row + 1])
        scored = []
        for text in texts:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[begin, *text]]), memory=one)
            steps = logits[0].log_softmax(dim=-1)
            scored.append((float(sum(steps[i, token] for i, token in enumerate([*text, end]))), text))
        best = max(scored)
        assert found[row][0].tokens == best[1]
        assert found[row][0].logprob == pytest.approx(best[0])


# ------------------------------------------------------------------------------------------------ the task


def test_a_batch_is_its_number(shapes):
    task = CaptionsTask(Config(batch=5), shapes)
    run = task.batches("train", seed=3)
    first = [next(run) for _ in range(25)]
    for number in (0, 8, 9, 10, 24):
        other = next(task.batches("train", seed=3, start=number))
        assert other.number == first[number].number == number
        assert all(torch.equal(a, b) for a, b in zip(first[number][:4], other[:4], strict=True))
    assert not torch.equal(first[0].images, next(task.batches("train", seed=4)).images)


def test_an_epoch_shows_each_picture_once_with_one_of_its_captions(shapes):
    task = CaptionsTask(Config(batch=4), shapes)
    part, side = shapes.train, shapes.tokenizer
    rows = {image.tobytes(): row for row, image in enumerate(part.images)}
    run, met, chosen = task.batches("train", seed=0), [], set()
    for _ in range(12):
        batch = next(run)
        for image, x, y in zip(batch.images, batch.x, batch.y, strict=True):
            row = rows[image.numpy().tobytes()]
            met.append(row)
            text = side.decode(y.tolist())
            chosen.add(part.captions[row].index(text))
            assert x[0] == side.begin
            assert torch.equal(x[1:][x[1:] != side.pad], y[: len(text.split())])
            assert side.end in y.tolist()
    assert sorted(met) == list(range(48))
    assert chosen == {0, 1}


def test_lengths_are_rounded_up_where_asked(shapes):
    plain, rounded = (CaptionsTask(Config(batch=4, grain=grain), shapes) for grain in (1, 8))
    a, b = next(plain.batches("train", 0)), next(rounded.batches("train", 0))
    assert b.x.shape[1] % 8 == 0
    assert a.tokens == b.tokens
    model = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8, dropout=0.0).build()
    first, second = plain.loss(model, a).value.item(), rounded.loss(model, b).value.item()
    assert first == pytest.approx(second, rel=1e-5)


def test_scenes_are_never_mirrored_and_photographs_are(shapes, tmp_path):
    assert not CaptionsTask(Config(), shapes).flip
    photos = pictures.load([folder_of(tmp_path / "mine")], pixels=16)
    task = CaptionsTask(Config(), photos)
    assert task.flip
    assert task.crop > 0
    assert not CaptionsTask(Config(flip=False, crop=0.0), photos).flip


def test_a_view_is_the_whole_its_mirror_or_a_part():
    image = torch.arange(16.0).view(1, 1, 4, 4).expand(1, 3, 4, 4) / 16
    whole = torch.tensor([[[1.0, 0, 0], [0, 1, 0]]])
    assert torch.allclose(apply_views(image, whole), image, atol=1e-6)
    mirror = torch.tensor([[[-1.0, 0, 0], [0, 1, 0]]])
    assert torch.allclose(apply_views(image, mirror), image.flip(-1), atol=1e-6)
    corner = torch.tensor([[[0.5, 0, -0.5], [0, 0.5, -0.5]]])  # the upper left quarter
    assert apply_views(image, corner).max() <= image[..., :3, :3].max()
    drawn = random_views(np.random.default_rng(0), 500, True, 0.2)
    size = np.abs(drawn[:, [0, 1], [0, 1]])
    assert size.min() >= 0.8
    assert size.max() <= 1
    assert (np.abs(drawn[:, :, 2]) + size <= 1 + 1e-6).all(), "a part lies inside the picture"
    assert 0.4 < (drawn[:, 0, 0] < 0).mean() < 0.6


def test_the_share_of_a_cell_that_lies_in_a_box():
    found = box_coverage((0, 0, 3, 4), (2, 2), 8).reshape(2, 2)
    assert found.tolist() == [[0.75, 0], [0, 0]]
    assert box_coverage((2, 2, 6, 6), (2, 2), 8).tolist() == [0.25] * 4
    assert box_coverage((0, 0, 8, 8), (3, 5), 8) == pytest.approx(np.ones(15))
    wide = box_coverage((4, 0, 8, 2), (2, 4), 8).reshape(2, 4)
    assert wide.tolist() == [[0, 0, 0.5, 0.5], [0, 0, 0, 0]], "rows first"


def test_bleu_is_that_of_papers_over_all_references():
    """By hand: 'a b c d' against two references, clipped counts over both, the length of the nearer one."""
    found = score_captions(["a b c d"], [["a b x c d", "b c"]])
    one, two, three = 4 / 4, (1 + 1 + 1) / 3, 0 / 2
    assert found["bleu1"] == pytest.approx(100 * one * np.exp(1 - 5 / 4))
    assert found["bleu2"] == pytest.approx(100 * (one * two) ** 0.5 * np.exp(1 - 5 / 4))
    assert found["bleu4"] == three == 0
    assert found["exact"] == 0
    both = score_captions(["a b c d", "e f g h"], [["a b c d"], ["e f g h", "another one"]])
    assert both["bleu4"] == pytest.approx(100)
    assert both["exact"] == 1


def test_captions_without_blanks_are_compared_by_characters(tmp_path):
    folder = folder_of(tmp_path / "mine", 20)
    lines = [f"p{number}.png\t一只{'黑白'[number % 2]}狗在草地上跑。" for number in range(20)]
    (folder / "captions.tsv").write_text("\n".join(lines), encoding="utf-8")
    data = pictures.load([folder], pixels=16)
    assert data.tokenizer.decode(data.train.tokens_of(0)) == data.train.captions[0][0]
    task = CaptionsTask(Config(), data)
    found = task.scores(["一只黑狗在草地上跑"], [["一只白狗在草地上跑"]])
    assert found["bleu1"] == pytest.approx(100 * 8 / 9)
    assert found["exact"] == 0
    assert task.constant("valid")["bleu4"] > 50


def test_shuffled_captions_are_those_of_other_pictures(shapes, monkeypatch):
    """A model that knows the truth is right on its own pictures and on none of the others."""
    task = CaptionsTask(Config(batch=4), shapes)
    part = shapes.test
    known = [[beam.Hypothesis(part.tokens_of(first).tolist(), 0.0, 0.0, True)] for first in part.first[:-1]]
    monkeypatch.setattr(task, "hypotheses", lambda *_: known)
    found = task.described(None, "test", greedy_settings(task.config))
    assert found["exact"] == 1
    assert found["bleu"] == pytest.approx(100)
    assert found["shuffled"]["exact"] == 0
    assert found["shuffled"]["bleu"] < 60
    assert found["exact_by"] == {"seen": {"exact": 1, "images": 2}, "held out": {"exact": 1, "images": 2}}


def test_references_are_all_forced_once(shapes):
    task = CaptionsTask(Config(batch=3), shapes)
    model = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8).build().eval()
    found = task.forced(model, "valid")
    part = shapes.valid
    assert found["tokens"] == len(part.tokens) + len(part.offsets) - 1
    total = 0.0
    for row in range(len(part)):
        memory = model.encode(to_floats(torch.from_numpy(part.images[row].copy())[None], model))
        for number in range(part.first[row], part.first[row + 1]):
            ids = part.tokens_of(number).tolist()
            logits, _ = model(torch.tensor([[shapes.tokenizer.begin, *ids]]), memory=memory)
            wanted = torch.tensor([*ids, shapes.tokenizer.end])
            total -= logits[0].log_softmax(-1)[torch.arange(len(wanted)), wanted].sum().item()
    assert found["nats_per_token"] == pytest.approx(total / found["tokens"], rel=1e-5)


def test_baselines_are_the_frequencies_of_the_training_words(shapes):
    task = CaptionsTask(Config(), shapes)
    counts = np.ones(shapes.tokenizer.size)
    for token in [*shapes.train.tokens, *[shapes.tokenizer.end] * (len(shapes.train.offsets) - 1)]:
        counts[token] += 1
    asked = [*shapes.valid.tokens, *[shapes.tokenizer.end] * (len(shapes.valid.offsets) - 1)]
    found = task.baselines("valid")
    assert found["unigram"] == pytest.approx(float(np.mean(-np.log(counts[asked] / counts.sum()))))
    assert found["uniform"] == pytest.approx(np.log(shapes.tokenizer.size))


def test_one_caption_for_all_is_a_training_caption(shapes):
    task = CaptionsTask(Config(), shapes)
    found = task.constant("valid")
    assert any(found["caption"] in some for some in shapes.train.captions)
    assert found == score_captions([found["caption"]] * len(shapes.valid), shapes.valid.captions) | {
        "caption": found["caption"]
    }


class Pointer(torch.nn.Module):
    """Looks at the cell in the middle of the box that it is told to, whatever the words."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def like(self):
        return torch.zeros(1)

    def encode(self, images):
        cells = torch.zeros(len(images), 16, 1)
        return Memory(cells, torch.ones(len(images), 16, dtype=torch.bool), None, (4, 4))

    def initial_state(self, batch, memory=None):
        return torch.zeros(batch)

    def explain(self, state, x):
        weights = torch.nn.functional.one_hot(torch.tensor([[self.cell]]), 16).float()
        return {"0.source": weights, "source": weights[:, 0]}

    def forward(self, x, state):
        return torch.zeros(1, 1, 3), state


def test_the_gaze_on_a_box_is_measured_against_its_area(shapes):
    task = CaptionsTask(Config(), shapes)
    found = task.gaze(Pointer(5), "valid")
    part, wanted = shapes.valid, {"named": [], "other": [], "even": []}
    for row in range(len(part)):
        for thing in part.named_of(part.first[row]).tolist():
            if thing >= 0:
                covers = [box_coverage(box, (4, 4), 32) for box in part.boxes[row]]
                wanted["named"].append(covers[thing][5])
                wanted["other"].append(covers[1 - thing][5])
                left, top, right, bottom = part.boxes[row][thing]
                wanted["even"].append((right - left) * (bottom - top) / 32**2)
    assert found["words"] == 6 * len(part)
    for name, values in wanted.items():
        assert found[name] == pytest.approx(np.mean(values)), name
    blind = captioner.Config(words=shapes.tokenizer.size, pixels=32, channels=8, width=8, model="fixed").build().eval()
    assert task.gaze(blind, "valid") is None


# ------------------------------------------------------------------------------------------------ runs


@pytest.mark.parametrize("model", ["attend", "fixed", "transformer"])
def test_a_resumed_run_equals_the_uninterrupted_one(tmp_path, monkeypatch, model):
    run = configure(model, self_attention="true", flip="true", crop=0.1, smoothing=0.1)
    runs.train(CaptionsTask, run, str(tmp_path / "whole"))
    tiny.train_until(CaptionsTask, run, tmp_path / "resumed", 3, monkeypatch)
    runs.resume(str(tmp_path / "resumed"))
    assert tiny.outcome(RunFolder(tmp_path / "resumed")) == tiny.outcome(RunFolder(tmp_path / "whole"))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on a few scenes, hardly trained."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        runs.train(CaptionsTask, configure("attend"), str(place / "run"))
    return place / "run"


def test_a_run_is_measured_beside_its_baselines(run):
    found = runs.evaluate(str(run), split="test")
    assert found["metric"]["name"] == "exact"
    assert "one of the true captions" in found["metric"]["rule"]
    assert set(found["described"]["exact_by"]) == {"seen", "held out"}
    assert set(found["gaze"]) == {"named", "other", "even", "best", "words"}
    columns, rows, below = CaptionsTask.table(found)
    assert len(rows) == 3
    assert all(len(row) == len(columns) for row in rows)
    assert any("attention on the box" in line for line in below)
    row = runs.result(str(run), split="valid", device="cpu")
    assert row["task"] == "captions"
    assert row["state_bytes"] > 0
    json.dumps(row)


def test_a_run_keeps_the_laws(run):
    errors = runs.verify(str(run))
    assert set(errors) >= {"chunk", "row", "size"}


def test_a_run_is_measured_on_a_folder_as_a_whole(run, tmp_path):
    folder = folder_of(tmp_path / "mine", 6)
    found = runs.evaluate(str(run), split="valid", data=[str(folder)])
    assert found["described"]["images"] == 6
    assert found["metric"]["name"] == "bleu"
    assert found["gaze"] is None


@pytest.mark.parametrize("model", ["attend", "fixed"])
def test_a_folder_is_trained_on_and_its_place_is_kept(tmp_path, monkeypatch, model):
    folder_of(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    found = runs.train(CaptionsTask, configure(model, "mine", pixels=16), str(tmp_path / "run"))
    assert "BLEU-4" in CaptionsTask.headline(found)
    config = RunFolder.open(tmp_path / "run").config()
    assert config["data"]["data"] == [str(tmp_path / "mine")]
    assert config["data"]["pixels"] == 16
    assert config["captions"]["flip"] is True
    assert config["captions"]["crop"] == 0.15
    assert config["model"]["gist"] == ("mean" if model == "fixed" else None)


def test_files_are_described_in_order(run, tmp_path):
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(scenes.scene("test", number, pixels=32).image).save(files[-1])
    used = runs.load(run)
    found = list(caption(used, files, search_settings(used.config.task, nbest=2)))
    assert [one.file for one in found] == [str(file) for file in files]
    assert all(len(one.texts) == 2 and one.found[0].score >= one.found[1].score for one in found)
    alone = next(caption(used, files[2:]))
    assert alone.texts[0] == found[2].texts[0], "whoever stands beside it"
    assert "<unk>" not in found[0].texts[0]


def test_the_command_takes_the_beam_that_it_is_given(run, tmp_path):
    file = tmp_path / "a.png"
    Image.fromarray(scenes.scene("test", 0, pixels=32).image).save(file)
    words = ["caption", str(run), str(file)]
    wide = CliRunner().invoke(app, [*words, "--nbest", "7"])  # more than its own beam, which then widens
    assert len(wide.stdout.splitlines()) == 7
    for flags, message in ((["--beam", "0"], "beam to be"), (["--beam", "1", "--nbest", "2"], "nbest of at most beam")):
        assert message in str(CliRunner().invoke(app, [*words, *flags]).exception)


def test_a_file_that_is_no_picture_stops_the_describing_in_a_line(run, tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    with pytest.raises(DataError, match=r"a\.jpg: expected a picture, found something that Pillow does not know"):
        list(caption(runs.load(run), [tmp_path / "a.jpg"]))


def test_a_damaged_or_missing_vocabulary_is_one_line(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    for content, message in ((b"{}", "expected format 1"), (b"[", "expected JSON in"), (None, "expected this file")):
        (copy / "tokenizer.json").unlink(missing_ok=True)
        if content is not None:
            (copy / "tokenizer.json").write_bytes(content)
        with pytest.raises((DataError, RunError), match=message):
            runs.load(copy)


# ------------------------------------------------------------------------------------------------ the gaze


@pytest.mark.parametrize("model", ["attend", "transformer", "fixed", "context"])
def test_every_model_says_where_each_word_came_from(tmp_path, model):
    runs.train(CaptionsTask, configure(model, steps=2, extra=5), str(tmp_path / "run"))
    used = runs.load(tmp_path / "run")
    file = tmp_path / "a.png"
    Image.fromarray(scenes.scene("test", 0, pixels=32).image).resize((64, 40)).save(file)
    (one,) = caption(used, [file])
    found = gaze(used, one.image, one.found[0])
    steps = len(one.found[0].tokens) + 1
    assert found.weights.shape == (steps, 8, 8)
    assert len(found.words) == steps
    assert found.words[-1] == "<end>"
    assert torch.allclose(found.weights.sum(dim=(1, 2)), torch.ones(steps), atol=1e-5)
    assert ("gradient" in found.kind) == (model in ("fixed", "context"))
    left = torch.from_numpy(box_coverage((0, 0, 16, 32), (8, 8), 32)).float()
    half = found.weights.flatten(1) @ left
    assert torch.allclose(half, found.weights[:, :, :4].sum(dim=(1, 2)), atol=1e-5)
    for ending in figure.FORMATS if model == "attend" else (".png",):
        drawing.draw(view(file), found.words, found.weights.tolist(), str(tmp_path / f"map{ending}"), found.kind)
        assert (tmp_path / f"map{ending}").stat().st_size > 1000
    if model == "transformer":
        assert gaze(used, one.image, one.found[0], layer=1, head=2).kind == "attention, layer 1 head 2"
        with pytest.raises(ContractError, match="found layer 5;"):
            gaze(used, one.image, one.found[0], layer=5)


def test_a_panel_is_clear_where_it_was_looked_at():
    found = drawing.veil(np.array([[0.5, 0.25], [0.25, 0.0]]))
    assert found[..., 3].tolist() == [[0, drawing.VEIL / 2], [drawing.VEIL / 2, drawing.VEIL]]
    assert (drawing.veil(np.zeros((2, 2)))[..., 3] == drawing.VEIL).all()


def test_the_words_of_a_map_are_text_and_no_mathematics(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    drawing.draw(picture, ["$5", "a_b", "dog"], np.full((3, 2, 2), 0.25), str(tmp_path / "a.svg"), "where")
    text = (tmp_path / "a.svg").read_text()
    assert "$5" in text
    assert "a_b" in text
    assert text.count("<image") == 4, "the picture, and one panel a word"


def test_a_map_that_cannot_be_drawn_is_one_line(tmp_path):
    picture = np.zeros((20, 30, 3), np.uint8)
    with pytest.raises(figure.FigureError, match="expected a figure that ends in"):
        drawing.draw(picture, ["dog"], np.ones((1, 2, 2)), str(tmp_path / "a.gif"))
    with pytest.raises(figure.FigureError, match="expected a grid of weights for each of 2 words, found shape"):
        drawing.draw(picture, ["a", "dog"], np.ones((1, 2, 2)), str(tmp_path / "a.png"))
