"""Texts that are shared: paths of a machine are shortened, all else stays as it is."""

import shlex

import pytest

from recollect.core.sharing import share, share_text


@pytest.fixture(autouse=True)
def _places(tmp_path, monkeypatch):
    (tmp_path / "home" / "zoe" / "work").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home" / "zoe"))
    monkeypatch.chdir(tmp_path / "home" / "zoe" / "work")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("recollect train --data {home}/work/a/b.txt", "recollect train --data a/b.txt"),
        ("recollect train --data {home}/texts/b.txt --out runs/x", "recollect train --data …/b.txt --out runs/x"),
        ("--set of={home}/a,{home}/b", "--set of=…/a,…/b"),
        ("--out {home}/work", "--out ."),
        ("--out {home}", "--out ~"),
        ("{home}/my texts/b.txt: expected UTF-8", "…/my texts/b.txt: expected UTF-8"),
        ("'/srv/zoe/b.txt': no such file", "'…/b.txt': no such file"),
        ('File "/opt/zoe/lib/layer.py", line 3', 'File "…/layer.py", line 3'),
        ("~/b.txt and ~zoe/c/d.txt", "…/b.txt and …/d.txt"),
        ("../../zoe/b.txt", "…/b.txt"),
        ("file:///home/zoe/b.txt", "…/b.txt"),
        (r"C:\Users\zoe\b.txt", "…/b.txt"),
        (r"C:\Users\Zoe Mark\b.txt: no such file", "…/b.txt: no such file"),
        (r"read \\server\share\Zoe\b.txt twice", "read …/b.txt twice"),
        ("in /home/zoe and /Users/zoe, not /srv/texts", "in … and …, not …/texts"),
    ],
)
def test_a_path_is_relative_or_its_last_part_alone(tmp_path, text, expected):
    found = share_text(text.format(home=tmp_path / "home" / "zoe"))
    assert found == expected
    assert share_text(found) == found


@pytest.mark.parametrize(
    "text",
    ["", "a/b/c.txt", "1/2 and/or 3 / 4", "https://example.org/a/b", "nats/token", "x …/b.txt", "races/text", "a\\b"],
)
def test_any_other_text_stays(text):
    assert share_text(text) == text


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x/sp dir/Zoe Mark/b.txt", "…/b.txt"),
        (r"C:\Users\Zoe Mark\my b.txt", "…/my b.txt"),
        (r"\\server\share\Zoe Mark\x", "…/x"),
        ("/home/zoe", "…"),
        ("/mnt/Users/zoe/", "…"),
        ("~zoe", "…"),
        ("~/my texts/b.txt", "…/b.txt"),
        ("../Zoe Mark/b.txt", "…/b.txt"),
        ("{home}/work/my texts/b.txt", "my texts/b.txt"),
        ("{home}", "~"),
        ("tinyshakespeare", "tinyshakespeare"),
        ("my texts/b.txt", "my texts/b.txt"),
    ],
)
def test_what_is_known_as_a_path_is_shortened_as_a_whole(tmp_path, path, expected):
    given = path.format(home=tmp_path / "home" / "zoe")
    found = share({"data": [given], "note": "x"})
    assert found == {"data": [expected], "note": "x"}
    assert share(found) == found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--data", "/x/Zoe Mark/b.txt", "--steps", "3"], "--data …/b.txt --steps 3"),
        (["--data=/x/Zoe Mark/my b.txt"], "'--data=…/my b.txt'"),
        (["--set", "of=/x/Zoe Mark/a,/y/Mark, Zoe/b"], "--set of=…/a,…/b"),
        (["--prompt", "it's so: /x/y"], """--prompt 'it'"'"'s so: …/y'"""),
        (["--out", r"C:\Users\Zoe Mark\run"], "--out …/run"),
    ],
)
def test_a_command_is_shortened_word_by_word(words, expected):
    found = share({"command": shlex.join(words)})
    assert found == {"command": expected}
    assert share(found) == found


def test_a_command_whose_quotes_do_not_close_is_shortened_as_prose():
    assert share({"command": "--prompt it's /x/y"}) == {"command": "--prompt it's …/y"}


def test_values_of_json_are_shared_part_by_part():
    assert share({"a": ["/x/y/z", 5, None], "b": {"c": "/x/y/z"}}) == {"a": ["…/z", 5, None], "b": {"c": "…/z"}}
