"""Products of groups, factors of matrices, and systems of equations."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

import opsplice.torch  # noqa: E402, F401
from opsplice.torch.decompositions.linear_algebra import factors, products, rotations  # noqa: E402

solve_triangular = torch.linalg.solve_triangular


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_formula_is_pytorchs(rows: int) -> None:
    matrix = torch.randn(2, 1, rows, rows, dtype=torch.float64) / rows**0.5 + 2 * torch.eye(rows)
    for upper, left, unitriangular in itertools.product((False, True), repeat=3):
        known = torch.randn(3, rows, 4, dtype=torch.float64)
        known, options = known if left else known.mT, {"upper": upper, "left": left, "unitriangular": unitriangular}
        found = factors.solve_triangular(matrix, known, **options)
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


def test_systems_of_any_size() -> None:
    fast = torch.compile(solve_triangular, backend="opsplice", dynamic=True)
    for rows in (5, 8, 17):
        matrix, known = torch.randn(2, rows, rows) / rows**0.5 + 2 * torch.eye(rows), torch.randn(2, rows, 3)
        torch.testing.assert_close(fast(matrix, known, upper=True), solve_triangular(matrix, known, upper=True))


def test_systems_of_a_size_that_is_known_later() -> None:
    def in_chunks(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[1]
        whole = rows + (8 - rows % 8) % 8
        x = torch.nn.functional.pad(x, (0, 0, 0, whole - rows)).reshape(x.shape[0], whole // 8, -1, x.shape[2])
        products = (x @ x.mT / 8).reshape(x.shape[0], -1, 8, 8)
        return solve_triangular(products, x, upper=False, unitriangular=True)

    fast = torch.compile(in_chunks, backend="opsplice", dynamic=True)
    for rows in (5, 7, 8):
        x = torch.randn(2, rows, 3)
        torch.testing.assert_close(fast(x), in_chunks(x))


def test_grouped_products_are_those_of_eager():
    torch.manual_seed(0)
    ends = torch.tensor([3, 3, 8], dtype=torch.int32)
    rows, columns = torch.randn(8, 16), torch.randn(16, 8)
    each = torch.randn(3, 16, 8)
    by_group = torch.randn(3, 4, 16)
    for left, right in [(rows, each), (columns, torch.randn(8, 16)), (by_group, torch.randn(16, 8))]:
        expected = torch._grouped_mm(left, right, ends)
        torch.testing.assert_close(products.grouped_product(left, right, ends), expected)
    torch.testing.assert_close(products.grouped_product(by_group, each), by_group @ each)


def test_factors_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    square = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    known, positive, fails = square[..., :2], square @ square.mT + torch.eye(5), torch.eye(5, dtype=torch.float64)
    fails[2, 2] = -1
    aten, triangle = torch.ops.aten, torch.linalg.cholesky(positive)
    lu, swaps, _ = torch.linalg.lu_factor_ex(square)
    pairs = [
        *(
            (mine(square), theirs(square))
            for mine, theirs in (
                (factors.inverse, aten.linalg_inv_ex),
                (factors.determinant, aten._linalg_det),
                (factors.log_determinant, aten._linalg_slogdet),
            )
        ),
        *(
            (factors.qr(each, mode), aten.linalg_qr(each, mode))
            for each in (square, square[..., :3], square[..., :3, :])
            for mode in ("reduced", "complete", "r")
        ),
        *(
            (factors.lu(each, pivot=pivot), aten.linalg_lu(each, pivot=pivot))
            for each in (square, square[..., :3], square[..., :3, :])
            for pivot in (True,)
        ),
        *((factors.lu_factors(each), aten.linalg_lu_factor_ex(each)) for each in (square, fails, fails * 0)),
        *(
            (factors.cholesky(positive, upper=upper), aten.linalg_cholesky_ex(positive, upper=upper))
            for upper in (False, True)
        ),
    ]
    for options in itertools.product((False, True), repeat=2):
        pairs.append((factors.lu_parts(lu, swaps, *options), torch.lu_unpack(lu, swaps, *options)))
    for given in ((square, known), (square, known[..., 0]), (square[0, 0], known)):
        pairs.append((factors.solve(*given), aten._linalg_solve_ex(*given)))
    pairs.append((factors.solve(square, known.mT, left=False), aten._linalg_solve_ex(square, known.mT, left=False)))
    for left, adjoint in itertools.product((False, True), repeat=2):
        given, options = (lu, swaps, known if left else known.mT), {"left": left, "adjoint": adjoint}
        pairs.append(([factors.lu_solve(*given, **options)], [aten.linalg_lu_solve(*given, **options)]))
    for upper in (False, True):
        factor = triangle.mT if upper else triangle
        pairs.append(([factors.cholesky_inverse(factor, upper)], [torch.cholesky_inverse(factor, upper)]))
        pairs.append(([factors.cholesky_solve(known, factor, upper)], [torch.cholesky_solve(known, factor, upper)]))
    for found, wanted in pairs:
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
    assert factors.cholesky(torch.stack([fails, fails.abs()]))[1].tolist() == [3, 0]


def test_factors_and_their_gradients() -> None:
    def factored(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        positive = x @ x.mT + torch.eye(4)
        made = [torch.linalg.cholesky(positive), *torch.linalg.slogdet(x), torch.linalg.solve(positive, y)]
        return [*made, *torch.linalg.qr(x), torch.linalg.inv(positive)]

    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)]

    def gradients(results: list[torch.Tensor], inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(sum(each.square().sum() for each in results), inputs)

    exact = [each.detach().double().requires_grad_() for each in inputs]
    found, wanted = torch.compile(factored, backend="opsplice")(*inputs), factored(*exact)
    for one, other in zip([*found, *gradients(found, inputs)], [*wanted, *gradients(wanted, exact)], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5 * other.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8])
def test_sums_of_products_and_more_of_other_numbers_than_floats(dtype: torch.dtype) -> None:
    def added(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        batch, scaled = (x[None], y[None]), {"beta": 2, "alpha": 3}
        products = [torch.addmm(x[0], x, y), torch.addmm(y, x, y, **scaled), torch.addbmm(y, *batch)]
        return [*products, torch.addbmm(y, *batch, **scaled)]

    x, y = torch.arange(9).view(3, 3).to(dtype), torch.arange(3, 12).view(3, 3).to(dtype)
    torch.testing.assert_close(torch.compile(added, backend="opsplice", dynamic=True)(x, y), added(x, y))


def test_exponentials_products_of_reflections_and_distances_of_pairs_with_their_gradients() -> None:
    def made(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        turned = torch.matrix_exp(4 * (x - x.mT))
        products = [torch.linalg.householder_product(y, x[:, 0, :3]), torch.linalg.householder_product(x, x[:, 0])]
        return [torch.matrix_exp(x), turned, *products, *(torch.pdist(y[0], p) for p in (1, 2, torch.inf))]

    torch.manual_seed(0)
    inputs = [torch.randn(2, 4, 4, requires_grad=True), torch.randn(2, 4, 3, requires_grad=True)]
    exact = [each.detach().double().requires_grad_() for each in inputs]
    found, wanted = torch.compile(made, backend="opsplice")(*inputs), made(*exact)
    gradients = [
        torch.autograd.grad(sum(each.square().sum() for each in [*results[:1], *results[2:]]), given)
        for results, given in ((found, inputs), (wanted, exact))
    ]
    for one, other in zip([*found, *gradients[0]], [*wanted, *gradients[1]], strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-5 * other.abs().max().item())


def test_singular_values_and_eigenvalues_are_those_of_pytorch() -> None:
    torch.manual_seed(0)
    for shape in ((2, 3, 5, 5), (6, 3), (3, 6), (1, 1), (2, 4, 4)):
        matrix = torch.randn(shape, dtype=torch.float64) * 1e-160
        values = torch.linalg.svdvals(matrix)
        for full in (False, True):
            left, found, right = rotations.singular_values(matrix, full)
            assert (left.shape, right.shape) == tuple(each.shape for each in torch.linalg.svd(matrix, full)[::2])
            torch.testing.assert_close(found, values, rtol=1e-12, atol=0)
            count = values.shape[-1]
            made = left[..., :count] @ (found.unsqueeze(-1) * right[..., :count, :])
            torch.testing.assert_close(made, matrix, rtol=1e-12, atol=1e-172)
            for each in (left.mT @ left, right @ right.mT):
                torch.testing.assert_close(each, torch.eye(each.shape[-1]).to(each).expand(each.shape))
        torch.testing.assert_close(rotations.singular_values(matrix, compute_uv=False)[1], values, rtol=1e-12, atol=0)
        torch.testing.assert_close(rotations.pseudo_inverse(matrix), torch.linalg.pinv(matrix), rtol=1e-9, atol=1e145)
        for half in ("L", "U") if shape[-1] == shape[-2] else ():
            (found, mine), (wanted, theirs) = rotations.eigenvalues(matrix, half), torch.linalg.eigh(matrix, half)
            torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-172)
            torch.testing.assert_close(mine.abs(), theirs.abs(), rtol=1e-9, atol=1e-9)
    low = torch.ones(4, 3, dtype=torch.float64)
    limit = {"atol": torch.tensor(1e-3).double(), "rtol": torch.tensor(0.0).double()}
    for options in ({}, limit, {"atol": limit["atol"]}):
        torch.testing.assert_close(rotations.pseudo_inverse(low, **options), torch.linalg.pinv(low, **options))
    symmetric = torch.tensor([[0.0, 2], [2, 0]], dtype=torch.float64)
    torch.testing.assert_close(rotations.pseudo_inverse(symmetric, hermitian=True), symmetric / 4)
    assert rotations.singular_values(torch.tensor([[1.0, torch.nan], [0, 1]]))[1].isnan().all()
    assert rotations.eigenvalues(torch.zeros(3, 3))[0].eq(0).all()


def test_singular_values_and_eigenvalues_with_gradients() -> None:
    def computed(matrix: torch.Tensor) -> list[torch.Tensor]:
        values, vectors = torch.linalg.eigh(matrix @ matrix.mT)
        left, between, right = torch.linalg.svd(matrix[:2], full_matrices=False)
        inverse = torch.linalg.pinv(matrix)
        factor = torch.cholesky(inverse @ inverse.mT)
        return [values, vectors.abs(), left.abs(), between, right.abs(), inverse, factor]

    matrix = (torch.randn(3, 3, dtype=torch.float64) + 2 * torch.eye(3)).requires_grad_()
    found, wanted = torch.compile(computed, backend="opsplice")(matrix), computed(matrix)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)
    slopes = (torch.autograd.grad(sum(each.square().sum() for each in made[3:]), matrix) for made in (found, wanted))
    torch.testing.assert_close(next(slopes), next(slopes), rtol=1e-8, atol=1e-8)
