"""The exported step of a run, kept beside its weights with their digest: in `step/`, rounded ones in `step-int8/`.

It is used wherever it is there and was made from the weights that stand in the folder now. It is made where that pays:
when at least `WORTH` steps are asked for at once, since making it takes some seconds (see docs/export.md).
"""

import contextlib
import shutil
from pathlib import Path
from typing import Any

from ..core.errors import RunError
from ..runtime import manifest as manifests
from ..training.folder import SHIPPED, RunFolder

PRECISIONS = ("float32", "float16", "int8")  # of its weights
WORTH = 4_000  # steps that the model's own call would take longer for than the export of a step takes


def is_worth_making(steps: int) -> bool:
    return steps >= WORTH


def place_of(folder: Path, precision: str) -> Path:
    """Where the step stands whose weights have that precision."""
    return folder / ("step" if precision == "float32" else f"step-{precision}")


def open_step(folder: RunFolder, precision: str = "float32", threads: int | None = None) -> Any | None:
    """The step that stands beside the weights; None where there is none, or one of other weights."""
    place = place_of(folder.path, precision)
    if not (place / manifests.FILE).is_file():
        return None
    from ..runtime.session import Step

    try:
        manifest = manifests.read_manifest(place)
    except manifests.ExportError as error:
        found = str(error).removesuffix("; export again")
        raise RunError(f"{found}; remove the folder {place}, which is made again where it is needed") from None
    weights = next((path for path in (folder.model_path, folder.best) if path.exists()), None)
    if weights is None or manifests.digest(weights) != manifest.weights:
        return None
    return Step.open(place, threads=threads)


def make_step(run: Any, precision: str = "float32", threads: int | None = None) -> Any | None:
    """Export the step of a run beside its weights; for this process alone where it ships, or nothing can be written.

    None for models that have no step of their own, such as n-grams.
    """
    from tempfile import TemporaryDirectory

    from ..core.contract import ContractError
    from ..export.package import export
    from ..runtime.session import Step

    with TemporaryDirectory(prefix="recollect-step-") as temporary:
        made = Path(temporary) / "step"
        try:
            export(run, made, whole=False, precision=precision)
        except (ContractError, RunError):
            return None
        step = Step.open(made, threads=threads)
        if run.path.parent != SHIPPED:
            with contextlib.suppress(OSError):
                keep(made, place_of(run.path, precision))
        return step


def keep(made: Path, place: Path) -> None:
    """Put an exported step in the place of an older one."""
    part = place.with_name(f".{place.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(made, part)
    shutil.rmtree(place, ignore_errors=True)
    part.rename(place)
