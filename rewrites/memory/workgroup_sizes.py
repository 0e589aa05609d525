"""Workgroups are counted from the sizes that a dispatch has.

    count(%b, %n, %n)                                      count(%b, %n, %n)
    %x = dispatch.workload.ordinal %rows, 1           =>   %x = dispatch.workload.ordinal %rows, 1
    %y = dispatch.workload.ordinal %rows, 0                %y = dispatch.workload.ordinal %rows, 1

A dispatch counts its workgroups from a list of sizes, and says of each size in its code which of the list it is. Where
two of a list prove equal, IREE 3.13 (`iree-stream-fold-uniform-operands`) keeps one, and says of the other that it is
the first of the list: where that is smaller, part of the result is never written. It is so where a program computes one
size in two ways, as PyTorch does for a cache that grows, whose heads are repeated for a batch of any size.

A size may also be no part of the list, such as that of a slice which is written into a larger tensor, and which the
program computes for itself. IREE 3.13 counts no workgroups then, and compiles no such dispatch. It becomes the last of
the list:

    count(%n, %m)                                     count(%n, %m, %k)
    dispatch.tensor.load ... sizes = [%z]      =>     %y = dispatch.workload.ordinal %z, 2
                                                      dispatch.tensor.load ... sizes = [%y]

Where such a size is computed in the dispatch, this holds for what it is computed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.ir import emit
from opsplice.rewrites.memory.aligned_buffers import segments

# When equal sizes were merged, and nothing is counted yet.
PHASE = "stream"

_COUNT, _ORDINAL = "iree_tensor_ext.dispatch.workgroup_count_from_slice", "iree_tensor_ext.dispatch.workload.ordinal"
_BINDING = "!stream.binding"
# What reads and writes tensors in a dispatch, with the number of its group of operands that are sizes.
_SIZES = {"iree_tensor_ext.dispatch.tensor.load": 3, "iree_tensor_ext.dispatch.tensor.store": 4}
# What sizes go through on their way into a dispatch, which takes words of 32 bits, and inside of it.
_PACKING = ("arith.index_cast", "arith.index_castui", "arith.extui", "arith.trunci", "arith.shrui")
_UNPACKING = (*_PACKING, "arith.shli", "arith.ori")


def mend(module: ir.Module) -> None:
    """Change a module at `PHASE` such that each size of a dispatch is counted as the one that it is."""
    sites: dict[str, list[ir.Operation]] = {}
    for site in ops_in(module.operation, "stream.cmd.dispatch"):
        for entry in ir.ArrayAttr(site.attributes["entry_points"]):
            sites.setdefault(str(entry), []).append(site)
    for executable in ops_in(module.operation, "stream.executable"):
        functions = {symbol_of(each): each for each in ops_in(executable, "func.func")}
        for export in ops_in(executable, "stream.executable.export"):
            called = sites.get(f"@{symbol_of(executable)}::@{symbol_of(export)}", [])
            function = functions.get(ir.FlatSymbolRefAttr(export.attributes["function_ref"]).value)
            if called and function is not None and (counts := ops_in(export, _COUNT)):
                called = _list_all(function, export, counts[0], called)
                (count,) = ops_in(export, _COUNT)
                _mend(function, [ir.BlockArgument(each).arg_number for each in count.operands], called)


def _list_all(
    function: ir.Operation, export: ir.Operation, count: ir.Operation, sites: list[ir.Operation]
) -> list[ir.Operation]:
    """Add to the list what tensors are read and written in, and is no part of it; the sites as they are then."""
    for size in _unlisted(function):
        words = _words_of(function, size)
        found = [_one(site, words) for site in sites]
        values = [value for value in found if value is not None]
        are_alone = all(len(ir.ArrayAttr(site.attributes["entry_points"])) == 1 for site in sites)
        if not words or not are_alone or len(values) < len(found):
            continue
        number = len(segments(sites[0])[0])
        with size.owner.location, ir.InsertionPoint.after(size.owner):
            _list(size, number)
        with count.location, ir.InsertionPoint(count):
            argument = export.regions[0].blocks[0].add_argument(ir.IndexType.get(), count.location)
            more = emit.op(_COUNT, [*count.operands, argument], [each.type for each in count.results])
        emit.replace(count, *more.results)
        count = more
        sites = [_with_size(site, value) for site, value in zip(sites, values, strict=True)]
    return sites


def _list(size: ir.Value, number: int) -> None:
    """Say of a size which of the list it is, in the code of a dispatch."""
    index, attributes = ir.IndexType.get(), {"ordinal": ir.IntegerAttr.get(ir.IndexType.get(), number)}
    if size.type == index:
        first = emit.op(_ORDINAL, [size], [index], attributes)
        size.replace_all_uses_except(first.results[0], first)
    else:
        first = emit.op("arith.index_cast", [size], [index])
        listed = emit.op(_ORDINAL, [first.results[0]], [index], attributes)
        size.replace_all_uses_except(emit.value("arith.index_cast", [listed.results[0]], size.type), first)


def _unlisted(function: ir.Operation) -> list[ir.Value]:
    """What is passed, and no part of the list, and what tensors are read and written in is computed from it."""

    def made_of(size: ir.Value) -> Sequence[ir.Value]:
        return () if _is_known(size) or _is_passed(size) else list(size.owner.operands)

    sizes = (value for op in ops_in(function, *_SIZES) for value in segments(op)[_SIZES[op.name]])
    return [size for size in reachable(sizes, made_of) if not _is_known(size) and _is_passed(size)]


def _is_known(size: ir.Value) -> bool:
    """Whether it is a part of the list, or what the code of a dispatch is given."""
    return isinstance(size.owner, ir.Block) or size.owner.name == _ORDINAL


def _is_passed(size: ir.Value) -> bool:
    """Whether it is unpacked from words, and nothing is computed from it yet."""
    if isinstance(size.owner, ir.Block):
        return True
    if size.owner.name == "util.assume.int":
        return _is_passed(size.owner.operands[ir.OpResult(size).result_number])
    if size.owner.name not in _UNPACKING:
        return False
    return all(_is_constant(each) or _is_passed(each) for each in size.owner.operands)


def _words_of(function: ir.Operation, size: ir.Value) -> list[int]:
    """Which words of those that a site passes a size in the code of a dispatch is unpacked from."""
    block = function.regions[0].blocks[0]
    passed = [each.arg_number for each in block.arguments if str(each.type) != _BINDING]
    return [passed.index(each) for each in sorted(set(_arguments(size)))]


def _one(site: ir.Operation, words: Sequence[int]) -> ir.Value | None:
    """The one number that a site passes in some words."""
    _, operands, *_ = segments(site)
    found = {_packed(operands[word]) for word in words} - {None}
    return found.pop() if len(found) == 1 else None


def _with_size(site: ir.Operation, size: ir.Value) -> ir.Operation:
    """A site with one more size in its list."""
    sizes, *others = segments(site)
    if not isinstance(size.type, ir.IndexType):
        here = ir.InsertionPoint.at_block_begin(size.owner) if isinstance(size.owner, ir.Block) else None
        with site.location, here or ir.InsertionPoint.after(size.owner):
            size = emit.value("arith.index_cast", [size], ir.IndexType.get())
    with site.location, ir.InsertionPoint(site):
        made = emit.grouped(site.name, [[*sizes, size], *others], attributes=emit.attributes_of(site))
    site.erase()
    return made


def _mend(function: ir.Operation, counted: Sequence[int], sites: Sequence[ir.Operation]) -> None:
    """counted: which size of a site's list each of those is that workgroups are counted from."""
    if len(set(counted)) == len(counted):
        return
    for op in ops_in(function, _ORDINAL):
        words = _words_of(function, op.operands[0])
        fitting = [at for at in range(len(counted)) if words and all(_is(site, words, counted[at]) for site in sites)]
        if fitting and ir.IntegerAttr(op.attributes["ordinal"]).value not in fitting:
            op.attributes["ordinal"] = ir.IntegerAttr.get(op.attributes["ordinal"].type, fitting[0])


def _arguments(value: ir.Value) -> Iterator[int]:
    """The arguments of a function that a size in it is unpacked from."""
    if isinstance(value.owner, ir.Block):
        yield ir.BlockArgument(value).arg_number
    elif value.owner.name == "util.assume.int":
        yield from _arguments(value.owner.operands[ir.OpResult(value).result_number])
    elif value.owner.name in _UNPACKING:
        for operand in value.owner.operands:
            yield from _arguments(operand)


def _is(site: ir.Operation, words: Sequence[int], size: int) -> bool:
    """Whether what a site passes in some words is one of the sizes of its list."""
    sizes, operands, *_ = segments(site)
    return {_packed(operands[word]) for word in words} - {None} == {_packed(sizes[size])}


def _packed(value: ir.Value) -> ir.Value | None:
    """What a word is made of; None for a constant, such as an upper half that is always 0."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _PACKING:
        value = value.owner.operands[0]
    return None if _is_constant(value) else value


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"
