"""Convolutions in groups and each channel alone, channels second or last, with numbers of PyTorch and of IREE."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from tests.plain import Plain
from tests.rewrites.conftest import write_spec

LAYERS = Path(__file__).parents[2] / "matchers" / "library"

GROUPS_C = """
#include <stddef.h>
void groups(const float *x, const float *filter, const float *bias, size_t sh, size_t sw, size_t dh, size_t dw,
            float *out, size_t n, size_t g, size_t c, size_t h, size_t w, size_t f, size_t kh, size_t kw, size_t y,
            size_t z, size_t xn, size_t xg, size_t xc, size_t xh, size_t xw, size_t fg, size_t ff, size_t fc,
            size_t fh, size_t fw, size_t on, size_t og, size_t of, size_t oy, size_t oz, size_t image, size_t group) {
  for (size_t q = 0; q < f; ++q)
    for (size_t row = 0; row < y; ++row)
      for (size_t column = 0; column < z; ++column) {
        double sum = bias ? bias[group * f + q] : 0;
        for (size_t l = 0; l < c; ++l)
          for (size_t i = 0; i < kh; ++i)
            for (size_t j = 0; j < kw; ++j)
              sum += (double)filter[group * fg + q * ff + l * fc + i * fh + j * fw] *
                     x[image * xn + group * xg + l * xc + (row * sh + i * dh) * xh + (column * sw + j * dw) * xw];
        out[image * on + group * og + q * of + row * oy + column * oz] = (float)sum;
      }
}
"""
SPEC = """
import "opsplice:nn"
kernel groups(
  x: f32[n, g, c, h, w] strided,
  filter: f32[g, f, c, kh, kw] strided,
  bias: f32[g, f] optional,
  sh: index,
  sw: index,
  dh: index,
  dw: index,
) -> f32[n, g, f, y, z] strided {
  grid (n, g)
  cpu "groups.c"
}
replace grouped_conv2d with groups(x, filter, bias, sh, sw, dh, dw)
"""


def test_one_rule_for_groups_with_a_bias_and_without(tmp_path: Path):
    """A bias for all features is read in groups by its address, and an image in windows beside it, not by its own."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed (make frontends)")
    opsplice_torch = pytest.importorskip("opsplice.torch")

    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.biased = torch.nn.Conv2d(6, 9, 3, groups=3)
            self.plain = torch.nn.Conv2d(6, 9, 3, groups=3, stride=2, bias=False)
            self.whole = torch.nn.Conv2d(6, 9, 3)

        def forward(self, x):
            last = self.biased(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
            return self.biased(x), self.plain(x), last, self.whole(x)

    (tmp_path / "groups.c").write_text(GROUPS_C)
    (tmp_path / "groups.splice").write_text(SPEC)
    torch.manual_seed(0)
    model, x = Convolutions().eval(), torch.randn(2, 6, 8, 6)
    program = opsplice_torch.export(model, (x,), specs=[tmp_path / "groups.splice"])
    assert [each.dims["g"] for each in program.report.replacements] == [3, 3, 3], str(program.report)
    for found, exact in zip(program.run("main", x.numpy()), model(x), strict=True):
        np.testing.assert_allclose(np.asarray(found), exact.detach().numpy(), rtol=1e-5, atol=2e-6)


# Of any rank, in groups, each channel alone or with several filters, by numpy.
ANY_SPEC = """
import "opsplice:strided"
kernel any(
  x: f32[n, g, c, d, h, w] strided, filter: f32[g, f, c, kd, kh, kw] strided, bias: f32[g, f] strided optional,
  sd: i32, sh: i32, sw: i32, dd: i32, dh: i32, dw: i32,
) -> f32[n, g, f, v, y, z] strided { cpu "host.py" as command }
replace any_convolution with any(x, filter, bias, sd, sh, sw, dd, dh, dw)
"""
ANY_CODE = """
import numpy as np
from numpy.lib.stride_tricks import as_strided

def any(x, f, b, sd, sh, sw, dd, dh, dw, out):
  places = [stride * step for stride, step in zip(x.strides[3:] * 2, (sd, sh, sw, dd, dh, dw))]
  seen = as_strided(x, (*x.shape[:3], *out.shape[3:], *f.shape[3:]), (*x.strides[:3], *places))
  out[...] = np.einsum("ngcvyzkij,gfckij->ngfvyz", seen, f) + (0 if b is None else b[..., None, None, None])
"""
# What one rule finds for layers of JAX.
LAYERS_OF_JAX = {
    "alone_nwc": {"g": 8, "c": 1, "f": 1, "d": 1, "h": 1, "kw": 3},
    "alone_ncw_bias": {"g": 8, "c": 1, "f": 1, "d": 1, "h": 1, "kw": 3, "sw": 2},
    "alone_ndhwc": {"g": 8, "c": 1, "f": 1, "kd": 3, "kh": 2, "kw": 3},
    "grouped_nwc": {"g": 2, "c": 4, "f": 3, "d": 1, "h": 1, "kw": 3},
    "grouped_ncw_bias": {"g": 2, "c": 4, "f": 3, "d": 1, "h": 1, "kw": 3},
    "several_each_nwc": {"g": 4, "c": 1, "f": 2, "d": 1, "h": 1, "kw": 3},
    "several_each_nhwc_bias": {"g": 4, "c": 1, "f": 2, "d": 1, "kh": 3, "kw": 2},
    "several_each_nchw": {"g": 4, "c": 1, "f": 2, "d": 1, "sh": 2, "sw": 2},
    "several_each_ndhwc": {"g": 4, "c": 1, "f": 2, "kd": 2, "kh": 3, "kw": 2},
    "grouped_ndhwc": {"g": 2, "c": 2, "f": 3, "kd": 2, "kh": 3, "kw": 2},
    "grouped_ncdhw_bias": {"g": 2, "c": 2, "f": 3, "kd": 2, "kh": 3, "kw": 2},
    "without_columns_nhwc": {"n": 2, "g": 1, "c": 4, "f": 8, "d": 1, "kh": 3, "kw": 1},  # no groups of columns
    "without_a_batch": {"n": 1, "g": 1, "c": 4, "f": 8, "d": 1, "kh": 3, "kw": 2},
}
NO_WINDOWS = {"conv1d_ncw_fcw_bias_pointwise"}  # it may be a product of matrices without any dim for windows


def test_one_rule_for_convolutions_of_any_rank_in_any_groups(tmp_path):
    found = _by_any_convolution(tmp_path, Path(__file__).with_name("convolutions_jax.mlir"))
    assert found.keys() == LAYERS_OF_JAX.keys()
    for function, dims in LAYERS_OF_JAX.items():
        assert dims.items() <= found[function].items(), function


def test_kernels_that_take_dense_buffers_take_what_has_fewer_dims_in_their_order(tmp_path):
    """With channels second. Where they come last, the near miss says so."""
    dense = ANY_SPEC.replace(" strided", "")
    _by_any_convolution(tmp_path, LAYERS / "conv_nchw.mlir", dense)
    spec = write_spec(tmp_path, dense, {"host.py": ANY_CODE})
    last = LAYERS.joinpath("conv.mlir").read_text().split("func.func ")
    (text,) = (f"func.func {each}" for each in last if "@conv2d_nhwc_hwcf_1(" in each)
    (missed,) = opsplice.match(text, [spec]).unmatched
    assert [(each.wanted, each.found) for each in missed.nearest] == [
        ("the dims of the result as n g f ? ? ?", "n g ? ? ? f")
    ]


@pytest.mark.parametrize("file", ["conv", "conv_grouped", "conv_nchw", "conv_to_nchw"])
def test_all_convolutions_of_the_library_are_of_that_rule(tmp_path, file):
    found = _by_any_convolution(tmp_path, LAYERS / f"{file}.mlir")
    for function, dims in found.items():
        assert (dims["g"] > 1) == function.startswith(("grouped", "depthwise")), function
        assert (dims["d"] > 1) == function.startswith("conv3d"), function


def _by_any_convolution(folder, model, spec=ANY_SPEC):
    """The dims of the one convolution in each function that has windows, once its numbers were compared."""
    program, plain = opsplice.compile(model, [write_spec(folder, spec, {"host.py": ANY_CODE})]), Plain(model)
    text = re.split(r"func\.func (?:public )?@", model.read_text())[1:]
    shapes = {each.split("(")[0]: re.findall(r"%\w+: tensor<([\dx]+)xf32>", each.split("->")[0]) for each in text}
    assert sorted(each.function for each in program.report.replacements) == sorted(shapes.keys() - NO_WINDOWS)
    random = np.random.default_rng(5)
    for function, each in shapes.items():
        given = [random.standard_normal(tuple(map(int, shape.split("x")))).astype(np.float32) for shape in each]
        np.testing.assert_allclose(program.run(function, *given), plain.run(function, *given), rtol=1e-4, atol=1e-5)
    return {each.function: each.dims for each in program.report.replacements}
