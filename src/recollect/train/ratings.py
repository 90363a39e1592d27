"""The job of ratings: vectors of users and items, and what can be read off them."""

import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..core.contract import ContractError, Memory, check_settings
from ..core.files import write_aside
from ..layers import known
from ..models import size
from ..tasks.ratings import data as sets
from ..tasks.ratings import model as models
from ..tasks.ratings import task as ratings
from ..tasks.ratings.generated import GENERATED, TRUTH, Made
from ..tasks.ratings.rated import Artifacts, Ratings
from .folder import RunError, RunFolder
from .job import Job, Run, Used, check_names, told

# name → the settings that it stands for
MODELS: dict[str, dict[str, Any]] = {"dot": {}, "features": {"dim": 0}, "biases": {"dim": 0}}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the ratings are: files, or `generated`, with how many users, items and ratings, of which true `rank`.

    `features` is a file of hand-set item features (or `truth`, of generated ratings), `titles` one of items' names.
    """

    data: tuple[str, ...] = (GENERATED,)
    valid: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    share: float = 0.1
    features: str | None = None
    titles: str | None = None
    users: int = 400
    items: int = 300
    ratings: int = 24_000
    rank: int = 3
    true_bias: float = 0.4
    spread: float = 0.8
    noise: float = 0.3
    data_seed: int = 0

    def __post_init__(self) -> None:
        check_settings(self, least={"data_seed": 0})
        check_names(self)
        for name in ("true_bias", "spread", "noise"):
            if not getattr(self, name) >= 0:
                raise ContractError(f"data: expected {name} of at least 0, found {getattr(self, name)}")

    def load(self, kept: Artifacts | None = None) -> Ratings:
        names = {field.name for field in fields(Made)}
        own = {name: value for name, value in asdict(self).items() if name in names}
        made = Made(**own | {"bias": self.true_bias, "seed": self.data_seed})
        given = {name: getattr(self, name) for name in ("valid", "test", "share", "features", "titles")}
        return sets.load(self.data, **given, made=made, kept=kept)

    def anchored(self) -> "DataConfig":
        """The same files by their full names, so that a run can be gone on with from another folder."""

        def full(name: str) -> str:
            return name if name in (GENERATED, TRUTH) or not Path(name).exists() else str(Path(name).absolute())

        lists = {name: tuple(map(full, getattr(self, name))) for name in ("data", "valid", "test")}
        single = {name: value and full(value) for name in ("features", "titles") for value in [getattr(self, name)]}
        return replace(self, **lists, **single)


class RatingsJob(Job[Ratings, Artifacts]):
    """Foretelling ratings."""

    name = "ratings"
    models = tuple(MODELS)
    default = "dot"
    data_config = DataConfig
    task_config = ratings.Config
    usual: ClassVar[Mapping[str, str]] = {"lr": "0.03", "warmup": "20"}  # every vector is seen in few batches
    unsized = ("features", "biases")

    def homes(self, model: str) -> dict[str, type]:
        return {"model": models.Config}

    def read(self, config: DataConfig, data_dir: str | None, kept: Artifacts | None = None) -> Ratings:
        return config.load(kept)

    def keep(self, data: Ratings) -> Artifacts:
        return data.kept

    def save(self, kept: Artifacts, folder: Path) -> None:
        write_aside(folder / "names.json", (json.dumps(kept.to_json(), ensure_ascii=False) + "\n").encode())

    def recall(self, folder: Path) -> Artifacts:
        content = RunFolder(folder).read_json("names.json")
        try:
            return Artifacts.from_json(content)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RunError(
                f"{folder / 'names.json'}: expected the users and items of a run, found something else ({error!r})"
            ) from error

    def describe(self, data: Ratings) -> dict[str, Any]:
        counts = {"users": len(data.kept.users), "items": len(data.kept.items)}
        sizes = {"train": len(data.train.scores), "valid": len(data.valid.scores)}
        return {"name": data.name, "fingerprint": data.fingerprint} | counts | sizes | {"notes": data.notes}

    def greet(self, data: Ratings) -> str:
        return (
            f"{len(data.train.scores):,} training ratings of {data.name}, {len(data.kept.users):,} users, "
            f"{len(data.kept.items):,} items"
        )

    def resolve(self, run: Run, data: Ratings, params: int | None) -> Run:
        run = replace(run, data=run.data.anchored())
        config = configure_model(run.model, data.kept)
        if params is not None:
            if run.model["name"] != "dot":
                raise ContractError(f"params: expected the model dot, whose dim is free, found {run.model['name']!r}")
            dim = size.solve(lambda dim: replace(config, dim=dim).build(), params, what="dot")
            config = replace(config, dim=dim)
        own = asdict(config)
        return replace(run, model={"name": run.model["name"]} | {name: own[name] for name in ("dim", "bias", "scale")})

    def build(self, settings: dict[str, Any], kept: Artifacts, inside: tuple[Path, ...] = ()) -> nn.Module:
        try:
            model = configure_model(settings, kept).build()
            model.set_mean(kept.mean)
            if kept.matrix is not None and model.config.features:
                model.set_features(torch.from_numpy(kept.matrix))
            return model
        except (KeyError, AttributeError, RuntimeError, MemoryError, OverflowError) as error:
            raise told(str(settings.get("name")), error) from error

    def task(self, run: Run, data: Ratings, device: str) -> ratings.RatingsTask:
        return ratings.RatingsTask(run.task, data, device)

    def figures(self, model: nn.Module, task: ratings.RatingsTask, split: str, **options: Any) -> dict[str, Any]:
        found = task.evaluate(model, split)
        return {
            "metric": {"name": task.metric, "value": found[task.metric], "rule": found["rule"]},
            **{name: value for name, value in found.items() if name != "rule"},
            "baselines": task.baselines(split),
        }

    def example(self, model: Any, kept: Artifacts) -> tuple[Tensor, Memory | None]:
        raise RunError("ratings: expected a model that reads a sequence, found one that scores pairs; it has no state")

    def verify(self, path: str) -> dict[str, float]:
        """Refused: the laws are about memory, and here is none."""
        self.load(path)  # a folder that is no run is told so first
        raise RunError(
            f"{path}: expected a model that reads a sequence, found ratings, where a score depends on one pair alone: "
            "there is no state for the laws to hold; measure it with recollect eval"
        )

    def state_bytes(self, model: Any, run: Run) -> int:
        return 0

    def table(self, found: dict[str, Any]) -> tuple[Sequence[str], list[list[str]], list[str]]:
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

    def headline(self, found: dict[str, Any]) -> str:
        return f"validation RMSE {found['rmse']:.4f}, MAE {found['mae']:.4f} ({found['rule']})"

    def elsewhere(self, config: DataConfig, data: Sequence[str], kept: Artifacts) -> DataConfig:
        """All of other ratings is the part that is measured."""
        return replace(config, data=tuple(data), valid=tuple(data), test=tuple(data), features=None, titles=None)


JOB = RatingsJob()


def configure_model(settings: dict[str, Any], kept: Artifacts) -> models.Config:
    """The settings of a model of these users and items."""
    own = dict(settings)
    name = known("model", str(own.pop("name", None)), list(MODELS))
    features = kept.features if name == "features" else 0
    if name == "features" and not features:
        raise ContractError(
            "ratings: expected hand-set features for the model features, found none; name a file with "
            "--set features=FILE, or of generated ratings --set features=truth"
        )
    try:
        return models.Config(users=len(kept.users), items=len(kept.items), features=features, **own | MODELS[name])
    except TypeError as error:
        raise told(name, error) from error


def nearest(used: Used[Artifacts], item: str, n: int = 10) -> list[dict[str, Any]]:
    """The items that users treat most alike, by the cosine between vectors along axes that no rotation changes."""
    kept = used.kept
    names = list(kept.items)
    place = names.index(item) if item in kept.items else None
    if place is None and kept.titles is not None and item in kept.titles:
        place = kept.titles.index(item)
    if place is None:
        raise RunError(known_item(item, kept))
    found = models.axes(*used.model.vectors())
    vectors = nn.functional.normalize(found.items * found.strength, dim=-1)
    alike = vectors @ vectors[place]
    alike[place] = -torch.inf
    best = alike.topk(min(n, len(names) - 1))
    return [
        {"item": names[i], "title": kept.title(i), "similarity": value}
        for value, i in zip(best.values.tolist(), best.indices.tolist(), strict=True)
    ]


def known_item(item: str, kept: Artifacts) -> str:
    """The line for an item that is none."""
    there = [*kept.items, *(kept.titles or ())]
    close = difflib.get_close_matches(item, there, n=1)
    meant = f"; did you mean {close[0]!r}?" if close else ""
    return f"item: expected one of {len(kept.items):,} items such as {kept.items[0]!r}, found {item!r}{meant}"


def directions(used: Used[Artifacts], n: int = 5) -> list[dict[str, Any]]:
    """What moves the scores most: each axis with its share of them, and the items at its two ends."""
    kept = used.kept
    found = models.axes(*used.model.vectors())
    shares = found.strength.square() / found.strength.square().sum()
    rows = []
    for axis, share in enumerate(shares.tolist()):
        order = found.items[:, axis].argsort(descending=True).tolist()
        ends = {"high": order[:n], "low": order[::-1][:n]}
        named = {end: [{"item": kept.items[i], "title": kept.title(i)} for i in some] for end, some in ends.items()}
        rows.append({"axis": axis + 1, "share": share, **named})
    return rows
