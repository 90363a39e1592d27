"""Tokenisers: nothing is lost, a stream gives what the whole gives, and published counts come out."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from recollect.data import tokenizers
from recollect.data.files import DataError, rechunk
from recollect.data.tokenizers import Bpe, Bytes, Chars, Words, byte_pairs, words
from recollect.data.tokenizers.base import LONGEST_WORD, smallest
from recollect.data.tokenizers.character_classes import SOLID, classes
from shared_data import DATA

POEMS = (
    "靜夜思：牀前看月光，疑是地上霜。舉頭望山月，低頭思故鄉。\n春曉：春眠不覺曉，處處聞啼鳥。夜來風雨聲，花落知多少。\n"
)
ENGLISH = "It's the cat's 3rd mat,  isn't it?\n\n\tThe cat sat;  the cat\r\nsaw 42 mats... and they're flat!\n"
MIXED = POEMS + ENGLISH + "GPT 模型 and 注意力 in 2017，naïve café 🙂\u3000全形\n"
# What trips tokenisers: blanks of all kinds, contractions, marks that combine, other scripts, the end of the plane.
ODD = "ab'sStTrevml \t\n\r\x0b\x0c\x1c\x85\xa0\u2028\u3000.,!?，。0９²é\u0301สวั中文の한글🙂👩\u200d👧\U0010ffff\x01<>"
TEXTS = st.one_of(st.text(), st.text(alphabet=st.sampled_from(sorted(set(ODD))), max_size=80))


@pytest.fixture(scope="module")
def poems():
    """A few lines of Chinese, real ones where they are at hand."""
    path = DATA / "tang_poems" / "poems.txt.gz"
    if not path.exists():
        return POEMS * 20
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return "".join(next(file) for _ in range(200))


@pytest.fixture(scope="module")
def bpe():
    return Bpe.train([MIXED * 4], 700)


def cut(text, places):
    """The text in chunks, cut at these places (taken modulo its length)."""
    stops = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]


def joined(tokenizer, chunks):
    parts = list(tokenizer.encode_stream(iter(chunks)))
    return np.concatenate(parts).tolist() if parts else []


def makers(text):
    """A tokeniser of every kind for this text."""
    return [
        Chars.train([text]),
        Chars.train([text], unknown_at(text)),
        Chars.train([text[: len(text) // 2 + 1]], fallback="bytes"),
        Bytes(),
        Words.train([text], spaceless=False),
        Words.train([text], spaceless=True),
        Words.train([text], 5),
    ]


def unknown_at(text):
    return max(len(set(text)) - 2, 2)


# ---------------------------------------------------------------------------------------------- any text


@settings(max_examples=100)
@given(TEXTS)
@example("\r\n")
@example("e\u0301\u200d")
def test_what_is_encoded_decodes_to_itself(bpe, text):
    for tokenizer in (Bytes(), bpe, Chars("a", fallback="bytes"), *([Chars.train([text])] if text else [])):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode(ids.tolist()) == text
        assert ids.dtype == smallest(tokenizer.size)


@settings(max_examples=100)
@given(TEXTS.filter(bool), st.lists(st.integers(0, 10_000), max_size=12))
@example("a  中 b\t\n 文\u3000 c", [3, 4, 7, 8])
@example("a 中", [2])
@example("   ", [1, 2])
def test_a_stream_gives_what_the_whole_gives(bpe, text, places):
    for tokenizer in (*makers(text * 2), bpe):
        assert joined(tokenizer, cut(text, places)) == tokenizer.encode(text).tolist(), tokenizer.kind


@settings(max_examples=100)
@given(TEXTS)
@example("it's  \n\n  they're\n x")
@example("你好，世界。don't，ok'll\n")
@example("a\u3000  x\xa0\n\nb\x85 \n\u2028  c\x1c \t\x1f  d")
def test_byte_pairs_are_those_of_the_engine_given_the_whole_text(bpe, text):
    assert bpe.encode(text).tolist() == bpe._engine.encode(text, add_special_tokens=False).ids
    cut = bpe._engine.pre_tokenizer.pre_tokenize_str  # whatever the merges, the pieces that they work on are the same
    runs = [run for runs in byte_pairs._runs([text], 10**9) for run in runs]
    assert [piece for run in runs for piece, _ in cut(run)] == [piece for piece, _ in cut(text)]


@settings(max_examples=60)
@given(st.data(), TEXTS.filter(bool))
def test_pushed_tokens_join_to_what_decode_gives(bpe, data, text):
    """For any numbers at all, not only those that some text gives."""
    for tokenizer in (*makers(text), bpe):
        ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=20))
        streamer = tokenizer.streamer()
        pushed = [streamer.push(i) for i in ids]
        assert "".join(pushed) + streamer.finish() == tokenizer.decode(ids)


@settings(max_examples=60)
@given(TEXTS.filter(bool))
def test_json_brings_back_the_same_tokeniser(bpe, text):
    for tokenizer in (*makers(text), bpe):
        again = tokenizers.from_json(json.loads(json.dumps(tokenizer.to_json())))
        assert type(again) is type(tokenizer)
        assert tokenizers.fingerprint(again) == tokenizers.fingerprint(tokenizer)
        assert (again.size, again.unknown) == (tokenizer.size, tokenizer.unknown)
        assert again.encode(text).tolist() == tokenizer.encode(text).tolist()


def test_a_streamer_holds_back_half_a_character():
    streamer = Bytes().streamer()
    assert [streamer.push(b) for b in "a中".encode()] == ["a", "", "", "中"]
    assert streamer.push("文".encode()[0]) == ""
    assert streamer.finish() == "\ufffd"


@pytest.mark.parametrize("text", ["", "a", " ", "\n"])
def test_texts_of_almost_nothing(bpe, text):
    for tokenizer in (Chars("a \n"), Bytes(), Words.train(["a\n"]), bpe):
        ids = tokenizer.encode(text)
        assert ids.shape == (len(text) - (tokenizer.kind == "words" and text == " "),)
        assert joined(tokenizer, [text] if text else []) == ids.tolist()


def test_every_token_has_a_name_that_prints(bpe):
    for tokenizer in (*makers(MIXED), bpe, Bytes(), Chars(MIXED, unknown=True)):
        names = [tokenizer.token(i) for i in range(tokenizer.size)]
        assert all(name and name.isprintable() and " " not in name for name in names), tokenizer.kind
    assert Chars("a \n", unknown=True).token(3) == "<unk>"
    assert Chars("a", fallback="bytes").token(1 + 0xE4) == "<0xE4>"
    assert [Chars("\n a").token(i) for i in range(3)] == ["\\n", "␣", "a"]
    assert Bytes().token(0xE4) == "<0xE4>"


@pytest.mark.parametrize("bad", [-1, 65, 10**9])
def test_numbers_outside_the_vocabulary_are_refused(bad):
    for tokenizer in (Chars(map(chr, range(65, 130))), Words(["<unk>", "<eos>", *map(str, range(63))])):
        assert tokenizer.size == 65
        for use in (lambda t: t.decode([bad]), lambda t: t.streamer().push(bad), lambda t: t.token(bad)):
            with pytest.raises(DataError, match="0 to 64"):
                use(tokenizer)


# ------------------------------------------------------------------------------------------------- chars


def test_characters_are_numbered_by_code_point_with_nothing_added():
    tokenizer = Chars.train(["hello\n", "world"])
    assert tokenizer.characters == "".join(sorted(set("hello\nworld")))
    assert (tokenizer.size, tokenizer.unknown) == (8, None)
    assert tokenizer.encode("ho").tolist() == [tokenizer.characters.index("h"), tokenizer.characters.index("o")]


def test_a_character_never_seen_is_named_with_its_place():
    tokenizer = Chars("ab\n")
    with pytest.raises(DataError, match=r"3 characters.*'中' \(U\+4E2D\) at character 4"):
        tokenizer.encode("ab\na中")
    with pytest.raises(DataError, match=r"'\\t' \(U\+0009\) at character 5"):
        list(tokenizer.encode_stream(["ab\na", "b\tb"]))


def test_a_limited_vocabulary_keeps_the_frequent_and_marks_the_rest():
    tokenizer = Chars.train(["aaabbbccd"], 3)
    assert (tokenizer.characters, tokenizer.size, tokenizer.unknown) == ("ab", 3, 2)
    assert tokenizer.encode("abcdz").tolist() == [0, 1, 2, 2, 2]
    assert tokenizer.decode([0, 2, 1]) == "a\ufffdb"
    assert Chars.train(["aaabbbccd"], 4).unknown is None  # they all fit
    with pytest.raises(DataError, match="more than 1"):
        Chars.train(["ab"], 1)


def test_among_equals_the_lower_code_point_stays():
    text = "".join(map(chr, range(0x4E00, 0x4F00)))
    assert Chars.train([text[::-1]], 101).characters == text[:100]


def test_bytes_are_added_only_when_asked_for(poems):
    plain, spelt = Chars.train([poems]), Chars.train([poems], fallback="bytes")
    assert spelt.size == plain.size + 256
    assert spelt.encode(poems).tolist() == plain.encode(poems).tolist()
    ids = spelt.encode("月🙂光")
    assert len(ids) == 2 + 4
    assert spelt.decode(ids) == "月🙂光"
    few = Chars.train([poems], 280, fallback="bytes")
    assert few.size == 280
    assert few.decode(few.encode(poems)) == poems


def test_tinyshakespeare_has_its_65_symbols():
    path = DATA / "tinyshakespeare" / "input.txt"
    if not path.exists():
        pytest.skip("tinyshakespeare is not here")
    tokenizer = Chars.train([path.read_text()])
    assert (tokenizer.size, tokenizer.unknown) == (65, None)


# ------------------------------------------------------------------------------------------------- words


def test_words_are_numbered_by_frequency_and_lines_end_in_eos():
    tokenizer = Words.train(["b a\n", "\nb  c \n"])
    assert tokenizer.words == ["<unk>", "<eos>", "b", "a", "c"]
    assert tokenizer.encode(" b\ta\n\nx c").tolist() == [2, 3, 1, 1, 0, 4]
    assert tokenizer.decode([2, 3, 1, 1, 0, 4]) == "b a\n\n<unk> c"
    assert Words.train(["b a\n\nb c\n"], 3).words == ["<unk>", "<eos>", "b"]
    assert Words.train(["<unk> <unk> x"]).words == ["<unk>", "<eos>", "x"]


@pytest.mark.slow
def test_wikitext2_gives_its_published_counts():
    folder = DATA / "wikitext2"
    if not folder.exists():
        pytest.skip("wikitext2 is not here")
    packed = {split: folder / f"{split}.txt.gz" for split in ("train", "valid", "test")}
    texts = {split: gzip.decompress(path.read_bytes()).decode() for split, path in packed.items()}
    tokenizer = Words.train([texts["train"]])
    assert tokenizer.size == 33_278
    counts = {split: sum(map(len, tokenizer.encode_stream([text]))) for split, text in texts.items()}
    assert counts == {"train": 2_088_628, "valid": 217_646, "test": 245_569}
    # the rule as the sets' own scripts write it
    lines = texts["valid"].split("\n")[:-1]
    published = [word for line in lines for word in [*line.split(), "<eos>"]]
    assert [tokenizer.words[i] for i in tokenizer.encode(texts["valid"])] == published


def test_chinese_words_are_characters_and_come_back_without_spaces(poems):
    tokenizer = Words.train([poems])
    assert tokenizer.spaceless
    assert tokenizer.decode(tokenizer.encode(poems)) == poems
    assert len(tokenizer.encode("春眠不覺曉")) == 5
    both = Words.train(["我 love 你，love you 我love你 1949年\n\u3000\u3000他 們\n" * 3])
    text = "我 love 你，love you 我love你\n\u3000他 們\n"
    assert both.decode(both.encode(text)) == text


def test_a_few_chinese_characters_do_not_split_the_words_of_an_english_text():
    tokenizer = Words.train(
        ["the game 戦場のヴァルキュリア3 is known outside Japan\n", "by another name , and so on\n" * 9]
    )
    assert not tokenizer.spaceless
    assert "戦場のヴァルキュリア3" in tokenizer.words
    assert tokenizer.decode(tokenizer.encode("戦場のヴァルキュリア3 is")) == "戦場のヴァルキュリア3 is"


@settings(max_examples=60)
@given(TEXTS)
def test_words_without_spaces_lose_only_the_width_of_blanks(text):
    assume("<eos>" not in text)  # that word is the token
    tokenizer = Words.train([text], spaceless=True)
    blank = r"[^\S\n\u3000]+"
    lines = [re.sub(rf"\A{blank}|{blank}\Z", "", line) for line in text.split("\n")]
    expected = re.sub(blank, " ", "\n".join(lines))
    assert tokenizer.decode(tokenizer.encode(text)) == expected


def test_what_is_too_long_for_a_word_is_unknown_however_it_comes():
    text = "a " + "x" * 1000 + " b " + "中" * 10 + "y" * 600 + "中 c"
    for spaceless in (False, True):
        tokenizer = Words.train([text], spaceless=spaceless)
        assert max(map(len, tokenizer.words)) <= LONGEST_WORD
        whole = tokenizer.encode(text).tolist()
        assert whole.count(0) == 2
        for size in (1, 7, 300):
            assert joined(tokenizer, rechunk([text], size)) == whole


def test_counting_drops_the_rarest_words_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(words, "MOST_WORDS", 50)
    text = "".join(f"often w{i} often again{i % 3}\n" for i in range(100_000))
    tokenizer = Words.train([text])
    assert tokenizer.size <= 52
    assert tokenizer.words[:6] == ["<unk>", "<eos>", "often", "again0", "again1", "again2"]


def test_training_that_reads_twice_refuses_an_iterator():
    for kind in (Words, Bpe):
        with pytest.raises(TypeError, match="more than once"):
            kind.train(iter(["a"]))


# --------------------------------------------------------------------------------------------------- bpe


def test_byte_pairs_shorten_text_and_know_every_byte(bpe, poems):
    assert len(bpe.encode(MIXED)) < len(Bytes().encode(MIXED)) / 2
    assert {piece for piece in bpe.pieces if len(piece) == 1} == {bytes([b]) for b in range(256)}
    assert bpe.unknown is None
    assert bpe.decode(bpe.encode(poems)) == poems
    assert Bpe.train([poems], 300).size == 300
    with pytest.raises(DataError, match="256 or more"):
        Bpe.train(["ab"], 255)


def test_a_run_without_a_place_to_cut_is_cut_by_the_text_alone(bpe, monkeypatch):
    monkeypatch.setattr(byte_pairs, "LONGEST_RUN", 10)
    for text in ("a" * 95 + " b", " " * 50 + "a", "字" * 33 + "，" + "文" * 21, "🙂" * 25):
        whole = bpe.encode(text).tolist()
        assert bpe.decode(whole) == text
        monkeypatch.setattr(byte_pairs, "rechunk", lambda chunks, size: iter(chunks))
        for size in (1, 3, 10, 11, 40):
            assert joined(bpe, rechunk([text], size)) == whole
        monkeypatch.undo()
        monkeypatch.setattr(byte_pairs, "LONGEST_RUN", 10)


@settings(max_examples=100)
@given(TEXTS.filter(bool), st.lists(st.integers(0, 10_000), max_size=12), st.integers(1, 40))
def test_runs_fall_where_the_text_says_not_the_chunks(text, places, longest):
    """Below the size at which chunks are gathered first, so that every boundary is met."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_pairs, "rechunk", lambda chunks, size: (chunk for chunk in chunks if chunk))
        whole = [run for runs in byte_pairs._runs([text], longest) for run in runs]
        parts = [run for runs in byte_pairs._runs(cut(text, places), longest) for run in runs]
    assert parts == whole
    assert "".join(whole) == text
    assert max(map(len, whole)) <= longest


@settings(max_examples=100)
@given(TEXTS.filter(bool), st.lists(st.integers(0, 10_000), max_size=12), st.booleans())
def test_words_of_small_chunks_are_the_words_of_the_whole(text, places, spaceless):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(words, "rechunk", lambda chunks, size: (chunk for chunk in chunks if chunk))
        parts = [word for some in words._split_stream(cut(text, places), spaceless) for word in some]
    whole = words._split(text, spaceless)
    blank = re.compile(r"[^\S\n\u3000]+")
    assert [blank.sub(" ", word) for word in parts] == [blank.sub(" ", word) for word in whole]


def test_no_blank_counts_as_solid():
    blank = [c for c in range(0x110000) if chr(c).isspace()]
    assert not (classes()[blank] & SOLID).any()


def test_a_large_text_is_sampled_evenly_and_within_bounds(monkeypatch):
    monkeypatch.setattr(byte_pairs, "BPE_NOVEL", 300_000)
    monkeypatch.setattr(byte_pairs, "BPE_TEXT", 1_000_000)
    never_twice = "".join(f"w{i:08d} " for i in range(300_000))
    seen = [run for runs in byte_pairs._sample([never_twice]) for run in runs]
    assert 200_000 < sum(map(len, seen)) < 500_000
    thirds = Counter(int(run.strip()[1:] or 0) // 100_000 for run in seen if len(run) == 10)
    assert min(thirds.values()) > 0.5 * max(thirds.values())
    assert len(thirds) == 3
    repeating = "the same words again and again\n" * 100_000
    assert 900_000 < sum(len(run) for runs in byte_pairs._sample([repeating]) for run in runs) < 1_200_000
    small = MIXED * 3
    assert "".join(run for runs in byte_pairs._sample([small]) for run in runs) == small


def test_byte_pairs_are_learnt_alike_in_every_process():
    code = (
        "import sys; from recollect.data import tokenizers\n"
        "print(tokenizers.fingerprint(tokenizers.Bpe.train([sys.stdin.buffer.read().decode()], 400)))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            input=(MIXED * 5).encode(),
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(found) == 1


# ------------------------------------------------------------------------------------------------- files


def test_a_tokeniser_is_kept_as_json(tmp_path, bpe):
    for tokenizer in (*makers(MIXED), bpe):
        tokenizers.save(tokenizer, tmp_path / "tokenizer.json")
        json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
        again = tokenizers.load(tmp_path / "tokenizer.json")
        assert again.encode(MIXED).tolist() == tokenizer.encode(MIXED).tolist()
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "JSON"),
        ("[" * 100_000, "JSON"),
        ("[]", "an object"),
        ("{}", "kind"),
        ('{"kind": ["chars"]}', "kind"),
        ('{"kind": "chars", "format": 99}', "format"),
        ('{"kind": "chars", "format": 1}', "characters"),
        ('{"kind": "chars", "format": 1, "characters": "", "unknown": false, "fallback": null}', "at least one"),
        ('{"kind": "chars", "format": 1, "characters": "a", "unknown": 1, "fallback": null}', "bool"),
        ('{"kind": "chars", "format": 1, "characters": "\\ud800", "unknown": false, "fallback": null}', "surrogate"),
        ('{"kind": "chars", "format": 1, "characters": "a", "unknown": false, "fallback": "x"}', "fallback"),
        ('{"kind": "words", "format": 1, "spaceless": false, "words": ["a"]}', "<unk>"),
        ('{"kind": "words", "format": 1, "spaceless": false, "words": ["<unk>", "<eos>", 3]}', "strings"),
        ('{"kind": "words", "format": 1, "spaceless": false, "words": ["<unk>", "<eos>", "a", "a"]}', "different"),
        ('{"kind": "bpe", "format": 1, "vocabulary": ["a"], "merges": []}', "256"),
        ('{"kind": "bpe", "format": 1, "vocabulary": ["中"], "merges": []}', "byte-level"),
        ('{"kind": "bpe", "format": 1, "vocabulary": ["a"], "merges": [["a"]]}', "pairs"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(tmp_path, content, complaint):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(DataError, match=complaint) as caught:
        tokenizers.load(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_merges_must_be_of_known_tokens(bpe):
    data = bpe.to_json()
    data["merges"] = [["a", "中"]]
    with pytest.raises(DataError, match="merges"):
        tokenizers.from_json(data)


def test_a_wrong_kind_is_answered_with_the_right_one():
    with pytest.raises(DataError, match="did you mean chars"):
        tokenizers.train("char", ["a"])
    with pytest.raises(DataError, match="256 for bytes"):
        tokenizers.train("bytes", ["a"], 300)
    with pytest.raises(DataError, match="3 or more"):
        tokenizers.train("words", ["a"], 2)


def test_half_a_surrogate_pair_is_refused(bpe):
    for tokenizer in (Chars("a", unknown=True), Bytes(), Words.train(["a"]), bpe):
        with pytest.raises(DataError, match=r"U\+D800\) at character 1"):
            tokenizer.encode("a\ud800")


@pytest.mark.parametrize(("size", "bytes_each"), [(1, 1), (256, 1), (257, 2), (65_536, 2), (65_537, 4)])
def test_numbers_take_the_smallest_type(size, bytes_each):
    assert smallest(size).itemsize == bytes_each
    assert np.array([size - 1], smallest(size))[0] == size - 1
