"""`recollect doctor` passes what is right, and of what is broken names law, case, step, layer and size."""

from pathlib import Path

import pytest

from recollect.core.comparison import LawBroken
from recollect.doctor import SubjectError, examine, load

HERE = Path(__file__).parent


def findings(target, **options):
    return {finding.law: finding for finding in examine(target, **options).findings}


@pytest.mark.parametrize(
    ("name", "options", "skipped"),
    [
        ("Ours", {}, set()),
        ("ring", {}, set()),
        ("TorchLstm", {"settings": {"hidden": "3"}}, {"ragged", "size", "cost"}),
        ("Wrapped", {}, {"ragged"}),
        ("CachedTransformer", {}, {"ragged", "size", "cost"}),
        ("CausalConvolution", {}, {"purity", "ragged", "size", "file", "cost"}),
        ("Packed", {}, {"size", "cost"}),
        ("Single", {}, {"ragged", "size", "cost"}),
        ("Tokens", {"tokens": 7}, {"ragged", "size", "cost"}),
        ("make", {"dim": 2}, {"ragged", "size", "cost"}),
        ("running_sum", {}, {"purity", "ragged", "size", "file", "cost"}),
        ("step", {}, {"ragged", "size", "cost"}),
    ],
)
def test_a_correct_module_keeps_every_law_that_binds_it(name, options, skipped):
    found = findings(f"{HERE / 'good.py'}:{name}", **options)
    assert {law: f.message for law, f in found.items() if f.verdict == "broken"} == {}
    assert {law for law, f in found.items() if f.verdict == "skipped"} == skipped
    assert all(found[law].reason for law in skipped)


BROKEN = [
    ("NotCausal", "cause", "a convolution that is not causal: it looks 1 step ahead", "conv (Conv1d", 0, (1, 2, 1)),
    ("NormOverTime", "cause", "a norm over time", "norm (InstanceNorm1d", 0, (1, 2, 1)),
    ("NormByHand", "cause", "a norm over time", "forward of NormByHand itself", 0, (1, 2, 1)),
    ("Unmasked", "cause", "attention without a mask", "self_attn (MultiheadAttention)", 0, (1, 2, 4)),
    ("Restarting", "chunk", "positions restart at each chunk", "attend (RestartingAttention)", 1, (1, 2, 2)),
    ("Forgetful", "chunk", "the state is not read", "gru (GRU(", 1, (1, 2, 1)),
    ("InPlace", "purity", "a state changed in place", "cell (WritingCell)", None, (1, 1, 1)),
    ("AppendsToItsCache", "purity", "a state changed in place", "forward of AppendsToItsCache", None, (1, 1, 1)),
    ("DropoutLeftOn", "repeat", "dropout left on", "drop (AlwaysDropout())", 0, (1, 1, 2)),
    ("NotFinite", "repeat", "outputs are not finite", "forward of NotFinite itself", 0, (1, 1, 4)),
    ("CountsItsCalls", "repeat", "memory outside the state", "forward of CountsItsCalls itself", 0, (1, 1, 1)),
    ("LeakyPadding", "ragged", "padding leaks into the state", "forward of LeakyPadding itself", None, (1, 2, 2)),
    ("LeakyMean", "ragged", "padding leaks into the outputs", "forward of LeakyMean itself", 0, (1, 2, 1)),
    ("WrongCosts", "cost", "costs declared wrongly: FLOPs", "forward of WrongCosts itself", None, (1, 1, 1)),
    ("WrongCosts", "size", "costs declared wrongly: bytes of state", "forward of WrongCosts", 1, (1, 1, 1)),
    ("Neighbours", "row", "a row depends on its neighbours", "forward of Neighbours itself", 0, (2, 2, 1)),
    ("stack", "cost", "costs declared wrongly: FLOPs", "layers.1 (OwesWork)", None, (1, 1, 4)),
    ("OurInPlace", "purity", "a state changed in place", "forward of OurInPlace itself", None, (1, 1, 1)),
    ("OurInPlace", "cost", "costs declared wrongly: FLOPs", "forward of OurInPlace itself", None, (1, 1, 1)),
]
ALSO = {"WrongCosts": {"size", "cost"}, "OurInPlace": {"purity", "cost"}}


@pytest.mark.parametrize(("name", "law", "cause", "where", "step", "size"), BROKEN)
def test_a_broken_module_is_named_with_law_case_layer_step_and_smallest_input(name, law, cause, where, step, size):
    found = findings(f"{HERE / 'broken.py'}:{name}")
    assert {each for each, f in found.items() if f.verdict == "broken"} == ALSO.get(name, {law})
    case = found[law]
    assert cause in case.cause
    assert case.where.startswith(where)
    assert case.step == step
    assert tuple(case.size) == size


@pytest.mark.parametrize(("name", "law"), [row[:2] for row in BROKEN])
def test_the_reproduction_of_a_broken_law_breaks_it_again(name, law):
    case = findings(f"{HERE / 'broken.py'}:{name}")[law]
    assert len(case.reproduction) == 3
    with pytest.raises(LawBroken, match=f"(?i)^{law} law broken"):
        exec("\n".join(case.reproduction), {})


def test_dropout_left_on_is_told_apart_from_a_law_about_chunks():
    found = findings(f"{HERE / 'broken.py'}:DropoutLeftOn")
    assert found["chunk"].verdict == "skipped"
    assert found["chunk"].reason == "not judged: the same call gives different outputs"


def test_a_module_that_rounds_to_float32_inside_is_held_to_the_tolerance_of_float32():
    assert load(f"{HERE / 'good.py'}:Single").tolerance == 1e-5
    assert load(f"{HERE / 'good.py'}:Wrapped").tolerance is None


def test_what_a_file_makes_when_it_is_run_is_drawn_from_the_seed_too():
    target = f"{HERE / 'good.py'}:ring"
    first, other = (next(load(target, seed=seed).parameters()) for seed in (0, 1))
    assert (first != other).any()


def test_another_seed_gives_other_weights_and_the_same_one_the_same():
    target = f"{HERE / 'good.py'}:Wrapped"
    first, again, other = (load(target, seed=seed).target.out.weight for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).all()


@pytest.mark.parametrize(
    ("target", "options", "problem"),
    [
        ("good.py", {}, "expected FILE:NAME"),
        ("gone.py:Net", {}, "expected a Python file before the colon, found none"),
        ("good.py:Wraped", {}, "did you mean 'Wrapped'"),
        ("good.py:torch", {}, "expected a class, a module or a function, found module"),
        ("good.py:ring", {"settings": {"dim": "3"}}, "--set: expected it with a class or a factory, found ring"),
        ("good.py:Wrapped", {"settings": {"wdith": "3"}}, "setting of Wrapped"),
        ("broken.py:Pooled", {}, r"expected outputs of shape \(2, 3, width\), one a step"),
        ("broken.py:KeepsItsCache", {}, "is something kept on the module between calls"),
        ("broken.py:Reader", {}, "for a layer that reads a memory use core.laws.check"),
        ("broken.py:WrongWidth", {}, r"expected outputs for x of shape \(2, 3, 4\).*RuntimeError.*broken.py, line"),
    ],
)
def test_what_cannot_be_examined_is_refused_in_one_line(target, options, problem):
    with pytest.raises(ValueError, match=problem) as caught:
        examine(str(HERE / target), **options)
    assert "\n" not in str(caught.value)


def test_batch_second_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "net.py").write_text("from torch import nn\nnet = nn.LSTM(4, 4)\n")
    with pytest.raises(SubjectError, match="make it with batch_first=True"):
        examine(f"{tmp_path / 'net.py'}:net")


def test_a_step_without_its_first_state_is_refused(tmp_path):
    (tmp_path / "net.py").write_text("def step(x, h):\n    return x + h, h\n")
    with pytest.raises(SubjectError, match=r"expected initial_state\(batch\) beside the step"):
        examine(f"{tmp_path / 'net.py'}:step")


def test_a_step_alone_says_why_chunks_are_not_judged(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\ndef initial_state(batch):\n    return torch.zeros(batch, 4)\n"
        "def step(x, h):\n    return x + h, x + h\n"
    )
    found = findings(f"{tmp_path / 'net.py'}:step")
    assert "there is a step alone" in found["chunk"].reason
    assert found["row"].verdict == "holds"


def test_a_sequence_that_differs_from_its_step_breaks_the_law_of_chunks(tmp_path):
    (tmp_path / "net.py").write_text(
        "import torch\ndef initial_state(batch):\n    return torch.zeros(batch, 4)\n"
        "def step(x, h):\n    return x + h, x + h\n"
        "def forward(x, h):\n    y = 1.5 * x.cumsum(1) + h[:, None]\n    return y, y[:, -1]\n"
    )
    found = findings(f"{tmp_path / 'net.py'}:step")
    assert found["chunk"].verdict == "broken"
    assert found["chunk"].where == "the function itself"


def test_the_width_is_the_default_of_its_argument_where_none_is_given():
    assert load(f"{HERE / 'broken.py'}:Doubled").dim == 6
    assert load(f"{HERE / 'broken.py'}:Doubled", settings={"dim": "5"}).dim == 5
    assert load(f"{HERE / 'broken.py'}:Doubled", dim=3).dim == 3


def test_a_recurrent_part_that_takes_steps_first_is_named():
    found = findings(f"{HERE / 'broken.py'}:TimeFirst", steps=4)["row"]
    assert found.verdict == "broken"
    assert "; lstm has batch_first=False, so it takes rows for steps" in found.message


def test_costs_in_another_form_are_refused_with_the_form_expected():
    with pytest.raises(
        SubjectError, match=r"expected cost\(batch, steps\) to give \(flops, state_bytes\), .* found dict"
    ):
        examine(f"{HERE / 'broken.py'}:CostsByName")
