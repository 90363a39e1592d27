"""Ratings: predict how a user would rate an item, from all other ratings.

RMSE is the root of the mean squared distance to the rating that was given, MAE the mean distance; a score beyond the
lowest or highest training rating counts as that rating.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...core.artifacts import write_artifact
from ...core.contract import ContractError, Memory
from ...core.settings import known
from ...core.summary import DataSummary
from ...core.task import LoadedRun, LoadRun, Loss, RunConfig, RunError, Task, building
from ...data.files import DataError, absolute_name, absolute_names
from ...models import size
from . import data
from . import model as vectors
from .export import RatingsExports
from .rated import Artifacts, Part, Ratings, load_artifacts, summarize
from .settings import GENERATED, TRUTH, Config, DataConfig

# name → the settings that it stands for
MODELS: dict[str, dict[str, Any]] = {"dot": {}, "features": {"dim": 0}, "biases": {"dim": 0}}


class Batch(NamedTuple):
    users: Tensor  # B
    items: Tensor  # B
    y: Tensor  # B
    number: int = 0


class RatingsTask(Task[Ratings, Artifacts]):
    """Ratings to predict from vectors of users and items."""

    name = "ratings"
    models = tuple(MODELS)
    default = "dot"
    data_config = DataConfig
    task_config = Config
    exports = RatingsExports()
    usual: ClassVar[Mapping[str, str]] = {"lr": "0.03", "warmup": "20"}  # every vector is seen in few batches
    unsized = ("features", "biases")
    sequential = False
    metric = "rmse"
    instead: Mapping[str, str] = {"biases": "--model biases"}
    bounds = ("noise",)

    def __init__(self, config: Config, data: Ratings, device: torch.device | str = "cpu", seed: int = 0) -> None:
        super().__init__(config, data, device, seed)
        self.parts: dict[str, tuple[Tensor, ...]] = {}

    # Data and models

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        return {"model": vectors.Config}

    @classmethod
    def load_data(cls, config: DataConfig, data_dir: str | None, artifacts: Artifacts | None = None) -> Ratings:
        given = {name: getattr(config, name) for name in ("valid", "test", "share", "features", "titles")}
        return data.load(config.data, **given, generated=config, artifacts=artifacts)

    @classmethod
    def generated_rows(cls, config: DataConfig) -> int | None:
        return config.ratings if config.data in ((), (GENERATED,)) else None

    @classmethod
    def artifacts_of(cls, data: Ratings) -> Artifacts:
        return data.artifacts

    @classmethod
    def save_artifacts(cls, artifacts: Artifacts, folder: Path) -> None:
        write_artifact(folder, "names.json", artifacts.to_json())

    @classmethod
    def load_artifacts(cls, folder: Path) -> Artifacts:
        return load_artifacts(folder)

    @classmethod
    def describe_data(cls, data: Ratings) -> dict[str, Any]:
        counts = {"users": len(data.artifacts.users), "items": len(data.artifacts.items)}
        sizes = {"train": len(data.train.scores), "valid": len(data.valid.scores)}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | sizes | {"notes": data.notes}

    @classmethod
    def summarize_data(cls, data: Ratings) -> str:
        return (
            f"{len(data.train.scores):,} training ratings of {data.name}, {len(data.artifacts.users):,} users, "
            f"{len(data.artifacts.items):,} items"
        )

    @classmethod
    def data_summary(cls, data: Ratings) -> DataSummary:
        return summarize(data)

    @classmethod
    def other_data(cls, config: DataConfig, data: Sequence[str], artifacts: Artifacts) -> DataConfig:
        """All of other ratings is the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data), features=None, titles=None)

    @classmethod
    def resolve(cls, run: RunConfig, data: Ratings, params: int | None) -> RunConfig:
        known_names = (GENERATED, TRUTH)
        files = {name: getattr(run.data, name) for name in ("features", "titles")}
        files = {name: value and absolute_name(value, known_names) for name, value in files.items()}
        run = replace(run, data=replace(absolute_names(run.data, known_names), **files))
        config = configure_model(run.model, data.artifacts)
        if params is not None:
            if run.model["name"] != "dot":
                raise ContractError(f"params: expected the model dot, whose dim is free, found {run.model['name']!r}")
            dim = size.solve(lambda dim: replace(config, dim=dim).build(), params, what="dot")
            config = replace(config, dim=dim)
        own = asdict(config)
        return replace(run, model={"name": run.model["name"]} | {name: own[name] for name in ("dim", "bias", "scale")})

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: Artifacts, load_run: LoadRun) -> nn.Module:
        with building(str(settings.get("name"))):
            model = configure_model(settings, artifacts).build()
            model.set_mean(artifacts.mean)
            if artifacts.matrix is not None and model.config.features:
                model.set_features(torch.from_numpy(artifacts.matrix))
            return model

    @classmethod
    def law_example(cls, model: Any, artifacts: Artifacts) -> tuple[nn.Module, Tensor, Memory | None]:
        """Refused: the laws are about memory, and here is none."""
        raise RunError(
            "expected a model that reads a sequence, found ratings, where a score depends on one pair alone: there is "
            "no state for the laws to hold; measure it with recollect eval"
        )

    @staticmethod
    def probe(run: LoadedRun[Ratings, Artifacts], request: Any) -> Any:
        raise RunError(
            f"{run.path}: expected a model that reads a sequence, found ratings; ask for directions or nearest"
        )

    @classmethod
    def state_bytes(cls, model: Any, run: RunConfig) -> int:
        return 0

    # Training and measuring

    def part(self, split: str) -> Part:
        if split not in ("train", "valid", "test"):
            raise DataError(f"{self.data.name}: expected a split out of train, valid, test, found {split!r}")
        return getattr(self.data, split)

    def tensors(self, split: str) -> tuple[Tensor, ...]:
        """Users, items and scores on the device."""
        if split not in self.parts:
            self.parts[split] = tuple(torch.from_numpy(column).to(self.device) for column in self.part(split))
        return self.parts[split]

    def batches(self, split: str, seed: int, start: int = 0) -> Iterator[Batch]:
        """Every rating once an epoch, but for a last batch that would be too small; in another order each time."""
        columns = self.tensors(split)
        total = len(columns[0])
        each = min(self.config.batch, total)
        count = total // each
        number, epoch, order = start, -1, torch.zeros(0)
        while True:
            if number // count != epoch:
                epoch = number // count
                order = torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(total)).to(self.device)
            rows = order[number % count * each :][:each]
            users, items, scores = (column[rows] for column in columns)
            yield Batch(users, items, scores, number)
            number += 1

    def loss(self, model: nn.Module, batch: Batch, carry: Any = None) -> Loss:
        return Loss((model(batch.users, batch.items) - batch.y).square().mean(), len(batch.y))

    def shape(self, batch: Batch) -> tuple[int, ...]:
        return (len(batch.y),)

    def flops(self, model: vectors.Ratings, *shape: int) -> float:
        return 2 * shape[0] * model.config.width

    @torch.no_grad()
    def evaluate(self, model: nn.Module, split: str) -> dict[str, Any]:
        users, items, _ = self.tensors(split)
        size = self.config.eval_batch
        scores = torch.cat([model(users[at : at + size], items[at : at + size]) for at in range(0, len(users), size)])
        found = self.judge(scores.double().cpu().numpy(), split)
        if self.data.truth is not None and isinstance(model, vectors.Ratings) and model.config.dim:
            found |= self.recovered(model)
        return found | {"ratings": len(users), "rule": self.rule(split)}

    def judge(self, scores: np.ndarray, split: str) -> dict[str, Any]:
        """RMSE and MAE of scores for every rating of a split."""
        artifacts = self.data.artifacts
        away = np.clip(scores, artifacts.low, artifacts.high) - self.part(split).scores
        return {"rmse": float(np.sqrt(np.square(away).mean())), "mae": float(np.abs(away).mean())}

    def recovered(self, model: vectors.Ratings) -> dict[str, Any]:
        """How much of the features that the ratings were made from the vectors hold: of users and of items.

        Empty where vectors are too short for it, or so few that any features could be fitted with them.
        """
        assert self.data.truth is not None
        found, truth = model.vectors(), (self.data.truth.users, self.data.truth.items)
        if not truth[0].shape[1] <= model.config.width < min(map(len, truth)):
            return {}
        return {
            f"{kind}_recovery": vectors.recovery(own.cpu(), torch.from_numpy(true))._asdict()
            for kind, own, true in zip(("user", "item"), found, truth, strict=True)
        }

    def rule(self, split: str) -> str:
        low, high = self.data.artifacts.low, self.data.artifacts.high
        return f"all {len(self.part(split).scores):,} ratings, scores held between {low:g} and {high:g}"

    def baselines(self, split: str) -> dict[str, float]:
        """RMSE of the mean rating for all, and of damped means of items and users."""
        part = self.part(split)
        found = {"mean": np.full(len(part.scores), self.data.artifacts.mean), "biases": self.by_biases(part)}
        guesses = {name: self.judge(scores, split)["rmse"] for name, scores in found.items()}
        # what no model can be better than, where it is known
        return guesses if self.data.truth is None else guesses | {"noise": self.data.truth.noise}

    def by_biases(self, part: Part) -> np.ndarray:
        """Scores from biases in closed form: what an item gets beyond the mean, then what a user gives beyond that."""
        train, artifacts = self.data.train, self.data.artifacts
        left = train.scores.astype(np.float64) - artifacts.mean
        items = _damped(train.items, left, len(artifacts.items), self.config.item_damping)
        users = _damped(train.users, left - items[train.items], len(artifacts.users), self.config.user_damping)
        return artifacts.mean + items[part.items] + users[part.users]

    def figures(self, model: nn.Module, split: str, **options: Any) -> dict[str, Any]:
        found = self.evaluate(model, split)
        return {
            "metric": self.metric_row(found),
            **{name: value for name, value in found.items() if name != "rule"},
            "baselines": self.baselines(split),
        }

    @classmethod
    def table(cls, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
        row = [f"{found['rmse']:.4f}", f"{found['mae']:.4f}", f"{found['ratings']:,}"]
        guesses = "  ".join(f"{name} {value:.4f}" for name, value in found["baselines"].items())
        below = [f"rule: {found['metric']['rule']}", f"RMSE without vectors: {guesses}"]
        for kind in ("user", "item"):
            if own := found.get(f"{kind}_recovery"):
                below.append(
                    f"true features of each {kind}: {100 * own['rotated']:.1f} % of their variance after a rotation, "
                    f"least canonical correlation {own['canonical']:.3f}, single dimensions {own['alone']:.3f}"
                )
        return ("RMSE", "MAE", "ratings"), [row], below

    @classmethod
    def headline(cls, found: dict[str, Any]) -> str:
        return f"validation RMSE {found['rmse']:.4f}, MAE {found['mae']:.4f} ({found['rule']})"


def configure_model(settings: dict[str, Any], artifacts: Artifacts) -> vectors.Config:
    """The settings of a model of these users and items."""
    own = dict(settings)
    name = known("model", str(own.pop("name", None)), list(MODELS))
    features = artifacts.features if name == "features" else 0
    if name == "features" and not features:
        raise ContractError(
            "ratings: expected hand-set features for the model features, found none; name a file with "
            "--set features=FILE, or of generated ratings --set features=truth"
        )
    with building(name):
        return vectors.Config(
            users=len(artifacts.users), items=len(artifacts.items), features=features, **own | MODELS[name]
        )


def _damped(owners: np.ndarray, left: np.ndarray, count: int, damping: float) -> np.ndarray:
    """Each owner's mean of what is left, drawn towards 0 as if by `damping` more ratings; 0 for who was never seen."""
    sums = np.bincount(owners, weights=left, minlength=count + 1)
    numbers = np.bincount(owners, minlength=count + 1)
    return np.where(numbers > 0, sums / np.maximum(numbers + damping, 1e-12), 0.0)


TASKS = (RatingsTask,)
