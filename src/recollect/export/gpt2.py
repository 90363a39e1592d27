"""A GPT-2 in Hugging Face's layout as a run: settings, weights and tokenizer under the names that a text run has.

Only JSON, text and safetensors are read, so nothing in the folder is executed.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import torch
from torch import Tensor

from .. import tasks
from ..core import tensors as stored
from ..core import typed
from ..core.files import FileError, read_file, read_json
from ..core.settings import MOST_LAYERS
from ..core.task import RunConfig, RunError, building, describe_model
from ..data.errors import DataError
from ..data.tokenizers.byte_pairs import Bpe, spell_bytes
from ..models import language
from ..models.size import parameters
from ..runtime.manifest import digest
from ..tasks.text.settings import UNKNOWN
from ..training import checkpoint
from ..training.config_file import to_json
from ..training.folder import RunFolder
from ..training.settings import Settings

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = ("pytorch_model.bin", "pytorch_model.bin.index.json")
WHAT = "weights of a GPT-2"
MOST_MERGES = 1 << 26  # bytes of merges.txt
MOST_SIZE = 1 << 24  # of anything that config.json counts but layers
EPS = 1e-5  # of torch's LayerNorm, which ours is
ACTIVATIONS = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}
MASKS = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)")  # causal masks that older files hold beside the weights
EVALUATED = 1 << 13  # tokens of a batch in an evaluation


class Gpt2Config(TypedDict):
    """config.json of a GPT-2: what decides its function. The defaults are those of `transformers`."""

    model_type: str
    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: NotRequired[int | None]
    activation_function: NotRequired[str]
    layer_norm_epsilon: NotRequired[float]
    scale_attn_weights: NotRequired[bool]
    scale_attn_by_inverse_layer_idx: NotRequired[bool]
    add_cross_attention: NotRequired[bool]
    tie_word_embeddings: NotRequired[bool]


def import_folder(folder: Path, out: Path) -> dict[str, Any]:
    """Write the run of a GPT-2 into the new folder `out`; what was read, in figures."""
    RunFolder(out).check_new()
    config = read_config(folder)
    tokenizer = read_tokenizer(folder)
    if tokenizer.size != config["vocab_size"]:
        raise RunError(
            f"{folder}: expected a tokenizer with the {config['vocab_size']:,} tokens of the model, found one with "
            f"{tokenizer.size:,}"
        )
    files = find_weights(folder)
    found, tied = check_tensors(folder, config, read_tensors(folder, files))
    settings = configure(config, tied=tied)
    with building(settings.model):
        model = settings.build()
    kind = tasks.find("text")
    run = RunConfig(
        data=kind.data_config(data=(UNKNOWN,), tokenizer=Bpe.kind, vocab=tokenizer.size),
        task=kind.task_config(
            context=config["n_positions"], batch=1, eval_batch=max(1, EVALUATED // config["n_positions"])
        ),
        model=describe_model("transformer", settings, ["vocab"]),
        train=Settings(),
    )
    origin = {"layout": "gpt2", "sha256": {name: digest(folder / name) for name in files}}
    content = to_json(kind, run) | {"corpus": {"name": UNKNOWN}, "init": None, "imported": origin}
    checkpoint.load_weights(model, rename(found, config, tied=tied), folder)
    with RunFolder.created(out, content) as made:
        kind.save_artifacts(tokenizer, made.path)
        checkpoint.write_tensors(made.model_path, checkpoint.weights(model), {})
    counts = {"parameters": parameters(model), "vocab": tokenizer.size, "positions": config["n_positions"]}
    return {"model": "transformer"} | counts | origin


# Settings


def read_config(folder: Path) -> Gpt2Config:
    """config.json, where our layers compute the function that it describes."""
    path = folder / "config.json"
    if not path.is_file():
        raise RunError(f"{folder}: expected the folder of a GPT-2 with a config.json, found none")
    content = read_json(path)
    kind = content.get("model_type") if isinstance(content, dict) else None
    if kind != "gpt2":
        raise RunError(f"{path}: expected model_type gpt2, found {typed.show(kind)}; no other layout can be imported")
    config: Gpt2Config = typed.read(content, Gpt2Config, str(path))
    sizes = dict.fromkeys(("vocab_size", "n_positions", "n_embd", "n_head"), MOST_SIZE) | {"n_layer": MOST_LAYERS}
    if config.get("n_inner") is not None:
        sizes["n_inner"] = MOST_SIZE
    for name, most in sizes.items():
        if not 1 <= content[name] <= most:
            raise RunError(f"{path}: expected {name} from 1 to {most:,}, found {typed.show(content[name])}")
    if config["n_embd"] % config["n_head"]:
        raise RunError(f"{path}: expected n_head to divide n_embd {config['n_embd']}, found {config['n_head']}")
    activation = config.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise RunError(
            f"{path}: expected activation_function out of {', '.join(ACTIVATIONS)}, found {typed.show(activation)}"
        )
    wanted = {
        "layer_norm_epsilon": EPS,
        "scale_attn_weights": True,
        "scale_attn_by_inverse_layer_idx": False,
        "add_cross_attention": False,
    }
    for name, value in wanted.items():
        if config.get(name, value) != value:
            raise RunError(f"{path}: expected {name} {typed.show(value)}, found {typed.show(config.get(name))}")
    return config


def hidden_of(config: Gpt2Config) -> int:
    """Units of the feed-forward networks."""
    hidden = config.get("n_inner")
    return 4 * config["n_embd"] if hidden is None else hidden


def configure(config: Gpt2Config, *, tied: bool) -> language.Config:
    """Our Transformer with the settings of a GPT-2."""
    return language.Config(
        vocab=config["vocab_size"],
        model="transformer",
        width=config["n_embd"],
        layers=config["n_layer"],
        heads=config["n_head"],
        hidden=hidden_of(config),
        activation=ACTIVATIONS[config.get("activation_function", "gelu_new")],  # type: ignore[arg-type]
        positions="learned",
        max_positions=config["n_positions"],
        bias=True,
        head_bias=False,
        tie=tied,
    )


# Weights


def find_weights(folder: Path) -> list[str]:
    """The names of the files with the weights."""
    if (folder / WEIGHTS).is_file():
        return [WEIGHTS]
    if not (folder / INDEX).is_file():
        pickled = next((name for name in PICKLED if (folder / name).exists()), None)
        found = f"{pickled}, which is a pickle and could execute code" if pickled else "none"
        hint = "; save the model as safetensors" if pickled else ""
        raise RunError(f"{folder}: expected weights as {WEIGHTS}, found {found}{hint}")
    path = folder / INDEX
    content = read_json(path)
    typed.check_keys(content, str(path), known=None, needed=["weight_map"])
    names = sorted(set(typed.read(content["weight_map"], dict[str, str], f"{path}: weight_map").values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise RunError(f"{path}: expected names of safetensors files in this folder, found {typed.show(name)}")
    return names


def read_tensors(folder: Path, files: list[str]) -> dict[str, Tensor]:
    """All tensors by the names of `GPT2Model`, without causal masks."""
    found: dict[str, Tensor] = {}
    for file in files:
        tensors, _ = stored.read_tensors(folder / file, WHAT)
        for name, tensor in tensors.items():
            short = name.removeprefix("transformer.")
            if MASKS.fullmatch(short):
                continue
            if short in found:
                raise RunError(f"{folder / file}: expected each tensor once, found {typed.show(name)} again")
            found[short] = tensor
    return found


def check_tensors(folder: Path, config: Gpt2Config, found: dict[str, Tensor]) -> tuple[dict[str, Tensor], bool]:
    """The tensors in float32, refused unless they are those of the config; and whether the head is the embedding."""
    head, table = found.get("lm_head.weight"), found.get("wte.weight")
    tied = config.get("tie_word_embeddings", True)
    if tied and head is not None:
        if table is None or head.shape != table.shape or not torch.equal(head, table):
            raise RunError(
                f"{folder}: expected lm_head.weight to be wte.weight, as tie_word_embeddings says, found another"
            )
        del found["lm_head.weight"]
    bad = next((name for name, tensor in found.items() if not tensor.is_floating_point()), None)
    if bad is not None:
        raise RunError(f"{folder}: expected {WHAT}, {typed.show(bad)} in floating point, found {found[bad].dtype}")
    single = {name: tensor.float() for name, tensor in found.items()}
    stored.check_like(folder, WHAT, single, expected_tensors(config, tied=tied))
    return single, tied


def expected_tensors(config: Gpt2Config, *, tied: bool) -> dict[str, Tensor]:
    """Names and shapes of the weights of a GPT-2, without memory behind them."""
    wide, hidden = config["n_embd"], hidden_of(config)
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (config["vocab_size"], wide),
        "wpe.weight": (config["n_positions"], wide),
        "ln_f.weight": (wide,),
        "ln_f.bias": (wide,),
    }
    if not tied:
        shapes["lm_head.weight"] = shapes["wte.weight"]
    for level in range(config["n_layer"]):
        for part in ("ln_1", "ln_2"):
            shapes |= {f"h.{level}.{part}.{kind}": (wide,) for kind in ("weight", "bias")}
        for part, inputs, outputs in (
            ("attn.c_attn", wide, 3 * wide),
            ("attn.c_proj", wide, wide),
            ("mlp.c_fc", wide, hidden),
            ("mlp.c_proj", hidden, wide),
        ):
            shapes |= {f"h.{level}.{part}.weight": (inputs, outputs), f"h.{level}.{part}.bias": (outputs,)}
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def rename(found: Mapping[str, Tensor], config: Gpt2Config, *, tied: bool) -> dict[str, Tensor]:
    """The weights of a GPT-2 by the names of our model.

    Its linear maps are stored transposed (inputs × outputs), and queries, keys and values stand side by side in
    `c_attn`. Our body is a stack: positions, then attention and feed-forward network by turns, then the last norm.
    """
    last = 2 * config["n_layer"] + 1
    own = {
        "embedding.weight": found["wte.weight"],
        "body.layers.0.added.table": found["wpe.weight"],
        f"body.layers.{last}.norm.weight": found["ln_f.weight"],
        f"body.layers.{last}.norm.bias": found["ln_f.bias"],
    }
    if not tied:
        own["head.weight"] = found["lm_head.weight"]
    for level in range(config["n_layer"]):
        theirs, attend, feed = f"h.{level}", f"body.layers.{2 * level + 1}", f"body.layers.{2 * level + 2}"
        for kind in ("weight", "bias"):
            parts = {name: found[f"{theirs}.{name}.{kind}"] for name in ("attn.c_attn", "attn.c_proj")}
            parts |= {name: found[f"{theirs}.{name}.{kind}"] for name in ("mlp.c_fc", "mlp.c_proj")}
            parts = {name: tensor.t() if kind == "weight" else tensor for name, tensor in parts.items()}
            for name, part in zip("qkv", parts["attn.c_attn"].chunk(3), strict=True):
                own[f"{attend}.layer.heads.{name}.{kind}"] = part
            own[f"{attend}.layer.heads.out.{kind}"] = parts["attn.c_proj"]
            own[f"{attend}.norm.norm.{kind}"] = found[f"{theirs}.ln_1.{kind}"]
            own[f"{feed}.layer.up.{kind}"] = parts["mlp.c_fc"]
            own[f"{feed}.layer.down.{kind}"] = parts["mlp.c_proj"]
            own[f"{feed}.norm.norm.{kind}"] = found[f"{theirs}.ln_2.{kind}"]
    return own


# Tokenizer


def read_tokenizer(folder: Path) -> Bpe:
    """Byte-pair encoding with the vocabulary and merges of the folder, so with the same token ids."""
    path = folder / "tokenizer.json"
    if path.is_file():
        return read_whole_tokenizer(path)
    for name in ("vocab.json", "merges.txt"):
        if not (folder / name).is_file():
            raise RunError(f"{folder}: expected a tokenizer as tokenizer.json or vocab.json and merges.txt, found none")
    settings = folder / "tokenizer_config.json"
    if settings.is_file():
        content = read_json(settings)
        refuse_setting(settings, content if isinstance(content, dict) else {}, {"add_prefix_space": False})
    path = folder / "merges.txt"
    try:
        lines = read_file(path, MOST_MERGES).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise RunError(f"{path}: expected UTF-8, found a byte that is none ({error.reason})") from None
    merges = [line.rstrip("\r") for line in lines[lines[0].startswith("#version") :]]
    return build_tokenizer(folder / "vocab.json", read_json(folder / "vocab.json"), [m for m in merges if m], [])


def read_whole_tokenizer(path: Path) -> Bpe:
    """tokenizer.json, as the package `tokenizers` writes it."""
    content = read_json(path)
    typed.check_keys(content, str(path), known=None, needed=["model"])
    model = content["model"]
    typed.check_keys(model, f"{path}: model", known=None, needed=["vocab", "merges"])
    refuse_setting(path, content, {"normalizer": None})
    plain: dict[str, Any] = dict.fromkeys(("dropout", "continuing_subword_prefix", "end_of_word_suffix"))
    plain |= {"byte_fallback": False, "ignore_merges": False}
    refuse_setting(path, {name: value or plain.get(name) for name, value in model.items()}, {"type": "BPE"} | plain)
    cut = content.get("pre_tokenizer")
    usual = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    refuse_setting(path, cut if isinstance(cut, dict) else {"type": cut}, usual)
    added = typed.read(content.get("added_tokens") or [], list[dict[str, Any]], f"{path}: added_tokens")
    return build_tokenizer(path, model["vocab"], model["merges"], added)


def refuse_setting(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse settings of a tokenizer that differ from those of GPT-2."""
    for name, value in wanted.items():
        if found.get(name, value) != value:
            raise RunError(f"{path}: expected {name} {typed.show(value)}, found {typed.show(found[name])}")


def build_tokenizer(path: Path, vocabulary: Any, merges: Any, added: list[dict[str, Any]]) -> Bpe:
    """A tokenizer from ids by token, merges as pairs or as texts with a blank between, and special tokens."""
    ids = dict(typed.read(vocabulary, dict[str, int], f"{path}: vocab"))
    for token in added:
        content, number = token.get("content"), token.get("id")
        if not isinstance(content, str) or not isinstance(number, int):
            raise RunError(f"{path}: expected added tokens with content and id, found {typed.show(token)}")
        if content not in ids:
            ids[spell_bytes(content)] = number
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise RunError(f"{path}: expected tokens numbered from 0 to {len(tokens) - 1:,}, each once, found others")
    pairs = []
    for merge in typed.read(merges, list[Any], f"{path}: merges"):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            raise RunError(f"{path}: expected merges of two tokens, found {typed.show(merge)}")
        pairs.append((pair[0], pair[1]))
    try:
        return Bpe(tokens, pairs)
    except DataError as error:
        raise FileError(f"{path}: {error}") from None
