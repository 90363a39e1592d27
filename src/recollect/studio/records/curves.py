"""The curves of a run: columns of its metrics.jsonl, continued at each look from the byte where the last one ended."""

import json
import math
import os
import threading
from array import array
from collections import OrderedDict
from pathlib import Path
from typing import Any

from ...core.errors import RecollectError
from ...core.files import open_regular
from .places import sign

COLUMNS = ("step", "tokens", "seconds", "flops", "loss", "valid", "lr", "norm", "tokens_per_second", "memory")
MOST_READ = 1 << 26  # bytes of one look; the rest comes with the next
MOST_LINE = 1 << 16
MOST_ROWS = 400_000  # of a run; of a longer one every second row goes, but those of validation
MOST_CELLS = 20_000_000  # numbers that are kept of all runs
MARK = 64  # bytes before the cursor, by which a file is known again
TAIL = 1 << 13


class Curve:
    """One run. `version` grows with each change; `restarts` counts how often it had to be read from its beginning."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.signature: Any = None
        self.version = self.restarts = 0
        self._forget()

    def _forget(self) -> None:
        self.columns = {name: array("d") for name in COLUMNS}
        self.cursor, self.mark, self.inode, self.skipped = 0, b"", 0, 0

    def __len__(self) -> int:
        return len(self.columns["step"])

    def update(self) -> bool:
        """Read what is new; whether anything was."""
        signature = sign(self.path)
        if signature == self.signature:
            return False
        if signature is None:  # gone
            had = len(self) > 0
            self._forget()
            self.signature = None
            self.version += had
            return had
        try:
            with open_regular(self.path) as file:
                inode = os.fstat(file.fileno()).st_ino
                if not self._continues(file, inode):
                    if len(self):
                        self.restarts += 1
                    self._forget()
                    self.inode = inode
                file.seek(self.cursor)
                content = file.read(MOST_READ)
        except (OSError, RecollectError):
            return False
        whole = content.rfind(b"\n") + 1
        if whole == 0 and len(content) > MOST_LINE:  # no line of ours
            whole = len(content)
        lines = content[:whole].split(b"\n")
        if not self._add_all(lines):
            for line in lines:
                self._add(line)
        self.cursor += whole
        if whole:
            self.mark = (self.mark + content[max(0, whole - MARK) : whole])[-MARK:]
            self.version += 1
        while len(self) > MOST_ROWS:
            self._halve()
        # a look that was cut short must go on although the file stays as it is
        self.signature = signature if len(content) < MOST_READ else None
        return whole > 0

    def _continues(self, file: Any, inode: int) -> bool:
        """Whether the file still begins with what has been read."""
        if self.inode != inode:
            return False
        file.seek(max(0, self.cursor - len(self.mark)))
        return file.read(len(self.mark)) == self.mark

    def _add_all(self, lines: list[bytes]) -> bool:
        """Add lines that are all as they should be, at once, which is twice as fast; else add none, and say so."""
        lines = [line for line in lines if line]
        if not lines or max(map(len, lines)) > MOST_LINE:
            return not lines
        try:
            rows = json.loads(b"[" + b",".join(lines) + b"]")
            if len(rows) != len(lines):
                return False
            found = {
                name: array("d", [math.nan if (value := row.get(name)) is None else value for row in rows])
                for name in COLUMNS
            }
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return False
        if not all(map(math.isfinite, found["step"])):
            return False
        for name, column in self.columns.items():
            column.extend(found[name])
        return True

    def _add(self, line: bytes) -> None:
        if not line or len(line) > MOST_LINE:
            self.skipped += bool(line)
            return
        row = read_row(line)
        if row is None:
            self.skipped += 1
            return
        for name, column in self.columns.items():
            value = row.get(name)
            column.append(float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan)

    def _halve(self) -> None:
        valid = self.columns["valid"]
        kept = [i for i in range(len(self)) if i % 2 == 0 or not math.isnan(valid[i])]
        if len(kept) == len(self):
            kept = kept[::2]
        self.columns = {name: array("d", [column[i] for i in kept]) for name, column in self.columns.items()}


def read_row(line: bytes) -> dict[str, Any] | None:
    """A line of metrics.jsonl; None for what is none. Numbers of many digits are no figures of a training."""
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            return None
        step = row.get("step")
        if not isinstance(step, int | float) or isinstance(step, bool) or not math.isfinite(step):
            return None
        for name in COLUMNS:
            if isinstance(row.get(name), int):
                float(row[name])
    except (ValueError, RecursionError, OverflowError):
        return None
    return row


def read_tail(path: Path) -> list[dict[str, Any]]:
    """The last rows of metrics.jsonl: enough for where a run stands."""
    if sign(path) is None:
        return []
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL))
            content = file.read(TAIL)
    except (OSError, RecollectError):
        return []
    lines = content[: content.rfind(b"\n") + 1].split(b"\n")
    if size > TAIL:
        lines = lines[1:]
    return [row for line in lines if line and (row := read_row(line)) is not None]


class Curves:
    """The curves of the runs that were asked for; those that were asked for longest ago go first."""

    def __init__(self, most: int = MOST_CELLS) -> None:
        self.most = most
        self.kept: OrderedDict[Path, Curve] = OrderedDict()
        self.lock = threading.Lock()

    def read(self, path: Path) -> Curve:
        """The curve of a metrics.jsonl as it stands now."""
        with self.lock:
            curve = self.kept.get(path) or Curve(path)
            curve.update()
            self.kept[path] = curve
            self.kept.move_to_end(path)
            cells = sum(map(len, self.kept.values())) * len(COLUMNS)
            while cells > self.most and len(self.kept) > 1:
                _, gone = self.kept.popitem(last=False)
                cells -= len(gone) * len(COLUMNS)
            return curve
