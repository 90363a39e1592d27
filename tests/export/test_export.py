"""Exports: every model of every task agrees with its files; nothing is written that does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import recollect
import tiny
from recollect import cli
from recollect.core.contract import ContractError
from recollect.export import agreement, graphs, package, readme
from recollect.runtime.manifest import ExportError, check_file, read_manifest
from recollect.runtime.session import Step, open_session

SOURCE = Path(recollect.__file__).parent
LINEAGE = tiny.KINDS
SMALL = {"width": 16}
SAME = ("mingru", "retention", "gla", "mamba2", "delta")  # other settings of a layer that stands for them
DIFFERENT = [model for model in LINEAGE if model not in SAME]
FAST = [  # a task with a step and a chunk, one with an encoder, whole calls with and without a step
    ("text", "lstm", {"width": 8}),
    ("translation", "context", {"cell": "gru", "layers": 1}),
    ("series", "mlp", {}),
    ("ratings", "dot", {}),
]
MATRIX = [
    *[("text", model, SMALL) for model in LINEAGE],
    *[("translation", model, {"cell": "lstm", "layers": 2}) for model in ("fixed", "context", "attend")],
    ("translation", "context", {"cell": "rnn", "layers": 2}),
    ("translation", "attend", {"cell": "gru", "layers": 2}),
    ("translation", "fixed", {"cell": "gru", "reverse": True, "both_ways": True}),
    ("translation", "attend", {"both_ways": False}),
    ("translation", "conv", {}),
    ("translation", "transformer", {}),
    *[("captions", model, {}) for model in ("fixed", "context", "attend", "conv", "transformer")],
    *[("films", model, {}) for model in ("bag", "tcn", "gated-delta")],
    ("films", "gru", {"decoder": "transformer", "grid": True}),
    *[("transcribe", model, {}) for model in ("ctc", "fixed", "attend", "transformer")],
    ("transcribe", "ctc, both ways", {}),
    *[("series", model, SMALL | ({"attention": "causal"} if model == "transformer" else {})) for model in DIFFERENT],
    ("series", "transformer", {"attention": "full"}),
    ("series", "lstm", {"ahead": "recursive", "intervals": "gaussian"}),
    ("series", "gru", {"intervals": "quantile"}),
    ("series", "gru", {"channels": "joint", "ahead": "recursive", "intervals": "gaussian", "segment": 2}),
    *[("labels", model, SMALL) for model in DIFFERENT],
    ("labels", "lstm, images", {}),
    ("labels", "tcn, images", {}),
    *[("ratings", model, {}) for model in ("features", "biases")],
    *[("copy", model, SMALL) for model in ("rnn", "minlstm", "transformer")],
    *[(task, model, {}) for task in ("adding", "recall", "parity", "gap") for model in ("lstm", "transformer")],
]


def program(folder):
    """The program in the README of an exported folder."""
    return (folder / readme.FILE).read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


def run_without_torch(folder, code):
    """What a program prints that runs in `folder`, where torch and this package cannot be imported."""
    code = f"import sys\nsys.modules['torch'] = sys.modules['recollect'] = None\n{code}"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def assert_good(folder, manifest, graphs):
    assert manifest.agreement.largest_error <= 1e-4  # TTT amplifies rounding, in the model's own call too
    assert manifest.agreement.inputs == ("random", "real")
    assert "step" not in manifest.graphs or manifest.agreement.steps == min(manifest.limit or 200, 200)
    assert set(graphs) <= set(manifest.graphs)
    assert read_manifest(folder) == manifest
    assert run_without_torch(folder, program(folder)).strip()


@pytest.mark.parametrize(("task", "model", "settings"), FAST, ids=[case[0] for case in FAST])
def test_files_agree_with_the_model_and_the_readme_runs_without_torch(export_of, task, model, settings):
    graphs = {"text": ["step", "chunk"], "translation": ["step", "encode"], "series": ["step", "forecast"]}
    assert_good(*export_of(task, model, **settings), graphs.get(task, ["score"]))


@pytest.mark.parametrize("case", FAST, ids=[case[0] for case in FAST])
def test_no_file_names_a_folder_of_the_machine_that_wrote_it(export_of, case):
    task, model, settings = case
    folder, _ = export_of(task, model, **settings)
    assert any(folder.glob("*.onnx"))
    assert [path.name for path in folder.iterdir() if os.fsencode(SOURCE) in path.read_bytes()] == []


@pytest.mark.parametrize("path", sorted(SOURCE.glob("demos/*/*/*.onnx")), ids=lambda path: path.parts[-3])
def test_no_shipped_step_names_a_source_line(path):
    assert b'File "' not in path.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(("task", "model", "settings"), MATRIX)
def test_every_model_of_every_task_is_exported(export_of, task, model, settings):
    needed = {
        "translation": ["encode"],
        "captions": ["encode"],
        "films": ["encode"],
        "series": ["forecast"],
        "labels": ["classify"],
    }
    if task == "transcribe":
        needed["transcribe"] = ["transcribe"] if "both ways" in model else [] if model == "ctc" else ["encode"]
    whole = task == "ratings" or settings.get("attention") == "full" or "both ways" in model
    own = [] if whole else ["step"]
    assert_good(*export_of(task, model, **settings), [*own, *needed.get(task, [])])


def test_each_row_of_an_encoder_is_what_it_is_alone(export_of):
    folder, manifest = export_of("translation", "context", cell="gru", layers=1)
    encode = open_session(check_file(folder, manifest, "encode.onnx"))
    source, lengths = np.arange(24).reshape(3, 8) % 7, np.array([8, 1, 5])
    together = encode.run(None, {"source": source, "lengths": lengths})
    for row, length in enumerate(lengths):
        alone = encode.run(None, {"source": source[row : row + 1, :length], "lengths": lengths[row : row + 1]})
        for one, other in zip(together, alone, strict=True):
            np.testing.assert_allclose(one[row], other[0], rtol=1e-5, atol=1e-6)


def test_nothing_is_written_where_files_and_model_differ(run_of, tmp_path, monkeypatch):
    run, out = run_of("ratings", "dot"), tmp_path / "new" / "out"
    monkeypatch.setattr(agreement, "compare", lambda found, own, wanted: agreement.Error(2e-5, 1e-7))
    with pytest.raises(ContractError, match=r"expected files that differ .* at most 1e-05, found 2e-05; nothing"):
        package.export(run, out)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize(("own", "allowed"), [(0.0, 1e-5), (1e-6, 1e-5), (3e-5, 1.2e-4)])
def test_files_may_be_off_by_a_few_times_what_the_model_itself_is_off_in_float32(own, allowed):
    assert agreement.Error(0.0, own).allowed == pytest.approx(allowed)


def test_both_sides_are_measured_from_the_model_in_float64():
    exact = torch.tensor([1.0, 2.0], dtype=torch.float64)
    error = agreement.compare(exact.float() + 2e-3, exact.float() - 1e-3, exact)
    assert error == pytest.approx((1e-3, 5e-4), rel=1e-3)


def test_an_altered_weight_is_a_difference(run_of, tmp_path):
    made = package.trace_run(run_of("ratings", "dot"), whole=True)
    made.model.users.weight.data[0] += 0.01
    with pytest.raises(ContractError, match="nothing was written"):
        package.write(made, tmp_path / "out", precision="float32", whole=True)


@pytest.mark.parametrize("name", ["step.onnx", "chunk.onnx", "tokenizer.json", "README.md"])
def test_one_altered_bit_in_any_file_is_refused(export_of, tmp_path, name):
    folder, manifest = export_of("text", "lstm", width=8)
    assert set(manifest.files) == {path.name for path in folder.iterdir()} - {"manifest.json"}
    shutil.copytree(folder, tmp_path / "copy")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "copy" / name).write_bytes(content)
    with pytest.raises(ExportError, match=r"expected the file that was exported, found an altered one; export again$"):
        check_file(tmp_path / "copy", manifest, name)
    if name == "step.onnx":
        with pytest.raises(ExportError, match="altered"):
            Step.open(tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_rounded_weights_are_smaller_and_say_what_they_cost(export_of, precision):
    settings = {"width": 48, "layers": 1}
    folder, manifest = export_of("text", "gru", precision, **settings)
    plain, _ = export_of("text", "gru", **settings)
    assert (folder / "step.onnx").stat().st_size < 0.8 * (plain / "step.onnx").stat().st_size
    assert 1e-6 < manifest.agreement.largest_error < 0.05
    quality = read_manifest(folder).quality
    assert quality.measure == "nats per token"
    assert quality.tokens > 0
    assert quality.after == pytest.approx(quality.before, abs=0.01)
    assert quality.after != quality.before
    assert run_without_torch(folder, program(folder)).strip()


@pytest.mark.parametrize(("task", "model"), [("text", "ngram"), ("labels", "bag")])
def test_what_is_no_network_is_refused(run_of, tmp_path, task, model):
    with pytest.raises(ValueError, match=f"expected a network to export, found {model}, which is none"):
        package.export(run_of(task, model), tmp_path / "out")


def test_the_command_writes_a_folder_and_says_what_it_cost(run_of, tmp_path, command):
    run, out = run_of("ratings", "dot"), tmp_path / "out"
    code, text, errors = command("export", run.path, "--out", out, "--precision", "int8")
    assert (errors, code) == ("", 0)
    assert "score.onnx" in text
    assert "int8 weights: largest error 0 before" in text
    code, _, errors = command("export", run.path, "--out", out)
    assert code == 1
    assert errors.startswith(f"recollect: {out}: expected a new or empty folder, found files in it")


@pytest.mark.parametrize("words", [("--precision", "int4"), ("--to", "coreml")])
def test_an_unknown_precision_or_layout_is_one_line(tmp_path, command, words):
    code, _, errors = command("export", "demo-text", "--out", tmp_path / "out", *words)
    assert code == 1
    assert errors.count("\n") == 1
    assert words[1] in errors


def test_the_settings_are_what_a_program_needs(export_of):
    _, manifest = export_of("series", "mlp")
    assert json.loads(manifest.to_json())["settings"].keys() >= {"center", "scale", "lookback", "horizon"}
    assert cli.export.PRECISIONS == ("float32", "float16", "int8")


def test_a_width_as_large_as_the_source_is_no_source(run_of):
    run = run_of("captions", "context", pixels=32, channels=32, width=16, layers=1)
    module, _, memory = run.kind.law_example(run.model, run.artifacts)
    few = memory._replace(values=memory.values[:2], valid=memory.valid[:2])
    shapes = {own.name: own.shape for own in graphs.list_fields(module, few)}
    assert memory.values.shape[1:] == (64, 64)
    assert shapes
    assert not any("source" in shape for shape in shapes.values())
