"""Pairs of sentences: where they come from, how they are split, prepared, tokenised, kept and put in batches."""

import gzip
import json
import math
import os
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.core.contract import ContractError
from recollect.data import tokenizers
from recollect.data.cache import hash_json
from recollect.data.files import DataError
from recollect.data.moses import Preparation
from recollect.data.tokenizers import Chars
from recollect.data.tokenizers.sentences import SentenceTokenizer, load_pair, pair_to_json, save_pair
from recollect.tasks.text import data as corpus
from recollect.tasks.translation import tokens as pair_tokens
from recollect.tasks.translation.data import load, summarize
from recollect.tasks.translation.pairs import Pairs, batches_by_tokens, batches_from
from recollect.tasks.translation.settings import DataConfig
from shared_data import DATA, needs

KINDS = ("chars", "chars+bytes", "bytes", "words", "bpe")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RECOLLECT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = "".join(f"{line}\n" for line in text) if isinstance(text, list) else text
        data = text if isinstance(text, bytes) else text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") and data[:2] != b"\x1f\x8b" else data)
        return str(path)

    return write


def numbered(start, stop, word="word"):
    return [f"{word} {i}" for i in range(start, stop)]


def rows(pairs):
    return list(zip(pairs.texts("source"), pairs.texts("target"), strict=True))


def table(write, pairs, name="pairs.tsv"):
    return write(name, [f"{source}\t{target}" for source, target in pairs])


def every(found):
    return [row for part in (found.train, found.valid, found.test) if part is not None for row in rows(part)]


# -------------------------------------------------------------------------------------------------- where from


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("valid", ["val", "valid", "dev"])
def test_a_prefix_and_a_pair_name_two_files_and_those_beside_them(tmp_path, write, end, valid):
    for name, start, stop in (("train", 0, 30), (valid, 30, 34), ("test_2016", 40, 43), ("test_2017", 50, 51)):
        write(f"set/{name}.en{end}", numbered(start, stop, "one"))
        write(f"set/{name}.de{end}", numbered(start, stop, "eins"))
    write("set/test_2015.en", ["no german"])
    for data in (tmp_path / "set" / "train", tmp_path / "set"):
        found = load(data, pair="en-de", tokenizer="words")
        assert (len(found.train), len(found.valid), len(found.test)) == (30, 4, 3)
        assert rows(found.valid)[0] == ("one 30", "eins 30")
        assert (found.name, found.source_language, found.target_language) == ("set-en-de", "en", "de")
        assert f"valid: {valid}, found beside train" in found.notes
        assert "test: test_2016, found beside train; not used: test_2017" in found.notes
    turned = load(tmp_path / "set" / "train", pair="de-en", tokenizer="words")
    assert rows(turned.test)[0] == ("eins 40", "one 40")
    given = load(tmp_path / "set/train", pair="en-de", test=tmp_path / "set/test_2017", tokenizer="words")
    assert rows(given.test) == [("one 50", "eins 50")]
    assert not [note for note in given.notes if "test_2016" in note]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz"])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_a_table_is_read_with_a_mark_or_packed_or_with_other_newlines(write, mark, name, newline):
    lines = [
        f"{source}\t{target}\tby whom" for source, target in zip(numbered(0, 99), numbered(0, 99, "mot"), strict=True)
    ]
    plain = load(write("plain.tsv", lines), tokenizer="words")
    found = load(write(name, mark + newline.join(line.encode() for line in lines)), tokenizer="words")
    assert sorted(every(found)) == sorted(zip(numbered(0, 99), numbered(0, 99, "mot"), strict=True))
    assert found.fingerprint == plain.fingerprint
    assert (found.name, found.source_language, found.target_language) == ("a", "source", "target")


def test_the_columns_of_a_table_can_be_chosen(write):
    path = write("a.tsv", [f"{i}\tone {i}\tun {i}" for i in range(99)])
    found = load(path, columns=(3, 2), pair="fr-en", tokenizer="words")
    assert sorted(every(found)) == sorted((f"un {i}", f"one {i}") for i in range(99))
    assert found.source.preparation.language == "fr"


def test_two_files_are_taken_in_their_order(write):
    one, other = write("text.en", numbered(0, 99)), write("text.fr.gz", numbered(0, 99, "mot"))
    found = load([one, other], tokenizer="words")
    assert (found.name, found.source_language, found.target_language) == ("text-en-fr", "en", "fr")
    turned = load([other, one], tokenizer="words", valid=[other, one])
    assert ("mot 7", "word 7") in rows(turned.valid)
    assert len(turned.valid) == 99


def test_numbers_in_words_are_the_pairs_when_none_are_named():
    found = load(count=400, highest=9999, share=0.1)
    assert found.name == "numbers-en-fr"
    assert len(found.train) + len(found.valid) + len(found.test) == 400
    texts = dict(every(found))
    assert len(texts) == 400
    assert texts["seven"] == "sept"
    assert load(count=400, highest=9999, share=0.1).fingerprint == found.fingerprint
    assert load(count=400, highest=9999, share=0.1, seed=1).fingerprint != found.fingerprint
    turned = load(pair="fr-en", count=400, highest=9999, share=0.1)
    assert {(b, a) for a, b in every(turned)} == set(every(found))
    with pytest.raises(DataError, match="num2words writes numbers in"):
        load(pair="en-xx")


def test_lines_end_at_newlines_alone(write):
    odd = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\u202fh\u00a0i\rj"
    found = load(write("a.tsv", [f"{odd} {i}\tx {i}" for i in range(99)]), tokenizer="chars")
    assert len(every(found)) == 99
    assert (f"{odd} 3", "x 3") in every(found)


# --------------------------------------------------------------------------------------------- what is refused


def one_line(caught):
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_files_with_different_numbers_of_lines_are_refused(write):
    one, other = write("a.en", numbered(0, 12)), write("a.de", numbered(0, 11))
    with pytest.raises(DataError) as caught:
        load([one, other])
    message = one_line(caught)
    assert f"as many lines in {one} as in {other}, found 12 and 11" in message


@pytest.mark.parametrize("last", ["word 98\tmot 98", "word 98\tmot 98\n"])
def test_the_last_line_needs_no_newline(write, last):
    found = load(write("a.tsv", "".join(f"word {i}\tmot {i}\n" for i in range(98)) + last), tokenizer="words")
    assert len(every(found)) == 99


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty file"),
        (b"\xef\xbb\xbf", "empty file"),
        ("caf\xe9\tcoffee\n".encode("latin-1"), r"found 0xE9 at byte 3 \(line 1\) of .*a\.tsv"),
        ("one\tun\n".encode("utf-16"), "UTF-16"),
        (b"one\0\tun\n", "NUL"),
        (b"no tab here\nnor here\n", r"columns 1 and 2 of .*a\.tsv, parted by tabs, found none in 2 lines"),
        (b"\n\n", "found none in 2 lines"),
        (b"\x1f\x8bdamaged", "gzip"),
        (b"x" * ((1 << 20) + 5) + b"\ty\n", r"at most 1,048,576 characters, found a longer one, line 1 of .*a\.tsv"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_line(write, data, message):
    with pytest.raises(DataError, match=message) as caught:
        load(write("a.tsv", data))
    one_line(caught)


def test_bad_bytes_in_one_of_two_files_are_found_with_file_and_place(write):
    one, other = write("a.en", numbered(0, 9)), write("a.de", b"gut\nsch\xf6n\n")
    with pytest.raises(DataError, match=r"found 0xF6 at byte 7 \(line 2\) of .*a\.de: .*ISO-8859-1"):
        load([one, other])


def test_a_prefix_without_its_files_or_its_pair_says_what_is_there(tmp_path, write):
    write("set/train.en", numbered(0, 9))
    with pytest.raises(DataError, match=r"expected train\.en and train\.de \(or \.gz\) in .*set, found train\.en"):
        load(tmp_path / "set" / "train", pair="en-de")
    with pytest.raises(DataError, match=r"expected train\.SOURCE and .* --pair en-de"):
        load(tmp_path / "set" / "train")
    write("set/train.fr.gz", b"")
    with pytest.raises(DataError, match=r"found train\.en, train\.fr\.gz; name the pair, as --pair en-fr"):
        load(tmp_path / "set" / "train", pair="en-de")
    with pytest.raises(DataError, match=r"found the folder"):
        load(tmp_path / "set")
    with pytest.raises(DataError, match=r"found none at .*nothing.*known sets are multi30k, tatoeba-fra, tatoeba-cmn"):
        load(tmp_path / "nothing", pair="en-de")
    for some in ([], ["a", "b", "c"]):
        with pytest.raises(DataError, match="a prefix, a table or two files"):
            load(some)


@pytest.mark.parametrize("pair", ["en", "en-de-fr", "", "-", "en-", "e n-de", "../en-de", "en-zh-CN"])
def test_a_pair_is_two_codes(pair):
    with pytest.raises(DataError, match="expected a pair of languages such as en-de"):
        load(pair=pair)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"longest": 0}, "at least 1 token"),
        ({"share": 0}, "share between 0 and 0.5"),
        ({"share": 0.5}, "share between 0 and 0.5"),
        ({"tokenizer": "bpee"}, "did you mean bpe"),
        ({"columns": (0, 1)}, "counted from 1"),
        ({"columns": (1, 3)}, "columns 1 and 3"),
        ({"moses": True}, "--pair en-de"),
        ({"tokenizer": "bpe", "vocab": 12}, "256 or more"),
    ],
)
def test_wrong_settings_are_refused(write, wrong, message):
    with pytest.raises(DataError, match=message) as caught:
        load(table(write, zip(numbered(0, 99), numbered(0, 99), strict=True)), **wrong)
    one_line(caught)


def test_no_part_may_be_empty(write):
    path = table(write, [("same", f"other {i}") for i in range(9)])
    with pytest.raises(
        DataError, match="enough to take 5 % for valid and test each, found 9 pairs .* none for (train|valid)"
    ):
        load(path)
    good = write("good.tsv", "a\tb\n")
    for split in ("valid", "test"):
        with pytest.raises(DataError, match=f"expected pairs for the {split} part, found none"):
            load(good, **{"valid": good, "test": good, split: write("empty.tsv", "a\t \n")}, tokenizer="words")
    with pytest.raises(DataError, match="expected pairs for the train part, found none"):
        load(write("long.tsv", "a b c\td\n"), valid=good, test=good, tokenizer="words", longest=2)


# ------------------------------------------------------------------------------------------------------- splits


CASES = st.sampled_from(["a", "A", " a ", "a\u00a0b", "A  b", "b", "B\t".strip(), "ß", "SS", "c d", "C\u202fD", "é"])


@settings(max_examples=25)
@given(st.lists(st.tuples(CASES, st.integers(0, 9), st.integers(0, 40)), min_size=60, max_size=200), st.randoms())
def test_no_source_is_in_two_parts_and_their_order_does_not_matter(tmp_path_factory, drawn, random):
    pairs = [(f"{case} {number}", f"t{number}") for case, _, number in drawn] + [(f"s{i}", "t") for i in range(60)]
    folder = tmp_path_factory.mktemp("leak")

    def read(name, some):
        (folder / name).write_text("".join(f"{a}\t{b}\n" for a, b in some), encoding="utf-8")
        return load(folder / name, tokenizer="bytes", share=0.2, cache=folder / "cache")

    found = read("a.tsv", pairs)
    parts = [part for part in (found.train, found.valid, found.test) if part is not None]
    keys = [{" ".join(text.casefold().split()) for text in part.texts("source")} for part in parts]
    assert sum(map(len, keys)) == len(set().union(*keys))
    assert sorted(every(found)) == sorted(pairs)
    random.shuffle(pairs)
    again = read("b.tsv", pairs)
    for one, other in zip(parts, (again.train, again.valid, again.test), strict=False):
        assert sorted(rows(one)) == sorted(rows(other))


def test_each_part_gets_about_its_share(write):
    path = table(write, zip(numbered(0, 4000), numbered(0, 4000), strict=True))
    found = load(path, tokenizer="bytes")
    assert len(found.valid) == pytest.approx(200, abs=50)
    assert len(found.test) == pytest.approx(200, abs=50)
    more = load(path, tokenizer="bytes", share=0.2)
    assert set(rows(found.valid)) < set(rows(more.valid))


def test_a_pair_stays_in_its_part_when_others_are_added(write):
    some = [(f"word {i}", "x") for i in range(500)]
    before = load(table(write, some), tokenizer="bytes")
    after = load(
        table(write, [("new", "y"), *some, *((f"more {i}", "z") for i in range(99))], "more.tsv"), tokenizer="bytes"
    )
    assert set(rows(before.test)) < set(rows(after.test))


def test_only_the_part_that_is_missing_is_taken_out_of_training(write):
    pairs = [(f"word {i}", f"mot {i}") for i in range(400)]
    path, other = table(write, pairs), table(write, [("WORD  3", "autre"), ("else", "autre")], "valid.tsv")
    found = load(path, valid=other, tokenizer="bytes")
    assert rows(found.valid) == [("WORD  3", "autre"), ("else", "autre")]
    assert sorted([*rows(found.train), *rows(found.test)]) == sorted(pairs)
    assert rows(found.test) == rows(load(path, tokenizer="bytes").test)  # whatever else is given
    assert "valid: 1 of 2 source sentences occur in train too" in found.notes
    given = load(path, valid=other, test=other, tokenizer="bytes")
    assert len(given.train) == 400
    assert [note for note in given.notes if "occur in train" in note] == [
        "valid: 1 of 2 source sentences occur in train too",
        "test: 1 of 2 source sentences occur in train too",
    ]


def test_a_test_part_that_nothing_falls_into_is_none(write):
    pairs = [(f"word {i}", "x") for i in range(30)]
    found = load(table(write, pairs), valid=table(write, pairs[:1], "valid.tsv"), tokenizer="bytes", share=0.001)
    assert found.test is None
    assert "test: no source sentence fell into it; there is no test part" in found.notes


# ----------------------------------------------------------------------------------------------------- skipping


def test_what_cannot_be_trained_on_is_left_out_and_counted(write):
    lines = [
        *(f"word {i}\tmot {i}" for i in range(20)),
        "no tab",
        "\tempty",
        "empty\t \u00a0",
        "",
        "a b c d e\tx",
        "y\ta b c d e",
    ]
    other = ["s\tt", "\t", "torn", "a b c d e f\tt", "u\tv"]
    found = load(
        write("a.tsv", lines), valid=write("v.tsv", other), test=write("t.tsv", other), tokenizer="words", longest=4
    )
    assert len(found.train) == 20
    assert (
        "train: 20 pairs; left out: 3 with an empty side, 1 without the tab between source and target, "
        "2 longer than 4 tokens" in found.notes
    )
    for split in ("valid", "test"):
        part = getattr(found, split)
        assert rows(part) == [("s", "t"), ("a b c d e f", "t"), ("u", "v")]
        assert [len(part.source_of(i)) for i in range(3)] == [1, 6, 1]
        assert any(
            note.startswith(f"{split}: 3 pairs; left out: 1 with an empty side, 1 without") for note in found.notes
        )
        assert f"{split}: 1 pairs are longer than 4 tokens and are kept" in found.notes


def test_texts_stay_with_their_tokens_when_others_are_left_out(write):
    pairs = [(f"{'x ' * (i % 7)}{i}", f"{'y ' * (i % 5)}{i}") for i in range(3000)]
    found = load(table(write, pairs), tokenizer="words", longest=5)
    assert {row for row in pairs if row[0].count(" ") < 5} >= set(rows(found.train))
    for part in (found.train, found.valid, found.test):
        assert len(part) == len(part.texts("source")) == len(part.texts("target"))
        for i in range(len(part)):
            assert part.source_of(i).tolist() == found.source.encode(part.texts("source")[i]).tolist()
            assert part.target_of(i).tolist() == found.target.encode(part.texts("target")[i]).tolist()
    assert found.train.texts("source")[-1] == list(found.train.texts("source"))[-1]
    with pytest.raises(IndexError):
        found.train.source_of(len(found.train))
    with pytest.raises(DataError, match="source or target"):
        found.train.texts("sauce")


def test_what_a_vocabulary_lacks_is_reported(write):
    one = table(write, [("a b", "x y")] * 9)
    other = table(write, [("a z", "x y")], "valid.tsv")
    found = load(one, valid=other, test=one, tokenizer="words")
    assert "valid: tokens that are <unk>: 50 % of the source" in found.notes
    chars = load(one, valid=other, test=one, tokenizer="chars")
    assert chars.source.decode(chars.valid.source_of(0)) == "a \ufffd"
    assert chars.source.decode(chars.source.encode("a 好")) == "a \ufffd"  # what nobody has seen can be translated
    assert "\n" not in chars.source.tokenizer.characters


# ----------------------------------------------------------------------------------------------- the two sides


@cache
def made_of(text, kind):
    return SentenceTokenizer(Preparation("en"), tokenizers.train(kind, [text] * 9))


@settings(max_examples=40)
@given(
    st.lists(st.text("ab 中，.\u3000\u00a0<eos>é\u2028", max_size=12), min_size=1, max_size=9),
    st.sampled_from(KINDS),
    st.booleans(),
)
@example(["a <eos> b", "c"], "words", False)
@example(["a", "young" * 5_000], "bpe", False)  # cut elsewhere if it follows a newline
@example(["中 文", "文 中"], "words", True)
def test_lines_encoded_together_are_encoded_as_each_alone(lines, kind, chinese):
    one = made_of("这本书 2019 年出版。\n" if chinese else "Two young men, near many bushes.\n", kind)
    if kind == "chars":
        one = SentenceTokenizer(one.preparation, one.tokenizer.with_unknown())
    lines = [one.prepared(line) for line in lines]
    ids, lengths = pair_tokens.encode_lines(one, [line.encode() for line in lines], "train")
    alone = [one.encode(line).tolist() for line in lines]
    assert np.split(ids, np.cumsum(lengths)[:-1])[0].tolist() == alone[0]
    assert [len(some) for some in alone] == lengths.tolist()
    assert ids.tolist() == [number for some in alone for number in some]


def test_the_target_may_have_a_tokenizer_of_its_own(write):
    path = table(write, [(f"number {i}", f"第{i}個") for i in range(99)])
    found = load(path, tokenizer="words", target_tokenizer="chars")
    assert (found.source.tokenizer.kind, found.target.tokenizer.kind) == ("words", "chars")
    assert found.target.pieces(found.target.encode("第7個")) == ["第", "7", "個"]
    assert summarize(found).facts["tokenizer"] == "words, chars"
    alike = load(path, tokenizer="words", target_tokenizer="words")
    assert alike.fingerprint == load(path, tokenizer="words").fingerprint != found.fingerprint
    with pytest.raises(DataError, match="expected a tokenizer among .*, found 'char'; did you mean chars?"):
        load(path, target_tokenizer="char")
    with pytest.raises(ContractError, match="expected joint=true or a target_tokenizer, found both"):
        DataConfig(target_tokenizer="chars", joint=True)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sides_are_kept_in_one_file(tmp_path, write, kind, joint):
    pairs = [("Zwei junge weiße Männer im Freien.", "我們試試看！"), ("Was ist los?", "床前明月光，疑是地上霜。")]
    found = load(
        table(write, pairs),
        valid=table(write, pairs),
        test=table(write, pairs),
        tokenizer=kind,
        joint=joint,
        lower=True,
    )
    assert (found.source.tokenizer is found.target.tokenizer) == joint
    save_pair(tmp_path / "tokenizer.json", found.source, found.target)
    source, target = load_pair(tmp_path / "tokenizer.json")
    assert (source.tokenizer is target.tokenizer) == joint
    assert pair_to_json(source, target) == pair_to_json(found.source, found.target)
    for one, sentence in pairs:
        assert source.encode(one).tolist() == found.source.encode(one).tolist()
        assert target.encode(sentence).tolist() == found.target.encode(sentence).tolist()
    if kind != "words":
        assert len((tmp_path / "tokenizer.json").read_bytes()) < 100_000


def test_existing_sides_are_used_as_they_are(write):
    pairs = [(f"Word, {i}", f"mot {i}") for i in range(99)]
    first = load(table(write, pairs), pair="en-fr", tokenizer="words", lower=True, moses=True)
    write("set/train.en", ["Word, 3", "word 4"])
    write("set/train.fr", ["mot 3", "mot neuf"])
    both = str(Path(write("set/valid.tsv", "word\tmot\n")))
    again = load(
        Path(both).parent / "train", valid=both, test=both, existing=(first.source, first.target), tokenizer="chars"
    )
    assert (again.source, again.target) == (first.source, first.target)
    assert (again.source_language, again.target_language) == ("en", "fr")
    assert [first.source.tokenizer.token(i) for i in again.train.source_of(0)] == ["word", ",", "3"]
    assert [first.target.tokenizer.token(i) for i in again.train.target_of(1)] == ["mot", "<unk>"]
    bare = SentenceTokenizer(Preparation("en"), Chars("ab"))
    with pytest.raises(DataError, match=r"'c' \(U\+0063\) at character 2 of 'ac' in the train part"):
        load(write("c.tsv", "ac\tb\n"), valid=write("v.tsv", "a\tb\n"), existing=(bare, bare))


# ------------------------------------------------------------------------------------------------------ batches


def lengths_only(source, target):
    def flat(lengths):
        return np.zeros(sum(lengths), np.int32), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

    nothing = (np.zeros(0, np.uint8), np.zeros(len(source) + 1, np.int64))
    return Pairs(*flat(source), *flat(target), *nothing, *nothing)


LENGTHS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=200)


@settings(max_examples=60)
@given(LENGTHS, st.integers(1, 300), st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 3), st.integers(1, 9))
def test_every_pair_comes_once_an_epoch_and_no_batch_is_too_large(lengths, tokens, seed, epoch, grain):
    pairs = lengths_only(*zip(*lengths, strict=True))
    batches = batches_by_tokens(pairs, tokens, seed, epoch, grain)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    for batch in batches:
        longest = max(max(lengths[i]) + 1 for i in batch)  # with its end
        assert len(batch) == 1 or len(batch) * grain * math.ceil(longest / grain) <= tokens
    assert len(batches) == len(batches_by_tokens(pairs, tokens, grain=grain))
    again = batches_by_tokens(pairs, tokens, seed, epoch, grain)
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in batches]


@settings(max_examples=20)
@given(LENGTHS, st.integers(1, 300), st.integers(0, 30))
def test_any_batch_is_reached_by_its_number(lengths, tokens, start):
    pairs = lengths_only(*zip(*lengths, strict=True))
    whole = list(islice(batches_from(pairs, tokens, 7), start + 5))
    rest = list(islice(batches_from(pairs, tokens, 7, start), 5))
    assert [batch.tolist() for batch in rest] == [batch.tolist() for batch in whole[start:]]


def test_batches_hold_rows_of_similar_length_and_change_with_seed_and_epoch():
    draw = np.random.default_rng(0)
    source = draw.integers(1, 60, 5000)
    target = np.maximum(source + draw.integers(-3, 4, 5000), 1)
    pairs = lengths_only(source.tolist(), target.tolist())
    found = {(s, e): batches_by_tokens(pairs, 2000, s, e) for s, e in ((0, 0), (0, 1), (1, 0))}
    widths = np.maximum(source, target) + 1
    for batches in found.values():
        padded = sum(len(batch) * widths[batch].max() for batch in batches)
        assert widths.sum() / padded > 0.95
        first = [widths[batch].max() for batch in batches]
        assert first != sorted(first)
    orders = [np.concatenate(batches).tolist() for batches in found.values()]
    assert len({tuple(order) for order in orders}) == 3
    ordered = [int(widths[batch].max()) for batch in batches_by_tokens(pairs, 2000)]
    assert ordered == sorted(ordered)


def test_a_grain_leaves_few_shapes_of_batches_the_same_in_every_epoch():
    draw = np.random.default_rng(0)
    source, target = draw.integers(1, 40, (2, 5000))
    pairs = lengths_only(source.tolist(), target.tolist())
    widths = -(-(np.maximum(source, target) + 1) // 8) * 8
    shapes = [
        {(len(batch), int(widths[batch].max())) for batch in batches_by_tokens(pairs, 2000, seed, epoch, 8)}
        for seed, epoch in ((0, 0), (0, 1), (5, 3))
    ]
    assert shapes[0] == shapes[1] == shapes[2]
    assert len(shapes[0]) <= 2 * 5  # of each width the full one, and what is left over


def test_a_batch_needs_room_for_a_token():
    with pytest.raises(DataError, match="at least 1 token"):
        batches_by_tokens(lengths_only([1], [1]), 0)


# ------------------------------------------------------------------------------------------------------- caches


def entry():
    (folder,) = (Path(os.environ["RECOLLECT_CACHE"]) / "parallel").iterdir()
    return folder


@pytest.fixture
def made(monkeypatch):
    """How often pairs were made anew."""
    calls = []
    make = pair_tokens._make
    monkeypatch.setattr(pair_tokens, "_make", lambda *a: calls.append(a[0]) or make(*a))
    return calls


def pairs_of(found):
    return [
        [(part.source_of(i).tolist(), part.target_of(i).tolist()) for i in range(len(part))]
        for part in (found.train, found.valid)
    ]


def test_settings_have_caches_of_their_own(write, made):
    path = table(write, [(f"Word {i}", f"mot {i}") for i in range(99)])
    varied = [
        {},
        {"lower": True},
        {"share": 0.2},
        {"longest": 3},
        {"columns": (2, 1)},
        {"pair": "en-fr"},
        {"joint": True},
    ]
    for some in varied * 2:
        load(path, tokenizer="words", **some)
    assert len(made) == len(varied)


def other_version(folder):
    """A record that is whole, of tokenizers that this version cannot read."""
    record = json.loads((folder / "pairs.json").read_text())
    record["content"]["sides"]["format"] += 1
    record["sha256"] = hash_json([record["arrays"], record["content"]])
    (folder / "pairs.json").write_text(json.dumps(record))


def test_a_cache_of_another_version_is_made_anew(write, made):
    path = table(write, zip(numbered(0, 99), numbered(0, 99, "mot"), strict=True))
    good = pairs_of(load(path, tokenizer="words"))
    other_version(entry())
    assert pairs_of(load(path, tokenizer="words")) == good
    assert len(made) == 2


def test_a_cache_that_cannot_be_written_is_one_line(write, tmp_path):
    path = table(write, zip(numbered(0, 99), numbered(0, 99), strict=True))
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DataError, match="RECOLLECT_CACHE") as caught:
        load(path, cache=tmp_path / "file")
    one_line(caught)


def test_the_fingerprint_is_that_of_texts_and_sides_wherever_they_lie(write):
    pairs = list(zip(numbered(0, 99), numbered(0, 99, "mot"), strict=True))
    one = load(table(write, pairs), tokenizer="words")
    assert load(table(write, pairs, "far/away/other.tsv"), tokenizer="words").fingerprint == one.fingerprint
    two = [write("text.a", [a for a, _ in pairs]), write("text.b.gz", [b for _, b in pairs])]
    assert load(two, tokenizer="words").fingerprint == one.fingerprint
    assert load(table(write, pairs), tokenizer="words", lower=True).fingerprint != one.fingerprint
    assert load(table(write, pairs), tokenizer="bytes").fingerprint != one.fingerprint
    assert load(table(write, pairs[:-1], "less.tsv"), tokenizer="words").fingerprint != one.fingerprint


# --------------------------------------------------------------------------------------------------- known sets


@pytest.mark.parametrize("pair", ["en-de", "fr-en"])
def test_multi30k_is_divided_as_published(monkeypatch, pair):
    needs("multi30k")
    monkeypatch.setenv("RECOLLECT_DATA", str(DATA))
    found = load("multi30k", pair=pair, tokenizer="words")
    assert (len(found.train), len(found.valid), len(found.test)) == (29_000, 1_014, 1_000)
    assert found.name == f"multi30k-{pair}"
    english = found.train.texts("source" if pair == "en-de" else "target")
    assert english[0] == "Two young, White males are outside near many bushes."


@pytest.mark.slow
def test_tatoeba_in_french_is_whole_and_does_not_leak():
    needs("tatoeba-fra")
    found = load("tatoeba-fra", tokenizer="words", data_dir=DATA)
    parts = [found.train, found.valid, found.test]
    assert sum(map(len, parts)) == 167_130
    assert [len(part) / 167_130 for part in parts] == pytest.approx([0.9, 0.05, 0.05], abs=0.003)
    sources = [{" ".join(text.casefold().split()) for text in part.texts("source")} for part in parts]
    assert sum(map(len, sources)) == len(set().union(*sources))
    assert len({text for part in parts for text in part.texts("source")}) == 116_830
    assert any("\u202f" in text for text in islice(found.train.texts("target"), 20_000))


@pytest.mark.slow
def test_tatoeba_in_chinese_is_whole_and_turns_round():
    needs("tatoeba-cmn")
    found = load("tatoeba-cmn", tokenizer="chars", data_dir=DATA)
    # 29,156 lines, of which the last is empty
    assert len(every(found)) == 29_155
    assert any("left out: 1 with an empty side" in note for note in found.notes)
    assert ("Hi.", "嗨。") in every(found)  # the first line, without its byte-order mark
    turned = load("tatoeba-cmn", pair="cmn-eng", tokenizer="words", data_dir=DATA)
    assert (turned.source_language, turned.target_language) == ("zh", "en")
    assert ("嗨。", "Hi.") in every(turned)
    assert turned.source.decode(turned.source.encode("嗨。")) == "嗨。"


def test_sets_for_translation_and_texts_are_told_apart():
    with pytest.raises(DataError, match=r"expected a text, found 'multi30k', a set for translation \(en, de, fr\)"):
        corpus.load("multi30k")
    with pytest.raises(DataError, match=r"expected a set for translation, found 'tang', a text.*multi30k") as caught:
        load("tang")
    one_line(caught)
    with pytest.raises(DataError, match=r"expected languages of multi30k \(en, de, fr\), found 'es'"):
        load("multi30k", pair="en-es")
    with pytest.raises(DataError, match=r"expected languages of tatoeba-fra \(en, fr\), found 'de'"):
        load("tatoeba-fra", pair="en-de")


@pytest.mark.parametrize("table", [False, True])
def test_pairs_in_a_named_encoding_are_those_of_utf8(write, table):
    english, chinese = numbered(0, 60), [f"词 {i}" for i in range(60)]
    pairs = [f"{one}\t{other}" for one, other in zip(english, chinese, strict=True)]

    def given(folder, encoding):
        sides = {"a.tsv": pairs} if table else {"train.en": english, "train.zh": chinese}
        names = [write(f"{folder}/{name}", "\n".join(lines).encode(encoding)) for name, lines in sides.items()]
        return {"data": names} if table else {"data": names[0].removesuffix(".en"), "pair": "en-zh"}

    plain, other = given("utf8", "utf-8"), given("gb", "gb18030")
    found = load(**other, tokenizer="chars", encoding="gb18030")
    assert found.fingerprint == load(**plain, tokenizer="chars").fingerprint
    assert found.files.encodings == {"gb18030": 1 if table else 2}  # plain ASCII is both
    with pytest.raises(DataError, match="name it with --encoding gb18030"):
        load(**other, tokenizer="chars")
