"""The pattern graph: a pattern of the language as the term that it looks for.

`compile_pattern` turns a checked pattern into one or two graphs (two when an element type may be an integer or a float,
which changes the ops of a contraction). Its nodes are the terms of `matchers.terms` with labels for indices, and three
leaves of their own: `Input`, `Number` and `Whole`. It knows nothing of payloads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opsplice.matchers.canonical import canonical
from opsplice.matchers.terms import Apply, Constant, Reduce
from opsplice.spec_lang import ops, tree

_EXTENSIONS = {"float": "arith.extf", "int": "arith.extsi"}
_PRODUCTS = {"float": ("arith.mulf", "arith.addf"), "int": ("arith.muli", "arith.addi")}


@dataclass(frozen=True)
class Label:
    """An index of a pattern. A pack stands for any number of indices."""

    id: int
    name: str
    pack: bool = False


@dataclass(frozen=True)
class Input:
    """The element of a parameter at some labels; a scalar parameter has none."""

    name: str
    labels: tuple[Label, ...]


@dataclass(frozen=True)
class Number:
    """A constant, or a range of constants with `high`."""

    low: tree.DimExpr
    high: tree.DimExpr | None = None


@dataclass(frozen=True)
class Whole:
    """The element at `labels` (None: unknown rank) of what an op makes of whole tensors."""

    op: str
    operands: tuple[Result, ...]
    attributes: tuple[tree.Attribute, ...]
    labels: tuple[Label, ...] | None


@dataclass(frozen=True)
class Result:
    """A node together with the labels of the tensor that it is the element of; None for an unknown rank."""

    node: Node
    labels: tuple[Label, ...] | None


Node = Input | Number | Whole | Apply | Reduce


@dataclass(frozen=True, eq=False)
class Graph:
    """A pattern, compiled. `spans` says where in the spec each node was written, by the node's id."""

    pattern: tree.Pattern
    results: tuple[Result, ...]
    spans: Mapping[int, tree.Span]


def compile_pattern(
    pattern: tree.Pattern,
    patterns: Mapping[str, tree.Pattern],
    types: Mapping[tree.Expr, tree.Type | None],
) -> tuple[Graph, ...]:
    """The graphs of a checked pattern. `patterns` are those that it may use by name, `types` the checker's."""
    graphs = []
    for family in ("float", "int"):
        builder = _Builder(patterns, types, family)
        graphs.append(builder.build(pattern))
        if not builder.ambiguous:
            break
    return tuple(graphs)


Maker = Callable[[tuple[Label, ...] | None], Node]


@dataclass
class _Scope:
    """What names mean inside one pattern: each a function from labels to the node at them."""

    pattern: tree.Pattern
    names: dict[str, Maker]
    dims: frozenset[str]


class _Builder:
    def __init__(
        self,
        patterns: Mapping[str, tree.Pattern],
        types: Mapping[tree.Expr, tree.Type | None],
        family: str,
    ) -> None:
        self.patterns = patterns
        self.types = types
        self.family = family
        self.ambiguous = False
        self.spans: dict[int, tree.Span] = {}
        self.fresh = 0
        self.memo: dict[tuple[int, int, tuple[Label, ...] | None], Node] = {}
        self.scopes: list[_Scope] = []  # memo keys hold ids of scopes: keep them alive

    def build(self, pattern: tree.Pattern) -> Graph:
        names: dict[str, Maker] = {}
        for parameter in pattern.parameters:
            names[parameter.name] = self._input(parameter)
        scope = self._scope(pattern, names)
        results = []
        for expr in pattern.results:
            labels = self._labels_of(self.types.get(expr))
            results.append(Result(self._lower(expr, labels, scope), labels))
        return Graph(pattern, tuple(results), self.spans)

    # ---- labels ---------------------------------------------------------------------------------------------------

    def _label(self, name: str, pack: bool = False) -> Label:
        self.fresh += 1
        return Label(self.fresh, name, pack)

    def _labels_of(self, kind: tree.Type | None) -> tuple[Label, ...] | None:
        if kind is None:
            return None
        if isinstance(kind, tree.ScalarType):
            return ()
        return tuple(self._label(str(d.name or d), d.pack is not None) for d in kind.dims)

    # ---- names ----------------------------------------------------------------------------------------------------

    def _input(self, parameter: tree.Parameter) -> Maker:
        def make(labels: tuple[Label, ...] | None) -> Node:
            return Input(parameter.name, labels or ())

        return make

    def _scope(self, pattern: tree.Pattern, names: dict[str, Maker]) -> _Scope:
        dims = frozenset(
            d.name for p in pattern.parameters if isinstance(p.type, tree.TensorType) for d in p.type.dims if d.name
        )
        scope = _Scope(pattern, names, dims)
        self.scopes.append(scope)
        for let in pattern.body:
            for position, name in enumerate(let.names):
                names[name] = self._let(let, position, scope)
        return scope

    def _let(self, let: tree.Let, position: int, scope: _Scope) -> Maker:
        def make(labels: tuple[Label, ...] | None) -> Node:
            if len(let.names) == 1:
                return self._lower(let.expr, labels, scope)
            assert isinstance(let.expr, tree.Call)
            return self._inlined(let.expr, position, labels, scope)

        return make

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _lower(self, expr: tree.Expr, labels: tuple[Label, ...] | None, scope: _Scope) -> Node:
        key = (id(scope), id(expr), labels)
        if key not in self.memo:
            node = self._lowered(expr, labels, scope)
            self.memo[key] = node
            self.spans.setdefault(id(node), expr.span)
        return self.memo[key]

    def _lowered(self, expr: tree.Expr, labels: tuple[Label, ...] | None, scope: _Scope) -> Node:
        if isinstance(expr, tree.Name):
            if expr.name in scope.dims:
                return Number(tree.DimRef(expr.span, expr.name))
            return scope.names[expr.name](labels)
        if isinstance(expr, tree.Constant):
            return Number(expr.value, expr.high)
        if isinstance(expr, tree.Call):
            return self._call(expr, labels, scope)
        if isinstance(expr, tree.Contract):
            return self._contract(expr, labels, scope)
        if isinstance(expr, tree.Reduce):
            bound, new = self._bind(expr.subscripts, labels)
            body = self._lower(expr.arg, bound[0], scope)
            return Reduce(_full_name(expr.combiner), new, body)
        bound, _ = self._bind(expr.subscripts, labels)
        return self._lower(expr.arg, bound[0], scope)

    def _call(self, expr: tree.Call, labels: tuple[Label, ...] | None, scope: _Scope) -> Node:
        if not expr.quoted and expr.callee in self.patterns:
            return self._inlined(expr, 0, labels, scope)
        known = None if expr.quoted else ops.find(expr.callee)
        if known is None:
            operands = tuple(self._operand(a, scope) for a in expr.args)
            return Whole(expr.callee, operands, expr.attributes, labels)
        args = tuple(self._lower(a, () if self._is_scalar(a) else labels, scope) for a in expr.args)
        kind = expr.type.element if isinstance(expr.type, tree.TensorType) else expr.type
        term = Apply(known.full_name, args, _attributes(known, expr), kind.name if kind else "")
        return canonical(term, _resolve)

    def _operand(self, expr: tree.Expr, scope: _Scope) -> Result:
        labels = self._labels_of(self.types.get(expr))
        return Result(self._lower(expr, labels, scope), labels)

    def _is_scalar(self, expr: tree.Expr) -> bool:
        kind = self.types.get(expr)
        return isinstance(kind, tree.ScalarType) or (isinstance(kind, tree.TensorType) and not kind.dims)

    def _inlined(self, expr: tree.Call, position: int, labels: tuple[Label, ...] | None, scope: _Scope) -> Node:
        pattern = self.patterns[expr.callee]
        names: dict[str, Maker] = {}
        for parameter, arg in zip(pattern.parameters, expr.args, strict=True):
            names[parameter.name] = lambda at, arg=arg: self._lower(arg, () if self._is_scalar(arg) else at, scope)
        inner = self._scope(pattern, names)
        return self._lower(pattern.results[position], labels, inner)

    # ---- subscripts -----------------------------------------------------------------------------------------------

    def _contract(self, expr: tree.Contract, labels: tuple[Label, ...] | None, scope: _Scope) -> Node:
        bound, new = self._bind(expr.subscripts, labels)
        wanted = _element(self.types.get(expr))
        family = self._family(expr, scope)
        times, plus = _PRODUCTS[family]
        factors = []
        for arg, at in zip(expr.args, bound, strict=True):
            node = self._lower(arg, at, scope)
            given = _element(self.types.get(arg))
            if wanted and given and wanted != given:
                node = Apply(_EXTENSIONS[family], (node,), (), wanted)
            factors.append(node)
        product = factors[0]
        for factor in factors[1:]:
            product = Apply(times, (product, factor), (), "")
        return Reduce(plus, new, product) if new else product

    def _family(self, expr: tree.Contract, scope: _Scope) -> str:
        kinds = {_element(self.types.get(e)) for e in (expr, *expr.args)} - {None}
        choices: set[str] = set()
        for kind in kinds:
            variable = next((v for v in scope.pattern.type_variables if v.name == kind), None)
            names = [c.name for c in variable.choices] if variable else [kind]
            choices |= {"float" if ops.is_float(n) else "int" for n in names if n}
            if variable and not variable.choices:
                choices |= {"float", "int"}
        if not choices:
            choices = {"float", "int"}
        if len(choices) > 1:
            self.ambiguous = True
            return self.family
        return choices.pop()

    def _bind(
        self, subscripts: tree.Subscripts, labels: tuple[Label, ...] | None
    ) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        """The labels of each operand when the result is looked at under `labels`, and the new ones among them."""
        named = _match_names(subscripts.result, labels or ())
        new: list[Label] = []
        bound = []
        for operand in subscripts.operands:
            at: list[Label] = []
            for name in operand:
                if name not in named:
                    label = self._label(name.removeprefix("..."), name.startswith("..."))
                    named[name] = (label,)
                    new.append(label)
                at.extend(named[name])
            bound.append(tuple(at))
        return bound, tuple(new)


def _match_names(names: tuple[str, ...], labels: tuple[Label, ...]) -> dict[str, tuple[Label, ...]]:
    """Subscript names against labels, position by position; a pack takes what the others leave."""
    packs = [i for i, n in enumerate(names) if n.startswith("...")]
    if not packs:
        return {n: (label,) for n, label in zip(names, labels, strict=True)}
    at, after = packs[0], len(names) - packs[0] - 1
    stop = len(labels) - after
    found = {n: (label,) for n, label in zip(names[:at], labels[:at], strict=True)}
    found[names[at]] = labels[at:stop]
    found.update({n: (label,) for n, label in zip(names[at + 1 :], labels[stop:], strict=True)})
    return found


def _element(kind: tree.Type | None) -> str | None:
    if kind is None:
        return None
    return kind.element.name if isinstance(kind, tree.TensorType) else kind.name


def _attributes(op: ops.Op, expr: tree.Call) -> tuple[tuple[str, str], ...]:
    found = []
    for attribute in sorted(expr.attributes, key=lambda a: a.name):
        value = str(attribute.value)
        if attribute.name == "predicate" and value in op.predicates:
            value = str(op.predicates.index(value))  # the IR keeps a predicate as a number
        found.append((attribute.name, value))
    return tuple(found)


def _full_name(combiner: str) -> str:
    op = ops.find(combiner)
    assert op is not None, "the checker lets only known combiners pass"
    return op.full_name


def _resolve(node: Any) -> Any:
    """A literal number of the pattern, in the shape in which `canonical` asks for it."""
    if isinstance(node, Number) and node.high is None and isinstance(node.low, tree.Literal):
        return Constant(node.low.value, "")
    return node
