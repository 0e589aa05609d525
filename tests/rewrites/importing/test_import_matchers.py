"""Matchers of the transform dialect read back: what IREE's interpreter marks with a spec, our engine marks too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice.cli import main
from opsplice.common.errors import OpspliceError
from opsplice.compiling import spec_import
from opsplice.spec_lang.loading.loader import load_text

from ..export.conftest import exported
from .interpreted import by_iree, by_us, imported, tags

PROGRAM = """
#id = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#nk = affine_map<(m, n, k) -> (n, k)>
#mn = affine_map<(m, n, k) -> (m, n)>
#query = affine_map<(b, m, n, d, k) -> (b, m, d)>
#key = affine_map<(b, m, n, d, k) -> (b, k, d)>
#value = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func @main(%a: tensor<32x64xf16>, %b: tensor<64x48xf16>, %c: tensor<48x64xf16>, %start: tensor<32x48xf32>,
                %x: tensor<1x10x10x4xf32>, %w: tensor<3x3x4x8xf32>, %y: tensor<1x8x8x8xf32>, %z: tensor<1x4x4x8xf32>,
                %q: tensor<2x6x4xf16>, %k: tensor<2x5x4xf16>, %v: tensor<2x5x7xf16>, %s: f16, %o: tensor<2x6x7xf16>)
    -> (tensor<32x48xf32>, tensor<32x48xf32>, tensor<32x48xf32>, tensor<1x8x8x8xf32>, tensor<1x4x4x8xf32>,
        tensor<2x6x7xf16>, tensor<32x48xf32>) {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<32x48xf32>
  %filled = linalg.fill ins(%zero : f32) outs(%empty : tensor<32x48xf32>) -> tensor<32x48xf32>
  %named = linalg.matmul {place = "named"} ins(%a, %b : tensor<32x64xf16>, tensor<64x48xf16>)
      outs(%filled : tensor<32x48xf32>) -> tensor<32x48xf32>
  %added = linalg.matmul {place = "added", lowering_config = #iree_codegen.lowering_config<tile_sizes = [[2, 2, 0]]>}
      ins(%a, %b : tensor<32x64xf16>, tensor<64x48xf16>)
      outs(%start : tensor<32x48xf32>) -> tensor<32x48xf32>
  %generic = linalg.generic {indexing_maps = [#id, #nk, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %c : tensor<32x64xf16>, tensor<48x64xf16>) outs(%filled : tensor<32x48xf32>)
      attrs = {place = "transposed"} {
  ^bb0(%l: f16, %r: f16, %t: f32):
    %0 = arith.extf %l : f16 to f32
    %1 = arith.extf %r : f16 to f32
    %2 = arith.mulf %0, %1 : f32
    %3 = arith.addf %t, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<32x48xf32>
  %conv = linalg.conv_2d_nhwc_hwcf {place = "conv"} ins(%x, %w : tensor<1x10x10x4xf32>, tensor<3x3x4x8xf32>)
      outs(%y : tensor<1x8x8x8xf32>) -> tensor<1x8x8x8xf32>
  %strided = linalg.conv_2d_nhwc_hwcf {place = "strided", strides = dense<2> : tensor<2xi64>}
      ins(%x, %w : tensor<1x10x10x4xf32>, tensor<3x3x4x8xf32>) outs(%z : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
  %attention = iree_linalg_ext.attention <indexing_maps = [#query, #key, #value, #scale, #out]> {place = "attention"}
      ins(%q, %k, %v, %s : tensor<2x6x4xf16>, tensor<2x5x4xf16>, tensor<2x5x7xf16>, f16) outs(%o : tensor<2x6x7xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x6x7xf16>
  %rows = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
      iterator_types = ["parallel", "parallel"]} ins(%named : tensor<32x48xf32>) outs(%empty : tensor<32x48xf32>)
      attrs = {place = "rows"} {
  ^bb0(%l: f32, %t: f32):
    %0 = math.absf %l : f32
    linalg.yield %0 : f32
  } -> tensor<32x48xf32>
  util.return %named, %added, %generic, %conv, %strided, %attention, %rows : tensor<32x48xf32>, tensor<32x48xf32>,
      tensor<32x48xf32>, tensor<1x8x8x8xf32>, tensor<1x4x4x8xf32>, tensor<2x6x7xf16>, tensor<32x48xf32>
}
"""

# Each matcher is one line or more of a sequence that is given %op; the first that holds sets its tag.
_SPEC = """
module attributes {{transform.with_named_sequence}} {{
{matchers}
  transform.named_sequence @tag(%op: !transform.any_op {{transform.readonly}},
                                %tag: !transform.any_param {{transform.readonly}}) {{
    transform.annotate %op "tag" = %tag : !transform.any_op, !transform.any_param
    transform.yield
  }}
  transform.named_sequence @__transform_main(%module: !transform.any_op) {{
    %0 = transform.foreach_match in %module {pairs} : (!transform.any_op) -> !transform.any_op
    transform.yield
  }}
}}
"""
_MATCHER = """
  transform.named_sequence @{name}(%op: !transform.any_op {{transform.readonly}})
      -> (!transform.any_op, !transform.any_param) {{
    {body}
    %tag = transform.param.constant "{name}" -> !transform.any_param
    transform.yield %op, %tag : !transform.any_op, !transform.any_param
  }}
"""


def spec_of(**bodies: str) -> str:
    matchers = "".join(_MATCHER.format(name=name, body=body) for name, body in bodies.items())
    return _SPEC.format(matchers=matchers, pairs=", ".join(f"@{name} -> @tag" for name in bodies))


def _maps(*results: str) -> str:
    loops = "abcdefgh"[: len(set("".join(results)) & set("abcdefgh"))]
    head = ", ".join(loops)
    return f"[{', '.join(f'affine_map<({head}) -> ({result})>' for result in results)}]"


def contraction(maps: str, checks: str = "", types: tuple[str, str, str] = ("f16", "f16", "f32")) -> str:
    return (
        f"%b, %m, %n, %k = transform.iree.match.contraction %op, lhs_type = {types[0]}, rhs_type = {types[1]}, "
        f"output_type = {types[2]}, indexing_maps = {maps} : !transform.any_op -> !transform.param<i64>\n{checks}"
    )


def anyhow(checks: str = "") -> str:
    """A contraction whose operands lie in any way."""
    return contraction(_MN, checks).replace(f", indexing_maps = {_MN}", "")


def convolution(maps: str, checks: str = "") -> str:
    return (
        "%b, %i, %oc, %f, %ic, %d, %st, %di = transform.iree.match.convolution %op, lhs_type = f32, rhs_type = f32, "
        f"output_type = f32, indexing_maps = {maps} : !transform.any_op -> !transform.param<i64>\n{checks}"
    )


def attention(maps: str, checks: str = "") -> str:
    return (
        "%b, %m, %n, %k1, %k2 = transform.iree.match.attention %op, query_type = f16, key_type = f16, "
        "value_type = f16, output_type = f16, "
        f"indexing_maps = {maps} : !transform.any_op -> !transform.param<i64>\n{checks}"
    )


def sizes(handle: str, expected: str) -> str:
    return f"transform.iree.match.dims_equal %{handle}, [{expected}] : !transform.param<i64>\n"


def operand(checks: str) -> str:
    return f"%in = transform.get_operand %op[0] : (!transform.any_op) -> !transform.any_value\n{checks}"


def named(*names: str) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"transform.match.operation_name %op [{listed}] : !transform.any_op\n"


def producer(of: str, number: int, name: str, checks: str = "") -> str:
    made = f"%p{number} = transform.get_producer_of_operand %{of}[{number}] : (!transform.any_op) -> !transform.any_op"
    return "\n".join(
        [made, *[f'transform.match.operation_name %p{number} ["{name}"] : !transform.any_op'] * bool(name), checks]
    )


def structured(rank: int, loops: str, kind: str, more: str = "") -> str:
    """A generic op of one input of 32 bits and one result, with so many loops, of which some are of a kind."""
    return (
        named("linalg.generic")
        + f"""
    %m = transform.match.structured failures(propagate) %op : (!transform.any_op) -> !transform.any_op {{
    ^bb0(%it: !transform.any_op):
      %1 = transform.param.constant 1 : i64 -> !transform.param<i64>
      %r = transform.param.constant {rank} : i64 -> !transform.param<i64>
      %rank = transform.match.structured.rank %it : (!transform.any_op) -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %r : !transform.param<i64>
      "transform.match.structured.dim"(%it) <{{{loops}, {kind}}}> : (!transform.any_op) -> ()
      %ins = transform.match.structured.num_inputs %it : (!transform.any_op) -> !transform.param<i64>
      transform.match.param.cmpi eq %ins, %1 : !transform.param<i64>
      %outs = transform.match.structured.num_inits %it : (!transform.any_op) -> !transform.param<i64>
      transform.match.param.cmpi eq %outs, %1 : !transform.param<i64>
      %out = transform.match.structured.init %it[0] : (!transform.any_op) -> !transform.any_value
      %bits = transform.match.structured.elemental_bitwidth %out : (!transform.any_value) -> !transform.param<i64>
      %32 = transform.param.constant 32 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %bits, %32 : !transform.param<i64>
      transform.match.structured.yield %it : !transform.any_op
    }}
    {more}"""
    )


_UNTUNED = "transform.iree.match.has_no_lowering_config %op : !transform.any_op\n"
_REGIONS = """
    transform.iree.match.regions %op : !transform.any_op {{
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %0 = linalg.generic {{indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []}}
          ins(%x : tensor<f32>) outs(%y : tensor<f32>) {{
      ^bb0(%in: f32, %out: f32):
        %1 = {} %in : f32
        linalg.yield %1 : f32
      }} -> tensor<f32>
    }}
"""
_MN = _maps("a, c", "c, b", "a, b")
_NK = _maps("a, c", "b, c", "a, b")
_CONV = _maps("a, b + e, c + f, g", "e, f, g, d", "a, b, c, d")
_STRIDED = _maps("a, b * 2 + e, c * 2 + f, g", "e, f, g, d", "a, b, c, d")
_ATTENTION = _maps("a, b, d", "a, e, d", "a, e, c", "", "a, b, c")
_DAG = """
    %ins, %out = transform.iree.match.cast_compatible_dag_from_root %op {{
    ^bb0({arguments}%e: tensor<32x48xf32>):
      {given}
      %named = linalg.matmul {{place = "named"{only}}} ins(%l, %r : tensor<?x?xf16>, tensor<?x?xf16>)
          outs(%t : tensor<?x?xf32>) -> tensor<?x?xf32>
      {root}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
"""
_ARGUMENTS = "%l: tensor<?x?xf16>, %r: tensor<?x?xf16>, %t: tensor<?x?xf32>, "
_MADE = """%i = arith.constant 1 : index
      %l = tensor.empty(%i, %i) : tensor<?x?xf16>
      %r = tensor.empty(%i, %i) : tensor<?x?xf16>
      %t = tensor.empty(%i, %i) : tensor<?x?xf32>"""
_ROWS = """%rows = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
          iterator_types = ["parallel", "parallel"]} ins(%named : tensor<?x?xf32>) outs(%e : tensor<32x48xf32>)
          attrs = {place = "rows"} {
      ^bb0(%x: f32, %y: f32):
        %0 = math.absf %x : f32
        linalg.yield %0 : f32
      } -> tensor<32x48xf32>"""

# What each spec tags, by the ops' places.
CASES: dict[str, tuple[str, dict[str, str]]] = {
    "a contraction under any name and start": (
        spec_of(product=contraction(_MN)),
        {"named": "product", "added": "product"},
    ),
    "the first that holds": (
        spec_of(
            wide=contraction(_MN, sizes("n", "100")), exact=contraction(_MN, sizes("k", "64")), rest=contraction(_NK)
        ),
        {"named": "exact", "added": "exact", "transposed": "rest"},
    ),
    "a contraction of other types": (spec_of(product=contraction(_MN, types=("f32", "f32", "f32"))), {}),
    "contractions of any indexing maps": (
        spec_of(
            two=anyhow(sizes("m", "32, 32")),
            wide=anyhow(sizes("n", "100")),
            named=named("linalg.matmul") + anyhow(sizes("b", "") + sizes("k", "-1")),
            rest=anyhow(
                "%k0 = transform.param.constant 64 : i64 -> !transform.param<i64>\n"
                "transform.match.param.cmpi eq %k, %k0 : !transform.param<i64>"
            ),
        ),
        {"named": "named", "added": "named", "transposed": "rest"},
    ),
    "sizes compared": (
        spec_of(
            small=contraction(
                _NK,
                "%limit = transform.param.constant 48 : i64 -> !transform.param<i64>\n"
                "transform.match.param.cmpi lt %n, %limit : !transform.param<i64>",
            ),
            enough=contraction(
                _NK,
                "%limit = transform.param.constant 48 : i64 -> !transform.param<i64>\n"
                "transform.match.param.cmpi le %n, %limit : !transform.param<i64>",
            ),
        ),
        {"transposed": "enough"},
    ),
    "a convolution": (spec_of(conv=convolution(_CONV)), {"conv": "conv"}),
    "a convolution with strides and sizes": (
        spec_of(
            wrong=convolution(_STRIDED, sizes("i", "4, 5")),
            conv=convolution(
                _STRIDED,
                sizes("b", "1")
                + sizes("i", "4, 4")
                + sizes("oc", "8")
                + sizes("f", "3, 3")
                + sizes("ic", "4")
                + sizes("d", "")
                + sizes("st", "2, 2")
                + sizes("di", "1, 1"),
            ),
        ),
        {"strided": "conv"},
    ),
    "attention": (
        spec_of(
            wrong=attention(_ATTENTION, sizes("k1", "5")),
            attention=attention(
                _ATTENTION,
                sizes("b", "2") + sizes("m", "6") + sizes("n", "7") + sizes("k1", "4") + sizes("k2", "5"),
            ),
        ),
        {"attention": "attention"},
    ),
    "attention with other maps": (
        spec_of(attention=attention(_maps("a, b, d", "a, d, e", "a, e, c", "", "a, b, c"))),
        {},
    ),
    "an op by its name": (
        spec_of(matmul=named("linalg.matmul"), other=named("linalg.conv_2d_nhwc_hwcf", "linalg.generic")),
        {
            "named": "matmul",
            "added": "matmul",
            "transposed": "other",
            "conv": "other",
            "strided": "other",
            "rows": "other",
        },
    ),
    "an op by its name and the type of an operand": (
        spec_of(
            half=named("linalg.generic")
            + operand("transform.iree.match.cast_compatible_type %in = tensor<?x64xf16> : !transform.any_value"),
            rest=named("linalg.generic"),
        ),
        {"transposed": "half", "rows": "rest"},
    ),
    "an op by its name and the dims of an operand": (
        spec_of(
            eight=named("linalg.generic")
            + operand("transform.iree.match.dim_is_multiple_of %in[1], 64 : !transform.any_value"),
            wide=named("linalg.generic")
            + operand("transform.iree.match.dim_bounds %in[1], umin = 40, none : !transform.any_value"),
        ),
        {"transposed": "eight", "rows": "wide"},
    ),
    "ops in a row": (spec_of(rows=_DAG.format(arguments=_ARGUMENTS, given="", only="", root=_ROWS)), {"rows": "rows"}),
    "an op compared by its name alone": (
        spec_of(rows=_DAG.format(arguments="", given=_MADE, only=', "match.operation_name_only"', root=_ROWS)),
        {"rows": "rows"},
    ),
    "no lowering config yet": (
        spec_of(
            matmul="transform.iree.match.has_no_lowering_config %op : !transform.any_op\n" + named("linalg.matmul"),
        ),
        {"named": "matmul"},
    ),
    "no lowering config yet, of a contraction": (
        spec_of(
            product=_UNTUNED + contraction(_MN),
            tuned=contraction(_MN),
            transposed=contraction(_NK, _UNTUNED),
            conv=_UNTUNED + convolution(_CONV),
        ),
        {"named": "product", "added": "tuned", "transposed": "transposed", "conv": "conv"},
    ),
    "no lowering config yet, of ops in a row": (
        spec_of(rows=_DAG.format(arguments=_ARGUMENTS, given="", only="", root=_ROWS) + _UNTUNED),
        {"rows": "rows"},
    ),
    "operands of attention": (
        spec_of(
            wrong=attention(
                _ATTENTION, operand("transform.iree.match.dim_is_multiple_of %in[1], 4 : !transform.any_value")
            ),
            attention=attention(
                _ATTENTION,
                operand("transform.iree.match.cast_compatible_type %in = tensor<?x6x4xf16> : !transform.any_value"),
            ),
        ),
        {"attention": "attention"},
    ),
    "bodies": (
        spec_of(
            other=named("linalg.generic") + _REGIONS.format("math.exp"),
            rows=named("linalg.generic") + _REGIONS.format("math.absf"),
        ),
        {"rows": "rows"},
    ),
    "loops, operands and widths of structured ops": (
        spec_of(
            three=structured(3, "raw_dim_list = array<i64: 0>", "parallel"),
            summed=structured(2, "raw_dim_list = array<i64: -1>", "reduction"),
            rows=structured(2, "raw_dim_list = array<i64: 0>, is_inverted", "parallel"),
        ),
        {"rows": "rows"},
    ),
    "all loops of structured ops, and their bodies": (
        spec_of(
            other=structured(2, "raw_dim_list = array<i64: 0, 1>", "parallel", _REGIONS.format("math.exp")),
            rows=structured(2, "raw_dim_list = array<i64>, is_all", "parallel", _REGIONS.format("math.absf")),
        ),
        {"rows": "rows"},
    ),
    "what makes an operand": (
        spec_of(
            rows=named("linalg.generic") + producer("op", 0, "linalg.matmul"),
            cleared=named("linalg.matmul", "linalg.generic")
            + producer(
                "op",
                2,
                "linalg.fill",
                "%out = transform.get_operand %p2[1] : (!transform.any_op) -> !transform.any_value\n"
                "transform.iree.match.cast_compatible_type %out = tensor<?x48xf32> : !transform.any_value",
            ),
            any=named("linalg.matmul", "linalg.conv_2d_nhwc_hwcf") + producer("op", 2, ""),
        ),
        {"named": "cleared", "transposed": "cleared", "rows": "rows"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_same_ops_are_marked(case: str, context: ir.Context) -> None:
    spec, expected = CASES[case]
    back = imported(spec, context)
    assert not back.left_out
    assert tags(by_iree(PROGRAM, spec, context)) == expected
    assert tags(by_us(PROGRAM, back.text, context)) == expected


# What stock IREE marks no longer where it is exported again: templates compare all attributes.
_ONE_WAY = {
    "ops in a row",
    "an op compared by its name alone",
    "no lowering config yet, of ops in a row",
    "loops, operands and widths of structured ops",
}


@pytest.mark.parametrize("case", [case for case in CASES if case not in _ONE_WAY])
def test_what_is_imported_is_exported_again(case: str, context: ir.Context) -> None:
    spec, expected = CASES[case]
    back = imported(spec, context)
    again = exported(load_text(back.text))
    assert not again.gaps
    assert tags(by_iree(PROGRAM, again.text, context)) == expected
    twice = imported(again.text, context)
    assert not twice.left_out
    assert tags(by_us(PROGRAM, twice.text, context)) == expected


ONLINE = """
#query = affine_map<(b, m, n, d, k) -> (b, m, d)>
#key = affine_map<(b, m, n, d, k) -> (b, k, d)>
#value = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
#rows = affine_map<(b, m, n, d, k) -> (b, m)>
util.func @main(%q: tensor<2x6x4xf16>, %k: tensor<2x5x4xf16>, %v: tensor<2x5x7xf16>, %s: f16, %o: tensor<2x6x7xf32>,
                %max: tensor<2x6xf32>, %sum: tensor<2x6xf32>) -> (tensor<2x6x7xf32>, tensor<2x6xf32>) {
  %0:3 = iree_linalg_ext.online_attention <indexing_maps = [#query, #key, #value, #scale, #out, #rows, #rows]>
      {place = "online"} ins(%q, %k, %v, %s : tensor<2x6x4xf16>, tensor<2x5x4xf16>, tensor<2x5x7xf16>, f16)
      outs(%o, %max, %sum : tensor<2x6x7xf32>, tensor<2x6xf32>, tensor<2x6xf32>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x6x7xf32>, tensor<2x6xf32>, tensor<2x6xf32>
  util.return %0#0, %0#2 : tensor<2x6x7xf32>, tensor<2x6xf32>
}
"""


def online(checks: str) -> str:
    maps = _maps("a, b, d", "a, e, d", "a, e, c", "", "a, b, c", "a, b", "a, b")
    return (
        "%b, %m, %n, %k1, %k2 = transform.iree.match.online_attention %op, query_type = f16, key_type = f16, "
        "value_type = f16, scale_type = f16, output_type = f32, max_type = f32, sum_type = f32, "
        f"indexing_maps = {maps} : !transform.any_op -> !transform.param<i64>\n{checks}"
    )


def test_attention_that_also_makes_values_for_each_row(context: ir.Context) -> None:
    spec = spec_of(wrong=online(sizes("k2", "6")), online=_UNTUNED + online(sizes("n", "7") + sizes("k2", "5")))
    back = imported(spec, context)
    assert not back.left_out
    assert tags(by_iree(ONLINE, spec, context)) == tags(by_us(ONLINE, back.text, context)) == {"online": "online"}
    again = exported(load_text(back.text))
    assert not again.gaps
    assert tags(by_iree(ONLINE, again.text, context)) == {"online": "online"}
    other = spec_of(other=online("").replace("sum_type = f32", "sum_type = f16"))
    assert tags(by_us(ONLINE, imported(other, context).text, context)) == {}


def test_a_spec_that_tunes_dispatches_is_read_and_not_run(tmp_path: Path) -> None:
    spec = spec_of(product=_UNTUNED + contraction(_MN)).replace("@__transform_main(%module", "@__kernel_config(%module")
    (tmp_path / "tuning.mlir").write_text(spec)
    assert 'lacks("lowering_config")' in spec_import.import_file(tmp_path / "tuning.mlir").text
    (tmp_path / "model.mlir").write_text("module {}")
    with pytest.raises(OpspliceError) as caught:
        opsplice.transform(tmp_path / "model.mlir", [tmp_path / "tuning.mlir"])
    assert "--iree-codegen-tuning-spec-path=" in caught.value.hint


SIGNS = """
#mk = affine_map<(m, n, k) -> (m, k)>
#kn = affine_map<(m, n, k) -> (k, n)>
#mn = affine_map<(m, n, k) -> (m, n)>
util.func @main(%a: tensor<4x8xi8>, %b: tensor<8x6xi8>, %c: tensor<4x6xi32>) -> (tensor<4x6xi32>, tensor<4x6xi32>,
    tensor<4x6xi32>) {
  %0 = linalg.matmul {place = "signed"} ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>)
      outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  %1 = linalg.matmul {place = "unsigned", cast = #linalg.type_fn<cast_unsigned>}
      ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  %2 = linalg.generic {indexing_maps = [#mk, #kn, #mn], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%c : tensor<4x6xi32>) attrs = {place = "both"} {
  ^bb0(%x: i8, %y: i8, %o: i32):
    %3 = arith.extui %x : i8 to i32
    %4 = arith.extsi %y : i8 to i32
    %5 = arith.muli %3, %4 : i32
    %6 = arith.addi %o, %5 : i32
    linalg.yield %6 : i32
  } -> tensor<4x6xi32>
  util.return %0, %1, %2 : tensor<4x6xi32>, tensor<4x6xi32>, tensor<4x6xi32>
}
"""
MASKS = """
#query = affine_map<(b, m, n, d, k) -> (b, m, d)>
#key = affine_map<(b, m, n, d, k) -> (b, k, d)>
#value = affine_map<(b, m, n, d, k) -> (b, k, n)>
#scale = affine_map<(b, m, n, d, k) -> ()>
#mask = affine_map<(b, m, n, d, k) -> (b, m, k)>
#out = affine_map<(b, m, n, d, k) -> (b, m, n)>
util.func @main(%q: tensor<2x6x4xf16>, %k: tensor<2x5x4xf16>, %v: tensor<2x5x7xf16>, %s: f16, %o: tensor<2x6x7xf16>,
    %float: tensor<2x6x5xf16>, %bool: tensor<2x6x5xi1>) -> (tensor<2x6x7xf16>, tensor<2x6x7xf16>) {
  %0 = iree_linalg_ext.attention <indexing_maps = [#query, #key, #value, #scale, #mask, #out]> {place = "floats"}
      ins(%q, %k, %v, %s, %float : tensor<2x6x4xf16>, tensor<2x5x4xf16>, tensor<2x5x7xf16>, f16, tensor<2x6x5xf16>)
      outs(%o : tensor<2x6x7xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x6x7xf16>
  %1 = iree_linalg_ext.attention <indexing_maps = [#query, #key, #value, #scale, #mask, #out]> {place = "bools"}
      ins(%q, %k, %v, %s, %bool : tensor<2x6x4xf16>, tensor<2x5x4xf16>, tensor<2x5x7xf16>, f16, tensor<2x6x5xi1>)
      outs(%o : tensor<2x6x7xf16>) {
  ^bb0(%score: f32):
    iree_linalg_ext.yield %score : f32
  } -> tensor<2x6x7xf16>
  util.return %0, %1 : tensor<2x6x7xf16>, tensor<2x6x7xf16>
}
"""
_SOFTMAX = """%ins, %out = transform.iree.match.cast_compatible_dag_from_root %op {
    ^bb0(%x: tensor<?x8xf32>, %e: tensor<?x8xf32>):
      %0 = linalg.softmax {place = "last"} dimension(1) ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>)
          -> tensor<?x8xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)"""
SOFTMAX = """
util.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.softmax {place = "first"} dimension(0) ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  %1 = linalg.softmax {place = "last"} dimension(1) ins(%x : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>)
      -> tensor<4x8xf32>
  util.return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
"""


@pytest.mark.parametrize(
    ("program", "body", "tagged"),
    [
        (SIGNS, contraction(_MN, types=("i8", "i8", "i32")), {"signed", "unsigned", "both"}),
        (MASKS, attention(_maps("a, b, d", "a, e, d", "a, e, c", "", "a, b, e", "a, b, c")), {"floats", "bools"}),
        (SOFTMAX, _SOFTMAX, {"last"}),
    ],
)
def test_the_same_ops_are_marked_in_other_programs(
    program: str, body: str, tagged: set[str], context: ir.Context
) -> None:
    spec = spec_of(it=body)
    back = imported(spec, context)
    assert not back.left_out
    expected = dict.fromkeys(tagged, "it")
    assert tags(by_iree(program, spec, context)) == expected
    assert tags(by_us(program, back.text, context)) == expected


UNREADABLE = {
    "a root that patterns look through": (
        named("math.absf", "tensor.expand_shape"),
        "no pattern finds it: tensor.expand_shape is looked through",
    ),
    "sizes of a contraction of any shape compared": (
        anyhow(
            "%k0 = transform.param.constant 64 : i64 -> !transform.param<i64>\n"
            "transform.match.param.cmpi lt %k, %k0 : !transform.param<i64>"
        ),
        "transform.match.param.cmpi: a comparison that patterns have no words for",
    ),
    "loops without their number": (
        structured(2, "raw_dim_list = array<i64: 0>", "parallel").replace(
            "transform.match.param.cmpi eq %rank, %r : !transform.param<i64>", ""
        ),
        "transform.match.operation_name: kinds of loops without their number",
    ),
    "loops of named ops": (
        structured(2, "raw_dim_list = array<i64: 0>", "parallel").replace("linalg.generic", "linalg.add"),
        "transform.match.operation_name: loops of other ops than linalg.generic",
    ),
    "all operands of a structured op": (
        structured(2, "raw_dim_list = array<i64: 0>", "parallel").replace("init %it[0]", "init %it[all]"),
        "transform.match.structured.init: other than one operand by its place from the start",
    ),
    "a loop that there is not": (
        structured(2, "raw_dim_list = array<i64: 2>", "parallel"),
        "transform.match.structured.dim: it never holds: a loop that is none of 2",
    ),
    "names of which no op has two": (
        named("math.absf") + named("math.exp"),
        "transform.match.operation_name: it never holds: the op has another name",
    ),
    "what never holds": (
        convolution(_STRIDED, sizes("st", "1, 1")),
        "transform.iree.match.dims_equal: it never holds: the indexing maps say 2",
    ),
    "other sizes than there are": (
        contraction(_MN, sizes("k", "4, 4")),
        "transform.iree.match.dims_equal: sizes of other dims",
    ),
    "a result in a matcher, where the interpreter stops": (
        named("linalg.generic")
        + "%in = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value\n"
        + "transform.iree.match.cast_compatible_type %in = tensor<?xf16> : !transform.any_value",
        "transform.get_result: the interpreter takes no such op in a matcher",
    ),
    "a template of another op": (
        "%p = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op\n"
        + "%ins, %out = transform.iree.match.cast_compatible_dag_from_root %p {\n^bb0(%x: tensor<?xf32>):\n"
        + "%0 = math.absf %x : tensor<?xf32>\n} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)",
        "cast_compatible_dag_from_root: a template of another op than the one that is matched",
    ),
    "attributes of another op than the root": (
        _DAG.format(arguments=_ARGUMENTS, given="", only="", root=_ROWS)
        + "%p = transform.get_producer_of_operand %op[0] : (!transform.any_op) -> !transform.any_op\n"
        + _UNTUNED.replace("%op", "%p"),
        "transform.iree.match.has_no_lowering_config: a check of another op",
    ),
    "an op without a result": (named("linalg.yield"), "no pattern finds it: linalg.yield makes no value"),
    "dims of what an op makes of unknown type": (
        named("linalg.generic")
        + producer("op", 0, "linalg.matmul")
        + operand("transform.iree.match.dim_is_multiple_of %in[1], 4 : !transform.any_value"),
        "transform.get_producer_of_operand: a check of a dim",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_named(case: str, context: ir.Context) -> None:
    body, why = UNREADABLE[case]
    back = imported(spec_of(matcher=body), context)
    assert not back.rules
    assert len(back.left_out) == 1
    assert why in back.left_out[0]


# What only the meaning of a template says: what sums start from, named ops, windows, dims of size one.
MEANT = """
util.func @main(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %bias: tensor<6xf32>, %image: tensor<1x8x8x4xf32>,
    %window: tensor<2x2xf32>, %most: tensor<1x4x4x4xf32>, %e: tensor<4x6xf32>, %rows: tensor<4xf32>,
    %row: tensor<1x8xf32>) -> (tensor<4x6xf32>, tensor<4xf32>, tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<1x8xf32>) {
  %spread = linalg.broadcast ins(%bias : tensor<6xf32>) outs(%e : tensor<4x6xf32>) dimensions = [0]
  %biased = linalg.matmul ins(%x, %w : tensor<4x8xf32>, tensor<8x6xf32>) outs(%spread : tensor<4x6xf32>)
      -> tensor<4x6xf32>
  %three = arith.constant 3.0 : f32
  %start = linalg.fill ins(%three : f32) outs(%rows : tensor<4xf32>) -> tensor<4xf32>
  %sum = linalg.reduce ins(%x : tensor<4x8xf32>) outs(%start : tensor<4xf32>) dimensions = [1]
      (%a: f32, %b: f32) {
        %0 = arith.addf %a, %b : f32
        linalg.yield %0 : f32
      }
  %pooled = linalg.pooling_nhwc_max {strides = dense<2> : tensor<2xi64>}
      ins(%image, %window : tensor<1x8x8x4xf32>, tensor<2x2xf32>) outs(%most : tensor<1x4x4x4xf32>)
      -> tensor<1x4x4x4xf32>
  %mapped = linalg.map ins(%rows : tensor<4xf32>) outs(%rows : tensor<4xf32>) (%a: f32, %b: f32) {
    %0 = math.exp %a : f32
    linalg.yield %0 : f32
  }
  %doubled = arith.addf %row, %row : tensor<1x8xf32>
  util.return %biased, %sum, %pooled, %mapped, %doubled : tensor<4x6xf32>, tensor<4xf32>, tensor<1x4x4x4xf32>,
      tensor<4xf32>, tensor<1x8xf32>
}
"""
_TEMPLATE = """%ins, %out = transform.iree.match.cast_compatible_dag_from_root %op {{
    ^bb0({}):
      {}
    }} : (!transform.any_op) -> (!transform.any_value, !transform.any_value)"""


def template_of(first: str, last: str, arguments: str) -> str:
    """The ops of the program above from a value to another as a template."""
    start, end = MEANT.index(f"  {first} = "), MEANT.index(f"  {last} = ")
    return _TEMPLATE.format(arguments, MEANT[start:end])


def test_templates_are_read_by_what_they_mean(context: ir.Context) -> None:
    spec = spec_of(
        biased=template_of("%spread", "%three", "%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %bias: tensor<6xf32>, "
                           "%e: tensor<4x6xf32>"),
        sum=template_of("%three", "%pooled", "%x: tensor<4x8xf32>, %rows: tensor<4xf32>"),
        pooled=template_of("%pooled", "%mapped", "%image: tensor<1x8x8x4xf32>, %window: tensor<2x2xf32>, "
                           "%most: tensor<1x4x4x4xf32>"),
        mapped=template_of("%mapped", "%doubled", "%rows: tensor<4xf32>"),
        other=_TEMPLATE.format("%row: tensor<2x8xf32>", "%0 = arith.addf %row, %row : tensor<2x8xf32>"),
        doubled=_TEMPLATE.format("%row: tensor<1x8xf32>", "%0 = arith.addf %row, %row : tensor<1x8xf32>"),
    )  # fmt: skip
    back = imported(spec, context)
    assert not back.left_out
    expected = {
        "linalg.matmul": "biased",
        "linalg.reduce": "sum",
        "linalg.pooling_nhwc_max": "pooled",
        "linalg.map": "mapped",
        "arith.addf": "doubled",
    }
    assert tags(by_iree(MEANT, spec, context)) == expected
    assert tags(by_us(MEANT, back.text, context)) == expected
    assert "addf(contract[m k, k n -> m n](x, w), broadcast[n -> m n](bias))" in back.text
    assert "addf(reduce addf[m n -> m](x), 3.0)" in back.text


def test_a_reshape_that_no_pattern_says_is_named(context: ir.Context) -> None:
    ops = """%0 = arith.negf %x : tensor<2x6xf32>
      %1 = tensor.collapse_shape %0 [[0, 1]] : tensor<2x6xf32> into tensor<12xf32>
      %2 = arith.addf %1, %y : tensor<12xf32>"""
    back = imported(spec_of(it=_TEMPLATE.format("%x: tensor<2x6xf32>, %y: tensor<12xf32>", ops)), context)
    assert "tensor.collapse_shape: it reads elements in windows, or through a reshape" in back.left_out[0]


# A function that is not a shim around a C function: it goes along as MLIR, with what it refers to.
CALL = """
module attributes {transform.with_named_sequence} {
  util.func private @half(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %m = tensor.dim %x, %c0 : tensor<?x?xf32>
    %n = tensor.dim %x, %c1 : tensor<?x?xf32>
    %half = arith.constant 0.5 : f32
    %empty = tensor.empty(%m, %n) : tensor<?x?xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(m, n) -> (m, n)>, affine_map<(m, n) -> (m, n)>],
        iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x?xf32>) outs(%empty : tensor<?x?xf32>) {
    ^bb0(%a: f32, %b: f32):
      %1 = arith.mulf %a, %half : f32
      linalg.yield %1 : f32
    } -> tensor<?x?xf32>
    util.return %0 : tensor<?x?xf32>
  }
  util.func private @product(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %start: tensor<?x?xf32>) -> tensor<?x?xf32> {
    %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%start : tensor<?x?xf32>) -> tensor<?x?xf32>
    %1 = util.call @half(%0) : (tensor<?x?xf32>) -> tensor<?x?xf32>
    util.return %1 : tensor<?x?xf32>
  }
  transform.named_sequence @match(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %out = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>, %start: tensor<?x?xf32>):
      %0 = linalg.matmul ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>)
          outs(%start : tensor<?x?xf32>) -> tensor<?x?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %out : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @call(%ins: !transform.any_value {transform.readonly},
                                 %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %half = transform.util.import_symbol @half into %module if undefined : (!transform.any_op) -> !transform.any_op
    %new = transform.util.import_symbol @product into %module if undefined : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %new(%ins) -> %out after %root {
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @match -> @call : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
MODEL = """
func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x2xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x2xf32>) -> tensor<2x2xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<2x3xf32>, tensor<3x2xf32>) outs(%start : tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}
"""


def test_any_function_is_called_as_inserted_mlir(tmp_path: Path) -> None:
    model = tmp_path / "model.mlir"
    model.write_text(MODEL)
    (tmp_path / "spec.mlir").write_text(CALL)
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "spec.splice")]) == 0
    a, b = (np.arange(6, dtype=np.float32).reshape(shape) for shape in ((2, 3), (3, 2)))
    for name in ("spec.mlir", "spec.splice"):
        program = opsplice.compile(model, [tmp_path / name])
        assert len(program.report.replacements) == 1
        np.testing.assert_array_equal(program.run("main", a, b), a @ b / 2)
