"""Search: what it finds is what trying everything would find, and it does no more work than it must."""

import copy
import functools
import itertools
import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from recollect.core import state as states
from recollect.core.contract import ContractError, Memory
from recollect.decode import sampling
from recollect.decode.beam import Config, Hypothesis, search
from recollect.layers import attention, build, build_encoder, cross_attention, gru, lstm

PAD, BEGIN, END = 0, 1, 2
VOCAB = 6
BANNED = (PAD, BEGIN)
SOURCES = [[3, 4, 5], [4], [5, 3], [3, 3, 5, 4]]


class Translator(nn.Module):
    """An encoder, a decoder layer that reads it, and a head; `rows` counts what the decoder was made to read."""

    def __init__(self, encoder, decoder, dim):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, dim), nn.Embedding(VOCAB, dim)
        self.encoder, self.decoder = encoder, decoder
        self.head = nn.Linear(decoder.width, VOCAB)
        self.rows = []
        self.known = {}  # what `anew` has found

    def encode(self, sources):
        lengths = torch.tensor([len(source) for source in sources])
        x = torch.zeros(len(sources), int(lengths.max()), dtype=torch.int64)
        for row, source in enumerate(sources):
            x[row, : len(source)] = torch.tensor(source)
        return self.encoder(self.source(x), lengths)

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return self.decoder.initial_state(batch, memory, like, capacity)

    def forward(self, x, state):
        self.rows.append(len(x))
        y, state = self.decoder(self.target(x), state)
        return self.head(y), state

    def explain(self, state, x):
        found = self.decoder.explain(state, self.target(x))
        looks = [weights for name, weights in found.items() if name.split(".")[-1] == "source"]  # B H S each
        return found | ({"source": torch.cat(looks, dim=1).mean(dim=1)} if looks else {})


class Reading(NamedTuple):
    cell: tuple
    context: Tensor  # B M
    constant = ("context",)


class Contextual(nn.Module):
    """A recurrent decoder that is told the mean of the source at every step: no alignment to show."""

    def __init__(self, dim, memory_dim):
        super().__init__()
        self.cell = build("lstm", dim=dim + memory_dim, width=dim)
        self.width = dim

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        context = (memory.values * memory.valid[..., None]).sum(1) / memory.valid.sum(1, keepdim=True)
        return Reading(self.cell.initial_state(batch, like=memory.values), context)

    def forward(self, x, state):
        fed = torch.cat([x, state.context[:, None].expand(-1, x.shape[1], -1)], dim=-1)
        y, cell = self.cell(fed, state.cell)
        return y, state._replace(cell=cell)

    def explain(self, state, x):
        return self.cell.explain(state.cell, torch.cat([x, state.context], dim=-1))


@functools.cache
def lively(kind):
    """A random model with weights large enough that it has something to say, in float64: no ties."""
    torch.manual_seed(5)
    dim = 8
    both = build_encoder("bidirectional", dim=dim, layer=gru.Config(dim=dim, width=4))
    if kind == "transformer":
        own = attention.Config(dim=dim, heads=2, positions="rotary")
        cross = cross_attention.Config(dim=dim, heads=2)
        decoder = build("transformer-block", dim=dim, attention=own, cross=cross)
        model = Translator(build_encoder("transformer", dim=dim, heads=2), decoder, dim)
    elif kind == "transformer with a window":
        own = attention.Config(dim=dim, heads=2, positions="alibi", window=3)
        decoder = build("transformer-block", dim=dim, attention=own, cross=cross_attention.Config(dim=dim))
        model = Translator(both, decoder, dim)
    elif kind == "context":
        model = Translator(build_encoder("forward", dim=dim, layer=lstm.Config(dim=dim)), Contextual(dim, dim), dim)
    else:
        order = {"bahdanau": "align-first", "luong": "cell-first"}[kind]
        model = Translator(both, build("soft-align", dim=dim, cell="gru", order=order), dim)
    model = model.double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(3)
    return model


ALIGNED = ("bahdanau", "luong", "transformer", "transformer with a window")
every_model = pytest.mark.parametrize("kind", [*ALIGNED, "context"])
aligned_model = pytest.mark.parametrize("kind", ALIGNED)


class Rows(NamedTuple):
    start: Tensor  # B V V, the table of each row's source
    last: Tensor  # B
    constant = ("start",)


class Table:
    """A model that is a table: the logits after each token. `memory.values` (B V V) holds one for each source."""

    def initial_state(self, batch, memory=None, like=None, capacity=None):
        return Rows(memory.values.clone(), torch.zeros(batch, dtype=torch.int64))

    def __call__(self, x, state):
        self.seen = [*getattr(self, "seen", []), (len(x), state.start.data_ptr())]
        last = x[:, -1]
        return state.start[torch.arange(len(x)), last][:, None], Rows(state.start, last)

    def explain(self, state, x):
        return {}


def table(*rows, dtype=torch.float64):
    """The memory of one source for `Table`: {token: {next token: probability}}; what is not said has none."""
    values = torch.full((len(rows), VOCAB, VOCAB), float("-inf"), dtype=dtype)
    for source, entries in enumerate(rows):
        values[source, :, END] = 0.0
        for token, shares in entries.items():
            values[source, token] = float("-inf")
            for following, share in shares.items():
                values[source, token, following] = math.log(share)
    return Memory(values, torch.ones(values.shape[:2], dtype=torch.bool))


def decode(model, memory, alignments=False, ids=None, **settings):
    return search(
        model, memory, begin=BEGIN, end=END, banned=BANNED, config=Config(**settings), alignments=alignments, ids=ids
    )


# ---------------------------------------------------------------------------------------------------- oracles


@torch.no_grad()
def anew(model, source, prefix):
    """log p of each next token, and where the model looks for it, the whole prefix read again step by step."""
    key = (*source, None, *prefix)
    if key not in model.known:
        state, looked, logits = model.initial_state(1, memory=model.encode([source])), [], None
        for token in (BEGIN, *prefix):
            looked.append(model.explain(state, torch.tensor([token])).get("source"))
            logits, state = model(torch.tensor([[token]]), state)
        logp = logits[0, -1] - logits[0, -1].exp().sum().log()
        model.known[key] = logp.tolist(), None if looked[0] is None else [weights[0].tolist() for weights in looked]
    return model.known[key]


def rate(logprob, looked, length, length_penalty, coverage):
    """The score of a text, as the paper writes it."""
    score = logprob / ((5 + length) ** length_penalty / 6**length_penalty)
    if coverage:
        score += coverage * sum(math.log(min(sum(places), 1.0)) for places in zip(*looked, strict=True))
    return score


def exhaustive(model, source, limit, length_penalty, coverage):
    """Every text there is, best first; unfinished ones after those with an end."""
    words = [token for token in range(VOCAB) if token not in (*BANNED, END)]
    whole, cut = [], []
    before = {(): 0.0}
    for length in range(1, limit + 1):
        after = {}
        for prefix, logprob in before.items():
            logp, looked = anew(model, source, prefix)
            score = rate(logprob + logp[END], looked, length, length_penalty, coverage)
            whole.append((list(prefix), score, logprob + logp[END], True))
            for word in words:
                after[(*prefix, word)] = logprob + logp[word]
                if length == limit:
                    score = rate(logprob + logp[word], looked, length, length_penalty, coverage)
                    cut.append(([*prefix, word], score, logprob + logp[word], False))
        before = after
    return [text for texts in (whole, cut) for text in sorted(texts, key=lambda text: -text[1])]


def plain_beam(model, source, limit, width, nbest, length_penalty, coverage):
    """Beam search with lists: no batch, no state kept, no early stop."""
    living, whole, cut = [((), 0.0)], [], []
    for length in range(1, limit + 1):
        ways = []
        for prefix, logprob in living:
            logp, looked = anew(model, source, prefix)
            ways += [(prefix, token, logprob + logp[token], looked) for token in range(VOCAB) if token not in BANNED]
        ways.sort(key=lambda way: -way[2])
        scored = [
            (prefix, token, logprob, rate(logprob, looked, length, length_penalty, coverage))
            for prefix, token, logprob, looked in ways
        ]
        whole += [(list(p), score, logprob, True) for p, token, logprob, score in scored[:width] if token == END]
        going = [way for way in scored if way[1] != END][:width]
        living = [((*prefix, token), logprob) for prefix, token, logprob, _ in going]
        cut = [([*prefix, token], score, logprob, False) for prefix, token, logprob, score in going]
    return [text for texts in (whole, cut) for text in sorted(texts, key=lambda text: -text[1])][:nbest]


def same(found, expected):
    """Equal tokens, and scores to rounding."""
    assert [h.tokens for h in found] == [tokens for tokens, *_ in expected]
    assert [h.finished for h in found] == [whole for *_, whole in expected]
    for hypothesis, (_, score, logprob, _) in zip(found, expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-9)
        assert hypothesis.logprob == pytest.approx(logprob, abs=1e-9)


# ------------------------------------------------------------------------------------------------ what is found


@every_model
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("coverage", [0.0, 0.4])
def test_a_beam_as_wide_as_all_texts_finds_what_trying_everything_finds(kind, length_penalty, coverage):
    if kind == "context" and coverage:
        return
    model, limit = lively(kind), 3
    settings = {"length_penalty": length_penalty, "coverage": coverage}
    for nbest in (1, 30):
        wide = Config(beam=VOCAB**limit, nbest=nbest, ratio=0, extra=limit, **settings)
        found = search(model, model.encode(SOURCES[:2]), begin=BEGIN, end=END, banned=BANNED, config=wide)
        for source, hypotheses in zip(SOURCES[:2], found, strict=True):
            same(hypotheses, exhaustive(model, source, limit, **settings)[:nbest])
    finished = [h.finished for h in hypotheses]
    assert len(hypotheses) == 30
    assert finished == [True] * 13 + [False] * 17, "1 + 3 + 9 texts have an end within 3 tokens"


@every_model
@pytest.mark.parametrize(("width", "nbest"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 5)])
@pytest.mark.parametrize(("length_penalty", "coverage"), [(0.0, 0.0), (0.6, 0.0), (1.0, 0.3)])
def test_every_beam_finds_what_lists_and_no_early_stop_find(kind, width, nbest, length_penalty, coverage):
    if kind == "context":
        coverage = 0.0
    model = lively(kind)
    settings = {"length_penalty": length_penalty, "coverage": coverage}
    found = decode(model, model.encode(SOURCES), beam=width, nbest=nbest, ratio=1.5, extra=3, **settings)
    for source, hypotheses in zip(SOURCES, found, strict=True):
        limit = int(1.5 * len(source)) + 3
        same(hypotheses, plain_beam(model, source, limit, width, nbest, **settings))


@every_model
@pytest.mark.parametrize("extra", [4, 20])  # the second needs more room than a state is given at first
def test_a_beam_of_one_without_length_penalty_is_greedy(kind, extra):
    model = lively(kind)
    found = decode(model, model.encode(SOURCES), beam=1, length_penalty=0, ratio=1, extra=extra)
    for source, (hypothesis,) in zip(SOURCES, found, strict=True):
        tokens, total, limit = [], 0.0, len(source) + extra
        while len(tokens) < limit and END not in tokens:
            logp, _ = anew(model, source, tokens)
            tokens.append(max((t for t in range(VOCAB) if t not in BANNED), key=lambda t: logp[t]))
            total += logp[tokens[-1]]
        assert hypothesis.tokens == [token for token in tokens if token != END]
        assert hypothesis.finished == (END in tokens)
        assert hypothesis.score == hypothesis.logprob == pytest.approx(total, abs=1e-9)


def lengthy(model, by=8.0):
    """The same model, less willing to end."""
    model = copy.deepcopy(model)
    model.known.clear()
    with torch.no_grad():
        model.head.bias[END] -= by
    return model


@every_model
@pytest.mark.parametrize(
    "how",
    [
        {"beam": 4, "nbest": 3},
        {"beam": 5, "nbest": 5, "length_penalty": 1.0, "coverage": 0.2},
        {"beam": 1, "length_penalty": 0},
        {"beam": 1, "temperature": 1.3, "seed": 3},
        {"beam": 1, "temperature": 0.8, "top_k": 3, "top_p": 0.9},
    ],
    ids=str,
)
@pytest.mark.parametrize("extra", [3, 30])
def test_sentences_together_give_what_each_gives_alone(kind, how, extra):
    if kind == "context":
        how = {name: value for name, value in how.items() if name != "coverage"}
    model = lively(kind) if extra == 3 else lengthy(lively(kind))
    asked = kind != "context"
    together = decode(model, model.encode(SOURCES), alignments=asked, extra=extra, **how)
    assert len({str([h.tokens for h in hypotheses]) for hypotheses in together}) > 1, "sources matter"
    for row, (source, hypotheses) in enumerate(zip(SOURCES, together, strict=True)):
        (alone,) = decode(model, model.encode([source]), alignments=asked, ids=[row], extra=extra, **how)
        assert [h.tokens for h in alone] == [h.tokens for h in hypotheses]
        for one, other in zip(alone, hypotheses, strict=True):
            assert (one.score, one.logprob) == pytest.approx((other.score, other.logprob), abs=1e-9)
            assert one.finished == other.finished
            if asked:
                torch.testing.assert_close(torch.tensor(one.alignment), torch.tensor(other.alignment))


@every_model
def test_n_best_lists_are_sorted_and_distinct(kind):
    model = lively(kind)
    for hypotheses in decode(model, model.encode(SOURCES), beam=12, nbest=12, extra=2):
        keys = [(h.finished, h.score) for h in hypotheses]
        assert keys == sorted(keys, reverse=True)
        assert len({(*h.tokens, h.finished) for h in hypotheses}) == len(hypotheses) == 12
        assert not any({PAD, BEGIN, END} & set(h.tokens) for h in hypotheses)


@aligned_model
def test_the_alignment_of_each_token_is_where_the_model_looked_before_it_wrote_it(kind):
    model = lively(kind)
    found = decode(model, model.encode(SOURCES), alignments=True, beam=4, nbest=4, ratio=0, extra=4)
    kinds = set()
    for source, hypotheses in zip(SOURCES, found, strict=True):
        for h in hypotheses:
            kinds.add(h.finished)
            prefix = h.tokens if h.finished else h.tokens[:-1]
            _, looked = anew(model, source, prefix)
            assert len(h.alignment) == len(h.tokens) + h.finished
            torch.testing.assert_close(torch.tensor(h.alignment), torch.tensor(looked))
            assert [sum(places) for places in h.alignment] == pytest.approx([1.0] * len(h.alignment))
    assert kinds == {True, False}


def test_coverage_prefers_a_text_that_looked_everywhere():
    model = lively("bahdanau")
    plain, careful = (
        decode(model, model.encode(SOURCES), beam=40, nbest=1, length_penalty=0, coverage=weight, alignments=True)
        for weight in (0.0, 5.0)
    )

    def missed(lists):
        return [sum(math.log(min(1, sum(p))) for p in zip(*h.alignment, strict=True)) for (h,) in lists]

    assert all(after >= before for before, after in zip(missed(plain), missed(careful), strict=True))
    assert missed(plain) != missed(careful)


# --------------------------------------------------------------------------------------------------- edge cases


def test_all_mass_on_the_end_gives_the_empty_text():
    memory = table({BEGIN: {END: 1.0}})
    expected = [Hypothesis([], 0.0, 0.0, True)]
    assert decode(Table(), memory, beam=3, nbest=3) == [expected]
    assert decode(Table(), memory, beam=1, length_penalty=0) == [expected]
    assert decode(Table(), memory, beam=1, temperature=1.0) == [expected]


def test_a_limit_of_one_gives_the_end_or_one_token():
    memory = table({BEGIN: {3: 0.5, END: 0.3, 4: 0.2}})
    (found,) = decode(Table(), memory, beam=3, nbest=3, ratio=0, extra=1)
    assert [(h.tokens, h.finished) for h in found] == [([], True), ([3], False), ([4], False)]
    assert [h.logprob for h in found] == pytest.approx([math.log(p) for p in (0.3, 0.5, 0.2)])
    ((only,),) = decode(Table(), memory, beam=1, length_penalty=0, ratio=0, extra=0)
    assert (only.tokens, only.finished) == ([3], False)


def test_a_model_that_allows_few_texts_gives_short_lists_without_nan():
    memory = table({BEGIN: {3: 0.7, 4: 0.3}, 3: {END: 1.0}, 4: {END: 1.0}}, {BEGIN: {5: 1.0}, 5: {5: 1.0}})
    few, endless = decode(Table(), memory, beam=5, nbest=4, length_penalty=1.0)
    assert [h.tokens for h in few] == [[3], [4]]
    assert [h.score for h in few] == pytest.approx([math.log(0.7) / (7 / 6), math.log(0.3) / (7 / 6)])
    assert [(h.tokens, h.score, h.finished) for h in endless] == [([5] * 32, 0.0, False)]


def test_a_model_that_wants_only_banned_tokens_gives_one_empty_cut_text():
    memory = table({BEGIN: {PAD: 1.0}})
    for how in ({"beam": 3}, {"beam": 1, "temperature": 1.0}):
        assert decode(Table(), memory, **how) == [[Hypothesis([], -math.inf, -math.inf, False)]]


def test_banned_tokens_are_never_written_and_keep_their_share():
    memory = table({BEGIN: {PAD: 0.6, 3: 0.25, BEGIN: 0.15}, 3: {PAD: 0.9, END: 0.1}})
    for how in ({"beam": 4}, {"beam": 1, "temperature": 1.0}):
        ((h, *_),) = decode(Table(), memory, **how)
        assert h.tokens == [3]
        assert h.logprob == pytest.approx(math.log(0.25 * 0.1))


def test_equals_are_taken_lower_prefix_first_then_lower_token():
    even = {BEGIN: {5: 0.5, 3: 0.5}, 3: {4: 0.5, 5: 0.5}, 5: {3: 0.5, 4: 0.5}, 4: {END: 1.0}}
    (found,) = decode(Table(), table(even), beam=4, nbest=4, length_penalty=0, ratio=0, extra=3)
    assert [h.tokens for h in found] == [[3, 4], [5, 4], [3, 5, 3], [3, 5, 4]]
    for dtype in (torch.float32, torch.bfloat16):
        (again,) = decode(Table(), table(even, dtype=dtype), beam=4, nbest=4, length_penalty=0, ratio=0, extra=3)
        assert [h.tokens for h in again] == [h.tokens for h in found]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_best_is_a_stable_sort(dtype):
    scores = torch.randint(-3, 2, (200, 23)).to(dtype)
    scores[scores == 1] = -math.inf
    values, order = scores.sort(dim=1, descending=True, stable=True)
    for count in (1, 5, 22, 23):
        found, places = sampling.stable_topk(scores, count)
        assert torch.equal(found, values[:, :count])
        assert torch.equal(places, order[:, :count])


def test_an_empty_batch_gives_nothing():
    assert decode(Table(), Memory(torch.zeros(0, VOCAB, VOCAB), torch.zeros(0, VOCAB, dtype=torch.bool))) == []


def test_logits_in_half_precision_are_normalised_in_single():
    exact = table({BEGIN: {3: 0.7, 4: 0.3}, 3: {END: 0.9, 3: 0.1}})
    for dtype, digits in ((torch.bfloat16, 1e-2), (torch.float32, 1e-6)):
        ((h,),) = decode(Table(), table({BEGIN: {3: 0.7, 4: 0.3}, 3: {END: 0.9, 3: 0.1}}, dtype=dtype))
        ((whole,),) = decode(Table(), exact)
        assert h.tokens == whole.tokens == [3]
        assert h.logprob == pytest.approx(whole.logprob, abs=digits)
        logits = exact.values.to(dtype)[0, BEGIN, [3, 4]].float()
        following = exact.values.to(dtype)[0, 3, [END, 3]].float()
        total = logits.log_softmax(0)[0] + following.log_softmax(0)[0]
        assert h.logprob == pytest.approx(float(total), abs=1e-7), "not rounded to half on the way"


# --------------------------------------------------------------------------------------------------- the draws


def test_drawn_texts_follow_the_model():
    memory = table({BEGIN: {3: 0.7, 4: 0.2, END: 0.1}})
    memory = states.select(memory, torch.zeros(2000, dtype=torch.int64))
    found = decode(Table(), memory, beam=1, temperature=1.0, ratio=0, extra=1)
    for tokens, share in (([3], 0.7), ([4], 0.2), ([], 0.1)):
        assert sum(h.tokens == tokens for (h,) in found) / 2000 == pytest.approx(share, abs=0.04)
    for (h,) in found[:20]:
        assert h.logprob == pytest.approx(math.log({(3,): 0.7, (4,): 0.2, (): 0.1}[tuple(h.tokens)]))


def test_a_draw_depends_on_the_seed_and_the_rows_id_alone():
    model = lively("luong")
    memory = states.select(model.encode(SOURCES[:1]), torch.zeros(6, dtype=torch.int64))

    def drawn(seed, ids):
        found = decode(
            model, states.select(memory, torch.arange(len(ids))), ids=ids, beam=1, temperature=2.0, seed=seed
        )
        return [h.tokens for (h,) in found]

    first = drawn(0, [0, 1, 2, 3, 4, 5])
    assert len({tuple(tokens) for tokens in first}) > 3
    assert drawn(0, [5, 2, 7]) == [first[5], first[2], drawn(0, [7])[0]]
    assert drawn(1, [0, 1, 2, 3, 4, 5]) != first
    assert drawn(1, [0]) != drawn(0, [1]), "seed and row are not added up"


def test_one_candidate_or_little_heat_is_greedy():
    model = lively("transformer")
    greedy = decode(model, model.encode(SOURCES), beam=1, length_penalty=0)
    for how in ({"temperature": 1.0, "top_k": 1}, {"temperature": 1.0, "top_p": 1e-6}, {"temperature": 1e-4}):
        found = decode(model, model.encode(SOURCES), beam=1, length_penalty=0, **how)
        assert [h.tokens for (h,) in found] == [h.tokens for (h,) in greedy]
        assert [h.logprob for (h,) in found] == pytest.approx([h.logprob for (h,) in greedy])


# ------------------------------------------------------------------------------------------------- the work done


def test_the_first_step_is_one_row_a_sentence_and_ended_sentences_cost_nothing():
    sure = {BEGIN: {END: 0.98, 3: 0.01, 4: 0.01}}
    endless = {BEGIN: {3: 0.5, 4: 0.5}, 3: {3: 0.5, 4: 0.5}, 4: {3: 0.5, 4: 0.5}}
    memory = table(sure, endless, sure)
    model = Table()
    decode(model, memory, beam=3, length_penalty=0, ratio=0, extra=6)
    assert [rows for rows, _ in model.seen] == [3, 3, 3, 3, 3, 3]
    model = Table()
    decode(model, states.select(memory, torch.tensor([0, 2])), beam=3, length_penalty=0, ratio=0, extra=6)
    assert [rows for rows, _ in model.seen] == [2], "nothing can beat .98"
    model = Table()
    decode(model, memory, beam=1, length_penalty=0, ratio=0, extra=6)
    assert [rows for rows, _ in model.seen] == [3, 1, 1, 1, 1, 1]


@every_model
def test_each_sentence_leaves_at_its_own_limit(kind):
    model = lengthy(lively(kind), by=100)
    memory = model.encode(SOURCES)
    model.rows.clear()
    decode(model, memory, beam=3, ratio=1, extra=2)  # limits 5, 3, 4, 6
    assert model.rows == [4, 12, 12, 9, 6, 3]


def test_constants_are_copied_when_rows_change_in_number_and_at_no_other_step():
    endless = {token: {3: 0.5, 4: 0.3, 5: 0.2} for token in (BEGIN, 3, 4, 5)}
    memory = table(endless, endless)
    memory.valid[1, 4:] = False
    model = Table()
    decode(model, memory, beam=3, ratio=1, extra=0)  # limits 6 and 4
    rows, places = zip(*model.seen, strict=True)
    assert rows == (2, 6, 6, 6, 3, 3)
    assert len(set(places)) == 3
    assert [len(list(group)) for _, group in itertools.groupby(places)] == [1, 3, 2]


def test_a_stop_comes_once_nothing_can_enter_the_list():
    """The best prefix has log p = log .1 after a step; at the limit of 20 tokens it might score log .1 / (25/6)."""
    bold = {BEGIN: {END: 0.6, 3: 0.1, 4: 0.05, PAD: 0.25}, 3: {3: 0.9, PAD: 0.1}, 4: {4: 1.0}}
    model = Table()
    ((h,),) = decode(model, table(bold), beam=2, length_penalty=1.0, ratio=0, extra=20)
    assert h.tokens == []
    assert len(model.seen) == 1
    assert math.log(0.6) > math.log(0.1) / (25 / 6)
    shy = {BEGIN: {END: 0.5, 3: 0.3, PAD: 0.2}, 3: {4: 1.0}, 4: {5: 1.0}, 5: {END: 1.0}}
    assert math.log(0.5) < math.log(0.3) / (9 / 6) ** 2
    ((h,),) = decode(Table(), table(shy), beam=2, length_penalty=2.0, ratio=0, extra=8)
    assert h.tokens == [3, 4, 5], "a longer text is worth waiting for"


@pytest.mark.parametrize("how", [{"beam": 4, "nbest": 2, "coverage": 0.2}, {"beam": 1}], ids=str)
def test_the_device_is_asked_once_a_step(how, monkeypatch):
    model, asked = lengthy(lively("transformer"), by=100), []
    memory = model.encode(SOURCES)
    monkeypatch.setattr(
        attention.Attention, "common_slot", lambda *_: None
    )  # as on a GPU, whose clocks it does not ask for
    for name in ("tolist", "item", "nonzero", "__int__", "__float__"):
        real = getattr(Tensor, name)
        monkeypatch.setattr(Tensor, name, lambda *given, real=real: (asked.append(1), real(*given))[1])
    counts = []
    for limit in (5, 12):
        asked.clear()
        decode(model, memory, ratio=0, extra=limit, **how)
        counts.append(len(asked))
    assert counts[1] - counts[0] == 7


def test_search_leaves_the_memory_as_it_was():
    model = lively("transformer")
    memory = model.encode(SOURCES)
    before = states.map(torch.clone, memory)
    decode(model, memory, beam=4, alignments=True)
    assert torch.equal(memory.values, before.values)
    assert torch.equal(memory.valid, before.valid)


def test_a_memory_with_a_grid_and_a_summary_is_searched():
    model = lively("context")
    memory = model.encode(SOURCES)
    assert memory.summary is not None
    grid = memory._replace(shape=(2, 2))
    assert decode(model, grid, beam=3, extra=30) == decode(model, memory, beam=3, extra=30)


# ------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"beam": 0}, "beam"),
        ({"beam": 2, "nbest": 3}, "nbest of at most beam \\(2\\), found 3"),
        ({"length_penalty": -0.1}, "length_penalty from 0 to 100, found -0.1"),
        ({"length_penalty": 1e12}, "length_penalty from 0 to 100, found 1e\\+12"),
        ({"coverage": float("nan")}, "coverage"),
        ({"ratio": 1e19}, "ratio from 0 to 100, found 1e\\+19"),
        ({"extra": 10**12}, "extra"),
        ({"ratio": -1.0}, "ratio"),
        ({"extra": -1}, "extra"),
        ({"temperature": 1.0}, "beam 1 with a temperature, found 5"),
        ({"beam": 1, "temperature": 0.0}, "temperature above 0"),
        ({"beam": 1, "temperature": 1.0, "top_p": 1.5}, "top_p"),
        ({"beam": 1, "top_k": 4}, "expected a temperature with top_k or top_p"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_meant_are_refused_in_one_line(settings, words):
    with pytest.raises(ContractError, match=words) as refusal:
        Config(**settings)
    assert "\n" not in str(refusal.value)


def test_wrong_calls_are_refused_in_one_line():
    model = copy.deepcopy(lively("context"))
    memory = model.encode(SOURCES)
    for settings in ({"coverage": 0.1}, {"alignments": True}):
        with pytest.raises(ContractError, match="expected 'source' from explain.*ask for neither") as refusal:
            decode(model, memory, **settings)
        assert "\n" not in str(refusal.value)
    aligned = copy.deepcopy(lively("luong"))
    aligned.explain = lambda state, x: {"source": torch.zeros(len(x), 2, 4)}
    with pytest.raises(ContractError, match="'source' of shape .4, 4., .* found .4, 2, 4."):
        decode(aligned, aligned.encode(SOURCES), coverage=0.1)
    with pytest.raises(ContractError, match="found 2 among the banned tokens"):
        search(model, memory, begin=BEGIN, end=END, banned=(PAD, END))
    with pytest.raises(ContractError, match="below 6 .the model's tokens., found 9"):
        search(model, memory, begin=BEGIN, end=9)
    with pytest.raises(ContractError, match="an id for each of 4 rows of memory, found 1"):
        decode(model, memory, ids=[3])
    with torch.no_grad():
        model.head.bias[4] = float("nan")
    with pytest.raises(ContractError, match="found NaN at step 1"):
        decode(model, memory)


@pytest.mark.gpu
@every_model
def test_the_device_changes_nothing(kind):
    model = lively(kind)
    memory = model.encode(SOURCES)
    here = decode(model, memory, beam=4, nbest=4, alignments=kind != "context", extra=30)
    there = decode(
        copy.deepcopy(model).cuda(),
        states.move(memory, device="cuda"),
        beam=4,
        nbest=4,
        alignments=kind != "context",
        extra=30,
    )
    for one, other in zip(here, there, strict=True):
        assert [h.tokens for h in one] == [h.tokens for h in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-9)


def test_a_choice_among_nan_stays_within_bounds():
    """Nothing equals NaN, so there is no first of equals; any will do that is there."""
    scores = torch.tensor([[math.nan] * 5, [0.0] * 5])
    found, places = sampling.stable_topk(scores, 2)
    assert places[1].tolist() == [0, 1]
    assert ((places >= 0) & (places < 5)).all()
    assert found[0].isnan().all()
