"""Standard streams as a caller may leave them: closed, full, endless, or no UTF-8."""

import contextlib
import io
import os
import subprocess
import sys

import pytest

from recollect import cli, tasks
from recollect.cli import common
from recollect.core.outside import OutsideError, load_module
from tiny import invoke


class Stdin:
    """A stdin of given bytes."""

    def __init__(self, content):
        self.buffer = io.BytesIO(content)

    def isatty(self):
        return False


@pytest.mark.parametrize("stream", [common.read_stdin, lambda: next(common.lines_of_stdin(False))])
def test_a_stdin_that_is_closed_is_one_line(stream, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="stdin: expected text, found it closed"):
        stream()
    assert not common.is_live()


def test_a_line_and_a_text_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(common, "MOST_LINE", 8)
    monkeypatch.setattr(common, "MOST_TEXT", 8)
    monkeypatch.setattr(sys, "stdin", Stdin(b"1234567\n12345678\n"))
    lines = common.lines_of_stdin(False)
    assert next(lines) == "1234567"
    with pytest.raises(ValueError, match="stdin, line 2: expected at most 8 bytes, found more"):
        next(lines)
    monkeypatch.setattr(sys, "stdin", Stdin(b"123456789"))
    with pytest.raises(ValueError, match="stdin: expected at most 8 bytes, found more"):
        common.read_stdin()


def test_a_text_of_stdin_has_the_lines_that_a_text_file_has(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Stdin("ä\r\nb\rc\n".encode()))
    assert common.read_stdin() == "ä\nb\nc\n"
    monkeypatch.setattr(sys, "stdin", Stdin(b"a\xff"))
    with pytest.raises(ValueError, match="stdin: expected UTF-8, found a byte that is none"):
        common.read_stdin()


@pytest.mark.parametrize("flag", ["--prompt", "--stop"])
def test_bytes_of_the_command_line_that_are_no_utf8_are_refused(flag):
    done = invoke("generate", "demo-text", flag, "a\udcff")
    assert str(done.exception) == f"{flag}: expected UTF-8, found a byte that is none"
    done = invoke("inspect", "demo-text", "state", "--text", "a\udcff")
    assert str(done.exception) == "--text: expected UTF-8, found a byte that is none"


@pytest.mark.parametrize(
    "words", [("generate", "a", "--length"), ("train", "text", "--width"), ("translate", "a", "--beam")]
)
def test_wrong_usage_quotes_a_bounded_part_of_what_was_given(words):
    done = invoke(*words, "x\x1b[2J" * 20_000)
    assert done.exit_code == 2
    assert len(done.output) < 5_000
    assert "\x1b[2J" not in done.output


def test_an_ascii_stdout_gets_escapes(monkeypatch):
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", out)
    cli.prepare_streams()
    print("1 → 2")
    out.flush()
    assert out.buffer.getvalue() == b"1 \\u2192 2\n"  # type: ignore[attr-defined]


CASES = {
    "models >/dev/full": (1, "recollect: [Errno 28] No space left on device"),
    "generate demo-text --length 2 >/dev/full": (1, "recollect: [Errno 28] No space left on device"),
    "generate demo-text --length 2 >&-": (0, ""),
    "generate demo-text --prompt - <&-": (1, "recollect: stdin: expected text, found it closed; give a file or a pipe"),
    "train nothing 2>&-": (1, ""),
    "translate demo-translation </dev/zero": (1, "recollect: stdin, line 1: expected at most 16,777,216 bytes"),
    "train text --recipe /dev/zero": (1, "recollect: /dev/zero: expected a regular file, found a device"),
}


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("words", CASES)
def test_streams_that_are_closed_or_full_are_a_line_or_silence(words, tmp_path):
    code, said = CASES[words]
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -m recollect.cli {words}', sys.executable],
        cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == (1 if said else 0)


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_error(tmp_path):
    command = 'set -o pipefail; "$0" -m recollect.cli models | head -1'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout.startswith("The lineage")


def test_what_the_command_line_could_not_use_is_noted_once(monkeypatch, capsys):
    monkeypatch.setitem(tasks.BROKEN, "mine", OutsideError("RECOLLECT_TASKS: mine/task.py, line 1: SyntaxError"))

    def asked():
        raise tasks.BROKEN["mine"]

    for app, wanted in ((asked, "recollect"), (lambda: None, "note")):
        monkeypatch.setattr(cli, "app", app)
        with contextlib.suppress(SystemExit):
            cli.main()
        assert capsys.readouterr().err == f"{wanted}: RECOLLECT_TASKS: mine/task.py, line 1: SyntaxError\n"


def test_an_exit_in_the_users_code_is_told(monkeypatch, tmp_path, capsys):
    (tmp_path / "leaves.py").write_text("def leave():\n    raise SystemExit(0)\n")
    module = load_module("recollect_layer_leaves", tmp_path / "leaves.py", "RECOLLECT_LAYERS")
    monkeypatch.setattr(cli, "app", module.leave)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    assert capsys.readouterr().err.startswith("recollect: leaves.py, line 2: expected code that returns, found an exit")
