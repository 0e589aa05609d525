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
    ((1, 3, 4, 5, 16), (4, 3, 2, 16, 40), {"lhs_dilation": 2, "padding": [(2, 3), (1, 1), (1, 0)], "after": "relu"}),
    ((1, 9, 14, 40), (3, 3, 1, 40), {"feature_group_count": 40, "after": "relu"}),
    ((2, 9, 14, 7), (5, 4, 1, 7), {"feature_group_count": 7, "window_strides": 2}),
    ((2, 9, 14, 130), (3, 3, 1, 130), {"feature_group_count": 130, "rhs_dilation": 2}),
    ((1, 9, 14, 40), (3, 3, 1, 40), {"feature_group_count": 40, "dimension_numbers": ("NHWC", "HWIO", "NCHW")}),
    ((2, 40, 9, 14), (40, 1, 3, 3), {"feature_group_count": 40, "dimension_numbers": FIRST}),
    ((2, 9, 14, 40), (40, 1, 3, 3), {"feature_group_count": 40, "dimension_numbers": ("NHWC", "OIHW", "NHWC")}),
    ((1, 16, 16, 3), (3, 3, 3, 8), {"window_strides": 2}),  # so few products stay with the compiler
]
KERNELS = {"convolution_packed": 17, "depthwise_rows": 6}


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
        features = f[options.get("dimension_numbers", LAST[len(f) - 2])[1].index("O")]
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


def pool(kind: str, x: Any, window: tuple[int, ...], steps: tuple[int, ...], padding: str) -> Any:
    start, join = (-np.inf, jax.lax.max) if kind == "largest" else (0.0, jax.lax.add)
    made = jax.lax.reduce_window(x, start, join, window, steps, padding)
    return made / np.prod(window) if kind == "mean" else made


def test_pools_with_channels_last():
    shapes = [
        ((2, 9, 14, 40), (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
        ((1, 8, 6, 7), (1, 2, 2, 1), (1, 2, 2, 1), "VALID"),
        ((1, 5, 6, 8, 70), (1, 2, 3, 2, 1), (1, 2, 1, 2, 1), "VALID"),
    ]
    given = [np.random.default_rng(4).standard_normal(x).astype(np.float32) for x, *_ in shapes]

    def pools(*values: Any) -> list[Any]:
        each = zip(values, shapes, strict=True)
        return [pool(kind, x, *how) for x, (_, *how) in each for kind in ("largest", "mean")]

    program = opsplice.compile(jax.export.export(jax.jit(pools))(*given), ["opsplice_kernels:convolution"])
    kernels = Counter(each.kernel for each in program.report.replacements if not each.lost)
    assert kernels == {"pooling": 6}, str(program.report)
    with jax.enable_x64(True):
        exact = pools(*(x.astype(np.float64) for x in given))
    for found, wanted in zip(program.run("main", *given), exact, strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=2e-6, atol=2e-6)


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


def test_how_many_places_a_window_has_is_computed_once():
    """As flax has it for means that leave zeros around an image out: the sums of windows of ones are no pools."""
    x = np.random.default_rng(0).standard_normal((2, 9, 14, 24)).astype(np.float32)

    def means(v: Any) -> Any:
        def total(each: Any) -> Any:
            return jax.lax.reduce_window(each, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")

        return total(v) / total(jax.numpy.ones_like(v, shape=(1, 9, 14, 1)))

    program = opsplice.compile(jax.export.export(jax.jit(means))(x), ["opsplice_kernels:convolution"])
    assert [each.kernel for each in program.report.replacements] == ["pooling"], str(program.report)
    np.testing.assert_allclose(np.asarray(program.run("main", x)), means(x), rtol=1e-5, atol=1e-6)


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


# Layers whose filter is an input, too, and whether a kernel takes them.
GIVEN: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], bool]] = [
    ((1, 9, 14, 32), (3, 3, 32, 40), {"after": "relu"}, True),
    ((2, 15, 15, 24), (3, 2, 24, 33), {"window_strides": 2}, True),
    ((1, 8, 8, 64), (1, 1, 64, 72), {"window_strides": 2}, True),
    ((1, 9, 14, 24), (40, 3, 1, 24), {"dimension_numbers": ("NHWC", "OHWI", "NHWC")}, True),
    ((2, 24, 9, 14), (40, 24, 3, 3), {"dimension_numbers": FIRST, "after": "relu"}, True),
    ((1, 5, 5, 32), (3, 3, 32, 40), {}, False),  # a small image, for which packing takes longer
]


def test_filters_that_are_inputs():
    """Packed in each call, as they lie in memory."""
    random = np.random.default_rng(2)
    given: list[np.ndarray] = []
    for x, f, *_ in GIVEN:
        given += [random.standard_normal(shape).astype(np.float32) for shape in (x, f)]

    def all_layers(*values: Any) -> list[Any]:
        made = []
        for (_, f, options, _), x, k in zip(GIVEN, values[::2], values[1::2], strict=True):
            features = f[options.get("dimension_numbers", LAST[2])[1].index("O")]
            made.append(layer(k, np.linspace(-1, 1, features, dtype=np.float32), options)(x))
        return made

    program = opsplice.compile(jax.export.export(jax.jit(all_layers))(*given), ["opsplice_kernels:convolution"])
    kernels = [each.kernel for each in program.report.replacements if not each.lost]
    assert kernels == ["convolution_packed"] * sum(taken for *_, taken in GIVEN), str(program.report)
    with jax.enable_x64(True):
        exact = all_layers(*(jax.numpy.asarray(value, "float64") for value in given))
    for number, (found, wanted) in enumerate(zip(program.run("main", *given), exact, strict=True)):
        wanted = np.asarray(wanted)
        assert np.abs(np.asarray(found) - wanted).max() < 3e-6 * np.abs(wanted).max(), GIVEN[number]


def test_a_flax_model_with_its_parameters_as_arguments():
    """Its batch norms scale the filters, which are packed in each call."""
    nn = pytest.importorskip("flax.linen", reason="flax is not installed (make frontends)")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for features, stride in ((24, 1), (40, 2)):
                x = nn.Conv(features, (3, 3), strides=stride, use_bias=False)(x)
                x = nn.relu(nn.BatchNorm(use_running_average=True)(x))
            return nn.Conv(33, (3, 3), strides=2)(x)

    random = np.random.default_rng(3)
    net, x = Net(), random.standard_normal((2, 16, 16, 24)).astype(np.float32)
    kinds = jax.eval_shape(net.init, jax.random.key(0), x)
    leaves, tree = jax.tree.flatten(
        jax.tree.map(lambda kind: random.uniform(0.1, 1, kind.shape).astype(np.float32), kinds)
    )

    def run(x: Any, *leaves: Any) -> Any:
        return net.apply(jax.tree.unflatten(tree, leaves), x)

    program = opsplice.compile(jax.export.export(jax.jit(run))(x, *leaves), ["opsplice_kernels:convolution"])
    made = [(each.kernel, each.dims.get("activation")) for each in program.report.replacements if not each.lost]
    assert made == [("convolution_packed", which) for which in (1, 1, None)], str(program.report)
    with jax.enable_x64(True):
        exact = np.asarray(run(*(jax.numpy.asarray(value, "float64") for value in (x, *leaves))))
    assert np.abs(np.asarray(program.run("main", x, *leaves)) - exact).max() < 3e-6 * np.abs(exact).max()


# The image, the filter, how it is computed, and what else there is.
BYTES: list[tuple[tuple[int, ...], tuple[int, ...], str, dict[str, Any]]] = [
    ((2, 9, 14, 20), (3, 3, 20, 40), "sums", {}),
    ((2, 9, 14, 20), (3, 3, 20, 40), "scaled", {"window_strides": 2}),
    ((1, 9, 14, 20), (3, 2, 20, 33), "quantised", {"rhs_dilation": 2}),
    ((1, 9, 14, 20), (3, 3, 20, 40), "numbers", {}),
    ((1, 9, 14, 24), (3, 3, 12, 40), "scaled", {"feature_group_count": 2}),
    ((1, 9, 14, 24), (3, 3, 8, 48), "numbers", {"feature_group_count": 3, "padding": "VALID"}),
    ((2, 30, 24), (5, 24, 40), "quantised", {}),
    ((1, 5, 6, 9, 16), (3, 3, 2, 16, 8), "numbers", {"window_strides": 2}),
    ((2, 20, 9, 14), (40, 20, 3, 3), "scaled", {"dimension_numbers": FIRST}),
    ((2, 9, 14, 20), (3, 3, 20, 40), "scaled", {"dimension_numbers": ("NHWC", "HWIO", "NCHW")}),
]


def of_bytes(f: np.ndarray, how: str, options: dict[str, Any]) -> Callable[..., Any]:
    """A layer, also in f64. Scales are powers of two, so that only bytes are rounded."""
    dims, options = f.ndim - 2, dict(options)
    for name in {"window_strides", "rhs_dilation"} & options.keys():
        options[name] = (options[name],) * dims
    given = {"window_strides": (1,) * dims, "padding": "SAME", "dimension_numbers": LAST[dims]} | options
    filters, result = (given["dimension_numbers"][number] for number in (1, 2))
    features = f.shape[filters.index("O")]
    spread = [features if letter == "C" else 1 for letter in result]

    def run(x: Any, kind: Any = np.float32) -> Any:
        scale, bias = 2.0 ** -(np.arange(features) % 3).astype(kind), np.arange(features).astype(kind) - 9
        image, weights, sums = x, f, np.int32
        if how == "numbers":
            image = (x.astype(np.int32) - 7).astype(kind) * kind(0.5)
            weights, sums = jax.numpy.asarray(f).astype(kind) * scale, kind
        elif kind == np.float64:
            image, weights, sums = x.astype(kind), f.astype(kind), kind
        y = jax.lax.conv_general_dilated(image, weights, **given, preferred_element_type=sums)
        if how == "sums":
            return y
        if how == "numbers":
            return jax.nn.relu(y)
        y = y.astype(kind) * scale.reshape(spread) + bias.reshape(spread)
        return y if how == "scaled" else jax.numpy.clip(jax.numpy.round(y / kind(1024)) + 5, -128, 127).astype(np.int8)

    return run


def test_bytes_in_any_layout_and_groups():
    """Sums of integers, these with scales and a bias and as bytes again, and sums of numbers that bytes stand for."""
    random = np.random.default_rng(0)
    images = [random.integers(-128, 128, x).astype(np.int8) for x, *_ in BYTES]
    layers = [of_bytes(random.integers(-128, 128, f).astype(np.int8), how, options) for _, f, how, options in BYTES]

    def all_layers(*given: Any) -> list[Any]:
        return [run(x) for run, x in zip(layers, given, strict=True)]

    program = opsplice.compile(jax.export.export(jax.jit(all_layers))(*images), ["opsplice_kernels:quantised"])
    kernels = Counter(each.kernel for each in program.report.replacements if not each.lost)
    assert kernels == {"byte_convolution": len(BYTES)}, str(program.report)
    with jax.enable_x64(True):
        for number, found in enumerate(program.run("main", *images)):
            np.testing.assert_array_equal(found, layers[number](images[number], np.float64), err_msg=str(BYTES[number]))
