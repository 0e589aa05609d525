"""Strided buffers: kernels read and write values as they lie in the program's memory, with right numbers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice import cli
from opsplice.common.errors import OpspliceError
from opsplice.reports.render import report_text
from tests.plain import Plain
from tests.rewrites.conftest import write_spec

SPEC = """
kernel dots(x: f32[...b, m, k] strided, w: f32[...b, n, k] strided) -> f32[...b, m, n] strided {
  grid (b)
  cpu "dots.c"
}
pattern batched(x: tensor<...b x m x k x f32>, w: tensor<...b x n x k x f32>) {
  contract[...b m k, ...b n k -> ...b m n](x, w)
}
replace batched with dots(x, w)
"""
CODE = """
#include <stddef.h>
void dots(const float *x, const float *w, float *out, size_t b, size_t m, size_t k, size_t n, size_t xm, size_t xk,
          size_t wn, size_t wk, size_t om, size_t on, size_t workgroup_x) {
  for (size_t i = 0; i < m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * xm + l * xk] * w[j * wn + l * wk];
      out[i * om + j * on] = sum;
    }
}
"""
DOTS = """linalg.generic {{indexing_maps = [affine_map<({d}) -> ({x})>, affine_map<({d}) -> ({w})>,
    affine_map<({d}) -> ({o})>], iterator_types = [{kinds}]}}
    ins({ins}) outs(%f : {made}) {{
  ^bb0(%left: f32, %right: f32, %sum: f32):
    %product = arith.mulf %left, %right : f32
    %next = arith.addf %sum, %product : f32
    linalg.yield %next : f32
  }} -> {made}"""
ZERO = """%z = arith.constant 0.0 : f32
  %i = tensor.empty({sizes}) : {made}
  %f = linalg.fill ins(%z : f32) outs(%i : {made}) -> {made}"""


def dots(x: str, w: str, made: str, sizes: str = "", rank: int = 1, names: tuple[str, str] = ("%l", "%r")) -> str:
    """A contraction of two tensors, [...b, m, k] and [...b, n, k], as `%c`."""
    batch = [f"b{i}" for i in range(rank)]
    each = {"x": [*batch, "m", "k"], "w": [*batch, "n", "k"], "o": [*batch, "m", "n"], "d": [*batch, "m", "n", "k"]}
    kinds = ", ".join(['"parallel"'] * (rank + 2) + ['"reduction"'])
    ins = f"{names[0]}, {names[1]} : {x}, {w}"
    words = {name: ", ".join(dims) for name, dims in each.items()}
    return ZERO.format(made=made, sizes=sizes) + "\n  %c = " + DOTS.format(**words, kinds=kinds, ins=ins, made=made)


# q and k are cut out of one projection, the heads are merged with the batch, and are put behind the rows at the end.
PROJECTED = f"""
func.func @projected(%x: tensor<2x16x96xf32>) -> tensor<2x16x4x16xf32> {{
  %q0 = tensor.extract_slice %x[0, 0, 0] [2, 16, 32] [1, 1, 1] : tensor<2x16x96xf32> to tensor<2x16x32xf32>
  %k0 = tensor.extract_slice %x[0, 0, 64] [2, 16, 32] [1, 1, 1] : tensor<2x16x96xf32> to tensor<2x16x32xf32>
  %q1 = tensor.expand_shape %q0 [[0], [1], [2, 3]] output_shape [2, 16, 4, 8]
    : tensor<2x16x32xf32> into tensor<2x16x4x8xf32>
  %k1 = tensor.expand_shape %k0 [[0], [1], [2, 3]] output_shape [2, 16, 4, 8]
    : tensor<2x16x32xf32> into tensor<2x16x4x8xf32>
  %e = tensor.empty() : tensor<2x4x16x8xf32>
  %q2 = linalg.transpose ins(%q1 : tensor<2x16x4x8xf32>) outs(%e : tensor<2x4x16x8xf32>) permutation = [0, 2, 1, 3]
  %k2 = linalg.transpose ins(%k1 : tensor<2x16x4x8xf32>) outs(%e : tensor<2x4x16x8xf32>) permutation = [0, 2, 1, 3]
  %l = tensor.collapse_shape %q2 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  %r = tensor.collapse_shape %k2 [[0, 1], [2], [3]] : tensor<2x4x16x8xf32> into tensor<8x16x8xf32>
  {dots("tensor<8x16x8xf32>", "tensor<8x16x8xf32>", "tensor<8x16x16xf32>")}
  %c1 = tensor.expand_shape %c [[0, 1], [2], [3]] output_shape [2, 4, 16, 16]
    : tensor<8x16x16xf32> into tensor<2x4x16x16xf32>
  %e2 = tensor.empty() : tensor<2x16x4x16xf32>
  %t = linalg.transpose ins(%c1 : tensor<2x4x16x16xf32>) outs(%e2 : tensor<2x16x4x16xf32>) permutation = [0, 2, 1, 3]
  return %t : tensor<2x16x4x16xf32>
}}"""
# The same with a batch and rows that are known at run time only.
DYNAMIC = f"""
func.func @dynamic(%x: tensor<?x?x3x4x8xf32>) -> tensor<?x?x?xf32> {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x3x4x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x3x4x8xf32>
  %q0 = tensor.extract_slice %x[0, 0, 0, 0, 0] [%b, %s, 1, 4, 8] [1, 1, 1, 1, 1]
    : tensor<?x?x3x4x8xf32> to tensor<?x?x4x8xf32>
  %k0 = tensor.extract_slice %x[0, 0, 2, 0, 0] [%b, %s, 1, 4, 8] [1, 1, 1, 1, 1]
    : tensor<?x?x3x4x8xf32> to tensor<?x?x4x8xf32>
  %e = tensor.empty(%b, %s) : tensor<?x4x?x8xf32>
  %q2 = linalg.transpose ins(%q0 : tensor<?x?x4x8xf32>) outs(%e : tensor<?x4x?x8xf32>) permutation = [0, 2, 1, 3]
  %k2 = linalg.transpose ins(%k0 : tensor<?x?x4x8xf32>) outs(%e : tensor<?x4x?x8xf32>) permutation = [0, 2, 1, 3]
  %l = tensor.collapse_shape %q2 [[0, 1], [2], [3]] : tensor<?x4x?x8xf32> into tensor<?x?x8xf32>
  %r = tensor.collapse_shape %k2 [[0, 1], [2], [3]] : tensor<?x4x?x8xf32> into tensor<?x?x8xf32>
  %n = arith.muli %b, %c4 : index
  {dots("tensor<?x?x8xf32>", "tensor<?x?x8xf32>", "tensor<?x?x?xf32>", "%n, %s, %s")}
  return %c : tensor<?x?x?xf32>
}}"""
# Two heads read one head of the right side; it is repeated for each.
GROUPED = f"""
func.func @grouped(%l: tensor<3x4x5x8xf32>, %y: tensor<3x2x6x8xf32>) -> tensor<3x4x5x6xf32> {{
  %e = tensor.empty() : tensor<3x2x2x6x8xf32>
  %y0 = linalg.broadcast ins(%y : tensor<3x2x6x8xf32>) outs(%e : tensor<3x2x2x6x8xf32>) dimensions = [2]
  %r = tensor.collapse_shape %y0 [[0], [1, 2], [3], [4]] : tensor<3x2x2x6x8xf32> into tensor<3x4x6x8xf32>
  {dots("tensor<3x4x5x8xf32>", "tensor<3x4x6x8xf32>", "tensor<3x4x5x6xf32>", rank=2)}
  return %c : tensor<3x4x5x6xf32>
}}"""
WEIGHT = [[[i * 5.0 + j + b for j in range(5)] for i in range(8)] for b in range(2)]
# Every third column from a place that the caller says, and a constant weight that is turned.
SLICED = f"""
func.func @sliced(%x: tensor<2x4x40xf32>, %at: index) -> tensor<2x5x4xf32> {{
  %l = tensor.extract_slice %x[0, 0, %at] [2, 4, 8] [1, 1, 3] : tensor<2x4x40xf32> to tensor<2x4x8xf32>
  %w = arith.constant dense<{WEIGHT}> : tensor<2x8x5xf32>
  %e = tensor.empty() : tensor<2x5x8xf32>
  %r = linalg.transpose ins(%w : tensor<2x8x5xf32>) outs(%e : tensor<2x5x8xf32>) permutation = [0, 2, 1]
  {dots("tensor<2x4x8xf32>", "tensor<2x5x8xf32>", "tensor<2x4x5xf32>")}
  %o = tensor.empty() : tensor<2x5x4xf32>
  %t = linalg.transpose ins(%c : tensor<2x4x5xf32>) outs(%o : tensor<2x5x4xf32>) permutation = [0, 2, 1]
  return %t : tensor<2x5x4xf32>
}}"""
# The first four numbers of each of three heads, in two parts, also of an open size: a cut dim is longer than its parts.
CUT = "\n".join(
    f"""
func.func @{name}(%x: tensor<5x{wide}xf32>, %r: tensor<3x2x6x2xf32>) -> tensor<3x2x5x6xf32> {{
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %wide = tensor.dim %x, %c1 : tensor<5x{wide}xf32>
  %h = arith.divui %wide, %c3 : index
  %x0 = tensor.expand_shape %x [[0], [1, 2]] output_shape [5, 3, {size}]
    : tensor<5x{wide}xf32> into tensor<5x3x{head}xf32>
  %x1 = tensor.extract_slice %x0[0, 0, 0] [5, 3, 4] [1, 1, 1] : tensor<5x3x{head}xf32> to tensor<5x3x4xf32>
  %x2 = tensor.expand_shape %x1 [[0], [1], [2, 3]] output_shape [5, 3, 2, 2]
    : tensor<5x3x4xf32> into tensor<5x3x2x2xf32>
  %e = tensor.empty() : tensor<3x2x5x2xf32>
  %l = linalg.transpose ins(%x2 : tensor<5x3x2x2xf32>) outs(%e : tensor<3x2x5x2xf32>) permutation = [1, 2, 0, 3]
  {dots("tensor<3x2x5x2xf32>", "tensor<3x2x6x2xf32>", "tensor<3x2x5x6xf32>", rank=2)}
  return %c : tensor<3x2x5x6xf32>
}}"""
    for name, wide, head, size in (("cut", "24", "8", "8"), ("cut_open", "?", "?", "%h"))
)
# The depth is made of two dims that do not lie one behind the other: no single stride says that.
APART = f"""
func.func @apart(%x: tensor<2x3x4x8xf32>, %r: tensor<2x5x24xf32>) -> tensor<2x4x5xf32> {{
  %e = tensor.empty() : tensor<2x4x3x8xf32>
  %l0 = linalg.transpose ins(%x : tensor<2x3x4x8xf32>) outs(%e : tensor<2x4x3x8xf32>) permutation = [0, 2, 1, 3]
  %l = tensor.collapse_shape %l0 [[0], [1], [2, 3]] : tensor<2x4x3x8xf32> into tensor<2x4x24xf32>
  {dots("tensor<2x4x24xf32>", "tensor<2x5x24xf32>", "tensor<2x4x5xf32>")}
  return %c : tensor<2x4x5xf32>
}}"""
# The second reads the result of the first through views, which has another use or none.
CHAINED = "\n".join(
    f"""
func.func @{name}(%l: tensor<2x4x8xf32>, %r: tensor<2x4x8xf32>) -> ({"tensor<2x4x4xf32>, " * also}tensor<2x4x4xf32>) {{
  {dots("tensor<2x4x8xf32>", "tensor<2x4x8xf32>", "tensor<2x4x4xf32>")}
  %o = tensor.empty() : tensor<2x4x4xf32>
  %t = linalg.transpose ins(%c : tensor<2x4x4xf32>) outs(%o : tensor<2x4x4xf32>) permutation = [0, 2, 1]
  {
        dots("tensor<2x4x4xf32>", "tensor<2x4x4xf32>", "tensor<2x4x4xf32>", names=("%t", second))
        .replace("%z", "%z2")
        .replace("%i ", "%i2 ")
        .replace("%i:", "%i2:")
        .replace("%f", "%f2")
        .replace("%c =", "%d =")
    }
  return {"%c, " * also}%d : {"tensor<2x4x4xf32>, " * also}tensor<2x4x4xf32>
}}"""
    for name, also, second in (("chained", 0, "%t"), ("shared", 1, "%t"), ("both", 0, "%c"))
)


def filled(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)


@pytest.fixture(scope="module")
def pair(pairs):
    programs = (PROJECTED, DYNAMIC, GROUPED, SLICED, CUT, APART, CHAINED)
    return pairs("\n".join(programs), SPEC, {"dots.c": CODE})


def test_all_of_them_are_replaced(pair):
    assert pair.replaced == 7 + 2 * 3


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        ("projected", [(2, 16, 96)]),
        ("dynamic", [(2, 5, 3, 4, 8)]),
        ("dynamic", [(1, 1, 3, 4, 8)]),
        ("dynamic", [(3, 0, 3, 4, 8)]),
        ("grouped", [(3, 4, 5, 8), (3, 2, 6, 8)]),
        ("cut", [(5, 24), (3, 2, 6, 2)]),
        ("cut_open", [(5, 24), (3, 2, 6, 2)]),
        ("apart", [(2, 3, 4, 8), (2, 5, 24)]),
        ("chained", [(2, 4, 8), (2, 4, 8)]),
        ("shared", [(2, 4, 8), (2, 4, 8)]),
        ("both", [(2, 4, 8), (2, 4, 8)]),
    ],
)
def test_numbers_are_right(pair, function, inputs):
    pair.run(function, *(filled(*shape) for shape in inputs))


@pytest.mark.parametrize("at", [0, 7, 18])
def test_a_slice_from_a_place_that_is_known_at_run_time(pair, at):
    pair.run("sliced", filled(2, 4, 40), at)


# Each order of the dims of both inputs and the result, in one op; letters that an input lacks are repeated.
ORDERS = """
bmk,bkn->bmn mbk,nbk->bmn kmb,knb->bmn bkm,nkb->bmn mk,bnk->bmn bmk,kn->bmn kmb,kn->bnm bmk,bnk->mbn mkb,kbn->nmb
bmk,bnk->bnm kbm,bkn->mnb mk,nk->mn mk,kn->nm mkac,ncka->amnc acmk,cnk->macn amk,cnk->camn
"""


def ordered(number: int, subscripts: str, sizes: dict[str, int], *, dynamic: bool = False) -> str:
    """A function that contracts two tensors as an einsum does."""
    left, right, made = re.split(",|->", subscripts)
    letters = [*made, "k"]
    kinds = {name: "x".join("?" if dynamic else str(sizes[letter]) for letter in name) for name in (left, right, made)}
    x, w, out = (f"tensor<{kinds[name]}xf32>" for name in (left, right, made))
    names = [f"%{letter}" for letter in made] if dynamic else []
    dims = [
        f"%at_{letter} = arith.constant {name.index(letter)} : index\n"
        f"%{letter} = tensor.dim {value}, %at_{letter} : {kind}"
        for letter in (made if dynamic else "")
        for value, name, kind in [("%l", left, x) if letter in left else ("%r", right, w)]
    ]
    words = {"d": letters, "x": left, "w": right, "o": made}
    loops = ", ".join(['"parallel"'] * len(made) + ['"reduction"'])
    maps = {name: ", ".join(letters) for name, letters in words.items()}
    product = DOTS.format(**maps, kinds=loops, ins=f"%l, %r : {x}, {w}", made=out)
    lines = [*dims, ZERO.format(made=out, sizes=", ".join(names)), f"%c = {product}", f"return %c : {out}"]
    return f"func.func @f{number}(%l: {x}, %r: {w}) -> {out} {{\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize(
    ("sizes", "dynamic"),
    [
        (dict(zip("abcmnk", (6, 2, 7, 3, 5, 4), strict=True)), False),
        (dict.fromkeys("abcmnk", 3), False),
        (dict(zip("abcmnk", (2, 1, 1, 1, 5, 4), strict=True)), False),
        (dict(zip("abcmnk", (6, 2, 7, 3, 5, 4), strict=True)), True),
    ],
)
def test_one_pattern_holds_for_every_order(pairs, sizes, dynamic):
    orders = (
        ["bmk,bkn->bmn", "kmb,knb->bmn", "bmk,bnk->mbn", "kbm,bkn->mnb", "mk,kn->nm"] if dynamic else ORDERS.split()
    )
    programs = [ordered(number, each, sizes, dynamic=dynamic) for number, each in enumerate(orders)]
    made = pairs("\n".join(programs), SPEC, {"dots.c": CODE})
    assert {replacement.function.lstrip("@") for replacement in made.spliced.report.replacements} == {
        f"f{number}" for number in range(len(orders))
    }
    for number, each in enumerate(orders):
        left, right, _ = re.split(",|->", each)
        inputs = [filled(*(sizes[letter] for letter in name)) for name in (left, right)]
        (found,) = made.run(f"f{number}", *inputs)
        np.testing.assert_array_equal(found, np.einsum(each, *inputs))


def spliced(text: str, folder: Path, spec: str = SPEC) -> str:
    """A program once its calls are in place, without the executables."""
    (folder / "k.splice").write_text(spec)
    (folder / "dots.c").write_text(CODE)
    module, _ = opsplice.transform(text, [folder / "k.splice"])
    return str(module).partition("util.func")[2]


@pytest.mark.parametrize(
    ("program", "operands", "views"),
    [
        (PROJECTED, ["%arg0", "%arg0"], []),
        (GROUPED, ["%arg0", "%arg1"], []),
        (APART, ["%transposed", "%arg1"], ["linalg.transpose"]),
    ],
)
@pytest.mark.parametrize("otherwise", ["", " otherwise keep"])
def test_what_is_bound_is_the_furthest_value_that_has_strides(tmp_path, program, operands, views, otherwise):
    text = spliced(program, tmp_path, SPEC.replace("dots(x, w)", f"dots(x, w){otherwise}"))
    (call,) = re.findall(r"flow\.dispatch @opsplice_dots::@opsplice_dots(?:\[.*?\])?\((.*?)\) :", text)
    assert call.split(", ")[:2] == operands
    left = re.findall(r"linalg\.transpose|linalg\.broadcast|tensor\.(?:expand|collapse)_shape|extract_slice", text)
    assert left == views


def test_a_cast_of_an_input_to_its_own_type_is_the_input_as_it_lies(tmp_path):
    spec = SPEC.replace("batched(", "batched<T in {f16, f32}>(").replace("k x f32>", "k x T>")
    spec = spec.replace("(x, w)\n}", "(x, w) : f32\n}").replace("dots(x, w)", "dots(extf(x) : f32, extf(w) : f32)")
    views = []
    for name, text in (("plain", SPEC), ("cast", spec)):
        (folder := tmp_path / name).mkdir()
        _, report = opsplice.transform(PROJECTED, [write_spec(folder, text, {"dots.c": CODE})])
        views.append([replacement.views for replacement in report.replacements])
    assert views[0] == views[1]
    assert "x reads" in str(views)


def test_the_report_says_what_is_read_and_written_through_views(tmp_path):
    (tmp_path / "k.splice").write_text(SPEC)
    (tmp_path / "dots.c").write_text(CODE)
    _, report = opsplice.transform(PROJECTED, [tmp_path / "k.splice"])
    (replacement,) = report.replacements
    assert replacement.views == (
        "x reads [:, :, :32] of tensor<2x16x96xf32> of argument 0 of @projected, strides ...b 1536 and 8, m 96, k 1",
        "w reads [:, :, 64:] of tensor<2x16x96xf32> of argument 0 of @projected, strides ...b 1536 and 8, n 96, k 1",
        "the result is written as tensor<2x16x4x16xf32> of linalg.transpose at -:28:8, "
        "strides ...b 1024 and 16, m 64, n 1",
    )
    assert replacement.views[1] in report_text(report, verbose=True, color=False)


def test_a_result_that_is_used_itself_is_written_as_it_is(tmp_path):
    text = spliced(CHAINED, tmp_path)
    assert len(re.findall("linalg.transpose", text)) == 0  # the second call reads through it
    assert re.search(r"tensor<2x4x4xf32>, (index, )*tensor<2x4x4xf32>\) -> %", text)


def test_a_call_that_is_kept_for_some_targets_reads_and_writes_as_it_should(pairs):
    spec = SPEC.replace("dots(x, w)", "dots(x, w) otherwise keep").replace('cpu "dots.c"', 'cpu "dots.c" as plugin')
    pairs(PROJECTED + DYNAMIC, spec, {"dots.c": CODE}).run("dynamic", filled(2, 5, 3, 4, 8))


def test_a_plugin_has_the_functions_that_are_called(tmp_path):
    (tmp_path / "dots.c").write_text(CODE)
    (tmp_path / "k.splice").write_text(SPEC.replace('"dots.c"', '"dots.c" as plugin'))
    assert cli.main(["kernel", "plugin", str(tmp_path / "k.splice"), "-o", str(tmp_path / "k.so")]) == 0
    program = opsplice.compile(PROJECTED, [tmp_path / "k.splice"])
    found = program.run("projected", filled(2, 16, 96), plugins=[tmp_path / "k.so"])
    np.testing.assert_array_equal(found, Plain(PROJECTED, []).run("projected", filled(2, 16, 96)))


def test_a_function_without_parameters_for_strides_is_refused(pairs):
    code = CODE.replace("size_t xm, size_t xk,", "").replace("i * xm + l * xk", "i * k + l")
    with pytest.raises(
        OpspliceError, match=r"dots' in dots.c is `void .*, and kernel dots calls it as `void"
    ) as caught:
        pairs(PROJECTED, SPEC.replace('"dots.c"', '"dots.c" as bitcode'), {"dots.c": code})
    sizes = ("b", "m", "k", "n", "x_m", "x_k", "w_n", "w_k", "out_m", "out_n", "workgroup_x")
    declared = f"void dots(const float *x, const float *w, float *out, {', '.join(f'size_t {each}' for each in sizes)})"
    assert caught.value.hint == f"declare it as {declared}; docs/kernels.md says why"


# The kernel takes and makes dense buffers, and the program copies what lies in another way.
COPIED = SPEC.replace("strided", "copied").replace("  grid (b)\n", "")
DENSE_CODE = """
#include <stddef.h>
void dots(const float *x, const float *w, float *out, size_t b, size_t m, size_t k, size_t n) {
  for (size_t i = 0; i < b * m; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[(i / m * n + j) * k + l];
      out[i * n + j] = sum;
    }
}
"""


def test_a_dense_kernel_takes_every_order_where_copies_are_allowed(pairs):
    """Static and dynamic sizes in one module; where an input is dense as it is, it is passed as it is."""
    sizes = dict(zip("abcmnk", (2, 3, 4, 3, 5, 4), strict=True))
    orders = [*ORDERS.split(), "bmk,bkn->bmn", "kbm,bkn->mnb", "bmk,bnk->bmn"]
    programs = [ordered(at, each, sizes, dynamic=at >= len(orders) - 3) for at, each in enumerate(orders)]
    made = pairs("\n".join([*programs, PROJECTED, SLICED]), COPIED, {"dots.c": DENSE_CODE})
    report = {replacement.function.lstrip("@"): replacement.views for replacement in made.spliced.report.replacements}
    assert report.keys() == {*(f"f{at}" for at in range(len(orders))), "projected", "sliced"}
    for number, each in enumerate(orders):
        inputs = [filled(*(sizes[letter] for letter in name)) for name in re.split(",|->", each)[:2]]
        (found,) = made.run(f"f{number}", *inputs)
        np.testing.assert_array_equal(found, np.einsum(each, *inputs))
    made.run("projected", filled(2, 16, 96))
    made.run("sliced", filled(2, 4, 40), 7)
    copied = "w copies tensor<3x4x5xf32> of the program's input1, transposed, strides ...b 20, n 1, k 5: 240 bytes"
    assert (report["f0"], report[f"f{len(orders) - 1}"]) == ((copied,), ())


def test_what_the_host_calls_gets_copies_too(pairs):
    sizes = dict(zip("bmnk", (3, 3, 5, 4), strict=True))
    spec = COPIED.replace('cpu "dots.c"', 'cpu "dots.py" as command')
    files = {"dots.py": "def dots(x, w, out):\n    out[...] = x @ w.swapaxes(-1, -2)\n"}
    made = pairs(ordered(0, "kmb,knb->mbn", sizes), spec, files)
    assert made.replaced == 1
    made.run("f0", filled(4, 3, 3), filled(4, 5, 3))


BESIDE = """
kernel dense(x: f32[...b, m, k], w: f32[...b, n, k]) -> f32[...b, m, n] { cpu "dots.c" }
replace batched with dense(x, w)
replace batched where m > 5 with dots(x, w)
"""


def test_a_kernel_that_is_told_no_strides_is_not_given_what_lies_in_another_way(tmp_path):
    """Two rules use one pattern, and what is found only for the strided kernel is not for the dense one."""
    sizes = dict(zip("bmnk", (2, 3, 5, 4), strict=True))
    (tmp_path / "dots.c").write_text(CODE)
    (tmp_path / "k.splice").write_text(SPEC.replace("replace batched with dots(x, w)", BESIDE))
    programs = "\n".join(ordered(at, each, sizes) for at, each in enumerate(["bmk,bkn->bmn", "bmk,bnk->mbn"]))
    _, report = opsplice.transform(programs, [tmp_path / "k.splice"])
    reasons = [kept.reason for kept in report.kept]
    told = (
        "is a view of tensor<2x4x5xf32> of argument 1 of @f0, and kernel dense takes it dense: "
        "make the buffer `strided`, or"
    )
    assert reasons[0].startswith(f"w {told}")
    told = "its dims are in another order than kernel dense writes them in: make the result `strided`"
    assert reasons[2].startswith(told)
    assert all("m = 3" in reason for reason in (reasons[1], reasons[3]))


TURNED = f"""
func.func @turned(%x: tensor<2x8x4xf32>, %r: tensor<2x5x8xf32>) -> tensor<2x4x5xf32> {{
  %e = tensor.empty() : tensor<2x4x8xf32>
  %l = linalg.transpose ins(%x : tensor<2x8x4xf32>) outs(%e : tensor<2x4x8xf32>) permutation = [0, 2, 1]
  {dots("tensor<2x4x8xf32>", "tensor<2x5x8xf32>", "tensor<2x4x5xf32>")}
  return %c : tensor<2x4x5xf32>
}}"""


@pytest.mark.parametrize(
    ("asked", "bound"),
    [
        ("stride(x, k) == 1", "%transposed"),
        ("stride(x, k) % 4 == 0 and m < 9", "%arg0"),
        ("stride(x, m) == 1 or stride(x, k) == 1", "%arg0"),
        ("(stride(x, k) == 1 or m > 9) and n < 9", "%transposed"),
        ("stride(x, k) == 1 or m < 9", "%arg0"),
        ("not (stride(x, m) == 1 or m > 9)", "%transposed"),
    ],
)
def test_a_kernel_asks_for_strides(tmp_path, asked, bound):
    spec = SPEC.replace("strided {", f"strided where {asked} {{", 1)
    (call,) = re.findall(r"flow\.dispatch @\S+::@\w+(?:\[.*?\])?\((.*?)\) :", spliced(TURNED, tmp_path, spec))
    assert call.split(", ")[0] == bound


def test_strides_that_nothing_has_leave_a_match_alone(tmp_path):
    sizes = dict(zip("bmnk", (2, 3, 5, 4), strict=True))
    (tmp_path / "dots.c").write_text(CODE)
    asked = "stride(x, k) == 1 and stride(w, k) == 1 and m < 9"
    (tmp_path / "k.splice").write_text(SPEC.replace("strided {", f"strided where {asked} {{", 1))
    programs = "\n".join(ordered(at, each, sizes) for at, each in enumerate(["bmk,bnk->bmn", "bmk,bkn->bmn"]))
    _, report = opsplice.transform(programs, [tmp_path / "k.splice"])
    assert len(report.replacements) == 1
    (kept,) = report.kept
    assert kept.reason == "kernel dots's condition `stride(w, k) == 1` does not hold: stride(w, k) = 5"


# The mean keeps the dim that it is along, the variance does not.
MOMENTS = """func.func @f(%x: tensor<4x5x6xf32>) -> (tensor<1x5x6xf32>, tensor<5x6xf32>) {
  %z = arith.constant 0.0 : f32
  %four = arith.constant 4.0 : f32
  %e = tensor.empty() : tensor<1x5x6xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x5x6xf32>) -> tensor<1x5x6xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (0, j, k)>],
    iterator_types = ["reduction", "parallel", "parallel"]} ins(%x : tensor<4x5x6xf32>) outs(%f : tensor<1x5x6xf32>) {
  ^bb0(%in: f32, %out: f32): %0 = arith.addf %in, %out : f32 linalg.yield %0 : f32 } -> tensor<1x5x6xf32>
  %fours = tensor.splat %four : tensor<1x5x6xf32>
  %mean = arith.divf %s, %fours : tensor<1x5x6xf32>
  %wide = tensor.empty() : tensor<4x5x6xf32>
  %d = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (0, j, k)>,
    affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %mean : tensor<4x5x6xf32>, tensor<1x5x6xf32>) outs(%wide : tensor<4x5x6xf32>) {
  ^bb0(%in: f32, %m: f32, %out: f32): %0 = arith.subf %in, %m : f32 linalg.yield %0 : f32 } -> tensor<4x5x6xf32>
  %q = arith.mulf %d, %d : tensor<4x5x6xf32>
  %e2 = tensor.empty() : tensor<5x6xf32>
  %f2 = linalg.fill ins(%z : f32) outs(%e2 : tensor<5x6xf32>) -> tensor<5x6xf32>
  %s2 = linalg.reduce ins(%q : tensor<4x5x6xf32>) outs(%f2 : tensor<5x6xf32>) dimensions = [0]
    (%in: f32, %out: f32) { %0 = arith.addf %in, %out : f32 linalg.yield %0 : f32 }
  %more = tensor.splat %four : tensor<5x6xf32>
  %variance = arith.divf %s2, %more : tensor<5x6xf32>
  return %mean, %variance : tensor<1x5x6xf32>, tensor<5x6xf32>
}"""
MOMENTS_SPEC = """kernel moments(x: f32[...m, n] strided) -> (mean: f32[...m], variance: f32[...m]) {
  grid (m)
  cpu "moments.c"
}
pattern p(x: tensor<...m x n x f32>) {
  mean = divf(reduce addf[...m n -> ...m](x), n)
  d = subf(x, broadcast[...m -> ...m n](mean))
  mean, divf(reduce addf[...m n -> ...m](mulf(d, d)), n)
}
replace p with moments(x)"""
MOMENTS_CODE = """#include <stddef.h>
void moments(const float *x, float *mean, float *variance, size_t m, size_t n, size_t step, size_t row) {
  float sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i * step];
  for (size_t i = 0; i < n; ++i) squares += (x[i * step] - sum / n) * (x[i * step] - sum / n);
  mean[row] = sum / n;
  variance[row] = squares / n;
}"""


def test_results_of_which_one_keeps_a_dim_of_one(tmp_path):
    (tmp_path / "moments.c").write_text(MOMENTS_CODE)
    spec = tmp_path / "spec.splice"
    spec.write_text(MOMENTS_SPEC)
    program = opsplice.compile(MOMENTS, specs=[spec])
    assert len(program.report.replacements) == 1
    x = np.random.default_rng(0).standard_normal((4, 5, 6)).astype(np.float32)
    mean, variance = program.run("f", x)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(mean, wide.mean(0, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(variance, wide.var(0), rtol=1e-5, atol=1e-6)


# Two dims of a result that are known at run time only, and three more that the program makes of one.
OPEN_SPLIT = """func.func @f(%x: tensor<?x?x6xf32>, %w: tensor<6x24xf32>) -> tensor<?x?x3x2x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x6xf32>
  %m = tensor.dim %x, %c1 : tensor<?x?x6xf32>
  %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<?x?x6xf32> into tensor<?x6xf32>
  %n = arith.muli %b, %m : index
  %z = arith.constant 0.0 : f32
  %e = tensor.empty(%n) : tensor<?x24xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x24xf32>) -> tensor<?x24xf32>
  %y = linalg.matmul ins(%rows, %w : tensor<?x6xf32>, tensor<6x24xf32>) outs(%f : tensor<?x24xf32>) -> tensor<?x24xf32>
  %sizes = tensor.from_elements %b, %m, %c3, %c2, %c4 : tensor<5xindex>
  %r = tensor.reshape %y(%sizes) : (tensor<?x24xf32>, tensor<5xindex>) -> tensor<?x?x3x2x4xf32>
  return %r : tensor<?x?x3x2x4xf32>
}"""
# What JAX makes of an einsum whose batch is one: the product comes out as [p h d b m], with a dim of one in between.
TURNED_SPLIT = """func.func @f(%x: tensor<1x5x6xf32>, %w: tensor<6x24xf32>) -> tensor<3x2x4x1x5xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<24x5xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<24x5xf32>) -> tensor<24x5xf32>
  %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x5x6xf32> into tensor<5x6xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, m, k) -> (k, n)>, affine_map<(n, m, k) -> (m, k)>,
    affine_map<(n, m, k) -> (n, m)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%w, %rows : tensor<6x24xf32>, tensor<5x6xf32>) outs(%f : tensor<24x5xf32>) {
  ^bb0(%l: f32, %r: f32, %sum: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %sum, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<24x5xf32>
  %r = tensor.expand_shape %y [[0, 1, 2], [3, 4]] output_shape [3, 2, 4, 1, 5]
    : tensor<24x5xf32> into tensor<3x2x4x1x5xf32>
  return %r : tensor<3x2x4x1x5xf32>
}"""
# What ONNX's Einsum becomes: a product with a batch of one, which is dropped before the dims are split.
BATCHED_SPLIT = """func.func @f(%x: tensor<2x5x6xf32>, %w: tensor<6x24xf32>) -> tensor<2x5x3x2x4xf32> {
  %z = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x10x24xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<1x10x24xf32>) -> tensor<1x10x24xf32>
  %c = tensor.collapse_shape %x [[0, 1], [2]] : tensor<2x5x6xf32> into tensor<10x6xf32>
  %l = tensor.expand_shape %c [[0, 1], [2]] output_shape [1, 10, 6] : tensor<10x6xf32> into tensor<1x10x6xf32>
  %r = tensor.expand_shape %w [[0, 1], [2]] output_shape [1, 6, 24] : tensor<6x24xf32> into tensor<1x6x24xf32>
  %y = linalg.batch_matmul ins(%l, %r : tensor<1x10x6xf32>, tensor<1x6x24xf32>)
    outs(%f : tensor<1x10x24xf32>) -> tensor<1x10x24xf32>
  %d = tensor.collapse_shape %y [[0, 1], [2]] : tensor<1x10x24xf32> into tensor<10x24xf32>
  %s = tensor.expand_shape %d [[0, 1], [2, 3, 4]] output_shape [2, 5, 3, 2, 4]
    : tensor<10x24xf32> into tensor<2x5x3x2x4xf32>
  return %s : tensor<2x5x3x2x4xf32>
}"""
PROJECTIONS = """kernel projected(x: f32[b, m, k] strided, w: f32[p, h, d, k] strided) -> f32[b, m, p, h, d] strided {
  grid (b, m)
  cpu "projected.c"
}
pattern p(x: tensor<b x m x k x f32>, w: tensor<p x h x d x k x f32>) {
  contract[b m k, p h d k -> b m p h d](x, w)
}
replace p with projected(x, w)"""
PROJECTED_CODE = """#include <stddef.h>
void projected(const float *x, const float *w, float *out, size_t B, size_t M, size_t K, size_t P, size_t H, size_t D,
               size_t xb, size_t xm, size_t xk, size_t wp, size_t wh, size_t wd, size_t wk, size_t ob, size_t om,
               size_t op, size_t oh, size_t od, size_t b, size_t m) {
  for (size_t p = 0; p < P; ++p)
    for (size_t h = 0; h < H; ++h)
      for (size_t d = 0; d < D; ++d) {
        float sum = 0;
        for (size_t k = 0; k < K; ++k)
          sum += x[b * xb + m * xm + k * xk] * w[p * wp + h * wh + d * wd + k * wk];
        out[b * ob + m * om + p * op + h * oh + d * od] = sum;
      }
}"""


@pytest.mark.parametrize(
    ("program", "shape", "order"),
    [(OPEN_SPLIT, (2, 7, 6), "bmphd"), (TURNED_SPLIT, (1, 5, 6), "phdbm"), (BATCHED_SPLIT, (2, 5, 6), "bmphd")],
    ids=["two open dims", "dims in another order, one of size one", "a batch of one"],
)
def test_a_result_whose_dims_only_the_program_behind_it_splits(tmp_path, program, shape, order):
    (tmp_path / "projected.c").write_text(PROJECTED_CODE)
    spec = tmp_path / "spec.splice"
    spec.write_text(PROJECTIONS)
    compiled = opsplice.compile(program, specs=[spec])
    assert len(compiled.report.replacements) == 1
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(each).astype(np.float32) for each in (shape, (6, 24)))
    wanted = np.einsum(f"bmk,kphd->{order}", x.astype(np.float64), w.astype(np.float64).reshape(6, 3, 2, 4))
    np.testing.assert_allclose(compiled.run("f", x, w), wanted, rtol=1e-5, atol=1e-5)


# A step of decoding as JAX has it: an only query, whose dim is last in what the program computes.
LAST_ONE = """func.func @f(%x: tensor<6x1x5xf32>, %w: tensor<6x8x5xf32>) -> tensor<6x8x1xf32> {
  %z = arith.constant 0.0 : f32
  %e = math.exp %x : tensor<6x1x5xf32>
  %c = tensor.collapse_shape %e [[0, 1, 2]] : tensor<6x1x5xf32> into tensor<30xf32>
  %t = tensor.expand_shape %c [[0, 1, 2]] output_shape [6, 5, 1] : tensor<30xf32> into tensor<6x5x1xf32>
  %i = tensor.empty() : tensor<6x8x1xf32>
  %f = linalg.fill ins(%z : f32) outs(%i : tensor<6x8x1xf32>) -> tensor<6x8x1xf32>
  %r = linalg.batch_matmul ins(%w, %t : tensor<6x8x5xf32>, tensor<6x5x1xf32>)
    outs(%f : tensor<6x8x1xf32>) -> tensor<6x8x1xf32>
  return %r : tensor<6x8x1xf32>
}"""


def test_a_dim_of_one_of_a_pattern_with_a_pack_is_anywhere(tmp_path):
    (tmp_path / "dots.c").write_text(
        "float expf(float);\n" + CODE.replace("x[i * xm + l * xk]", "expf(x[i * xm + l * xk])")
    )
    spec = tmp_path / "spec.splice"
    spec.write_text(SPEC.replace("(x, w)\n}", "(exp(x), w)\n}"))
    program = opsplice.compile(LAST_ONE, specs=[spec])
    assert len(program.report.replacements) == 1
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(each).astype(np.float32) for each in ((6, 1, 5), (6, 8, 5)))
    wanted = np.einsum("bmk,bnk->bnm", np.exp(x.astype(np.float64)), w.astype(np.float64))
    np.testing.assert_allclose(program.run("f", x, w), wanted, rtol=1e-5, atol=1e-5)


def test_a_result_of_known_sizes_whose_type_is_open(tmp_path: Path) -> None:
    """As in PyTorch's graphs of open sizes, which a reshape to known ones fixes."""
    code = """#include <stddef.h>
    void negated(const float *x, float *out, size_t m, size_t n, size_t xm, size_t xn, size_t om, size_t on) {
      for (size_t i = 0; i < m * n; ++i) out[i / n * om + i % n * on] = -x[i / n * xm + i % n * xn];
    }"""
    (tmp_path / "negated.c").write_text(code)
    spec = """kernel negated(x: f32[m, n] strided) -> f32[m, n] strided { cpu "negated.c" }
    pattern negative(x: tensor<m x n x f32>) { negf(x) }
    replace negative with negated(x)"""
    (tmp_path / "negated.splice").write_text(spec)
    text = """func.func @main(%x: tensor<2x7xf32>) -> tensor<2x?xf32> {
      %n = arith.negf %x : tensor<2x7xf32>
      %o = tensor.cast %n : tensor<2x7xf32> to tensor<2x?xf32>
      return %o : tensor<2x?xf32>
    }"""
    program = opsplice.compile(text, specs=[tmp_path / "negated.splice"])
    assert len(program.report.replacements) == 1
    x = np.arange(14, dtype=np.float32).reshape(2, 7)
    np.testing.assert_array_equal(program.run("main", x), -x)
