"""Random programs that rearrange, combine and reduce small tensors of whole numbers in many ways.

What views read from a program is what it computes: each value is read as a term, down to the arguments, and every
element of it is compared with the interpreter's. And what matches is what the program computes: patterns are computed
in numpy from the inputs that they are bound to.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

from opsplice import interpreter
from opsplice.matchers.dims.extents import Extent
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.graph import compile_pattern
from opsplice.matchers.terms.terms import (
    UNIT,
    Access,
    Affine,
    Apply,
    Constant,
    DimSize,
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

# ---- programs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    dynamic: tuple[bool, ...]

    @property
    def type(self) -> str:
        dims = ("?" if free else str(size) for size, free in zip(self.shape, self.dynamic, strict=True))
        return f"tensor<{''.join(f'{dim}x' for dim in dims)}f32>"


@dataclass
class Program:
    """A random program. Sizes that are known at run time only are arguments: `%s3` is 3."""

    rng: random.Random
    arguments: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sizes: dict[int, None] = field(default_factory=dict)
    fresh: int = 0

    def size(self, number: int) -> str:
        self.sizes[number] = None
        return f"%s{number}"

    def name(self) -> str:
        self.fresh += 1
        return f"%v{self.fresh}"

    def argument(self, shape: tuple[int, ...]) -> Tensor:
        made = Tensor(f"%a{len(self.arguments)}", shape, (False,) * len(shape))
        self.arguments.append(made)
        return made

    def add(self, shape: tuple[int, ...], dynamic: tuple[bool, ...], line: str) -> None:
        made = Tensor(self.name(), shape, dynamic)
        self.lines.append(f"{made.name} = {line.replace('RESULT', made.type)}")
        self.values.append(made)

    def any(self) -> Tensor:
        return self.rng.choice(self.values[-4:])

    def sizes_of(self, shape: tuple[int, ...], dynamic: tuple[bool, ...]) -> str:
        return ", ".join(self.size(size) for size, free in zip(shape, dynamic, strict=True) if free)

    def empty(self, shape: tuple[int, ...], dynamic: tuple[bool, ...]) -> Tensor:
        made = Tensor(self.name(), shape, dynamic)
        self.lines.append(f"{made.name} = tensor.empty({self.sizes_of(shape, dynamic)}) : {made.type}")
        return made

    # ---- ops ----

    def cast(self) -> None:
        x = self.any()
        dynamic = tuple(self.rng.random() < 0.5 for _ in x.shape)
        self.add(x.shape, dynamic, f"tensor.cast {x.name} : {x.type} to RESULT")

    def transpose(self) -> None:
        x = self.any()
        if not x.shape:
            return  # MLIR's parser crashes on `permutation = []`
        order = self.rng.sample(range(len(x.shape)), len(x.shape))
        shape, dynamic = tuple(x.shape[i] for i in order), tuple(x.dynamic[i] for i in order)
        out = self.empty(shape, dynamic)
        self.add(shape, dynamic, f"linalg.transpose ins({x.name} : {x.type}) outs({out.name} : {out.type}) "
                                 f"permutation = {order}")  # fmt: skip

    def broadcast(self) -> None:
        x, size = self.any(), self.rng.choice([1, 2, 3])
        at = self.rng.randrange(len(x.shape) + 1)
        shape, dynamic = (*x.shape[:at], size, *x.shape[at:]), (*x.dynamic[:at], False, *x.dynamic[at:])
        if len(shape) <= 4:
            out = self.empty(shape, dynamic)
            self.add(shape, dynamic, f"linalg.broadcast ins({x.name} : {x.type}) outs({out.name} : {out.type}) "
                                     f"dimensions = [{at}]")  # fmt: skip

    def collapse(self) -> None:
        x = self.any()
        groups = self.groups(len(x.shape))
        if len(groups) < len(x.shape):
            shape = tuple(math.prod(x.shape[i] for i in group) for group in groups)
            dynamic = tuple(any(x.dynamic[i] for i in group) for group in groups)
            self.add(shape, dynamic, f"tensor.collapse_shape {x.name} {groups} : {x.type} into RESULT")

    def groups(self, rank: int) -> list[list[int]]:
        groups: list[list[int]] = []
        for i in range(rank):
            if groups and self.rng.random() < 0.5:
                groups[-1].append(i)
            else:
                groups.append([i])
        return groups

    def expand(self) -> None:
        x = self.any()
        shape: list[int] = []
        dynamic: list[bool] = []
        groups: list[list[int]] = []
        for size, free in zip(x.shape, x.dynamic, strict=True):
            ways = [(a, size // a) for a in range(1, size + 1) if size % a == 0]
            pieces = self.rng.choice(ways) if self.rng.random() < 0.6 else (size,)
            groups.append(list(range(len(shape), len(shape) + len(pieces))))
            at = self.rng.randrange(len(pieces))
            both = free and self.rng.random() < 0.5
            shape += pieces
            dynamic += [free and (both or i == at) for i in range(len(pieces))]
        if len(x.shape) < len(shape) <= 4:
            written = ", ".join(self.size(s) if free else str(s) for s, free in zip(shape, dynamic, strict=True))
            self.add(tuple(shape), tuple(dynamic), f"tensor.expand_shape {x.name} {groups} output_shape [{written}] : "
                                                   f"{x.type} into RESULT")  # fmt: skip

    def combine(self) -> None:
        x = self.any()
        same = [y for y in self.values if (y.shape, y.dynamic) == (x.shape, x.dynamic)]
        op = self.rng.choice(["addf", "subf", "mulf", "maximumf"])
        self.add(x.shape, x.dynamic, f"arith.{op} {x.name}, {self.rng.choice(same).name} : {x.type}")

    def generic(self) -> None:
        """Operands under random maps into random loops, a random op of them, and maybe a reduction of that."""
        operands = [self.any() for _ in range(self.rng.choice([1, 2]))]
        known = [size for x in operands for size in x.shape]
        loops = [self.rng.choice([*known, *known, 1, 2, 3]) for _ in range(self.rng.choice([1, 2, 2, 3]))]
        reduced = {i for i in range(len(loops)) if self.rng.random() < 0.4}
        maps = [self.map(x.shape, loops) for x in operands]
        plain = {
            at
            for x, one in zip(operands, maps, strict=True)
            for at, free in zip(one, x.dynamic, strict=True)
            if not free
        }
        if self.rng.random() < 0.4 or not all(f"d{i}" in plain for i in range(len(loops))):
            operands.append(self.argument(tuple(loops)))  # says how often each loop runs
            maps.append([f"d{i}" for i in range(len(loops))])
        kept = [i for i in range(len(loops)) if i not in reduced]
        self.rng.shuffle(kept)
        shape = tuple(loops[i] for i in kept)
        still = (False,) * len(shape)
        starts = [y for y in self.values if (y.shape, y.dynamic) == (shape, still)]
        if reduced and starts and self.rng.random() < 0.3:
            start = self.rng.choice(starts).name
        else:
            start = self.name()
            out = self.empty(shape, still)
            self.lines.append(f"{start} = linalg.fill ins(%zero : f32) outs({out.name} : {out.type}) -> {out.type}")
            self.values.append(Tensor(start, shape, still))
        body, last = [], "%x0"
        for i in range(1, len(operands)):
            body.append(f"%r{i} = arith.{self.rng.choice(['addf', 'mulf', 'mulf', 'subf'])} {last}, %x{i} : f32")
            last = f"%r{i}"
        if self.rng.random() < 0.2:
            at = self.rng.randrange(len(loops))
            body += [f"%i = linalg.index {at} : index", "%j = arith.index_cast %i : index to i32",
                     "%k = arith.sitofp %j : i32 to f32", f"%q = arith.addf {last}, %k : f32"]  # fmt: skip
            last = "%q"
        if reduced:
            body.append(f"%t = arith.addf {', '.join(self.rng.sample([last, '%o'], 2))} : f32")
            last = "%t"
        dims = ", ".join(f"d{i}" for i in range(len(loops)))
        written = ", ".join(f"affine_map<({dims}) -> ({', '.join(m)})>" for m in [*maps, [f"d{i}" for i in kept]])
        kinds = ", ".join('"reduction"' if i in reduced else '"parallel"' for i in range(len(loops)))
        made = Tensor("", shape, still).type
        names, types = ", ".join(x.name for x in operands), ", ".join(x.type for x in operands)
        inside = ", ".join([*(f"%x{i}: f32" for i in range(len(operands))), "%o: f32"])
        self.add(shape, still, f"linalg.generic {{indexing_maps = [{written}], iterator_types = [{kinds}]}} "
                               f"ins({names} : {types}) outs({start} : {made}) {{ ^bb0({inside}):\n"
                               + "\n".join(body) + f"\nlinalg.yield {last} : f32 }} -> RESULT")  # fmt: skip

    def map(self, shape: tuple[int, ...], loops: list[int]) -> list[str]:
        """For each dim an expression of the loops that stays in it."""
        found = []
        for size in shape:
            ways = [f"d{i}" for i, runs in enumerate(loops) if runs == size] * 20
            ways += [str(self.rng.randrange(size))]
            for (i, a), (j, b) in itertools.product(enumerate(loops), repeat=2):
                ways += [f"d{i} + d{j}"] * (a + b - 2 < size) + [f"d{i} * 2 + d{j}"] * (2 * a + b - 3 < size)
            ways += [f"d{i} floordiv 2" for i, runs in enumerate(loops) if (runs - 1) // 2 < size]
            ways += [f"d{i} mod {size}" for i in range(len(loops))]
            ways += [f"{size - 1} - d{i}" for i, runs in enumerate(loops) if runs <= size]
            found.append(self.rng.choice(ways))
        return found

    def text(self) -> str:
        sizes = map(self.size, self.sizes)
        head = ", ".join([*(f"{a.name}: {a.type}" for a in self.arguments), *(f"{s}: index" for s in sizes)])
        names, types = ", ".join(v.name for v in self.values), ", ".join(v.type for v in self.values)
        body = "\n".join(["%zero = arith.constant 0.0 : f32", *self.lines])
        return f"func.func @main({head}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"


def program(seed: int) -> Program:
    rng = random.Random(seed)
    made = Program(rng)
    made.values = [
        made.argument(tuple(rng.choice([1, 2, 3, 3, 4, 6]) for _ in range(rng.choice([1, 2, 3])))) for _ in "ab"
    ]
    ops = [
        made.cast,
        made.transpose,
        made.broadcast,
        made.collapse,
        made.expand,
        made.combine,
        made.generic,
        made.generic,
        made.generic,
    ]
    for _ in range(7):
        rng.choice(ops)()
    return made


def run(session: Any, seed: int) -> tuple[ir.Module, dict[Any, Any], list[Any]]:
    """A random program, its values as arrays, and those of them that are tensors of its own."""
    made = program(seed)
    module = ir.Module.parse(made.text(), context=session.context)
    numbers = np.random.default_rng(seed)
    inputs = [numbers.integers(-3, 4, a.shape).astype(np.float64) for a in made.arguments] + list(made.sizes)
    results = interpreter.evaluate(module, "main", inputs, np.float64)
    block = module.body.operations[0].regions[0].blocks[0]
    returned = list(block.operations[len(block.operations) - 1].operands)
    return module, dict(zip([*block.arguments, *returned], [*inputs, *results], strict=True)), returned


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
        atoms = ((self.arrays[a.value].shape[a.axis] if isinstance(a, DimSize) else self.arrays[a], power)
                 for a, power in extent.atoms)  # fmt: skip
        return extent.factor * math.prod(int(number) ** power for number, power in atoms)

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
            return sum(factor * self.at(part, loops) for factor, part in index.terms)
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
                self.runs[loop] = loop.size
            ways = itertools.product(*(range(loop.size) for loop in term.loops))
            return sum(self.value(term.body, loops | dict(zip(term.loops, way, strict=True))) for way in ways)
        assert isinstance(term, (Apply, Started))
        args = [self.value(arg, loops) for arg in term.args]
        return OPS[term.op](*args)


OPS = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
    "arith.maximumf": max,
    "arith.index_cast": lambda a: a,
    "arith.sitofp": float,
}


@pytest.mark.parametrize("block", range(4))
def test_terms_are_what_the_program_computes(session, block):
    count, unknown, read = examples(20, 500), 0, 0
    for seed in range(block * count, (block + 1) * count):
        module, arrays, returned = run(session, seed)
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
    patterns = [graph for p in spec.patterns.values() for graph in compile_pattern(p, spec.patterns, spec.types)]
    functions = dict(zip(spec.patterns, PATTERNS.values(), strict=True))
    count, found = examples(20, 500), set()
    prepared = engine.Patterns(patterns)
    for seed in range(block * count, (block + 1) * count):
        module, arrays, _ = run(session, seed)
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
