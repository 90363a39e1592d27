"""Writing: what comes out is what reading everything anew would give, and nothing is read twice."""

import math
import random
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

import tiny
from recollect.cli import app
from recollect.core import state as states
from recollect.core.contract import ContractError
from recollect.data.tokenizers import Bpe, Bytes, Chars, Words
from recollect.decode import position, sampling, stream
from recollect.decode.engine import generate_tokens
from recollect.decode.position import read_prompts
from recollect.models import language, ngram
from recollect.runtime import reading
from recollect.runtime.stream import StopStrings
from recollect.tasks.text.mixture import Mixture
from recollect.tasks.text.task import TextTask
from recollect.training import run as runs

VOCAB = 7
LETTERS = "abcdefg"
CHINESE = "床前明月光，疑是地上霜。舉頭望明月，低頭思故鄉。"
PROMPTS = [[1, 2, 3], [4], [5, 0, 6, 1, 2], [3, 3]]


def trained(model, tokenizer):
    """As much of a loaded run as writing needs."""
    return SimpleNamespace(model=model, artifacts=tokenizer)


def lively(model, **settings):
    """A language model with weights large enough that it has something to say, in float64: no ties."""
    heads = {"heads": 2} if model in tiny.HEADED else {}
    torch.manual_seed(2)
    built = language.Config(vocab=VOCAB, model=model, width=8, layers=2, **heads | settings).build().double().eval()
    with torch.no_grad():
        for weight in built.parameters():
            if weight.dim() > 1:
                weight.mul_(12 if built.config.residual else 4)
    return built


def counted():
    text = torch.randint(VOCAB, (400,), generator=torch.Generator().manual_seed(1))
    return ngram.Config(vocab=VOCAB, order=3).build().double().train_on(text.numpy())


MODELS = {
    **{kind: (kind, {}) for kind in tiny.KINDS},
    "residual lstm": ("lstm", {"block": "residual"}),
    **{f"transformer, {places}": ("transformer", {"positions": places}) for places in ("sinusoid", "learned", "alibi")},
    "transformer with a window": ("transformer", {"layer": {"window": 4}}),
    "ttt-linear, mini-batch 3": ("ttt-linear", {"layer": {"mini_batch": 3}}),
}


def build(name):
    if name == "ngram":
        return counted()
    if name == "mixture":
        return Mixture(counted(), lively("gru"), 0.4).double().eval()
    model, settings = MODELS[name]
    return lively(model, **settings)


every_model = pytest.mark.parametrize("name", [*MODELS, "ngram", "mixture"])


def written(model, prompts, room=True, **settings):
    """The tokens that come after each prompt."""
    config = sampling.Config(**{"length": 20} | settings)
    position = read_prompts(model, prompts, capacity=config.length if room else None)
    steps = list(generate_tokens(model, position, config))
    return [list(row) for row in zip(*steps, strict=True)]


@torch.no_grad()
def anew(model, prompt, length=20):
    """Greedy, the slow way: the whole prefix is read again for every token."""
    tokens = list(prompt)
    for _ in range(length):
        logits, _ = model(torch.tensor([tokens]), None)
        tokens.append(int(logits[0, -1].argmax()))
    return tokens[len(prompt) :]


# ------------------------------------------------------------------------------------------------ the state path


@every_model
def test_greedy_writing_equals_reading_the_whole_prefix_for_every_token(name):
    model = build(name)
    expected = [anew(model, prompt) for prompt in PROMPTS]
    assert len({token for row in expected for token in row}) > 2, "the model has something to say"
    for room in (True, False):  # attention's buffer, and the cache that grows
        for prompt, tokens in zip(PROMPTS, expected, strict=True):
            assert written(model, [prompt], room, greedy=True) == [tokens]


@every_model
@pytest.mark.parametrize(
    "how", [{"greedy": True}, {"seed": 3}, {"seed": 3, "top_k": 3, "temperature": 1.5, "penalty": 1.3}], ids=str
)
def test_prompts_of_unequal_length_together_give_what_each_gives_alone(name, how):
    model = build(name)
    together = written(model, PROMPTS, **how)
    assert together == [written(model, [prompt], **how)[0] for prompt in PROMPTS]
    assert len({tuple(row) for row in together}) > 1


@every_model
def test_the_prompt_is_read_once_and_every_token_is_one_step(name):
    model = build(name)
    steps = []
    parts = [model.first, model.second] if name == "mixture" else [model]
    for part in parts:
        part.register_forward_pre_hook(lambda module, given: steps.append(given[0].shape[1]))
    position = read_prompts(model, [[1, 2, 3], [4]], capacity=6)
    steps.clear()  # how a layer reads rows of unequal length is its own business
    list(generate_tokens(model, position, sampling.Config(length=6)))
    assert steps == [1] * 6 * len(parts)


def test_the_prompt_is_read_in_one_go():
    model = build("transformer")
    steps = []
    model.embedding.register_forward_pre_hook(lambda module, given: steps.append(given[0].shape[1]))
    position = read_prompts(model, [[1, 2, 3], [4]], capacity=6)
    assert steps == [3]
    list(generate_tokens(model, position, sampling.Config(length=2)))
    assert steps == [3, 1, 1]


def test_the_cache_has_room_from_the_start_and_does_not_grow():
    model = build("transformer")
    position = read_prompts(model, [[1, 2, 3], [4]], capacity=6)
    before = [tensor.data_ptr() for name, tensor in states.named(position.state) if "clock" not in name]
    list(generate_tokens(model, position, sampling.Config(length=6)))
    after = [tensor.data_ptr() for name, tensor in states.named(position.state) if "clock" not in name]
    assert after == before


def test_learned_positions_end_where_they_end():
    model = lively("transformer", positions="learned", max_positions=9)
    assert len(written(model, [[1, 2, 3]], length=6)[0]) == 6
    with pytest.raises(ContractError, match="9") as caught:
        written(model, [[1, 2, 3]], length=8)
    assert "\n" not in str(caught.value)


# ------------------------------------------------------------------------------------------------ choosing


def choose(shares, count=1, written=(), **settings):
    """Draw `count` tokens from a distribution."""
    config = sampling.Config(**settings)
    draw = torch.Generator().manual_seed(config.seed)
    logits = torch.tensor([shares]).log() + 5.0  # logits may be shifted at will
    return [sampling.choose_tokens(logits.clone(), [list(written)], config, [draw])[0] for _ in range(count)]


SHARES = [0.15, 0.5, 0.05, 0.3]


def shares_of(tokens):
    counts = Counter(tokens)
    return [counts[i] / len(tokens) for i in range(len(SHARES))]


def near(found, expected, draws):
    """Within four standard errors each, and nothing where nothing should be."""
    for a, p in zip(found, expected, strict=True):
        assert abs(a - p) <= 4 * math.sqrt(p * (1 - p) / draws)


def test_tokens_are_drawn_as_often_as_they_are_likely():
    near(shares_of(choose(SHARES, 4000)), SHARES, 4000)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_sharpens_and_flattens(temperature):
    scaled = [share ** (1 / temperature) for share in SHARES]
    expected = [share / sum(scaled) for share in scaled]
    near(shares_of(choose(SHARES, 4000, temperature=temperature)), expected, 4000)


def test_a_very_low_temperature_is_greedy():
    assert set(choose(SHARES, 500, temperature=0.01)) == {1}


@pytest.mark.parametrize(
    ("k", "support"), [(1, {1}), (2, {1, 3}), (3, {0, 1, 3}), (4, {0, 1, 2, 3}), (99, {0, 1, 2, 3})]
)
def test_top_k_leaves_the_k_likeliest(k, support):
    found = choose(SHARES, 3000, top_k=k)
    assert set(found) == support
    total = sum(SHARES[i] for i in support)
    near(shares_of(found), [SHARES[i] / total if i in support else 0 for i in range(4)], 3000)


@pytest.mark.parametrize(
    ("p", "support"), [(0.01, {1}), (0.49, {1}), (0.6, {1, 3}), (0.79, {1, 3}), (0.9, {0, 1, 3}), (1.0, {0, 1, 2, 3})]
)
def test_top_p_leaves_the_fewest_that_hold_so_much(p, support):
    assert set(choose(SHARES, 2000, top_p=p)) == support


def test_top_p_counts_after_the_temperature():
    assert set(choose(SHARES, 500, top_p=0.6, temperature=0.3)) == {1}
    assert set(choose(SHARES, 2000, top_p=0.9, temperature=10.0)) == {0, 1, 2, 3}


def test_top_k_and_top_p_both_hold():
    assert set(choose(SHARES, 1000, top_k=2, top_p=0.99)) == {1, 3}
    assert set(choose(SHARES, 1000, top_k=3, top_p=0.6)) == {1, 3}


@every_model
def test_the_likeliest_of_one_is_greedy(name):
    model = build(name)
    assert written(model, PROMPTS, top_k=1, seed=5) == written(model, PROMPTS, greedy=True)


@every_model
def test_the_same_seed_gives_the_same_text_and_another_another(name):
    model = build(name)
    first = written(model, PROMPTS, seed=1, temperature=2.0)
    assert written(model, PROMPTS, seed=1, temperature=2.0) == first
    assert written(model, PROMPTS, seed=2, temperature=2.0) != first


def test_the_penalty_multiplies_the_log_probability_of_what_was_written():
    """1 has 0.5, which becomes 0.5² = 0.25 under a penalty of 2: then 3 is the likeliest."""
    assert choose(SHARES, greedy=True, written=[1], penalty=2.0) == [3]
    assert choose(SHARES, greedy=True, written=[1], penalty=1.5) == [1], "0.5^1.5 = 0.354 is still above 0.3"
    assert choose(SHARES, greedy=True, written=[1, 3, 1, 1], penalty=2.0) == [1], "how often does not matter"
    assert choose(SHARES, greedy=True, written=[], penalty=2.0) == [1]
    raised = [0.15, 0.5**2, 0.05, 0.3**2]
    near(shares_of(choose(SHARES, 4000, written=[1, 3], penalty=2.0)), [s / sum(raised) for s in raised], 4000)


def test_a_strong_penalty_stops_a_loop():
    model = build("gru")
    loop = written(model, [[1]], greedy=True, length=30)[0]
    varied = written(model, [[1]], greedy=True, length=30, penalty=1e6)[0]
    assert len(set(varied[:5])) == 5
    assert len(set(loop)) < VOCAB


@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_p": 1.5},
        {"top_k": 0},
        {"penalty": 0.0},
        {"length": -1},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ContractError):
        sampling.Config(**settings)


@pytest.mark.parametrize("prompts", [[], [[]], [[1], []]])
def test_a_prompt_must_hold_something(prompts):
    with pytest.raises(ContractError, match="at least one token"):
        read_prompts(build("rnn"), prompts)


# ------------------------------------------------------------------------------------------------ text


class Script(nn.Module):
    """Writes what it was told, whatever it reads; its state is how many tokens it has seen (the prompt: one)."""

    def __init__(self, tokens, size):
        super().__init__()
        self.register_buffer("tokens", torch.as_tensor(tokens))
        self.size = size

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return torch.zeros(batch, dtype=torch.int64)

    def forward(self, x, state=None):
        state = self.initial_state(len(x)) if state is None else state
        at = state[:, None] + torch.arange(x.shape[1])
        return nn.functional.one_hot(self.tokens[at % len(self.tokens)], self.size) * 50.0, state + x.shape[1]

    def ragged(self, x, lengths, state):
        return self(x, state)[0], state + lengths


def scripted(tokenizer, text):
    return trained(Script(tokenizer.encode(text).astype("int64"), tokenizer.size), tokenizer)


def write(used, prompts=("a",), stops=(), state_in=None, state_out=None, **settings):
    """The pieces as they come."""
    config = sampling.Config(**{"greedy": True} | settings)
    return list(
        stream.generate_text(
            used.model, used.artifacts, prompts, config, stops=stops, state_in=state_in, state_out=state_out
        )
    )


def test_one_prompt_streams_and_several_come_one_after_the_other():
    used = scripted(Chars("abcdefg\n"), "bcdefg")
    assert write(used, ["a"], length=5) == ["a", "b", "c", "d", "e", "f", ""]
    assert write(used, ["a", "b"], length=3) == ["abcd\n\nbbcd"]
    assert write(used, [], length=3) == ["b", "c", "d", ""], "without a prompt, a new line is read and not shown"
    assert write(used, ["a"], length=0) == ["a", ""]


def test_a_piece_comes_out_before_the_next_token_is_made():
    used = scripted(Chars("abcdefg"), "bcdefg")
    calls = []
    used.model.register_forward_pre_hook(lambda module, given: calls.append(1))
    pieces = stream.generate_text(used.model, used.artifacts, ["a"], sampling.Config(length=5, greedy=True))
    seen = []
    for _ in pieces:
        seen.append(len(calls))
    assert seen == [1, 2, 3, 4, 5, 6, 6]


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["d"], "bc"),
        (["cd"], "b"),
        (["def"], "bc"),
        (["b"], ""),
        (["xyz"], "bcdefgbcdefg"),
        (["gb"], "bcdef"),
        (["dx", "ef"], "bcd"),
        (["efgx", "gbcd"], "bcdef"),
        (["ef", "de"], "bc"),
        (["g", "defg"], "bc"),
    ],
    ids=str,
)
def test_a_stop_string_cuts_exactly_and_no_part_of_it_is_ever_shown(stops, expected):
    used = scripted(Chars("abcdefgxyz"), "bcdefg")
    pieces = write(used, ["a"], stops=stops, length=12)
    assert "".join(pieces) == "a" + expected
    assert write(used, ["a", "b"], stops=stops, length=12) == [f"a{expected}\n\nb{expected}"]


def test_a_stop_string_that_began_and_did_not_come_is_shown_after_all():
    used = scripted(Chars("abcdefgxyz"), "bcdefg")
    assert "".join(write(used, ["a"], stops=["efx"], length=4)) == "abcde"
    assert "".join(write(used, ["a"], stops=["efx"], length=6)) == "abcdefg"


def test_a_stop_string_is_not_looked_for_in_the_prompt():
    used = scripted(Chars("abcdefg"), "bcdefg")
    assert "".join(write(used, ["abc"], stops=["abc"], length=3)) == "abcdef", "the script goes on at the third letter"


def test_writing_ends_with_the_stop_string():
    used = scripted(Chars("abcdefg"), "bcdefg")
    calls = []
    used.model.register_forward_pre_hook(lambda module, given: calls.append(1))
    write(used, ["a"], stops=["d"], length=100)
    assert len(calls) == 4


def test_rows_stop_each_at_their_own_place():
    used = trained(build("gru"), Chars(LETTERS))
    alone = ["".join(write(used, [p], length=25, stops=["c"])) for p in ("a", "bd", "gfe")]
    assert write(used, ["a", "bd", "gfe"], length=25, stops=["c"]) == ["\n\n".join(alone)]
    assert len({len(text) for text in alone}) > 1


def plainly(stops, pieces):
    """The definition of stopping: all of the text is searched anew for each piece."""
    held, shown = "", []
    for piece in pieces:
        held += piece
        cuts = [at for stop in stops if (at := held.find(stop)) >= 0]
        if cuts:
            return [*shown, held[: min(cuts)]]
        begun = [n for stop in stops for n in range(1, len(stop)) if held.endswith(stop[:n])]
        at = len(held) - max(begun, default=0)
        shown.append(held[:at])
        held = held[at:]
    return shown


def test_stop_strings_are_found_as_by_a_search_of_the_whole_text():
    draw = random.Random(0)
    for _ in range(300):
        stops = ["".join(draw.choices("ab", k=draw.randint(1, 6))) for _ in range(draw.randint(1, 3))]
        pieces = ["".join(draw.choices("abc", weights=(5, 5, 1), k=draw.randint(0, 4))) for _ in range(12)]
        ends = StopStrings(stops)
        shown = []
        for piece in pieces:
            shown.append(ends.push(piece))
            if ends.met:
                break
        assert shown == plainly(stops, pieces)


@pytest.mark.parametrize(
    ("stops", "message"),
    [
        (["a" * 10_000_000], "at most 10,000 characters, found one of 10,000,000"),
        (["a"] * 10_000, "1,000 times --stop, found 10,000"),
    ],
)
def test_a_stop_string_of_megabytes_and_thousands_of_them_are_refused(stops, message):
    with pytest.raises(ContractError, match=message):
        write(scripted(Chars("abc"), "abc"), stops=stops)


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ContractError, match="--stop"):
        write(scripted(Chars("abc"), "abc"), stops=[""])


@pytest.mark.parametrize("make", [Bytes, lambda: Bpe.train([CHINESE * 4], 270), lambda: Chars.train([CHINESE])])
def test_no_character_is_ever_broken_in_a_stream(make):
    tokenizer = make()
    used = scripted(tokenizer, CHINESE)
    count = len(tokenizer.encode(CHINESE))
    used.model.tokens = used.model.tokens.roll(len(tokenizer.encode("床")) - 1)  # the prompt is that long
    pieces = write(used, ["床"], length=count)
    assert "".join(pieces) == "床" + CHINESE
    for piece in pieces:
        assert "\ufffd" not in piece
        piece.encode("utf-8")
    if isinstance(tokenizer, Bytes):
        assert count == 3 * len(CHINESE)
        assert sum(1 for piece in pieces if piece) == len(CHINESE) + 1, "a character comes whole, with its last byte"


def test_a_stop_string_of_several_bytes_is_found():
    used = scripted(Bytes(), CHINESE)
    assert "".join(write(used, ["x"], stops=["，疑"], length=200)) == "x" + CHINESE.split("，")[0]


def test_a_stream_cut_off_in_a_character_ends_like_the_decoder():
    used = scripted(Bytes(), CHINESE)
    found = "".join(write(used, ["x"], length=7))
    assert found == "x" + Bytes().decode(Bytes().encode(CHINESE)[:7]) == "x床前\ufffd"


def test_words_are_written_with_spaces_between():
    used = scripted(Words.train(["the cat sat\n"]), "sat \n the cat")
    assert "".join(write(used, ["cat"], length=4)) == "cat sat\nthe cat"
    assert "".join(write(used, ["the"], length=8, stops=["cat"])) == "the sat\nthe "


# ------------------------------------------------------------------------------------------------ states in files


@every_model
@pytest.mark.parametrize(
    "how",
    [{}, {"greedy": False, "seed": 4, "temperature": 1.5}, {"penalty": 1.8}, {"greedy": False, "penalty": 1.8}],
    ids=str,
)
def test_a_saved_state_goes_on_exactly_as_one_longer_run(name, how, tmp_path):
    used = trained(build(name), Chars(LETTERS))
    whole = "".join(write(used, ["bca"], length=30, **how))
    path = str(tmp_path / "state")
    first = "".join(write(used, ["bca"], length=11, state_out=path, **how))
    second = "".join(write(used, [], length=12, state_in=path, state_out=path, **how))
    third = "".join(write(used, [], length=7, state_in=path, **how))
    assert first + second + third == whole
    assert "".join(write(used, [], length=9, state_in=path, **how)).startswith(third), "it can be taken up again"


def test_a_character_may_be_half_written_when_the_state_is_saved(tmp_path):
    path = str(tmp_path / "state")
    used = scripted(Bytes(), CHINESE)
    parts = ["".join(write(used, ["x"], length=7, state_out=path))]
    parts.append("".join(write(used, [], length=10, state_in=path, state_out=path)))
    parts.append("".join(write(used, [], length=4, state_in=path)))
    assert parts == ["x床前", "明月光", "，疑"]


def test_a_saved_state_of_several_rows_goes_on(tmp_path):
    used = trained(build("transformer"), Chars(LETTERS))
    path = str(tmp_path / "state")
    (whole,) = write(used, ["ab", "g", "cdefg"], length=15)
    (first,) = write(used, ["ab", "g", "cdefg"], length=6, state_out=path)
    (second,) = write(used, [], length=9, state_in=path)
    rows = zip(first.split("\n\n"), second.split("\n\n"), strict=True)
    assert "\n\n".join(a + b for a, b in rows) == whole


def test_a_state_has_room_for_more_than_was_asked_for_at_first(tmp_path):
    used = trained(build("transformer"), Chars(LETTERS))
    path = str(tmp_path / "state")
    write(used, ["ab"], length=1, state_out=path)
    assert len("".join(write(used, [], length=200, state_in=path))) == 200


def test_scores_that_are_no_numbers_are_refused_before_anything_is_written(tmp_path):
    used = trained(build("lstm"), Chars(LETTERS))
    path = str(tmp_path / "state")
    "".join(write(used, ["ab"], length=2, state_out=path))
    good = states.read(path)
    names = ["0", *(name for name in good if good[name].is_floating_point() and name != "0")]
    for name, value in zip(names, (math.nan, math.inf, -math.inf), strict=False):
        found = good | {name: good[name].clone()}
        found[name].flatten()[0] = value
        save_file(found, path)
        with pytest.raises(states.StateError, match=r"state: expected finite numbers in .*; write the state anew"):
            "".join(write(used, [], length=2, state_in=path))
    assert len(names) > 1
    with torch.no_grad():
        for weights in used.model.parameters():
            weights.fill_(math.nan)
    with pytest.raises(ContractError, match=r"some that are no number; `recollect verify` tells what is wrong"):
        "".join(write(used, ["ab"], length=2))


def test_a_long_prompt_tells_how_far_it_is_and_what_would_take_hours_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(reading, "PATIENCE", -1.0)
    monkeypatch.setattr(position, "CHUNK", 16)
    "".join(write(trained(build("lstm"), Chars(LETTERS)), ["ab" * 30], length=1))
    assert "reading the prompt: 48 of 60 tokens, 0 s left\n" in capsys.readouterr().err
    monkeypatch.setattr(reading, "MOST_READ", 1000)
    assert len("".join(write(trained(build("lstm"), Chars(LETTERS)), ["ab" * 30], length=1))) == 61  # it does not grow
    with pytest.raises(ContractError, match=r"found 60 tokens, which go over .* grows with each; shorten the prompt"):
        "".join(write(trained(build("transformer"), Chars(LETTERS)), ["ab" * 30], length=1))


def test_a_prompt_and_a_state_together_are_refused(tmp_path):
    used = trained(build("rnn"), Chars(LETTERS))
    path = str(tmp_path / "state")
    write(used, ["ab"], length=1, state_out=path)
    with pytest.raises(ContractError, match="either --prompt or --state-in"):
        write(used, ["a"], state_in=path)


def test_the_command_writes_and_goes_on(book, tmp_path):
    out, state = str(tmp_path / "run"), str(tmp_path / "state")
    runs.train(TextTask, tiny.configure(book, "transformer", steps=3), out)

    def generate(*flags, given=""):
        done = CliRunner().invoke(app, ["generate", out, *flags], input=given, catch_exceptions=False)
        assert done.exit_code == 0
        assert done.output.endswith("\n")
        return done.output[:-1]

    whole = generate("--prompt", "the", "--length", "20", "--seed", "3")
    assert whole.startswith("the")
    assert len(whole) == 23
    first = generate("--prompt", "-", "--length", "8", "--seed", "3", "--state-out", state, given="the")
    assert first + generate("--length", "12", "--seed", "3", "--state-in", state) == whole
    assert len(generate("--prompt", "a", "--prompt", "the", "--length", "5").split("\n\n")) == 2


def test_an_empty_prompt_is_refused():
    with pytest.raises(ContractError, match="at least one token"):
        write(scripted(Chars("abc"), "abc"), [""])
