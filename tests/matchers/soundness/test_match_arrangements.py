"""Random programs that rearrange, combine and reduce small tensors of whole numbers in many ways.

What views read from a program is what it computes: each value is read as a term, down to the arguments, and every
element of it is compared with the interpreter's. And what matches is what the program computes: patterns are computed
in numpy from the inputs that they are bound to.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import numpy as np
import pytest

from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.ops.parts_of_dims import STACK
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Affine,
    Apply,
    Constant,
    Flat,
    Index,
    Loop,
    LoopIndex,
    Part,
    Reduce,
    Started,
    Sum,
)
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text
from tests.effort import examples
from tests.matchers.soundness.programs import Program, run, told

# ---- programs --------------------------------------------------------------------------------------------------------


def program(seed: int) -> Program:
    rng = random.Random(seed)
    made = Program(rng)
    for _ in "ab":
        shape = tuple(rng.choice([1, 2, 3, 3, 4, 6]) for _ in range(rng.choice([1, 2, 3])))
        made.values.append(made.argument(shape, tuple(rng.random() < 0.2 for _ in shape)))
    ops = [
        made.cast,
        made.transpose,
        made.broadcast,
        made.collapse,
        made.expand,
        made.slice,
        made.join,
        made.combine,
        made.generic,
        made.generic,
        made.generic,
    ]
    for _ in range(7):
        rng.choice(ops)()
    return made


# ---- terms in numbers ------------------------------------------------------------------------------------------------


class Reader:
    """Evaluates terms. arrays: what each value of the program is."""

    def __init__(self, views: Views, arrays: dict[Any, Any]) -> None:
        self.views = views
        self.arrays = arrays
        self.runs: dict[Loop, int] = {}

    def extent(self, index: Index) -> int:
        if index == UNIT:
            return 1
        if isinstance(index, Loop):
            return self.runs[index]
        if isinstance(index, Flat):
            return math.prod(self.extent(part) for part in index.parts)
        if not isinstance(index, Part):
            raise LookupError(f"how far {index} runs is not known")
        return self.sizes(index)[index.position]

    def sizes(self, index: Flat | Part, whole: int | None = None) -> list[int]:
        """Sizes of dims as numbers; one that is not known follows from the others and from the size of the whole."""
        known = [None if s is None else s if isinstance(s, int) else self.product(s) for s in index.sizes]
        if None in known:
            whole = whole or self.extent(index.whole if isinstance(index, Part) else index)
            rest = whole // max(1, math.prod(s for s in known if s is not None))
            known = [rest if s is None else s for s in known]
        return [s for s in known if s is not None]

    def product(self, extent: Extent) -> int:
        return extent.renamed(lambda atom: told(atom, self.arrays)).factor

    def length(self, loop: Loop) -> int:
        return self.product(self.views.extent(loop.dim)) if loop.size is None else loop.size

    def at(self, index: Index, loops: dict[Loop, int], size: int | None = None) -> int:
        """An index as a number, in a dim of a size."""
        if index == UNIT:
            return 0
        if isinstance(index, Loop):
            return loops[index]
        if isinstance(index, Flat):
            found = 0
            for part, inner in zip(index.parts, self.sizes(index, size), strict=True):
                found = found * inner + self.at(part, loops, inner)
            return found
        if isinstance(index, Part):
            sizes = self.sizes(index)
            return self.at(index.whole, loops) // math.prod(sizes[index.position + 1 :]) % sizes[index.position]
        if isinstance(index, Sum):
            start = index.constant
            start = (
                start
                if isinstance(start, int)
                else self.product(start if isinstance(start, Extent) else self.views.extent(start))
            )
            return sum(factor * self.at(part, loops) for factor, part in index.terms) + start
        assert isinstance(index, Affine)
        names = {f"d{n}": self.at(part, loops) for n, part in enumerate(index.parts)}
        return eval(index.text.replace("floordiv", "//").replace("mod", "%"), {}, names)

    def value(self, term: Any, loops: dict[Loop, int]) -> float:
        if isinstance(term, Access):
            step = self.views.expand(term)
            if step is not None:
                return self.value(step.term, loops)
            array = self.arrays[term.value]
            return array[tuple(self.at(i, loops, size) for i, size in zip(term.indices, array.shape, strict=True))]
        if isinstance(term, Constant):
            return term.value
        if isinstance(term, LoopIndex):
            return self.at(term.index, loops)
        if isinstance(term, Reduce):
            assert term.combiner == "arith.addf"
            for loop in term.loops:
                self.runs[loop] = self.length(loop)
            ways = itertools.product(*(range(self.runs[loop]) for loop in term.loops))
            total = sum(self.value(term.body, loops | dict(zip(term.loops, way, strict=True))) for way in ways)
            for other in self.views.readings(term, term.combiner):
                assert self.value(other, loops) == total, "a sum over parts is another one"
            return total
        assert isinstance(term, (Apply, Started))
        if term.op == TAKE:
            every, at = term.args
            (loop,) = every.loops
            self.runs[loop] = self.length(loop)
            return self.value(every.body, loops | {loop: int(self.value(at, loops))})
        args = [self.value(arg, loops) for arg in term.args]
        return OPS[term.op](*args)


OPS = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.maximumf": max,
    "arith.index_cast": lambda a: a,
    "arith.sitofp": float,
    STACK: lambda number, *parts: parts[int(number)],
}


@pytest.mark.parametrize("block", range(4))
def test_terms_are_what_the_program_computes(session, block):
    count, unknown, read = examples(20, 500), 0, 0
    for seed in range(block * count, (block + 1) * count):
        module, arrays, returned = run(session, program(seed), seed)
        views = Views()
        for value in returned:
            whole, wanted = views.whole(value), arrays[value]
            reader = Reader(views, arrays)
            reader.runs = {i: size for i, size in zip(whole.indices, wanted.shape, strict=True) if isinstance(i, Loop)}
            for place in itertools.product(*map(range, wanted.shape)):
                loops = {i: at for i, at in zip(whole.indices, place, strict=True) if isinstance(i, Loop)}
                try:
                    found = reader.value(whole, loops)
                except LookupError:
                    unknown += 1
                    break
                assert found == wanted[place], f"seed {seed}, {value}, {place}\n{module}"
                read += 1
    assert unknown * 20 < read


# ---- patterns in numpy -----------------------------------------------------------------------------------------------


def window(x: Any, w: Any) -> Any:
    """The sums of w times x at the places of a window, for as many places as fit."""
    size = x.shape[0] - w.shape[0] + 1
    return np.array([np.dot(x[at : at + w.shape[0]], w) for at in range(size)])


# Each pattern with what it makes of its inputs.
PATTERNS = {
    "x: tensor<m x n x f32>, y: tensor<m x n x f32> { addf(x, y) }": lambda x, y: x + y,
    "x: tensor<m x n x f32>, b: tensor<n x f32> { mulf(x, broadcast[n -> m n](b)) }": lambda x, b: x * b,
    "x: tensor<m x n x f32>, b: tensor<m x f32> { subf(x, broadcast[m -> m n](b)) }": lambda x, b: x - b[:, None],
    "x: tensor<m x n x f32>, y: tensor<n x m x f32> { subf(x, transpose[n m -> m n](y)) }": lambda x, y: x - y.T,
    "x: tensor<m x n x f32> { mulf(x, x) }": lambda x: x * x,
    "x: tensor<n x n x f32> { addf(x, transpose[m n -> n m](x)) }": lambda x: x + x.T,
    "x: tensor<n x f32>, y: tensor<n x f32> { addf(mulf(x, y), y) }": lambda x, y: x * y + y,
    "x: tensor<...m x f32>, y: tensor<...m x f32> { mulf(x, y) }": lambda x, y: x * y,
    "x: tensor<...m x n x f32>, b: tensor<n x f32> { addf(x, broadcast[n -> ...m n](b)) }": lambda x, b: x + b,
    "x: tensor<m x n x k x f32> { mulf(x, x) }": lambda x: x * x,
    "x: tensor<m x n x f32> { reduce addf[m n -> m](x) }": lambda x: x.sum(1),
    "x: tensor<m x n x f32> { reduce addf[m n -> n](x) }": lambda x: x.sum(0),
    "x: tensor<...m x n x f32> { reduce addf[...m n -> ...m](x) }": lambda x: x.sum(-1),
    "x: tensor<m x n x k x f32> { reduce addf[m n k -> m](x) }": lambda x: x.sum((1, 2)),
    "x: tensor<m x n x f32> { reduce addf[m n -> m](mulf(x, x)) }": lambda x: (x * x).sum(1),
    "x: tensor<m x n x f32>, b: tensor<n x f32> { reduce addf[m n -> m](mulf(x, broadcast[n -> m n](b))) }":
        lambda x, b: (x * b).sum(1),
    "a: tensor<m x k x f32>, b: tensor<k x n x f32> { contract[m k, k n -> m n](a, b) }": lambda a, b: a @ b,
    "a: tensor<m x k x f32>, b: tensor<n x k x f32> { contract[m k, n k -> m n](a, b) }": lambda a, b: a @ b.T,
    "a: tensor<k x f32>, b: tensor<k x f32> { contract[k, k -> ](a, b) }": lambda a, b: a @ b,
    "a: tensor<...b x m x k x f32>, b2: tensor<...b x k x n x f32> { contract[...b m k, ...b k n -> ...b m n](a, b2) }":
        lambda a, b: a @ b,
    "a: tensor<m x f32>, b: tensor<n x f32> { contract[m, n -> m n](a, b) }": lambda a, b: np.outer(a, b),
    "x: tensor<l x f32>, w: tensor<i x f32> { contract[(y + i), i -> y](x, w) }": window,
    "x: tensor<m x n x f32>, y: tensor<m x f32> { addf(reduce addf[m n -> m](x), y) }": lambda x, y: x.sum(1) + y,
}  # fmt: skip


def number_of(size: Any, arrays: dict[Any, Any]) -> int:
    """The size of a dim, or of a pack's dims flattened."""
    if isinstance(size, tuple):
        return math.prod(number_of(each, arrays) for each in size)
    return size if isinstance(size, int) else arrays[size.value].shape[size.axis]


@pytest.mark.parametrize("block", range(4))
def test_what_matches_is_what_the_program_computes(session, block):
    """Every match in a random program, computed from its inputs in the shapes that they are bound in."""
    heads = (text.partition(" {") for text in PATTERNS)
    spec = load_text("\n".join(f"pattern p{n}({given}) {{{body}" for n, (given, _, body) in enumerate(heads)))
    patterns = compile_patterns(spec)
    functions = dict(zip(spec.patterns, PATTERNS.values(), strict=True))
    count, found = examples(20, 500), set()
    prepared = engine.Patterns(patterns)
    for seed in range(block * count, (block + 1) * count):
        module, arrays, _ = run(session, program(seed), seed)
        for match in engine.find(module, prepared, near_misses=0).matches:
            inputs = []
            for parameter in match.pattern.parameters:
                array = arrays[match.inputs[parameter.name].value]
                sizes = [number_of(size, arrays) for size in match.shapes[parameter.name]]
                assert math.prod(sizes) == array.size
                inputs.append(array.reshape(sizes))
            made, wanted = functions[match.pattern.name](*inputs), arrays[match.roots[0]]
            told = f"seed {seed}, {match.pattern.name} at {match.roots[0]}\n{module}"
            if functions[match.pattern.name] is window:
                made = made[: wanted.size]  # a program need not go to the end
            assert made.size == wanted.size, told
            assert np.array_equal(made.reshape(wanted.shape), wanted), told
            found.add(match.pattern.name)
    assert len(found) > 3, found
