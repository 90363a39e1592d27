"""Translation as a task: losses, scores and batches against what a reader can work out; runs; lines in, lines out."""

import io
import json
import math
import re
import sys
from dataclasses import fields, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import sacrebleu
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div

import tiny
from recollect import cli, tasks
from recollect.core import ragged
from recollect.core.contract import Memory
from recollect.core.settings import SettingError
from recollect.data.files import DataError
from recollect.decode import beam, translate
from recollect.models import seq2seq
from recollect.race.terms import accepted
from recollect.tasks.decoding import greedy_settings, logits_of, search_settings, token_losses
from recollect.tasks.translation import bleu
from recollect.tasks.translation import data as parallel
from recollect.tasks.translation import task as translation
from recollect.tasks.translation.heat import TRANSLATION
from recollect.tasks.translation.instruments import align
from recollect.tasks.translation.pairs import batches_by_tokens
from recollect.tasks.translation.settings import Config
from recollect.tasks.translation.task import TranslationTask
from recollect.train import checkpoint
from recollect.train import run as runs
from recollect.train.folder import RunError, RunFolder
from recollect.train.settings import Settings

TRAIN = [
    ("the cat sees the dog", "le chat voit le chien"),
    ("the dog sees", "le chien voit"),
    ("a cat", "un chat"),
    ("The dog sleeps.", "Le chien dort."),
    ("the cat eats a fish", "le chat mange un poisson"),
    ("a dog eats", "un chien mange"),
    ("a fish", "un poisson"),
    ("the fish sleeps", "le poisson dort"),
    ("the cat sees a fish", "le chat voit un poisson"),
    ("a dog sees the cat", "un chien voit le chat"),
    ("sleeps", "dort"),
    ("now, now, now", "tout de suite, tout de suite, tout de suite"),
]
VALID = [
    ("a dog sees a fish", "un chien voit un poisson"),
    ("the cat", "le chat"),
    ("a cat sees the dog", "un chat voit le chien"),
    ("eats", "mange"),
    ("the fish eats", "le poisson mange"),
]
every_kind = pytest.mark.parametrize("kind", seq2seq.MODELS)


def table(path, pairs):
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return str(path)


def load(folder, train=TRAIN, valid=VALID, tokenizer="words", **settings):
    """Pairs as a run would read them; the test part is the validation part."""
    files = [table(folder / f"{name}.tsv", rows) for name, rows in (("train", train), ("valid", valid))]
    given = {"pair": "en-fr", "valid": files[1], "test": files[1], "cache": folder / "cache"} | settings
    return parallel.load(files[0], tokenizer=tokenizer, **given)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return load(tmp_path_factory.mktemp("data"))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOLLECT_CACHE", str(tmp_path / "cache"))


def task(data, **settings):
    return TranslationTask(Config(**{"batch": 40} | settings), data)


def build(data, kind="attend", seed=0, **settings):
    """A random model that has something to say, in float64: nothing depends on rounding."""
    torch.manual_seed(seed)
    given = {"width": 8, "heads": 2, "dropout": 0.0, "source": data.source.size, "target": data.target.size}
    model = seq2seq.Config(model=kind, **given | settings).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)
    return model


def alone(model, data, source, target):
    """−log p of each token of one target and its end, its source read alone: a loop over nothing but one pair."""
    memory = model.encode(torch.tensor([[*source, data.source.end]]))
    logits, _ = model(torch.tensor([[data.target.begin, *target]]), memory=memory)
    likely = (logits[0].exp() / logits[0].exp().sum(dim=-1, keepdim=True)).detach()
    return [-likely[t, token].log() for t, token in enumerate([*target, data.target.end])]


def rows_of(pairs):
    return [(pairs.source_of(i).tolist(), pairs.target_of(i).tolist()) for i in range(len(pairs))]


# ------------------------------------------------------------------------------------------------ models by script


class Place(NamedTuple):
    script: Tensor  # B L V
    clock: Tensor  # B


class Scripted(nn.Module):
    """Writes for each source what it was told to, whatever it reads; it is never quite sure."""

    def __init__(self, data, texts):
        super().__init__()
        self.data = data
        self.rows = {
            tuple(data.source.encode(source).tolist()): [*data.target.encode(text).tolist(), data.target.end]
            for source, text in texts.items()
        }

    def encode(self, source, lengths):
        wanted = [self.rows[tuple(row[: n - 1].tolist())] for row, n in zip(source, lengths, strict=True)]
        script = torch.zeros(len(source), 40, self.data.target.size)
        for row, tokens in enumerate(wanted):
            script[row, torch.arange(40), torch.tensor((tokens * 40)[:40])] = 9.0
        return Memory(script, ragged.mask(lengths, source.shape[1]))

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Place(memory.values.clone(), torch.zeros(batch, dtype=torch.int64))

    def forward(self, x, state=None, memory=None):
        state = self.initial_state(len(x), memory) if state is None else state
        at = state.clock[:, None] + torch.arange(x.shape[1])
        return state.script[torch.arange(len(x))[:, None], at], state._replace(clock=state.clock + x.shape[1])


class Last(NamedTuple):
    x: Tensor  # B


class Chain(nn.Module):
    """A table: what comes next depends on the last token alone, never on the source."""

    def __init__(self, table):
        super().__init__()
        self.register_buffer("table", table)  # V V, logits
        self.read = []

    def encode(self, source, lengths):
        return Memory(torch.zeros(*source.shape, 1), ragged.mask(lengths, source.shape[1]))

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Last(torch.zeros(batch))

    def forward(self, x, state=None, memory=None):
        self.read.append(x)
        return self.table[x], Last(x[:, -1])


def chain(data, *texts):
    """Always goes on as the texts do, where they say how."""
    torch.manual_seed(0)
    found = torch.randn(data.target.size, data.target.size, dtype=torch.float64)
    for text in texts:
        tokens = [data.target.begin, *data.target.encode(text).tolist(), data.target.end]
        for a, b in pairwise(tokens):
            found[a, b] = 5.0
    return Chain(found)


# ------------------------------------------------------------------------------------------------ the loss


@every_kind
def test_the_loss_is_the_mean_over_the_real_tokens_of_each_pair_read_alone(data, kind):
    model, work = build(data, kind), task(data, smoothing=0.0, batch=200)
    batch = work.batch(data.train, np.array([0, 2, 10, 3]))
    assert (batch.y == data.target.pad).any(), "there is padding to ignore"
    assert (batch.lengths < batch.source.shape[1]).any()
    expected = [loss for i in (0, 2, 10, 3) for loss in alone(model, data, *rows_of(data.train)[i])]
    found = work.loss(model, batch)
    assert found.tokens == batch.tokens == len(expected) == 6 + 3 + 2 + 4
    assert found.value.item() == pytest.approx(float(sum(expected)) / len(expected), rel=1e-12)


@every_kind
def test_neither_padding_nor_other_rows_matter(data, kind):
    model, work = build(data, kind), task(data, smoothing=0.1)
    batch = work.batch(data.train, np.array([0, 2, 10]))
    junk = batch._replace(source=batch.source.clone(), x=batch.x.clone())
    junk.source[ragged.mask(batch.lengths, batch.source.shape[1]).logical_not()] = 5
    junk.x[batch.y == data.target.pad] = 4
    assert not torch.equal(junk.source, batch.source)
    assert not torch.equal(junk.x, batch.x)
    assert work.loss(model, junk).value.item() == pytest.approx(work.loss(model, batch).value.item(), rel=1e-12)
    memory = model.encode(batch.source, batch.lengths)
    together = token_losses(logits_of(model, batch.x, memory), batch.y, data.target.pad)
    for row, i in enumerate((0, 2, 10)):
        other = work.batch(data.train, np.array([i, 4]))
        logits = logits_of(model, other.x, model.encode(other.source, other.lengths))
        found = token_losses(logits, other.y, data.target.pad)[0]
        real = len(data.train.target_of(i)) + 1
        torch.testing.assert_close(together[row, :real], found[:real], rtol=1e-10, atol=1e-12)
        assert not together[row, real:].any()


def test_consistency_is_the_divergence_of_two_draws_of_dropout(data):
    model = build(data, dropout=0.4)
    plain, work = task(data), task(data, consistency=1.5)
    batch = next(iter(work.batches("train", 0)))
    model.train()
    torch.manual_seed(3)
    found = work.loss(model, batch)
    torch.manual_seed(3)
    both = type(batch)(*(torch.cat([part, part]) for part in batch[:4]), batch.tokens, batch.number)
    logits, _ = model(both.x, memory=model.encode(both.source, both.lengths))
    real = batch.y != data.target.pad
    p, q = (half[real].softmax(dim=-1) for half in logits.chunk(2))
    apart = (kl_div(q.log(), p, reduction="sum") + kl_div(p.log(), q, reduction="sum")) / 2 / real.sum()
    torch.manual_seed(3)
    torch.testing.assert_close(found.value, plain.loss(model, both).value + 1.5 * apart)
    assert float(apart.detach()) > 0
    assert found.tokens == batch.tokens
    model.eval()
    torch.testing.assert_close(work.loss(model, batch).value, plain.loss(model, batch).value)
    assert work.flops(model, 4, 5, 6) == 2 * plain.flops(model, 4, 5, 6)


def test_label_smoothing_is_torchs_on_the_real_tokens_and_only_in_training(data):
    model, work = build(data), task(data, smoothing=0.2)
    batch = work.batch(data.train, np.array([0, 2, 10]))
    logits, _ = model(batch.x, memory=model.encode(batch.source, batch.lengths))
    real = batch.y != data.target.pad
    expected = cross_entropy(logits[real], batch.y[real], label_smoothing=0.2)
    assert work.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-12)
    likely = logits[real].log_softmax(-1)
    by_hand = -0.8 * likely.gather(-1, batch.y[real][:, None]).mean() - 0.2 * likely.mean()
    assert expected.item() == pytest.approx(by_hand.item(), rel=1e-10)
    assert work.evaluate(model, "valid") == task(data, smoothing=0.0).evaluate(model, "valid")


def test_logits_in_half_precision_are_judged_in_single(data):
    model, work = chain(data, "le chat"), task(data, smoothing=0.0)
    batch = work.batch(data.train, np.array([0, 2]))
    model.table = model.table.bfloat16()
    expected = cross_entropy(
        model.table[batch.x].float().flatten(0, 1), batch.y.flatten(), ignore_index=data.target.pad
    )
    assert work.loss(model, batch).value.item() == pytest.approx(expected.item(), rel=1e-6)


# ------------------------------------------------------------------------------------------------ measuring


@every_kind
@pytest.mark.parametrize("batch", [8, 1000])
def test_an_evaluation_is_the_mean_over_every_token_of_every_reference(data, kind, batch):
    model, found = build(data, kind), None
    expected = [alone(model, data, *row) for row in rows_of(data.valid)]
    found = task(data, batch=batch).evaluate(model, "valid")
    every = [float(loss) for losses in expected for loss in losses]
    assert found["tokens"] == len(every) == sum(len(target.split()) + 1 for _, target in VALID)
    assert found["nats_per_token"] == pytest.approx(sum(every) / len(every), rel=1e-10)
    assert found["perplexity"] == pytest.approx(math.exp(sum(every) / len(every)), rel=1e-10)
    longest = max(map(len, expected))
    by_hand = [[float(losses[t]) for losses in expected if len(losses) > t] for t in range(longest)]
    assert found["by_position"] == pytest.approx([sum(column) / len(column) for column in by_hand], rel=1e-10)
    assert len({len(column) for column in by_hand}) > 1, "fewer references reach the later places"


def test_losses_are_told_apart_up_to_a_place_and_all_of_them_count(data, monkeypatch):
    model = build(data)
    whole = task(data).evaluate(model, "valid")
    monkeypatch.setattr(translation, "POSITIONS", 3)
    short = task(data).evaluate(model, "valid")
    assert short["by_position"] == pytest.approx(whole["by_position"][:3])
    assert short["nats_per_token"] == whole["nats_per_token"]


def test_a_part_that_is_not_there_is_named_in_a_line(data):
    work = TranslationTask(Config(), replace(data, test=None))
    for split in ("test", "source", "notes", "valdi"):
        with pytest.raises(DataError, match=f"expected a {split} part, found none"):
            work.evaluate(build(data), split)


def test_guesses_without_learning_are_their_closed_forms(data):
    found = task(data).baselines("valid")
    size = data.target.size
    assert found["uniform"] == pytest.approx(math.log(size))
    tokens = [token for _, target in rows_of(data.train) for token in [*target, data.target.end]]
    share = {token: (tokens.count(token) + 1) / (len(tokens) + size) for token in range(size)}
    every = [-math.log(share[t]) for _, target in rows_of(data.valid) for t in [*target, data.target.end]]
    assert found["unigram"] == pytest.approx(sum(every) / len(every))


# ------------------------------------------------------------------------------------------------ batches


def seen(data, batch):
    return [data.target.decode(row) for row in batch.y.tolist()]


def test_batches_hold_every_pair_once_an_epoch_and_go_on_by_number(data):
    work = task(data, batch=24)
    count = len(batches_by_tokens(data.train, 24))
    assert count > 2
    found = list(islice(work.batches("train", 3), 2 * count))
    assert [batch.number for batch in found] == list(range(2 * count))
    for epoch in (found[:count], found[count:]):
        texts = [text for batch in epoch for text in seen(data, batch)]
        assert sorted(texts) == sorted(target for _, target in TRAIN)
    assert [seen(data, b) for b in found[:count]] != [seen(data, b) for b in found[count:]], "another order"
    for start in (1, count, count + 2):
        again = next(work.batches("train", 3, start=start))
        assert again.number == start
        assert all(torch.equal(a, b) for a, b in zip(again[:4], found[start][:4], strict=True))
    other = list(islice(work.batches("train", 4), count))
    assert [seen(data, b) for b in other] != [seen(data, b) for b in found[:count]], "another seed"


def test_padding_to_a_grain_changes_shapes_and_nothing_else(data):
    model, rows = build(data), np.array([2, 0, 3])
    plain, padded = (task(data, grain=grain).batch(data.train, rows) for grain in (1, 8))
    assert padded.source.shape[1] == padded.x.shape[1] == padded.y.shape[1] == 8
    found = [task(data).loss(model, batch).value for batch in (plain, padded)]
    assert torch.allclose(*found, rtol=1e-12)
    assert plain.tokens == padded.tokens


def test_a_batch_is_source_and_end_begin_and_target_target_and_end(data):
    batch = task(data).batch(data.train, np.array([2, 0]))
    (short, long), side = (rows_of(data.train)[i] for i in (2, 0)), data.target
    assert batch.source.tolist()[1] == [*long[0], data.source.end]
    assert batch.source.tolist()[0][: int(batch.lengths[0])] == [*short[0], data.source.end]
    assert batch.x.tolist() == [[side.begin, *short[1], *[side.pad] * 3], [side.begin, *long[1]]]
    assert batch.y.tolist() == [[*short[1], side.end, *[side.pad] * 3], [*long[1], side.end]]


# ------------------------------------------------------------------------------------------------ its own guesses


def test_scheduled_sampling_puts_guesses_at_real_places_and_never_at_the_first(data):
    model = chain(data)
    batch = task(data).batch(data.train, np.arange(len(TRAIN)).repeat(40))
    work = task(data, sampling=0.3)
    torch.manual_seed(1)
    found = work.guessed(model, batch, model.encode(batch.source, batch.lengths))
    guess = torch.cat([batch.x[:, :1], model.table[batch.x].argmax(dim=-1)[:, :-1]], dim=1)
    assert ((found == batch.x) | (found == guess)).all(), "nothing but the reference and the guess"
    assert torch.equal(found[:, 0], batch.x[:, 0])
    padding = batch.x == data.target.pad
    assert padding.any()
    assert torch.equal(found[padding], batch.x[padding])
    swappable = ~padding & (guess != batch.x)
    swappable[:, 0] = False
    share, count = (found != batch.x)[swappable].double().mean().item(), int(swappable.sum())
    assert abs(share - 0.3) < 4 * math.sqrt(0.3 * 0.7 / count)


@pytest.mark.parametrize(("sampling", "training", "calls"), [(0.0, True, 1), (0.9, False, 1), (0.9, True, 2)])
def test_guesses_are_made_in_training_alone_and_only_when_asked_for(data, sampling, training, calls):
    model = chain(data).train(training)
    batch = task(data).batch(data.train, np.arange(len(TRAIN)))
    task(data, sampling=sampling).loss(model, batch)
    assert len(model.read) == calls
    assert torch.equal(model.read[0], batch.x)
    assert torch.equal(model.read[-1], batch.x) is (calls == 1)


def test_the_loss_is_still_on_the_reference_when_guesses_are_read(data):
    model, work = chain(data).train(), task(data, sampling=0.9, smoothing=0.0)
    batch = work.batch(data.train, np.arange(len(TRAIN)))
    found = work.loss(model, batch).value.item()
    real = batch.y != data.target.pad
    likely = model.table[model.read[-1]].log_softmax(-1).gather(-1, batch.y[..., None])[..., 0]
    assert found == pytest.approx(-likely[real].mean().item(), rel=1e-10)


# ------------------------------------------------------------------------------------------------ reading its own text


@torch.no_grad()
def by_hand(model, data, pair):
    """−log p of the reference's tokens, given the model's own greedy text of the same length, step by step."""
    source, target = pair
    state = model.initial_state(
        1, memory=model.encode(torch.tensor([[*source, data.source.end]]), torch.tensor([len(source) + 1]))
    )
    token, losses = data.target.begin, []
    for wanted in [*target, data.target.end]:
        logits, state = model(torch.tensor([[token]]), state)
        losses.append(-float(logits[0, -1].log_softmax(-1)[wanted]))
        token = int(logits[0, -1].argmax())
    return losses


@pytest.mark.parametrize("kind", [*seq2seq.MODELS, "chain"])
def test_free_running_is_a_loop_that_reads_what_it_wrote(data, kind):
    model = chain(data, "un chien mange le poisson") if kind == "chain" else build(data, kind, seed=3)
    found = task(data).free_running(model, "valid", count=4)
    free = [loss for row in rows_of(data.valid)[:4] for loss in by_hand(model, data, row)]
    assert found["free"] == pytest.approx(sum(free) / len(free), rel=1e-9)
    if kind != "chain":
        forced = [float(loss) for row in rows_of(data.valid)[:4] for loss in alone(model, data, *row)]
        assert found["forced"] == pytest.approx(sum(forced) / len(forced), rel=1e-9)
    assert abs(found["free"] - found["forced"]) > 1e-3, "its own text leads it elsewhere"


def test_many_sentences_are_taken_in_parts_and_all_count(tmp_path):
    lines = [(f"a{i % 13} b{i % 5}" + " c" * (i % 4), f"x{i % 7} y{i % 3}" + " z" * (i % 5)) for i in range(130)]
    data = load(tmp_path, valid=lines, train=lines[:60])
    model = chain(data, "x1 y2 z")
    free = [loss for row in rows_of(data.valid) for loss in by_hand(model, data, row)]
    assert task(data).free_running(model, "valid")["free"] == pytest.approx(sum(free) / len(free), rel=1e-9)


def test_who_writes_the_reference_is_not_led_away(tmp_path):
    """Where greedy text is the reference, what was read is the same, and so are the losses, small but not zero."""
    rows = [("a b", "le chat voit"), ("b a c", "le chat voit"), ("c", "le chat voit")]
    data = load(tmp_path, train=rows, valid=rows)
    found = task(data).free_running(chain(data, "le chat voit"), "valid")
    assert found["free"] == found["forced"] > 0
    other = task(data).free_running(chain(data, "le voit"), "valid")
    assert other["free"] > other["forced"]


# ------------------------------------------------------------------------------------------------ scores

WRITTEN = {  # what a scripted model says of VALID: some right, some wrong
    "a dog sees a fish": "un chien voit un poisson",
    "the cat": "le chat dort",
    "a cat sees the dog": "un chat voit un chien",
    "eats": "mange",
    "the fish eats": "Le chien mange",
}


def scored(data, written, **settings):
    return task(data, **settings).translated(Scripted(data, written), "valid", greedy_settings(Config()))


def test_scores_are_sacrebleus_on_detokenised_text(data):
    found = scored(data, WRITTEN)
    mine, wanted = [WRITTEN[source] for source, _ in VALID], [target for _, target in VALID]
    assert found["cased_bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted]).score)
    assert found["bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted], lowercase=True).score)
    assert found["chrf"] == pytest.approx(sacrebleu.corpus_chrf(mine, [wanted]).score)
    assert 0 < found["cased_bleu"] < found["bleu"] < 100, "case matters to one and not to the other"
    assert re.match(r"nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:", found["cased_signature"])
    assert "case:lc" in found["bleu_signature"]
    assert "nc:6" in found["chrf_signature"]
    assert found["sentences"] == 5
    assert found["unfinished"] == 0


def test_exact_matches_are_counted_all_and_by_length(data):
    found = scored(data, WRITTEN)
    assert found["exact"] == 2 / 5
    assert found["exact_by_length"] == {"1": 1.0, "2": 0.0, "3": 0.0, "5": 0.5}


def test_a_perfect_translation_scores_a_hundred(data):
    found = scored(data, dict(VALID))
    assert found["exact"] == 1
    assert found["bleu"] == pytest.approx(100)
    assert found["chrf"] == pytest.approx(100)


def test_tokenised_text_is_compared_as_moses_left_it(tmp_path):
    rows = [("Ich sehe, mein Hund!", "I see, my dog!"), ("Die Katze meines Hundes.", "My dog's cat is here.")]
    rows += [("Meine Katze, mein Hund!", "My cat, my dog!")]
    data = load(tmp_path, train=rows, valid=rows, pair="de-en", moses=True, lower=True)
    written = dict(rows) | {"Meine Katze, mein Hund!": "My cat, the cat!"}
    found = scored(data, written)
    # written by hand: what moses gives, and what a reader would write
    tokenised = ["i see , my dog !", "my dog 's cat is here .", "my cat , <unk> cat !"]
    wanted = ["i see , my dog !", "my dog 's cat is here .", "my cat , my dog !"]
    plain = ["i see, my dog!", "my dog's cat is here.", "my cat, <unk> cat!"]
    expected = sacrebleu.corpus_bleu(tokenised, [wanted], tokenize="none", lowercase=True, force=True)
    assert found["bleu"] == pytest.approx(expected.score)
    assert "case:lc" in found["bleu_signature"]
    assert "tok:none" in found["bleu_signature"]
    cased = sacrebleu.corpus_bleu(plain, [[target for _, target in rows]])
    assert found["cased_bleu"] == pytest.approx(cased.score)
    assert "tok:13a" in found["cased_signature"]
    assert found["cased_bleu"] < found["bleu"] < 100
    assert found["exact"] == 2 / 3


def test_chinese_is_cut_by_sacrebleus_own_tokeniser(tmp_path):
    rows = [("I like tea.", "我喜欢喝茶。"), ("You like tea.", "你喜欢喝茶。"), ("I do not drink tea.", "我不喝茶。")]
    data = load(tmp_path, train=rows, valid=rows, pair="en-zh", tokenizer="chars")
    written = dict(rows) | {"You like tea.": "我喜欢喝茶。"}
    found = scored(data, written)
    mine, wanted = [written[source] for source, _ in rows], [target for _, target in rows]
    assert found["cased_bleu"] == pytest.approx(sacrebleu.corpus_bleu(mine, [wanted], tokenize="zh").score)
    assert found["cased_bleu"] != pytest.approx(sacrebleu.corpus_bleu(mine, [wanted]).score), "13a sees one word a line"
    assert "tok:zh" in found["cased_signature"]
    assert "tok:zh" in found["bleu_signature"]


@pytest.mark.parametrize(
    ("language", "name"), [("zh", "zh"), ("cmn", "zh"), ("ja", "char"), ("fr", "13a"), ("target", "13a")]
)
def test_the_tokeniser_goes_by_the_language(language, name):
    assert bleu.tokenizer_for(language) == name


@pytest.mark.parametrize(
    ("text", "words"),
    [("the cat", 2), ("  ", 0), ("l'eau  est-elle\tbleue ?", 4), ("我喜欢喝茶", 5), ("我用 Python 3", 4), ("ไทย", 3)],
)
def test_a_source_without_blanks_is_as_long_as_its_characters(text, words):
    assert bleu.length(text) == words


def test_scores_by_length_are_those_of_the_sentences_in_each_bucket():
    lengths = [1, 5, 6, 10, 11, 81, 500]
    wanted = [f"one two three four {n}" for n in range(len(lengths))]
    mine = [text if i % 2 else text.replace("two", "2") for i, text in enumerate(wanted)]
    found = bleu.by_length(mine, wanted, lengths, tokenizer="13a", lower=True)
    buckets = [(0, 5, [0, 1]), (5, 10, [2, 3]), (10, 15, [4]), (80, None, [5, 6])]
    for entry, (above, upto, inside) in zip(found, buckets, strict=True):
        assert (entry["above"], entry["upto"], entry["sentences"]) == (above, upto, len(inside))
        expected = sacrebleu.corpus_bleu([mine[i] for i in inside], [[wanted[i] for i in inside]], lowercase=True)
        assert entry["bleu"] == pytest.approx(expected.score)
    assert sum(entry["sentences"] for entry in found) == len(lengths)


def test_only_so_many_sentences_are_translated_as_were_asked_for(data):
    model = Scripted(data, WRITTEN)
    found = task(data).translated(model, "valid", greedy_settings(Config()), count=2)
    assert (found["sentences"], found["exact"]) == (2, 0.5)
    assert task(data).translated(model, "valid", greedy_settings(Config()), count=99)["sentences"] == 5


def test_a_text_that_never_ends_is_counted(data):
    model = Scripted(data, WRITTEN)
    model.rows[tuple(data.source.encode("eats").tolist())] = data.target.encode("mange").tolist()
    found = task(data, ratio=1.0, extra=2).translated(model, "valid", greedy_settings(Config(ratio=1.0, extra=3)))
    assert found["unfinished"] == 1


# ------------------------------------------------------------------------------------------------ settings


def test_the_search_is_what_the_settings_say():
    config = Config(beam=3, length_penalty=0.2, coverage=0.1, ratio=1.5, extra=4)
    assert search_settings(config) == beam.Config(beam=3, length_penalty=0.2, coverage=0.1, ratio=1.5, extra=4)
    assert search_settings(config, nbest=2, beam=7) == replace(search_settings(config), nbest=2, beam=7)
    assert greedy_settings(config) == beam.Config(beam=1, length_penalty=0.0, coverage=0.0, ratio=1.5, extra=4)


def configure(files, model="attend", **settings):
    """A run of a few steps on the tables `files`."""
    given = {
        "steps": 10, "width": 8, "heads": 2, "batch": 40, "warmup": 2, "save_every": 3, "eval_every": 4, "log_every": 2,
    }  # fmt: skip
    texts = {name: str(value) for name, value in (given | settings).items()}
    train, valid = files
    return runs.configure(
        TranslationTask, texts, model=model, data=[train], valid=[valid], tokenizer="words", pair="en-fr"
    )


@pytest.fixture
def files(tmp_path):
    return [table(tmp_path / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]


HOSTILE = {
    "smoothing": ({"smoothing": 1}, r"expected smoothing in \[0, 1\), found 1"),
    "sampling": ({"sampling": -0.1}, r"expected sampling in \[0, 1\), found -0.1"),
    "beam": ({"beam": 0}, "expected beam to be a whole number of at least 1, found 0"),
    "ratio": ({"ratio": -1}, "expected ratio of at least 0, found -1"),
    "choose": ({"choose": "belu"}, "choose: expected one of nats, bleu, found 'belu'; did you mean 'bleu'"),
    "batch": ({"batch": 0}, "expected batch to be a whole number of at least 1, found 0"),
    "misspelt": ({"smothing": 0.1}, "smoothing"),
    "keep": ({"keep": 0}, "expected keep to be"),
    "eval_sentences": ({"eval_sentences": 0}, "expected eval_sentences to be"),
    "heads": ({"model": "transformer", "width": 9}, "expected heads to divide width 9, found 2 heads"),
    "gist": ({"model": "context", "gist": "state"}, "gist=last or gist=mean, found gist=state"),
    "share": ({"share": "all"}, "share=all needs one vocabulary, found .* use a joint tokenizer"),
    "embed": ({"model": "transformer", "embed": 4}, "transformer keeps one width, found embed 4 and width 8"),
    "kernel": ({"model": "conv", "kernel": 2}, "expected an odd kernel"),
    "local": ({"alignment": "local"}, "alignment 'local' needs a window"),
    "rotary": ({"model": "transformer", "width": 6, "positions": "rotary"}, "rotary positions need an even head width"),
    "model": ({"model": "lstm"}, "expected a model out of fixed, context, attend, conv, transformer, found 'lstm'"),
    "longest": ({"longest": 0}, "longest"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_setting_that_cannot_be_meant_is_one_line(files, tmp_path, name):
    settings, message = HOSTILE[name]
    settings = dict(settings)
    model = settings.pop("model", "attend")
    with pytest.raises(ValueError, match=message) as caught:
        runs.train(TranslationTask, configure(files, model, **settings), str(tmp_path / "run"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_model_has_one_name():
    with pytest.raises(SettingError, match="expected the model's name as --model, found it among the settings"):
        runs.configure(TranslationTask, {"model": "fixed"}, model="attend")


def test_no_setting_has_two_homes():
    """A setting goes to the first home that has its name: the second one's could never be given."""
    homes = [
        Settings,
        TranslationTask.task_config,
        TranslationTask.data_config,
        *TranslationTask.model_settings("attend").values(),
    ]
    names = [field.name for home in homes for field in fields(home)]
    assert sorted(names) == sorted(set(names))


def test_what_is_held_out_and_which_tables_are_shared_are_two_settings(files, tmp_path):
    run = runs.configure(
        TranslationTask, {"held_out": "0.4", "share": "none"}, model="attend", data=files[:1], tokenizer="words"
    )
    assert (run.data.held_out, run.model["share"]) == (0.4, "none")
    assert len(TranslationTask.load_data(run.data, None).valid) > len(
        TranslationTask.load_data(replace(run.data, held_out=0.2), None).valid
    )


@pytest.mark.parametrize("name", ["target", "time"])
def test_a_flag_of_another_task_is_refused_by_name(name):
    with pytest.raises(SettingError, match=f"--{name}: expected a flag of the task translation, found one of another"):
        runs.configure(TranslationTask, {}, model="attend", **{name: "x"})


# ------------------------------------------------------------------------------------------------ runs


WAYS = {
    "fixed": {"cell": "lstm", "layers": 2, "reverse": True},
    "context": {"sampling": 0.3},
    "attend": {"choose": "bleu", "eval_sentences": 3, "keep": 2},
    "conv": {"layers": 2},
    "transformer": {"positions": "learned", "ema": 0.9, "tokenizer": "bpe", "joint": True, "share": "all"},
}


@every_kind
def test_every_kind_trains_goes_on_bit_for_bit_and_keeps_the_laws(files, tmp_path, monkeypatch, kind):
    way = dict(WAYS[kind])
    run = configure(files, kind, **{name: value for name, value in way.items() if name != "tokenizer"})
    if "tokenizer" in way:
        run = replace(run, data=replace(run.data, tokenizer=way["tokenizer"]))
    found = runs.train(TranslationTask, run, str(tmp_path / "whole"))
    tiny.train_until(TranslationTask, run, tmp_path / "resumed", 6, monkeypatch)
    runs.resume(str(tmp_path / "resumed"))
    whole, resumed = (RunFolder(tmp_path / name) for name in ("whole", "resumed"))
    assert tiny.outcome(resumed) == tiny.outcome(whole)
    assert runs.verify(str(whole.path)).keys() >= {"chunk", "cause", "row", "ragged", "purity", "size", "file"}
    measured = runs.evaluate(str(whole.path), split="valid")
    assert measured["forced"]["nats_per_token"] == pytest.approx(found["nats_per_token"], rel=1e-6)
    assert measured["params"] == sum(p.numel() for p in runs.load(whole.path).model.parameters())


def test_another_seed_gives_another_run(files, tmp_path):
    """Or the test above would compare nothing."""
    for seed in (0, 1):
        runs.train(TranslationTask, configure(files, steps=4, seed=seed), str(tmp_path / str(seed)))
    a, b = (tiny.outcome(RunFolder(tmp_path / str(seed))) for seed in (0, 1))
    assert all(a[part] != b[part] for part in a)


def test_the_config_of_a_run_is_all_that_it_was_made_from(files, tmp_path):
    run = configure(files, "transformer", smoothing=0.2, sampling=0.1, beam=3)
    runs.train(TranslationTask, run, str(tmp_path / "run"))
    folder = RunFolder.open(tmp_path / "run")
    content = folder.config()
    again = runs.from_json(TranslationTask, content, folder.config_path)
    spelt = json.loads(json.dumps(runs.to_json(TranslationTask, again)))  # tuples are lists in a file
    assert spelt == {name: content[name] for name in spelt}
    assert again.task == run.task
    assert again.train == run.train
    assert again.data == replace(run.data, data=tuple(again.data.data), valid=tuple(again.data.valid))
    assert again.model["heads"] == 2
    assert again.model["name"] == "transformer"
    assert runs.task_of(folder.path) is TranslationTask
    assert content["corpus"]["pair"] == "en-fr"
    runs.train(TranslationTask, again, str(tmp_path / "again"))
    assert tiny.outcome(RunFolder(tmp_path / "again")) == tiny.outcome(folder)


def test_bleu_chooses_the_checkpoint_where_bleu_is_asked_to(files, tmp_path, monkeypatch):
    asked, values = [], [10.0, 30.0, 20.0]

    def translated(self, model, split, search, count=None):
        asked.append((split, search, count))
        return {"bleu": values[len(asked) - 1] if len(asked) <= len(values) else 5.0}

    monkeypatch.setattr(TranslationTask, "translated", translated)
    run = configure(files, choose="bleu", eval_sentences=3, steps=12, beam=7)
    found = runs.train(TranslationTask, run, str(tmp_path / "run"))
    note = checkpoint.read_tensors(RunFolder(tmp_path / "run").best)[1]
    assert note["spent"]["step"] == 8
    assert note["valid"] == -30.0
    assert asked[0] == ("valid", greedy_settings(run.task), 3)
    assert found["bleu"] == 5.0
    assert TranslationTask.headline(found).endswith("BLEU 5.00 (greedy)")
    losses = [row["valid"] for row in RunFolder(tmp_path / "run").metrics() if "valid" in row]
    assert losses == [-10.0, -30.0, -20.0]


def test_the_loss_chooses_otherwise_and_nothing_is_translated(files, tmp_path, monkeypatch):
    monkeypatch.setattr(TranslationTask, "translated", None)
    runs.train(TranslationTask, configure(files, steps=4), str(tmp_path / "run"))


def test_kept_weights_are_averaged_and_taken_where_that_is_best(files, tmp_path, monkeypatch):
    values = iter([5.0, 4.0, 4.5, 4.4, 3.0, 3.0])
    monkeypatch.setattr(TranslationTask, "evaluate", lambda *_: {"nats_per_token": next(values)})
    runs.train(TranslationTask, configure(files, steps=12, eval_every=3, keep=3), str(tmp_path / "run"))
    folder = RunFolder(tmp_path / "run")
    assert folder.snapshot_steps(12) == [6, 9, 12]
    kept = [checkpoint.read_tensors(folder.snapshot(step))[0] for step in (6, 9, 12)]
    mean = checkpoint.read_tensors(folder.model_path)[0]
    for name, tensor in mean.items():
        torch.testing.assert_close(tensor, sum(each[name] for each in kept) / 3)
    assert any(not torch.equal(mean[name], kept[-1][name]) for name in mean)


def test_the_settings_of_a_measurement_reach_the_search(files, tmp_path):
    runs.train(TranslationTask, configure(files, steps=2, beam=3), str(tmp_path / "run"))
    plain = runs.evaluate(str(tmp_path / "run"), split="valid")
    other = runs.evaluate(str(tmp_path / "run"), split="valid", search={"beam": 1, "length_penalty": 0.0})
    assert plain["translated"]["search"] == "beam 3, length penalty 0.6, coverage 0.0"
    assert other["translated"]["search"] == "beam 1, length penalty 0.0, coverage 0.0"
    assert plain["metric"]["rule"].startswith("lowercased, beam 3")
    columns, rows, below = TranslationTask.table(plain)
    assert len(columns) == len(rows[0])
    assert any("having read its own text" in line for line in below)


def test_a_run_is_measured_on_other_pairs_with_its_own_vocabulary(files, tmp_path):
    runs.train(TranslationTask, configure(files, steps=2), str(tmp_path / "run"))
    other = table(tmp_path / "other.tsv", [*VALID[:2], ("the elephant", "l'éléphant")])
    found = runs.evaluate(str(tmp_path / "run"), split="test", data=[other])
    assert found["translated"]["sentences"] == 3
    assert found["forced"]["tokens"] == 6 + 3 + 2


def test_a_run_of_another_task_is_refused_by_name(tmp_path):
    RunFolder.create(tmp_path / "run", {"task": "text"})
    with pytest.raises(RunError, match=r"config\.json: expected the run of a translation task, found one of 'text'"):
        runs.load(tmp_path / "run", task=TranslationTask)


# ------------------------------------------------------------------------------------------------ lines

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


def test_every_line_comes_back_in_its_place_and_empty_ones_with_nothing(data):
    texts, best = translated(build(data), data, LINES)
    assert texts == LINES
    assert [bool(found) for found in best] == [bool(line.strip()) for line in LINES]
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


# ------------------------------------------------------------------------------------------------ the command


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """`recollect …` in this process, with bytes on stdin."""

    def run(*argv, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["recollect", *map(str, argv)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capsys.readouterr()
        try:
            cli.main()
            code = 0
        except SystemExit as done:
            code = done.code or 0
        return Done(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A small trained run: a transformer of two layers with two heads each."""
    folder = tmp_path_factory.mktemp("run")
    files = [table(folder / f"{name}.tsv", rows) for name, rows in (("train", TRAIN * 2), ("valid", VALID))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(folder / "cache"))
        torch.set_num_threads(1)
        runs.train(TranslationTask, configure(files, "transformer", steps=30, layers=2, lr=0.01), str(folder / "run"))
    return folder / "run"


def refused(done, *parts):
    """One line on stderr, and nothing else."""
    assert done.code == 1
    assert done.err.startswith("recollect: ")
    assert done.err.count("\n") == 1, done.err
    assert done.out == ""
    for part in parts:
        assert part in done.err


def test_lines_from_stdin_are_translated_to_as_many_on_stdout(command, run):
    done = command("translate", run, stdin="\n".join(LINES).encode())
    assert done.code == 0
    used = runs.load(run)
    found = translate.lines(used.model, *used.artifacts, LINES, search_settings(used.config.task))
    expected = [used.artifacts[1].decode(best[0].tokens) if best else "" for _, _, best in found]
    assert done.out == "".join(f"{text}\n" for text in expected)
    assert done.out.count("\n") == len(LINES)
    assert any(expected)


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (b"the cat\r\n\r\neats\r\n", 3),
        (b"\xef\xbb\xbfthe cat\n\neats\n", 3),
        (b"the cat\n\neats", 3),
        (b"", 0),
        (b"\n", 1),
    ],
    ids=["carriage returns", "byte-order mark", "no last newline", "nothing", "an empty line"],
)
def test_how_lines_end_and_files_begin_changes_nothing(command, run, given, lines):
    done = command("translate", run, stdin=given)
    assert done.code == 0
    plain = command("translate", run, stdin=b"the cat\n\neats\n").out.splitlines(keepends=True)
    assert done.out == ("".join(plain) if lines == 3 else "\n" * lines)
    rows = [json.loads(line) for line in command("translate", run, "--json", stdin=given).out.splitlines()]
    assert [row["source"] for row in rows] == (["the cat", "", "eats"] if lines == 3 else [""] * lines)


def test_what_only_looks_like_the_end_of_a_line_is_none(command, run):
    given = "the\u2028cat\u0085sees\x0b\x0ca dog\neats\n"
    done = command("translate", run, "--json", stdin=given.encode())
    rows = [json.loads(line) for line in done.out.split("\n")[:-1]]
    assert [row["source"] for row in rows] == given.split("\n")[:-1]
    assert command("translate", run, stdin=given.encode()).out.count("\n") == 2


def test_a_mark_within_the_text_is_part_of_it(command, run):
    done = command("translate", run, "--json", stdin="eats\n\ufeffeats\n".encode())
    assert [json.loads(line)["source"] for line in done.out.splitlines()] == ["eats", "\ufeffeats"]


def test_a_newline_that_a_model_writes_does_not_part_a_line(command, run, tmp_path):
    """`<eos>`, a newline, is in every vocabulary of words; a model that has learned little may write it."""
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (broken / name).write_bytes((run / name).read_bytes())
    tensors, note = checkpoint.read_tensors(run / "model.safetensors")
    tensors["head.bias"][1] = 100.0
    checkpoint.write_tensors(broken / "model.safetensors", tensors, note)
    assert runs.load(broken).artifacts[1].decode([1, 1]) == "\n\n"
    done = command("translate", broken, "--beam", 1, stdin=b"the cat\n\neats\n")
    assert done.code == 0
    assert done.out.count("\n") == 3


def test_n_best_lists_are_numbered_and_sorted(command, run):
    done = command("translate", run, "--nbest", 3, "--beam", 4, stdin=b"the cat\n\neats\n")
    rows = [line.split("\t") for line in done.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "1", "3", "3", "3"]
    for part in (rows[:3], rows[3:]):
        scores = [float(score) for _, score, _ in part]
        assert scores == sorted(scores, reverse=True)
        assert len({text for _, _, text in part}) == 3
    best = command("translate", run, "--beam", 4, stdin=b"the cat\n\neats\n").out.splitlines()
    assert [rows[0][2], rows[3][2]] == [best[0], best[2]]


def test_a_longer_n_best_list_widens_the_beam(command, run):
    done = command("translate", run, "--nbest", 9, stdin=b"the cat\n")
    assert len(done.out.splitlines()) == 9


def test_json_is_one_object_a_line(command, run):
    done = command("translate", run, "--json", "--nbest", 2, stdin="the cat\n\né\n".encode())
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["line"] for row in rows] == [1, 2, 3]
    assert [row["source"] for row in rows] == ["the cat", "", "é"]
    assert [len(row["best"]) for row in rows] == [2, 0, 2]
    assert set(rows[0]["best"][0]) == {"text", "score", "finished"}
    assert "é" in done.out, "letters are not escaped"


def test_maps_and_pairs_are_written_for_every_line_that_has_words(command, run, tmp_path):
    place, pairs = tmp_path / "map.svg", tmp_path / "pairs.txt"
    flags = ["--alignment", place, "--alignment-text", pairs, "--layer", 2, "--head", 1]
    done = command("translate", run, *flags, stdin=b"the cat sees\n\neats\n")
    assert done.code == 0
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == ["map-3.svg", "map.svg"]
    words = [re.findall(">([^<>]+)</text>", path.read_text("utf-8")) for path in (place, tmp_path / "map-3.svg")]
    assert [word for word in ("the", "cat", "sees", "eats") if word in words[0]] == ["the", "cat", "sees"]
    assert "eats" in words[1]
    assert all("attention, layer 2 head 1" in found for found in words)
    assert done.out == command("translate", run, stdin=b"the cat sees\n\neats\n").out, "looking changes nothing"
    used, found = runs.load(run), pairs.read_text("utf-8").split("\n")
    assert len(found) == 4
    assert found[1] == found[3] == ""
    search = search_settings(used.config.task)
    for line, text in ((found[0], "the cat sees"), (found[2], "eats")):
        ((_, ids, best),) = translate.lines(used.model, *used.artifacts, [text], search)
        aligned = align(used, ids, best[0], layer=2, head=1)
        assert line == " ".join(f"{source}-{target}" for source, target in aligned.pairs)
        assert len(line.split()) == len(used.artifacts[1].decode(best[0].tokens).split()), "one pair a word"


def test_a_model_without_attention_shows_influence_in_the_same_picture(command, files, tmp_path):
    runs.train(TranslationTask, configure(files, "fixed", steps=2), str(tmp_path / "run"))
    place = tmp_path / "map.svg"
    done = command("translate", tmp_path / "run", "--alignment", place, stdin=b"the cat sees\n")
    assert done.code == 0
    assert ">influence of each source token, by gradient<" in place.read_text("utf-8")
    refused(
        command("translate", tmp_path / "run", "--alignment", place, "--head", 1, stdin=b"the cat\n"),
        "expected a model with attention for a layer or a head, found one without",
    )


def test_draws_are_repeated_by_their_seed(command, run):
    given = b"the cat\n" * 8
    first, again, other = (
        command("translate", run, "--temperature", 1.5, "--seed", seed, stdin=given).out for seed in (1, 1, 2)
    )
    assert first == again != other
    assert len(set(first.splitlines())) > 2


@pytest.mark.parametrize(
    ("argv", "parts"),
    [
        (["--nbest", 9, "--beam", 3], ["expected nbest of at most beam (3), found 9"]),
        (["--beam", 0], ["expected beam to be a whole number of at least 1, found 0"]),
        (["--beam", 2, "--temperature", 1], ["expected beam 1 with a temperature, found 2"]),
        (["--nbest", 2, "--temperature", 1], ["expected nbest 1 with a temperature, found 2", "another seed"]),
        (["--temperature", 0], ["expected temperature above 0, found 0.0", "leave it out and set beam 1"]),
        (["--top-k", 3], ["expected a temperature with top_k"]),
        (["--alignment", "map.gif"], ["map.gif: expected a figure that ends in .png, .svg, .pdf"]),
        (["--alignment-text", "no/such/folder/a.txt"], ["no/such/folder/a.txt"]),
        (["--alignment", "map.png", "--layer", 3], ["expected one of layer 1 head 1,", "found layer 3;"]),
        (["--alignment-text", "pairs.txt", "--head", 0], ["found head 0;"]),
    ],
    ids=lambda value: " ".join(map(str, value)),
)
def test_what_cannot_be_done_is_told_in_one_line(command, run, tmp_path, monkeypatch, argv, parts):
    monkeypatch.chdir(tmp_path)
    refused(command("translate", run, *argv, stdin=b"the cat\n"), *parts)


def test_a_line_that_is_not_utf8_is_named_and_those_before_it_are_translated(command, run):
    done = command("translate", run, stdin=b"the cat\n\na caf\xe9\n")
    assert done.out.count("\n") == 2
    refused(done._replace(out=""), "stdin, line 3: expected UTF-8, found a byte")


def test_a_folder_that_is_no_translation_run_is_refused(command, tmp_path):
    refused(command("translate", tmp_path / "nothing"), "expected a run folder, found nothing")
    refused(command("translate", tmp_path), "expected a run folder with a config.json")
    RunFolder.create(tmp_path / "text", {"task": "text"})
    refused(command("translate", tmp_path / "text"), "expected the run of a translation task, found one of 'text'")


def test_flags_of_another_task_are_refused_on_the_command_line(command, tmp_path):
    out = tmp_path / "run"
    refused(
        command("train", "translation", "--target", "x", "--out", out), "--target: expected a flag of the task trans"
    )
    refused(command("train", "text", "--pair", "en-de", "--out", out), "--pair: expected a flag of the task text")
    assert not out.exists()


def test_a_run_is_trained_measured_and_verified_by_its_commands(command, files, tmp_path):
    out = tmp_path / "run"
    flags = ["--data", files[0], "--valid", files[1], "--pair", "en-fr", "--tokenizer", "words", "--model", "conv"]
    size = ["--width", 8, "--steps", 2, "--set", "batch=40", "--device", "cpu"]
    assert command("train", "translation", *flags, *size, "--out", out).code == 0
    assert command("verify", out).code == 0
    assert "chrF" in command("eval", out, "--device", "cpu").out
    found = json.loads(command("eval", out, "--device", "cpu", "--json").out)
    assert found["metric"]["name"] == "bleu"
    refused(command("eval", out, "--split", "source", "--device", "cpu"), "expected a source part, found none")
    refused(command("eval", out, "--rule", "sliding", "--device", "cpu"), "--rule: expected a task with several rules")


def test_the_cell_has_a_flag(command, files, tmp_path):
    flags = ["--data", files[0], "--valid", files[1], "--tokenizer", "words", "--model", "fixed", "--device", "cpu"]
    size = ["--width", 8, "--steps", 1, "--set", "batch=40"]
    assert command("train", "translation", *flags, *size, "--cell", "lstm", "--out", tmp_path / "run").code == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["model"]["cell"] == "lstm"
    other = command("train", "translation", *flags, *size, "--cell", "mlp", "--out", tmp_path / "other")
    refused(other, "cell: expected one of gru, lstm, rnn, found 'mlp'")


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


@pytest.mark.parametrize("task", ["translation", "captions"])
@pytest.mark.parametrize("model", ["conv", "transformer"])
def test_a_model_without_cells_refuses_one(task, model):
    with pytest.raises(SettingError, match=f"cell: expected it with fixed, context, attend, found it with {model}"):
        runs.configure(tasks.find(task), {"cell": "gru"}, model=model)
    runs.configure(tasks.find(task), {"cell": "gru"}, model="attend")


def test_a_race_gives_cells_to_those_that_have_them():
    assert accepted(TRANSLATION, "attend", {"cell": "lstm"}) == {"cell": "lstm"}
    assert accepted(TRANSLATION, "transformer", {"cell": "lstm"}) == {}


def test_the_columns_of_a_table_are_a_setting(command, files, tmp_path):
    """Source and target need not be the first two."""
    for path in map(Path, files):
        rows = [line.split("\t") for line in path.read_text().splitlines()]
        path.write_text("".join(f"{source}\tnothing\t{target}\n" for source, target in rows))
    flags = ["--data", files[0], "--valid", files[1], "--tokenizer", "words", "--pair", "en-fr", "--device", "cpu"]
    size = ["--width", 8, "--steps", 1, "--set", "batch=40"]
    done = command("train", "translation", *flags, *size, "--set", "columns=1,3", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    used = runs.load(str(tmp_path / "run"))
    assert used.config.data.columns == (1, 3)
    assert TranslationTask.load_data(used.config.data, None, used.artifacts).valid.target_of(0).tolist() == (
        used.artifacts[1].encode(VALID[0][1]).tolist()
    )
    assert runs.evaluate(str(tmp_path / "run"), split="valid", data=[str(files[0])])["forced"]
    for text, message in (
        ("1", "expected two columns counted from 1, such as 1,3, found (1,)"),
        ("0,1", "expected two columns counted from 1, such as 1,3, found (0, 1)"),
        ("a,b", "columns: expected a number such as 500, 10k or 1M, found 'a'"),
        ("1,4", "expected text in columns 1 and 4"),
    ):
        other = command("train", "translation", *flags, *size, "--set", f"columns={text}", "--out", tmp_path / "other")
        refused(other, message)
