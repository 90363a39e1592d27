"""Tokenizers of sentences: preparation, special tokens, and the file of a pair."""

import gzip
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from recollect.data import tokenizers
from recollect.data.files import DataError
from recollect.data.known import TranslationSet, find_set
from recollect.data.moses import Preparation
from recollect.data.tokenizers.sentences import SentenceTokenizer, load_pair, pair_from_json, pair_to_json
from shared_data import DATA, needs

KINDS = ("chars", "chars+bytes", "bytes", "words", "bpe")
SENTENCES = {
    "en": ["Two young men, near many bushes.", "It's a dog's life!", "He said: “hello” (twice)…", "I paid $5.50 — no?"],
    "de": ["Zwei junge weiße Männer im Freien.", "Übergröße, z. B. „Ärger“!", "Was ist los?", "Straße – hier."],
    "fr": ["L'homme n'est pas là.", "Ça va\u202f? Oui\u00a0!", "« Très bien », dit-elle.", "Où est l'œuf ?"],
    "zh": ["我們試試看！", "他说：“你好，世界。”", "这本书 2019 年出版。", "床前明月光，疑是地上霜。"],
}


@cache
def side(language, kind, lower=False, moses=False):
    preparation = Preparation(language, lower, moses)
    texts = [preparation.apply(sentence) + "\n" for sentence in SENTENCES[language]] * 3
    return SentenceTokenizer(preparation, tokenizers.train(kind, texts))


@pytest.mark.parametrize("language", SENTENCES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_comes_back_from_its_numbers(language, kind):
    one = side(language, kind)
    for sentence in SENTENCES[language]:
        ids = one.encode(sentence)
        assert ids.dtype == np.int32
        assert ids.max() < one.pad
        expected = " ".join(sentence.split()) if kind == "words" else sentence
        assert one.decode(ids) == expected
        assert one.decode([one.begin, *ids, one.end, one.pad, one.pad]) == expected
        assert one.decode([*ids.tolist(), one.end, *ids]) == expected


@pytest.mark.parametrize("kind", ["words", "bpe"])
@pytest.mark.parametrize("language", SENTENCES)
def test_what_moses_parted_is_joined_again(language, kind):
    one = side(language, kind, moses=True)
    for sentence in SENTENCES[language]:
        ids = one.encode(sentence)
        assert one.decode_prepared(ids) == one.prepared(sentence)
        again = one.decode(ids)
        assert one.prepared(again) == one.prepared(sentence)
        assert "  " not in again
        assert one.decode(one.encode(again)) == again


def test_moses_gives_what_its_scripts_give():
    assert Preparation("en", moses=True).apply("It's a dog, isn't it?") == "It 's a dog , isn 't it ?"
    assert Preparation("fr", moses=True).apply("L'homme n'est pas là.") == "L' homme n' est pas là ."
    assert Preparation("de", True, True).apply(" Zwei „Männer“ & <b>. ") == 'zwei " männer " & < b > .'
    assert Preparation("en", lower=True).apply(" Big Dog ") == "big dog"
    assert (
        Preparation("zh", moses=True).undo("我們試試看 ！ 他说 ： “ 你好 ， 世界 。 ”")
        == "我們試試看！他说：“你好，世界。”"
    )
    assert Preparation("qq", moses=True).apply("Hello, there.") == "Hello , there ."


@pytest.mark.parametrize(("language", "words"), [("en", 12_968), ("de", 12_103), ("fr", 13_988)])
def test_multi30k_prepared_has_the_words_that_its_authors_count(language, words):
    needs("multi30k")
    (path,) = find_set("multi30k", TranslationSet).find_pair([language], DATA)["test"]
    preparation = Preparation(language, lower=True, moses=True)
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")[:-1]
    assert sum(len(preparation.apply(line).split()) for line in lines) == words


@settings(max_examples=40)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.sampled_from(["bpe", "bytes", "chars+bytes"]))
@example("a  b\u3000 c\u2028", "bpe")
def test_any_text_comes_back_but_for_the_blanks_around_it(text, kind):
    one = side("en", kind)
    assert one.decode(one.encode(text)) == text.strip()


def test_three_numbers_follow_those_of_the_tokeniser():
    one = side("en", "bytes")
    assert (one.pad, one.begin, one.end, one.size) == (256, 257, 258, 259)
    assert one.pieces([one.begin, ord("a"), one.end, one.pad]) == ["<begin>", "a", "<end>", "<pad>"]
    with pytest.raises(DataError, match="token numbers"):
        one.decode([259])
    with pytest.raises(DataError, match="token numbers"):
        one.pieces([259])


def test_pieces_are_whole_characters_as_far_as_can_be():
    one = side("zh", "bytes")
    assert one.pieces(one.encode("a 好")) == ["a", "␣", "<0xE5>", "<0xA5>", "好"]
    for kind in KINDS:
        for language in SENTENCES:
            some = side(language, kind)
            for sentence in SENTENCES[language]:
                pieces = some.pieces(some.encode(sentence))
                assert len(pieces) == len(some.encode(sentence))
                assert all(pieces)
                if kind == "words":
                    assert "".join(pieces).replace("␣", "") == "".join(sentence.split())
    moses = side("en", "bpe", moses=True)
    assert "".join(moses.pieces(moses.encode(SENTENCES["en"][0]))) == SENTENCES["en"][0].replace(" ", "␣").replace(
        ",", "␣,"
    ).replace(".", "␣.")


def mangled():
    good = pair_to_json(side("en", "bytes"), side("zh", "words"))
    joint = pair_to_json(side("en", "bytes"), side("en", "bytes"))
    assert pair_from_json(good)
    assert pair_from_json(joint)

    def but(data, *path, value):
        data = json.loads(json.dumps(data))
        inner = data
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        return json.dumps(data).encode()

    yield b""
    yield b"\xff"
    yield b"[" * 100_000
    yield b"[]"
    yield b"{}"
    yield but(good, "format", value=2)
    yield but(good, "joint", value=1)
    yield but(good, "joint", value=True)
    yield but(good, "source", value=None)
    yield but(good, "source", value={})
    yield but(good, "source", "extra", value=1)
    yield but(good, "target", "tokenizer", value=None)
    yield but(good, "target", "tokenizer", "kind", value="pickle")
    yield but(good, "target", "tokenizer", "words", value=["<unk>", "<eos>", 3])
    yield but(good, "target", "preparation", value=[])
    yield but(good, "target", "preparation", "language", value="../../etc/passwd")
    yield but(good, "target", "preparation", "language", value=7)
    yield but(good, "target", "preparation", "language", value="x" * 99)
    yield but(good, "target", "preparation", "lower", value="yes")
    yield but(good, "target", "preparation", "moses", value=None)
    yield but(good, "target", "preparation", "script", value="rm")
    yield but(joint, "target", value=None)
    yield but(joint, "target", "tokenizer", value={"kind": "bytes", "format": 1})
    yield but(joint, "target", "preparation", "lower", value=0)


@pytest.mark.parametrize("content", list(mangled()))
def test_hostile_files_of_sides_are_refused_in_one_line(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(DataError, match=r"tokenizer\.json") as caught:
        load_pair(tmp_path / "tokenizer.json")
    assert "expected " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sides_that_are_not_there_are_named(tmp_path):
    with pytest.raises(DataError, match=r"expected the tokenizers of a pair at .*none\.json"):
        load_pair(tmp_path / "none.json")
