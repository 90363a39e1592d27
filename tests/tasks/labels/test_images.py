"""Images as sequences of pixels or rows."""

import gzip
import os

import numpy as np
import pytest
import torch

from recollect.data.files import DataError
from recollect.tasks.labels import data as sets
from recollect.tasks.labels import task as labels
from recollect.tasks.labels.idx import read_idx
from shared_data import DATA, needs
from tasks.cases import idx


def test_an_idx_file_is_its_bytes(tmp_path):
    array = np.arange(24).reshape(2, 3, 4)
    for name, data in (("plain", idx(array)), ("packed.gz", gzip.compress(idx(array)))):
        (tmp_path / name).write_bytes(data)
        assert np.array_equal(read_idx(tmp_path / name, 3), array)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "found nothing in"),
        (b"\x00\x00\x08\x03\x00", "expected 16 bytes at the head of an IDX file, found 5"),
        (idx(np.zeros((2, 3, 4)), kind=9), "begins with 00 00 08 03.*found 00 00 09 03"),
        (idx(np.zeros(24)), "in 3 dimensions .*found 00 00 08 01"),
        (idx(np.zeros((2, 3, 4)))[:-1], "expected 2 × 3 × 4 = 24 bytes after the head, found 23"),
        (idx(np.zeros((2, 3, 4))) + b"x", "expected 2 × 3 × 4 = 24 bytes after the head, found 25"),
        (idx(np.zeros((0, 3, 4))), "expected 0 × 3 × 4 = 0 bytes"),
        (b"\x00\x00\x08\x03" + b"\xff" * 12, "bytes after the head, found 0"),
        (gzip.compress(idx(np.zeros((2, 3, 4))))[:-9], "expected a whole gzip file, found damage .*get a new copy"),
    ],
    ids=["empty", "head", "type", "dimensions", "short", "long", "none", "huge", "damaged"],
)
def test_what_is_no_idx_file_is_refused_in_a_line(tmp_path, data, message):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(tmp_path / "file", 3)
    assert "\n" not in str(caught.value)


def test_an_image_is_a_sequence_of_pixels_or_of_rows(pictures):
    raw = read_idx(pictures / "train-images-idx3-ubyte", 3)
    by_pixel, by_row = sets.load(pictures), sets.load(pictures, step="row")
    assert by_pixel.train.values.shape == (44, 12, 1)
    assert by_row.train.values.shape == (44, 4, 3)
    assert np.array_equal(by_row.train.values, raw[:44])
    assert np.array_equal(by_pixel.train.values.reshape(44, 4, 3), raw[:44])
    assert np.array_equal(by_pixel.valid.values.reshape(4, 4, 3), raw[44:]), "the last twelfth"
    assert by_pixel.notes == ["validation: the last 4 of 48 training images"]
    assert len(by_pixel.test.labels) == 10
    assert (by_pixel.artifacts.inputs, by_row.artifacts.inputs) == (1, 3)


def test_one_permutation_serves_all_images(pictures):
    plain, mixed, other = (sets.load(pictures, permute=seed) for seed in (None, 0, 1))
    order = np.random.default_rng(0).permutation(12)
    for split in ("train", "valid", "test"):
        a, b = getattr(plain, split).values, getattr(mixed, split).values
        assert np.array_equal(a[:, order], b)
    assert len({plain.fingerprint, mixed.fingerprint, other.fingerprint}) == 3


def test_numbers_go_in_from_0_to_1(pictures):
    task = labels.LabelsTask(labels.Config(batch=4), sets.load(pictures))
    batch = next(task.batches("train", 0))
    assert batch.x.shape == (4, 12, 1)
    assert batch.lengths is None
    assert 0.5 < batch.x.max() <= 1
    row = task.rows("train").take(np.array([3]))
    assert torch.equal(row.x[0, :, 0] * 255, torch.from_numpy(task.data.train.values[3, :, 0]).float())


def test_images_that_do_not_fit_are_refused(pictures):
    (pictures / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(9))))
    with pytest.raises(DataError, match="a label for each of 10 images of .*, found 9"):
        sets.load(pictures)
    (pictures / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.full(10, 7))))
    with pytest.raises(DataError, match="labels from 0 to 1 as training has, found 7 for image 0 of the test part"):
        sets.load(pictures)
    (pictures / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="expected t10k-labels-idx1-ubyte or .* found neither"):
        sets.load(pictures)


def test_the_known_sets_are_what_they_should_be():
    needs("sst2")
    needs("mnist")
    films = sets.load("sst2", data_dir=DATA)
    assert (len(films.train.labels) + len(films.valid.labels), len(films.test.labels)) == (6920, 872)
    digits = sets.load("mnist", data_dir=DATA)
    assert [len(part.labels) for part in (digits.train, digits.valid, digits.test)] == [55_000, 5_000, 10_000]
    assert digits.train.labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert digits.train.values.shape == (55_000, 784, 1)


@pytest.fixture
def task(table):
    return labels.LabelsTask(labels.Config(batch=16, bucket=3), sets.load(table))


def test_an_idx_file_is_read_no_further_than_its_head_says(tmp_path, monkeypatch):
    """Packed, a few kilobytes may hold gigabytes."""
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(idx(np.zeros((2, 3, 4))) + b"\0" * (20 << 20)))
    read = []
    real = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, size=-1: read.append(size) or real(self, size))
    with pytest.raises(DataError, match="expected 2 × 3 × 4 = 24 bytes after the head, found .* or more"):
        read_idx(path, 3)
    assert read == [16, 1 << 20]


def test_images_that_cannot_be_held_are_refused_with_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr("recollect.core.limits.LARGE", 0)
    monkeypatch.setattr("recollect.core.limits.free_memory", lambda: 5_000)
    (tmp_path / "file").write_bytes(idx(np.zeros((30, 10, 10))))
    with pytest.raises(ValueError, match="the array of .*: expected at most .* free, found 9"):
        read_idx(tmp_path / "file", 3)


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_an_idx_file_that_is_no_file_is_refused(tmp_path, kind):
    path = tmp_path / kind
    os.mkfifo(path) if kind == "fifo" else path.symlink_to("/dev/zero")
    with pytest.raises(DataError, match="expected a regular file, found a"):
        read_idx(path, 3)
