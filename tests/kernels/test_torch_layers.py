"""Layers as PyTorch's users write them, with `--spec=opsplice_kernels`, against PyTorch."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from torch.ao.quantization.fx import _decomposed  # noqa: F401, declares ops

import opsplice.torch
from benchmarks.calling import CPU
from opsplice.torch.decompositions.linear_algebra import products

KERNELS = Path(__file__).parents[2] / "kernels" / "opsplice_kernels"
ops = torch.ops.quantized_decomposed


class Gptq(torch.nn.Module):
    """Eight numbers in each word of the weight and of its zero points, taken out by shifts."""

    def __init__(self, k: int, n: int, block: int) -> None:
        super().__init__()
        self.sizes = k, n, block
        for name, shape in (("words", (k // 8, n)), ("zeros", (k // block, n // 8))):
            self.register_buffer(name, torch.randint(-(2**31), 2**31 - 1, shape, dtype=torch.int32))
        self.register_buffer("scales", torch.rand(k // block, n))
        self.register_buffer("shifts", torch.arange(0, 32, 4, dtype=torch.int32)[None])

    def forward(self, x):
        k, n, block = self.sizes
        zeros = self.zeros[:, :, None].expand(-1, -1, 8) >> self.shifts[:, None, :]
        zeros = (zeros.to(torch.int8) & 15) + 1
        numbers = self.words[:, None].expand(-1, 8, -1) >> self.shifts[:, :, None]
        numbers = (numbers.to(torch.int8) & 15).reshape(k // block, block, n)
        weight = self.scales[:, None] * (numbers - zeros.reshape(k // block, 1, n))
        return x @ weight.reshape(k, n)


def test_weights_of_four_bits_in_words():
    torch.manual_seed(0)
    layer, x = Gptq(96, 40, 32).eval(), torch.randn(1, 3, 96)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "weight_only.splice"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements] == ["nibble_linear"], program.report
    with torch.no_grad():
        wanted = layer(x).numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), wanted, rtol=1e-4, atol=1e-4)


class Norms(torch.nn.Module):
    """Norms of several dims, and of images without a gain."""

    def __init__(self) -> None:
        super().__init__()
        nn = torch.nn
        self.norms = nn.ModuleList([nn.LayerNorm((6, 5, 40)), nn.LayerNorm((5, 40), bias=False), nn.InstanceNorm2d(6)])
        self.norms.append(nn.LayerNorm((6, 5, 40), elementwise_affine=False))
        for each in self.parameters():
            nn.init.normal_(each)

    def forward(self, x):
        apart = x - x.mean((1, 2), keepdim=True)  # along dims whose numbers do not lie side by side
        other = apart * torch.rsqrt(apart.pow(2).mean((1, 2), keepdim=True) + 1e-5)
        return *(norm(x) for norm in self.norms), other, torch.nn.functional.rms_norm(x.exp(), (40,))


def test_norms_of_several_dims():
    torch.manual_seed(0)
    layer, x = Norms().eval(), torch.randn(2, 6, 5, 40) + 1
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "rows.splice"], flags=[CPU])
    kernels = [each.kernel for each in program.report.replacements]
    assert (kernels.count("norm_row"), kernels.count("rmsnorm_rows")) == (4, 1), program.report
    for made, wanted in zip(program.run("main", x.numpy()), layer(x), strict=True):
        np.testing.assert_allclose(np.asarray(made), wanted.detach().numpy(), rtol=1e-5, atol=1e-5)


class Gated(torch.nn.Module):
    """A block of halves, between f32: with a bias, a gate, an odd width, and what is added."""

    def __init__(self, kind: torch.dtype) -> None:
        super().__init__()
        self.kind = kind
        self.gate, self.up = torch.nn.Linear(48, 71, dtype=kind), torch.nn.Linear(48, 71, bias=False, dtype=kind)
        self.down = torch.nn.Linear(71, 48, dtype=kind)

    def forward(self, x):
        x = x.to(self.kind)
        return (x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))).float()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 5])
def test_layers_of_halves(kind, rows):
    torch.manual_seed(0)
    layer, x = Gated(kind).eval(), torch.randn(rows, 48)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "linear.splice"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == ["half_linear_packed"] * 3
    layer.kind = torch.float32
    with torch.no_grad():
        wanted = layer.float()(x).numpy()
    last = torch.finfo(kind).eps
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), wanted, rtol=2 * last, atol=2 * last)


class Experts(torch.nn.Module):
    """Rows in the order of their experts, as transformers have them; one expert has none."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = (torch.nn.Parameter(torch.randn(4, *shape) / 8) for shape in ((72, 48), (48, 72)))

    def forward(self, x, ends):
        x = torch.nn.functional.silu(products.grouped_product(x, self.up.transpose(1, 2), ends))
        return products.grouped_product(x, self.down.transpose(1, 2), ends)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "rows"}}])
def test_experts(dynamic):
    torch.manual_seed(0)
    layer, x, ends = Experts().eval(), torch.randn(20, 48), torch.tensor([3, 4, 4, 20], dtype=torch.int32)
    program = opsplice.torch.export(layer, (x, ends), dynamic=dynamic, specs=[KERNELS / "linear.splice"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == ["grouped_packed"] * 2
    with torch.no_grad():
        parts = zip(x.tensor_split(ends[:-1].long()), layer.up, layer.down, strict=True)
        wanted = torch.cat([torch.nn.functional.silu(rows @ up.T) @ down.T for rows, up, down in parts])
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy(), ends.numpy())), wanted, rtol=1e-4, atol=1e-5)


class Ordered(torch.nn.Module):
    """Sorts of both directions and first elements, with equal ones among them."""

    def forward(self, x):
        down, up = torch.sort(x, dim=-1, descending=True, stable=True), torch.argsort(x * 2, dim=-1, stable=True)
        first, last = torch.topk(x + 1, 3), torch.topk(x - 1, 5, largest=False)
        alone = torch.topk(-x, 4, largest=False).values, torch.sort(x * 3, dim=-1, descending=True).values
        return *down, up, first.values, first.indices, last.values, last.indices, *alone


def test_sorts_and_first_elements():
    torch.manual_seed(0)
    x = torch.randint(-9, 9, (6, 40)).float()
    x[2] += torch.randn(40)
    program = opsplice.torch.export(Ordered().eval(), (x,), specs=[KERNELS / "sorting.splice"], flags=[CPU])
    used = sorted(each.pattern for each in program.report.replacements if not each.lost)
    assert used == ["ascending", "descending", "first_value", "first_value", "largest", "smallest"], program.report
    results = [np.asarray(each) for each in program.run("main", x.numpy())]
    down, places, up, first, at, last, last_at, some, everything = results
    wanted = torch.sort(x, dim=-1, descending=True, stable=True)
    np.testing.assert_array_equal(down, wanted.values)
    np.testing.assert_array_equal(places, wanted.indices)
    np.testing.assert_array_equal(up, torch.argsort(x, dim=-1, stable=True))
    np.testing.assert_array_equal(first, torch.topk(x + 1, 3).values)
    np.testing.assert_array_equal(at, wanted.indices[:, :3])  # PyTorch promises no order of equal elements here
    np.testing.assert_array_equal(last, torch.topk(x - 1, 5, largest=False).values)
    np.testing.assert_array_equal(last_at, up[:, :5])
    np.testing.assert_array_equal(some, torch.topk(-x, 4, largest=False).values)
    np.testing.assert_array_equal(everything, wanted.values * 3)


class Batched(torch.nn.Module):
    """First elements of rows in batches: values alone, places alone, and both."""

    def forward(self, x):
        both = torch.topk(x + 1, 3)
        return torch.topk(x, 2).values, torch.topk(-x, 5, largest=False).indices, both.values, both.indices


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}])
def test_first_elements_in_batches(dynamic):
    torch.manual_seed(0)
    layer, x = Batched().eval(), torch.randn(3, 4, 40)
    specs = [KERNELS / "sorting.splice"]
    program = opsplice.torch.export(layer, (x,), dynamic=dynamic, specs=specs, flags=[CPU])
    used = sorted(each.pattern for each in program.report.replacements if not each.lost)
    assert used == ["first_place", "first_value", "largest"], program.report
    for found, wanted in zip(program.run("main", x.numpy()), layer(x), strict=True):
        np.testing.assert_array_equal(np.asarray(found), wanted)


def quantized(x: torch.Tensor, least: int, kind: torch.dtype) -> torch.Tensor:
    """The numbers that bytes stand for, whose scale is found when the program runs: PT2E's dynamic quantisation."""
    ends = least, least + 255
    found = ops.choose_qparams.tensor(x, *ends, 2**-12, kind)
    return ops.dequantize_per_tensor.tensor(ops.quantize_per_tensor.tensor(x, *found, *ends, kind), *found, *ends, kind)


class Dynamic(torch.nn.Module):
    """Two layers with weights of bytes and a scale for each column."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in (("up", (72, 48)), ("down", (33, 72))):
            self.register_buffer(name, torch.randint(-128, 128, shape, dtype=torch.int8))
            self.register_buffer(f"{name}_scales", torch.rand(shape[0]) * 0.01)
            self.register_buffer(f"{name}_zeros", torch.zeros(shape[0], dtype=torch.int64))
        self.bias = torch.nn.Parameter(torch.randn(72))

    def forward(self, x):
        up, down = (
            ops.dequantize_per_channel(
                getattr(self, name),
                *(getattr(self, f"{name}_scales"), getattr(self, f"{name}_zeros")),
                *(0, -128, 127, torch.int8),
            )
            for name in ("up", "down")
        )
        y = torch.relu(torch.nn.functional.linear(quantized(x, 0, torch.uint8), up, self.bias))
        return torch.nn.functional.linear(quantized(y, -128, torch.int8), down)


def test_scales_that_are_found_when_the_program_runs():
    torch.manual_seed(0)
    layer, x = Dynamic().eval(), torch.randn(5, 48)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "quantised.splice"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements if not each.lost] == ["byte_linear"] * 2
    with torch.no_grad():
        wanted = layer(x).numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), wanted, rtol=1e-5, atol=1e-5)


class Bytes(torch.nn.Module):
    """Weights of bytes: in blocks with zero points, and with a scale for a column of the weights or of the sums."""

    def __init__(self) -> None:
        super().__init__()
        for name, shape in (("blocks", (40, 3, 32)), ("zeros", (40, 3, 1)), ("first", (72, 40)), ("last", (24, 72))):
            self.register_buffer(name, torch.randint(-128, 128, shape, dtype=torch.int8))
        for name, shape in (("block_scales", (40, 3, 1)), ("first_scales", 72), ("last_scales", 24), ("bias", 40)):
            self.register_buffer(name, torch.rand(shape) * 0.01)

    def forward(self, x):
        blocks = (self.blocks.float() - self.zeros.float()) * self.block_scales
        x = torch.relu(torch.nn.functional.linear(x, blocks.reshape(40, 96), self.bias))
        x = torch.relu(torch.mm(x, self.first.t().to(x.dtype)) * self.first_scales)
        return x @ (self.last.float() * self.last_scales[:, None]).t()


@pytest.mark.parametrize("rows", [1, 5])
def test_weights_of_bytes(rows):
    """As torchao writes them: integers of four bits are bytes, too."""
    torch.manual_seed(0)
    layer, x = Bytes().eval(), torch.randn(rows, 96)
    program = opsplice.torch.export(layer, (x,), specs=["opsplice_kernels"], flags=[CPU])
    used = [each.kernel for each in program.report.replacements if not each.lost]
    assert used == ["byte_blocks", "byte_columns", "byte_columns"], program.report
    with torch.no_grad():
        wanted = layer.double()(x.double()).numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), wanted, rtol=1e-5, atol=1e-4)


class Static(torch.nn.Module):
    """A convolution and a layer with scales that are known, and relu behind them: as PT2E writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("f", torch.randint(-128, 128, (24, 6, 3, 3), dtype=torch.int8))
        self.register_buffer("w", torch.randint(-128, 128, (136, 24), dtype=torch.int8))
        for name, size in (("f_scales", 24), ("w_scales", 136), ("bias", 24)):
            self.register_buffer(name, torch.rand(size) * 0.01)
        self.register_buffer("f_zeros", torch.zeros(24, dtype=torch.int64))
        self.register_buffer("w_zeros", torch.zeros(136, dtype=torch.int64))

    def forward(self, x):
        signed, unsigned = (-128, 127, torch.int8), (0, 255, torch.uint8)
        x = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, 2**-5, 7, *signed), 2**-5, 7, *signed)
        f = ops.dequantize_per_channel(self.f, self.f_scales, self.f_zeros, 0, *signed)
        y = torch.relu(torch.nn.functional.conv2d(x, f, self.bias, stride=2, padding=1))
        w = ops.dequantize_per_channel(self.w, self.w_scales, self.w_zeros, 0, *signed)
        return ops.quantize_per_tensor(y, 2**-4, 3, *unsigned), torch.relu(torch.nn.functional.linear(x, w))


def test_relu_behind_bytes():
    torch.manual_seed(0)
    layer, x = Static().eval(), torch.randn(2, 6, 9, 24)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "quantised.splice"], flags=[CPU])
    found = {each.kernel: each.pattern for each in program.report.replacements if not each.lost}
    wanted_rules = {"byte_convolution": "byte_filtered", "byte_linear": "byte_linear"}
    assert found == wanted_rules | {"quantise_linear": "requantised"}, program.report
    whole, numbers = (np.asarray(each) for each in program.run("main", x.numpy()))
    with torch.no_grad():
        wanted = [each.numpy() for each in layer(x)]
    off = np.abs(whole.astype(int) - wanted[0])  # a sum half way between two bytes may be rounded the other way
    assert (off.max() <= 1, (off > 0).mean() < 0.01) == (True, True)
    np.testing.assert_allclose(numbers, wanted[1], rtol=1e-5, atol=1e-5)


def test_weights_that_bytes_stand_for_are_weights():
    """Zero points that are not 0 are for no kernel of bytes, so the weights become f32: once, not in each call."""
    torch.manual_seed(0)
    layer, x = Static().eval(), torch.randn(2, 6, 9, 24)
    layer.w_zeros += 5
    program = opsplice.torch.export(layer, (x,), specs=["opsplice_kernels"], flags=[CPU])
    assert "linear_packed" in [each.kernel for each in program.report.replacements if not each.lost], program.report
    with torch.no_grad():
        wanted = layer(x)[1].numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())[1]), wanted, rtol=1e-4, atol=1e-4)


class Groups(torch.nn.Module):
    """Group norms as PyTorch has them, of rows, images, volumes and of channels that come last; instance norms."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.GroupNorm(groups, 12) for groups in (3, 1, 4)])
        self.norms.append(torch.nn.InstanceNorm2d(12, affine=True))
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter)

    def forward(self, x, y, row, volume):
        first, whole, last, instance = self.norms
        channels_last = last(y.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return torch.nn.functional.silu(first(x)), whole(x), channels_last, first(row), last(volume), instance(x)


def test_group_norms_with_gains_and_biases():
    """Channels are split into groups by a reshape of channels and places together."""
    torch.manual_seed(0)
    layer, shapes = Groups().eval(), ((2, 12, 6, 5), (2, 6, 5, 12), (2, 12, 7), (2, 12, 3, 2, 5))
    given = tuple(map(torch.randn, shapes))
    program = opsplice.torch.export(layer, given, specs=[KERNELS / "rows.splice"], flags=[CPU])
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(kernels) == ["activation_all"] + ["groupnorm_images"] * 6, str(program.report)
    with torch.no_grad():
        wanted = layer.double()(*(each.double() for each in given))
    for found, right in zip(program.run("main", *(each.numpy() for each in given)), wanted, strict=True):
        np.testing.assert_allclose(found, right.numpy(), rtol=1e-5, atol=1e-5)


class Frames(torch.nn.Module):
    """Frames of videos, each an image, as volumes for a group norm, and images again: as in AnimateDiff."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, 12)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter)

    def forward(self, x):
        volume = x.reshape(-1, 3, *x.shape[1:]).permute(0, 2, 1, 3, 4)
        return self.norm(volume), self.norm(volume).permute(0, 2, 1, 3, 4).reshape(x.shape)


@pytest.mark.parametrize("dynamic", [False, True], ids=["of one size", "of an open batch"])
def test_group_norms_of_volumes_that_are_made_of_images(dynamic):
    torch.manual_seed(0)
    layer, sizes = Frames().eval(), {"x": {0: 3 * torch.export.Dim("videos", max=64)}} if dynamic else None
    specs = [KERNELS / "rows.splice"]
    program = opsplice.torch.export(layer, (torch.randn(6, 12, 4, 5),), dynamic=sizes, specs=specs, flags=[CPU])
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert kernels in (["groupnorm_images"], ["groupnorm_images"] * 2), program.report
    x = torch.randn(9 if dynamic else 6, 12, 4, 5)
    with torch.no_grad():
        wanted = layer.double()(x.double())
    for found, right in zip(program.run("main", x.numpy()), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found), right.numpy(), rtol=1e-5, atol=1e-5)


class OpenImages(torch.nn.Module):
    """Norms of images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.group, self.instance = torch.nn.GroupNorm(3, 12), torch.nn.InstanceNorm2d(12, affine=True)
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter)

    def forward(self, x):
        return self.group(x), self.instance(x)


def test_norms_of_images_whose_size_is_known_at_run_time_only():
    """C is split into groups where rows and columns, which are open, are put together with what is left of it."""
    torch.manual_seed(0)
    layer, sizes = OpenImages().eval(), {"x": {2: "rows", 3: "columns"}}
    given = (torch.randn(2, 12, 6, 5),)
    program = opsplice.torch.export(layer, given, dynamic=sizes, specs=[KERNELS / "rows.splice"], flags=[CPU])
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert sorted(kernels) == ["groupnorm_images"] * 2, str(program.report)
    for shape in ((2, 12, 6, 5), (2, 12, 31, 17)):
        x = torch.randn(shape)
        with torch.no_grad():
            wanted = layer(x)
        for found, right in zip(program.run("main", x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found), right.numpy(), rtol=1e-4, atol=1e-5)


class Pools(torch.nn.Module):
    """Pools whose windows are no squares, with rounded up sizes, and means that count padding or do not."""

    def forward(self, x):
        largest, mean = torch.nn.functional.max_pool2d, torch.nn.functional.avg_pool2d
        return (
            largest(x, (3, 2), (2, 1), (1, 1)),
            largest(x, (2, 3), 2, ceil_mode=True),
            largest(x, (3, 2), 2, (1, 0), ceil_mode=True),
            mean(x, (3, 2), (2, 1)),
            mean(x, (3, 2), 2, (1, 1), count_include_pad=True),
            mean(x, (2, 3), (1, 2), 1, count_include_pad=False),
            mean(x, (2, 3), 2, ceil_mode=True),
            mean(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
            mean(x, (3, 4), (2, 3), 1, ceil_mode=True, count_include_pad=True),
        )


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}], ids=["of one size", "of an open batch"])
def test_pools_of_all_kinds_of_windows(dynamic):
    torch.manual_seed(0)
    specs = [KERNELS / "convolution.splice"]
    program = opsplice.torch.export(Pools(), (torch.randn(2, 5, 11, 14),), dynamic=dynamic, specs=specs, flags=[CPU])
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert kernels == ["pooling"] * 9, program.report
    x = torch.randn(2 if dynamic is None else 3, 5, 11, 14)
    for found, wanted in zip(program.run("main", x.numpy()), Pools()(x.double()), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted.numpy(), rtol=1e-5, atol=1e-6)


class Images(torch.nn.Module):
    """The beginnings of a ResNet and of a MobileNet: pools behind strides, whose sizes are rounded quotients."""

    def __init__(self) -> None:
        super().__init__()
        layer, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        self.stem = torch.nn.Sequential(layer(3, 8, 7, 2, 3, bias=False), norm(8), torch.nn.ReLU())
        self.deep = torch.nn.Sequential(layer(8, 8, 3, 2, 1, groups=8, bias=False), norm(8), torch.nn.ReLU6())

    def forward(self, x):
        x = self.deep(torch.nn.functional.max_pool2d(self.stem(x), 3, 2, 1))
        return torch.nn.functional.avg_pool2d(x, 2).mean((2, 3)), torch.nn.functional.max_pool2d(x, (2, 7), 1)


def test_pools_of_images_of_any_size(tmp_path):
    """The kernel is for windows that are smaller than the image: the last one is, from the least sizes on."""
    torch.manual_seed(0)
    model, (h, w) = Images().eval(), (torch.export.Dim(name, min=64, max=512) for name in "hw")
    exported = torch.export.export(model, (torch.randn(2, 3, 70, 90),), dynamic_shapes={"x": {2: h, 3: w}})
    specs = [KERNELS / "convolution.splice"]
    program = opsplice.torch.export(exported, specs=specs, flags=[CPU])
    taken = [(str(each.pattern), each.kernel) for each in program.report.replacements if not each.lost]
    assert [pattern for pattern, kernel in taken if kernel == "pooling"] == ["pooled"] * 3, program.report
    for size in ((64, 64), (65, 79), (131, 500)):
        x = torch.randn(2, 3, *size)
        wanted = copy.deepcopy(model).double()(x.double())
        for found, exact in zip(program.run("main", x.numpy()), wanted, strict=True):
            np.testing.assert_allclose(np.asarray(found), exact.detach().numpy(), rtol=1e-4, atol=1e-5)
    with pytest.raises(opsplice.OpspliceError, match="the function takes 64 to 512"):
        program.run("main", torch.randn(2, 3, 63, 64).numpy())
    torch.export.save(exported, tmp_path / "images.pt2")
    outcomes = opsplice.match(tmp_path / "images.pt2", specs).replacements
    assert [str(each.pattern) for each in outcomes if each.kernel == "pooling"] == ["pooled"] * 3


class Directions(torch.nn.Module):
    """Attention that compares directions, with a factor for each head, as Swin v2's windows and XCiT have it."""

    def __init__(self) -> None:
        super().__init__()
        self.factors = torch.nn.Parameter(torch.randn(4, 1, 1))
        self.register_buffer("bias", torch.randn(4, 16, 16))
        self.register_buffer("mask", torch.where(torch.rand(3, 16, 16) > 0.4, 0.0, -100.0))

    def forward(self, x):
        normalize = torch.nn.functional.normalize
        query, key, value = x.view(6, 16, 3, 4, 8).permute(2, 0, 3, 1, 4)
        product = normalize(query, dim=-1) @ normalize(key, dim=-1).transpose(-2, -1)
        scores = product * self.factors.clamp(max=4.6).exp() + self.bias
        shifted = (scores.view(2, 3, 4, 16, 16) + self.mask[None, :, None]).view(6, 4, 16, 16)
        of_channels = normalize(query, dim=-2).transpose(-2, -1) @ normalize(key, dim=-2) * self.factors
        return shifted.softmax(-1) @ value, of_channels.softmax(-1) @ value.transpose(-2, -1)


def test_attention_with_a_factor_for_each_head():
    torch.manual_seed(0)
    layer, x = Directions().eval(), torch.randn(6, 16, 96)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "attention.splice"], flags=[CPU])
    assert [each.pattern for each in program.report.replacements] == ["any_attention"] * 2, program.report
    with torch.no_grad():
        wanted = layer(x)
    for found, each in zip(program.run("main", x.numpy()), wanted, strict=True):
        np.testing.assert_allclose(found, each.numpy(), rtol=1e-5, atol=1e-5)


class Sums(torch.nn.Module):
    """Scores that are sums: XLNet's, scaled before a mask is subtracted, Funnel's, and Swin v2's with a mask twice."""

    def forward(self, q, k, v, first, second, mask):
        product = q @ k.transpose(-2, -1)
        scores = (
            (product + first) * 0.3 - 1e30 * mask,
            (product + first + second) * 0.3 - 1e30 * mask,
            product + first + second - 1e6 * (1 - mask),
            (product + second) - mask,
            product * 0.3 + first + mask + mask,
        )
        return tuple(each.softmax(-1) @ v for each in scores)


def test_attention_whose_scores_are_sums():
    torch.manual_seed(0)
    x = [torch.randn(2, 3, size, 8) for size in (5, 9, 9)]
    x += [torch.randn(2, 3, 5, 9), torch.randn(3, 5, 9), (torch.rand(2, 1, 1, 9) > 0.5).float()]
    layer = Sums().eval()
    program = opsplice.torch.export(layer, tuple(x), specs=[KERNELS / "attention.splice"], flags=[CPU])
    found = [
        (each.pattern, each.dims.get("mask_as", 0), each.dims.get("bias_as", 0)) for each in program.report.replacements
    ]
    forms = ((2, 1), (2, 1), (0, 1), (0, 1), (0, 0))
    assert found == [("any_attention", *form) for form in forms], program.report
    for found, each in zip(program.run("main", *(each.numpy() for each in x)), layer(*x), strict=True):
        np.testing.assert_allclose(found, each.numpy(), rtol=1e-5, atol=1e-5)


class Words(torch.nn.Module):
    """Scores of words and entities, with queries for either, as in Luke; and means of a weight by a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.randn(70, 64))

    def forward(self, q, k, v, mask):
        words, entities = (k[:, :, part].transpose(-2, -1) for part in (slice(0, 60), slice(60, 70)))
        rows = [torch.cat((q[i] @ words, q[i + 2] @ entities), -1) for i in range(2)]
        weights = (torch.cat(rows, -2) / 3 + mask).softmax(-1)
        return weights @ v, weights @ self.places, weights[:, :, :, :60].softmax(-1) @ v[:, :, :60]


def test_attention_of_scores_that_are_put_together():
    """Values are no weight, else it is no attention, and there are many."""
    torch.manual_seed(0)
    q, k, v = torch.randn(4, 2, 3, 5, 8), torch.randn(2, 3, 70, 8), torch.randn(2, 3, 70, 64)
    x = (q, k, v, torch.where(torch.rand(2, 1, 1, 70) > 0.3, 0.0, -torch.inf))
    layer = Words().eval()
    program = opsplice.torch.export(layer, x, specs=[KERNELS / "attention.splice"], flags=[CPU])
    assert [each.kernel for each in program.report.replacements] == ["attention_of_scores"], program.report
    for found, each in zip(program.run("main", *(each.numpy() for each in x)), layer(*x), strict=True):
        np.testing.assert_allclose(found, each.numpy(), rtol=1e-5, atol=1e-5)


class Boxes(torch.nn.Module):
    """Where the edges of boxes are, as YOLO has it: the mean of 16 places, weighted by a softmax in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.places = torch.nn.Conv2d(16, 1, 1, bias=False)
        self.places.weight.data[:] = torch.arange(16.0).view(1, 16, 1, 1)

    def forward(self, x):
        return self.places(x.view(x.shape[0], 4, 16, -1).transpose(2, 1).softmax(1)).squeeze(1)


@pytest.mark.parametrize("dynamic", [None, {"x": {0: "batch"}}], ids=["of one size", "of an open batch"])
def test_softmax_along_a_dim_in_the_middle(dynamic):
    torch.manual_seed(0)
    layer = Boxes().eval()
    specs = ["opsplice_kernels"]
    program = opsplice.torch.export(layer, (torch.randn(2, 64, 84),), dynamic=dynamic, specs=specs, flags=[CPU])
    assert "softmax_columns" in {each.kernel for each in program.report.replacements}, str(program.report)
    x = torch.randn(2 if dynamic is None else 3, 64, 84)
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), layer(x).detach().numpy(), rtol=1e-5)


def convolutions_in_groups(nn):
    images = nn.Sequential(
        nn.Conv2d(6, 16, 3, groups=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU6(),
        nn.ConvTranspose2d(16, 24, 4, stride=2, padding=1, groups=4),
    )
    volumes = nn.Sequential(nn.Conv3d(4, 16, (2, 3, 3), groups=2, padding=1), nn.BatchNorm3d(16), nn.SiLU())
    rows = nn.Sequential(nn.Conv1d(12, 32, 5, stride=2, groups=4, padding=2), nn.BatchNorm1d(32), nn.GELU())
    return {"images": (images, (2, 6, 11, 13)), "volumes": (volumes, (1, 4, 5, 9, 8)), "rows": (rows, (2, 12, 601))}


@pytest.mark.parametrize("kind", ["images", "volumes", "rows"])
def test_convolutions_in_groups_with_batch_norms(kind):
    """One kernel for all of them: a batch norm is folded into each group's filter."""
    torch.manual_seed(0)
    layer, shape = convolutions_in_groups(torch.nn)[kind]
    for norm in (each for each in layer if hasattr(each, "running_var")):
        torch.nn.init.uniform_(norm.running_var, 0.5, 2)
        torch.nn.init.normal_(norm.running_mean)
        torch.nn.init.normal_(norm.weight)
    x = torch.randn(shape)
    program = opsplice.torch.export(layer.eval(), (x,), specs=[KERNELS / "convolution.splice"], flags=[CPU])
    found = [each.kernel for each in program.report.replacements if not each.lost]
    assert found == ["convolution_packed"] * (2 if kind == "images" else 1), program.report
    with torch.no_grad():
        wanted = layer.double()(x.double()).numpy()
    np.testing.assert_allclose(np.asarray(program.run("main", x.numpy())), wanted, rtol=1e-5, atol=2e-5)


def test_means_of_products_of_images_are_no_convolutions():
    """As behind a hard-swish. A filter as large as its image is one where it is a weight."""

    class Means(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = torch.nn.Conv2d(24, 24, 7, groups=24)

        def forward(self, x):
            return (x * torch.nn.functional.hardtanh(x + 3, 0, 6)).mean((2, 3), keepdim=True), self.whole(x)

    torch.manual_seed(0)
    layer, x = Means(), torch.randn(1, 24, 7, 7)
    program = opsplice.torch.export(layer, (x,), specs=[KERNELS / "convolution.splice"], flags=[CPU])
    (found,) = [each for each in program.report.replacements if not each.lost]
    assert found.kernel == "depthwise_rows"
    with torch.no_grad():
        for computed, wanted in zip(program.run("main", x.numpy()), layer.double()(x.double()), strict=True):
            np.testing.assert_allclose(np.asarray(computed), wanted.numpy(), rtol=1e-5, atol=1e-5)


def test_products_of_matrices_and_vectors_are_no_convolutions():
    """Of a batch, with weights and without. As a window, a row does not move, and takes up to four times as long."""

    class Products(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.vectors, self.heads = torch.nn.Parameter(torch.randn(5, 32)), torch.nn.Parameter(torch.randn(4, 16))

        def forward(self, x, w, y):
            by_rows, by_columns = torch.einsum("ghw,gw->gh", x, w), torch.einsum("ghw,gh->gw", x, x[:, :, 0])
            return by_rows, by_columns, torch.einsum("ghw,gw->gh", x, self.vectors), (y * self.heads).sum(-1)

    torch.manual_seed(0)
    layer, inputs = Products(), (torch.randn(5, 100, 32), torch.randn(5, 32), torch.randn(150, 4, 16))
    program = opsplice.torch.export(layer, inputs, specs=[KERNELS / "convolution.splice"], flags=[CPU])
    assert not program.report.replacements, program.report
    with torch.no_grad():
        exact = layer.double()(*(each.double() for each in inputs))
    for computed, wanted in zip(program.run("main", *(each.numpy() for each in inputs)), exact, strict=True):
        np.testing.assert_allclose(np.asarray(computed), wanted.numpy(), rtol=1e-5, atol=1e-5)
