"""Programs with one thing changed: every change of a kind, at every place.

A mutant is the program's text and a number: `mutants(module)` names the changes in order, and `mutate(module, change)`
makes one in a module of the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from iree.compiler import ir

# Ops that take and give the same types.
_ALIKE = (
    ("arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.maximumf", "arith.minimumf", "arith.maxnumf"),
    ("arith.addi", "arith.subi", "arith.muli", "arith.maxsi", "arith.minsi", "arith.maxui", "arith.divsi"),
    ("arith.andi", "arith.ori", "arith.xori"),
    ("arith.shli", "arith.shrsi", "arith.shrui"),
    ("arith.extsi", "arith.extui"),
    ("arith.sitofp", "arith.uitofp"),
    ("arith.index_cast", "arith.index_castui"),
    ("arith.negf", "math.absf", "math.sqrt", "math.rsqrt"),
    ("math.exp", "math.exp2", "math.expm1", "math.log", "math.log1p", "math.log2"),
    ("math.tanh", "math.sinh", "math.erf", "math.sin", "math.cos"),
    ("math.floor", "math.ceil", "math.round", "math.roundeven", "math.trunc"),
)
_NARROW = {"f64": "f32", "f32": "bf16", "f16": "f8E5M2", "bf16": "f8E5M2", "i64": "i8", "i32": "i8", "index": "i8"}
_PREDICATES = {"arith.cmpf": 16, "arith.cmpi": 10}
_WHOLE = ir.ShapedType.get_dynamic_size()
# Attributes that say how an op is printed or optimised.
_IDLE = ("fastmath", "overflowFlags", "operandSegmentSizes", "sym_name", "linalg.memoized_indexing_maps")


@dataclass(frozen=True)
class Change:
    """One change: of the op with this number in the walk of the module. detail: which one of its kind."""

    op: int
    kind: str
    detail: tuple[Any, ...]
    told: str

    def __str__(self) -> str:
        return f"{self.kind} of {self.told}: {self.detail}"


def ops_of(module: ir.Module) -> list[ir.Operation]:
    """Every op, in the order of the walk."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def changes(module: ir.Module) -> list[Change]:
    """Every change that can be made in a module, most of which do not verify."""
    made = []
    for number, op in enumerate(ops_of(module)):
        if op.name.split(".")[0] in ("builtin", "hal", "cf") or op.name.endswith((".func", ".return", "global")):
            continue
        for kind, detail in _of(op):
            made.append(Change(number, kind, detail, op.name))
    return made


def _of(op: ir.Operation) -> Iterator[tuple[str, tuple[Any, ...]]]:
    kinds = [operand.type for operand in op.operands]
    for i in range(len(kinds)):
        for j in range(i):
            if kinds[i] == kinds[j] and op.operands[i] != op.operands[j]:
                yield "order", (j, i)
    for i, kind in enumerate(kinds):
        for number in range(min(2, len(_others(op, i)))):
            yield "operand", (i, number)
        if str(kind) in _NARROW and not op.name.endswith("yield"):
            yield "cast", (i,)
        if isinstance(kind, ir.RankedTensorType) and str(kind.element_type) in _NARROW and op.name.startswith("linalg"):
            yield "cast", (i,)
    for group in _ALIKE:
        if op.name in group:
            yield from (("op", (name,)) for name in group if name != op.name)
    if op.name == "arith.constant":
        yield from (("constant", (how,)) for how in ("bit", "sign", "twice", "zero", "lowest", "infinite"))
    if op.name in _PREDICATES:
        yield from (("predicate", (number,)) for number in range(_PREDICATES[op.name]))
    for name in _names(op):
        if name == "indexing_maps":
            yield from (("map", detail) for detail in _of_maps(op))
        elif name == "iterator_types":
            yield from (("iterator", (i,)) for i in range(len(op.attributes[name])))
        elif name not in _IDLE and (op.name not in _PREDICATES or name != "predicate") and name != "value":
            count = len(_integers(op.attributes[name]) or ())
            yield from (("attribute", (name, i, by)) for i in range(count) for by in (1, -1))


def _names(op: ir.Operation) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in op.attributes]


def _of_maps(op: ir.Operation) -> Iterator[tuple[Any, ...]]:
    for number, attribute in enumerate(op.attributes["indexing_maps"]):
        indexing = ir.AffineMapAttr(attribute).value
        count = len(indexing.results)
        for i in range(count):
            yield from (("swap", number, j, i) for j in range(i))
            yield from (("dim", number, i, dim) for dim in range(indexing.n_dims))
            yield ("zero", number, i)


def _others(op: ir.Operation, position: int) -> list[ir.Value]:
    """Values of the operand's type (for `tensor.dim`, of any) that stand before the op, nearest first."""
    operand = op.operands[position]
    found: list[ir.Value] = []
    block = op.block
    above = []
    for each in block.operations:
        if each.operation == op:
            break
        above.append(each.operation)
    for value in [*(r for each in reversed(above) for r in each.results), *block.arguments]:
        is_alike = value.type == operand.type
        if op.name == "tensor.dim" and position == 0:
            is_alike = isinstance(value.type, ir.RankedTensorType)
        if is_alike and value != operand and value not in found:
            found.append(value)
    return found


def _integers(attribute: ir.Attribute) -> list[int] | None:
    """The numbers of an attribute of integers, or None for any other."""
    if isinstance(attribute, ir.IntegerAttr):
        return [attribute.value]
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    if isinstance(attribute, ir.DenseIntElementsAttr):
        return [int(each) for each in attribute]
    return None


def mutate(module: ir.Module, change: Change) -> bool:
    """Make a change in a module. Returns whether the program is still one that verifies."""
    op = ops_of(module)[change.op]
    try:
        with module.context, ir.Location.unknown():
            _CHANGERS[change.kind](op, *change.detail)
            return module.operation.verify()
    except (ir.MLIRError, ValueError, TypeError):
        return False


def _order(op: ir.Operation, i: int, j: int) -> None:
    first, second = op.operands[i], op.operands[j]
    op.operands[i], op.operands[j] = second, first


def _operand(op: ir.Operation, position: int, number: int) -> None:
    op.operands[position] = _others(op, position)[number]


def _cast(op: ir.Operation, position: int) -> None:
    """Round an operand: to a narrower type and back."""
    value = op.operands[position]
    kind = value.type
    element = kind.element_type if isinstance(kind, ir.RankedTensorType) else kind
    narrow = ir.Type.parse(_NARROW[str(element)])
    there, back = "arith.trunci", "arith.extsi"
    if isinstance(element, ir.FloatType):
        there, back = "arith.truncf", "arith.extf"
    if isinstance(element, ir.IndexType):
        there = back = "arith.index_cast"
    between = ir.RankedTensorType.get(kind.shape, narrow) if element != kind else narrow
    at = ir.InsertionPoint(op)
    less = ir.Operation.create(there, results=[between], operands=[value], ip=at)
    op.operands[position] = ir.Operation.create(back, results=[kind], operands=[less.result], ip=at).result


def _op(op: ir.Operation, name: str) -> None:
    attributes = {each: op.attributes[each] for each in _names(op) if each not in ("overflowFlags", "fastmath")}
    kinds = [result.type for result in op.results]
    made = ir.Operation.create(name, kinds, list(op.operands), attributes, ip=ir.InsertionPoint(op))
    op.result.replace_all_uses_with(made.result)
    op.erase()


def _constant(op: ir.Operation, how: str) -> None:
    attribute = op.attributes["value"]
    splat = attribute
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            raise ValueError("not one number")
        splat = attribute.get_splat_value()
    value = _changed(splat.value, how, str(splat.type))
    changed = ir.BoolAttr.get(value) if isinstance(splat, ir.BoolAttr) else type(splat).get(splat.type, value)
    is_dense = isinstance(attribute, ir.DenseElementsAttr)
    op.attributes["value"] = ir.DenseElementsAttr.get_splat(attribute.type, changed) if is_dense else changed


def _changed(value: Any, how: str, element: str) -> Any:
    if how == "zero":
        changed = type(value)(0)
    elif how in ("lowest", "infinite"):
        if not isinstance(value, float):
            raise ValueError("no float")
        changed = -65504.0 if how == "lowest" else -math.inf
    elif how == "sign":
        changed = not value if isinstance(value, bool) else -value
    elif how == "twice":
        changed = value * 2 if value else type(value)(1)
    elif isinstance(value, float):
        changed = _next(value, element)
    else:
        changed = value + 1
    same = changed == value and math.copysign(1, changed) == math.copysign(1, value)
    if same or isinstance(changed, bool) is not isinstance(value, bool):
        raise ValueError("it changes nothing")
    return changed


def _next(value: float, element: str) -> float:
    """The next number of the type; of numbers that no type holds the one after the next but one.

    Patterns let such a number pass within a unit, since programs compute it.
    """
    steps = 1 if float(f"{value:.6g}") == value else 4
    if element == "f32":
        number = np.float32(value)
        for _ in range(steps):
            number = np.nextafter(number, np.float32(np.inf if value < 1e30 else -np.inf))
        return float(number)
    return value * (1 + steps * {"f64": 2**-52, "f16": 2**-10, "bf16": 2**-7}.get(element, 1.0)) or 2.0**-20


def _predicate(op: ir.Operation, number: int) -> None:
    attribute = ir.IntegerAttr(op.attributes["predicate"])
    if attribute.value == number:
        raise ValueError("it changes nothing")
    op.attributes["predicate"] = ir.IntegerAttr.get(attribute.type, number)


def _attribute(op: ir.Operation, name: str, position: int, by: int) -> None:
    attribute = op.attributes[name]
    numbers = _integers(attribute)
    assert numbers is not None
    if numbers[position] == _WHOLE:
        raise ValueError("known at run time only")
    numbers[position] += by
    if isinstance(attribute, ir.IntegerAttr):
        op.attributes[name] = ir.IntegerAttr.get(attribute.type, numbers[0])
    elif isinstance(attribute, ir.DenseI64ArrayAttr):
        if "permutation" in name:  # another permutation, not another number
            other = (position + by) % len(numbers)
            numbers = list(attribute)
            numbers[position], numbers[other] = numbers[other], numbers[position]
        op.attributes[name] = ir.DenseI64ArrayAttr.get(numbers)
    else:
        elements = [ir.IntegerAttr.get(attribute.type.element_type, number) for number in numbers]
        op.attributes[name] = ir.DenseElementsAttr.get(elements, attribute.type)


def _iterator(op: ir.Operation, position: int) -> None:
    kinds = list(op.attributes["iterator_types"])
    text = str(kinds[position])
    is_parallel = "parallel" in text
    text = text.replace("parallel", "reduction") if is_parallel else text.replace("reduction", "parallel")
    kinds[position] = ir.Attribute.parse(text)
    op.attributes["iterator_types"] = ir.ArrayAttr.get(kinds)


def _map(op: ir.Operation, how: str, number: int, position: int, other: int = 0) -> None:
    maps = [ir.AffineMapAttr(each).value for each in op.attributes["indexing_maps"]]
    indexing = maps[number]
    results = list(indexing.results)
    if how == "swap":
        results[position], results[other] = results[other], results[position]
    else:
        results[position] = ir.AffineDimExpr.get(other) if how == "dim" else ir.AffineConstantExpr.get(0)
    made = ir.AffineMap.get(indexing.n_dims, indexing.n_symbols, results)
    if made == indexing:
        raise ValueError("it changes nothing")
    maps[number] = made
    op.attributes["indexing_maps"] = ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps])


_CHANGERS = {
    "order": _order,
    "operand": _operand,
    "cast": _cast,
    "op": _op,
    "constant": _constant,
    "predicate": _predicate,
    "attribute": _attribute,
    "iterator": _iterator,
    "map": _map,
}
