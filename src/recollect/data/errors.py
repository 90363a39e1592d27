"""Errors in data: one line of bounded length each."""

from ..core.errors import MissingData, RecollectError
from ..core.limits import one_line


class DataError(RecollectError):
    """An error in the data, in one line: what was expected, what was found, where, and what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message.replace("\r", "\\r").replace("\n", "\\n")))


class Unreachable(DataError, MissingData):
    """Data that are not on this machine and could not be downloaded."""
