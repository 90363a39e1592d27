"""What this machine can hold: memory that is free, sizes that cannot fit, and running out of it told in one line.

Nothing here imports torch before it is needed.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from .errors import RecollectError
from .numbers import BLANK, scaled

LARGE = 1 << 26  # bytes of one tensor below which nobody looks whether it fits
MOST_LINE = 1_000  # characters of an error on the command line
WORDS = (
    "out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc", "storage size calculation",
    "failed to map segment",
)  # fmt: skip  # the last of the system's loader: no room for a library


class TooLarge(RecollectError):
    """Something that cannot fit into this machine; the message is one line."""


def free_memory() -> int | None:
    """Bytes that this process may still take: of the machine, its control group and its own limit; None: not known."""
    found = [size for size in (_machine(), _group(), _own_limit()) if size is not None]
    return min(found, default=None)


def _machine() -> int | None:
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    free = re.search(r"MemAvailable:\s+(\d+) kB", text)
    return int(free[1]) * 1024 if free else None


def _group() -> int | None:
    """What is left of a container's memory (cgroup v2, and v1)."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            return int(Path(limit).read_text()) - int(Path(used).read_text())
        except (OSError, ValueError):  # not there, or "max"
            continue
    return None


def _own_limit() -> int | None:
    """What is left of `ulimit -v`."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return max(0, limit - pages * os.sysconf("SC_PAGE_SIZE"))
    except (ImportError, OSError, ValueError):
        return None


@contextlib.contextmanager
def bounded_memory() -> Iterator[None]:
    """Make an allocation beyond the memory that is free now an error meanwhile, instead of a process that is killed.

    Linux grants more memory than there is, and kills a process once it is used. Where it has no such limit, and where
    free memory is not known, nothing is bounded.
    """
    free = free_memory()
    try:
        import resource
    except ImportError:
        resource = None
    if sys.platform != "linux" or free is None or resource is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    used = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    least = min(own for own in (soft, hard, used + free) if own != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_DATA, (least, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def check_fits(size: int, what: str, remedy: str) -> None:
    """Refuse what needs more bytes than are free: `what` names it, `remedy` says what to lower."""
    free = free_memory() if size >= LARGE else None
    if free is not None and size > free:
        raise TooLarge(
            f"{what}: expected at most the {write_bytes(free)} of memory that are free, found {write_bytes(size)}; "
            f"{remedy}"
        )


def write_bytes(size: int) -> str:
    """12.3 MB, with a blank that is not broken over lines."""
    return scaled(size, "B") if size < 10**24 else "more than 10^24 B"


def checked_allocation(what: str, remedy: str) -> Any:
    """A context in which every new tensor on the CPU must fit into free memory, or is refused with its size."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Checked(TorchDispatchMode):
        unseen = 0  # bytes of small tensors since anyone looked whether they fit

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            size = _new_bytes(func, args, kwargs)
            self.unseen += size
            if self.unseen >= LARGE:
                self.unseen = 0
                check_fits(max(size, LARGE), what, remedy)
            return func(*args, **kwargs)

    return Checked()


def _new_bytes(func: Any, args: Any, kwargs: Any) -> int:
    """The size of the tensor that torch is about to make on the CPU: `empty(sizes)` or `tensor.new_empty(sizes)`."""
    import torch

    first = 1 if func.overloadpacket.__name__.startswith("new_") else 0
    shape = args[first] if len(args) > first else None
    device = kwargs.get("device") or (args[0].device if first else "cpu")
    if not isinstance(shape, list | tuple | torch.Size) or torch.device(device).type != "cpu":
        return 0
    if not all(isinstance(size, int) for size in shape):
        return 0
    dtype = kwargs.get("dtype") or (args[0].dtype if first else torch.get_default_dtype())
    return prod(shape) * dtype.itemsize


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on a CPU or a GPU."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":  # that of torch
        return True
    return isinstance(error, RuntimeError | ImportError) and any(words in str(error).lower() for words in WORDS)


def describe_shortage(error: BaseException, lower: str) -> str:
    """The line that says that memory ran out, how much was asked for, and what to lower."""
    text = " ".join(str(error).split())
    asked = re.search(r"allocate (\d+) bytes", text) or re.search(r"[Tt]ried to allocate ([\d.]+ \w+)", text)
    size = (
        "" if not asked else f" when {asked[1] if ' ' in asked[1] else write_bytes(int(asked[1]))} more were asked for"
    )
    free = free_memory()
    left = f" ({write_bytes(free)} free)" if free is not None else ""
    return f"out of memory{size}{left}; lower {lower}"


def one_line(text: str, most: int = MOST_LINE) -> str:
    """A message on one line of at most `most` characters; of a longer one the middle is left out."""
    if len(text) > most:
        text = f"{text[: most * 2 // 3]} … {text[-most // 4 :]}"
    return "".join(c if c.isprintable() or c == BLANK else " " if c.isspace() else ascii(c)[1:-1] for c in text)
