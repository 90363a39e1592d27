"""Files in, captions out."""

import pytest
from PIL import Image
from typer.testing import CliRunner

from recollect.cli import app
from recollect.data.files import DataError
from recollect.tasks.captions import scenes
from recollect.tasks.captions.use import caption
from recollect.tasks.decoding import search_settings
from recollect.training import run as runs


def test_files_are_described_in_order(run, tmp_path):
    files = []
    for number in range(3):
        files.append(tmp_path / f"{number}.png")
        Image.fromarray(scenes.scene("test", number, pixels=32).image).save(files[-1])
    used = runs.load(run)
    found = list(caption(used, files, search_settings(used.config.task, nbest=2)))
    assert [one.file for one in found] == [str(file) for file in files]
    assert all(len(one.texts) == 2 and one.found[0].score >= one.found[1].score for one in found)
    alone = next(caption(used, files[2:]))
    assert alone.texts[0] == found[2].texts[0], "whoever stands beside it"
    assert "<unk>" not in found[0].texts[0]


def test_the_command_takes_the_beam_that_it_is_given(run, tmp_path):
    file = tmp_path / "a.png"
    Image.fromarray(scenes.scene("test", 0, pixels=32).image).save(file)
    words = ["caption", str(run), str(file)]
    wide = CliRunner().invoke(app, [*words, "--nbest", "7"])  # more than its own beam, which then widens
    assert len(wide.stdout.splitlines()) == 7
    for flags, message in ((["--beam", "0"], "beam to be"), (["--beam", "1", "--nbest", "2"], "nbest of at most beam")):
        assert message in str(CliRunner().invoke(app, [*words, *flags]).exception)


def test_a_file_that_is_no_picture_stops_the_describing_in_a_line(run, tmp_path):
    (tmp_path / "a.jpg").write_text("no picture")
    with pytest.raises(DataError, match=r"a\.jpg: expected a picture, found something that Pillow does not know"):
        list(caption(runs.load(run), [tmp_path / "a.jpg"]))
