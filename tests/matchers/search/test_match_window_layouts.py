"""Convolutions with the dims of image, filter and result in any order, by one pattern, against numpy."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples

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
    numbers = match.static_dims()
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
