"""Which matcher of a transform spec held where: marks that actions leave in the program, read and taken off after it.

The interpreter says nothing of what it did, and what an action puts in has its place in the spec. So each pair of a
`foreach_match` gets an action of its own, which puts a call of a marker before the op that was matched:

    @match -> @call   =>   @match$0 -> @call$0, which also puts in `util.call @opsplice.matched$0()`
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.ir.op_names import FUNCTIONS, function_around, last_op, location_text, ops_in, symbol_of
from opsplice.rewrites.ir.symbols import defined
from opsplice.rewrites.transform_dialect.export.sequences import RULE

CALLS = ("transform.util.cast_and_call", "transform.func.cast_and_call")
_ANNOTATE = "transform.annotate"
_SEQUENCE = "transform.named_sequence"
_MARKER = "opsplice.matched$"
_BY_NAME = "transform.match.operation_name"
_MATCHERS = "transform.iree.match."


@dataclass(frozen=True)
class Pair:
    """A matcher and the action that `foreach_match` takes for it.

    rule: the rule that an exported spec says the matcher is for, or both names. calls: the functions that the action
    calls; sets: the attributes that it sets; traced: whether it marks the places where it was taken.
    """

    matcher: str
    action: str
    rule: str
    calls: tuple[str, ...]
    sets: frozenset[str]
    traced: bool


@dataclass(frozen=True)
class Place:
    """An op at which a pair was taken: in which function, and where in the file."""

    pair: Pair
    function: str
    location: str


def instrument(spec: ir.Module, module: ir.Module) -> list[Pair]:
    """Have the actions of a spec mark where they are taken in a program. Returns the pairs of each `foreach_match`.

    Where an op may lie in the body of another, none is put in: a body with a mark in it would be another one.
    """
    sequences = defined(spec.operation)
    found: list[Pair] = []
    inner = functools.cache(lambda: _inner_names(module))
    with spec.context, ir.Location.unknown():
        for op in ops_in(spec.operation, "transform.foreach_match"):
            named = {name: map(ir.SymbolRefAttr, ir.ArrayAttr(op.attributes[name])) for name in _SIDES}
            symbols = {name: [str(each.value[-1]) for each in symbols] for name, symbols in named.items()}
            for number, (matcher, action) in enumerate(zip(*symbols.values(), strict=True)):
                pair = _pair(matcher, action, sequences, inner)
                if pair.traced:
                    symbols["matchers"][number] = _matcher(sequences[matcher], len(found))
                    symbols["actions"][number] = _action(sequences[action], sequences[matcher], len(found))
                found.append(pair)
            for name, values in symbols.items():
                op.attributes[name] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(value) for value in values])
    return found


def places(module: ir.Module, pairs: list[Pair]) -> list[Place]:
    """Where pairs were taken, in the program's order. Takes the marks off."""
    tops = [op.operation for op in module.body.operations]
    markers = {symbol_of(op): op for op in tops if symbol_of(op).startswith(_MARKER)}
    found = []
    for op in ops_in(module.operation, "util.call") if markers else ():
        callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        if callee in markers:
            pair = pairs[int(callee.removeprefix(_MARKER))]
            found.append(Place(pair, function_around(op), location_text(op)))
            op.erase()
    for op in markers.values():
        op.erase()
    return found


# Ops with attributes, by name of the attribute, function, and place.
Marked = Counter[tuple[str, str, str]]


def marked(module: ir.Module, names: Iterable[str]) -> Marked:
    """The ops of a program that have attributes of some names."""
    having = ((op, name) for op in ops_in(module.operation) for name in names if name in op.attributes)
    return Counter((name, function_around(op) or symbol_of(op), location_text(op)) for op, name in having)


def set_besides(spec: ir.Module, pairs: list[Pair]) -> Mapping[str, str]:
    """The attributes that a spec sets where no marks are left, each with the pair that does so, if it is just one."""
    setters: dict[str, set[str]] = {}
    for pair in pairs:
        for name in () if pair.traced else pair.sets:
            setters.setdefault(name, set()).add(pair.rule)
    actions = {symbol for n, pair in enumerate(pairs) for symbol in (pair.action, f"{pair.action}${n}")}
    for op in (top.operation for top in spec.body.operations if symbol_of(top.operation) not in actions):
        for each in ops_in(op, _ANNOTATE):
            setters.setdefault(ir.StringAttr(each.attributes["name"]).value, set()).add("")
    return {
        name: max(rules) if len(rules) == 1 and "" not in rules else f"annotate {name}"
        for name, rules in setters.items()
    }


# ---- pieces ----------------------------------------------------------------------------------------------------------

_SIDES = ("matchers", "actions")


def _pair(
    matcher: str, action: str, sequences: Mapping[str, ir.Operation], inner: Callable[[], frozenset[str]]
) -> Pair:
    known = sequences[matcher].attributes if matcher in sequences else {}
    rule = ir.StringAttr(known[RULE]).value if RULE in known else f"@{matcher} -> @{action}"
    there = matcher in sequences and action in sequences
    if not there or not all(len(sequences[each].regions[0].blocks) for each in (matcher, action)):
        return Pair(matcher, action, rule, (), frozenset(), traced=False)
    sets = frozenset(ir.StringAttr(op.attributes["name"]).value for op in ops_in(sequences[action], _ANNOTATE))
    calls = tuple(name for op in ops_in(sequences[action], *CALLS) for name in _called(op, sequences))
    return Pair(matcher, action, rule, calls, sets, bool(calls) or not _may_be_inside(sequences[matcher], inner))


def _may_be_inside(matcher: ir.Operation, inner: Callable[[], frozenset[str]]) -> bool:
    """Whether a matcher may hold at an op in the body of another. inner: the names of the ops in such bodies."""
    ops = ops_in(matcher)
    if any(op.name.startswith(_MATCHERS) and len(op.regions) + len(op.results) for op in ops):
        return False  # a template, or a structured op
    listed = [ir.ArrayAttr(op.attributes["op_names"]) for op in ops if op.name == _BY_NAME]
    names = {ir.StringAttr(name).value for each in listed for name in each}
    return not inner().isdisjoint(names) if names else bool(inner())


def _inner_names(module: ir.Module) -> frozenset[str]:
    """The names of ops that lie in other ops than functions."""
    holders = (op for op in ops_in(module.operation) if not op.name.endswith((*FUNCTIONS, "builtin.module")))
    blocks = (block for op in holders for region in op.regions for block in region)
    return frozenset(each.operation.name for block in blocks for each in block)


def _called(op: ir.Operation, sequences: Mapping[str, ir.Operation]) -> Iterator[str]:
    """What a call of an action is told by: the function, or where its body is put in, the executable that it runs."""
    makers = [value.owner.operation for value in op.operands if not isinstance(value.owner, ir.Block)]
    imports = [each.attributes["symbol"] for each in makers if each.name == "transform.util.import_symbol"]
    named = [op.attributes["function_name"]] if "function_name" in op.attributes else []
    for symbol in [*imports, *named]:
        name = ir.SymbolRefAttr(symbol).value[-1]
        body = ops_in(sequences[name], "flow.dispatch") if "inline_call" in op.attributes and name in sequences else []
        entries = [str(entry) for each in body for entry in ir.ArrayAttr(each.attributes["entry_points"])]
        yield next(map(_root, entries), name)


def _matcher(matcher: ir.Operation, number: int) -> str:
    """A copy of a matcher that also gives the op that is matched."""
    copy, name = _copy(matcher, number)
    block = copy.regions[0].blocks[0]
    last = last_op(block)
    root = block.arguments[0]
    given = list(last.operands)
    last.erase()
    with ir.InsertionPoint(block):
        ir.Operation.create("transform.yield", operands=[*given, root])
    kind = ir.FunctionType(ir.TypeAttr(copy.attributes["function_type"]).value)
    copy.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kind.inputs, [*kind.results, root.type]))
    return name


def _action(action: ir.Operation, matcher: ir.Operation, number: int) -> str:
    """A copy of an action that is given the op besides, and puts a mark before it."""
    copy, name = _copy(action, number)
    block = copy.regions[0].blocks[0]
    type_ = matcher.regions[0].blocks[0].arguments[0].type
    root = block.add_argument(type_, ir.Location.unknown())
    marking = ir.Module.parse(_MARKING.format(marker=f"{_MARKER}{number}", type=type_))
    for op in list(marking.body.operations):
        op.operation.clone(ip=ir.InsertionPoint(action))
    attributes = {
        "target": ir.FlatSymbolRefAttr.get(f"{_MARKER}{number}.put"),
        "failure_propagation_mode": ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 1),
    }
    with ir.InsertionPoint(block.operations[0]):
        ir.Operation.create("transform.include", operands=[root], attributes=attributes)
    kind = ir.FunctionType(ir.TypeAttr(copy.attributes["function_type"]).value)
    copy.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([*kind.inputs, type_], kind.results))
    given = list(ir.ArrayAttr(copy.attributes["arg_attrs"])) if "arg_attrs" in copy.attributes else []
    given += [ir.DictAttr.get({})] * (len(kind.inputs) - len(given))
    readonly = ir.DictAttr.get({"transform.readonly": ir.UnitAttr.get()})
    copy.attributes["arg_attrs"] = ir.ArrayAttr.get([*given, readonly])
    return name


_MARKING = """
module attributes {{transform.with_named_sequence}} {{
  util.func private @{marker}()
  transform.named_sequence @{marker}.put(%root: {type} {{transform.readonly}}) {{
    %module = transform.util.get_nearest_symbol_table %root : ({type}) -> !transform.any_op
    %marker = transform.util.import_symbol @{marker} into %module if undefined
        : (!transform.any_op) -> !transform.any_op
    %call = transform.util.cast_and_call %marker before %root : (!transform.any_op, {type}) -> !transform.any_op
    transform.yield
  }}
}}
"""


def _copy(sequence: ir.Operation, number: int) -> tuple[ir.Operation, str]:
    name = f"{symbol_of(sequence)}${number}"
    copy = sequence.clone(ip=ir.InsertionPoint(sequence)).operation
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    return copy, name


def _root(symbol: str) -> str:
    return symbol.split("::")[0].removeprefix("@").strip('"')
