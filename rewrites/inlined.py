"""Where calls that a transform spec has inlined stand in the program: their ops say where they stand in the spec.

The interpreter puts what is inlined behind the op that it replaces, which then goes if nothing uses it. So that op is
the last of those that are gone from before it; a cast of the result, where types differ, says its place by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.matchers.ir_names import location_text, ops_in, places_of, symbol_of

# The ops of each function by name and place, in order.
Order = Mapping[str, Sequence[tuple[str, str]]]


# The functions that a spec inlines, by symbol, with the places of the ops in each.
Bodies = Mapping[str, Sequence[str]]


def bodies(spec: ir.Module) -> Bodies:
    """The functions that a spec inlines."""
    inlined: set[str] = set()
    for op in ops_in(spec.operation, "transform.util.cast_and_call", "transform.func.cast_and_call"):
        if "inline_call" not in op.attributes:
            continue
        makers = [value.owner.operation for value in op.operands if not isinstance(value.owner, ir.Block)]
        imports = [each.attributes["symbol"] for each in makers if each.name == "transform.util.import_symbol"]
        named = [op.attributes["function_name"]] if "function_name" in op.attributes else []
        inlined.update(ir.SymbolRefAttr(symbol).value[-1] for symbol in [*imports, *named])
    tops = [op.operation for op in spec.body.operations]
    own = {symbol_of(op): op for op in tops if op.name.endswith(".func")}
    return {name: [location_text(op) for op in _body(own[name])] if name in own else [] for name in inlined}


def copies(function: ir.Operation, functions: Bodies) -> list[tuple[ir.Operation, str]]:
    """For each time that one of some functions was inlined in a function one op of it, with its symbol."""
    at: dict[str, list[ir.Operation]] = {}
    for op in ops_in(function):
        at.setdefault(location_text(op), []).append(op)
    found = []
    for symbol, body in functions.items():
        # Some ops of a body may be gone, as constants are that others have.
        made = max((at.get(place, []) for place in reversed(body)), key=len, default=[])
        found += [(op, symbol) for op in made]
    return found


def order(module: ir.Module, spec: ir.Module) -> Order:
    """The ops of a program before a spec is applied, if the spec inlines calls."""
    if not bodies(spec):
        return {}
    functions = [op.operation for op in module.body.operations if op.operation.name.endswith(".func")]
    return {symbol_of(op): [_known(each) for each in ops_in(op)] for op in functions}


def places(
    function: ir.Operation, calls: Sequence[ir.Operation], before: Sequence[tuple[str, str]], spec: str
) -> list[str]:
    """The place in the program of each of the calls in a function.

    before: the function's ops before there were calls. spec: the name of the spec's file.
    """
    found = {call: location_text(call) for call in calls if not _is_of(call, spec)}
    waiting: list[ir.Operation] = []
    at = 0
    for op in ops_in(function):
        if _is_of(op, spec):
            waiting += [op] if op in calls else []
            continue
        known = _known(op)
        if known not in before[at:]:
            continue  # a cast of the call's
        index = before.index(known, at)
        found.update(zip(waiting, _shares(before[at:index], len(waiting), before[max(at - 1, 0)]), strict=True))
        waiting, at = [], index + 1
    for call in calls:
        casts = [use.owner.operation for result in call.results for use in result.uses]
        told = [location_text(c) for c in casts if c.name == "tensor.cast" and not _is_of(c, spec)]
        if _is_of(call, spec) and told:
            found[call] = told[0]
    return [found.get(call) or location_text(call) for call in calls]


def _body(function: ir.Operation) -> list[ir.Operation]:
    """The ops of a function but for what ends it."""
    blocks = list(function.regions[0].blocks)
    return [op.operation for block in blocks for op in list(block.operations)[:-1]]


def _known(op: ir.Operation) -> tuple[str, str]:
    return op.name, location_text(op)


def _shares(gone: Sequence[tuple[str, str]], count: int, last: tuple[str, str]) -> list[str]:
    """The last op of each of equal parts of those that are gone; where they are too few, the op before them."""
    if len(gone) < count:
        return [last[1]] * count
    return [gone[(number + 1) * len(gone) // count - 1][1] for number in range(count)]


def _is_of(op: ir.Operation, spec: str) -> bool:
    found = places_of(op)
    return bool(found) and found[0][0] == spec and len(found) == 1
