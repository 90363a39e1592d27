"""Where inputs enter a model."""

import pytest
import torch

from measure.probes import VOCAB, build, counting, every_kind
from recollect.core.contract import ContractError
from recollect.measure.inputs import counted, traced, without
from recollect.tasks.text import mixture


@every_kind
def test_tokens_enter_where_their_vectors_are(kind):
    model = build(kind)
    x = torch.randint(VOCAB, (2, 5))
    y, (seen,) = traced(lambda x: model(x)[0], model, x)
    assert torch.equal(seen, model.embedding(x))
    assert torch.allclose(y, model(x)[0])
    assert not model.embedding._forward_hooks, "nothing is left behind"


def test_what_counts_and_what_has_several_tables_is_refused():
    x = torch.randint(VOCAB, (1, 4))
    for model, why in ((counting(), "one that counts"), (mixture.Mixture(build("gru"), build("rnn")), "found several")):
        with pytest.raises(ContractError, match=why):
            traced(lambda x, model=model: model(x)[0], model, x)
    assert counted(mixture.Mixture(build("gru"), counting()))
    assert not counted(build("gru"))


def test_zeros_take_the_place_of_a_vector():
    model = build("gru")
    x = torch.tensor([[1, 2, 3], [1, 2, 3]])
    gone = torch.tensor([[False, True, False], [False, False, False]])
    found = without(lambda x: model(x)[0], model, x, gone)
    vectors = model.embedding(x).masked_fill(gone[..., None], 0)
    assert torch.allclose(found, model.head(model.body(vectors, model.initial_state(2))[0]))
    assert not torch.allclose(found[0, 1:], found[1, 1:])
