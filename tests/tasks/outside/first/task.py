"""A task from outside the package: after the last symbol of a row, name the first."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from recollect.core.artifacts import read_artifact
from recollect.core.inspection import Probe
from recollect.core.task import Loss, RunError, Task
from recollect.layers import LAYERS
from recollect.models import classifier
from recollect.models.body import KINDS, StackedModels, kind_of

from .settings import Config, DataConfig

GIVEN = ("inputs", "outputs", "tokens", "pool")  # settings of a model that the data decide


@dataclass(frozen=True)
class Symbols:
    """Rows by split: N T."""

    config: DataConfig
    train: np.ndarray
    valid: np.ndarray
    name: str = "first"
    notes: tuple = ()

    @property
    def fingerprint(self):
        return json.dumps(asdict(self.config), sort_keys=True)


class FirstTask(StackedModels, Task[Symbols, DataConfig]):
    name = "first"
    models = tuple(KINDS)
    default = "gru"
    data_config = DataConfig
    task_config = Config
    in_nats = True
    metric = "nats"

    @classmethod
    def model_settings(cls, model):
        return {"model": classifier.Settings, "layer": LAYERS[kind_of(model).layer]}

    @classmethod
    def load_data(cls, config, data_dir, artifacts=None):
        draw = np.random.default_rng(config.draw)
        parts = [draw.integers(config.symbols, size=(config.rows, config.length)) for _ in range(2)]
        return Symbols(config, *parts)

    @classmethod
    def artifacts_of(cls, data):
        return data.config

    @classmethod
    def save_artifacts(cls, artifacts, folder):
        (Path(folder) / "first.json").write_text(json.dumps(asdict(artifacts)), encoding="utf-8")

    @classmethod
    def load_artifacts(cls, folder):
        content = read_artifact(folder, "first.json")
        if not isinstance(content, dict):
            raise RunError(f"{folder / 'first.json'}: expected the settings of the data, found something else")
        return DataConfig(**content)

    @classmethod
    def describe_data(cls, data):
        return {"name": data.name, "fingerprint": data.fingerprint, "train": len(data.train)}

    @classmethod
    def summarize_data(cls, data):
        return f"{len(data.train):,} rows of {data.config.length} symbols"

    @classmethod
    def resolve(cls, run, data, params):
        config = cls.configure_model(run.model, data.config)
        config = config if params is None else config.sized(params, run.model["name"])
        own = {name: value for name, value in asdict(config).items() if name not in (*GIVEN, "model")}
        return replace(run, model={"name": run.model["name"]} | own)

    @classmethod
    def build_model(cls, settings, artifacts, load_run):
        return cls.configure_model(settings, artifacts).build()

    @staticmethod
    def configure_model(settings, data):
        sizes = dict(zip(GIVEN, (data.symbols, data.symbols, True, "each"), strict=True))
        own = {name: value for name, value in settings.items() if name != "name"}
        return classifier.Config(model=settings["name"], **sizes, **own)

    @classmethod
    def law_example(cls, model, artifacts):
        return model, torch.randint(artifacts.symbols, (3, 8), generator=torch.Generator().manual_seed(0)), None

    @classmethod
    def state_bytes(cls, model, run):
        return model.cost(1, run.data.length).state_bytes

    def batches(self, split, seed, start=0):
        rows = torch.from_numpy(getattr(self.data, split)).to(self.device)
        number = start
        while True:
            chosen = np.random.default_rng([seed, number]).integers(len(rows), size=self.config.batch)
            yield rows[torch.from_numpy(chosen).to(self.device)]
            number += 1

    def loss(self, model, batch, carry=None):
        return Loss(cross_entropy(model(batch)[0][:, -1], batch[:, 0]), batch.numel())

    def shape(self, batch):
        return tuple(batch.shape)

    def flops(self, model, *shape):
        return model.cost(*shape).flops

    @torch.no_grad()
    def evaluate(self, model, split):
        rows = torch.from_numpy(getattr(self.data, split)).to(self.device)
        logits = model(rows)[0][:, -1]
        right = (logits.argmax(dim=-1) == rows[:, 0]).double().mean()
        found = {"nats": float(cross_entropy(logits, rows[:, 0])), "accuracy": float(right)}
        return found | {"rule": f"all {len(rows):,} rows, after the last symbol"}

    def baselines(self, split):
        return {"uniform": float(np.log(self.data.config.symbols))}

    def figures(self, model, split, **options):
        found = self.evaluate(model, split)
        metric = {"name": "nats", "value": found["nats"], "rule": found["rule"]}
        return {"metric": metric, "baselines": self.baselines(split)} | found

    @classmethod
    def table(cls, found):
        return ("nats", "accuracy"), [[f"{found['nats']:.4f}", f"{found['accuracy']:.1%}"]], [found["rule"]]

    @classmethod
    def headline(cls, found):
        return f"validation {found['nats']:.4f} nats, accuracy {found['accuracy']:.1%}"

    @staticmethod
    def probe(run, request):
        x = torch.from_numpy(run.data.valid[: request.rows or 1]).to(run.device)
        names = [str(symbol) for symbol in x[0].tolist()]
        last = [x.shape[1] - 1]
        return Probe(
            model=run.model, x=x, y=x[:, :1], places=last, inputs=names, outputs=names[:1], stepper=run.model, steps=x
        )


TASKS = (FirstTask,)
