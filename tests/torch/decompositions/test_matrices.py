"""Products of groups, and systems of equations with a triangular matrix."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

import opsplice.torch  # noqa: E402, F401
from opsplice.torch.decompositions import matrices  # noqa: E402

solve_triangular = torch.linalg.solve_triangular


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_formula_is_pytorchs(rows: int) -> None:
    matrix = torch.randn(2, 1, rows, rows, dtype=torch.float64) / rows**0.5 + 2 * torch.eye(rows)
    for upper, left, unitriangular in itertools.product((False, True), repeat=3):
        known = torch.randn(3, rows, 4, dtype=torch.float64)
        known, options = known if left else known.mT, {"upper": upper, "left": left, "unitriangular": unitriangular}
        found = matrices.solve_triangular(matrix, known, **options)
        torch.testing.assert_close(found, solve_triangular(matrix, known, **options), msg=str(options))


def test_solutions_and_gradients() -> None:
    def solved(matrix: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        return solve_triangular(matrix, known, upper=False, unitriangular=True)

    inputs = [torch.randn(2, 12, 12) / 4, torch.randn(2, 12, 3)]
    inputs = [each.requires_grad_() for each in inputs]
    fast = torch.compile(solved, backend="opsplice")
    (found, by), (wanted, by_wanted) = (
        (y, torch.autograd.grad(y.square().sum(), inputs)) for y in (fast(*inputs), solved(*inputs))
    )
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(by, by_wanted, rtol=1e-4, atol=1e-4)


def test_grouped_products_are_those_of_eager():
    torch.manual_seed(0)
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    rows, columns = torch.randn(8, 16), torch.randn(16, 8)
    each = torch.randn(3, 16, 8)
    by_group = torch.randn(3, 4, 16)
    for left, right in [(rows, each), (columns, torch.randn(8, 16)), (by_group, torch.randn(16, 8))]:
        expected = torch._grouped_mm(left, right, ends)
        torch.testing.assert_close(matrices.grouped_product(left, right, ends), expected)
    torch.testing.assert_close(matrices.grouped_product(by_group, each), by_group @ each)
