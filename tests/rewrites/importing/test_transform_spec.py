"""Transform specs that IREE's interpreter does not carry out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.api import Session

import opsplice
from opsplice.common.errors import OpspliceError
from opsplice.rewrites.ir.symbols import Brought
from opsplice.rewrites.transform_dialect import interpreter
from opsplice.rewrites.transform_dialect.interpreter import Change

SPEC = """
module attributes {transform.with_named_sequence} {
  MATCH
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    transform.annotate %op "tag" : !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    PASS
    %0 = transform.foreach_match in %module @match -> @mark : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
"""
_HEAD = "transform.named_sequence{} @match(%op: !transform.any_op {{transform.readonly}}) -> !transform.any_op"
_KIND = "(!transform.any_op) -> !transform.any_op"


@pytest.mark.parametrize(
    ("match", "passes", "why"),
    [
        (
            _HEAD.format("") + "{\n%r = transform.get_result %op[0] : (!transform.any_op) -> !transform.any_value\n"
            "transform.yield %op : !transform.any_op\n}",
            "",
            "spec.mlir:4:6: expected operations in the match part to implement MatchOpInterface",
        ),
        (_HEAD.format(" private"), "", "unresolved external symbol @match"),
        (
            _HEAD.format("") + "{\ntransform.yield %op : !transform.any_op\n}",
            f'%1 = transform.apply_registered_pass "no-such-pass" to %module : {_KIND}',
            "unknown pass or pass pipeline: no-such-pass",
        ),
    ],
)
def test_where_the_interpreter_stops_is_an_error_with_its_place(
    match: str, passes: str, why: str, tmp_path: Path
) -> None:
    session = Session()
    (tmp_path / "spec.mlir").write_text(SPEC.replace("MATCH", match).replace("PASS", passes))
    program = """
    util.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %0 = math.absf %x : tensor<4xf32>
      util.return %0 : tensor<4xf32>
    }
    """
    module = ir.Module.parse(program, context=session.context)
    with pytest.raises(OpspliceError) as raised:
        interpreter.apply(module, tmp_path / "spec.mlir", lambda name, target: None)
    assert "spec.mlir failed" in raised.value.message
    assert raised.value.details.startswith(str(tmp_path / "spec.mlir"))
    assert why in raised.value.details


def test_an_entry_without_a_body_is_no_spec(tmp_path: Path) -> None:
    session = Session()
    (tmp_path / "spec.mlir").write_text(
        "module attributes {transform.with_named_sequence} {\n"
        "transform.named_sequence private @__transform_main(%module: !transform.any_op {transform.readonly})\n}"
    )
    with pytest.raises(OpspliceError, match="it has no sequence @__transform_main with a body"):
        interpreter.parse(session.context, tmp_path / "spec.mlir")


# ---- symbols of several specs ------------------------------------------------------------------------------------

TENSOR = "tensor<4xf32>"
PROGRAM = f"""
util.func public @main(%a: {TENSOR}, %b: {TENSOR}) -> ({TENSOR}, {TENSOR}) {{
  %0 = math.absf %a : {TENSOR}
  %1 = math.exp %b : {TENSOR}
  util.return %0, %1 : {TENSOR}, {TENSOR}
}}
"""
CALLING = """
module attributes {transform.with_named_sequence} {
  BROUGHT
  transform.named_sequence @match(%root: !transform.any_op {transform.readonly})
      -> (!transform.any_value, !transform.any_value) {
    %ins, %out = transform.iree.match.cast_compatible_dag_from_root %root {
    ^bb0(%x: tensor<4xf32>):
      %0 = OP %x : tensor<4xf32>
    } : (!transform.any_op) -> (!transform.any_value, !transform.any_value)
    transform.yield %ins, %out : !transform.any_value, !transform.any_value
  }
  transform.named_sequence @call(%ins: !transform.any_value {transform.readonly},
                                 %out: !transform.any_value {transform.readonly}) {
    %root = transform.get_defining_op %out : (!transform.any_value) -> !transform.any_op
    %module = transform.util.get_nearest_symbol_table %root : (!transform.any_op) -> !transform.any_op
    IMPORTS
    %f = transform.util.import_symbol @f into %module if undefined : (!transform.any_op) -> !transform.any_op
    transform.util.cast_and_call %f(%ins) -> %out after %root {
    } : (!transform.any_op, !transform.any_value, !transform.any_value, !transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    %0 = transform.foreach_match in %module @match -> @call : (!transform.any_op) -> !transform.any_op
    transform.apply_dce to %0 : !transform.any_op
    transform.yield
  }
}
"""
UNARY = f"(%x: {TENSOR}) -> {TENSOR}"
EXECUTABLE = """
stream.executable private @e {
  stream.executable.export public @run workgroups() -> (index, index, index) {
    %one = arith.constant 1 : index
    stream.return %one, %one, %one : index, index, index
  }
  builtin.module {
    func.func @run(%in: !stream.binding, %out: !stream.binding) {
      %c = arith.constant NUMBER : index
      return
    }
  }
}
"""
RETURN = f"util.return %r : {TENSOR}"
DISPATCH = f"util.func private @f{UNARY} {{ %r = flow.dispatch @e::@run(%x) : ({TENSOR}) -> {TENSOR} {RETURN} }}"


def calling(op: str, brought: str, also: str = "") -> str:
    """A spec that has a function called for an op. also: another symbol to import."""
    text = (
        f"%g = transform.util.import_symbol @{also} into %module if undefined "
        ": (!transform.any_op) -> !transform.any_op"
    )
    return CALLING.replace("OP", op).replace("BROUGHT", brought).replace("IMPORTS", text if also else "")


def function(op: str, name: str = "f") -> str:
    return f"util.func private @{name}{UNARY} {{ %r = math.{op} %x : {TENSOR} {RETURN} }}"


def applied(folder: Path, program: str, *specs: str, brought: Brought | None = None) -> tuple[ir.Module, list[Change]]:
    """A program after specs, and what they changed. brought: what others have brought into it."""
    module = ir.Module.parse(program, context=Session().context)
    brought, changes = brought or Brought(), []
    for number, spec in enumerate(specs):
        (folder / f"spec{number}.mlir").write_text(spec)
        done = interpreter.apply(module, folder / f"spec{number}.mlir", lambda name, target: None, brought)
        changes += done.changes
    assert module.operation.verify()
    return module, changes


def called(module: ir.Module) -> dict[str, str]:
    """The text of the functions that each of the two values of `PROGRAM` is made by."""
    tops = {ir.StringAttr(op.attributes["sym_name"]).value: op.operation for op in module.body.operations}
    end = list(tops["main"].regions[0].blocks[0].operations)[-1]
    calls = [value.owner.operation for value in end.operands]
    return {
        ("a", "b")[number]: str(tops[op.attributes["callee"].value])
        for number, op in enumerate(calls)
        if op.name == "util.call"
    }


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_functions_of_one_name_in_two_specs(order: tuple[int, int], tmp_path: Path) -> None:
    specs = [calling("math.absf", function("sqrt")), calling("math.exp", function("ceil"))]
    module, changes = applied(tmp_path, PROGRAM, *(specs[i] for i in order))
    found = called(module)
    assert "math.sqrt" in found["a"]
    assert "math.ceil" in found["b"]
    assert [change.symbol for change in changes] == ["f", "f"]


def test_one_function_in_two_specs_is_shared_and_both_are_reported(tmp_path: Path) -> None:
    specs = [calling("math.absf", function("sqrt")), calling("math.exp", function("sqrt"))]
    module, changes = applied(tmp_path, PROGRAM, *specs)
    assert str(module).count("util.func private") == 1
    assert called(module).keys() == {"a", "b"}
    assert len(changes) == 2


def test_a_function_of_the_program_is_taken_for_what_is_not_defined(tmp_path: Path) -> None:
    module, _ = applied(tmp_path, PROGRAM + function("floor"), calling("math.exp", function("ceil")))
    assert "math.floor" in called(module)["b"]
    assert "math.ceil" not in str(module)


def test_functions_that_are_the_same_but_for_what_they_call(tmp_path: Path) -> None:
    outer = f"util.func private @f{UNARY} {{ %r = util.call @g(%x) : ({TENSOR}) -> {TENSOR} {RETURN} }}"
    specs = [
        calling(op, f"{function(inner, 'g')}\n{outer}", also="g")
        for op, inner in (("math.absf", "sqrt"), ("math.exp", "ceil"))
    ]
    module, _ = applied(tmp_path, PROGRAM, *specs)
    found = called(module)
    assert "@g(" in found["a"]
    assert "@g_1(" in found["b"]


def test_executables_of_one_name_in_two_specs_get_entry_points_of_their_own(tmp_path: Path) -> None:
    specs = [
        calling(op, EXECUTABLE.replace("NUMBER", number) + DISPATCH, also="e")
        for op, number in (("math.absf", "7"), ("math.exp", "8"))
    ]
    module, _ = applied(tmp_path, PROGRAM, *specs)
    found = called(module)
    assert "@e::@run(" in found["a"]
    assert "@e_1::@run_1(" in found["b"]
    assert "func.func @run_1(" in str(module)


def test_a_template_that_looks_for_calls_looks_for_those_in_the_program(tmp_path: Path) -> None:
    program = PROGRAM.replace("math.absf %a", f"util.call @f(%a) : ({TENSOR}) -> {TENSOR} //") + function("sqrt")
    spec = calling(f"util.call @f(%x) : ({TENSOR}) -> {TENSOR} //", function("ceil"))
    module, changes = applied(tmp_path, program, spec, brought=Brought({"f": ""}))
    assert "math.ceil" in called(module)["a"]
    assert len(changes) == 1


# ---- what is reported --------------------------------------------------------------------------------------------


def test_a_spec_that_inlines_what_it_calls_by_a_pass(tmp_path: Path) -> None:
    """Nothing tells its calls from the program's ops afterwards; but they were made."""
    inline = 'transform.apply_registered_pass "inline" to %0 : (!transform.any_op) -> !transform.any_op'
    text = calling("math.absf", function("sqrt")).replace("transform.apply_dce to %0 : !transform.any_op", inline)
    module = ir.Module.parse(PROGRAM, context=Session().context)
    (tmp_path / "spec.mlir").write_text(text)
    done = interpreter.apply(module, tmp_path / "spec.mlir", lambda name, target: None)
    assert "math.sqrt" in str(module)
    assert "util.call" not in str(module)
    assert done.otherwise
    assert not done.unmatched


def test_a_pass_behind_the_matching_that_changes_nothing(tmp_path: Path) -> None:
    inline = 'transform.apply_registered_pass "inline" to %0 : (!transform.any_op) -> !transform.any_op'
    text = calling("math.tanh", function("sqrt")).replace("transform.apply_dce to %0 : !transform.any_op", inline)
    (tmp_path / "spec.mlir").write_text(text)
    module = ir.Module.parse(PROGRAM, context=Session().context)
    done = interpreter.apply(module, tmp_path / "spec.mlir", lambda name, target: None)
    assert not done.otherwise
    assert [pair.rule for pair in done.unmatched] == ["@match -> @call"]


def inlining(op: str, brought: str) -> str:
    """A spec that has a function inlined for an op."""
    start, call, rest = calling(op, brought).partition("transform.util.cast_and_call")
    return start + call + " inline_call" + rest.replace("-> !transform.any_op", "-> ()", 1)


def outcome(folder: Path, program: str, spec: str) -> interpreter.Outcome:
    (folder / "spec.mlir").write_text(spec)
    module = ir.Module.parse(program, context=Session().context)
    return interpreter.apply(module, folder / "spec.mlir", lambda name, target: None)


NOTHING = f"util.func private @f{UNARY} {{ util.return %x : {TENSOR} }}"


@pytest.mark.parametrize(
    "brought",
    [
        function("sqrt"),
        f"util.func private @f{UNARY} {{ %c = math.ceil %x : {TENSOR} %r = math.sqrt %c : {TENSOR} {RETURN} }}",
        NOTHING,
    ],
)
def test_a_function_that_is_inlined_and_refers_to_no_symbol(brought: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("math.exp", "math.absf")
    done = outcome(tmp_path, program, inlining("math.absf", brought))
    assert not done.unmatched
    assert [change.symbol for change in done.changes] == ["f", "f"]
    assert len({change.location for change in done.changes}) == 2
    again = outcome(tmp_path, program, inlining("math.tanh", brought))
    assert [pair.rule for pair in again.unmatched] == ["@match -> @call"]
    assert not again.changes


def test_a_function_of_the_programs_own_that_is_inlined(tmp_path: Path) -> None:
    program = PROGRAM + function("floor")
    assert not outcome(tmp_path, program, inlining("math.exp", function("ceil"))).unmatched
    assert outcome(tmp_path, program, inlining("math.tanh", function("ceil"))).unmatched


def test_calls_that_are_inlined_stand_where_their_matches_did(tmp_path: Path) -> None:
    """Of what they replace nothing is left, and the patterns are of different length."""
    program = f"""util.func public @main(%a: {TENSOR}) -> {TENSOR} {{
      %0 = math.absf %a : {TENSOR}
      %1 = math.exp %0 : {TENSOR}
      %2 = math.tanh %1 : {TENSOR}
      %3 = math.absf %2 : {TENSOR}
      %4 = math.exp %3 : {TENSOR}
      util.return %4 : {TENSOR}
    }}"""
    longer = inlining("math.absf", function("sqrt")).replace(
        f"%0 = math.absf %x : {TENSOR}",
        f"%y = math.absf %x : {TENSOR} %0 = math.exp %y : {TENSOR}",
    )
    shorter = inlining("math.tanh", function("ceil", "g")).replace("@f into", "@g into")
    parts = shorter.partition("util.func private @g")[2].partition("transform.named_sequence @__transform_main")[0]
    both = longer.replace(
        "util.func private @f",
        f"util.func private @g{parts.replace('@match', '@match1').replace('@call', '@call1')}util.func private @f",
        1,
    )
    both = both.replace("@match -> @call", "@match -> @call, @match1 -> @call1")
    done = outcome(tmp_path, program, both)
    assert [(c.symbol, c.rule, c.location) for c in done.changes] == [
        ("f", "@match -> @call", "-:3:12"),
        ("g", "@match1 -> @call1", "-:4:12"),
        ("f", "@match -> @call", "-:6:12"),
    ]


MARKING = """
module attributes {transform.with_named_sequence} {
  transform.named_sequence @match(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    transform.match.operation_name %op ["NAME"] : !transform.any_op
    transform.yield %op : !transform.any_op
  }
  transform.named_sequence @mark(%op: !transform.any_op {transform.readonly}) {
    ACTION
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op) {
    ENTRY
    transform.yield
  }
}
"""
TAG = 'transform.annotate %op "my.tag" : !transform.any_op'
PAIR = "%0 = transform.foreach_match in %module @match -> @mark : (!transform.any_op) -> !transform.any_op"
EACH = """%ops = transform.structured.match ops{["math.exp"]} in %module : (!transform.any_op) -> !transform.any_op
transform.annotate %ops "my.tag" : !transform.any_op"""
BODY = f"""
util.func public @main(%a: {TENSOR}) -> {TENSOR} {{
  %e = tensor.empty() : {TENSOR}
  %0 = linalg.map ins(%a : {TENSOR}) outs(%e : {TENSOR}) (%x: f32, %out: f32) {{
    %1 = math.exp %x : f32
    linalg.yield %1 : f32
  }}
  util.return %0 : {TENSOR}
}}"""


@pytest.mark.parametrize(
    ("program", "name", "action", "entry", "told", "unmatched"),
    [
        (PROGRAM, "math.exp", TAG, PAIR, [("@match -> @mark", "-:4:8")], 0),
        (PROGRAM, "linalg.map", TAG, PAIR, [], 1),
        (BODY, "linalg.map", TAG, PAIR, [("@match -> @mark", "-:4:8")], 0),
        (BODY, "math.exp", TAG, PAIR, [("@match -> @mark", "-:5:10")], 0),
        (PROGRAM, "linalg.map", "transform.print %op : !transform.any_op", PAIR, [], 1),
        (PROGRAM, "math.exp", "", EACH, [("annotate my.tag", "-:4:8")], 0),
        (PROGRAM.replace("%a :", "%a {my.tag} :"), "math.exp", "", EACH, [("annotate my.tag", "-:4:8")], 0),
        (
            PROGRAM,
            "math.exp",
            "",
            f"{PAIR}\n{EACH.replace('%module', '%0')}",
            [("@match -> @mark", "-:4:8"), ("annotate my.tag", "-:4:8")],
            0,
        ),
    ],
)
def test_what_is_annotated_is_told_by_pair(program, name, action, entry, told, unmatched, tmp_path: Path) -> None:
    spec = MARKING.replace("NAME", name).replace("ACTION", action).replace("ENTRY", entry)
    done = outcome(tmp_path, program, spec)
    assert [(change.rule, change.location) for change in done.changes] == told
    assert {change.function for change in done.changes} <= {"main"}
    assert len(done.unmatched) == unmatched
    assert not done.otherwise


def test_a_pair_that_only_prints_has_matched(tmp_path: Path, capfd) -> None:
    spec = MARKING.replace("NAME", "math.exp").replace("ACTION", "transform.print %op : !transform.any_op")
    done = outcome(tmp_path, PROGRAM, spec.replace("ENTRY", PAIR))
    assert not done.unmatched
    assert [(change.rule, change.symbol, change.location) for change in done.changes] == [
        ("@match -> @mark", "@mark", "-:4:8")
    ]


def test_marks_are_taken_off(tmp_path: Path) -> None:
    module, _ = applied(
        tmp_path, PROGRAM, MARKING.replace("NAME", "math.exp").replace("ACTION", TAG).replace("ENTRY", PAIR)
    )
    assert "opsplice" not in str(module)
    assert "{my.tag}" in str(module)


# ---- beside patterns in PDL ------------------------------------------------------------------------------------------

PDL = """
pdl.pattern @ceil : benefit(1) {
  %type = pdl.type
  %x = pdl.operand
  %root = pdl.operation "math.absf"(%x : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %root {
    %new = pdl.operation "math.ceil"(%x : !pdl.value) -> (%type : !pdl.type)
    pdl.replace %root with %new
  }
}
"""


def test_patterns_in_pdl_come_after_transform_specs_as_in_iree(tmp_path: Path) -> None:
    """The spec takes the first op for itself; what is left of it goes to the patterns, and the second op does."""
    (tmp_path / "pdl.mlir").write_text(PDL)
    (tmp_path / "spec.mlir").write_text(inlining("math.exp", function("absf")))
    (tmp_path / "taken.mlir").write_text(inlining("math.absf", function("sqrt")))
    model = f"""func.func @main(%a: {TENSOR}) -> ({TENSOR}, {TENSOR}) {{
      %0 = math.absf %a : {TENSOR}
      %1 = math.exp %a : {TENSOR}
      return %0, %1 : {TENSOR}, {TENSOR}
    }}"""
    (tmp_path / "model.mlir").write_text(model)
    flag = f"--iree-preprocessing-pdl-spec-filename={tmp_path / 'pdl.mlir'}"
    specs = [tmp_path / "taken.mlir", tmp_path / "spec.mlir"]
    program = opsplice.compile(tmp_path / "model.mlir", specs, [flag])
    assert len(program.report.replacements) == 2
    first, second = program.run("main", np.array([0.25, 2.25, 6.25, 9.5], np.float32))
    np.testing.assert_allclose(first, np.sqrt(np.array([0.25, 2.25, 6.25, 9.5], np.float32)), rtol=1e-6)
    np.testing.assert_array_equal(second, [1, 3, 7, 10])
    assert len(opsplice.match(tmp_path / "model.mlir", specs, [flag]).replacements) == 2
    with pytest.raises(OpspliceError, match="cannot run"):
        opsplice.compile(tmp_path / "model.mlir", specs, [f"{flag}.gone"])
