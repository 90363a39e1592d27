"""What a server takes at most: of one request, of all at once, and for how long."""

from dataclasses import dataclass

from ..core.settings import ContractError, at_least, check_settings


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server. docs/serve.md has a line for each."""

    rows: int = at_least(1, default=64)
    tokens: int = at_least(1, default=4_096)
    characters: int = at_least(1, default=4_000)
    cells: int = at_least(1, default=100_000)
    beam: int = at_least(1, default=16)
    body: int = at_least(1, default=1 << 20)
    picture: int = at_least(1, default=8 << 20)
    pixels: int = at_least(1, default=16_000_000)
    seconds: float = 60.0
    batch: int = at_least(1, default=64)
    waiting: int = at_least(1, default=256)
    requests: int = at_least(1, default=256)
    connections: int = at_least(1, default=512)
    sessions: int = at_least(1, default=256)
    states: int = at_least(1, default=256)
    age: float = 3_600.0
    memory: int = at_least(1, default=1 << 30)
    head_seconds: float = 10.0
    body_seconds: float = 20.0
    stall_seconds: float = 20.0

    def __post_init__(self) -> None:
        check_settings(self)
        for name in ("seconds", "age", "head_seconds", "body_seconds", "stall_seconds"):
            if not 0 < getattr(self, name) <= 10**9:
                raise ContractError(f"serve: expected {name} above 0, found {getattr(self, name)}")
