"""Where a search stopped within an op that the program spells otherwise than the pattern."""

from __future__ import annotations

from collections.abc import Iterator

from iree.compiler import ir

from opsplice.matchers.ir.op_names import short
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.patterns.nodes import Graph, Number
from opsplice.matchers.patterns.walk import nodes_below, nodes_of
from opsplice.matchers.search.tracing import Stop, Thing
from opsplice.matchers.terms.terms import Apply, Reduce


def read_anew(graph: Graph, stop: Stop) -> tuple[str, str] | None:
    """The pattern's op and the program's that was read as it, where what was found is no op of the program.

    `x - y` is read as `x + -y` where a pattern asks for a sum: the negation is nowhere in the program.
    """
    own = None if stop.at is None else _op_on_elements(stop.at)
    if own is None or not isinstance(stop.term, Apply) or stop.term.op == own:
        return None
    for above in nodes_of(graph):
        if isinstance(above, Apply) and stop.node in above.args and above.op != own:
            held = stop.held.get(id(above))
            if held is not None and _op_on_elements(held) == own:
                return short(above.op), short(own)
    return None


def factor_for_divisor(graph: Graph, stop: Stop) -> str:
    """What to multiply by, where a product was looked for in a quotient and the program multiplies the quotient."""
    for above in nodes_of(graph):
        if isinstance(above, Apply) and above.op == "arith.divf" and above.args[0] is stop.node:
            held = stop.held.get(id(above))
            if held is not None and any(_op_on_elements(user) == "arith.mulf" for user in _users(held)):
                by = above.args[1]
                return f"const(1 / {by.low.span.written})" if isinstance(by, Number) else "divf(1.0, z)"
    return ""


def has_factor_inside(graph: Graph, stop: Stop) -> bool:
    """Whether a product with a sum held where the program has its constant factor inside of the sum."""
    held = stop.held
    products = (n for n in nodes_below([graph.results[0].node]) if isinstance(n, Apply) and id(n) in held)
    return any(
        isinstance(arg, Reduce) and id(arg) in held and held[id(arg)] == held[id(node)]
        for node in products
        if node.op == "arith.mulf"
        for arg in node.args
    )


def _users(thing: Thing) -> Iterator[ir.Operation]:
    """The ops that use what an op makes, or the op in whose body it is."""
    results = thing.results if isinstance(thing, ir.Operation) else [thing]
    for user in (use.owner.operation for result in results for use in result.uses):
        if user.name == "linalg.yield":
            yield from _users(user.parent.operation)
        else:
            yield user


def _op_on_elements(thing: Thing) -> str | None:
    """The name of an op on elements, or of the only one that a structured op has."""
    op = defining_op(thing) if isinstance(thing, ir.Value) else thing
    if op is not None and op.name.startswith("linalg.") and len(op.regions) == 1:
        inner = [each.operation for each in op.regions[0].blocks[0].operations]
        op = inner[0] if len(inner) == 2 else None  # the op and what yields it
    return op.name if op is not None and op.name.startswith(("arith.", "math.")) else None
