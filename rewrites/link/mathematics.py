"""Programs for CPUs get C's mathematics in f64 from the library that kernels get it from.

    math.sin %x : f64                   =>  the executable's object files have one with C's `sin`
    math.erf %x : f64                   =>  the same, and a mark that becomes a call of it

IREE 3.13 has no code of its own for the first ops on f64: it calls C's functions, and nothing has them at the link. The
second it does not even call. Where their inputs are constants it would run them while it compiles, without such files:
that is put off to when the program runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import location_text, ops_in
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.ir.executables import add_object, executables, variants
from opsplice.rewrites.link import scalar_link
from opsplice.rewrites.link.scalar_link import Function
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import libm

# Before the compiler runs what depends on constants alone.
EARLY_PHASE = "preprocessing"
# When each dispatch is an executable for each target, as ops on tensors.
PHASE = "executable-sources"
# When their code is made.
CALL_PHASE = "executable-targets"

_NAMES = "acos asin atan atan2 ceil cos log10 log2 sin sincos tan tanh trunc"
# Those that it does not call either.
_MARKED = {f"math.{name}": name for name in ("cbrt", "erf", "erfc")}
_WITHOUT_CODE = ("arith.remf", *(f"math.{name}" for name in _NAMES.split()), *_MARKED)


def edits() -> tuple[tuple[str, str, Callable[[ir.Module], None]], ...]:
    """The phases at which there is something to do in one compile, and what."""
    functions: dict[str, Function] = {}
    return (
        (EARLY_PHASE, "put mathematics off", put_off),
        (PHASE, "link mathematics", functools.partial(link, functions=functions)),
        (CALL_PHASE, "call mathematics", functools.partial(call, functions=functions)),
    )


def put_off(module: ir.Module) -> None:
    """Keep the compiler from running C's mathematics in a module at `EARLY_PHASE`."""
    for op in ops_in(module.operation, "linalg.generic"):
        if not _calls(op) or any(isinstance(value, ir.BlockArgument) for value in reachable(op.operands, _inputs)):
            continue
        with op.location, ir.InsertionPoint(op):
            for position, value in enumerate(op.operands):
                op.operands[position] = emit.value("util.optimization_barrier", [value], value.type)


def _inputs(value: ir.Value) -> list[ir.Value]:
    return list(value.owner.operands) if isinstance(value, ir.OpResult) else []


def link(module: ir.Module, functions: dict[str, Function]) -> None:
    """Name the library's file in the executables of a module at `PHASE` that need it, and mark what becomes calls.

    functions: gets those that marks stand for, by name. Raises OpspliceError where the library cannot be built.
    """
    with module.context:
        for variant in (each for executable in executables(module) for each in variants(executable)):
            text = str(variant.attributes["target"])
            target = parse_target(text)
            if target.is_cpu and (calls := _calls(variant)):
                library = _library(target.arch, calls[0])
                add_object(variant, library)
                for op in (each for each in calls if each.name in _MARKED):
                    symbol, code = _MARKED[op.name], ((text, library),)
                    function = Function("mathematics", symbol, ("f64",), "f64", code, harmless=(text,))
                    functions[function.name] = function
                    with op.location, ir.InsertionPoint(op):
                        emit.replace(op, scalar_link.leave_mark(function, list(op.operands), op.results[0].type))
    if functions:
        scalar_link.prepare(module, functions)


def call(module: ir.Module, functions: Mapping[str, Function]) -> None:
    """Call the marked functions of a module at `CALL_PHASE`."""
    if functions:
        scalar_link.link(module, functions)


def _library(arch: str, op: ir.Operation) -> Path:
    try:
        return libm.object_file(CpuTarget(archs.normalize(arch)))
    except OpspliceError as error:
        error.message = f"{location_text(op)}: IREE has no code for {op.name} in f64, and {error.message}"
        raise


def _calls(op: ir.Operation) -> list[ir.Operation]:
    return [each for each in ops_in(op, *_WITHOUT_CODE) if isinstance(each.results[0].type, ir.F64Type)]
