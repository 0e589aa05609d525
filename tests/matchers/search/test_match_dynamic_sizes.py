"""Sizes that are known at run time only: which are equal, by what the program computes them from."""

from __future__ import annotations

import pytest

from opsplice.matchers.dims.extents import ONE, Extent, groups, total

IMPORT = """
  %0 = hal.buffer_view.dim<%v : !hal.buffer_view>[0] : index
  %1 = hal.buffer_view.dim<%v : !hal.buffer_view>[1] : index
  %x = hal.tensor.import %v : !hal.buffer_view -> tensor<?x?xf32>{%0, %1}"""
MEAN = """
util.func public @{name}(%v: !hal.buffer_view) -> tensor<?xf32> {{
  {given}
  %z = arith.constant 0.0 : f32
  %w = arith.constant {factor} : i64
  %i = arith.index_cast %{dim} : index to i64
  %j = arith.muli %i, %w : i64
  %n = arith.sitofp %j : i64 to f32
  %e = tensor.empty(%0) : tensor<?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?xf32>) -> tensor<?xf32>
  %s = linalg.reduce {{ arith.addf }} ins(%x : tensor<?x?xf32>) outs(%f : tensor<?xf32>) dimensions = [1]
  %r = linalg.generic {{indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>],
    iterator_types = ["parallel"]}} ins(%s : tensor<?xf32>) outs(%e : tensor<?xf32>) {{
  ^bb0(%a: f32, %o: f32):
    %q = arith.divf %a, %n : f32
    linalg.yield %q : f32
  }} -> tensor<?xf32>
  util.return %r : tensor<?xf32>
}}
"""
MEAN_SPEC = "pattern p(x: tensor<m x n x f32>) {{ divf(reduce addf[m n -> m](x), {}) }}"


def mean(name: str, dim: str, factor: int = 1) -> str:
    return MEAN.format(name=name, given=IMPORT, dim=dim, factor=factor)


@pytest.mark.parametrize(
    ("number", "found"), [("n", "a"), ("m", "b"), ("const(2 * n)", "c"), ("const(n * n)", None), ("const(n + n)", None)]
)
def test_a_dim_of_an_imported_tensor_is_a_number(find, number, found):
    """The places look alike but for which dim it is, and by how much it is multiplied."""
    payload = mean("a", "1") + mean("b", "0") + mean("c", "1", 2)
    matches = find(payload, MEAN_SPEC.format(number)).found.matches
    assert [match.function.lstrip("@") for match in matches] == [found] * (found is not None)


@pytest.mark.parametrize(
    ("count", "matches"),
    [
        ("%k = arith.maxsi %1, %1 : index", 1),
        ("%k = arith.maxsi %0, %1 : index", 0),
        ("%k = arith.minui %1, %0 : index", 0),
        ("%k = affine.apply affine_map<(d) -> ((d + 1) * 2)>(%1)", 0),
        ("%k = affine.apply affine_map<(d) -> (2 * d)>(%1)", 0),
        ("%k = affine.apply affine_map<(d)[s] -> (s)>(%0)[%1]", 1),
        ("%k = affine.apply affine_map<(d)[s] -> (d)>(%0)[%1]", 0),
        ("%k = tensor.dim %x, %1 : tensor<?x?xf32>", 0),  # of a dim that nobody knows
        ("%k = arith.ceildivsi %0, %1 : index", 0),
        ("%two = arith.constant 2 : index\n%d = arith.muli %1, %two : index\n%k = arith.divui %d, %two : index", 1),
        ("%two = arith.constant 2 : index\n%d = arith.divui %1, %two : index\n%k = arith.muli %d, %two : index", 0),
    ],
)
def test_a_size_that_a_program_computes(find, unregistered, count, matches):
    payload = f"""
    util.func public @f(%v: !hal.buffer_view) -> tensor<?xf32> {{
      {IMPORT}
      %z = arith.constant 0.0 : f32
      {count}
      %y = tensor.splat %z[%k] : tensor<?xf32>
      %r = "test.op"(%x, %y) : (tensor<?x?xf32>, tensor<?xf32>) -> tensor<?xf32>
      util.return %r : tensor<?xf32>
    }}"""
    spec = 'pattern p(x: tensor<m x n x f32>, y: tensor<n x f32>) { "test.op"(x, y) : tensor<m x f32> }'
    assert find(payload, spec).count == matches


@pytest.mark.parametrize(
    ("count", "matches"),
    [
        ("%k = arith.addi %1, %0 : index", 1),
        ("%k = affine.apply affine_map<(d)[s] -> (s + d)>(%0)[%1]", 1),
        ("%i = arith.index_cast %0 : index to i64\n%j = arith.index_cast %1 : index to i64\n"
         "%l = arith.addi %i, %j : i64\n%k = arith.index_cast %l : i64 to index", 1),
        ("%k = arith.addi %1, %1 : index", 0),
        ("%k = arith.muli %1, %0 : index", 0),
        ("%d = arith.addi %1, %0 : index\n%k = arith.addi %d, %1 : index", 0),
        ("%k = affine.apply affine_map<(d)[s] -> (s + 2 * d)>(%0)[%1]", 0),
        ("%k = affine.apply affine_map<(d)[s] -> (s + d + 1)>(%0)[%1]", 0),
    ],
)  # fmt: skip
def test_the_size_of_what_is_put_together_is_a_sum(find, unregistered, count, matches):
    payload = f"""
    util.func public @f(%v: !hal.buffer_view) -> tensor<?xf32> {{
      {IMPORT}
      %z = arith.constant 0.0 : f32
      %p = tensor.splat %z[%0] : tensor<?xf32>
      %q = tensor.splat %z[%1] : tensor<?xf32>
      %c = tensor.concat dim(0) %p, %q : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      {count}
      %y = tensor.splat %z[%k] : tensor<?xf32>
      %r = "test.op"(%c, %y) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
      util.return %r : tensor<?xf32>
    }}"""
    spec = 'pattern p(x: tensor<n x f32>, y: tensor<n x f32>) { "test.op"(x, y) : tensor<n x f32> }'
    assert find(payload, spec).count == matches


HEADS = """
func.func @f(%q: tensor<3x?x4x16x8xf32>, %k: {k}) -> tensor<?x16x16xf32> {{
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %z = arith.constant 0.0 : f32
  %b = tensor.dim %q, %c1 : tensor<3x?x4x16x8xf32>
  %q0 = tensor.extract_slice %q[0, 0, 0, 0, 0] [1, %b, 4, 16, 8] [1, 1, 1, 1, 1]
    : tensor<3x?x4x16x8xf32> to tensor<?x4x16x8xf32>
  %q1 = tensor.collapse_shape %q0 [[0, 1], [2], [3]] : tensor<?x4x16x8xf32> into tensor<?x16x8xf32>
  {keys}
  %e = tensor.empty(%c) : tensor<?x4x8x16xf32>
  %t = linalg.transpose ins(%k0 : tensor<?x4x16x8xf32>) outs(%e : tensor<?x4x8x16xf32>) permutation = [0, 1, 3, 2]
  %k1 = tensor.collapse_shape %t [[0, 1], [2], [3]] : tensor<?x4x8x16xf32> into tensor<?x8x16xf32>
  %n = arith.muli %b, %c4 : index
  %o = tensor.empty(%n) : tensor<?x16x16xf32>
  %f = linalg.fill ins(%z : f32) outs(%o : tensor<?x16x16xf32>) -> tensor<?x16x16xf32>
  %r = linalg.batch_matmul ins(%q1, %k1 : tensor<?x16x8xf32>, tensor<?x8x16xf32>)
    outs(%f : tensor<?x16x16xf32>) -> tensor<?x16x16xf32>
  return %r : tensor<?x16x16xf32>
}}
"""
SAME = """%c = arith.divui %n0, %c4 : index
  %k0 = tensor.extract_slice %q[1, 0, 0, 0, 0] [1, %b, 4, 16, 8] [1, 1, 1, 1, 1]
    : tensor<3x?x4x16x8xf32> to tensor<?x4x16x8xf32>"""


def test_a_batch_and_its_heads_are_one_pack_where_they_are_made_into_one_dim(find):
    spec = """pattern p(q: tensor<...b x s x d x f32>, k: tensor<...b x t x d x f32>) {
      contract[...b s d, ...b t d -> ...b s t](q, k)
    }"""
    keys = SAME.replace("%c = arith.divui %n0", "%n0 = arith.muli %c4, %b : index\n  %c = arith.divui %n0")
    assert find(HEADS.format(k="tensor<1xf32>", keys=keys), spec).inputs == {
        "q": "%collapsed",
        "k": "%extracted_slice_0",
    }


RESHAPED = """
func.func @f(%x: tensor<?x?x32xf32>, %w: tensor<32x96xf32>, %y: tensor<?x?x96xf32>) -> tensor<?x?x96xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c96 = arith.constant 96 : i64
  %z = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?x32xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x32xf32>
  %bs = affine.apply affine_map<()[s0, s1] -> (s0 * s1)>()[%b, %s]
  %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x32xf32> into tensor<?x32xf32>
  %e = tensor.empty(%bs) : tensor<?x96xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x96xf32>) -> tensor<?x96xf32>
  %m = linalg.matmul ins(%c, %w : tensor<?x32xf32>, tensor<32x96xf32>) outs(%f : tensor<?x96xf32>) -> tensor<?x96xf32>
  %bi = arith.index_cast %b : index to i64
  %si = arith.index_cast %s : index to i64
  %sizes = tensor.from_elements {sizes}, %c96 : tensor<3xi64>
  %h = tensor.reshape %m(%sizes) : (tensor<?x96xf32>, tensor<3xi64>) -> tensor<?x?x96xf32>
  %r = arith.addf %h, %y : tensor<?x?x96xf32>
  return %r : tensor<?x?x96xf32>
}}
"""


@pytest.mark.parametrize(("sizes", "count"), [("%bi, %si", 1), ("%si, %bi", 0)])
def test_a_reshape_to_several_dims_of_unknown_size_is_seen_through(find, sizes, count):
    spec = """pattern p(x: tensor<b x s x k x f32>, w: tensor<k x n x f32>, y: tensor<b x s x n x f32>) {
      addf(contract[b s k, k n -> b s n](x, w), y)
    }"""
    outcome = find(RESHAPED.format(sizes=sizes), spec)
    assert outcome.count == count
    if count:
        assert outcome.inputs == {"x": "%arg0", "w": "%arg1", "y": "%arg2"}


def test_a_scalar_tensor_of_one_element(find):
    payload = """
    func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %c0 = arith.constant 0 : index
      %d = tensor.dim %x, %c0 : tensor<?xf32>
      %i = arith.index_cast %d : index to i32
      %t = tensor.from_elements %i : tensor<i32>
      %r = linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> ()>, affine_map<(d) -> (d)>],
        iterator_types = ["parallel"]} ins(%x, %t : tensor<?xf32>, tensor<i32>) outs(%x : tensor<?xf32>) {
      ^bb0(%a: f32, %b: i32, %o: f32):
        %n = arith.sitofp %b : i32 to f32
        %q = arith.divf %a, %n : f32
        linalg.yield %q : f32
      } -> tensor<?xf32>
      return %r : tensor<?xf32>
    }"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { divf(x, n) }").count == 1


A, B = Extent.of("a"), Extent.of("b")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ((A, B, Extent(32)), (A, B, Extent(4), Extent(8)), [(1, 1), (1, 1), (1, 2)]),
        ((A * B, Extent(96)), (A, B, Extent(96)), [(1, 2), (1, 1)]),
        ((A, Extent(4), B), (A * Extent(4), B), [(2, 1), (1, 1)]),
        ((A, Extent(6), Extent(4)), (A, Extent(8), Extent(3)), None),
        ((A, B), (B, A), None),
        ((A,), (A, ONE, ONE), [(1, 3)]),
        ((A, B), (A,), None),
        ((), (), []),
    ],
)
def test_dims_of_a_reshape(source, target, expected):
    found = groups(source, target)
    assert expected == (None if found is None else [(len(old), len(new)) for old, new in found])


def test_quotients_count_where_they_come_out_even():
    assert (A * B * Extent(8)).divided(B * Extent(2)) == A * Extent(4)
    assert (A * Extent(8)).divided(B) is None
    assert (A * Extent(8)).divided(Extent(3)) is None


def test_a_number_of_many_factors_is_judged_in_no_time(find):
    """Each is the square of the one before."""
    squares = "".join(f"%i{k + 1} = arith.muli %i{k}, %i{k} : i64\n" for k in range(60))
    payload = f"""
    func.func @f(%x: tensor<?xf32>, %i0: i64) -> tensor<?xf32> {{
      {squares}
      %n = arith.sitofp %i60 : i64 to f32
      %s = arith.index_cast %i60 : i64 to index
      %b = tensor.splat %n[%s] : tensor<?xf32>
      %r = arith.divf %x, %b : tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { divf(x, n) }").count == 0


@pytest.mark.parametrize("axis", [1, -1, 2**40])
def test_a_dim_that_a_tensor_does_not_have_is_no_size(find, axis):
    """MLIR takes such a program; what it does is not defined."""
    payload = f"""
    func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {{
      %axis = arith.constant {axis} : index
      %d = tensor.dim %x, %axis : tensor<?xf32>
      %i = arith.index_cast %d : index to i64
      %n = arith.sitofp %i : i64 to f32
      %c0 = arith.constant 0 : index
      %m = tensor.dim %x, %c0 : tensor<?xf32>
      %b = tensor.splat %n[%m] : tensor<?xf32>
      %r = arith.divf %x, %b : tensor<?xf32>
      return %r : tensor<?xf32>
    }}"""
    assert find(payload, "pattern p(x: tensor<n x f32>) { divf(x, n) }").count == 0


def test_sums_have_one_form():
    a, b, two = Extent.of("a"), Extent.of("b"), Extent(2)
    assert total([a, b]) == total([b, a]) != total([a, a])
    assert total([a, a]) == two * a
    assert total([total([a, b]), a]) == total([a, total([b, a])]) == total([two * a, b])
    assert total([two * a, two * b]) == two * total([a, b])
    assert total([a, Extent(-1) * a]) == Extent(0)
    assert (total([a, b]) * total([a, b])).divided(total([a, b])) == total([a, b])
    assert total([a, b]).renamed({"a": 3, "b": 4}.get) == Extent(7)
    assert total([a, b]).renamed({"a": "c", "b": "c"}.get) == two * Extent.of("c")


# ---- conditions on sizes that are not known --------------------------------------------------------------------------

SQUARES = """
util.func public @static(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %r = arith.mulf %x, %x : tensor<4x?xf32>
  util.return %r : tensor<4x?xf32>
}
"""


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("dynamic(n)", True),
        ("dynamic(m)", False),
        ("not dynamic(m)", True),
        ("not dynamic(n)", False),
        ("dynamic(2 * n + m)", True),
        ("n > 4", False),
        ("n > 4 or dynamic(n)", True),
        ("m > 4 or dynamic(m)", False),
        ("may(n > 4)", True),
        ("may(n > 4 and m > 4)", False),
        ("may(m > 4)", False),
        ("may(m == 4)", True),
        ("not may(n > 4)", False),
        ("not may(m > 4)", True),
        ("may(m % (m - 4) == 0)", False),
        ("may(k > 4)", False),
        ("not may(k > 4)", False),
        ("dynamic(k)", False),
    ],
)
def test_a_size_that_is_known_at_run_time_only(find, condition, holds):
    """Nothing is true of a dim of what the program lacks, `k`."""
    body = "mulf(x, x) | addf(x, reduce addf[k -> ](s))"
    spec = f"pattern p(x: tensor<m x n x f32>, s: tensor<k x f32>) where {condition} {{ {body} }}"
    assert len(find(SQUARES, spec).found.matches) == holds
