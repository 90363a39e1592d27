"""Folders of pictures and rendered scenes as data."""

import gzip
import shutil

import numpy as np
import pytest

from recollect.data.files import DataError
from recollect.tasks.captions import data as pictures
from recollect.tasks.captions import scenes
from recollect.tasks.captions.caption_files import plain
from recollect.tasks.captions.picture_files import read_picture
from shared_data import DATA, needs
from tasks.captions.cases import flat, truncated_png
from tasks.cases import folder_of, photo


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
    (folder / "p8.png").write_bytes(truncated_png())
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


@pytest.mark.slow
def test_flickr8k_is_what_its_authors_say(tmp_path):
    needs("flickr8k")
    data = pictures.load(["flickr8k"], data_dir=DATA)
    assert (len(data.train), len(data.valid), data.test) == (6000, 1000, None)
    assert data.train.images.shape == (6000, 96, 96, 3)
    assert {len(some) for some in data.valid.captions} <= {4, 5}
    assert data.mirrored
    raw = gzip.decompress((DATA / "flickr8k" / "Flickr8k.token.txt.gz").read_bytes()).decode()
    name = data.valid.names[0]
    lines = [line.partition("\t")[2] for line in raw.split("\n") if line.startswith(name)]
    assert data.valid.captions[0] == [plain(line) for line in lines]


def test_ordered_scenes_are_described_once_the_left_or_upper_thing_first(tmp_path):
    both, once = (pictures.load(count=24, pixels=32, ordered=flag, cache=tmp_path) for flag in (False, True))
    assert [some[:1] for some in both.train.captions] == once.train.captions
    assert np.array_equal(both.train.images, once.train.images)
    for row in range(len(once.train)):
        named = once.train.named_of(row).tolist()
        assert [thing for thing in named if thing >= 0] == [0, 0, 0, 1, 1, 1]
    assert both.fingerprint != once.fingerprint
