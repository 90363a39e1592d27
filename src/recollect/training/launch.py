"""Starts the ranks of a run on this machine: the same command in as many processes, which meet over loopback alone.

On several machines torchrun starts them: `torchrun … -m recollect train …`.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from .ranks import LOST, RANK, SIZE, STORE, RanksError

GRACE = 10.0  # seconds in which ranks end by themselves once one has ended
LOOPBACK = ("lo", "lo0")


def launch(words: Sequence[str], size: int) -> int:
    """Run `recollect WORDS` as so many ranks: the exit code. The main rank speaks; of others only an error is shown."""
    if size < 1:
        raise RanksError(f"--ranks: expected at least 1, found {size}")
    names = [name for _, name in socket.if_nameindex() if name in LOOPBACK]
    own = {f"{library}_SOCKET_IFNAME": name for library in ("GLOO", "NCCL") for name in names[:1]}
    threads = max(1, (os.cpu_count() or 1) // size)
    command = [sys.executable, "-m", "recollect", *words]
    with tempfile.TemporaryDirectory(prefix="recollect-ranks-") as folder:
        usual = {"OMP_NUM_THREADS": str(threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
        shared = {**own, **usual, **os.environ, SIZE: str(size), STORE: str(Path(folder) / "store")}
        errors = [open(Path(folder) / f"rank-{rank}", "w+b") for rank in range(size)]  # noqa: SIM115
        ranks: list[subprocess.Popen[bytes]] = []
        try:
            for rank, error in enumerate(errors):
                output: dict[str, int | IO[bytes] | None] = (
                    {"stdout": None, "stderr": None} if rank == 0 else {"stdout": subprocess.DEVNULL, "stderr": error}
                )
                ranks.append(subprocess.Popen(command, env=shared | {RANK: str(rank)}, **output))  # type: ignore[call-overload]  # noqa: S603
            return _watch(ranks, errors)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
            for error in errors:
                error.close()


def _watch(ranks: Sequence["subprocess.Popen[bytes]"], errors: Sequence[IO[bytes]]) -> int:
    """Wait for all; Ctrl-C and SIGTERM reach every rank, which all stop after the same step."""

    def pass_on(number: int, frame: object) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        ended = _wait_for_all(ranks)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    codes = [process.returncode for process in ranks]
    if not any(codes):
        return 0
    if codes[0] not in (0, LOST) and codes[0] > 0:
        return codes[0]  # the main rank has said why
    # those that the others have left, or that were ended here, are not the cause
    failed = next((rank for rank in ended if codes[rank] not in (0, LOST)), ended[0])
    errors[failed].seek(0)
    lines = errors[failed].read().decode(errors="replace").strip().splitlines()
    if failed and lines and codes[failed] not in (0, LOST) and codes[failed] > 0:
        raise RanksError(f"rank {failed}: {lines[-1].removeprefix('recollect: ')}")
    code = codes[failed]
    how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
    raise RanksError(
        f"ranks: expected {len(codes)} at work, found rank {failed} {how}; the last checkpoint is kept; go on with "
        f"--resume --ranks {len(codes)} and the --out of the run"
    )


def _wait_for_all(ranks: Sequence["subprocess.Popen[bytes]"]) -> list[int]:
    """Wait until all have ended; after the first that failed the others have a while. Returns who failed, in order."""
    failed: list[int] = []
    until = float("inf")
    while True:
        codes = [process.poll() for process in ranks]
        failed += [rank for rank, code in enumerate(codes) if code and rank not in failed]
        if None not in codes:
            return failed
        if failed and until == float("inf"):
            until = time.monotonic() + GRACE
        if time.monotonic() > until:
            for process in ranks:
                process.kill()  # nothing to those that have ended
        time.sleep(0.05)
