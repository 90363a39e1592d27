"""What the claims share: what is measured of layers, trainings, figures over seeds and numbers in texts."""

import pytest
import torch

from recollect import tasks
from recollect.claims.claim import Effort, Verdict
from recollect.claims.laboratory import analysis, figures, training
from recollect.layers import lstm
from recollect.training import run as runs
from recollect.training.loop import TrainingStopped


def test_influence_is_what_finite_differences_say():
    torch.manual_seed(0)
    function = analysis.outputs(lstm.Config(dim=3, width=2).build().double())
    x, step = torch.randn(1, 4, 3, dtype=torch.float64), 1e-6
    grid = torch.zeros(4, 4, dtype=torch.float64)
    for s in range(4):
        for d in range(3):
            up, down = x.clone(), x.clone()
            up[0, s, d] += step
            down[0, s, d] -= step
            grid[:, s] += ((function(up) - function(down))[0] / (2 * step)).square().sum(dim=-1).detach()
    assert torch.allclose(analysis.influence(function, x), grid.sqrt(), atol=1e-8)


def test_depth_is_the_longest_chain():
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(7):
        y = torch.tanh(y)
    assert analysis.depth(y + torch.tanh(x)) == 9  # the leaf's own node, seven tanh, the sum


def test_kept_bytes_counts_each_storage_once_and_not_what_was_given():
    x = torch.ones(100, requires_grad=True)

    def twice():
        y = torch.tanh(x)  # keeps y: 400 bytes
        return y * y  # keeps y again

    assert analysis.kept_bytes(twice, [x]) == 400
    assert analysis.kept_bytes(lambda: x * x, [x]) == 0
    assert analysis.kept_bytes(lambda: x * x) == 400


def test_the_peak_of_kept_bytes_is_that_of_the_largest_part_gone_back_through():
    x = torch.zeros(100, requires_grad=True)  # 400 bytes

    def squares(count):
        return sum(x * 1.0 * (x * 2.0) for _ in range(count))

    def apart():
        for count in (1, 3, 2):
            squares(count).sum().backward()

    def together():
        sum(squares(count).sum() for count in (1, 3, 2)).backward()

    assert analysis.peak_kept_bytes(apart, [x]) == 3 * 800
    assert analysis.peak_kept_bytes(together, [x]) == 6 * 800
    assert analysis.peak_kept_bytes(lambda: x * x) == analysis.kept_bytes(lambda: x * x) == 400


def test_an_exponent_is_found_again():
    lengths = (2, 4, 8, 16)
    assert analysis.exponent(lengths, [3 * n**1.5 for n in lengths]) == pytest.approx(1.5)
    assert analysis.slope([0, 1, 2], [1, 3, 5]) == pytest.approx((2.0, 1.0))
    assert analysis.slope([0, 1, 2, 3], [0, 1, 1, 0])[1] == pytest.approx(0.0)


def test_a_training_is_that_of_the_command_and_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    settings = {"length": 6, "width": 4, "layers": 1, "batch": 4, "eval_rows": 20, "lr": 1e-2}
    found = training.train("adding", "rnn", steps=3, seed=5, **settings)
    assert not list(tmp_path.rglob("config.json"))
    task = tasks.find("adding")
    texts = {name: str(value) for name, value in settings.items()}
    texts |= {"steps": "3", "seed": "5", "warmup": "0", "eval_every": "3", "save_every": "3"}
    again = runs.train(task, runs.configure(task, texts, model="rnn"), str(tmp_path / "run"))
    assert found.metric == found.valid == again["mse"]
    assert found.figures["params"] == sum(p.numel() for p in found.model.parameters())
    assert found.figures["state_bytes"] == 4 * 4
    assert [row["step"] for row in found.curve if "loss" in row]


def test_points_are_read_off_the_dial():
    found = training.train("parity", "rnn", steps=1, seed=0, width=4, layers=1, length=8, eval_rows=10, reach=2)
    assert list(found.points()) == [2, 4, 6, 8, 16]
    assert found.points("last") == {point["length"]: point["last"] for point in found.figures["points"]}


DIVERGING = {
    "steps": 60, "seed": 0, "length": 10, "width": 8, "layers": 1, "batch": 4, "eval_rows": 10,
    "nonlinearity": "relu", "optimizer": "sgd", "lr": 1e6, "clip": None, "schedule": "constant",
}  # fmt: skip


def test_a_run_that_diverges_says_so():
    with pytest.raises(TrainingStopped):
        training.train("adding", "rnn", **DIVERGING)
    assert training.try_train("adding", "rnn", **DIVERGING) is None


def test_seeds_are_the_claims_own_unless_the_user_names_a_number():
    assert list(Effort().seed_range(2, 3)) == [0, 1]
    assert list(Effort(full=True).seed_range(2, 3)) == [0, 1, 2]
    assert list(Effort(full=True, seeds=1).seed_range(2, 3)) == [0]


def test_figures_over_seeds_are_gathered_said_and_drawn():
    found = figures.gather([{1: 0.5, 2: 0.1}, {1: 0.7, 2: 0.4}])
    assert found == {1: [0.5, 0.7], 2: [0.1, 0.4]}
    assert figures.show(found[1], 2) == "0.60 (0.50 to 0.70)"
    assert figures.sentence("the GRU learns") == "The GRU learns."
    line = figures.curve("a", found)
    assert (line.x, line.low, line.high) == ([1, 2], [0.5, 0.1], [0.7, 0.4])
    assert line.y == pytest.approx([0.6, 0.25])
    assert figures.share({1: [True, False], 2: [False, False]}) == 0.25
    bars = figures.shares("b", {0.3: [1.0, 0.0], 3.0: [1.0, 1.0]})
    assert (bars.x, bars.y) == (["0.3", "3"], [0.5, 1.0])


def test_a_summary_names_its_limits_where_there_are_some():
    assert figures.limits(Verdict.LIMITS, "on Sundays").endswith("on Sundays")
    assert not any(figures.limits(verdict, "on Sundays") for verdict in Verdict if verdict is not Verdict.LIMITS)


def test_numbers_are_written_as_the_texts_have_them():
    assert [figures.decimal(value) for value in (0.05, 1.25, 0.5)] == [".05", "1.25", ".5"]
    assert [figures.scientific(value) for value in (5e-3, 1e-10, 1.5e4)] == ["5e-3", "1e-10", "1.5e4"]
    assert [figures.in_words(value) for value in (1 / 2, 1 / 3, 2.0)] == ["half", "a third", "twice"]
    with pytest.raises(KeyError):
        figures.in_words(0.4)


def test_pairs_of_seeds_are_apart_or_overlap():
    assert figures.apart([1.0, 2.0], [3.0, 4.0]) is True
    assert figures.apart([1.0, 2.0], [3.0, 4.0], margin=1.0) is None
    assert figures.apart([3.0, 4.0], [1.0, 2.0]) is False
    assert figures.apart([1.0, 3.0], [2.0, 4.0]) is None
