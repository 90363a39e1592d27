"""Independent computations side by side on the cores of a CPU, one core each.

A search makes many small steps, which a second core makes little faster; two searches at once keep both busy.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def count_cores(device: torch.device) -> int:
    """How many computations run side by side: the threads that torch may use on a CPU, one on a GPU."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def map_on_cores(function: Callable[[T], R], items: Sequence[T], cores: int) -> list[R]:
    """function(item) for each item, in their order; started in that order too."""
    if cores == 1 or len(items) < 2:
        return [function(item) for item in items]
    torch.set_num_threads(1)  # of each computation
    pool = ThreadPoolExecutor(min(cores, len(items)), initializer=torch.set_num_threads, initargs=(1,))
    try:
        return list(pool.map(function, items))
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(cores)
