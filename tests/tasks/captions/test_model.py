"""Captioners: the laws over a picture, decoders shared with translation, beam search."""

import pytest
import torch

from recollect.core import laws
from recollect.core.contract import ContractError
from recollect.decode import beam
from recollect.models import seq2seq
from recollect.models.size import parameters
from recollect.tasks.captions import model as captioner
from recollect.tasks.captions import vision

WORDS = 9

FAMILY = {
    "fixed": {"model": "fixed"},
    "context": {"model": "context", "cell": "lstm"},
    "attend": {"model": "attend"},
    "attend, cell first": {"model": "attend", "align": "cell-first", "score": "general", "cell": "lstm"},
    "conv": {"model": "conv"},
    "transformer": {"model": "transformer", "heads": 2, "layers": 2},
}

family = pytest.mark.parametrize("settings", FAMILY.values(), ids=FAMILY)


def test_settings_that_do_not_fit_a_picture_are_one_line():
    with pytest.raises(ContractError, match="expected channels to be a multiple of 8, found 12"):
        captioner.Config(words=5, channels=12)
    with pytest.raises(ContractError, match="expected gist=mean, since a picture has no last state, found gist=last"):
        captioner.Config(words=5, gist="last")
    with pytest.raises(ContractError, match="found share=all"):
        captioner.Config(words=5, share="all")


def build(settings, **more):
    torch.manual_seed(0)
    given = {"words": WORDS, "pixels": 32, "channels": 8, "width": 8, "dropout": 0.1}
    return captioner.Config(**given | settings | more).build().double().eval()


def seen(rows=3):
    return torch.rand(rows, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@family
def test_every_decoder_obeys_the_laws_over_a_picture(settings):
    model = build(settings)
    laws.check(model, torch.randint(WORDS, (3, 6)), model.encode(seen()))


@family
def test_every_weight_gets_a_gradient(settings):
    model = build(settings, self_attention=True)
    for module in model.modules():
        if isinstance(module, vision.SelfAttention):
            torch.nn.init.ones_(module.gate)  # at 0 nothing behind it learns yet
        if isinstance(module, vision.Residual):
            torch.nn.init.ones_(module.norm_second.weight)
    model(torch.randint(WORDS, (3, 5)), memory=model.encode(seen()))[0].square().sum().backward()
    # a key's bias shifts all scores alike, and a softmax does not see that
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not idle


@family
def test_a_decoder_does_not_know_that_it_reads_a_picture(settings):
    """The translator's own decoder, with a captioner's weights, writes what the captioner writes."""
    model = build(settings)
    config = seq2seq.Config(
        source=7, target=WORDS, width=8, gist="mean", dropout=0.1, **{"align": "cell-first"} | settings
    )
    reader = seq2seq.Decoder(config, WORDS, model.eye.width).double().eval()
    reader.load_state_dict({name: w for name, w in model.state_dict().items() if not name.startswith("eye.")})
    x, memory = torch.randint(WORDS, (3, 5)), model.encode(seen())
    written = model(x, memory=memory)[0]
    assert torch.equal(reader(x, memory=memory)[0], written)
    order = torch.randperm(memory.values.shape[1])
    turned = memory._replace(values=memory.values[:, order], shape=None)
    assert torch.allclose(reader(x, memory=turned)[0], written), "a Memory is a set: where a cell lies, it says itself"


@pytest.mark.parametrize("name", [name for name in FAMILY if name not in ("fixed", "context")])
def test_a_model_that_looks_says_where(name):
    model = build(FAMILY[name])
    memory = model.encode(seen())
    found = model.explain(model.initial_state(3, memory=memory), torch.randint(WORDS, (3,)))["source"]
    assert found.shape == (3, 64)
    assert torch.allclose(found.sum(dim=1), torch.ones(3, dtype=torch.float64))


def test_the_width_is_solved_for_the_parameters():
    config = captioner.Config(words=500, channels=8, pixels=48).sized(150_000)
    assert parameters(config.build()) == pytest.approx(150_000, rel=0.05)


def test_lengths_make_no_sense_for_pictures():
    with pytest.raises(ContractError, match="found lengths with them"):
        build({}).encode(seen(), torch.tensor([1, 2, 3]))


@family
def test_beam_search_writes_captions_as_exhaustive_search_does(settings):
    """The best of all texts of at most 3 words, with the model's own log p; for a beam as wide as all of them."""
    model = build(settings, words=4)
    memory = model.encode(seen(2))
    begin, end = 2, 3
    found = beam.search(
        model, memory, begin=begin, end=end, banned=(begin,),
        config=beam.Config(beam=30, ratio=0.0, extra=3, length_penalty=0.0),
    )  # fmt: skip
    texts = [[]] + [[a] for a in (0, 1)] + [[a, b] for a in (0, 1) for b in (0, 1)]
    for row in range(2):
        one = memory._replace(values=memory.values[row : row + 1], valid=memory.valid[row : row + 1])
        scored = []
        for text in texts:
            with torch.no_grad():
                logits, _ = model(torch.tensor([[begin, *text]]), memory=one)
            steps = logits[0].log_softmax(dim=-1)
            scored.append((float(sum(steps[i, token] for i, token in enumerate([*text, end]))), text))
        best = max(scored)
        assert found[row][0].tokens == best[1]
        assert found[row][0].logprob == pytest.approx(best[0])
