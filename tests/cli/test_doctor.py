"""`recollect doctor`: rows, exit code, JSON."""

import json

from tiny import invoke

GOOD = (
    "from torch import nn\nprint('made')\n\ndef make(dim, hidden):\n    return nn.GRU(dim, hidden, batch_first=True)\n"
)
AHEAD = "import torch\n\ndef turn(x):\n    return x.flip(1)\n"


def test_a_module_that_keeps_the_laws_is_told_law_by_law(tmp_path):
    (tmp_path / "net.py").write_text(GOOD)
    done = invoke("doctor", f"{tmp_path / 'net.py'}:make", "--set", "hidden=3", "--dim", 2, "--steps", 5)
    assert done.exit_code == 0, done.exception
    head, *rows = done.stdout.splitlines()
    assert "a module over B T D, with a state; float64, batch 3, steps 5, dim 2" in head
    assert [row.split()[:2] for row in rows] == [
        ["repeat", "holds"], ["purity", "holds"], ["cause", "holds"], ["chunk", "holds"], ["row", "holds"],
        ["ragged", "-"], ["size", "-"], ["file", "holds"], ["cost", "-"],
    ]  # fmt: skip
    assert "made" not in done.stdout  # what the file prints goes to stderr


def test_a_broken_law_is_shown_with_its_case_and_ends_in_exit_code_1(tmp_path):
    (tmp_path / "net.py").write_text(AHEAD)
    target = f"{tmp_path / 'net.py'}:turn"
    done = invoke("doctor", target)
    assert isinstance(done.exception, ValueError)  # exit code 1
    assert str(done.exception) == (f"{target}: expected every law that was judged to hold, found 1 of 3 broken: cause")
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "BROKEN  every output depends on all of the sequence" in rows["cause"]
    assert "smallest input: batch 1, steps 2, dim 1, seed 0" in done.stdout
    assert ">>> laws.cause(layer, draw_example(layer, batch=1, steps=2, seed=0), 1)" in done.stdout
    found = json.loads(invoke("doctor", target, "--json").stdout)
    assert found["laws"]["cause"]["verdict"] == "broken"
    assert found["laws"]["cause"]["size"] == {"batch": 1, "steps": 2, "dim": 1}
    assert found["laws"]["cause"]["step"] == 0
    assert found["laws"]["row"]["verdict"] == "holds"
    assert "not judged" in found["laws"]["chunk"]["reason"]


def test_tokens_are_drawn_below_the_vocabulary(tmp_path):
    (tmp_path / "net.py").write_text(
        "from torch import nn\n\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.embed = nn.Embedding(5, 3)\n    def forward(self, x):\n        return self.embed(x)\n"
    )
    done = invoke("doctor", f"{tmp_path / 'net.py'}:Net", "--tokens", 5)
    assert done.exit_code == 0, done.exception
    assert "tokens below 5" in done.stdout


def test_an_error_in_the_file_is_one_line_with_its_place(tmp_path):
    (tmp_path / "net.py").write_text("import torch\n\nclass Net(torch.nn.Module:\n    pass\n")
    done = invoke("doctor", f"{tmp_path / 'net.py'}:Net")
    assert isinstance(done.exception, ValueError)
    assert "recollect doctor: net.py, line 3: SyntaxError" in str(done.exception)
    assert "\n" not in str(done.exception)
