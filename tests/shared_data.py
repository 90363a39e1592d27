"""Copies of the known sets on this machine: RECOLLECT_DATA, or `shared/data` beside the repository."""

import os
from pathlib import Path

import pytest

from recollect.data.known import KNOWN

DATA = Path(os.environ.get("RECOLLECT_DATA") or Path(__file__).parents[2] / "shared" / "data")


def needs(name):
    """Skip the test where the set is not on this machine."""
    if not (DATA / KNOWN[name].splits["train"][0].path).exists():
        pytest.skip(f"{name} is not here")
