"""The job of captions: pictures in, a model that says what they show out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory, check_settings
from ..decode.beam import Config as Search
from ..decode.beam import Hypothesis
from ..decode.sample import device_of
from ..models import seq2seq
from ..tasks.captions import data as pictures
from ..tasks.captions import model as captioner
from ..tasks.captions import task as captions
from ..tasks.captions.captioned import Artifacts, Captioned, load_artifacts, save_artifacts
from ..tasks.captions.data import LONGEST, SHARE
from ..tasks.captions.picture_files import read_picture
from ..tasks.captions.sources import COUNTS, SETS, SHAPES
from .folder import RunError
from .job import Job, Run, Used, told

MODELS = ("fixed", "context", "attend", "conv", "transformer")
TOGETHER = 16  # pictures that are described at once
VIEW = 512  # pixels of the longer side of a picture as it is shown again


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pictures are (none: rendered scenes), and how they are read; see `data.pictures.load`.

    `held_out` is the share of a folder's pictures for validation, and as much for the test.
    """

    data: tuple[str, ...] = ()
    pixels: int | None = None
    least: int | None = None
    longest: int = LONGEST
    held_out: float = SHARE
    count: int = COUNTS["train"]
    whole: bool = False

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.data, tuple) or not all(isinstance(part, str) for part in self.data):
            raise ContractError(f"data: expected data to be names of folders, found {self.data!r}")
        if self.pixels is not None and not 16 <= self.pixels <= 1024:
            raise ContractError(f"data: expected pixels from 16 to 1024, found {self.pixels}")


class CaptionsJob(Job[Captioned, Artifacts]):
    """The decoders of sequence to sequence over what a CNN leaves of a picture."""

    name = "captions"
    models = MODELS
    default = "attend"
    data_config = DataConfig
    task_config = captions.Config
    usual: ClassVar[Mapping[str, str]] = {"lr": "2e-3", "weight_decay": "0.01", "steps": "2000", "batch": "32"}

    def homes(self, model: str) -> dict[str, type]:
        return {"model": captioner.Config}

    def idle(self, model: str) -> Sequence[str]:
        return () if model in seq2seq.RECURRENT else ("cell",)

    def read(self, config: DataConfig, data_dir: str | None, kept: Artifacts | None = None) -> Captioned:
        given = asdict(config)
        given["share"] = given.pop("held_out")  # a model's `share` says which tables are one
        return pictures.load(**given, data_dir=data_dir, kept=kept)

    def keep(self, data: Captioned) -> Artifacts:
        return Artifacts(data.side, data.pixels)

    def save(self, kept: Artifacts, folder: Path) -> None:
        save_artifacts(kept, folder / "tokenizer.json")

    def recall(self, folder: Path) -> Artifacts:
        path = folder / "tokenizer.json"
        if not path.exists():
            raise RunError(f"{path}: expected this file in the run folder, found none")
        return load_artifacts(path)

    def describe(self, data: Captioned) -> dict[str, Any]:
        counts = {"train": len(data.train), "valid": len(data.valid), "test": len(data.test) if data.test else 0}
        about = {"captions": len(data.train.offsets) - 1, "pixels": data.pixels, "words": data.side.size}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | about | {"notes": data.notes}

    def greet(self, data: Captioned) -> str:
        return (
            f"{len(data.train):,} pictures of {data.name} at {data.pixels} pixels, "
            f"{len(data.train.offsets) - 1:,} captions of {data.side.size:,} words"
        )

    def resolve(self, run: Run, data: Captioned, params: int | None) -> Run:
        settings = {name: value for name, value in run.model.items() if name not in ("name", "pixels")}
        name = run.model["name"]
        config = captioner.Config(words=data.side.size, pixels=data.pixels, model=name, **settings).resolved()
        if params is not None:
            config = config.sized(params)
        full = {key: value for key, value in asdict(config).items() if key not in ("words", "pixels", "model")}
        task = captions.CaptionsTask(run.task, data)
        return replace(
            run,
            data=replace(run.data, data=tuple(map(anchor, run.data.data)), pixels=data.pixels),
            task=replace(run.task, flip=task.flip, crop=task.crop),
            model={"name": name} | full,
        )

    def build(self, settings: dict[str, Any], kept: Artifacts, inside: tuple[Path, ...] = ()) -> nn.Module:
        settings = dict(settings)
        name = settings.pop("name", None)
        if name not in MODELS:
            raise ContractError(f"model: expected one of {', '.join(MODELS)}, found {name!r}")
        try:
            return captioner.Config(words=kept.side.size, pixels=kept.pixels, model=name, **settings).build()
        except (KeyError, TypeError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(name, error) from error

    def task(self, run: Run, data: Captioned, device: str) -> captions.CaptionsTask:
        return captions.CaptionsTask(run.task, data, device)

    def figures(self, model: nn.Module, task: captions.CaptionsTask, split: str, **options: Any) -> dict[str, Any]:
        """BLEU of captions by beam search, beside those of other pictures and of one caption for all; and the loss."""
        search = task.config.search(**options.get("search", {}))
        found = task.described(model, split, search)
        part = task.part(split)
        scenic = part.boxes is not None
        name = "exact" if scenic else "bleu"
        how = "one of the true captions" if scenic else f"lowercased, tokenised, {found['signature']}"
        most = max(map(len, part.captions))
        rule = f"{how}, {found['search']}, {found['images']:,} pictures, up to {most} references each"
        return {
            "metric": {"name": name, "value": found[name], "rule": rule},
            "described": found,
            "constant": task.constant(split),
            "forced": task.forced(model, split),
            "forced_shuffled": task.forced(model, split, shift=len(part) // 2),
            "gaze": task.gaze(model, split),
            "baselines": task.baselines(split),
        }

    def example(self, model: Any, kept: Artifacts) -> tuple[Tensor, Memory | None]:
        draw = torch.Generator().manual_seed(0)
        images = torch.rand(3, 3, kept.pixels, kept.pixels, generator=draw, dtype=model.like().dtype)
        with torch.no_grad():
            memory = model.encode(images)
        return torch.randint(kept.side.size, (3, 12), generator=draw), memory

    def state_bytes(self, model: Any, run: Run) -> int:
        return model.cost(1, 20, model.eye.cells()).state_bytes

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        described, constant = found["described"], found["constant"]
        columns = ("captions", "BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "exact", "nats/token")

        def row(name: str, scores: dict[str, Any], nats: str) -> list[str]:
            bleus = [f"{scores[f'bleu{order}']:.2f}" for order in captions.ORDERS]
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

    def headline(self, found: dict[str, Any]) -> str:
        return (
            f"validation {found['nats_per_token']:.4f} nats/token; greedy captions of {found['images']:,} pictures: "
            f"BLEU-4 {found['bleu']:.2f}, exact {100 * found['exact']:.1f} %"
        )

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Artifacts) -> DataConfig:
        """All of another folder is the part that is measured; sets that have parts keep them."""
        return replace(config, data=tuple(data), whole=data[0] not in (SHAPES, *SETS))


JOB = CaptionsJob()


def anchor(name: str) -> str:
    """A folder by its full name, so that a run can be gone on with from elsewhere."""
    return name if name in (SHAPES, *SETS) or not Path(name).exists() else str(Path(name).absolute())


class Described(NamedTuple):
    """A picture, and what the model says of it."""

    file: str
    image: np.ndarray  # P P 3, as the model saw it
    found: list[Hypothesis]  # best first
    texts: list[str]
    notes: list[str]


@torch.inference_mode()
def caption(used: Used[Artifacts], files: Iterable[str | Path], search: Search | None = None) -> Iterator[Described]:
    """What a run says of each file, in order. A file that is no picture is one clear line."""
    config: Search = search or used.run.task.search()
    waiting = iter(files)
    while some := list(islice(waiting, TOGETHER)):
        read = [read_picture(file, used.kept.pixels) for file in some]
        images = torch.from_numpy(np.stack([image for image, _ in read])).to(device_of(used.model))
        memory = used.model.encode(captions.numbers(images, used.model))
        lists = captions.write(used.model, memory, used.kept, config)
        for file, (image, notes), found in zip(some, read, lists, strict=True):
            texts = [used.kept.side.decode(hypothesis.tokens) for hypothesis in found]
            yield Described(str(file), image, found, texts, notes)


def view(file: str | Path) -> np.ndarray:
    """A picture in its own proportions, to draw a gaze over."""
    return read_picture(file, VIEW, square=False)[0]
