"""Folds by speaker: what is trained, and on whom it is measured."""

import json
import sys

import pytest
from recipes import run, speakers


def settings_of(job):
    return dict(change.split("=", 1) for change in run.parse(job)[3].split(","))


def test_each_speaker_is_the_test_of_every_recipe_once():
    wanted = list(speakers.list_tests(["labels/fsdd-gru", "labels/fsdd-tcn"], ["0", "1"]))
    heard = {(run.parse(own.job)[0], run.parse(own.job)[2], settings_of(own.job)["test_speaker"]) for own in wanted}
    assert len(wanted) == len(heard) == len({own.name for own in wanted}) == 2 * 2 * 6
    assert {own.split for own in wanted} == {"test"}


def test_a_candidate_is_judged_by_a_speaker_and_for_a_fold_whose_speaker_it_has_not_heard_either():
    wanted = list(speakers.list_candidates(["labels/fsdd-gru"], list(speakers.CANDIDATES)))
    assert len({own.name for own in wanted}) == len(wanted) == 6 * len(speakers.CANDIDATES)
    assert len({own.place for own in wanted}) == len({own.job for own in wanted}) == len(wanted) / 2
    for own in wanted:
        settings = settings_of(own.job)
        left_out = {settings["test_speaker"], settings["valid_speaker"]}
        assert left_out == {own.about["fold"], own.about["validation"]}
        assert settings["valid_speaker" if own.split == "valid" else "test_speaker"] == own.about["validation"]
        assert settings["eval_every"] == settings["steps"]  # validation picks no weights


@pytest.mark.parametrize("stopped", [0, 1])
def test_what_stands_in_the_rows_is_not_trained_again(tmp_path, monkeypatch, stopped):
    trained = []
    monkeypatch.setattr(speakers, "train", lambda want, out, data_dir: trained.append(want.name))
    monkeypatch.setattr(speakers, "measure", lambda want, out, data_dir: {"recipe": want.name, "accuracy": 0.5})
    rows = tmp_path / "rows.jsonl"
    arguments = ["speakers", "test", "labels/fsdd-gru", "--out", str(tmp_path), "--rows", str(rows)]
    monkeypatch.setattr(sys, "argv", arguments)
    speakers.main()
    assert len(trained) == 6
    rows.write_text("".join(rows.read_text().splitlines(keepends=True)[stopped:]))
    trained.clear()
    speakers.main()
    assert len(trained) == stopped
    assert len({json.loads(line)["recipe"] for line in rows.read_text().splitlines()}) == 6
