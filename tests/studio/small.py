"""A studio over small untrained models, without a socket, and its frames read back."""

import json
import struct
from typing import Any

import numpy as np

from recollect.studio.app import Studio
from recollect.studio.arrays import TYPES
from recollect.studio.limits import Limits
from serve.asgi import HOST, TOKEN, Client
from studio.models import make_lane


class SmallStudio(Client):
    """A client of a studio whose lanes are those of `tests/studio/models.py`."""

    def __init__(self, *names: str, **limits: Any) -> None:
        self.studio = Studio([], [], Limits(**limits))
        super().__init__(self.studio.application(hosts=frozenset({HOST}), token=TOKEN))
        self.pages = self.studio.text_pages
        for name in names:
            self.pages.loaded[f"lane-{name}"] = make_lane(name)
        self.names = [f"lane-{name}" for name in names]

    def open(self) -> str:
        answer = self.post("/studio/text/pages", {"lanes": self.names})
        assert answer.status == 201, answer.body
        return answer.json()["id"]

    def read(self, page: str, *texts: str, **body: Any) -> list[dict[str, Any]]:
        asked = {"lines": [{"text": text} for text in texts], "show": {}, "have": {}} | body
        answer = self.post(f"/studio/text/pages/{page}/read", asked)
        assert answer.status == 200, answer.body
        return frames(answer.body)


def frames(content: bytes) -> list[dict[str, Any]]:
    """The frames of an answer."""
    found = []
    while content:
        (length,) = struct.unpack("<I", content[:4])
        found.append(unpack(content[4 : 4 + length]))
        content = content[4 + length :]
    return found


def unpack(content: bytes) -> dict[str, Any]:
    """What `arrays.pack` has packed."""
    (length,) = struct.unpack("<I", content[:4])
    head = json.loads(content[4 : 4 + length])
    for entry in head.pop("arrays"):
        kind, shape = np.dtype(TYPES[entry["type"]]), entry["shape"]
        data = np.frombuffer(content, kind, int(np.prod(shape)), 4 + length + entry["at"])
        head[entry["name"]] = data.reshape(shape)
    return head
