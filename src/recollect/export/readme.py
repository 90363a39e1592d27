"""README.md of an exported folder: what lies there, and a program of numpy and onnxruntime alone that uses it."""

from ..runtime.manifest import Manifest, Tensor

FILE = "README.md"

OPEN = """import json
import numpy as np
import onnxruntime as ort

ort.set_default_logger_severity(3)  # errors alone: it warns of how states are copied, at every step
about = json.load(open("manifest.json", encoding="utf-8"))
settings = about["settings"]
"""
STATE = """room = {{"batch": 1, "capacity": {room}}}

def zeros(field):
    bound = field["most"] or {room}
    sizes = [min(room[size], bound) if size == "capacity" else room.get(size, size) for size in field["shape"]]
    return np.zeros(sizes, field["dtype"])

state = {{field["name"]: zeros(field) for field in about["state"] if field["start"] != "encode"}}
"""
START = """raw = open("start.safetensors", "rb").read()
size = int.from_bytes(raw[:8], "little")
for name, part in json.loads(raw[8 : 8 + size]).items():
    if name in state:
        first, last = part["data_offsets"]
        state[name] = np.frombuffer(raw[8 + size :][first:last], state[name].dtype).reshape(part["shape"])
"""
ENCODE = """encode = ort.InferenceSession("encode.onnx")
state |= dict(zip([out.name for out in encode.get_outputs()], encode.run(None, {source})))
"""
STEP = """step = ort.InferenceSession("step.onnx")
names = [out.name for out in step.get_outputs()]

def advance(x):
    left = dict(zip(names, step.run(None, {{"{x}": x, **state}})))
    state.update({{name[5:]: array for name, array in left.items() if name.startswith("next.")}})
    return left["y"][0]

"""
GENERATE = """for token in settings["example"]["tokens"]:
    y = advance(np.array([token]))
text = [settings["example"]["text"]]
for _ in range(100):
    token = int(y.argmax())
    text.append(settings["pieces"][token])
    y = advance(np.array([token]))
print(settings["between"].join(text))
"""
WRITE = """words, token = [], settings["begin"]
while len(words) < 50:
    token = int(advance(np.array([token])).argmax())
    if token == settings["end"]:
        break
    words.append((settings["pieces"] + ["<pad>", "<begin>", "<end>"])[token])
print(settings["between"].join(words))
"""
NUMBERS = """for t in range(20):
    y = advance({x})
print(y)
"""
SENTENCE = """source = np.array([settings["example"]["tokens"] + [settings["source_end"]]])
"""
TEXT_SOURCE = '{"source": source, "lengths": np.array([source.shape[1]])}'
PICTURE = """pixels = settings["pixels"]
picture = np.random.default_rng(0).random((1, 3, pixels, pixels), np.float32)  # yours: from 0 to 1
"""
FILM = """pixels = settings["pixels"]
frames = np.random.default_rng(0).random((1, 8, 3, pixels, pixels), np.float32)  # yours: frames from 0 to 1
"""
CLASSIFY = """classify = ort.InferenceSession("classify.onnx")
tokens = np.array([settings["example"]["tokens"]])
(found,) = classify.run(None, {"tokens": tokens, "lengths": np.array([tokens.shape[1]])})
print(settings["classes"][int(found[0].argmax())], np.exp(found[0].max()))
"""
CLASSIFY_PICTURE = """classify = ort.InferenceSession("classify.onnx")
picture = np.zeros((1, *settings["shape"]), np.float32)  # yours: from 0 to 255
(found,) = classify.run(None, {"pictures": picture})
print(settings["classes"][int(found[0].argmax())], np.exp(found[0].max()))
"""
CLASSIFY_FRAMES = """classify = ort.InferenceSession("classify.onnx")
bands = settings["sound"]["mel"]["bands"]
scale = settings["sound"]["scaler"] or {"mean": np.zeros(bands), "deviation": np.ones(bands)}
frames = np.tile(np.array(scale["mean"]), (20, 1))  # yours: log-mel frames, as recollect.data.sound.LogMel makes them
frames = ((frames - np.array(scale["mean"])) / np.array(scale["deviation"]))[None].astype(np.float32)
(found,) = classify.run(None, {"frames": frames, "lengths": np.array([frames.shape[1]])})
print(settings["classes"][int(found[0].argmax())], np.exp(found[0].max()))
"""
FORECAST = """forecast = ort.InferenceSession("forecast.onnx")
center, scale = np.array(settings["center"]), np.array(settings["scale"])
past = np.tile(center, (settings["lookback"], 1))  # yours: the last rows of the table
given = {"window": ((past - center) / scale)[None].astype(np.float32)}
for name, shape in settings.get("beside", {}).items():  # covariates, scaled as scaler.json says; here their means
    given[name] = np.zeros((1, *shape), np.float32)
if settings["noise"]:
    given["noise"] = np.random.default_rng(0).standard_normal((1, *settings["noise"]), np.float32)
for name, found in zip(("mean", "lower", "upper"), forecast.run(None, given)):
    print(name, found[0] * scale + center)
"""
SCORE = """score = ort.InferenceSession("score.onnx")
user, item = settings["users"][0], settings["items"][0]
number = lambda names, name: names.index(name) if name in names else len(names)  # the last stands for all others
given = {"users": np.array([number(settings["users"], user)]), "items": np.array([number(settings["items"], item)])}
(found,) = score.run(None, given)
print(user, item, np.clip(found, settings["low"], settings["high"]))
"""
FRAMES = """width = settings["mel"]["bands"] * settings["stack"]
# yours: `stack` log-mel frames side by side, scaled as settings["scaler"] says
frames = np.random.default_rng(0).standard_normal((1, 50, width), np.float32)
"""
FRAME_SOURCE = '{"frames": frames, "lengths": np.array([frames.shape[1]])}'
WHOLE_SOUND = """transcribe = ort.InferenceSession("transcribe.onnx")
(found,) = transcribe.run(None, {"frames": frames, "lengths": np.array([frames.shape[1]])})
labels = found[0].argmax(axis=-1).tolist()
"""
SOUND_STEPS = """labels = [int(advance(frames[:, t]).argmax()) for t in range(frames.shape[1])]
"""
JOIN_LABELS = """text, before = [], settings["blank"]
for label in labels:
    if label not in (before, settings["blank"]):
        text.append(settings["pieces"][label])
    before = label
print("text:", "".join(text))
"""


def program(manifest: Manifest) -> str:
    """A program that uses the files, run in their folder."""
    graphs, settings = manifest.graphs, manifest.settings
    for name, text in (("forecast", FORECAST), ("score", SCORE)):
        if name in graphs:
            return OPEN + text
    if "classify" in graphs:
        return OPEN + (
            CLASSIFY if "example" in settings else CLASSIFY_FRAMES if "sound" in settings else CLASSIFY_PICTURE
        )
    if "transcribe" in graphs:
        return OPEN + FRAMES + WHOLE_SOUND + JOIN_LABELS
    x = graphs["step"].inputs[0]
    given, room = "", 200
    if "source_end" in settings:
        given = SENTENCE + ENCODE.format(source=TEXT_SOURCE)
    elif "stack" in settings:
        given = FRAMES + (ENCODE.format(source=FRAME_SOURCE) if "encode" in graphs else "")
    elif "frames" in settings:
        given = FILM + ENCODE.format(source=FRAME_SOURCE)
    elif "encode" in graphs:
        given = PICTURE + ENCODE.format(source='{"images": picture}')
    start = START if any(own.start == "file" for own in manifest.state) else ""
    body = OPEN + STATE.format(room=room) + start + given + STEP.format(x=x.name)
    if "begin" in settings:
        return body + WRITE
    if "stack" in settings:
        return body + SOUND_STEPS + JOIN_LABELS
    if "pieces" in settings:
        return body + GENERATE
    value = "np.array([t % 2])" if x.dtype == "int64" else f"np.full((1, {x.shape[1]}), 0.5, np.float32)"
    return body + NUMBERS.format(x=value)


def describe(manifest: Manifest) -> str:
    """The whole page."""
    rows = [
        f"| `{graph.file}` | {list_tensors(graph.inputs)} | {list_tensors(graph.outputs)} |"
        for graph in manifest.graphs.values()
    ]
    found = manifest.agreement
    steps = f"over {found.steps} steps, " if found.steps else ""
    how = (
        f"Before they were written, these files were compared with the model's own call {steps}on "
        f"{' and '.join(found.inputs)} inputs in batches of {' and '.join(map(str, found.batches))}: the largest error "
        f"is {found.largest_error:.1e} of the largest output."
    )
    parts = [
        f"# {manifest.model} for {manifest.task}\n",
        f"{manifest.parameters:,} parameters, weights in {manifest.precision}, opset {manifest.opset}. {how}",
    ]
    if manifest.quality is not None:
        cost = manifest.quality
        parts.append(f"What rounded weights cost: {cost.measure} {cost.before:.4g} before, {cost.after:.4g} after.")
    parts += [
        "\nThis program needs numpy and onnxruntime, no torch:\n",
        f"```python\n{program(manifest)}```\n",
        "| graph | inputs | outputs |\n|---|---|---|\n" + "\n".join(rows) + "\n",
        (
            "A size in words is free. Feed the output `next.NAME` of a step as `NAME` of the next one; fields of the "
            "state without such an output stay as they are. An axis `capacity` has room for so many steps, and a field "
            "with a bound (`most` in `manifest.json`) needs no more than that. `manifest.json` has the sha256 of every "
            "file, and its own: `recollect.load` refuses a folder in which one was altered."
        ),
    ]
    return "\n".join(parts) + "\n"


def list_tensors(tensors: tuple[Tensor, ...]) -> str:
    """Names with types and sizes, of many the first ones."""
    shown = [f"`{own.name}` {own.dtype} {' × '.join(map(str, own.shape)) or 'scalar'}" for own in tensors[:6]]
    return ", ".join(shown) + (f" and {len(tensors) - 6} more" if len(tensors) > 6 else "")
