"""POST /v1/completions: the fields, the answers and the stream as OpenAI's clients know them."""

import json

import pytest


def ask(client, **body):
    return client.post("/v1/completions", {"model": "demo-text", "prompt": "KING:", "max_tokens": 20} | body)


@pytest.mark.parametrize(
    ("asked", "options"),
    [
        ({"temperature": 0}, {"greedy": True}),
        ({"seed": 3}, {"seed": 3}),
        ({"seed": 3, "temperature": 0.7, "top_p": 0.9}, {"seed": 3, "temperature": 0.7, "top_p": 0.9}),
        ({"seed": 4, "top_k": 5}, {"seed": 4, "top_k": 5}),
        ({"seed": 5, "penalty": 1.3}, {"seed": 5, "penalty": 1.3}),
        ({"seed": 3, "stop": ["o", "zz"]}, {"seed": 3, "stop": ["o", "zz"]}),
        ({"temperature": 0, "stop": "the"}, {"greedy": True, "stop": "the"}),
    ],
)
def test_a_text_is_what_the_package_writes(client, alone, asked, options):
    answer = ask(client, max_tokens=60, **asked).json()
    (choice,) = answer["choices"]
    assert choice["text"] == alone("KING:", 60, **options)
    assert choice["finish_reason"] == ("stop" if "stop" in options else "length")


def test_the_answer_has_the_shape_of_openais(client):
    answer = ask(client, seed=1).json()
    assert set(answer) == {"id", "object", "created", "model", "choices", "usage"}
    assert answer["object"] == "text_completion"
    assert answer["model"] == "demo-text"
    assert answer["id"].startswith("cmpl-")
    assert answer["usage"] == {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25}
    (choice,) = answer["choices"]
    assert choice == {"text": choice["text"], "index": 0, "logprobs": None, "finish_reason": "length"}


def test_several_prompts_and_choices_are_numbered_prompt_by_prompt(client, alone):
    answer = ask(client, prompt=["KING:", "QUEEN:"], n=2, seed=7).json()
    wanted = [alone(prompt, 20, seed=seed) for prompt in ("KING:", "QUEEN:") for seed in (7, 8)]
    assert [choice["text"] for choice in answer["choices"]] == wanted
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert answer["usage"]["prompt_tokens"] == 11


def test_prompts_may_be_tokens(client, service):
    ids = service.models.find("demo-text").encode("KING:")
    texts = [
        [choice["text"] for choice in ask(client, prompt=prompt, seed=2).json()["choices"]]
        for prompt in ("KING:", ids, [ids, ids])
    ]
    assert texts[0] == texts[1] == texts[2][:1]
    assert ask(client, prompt=ids, seed=2, echo=True).json()["choices"][0]["text"].startswith("KING:")


def test_without_a_prompt_it_begins_as_generate_does(client, alone):
    assert ask(client, prompt=None, seed=2).json()["choices"][0]["text"] == alone("", 20, seed=2)


def test_without_a_seed_two_answers_differ(client):
    first, second = (ask(client, max_tokens=60).json()["choices"][0]["text"] for _ in range(2))
    assert first != second


def test_no_tokens_may_be_asked_for(client):
    answer = ask(client, max_tokens=0, echo=True).json()
    assert answer["choices"][0]["text"] == "KING:"
    assert answer["usage"]["completion_tokens"] == 0


def test_a_stream_is_the_same_text_in_events(client, alone):
    answer = ask(client, max_tokens=200, seed=1, stream=True)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.body.endswith(b"\n\ndata: [DONE]\n\n")
    events = answer.events()
    assert "".join(event["choices"][0]["text"] for event in events) == alone("KING:", 200, seed=1)
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["length"]
    assert len({event["id"] for event in events}) == 1
    assert all(event["object"] == "text_completion" for event in events)
    assert answer.times > 2  # in parts, as it was written


def test_a_stream_of_several_choices_says_whose_each_piece_is(client, alone):
    events = ask(client, prompt=["KING:", "QUEEN:"], seed=1, stream=True, echo=True).events()
    texts = {0: "", 1: ""}
    for event in events:
        texts[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert texts == {0: "KING:" + alone("KING:", 20, seed=1), 1: "QUEEN:" + alone("QUEEN:", 20, seed=1)}


def test_a_stream_counts_tokens_where_that_is_asked(client):
    events = ask(client, stream=True, stream_options={"include_usage": True}).events()
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == {"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25}
    assert all(event["usage"] is None for event in events[:-1])


@pytest.mark.parametrize(
    "neutral",
    [
        {"best_of": 1}, {"logprobs": None}, {"suffix": ""}, {"presence_penalty": 0}, {"frequency_penalty": 0.0},
        {"logit_bias": {}}, {"user": "someone"}, {"n": None, "stop": None, "stream": None, "seed": None},
    ],
)  # fmt: skip
def test_what_asks_for_nothing_is_taken(client, neutral):
    assert ask(client, **neutral).status == 200


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("best_of", 3), ("logprobs", 5), ("suffix", "end"), ("presence_penalty", 0.5), ("frequency_penalty", -1),
        ("logit_bias", {"50256": -100}), ("stream_options", {"other": True}), ("n", 0), ("n", 1000), ("max_tokens", -1),
        ("max_tokens", 10**9), ("seed", -1), ("seed", 2**63), ("stop", [""]), ("stop", ["a"] * 17),
        ("stop", "x" * 1001),
        ("prompt", ""), ("prompt", []), ("prompt", [[]]), ("prompt", ["a"] * 65), ("prompt", [1, "a"]), ("prompt", 5),
        ("prompt", [99]), ("prompt", [-1]), ("prompt", [True]), ("prompt", {"a": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(client, field, value):
    answer = ask(client, **{field: value})
    assert answer.status == 400
    assert answer.json()["error"]["param"] == field
    assert answer.error.startswith(field)
    assert answer.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"temperature": -1}, "temperature"), ({"temperature": 1e300}, "temperature"), ({"top_p": 0}, "top_p"),
        ({"top_k": 0}, "top_k"), ({"penalty": 0}, "penalty"), ({"max_tokens": "ten"}, "max_tokens"),
        ({"max_token": 5}, "did you mean 'max_tokens'"), ({"stream": "yes"}, "stream"), ({"prompt": "世"}, "U+4E16"),
        ({"max_tokens": 1.5}, "max_tokens"), ({"echo": 1}, "echo"), ({"temperature": True}, "temperature"),
    ],
)  # fmt: skip
def test_wrong_values_are_one_line(client, body, words):
    answer = ask(client, **body)
    assert answer.status == 400
    assert words in answer.error
    assert "\n" not in answer.error


def test_an_unknown_model_is_not_found(client):
    answer = ask(client, model="gpt-4")
    assert answer.status == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert ask(client, model="demo-series").status == 404
    assert ask(client, model=None).status == 400  # two could


def test_a_text_beyond_the_positions_of_a_model_is_refused_before_it_begins(client):
    answer = ask(client, model="small-transformer", prompt="the", max_tokens=298)
    assert answer.status == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert ask(client, model="small-transformer", prompt="the", max_tokens=297).status == 200


def test_names_and_texts_are_escaped(client):
    answer = ask(client, model="<script>alert(1)</script>")
    assert b"<script" not in answer.body
    assert "<script>" in json.loads(answer.body)["error"]["message"]
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
