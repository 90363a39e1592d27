"""Small sets and runs of ratings."""

from recollect.tasks.ratings.task import RatingsTask
from recollect.training import run as runs

LINES = [f"{u}\t{i}\t{1 + (u * i) % 5}\t88125094{u}" for u in range(1, 13) for i in range(100, 110)]


def configure(model="dot", data=(), **settings):
    """A run of a few steps."""
    given = {"steps": 12, "batch": 64, "warmup": 3, "save_every": 3, "eval_every": 5, "log_every": 2, "lr": 0.03}
    texts = {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(RatingsTask, texts, model=model, **({"data": data} if data else {}))
