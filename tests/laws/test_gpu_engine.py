"""The engine on a GPU: captured steps write what a plain loop writes, whatever the model."""

import copy
from types import SimpleNamespace

import pytest
import torch

import tiny
from decode.test_captured_greedy import BEGIN, END, KINDS, PAD, encode
from decode.test_captured_greedy import build as build_translator
from decode.test_engine import WAYS, loop
from decode.test_stream import MODELS, PROMPTS, build, every_model
from recollect.core import laws
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.decode import beam, captured, captured_beam, captured_greedy, sampling, verify
from recollect.decode.engine import Engine
from recollect.decode.flat.blocks import PLAIN
from recollect.decode.flat.model import Flat
from recollect.decode.position import read_prompts
from recollect.models import language

pytestmark = pytest.mark.gpu


def write(engine, prompts, ahead=8, length=20, **how):
    position = engine.read_prompts(prompts)
    config = sampling.Config(length=length, **how)
    steps = [step for block in engine.blocks(position, config, ahead) for step in block]
    return [list(row) for row in zip(*steps, strict=True)], position


@every_model
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_captured_steps_write_what_a_plain_loop_writes(name, how):
    """In float64, where nothing ties: the loop runs on the CPU."""
    expected = loop(build(name), PROMPTS, **how)
    model = build(name).cuda()
    for exact in (False, True):
        engine = Engine(model, len(PROMPTS), 25, exact=exact)
        for _ in range(2):  # the second time from the graph of the first
            assert write(engine, PROMPTS, **how)[0] == expected


@pytest.mark.parametrize("name", MODELS)
def test_every_network_is_captured(name):
    engine = Engine(build(name).cuda(), 2, 25)
    write(engine, PROMPTS[:2], greedy=True)
    assert all(engine.static.replays.values())


@pytest.mark.parametrize("name", ["transformer", "lstm", "ttt-linear"])
def test_two_texts_in_turns_and_a_position_that_goes_on(name):
    model, expected = build(name).cuda(), loop(build(name), PROMPTS[:2], seed=2)
    engine, config = Engine(model, 1, 25), sampling.Config(length=12, seed=2)
    positions = [engine.read_prompts([prompt]) for prompt in PROMPTS[:2]]
    writings = [engine.blocks(position, config) for position in positions]
    for _ in range(12):
        for writing in writings:
            next(writing)
    for position, writing, prompt, text in zip(positions, writings, PROMPTS, expected, strict=False):
        writing.close()
        list(engine.blocks(position, sampling.Config(length=8, seed=2)))
        assert position.written[0][len(prompt) :] == text


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rows", [1, 3, 17])
@pytest.mark.parametrize(
    "settings", [{}, {"positions": "learned", "bias": True}, {"norm": "rms", "activation": "swiglu"}]
)
def test_the_kernels_of_a_flat_step_stay_near_the_model(settings, rows, precision):
    """A whole text is told to both; the logits of each step differ by rounding alone."""
    torch.manual_seed(0)
    config = language.Config(vocab=300, model="transformer", width=128, heads=4, layers=2, **settings)
    model = config.build().eval().cuda()
    engine = Engine(model, rows, 64, precision=precision)
    assert isinstance(engine.step, Flat)
    assert engine.step.ops is not PLAIN, "on this GPU kernels can take it"
    prompts = [list(range(1, 2 + row % 5)) for row in range(rows)]
    position = engine.read_prompts(prompts)
    texts, _ = write(engine, prompts, length=40, greedy=True)
    texts = [prompt + text for prompt, text in zip(prompts, texts, strict=True)]
    for block in engine.blocks(position, sampling.Config(length=40, greedy=True), ahead=16):
        fresh = read_prompts(model, position.written)
        close = 2e-3 if precision == "float32" else 0.1
        error = (position.logits.float() - fresh.logits).abs().max() / fresh.logits.std()
        assert error < close, f"after {len(block)} more"
    assert position.written == texts
    assert {tensor.dtype for tensor in states.leaves(position.state)} <= {torch.float32, torch.int64}


@pytest.mark.parametrize("name", ["lstm", "gru", "tcn", "linear-transformer", "ttt-linear", "ttt-mlp"])
def test_a_network_runs_in_bfloat16_and_gives_its_state_back_in_float32(name):
    model = build(name).float().cuda()
    engine = Engine(model, 2, 25, precision="bfloat16")
    texts, position = write(engine, PROMPTS[:2], greedy=True)
    assert all(len(text) == 20 for text in texts)
    expected = [tensor.dtype for tensor in states.leaves(model.initial_state(1))]
    assert [tensor.dtype for tensor in states.leaves(position.state)] == expected


def test_learned_positions_end_with_one_clear_line():
    model = language.Config(vocab=7, width=8, heads=2, positions="learned", max_positions=9).build().eval().cuda()
    assert len(write(Engine(model, 1, 30), [[1, 2, 3]], length=6, greedy=True)[0][0]) == 6
    with pytest.raises(ContractError, match="9"):
        write(Engine(model, 1, 30), [[1, 2, 3]], length=7, greedy=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Dynamo and Inductor themselves call
@pytest.mark.parametrize("name", ["lstm", "ttt-linear", "linear-transformer"])
def test_a_compiled_step_writes_the_same(name):
    model = build(name).cuda()
    assert write(Engine(model, 2, 25, fuse=True), PROMPTS[:2], greedy=True)[0] == loop(
        build(name), PROMPTS[:2], greedy=True
    )


@pytest.mark.parametrize("search", [{"beam": 1, "length_penalty": 0}, {"beam": 3, "nbest": 3}], ids=str)
@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_captured_sentences_are_those_that_the_search_finds(settings, search):
    config = beam.Config(**search, ratio=1.0, extra=6)
    how = {"begin": BEGIN, "end": END, "banned": (PAD, BEGIN), "config": config}
    plain, model = build_translator(**settings), build_translator(**settings).cuda()
    for lengths in ([3, 9, 1, 4, 7], [8, 2, 5, 5, 5]):
        expected = beam.search(plain, encode(plain, lengths), **how)
        memory = states.move(encode(plain, lengths), device="cuda")
        found = beam.search(model, memory, **how)
        for mine, theirs in zip(found, expected, strict=True):
            assert [(h.tokens, h.finished) for h in mine] == [(h.tokens, h.finished) for h in theirs]
            assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], rel=1e-9)
    assert all(writer.replay is not None for writer in captured._graphs[model].values())


CAPTURED = ["step", "step cuda", "step cuda bfloat16", "step cuda float16"]


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_the_step_law_holds_for_captured_steps_in_every_precision(kind, monkeypatch):
    engines = []

    class Kept(Engine):
        def __init__(self, *given, **how):
            super().__init__(*given, **how)
            engines.append(self)

    monkeypatch.setattr(verify, "Engine", Kept)
    model = language.Config(vocab=60, model=kind, width=64, layers=2).build().eval()
    x = torch.randint(60, (3, 40))
    errors = {name: law() for name, law in verify.generation_laws(copy.deepcopy(model).double(), model, x).items()}
    assert set(CAPTURED) <= set(errors)
    assert all(error > 0 for error in errors.values()), "each was rounded, so each was run"
    on_gpu = [engine for engine in engines if engine.device.type == "cuda"]
    assert len(on_gpu) == 3
    assert all(replay is not None for engine in on_gpu for replay in engine.static.replays.values())


@pytest.mark.parametrize("settings", KINDS, ids=str)
def test_the_step_law_holds_for_captured_searches(settings, monkeypatch):
    replays = []

    def capture(once, device):
        replays.append(captured.capture(once, device))
        return replays[-1]

    for module in (captured_greedy, captured_beam):
        monkeypatch.setattr(module, "capture", capture)
    definition = build_translator(**settings)
    side = SimpleNamespace(begin=BEGIN, end=END, pad=PAD)
    model, memory = copy.deepcopy(definition).float(), encode(definition, [3, 9, 1, 4, 7])
    errors = {name: law() for name, law in verify.search_laws(definition, model, memory, side, 9).items()}
    assert set(errors) == {"step", "step cuda"}
    assert len(replays) == 2
    assert None not in replays


def test_the_step_law_catches_a_captured_step_that_computes_something_else(monkeypatch):
    def off(self, token, own=Flat.__call__):
        return own(self, token) * 1.01

    monkeypatch.setattr(Flat, "__call__", off)
    model = language.Config(vocab=60, model="transformer", width=64).build().eval()
    with pytest.raises(laws.LawBroken, match="^Step law broken by LanguageModel"):
        laws.step(copy.deepcopy(model).double(), torch.randint(60, (3, 12)), verify.run_engine(model.cuda()), "float32")
