"""What reads files: for each reader valid folders to begin with, and the commands that must read them."""

import gzip
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import recollect
from recollect import tasks
from recollect.decode import sampling, stream
from recollect.tasks.text.task import TextTask
from recollect.training import run as runs
from recollect.training.folder import SHIPPED
from tasks import cases
from tasks.ratings.cases import LINES
from web import made

Command = tuple[str, ...]
CALLS = "faults.fuzzing.calls"  # readers that no command has

STATES = {  # models whose states are saved
    "lstm": {"width": 8, "layers": 2},
    "transformer": {"width": 8, "layers": 1, "heads": 2},
    "tcn": {"width": 8, "layers": 1},
    "ttt-linear": {"width": 8, "layers": 1, "heads": 2},
}
EXPORTED = ("lstm", "transformer")
NO_STEPS = {("series", "transformer"), *(("ratings", label) for label in cases.SMALL["ratings"].models)}
SETTINGS = ("data", "valid", "tokenizer", "pair")  # of the data, which a command names by flags
LAYER = """from dataclasses import dataclass

from recollect.layers import rnn


@dataclass(frozen=True, kw_only=True)
class Config(rnn.Config):
    gain: float = 1.0
"""


@dataclass(frozen=True)
class Start:
    """A valid folder, which files in it are altered, and the commands that read it.

    In a command, in `stdin` and in `env`, {given} is the altered copy and {valid} the folder of everything valid.
    `settings` are drawn values of `--set` instead of files.
    """

    folder: str
    files: tuple[str, ...]
    commands: tuple[Command, ...]
    stdin: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    writes: bool = False
    settings: tuple[str, ...] = ()


def build(base: Path, *, with_exports: bool = True) -> dict[str, list[Start]]:
    """Make every valid artifact in `base`; the readers by name, each with what it may begin with.

    Exported folders take seconds to make, all else a few of them together.
    """
    base.mkdir(parents=True, exist_ok=True)
    cases.write_data(base)
    (base / "lines.txt").write_text("the cat sees a fish\n\na dog so long\n", encoding="utf-8")
    readers: dict[str, list[Start]] = {}
    for task, label in cases.CASES:
        if task != cases.OUTSIDE.name:
            for reader, start in starts_of_run(base, task, label):
                readers.setdefault(reader, []).append(start)
    readers["states"] = [*(state(base, model) for model in STATES), state_of_step(base)]
    readers["caches"] = caches(base)
    readers["races"] = [race(base)]
    readers["claims"] = [claims(base)]
    readers["ARPA"] = [arpa(base)]
    readers["layers"] = [layer(base)]
    readers |= data(base)
    if with_exports:
        readers["exports"] = [export(base, model) for model in EXPORTED]
    return readers


def files_of(folder: Path, *leave: str) -> tuple[str, ...]:
    """The files of a folder by their paths in it."""
    found = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    return tuple(name for name in found if not name.startswith(leave))


# ------------------------------------------------------------------------------------------------ runs


def starts_of_run(base: Path, task: str, label: str) -> Iterator[tuple[str, Start]]:
    """A small run of a task: as a folder, as one to go on with, as settings and as a recipe."""
    config = cases.configure(base, task, label)
    name = "-".join(["run", task, *label.replace(",", "").split()])
    runs.train(tasks.find(task), config, str(base / name))
    files = files_of(base / name, "checkpoints")
    yield f"runs of {group(task)}", Start(name, files, uses(task, label) * 2 + measures(task, label))
    resumed = ("train", task, "--resume", "--out", "{given}", "--steps", "10", "--device", "cpu")
    kept = ("checkpoints/last.safetensors",) * 4 + tuple(file for file in files if not file.startswith("model"))
    if (base / name / kept[0]).exists():
        yield "checkpoints", Start(name, kept, (resumed,), writes=True)
    yield "recipes", recipe(base, task, label, name)
    yield "settings", Start(name, (), (training(task, label),), settings=settings_of(config))


def group(task: str) -> str:
    return "memory" if task in cases.DIALS else task


def uses(task: str, label: str) -> tuple[Command, ...]:
    """The commands that put a run of a task to work."""
    images = "images" in label
    if "recordings" in label:
        return (("classify", "{given}", "{valid}/spoken/low/p2.wav"),)
    words: dict[str, Command] = {
        "text": ("generate", "{given}", "--prompt", "the cat", "--length", "5"),
        "translation": ("translate", "{given}", "--beam", "2"),
        "captions": ("caption", "{given}", "{valid}/photos/p0.png"),
        "films": ("caption", "{given}", "{valid}/clips/film3.gif"),
        "series": ("forecast", "{given}", "{valid}/hours.csv"),
        "labels": ("classify", "{given}", "{valid}/lines.txt"),
    }
    return () if images or task not in words else (words[task],)


def measures(task: str, label: str) -> tuple[Command, ...]:
    """The commands that measure a run; `verify` where the model reads a sequence step by step."""
    evaluate = ("eval", "{given}", "--json", "--device", "cpu")
    return (evaluate,) if (task, label) in NO_STEPS else (evaluate, ("verify", "{given}"))


def settings_of(config: runs.RunConfig) -> tuple[str, ...]:
    """The names of all settings of a run."""
    parts = (vars(config.data), vars(config.task), vars(config.train), config.model)
    found = {name for part in parts for name in part if name not in ("name", "layer", *SETTINGS)}
    return tuple(sorted(found))


def training(task: str, label: str, **files: str) -> Command:
    """The command that trains a small run."""
    small = cases.SMALL[task]
    own = dict(cases.STEPS) | {"steps": 2} | dict(small.settings) | dict(small.models[label])
    data, valid = own.pop("data", small.data), small.valid
    given = {"data": data and f"{{valid}}/{data}", "valid": valid and f"{{valid}}/{valid}"} | files
    words = ["train", task, "--device", "cpu", "--out", "{out}"]
    if model := label.partition(",")[0]:
        words += ["--model", model]
    for name in ("data", "valid"):
        words += [f"--{name}", str(given[name])] if given[name] else []
    for name in ("tokenizer", "pair"):
        words += [f"--{name}", str(own.pop(name))] if name in own else []
    if task == "ratings" and files:
        own.pop("features")  # those of generated ratings
    for name, value in own.items():
        words += ["--set", f"{name}={value}"]
    return tuple(words)


def recipe(base: Path, task: str, label: str, name: str) -> Start:
    """A recipe of a small run."""
    small = cases.SMALL[task]
    own = dict(cases.STEPS) | {"steps": 2} | dict(small.settings) | dict(small.models[label])
    data = own.pop("data", small.data)
    content: dict[str, object] = {"about": "a small run", "task": task}
    if data:
        content["data"] = [str(base / data)]
    if small.valid:
        own["valid"] = [str(base / small.valid)]
    content |= {key: own.pop(key) for key in ("tokenizer", "pair") if key in own}
    own |= {key: [own[key]] for key in ("target", "past", "known") if key in own}
    if model := label.partition(",")[0]:
        content["model"] = model
    content["settings"] = {
        key: json.loads(value) if value in ("true", "false") else value for key, value in own.items()
    }
    place = base / f"recipe {name}"
    place.mkdir()
    (place / "recipe.json").write_text(json.dumps(content), encoding="utf-8")
    words = ("train", task, "--recipe", "{given}/recipe.json", "--out", "{out}", "--device", "cpu", "--steps", "2")
    return Start(place.name, ("recipe.json",), (words,))


# ------------------------------------------------------------------------------------------------ other artifacts


def state(base: Path, model: str) -> Start:
    """A run that writes, with a saved state."""
    place = base / f"state {model}"
    settings = {"steps": 2, "warmup": 1, "context": 8, "batch": 2} | STATES[model]
    texts = {name: str(value) for name, value in settings.items()}
    config = runs.configure(TextTask, texts, model=model, data=[str(base / "text.txt")])
    runs.train(TextTask, config, str(place))
    loaded = runs.load(place)
    written = stream.generate_text(
        loaded.model,
        loaded.artifacts,
        ["the cat"],
        sampling.Config(length=3),
        state_out=str(place / "state.safetensors"),
    )
    assert "".join(written)
    words = ("generate", "{given}", "--length", "5", "--state-in", "{given}/state.safetensors")
    return Start(place.name, ("state.safetensors",), (words, (*words, "--exact")))


def state_of_step(base: Path) -> Start:
    """A run that comes with its exported step, with a state that this step saved."""
    place = base / "state step"
    shutil.copytree(SHIPPED / "demo-text", place)
    path = str(place / "state.safetensors")
    assert "".join(recollect.load(place, engine="onnxruntime").generate("the cat", length=3, state_out=path))
    words = ("generate", "{given}", "--length", "5", "--state-in", "{given}/state.safetensors")
    return Start(place.name, ("state.safetensors",), (words,))


def caches(base: Path) -> list[Start]:
    """The caches that the small runs left, each with a run that reads it."""
    import os

    made, found = Path(os.environ["RECOLLECT_CACHE"]), []
    for run, kind in (
        ("run-text-lstm", "text"),
        ("run-translation-attend", "parallel"),
        ("run-captions-attend", "pictures"),
    ):
        place = base / f"cache {kind}"
        shutil.copytree(made / kind, place / kind)
        words = ("eval", f"{{valid}}/{run}", "--json", "--device", "cpu")
        found.append(Start(place.name, files_of(place), (words,), env={"RECOLLECT_CACHE": "{given}"}, writes=True))
    return found


def race(base: Path) -> Start:
    """A race with all that a row may hold."""
    heats = [made.ladder_heat() | {"name": "recall"}, made.text_heat()]
    rows = [made.row("recall", "rnn", seed, 0.5, rung="rnn") for seed in range(2)]
    for row in rows:
        row["learning"], row["by_position"] = row["learning"][:2], row["by_position"][:2]
        row["gradient"] = {"distance": [0, 1], "norm": [1.0, 0.5]}
    rows[0]["search"] = {"lr": 0.1, "tried": [{"rate": 0.1, "value": 0.2, "way": 0.3, "seconds": 1.0}], "seconds": 1.0}
    rows[1]["sample"] = [{"source": "a", "reference": "b", "output": "b", "right": True}]
    made.save(base / "race", made.race(*heats), [*rows, *made.text_rows()[:2], made.failed("recall", "gru")])
    return Start("race", ("race.json", "results.jsonl"), (("report", "{given}"),), writes=True)


def claims(base: Path) -> Start:
    """Rows of claims, the first one as a run of it leaves it."""
    from recollect.claims import runner
    from recollect.claims.claim import Effort

    place = base / "claims"
    runner.run(["heads-params"], Effort(full=False, device="cpu", seeds=None), place, lambda text, end: None)
    with (place / runner.FILE).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in made.claims())
    words = ("claims", "heads-params", "--out", "{given}", "--device", "cpu")
    return Start("claims", (runner.FILE,), (words,), writes=True)


def arpa(base: Path) -> Start:
    """An n-gram model as ARPA text, of words that must be escaped among others."""
    place = base / "arpa"
    place.mkdir()
    loaded = runs.load(base / "run-text-ngram")
    vocabulary = loaded.artifacts.tokenizer if hasattr(loaded.artifacts, "tokenizer") else loaded.artifacts
    words = [vocabulary.decode([token]) for token in range(vocabulary.size)]
    loaded.model.to_arpa(place / "model.arpa", words)
    return Start("arpa", ("model.arpa",), (("call", CALLS, "read_arpa", "{given}/model.arpa"),))


def layer(base: Path) -> Start:
    """A layer from outside."""
    place = base / "layers"
    place.mkdir()
    (place / "own.py").write_text(LAYER, encoding="utf-8")
    return Start("layers", ("own.py",), (("call", CALLS, "read_layer", "{given}/own.py"),), writes=True)


def exports(base: Path) -> list[Start]:
    """Exported folders alone."""
    base.mkdir(parents=True)
    cases.write_data(base)
    for model in EXPORTED:
        state(base, model)
    return [export(base, model) for model in EXPORTED]


def export(base: Path, model: str) -> Start:
    """An exported folder."""
    from recollect.export import package

    place = base / f"export {model}"
    package.export(runs.load(base / f"state {model}"), place)
    files = ("manifest.json",) * 4 + tuple(file for file in files_of(place) if file != "manifest.json")
    return Start(place.name, files, (("call", CALLS, "open_export", "{given}"),))


# ------------------------------------------------------------------------------------------------ data


def data(base: Path) -> dict[str, list[Start]]:
    """Files of data, each read by a training and by the command that puts a run to work on such files."""

    def folder(name: str, **files: bytes) -> str:
        place = base / name
        place.mkdir()
        for file, content in files.items():
            (place / file.replace("__", ".")).write_bytes(content)
        return name

    def trained(task: str, label: str, place: str, file: str) -> Start:
        words = training(task, label, data=f"{{given}}/{file}")
        return Start(place, (file,), (words,))

    text = (base / "text.txt").read_bytes()
    texts = folder("texts", book__txt=text, book__gz=gzip.compress(text))
    tables = folder("tables", hours__csv=(base / "hours.csv").read_bytes(), gaps__csv=gaps().encode())
    films = (base / "films.tsv").read_bytes()
    labels = folder("labelled", films__tsv=films, headed__tsv=b"text\tlabel\n" + films)
    ratings = folder("rated", tabs__data="\n".join(LINES).encode(), headed__csv=headed(LINES).encode())
    pairs = folder("pairs", pairs__tsv=(base / "pairs.tsv").read_bytes())
    folder("written", lines__txt=(base / "lines.txt").read_bytes())
    shutil.copytree(base / "images", base / "idx")
    photos = base / "few photos"
    cases.folder_of(photos)
    cases.photo(3).save(photos / "p9.jpg")
    forecast = ("forecast", "{valid}/run-series-gru")
    shown, clips = "{valid}/run-captions-attend", "{valid}/run-films-gru"
    return {
        "texts": [trained("text", "lstm", texts, "book.txt"), trained("text", "ngram", texts, "book.gz")],
        "tables of series": [
            trained("series", "gru", tables, "hours.csv"),
            trained("series", "mlp", tables, "gaps.csv"),
            Start(tables, ("hours.csv",), ((*forecast, "{given}/hours.csv"),)),
            Start(tables, ("gaps.csv",), ((*forecast, "{given}/gaps.csv", "--fill"),)),
        ],
        "tables of labels": [
            trained("labels", "gru", labels, "films.tsv"),
            trained("labels", "bag", labels, "headed.tsv"),
            Start("written", ("lines.txt",), (("classify", "{valid}/run-labels-gru", "{given}/lines.txt"),)),
        ],
        "tables of ratings": [trained("ratings", "dot", ratings, file) for file in ("tabs.data", "headed.csv")],
        "sentence pairs": [
            trained("translation", "attend", pairs, "pairs.tsv"),
            Start(
                "written", ("lines.txt",), (("translate", "{valid}/run-translation-attend"),), stdin="{given}/lines.txt"
            ),
        ],
        "IDX": [
            Start("idx", files_of(base / "idx"), (training("labels", "lstm, images", data="{given}"),)),
        ],
        "recordings": [
            Start("spoken/high", ("p0.wav",), (("classify", "{valid}/run-labels-gru-recordings", "{given}/p0.wav"),)),
            Start(
                "spoken",
                ("high/p0.wav", "low/q3.wav"),
                (training("labels", "gru, recordings", data="{given}"),),
            ),
        ],
        "pictures": [
            Start(photos.name, ("p0.png",), (("caption", shown, "{given}/p0.png"),)),
            Start(photos.name, ("p9.jpg",), (("caption", shown, "{given}/p9.jpg"),)),
            Start(
                photos.name,
                ("captions.tsv", "captions.tsv", "p0.png"),
                (training("captions", "fixed, photos", data="{given}"),),
            ),
        ],
        "films": [
            *(
                Start("clips", (name,), (("caption", clips, f"{{given}}/{name}"),))
                for name in ("film3.gif", "film6.gif")
            ),
            Start("clips", ("film1/0.png",), (("caption", clips, "{given}/film1"),)),
            Start(
                "clips",
                ("captions.tsv", "captions.tsv", "film7.gif"),
                (training("films", "lstm, folder", data="{given}"),),
            ),
        ],
    }


def gaps() -> str:
    return cases.hourly(rows=200, missing={(5, 0), (6, 0), (40, 1)})


def headed(lines: list[str]) -> str:
    return "\n".join(["user,item,rating,time", *(line.replace("\t", ",") for line in lines)])
