"""What names mean inside one pattern of a graph: values, dims and element types, and what conditions say of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from opsplice.matchers.patterns.nodes import Label, Node, Number
from opsplice.matchers.terms.attributes import attribute_text
from opsplice.matchers.terms.terms import Constant
from opsplice.spec_lang.syntax import tree, vocabulary

_Dims = TypeVar("_Dims", bound="tree.Condition | tree.DimExpr")
Maker = Callable[[tuple[Label, ...]], Node]

# What a contraction multiplies, adds and widens its operands with.
PRODUCTS = {
    "float": ("arith.mulf", "arith.addf", "arith.extf"),
    "int": ("arith.muli", "arith.addi", "arith.extsi"),
}


@dataclass(frozen=True, eq=False)
class Scope:
    """What names mean inside one pattern.

    values: for each name a function from labels to the node at them. dims, elements: the names that the graph has for
    the pattern's own dims and type variables; prefix: what it puts before others. within: the name of the `Named` that
    is the pattern, for one with a condition that only an alternative uses. packs: the dims that a pack of the pattern
    stands for where its arguments are of types that say more.
    """

    pattern: tree.Pattern
    prefix: str
    within: str
    values: dict[str, Maker]
    dims: Mapping[str, str]
    elements: Mapping[str, str]
    packs: Mapping[str, tuple[tree.Dim, ...]]

    def expanded(self, dims: tuple[tree.Dim, ...]) -> tuple[tree.Dim, ...]:
        """Dims of a type of the pattern, with those that its packs stand for."""
        return tuple(each for dim in dims for each in self.packs.get(dim.pack or "", (dim,)))

    def element(self, kind: tree.Type | None) -> str:
        name = "" if kind is None else kind.element.name
        return self.elements.get(name, name)


def renamed(node: _Dims, scope: Scope) -> _Dims:
    """A comparison or dim arithmetic with a pattern's own names as the graph has them."""
    return tree.rebuilt(node, partial(_renamed_part, scope))


def _renamed_part(scope: Scope, node: object) -> object:
    if isinstance(node, tree.DimRef):
        return dataclasses.replace(node, name=scope.dims.get(node.name, scope.prefix + node.name))
    if isinstance(node, tree.Property):
        names = scope.dims if node.kind == "rank" else scope.elements
        name = names.get(node.name, node.name)
        width = vocabulary.bits(name) if node.kind == "bits" else None
        return dataclasses.replace(node, name=name) if width is None else tree.Literal(node.span, width)
    return node


def scoped(attribute: tree.Attribute, prefix: str) -> tree.Attribute:
    value = attribute.value

    def bound(item: tree.Bound) -> tree.Bound:
        return item if item.name is None else tree.Bound(prefix + item.name)

    if isinstance(value, tree.Bound):
        value = bound(value)
    elif isinstance(value, tuple):
        value = tuple(bound(item) if isinstance(item, tree.Bound) else item for item in value)
    return dataclasses.replace(attribute, value=value)


def asked_values(condition: tree.Condition) -> set[str]:
    """The values of a pattern that its condition asks about."""
    kinds = (tree.Is, tree.Predicate)
    parts = (part for part in tree.parts(condition) if isinstance(part, kinds))
    return {part.value for part in parts if isinstance(part, tree.Is) or part.name not in tree.OF_THE_ROOT}


def type_of(name: str, pattern: tree.Pattern) -> tree.Type | None:
    return next((p.type for p in pattern.parameters if p.name == name), None)


def is_rearranged(
    expr: tree.Expr, pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], result: int = 0
) -> bool:
    """Whether a result of an expression is a transpose or a broadcast of what an op makes, so a view in a program."""
    if isinstance(expr, tree.Name):
        let = next(let for let in pattern.body if expr.name in let.names)
        return is_rearranged(let.expr, pattern, patterns, let.names.index(expr.name))
    if isinstance(expr, tree.Setting):
        return is_rearranged(expr.arg, pattern, patterns)
    if isinstance(expr, tree.Alternatives):
        return any(is_rearranged(option, pattern, patterns) for option in expr.options)
    if not isinstance(expr, tree.Call):
        return isinstance(expr, tree.Rearrange)
    if expr.optional and is_rearranged(expr.args[0], pattern, patterns):
        return True
    used = None if expr.quoted else patterns.get(expr.callee)
    return used is not None and is_rearranged(used.results[result], used, patterns)


def attributes_of(op: vocabulary.Op, expr: tree.Call) -> tuple[tuple[str, str], ...]:
    """The attributes of an elementwise op, as the IR has them."""
    found = []
    for attribute in sorted(expr.attributes, key=lambda a: a.name):
        assert attribute.value is not None, "attributes of elementwise ops are compared"
        value = attribute_text(attribute.value)
        if attribute.name == "predicate" and value in op.predicates:
            value = str(op.predicates.index(value))  # the IR keeps a predicate as a number
        found.append((attribute.name, value))
    return tuple(found)


def are_two(args: tuple[tree.Expr, ...]) -> bool:
    """Whether there are two operands, and not one value twice."""
    names = {arg.name if isinstance(arg, tree.Name) else arg for arg in args}
    return len(args) == len(names) == 2


def families(element: str, variables: Mapping[str, tuple[str, ...]]) -> set[str]:
    """Whether elements of a type, or of what a type variable may be, are floats or integers; neither for no type."""
    if not element:
        return set()
    names = variables.get(element, (element,))
    return {"float" if vocabulary.is_float(name) else "int" for name in names} or {"float", "int"}


def resolved(node: Node, *, as_number: bool = False) -> Node | Constant:
    """A literal number of the pattern, in the shape in which `canonical` asks for it."""
    if isinstance(node, Number) and node.high is None and isinstance(node.low, tree.Literal):
        return Constant(node.low.value, "")
    return node
