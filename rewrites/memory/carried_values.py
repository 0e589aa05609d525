"""Gives each value that a loop or a branch hands on memory of its own where something else still has the one it is in.

    scf.for iter_args(%h = %zeros, %c = %zeros)     =>     %own = (a copy of %zeros)
                                                           scf.for iter_args(%h = %own, %c = %zeros)

IREE 3.13 overwrites what a block is given, even where one value is given to it twice, or is read later: a loop that
makes no turn then gives two results that are one. Nothing is copied in a function that overwrites nothing, nor what has
open sizes that are not known here: those of results of `scf.while`, `scf.if` and blocks.

    scf.for iter_args(%h = %first)     =>     %o = util.optimization_barrier %first
                                              scf.for iter_args(%h = %o)

IREE may put several values of open sizes into one piece of memory, and hands on where each begins there. It rounds that
up, has no bounds of what is rounded up where the sizes may be of any number, and takes it for the 0 of what lies alone
in its memory and is handed on to the same place: a loop then read another value than it was given. What is behind a
barrier begins at 0. To IREE the size of what a global holds is open, too, and so is that of all that is handed on to
the same place.

    %t = stream.resource.dealloca origin await(%s) => %given     =>     %t is %s

IREE 3.13 gives back what a block was given once nothing reads it there: a constant, where a loop that begins with it
makes no turn, or an input; the next call then reads what is no longer there. It also does not see what lies in the same
memory behind a barrier. Who refers to memory last gives it back anyway.

    util.global.store %b, @a     =>     %o = util.optimization_barrier %b
                                        util.global.store %o, @a

It also takes a global that is only ever given what another one holds for that other one, whenever that was: after
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

import itertools
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import around, global_of, last_op, ops_in, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op
from opsplice.matchers.search.uses import is_weight
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import open_dims, segments
from opsplice.rewrites.memory.kept_values import WRITING, memory_of, overwritten, users

# When no global is taken for another yet.
GLOBALS_PHASE = "preprocessing"
# When it is said where memory is given back.
MEMORY_PHASE = "stream"

_LOOPS = ("scf.for", "scf.while")
_ACCESSES = ("util.global.load", "util.global.store")
_JUMPS = ("cf.br", "cf.cond_br")
_GIVING = (*_LOOPS, *_JUMPS, "scf.yield", "scf.condition")
# Which of their groups of operands are the sizes of the result.
_SIZES = {"flow.dispatch": 3, "flow.tensor.reshape": 2, "flow.tensor.update": 1}


def part(module: ir.Module) -> None:
    """Copy what is handed on and still read elsewhere. The module must be at `kept_values.PHASE`, its values kept."""
    with module.context:
        mutable = _mutable(module)
        for function in ops_in(module.operation, "util.func"):
            giving = ops_in(function, *_GIVING)
            if any(overwritten(op) for op in ops_in(function, *WRITING)):
                for op in giving:
                    _part(op)
            loads = any(global_of(op) in mutable for op in ops_in(function, "util.global.load"))
            for op in giving:
                _begin_at_zero(op, closed_too=loads)
            _part_stores(ops_in(function, "util.global.store"))


def part_globals(module: ir.Module) -> None:
    """Keep globals apart that are given what others hold, or constants. The module must be at `GLOBALS_PHASE`."""
    with module.context:
        _begin_apart(module)
        views = Views()
        for op in ops_in(module.operation, "util.global.store"):
            with op.location, ir.InsertionPoint(op):
                op.operands[0] = _apart(op, op.operands[0], views)


def carry_globals(module: ir.Module) -> None:
    """Have loops and branches hand on what globals hold. The module must be at `GLOBALS_PHASE`.

    Those that call functions stay as they are.
    """
    with module.context:
        kinds = _mutable(module)
        for op in ops_in(module.operation, *_LOOPS, "scf.if") if kinds else ():
            accesses = [each for each in ops_in(op, *_ACCESSES) if global_of(each) in kinds]
            if accesses and not ops_in(op, "util.call"):
                _carry(op, {name: kinds[name] for name in dict.fromkeys(map(global_of, accesses))})


def _mutable(module: ir.Module) -> dict[str, ir.Type]:
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
    for result, made in zip(op.results, new.results, strict=False):
        result.replace_all_uses_with(made)
    op.erase()


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


def keep_memory(module: ir.Module) -> None:
    """Do not give back memory of unknown owners. The module must be at `MEMORY_PHASE`."""
    with module.context:
        for op in ops_in(module.operation, "stream.resource.dealloca"):
            if "prefer_origin" in op.attributes:
                time = op.results[0].type
                awaited = [value for value in op.operands if value.type == time]
                with op.location, ir.InsertionPoint(op):
                    emit.replace(op, awaited[0] if awaited else emit.value("stream.timepoint.immediate", [], time))


def _begin_apart(module: ir.Module) -> None:
    """Copy what globals begin with that may begin with the same as another one."""
    known: set[ir.Attribute] = set()
    mutable = _mutable(module)
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
                store.operands[0] = _copied(value, [], number + 1)


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
    if is_constant and value.type.rank and (sizes := _sizes(value)) is not None:
        # Behind a barrier alone IREE finds no memory for it where a result is what the global held before.
        return _copied(value, sizes)
    maker = defining_op(memory_of(value))
    is_held = maker is not None and maker.name == "util.global.load"
    return emit.value("util.optimization_barrier", [value], value.type) if is_constant or is_held else value


def _part(op: ir.Operation) -> None:
    given: set[ir.Value] = set()
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and value.type.rank:
            memory, sizes = memory_of(value), _sizes(value)
            if sizes is not None and (memory in given or _is_used_after(op, memory)):
                with op.location, ir.InsertionPoint(op):
                    op.operands[n] = _copied(value, sizes)
            given.add(memory)


def _part_stores(stores: Sequence[ir.Operation]) -> None:
    """Copy what is stored in a global while another one holds it."""
    holders: dict[ir.Value, set[ir.Attribute]] = {}
    for number, op in enumerate(stores):
        value = op.operands[0]
        if _has_rows(value) and (sizes := _sizes(value)) is not None:
            memory = memory_of(value)
            known = holders.setdefault(memory, _keeping(memory, op, stores))
            if known - {op.attributes["global"]}:
                with op.location, ir.InsertionPoint(op):
                    op.operands[0] = _copied(value, sizes, number + 1)
            known.add(op.attributes["global"])


def _keeping(memory: ir.Value, store: ir.Operation, stores: Sequence[ir.Operation]) -> set[ir.Attribute]:
    """The global that a value is loaded from, where its function does not store another value there beside a store."""
    maker = defining_op(memory)
    if maker is None or maker.name != "util.global.load":
        return set()
    loaded = maker.attributes["global"]
    others = (each for each in stores if each.block == store.block and memory_of(each.operands[0]) != memory)
    return set() if any(each.attributes["global"] == loaded for each in others) else {loaded}


def _begin_at_zero(op: ir.Operation, *, closed_too: bool) -> None:
    for n, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and (closed_too or open_dims(value.type)):
            with op.location, ir.InsertionPoint(op):
                op.operands[n] = emit.value("util.optimization_barrier", [value], value.type)


def _copied(value: ir.Value, open_sizes: Sequence[ir.Value], more: int = 1) -> ir.Value:
    """The same in memory of its own. IREE drops copies of whole values, so this one is written into a longer one.

    more: by how many rows; it takes copies of one value that are as long for one.
    """
    kind = ir.RankedTensorType(value.type)
    rest = iter(open_sizes)
    sizes = [next(rest) if kind.is_dynamic_dim(n) else emit.index(size) for n, size in enumerate(kind.shape)]
    length = emit.plus(sizes[0], emit.index(more))
    shape = [length if kind.is_dynamic_dim(0) else kind.shape[0] + more, *kind.shape[1:]]
    longer = emit.tensor_type(shape, kind.element_type)
    longer_sizes = [length, *open_sizes[1:]] if kind.is_dynamic_dim(0) else list(open_sizes)
    start = [emit.index(0)] * kind.rank
    empty = emit.value("flow.tensor.empty", longer_sizes, longer)
    groups = [[empty], longer_sizes, start, [value], open_sizes]
    written = emit.grouped("flow.tensor.update", groups, [longer]).results[0]
    filled = emit.value("util.optimization_barrier", [written], longer)
    groups = [[filled], longer_sizes, start, sizes, open_sizes]
    return emit.grouped("flow.tensor.slice", groups, [kind]).results[0]


def _sizes(value: ir.Value) -> list[ir.Value] | None:
    """The open sizes of a value, None where they are not known: the op that makes it has them."""
    if not (count := open_dims(value.type)):
        return []
    if isinstance(value, ir.BlockArgument):
        loop = value.owner.owner.operation
        return _sizes(loop.operands[value.arg_number + 2]) if loop.name == "scf.for" else None
    maker = value.owner.operation
    if maker.name == "scf.for":
        return _sizes(maker.operands[value.result_number + 3])  # no turn changes them
    if maker.name == "hal.tensor.import":
        return list(maker.operands)[1 : 1 + count]
    if maker.name not in _SIZES:
        return None
    skipped = sum(open_dims(each.type) for each in list(maker.results)[: value.result_number])
    return segments(maker)[_SIZES[maker.name]][skipped : skipped + count]


def _is_used_after(op: ir.Operation, memory: ir.Value) -> bool:
    """Whether anything may read this memory once an op has given it away."""
    block = memory.owner if isinstance(memory, ir.BlockArgument) else memory.owner.operation.block
    makers = list(around(block.owner.operation))
    again = op.name in _JUMPS and op.block != block  # it may be given away more than once
    again |= any(each.name in _LOOPS and each not in makers for each in itertools.islice(around(op), 1, None))
    return again or any(user != op and _may_follow(user, op) for user in users(memory))


def _may_follow(user: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op may run after another one. Of two branches of an `scf.if` only one runs."""
    holders = {each.block: each for each in itertools.takewhile(lambda o: o.parent is not None, around(op))}
    each = next(each for each in around(user) if each.block in holders)
    other = holders[each.block]
    if each == other:
        return bool(each == op or each.name != "scf.if")
    return bool(other.is_before_in_block(each))
