"""Captions: write what a picture shows, word by word, and look at the right thing while naming it.

A picture has one or several captions; training takes one of them each time it comes by, measuring asks for all. What a
caption is worth is told beside what it is worth for another picture, and what one caption would be worth for all.
"""

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, cross_entropy, grid_sample

from ...core import state as states
from ...core.contract import ContractError, Memory, check_settings
from ...core.task import Loss
from ...data.files import DataError
from ...decode import beam
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.translate import looks, pad
from .captioned import Captioned, Part

ON_DEVICE = 8 << 30  # bytes of pictures up to which a GPU holds them all
CANDIDATES = 100  # of the commonest training captions, tried as the one caption for all pictures
JUDGES = 1_000  # training pictures that they are tried on
ORDERS = (1, 2, 3, 4)


@dataclass(frozen=True, kw_only=True)
class Config:
    """`batch` counts pictures. `flip` mirrors half of them; `crop` is the largest share of a side that is cut off.

    None leaves both to the data: pictures are mirrored and cut a little, scenes, where left is a word, are not. `grain`
    rounds lengths up, so that few shapes of batches occur (for graph=true). `choose` says what picks the best
    checkpoint: the loss on references, or BLEU-4 or exact matches of greedy captions of the first `eval_images`.
    `beam` and what follows are for measuring; a caption has at most `extra` words.
    """

    batch: int = 64
    smoothing: float = 0.0
    flip: bool | None = None
    crop: float | None = None
    grain: int = 1
    choose: Literal["nats", "bleu", "exact"] = "nats"
    eval_images: int = 500
    beam: int = 3
    length_penalty: float = 0.6
    extra: int = 30

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("smoothing", "crop"):
            if not 0 <= (getattr(self, name) or 0) < 1:
                raise ContractError(f"captions: expected {name} in [0, 1), found {getattr(self, name)}")
        self.search()

    def search(self, **changes: Any) -> Search:
        """The settings of beam search; how long a caption may be does not depend on the size of the grid."""
        given = {"beam": self.beam, "length_penalty": self.length_penalty, "ratio": 0.0, "extra": self.extra}
        return Search(**given | changes)

    def greedy(self) -> Search:
        return self.search(beam=1, length_penalty=0.0)


class Batch(NamedTuple):
    images: Tensor  # B P P 3, uint8
    view: Tensor  # B 2 3, what part of each is looked at, as an affine map
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the captions, ends counted
    number: int


class CaptionsTask:
    """Pictures to describe."""

    name = "captions"
    in_nats = True
    repeats = True

    def __init__(self, config: Config, data: Captioned, device: torch.device | str = "cpu") -> None:
        self.config, self.data = config, data
        self.device = torch.device(device)
        self.metric = {"nats": "nats_per_token", "bleu": "minus_bleu", "exact": "wrong"}[config.choose]
        self.flip = data.mirrored if config.flip is None else config.flip
        self.crop = (0.15 if data.mirrored else 0.0) if config.crop is None else config.crop
        self.held: dict[int, Tensor] = {}

    def part(self, split: str) -> Part:
        found = getattr(self.data, split, None)
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Epoch after epoch, each picture once with one of its captions; what is left over at its end is left out."""
        part, rows = self.part(split), min(self.config.batch, len(self.part(split)))
        each = len(part) // rows
        epoch, skip = divmod(start, each)
        while True:
            draw = np.random.default_rng([seed, epoch])
            order = draw.permutation(len(part))
            captions = part.first[:-1] + (draw.random(len(part)) * np.diff(part.first)).astype(np.int64)
            view = views(draw, len(part), self.flip, self.crop)
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
        side, rows = self.data.side, [part.tokens_of(caption) for caption in captions]
        x, _ = pad([np.insert(row, 0, side.begin) for row in rows], side.pad, self.device)
        y, _ = pad([np.append(row, side.end) for row in rows], side.pad, self.device)
        more = -x.shape[1] % self.config.grain
        if more:
            x, y = (torch.nn.functional.pad(tokens, (0, more), value=side.pad) for tokens in (x, y))
        return x, y, sum(len(row) + 1 for row in rows)

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        images = numbers(batch.images, model)
        if self.flip or self.crop:
            images = look_at(images, batch.view)
        losses = self.losses(model, batch.x, batch.y, model.encode(images), self.config.smoothing)
        return Loss(losses.sum() / (batch.y != self.data.side.pad).sum(), batch.tokens)

    def losses(self, model: Any, x: Tensor, y: Tensor, memory: Memory, smoothing: float = 0.0) -> Tensor:
        """−log p of each token in nats, B T; 0 in the padding."""
        logits = model(x, memory=memory)[0].flatten(0, 1)
        found = cross_entropy(
            logits.float() if logits.dtype.itemsize < 4 else logits,
            y.flatten(),
            ignore_index=self.data.side.pad,
            reduction="none",
            label_smoothing=smoothing,
        )
        return found.view_as(y)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.images.shape[1])

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, pixels = shape
        return model.cost(rows, steps, model.eye.cells()).flops + model.encoder_flops(rows, pixels)

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """Nats per token of all references; BLEU-4 and exact matches of greedy captions of the first pictures."""
        found = self.forced(model, split)
        written = self.described(model, split, self.config.greedy(), self.config.eval_images)
        scores = {name: written[name] for name in ("bleu", "exact", "images")}
        return found | scores | {"minus_bleu": -written["bleu"], "wrong": 1 - written["exact"]}

    @torch.no_grad()
    def memories(self, model: Any, part: Part, count: int, shift: int = 0) -> Iterator[tuple[np.ndarray, Memory]]:
        """Pictures and what the model remembers of them; with `shift`, of the pictures so many places further on."""
        for rows in np.array_split(np.arange(count), math.ceil(count / self.config.batch)):
            images = self.images(part, (rows + shift) % len(part))
            yield rows, model.encode(numbers(images, model))

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
            for found in write(model, memory, self.data, search)
        ]

    def described(self, model: Any, split: str, search: Search, count: int | None = None) -> dict[str, Any]:
        """BLEU-1 to 4 against all references, and the share of captions that are one of them.

        `shuffled` are the same captions given to other pictures: what is left when the picture does not count.
        """
        part = self.part(split)
        started = time.perf_counter()
        lists = self.hypotheses(model, split, search, count)
        seconds = time.perf_counter() - started
        texts = [self.data.side.decode_prepared(found[0].tokens) for found in lists]
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
        if part.held_out is not None:
            right = np.array([text in some for text, some in zip(texts, references, strict=True)])
            held = part.held_out[: len(texts)]
            found["exact_by"] = {
                name: {"exact": float(right[which].mean()), "images": int(which.sum())}
                for name, which in (("seen", ~held), ("held out", held))
                if which.any()
            }
        return found

    def scores(self, found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
        """`scores` by words; where captions are written without blanks, by characters."""
        if not getattr(self.data.side.tokenizer, "spaceless", False):
            return scores(found, references)

        def parted(text: str) -> str:
            return " ".join(text.replace(" ", ""))

        return scores([parted(text) for text in found], [[parted(text) for text in some] for some in references])

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
                weights = looks(model, one, part.tokens_of(caption).tolist(), self.data.side.begin).get("mean")
                if weights is None:
                    return None
                covers = np.stack([cover(box, one.shape, self.data.pixels) for box in part.boxes[row]])  # M S
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

    # Without learning

    def baselines(self, split: str) -> dict[str, float]:
        """Nats per token of uniform guessing, and of the frequencies of the training words (add-one smoothed)."""
        side, train, part = self.data.side, self.part("train"), self.part(split)
        counts = np.bincount(train.tokens, minlength=side.size) + 1.0
        counts[side.end] += len(train.offsets) - 1
        nats = -np.log(counts / counts.sum())
        captions = len(part.offsets) - 1
        total = nats[part.tokens].sum() + nats[side.end] * captions
        return {"uniform": math.log(side.size), "unigram": float(total / (len(part.tokens) + captions))}

    def constant(self, split: str) -> dict[str, Any]:
        """The figures of one caption for all pictures: the common training caption that is best on training."""
        train, part = self.part("train"), self.part(split)
        common = Counter(caption for some in train.captions for caption in some)
        ranked = sorted(common, key=lambda caption: (-common[caption], caption))[:CANDIDATES]
        judges = train.captions[:JUDGES]
        judge = _metric(4, judges)
        best = max(ranked, key=lambda caption: judge.corpus_score([caption] * len(judges), None).score)
        return self.scores([best] * len(part), part.captions) | {"caption": best}


def write(model: Any, memory: Memory, kept: Any, search: Search) -> list[list[Hypothesis]]:
    """The n-best captions of each picture; `kept` is anything with the `side` of captions."""
    side = kept.side
    banned = [side.pad, side.begin, *([] if side.unknown is None else [side.unknown])]  # no word is no caption
    return beam.search(model, memory, begin=side.begin, end=side.end, config=search, banned=banned)


def numbers(images: Tensor, model: Any) -> Tensor:
    """B P P 3 from 0 to 255 → B 3 P P from 0 to 1, as precise as the model."""
    return images.permute(0, 3, 1, 2).to(model.like().dtype) / 255


def views(draw: np.random.Generator, count: int, flip: bool, crop: float) -> np.ndarray:
    """N 2 3: for each picture a random part of it, at least 1 − crop of each side, and whether it is mirrored."""
    size = 1 - crop * draw.random((count, 2))
    shift = (1 - size) * draw.uniform(-1, 1, size=(count, 2))
    mirror = np.where(draw.random(count) < 0.5, -1.0, 1.0) if flip else np.ones(count)
    found = np.zeros((count, 2, 3), np.float32)
    found[:, 0, 0], found[:, 1, 1], found[:, :, 2] = mirror * size[:, 0], size[:, 1], shift
    return found


def look_at(images: Tensor, view: Tensor) -> Tensor:
    """The part of each picture that `view` says, as large as the whole."""
    grid = affine_grid(view.to(images.dtype), list(images.shape), align_corners=False)
    return grid_sample(images, grid, padding_mode="border", align_corners=False)


def cover(box: Sequence[int] | np.ndarray, shape: tuple[int, ...], pixels: int) -> np.ndarray:
    """rows·columns: the share of each cell of a grid over the picture that lies inside a box."""
    left, top, right, bottom = (float(edge) for edge in box)

    def along(low: float, high: float, cells: int) -> np.ndarray:
        edges = np.linspace(0, pixels, cells + 1)
        inside = np.minimum(edges[1:], high) - np.maximum(edges[:-1], low)
        return np.clip(inside, 0, None) * cells / pixels

    rows, columns = shape
    return np.outer(along(top, bottom, rows), along(left, right, columns)).ravel()


def scores(found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Corpus BLEU-1 to 4 against all references, as papers on captions compute it, and the share that is exact."""
    each: dict[str, Any] = {}
    for order in ORDERS:
        metric = _metric(order, references)
        each[f"bleu{order}"] = metric.corpus_score(list(found), None).score
        each["signature"] = str(metric.get_signature())
    exact = sum(text in some for text, some in zip(found, references, strict=True)) / len(found)
    return each | {"bleu": each["bleu4"], "exact": exact}


def _metric(order: int, references: Sequence[Sequence[str]]) -> Any:
    """sacreBLEU's BLEU up to n-grams of this order; captions are tokenised and in small letters already."""
    from sacrebleu.metrics.bleu import BLEU

    most = max(map(len, references))
    streams = [[some[i] if i < len(some) else None for some in references] for i in range(most)]
    return BLEU(tokenize="none", force=True, max_ngram_order=order, smooth_method="none", references=streams)  # type: ignore[arg-type]
