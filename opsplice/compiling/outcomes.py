"""What was found and done, as a report."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from opsplice.common.files import read_file
from opsplice.matchers.explain.diagnosis import Explainer
from opsplice.matchers.explain.places import as_known
from opsplice.matchers.search.matches import Match, NearMiss, Size
from opsplice.matchers.terms.views import Views
from opsplice.reports.report import ArtifactUse, DimSize, Miss, PackageUse, Replacement, Report, UnmatchedRule
from opsplice.rewrites.approaches.approach_table import approach_of
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan import layout_words
from opsplice.rewrites.plan.actions import Action, Choice, KernelCall
from opsplice.rewrites.plan.planner import Plan
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact

NEAREST = 3
# Of at most so many rules of the user's that matched nothing a compile says where they came near, if others matched:
# more are a library, which has rules for many programs. Else, and in `match` and `explain`, it is said of all.
MOST_NEAR = 8


def joined(reports: Sequence[Report]) -> Report:
    """The report of all rounds: what was left alone is what the last one left."""
    replacements = tuple(r for report in reports for r in report.replacements)
    *_, final = reports
    used = {r.rule_location for r in replacements}
    unmatched = tuple(u for u in reports[0].unmatched if u.rule_location not in used)
    return Report(replacements, final.kept, unmatched)


def unmatched(spec: LoadedSpec, chosen: Plan) -> list[tree.Rule]:
    """The rules that nothing comes of."""
    used = {id(each.rule) for each in (*chosen.actions, *chosen.annotations, *chosen.left)}
    return [rule for rule in spec.rules if id(rule) not in used]


def looked_at(spec: LoadedSpec, chosen: Plan) -> frozenset[str]:
    """The patterns of rules that nothing comes of; where others matched those of the user's, if they are few."""
    rules = unmatched(spec, chosen)
    if len(rules) < len(spec.rules):
        rules = [rule for rule in rules if not _library(spec, rule)]
        rules = [] if len(rules) > MOST_NEAR else rules
    return frozenset(rule.pattern for rule in rules)


def report(
    spec: LoadedSpec,
    near_misses: Sequence[NearMiss],
    chosen: Plan,
    number: int = 0,
    looked: Collection[str] | None = None,
    views: Views | None = None,
) -> Report:
    """number: how often rules have written what this round found. looked: the patterns that near misses were looked
    for of, None for all. views: of the module, as it was searched.
    """
    told = [each for _, each in _told(chosen, spec)]
    replacements = tuple(dataclasses.replace(each, round=number) for each in told if each.action != "keep")
    kept = tuple(each for each in told if each.action == "keep")
    explainer = Explainer(spec.patterns, views=views)
    misses: dict[str, list[NearMiss]] = {}
    for miss in near_misses:
        misses.setdefault(miss.pattern, []).append(miss)
    rules = tuple(
        UnmatchedRule(
            rule.title,
            str(rule.span),
            rule.pattern,
            _nearest(explainer, misses.get(rule.pattern, [])),
            _library(spec, rule),
            looked is None or rule.pattern in looked,
        )
        for rule in unmatched(spec, chosen)
    )
    return Report(replacements, kept, rules)


def _library(spec: LoadedSpec, rule: tree.Rule) -> str:
    path = rule.span.source.path
    return "" if path is None or path not in spec.libraries else spec.libraries[path].name


def by_match(matches: Sequence[Match], chosen: Plan, reason: str) -> dict[Match, list[Replacement]]:
    """What becomes of each match, by a plan. reason: why one that is not in it has the action `none`."""
    found: dict[Match, list[Replacement]] = {match: [] for match in matches}
    for match, each in _told(chosen):
        found[match].append(each)
    return {match: told or [_replacement(match, None, "none", reason)] for match, told in found.items()}


def _told(chosen: Plan, spec: LoadedSpec | None = None) -> Iterator[tuple[Match, Replacement]]:
    """What becomes of matches by a plan, of those that are left last. spec: for artifacts, which None leaves out."""
    for action in chosen.actions:
        artifacts = _artifacts(spec, action) if spec is not None and isinstance(action, KernelCall) else ()
        yield action.match, _taken(action, artifacts)
    for annotation in chosen.annotations:
        yield annotation.match, _replacement(annotation.match, annotation.rule, "annotate")
    for left in chosen.left:
        yield left.match, _replacement(left.match, left.rule, "keep", left.reason, lost=left.lost)


def _taken(action: Action, artifacts: tuple[ArtifactUse, ...] = ()) -> Replacement:
    """What takes the place of a match."""
    if not isinstance(action, KernelCall):
        return _replacement(action.match, action.rule, "inline")
    found = _replacement(action.match, action.rule, approach_of(action).name(action), "", artifacts)
    when = "" if action.when is None else action.when.span.written
    return dataclasses.replace(found, views=layout_words.told(action), when=when)


def _replacement(
    match: Match,
    rule: tree.Rule | None,
    action: str,
    reason: str = "",
    artifacts: tuple[ArtifactUse, ...] = (),
    lost: bool = False,
) -> Replacement:
    kernel = "" if rule is None else rule.kernel or ("mlir" if rule.code else "")
    return Replacement(
        rule="" if rule is None else rule.title,
        rule_location="" if rule is None else str(rule.span),
        pattern=match.pattern.name if rule is None else rule.pattern,
        function=as_known(match.function),
        location=match.location,
        dims={name: _dim(size) for name, size in match.dims.items()},
        kernel=kernel,
        action=action,
        reason=reason,
        lost=lost,
        artifacts=artifacts,
    )


def _package(spec: LoadedSpec, choice: Choice) -> PackageUse | None:
    """What a kernel came with."""
    path = choice.clause.span.source.path
    library = None if path is None else spec.libraries.get(path)
    return None if library is None else PackageUse(library.name, library.version, library.digest, library.key)


def _artifacts(spec: LoadedSpec, call: KernelCall) -> tuple[ArtifactUse, ...]:
    choices = [choice for each in reversed(call.launches) for choice in each.choices]
    uses = (_artifact_use(each, _package(spec, each), optional=call.is_optional) for each in choices)
    return (*dict.fromkeys(uses), *map(_compiler_use, call.kept))


def _artifact_use(choice: Choice, package: PackageUse | None, *, optional: bool) -> ArtifactUse:
    """optional: whether the compiler's own code runs where no plugin has the function."""
    artifact = choice.artifact
    if artifact is None:
        source = "a plugin, if one has it" if optional else "a plugin"
        return ArtifactUse(target=str(choice.target), source=source, path="", form="plugin", digest="", package=package)
    return ArtifactUse(
        target=str(choice.target),
        source=str(choice.clause.file),
        path=str(artifact.path),
        form="command" if choice.clause.is_command else artifact.form,
        digest=artifact.digest,
        toolchain=artifact.toolchain,
        built=artifact.built,
        notes=artifact.notes,
        package=package,
    )


def object_use(source: str, target: ProgramTarget, file: Path | Artifact) -> ArtifactUse:
    """A file that MLIR names, as it is or as what was built from it."""
    if isinstance(file, Artifact):
        digest, path, form = file.digest, file.path, str(file.form)
    else:
        digest, path = hashlib.sha256(read_file(file)).hexdigest(), file
        form = {".o": "object", ".bc": "bitcode"}.get(file.suffix, file.suffix[1:])
    toolchain, built = (file.toolchain, file.built) if isinstance(file, Artifact) else (None, False)
    return ArtifactUse(str(target), source, str(path), form, digest, toolchain, built)


def _compiler_use(target: ProgramTarget) -> ArtifactUse:
    return ArtifactUse(target=str(target), source="the compiler", path="", form="compiler", digest="")


def _dim(size: Size | tuple[Size, ...]) -> DimSize:
    if isinstance(size, tuple):
        return [s if isinstance(s, int) else None for s in size]
    return size if isinstance(size, int) else None


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
            progress=round(attempt.progress, 3),
        )
        for attempt in explainer.near_misses(misses[:NEAREST], drawn=False)
    )
