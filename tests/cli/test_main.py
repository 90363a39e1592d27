"""Ctrl-C at any moment, and errors that are not hidden."""

import os
import signal

import pytest

from recollect import cli


def stopped_with(error, monkeypatch, capsys):
    """What a command leaves behind that meets Ctrl-C and then raises `error`: its exit code and its words."""

    def stopping():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr(cli, "app", stopping)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(SystemExit) as left:
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)
    return left.value.code, capsys.readouterr().err


def test_ctrl_c_amid_an_import_is_no_error_of_the_program(monkeypatch, capsys):
    """C code may swallow the interrupt, and what it leaves half made then fails in its own way."""
    error = AttributeError("module 'numpy' has no attribute 'matrix'")
    assert stopped_with(error, monkeypatch, capsys) == (130, "")


def test_what_a_stopped_command_has_to_say_is_said(monkeypatch, capsys):
    """How to go on with a race, say."""
    error = ValueError("stopped with 1 of 2 entries done and kept")
    assert stopped_with(error, monkeypatch, capsys) == (130, f"recollect: {error}\n")


def test_an_error_of_the_program_is_not_hidden(monkeypatch):
    def failing():
        raise AttributeError("ours")

    monkeypatch.setattr(cli, "app", failing)
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(AttributeError, match="ours"):
            cli.main()
    finally:
        signal.signal(signal.SIGINT, before)
