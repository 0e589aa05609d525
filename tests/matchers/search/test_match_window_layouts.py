"""Convolutions with the dims of image, filter and result in any order, by one pattern, against numpy."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples
from tests.rewrites.conftest import write_spec

PATTERN = """
pattern zero_padded(x: tensor<n x c x h x w x f32>, top: index, left: index) {
  "tensor.pad"(x) {static_low = [0, 0, ?top, ?left]} mlir {
    ^bb0(%n: index, %c: index, %h: index, %w: index):
      %zero = arith.constant 0.0 : f32
      tensor.yield %zero : f32
  } : tensor<n x c x ? x ? x f32>
}
pattern p(
  x: tensor<n x c x h x w x f32>,
  k: tensor<o x c x kh x kw x f32>,
  top: index = 0,
  left: index = 0,
) {
  contract[n c (sh*y + dh*i) (sw*z + dw*j), o c i j -> n o y z](zero_padded(x, top, left) | x, k)
}
"""
LETTERS = {"x": "nchw", "k": "ocij", "r": "noyz"}
ARGUMENTS = {"%arg0": "x", "%arg1": "k"}


class Convolution:
    """A convolution as a program has it. orders: the dims of image, filter and result, each by its letter."""

    def __init__(
        self, orders: dict[str, str], sizes: dict[str, int], step: int, apart: int, pads: tuple[int, int]
    ) -> None:
        self.orders, self.step, self.apart = orders, step, apart
        reach = {"h": ("y", "i"), "w": ("z", "j")}
        padded = {at: step * (sizes[a] - 1) + apart * (sizes[b] - 1) + 1 for at, (a, b) in reach.items()}
        self.pads = min(pads[0], padded["h"] - 1), min(pads[1], padded["w"] - 1)  # there is an image
        self.sizes = sizes | {"h": padded["h"] - self.pads[0], "w": padded["w"] - self.pads[1]}
        self.padded = sizes | padded

    def shape(self, value: str, sizes: dict[str, int] | None = None) -> str:
        return "x".join(str((sizes or self.sizes)[letter]) for letter in self.orders[value]) + "xf32"

    @property
    def text(self) -> str:
        read = {"h": f"y * {self.step} + i * {self.apart}", "w": f"z * {self.step} + j * {self.apart}"}
        maps = [
            f"affine_map<(n, o, y, z, c, i, j) -> ({', '.join(read.get(d, d) for d in self.orders[value])})>"
            for value in "xkr"
        ]
        low = ", ".join({"h": str(self.pads[0]), "w": str(self.pads[1])}.get(d, "0") for d in self.orders["x"])
        x, padded, k, r = self.shape("x"), self.shape("x", self.padded), self.shape("k"), self.shape("r")
        is_padded = any(self.pads)
        pad = f"""%p = tensor.pad %x low[{low}] high[0, 0, 0, 0] {{
            ^bb0(%a: index, %b: index, %c: index, %d: index):
              tensor.yield %zero : f32 }} : tensor<{x}> to tensor<{padded}>"""
        return f"""func.func @f(%x: tensor<{x}>, %k: tensor<{k}>) -> tensor<{r}> {{
          %zero = arith.constant 0.0 : f32
          {pad if is_padded else ""}
          %e = tensor.empty() : tensor<{r}>
          %z = linalg.fill ins(%zero : f32) outs(%e : tensor<{r}>) -> tensor<{r}>
          %r = linalg.generic {{indexing_maps = [{", ".join(maps)}], iterator_types = ["parallel", "parallel",
              "parallel", "parallel", "reduction", "reduction", "reduction"]}}
            ins({"%p" if is_padded else "%x"}, %k : tensor<{padded if is_padded else x}>, tensor<{k}>)
            outs(%z : tensor<{r}>) {{
          ^bb0(%a: f32, %b: f32, %acc: f32):
            %1 = arith.mulf %a, %b : f32
            %2 = arith.addf %acc, %1 : f32
            linalg.yield %2 : f32
          }} -> tensor<{r}>
          return %r : tensor<{r}> }}"""

    def numbers(self, value: str) -> np.ndarray:
        shape = [self.sizes[letter] for letter in self.orders[value]]
        return np.random.default_rng(len(value)).integers(-3, 4, shape).astype(np.float64)

    def memory(self, value: str) -> np.ndarray:
        """What a value of the program is: an argument, or the padded image."""
        if value in ARGUMENTS:
            return self.numbers(ARGUMENTS[value])
        low = {"h": (self.pads[0], 0), "w": (self.pads[1], 0)}
        return np.pad(self.numbers("x"), [low.get(letter, (0, 0)) for letter in self.orders["x"]])

    def result(self) -> np.ndarray:
        x, k = (self.numbers(v).transpose([self.orders[v].index(d) for d in LETTERS[v]]) for v in "xk")
        steps = (self.step, self.step, self.apart, self.apart)
        return convolved(x, k, steps, self.pads).transpose([LETTERS["r"].index(d) for d in self.orders["r"]])


def convolved(x: np.ndarray, k: np.ndarray, steps: tuple[int, ...], pads: tuple[int, int]) -> np.ndarray:
    """In the order of the pattern, of all the places that there are."""
    sh, sw, dh, dw = steps
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], 0), (pads[1], 0)))
    reach = [dh * (k.shape[2] - 1) + 1, dw * (k.shape[3] - 1) + 1]
    every = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    return np.einsum("ncyzij,ocij->noyz", every, k)


def found(session: Any, text: str, spec: str = PATTERN, strided: str = "xk", reordered: bool = True) -> tuple[Any, ...]:
    from iree.compiler import ir

    module = ir.Module.parse(text, context=session.context)
    (graph,) = compile_pattern(load_text(spec), "p", frozenset(strided), reordered=reordered)
    return engine.find(module, (graph,)).matches, module


def view(program: Convolution, match: Any, name: str) -> np.ndarray:
    """What an input is, read from the memory of the argument that it is bound to. A product may have them swapped."""
    binding, sizes = match.inputs[name], match.shapes[name]
    value, layout = binding.places[-1] if binding.places else (binding.value, None)
    whole = program.memory(value.get_name())
    if layout is None:
        return whole.reshape(sizes)
    strides = [runs[0][1].number * whole.itemsize if runs else 0 for runs in layout.dims]
    return np.lib.stride_tricks.as_strided(whole.ravel()[layout.offset.number :], sizes, strides)


def is_computed(program: Convolution, match: Any) -> None:
    """The pattern, computed from what a match binds, is what the program computes."""
    numbers = match.static_dims(Views())
    steps = tuple(numbers.get(each, 1) for each in ("sh", "sw", "dh", "dw"))
    made = convolved(view(program, match, "x"), view(program, match, "k"), steps, (numbers["top"], numbers["left"]))
    wanted = program.result()
    order = match.order or (0, 1, 2, 3)
    np.testing.assert_array_equal(made, wanted.transpose(order))


ORDERS = ["nchw", "nhwc", "chwn", "hwnc", "nwhc", "hncw"]
FILTERS = ["ocij", "ijco", "cijo", "oijc", "icjo"]
RESULTS = ["noyz", "nyzo", "yzno", "oyzn"]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0), (1, 2)])
@pytest.mark.parametrize("x", ORDERS)
def test_orders_of_image_filter_and_result(session, x, pads, batch):
    sizes = dict(zip("nocyzij", (batch, 5, 3, 4, 6, 3, 2), strict=True))
    for k, r in itertools.product(FILTERS, RESULTS):
        program = Convolution({"x": x, "k": k, "r": r}, sizes, 2, 1, pads)
        (match,), _ = found(session, program.text)
        is_computed(program, match)


@pytest.mark.parametrize("seed", range(examples(30, 2000)))
def test_random_convolutions(session, seed):
    """Of any sizes, also of one: what matches is what the program computes, and what is read in windows matches."""
    rng = random.Random(seed)
    orders = {value: "".join(rng.sample(letters, 4)) for value, letters in LETTERS.items()}
    sizes = {letter: rng.choice([1, 2, 3, 5]) for letter in "nocyzij"}
    pads = rng.choice([(0, 0), (0, 0), (1, 0), (2, 1)])
    program = Convolution(orders, sizes, rng.choice([1, 2, 3]), rng.choice([1, 1, 2]), pads)
    matches, _ = found(session, program.text)
    windows = [sizes["y"] > 1 and sizes["i"] > 1, sizes["z"] > 1 and sizes["j"] > 1]
    assert matches or not all(windows)
    for match in matches:
        is_computed(program, match)


def test_a_dense_result_has_the_order_of_the_pattern(session):
    sizes = dict(zip("nocyzij", (2, 5, 3, 4, 6, 3, 2), strict=True))
    for r, count in (("noyz", 1), ("nyzo", 0)):
        program = Convolution({"x": "nhwc", "k": "ijco", "r": r}, sizes, 1, 1, (1, 1))
        matches, _ = found(session, program.text, reordered=False)
        assert len(matches) == count
        for match in matches:
            is_computed(program, match)
    dense, _ = found(session, program.text, strided="k")
    assert not dense, "a dense image would have to be copied"


def test_products_are_no_windows_in_another_order(session):
    """One place of a window, or an only place of all of the image: linear layers take these."""
    for y, z, i, j in ((4, 6, 1, 1), (1, 1, 4, 6), (1, 6, 4, 1)):
        sizes = dict(zip("nocyzij", (1, 5, 3, y, z, i, j), strict=True))
        program = Convolution({"x": "nhwc", "k": "ijco", "r": "nyzo"}, sizes, 1, 1, (0, 0))
        assert not found(session, program.text)[0]


POOL = """pattern p(x: tensor<...m x h x w x f32>) {
  reduce maximumf[...m (sh*y + dh*kh) (sw*z + dw*kw) -> ...m y z](x)
}"""


@pytest.mark.parametrize("batch", [1, 2])
def test_a_pack_takes_what_windows_leave(session, batch):
    text = f"""func.func @f(%x: tensor<{batch}x8x9x5xf32>) -> tensor<{batch}x4x3x5xf32> {{
      %low = arith.constant 0xFF800000 : f32
      %w = tensor.empty() : tensor<2x3xf32>
      %e = tensor.empty() : tensor<{batch}x4x3x5xf32>
      %z = linalg.fill ins(%low : f32) outs(%e : tensor<{batch}x4x3x5xf32>) -> tensor<{batch}x4x3x5xf32>
      %r = linalg.pooling_nhwc_max {{strides = dense<[2, 3]> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}}
        ins(%x, %w : tensor<{batch}x8x9x5xf32>, tensor<2x3xf32>) outs(%z : tensor<{batch}x4x3x5xf32>)
        -> tensor<{batch}x4x3x5xf32>
      return %r : tensor<{batch}x4x3x5xf32> }}"""
    (match,), _ = found(session, text, POOL, "x")
    assert match.order == (0, 3, 1, 2)
    assert (match.dims["m"], match.dims["h"], match.dims["w"]) == ((batch, 5), 8, 9)
    assert [runs[0][1].number for runs in match.inputs["x"].places[0][1].dims if runs][-3:] == [1, 45, 5]


ANY = """
kernel any(x: f32[n, gc, d, h, w] strided, f: f32[g, o, c, kd, kh, kw] strided) -> f32[n, g, o, od, oh, ow] strided {
  cpu "k.c" as bitcode
}
pattern p(x: tensor<n x gc x d x h x w x f32>, f: tensor<g x o x c x kd x kh x kw x f32>) through ones {
  contract[n (c*g + c) (sd*t + dd*a) (sh*y + dh*i) (sw*z + dw*j), g o c a i j -> n g o t y z](x, f)
}
replace p with any(x, f)
"""
CONVOLUTION = """func.func @f(%x: tensor<{x}xf32>, %f: tensor<{f}xf32>) -> tensor<{y}xf32> {{
  %y = stablehlo.convolution(%x, %f) dim_numbers = [{x_dims}]x[{f_dims}]->[{x_dims}],
    window = {{}} {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}}
    : (tensor<{x}xf32>, tensor<{f}xf32>) -> tensor<{y}xf32>
  return %y : tensor<{y}xf32>
}}"""
NAMES = ("n", "gc", "d", "h", "w", "g", "o", "c", "kd", "kh", "kw")


@pytest.mark.parametrize(
    ("x", "f", "y", "x_dims", "f_dims", "groups", "dims"),
    [
        ("1x4x9x8", "6x4x3x3", "1x6x7x6", "b, f, 0, 1", "o, i, 0, 1", 1, (1, 4, 1, 9, 8, 1, 6, 4, 1, 3, 3)),
        ("1x9x8x4", "3x1x4x6", "1x7x8x6", "b, 0, 1, f", "0, 1, i, o", 1, (1, 4, 1, 9, 8, 1, 6, 4, 1, 3, 1)),
        ("2x9x8x6", "3x3x2x9", "2x7x6x9", "b, 0, 1, f", "0, 1, i, o", 3, (2, 6, 1, 9, 8, 3, 3, 2, 1, 3, 3)),
        ("2x6x9x8", "6x1x3x3", "2x6x7x6", "b, f, 0, 1", "o, i, 0, 1", 6, (2, 6, 1, 9, 8, 6, 1, 1, 1, 3, 3)),
        ("1x9x4", "3x4x6", "1x7x6", "b, 0, f", "0, i, o", 1, (1, 4, 1, 1, 9, 1, 6, 4, 1, 1, 3)),
        ("2x9x6", "3x2x9", "2x7x9", "b, 0, f", "0, i, o", 3, (2, 6, 1, 1, 9, 3, 3, 2, 1, 1, 3)),
        ("1x4x5x9x8", "6x4x3x1x3", "1x6x3x9x6", "b, f, 0, 1, 2", "o, i, 0, 1, 2", 1, (1, 4, 5, 9, 8, 1, 6, 4, 3, 1, 3)),
        # Windows of one place.
        ("1x4x9x8", "6x4x1x1", "1x6x9x8", "b, f, 0, 1", "o, i, 0, 1", 1, (1, 4, 1, 9, 8, 1, 6, 4, 1, 1, 1)),
        ("1x9x8x4", "1x1x4x6", "1x9x8x6", "b, 0, 1, f", "0, 1, i, o", 1, (1, 4, 1, 9, 8, 1, 6, 4, 1, 1, 1)),
        ("2x4x9", "6x4x1", "2x6x9", "b, f, 0", "o, i, 0", 1, (2, 4, 1, 1, 9, 1, 6, 4, 1, 1, 1)),
    ],
)
def test_one_pattern_for_convolutions_of_any_rank_and_groups(tmp_path, x, f, y, x_dims, f_dims, groups, dims):
    """Rows are no batch, channels no depth, and a group is no place: what is lacking is told by what there is."""
    spec = write_spec(tmp_path, ANY, {"k.c": "void any(void) {}"})
    text = CONVOLUTION.format(x=x, f=f, y=y, x_dims=x_dims, f_dims=f_dims, groups=groups)
    (found,) = opsplice.match(text, [spec]).replacements
    assert tuple(found.dims[name] for name in NAMES) == dims


@pytest.mark.parametrize(
    ("x", "f", "y", "batch", "summed"),
    [
        ("16x64", "64x32", "16x32", "", "[1] x [0]"),
        ("1x16x64", "64x32", "1x16x32", "", "[2] x [0]"),
        ("4x16x64", "4x64x32", "4x16x32", "batching_dims = [0] x [0], ", "[2] x [1]"),
        ("1x4x16x64", "1x4x32x64", "1x4x16x32", "batching_dims = [0, 1] x [0, 1], ", "[3] x [3]"),
    ],
)
def test_a_product_is_no_convolution_of_windows_of_one_place(tmp_path, x, f, y, batch, summed):
    spec = write_spec(tmp_path, ANY, {"k.c": "void any(void) {}"})
    text = f"""func.func @f(%x: tensor<{x}xf32>, %f: tensor<{f}xf32>) -> tensor<{y}xf32> {{
      %y = stablehlo.dot_general %x, %f, {batch}contracting_dims = {summed}
        : (tensor<{x}xf32>, tensor<{f}xf32>) -> tensor<{y}xf32>
      return %y : tensor<{y}xf32> }}"""
    assert opsplice.match(text, [spec]).replacements == ()


def test_a_window_of_one_place_in_an_image_of_any_size(tmp_path):
    spec = write_spec(tmp_path, ANY, {"k.c": "void any(void) {}"})
    text = """func.func @f(%x: tensor<1x4x?x?xf32>, %f: tensor<6x4x1x1xf32>, %e: tensor<1x6x?x?xf32>)
        -> tensor<1x6x?x?xf32> {
      %zero = arith.constant 0.0 : f32
      %z = linalg.fill ins(%zero : f32) outs(%e : tensor<1x6x?x?xf32>) -> tensor<1x6x?x?xf32>
      %y = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<1x4x?x?xf32>, tensor<6x4x1x1xf32>)
        outs(%z : tensor<1x6x?x?xf32>) -> tensor<1x6x?x?xf32>
      return %y : tensor<1x6x?x?xf32> }"""
    (found,) = opsplice.match(text, [spec]).replacements
    assert tuple(found.dims.get(name) for name in NAMES) == (1, 4, 1, None, None, 1, 6, 4, 1, 1, 1)


def test_a_window_as_large_as_the_image_is_read_in_order(tmp_path):
    spec = write_spec(tmp_path, ANY, {"k.c": "void any(void) {}"})
    text = """func.func @f(%x: tensor<2x4x3x5xf32>, %f: tensor<6x4x3x5xf32>) -> tensor<2x6x1x1xf32> {
      %zero = arith.constant dense<0.0> : tensor<2x6x1x1xf32>
      %y = linalg.conv_2d_nchw_fchw ins(%x, %f : tensor<2x4x3x5xf32>, tensor<6x4x3x5xf32>)
        outs(%zero : tensor<2x6x1x1xf32>) -> tensor<2x6x1x1xf32>
      return %y : tensor<2x6x1x1xf32> }"""
    (found,) = opsplice.match(text, [spec]).replacements
    assert tuple(found.dims[name] for name in NAMES) == (2, 4, 1, 3, 5, 1, 6, 4, 1, 3, 5)


ENLARGED = """
pattern zero_padded(x: tensor<n x c x d x h x w x f32>, front, top, left: index) {
  "tensor.pad"(x) {static_low = [0, 0, ?front, ?top, ?left]} mlir {
    ^bb0(%n: index, %c: index, %d: index, %h: index, %w: index):
      %zero = arith.constant 0.0 : f32
      tensor.yield %zero : f32
  } : tensor<n x c x ? x ? x ? x f32>
}
pattern spread(x: tensor<n x c x d x h x w x f32>, front, top, left, uh, uw: index) {
  "tensor.insert_slice"(
    x,
    0.0,
  ) {static_offsets = [0, 0, ?front, ?top, ?left], static_strides = [1, 1, 1, ?uh, ?uw]}
    : tensor<n x c x ? x ? x ? x f32>
}
"""
ENLARGED_ANY = ANY
for old, new in {
    "strided) ->": "strided, uh, uw: index) ->",
    "(x, f)\n}": "(spread(x, front, top, left, uh, uw) | zero_padded(x, front, top, left), f)\n}",
    "kw x f32>) through": "kw x f32>, front, top, left: index, uh, uw: index = 1) through",
    "with any(x, f)": "with any(x, f, uh, uw)",
}.items():
    ENLARGED_ANY = ENLARGED_ANY.replace(old, new)


@pytest.mark.parametrize(("y", "window"), [("3x1x8x6", ""), ("3x1x16x6", ", lhs_dilate = [1, 2]")])
def test_channels_are_as_many_as_their_type_says(tmp_path, y, window):
    """A dim that becomes larger is no channel, also where a window is as large as it is then."""
    spec = write_spec(tmp_path, ENLARGED + ENLARGED_ANY, {"k.c": "void any(void) {}"})
    dims = {"x_dims": "b, 0, 1, f", "f_dims": "0, 1, i, o", "groups": 1}
    text = CONVOLUTION.format(x="3x1x9x8", f="2x2x8x6", y=y, **dims)
    (found,) = opsplice.match(text.replace("{}", f"{{pad = [[0, 1], [0, 0]]{window}}}"), [spec]).replacements
    assert tuple(found.dims[name] for name in NAMES) == (3, 8, 1, 1, 9, 1, 6, 8, 1, 2, 2)


ALONG_A_LINE = """
pattern zero_padded(x: tensor<n x c x w x f32>, left: index) {
  "tensor.pad"(x, 0.0) {static_low = [0, 0, ?left]} : tensor<n x c x ? x f32>
}
pattern p(x: tensor<n x c x w x f32>, k: tensor<o x c x kw x f32>, left: index = 0) {
  contract[n c (sw*z + dw*j), o c j -> n o z](zero_padded(x, left) | x, k)
}
"""


def test_lists_of_numbers_have_none_for_dims_of_one_that_a_pattern_lacks(session):
    """Frontends have images of one row for convolutions along a line."""
    sizes = dict(zip("nocyzij", (2, 5, 3, 1, 6, 1, 2), strict=True))
    for k in ("ocij", "ijco"):
        program = Convolution({"x": "nchw", "k": k, "r": "noyz"}, sizes, 2, 1, (0, 2))
        (match,), _module = found(session, program.text, ALONG_A_LINE)
        assert match.static_dims(Views())["left"] == 2
        x, kernel = (view(program, match, name)[:, :, None] for name in "xk")
        np.testing.assert_array_equal(convolved(x, kernel, (1, 2, 1, 1), (0, 2)), program.result())


def test_dims_of_one_that_are_padded_or_cut_are_no_dims_that_a_pattern_lacks(session):
    sizes = dict(zip("nocyzij", (2, 5, 3, 1, 6, 1, 2), strict=True))
    program = Convolution({"x": "nchw", "k": "ocij", "r": "noyz"}, sizes, 2, 1, (0, 2))
    idle, image = "low[0, 0, 0, 2] high[0, 0, 0, 0]", "2x3x1x10xf32"
    assert idle in program.text
    moved = program.text.replace(idle, "low[0, 0, 1, 2] high[0, 0, -1, 0]")
    cut = program.text.replace(idle, "low[0, 0, 0, 2] high[0, 0, -1, 0]").replace(image, "2x3x2x10xf32")
    for text in (moved, cut):
        matches, _module = found(session, text, ALONG_A_LINE)
        assert all(match.static_dims(Views())["left"] == 0 for match in matches)
