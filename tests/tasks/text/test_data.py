"""A corpus: splits, vocabularies, caches. Hostile files are in tests/faults/test_bad_text.py."""

import gzip
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.data import tokenizers
from recollect.data.cache import hash_json
from recollect.data.files import DataError, Text, chunks, files, only_letters, rechunk
from recollect.data.tokenizers.base import smallest
from recollect.tasks.text import data as corpus
from recollect.tasks.text.data import load
from shared_data import DATA, needs

KINDS = ("chars", "chars+bytes", "bytes", "words", "bpe")
ENGLISH = "the cat sat on the mat ,\nthe dog did not .\n\n" * 30
CHINESE = "床前明月光，疑是地上霜。\n舉頭望明月，低頭思故鄉。\n" * 30


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def decoded(found, split):
    return found.tokenizer.decode(np.asarray(getattr(found, split)))


# ------------------------------------------------------------------------------------------------ reading


@settings(max_examples=60)
@given(st.text(alphabet="a\r\n中🙂é\ufeff", max_size=40).filter(bool), st.integers(1, 9), st.booleans(), st.booleans())
@example("\r\n", 1, False, False)
@example("\r", 1, True, True)
def test_chunks_join_to_the_text_whatever_their_size(tmp_path_factory, text, size, mark, packed):
    path = tmp_path_factory.mktemp("text") / "a.txt"
    data = (b"\xef\xbb\xbf" if mark or text.startswith("\ufeff") else b"") + text.encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    assert "".join(chunks(path, size)) == text.replace("\r\n", "\n")
    assert max(map(len, chunks(path, size))) <= size + 4


def test_lines_end_at_newlines_alone(write):
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh\n"
    path = write("a.txt", text)
    assert "".join(chunks(path)) == text
    found = load([path], tokenizer="words", valid=[path])
    assert np.count_nonzero(np.asarray(found.train) == 1) == 1


def test_a_folder_gives_its_text_files_in_order(tmp_path, write):
    for name in ("b.txt", "a/z.md", "a/y.txt", "c.gz", ".hidden", ".git/config", "empty.txt", "pic.bin", "wide.txt"):
        write(f"in/{name}", "text\n")
    write("in/c.gz", gzip.compress(b"packed\n"))
    write("in/empty.txt", b"")
    write("in/pic.bin", b"\x89PNG\x00\x00")
    write("in/wide.txt", "wide".encode("utf-16"))
    # a character that ends beyond the block by which a file is judged
    write("in/long.txt", "x" * ((1 << 16) - 1) + "中" * 9)
    names = [path.relative_to(tmp_path / "in").as_posix() for path in files([tmp_path / "in"])]
    assert names == ["a/y.txt", "a/z.md", "b.txt", "c.gz", "long.txt"]
    b = tmp_path / "in" / "b.txt"
    assert files([b, tmp_path / "in", b])[0] == b
    assert len(files([b, tmp_path / "in", b])) == 5
    assert files(str(b)) == [b]


@pytest.mark.parametrize("start", [0, 3, 7, 20])
@pytest.mark.parametrize("stop", [None, 0, 5, 9, 30])
def test_a_part_of_a_text_is_that_slice_of_it(write, start, stop):
    text = Text(tuple(Path(write(n, t)) for n, t in (("a", "one\ntwo"), ("b", "三\n"), ("c", "four"))), start, stop)
    whole = "one\ntwo\n三\nfour"
    assert "".join(text) == whole[start:stop]
    assert list(text) == list(text)


def test_a_place_in_a_text_is_found_again(write):
    paths = tuple(Path(write(n, t)) for n, t in (("a", "one\ntwo"), ("b", "三四\n五六")))
    whole = "one\ntwo\n三四\n五六"
    for character, file, line, column in (
        ("w", "a", 1 + 1, 2),
        ("三", "b", 1, 1),
        ("四", "b", 1, 2),
        ("六", "b", 2, 2),
    ):
        place = Text(paths, 1).locate(whole.index(character) - 1)
        assert place == f"{paths['ab'.index(file)]}, line {line}, character {column}"


@given(st.lists(st.text(max_size=9)), st.integers(1, 7))
def test_rechunking_keeps_the_text(pieces, size):
    found = list(rechunk(pieces, size))
    assert "".join(found) == "".join(pieces)
    assert all(len(piece) == size for piece in found[:-1])
    assert all(found)


# ------------------------------------------------------------------------------------------------- splits


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["english", "chinese"])
def test_every_kind_reads_every_script(write, kind, text):
    found = load([write("poem.txt", text)], tokenizer=kind)
    cut = int(len(text) * 0.9)
    if kind != "words" or text == CHINESE:
        assert decoded(found, "train") == text[:cut]
        assert decoded(found, "valid") == text[cut:]
    assert found.text_bytes == {"train": len(text[:cut].encode()), "valid": len(text[cut:].encode())}
    assert found.name == "poem"
    assert found.test is None
    assert isinstance(found.train, np.memmap)
    assert found.train.dtype == smallest(found.tokenizer.size)
    assert found.unknown_share["train"] == 0


def test_one_text_is_divided_by_order_in_characters(write):
    found = load([write("a.txt", "月" * 70 + "x" * 30)], share=0.25)
    assert (len(found.train), len(found.valid)) == (75, 25)
    assert found.text_bytes == {"train": 70 * 3 + 5, "valid": 25}


def test_validation_and_test_files_are_used_as_given(write):
    a, b, c = write("a.txt", "abc"), write("b.txt", "cab"), write("c.txt", "bca")
    found = load([a], valid=[b], test=[c])
    assert [decoded(found, split) for split in corpus.SPLITS] == ["abc", "cab", "bca"]


def test_files_are_joined_without_fusing_their_words(write):
    a, b = write("d/a.txt", "one two"), write("d/b.txt", "three\n")
    for data in ([a, b], [str(Path(a).parent)]):
        found = load(data, tokenizer="words", valid=[a])
        assert decoded(found, "train") == "one two\nthree\n"
    assert load([a, b]).name == "a+1"
    assert load([str(Path(a).parent)]).name == "d"


def test_packed_marked_or_with_other_newlines_it_is_the_same_corpus(write):
    text = "one\ntwo 二\n" * 9
    plain = load([write("a.txt", text)])
    others = {
        "gz": gzip.compress(text.encode()),
        "mark": b"\xef\xbb\xbf" + text.encode(),
        "crlf": text.replace("\n", "\r\n").encode(),
    }
    for name, data in others.items():
        assert load([write(name, data)]).fingerprint == plain.fingerprint
    assert load([write("b.txt", text + "!")]).fingerprint != plain.fingerprint
    assert load([write("a.txt", text)], tokenizer="bytes").fingerprint != plain.fingerprint


def test_the_vocabulary_is_that_of_the_training_part(write):
    found = load([write("a.txt", "ab" * 45 + "z" * 10)])
    assert found.tokenizer.size == 3
    assert [found.tokenizer.token(i) for i in range(3)] == ["a", "b", "<unk>"]
    assert found.unknown_share == {"train": 0, "valid": 1}
    assert any("(z), 10 times" in note for note in found.notes)
    plain = load([write("b.txt", "ab" * 50)])
    assert (plain.tokenizer.size, plain.tokenizer.unknown, plain.notes) == (2, None, [])


def test_unseen_characters_of_the_test_part_are_marked_too(write):
    a, z = write("a.txt", "ab" * 9), write("z.txt", "az")
    found = load([a], valid=[a], test=[z])
    assert found.test is not None
    assert found.test.tolist() == [0, 2]
    spelt = load([a], valid=[a], test=[z], tokenizer="chars+bytes")
    assert decoded(spelt, "test") == "az"
    assert spelt.tokenizer.unknown is None


def test_a_limited_vocabulary_reports_what_it_cannot_say(write):
    found = load([write("a.txt", "a a a b b c\n" * 20)], tokenizer="words", vocab=4)
    assert found.tokenizer.size == 4
    assert found.unknown_share["train"] == pytest.approx(1 / 7, abs=0.01)
    assert any("<unk>" in note for note in found.notes)


def test_an_existing_tokeniser_is_used_as_it_is(write):
    a, b = write("a.txt", "abcab\n" * 9), write("b.txt", "cab\n" * 9 + "cat\n")
    own = load([a]).tokenizer
    assert tokenizers.fingerprint(
        load([write("c.txt", "cab\n" * 9)], existing=own).tokenizer
    ) == tokenizers.fingerprint(own)
    with pytest.raises(DataError, match=r"'t' \(U\+0074\) at .*b\.txt, line 10, character 3"):
        load([b], existing=own)
    assert not list(Path(os.environ["RECOLLECT_CACHE"]).rglob("*.part"))


@pytest.mark.parametrize(("text", "share"), [("a", 0.1), ("ab", 0.4), ("abc", 0), ("abc", 1), ("abc", -0.5)])
def test_no_part_may_be_empty(write, text, share):
    if (text, share) == ("ab", 0.4):
        assert len(load([write("a.txt", text)], share=share).valid) == 1
        return
    with pytest.raises(DataError, match="share"):
        load([write("a.txt", text)], share=share)


# -------------------------------------------------------------------------------------------- known texts


def test_tinyshakespeare_is_divided_as_published():
    needs("tinyshakespeare")
    found = load(["tinyshakespeare"], data_dir=DATA)
    assert (found.name, found.tokenizer.size) == ("tinyshakespeare", 65)
    assert (len(found.train), len(found.valid)) == (1_003_854, 111_540)
    assert found.train.dtype == np.uint8
    assert found.notes == []


@pytest.mark.slow
def test_wikitext2_is_counted_as_published(monkeypatch):
    needs("wikitext2")
    monkeypatch.setenv("RECOLLECT_DATA", str(DATA))
    found = load(["wikitext2"], tokenizer="words")
    assert found.test is not None
    assert [len(found.train), len(found.valid), len(found.test)] == [2_088_628, 217_646, 245_569]
    assert found.tokenizer.size == 33_278


@pytest.mark.slow
def test_tang_poems_come_back():
    needs("tang")
    for kind in ("chars+bytes", "words"):
        found = load(["tang"], tokenizer=kind, data_dir=DATA)
        with gzip.open(DATA / "tang_poems" / "poems.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
            text = file.read()
        text = text[: int(len(text) * 0.9)]
        assert decoded(found, "train") == (re.sub(" +", " ", text) if kind == "words" else text)


def test_python_itself_is_the_text_when_none_is_named():
    found = load()
    assert found.name.startswith("python-3.")
    assert len(found.train) > 1_000_000
    assert 0.02 < len(found.valid) / len(found.train) < 0.5
    record = json.loads(next(Path(os.environ["RECOLLECT_CACHE"]).rglob("corpus.json")).read_text())
    paths = [Path(file["path"]) for file in record["sources"]["files"]]
    parts = Counter(part for path in paths for part in path.parts[-3:-1])
    assert {path.suffix for path in paths} == {".py"}
    assert not [path for path in paths if path.name.startswith("_sysconfigdata")]
    assert not parts.keys() & {"site-packages", "test", "tests", "__pycache__", "idle_test"}
    valid = record["settings"]["splits"]["valid"]
    assert 0.05 < len(valid) / len(paths) < 0.2


# ------------------------------------------------------------------------------------------------- caches


def entry():
    (folder,) = (Path(os.environ["RECOLLECT_CACHE"]) / "text").iterdir()
    return folder


@pytest.fixture
def encoded(monkeypatch):
    """How often a text was encoded or a vocabulary made."""
    calls = []
    encode, train = corpus._encode, tokenizers.train
    monkeypatch.setattr(corpus, "_encode", lambda *a: calls.append(a[0].name) or encode(*a))
    monkeypatch.setattr(tokenizers, "train", lambda *a: calls.append("vocabulary") or train(*a))
    return calls


ALL = ["vocabulary", "train", "valid"]


def test_settings_have_caches_of_their_own(write):
    path = write("a.txt", ENGLISH)
    found = [load([path]), load([path], share=0.2), load([path], tokenizer="words"), load([path], vocab=4)]
    assert [len(load([path]).valid), len(load([path], share=0.2).valid)] == [len(f.valid) for f in found[:2]]
    assert len(list((Path(os.environ["RECOLLECT_CACHE"]) / "text").iterdir())) == 4


def test_names_that_are_not_utf8_are_names_too(tmp_path, encoded):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")
    try:
        Path(path).write_text(ENGLISH)
    except OSError:
        pytest.skip("this file system has no such names")
    load([path])
    load([path])
    assert encoded == ALL


def test_importing_the_data_part_imports_neither_torch_nor_tokenizers():
    code = "import sys, recollect.data; sys.exit(bool({'torch', 'tokenizers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_only_letters_are_the_same_however_the_text_comes(size):
    text = "The Time-Traveller (for so…\n\n it will be CONVENIENT!)  ärgerlich 42 x"
    expected = re.sub("[^A-Za-z]+", " ", text).lower()
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    assert "".join(only_letters(pieces)) == expected


def test_a_corpus_of_letters_has_27_symbols(tmp_path):
    book = tmp_path / "book.txt"
    book.write_text("The quick brown fox jumps over 13 lazy dogs!\n" * 50, encoding="utf-8")
    found = corpus.load(book, letters=True, cache=tmp_path / "cache")
    assert found.tokenizer.size == 27
    assert set(found.tokenizer.decode(found.train)) == set(" abcdefghijklmnopqrstuvwxyz")
    plain = corpus.load(book, cache=tmp_path / "cache")
    assert plain.fingerprint != found.fingerprint


# ------------------------------------------------------------------------------------------------ any bytes


ANY = [
    bytes(range(256)) * 3,
    b"\xff\xfe\0\0" * 99,
    b"\xef\xbb\xbfa\r\nb\rc\n" * 50,
    b"\0" * 500,
    "床é".encode()[:-1] * 99,
]


@pytest.mark.parametrize("content", ANY, ids=["all", "marks", "line ends", "zeros", "cut characters"])
@pytest.mark.parametrize("packed", [False, True])
def test_bytes_of_any_file_are_read_as_they_are(write, content, packed):
    path = write("any.bin", gzip.compress(content) if packed else content)
    found = load(path, tokenizer="bytes")
    assert np.concatenate([found.train, found.valid]).tobytes() == content
    assert sum(found.text_bytes.values()) == len(content)
    again = load(path, tokenizer="bytes", existing=found.tokenizer)  # as a run reads it
    assert again.fingerprint == found.fingerprint


@settings(max_examples=60)
@given(st.binary(min_size=1, max_size=60), st.integers(1, 9))
def test_bytes_are_the_same_whatever_the_chunks(tmp_path_factory, content, size):
    path = tmp_path_factory.mktemp("bytes") / "any.bin"
    path.write_bytes(content if content[:2] != b"\x1f\x8b" else b"x" + content)
    tokenizer = tokenizers.Bytes()
    found = list(tokenizer.encode_stream(chunks(path, size, exact=True)))
    assert np.concatenate(found).tobytes() == path.read_bytes()


def test_other_tokenizers_and_prompts_of_theirs_stay_with_text(write):
    path = write("any.bin", ANY[0])
    for kind in ("chars", "words", "bpe", "chars+bytes"):
        with pytest.raises(DataError, match="expected UTF-8 text, found"):
            load(path, tokenizer=kind)
    prompt = b"a\xffb".decode("utf-8", "surrogateescape")  # as a shell hands it on
    assert tokenizers.Bytes().encode(prompt).tobytes() == b"a\xffb"
    with pytest.raises(DataError, match="half a surrogate pair"):
        tokenizers.Chars("ab").encode(prompt)
    with pytest.raises(DataError, match="half a surrogate pair"):
        tokenizers.Bytes().encode("a\ud800b")


def test_bytes_decode_to_what_a_terminal_can_show():
    assert tokenizers.Bytes().decode([97, 0xFF, 98]) == "a\ufffdb"


# ------------------------------------------------------------------------------------------- altered caches


def alter(folder, name, change):
    """Change the record of an entry as a program would that knows its hashes."""
    path = folder / f"{name}.json"
    record = json.loads(path.read_text())
    change(record)
    record["sha256"] = hash_json([record["arrays"], record["content"]])
    path.write_text(json.dumps(record))


@pytest.mark.parametrize("value", [None, [], {}, "x", 1e999, [[["x"]]]])
@pytest.mark.parametrize(
    ("name", "key"), [("corpus", "tokenizer"), ("corpus", "notes"), ("train", "text_bytes"), ("valid", "unknown")]
)
def test_a_cache_that_holds_something_else_is_made_again(write, tmp_path, name, key, value):
    path = write("book.txt", ENGLISH)
    before = load(path)
    (folder,) = (tmp_path / "cache" / "text").iterdir()
    alter(folder, name, lambda record: record["content"].update({key: value}))
    assert load(path).fingerprint == before.fingerprint


def test_a_token_that_the_vocabulary_lacks_is_noticed_wherever_it_stands(write, tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.data.cache.EDGE", 8)
    path = write("book.txt", ENGLISH)
    before = np.array(load(path).train)
    (folder,) = (tmp_path / "cache" / "text").iterdir()
    (tokens,) = folder.glob("train-tokens-*.bin")
    spoilt = bytearray(tokens.read_bytes())
    spoilt[100] = 255
    tokens.write_bytes(spoilt)
    assert np.array_equal(load(path).train, before)


def test_of_two_that_read_the_same_text_one_encodes_it(write, monkeypatch):
    calls, plan = [], corpus._plan

    def slow(*args):
        calls.append(args)
        time.sleep(0.2)
        return plan(*args)

    monkeypatch.setattr(corpus, "_plan", slow)
    path = write("book.txt", ENGLISH)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: load(path), range(2))
    assert first.fingerprint == second.fingerprint
    assert len(calls) == 1
