"""The n-gram model from the textbook, and a reader of ARPA files from the format."""

import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import torch
from hypothesis import strategies as st

from recollect.models import ngram

SEEDS = st.integers(0, 2**31)


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
