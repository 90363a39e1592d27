"""Texts that are written at the same time: one batch, and each is what it is alone."""

import asyncio
import time

import numpy as np
import pytest

import recollect
from recollect.runtime.sampling import Config, Draws, logsumexp
from recollect.serve.batches import Job
from recollect.serve.writing import Writing
from serve.asgi import Client
from serve.conftest import client_of

AT_ONCE = 32
PROMPTS = ["KING:", "the", "A", "QUEEN: my lord, I have not", "of"]
NEAR = 1e-4  # of probability: what rounding may decide


def body_of(number, length=40):
    kinds = ({"temperature": 0}, {}, {"top_k": 5}, {"top_p": 0.8, "temperature": 0.9}, {"penalty": 1.2})
    prompt = PROMPTS[number % len(PROMPTS)]
    return {"model": "demo-text", "prompt": prompt, "max_tokens": length + number, "seed": number, **kinds[number % 5]}


async def all_at_once(client, bodies, batcher):
    """The texts of all, which are taken up when all of them wait."""
    with batcher.changed:  # the batch cannot look for jobs meanwhile
        asked = [asyncio.create_task(client.request("POST", "/v1/completions", body)) for body in bodies]
        while len(batcher.waiting) < len(bodies):
            await asyncio.sleep(0)
    answers = await asyncio.gather(*asked)
    return [answer.json()["choices"][0]["text"] for answer in answers]


def check_same(model, body, found, wanted):
    """Two texts are the same up to a choice that rounding may decide: one at the edge between two tokens."""
    if found == wanted:
        return
    tokenizer, prompt = model.tokenizer, body["prompt"]
    same = next(at for at, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b)
    assert "penalty" not in body  # the edge below knows none
    state = None
    for token in tokenizer.encode(prompt + wanted[:same]):
        logits, state = model.step(int(token), state)
    shares = np.exp(logits / body.get("temperature", 1) - logsumexp(logits / body.get("temperature", 1)))[0]
    if body.get("temperature") == 0:
        first, second = np.sort(logits[0])[-2:]
        assert second - first < NEAR
        return
    ranked = np.sort(shares)[::-1][: body.get("top_k")]
    ranked = ranked * (np.cumsum(ranked) - ranked < body.get("top_p", 2))
    threshold = Draws(body["seed"], same).next() * ranked.sum()
    assert np.abs(np.cumsum(ranked) - threshold).min() < NEAR


def test_many_texts_at_once_are_each_what_it_is_alone(limited):
    service = limited()
    client, batcher = client_of(service), service.models.find("demo-text").batcher
    bodies = [body_of(number) for number in range(AT_ONCE)]
    together = asyncio.run(all_at_once(client, bodies, batcher))
    assert batcher.tokens > 10 * batcher.steps  # they did share their steps
    model = recollect.load("demo-text")
    for body, found in zip(bodies, together, strict=True):
        given = {name: body[name] for name in ("top_k", "top_p", "penalty", "seed") if name in body}
        given |= {"greedy": True} if body.get("temperature") == 0 else {"temperature": body.get("temperature", 1.0)}
        wanted = "".join(model.generate(body["prompt"], length=body["max_tokens"], **given))[len(body["prompt"]) :]
        check_same(model, body, found, wanted)


def test_rows_with_caches_of_different_lengths_are_each_what_it_is_alone(limited):
    service = limited()
    client, served = client_of(service), service.models.find("small-transformer")
    model = served.model
    bodies = [
        {"model": "small-transformer", "prompt": "the cat " * (1 + n), "max_tokens": 20 + 5 * n, "seed": n}
        for n in range(8)
    ]
    for body, found in zip(bodies, asyncio.run(all_at_once(client, bodies, served.batcher)), strict=True):
        wanted = "".join(model.generate(body["prompt"], length=body["max_tokens"], seed=body["seed"]))
        check_same(model, body, found, wanted[len(body["prompt"]) :])


def test_a_text_that_joins_later_is_the_same(client, alone):
    async def join():
        first = asyncio.create_task(client.request("POST", "/v1/completions", body_of(1, 400)))
        await asyncio.sleep(0.02)
        later = await client.request("POST", "/v1/completions", body_of(0))
        return (await first), later

    first, later = asyncio.run(join())
    assert later.json()["choices"][0]["text"] == alone("KING:", 40, greedy=True)
    assert first.json()["choices"][0]["text"] == alone("the", 401, seed=1)


def test_models_without_an_exported_step_share_a_batch_too():
    model = recollect.load("demo-text", engine="torch")
    states = []
    for text in ("KING:", "a"):
        state = None
        for token in model.tokenizer.encode(text):
            _, state = model.step(int(token), state)
        states.append(state)
    joined = model.join([states[0].copy(), states[1].copy(), model.initial_state(1)])
    together, joined = model.step([5, 6, 7], joined)
    for row, (token, state) in enumerate(zip((5, 6, 7), [*states, None], strict=True)):
        np.testing.assert_allclose(together[row], model.step(token, state)[0][0], atol=1e-5)
    again, _ = model.step(8, joined.select([1]))
    assert again.shape == (1, model.tokenizer.size)


def test_a_short_row_leaves_without_the_slots_of_a_long_one(service):
    """Else it would hold memory for them, and end where the positions of the long one do."""
    model = service.models.find("small-transformer").model
    long = short = None
    for token in range(40):
        _, long = model.step(token % 5, long)
    _, short = model.step(3, short)
    _, joined = model.step([1, 1], model.join([long, short]))
    assert joined.select([1]).seen == 2
    assert joined.select([1]).nbytes < joined.select([0]).nbytes / 10
    np.testing.assert_allclose(
        model.step(2, joined.select([1]))[0], model.step([2, 2], joined)[0][1:], rtol=1e-4, atol=1e-5
    )


def test_a_client_that_leaves_ends_its_text(limited):
    service = limited()
    client, batcher = client_of(service), service.models.find("demo-text").batcher
    long = {"model": "demo-text", "prompt": "KING:", "max_tokens": 4_000}

    async def leave(**body):
        await client.request("POST", "/v1/completions", long | body, leave_after=1 if body else 0)
        before = batcher.steps
        for _ in range(100):
            await asyncio.sleep(0.02)
            if not batcher.rows:
                break
        assert batcher.steps < 3_900
        return before

    asyncio.run(leave())
    asyncio.run(leave(stream=True))
    assert not batcher.rows
    assert not batcher.waiting


def test_a_text_that_takes_too_long_is_refused_and_the_next_one_is_not(limited):
    service = limited(seconds=0.5)
    client = client_of(service)
    slow = {"model": "demo-text", "prompt": "KING:", "max_tokens": 4_000}
    batcher = service.models.find("demo-text").batcher
    step = batcher.model.step

    class Slow:
        def __getattr__(self, name):
            return getattr(service.models.find("demo-text").model, name)

        def step(self, x, state):
            time.sleep(0.01)
            return step(x, state)

    batcher.model = Slow()
    answer = client.post("/v1/completions", slow)
    assert answer.status == 503
    assert "within 0.5 seconds" in answer.error
    events = client.post("/v1/completions", slow | {"stream": True}).events()
    assert "within 0.5 seconds" in events[-1]["error"]["message"]
    assert client.post("/v1/completions", slow | {"max_tokens": 1, "prompt": "K"}).status == 200


def test_more_texts_than_may_wait_are_refused(limited):
    service = limited(batch=1, waiting=2)
    client, batcher = client_of(service), service.models.find("demo-text").batcher
    bodies = [body_of(0) for _ in range(8)]

    async def ask():
        with batcher.changed:  # the batch cannot look for jobs meanwhile
            asked = [asyncio.create_task(client.request("POST", "/v1/completions", body)) for body in bodies]
            while sum(each.done() for each in asked) < 6:
                await asyncio.sleep(0)
        return await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    assert [answer.status for answer in answers] == [200] * 2 + [503] * 6
    assert {answer.headers.get("retry-after") for answer in answers if answer.status == 503} == {"1"}
    assert client.post("/v1/completions", bodies[0]).status == 200


def test_a_state_that_memory_does_not_hold_is_refused(limited):
    answer = client_of(limited(memory=2_000)).post("/v1/completions", {"model": "small-transformer", "prompt": "the"})
    assert answer.status == 400
    assert "takes at most" in answer.error


class Broken:
    """A model whose scores are no numbers for one token, and which fails at another."""

    def __init__(self, model):
        self.own = model

    def __getattr__(self, name):
        return getattr(self.own, name)

    def step(self, x, state):
        if 7 in x:
            raise RuntimeError("no step")
        logits, state = self.own.step(x, state)
        logits[np.asarray(x) == 9] = np.nan
        return logits, state


def test_scores_that_are_no_numbers_fail_their_text_alone(limited):
    service = limited()
    client: Client = client_of(service)
    served = service.models.find("demo-text")
    served.batcher.model = Broken(served.model)

    async def ask(*prompts):
        body = {"model": "demo-text", "max_tokens": 5, "temperature": 0}
        return await asyncio.gather(
            *(client.request("POST", "/v1/completions", body | {"prompt": prompt}) for prompt in prompts)
        )

    bad, good = asyncio.run(ask([3, 9], [20, 21]))
    assert (bad.status, good.status) == (500, 200)
    assert "no number" in bad.error
    failed = asyncio.run(ask([7]))[0]
    assert failed.status == 500
    assert "no step" not in failed.error  # of the server's inside nothing is told
    assert asyncio.run(ask([20, 21]))[0].status == 200


def test_a_batch_that_ends_tells_all_who_wait(limited):
    service = limited()
    served = service.models.find("demo-text")

    async def end():
        tokens, config = served.encode("KING:"), Config(length=4_000)
        jobs = [
            Job(read=tokens, writing=Writing(served.tokenizer, config, before=tokens), deadline=time.monotonic() + 60)
            for _ in range(3)
        ]
        for job in jobs:
            served.batcher.submit(job)
        waiting = asyncio.gather(*(job.wait() for job in jobs), return_exceptions=True)
        await asyncio.sleep(0.05)
        assert await asyncio.to_thread(service.close)
        return await waiting

    assert {getattr(error, "status", None) for error in asyncio.run(end())} == {503}
    answer = client_of(service).post("/v1/completions", {"model": "demo-text"})
    assert answer.status == 503


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.999])
def test_a_threshold_for_each_row_chooses_as_one_for_all(threshold):
    from recollect.runtime.sampling import pick_tokens

    logits = np.random.default_rng(0).normal(size=(6, 30)).astype(np.float32)
    for config in (Config(), Config(top_k=3), Config(top_p=0.5)):
        one = pick_tokens(logits, config, None, threshold).tolist()
        assert pick_tokens(logits, config, None, [threshold] * 6).tolist() == one
        mixed = pick_tokens(logits, config, None, [threshold, 0.5] * 3).tolist()
        assert mixed[::2] == one[::2]
