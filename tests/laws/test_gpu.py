"""The same laws on a GPU: other kernels, the same contract."""

import itertools

import pytest
import torch

from laws.cases import every_encoder, every_layer
from recollect.core import laws
from recollect.core import state as states

pytestmark = pytest.mark.gpu


@every_layer
def test_every_law_holds_on_a_gpu(config):
    layer = config.build().double().eval().cuda()
    x, memory = config.example(3, 9, torch.float64)
    laws.check(layer, x.cuda(), None if memory is None else states.move(memory, device="cuda"))


@every_encoder
def test_every_encoder_treats_each_row_as_if_alone_on_a_gpu(config):
    encoder = config.build().double().eval().cuda()
    x, _ = config.example(3, 7, torch.float64)
    laws.encoder_row(encoder, x.cuda(), [7, 2, 4])


@every_layer
def test_the_states_dtype_never_changes_under_autocast_on_a_gpu(config):
    layer = config.build().cuda()
    x, memory = config.example(2, 5, torch.float32)
    memory = None if memory is None else states.move(memory, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        state = layer.initial_state(2, memory=memory, like=x.cuda())
        before = [tensor.dtype for tensor in states.leaves(state)]
        for part in (x.cuda(), x[:, :1].cuda()):
            y, state = layer(part, state)
            assert y.isfinite().all()
            assert [tensor.dtype for tensor in states.leaves(state)] == before


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_rows_of_unequal_length_both_ways_can_be_captured(cell):
    """No look at the lengths, so that a graph holds for other ones too; the numbers are the CPU's."""
    from recollect.layers import build, build_encoder

    inner = build(cell, dim=6, width=5).config
    encoder = build_encoder("bidirectional", dim=6, layer=inner, num_layers=2).double()
    x, lengths = torch.randn(4, 7, 6, dtype=torch.float64, requires_grad=True), torch.tensor([7, 2, 5, 1])

    def run(encoder, x, lengths):
        y = encoder(x, lengths).values
        return [y.detach(), *torch.autograd.grad(y.square().sum(), [x, *encoder.parameters()])]

    def expected(lengths):
        return run(encoder.cpu(), x, lengths)

    wanted = [expected(lengths), expected(lengths.flip(0))]
    encoder.cuda()
    own, given = x.detach().cuda().requires_grad_(), lengths.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(encoder, own, given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(encoder, own, given)
    for want, now in zip(wanted, (lengths, lengths.flip(0)), strict=True):
        given.copy_(now)
        graph.replay()
        for mine, theirs in zip(found, want, strict=True):
            torch.testing.assert_close(mine.cpu(), theirs)


@pytest.mark.parametrize("model", ["lstm", "transformer", "ttt-linear"])
@pytest.mark.parametrize("windows", ["random", "sequential"])
def test_a_captured_step_trains_as_a_plain_one(model, windows):
    """The same weights after twenty steps, in float64; dropout is off, since a graph draws other noise."""
    import tiny
    from recollect.models import language
    from recollect.training.loop import Trainer
    from recollect.training.settings import Settings

    found = []
    layer = {"window": 16} if model == "transformer" else {}
    for graph in (False, True):
        torch.manual_seed(0)
        task = tiny.task(tiny.prose(2000), context=32, batch=4, windows=windows)
        task.device = torch.device("cuda")
        config = language.Config(vocab=task.data.tokenizer.size, model=model, width=32, heads=2, layer=layer)
        settings = Settings(steps=20, lr=0.1, optimizer="sgd", graph=graph, eval_every=20, save_every=20)
        trainer = Trainer(task, config.build().double(), settings, None, torch.device("cuda"))
        trainer.run()
        found.append({name: p.detach().cpu() for name, p in trainer.model.named_parameters()})
    plain, captured = found
    torch.testing.assert_close(captured, plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", ["fixed", "context", "attend", "transformer", "conv"])
def test_a_captured_step_of_a_translator_trains_as_a_plain_one(model, tmp_path):
    from recollect.models import seq2seq
    from recollect.tasks.translation import data as parallel
    from recollect.tasks.translation import task as translation
    from recollect.training.loop import Trainer
    from recollect.training.settings import Settings

    sources = [source for n in (1, 3, 5) for source in itertools.islice(itertools.permutations("abcdefgh", n), 200)]
    pairs = [(source, source[::-1] + source[: i % 3]) for i, source in enumerate(sources)]
    lines = (f"{' '.join(source)}\t{' '.join(target)}\n" for source, target in pairs)
    (tmp_path / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    data = parallel.load(str(tmp_path / "pairs.tsv"), tokenizer="words", cache=tmp_path)
    sizes = {"source": data.source.size, "target": data.target.size}
    found = []
    for graph in (False, True):
        torch.manual_seed(0)
        task = translation.TranslationTask(translation.Config(batch=256, grain=8), data, "cuda")
        config = seq2seq.Config(**sizes, model=model, width=16, heads=2, cell="gru", dropout=0.0)
        settings = Settings(steps=20, lr=0.1, optimizer="sgd", graph=graph, eval_every=20, save_every=20)
        trainer = Trainer(task, config.build().double(), settings, None, torch.device("cuda"))
        trainer.run()
        found.append({name: p.detach().cpu() for name, p in trainer.model.named_parameters()})
    plain, captured = found
    torch.testing.assert_close(captured, plain, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("size", "mini_batch"), [(16, 16), (31, 16), (32, 32), (64, 16), (64, 32), (64, 64), (128, 16), (128, 64)]
)
def test_every_law_holds_for_the_kernels_of_ttt_linear(size, mini_batch, monkeypatch):
    """In float32, which they are for, with a boundary inside the chunk."""
    import recollect
    from recollect.kernels.ttt import linear

    if (size, mini_batch) == (
        128,
        16,
    ):  # the gradient of the rate's bias is a sum that all but cancels: 1.2e-5 of it on an H200
        monkeypatch.setitem(laws.TOLERANCE, torch.float32, 2e-5)
    calls, run = [], linear.run
    monkeypatch.setattr(linear, "run", lambda *rest: calls.append(1) or run(*rest))
    layer = recollect.build("ttt-linear", dim=2 * size, heads=2, mini_batch=mini_batch).eval().cuda()
    x = torch.randn(3, mini_batch + 5, 2 * size, device="cuda")
    laws.check(layer, x)
    assert calls


@pytest.mark.parametrize("graph", [False, True])
def test_a_step_through_the_kernels_of_ttt_linear_trains_as_the_plain_form_does(graph, monkeypatch):
    import tiny
    from recollect import kernels
    from recollect.models import language
    from recollect.training.loop import Trainer
    from recollect.training.settings import Settings

    found = []
    for fused in (False, True):
        with monkeypatch.context() as patch:
            if not fused:
                patch.setattr(kernels, "can_take", lambda tensor: False)
            torch.manual_seed(0)
            task = tiny.task(tiny.prose(2000), context=40, batch=4, windows="sequential")
            task.device = torch.device("cuda")
            config = language.Config(vocab=task.data.tokenizer.size, model="ttt-linear", width=32, heads=2)
            settings = Settings(steps=5, lr=0.1, optimizer="sgd", graph=graph, eval_every=5, save_every=5)
            trainer = Trainer(task, config.build(), settings, None, torch.device("cuda"))
            trainer.run()
            found.append([p.detach().cpu() for p in trainer.model.parameters()])
    for plain, kernel in zip(*found, strict=True):
        assert torch.allclose(plain, kernel, rtol=1e-3, atol=1e-4)


@pytest.fixture
def attended(monkeypatch):
    """One entry for each chunk that the kernels of soft-align took."""
    from recollect.kernels.attention import additive

    calls, prepare = [], additive.prepare
    monkeypatch.setattr(additive, "prepare", lambda *rest, **named: calls.append(1) or prepare(*rest, **named))
    return calls


@pytest.mark.parametrize("sizes", [{}, {"memory_dim": 33, "align_dim": 70, "order": "cell-first"}], ids=str)
def test_every_law_holds_for_the_kernels_of_soft_align(sizes, attended):
    """In float32, which they are for."""
    import recollect
    from recollect.core.contract import Memory

    layer = recollect.build("soft-align", dim=20, **sizes).eval().cuda()
    values = torch.randn(3, 45, sizes.get("memory_dim", 20), device="cuda")
    valid = torch.arange(45, device="cuda") < torch.tensor([[45], [1], [20]], device="cuda")
    laws.check(layer, torch.randn(3, 9, 20, device="cuda"), Memory(values, valid))
    assert attended


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_attention_by_kernels_can_be_captured(cell, attended):
    """Also for sources of other lengths than those at hand; the numbers are the CPU's in float64."""
    from recollect.core.contract import Memory
    from recollect.layers import build

    torch.manual_seed(0)
    layer = build("soft-align", dim=70, cell=cell)
    x, values, lengths = torch.randn(4, 6, 70), torch.randn(4, 50, 70), torch.tensor([50, 2, 33, 1])

    def run(layer, x, values, lengths):
        x, values = x.requires_grad_(), values.requires_grad_()
        valid = torch.arange(50, device=x.device) < lengths[:, None]
        y, _ = layer(x, layer.initial_state(4, memory=Memory(values, valid)))
        return [y.detach(), *torch.autograd.grad(y.square().sum(), [x, values, *layer.parameters()])]

    layer.double()
    wanted = [run(layer, x.double(), values.double(), ends) for ends in (lengths, lengths.flip(0))]
    layer.float().cuda()
    own, source, given = x.cuda(), values.cuda(), lengths.cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run(layer, own, source, given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(layer, own, source, given)
    assert len(attended) == 2
    for want, now in zip(wanted, (lengths, lengths.flip(0)), strict=True):
        given.copy_(now)
        graph.replay()
        for mine, theirs in zip(found, want, strict=True):
            error = (mine.cpu() - theirs).abs().max() / theirs.abs().max()
            assert error < 1e-5
