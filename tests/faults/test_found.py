"""What the fuzzing found, each as a case of its own: parts that have no other file of tests."""

import copy
import json
from types import SimpleNamespace

import pytest

from recollect.core.files import FileError
from recollect.runtime.manifest import ExportError, read_manifest, seal
from recollect.runtime.session import check_session

KEYS = {"dtype": "float32", "shape": ["batch", 2, "capacity", 4]}
CLOCK = {"dtype": "int64", "shape": ["batch"]}
MANIFEST = {
    "format": 1,
    "recollect": "0.1.0",
    "task": "text",
    "model": "transformer",
    "precision": "float32",
    "opset": 20,
    "weights": "0" * 64,
    "graphs": {
        "step": {
            "file": "step.onnx",
            "inputs": [{"name": "tokens", **CLOCK}, {"name": "0.keys", **KEYS}, {"name": "0.clock", **CLOCK}],
            "outputs": [
                {"name": "y", "dtype": "float32", "shape": ["batch", 16]},
                {"name": "next.0.keys", **KEYS},
                {"name": "next.0.clock", **CLOCK},
            ],
        }
    },
    "state": [
        {"name": "0.keys", **KEYS, "order": [0, 2, 1, 3], "grows": True, "constant": False, "start": "zeros"},
        {"name": "0.clock", **CLOCK, "order": [0], "grows": False, "constant": False, "start": "zeros"},
    ],
    "agreement": {"steps": 0, "batches": [], "largest_error": 0.0},
}


def written(folder, change):
    """A manifest with one thing in it changed."""
    content = copy.deepcopy(MANIFEST)
    change(content)
    (folder / "manifest.json").write_text(json.dumps(seal(content)), encoding="utf-8")
    return folder


def test_a_manifest_with_any_bit_changed_is_refused(tmp_path):
    path = written(tmp_path, lambda m: None) / "manifest.json"
    good = path.read_bytes()
    assert read_manifest(tmp_path).model == MANIFEST["model"]
    for at in range(len(good)):
        altered = bytearray(good)
        altered[at] ^= 1 << at % 8
        path.write_bytes(altered)
        with pytest.raises(FileError, match=r"found an altered one; export again|expected JSON|expected format 1"):
            read_manifest(tmp_path)
    path.write_text(json.dumps(MANIFEST), encoding="utf-8")  # and one without a digest
    with pytest.raises(ExportError, match="found an altered one; export again"):
        read_manifest(tmp_path)


STATES = {
    "a name twice": lambda m: m["state"][1].update(name="0.keys"),
    "a field too few": lambda m: m["state"].pop(),
    "another dtype": lambda m: m["state"][1].update(dtype="int32"),
    "another size": lambda m: m["state"][0].update(shape=["batch", 2, "capacity", 5]),
    "a step without inputs": lambda m: m["graphs"]["step"].update(inputs=[]),
    "a step that leaves no state": lambda m: m["graphs"]["step"]["outputs"].pop(),
}


@pytest.mark.parametrize("kind", STATES)
def test_the_state_of_an_export_is_what_its_step_takes_and_leaves(tmp_path, kind):
    with pytest.raises(ExportError, match=r"manifest.json: expected a step"):
        read_manifest(written(tmp_path, STATES[kind]))


def test_an_order_of_thousands_of_axes_is_a_short_line(tmp_path):
    folder = written(tmp_path, lambda m: m["state"][1].update(order=[0] * 5000))
    with pytest.raises(ExportError, match='expected an order of the axes of "0.clock", found a list of 5,000'):
        read_manifest(folder)


def session(change=lambda tensors: None):
    """What onnxruntime says of the graph of the manifest."""
    names = {"float32": "tensor(float)", "int64": "tensor(int64)"}
    step = copy.deepcopy(MANIFEST["graphs"]["step"])
    for tensor in (*step["inputs"], *step["outputs"]):
        tensor |= {"type": names[tensor["dtype"]]}
    change(step)
    inputs, outputs = ([SimpleNamespace(**own) for own in step[kind]] for kind in ("inputs", "outputs"))
    return SimpleNamespace(get_inputs=lambda: inputs, get_outputs=lambda: outputs)


def test_a_graph_that_is_not_the_one_of_the_manifest_is_refused_before_memory_is_bound_to_it(tmp_path):
    path = tmp_path / "step.onnx"
    declared = read_manifest(written(tmp_path, lambda m: None)).graphs["step"]
    check_session(session(), declared, path)
    changes = (
        lambda step: step["inputs"][1].update(shape=["batch", 2, "capacity", 8]),
        lambda step: step["outputs"][0].update(shape=["batch", 32]),
        lambda step: step["outputs"][2].update(type="tensor(int32)"),
        lambda step: step["inputs"][1].update(name="1.keys"),
    )
    for change in changes:
        with pytest.raises(ExportError, match="step.onnx: expected"):
            check_session(session(change), declared, path)
