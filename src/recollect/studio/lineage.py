"""The lineage: a map to walk, what each memory changed over the last, what it costs, its claims and its page."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.language import answering, localize
from ..core.typed import show
from ..layers import LAYERS, card
from ..report.pages.claims import VERDICTS
from ..serve.refusals import Json, Refusal
from .documents import drawing, history
from .documents.markdown import COMMENT, split_page
from .reader import language_of
from .records.shared import read_query

FIRST = "rnn"
MESSAGES = (*history.ROWS, *(idea.change for idea in history.IDEAS), "The lineage: which memory came after which")


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/lineage."""

    async def draw_map(request: Request) -> Response:
        chosen, width = find(read_query(request, "layer", 100) or FIRST), read_query(request, "width", 6)
        wide = int(width) if width.isascii() and width.isdecimal() else 1_200
        with answering(language_of(request)):
            drawn = drawing.draw(chosen.name, max(300, min(2_000, wide)))
        return Json({"svg": drawn, "layer": chosen.name, "layers": [idea.name for idea in history.IDEAS]})

    async def describe(request: Request) -> Response:
        idea = find(read_query(request, "layer", 100) or FIRST)
        return Json(await asyncio.to_thread(describe_idea, idea, language_of(request)))

    def describe_idea(idea: history.Idea, lang: str) -> dict[str, Any]:
        with answering(lang):
            page = (history.read_page(idea.name, lang) or history.read_page(idea.name, "en") or "").lstrip()
            model = idea.name if idea.model is None else idea.model
            lanes = [name for name in studio.registry.list_runs() if name in (f"lane-{model}", f"lane-{idea.name}")]
            title, _, rest = COMMENT.sub("", page).lstrip().partition("\n")
            return {
                "name": idea.name, "year": idea.year, "after": list(idea.after), "change": localize(idea.change),
                "next": [other.name for other in history.IDEAS if idea.name in other.after],
                "card": describe_card(idea), "cost": history.costs().get(idea.name), "chapter": idea.chapter,
                "claims": [describe_claim(name) for name in idea.claims], "lanes": lanes, "model": model or None,
                "page": split_page(rest, "layers"),
                "title": title.removeprefix("# ").replace("`", ""),
            }  # fmt: skip

    def describe_card(idea: history.Idea) -> dict[str, str]:
        if idea.name in LAYERS:
            found = card(idea.name)
            lines = {"summary": found.summary, "STATE": found.state, "UPDATE": found.update, "READ": found.read,
                     "grows": found.grows, "fast": found.fast}  # fmt: skip
            return {name: localize(text) for name, text in lines.items()}
        state, update, read = history.CARDS[idea.name]
        return {"summary": "", "STATE": localize(state), "UPDATE": localize(update), "READ": localize(read)}

    def describe_claim(name: str) -> dict[str, Any]:
        row = history.read_claims()[name]
        verdict = VERDICTS[row["verdict"]]
        return {"id": name, "statement": localize(row["statement"]), "verdict": localize(row["verdict"]),
                "summary": localize(row["summary"]), "sign": verdict.sign, "style": verdict.style}  # fmt: skip

    def find(name: str) -> history.Idea:
        found = history.BY_NAME.get(name)
        if found is None:
            raise Refusal(
                404, f"layer: expected one of {', '.join(history.BY_NAME)}, found {show(name)}", param="layer"
            )
        return found

    return [
        Route("/studio/lineage/map", draw_map, methods=["GET"]),
        Route("/studio/lineage/layer", describe, methods=["GET"]),
    ]
