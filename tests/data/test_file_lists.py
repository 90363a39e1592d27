"""Files of a folder that are no text are skipped with a reason, never without a word."""

import gzip
from pathlib import Path

import pytest

from recollect.data import file_lists, files
from recollect.data.errors import DataError
from recollect.tasks.text import data as texts
from recollect.tasks.text.settings import DataConfig

POEM = "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
SKIPPED = {
    "latin.txt": ("À la recherche du temps perdu".encode("latin-1"), "not UTF-8, looks like latin-1"),
    "poem.txt": (POEM.encode("gb18030"), "not UTF-8, looks like GBK"),
    "wide.txt": ("a text of two bytes each".encode("utf-16"), "looks like UTF-16LE"),
    "picture.png": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "looks like a binary file"),
    "nothing.txt": (b"", "empty"),
}


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "book"
    place.mkdir()
    (place / "good.txt").write_text("one line\nand another\n" * 40)
    (place / "marked.txt").write_bytes(b"\xef\xbb\xbf" + b"one line more\n" * 20)
    (place / "packed.gz").write_bytes(gzip.compress(b"one more line\n" * 20))
    for name, (content, _) in SKIPPED.items():
        (place / name).write_bytes(content)
    return place


def test_every_file_that_is_skipped_has_its_reason(folder):
    skipped = {}
    found = files.files(folder, lambda path, reason: skipped.update({path.name: reason}))
    assert [path.name for path in found] == ["good.txt", "marked.txt", "packed.gz"]
    assert skipped.keys() == SKIPPED.keys()
    assert all(skipped[name].startswith(reason) for name, (_, reason) in SKIPPED.items())


def test_a_corpus_says_what_was_read_and_skipped(folder, tmp_path):
    found = texts.load(folder, cache=tmp_path / "cache")
    assert found.files is not None
    assert found.files.encodings == {"UTF-8": 1, "UTF-8 with a byte-order mark": 1, "UTF-8, gzip": 1}
    assert list(found.files.names) == ["good.txt", "marked.txt", "packed.gz"]
    assert len(found.files.skipped) == len(SKIPPED)
    assert any(note.startswith("5 files are skipped: latin.txt (not UTF-8") for note in found.notes)
    assert sum(found.lines.values()) in (120, 121)  # the split may fall inside a line


def test_a_folder_without_text_says_why_nothing_of_it_is_used(folder):
    for name in ("good.txt", "marked.txt", "packed.gz"):
        (folder / name).unlink()
    with pytest.raises(DataError, match=r"latin\.txt \(not UTF-8, looks like latin-1"):
        files.files(folder)


def test_names_are_relative_to_what_all_files_share(folder, tmp_path):
    (tmp_path / "other.txt").write_text("a text")
    found = file_lists.list_files([folder / "good.txt", tmp_path / "other.txt"])
    assert found.names == ("book/good.txt", "other.txt")
    assert file_lists.list_files([]).describe() == "generated"


def test_a_folder_with_files_in_another_encoding_is_read_where_that_is_named(folder, tmp_path):
    """What is UTF-8 stays it, binary files stay out."""
    found = texts.load(folder, cache=tmp_path / "cache", encoding="gb18030", tokenizer="chars")
    assert found.files is not None
    assert found.files.encodings["gb18030"] > 1  # plain ASCII is both, and read as named
    assert {"wide.txt", "picture.png", "nothing.txt"} <= {Path(each.name).name for each in found.files.skipped}
    assert "poem.txt" in found.files.names
    (folder / "poem.txt").write_text(POEM, encoding="utf-8")
    again = texts.load(folder, cache=tmp_path / "cache", encoding="gb18030", tokenizer="chars")
    assert again.fingerprint == found.fingerprint


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "utf-16", "latin-1"])
def test_a_text_in_a_named_encoding_is_the_same_data_as_in_utf8(tmp_path, encoding):
    text = ("À la recherche\r\ndu temps perdu\r\n" if encoding == "latin-1" else f"{POEM}\r\n") * 40
    here, there = tmp_path / "here" / "a.txt", tmp_path / "there" / "a.txt"
    for place, written in ((here, encoding), (there, "utf-8")):
        place.parent.mkdir()
        place.write_bytes(text.encode(written))
    found = texts.load(here, cache=tmp_path / "cache", encoding=encoding)
    assert found.fingerprint == texts.load(there, cache=tmp_path / "cache").fingerprint
    assert found.fingerprint == texts.load(there, cache=tmp_path / "cache", encoding=encoding).fingerprint
    with pytest.raises(DataError, match="expected UTF-8 text.*--encoding|looks like UTF-16LE"):
        texts.load(here, cache=tmp_path / "cache")
    assert not texts.load(here, cache=tmp_path / "cache", encoding=encoding).files.skipped


def test_wrong_encodings_are_one_line(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\xff\xff\n" * 9)
    with pytest.raises(DataError, match="expected text in gb18030, found 0xFF at about byte 3 .*name another"):
        texts.load(tmp_path / "a.txt", cache=tmp_path / "cache", encoding="gb18030")
    (tmp_path / "b.txt").write_bytes(b"o\0n\0e\0")
    with pytest.raises(DataError, match="found a NUL in .*b.txt; name another with --encoding"):
        texts.load(tmp_path / "b.txt", cache=tmp_path / "cache", encoding="latin-1")
    for settings, message in (
        ({"encoding": "hex"}, "expected the name of an encoding"),
        ({"encoding": "gb18030", "tokenizer": "bytes"}, "which are read as they are; leave it out"),
    ):
        with pytest.raises(ValueError, match=message):
            DataConfig(**settings)


@pytest.mark.parametrize(
    ("text", "encoding", "named"),
    [
        ("一片花飞减却春，\n风飘万点正愁人。\n" * 5, "utf-16-be", "utf-16be"),
        ("一片花飞减却春，\n风飘万点正愁人。\n" * 5, "utf-16-le", "utf-16le"),
        ("It’s 5 € for “déjà vu”\n", "cp1252", "cp1252"),
        ("déjà vu à l'été\n", "latin-1", "iso-8859-1"),
        ("春眠不覺曉，處處聞啼鳥\n", "big5", "big5"),
    ],
)
def test_the_encoding_that_an_error_names_reads_the_file(tmp_path, text, encoding, named):
    path = tmp_path / "text.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.raises(DataError) as caught:
        "".join(files.chunks(path, flag="--encoding"))
    assert named in str(caught.value)
    assert "".join(files.chunks(path, encoding=named)) == text
