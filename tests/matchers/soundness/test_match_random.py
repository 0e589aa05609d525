"""Random programs: a match means equal numbers, every spelling matches, and what changes nothing changes no match.

Programs are spelled at random from random expressions, more than half of them with a mistake in one place. The pattern
is the expression without the mistake. Where the engine says that it holds, a small interpreter of patterns in numpy is
compared with the interpreter of programs, which is compared with IREE.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsplice import interpreter
from opsplice.matchers.explain.diagnosis import Explainer
from opsplice.matchers.explain.failure_words import words
from opsplice.matchers.explain.near_miss import State
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.search.failures import Kind
from opsplice.matchers.search.search import Search
from opsplice.matchers.search.tracing import Tracer
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.loading.loader import load_text
from opsplice.spec_lang.syntax import tree
from tests.effort import examples

# ---- patterns in numpy -----------------------------------------------------------------------------------------------

_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "negf": np.negative,
    "absf": np.abs,
    "tanh": np.tanh,
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
}
_REDUCTIONS: dict[str, Callable[..., Any]] = {"addf": np.sum, "maximumf": np.max, "minimumf": np.min}


def evaluate(pattern: tree.Pattern, inputs: dict[str, Any], sizes: dict[str, int]) -> Any:
    """The first result of a pattern. inputs: arrays and numbers by parameter; sizes: the dims."""

    def axes(labels: tuple[str, ...], kept: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(i for i, label in enumerate(labels) if label not in kept)

    def value(expr: tree.Expr) -> Any:
        if isinstance(expr, tree.Name):
            return inputs[expr.name]
        if isinstance(expr, tree.Constant):
            assert isinstance(expr.value, tree.Literal)
            return np.float64(expr.value.value)
        if isinstance(expr, tree.Call):
            return _ELEMENTWISE[expr.callee](*map(value, expr.args))
        labels, result = expr.subscripts.operands, expr.subscripts.result
        if isinstance(expr, tree.Contract):
            spelled = ",".join("".join(la) for la in labels) + "->" + "".join(result)
            # einsum takes what is repeated along an axis out of the sum, which is not the same for infinities.
            return np.einsum(spelled, *(np.ascontiguousarray(value(arg)) for arg in expr.args))
        array = value(expr.arg)
        if isinstance(expr, tree.Reduce):
            return _REDUCTIONS[expr.combiner](array, axis=axes(labels[0], result))
        if expr.kind == "transpose":
            return np.transpose(array, [labels[0].index(label) for label in result])
        missing = tuple(i for i, label in enumerate(result) if label not in labels[0])
        order = np.argsort([result.index(label) for label in labels[0]])
        known = dict(zip(labels[0], array.shape, strict=True))
        shape = [known.get(label, sizes.get(label)) for label in result]
        return np.broadcast_to(np.expand_dims(np.transpose(array, order), missing), shape)

    return value(pattern.results[0])


# ---- random expressions ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Node:
    """An expression. dims: a label for each dim of its value, distinct."""

    kind: str
    dims: tuple[str, ...]
    args: tuple[Node, ...] = ()
    op: str = ""
    number: float = 0.0


_LABELS = ("m", "n", "k")
_UNARY = ("negf", "absf", "tanh")
_BINARY = ("addf", "subf", "mulf", "maximumf", "minimumf")
_COMMUTATIVE = ("addf", "mulf", "maximumf", "minimumf")


class Expressions:
    """Random expressions over a few inputs."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def root(self) -> Node:
        """An expression that ends in an op, over inputs that have every dim that it repeats them along."""
        while True:
            made = self._root()
            if _dims_of(made, "broadcast") <= _dims_of(made, "input"):
                return made

    def _root(self) -> Node:
        dims = tuple(self.rng.sample(_LABELS, self.rng.choice((1, 2, 2))))
        body = self.make(dims, self.rng.choice((2, 3)))
        anchor = self.make(dims, 1)
        return Node("elementwise", dims, (body, anchor), self.rng.choice(_BINARY))

    def make(self, dims: tuple[str, ...], depth: int) -> Node:
        if depth == 0:
            return self.leaf(dims)
        other = [label for label in _LABELS if label not in dims]
        kinds = ["unary", "binary", "binary", "constant"]
        if len(dims) == 2:
            kinds += ["transpose", "broadcast", "broadcast", "contract", "contract"]
        if len(dims) == 1:
            kinds += ["reduce", "reduce", "contract"]
        match self.rng.choice(kinds):
            case "unary":
                return Node("elementwise", dims, (self.make(dims, depth - 1),), self.rng.choice(_UNARY))
            case "constant":
                number = Node("constant", (), number=self.rng.choice((0.5, 2.0, -1.5)))
                return Node("elementwise", dims, (self.make(dims, depth - 1), number), self.rng.choice(_BINARY))
            case "transpose":
                return Node("transpose", dims, (self.make(dims[::-1], depth - 1),))
            case "broadcast":
                return Node("broadcast", dims, (self.make((self.rng.choice(dims),), depth - 1),))
            case "reduce":
                inner = self.shuffled((*dims, self.rng.choice(other)))
                return Node("reduce", dims, (self.make(inner, depth - 1),), self.rng.choice(list(_REDUCTIONS)))
            case "contract":
                summed = self.rng.choice(other)
                left = self.make(self.shuffled((dims[0], summed)), depth - 1)
                right = self.make(self.shuffled((summed, *dims[1:])), depth - 1)
                return Node("contract", dims, (left, right))
            case _:
                first = self.make(dims, depth - 1)
                second = first if self.rng.random() < 0.2 else self.make(dims, depth - 1)
                return Node("elementwise", dims, (first, second), self.rng.choice(_BINARY))

    def leaf(self, dims: tuple[str, ...]) -> Node:
        return Node("input", dims, op=f"{self.rng.choice('xy')}_{''.join(dims)}")

    def shuffled(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.rng.sample(dims, len(dims)))

    def with_mistake(self, node: Node) -> Node:
        """The expression with one node changed, on the condition that all dims have one size."""
        places = self._places(node)
        path = self.rng.choice(places)
        return self._changed(node, path)

    def _places(self, node: Node) -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = [()]
        for i, arg in enumerate(node.args):
            found += [(i, *rest) for rest in self._places(arg)]
        return found

    def _changed(self, node: Node, path: tuple[int, ...]) -> Node:
        if path:
            args = list(node.args)
            args[path[0]] = self._changed(args[path[0]], path[1:])
            return replace(node, args=tuple(args))
        if node.kind == "constant":
            return replace(node, number=node.number * 2)
        if len(node.dims) == 2 and self.rng.random() < 0.5:
            return Node("transpose", node.dims, (replace(node, dims=node.dims),))
        if node.kind == "input":
            return replace(node, op=("y" if node.op[0] == "x" else "x") + node.op[1:])
        if node.kind == "elementwise" and len(node.args) == 2 and self.rng.random() < 0.5:
            return replace(node, args=node.args[::-1])
        if node.kind == "elementwise":
            return replace(node, op=self.rng.choice(_UNARY if len(node.args) == 1 else _BINARY))
        if node.kind == "reduce":
            return replace(node, op=self.rng.choice(list(_REDUCTIONS)))
        return replace(node, args=tuple(self._changed(a, ()) for a in node.args))


def _dims_of(node: Node, kind: str) -> set[str]:
    own = set(node.dims) if node.kind == kind else set()
    return own.union(*(_dims_of(a, kind) for a in node.args))


def pattern_text(root: Node) -> str:
    inputs: dict[str, tuple[str, ...]] = {}

    def text(node: Node) -> str:
        if node.kind == "input":
            inputs[node.op] = node.dims
            return node.op
        if node.kind == "constant":
            return str(node.number)
        args = ", ".join(map(text, node.args))
        if node.kind == "elementwise":
            return f"{node.op}({args})"
        operands = ", ".join(" ".join(a.dims) for a in node.args)
        head = f"reduce {node.op}" if node.kind == "reduce" else node.kind
        return f"{head}[{operands} -> {' '.join(node.dims)}]({args})"

    body = text(root)
    parameters = ", ".join(f"{n}: tensor<{' x '.join((*dims, 'f32'))}>" for n, dims in inputs.items())
    return f"pattern p({parameters}) {{ {body} }}"


# ---- random spellings ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Held:
    """A value as a tensor `name` with the axes of the expression that its own axes are."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]


class Speller:
    """Writes an expression as a function that returns every tensor that it makes."""

    def __init__(self, rng: random.Random, sizes: dict[str, int]) -> None:
        self.rng = rng
        self.sizes = sizes
        self.lines: list[str] = []
        self.inputs: dict[str, tuple[int, ...]] = {}
        self.made: list[tuple[str, tuple[int, ...]]] = []
        self.done: dict[Node, Held] = {}
        self.count = 0

    def function(self, name: str, root: Node) -> str:
        held = self.plain(self.write(root), root.dims)
        if held.name not in [n for n, _ in self.made]:
            self.made.append((held.name, held.shape))
        arguments = ", ".join(f"%{n}: {_tensor(s)}" for n, s in self.inputs.items())
        types = ", ".join(_tensor(s) for _, s in self.made)
        values = ", ".join(n for n, _ in self.made)
        lines = "\n  ".join(self.lines)
        return f"func.func @{name}({arguments}) -> ({types}) {{\n  {lines}\n  return {values} : {types}\n}}\n"

    def write(self, node: Node) -> Held:
        if node not in self.done:
            self.done[node] = self._written(node)
        return self.done[node]

    def _written(self, node: Node) -> Held:
        if node.kind == "input":
            shape = tuple(self.sizes[d] for d in node.dims)
            self.inputs[node.op] = shape
            return Held(f"%{node.op}", shape, tuple(range(len(shape))))
        args = [self.write(a) for a in node.args if a.kind != "constant"]
        if node.kind == "transpose":
            return self.maybe_plain(replace(args[0], axes=tuple(1 - a for a in args[0].axes)), node)
        if node.kind == "broadcast":
            at = node.dims.index(node.args[0].dims[0])
            return self.maybe_plain(replace(args[0], axes=tuple(at for _ in args[0].axes)), node)
        if node.kind == "elementwise":
            return self.elementwise(node, args)
        labels = [a.dims for a in node.args]
        loops = tuple(self.rng.sample(sorted({la for dims in labels for la in dims}), len({*labels[0], *labels[-1]})))
        if node.kind == "reduce":
            return self.sums(node, args, labels, loops, node.op)
        return self.sums(node, args, labels, loops, "addf")

    # ---- ops ----

    def elementwise(self, node: Node, args: list[Held]) -> Held:
        shape = tuple(self.sizes[d] for d in node.dims)
        dialect = "math" if node.op in ("absf", "tanh") else "arith"
        if self.rng.random() < 0.4:
            tensors = iter([self.plain(h, node.dims).name for h in args])
            operands = [self.constant(a.number, shape) if a.kind == "constant" else next(tensors) for a in node.args]
            if node.op in _COMMUTATIVE and self.rng.random() < 0.5:
                operands.reverse()
            name = self.make(f"{dialect}.{node.op} {', '.join(operands)} : {_tensor(shape)}", shape)
            return self.reshaped(Held(name, shape, tuple(range(len(shape)))))
        arguments = iter([f"%in{i}" for i in range(len(args))])
        scalars = ["%c" if a.kind == "constant" else next(arguments) for a in node.args]
        body = [f"%c = arith.constant {a.number} : f32" for a in node.args if a.kind == "constant"]
        if node.op in _COMMUTATIVE and self.rng.random() < 0.5:
            scalars.reverse()
        body.append(f"%v = {dialect}.{node.op} {', '.join(scalars)} : f32")
        rank = len(shape)
        loops = self.rng.sample(range(rank), rank)
        maps = [[loops[a] for a in h.axes] for h in args]
        name = self.generic(args, maps, loops, shape, self.empty(shape), ["parallel"] * rank, body)
        return self.reshaped(Held(name, shape, tuple(range(rank))))

    def sums(
        self, node: Node, args: list[Held], labels: list[tuple[str, ...]], loops: tuple[str, ...], combiner: str
    ) -> Held:
        shape = tuple(self.sizes[d] for d in node.dims)
        start = {"addf": "0.0", "maximumf": "0xFF800000", "minimumf": "0x7F800000"}[combiner]
        name = self.fresh()
        self.lines.append(f"{name}c = arith.constant {start} : f32")
        fill = f"linalg.fill ins({name}c : f32) outs({self.empty(shape)} : {_tensor(shape)}) -> {_tensor(shape)}"
        self.lines.append(f"{name}z = {fill}")
        place = {label: i for i, label in enumerate(loops)}
        maps = [[place[dims[a]] for a in h.axes] for h, dims in zip(args, labels, strict=True)]
        body = ["%p = arith.mulf %in0, %in1 : f32"] if len(args) == 2 else []
        sides = ["%p" if body else "%in0", "%out"]
        self.rng.shuffle(sides)
        body.append(f"%v = arith.{combiner} {', '.join(sides)} : f32")
        kinds = ["parallel" if label in node.dims else "reduction" for label in loops]
        ranks = [place[d] for d in node.dims]
        made = self.generic(args, maps, ranks, shape, f"{name}z", kinds, body, [self.sizes[la] for la in loops])
        return self.reshaped(Held(made, shape, tuple(range(len(shape)))))

    def generic(
        self,
        args: list[Held],
        maps: list[list[int]],
        out: list[int],
        shape: tuple[int, ...],
        start: str,
        kinds: list[str],
        body: list[str],
        extents: list[int] | None = None,
    ) -> str:
        covered = {loop for at in (*maps, out) for loop in at}
        if len(covered) < len(kinds):  # a loop that no operand has needs one that says how long it is
            left = [i for i in range(len(kinds)) if i not in covered]
            assert extents is not None
            args = [*args, *(Held(self.empty((extents[i],)), (extents[i],), (0,)) for i in left)]
            maps = [*maps, *([i] for i in left)]
        dims = ", ".join(f"d{i}" for i in range(len(kinds)))
        spelled = ", ".join(f"affine_map<({dims}) -> ({', '.join(f'd{i}' for i in at)})>" for at in (*maps, out))
        iterators = ", ".join(f'"{k}"' for k in kinds)
        arguments = ", ".join([*(f"%in{i}: f32" for i in range(len(args))), "%out: f32"])
        ins = f"ins({', '.join(h.name for h in args)} : {', '.join(_tensor(h.shape) for h in args)}) " if args else ""
        return self.make(
            f"linalg.generic {{indexing_maps = [{spelled}], iterator_types = [{iterators}]}} {ins}"
            f"outs({start} : {_tensor(shape)}) {{\n  ^bb0({arguments}):\n    " + "\n    ".join(body) + "\n    "
            f"linalg.yield {'%v' if body else '%in0'} : f32 }} -> {_tensor(shape)}",
            shape,
        )

    # ---- views ----

    def maybe_plain(self, held: Held, node: Node) -> Held:
        return held if self.rng.random() < 0.5 else self.plain(held, node.dims)

    def plain(self, held: Held, dims: tuple[str, ...]) -> Held:
        """The value as a tensor of its own, with its axes in order."""
        rank = len(dims)
        if held.axes == tuple(range(rank)):
            return held
        shape = tuple(self.sizes[d] for d in dims)
        if sorted(held.axes) == list(range(rank)) and self.rng.random() < 0.5:
            operands = f"ins({held.name} : {_tensor(held.shape)}) outs({self.empty(shape)} : {_tensor(shape)})"
            name = self.make(f"linalg.transpose {operands} permutation = {np.argsort(held.axes).tolist()}", shape)
        else:
            kinds, order = ["parallel"] * rank, list(range(rank))
            name = self.generic([held], [list(held.axes)], order, shape, self.empty(shape), kinds, [])
        return Held(name, shape, tuple(range(rank)))

    def reshaped(self, held: Held) -> Held:
        """Sometimes through another shape and back."""
        rank, chance = len(held.shape), self.rng.random()
        if rank == 2 and chance < 0.15:
            flat = (held.shape[0] * held.shape[1],)
            types = f"{_tensor(held.shape)} into {_tensor(flat)}"
            name = self.make(f"tensor.collapse_shape {held.name} [[0, 1]] : {types}", flat)
            types = f"{_tensor(flat)} into {_tensor(held.shape)}"
            text = f"tensor.expand_shape {name} [[0, 1]] output_shape {list(held.shape)} : {types}"
            return replace(held, name=self.make(text, held.shape))
        if rank and chance > 0.85:
            units = (1, *held.shape)
            groups = [[0, 1], *([i] for i in range(2, rank + 1))]
            types = f"{_tensor(held.shape)} into {_tensor(units)}"
            name = self.make(f"tensor.expand_shape {held.name} {groups} output_shape {list(units)} : {types}", units)
            types = f"{_tensor(units)} into {_tensor(held.shape)}"
            return replace(held, name=self.make(f"tensor.collapse_shape {name} {groups} : {types}", held.shape))
        return held

    # ---- lines ----

    def fresh(self) -> str:
        self.count += 1
        return f"%t{self.count}"

    def make(self, text: str, shape: tuple[int, ...]) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        self.made.append((name, shape))
        return name

    def empty(self, shape: tuple[int, ...]) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = tensor.empty() : {_tensor(shape)}")
        return name

    def constant(self, number: float, shape: tuple[int, ...]) -> str:
        name = self.fresh()
        self.lines.append(f"{name} = arith.constant dense<{number}> : {_tensor(shape)}")
        return name


def _tensor(shape: tuple[int, ...]) -> str:
    return f"tensor<{''.join(f'{s}x' for s in shape)}f32>"


# ---- the test --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    name: str
    text: str
    pattern: str
    inputs: dict[str, tuple[int, ...]]
    wrong: bool


def case(seed: int) -> Case:
    rng = random.Random(seed)
    expressions = Expressions(rng)
    root = expressions.root()
    wrong = rng.random() < 0.6
    sizes = dict.fromkeys(_LABELS, 4) if wrong else dict(zip(_LABELS, rng.sample((3, 4, 5), 3), strict=True))
    speller = Speller(rng, sizes)
    text = speller.function(f"f{seed}", expressions.with_mistake(root) if wrong else root)
    return Case(f"f{seed}", text, pattern_text(root), speller.inputs, wrong)


@dataclass(frozen=True)
class Claim:
    """What the engine said of a case: which of the function's results the inputs and the root of a match are."""

    case: Case
    pattern: tree.Pattern
    inputs: dict[str, int | str]
    dims: dict[str, int]
    root: int


def claims_of(case: Case, session: Any) -> list[Claim]:
    from iree.compiler import ir

    module = ir.Module.parse(case.text, context=session.context)
    spec = load_text(case.pattern)
    pattern = spec.patterns["p"]
    found = engine.find(module, compile_pattern(spec, pattern.name))
    block = next(iter(module.body.operations)).regions[0].blocks[0]
    returned = list(block.operations[-1].operands)
    arguments = dict(zip(block.arguments, case.inputs, strict=True))
    claims = []
    for match in found.matches:
        values = {name: binding.value for name, binding in match.inputs.items()}
        if any(v not in arguments and v not in returned for v in values.values()):
            continue  # an empty tensor, whose elements nobody knows
        inputs = {n: arguments[v] if v in arguments else returned.index(v) for n, v in values.items()}
        claims.append(Claim(case, pattern, inputs, dict(match.dims), returned.index(match.roots[0])))
    return claims


SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-45, 3.4e38)


def some(numbers: np.random.Generator, shape: tuple[int, ...], special: bool = False) -> np.ndarray:
    """Random numbers, one in twelve of them special if asked for."""
    made = numbers.uniform(-2, 2, shape)
    if special:
        made = np.where(numbers.random(shape) < 1 / 12, numbers.choice(SPECIAL, shape), made)
    return made.astype(np.float32)


def computed(session: Any, text: str, name: str, inputs: Any, floats: Any = np.float64) -> list[np.ndarray]:
    """What a function computes, by the interpreter of programs."""
    from iree.compiler import ir

    return interpreter.evaluate(ir.Module.parse(text, context=session.context), name, list(inputs), floats)


@pytest.mark.parametrize("batch", range(examples(2, 60)))
def test_a_match_means_equal_numbers(session, batch):
    """The pattern's own interpreter and the program's, which knows nothing of patterns, both in f64."""
    cases = [case(1000 * batch + i) for i in range(150)]
    numbers = np.random.default_rng(batch)
    compared = 0
    for each in cases:
        claims = claims_of(each, session)
        assert claims or each.wrong, f"missed:\n{each.pattern}\n{each.text}"
        for special in (False, True) if claims else ():
            given = {n: some(numbers, s, special) for n, s in each.inputs.items()}
            made = computed(session, each.text, each.name, given.values())
            for claim in claims:
                bound = {n: given[at] if isinstance(at, str) else made[at] for n, at in claim.inputs.items()}
                with np.errstate(all="ignore"):
                    wanted = evaluate(claim.pattern, {n: np.float64(x) for n, x in bound.items()}, claim.dims)
                root = made[claim.root]
                told = f"{each.pattern}\n{each.text}"
                np.testing.assert_allclose(np.reshape(wanted, root.shape), root, rtol=1e-9, atol=1e-12, err_msg=told)
                compared += 1
    assert compared >= sum(not c.wrong for c in cases) >= 40, "the test compares something"


def test_the_interpreter_computes_what_iree_computes(session):
    import opsplice

    cases = [case(i) for i in range(15)]
    program = opsplice.compile("\n".join(c.text for c in cases), flags=["--iree-hal-target-backends=vmvx"])
    numbers = np.random.default_rng(0)
    for each in cases:
        given = [some(numbers, shape) for shape in each.inputs.values()]
        theirs = program.run(each.name, *given)
        ours = computed(session, each.text, each.name, given, floats=None)
        for got, wanted in zip(ours, theirs if isinstance(theirs, list) else [theirs], strict=True):
            np.testing.assert_allclose(got, np.asarray(wanted), rtol=1e-4, atol=1e-5, err_msg=each.text)


# ---- changes that change nothing -------------------------------------------------------------------------------------


def commuted(text: str, rng: random.Random) -> str:
    """Operands of commutative ops in another order."""

    def swapped(found: re.Match[str]) -> str:
        op, left, right = found.groups()
        return f"arith.{op} {right}, {left} :" if rng.random() < 0.5 else found[0]

    return re.sub(r"arith\.(addf|mulf|maximumf|minimumf) (%\w+), (%\w+) :", swapped, text)


def reordered(text: str, rng: random.Random) -> str:
    """Loops of generic ops in another order."""

    def line(found: re.Match[str]) -> str:
        kinds = re.search(r"iterator_types = \[(.*?)\]", found[0])
        assert kinds is not None
        names = kinds[1].split(", ")
        order = rng.sample(range(len(names)), len(names))
        dims = ", ".join(f"d{i}" for i in range(len(names)))
        spelled = found[0].replace(f"({dims}) ->", f"({', '.join(f'd{i}' for i in order)}) ->")
        return spelled.replace(kinds[0], f"iterator_types = [{', '.join(names[i] for i in order)}]")

    return re.sub(r"linalg\.generic .*", line, text)


def renamed(text: str, rng: random.Random) -> str:
    return re.sub(r"%t(\d+)", rf"%other{rng.randrange(100)}_\1", text)


def annotated(text: str, rng: random.Random) -> str:
    """Attributes that no dialect minds."""
    return re.sub(
        r"(= (?:arith|math)\.(?!constant)\w+ [^\n{]*?) : tensor", rf"\1 {{note.x = {rng.randrange(9)}}} : tensor", text
    )


def crowded(text: str, rng: random.Random) -> str:
    """Other ops around, and other uses of every value."""
    lines = []
    for line in text.split("\n"):
        made = re.match(r"  (%t\d+) = (?:arith|math)\.\w+ .* : (tensor<\S+>)$", line)
        lines.append(line)
        if made is not None and rng.random() < 0.5:
            lines.append(f"  {made[1]}extra = math.sin {made[1]} : {made[2]}")
    return "\n".join(lines)


@settings(max_examples=examples(60, 5000), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), change=st.sampled_from([commuted, reordered, renamed, annotated, crowded]))
def test_what_changes_nothing_changes_no_match(session, seed, change):
    original = case(seed)
    changed = replace(original, text=change(original.text, random.Random(seed + 1)))
    roots = [c.root for c in claims_of(original, session)]
    assert [c.root for c in claims_of(changed, session)] == roots, f"{original.pattern}\n{changed.text}"


@pytest.mark.parametrize("batch", range(examples(1, 20)))
def test_every_miss_can_be_told_and_telling_changes_nothing(session, batch):
    """The search with notes finds what the plain one finds, at every value of every program."""
    from iree.compiler import ir

    told = 0
    for each in (case(5000 + 1000 * batch + i) for i in range(60)):
        module = ir.Module.parse(each.text, context=session.context)
        spec = load_text(each.pattern)
        graphs = compile_pattern(spec, "p")
        before = [(m.roots, m.dims) for m in engine.find(module, graphs).matches]
        explainer = Explainer(spec.patterns)
        plain, noting = Views(), Views()
        block = next(iter(module.body.operations)).regions[0].blocks[0]
        for value in [r for op in block.operations for r in op.results]:
            for graph in graphs:
                search, tracer = Search(plain, graph, ""), Tracer(noting, graph, "")
                assert (search.run(value) is None) == (tracer.run(value) is None)
                assert search.steps == tracer.search.steps
                if search.furthest is not None:
                    assert tracer.search.furthest is not None
                    why = [(f.why, words(f), f.held) for f in (search.furthest, tracer.search.furthest)]
                    assert why[0] == why[1]
        for op in [op.operation for op in block.operations][:-1]:
            for attempt in explainer.at(graphs, [op]):
                told += 1
                assert attempt.reason.wanted
                assert attempt.reason.found
                assert sum(p.state is State.FAILED for p in attempt.parts) >= (attempt.reason.kind is not Kind.STEPS)
        assert [(m.roots, m.dims) for m in engine.find(module, graphs).matches] == before
    assert told > 100
