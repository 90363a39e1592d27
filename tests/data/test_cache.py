"""The cache: an entry is loaded if it is whole and its sources and settings are the same, else it is made again."""

import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from recollect.core.files import locked
from recollect.data import cache
from recollect.data.cache import Entry, Sources, hash_json
from recollect.data.files import DataError

LONG_AGO = 10**18  # ns


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.txt"
    path.write_text("some text")
    os.utime(path, ns=(LONG_AGO, LONG_AGO))
    return path


@pytest.fixture
def entry(tmp_path, source):
    made = Entry(tmp_path / "cache", "train", Sources([source]), {"size": 3})
    write(made)
    return made


def write(entry, value=1):
    with entry.write() as writer:
        ids = writer.add_array("ids", np.dtype("<u2"))
        ids.append(np.array([value, 2]))
        ids.append(np.array([3]))
        writer.add_array("images", np.dtype("u1"), (2, 2)).append(np.full((5, 2, 2), value))
        writer.content = {"notes": ["a note"], "value": value}


def opened(entry, **changes):
    """The entry as another process would open it."""
    return Entry(entry.folder, entry.name, Sources(entry.sources.paths), changes.get("settings", entry.settings))


def names(entry):
    return sorted(path.name for path in entry.folder.iterdir())


def test_what_was_written_is_loaded(entry):
    found = opened(entry).load_written()
    assert found.arrays["ids"].tolist() == [1, 2, 3]
    assert found.arrays["ids"].dtype == np.uint16
    assert found.arrays["images"].shape == (5, 2, 2)
    assert not found.arrays["ids"].flags.writeable
    assert found.content == {"notes": ["a note"], "value": 1}
    assert sorted(found.hashes) == ["ids", "images"]
    assert len(names(entry)) == 3


def test_a_new_entry_takes_the_place_of_the_old_one(entry):
    write(entry, 7)
    assert opened(entry).load().arrays["ids"].tolist() == [7, 2, 3]
    assert len(names(entry)) == 3


def test_entries_in_one_folder_leave_each_other_alone(entry):
    other = Entry(entry.folder, "valid", entry.sources, {})
    write(other, 5)
    write(entry, 7)
    assert opened(other).load().content["value"] == 5
    assert len(names(entry)) == 6


def test_other_settings_need_another_entry(entry):
    assert opened(entry, settings={"size": 4}).load() is None


def test_a_changed_source_is_noticed_and_a_touched_one_is_hashed_once(entry, source, monkeypatch):
    os.utime(source, ns=(LONG_AGO + 1, LONG_AGO + 1))
    assert opened(entry).load() is not None
    with monkeypatch.context() as patch:
        patch.setattr(Sources, "_hash", lambda *_: pytest.fail("it was hashed"))
        assert opened(entry).load() is not None
    source.write_text("some tex7")
    assert opened(entry).load() is None
    source.write_text("some text, and more")
    assert opened(entry).load() is None


def test_a_source_within_a_tick_of_the_clock_is_hashed(entry, source):
    source.write_text("some text")
    write(opened(entry))
    stamp = source.stat().st_mtime_ns
    source.write_text("some tex7")
    os.utime(source, ns=(stamp, stamp))
    assert opened(entry).load() is None


def record_of(entry):
    return json.loads(entry.path.read_text())


def with_its_hash(record):
    """The record as a program would have written it."""
    return record | {"sha256": hash_json([record["arrays"], record["content"]])}


def change_array(record, **values):
    return with_its_hash(record | {"arrays": {"ids": record["arrays"]["ids"] | values}})


CHANGES = {
    "content": lambda record: record | {"content": {}},
    "no content": lambda record: {name: value for name, value in record.items() if name != "content"},
    "no sources": lambda record: record | {"sources": None},
    "other sources": lambda record: record | {"sources": {"stamped_ns": 0, "files": []}},
    "format": lambda record: record | {"format": record["format"] - 1},
    "arrays": lambda record: record | {"arrays": {}},
    "arrays of another kind": lambda record: with_its_hash(record | {"arrays": {"ids": None}}),
    "dtype": lambda record: change_array(record, dtype="O"),
    "wide dtype": lambda record: change_array(record, dtype="<u4"),
    "shape": lambda record: change_array(record, shape=[2]),
    "shape of another kind": lambda record: change_array(record, shape=["x"]),
    "edges": lambda record: change_array(record, edges="0"),
    "another file": lambda record: change_array(record, sha256="../x"),
    "a list": lambda record: [record],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_record_is_not_loaded(entry, name):
    entry.path.write_text(json.dumps(CHANGES[name](record_of(entry))))
    assert opened(entry).load() is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b"{", b"[" * 100_000])
def test_a_damaged_record_is_not_loaded(entry, content):
    entry.path.write_bytes(content)
    assert opened(entry).load() is None


@pytest.mark.parametrize("at", [None, 0, -1])
def test_a_damaged_array_is_not_loaded(entry, at):
    (path,) = entry.folder.glob("train-ids-*.bin")
    data = bytearray(path.read_bytes())
    if at is None:
        del data[-1]
    else:
        data[at] ^= 1
    path.write_bytes(data)
    assert opened(entry).load() is None
    path.unlink()
    assert opened(entry).load() is None


@pytest.mark.parametrize("failure", [KeyboardInterrupt, DataError("bad text")])
def test_a_failure_while_writing_leaves_the_old_entry(entry, failure):
    def fail():
        with entry.write() as writer:
            writer.add_array("ids", np.dtype("<u2")).append(np.array([9]))
            raise failure

    before = names(entry)
    with pytest.raises((KeyboardInterrupt, DataError)):
        fail()
    assert names(entry) == before
    assert opened(entry).load().content["value"] == 1


def test_a_source_that_changes_while_it_is_read_is_refused(entry, source):
    before = names(entry)
    with pytest.raises(DataError, match="changed meanwhile; run it again"), entry.write():
        source.write_text("other")
    assert names(entry) == before


def test_arrays_that_are_taken_back_are_not_written(entry):
    with entry.write() as writer:
        writer.add_array("test-ids", np.dtype("u1"))
        writer.add_array("train-ids", np.dtype("u1")).append(np.ones(3))
        writer.remove_arrays("test-")
    assert list(opened(entry).load().arrays) == ["train-ids"]


def test_what_a_crash_left_is_removed_after_a_day(entry):
    for name, age in ((".train.old.part", 2 * cache.STALE), (".train.new.part", 0), (".valid.old.part", 10**6)):
        (entry.folder / name).mkdir()
        (entry.folder / name / "ids.array").write_text("x")
        for path in (entry.folder / name / "ids.array", entry.folder / name):
            os.utime(path, (time.time() - age,) * 2)
    old = entry.folder / ".train.json.1234.part"
    old.write_text("{")
    os.utime(old, (1, 1))
    write(entry)
    assert sorted(path.name for path in entry.folder.glob(".*")) == [".train.new.part", ".valid.old.part"]


def test_what_a_killed_process_left_is_removed_by_the_next_that_makes_the_entry(entry):
    scratch = entry.folder / ".train.killed.part"
    scratch.mkdir()
    (scratch / "ids.array").write_text("x")
    replace(entry, settings={"size": 4}).load_or_make(lambda found: found, lambda writer: None)
    assert not list(entry.folder.glob(".*"))


def test_new_stamps_clear_away_what_a_kill_at_that_moment_left(entry, source):
    left = entry.folder / ".train.json.1234.part"
    left.write_text("{")
    os.utime(source, ns=(LONG_AGO + 1, LONG_AGO + 1))
    assert opened(entry).load() is not None
    assert not left.exists()
    assert record_of(entry)["sources"]["files"][0]["mtime_ns"] == LONG_AGO + 1


def test_stamps_stay_where_another_process_writes_in_the_folder(entry, source):
    before = record_of(entry)
    writing = entry.folder / ".train.json.1234.part"
    writing.write_text("{")
    os.utime(source, ns=(LONG_AGO + 1, LONG_AGO + 1))
    with locked(entry.folder, wait=False):
        assert opened(entry).load() is not None
    assert writing.exists()
    assert record_of(entry) == before


def test_a_folder_in_which_a_process_still_writes_is_left(entry):
    scratch = entry.folder / ".train.busy.part"
    scratch.mkdir()
    (scratch / "ids.array").write_text("x")
    os.utime(scratch, (1, 1))
    write(entry)
    assert scratch.exists()


def test_a_disk_that_is_full_is_one_line_that_names_the_files(entry, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = names(entry)
    monkeypatch.setattr(os, "fsync", full)
    pictures = Entry(entry.folder, "train", entry.sources, {}, "pictures")
    with pytest.raises(DataError, match="expected to write pictures to .* No space left .* RECOLLECT_CACHE"):
        write(pictures)
    assert names(entry) == before


def test_an_entry_that_another_process_replaced_is_refused(entry):
    other = opened(entry, settings={"size": 4})
    with pytest.raises(DataError, match="expected the token files just written in .*; run one at a time"):
        other.load_written()


HOSTILE = {
    "an object": {"dtype": "|O"},
    "fields": {"dtype": "i4,i4"},
    "a length below zero": {"shape": [-3]},
    "lengths below zero": {"shape": [-1, -3]},
    "a huge shape": {"shape": [10**18]},
    "no shape": {"shape": []},
    "a path upwards": {"sha256": "/../" * 16},
    "numbers": {"dtype": 5},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_array_that_lies_is_not_mapped(entry, name):
    entry.path.write_text(json.dumps(change_array(record_of(entry), **HOSTILE[name])))
    assert opened(entry).load() is None


@pytest.mark.parametrize("name", ["../x", "a/b", "", "x" * 5_000, "a\0b"])
def test_an_array_with_a_name_that_is_a_path_is_not_mapped(entry, name):
    record = record_of(entry)
    entry.path.write_text(json.dumps(with_its_hash(record | {"arrays": {name: record["arrays"]["ids"]}})))
    assert opened(entry).load() is None


@pytest.mark.parametrize("which", ["record", "array"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(entry, which):
    path = entry.path if which == "record" else next(entry.folder.glob("train-ids-*.bin"))
    path.unlink()
    os.mkfifo(path)
    assert opened(entry).load() is None


@pytest.mark.parametrize("content", [5, None, [], "x", {"cut": []}])
def test_content_of_any_kind_is_refused_by_whoever_reads_it(entry, content):
    """Which is then made again."""
    entry.path.write_text(json.dumps(with_its_hash(record_of(entry) | {"content": content})))

    def decode(found):
        return found.content["value"] + 1

    def make(writer):
        writer.content = {"value": 6}

    assert opened(entry).load_or_make(decode, make) == 7


def test_a_folder_that_cannot_be_written_can_be_read(entry, source, monkeypatch):
    os.utime(source, ns=(LONG_AGO + 1, LONG_AGO + 1))  # so that the record would be written with new stamps

    def fail(path, content):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(cache, "write_aside", fail)
    assert opened(entry).load().content["value"] == 1


def test_a_cache_that_is_a_file_is_refused_in_a_line(tmp_path, source):
    (tmp_path / "file").write_text("x")
    entry = Entry(tmp_path / "file" / "cache", "train", Sources([source]), {})
    with pytest.raises(DataError, match="expected to write token files to .*; make room there, or name another place"):
        entry.load_or_make(lambda found: found, lambda writer: None)


def test_of_two_that_need_an_entry_one_makes_it_and_the_other_waits(tmp_path, source):
    made = []

    def make(writer):
        made.append(writer.folder)
        time.sleep(0.1)
        writer.add_array("ids", np.dtype("<u2")).append(np.arange(9))

    def get(_):
        entry = Entry(tmp_path / "cache", "train", Sources([source]), {})
        return entry.load_or_make(lambda found: found.arrays["ids"].tolist(), make)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(get, range(4))) == [list(range(9))] * 4
    assert len(made) == 1
