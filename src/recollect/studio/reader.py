"""Who is answered: the language that a page asks for."""

from starlette.requests import Request

from ..core.language import LANGUAGES, language


def language_of(request: Request) -> str:
    """The language that a page asks for."""
    asked = request.headers.get("accept-language", "")[:2]
    return asked if asked in LANGUAGES else language()
