"""Build the wheel and the sdist, and use the wheel outside the checkout: `./recollect wheel [--out dist]`.

The wheel is built from the sdist, so that both are whole. It is installed with the pinned set into a new environment,
where commands and a program run in an empty folder. `./recollect` says where uv finds torch.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable
from email.parser import Parser
from pathlib import Path

from recollect import __version__

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PAGES = {"course": "docs/course", "layer_pages": "docs/layers"}  # in a wheel below recollect: in the sdist
PINNED = ROOT / "constraints.txt"
BESIDE = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "constraints.txt"}  # of the sdist
ADDED = {"PKG-INFO", ".gitignore"}  # by hatchling, to the sdist
COMMANDS = (
    "recollect --version",
    "python -m recollect --version",
    "recollect race recall --models rnn,gru --budget 5 --params 2k --jobs 1 --search 0 --device cpu",
    "recollect generate demo-text --length 20 --device cpu",
    "recollect learn 1",
)
PROGRAM = """
import recollect
model = recollect.load("demo-text")
print("".join(model.generate("A", length=5)))
"""


class WheelError(Exception):
    """What is wrong with a wheel or an sdist."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="./recollect wheel", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="keep the wheel and the sdist in this folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        try:
            sdist, wheel = build(place / "dist")
            check_contents(sdist, wheel)
            use(wheel, place)
        except WheelError as error:
            sys.exit(f"wheel: {error}")
        if options.out:
            options.out.mkdir(parents=True, exist_ok=True)
            for path in (sdist, wheel):
                shutil.copy(path, options.out)
    print(f"wheel: {wheel.name} and {sdist.name} are whole, and the wheel works outside the checkout")


def build(out: Path) -> tuple[Path, Path]:
    """The sdist of this checkout, and the wheel that the sdist gives."""
    pinned = ["--build-constraint", str(PINNED), "--out-dir", str(out)]
    uv("build", "--sdist", *pinned, str(ROOT))
    sdist = one(out, "*.tar.gz")
    uv("build", "--wheel", *pinned, str(sdist))
    return sdist, one(out, "*.whl")


def uv(command: str, *words: str) -> None:
    subprocess.run([Path(sys.executable).with_name("uv"), command, "--quiet", *words], check=True)


def one(folder: Path, pattern: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise WheelError(f"expected one {pattern} to be built, found {len(found)}")
    return found[0]


def package_files(source: Path = SOURCE) -> set[str]:
    """The files of the package, as a wheel names them."""
    files = (path.relative_to(source) for path in source.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if path.suffix != ".pyc" and path.parts[0] == "recollect"}


def page_files() -> dict[str, str]:
    """The pages and figures that come with the package: their names in a wheel, and in the sdist."""
    return {
        f"recollect/{inside}/{path.relative_to(ROOT / folder).as_posix()}": path.relative_to(ROOT).as_posix()
        for inside, folder in PAGES.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }


def check_contents(sdist: Path, wheel: Path) -> None:
    """The wheel holds the package with the course and its metadata; the sdist the package and what builds it."""
    sources, shown = package_files(), page_files()
    files = sources | set(shown)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        about = f"recollect-{__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{about}/METADATA").decode("utf-8"))
    compare(wheel.name, (name for name in names if not name.startswith(f"{about}/")), files)
    if f"{about}/licenses/LICENSE" not in names:
        raise WheelError(f"{wheel.name}: expected the licence among its metadata, found {sorted(names - files)}")
    if metadata["Version"] != __version__ or "# recollect" not in metadata.get_payload():
        raise WheelError(f"{wheel.name}: expected version {__version__} and the README in its metadata")
    with tarfile.open(sdist) as archive:
        inside = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    pages = set(shown.values())
    compare(sdist.name, inside - ADDED, {f"src/{name}" for name in sources} | pages | BESIDE)


def compare(archive: str, found: Iterable[str], expected: set[str]) -> None:
    names = set(found)
    if missing := sorted(expected - names):
        raise WheelError(f"{archive}: expected {missing[0]} inside, found it missing, and {len(missing) - 1} others")
    if more := sorted(names - expected):
        raise WheelError(f"{archive}: expected the package alone, found {more[0]} too, and {len(more) - 1} others")


def use(wheel: Path, scratch: Path) -> None:
    """Install the wheel into a new environment, and run commands and a program in an empty folder."""
    venv, empty = scratch / "venv", scratch / "empty"
    empty.mkdir()
    uv("venv", "--python", sys.executable, str(venv))
    programs = venv / ("Scripts" if os.name == "nt" else "bin")
    uv("pip", "install", "--python", str(programs / "python"), "--constraint", str(PINNED), str(wheel))
    hidden = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}  # they could lead back to the checkout
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    env |= {"RECOLLECT_CACHE": str(scratch / "cache")}
    for name, *words in (*map(shlex.split, COMMANDS), ["python", "-c", PROGRAM]):
        done = subprocess.run(
            [programs / name, *words], cwd=empty, env=env, capture_output=True, text=True, check=False
        )
        if done.returncode or not done.stdout.strip() or "Traceback" in done.stderr:
            call = " ".join([name, *words])
            raise WheelError(f"{call}: expected it to work, found exit code {done.returncode}\n{done.stderr}")
        if "--version" in words and done.stdout.strip() != __version__:
            raise WheelError(f"expected version {__version__}, found {done.stdout.strip()}")
    if not (empty / "races" / "recall" / "report.html").is_file():
        raise WheelError("expected the race to write races/recall/report.html, found none")


if __name__ == "__main__":
    main()
