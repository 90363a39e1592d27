"""Writing with a language model: ours beside generate of Hugging Face, a plain static cache, and CTranslate2.

A call reads a prompt of 16 tokens a row and writes 256 more, the likeliest each time, with the same weights for all.
The lineage has a row for each of its models: the engine beside the contract's step in a loop.
"""

import tempfile
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from recollect.decode import sampling
from recollect.decode.engine import Engine
from recollect.decode.position import read_prompts
from recollect.models import language, size
from recollect.runtime.engine import StepWriter
from recollect.runtime.stream import AHEAD

from . import floors
from .exported import open_step
from .measure import Row, Run, attempt, captured, compare, one_line, recover
from .training import GPT2, Plain, PlainBlock, Shape, scattered, to_gpt2, to_plain

PROMPT, TOKENS = 16, 256
SMALL = Shape(layers=6, width=384, heads=6, vocab=32_000, steps=512, batch=1)  # 23 M parameters
LINEAGE = ("rnn", "lstm", "gru", "tcn", "transformer", "linear-transformer", "ttt-linear", "ttt-mlp")
VOCAB = 256  # bytes
GREEDY = sampling.Config(length=TOKENS, greedy=True)


class Prompts:
    """Prompts that are drawn anew for each round."""

    def __init__(self, batch: int, vocab: int, device: str) -> None:
        self.vocab, self.tokens = vocab, torch.empty(batch, PROMPT, dtype=torch.int64, device=device)
        self.draw()

    def draw(self) -> None:
        self.tokens.random_(self.vocab)

    @property
    def rows(self) -> list[list[int]]:
        return self.tokens.tolist()


# Ways to write: each gives B TOKENS


def by_engine(engine: Engine, prompts: Prompts) -> Tensor:
    position = engine.read_prompts(prompts.rows)
    return torch.tensor([step for block in engine.blocks(position, GREEDY, ahead=AHEAD) for step in block]).T


@torch.inference_mode()
def step_by_step(model: Any, prompts: Prompts) -> Tensor:
    """The contract's step in a loop of Python, the tokens looked at only in the end."""
    position = read_prompts(model, prompts.rows, capacity=TOKENS)
    token, state, found = position.logits.argmax(dim=-1), position.state, []
    for _ in range(TOKENS):
        found.append(token)
        logits, state = model(token[:, None], state)
        token = logits[:, 0].argmax(dim=-1)
    return torch.stack(found, dim=1).cpu()


def generated(theirs: Any, prompts: Prompts, **options: Any) -> Tensor:
    """Hugging Face's generate."""
    x = prompts.tokens
    found = theirs.generate(
        x,
        attention_mask=torch.ones_like(x),
        max_new_tokens=TOKENS,
        do_sample=False,
        pad_token_id=0,
        **options,
    )
    return found[:, PROMPT:].cpu()


def by_step(writer: StepWriter, prompts: Prompts) -> Tensor:
    """Generation by the exported step, as `recollect.load(run).generate` runs it on a CPU."""
    position = writer.read_prompts(prompts.rows, TOKENS)
    return torch.tensor([step for block in writer.blocks(position, GREEDY, ahead=1) for step in block]).T


class StaticCache:
    """The plain model with keys and values in buffers that never move: a step can be compiled and captured."""

    def __init__(self, plain: Plain, prompts: Prompts, *, fast: bool) -> None:
        self.plain, self.fast = plain, fast
        like, (batch, _) = plain.tokens.weight, prompts.tokens.shape
        self.caches = [
            [like.new_zeros(batch, plain.heads, PROMPT + TOKENS, like.shape[1] // plain.heads) for _ in range(2)]
            for _ in plain.blocks
        ]
        self.token = prompts.tokens.new_zeros(batch, 1)
        self.place = prompts.tokens.new_zeros(1)
        self.slots = torch.arange(PROMPT + TOKENS, device=like.device)
        self.advance: Run | None = None

    def forward(self, x: Tensor, place: Tensor, mask: Tensor | None) -> Tensor:
        """The likeliest token after x (B T) at `place` (T): B 1. Without a mask x is all there is."""
        h = self.plain.tokens(x) + self.plain.places(place)
        for block, (keys, values) in zip(self.plain.blocks, self.caches, strict=True):
            assert isinstance(block, PlainBlock)
            q, k, v = block.heads_of(h)
            keys.index_copy_(2, place, k)
            values.index_copy_(2, place, v)
            if mask is None:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            else:
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            h = block.finish(h, y)
        return F.linear(self.plain.norm(h[:, -1:]), self.plain.tokens.weight).argmax(dim=-1)

    def step(self) -> None:
        self.token.copy_(self.forward(self.token, self.place, (self.slots <= self.place)[None, None, None]))
        self.place.add_(1)

    @torch.no_grad()
    def write(self, prompts: Prompts) -> Tensor:
        if self.advance is None:
            self.advance = captured(torch.compile(self.step, dynamic=False)) if self.fast else self.step
        self.token.copy_(self.forward(prompts.tokens, self.slots[:PROMPT], None))
        self.place.fill_(PROMPT)
        found = [self.token.clone()]
        for _ in range(TOKENS - 1):
            self.advance()
            found.append(self.token.clone())
        return torch.cat(found, dim=1).cpu()


class CTranslate2:
    """CTranslate2 with the weights of a Hugging Face model, float32 or int8."""

    def __init__(self, theirs: Any, kind: str, folder: Path) -> None:
        import ctranslate2  # pyright: ignore[reportMissingImports]
        from ctranslate2.converters.transformers import GPT2Loader  # pyright: ignore[reportMissingImports]

        vocab = theirs.config.vocab_size
        with torch.no_grad():
            spec = GPT2Loader().get_model_spec(deepcopy(theirs))  # it scales weights where they are
        spec.register_vocabulary([str(token) for token in range(vocab)])
        spec.config.bos_token = spec.config.unk_token = spec.config.eos_token = self.end = str(vocab - 1)
        spec.validate()
        spec.optimize(quantization=None if kind == "float32" else kind)
        folder.mkdir()
        spec.save(str(folder))
        self.generator = ctranslate2.Generator(
            str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=torch.get_num_threads()
        )

    def write(self, prompts: Prompts) -> Tensor:
        found = self.generator.generate_batch(
            [[str(token) for token in row] for row in prompts.rows],
            max_length=TOKENS,
            min_length=TOKENS,
            sampling_topk=1,
            include_prompt_in_result=False,
            end_token=self.end,
        )
        return torch.tensor([result.sequences_ids[0] for result in found])


# Rows


class Peers:
    """Those that can be had, and why the others cannot."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.absent: dict[str, str] = {}

    def add(self, name: str, make: Callable[[], Run]) -> None:
        try:
            self.runs[name] = make()
        except Exception as error:
            self.absent[name] = one_line(error)


def step_floor(model: language.LanguageModel, batch: int, device: str, kind: str) -> dict[str, Any]:
    """Each token reads every weight once, of an untied embedding only a row, and the state, half full on average."""
    each = 1 if kind == "int8" else getattr(torch, kind).itemsize
    weights = size.parameters(model) - (0 if model.config.tie else model.embedding.weight.numel())
    state = model.cost(batch, PROMPT + TOKENS // 2).state_bytes
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    flops = model.cost(batch, 1).flops if kind != "int8" else 0  # whose products no peak is known for
    found = floors.floor(device, flops=flops, bytes=weights * each + state, dtype=dtype)
    return found | {"seconds": TOKENS * found["seconds"], "bound": f"{found['bound']}, token by token"}


def without_end(model: language.LanguageModel) -> language.LanguageModel:
    """The vocabulary's last token gets no vector and is never the likeliest: some peers take it for an end."""
    with torch.no_grad():
        model.embedding.weight[-1] = 0
    return model


class Kept:
    """Runs that remember what they gave last: in the last round all had the same prompts."""

    def __init__(self) -> None:
        self.tokens: dict[str, Any] = {}

    def all(self, runs: dict[str, Run]) -> dict[str, Run]:
        return {name: partial(self.run, name, run) for name, run in runs.items()}

    def run(self, name: str, run: Run) -> None:
        self.tokens[name] = run()

    def agreement(self, expected: Any) -> str:
        """How many tokens each wrote as `expected` has them, up to the first that differs in each row."""
        same = {name: int((tokens == expected).long().cumprod(dim=1).sum()) for name, tokens in self.tokens.items()}
        said = ", ".join(f"{name} {count:,}" for name, count in same.items())
        return f"of {expected.numel():,} greedy tokens, the same up to the first other one of a row: {said}"


def engines(model: Any, prompts: Prompts, kind: str, peers: Peers, *, fuse: bool) -> dict[str, Run]:
    """Our modes; one that cannot be had is told among the peers that cannot."""
    rows = len(prompts.tokens)
    ours: dict[str, Run] = {}
    if prompts.tokens.device.type == "cpu":  # `recollect.load(run).generate`
        try:
            step = open_step(model, str(model.config.model), model.config.vocab, kind)
            ours["exported step"] = partial(by_step, StepWriter(step), prompts)
        except Exception as error:
            peers.absent["exported step"] = one_line(error)
        if kind == "int8":
            return ours
    ways: dict[str, dict[str, Any]] = {"engine": {}}
    if fuse:
        ways["engine, fuse"] = {"fuse": True}
    for name, options in ways.items():
        try:
            ours[name] = partial(by_engine, Engine(model, rows, PROMPT + TOKENS, **options), prompts)
        except Exception as error:
            peers.absent[name] = one_line(error)
    return ours


def transformer(shape: Shape, device: str, kind: str) -> Row:
    """A Transformer of one shape at its batch; `kind` is the dtype of its weights, or int8."""
    dtype = torch.bfloat16 if kind == "bfloat16" else torch.float32
    model = without_end(scattered(shape.config().build()))
    prompts, peers = Prompts(shape.batch, shape.vocab, device), Peers()
    plain = to_plain(model, shape).to(device, dtype).eval()
    theirs = None
    try:
        theirs = to_gpt2(model).to(device, dtype).eval()
    except Exception as error:
        peers.absent["transformers, CTranslate2"] = one_line(error)
    model = model.to(device, dtype).eval()
    ours = engines(model, prompts, kind, peers, fuse=device == "cuda" and shape.batch == 1)

    peers.add("plain, static cache", lambda: partial(StaticCache(plain, prompts, fast=False).write, prompts))
    if device == "cuda":
        name = "plain, static cache, compiled in a CUDA graph"
        peers.add(name, lambda: partial(StaticCache(plain, prompts, fast=True).write, prompts))
    if theirs is not None:
        peers.add("transformers generate", lambda: partial(generated, theirs, prompts))
        static = "transformers generate, static cache"
        if device == "cuda" and shape.batch == 1:
            peers.add(static, lambda: partial(generated, theirs, prompts, cache_implementation="static"))
        elif device == "cuda":
            peers.absent[static] = "measured at batch 1 alone: it compiles anew for each"
    with tempfile.TemporaryDirectory() as folder:
        for number in ("float32", "int8") if theirs is not None and device == "cpu" else ():
            where = Path(folder) / number
            if number == "float32" or kind == "int8":
                peers.add(
                    f"CTranslate2 {number}", lambda n=number, w=where: partial(CTranslate2(theirs, n, w).write, prompts)
                )
        kept = Kept()
        row = compare(
            f"writing {shape.layers} layers of {shape.width} {kind} B{shape.batch}",
            kept.all(ours),
            kept.all(peers.runs),
            device=device,
            rounds=3 if device == "cuda" else 5,
            seconds=0.3,
            fresh=prompts.draw,
            floor=step_floor(model, shape.batch, device, kind),
            absent=peers.absent,
            unit="tokens",
            amount=shape.batch * TOKENS,
            note=f"{size.parameters(model) / 1e6:.1f} M parameters, vocabulary {shape.vocab:,}, prompts of {PROMPT}, "
            f"{TOKENS} tokens a row",
        )
        row.checked = kept.agreement(StaticCache(plain, prompts, fast=False).write(prompts))
        return row


def of_lineage(name: Any, device: str) -> Row:
    """One model of the lineage at width 512, 2 layers, batch 1."""
    config = language.Config(vocab=VOCAB, model=name, width=512, layers=2, heads=8)
    model = config.build().to(device).eval()
    prompts, peers = Prompts(1, VOCAB, device), Peers()
    flat = Engine(model, 1, PROMPT + TOKENS).flat is not None
    ours = engines(model, prompts, "float32", peers, fuse=device == "cuda" and not flat)
    peers.add("the contract's step in a loop", lambda: partial(step_by_step, model, prompts))
    kept = Kept()
    row = compare(
        f"lineage {name}",
        kept.all(ours),
        peers.runs,
        device=device,
        rounds=5,
        seconds=0.2,
        fresh=prompts.draw,
        floor=step_floor(model, 1, device, "float32"),
        absent=peers.absent,
        unit="steps",
        amount=TOKENS,
        note=f"{size.parameters(model) / 1e6:.1f} M parameters, vocabulary {VOCAB}, float32, "
        f"{'a step spelled out' if flat else 'its own step' if device == 'cuda' else 'the exported step'}",
    )
    row.checked = kept.agreement(step_by_step(model, prompts))
    return row


def writing(device: str) -> Iterator[Row]:
    """Decoding: GPT-2 (124 M) in bfloat16 at batch 1, 8 and 64 on a GPU; 23 M in float32 and int8 on a CPU."""
    if device == "cuda":
        kinds = [(replace(GPT2, batch=batch), "bfloat16") for batch in (1, 8, 64)]
    else:
        kinds = [(SMALL, "float32"), (SMALL, "int8")]
    for shape, kind in kinds:
        title = f"writing {shape.layers} layers of {shape.width} {kind} B{shape.batch}"
        yield attempt(title, device, lambda shape=shape, kind=kind: transformer(shape, device, kind))
        recover(device)


def lineage(device: str) -> Iterator[Row]:
    """Steps a second of every model of the lineage: width 512, 2 layers, batch 1."""
    for name in LINEAGE:
        yield attempt(f"lineage {name}", device, lambda name=name: of_lineage(name, device))


ROWS = {"writing": writing, "lineage": lineage}
