"""Systems of equations with a triangular matrix."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

import opsplice.torch  # noqa: E402, F401
from opsplice.torch.decompositions import triangular  # noqa: E402

solve_triangular = torch.linalg.solve_triangular


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_formula_is_pytorchs(rows: int) -> None:
    matrix = torch.randn(2, 1, rows, rows, dtype=torch.float64) / rows**0.5 + 2 * torch.eye(rows)
    for upper, left, unitriangular in itertools.product((False, True), repeat=3):
        known = torch.randn(3, rows, 4, dtype=torch.float64)
        known, options = known if left else known.mT, {"upper": upper, "left": left, "unitriangular": unitriangular}
        found = triangular.solve(matrix, known, **options)
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
