"""Where a translation came from: weights that add up, influence by its definition."""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from recollect.core.contract import ContractError, Memory
from recollect.data.moses import Preparation
from recollect.data.tokenizers import Words
from recollect.data.tokenizers.sentences import SentenceTokenizer
from recollect.decode import beam, translate
from recollect.decode.beam import Hypothesis
from recollect.models import seq2seq
from recollect.tasks.decoding import AlignmentOptions
from recollect.tasks.translation.instruments import align, read_alignment, source_influence
from recollect.training import run as runs
from recollect.training.folder import SHIPPED

TEXT = "the cat sees a dog\n"

SOURCE = SentenceTokenizer(Preparation("en"), Words.train([TEXT]))

TARGET = SentenceTokenizer(Preparation("fr"), Words.train(["le chat voit un chien là\n"]))

ATTENDING = {
    "attend": {"model": "attend"},
    "attend, cell first": {"model": "attend", "align": "cell-first", "score": "dot"},
    "conv": {"model": "conv", "layers": 2},
    "transformer": {"model": "transformer", "layers": 2, "heads": 4},
}

OTHERS = {"fixed": {"model": "fixed"}, "context": {"model": "context", "gist": "mean"}}

attending = pytest.mark.parametrize("kind", ATTENDING)

every_kind = pytest.mark.parametrize("kind", [*ATTENDING, *OTHERS])


def build(kind, seed=0):
    """A random model that has something to say, in float64."""
    torch.manual_seed(seed)
    given = {"source": SOURCE.size, "target": TARGET.size, "width": 8, "dropout": 0.0}
    model = seq2seq.Config(**given | (ATTENDING | OTHERS)[kind]).build().double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(2)
    return model


def used(model):
    """A run that was never on disk."""
    return SimpleNamespace(model=model, artifacts=(SOURCE, TARGET))


def written(text):
    return Hypothesis(TARGET.encode(text).tolist(), 0.0, 0.0, True)


@attending
def test_the_looks_of_a_model_are_those_that_its_search_kept(kind):
    model = build(kind)
    rows = [SOURCE.encode(text) for text in ("the cat sees", "a dog", "sees a dog sees the cat")]
    lists = translate.hypotheses(model, SOURCE, TARGET, rows, beam.Config(beam=3, nbest=2, extra=3), alignments=True)
    for row, best in zip(rows, lists, strict=True):
        for hypothesis in best:
            memory = translate.encode(model, SOURCE, [row])
            found = translate.looks(model, memory, hypothesis.tokens, TARGET.begin)["mean"]
            assert found.shape == (len(hypothesis.tokens) + 1, len(row) + 1)
            assert torch.allclose(found.sum(dim=1), torch.ones(len(found)))
            kept = torch.tensor(hypothesis.alignment)  # the end is looked for only where it was written
            assert len(kept) == len(hypothesis.tokens) + hypothesis.finished
            torch.testing.assert_close(found[: len(kept)], kept.float(), rtol=1e-5, atol=1e-6)


@attending
def test_every_head_of_every_layer_is_told_apart_and_their_mean_is_the_mean(kind):
    model = build(kind)
    memory = translate.encode(model, SOURCE, [SOURCE.encode("the cat sees a dog")])
    found = translate.looks(model, memory, TARGET.encode("le chat voit").tolist(), TARGET.begin)
    layers = model.config.layers
    heads = 4 if kind == "transformer" else 1
    expected = [f"layer {i} head {j}" for i in range(1, layers + 1) for j in range(1, heads + 1)]
    assert list(found) == [*expected, "mean"]
    for weights in found.values():
        assert torch.allclose(weights.sum(dim=1), torch.ones(4))
    mean = torch.stack([found[name] for name in expected]).mean(dim=0)
    torch.testing.assert_close(found["mean"], mean)
    assert len({str(weights.tolist()) for weights in found.values()}) >= len(expected)


@pytest.mark.parametrize("kind", OTHERS)
def test_a_model_that_never_looks_has_no_looks(kind):
    model = build(kind)
    memory = translate.encode(model, SOURCE, [SOURCE.encode("the cat")])
    assert translate.looks(model, memory, [3, 4], TARGET.begin) == {}


class Linear(nn.Module):
    """logits[t] = C_t · Σ_s a_s · (embedding of place s): its gradient can be written down."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.shares = torch.tensor([0.0, -1.0, 2.0, 0.5], dtype=torch.float64)
        self.table = torch.randn(9, 3, dtype=torch.float64)
        self.out = torch.randn(5, 7, 3, dtype=torch.float64)  # T V E

    def embed_source(self, source):
        return self.table[source]

    def read_source(self, x, lengths=None):
        return Memory(x, torch.ones(x.shape[:2], dtype=torch.bool))

    def forward(self, x, state=None, memory=None):
        gist = torch.einsum("bse,s->be", memory.values, self.shares)
        return torch.einsum("tve,be->btv", self.out[: x.shape[1]], gist), None


def test_influence_is_the_gradient_that_can_be_written_down():
    """∂ log p(token)/∂ place s = a_s · C_tᵀ(onehot − p): its norm is |a_s| times the same for every s."""
    model = Linear()
    found = source_influence(model, torch.tensor([[1, 4, 2, 8]]), [3, 0, 6], begin=5)
    expected = model.shares.abs() / model.shares.abs().sum()
    torch.testing.assert_close(found, expected.float().expand(3, -1))


@every_kind
def test_influence_is_how_far_a_small_change_of_each_place_goes(kind):
    """Finite differences in every direction of every place, in float64."""
    model = build(kind)
    source = torch.tensor([[*SOURCE.encode("the cat sees").tolist(), SOURCE.end]])
    tokens = [*TARGET.encode("le chat").tolist(), TARGET.end]
    found = source_influence(model, source, tokens, TARGET.begin)
    x, step = torch.tensor([[TARGET.begin, *tokens[:-1]]]), 1e-5

    @torch.no_grad()
    def likely(embedded):
        logits, _ = model(x, memory=model.read_source(embedded))
        return logits[0].log_softmax(-1)[torch.arange(3), torch.tensor(tokens)]

    with torch.no_grad():
        embedded = model.embed_source(source)
        slopes = torch.zeros(3, *embedded.shape[1:], dtype=torch.float64)
        for s in range(embedded.shape[1]):
            for e in range(embedded.shape[2]):
                up, down = embedded.clone(), embedded.clone()
                up[0, s, e] += step
                down[0, s, e] -= step
                slopes[:, s, e] = (likely(up) - likely(down)) / (2 * step)
    norms = slopes.norm(dim=-1)
    torch.testing.assert_close(found, (norms / norms.sum(dim=1, keepdim=True)).float(), rtol=1e-4, atol=1e-6)
    assert torch.allclose(found.sum(dim=1), torch.ones(3))
    assert found.std(dim=1).min() > 1e-3, "places differ"


def test_influence_leaves_no_gradient_behind_and_works_where_none_are_kept():
    model = build("fixed")
    with torch.no_grad():
        source_influence(model, torch.tensor([[2, 3]]), [3, TARGET.end], TARGET.begin)
    assert all(weight.grad is None for weight in model.parameters())


def test_nothing_that_matters_is_no_division_by_nothing():
    model = Linear()
    model.shares.zero_()
    assert not source_influence(model, torch.tensor([[1, 4, 2, 8]]), [3], begin=5).any()


@every_kind
def test_an_alignment_names_its_rows_and_columns_and_its_kind(kind):
    ids = SOURCE.encode("the cat sees")
    found = align(used(build(kind)), ids, written("le là"))
    assert found.source == ["the", "cat", "sees", "<end>"]
    assert found.target == ["le", "là", "<end>"]
    assert found.weights.shape == (3, 4)
    assert torch.allclose(found.weights.sum(dim=1), torch.ones(3))
    many = {"conv": 2, "transformer": 8}
    if kind in OTHERS:
        assert found.kind == "influence of each source token, by gradient"
    else:
        assert found.kind == (f"attention, mean of {many[kind]} heads" if kind in many else "attention")
    expected = [(int(row[:3].argmax()), word) for word, row in enumerate(found.weights[:2])]
    assert found.pairs == expected


def test_a_layer_or_a_head_can_be_chosen():
    model, ids = build("transformer"), SOURCE.encode("the cat sees")
    memory = translate.encode(model, SOURCE, [ids])
    looked = translate.looks(model, memory, written("le chat").tokens, TARGET.begin)

    def chosen(**which):
        return align(used(model), ids, written("le chat"), **which)

    one = chosen(layer=2, head=3)
    torch.testing.assert_close(one.weights, looked["layer 2 head 3"])
    assert one.kind == "attention, layer 2 head 3"
    layer = torch.stack([looked[f"layer 2 head {head}"] for head in range(1, 5)]).mean(dim=0)
    torch.testing.assert_close(chosen(layer=2).weights, layer)
    assert chosen(layer=2).kind == "attention, mean of 4 heads"
    head = torch.stack([looked[f"layer {level} head 1"] for level in (1, 2)]).mean(dim=0)
    torch.testing.assert_close(chosen(head=1).weights, head)
    torch.testing.assert_close(chosen().weights, looked["mean"])


@pytest.mark.parametrize(
    ("kind", "which", "message"),
    [
        ("transformer", {"layer": 3}, "expected one of layer 1 head 1, .*layer 2 head 4, found layer 3;"),
        ("transformer", {"head": 0}, "found head 0;"),
        ("attend", {"layer": 1, "head": 2}, "expected one of layer 1 head 1, found layer 1, head 2"),
        ("fixed", {"layer": 1}, "expected a model with attention for a layer or a head, found one without"),
    ],
)
def test_a_layer_or_head_that_is_not_there_is_refused_in_one_line(kind, which, message):
    with pytest.raises(ContractError, match=message) as caught:
        align(used(build(kind)), SOURCE.encode("the cat"), written("le"), **which)
    assert "\n" not in str(caught.value)


@every_kind
def test_an_empty_translation_came_from_somewhere_too(kind):
    found = align(used(build(kind)), SOURCE.encode("the"), written(""))
    assert found.weights.shape == (1, 2)
    assert found.pairs == []


def test_the_alignment_before_training_stands_beside_the_trained_one():
    run = runs.load(SHIPPED / "demo-translation")
    trained = {name: tensor.clone() for name, tensor in run.model.state_dict().items()}
    reading = read_alignment(run, AlignmentOptions(text="twenty-three"))
    before, after = reading.charts
    assert (before.rows, before.columns) == (after.rows, after.columns)
    assert reading.figures["weights"] == after.values
    assert reading.figures["initial"]["weights"] == before.values
    even = 1 / len(before.columns)
    assert all(weight == pytest.approx(even, abs=0.05) for row in before.values for weight in row)
    assert max(max(row) for row in after.values) > 0.5
    assert all(torch.equal(trained[name], own) for name, own in run.model.state_dict().items()), (
        "the run stays as it is"
    )
    assert len(read_alignment(run, AlignmentOptions(text="twenty-three", initial=False)).charts) == 1
