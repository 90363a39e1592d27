"""Words of tokens, and pairs of words that belong together."""

import torch

from recollect.data.moses import Preparation
from recollect.data.tokenizers import Bpe, Bytes, Chars, Words
from recollect.data.tokenizers.sentences import SentenceTokenizer
from recollect.decode import pharaoh


def pieces(tokenizer, text, language="en"):
    """A text's tokens with the word that each is said to belong to."""
    side = SentenceTokenizer(Preparation(language), tokenizer)
    ids = side.encode(text)
    return list(zip(side.pieces(ids), pharaoh.words(side, ids.tolist()), strict=True))


def merged(*merges):
    """Byte-level pairs with exactly these merges; Ġ is a blank."""
    letters = list(Bpe.train(["x"], 256).to_json()["vocabulary"])
    return Bpe([*letters, *("".join(merge) for merge in merges)], list(merges))


def test_words_are_words_between_blanks():
    words = Words.train(["the cat sees\n"])
    assert pieces(words, "the cat  sees it") == [("the", 0), ("cat", 1), ("sees", 2), ("<unk>", 3)]
    assert pieces(words, "cat") == [("cat", 0)]


def test_characters_make_up_words_and_a_blank_belongs_to_the_one_before():
    chars = Chars.train(["ab cd"]).with_unknown()
    assert [word for _, word in pieces(chars, "ab c")] == [0, 0, 0, 1]
    assert [word for _, word in pieces(chars, "abcd")] == [0, 0, 0, 0], "one word is one word"
    assert [word for _, word in pieces(chars, "a  b")] == [0, 0, 0, 1]


def test_pairs_of_bytes_begin_a_word_with_their_blank():
    tokenizer = merged(("c", "a"), ("Ġ", "s"), ("Ġs", "e"))
    assert [word for _, word in pieces(tokenizer, "cat sees")] == [0, 0, 1, 1, 1]
    assert [word for _, word in pieces(tokenizer, "cat")] == [0, 0], "one word is one word, however it is cut"


def test_a_character_of_several_bytes_is_of_one_word():
    assert [word for _, word in pieces(Bytes(), "é à")] == [0, 0, 0, 1, 1]
    assert [word for _, word in pieces(Bytes(), "naïf")] == [0] * 5


def test_each_chinese_token_is_a_word():
    chars = Chars.train(["我喜欢茶。Python "]).with_unknown()
    assert [word for _, word in pieces(chars, "我喜欢茶。", "zh")] == [0, 1, 2, 3, 4]
    assert [word for _, word in pieces(chars, "我喜欢 Pyth", "zh")] == [0, 1, 2, 2, 3, 3, 3, 3]
    assert [word for _, word in pieces(Words.train(["我喜欢喝茶\n"]), "我喝茶", "zh")] == [0, 1, 2]
    assert [word for _, word in pieces(Bytes(), "我茶", "zh")] == [0, 0, 0, 1, 1, 1], "three bytes each"


def test_no_tokens_have_no_words():
    side = SentenceTokenizer(Preparation("en"), Bytes())
    assert pharaoh.words(side, []) == []
    assert pharaoh.words(side, [0x20, 0x20]) == [0, 0]
    assert pharaoh.words(side, [0xE6]) == [0], "a character that never comes is something too"


def test_the_pair_of_a_word_is_where_most_of_its_tokens_weight_went():
    #                          the   c     at    end
    weights = torch.tensor([[0.40, 0.30, 0.25, 0.05],   # le: one token has most, but two make up a word
                            [0.80, 0.10, 0.05, 0.05],   # ch: with the next, 1.0 against 0.75
                            [0.20, 0.30, 0.30, 0.20],   # at
                            [0.00, 0.00, 0.00, 1.00]])  # end  # fmt: skip
    assert pharaoh.pairs(weights, [0, 1, 1], [0, 1, 1]) == [(1, 0), (0, 1)]
    assert pharaoh.pairs(weights, [0, 1, 2], [0, 1, 2]) == [(0, 0), (0, 1), (1, 2)]
    assert pharaoh.pairs(weights, [0, 0, 0], [0, 1, 2]) == [(0, 0), (0, 1), (0, 2)]
    assert pharaoh.line([(0, 0), (2, 1)]) == "0-0 2-1"
    assert pharaoh.pairs(weights, [0], []) == pharaoh.pairs(weights, [], [0]) == []
    assert pharaoh.line([]) == ""
