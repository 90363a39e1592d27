"""Scores by hand; vectors and features up to a rotation."""

import pytest
import torch

from recollect.core.contract import ContractError
from recollect.tasks.ratings import model as models


def test_a_score_is_the_mean_two_biases_and_a_dot_product():
    model = models.Config(users=2, items=3, dim=2).build()
    model.set_mean(3.0)
    with torch.no_grad():
        model.users.weight[0] = torch.tensor([1.0, 2.0])
        model.items.weight[1] = torch.tensor([0.5, -1.0])
        model.user_bias.weight[0] = 0.25
        model.item_bias.weight[1] = -1.0
    assert model(torch.tensor([0]), torch.tensor([1])).tolist() == [3.0 + 0.25 - 1.0 + 0.5 - 2.0]
    assert model(torch.tensor([0]), torch.tensor([3])).tolist() == [3.25], "an item never seen: the user's bias is left"
    assert model(torch.tensor([2]), torch.tensor([1])).tolist() == [2.0], "a user never seen: the item's"
    assert model(torch.tensor([2]), torch.tensor([3])).tolist() == [3.0], "both: the mean"


def test_hand_set_features_stay_as_they_are():
    model = models.Config(users=2, items=2, features=2).build()
    model.set_features(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    names = [name for name, _ in model.named_parameters()]
    assert names == ["users.weight", "user_bias.weight", "item_bias.weight"]
    assert torch.equal(model(torch.tensor([0]), torch.tensor([1])), model.users.weight[0, 1:])
    with pytest.raises(ContractError, match=r"features of shape \(2, 2\), found \(3, 2\)"):
        model.set_features(torch.zeros(3, 2))


def test_without_biases_there_is_only_the_dot_product():
    model = models.Config(users=2, items=2, dim=3, bias=False).build()
    model.set_mean(3.0)
    found = model(torch.tensor([1]), torch.tensor([0]))
    assert torch.equal(found, (model.users.weight[1] * model.items.weight[0]).sum()[None])
    with pytest.raises(ContractError, match="expected vectors or biases, found neither"):
        models.Config(users=2, items=2, dim=0, bias=False)


def test_recovery_sees_through_a_rotation_and_not_through_noise():
    draw = torch.Generator().manual_seed(0)
    true = torch.randn(300, 3, generator=draw)
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=draw))
    turned = models.recovery(2.5 * true @ turn, true)
    assert turned.rotated == pytest.approx(1)
    assert turned.canonical == pytest.approx(1)
    assert turned.alone < 0.95, "a single dimension is a mixture"
    assert models.recovery(true, true).alone == pytest.approx(1)
    stretched = models.recovery(true @ torch.diag(torch.tensor([9.0, 1.0, 1.0])), true)
    assert stretched.canonical == pytest.approx(1)
    assert stretched.rotated < 0.8, "a stretch is no rotation"
    nothing = models.recovery(torch.randn(300, 3, generator=draw), true)
    assert nothing.rotated < 0.1
    assert nothing.canonical < 0.3


def test_axes_are_the_same_however_the_vectors_are_turned():
    draw = torch.Generator().manual_seed(0)
    users, items = (torch.randn(n, 3, generator=draw, dtype=torch.float64) for n in (40, 30))
    turn = torch.randn(3, 3, generator=draw, dtype=torch.float64)
    plain = models.axes(users, items)
    other = models.axes(users @ turn, items @ torch.linalg.inv(turn).mT)
    for a, b in zip(plain, other, strict=True):
        assert torch.allclose(a, b, atol=1e-9)
    assert torch.allclose((plain.users * plain.strength) @ plain.items.mT, users @ items.mT)
    assert torch.allclose(plain.strength, torch.linalg.svdvals(users @ items.mT)[:3])
