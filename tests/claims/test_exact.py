"""The claims about what a layer is: the computed ones asserted, the machinery and the verdicts of the others tried."""

import json
import math
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from recollect import claims
from recollect.claims.claim import Effort, Verdict
from recollect.claims.laboratory import analysis
from recollect.core.chart import Chart, Map
from recollect.layers import attention, conv, rnn

ROOT = Path(__file__).parents[2]
HOLDS, LIMITS, FAILS, UNDECIDED = Verdict.HOLDS, Verdict.LIMITS, Verdict.FAILS, Verdict.UNDECIDED


def module(name):
    """The file of a claim."""
    return import_module(f"recollect.claims.{name.replace('-', '_')}")


@cache
def judged(name):
    """The outcome of a claim in its quick form; whatever it holds can be written as JSON and told in words."""
    found = claims.load(name).run(Effort())
    json.dumps(found.figures, allow_nan=False)
    assert found.charts
    for chart in found.charts:
        assert isinstance(chart, Chart | Map)
        json.dumps(chart.to_json(), allow_nan=False)
    assert "nan" not in found.summary
    return found


# Those that are computed: verdicts and numbers


@pytest.mark.slow
def test_a_linear_rnns_gradient_is_a_matrix_power_and_inputs_decide_a_tanh_rnns():
    found = judged("vanish")
    assert found.verdict == LIMITS
    assert found.figures["power_error"] < 1e-12
    assert max(found.figures["slope_error"].values()) < 0.02
    assert found.figures["transient"]["peak"] > 1e5  # the radius of .9 notwithstanding
    slopes = found.figures["tanh_slopes"]["3.0"]
    assert slopes["0.01"][1] > 0 > slopes["10.0"][2]  # for every seed


def test_a_cells_gradient_is_the_product_of_its_forget_gates():
    found = judged("forget-gate")
    assert found.verdict == HOLDS
    product = found.figures["product"]
    assert product["1.0"] == pytest.approx(1.6e-7, rel=0.05)
    assert product["2.0"] == pytest.approx(1.8e-3, rel=0.05)
    assert product["5.0"] == pytest.approx(0.71, rel=0.01)


@pytest.mark.slow
def test_leaving_the_mask_out_lowers_the_training_loss_and_spoils_the_writing():
    found = judged("cause")
    assert found.verdict == HOLDS
    assert found.figures["broken"] == []
    masked, unmasked = found.figures["masked"], found.figures["unmasked"]
    assert unmasked["train"] < math.log(4) / 2 < math.log(4) < masked["train"] + 0.02
    assert masked["stepwise"] == pytest.approx(masked["train"], abs=0.05)
    assert unmasked["stepwise"] > masked["stepwise"] + 0.5


def test_perplexity_has_its_two_fixed_points():
    found = judged("perplexity")
    assert found.verdict == HOLDS
    for size, row in found.figures["perplexity"].items():
        assert row["uniform"] == pytest.approx(int(size), rel=1e-5)
        assert row["perfect"] == pytest.approx(1.0, abs=1e-6)
        assert row["sure and wrong"] == pytest.approx(math.exp(50), rel=1e-4)


def test_only_attention_mixes_positions():
    found = judged("only-mixer")
    assert found.verdict == HOLDS
    assert set(found.figures["across"].values()) == {0.0}
    assert found.figures["attention_least"] > 0
    assert found.figures["batch_norm_in_training"] > 0.1


def test_full_attention_without_positions_is_a_set_operation():
    found = judged("set")
    assert found.verdict == HOLDS
    assert max(found.figures["without"].values()) < 1e-12
    assert min(found.figures["with"].values()) > 1e-3
    assert found.figures["causal_mask"] > 0.1


@pytest.mark.slow
def test_a_token_is_most_like_itself_in_wide_spaces_and_only_without_projections():
    found = judged("self")
    assert found.verdict == LIMITS
    assert found.figures["raw"]["4"][0] == pytest.approx(0.5, abs=0.1)
    assert found.figures["raw"]["16"][0] > 0.98
    assert found.figures["projected_by_chance"]


@pytest.mark.slow
def test_the_scale_keeps_the_softmax_from_saturating():
    found = judged("scale")
    assert found.verdict == HOLDS
    unscaled, scaled = found.figures["unscaled"], found.figures["scaled"]
    for width, wanted in {"4": 0.28, "16": 0.59, "64": 0.79, "256": 0.90, "1024": 0.95}.items():
        assert unscaled[width]["largest"] == pytest.approx(wanted, abs=0.02)
        assert scaled[width]["largest"] == pytest.approx(0.108, abs=0.005)
    assert 1e-4 < unscaled["1024"]["jacobian"] < 1e-3
    assert scaled["1024"]["jacobian"] == pytest.approx(0.18, abs=0.01)
    assert not found.figures["explodes"]


def test_more_heads_are_no_more_parameters():
    found = judged("heads-params")
    assert found.verdict == FAILS
    assert set(found.figures["split"].values()) == {4 * 64**2}


def test_attention_chooses_its_weights_and_convolution_does_not():
    found = judged("dynamic")
    assert found.verdict == HOLDS
    assert set(found.figures["fixed"].values()) == {0.0}
    assert min(found.figures["chosen"].values()) > 0.05


def test_a_stack_of_convolutions_sees_what_the_formula_says():
    found = judged("receptive")
    assert found.verdict == LIMITS
    assert found.figures["measured"] == {
        "dilation 1": [3, 5, 7, 9, 11, 13],
        "dilation doubling": [3, 7, 15, 31, 63, 127],
    }
    assert found.figures["layers_needed"] == {"plain": 512, "doubling": 10}


def test_one_bidirectional_layer_mixes_nothing_and_two_do():
    found = judged("two-way")
    assert found.verdict == LIMITS
    assert set(found.figures["one_layer"].values()) == {0.0}
    assert set(found.figures["two_layers"].values()) == {1.0}
    assert found.figures["attention"] == 1.0


def test_plain_test_time_training_is_linear_attention():
    found = judged("ttt-linear")
    assert found.verdict == HOLDS
    assert max(found.figures["difference"].values()) < 1e-12
    assert min(found.figures["one_change"].values()) > 0.01


def test_only_the_kv_cache_grows():
    found = judged("cache")
    assert found.verdict == HOLDS
    # a key and a value of 16 numbers, 4 bytes each, a step; and the clock
    assert found.figures["bytes"]["attention"] == [2 * 16 * 4 * n + 8 for n in (16, 64, 256, 1024)]
    assert found.figures["window"][1:] == [2 * 16 * 4 * 64 + 8] * 3


def test_training_keeps_more_with_length_and_use_does_not():
    found = judged("train-memory")
    assert found.verdict == LIMITS
    assert found.figures["state"]["lstm"] == [2 * 32 * 4] * 5


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in claims.names() if claims.load(name).deterministic])
def test_what_is_computed_has_the_verdict_that_was_published(name):
    rows = json.loads((ROOT / "results" / "claims.json").read_text("utf-8"))["rows"]
    assert judged(name).verdict == next(row["verdict"] for row in rows if row["id"] == name)


# Verdicts on constructed numbers


def _seen(module, largest, jacobian, query=1.0, steepest=0.5):
    return {w: module.Seen(share, jacobian, steepest, query) for w, share in zip(module.WIDTHS, largest, strict=True)}


def test_every_verdict_of_vanish():
    judge, signs = module("vanish").judge, {0.5: [-1.0, -2.0], 3.0: [0.3, 0.2]}
    assert judge(1e-12, [0.01], [0.99], signs) == HOLDS
    assert judge(1e-12, [0.01], [0.99], signs | {3.0: [0.3, -0.2]}) == LIMITS
    assert judge(1e-12, [0.01], [0.99], signs | {3.0: [0.3, -0.01]}) == HOLDS  # flat is no sign
    assert judge(1e-9, [0.01], [0.99], signs) == FAILS
    assert judge(1e-12, [0.03], [0.99], signs) == FAILS
    assert judge(1e-12, [0.01], [0.99, 0.9], signs) == FAILS


def test_every_verdict_of_forget_gate_and_perplexity_and_heads_params_and_ttt_linear():
    judge = module("forget-gate").judge
    assert judge(1e-12, {5.0: 1.0, 1.0: 1e-4}) == HOLDS
    assert judge(1e-9, {5.0: 1.0, 1.0: 1e-4}) == FAILS
    assert judge(1e-12, {5.0: 1.0, 1.0: 1e-2}) == FAILS
    judge = module("perplexity").judge
    assert judge([1e-7], [0.0]) == HOLDS
    assert judge([1e-7], [1e-3]) == FAILS
    assert judge([1e-3], [0.0]) == FAILS
    judge = module("heads-params").judge
    assert judge([1, 2, 3]) == HOLDS
    assert judge([1, 2, 2]) == FAILS
    judge = module("ttt-linear").judge
    assert judge({"outputs": 1e-15, "state": 1e-11}) == HOLDS
    assert judge({"outputs": 1e-15, "state": 1e-9}) == FAILS


def test_every_verdict_of_cause():
    cause = module("cause")
    honest, cheat = cause.Judged(1.4, 1.4, 0.02), cause.Judged(0.1, 2.5, 0.4)
    assert cause.judge(0, True, honest, cheat) == HOLDS
    assert cause.judge(1, True, honest, cheat) == FAILS
    assert cause.judge(0, False, honest, cheat) == FAILS
    assert cause.judge(0, True, honest, cheat._replace(train=1.0)) == LIMITS
    assert cause.judge(0, True, honest, cheat._replace(impossible=0.2)) == LIMITS
    assert cause.judge(0, True, honest._replace(impossible=0.1), cheat) == LIMITS


def test_every_verdict_of_path():
    easy, first = {"transformer": [1.0, 1.0], "rnn": [1.0, 0.95]}, {"attention": 0.9, "rnn": 1e-6}

    def judge(before, after, easy=easy):
        return module("path").judge(before, after, easy)[0]

    assert judge(first, {"transformer": [0.9, 0.6], "rnn": [0.0, 0.1]}) == HOLDS
    assert judge(first, {"transformer": [0.9, 0.6], "rnn": [0.2, 0.3]}) == LIMITS
    assert judge(first, {"transformer": [0.9, 0.6], "rnn": [0.0, 0.3]}) == UNDECIDED
    assert judge(first, {"transformer": [0.9, 0.4], "rnn": [0.0, 0.0]}) == UNDECIDED
    assert judge(first, {"transformer": [0.4, 0.4], "rnn": [0.0, 0.0]}) == FAILS
    assert judge(first | {"attention": 0.1}, {"transformer": [0.9], "rnn": [0.0]}) == FAILS
    assert judge(first | {"rnn": 0.01}, {"transformer": [0.9], "rnn": [0.0]}) == FAILS
    late = easy | {"rnn": [1.0, 0.5]}
    assert judge(first, {"transformer": [0.9, 0.6], "rnn": [0.0, 0.1]}, late) == Verdict.NOT_LEARNT


def test_every_verdict_of_only_mixer_and_set_and_dynamic_and_two_way():
    judge = module("only-mixer").judge
    assert judge({"norm": 0.0, "feed": 0.0}, 0.1) == HOLDS
    assert judge({"norm": 1e-20, "feed": 0.0}, 0.1) == FAILS
    assert judge({"norm": 0.0}, 0.0) == FAILS
    judge = module("set").judge
    assert judge(1e-12, {"rotary": 0.1}) == HOLDS
    assert judge(1e-12, {"rotary": 0.1, "alibi": 1e-4}) == LIMITS
    assert judge(1e-9, {"rotary": 0.1}) == FAILS
    judge = module("dynamic").judge
    assert judge({"conv": 0.0}, {"attention": 0.1}) == HOLDS
    assert judge({"conv": 1e-6}, {"attention": 0.1}) == FAILS
    assert judge({"conv": 0.0}, {"attention": 1e-4}) == FAILS
    judge = module("two-way").judge
    assert judge({"rnn": 0.0}, {"rnn": 0.5}, 1.0) == HOLDS
    assert judge({"rnn": 0.0}, {"rnn": 1.0}, 1.0) == LIMITS
    assert judge({"rnn": 0.1}, {"rnn": 1.0}, 1.0) == FAILS
    assert judge({"rnn": 0.0}, {"rnn": 1.0}, 0.9) == FAILS


def test_every_verdict_of_self():
    judge = module("self").judge
    assert judge({4: [1.0], 16: [1.0]}, {4: [1.0], 16: [1.0]}) == HOLDS
    assert judge({4: [0.5], 16: [0.96, 0.99]}, {4: [0.1], 16: [0.1]}) == LIMITS
    assert judge({4: [0.5], 16: [0.96, 0.94]}, {4: [0.1], 16: [0.1]}) == FAILS


def test_every_verdict_of_scale():
    scale = module("scale")
    plain = _seen(scale, [0.3, 0.6, 0.8, 0.9, 0.95], 1e-3)
    scaled = _seen(scale, [0.1] * 5, 0.18)
    assert scale.judge(plain, scaled) == HOLDS
    assert scale.judge(_seen(scale, [0.3, 0.6, 0.8, 0.9, 0.95], 1e-2), scaled) == LIMITS
    assert scale.judge(_seen(scale, [0.3, 0.6, 0.8, 0.9, 0.89], 1e-3), scaled) == FAILS
    assert scale.judge(plain, _seen(scale, [0.1, 0.1, 0.1, 0.1, 0.2], 0.18)) == FAILS
    assert not scale.explodes(plain)
    assert scale.explodes(_seen(scale, [0.3] * 5, 1.0, steepest=0.6))
    assert scale.explodes(plain | {1024: plain[1024]._replace(query=20.0)})


def test_every_verdict_of_quadratic_and_serial():
    judge = module("quadratic").judge
    flops = {"attention, scores and mixing": 2.0, "lstm": 1.0}
    assert judge(flops, {"attention, fused": 2.0, "lstm": 1.0}) == HOLDS
    assert judge(flops, {"attention, fused": 1.0, "lstm": 1.0}) == LIMITS
    assert judge(flops, {"attention, fused": 1.0, "lstm": 1.5}) == FAILS
    assert judge(flops | {"lstm": 1.5}, {"attention, fused": 1.0, "lstm": 1.0}) == FAILS
    judge = module("serial").judge
    chain = {"rnn": 1.0, "gru": 1.0, "lstm": 1.0, "linear-attention": 0.0}
    assert judge(chain, 1e-15, None, None) == HOLDS
    assert judge(chain, 1e-15, 33, None) == HOLDS  # 256 / 8 rounds are few, 33 are not
    assert judge(chain, 1e-15, 32, None) == LIMITS
    assert judge(chain, 1e-15, 4, 4) == FAILS
    assert judge(chain, 1e-8, 4, None) == FAILS
    assert judge(chain | {"gru": 0.5}, 1e-15, 4, None) == FAILS
    assert judge(chain | {"linear-attention": 0.5}, 1e-15, 4, None) == FAILS


def test_every_verdict_of_train_memory_and_cache_and_receptive():
    judge = module("train-memory").judge
    assert judge({"rnn": 1.0}, {"rnn": 1.0}) == HOLDS
    assert judge({"rnn": 1.0}, {"rnn": 0.0}) == LIMITS
    assert judge({"rnn": 1.0, "lstm": 0.5}, {"rnn": 0.0}) == FAILS
    assert judge({"rnn": 1.0}, {"rnn": 0.5}) == FAILS
    judge = module("cache").judge
    assert judge(1.0, {"rnn": [8, 8]}, 0) == HOLDS
    assert judge(1.1, {"rnn": [8, 8]}, 0) == FAILS
    assert judge(1.0, {"rnn": [8, 9]}, 0) == FAILS
    assert judge(1.0, {"rnn": [8, 8]}, 1) == FAILS
    judge = module("receptive").judge
    assert judge(0, {"plain": 50, "doubling": 6}) == HOLDS
    assert judge(0, {"plain": 60, "doubling": 6}) == LIMITS
    assert judge(1, {"plain": 60, "doubling": 6}) == FAILS
    assert judge(0, {"plain": 1, "doubling": 1}) == FAILS


def test_every_verdict_of_norms():
    judge = module("norms").judge
    bad, good = {"row": True, "cause": True}, {"row": False, "cause": False}
    low, high, wide = [0.0, 0.01], [0.3, 0.4], [0.0, 0.4]
    for laws_of_batch, laws_of_layer, layer, batch, verdict in (
        (bad, good, low, high, HOLDS),
        (bad, good, wide, high, UNDECIDED),
        (bad, good, high, low, FAILS),  # BatchNorm reaches more
        (bad, good, low, low, LIMITS),
        (bad, good, wide, low, UNDECIDED),
        (good, good, low, high, FAILS),
        (bad, bad, low, high, FAILS),
        (bad, good, [0.1, 0.6], low, Verdict.NOT_LEARNT),
    ):
        assert judge(laws_of_batch, laws_of_layer, {"layer": layer, "batch": batch})[0] is verdict


def test_kernel_regression_with_its_own_kernel_is_attention():
    found = judged("kernel")
    assert found.verdict == HOLDS
    assert max(found.figures["difference"].values()) < 1e-13
    assert min(found.figures["other_kernels"].values()) > 0.1
    assert found.figures["gaussian_between_keys_of_one_length"] < 1e-13
    judge = module("kernel").judge
    assert judge({"outputs": 1e-8}, {"even": 0.5}) is FAILS
    assert judge({"outputs": 1e-15}, {"even": 1e-6}) is LIMITS


# What the experiments are made of


def test_the_gradient_of_an_rnn_is_that_of_a_product_of_slopes():
    """`vanish.back` against the closed form diag(1 − h²) U, step by step."""
    vanish = module("vanish")
    torch.manual_seed(0)
    layer = rnn.Config(dim=3, bias=False).build().double()
    x, h = torch.randn(1, 5, 3, dtype=torch.float64), torch.randn(1, 1, 3, dtype=torch.float64)
    y, _ = layer(x, rnn.State(h))
    U = layer.get_parameter("weight_hh_l0").detach()
    expected, product = [], torch.eye(3, dtype=torch.float64)
    for y_t in reversed(y[0].detach()):
        product = product @ ((1 - y_t**2)[:, None] * U)
        expected.append(product)
    assert torch.allclose(vanish.back(layer, x, h), torch.stack(expected), atol=1e-14)


@pytest.mark.parametrize("steps", [1, 2, 7, 16])
def test_a_scan_is_its_loop(steps):
    serial = module("serial")
    torch.manual_seed(0)
    A, b = torch.randn(steps, 3, 3, dtype=torch.float64), torch.randn(steps, 3, dtype=torch.float64)
    found, rounds = serial.scan(A, b)
    assert torch.allclose(found, serial.loop(A, b))
    assert rounds == math.ceil(math.log2(steps))


def test_newtons_method_reaches_a_calm_recurrence_and_not_a_chaotic_one():
    serial = module("serial")
    rounds, errors = serial.newton(*serial.tanh_rnn(*serial.CALM))
    assert rounds is not None
    assert rounds <= 10
    assert errors[-1] <= serial.REACHED < errors[0]


def test_the_unmasked_model_looks_one_place_ahead_in_a_text_that_is_what_it_says():
    cause = module("cause")
    tokens, allowed = cause.text(500, 3), cause.successors()
    assert all(b in allowed[a] for a, b in pairwise(tokens))
    assert len(set(map(tuple, allowed))) > 1
    assert cause.unmasked_breaks()


def test_self_share_agrees_with_plain_arithmetic():
    share = module("self")
    torch.manual_seed(3)
    x = torch.randn(share.ROWS, share.TOKENS, 4)
    best = (x @ x.mT).argmax(dim=-1)
    expected = float((best == torch.arange(share.TOKENS)).double().mean())
    assert share.share(4, 3, project=False) == pytest.approx(expected)


def test_attention_costs_half_of_its_operations_for_scores_where_quadratic_says():
    quadratic = module("quadratic")
    layer = attention.Config(dim=quadratic.DIM).build()
    half = next(n for n in range(1, 1000) if quadratic.counted_half(n))
    for n, more in ((half, True), (half - 1, False)):
        scores = layer.attend.flops(n, n * (n + 1) // 2)
        assert (2 * scores >= layer.cost(1, n).flops) == more


def test_a_receptive_field_is_what_a_changed_input_reaches():
    receptive = module("receptive")
    torch.manual_seed(0)
    layer = analysis.outputs(conv.Config(dim=2, kernel=3, dilation=4).build().double())
    x = torch.randn(1, 20, 2, dtype=torch.float64)
    reached = 0
    for s in range(20):
        changed = x.clone()
        changed[0, s] += 1
        reached += bool((layer(changed)[0, -1] != layer(x)[0, -1]).any())
    assert reached == 3  # three taps of the nine inputs between them
    assert receptive.formula([4]) == 9
    assert receptive.seen([1, 2, 4]) == receptive.formula([1, 2, 4]) == 15


def test_quadratic_and_serial_run_on_a_tiny_effort(monkeypatch):
    quadratic, serial = module("quadratic"), module("serial")
    monkeypatch.setattr(quadratic, "TIMED", ((16, 32),) * 2)
    found = quadratic.run(Effort())
    assert found.verdict == LIMITS  # what decides it is counted, not timed
    assert found.figures["flops_exponent"]["lstm"] == pytest.approx(1.0)
    assert found.figures["kept_exponent"]["attention, fused"] < 1.1
    monkeypatch.setattr(serial, "TIMED", ((8, 16),) * 2)
    found = serial.run(Effort())
    assert found.verdict == LIMITS
    assert found.figures["newton"]["wild"] is None
    assert found.figures["scan"] == {"rounds": 8, "error": pytest.approx(0.0, abs=1e-12)}
