"""A contraction matcher as a template: the op that it looks for, written out, so that it is read as templates are."""

from __future__ import annotations

from dataclasses import dataclass

from iree.compiler import ir

from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.spec_lang import ops


@dataclass(frozen=True)
class Contraction:
    """The template's function, and for each of batch, m, n and k where its dims are: (argument, axis)."""

    module: ir.Module
    block: ir.Block
    dims: tuple[tuple[tuple[int, int], ...], ...]


def contraction(op: ir.Operation) -> Contraction:
    """The template of a `transform.iree.match.contraction`. Raises UnreadableError for one without indexing maps."""
    if "indexing_maps" not in op.attributes:
        raise UnreadableError(op, "a contraction without indexing maps, which may be of any shape")
    attributes = list(ir.ArrayAttr(op.attributes["indexing_maps"]))
    maps = [ir.AffineMapAttr(a).value for a in attributes]
    if not all(isinstance(e, ir.AffineDimExpr) for m in maps for e in m.results):
        raise UnreadableError(op, "an indexing map that is more than a choice of loops")
    positions = [[e.position for e in m.results] for m in maps]
    lhs, rhs, out = (str(ir.TypeAttr(op.attributes[n]).value) for n in ("lhs_type", "rhs_type", "output_type"))
    module = ir.Module.parse(_text(attributes, positions, (lhs, rhs, out), maps[0].n_dims))
    return Contraction(module, module.body.operations[0].operation.regions[0].blocks[0], _dims(positions))


def _dims(positions: list[list[int]]) -> tuple[tuple[tuple[int, int], ...], ...]:
    left, right, out = positions
    loops = sorted({*left, *right, *out})
    kinds = ((True, True, True), (True, False, True), (False, True, True), (True, True, False))
    return tuple(
        tuple(
            (0, left.index(loop)) if loop in left else (1, right.index(loop))
            for loop in loops
            if (loop in left, loop in right, loop in out) == kind
        )
        for kind in kinds
    )


def _text(maps: list[ir.Attribute], positions: list[list[int]], elements: tuple[str, str, str], loops: int) -> str:
    kinds = [f"tensor<{'?x' * len(p)}{element}>" for p, element in zip(positions, elements, strict=True)]
    out = elements[2]
    is_float = ops.is_float(out)
    sizes = ["%n" for _ in positions[2]]
    iterators = ", ".join('"parallel"' if i in positions[2] else '"reduction"' for i in range(loops))
    times, plus, extend = ("mulf", "addf", "extf") if is_float else ("muli", "addi", "extsi")
    lines, factors = [], []
    for name, element in zip(("%a", "%b"), elements, strict=False):
        factors.append(name if element == out else f"{name}w")
        lines += [f"{name}w = arith.{extend} {name} : {element} to {out}"] * (element != out)
    return f"""
    util.func private @contraction(%lhs: {kinds[0]}, %rhs: {kinds[1]}, %n: index) -> {kinds[2]} {{
      %zero = arith.constant {"0.0" if is_float else "0"} : {out}
      %empty = tensor.empty({", ".join(sizes)}) : {kinds[2]}
      %start = linalg.fill ins(%zero : {out}) outs(%empty : {kinds[2]}) -> {kinds[2]}
      %result = linalg.generic {{indexing_maps = [{", ".join(map(str, maps))}], iterator_types = [{iterators}]}}
          ins(%lhs, %rhs : {kinds[0]}, {kinds[1]}) outs(%start : {kinds[2]}) {{
      ^bb0(%a: {elements[0]}, %b: {elements[1]}, %o: {out}):
        {chr(10).join(lines)}
        %product = arith.{times} {factors[0]}, {factors[1]} : {out}
        %sum = arith.{plus} %o, %product : {out}
        linalg.yield %sum : {out}
      }} -> {kinds[2]}
      util.return %result : {kinds[2]}
    }}
    """
