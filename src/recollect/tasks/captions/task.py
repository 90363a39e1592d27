"""Captions: describe a picture word by word, attending to each thing while it is named.

A picture has one or several captions; training takes one of them each time it comes by, measuring asks for all. The
scores of captions stand beside those of the same captions for other pictures, and of one caption for all.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core import pieces
from ...core import state as states
from ...core.artifacts import artifact_path
from ...core.contract import Memory
from ...core.settings import refuse_both_ways
from ...core.summary import DataSummary
from ...core.task import LoadedRun, Loss, RunConfig
from ...data.files import DataError, absolute_name
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.translate import looks, pad
from ..decoding import SAMPLES, DecodingTask, greedy_settings, guess_baselines, logits_of, search_settings, token_losses
from . import data, model, probe
from .bleu import ORDERS, bleu_metric, score_captions
from .captioned import Artifacts, Captioned, Part, load_artifacts, save_artifacts, summarize
from .export import CaptionsExports
from .images import apply_views, box_coverage, random_views, to_floats
from .settings import Config, DataConfig
from .sources import SETS, SHAPES
from .use import search_captions

ON_DEVICE = 8 << 30  # bytes of pictures up to which a GPU holds them all
CANDIDATES = 100  # of the commonest training captions, tried as the one caption for all pictures
JUDGES = 1_000  # training pictures that they are tried on


class Batch(NamedTuple):
    images: Tensor  # B P P 3, uint8
    view: Tensor  # B 2 3, the part of each that is cropped, as an affine map
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the captions, ends counted
    number: int


class CaptionsTask(DecodingTask[Captioned, Artifacts]):
    """Pictures to describe."""

    name = "captions"
    data_config = DataConfig
    task_config = Config
    exports = CaptionsExports()
    model_config = model.Config
    usual: ClassVar[Mapping[str, str]] = {"lr": "2e-3", "weight_decay": "0.01", "steps": "2000", "batch": "32"}
    request_options: ClassVar[Sequence[str]] = ("image",)
    refused: ClassVar[Mapping[str, str]] = refuse_both_ways("captions, which are written from left to right")

    def __init__(self, config: Config, data: Captioned, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.metric = {"nats": "nats_per_token", "bleu": "minus_bleu", "exact": "wrong"}[config.choose]
        self.flip = data.mirrored if config.flip is None else config.flip
        self.crop = (0.15 if data.mirrored else 0.0) if config.crop is None else config.crop
        self.held: dict[int, Tensor] = {}

    # Data and models

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Artifacts | None = None) -> Captioned:
        settings = asdict(config)
        settings["share"] = settings.pop("held_out")  # a model's `share` says which tables are one
        return data.load(**settings, data_dir=data_dir, artifacts=artifacts)

    @classmethod
    def generated_rows(cls, config: DataConfig) -> int | None:
        return config.count if not config.data or config.data[0] == SHAPES else None

    @classmethod
    def artifacts_of(cls, data: Captioned) -> Artifacts:
        return Artifacts(data.tokenizer, data.pixels)

    @classmethod
    def save_artifacts(cls, artifacts: Artifacts, folder: Path) -> None:
        save_artifacts(artifacts, folder / "tokenizer.json")

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_artifacts(artifact_path(folder, "tokenizer.json"))

    @classmethod
    def describe_data(cls, data: Captioned) -> dict[str, Any]:
        counts = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test) if data.test else 0}
        about = {"captions": len(data.train.offsets) - 1, "pixels": data.pixels, "words": data.tokenizer.size}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Captioned) -> str:
        return (
            f"{len(data.train):,} pictures of {data.name} at {data.pixels} pixels, "
            f"{len(data.train.offsets) - 1:,} captions of {data.tokenizer.size:,} words"
        )

    @classmethod
    def data_summary(cls, data: Captioned) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Artifacts) -> DataConfig:
        """All of another folder is the part that is measured; sets that have parts keep them."""
        return replace(config, data=tuple(data), whole=data[0] not in (SHAPES, *SETS))

    @classmethod
    def model_sizes(cls, artifacts: Artifacts) -> dict[str, int]:
        return {"words": artifacts.tokenizer.size, "pixels": artifacts.pixels}

    @classmethod
    def target_tokenizer(cls, artifacts: Artifacts) -> SentenceTokenizer:
        return artifacts.tokenizer

    @classmethod
    def resolve(cls, run: RunConfig, data: Captioned, params: int | None) -> RunConfig:
        folders = tuple(absolute_name(name, (SHAPES, *SETS)) for name in run.data.data)
        task = cls(run.task, data)
        return replace(
            run,
            data=replace(run.data, data=folders, pixels=data.pixels),
            task=replace(run.task, flip=task.flip, crop=task.crop),
            model=cls.resolve_model(run.model, cls.artifacts_of(data), params),
        )

    @classmethod
    def law_example(cls, model: Any, artifacts: Artifacts) -> tuple[nn.Module, Tensor, Memory | None]:
        draw = torch.Generator().manual_seed(0)
        images = torch.rand(3, 3, artifacts.pixels, artifacts.pixels, generator=draw, dtype=model.like().dtype)
        with torch.no_grad():
            memory = model.encode(images)
        return model, torch.randint(artifacts.tokenizer.size, (3, 12), generator=draw), memory

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, 20, model.eye.cells()).state_bytes

    # Training

    def part(self, split: str) -> Part:
        found = getattr(self.data, split, None)
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Epoch after epoch, each picture once with one of its captions; what is left over at its end is left out."""
        part, rows = self.part(split), min(self.config.batch, len(self.part(split)))
        each = len(part) // rows
        epoch, skip = divmod(start, each)
        while True:
            draw = np.random.default_rng([seed, epoch])
            order = draw.permutation(len(part))
            captions = part.first[:-1] + (draw.random(len(part)) * np.diff(part.first)).astype(np.int64)
            view = random_views(draw, len(part), self.flip, self.crop)
            for number in range(skip, each):
                some = order[number * rows : (number + 1) * rows]
                yield self.batch(part, some, captions[some], view[some], epoch * each + number)
            epoch, skip = epoch + 1, 0

    def batch(self, part: Part, rows: np.ndarray, captions: np.ndarray, view: np.ndarray, number: int = 0) -> Batch:
        x, y, tokens = self.written(part, captions)
        seen = torch.from_numpy(view).to(self.device)
        return Batch(self.images(part, rows), seen, x, y, tokens, number)

    def images(self, part: Part, rows: np.ndarray) -> Tensor:
        """B P P 3, uint8: out of the GPU's own memory where all of them fit there."""
        if self.device.type != "cuda" or part.images.nbytes > ON_DEVICE:
            return torch.from_numpy(np.asarray(part.images[rows])).to(self.device)
        if id(part) not in self.held:
            pieces = np.array_split(np.arange(len(part)), max(1, part.images.nbytes >> 28))
            self.held[id(part)] = torch.cat([torch.from_numpy(part.images[i]).to(self.device) for i in pieces])
        return self.held[id(part)][torch.from_numpy(np.asarray(rows)).to(self.device)]

    def written(self, part: Part, captions: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor, int]:
        """What the decoder reads and what it should write, B T each, and how many tokens that is."""
        tokenizer, rows = self.data.tokenizer, [part.tokens_of(caption) for caption in captions]
        x, _ = pad([np.insert(row, 0, tokenizer.begin) for row in rows], tokenizer.pad, self.device)
        y, _ = pad([np.append(row, tokenizer.end) for row in rows], tokenizer.pad, self.device)
        more = -x.shape[1] % self.config.grain
        if more:
            x, y = (torch.nn.functional.pad(tokens, (0, more), value=tokenizer.pad) for tokens in (x, y))
        return x, y, sum(len(row) + 1 for row in rows)

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        images = to_floats(batch.images, model)
        if self.flip or self.crop:
            images = apply_views(images, batch.view)
        losses = self.losses(model, batch.x, batch.y, model.encode(images), self.config.smoothing)
        return Loss(losses.sum() / (batch.y != self.data.tokenizer.pad).sum(), batch.tokens)

    def losses(self, model: Any, x: Tensor, y: Tensor, memory: Memory, smoothing: float = 0.0) -> Tensor:
        """−log p of each token in nats, B T; 0 in the padding."""
        return token_losses(logits_of(model, x, memory), y, self.data.tokenizer.pad, smoothing)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.images.shape[1])

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, pixels = shape
        return model.cost(rows, steps, model.eye.cells()).flops + model.encoder_flops(rows, pixels)

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """Nats per token of all references; BLEU-4 and exact matches of greedy captions of the first pictures."""
        found = self.forced(model, split)
        written = self.described(model, split, greedy_settings(self.config), self.config.eval_images)
        scores = {name: written[name] for name in ("bleu", "exact", "images")}
        return found | scores | {"minus_bleu": -written["bleu"], "wrong": 1 - written["exact"]}

    @torch.no_grad()
    def memories(self, model: Any, part: Part, count: int, shift: int = 0) -> Iterator[tuple[np.ndarray, Memory]]:
        """Pictures and what the model remembers of them; with `shift`, of the pictures so many places further on."""
        for rows in np.array_split(np.arange(count), math.ceil(count / self.config.batch)):
            images = self.images(part, (rows + shift) % len(part))
            yield rows, model.encode(to_floats(images, model))

    @torch.no_grad()
    def forced(self, model: Any, split: str, shift: int = 0) -> dict[str, Any]:
        """Teacher forcing: every token of every reference, ends counted."""
        part = self.part(split)
        total, count = 0.0, 0
        for rows, memory in self.memories(model, part, len(part), shift):
            owners = np.repeat(rows - rows[0], np.diff(part.first)[rows])
            captions = np.arange(int(part.first[rows[0]]), int(part.first[rows[-1] + 1]))
            x, y, tokens = self.written(part, captions)
            again = states.select(memory, torch.from_numpy(owners).to(self.device))
            total, count = total + float(self.losses(model, x, y, again).double().sum()), count + tokens
        nats = total / count
        return {
            "nats_per_token": nats,
            "perplexity": math.exp(min(nats, 700)),
            "tokens": count,
            "rule": "every word of every reference and its end, given the reference so far",
        }

    def hypotheses(self, model: Any, split: str, search: Search, count: int | None = None) -> list[list[Hypothesis]]:
        """The n-best captions of the first `count` pictures (default: all)."""
        part = self.part(split)
        count = len(part) if count is None else min(count, len(part))
        return [
            found
            for _, memory in self.memories(model, part, count)
            for found in search_captions(model, memory, self.data.tokenizer, search)
        ]

    def described(self, model: Any, split: str, search: Search, count: int | None = None) -> dict[str, Any]:
        """BLEU-1 to 4 against all references, and the share of captions that are one of them.

        `shuffled` are the same captions given to other pictures: what is left when the picture does not count.
        """
        part = self.part(split)
        started = time.perf_counter()
        lists = self.hypotheses(model, split, search, count)
        seconds = time.perf_counter() - started
        texts = [self.data.tokenizer.decode_prepared(found[0].tokens) for found in lists]
        references = part.captions[: len(texts)]
        shift = len(texts) // 2
        found = self.scores(texts, references) | {
            "shuffled": self.scores([texts[i - shift] for i in range(len(texts))], references),
            "distinct": len(set(texts)) / len(texts),
            "unfinished": sum(not found[0].finished for found in lists),
            "images": len(texts),
            "seconds": seconds,
            "search": f"beam {search.beam}, length penalty {search.length_penalty}",
        }
        right = np.array([text in some for text, some in zip(texts, references, strict=True)])
        found["pieces"] = {"exact": pieces.cut(right)}
        if part.held_out is not None:
            held = part.held_out[: len(texts)]
            found["exact_by"] = {
                name: {"exact": float(right[which].mean()), "images": int(which.sum())}
                for name, which in (("seen", ~held), ("held out", held))
                if which.any()
            }
        return found

    def scores(self, found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
        return score_captions(found, references, getattr(self.data.tokenizer.tokenizer, "spaceless", False))

    def gaze(self, model: Any, split: str, count: int = 200) -> dict[str, float] | None:
        """How much of the attention lies on a thing's box while the reference's words name it; None without boxes.

        `named` on the box of the thing that is named, `other` on that of the other thing, `even` what attention
        spread evenly would put on the named one's, and `best` the most that one cell of this grid can put there. The
        weight of a cell counts by the share of the cell that lies in the box.
        """
        part = self.part(split)
        if part.boxes is None:
            return None
        sums, words = Counter[str](), 0
        for rows, memory in self.memories(model, part, min(count, len(part))):
            for place, row in enumerate(rows.tolist()):
                one = states.select(memory, torch.tensor([place], device=self.device))
                assert one.shape is not None
                caption = int(part.first[row])
                weights = looks(model, one, part.tokens_of(caption).tolist(), self.data.tokenizer.begin).get("mean")
                if weights is None:
                    return None
                covers = np.stack([box_coverage(box, one.shape, self.data.pixels) for box in part.boxes[row]])  # M S
                on = weights[:-1].double().numpy() @ covers.T  # T M
                share = covers.mean(axis=1)
                for step, thing in enumerate(part.named_of(caption).tolist()):
                    if thing >= 0:
                        words += 1
                        sums["named"] += on[step, thing]
                        sums["other"] += on[step, 1 - thing]
                        sums["even"] += share[thing]
                        sums["best"] += covers[thing].max()
        return {name: float(value) / words for name, value in sums.items()} | {"words": words}

    def baselines(self, split: str) -> dict[str, float]:
        train, part = self.part("train"), self.part(split)
        counts = [len(each.offsets) - 1 for each in (train, part)]
        return guess_baselines(self.data.tokenizer, train.tokens, counts[0], part.tokens, counts[1])

    def constant(self, split: str) -> dict[str, Any]:
        """The figures of one caption for all pictures: the common training caption that is best on training."""
        train, part = self.part("train"), self.part(split)
        common = Counter(caption for some in train.captions for caption in some)
        ranked = sorted(common, key=lambda caption: (-common[caption], caption))[:CANDIDATES]
        judges = train.captions[:JUDGES]
        judge = bleu_metric(4, judges)
        best = max(ranked, key=lambda caption: judge.corpus_score([caption] * len(judges), None).score)
        return self.scores([best] * len(part), part.captions) | {"caption": best}

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """BLEU of captions by beam search, beside those of other pictures and of one caption for all; and the loss."""
        found = self.described(model, split, search_settings(self.config, **options.get("search", {})))
        part, in_pieces = self.part(split), found.pop("pieces")
        scenic = part.boxes is not None
        name = "exact" if scenic else "bleu"
        how = "one of the true captions" if scenic else f"lowercased, tokenised, {found['signature']}"
        most = max(map(len, part.captions))
        forced = self.forced(model, split)
        rule = f"{how}, {found['search']}, {found['images']:,} pictures, up to {most} references each"
        return {
            "metric": {"name": name, "value": found[name], "rule": rule},
            "described": found,
            "constant": self.constant(split),
            "forced": forced,
            "forced_shuffled": self.forced(model, split, shift=len(part) // 2),
            "gaze": self.gaze(model, split),
            "baselines": self.baselines(split),
            "compared": self.compared(forced),
        } | ({"pieces": in_pieces} if options.get("pieces") else {})

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        described, constant = found["described"], found["constant"]
        columns = ("captions", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact", "nats/token")

        def row(name: str, scores: dict[str, Any], nats: str) -> list[str]:
            bleus = [f"{scores[f'bleu{order}']:.2f}" for order in ORDERS]
            return [name, *bleus, f"{100 * scores['exact']:.1f} %", nats]

        rows = [
            row("of this picture", described, f"{found['forced']['nats_per_token']:.4f}"),
            row("of another picture", described["shuffled"], f"{found['forced_shuffled']['nats_per_token']:.4f}"),
            row("one for all", constant, f"{found['baselines']['unigram']:.4f}"),
        ]
        below = [
            f"{found['metric']['name']}: {found['metric']['rule']}",
            f"one for all: {constant['caption']!r}; its nats/token are those of the words' frequencies",
            f"{100 * described['distinct']:.1f} % of the captions are distinct; "
            f"{described['images'] / described['seconds']:,.0f} pictures/s",
        ]
        if "exact_by" in described:
            shares = "  ".join(
                f"{name} {100 * entry['exact']:.1f} % of {entry['images']:,}"
                for name, entry in described["exact_by"].items()
            )
            below.append(f"exact by combination of colour and shape: {shares}")
        if gaze := found["gaze"]:
            below.append(
                f"attention on the box of the thing that is named {100 * gaze['named']:.1f} %, of the other "
                f"{100 * gaze['other']:.1f} %; spread evenly {100 * gaze['even']:.1f} %, at best for this grid "
                f"{100 * gaze['best']:.1f} %"
            )
        return columns, rows, below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation {found['nats_per_token']:.4f} nats/token; greedy captions of {found['images']:,} pictures: "
            f"BLEU-4 {found['bleu']:.2f}, exact {100 * found['exact']:.1f} %"
        )

    # Inspection and races

    probe = staticmethod(probe.probe)

    def sample(self, run: LoadedRun[Captioned, Artifacts]) -> list[dict[str, Any]]:
        """The first pictures of validation by number, each with a reference and the model's own caption."""
        tokenizer, references = run.artifacts.tokenizer, self.part("valid").captions
        lists = self.hypotheses(run.model, "valid", greedy_settings(self.config), SAMPLES)
        texts = [tokenizer.decode_prepared(found[0].tokens) for found in lists]
        return [
            {"source": f"picture {i + 1}", "reference": references[i][0], "output": text}
            | {"right": text in references[i]}
            for i, text in enumerate(texts)
        ]

    def declared_cost(self, run: LoadedRun[Captioned, Artifacts], length: int) -> tuple[float, float]:
        """Of a caption of that length, its picture already read."""
        own = run.model.cost(1, length, run.model.eye.cells())
        return own.flops, own.state_bytes


TASKS = (CaptionsTask,)
