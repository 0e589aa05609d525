"""A spec of ours as a transform spec: what stock IREE needs to do the same.

For each rule, each rank of a pack, each choice of a type and each spelling, the pattern is written as a small program.
That program is the template that a matcher looks for; and our own engine replaces it, which gives the function that the
matcher's action puts in. So what is exported is what the engine matched: a template that it does not match is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice.matchers.explain.failure_words import sentence
from opsplice.matchers.find import engine
from opsplice.matchers.ir.op_names import last_op
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
class ExportedRule:
    """A rule in the exported spec, and what to know of it."""

    rule: tree.Rule
    matchers: tuple[Case, ...]
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
        found = exporter.cases()
        apply(exporter.module, exporter.actions, codes=spec.codes)
        insertion.forget_rules(exporter.module)
        copies = place(exporter.module, carrier, folder)
        symbols = _symbols(exporter.module)
        sets = {rule: tuple((a.name, _value_text(a)) for a in rule.attributes) for rule, _ in found}
    groups, rules = [], []
    for rule, of_rule in found:
        cases = tuple(replace(case, call=symbols.calls.get(case.call, "")) for case in of_rule)
        if not cases:  # its conditions never hold
            continue
        groups.append(Group(f"{rule.span.source.name}:{rule.span.line}: {rule.title}", cases, sets[rule]))
        rules.append(ExportedRule(rule, cases, tuple(exporter.notes.get(rule, ()))))
    passes = [each for run in spec.runs for each in exporter.passes(run)]
    gaps = tuple((rule, tuple(of_rule)) for rule, of_rule in exporter.gaps.items())
    return Export(spec_text(groups, symbols.texts, symbols.imports, note, passes), tuple(rules), gaps, copies)


@dataclass(frozen=True)
class _Draft:
    """A template as a function of the module on which replacements are made. root: the function's result."""

    name: str
    covers: str
    template: Template
    function: ir.Operation

    @property
    def root(self) -> ir.Value:
        return last_op(self.function.regions[0].blocks[0]).operands[0]


@dataclass(eq=False)
class _Exporter:
    """actions: what is put in the place of templates. Each is named by its function in the calls of cases."""

    spec: LoadedSpec
    targets: Sequence[ProgramTarget]
    resolve: Resolver
    module: ir.Module = field(default_factory=ir.Module.create)
    actions: list[Action] = field(default_factory=list)
    gaps: dict[tree.Rule | tree.Run, dict[Gap, None]] = field(default_factory=dict)
    notes: dict[tree.Rule, dict[str, None]] = field(default_factory=dict)

    def cases(self) -> list[tuple[tree.Rule, list[Case]]]:
        """The matchers of each rule that has any template, in the order of the rules."""
        found: list[tuple[tree.Rule, list[Case]]] = []
        for number, rule in enumerate(self.spec.rules):
            try:
                found.append((rule, self._cases(rule, f"{number}_{rule.pattern}")))
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

    def _cases(self, rule: tree.Rule, name: str) -> list[Case]:
        """The matchers of every template of a rule. Raises GapError if there is no template."""
        check_rule(rule, self.spec)
        failures: list[GapError] = []
        made = list(self._direct(rule, name)) if rule.attributes else []
        drafts = [] if made else list(self._drafts(rule, name, failures))
        matches, misses = self._matches(rule) if drafts else ({}, {})
        for draft in drafts:
            try:
                match = matches.get(draft.root)
                if match is None:
                    why = misses.get(draft.name, "it does not match itself written as ops of dynamic sizes")
                    raise GapError.at(rule.pattern_span, f"pattern '{rule.pattern}'", why)
                made.append(self._matched(rule, draft, match))
            except GapError as error:
                failures.append(error)
                draft.function.erase()
        if not made:
            raise failures[0]
        return [case for cases in made for case in cases]

    def _direct(self, rule: tree.Rule, name: str) -> Iterator[list[Case]]:
        """Matchers without a template, for a pattern that needs none."""
        pattern = self.spec.patterns[rule.pattern]
        for number, instance in enumerate(instances(pattern, rule)):
            found = direct(pattern, instance)
            if found is None:
                return
            alternatives = _alternatives(rule, found, None, None)
            paths = {axis: found.paths[axis.argument] for axis in _axes(alternatives)}
            yield _each(Case(f"match_{name}_{number}", found.covers, found, (), paths), alternatives)

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
                key = (spelled.arguments, spelled.lines, *spelled.settings.items())
                if key in seen:
                    continue
                seen.add(key)
                number = f"{name}_{len(seen) - 1}"
                try:
                    function = self._function(f"{_CALL}{number}", spelled, rule, instance)
                    yield _Draft(number, covers(instance, spelling, spelled.choices), spelled, function)
                except GapError as error:
                    failures.append(error)

    def _function(self, name: str, template: Template, rule: tree.Rule, instance: Instance) -> ir.Operation:
        """The template as a function at the end of the module."""
        pattern = self.spec.patterns[rule.pattern]
        if not template.lines:
            raise GapError.at(pattern.span, f"pattern '{pattern.name}'", "it has no op to look for")
        if template.inside:
            numbers = ", ".join(template.inside)
            why = f"IREE does not compare constants outside of the bodies that use them ({numbers})"
            self.notes.setdefault(rule, {})[f"not for programs of linalg ops: {why}"] = None
            raise GapError.at(pattern.span, f"pattern '{pattern.name}'", why)
        try:
            parsed = ir.Module.parse(template.function(f"util.func private @{name}"))
        except ir.MLIRError as error:
            why = "IREE refuses it as ops: " + "; ".join(d.message for d in error.error_diagnostics)
            raise GapError.at(rule.pattern_span, f"pattern '{rule.pattern}'", why) from None
        made = parsed.body.operations[0].operation
        read = {name.removeprefix("%") for name, _ in template.arguments}
        equal_dims.check([p for p in pattern.parameters if p.name in read], instance, made)
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

    def _matched(self, rule: tree.Rule, draft: _Draft, match: Match) -> list[Case]:
        call = None if rule.attributes else self._plan(match, rule)
        try:
            alternatives = _alternatives(rule, draft.template, self.spec.kernels.get(rule.kernel), call)
        except GapError as error:
            self._note(rule, error)  # other ranks and types may do without, but the rule is not whole
            raise
        root = draft.root.owner.operation
        paths = {axis: _path(root, axis.argument) for axis in _axes(alternatives)}
        if call is None:
            draft.function.erase()
            return _each(Case(f"match_{draft.name}", draft.covers, draft.template, (), paths), alternatives)
        self.actions.append(call)
        case = Case(f"match_{draft.name}", draft.covers, draft.template, (), paths, f"{_CALL}{draft.name}")
        return _each(case, alternatives)

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


def _axes(alternatives: tuple[Alternative, ...]) -> set[Axis]:
    """The axes that are asked about."""
    return {check.axis for each in alternatives for check in each if isinstance(check, Check)}


def _each(case: Case, alternatives: tuple[Alternative, ...]) -> list[Case]:
    """A case for each way in which its conditions hold."""
    if len(alternatives) == 1:
        return [replace(case, checks=alternatives[0])]
    return [replace(case, name=f"{case.name}_{number}", checks=each) for number, each in enumerate(alternatives)]


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
