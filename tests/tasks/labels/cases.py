"""Small tables and runs of labelled rows."""

import tiny
from recollect.tasks.labels.task import LabelsTask
from recollect.training import run as runs


def write(path, rows, *, order=(0, 1), header=None, end="\n", mark=""):
    """A table of tabs with its columns in any order."""
    lines = ([header] if header else []) + ["\t".join(row[place] for place in order) for row in rows]
    path.write_bytes((mark + "".join(line + end for line in lines)).encode())
    return path


def configure(data, model="gru", **settings):
    """A run of a few steps."""
    given = {"steps": 12, "batch": 8, "warmup": 3, "save_every": 3, "eval_every": 5, "log_every": 2}
    texts = tiny.small(model) if model != "bag" else {}
    texts = texts | {name: str(value) for name, value in (given | settings).items()}
    return runs.configure(LabelsTask, texts, model=model, data=[str(data)])


def texts_of(data, split="train"):
    """The texts of a part, as the tokenizer gives them back."""
    part, kept = getattr(data, split), data.artifacts
    ends = part.lengths.cumsum()
    return [
        kept.tokenizer.decode(part.values[end - length : end]) for end, length in zip(ends, part.lengths, strict=True)
    ]
