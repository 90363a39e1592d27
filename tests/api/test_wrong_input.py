"""What the public Python API cannot use is answered with one line, as an error of the package's own."""

import numpy as np
import pytest

import recollect
from recollect.api.racing import race
from recollect.api.training import evaluate, train


@pytest.fixture(scope="module")
def text():
    return recollect.load("demo-text")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: model.score(5), "score: expected a text, found int"),
        (lambda model: model.explain(None), "explain: expected a text, found NoneType"),
        (lambda model: model.next_tokens(["a"]), "next_tokens: expected a text, found list"),
        (lambda model: model.next_tokens("the", count="x"), "next_tokens: expected a count of at least 0, found 'x'"),
        (lambda model: list(model.generate("a", stop=5)), "generate: expected prompts and stops that are texts"),
        (lambda model: list(model.generate(5)), "generate: expected prompts and stops that are texts"),
        (lambda model: model.step(-1), "step: expected token numbers of at least 0, found -1"),
        (lambda model: model.step(10**6), "step: expected numbers of tokens of the model, found others"),
        (lambda model: model.step(1, "state"), "step: expected the state that a step returned, found str"),
        (lambda model: model.step([1, 2], model.step(1)[1]), "step: expected x of shape"),
    ],
)
def test_a_language_model_refuses(text, call, message):
    refuses(lambda: call(text), message)


def test_a_state_of_another_model_is_refused(text):
    """Its memory is bound to the other model, which would answer in place of this one."""
    _, foreign = recollect.load("demo-text").step(1)
    refuses(lambda: recollect.load("demo-text").step(1, foreign), "step: expected a state of this model, found one of")


@pytest.mark.parametrize("name", ["demo-text", "demo-translation"])
def test_a_model_is_loaded_by_a_name_or_a_folder(name):
    refuses(lambda: recollect.load(3), "load: expected a folder or the name of a run, found int")  # type: ignore[arg-type]
    assert recollect.load(name).model


@pytest.mark.parametrize(
    ("name", "call", "message"),
    [
        ("demo-translation", lambda model: model.translate(3), "translate: expected a text, found int"),
        ("demo-translation", lambda model: model.translate(["six", 3]), "translate: expected a text, found int"),
        ("demo-translation", lambda model: model.translate("six", bean=3), "found 'bean'; did you mean 'beam'?"),
        ("demo-captions", lambda model: model.caption(3), "caption: expected a file, an array of H W 3"),
        ("demo-captions", lambda model: model.caption("x.png", beem=2), "found 'beem'; did you mean 'beam'?"),
        ("demo-series", lambda model: model.forecast(np.arange(99.0), "3"), "expected a horizon of at least 1"),
    ],
)
def test_other_models_refuse(name, call, message):
    refuses(lambda: call(recollect.load(name)), message)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: train("text", 5), "--data: expected names of files or of a known set, found int"),
        (lambda: train("text", params=[3]), "--params: expected a number such as 500, 10k or 1M, found [3]"),
        (lambda: train("text", params=1.5), "--params: expected a whole number, found 1.5"),
        (lambda: evaluate(5), "evaluate: expected a run or its folder, found int"),
        (lambda: evaluate("demo-series", data={"a": [1]}), "--data: expected names of files or of a known set, found"),
        (lambda: race("parity", seeds="many"), "--seeds: expected a number such as 500, 10k or 1M, found 'many'"),
        (lambda: race("parity", budget=[1]), "--budget: expected a number such as 500, 10k or 1M, found [1]"),
    ],
)
def test_functions_refuse(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refuses(call, message)
    assert list(tmp_path.iterdir()) == []


def refuses(call, message):
    with pytest.raises(recollect.RecollectError) as caught:
        call()
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_list_of_data_is_refused_and_not_replaced_by_data_of_its_own(tmp_path):
    refuses(
        lambda: train("series", [], out=str(tmp_path / "run")), "expected files, a known set or a table, found an e"
    )
