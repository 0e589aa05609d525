"""Dispatches with one size in two places, of which IREE counts too few workgroups."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from iree.compiler import ir
from iree.compiler.passmanager import PassManager

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.matchers.ir.op_names import ops_in
from opsplice.pipeline.compiler import compile_module
from opsplice.rewrites.memory import workgroup_sizes
from opsplice.rewrites.memory.aligned_buffers import segments
from opsplice.runtime.loaded_program import load_program

# A cache that grows, whose heads are repeated, as PyTorch exports it: IREE adds the sizes of the parts as indices, the
# program adds them as numbers of 64 bits.
GROWS = """
func.func @repeated(%past: tensor<?x2x?x4xf32>, %new: tensor<?x2x?x4xf32>) -> tensor<?x4x?x4xf32> {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : i64
  %b_dim = tensor.dim %past, %c0 : tensor<?x2x?x4xf32>
  %m_dim = tensor.dim %past, %c2 : tensor<?x2x?x4xf32>
  %n_dim = tensor.dim %new, %c2 : tensor<?x2x?x4xf32>
  %b = util.assume.int %b_dim<umin = 1, umax = 64> : index
  %m = util.assume.int %m_dim<umin = 1, umax = 64> : index
  %n = util.assume.int %n_dim<umin = 1, umax = 64> : index
  %p = flow.tensor.tie_shape %past : tensor<?x2x?x4xf32>{%b, %m}
  %q = flow.tensor.tie_shape %new : tensor<?x2x?x4xf32>{%b, %n}
  %both = tensor.concat dim(2) %p, %q : (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  %wide_b = arith.index_cast %b : index to i64
  %wide_m = arith.index_cast %m : index to i64
  %wide_n = arith.index_cast %n : index to i64
  %wide = arith.addi %wide_m, %wide_n : i64
  %rows = arith.index_cast %wide : i64 to index
  %empty = tensor.empty(%b, %rows) : tensor<?x2x2x?x4xf32>
  %each = linalg.generic {
    indexing_maps = [affine_map<(b, h, g, n, d) -> (b, h, n, d)>, affine_map<(b, h, g, n, d) -> (b, h, g, n, d)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]
  } ins(%both : tensor<?x2x?x4xf32>) outs(%empty : tensor<?x2x2x?x4xf32>) {
  ^bb0(%x: f32, %out: f32):
    linalg.yield %x : f32
  } -> tensor<?x2x2x?x4xf32>
  %shape = tensor.from_elements %wide_b, %c4, %wide, %c4 : tensor<4xi64>
  %merged = tensor.reshape %each(%shape) : (tensor<?x2x2x?x4xf32>, tensor<4xi64>) -> tensor<?x4x?x4xf32>
  return %merged : tensor<?x4x?x4xf32>
}
"""


def inputs(*sizes: int) -> list[np.ndarray]:
    return [np.random.default_rng(n).standard_normal((2, 2, n, 4), np.float32) for n in sizes]


def repeated(past: np.ndarray, new: np.ndarray) -> np.ndarray:
    return np.repeat(np.concatenate([past, new], 2), 2, 1)


@pytest.fixture(scope="module")
def program() -> opsplice.Program:
    return opsplice.compile(ModuleSource(content=GROWS))


@pytest.mark.parametrize("sizes", [(3, 2), (9, 8), (40, 50)])
def test_all_of_the_result_is_written(program, sizes):
    given = inputs(*sizes)
    np.testing.assert_array_equal(program.run("repeated", *given), repeated(*given))


def test_without_the_mend_iree_leaves_out_parts():
    """If this fails, IREE counts right, and `workgroup_sizes` can go."""
    given = inputs(9, 8)
    (stock,) = load_program(compile_module(ModuleSource(content=GROWS), [], []).vmfb).call("repeated", *given)
    assert not np.array_equal(stock, repeated(*given))


def dispatched(sizes: str) -> str:
    """A dispatch with a list of sizes, a letter for each; in its code each is asked for, in order."""
    at, names = range(len(sizes)), sorted(set(sizes))
    listed, words = (", ".join(f"%{size}{end}" for size in sizes) for end in ("", "_word"))
    packed = "\n".join(f"  %{size}_word = arith.index_castui %{size} : index to i32" for size in names)
    counted = ", ".join(f"%w{i}" for i in at)
    asked = "\n".join(
        f"""      %i{i} = arith.index_castui %s{i} : i32 to index
      %o{i} = iree_tensor_ext.dispatch.workload.ordinal %i{i}, {i} : index
      util.optimization_barrier %o{i} : index"""
        for i in at
    )
    return f"""
stream.executable private @code {{
  stream.executable.export public @f workgroups({", ".join(f"%w{i}: index" for i in at)}) -> (index, index, index) {{
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice({counted})
    stream.return %x, %y, %z : index, index, index
  }}
  builtin.module {{
    func.func @f(%buffer: !stream.binding, {", ".join(f"%s{i}: i32" for i in at)}) {{
{asked}
      return
    }}
  }}
}}
util.func public @main(%bytes: index, {", ".join(f"%{size}: index" for size in names)}) {{
  %c0 = arith.constant 0 : index
  %memory = stream.resource.alloc uninitialized : !stream.resource<transient>{{%bytes}}
{packed}
  %done = stream.cmd.execute with(%memory as %m: !stream.resource<transient>{{%bytes}}) {{
    stream.cmd.dispatch @code::@f[{listed}]({words} : {", ".join("i32" for _ in at)}) {{
      rw %m[%c0 for %bytes] : !stream.resource<transient>{{%bytes}}
    }}
  }} => !stream.timepoint
  util.optimization_barrier %done : !stream.timepoint
  util.return
}}
"""


def asked(module: ir.Module) -> str:
    """What a dispatch takes the sizes for that its code asks for, a letter for each."""
    (count,) = ops_in(module.operation, "iree_tensor_ext.dispatch.workgroup_count_from_slice")
    (site,) = ops_in(module.operation, "stream.cmd.dispatch")
    listed = [site.operands[ir.BlockArgument(size).arg_number] for size in count.operands]
    ordinals = [op.attributes["ordinal"].value for op in ops_in(module.operation, workgroup_sizes._ORDINAL)]
    return "".join(" abc"[ir.BlockArgument(listed[ordinal]).arg_number] for ordinal in ordinals)


@pytest.mark.parametrize("sizes", ["abc", "aab", "aba", "abb", "abbc", "abab", "aabb", "abcbc", "abbb", "aaabbb"])
def test_merged_sizes(sizes):
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(dispatched(sizes))
        PassManager.parse("builtin.module(iree-stream-fold-uniform-operands)").run(module.operation)
        assert (asked(module) == sizes) is (sizes in ("abc", "aba"))
        workgroup_sizes.mend(module)
        assert asked(module) == sizes


SLICED = """
stream.executable private @code {
  stream.executable.export public @f workgroups(%w0: index, %w1: index) -> (index, index, index) {
    %x, %y, %z = iree_tensor_ext.dispatch.workgroup_count_from_slice(%w0, %w1)
    stream.return %x, %y, %z : index, index, index
  }
  builtin.module {
    func.func @f(%from: !stream.binding, %to: !stream.binding, %s0: i32, %s1: i32, %s2: i32) {
      %c0 = arith.constant 0 : index
      %i0 = arith.index_castui %s0 : i32 to index
      %i1 = arith.index_castui %s1 : i32 to index
      %wide = arith.extui %s2 : i32 to i64
      %n = iree_tensor_ext.dispatch.workload.ordinal %i0, 0 : index
      %m = iree_tensor_ext.dispatch.workload.ordinal %i1, 1 : index
      %k = arith.index_cast %wide : i64 to index
      %source = stream.binding.subspan %from[%c0] : !stream.binding
        -> !iree_tensor_ext.dispatch.tensor<readonly:tensor<?x16xf32>>{%n}
      %target = stream.binding.subspan %to[%c0] : !stream.binding
        -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<?x16xf32>>{%m}
      %part = iree_tensor_ext.dispatch.tensor.load %source, offsets = [0, 0], sizes = [%k, 16], strides = [1, 1]
        : !iree_tensor_ext.dispatch.tensor<readonly:tensor<?x16xf32>>{%n} -> tensor<?x16xf32>
      iree_tensor_ext.dispatch.tensor.store %part, %target, offsets = [0, 0], sizes = [%k, 16], strides = [1, 1]
        : tensor<?x16xf32> -> !iree_tensor_ext.dispatch.tensor<readwrite:tensor<?x16xf32>>{%m}
      return
    }
  }
}
util.func public @main(%bytes: index, %n: index, %m: index, %k: i64) {
  %c0 = arith.constant 0 : index
  %memory = stream.resource.alloc uninitialized : !stream.resource<transient>{%bytes}
  %n_word = arith.index_castui %n : index to i32
  %m_word = arith.index_castui %m : index to i32
  %k_word = arith.trunci %k : i64 to i32
  %done = stream.cmd.execute with(%memory as %buffer: !stream.resource<transient>{%bytes}) {
    stream.cmd.dispatch @code::@f[%n, %m](%n_word, %m_word, %k_word : i32, i32, i32) {
      ro %buffer[%c0 for %bytes] : !stream.resource<transient>{%bytes},
      rw %buffer[%c0 for %bytes] : !stream.resource<transient>{%bytes}
    }
  } => !stream.timepoint
  util.optimization_barrier %done : !stream.timepoint
  util.return
}
"""


@contextlib.contextmanager
def mended(text: str) -> Iterator[tuple[ir.Module, list[ir.Value]]]:
    """A module whose dispatch lists a third size, and that list; mending it again changes nothing."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        workgroup_sizes.mend(module)
        assert module.operation.verify()
        (site,) = ops_in(module.operation, "stream.cmd.dispatch")
        (count,) = ops_in(module.operation, "iree_tensor_ext.dispatch.workgroup_count_from_slice")
        listed = list(segments(site)[0])
        assert len(count.operands) == len(listed) == 3
        yield module, listed
        once = str(module)
        workgroup_sizes.mend(module)
        assert str(module) == once


def test_the_size_of_a_slice_is_counted():
    """PyTorch's heads that are cut out of one projection and written into a cache: IREE compiled no such dispatch."""
    with mended(SLICED) as (module, listed):
        cast = listed[2].owner
        assert (cast.name, ir.BlockArgument(cast.operands[0]).arg_number) == ("arith.index_cast", 3)
        for name in ("load", "store"):
            (op,) = ops_in(module.operation, f"iree_tensor_ext.dispatch.tensor.{name}")
            (size,) = segments(op)[{"load": 3, "store": 4}[name]]
            assert (size.owner.name, size.owner.attributes["ordinal"].value) == (workgroup_sizes._ORDINAL, 2)


# The size of a slice as PyTorch computes it for `view(batch, -1, 8)`, from a batch that is a number of 64 bits.
COMPUTED = SLICED.replace(
    "%k = arith.index_cast %wide : i64 to index",
    """%c8 = arith.constant 8 : i64
      %wide_n = arith.index_cast %n : index to i64
      %all = arith.muli %wide, %wide_n : i64
      %row = arith.muli %wide, %c8 : i64
      %rows = arith.floordivsi %all, %row : i64
      %k = arith.index_cast %rows : i64 to index""",
)


def test_what_the_size_of_a_slice_is_computed_from_is_counted():
    """The states of Mamba 2 for chunks of an open length, behind a first of zeros: IREE compiled no such dispatch."""
    with mended(COMPUTED) as (module, _):
        for product in ops_in(module.operation, "arith.muli"):
            ordinal = product.operands[0].owner.operands[0].owner
            assert (ordinal.name, ordinal.attributes["ordinal"].value) == (workgroup_sizes._ORDINAL, 2)
