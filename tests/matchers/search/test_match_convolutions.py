"""Windows: named convolutions and generic ones, strides and dilations by number and by name, and what is none."""

from __future__ import annotations

import pytest

CONV = """
pattern p(x: tensor<n x h x w x c x f32>, k: tensor<kh x kw x c x f x f32>) {
  contract[n (sh*y + dh*i) (sw*z + dw*j) c, i j c f -> n y z f](x, k)
}
"""


def named(x: str, k: str, out: str, stride: int = 1, dilation: int = 1) -> str:
    return f"""
    func.func @f(%x: tensor<{x}xf32>, %k: tensor<{k}xf32>) -> tensor<{out}xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<{out}xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{out}xf32>) -> tensor<{out}xf32>
      %r = linalg.conv_2d_nhwc_hwcf {{
          strides = dense<{stride}> : vector<2xi64>, dilations = dense<{dilation}> : vector<2xi64>}}
        ins(%x, %k : tensor<{x}xf32>, tensor<{k}xf32>) outs(%z : tensor<{out}xf32>) -> tensor<{out}xf32>
      return %r : tensor<{out}xf32>
    }}"""


def generic(rows: str, columns: str, x: str = "1x17x17x3") -> str:
    """A convolution with a filter of 3 x 3, 3 channels to 8, that reads its input at `rows` and `columns`."""
    return f"""
    #x = affine_map<(n, y, z, f, i, j, c) -> (n, {rows}, {columns}, c)>
    #k = affine_map<(n, y, z, f, i, j, c) -> (i, j, c, f)>
    #o = affine_map<(n, y, z, f, i, j, c) -> (n, y, z, f)>
    func.func @f(%x: tensor<{x}xf32>, %k: tensor<3x3x3x8xf32>) -> tensor<1x4x4x8xf32> {{
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x4x4x8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
      %r = linalg.generic {{indexing_maps = [#x, #k, #o],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}}
        ins(%x, %k : tensor<{x}xf32>, tensor<3x3x3x8xf32>) outs(%z : tensor<1x4x4x8xf32>) {{
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %1 = arith.mulf %b, %a : f32
        %2 = arith.addf %acc, %1 : f32
        linalg.yield %2 : f32
      }} -> tensor<1x4x4x8xf32>
      return %r : tensor<1x4x4x8xf32>
    }}"""


@pytest.mark.parametrize(
    ("payload", "numbers"),
    [
        (named("1x16x16x3", "3x3x3x8", "1x14x14x8"), (1, 1, 1, 1)),
        (named("1x17x17x3", "3x3x3x8", "1x8x8x8", stride=2), (2, 1, 2, 1)),
        (named("1x16x16x3", "3x3x3x8", "1x12x12x8", dilation=2), (1, 2, 1, 2)),
        (named("1x16x16x3", "1x1x3x8", "1x8x8x8", stride=2), (2, 1, 2, 1)),
        (named("1x8x8x3", "8x8x3x8", "1x1x1x8", stride=8), (1, 1, 1, 1)),
        (generic("y * 2 + i", "z * 3 + j"), (2, 1, 3, 1)),
        (generic("i * 2 + y", "j + z * 4"), (1, 2, 4, 1)),
    ],
    ids=["plain", "strided", "dilated", "one by one", "one place", "generic strided", "generic dilated"],
)
def test_strides_and_dilations(find, payload, numbers):
    dims = find(payload, CONV).dims
    assert (dims["sh"], dims["dh"], dims["sw"], dims["dw"]) == numbers
    assert dims["c"] == 3
    assert dims["f"] == 8


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ("y * 2 + i", "z + i"),  # a diagonal of the filter
        ("y * 2 + i + 1", "z * 2 + j"),
        ("y * 2 + 3", "z * 2 + j"),
        ("y + z", "z + j"),
        ("(y + i) mod 5", "z + j"),
        ("y * 2 + i + j", "z + j"),
    ],
)
def test_other_sums_are_no_windows(find, rows, columns):
    assert find(generic(rows, columns), CONV).count == 0


def test_a_number_in_the_pattern_is_the_only_one_that_fits(find):
    text = CONV.replace("sh*y", "2*y").replace("dh*i", "i")
    assert find(named("1x17x17x3", "3x3x3x8", "1x8x8x8", stride=2), text).count == 1
    outcome = find(named("1x16x16x3", "3x3x3x8", "1x14x14x8"), text)
    assert outcome.count == 0
    assert any("wanted a stride or dilation of 2, found 1" in reason for reason in outcome.reasons)


def test_one_name_for_two_strides_makes_them_equal(find):
    text = CONV.replace("sh", "s").replace("sw", "s")
    assert find(generic("y * 2 + i", "z * 2 + j"), text).dims["s"] == 2
    outcome = find(generic("y * 2 + i", "z * 3 + j"), text)
    assert outcome.count == 0
    assert "wanted s = 2, found 3" in outcome.reasons


def test_a_name_of_a_dim_is_its_size(find):
    """Patches that do not overlap: the stride is the filter's size."""
    patches = """
    pattern p(x: tensor<n x h x w x c x f32>, k: tensor<kh x kw x c x f x f32>) {
      contract[n (kh*y + i) (kw*z + j) c, i j c f -> n y z f](x, k)
    }"""
    assert find(named("1x16x16x3", "4x4x3x8", "1x4x4x8", stride=4), patches).dims["kh"] == 4
    assert find(named("1x16x16x3", "3x3x3x8", "1x7x7x8", stride=2), patches).count == 0


def test_conditions_on_strides(find):
    text = CONV.replace(") {", ") where sh == 2 {", 1)
    assert find(named("1x17x17x3", "3x3x3x8", "1x8x8x8", stride=2), text).count == 1
    outcome = find(named("1x16x16x3", "3x3x3x8", "1x14x14x8"), text)
    assert outcome.reasons[0] == "wanted sh == 2, found sh = 1"


def test_a_product_of_matrices_is_no_convolution(find):
    """A layer over four dims has no filter of its own rows and columns."""
    layer = """
    #x = affine_map<(n, y, z, f, c) -> (n, y, z, c)>
    #k = affine_map<(n, y, z, f, c) -> (c, f)>
    #o = affine_map<(n, y, z, f, c) -> (n, y, z, f)>
    func.func @f(%x: tensor<1x4x4x3xf32>, %k: tensor<3x8xf32>) -> tensor<1x4x4x8xf32> {
      %zero = arith.constant 0.0 : f32
      %e = tensor.empty() : tensor<1x4x4x8xf32>
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
      %r = linalg.generic {indexing_maps = [#x, #k, #o],
        iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
        ins(%x, %k : tensor<1x4x4x3xf32>, tensor<3x8xf32>) outs(%z : tensor<1x4x4x8xf32>) {
      ^bb0(%a: f32, %b: f32, %acc: f32):
        %1 = arith.mulf %a, %b : f32
        %2 = arith.addf %acc, %1 : f32
        linalg.yield %2 : f32
      } -> tensor<1x4x4x8xf32>
      return %r : tensor<1x4x4x8xf32>
    }"""
    assert find(layer, CONV).count == 0


def test_a_part_of_the_input_is_not_all_of_it(find):
    """A generic op that reads the first rows of a larger input reads no dim from end to end."""
    text = "pattern p(x: tensor<n x h x w x c x f32>) { reduce addf[n h w c -> n](x) }"
    whole = generic("y + i", "z + j")
    assert find(whole, text).count == 0


@pytest.mark.parametrize(
    ("start", "step", "count", "stride"),
    [(0, 1, 9, 2), (0, 3, 5, 6), (1, 1, 9, None)],
    ids=["the first places", "every third place", "other places"],
)
def test_a_slice_of_a_convolution_is_one(find, start, step, count, stride):
    """As of one that is causal, which is padded at both ends. What begins later reads from elsewhere."""
    payload = f"""func.func @f(%x: tensor<2x3x31xf32>, %k: tensor<4x3x3xf32>) -> tensor<2x4x{count}xf32> {{
      %zero = arith.constant dense<0.0> : tensor<2x4x15xf32>
      %y = linalg.conv_1d_ncw_fcw {{strides = dense<2> : vector<1xi64>, dilations = dense<1> : vector<1xi64>}}
        ins(%x, %k : tensor<2x3x31xf32>, tensor<4x3x3xf32>) outs(%zero : tensor<2x4x15xf32>) -> tensor<2x4x15xf32>
      %s = tensor.extract_slice %y[0, 0, {start}] [2, 4, {count}] [1, 1, {step}]
        : tensor<2x4x15xf32> to tensor<2x4x{count}xf32>
      %r = math.exp %s : tensor<2x4x{count}xf32>
      return %r : tensor<2x4x{count}xf32>
    }}"""
    spec = """pattern p(x: tensor<n x c x l x f32>, k: tensor<f x c x w x f32>) {
      exp(contract[n c (s*t + d*w), f c w -> n f t](x, k))
    }"""
    found = find(payload, spec)
    assert found.count == (0 if stride is None else 1)
    assert stride is None or (found.dims["s"], found.dims["d"]) == (stride, 1)


@pytest.mark.parametrize(("filter_dims", "zero", "count"), [("16x1", "0.0", 1), ("16", "0.0", 0), ("16x1", "0.5", 0)])
def test_a_window_of_one_place_is_summed_with_zero_and_has_its_own_dim(find, filter_dims, zero, count):
    spec = """pattern p(x: tensor<n x w x c x f32>, f: tensor<c x k x f32>) {
      contract[n (s*z + d*j) c, c j -> n z c](x, f) }"""
    place = ", 0" * (filter_dims == "16x1")
    program = f"""func.func @f(%x: tensor<2x8x16xf32>, %f: tensor<{filter_dims}xf32>) -> tensor<2x8x16xf32> {{
      %zero = arith.constant {zero} : f32
      %e = tensor.empty() : tensor<2x8x16xf32>
      %r = linalg.generic {{
        indexing_maps = [affine_map<(n, z, c) -> (n, z, c)>, affine_map<(n, z, c) -> (c{place})>,
                         affine_map<(n, z, c) -> (n, z, c)>],
        iterator_types = ["parallel", "parallel", "parallel"]
      }} ins(%x, %f : tensor<2x8x16xf32>, tensor<{filter_dims}xf32>) outs(%e : tensor<2x8x16xf32>) {{
      ^bb0(%1: f32, %2: f32, %o: f32):
        %p = arith.mulf %1, %2 : f32
        %s = arith.addf %zero, %p : f32
        linalg.yield %s : f32 }} -> tensor<2x8x16xf32>
      return %r : tensor<2x8x16xf32>
    }}"""
    assert find(program, spec).count == count


GROUPS = """func.func @f(%x: tensor<2x12x5xf32>, %k: tensor<3x2x4xf32>) -> tensor<2x3x2x5xf32> {{
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x2x5xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x2x5xf32>) -> tensor<2x3x2x5xf32>
  %s = tensor.expand_shape %x [[0], [1, 2], [3]] output_shape [2, {sizes[0]}, {sizes[1]}, 5]
    : tensor<2x12x5xf32> into tensor<2x{sizes[0]}x{sizes[1]}x5xf32>
  %r = linalg.generic {{indexing_maps = [affine_map<(n, g, o, h, c) -> (n, {order}, h)>,
      affine_map<(n, g, o, h, c) -> (g, o, c)>, affine_map<(n, g, o, h, c) -> (n, g, o, h)>],
    iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
    ins(%s, %k : tensor<2x{sizes[0]}x{sizes[1]}x5xf32>, tensor<3x2x4xf32>) outs(%z : tensor<2x3x2x5xf32>) {{
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %1 = arith.mulf %b, %a : f32
    %2 = arith.addf %acc, %1 : f32
    linalg.yield %2 : f32
  }} -> tensor<2x3x2x5xf32>
  return %r : tensor<2x3x2x5xf32>
}}"""


@pytest.mark.parametrize(("sizes", "order", "apart"), [((3, 4), "g, c", (4, 1)), ((4, 3), "c, g", (1, 3))])
def test_a_dim_that_the_program_splits_is_a_sum_of_its_parts(find, sizes, order, apart):
    spec = """pattern p(x: tensor<n x gc x h x f32>, k: tensor<g x o x c x f32>) {
      contract[n (far*g + near*c) h, g o c -> n g o h](x, k)
    }"""
    outcome = find(GROUPS.format(sizes=sizes, order=order), spec)
    assert (outcome.dims["far"], outcome.dims["near"], outcome.dims["gc"]) == (*apart, 12)
    wrong = spec.replace("far*g + near*c", "g + near*c" if apart[0] > 1 else "far*g + c")
    assert find(GROUPS.format(sizes=sizes, order=order), wrong).count == 0
