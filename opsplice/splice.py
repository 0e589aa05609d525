"""Specs applied to a module at one point of the pipeline: find, plan, edit, and report."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from opsplice import command_files
from opsplice.errors import OpspliceError
from opsplice.matchers import engine
from opsplice.matchers.explain import Explainer
from opsplice.matchers.graph import Graph, compile_pattern
from opsplice.matchers.match import Found, Match, NearMiss, Size
from opsplice.pipeline.compiler import Step
from opsplice.report import ArtifactUse, DimSize, Miss, Replacement, Report, UnmatchedRule
from opsplice.rewrites import (
    conversions,
    elf_link,
    externals,
    fallback,
    insertion,
    linking,
    metal_link,
    scalar_link,
    transform_spec,
)
from opsplice.rewrites.apply import apply
from opsplice.rewrites.calls import Action, External, Insertion, KernelCall, Written
from opsplice.rewrites.command import COMPILED, module_of
from opsplice.rewrites.devices import ProgramTarget, parse_target, targets_of
from opsplice.rewrites.dynamic_dispatch import provided_name
from opsplice.rewrites.generation import Generators, Request, told
from opsplice.rewrites.plan import Choice, Plan, Resolver, plan
from opsplice.rewrites.scalar_function import Function
from opsplice.rewrites.symbols import Brought, symbols
from opsplice.spec_lang import tree
from opsplice.spec_lang.loader import LoadedSpec
from opsplice.specs import Spec, TransformSpec
from opsplice.targets import cpu, device_functions, elf_dispatch
from opsplice.targets.artifacts import Artifact, ArtifactRequest, CpuTarget, CudaTarget, RocmTarget, SpirvTarget
from opsplice.targets.store import Store

_NEAREST = 3


@dataclass(frozen=True)
class Splicer:
    """Applies specs to a module that is at phase `input` or later, before dispatches are formed.

    targets: what the program is compiled for; None reads them from the module (from phase `preprocessing` on).
    conversions: the element types that the compiler converts once rules have applied.
    brought: the symbols that specs have brought into the module.
    """

    store: Store
    targets: tuple[ProgramTarget, ...] | None = None
    conversions: conversions.Conversions = field(default_factory=dict)
    brought: Brought = field(default_factory=Brought)

    def apply(self, module: ir.Module, spec: Spec) -> tuple[Report, tuple[Step, ...]]:
        """Change the module as the spec says. Returns what was done, and edits that are to follow at later phases.

        Raises OpspliceError for an artifact that is missing or broken and for a transform spec that fails.
        """
        if isinstance(spec, TransformSpec):
            return self._transform(module, spec), ()
        run_passes(module, spec)
        own = symbols(module)
        before = fallback.executables(module)
        split = False
        reports = []
        functions: dict[str, Function] = {}
        on_metal = False
        libraries: dict[tuple[str, str], Path] = {}
        patterns = engine.Patterns(graphs_of(spec))
        for number in itertools.count():
            found = engine.find(module, patterns, near_misses=_NEAREST)
            chosen = self._plan(module, spec, found, self.resolve)
            reports.append(_report(spec, found, chosen, number))
            actions = chosen.actions
            if any(map(fallback.is_split, actions, chosen.kept)):
                split, actions = True, fallback.split(module, actions, chosen.kept, self._targets_of(module))
            annotations = chosen.annotations if number == 0 else ()
            functions |= apply(module, actions, annotations, spec.codes, self._beside, self.brought.digests)
            on_metal = on_metal or _is_on_metal(actions)
            libraries |= _libraries(actions)
            # Only what a rule wrote can match again; no rule is applied to what it wrote, so this comes to an end.
            if not any(isinstance(action, Insertion) for action in actions):
                break
        self.brought.add(symbols(module) - own)
        if len(reports) > 1:
            insertion.forget_writers(module)
        drop = functools.partial(fallback.drop_missing, names=fallback.executables(module) - before)
        later = (Step(fallback.DROP_PHASE, "targets without an artifact", drop),) if split else ()
        edits = scalar_link.EDITS if functions else ()
        calls = tuple(Step(phase, what, functools.partial(edit, functions=functions)) for phase, what, edit in edits)
        linked = [Step(metal_link.PHASE, "shaders for Metal", metal_link.link)] if on_metal else []
        if libraries:
            put_in = functools.partial(elf_link.link, files=libraries)
            linked.append(Step(elf_link.PHASE, "executables for CPUs", put_in))
        return _joined(reports), (*later, *calls, *linked)

    def preview(self, module: ir.Module, spec: Spec) -> Report:
        """What `apply` would do, with nothing built. A transform spec can only be applied, and passes only be run.

        What rules write is put in place, as they see it; calls of kernels are not.
        """
        if isinstance(spec, TransformSpec):
            return self._transform(module, spec)
        run_passes(module, spec)
        own = symbols(module)
        patterns = engine.Patterns(graphs_of(spec))
        reports = []
        for number in itertools.count():
            found = engine.find(module, patterns, near_misses=_NEAREST)
            chosen = self._plan(module, spec, found, _named_only)
            reports.append(_report(spec, found, chosen if number == 0 else _only_new(chosen), number))
            written = [action for action in chosen.actions if isinstance(action, Insertion)]
            if not written:
                break
            apply(module, written, codes=spec.codes, brought=self.brought.digests)
        self.brought.add(symbols(module) - own)
        if len(reports) > 1:
            insertion.forget_writers(module)
        return _joined(reports)

    def outcomes(self, module: ir.Module, spec: LoadedSpec, found: Found) -> dict[Match, list[Replacement]]:
        """What would become of each match; one that no rule asks for, or all if there is no plan, has action `none`."""
        outcomes: dict[Match, list[Replacement]] = {match: [] for match in found.matches}
        reason = "no rule uses this pattern"
        try:
            chosen = self._plan(module, spec, found, _unread)
        except OpspliceError as error:
            chosen, reason = Plan((), (), (), (), ()), error.message
        for action in chosen.actions:
            outcomes[action.match].append(_replacement(action.match, action.rule, _action_name(action)))
        for annotation in chosen.annotations:
            outcomes[annotation.match].append(_replacement(annotation.match, annotation.rule, "annotate"))
        for left in chosen.left:
            outcomes[left.match].append(_replacement(left.match, left.rule, "keep", left.reason, lost=left.lost))
        for match in found.matches:
            if not outcomes[match]:
                outcomes[match].append(_unruled(match, reason))
        return outcomes

    def _plan(self, module: ir.Module, spec: LoadedSpec, found: Found, resolve: Resolver) -> Plan:
        targets = self._targets_of(module)
        obstacle = fallback.obstacle(module, targets)
        write = functools.partial(_written_out, spec)
        inputs = (found.matches, spec.rules, spec.kernels, targets, resolve, obstacle, write)
        if resolve != self.resolve:
            chosen = plan(*inputs, _unchecked, codes=spec.codes)
        else:
            generate = functools.partial(self._generate, Generators(self.store))
            chosen = plan(*inputs, externals.of, self.resolve_function, generate, spec.codes)
            _check_commands(chosen)
        conversions.check((a for a in chosen.actions if isinstance(a, KernelCall)), self.conversions)
        return chosen

    def _targets_of(self, module: ir.Module) -> Sequence[ProgramTarget]:
        return targets_of(module) if self.targets is None else self.targets

    def resolve(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        """The artifact of a kernel's clause for a target. Raises OpspliceError when it is missing or broken."""
        if clause.is_command:
            return _command(clause)
        return self._resolved(clause, symbol, target, _artifact)

    def resolve_function(self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
        """As `resolve`, for a function that is called for each element."""
        return self._resolved(clause, symbol, target, _function_artifact)

    def _generate(
        self, generators: Generators, clause: tree.ArtifactClause, request: Request, target: ProgramTarget
    ) -> Artifact:
        """The artifact of a clause that is generated, made by the user's file and then built as any file is."""
        try:
            made = generators.make(clause.file, request)
        except OpspliceError as error:
            raise _needed_by(clause, error) from None
        flags = (*made.flags, *clause.words)
        try:
            return _artifact(ArtifactRequest(made.path, (request.name,), flags=flags), target, self.store)
        except OpspliceError as error:
            # Nobody knows it by its name in the store.
            error.message = error.message.replace(made.path.name, f"what {clause.file.name} made")
            what = f"{made.path} is what {clause.file} made for {told(request)}"
            error.details = "\n".join(filter(None, [error.details, what]))
            raise _needed_by(clause, error) from None

    def _resolved(
        self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget, find: Callable[..., Artifact]
    ) -> Artifact:
        request = ArtifactRequest(
            path=clause.file,
            symbols=(symbol,),
            form="library" if _is_library(clause) else _FORMS[clause.form],
            flags=clause.words,
        )
        try:
            return find(request, target, self.store)
        except OpspliceError as error:
            raise _needed_by(clause, error) from None

    # ---- transform dialect ----------------------------------------------------------------------------------------

    def _transform(self, module: ir.Module, spec: TransformSpec) -> Report:
        find = functools.partial(self._object, spec.path.parent)
        others = bool(self.brought.digests)
        outcome = transform_spec.apply(module, spec.path, find, self.brought)
        if others:
            linking.check(module)
        where = str(spec.path)
        replacements = tuple(
            Replacement(
                rule=f"transform spec {spec.path.name}",
                rule_location=where,
                pattern="",
                function=_function(change.function),
                location=change.location,
                dims={},
                kernel=change.symbol,
                action="transform dialect",
            )
            for change in outcome.changes
        )
        rules = tuple(UnmatchedRule(p.rule, where, p.matcher) for p in outcome.unmatched)
        warnings: tuple[str, ...] = ()
        if outcome.otherwise:
            warnings = (f"{where} also changed the module in ways that are no calls and are not counted",)
        elif not replacements and not rules:
            warnings = (f"{where} changed nothing",)
        return Report(replacements, unmatched=rules, warnings=warnings)

    def _beside(self, code: tree.Code, path: str, text: str) -> Path | None:
        source = code.span.source.path
        return None if source is None else self._object(source.parent, path, text)

    def _object(self, folder: Path, path: str, text: str) -> Path | None:
        """The file for an artifact that MLIR in a folder names; None leaves the name as it is."""
        beside = folder / path
        if not beside.is_file():
            return None  # IREE looks for it along --iree-hal-executable-object-search-path
        target = parse_target(text)
        if beside.suffix in (".o", ".bc") or target.backend != "llvm-cpu":
            return beside.resolve()
        arch = target.arch or target.format.removeprefix("embedded-elf-")
        wanted = CpuTarget.of(arch, target.features)
        return cpu.resolve(ArtifactRequest(beside, ()), wanted, self.store).path


def _is_on_metal(actions: Sequence[Action]) -> bool:
    """Whether a call is one of a shader for Metal."""
    calls = (action for action in actions if isinstance(action, KernelCall))
    return any(external.on_metal for call in calls for external in call.externals)


def _needed_by(clause: tree.ArtifactClause, error: OpspliceError) -> OpspliceError:
    error.details = "\n".join(filter(None, [error.details, f"needed by the kernel at {clause.span}"]))
    return error


def _artifact(request: ArtifactRequest, target: ProgramTarget, store: Store) -> Artifact:
    """The artifact for any kind of target."""
    if target.backend == "vulkan-spirv":
        from opsplice.targets import spirv

        return spirv.resolve(request, _spirv_target(target), store)
    if target.backend == "cuda":
        from opsplice.targets import cuda

        return cuda.resolve(request, CudaTarget.of(target.arch), store)
    if target.backend == "rocm":
        from opsplice.targets import rocm

        return rocm.resolve(request, RocmTarget(target.arch), store)
    if target.backend == "metal-spirv":
        from opsplice.targets import metal

        return metal.resolve(request, store)
    if request.form == "library":
        return elf_dispatch.resolve(request, CpuTarget.of(target.arch, target.features), store)
    return cpu.resolve(request, CpuTarget.of(target.arch, target.features), store)


def _is_library(clause: tree.ArtifactClause) -> bool:
    """Whether a clause names an executable of IREE's for a CPU."""
    return clause.form == "dispatch" and clause.path.endswith(elf_dispatch.SUFFIX)


def _libraries(actions: Sequence[Action]) -> elf_link.Files:
    """The executables of IREE's for CPUs that calls are of."""
    calls = [action for action in actions if isinstance(action, KernelCall)]
    found = [external for call in calls for external in call.externals if external.is_library]
    return {(each.entry, parse_target(each.target).format): each.path for each in found}


def _function_artifact(request: ArtifactRequest, target: ProgramTarget, store: Store) -> Artifact:
    if target.is_cpu:
        return _artifact(request, target, store)
    return device_functions.resolve(request, target.backend, store)


def _spirv_target(target: ProgramTarget) -> SpirvTarget:
    """What IREE says of a Vulkan target: `spirv:v1.6,cap:Shader,...`. It names what its own code uses, not all."""
    version = re.search(r"spirv:v(\d+)\.(\d+)", target.features)
    return SpirvTarget((int(version[1]), int(version[2]))) if version else SpirvTarget()


# A dispatch of a CPU is linked as an object is, and so is what a provider is to have.
_FORMS: dict[str | None, cpu.Form | None] = {
    None: None,
    "object": "object",
    "bitcode": "bitcode",
    "dispatch": None,
    "provided": None,
    "generated": None,
}


def _command(clause: tree.ArtifactClause) -> Artifact:
    """A file of Python, or a module that IREE has compiled, which stays where it is."""
    path = clause.file
    if path.suffix not in (".py", COMPILED):
        raise OpspliceError(
            f"{path} is no command: that is a Python file, or a module that IREE has compiled ({COMPILED})",
            details=f"needed by the kernel at {clause.span}",
        )
    _named_only(clause, "", None)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Artifact(path=path, form="object", digest=digest, arch=None, toolchain=None, built=False)


def _check_commands(chosen: Plan) -> None:
    """Raise OpspliceError for a command whose file lacks the function that is to be called."""
    checked = set()
    for action, choices in zip(chosen.actions, chosen.choices, strict=True):
        if isinstance(action, KernelCall) and action.approach == "command":
            for path in dict.fromkeys(choice.clause.file for choice in choices):
                # Which types are passed depends on nothing else but where the program has its scalars.
                key = (path, provided_name(action), *(a.element for a in action.arguments))
                if key not in checked:
                    checked.add(key)
                    command_files.check(action, path)


def commands_of(specs: Iterable[LoadedSpec]) -> dict[str, Path]:
    """The files of the commands that kernels are, by the module that each becomes.

    Raises OpspliceError for two files that would be one module.
    """
    found: dict[str, tree.ArtifactClause] = {}
    for clause in (c for spec in specs for kernel in spec.kernels.values() for c in kernel.artifacts if c.is_command):
        first = found.setdefault(module_of(clause.path), clause)
        if first.file.resolve() != clause.file.resolve():
            raise OpspliceError(
                f"two files of commands are called {module_of(clause.path)}, and a program knows them by that name",
                hint="rename one of them",
                details=f"{first.file}: the clause at {first.span}\n{clause.file}: the clause at {clause.span}",
            )
    return {name: clause.file for name, clause in found.items()}


def _named_only(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget | None) -> Artifact:
    path = clause.file
    if not path.is_file():
        raise OpspliceError(f"no such file: {path}", details=f"needed by the kernel at {clause.span}")
    return Artifact(path=path, form="object", digest="", arch=None, toolchain=None, built=False)


def _unread(clause: tree.ArtifactClause, symbol: str, target: ProgramTarget) -> Artifact:
    """The file of a clause whether it is there or not: what would match does not depend on that."""
    return Artifact(path=clause.file, form="object", digest="", arch=None, toolchain=None, built=False)


def _unchecked(call: KernelCall, choice: Choice) -> External:
    """The dispatch of a file that was not read."""
    return External(choice.target.text, choice.code.path, call.symbol, (1, 1, 1))


def at_phase(spec: LoadedSpec, phase: str, default: str) -> LoadedSpec:
    """The part of a spec that applies at a phase. default: the phase of rules that name none."""
    rules = tuple(r for r in spec.rules if (r.phase or default) == phase)
    return dataclasses.replace(spec, rules=rules, runs=tuple(r for r in spec.runs if r.phase == phase))


def phases_of(spec: LoadedSpec, default: str) -> frozenset[str]:
    """The phases at which a spec has anything to do."""
    return frozenset({*(r.phase or default for r in spec.rules), *(r.phase for r in spec.runs)})


def run_passes(module: ir.Module, spec: LoadedSpec) -> None:
    """Raises OpspliceError for passes that IREE does not have, and for those that fail."""
    for run in spec.runs:
        try:
            manager = PassManager.parse(f"builtin.module({run.passes})", context=module.context)
            manager.run(module.operation)
        except (ValueError, ir.MLIRError) as failure:
            told = [line for line in str(failure).splitlines() if "error:" in line] or str(failure).splitlines()
            message = told[0].rpartition("error:")[2].strip()
            raise OpspliceError(f'cannot run "{run.passes}"', details=f"{run.passes_span}: {message}") from None


def _written_out(spec: LoadedSpec, match: Match, rule: tree.Rule) -> Written:
    from opsplice.rewrites import template  # few specs need it

    return template.write(match, rule, spec.patterns)


def graphs_of(spec: LoadedSpec) -> Sequence[Graph]:
    """The compiled patterns that the rules of a spec use, in the order of the rules."""
    names = dict.fromkeys(rule.pattern for rule in spec.rules)
    return [g for n in names for g in compile_pattern(spec.patterns[n], spec.patterns, spec.types)]


# ---- the report --------------------------------------------------------------------------------------------------


def _joined(reports: Sequence[Report]) -> Report:
    """The report of all rounds: what was left alone is what the last one left."""
    replacements = tuple(r for report in reports for r in report.replacements)
    *_, final = reports
    used = {r.rule_location for r in replacements}
    unmatched = tuple(u for u in reports[0].unmatched if u.rule_location not in used)
    return Report(replacements, final.kept, unmatched)


def _only_new(chosen: Plan) -> Plan:
    """Without the calls that were chosen before rules wrote anything, which are still to be made."""
    new = [
        isinstance(action, Insertion) or any(insertion.is_written(op) for op in action.match.ops)
        for action in chosen.actions
    ]
    return dataclasses.replace(
        chosen,
        actions=tuple(itertools.compress(chosen.actions, new)),
        choices=tuple(itertools.compress(chosen.choices, new)),
        kept=tuple(itertools.compress(chosen.kept, new)),
    )


def _report(spec: LoadedSpec, found: Found, chosen: Plan, number: int = 0) -> Report:
    """number: how often rules have written what this round found."""
    replacements = []
    for action, choices, others in zip(chosen.actions, chosen.choices, chosen.kept, strict=True):
        optional = isinstance(action, KernelCall) and action.optional
        artifacts = (*(_artifact_use(choice, optional=optional) for choice in choices), *map(_compiler_use, others))
        made = _replacement(action.match, action.rule, _action_name(action), artifacts=artifacts)
        replacements.append(dataclasses.replace(made, round=number))
    if number == 0:
        replacements += [_replacement(a.match, a.rule, "annotate") for a in chosen.annotations]
    kept = tuple(_replacement(left.match, left.rule, "keep", left.reason, lost=left.lost) for left in chosen.left)
    done = (*chosen.actions, *chosen.annotations, *chosen.left)
    used = {id(each.rule) for each in done}
    explainer = Explainer(spec.patterns)
    misses: dict[str, list[NearMiss]] = {}
    for miss in found.near_misses:
        misses.setdefault(miss.pattern, []).append(miss)
    unmatched = tuple(
        UnmatchedRule(rule.title, str(rule.span), rule.pattern, _nearest(explainer, misses.get(rule.pattern, [])))
        for rule in spec.rules
        if id(rule) not in used
    )
    return Report(tuple(replacements), kept, unmatched)


def _action_name(action: Action) -> str:
    return action.approach if isinstance(action, KernelCall) else "inline"


def _replacement(
    match: Match,
    rule: tree.Rule,
    action: str,
    reason: str = "",
    artifacts: tuple[ArtifactUse, ...] = (),
    lost: bool = False,
) -> Replacement:
    return Replacement(
        rule=rule.title,
        rule_location=str(rule.span),
        pattern=rule.pattern,
        function=_function(match.function),
        location=match.location,
        dims={name: _dim(size) for name, size in match.dims.items()},
        kernel=rule.kernel or ("" if rule.attributes else "mlir"),
        action=action,
        reason=reason,
        lost=lost,
        artifacts=artifacts,
    )


def _unruled(match: Match, reason: str) -> Replacement:
    return Replacement(
        rule="",
        rule_location="",
        pattern=match.pattern.name,
        function=_function(match.function),
        location=match.location,
        dims={name: _dim(size) for name, size in match.dims.items()},
        kernel="",
        action="none",
        reason=reason,
    )


def _artifact_use(choice: Choice, *, optional: bool) -> ArtifactUse:
    """optional: whether the compiler's own code runs where no plugin has the function."""
    artifact = choice.artifact
    if artifact is None:
        source = "a plugin, if one has it" if optional else "a plugin"
        return ArtifactUse(target=str(choice.target), source=source, path="", form="plugin", digest="")
    return ArtifactUse(
        target=str(choice.target),
        source=str(choice.clause.file),
        path=str(artifact.path),
        form="command" if choice.clause.is_command else artifact.form,
        digest=artifact.digest,
        toolchain=artifact.toolchain,
        built=artifact.built,
        notes=artifact.notes,
    )


def _compiler_use(target: ProgramTarget) -> ArtifactUse:
    return ArtifactUse(target=str(target), source="the compiler", path="", form="compiler", digest="")


def _dim(size: Size | tuple[Size, ...]) -> DimSize:
    if isinstance(size, tuple):
        return [s if isinstance(s, int) else None for s in size]
    return size if isinstance(size, int) else None


def _function(name: str) -> str:
    """The name that the user knows: frontends put the work into a twin `main$async` of `main`."""
    return name.removesuffix("$async")


def _nearest(explainer: Explainer, misses: Sequence[NearMiss]) -> tuple[Miss, ...]:
    return tuple(
        Miss(
            function=attempt.function,
            location=attempt.location,
            wanted=attempt.reason.wanted,
            found=attempt.reason.found,
            spec_location="" if attempt.reason.span is None else str(attempt.reason.span),
            at="" if attempt.reason.at is None else attempt.reason.at.location,
            kind=str(attempt.reason.kind),
        )
        for attempt in explainer.near_misses(misses[:_NEAREST])
    )
