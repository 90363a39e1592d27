"""Hugging Face causal models, by a stand-in for `transformers` with the same calls."""

import sys
import types
from typing import NamedTuple

import pytest
import torch
from torch import nn

from recollect.doctor import SubjectError, examine


class Cache:
    """Keys of all steps, written in place as a DynamicCache is."""

    def __init__(self):
        self.layers = []

    def update(self, keys):
        self.layers = [torch.cat([*self.layers, keys], dim=2)]
        return self.layers[0]


class Out(NamedTuple):
    logits: torch.Tensor
    past_key_values: Cache


class Model(nn.Module):
    """The mean of the embeddings of all tokens so far: a cache, a mask, float32 weights."""

    ignores_mask = False
    config = types.SimpleNamespace(vocab_size=11)

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 6), nn.Linear(6, 11)

    def forward(self, input_ids, attention_mask=None, past_key_values=None, use_cache=None, return_dict=None):
        cache = Cache() if past_key_values is None else past_key_values
        keys = cache.update(self.embed(input_ids)[:, None])[:, 0]  # B T d
        seen = torch.ones(keys.shape[:2]) if attention_mask is None or self.ignores_mask else attention_mask
        weights = torch.ones(keys.shape[1], keys.shape[1]).tril()[-input_ids.shape[1] :] * seen[:, None].to(keys.dtype)
        y = weights @ keys / weights.sum(dim=-1, keepdim=True)
        return Out(self.head(y if not self.ignores_mask else y - keys.mean(dim=1, keepdim=True)), cache)


class LooksAhead(Model):
    ignores_mask = True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder of a model, and a `transformers` that reads it; returns how to choose the model."""
    (tmp_path / "config.json").write_text("{}")

    def install(model):
        def from_pretrained(where, **options):
            assert options == {"local_files_only": True, "trust_remote_code": False, "use_safetensors": True}
            return model()

        loader = types.SimpleNamespace(from_pretrained=from_pretrained)
        monkeypatch.setitem(sys.modules, "transformers", types.SimpleNamespace(AutoModelForCausalLM=loader))
        return str(tmp_path)

    return install


def test_a_causal_model_keeps_the_laws_though_its_cache_is_written_in_place(folder):
    found = {finding.law: finding for finding in examine(folder(Model)).findings}
    verdicts = {law: finding.verdict for law, finding in found.items()}
    assert {law for law, verdict in verdicts.items() if verdict == "holds"} == {
        "repeat", "cause", "chunk", "row", "ragged", "file"
    }  # fmt: skip
    assert "written in place by design" in found["purity"].reason


def test_a_model_that_looks_ahead_is_caught(folder):
    examination = examine(folder(LooksAhead))
    assert "cause" in examination.broken
    assert examination.vocab == 11


def test_without_transformers_one_line_says_what_to_install(folder, monkeypatch):
    where = folder(Model)
    monkeypatch.setitem(sys.modules, "transformers", None)  # an import of it fails
    with pytest.raises(SubjectError, match="pip install transformers"):
        examine(where)


def test_a_folder_without_a_config_is_refused(tmp_path):
    with pytest.raises(SubjectError, match=r"found no config.json in it"):
        examine(str(tmp_path))


def test_a_model_that_cannot_be_read_is_refused_in_one_line(folder, monkeypatch):
    def fail(where, **options):
        raise OSError("no file named\nmodel.safetensors")

    where = folder(Model)
    monkeypatch.setattr(sys.modules["transformers"].AutoModelForCausalLM, "from_pretrained", fail)
    with pytest.raises(SubjectError, match=r"expected a causal model, found OSError: no file named model.safetensors"):
        examine(where)
