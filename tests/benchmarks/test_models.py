"""The models that the bench puts beside ours have our weights and write what ours does."""

from dataclasses import replace

import pytest
import torch

from benchmarks import training, translating, ttt, writing

SMALL = training.Shape(layers=2, width=16, heads=2, vocab=40, steps=300, batch=2)


pytestmark = pytest.mark.usefixtures("no_clock")


@pytest.fixture(autouse=True)
def _twelve_tokens(monkeypatch):
    monkeypatch.setattr(writing, "TOKENS", 12)
    monkeypatch.setattr(writing, "GREEDY", replace(writing.GREEDY, length=12))


def test_the_plain_model_has_our_logits_and_loss():
    model = training.scattered(SMALL.config().build())
    plain = training.to_plain(model, SMALL)
    x, y = torch.randint(SMALL.vocab, (2, 3, 20))
    torch.testing.assert_close(plain.logits(x), model(x)[0])
    torch.testing.assert_close(plain(x, y), model.nll(x, y)[0].mean())
    with torch.no_grad():
        plain.get_submodule("blocks.1.down").bias[0] += 0.1  # type: ignore[operator,index]
    assert not torch.allclose(plain.logits(x), model(x)[0], atol=1e-3)


def test_other_logits_fail_the_training_row():
    model, plain, _, _ = training.built(SMALL, "cpu")
    batches = training.Batches(SMALL, "cpu")
    assert training.same(model, plain, None, batches).startswith("logits of a row")
    with torch.no_grad():
        plain.norm.bias[0] += 0.1
    with pytest.raises(AssertionError, match="plain gave"):
        training.same(model, plain, None, batches)


def test_gpt2_has_our_logits():
    pytest.importorskip("transformers")
    model = training.scattered(SMALL.config().build()).eval()
    x = torch.randint(SMALL.vocab, (3, 20))
    torch.testing.assert_close(training.to_gpt2(model).eval()(x).logits, model(x)[0])


def test_a_training_step_of_ours_and_of_the_plain_model_learns_alike(monkeypatch):
    """From the same weights and batch both end at the same weights."""
    model = training.scattered(SMALL.config().build())
    plain, batches = training.to_plain(model, SMALL), training.Batches(SMALL, "cpu", count=1)
    settings = training.Settings(lr=1e-2)
    training.stepper(model, lambda x, y: model.nll(x, y)[0].mean(), batches, settings, "cpu")()
    training.stepper(plain, plain, batches, settings, "cpu")()
    torch.testing.assert_close(plain.norm.weight, model.body.layers[-1].norm.weight)
    torch.testing.assert_close(plain.places.weight, model.body.layers[0].added.table)
    row = training.measured(replace(SMALL, steps=8), "cpu")
    assert row.error is None
    assert row.amount == 16
    assert "plain, eager" in row.peers


def test_the_engine_a_loop_and_a_static_cache_write_the_same():
    model = writing.without_end(training.scattered(SMALL.config().build())).eval()
    prompts = writing.Prompts(2, SMALL.vocab, "cpu")
    expected = writing.step_by_step(model, prompts)
    assert expected.shape == (2, 12)
    static = writing.StaticCache(training.to_plain(model, SMALL), prompts, fast=False)
    for _ in range(2):  # what is left in the cache must not matter
        torch.testing.assert_close(static.write(prompts), writing.step_by_step(model, prompts))
        prompts.draw()
    row = writing.transformer(SMALL, "cpu", "float32")
    assert row.error is None
    assert "engine 24, plain, static cache 24" in row.checked


def test_agreement_counts_up_to_the_first_other_token():
    kept = writing.Kept()
    kept.run("one", lambda: torch.tensor([[1, 2, 3], [1, 9, 3]]))
    assert kept.agreement(torch.tensor([[1, 2, 3], [1, 2, 3]])).endswith("one 4")


@pytest.mark.parametrize("name", ["gru", "ttt-linear"])
def test_a_row_of_the_lineage_writes_what_the_step_does(name):
    row = writing.of_lineage(name, "cpu")
    assert row.error is None
    assert "engine 12" in row.checked


@pytest.mark.parametrize("kind", list(ttt.CONFIGS))
def test_ttt_unrolled_has_the_gradients_of_the_plain_form(kind, monkeypatch):
    monkeypatch.setattr(ttt.Sequence, "by_mini_batch", ttt.Sequence.plain)  # compiling takes longer than it tells
    row = ttt.sequence(kind, ttt.Shape(batch=2, steps=9, heads=2, size=4, mini_batch=4), "cpu", torch.float32)
    assert row.error is None
    assert set(row.peers) == {"step by step", "plain, compiled by mini-batch"}
    assert "step by step" in row.checked


@pytest.mark.slow
def test_marian_has_our_weights():
    pytest.importorskip("transformers")
    data = translating.parallel.load(None, vocab=300, joint=True)
    model = translating.trained(data, translating.Size(width=16, layers=2, heads=2, vocab=300, steps=2), "cpu")
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
        theirs = translating.to_marian(model, data)
        source, x = torch.randint(200, (2, 3, 7))
        logits = theirs(input_ids=source, decoder_input_ids=x).logits
        torch.testing.assert_close(logits, model(x, memory=model.encode(source))[0])
