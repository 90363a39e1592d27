"""Steps without torch: states in bound memory, kept, continued, joined; text and its positions."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from safetensors.numpy import load, save

from recollect.core.files import FileError
from recollect.core.settings import ContractError
from recollect.runtime import engine, reading
from recollect.runtime.manifest import ExportError, read_manifest, seal
from recollect.runtime.session import Step, join

TOKENS = np.random.default_rng(0).integers(0, 9, (3, 150))


@pytest.fixture
def growing(export_of):
    """A step whose state grows."""
    return Step.open(export_of("text", "transformer", width=8, heads=2, layers=1)[0], threads=1)


def follow(step, state, tokens):
    """The outputs of steps from a state on, and the state after them."""
    found = []
    for column in tokens.T:
        y, state = step(column, state)
        found.append(y.copy())
    return np.stack(found, axis=1), state


def test_a_state_goes_on_from_a_file(growing):
    wanted, _ = follow(growing, growing.initial_state(3), TOKENS)
    _, state = follow(growing, growing.initial_state(3), TOKENS[:, :70])
    kept = load(save({name: np.ascontiguousarray(part) for name, part in state.named().items()}))
    found, _ = follow(growing, growing.state_of(kept), TOKENS[:, 70:])
    np.testing.assert_array_equal(found, wanted[:, 70:])


def test_a_state_can_be_used_once_and_its_copy_again(growing):
    _, state = follow(growing, growing.initial_state(1), TOKENS[:1, :5])
    copy = state.copy()
    first, _ = growing(TOKENS[:1, 5], state)
    first = first.copy()
    with pytest.raises(ContractError, match="expected one that no step has used"):
        growing(TOKENS[:1, 5], state)
    np.testing.assert_array_equal(growing(TOKENS[:1, 5], copy)[0], first)


def test_joined_and_selected_rows_go_on_as_alone(growing):
    ends = [4, 70, 9]
    alone = [follow(growing, growing.initial_state(1), TOKENS[row : row + 1, :end])[1] for row, end in enumerate(ends)]
    wanted = [growing(TOKENS[row : row + 1, end], alone[row].copy())[0].copy() for row, end in enumerate(ends)]
    together = join(alone).select([2, 0, 1])
    found, _ = growing(np.array([TOKENS[row, ends[row]] for row in (2, 0, 1)]), together)
    np.testing.assert_allclose(found, np.concatenate([wanted[2], wanted[0], wanted[1]]), atol=1e-6)


def test_a_long_prompt_tells_how_far_it_is_and_what_would_take_hours_is_refused(growing, monkeypatch, capsys):
    monkeypatch.setattr(reading, "PATIENCE", -1.0)
    engine.StepWriter(growing).read_prompts([[1] * 300], 1)
    assert "reading the prompt: 256 of 300 tokens, 0 s left\n" in capsys.readouterr().err
    monkeypatch.setattr(reading, "MOST_READ", 1000)
    with pytest.raises(ContractError, match=r"found 300 tokens, which go over .* grows with each; shorten the prompt"):
        engine.StepWriter(growing).read_prompts([[1] * 300], 1)


def test_a_saved_state_with_values_that_are_not_finite_is_one_line(growing, tmp_path):
    writer, path = engine.StepWriter(growing), str(tmp_path / "state")
    writer.save(writer.read_prompts([[1, 2, 3]], 1), path)
    good, vocab = engine.read_arrays(path), int(growing.y.shape[-1])
    assert writer.load(path, vocab, 1).longest == 3
    for name, value in (("0", np.nan), (next(n for n in good if n.endswith("keys")), np.inf)):
        array = good[name].copy()
        array.flat[0] = value
        (tmp_path / "state").write_bytes(save(good | {name: array}))
        with pytest.raises(FileError, match="state: expected finite numbers in .*; write the state anew"):
            writer.load(path, vocab, 1)


def test_an_input_of_another_shape_is_one_line(growing):
    with pytest.raises(ContractError, match=r"step: expected x of shape \(2,\), found \(3,\)"):
        growing(np.zeros(3, np.int64), growing.initial_state(2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((b'"format": 1', b'"format": 9'), "expected format 1, found 9"),
        ((b'"opset": 24', b'"opset": "x"'), "expected the manifest of an export"),
        ((b'"float32"', b'"float8"'), "expected a dtype out of"),
    ],
)
def test_a_strange_manifest_is_one_line(export_of, tmp_path, change, message):
    shutil.copytree(export_of("ratings", "dot")[0], tmp_path / "copy")
    path = tmp_path / "copy" / "manifest.json"
    content = path.read_bytes()
    assert change[0] in content
    path.write_text(json.dumps(seal(json.loads(content.replace(*change)))), encoding="utf-8")
    with pytest.raises(ExportError, match=message):
        read_manifest(tmp_path / "copy")


def test_an_export_without_a_step_says_so(export_of):
    with pytest.raises(ExportError, match="expected an export with a step, found .*score"):
        Step.open(export_of("ratings", "dot")[0])


def test_the_program_of_the_readme_prints_no_warning_of_a_growing_state(export_of):
    folder, _ = export_of("text", "transformer", width=8, heads=2, layers=1)
    program = (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    assert (done.stderr, bool(done.stdout)) == ("", True)


def test_text_is_written_and_continued_without_torch(export_of, tmp_path):
    folder, _ = export_of("text", "lstm", width=8)
    code = f"""
import sys
sys.modules["torch"] = None
from recollect.data import tokenizers
from recollect.runtime import engine, sampling, session, stream
writer = engine.StepWriter(session.Step.open({str(folder)!r}))
words = tokenizers.load({str(folder / "tokenizer.json")!r})
write = lambda prompts, length, **files: "".join(
    stream.generate_text(writer, words, prompts, sampling.Config(length=length, greedy=True), **files))
whole = write(["the "], 20)
first = write(["the "], 8, state_out={str(tmp_path / "state")!r})
rest = write([], 12, state_in={str(tmp_path / "state")!r})
assert first + rest == whole and len(whole) == 24, (first, rest, whole)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
