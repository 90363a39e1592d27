"""Layers made from keyword arguments: `LSTM(dim=8, width=16)` is `build("lstm", dim=8, width=16)`."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, TypeVar

from torch import nn

from ..core.contract import Config, ContractError
from ..core.limits import checked_allocation
from ..core.settings import known

M = TypeVar("M", bound=nn.Module)
C = TypeVar("C", bound=Config)


def constructed_from(config: type[Config]) -> Callable[[type[M]], type[M]]:
    """Class decorator: a layer whose `__init__` takes a Config also takes that Config's settings by name."""

    def decorate(layer: type[M]) -> type[M]:
        from_config: Any = layer.__init__

        @wraps(from_config)
        def __init__(self: M, *given: Any, **settings: Any) -> None:  # noqa: N807, it becomes the class's own
            if len(given) == 1 and isinstance(given[0], Config) and not settings:
                from_config(self, *given)
            else:
                name = type(self).__name__
                checked = configure(config, name, settings, given)
                with checked_allocation(name, "lower dim or width"):
                    from_config(self, checked)

        settings = [Parameter(f.name, Parameter.KEYWORD_ONLY, **_annotate(f)) for f in ordered_fields(config)]
        own = Parameter("self", Parameter.POSITIONAL_ONLY)
        __init__.__dict__["__signature__"] = Signature([own, *settings], return_annotation=None)
        layer.__init__ = __init__
        return layer

    return decorate


def configure(config: type[C], name: str, settings: dict[str, Any], given: Sequence[Any] = ()) -> C:
    """The checked settings of the layer `name`; `given` are those without a name. A misspelt one gets a suggestion."""
    if len(given) > len(config.positional):
        first = f"by name after {', '.join(config.positional)}" if config.positional else "by name, such as dim=8"
        raise ContractError(f"{name}: expected settings {first}, found {len(given)} values without a name")
    for setting, value in zip(config.positional, given, strict=False):
        if setting in settings:
            raise ContractError(f"{name}: expected {setting} once, found it with and without its name")
        settings = {setting: value} | settings
    settings = config.rename(name, settings)
    allowed = [field.name for field in fields(config)]
    for setting in settings:
        known(f"setting of {name}", setting, allowed)
    absent = [f.name for f in fields(config) if is_required(f) and f.name not in settings]
    if absent:
        raise ContractError(f"{name}: expected the settings {', '.join(absent)}, found none")
    return config(**settings)


def is_required(field: Field[Any]) -> bool:
    """Whether a setting has no default."""
    return field.default is MISSING and field.default_factory is MISSING


def ordered_fields(config: type[Config]) -> list[Field[Any]]:
    """The settings of a layer, those without a default first."""
    return sorted(fields(config), key=lambda field: not is_required(field))


def _annotate(field: Field[Any]) -> dict[str, Any]:
    """Type and default of a setting for a signature."""
    if is_required(field):
        return {"annotation": field.type}
    default = field.default if field.default is not MISSING else field.default_factory()  # type: ignore[misc]
    return {"annotation": field.type, "default": default}
