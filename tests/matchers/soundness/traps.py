"""Traps: a program that matches with one thing changed must not match, or compute what the pattern says that it does.

What a pattern says is its template: the match is replaced by the pattern's own ops, written out, and both programs are
evaluated in f64. Where the unchanged program differs from its template, as the licences of equal spellings allow, such
inputs are left out for its mutants.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from iree.compiler import ir
from iree.compiler.api import Session

from opsplice.common.errors import OpspliceError
from opsplice.frontends import ModuleSource
from opsplice.interpreter import EvaluationError, evaluate
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.patterns.nodes import Graph
from opsplice.matchers.search.matches import Match
from opsplice.pipeline.compiler import Compilation
from opsplice.rewrites.apply import apply
from opsplice.rewrites.approaches import pattern_insertion
from opsplice.rewrites.plan.actions import Written
from opsplice.rewrites.plan.planner import Planner
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.spec_lang.loading.loader import LoadedSpec, load_text
from opsplice.spec_lang.syntax import tree
from tests.matchers.soundness.mutants import Change, changes, mutate, ops_of

LIBRARY = 'import "opsplice:nn"\n'
# Inputs of each class, in f32; the others are in between.
CLASSES: dict[str, Sequence[float]] = {
    "ordinary": (),
    "edges": (0.0, -0.0, 1e-40, -1e-45, 3.4e38, -3.4e38, 65504.0, 1.0),
    "special": (np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40),
}
_TOLERANCES = (1e-10, 1e-6)
# With one of these in a program or its template the licences of equal spellings leave out NaN.
_LICENSED = frozenset({"arith.maxnumf", "arith.minnumf", "arith.cmpf"})
_LARGE = 1e30
# Symbols of a mutant that stands beside its original.
_SYMBOL = re.compile("(?<=@)(?=[A-Za-z_])")
_CHANGED = "changed."
_SLOW = 0.5
_TOO_LONG = 5.0
# Whatever a program is, the engine comes to an end before that.
_NEVER = 60.0


@functools.cache
def context() -> ir.Context:
    session = Session()
    session.context.enable_multithreading(False)
    _keep.append(session)
    return session.context


_keep: list[Session] = []


def parsed(text: str) -> ir.Module:
    return ir.Module.parse(text, context=context())


@dataclass(frozen=True)
class Given:
    """Inputs of a function, and how near to each other results must be."""

    kind: str
    function: str
    inputs: tuple[Any, ...]
    tolerance: float = _TOLERANCES[0]


@dataclass(frozen=True)
class Prey:
    """A program, a pattern that it holds, and inputs on which the two agree."""

    name: str
    text: str
    ask: Ask
    given: tuple[Given, ...]


@dataclass(frozen=True)
class Finding:
    """A mutant that matches and computes something else."""

    prey: Prey
    change: Change
    kind: str
    told: str

    def __str__(self) -> str:
        module = parsed(self.prey.text)
        mutate(module, self.change)
        return f"{self.prey.name}: {self.change}, {self.kind} inputs\n{self.told}\n{module}"


# ---- programs that match -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ask:
    """A pattern of a spec, with a rule that puts the pattern itself in its place, written out."""

    spec: LoadedSpec
    rule: tree.Rule
    graphs: tuple[Graph, ...]

    @staticmethod
    def of(spec: LoadedSpec, name: str) -> Ask:
        pattern = spec.patterns[name]
        args = tuple(tree.Name(parameter.span, parameter.name) for parameter in pattern.parameters)
        rule = dataclasses.replace(_rule(), pattern=name, kernel=name, args=args)
        return Ask(spec, rule, compile_pattern(spec, pattern.name))


@functools.cache
def _rule() -> tree.Rule:
    return load_text("pattern p(x: tensor<f32>) { negf(x) }\nreplace p with p(x)").rules[0]


@functools.cache
def _asks(spec: str) -> dict[str, Ask]:
    loaded = load_text(spec)
    return {name: Ask.of(loaded, name) for name in loaded.patterns}


def preys(name: str, text: str, spec: str, only: str = "") -> list[Prey]:
    """The program once for each pattern of the spec (or the one of this name) that it holds and that has a template."""
    asks = _asks(spec)
    if only and any(_has_choices(each) for each in asks[only].spec.patterns.values()):
        return []  # of alternatives the template is the first, which need not be what another one is
    asked = [asks[only]] if only else list(asks.values())
    graphs = [graph for ask in asked for graph in ask.graphs]
    held = dict.fromkeys(match.pattern.name for match in engine.find(parsed(text), graphs).matches)
    inputs = list(_inputs(text)) if held else []
    made = [Prey(f"{name} {each}", text, asks[each], tuple(_agreeing(text, asks[each], inputs))) for each in held]
    return [prey for prey in made if prey.given]


def _has_choices(node: Any) -> bool:
    """Whether a part of a pattern may be one thing or another."""
    if isinstance(node, tree.Alternatives) or getattr(node, "optional", False):
        return True
    parts = [getattr(node, each.name) for each in dataclasses.fields(node)] if dataclasses.is_dataclass(node) else node
    return isinstance(parts, (list, tuple)) and any(_has_choices(part) for part in parts)


def _agreeing(text: str, ask: Ask, inputs: Sequence[Given]) -> Iterator[Given]:
    """The inputs on which a program and its template agree, with how near they come."""
    try:
        rewritten = replaced(parsed(text), ask)
    except OpspliceError:
        return
    if rewritten is None:
        return
    module = parsed(text)
    for given in inputs:
        try:
            wanted, found = (_results(each, given) for each in (module, rewritten))
        except EvaluationError:
            continue  # what the program asserts does not hold for these, or it takes too long
        attempts = (dataclasses.replace(given, tolerance=tolerance) for tolerance in _TOLERANCES)
        yield from itertools.islice((each for each in attempts if not difference(wanted, found, each)), 1)


def replaced(module: ir.Module, ask: Ask) -> ir.Module | None:
    """The module with its matches written out as templates; None if there is no match."""
    found = engine.find(module, ask.graphs)
    if not found.matches:
        return None

    def write(match: Match, rule: tree.Rule, _computed: object = None) -> Written:
        if any(name.name not in match.inputs for name in rule.args if isinstance(name, tree.Name)):
            raise OpspliceError("an input is not part of this alternative")
        return pattern_insertion.write(match, rule, patterns=ask.spec.patterns)

    chosen = Planner(found.matches, [ask.rule], ask.spec.given, ask.spec.kernels, [], _no_artifact, write=write).plan()
    if not chosen.actions:
        return None
    apply(module, chosen.actions)
    module.operation.verify()
    return module


def _no_artifact(*_: Any) -> Any:
    raise AssertionError("templates need no artifact")


# ---- inputs ------------------------------------------------------------------------------------------------------


def _inputs(text: str) -> Iterator[Given]:
    """Inputs of each class for each function, with dynamic dims of several sizes and with all of one size."""
    module = parsed(text)
    for op in module.body.operations:
        is_function = op.operation.name.endswith(".func") and len(op.operation.regions[0].blocks) == 1
        if not is_function or "util.call" in str(op):
            continue
        name = ir.StringAttr(op.attributes["sym_name"]).value
        kinds = [_kind(argument) for argument in op.regions[0].blocks[0].arguments]
        rng = np.random.default_rng(0)
        for choices in (2, 3, 4, 5), (3,):
            for _ in range(20):
                shapes = [_shape(kind, choices, rng) for kind in kinds]
                ordinary = Given("ordinary", name, _values(kinds, shapes, (), rng))
                start = time.perf_counter()
                try:
                    _results(module, ordinary)
                except EvaluationError:
                    continue
                if time.perf_counter() - start < _SLOW:
                    yield ordinary
                    for kind in ("edges", "special"):
                        yield Given(kind, name, _values(kinds, shapes, CLASSES[kind], rng))
                break
            if not any(_is_dynamic(kind) for kind in kinds):
                break


def _kind(argument: ir.Value) -> ir.Type:
    """The type of a parameter, for a view of a buffer the tensor that is imported from it."""
    if str(argument.type) != "!hal.buffer_view":
        return argument.type
    users = [use.owner.operation for use in argument.uses]
    imports = [op for op in users if op.name == "hal.tensor.import"]
    return imports[0].results[0].type if imports else argument.type


def _is_dynamic(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and not kind.has_static_shape


def _shape(kind: ir.Type, choices: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    if not isinstance(kind, ir.RankedTensorType):
        return ()
    return tuple(int(rng.choice(choices)) if size < 0 else size for size in kind.shape)


def _values(
    kinds: Sequence[ir.Type], shapes: Sequence[tuple[int, ...]], special: Sequence[float], rng: np.random.Generator
) -> tuple[Any, ...]:
    return tuple(_value(kind, shape, special, rng) for kind, shape in zip(kinds, shapes, strict=True))


def _value(kind: ir.Type, shape: tuple[int, ...], special: Sequence[float], rng: np.random.Generator) -> Any:
    element = str(kind.element_type if isinstance(kind, ir.RankedTensorType) else kind)
    dtype = ELEMENT_TYPES.get("i64" if element == "index" else element)
    if dtype is None:
        return None  # a fence
    if element == "index":
        return np.full(shape, 2)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "i":
        made = rng.integers(-5, 6, shape)
        extremes = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max, 0, -1], dtype)
        return np.where(rng.random(shape) < (0.3 if special else 0), rng.choice(extremes, shape), made).astype(dtype)
    numbers = rng.uniform(-2, 2, shape)
    if special:
        numbers = np.where(rng.random(shape) < 0.15, rng.choice(np.array(special), shape), numbers)
    with np.errstate(all="ignore"):
        made = numbers.astype(dtype)
    # What is finite stays so in a narrow type.
    return np.where(np.isfinite(numbers) & np.isinf(made), np.ones((), dtype), made)


def _without_largest(values: Any) -> Any:
    if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
        return values
    return np.where(np.abs(values) > _LARGE, np.sign(values) * 1e3, values).astype(values.dtype)


# ---- judging -----------------------------------------------------------------------------------------------------


def _results(module: ir.Module, given: Given) -> list[np.ndarray]:
    with _in_time(_TOO_LONG, EvaluationError("it takes too long")):
        return evaluate(module, given.function, given.inputs, np.float64)


@contextlib.contextmanager
def _in_time(seconds: float, error: Exception) -> Iterator[None]:
    """Raises the error in what takes longer."""

    def stop(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def difference(wanted: list[np.ndarray], found: list[np.ndarray], given: Given, *, nan_counts: bool = True) -> str:
    """What differs, or "" if nothing does. The sign of a zero counts only in what it leads to."""
    for left, right in zip(wanted, found, strict=True):
        if not nan_counts and left.dtype.kind == "f":
            left, right = (np.where(np.isnan(left) | np.isnan(right), 0, each) for each in (left, right))
        try:
            scale = np.max(np.abs(left[np.isfinite(left)]), initial=0.0) if left.dtype.kind == "f" else 0
            np.testing.assert_allclose(right, left, rtol=given.tolerance, atol=given.tolerance * min(scale, 1.0) * 1e-2)
        except AssertionError as problem:
            return str(problem)
    return ""


def judge(prey: Prey, change: Change, tally: Counter[str] | None = None) -> Finding | None:
    """Whether a mutant is taken for what it is not. tally: what became of it is counted there."""
    tally = Counter() if tally is None else tally
    module = parsed(prey.text)
    if not mutate(module, change):
        tally["no program"] += 1
        return None
    try:
        with _in_time(_NEVER, TimeoutError("no end of it in a minute")):
            rewritten = replaced(module, prey.ask)
    except OpspliceError:
        tally["no template"] += 1
        return None
    except Exception as problem:  # whatever it is, nobody should see it
        tally["crash"] += 1
        return Finding(prey, change, "any", repr(problem))
    if rewritten is None:
        tally["no match"] += 1
        return Finding(prey, change, "any", "it matches beside the original") if _is_recalled(prey, change) else None
    mutant = parsed(prey.text)
    mutate(mutant, change)
    compared = 0
    names = {op.name for each in (mutant, rewritten) for op in ops_of(each)}
    is_licensed = not _LICENSED.isdisjoint(names)
    for given in prey.given:
        if "arith.divf" in names:  # a quotient as a product with a reciprocal, which f32 has rounded
            given = dataclasses.replace(given, tolerance=_TOLERANCES[-1])
        if is_licensed and given.kind == "special":
            continue
        try:
            wanted = _results(mutant, given)
        except EvaluationError:
            continue
        compared += 1
        try:
            told = difference(wanted, _results(rewritten, given), given, nan_counts=not is_licensed)
            if told and given.kind == "edges":  # sums in another order round otherwise where large numbers cancel out
                given = dataclasses.replace(given, inputs=tuple(map(_without_largest, given.inputs)))
                results = (_results(each, given) for each in (mutant, rewritten))
                told = difference(*results, given, nan_counts=not is_licensed)
        except EvaluationError as problem:
            told = str(problem)
        if told:
            tally["wrong"] += 1
            return Finding(prey, change, given.kind, told)
    tally["equal" if compared else "no program"] += 1
    return None


def _is_recalled(prey: Prey, change: Change) -> bool:
    """Whether a mutant that does not match is taken for the original where both are in one module."""
    original, mutant = parsed(prey.text), parsed(prey.text)
    mutate(mutant, change)
    first, second = ("\n".join(op.operation.get_asm(use_local_scope=True) for op in m.body) for m in (original, mutant))
    if engine.find(parsed(second), prey.ask.graphs).matches:
        return False  # what was changed is the body of a named op, which is not printed
    both = parsed(f"{first}\n{_SYMBOL.sub(_CHANGED, second)}")
    return any(_CHANGED in match.function for match in engine.find(both, prey.ask.graphs).matches)


# ---- where programs come from ------------------------------------------------------------------------------------


def at_preprocessing(path: Path) -> list[str]:
    """The functions of an exported model that call no other, as input conversion leaves them."""
    with Compilation(["--iree-hal-target-backends=llvm-cpu"]) as compilation:
        compilation.load(ModuleSource(content=path.read_text()))
        compilation.run_to("preprocessing")
        tops = [top.operation for top in compilation.module.body.operations]
        texts = [op.get_asm(use_local_scope=True) for op in tops if op.name.endswith(".func")]
    return [text for text in texts if "util.call" not in text]


Chooser = Callable[[Sequence[Change]], Sequence[Change]]


@dataclass
class Hunt:
    """Judges mutants and keeps count."""

    tally: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def go(self, prey: Prey, choose: Chooser = lambda all_of_them: all_of_them) -> None:
        for change in choose(changes(parsed(prey.text))):
            finding = judge(prey, change, self.tally)
            if finding is not None:
                self.findings.append(finding)
