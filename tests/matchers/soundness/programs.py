"""Random programs that rearrange, combine and reduce small tensors of whole numbers, and what they compute."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from iree.compiler import ir

from opsplice import interpreter
from opsplice.matchers.terms.terms import DimSize


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
    """A random program. Sizes that are known at run time only are arguments, `%s3` is 3, or computed from dims.

    numbers: the names of those that are computed.
    """

    rng: random.Random
    arguments: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    sizes: dict[int, None] = field(default_factory=dict)
    fresh: int = 0
    numbers: list[str] = field(default_factory=list)

    def size(self, number: int) -> str:
        self.sizes[number] = None
        return f"%s{number}"

    def name(self) -> str:
        self.fresh += 1
        return f"%v{self.fresh}"

    def argument(self, shape: tuple[int, ...], dynamic: tuple[bool, ...] = ()) -> Tensor:
        made = Tensor(f"%a{len(self.arguments)}", shape, dynamic or (False,) * len(shape))
        self.arguments.append(made)
        return made

    def number(self, wanted: int) -> str:
        """A number that the program computes from the size of a dim, as what keeps a slice inside is computed."""
        made = self.near(wanted, wanted)
        while self.rng.random() < 0.4:
            op = self.rng.choice(["minsi", "maxsi", "select"])
            other = self.near(*((wanted, wanted + 5) if op == "minsi" else (wanted - 5, wanted)))
            operands = self.rng.sample([made, other], 2)
            if op == "select":
                is_more = self.computed(f"arith.cmpi {self.rng.choice(['sgt', 'sge'])}, {made}, {other} : index", "c")
                made = self.computed(f"arith.select {is_more}, {made}, {other} : index")
            else:
                made = self.computed(f"arith.{op} {operands[0]}, {operands[1]} : index")
        return made

    def near(self, low: int, high: int) -> str:
        """The size of a dim and a number, between two limits."""
        wanted, shaped = self.rng.randint(low, high), [x for x in (*self.arguments, *self.values) if x.shape]
        x = self.rng.choice(shaped)
        axis = self.rng.randrange(len(x.shape))
        at, apart = self.computed(f"arith.constant {axis} : index"), wanted - x.shape[axis]
        size = self.computed(f"tensor.dim {x.name}, {at} : {x.type}")
        op, constant = self.rng.choice([("addi", apart), ("subi", -apart)])
        return self.computed(f"arith.{op} {size}, {self.computed(f'arith.constant {constant} : index')} : index")

    def computed(self, line: str, kind: str = "n") -> str:
        self.fresh += 1
        name = f"%{kind}{self.fresh}"
        self.lines.append(f"{name} = {line}")
        if kind == "n":
            self.numbers.append(name)
        return name

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

    def slice(self) -> None:
        """Some elements in a row or with steps, where dims of one may vanish."""
        x = self.any()
        starts, sizes, steps, shape, dynamic = [], [], [], list[int](), list[bool]()
        for size, free in zip(x.shape, x.dynamic, strict=True):
            is_whole = self.rng.random() < 0.5
            start = 0 if is_whole else self.rng.choice([0, self.rng.randrange(size)])
            step = 1 if is_whole else self.rng.choice([1, 1, 2])
            most = (size - start - 1) // step + 1
            count = size if is_whole else self.rng.choice([1, most, self.rng.randint(1, most)])
            is_told = not free and self.rng.random() < 0.8
            starts.append(start if is_told else self.number(start))
            sizes.append(count if is_told else self.number(count))
            steps.append(step)
            if not is_told or count > 1 or self.rng.random() < 0.5:
                shape.append(count)
                dynamic.append(not is_told)
        starts, sizes, steps = (f"[{', '.join(map(str, each))}]" for each in (starts, sizes, steps))
        line = f"tensor.extract_slice {x.name}{starts} {sizes} {steps} : {x.type} to RESULT"
        self.add(tuple(shape), tuple(dynamic), line)

    def join(self) -> None:
        """With another tensor behind it or before it along one dim, of any size there."""
        x = self.any()
        if not x.shape:
            return
        axis = self.rng.randrange(len(x.shape))
        size = self.rng.choice([1, 1, 2, x.shape[axis]])
        free = tuple(free or self.rng.random() < 0.2 for free in x.dynamic)
        parts = [x, self.argument((*x.shape[:axis], size, *x.shape[axis + 1 :]), free)]
        self.rng.shuffle(parts)
        shape, still = (*x.shape[:axis], x.shape[axis] + size, *x.shape[axis + 1 :]), (False,) * len(x.shape)
        if any(free):
            names, types = ", ".join(p.name for p in parts), ", ".join(p.type for p in parts)
            self.add(shape, free, f"tensor.concat dim({axis}) {names} : ({types}) -> RESULT")
            return
        if self.rng.random() < 0.5:
            names, types = ", ".join(p.name for p in parts), ", ".join(p.type for p in parts)
            self.add(shape, still, f"tensor.concat dim({axis}) {names} : ({types}) -> RESULT")
            return
        into, start = self.empty(shape, still).name, 0
        for number, part in enumerate(parts):
            offsets, ones = [start if i == axis else 0 for i in range(len(shape))], [1] * len(shape)
            start += part.shape[axis]
            line = (f"tensor.insert_slice {part.name} into {into}{offsets} {list(part.shape)} {ones} : "
                    f"{part.type} into {Tensor('', shape, still).type}")  # fmt: skip
            if number:
                self.add(shape, still, line)
            else:
                into = self.name()
                self.lines.append(f"{into} = {line}")

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
        names = ", ".join([*(v.name for v in self.values), *self.numbers])
        types = ", ".join([*(v.type for v in self.values), *("index" for _ in self.numbers)])
        body = "\n".join(["%zero = arith.constant 0.0 : f32", *self.lines])
        return f"func.func @main({head}) -> ({types}) {{\n{body}\nreturn {names} : {types}\n}}"


def told(atom: Any, arrays: dict[Any, Any]) -> int:
    """The number that something is which a size is computed from."""
    return int(arrays[atom.value].shape[atom.axis] if isinstance(atom, DimSize) else arrays[atom])


def run(session: Any, made: Program, seed: int) -> tuple[ir.Module, dict[Any, Any], list[Any]]:
    """A program, its values as arrays for random inputs, and those of them that are tensors of its own."""
    module = ir.Module.parse(made.text(), context=session.context)
    numbers = np.random.default_rng(seed)
    inputs = [numbers.integers(-3, 4, a.shape).astype(np.float64) for a in made.arguments] + list(made.sizes)
    results = interpreter.evaluate(module, "main", inputs, np.float64)
    block = module.body.operations[0].regions[0].blocks[0]
    returned = list(block.operations[len(block.operations) - 1].operands)
    arrays = dict(zip([*block.arguments, *returned], [*inputs, *results], strict=True))
    return module, arrays, returned[: len(made.values)]
