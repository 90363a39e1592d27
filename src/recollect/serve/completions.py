"""POST /v1/completions as OpenAI's clients ask it: texts that go on with prompts, whole or as server-sent events."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from starlette.requests import Request

from ..core.typed import show
from ..runtime.stream import default_prompt
from .batches import Finished, Job
from .bodies import check_count, read_request
from .limits import Limits
from .models import Models, Served
from .options import WritingOptions
from .refusals import Json, Refusal
from .waiting import EventStream, while_connected
from .writing import Writing

NEUTRAL = {  # fields that are known and not supported → the values that ask for nothing
    "best_of": (1,),
    "logprobs": (),
    "suffix": ("",),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "logit_bias": ({},),
}


@dataclass(frozen=True, kw_only=True)
class Completion(WritingOptions):
    """The body of a request."""

    model: str | None = None
    prompt: Any = None
    n: int | None = None
    echo: bool | None = None
    stream_options: dict[str, Any] | None = None
    user: str | None = None  # ignored
    best_of: int | None = None
    logprobs: int | None = None
    suffix: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, Any] | None = None

    def check(self) -> None:
        """Refuse what is not supported, unless it asks for nothing."""
        for name, nothing in NEUTRAL.items():
            value = getattr(self, name)
            if value is not None and value not in nothing:
                message = f"{name}: expected none, since it is not supported, found {show(value)}; leave it out"
                raise Refusal(400, message, param=name, code="unsupported")
        options = self.stream_options or {}
        if set(options) - {"include_usage", "include_obfuscation"} or not all(
            isinstance(value, bool) for value in options.values()
        ):
            message = "stream_options: expected include_usage, true or false, found another"
            raise Refusal(400, message, param="stream_options")


@dataclass(frozen=True)
class Choice:
    """One text of an answer."""

    index: int
    prompt: str
    job: Job


async def complete(request: Request, models: Models, limits: Limits) -> Any:
    """The answer to a request."""
    asked = await read_request(request, Completion, limits)
    asked.check()
    served = models.find(asked.model, "generate")
    prompts = read_prompts(asked.prompt, served, limits)
    count = 1 if asked.n is None else asked.n
    check_count(count * len(prompts), limits.rows, "texts, prompts times n", "n")
    choices = [
        Choice(index * count + number, prompt, make_job(served, asked, ids, limits, number))
        for index, (prompt, ids) in enumerate(prompts)
        for number in range(count)
    ]
    answer = Answer(served, asked, choices, sum(len(ids) for _, ids in prompts))
    assert served.batcher is not None
    try:
        for choice in choices:
            served.batcher.submit(choice.job)
    except Refusal:
        answer.cancel()
        raise
    if asked.stream:
        return EventStream(request, answer.events())
    return Json(await while_connected(request, answer.whole()))


def make_job(served: Served, asked: WritingOptions, ids: list[int], limits: Limits, number: int) -> Job:
    """The job of one text."""
    config = asked.config(limits, number)
    served.check_length(len(ids) + config.length, "max_tokens")
    writing = Writing(served.tokenizer, config, stops=asked.stops(), before=ids)
    return Job(read=ids, writing=writing, deadline=monotonic() + limits.seconds)


def read_prompts(given: Any, served: Served, limits: Limits) -> list[tuple[str, list[int]]]:
    """Prompts and their tokens, from a text, texts, the tokens of a text, or those of several."""
    if given is None:
        ids = default_prompt(served.tokenizer)
        return [(served.tokenizer.decode(ids), ids)]
    several = isinstance(given, list) and bool(given) and not all(type(each) is int for each in given)
    parts = given if several else [given]
    check_count(len(parts), limits.rows, "prompts", "prompt")
    return [read_prompt(each, served) for each in parts]


def read_prompt(given: Any, served: Served) -> tuple[str, list[int]]:
    """A prompt and its tokens."""
    if isinstance(given, str):
        ids = served.encode(given, "prompt")
        text = given
    elif isinstance(given, list) and all(type(each) is int for each in given):
        size = served.tokenizer.size
        if not all(0 <= each < size for each in given):
            raise Refusal(400, f"prompt: expected tokens from 0 to {size - 1:,}, found others", param="prompt")
        ids, text = given, ""
    else:
        message = f"prompt: expected a text, texts, or tokens as whole numbers, found {show(given)}"
        raise Refusal(400, message, param="prompt")
    if not ids:
        raise Refusal(400, "prompt: expected at least one token, found an empty text", param="prompt")
    served.check_length(len(ids), "prompt")
    return text if isinstance(given, str) else served.tokenizer.decode(ids), ids


class Answer:
    """The texts of one request as they are written."""

    def __init__(self, served: Served, asked: Completion, choices: list[Choice], prompt_tokens: int) -> None:
        self.served, self.asked, self.choices, self.prompt_tokens = served, asked, choices, prompt_tokens
        self.about = {"id": f"cmpl-{secrets.token_hex(12)}", "object": "text_completion", "created": int(time())}
        self.about["model"] = served.name

    def cancel(self) -> None:
        """Drop what nobody waits for any more."""
        for choice in self.choices:
            choice.job.ended = True

    def choice(self, choice: Choice, text: str, reason: str | None) -> dict[str, Any]:
        return {"text": text, "index": choice.index, "logprobs": None, "finish_reason": reason}

    def usage(self, written: int) -> dict[str, int]:
        total = self.prompt_tokens + written
        return {"prompt_tokens": self.prompt_tokens, "completion_tokens": written, "total_tokens": total}

    async def whole(self) -> dict[str, Any]:
        """All texts at once."""
        try:
            done = await asyncio.gather(*(choice.job.wait() for choice in self.choices))
        finally:
            self.cancel()
        texts = [
            self.choice(choice, (choice.prompt if self.asked.echo else "") + found.text, found.reason)
            for choice, found in zip(self.choices, done, strict=True)
        ]
        return {**self.about, "choices": texts, "usage": self.usage(sum(len(found.written) for found in done))}

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """The texts piece by piece, those of several choices as they come."""
        queue: asyncio.Queue[tuple[Choice, str | Finished | Exception]] = asyncio.Queue()
        followers = [asyncio.create_task(self._follow(choice, queue)) for choice in self.choices]
        written, left = 0, len(self.choices)
        wants_usage = bool((self.asked.stream_options or {}).get("include_usage"))
        usage: dict[str, Any] = {"usage": None} if wants_usage else {}
        try:
            if self.asked.echo:
                for choice in self.choices:
                    yield {**self.about, "choices": [self.choice(choice, choice.prompt, None)], **usage}
            while left:
                choice, event = await queue.get()
                if isinstance(event, Exception):
                    raise event
                reason, text = None, event
                if isinstance(event, Finished):
                    left, written = left - 1, written + len(event.written)
                    reason, text = event.reason, ""
                assert isinstance(text, str)
                yield {**self.about, "choices": [self.choice(choice, text, reason)], **usage}
            if wants_usage:
                yield {**self.about, "choices": [], "usage": self.usage(written)}
        finally:
            self.cancel()
            for each in followers:
                each.cancel()
            await asyncio.gather(*followers, return_exceptions=True)

    async def _follow(self, choice: Choice, queue: asyncio.Queue[Any]) -> None:
        try:
            async for piece in choice.job.pieces():
                queue.put_nowait((choice, piece))
            queue.put_nowait((choice, choice.job.finished))
        except Exception as error:
            queue.put_nowait((choice, error))
