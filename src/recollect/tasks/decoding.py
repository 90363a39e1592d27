"""What tasks share in which a decoder writes tokens over an encoder's memory: models, losses, search and inspection."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ..core.contract import ContractError, Memory
from ..core.inspection import Probe, Request, spread_evenly
from ..core.settings import find_name, option
from ..core.task import A, D, LoadedRun, LoadRun, Task, building, describe_model
from ..core.trained import TrainedModel
from ..data.tokenizers.sentences import SentenceTokenizer
from ..decode.beam import Config as Search
from ..decode.exported import open_decoder
from ..decode.stepped import SteppedModel
from ..decode.verify import search_laws
from ..layers import LAYERS, outside, own_layers
from ..layers.fixed import CELLS
from ..models import seq2seq
from ..models.body import NAMED

SAMPLES = 4  # texts that the page of a race shows
STEPS = 2  # of an input, as many as pay for making a step: inputs are searched for together, so each takes few
MANY = 32  # inputs that keep every core busy


class DecodingTask(Task[D, A]):
    """A task for the decoders of sequence to sequence, over any encoder."""

    models = seq2seq.MODELS
    default = "attend"
    aliases: ClassVar[Mapping[str, str]] = {
        "attention": "attend", "soft-align": "attend", "bahdanau": "attend", "luong": "attend",
        "seq2seq": "fixed", "encoder-decoder": "fixed", "cnn": "conv", "convs2s": "conv",
    }  # fmt: skip
    in_nats = True
    baseline_metric = "nats_per_token"
    model_config: ClassVar[type[Any]]  # a DecoderConfig, with the encoder's settings

    @classmethod
    @abstractmethod
    def model_sizes(cls, artifacts: A) -> dict[str, int]:
        """The settings of the model that its data decide, such as the size of the vocabulary."""

    @classmethod
    @abstractmethod
    def target_tokenizer(cls, artifacts: A) -> SentenceTokenizer:
        """The tokenizer of what is written."""

    @classmethod
    def check_model(cls, model: str) -> str:
        """The name of a decoder here, or of a layer from outside."""
        if model not in LAYERS:
            outside.check_usable(model)
        if model.lower() in CELLS:
            raise ContractError(
                f"expected a model out of {', '.join(cls.models)}, found {model!r}, which is a cell of theirs; use "
                f"--model {cls.default} --cell {model.lower()}"
            )
        return find_name(NAMED, model, [*cls.models, *own_layers()], cls.aliases)

    @classmethod
    def model_settings(cls, model: str) -> dict[str, Any]:
        own = {"layer": LAYERS[model]} if seq2seq.kind_of(model).own else {}
        return {"model": cls.model_config} | own

    @classmethod
    def unused_settings(cls, model: str) -> Sequence[str]:
        kind = seq2seq.kind_of(model)
        return () if kind.recurrent and not kind.own else ("cell",)

    @classmethod
    def resolve_model(cls, settings: dict[str, Any], artifacts: A, params: int | None) -> dict[str, Any]:
        """The model's settings in full, without those that the data decide."""
        settings, sizes = dict(settings), cls.model_sizes(artifacts)
        name = settings.pop("name")
        config = cls.model_config(**sizes, model=name, **settings).resolved()
        if params is not None:
            config = config.sized(params)
        return describe_model(name, config, list(sizes))

    @classmethod
    def build_model(cls, settings: dict[str, Any], artifacts: A, load_run: LoadRun) -> nn.Module:
        settings = dict(settings)
        name = settings.pop("name", None)
        if name not in cls.models and name not in own_layers():
            raise ContractError(f"model: expected one of {', '.join(cls.models)}, found {name!r}")
        with building(name):
            return cls.model_config(**cls.model_sizes(artifacts), model=name, **settings).build()

    @classmethod
    def decoding_laws(
        cls, definition: Any, run: LoadedRun[D, A], x: Tensor, memory: Memory | None
    ) -> dict[str, Callable[[], float]]:
        assert memory is not None
        side = cls.target_tokenizer(run.artifacts)
        return search_laws(definition, run.model, memory, side, x.shape[1] - 1, run.steps)

    @classmethod
    def layer_of(cls, model: str) -> str:
        return seq2seq.kind_of(model).layer


# Losses


def logits_of(model: Any, x: Tensor, memory: Memory) -> Tensor:
    """Logits of each next token, B T V, of at least single precision."""
    logits, _ = model(x, memory=memory)
    return logits.float() if logits.dtype.itemsize < 4 else logits


def token_losses(logits: Tensor, y: Tensor, padding: int, smoothing: float = 0.0) -> Tensor:
    """−log p of each token in nats, B T; 0 in the padding."""
    found = cross_entropy(
        logits.flatten(0, 1), y.flatten(), ignore_index=padding, reduction="none", label_smoothing=smoothing
    )
    return found.view_as(y)


def guess_baselines(
    tokenizer: SentenceTokenizer, train: np.ndarray, train_rows: int, measured: np.ndarray, measured_rows: int
) -> dict[str, float]:
    """Nats per token of uniform guessing, and of the frequencies of the training tokens (add-one smoothed).

    Every row has an end, which is none of its tokens.
    """
    counts = np.bincount(np.asarray(train), minlength=tokenizer.size) + 1.0
    counts[tokenizer.end] += train_rows
    nats = -np.log(counts / counts.sum())
    total = nats[np.asarray(measured)].sum() + nats[tokenizer.end] * measured_rows
    return {"uniform": math.log(tokenizer.size), "unigram": float(total / (len(measured) + measured_rows))}


# Search


def search_options(config: Any) -> dict[str, Any]:
    """What a task's settings say of its beam search; what the task has no setting for is 0."""
    return {name: getattr(config, name, 0.0) for name in ("beam", "length_penalty", "coverage", "ratio", "extra")}


def search_settings(config: Any, **changes: Any) -> Search:
    """The beam search that a task's settings ask for."""
    return Search(**search_options(config) | changes)


def greedy_settings(config: Any) -> Search:
    return search_settings(config, beam=1, length_penalty=0.0, coverage=0.0)


@dataclass(frozen=True, kw_only=True)
class Exported:
    """The settings of an exported decoder."""

    search: Search


class DecodingModel(TrainedModel):
    """A trained model that writes texts over an encoder's memory."""

    @cached_property
    def _search_defaults(self) -> Search:
        """The search that the run was measured with."""
        if self._source.exported is None:
            return search_settings(self._source.run.config.task)
        return self._source.exported.read_settings(Exported).search

    @cached_property
    def _exported_decoders(self) -> dict[int | None, SteppedModel]:
        """Those of an exported folder that were opened, by the threads of their steps."""
        return {}

    def prepare(self, steps: int = 0) -> None:
        if self._source.exported is None:
            self._source.open_step(steps)
        self._decoder(1)

    def _decoder(self, inputs: int, *, exported: bool = True) -> Any:
        """The model for a search over so many inputs, its steps run by onnxruntime where that is there or worth making.

        Many inputs are searched for on all cores at once, so that each step has one.
        """
        threads = 1 if inputs >= MANY else None
        if self._source.exported is not None:
            if threads not in self._exported_decoders:
                self._exported_decoders[threads] = open_decoder(self._source.exported, threads)
            return self._exported_decoders[threads]
        step = self._source.open_step(inputs * STEPS, threads=threads) if exported and inputs else None
        model = self._source.run.model
        return model if step is None else SteppedModel(model, step)


# Inspection


@dataclass(frozen=True, kw_only=True)
class AlignmentOptions:
    """Those of the instrument alignment, whatever the source is."""

    text: str | None = option(None, "This text in place of validation.")
    sound: str | None = option(None, "Of transcribe: this recording.")
    layer: int | None = option(None, "The attention of this layer.")
    head: int | None = option(None, "Of alignment and gaze: this head.")
    initial: bool | None = option(None, "Of gradients and alignment: the first weights too (default: yes).")

    def refuse(self, name: str, run: LoadedRun[Any, Any]) -> None:
        """Refuse what is the source of another task."""
        if getattr(self, name) is not None:
            raise ContractError(f"--{name}: expected a run of another task, found one of {run.kind.name}")


def select_rows(lengths: np.ndarray, request: Request) -> np.ndarray:
    """Rows of at least the steps asked for (by default the median length), evenly spread."""
    steps = min(request.steps or int(np.median(lengths)), int(lengths.max()))
    long = np.flatnonzero(lengths >= steps)
    return long[spread_evenly(len(long), request.rows or 1)]


def probe_decoder(
    run: LoadedRun[Any, Any],
    tokenizer: Any,
    written: Sequence[np.ndarray],
    source: tuple[Tensor, ...],
    source_names: Sequence[str],
    about: str,
) -> Probe:
    """What a decoder reads (begin, y₁, y₂, …) and should write (y₁, y₂, …, end), cut to the shortest row."""
    steps = min(len(row) + 1 for row in written)
    x = torch.from_numpy(np.stack([np.insert(row, 0, tokenizer.begin)[:steps] for row in written]).astype(np.int64))
    y = torch.from_numpy(np.stack([np.append(row, tokenizer.end)[:steps] for row in written]).astype(np.int64))
    return Probe(
        model=run.model,
        x=x.to(run.device),
        y=y.to(run.device),
        places=range(steps),
        inputs=tokenizer.pieces(x[0].tolist()),
        outputs=tokenizer.pieces(y[0].tolist()),
        source=source,
        source_names=source_names,
        encode=tokenizer.encode,
        stepper=run.model,
        steps=x.to(run.device),
        data=f"{about}, the first {steps} tokens written",
    )


def select_heads(found: dict[str, Tensor], layer: int | None, head: int | None) -> tuple[Tensor, str]:
    """The mean of the attention weights of the heads asked for (from 1; None: all), and a title for it."""
    every = [name for name in found if name != "mean"]
    names = [name for name in every if _matches(name, "layer", layer) and _matches(name, "head", head)]
    if not names:
        asked = ", ".join(f"{name} {value}" for name, value in (("layer", layer), ("head", head)) if value is not None)
        raise ContractError(f"alignment: expected one of {', '.join(every)}, found {asked}; see --layer and --head")
    weights = torch.stack([found[name] for name in names]).mean(dim=0)
    if len(names) > 1:
        return weights, f"attention, mean of {len(names)} heads"
    return weights, "attention" if len(every) == 1 else f"attention, {names[0]}"


def _matches(name: str, part: str, number: int | None) -> bool:
    """Whether `layer 2 head 1` has that number of layer or head."""
    words = name.split()
    return number is None or words[words.index(part) + 1] == str(number)


def log_likelihoods(model: Any, memory: Memory, tokens: Sequence[int], begin: int) -> Tensor:
    """T: log p of each token that was written, given those before it."""
    own = torch.tensor(tokens, device=memory.values.device)
    x = torch.tensor([[begin, *tokens[:-1]]], device=own.device)
    logits, _ = model(x, memory=memory)
    return logits[0].log_softmax(dim=-1).gather(1, own[:, None])[:, 0]
