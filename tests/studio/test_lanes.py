"""Lanes against the contract's own call: every number of the page is the model's, whatever was forked or rewound."""

import numpy as np
import pytest
import torch

import recollect
from recollect.core import state as states
from recollect.data.tokenizers.chars_and_bytes import Bytes
from recollect.runtime.sampling import Config
from recollect.serve.refusals import Refusal
from recollect.studio.lanes.lane import Edit, Lane
from recollect.studio.lanes.track import RECENT, Track
from recollect.studio.lanes.writer import Writer
from studio.models import NAMES, TEXT, TOKENIZER, make_lane

MARKS = 24


@pytest.fixture(scope="module")
def lanes():
    return {name: make_lane(name) for name in NAMES}


@pytest.fixture(params=NAMES)
def lane(lanes, request):
    return lanes[request.param]


def read(lane, text, edits=(), track=None):
    track = Track(lane, MARKS) if track is None else track
    track.aim(text, edits)
    while track.left:
        track.advance(7)
    return track


def same(a, b):
    """Whether two columns are the same bits."""
    arrays = [(x.values[key], y.values[key]) for x, y in ((a, b),) for key in a.values]
    arrays += [(a.shares, b.shares), (a.likeliest, b.likeliest), (a.bits, b.bits)]
    equal_surprise = a.surprise == b.surprise or (np.isnan(a.surprise) and np.isnan(b.surprise))
    return equal_surprise and all(np.array_equal(x, y) for x, y in arrays)


def test_what_is_shown_is_what_the_model_gives(lane):
    """Equal bits where it is asked step by step; within the law's tolerance where it reads the text at once."""
    track = read(lane, TEXT)
    tokens, state = torch.tensor([track.tokens]), lane.initial_state()
    with torch.inference_mode():
        whole = torch.log_softmax(lane.model(tokens)[0][0].double(), dim=-1)
        for at in range(len(TEXT)):
            logits, state = lane.model(tokens[:, at : at + 1], state)
            shares = torch.softmax(logits[0, 0].double(), dim=-1).sort(descending=True, stable=True)
            assert np.array_equal(track.columns[at].shares, shares.values[:8].float().numpy().astype(np.float32)) or (
                np.allclose(track.columns[at].shares, shares.values[:8], rtol=1e-6, atol=1e-9)
            )
    bits = [-float(whole[at, token]) / np.log(2) for at, token in enumerate(track.tokens[1:])]
    assert np.allclose([column.surprise for column in track.columns[1:]], bits, rtol=1e-4, atol=1e-4)
    assert np.isnan(track.columns[0].surprise)


def test_pictures_are_the_tensors_of_the_state_and_of_what_is_explained(lane):
    track = read(lane, TEXT[:30])
    state = track.state_at(29)
    with torch.inference_mode():
        token = torch.tensor([track.tokens[29]])
        explained = lane.model.explain(state, token)
        _, state = lane.model(token[:, None], state)
    tensors = dict(states.named(state))
    assert lane.pictures
    for picture in lane.pictures:
        whole = (explained if picture.explained else tensors)[picture.source][0].float().numpy()
        shown = lane.view(state, picture.key) if picture.kind == "matrix" else track.columns[29].values[picture.key]
        if picture.kind == "cache":
            whole = whole[-1]
        part = whole.reshape(-1)[: shown.size] if picture.kind in ("units", "cache") else whole.reshape(shown.shape)
        assert np.allclose(shown.reshape(-1), part.reshape(-1), rtol=1e-3, atol=1e-3 * np.abs(whole).max() + 1e-7)
        assert picture.low < picture.high


def test_a_text_that_changes_is_read_anew_from_there_alone(lane):
    track = read(lane, TEXT)
    before = list(track.columns)
    changed = TEXT[:20] + "e" + TEXT[21:]
    assert track.aim(changed) == 20
    assert all(a is b for a, b in zip(track.columns, before, strict=False))
    read(lane, changed, track=track)
    fresh = read(lane, changed)
    assert [a.tokens for a in (track, fresh)] == [fresh.tokens] * 2
    assert all(same(a, b) for a, b in zip(track.columns[:20], fresh.columns[:20], strict=True))
    for a, b in zip(track.columns[20:], fresh.columns[20:], strict=True):
        assert np.allclose(a.shares, b.shares, rtol=1e-4, atol=1e-5)


def test_a_state_that_was_let_go_is_made_again_in_a_chunk(lane):
    track = read(lane, TEXT)
    assert len(track.marks) <= MARKS
    assert {len(TEXT) - i for i in range(RECENT)} <= set(track.marks)
    at = next(at for at in range(1, len(TEXT)) if at not in track.marks)
    loose, exact = track.state_at(at), lane.initial_state()
    with torch.inference_mode():
        for token in track.tokens[:at]:
            _, exact = lane.model(torch.tensor([[token]]), exact)
    for (name, a), (_, b) in zip(states.named(loose), states.named(exact), strict=True):
        scale = float(b.abs().max()) or 1.0 if b.is_floating_point() else 1.0
        assert torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-4 * scale), name


def test_a_fork_shares_what_was_read_and_leaves_the_text_alone(lane):
    track = read(lane, TEXT)
    before = list(track.columns)
    branch = read(lane, TEXT[:31] + "go on", track=track.fork())
    assert all(a is b for a, b in zip(branch.columns[:31], before[:31], strict=True))
    assert track.columns == before
    assert track.tokens == TOKENIZER.encode(TEXT).tolist()


def test_a_number_of_the_state_that_is_set_shows_from_there_on(lane):
    """The number is what was asked, no column before it changes, and taking the edit back gives the same bits."""
    track = read(lane, TEXT)
    picture = next((picture for picture in lane.pictures if not picture.explained), None)
    if picture is None:
        pytest.skip("an n-gram's state are its last tokens: there is no number to set")
    unit = int(np.prod(picture.shape)) - 1
    edit = Edit(24, picture.key, unit, 3.25)
    lane.check_edit(edit)
    branch = read(lane, TEXT, [edit], track.fork())
    assert all(a is b for a, b in zip(branch.columns[:24], track.columns[:24], strict=True))
    assert lane.view(branch.state_at(25), picture.key).reshape(-1)[unit] == 3.25
    assert lane.view(track.state_at(25), picture.key).reshape(-1)[unit] != 3.25
    differs = [not same(a, b) for a, b in zip(branch.columns, track.columns, strict=True)]
    assert any(differs[24:])
    if picture.kind != "window":  # of a window the number may lie where nothing looks any more
        assert any(
            not np.array_equal(a.shares, b.shares) for a, b in zip(branch.columns[25:], track.columns[25:], strict=True)
        )
    branch.aim(TEXT)
    read(lane, TEXT, track=branch)
    for a, b in zip(branch.columns, track.columns, strict=True):
        assert np.allclose(a.shares, b.shares, rtol=1e-4, atol=1e-5)


def test_edits_hold_when_a_state_is_made_again(lanes):
    lane = lanes["gru"]
    edits = [Edit(10, "1.h", 3, 2.0), Edit(30, "0.h", 5, -2.0)]
    track = read(lane, TEXT, edits)
    kept = {at: track.marks[at] for at in (45, 50, len(TEXT))}
    track.marks = {0: track.marks[0]}
    for at, state in kept.items():
        for (_, a), (_, b) in zip(states.named(track.state_at(at)), states.named(state), strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-5)


def test_edits_that_are_none_are_refused(lanes):
    lane = lanes["lstm"]
    for edit in (Edit(0, "1.h", 16, 0), Edit(0, "1.forget", 0, 0), Edit(0, "7.h", 0, 0), Edit(0, "1.h", 0, 1e9)):
        with pytest.raises(Refusal, match="edit: expected"):
            lane.check_edit(edit)


def test_characters_that_a_vocabulary_lacks_are_left_out_and_the_rest_keeps_its_place(lanes):
    tokens, ends = lanes["rnn"].encode("wh你o 1s")
    assert tokens == TOKENIZER.encode("who s").tolist()
    assert ends == [1, 2, 4, 5, 7]
    assert lanes["rnn"].encode("") == ([], [])


def test_tokens_of_several_characters_and_of_parts_of_one_have_their_places():
    lane = make_lane("rnn", tokenizer=Bytes(), model=_byte_model())
    _, ends = lane.encode("né!")
    assert ends == [1, 1, 2, 3]


def _byte_model():
    from recollect.models import language

    torch.manual_seed(0)
    return language.Config(model="rnn", vocab=256, width=8, layers=1).build().eval()


def test_lanes_write_what_the_run_itself_writes():
    model = recollect.load("demo-text", engine="torch")
    track = read(Lane("demo-text", model), "KING:\nMy lord, ")
    for settings in ({"seed": 3, "temperature": 0.8}, {"greedy": True}, {"seed": 5, "top_k": 4}):
        writer = Writer(track, Config(length=40, **settings))
        found = "".join(writer.next()[0] for _ in range(40))
        text = "".join(model.generate("KING:\nMy lord, ", length=40, exact=True, **settings))
        assert "KING:\nMy lord, " + found == text


def test_a_lane_writes_on_from_nothing_is_refused(lanes):
    with pytest.raises(Refusal, match="type something first"):
        Writer(Track(lanes["lstm"], MARKS), Config(length=3))


@pytest.mark.parametrize("name", ["lstm", "ngram"])
def test_bytes_and_work_are_those_that_the_model_declares(lanes, name):
    track = read(lanes[name], TEXT)
    cost = lanes[name].model.cost(1, len(TEXT))
    assert (track.state_bytes(len(TEXT)), lanes[name].cost(len(TEXT))) == (cost.state_bytes, cost.flops)


def test_an_ngram_tells_how_many_continuations_it_knows(lanes):
    model = lanes["ngram"].model
    text = TEXT * 2
    for context in ("t", "th", "un", "e "):
        tokens = TOKENIZER.encode(context).tolist()
        state = model.initial_state(1)
        for token in tokens[:-1]:
            _, state = model(torch.tensor([[token]]), state)
        found = model.explain(state, torch.tensor([tokens[-1]]))["continuations"][0].tolist()
        for length in range(1, len(tokens) + 1):
            end = context[-length:]
            followers = {text[i + length] for i in range(len(text) - length) if text[i : i + length] == end}
            assert found[length - 1] == len(followers), (context, length)
