"""Keeps globals apart, and gives each the value that was stored in it last.

    util.global.store %b, @a     =>     %o = util.optimization_barrier %b
                                        util.global.store %o, @a

IREE 3.13 takes a global that is only ever given what another one holds for that other one, whenever that was: after
`a, b = b, a` or `before = now` the two are one. So is one that is given a constant, or what is computed from constants:
it would have been that from the start.

    util.global mutable @k = dense<0.0>             =>     @k = dense<0.0>, and an initializer stores
    util.global mutable @v = dense<0.0>                    (a copy of dense<0.0>) in @v

Where two globals begin with one value IREE has one piece of memory for both. A function that then writes into each in
place, such as a step that puts a row into the keys and one into the values of attention, would write both into it.
The same goes for two that are given one value, and for one that is given what another one goes on to hold.

    scf.for { util.global.store %a, @k }     =>     %old = util.global.load @k
    %k = util.global.load @k                        %new = scf.for iter_args(%b = %old) { scf.yield %a }
                                                    util.global.store %new, @k

IREE moves loads to the beginning of their block and stores to its end. It does not look into loops and branches for
others, and inside of these not even for a store in front of a load. So what these store and load is handed on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import around, global_of, last_op, ops_in, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.uses import is_weight
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import open_dims
from opsplice.rewrites.memory.kept_values import memory_of
from opsplice.rewrites.memory.own_memory import copied, open_sizes

# When no global is taken for another yet.
PHASE = "preprocessing"

_LOOPS = ("scf.for", "scf.while")
_ACCESSES = ("util.global.load", "util.global.store")


def carry_globals(module: ir.Module) -> None:
    """Have loops and branches hand on what globals hold. The module must be at `PHASE`.

    Those that call functions stay as they are.
    """
    with module.context:
        kinds = mutable_globals(module)
        for op in ops_in(module.operation, *_LOOPS, "scf.if") if kinds else ():
            accesses = [each for each in ops_in(op, *_ACCESSES) if global_of(each) in kinds]
            if accesses and not ops_in(op, "util.call"):
                _carry(op, {name: kinds[name] for name in dict.fromkeys(map(global_of, accesses))})


def part(module: ir.Module) -> None:
    """Keep globals apart that are given what others hold, or constants. The module must be at `PHASE`."""
    with module.context:
        _begin_apart(module)
        views = Views()
        for op in ops_in(module.operation, "util.global.store"):
            with op.location, ir.InsertionPoint(op):
                op.operands[0] = _apart(op, op.operands[0], views)


def part_stores(module: ir.Module) -> None:
    """Copy what is stored in a global while another one holds it. The module must be at `kept_values.PHASE`."""
    with module.context:
        for function in ops_in(module.operation, "util.func"):
            _part_stores(ops_in(function, "util.global.store"))


def mutable_globals(module: ir.Module) -> dict[str, ir.Type]:
    """The globals that functions may store in, with their types."""
    variables = [op.operation for op in module.body.operations if "is_mutable" in op.operation.attributes]
    return {symbol_of(op): ir.TypeAttr(op.attributes["type"]).value for op in variables}


def _carry(op: ir.Operation, kinds: Mapping[str, ir.Type]) -> None:
    """Load globals before an op, and store in them behind it. What it holds has them at the top of its blocks alone."""
    with op.location, ir.InsertionPoint(op):
        symbols = [{"global": emit.symbol(name)} for name in kinds]
        held = [
            emit.value("util.global.load", [], kind, **form) for kind, form in zip(kinds.values(), symbols, strict=True)
        ]
        given = [] if op.name == "scf.if" else held
        results = [*(each.type for each in op.results), *kinds.values()]
        new = emit.op(op.name, [*op.operands, *given], results, emit.attributes_of(op), regions=len(op.regions))
        for region, to in zip(op.regions, new.regions, strict=True):
            if len(region.blocks):
                region.blocks[0].append_to(to)
            else:
                with ir.InsertionPoint(to.blocks.append()):
                    emit.op("scf.yield")
            block = to.blocks[0]
            known = [block.add_argument(each.type, op.location) for each in given] or held
            ends = _forwarded(block, dict(zip(kinds, known, strict=True)))
            last = last_op(block)
            emit.op(last.name, [*last.operands, *ends], at=ir.InsertionPoint(last))
            last.erase()
        for value, form in zip(list(new.results)[len(op.results) :], symbols, strict=True):
            emit.op("util.global.store", [value], attributes=form)
    emit.replace(op, *list(new.results)[: len(op.results)])


def _forwarded(block: ir.Block, known: dict[str, ir.Value]) -> list[ir.Value]:
    """What globals hold at the end of a block, whose accesses to them are taken out. known: at its beginning."""
    for op in [each.operation for each in block.operations]:
        if op.name in _ACCESSES and (name := global_of(op)) in known:
            if op.name == "util.global.load":
                emit.replace(op, known[name])
            else:
                known[name] = op.operands[0]
                op.erase()
    return list(known.values())


def _begin_apart(module: ir.Module) -> None:
    """Copy what globals begin with that may begin with the same as another one."""
    known: set[ir.Attribute] = set()
    mutable = mutable_globals(module)
    for op in [each.operation for each in module.body.operations if symbol_of(each.operation) in mutable]:
        first = op.attributes.get("initial_value", None)
        if _has_rows(first):
            if first in known:
                _begin_in_initializer(op)
            known.add(first)
    starts = [each for op in module.body.operations for each in ops_in(op.operation, "util.initializer")]
    stores = [store for each in starts for store in ops_in(each, "util.global.store")]
    for number, store in enumerate(stores):
        if global_of(store) in mutable and _has_rows(value := store.operands[0]) and not open_dims(value.type):
            with store.location, ir.InsertionPoint(store):
                store.operands[0] = copied(value, [], number + 1)


def _has_rows(value: ir.Value | ir.Attribute | None) -> bool:
    """Whether it is a tensor that has a dim."""
    if not isinstance(value, ir.Value | ir.DenseElementsAttr | ir.DenseResourceElementsAttr):
        return False
    return isinstance(value.type, ir.RankedTensorType) and value.type.rank > 0


def _begin_in_initializer(variable: ir.Operation) -> None:
    """Have an initializer store what a global begins with."""
    with variable.location, ir.InsertionPoint(variable):
        initializer = emit.op("util.initializer", attributes={"function_type": emit.type_of([])}, regions=1).operation
        initializer.move_after(variable)
        with ir.InsertionPoint(emit.block(initializer)):
            first = variable.attributes["initial_value"]
            value = emit.value("arith.constant", [], first.type, value=first)
            emit.op("util.global.store", [value], attributes={"global": emit.symbol(symbol_of(variable))})
            emit.op("util.return")
    del variable.attributes["initial_value"]


def _apart(store: ir.Operation, value: ir.Value, views: Views) -> ir.Value:
    """What a store is to be given for a value."""
    starts = any(each.name == "util.initializer" for each in around(store))
    is_constant = not starts and isinstance(value.type, ir.RankedTensorType) and is_weight(views, value)
    if is_constant and value.type.rank and (sizes := open_sizes(value)) is not None:
        # Behind a barrier alone IREE finds no memory for it where a result is what the global held before.
        return copied(value, sizes)
    maker = defining_op(memory_of(value))
    is_held = maker is not None and maker.name == "util.global.load"
    return emit.value("util.optimization_barrier", [value], value.type) if is_constant or is_held else value


def _part_stores(stores: Sequence[ir.Operation]) -> None:
    holders: dict[ir.Value, set[ir.Attribute]] = {}
    for number, op in enumerate(stores):
        value = op.operands[0]
        if _has_rows(value) and (sizes := open_sizes(value)) is not None:
            memory = memory_of(value)
            known = holders.setdefault(memory, _keeping(memory, op, stores))
            if known - {op.attributes["global"]}:
                with op.location, ir.InsertionPoint(op):
                    op.operands[0] = copied(value, sizes, number + 1)
            known.add(op.attributes["global"])


def _keeping(memory: ir.Value, store: ir.Operation, stores: Sequence[ir.Operation]) -> set[ir.Attribute]:
    """The global that a value is loaded from, where its function does not store another value there beside a store."""
    maker = defining_op(memory)
    if maker is None or maker.name != "util.global.load":
        return set()
    loaded = maker.attributes["global"]
    others = (each for each in stores if each.block == store.block and memory_of(each.operands[0]) != memory)
    return set() if any(each.attributes["global"] == loaded for each in others) else {loaded}
