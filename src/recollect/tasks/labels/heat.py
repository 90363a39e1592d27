"""How classifiers of sequences are raced."""

from ...core.heat import Heat
from ...core.metric import Metric
from ..metrics import RIGHT
from .task import LabelsTask

HEATS = (
    Heat(
        name="labels",
        task="labels",
        title="Labels: tell sequences apart",
        question="Read a whole row, then give it one label.",
        metric=RIGHT,
        validation=RIGHT,
        chosen={"nats": Metric(name="nats", place=("nats",), label="nats per row")},
        models=LabelsTask.models,
        params=150_000,
        steps=300,
    ),
)
