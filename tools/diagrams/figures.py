"""All figures of the course by name, each in both languages."""

from collections.abc import Callable
from pathlib import Path

from . import attention, gates, recurrence, transformer, translation
from .about import ABOUT
from .kit import Diagram

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "course" / "figures"
LANGUAGES = ("en", "zh")
DRAWN: dict[str, Callable[[Diagram], None]] = {
    "sequence": recurrence.draw_sequence,
    "unrolled-rnn": recurrence.draw_unrolled_rnn,
    "bptt-cuts": recurrence.draw_bptt_cuts,
    "gradient-path": gates.draw_gradient_path,
    "lstm-cell": gates.draw_lstm_cell,
    "gru-cell": gates.draw_gru_cell,
    "encoder-decoder": translation.draw_encoder_decoder,
    "both-ways": translation.draw_both_ways,
    "alignment-step": translation.draw_alignment_step,
    "picture-to-words": translation.draw_picture_to_words,
    "dot-product": attention.draw_dot_product,
    "qkv": attention.draw_qkv,
    "kernel-regression": attention.draw_kernel_regression,
    "heads": attention.draw_heads,
    "mask-positions": attention.draw_mask_positions,
    "transformer-block": transformer.draw_transformer_block,
    "three-methods": transformer.draw_three_methods,
    "receptive-field": transformer.draw_receptive_field,
    "three-stores": transformer.draw_three_stores,
    "kv-cache": transformer.draw_kv_cache,
    "ttt-step": transformer.draw_ttt_step,
    "matrix-dials": transformer.draw_matrix_dials,
}


def draw(name: str, language: str) -> Diagram:
    """A figure in one language."""
    diagram = Diagram(language)
    DRAWN[name](diagram)
    return diagram


def render(name: str, language: str) -> str:
    """The file of a figure."""
    return draw(name, language).svg(*ABOUT[name][language])


def path_of(name: str, language: str) -> Path:
    return FOLDER / (f"{name}.svg" if language == "en" else f"{name}.{language}.svg")
