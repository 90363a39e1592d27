"""Races of a folder as they stand: what has ended, what runs, what is still to come; and their page."""

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from ...core.errors import RecollectError
from ...core.files import is_locked
from ...core.language import answering, language
from ...racing.rows import ROWS, is_failed
from ...racing.summary import load
from ...report.pages import race as page
from .watch import Run, Watch

MOST_PAGES = 16  # that are kept as they were drawn
MOST_BYTES = 1 << 25  # of results.jsonl; larger ones are opened as the file that the race leaves


class Races:
    """The races that a watch sees."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.pages: OrderedDict[tuple[Any, ...], str] = OrderedDict()
        self.read: dict[str, tuple[Any, tuple[dict[str, Any], list[dict[str, Any]]] | str]] = {}
        self.lock = threading.Lock()

    def list_races(self) -> list[dict[str, Any]]:
        """Every race with where it stands, those that run first, then the newest."""
        runs = self.watch.runs()
        with self.watch.lock:
            places = {name: place.path for name, place in self.watch.found.races.items()}
        found = [self._describe(name, path, [run for run in runs if run.race == name]) for name, path in places.items()]
        return sorted(found, key=lambda race: (race["state"] == "running", race["date"] or ""), reverse=True)

    def describe(self, name: str) -> dict[str, Any] | None:
        """One race; None where there is none of that name."""
        path = self.watch.race(name)
        if path is None:
            return None
        return self._describe(name, path, [run for run in self.watch.runs() if run.race == name])

    def _describe(self, name: str, path: Path, runs: list[Run]) -> dict[str, Any]:
        found: dict[str, Any] = {
            "id": name, "name": name.rpartition("/")[2], "folder": name.rpartition("/")[0], "error": None,
            "date": min((run.date for run in runs if run.date), default=None), "sign": self._sign(name),
        }  # fmt: skip
        content = self._load(name, path)
        running = is_locked(path)
        if isinstance(content, str):
            return found | {"title": found["name"], "error": content, "heats": [], "state": "stopped", "command": ""}
        race, rows = content
        by_folder = {run.id: run for run in runs}
        heats = [self._describe_heat(name, heat, rows, by_folder) for heat in race["heats"]]
        missing = any(heat["missing"] is None or heat["missing"] for heat in heats)
        ended = not missing or (not running and all(heat["missing"] is None for heat in heats) and bool(rows))
        return found | {
            "title": str(race.get("title") or found["name"]), "heats": heats, "command": str(race.get("command") or ""),
            "state": "running" if running else "finished" if ended else "stopped",
        }  # fmt: skip

    def _describe_heat(
        self, race: str, heat: dict[str, Any], rows: list[dict[str, Any]], runs: dict[str, Run]
    ) -> dict[str, Any]:
        """A heat: how many entries have ended or failed, which run, how many are still to come."""
        own = {(row["entry"], row["seed"]): row for row in rows if row.get("heat") == heat["name"]}
        entries = heat.get("entries")
        running = []
        for entry in entries or []:
            run = runs.get(f"{race}/{entry.get('run')}")
            if run is not None and run.state == "running":
                running.append(
                    {"entry": entry["entry"], "seed": entry["seed"], "run": run.id, "step": run.step,
                     "steps": run.steps, "loss": run.loss}
                )  # fmt: skip
        missing = None
        if entries is not None:
            missing = sum((entry["entry"], entry["seed"]) not in own for entry in entries)
        return {
            "name": heat["name"], "title": str(heat.get("title") or heat["name"]), "ended": len(own),
            "failed": sum(is_failed(row) for row in own.values()), "missing": missing, "running": running,
            "runs": [run.id for run in runs.values()],
        }  # fmt: skip

    def _sign(self, name: str) -> str:
        with self.watch.lock:
            return str(self.watch.race_changed.get(name, 0))

    def _load(self, name: str, path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]] | str:
        """race.json and the rows; or the line that says why they cannot be read. Read anew only when they change."""
        with self.watch.lock:
            signs = self.watch.race_signs.get(name)
        with self.lock:
            if name in self.read and self.read[name][0] == signs:
                return self.read[name][1]
        found: tuple[dict[str, Any], list[dict[str, Any]]] | str
        try:
            rows = path / ROWS
            if rows.is_symlink() or (path / "race.json").is_symlink():
                raise RecollectError(f"{name}: expected the files of a race, found links")
            if rows.exists() and rows.stat().st_size > MOST_BYTES:
                raise RecollectError(f"{name}: expected at most {MOST_BYTES:,} bytes of results, found more")
            found = load(path)
        except (OSError, RecollectError, KeyError, TypeError, ValueError) as error:
            found = str(error).replace(f"{path}/", "") or type(error).__name__
        with self.lock:
            self.read[name] = (signs, found)
            if len(self.read) > 1_000:
                del self.read[next(iter(self.read))]
        return found

    def render(self, name: str, lang: str) -> tuple[str, str] | None:
        """The page of a race as a part of another, and by what it is known that it has changed."""
        path = self.watch.race(name)
        if path is None:
            return None
        sign = self._sign(name)
        key = (name, sign, lang)
        with self.lock:
            if key in self.pages:
                self.pages.move_to_end(key)
                return self.pages[key], sign
        content = self._load(name, path)
        if isinstance(content, str):
            raise RecollectError(content)
        with answering(lang):
            assert language() == lang
            drawn = page.render(*content, inside=True)
        with self.lock:
            self.pages[key] = drawn
            while len(self.pages) > MOST_PAGES:
                self.pages.popitem(last=False)
        return drawn, sign
