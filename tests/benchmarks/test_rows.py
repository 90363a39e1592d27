"""Every row of the bench runs at a small size, and its peers compute what ours does: the rows themselves check it."""

import pytest
import torch

import recollect
from benchmarks import align, decoding, layers, onnx_peer, scaling, steps
from recollect.core import state as states

pytestmark = pytest.mark.usefixtures("no_clock")


def sound(rows):
    """All rows, none of them failed; peers may be absent only where they are not installed."""
    found = list(rows)
    for row in found:
        assert row.error is None, f"{row.row}: {row.error}"
        assert all(why.startswith("not installed") for why in row.absent.values()), row.absent
        assert row.floor is not None
        assert row.floor["seconds"] > 0
    return found


@pytest.mark.slow
def test_steps_agree_with_torch_and_with_the_equations():
    found = sound(steps.step("cpu", width=16, batches=(1, 3)))
    assert [row.row for row in found[:2]] == ["step rnn B1 D16", "step rnn B3 D16"]
    assert len(found) == 2 * len(steps.PLAIN)
    assert {"nn.LSTMCell", "nn.LSTM"} <= set(found[2].peers)


def test_whole_sequences_agree_with_torch(monkeypatch):
    small = layers.Shape(3, 5, 8)
    monkeypatch.setitem(layers.SHAPES, "cpu", dict.fromkeys(layers.MODULES, small))
    monkeypatch.setitem(layers.SMALLER, "cpu", small)
    found = sound(layers.sequence("cpu"))
    assert len(found) == 4 * len(layers.MODULES)
    ragged = [row.amount for row in found if "ragged" in row.row]
    assert ragged == [5 + 3 + 1] * 3  # lengths, not steps, are counted
    sound(layers.causal("cpu", batch=2, steps=5, width=8, heads=2))


def test_a_difference_from_torch_fails_a_row():
    with pytest.raises(AssertionError, match="found a difference of 0.5"):
        layers.agree([torch.tensor([2.0, 1.0])], [torch.tensor([2.0, 2.0])], 0.1)


def test_soft_alignment_agrees_with_a_loop_by_hand(monkeypatch):
    monkeypatch.setitem(align.BATCH, "cpu", 3)
    for name, size in {"SOURCE": 6, "STEPS": 5, "WIDTH": 12, "VOCAB": 40, "BEAM": 3}.items():
        monkeypatch.setattr(align, name, size)
    training, greedy, beam = sound(align.align("cpu"))
    assert "gradients" in training.checked
    assert greedy.checked == "tokens are equal in 3 of 3 rows"
    assert beam.checked == "log p of the best are equal in 3 of 3 rows"


def test_the_plain_beam_finds_the_best_of_all_texts(monkeypatch):
    """With a beam as wide as there are prefixes the search is exhaustive."""
    monkeypatch.setitem(align.BATCH, "cpu", 2)
    for name, size in {"SOURCE": 3, "STEPS": 3, "WIDTH": 8, "VOCAB": 4, "BEAM": 64}.items():
        monkeypatch.setattr(align, name, size)
    reader, plain, values, memory = align.made("cpu")
    with torch.no_grad():
        found, logprob = plain.search(values, plain.step)
        texts = torch.cartesian_prod(*[torch.arange(4)] * 3)
        for row in range(2):
            one = states.select(memory, torch.full((len(texts),), row))
            x = torch.cat([torch.full((len(texts), 1), align.BEGIN), texts[:, :-1]], dim=1)
            logits, _ = reader(x, memory=one)
            score = logits.log_softmax(dim=-1).gather(2, texts[..., None])[..., 0].sum(dim=1)
            assert texts[score.argmax()].tolist() == found[row].tolist()
            torch.testing.assert_close(score.max(), logprob[row])


@pytest.mark.slow
def test_the_next_token_agrees_with_reading_again(monkeypatch):
    monkeypatch.setattr(decoding, "WIDTH", 16)
    monkeypatch.setattr(decoding, "VOCAB", 30)
    assert len(sound(decoding.decoding("cpu"))) == 15


@pytest.mark.slow
def test_growth_is_fitted_for_every_layer(monkeypatch):
    monkeypatch.setitem(scaling.WIDTH, "cpu", 8)
    monkeypatch.setattr(scaling, "LENGTHS", [16, 32, 64])
    found = sound(scaling.scaling("cpu"))
    assert [row.row.split()[1] for row in found] == list(recollect.layers.LINEAGE)
    for row in found:
        assert row.series["length"] == [16, 32, 64]
        assert set(row.fit) == {"time", "memory"}


def test_memory_at_its_peak_is_counted():
    def run():
        kept = torch.empty(1000, 100)  # 400 kB
        passing = torch.empty(1000, 200)  # 800 kB more
        del passing
        return kept, torch.empty(1000, 50)

    assert scaling.peak_bytes(run, "cpu") == 1_200_000


def test_attention_that_makes_all_scores_grows_as_the_square_in_memory():
    lengths, peaks = [64, 128, 256], []
    layer = recollect.build("attention", dim=4, score="additive")
    for length in lengths:
        x = torch.randn(1, length, 4)
        with torch.no_grad():
            peaks.append(scaling.peak_bytes(lambda x=x: layer(x, layer.initial_state(1)), "cpu"))
    assert scaling.exponent(lengths, peaks) == pytest.approx(2, abs=0.1)


def test_a_step_runs_in_another_runtime_on_inputs_that_change():
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    layer = recollect.build("ttt-linear", dim=8, heads=2).eval()
    x = torch.randn(2, 1, 8)
    with torch.no_grad():
        _, state = layer(torch.randn(2, 3, 8), layer.initial_state(2))
        run = onnx_peer.exported(onnx_peer.Step(layer, state), (x, *states.leaves(state)))
        for _ in range(2):
            x.normal_()
            y, after = layer(x, state)
            for found, expected in zip(run(), [y, *states.leaves(after)], strict=True):
                torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
