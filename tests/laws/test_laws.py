"""The laws of the contract on every registered layer: a layer passes by being in the registry."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from laws.cases import every_encoder, every_layer
from recollect.core import laws
from recollect.core import state as states
from recollect.layers import ENCODERS

SEEDS = st.integers(0, 2**31)
ROWS = st.integers(1, 4)
CHUNKS = st.lists(st.integers(1, 6), min_size=1, max_size=5)


def prepare(config, rows, steps, seed, dtype=torch.float64):
    torch.manual_seed(seed)
    layer = config.build().to(dtype).eval()
    x, memory = config.example(rows, steps, dtype)
    return layer, x, memory


@every_layer
@given(chunks=CHUNKS, rows=ROWS, seed=SEEDS)
def test_every_chunking_equals_the_definition(config, chunks, rows, seed):
    layer, x, memory = prepare(config, rows, sum(chunks), seed)
    laws.chunk(layer, x, chunks, memory=memory)


@every_layer
@given(chunks=CHUNKS, warm=st.integers(1, 7), rows=ROWS, seed=SEEDS)
def test_every_chunking_equals_the_definition_from_a_used_state(config, chunks, warm, rows, seed):
    layer, x, memory = prepare(config, rows, warm + sum(chunks), seed)
    laws.chunk(layer, x[:, warm:], chunks, memory=memory, warm=x[:, :warm])


@every_layer
@given(chunks=CHUNKS, rows=ROWS, seed=SEEDS)
def test_chunks_agree_in_float32(config, chunks, rows, seed):
    layer, x, memory = prepare(config, rows, sum(chunks), seed, torch.float32)
    with torch.no_grad():
        laws.chunk_values(layer, x, chunks, memory=memory)


@every_layer
@given(steps=st.integers(2, 12), cut=st.floats(0, 1), rows=ROWS, seed=SEEDS)
def test_the_past_does_not_see_the_future(config, steps, cut, rows, seed):
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.cause(layer, x, 1 + int(cut * (steps - 2)), memory=memory)


@every_layer
@given(steps=st.integers(2, 11), rows=ROWS, seed=SEEDS)
def test_rows_do_not_know_each_other(config, steps, rows, seed):
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.row(layer, x, memory=memory)


@every_layer
@given(data=st.data(), steps=st.integers(1, 9), rows=ROWS, seed=SEEDS)
def test_rows_of_unequal_length_give_what_each_gives_alone(config, data, steps, rows, seed):
    lengths = data.draw(st.lists(st.integers(0, steps), min_size=rows, max_size=rows))
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.ragged(layer, x, lengths, memory=memory)


@every_layer
@given(steps=st.integers(1, 8), rows=ROWS, seed=SEEDS)
def test_a_call_leaves_the_state_that_it_was_given(config, steps, rows, seed):
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.purity(layer, x, memory=memory)


@every_layer
@given(steps=st.integers(1, 8), rows=ROWS, seed=SEEDS)
def test_a_state_is_as_large_as_declared(config, steps, rows, seed):
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.size(layer, x, memory=memory)


@every_layer
@given(steps=st.integers(2, 8), rows=ROWS, seed=SEEDS)
def test_a_state_goes_through_a_file_and_can_be_rewound(config, steps, rows, seed):
    layer, x, memory = prepare(config, rows, steps, seed)
    laws.file(layer, x, memory=memory)


@every_layer
def test_explaining_changes_nothing_and_is_batch_first(config):
    layer, x, memory = prepare(config, 3, 4, 0)
    state = layer.initial_state(3, memory=memory, like=x)
    _, state = layer(x[:, :3], state)
    before = [tensor.clone() for tensor in states.leaves(state)]
    for tensor in layer.explain(state, x[:, 3]).values():
        assert len(tensor) == 3
        assert tensor.isfinite().all()
    assert all(torch.equal(a, b) for a, b in zip(before, states.leaves(state), strict=True))


@every_layer
@given(steps=st.integers(1, 6), rows=ROWS, seed=SEEDS)
def test_a_buffered_state_gives_the_same_outputs(config, steps, rows, seed):
    layer, x, memory = prepare(config, rows, 2 * steps + 1, seed)
    laws.buffered(layer, x, [steps, *[1] * (steps + 1)], memory=memory)


@every_encoder
@given(data=st.data(), steps=st.integers(1, 9), rows=ROWS, seed=SEEDS)
def test_an_encoder_treats_each_row_as_if_alone(config, data, steps, rows, seed):
    lengths = data.draw(st.lists(st.integers(1, steps), min_size=rows, max_size=rows))
    encoder, x, _ = prepare(config, rows, steps, seed)
    laws.encoder_row(encoder, x, lengths)


@given(order=st.permutations(range(7)), seed=SEEDS)
def test_full_attention_without_positions_treats_its_input_as_a_set(order, seed):
    for settings in ({"heads": 2}, {"project": False, "score": "dot"}, {"score": "additive"}):
        encoder, x, _ = prepare(ENCODERS["attention"](dim=4, **settings), 3, 7, seed)
        laws.symmetry(encoder, x, order)


@pytest.mark.parametrize("positions", ["sinusoid", "learned", "rotary", "alibi"])
def test_positions_break_the_symmetry(positions):
    encoder, x, _ = prepare(ENCODERS["attention"](dim=8, heads=2, positions=positions), 3, 7, 0)
    with pytest.raises(laws.LawBroken, match="Symmetry law broken"):
        laws.symmetry(encoder, x, [1, 0, 2, 3, 4, 5, 6])


def test_all_laws_can_be_run_in_one_call():
    layer, x, memory = prepare(next(iter(ENCODERS.values())).variants()[0].layer, 3, 9, 0)
    errors = laws.check(layer, x, memory)
    assert set(errors) == {"chunk", "cause", "row", "ragged", "purity", "size", "file"}
    assert max(errors.values()) < 1e-10
