"""The command line: parses, calls, prints. Nothing heavy is imported before a command needs it."""

import sys

from . import claims, inspect, learn, race, use
from .common import app

__all__ = ["app", "claims", "inspect", "learn", "main", "race", "use"]


def main() -> None:
    """Run the command line; an error of the user's is one line on stderr and exit code 1."""
    try:
        app()
    except (ValueError, OSError) as error:
        # Our own errors are ValueErrors told in one line; an OSError names its file.
        print(f"recollect: {error}", file=sys.stderr)
        sys.exit(1)
