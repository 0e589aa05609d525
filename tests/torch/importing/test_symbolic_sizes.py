"""Programs whose sizes PyTorch knows as expressions: of images of any size, which get smaller on their way."""

from __future__ import annotations

import pytest
import sympy

torch = pytest.importorskip("torch")
from iree.compiler import ir  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.utils._sympy import functions  # noqa: E402

import opsplice.torch  # noqa: E402
from opsplice.interpreter.structured import expression  # noqa: E402
from opsplice.torch.importing import symbolic_sizes  # noqa: E402


class Images(torch.nn.Module):
    """Convolutions and pools that take every second row and column, around what is added."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 4, 7, stride=2, padding=3)
        self.pool = torch.nn.MaxPool2d(3, stride=2, padding=1)
        self.one = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.other = torch.nn.Conv2d(4, 6, 1, stride=2)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.pool(torch.relu(self.stem(x)))
        x = self.one(x) + self.other(x)
        return torch.nn.functional.avg_pool2d(x, 2, ceil_mode=False), torch.nn.functional.interpolate(x, scale_factor=2)


def test_images_of_any_size() -> None:
    torch.manual_seed(0)
    model = Images().eval()
    sizes = {2: Dim("h", min=32, max=512), 3: Dim("w", min=32, max=512)}
    program = opsplice.torch.export(model, (torch.randn(2, 3, 64, 48),), dynamic={"x": sizes})
    for h, w in ((64, 48), (39, 57)):
        x = torch.randn(2, 3, h, w)
        for found, wanted in zip(program.run("main", x.numpy()), model(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(found), wanted.detach(), rtol=1e-5, atol=1e-6)


def test_sizes_as_expressions() -> None:
    h, w = sympy.symbols("h w", integer=True, positive=True)
    sizes = [h * 2 - 1, h**2 + w, functions.FloorDiv(h - 1, 2) + 1, functions.CeilDiv(h, w)]
    sizes += [functions.Mod(h, 4) + functions.PythonMod(w, 3), functions.CleanDiv(h * 6, 3)]
    with ir.Context():
        symbols = {h: ir.AffineExpr.get_symbol(0), w: ir.AffineExpr.get_symbol(1)}
        for size in sizes:
            made = symbolic_sizes._affine(size, symbols)
            assert made is not None
            for numbers in ((7, 3), (12, 5), (1, 9)):
                assert expression(made)(numbers) == size.subs(dict(zip((h, w), numbers, strict=True))), size
        assert symbolic_sizes._affine(functions.Max(h, w), symbols) is None


def chunks(x: torch.Tensor) -> torch.Tensor:
    """Of four rows, whatever their number, as Mamba 2 has them: PyTorch knows the four as an expression."""
    x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % 4))
    x = x.reshape(x.shape[0], -1, 4, 2, 8)
    return torch.einsum("bclhn,bcshn->bclsh", x, x)


def changes(x: torch.Tensor) -> torch.Tensor:
    """Slices that begin at a number that PyTorch has computed from sizes, in a running sum."""
    places = torch.arange(x.shape[1]).expand(x.shape[0], -1)
    steps = torch.diff(places, prepend=places[:, :1] - 1, dim=-1)
    return (steps != 1).cumsum(-1) + x


def test_a_number_that_pytorch_has_as_an_expression() -> None:
    fast = torch.compile(chunks, backend="opsplice", dynamic=True)
    for sizes in ((2, 9, 16), (3, 12, 16)):
        x = torch.randn(sizes)
        torch.testing.assert_close(fast(x), chunks(x))


def test_numbers_are_the_sizes_of_tensors() -> None:
    fast = torch.compile(changes, backend="opsplice", dynamic=True)
    for sizes in ((2, 9), (3, 7)):
        x = torch.randint(0, 9, sizes)
        assert torch.equal(fast(x), changes(x))


def counted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A tensor without open sizes in a view that asks for products of some: IREE counts them, and PyTorch does not."""
    rows = x.sin().view(y.shape[0] * y.shape[1], 4).t() * 2
    return rows.reshape(4, y.shape[1] * y.shape[0], 1).transpose(0, 1) + 1


def test_sizes_that_are_counted() -> None:
    fast = torch.compile(counted, backend="opsplice", dynamic=True)
    x, y = torch.randn(2, 3, 4), torch.randn(2, 3)
    torch._dynamo.mark_static(x)
    torch.testing.assert_close(fast(x, y), counted(x, y))
