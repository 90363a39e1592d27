"""The exports of tests/export."""

from export.conftest import export_of, files, run_of

__all__ = ["export_of", "files", "run_of"]
