"""A state followed step by step, and how far a change travels."""

import pytest
import torch

from measure.probes import LinearRnn, build, every_kind, subject
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.core.inspection import Probe
from recollect.measure import state as state_of


@every_kind
def test_the_state_is_followed_to_where_the_whole_text_leads(kind):
    given = subject(build(kind))
    track = state_of.follow(given)
    y, last = given.model(given.x[:1])
    assert torch.allclose(track.outputs, y[0], atol=1e-10)
    final = {name: tensor for name, tensor in states.named(last) if tensor.is_floating_point()}
    assert set(track.tensors) == set(final)
    for name, tensor in final.items():
        assert torch.allclose(track.tensors[name][-1], tensor[0], atol=1e-10)
        assert len(track.tensors[name]) == 10
    assert all(track.grows(name) == (kind == "transformer") for name in track.tensors)


@every_kind
def test_a_changed_input_moves_nothing_before_it_and_something_at_it(kind):
    given = subject(build(kind))
    found = state_of.effect(given, at=4)
    for way in found["states"].values():
        assert max(way[:4]) < 1e-12
    assert max(way[4] for way in found["states"].values()) > 0
    assert max(map(abs, found["outputs"][:4])) < 1e-12
    assert found["outputs"][4] > 0
    assert found["token"] != int(given.x[0, 4])


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ("0.h 1.h", ["layer 1, hidden state h", "layer 2, hidden state h"]),
        ("1.cell.h", ["hidden state h"]),
        ("0.1.h 1.total", ["hidden state h", "sum of keys"]),
        ("cell.h context", ["hidden state h", "context"]),
        (
            "body.0.window body.1.keys body.3.window body.4.keys",
            ["layer 1, last inputs", "layer 1, keys", "layer 2, last inputs", "layer 2, keys"],
        ),
        ("0.first.window 0.second.window", ["first convolution's last inputs", "second convolution's last inputs"]),
        ("0.model.weights.0 2.model.weights.0", [f"layer {i}, inner model's weights 1" for i in (1, 2)]),
    ],
)
def test_tensors_are_named_by_their_layer_and_not_by_their_place_among_parts_without_a_state(paths, words):
    assert list(state_of.name_plainly(paths.split()).values()) == words


def test_the_words_for_a_state_that_grows_hold_no_path():
    model = build("transformer", layers=2)
    summary = state_of.read(subject(model)).summary
    assert summary[0].endswith("growing: layer 1, keys; layer 1, values; layer 2, keys; layer 2, values")


def test_a_window_forgets_a_change_after_its_length():
    found = state_of.effect(subject(build("ar", layers=1, layer={"tau": 3})), at=2)
    (way,) = found["states"].values()
    assert [distance > 0 for distance in way] == [False, False, True, True, True, *[False] * 5]


def test_a_change_in_a_linear_rnn_fades_by_its_matrix():
    layer = LinearRnn()
    x = torch.randn(1, 8, 3, dtype=torch.float64)
    base = vars(subject(layer, rows=1, steps=8))
    given = Probe(**base | {"x": x, "steps": x, "categorical": False})
    found = state_of.effect(given, at=2)["states"]["h"]
    track = state_of.follow(given).tensors["h"]
    ones = torch.ones(3, dtype=torch.float64)
    for t in range(2, 8):
        moved = (torch.linalg.matrix_power(layer.U, t - 2) @ layer.W @ ones).detach()
        assert found[t] == pytest.approx(float(moved.norm() / track[t].norm()))


def test_steps_outside_the_text_and_words_that_are_several_tokens_are_told():
    given = subject(build("gru"))
    with pytest.raises(ContractError, match="from 1 to 10, found 12"):
        state_of.effect(given, at=11)
    with pytest.raises(ContractError, match="reads words"):
        given.token("a")
    with pytest.raises(ContractError, match="one token, found 2 in 'ab'"):
        Probe(**vars(given) | {"encode": lambda text: [0] * len(text)}).token("ab")
