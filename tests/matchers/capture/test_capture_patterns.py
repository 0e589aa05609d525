"""What a capture writes: the pattern's text for small programs. That it matches there is part of every capture."""

from __future__ import annotations

from pathlib import Path

import pytest

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.matchers.capture.pattern_text import number_text

FUNCTION = "func.func @main({arguments}) -> {result} {{\n{body}\n  return {values} : {types}\n}}"


def program(arguments: str, body: str, values: str, types: str) -> str:
    result = f"({types})" if "," in types else types
    return FUNCTION.format(arguments=arguments, result=result, body=body, values=values, types=types)


def pattern(capture: opsplice.Capture) -> str:
    """The pattern's own text, without kernel and rule."""
    return capture.spec[capture.spec.index("pattern ") :].partition("\n\nreplace")[0].strip()


MATMUL = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x64xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<64x64xf32>) -> tensor<64x64xf32>
  %m = linalg.matmul ins(%a, %b : tensor<64x64xf32>, tensor<64x64xf32>) outs(%f : tensor<64x64xf32>)
    -> tensor<64x64xf32>"""


def test_dims_are_equal_where_the_computation_makes_them_so() -> None:
    """All sizes are 64, and still there are three dims."""
    text = program("%a: tensor<64x64xf32>, %b: tensor<64x64xf32>", MATMUL, "%m", "tensor<64x64xf32>")
    assert pattern(opsplice.capture(text, "linalg.matmul#1")) == (
        "pattern captured(x: tensor<m x k x f32>, w: tensor<k x n x f32>) {\n  contract[m k, k n -> m n](x, w)\n}"
    )


def test_dims_that_an_elementwise_op_joins_have_one_name() -> None:
    body = MATMUL + "\n  %s = arith.addf %m, %a : tensor<64x64xf32>"
    text = program("%a: tensor<64x64xf32>, %b: tensor<64x64xf32>", body, "%s", "tensor<64x64xf32>")
    assert pattern(opsplice.capture(text, "arith.addf#1")) == (
        "pattern captured(x: tensor<m x n x f32>, w: tensor<n x n x f32>) {\n"
        "  addf(contract[m n, n i -> m i](x, w), x)\n"
        "}"
    )


def test_concrete_sizes() -> None:
    text = program("%a: tensor<64x64xf32>, %b: tensor<64x64xf32>", MATMUL, "%m", "tensor<64x64xf32>")
    capture = opsplice.capture(text, "linalg.matmul#1", concrete=True)
    assert pattern(capture) == (
        "pattern captured(x: tensor<64 x 64 x f32>, w: tensor<64 x 64 x f32>) {\n  contract[m k, k n -> m n](x, w)\n}"
    )
    assert "(const float *restrict x, const float *restrict w, float *restrict out)" in capture.code


def test_a_product_of_a_tensor_with_itself_has_two_labels_for_one_dim() -> None:
    body = """
  %c0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %d = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%d, %d) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = linalg.matmul indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
    affine_map<(m, n, k) -> (m, n)>] ins(%x, %x : tensor<?x8xf32>, tensor<?x8xf32>) outs(%f : tensor<?x?xf32>)
    -> tensor<?x?xf32>"""
    text = program("%x: tensor<?x8xf32>", body, "%0", "tensor<?x?xf32>")
    assert pattern(opsplice.capture(text, "linalg.matmul#1")) == (
        "pattern captured(x: tensor<n x k x f32>) {\n  contract[n k, i k -> n i](x, x)\n}"
    )


def test_two_ops_of_one_name_with_other_bodies_are_two() -> None:
    maps = "indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>]"
    body = "  %e = tensor.empty() : tensor<8xi32>" + "".join(
        f"""
  %{name} = linalg.generic {{{maps}, iterator_types = ["parallel"]}}
      ins(%x : tensor<8xi32>) outs(%e : tensor<8xi32>) {{
  ^bb0(%in: i32, %out: i32):
    %low, %high = arith.{name} %in, %in : i32
    linalg.yield %high : i32
  }} -> tensor<8xi32>"""
        for name in ("mulsi_extended", "mului_extended")
    )
    kind = "tensor<8xi32>"
    text = program(f"%x: {kind}", body, "%mulsi_extended, %mului_extended", f"{kind}, {kind}")
    text = text.replace(f"-> {kind}, {kind} {{", f"-> ({kind}, {kind}) {{")
    captured = opsplice.capture(text, ["linalg.generic#1", "linalg.generic#2"]).spec
    assert captured.count("arith.mulsi_extended") == captured.count("arith.mului_extended") == 1


MEAN = """
  %z = arith.constant 0.0 : f32
  %n = arith.constant {count} : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.reduce ins(%x : tensor<4x100xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
    (%in: f32, %out: f32) {{
      %t = arith.addf %in, %out : f32
      linalg.yield %t : f32
    }}
  %c = tensor.splat %n : tensor<4xf32>
  %m = arith.{op} %s, %c : tensor<4xf32>"""


@pytest.mark.parametrize(
    ("op", "count", "written"),
    [
        ("divf", "100.0", "divf(reduce addf[m n -> m](x), n)"),
        ("mulf", "0.01", "mulf(reduce addf[m n -> m](x), const(1 / n))"),
        ("divf", "10.0", "divf(reduce addf[m n -> m](x), 10.0)"),
        ("mulf", "100.0", "mulf(reduce addf[m n -> m](x), 100.0)"),
    ],
)
def test_a_mean_divides_by_the_dim_and_other_numbers_stay(op: str, count: str, written: str) -> None:
    text = program("%x: tensor<4x100xf32>", MEAN.format(op=op, count=count), "%m", "tensor<4xf32>")
    capture = opsplice.capture(text, f"arith.{op}#1")
    assert pattern(capture) == f"pattern captured(x: tensor<m x n x f32>) {{\n  {written}\n}}"


def test_a_dim_read_at_run_time_is_a_number() -> None:
    body = """
  %c1 = arith.constant 1 : index
  %d = tensor.dim %x, %c1 : tensor<4x?xf32>
  %i = arith.index_cast %d : index to i64
  %n = arith.sitofp %i : i64 to f32
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<4x?xf32>) outs(%f : tensor<4xf32>) dimensions = [1]
  %c = tensor.splat %n : tensor<4xf32>
  %m = arith.divf %s, %c : tensor<4xf32>"""
    text = program("%x: tensor<4x?xf32>", body, "%m", "tensor<4xf32>")
    assert "divf(reduce addf[m n -> m](x), n)" in opsplice.capture(text, "arith.divf#1", phase="input").spec


def test_what_is_used_twice_has_a_name() -> None:
    body = "  %a = math.exp %x : tensor<8xf32>\n  %b = arith.mulf %a, %a : tensor<8xf32>"
    text = program("%x: tensor<8xf32>", body, "%b", "tensor<8xf32>")
    assert pattern(opsplice.capture(text, "arith.mulf#1")) == (
        "pattern captured(x: tensor<n x f32>) {\n  e = exp(x)\n  mulf(e, e)\n}"
    )


def test_predicates_casts_and_constants() -> None:
    body = """
  %z = arith.constant dense<0.0> : tensor<8xf32>
  %k = arith.constant dense<-1.0e-5> : tensor<8xf32>
  %p = arith.cmpf ugt, %x, %z : tensor<8xf32>
  %s = arith.mulf %x, %k : tensor<8xf32>
  %r = arith.select %p, %x, %s : tensor<8xi1>, tensor<8xf32>
  %h = arith.truncf %r : tensor<8xf32> to tensor<8xf16>"""
    text = program("%x: tensor<8xf32>", body, "%h", "tensor<8xf16>")
    assert pattern(opsplice.capture(text, "arith.truncf#1")) == (
        "pattern captured(x: tensor<n x f32>) {\n"
        "  chosen = select(cmpf(x, 0.0) {predicate = ugt}, x, mulf(x, -1e-05))\n"
        "  truncf(chosen) : f16\n"
        "}"
    )


def test_scalars_are_parameters() -> None:
    body = """
  %t = tensor.splat %s : tensor<8xf32>
  %r = arith.mulf %x, %t : tensor<8xf32>"""
    text = program("%x: tensor<8xf32>, %s: f32", body, "%r", "tensor<8xf32>")
    capture = opsplice.capture(text, "arith.mulf#1", to="tensor.splat#1")
    assert pattern(capture) == "pattern captured(x: tensor<n x f32>, s: f32) {\n  mulf(x, s)\n}"
    assert "void captured_kernel(const float *restrict x, float s, float *restrict out, size_t n)" in capture.code


def test_names_of_the_program_are_kept() -> None:
    text = program(
        '%x: tensor<8xf32> loc("p_layer.scale"), %y: tensor<8xf32> loc("arg1")',
        "  %r = arith.mulf %x, %y : tensor<8xf32>",
        "%r",
        "tensor<8xf32>",
    )
    capture = opsplice.capture(text, "arith.mulf#1", phase="input")
    assert "captured(layer_scale: tensor<n x f32>, x: tensor<n x f32>)" in capture.spec


def test_weights_have_the_names_of_their_globals() -> None:
    text = """util.global private mutable @fc.weight = dense<1.0> : tensor<8xf32>
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %w = util.global.load @fc.weight : tensor<8xf32>
  %r = arith.mulf %x, %w : tensor<8xf32>
  return %r : tensor<8xf32>
}"""
    assert "captured(x: tensor<n x f32>, fc_weight: tensor<n x f32>)" in opsplice.capture(text, "arith.mulf#1").spec


def test_weights_in_the_program_are_inputs() -> None:
    body = """
  %w = arith.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %r = arith.mulf %x, %w : tensor<3xf32>"""
    text = program("%x: tensor<3xf32>", body, "%r", "tensor<3xf32>")
    for place in ("arith.mulf#1", "1-9"):
        assert "captured(x: tensor<n x f32>, y: tensor<n x f32>)" in opsplice.capture(text, place).spec


LINEAR = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x4x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<2x4x16xf32>) -> tensor<2x4x16xf32>
  %m = linalg.generic {indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>,
    affine_map<(b, m, n, k) -> (b, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %w : tensor<2x4x8xf32>, tensor<16x8xf32>) outs(%f : tensor<2x4x16xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %p = arith.mulf %in, %in_0 : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  } -> tensor<2x4x16xf32>
  %t = math.tanh %m : tensor<2x4x16xf32>"""


def test_packs() -> None:
    text = program("%x: tensor<2x4x8xf32>, %w: tensor<16x8xf32>", LINEAR, "%t", "tensor<2x4x16xf32>")
    assert pattern(opsplice.capture(text, "math.tanh#1", packs=True)) == (
        "pattern captured(x: tensor<...m x k x f32>, w: tensor<n x k x f32>) {\n"
        "  tanh(contract[...m k, n k -> ...m n](x, w))\n"
        "}"
    )
    capture = opsplice.capture(text, "math.tanh#1")
    assert "contract[h m k, n k -> h m n](x, w)" in capture.spec


def test_no_pack_where_no_dim_is_only_carried_along() -> None:
    text = program("%x: tensor<4x100xf32>", MEAN.format(op="divf", count="100.0"), "%m", "tensor<4xf32>")
    assert "reduce addf[...m n -> ...m]" in opsplice.capture(text, "arith.divf#1", packs=True).spec
    total = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %s = linalg.reduce { arith.addf } ins(%x : tensor<9xf32>) outs(%f : tensor<f32>) dimensions = [0]"""
    text = program("%x: tensor<9xf32>", total, "%s", "tensor<f32>")
    capture = opsplice.capture(text, "linalg.reduce#1", packs=True)
    assert "reduce addf[n -> ](x)" in capture.spec
    assert any("no pack" in note for note in capture.notes)


def test_an_element_variable() -> None:
    text = program("%x: tensor<2x4x8xf32>, %w: tensor<16x8xf32>", LINEAR, "%t", "tensor<2x4x16xf32>")
    capture = opsplice.capture(text, "math.tanh#1", element_variable=True)
    assert "pattern captured<T in {f32, f64}>(x: tensor<h x m x k x T>, w: tensor<n x k x T>)" in capture.spec
    assert 'symbol "captured_kernel_{T}"' in capture.spec
    assert "void captured_kernel_f32(" in capture.code
    assert "void captured_kernel_f64(" in capture.code


def test_an_element_variable_needs_one_element_type() -> None:
    body = "  %h = arith.extf %x : tensor<8xf16> to tensor<8xf32>"
    text = program("%x: tensor<8xf16>", body, "%h", "tensor<8xf32>")
    with pytest.raises(OpspliceError, match="converts between element types"):
        opsplice.capture(text, "arith.extf#1", element_variable=True)


def test_several_results() -> None:
    body = "  %a = arith.addf %x, %y : tensor<8xf32>\n  %b = arith.subf %x, %y : tensor<8xf32>"
    text = program("%x: tensor<8xf32>, %y: tensor<8xf32>", body, "%a, %b", "tensor<8xf32>, tensor<8xf32>")
    capture = opsplice.capture(text, ["arith.addf#1", "arith.subf#1"])
    assert "  addf(x, y), subf(x, y)\n" in capture.spec
    assert "-> (f32[n], f32[n])" in capture.spec
    assert "float *restrict out0,\n    float *restrict out1,\n    size_t n)" in capture.code


def test_an_op_without_an_expression_is_named_with_its_attributes() -> None:
    body = """
  %c = tensor.concat dim(0) %x, %y : (tensor<4x8xf32>, tensor<2x8xf32>) -> tensor<6x8xf32>
  %r = arith.negf %c : tensor<6x8xf32>"""
    text = program("%x: tensor<4x8xf32>, %y: tensor<2x8xf32>", body, "%r", "tensor<6x8xf32>")
    capture = opsplice.capture(text, "tensor.concat")
    assert '"tensor.concat"(x, y) {dim = 0} : ' in capture.spec
    assert not capture.reference
    assert "TODO: write it; tensor.concat is only known by its name." in capture.code
    assert '#error "captured_kernel is not written yet"' in capture.code
    assert "negf(" in opsplice.capture(text, "arith.negf").spec


def test_an_op_with_several_results_is_named_for_those_that_are_used() -> None:
    body = "  %a, %b = math.sincos %x : tensor<8xf32>"
    text = program("%x: tensor<8xf32>", body, "%b", "tensor<8xf32>")
    assert pattern(opsplice.capture(text, "math.sincos#1")) == (
        'pattern captured(x: tensor<n x f32>) {\n  _made, made = "math.sincos"(x)\n  made\n}'
    )
    text = program("%x: tensor<8xf32>", body, "%a, %b", "tensor<8xf32>, tensor<8xf32>")
    assert pattern(opsplice.capture(text, "math.sincos#1")) == (
        'pattern captured(x: tensor<n x f32>) {\n  made, made1 = "math.sincos"(x)\n  made, made1\n}'
    )


def test_a_part_that_nests_too_deep_is_said_to() -> None:
    body = "\n".join(f"  %{i + 1} = math.exp %{i} : tensor<8xf32>" for i in range(400))
    text = program("%0: tensor<8xf32>", body, "%400", "tensor<8xf32>")
    with pytest.raises(OpspliceError, match="nests too deep") as failure:
        opsplice.capture(text, "math.exp#400")
    assert "--inputs" in (failure.value.hint or "")
    assert opsplice.capture(text, "math.exp#400", to="math.exp#390").spec.count("exp(") == 11


def test_a_reshape_in_between_splits_the_dim_below() -> None:
    body = """
  %a = math.exp %x : tensor<4x8xf32>
  %b = tensor.collapse_shape %a [[0, 1]] : tensor<4x8xf32> into tensor<32xf32>
  %c = arith.addf %b, %y : tensor<32xf32>"""
    text = program("%x: tensor<4x8xf32>, %y: tensor<32xf32>", body, "%c", "tensor<32xf32>")
    capture = opsplice.capture(text, "arith.addf#1")
    assert pattern(capture) == (
        "pattern captured(x: tensor<m x n x f32>, y: tensor<m x n x f32>) {\n  addf(exp(x), y)\n}"
    )
    assert not capture.notes


SUMMED = """
  %a = math.exp %x : tensor<{0}x8xf32>
  %b = tensor.collapse_shape %a [[0, 1]] : tensor<{0}x8xf32> into tensor<{1}xf32>
  %z = arith.constant dense<0.0> : tensor<f32>
  %c = linalg.reduce {{ arith.addf }} ins(%b : tensor<{1}xf32>) outs(%z : tensor<f32>) dimensions = [0]"""


def test_a_reshape_before_a_sum_over_the_dim_splits_the_dim_below() -> None:
    text = program("%x: tensor<4x8xf32>", SUMMED.format(4, 32), "%c", "tensor<f32>")
    capture = opsplice.capture(text, "linalg.reduce", to="math.exp")
    assert "reduce addf[m n -> ](exp(x))" in capture.spec
    assert not capture.notes
    edge = opsplice.capture(text, "linalg.reduce", to="linalg.reduce")
    assert "reduce addf[n -> ](x)" in edge.spec
    assert not edge.notes


def test_a_reshape_of_unknown_size_before_a_sum_over_the_dim_ends_the_capture() -> None:
    text = program("%x: tensor<?x8xf32>", SUMMED.format("?", "?"), "%c", "tensor<f32>")
    capture = opsplice.capture(text, "linalg.reduce", to="math.exp")
    assert "reduce addf[n -> ](x)" in capture.spec
    (note,) = capture.notes
    assert note.startswith("cut at tensor.collapse_shape#1 (-:4:8), now an input: above it, it reads elements")


def test_every_place_of_the_program_is_reported() -> None:
    body = """
  %a = arith.mulf %x, %y : tensor<8xf32>
  %b = math.absf %a : tensor<8xf32>
  %c = arith.mulf %b, %y : tensor<8xf32>"""
    text = program("%x: tensor<8xf32>, %y: tensor<8xf32>", body, "%c", "tensor<8xf32>")
    assert len(opsplice.capture(text, "arith.mulf#1").matches) == 2


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (0.10000000149011612, "f32", "0.1"),
        (9.999999747378752e-06, "f32", "1e-05"),
        (0.1, "f64", "0.1"),
        (0.0999755859375, "f16", "0.1"),
        (0.10009765625, "bf16", "0.1"),
        (1.0, "f32", "1.0"),
        (float("-inf"), "f32", "-inf"),
        (3.4028234663852886e38, "f32", "3.4028235e+38"),
        (-7, "i32", "-7"),
    ],
)
def test_numbers_are_as_short_as_their_type_allows(value: float, element: str, text: str) -> None:
    assert number_text(value, element) == text


ARGMAX = """
  %e = tensor.empty() : tensor<1x4xf32>
  %low = arith.constant 0xFF800000 : f32
  %z = arith.constant 0 : i64
  %f = linalg.fill ins(%low : f32) outs(%e : tensor<1x4xf32>) -> tensor<1x4xf32>
  %i = tensor.empty() : tensor<1x4xi64>
  %g = linalg.fill ins(%z : i64) outs(%i : tensor<1x4xi64>) -> tensor<1x4xi64>
  %r:2 = linalg.generic {indexing_maps = [affine_map<(b, m, n) -> (b, m, n)>, affine_map<(b, m, n) -> (b, m)>,
      affine_map<(b, m, n) -> (b, m)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x : tensor<1x4x8xf32>) outs(%f, %g : tensor<1x4xf32>, tensor<1x4xi64>) {
  ^bb0(%in: f32, %best: f32, %at: i64):
    %column = linalg.index 2 : index
    %here = arith.index_cast %column : index to i64
    %more = arith.cmpf KIND, %in, %best : f32
    %v = arith.select %more, %in, %best : f32
    %w = arith.select %more, %here, %at : i64
    linalg.yield %v, %w : f32, i64
  } -> (tensor<1x4xf32>, tensor<1x4xi64>)"""


def test_an_op_with_a_body_of_its_own_is_captured_with_the_body(tmp_path: Path) -> None:
    largest, smallest = (
        program("%x: tensor<1x4x8xf32>", ARGMAX.replace("KIND", kind), "%r#1", "tensor<1x4xi64>")
        for kind in ("ogt", "olt")
    )
    both = largest.replace("return %r#1 : tensor<1x4xi64>", "return %r#0, %r#1 : tensor<1x4xf32>, tensor<1x4xi64>")
    both = both.replace("-> tensor<1x4xi64>", "-> (tensor<1x4xf32>, tensor<1x4xi64>)", 1)
    text = opsplice.capture(both, "linalg.generic").spec
    assert "(x: f32[m, n]) -> (f32[m], i64[m])" in text
    assert "  made, made1\n}" in text
    capture = opsplice.capture(largest, "linalg.generic", name="argmax")
    assert not capture.notes
    assert "kernel argmax_kernel(x: f32[m, n]) -> i64[m]" in capture.spec
    assert "#error" in capture.code
    spec, _ = capture.save(tmp_path / "argmax.splice")
    assert [len(opsplice.match(text, [spec]).replacements) for text in (largest, smallest)] == [1, 0]


def test_a_body_that_takes_a_value_from_outside_is_not_captured() -> None:
    outside = ARGMAX.replace("KIND", "ogt").replace("linalg.yield %v", "%k = arith.addf %v, %s : f32\n linalg.yield %k")
    text = program("%x: tensor<1x4x8xf32>, %s: f32", outside, "%r#1", "tensor<1x4xi64>")
    with pytest.raises(OpspliceError, match="holds code of its own"):
        opsplice.capture(text, "linalg.generic")


def test_a_product_of_two_types_has_its_cast() -> None:
    body = """
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x6xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m,n,k) -> (m,k)>, affine_map<(m,n,k) -> (k,n)>,
      affine_map<(m,n,k) -> (m,n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf16>) outs(%f : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f16, %o: f32):
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %x, %1 : f32
    %3 = arith.addf %o, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4x6xf32>"""
    text = program("%a: tensor<4x8xf32>, %b: tensor<8x6xf16>", body, "%0", "tensor<4x6xf32>")
    assert pattern(opsplice.capture(text, "linalg.generic#1")) == (
        "pattern captured(x: tensor<m x k x f32>, w: tensor<k x n x f16>) {\n"
        "  contract[m k, k n -> m n](x, extf(w) : f32)\n"
        "}"
    )
