"""Untrained models of every kind as lanes: small, and quick to make."""

from types import SimpleNamespace

import torch

from recollect.data.tokenizers.chars_and_bytes import Chars
from recollect.models import language
from recollect.models.body import KINDS
from recollect.models.ngram import Config, Ngram
from recollect.studio.lanes.lane import Lane

TEXT = "who goes there? nay, answer me: stand, and unfold yourself. "
NAMES = (*KINDS, "ngram")
TOKENIZER = Chars(TEXT)


def make_model(name):
    """A model by its name in the lineage."""
    torch.manual_seed(3)
    if name == "ngram":
        return Ngram(Config(order=3, vocab=TOKENIZER.size)).train_on(TOKENIZER.encode(TEXT * 2)).eval()
    config = language.Config(model=name, vocab=TOKENIZER.size, width=16, layers=2, heads=2)
    model = config.build().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from the small numbers of a start, so that a change can be seen
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def as_trained(name, model=None, tokenizer=TOKENIZER):
    """What a lane needs of a trained model."""
    found = make_model(name) if model is None else model
    return SimpleNamespace(
        methods=("generate",), task="text", model=name, module=found, tokenizer=tokenizer, limit=None
    )


def make_lane(name, **options):
    return Lane(f"lane-{name}", as_trained(name, **options))
