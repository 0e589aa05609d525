"""Captures of convolutions and pooling: what they write, that their C computes it, and what else they match."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import opsplice

CONVOLUTION = """
func.func @{name}(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>, %b: tensor<{bias}xf32>) -> tensor<{out}xf32> {{
  %e = tensor.empty() : tensor<{out}xf32>
  %from = linalg.broadcast ins(%b : tensor<{bias}xf32>) outs(%e : tensor<{out}xf32>) dimensions = [{spread}]
  %r = linalg.{op} {{strides = dense<{stride}> : vector<2xi64>, dilations = dense<{dilation}> : vector<2xi64>}}
    ins(%x, %w : tensor<{x}xf32>, tensor<{w}xf32>) outs(%from : tensor<{out}xf32>) -> tensor<{out}xf32>
  return %r : tensor<{out}xf32>
}}
"""
POOLING = """
func.func @{name}(%x: tensor<{x}xf32>) -> tensor<{out}xf32> {{
  %low = arith.constant {start} : f32
  %window = tensor.empty() : tensor<{window}xf32>
  %e = tensor.empty() : tensor<{out}xf32>
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<{out}xf32>) -> tensor<{out}xf32>
  %r = linalg.{op} {{strides = dense<{stride}> : vector<2xi64>, dilations = dense<1> : vector<2xi64>}}
    ins(%x, %window : tensor<{x}xf32>, tensor<{window}xf32>) outs(%f : tensor<{out}xf32>) -> tensor<{out}xf32>
  return %r : tensor<{out}xf32>
}}
"""
CONVOLUTIONS = {
    "nchw": {"op": "conv_2d_nchw_fchw", "x": "1x3x12x11", "w": "5x3x3x2", "bias": "5", "spread": "0, 2, 3",
             "out": "1x5x4x5", "stride": 2, "dilation": 2},
    "nhwc": {"op": "conv_2d_nhwc_hwcf", "x": "2x8x9x3", "w": "3x2x3x5", "bias": "5", "spread": "0, 1, 2",
             "out": "2x6x8x5", "stride": 1, "dilation": 1},
    "depthwise": {"op": "depthwise_conv_2d_nhwc_hwc", "x": "1x8x9x3", "w": "3x2x3", "bias": "3", "spread": "0, 1, 2",
                  "out": "1x6x8x3", "stride": 1, "dilation": 1},
}  # fmt: skip
POOLINGS = {
    "max": {"op": "pooling_nchw_max", "x": "1x3x8x6", "window": "2x3", "out": "1x3x4x2", "stride": "[2, 3]",
            "start": "0xFF800000"},
    "sum": {"op": "pooling_nhwc_sum", "x": "2x8x6x3", "window": "3x2", "out": "2x6x5x3", "stride": 1, "start": "0.0"},
}  # fmt: skip
FUNCTIONS = {
    **{name: CONVOLUTION.format(name=name, **given) for name, given in CONVOLUTIONS.items()},
    **{name: POOLING.format(name=name, **given) for name, given in POOLINGS.items()},
}
OPS = {name: given["op"] for name, given in (CONVOLUTIONS | POOLINGS).items()}


def captured(name: str, **options: bool) -> opsplice.Capture:
    return opsplice.capture(FUNCTIONS[name], f"linalg.{OPS[name]}", name=name, **options)


def squeezed(capture: opsplice.Capture) -> str:
    return " ".join(capture.spec.split())


def test_the_c_of_windows_computes_what_the_program_does(tmp_path: Path) -> None:
    model = "".join(FUNCTIONS.values())
    specs = []
    for name, op in OPS.items():
        capture = opsplice.capture(model, f"linalg.{op}#1", name=name)
        assert capture.reference
        specs.append(capture.save(tmp_path / f"{name}.splice")[0])
    program, plain = opsplice.compile(model, specs, require_match=True), opsplice.compile(model)
    assert sorted(r.pattern for r in program.report.replacements) == sorted(OPS)
    draw = np.random.default_rng(1)
    for name, given in (CONVOLUTIONS | POOLINGS).items():
        shapes = [[int(n) for n in given[key].split("x")] for key in ("x", "w", "bias") if key in given]
        inputs = [draw.standard_normal(shape).astype(np.float32) for shape in shapes]
        np.testing.assert_allclose(program.run(name, *inputs), plain.run(name, *inputs), rtol=1e-5, atol=1e-5)


def test_a_convolution_is_written_with_strides_and_dilations() -> None:
    spec = squeezed(captured("nchw"))
    assert "(x: f32[c, h, w], filter: f32[f, c, kh, kw], bias: f32[f]) -> f32[f, oh, ow]" in spec
    assert "product = contract[c (2*oh + 2*kh) (2*ow + 2*kw), f c kh kw -> f oh ow](x, filter)" in spec
    assert "addf(product, broadcast[f -> f i j](bias))" in spec
    assert "contract[n (oh + kh) (ow + kw) c, kh kw c f -> n oh ow f](x, filter)" in squeezed(captured("nhwc"))
    assert "contract[(oh + kh) (ow + kw) c, kh kw c -> oh ow c](x, filter)" in squeezed(captured("depthwise"))


def test_a_result_has_named_dims_and_concrete_ones_only_if_asked_for() -> None:
    assert "-> f32[6, 8, 3]" in squeezed(captured("depthwise", concrete=True))
    assert "-> f32[oh, ow, c]" in squeezed(captured("depthwise"))


def test_a_window_of_pooling_is_no_input_and_holds_for_its_size_only(tmp_path: Path) -> None:
    capture = captured("max")
    assert list(capture.inputs) == ["x"]
    assert '"linalg.pooling_nchw_max"( x, "tensor.empty"() : tensor<2 x 3 x f32>, -inf, )' in squeezed(capture)
    (spec, _) = capture.save(tmp_path / "max.splice")
    assert len(opsplice.match(FUNCTIONS["max"], [spec]).replacements) == 1
    other = POOLING.format(name="max", **POOLINGS["max"] | {"window": "2x2", "x": "1x3x8x5"})
    assert not opsplice.match(other, [spec]).replacements
