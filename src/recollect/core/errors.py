"""The errors of this package: what was given cannot be used, said in one line. A program catches `RecollectError`."""


class RecollectError(ValueError):
    """Something that recollect was given and cannot use: what was expected, what was found, where, what to do."""


class RunError(RecollectError):
    """A folder that is no run, or not the one that was meant."""


class MissingData(RecollectError):
    """The data of a run are not on this machine and could not be downloaded."""
