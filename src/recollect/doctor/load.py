"""From `FILE:NAME`, or the folder of a Hugging Face model, to something that the laws can be run on."""

import ast
import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.comparison import TOLERANCE
from ..core.contract import Config, ContractError, Layer
from ..core.outside import describe_error, load_module
from ..core.settings import known
from .subject import PADDED, Stateful, Stepped, Subject, SubjectError, Traits, Whole, default_dtype, parameters_of

COMMAND = "recollect doctor"
DIM = 4  # of x, where a module leaves it open
# How modules name the width of their input, as an argument or as an attribute.
DIMS = (
    "dim", "input_size", "d_model", "embed_dim", "input_dim", "in_features", "in_channels", "n_embd", "channels",
    "width",
)  # fmt: skip
SEQUENCES = ("forward", "sequence")  # how a file names the form of its step over whole sequences


def load(
    target: str,
    *,
    dim: int | None = None,
    tokens: int | None = None,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
) -> Layer[Any]:
    """What `FILE:NAME` or a folder names, as a layer in `eval()`: in float64 where it runs in that, else in float32.

    `dim` is the width of x, `tokens` the vocabulary where x are tokens; `settings` are further arguments of a class or
    a factory.
    """
    if Path(target).is_dir():
        from .huggingface import load_folder

        return settle(lambda: load_folder(target), seed)
    found, module = find(target, seed)
    name = target.rpartition(":")[2]
    return settle(lambda: adapt(name, found, module, dim, tokens, dict(settings or {})), seed)


def find(target: str, seed: int) -> tuple[Any, ModuleType]:
    """The object that `FILE:NAME` names, and the file as a module."""
    file, colon, name = target.rpartition(":")
    if not colon or not name.isidentifier():
        raise SubjectError(
            f"{COMMAND}: expected FILE:NAME, such as model.py:Memory, or the folder of a model, found {target!r}"
        )
    path = Path(file)
    if path.suffix != ".py" or not path.is_file():
        raise SubjectError(f"{COMMAND}: expected a Python file before the colon, found none at {file!r}")
    module = run_file(str(path.resolve()), path.stat().st_mtime_ns, seed)
    if not hasattr(module, name):
        own = [each for each, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
        known(f"name in {path.name}", name, own or ["nothing of its own"])
    return getattr(module, name), module


@functools.lru_cache(maxsize=8)
def run_file(path: str, changed: int, seed: int) -> ModuleType:
    """A file as a module, run once as long as it does not change; the seed is for what it makes when it is run."""
    torch.manual_seed(seed)
    return load_module(f"recollect_doctor_{Path(path).stem}", Path(path), COMMAND)


def settle(build: Callable[[], Layer[Any]], seed: int) -> Layer[Any]:
    """Build in float64, and where the module does not run in that, in float32; the seed decides the weights."""
    for dtype in (torch.float64, torch.float32):
        torch.manual_seed(seed)
        with default_dtype(dtype):
            layer = build().to(dtype).eval()
        if not isinstance(layer, Subject):
            return refuse_readers(layer)
        try:
            with LowestPrecision() as seen:
                layer.prepare()
        except (SubjectError, MemoryError):
            raise
        except Exception as error:
            if dtype == torch.float64:
                continue
            found = describe_error(error)
            raise SubjectError(
                f"{layer.label}: expected outputs for x of {describe_input(layer)}, found {found}; "
                "give --dim or --tokens if it takes another x"
            ) from error
        if seen.bytes < 8:  # some modules round to float32 inside
            layer.tolerance = TOLERANCE[torch.float32]
        return layer
    raise AssertionError("unreachable: float32 returns or raises")


def refuse_readers(layer: Layer[Any]) -> Layer[Any]:
    """Refuse a layer of the contract that has no state without the memory of an encoder."""
    try:
        layer.initial_state(1)
    except ContractError as error:
        raise SubjectError(
            f"{COMMAND}: {error}; for a layer that reads a memory use core.laws.check in Python"
        ) from error
    return layer


def describe_input(layer: Subject) -> str:
    """The shape of an input in words."""
    if layer.vocab is not None:
        return f"2 rows of 3 tokens below {layer.vocab}"
    return f"shape (2, 3, {layer.dim})"


class LowestPrecision(TorchDispatchMode):
    """Notes the fewest bytes of a floating number among the results of all operations meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 8

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, Tensor) and each.is_floating_point():
                self.bytes = min(self.bytes, each.element_size())
        return result


def adapt(
    name: str, found: Any, module: ModuleType, dim: int | None, tokens: int | None, settings: dict[str, Any]
) -> Layer[Any]:
    """A class, an instance, a factory, a step or a function over whole sequences as a layer."""
    if isinstance(found, type) or (callable(found) and is_factory(found, settings)):
        made, width = construct(name, found, dim, settings)
        made = made.build() if isinstance(made, Config) else made
        return adapt(name, made, module, width, tokens, {})
    if settings:
        raise SubjectError(f"--set: expected it with a class or a factory, found {name}, which is made already")
    if isinstance(found, Layer | Config):
        return found if isinstance(found, Layer) else found.build()
    if not callable(found):
        raise SubjectError(f"{name}: expected a class, a module or a function, found {type(found).__name__}")
    if isinstance(found, nn.RNNBase) and not found.batch_first:
        raise SubjectError(f"{name}: expected batch first, found batch_first=False; make it with batch_first=True")
    width = 1 if tokens else dim or infer_dim(found) or DIM
    kind = "over tokens, B T" if tokens else "over B T D"
    if inspect.isfunction(found) and len(required(found)) >= 2:
        return adapt_step(name, found, module, Traits(f"a step function {kind}", width, tokens))
    initial = getattr(found, "initial_state", None)
    takes_state = initial is not None or has_state_argument(found)
    if not takes_state or (initial is None and not returns_state(found, width, tokens)):
        what = "a module" if isinstance(found, nn.Module) else "a function"
        return Whole(name, found, Traits(f"{what} {kind}, without a state", width, tokens))
    return Stateful(name, found, Traits(f"a module {kind}, with a state", width, tokens), initial=initial)


def adapt_step(name: str, step: Any, module: ModuleType, traits: Traits) -> Stepped:
    """A step function, with what else its file says of it."""
    initial = getattr(module, "initial_state", None)
    if not callable(initial):
        raise SubjectError(f"{name}: expected initial_state(batch) beside the step in its file, found none; add it")
    sequence = next((getattr(module, word) for word in SEQUENCES if callable(getattr(module, word, None))), None)
    return Stepped(name, step, traits, initial=initial, sequence=sequence)


def is_factory(found: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a function makes what is examined: all it must be given are settings, or a width."""
    return inspect.isfunction(found) and all(word in (*settings, *DIMS) for word in required(found))


def construct(name: str, maker: Any, dim: int | None, settings: dict[str, Any]) -> tuple[Any, int | None]:
    """What a class or a factory makes of the settings, and the width of x, under the name that it has for it.

    Where it is not given, the width is the default of that argument; None where there is no such argument.
    """
    try:
        takes = inspect.signature(maker).parameters
    except (TypeError, ValueError):
        takes = {}
    loose = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values())
    given = {word: value if loose else read_value(known(f"setting of {name}", word, list(takes)), value)
             for word, value in settings.items()}  # fmt: skip
    given = {word: read_value(word, value) for word, value in given.items()}
    own = next((word for word in DIMS if word in takes), None)
    if own is not None and own not in given and (dim is not None or takes[own].default is inspect.Parameter.empty):
        given[own] = dim or DIM
    absent = [word for word in required(maker) if word not in given]
    if absent:
        raise SubjectError(
            f"{name}: expected arguments for {', '.join(absent)}, found none; add --set {absent[0]}=VALUE"
        )
    width = dim
    if own is not None and dim is None:
        width = given.get(own, takes[own].default)
    return maker(**given), width if isinstance(width, int) else None


def read_value(name: str, value: Any) -> Any:
    """A Python literal from the text of a flag; any other text as it is."""
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(value.lower(), value)


def required(maker: Any) -> list[str]:
    """The names of the arguments that a call must be given."""
    try:
        takes = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return []
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in takes if each.default is inspect.Parameter.empty and each.kind not in loose]


def infer_dim(found: Any) -> int | None:
    """The width that a module takes, from its attributes or from those of the first of its parts that says."""
    for part in found.modules() if isinstance(found, nn.Module) else (found,):
        for word in DIMS:
            if isinstance(value := getattr(part, word, None), int) and value > 0:
                return value
        if isinstance(part, nn.LayerNorm | nn.RMSNorm):
            return part.normalized_shape[-1]
    return None


def has_state_argument(found: Any) -> bool:
    """Whether a call takes a second argument that does not speak of padding."""
    names = list(parameters_of(found))
    return len(names) > 1 and names[1] not in PADDED and "mask" not in names[1]


def returns_state(found: Any, dim: int, tokens: int | None) -> bool:
    """Whether a call answers with two values, as one with a state does."""
    own = next(found.parameters(), None) if isinstance(found, nn.Module) else None
    dtype = torch.get_default_dtype() if own is None else own.dtype
    x = torch.zeros(2, 3, dtype=torch.int64) if tokens else torch.zeros(2, 3, dim, dtype=dtype)
    try:
        with torch.no_grad():
            return isinstance(result := found(x), tuple) and len(result) == 2
    except Exception:
        return len(required(found)) < 2  # told by the first call proper, with its place
