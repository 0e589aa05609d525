"""A spec of ours as a transform spec: what stock IREE needs to do the same.

For each rule, each rank of a pack, each choice of a type and each spelling, the pattern is written as a small program.
That program is the template that a matcher looks for; and our own engine replaces it, which gives the function that the
matcher's action puts in. So what is exported is what the engine matched: a template that it does not match is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.matchers.explain.failure_words import sentence
from opsplice.matchers.find import engine
from opsplice.matchers.patterns.compiled import compile_pattern
from opsplice.matchers.search.matches import Match, Size
from opsplice.matchers.terms.terms import DimSize
from opsplice.rewrites.apply import apply
from opsplice.rewrites.approaches import insertion
from opsplice.rewrites.approaches import pattern_insertion as template
from opsplice.rewrites.approaches.annotation import attribute_of
from opsplice.rewrites.ir import emit, raw_symbols
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.ir.symbols import defined, reached
from opsplice.rewrites.plan.actions import Action, KernelCall
from opsplice.rewrites.plan.planner import Planner, Resolver
from opsplice.rewrites.spelling import dim_bounds
from opsplice.rewrites.spelling.dim_bounds import Alternative, Axis, Check, Extent
from opsplice.rewrites.spelling.not_exportable import Gap, GapError
from opsplice.rewrites.spelling.spelled_template import Instance, Template
from opsplice.rewrites.spelling.spellings import spellings
from opsplice.rewrites.spelling.templates import spell_each
from opsplice.rewrites.transform_dialect.export import equal_dims
from opsplice.rewrites.transform_dialect.export.artifact_paths import Carrier, place
from opsplice.rewrites.transform_dialect.export.instances import covers, instances
from opsplice.rewrites.transform_dialect.export.op_matchers import Direct, direct
from opsplice.rewrites.transform_dialect.export.rule_checks import check_call, check_rule, passes_of
from opsplice.rewrites.transform_dialect.export.sequences import Case, Group, Pass, spec_text
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree

_CALL = "opsplice_call_"
_DIALECTS = ("arith", "math", "linalg", "tensor", "util", "flow")


@dataclass(frozen=True)
class Matcher:
    """A matcher of the exported spec: its name and what it covers."""

    name: str
    covers: str


@dataclass(frozen=True)
class ExportedRule:
    """A rule in the exported spec, and what to know of it."""

    rule: tree.Rule
    matchers: tuple[Matcher, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Export:
    """A transform spec and what is in it.

    text: the spec. rules: those in it, with their matchers. gaps: for each rule or run that is not whole in it, the
    constructs that have no counterpart. copies: files that belong to it, by their path beside it.
    """

    text: str
    rules: tuple[ExportedRule, ...]
    gaps: tuple[tuple[tree.Rule | tree.Run, tuple[Gap, ...]], ...]
    copies: Mapping[str, bytes]


def export(
    spec: LoadedSpec,
    targets: Sequence[ProgramTarget],
    resolve: Resolver,
    carrier: Carrier = "path",
    folder: Path = Path(),
    note: str = "",
) -> Export:
    """Make the transform spec.

    resolve: finds or builds artifacts, as for the planner. carrier, folder: how their files go along, as for `place`.
    note: a comment at the top. Raises what `resolve` and `place` raise, and OpspliceError for a target without an
    artifact.
    """
    context = ir.Context()
    emit.load_dialects(context)
    for name in _DIALECTS:
        context.get_dialect_descriptor(name)
    with context, ir.Location.unknown():
        exporter = _Exporter(spec, targets, resolve)
        found = exporter.programs()
        put_in = [p.call for _, programs in found for p in programs if p.call is not None]
        apply(exporter.module, put_in, codes=spec.codes)
        insertion.forget_rules(exporter.module)
        copies = place(exporter.module, carrier, folder)
        symbols = _symbols(exporter.module)
        sets = {rule: tuple((a.name, _value_text(a)) for a in rule.attributes) for rule, _ in found}
    groups, rules = [], []
    for rule, programs in found:
        cases = tuple(case for p in programs for case in _cases(p, symbols))
        if not cases:  # its conditions never hold
            continue
        groups.append(Group(f"{rule.span.source.name}:{rule.span.line}: {rule.title}", cases, sets[rule]))
        matchers = tuple(Matcher(f"match_{c.name}", c.comment) for c in cases)
        rules.append(ExportedRule(rule, matchers, tuple(exporter.notes.get(rule, ()))))
    passes = [each for run in spec.runs for each in exporter.passes(run)]
    gaps = tuple((rule, tuple(of_rule)) for rule, of_rule in exporter.gaps.items())
    return Export(spec_text(groups, symbols.texts, note, passes), tuple(rules), gaps, copies)


@dataclass(frozen=True)
class _Draft:
    """A template as a function of the module on which replacements are made. root: the function's result."""

    name: str
    covers: str
    template: Template
    function: ir.Operation
    root: ir.Value


@dataclass(frozen=True)
class _Program:
    """A template, or what is asked of an op, with its replacement, if there is one, and the ways in which its
    conditions hold.
    """

    name: str
    covers: str
    template: Template | Direct
    alternatives: tuple[Alternative, ...]
    paths: dict[Axis, tuple[int, ...]]
    call: Action | None

    @property
    def call_name(self) -> str:
        return f"{_CALL}{self.name}"


class _Exporter:
    def __init__(self, spec: LoadedSpec, targets: Sequence[ProgramTarget], resolve: Resolver) -> None:
        self.spec = spec
        self.targets = targets
        self.resolve = resolve
        self.module = ir.Module.create()
        self.gaps: dict[tree.Rule | tree.Run, dict[Gap, None]] = {}
        self.notes: dict[tree.Rule, dict[str, None]] = {}

    def programs(self) -> list[tuple[tree.Rule, list[_Program]]]:
        """The templates of each rule that has any, in the order of the rules."""
        found: list[tuple[tree.Rule, list[_Program]]] = []
        for number, rule in enumerate(self.spec.rules):
            try:
                found.append((rule, self._programs(rule, f"{number}_{rule.pattern}")))
            except GapError as error:
                self._note(rule, error)
        return found

    def passes(self, run: tree.Run) -> list[Pass]:
        """The passes that a run comes to."""
        try:
            return list(passes_of(run))
        except GapError as error:
            self._note(run, error)
            return []

    def _note(self, rule: tree.Rule | tree.Run, error: GapError) -> None:
        self.gaps.setdefault(rule, {}).update(dict.fromkeys(error.gaps))

    # ---- one rule -------------------------------------------------------------------------------------------------

    def _programs(self, rule: tree.Rule, name: str) -> list[_Program]:
        """Every template of a rule, with its replacement. Raises GapError if there is none."""
        check_rule(rule, self.spec)
        failures: list[GapError] = []
        asked = list(self._direct(rule, name)) if rule.attributes else []
        if asked:
            return asked
        drafts = list(self._drafts(rule, name, failures))
        matches, misses = self._matches(rule)
        programs: list[_Program] = []
        for draft in drafts:
            try:
                match = matches.get(draft.root)
                if match is None:
                    why = misses.get(draft.name, "it does not match itself written as ops of dynamic sizes")
                    raise GapError.at(rule.pattern_span, f"pattern '{rule.pattern}'", why)
                programs.append(self._program(rule, draft, match))
            except GapError as error:
                failures.append(error)
                draft.function.erase()
        if not programs:
            raise failures[0]
        return programs

    def _direct(self, rule: tree.Rule, name: str) -> Iterator[_Program]:
        """Matchers without a template, for a pattern that needs none."""
        pattern = self.spec.patterns[rule.pattern]
        for number, instance in enumerate(instances(pattern, rule)):
            found = direct(pattern, instance)
            if found is None:
                return
            alternatives = _alternatives(rule, found, None, None)
            axes = {check.axis for each in alternatives for check in each if isinstance(check, Check)}
            paths = {axis: found.paths[axis.argument] for axis in axes}
            yield _Program(f"{name}_{number}", found.covers, found, alternatives, paths, None)

    def _drafts(self, rule: tree.Rule, name: str, failures: list[GapError]) -> Iterator[_Draft]:
        """Each distinct template, as a function of the module."""
        pattern = self.spec.patterns[rule.pattern]
        seen: set[Any] = set()
        chosen = ((each, s) for each in instances(pattern, rule) for s in spellings())
        for instance, spelling in chosen:
            for spelled in spell_each(pattern, self.spec.patterns, instance, spelling):
                if isinstance(spelled, GapError):
                    failures.append(spelled)
                    continue
                if (spelled.arguments, spelled.lines, *spelled.settings.items()) in seen:
                    continue
                seen.add((spelled.arguments, spelled.lines, *spelled.settings.items()))
                number = f"{name}_{len(seen) - 1}"
                try:
                    function = self._template_function(f"{_CALL}{number}", spelled, rule, instance)
                except GapError as error:
                    failures.append(error)
                    continue
                body = function.regions[0].blocks[0].operations
                comment = covers(instance, spelling, spelled.choices)
                yield _Draft(number, comment, spelled, function, body[len(body) - 1].operands[0])

    def _template_function(self, name: str, template: Template, rule: tree.Rule, instance: Instance) -> ir.Operation:
        pattern = self.spec.patterns[rule.pattern]
        if not template.lines:
            raise GapError.at(pattern.span, f"pattern '{pattern.name}'", "it has no op to look for")
        if template.inside:
            numbers = ", ".join(template.inside)
            why = f"IREE does not compare constants outside of the bodies that use them ({numbers})"
            self.notes.setdefault(rule, {})[f"not for programs of linalg ops: {why}"] = None
            raise GapError.at(pattern.span, f"pattern '{pattern.name}'", why)
        return self._function(name, template, rule, instance)

    def _function(self, name: str, template: Template, rule: tree.Rule, instance: Instance) -> ir.Operation:
        """The template as a function at the end of the module."""
        try:
            parsed = ir.Module.parse(template.function(f"util.func private @{name}"))
        except ir.MLIRError as error:
            why = "IREE refuses it as ops: " + "; ".join(d.message for d in error.error_diagnostics)
            raise GapError.at(rule.pattern_span, f"pattern '{rule.pattern}'", why) from None
        made = parsed.body.operations[0].operation
        read = {name.removeprefix("%") for name, _ in template.arguments}
        parameters = [p for p in self.spec.patterns[rule.pattern].parameters if p.name in read]
        equal_dims.check(parameters, instance, made)
        return made.clone(ir.InsertionPoint(self.module.body)).operation

    def _matches(self, rule: tree.Rule) -> tuple[dict[ir.Value, Match], dict[str, str]]:
        """The matches of a rule's pattern by root, and by function why there is none. Conditions are not judged."""
        pattern = self.spec.patterns[rule.pattern]
        graphs = compile_pattern(self.spec, pattern.name)
        found = engine.find(self.module, [replace(g, conditions=()) for g in graphs])
        misses = {
            m.function.removeprefix(_CALL): f"as ops of dynamic sizes it is not a match: {sentence(m)}"
            for m in found.near_misses
        }
        return {match.roots[0]: match for match in found.matches}, misses

    def _program(self, rule: tree.Rule, draft: _Draft, match: Match) -> _Program:
        call = None if rule.attributes else self._plan(match, rule)
        try:
            alternatives = _alternatives(rule, draft.template, self.spec.kernels.get(rule.kernel), call)
        except GapError as error:
            self._note(rule, error)  # other ranks and types may do without, but the rule is not whole
            raise
        root = draft.root.owner.operation
        checks = [check for each in alternatives for check in each if isinstance(check, Check)]
        paths = {check.axis: _path(root, check.axis.argument) for check in checks}
        if call is None:
            draft.function.erase()
        return _Program(draft.name, draft.covers, draft.template, alternatives, paths, call)

    def _plan(self, match: Match, rule: tree.Rule) -> Action:
        bare = replace(rule, where=dim_conditions.without(rule.where, lambda part: not _is_of_scalars(part, match)))
        kernels = {name: replace(each, where=None) for name, each in self.spec.kernels.items() if name == rule.kernel}
        inputs = ([match], [bare], self.spec.given, kernels, self.targets, self.resolve)
        write = partial(template.write, patterns=self.spec.patterns)
        chosen = Planner(*inputs, write=write, codes=self.spec.codes).plan()
        what = f"`{rule.title}`"
        if not chosen.actions:
            raise GapError.at(rule.span, what, chosen.left[0].reason)
        (call,) = chosen.actions
        if isinstance(call, KernelCall):
            check_call(rule, call)
        return call


# ---- conditions --------------------------------------------------------------------------------------------------


def _alternatives(
    rule: tree.Rule, template: Template | Direct, kernel: tree.Kernel | None, call: Action | None
) -> tuple[Alternative, ...]:
    """The ways in which all conditions hold: the pattern's, those of the patterns it uses, the rule's, the kernel's."""
    wheres = list(template.scopes)
    if rule.where is not None:
        wheres.append((rule.where, template.dims))
    if isinstance(call, KernelCall) and kernel is not None and kernel.where is not None:
        wheres.append((kernel.where, {name: _extent(size, rule) for name, size in call.dims.items()}))
    return dim_bounds.all_of(wheres)


def _is_of_scalars(part: tree.Condition, match: Match) -> bool:
    scalars = {p.name for p in match.pattern.parameters if isinstance(p.type, tree.ScalarType)}
    return isinstance(part, tree.Comparison) and dim_conditions.numbers_in(part) <= scalars


def _extent(size: Size | tuple[Size, ...], rule: tree.Rule) -> Extent:
    if isinstance(size, tuple):
        return tuple(_part(s, rule) for s in size)
    return _part(size, rule)


def _part(size: Size, rule: tree.Rule) -> int | Axis:
    if not isinstance(size, DimSize):
        return size
    value: Any = size.value
    if not isinstance(value.owner, ir.Block):
        raise GapError.at(rule.span, f"`{rule.title}`", "the kernel's condition is on a dim that no argument has")
    return Axis(ir.BlockArgument(value).arg_number, size.axis)


def _path(root: ir.Operation, argument: int) -> tuple[int, ...]:
    """The operand positions that lead from the root to an argument of the function."""
    seen: set[ir.Operation] = set()
    pending: list[tuple[ir.Operation, tuple[int, ...]]] = [(root, ())]
    while pending:
        op, path = pending.pop(0)
        if op in seen or op.name in ("tensor.empty", "tensor.dim"):
            continue
        seen.add(op)
        for position, value in enumerate(op.operands):
            if isinstance(value.owner, ir.Block):
                if ir.BlockArgument(value).arg_number == argument:
                    return (*path, position)
            else:
                pending.append((value.owner.operation, (*path, position)))
    raise AssertionError("every argument of a template is used")


# ---- the text ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Symbols:
    """What actions put in. texts: executables first. calls: the function that stands for each one that was made, one
    for all that are the same. imports: the executables that each function dispatches."""

    texts: tuple[str, ...]
    calls: Mapping[str, str]
    imports: Mapping[str, tuple[str, ...]]


def _cases(program: _Program, symbols: _Symbols) -> Iterator[Case]:
    call = "" if program.call is None else symbols.calls[program.call_name]
    imports = symbols.imports[call] if call else ()
    for number, checks in enumerate(program.alternatives):
        name = program.name if len(program.alternatives) == 1 else f"{program.name}_{number}"
        yield Case(name, program.covers, program.template, checks, program.paths, call, imports)


def _symbols(module: ir.Module) -> _Symbols:
    PassManager.parse("builtin.module(util.func(canonicalize,cse))").run(module.operation)
    executables, functions = [], []
    same: dict[str, str] = {}
    calls: dict[str, str] = {}
    imports: dict[str, tuple[str, ...]] = {}
    tops = defined(module.operation)
    for name, op in tops.items():
        raw_symbols.forget(op)
        text = op.get_asm(use_local_scope=True)
        if op.name != "util.func":
            executables.append(text)
            continue
        calls[name] = same.setdefault(text.replace(f"@{name}(", "@(", 1), name) if name.startswith(_CALL) else name
        if calls[name] == name:
            functions.append(text)
            imports[name] = reached(op, tops)
    return _Symbols((*executables, *functions), calls, imports)


def _value_text(attribute: tree.Attribute) -> str:
    """The value of an attribute as MLIR writes it, "" for a name alone. Needs a current context."""
    return "" if attribute.value is None else str(attribute_of(attribute))
