"""Language modelling as a task: what each rule counts, against loops that a reader can check; batches; baselines."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from torch import nn

import tiny
from recollect.core.contract import ContractError
from recollect.data.files import DataError
from recollect.models import language
from recollect.tasks.text import task as text

RULES = ("windows", "stateful", "sliding")
SHAPES = [(9, 4), (10, 4), (13, 4), (14, 5), (5, 4), (30, 7), (12, 1), (8, 2), (41, 3)]  # tokens, context
every_rule = pytest.mark.parametrize("rule", RULES)
every_shape = pytest.mark.parametrize(("count", "context"), SHAPES)


class Echo(nn.Module):
    """Its loss on a token is the token's own number: what was counted can be read off."""

    def nll(self, x, y, state=None):
        assert torch.equal(x[:, 1:], y[:, :-1]), "each target is the next input"
        return y.double(), None


class Place(nn.Module):
    """Its loss is how many tokens it has read since it started from nothing."""

    def nll(self, x, y, state=None):
        start = torch.zeros(len(x), dtype=torch.int64) if state is None else state
        return (start[:, None] + torch.arange(x.shape[1])).double(), start + x.shape[1]


def numbered(count, context, **settings):
    """A text in which no token comes twice."""
    return tiny.task(range(count), size=count, context=context, batch=1, **settings)


# ------------------------------------------------------------------------------------------------ measuring


@every_rule
@every_shape
@pytest.mark.parametrize("eval_batch", [1, 2, 64])
def test_every_token_but_the_first_is_counted_once_and_in_order(rule, count, context, eval_batch):
    losses = numbered(count, context, eval_batch=eval_batch).losses(Echo(), "valid", rule)
    assert losses.dtype == torch.float64
    assert losses.tolist() == list(range(1, count))


@every_shape
def test_each_rule_gives_a_token_the_context_that_it_says(count, context):
    task = numbered(count, context)
    assert task.losses(Place(), "valid", "windows").tolist() == [t % context for t in range(count - 1)]
    assert task.losses(Place(), "valid", "stateful").tolist() == list(range(count - 1))
    seen = task.losses(Place(), "valid", "sliding").tolist()
    stride = max(1, context // 2)
    for t, before in enumerate(seen):
        assert min(t, context - stride) <= before < context
    assert seen[:context] == list(range(min(context, count - 1)))


def naive_windows(tokens, context):
    for i in range(1, len(tokens)):
        yield (i - 1) // context * context, i


def naive_stateful(tokens, context):
    for i in range(1, len(tokens)):
        yield 0, i


def naive_sliding(tokens, context):
    """Windows begin every half context and end with the text; a token counts in the first window that holds it."""
    stride, last = max(1, context // 2), len(tokens) - 1
    starts = [s for s in range(0, last, stride) if s + context <= last] or [0]
    if starts[-1] + context < last:
        starts.append(last - context)
    for i in range(1, len(tokens)):
        yield next(s for s in starts if i <= s + context), i


@pytest.mark.parametrize("model", ["gru", "transformer", "ttt-linear"])
@pytest.mark.parametrize(("count", "context"), [(30, 7), (29, 8), (10, 4)])
def test_each_rule_equals_a_loop_that_reads_everything_anew_for_every_token(model, count, context):
    tokens = np.random.default_rng(3).integers(0, 5, size=count)
    task = tiny.task(tokens, size=5, context=context, batch=1, eval_batch=2)
    heads = {"heads": 2} if model in tiny.HEADED else {}
    built = language.Config(vocab=5, model=model, width=8, layers=1, **heads).build().eval()
    with torch.no_grad():
        for weight in built.parameters():  # far from uniform, and with an eye for what came before
            if weight.dim() > 1 and built.config.residual:
                weight.mul_(10)
        built.head.weight.mul_(2)
    rules = {"windows": naive_windows, "stateful": naive_stateful, "sliding": naive_sliding}
    found = {}
    for rule, naive in rules.items():
        expected = []
        for start, i in naive(tokens, context):
            with torch.no_grad():
                logits, _ = built(torch.tensor(tokens[start:i])[None])
            expected.append(-logits[0, -1].double().log_softmax(-1)[tokens[i]])
        found[rule] = task.losses(built, "valid", rule)
        torch.testing.assert_close(found[rule], torch.stack(expected), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found["windows"], found["stateful"], rtol=1e-3), "the rules differ"
    assert not torch.allclose(found["windows"], found["sliding"], rtol=1e-3)


def test_a_stateful_pass_does_not_depend_on_how_it_is_cut():
    task = numbered(50, 4)
    whole = task._stateful(Place(), "valid").tolist()
    assert task._stateful(Place(), "valid", piece=7).tolist() == whole == list(range(49))


class Uniform(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.vocab = vocab

    def nll(self, x, y, state=None):
        return torch.full(y.shape, math.log(self.vocab)), None


class Perfect(nn.Module):
    def nll(self, x, y, state=None):
        return torch.zeros(y.shape), None


@every_rule
def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary(rule):
    task = tiny.task("abcdefg" * 9, context=8)
    assert task.evaluate(Uniform(7), "valid", rule)["perplexity"] == pytest.approx(7, rel=1e-6)
    model = language.Config(vocab=7, model="rnn", width=4, tie=False).build()
    nn.init.zeros_(model.head.weight)
    assert task.evaluate(model, "valid", rule)["perplexity"] == pytest.approx(7, rel=1e-6)
    assert task.evaluate(model, "valid", rule)["nats_per_token"] == pytest.approx(task.baselines("valid")["uniform"])


@every_rule
def test_a_model_that_knows_everything_has_perplexity_one(rule):
    found = tiny.task("abcdefg" * 9, context=8).evaluate(Perfect(), "valid", rule)
    assert (found["perplexity"], found["nats_per_token"], found["bits_per_byte"]) == (1, 0, 0)


def test_perplexity_does_not_overflow():
    class Hopeless(nn.Module):
        def nll(self, x, y, state=None):
            return torch.full(y.shape, 1e6), None

    assert math.isfinite(tiny.task("ab" * 20, context=8).evaluate(Hopeless(), "valid")["perplexity"])


def test_bits_per_byte_are_those_of_the_text_not_of_the_tokens():
    """4 characters of 3 bytes and 4 of 1 byte; 8 tokens, of which 7 are predicted, at 2 bits each."""
    task = tiny.task("床前明月abcd", context=4, batch=1)
    assert task.data.text_bytes["valid"] == 16

    class TwoBits(nn.Module):
        def nll(self, x, y, state=None):
            return torch.full(y.shape, 2 * math.log(2)), None

    found = task.evaluate(TwoBits(), "valid")
    assert found["tokens"] == 7
    assert found["bits_per_byte"] == pytest.approx(7 * 2 / 16)
    assert found["nats_per_token"] == pytest.approx(2 * math.log(2))


@every_rule
def test_only_the_first_tokens_are_measured_where_that_is_asked_and_the_rule_says_so(rule):
    task = numbered(40, 4, eval_tokens=15)
    assert task.losses(Echo(), "valid", rule).tolist() == list(range(1, 15))
    found = task.evaluate(Echo(), "valid", rule)
    assert found["tokens"] == 14
    assert "of the first 15 tokens" in found["rule"]
    assert found["bits_per_byte"] == pytest.approx(sum(range(1, 15)) / math.log(2) / 15)
    short = numbered(40, 4, eval_tokens=1000).evaluate(Echo(), "valid", rule)
    assert short["tokens"] == 39
    assert "of the first" not in short["rule"], "there are no others"


@every_rule
def test_a_figure_comes_with_its_rule(rule):
    task = numbered(40, 6, eval_rule=rule)
    found = task.evaluate(Echo(), "valid")
    assert found["rule"] == task.describe_rule(rule, "valid")
    assert len({task.describe_rule(other, "valid") for other in RULES}) == 3
    assert ("by_position" in found) == (rule == "windows")


@pytest.mark.parametrize(("count", "context"), [(33, 4), (34, 4), (36, 4), (5, 4)])
def test_the_loss_at_each_position_is_a_mean_over_whole_windows(count, context):
    task = numbered(count, context)
    assert task.evaluate(Place(), "valid", "windows")["by_position"] == list(range(context))
    echo = task.evaluate(Echo(), "valid", "windows")["by_position"]
    windows = (count - 1) // context
    for position, value in enumerate(echo):
        assert value == pytest.approx(np.mean([1 + position + context * w for w in range(windows)]))


def test_a_measurement_needs_no_gradient_and_leaves_the_model_alone():
    task = tiny.task(tiny.prose(60), context=8)
    model = language.Config(vocab=task.data.tokenizer.size, model="lstm", width=8, dropout=0.5).build().eval()
    before = [p.clone() for p in model.parameters()]
    found = [task.evaluate(model, "valid", rule) for rule in RULES]
    assert found == [task.evaluate(model, "valid", rule) for rule in RULES]
    assert all(torch.equal(a, b) and a.grad is None for a, b in zip(model.parameters(), before, strict=True))


# ------------------------------------------------------------------------------------------------ baselines


def test_the_unigram_baseline_is_counted_by_hand():
    """Training text aab: add one to each of 3 letters, so a 3/6, b 2/6, c 1/6; the first token is not predicted."""
    task = tiny.task([0, 0, 1], [0, 1, 2, 0], size=3, context=2, batch=1)
    found = task.baselines("valid")
    assert found["unigram"] == pytest.approx(-(math.log(2 / 6) + math.log(1 / 6) + math.log(3 / 6)) / 3)
    assert found["uniform"] == pytest.approx(math.log(3))


def test_the_unigram_baseline_of_the_training_text_is_near_its_entropy():
    text_ = tiny.prose(3000)
    counts = np.array([text_.count(c) for c in set(text_)]) / len(text_)
    found = tiny.task(text_, context=8).baselines("train")
    assert found["unigram"] == pytest.approx(-(counts * np.log(counts)).sum(), rel=1e-2)
    assert found["unigram"] < found["uniform"]


# ------------------------------------------------------------------------------------------------ batches

ORDERS = {
    "random": {},
    "sequential": {"windows": "sequential"},
    "sequential, varied": {"windows": "sequential", "vary": True, "context": 10},
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("start", [1, 3, 17, 40])
def test_a_batch_depends_on_seed_and_number_alone(order, start):
    settings = {"context": 8, "batch": 3} | ORDERS[order]
    task = tiny.task(tiny.prose(100), **settings)
    straight = list(islice(task.batches("train", 5), start, start + 4))
    for a, b in zip(straight, task.batches("train", 5, start=start), strict=False):
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
        assert a[2:] == b[2:]
    assert [batch.number for batch in straight] == list(range(start, start + 4))


def test_another_seed_gives_other_random_batches():
    task = tiny.task(tiny.prose(300), context=8, batch=3)
    assert not torch.equal(next(task.batches("train", 1)).x, next(task.batches("train", 2)).x)


@pytest.mark.parametrize("order", ORDERS)
def test_targets_are_the_next_inputs(order):
    settings = {"context": 8, "batch": 3} | ORDERS[order]
    task = tiny.task(range(200), size=200, **settings)
    for batch in islice(task.batches("train", 0), 30):
        assert torch.equal(batch.y, batch.x + 1), "in a text of ascending numbers"
        assert batch.x.dtype == torch.int64


def test_random_windows_reach_every_place_of_the_text():
    task = tiny.task(range(20), size=20, context=4, batch=8)
    starts = {int(row[0]) for batch in islice(task.batches("train", 0), 100) for row in batch.x}
    assert starts == set(range(16)), "from the first to the last that fits"


@pytest.mark.parametrize("order", ["sequential", "sequential, varied"])
@pytest.mark.parametrize(("count", "rows"), [(200, 3), (201, 4), (50, 1), (47, 5)])
def test_sequential_streams_tile_the_text(order, count, rows):
    settings = {"context": 8} | ORDERS[order] | {"batch": rows}
    task = tiny.task(range(count), size=count, **settings)
    length = (count - 1) // rows
    seen, epochs = [[] for _ in range(rows)], 0
    for batch in task.batches("train", 0):
        assert batch.fresh == (len(seen[0]) == 0), "a pass over the text starts from nothing, and only it"
        for row in range(rows):
            seen[row] += batch.y[row].tolist()
        if len(seen[0]) == length:
            assert [token for row in seen for token in row] == list(range(1, rows * length + 1)), (
                "every target once, in order"
            )
            seen, epochs = [[] for _ in range(rows)], epochs + 1
        if epochs == 2:
            break
    assert count - 1 - rows * length < rows, "less than a step of text is left out"


def test_varied_windows_differ_in_length_and_weigh_as_much_as_they_hold():
    task = tiny.task(range(3000), size=3000, context=20, batch=2, windows="sequential", vary=True)
    batches = list(islice(task.batches("train", 0), 70))
    lengths = [batch.x.shape[1] for batch in batches]
    assert len(set(lengths)) > 5
    assert min(lengths) >= 5
    assert np.mean(lengths) == pytest.approx(20, abs=2)
    assert all(batch.scale == pytest.approx(length / 20) for batch, length in zip(batches, lengths, strict=True))
    second = list(islice(task.batches("train", 0, start=70), 70))
    assert [b.x.shape[1] for b in second] != lengths, "the next pass is cut elsewhere"
    model = language.Config(vocab=3000, model="rnn", width=4, layers=1).build()
    plain = tiny.task(range(3000), size=3000, context=20, batch=2)
    for batch in batches[:3]:
        expected = plain.loss(model, batch._replace(scale=1.0, fresh=True)).value * batch.scale
        assert task.loss(model, batch._replace(fresh=True)).value.item() == pytest.approx(expected.item())


def test_the_state_is_carried_in_order_and_only_there():
    model = language.Config(vocab=16, model="gru", width=8, layers=1).build()
    words = tiny.prose(100)
    plain = tiny.task(words, context=8, batch=2)
    assert plain.loss(model, next(plain.batches("train", 0))).carry is None
    task = tiny.task(words, context=8, batch=2, windows="sequential")
    first, second = islice(task.batches("train", 0), 2)
    carry = task.loss(model, first).carry
    both = model.nll(torch.cat([first.x, second.x], 1), torch.cat([first.y, second.y], 1))[0]
    with_state = task.loss(model, second, carry).value.item()
    assert with_state == pytest.approx(both[:, 8:].mean().item(), rel=1e-5)
    fresh = task.loss(model, second._replace(fresh=True), carry).value.item()
    assert fresh == pytest.approx(model.nll(second.x, second.y)[0].mean().item(), rel=1e-5)
    assert fresh != pytest.approx(with_state, rel=1e-5), "a fresh start forgets what was carried"


def test_a_loss_counts_its_predictions():
    task = tiny.task(tiny.prose(100), context=8, batch=3)
    model = language.Config(vocab=task.data.tokenizer.size, model="rnn", width=4).build()
    assert task.loss(model, next(task.batches("train", 0))).tokens == 24


# ------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(("train", "valid", "split"), [(100, 8, "valid"), (8, 100, "train"), (100, 0, "valid")])
def test_a_part_too_short_for_one_window_is_one_clear_line(train, valid, split):
    task = tiny.task(range(train), range(valid), size=100, context=8)
    with pytest.raises(DataError) as caught:
        next(task.batches(split, 0))
    message = str(caught.value)
    assert f"expected at least 9 tokens for {split}" in message
    assert f"found {min(train, valid)}" in message
    assert "--context" in message
    assert "\n" not in message


@pytest.mark.parametrize("rule", ["windows", "stateful", "sliding"])
def test_a_text_shorter_than_a_window_is_measured(rule):
    task = tiny.task(range(100), range(4), size=100, context=8)
    found = task.evaluate(Uniform(100), "valid", rule)
    assert found["tokens"] == 3
    assert found["nats_per_token"] == pytest.approx(math.log(100))


def test_one_token_cannot_be_measured():
    task = tiny.task(range(100), range(1), size=100, context=8)
    with pytest.raises(DataError, match="expected at least 2 tokens to measure, found 1"):
        task.evaluate(Uniform(100), "valid")


def test_one_window_is_enough():
    task = tiny.task(range(9), size=9, context=8, batch=1)
    assert task.losses(Echo(), "valid", "windows").tolist() == list(range(1, 9))
    assert next(task.batches("train", 0)).x.tolist() == [list(range(8))]


def test_more_streams_than_text_are_refused():
    task = tiny.task(range(9), size=9, context=4, batch=9, windows="sequential")
    with pytest.raises(DataError, match="expected more than 9 tokens for 9 streams"):
        next(task.batches("train", 0))


def test_a_part_that_is_not_there_is_refused():
    with pytest.raises(DataError, match="expected a test part, found none"):
        tiny.task(tiny.prose(50), context=8).evaluate(Echo(), "test")


@pytest.mark.parametrize(
    "settings",
    [
        {"context": 0},
        {"batch": 0},
        {"windows": "shuffled"},
        {"bptt": "some"},
        {"vary": True},
        {"smoothing": 1.0},
        {"smoothing": -0.1},
        {"cut": 0.0},
        {"cut": 1.0},
        {"segment": 0},
        {"eval_rule": "all"},
        {"eval_tokens": 1},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ContractError):
        text.Config(**settings)
