"""A rank of the tests: trains small runs one after the other, as `recollect train` does in each rank.

python rank_worker.py FILES OUT JOBS, where JOBS is JSON: [[name, task, label, settings, how], …]. `how` may have
`shard`, `until` (the run is lost after the checkpoint of that step) and `resume`.
"""

import json
import os
import sys
from pathlib import Path

import torch

from recollect import tasks
from recollect.training import run as runs
from recollect.training.loop import Trainer
from recollect.training.ranks import STORE
from tasks.cases import configure


class Lost(BaseException):
    """The process is gone, as far as the run can tell."""


def lose_after(step):
    """Let a training end right after the checkpoint of a step, once it is written."""
    real = Trainer.save

    def save(self):
        real(self)
        if self.spent.step == step:
            self.writer.finish(main=self.ranks.main)
            raise Lost

    Trainer.save = save
    return real


def main(files, out, jobs):
    torch.set_num_threads(1)
    for name, task, label, settings, how in json.loads(jobs):
        place = Path(out) / name
        if STORE in os.environ:
            os.environ[STORE] = f"{place}.{'again.' if how.get('resume') else ''}store"
        shard = bool(how.get("shard")) and STORE in os.environ
        if how.get("resume"):
            runs.resume(str(place), shard=shard)
            continue
        if task == "text":
            texts = {key: str(value) for key, value in settings.items()}
            config = runs.configure(tasks.find(task), texts, model=label, data=[str(Path(files) / "text.txt")])
        else:
            config = configure(Path(files), task, label, **settings)
        real = lose_after(how["until"]) if "until" in how else Trainer.save
        try:
            runs.train(tasks.find(task), config, str(place), shard=shard, params=None)
        except Lost:
            pass
        finally:
            Trainer.save = real


if __name__ == "__main__":
    main(*sys.argv[1:])
