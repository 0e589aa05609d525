"""Kernels of `kernels/` for GPUs in programs: for Vulkan on Mesa's for the CPU, for CUDA emulated and on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opsplice
from opsplice.common.store import Store
from opsplice.runtime.loaded_program import LoadedProgram, load_program
from opsplice.targets.artifacts.artifact import ArtifactRequest, CudaTarget
from opsplice.targets.backends import cuda
from opsplice.targets.build import shaders
from tests.kernels import emulated_cuda
from tests.plain import Plain

SPEC = Path(__file__).parents[2] / "kernels" / "opsplice_kernels" / "gpu.splice"
PROGRAMS = Path(__file__).parents[1] / "matchers" / "library"
# How many kernels are in the programs of each file.
FILES = {
    "softmax": 4,
    "norms": 7,
    "linear": 15,
    "attention_masks": 8,
    "attention_grouped": 3,
    "rope": 2,
    "embedding_jax": 1,
    "embedding_torch": 1,
}
# Of more elements than a workgroup has threads, and of no whole tiles.
RAGGED = """
func.func @softmax(%x: tensor<5x200xf32>) -> tensor<5x200xf32> {
  %e = tensor.empty() : tensor<5x200xf32>
  %0 = linalg.softmax dimension(1) ins(%x : tensor<5x200xf32>) outs(%e : tensor<5x200xf32>) -> tensor<5x200xf32>
  return %0 : tensor<5x200xf32>
}
func.func @linear(%x: tensor<70x100xf32>, %w: tensor<100x130xf32>) -> tensor<70x130xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<70x130xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<70x130xf32>) -> tensor<70x130xf32>
  %0 = linalg.matmul ins(%x, %w : tensor<70x100xf32>, tensor<100x130xf32>) outs(%f : tensor<70x130xf32>)
      -> tensor<70x130xf32>
  return %0 : tensor<70x130xf32>
}
func.func @attention(%q: tensor<2x3x8xf32>, %k: tensor<2x8x150xf32>, %v: tensor<2x150x70xf32>) -> tensor<2x3x70xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x150xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x150xf32>) -> tensor<2x3x150xf32>
  %0 = linalg.batch_matmul ins(%q, %k : tensor<2x3x8xf32>, tensor<2x8x150xf32>) outs(%f : tensor<2x3x150xf32>)
      -> tensor<2x3x150xf32>
  %1 = linalg.softmax dimension(2) ins(%0 : tensor<2x3x150xf32>) outs(%e : tensor<2x3x150xf32>) -> tensor<2x3x150xf32>
  %e2 = tensor.empty() : tensor<2x3x70xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x3x70xf32>) -> tensor<2x3x70xf32>
  %2 = linalg.batch_matmul ins(%1, %v : tensor<2x3x150xf32>, tensor<2x150x70xf32>) outs(%f2 : tensor<2x3x70xf32>)
      -> tensor<2x3x70xf32>
  return %2 : tensor<2x3x70xf32>
}
func.func @masked(%q: tensor<2x3x8xf32>, %k: tensor<2x8x70xf32>, %v: tensor<2x70x5xf32>, %keep: tensor<3x70xi1>)
    -> tensor<2x3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3x70xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x70xf32>) -> tensor<2x3x70xf32>
  %0 = linalg.batch_matmul ins(%q, %k : tensor<2x3x8xf32>, tensor<2x8x70xf32>) outs(%f : tensor<2x3x70xf32>)
      -> tensor<2x3x70xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (i, j)>,
      affine_map<(b, i, j) -> (b, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0, %keep : tensor<2x3x70xf32>, tensor<3x70xi1>) outs(%e : tensor<2x3x70xf32>) {
  ^bb0(%score: f32, %kept: i1, %o: f32):
    %low = arith.constant FILL : f32
    %s = arith.select %kept, %score, %low : f32
    linalg.yield %s : f32
  } -> tensor<2x3x70xf32>
  %2 = linalg.softmax dimension(2) ins(%1 : tensor<2x3x70xf32>) outs(%e : tensor<2x3x70xf32>) -> tensor<2x3x70xf32>
  %e2 = tensor.empty() : tensor<2x3x5xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %3 = linalg.batch_matmul ins(%2, %v : tensor<2x3x70xf32>, tensor<2x70x5xf32>) outs(%f2 : tensor<2x3x5xf32>)
      -> tensor<2x3x5xf32>
  return %3 : tensor<2x3x5xf32>
}
"""

# Keys up to 2 places ahead of a query and 30 behind it; what is further away has the score FILL, or that is added.
BANDED = """
func.func @NAME(%q: tensor<2x40x8xf32>, %k: tensor<2x8x70xf32>, %v: tensor<2x70x5xf32>) -> tensor<2x40x5xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x40x70xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<2x40x70xf32>) -> tensor<2x40x70xf32>
  %0 = linalg.batch_matmul ins(%q, %k : tensor<2x40x8xf32>, tensor<2x8x70xf32>) outs(%f : tensor<2x40x70xf32>)
      -> tensor<2x40x70xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (b, i, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%0 : tensor<2x40x70xf32>) outs(%e : tensor<2x40x70xf32>) {
  ^bb0(%score: f32, %o: f32):
    %row = linalg.index 1 : index
    %key = linalg.index 2 : index
    %i = arith.index_cast %row : index to i64
    %j = arith.index_cast %key : index to i64
    %ahead = arith.constant 2 : i64
    %behind = arith.constant -30 : i64
    %most = arith.addi %i, %ahead : i64
    %least = arith.addi %i, %behind : i64
    %below = arith.cmpi sle, %j, %most : i64
    %above = arith.cmpi sge, %j, %least : i64
    %near = arith.andi %below, %above : i1
    %low = arith.constant FILL : f32
    %none = arith.constant 0.0 : f32
    MASKED
    linalg.yield %r : f32
  } -> tensor<2x40x70xf32>
  %2 = linalg.softmax dimension(2) ins(%1 : tensor<2x40x70xf32>) outs(%e : tensor<2x40x70xf32>) -> tensor<2x40x70xf32>
  %e2 = tensor.empty() : tensor<2x40x5xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<2x40x5xf32>) -> tensor<2x40x5xf32>
  %3 = linalg.batch_matmul ins(%2, %v : tensor<2x40x70xf32>, tensor<2x70x5xf32>) outs(%f2 : tensor<2x40x5xf32>)
      -> tensor<2x40x5xf32>
  return %3 : tensor<2x40x5xf32>
}
"""
SELECTED = "%r = arith.select %near, %score, %low : f32"
ADDED = "%s = arith.select %near, %none, %low : f32\n    %r = arith.addf %score, %s : f32"

# The same for as many queries as fill more than one tile.
TILED = RAGGED[RAGGED.index("func.func @attention") :]
for old, new in (("2x3x", "2x40x"), ("3x70xi1", "40x70xi1"), ("@attention", "@tiled"), ("@masked", "@tiled_masked")):
    TILED = TILED.replace(old, new)
TILED = TILED.replace("FILL", "0xFF800000")

# Of more than fills a GPU with tiles of 64 by 64.
LARGE = RAGGED[RAGGED.index("func.func @linear") : RAGGED.index("func.func @attention")]
for old, new in (("70x100x", "1500x9x"), ("100x130x", "9x1400x"), ("70x130x", "1500x1400x"), ("@linear", "@large")):
    LARGE = LARGE.replace(old, new)

# Few rows, by a matrix of either order, whose numbers can be read by fours and not.
FEW = """
func.func @few_K_N(%x: tensor<3xKxf32>, %w: tensor<KxNxf32>) -> tensor<3xNxf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xNxf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3xNxf32>) -> tensor<3xNxf32>
  %0 = linalg.matmul ins(%x, %w : tensor<3xKxf32>, tensor<KxNxf32>) outs(%f : tensor<3xNxf32>) -> tensor<3xNxf32>
  return %0 : tensor<3xNxf32>
}
func.func @few_transposed_K_N(%x: tensor<3xKxf32>, %w: tensor<NxKxf32>) -> tensor<3xNxf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xNxf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<3xNxf32>) -> tensor<3xNxf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>,
      affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<3xKxf32>, tensor<NxKxf32>) outs(%f : tensor<3xNxf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %o, %product : f32
    linalg.yield %sum : f32
  } -> tensor<3xNxf32>
  return %0 : tensor<3xNxf32>
}
"""


def sized(text: str, **sizes: object) -> str:
    """The text with sizes for capital letters."""
    return re.sub(r"(?<![A-Z])[KN](?![A-Z])", lambda letter: str(sizes[letter[0]]), text)


Splice = Callable[[str | Path, int], LoadedProgram]


def splicing(spec: Path, target: str, device: str) -> Splice:
    """What compiles a model, which has so many kernels, and compares each function with the compiler's own code."""

    def compared(model: str | Path, count: int) -> LoadedProgram:
        compiled = opsplice.compile(model, [spec], targets=[target])
        assert len(compiled.report.replacements) == count
        program, plain = load_program(compiled.vmfb, device), Plain(model)
        for function in sorted({each.function for each in compiled.report.replacements}):
            inputs = [random(kind, number) for number, kind in enumerate(program.functions[function].inputs)]
            (found,), wanted = program.call(function, *inputs), plain.run(function, *inputs)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(), err_msg=function)
        return program

    return compared


@pytest.fixture
def emulated(tmp_path: Path) -> Splice:
    return splicing(emulated_cuda.spec(tmp_path), "cpu", "local-sync")


@pytest.fixture(params=["vulkan", "cuda", "emulated"])
def splice(request: pytest.FixtureRequest) -> Splice:
    if request.param == "emulated":
        return request.getfixturevalue("emulated")
    request.getfixturevalue(request.param)
    if request.param == "cuda":
        return splicing(SPEC, "cuda", "cuda")
    if shaders.find("glslang") is None:
        pytest.skip(f"glslang is not installed ({shaders.HOW_TO_GET['glslang']})")
    return splicing(SPEC, "vulkan:llvmpipe", "vulkan")


def random(kind: Any, number: int) -> np.ndarray:
    sizes = [5 if size is None else size for size in kind.shape]
    values = np.random.default_rng(number).standard_normal(sizes)
    return values > 0 if kind.dtype == np.dtype(bool) else values.astype(kind.dtype)


@pytest.mark.parametrize("name", FILES)
def test_any_layout(splice: Splice, name: str) -> None:
    splice(PROGRAMS / f"{name}.mlir", FILES[name])


def test_few_rows_by_fours_and_not(splice: Splice) -> None:
    splice("".join(sized(FEW, K=k, N=n) for k, n in ((100, 132), (99, 130), (1000, 64))), 6)


def test_any_size_and_special_values(splice: Splice) -> None:
    low = RAGGED.replace("FILL", "-1.0e9")
    program = splice(low + TILED + LARGE, 7)
    q, k, v = (np.ones(shape, np.float32) for shape in ((2, 3, 8), (2, 8, 70), (2, 70, 5)))
    v[:, :35] = 3
    keep = np.ones((3, 70), bool)
    keep[0], keep[1, :64] = False, False
    (found,) = program.call("masked", q, k, v, keep)
    np.testing.assert_allclose(found, np.full((2, 3, 5), [[2.0], [1.0], [2.0]]), rtol=1e-6)
    x = np.zeros((5, 200), np.float32)
    x[0, 70], x[1, 2], x[2, 130], x[3, 1:] = np.nan, -np.inf, 1e30, -1e30
    (found,) = program.call("softmax", x)
    assert np.isnan(found[0]).all()
    at = np.arange(200)
    wanted = [np.where(at == 2, 0, 1 / 199), at == 130, at == 0, np.full(200, 1 / 200)]
    np.testing.assert_allclose(found[1:], wanted, rtol=1e-6, atol=1e-30)

    # Keys that a mask leaves out for all queries of a tile. What is behind it is seen where it is no number.
    q, k, v = (np.ones(shape, np.float32) for shape in ((2, 40, 8), (2, 8, 70), (2, 70, 5)))
    keep = np.tri(40, 70, dtype=bool)
    keep[5] = False
    (found,) = program.call("tiled_masked", q, k, v, keep)
    wanted = np.ones((2, 40, 5))
    wanted[:, 5] = np.nan
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    v[0, 69, 3] = np.inf
    (found,) = program.call("tiled_masked", q, k, v, keep)
    wanted[0, :, 3] = np.nan
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_causal_masks_and_windows_are_not_read(splice: Splice) -> None:
    """For many queries, and for few, whose kernel is another; what lies outside of the window may be no number."""
    forms = {"selected": (SELECTED, "0xFF800000"), "added": (ADDED, "-1.0e9")}
    model = "".join(
        BANDED.replace("NAME", name).replace("MASKED", masked).replace("FILL", fill)
        for name, (masked, fill) in forms.items()
    )
    few = model.replace("40x", "3x").replace("@", "@few_")
    program = splice(model + few, 4)
    for function, m in (("selected", 40), ("few_selected", 3)):
        q, k, v = (np.ones(shape, np.float32) for shape in ((2, m, 8), (2, 8, 70), (2, 70, 5)))
        v[:, 2] = 5
        k[0, :, 69] = np.nan
        (found,) = program.call(function, q, k, v)
        near = np.array([[i - 30 <= j <= i + 2 for j in range(70)] for i in range(m)])
        wanted = np.broadcast_to((near @ v[1]) / near.sum(1, keepdims=True), found.shape)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


NIBBLES = """
util.global private @NAME_words = dense<WORDS> : tensor<5x2x6xi8>
util.global private @NAME_points = dense<ZERO> : tensor<5x2xi8>
func.func @NAME(%x: tensor<3x2x6xf32>) -> tensor<3x5xf32> {
  %words = util.global.load @NAME_words : tensor<5x2x6xi8>
  %fifteens = arith.constant dense<15> : tensor<5x2x6xi8>
  %w = arith.andi %words, %fifteens : tensor<5x2x6xi8>
  %scale = arith.constant dense<[[1.0, 0.5], [2.0, 0.25], [-1.0, 4.0], [0.125, 1.0], [3.0, -0.5]]> : tensor<5x2xf32>
  %points = util.global.load @NAME_points : tensor<5x2xi8>
  %few = arith.constant dense<15> : tensor<5x2xi8>
  %zero = arith.andi %points, %few : tensor<5x2xi8>
  %none = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x2x6xf32>
  %weight = linalg.generic {indexing_maps = [affine_map<(n, b, j) -> (n, b, j)>, affine_map<(n, b, j) -> (n, b)>,
      affine_map<(n, b, j) -> (n, b)>, affine_map<(n, b, j) -> (n, b, j)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%w, %scale, %zero : tensor<5x2x6xi8>, tensor<5x2xf32>, tensor<5x2xi8>) outs(%e : tensor<5x2x6xf32>) {
  ^bb0(%a: i8, %s: f32, %z: i8, %o: f32):
    %eight = arith.constant 8 : i8
    %number = arith.subi %a, SUBTRAHEND : i8
    %float = arith.sitofp %number : i8 to f32
    %scaled = arith.mulf %float, %s : f32
    linalg.yield %scaled : f32
  } -> tensor<5x2x6xf32>
  %e2 = tensor.empty() : tensor<3x5xf32>
  %f = linalg.fill ins(%none : f32) outs(%e2 : tensor<3x5xf32>) -> tensor<3x5xf32>
  %0 = linalg.generic {indexing_maps = [affine_map<(m, n, b, j) -> (m, b, j)>, affine_map<(m, n, b, j) -> (n, b, j)>,
      affine_map<(m, n, b, j) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %weight : tensor<3x2x6xf32>, tensor<5x2x6xf32>) outs(%f : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %product = arith.mulf %a, %b : f32
    %sum = arith.addf %o, %product : f32
    linalg.yield %sum : f32
  } -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
"""


@pytest.mark.parametrize("width", [6, 16])
def test_weights_of_four_bits(splice: Splice, width: int) -> None:
    generator = np.random.default_rng(1)
    words, zero = generator.integers(-128, 128, (5, 2, width)), generator.integers(0, 16, (5, 2))
    text = NIBBLES.replace("WORDS", str(words.tolist())).replace("ZERO", str(zero.tolist()))
    eight, own = (
        text.replace("NAME", name).replace("SUBTRAHEND", by) for name, by in (("eight", "%eight"), ("own", "%z"))
    )
    splice((eight + own).replace("2x6x", f"2x{width}x"), 2)


@pytest.mark.parametrize(
    "change", [("__syncthreads();\n  own = parts", "own = parts"), ("x[i * x_n] - peak) / sum", "peak) / sum")]
)
def test_a_kernel_that_is_wrong(tmp_path: Path, change: tuple[str, str]) -> None:
    """Without a barrier numbers are wrong, as they may be on a GPU."""
    model = RAGGED[: RAGGED.index("func.func @linear")]
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        splicing(emulated_cuda.spec(tmp_path, change), "cpu", "local-sync")(model, 1)


CLAUSES = re.findall(r"^kernel (\w+)\(.*?  cuda \"([^\n\"]*)\"[^\n]*\n}", SPEC.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("kernel", "source"), CLAUSES)
def test_each_kernel_for_cuda_is_built(cuda_compiler: None, kernel: str, source: str) -> None:
    """Compiled and, where ptxas is, assembled for a GPU; without one none of them is run."""
    request = ArtifactRequest(SPEC.parent / source, (kernel,))
    artifact = cuda.resolve(request, CudaTarget(80), Store())
    assert f".entry {kernel}(" in artifact.path.read_text()
