"""The command line of the server: what it refuses before it listens, and what it prints."""

import pytest

from recollect.serve import server


@pytest.fixture(autouse=True)
def ended(monkeypatch):
    """A server that ends as soon as it would answer."""
    monkeypatch.setattr(server, "run", lambda made, sock: None)
    monkeypatch.delenv("RECOLLECT_TOKEN", raising=False)


def test_it_prints_a_link_with_a_token(command):
    code, out, _ = command("serve", "demo-text", "--port", 0)
    assert code == 0
    assert out.splitlines()[0] == "serving demo-text; Ctrl-C ends it"
    link, _, token = out.splitlines()[1].partition("/?token=")
    assert link.startswith("http://127.0.0.1:")
    assert len(token) > 40


def test_it_speaks_chinese(command):
    _, out, _ = command("serve", "demo-text", "--port", 0, "--lang", "zh")
    assert "Ctrl-C" in out
    assert "serving" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing-here",), "expected a run folder, found nothing"),
        (("demo-text", "demo-text"), "expected runs of different names"),
        (("demo-text", "--set", "session=4"), "did you mean 'sessions'"),
        (("demo-text", "--set", "sessions=0"), "a whole number of at least 1"),
        (("demo-text", "--set", "seconds=0"), "seconds above 0"),
        (("demo-text", "--host", "192.0.2.1"), "expected an address to listen on, found 192.0.2.1 port 0"),
        (("demo-text", "--host", "a\0b"), "expected an address to listen on"),
    ],
)
def test_what_cannot_be_served_is_one_line(command, words, message):
    code, _, err = command("serve", *words, "--port", 0)
    assert code == 1
    assert message in err
    assert err.count("\n") == 1


def test_a_token_that_anybody_guesses_is_refused(command, monkeypatch):
    for token in ("short", "with blanks and more of them", "x" * 300, "é" * 20):
        monkeypatch.setenv("RECOLLECT_TOKEN", token)
        code, _, err = command("serve", "demo-text", "--port", 0)
        assert code == 1
        assert "RECOLLECT_TOKEN: expected 16 to 200 letters" in err
        assert token not in err
