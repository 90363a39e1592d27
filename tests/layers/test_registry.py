"""The registry of layers is whole, and a layer is one file."""

import pkgutil
from pathlib import Path

import pytest

import recollect
from recollect import layers
from tiny import invoke


def test_every_layer_file_is_in_the_registry():
    """Files that define a Config with build() of their own, and are not shared machinery."""
    registered = {c.__module__ for registry in (layers.LAYERS, layers.ENCODERS) for c in registry.values()}
    shared = {"recurrent", "attend", "score", "alignment", "lineage", "loss", "outside", "ttt_fused", "ttt_scan"}
    shared |= {"scanned", "classes", "keywords", "torch_names"}
    for module in pkgutil.iter_modules(layers.__path__):
        assert module.name in shared or f"recollect.layers.{module.name}" in registered, module.name


def test_a_layer_is_one_file(tmp_path, monkeypatch):
    """A file put among the layers is registered under its name, with no other file touched."""
    source = (Path(layers.__path__[0]) / "rnn.py").read_text()
    (tmp_path / "plain_rnn.py").write_text(source)
    monkeypatch.setattr(layers, "__path__", [*layers.__path__, str(tmp_path)])
    monkeypatch.setattr(layers, "LAYERS", dict(layers.LAYERS))
    layers.discover()
    assert "plain-rnn" in layers.LAYERS
    assert layers.build("plain-rnn", dim=4).width == 4


@pytest.mark.parametrize("name", layers.LAYERS)
def test_every_layer_says_what_it_is(name):
    card = layers.card(name)
    assert all(card), f"{name}: STATE, UPDATE, READ, GROWS and FAST stand at the head of its file"


@pytest.mark.parametrize("name", layers.LINEAGE)
def test_every_layer_of_the_lineage_is_built_by_its_name(name):
    layer = recollect.build(name, dim=16)
    assert layer.dim == layer.width == 16


def test_the_lineage_table_is_printed_whole(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out = " ".join(invoke("models").output.split())
    for name in layers.LINEAGE:
        card = layers.card(name)
        assert all(" ".join(text.split()) in out for text in card if text != card.summary), name
