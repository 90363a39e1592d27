"""How forecasters are raced."""

from ...core.heat import Heat, Metric
from .task import SeriesTask

SQUARED_ERROR = Metric(name="mse", label="squared error, scaled")
HEATS = (
    Heat(
        name="series",
        task="series",
        title="Series: what comes next, in numbers",
        question="Foretell the next points of a series from its past.",
        metric=SQUARED_ERROR,
        validation=SQUARED_ERROR,
        models=SeriesTask.models,
        params=20_000,
        steps=300,
    ),
)
