"""The runs that a server answers for, by the names under which requests ask for them."""

from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Any

from ..api.loading import load
from ..core.errors import RunError
from ..core.trained import TrainedModel
from ..core.typed import show
from .batches import Batcher
from .limits import Limits
from .refusals import Refusal

MANY = 1_000_000  # steps to come: whatever pays for making a step is made at the start
LONGEST_NAME = 200


class Served:
    """A trained model under its name, ready for requests."""

    def __init__(self, name: str, model: TrainedModel, limits: Limits) -> None:
        self.name, self.model, self.created = name, model, int(time())
        model.prepare(MANY)
        self.methods = model.methods
        self.batcher = Batcher(model, limits) if "generate" in self.methods else None
        self.tokenizer: Any = getattr(model, "tokenizer", None)
        self.longest = limits.tokens
        if self.batcher is not None and model.limit is not None:
            self.longest = min(self.longest, model.limit)

    def describe(self) -> dict[str, Any]:
        """The model as OpenAI's list has one, with what this one can do."""
        about: dict[str, Any] = {"id": self.name, "object": "model", "created": self.created, "owned_by": "recollect"}
        about |= {"task": self.model.task, "model": self.model.model, "methods": list(self.methods)}
        if self.batcher is not None:
            about |= {"engine": self.model.engine, "tokens": self.tokenizer.size, "longest": self.longest}
        return about

    def encode(self, text: str, name: str = "text") -> list[int]:
        """The tokens of a text."""
        if len(text) > 64 * self.longest:  # before anything goes over it
            raise Refusal(400, f"{name}: expected at most {self.longest:,} tokens, found {len(text):,} characters")
        return self.tokenizer.encode(text).tolist()

    def check_length(self, tokens: int, name: str) -> None:
        """Refuse a text that would become longer than the model or the server takes."""
        if tokens > self.longest:
            message = f"{name}: expected at most {self.longest:,} tokens, read and written together, found {tokens:,}"
            raise Refusal(400, message, param=name, code="context_length_exceeded")


class Models:
    """All models of a server; `lazy` ones are loaded when they are first asked for."""

    def __init__(self, runs: Sequence[str], limits: Limits, *, lazy: bool = False) -> None:
        self.limits = limits
        self.runs: dict[str, str] = {}
        self.by_name: dict[str, Served] = {}
        for run in runs:
            name = name_of(run)
            if name in self.runs:
                raise RunError(f"{run}: expected runs of different names, found two called {show(name)}; rename one")
            self.runs[name] = run
            if not lazy:
                self.open(name)

    def open(self, name: str) -> Served:
        """A model by its name, loaded if it is not yet."""
        if name not in self.by_name:
            self.by_name[name] = Served(name, load(self.runs[name]), self.limits)
        return self.by_name[name]

    def __iter__(self) -> Any:
        return (self.open(name) for name in self.runs)

    def find(self, name: str | None, method: str | None = None) -> Served:
        """A model by its name; without one the only model that can do what is asked."""
        if name is None:
            fitting = [each for each in self if method is None or method in each.methods]
            if len(fitting) != 1:
                raise Refusal(400, "model: expected the name of a model, found none; see /v1/models", param="model")
            return fitting[0]
        found = self.open(name) if name in self.runs else None
        if found is None:
            raise Refusal(404, f"model: expected a model of this server, found {show(name)}; see /v1/models",
                          param="model", code="model_not_found")  # fmt: skip
        if method is not None and method not in found.methods:
            can = ", ".join(found.methods)
            raise Refusal(404, f"model: expected one that can {method}, found {show(name)}, which can {can}")
        return found

    def close(self) -> bool:
        """End all that is written; whether every thread has ended."""
        ended = [each.batcher.close() for each in self.by_name.values() if each.batcher is not None]
        return all(ended)


def name_of(run: str) -> str:
    """The name of a run: that of its folder."""
    name = Path(run).name or Path(run).resolve().name
    if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
        raise RunError(
            f"expected a run whose name can be printed, of at most {LONGEST_NAME} characters, found {show(name)}"
        )
    return name
