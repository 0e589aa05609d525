"""Where an exported spec does other than our engine: each line of the table in docs/transform-dialect.md."""

from __future__ import annotations

from pathlib import Path

import pytest

import opsplice

from .conftest import Sider, exported

KIND = "tensor<?xf32>"
IDENTITY = "affine_map<(d0) -> (d0)>"
SPEC = """
kernel k(x: f32[n], y: f32[n]) -> f32[n] { cpu "k.c" }
pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { addf(mulf(x, x), exp(y)) }
replace p with k(x, y)
"""


def program(body: str, kind: str = KIND, more: str = "") -> str:
    """A function of %x and %y that returns %r."""
    return f"util.func public @f(%x: {kind}, %y: {kind}{more}) -> {kind} {{\n{body}\nutil.return %r : {kind}\n}}\n"


def of_tensors(add: str = "%r = arith.addf %0, %1", square: str = "arith.mulf %x, %x", exp: str = "math.exp %y") -> str:
    return program(f"%0 = {square} : {KIND}\n%1 = {exp} : {KIND}\n{add} : {KIND}")


def generic(result: str, inputs: str, body: str, maps: str = IDENTITY, kind: str = KIND) -> str:
    count = inputs.count("%")
    names = ", ".join(f"%a{i}: f32" for i in range(count))
    return f"""
    {result} = linalg.generic {{
        indexing_maps = [{", ".join([maps] * (count + 1))}],
        iterator_types = [{", ".join(['"parallel"'] * maps.partition(" ->")[0].count("d"))}]}}
        ins({inputs} : {", ".join([kind] * count)}) outs(%e : {kind}) {{
    ^bb0({names}, %o: f32):
      {body}
    }} -> {kind}
    """


def test_without_a_difference_both_match(sides: Sider) -> None:
    assert sides(of_tensors(), SPEC).counts == (1, 1)


def test_commuted_operands(sides: Sider) -> None:
    assert sides(of_tensors(add="%r = arith.addf %1, %0"), SPEC).counts == (1, 0)


def test_an_attribute_more(sides: Sider) -> None:
    assert sides(of_tensors(exp='math.exp %y {"from.here" = 1}'), SPEC).counts == (1, 0)
    assert sides(of_tensors(exp="math.exp %y fastmath<fast>"), SPEC).counts == (1, 0)


def test_equal_spellings(sides: Sider) -> None:
    two = f"%two = arith.constant dense<2> : tensor<8xi32>\n%0 = math.fpowi %x, %two : {KIND}, tensor<8xi32>"
    body = f"{two}\n%1 = math.exp %y : {KIND}\n%r = arith.addf %0, %1 : {KIND}"
    assert sides(program(body.replace("?", "8"), "tensor<8xf32>"), SPEC).counts == (1, 0)


def test_casts_where_the_pattern_looks_through_them(sides: Sider) -> None:
    spec = SPEC.replace(") { addf", ") through cast { addf")
    assert sides(of_tensors(), spec).counts == (1, 1)
    wide, cut = "arith.extf %0 : tensor<?xf32> to tensor<?xf64>", "arith.truncf %2 : tensor<?xf64> to tensor<?xf32>"
    body = f"%0 = arith.mulf %x, %x : {KIND}\n%1 = math.exp %y : {KIND}\n%2 = {wide}\n%3 = {cut}"
    assert sides(program(f"{body}\n%r = arith.addf %3, %1 : {KIND}"), spec).counts == (1, 0)


def test_a_fusion_that_no_spelling_has(sides: Sider) -> None:
    empty = (
        "%c0 = arith.constant 0 : index\n%n = tensor.dim %x, %c0 : tensor<?xf32>\n%e = tensor.empty(%n) : tensor<?xf32>"
    )
    exp = generic("%0", "%y", "%t = math.exp %a0 : f32\nlinalg.yield %t : f32")
    rest = generic(
        "%r", "%x, %0", "%s = arith.mulf %a0, %a0 : f32\n%t = arith.addf %s, %a1 : f32\nlinalg.yield %t : f32"
    )
    assert sides(program(empty + exp + rest), SPEC).counts == (1, 0)


def test_a_loop_order_that_no_spelling_has(sides: Sider) -> None:
    spec = SPEC.replace("[n]", "[m, n]").replace("n x f32", "m x n x f32")
    kind = "tensor<4x8xf32>"
    body = (
        "%s = arith.mulf %a0, %a0 : f32\n%u = math.exp %a1 : f32\n%t = arith.addf %s, %u : f32\nlinalg.yield %t : f32"
    )

    def looped(maps: str) -> str:
        return program(f"%e = tensor.empty() : {kind}" + generic("%r", "%x, %y", body, maps, kind), kind)

    assert sides(looped("affine_map<(d0, d1) -> (d0, d1)>"), spec).counts == (1, 1)
    assert sides(looped("affine_map<(d0, d1) -> (d1, d0)>"), spec).counts == (1, 0)


def test_a_shared_part_that_is_computed_twice(sides: Sider) -> None:
    spec = SPEC.replace("{ addf(mulf(x, x), exp(y)) }", "{\n  e = exp(subf(x, y))\n  mulf(e, negf(e))\n}")
    once = f"%0 = arith.subf %x, %y : {KIND}\n%1 = math.exp %0 : {KIND}\n"
    shared = f"{once}%2 = arith.negf %1 : {KIND}\n%r = arith.mulf %1, %2 : {KIND}"
    twice = f"{once}%3 = math.exp %0 : {KIND}\n%2 = arith.negf %3 : {KIND}\n%r = arith.mulf %1, %2 : {KIND}"
    assert sides(program(shared), spec).counts == (1, 1)
    assert sides(program(twice), spec).counts == (1, 0)


def test_constants_in_bodies(sides: Sider) -> None:
    spec = """
    kernel k(x: f32[n]) -> f32[n] { cpu "k.c" }
    pattern p(x: tensor<n x f32>) { maximumf(x, 0.5) }
    replace p with k(x)
    """
    start = "%c = arith.constant 0.5 : f32\n%e = tensor.empty() : tensor<8xf32>"
    body = generic("%r", "%x", "%t = arith.maximumf %a0, %c : f32\nlinalg.yield %t : f32", kind="tensor<8xf32>")
    assert sides(program(start + body, "tensor<8xf32>"), spec).counts == (1, 0)


def test_a_constant_for_a_scalar_parameter(sides: Sider) -> None:
    spec = """
    kernel k(x: f32[n], s: f32) -> f32[n] { cpu "k.c" }
    pattern p(x: tensor<n x f32>, s: f32) { addf(x, s) }
    replace p with k(x, s)
    """
    dense = "%c = arith.constant dense<0.5> : tensor<8xf32>\n%r = arith.addf %x, %c : tensor<8xf32>"
    assert sides(program(dense, "tensor<8xf32>"), spec).counts == (1, 0)


def test_dims_of_size_one_that_the_pattern_does_not_have(sides: Sider) -> None:
    assert sides(of_tensors().replace("tensor<?xf32>", "tensor<1x8xf32>"), SPEC).counts == (1, 0)


@pytest.mark.parametrize(("size", "counts"), [(8, (1, 1)), (1, (0, 1))])
def test_a_reduction_over_a_dim_of_size_one(size: int, counts: tuple[int, int], sides: Sider) -> None:
    spec = """
    kernel k(x: f32[m, n]) -> f32[m] { cpu "k.c" }
    pattern p(x: tensor<m x n x f32>) { negf(reduce addf[m n -> m](x)) }
    replace p with k(x)
    """
    text = f"""
    util.func public @f(%x: tensor<4x{size}xf32>) -> tensor<4xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<4xf32>
      %start = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
      %sum = linalg.generic {{
          indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
          iterator_types = ["parallel", "reduction"]}}
          ins(%x : tensor<4x{size}xf32>) outs(%start : tensor<4xf32>) {{
      ^bb0(%a: f32, %b: f32):
        %t = arith.addf %a, %b : f32
        linalg.yield %t : f32
      }} -> tensor<4xf32>
      %r = arith.negf %sum : tensor<4xf32>
      util.return %r : tensor<4xf32>
    }}
    """
    assert sides(text, spec).counts == counts


def test_tensors_of_more_dims_than_there_are_matchers_for(sides: Sider) -> None:
    spec = SPEC.replace("[n]", "[...n]").replace("n x f32", "...n x f32")
    assert sides(of_tensors().replace("<?xf32", "<2x3x4x5xf32"), spec).counts == (1, 1)
    assert sides(of_tensors().replace("<?xf32", "<2x3x4x5x6xf32"), spec).counts == (1, 0)


def test_static_sizes_are_passed_with_casts(sides: Sider) -> None:
    both = sides(of_tensors().replace("<?xf32", "<8xf32"), SPEC)
    assert both.graphs[0] == both.graphs[1]
    ours, theirs = (text.partition("flow.dispatch")[2].partition("\n")[0] for text in both.texts)
    assert "[%c8](%arg0, %arg1, %c8) : (tensor<8xf32>, tensor<8xf32>, index) -> tensor<8xf32>" in ours
    assert "[%c8](%cast, %cast_0, %c8) : (tensor<?xf32>{%c8}, tensor<?xf32>{%c8}, index)" in theirs


def test_inputs_that_are_all_constants(sides: Sider) -> None:
    text = """
    util.func public @f() -> tensor<2xf32> {
      %x = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %0 = arith.mulf %x, %x : tensor<2xf32>
      %1 = math.exp %x : tensor<2xf32>
      %r = arith.addf %0, %1 : tensor<2xf32>
      util.return %r : tensor<2xf32>
    }
    """
    both = sides(text, SPEC)
    assert "util.optimization_barrier" in str(both.ours)
    assert "util.optimization_barrier" not in str(both.theirs)
    assert both.counts == (1, 1)


def test_the_table_names_these_tests() -> None:
    docs = Path(__file__).parents[3] / "docs" / "transform-dialect.md"
    assert "tests/rewrites/export/test_export_differences.py" in docs.read_text()


def test_an_annotation_where_another_rule_replaces_a_part(sides: Sider) -> None:
    kernel, pattern, *_ = SPEC.strip().splitlines()
    spec = "\n".join(
        [
            kernel.replace(", y: f32[n]", ""),
            "pattern inner(x: tensor<n x f32>) { mulf(x, x) }",
            "replace inner with k(x)",
            pattern,
            "annotate p with {my.tag}",
        ]
    )
    found = sides(of_tensors(), spec)
    assert found.counts == (1, 1)
    assert "my.tag" in str(found.ours)
    assert "my.tag" not in str(found.theirs)


def test_a_rule_before_the_one_that_writes_what_it_looks_for(tmp_path: Path) -> None:
    kind = "tensor<?xf32>"
    text = f"util.func public @f(%x: {kind}) -> {kind} {{ %0 = math.exp %x : {kind} util.return %0 : {kind} }}"
    spec = """
    pattern tanhs(x: tensor<n x f32>) { tanh(x) }
    pattern exps(x: tensor<n x f32>) { exp(x) }
    replace tanhs with mlir {
      %r = math.sin %x : $x
      yield %r
    }
    replace exps with tanhs(x)
    """
    for name, made in (("spec.splice", spec), ("spec.mlir", exported(spec).text)):
        (tmp_path / name).write_text(made)
    found = [str(opsplice.transform(text, [tmp_path / name])[0]) for name in ("spec.splice", "spec.mlir")]
    assert ["math.sin" in each for each in found] == [True, False]
    assert ["math.tanh" in each for each in found] == [False, True]


def test_named_ops_that_no_spelling_has(sides: Sider) -> None:
    empty = f"%c0 = arith.constant 0 : index\n%n = tensor.dim %x, %c0 : {KIND}\n%e = tensor.empty(%n) : {KIND}\n"
    square = f"%0 = linalg.map {{ arith.mulf }} ins(%x, %x : {KIND}, {KIND}) outs(%e : {KIND})"
    rest = f"%1 = math.exp %y : {KIND}\n%r = arith.addf %0, %1 : {KIND}"
    assert sides(program(f"{empty}{square}\n{rest}"), SPEC).counts == (1, 0)
