"""What captions of pictures and of films share: words, losses, search, and how good captions are.

A thing to describe has one or several captions; training takes one of them each time it comes by, measuring asks for
all. The scores of captions stand beside those of the same captions for other things, and of one caption for all.
"""

import math
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from ...core import pieces
from ...core import state as states
from ...core.artifacts import artifact_path
from ...core.contract import Memory
from ...core.settings import refuse_both_ways
from ...core.task import LoadedRun
from ...data.files import DataError
from ...data.tokenizers.sentences import SentenceTokenizer
from ...decode.beam import Config as Search
from ...decode.beam import Hypothesis
from ...decode.translate import pad
from ..decoding import SAMPLES, DecodingTask, greedy_settings, guess_baselines, logits_of, search_settings, token_losses
from .bleu import ORDERS, bleu_metric, score_captions
from .captioned import Artifacts, CaptionedRows, load_artifacts, save_artifacts
from .describing import search_captions
from .gaze import Looked

CANDIDATES = 100  # of the commonest training captions, tried as the one caption for all
JUDGES = 1_000  # training examples that they are tried on
D = TypeVar("D", bound=Any)


class CaptioningTask(DecodingTask[D, Artifacts]):
    """Pictures or films to describe."""

    choice: ClassVar[Mapping[str, str]] = {"nats": "nats_per_token", "bleu": "minus_bleu", "exact": "wrong"}
    request_options: ClassVar[Sequence[str]] = ("image",)
    refused: ClassVar[Mapping[str, str]] = refuse_both_ways("captions, which are written from left to right")

    def __init__(self, config: Any, data: D, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.metric = self.choice[config.choose]

    # What each kind of thing has its own of

    @classmethod
    @abstractmethod
    def row_names(cls) -> tuple[str, str]:
        """Of a table: captions, and the same given to others."""

    @classmethod
    @abstractmethod
    def grouping(cls) -> str:
        """What the shares of `groups` are."""

    @classmethod
    @abstractmethod
    def count(cls, number: float) -> str:
        """So many of what is described, in words."""

    @classmethod
    @abstractmethod
    def title(cls, number: int) -> str:
        """One of what is described, by its number."""

    @property
    @abstractmethod
    def shown(self) -> int:
        """How many captions an evaluation writes."""

    @abstractmethod
    def encode(self, model: Any, part: Any, rows: np.ndarray) -> Memory:
        """What a model remembers of some things of a part."""

    def groups(self, part: Any) -> dict[str, np.ndarray]:
        """Kinds of things whose captions are measured apart too, by name: N bools each."""
        return {} if part.held_out is None else {"seen": ~part.held_out, "held out": part.held_out}

    def generated(self, part: Any) -> bool:
        """Whether the captions of a part are all that are true, so that one of them is right and any other wrong."""
        return part.held_out is not None

    def judge(self, part: Any, text: str, references: Sequence[str]) -> dict[str, bool]:
        """In which ways a caption is right: `exact`, where it is one of the references."""
        return {"exact": text in references}

    @staticmethod
    @abstractmethod
    def look(run: LoadedRun[Any, Any], image: str | None, layer: int | None, head: int | None) -> Looked:
        """Where a run looked for each word of its own caption, of a file or of the first row of validation."""

    # Data

    @classmethod
    def artifacts_of(cls, data: D) -> Artifacts:
        return Artifacts(data.tokenizer, data.pixels)

    @classmethod
    def save_artifacts(cls, artifacts: Artifacts, folder: Path) -> None:
        save_artifacts(artifacts, folder / "tokenizer.json")

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_artifacts(artifact_path(folder, "tokenizer.json"))

    @classmethod
    def describe_data(cls, data: D) -> dict[str, Any]:
        counts = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test) if data.test else 0}
        about = {"captions": len(data.train.offsets) - 1, "pixels": data.pixels, "words": data.tokenizer.size}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    @classmethod
    def model_sizes(cls, artifacts: Artifacts) -> dict[str, int]:
        return {"words": artifacts.tokenizer.size, "pixels": artifacts.pixels}

    @classmethod
    def target_tokenizer(cls, artifacts: Artifacts) -> SentenceTokenizer:
        return artifacts.tokenizer

    # Training

    def part(self, split: str) -> Any:
        found = getattr(self.data, split, None)
        if found is None:
            raise DataError(f"{self.data.name}: expected a {split} part, found none")
        return found

    def written(self, part: CaptionedRows, captions: Sequence[int] | np.ndarray) -> tuple[Tensor, Tensor, int]:
        """What the decoder reads and what it should write, B T each, and how many tokens that is."""
        tokenizer, rows = self.data.tokenizer, [part.tokens_of(caption) for caption in captions]
        x, _ = pad([np.insert(row, 0, tokenizer.begin) for row in rows], tokenizer.pad, self.device)
        y, _ = pad([np.append(row, tokenizer.end) for row in rows], tokenizer.pad, self.device)
        more = -x.shape[1] % self.config.grain
        if more:
            x, y = (torch.nn.functional.pad(tokens, (0, more), value=tokenizer.pad) for tokens in (x, y))
        return x, y, sum(len(row) + 1 for row in rows)

    def losses(self, model: Any, x: Tensor, y: Tensor, memory: Memory, smoothing: float = 0.0) -> Tensor:
        """−log p of each token in nats, B T; 0 in the padding."""
        return token_losses(logits_of(model, x, memory), y, self.data.tokenizer.pad, smoothing)

    # Measuring

    def evaluate(self, model: Any, split: str) -> dict[str, Any]:
        """Nats per token of all references; BLEU-4 and exact matches of greedy captions of the first pictures."""
        found = self.forced(model, split)
        written = self.described(model, split, greedy_settings(self.config), self.shown)
        scores = {name: written[name] for name in ("bleu", "exact", "images")}
        return found | scores | {"minus_bleu": -written["bleu"], "wrong": 1 - written["exact"]}

    @torch.no_grad()
    def memories(self, model: Any, part: Any, count: int, shift: int = 0) -> Iterator[tuple[np.ndarray, Memory]]:
        """Rows and what the model remembers of them; with `shift`, of those so many places further on."""
        for rows in np.array_split(np.arange(count), math.ceil(count / self.config.batch)):
            yield rows, self.encode(model, part, (rows + shift) % len(part))

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
        """The n-best captions of the first `count` pictures or films (default: all)."""
        part = self.part(split)
        count = len(part) if count is None else min(count, len(part))
        return [
            found
            for _, memory in self.memories(model, part, count)
            for found in search_captions(model, memory, self.data.tokenizer, search)
        ]

    def described(self, model: Any, split: str, search: Search, count: int | None = None) -> dict[str, Any]:
        """BLEU-1 to 4 against all references, and the share of captions that are one of them.

        `shuffled` are the same captions given to others: what is left when what was seen does not count.
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
        judged = [self.judge(part, text, some) for text, some in zip(texts, references, strict=True)]
        right = {name: np.array([one[name] for one in judged]) for name in judged[0]}
        found |= {name: float(each.mean()) for name, each in right.items()}
        found["pieces"] = {"exact": pieces.cut(right["exact"])}
        groups = {name: which[: len(texts)] for name, which in self.groups(part).items()}
        if groups:
            found["exact_by"] = {
                name: {kind: float(each[which].mean()) for kind, each in right.items()} | {"images": int(which.sum())}
                for name, which in groups.items()
                if which.any()
            }
        return found

    def scores(self, found: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
        return score_captions(found, references, getattr(self.data.tokenizer.tokenizer, "spaceless", False))

    def baselines(self, split: str) -> dict[str, float]:
        train, part = self.part("train"), self.part(split)
        counts = [len(each.offsets) - 1 for each in (train, part)]
        return guess_baselines(self.data.tokenizer, train.tokens, counts[0], part.tokens, counts[1])

    def constant(self, split: str) -> dict[str, Any]:
        """The figures of one caption for all: the common training caption that is best on training."""
        train, part = self.part("train"), self.part(split)
        common = Counter(caption for some in train.captions for caption in some)
        ranked = sorted(common, key=lambda caption: (-common[caption], caption))[:CANDIDATES]
        judges = train.captions[:JUDGES]
        judge = bleu_metric(4, judges)
        best = max(ranked, key=lambda caption: judge.corpus_score([caption] * len(judges), None).score)
        return self.scores([best] * len(part), part.captions) | {"caption": best}

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """BLEU of captions by beam search, beside those of other rows and of one caption for all; and the loss."""
        found = self.described(model, split, search_settings(self.config, **options.get("search", {})))
        part, in_pieces = self.part(split), found.pop("pieces")
        all_true = self.generated(part)
        name = "exact" if all_true else "bleu"
        how = "one of the true captions" if all_true else f"lowercased, tokenised, {found['signature']}"
        most = max(map(len, part.captions))
        forced = self.forced(model, split)
        rule = f"{how}, {found['search']}, {self.count(found['images'])}, up to {most} references each"
        return {
            "metric": {"name": name, "value": found[name], "rule": rule},
            "described": found,
            "constant": self.constant(split),
            "forced": forced,
            "forced_shuffled": self.forced(model, split, shift=len(part) // 2),
            "baselines": self.baselines(split),
            "compared": self.compared(forced),
        } | ({"pieces": in_pieces} if options.get("pieces") else {})

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        described, constant = found["described"], found["constant"]
        columns = ("captions", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact", "nats/token")
        own, others = cls.row_names()

        def row(name: str, scores: dict[str, Any], nats: str) -> list[str]:
            bleus = [f"{scores[f'bleu{order}']:.2f}" for order in ORDERS]
            return [name, *bleus, f"{100 * scores['exact']:.1f} %", nats]

        rows = [
            row(own, described, f"{found['forced']['nats_per_token']:.4f}"),
            row(others, described["shuffled"], f"{found['forced_shuffled']['nats_per_token']:.4f}"),
            row("one for all", constant, f"{found['baselines']['unigram']:.4f}"),
        ]
        below = [
            f"{found['metric']['name']}: {found['metric']['rule']}",
            f"one for all: {constant['caption']!r}; its nats/token are those of the words' frequencies",
            f"{100 * described['distinct']:.1f} % of the captions are distinct; "
            f"{cls.count(described['images'] / described['seconds'])}/s",
        ]
        if "exact_by" in described:
            shares = "  ".join(
                f"{name} {100 * entry['exact']:.1f} % of {entry['images']:,}"
                for name, entry in described["exact_by"].items()
            )
            below.append(f"{cls.grouping()}: {shares}")
        return columns, rows, below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return (
            f"validation {found['nats_per_token']:.4f} nats/token; greedy captions of {cls.count(found['images'])}: "
            f"BLEU-4 {found['bleu']:.2f}, exact {100 * found['exact']:.1f} %"
        )

    # Inspection and races

    def sample(self, run: LoadedRun[Any, Artifacts]) -> list[dict[str, Any]]:
        """The first rows of validation by number, each with a reference and the model's own caption."""
        tokenizer, references = run.artifacts.tokenizer, self.part("valid").captions
        lists = self.hypotheses(run.model, "valid", greedy_settings(self.config), SAMPLES)
        texts = [tokenizer.decode_prepared(found[0].tokens) for found in lists]
        return [
            {"source": self.title(i + 1), "reference": references[i][0], "output": text}
            | {"right": text in references[i]}
            for i, text in enumerate(texts)
        ]
