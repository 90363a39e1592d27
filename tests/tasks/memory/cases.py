"""Small tests of memory and their runs."""

import tiny
from recollect import tasks
from recollect.tasks.memory import NAMES
from recollect.tasks.memory import data as tests
from recollect.training import run as runs
from tasks.cases import DIALS

TASKS = {name: tasks.find(name) for name in NAMES}


def small(kind, **settings):
    return tests.TESTS[kind](**DIALS[kind] | settings)


def configure(kind, model="lstm", **settings):
    """A run of a few steps."""
    given = {"steps": 8, "batch": 4, "warmup": 2, "save_every": 3, "eval_every": 4, "log_every": 2, "eval_rows": 12}
    sizes = {"width": 8, "layers": 1} | ({"heads": 2} if model in tiny.HEADED else {})
    texts = {name: str(value) for name, value in (given | sizes | DIALS[kind] | settings).items()}
    return runs.configure(TASKS[kind], texts, model=model)
