"""Lines in, lines out: translations do not depend on what they are batched with."""

import math
from dataclasses import replace

import pytest
import torch

from recollect.decode import beam, translate
from recollect.decode.cores import map_on_cores
from recollect.models import seq2seq
from tasks.translation.cases import build, load


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(tmp_path_factory.mktemp("data"))


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


def translated(model, data, texts, **how):
    search = how.pop("search", beam.Config(beam=2, extra=4))
    found = list(translate.lines(model, data.source, data.target, texts, search, **how))
    return [text for text, _, _ in found], [[h.tokens for h in best] for _, _, best in found]


DRAWN = beam.Config(beam=1, temperature=1.0, extra=4, length_penalty=0.0, seed=5)


def test_every_line_comes_back_in_its_place_and_what_says_nothing_with_nothing(data):
    """Empty lines, and a line of nothing but unknown words."""
    texts, best = translated(build(data), data, LINES)
    assert texts == LINES
    assert [bool(found) for found in best] == [bool(line.strip()) and line != LINES[-1] for line in LINES]
    assert best[0] == best[6]
    assert len({str(found) for found in best if found}) > 2, "the model has something to say"


@pytest.mark.parametrize("search", [beam.Config(beam=2, extra=4), DRAWN], ids=["searched", "drawn"])
@pytest.mark.parametrize("together", [1, 2, 3, 7])
@pytest.mark.parametrize("tokens", [1, 12, 4096])
def test_a_translation_does_not_depend_on_what_it_is_read_or_batched_with(data, search, together, tokens):
    model = build(data)
    expected = translated(model, data, LINES, search=search)
    assert translated(model, data, LINES, search=search, together=together, tokens=tokens) == expected


def test_lines_are_drawn_each_by_its_own_number_and_the_seed(data):
    model = build(data)
    _, found = translated(model, data, ["the cat"] * 12, search=DRAWN)
    assert len({str(best) for best in found}) > 6
    _, other = translated(model, data, ["the cat"] * 12, search=replace(DRAWN, seed=6))
    assert found != other
    _, later = translated(model, data, ["", "", *["the cat"] * 10], search=DRAWN)
    assert later[2:] == found[2:], "an empty line has a number too"


def test_lines_are_read_only_so_far_ahead_as_is_needed(data):
    read = 0

    def endless():
        nonlocal read
        for number in range(10**6):
            read += 1
            yield "the cat" if number % 3 else ""

    lines = translate.lines(build(data), data.source, data.target, endless(), beam.Config(beam=1), together=4)
    assert read == 0
    for written in range(1, 11):
        next(lines)
        assert read == 4 * math.ceil(written / 4)


def test_no_batch_holds_more_tokens_than_it_may(data, monkeypatch):
    sizes = []
    real = translate.encode

    def encode(model, side, rows):
        sizes.append((len(rows), max(map(len, rows)) + 1))
        return real(model, side, rows)

    monkeypatch.setattr(translate, "encode", encode)
    translated(build(data), data, LINES * 4, tokens=18)
    assert all(count == 1 or count * longest <= 18 for count, longest in sizes)
    assert any(count > 2 for count, _ in sizes)


def test_a_written_newline_does_not_part_a_line():
    assert translate.one_line("a\nb\r\nc d") == "a b  c d"


def test_what_came_before_a_line_that_cannot_be_read_is_translated(data):
    def lines():
        yield from ["a b", "c"]
        raise ValueError("line 3 is no text")

    torch.manual_seed(0)
    model = seq2seq.Config(source=data.source.size, target=data.target.size, width=8).build().eval()
    found = translate.lines(model, data.source, data.target, lines(), beam.Config(beam=1, extra=2, ratio=0.5))
    assert [next(found)[0], next(found)[0]] == ["a b", "c"]
    with pytest.raises(ValueError, match="line 3"):
        next(found)


def test_batches_hold_every_row_once_within_the_limit_and_start_with_the_longest():
    lengths = [3, 9, 1, 9, 2, 7, 7, 30, 5]
    batches = translate.cut_batches(lengths, tokens=40, cores=2)
    assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
    for batch in batches:
        longest = max(lengths[row] for row in batch)
        assert len(batch) == 1 or len(batch) * longest <= 20
    heads = [lengths[batch[0]] for batch in batches]
    assert heads == sorted(heads, reverse=True)


def test_few_rows_are_spread_over_the_cores():
    lengths = [10] * 100
    assert len(translate.cut_batches(lengths, tokens=4096, cores=1)) == 1
    assert [len(batch) for batch in translate.cut_batches(lengths, tokens=4096, cores=2)] == [50, 50]
    assert len(translate.cut_batches([10] * 20, tokens=4096, cores=2)) == 1  # too few to be worth a core


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_computations_side_by_side_give_their_results_in_order_and_the_threads_back(cores):
    threads = torch.get_num_threads()
    torch.set_num_threads(cores)
    try:
        seen = set()

        def square(number):
            seen.add(torch.get_num_threads())
            return number**2

        assert map_on_cores(square, range(20), cores) == [number**2 for number in range(20)]
        assert seen == {1}
        with pytest.raises(ZeroDivisionError):
            map_on_cores(lambda number: 1 / (number - 3), range(20), cores)
        assert torch.get_num_threads() == cores
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("search", [beam.Config(beam=2, extra=4), DRAWN], ids=["search", "drawn"])
def test_the_number_of_cores_changes_no_translation(data, monkeypatch, search):
    model, texts = build(data), LINES * 4
    monkeypatch.setattr(translate, "count_cores", lambda device: 1)
    alone = translated(model, data, texts, search=search)
    monkeypatch.setattr(translate, "count_cores", lambda device: 2)
    monkeypatch.setattr(translate, "FEWEST", 1)
    assert translated(model, data, texts, search=search) == alone
