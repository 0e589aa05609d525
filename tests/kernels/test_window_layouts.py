"""Convolutions of JAX, whose channels come last, with `opsplice_kernels` against numbers in f64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opsplice

jax = pytest.importorskip("jax", reason="JAX is not installed (make frontends)")

LAST = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC"), 3: ("NDHWC", "DHWIO", "NDHWC")}
FIRST = ("NCHW", "OIHW", "NCHW")
# The image, the filter, and what else there is.
LAYERS: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((1, 9, 14, 32), (3, 3, 32, 40), {"after": "relu"}),
    ((2, 9, 14, 32), (3, 3, 32, 40), {"padding": "VALID"}),
    ((1, 15, 15, 32), (3, 3, 32, 33), {"window_strides": 2}),
    ((2, 9, 14, 24), (3, 2, 24, 40), {"rhs_dilation": 2}),
    ((1, 8, 8, 64), (1, 1, 64, 40), {"window_strides": 2}),
    ((1, 8, 8, 24), (4, 4, 24, 40), {"lhs_dilation": 2, "padding": [(2, 2), (2, 2)]}),
    ((1, 16, 16, 24), (8, 8, 24, 40), {"window_strides": 8, "padding": "VALID"}),
    ((2, 24, 9, 14), (40, 24, 3, 3), {"dimension_numbers": FIRST, "after": "relu"}),
    ((1, 24, 9, 14), (40, 24, 3, 3), {"dimension_numbers": FIRST}),
    ((1, 9, 14, 24), (3, 3, 24, 40), {"dimension_numbers": ("NHWC", "HWIO", "NCHW")}),
    ((1, 9, 14, 32), (3, 3, 8, 40), {"feature_group_count": 4, "after": "relu"}),
    ((2, 9, 14, 32), (3, 3, 4, 32), {"feature_group_count": 8}),
    ((1, 50, 24), (5, 24, 40), {"after": "gelu"}),
    ((2, 51, 24), (4, 24, 40), {"window_strides": 2}),
    ((1, 5, 6, 9, 16), (3, 3, 3, 16, 40), {"after": "silu"}),
    ((2, 5, 6, 9, 16), (3, 1, 3, 16, 8), {"window_strides": 2}),
    ((1, 16, 16, 3), (3, 3, 3, 8), {"window_strides": 2}),  # so few products stay with the compiler
]
KERNELS = {"convolution_packed": 10, "convolution_groups": 2, "convolution_row": 2, "convolution_volume": 2}


def layer(f: np.ndarray, bias: np.ndarray, options: dict[str, Any]) -> Callable[[Any], Any]:
    dims, options = f.ndim - 2, dict(options)
    after = getattr(jax.nn, options.pop("after", "identity"))
    for name in ("window_strides", "rhs_dilation", "lhs_dilation"):
        if name in options:
            options[name] = (options[name],) * dims
    given = {"window_strides": (1,) * dims, "padding": "SAME", "dimension_numbers": LAST[dims]} | options
    place = given["dimension_numbers"][2].index("C")

    def run(x: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, f.astype(x.dtype), **given)
        return after(y + bias.astype(x.dtype).reshape([-1 if axis == place else 1 for axis in range(y.ndim)]))

    return run


def test_channels_last_and_first():
    random = np.random.default_rng(0)
    images, layers = [], []
    for x, f, options in LAYERS:
        made = random.standard_normal(f).astype(np.float32)
        features = f[0] if options.get("dimension_numbers") == FIRST else f[-1]
        layers.append(layer(made, random.standard_normal(features).astype(np.float32), options))
        images.append(random.standard_normal(x).astype(np.float32))

    def all_layers(*given: Any) -> list[Any]:
        return [run(x) for run, x in zip(layers, given, strict=True)]

    program = opsplice.compile(jax.export.export(jax.jit(all_layers))(*images), ["opsplice_kernels:convolution"])
    kernels = Counter(each.kernel for each in program.report.replacements if not each.lost)
    assert kernels == KERNELS, str(program.report)
    with jax.enable_x64(True):
        exact = all_layers(*(x.astype(np.float64) for x in images))
    for number, (found, wanted) in enumerate(zip(program.run("main", *images), exact, strict=True)):
        wanted = np.asarray(wanted)
        assert np.abs(np.asarray(found) - wanted).max() < 3e-6 * np.abs(wanted).max(), LAYERS[number]


OPEN = """
func.func @f(%x: tensor<?x8x9x24xf32>) -> tensor<?x6x7x40xf32> {
  %k = arith.constant dense<FILTER> : tensor<3x3x24x40xf32>
  %axis = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %x, %axis : tensor<?x8x9x24xf32>
  %e = tensor.empty(%n) : tensor<?x6x7x40xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6x7x40xf32>) -> tensor<?x6x7x40xf32>
  %r = linalg.conv_2d_nhwc_hwcf {strides = dense<1> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
    ins(%x, %k : tensor<?x8x9x24xf32>, tensor<3x3x24x40xf32>) outs(%z : tensor<?x6x7x40xf32>) -> tensor<?x6x7x40xf32>
  return %r : tensor<?x6x7x40xf32>
}
"""


def test_an_open_batch():
    random = np.random.default_rng(1)
    k = random.integers(-4, 5, (3, 3, 24, 40)).astype(np.float32)
    program = opsplice.compile(OPEN.replace("FILTER", str(k.tolist())), ["opsplice_kernels:convolution"])
    assert [each.kernel for each in program.report.replacements] == ["convolution_packed"], str(program.report)
    for n in (1, 3):
        x = random.standard_normal((n, 8, 9, 24)).astype(np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (3, 3), (1, 2))
        wanted = np.einsum("nyzcij,ijco->nyzo", windows, k)
        assert np.abs(np.asarray(program.run("f", x)) - wanted).max() < 3e-6 * np.abs(wanted).max()
