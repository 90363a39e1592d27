"""Sound as input: recordings of any common format as samples, and samples as log-mel frames.

    sound = read_sound("seven.wav", rate=8_000)     # .samples (float32, mono), .rate
    mel = LogMel(rate=8_000)
    frames = mel.frames(sound.samples)              # T bands, a torch tensor

Neither torch nor numpy is imported before it is needed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .settings import LogMel, SoundError

if TYPE_CHECKING:
    from .bands import BandScaler
    from .reading import Sound, is_sound, read_blocks, read_sound

__all__ = ["BandScaler", "LogMel", "Sound", "SoundError", "is_sound", "read_blocks", "read_sound"]

_HOMES = {"BandScaler": "bands"} | dict.fromkeys(("Sound", "is_sound", "read_blocks", "read_sound"), "reading")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
