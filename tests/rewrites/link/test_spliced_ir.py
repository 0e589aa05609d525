"""IR to IR: what a module is before and after calls are put in. CHECK lines name the parts that matter.

Checks keep to ops, symbols and types: how a release of IREE prints the rest may change.
"""

from __future__ import annotations

import pytest

NEGATE = """
kernel k(a: f32[n]) -> f32[n] { grid (ceildiv(n, 64)) cpu "k.bc" }
pattern p(a: tensor<n x f32>) { negf(absf(a)) }
replace p with k(a)
"""


def test_checks_can_fail(filecheck):
    filecheck("one\ntwo\n", "// CHECK: one\n// CHECK-NEXT: two")
    with pytest.raises(AssertionError, match="not what the CHECK lines say"):
        filecheck("one\ntwo\n", "// CHECK: two\n// CHECK: one")


@pytest.fixture
def checked(bench, filecheck):
    """Checks the module with calls put in against CHECK lines."""

    def check(mlir: str, spec: str, checks: str) -> None:
        made = bench(mlir, spec)
        made.apply()
        filecheck(made.ir, checks)

    return check


def test_a_static_call(checked):
    """All sizes are constants in the shim; the call has the buffer alone."""
    checked(
        """
func.func @f(%a: tensor<100xf32>) -> tensor<100xf32> {
  %0 = math.absf %a : tensor<100xf32>
  %1 = arith.negf %0 : tensor<100xf32>
  return %1 : tensor<100xf32>
}""",
        NEGATE,
        """
// CHECK:      stream.executable private @opsplice_k
// CHECK-SAME:   #hal.executable.object<{path = "k.bc"}>
// CHECK:        stream.executable.export public @opsplice_k workgroups() -> (index, index, index)
// CHECK-DAG:      %[[N:.*]] = arith.constant 100 : index
// CHECK-DAG:      %[[TILE:.*]] = arith.constant 64 : index
// CHECK:          arith.ceildivsi %[[N]], %[[TILE]]
// CHECK:        func.func private @k(!llvm.ptr, !llvm.ptr, index, index) attributes {hal.import.static
// CHECK:        func.func @opsplice_k(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding)
// CHECK:          iree_codegen.extract_strided_metadata
// CHECK:          call @k(
// CHECK:      util.func public @f
// CHECK:        %[[A:.*]] = hal.tensor.import
// CHECK-NOT:    math.absf
// CHECK-NOT:    arith.negf
// CHECK:        flow.dispatch @opsplice_k::@opsplice_k(%[[A]]) : (tensor<100xf32>) -> tensor<100xf32>
// CHECK-NOT:    math.absf
// CHECK-NOT:    arith.negf
""",
    )


def test_a_dynamic_call(checked):
    """The size is read where the call stands; it makes the grid, and goes to the shim."""
    checked(
        """
func.func @f(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = math.absf %a : tensor<?xf32>
  %1 = arith.negf %0 : tensor<?xf32>
  return %1 : tensor<?xf32>
}""",
        NEGATE,
        """
// CHECK:      stream.executable.export public @opsplice_k workgroups(%[[N:.*]]: index) -> (index, index, index)
// CHECK:        %[[COUNT:.*]] = arith.ceildivsi %[[N]]
// CHECK:        arith.maxsi %[[COUNT]]
// CHECK:        cf.assert {{.*}}, "kernel k has more than 4294967295 workgroups in dim 0 of its grid"
// CHECK:      func.func @opsplice_k(%{{.*}}: !stream.binding, %[[SIZE:.*]]: index, %{{.*}}: !stream.binding)
// CHECK:        %[[ID:.*]] = stream.dispatch.workgroup.id[0]
// CHECK:        call @k(%{{.*}}, %{{.*}}, %[[SIZE]], %[[ID]])
// CHECK:      util.func public @f
// CHECK:        %[[A:.*]] = hal.tensor.import
// CHECK:        tensor.dim %[[A]]
// CHECK:        flow.dispatch @opsplice_k::@opsplice_k[%{{.*}}](%[[A]], %{{.*}}) : (tensor<?xf32>{%{{.*}}}, index)
// CHECK-NOT:    math.absf
""",
    )


def test_an_inner_value_that_others_use_keeps_its_producer(checked):
    checked(
        """
func.func @f(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = math.absf %a : tensor<8xf32>
  %1 = arith.negf %0 : tensor<8xf32>
  return %1, %0 : tensor<8xf32>, tensor<8xf32>
}""",
        NEGATE,
        """
// CHECK:      util.func public @f
// CHECK:        %[[KEPT:.*]] = math.absf
// CHECK-NOT:    arith.negf
// CHECK:        %[[NEW:.*]] = flow.dispatch @opsplice_k::@opsplice_k
// CHECK-DAG:    hal.tensor.export %[[KEPT]]
// CHECK-DAG:    hal.tensor.export %[[NEW]]
""",
    )


def test_an_overwritten_buffer_is_a_copy_that_the_compiler_does_not_know_to_be_one(checked):
    checked(
        """
func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.subf %a, %b : tensor<8xf32>
  return %0 : tensor<8xf32>
}""",
        """
kernel sub(x: f32[n], y: f32[n]) -> x { cpu "k.bc" }
pattern p(a: tensor<n x f32>, b: tensor<n x f32>) { subf(a, b) }
replace p with sub(a, b)
""",
        """
// CHECK:      stream.executable.export public @opsplice_sub workgroups()
// CHECK:      func.func @opsplice_sub(%{{.*}}: !stream.binding, %{{.*}}: !stream.binding)
// CHECK:      util.func public @f
// CHECK:        %[[A:.*]] = hal.tensor.import %{{.*}} "input0"
// CHECK:        %[[B:.*]] = hal.tensor.import %{{.*}} "input1"
// CHECK:        %[[BITS:.*]] = flow.tensor.bitcast %[[A]]
// CHECK:        %[[ZERO:.*]] = util.optimization_barrier
// CHECK:        %[[SUM:.*]] = linalg.generic {{.*}} ins(%[[BITS]]
// CHECK:          arith.addi %{{.*}}, %[[ZERO]]
// CHECK:        %[[COPY:.*]] = flow.tensor.bitcast %[[SUM]]
// CHECK:        flow.dispatch @opsplice_sub::@opsplice_sub(%[[COPY]], %[[B]])
// CHECK-SAME:     -> %[[COPY]]
""",
    )


def test_calls_share_an_executable_where_they_can(bench, filecheck):
    """Two calls of one size share one, another size has its own, and no name is taken twice."""
    made = bench(
        """
util.global private @opsplice_k = 1 : i32
func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<9xf32>)
    -> (tensor<8xf32>, tensor<8xf32>, tensor<9xf32>, i32) {
  %0 = math.absf %a : tensor<8xf32>
  %1 = arith.negf %0 : tensor<8xf32>
  %2 = math.absf %b : tensor<8xf32>
  %3 = arith.negf %2 : tensor<8xf32>
  %4 = math.absf %c : tensor<9xf32>
  %5 = arith.negf %4 : tensor<9xf32>
  %6 = util.global.load @opsplice_k : i32
  return %1, %3, %5, %6 : tensor<8xf32>, tensor<8xf32>, tensor<9xf32>, i32
}""",
        NEGATE,
    )
    made.apply()
    assert made.ir.count("stream.executable private") == 2
    filecheck(
        made.ir,
        """
// CHECK:      util.func public @f
// CHECK:        flow.dispatch @[[FIRST:opsplice_k_[0-9]+]]::
// CHECK:        flow.dispatch @[[FIRST]]::
// CHECK-NOT:    flow.dispatch @[[FIRST]]::
// CHECK:        flow.dispatch @opsplice_k_{{[0-9]+}}::
""",
    )


def test_a_call_on_constants_is_kept_from_constant_evaluation(checked):
    checked(
        """
func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = arith.constant dense<[1.0, -2.0, 3.0, -4.0]> : tensor<4xf32>
  %empty = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%empty : tensor<4xf32>) {
  ^bb0(%p: f32, %out: f32):
    %2 = math.absf %p : f32
    %3 = arith.negf %2 : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  %1 = math.absf %x : tensor<4xf32>
  %2 = arith.negf %1 : tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}""",
        NEGATE,
        """
// CHECK:      util.func public @f
// CHECK:        %[[HIDDEN:.*]] = util.optimization_barrier %{{.*}} : tensor<4xf32>
// CHECK:        flow.dispatch @opsplice_k::@opsplice_k(%[[HIDDEN]])
// CHECK-NOT:    util.optimization_barrier
// CHECK:        flow.dispatch @opsplice_k::@opsplice_k(
""",
    )
