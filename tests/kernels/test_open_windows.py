"""Convolutions of images of open sizes by filters that are inputs, as `dynamic=True` of torch.compile has them."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")

import torch

import opsplice.torch

SPEC = ["opsplice_kernels:convolution"]
conv = torch.nn.functional.conv2d


class Windows(torch.nn.Module):
    """With a batch norm and without, with a stride, of one element, and of each channel alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(8)
        torch.nn.init.uniform_(self.norm.running_var, 0.5, 2)
        torch.nn.init.normal_(self.norm.running_mean)

    def forward(self, x, dense, single, each):
        y = torch.relu(self.norm(conv(x, dense, padding=1)))
        return y, conv(y, single), conv(x, dense, stride=2, padding=1), conv(y, each, groups=8, padding=1)


@pytest.mark.parametrize("sizes", [(2, 3), (0, 2, 3)], ids=["image", "batch and image"])
def test_filters_that_are_inputs(sizes):
    """Of none it was known that images were higher than one row, so IREE's code took forty times as long in ResNet."""
    torch.manual_seed(0)
    layer = Windows().eval()
    filters = [torch.randn(8, 4, 3, 3), torch.randn(6, 8, 1, 1), torch.randn(8, 1, 3, 3)]
    dims = dict.fromkeys(sizes, torch.export.Dim.AUTO)
    given = (torch.randn(2, 4, 12, 14), *filters)
    program = opsplice.torch.export(layer, given, dynamic={"x": dims}, specs=SPEC)
    found = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(found) == ["convolution_packed"] * 3 + ["depthwise_rows"], program.report
    for shape in ((2, 4, 12, 14), (2, 4, 7, 31), (2, 4, 2, 5)):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = Windows.forward(layer.double(), x.double(), *(each.double() for each in filters))
            layer.float()
        for one, other in zip(program.run("main", x.numpy(), *(f.numpy() for f in filters)), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-5, atol=5e-5)


def test_groups_are_not_asked_for_their_size_when_the_program_runs():
    """A branch for small images made IREE pad each image for it, also where it was not taken: a tenth of a RegNet."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(16, 16, 3, stride=2, padding=1, groups=4).eval()
    dims = dict.fromkeys((0, 2, 3), torch.export.Dim.AUTO)
    program = opsplice.torch.export(layer, (torch.randn(2, 16, 12, 14),), dynamic={"input": dims}, specs=SPEC)
    assert [(each.kernel, each.when) for each in program.report.replacements] == [("convolution_packed", "")]
    for shape in ((2, 16, 12, 14), (3, 16, 2, 5)):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = layer(x)
        np.testing.assert_allclose(program.run("main", x.numpy()), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_products_and_means_of_open_sizes_are_no_convolutions():
    class Products(torch.nn.Module):
        def forward(self, x, w):
            return torch.einsum("ghw,gw->gh", x, w), (x * torch.tanh(x)).mean((1, 2), keepdim=True)

    rows, columns = torch.export.Dim("rows"), torch.export.Dim("columns")
    sizes = {"x": {1: rows, 2: columns}, "w": {1: columns}}
    inputs = (torch.randn(5, 20, 32), torch.randn(5, 32))
    program = opsplice.torch.export(Products(), inputs, dynamic=sizes, specs=SPEC)
    assert not program.report.replacements, program.report


class OtherWindows(torch.nn.Module):
    """Of rows, transposed, and of volumes; and of products of whole rows, which are no convolutions."""

    def forward(self, x, v, rows, turned, volumes, whole):
        ops = torch.nn.functional
        y = ops.conv1d(x, rows, padding=9, dilation=3)
        return (
            y,
            ops.conv_transpose1d(y, turned, stride=4, padding=2),
            ops.conv3d(v, volumes, padding=1),
            torch.einsum("ncw,ocw->no", x, whole),
        )


@pytest.mark.parametrize("sizes", [{}, {0: torch.export.Dim.AUTO, 2: torch.export.Dim.AUTO}], ids=["known", "open"])
def test_filters_that_are_inputs_of_other_windows(sizes):
    """As of audio in `torch.compile`. IREE's code took twelve times as long, and fifty times transposed."""
    torch.manual_seed(0)
    layer, random = OtherWindows().eval(), torch.randn
    given = (random(2, 8, 50), random(1, 4, 5, 7, 6), random(16, 8, 7), random(16, 8, 8), random(8, 4, 3, 3, 3))
    given = (*given, random(6, 8, 50))
    dims = {"x": sizes, "v": {}, "whole": {2: sizes[2]}} if sizes else None
    program = opsplice.torch.export(layer, given, dynamic=dims, specs=SPEC)
    found = [each.kernel for each in program.report.replacements if not each.lost]
    assert found == ["convolution_packed"] * 3, program.report
    with torch.no_grad():
        wanted = layer(*(each.double() for each in given))
    for one, other in zip(program.run("main", *(each.numpy() for each in given)), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(one), other.numpy(), rtol=1e-5, atol=5e-5)
