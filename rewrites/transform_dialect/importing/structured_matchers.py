"""Matchers of one structured op as templates: the op that they look for, written out, so that it is read as those are.

A matcher has results for the sizes of its kinds of dims, such as m, n and k. Which loops these are is told by the
indexing maps: which operands have them, and how.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.spec_lang.syntax import vocabulary

# Where a size is: (argument, axis), the result's for argument -1; or the size itself.
Place = tuple[int, int] | int


@dataclass(frozen=True)
class Structured:
    """The template's function, and for each result of the matcher that stands for sizes where these are.

    roots: what it makes, each another spelling. by_name: whether the op is looked for by its name. any_type: the
    arguments of which the element type is not looked at.
    """

    module: ir.Module
    dims: tuple[tuple[Place, ...], ...]
    by_name: bool = False
    any_type: tuple[int, ...] = ()

    @property
    def block(self) -> ir.Block:
        return self.module.body.operations[0].operation.regions[0].blocks[0]

    @property
    def roots(self) -> tuple[ir.Value, ...]:
        returned = tuple(last_op(self.block).operands)
        return returned[:1] if self.by_name else returned


# How the operands and the result are read along the loops of each kind that a matcher tells the sizes of, in the order
# of its results: 0 not at all, 1 as they are, 2 in a sum with other loops, None in any way.
_CONTRACTED = ((1, 1, 1), (1, 0, 1), (0, 1, 1), (1, 1, 0))  # batch, m, n, k
# batch, output image, output channel, filter, input channel, depth
_CONVOLVED = ((1, 0, 1), (2, None, 1), (0, 1, 1), (2, 1, 0), (1, 1, 0), (1, 1, 1))
_ATTENDED = ((1, 1, 1, 1), (1, 0, None, 1), (None, 0, 1, 1), (1, 1, None, 0), (None, 1, 1, 0))  # batch, m, n, k1, k2
_Kinds: TypeAlias = tuple[tuple[int | None, ...], ...]


def contraction(op: ir.Operation) -> Structured:
    """The template of a `transform.iree.match.contraction`."""
    maps = _maps(op)
    return Structured(ir.Module.parse(_product(op, maps)), _sized(maps, _CONTRACTED))


def convolution(op: ir.Operation) -> Structured:
    """The template of a `transform.iree.match.convolution`, which tells strides and dilations besides."""
    maps = _maps(op)
    module = ir.Module.parse(_product(op, maps))
    _, places, _, window, *_ = found = _loops(maps, _CONVOLVED)
    moves = (tuple(maps[0].summed[loop] for loop in each) for each in (places, window))
    return Structured(module, (*(_places(maps, each) for each in found), *moves))


def attention(op: ir.Operation, name: str = "attention", results: int = 1) -> Structured:
    """The template of a `transform.iree.match.attention`; of the online one, a maximum and a sum for each row, too."""
    maps = _maps(op)
    module = ir.Module.parse(_attention(op, maps, name, results))
    given = len(maps) - results
    sizes = _sized([*maps[:3], maps[given]], _ATTENDED)
    return Structured(module, sizes, by_name=True, any_type=(4,) * (given == 5))


MATCHERS: Mapping[str, Callable[[ir.Operation], Structured]] = {
    "transform.iree.match.contraction": contraction,
    "transform.iree.match.convolution": convolution,
    "transform.iree.match.attention": attention,
    "transform.iree.match.online_attention": partial(attention, name="online_attention", results=3),
}


class _Map:
    """An indexing map: the loop, or the factors of loops, that each dim is read at."""

    def __init__(self, op: ir.Operation, attribute: ir.Attribute) -> None:
        self.text = str(attribute)
        value = ir.AffineMapAttr(attribute).value
        self.count = value.n_dims
        self.terms = [_terms(op, e) for e in value.results]
        self.plain = {terms[0][1]: axis for axis, terms in enumerate(self.terms) if len(terms) == 1}
        self.summed = {loop: factor for terms in self.terms if len(terms) > 1 for factor, loop in terms}

    def way(self, loop: int) -> int:
        """How it is read along a loop, as the tables above say it."""
        return 1 if loop in self.plain else 2 if loop in self.summed else 0


def _terms(op: ir.Operation, read: ir.AffineExpr) -> list[tuple[int, int]]:
    """Where an operand is read along a dim: the sum of factors times loops."""
    if isinstance(read, ir.AffineAddExpr):
        return [*_terms(op, read.lhs), *_terms(op, read.rhs)]
    if isinstance(read, ir.AffineDimExpr):
        return [(1, read.position)]
    if isinstance(read, ir.AffineMulExpr) and isinstance(read.lhs, ir.AffineDimExpr):
        factor = read.rhs
        if isinstance(factor, ir.AffineConstantExpr):
            return [(factor.value, read.lhs.position)]
    raise UnreadableError(op, "an indexing map that is more than sums of loops")


def _maps(op: ir.Operation) -> list[_Map]:
    if "indexing_maps" not in op.attributes:
        raise UnreadableError(op, "without indexing maps: a pattern names each dim, so add `indexing_maps = [...]`")
    return [_Map(op, each) for each in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _loops(maps: Sequence[_Map], kinds: _Kinds) -> list[list[int]]:
    """The loops of each kind."""

    def fits(loop: int, kind: Sequence[int | None]) -> bool:
        return all(way is None or each.way(loop) == way for each, way in zip(maps, kind, strict=True))

    return [[loop for loop in range(maps[-1].count) if fits(loop, kind)] for kind in kinds]


def _places(maps: Sequence[_Map], loops: Sequence[int]) -> tuple[Place, ...]:
    """Where sizes are: in an input, or for what no input has as it is, in the result."""
    found: list[Place] = []
    for loop in loops:
        argument = next((n for n, each in enumerate(maps[:-1]) if loop in each.plain), -1)
        found.append((argument, maps[argument].plain[loop]))
    return tuple(found)


def _sized(maps: Sequence[_Map], kinds: _Kinds) -> tuple[tuple[Place, ...], ...]:
    return tuple(_places(maps, each) for each in _loops(maps, kinds))


# ---- the op as text ----------------------------------------------------------------------------------------------


def _types(op: ir.Operation, *names: str) -> list[str]:
    return [str(ir.TypeAttr(op.attributes[name]).value) for name in names]


def _tensor(shape: _Map, element: str) -> str:
    return f"tensor<{'?x' * len(shape.terms)}{element}>"


def _product(op: ir.Operation, maps: Sequence[_Map]) -> str:
    """A sum of products that starts from anything; of integers that are widened, with their signs or without."""
    elements = _types(op, "lhs_type", "rhs_type", "output_type")
    if len(maps) != 3:
        raise UnreadableError(op, f"{len(maps)} indexing maps, where a product has 3")
    kinds = [_tensor(each, element) for each, element in zip(maps, elements, strict=True)]
    out = elements[2]
    is_float = vocabulary.is_float(out)
    iterators = ", ".join('"parallel"' if loop in maps[2].plain else '"reduction"' for loop in range(maps[2].count))
    times, plus = ("mulf", "addf") if is_float else ("muli", "addi")
    is_widened = not is_float and elements[0] == elements[1] != out
    signs = itertools.product(("extsi", "extui"), repeat=2) if is_widened else [("extf" if is_float else "extsi",) * 2]
    lines = []
    for number, casts in enumerate(signs):
        widened = [
            f"%{name}w = arith.{cast} %{name} : {element} to {out}" if element != out else ""
            for name, element, cast in zip("ab", elements, casts, strict=False)
        ]
        left, right = (f"%{name}{'w' * bool(line)}" for name, line in zip("ab", widened, strict=True))
        lines.append(f"""
      %result{number} = linalg.generic {{indexing_maps = [{", ".join(each.text for each in maps)}],
          iterator_types = [{iterators}]}}
          ins(%lhs, %rhs : {kinds[0]}, {kinds[1]}) outs(%start : {kinds[2]}) {{
      ^bb0(%a: {elements[0]}, %b: {elements[1]}, %o: {out}):
        {chr(10).join(widened)}
        %product = arith.{times} {left}, {right} : {out}
        %sum = arith.{plus} %o, %product : {out}
        linalg.yield %sum : {out}
      }} -> {kinds[2]}""")
    results = ", ".join(f"%result{number}" for number in range(len(lines)))
    made = ", ".join([kinds[2]] * len(lines))
    return f"""
    util.func private @product(%lhs: {kinds[0]}, %rhs: {kinds[1]}, %start: {kinds[2]}) -> ({made}) {{
      {"".join(lines)}
      util.return {results} : {made}
    }}
    """


def _attention(op: ir.Operation, maps: Sequence[_Map], name: str, results: int) -> str:
    """An attention of some name that makes its result and, where there are more, values for each row."""
    given = len(maps) - results
    if given not in (4, 5):
        why = f"{len(maps)} indexing maps, where it has {4 + results}, or {5 + results} with a mask"
        raise UnreadableError(op, why)
    elements = _types(op, "query_type", "key_type", "value_type")
    elements += _types(op, "scale_type") if "scale_type" in op.attributes else elements[:1]
    elements += ["i1"] * (given - 4) + _types(op, *("output_type", "max_type", "sum_type")[:results])
    kinds = [_tensor(each, element) if each.terms else element for each, element in zip(maps, elements, strict=True)]
    names = [f"%x{number}" for number in range(len(kinds))]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    ins, outs = (", ".join(names[:given]), ", ".join(kinds[:given])), ", ".join(kinds[given:])
    return f"""
    util.func private @attention({arguments}) -> ({outs}) {{
      %result:{results} = iree_linalg_ext.{name} <indexing_maps = [{", ".join(each.text for each in maps)}]>
          ins({ins[0]} : {ins[1]}) outs({", ".join(names[given:])} : {outs}) {{
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
      }} -> {outs}
      util.return {", ".join(f"%result#{number}" for number in range(results))} : {outs}
    }}
    """
