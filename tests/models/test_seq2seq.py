"""The family of sequence to sequence models: each obeys the laws as a decoder given a Memory."""

import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.models import seq2seq
from recollect.models.size import parameters

SOURCE, TARGET = 11, 9
FAMILY = {
    "fixed": {"model": "fixed"},
    "fixed, an lstm of two layers, reversed": {"model": "fixed", "cell": "lstm", "layers": 2, "reverse": True},
    "fixed, both ways": {"model": "fixed", "both_ways": True, "cell": "rnn"},
    "context": {"model": "context"},
    "context, the mean of both ways": {"model": "context", "both_ways": True, "gist": "mean", "cell": "lstm"},
    "attend": {"model": "attend"},
    "attend, cell first": {"model": "attend", "align": "cell-first", "score": "general", "cell": "lstm", "layers": 2},
    "attend, dot": {"model": "attend", "score": "dot", "share": "none", "embed": 4},
    "conv": {"model": "conv", "layers": 2},
    "transformer": {"model": "transformer", "heads": 2, "layers": 2},
    "transformer, 2017": {"model": "transformer", "heads": 2, "order": "post"},
    "transformer, rotary": {"model": "transformer", "heads": 2, "positions": "rotary"},
}
family = pytest.mark.parametrize("settings", FAMILY.values(), ids=FAMILY)


def build(settings, **more):
    torch.manual_seed(0)
    given = {"source": SOURCE, "target": TARGET, "width": 8}
    return seq2seq.Config(**given | settings | more).build().double().eval()


def sources(rows=3, steps=6):
    torch.manual_seed(1)
    return torch.randint(SOURCE, (rows, steps)), torch.tensor([steps, 2, 4])[:rows]


@family
def test_every_decoder_obeys_the_laws(settings):
    model = build(settings)
    memory = model.encode(*sources())
    laws.check(model, torch.randint(TARGET, (3, 9)), memory)


@family
def test_an_encoder_reads_each_row_as_if_it_were_alone(settings):
    model, (source, lengths) = build(settings), sources()
    x = torch.randint(TARGET, (3, 5))
    together, _ = model(x, memory=model.encode(source, lengths))
    for row, length in enumerate(lengths.tolist()):
        alone, _ = model(x[row : row + 1], memory=model.encode(source[row : row + 1, :length]))
        assert torch.allclose(together[row], alone[0], atol=1e-10)


@family
def test_what_stands_in_the_padding_reaches_nothing(settings):
    model, (source, lengths) = build(settings), sources()
    x = torch.randint(TARGET, (3, 5))
    junk = source.clone()
    junk[1, 2:] = 10**6
    first, second = (model(x, memory=model.encode(tokens, lengths))[0] for tokens in (source, junk))
    assert torch.equal(first, second)


@family
def test_every_weight_gets_a_gradient(settings):
    model, (source, lengths) = build(settings), sources()
    model(torch.randint(TARGET, (3, 5)), memory=model.encode(source, lengths))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]


@pytest.mark.parametrize("name", [name for name in FAMILY if "attend" in name or "conv" in name or "trans" in name])
def test_a_model_that_looks_back_says_where(name):
    model, (source, lengths) = build(FAMILY[name]), sources()
    state = model.initial_state(3, memory=model.encode(source, lengths))
    found = model.explain(state, torch.randint(TARGET, (3,)))["source"]
    assert found.shape == (3, 6)
    assert torch.allclose(found.sum(dim=1), torch.ones(3, dtype=torch.float64))
    assert not found[1, 2:].any()


@pytest.mark.parametrize("name", ["fixed", "context"])
def test_a_model_without_an_alignment_claims_none(name):
    model = build(FAMILY[name])
    state = model.initial_state(3, memory=model.encode(*sources()))
    assert "source" not in model.explain(state, torch.randint(TARGET, (3,)))


def test_fixed_starts_from_the_encoders_last_state_and_nothing_else():
    model = build({"model": "fixed", "cell": "lstm", "layers": 2})
    memory = model.encode(*sources())
    state = model.initial_state(3, memory=memory)
    assert torch.equal(state[-2].h if hasattr(state[-2], "h") else state[1].h, memory.summary.h)
    other = memory._replace(values=torch.randn_like(memory.values))
    x = torch.randint(TARGET, (3, 5))
    assert torch.equal(model(x, memory=memory)[0], model(x, memory=other)[0])


def test_reversal_changes_what_fixed_reads_last_but_not_where_attention_points():
    source, lengths = sources()
    turned = build({"model": "attend", "reverse": True})
    plain = build({"model": "attend"})
    plain.load_state_dict(turned.state_dict())
    # a two-way encoder that reads a source backwards sees the turned source; its places are turned back
    from recollect.core import ragged

    expected = plain.encode(ragged.reverse(source, lengths), lengths).values
    assert torch.allclose(turned.encode(source, lengths).values, ragged.reverse(expected, lengths))


def test_one_table_serves_source_target_and_output():
    settings = {"model": "transformer", "heads": 2, "source": 9, "share": "all"}
    model = build(settings)
    assert model.head.weight is model.embedding.weight is model.source_embedding.weight
    assert parameters(build(settings | {"share": "output"})) - parameters(model) == 9 * 8
    assert parameters(build(settings | {"share": "none"})) - parameters(model) == 2 * 9 * 8


def test_one_table_needs_one_vocabulary():
    with pytest.raises(ContractError, match="needs one vocabulary"):
        build({"model": "transformer", "share": "all"})


@pytest.mark.parametrize("name", ["fixed", "context", "attend", "conv", "transformer"])
def test_the_width_is_solved_for_the_parameters(name):
    config = seq2seq.Config(source=50, target=60, model=name).sized(200_000)
    assert parameters(config.build()) == pytest.approx(200_000, rel=0.05)


def test_a_memory_without_a_last_state_is_refused_in_a_line():
    model = build({"model": "fixed"})
    memory = model.encode(*sources())._replace(summary=None)
    with pytest.raises(ContractError, match="expected a memory with the last state"):
        model.initial_state(3, memory=memory)


def test_a_transformers_inner_dropout_can_differ_from_that_of_its_shortcuts():
    def rates(**settings):
        config = seq2seq.Config(source=9, target=9, model="transformer", width=8, heads=2, dropout=0.3, **settings)
        inside = ("Attend", "FeedForward")
        return {m.config.dropout for m in config.build().modules() if type(m).__name__ in inside}

    assert rates() == {0.3}
    assert rates(inner_dropout=0.0) == {0.0}
