"""Captions: describe a picture word by word, attending to each thing while it is named."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core import state as states
from ...core.contract import Memory
from ...core.summary import DataSummary
from ...core.task import LoadedRun, Loss, RunConfig
from ...data.files import absolute_name
from ...decode.translate import looks
from . import data, model, probe
from .captioned import Artifacts, Captioned, Part, summarize
from .captioning import CaptioningTask
from .export import CaptionsExports
from .films.task import FilmsTask
from .gaze import look as look_at
from .images import apply_views, box_coverage, random_views, to_floats
from .settings import Config, DataConfig
from .sources import SETS, SHAPES

ON_DEVICE = 8 << 30  # bytes of pictures up to which a GPU holds them all


class Batch(NamedTuple):
    images: Tensor  # B P P 3, uint8
    view: Tensor  # B 2 3, the part of each that is cropped, as an affine map
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the captions, ends counted
    number: int


class CaptionsTask(CaptioningTask[Captioned]):
    """Pictures to describe."""

    name = "captions"
    data_config = DataConfig
    task_config = Config
    exports = CaptionsExports()
    model_config = model.Config
    usual: ClassVar[Mapping[str, str]] = {"lr": "2e-3", "weight_decay": "0.01", "steps": "2000", "batch": "32"}

    def __init__(self, config: Config, data: Captioned, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
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

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        images = to_floats(batch.images, model)
        if self.flip or self.crop:
            images = apply_views(images, batch.view)
        losses = self.losses(model, batch.x, batch.y, model.encode(images), self.config.smoothing)
        terms = (batch.y != self.data.tokenizer.pad).sum()
        return Loss(losses.sum() / terms, batch.tokens, terms=terms)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.images.shape[1])

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, pixels = shape
        return model.cost(rows, steps, model.eye.cells()).flops + model.encoder_flops(rows, pixels)

    # Measuring

    @property
    def shown(self) -> int:
        return self.config.eval_images

    @classmethod
    def row_names(cls) -> tuple[str, str]:
        return "of this picture", "of another picture"

    @classmethod
    def grouping(cls) -> str:
        return "exact by combination of colour and shape"

    @classmethod
    def count(cls, number: float) -> str:
        return f"{number:,.0f} pictures"

    @classmethod
    def title(cls, number: int) -> str:
        return f"picture {number}"

    def encode(self, model: Any, part: Part, rows: np.ndarray) -> Memory:
        return model.encode(to_floats(self.images(part, rows), model))

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

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        """As of all captions; and where it looked."""
        return super().figures(model, split, **options) | {"gaze": self.gaze(model, split)}

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        columns, rows, below = super().table(found)
        if gaze := found["gaze"]:
            below.append(
                f"attention on the box of the thing that is named {100 * gaze['named']:.1f} %, of the other "
                f"{100 * gaze['other']:.1f} %; spread evenly {100 * gaze['even']:.1f} %, at best for this grid "
                f"{100 * gaze['best']:.1f} %"
            )
        return columns, rows, below

    # Inspection and races

    probe = staticmethod(probe.probe)
    look = staticmethod(look_at)

    def declared_cost(self, run: LoadedRun[Captioned, Artifacts], length: int) -> tuple[float, float]:
        """Of a caption of that length, its picture already read."""
        own = run.model.cost(1, length, run.model.eye.cells())
        return own.flops, own.state_bytes


TASKS = (CaptionsTask, FilmsTask)
