"""`recollect doctor`: anyone's module put to the laws of the contract."""

from ..core import laws
from . import checks
from .examine import Examination, Finding, examine
from .load import load
from .subject import OnCopies, SubjectError, draw_example

__all__ = ["Examination", "Finding", "OnCopies", "SubjectError", "checks", "draw_example", "examine", "laws", "load"]
