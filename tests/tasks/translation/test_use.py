"""`recollect translate` and the other commands on a run of translation."""

import io
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from recollect import cli
from recollect.decode import translate
from recollect.tasks.decoding import search_settings
from recollect.tasks.translation.instruments import align
from recollect.tasks.translation.task import TranslationTask
from recollect.training import checkpoint, evaluation
from recollect.training import run as runs
from recollect.training.folder import RunFolder
from tasks.cases import TRAIN, VALID, table
from tasks.translation.cases import configure

LINES = [
    "the cat",
    "",
    "a dog sees the cat",
    "   ",
    "eats",
    "\t",
    "the cat",
    "a fish sleeps",
    "",
    "nobody knows this word",
]


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """`recollect …` in this process, with bytes on stdin."""

    def run(*argv, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, argv)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as done:
            code = done.code or 0
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small trained run: a transformer of two layers with two heads each."""
    folder = tmp_path_factory.mktemp("run")
    files = [table(folder / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(folder / "cache"))
        torch.set_num_threads(1)
        runs.train(TranslationTask, configure(files, "transformer", steps=30, layers=2, lr=0.01), str(folder / "run"))
    return folder / "run"


def refused(done, *parts):
    """One line on stderr, and nothing else."""
    assert done.code == 1
    assert done.err.startswith("recollect: ")
    assert done.err.count("\n") == 1, done.err
    assert done.out == ""
    for part in parts:
        assert part in done.err


def test_lines_from_stdin_are_translated_to_as_many_on_stdout(command, run):
    done = command("translate", run, stdin="\n".join(LINES).encode())
    assert done.code == 0
    used = runs.load(run)
    found = translate.lines(used.model, *used.artifacts, LINES, search_settings(used.config.task))
    expected = [used.artifacts[1].decode(best[0].tokens) if best else "" for _, _, best in found]
    assert done.out == "".join(f"{text}\n" for text in expected)
    assert done.out.count("\n") == len(LINES)
    assert any(expected)


def test_a_line_of_nothing_but_unknown_words_is_warned_of_and_stays_empty(command, tmp_path):
    files = [table(tmp_path / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
    config = configure(files, "fixed", steps=1)
    runs.train(TranslationTask, config, str(tmp_path / "run"))
    done = command("translate", tmp_path / "run", "--json", stdin=b"the cat\nxyzzy plugh\n\nthe xyzzy\n")
    assert done.code == 0
    assert done.err == "warning: line 2: nothing but unknown tokens, so no translation\n"
    best = [json.loads(line)["best"] for line in done.out.splitlines()]
    assert [bool(each) for each in best] == [True, False, False, True]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (b"the cat\r\n\r\neats\r\n", 3),
        (b"\xef\xbb\xbfthe cat\n\neats\n", 3),
        (b"the cat\n\neats", 3),
        (b"", 0),
        (b"\n", 1),
    ],
    ids=["carriage returns", "byte-order mark", "no last newline", "nothing", "an empty line"],
)
def test_how_lines_end_and_files_begin_changes_nothing(command, run, given, lines):
    done = command("translate", run, stdin=given)
    assert done.code == 0
    plain = command("translate", run, stdin=b"the cat\n\neats\n").out.splitlines(keepends=True)
    assert done.out == ("".join(plain) if lines == 3 else "\n" * lines)
    rows = [json.loads(line) for line in command("translate", run, "--json", stdin=given).out.splitlines()]
    assert [row["source"] for row in rows] == (["the cat", "", "eats"] if lines == 3 else [""] * lines)


def test_what_only_looks_like_the_end_of_a_line_is_none(command, run):
    given = "the\u2028cat\u0085sees\x0b\x0ca dog\neats\n"
    done = command("translate", run, "--json", stdin=given.encode())
    rows = [json.loads(line) for line in done.out.split("\n")[:-1]]
    assert [row["source"] for row in rows] == given.split("\n")[:-1]
    assert command("translate", run, stdin=given.encode()).out.count("\n") == 2


def test_a_mark_within_the_text_is_part_of_it(command, run):
    done = command("translate", run, "--json", stdin="eats\n\ufeffeats\n".encode())
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == ["eats", "\ufeffeats"]


def test_a_newline_that_a_model_writes_does_not_part_a_line(command, run, tmp_path):
    """`<eos>`, a newline, is in every vocabulary of words; a model that has learned little may write it."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (broken / name).write_bytes((run / name).read_bytes())
    tensors, note = checkpoint.read_tensors(run / "model.safetensors")
    tensors["head.bias"][1] = 100.0
    checkpoint.write_tensors(broken / "model.safetensors", tensors, note)
    assert runs.load(broken).artifacts[1].decode([1, 1]) == "\n\n"
    done = command("translate", broken, "--beam", 1, stdin=b"the cat\n\neats\n")
    assert done.code == 0
    assert done.out.count("\n") == 3


def test_n_best_lists_are_numbered_and_sorted(command, run):
    done = command("translate", run, "--nbest", 3, "--beam", 4, stdin=b"the cat\n\neats\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "3", "3", "3"]
    for part in (rows[:3], rows[3:]):
        scores = [float(score) for _, score, _ in part]
        assert scores == sorted(scores, reverse=True)
        assert len({text for _, _, text in part}) == 3
    best = command("translate", run, "--beam", 4, stdin=b"the cat\n\neats\n").out.splitlines()
    assert [rows[0][2], rows[3][2]] == [best[0], best[2]]


def test_a_line_longer_than_a_sentence_of_a_file_may_be_is_refused_with_its_number(command, run):
    done = command("translate", run, stdin=b"the cat\n" + b"x" * ((1 << 20) + 1))
    assert done.code == 1
    line = "recollect: line 2: expected at most 1,048,576 characters, found 1,048,577; break it up"
    assert done.err.splitlines()[-1] == line


def test_a_longer_n_best_list_widens_the_beam(command, run):
    done = command("translate", run, "--nbest", 9, stdin=b"the cat\n")
    assert len(done.out.splitlines()) == 9


def test_json_is_one_object_a_line(command, run):
    done = command("translate", run, "--json", "--nbest", 2, stdin="the cat\n\né cat\n".encode())
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert [row["source"] for row in rows] == ["the cat", "", "é cat"]
    assert [len(row["best"]) for row in rows] == [2, 0, 2]
    assert set(rows[0]["best"][0]) == {"text", "score", "finished"}
    assert "é" in done.out, "letters are not escaped"


def test_maps_and_pairs_are_written_for_every_line_that_has_words(command, run, tmp_path):
    place, pairs = tmp_path / "map.svg", tmp_path / "pairs.txt"
    flags = ["--alignment", place, "--alignment-text", pairs, "--layer", 2, "--head", 1]
    done = command("translate", run, *flags, stdin=b"the cat sees\n\neats\n")
    assert done.code == 0
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["map-3.svg", "map.svg"]
    words = [re.findall(">([^<>]+)</text>", path.read_text("utf-8")) for path in (place, tmp_path / "map-3.svg")]
    assert [word for word in ("the", "cat", "sees", "eats") if word in words[0]] == ["the", "cat", "sees"]
    assert "eats" in words[1]
    assert all("Attention, layer 2 head 1" in found for found in words)
    assert done.out == command("translate", run, stdin=b"the cat sees\n\neats\n").out, "looking changes nothing"
    used, found = runs.load(run), pairs.read_text("utf-8").split("\n")
    assert len(found) == 4
    assert found[1] == found[3] == ""
    search = search_settings(used.config.task)
    for line, text in ((found[0], "the cat sees"), (found[2], "eats")):
        ((_, ids, best),) = translate.lines(used.model, *used.artifacts, [text], search)
        aligned = align(used, ids, best[0], layer=2, head=1)
        assert line == " ".join(f"{source}-{target}" for source, target in aligned.pairs)
        assert len(line.split()) == len(used.artifacts[1].decode(best[0].tokens).split()), "one pair a word"


def test_a_model_without_attention_shows_influence_in_the_same_picture(command, files, tmp_path):
    runs.train(TranslationTask, configure(files, "fixed", steps=2), str(tmp_path / "run"))
    place = tmp_path / "map.svg"
    done = command("translate", tmp_path / "run", "--alignment", place, stdin=b"the cat sees\n")
    assert done.code == 0
    assert ">Influence of each source token, by gradient<" in place.read_text("utf-8")
    refused(
        command("translate", tmp_path / "run", "--alignment", place, "--head", 1, stdin=b"the cat\n"),
        "expected a model with attention for a layer or a head, found one without",
    )


def test_draws_are_repeated_by_their_seed(command, run):
    given = b"the cat\n" * 8
    first, again, other = (
        command("translate", run, "--temperature", 1.5, "--seed", seed, stdin=given).out for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(set(first.splitlines())) > 2


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--nbest", 9, "--beam", 3], ["expected nbest of at most beam (3), found 9"]),
        (["--beam", 0], ["expected beam to be a whole number of at least 1, found 0"]),
        (["--beam", 2, "--temperature", 1], ["expected beam 1 with a temperature, found 2"]),
        (["--nbest", 2, "--temperature", 1], ["expected nbest 1 with a temperature, found 2", "another seed"]),
        (["--temperature", 0], ["expected temperature above 0, found 0.0", "leave it out and set beam 1"]),
        (["--top-k", 3], ["expected a temperature with top_k"]),
        (["--alignment", "map.gif"], ["map.gif: expected a figure that ends in .png, .svg, .pdf"]),
        (["--alignment-text", "no/such/folder/a.txt"], ["no/such/folder/a.txt"]),
        (["--alignment", "map.png", "--layer", 3], ["expected one of layer 1 head 1,", "found layer 3;"]),
        (["--alignment-text", "pairs.txt", "--head", 0], ["found head 0;"]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_what_cannot_be_done_is_told_in_one_line(command, run, tmp_path, monkeypatch, argv, parts):
    monkeypatch.chdir(tmp_path)
    refused(command("translate", run, *argv, stdin=b"the cat\n"), *parts)


def test_a_line_that_is_not_utf8_is_named_and_those_before_it_are_translated(command, run):
    done = command("translate", run, stdin=b"the cat\n\na caf\xe9\n")
    assert done.out.count("\n") == 2
    refused(done._replace(out=""), "stdin, line 3: expected UTF-8, found a byte")


def test_a_folder_that_is_no_translation_run_is_refused(command, tmp_path):
    refused(command("translate", tmp_path / "nothing"), "expected a run folder, found nothing")
    refused(command("translate", tmp_path), "expected a run folder with a config.json")
    RunFolder.create(tmp_path / "text", {"task": "text"})
    refused(command("translate", tmp_path / "text"), 'expected the run of a translation task, found one of "text"')


def test_flags_of_another_task_are_refused_on_the_command_line(command, tmp_path):
    out = tmp_path / "run"
    refused(
        command("train", "translation", "--target", "x", "--out", out), "--target: expected a flag of the task trans"
    )
    refused(command("train", "text", "--pair", "en-de", "--out", out), "--pair: expected a flag of the task text")
    assert not out.exists()


def test_a_run_is_trained_measured_and_verified_by_its_commands(command, files, tmp_path):
    out = tmp_path / "run"
    flags = ["--data", files[0], "--valid", files[1], "--pair", "en-fr", "--tokenizer", "words", "--model", "conv"]
    size = ["--width", 8, "--steps", 2, "--set", "batch=40", "--device", "cpu"]
    assert command("train", "translation", *flags, *size, "--out", out).code == 0
    assert command("verify", out).code == 0
    assert "chrF" in command("eval", out, "--device", "cpu").out
    found = json.loads(command("eval", out, "--device", "cpu", "--json").out)
    assert found["metric"]["name"] == "bleu"
    refused(command("eval", out, "--split", "source", "--device", "cpu"), "expected a source part, found none")
    refused(command("eval", out, "--rule", "sliding", "--device", "cpu"), "--rule: expected a task with several rules")


def test_the_cell_has_a_flag(command, files, tmp_path):
    flags = ["--data", files[0], "--valid", files[1], "--tokenizer", "words", "--model", "fixed", "--device", "cpu"]
    size = ["--width", 8, "--steps", 1, "--set", "batch=40"]
    assert command("train", "translation", *flags, *size, "--cell", "lstm", "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["cell"] == "lstm"
    other = command("train", "translation", *flags, *size, "--cell", "mlp", "--out", tmp_path / "other")
    refused(other, "cell: expected one of gru, lstm, rnn, found 'mlp'")


def test_the_columns_of_a_table_are_a_setting(command, files, tmp_path):
    """Source and target need not be the first two."""
    for path in map(Path, files):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        path.write_text("".join(f"{source}\tnothing\t{target}\n" for source, target in rows))
    flags = ["--data", files[0], "--valid", files[1], "--tokenizer", "words", "--pair", "en-fr", "--device", "cpu"]
    size = ["--width", 8, "--steps", 1, "--set", "batch=40"]
    done = command("train", "translation", *flags, *size, "--set", "columns=1,3", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    used = runs.load(str(tmp_path / "run"))
    assert used.config.data.columns == (1, 3)
    assert TranslationTask.load_data(used.config.data, None, used.artifacts).valid.target_of(0).tolist() == (
        used.artifacts[1].encode(VALID[0][1]).tolist()
    )
    assert evaluation.evaluate(str(tmp_path / "run"), split="valid", data=[str(files[0])])["forced"]
    for text, message in (
        ("1", "expected two columns counted from 1, such as 1,3, found (1,)"),
        ("0,1", "expected two columns counted from 1, such as 1,3, found (0, 1)"),
        ("a,b", "columns: expected a number such as 500, 10k or 1M, found 'a'"),
        ("1,4", "expected text in columns 1 and 4"),
    ):
        other = command("train", "translation", *flags, *size, "--set", f"columns={text}", "--out", tmp_path / "other")
        refused(other, message)
