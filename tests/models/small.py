"""Small language models."""

import torch

import tiny
from recollect.models import language, ngram

VOCAB = 7


def config(model, **settings):
    heads = {"heads": 2} if model in tiny.HEADED else {}
    return language.Config(vocab=VOCAB, **{"model": model, "width": 8, "layers": 2} | heads | settings)


def built(model, **settings):
    return config(model, **settings).build().double().eval()


def tokens(rows=3, steps=7):
    return torch.randint(VOCAB, (rows, steps), generator=torch.Generator().manual_seed(3))


def counted(order=3, length=300, seed=1):
    text = torch.randint(VOCAB, (length,), generator=torch.Generator().manual_seed(seed))
    return ngram.Config(vocab=VOCAB, order=order).build().double().train_on(text.numpy())
