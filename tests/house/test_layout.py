"""Files are read in one sitting and folders at a glance; what is larger says why."""

from pathlib import Path

import recollect

SOURCE = Path(recollect.__file__).parent
LINES, FILES = 400, 25
LARGER = {
    "core/laws.py": "nine laws of the contract, one list",
    "models/seq2seq.py": "five decoders behind one set of settings",
    "tasks/labels/task.py": "a task is one class",
    "tasks/series/task.py": "a task is one class",
    "tasks/text/task.py": "a task is one class",
    "tasks/transcribe/task.py": "a task is one class",
    "tasks/translation/task.py": "a task is one class",
    "training/meanings.py": "a sentence for each setting",
    "tasks/series": "forecasting from tables to intervals, one idea a file",
    "core": "what every part stands on, one idea a file",
    "claims": "one file a claim",
    "layers": "one file a layer",
}


def larger(source: Path) -> set[str]:
    """Files of more than `LINES` lines and folders of more than `FILES` files."""
    code = list(source.rglob("*.py"))
    long = {path for path in code if len(path.read_text(encoding="utf-8").splitlines()) > LINES}
    full = {path.parent for path in code if len(list(path.parent.glob("*.py"))) > FILES}
    return {path.relative_to(source).as_posix() for path in long | full}


def test_what_is_larger_says_why():
    assert larger(SOURCE) <= set(LARGER), "split it, or say in LARGER why it stands as one"


def test_no_reason_is_left_behind():
    assert set(LARGER) <= larger(SOURCE)


def test_a_long_file_and_a_full_folder_are_caught(tmp_path):
    for name in range(FILES):
        (tmp_path / f"{name}.py").touch()
    (tmp_path / "0.py").write_text("\n" * LINES)
    assert larger(tmp_path) == set()
    (tmp_path / "0.py").write_text("\n" * (LINES + 1))
    (tmp_path / "more.py").touch()
    assert larger(tmp_path) == {"0.py", "."}
