"""Where a translation came from: every map agrees with the one call that gives it alone."""

import numpy as np
import pytest

import recollect
from export import made
from tasks import cases


@pytest.fixture(scope="module")
def model():
    return recollect.load("demo-translation", engine="torch")


def test_the_mean_is_the_alignment_of_translate(model):
    text = "two hundred and twenty-one"
    found, traces = model.trace(text, nbest=3)
    wanted = model.translate(text, nbest=3, alignments=True)
    assert found.texts == wanted.texts
    np.testing.assert_allclose(found.scores, wanted.scores, rtol=1e-6)
    np.testing.assert_allclose(traces[0].maps["mean"], wanted.alignment, rtol=1e-6)
    assert traces[0].source == wanted.source_tokens
    assert traces[0].target == wanted.target_tokens
    assert [trace.attends for trace in traces] == [True] * 3


def test_rows_are_shares_and_words_hold_their_tokens(model):
    _, (trace,) = model.trace("twenty-one")
    for weights in trace.maps.values():
        assert weights.shape == (len(trace.target), len(trace.source))
        np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)
    assert trace.source_words[-1] == trace.target_words[-1] == -1
    assert set(trace.source_words[:-1]) == {0}  # one word, whatever its tokens
    assert set(trace.target_words[:-1]) == {0, 1, 2}


def test_a_line_of_nothing_has_no_trace(model):
    found, traces = model.trace("   ")
    assert (found.texts, traces) == ((), ())


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A translator without attention, and a Transformer of two layers with two heads."""
    place = tmp_path_factory.mktemp("translators")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
        cases.write_data(place)
        return {
            name: recollect.load(made.make(place / name, place, "translation", name, **more).path, engine="torch")
            for name, more in (("fixed", {}), ("transformer", {"layers": 2, "heads": 2, "width": 16}))
        }


def test_without_weights_there_is_influence_alone(others):
    _, traces = others["fixed"].trace("a b c")
    assert list(traces[0].maps) == ["influence"]
    assert not traces[0].attends
    assert (traces[0].maps["influence"] > 0).any()


def test_a_transformer_has_a_map_for_each_layer_and_head(others):
    _, traces = others["transformer"].trace("a b c")
    names = [f"layer {layer} head {head}" for layer in (1, 2) for head in (1, 2)]
    assert set(traces[0].maps) == {*names, "mean", "influence"}
    mean = np.mean([traces[0].maps[name] for name in names], axis=0)
    np.testing.assert_allclose(traces[0].maps["mean"], mean, atol=1e-6)
