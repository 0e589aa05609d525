"""`otherwise keep` and `when`: a branch for the kernel, and one for the compiler's own code or other kernels.

    %r = negf(absf(mulf(%a, %b)))      =>      %kept = hal.device.query<%device> key("hal.executable.format" :: "...")
                                               %r = scf.if %kept { a copy of the match }
                                                    else         { a copy of the match, which the kernel replaces }

The program asks the device that it runs on, once per load (IREE keeps the answer): is it one of the targets without an
artifact? For a function that a plugin may have it asks in the same way whether one has it (`optional_import.py`). What
a rule says of sizes with `when` it compares, each time; the other branch is then for the kernels of later rules. The
kernel's branch is the match again, so that any approach can take it from there, and the other branch is compiled like
the rest of the program.

It must not know how a kernel is called.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.ir.op_names import around
from opsplice.matchers.search.matches import Binding, Match
from opsplice.matchers.search.uses import read_by
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.approaches import insertion
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import ProgramTarget, device_globals
from opsplice.rewrites.ir.placing import Placer, anchor_of
from opsplice.rewrites.link import optional_import
from opsplice.rewrites.plan import workgroups
from opsplice.rewrites.plan.actions import (
    Action,
    Argument,
    Buffer,
    Insertion,
    KernelCall,
    Output,
    Scalar,
    Written,
    Zeros,
)
from opsplice.spec_lang.dims import dim_conditions

# What holds values of the program, besides tuples, mappings and layouts.
_MADE_OF_VALUES = (KernelCall, Buffer, Scalar, Output, Zeros, Written, Argument, Binding, DimSize)

# The query by which IREE itself chooses between the variants of an executable.
_QUERY = "hal.executable.format"


def obstacle(module: ir.Module, targets: Sequence[ProgramTarget]) -> str:
    """Why a program cannot tell its targets apart when it runs, "" if it can."""
    devices = len(device_globals(module))
    if devices == 0:
        return "the devices of the program are not chosen yet, so it cannot ask which target it runs on"
    if devices > 1:
        return "the program is for several devices"
    if len({t.format for t in targets}) < len(targets):
        return "targets of the same format cannot be told apart when the program runs"
    return ""


def is_split(call: Action) -> bool:
    """Whether what replaces a match may stand beside it."""
    return isinstance(call, KernelCall) and call.is_split


def split(module: ir.Module, calls: Sequence[Action]) -> tuple[Action, ...]:
    """Move each match into a branch that is not taken on targets without an artifact, nor without an optional plugin,
    nor for other sizes than the call is for. What else is to be done with the match is done in the other branch.

    Where a call keeps targets to the compiler, the module's targets must have no `obstacle`.
    Returns the calls in the same order, for the matches as they are now; those given are no longer valid.
    """
    splitter = _Splitter(module)
    with emit.building(module):
        groups = itertools.groupby(calls, lambda call: call.match)
        return tuple(itertools.chain.from_iterable(splitter.calls(list(group)) for _, group in groups))


class _Splitter:
    """`replaced` holds what took the place of the roots of earlier matches."""

    def __init__(self, module: ir.Module) -> None:
        self.module = module
        self.replaced: dict[Any, ir.Value] = {}

    def calls(self, calls: Sequence[Action]) -> list[Action]:
        """calls: for one match. All but the last are for some sizes."""
        return self._branches([_on(call, self.replaced) for call in calls])

    def _branches(self, calls: Sequence[Action]) -> list[Action]:
        call, *others = calls
        if not isinstance(call, KernelCall) or not is_split(call):
            return [call]
        match = call.match
        anchor = anchor_of(match, whole=True)
        with ir.InsertionPoint(anchor), anchor.location:
            kinds = [root.type for root in match.roots]
            branch = emit.op("scf.if", [self._condition(call)], kinds, regions=2)
            apart = _copy_into(branch.regions[0].blocks.append(), match)
            copies = _copy_into(branch.regions[1].blocks.append(), match)
            # Where later rounds find the match there, it is not for this rule.
            for root in match.roots:
                insertion.mark(apart[root].owner.operation, call)
            # The size of the branch's result is stated, because it is not to be seen from outside.
            axes = Placer(self.module).axes
            results = [_sized(v, axes(o.sizes)) for v, o in zip(branch.results, call.made, strict=True)]
        for root, result in zip(match.roots, results, strict=True):
            root.replace_all_uses_except(result, _users_inside(root, match.ops))
            self.replaced[root] = result
        # The originals go the way of the copies: away, unless something else uses them.
        found = [_on(call, copies, match.ops)]
        return [*found, *self._branches([_on(other, apart) for other in others])] if others else found

    def _condition(self, call: KernelCall) -> ir.Value:
        """Whether the device runs the compiler's code for the match, no plugin has what the call wants, or sizes are
        others than the call is for.
        """
        flag = ir.IntegerType.get_signless(1)
        asked = []
        if call.is_optional:
            function = optional_import.lacks(self.module, call.symbol, call.targets, call.imported)
            others = any(target.format not in call.imported for target in call.targets)
            runs = self._runs(call.imported) if others else emit.constant(1, flag)
            asked.append(emit.value("util.call", [runs], flag, callee=ir.FlatSymbolRefAttr.get(function)))
        if call.kept:
            asked.append(self._runs([target.format for target in call.kept]))
        if call.when is not None:
            names = dim_conditions.names_in(call.when)
            sizes = {name: Placer(self.module).size(size) for name, size in call.match.dims.items() if name in names}
            holds = workgroups.condition(call.when, {name: emit.size(size) for name, size in sizes.items()})
            asked.append(emit.value("arith.xori", [holds, emit.constant(1, flag)], flag))
        return _either(asked)

    def _runs(self, formats: Sequence[str]) -> ir.Value:
        """Whether the device runs code of one of some formats."""
        flag, device = ir.IntegerType.get_signless(1), ir.FlatSymbolRefAttr.get(device_globals(self.module)[0])
        held = emit.value("util.global.load", [], ir.Type.parse("!hal.device"), **{"global": device})
        default = ir.IntegerAttr.get(flag, 0)
        attributes = [{"category": emit.text(_QUERY), "key": emit.text(f), "default_value": default} for f in formats]
        known = [emit.op("hal.device.query", [held], [flag, flag], each).results[1] for each in attributes]
        # In a branch where the answer was known, IREE would drop the code for all other targets, and then an
        # executable that lacks a device's code keeps the program from loading there.
        return emit.value("util.optimization_barrier", [_either(known)], flag)


def _either(flags: Sequence[ir.Value]) -> ir.Value:
    return functools.reduce(lambda one, other: emit.value("arith.ori", [one, other], one.type), flags)


# ---- copies of a match ---------------------------------------------------------------------------------------------


def _copy_into(block: ir.Block, match: Match) -> dict[Any, ir.Value]:
    """Copy a match's ops into an empty block that yields its roots. Returns the copy of each result."""
    copies: dict[Any, ir.Value] = {}
    members = set(match.ops)
    with ir.InsertionPoint(block):
        for root in match.roots:
            _copy(root.owner.operation, members, copies)
        # An op that no root needs may still be among them; it is only erased.
        for op in match.ops:
            _copy(op, members, copies)
        emit.op("scf.yield", [copies[root] for root in match.roots])
    return copies


def _copy(op: ir.Operation, members: set[Any], copies: dict[Any, ir.Value]) -> None:
    """Copy an op at the insertion point, after what it uses of the match."""
    if op.results[0] in copies:
        return
    for value in read_by(op):
        if isinstance(value.owner, ir.Block) or value.owner.operation not in members:
            continue
        _copy(value.owner.operation, members, copies)
    emit.copy(op, copies)


def _users_inside(value: Any, ops: Sequence[Any]) -> list[ir.Operation]:
    """The users of a value that are among these ops, or in their regions."""
    users, members = [use.owner.operation for use in value.uses], set(ops)
    return [user for user in users if not members.isdisjoint(around(user))]


def _sized(value: ir.Value, sizes: Sequence[ir.Value]) -> ir.Value:
    return emit.value("flow.tensor.tie_shape", [value, *sizes], value.type) if sizes else value


# ---- calls on other values -------------------------------------------------------------------------------------------


def _on(call: Action, values: Mapping[Any, ir.Value], ops: Sequence[Any] = ()) -> Action:
    """What is done with a match on other values, with a copy of the match if its roots are among these.

    ops: what goes away with the copy.
    """
    inputs, dims = _exchanged(call.match.inputs, values), _exchanged(call.match.dims, values)
    match = dataclasses.replace(call.match, inputs=inputs, dims=dims)
    if match.roots[0] in values:
        copied = (values[result].owner.operation for op in match.ops for result in op.results)
        roots = tuple(values[root] for root in match.roots)
        match = dataclasses.replace(match, roots=roots, ops=tuple(dict.fromkeys((*ops, *copied))))
    mapped = call if isinstance(call, Insertion) else _exchanged(call, values)
    return dataclasses.replace(mapped, match=match)


def _exchanged(old: Any, values: Mapping[Any, ir.Value]) -> Any:
    """What calls and matches are made of, with other payload values."""
    if isinstance(old, ir.Value):
        return values.get(old, old)
    if isinstance(old, tuple):
        return tuple(_exchanged(each, values) for each in old)
    if isinstance(old, Mapping):
        return {name: _exchanged(each, values) for name, each in old.items()}
    if isinstance(old, Layout):
        return old.renamed(lambda atom: _exchanged(atom, values))
    if not isinstance(old, _MADE_OF_VALUES):
        return old
    return dataclasses.replace(old, **{f.name: _exchanged(getattr(old, f.name), values) for f in fields(old)})
