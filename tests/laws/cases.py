"""Every registered layer and encoder in every variant that its file names."""

from dataclasses import fields

import pytest

from recollect.layers import ENCODERS, LAYERS


def describe(name, config):
    """`attention-heads=2-window=3`: what differs from the defaults."""
    parts = [name]
    for field in fields(config):
        value = getattr(config, field.name)
        if value != field.default and field.name != "dim":
            parts.append(f"{field.name}={value}" if isinstance(value, int | str | float) else field.name)
    return "-".join(parts)


def cases(registry):
    return [
        pytest.param(config, id=describe(name, config)) for name, kind in registry.items() for config in kind.variants()
    ]


every_layer = pytest.mark.parametrize("config", cases(LAYERS))
every_encoder = pytest.mark.parametrize("config", cases(ENCODERS))
