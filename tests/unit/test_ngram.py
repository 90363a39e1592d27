"""The n-gram model against the textbook's formulas in dictionaries, and against a plain reader of ARPA text."""

import gzip
import inspect
import itertools
import math
import os
import textwrap
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from recollect.core import laws
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.models import ngram
from recollect.models.ngram import arpa
from recollect.models.ngram import count as ngram_count

DATA = Path(os.environ.get("RECOLLECT_DATA") or Path(__file__).parents[3] / "shared" / "data")
SEEDS = st.integers(0, 2**31)
CHUNKS = st.lists(st.integers(1, 6), min_size=2, max_size=6)


class Textbook:
    """Interpolated modified Kneser–Ney, word for word from Chen and Goodman, in dictionaries of tuples."""

    def __init__(self, text, order, vocab):
        self.vocab, self.counts = vocab, []
        padded = ["the beginning", *text]
        for k in range(1, order + 1):
            if k == order:
                grams = Counter(tuple(text[i : i + k]) for i in range(len(text) - k + 1))
            else:
                before = defaultdict(set)
                for i in range(1, len(padded) - k + 1):
                    before[tuple(padded[i : i + k])].add(padded[i - 1])
                grams = Counter({gram: len(kinds) for gram, kinds in before.items()})
            self.counts.append(grams)
        self.discounts = [self.discount(grams) for grams in self.counts]

    @staticmethod
    def discount(grams):
        n1, n2, n3, n4 = (sum(1 for c in grams.values() if c == i) for i in (1, 2, 3, 4))
        if 0 in (n1, n2, n3, n4):
            return 0.5, 1.0, 1.5
        y = n1 / (n1 + 2 * n2)
        found = 1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3
        return found if all(0 < d <= i for i, d in enumerate(found, start=1)) else (0.5, 1.0, 1.5)

    def probability(self, word, context):
        k = len(context)
        lower = self.probability(word, context[1:]) if context else 1 / self.vocab
        grams, (d1, d2, d3) = self.counts[k], self.discounts[k]
        followers = {gram: c for gram, c in grams.items() if gram[:-1] == context}
        total = sum(followers.values())
        if not total:
            return lower
        kinds = Counter(min(c, 3) for c in followers.values())
        gamma = (d1 * kinds[1] + d2 * kinds[2] + d3 * kinds[3]) / total
        c = grams.get((*context, word), 0)
        return max(c - [0, d1, d2, d3][min(c, 3)], 0) / total + gamma * lower


class PlainReader:
    """ARPA as its format says: the longest listed n-gram, else the context's weight times a shorter context."""

    def __init__(self, path):
        self.probability, self.weight = {}, {}
        for line in Path(path).read_text(encoding="utf-8").split("\n"):
            if line[:1] in "-0123456789" and line:
                p, gram, *weight = line.split("\t")
                self.probability[tuple(gram.split(" "))] = float(p)
                self.weight[tuple(gram.split(" "))] = float(weight[0]) if weight else 0.0
        self.order = max(map(len, self.probability))

    def log10(self, word, context):
        if (*context, word) in self.probability:
            return self.probability[(*context, word)]
        return self.weight.get(context, 0.0) + self.log10(word, context[1:])

    def nll(self, words):
        """Nats of every word but the first."""
        contexts = (tuple(words[max(0, i - self.order + 1) : i]) for i in range(1, len(words)))
        nats = [-math.log(10) * self.log10(words[i], context) for i, context in enumerate(contexts, start=1)]
        return torch.tensor(nats, dtype=torch.float64)


def zipf(seed, length, vocab):
    """Random text in which some words are frequent, and repeat themselves in runs."""
    rng = np.random.default_rng(seed)
    words = (rng.pareto(1.0, length) * 2).astype(np.int64) % vocab
    return np.where(rng.random(length) < 0.3, np.roll(words, 3), words)


def trained(order=3, vocab=7, length=300, seed=0):
    return ngram.Config(order=order, vocab=vocab).build().train_on(zipf(seed, length, vocab))


def follow(model, text):
    """nll of every token but the first, in one call."""
    text = torch.as_tensor(text)[None]
    return model.nll(text[:, :-1], text[:, 1:])[0][0]


def last(text, n):
    """The last n of text, or all where there are fewer."""
    return tuple(text[max(0, len(text) - n) :])


# The probabilities

BOOKS = [(1, 5, 60), (2, 30, 900), (3, 4, 300), (4, 12, 500), (5, 3, 40)]  # order, vocabulary, length


def test_a_text_small_enough_to_work_by_hand():
    model = ngram.Config(order=2, vocab=2).build().train_on(np.array([0, 1, 0]))
    # Before 0 stood 1 and the beginning, before 1 stood 0: 2 and 1 of 3, less 1 and ½; the ½ left is shared.
    p0, p1 = 1 / 3 + 0.5 / 2, 0.5 / 3 + 0.5 / 2
    y, _ = model.double()(torch.tensor([[0, 1]]))
    expected = torch.tensor([[0.5 * p0, 0.5 + 0.5 * p1], [0.5 + 0.5 * p0, 0.5 * p1]], dtype=torch.float64)
    torch.testing.assert_close(y[0].exp(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("order", "vocab", "length"), BOOKS)
def test_every_probability_is_the_textbooks(order, vocab, length):
    text = zipf(order, length, vocab)
    model, book = ngram.Config(order=order, vocab=vocab).build().train_on(text).double(), Textbook(text, order, vocab)
    contexts = [tuple(text[i : i + order - 1]) for i in range(0, length - order, 7)]
    rng = np.random.default_rng(0)
    contexts += [tuple(rng.integers(vocab, size=rng.integers(1, 2 * order)).tolist()) for _ in range(60)]
    for context in filter(None, contexts):
        y, _ = model(torch.tensor([context]))
        expected = [book.probability(word, last(context, order - 1)) for word in range(vocab)]
        assert y[0, -1].exp().tolist() == pytest.approx(expected, abs=1e-10, rel=1e-10)


def test_the_books_compared_with_use_both_computed_and_fallback_discounts():
    used = [d for order, vocab, length in BOOKS for d in Textbook(zipf(order, length, vocab), order, vocab).discounts]
    assert used.count(ngram_count.FALLBACK) >= 2
    assert len(set(used)) >= 4


@given(order=st.integers(1, 6), vocab=st.integers(1, 9), length=st.integers(2, 120), seed=SEEDS)
def test_scores_are_the_textbooks(order, vocab, length, seed):
    text = zipf(seed, length, vocab)
    model = ngram.Config(order=order, vocab=vocab).build().train_on(text[: length // 2])
    book = Textbook(text[: length // 2], order, vocab)
    expected = [-math.log(book.probability(text[i], last(text[:i], order - 1))) for i in range(1, length)]
    assert follow(model, text).tolist() == pytest.approx(expected, abs=1e-10)


def test_a_vocabulary_of_a_million_and_order_eight_do_not_overflow():
    vocab = 2**20
    text = vocab - 1 - zipf(0, 200, 5)
    model, book = ngram.Config(order=8, vocab=vocab).build().train_on(text), Textbook(text, 8, vocab)
    expected = [-math.log(book.probability(text[i], last(text[:i], 7))) for i in range(1, 80)]
    assert follow(model, text[:80]).tolist() == pytest.approx(expected, abs=1e-10)
    y, _ = model(torch.as_tensor(text[None, :3]))
    assert y[0, -1].double().exp().sum().item() == pytest.approx(1, abs=1e-6)


@given(order=st.integers(1, 5), vocab=st.integers(1, 40), seed=SEEDS)
def test_every_distribution_sums_to_one_and_leaves_nothing_out(order, vocab, seed):
    model = trained(order, vocab, 200, seed)
    y, _ = model(torch.randint(vocab, (3, 11)))
    assert y.dtype == torch.float32
    assert y.isfinite().all()
    torch.testing.assert_close(y.double().exp().sum(-1), torch.ones(3, 11).double(), rtol=0, atol=1e-6)


def test_discounts_follow_from_counts_of_counts():
    counts = torch.tensor([1] * 40 + [2] * 12 + [3] * 6 + [4] * 3 + [9])
    y = 40 / 64
    expected = [0, 1 - 2 * y * 12 / 40, 2 - 3 * y * 6 / 12, 3 - 4 * y * 3 / 6]
    assert ngram_count.discounts(counts).tolist() == pytest.approx(expected)
    assert ngram_count.discounts(counts[counts != 3]).tolist() == [0, *ngram_count.FALLBACK]
    # Far more threes than twos would give back more than nothing.
    assert ngram_count.discounts(torch.tensor([1] * 9 + [2] + [3] * 9 + [4])).tolist() == [0, *ngram_count.FALLBACK]


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("text", [[], [2], [1, 1, 1, 1, 1, 1, 1], [0, 1], [2, 1, 0]], ids=len)
def test_degenerate_texts_still_give_distributions(order, text):
    model = ngram.Config(order=order, vocab=3).build().train_on(np.array(text, dtype=np.int32))
    book = Textbook(text, order, 3)
    for seen in itertools.product(range(3), repeat=2):
        y, _ = model.double()(torch.tensor([seen]))
        assert y[0, -1].exp().sum().item() == pytest.approx(1, abs=1e-12)
        expected = [book.probability(word, last(seen, order - 1)) for word in range(3)]
        assert y[0, -1].exp().tolist() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("order", [1, 3])
def test_a_vocabulary_of_one_is_certain(order, tmp_path):
    model = ngram.Config(order=order, vocab=1).build().train_on(np.zeros(9, dtype=np.int64))
    assert follow(model, [0, 0, 0, 0]).tolist() == pytest.approx([0, 0, 0], abs=1e-12)
    model.to_arpa(tmp_path / "one.arpa", ["a"])
    assert follow(ngram.Ngram.from_arpa(tmp_path / "one.arpa", ["a"]), [0, 0]).tolist() == pytest.approx([0], abs=1e-9)


def test_an_untrained_model_is_uniform_and_training_forgets_what_was_learned():
    model = ngram.Config(order=3, vocab=4).build()
    assert follow(model, [0, 1, 2]).tolist() == pytest.approx([math.log(4)] * 2)
    model.train_on(zipf(1, 50, 4)).train_on(zipf(2, 80, 4))
    fresh = ngram.Config(order=3, vocab=4).build().train_on(zipf(2, 80, 4))
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), fresh.buffers(), strict=True))


def test_entries_count_the_different_ngrams():
    text = zipf(0, 100, 6)
    model = ngram.Config(order=3, vocab=8).build().train_on(text)
    expected = [8, *(len({tuple(text[i : i + k]) for i in range(101 - k)}) for k in (2, 3))]
    assert [model.entries(k) for k in (1, 2, 3)] == expected
    assert model.entries() == sum(expected)


def test_a_read_only_memory_map_of_small_integers_trains(tmp_path):
    text = zipf(0, 100, 6)
    text.astype(np.uint16).tofile(tmp_path / "tokens")
    mapped = np.memmap(tmp_path / "tokens", dtype=np.uint16, mode="r")
    model, expected = (ngram.Config(order=3, vocab=6).build().train_on(t) for t in (mapped, text))
    assert torch.equal(follow(model, text), follow(expected, text))


# The contract


@given(chunks=CHUNKS, rows=st.integers(1, 4), order=st.integers(1, 5), seed=SEEDS)
def test_the_laws_hold(chunks, rows, order, seed):
    model = trained(order=order, seed=seed % 5).double()
    x = torch.randint(7, (rows, sum(chunks)))
    laws.chunk(model, x, chunks)
    laws.chunk(model, x[:, 1:], [x.shape[1] - 1], warm=x[:, :1])
    laws.cause(model, x, chunks[0])
    laws.row(model, x)
    laws.purity(model, x)
    laws.size(model, x)
    laws.file(model, x)


@given(chunks=CHUNKS, rows=st.integers(1, 4), order=st.integers(1, 5), shifted=st.booleans(), seed=SEEDS)
def test_scoring_in_chunks_is_scoring_at_once_and_reads_the_distribution(chunks, rows, order, shifted, seed):
    model = trained(order=order, seed=seed % 5).double()
    torch.manual_seed(seed)
    text = torch.randint(7, (rows, sum(chunks) + 1))
    x = text[:, :-1]
    targets = text[:, 1:] if shifted else torch.randint(7, x.shape)
    whole, final = model.nll(x, targets)
    state, parts = model.initial_state(rows), []
    for part, target in zip(x.split(chunks, dim=1), targets.split(chunks, dim=1), strict=True):
        before = [tensor.clone() for tensor in states.leaves(state)]
        nats, after = model.nll(part, target, state)
        assert all(torch.equal(a, b) for a, b in zip(before, states.leaves(state), strict=True))
        parts.append(nats)
        state = after
    assert torch.equal(torch.cat(parts, dim=1), whole)
    assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(final), strict=True))
    y, state = model(x)
    torch.testing.assert_close(-y.gather(2, targets[..., None])[..., 0], whole, rtol=1e-12, atol=1e-12)
    assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(final), strict=True))


def test_rows_at_different_positions_share_a_batch():
    model = trained(order=4)
    text = torch.as_tensor(zipf(9, 12, 7))[None]
    started = [model(text[:, :t])[1] if t else model.initial_state(1) for t in (0, 1, 2, 7)]
    x, targets = text[:, 7:11].expand(4, -1), text[:, 8:].expand(4, -1)
    together, final = model.nll(x, targets, states.join(started))
    assert final.clock.tolist() == [4, 5, 6, 11]
    for row, state in enumerate(started):
        assert torch.equal(together[row], model.nll(x[:1], targets[:1], state)[0][0])
    assert together[0, 0] != together[3, 0]


@given(lengths=st.lists(st.integers(0, 6), min_size=3, max_size=3), order=st.integers(1, 4))
def test_rows_of_unequal_length_give_what_each_gives_alone(lengths, order):
    model = trained(order=order)
    x = torch.randint(7, (3, 6))
    for row, length in enumerate(lengths):
        x[row, length:] = -100
    y, final = model.ragged(x, lengths)
    for row, length in enumerate(lengths):
        assert not y[row, length:].any()
        alone = model.initial_state(1)
        if length:
            expected, alone = model(x[row : row + 1, :length])
            assert torch.equal(y[row, :length], expected[0])
        assert torch.equal(final.window[row], alone.window[0])
        assert final.clock[row] == length


def test_a_model_goes_through_a_file_whatever_the_number_of_ngrams(tmp_path):
    model, text = trained(order=4), zipf(5, 60, 7)
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded = model.config.build()
    loaded.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert loaded.entries() == model.entries() > 7
    assert torch.equal(follow(loaded, text), follow(model, text))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("lengths.1.keys", lambda t: t.flip(0), "do not ascend"),
        ("lengths.2.keys", lambda t: t + 10**6, "contexts do not exist"),
        ("lengths.1.log_probability", lambda t: t[:-1], "probabilities"),
        ("lengths.1.log_backoff", lambda t: t[:0], "back-off weights"),
        ("lengths.0.keys", lambda t: t + 1, "not 0 to 6"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(name, change, problem):
    tensors = trained().state_dict()
    tensors[name] = change(tensors[name])
    with pytest.raises(ContractError, match=problem):
        trained().config.build().load_state_dict(tensors)


def test_wrong_inputs_are_told_in_one_line():
    model = trained()
    x = torch.zeros(2, 3, dtype=torch.int64)
    for wrong, problem in [
        (lambda: model(x + 7), "x from 0 to 6, found 7"),
        (lambda: model(x - 1), "x from 0 to 6, found -1"),
        (lambda: model(x.float()), "whole numbers"),
        (lambda: model(x[0]), "shape"),
        (lambda: model(x[:, :0]), "shape"),
        (lambda: model(x, model.initial_state(3)), "state"),
        (lambda: model(x, trained(order=4).initial_state(2)), "state"),
        (lambda: model.nll(x, x[:, 1:]), "targets"),
        (lambda: model.nll(x, x + 7), "targets from 0 to 6"),
        (lambda: model.train_on(np.array([0.0])), "whole numbers"),
        (lambda: model.train_on(np.array([[0, 1]])), "one row"),
        (lambda: model.train_on(np.array([0, 7])), "tokens from 0 to 6"),
        (lambda: model.to_arpa("x", ["a"]), "7 words"),
        (lambda: ngram.Config(order=0, vocab=3), "order"),
    ]:
        with pytest.raises(ContractError, match=problem) as caught:
            wrong()
        assert "\n" not in str(caught.value)


# ARPA


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


# Real text


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
