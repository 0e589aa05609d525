"""Ops without locations, as bytecode may have them, are named by their number."""

import pytest
from iree.compiler import ir

import opsplice
from opsplice.pipeline.compiler import CompileError
from opsplice.rewrites.ir import emit

MODEL = """
func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %0 = arith.mulf %a, %b : tensor<?xf32>
  %1 = math.absf %0 : tensor<?xf32>
  %2 = arith.negf %1 : tensor<?xf32>
  %3 = arith.divf %2, %b : tensor<?xf32>
  %4 = math.absf %3 : tensor<?xf32>
  %5 = arith.negf %4 : tensor<?xf32>
  return %2, %5 : tensor<?xf32>, tensor<?xf32>
}
"""
FAILS = """
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @unheard_of(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def without_locations(text: str) -> bytes:
    from opsplice.pipeline.session import Session

    with Session() as session, session.context:
        module = ir.Module.parse(text)

        def forget(op: ir.Operation) -> ir.WalkResult:
            op.location = ir.Location.unknown()
            return ir.WalkResult.ADVANCE

        module.operation.walk(forget)
        return emit.bytecode(module.operation)


def test_reports_and_explanations_name_ops(samples):
    spec, model = samples / "mul_abs_negate" / "replace.splice", without_locations(MODEL)
    (replaced,) = opsplice.match(model, [spec]).replacements
    assert replaced.location == "arith.negf number 1"
    (pattern,) = opsplice.explain(model, [spec]).patterns
    (miss,) = pattern.misses
    assert miss.op.location == "arith.negf number 2"
    assert miss.reason.at.location == "arith.divf number 1"


def test_errors_of_iree_name_ops():
    with pytest.raises(CompileError) as error:
        opsplice.match(without_locations(FAILS), [])
    assert error.value.details.startswith("stablehlo.custom_call number 1: error: failed to legalize")


def test_ops_with_a_location_keep_it(samples):
    spec = samples / "mul_abs_negate" / "replace.splice"
    (replaced,) = opsplice.match(MODEL, [spec]).replacements
    assert replaced.location == "-:5:8"
