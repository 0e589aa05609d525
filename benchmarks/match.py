"""What finding costs, by the size of the program and the number of rules, against IREE's and MLIR's own matchers.

    python -m benchmarks.match [--ops 1000,10000,100000] [--rules 1,10,100,1000]

The program is a llama-like layer, cloned; the rules are those of `benchmarks.rules`, of which only the first is in the
program. `foreach_match` runs the equivalent transform spec, PDL the same ops without their bodies, all in this process
on one thread. Times are the processor's, for finding alone: rules are read and made ready beforehand on all sides.
A peer that would take more than half a minute is left out.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence

from iree.compiler import ir, rewrite
from iree.compiler.api import Session
from iree.compiler.dialects.transform import interpreter

from benchmarks import payload, rules
from opsplice.matchers import engine
from opsplice.matchers.graph import compile_pattern
from opsplice.spec_lang.loader import load_text

OPS, RULES = (1_000, 10_000, 100_000), (1, 10, 100, 1_000)
# How many ops times rules the slow peer is given.
_MOST_WORK = 20_000_000


def main(sizes: Sequence[int] = OPS, counts: Sequence[int] = RULES) -> None:
    session = Session()
    context = session.context
    context.enable_multithreading(False)
    sides = [_Rules(count, context) for count in counts]
    ops_in_layer = _count(ir.Module.parse(payload.program(1), context=context))
    print(f"\nfinding: microseconds of processor time per op; each layer has {ops_in_layer} ops and one match")
    print(f"{'ops':>9}{'rules':>7}{'opsplice':>10}{'explain on':>12}{'':7}{'foreach_match':>15}{'':8}{'PDL':>8}")
    for size in sizes:
        layers = max(1, round(size / ops_in_layer))
        module = ir.Module.parse(payload.program(layers), context=context)
        for side in sides:
            print(side.row(module, layers, layers * ops_in_layer), flush=True)
        del module
        print(f"{'':9}{_memory(layers, counts[0])}", flush=True)


class _Rules:
    """The same rules for all sides, ready to run."""

    def __init__(self, count: int, context: ir.Context) -> None:
        self.count = count
        self.patterns = _patterns(count)
        self.transform = ir.Module.parse(rules.transform_spec(count), context=context)
        self.entry = self.transform.body.operations[len(self.transform.body.operations) - 1].operation
        self.found = 0
        self.pdl = ir.Module.parse(rules.pdl(count, context), context=context)  # not kept alive by what is made of it
        pdl = rewrite.PDLModule(self.pdl)
        pdl.register_constraint_function("found", self._found)
        pdl.register_rewrite_function("never", lambda *_: None)
        self.automaton = pdl.freeze()

    def _found(self, *_: object) -> bool:
        self.found += 1
        return True  # it does not hold, so that nothing is rewritten

    def row(self, module: ir.Module, layers: int, ops: int) -> str:
        rounds = 7 if ops < 50_000 else 3
        assert len(engine.find(module, self.patterns, near_misses=0).matches) == layers
        ours, explained = _times(
            rounds,
            lambda: engine.find(module, self.patterns, near_misses=0),
            lambda: engine.find(module, self.patterns),
        )
        line = f"{ops:9}{self.count:7}{_each(ours, ops)}{_each(explained, ops):>12}  x{explained / ours:<4.1f}"
        self.found = 0
        (automaton,) = _times(1, lambda: rewrite.walk_and_apply_patterns(module.operation, self.automaton))
        assert self.found >= layers, "the automaton finds the matches too"
        if ops * self.count > _MOST_WORK:
            return f"{line}{'':23}{_each(automaton, ops):>8}  x{ours / automaton:.2f}"
        (foreach,) = _times(1 if ops * self.count > _MOST_WORK // 20 else 3, lambda: self._foreach(module))
        marked = _marked(module)
        assert marked == layers, f"foreach_match finds {marked} of {layers}"
        return (
            f"{line}{_each(foreach, ops):>15}  x{ours / foreach:<5.3f}"
            f"{_each(automaton, ops):>8}  x{ours / automaton:.2f}"
        )

    def _foreach(self, module: ir.Module) -> None:
        interpreter.apply_named_sequence(module.operation, self.entry, self.transform.operation)


def _times(rounds: int, *runs: Callable[[], object]) -> list[float]:
    """The median processor time of each of some functions, which are called in turn, after one call that is not
    counted."""
    taken: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, found in zip(runs, taken, strict=True):
            start = time.thread_time()
            run()
            if number or rounds == 1:
                found.append(time.thread_time() - start)
    return [statistics.median(found) for found in taken]


def _each(seconds: float, ops: int) -> str:
    return f"{seconds / ops * 1e6:10.3f}"


def _memory(layers: int, count: int) -> str:
    """What `memory` says, in a process of its own: memory that is free already would hide what is taken."""
    call = f"from benchmarks.match import memory; print(memory({layers}, {count}))"
    return subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True).stdout.strip()


def memory(layers: int, count: int) -> str:
    """What the program takes, and what finding takes on top of it, its matches among that."""
    session = Session()
    patterns = _patterns(count)
    engine.find(ir.Module.parse(payload.program(2), context=session.context), patterns)
    text = payload.program(layers)
    start = _resident()
    module = ir.Module.parse(text, context=session.context)
    before = _resident()
    _forget_peak()
    found = engine.find(module, patterns)
    assert len(found.matches) == layers
    grown, used = before - start, _peak() - before
    return f"memory: the program {grown / 1e6:.1f} MB, finding {used / 1e6:.1f} MB more, {used / max(grown, 1):.1%}"


def _patterns(count: int) -> engine.Patterns:
    spec = load_text(rules.ours(count))
    return engine.Patterns([g for p in spec.patterns.values() for g in compile_pattern(p, spec.patterns, spec.types)])


def _count(module: ir.Module) -> int:
    count = 0

    def visit(_op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return count - 1


def _marked(module: ir.Module) -> int:
    """How many ops carry the mark; it is taken off."""
    count = 0

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        if "found" in op.attributes:
            count += 1
            del op.attributes["found"]
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return count


# ---- memory, as Linux counts it ------------------------------------------------------------------------------------


def _status(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def _resident() -> int:
    return _status("VmRSS")


def _peak() -> int:
    return _status("VmHWM")


def _forget_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", type=_numbers, default=OPS, help="sizes of the program, with commas")
    parser.add_argument("--rules", type=_numbers, default=RULES, help="numbers of rules, with commas")
    arguments = parser.parse_args()
    main(arguments.ops, arguments.rules)
