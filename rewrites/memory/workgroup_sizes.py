"""Workgroups are counted from the sizes that a dispatch has.

    count(%b, %n, %n)                                      count(%b, %n, %n)
    %x = dispatch.workload.ordinal %rows, 1           =>   %x = dispatch.workload.ordinal %rows, 1
    %y = dispatch.workload.ordinal %rows, 0                %y = dispatch.workload.ordinal %rows, 1

A dispatch counts its workgroups from a list of sizes, and says of each size in its code which of the list it is. Where
two of a list prove equal, IREE 3.13 (`iree-stream-fold-uniform-operands`) keeps one, and says of the other that it is
the first of the list: where that is smaller, part of the result is never written. It is so where a program computes one
size in two ways, as PyTorch does for a cache that grows, whose heads are repeated for a batch of any size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.rewrites.memory.aligned_buffers import segments

# When equal sizes were merged, and nothing is counted yet.
PHASE = "stream"

_COUNT, _ORDINAL = "iree_tensor_ext.dispatch.workgroup_count_from_slice", "iree_tensor_ext.dispatch.workload.ordinal"
_BINDING = "!stream.binding"
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
            counts = ops_in(export, _COUNT)
            function = functions.get(ir.FlatSymbolRefAttr(export.attributes["function_ref"]).value)
            if called and counts and function is not None:
                _mend(function, [ir.BlockArgument(each).arg_number for each in counts[0].operands], called)


def _mend(function: ir.Operation, counted: Sequence[int], sites: Sequence[ir.Operation]) -> None:
    """counted: which size of a site's list each of those is that workgroups are counted from."""
    if len(set(counted)) == len(counted):
        return
    block = function.regions[0].blocks[0]
    passed = [each.arg_number for each in block.arguments if str(each.type) != _BINDING]
    for op in ops_in(function, _ORDINAL):
        words = [passed.index(each) for each in sorted(set(_arguments(op.operands[0])))]
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
    is_constant = not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"
    return None if is_constant else value
