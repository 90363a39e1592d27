"""Films in, captions and gaze out: by Python, by the command line."""

import json
import re

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

import recollect
from recollect.cli import app
from recollect.core.errors import RecollectError
from recollect.report import film_gaze
from recollect.report.drawing import figure
from recollect.tasks.captions.films import scenes
from recollect.tasks.captions.films.gaze import gaze
from recollect.tasks.captions.films.task import FilmsTask
from recollect.tasks.captions.films.use import describe_films
from recollect.training import run as runs

SETTINGS = {"steps": 2, "batch": 4, "warmup": 1, "eval_every": 2, "count": 24, "channels": 8, "width": 8, "heads": 2}


def configure(model="gru", **settings):
    texts = {name: str(value) for name, value in (SETTINGS | {"eval_films": 4, "extra": 8} | settings).items()}
    return runs.configure(FilmsTask, texts, model=model)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that gives a run of two steps."""
    place, found = tmp_path_factory.mktemp("runs"), {}

    def make(model="gru", **settings):
        key = model, *settings.items()
        if key not in found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("RECOLLECT_CACHE", str(place / "cache"))
                found[key] = place / str(len(found))
                runs.train(FilmsTask, configure(model, **settings), str(found[key]))
        return found[key]

    return make


@pytest.fixture
def film(tmp_path):
    """A GIF file of a rendered film, and its frames."""
    frames = scenes.film("test", 2).frames
    first, *rest = [Image.fromarray(frame) for frame in frames]
    first.save(tmp_path / "a.gif", save_all=True, append_images=rest, duration=100)
    (tmp_path / "frames").mkdir()
    for number, frame in enumerate([first, *rest]):
        frame.save(tmp_path / "frames" / f"{number}.png")
    return tmp_path / "a.gif", frames


def test_films_are_described_from_files_folders_and_arrays(trained, film):
    path, frames = film
    model = recollect.load(trained())
    assert (model.task, model.methods) == ("films", ("caption",))
    of_array, of_folder = model.caption(frames), model.caption(path.parent / "frames")
    assert of_array.text == of_folder.text, "the same frames, without a loss"
    assert of_array.scores == pytest.approx(of_folder.scores, abs=1e-5)
    several = model.caption([path, path.parent / "frames", frames, path.read_bytes()], nbest=2)
    assert len(several) == 4
    assert all(len(one.texts) == 2 for one in several)
    assert [one.file for one in several] == [str(path), str(path.parent / "frames"), "the film", "the film"]
    for given, message in ((3, "found int"), (np.zeros((4, 4)), "an array of float64"), ([frames[0]], "uint8")):
        with pytest.raises(RecollectError, match=message):
            model.caption(given)


@pytest.mark.parametrize(
    ("model", "settings", "kind"),
    [
        ("gru", {}, "attention to each frame, and inside it influence by gradient"),
        ("gru", {"grid": True}, "attention"),
        ("gru", {"pool": "flat", "motion": "none"}, "attention to each frame, and inside it influence by gradient"),
        ("bag", {"decoder": "transformer"}, "attention, mean of 2 heads to each frame"),
        ("lstm", {"decoder": "fixed"}, "influence of each part of each frame, by gradient"),
    ],
)
def test_every_model_says_when_and_where_each_word_came_from(trained, film, model, settings, kind):
    run = runs.load(trained(model, **settings))
    (one,) = describe_films(run, [film[0]])
    found = gaze(run, one.image, one.found[0])
    steps = len(one.found[0].tokens) + 1
    assert found.weights.shape == (steps, len(film[1]), 7, 7)
    assert found.words[-1] == "<end>"
    assert torch.allclose(found.weights.sum(dim=(1, 2, 3)), torch.ones(steps), atol=1e-5)
    assert found.kind.startswith(kind)


def test_the_weights_of_frames_are_those_of_the_attention(trained, film):
    from recollect.decode.translate import looks
    from recollect.tasks.captions.films.frames import join_films, to_frames

    run = runs.load(trained())
    (one,) = describe_films(run, [film[0]])
    found = gaze(run, one.image, one.found[0])
    memory = run.model.encode(to_frames(join_films([one.image], "cpu")[0], run.model))
    wanted = looks(run.model, memory, one.found[0].tokens, run.artifacts.tokenizer.begin)["mean"]
    assert torch.allclose(found.weights.sum(dim=(2, 3)), wanted, atol=1e-5)


def test_the_command_describes_films_and_draws_the_gaze(trained, film, tmp_path):
    path, frames = film
    words = ["caption", str(trained()), str(path), "--map", str(tmp_path / "map.svg"), "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["best"][0]["text"] is not None
    drawn = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert drawn.count('class="over-picture"') % len(frames) == 0
    done = CliRunner().invoke(app, ["inspect", str(trained()), "gaze", "--image", str(path), "--json"])
    assert np.array(json.loads(done.stdout)["weights"]).shape[1:] == (len(frames), 7, 7)
    (tmp_path / "b.gif").write_text("no film")
    done = CliRunner().invoke(app, ["caption", str(trained()), str(tmp_path / "b.gif")])
    assert "b.gif: expected a film, found something that Pillow does not know" in str(done.exception)


def test_a_strip_shows_all_of_a_words_weights_however_long_the_film_is(tmp_path):
    draw = np.random.default_rng(0)
    film = draw.integers(0, 256, size=(30, 12, 20, 3), dtype=np.uint8)
    weights = draw.random((2, 30, 3, 4))
    weights /= weights.sum(axis=(1, 2, 3), keepdims=True)
    fewer, kept = film_gaze._fewer(film, weights)
    assert fewer.shape == (film_gaze.MOST, 12, 20, 3)
    assert np.allclose(kept.sum(axis=(1, 2, 3)), 1)
    assert np.array_equal(fewer[0], film[0])
    assert np.array_equal(fewer[-1], film[-1])
    whole, same = film_gaze._fewer(film[:5], weights[:, :5])
    assert whole is not None
    assert same.shape == (2, 5, 3, 4)
    for ending in figure.FORMATS:
        film_gaze.draw(film, ["$5", "a_b"], weights, str(tmp_path / f"map{ending}"), "when and where")
        assert (tmp_path / f"map{ending}").stat().st_size > 1000
    with pytest.raises(figure.FigureError, match="each of 3 words and 30 frames"):
        film_gaze.strips(film, ["a", "b", "c"], weights)


def test_a_narrow_film_has_its_whole_title_and_bars_that_every_format_colours():
    film = np.zeros((2, 20, 5, 3), np.uint8)
    title = "attention to each frame, and inside it influence by gradient"
    drawn = film_gaze.strips(film, ["word"], np.full((1, 2, 2, 2), 1 / 8), title=title)
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawn)
    assert "…" not in "".join(texts)
    assert title in " ".join(texts)
    assert drawn.count('class="bar s0"') == 2, "the painter of PNG and PDF knows classes alone"
