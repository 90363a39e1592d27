"""Causal language models in Hugging Face's layout, from a local folder; `transformers` is imported here alone.

Nothing in the folder is executed: its own code is refused, and weights are read from safetensors.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from ..core.outside import describe_error
from .subject import Stateful, SubjectError, Traits


class Causal(Stateful):
    """A causal language model over tokens. Its state is `past_key_values`, of which each call gets a copy."""

    def __init__(self, name: str, model: Any, vocab: int) -> None:
        super().__init__(name, model, Traits("a Hugging Face causal model", 1, vocab))
        self.padding = "attention_mask"

    def call(self, x: Tensor, state: Any, **told: Any) -> tuple[Tensor, Any]:
        out = self.target(input_ids=x, past_key_values=state, use_cache=True, return_dict=True, **told)
        if out.past_key_values is None:
            raise SubjectError(f"{self.label}: expected past_key_values with use_cache=True, found none")
        return out.logits, out.past_key_values


def load_folder(folder: str) -> Causal:
    """The model in a folder, which must hold config.json and safetensors."""
    if not (Path(folder) / "config.json").is_file():
        raise SubjectError(f"{folder}: expected the folder of a Hugging Face model, found no config.json in it")
    try:
        from transformers import AutoModelForCausalLM  # type: ignore[import-not-found]
    except ImportError:
        raise SubjectError(
            f"{folder}: expected transformers for a Hugging Face model, found none; run pip install transformers"
        ) from None
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:
        raise SubjectError(f"{folder}: expected a causal model, found {describe_error(error)}") from error
    return Causal(Path(folder).name, model, model.config.vocab_size)
