"""What each test of memory asks, against a plain reading of its definition."""

import math
import random
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from recollect.core.contract import ContractError
from recollect.tasks.memory import data as tests
from recollect.tasks.memory import gap_text, sentences
from recollect.tasks.memory.random_choices import distinct
from tasks.memory.cases import small


def drawn(test, rows=200, part="train", seed=0, number=0):
    """Rows as plain Python lists: x, at, y of each."""
    return list(zip(*(array.tolist() for array in test.batch(part, seed, number, rows)), strict=True))


def test_copy_is_symbols_then_silence_then_the_delimiter_and_asks_for_the_symbols():
    seen = Counter()
    for x, at, y in drawn(tests.Copy(distance=5, load=3)):
        said = x[:3]
        assert all(0 <= symbol < 8 for symbol in said)
        assert x == [*said, 8, 8, 8, 8, 9, 8, 8, 8]
        assert y == [8] * 8 + said
        assert at == list(range(11))
        seen.update(said)
    assert set(seen) == set(range(8))


def test_copy_can_ask_for_the_answers_alone():
    for x, at, y in drawn(tests.Copy(distance=5, load=3, all_steps=False)):
        assert (at, y) == ([8, 9, 10], x[:3])


def test_the_longest_copy_has_as_many_steps_as_the_papers_say():
    test = tests.Copy(distance=1000)
    assert (test.steps, test.inputs, test.judged) == (1020, 10, 10)
    assert test.baselines()["chance"] == pytest.approx(10 * math.log(8) / 1020)
    assert test.baselines()["chance"] == pytest.approx(0.0204, abs=5e-5)


@pytest.mark.parametrize("length", [2, 7, 30])
def test_adding_asks_at_the_end_for_the_sum_of_one_number_from_each_half(length):
    places = Counter()
    for x, at, y in drawn(tests.Adding(length=length)):
        marked = [step for step, (_, mark) in enumerate(x) if mark == 1]
        assert all(mark in (0, 1) and 0 <= value < 1 for value, mark in x)
        assert len(marked) == 2
        assert marked[0] < length // 2 <= marked[1]
        assert at == [length - 1]
        assert y[0] == pytest.approx(x[marked[0]][0] + x[marked[1]][0], abs=1e-6)
        places.update(marked)
    assert set(places) == set(range(length)) or length == 30


@pytest.mark.parametrize("filler", ["zero", "random"])
def test_recall_is_pairs_and_then_each_key_once_where_its_value_is_the_answer(filler):
    test = tests.Recall(length=24, load=4, vocab=64, filler=filler)
    rest = Counter()
    for x, at, y in drawn(test):
        pairs = dict(zip(x[0:8:2], x[1:8:2], strict=True))
        assert len(pairs) == len(set(pairs.values())) == 4
        assert all(1 <= key < 32 <= value < 64 for key, value in pairs.items())
        assert [x[place] for place in at] == list(pairs), "each key is asked once"
        assert y == [pairs[x[place]] for place in at]
        assert all(place >= 8 and place % 2 == 0 for place in at)
        rest.update(token for place, token in enumerate(x) if place >= 8 and place not in at)
    assert set(rest) == ({0} if filler == "zero" else set(range(64)))


def test_a_key_that_comes_again_is_answered_by_its_last_value():
    test, places = tests.Recall(length=40, load=4, vocab=64, rounds=3), set()
    for x, at, y in drawn(test, rows=50):
        keys, values = x[:24:2], x[1:24:2]
        assert sorted(Counter(keys).values()) == [3] * 4
        assert len(set(values)) == 12
        assert min(values) >= 32 > max(keys)
        latest = dict(zip(keys, values, strict=True))
        assert [latest[x[step]] for step in at] == y
        places.add(tuple(sorted(11 - keys[::-1].index(key) for key in latest)))
    assert len(places) > 10  # whether a pair is the last of its key does not follow from where it stands
    assert test.baselines()["one of the values of the key"] == pytest.approx(2 / 3)


def test_settings_that_came_later_leave_what_was_drawn_before_as_it_was():
    plain, again = tests.Recall(length=64, load=4, vocab=64), tests.Recall(length=64, load=4, vocab=64, rounds=2)
    assert plain.fingerprint == "4e3491c4f69b11b1714badd8cec65ca985c40f7d212c9a86e382a44479a7e3e4"
    assert plain.name == "recall, length 64, load 4, vocab 64"
    assert again.name == f"{plain.name}, rounds 2"
    assert plain.fingerprint != again.fingerprint
    assert again.settings()["rounds"] == 2


def test_recall_has_zoologys_settings():
    test = tests.Recall()
    assert (test.length, test.load, test.vocab, test.power, test.filler) == (64, 4, 8192, 0.01, "zero")
    for length, load in ((128, 8), (256, 16)):
        x, _, y = tests.Recall(length=length, load=load).batch("train", 0, 0, 5)
        assert x.shape == (5, length)
        assert y.shape == (5, load)


def test_queries_are_drawn_by_the_power_law_without_repetition():
    """Three slots, two keys: the chance of each ordered pair is w_i · w_j / (1 − w_i)."""
    test = tests.Recall(length=10, load=2, vocab=16, power=0.5)
    count = 20_000
    found = Counter(tuple((place - 4) // 2 for place in at) for _, at, _ in drawn(test, count))
    weights = np.array([1, 2, 3]) ** -0.5
    weights = weights / weights.sum()
    for i in range(3):
        for j in set(range(3)) - {i}:
            expected = weights[i] * weights[j] / (1 - weights[i])
            assert found[i, j] / count == pytest.approx(expected, abs=4 * math.sqrt(expected / count))
    assert sum(found.values()) == count
    assert len(found) == 6


def test_every_choice_of_keys_is_as_likely_as_any_other():
    found = Counter(map(tuple, distinct(np.random.default_rng(0), 24_000, 3, 4).tolist()))
    assert len(found) == 4 * 3 * 2
    assert all(count == pytest.approx(1000, abs=130) for count in found.values())
    whole = distinct(np.random.default_rng(0), 50, 7, 7)
    assert (np.sort(whole, axis=1) == np.arange(7)).all()


def test_parity_says_after_each_bit_whether_the_ones_so_far_are_odd():
    for x, at, y in drawn(tests.Parity(length=9, vary=False, reach=1)):
        assert at == list(range(9))
        assert y == [sum(x[: t + 1]) % 2 for t in range(9)]
        assert set(x) <= {0, 1}


@pytest.mark.parametrize("shuffle", ["all", "pair"])
@pytest.mark.parametrize("length", [2, 3, 9])
def test_order_asks_whether_different_numbers_rise(length, shuffle):
    answers = Counter()
    for x, at, y in drawn(tests.Order(length=length, vocab=20, shuffle=shuffle), 400):
        assert len(set(x)) == length
        assert set(x) <= set(range(20))
        assert at == [length - 1]
        falls = [step for step in range(length - 1) if x[step] > x[step + 1]]
        assert y == [int(not falls)]
        swapped = [x[step] for step in range(length)]
        if falls and shuffle == "pair":
            (step,) = falls
            swapped[step : step + 2] = reversed(swapped[step : step + 2])
            assert swapped == sorted(x)
        answers.update(y)
    assert answers[0] == pytest.approx(200, abs=60)


def words_of(test, numbers):
    return " ".join(test.word(number) for number in numbers)


@pytest.mark.parametrize("distance", [0, 3, 4, 20])
def test_clouds_ends_with_a_sentence_that_decides_the_answer_alone(distance):
    test, seen = tests.Clouds(distance=distance), set()
    for x, at, y in drawn(test):
        *text, the, thing, are, into, last = words_of(test, x).split()
        assert (the, are, into, last) == ("The", "are", "in", "the")
        assert len(text) == distance
        assert not set(text) & {*sentences.PLACES, *sentences.PLACES.values()} - {"street"}
        assert at == [test.steps - 1]
        assert words_of(test, y) == sentences.PLACES[thing]
        seen.add(thing)
    assert seen == set(sentences.PLACES)


@pytest.mark.parametrize("distance", [0, 1, 6])
def test_agreement_is_with_the_first_noun_however_many_follow(distance):
    test, nearest = tests.Agreement(distance=distance), Counter()
    for x, at, y in drawn(test, 400):
        found = re.findall(r"(?:^| )(?:(near|behind|under|above) )?the (\w+)", words_of(test, x))
        assert [bool(between) for between, _ in found] == [False] + [True] * distance
        assert at == [len(x) - 1]
        several = [noun in sentences.NOUNS.values() for _, noun in found]
        assert words_of(test, y) == ("are" if several[0] else "is")
        nearest[several[0] == several[-1]] += 1
    assert nearest[True] == (400 if not distance else pytest.approx(200, abs=60))


@pytest.mark.parametrize("depth", [0, 1, 4])
def test_nested_asks_for_a_verb_of_each_noun_the_last_first(depth):
    test = tests.Nested(depth=depth)
    for x, at, y in drawn(test):
        nouns, verbs = x[1 : 2 * depth + 2 : 2], [*x[2 * depth + 2 :], y[-1]]
        assert set(x[0 : 2 * depth + 2 : 2]) == {test.vocabulary["the"]}
        assert y == verbs, "each verb stands in the text once it was asked for"
        assert at == list(range(2 * depth + 1, 3 * depth + 2))
        several = [test.word(noun) in sentences.NOUNS.values() for noun in nouns]
        assert [test.word(verb) for verb in verbs] == ["sing" if many else "sings" for many in reversed(several)]


@pytest.mark.parametrize(
    ("distance", "distractors", "load"),
    [(20, 1, 1), (0, 0, 1), (3, 0, 1), (11, 2, 1), (10, 2, 1), (30, 4, 3), (16, 0, 8), (7, 1, 2)],
)
def test_gap_asks_for_the_language_of_a_country_named_before_the_gap(distance, distractors, load):
    test = tests.Gap(distance=distance, distractors=distractors, load=load)
    answers = Counter()
    for x, at, y in drawn(test):
        words = [gap_text.WORDS[number] for number in x]
        assert len(words) == test.steps
        facts, between, asked = words[: 6 * load], words[6 * load : 6 * load + distance], words[6 * load + distance :]
        told = re.findall(r"(\w+) (?:grew up|was raised) in (\w+) \.", " ".join(facts))
        homes = dict(told)
        assert len(homes) == load
        assert not set(homes.values()) & set(between)
        named = [word for word in between if word in gap_text.LANGUAGES]
        assert len(named) == len(set(named)) == distractors
        assert not between or between[-1] == "."
        said = asked[:]
        for place, answer in zip(at, y, strict=True):
            assert words[place] == "fluent"
            who = words[place - 2]
            if load == 1:
                assert gap_text.NAMES[next(iter(homes))] == who
                who = next(iter(homes))
            assert gap_text.WORDS[answer] == gap_text.LANGUAGES[homes.pop(who)]
            answers[gap_text.WORDS[answer]] += 1
            del said[: said.index("fluent") + 3]
        assert not said
        assert not homes, "each person is asked about once"
    assert len(answers) == 12
    assert max(answers.values()) < 2.1 * sum(answers.values()) / 12


def test_gap_is_written_in_so_many_words_that_one_can_read_them():
    assert 60 <= len(gap_text.WORDS) <= 100
    assert len(set(gap_text.WORDS)) == len(gap_text.WORDS)
    first = " ".join(gap_text.WORDS[word] for word in drawn(tests.Gap(distance=20), 1)[0][0])
    assert re.match(r"[A-Z]\w+ (grew up|was raised) in [A-Z]\w+ \. .* (She|He) speaks fluent$", first)


@pytest.mark.parametrize("kind", tests.TESTS)
def test_a_batch_is_a_function_of_part_seed_and_number(kind):
    test = small(kind)
    whole = [test.batch("train", 3, number, 6) for number in range(4)]
    again = test.batch("train", 3, 2, 6)
    for a, b in zip(whole[2], again, strict=True):
        assert a.dtype == b.dtype
        assert (a == b).all()
    texts = {rows.x.tobytes() for rows in whole}
    texts |= {test.batch("train", seed, 2, 6).x.tobytes() for seed in (0, 1, 2)}
    texts |= {test.batch(part, 3, 2, 6).x.tobytes() for part in ("valid", "test")}
    assert len(texts) == 9


@pytest.mark.parametrize("kind", tests.TESTS)
def test_validation_and_test_share_no_batch_with_any_training(kind):
    """Seeds and numbers that could be mistaken for each other give different streams."""
    test = small(kind, vary=False, reach=1)
    held = {test.batch(part, seed, number, 8).x.tobytes() for part in ("valid", "test") for seed, number in PAIRS}
    train = {test.batch("train", seed, number, 8).x.tobytes() for seed, number in PAIRS}
    assert len(held) == 2 * len(PAIRS)
    assert len(train) == len(PAIRS)
    assert not held & train


PAIRS = [(seed, number) for seed in range(4) for number in range(4)]


@pytest.mark.parametrize("kind", tests.TESTS)
def test_a_dial_that_varies_takes_every_value_from_the_least_to_its_own(kind):
    test = small(kind, vary=True, reach=1)
    shapes = Counter()
    for number in range(200):
        rows = test.batch("train", 0, number, 1)
        shapes[rows.at.shape[1] if kind == "recall" else rows.x.shape[1]] += 1
    values = {test.nearest(value) for value in range(test.least, test.value + 1)}
    expected = {test.turned(value).judged if kind == "recall" else test.turned(value).steps for value in values}
    assert set(shapes) == expected
    assert test.batch("valid", 0, 0, 1).x.shape[1] == test.steps, "what is measured does not vary"


def test_the_dial_is_measured_within_and_beyond():
    assert tests.Copy(distance=20).points() == [20]
    assert tests.Copy(distance=20, vary=True).points() == [5, 10, 15, 20]
    assert tests.Copy(distance=20, reach=4).points() == [20, 40, 80]
    assert tests.Copy(distance=20, reach=3).points() == [20, 40]
    assert tests.Parity().points() == [10, 20, 30, 40, 80, 160]
    assert tests.Gap(distance=20, distractors=2, vary=True).points() == [10, 15, 20]
    assert tests.Gap(distance=8, distractors=0, vary=True).points() == [0, 3, 4, 6, 8]
    assert tests.Nested(depth=4, vary=True).points() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("copy", {"distance": 0}, "copy: expected distance of at least 1"),
        ("copy", {"load": 0}, "expected load to be a whole number of at least 1"),
        ("adding", {"length": 1}, "adding: expected length of at least 2"),
        ("recall", {"length": 63}, "recall: expected an even length of at least 16"),
        ("recall", {"load": 17}, "recall: expected an even length of at least 68"),
        ("recall", {"rounds": 8}, "recall: expected an even length of at least 72, two for each of 8 rounds"),
        (
            "recall",
            {"vocab": 14, "rounds": 2},
            "recall: expected vocab of at least 16, a value for each pair, found 14",
        ),
        ("recall", {"vocab": 8}, "recall: expected vocab of at least 10, a key for each pair, found 8"),
        ("recall", {"power": 0.0}, "recall: expected power above 0 and at most 100, found 0.0"),
        ("recall", {"filler": "noise"}, "filler to be one of 'zero', 'random'"),
        ("recall", {"load": 16, "reach": 2}, "recall: expected an even length of at least 128"),
        ("parity", {"length": 0}, "expected length to be a whole number"),
        ("gap", {"distance": 2, "distractors": 0}, "gap: expected distance of 0 or at least 3"),
        ("gap", {"distance": 14, "distractors": 3}, "gap: expected distance of at least 15"),
        ("gap", {"load": 9}, "gap: expected load of at most 8"),
        ("gap", {"load": 8, "distractors": 5, "distance": 40}, "at most 12 together"),
        ("gap", {"distance": 4, "vary": True}, "gap: expected distance of at least 5"),
        ("order", {"length": 1}, "order: expected length of at least 2"),
        ("order", {"vocab": 19}, "order: expected vocab of at least 20, a number for each step, found 19"),
        ("clouds", {"distance": 2}, "clouds: expected distance of 0 or at least 3"),
        ("agreement", {"distance": -1}, "expected distance to be a whole number of at least 0"),
        ("nested", {"depth": -1}, "expected depth to be a whole number of at least 0"),
    ],
)
def test_a_test_that_cannot_be_is_refused_in_one_line(kind, settings, message):
    with pytest.raises(ContractError, match=re.escape(message)) as caught:
        tests.TESTS[kind](**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", tests.TESTS)
def test_the_fingerprint_is_that_of_the_settings(kind):
    test = small(kind)
    assert test.fingerprint == small(kind).fingerprint
    others = [test, replace(test, **{test.dial: test.value + 1}), replace(test, vary=not test.vary)]
    assert len({other.fingerprint for other in [*others, tests.TESTS[kind]()]}) == 4
    assert str(test.value) in test.name
    assert len({small(other).fingerprint for other in tests.TESTS}) == len(tests.TESTS)


def test_chance_at_copy_is_what_a_guesser_gets():
    """Sure of the blanks, and every symbol as likely as any other."""
    test, draw = tests.Copy(distance=5, load=3), random.Random(0)
    nats, right, count = 0.0, 0, 0
    for _, _, y in drawn(test, 4000):
        nats += sum(0.0 if answer == 8 else math.log(8) for answer in y) / len(y)
        right += sum(draw.randrange(8) == answer for answer in y[-3:])
        count += 3
    assert nats / 4000 == pytest.approx(test.baselines()["chance"])
    assert right / count == pytest.approx(test.chance, abs=0.02)
    alone = tests.Copy(distance=5, load=3, all_steps=False)
    assert alone.baselines()["chance"] == pytest.approx(math.log(8))


def test_chance_at_adding_is_what_saying_one_gets():
    test = tests.Adding(length=6)
    sums = [y[0] for _, _, y in drawn(test, 20_000)]
    squares = [(y - 1) ** 2 for y in sums]
    assert sum(squares) / len(squares) == pytest.approx(test.baselines()["always 1"], abs=0.004)
    assert sum(square < 0.04**2 for square in squares) / len(squares) == pytest.approx(test.chance, abs=0.008)


def test_chance_at_recall_is_what_guessers_get():
    test, draw = tests.Recall(length=16, load=3, vocab=20), random.Random(0)
    among, blind, count = 0, 0, 0
    for x, _, y in drawn(test, 3000):
        among += sum(draw.choice(x[1:6:2]) != answer for answer in y)
        blind += sum(draw.randrange(10, 20) != answer for answer in y)
        count += len(y)
    guesses = test.baselines()
    assert among / count == pytest.approx(guesses["one of the values seen"], abs=0.02)
    assert blind / count == pytest.approx(guesses["chance"], abs=0.02)
    assert test.chance == 1 / 10


def test_chance_at_parity_is_a_half_even_for_who_sees_the_last_bit():
    rows = drawn(tests.Parity(length=30, vary=False, reach=1), 1000)
    same = sum(x[-1] == y[-1] for x, _, y in rows) / len(rows)
    assert same == pytest.approx(tests.Parity().chance, abs=0.05)
    assert tests.Parity().baselines() == {"chance": 0.5}


def test_chance_at_gap_is_what_guessers_get():
    test, draw = tests.Gap(distance=20, distractors=3), random.Random(0)
    blind, wise, count = 0, 0, 4000
    for x, _, y in drawn(test, count):
        words = [gap_text.WORDS[number] for number in x]
        places = [place for place in gap_text.LANGUAGES if place not in words[6:]]
        assert len(places) == 9
        wise += gap_text.LANGUAGES[draw.choice(places)] != gap_text.WORDS[y[0]]
        blind += draw.choice(list(gap_text.LANGUAGES.values())) != gap_text.WORDS[y[0]]
    guesses = test.baselines()
    assert wise / count == pytest.approx(guesses["all but the distractors"], abs=0.02)
    assert blind / count == pytest.approx(guesses["chance"], abs=0.02)
