"""The end of a summary: within which limits a claim holds, where that is the verdict."""

from .claim import Verdict


def limits(verdict: Verdict, which: str) -> str:
    return f"; the limits: {which}" if verdict is Verdict.LIMITS else ""
