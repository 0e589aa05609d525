"""The pattern graph: a pattern of the language as the term that it looks for.

`built` turns a checked pattern into one or two graphs (two when an element type may be an integer or a float,
which changes the ops of a contraction). Its nodes are the terms of `matchers.terms` with labels for indices, and three
leaves of their own: `Input`, `Number` and `Whole`. Equal nodes are one object. Patterns used by name are put in place;
their dims, type variables and conditions come along under names of their own. It knows nothing of payloads.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.matchers.patterns.alternatives import within
from opsplice.matchers.patterns.differences import Made, as_sum
from opsplice.matchers.patterns.named_labels import align, bind, match_names, packs
from opsplice.matchers.patterns.nodes import (
    Accumulated,
    Anything,
    Asked,
    Choice,
    Condition,
    Form,
    Graph,
    Input,
    Label,
    Named,
    Node,
    Number,
    Place,
    Product,
    Result,
    Setting,
    Tie,
    Whole,
    Within,
)
from opsplice.matchers.patterns.scopes import (
    PRODUCTS,
    Maker,
    Scope,
    are_two,
    asked_values,
    attributes_of,
    families,
    is_rearranged,
    renamed,
    resolved,
    scoped,
    type_of,
)
from opsplice.matchers.terms.canonical import BECOMES, canonical, combiner
from opsplice.matchers.terms.ops.bands import BAND
from opsplice.matchers.terms.ops.index_reads import TAKE
from opsplice.matchers.terms.ops.index_reductions import POSITION
from opsplice.matchers.terms.ops.parts_of_dims import STACK
from opsplice.matchers.terms.terms import Apply, Constant, LoopIndex, Reduce
from opsplice.spec_lang.checking import walks
from opsplice.spec_lang.checking.checker import Checked
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

# What a band has besides what is taken off the difference, which is zero where it does not say.
_LIMITS = 4
# A pattern that uses one twice, which uses one twice, and so on, would be larger than any program.
MAX_USES = 1000


def built(checked: Checked, pattern: tree.Pattern) -> tuple[Graph, ...]:
    """The graphs of a pattern in files that were checked. Raises what `compile_pattern` raises."""
    graphs = []
    for family in ("float", "int"):
        builder = _Builder(checked, family)
        try:
            graphs.append(builder.build(pattern))
        except RecursionError:
            hint = "look for a part of it, or for several parts by patterns of their own"
            raise OpspliceError(f"pattern '{pattern.name}' nests too deep ({pattern.span})", hint=hint) from None
        if not builder.ambiguous:
            break
    return tuple(graphs)


class _Builder:
    """patterns: those that a pattern may use by name. type_of: of an expression, as the checker says."""

    def __init__(self, checked: Checked, family: str) -> None:
        self.patterns: Mapping[str, tree.Pattern] = checked.patterns
        self.type_of = checked.type_of
        self.family = family
        self.ambiguous = False
        self.spans: dict[int, tree.Span] = {}
        self.made: Made = []  # they are written where those are in whose place they are
        self.fresh = 0
        self.nodes: dict[Any, Node] = {}
        self.memo: dict[tuple[int, int, tuple[Label, ...]], Node] = {}
        self.used: dict[tuple[int, int], Scope] = {}
        self.ties: dict[Any, Tie] = {}
        self.tied: set[tuple[int, int, tuple[Label, ...]]] = set()
        self.conditions: list[Condition] = []
        self.through: set[str] = set()
        self.factors: dict[str, None] = {}
        self.variables: dict[str, tuple[str, ...]] = {}
        self.choices: dict[tuple[int, int, str], int] = {}
        self.choosing = 0  # how many choices there are around what is lowered

    def build(self, pattern: tree.Pattern) -> Graph:
        scope = self._scope(pattern, "", {p.name: self._input(p) for p in pattern.parameters}, {}, {})
        self._ask(scope)
        results = []
        for expr in pattern.results:
            kind = self.type_of(expr)
            labels = self._labels_of(kind)
            element = scope.element(kind) if "cast" in self.through else ""
            element = element if element in self.variables or getattr(expr, "type", None) else ""
            results.append(Result(self._lower(expr, labels, scope), labels, element))
        return Graph(
            pattern=pattern,
            results=tuple(results),
            ties=tuple(self.ties.values()),
            conditions=tuple(self.conditions),
            variables=self.variables,
            factors=tuple(self.factors),
            rearranged=is_rearranged(pattern.results[0], pattern, self.patterns),
            through=frozenset(self.through),
            spans={id(made): self.spans[id(node)] for made, node in self.made if id(node) in self.spans} | self.spans,
            size=sum(isinstance(node, (Apply, Reduce, Whole, Number)) for node in self.nodes.values()),
        )

    def _node(self, key: Any, make: Callable[[], Node]) -> Node:
        """One object for each node, so that equal parts of a pattern are the same part."""
        self.nodes[key] = self.nodes[key] if key in self.nodes else make()
        return self.nodes[key]

    # ---- labels and sizes -----------------------------------------------------------------------------------------

    def _label(self, name: str, pack: bool = False, windowed: bool = False) -> Label:
        self.fresh += 1
        return Label(self.fresh, name, pack, windowed)

    def _labels_of(self, kind: tree.Type | None, scope: Scope | None = None) -> tuple[Label, ...]:
        if kind is None:
            return (self._label("?", pack=True),)  # of any rank, and still the same dims wherever it is looked at
        dims = kind.dims if scope is None else scope.expanded(kind.dims)
        return tuple(self._label(str(d.name or d), d.pack is not None) for d in dims)

    def _tie(self, kind: tree.Type | None, labels: tuple[Label, ...], scope: Scope, node: Node) -> None:
        """Note what a type says of the sizes of labels."""
        if not labels or kind is None or (id(kind), id(scope), labels) in self.tied:
            return
        self.tied.add((id(kind), id(scope), labels))
        for dim, group in align(kind.dims, labels):
            size = dim.size if dim.size is not None else scope.dims.get(dim.name or "")
            if size is not None:
                self.ties.setdefault((group, size), Tie(group, size, dim.pack is not None, node))

    # ---- scopes ---------------------------------------------------------------------------------------------------

    def _input(self, parameter: tree.Parameter) -> Maker:
        def make(labels: tuple[Label, ...]) -> Node:
            return self._node(("input", parameter.name, labels), lambda: Input(parameter.name, labels))

        return make

    def _scope(
        self,
        pattern: tree.Pattern,
        prefix: str,
        values: dict[str, Maker],
        elements: Mapping[str, str],
        taken: Mapping[str, tuple[tree.Dim, ...]],
    ) -> Scope:
        dims = {d.name: prefix + d.name for p in pattern.parameters for d in p.type.dims if d.name}
        for factor in walks.pattern_factors(pattern):
            if factor not in dims:
                dims[factor] = prefix + factor
                self.factors[dims[factor]] = None
        named = {v.name: elements.get(v.name, prefix + v.name) for v in pattern.type_variables}
        for variable in pattern.type_variables:
            if variable.name not in elements:
                self.variables[named[variable.name]] = tuple(c.name for c in variable.choices)
        within = prefix if self.choosing and pattern.where is not None else ""
        scope = Scope(pattern, prefix, within, values, dims, named, taken)
        for let in pattern.body:
            for position, name in enumerate(let.names):
                values[name] = self._let(let, position, scope)
        self.through.update(pattern.through)
        return scope

    def _ask(self, scope: Scope) -> None:
        """Take over a pattern's condition, and give names to what it asks about. All its values are there."""
        if (where := scope.pattern.where) is None:
            return
        for name in sorted(asked_values(where)):
            scope.values[name] = partial(self._named, scope.prefix + name, scope.values[name])
        condition = self._condition(where, scope)
        self.conditions.append(Within(scope.within, condition) if scope.within else condition)

    def _named(self, name: str, maker: Maker, labels: tuple[Label, ...]) -> Node:
        return self._name(name, maker(labels))

    def _name(self, name: str, node: Node) -> Node:
        return self._node(("named", name, id(node)), lambda: Named(name, node)) if name else node

    def _condition(self, condition: tree.Condition, scope: Scope) -> Any:
        if isinstance(condition, tree.Logical):
            operands = tuple(self._condition(operand, scope) for operand in condition.operands)
            return dataclasses.replace(condition, operands=operands)
        if isinstance(condition, tree.Predicate):
            asked = Asked(condition.span, condition.name, scope.prefix + condition.value)
            return condition if condition.name in tree.OF_THE_ROOT else asked
        if isinstance(condition, tree.Membership):
            return dataclasses.replace(condition, variable=scope.elements.get(condition.variable, condition.variable))
        if isinstance(condition, tree.Is):
            labels = self._labels_of(self.type_of(condition.form) or type_of(condition.value, scope.pattern))
            own, self.conditions = self.conditions, []
            form = Result(self._lower(condition.form, labels, scope), labels)
            own, self.conditions = self.conditions, own
            return Form(condition.span, scope.prefix + condition.value, form, condition.negated, tuple(own))
        return renamed(condition, scope)

    def _let(self, let: tree.Let, position: int, scope: Scope) -> Maker:
        def make(labels: tuple[Label, ...]) -> Node:
            if len(let.names) == 1:
                return self._lower(let.expr, labels, scope)
            assert isinstance(let.expr, tree.Call), "the checker lets only calls have several results"
            if not let.expr.quoted:
                return self._inlined(let.expr, position, labels, scope)
            return self._whole(let.expr, labels, scope, position, len(let.names))

        return make

    # ---- expressions ----------------------------------------------------------------------------------------------

    def _lower(self, expr: tree.Expr, labels: tuple[Label, ...], scope: Scope) -> Node:
        key = (id(scope), id(expr), labels)
        if key not in self.memo:
            node = self._lowered(expr, labels, scope)
            self.memo[key] = node
            self.spans.setdefault(id(node), expr.span)
            self._tie(self.type_of(expr), labels, scope, node)
        return self.memo[key]

    def _lowered(self, expr: tree.Expr, labels: tuple[Label, ...], scope: Scope) -> Node:
        if isinstance(expr, tree.Name):
            return scope.values[expr.name](labels)
        if isinstance(expr, tree.Wildcard):
            return self._node(("anything",), Anything)
        if isinstance(expr, tree.Alternatives):
            return self._choice(expr, scope, [partial(self._lower, option, labels, scope) for option in expr.options])
        if isinstance(expr, tree.Setting):
            node, target = self._lower(expr.arg, labels, scope), self._lower(expr.name, (), scope)
            value = Constant(expr.value.value, scope.element(self.type_of(expr.name)))
            return self._node(("setting", id(node), id(target), value), lambda: Setting(node, target, value))
        if isinstance(expr, tree.Uses):
            return self._uses_asked(expr, labels, scope)
        if isinstance(expr, tree.Constant):
            low = renamed(expr.value, scope)
            high = None if expr.high is None else renamed(expr.high, scope)
            return self._node(("number", dim_conditions.key((low, high))), lambda: Number(low, high))
        if isinstance(expr, tree.Call) and expr.optional:
            makers = partial(self._call, expr, labels, scope), partial(self._lower, expr.args[0], labels, scope)
            return self._choice(expr, scope, makers)
        if isinstance(expr, tree.Call):
            return self._call(expr, labels, scope)
        if isinstance(expr, tree.Contract):
            lowered = {"contract": self._contract, "take": self._take, "stack": self._stack}[expr.kind]
            return lowered(expr, labels, scope)
        bound, new = self._bind(expr.subscripts, labels, scope)
        body = self._lower(expr.arg, bound[0], scope)
        if isinstance(expr, tree.Rearrange):
            return body
        made = self._node(("reduce", new), lambda: Reduce(combiner(expr.combiner), new, body))
        for label in new:
            if (size := scope.dims.get(label.name, "")) in self.factors:  # how many places a window has
                self.ties.setdefault(((label,), size), Tie((label,), size, False, made))
        places = expr.combiner in vocabulary.POSITIONS
        return self._apply(POSITION, (made,), (), scope.element(expr.type)) if places else made

    def _choice(self, expr: tree.Expr, scope: Scope, makers: Sequence[Callable[[], Node]], of: str = "") -> Node:
        """of: the type variable that an expression chooses by, if it does."""
        number = self.choices.setdefault((id(expr), id(scope), of), len(self.choices))
        self.choosing += 1
        options = tuple(make() for make in makers)
        self.choosing -= 1
        return self._node(("choice", number, *map(id, options)), lambda: Choice(options, number))

    def _uses_asked(self, expr: tree.Uses, labels: tuple[Label, ...], scope: Scope) -> Node:
        node = self._lower(expr.arg, labels, scope)
        if expr.kind == "accumulated":
            return self._node(("accumulated", id(node)), lambda: Accumulated(node)) if type(node) is Reduce else node
        name = f"{expr.kind}.{len(self.conditions)}.{scope.prefix}"
        self.conditions.append(Asked(expr.span, expr.kind, name))
        return self._name(name, node)

    def _call(self, expr: tree.Call, labels: tuple[Label, ...], scope: Scope) -> Node:
        if not expr.quoted and expr.callee in self.patterns:
            return self._inlined(expr, 0, labels, scope)
        known = None if expr.quoted else vocabulary.find(expr.callee)
        if known is None:
            is_band = expr.callee == BAND and not expr.quoted
            return self._band(expr, labels, scope) if is_band else self._whole(expr, labels, scope)
        args = tuple(self._lower(a, () if self._is_scalar(a) else labels, scope) for a in expr.args)
        element = "" if not known.is_cast and self._is_cast(scope.element(expr.type)) else scope.element(expr.type)
        return self._apply(known.full_name, args, attributes_of(known, expr), element)

    def _band(self, expr: tree.Call, labels: tuple[Label, ...], scope: Scope) -> Node:
        places = (self._node(("index", label), partial(LoopIndex, label)) for label in labels)
        numbers = [self._lower(arg, (), scope) for arg in expr.args]
        start = [self._node(("start",), lambda: Number(tree.Literal(expr.span, 0)))] if len(numbers) == _LIMITS else []
        return self._apply(BAND, (*numbers, *start, *places), (), "")

    def _is_cast(self, element: str) -> bool:
        """Whether a float may be of another type than the one that is written, as casts are looked through."""
        return "cast" in self.through and all(map(vocabulary.is_float, self.variables.get(element, (element,))))

    def _apply(self, op: str, args: tuple[Node, ...], attributes: tuple[tuple[str, str], ...], kind: str) -> Node:
        key = ("apply", op, tuple(map(id, args)), attributes, kind)
        return self._node(key, lambda: self._one_form(as_sum(Apply(op, args, attributes, kind), self.made)))

    def _one_form(self, node: Node) -> Node:
        """A node as it is canonically. A cast goes into the alternatives for what it casts, each with a form."""
        if not isinstance(node, Apply):
            return node
        op, args, kind = node.op, node.args, node.type
        is_cast = op in BECOMES and len(args) == 1
        made = within(args[0], lambda arg: self._apply(op, (arg,), (), kind), self._node) if is_cast else None
        form: Node = canonical(node, resolved) if made is None else made
        return form

    def _whole(self, expr: tree.Call, labels: tuple[Label, ...], scope: Scope, number: int = 0, count: int = 1) -> Node:
        def make() -> Node:
            operands = tuple(self._operand(a, scope) for a in expr.args)
            attributes = tuple(scoped(a, scope.prefix) for a in expr.attributes)
            element = scope.element(expr.type)
            asked = (expr.rest, expr.regions, expr.body)
            names = [name for a in expr.attributes for name in a.variables if name in scope.values]
            scalars = tuple((scope.prefix + name, scope.values[name](())) for name in names)
            return Whole(expr.callee, operands, attributes, labels, number, count, element, *asked, scalars)

        return self._node(("whole", id(expr), id(scope), labels, number), make)

    def _operand(self, expr: tree.Expr, scope: Scope) -> Result:
        labels = self._labels_of(self.type_of(expr), scope)
        return Result(self._lower(expr, labels, scope), labels)

    def _is_scalar(self, expr: tree.Expr) -> bool:
        return (kind := self.type_of(expr)) is not None and not kind.dims

    # ---- patterns in patterns -------------------------------------------------------------------------------------

    def _inlined(self, expr: tree.Call, position: int, labels: tuple[Label, ...], scope: Scope) -> Node:
        key = (id(expr), id(scope))
        if len(self.used) >= MAX_USES and key not in self.used:
            hint = "look for a part of it, or for several parts by patterns of their own"
            raise OpspliceError(f"a pattern uses others more than {MAX_USES} times ({expr.span})", hint=hint)
        if key not in self.used:  # once for all results of a call, so that they share their parts
            self.used[key] = self._use(expr, scope)
        inner = self.used[key]
        node = self._lower(inner.pattern.results[position], labels, inner)
        return self._name(inner.within, node)

    def _use(self, expr: tree.Call, scope: Scope) -> Scope:
        pattern = self.patterns[expr.callee]
        own = {v.name for v in pattern.type_variables}
        values: dict[str, Maker] = {}
        elements: dict[str, str] = {}
        taken: dict[str, tuple[tree.Dim, ...]] = {}
        prefix = f"{pattern.name}.{len(self.used)}."
        for parameter, arg in zip(pattern.parameters, expr.args, strict=True):
            element, given = parameter.type.element.name, self.type_of(arg)
            if element in own and given is not None:
                elements[element] = scope.element(given)
            if given is not None:
                taken.update(packs(parameter.type.dims, scope.expanded(given.dims)))
        inner = self._scope(pattern, prefix, values, elements, taken)
        for parameter, arg in zip(pattern.parameters, expr.args, strict=True):
            values[parameter.name] = self._argument(parameter, arg, scope, inner)
        self._ask(inner)
        return inner

    def _argument(self, parameter: tree.Parameter, arg: tree.Expr, scope: Scope, inner: Scope) -> Maker:
        def make(labels: tuple[Label, ...]) -> Node:
            node = self._lower(arg, () if self._is_scalar(arg) else labels, scope)
            self._tie(parameter.type, labels, inner, node)
            return node

        return make

    # ---- subscripts -----------------------------------------------------------------------------------------------

    def _bind(
        self, subscripts: tree.Subscripts, labels: tuple[Label, ...], scope: Scope
    ) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        return bind(subscripts, labels, self._label, scope.dims)

    def _contract(self, expr: tree.Contract, labels: tuple[Label, ...], scope: Scope) -> Node:
        bound, new = self._bind(expr.subscripts, labels, scope)
        wanted = scope.element(self.type_of(expr))
        times, plus, extend = PRODUCTS[self._family(expr, scope)]
        factors, kind = [], ""
        for arg, at in zip(expr.args, bound, strict=True):
            node = self._lower(arg, at, scope)
            given = scope.element(self.type_of(arg))
            if wanted and given and wanted != given and not self._is_cast(given):
                widen, leave = partial(self._apply, extend, (node,), (), wanted), partial(self._lower, arg, at, scope)
                if wanted in self.variables.get(given, ()):  # what is of that type already is not widened
                    node, kind = self._choice(expr, scope, [widen, leave], given), wanted
                else:
                    node = widen()
            factors.append(node)
        if are_two(expr.args) and factors[0] is not factors[1] and set(bound[0]) != set(bound[1]):
            product = self._node(("product", kind, *map(id, factors)), lambda: Product(times, (*factors,), (), kind))
        else:
            product = factors[0]
            for factor in factors[1:]:
                product = self._apply(times, (product, factor), (), kind)
                self.spans.setdefault(id(product), expr.span)
        self.spans.setdefault(id(product), expr.span)
        return self._node(("reduce", new), lambda: Reduce(plus, new, product)) if new else product

    def _take(self, expr: tree.Contract, labels: tuple[Label, ...], scope: Scope) -> Node:
        bound, new = self._bind(expr.subscripts, labels, scope)
        node = self._lower(expr.args[0], bound[0], scope)
        for label, arg, at in zip(new, expr.args[1:], bound[1:], strict=True):
            every = self._node(("reduce", (label,)), partial(Reduce, TAKE, (label,), node))
            node = self._apply(TAKE, (every, self._lower(arg, at, scope)), (), "")
        return node

    def _stack(self, expr: tree.Contract, labels: tuple[Label, ...], scope: Scope) -> Node:
        named, bound = match_names(expr.subscripts.result, labels), self._bind(expr.subscripts, labels, scope)[0]
        (place,) = next(named[label] for label in named if label not in expr.subscripts.operands[0])
        parts = [self._lower(*each, scope) for each in zip(expr.args, bound, strict=True)]
        made = self._apply(STACK, (self._node(("place", place), lambda: Place(place)), *parts), (), "")
        if not self.choosing:
            self.ties.setdefault(((place,), len(parts)), Tie((place,), len(parts), False, made))
        return made

    def _family(self, expr: tree.Contract, scope: Scope) -> str:
        """Whether a contraction is of floats or integers. `ambiguous` is set where it may be either."""
        kinds = (scope.element(self.type_of(e)) for e in (expr, *expr.args))
        choices = {family for kind in kinds for family in families(kind, self.variables)}
        if len(choices) == 1:
            return choices.pop()
        self.ambiguous = True
        return self.family
