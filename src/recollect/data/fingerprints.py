"""Names for settings: a hash of whatever JSON can hold, and a folder of the cache that bears it."""

import hashlib
import json
from typing import Any


def sha256_of(value: Any) -> str:
    """The same however the keys are ordered."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def folder_name(name: str, settings: Any) -> str:
    """A name that can be read, with a hash behind it that differs with the settings."""
    slug = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:40]
    return f"{slug}-{sha256_of(settings)[:16]}"
