"""A recurrent decoder that looks its source up at every step: training, greedy writing and beam search.

The peer is the loop that one writes by hand, with the same weights: eagerly, and on a GPU also with its step compiled,
and all of it in a CUDA graph. No text ends before its time, so that all write equally many tokens.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from recollect.core.contract import Memory
from recollect.decode import beam
from recollect.layers.soft_align import Config as SoftAlignConfig
from recollect.layers.soft_align import SoftAlign
from recollect.models.seq2seq import Decoder, DecoderConfig

from .floors import floor
from .measure import AS_CALLED, Row, Run, agreeing, attempt, compare, graphs

SOURCE, STEPS, WIDTH, VOCAB = 40, 40, 512, 8000
BATCH = {"cpu": 32, "cuda": 128}
BEAM = 5
BEGIN, END = 1, 2
Step = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


class Plain(nn.Module):
    """Bahdanau's decoder as one would write it: additive scores, a GRU cell, an output of both."""

    def __init__(self, reader: Decoder) -> None:
        super().__init__()
        (align,) = [module for module in reader.modules() if isinstance(module, SoftAlign)]
        self.key, self.query, self.start, self.mix = align.key, align.query, align.start, align.mix
        self.weight: Any = align.attend.score.weight
        self.cell = nn.GRUCell(align.dim + align.memory_dim, align.width, device=align.key.weight.device)
        for name, weight in align.cell.named_parameters():
            setattr(self.cell, name.removesuffix("_l0"), weight)
        self.embedding, self.head = reader.embedding, reader.head

    def first(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """h, and the keys of the source."""
        return torch.tanh(self.start(values.mean(dim=1))), self.key(values)

    def step(self, x: Tensor, h: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """h and the context after x (B D)."""
        scores = torch.tanh(self.query(h)[:, None] + keys) @ self.weight[0]  # B S
        context = (scores.softmax(dim=-1)[:, None] @ values)[:, 0]
        return self.cell(torch.cat([x, context], dim=-1), h), context

    def read(self, h: Tensor, context: Tensor) -> Tensor:
        return torch.tanh(self.mix(torch.cat([h, context], dim=-1)))

    def learn(self, x: Tensor, values: Tensor, step: Step) -> Tensor:
        h, keys = self.first(values)
        hidden, contexts = [], []
        for x_t in x.unbind(1):
            h, context = step(x_t, h, keys, values)
            hidden.append(h)
            contexts.append(context)
        return self.read(torch.stack(hidden, dim=1), torch.stack(contexts, dim=1))

    def write(self, values: Tensor, step: Step) -> Tensor:
        """B T tokens, the likeliest at each step."""
        h, keys = self.first(values)
        token, written = torch.full((len(values),), BEGIN, device=values.device), []
        for _ in range(STEPS):
            h, context = step(self.embedding(token), h, keys, values)
            token = self.head(self.read(h, context)).argmax(dim=-1)
            written.append(token)
        return torch.stack(written, dim=1)

    def search(self, values: Tensor, step: Step) -> tuple[Tensor, Tensor]:
        """The best of BEAM texts of each row: B T tokens, and its log p."""
        rows = torch.arange(len(values), device=values.device)[:, None]
        h, keys = (part.repeat_interleave(BEAM, dim=0) for part in self.first(values))
        wide = values.repeat_interleave(BEAM, dim=0)
        token = torch.full((len(wide),), BEGIN, device=values.device)
        logprob = torch.full((len(values), BEAM), float("-inf"), device=values.device).index_fill(
            1, torch.zeros(1, dtype=torch.int64, device=values.device), 0.0
        )
        tokens, parents = [], []
        for _ in range(STEPS):
            h, context = step(self.embedding(token), h, keys, wide)
            logp = self.head(self.read(h, context)).log_softmax(dim=-1)
            ways = (logprob[..., None] + logp.unflatten(0, (-1, BEAM))).flatten(1)
            logprob, choice = ways.topk(BEAM, dim=1)
            parent, token = choice // VOCAB, (choice % VOCAB).flatten()
            h = h[(rows * BEAM + parent).flatten()]
            tokens.append(token.view_as(parent))
            parents.append(parent)
        written, at = [], torch.zeros_like(rows)
        for token, parent in zip(reversed(tokens), reversed(parents), strict=True):
            written.append(token.gather(1, at))
            at = parent.gather(1, at)
        return torch.cat(written[::-1], dim=1), logprob[:, 0]


def align(device: str) -> Iterator[Row]:
    """`attend`: training, greedy writing and beam search, beside an eager loop and a compiled one."""
    cases = {
        f"attend training B{BATCH[device]} S{SOURCE} T{STEPS} H{WIDTH}": training,
        f"attend greedy B{BATCH[device]} S{SOURCE} T{STEPS} H{WIDTH}": greedy,
        f"attend beam {BEAM} B{BATCH[device]} S{SOURCE} T{STEPS} H{WIDTH}": beam_search,
    }
    for title, case in cases.items():
        yield attempt(title, device, partial(case, title, device))


def scores(device: str) -> Iterator[Row]:
    """`attend` training with a dot, scaled or general score, beside the additive one: what the choice costs."""
    for score in ("dot", "scaled", "general"):
        title = f"attend training, {score} score B{BATCH[device]} S{SOURCE} T{STEPS} H{WIDTH}"
        yield attempt(title, device, partial(by_score, title, device, score))


def by_score(title: str, device: str, score: Any) -> Row:
    x = torch.randn(BATCH[device], STEPS, WIDTH, device=device, requires_grad=True)
    values = torch.randn(BATCH[device], SOURCE, WIDTH, device=device, requires_grad=True)
    memory = Memory(values, torch.ones(values.shape[:2], dtype=torch.bool, device=device))
    slope = torch.randn_like(x)

    def learn(score: Any) -> Run:
        layer = SoftAlignConfig(dim=WIDTH, score=score).build().to(device)
        inputs = [x, values, *layer.parameters()]
        return lambda: torch.autograd.grad(
            layer(x, layer.initial_state(len(x), memory=memory))[0], inputs, slope, allow_unused=True
        )

    ours, other = {AS_CALLED: learn(score)}, {"additive": learn("additive")}
    replays, failed = graphs(ours, device)
    graphed, failed_too = graphs(other, device)
    return compare(
        title,
        ours | replays,
        other | graphed,
        device=device,
        rounds=3 if device == "cpu" else 9,
        absent=failed | failed_too,
        unit="tokens",
        amount=BATCH[device] * STEPS,
        fresh=lambda: (x.normal_(), values.normal_()),
        note="float32, the decoder alone; the peer is ours with another score",
    )


def made(device: str) -> tuple[Decoder, Plain, Tensor, Memory]:
    """The same decoder twice, and a source."""
    reader = Decoder(DecoderConfig(model="attend", width=WIDTH, dropout=0.0), VOCAB, WIDTH).to(device).eval()
    with torch.no_grad():
        reader.head.bias[END] = -1e4  # no text ends early
    values = torch.randn(BATCH[device], SOURCE, WIDTH, device=device)
    return reader, Plain(reader), values, Memory(values, torch.ones(values.shape[:2], dtype=torch.bool, device=device))


def steps_of(plain: Plain, device: str) -> dict[str, Step]:
    """The step of the loop: eager, and where a GPU is, compiled."""
    compiled = {"compiled loop": torch.compile(plain.step, dynamic=False)} if device == "cuda" else {}
    return {"eager loop": plain.step, **compiled}


def training(title: str, device: str) -> Row:
    reader, plain, values, memory = made(device)
    (layer,) = [module for module in reader.modules() if isinstance(module, SoftAlign)]
    values.requires_grad_()
    x = torch.randn(len(values), STEPS, WIDTH, device=device, requires_grad=True)
    slope = torch.randn(len(values), STEPS, WIDTH, device=device)

    def backward(y: Tensor) -> list[Tensor]:
        return [y.detach(), *torch.autograd.grad(y, [x, values, *layer.parameters()], slope)]

    def ours() -> list[Tensor]:
        return backward(layer(x, layer.initial_state(len(x), memory=memory))[0])

    def theirs(step: Step) -> list[Tensor]:
        return backward(plain.learn(x, values, step))

    def agree(found: list[Tensor], expected: list[Tensor]) -> str:
        for a, b in zip(found, expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3 * float(b.abs().max()))
        return "outputs and all gradients within 1e-3 of their largest entry"

    replays, failed = graphs({AS_CALLED: ours}, device)
    return measured(
        title,
        device,
        ours,
        {name: partial(theirs, step) for name, step in steps_of(plain, device).items()},
        agree,
        replays=replays,
        absent=failed,
        fresh=lambda: (x.normal_(), values.normal_()),
        floor=floor(
            device,
            flops=3 * layer.cost(len(x), STEPS, SOURCE).flops,
            steps=2 * STEPS,
            recurrent=4 * sum(weight.numel() for weight in layer.cell.parameters()),
        ),
    )


def writing_floor(reader: Decoder, device: str, rows: int) -> dict[str, Any]:
    """A CPU must read the weights anew for every token; the multiprocessors of a GPU could keep them, but must meet."""
    weights = 4 * sum(parameter.numel() for parameter in reader.parameters())
    return floor(
        device,
        flops=reader.cost(rows, STEPS, SOURCE).flops,
        bytes=weights,
        times=STEPS if device == "cpu" else 1,
        steps=STEPS,
        recurrent=weights,
    )


@torch.inference_mode()
def greedy(title: str, device: str) -> Row:
    reader, plain, values, memory = made(device)
    config = beam.Config(beam=1, length_penalty=0.0, ratio=STEPS / SOURCE, extra=0)

    def ours() -> list[list[beam.Hypothesis]]:
        return beam.search(reader, memory, begin=BEGIN, end=END, config=config)

    def agree(found: list[list[beam.Hypothesis]], expected: Tensor) -> str:
        pairs = zip(found, expected.tolist(), strict=True)
        return most("tokens", sum(best.tokens == tokens for (best,), tokens in pairs), len(found))

    return measured(
        title,
        device,
        ours,
        {name: partial(plain.write, values, step) for name, step in steps_of(plain, device).items()},
        agree,
        fresh=lambda: values.normal_(),
        floor=writing_floor(reader, device, len(values)),
    )


@torch.inference_mode()
def beam_search(title: str, device: str) -> Row:
    reader, plain, values, memory = made(device)
    config = beam.Config(beam=BEAM, length_penalty=0.0, ratio=STEPS / SOURCE, extra=0)

    def ours() -> list[list[beam.Hypothesis]]:
        return beam.search(reader, memory, begin=BEGIN, end=END, config=config)

    def agree(found: list[list[beam.Hypothesis]], expected: tuple[Tensor, Tensor]) -> str:
        scores = torch.tensor([best.logprob for (best,) in found])
        return most("log p of the best", int(torch.isclose(scores, expected[1].cpu(), rtol=1e-3).sum()), len(found))

    return measured(
        title,
        device,
        ours,
        {name: partial(plain.search, values, step) for name, step in steps_of(plain, device).items()},
        agree,
        fresh=lambda: values.normal_(),
        floor=writing_floor(reader, device, BEAM * len(values)),
    )


def most(what: str, same: int, rows: int) -> str:
    """Rounding may turn a choice between near equals, and with it the rest of a text; but only in a few."""
    assert same >= 0.9 * rows, f"expected the {what} of the loop, found it in {same} of {rows} rows"
    return f"{what} are equal in {same} of {rows} rows"


def measured(
    title: str,
    device: str,
    ours: Callable[[], Any],
    peers: dict[str, Run],
    agree: Callable[[Any, Any], str],
    *,
    replays: dict[str, Run] | None = None,
    absent: dict[str, str] | None = None,
    **rest: Any,
) -> Row:
    """Beside the loops, and these in CUDA graphs where there are such; a compiled one that goes wrong is left out."""
    expected = ours()
    good, checked, wrong = agreeing(peers, lambda result: agree(expected, result))
    graphed, failed = graphs(good, device)
    return compare(
        title,
        {AS_CALLED: ours} | (replays or {}),
        good | graphed,
        device=device,
        rounds=3 if device == "cpu" else 9,
        absent=(absent or {}) | wrong | failed,
        unit="tokens",
        amount=BATCH[device] * STEPS,
        checked=checked,
        note="float32, the decoder alone",
        **rest,
    )


ROWS = {"align": align, "scores": scores}
