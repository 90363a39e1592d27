"""Films: say what happens, in its order, by a memory that goes from frame to frame."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ....core.artifacts import artifact_path
from ....core.contract import Memory
from ....core.summary import DataSummary
from ....core.task import LoadedRun, Loss, RunConfig
from ....data.files import absolute_name, load_json
from ....layers import LAYERS
from ....models import body
from ....models.body import StackedModels
from .. import captioned
from ..captioning import CaptioningTask
from . import data, probe
from .export import FilmsExports
from .filmed import Artifacts, Filmed, Part, summarize
from .frames import join_films, to_frames
from .gaze import look as look_at
from .model import BAG, MODELS
from .model import Config as FilmConfig
from .scenes import THEN
from .settings import Config, DataConfig
from .sources import MOVING

EXAMPLE = 5  # frames of a film for the laws
MEMORY_ONLY = (  # settings of a memory over frames, which the bag has not
    "layers", "block", "feed", "activation", "norm", "order", "positions", "max_positions", "bias", "input_dropout",
    "output_dropout", "variational", "taps",
)  # fmt: skip


class Batch(NamedTuple):
    frames: Tensor  # B T P P 3, uint8, zero where a film has ended
    lengths: Tensor  # B, frames of each film
    x: Tensor  # B T: begin, y₁, y₂, …
    y: Tensor  # B T: y₁, y₂, …, end, then padding
    tokens: int  # of the captions, ends counted
    number: int


class FilmsTask(StackedModels, CaptioningTask[Filmed]):
    """Films to describe: the model is the memory over frames, `decoder` what writes."""

    name = "films"
    models = MODELS
    default = "gru"
    aliases: ClassVar[Mapping[str, str]] = {}
    data_config = DataConfig
    task_config = Config
    exports = FilmsExports()
    model_config = FilmConfig
    usual: ClassVar[Mapping[str, str]] = {"lr": "2e-3", "weight_decay": "0.01", "steps": "3000", "batch": "32"}

    # Data and models

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Any = None) -> Filmed:
        settings = asdict(config)
        settings["share"] = settings.pop("held_out")  # a model's `share` says which tables are one
        return data.load(**settings, artifacts=artifacts)

    @classmethod
    def generated_rows(cls, config: DataConfig) -> int | None:
        return config.count if not config.data or config.data[0] == MOVING else None

    @classmethod
    def artifacts_of(cls, data: Filmed) -> Artifacts:
        return Artifacts(data.tokenizer, data.pixels, data.frames)

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_json(artifact_path(folder, "tokenizer.json"), "the words of captions", Artifacts.from_json)

    @classmethod
    def describe_data(cls, data: Filmed) -> dict[str, Any]:
        return super().describe_data(data) | {"frames": int(data.train.lengths.sum())}

    @classmethod
    def summarize_data(cls, data: Filmed) -> str:
        return (
            f"{len(data.train):,} films of {data.name} at {data.pixels} pixels, "
            f"{len(data.train.offsets) - 1:,} captions of {data.tokenizer.size:,} words"
        )

    @classmethod
    def data_summary(cls, data: Filmed) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: captioned.Artifacts) -> DataConfig:
        """All of another folder is the part that is measured; rendered films have parts and keep them."""
        return replace(config, data=tuple(data), whole=data[0] != MOVING)

    @classmethod
    def check_model(cls, model: str) -> str:
        if model == BAG:
            return model
        return super().check_model(model)

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        if model == BAG:
            return {"model": FilmConfig}
        return {"model": FilmConfig, "layer": LAYERS[body.kind_of(model).layer]}

    @classmethod
    def unused_settings(cls, model: str) -> Sequence[str]:
        return MEMORY_ONLY if model == BAG else ()

    @classmethod
    def layer_of(cls, model: str) -> str:
        return "soft-align" if model == BAG else super().layer_of(model)

    @classmethod
    def resolve(cls, run: RunConfig, data: Filmed, params: int | None) -> RunConfig:
        folders = tuple(absolute_name(name, (MOVING,)) for name in run.data.data)
        return replace(
            run,
            data=replace(run.data, data=folders, pixels=data.pixels),
            model=cls.resolve_model(run.model, cls.artifacts_of(data), params),
        )

    @classmethod
    def law_example(cls, model: Any, artifacts: captioned.Artifacts) -> tuple[nn.Module, Tensor, Memory | None]:
        """Films of unequal length."""
        draw = torch.Generator().manual_seed(0)
        side = artifacts.pixels
        frames = torch.rand(3, EXAMPLE, 3, side, side, generator=draw, dtype=model.like().dtype)
        with torch.no_grad():
            memory = model.encode(frames, torch.tensor([EXAMPLE, 2, EXAMPLE - 1]))
        return model, torch.randint(artifacts.tokenizer.size, (3, 12), generator=draw), memory

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return model.cost(1, 20, model.places(7)).state_bytes

    # Training

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Epoch after epoch, each film once with one of its captions; what is left over at its end is left out."""
        part, rows = self.part(split), min(self.config.batch, len(self.part(split)))
        each = len(part) // rows
        epoch, skip = divmod(start, each)
        while True:
            draw = np.random.default_rng([seed, epoch])
            order = draw.permutation(len(part))
            captions = part.first[:-1] + (draw.random(len(part)) * np.diff(part.first)).astype(np.int64)
            for number in range(skip, each):
                some = order[number * rows : (number + 1) * rows]
                x, y, tokens = self.written(part, captions[some])
                yield Batch(*self.frames(part, some), x, y, tokens, epoch * each + number)
            epoch, skip = epoch + 1, 0

    def frames(self, part: Part, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """B T P P 3, uint8, as long as the longest of these films, and the length of each."""
        return join_films([part.film(row) for row in rows.tolist()], self.device)

    def loss(self, model: Any, batch: Batch, carry: Any = None) -> Loss:
        memory = model.encode(to_frames(batch.frames, model), batch.lengths)
        losses = self.losses(model, batch.x, batch.y, memory, self.config.smoothing)
        terms = (batch.y != self.data.tokenizer.pad).sum()
        return Loss(losses.sum() / terms, batch.tokens, terms=terms)

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (*batch.x.shape, batch.frames.shape[1])

    def flops(self, model: Any, *shape: int) -> float:
        rows, steps, frames = shape
        return model.cost(rows, steps, model.places(frames)).flops + model.encoder_flops(rows, frames)

    # Measuring

    @property
    def shown(self) -> int:
        return self.config.eval_films

    @classmethod
    def row_names(cls) -> tuple[str, str]:
        return "of this film", "of another film"

    @classmethod
    def grouping(cls) -> str:
        return "exact by number of events"

    @classmethod
    def count(cls, number: float) -> str:
        return f"{number:,.0f} films"

    @classmethod
    def title(cls, number: int) -> str:
        return f"film {number}"

    def encode(self, model: Any, part: Part, rows: np.ndarray) -> Memory:
        frames, lengths = self.frames(part, rows)
        return model.encode(to_frames(frames, model), lengths)

    def groups(self, part: Part) -> dict[str, np.ndarray]:
        """Films of each number of events, with combinations of thing and action that training has and has not."""
        if part.events is None or part.held_out is None:
            return {}
        return {
            f"{count} event{'s' * (count > 1)}, {name}": (part.events == count) & which
            for name, which in (("seen", ~part.held_out), ("held out", part.held_out))
            for count in sorted(set(part.events.tolist()))
        }

    def judge(self, part: Part, text: str, references: Sequence[str]) -> dict[str, bool]:
        """`any_order` is whether the events of a rendered film are right, in whatever order they are told."""
        found = super().judge(part, text, references)
        if part.events is None:
            return found
        return found | {"any_order": sorted(text.split(THEN)) in [sorted(one.split(THEN)) for one in references]}

    # Inspection and races

    probe = staticmethod(probe.probe)
    look = staticmethod(look_at)

    def declared_cost(self, run: LoadedRun[Filmed, captioned.Artifacts], length: int) -> tuple[float, float]:
        """Of a caption of that length, its film already read."""
        own = run.model.cost(1, length, run.model.places(EXAMPLE))
        return own.flops, own.state_bytes
