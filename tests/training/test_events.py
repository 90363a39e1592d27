"""Event files of TensorBoard, read back by a reader of their format that shares no code with the writer."""

import struct
from pathlib import Path

import pytest

import recollect
from recollect.core.settings import ContractError
from recollect.training import events
from recollect.training.folder import RunFolder


def crc(content):
    """CRC-32C bit by bit."""
    found = 0xFFFFFFFF
    for byte in content:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 * (found & 1))
    return found ^ 0xFFFFFFFF


def masked(content):
    found = crc(content)
    return (((found >> 15) | (found << 17)) + 0xA282EAD8) % 2**32


def read_records(path):
    content, found = path.read_bytes(), []
    while content:
        length, check = struct.unpack("<QI", content[:12])
        assert check == masked(content[:8])
        record = content[12 : 12 + length]
        (check,) = struct.unpack("<I", content[12 + length : 16 + length])
        assert check == masked(record)
        found.append(fields(record))
        content = content[16 + length :]
    return found


def fields(content):
    """{number: values} of a message of protocol buffers."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = content[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(content):
        key = number()
        kind = key & 7
        if kind == 0:
            value = number()
        elif kind == 2:
            length = number()
            value, at = content[at : at + length], at + length
        else:
            size = {1: 8, 5: 4}[kind]
            value, at = content[at : at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


def read_values(path):
    """(step, tag, value) of every scalar, and the steps at which the file begins anew."""
    found, begun = [], []
    for event in read_records(path):
        step = event.get(2, [0])[0]
        if 7 in event:
            begun.append(step)
        for summary in event.get(5, []):
            for value in fields(summary)[1]:
                own = fields(value)
                found.append((step, own[1][0].decode(), struct.unpack("<f", own[2][0])[0]))
    return found, begun


def test_the_checksum_is_that_of_the_standard():
    assert events.crc32c(b"123456789") == 0xE3069283
    assert events.crc32c(bytes(32)) == 0x8A9136AA


def test_a_training_writes_what_its_metrics_hold(tmp_path):
    out = tmp_path / "run"
    settings = {"width": 4, "batch": 2, "eval_rows": 4, "log_every": 2, "eval_every": 4}
    recollect.train(
        "recall", model="gru", steps=8, out=out, log="tensorboard", progress=False, device="cpu", **settings
    )
    (path,) = out.glob("events.out.tfevents.*")
    values, begun = read_values(path)
    rows = RunFolder(out).metrics()
    losses = {row["step"]: row["loss"] for row in rows if "loss" in row}
    assert {step: value for step, tag, value in values if tag == "train/loss"} == pytest.approx(losses, rel=1e-6)
    valid = {row["step"]: row["valid"] for row in rows if "valid" in row}
    assert {step: value for step, tag, value in values if tag == "valid/error"} == pytest.approx(valid, rel=1e-6)
    assert begun == [1]
    recollect.resume(out, steps=12, log="tensorboard", progress=False, device="cpu")
    begun = [step for path in out.glob("events.out.tfevents.*") for step in read_values(path)[1]]
    assert sorted(begun) == [1, 9]  # whatever an earlier try logged from there on is void


def test_every_run_of_a_race_writes_one(tmp_path):
    recollect.race(
        "recall", models="gru", budget=2, seeds=1, jobs=1, out=tmp_path, log="tensorboard", search="committed",
        progress=False, device="cpu", eval_rows=8,
    )  # fmt: skip
    (path,) = Path(tmp_path).rglob("events.out.tfevents.*")
    assert read_values(path)[0]


def test_numbers_beyond_all_bounds_are_infinite(tmp_path):
    file = events.EventFile(tmp_path, "error")
    file.write({"step": 1, "loss": 1e300, "norm": float("nan"), "memory": None})
    assert file.path is not None
    values = {tag: value for _, tag, value in read_values(file.path)[0]}
    assert values["train/loss"] == float("inf")
    assert str(values["train/gradient_norm"]) == "nan"
    assert "train/bytes_of_memory" not in values


def test_another_log_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(ContractError, match="did you mean 'tensorboard'"):
        recollect.train("recall", out=tmp_path / "run", log="tensorbord", progress=False)
    assert not (tmp_path / "run").exists()
