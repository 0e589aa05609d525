"""Products of complex numbers of which a graph looks at the parts: by these, with the numbers of eager."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

from opsplice.torch.importing.complex_products import write_parts

aten = torch.ops.aten


def turned(x: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
    pairs = torch.view_as_complex(x)
    product = pairs * z
    return (
        torch.view_as_real(product),
        torch.view_as_real(product * pairs),
        torch.view_as_real(pairs * 2),
        product.abs(),
    )


def test_parts_are_written_where_a_product_becomes_pairs() -> None:
    """A product of a product is made of complex numbers; one with a number is none of two complex tensors."""
    x, z = torch.randn(3, 4, 2), torch.randn(4, dtype=torch.complex64)
    exported = torch.export.export(Turned(), (x, z), dynamic_shapes={"x": {0: torch.export.Dim("rows")}, "z": None})
    graph = exported.graph_module.graph
    write_parts(graph)
    graph.eliminate_dead_code()
    graph.lint()
    products = [node for node in graph.nodes if node.target is aten.mul.Tensor and node.meta["val"].is_complex()]
    assert len(products) == 2, "of two complex tensors for what takes its size, and with 2"
    assert len(graph.find_nodes(op="call_function", target=aten.complex.default)) == 2
    assert all(
        not isinstance(node.meta["val"].shape[0], int)
        for node in graph.find_nodes(op="call_function", target=aten.complex.default)
    )
    for found, wanted in zip(torch.fx.GraphModule(exported.graph_module, graph)(x, z), turned(x, z), strict=True):
        torch.testing.assert_close(found, wanted)


class Turned(torch.nn.Module):
    def forward(self, x, z):
        return turned(x, z)


def of_two_types(x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """A number of 128 bits beside a tensor of 64, whose product is one of 64."""
    return (
        torch.view_as_real(torch.view_as_complex(x) * torch.full((), 2 - 3j, dtype=torch.complex128))
        * z.real[..., None]
    )


@pytest.mark.parametrize("turned", [turned, of_two_types])
def test_numbers_are_those_of_eager(turned) -> None:
    x, z = torch.randn(3, 4, 2), torch.randn(4, dtype=torch.complex64)
    found = torch.compile(turned, backend="opsplice", fullgraph=True)(x, z)
    torch.testing.assert_close(found, turned(x, z))
