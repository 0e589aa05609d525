"""What finding costs, with the near misses that a compile tells, beside the compile, on exports of real models.

    python -m benchmarks.match [--models llama,bert,resnet,flax] [--ops 1000,5000,20000] [--rules 1,100,1000]

The models are those of `benchmarks.programs.exports`; a model whose frontend is not installed is left out. The rules
are those of `benchmarks.programs.made_up_rules`, then a rule for each pattern of `opsplice:nn` (`library`), and those
of `opsplice_kernels` (`kernels`). `foreach_match` runs a transform spec with the same rules in this process. Times are
the processor's. Rules are read and made ready beforehand on both sides; what that takes for `kernels` is said first.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from iree.compiler import ir
from iree.compiler.dialects.transform import interpreter

from benchmarks.programs import exports, made_up_rules
from opsplice.compiling import outcomes
from opsplice.compiling.splice import graphs_of
from opsplice.frontends.source import ModuleSource
from opsplice.matchers.explain.diagnosis import Explainer
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_patterns
from opsplice.matchers.terms.views import Views
from opsplice.pipeline.compiler import Compilation
from opsplice.pipeline.phases import END, PHASE
from opsplice.spec_lang.loading.libraries import OWN
from opsplice.spec_lang.loading.loader import LoadedSpec, load, load_text

OPS, RULES = (1_000, 5_000, 20_000), (1, 100, 1_000)
LIBRARY, KERNELS = "library", "kernels"
_KERNELS = Path(__file__).parents[1] / "kernels" / "opsplice_kernels" / "opsplice_kernels.splice"
_ROUNDS = 3
# How many ops times rules `foreach_match` is given: half a minute's work.
_MOST_WORK = 20_000_000


def main(
    models: Sequence[str] = tuple(exports.MODELS), sizes: Sequence[int] = OPS, counts: Sequence[int] = RULES
) -> None:
    sides = {str(count): _patterns(load_text(made_up_rules.ours(count))) for count in counts}
    sides[LIBRARY] = _patterns(load(OWN.spec("nn")))
    sides[KERNELS] = _made_ready()
    print("\nfinding and compiling: processor time")
    print("the rules `library` are one for each pattern of opsplice:nn, `kernels` those of opsplice_kernels")
    print(
        f"{'model':8}{'ops':>7}{'compile':>11}{'rules':>9}{'matches':>9}{'find':>11}{'of it':>8}{'foreach_match':>15}"
    )
    for name in models:
        try:
            smaller, larger = (_count(exports.MODELS[name](layers)) for layers in exports.FEW)
        except ImportError as missing:
            print(f"{name:8}skipped: {missing.name} is not installed")
            continue
        per_layer = (larger - smaller) / (exports.FEW[1] - exports.FEW[0])
        for size in sizes:
            source = exports.MODELS[name](max(1, round(exports.FEW[0] + (size - smaller) / per_layer)))
            for row in _rows(source, sides):
                print(f"{name:8}{row}", flush=True)


def _rows(source: bytes, sides: dict[str, engine.Patterns]) -> Iterator[str]:
    start = time.process_time()
    with Compilation() as compilation:
        _to_phase(compilation, source)
        taken = time.process_time() - start
        module = compilation.module
        ops = _size(module)
        found = {}
        for rules_, patterns in sides.items():
            seconds, matches = _find(module, patterns)
            found[rules_] = seconds, matches, _foreach(module, rules_, ops)
        start = time.process_time()
        compilation.run_to(END)
        taken += time.process_time() - start
    for rules_, (seconds, matches, foreach) in found.items():
        beside = "" if foreach is None else f"{foreach * 1e3:12.1f} ms"
        part = f"{seconds / taken:8.1%}"
        yield f"{ops:7}{taken:9.2f} s{rules_:>9}{matches:9}{seconds * 1e3:8.1f} ms{part}{beside}"


def _find(module: ir.Module, patterns: engine.Patterns) -> tuple[float, int]:
    """The median time of finding what a compile reports, and the number of matches."""
    return _median(lambda: _found(module, patterns)), _found(module, patterns)


def _found(module: ir.Module, patterns: engine.Patterns) -> int:
    """Find matches and near misses as `opsplice.compiling.splice` does. Returns the number of matches.

    Where others match, it tells near misses only of few rules.
    """
    views = Views()
    finder = engine.Finder(patterns, outcomes.NEAREST, views)
    matches = finder.find(module)
    matched = {match.pattern.name for match in matches}
    rest = [name for graph in patterns.graphs if (name := graph.pattern.name) not in matched]
    rest = [] if matches and len(rest) > outcomes.MOST_NEAR else rest
    misses = finder.near_misses(rest)
    explainer = Explainer({graph.pattern.name: graph.pattern for graph in patterns.graphs}, views=views)
    for name in rest:
        explainer.near_misses((miss for miss in misses if miss.pattern == name), drawn=False)
    return len(matches)


def _foreach(module: ir.Module, count: str, ops: int) -> float | None:
    if count in (LIBRARY, KERNELS) or ops * int(count) > _MOST_WORK:
        return None
    spec = ir.Module.parse(made_up_rules.transform_spec(int(count)), context=module.context)
    entry = spec.body.operations[len(spec.body.operations) - 1].operation
    return _median(lambda: interpreter.apply_named_sequence(module.operation, entry, spec.operation), rounds=1)


def _median(run: Callable[[], object], rounds: int = _ROUNDS) -> float:
    taken = []
    for _ in range(rounds):
        gc.collect()
        start = time.thread_time()
        run()
        taken.append(time.thread_time() - start)
    return statistics.median(taken)


def _made_ready() -> engine.Patterns:
    """The patterns of the kernels. Says what each step takes that a process takes once."""
    times = [time.thread_time()]
    spec = load(_KERNELS)
    times.append(time.thread_time())
    graphs = graphs_of(spec)
    times.append(time.thread_time())
    patterns = engine.Patterns(graphs)
    times.append(time.thread_time())
    read, built, ready = ((after - before) * 1e3 for before, after in itertools.pairwise(times))
    print(
        f"\nkernels, once in a process: read in {read:.0f} ms, graphs in {built:.0f} ms, made ready in {ready:.0f} ms"
    )
    return patterns


def _patterns(spec: LoadedSpec) -> engine.Patterns:
    return engine.Patterns(compile_patterns(spec))


def _to_phase(compilation: Compilation, source: bytes) -> None:
    compilation.load(ModuleSource(content=source))
    compilation.context.enable_multithreading(False)
    compilation.run_to(PHASE)


def _count(source: bytes) -> int:
    with Compilation() as compilation:
        _to_phase(compilation, source)
        return _size(compilation.module)


def _size(module: ir.Module) -> int:
    """How many ops a module has, those in bodies included."""
    count = 0

    def visit(_op: ir.Operation) -> ir.WalkResult:
        nonlocal count
        count += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return count


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(exports.MODELS), help="with commas")
    parser.add_argument("--ops", type=_numbers, default=OPS, help="sizes of the programs, with commas")
    parser.add_argument("--rules", type=_numbers, default=RULES, help="numbers of rules, with commas")
    arguments = parser.parse_args()
    main(arguments.models, arguments.ops, arguments.rules)
