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


DYNAMIC = """
func.func @dynamic(%x: tensor<?x?x?x3xf32>, %w: tensor<3x2x3x4xf32>) -> tensor<?x?x?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %z = arith.constant 0.0 : f32
  %n = tensor.dim %x, %c0 : tensor<?x?x?x3xf32>
  %h = tensor.dim %x, %c1 : tensor<?x?x?x3xf32>
  %v = tensor.dim %x, %c2 : tensor<?x?x?x3xf32>
  %oh = arith.subi %h, %c2 : index
  %ow = arith.subi %v, %c1 : index
  %e = tensor.empty(%n, %oh, %ow) : tensor<?x?x?x4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  %r = linalg.conv_2d_nhwc_hwcf ins(%x, %w : tensor<?x?x?x3xf32>, tensor<3x2x3x4xf32>)
    outs(%f : tensor<?x?x?x4xf32>) -> tensor<?x?x?x4xf32>
  return %r : tensor<?x?x?x4xf32>
}
"""
# The same layer for a batch of one, which is captured, and for several rows, which are computed.
SOFTMAX = """
func.func @softmax{rows}(%x: tensor<{rows}x64xf32>) -> tensor<{rows}x64xf32> {{
  %e = tensor.empty() : tensor<{rows}x64xf32>
  %s = linalg.softmax dimension(1) ins(%x : tensor<{rows}x64xf32>) outs(%e : tensor<{rows}x64xf32>)
    -> tensor<{rows}x64xf32>
  return %s : tensor<{rows}x64xf32>
}}
"""
LINEAR = """
func.func @linear{rows}(%x: tensor<{rows}x64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>)
    -> tensor<{rows}x32xf32> {{
  %e = tensor.empty() : tensor<{rows}x32xf32>
  %from = linalg.broadcast ins(%b : tensor<32xf32>) outs(%e : tensor<{rows}x32xf32>) dimensions = [0]
  %r = linalg.matmul ins(%x, %w : tensor<{rows}x64xf32>, tensor<64x32xf32>) outs(%from : tensor<{rows}x32xf32>)
    -> tensor<{rows}x32xf32>
  return %r : tensor<{rows}x32xf32>
}}
"""
# Two heads of keys for eight of queries: what comes out is one dim, 2 * 4.
GROUPED = """
func.func @grouped(%q: tensor<8x6x5xf32>, %k: tensor<2x7x5xf32>) -> tensor<8x6x7xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x7x5xf32>
  %b = linalg.broadcast ins(%k : tensor<2x7x5xf32>) outs(%e : tensor<2x4x7x5xf32>) dimensions = [1]
  %heads = tensor.collapse_shape %b [[0, 1], [2], [3]] : tensor<2x4x7x5xf32> into tensor<8x7x5xf32>
  %o = tensor.empty() : tensor<8x6x7xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<8x6x7xf32>) -> tensor<8x6x7xf32>
  %r = linalg.batch_matmul indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>,
      affine_map<(b, m, n, k) -> (b, n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]
    ins(%q, %heads : tensor<8x6x5xf32>, tensor<8x7x5xf32>) outs(%f : tensor<8x6x7xf32>) -> tensor<8x6x7xf32>
  return %r : tensor<8x6x7xf32>
}
"""


def test_dynamic_windows_a_batch_of_one_and_dims_that_are_several_are_computed(tmp_path: Path) -> None:
    taken = {
        "dynamic": (DYNAMIC, "linalg.conv_2d_nhwc_hwcf"),
        "softmax": (SOFTMAX.format(rows=1), "linalg.softmax"),
        "linear": (LINEAR.format(rows=1), "linalg.matmul"),
        "grouped": (GROUPED, "linalg.batch_matmul"),
    }
    specs = []
    for name, (text, at) in taken.items():
        capture = opsplice.capture(text, at, name=name, packs=True)
        specs.append(capture.save(tmp_path / f"{name}.splice")[0])
    assert "(x: f32[...m, k], w: f32[k, n], bias: f32[n]) -> f32[...m, n]" in specs[2].read_text()
    assert "(x: f32[...m, n]) -> f32[...m, n]" in specs[1].read_text()
    assert "(x: f32[b, h, m, k], w: f32[b, n, k]) -> f32[b, h, m, n]" in specs[3].read_text()
    model = DYNAMIC + SOFTMAX.format(rows=5) + LINEAR.format(rows=5) + GROUPED
    program, plain = opsplice.compile(model, specs, require_match=True), opsplice.compile(model)
    draw = np.random.default_rng(2)
    shapes = {
        "dynamic": [(2, 7, 9, 3), (3, 2, 3, 4)],
        "softmax5": [(5, 64)],
        "linear5": [(5, 64), (64, 32), (32,)],
        "grouped": [(8, 6, 5), (2, 7, 5)],
    }
    for name, given in shapes.items():
        inputs = [draw.standard_normal(shape).astype(np.float32) for shape in given]
        np.testing.assert_allclose(program.run(name, *inputs), plain.run(name, *inputs), rtol=1e-5, atol=1e-5)


def test_a_batch_of_one_is_a_pack_of_what_has_it() -> None:
    spec = squeezed(captured("nchw", packs=True))
    assert "( x: f32[...n, c, h, w], filter: f32[f, c, kh, kw], bias: f32[f], ) -> f32[...n, f, oh, ow] {" in spec
    assert "contract[...n c (2*oh + 2*kh) (2*ow + 2*kw), f c kh kw -> ...n f oh ow](x, filter)" in spec


def test_where_no_kernel_could_take_the_place_there_is_the_pattern_alone() -> None:
    capture = opsplice.capture(
        """func.func @f(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %c = tensor.concat dim(0) %x, %y : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  return %c : tensor<?x8xf32>
}""",
        "tensor.concat",
    )
    assert capture.spec.startswith("pattern captured(")
    assert capture.notes == ("there is no kernel: the size of its result depends on no input",)


def test_an_op_that_ends_a_capture_is_named() -> None:
    model = """func.func @f(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) -> tensor<6x8xf32> {
  %c = tensor.concat dim(0) %x, %y : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  %r = math.exp %c : tensor<6x8xf32>
  return %r : tensor<6x8xf32>
}"""
    (note,) = opsplice.capture(model, "math.exp").notes
    assert note == "cut at tensor.concat#1 (-:2:8), now an input: tensor.concat has no expression"


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


def test_no_note_says_that_a_part_of_an_argument_is_an_input() -> None:
    model = """func.func @f(%x: tensor<6x8xf32>) -> tensor<4x4xf32> {
  %s = tensor.extract_slice %x[2, 0] [4, 8] [1, 1] : tensor<6x8xf32> to tensor<4x8xf32>
  %u = tensor.extract_slice %s[0, 1] [4, 4] [1, 1] : tensor<4x8xf32> to tensor<4x4xf32>
  %t = tensor.extract_slice %x[0, 0] [4, 4] [1, 1] : tensor<6x8xf32> to tensor<4x4xf32>
  %r = arith.addf %u, %t : tensor<4x4xf32>
  return %r : tensor<4x4xf32>
}"""
    capture = opsplice.capture(model, "-:2-5")
    assert "addf(x, " in capture.spec
    assert not capture.notes
