"""Transform specs read back: what was exported matches the same places, what cannot be read is named."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from iree.compiler import ir

import opsplice
from opsplice.cli import main
from opsplice.compiling.splice import graphs_of
from opsplice.matchers.find import engine
from opsplice.rewrites.spelling.spelled_template import Instance
from opsplice.rewrites.spelling.spellings import spellings
from opsplice.rewrites.spelling.templates import spell
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

from ..export.conftest import _graphs, exported
from ..export.test_export_random import program_of, spec_of, templates
from .interpreted import by_us, imported

_KERNEL = re.compile(r"opsplice_\w+")


def rewritten(program: str, spec: str, context: ir.Context) -> dict[str, str]:
    """What each function of a program returns after our engine, with kernels' names left out."""
    return {name: _KERNEL.sub("K", text) for name, text in _graphs(by_us(program, spec, context)).items()}


@settings(deadline=None, max_examples=examples(25, 3000), suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_what_was_exported_is_read_back(seed: int, context: ir.Context) -> None:
    rng = random.Random(seed)
    spec = spec_of(rng)
    found = exported(spec)
    assume(found.rules)
    back = imported(found.text, context)
    assert not back.left_out
    # Where a pattern undoes its own transpose, a function hands on what it has transposed, and goes along as MLIR.
    assume("util.call" not in back.text)
    sizes = rng.choice(({}, {"m": 4, "n": 6, "k": 8}))
    chosen = rng.sample(templates(spec, sizes, context), 3)
    program = "".join(program_of(template, i, rng) for i, (_, template) in enumerate(chosen))
    assert rewritten(program, back.text, context) == rewritten(program, spec, context)


LAYERS = """
kernel linear(x: f32[...m, k], w: f32[k, n], b: f32[n]) -> f32[...m, n] {
  grid (ceildiv(n, 32), max(m, 2))
  cpu x86_64 "k.c"
}
kernel softmax<T in {f32, f64}>(x: T[...m, n]) -> T[...m, n] where n % 8 == 0 { symbol "softmax_{T}" cpu x86_64 "k.c" }
kernel relu(x: f32[8], n: i32) -> f32[8] { cpu x86_64 "k.c" }
kernel product(a: i8[m, k], b: i8[k, n]) -> i32[m, n] { cpu x86_64 "k.c" }
pattern linear_of(x: tensor<...m x k x f32>, w: tensor<k x n x f32>, b: tensor<n x f32>) {
  addf(contract[...m k, k n -> ...m n](x, w), broadcast[n -> ...m n](b))
}
pattern rows<T in {f32, f64}>(x: tensor<...m x n x T>) where n <= 4096 or n == 8192 {
  peak = reduce maximumf[...m n -> ...m](x)
  e = exp(subf(x, broadcast[...m -> ...m n](peak)))
  divf(e, broadcast[...m -> ...m n](reduce addf[...m n -> ...m](e)))
}
pattern quantised(a: tensor<m x k x i8>, b: tensor<k x n x i8>) {
  contract[mk, kn -> mn](a, b) : tensor<m x n x i32>
}
replace linear_of with linear(x, w, b)
replace rows with softmax(x)
replace quantised with product(a, b)
"""


@pytest.mark.parametrize(
    "grid",
    ["(m + 1) * 2", "m % 4 + 1", "max(m - 10, 0) + 2", "ceildiv(m, n)", "max(m, 1)", "m - (n - 3)", "m % n"],
)
def test_a_grid_is_read_back(context: ir.Context, grid: str) -> None:
    spec = f"""
    kernel k(x: f32[m, n]) -> f32[m, n] {{ grid ({grid}) cpu x86_64 "k.c" }}
    pattern p(x: tensor<m x n x f32>) {{ exp(x) }}
    replace p with k(x)
    """
    assert f"grid ({grid})" in imported(exported(spec).text, context).text


def test_packs_types_and_conditions_are_read_back(context: ir.Context) -> None:
    back = imported(exported(LAYERS).text, context)
    assert not back.left_out
    loaded = load_text(back.text)
    assert not [w for w in loaded.warnings if w.severity == "error"]
    # linear of four ranks; rows of four ranks, two types and two ranges; one product. Spellings come to one pattern.
    assert back.rules == 4 + 4 * 2 * 2 + 1
    assert "grid (ceildiv(n, 32), max(rows, 2))" in back.text
    kernels = {k.symbol for k in loaded.kernels.values()}
    assert kernels == {"linear", "softmax_f32", "softmax_f64", "product"}


def test_the_specs_of_the_sample_are_the_same(samples: Path, tmp_path: Path) -> None:
    sample = samples / "mul_abs_negate"
    target = tmp_path / "replace.splice"
    (tmp_path / "functions.c").write_text((sample / "functions.c").read_text())
    assert main(["import", str(sample / "replace.mlir"), "-o", str(target)]) == 0
    ours = opsplice.match(sample / "model.mlir", [sample / "replace.splice"])
    back = opsplice.match(sample / "model.mlir", [target])
    assert [r.location for r in ours.replacements] == [r.location for r in back.replacements]
    assert len(back.replacements) == 2


PACKS = {
    "each element": ("x: T[...m]", "T[...m]", "x: tensor<...m x T>", "OP(x, x)"),
    "two tensors": ("x: T[...m], y: T[...m]", "T[...m]", "x: tensor<...m x T>, y: tensor<...m x T>", "OP(OP(x, y), x)"),
    "a scalar": ("x: T[...m], y: T", "T[...m]", "x: tensor<...m x T>, y: T", "OP(OP(x, y), x)"),
    "a row for each": (
        "x: T[...m, n], y: T[...m]",
        "T[...m, n]",
        "x: tensor<...m x n x T>, y: tensor<...m x T>",
        "OP(x, broadcast[...m -> ...m n](y))",
    ),
    "sums": ("x: T[...m, n]", "T[...m]", "x: tensor<...m x n x T>", "reduce OP[...m n -> ...m](x)"),
}


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("shape", PACKS)
def test_packs_of_all_ranks_are_read_back(shape: str, element: str, context: ir.Context) -> None:
    op = "mulf" if element.endswith(("f16", "f32", "f64")) else "andi" if element == "i1" else "muli"
    buffers, result, inputs, body = (part.replace("T", element).replace("OP", op) for part in PACKS[shape])
    arguments = "x, y" if "y:" in inputs else "x"
    spec = f"""
    kernel k({buffers}) -> {result} {{ cpu "k.c" }}
    pattern p({inputs}) {{ {body} }}
    replace p with k({arguments})
    """
    back = imported(exported(spec).text, context)
    assert not back.left_out
    with context:
        pattern = load_text(spec).patterns["p"]
        made = [
            spell(pattern, {}, Instance({"m": rank}, {}, {}), spelling)
            for rank in range(4)
            for spelling in spellings()
            if spelling.constants == "fill"
            and (rank or "y: T" not in PACKS[shape][2] or spelling.elementwise != "tensor")
        ]
    program = "".join(each.function(f"util.func public @f{number}") for number, each in enumerate(made))
    ours = rewritten(program, spec, context)
    assert rewritten(program, back.text, context) == ours
    assert all("kernel K(" in text for text in ours.values())


UNREAD = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @match(%root: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op
    transform.yield %root : !transform.any_op
  }
  transform.named_sequence @mark(%root: !transform.any_op {transform.readonly}) {
    transform.apply_cse to %root : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @match -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""


def test_what_cannot_be_read_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(UNREAD)
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice")]) == 1
    said = capsys.readouterr().err
    assert "1 thing in" in said
    assert "spec.mlir:8:5: transform.apply_cse: an action of a kind" in said
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice"), "--partial"]) == 0
    assert "1 pattern and 0 rules" in capsys.readouterr().err
    assert (tmp_path / "x.splice").read_text() == 'pattern match() {\n  "linalg.matmul"(...) {...}\n}\n'


def test_a_spec_of_which_nothing_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(UNREAD.replace('transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op', ""))
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice"), "--partial"]) == 1
    said = capsys.readouterr().err
    assert "nothing of" in said
    assert "spec.mlir:3:3: transform.named_sequence: a matcher with neither" in said


def test_partial_imports_the_rest(samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (samples / "mul_abs_negate" / "replace.mlir").read_text()
    text = text.replace(
        "%magnitude = math.absf %product : tensor<?xf32>",
        '%magnitude = math.absf %product {"match.operation_name_only"} : tensor<?xf32>',
    )
    (tmp_path / "spec.mlir").write_text(text)
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "x.splice"), "--partial", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rules"] == 1
    assert len(found["left_out"]) == 1
    assert "util.func: its argument 0 has a dim that no input has" in found["left_out"][0]


CONTRACTION = """
  transform.named_sequence @match_contraction(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_op) {
    transform.match.operation_name %root ["linalg.matmul"] : !transform.any_op
    %batch, %m, %n, %k = transform.iree.match.contraction %root,
        lhs_type = f32, rhs_type = f32, output_type = f32,
        indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>,
                         affine_map<(d0, d1, d2) -> (d0, d1)>] : !transform.any_op -> !transform.param<i64>
    transform.iree.match.dims_equal %batch, [] : !transform.param<i64>
    transform.iree.match.dims_equal %n, [32] : !transform.param<i64>
    transform.iree.match.dims_equal %k, [-1] : !transform.param<i64>
    %lhs = transform.get_operand %root[0] : (!transform.any_op) -> !transform.any_value
    %rhs = transform.get_operand %root[1] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.dim_is_multiple_of %lhs[1], 16 : !transform.any_value
    %ins = transform.get_operand %root[0, 1] : (!transform.any_op) -> !transform.any_value
    transform.yield %ins, %root : !transform.any_value, !transform.any_op
  }
"""


def test_contraction_matchers_with_their_dims(context: ir.Context) -> None:
    spec = """
    kernel product(x: f32[m, k], w: f32[k, n]) -> f32[m, n] { grid (m) cpu x86_64 "k.c" }
    pattern product_of(x: tensor<m x k x f32>, w: tensor<k x n x f32>) { contract[mk, kn -> mn](x, w) }
    replace product_of with product(x, w)
    """
    text = exported(spec).text
    entry = text.index("  transform.named_sequence @__transform_main")
    text = text[:entry] + CONTRACTION + text[entry:]
    text = re.sub(r"@match_0\w+ ->", "@match_contraction ->", text, count=1)
    text = re.sub(r",\s*@match_0\w+ -> @\w+", "", text)
    # Only an action can ask for a result.
    text = text.replace(
        "%out: !transform.any_value {transform.readonly}) {\n"
        "    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op\n",
        "%root: !transform.any_op {transform.readonly}) {\n"
        "    %out = transform.get_result %root[0] : (!transform.any_op) -> !transform.any_value\n",
    )
    back = imported(text, context)
    assert not back.left_out
    pattern = next(iter(load_text(back.text).patterns.values()))
    written = pattern.span.source.text[pattern.span.start : pattern.span.end]
    assert "contract[m k, k n -> m n](x, w)" in " ".join(written.split())
    assert "where n == 32 and k % 16 == 0" in " ".join(written.split())


def test_a_spec_on_which_the_compiler_crashes(
    samples: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """IREE 3.13 warns of a matcher that is used twice, and crashes on printing that."""
    text = (samples / "mul_abs_negate" / "replace.mlir").read_text()
    pair = "@match_on_tensors -> @cast_and_call,"
    (tmp_path / "spec.mlir").write_text(text.replace(pair, f"{pair}\n{pair}"))
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "x.splice")]) == 1
    assert "IREE's compiler crashed" in capsys.readouterr().err


INNER = """
module attributes {transform.with_named_sequence} {
  util.func private @made(%x: tensor<?xf32>) -> tensor<?xf32> {
    %0 = math.sqrt %x : tensor<?xf32>
    util.return %0 : tensor<?xf32>
  }
  transform.named_sequence @match(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_op, !transform.any_op, !transform.any_value) {
    %ins, %out = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%x: tensor<?xf32>):
      %0 = arith.negf %x : tensor<?xf32>
      %1 = math.absf %0 : tensor<?xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    %inner = transform.get_producer_of_operand %root[0] : (!transform.any_op) -> !transform.any_op
    transform.yield %root, %inner, %ins : !transform.any_op, !transform.any_op, !transform.any_value
  }
  transform.named_sequence @act(%root: !transform.any_op {transform.readonly},
      %inner: !transform.any_op {transform.readonly}, %ins: !transform.any_value {transform.readonly}) {
    ACTION
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @match -> @act : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
TWO = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0:2 = linalg.generic {indexing_maps = [affine_map<(n) -> (n)>, affine_map<(n) -> (n)>, affine_map<(n) -> (n)>],
      iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e, %e : tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%in: f32, %a: f32, %b: f32):
    %1 = math.sqrt %in : f32
    linalg.yield %in, %1 : f32, f32
  } -> (tensor<4xf32>, tensor<4xf32>)
  return %0#1 : tensor<4xf32>
}
"""
_CALL = """%module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    %new = transform.util.import_symbol @made into %module if undefined : (!transform.any_op) -> !transform.any_op
    %out = transform.get_result %{}[0] : (!transform.any_op) -> !transform.any_value
    transform.util.cast_and_call %new(%ins) -> %out after %{} {{
      transform.type_conversion.tensor.cast_shape_dynamic_dims
    }} : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op"""


@pytest.mark.parametrize(
    ("action", "why"),
    [
        ('transform.annotate %inner "tag" : !transform.any_op', "an attribute of another op than the root"),
        (
            'transform.annotate %root "a" : !transform.any_op\n transform.annotate %inner "b" : !transform.any_op',
            "an attribute of another op than the root",
        ),
        (_CALL.format("inner", "inner"), "a call that replaces other than the root's result"),
    ],
)
def test_what_is_done_to_other_ops_than_the_root_is_named(action: str, why: str, context: ir.Context) -> None:
    back = imported(INNER.replace("ACTION", action), context)
    assert not back.rules
    assert len(back.left_out) == 1
    assert why in back.left_out[0]


@pytest.mark.parametrize("action", ['transform.annotate %root "tag" : !transform.any_op', _CALL.format("root", "root")])
def test_what_is_done_to_the_root_is_read(action: str, context: ir.Context) -> None:
    back = imported(INNER.replace("ACTION", action), context)
    assert not back.left_out
    assert back.rules == 1


_CLEANED = """%1 = transform.apply_registered_pass "cse" to %0 : (!transform.any_op) -> !transform.any_op
    %functions = transform.structured.match ops{["util.func"]} in %1 : (!transform.any_op) -> !transform.any_op
    %2 = transform.apply_registered_pass "canonicalize" to %functions : (!transform.any_op) -> !transform.any_op"""


def test_passes_after_matching_run_at_the_next_phase_there_and_back(context: ir.Context) -> None:
    end = "    transform.yield\n  }\n}"
    tagged = INNER.replace("ACTION", 'transform.annotate %root "tag" : !transform.any_op')
    back = imported(tagged.replace(end, f"    {_CLEANED}\n{end}"), context)
    assert not back.left_out
    runs = [line for line in back.text.splitlines() if line.startswith("run")]
    assert runs == ['run "cse" at global-optimization', 'run "util.func(canonicalize)" at global-optimization']
    again = exported(load_text(back.text))
    assert not again.gaps
    assert again.text.index("collect_matching") < again.text.index('"cse"') < again.text.index('"canonicalize"')
    assert imported(again.text, context).text.splitlines()[:2] == runs


def test_matching_after_a_pass_that_follows_other_matching_is_named(context: ir.Context) -> None:
    tagged = INNER.replace("ACTION", 'transform.annotate %root "tag" : !transform.any_op')
    end = "    transform.yield\n  }\n}"
    more = "%3 = transform.foreach_match in %1 @match -> @act : (!transform.any_op) -> !transform.any_op"
    back = imported(tagged.replace(end, f"    {_CLEANED}\n    {more}\n{end}"), context)
    assert back.rules == 1
    assert len(back.left_out) == 1
    assert "transform.foreach_match: matching after the pass at" in back.left_out[0]


def test_a_call_in_the_place_of_a_second_result_is_read(context: ir.Context) -> None:
    text = INNER.replace("ACTION", _CALL.format("root", "root").replace("get_result %root[0]", "get_result %root[1]"))
    start, end = text.index("    %ins, %out = "), text.index("    %inner =")
    asked = """transform.match.operation_name %root ["linalg.generic"] : !transform.any_op
    %ins = transform.get_operand %root[0] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %ins = tensor<?xf32> : !transform.any_value
"""
    inner = "%inner = transform.get_producer_of_operand %root[0] : (!transform.any_op) -> !transform.any_op"
    same = "%inner = transform.merge_handles %root : !transform.any_op"
    back = imported((text[:start] + asked + text[end:]).replace(inner, same), context)
    assert not back.left_out
    module = ir.Module.parse(TWO, context=context)
    found = engine.find(module, graphs_of(load_text(back.text)))
    assert [ir.OpResult(root).result_number for match in found.matches for root in match.roots] == [1]


def test_a_sequence_without_a_body_is_named(context: ir.Context) -> None:
    text = INNER.replace("ACTION", "")
    for name, arguments in (("match", 1), ("act", 3)):
        start = text.index(f"  transform.named_sequence @{name}(")
        end = text.index("  }\n", text.index("transform.yield", start)) + 4
        results = " -> (!transform.any_op, !transform.any_op, !transform.any_value)" if name == "match" else ""
        kinds = ["!transform.any_op", "!transform.any_op", "!transform.any_value"][:arguments]
        given = ", ".join(f"%{i}: {kind} {{transform.readonly}}" for i, kind in enumerate(kinds))
        declared = f"  transform.named_sequence private @{name}({given}){results}\n"
        back = imported(text[:start] + declared + text[end:], context)
        assert not back.rules
        assert "transform.named_sequence: no sequence with a body" in back.left_out[0]


def test_a_constant_in_a_resource_is_named(context: ir.Context) -> None:
    text = INNER.replace("ACTION", _CALL.format("root", "root")).replace("tensor<?xf32>", "tensor<2xf32>")
    text = text.replace(
        "%0 = math.sqrt %x : tensor<2xf32>",
        "%c = arith.constant dense_resource<blob> : tensor<2xf32>\n%0 = arith.addf %x, %c : tensor<2xf32>",
    )
    blob = '{-# dialect_resources: { builtin: { blob: "0x04000000000000000000803F" } } #-}'
    back = imported(f"{text}\n{blob}", context)
    assert not back.rules
    assert "util.func: a constant in a resource of the file" in back.left_out[0]


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("tensor<*xf32>", "cast_compatible_dag_from_root: an argument of type tensor<*xf32>"),
        ("vector<4xf32>", "cast_compatible_dag_from_root: an argument of type vector<4xf32>"),
    ],
)
def test_arguments_of_other_types_are_named(argument: str, why: str, context: ir.Context) -> None:
    text = INNER.replace("ACTION", 'transform.annotate %root "tag" : !transform.any_op')
    start = text.index("    ^bb0")
    back = imported(text[:start] + text[start:].replace("tensor<?xf32>", argument), context)
    assert why in back.left_out[0]


def test_a_constant_that_is_no_number_is_named(context: ir.Context) -> None:
    text = INNER.replace("ACTION", 'transform.annotate %root "tag" : !transform.any_op')
    nan = "%c = arith.constant dense<0x7FC00000> : tensor<4xf32>\n %0 = arith.addf %x, %c : tensor<4xf32>"
    text = text.replace("%0 = arith.negf %x : tensor<?xf32>", nan).replace("tensor<?xf32>", "tensor<4xf32>")
    assert "arith.addf: it holds the constant NaN" in imported(text, context).left_out[0]


@pytest.mark.parametrize("name", ["negf", '"3d-match"', '"match é"', "softmax", "contract", "kernel0"])
def test_matchers_of_any_name_become_patterns(name: str, context: ir.Context) -> None:
    text = INNER.replace("ACTION", _CALL.format("root", "root"))
    back = imported(text.replace("@match", f"@{name}"), context)
    assert not back.left_out
    loaded = load_text(back.text)
    assert len(loaded.patterns) == len(loaded.rules) == 1


# f32 times what is widened to f32: no contraction of our language, which has operands of one type.
MIXED = """
func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<4x6xf32>
  %start = linalg.fill ins(%zero : f32) outs(%empty : tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m,n,k) -> (m,k)>, affine_map<(m,n,k) -> (k,n)>,
      affine_map<(m,n,k) -> (m,n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x8xf32>, tensor<8x6xf16>) outs(%start : tensor<4x6xf32>) {
  ^bb0(%x: f32, %y: f16, %o: f32):
    %1 = arith.extf %y : f16 to f32
    %2 = arith.mulf %x, %1 : f32
    %3 = arith.addf %o, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
"""


def test_products_of_two_types_are_read(context: ir.Context) -> None:
    body = "\n".join(MIXED.splitlines()[2:-2])
    text = INNER.replace("ACTION", 'transform.annotate %root "tag" : !transform.any_op')
    start, end = text.index("    ^bb0"), text.index("    } :")
    block = f"^bb0(%a: tensor<4x8xf32>, %b: tensor<8x6xf16>):\n{body}\n"
    back = imported(text[:start] + block + text[end:], context)
    assert not back.left_out
    found = engine.find(ir.Module.parse(MIXED, context=context), graphs_of(load_text(back.text)))
    assert len(found.matches) == 1


def test_a_function_is_called_where_the_program_has_dims_of_size_one(tmp_path: Path) -> None:
    """IREE's matcher leaves it alone; a pattern looks through them, and then the call has to fit."""
    (tmp_path / "spec.mlir").write_text(INNER.replace("ACTION", _CALL.format("root", "root")))
    (tmp_path / "model.mlir").write_text("""
    func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %0 = arith.negf %x : tensor<1x4xf32>
      %1 = math.absf %0 : tensor<1x4xf32>
      return %1 : tensor<1x4xf32>
    }
    """)
    assert main(["import", str(tmp_path / "spec.mlir"), "-o", str(tmp_path / "spec.splice")]) == 0
    program = opsplice.compile(tmp_path / "model.mlir", [tmp_path / "spec.splice"])
    assert len(program.report.replacements) == 1
    x = np.array([[1, 4, 9, 16]], np.float32)
    np.testing.assert_array_equal(program.run("main", x), np.sqrt(x))


def test_a_spec_that_does_nothing_is_named_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.mlir"
    start, end = UNREAD.index("    %0 = transform.foreach_match"), UNREAD.index("    transform.yield\n  }\n}")
    path.write_text(UNREAD[:start] + UNREAD[end:])
    assert main(["import", str(path), "-o", str(tmp_path / "x.splice")]) == 1
    assert "@__transform_main matches nothing, sets no attributes and runs no passes" in capsys.readouterr().err
