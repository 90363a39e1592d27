"""The engine writes what a plain loop over the model's call would write, whatever the places, blocks and neighbours."""

import itertools

import pytest
import torch

from decode.test_stream import PROMPTS, build, every_model, lively, scripted
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.data.tokenizers import Chars
from recollect.decode import engine, position, sampling, stream
from recollect.decode.captured import CapturedRun, StaticStep
from recollect.decode.engine import Engine, ModelStep, draw_thresholds, generate_tokens
from recollect.decode.position import read_prompts
from recollect.decode.sampling import choose_tokens, pick_tokens, stable_topk

WAYS = [
    {"greedy": True},
    {"greedy": True, "penalty": 1.4},
    {"seed": 3},
    {"seed": 5, "top_k": 3, "top_p": 0.9, "temperature": 1.5, "penalty": 1.3},
]
every_way = pytest.mark.parametrize("how", WAYS, ids=str)


class Placed(Engine):
    """Steps in fixed places, as on a GPU, but run rather than replayed."""

    def start_run(self, position, config, longest):
        if self.static is None:
            self.static = StaticStep(self.step, self.empty_state(), position.logits, self.room)
        return CapturedRun(self.static, self.static.capture_for(config), self.given, draw_thresholds(position, config))


@torch.no_grad()
def loop(model, prompts, **how):
    """The definition: one call a token, one row alone, and the choice from its logits."""
    config = sampling.Config(**{"length": 20} | how)
    texts = []
    for prompt in prompts:
        tokens, draw = list(prompt), torch.Generator().manual_seed(config.seed)
        logits, state = model(torch.tensor([tokens]), model.initial_state(1))
        for _ in range(config.length):
            (token,) = choose_tokens(logits[:, -1], [tokens], config, [draw])
            tokens.append(token)
            logits, state = model(torch.tensor([[token]]), state)
        texts.append(tokens[len(prompt) :])
    return texts


def write(engine, prompts, ahead=1, **how):
    config = sampling.Config(**{"length": 20} | how)
    position = engine.read_prompts(prompts)
    steps = [step for block in engine.blocks(position, config, ahead) for step in block]
    return [list(row) for row in zip(*steps, strict=True)]


@every_model
@every_way
def test_every_engine_writes_what_a_plain_loop_writes(name, how):
    model = build(name)
    expected = loop(model, PROMPTS, **how)
    assert len({token for row in expected for token in row}) > 2, "the model has something to say"
    for kind in (Engine, Placed):
        for exact in (False, True):
            assert write(kind(model, len(PROMPTS), 25, exact=exact), PROMPTS, ahead=8, **how) == expected


@every_model
def test_a_long_text_is_written_in_parts(name, monkeypatch):
    """A length of 10¹² takes memory for a part at a time, and the cache grows with what is written."""
    model = build(name)
    expected = loop(model, PROMPTS)
    monkeypatch.setattr(position, "PART", 6)
    monkeypatch.setattr(engine, "PART", 6)
    for kind in (Engine, Placed):
        assert write(kind(model, len(PROMPTS), 25), PROMPTS, ahead=8) == expected
    endless = Engine(model, len(PROMPTS), 10**12)
    start = endless.read_prompts(PROMPTS)
    steps = [step for (step,) in itertools.islice(endless.blocks(start, sampling.Config(length=10**11)), 20)]
    assert [list(row) for row in zip(*steps, strict=True)] == expected
    assert endless.reserved < 50


@every_model
def test_a_long_prompt_is_read_in_chunks(name, monkeypatch):
    model = build(name)
    prompts = [[token % 7 for token in range(start, start + length)] for start, length in ((0, 40), (3, 1), (1, 23))]
    whole = read_prompts(model, prompts, capacity=4)
    calls = []
    ragged = type(model).ragged
    monkeypatch.setattr(type(model), "ragged", lambda self, x, *rest: calls.append(x.numel()) or ragged(self, x, *rest))
    monkeypatch.setattr(position, "CHUNK", 24)
    parts = read_prompts(model, prompts, capacity=4)
    assert max(calls) <= 24
    assert len(calls) == 5
    assert torch.allclose(parts.logits, whole.logits, rtol=1e-10, atol=1e-10)
    config = sampling.Config(length=4)
    assert list(generate_tokens(model, parts, config)) == list(generate_tokens(model, whole, config))


def test_attention_over_a_long_cache_reads_smaller_chunks(monkeypatch):
    monkeypatch.setattr(position, "CHUNK", 8)
    monkeypatch.setattr(position, "MASK", 64)
    x, transformer, gru = torch.zeros(1, 32, dtype=torch.int64), build("transformer"), build("gru")
    assert position.chunk_steps(x, transformer.initial_state(1, capacity=32)) == 2
    assert position.chunk_steps(x, gru.initial_state(1, capacity=32)) == 8
    assert position.chunk_steps(x[:, :8], transformer.initial_state(1, capacity=32)) == 8


@pytest.mark.slow
@every_model
def test_an_engine_can_be_used_again_with_other_prompts_and_settings(name):
    model = build(name)
    for kind in (Engine, Placed):
        engine = kind(model, 2, 25)
        for prompts in (PROMPTS[:2], PROMPTS[2:]):
            for how in WAYS:
                assert write(engine, prompts, ahead=4, **how) == loop(model, prompts, **how)


@pytest.mark.parametrize("name", ["transformer", "lstm", "ttt-linear", "ngram"])
@pytest.mark.parametrize("kind", [Engine, Placed])
def test_two_texts_can_be_written_in_turns(name, kind):
    model = build(name)
    config = sampling.Config(length=12, seed=2, penalty=1.2)
    engine = kind(model, 1, 25)
    writings = [engine.blocks(engine.read_prompts([prompt]), config) for prompt in PROMPTS[:2]]
    texts = [[], []]
    for _ in range(12):
        for text, writing in zip(texts, writings, strict=True):
            text.extend(step[0] for step in next(writing))
    assert texts == loop(model, PROMPTS[:2], length=12, seed=2, penalty=1.2)


@every_model
@pytest.mark.parametrize("kind", [Engine, Placed])
@pytest.mark.parametrize("blocks", [1, 3])
def test_after_each_block_the_position_is_where_the_loop_would_be(name, kind, blocks):
    model = build(name)
    config = sampling.Config(length=20, seed=1)
    engine = kind(model, 2, 25)
    position = engine.read_prompts(PROMPTS[:2])
    writing = engine.blocks(position, config, ahead=4)
    for _ in range(blocks):
        next(writing)
    writing.close()
    done = position.drawn
    assert [len(row) for row in position.written] == [3 + done, 1 + done]
    fresh = read_prompts(model, position.written, capacity=20)
    assert torch.allclose(position.logits, fresh.logits, rtol=1e-9, atol=1e-12)
    rest = list(generate_tokens(model, position, sampling.Config(length=20 - done, seed=1)))
    assert [row[-20:] for row in position.written] == loop(model, PROMPTS[:2], seed=1)
    assert len(rest) == 20 - done


def test_blocks_grow_in_fixed_places_and_stay_single_elsewhere():
    model = build("gru")
    config = sampling.Config(length=20, greedy=True)
    sizes = {}
    for kind in (Engine, Placed):
        engine = kind(model, 1, 25)
        sizes[kind] = [len(block) for block in engine.blocks(engine.read_prompts([[1]]), config, ahead=8)]
    assert sizes == {Engine: [1] * 20, Placed: [1, 2, 4, 8, 5]}


def test_places_stay_where_they_are():
    model = build("transformer")
    engine = Placed(model, 2, 25)
    write(engine, PROMPTS[:2], greedy=True)
    before = [tensor.data_ptr() for tensor in states.leaves(engine.static.state)]
    write(engine, PROMPTS[2:], greedy=True)
    assert [tensor.data_ptr() for tensor in states.leaves(engine.static.state)] == before
    assert len(set(before)) == len(before)


def test_a_position_that_was_read_is_not_changed_by_an_engine_that_takes_it():
    """With a cache that grows, so that nothing is written in place by the model itself."""
    model = build("transformer")
    position = read_prompts(model, PROMPTS[:2])
    kept, state = states.map(torch.clone, position.state), position.state
    for kind in (Engine, Placed):
        position.state, position.written = state, [list(prompt) for prompt in PROMPTS[:2]]
        list(kind(model, 2, 25).blocks(position, sampling.Config(length=5, greedy=True)))
        assert all(torch.equal(a, b) for a, b in zip(states.leaves(state), states.leaves(kept), strict=True))


def test_a_step_on_a_cpu_is_the_models_own():
    assert isinstance(Engine(build("transformer"), 1, 9).step, ModelStep)


def test_an_engine_that_is_too_small_says_so():
    model = build("gru")
    with pytest.raises(ContractError, match="1 rows of at most 10 tokens, found 1 rows of up to 13"):
        write(Engine(model, 1, 10), [[1, 2, 3]], length=10)
    with pytest.raises(ContractError, match="found 2 rows"):
        write(Engine(model, 1, 30), PROMPTS[:2])


@pytest.mark.parametrize(
    ("name", "precision", "expected"),
    [
        ("transformer", "bfloat16", "one of float32 on cpu"),
        ("lstm", "int8", "one of float32 on cpu"),
        ("transformer", "float32", "expected a network to be run in float32"),  # it is float64
    ],
)
def test_a_precision_that_cannot_be_had_is_refused(name, precision, expected):
    with pytest.raises(ContractError, match=expected) as caught:
        Engine(build(name), 1, 9, precision=precision)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ choosing


def by_sorting(logits, config, threshold):
    """The definition: all tokens in order, each as long as it is likely."""
    ranked, order = (logits / config.temperature).sort(dim=-1, descending=True, stable=True)
    shares = ranked.softmax(dim=-1)
    keep = torch.ones_like(shares, dtype=torch.bool)
    keep[:, config.top_k or len(logits[0]) :] = False
    keep &= shares.cumsum(dim=-1) - shares < (config.top_p or 2)
    sums = (shares * keep).cumsum(dim=-1)
    at = (sums < threshold[:, None] * sums[:, -1:]).sum(dim=-1)
    return order.gather(1, at[:, None])[:, 0]


@pytest.mark.parametrize("top_k", [None, 1, 5, 40, 300])
@pytest.mark.parametrize("top_p", [None, 0.3, 0.9])
def test_no_sort_of_all_tokens_draws_what_a_sort_would_draw(top_k, top_p):
    """Many tokens are equally likely, as in an n-gram model: the first of them come first."""
    torch.manual_seed(0)
    logits = torch.randn(64, 300).mul(2).round()
    threshold = torch.rand(64)
    config = sampling.Config(top_k=top_k, top_p=top_p, temperature=0.8)
    assert torch.equal(pick_tokens(logits, config, None, threshold), by_sorting(logits, config, threshold))


def test_topk_takes_the_first_of_equals():
    found, places = stable_topk(torch.tensor([[1.0, 3.0, 1.0, 3.0, 1.0, 0.0]]), 3)
    assert found.tolist() == [[3.0, 3.0, 1.0]]
    assert places.tolist() == [[1, 3, 0]]


def test_chances_are_those_of_one_draw_after_the_other():
    model = build("rnn")
    position = read_prompts(model, PROMPTS[:2])
    position.drawn = 5
    found = draw_thresholds(position, sampling.Config(length=100, seed=4))
    draw = torch.Generator().manual_seed(4)
    one_by_one = torch.stack([torch.rand((), generator=draw) for _ in range(105)])
    assert torch.equal(found, one_by_one[5:].expand(2, -1))


# ------------------------------------------------------------------------------------------------ rows that have ended


def test_rows_that_have_met_their_end_leave_the_batch():
    used = scripted(Chars("abcdefg"), "bcdefg")
    sizes = []
    used.model.register_forward_pre_hook(lambda module, given: sizes.append(len(given[0])))
    prompts = ["abcde", "a", "ab", "abc"]  # the script goes on where each prompt ends
    (text,) = stream.generate_text(
        used.model, used.artifacts, prompts, sampling.Config(length=30, greedy=True), stops=["g"]
    )
    assert text == "\n\n".join(["abcdef", "abcdef", "abcdef", "abcdef"])
    assert sizes == [4, 4, 4, 4, 4, 2, 1], "the prompts, then six steps: ends come after 2, 4, 5 and 6 of them"


def test_a_state_that_is_saved_keeps_the_rows_that_have_ended(tmp_path):
    model, tokenizer, path = lively("gru"), Chars("abcdefg"), str(tmp_path / "state")
    config = sampling.Config(length=25, greedy=True)
    list(stream.generate_text(model, tokenizer, ["a", "bd", "gfe"], config, stops=["c"], state_out=path))
    (text,) = stream.generate_text(model, tokenizer, [], sampling.Config(length=2, greedy=True), state_in=path)
    assert len(text.split("\n\n")) == 3
