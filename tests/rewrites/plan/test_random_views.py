"""Kernels that are told strides, behind random views: what a plan says they read and write, against numpy.

Little is compiled: a kernel's inputs are read where its plan says that they lie, and its result is looked for where
the plan says that it goes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import opsplice
from opsplice.compiling.splice import graphs_of
from opsplice.frontends import ModuleSource
from opsplice.interpreter import evaluate
from opsplice.matchers.dims.extents import Extent, Total
from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.find import engine
from opsplice.matchers.terms.terms import DimSize
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.ir.executable_targets import targets_of
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.rewrites.plan.planner import Planner
from opsplice.spec_lang.loading.loader import load_text
from opsplice.targets.artifacts.artifact import Artifact
from tests.effort import examples
from tests.rewrites.plan.view_programs import Dim, Dims, Function, Value, type_of

SPEC = """
kernel dots(x: f32[...b, m, k] strided, w: f32[...b, n, k] strided) -> f32[...b, m, n] strided {
  grid (b)
  cpu "kernels.c"
}
kernel sums(x: f32[...b, m, k] strided) -> f32[...b, m] strided {
  grid (b)
  cpu "kernels.c"
}
kernel signs(x: f32[...b, m, k] strided) -> f32[...b, m, k] strided {
  grid (b)
  cpu "kernels.c"
}
pattern product(x: tensor<...b x m x k x f32>, w: tensor<...b x n x k x f32>) {
  contract[...b m k, ...b n k -> ...b m n](x, w)
}
pattern sum(x: tensor<...b x m x k x f32>) {
  reduce addf[...b m k -> ...b m](x)
}
pattern sign(x: tensor<...b x m x k x f32>) {
  negf(x)
}
replace product with dots(x, w)
replace sum with sums(x)
replace sign with signs(x)
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
void sums(const float *x, float *out, size_t b, size_t m, size_t k, size_t xm, size_t xk, size_t om,
          size_t workgroup_x) {
  for (size_t i = 0; i < m; ++i) {
    float sum = 0;
    for (size_t l = 0; l < k; ++l) sum += x[i * xm + l * xk];
    out[i * om] = sum;
  }
}
void signs(const float *x, float *out, size_t b, size_t m, size_t k, size_t xm, size_t xk, size_t om, size_t ok,
           size_t workgroup_x) {
  for (size_t i = 0; i < m; ++i)
    for (size_t l = 0; l < k; ++l) out[i * om + l * ok] = -x[i * xm + l * xk];
}
"""
# The letters of the inputs and the result of each kernel, batches besides; what its op is made of, and what numpy says.
KERNELS: dict[str, tuple[str, str, Any]] = {
    "dots": ("mk,nk->mn", "%p = arith.mulf %x0, %x1 : f32 %s = arith.addf %o, %p : f32", np.einsum),
    "sums": ("mk->m", "%s = arith.addf %o, %x0 : f32", np.einsum),
    "signs": ("mk->mk", "%s = arith.negf %x0 : f32", lambda letters, x: -np.einsum(letters, x)),
}
# Those of `case` that are compiled.
COMPILED = range(4)
SIZES = (1, 2, 3, 4, 4, 6, 6, 8, 8, 12)


def case(seed: str, *, opened: float = 0.0, depth: int = 6) -> Function:
    """A function with one op for one of the kernels, behind random views, its result before others.

    opened: how many of the sizes are known at run time only.
    """
    rng = random.Random(seed)
    made = Function(rng, f"f{seed.rpartition(':')[2]}")
    kernel = rng.choice(list(KERNELS))
    batches = "bc"[: rng.randint(0, 2)]
    dims = {letter: Dim(rng.choice(SIZES), rng.random() < opened) for letter in "bcmnk"}
    letters = ["".join(rng.sample(each := batches + own, len(each))) for own in _apart(KERNELS[kernel][0])]
    inputs = [made.chain(tuple(dims[letter] for letter in each), rng.randint(0, depth)) for each in letters[:-1]]
    result = _op(made, kernel, inputs, letters)
    made.results.append(made.arranged(result, 3))
    if rng.random() < 0.2:
        made.results.append(result)
    return made


def _apart(subscripts: str) -> list[str]:
    return subscripts.replace("->", ",").split(",")


def _op(made: Function, kernel: str, inputs: list[Value], letters: list[str]) -> Value:
    _, body, numbers = KERNELS[kernel]
    pairs = zip(inputs, letters[:-1], strict=True)
    sizes = {letter: (value, axis) for value, each in pairs for axis, letter in enumerate(each)}
    dims: Dims = tuple(sizes[letter][0].dims[sizes[letter][1]] for letter in letters[-1])
    loops = made.rng.sample(sorted(sizes), len(sizes))
    into = made.empty(dims, [made.size(*sizes[x]) for x, dim in zip(letters[-1], dims, strict=True) if dim.is_open])
    zero = made.line("arith.constant 0.0 : f32", "z")
    filled = made.line(f"linalg.fill ins({zero} : f32) outs({into} : {type_of(dims)}) -> {type_of(dims)}")
    maps = ", ".join(f"affine_map<({', '.join(loops)}) -> ({', '.join(each)})>" for each in letters)
    kinds = ", ".join('"parallel"' if loop in letters[-1] else '"reduction"' for loop in loops)
    names, types = ", ".join(value.name for value in inputs), ", ".join(value.type for value in inputs)
    arguments = ", ".join([*(f"%x{number}: f32" for number in range(len(inputs))), "%o: f32"])
    name = made.line(
        f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({names} : {types}) outs({filled} "
        f": {type_of(dims)}) {{ ^bb0({arguments}): {body} linalg.yield %s : f32 }} -> {type_of(dims)}"
    )
    return Value(name, dims, numbers(f"{','.join(letters[:-1])}->{letters[-1]}", *(value.array for value in inputs)))


class Numbers:
    """What the values of a function are at a call, and what lies where a layout says."""

    def __init__(self, module: ir.Module, made: Function) -> None:
        clone = ir.Module.parse(str(module), module.context)
        function = clone.body.operations[0]
        *ops, end = function.regions[0].blocks[0].operations
        values = [op.results[0] for op in ops]
        kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
        end.operation.erase()
        with module.context, ir.Location.unknown(), ir.InsertionPoint(function.regions[0].blocks[0]):
            ir.Operation.create("func.return", operands=values)
            every = ir.FunctionType.get(kind.inputs, [value.type for value in values])
            function.attributes["function_type"] = ir.TypeAttr.get(every)
        found = evaluate(clone, made.name, made.inputs)
        block = module.body.operations[0].regions[0].blocks[0]
        own = [op.results[0] for op in list(block.operations)[:-1]]
        self.arrays: dict[Any, Any] = dict(zip([*block.arguments, *own], [*made.inputs, *found], strict=True))

    def atom(self, atom: Any) -> int:
        if isinstance(atom, Total):
            return sum(map(self.extent, atom.terms))
        return int(self.arrays[atom.value].shape[atom.axis] if isinstance(atom, DimSize) else self.arrays[atom])

    def extent(self, extent: Extent) -> int:
        return extent.factor * math.prod(self.atom(atom) ** power for atom, power in extent.atoms)

    def size(self, size: Any) -> int:
        """Of a dim, or of all dims of a pack."""
        if isinstance(size, tuple):
            return math.prod(map(self.size, size))
        return size if isinstance(size, int) else self.atom(size)

    def at(self, memory: np.ndarray, layout: Layout) -> np.ndarray:
        """The elements that lie where a layout says. They lie inside of the memory."""
        assert self.extent(layout.count) == memory.size
        places = np.array(self.extent(layout.offset))
        for runs in layout.dims:
            along = np.zeros(1, np.int64)
            for size, stride in runs:
                along = np.add.outer(along, np.arange(self.extent(size)) * self.extent(stride)).ravel()
            places = np.add.outer(places, along)
        assert not places.size or (places.min() >= 0 and places.max() < memory.size)
        return np.ascontiguousarray(memory).ravel()[places]

    def check(self, call: KernelCall) -> int:
        """Compare what a kernel makes of what it reads with what it has to write. How many views it sees through."""
        subscripts, _, numbers = KERNELS[call.kernel.name]
        sizes = {name: self.size(size) for name, size in call.dims.items()}
        letters = ["b" + each for each in _apart(subscripts)]
        shapes = [tuple(sizes[letter] for letter in each) for each in letters]
        read = []
        for buffer, shape in zip(call.arguments, shapes, strict=False):
            memory, layout = self.arrays[buffer.value], buffer.layout or buffer.copy
            read.append(memory.reshape(shape) if layout is None else self.at(memory, layout))
            assert read[-1].shape == shape
        (output,) = call.outputs
        made, wanted = numbers(f"{','.join(letters[:-1])}->{letters[-1]}", *read), self.arrays[output.root]
        assert made.shape == shapes[-1]
        if output.copy:
            made = self.at(made, output.copy)
        if output.layout:
            wanted = self.at(wanted, output.layout)
            assert (wanted.shape, wanted.size) == (shapes[-1], self.arrays[output.root].size)
        np.testing.assert_array_equal(made.ravel(), wanted.ravel(), err_msg=call.kernel.name)
        return sum(bool(buffer.views or buffer.copy) for buffer in (*call.arguments, output))


@pytest.fixture(scope="module", params=["strided", "copied"])
def planned(request, tmp_path_factory):
    """Plans for a function, with kernels that are told strides or with copies for them. No artifact is built."""
    spec = load_text(SPEC if request.param == "strided" else SPEC.replace("strided", "copied").replace("grid (b)", ""))
    graphs = graphs_of(spec)
    with Compilation(["--iree-llvmcpu-target-cpu=host"]) as compilation:
        compilation.load(ModuleSource(content="func.func @f(%x: tensor<4xf32>) { return }"))
        compilation.run_to("preprocessing")
        targets = targets_of(compilation.module)
        artifact = Artifact(tmp_path_factory.mktemp("none"), "object", "digest", targets[0].arch, None, False)

        def plan(made: Function) -> tuple[ir.Module, list[KernelCall]]:
            module = ir.Module.parse(made.text(), compilation.module.context)
            matches = engine.find(module, graphs).matches
            return module, Planner(
                matches, spec.rules, spec.given, spec.kernels, targets, lambda *_: artifact
            ).plan().calls

        yield plan


@pytest.mark.parametrize("opened", [0.0, 0.4])
@pytest.mark.parametrize("batch", range(examples(2, 100)))
def test_a_plan_says_where_numbers_lie(planned, batch, opened):
    calls = views = 0
    for seed in range(25):
        made = case(f"{opened}:{batch}:{seed}", opened=opened)
        module, found = planned(made)
        numbers = Numbers(module, made)
        np.testing.assert_array_equal(numbers.arrays[_returned(module)], made.results[0].array)
        for call in found:
            views += numbers.check(call)
        calls += len(found)
    assert calls > 20
    assert views > 5


def _returned(module: ir.Module) -> ir.Value:
    block = module.body.operations[0].regions[0].blocks[0]
    return list(block.operations)[-1].operands[0]


def cut_across(made: Function) -> Value:
    """The first four of two and four rows, as two by two: that they are no two of the two and two of the four."""
    rows = made.collapse(made.argument((Dim(2), Dim(4), Dim(3), Dim(5))), 0, 2)
    return made.expand(made.cut(rows, 0, Dim(4)), 0, (Dim(2), Dim(2)))


def cut_open(made: Function) -> Value:
    """The first 15 of 45 rows, of which the caller says how many there are, as five by three: not nine."""
    rows = made.argument((Dim(45), Dim(6), Dim(4)))
    return made.expand(made.cut(rows, 0, Dim(15, is_open=True)), 0, (Dim(5), Dim(3, is_open=True)))


def cut_flat(made: Function) -> Value:
    """The first six of eight rows that are four by two in the memory, as two by three."""
    rows = made.collapse(made.transpose(made.argument((Dim(2), Dim(4), Dim(5))), [1, 0, 2]), 0, 2)
    return made.expand(made.cut(rows, 0, Dim(6)), 0, (Dim(2), Dim(3)))


@pytest.mark.parametrize("views", [cut_across, cut_open, cut_flat])
@pytest.mark.parametrize("kernel", ["signs", "sums"])
def test_parts_of_a_cut_dim_lie_as_they_did_before_it_was_cut(planned, views, kernel):
    made = behind(views, kernel)
    module, calls = planned(made)
    assert len(calls) == 1
    Numbers(module, made).check(calls[0])


def behind(views: Callable[[Function], Value], kernel: str) -> Function:
    made = Function(random.Random(0), views.__name__)
    value = views(made)
    letters = "bcmk"[-len(value.dims) :]
    made.results.append(_op(made, kernel, [value], [letters, letters if kernel == "signs" else letters[:-1]]))
    return made


def test_kernels_compute_what_numpy_does(tmp_path):
    """Compiled and run: some of the programs above."""
    (tmp_path / "k.splice").write_text(SPEC)
    (tmp_path / "kernels.c").write_text(CODE)
    programs = [behind(views, "signs") for views in (cut_across, cut_open, cut_flat)]
    programs += [case(f"compiled:{seed}", opened=0.3 * (seed % 2)) for seed in COMPILED]
    text = "\n".join(made.text() for made in programs)
    program = opsplice.compile(text, [tmp_path / "k.splice"], ["--iree-llvmcpu-target-cpu=host"])
    assert len(program.report.replacements) >= len(programs) - 2
    for made in programs:
        found = program.run(made.name, *made.inputs)
        for array, wanted in zip(found if isinstance(found, list) else [found], made.results, strict=True):
            np.testing.assert_array_equal(np.asarray(array), wanted.array, err_msg=made.name)
