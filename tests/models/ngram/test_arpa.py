"""ARPA files: written, read, and refused, against a plain reader."""

import gzip
import inspect
import math
import os
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from models.ngram.reference import SEEDS, PlainReader, follow, trained, zipf
from recollect.models import ngram
from recollect.models.ngram import arpa
from shared_data import DATA


@given(order=st.integers(1, 6), vocab=st.integers(1, 30), seed=SEEDS)
def test_a_plain_arpa_reader_finds_the_same_probabilities(tmp_path_factory, order, vocab, seed):
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    words = [f"w{i}" for i in range(vocab)]
    model = trained(order, vocab, 150, seed)
    model.to_arpa(path, words)
    text = np.concatenate([zipf(seed, 40, vocab), zipf(seed + 1, 60, vocab)])
    expected = PlainReader(path).nll([words[i] for i in text])
    torch.testing.assert_close(follow(model, text), expected, rtol=0, atol=1e-6)
    again = ngram.Ngram.from_arpa(path, words)
    assert again.config == model.config
    assert [again.entries(k) for k in range(1, order + 1)] == [model.entries(k) for k in range(1, order + 1)]
    torch.testing.assert_close(follow(again, text), follow(model, text), rtol=0, atol=1e-7)


def test_a_character_model_of_real_text_agrees_with_a_plain_reader(tmp_path):
    text = inspect.getsource(textwrap)
    words = sorted(set(text))
    ids = {word: i for i, word in enumerate(words)}
    tokens = np.array([ids[c] for c in text])
    cut = len(tokens) * 3 // 4
    model = ngram.Config(order=6, vocab=len(words)).build().train_on(tokens[:cut])
    model.to_arpa(tmp_path / "text.arpa", words)
    expected = PlainReader(tmp_path / "text.arpa").nll([arpa.escape(c) for c in text[cut:]])
    found = follow(model, tokens[cut:])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    assert math.exp(found.mean()) < len(words) / 8
    again = ngram.Ngram.from_arpa(tmp_path / "text.arpa", words)
    torch.testing.assert_close(follow(again, tokens[cut:]), found, rtol=0, atol=1e-7)


@given(words=st.lists(st.text(max_size=4), min_size=1, max_size=8, unique=True))
@example(words=["", " ", "\n", "\t", "\\", "\\s", "\\e", "\\u0020", "\u3000", "\u2028", "\0", "\x85", "\x1c", "\udc80"])
@example(words=["%", "\ufeff", "#", "\\data\\", "\\end\\", "-1", "ngram 1=1"])
def test_any_words_go_through_a_file(tmp_path_factory, words):
    path = tmp_path_factory.mktemp("arpa") / "model.arpa"
    model = trained(2, len(words), 60)
    model.to_arpa(path, words)
    assert arpa.read_words(path)[: len(words)] == words
    again = ngram.Ngram.from_arpa(path, words)
    torch.testing.assert_close(again.length(2).keys, model.length(2).keys)
    for word in words:
        assert arpa.unescape(arpa.escape(word)) == word
        assert not any(c.isspace() for c in arpa.escape(word))


FOREIGN = r"""
Written by another tool, which says so first.

\data\
ngram  1=5
ngram  2=4
ngram  3=2

\1-grams:
-99	<s> -0.3
-1.0 </s>
-2	<unk>	0
-0.5	a	-0.2
-0.6	\n	-0.1

\2-grams:
-0.2	<s> a	-0.05
-0.3	a \n	-0.4
-0.7	a a
-0.9	\n a	0.1

\3-grams:
-0.1	<s> a \n
-0.15	a \n a

\end\
"""


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_files_of_other_tools_are_read(tmp_path, ending):
    path = tmp_path / "foreign.arpa"
    path.write_bytes(FOREIGN.replace("\n", ending).encode())
    words = arpa.read_words(path)
    assert words == ["<s>", "</s>", "<unk>", "a", r"\n"]
    model = ngram.Ngram.from_arpa(path, words)
    found = follow(model, [0, 3, 4, 3, 4, 4, 1, 3, 2]) / -math.log(10)
    # the last: <s> a, <s> a \n, a \n a, then shorter and shorter
    expected = [-0.2, -0.1, -0.15, 0.1 - 0.3, -0.4 - 0.1 - 0.6, -0.1 - 1.0, -0.5, -0.2 - 2]
    assert found.tolist() == pytest.approx(expected, abs=1e-12)
    # Without the words that the text has not, the rest stays.
    fewer = ngram.Ngram.from_arpa(path, [r"\n", "a"])
    assert (follow(fewer, [1, 0, 1, 0]) / -math.log(10)).tolist() == pytest.approx([-0.3, -0.15, 0.1 - 0.3])


def test_pruned_files_whose_contexts_are_missing_score_the_same(tmp_path):
    words = ["a", "b", "c", "d"]
    path, pruned = tmp_path / "full.arpa", tmp_path / "pruned.arpa"
    trained(5, 4, 200).to_arpa(path, words)
    kept, rng = [], np.random.default_rng(1)
    for line in path.read_text().split("\n"):
        is_gram = line[:1] == "-" or line[:1].isdigit()
        if not is_gram or len(line.split()) <= 3 or rng.random() < 0.3:
            kept.append(line)
    sizes = Counter(len(line.split("\t")[1].split()) for line in kept if "\t" in line)
    kept = [f"ngram {line[6]}={sizes[int(line[6])]}" if line.startswith("ngram") else line for line in kept]
    pruned.write_text("\n".join(kept))
    model, text = ngram.Ngram.from_arpa(pruned, words), zipf(3, 400, 4)
    assert model.entries() > sum(sizes.values()) - 3  # some contexts had to be added
    expected = PlainReader(pruned).nll([words[i] for i in text])
    torch.testing.assert_close(follow(model, text), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (("\\data\\", "data"), 27, r"expected a line \\data\\"),
        (("ngram  2=4", "ngram  3=4"), 6, "'ngram 2='"),
        (("ngram  2=4", "hello"), 6, "'ngram 2='"),
        (("ngram  2=4", "ngram  2=5"), 22, "expected 5 2-grams, as declared under .* found 4"),
        (("\\2-grams:", "\\3-grams:"), 16, r"expected \\2-grams:"),
        (("-0.7	a a", "-0.7	a"), 19, "a probability, 2 words"),
        (("-0.7	a a", "-0.7	a a a a"), 19, "a probability, 2 words"),
        (("-0.7	a a", "x	a a"), 19, "numbers around the words"),
        (("-0.7	a a", "nan	a a"), 19, "at most 0"),
        (("-0.7	a a", "0.7	a a"), 19, "at most 0"),
        (("-0.7	a a", "-inf	a a"), 19, "at most 0 and finite"),
        (("-0.7	a a", "-0.7	a a	-inf"), 19, "back-off weight, finite"),
        (("ngram  2=4", "ngram  2=1000000000000"), 22, "expected 1,000,000,000,000 2-grams"),
        (("ngram  2=4", f"ngram  2={'9' * 5_000}"), 6, "'ngram 2=' and a count"),
        (("ngram  2=4", f"ngram  {'9' * 5_000}=1"), 6, "'ngram 2=' and a count"),
        (("-0.7	a a", f"-0.7	a {'a' * (1 << 20)}"), 19, "lines of at most 1,048,576 bytes"),
        (("-0.7	a a", "-0.7	a a	nan"), 19, "back-off weight"),
        (("-0.7	a a", "-0.7	a z"), 19, "among the 1-grams, found 'z'"),
        (("-0.7	a a", "-0.9	\\n a"), 20, "found that of line 19 again"),
        (("-1.0 </s>", "-1.0 a"), 13, "'a' again"),
        (("-0.5	a	-0.2", "-0.5	z	-0.2"), 16, "no entry for 'a'"),
        (("\\end\\", ""), 27, "end of the file"),
        (("\\3-grams:\n-0.1	<s> a \\n\n-0.15	a \\n a\n\n\\end\\\n", ""), 22, "the end of the file"),
        (("ngram  1=5\nngram  2=4\nngram  3=2\n", ""), 6, "'ngram 1='"),
    ],
)
def test_malformed_files_are_told_in_one_line_with_its_number(tmp_path, change, line, problem):
    path = tmp_path / "broken.arpa"
    assert change[0] in FOREIGN
    path.write_text(FOREIGN.replace(*change))
    with pytest.raises(arpa.ArpaError, match=problem) as caught:
        ngram.Ngram.from_arpa(path, ["a", "\\n"])
    assert str(caught.value).startswith(f"{path}:{line}: expected ")
    assert "\n" not in str(caught.value)


def test_a_vocabulary_with_a_word_twice_or_one_that_the_file_lacks_is_refused(tmp_path):
    trained(2, 3).to_arpa(tmp_path / "m.arpa", ["a", "b", "c"])
    with pytest.raises(arpa.ArpaError, match="'a' twice"):
        trained(2, 3).to_arpa(tmp_path / "n.arpa", ["a", "b", "a"])
    with pytest.raises(arpa.ArpaError, match="'b' twice"):
        ngram.Ngram.from_arpa(tmp_path / "m.arpa", ["a", "b", "b"])
    with pytest.raises(arpa.ArpaError, match="no entry for 'x' and 1 others"):
        ngram.Ngram.from_arpa(tmp_path / "m.arpa", ["a", "x", "y"])
    assert not (tmp_path / "n.arpa").exists()


def wikitext(split, ids=None):
    folder = DATA / "wikitext2"
    if not folder.exists():
        pytest.skip(f"needs WikiText-2 in {folder}; RECOLLECT_DATA names the folder of data")
    with gzip.open(folder / f"{split}.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
        words = [word for line in file for word in [*line.split(), "<eos>"]]
    ids = ids or {word: i for i, word in enumerate(dict.fromkeys(words))}
    return np.array([ids[word] for word in words]), ids


@pytest.mark.slow
def test_wikitext_2(tmp_path):
    text, ids = wikitext("train")
    held_out, _ = wikitext("test", ids)
    assert (len(text), len(ids), len(held_out)) == (2_088_628, 33_278, 245_569)
    model = ngram.Config(order=5, vocab=len(ids)).build().train_on(text)
    nats = follow(model, held_out)
    perplexity = math.exp(nats.mean())
    print(f"WikiText-2, 5-gram: test perplexity {perplexity:.2f}, {model.entries():,} n-grams")
    assert 140 < perplexity < 260
    y, _ = model(torch.as_tensor(held_out[None, :200]))
    torch.testing.assert_close(y.double().exp().sum(-1), torch.ones(1, 200).double(), rtol=0, atol=1e-6)
    words, smaller = list(ids), model.config.build().train_on(text[:300_000])
    smaller.to_arpa(tmp_path / "wikitext.arpa", words)
    expected = PlainReader(tmp_path / "wikitext.arpa").nll([words[i] for i in held_out[:20_000]])
    torch.testing.assert_close(follow(smaller, held_out[:20_000]), expected, rtol=0, atol=1e-5)


def test_n_grams_of_any_length_are_refused(tmp_path):
    path = tmp_path / "long.arpa"
    path.write_text("\\data\\\n" + "".join(f"ngram {k}=1\n" for k in range(1, 100)) + "\n\\1-grams:\n-1\ta\n")
    with pytest.raises(arpa.ArpaError, match="n-grams of at most 64 words, found longer ones"):
        arpa.read(path, ["a"])


@pytest.mark.parametrize("kind", ["fifo", "folder", "device"])
def test_what_is_no_file_is_refused(tmp_path, kind):
    path = Path("/dev/zero") if kind == "device" else tmp_path / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ValueError, match="expected a regular file, found a"):
        arpa.read(path, ["a"])
