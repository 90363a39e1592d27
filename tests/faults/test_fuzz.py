"""Valid artifacts altered at random: every reader takes them or refuses them in one line, and leaves them as they were.

A few inputs of each reader here, many with HYPOTHESIS_PROFILE=deep and in `./recollect test deep`; `tools/fuzz.py` runs
the same for as long as one likes. What was found stands as a test of its own.
"""

import shutil

import hypothesis
import pytest
import torch
from tools.commands import Commands

from faults.fuzzing import attempts, readers

READERS = (
    "runs of text", "runs of translation", "runs of series", "runs of captions", "runs of films", "runs of labels",
    "runs of ratings", "runs of transcribe",
    "runs of memory", "checkpoints", "states", "settings", "recipes", "races", "claims", "caches", "ARPA", "layers",
    "texts", "tables of series", "tables of labels", "tables of ratings", "sentence pairs", "IDX", "pictures", "films",
    "recordings",
)  # fmt: skip
FEW, MANY = 3, 60


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Everything valid by its reader, its folder, and the process that reads."""
    place = tmp_path_factory.mktemp("fuzzing")
    torch.set_num_threads(1)  # this comes before the fixture that does so for every test
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        found = readers.build(place / "valid", with_exports=False)
    commands = Commands(place, *attempts.MODULES, path=attempts.TESTS)
    yield found, place / "valid", commands
    commands.close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The same for exported folders, which take seconds to make."""
    place = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        found = {"exports": readers.exports(place / "valid")}
    commands = Commands(place, *attempts.MODULES, path=attempts.TESTS)
    yield found, place / "valid", commands
    commands.close()


def put_before(reader, prepared, place, count):
    """Altered inputs before one reader; the first failure is shown with the input that led to it."""
    found, valid, commands = prepared

    @hypothesis.settings(max_examples=count, phases=[hypothesis.Phase.generate], database=None)
    @hypothesis.given(attempts.attempts(valid, found[reader]))
    def read(attempt):
        shutil.rmtree(place, ignore_errors=True)
        outcome = attempts.run(commands, valid, attempt, place)
        assert outcome.kind in attempts.FINE, f"{outcome.kind}: {attempt.describe()}\n{outcome.done.err}"

    read()


def count():
    """How many inputs a reader gets: more in the deep profile."""
    deep = hypothesis.settings().max_examples > hypothesis.settings.get_profile("house").max_examples
    return MANY if deep else FEW


def test_every_reader_is_named_here(prepared):
    assert sorted(prepared[0]) == sorted(READERS)


@pytest.mark.parametrize("kind", attempts.KINDS)
def test_every_way_to_end_is_told_from_the_others(kind, prepared, tmp_path):
    _, valid, commands = prepared
    command = ("report", "{given}") if kind == "one line" else ("call", readers.CALLS, "end", kind, "{given}")
    start = readers.Start("written", (), (command,))
    assert (
        attempts.run(commands, valid, attempts.Attempt(start, command, ()), tmp_path / "case", seconds=1).kind == kind
    )


@pytest.mark.parametrize("reader", READERS)
def test_an_altered_input_is_taken_or_refused_in_one_line(reader, prepared, tmp_path):
    put_before(reader, prepared, tmp_path / "case", count())


@pytest.mark.deep
@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("reader", READERS)
def test_many_altered_inputs_are_taken_or_refused_in_one_line(reader, prepared, tmp_path):
    put_before(reader, prepared, tmp_path / "case", MANY)


@pytest.mark.slow
def test_an_altered_export_is_taken_or_refused_in_one_line(exported, tmp_path):
    put_before("exports", exported, tmp_path / "case", count())


@pytest.mark.slow
def test_what_the_fuzzing_begins_with_is_valid(prepared, tmp_path):
    """Else a reader would refuse every input for another reason, and nothing would be tested."""
    found, valid, commands = prepared
    refused = []
    for reader, starts in found.items():
        for number, start in enumerate(starts):
            for command in start.commands:
                place = tmp_path / f"{reader}-{number}"
                shutil.rmtree(place, ignore_errors=True)
                outcome = attempts.run(commands, valid, attempts.Attempt(start, command, ()), place)
                if outcome.kind != "accepted":
                    refused.append((reader, start.folder, command, outcome.place))
    assert refused == []
