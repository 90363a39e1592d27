"""Translating 1,000 sentences from text to text with beam 5, beside Hugging Face's Marian and CTranslate2.

The model is a post-norm Transformer with sinusoids and one table of vectors, which is Marian's, trained for a minute so
that its sentences end where they should. All have its weights, and score a text by its log-probability alone.
"""

import tempfile
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from recollect.decode import beam, translate
from recollect.decode.stepped import SteppedModel
from recollect.layers import combine
from recollect.models import seq2seq, size
from recollect.tasks.translation import data as parallel
from recollect.tasks.translation import task as translation
from recollect.tasks.translation.data import Parallel
from recollect.training.loop import Trainer
from recollect.training.settings import Settings

from . import floors
from .exported import step_of
from .measure import Row, Run, attempt, compare, one_line

SENTENCES, BEAM, LIMIT = 1000, 5, 80
TOKENS = 4096  # of a batch
ROWS_TOGETHER = 64  # in a batch of Hugging Face's
SEARCH = beam.Config(beam=BEAM, length_penalty=0.0, ratio=0.0, extra=LIMIT)
NEVER = 10**9
IMPOSSIBLE = -1e4  # logit of what is no text


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    heads: int
    vocab: int
    steps: int  # of training


SMALL = Size(width=128, layers=2, heads=4, vocab=4000, steps=300)
LARGE = Size(width=512, layers=3, heads=8, vocab=8000, steps=800)


def pairs(vocab: int) -> Parallel:
    """Multi30k from English to German where it is on disk or can be had, else numbers in words."""
    try:
        return parallel.load("multi30k", pair="en-de", vocab=vocab, joint=True)
    except Exception as error:
        print(f"numbers in words in place of Multi30k: {one_line(error)}")
        return parallel.load(None, vocab=min(vocab, 500), joint=True)


def trained(data: Parallel, wanted: Size, device: str) -> seq2seq.Seq2Seq:
    """Marian's kind of model, for as many steps as it takes to end sentences."""
    model = seq2seq.Config(
        source=data.source.size,
        target=data.target.size,
        model="transformer",
        width=wanted.width,
        layers=wanted.layers,
        heads=wanted.heads,
        hidden=4 * wanted.width,
        order="post",
        positions="sinusoid",
        share="all",
        dropout=0.1,
    ).build()
    settings = Settings(steps=wanted.steps, lr=7e-4, warmup=wanted.steps // 5, eval_every=NEVER, save_every=NEVER)
    task = translation.TranslationTask(translation.Config(batch=2048), data, device)
    Trainer(task, model, settings, None, torch.device(device))._train()
    with torch.no_grad():
        model.head.bias[[data.target.pad, data.target.begin]] = IMPOSSIBLE
    return model.eval()


@torch.no_grad()
def to_marian(model: seq2seq.Seq2Seq, data: Parallel) -> Any:
    """Hugging Face's Marian with our weights, reordered: its sinusoids are sines, then cosines, ours take turns."""
    from transformers import MarianConfig, MarianMTModel  # pyright: ignore[reportMissingImports]

    c, side = model.config, data.target
    theirs: Any = MarianMTModel(
        MarianConfig(
            vocab_size=side.size,
            d_model=c.width,
            encoder_layers=c.depth,
            decoder_layers=c.layers,
            encoder_attention_heads=c.heads,
            decoder_attention_heads=c.heads,
            encoder_ffn_dim=c.hidden,
            decoder_ffn_dim=c.hidden,
            activation_function="relu",
            scale_embedding=True,
            max_position_embeddings=c.max_positions,
            pad_token_id=side.pad,
            bos_token_id=None,
            eos_token_id=side.end,
            forced_eos_token_id=None,
            decoder_start_token_id=side.begin,
        )
    )
    order = torch.cat([torch.arange(0, c.width, 2), torch.arange(1, c.width, 2)])

    def put(into: Any, weight: Tensor, bias: Tensor) -> None:
        into.weight.copy_(weight)
        into.bias.copy_(bias)

    def norm(into: Any, ours: Any) -> None:
        put(into, ours.norm.weight[order], ours.norm.bias[order])

    def look(into: Any, heads: Any) -> None:
        for project, own in ((into.q_proj, heads.q), (into.k_proj, heads.k), (into.v_proj, heads.v)):
            put(project, own.weight[:, order], own.bias)
        put(into.out_proj, heads.out.weight[order], heads.out.bias[order])

    def feed(into: Any, ours: Any) -> None:
        put(into.fc1, ours.up.weight[:, order], ours.up.bias)
        put(into.fc2, ours.down.weight[order], ours.down.bias[order])

    body = theirs.model
    for table in (body.shared, body.encoder.embed_tokens, body.decoder.embed_tokens, theirs.lm_head):
        table.weight.copy_(model.embedding.weight[:, order])
    theirs.final_logits_bias.copy_(model.head.bias)
    encoder: Any = model.encoder
    for into, block in zip(body.encoder.layers, encoder.blocks, strict=True):
        look(into.self_attn, block.attention.heads)
        norm(into.self_attn_layer_norm, block.norms[0])
        feed(into, block.feed)
        norm(into.final_layer_norm, block.norms[1])
    decoder: Any = model.decoder
    blocks = [layer for layer in decoder.layers if isinstance(layer, combine.Stack)]
    for into, block in zip(body.decoder.layers, blocks, strict=True):
        own, cross, last = block.layers
        look(into.self_attn, own.layer.heads)
        norm(into.self_attn_layer_norm, own.norm)
        look(into.encoder_attn, cross.layer.heads)
        norm(into.encoder_attn_layer_norm, cross.norm)
        feed(into, last.layer)
        norm(into.final_layer_norm, last.norm)
    return theirs.eval()


# Ways to translate: lines in, lines out


def ours(model: Any, data: Parallel, lines: Sequence[str]) -> list[str]:
    found = translate.lines(model, data.source, data.target, lines, SEARCH, tokens=TOKENS)
    return [data.target.decode(best[0].tokens) for _, _, best in found]


def ids(data: Parallel, line: str) -> list[int]:
    return [*data.source.encode(line).tolist(), data.source.end]


@torch.inference_mode()
def by_marian(theirs: Any, data: Parallel, lines: Sequence[str]) -> list[str]:
    """Hugging Face's generate, batches of lines of similar length."""
    rows = [np.array(ids(data, line)) for line in lines]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    texts = [""] * len(rows)
    for at in range(0, len(order), ROWS_TOGETHER):
        batch = order[at : at + ROWS_TOGETHER]
        x, _ = translate.pad([rows[i] for i in batch], data.source.pad, theirs.device)
        found = theirs.generate(
            x,
            attention_mask=(x != data.source.pad).long(),
            num_beams=BEAM,
            length_penalty=0.0,
            max_new_tokens=LIMIT,
            do_sample=False,
        )
        for i, tokens in zip(batch, found.tolist(), strict=True):
            texts[i] = data.target.decode(tokens[1:])
    return texts


class CTranslate2:
    """CTranslate2 with the weights of a Marian model, float32 or int8."""

    def __init__(self, theirs: Any, data: Parallel, kind: str, folder: Path) -> None:
        import ctranslate2  # pyright: ignore[reportMissingImports]
        from ctranslate2.converters.transformers import BartLoader  # pyright: ignore[reportMissingImports]

        self.data = data
        copied = deepcopy(theirs)  # it scales weights where they are
        # as its loader of Marian does, which however starts from no vector at all and drops the padding's
        copied.config.normalize_before = copied.config.normalize_embedding = False
        with torch.no_grad():
            spec = BartLoader().get_model_spec(copied)
        names = [str(token) for token in range(data.target.size)]
        spec.register_source_vocabulary(names)
        spec.register_target_vocabulary(names)
        spec.config.eos_token = str(data.target.end)
        spec.config.bos_token = spec.config.decoder_start_token = str(data.target.begin)
        spec.config.unk_token = str(data.target.pad)
        spec.validate()
        spec.optimize(quantization=None if kind == "float32" else kind)
        folder.mkdir()
        spec.save(str(folder))
        self.translator = ctranslate2.Translator(
            str(folder), device="cpu", compute_type=kind, inter_threads=1, intra_threads=torch.get_num_threads()
        )

    def translate(self, lines: Sequence[str]) -> list[str]:
        found = self.translator.translate_batch(
            [[str(token) for token in ids(self.data, line)] for line in lines],
            max_batch_size=TOKENS,
            batch_type="tokens",
            beam_size=BEAM,
            length_penalty=0.0,
            min_decoding_length=0,
            max_decoding_length=LIMIT,
        )
        return [self.data.target.decode(int(token) for token in result.hypotheses[0]) for result in found]


def agreement(runs: dict[str, Any], lines: Sequence[str]) -> str:
    """How many lines each translates as ours does, out of some."""
    first = list(lines[:100])
    expected, found = runs["ours"](first), []
    for name, run in runs.items():
        if name != "ours":
            try:
                found.append(f"{name} {sum(a == b for a, b in zip(run(first), expected, strict=True))}")
            except Exception as error:
                found.append(f"{name} failed ({type(error).__name__})")
    return f"of {len(first)} sentences, the same as ours: {', '.join(found)}"


def measured(model: seq2seq.Seq2Seq, data: Parallel, lines: list[str], device: str, kind: str) -> Row:
    """All in one dtype, on one device."""
    dtype = getattr(torch, kind)
    runs: dict[str, Any] = {}
    absent: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            theirs = to_marian(model.float().cpu(), data).to(device, dtype)
            runs["transformers generate"] = partial(by_marian, theirs, data)
            for number in ("float32", "int8") if device == "cpu" else ():
                runs[f"CTranslate2 {number}"] = CTranslate2(theirs, data, number, Path(folder) / number).translate
        except Exception as error:
            absent["CTranslate2" if runs else "transformers, CTranslate2"] = one_line(error)
        own: Any = model.to(device, dtype)
        if device == "cpu":  # as `recollect.load` translates many lines
            step = step_of(model, "transformer", translation.TranslationTask, (data.source, data.target), kind, 1)
            own = SteppedModel(model, step)
        runs = {"ours": partial(ours, own, data)} | runs
        checked = agreement(runs, lines)
        written = [len(data.target.encode(text)) + 1 for text in runs["ours"](lines[:100])]
        read = [len(ids(data, line)) for line in lines[:100]]
        # each beam writes all tokens; what is left out is attention to the source
        flops = sum(model.encoder_flops(1, a) + model.cost(BEAM, b).flops for a, b in zip(read, written, strict=True))
        timed: dict[str, Run] = {name: partial(run, lines) for name, run in runs.items()}
        return compare(
            f"translating {len(lines):,} sentences {kind}",
            timed.pop("ours"),
            timed,
            device=device,
            rounds=3,
            seconds=0.1,
            floor=floors.floor(device, flops=flops / len(read) * len(lines), dtype=dtype),
            absent=absent,
            unit="sentences",
            amount=len(lines),
            checked=checked,
            note=f"{data.name}, beam {BEAM}, {model.config.layers} + {model.config.layers} layers of "
            f"{model.config.width}, {size.parameters(model) / 1e6:.1f} M parameters, "
            f"sentences of {np.mean(written):.0f} tokens written",
        )


def translating(device: str) -> Iterator[Row]:
    """1,000 sentences of Multi30k (or numbers in words) end to end, beam 5, with the same weights."""
    wanted = LARGE if device == "cuda" else SMALL
    made: list[Any] = []

    def first(kind: str) -> Row:
        if not made:
            data = pairs(wanted.vocab)
            made.extend([trained(data, wanted, device), data])
        model, data = made
        test = data.test or data.valid
        texts = [text for text in test.texts("source") if text.strip()]
        lines = (texts * -(-SENTENCES // len(texts)))[:SENTENCES]
        return measured(model, data, lines, device, kind)

    for kind in ("float32", "bfloat16") if device == "cuda" else ("float32",):
        yield attempt(f"translating {SENTENCES:,} sentences {kind}", device, lambda kind=kind: first(kind))


ROWS = {"translating": translating}
