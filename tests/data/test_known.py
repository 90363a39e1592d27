"""Known sets: one registry, files found on disk or downloaded, verified by hash."""

import gzip
import hashlib
import http.server
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from recollect.data.files import DataError
from recollect.data.known import KNOWN, KnownFile, LabelSet, SoundSet, TextSet, TranslationSet, find_set, sets_of
from recollect.tasks.text.data import load
from recollect.tasks.translation import data as translation
from shared_data import DATA


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")


def test_every_known_set_has_what_it_needs():
    for name, found in KNOWN.items():
        assert found.name == name
        assert found.licence
        assert found.about
        assert "train" in found.splits
        if isinstance(found, SoundSet):
            continue
        without = [file.path for some in found.splits.values() for file in some if file.address is None]
        assert bool(found.origin) == bool(without)  # where files come from that have no address
        for file in (file for some in found.splits.values() for file in some):
            path = DATA / file.path
            if path.exists():
                data = path.read_bytes()
                assert hashlib.sha256(data).hexdigest() == file.sha256
                text = gzip.decompress(data) if file.path.endswith(".gz") else data
                assert (hashlib.sha256(text).hexdigest(), len(text)) == (file.text_sha256, file.size)


def test_a_known_folder_of_recordings_is_verified_and_split_by_takes(tmp_path):
    fsdd = KNOWN["fsdd"]
    assert isinstance(fsdd, SoundSet)
    with pytest.raises(DataError, match=r"put it by hand at .*fsdd.*name the folder that holds it with --data-dir"):
        fsdd.recordings(tmp_path)
    folder = tmp_path / fsdd.folder
    folder.mkdir(parents=True)
    for take in range(12):
        (folder / f"7_theo_{take}.wav").write_bytes(b"RIFF")
    with pytest.raises(DataError, match=r"expected the 3,000 recordings of fsdd in .*, found 12 .*--set pattern="):
        fsdd.recordings(tmp_path)
    lines = [f"7_theo_{take}.wav {hashlib.sha256(b'RIFF').hexdigest()}\n" for take in range(12)]
    toy = replace(fsdd, count=12, sha256=hashlib.sha256("".join(sorted(lines)).encode()).hexdigest())
    found = toy.recordings(tmp_path)
    assert {(own.label, own.speaker) for own in found} == {("7", "theo")}
    takes = {
        split: sorted(int(own.take) for own in found if own.split == split) for split in ("test", "valid", "train")
    }
    assert takes == {"test": [0, 1, 2, 3, 4], "valid": [5, 6, 7, 8, 9], "train": [10, 11]}
    if (DATA / fsdd.folder).is_dir():
        assert len(fsdd.recordings(DATA)) == 3_000


def test_the_registry_needs_no_torch():
    code = "import sys, recollect.data.known; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_set_of_another_task_is_refused_with_the_task_that_it_is_for():
    assert list(sets_of(LabelSet)) == ["mnist", "sst2"]
    message = "expected a set for labels, found 'tang', a text; use it with the task text, or name one of mnist, sst2"
    with pytest.raises(DataError, match=message):
        find_set("tang", LabelSet)


@pytest.fixture
def served(tmp_path):
    """A folder behind a web server on this machine, what was asked of it, and its address."""
    root = tmp_path / "served"
    root.mkdir()
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, directory=str(root), **kwargs)

        def log_message(self, format, *args):
            asked.append(args[0])

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield root, asked, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def a_set(monkeypatch, text, address, path="toy/toy.txt.gz"):
    sha = hashlib.sha256(text).hexdigest()
    file = KnownFile(path=path, sha256="0" * 64, text_sha256=sha, size=len(text), address=address)
    toy = TextSet(name="toy", about="a toy", licence="none", splits={"train": (file,)})
    monkeypatch.setitem(KNOWN, "toy", toy)
    return toy


def test_a_set_is_downloaded_once_checked_and_kept(monkeypatch, served, tmp_path):
    root, asked, address = served
    text = b"toy text\n" * 40_000
    (root / "toy.txt").write_bytes(text)
    a_set(monkeypatch, text, f"{address}/toy.txt")
    for _ in range(2):
        (path,) = find_set("toy", TextSet).find()["train"]
        assert path == tmp_path / "cache" / "toy" / "toy.txt"
        assert path.read_bytes() == text
    assert len(asked) == 1
    assert [p.name for p in path.parent.iterdir()] == ["toy.txt"]
    assert load(["toy"]).name == "toy"


@pytest.mark.parametrize("wrong", [b"toy texT\n", b"toy", b"toy text\n" * 100_000], ids=["other", "short", "endless"])
def test_a_wrong_download_leaves_nothing_and_says_where_to_put_the_file(monkeypatch, served, tmp_path, wrong):
    root, _, address = served
    (root / "toy.txt").write_bytes(wrong)
    a_set(monkeypatch, b"toy text\n", f"{address}/toy.txt")
    with pytest.raises(DataError, match=r"expected sha256 .* put it by hand at .*toy\.txt") as caught:
        find_set("toy", TextSet).find()
    assert "\n" not in str(caught.value)
    assert f"({min(len(wrong), 9 + 1)} bytes)" in str(caught.value)  # it does not read on for ever
    assert not list((tmp_path / "cache" / "toy").iterdir())


@pytest.mark.parametrize("how", ["missing", "refused", "nonsense"])
def test_no_network_says_where_to_put_the_file(monkeypatch, served, tmp_path, how):
    _, _, address = served
    where = {"missing": f"{address}/nothing", "refused": "http://127.0.0.1:9/toy.txt", "nonsense": "no-address"}
    a_set(monkeypatch, b"toy", where[how])
    (tmp_path / "own").mkdir()
    with pytest.raises(DataError, match=r"put it by hand at .*own.*toy\.txt\.gz or .*cache.*toy\.txt\.gz"):
        find_set("toy", TextSet).find(tmp_path / "own")
    assert not list((tmp_path / "cache" / "toy").iterdir())


def test_a_set_without_an_address_says_where_to_put_the_file(tmp_path):
    with pytest.raises(DataError, match=r"no address.*chinese-poetry.*by hand at .*tang_poems.*--data-dir"):
        find_set("tang", TextSet).find()


@pytest.mark.parametrize("name", ["toy.txt", "toy.txt.gz"])
def test_a_copy_on_disk_is_taken_packed_or_not(monkeypatch, tmp_path, name):
    toy = a_set(monkeypatch, b"toy text\n", None)
    path = tmp_path / "own" / "toy" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress(b"toy text\n") if name.endswith("gz") else b"toy text\n")
    assert find_set("toy", TextSet).find(tmp_path / "own") == {"train": [path]}
    monkeypatch.setenv("RECOLLECT_DATA", str(tmp_path / "own"))
    assert find_set("toy", TextSet).find() == {"train": [path]}
    path.write_bytes(b"\x1f\x8bwrong" if name.endswith("gz") else b"wrong")
    with pytest.raises(DataError, match=r"toy\.txt"):
        find_set("toy", TextSet).find()
    assert toy.splits["train"][0].places == ["toy/toy.txt.gz", "toy/toy.txt"]


def test_names_that_are_not_known_are_answered_with_those_that_are(tmp_path):
    with pytest.raises(DataError, match="did you mean tinyshakespeare"):
        find_set("tinyshakespear", TextSet)
    with pytest.raises(DataError, match="known sets are tinyshakespeare"):
        load(["tinyshakespear"])
    with pytest.raises(DataError, match="folder of data"):
        find_set("tang", TextSet).find(tmp_path / "nowhere")


def a_translation_set(monkeypatch, address, **texts):
    """A set for translation between xx, yy and zz, each a file."""
    languages = ("xx", "yy", "zz")

    def a_file(name, text):
        sha = hashlib.sha256(text).hexdigest()
        return KnownFile(
            path=f"toy/{name}.gz", sha256="0" * 64, text_sha256=sha, size=len(text), address=f"{address}/{name}.gz"
        )

    splits = {split: tuple(a_file(f"{split}.{lang}", text) for lang in languages) for split, text in texts.items()}
    monkeypatch.setitem(
        KNOWN, "toy", TranslationSet(name="toy", about="a toy", licence="none", splits=splits, languages=languages)
    )


@pytest.mark.slow
def test_only_the_files_of_the_pair_are_downloaded_and_unpacked(monkeypatch, served, tmp_path):
    root, asked, address = served
    text = b"".join(b"word %d\n" % i for i in range(50_000))
    a_translation_set(monkeypatch, address, train=text, valid=text, test=text)
    for split in ("train", "valid", "test"):
        for language in ("xx", "zz"):
            (root / f"{split}.{language}.gz").write_bytes(gzip.compress(text))
    for _ in range(2):
        found = find_set("toy", TranslationSet).find_pair(("zz", "xx"))
        assert [path.name for path in found["valid"]] == ["valid.zz", "valid.xx"]
    assert len(asked) == 6
    assert found["train"][0].read_bytes() == text
    assert len(translation.load("toy", pair="zz-xx", tokenizer="bytes").train) == 50_000


@pytest.mark.parametrize(
    "wrong",
    [b"not packed\n", gzip.compress(b"other\n"), gzip.compress(b"x" * 10**7), gzip.compress(b"right\n")[:-12]],
    ids=["not packed", "other", "too long", "cut off"],  # packed bytes hold the time of day
)
def test_a_wrong_packed_download_leaves_nothing(monkeypatch, served, tmp_path, wrong):
    root, _, address = served
    a_translation_set(monkeypatch, address, train=b"right\n")
    (root / "train.xx.gz").write_bytes(wrong)
    with pytest.raises(DataError, match="put it by hand at") as caught:
        find_set("toy", TranslationSet).find_pair(("xx", "yy"))
    assert "\n" not in str(caught.value)
    assert not list((tmp_path / "cache" / "toy").iterdir())
