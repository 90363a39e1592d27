"""Least squares in closed form, against `torch.linalg.lstsq` and the normal equations."""

import pytest
import torch

from recollect.tasks.series import least_squares


def rows(count=40, inputs=3, outputs=2):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(count, inputs, generator=generator, dtype=torch.float64)
    return x, torch.randn(count, outputs, generator=generator, dtype=torch.float64) + 5


def with_constant(x):
    return torch.cat([x, torch.ones(len(x), 1, dtype=x.dtype)], dim=1)


@pytest.mark.parametrize("cut", [1, 17, 40])
def test_rows_in_batches_give_the_solution_of_all_of_them(cut):
    x, y = rows()
    found = least_squares.fit(zip(x.split(cut), y.split(cut), strict=True))
    expected = torch.linalg.lstsq(with_constant(x), y).solution
    assert torch.allclose(found.weights, expected, atol=1e-12)
    assert torch.allclose(found.left, ((with_constant(x) @ expected - y) ** 2).mean(dim=0), atol=1e-12)


def test_a_ridge_holds_down_all_but_the_constant():
    x, y = rows()
    penalty = torch.diag(torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)) * 0.5 * len(x)
    wide = with_constant(x)
    expected = torch.linalg.solve(wide.T @ wide + penalty, wide.T @ y)
    assert torch.allclose(least_squares.fit([(x, y)], ridge=0.5).weights, expected, atol=1e-12)


def test_a_column_that_never_changes_shares_with_the_constant():
    x, y = rows()
    still = torch.cat([x, torch.full((len(x), 1), 2.0, dtype=x.dtype)], dim=1)
    found, without = least_squares.fit([(still, y)]), least_squares.fit([(x, y)])
    assert torch.allclose(with_constant(still) @ found.weights, with_constant(x) @ without.weights, atol=1e-10)
