"""Training a Transformer of GPT-2's shape: ours beside Hugging Face's and a plain one, with the same weights.

A call is one step: forward, backward, clipping and AdamW, on tokens drawn anew. Ours is the step of `recollect train`,
whose batches come from the host; the peers find theirs on the device.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from recollect.models import language
from recollect.tasks.text.task import Config as TextConfig
from recollect.tasks.text.task import TextTask
from recollect.training.loop import Trainer
from recollect.training.optim import build_optimizer, clip
from recollect.training.settings import Settings

from . import floors
from .measure import Row, Run, attempt, compare, one_line, recover

HF = "transformers GPT2LMHeadModel"


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    vocab: int
    steps: int
    batch: int

    def config(self) -> language.Config:
        """GPT-2 in our settings: learned positions, biases but for the logits, no dropout."""
        return language.Config(
            vocab=self.vocab,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            positions="learned",
            max_positions=self.steps,
            bias=True,
            head_bias=False,
        )

    def __str__(self) -> str:
        return f"{self.layers} layers of {self.width}, vocabulary {self.vocab:,}, B{self.batch} T{self.steps}"


GPT2 = Shape(layers=12, width=768, heads=12, vocab=50_304, steps=1024, batch=32)
SMALL = Shape(layers=4, width=128, heads=4, vocab=65, steps=64, batch=12)  # nanoGPT's, for a CPU


class PlainBlock(nn.Module):
    """A block of GPT-2, written as plainly as it goes."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, width = shape.heads, shape.width
        self.before_look, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def heads_of(self, x: Tensor) -> list[Tensor]:
        """q, k, v: B H T d."""
        parts = self.qkv(self.before_look(x)).chunk(3, dim=-1)
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]

    def finish(self, x: Tensor, looked: Tensor) -> Tensor:
        """The block's output, given what attention found: B H T d."""
        x = x + self.out(looked.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.before_feed(x))))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.heads_of(x)
        return self.finish(x, F.scaled_dot_product_attention(q, k, v, is_causal=True))


class Plain(nn.Module):
    """What one writes without a library: nanoGPT's shape, logits and loss in the model."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.tokens, self.places = nn.Embedding(shape.vocab, shape.width), nn.Embedding(shape.steps, shape.width)
        self.blocks = nn.ModuleList([PlainBlock(shape) for _ in range(shape.layers)])
        self.norm = nn.LayerNorm(shape.width)

    def logits(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.places.weight[: x.shape[1]]
        for block in self.blocks:
            h = block(h)
        return F.linear(self.norm(h), self.tokens.weight)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.logits(x).flatten(0, 1), y.flatten())


def sublayers(model: language.LanguageModel) -> Iterator[tuple[Any, Any]]:
    """The residual sublayers of each block: attention, feed-forward."""
    inside = list(model.body.layers)[1:-1]
    yield from zip(inside[::2], inside[1::2], strict=True)


@torch.no_grad()
def to_plain(model: language.LanguageModel, shape: Shape) -> Plain:
    """The plain model with our weights."""
    plain = Plain(shape)
    plain.tokens.weight.copy_(model.embedding.weight)
    plain.places.weight.copy_(model.body.layers[0].added.table)
    plain.norm.load_state_dict(model.body.layers[-1].norm.state_dict())
    for block, (look, feed) in zip(plain.blocks, sublayers(model), strict=True):
        heads: Any = look.layer.heads
        assert isinstance(block, PlainBlock)
        block.before_look.load_state_dict(look.norm.norm.state_dict())
        block.before_feed.load_state_dict(feed.norm.norm.state_dict())
        block.qkv.weight.copy_(torch.cat([heads.q.weight, heads.k.weight, heads.v.weight]))
        block.qkv.bias.copy_(torch.cat([heads.q.bias, heads.k.bias, heads.v.bias]))
        block.out.load_state_dict(heads.out.state_dict())
        block.up.load_state_dict(feed.layer.up.state_dict())
        block.down.load_state_dict(feed.layer.down.state_dict())
    return plain


@torch.no_grad()
def to_gpt2(model: language.LanguageModel) -> Any:
    """Hugging Face's GPT-2 with our weights. Its head has no bias, nor may ours."""
    from transformers import GPT2Config, GPT2LMHeadModel  # pyright: ignore[reportMissingImports]

    c = model.config
    assert model.head.bias is None, "expected a head without biases, as GPT-2's"
    theirs: Any = GPT2LMHeadModel(
        GPT2Config(
            vocab_size=c.vocab,
            n_positions=c.max_positions,
            n_embd=c.width,
            n_layer=c.layers,
            n_head=c.heads,
            activation_function="gelu",
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation="sdpa",
        )
    )
    theirs.loss_type = "ForCausalLM"  # what it would guess, with a warning that breaks a compiled graph in two
    body = theirs.transformer
    body.wte.weight.copy_(model.embedding.weight)
    body.wpe.weight.copy_(model.body.layers[0].added.table)
    body.ln_f.load_state_dict(model.body.layers[-1].norm.state_dict())
    for block, (look, feed) in zip(body.h, sublayers(model), strict=True):
        heads: Any = look.layer.heads
        block.ln_1.load_state_dict(look.norm.norm.state_dict())
        block.ln_2.load_state_dict(feed.norm.norm.state_dict())
        three = (heads.q, heads.k, heads.v)
        pairs = [
            (block.attn.c_attn, torch.cat([m.weight for m in three]), torch.cat([m.bias for m in three])),
            *(
                (conv, linear.weight, linear.bias)
                for conv, linear in (
                    (block.attn.c_proj, heads.out),
                    (block.mlp.c_fc, feed.layer.up),
                    (block.mlp.c_proj, feed.layer.down),
                )
            ),
        ]
        for conv, weight, bias in pairs:  # its Conv1D keeps a matrix from input to output
            conv.weight.copy_(weight.T)
            conv.bias.copy_(bias)
    return theirs


def scattered(model: language.LanguageModel) -> language.LanguageModel:
    """The model with no parameter at a value that would hide a mistake, such as zero or one."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.02)
    return model


class Batches:
    """Tokens on the device, other ones at each step."""

    def __init__(self, shape: Shape, device: str, count: int = 4) -> None:
        drawn = torch.randint(shape.vocab, (count, shape.batch, shape.steps + 1), device=device)
        self.pairs, self.at = [(t[:, :-1].contiguous(), t[:, 1:].contiguous()) for t in drawn], 0

    def next(self) -> tuple[Tensor, Tensor]:
        self.at += 1
        return self.pairs[self.at % len(self.pairs)]


def stepper(
    model: nn.Module, loss_of: Callable[[Tensor, Tensor], Tensor], batches: Batches, settings: Settings, device: str
) -> Run:
    """One training step, as our loop takes it, of any model."""
    optimizer = build_optimizer(model, settings)
    mixed = settings.precision == "bfloat16"

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16) if mixed else nullcontext():
            loss = loss_of(*batches.next())
        loss.backward()
        clip(model, settings)
        optimizer.step()

    return step


def trained(model: nn.Module, shape: Shape, settings: Settings, device: str) -> Run:
    """One step of our own loop, with its task, its batches from the host and its optimizer."""
    tokens = np.random.default_rng(0).integers(0, shape.vocab, 64 * shape.steps * shape.batch, dtype=np.int32)
    corpus = cast(Any, SimpleNamespace(name="random", train=tokens, valid=tokens))
    task = TextTask(TextConfig(context=shape.steps, batch=shape.batch), corpus, device)
    trainer = Trainer(task, model.train(), settings, None, torch.device(device))
    take = trainer._step()
    batches = task.batches("train", settings.seed)

    def step() -> None:
        trainer.optimizer.zero_grad(set_to_none=True)
        take(next(batches), None, True)
        clip(model, settings)
        trainer.optimizer.step()

    return step


def built(shape: Shape, device: str) -> tuple[language.LanguageModel, Plain, Any, dict[str, str]]:
    """Ours, the plain model and Hugging Face's with the same weights, and why one is absent."""
    model = scattered(shape.config().build())
    plain = to_plain(model, shape).to(device)
    absent: dict[str, str] = {}
    theirs = None
    try:
        theirs = to_gpt2(model).to(device).train()
    except Exception as error:
        absent[HF] = one_line(error)
    return model.to(device), plain, theirs, absent


def same(model: language.LanguageModel, plain: Plain, theirs: Any, batches: Batches) -> str:
    """The logits and the loss of one row at the first weights, in float32."""
    x, y = (t[:1] for t in batches.next())
    found: dict[str, tuple[Tensor, Tensor]] = {}
    with torch.no_grad():
        logits, loss = model(x)[0], model.nll(x, y)[0].mean()
        found["plain"] = plain.logits(x), plain(x, y)
        if theirs is not None:
            out = theirs(x, labels=y, shift_labels=y, use_cache=False)
            found["transformers"] = out.logits, out.loss
    apart = 0.0
    for name, (other, value) in found.items():
        apart = max(float((logits - other).abs().max() / logits.abs().max()), apart)
        near = apart < 1e-4 and math.isclose(float(loss), float(value), rel_tol=1e-4)
        assert near, f"expected the logits and the loss {loss:.6f} of ours, {name} gave {value:.6f}, {apart:.1e} apart"
    return f"logits of a row in float32 as {' and '.join(found)} give them: at most {apart:.0e} of the largest apart"


def measured(shape: Shape, device: str) -> Row:
    cuda = device == "cuda"
    settings = Settings(
        precision="bfloat16" if cuda else "float32",
        compile=cuda,
        lr=1e-4,
    )
    model, plain, theirs, absent = built(shape, device)
    batches = Batches(shape, device)
    checked = same(model, plain, theirs, batches)

    def hf_loss(x: Tensor, y: Tensor) -> Tensor:
        return theirs(x, labels=y, shift_labels=y, use_cache=False).loss

    how = "compiled" if cuda else "eager"
    fast = torch.compile if cuda else lambda function: function
    peers = {f"plain, {how}": stepper(plain, fast(plain), batches, settings, device)}
    if theirs is not None:
        peers[f"{HF}, eager"] = stepper(theirs, hf_loss, batches, settings, device)
        if cuda:
            peers[f"{HF}, compiled"] = stepper(theirs, torch.compile(hf_loss), batches, settings, device)

    dtype = torch.bfloat16 if cuda else torch.float32
    flops = 3 * model.cost(shape.batch, shape.steps).flops
    tokens = shape.batch * shape.steps
    row = compare(
        f"training {shape}",
        {f"Trainer, {how}": trained(model, shape, settings, device)},
        peers,
        device=device,
        rounds=7 if cuda else 9,
        seconds=0.5,
        floor=floors.floor(device, flops=flops, dtype=dtype),
        absent=absent,
        unit="tokens",
        amount=tokens,
        checked=checked,
    )
    if row.ours:
        count = sum(p.numel() for p in plain.parameters())
        each = 6 * count + 12 * shape.layers * shape.width * shape.steps
        ceiling = floors.peak(device, dtype)
        share = each * tokens / row.ours["median"] / ceiling
        row.note = (
            f"{count / 1e6:.1f} M parameters, {str(dtype)[6:]}, step with clipping and AdamW; by nanoGPT's count "
            f"(6N + 12LTD) ours uses {share:.2f} of the {ceiling / 1e12:,.2f} TFLOP/s of a matrix product in this run"
        )
    return row


def training(device: str) -> Iterator[Row]:
    """GPT-2 (124 M) on a GPU, at the largest batch up to 32 that fits; a small one on a CPU."""
    shape = GPT2 if device == "cuda" else SMALL
    while True:
        row = attempt(f"training {shape}", device, lambda shape=shape: measured(shape, device))
        if "OutOfMemory" not in (row.error or "") or shape.batch <= 4:
            break
        shape = replace(shape, batch=shape.batch // 2)
        recover(device)
    yield row


ROWS = {"training": training}
