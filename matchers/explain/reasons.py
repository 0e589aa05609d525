"""Why a search stopped, in words: what was wanted, what was found, and what to change in the pattern."""

from __future__ import annotations

import re

from iree.compiler import ir

from opsplice.common.errors import printable
from opsplice.matchers.explain.failure_words import as_written, condition_text, own_name, term_text, words
from opsplice.matchers.explain.label_words import label_names, turned_pack
from opsplice.matchers.explain.near_miss import Reason
from opsplice.matchers.explain.places import other_uses, place_of
from opsplice.matchers.explain.spellings_read import factor_for_divisor, has_factor_inside, read_anew
from opsplice.matchers.ir.op_names import short
from opsplice.matchers.ir.tensor_values import defining_op, is_tensor
from opsplice.matchers.patterns.nodes import Asked, Graph, Input, Number, Wanted, Whole
from opsplice.matchers.patterns.walk import endings, nodes_of
from opsplice.matchers.search.failures import Kind, Why
from opsplice.matchers.search.matches import Binding
from opsplice.matchers.search.tracing import Stop
from opsplice.matchers.terms import constants
from opsplice.matchers.terms.canonical import WIDTHS
from opsplice.matchers.terms.terms import Access, Apply, Constant, Flat, Part, Reduce, Term
from opsplice.matchers.terms.views import Views
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

_PREFIX = re.compile(r"\b\w+\.\d+\.(?=[A-Za-z_])")
_CASTS = frozenset(
    f"arith.{n}" for n in ("truncf", "extf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci")
)
_CONTRACTIONS = frozenset({("arith.addf", "arith.mulf"), ("arith.addi", "arith.muli")})
# What a kernel does to match every layout.
_ANY_LAYOUT = "declare the kernel's buffer `strided` or `copied`"
_NAMES_DIMS = frozenset({Kind.SAME_SIZE, Kind.CONDITION, Kind.TYPE, Kind.CONSTANT})
# What to change, where that depends on the kind of failure alone.
_ADVICE = {
    Kind.SIZE: "write a name such as `n` in place of the number to take any size",
    Kind.START: "accumulated(...) around the reduction takes it whatever it starts from",
    Kind.OPERANDS: "write the op with as many operands as the program gives it",
    Kind.EFFECTS: "an op with effects stays where it is: let the pattern end with it, or begin after it",
    Kind.ORDER: "a kernel needs all its inputs before it has a result: look for the parts by patterns of their own",
    Kind.VIEW: "point at the op that makes what it passes on",
    Kind.STEPS: "look for a part of it, or say more of it: types, sizes, constants",
}
_KEEP_F64 = "--iree-input-demote-f64-to-f32=false"
_PAIR = 2
_SUMS = ("arith.addf", "arith.subf")
_MOST_WRITTEN = 60


def reason_of(graph: Graph, stop: Stop, views: Views, *, text: bool = True) -> Reason:
    """The reason of a stopped search; `views` are those that it was made with. text: as for `place_of`."""
    return _Reasoner(graph, stop, views).reason(text)


class _Reasoner:
    def __init__(self, graph: Graph, stop: Stop, views: Views) -> None:
        self.graph = graph
        self.stop = stop
        self.views = views
        self.parameters = {p.name: p for p in graph.pattern.parameters}
        self.wanted, self.found = words(stop)

    def reason(self, text: bool) -> Reason:
        stop = self.stop
        advice = self._advice()
        wanted, found = self.wanted, self.found
        if stop.kind in _NAMES_DIMS:
            wanted, found, advice = map(_own_names, (wanted, found, advice))
        span = stop.node.span if hasattr(stop.node, "span") else self.graph.spans.get(id(stop.node))
        return Reason(
            kind=stop.kind,
            wanted=wanted,
            found=found,
            span=span,
            at=None if stop.at is None else place_of(stop.at, text=text),
            tried=self._tried(),
            help=advice,
        )

    def _advice(self) -> str:
        """What to change. What was wanted and found may be said better on the way."""
        of_kind = {
            Kind.OP: self._op,
            Kind.ATTRIBUTE: self._attribute,
            Kind.CONSTANT: self._constant,
            Kind.NO_VALUE: self._no_value,
            Kind.TYPE: self._type,
            Kind.RANK: self._rank,
            Kind.SAME_SIZE: self._same_size,
            Kind.DIMS: self._dims,
            Kind.REDUCTION: self._reduction,
            Kind.REGION: self._region,
            Kind.SAME_VALUE: self._same_value,
            Kind.CONDITION: self._condition,
            Kind.USE: self._use,
        }
        kind = self.stop.kind
        if self.stop.why is Why.STEP:
            return "write a name before the label, as `s` in `s*y`, for any number"
        return of_kind[kind]() if kind in of_kind else _ADVICE.get(kind, "")

    def _no_value(self) -> str:
        stop = self.stop
        if isinstance(stop.at, ir.Value) and isinstance(stop.at.type, ir.ShapedType):
            self.found = f"{_value_name(stop.at)}, a {stop.at.type}"
        if not isinstance(stop.node, Input):
            return ""
        name = stop.node.name
        if isinstance(self.parameters[name].type, tree.ScalarType):
            return f"declare {name} as a tensor with the dims that it has in the program, and broadcast it"
        return f"the value of {name} exists only inside the op: let the pattern take in the ops that make it"

    def _region(self) -> str:
        if isinstance(self.stop.node, Whole) and self.stop.node.body is not None:
            return "the op computes something else; if the kernel does too, write this in the pattern's body"
        return "`{...}` behind the operands takes the op whatever its regions hold"

    def _rank(self) -> str:
        name = getattr(self.stop.node, "name", "it")
        if not isinstance(self.stop.node, Input) and self.stop.any_layout:
            return "the program has these dims merged, or lacks some: declare the kernel's buffers `strided`"
        if not isinstance(self.stop.node, Input) or not any(isinstance(i, (Flat, Part)) for i in self.stop.given):
            return "write `...m` in a type for any number of dims"
        if has_factor_inside(self.graph, self.stop):
            return f"the program multiplies {name} before it splits its dims and sums: try a pattern without that mulf"
        if self.stop.any_layout:
            return f"no tensor holds {name} row by row in these dims: {_ANY_LAYOUT}"
        return f"no tensor of these dims holds {name}: the program splits or merges its dims only after a further op"

    # ---- ops and constants ----------------------------------------------------------------------------------------

    def _op(self) -> str:
        stop = self.stop
        self.found = self._named(stop.term)
        if isinstance(stop.node, Number):
            return self._not_constant()
        if self._is_contraction(stop.node):
            self.wanted = "a contraction"
        if not stop.held and any(stop.node is head for head in endings(self.graph)):
            self.wanted += ", which the pattern ends with"
        ways = (self._respelt, self._of_others, self._other_side, self._other_spelling, self._between, self._lacking)
        return next(filter(None, (way() for way in (*ways, self._opaque, self._either))), "")

    def _not_constant(self) -> str:
        return f"declare an input for it, such as `c: f32`, if the kernel can take {self.found} there"

    def _respelt(self) -> str:
        """The program has another op, which was read as the pattern's; its operand is none of the program's own."""
        anew = read_anew(self.graph, self.stop)
        if anew is None:
            return ""
        self.wanted, self.found = anew
        return f"write {self.found} if the kernel computes that, or {self.wanted}(...) | {self.found}(...) for either"

    def _other_side(self) -> str:
        """What is wanted is the other operand of an op that does not commute."""
        node = self.stop.node
        for above in nodes_of(self.graph):
            if not isinstance(above, Apply) or node not in above.args:
                continue
            at = self.stop.held.get(id(above))
            if isinstance(at, ir.Value):
                at = defining_op(at)
            if at is None or at.name != above.op or len(at.operands) != _PAIR or len(above.args) != _PAIR:
                continue
            known = vocabulary.find(above.op)
            if known is None or known.commutative:
                continue
            other = at.operands[1 - above.args.index(node)]
            found = self.views.resolve(self.views.whole(other)) if isinstance(other.type, ir.RankedTensorType) else None
            if found is not None and _same_op(node, found):
                return (
                    f"{short(above.op)} has its operands the other way round in the program: swap them if that is meant"
                )
        return ""

    def _of_others(self) -> str:
        """A sum or a difference stands there as the pattern writes it, but it adds up other things."""
        node, term = self.stop.node, self.stop.term
        span = self.graph.spans.get(id(node))
        if span is None or not (isinstance(node, Apply) and isinstance(term, Apply)) or term.op not in _SUMS:
            return ""
        name = short(term.op)
        if node.op not in _SUMS or not span.written.startswith(f"{name}("):
            return ""
        operands = " and ".join(self._named(self.views.resolve(a)) for a in term.args)
        self.wanted, self.found = printable(span.written)[:_MOST_WRITTEN], f"{name} of {operands}"
        return "what a sum adds up is compared as a whole: one of its terms is another, or one is lacking"

    def _other_spelling(self) -> str:
        node, term = self.stop.node, self.stop.term
        names = tuple(short(each.op) for each in (node, term) if isinstance(each, Apply))
        return "the program subtracts: write subf in place of addf" if names == ("addf", "subf") else ""

    def _between(self) -> str:
        """The program has one op more than the pattern."""
        term = self.stop.term
        name = short(term.op) if isinstance(term, Apply) else ""
        if isinstance(term, Apply) and term.op in _CASTS:
            if isinstance(self.stop.node, Apply) and self.stop.node.op in _CASTS:
                return ""
            written = f"write {name}(...) : {term.type or 'type'} around this part"
            looked_through = ", or `through cast` behind the pattern's inputs" if term.op in WIDTHS else ""
            return f"the program has a cast here: {written}{looked_through}"
        if not isinstance(term, Apply) or not any(self._is_wanted(self.views.resolve(a)) for a in term.args):
            return ""
        return f"the program has one op more here: write {name} around this part"

    def _lacking(self) -> str:
        """The pattern has one op more than the program."""
        node, term = self.stop.node, self.stop.term
        if isinstance(node, Apply) and any(_same_op(a, term) for a in node.args):
            if factor := factor_for_divisor(self.graph, self.stop):
                return f"the program divides before it multiplies: write mulf(mulf(x, y), {factor}) for any order"
            return f"the program has no {short(node.op)} here: leave it out of the pattern"
        return ""

    def _opaque(self) -> str:
        term = self.stop.term
        if not isinstance(term, Access):
            return ""
        op = defining_op(term.value)
        if op is None or op.name in ("hal.tensor.import", "util.global.load"):
            return "the program hands this in: make it an input of the pattern"
        if op.name == "arith.constant":
            return "the program has its values at hand: make it an input of the pattern"
        if op.name.startswith(("linalg.", "tensor.")):
            return f'{op.name} cannot be looked into here: make it an input, or write "{op.name}"(...)'
        return f'nothing is known of {op.name}: make it an input, or write "{op.name}"(...)'

    def _either(self) -> str:
        node, term = self.stop.node, self.stop.term
        if not (isinstance(node, Apply) and isinstance(term, Apply) and len(node.args) == len(term.args)):
            return ""
        wanted, found = short(node.op), short(term.op)
        return f"write {found} if the kernel computes that, or {wanted}(...) | {found}(...) for either"

    def _is_wanted(self, term: Term) -> bool:
        node = self.stop.node
        if not (isinstance(node, Whole) and isinstance(term, Access)):
            return _same_op(node, term)
        op = defining_op(term.value)
        return op is not None and op.name == node.op

    def _attribute(self) -> str:
        stop, term = self.stop, self.stop.term
        if not (isinstance(stop.node, Apply) and isinstance(term, Apply)):
            return "write the attribute as the program has it, or leave it out for any"
        given = dict(term.attributes)
        name, value = next((n, v) for n, v in stop.node.attributes if given.get(n) != v)
        wanted, found = (_attribute_text(stop.node.op, name, v) for v in (value, given.get(name)))
        self.wanted, self.found = f"{name} = {wanted}", f"{name} = {found}"
        return f"write {{{name} = {found}}} if the kernel computes that"

    def _constant(self) -> str:
        stop = self.stop
        if not isinstance(stop.term, Constant):
            self.found = self._named(stop.term)
            return self._not_constant()
        assert isinstance(stop.node, Number), "no other is compared with a constant"
        value = as_written(stop.node, stop.term)
        self.found = f"the constant {value}"
        of_dims = dim_conditions.numbers_in(stop.node.low)
        if stop.why is Why.RUN_TIME_CONSTANT and of_dims:
            return "the dim is only known at run time, so no constant equals it"
        return f"write {value} if the kernel computes that, const(a..b) for a range, or an input for any number"

    # ---- types, sizes and dims ------------------------------------------------------------------------------------

    def _type(self) -> str:
        stop = self.stop
        given = stop.node.name if isinstance(stop.node, Input) else ""
        kind, found = self.parameters[given].type if given else None, self.found
        if kind is not None:
            name = kind.element.name
            self.wanted = f"{given} with {self.wanted}"
        else:
            name = getattr(stop.node, "type", "") or getattr(stop.node, "element", "")
            name = name or self.wanted.removeprefix("element type ")
        own = _own_names(name)
        choices = self.graph.variables.get(name)
        self.found = f"element type {found}"
        if found == "f32" and (own == "f64" or choices == ("f64",)):
            self.found += f", which the compiler makes of f64, too, without {_KEEP_F64}"
        if isinstance(kind, tree.ScalarType) and "cast" in self.graph.through:
            return f"write {given}: {found}, which goes with tensors of other floats under `through cast`"
        if "cast" not in self.graph.through and self._is_cast():
            return (
                "write `through cast` behind the pattern's inputs: the program computes with them in another precision"
            )
        if choices is None:
            return f"write {found} in place of {own}, or for both a type variable, <T in {{{own}, {found}}}>"
        if name in stop.types:
            return f"{own} is {stop.types[name]} already: give one of the two a type variable of its own"
        return f"write {own} in {{{', '.join((*choices, found))}}} if there is a kernel for {found}"

    def _is_cast(self) -> bool:
        """Whether a cast between floats makes what an input was to be."""
        value = self.stop.binding.value if self.stop.binding else None
        made = self.views.resolve(self.views.root(value)) if value is not None and is_tensor(value) else None
        return isinstance(made, Apply) and made.op in WIDTHS

    def _same_size(self) -> str:
        name = own_name(self.stop.operands[0])
        self.found = f"{name} = {self.found}"
        return f"give the dims two names if {name} need not be one size"

    def _dims(self) -> str:
        stop = self.stop
        name = self._subject()
        if stop.why is Why.OTHER_PLACES:
            return self._same_value()
        if stop.why is Why.TURNED:
            return _ANY_LAYOUT
        if not stop.asked:
            return ""
        wanted = [f"...{la.name.removeprefix('...')}" if la.pack else la.name for la in stop.asked]
        found = label_names(stop)
        pack = turned_pack(stop)
        if pack is not None:
            self.wanted = f"{name} with the dims of ...{pack} as the result has them"
            self.found = "another order of them"
            return f"let the pattern end before the program transposes {name}, or {_ANY_LAYOUT}"
        if wanted == found or not found:
            return "each dim must run as the pattern's labels do"
        self.wanted, self.found = f"{name} with dims {' '.join(wanted)}", f"dims {' '.join(found)}"
        if len(set(found) - {"?", "1"}) < len([n for n in found if n not in ("?", "1")]):
            self.found += ", one of which is reduced"
            return "the program repeats what it reduces along other dims: compare the pattern's broadcasts"
        if sorted(wanted) == sorted(found):
            return f"write `{' '.join(found)}` for {name} if the kernel can take it so, or {_ANY_LAYOUT}"
        if "?" in found and any(wanted.count(w) > found.count(w) for w in wanted):
            return "the program runs over other dims here than over the rest of the match"
        more = f", or {_ANY_LAYOUT}" if set(wanted) < set(found) else ""
        return f"write the labels as the program has its dims{more}"

    def _reduction(self) -> str:
        stop = self.stop
        if stop.why is Why.REDUCED_AGAIN:
            return "let the pattern compute it twice too, by two names"
        assert isinstance(stop.node, Reduce), "only reductions have dims that they reduce"
        has_begun = any(labels == stop.node.loops for labels, _ in stop.loops)
        if isinstance(stop.term, Reduce) and not has_begun:
            sizes = " x ".join("?" if loop.size is None else str(loop.size) for loop in stop.term.loops)
            self.found += f" ({sizes})"
        return "reduce as many labels as the program does, or a pack such as `...k`"

    # ---- values ---------------------------------------------------------------------------------------------------

    def _same_value(self) -> str:
        stop = self.stop
        assert isinstance(stop.node, Input), "only inputs are bound to values"
        name = stop.node.name
        before, now = stop.inputs.get(name), stop.binding
        self.wanted = f"{name} to be one value, {self._bound(before)}" if before else self.wanted
        self.found = self._bound(now) if now else self.found
        return f"give it a name of its own if it need not be {name}"

    def _bound(self, binding: Binding) -> str:
        if binding.value is None:
            return f"the constant {constants.text(binding.constant or 0, binding.element)}"
        place = place_of(binding.value, text=False)
        made = self.views.resolve(self.views.root(binding.value)) if is_tensor(binding.value) else None
        is_fused = place.op.startswith("linalg.") and isinstance(made, (Apply, Reduce))
        op = f"{term_text(made)} in {place.op}" if is_fused and made is not None else place.op
        return f"{op} at {place.location}" if place.location else op

    def _use(self) -> str:
        stop = self.stop
        if isinstance(stop.node, Asked) and stop.node.kind == "shared":
            self.found = "one that nothing else uses"
            return "drop `shared` if the kernel can do without another use"
        value = stop.at.results[0] if isinstance(stop.at, ir.Operation) and len(stop.at.results) == 1 else stop.at
        if isinstance(value, ir.Value):
            users = other_uses(value, frozenset(stop.looked))
            self.found = f"one that is {users}" if users else self.found
        return "drop `only` if the kernel leaves the value in place for others"

    def _subject(self) -> str:
        """The part that failed, by the name that the pattern has for it, or by its op."""
        node = self.stop.node
        span = self.graph.spans.get(id(node))
        if isinstance(node, Input) or span is None:
            return node.name if isinstance(node, Input) else "this part"
        return span.written.partition("(")[0].partition("[")[0].strip()

    def _condition(self) -> str:
        if isinstance(self.stop.node, Asked) and isinstance(self.stop.at, ir.Value):
            self.found = f"{place_of(self.stop.at, text=False).op}, which is computed or given at run time"
        self.found = condition_text(self.stop.node, self.found, self.stop.dims)
        return "this is the pattern's own condition: relax it if the kernel can take more"

    # ---- pieces ---------------------------------------------------------------------------------------------------

    def _named(self, term: Term | None) -> str:
        if isinstance(term, Reduce) and (term.combiner, getattr(term.body, "op", "")) in _CONTRACTIONS:
            return "a contraction"
        if isinstance(term, Access):
            return _value_name(term.value)
        return self.found if term is None else term_text(term)

    def _tried(self) -> str:
        """The commutative op right above the part that failed."""
        for node in nodes_of(self.graph):
            if not isinstance(node, Apply) or id(node) not in self.stop.held or self.stop.node not in node.args:
                continue
            if vocabulary.commutes(node.op) and node.args[0] is not node.args[1]:
                return "the contraction" if self._is_contraction(node) else short(node.op)
        return ""

    def _is_contraction(self, node: Wanted) -> bool:
        span = self.graph.spans.get(id(node))
        return span is not None and span.source.text.startswith("contract", span.start)


# ---- pieces ------------------------------------------------------------------------------------------------------


def _same_op(node: Wanted, term: Term | None) -> bool:
    if isinstance(node, Apply):
        return isinstance(term, Apply) and term.op == node.op
    return isinstance(node, Reduce) and isinstance(term, Reduce) and term.combiner == node.combiner


def _attribute_text(op: str, name: str, value: str | None) -> str:
    known = vocabulary.find(op)
    if value is not None and name == "predicate" and known is not None and value.isdigit():
        return known.predicates[int(value)] if int(value) < len(known.predicates) else value
    return "nothing" if value is None else value


def _value_name(value: ir.Value) -> str:
    return place_of(value, text=False).op


def _own_names(text: str) -> str:
    """Dims and types of patterns that are used inside others, as their own pattern calls them."""
    return _PREFIX.sub("", text)
