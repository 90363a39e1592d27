"""The arguments of `torch.nn.RNN`, `LSTM` and `GRU` as settings of the layers here."""

from typing import Any

from torch import nn

from ..core.contract import ContractError

POSITIONAL = "input_size", "hidden_size", "num_layers"
SETTINGS = {"input_size": "dim", "hidden_size": "width"}  # those that have another name here
FIXED = {  # arguments that can have one value only, with what to use in place of any other
    "batch_first": (True, "x is always (batch, steps, {dim}): transpose it with x.transpose(0, 1)"),
    "bidirectional": (
        False,
        "for both ways over a whole sequence use "
        'build_encoder("bidirectional", dim={dim}, layer={file}.Config(dim={dim}, width={width}))',
    ),
    "proj_size": (0, "the output is as wide as hidden_size: put nn.Linear({width}, {found}) after the layer"),
    "device": (None, "make the layer, then call .to({found!r})"),
    "dtype": (None, "make the layer, then call .to({found})"),
}


def rename(name: str, file: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the layer `name` by their names here; one line says what to use in place of what is not offered.

    `file` is the module of the layer, for messages.
    """
    found = {setting: value for setting, value in settings.items() if setting not in {**SETTINGS, **FIXED}}
    for theirs, ours in SETTINGS.items():
        if theirs not in settings:
            continue
        if ours in found:
            raise ContractError(f"{name}: expected {ours} or {theirs}, which mean the same, found both; leave one out")
        found[ours] = settings[theirs]
    for argument, (only, instead) in FIXED.items():
        if (value := settings.get(argument, only)) != only:
            dim = found.get("dim", "dim")
            words = instead.format(file=file, dim=dim, width=found.get("width") or dim, found=value)
            raise ContractError(f"{name}: expected {argument}={only}, found {argument}={value}; {words}")
    return found


def settings_of(module: nn.RNNBase) -> dict[str, Any]:
    """The settings of the layer that computes what a module of `torch.nn` computes."""
    if module.proj_size:
        raise ContractError(f"from_torch: expected a module without projections, found proj_size={module.proj_size}")
    names = "input_size", "hidden_size", "num_layers", "bias", "dropout"
    found = {SETTINGS.get(name, name): getattr(module, name) for name in names}
    if isinstance(module, nn.RNN):
        found["nonlinearity"] = module.nonlinearity
    return found
