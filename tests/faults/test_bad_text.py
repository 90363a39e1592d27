"""Text as it should not be: wrong encodings, damage, crashes, full disks, and files that are one endless line."""

import errno
import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.data import cache
from recollect.data.files import DataError, chunks, files
from recollect.tasks.text.data import TextDigest, load

KINDS = ("chars", "bytes", "words", "bpe")


@pytest.fixture(autouse=True)
def _no_data(monkeypatch):
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)


def cached(tmp_path):
    """Every file in the cache but those that say what a corpus is made of."""
    return sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.name != "corpus.json")


def refusal(path, size=1 << 20):
    """What reading a file says, which is one line that names the file."""
    with pytest.raises(DataError) as caught:
        list(chunks(path, size))
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


# --------------------------------------------------------------------------------------------- encodings

BAD = {
    "utf-16": ("héllo wörld\n".encode("utf-16"), "byte 0 ", "UTF-16LE"),
    "utf-16be with mark": (b"\xfe\xff" + "hello".encode("utf-16be"), "byte 0 ", "UTF-16BE"),
    "utf-16le": ("hello world\n".encode("utf-16le"), "byte 1 ", "UTF-16LE"),
    "utf-16be": ("hello world\n".encode("utf-16be"), "byte 0 ", "UTF-16BE"),
    "utf-32": ("hello world\n".encode("utf-32"), "byte 0 ", "UTF-32LE"),
    "latin-1": ("one\ntwo caf\xe9s and na\xefve\n".encode("latin-1"), "byte 11 (line 2)", "latin-1"),
    "gbk": ("one\n床前明月光，疑是地上霜。\n".encode("gbk"), "byte 4 (line 2)", "GBK"),
    "one bad byte": ("日本\nabc".encode() + b"\xff" + b"def\n", "byte 10 (line 2)", "damaged"),
    "gbk that begins like utf-8": ("联通公司的数据，一共三行。\n".encode("gbk"), "byte 0 (line 1)", "GBK"),
    "gbk after utf-8 letters": ("\u0769\n".encode() + "床前明月光，疑是地上霜。\n".encode("gbk"), "byte 3", "GBK"),
    "surrogates": (b"ab\xed\xa0\x80", "byte 2 ", "expected UTF-8"),
    "overlong": (b"ab\xc0\x80", "byte 2 ", "expected UTF-8"),
    "binary": (b"\x89PN\x00\x01\x02\x00\x00\x00\x05" * 9, "byte 0", "found"),
    "nul": (b"text\nwith\x00nul\n", "byte 9 (line 2)", "binary"),
    "nul before a bad byte": (b"ab\x00cd\xff", "NUL at byte 2 ", "binary"),
    "cut at the end": ("日本".encode()[:-1], "byte 3 ", "cut short"),
    "cut within the first": ("🙂".encode()[:3], "byte 0 ", "cut short"),
}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1, 3, 1 << 20])
@pytest.mark.parametrize("case", BAD)
def test_a_wrong_encoding_is_placed_and_guessed(tmp_path, case, size, packed):
    data, where, guess = BAD[case]
    path = tmp_path / "a.txt"
    path.write_bytes(gzip.compress(data) if packed else data)
    message = refusal(path, size)
    assert guess in message
    if case != "binary":  # a NUL or a wrong byte may be met first
        assert where in message
    if "looks like" in message and "binary" not in message:
        assert "iconv -f" in message
    assert " -c " not in message  # which would delete characters


def test_what_iconv_is_told_to_do_mends_the_file(tmp_path):
    path = tmp_path / "a.txt"
    text = "床前明月光，疑是地上霜。\n"
    for encoding, name in (("gbk", "GB18030"), ("utf-16le", "UTF-16LE")):
        path.write_bytes(("x\n" + text).encode(encoding))
        message = refusal(path)
        assert f"iconv -f {name} -t UTF-8" in message
        assert path.read_bytes().decode(name) == "x\n" + text


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("bad", ["caf\xe9 au lait\n".encode("latin-1"), "日本和\n".encode("gbk")])
def test_the_command_of_the_hint_works_as_it_stands(tmp_path, bad, packed):
    folder = tmp_path / "my father's texts"
    folder.mkdir()
    path = folder / "a.txt"
    path.write_bytes(gzip.compress(bad) if packed else bad)
    command = refusal(path).rpartition("with: ")[2]
    subprocess.run(command, shell=True, check=True, cwd=tmp_path)
    assert "".join(chunks(tmp_path / "utf8.txt")) in ("café au lait\n", "日本和\n")


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", gzip.compress(b"")], ids=["empty", "mark", "packed"])
def test_an_empty_file_is_refused(tmp_path, data):
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert "empty" in refusal(path)
    assert "empty" in refusal(path, 1)


@pytest.mark.parametrize("cut", [-1, -9, 15])
def test_a_cut_gzip_file_is_refused(tmp_path, cut):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"some text, and more of it\n" * 99)[:cut])
    assert "gzip" in refusal(path)


@pytest.mark.parametrize("data", [b"\x1f\x8bnot gzip at all", gzip.compress(b"text", mtime=0) + b"rubbish"])
def test_a_damaged_gzip_file_is_refused(tmp_path, data):
    path = tmp_path / "a.gz"
    path.write_bytes(data)
    assert "gzip" in refusal(path)


# --------------------------------------------------------------------------------------------------- paths


def test_a_missing_path_is_answered_with_what_is_there(tmp_path):
    (tmp_path / "poems.txt").write_text("text")
    (tmp_path / "sub").mkdir()
    with pytest.raises(DataError, match=r"has poems\.txt, sub/; did you mean poems\.txt\?"):
        files([tmp_path / "poem.txt"])
    with pytest.raises(DataError, match=r"none at .*nowhere.*has poems\.txt, sub/$"):
        files([tmp_path / "nowhere" / "deeper" / "a.txt"])
    with pytest.raises(DataError, match="found nothing"):
        files([tmp_path / "sub"])
    with pytest.raises(DataError, match="at least one"):
        files([])
    for number in range(20):
        (tmp_path / "sub" / f"{number:02}.bin").write_bytes(b"\0")
    with pytest.raises(DataError, match=r"00\.bin \(looks like a binary file\), .* and 12 more"):
        files([tmp_path / "sub"])


def test_what_is_neither_file_nor_folder_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="something else"):
        files([tmp_path / "pipe"])
    (tmp_path / "a.txt").write_text("text")
    assert files([tmp_path]) == [tmp_path / "a.txt"]  # and opening it would wait for ever
    assert "found a folder" in refusal(tmp_path)


def test_a_newline_in_a_name_does_not_break_the_line(tmp_path):
    with pytest.raises(DataError) as caught:
        files([tmp_path / "a\nb"])
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------- crashes


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bytes"])
def test_a_bad_byte_at_the_very_end_leaves_nothing_half_written(tmp_path, kind):
    path = tmp_path / "a.txt"
    good = b"some words and more\n" * 200_000
    path.write_bytes(good + b"\xff")
    with pytest.raises(DataError, match=r"byte 4,000,000 \(line 200,001\)"):
        load([path], tokenizer=kind, valid=[path])
    assert cached(tmp_path) == []
    path.write_bytes(good)
    assert len(load([path], tokenizer=kind, valid=[path]).train) > 100_000


def test_an_old_shard_stays_good_when_the_new_text_is_bad(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"good text\n" * 50)
    before = load([path])
    names = cached(tmp_path)
    path.write_bytes(b"good text\n" * 50 + b"\xff")
    with pytest.raises(DataError):
        load([path])
    assert cached(tmp_path) == names
    assert before.train[:4].tolist() == before.tokenizer.encode("good").tolist()


def test_a_killed_process_leaves_no_shard_and_the_next_one_makes_it(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words and more\n" * 100_000)
    code = f"""
import os, signal
from recollect.tasks.text import data
replace = os.replace
def die(old, new):
    if str(new).endswith(".bin"):
        os.kill(os.getpid(), signal.SIGKILL)
    replace(old, new)
os.replace = die
data.load([{str(path)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    (part,) = (tmp_path / "cache").rglob("*.part")
    assert not any(name.endswith((".bin", ".json")) for name in cached(tmp_path))
    assert len(load([path]).train) == 1_800_000
    assert not part.exists()  # whoever left it is gone, or the lock would not have been free


def test_a_crash_between_tokens_and_record_keeps_the_old_pair_together(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"abcd" * 50)
    load([path])
    path.write_bytes(b"dcba" * 50)
    with monkeypatch.context() as patch:
        patch.setattr(cache.Entry, "_write_record", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            load([path])
    found = load([path])
    assert found.tokenizer.decode(found.train[:8]) == "dcbadcba"


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words\n" * 99)

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match="No space left.*RECOLLECT_CACHE"):
        load([path])
    assert [p for p in (tmp_path / "cache").rglob("*") if p.is_file()] == []


def test_a_cache_that_cannot_be_written_says_so(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("some words\n")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="RECOLLECT_CACHE"):
        load([tmp_path / "a.txt"])


def test_a_source_that_changes_while_it_is_read_is_noticed(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"some words\n" * 99)
    read = TextDigest.read

    def change(self, text):
        path.write_bytes(b"other text altogether\n" * 99)
        return read(self, text)

    monkeypatch.setattr(TextDigest, "read", change)
    with pytest.raises(DataError, match="changed"):
        load([path], tokenizer="bytes")
    assert cached(tmp_path) == []


def test_blanks_alone_are_no_words(tmp_path):
    (tmp_path / "a.txt").write_text(" \t " * 50)
    with pytest.raises(DataError, match="only blanks"):
        load([tmp_path / "a.txt"], tokenizer="words")


# -------------------------------------------------------------------------------------------------- memory

# One line of 60 MB: words that repeat, words that never do, characters without spaces, one letter.
SHAPES = {
    "words": "b''.join(b'word%d and other words ' % (i % 5000) for i in range(50_000))",
    "never": "b''.join(b'%016x ' % (i * 0x9E3779B97F4A7C15 % 2**64) for i in range(n, n + 60_000))",
    "hanzi": "''.join(chr(0x4E00 + (i * i + n) % 6007) for i in range(330_000)).encode()",
    "letter": "b'a' * 1_000_000",
}


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_endless_line_is_read_in_bounded_memory(tmp_path, kind, shape):
    code = f"""
import resource, sys
import numpy, tokenizers
from recollect.tasks.text.data import load
def peak():
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size / 2**20 if sys.platform == "darwin" else size / 2**10
path = {str(tmp_path / "line.txt")!r}
n = 0
with open(path, "wb") as file:
    while file.tell() < 60_000_000:
        block = {SHAPES[shape]}
        file.write(block)
        n += 60_000
del block
before = peak()
found = load([path], tokenizer={kind!r})
assert sum(found.text_bytes.values()) >= 60_000_000
print(peak() - before)
"""
    env = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 400  # MB
    assert not list(Path(tmp_path).rglob("*.part"))
