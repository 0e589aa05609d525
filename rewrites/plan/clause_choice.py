"""Which clause of a kernel serves a target, and why others do not."""

from __future__ import annotations

from collections.abc import Iterable

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.ir.executable_targets import ProgramTarget, sm_of
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.backends.backend_table import name_of, named


def clause_for(kernel: tree.Kernel, target: ProgramTarget) -> tree.ArtifactClause | None:
    """The first clause that a target can take; of those for one SM version or another the newest."""
    fitting = [clause for clause in of_backend(kernel.artifacts, target) if not unfit(clause, target)]
    return max(fitting, key=newness) if fitting else None


def newness(clause: tree.ArtifactClause) -> tuple[int, bool]:
    """By what clauses come before those in front of them: the SM version, and whether they are for it alone."""
    number = sm_of((clause.arch or "").rstrip("af")) or 0
    return number, number > 0 and sm_of(clause.arch) is None


def of_backend(clauses: Iterable[tree.ArtifactClause], target: ProgramTarget) -> list[tree.ArtifactClause]:
    """The clauses for devices of a target's kind, whichever of these they are for."""
    return [clause for clause in clauses if named(clause.backend) is named(target.backend) is not None]


def unfit(clause: tree.ArtifactClause, target: ProgramTarget) -> str:
    """Why a clause for the backend of a target is not for the target, "" if it is."""
    if not runs_on(clause.arch, target):
        return (
            f"the clause at {clause.span} is for {clause.arch}, and the target is {target.arch or 'not known to IREE'}"
        )
    if lacking := [feature for feature in clause.features if feature not in target.feature_names]:
        return f"the clause at {clause.span} wants {' and '.join(lacking)}, which the target lacks"
    for limit in clause.limits:
        numbers = target.limit(limit.name)
        is_told = bool(numbers) and (limit.op in (">=", ">") or not target.is_profile)
        if not is_told or not all(dim_conditions.COMPARISONS[limit.op](number, limit.value) for number in numbers):
            known = f"{'at least ' * target.is_profile}{' or '.join(map(str, numbers))}" if numbers else "not known"
            return f"the clause at {clause.span} wants {limit}, and of the target {limit.name} is {known}"
    return ""


def runs_on(arch: str | None, target: ProgramTarget) -> bool:
    """Whether code for an architecture (None: for any) runs on a target."""
    if arch is None:
        return True
    if target.is_cpu:
        return archs.normalize(arch) == archs.normalize(target.arch)
    wanted, given = sm_of(arch), sm_of(target.arch.rstrip("af"))
    return arch == target.arch if wanted is None or given is None else wanted <= given


def clause_text(target: ProgramTarget) -> str:
    if target.is_cpu:
        return f'cpu {target.arch or "x86_64"} "..."'
    return f'{name_of(target.backend)} "..."'


def or_compile_for(kernel: tree.Kernel) -> str:
    """Advice for a kernel that has code for other devices than CPUs: to name them, as IREE takes the CPU by default."""
    names = dict.fromkeys(name_of(clause.backend) for clause in kernel.artifacts)
    return "" if not names or "cpu" in names else f", or compile for what it has code for: --target={','.join(names)}"


def check_alike(kernel: tree.Kernel, ways: Iterable[tuple[str, tree.ArtifactClause]], among: str = "targets") -> None:
    """Raise OpspliceError if clauses of a kernel have it called in several ways. ways: of each clause, in words."""
    first: dict[str, tree.ArtifactClause] = {}
    for way, clause in ways:
        first.setdefault(way, clause)
    if len(first) > 1:
        raise OpspliceError(
            f"kernel '{kernel.name}' is {f' for some {among} of the program and '.join(first)} for others",
            hint="one call is of one kind, whatever the target: write the same in all of its clauses",
            details="\n".join(f"{way}: the clause at {clause.span}" for way, clause in first.items()),
        )


def with_features(target: ProgramTarget) -> str:
    return f" with features {target.features}" if target.features else ""
