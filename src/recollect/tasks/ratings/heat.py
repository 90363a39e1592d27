"""How models of ratings are raced."""

from ...core.heat import Heat
from ...core.metric import Metric
from .task import RatingsTask

RMSE = Metric(name="rmse", label="root mean squared error")
HEATS = (
    Heat(
        name="ratings",
        task="ratings",
        title="Ratings: who likes what?",
        question="Foretell a rating from a vector of the user and one of the item: the smallest picture of why "
        "attention's dot product works. No memory is asked for here.",
        metric=RMSE,
        validation=RMSE,
        models=RatingsTask.models,
        params=None,
        steps=300,
        settings={"features": "truth"},
        floor="noise",
    ),
)
