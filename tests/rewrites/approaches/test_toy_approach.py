"""An approach is one class and one row of a table: nothing else in the package knows of this one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import ops_in
from opsplice.rewrites.approaches import approach_table as table
from opsplice.rewrites.approaches.approach import Approach, Later
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer
from opsplice.rewrites.plan.actions import Buffer, KernelCall

MODEL = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.absf %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
SPEC = """
kernel square(x: f32[n]) -> f32[n] { cpu "square.ll" }
kernel large(x: f32[n]) -> f32[n] { grid (n) cpu "square.ll" }
pattern p(x: tensor<n x f32>) { absf(x) }
"""
CODE = """
define void @square(ptr %x, ptr %out, i64 %n) {
  ret void
}
"""


class ToyWriter:
    def __init__(self, placer: Placer) -> None:
        self.placer = placer

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        (argument,) = call.arguments
        assert isinstance(argument, Buffer)
        value = self.placer.current(argument.value)
        return [emit.value("arith.mulf", [value, value], value.type)]


class Toy(Approach):
    """Multiplies the input by itself: the kernel's own code is never called."""

    title = "toy"
    writer = ToyWriter
    shares_names = False

    def __init__(self) -> None:
        self.seen = 0

    def fits(self, call: KernelCall) -> bool:
        return call.kernel.name in ("square", "large")

    def check(self, call: KernelCall) -> None:
        if call.kernel.grid:
            raise OpspliceError("a toy has no grid")

    def later(self, calls: Sequence[KernelCall]) -> Sequence[Later]:
        return [Later("preprocessing", "toys are counted", self._count)]

    def _count(self, module: ir.Module) -> None:
        self.seen += len(ops_in(module.operation, "arith.mulf"))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Toy:
    made = Toy()
    monkeypatch.setattr(table, "APPROACHES", (made, *table.APPROACHES))
    return made


def test_it_writes_its_calls_and_changes_the_program_later(toy, spliced):
    program = spliced(MODEL, f"{SPEC} replace p with square(x)", {"square.ll": CODE})
    assert [each.action for each in program.report.replacements] == ["toy"]
    assert toy.seen == 1
    np.testing.assert_array_equal(program.run("main", np.float32([1, -2, 3, 0])), np.float32([1, 4, 9, 0]))


def test_it_refuses_calls(toy, bench):
    with pytest.raises(OpspliceError, match="a toy has no grid"):
        bench(MODEL, f"{SPEC} replace p with large(x)").plan()


def test_without_its_row_the_kernel_is_a_static_function(bench):
    (call,) = bench(MODEL, f"{SPEC} replace p with square(x)").plan().calls
    assert table.approach_of(call).name(call) == "static function"
