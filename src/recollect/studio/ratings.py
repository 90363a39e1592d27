"""Ratings: the vector of a user and that of an item, their angle, and the score that they make."""

from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..core.artifacts import read_artifact
from ..serve.refusals import Json, Refusal
from ..training.folder import RunFolder
from .task_runs import TaskRuns

NAMES = 2_000  # users, and items, that a page lists
OTHERS = 400  # items whose vectors are shown beside


def routes(studio: Any) -> list[Route]:
    """Routes under /studio/ratings."""
    runs = TaskRuns(studio, "ratings", "ratings", describe=describe)

    async def names(request: Request) -> Response:
        return Json(await runs.call(request, request.query_params.get("run"), list_names))

    async def pair(request: Request) -> Response:
        user, item = (request.query_params.get(name) for name in ("user", "item"))
        if not user or not item:
            raise Refusal(400, "user: expected the names of a user and of an item, found none", param="user")
        return Json(await runs.call(request, request.query_params.get("run"), lambda model: answer(model, user, item)))

    return [
        runs.route(),
        Route("/studio/ratings/names", names, methods=["GET"]),
        Route("/studio/ratings/pair", pair, methods=["GET"]),
    ]


def describe(folder: RunFolder, config: dict[str, Any]) -> dict[str, Any]:
    """How many users and items a run has."""
    content = read_artifact(folder.path, "names.json")
    return {kind: len(content[kind]) for kind in ("users", "items")}


def list_names(model: Any) -> dict[str, Any]:
    """Users and items by name, at most so many of each, with the titles of the items, and the scale."""
    low, high = model.scale
    items = model.names("items")[:NAMES]
    return {
        "users": model.names("users")[:NAMES],
        "items": [{"name": name, "title": model.title(name)} for name in items],
        "of_users": len(model.names("users")),
        "of_items": len(model.names("items")),
        "low": low,
        "high": high,
    }


def answer(model: Any, user: str, item: str) -> dict[str, Any]:
    """The parts of a score, and the vectors of other items beside."""
    found = model.pair(user, item)
    others = model.names("items")[:OTHERS]
    vectors = [model.pair(user, name) for name in others] if len(found.item) else []
    return {
        "user": {"name": user, "vector": found.user, "bias": found.user_bias},
        "item": {"name": item, "title": model.title(item), "vector": found.item, "bias": found.item_bias},
        "mean": found.mean,
        "score": found.score,
        "rating": model.rate(user, item),
        "angle": angle(found.user, found.item),
        "others": [
            {"name": name, "title": model.title(name), "vector": other.item, "bias": other.item_bias}
            for name, other in zip(others, vectors, strict=False)
        ],
    }


def angle(one: np.ndarray, other: np.ndarray) -> float | None:
    """The angle between two vectors in degrees; None where one of them has no length."""
    length = float(np.linalg.norm(one) * np.linalg.norm(other)) if len(one) else 0.0
    return None if length == 0 else float(np.degrees(np.arccos(np.clip(one @ other / length, -1, 1))))
