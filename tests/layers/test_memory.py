"""Memories that do not fit their reader."""

import pytest

from oracles import refused, source
from recollect.layers import LAYERS, attention, combine, cross_attention, transformer

READERS = {
    "cross-attention": cross_attention.Config(dim=4, memory_dim=3),
    "soft-align": LAYERS["soft-align"](dim=4, memory_dim=3),  # type: ignore[call-arg]
    "transformer-block": transformer.Config(dim=4, cross=cross_attention.Config(dim=4, memory_dim=3)),
    "stack": combine.StackConfig(dim=4, layers=(attention.Config(dim=4), cross_attention.Config(dim=4, memory_dim=3))),
}


@pytest.mark.parametrize("name", READERS)
def test_a_missing_memory_is_refused(name: str) -> None:
    with refused("expected a memory", "initial_state(batch, memory=encoder(x))"):
        READERS[name].build().initial_state(2)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(("rows", "width"), [(2, 5), (1, 3)])
def test_a_memory_of_another_width_or_other_rows_is_refused(name: str, rows: int, width: int) -> None:
    with refused("expected a memory of 2 rows and width 3", f"found {rows} rows and width {width}"):
        READERS[name].build().double().initial_state(2, memory=source(rows, 6, width))


def test_a_memory_whose_marks_do_not_fit_its_values_is_refused() -> None:
    memory = source(2, 6, 3)
    memory = memory._replace(valid=memory.valid[:, :4])
    for config in READERS.values():
        with refused("expected", "found"):
            config.build().double().initial_state(2, memory=memory)
