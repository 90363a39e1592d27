"""The kernels that choose tokens against torch's own choice, on a GPU or, without one, in Triton's interpreter."""

import math

import pytest
import torch

from decode.test_captured_beam import CONFIGS, encode, every_config
from decode.test_captured_greedy import BEGIN, END, PAD, build
from recollect.core import state as states
from recollect.core.contract import ContractError, Memory
from recollect.decode import beam, captured, captured_beam, captured_greedy, sampling

pytestmark = pytest.mark.triton
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
every_size = pytest.mark.parametrize("size", [17, 300, 5000, 20000])  # tokens: the last two are several tiles
some_sizes = pytest.mark.parametrize("size", [17, 300, 1100])
no_numbers = pytest.mark.filterwarnings("ignore:(invalid value|All-NaN slice):RuntimeWarning")  # the interpreter's
ROOM = 6


@pytest.fixture
def launches(monkeypatch):
    """What was chosen by kernels: a test that never came to them would prove nothing."""
    from recollect.kernels.decode import top_tokens

    seen = []
    for name in ("write_likeliest", "search_on"):
        own = getattr(top_tokens, name)
        monkeypatch.setattr(
            top_tokens, name, lambda *given, own=own, name=name, **places: seen.append(name) or own(*given, **places)
        )
    return seen


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


class Stub:
    """As much of a model as places are made for; its logits are given later."""

    def __init__(self, size):
        self.size = size

    def initial_state(self, rows, **_):
        return torch.zeros(rows, 1, device=DEVICE)

    def __call__(self, tokens, state):
        return torch.zeros(*tokens.shape, self.size, device=DEVICE), state


@pytest.fixture
def both(monkeypatch):
    """Two alike places, and what makes a step in each: in the first by kernels, in the second by torch."""

    def made(make):
        monkeypatch.setattr(captured_greedy, "capture", lambda once, device: once)
        monkeypatch.setattr(captured_beam, "capture", lambda once, device: once)
        places = make(), make()

        def choose(logits):
            found = places[0].choose(logits)
            with monkeypatch.context() as patch:
                for module in (captured_greedy, captured_beam):
                    patch.setattr(module, "can_use_kernels", lambda *_: False)
                return found, places[1].choose(logits)

        return *places, choose

    return made


def drawn(rows, size, seed=0):
    return torch.randn(rows, size, generator=torch.Generator().manual_seed(seed)).mul(3).to(DEVICE)


def writer(model, rows, banned):
    memory = Memory(torch.zeros(rows, 1, 1, device=DEVICE), torch.ones(rows, 1, dtype=torch.bool, device=DEVICE))
    return captured_greedy.CapturedGreedy(model, memory, ROOM, BEGIN, END, banned)


def trellis(model, sentences, banned, config):
    memory = Memory(
        torch.zeros(sentences, 1, 1, device=DEVICE), torch.ones(sentences, 1, dtype=torch.bool, device=DEVICE)
    )
    made = captured_beam.CapturedBeam(model, memory, ROOM, BEGIN, END, banned, config)
    made.logprob.fill_(-math.inf)[:, 0] = 0
    made.limit.copy_(torch.arange(sentences) % ROOM + 1)
    made.outlook.fill_(config.norm(ROOM))
    made.finished.score.fill_(-math.inf)
    return made


def assert_written_alike(mine, theirs):
    assert torch.equal(mine.token, theirs.token)
    assert torch.equal(mine.tokens, theirs.tokens)
    assert torch.equal(mine.at, theirs.at)
    torch.testing.assert_close(mine.logprobs, theirs.logprobs, rtol=1e-6, atol=1e-5, equal_nan=True)


def assert_searched_alike(mine, theirs, living=True):
    """All that counts: which tokens a prefix that cannot be has is nobody's business."""
    for name in ("logprob", "logprobs"):
        torch.testing.assert_close(getattr(mine, name), getattr(theirs, name), rtol=1e-6, atol=1e-5)
    for name, logprob in (("token", "logprob"), ("tokens", "logprobs"), ("parents", "logprobs")):
        alive = getattr(theirs, logprob) > -math.inf if living else slice(None)
        assert torch.equal(getattr(mine, name)[alive], getattr(theirs, name)[alive]), name
    torch.testing.assert_close(mine.finished.score, theirs.finished.score, rtol=1e-6, atol=1e-5)
    ended = theirs.finished.score > -math.inf
    assert torch.equal(mine.finished.node[ended], theirs.finished.node[ended])
    torch.testing.assert_close(mine.finished.logprob[ended], theirs.finished.logprob[ended], rtol=1e-6, atol=1e-5)
    for name in ("over", "broken", "at"):
        assert torch.equal(getattr(mine, name), getattr(theirs, name)), name


@every_size
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("banned", [(PAD,), (PAD, 3, 5, 6, 7, 16)], ids=len)
def test_the_likeliest_token_is_torchs(size, dtype, banned, both, launches):
    mine, theirs, choose = both(lambda: writer(Stub(size), 3, banned))
    for step in range(2):
        choose(drawn(3, size, step).to(dtype))
        assert_written_alike(mine, theirs)
    assert launches == ["write_likeliest"] * 2
    assert mine.at.item() == 2


@every_size
def test_of_equals_the_first_is_taken(size, both):
    mine, theirs, choose = both(lambda: writer(Stub(size), 6, (PAD, BEGIN)))
    logits = drawn(6, size).div(4).round()
    logits[4] = 0
    logits[5, ::2], logits[5, 1::2] = -0.0, 0.0
    for _ in range(2):
        choose(logits)
        assert_written_alike(mine, theirs)
    assert mine.token.tolist()[4:] == [2, 2]


@no_numbers
@every_size
def test_rows_that_are_no_numbers_are_told_by_their_log_p_and_others_are_not(size, both):
    mine, theirs, choose = both(lambda: writer(Stub(size), 8, (PAD, BEGIN)))
    logits = drawn(8, size)
    logits[0, size - 1] = math.nan
    logits[1] = math.nan
    logits[2] = -math.inf
    logits[3, size // 2] = math.inf
    logits[4, 2:] = -math.inf  # all that may be written cannot be
    logits[5, BEGIN] = math.nan  # of a token that may not be written
    logits[6, : size - 1] = -math.inf
    choose(logits)
    torch.testing.assert_close(mine.logprobs, theirs.logprobs, rtol=1e-6, atol=1e-5, equal_nan=True)
    assert mine.logprobs[:, 0].isnan().tolist() == [True] * 4 + [False, True, False, False]
    assert mine.logprobs[4, 0] == -math.inf
    assert torch.equal(mine.token[[4, 6, 7]], theirs.token[[4, 6, 7]])
    assert mine.token.min() >= 0
    assert mine.token.max() < size


def test_rows_may_begin_further_on(both, launches):
    mine, theirs, choose = both(lambda: writer(Stub(1500), 4, ()))
    choose(drawn(4, 1603)[:, 101:1601])
    assert_written_alike(mine, theirs)
    assert launches


@some_sizes
@every_config
def test_a_step_of_a_search_is_torchs(size, config, both, launches):
    """The first has one prefix that can be; the end is likely, so that texts end, and sentences are over."""
    mine, theirs, choose = both(lambda: trellis(Stub(size), 3, (PAD, BEGIN), config))
    for step in range(3):
        logits = drawn(3 * config.beam, size, step)
        logits[:, END] += 6 + math.log(size)
        assert torch.equal(*choose(logits))
        assert_searched_alike(mine, theirs)
    assert mine.over.any()
    assert mine.finished.score.max() > -math.inf
    assert launches == ["search_on"] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_of_the_bits_will_do(dtype, both):
    mine, theirs, choose = both(lambda: trellis(Stub(2100), 2, (PAD, BEGIN), CONFIGS[1]))
    for step in range(3):
        assert torch.equal(*choose(drawn(2 * 3, 2100, step).to(dtype)))
        assert_searched_alike(mine, theirs)


@some_sizes
@every_config
def test_of_equal_ways_those_of_the_first_prefix_come_first_and_of_those_the_first_token(size, config, both):
    mine, theirs, choose = both(lambda: trellis(Stub(size), 3, (PAD, BEGIN), config))
    for place in (mine, theirs):
        place.logprob.fill_(-1)
    logits = drawn(1, size).div(4).round().expand(3 * config.beam, size).clone()
    logits[config.beam :] = 0  # of the other sentences
    for _ in range(2):
        assert torch.equal(*choose(logits))
        assert_searched_alike(mine, theirs, living=False)
    assert mine.tokens[0, 1].tolist() == [3 + slot for slot in range(config.beam)]


@some_sizes
@pytest.mark.parametrize("alive", [0, 1])
def test_where_few_can_be_written_what_cannot_comes_in_torchs_order(size, alive, both):
    """The last of 2 · 3 ways are -inf: they begin with the first token of the first prefix, forbidden or not."""
    mine, theirs, choose = both(lambda: trellis(Stub(size), 2, (PAD, BEGIN), CONFIGS[1]))
    for place in (mine, theirs):
        place.logprob.fill_(-math.inf)[:, alive] = 0
    logits = torch.full((6, size), -math.inf, device=DEVICE)
    logits[:, 1] = logits[:, size - 1] = logits[:, 9] = 1.0
    for _ in range(2):
        assert torch.equal(*choose(logits))
        assert_searched_alike(mine, theirs, living=False)


def test_of_texts_that_score_alike_the_older_stays_first(both):
    logits = drawn(6, 17)
    logits[:, END] += 6
    for nbest in (1, 3):
        config = beam.Config(beam=3, nbest=nbest)
        places = both(lambda config=config: trellis(Stub(17), 2, (PAD, BEGIN), config))
        places[-1](logits)
        scores = [place.finished.score[:, 0].clone() for place in places[:2]]
        *places, choose = both(lambda config=config: trellis(Stub(17), 2, (PAD, BEGIN), config))
        for place, score in zip(places, scores, strict=True):
            place.finished.score[:, 0], place.finished.node[:, 0] = score, 77
        choose(logits)
        assert_searched_alike(*places)
        assert places[0].finished.node[:, 0].tolist() == [77, 77]


@no_numbers
@some_sizes
@pytest.mark.parametrize("what", ["nan", "inf", "none", "over"])
def test_a_search_tells_rows_that_are_no_numbers(size, what, both):
    mine, theirs, choose = both(lambda: trellis(Stub(size), 2, (PAD, BEGIN), CONFIGS[0]))
    logits = drawn(6, size)
    if what == "nan":
        logits[4, size - 1] = math.nan
    elif what == "inf":
        logits[5, 7] = math.inf
    elif what == "none":
        logits[2] = -math.inf
    else:
        logits[3:] = math.nan
        mine.over[1] = theirs.over[1] = True
    rows, _ = choose(logits)
    assert bool(mine.broken) == bool(theirs.broken) == (what != "over")
    assert rows.tolist() == [n for n in rows.tolist() if 0 <= n < 6]
    assert (mine.token >= 0).all()
    assert (mine.token < size).all()


@pytest.mark.parametrize(("rows", "size"), [(2, 20_000), (1, 100_003)])
def test_large_vocabularies_are_many_tiles_and_the_largest_larger_ones(rows, size, both):
    mine, theirs, choose = both(lambda: writer(Stub(size), rows, (PAD, BEGIN)))
    choose(drawn(rows, size))
    assert_written_alike(mine, theirs)
    mine, theirs, choose = both(lambda: trellis(Stub(size), rows, (PAD, BEGIN), CONFIGS[1]))
    for step in range(2):
        logits = drawn(3 * rows, size, step).div(3)  # of wider ones log_softmax on a CPU is off by 7e-6 itself
        assert torch.equal(*choose(logits))
        assert_searched_alike(mine, theirs)


def test_what_kernels_do_not_know_is_left_to_torch():
    logits, logprob, forbidden = drawn(2, 90), drawn(2, 1), torch.tensor([0, 1], device=DEVICE)
    assert sampling.can_use_kernels(logits, logprob, forbidden, 32)
    assert not sampling.can_use_kernels(logits, logprob, forbidden, 33)
    assert not sampling.can_use_kernels(logits, logprob, forbidden.repeat(17), 1)
    assert not sampling.can_use_kernels(logits.double(), logprob, forbidden, 1)
    assert not sampling.can_use_kernels(logits, logprob.double(), forbidden, 1)
    assert not sampling.can_use_kernels(logits[:, ::2], logprob, forbidden, 1)


def test_tokens_beyond_the_vocabulary_are_refused():
    model = Stub(9)
    for make in (lambda: writer(model, 2, (PAD, 9)), lambda: trellis(model, 2, (PAD, 9), CONFIGS[0])):
        with pytest.raises(ContractError, match="below 9"):
            make().run_once()


@pytest.mark.parametrize("config", [*CONFIGS, beam.Config(beam=1, length_penalty=0, ratio=1.0, extra=6)], ids=str)
def test_the_search_in_kernels_finds_the_same_texts(config, launches, monkeypatch):
    model = build(model="attend").float()
    for lengths in ([4], [3, 5]):
        memory = encode(model.cpu(), lengths)
        memory = memory._replace(values=memory.values.to(DEVICE), valid=memory.valid.to(DEVICE))
        model.to(DEVICE)
        asked = {"begin": BEGIN, "end": END, "config": config, "banned": (PAD, BEGIN)}
        with monkeypatch.context() as patch:
            patch.setattr(captured, "can_capture", lambda *_: False)
            expected = beam.search(model, memory, **asked)
        assert not launches
        monkeypatch.setattr(captured, "can_capture", lambda *_: True)
        found = beam.search(model, memory, **asked)
        assert launches
        launches.clear()
        assert [[(h.tokens, h.finished) for h in texts] for texts in found] == [
            [(h.tokens, h.finished) for h in texts] for texts in expected
        ]
        for mine, theirs in zip(found, expected, strict=True):
            assert [h.score for h in mine] == pytest.approx([h.score for h in theirs], rel=1e-5)
            assert [h.logprob for h in mine] == pytest.approx([h.logprob for h in theirs], rel=1e-5)


@no_numbers
def test_numbers_that_are_none_are_named(launches):
    model = build(model="context").float()
    memory, model = states.map(lambda part: part.to(DEVICE), encode(model, [3, 5])), model.to(DEVICE)
    model.head.bias[4] = math.nan
    asked = {"begin": BEGIN, "end": END, "banned": (PAD, BEGIN), "limits": [9, 11]}
    with pytest.raises(ContractError, match="found NaN by step"):
        captured_greedy.search(model, memory, **asked)
    with pytest.raises(ContractError, match="found NaN by step"):
        captured_beam.search(model, memory, config=CONFIGS[0], **asked)
    assert set(launches) == {"write_likeliest", "search_on"}
