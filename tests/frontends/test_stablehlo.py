"""Broadcasts of StableHLO to dims of one are reshapes; others stay."""

from __future__ import annotations

import pytest
from iree.compiler import ir

from opsplice.frontends import stablehlo
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import Compilation


@pytest.mark.parametrize(
    ("given", "dims", "wanted", "is_reshape"),
    [
        ("4x6x7", "1, 2, 3", "1x4x6x7", True),
        ("1x4x6", "0, 1, 2", "1x4x6x1", True),
        ("4x6", "0, 2", "4x1x6", True),
        ("4x6", "0, 2", "4x3x6", False),
        ("4x1", "0, 1", "4x6", False),
        ("4x6", "1, 0", "6x4", False),
        ("1x1", "1, 0", "1x1", False),
    ],
)
def test_what_repeats_nothing_and_keeps_the_order_is_a_reshape(given, dims, wanted, is_reshape):
    text = f"""func.func @f(%x: tensor<{given}xf32>) -> tensor<{wanted}xf32> {{
      %r = stablehlo.broadcast_in_dim %x, dims = [{dims}] : (tensor<{given}xf32>) -> tensor<{wanted}xf32>
      return %r : tensor<{wanted}xf32> }}"""
    with Compilation() as compilation, compilation.context:
        module = ir.Module.parse(text)
        stablehlo.mend(module)
        assert module.operation.verify()
        assert len(list(ops_in(module.operation, "stablehlo.reshape"))) == is_reshape
        assert len(list(ops_in(module.operation, "stablehlo.broadcast_in_dim"))) == (not is_reshape)


def test_scalars_are_broadcast():
    text = """func.func @f(%x: tensor<f32>) -> tensor<1xf32> {
      %r = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<1xf32>
      return %r : tensor<1xf32> }"""
    with Compilation() as compilation, compilation.context:
        module = ir.Module.parse(text)
        stablehlo.mend(module)
        assert len(list(ops_in(module.operation, "stablehlo.broadcast_in_dim"))) == 1
