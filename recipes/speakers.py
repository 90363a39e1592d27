"""Leave one speaker out in turn: python -m recipes.speakers test|choose … --out DIR

    test RECIPE…        trains each recipe once for each speaker, who is then the test part; rows go to --rows
    choose RECIPE…      trains each recipe in the ways of CANDIDATES without two speakers at a time. What one of the
                        two reaches is the validation of the other's fold, in which the other is not heard

`choose` measures the weights of the last step, `test` those that the recipe's validation picks among the training
speakers. What stands in --rows already is not trained again, so that the command can be stopped at any time and run
again. --minutes ends it between two trainings.
"""

import argparse
import contextlib
import functools
import json
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from recollect.tasks.labels.recordings import Reader

from . import run

PAIRS = (("theo", "lucas"), ("george", "yweweler"), ("nicolas", "jackson"))
SPEAKERS = tuple(name for pair in PAIRS for name in pair)
MILD = {
    "tempo": 0.2,
    "warp": 0.15,
    "tilt": 8,
    "noise": 10,
    "shift": 50,
    "time_masks": 1,
    "band_masks": 1,
    "band_mask": 4,
}
STRONG = {
    "tempo": 0.3, "warp": 0.25, "tilt": 8, "response": 8, "gain": 10, "noise": 0, "shift": 80, "time_masks": 2,
    "band_masks": 2, "band_mask": 4,
}  # fmt: skip
SHORT = {"steps": 400, "eval_every": 400}
CANDIDATES = {  # changes of a recipe
    "mild": {"response": 0, "gain": 0} | MILD | SHORT,
    "strong": STRONG | SHORT,
    "strong, 14 bands": STRONG | {"bands": 14, "band_mask": 3} | SHORT,
    "strong, 30 bands": STRONG | {"bands": 30, "band_mask": 6} | SHORT,
    "strong, loudness kept": STRONG | {"level": "false"} | SHORT,
    "strong, labels smoothed": STRONG | {"smoothing": 0.1} | SHORT,
    "not altered": dict.fromkeys(STRONG, 0) | {"noise": "none"} | SHORT,
}


class Row(NamedTuple):
    """A row that is wanted: its name, its job, the name of that job's folder, and the split that it is measured on."""

    name: str
    job: str
    place: str
    split: str
    about: Mapping[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("test", "choose"))
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--candidates", default=";".join(CANDIDATES), help="of `choose`, with ; between (all)")
    parser.add_argument("--data-dir")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    options = parser.parse_args()
    end, rows = time.monotonic() + 60 * options.minutes, Path(options.rows)
    seeds = options.seeds.split(",")
    if options.what == "test":
        wanted = list(list_tests(options.names, seeds))
    else:
        wanted = list(list_candidates(options.names, options.candidates.split(";")))
    known = {json.loads(line)["recipe"] for line in rows.read_text().splitlines()} if rows.exists() else set()
    for want in wanted:
        if want.name in known:
            continue
        if time.monotonic() > end:
            return 0
        train(want, Path(options.out), options.data_dir)
        row = measure(want, Path(options.out), options.data_dir)
        with rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{time.strftime('%H:%M')} {want.name} {want.split} {100 * row['accuracy']:.1f} %", flush=True)
    return 0


def list_tests(recipes: list[str], seeds: list[str]) -> Iterator[Row]:
    for seed in seeds:
        for recipe in recipes:
            for speaker in SPEAKERS:
                job = f"{recipe}@test:{seed}:test_speaker={speaker}"
                yield Row(job, job, job, "test", {})


def list_candidates(recipes: list[str], names: list[str]) -> Iterator[Row]:
    for recipe in recipes:
        for name in names:
            changes = CANDIDATES[name]
            settings = "".join(f",{key}={value}" for key, value in changes.items())
            for one, other in PAIRS:
                job = f"{recipe}:0:test_speaker={one},valid_speaker={other}{settings}"
                for fold, heard, split in ((one, other, "valid"), (other, one, "test")):
                    about = {"candidate": name, "changes": changes, "fold": fold, "validation": heard}
                    run_name = f"{recipe}, {name}, without {one} and {other}"
                    yield Row(f"{run_name}: {heard}", job, run_name, split, about)


def train(want: Row, out: Path, data_dir: str | None) -> None:
    """Train a job by the command line, unless its run is there already."""
    import torch

    from recollect import cli

    folder = place_of(want, out)
    if (folder / "done").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    recipe, _, seed, changes = run.parse(want.job)
    torch.set_num_threads(1)
    sys.argv = ["recollect", "train", recipe.partition("/")[0], "--recipe", str(run.HERE / f"{recipe}.json")]
    sys.argv += ["--seed", seed, "--device", "cpu", "--out", str(folder)]
    sys.argv += ["--data-dir", data_dir] if data_dir else []
    for change in filter(None, changes.split(",")):
        sys.argv += ["--set", change]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".log").open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        try:
            cli.main()
        except SystemExit as ended:
            if ended.code:
                raise RuntimeError(f"{want.job}: see {log.name}") from None
    (folder / "done").touch()


def place_of(want: Row, out: Path) -> Path:
    return out / "runs" / re.sub(r"[^a-z0-9-]+", "-", want.place)


def measure(want: Row, out: Path, data_dir: str | None) -> dict[str, Any]:
    from recollect.training.evaluation import result

    row = result(place_of(want, out), split=want.split, device="cpu", data_dir=data_dir)
    return row | {"recipe": want.name, **want.about}


if __name__ == "__main__":
    Reader.read = functools.cache(Reader.read)  # recordings are the same in all trainings
    sys.exit(main())
