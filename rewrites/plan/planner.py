"""The planner: which rule, kernel and artifact each match gets, or why it is left alone. It changes nothing.

Rules count in file order: an earlier rule's matches are settled first, and within a rule the program's order decides.
A match is left alone when an earlier choice has taken its place.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers.dims.size_bounds import bounds_of
from opsplice.matchers.ir.tensor_values import defining_op, element_type
from opsplice.matchers.search import uses
from opsplice.matchers.search.matches import Match, Size, flat, paired
from opsplice.matchers.terms.address import NONE, Layout
from opsplice.matchers.terms.terms import DimSize
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.approaches import static_function
from opsplice.rewrites.approaches.annotation import setters
from opsplice.rewrites.approaches.insertion import Calls, written_by
from opsplice.rewrites.approaches.table import approach_of
from opsplice.rewrites.ir.executable_targets import ProgramTarget, sm_of
from opsplice.rewrites.ir.placing import anchor_of, needs
from opsplice.rewrites.memory import strides
from opsplice.rewrites.plan import generation
from opsplice.rewrites.plan.actions import (
    Action,
    Annotation,
    Buffer,
    Choice,
    Insertion,
    KernelCall,
    Output,
    Scalar,
    Written,
)
from opsplice.spec_lang.checking.computed_arguments import launched
from opsplice.spec_lang.checking.patterns import certain
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import Artifact
from opsplice.targets.backends.table import name_of, named

# Finds or builds the artifact of a kernel's clause for a target of the program.
Resolver = Callable[[tree.ArtifactClause, str, ProgramTarget], Artifact]
# Has the artifact of a clause made for one match.
Generate = Callable[[tree.ArtifactClause, generation.Request, ProgramTarget], Artifact]
# The MLIR for a rule that puts another pattern in the place of its own, or for what it computes for its kernel.
CodeWriter = Callable[[Match, tree.Rule, tree.Computed | None], Written]
_OWN: judge.Sizes = {}
_NOT_DENSE = "is no value of the program by itself"


def _no_code(_match: Match, rule: tree.Rule, _computed: tree.Computed | None = None) -> Written:
    raise OpspliceError(f"there is no kernel {rule.kernel}")


@dataclass(frozen=True, eq=False)
class Left:
    """A match that is left as it is, and why. lost: another rule, or an earlier match, has its place."""

    match: Match
    rule: tree.Rule
    reason: str
    lost: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """What will be done: the actions in program order, and what is left alone."""

    actions: tuple[Action, ...]
    annotations: tuple[Annotation, ...]
    left: tuple[Left, ...]

    @property
    def calls(self) -> list[KernelCall]:
        """The actions that call kernels."""
        return [call for action in self.actions if isinstance(action, KernelCall) for call in action.launches]


class _LeaveError(Exception):
    """Raised inside the planner: this match cannot have this rule's kernel, for the reason in the message."""


class _LostError(_LeaveError):
    """Another rule, or an earlier match, has its place."""


def plan(
    matches: Sequence[Match],
    rules: Sequence[tree.Rule],
    kernels: Mapping[str, tree.Kernel],
    targets: Sequence[ProgramTarget],
    resolve: Resolver,
    obstacle: str = "",
    write: CodeWriter = _no_code,
    read: bool = True,
    resolve_function: Resolver | None = None,
    generate: Generate | None = None,
    codes: Sequence[tree.Code] = (),
) -> Plan:
    """Choose a rule, kernel and artifacts for each match.

    obstacle: why the program cannot tell its targets apart; `otherwise keep` then leaves a match alone for all of them.
    write: gives the MLIR of a rule that puts another pattern in place. read: compare artifacts with calls of them.
    resolve_function: as `resolve`, for kernels that are called for each element; `resolve` by default.
    generate: makes what is `as generated`; by default `resolve` is asked for it.
    codes: the spec's raw MLIR, which rules' own refers to.
    Raises OpspliceError when a target has no artifact and the rule does not say `otherwise keep`, and whatever
    `resolve` raises for an artifact that is broken.
    """
    function, calls = resolve_function or resolve, Calls(codes)
    return _Planner(matches, rules, kernels, targets, resolve, obstacle, write, read, function, generate, calls).plan()


@dataclass(eq=False)
class _Planner:
    """What `plan` is given, and what is chosen so far. set: by op, with the place of the rule."""

    matches: Sequence[Match]
    rules: Sequence[tree.Rule]
    kernels: Mapping[str, tree.Kernel]
    targets: Sequence[ProgramTarget]
    resolve: Resolver
    obstacle: str
    write: CodeWriter
    read: bool
    resolve_function: Resolver
    generate: Generate | None
    calls: Calls
    roots: dict[Any, Action] = field(default_factory=dict)
    covered: dict[Any, Action] = field(default_factory=dict)
    resolved: dict[tuple[tree.ArtifactClause, str, ProgramTarget], Artifact] = field(default_factory=dict)
    needed: dict[Any, list[Action]] = field(default_factory=dict)
    set: dict[Any, dict[str, str]] = field(default_factory=dict)
    views: Views = field(default_factory=Views)

    def plan(self) -> Plan:
        order = {match: i for i, match in enumerate(self.matches)}
        of_pattern: dict[str, list[Match]] = {}
        for match in self.matches:
            of_pattern.setdefault(match.pattern.name, []).append(match)
        for same in of_pattern.values():
            same.sort(key=lambda match: (-match.held, order[match]))  # the longer alternative first
        chosen: dict[Match, Action] = {}
        annotations: list[Annotation] = []
        reasons: dict[Match, list[Left]] = {}
        for rule in self.rules:
            for match in of_pattern.get(rule.pattern, ()):
                if match in chosen and not rule.attributes:
                    continue
                try:
                    if rule.attributes:
                        _check_condition(self.views, rule.where, match, "the rule's")
                        self._annotate(match, rule, annotations)
                    else:
                        chosen[match] = self._action(match, rule)
                except _LeaveError as left:
                    reasons.setdefault(match, []).append(Left(match, rule, str(left), isinstance(left, _LostError)))
        actions = tuple(chosen[m] for m in sorted(chosen, key=order.__getitem__))
        alone = tuple(left for m in self.matches if m not in chosen for left in reasons.get(m, []))
        laid_out = strides.laid_out(self.views, actions, self.covered)
        return Plan(tuple(laid_out), tuple(annotations), alone)

    def _annotate(self, match: Match, rule: tree.Rule, annotations: list[Annotation]) -> None:
        """Add the rule's attributes that no earlier rule sets on the op. Raises _LostError if one does."""
        op, own = match.roots[0].owner.operation, str(rule.span)
        earlier = self.set.setdefault(op, setters(op))
        unset = tuple(a for a in rule.attributes if a.name not in earlier)
        if unset:
            annotations.append(Annotation(match, rule, unset))
            earlier.update({a.name: own for a in unset})
        others = {a.name: earlier[a.name] for a in rule.attributes if earlier[a.name] != own}
        taken = [f"{name} is set by the rule at {other}" for name, other in others.items()]
        if taken:
            raise _LostError(", ".join(taken))

    def _without(self, choices: tuple[Choice, ...]) -> tuple[ProgramTarget, ...]:
        chosen = {c.target for c in choices}
        return tuple(t for t in self.targets if t not in chosen)

    def _action(self, match: Match, rule: tree.Rule) -> Action:
        if str(rule.span) in written_by(match):
            raise _LostError("it is what the rule wrote itself")
        self._check_overlap(match)
        self._check_order(match, rule)
        _check_condition(self.views, rule.where, match, "the rule's")
        if rule.code is None:
            _check_passed(match, rule)
        action: Action
        apart = next((name for name, bound in match.inputs.items() if bound.places), None)
        if apart is not None and rule.kernel not in self.kernels:
            raise _LeaveError(f"{apart} {_NOT_DENSE}")
        if rule.code is not None:
            if "@" in rule.code.text:
                if self.calls.recurses(match, rule.code):
                    raise _LostError("what the rule calls would call itself")
                self.calls.add(match, rule.code)
            action = Insertion(match, rule, rule.code)
        elif rule.kernel in self.kernels:
            action = self._call(match, rule, self.kernels[rule.kernel])
        else:
            action = Insertion(match, rule, _fitting(self.write(match, rule, None), match, rule))
        self.roots.update(dict.fromkeys(match.roots, action))
        if len(match.roots) > 1:
            for value in needs(match):
                self.needed.setdefault(value, []).append(action)
        self.covered.update(dict.fromkeys(match.ops, action))
        return action

    def _call(self, match: Match, rule: tree.Rule, kernel: tree.Kernel) -> KernelCall:
        call = self._chosen(match, rule, kernel)
        kept = tuple(dict.fromkeys(target for each in call.launches for target in each.kept))
        if len(call.launches) > 1 and any(each.is_optional for each in call.launches):
            raise _LeaveError("a kernel that is given what another one makes is in the program, and not in a plugin")

        def without(each: KernelCall) -> KernelCall:
            choices = tuple(choice for choice in each.choices if choice.target not in kept)
            return dataclasses.replace(each.mapped(without), choices=choices, kept=kept)

        return without(call) if kept and len(call.launches) > 1 else call

    def _chosen(self, match: Match, rule: tree.Rule, kernel: tree.Kernel, inner: bool = False) -> KernelCall:
        """inner: whether another kernel is given what this one makes."""

        def launch(arg: tree.Launch) -> KernelCall:
            return self._chosen(match, launched(rule, arg), self.kernels[arg.kernel], inner=True)

        signature = _Signature(match, rule, kernel, self.views, self.write, launch)
        call = signature.scalar_call() if kernel.is_scalar else signature.call(inner)
        request = generation.request_of(call, signature.types, _product)
        choices = self._choices(rule, kernel, request)
        if any(c.clause.is_generated and c.target.is_cpu for c in choices):
            call = dataclasses.replace(call, symbol=request.name)
        call = dataclasses.replace(call, choices=choices, kept=self._without(choices))
        approach = approach_of(call)
        approach.check(call)
        return approach.prepared(call) if self.read else call

    # ---- overlaps -------------------------------------------------------------------------------------------------

    def _check_overlap(self, match: Match) -> None:
        for root in match.roots:
            if root in self.roots:
                raise _LostError(f"rule {_name(self.roots[root].rule)} replaces this value already")
            winner = self.covered.get(root.owner.operation)
            if winner is not None and all(use.owner.operation in self.covered for use in root.uses):
                raise _LostError(f"it lies inside a match of rule {_name(winner.rule)}")
        own = {root.owner.operation for root in match.roots}
        for op in match.ops:
            if op in own:
                continue
            for result in op.results:
                if result in self.roots:
                    raise _LostError(f"rule {_name(self.roots[result].rule)} replaces a part of it")

    def _check_order(self, match: Match, rule: tree.Rule) -> None:
        """With several results what replaces them stands in one place, so no user may come before that."""
        if len(match.roots) == 1:
            return
        block = match.roots[0].owner.operation.block
        if any(root.owner.operation.block != block for root in match.roots):
            raise _LeaveError("its results are made in different blocks")
        anchor = _anchor(match, rule)
        users = [use.owner.operation for root in match.roots for use in root.uses]
        users = [user for user in users if user not in match.ops]
        # What took the place of other matches may stand apart from what it replaces.
        users += [_anchor(a.match, a.rule) for root in match.roots for a in self.needed.get(root, ())]
        makers = [self.roots[value] for value in needs(match) if value in self.roots]
        makers = [maker for maker in makers if len(maker.match.roots) > 1]
        late = [op for op in (_anchor(m.match, m.rule) for m in makers) if op.block == block]
        if any(_is_before(user, anchor) for user in users) or any(not _is_before(op, anchor) for op in late):
            raise _LeaveError(
                "one of its results is used before all that it needs is there: "
                "what it is made from, or another of its results, comes too late in the program"
            )

    # ---- artifacts ------------------------------------------------------------------------------------------------

    def _choices(self, rule: tree.Rule, kernel: tree.Kernel, request: generation.Request) -> tuple[Choice, ...]:
        clauses = {target: _clause_for(kernel, target) for target in self.targets}
        self._check_missing(rule, kernel, [target for target, clause in clauses.items() if clause is None])
        _check_one_way(kernel, [clause for clause in clauses.values() if clause is not None])
        generation.check_agree(kernel, [(t, clause) for t, clause in clauses.items() if clause is not None])
        resolve = self.resolve_function if kernel.is_scalar else self.resolve
        return tuple(Choice(t, c, self._artifact(c, request, t, resolve)) for t, c in clauses.items() if c is not None)

    def _artifact(
        self, clause: tree.ArtifactClause, request: generation.Request, target: ProgramTarget, resolve: Resolver
    ) -> Artifact | None:
        if clause.is_plugin:
            return None
        key = (clause, request.name if clause.is_generated else request.kernel, target)
        if key not in self.resolved:
            generated = clause.is_generated and self.generate is not None
            self.resolved[key] = self._generated(clause, request, target) if generated else resolve(*key)
        return self.resolved[key]

    def _generated(self, clause: tree.ArtifactClause, request: generation.Request, target: ProgramTarget) -> Artifact:
        assert self.generate is not None
        return self.generate(clause, generation.for_target(request, target), target)

    def _check_missing(self, rule: tree.Rule, kernel: tree.Kernel, missing: Sequence[ProgramTarget]) -> None:
        if not missing:
            return
        if rule.keep:
            reason = f"kernel {kernel.name} has no artifact for {', '.join(map(str, missing))}"
            if len(missing) == len(self.targets):
                raise _LeaveError(reason)
            if self.obstacle:
                raise _LeaveError(f"{reason}, and {self.obstacle}")
            return
        raise OpspliceError(
            f"kernel '{kernel.name}' has no artifact for {missing[0]}{_with_features(missing[0])}",
            details="\n".join(_unfit(clause, missing[0]) for clause in of_backend(kernel.artifacts, missing[0])),
            hint=f"add a clause such as `{_clause_text(missing[0])}` to the kernel at {kernel.span}, "
            f"or write `otherwise keep` on the rule to leave such targets to the compiler{_or_compile_for(kernel)}",
        )


# ---- checks ------------------------------------------------------------------------------------------------------


def _fitting(code: Written, match: Match, rule: tree.Rule) -> Written:
    """Ops that make what the match does; through casts, a pattern holds for results of other types, too."""
    wanted = element_type(match.roots[0])
    kind = ir.Type.parse(code.kind, match.roots[0].context)
    made = str(kind.element_type) if isinstance(kind, ir.ShapedType) else code.kind
    if made != wanted:
        raise _LeaveError(f"pattern {rule.kernel} makes {made}, and the result is {wanted}")
    return code


def _anchor(match: Match, rule: tree.Rule) -> ir.Operation:
    """What a replacement stands before, and a copy of the match where the compiler's own code is kept besides."""
    return anchor_of(match, whole=rule.keep)


def _is_before(op: ir.Operation, anchor: ir.Operation) -> bool:
    holder = _ancestor_in(anchor.block, op)
    return holder is not None and holder.is_before_in_block(anchor)


def _ancestor_in(block: ir.Block, op: ir.Operation) -> ir.Operation | None:
    """The op of a block that is `op` or holds it; None if `op` is not below that block."""
    at: ir.Operation | None = op
    while at is not None and at.parent is not None:
        if at.block == block:
            return at
        at = at.parent.operation
    return None


def _check_condition(
    views: Views, where: tree.Condition | None, match: Match, whose: str, sizes: judge.Sizes = _OWN
) -> None:
    """sizes: those of the dims that the condition speaks of, by default the match's."""
    sizes = match.static_dims() if sizes is _OWN else sizes
    own = partial(uses.judge, views, match)
    asked = None if where is None else dim_conditions.without(where, partial(uses.is_left_out, match))
    if asked is None or judge.holds(asked, sizes, own):
        return
    failed = judge.first_failure(asked, sizes, own)
    shown = ", ".join(f"{n} = {judge.shown(sizes.get(n))}" for n in sorted(dim_conditions.numbers_in(failed)))
    raise _LeaveError(
        f"{whose} condition `{dim_conditions.written(failed)}` does not hold{f': {shown}' if shown else ''}"
    )


def _check_passed(match: Match, rule: tree.Rule) -> None:
    """A part that a match need not have, and has, is part of what it computes: a kernel must be given it."""
    passed = {part.name for part in tree.parts(rule.args) if isinstance(part, tree.Name)}
    left = (name for name in match.inputs if name not in passed and not name.startswith("_"))
    dropped = sorted({*left} - certain(match.pattern))
    if dropped:
        raise _LeaveError(f"it has {' and '.join(dropped)}, which the rule does not pass")


def _name(rule: tree.Rule) -> str:
    return f"`{rule.title}`"


# ---- artifacts ---------------------------------------------------------------------------------------------------


def _clause_for(kernel: tree.Kernel, target: ProgramTarget) -> tree.ArtifactClause | None:
    """The first clause that a target can take; of those for one SM version or another the newest."""
    fitting = [clause for clause in of_backend(kernel.artifacts, target) if not _unfit(clause, target)]
    return max(fitting, key=newness) if fitting else None


def newness(clause: tree.ArtifactClause) -> tuple[int, bool]:
    """By what clauses come before those in front of them: the SM version, and whether they are for it alone."""
    number = sm_of((clause.arch or "").rstrip("af")) or 0
    return number, number > 0 and sm_of(clause.arch) is None


def of_backend(clauses: Iterable[tree.ArtifactClause], target: ProgramTarget) -> list[tree.ArtifactClause]:
    """The clauses for devices of a target's kind, whichever of these they are for."""
    return [clause for clause in clauses if named(clause.backend) is named(target.backend) is not None]


def _unfit(clause: tree.ArtifactClause, target: ProgramTarget) -> str:
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
        return _same_arch(arch, target.arch)
    wanted, given = sm_of(arch), sm_of(target.arch.rstrip("af"))
    return arch == target.arch if wanted is None or given is None else wanted <= given


def _clause_text(target: ProgramTarget) -> str:
    if target.is_cpu:
        return f'cpu {target.arch or "x86_64"} "..."'
    return f'{name_of(target.backend)} "..."'


def _or_compile_for(kernel: tree.Kernel) -> str:
    """Advice for a kernel that has code for other devices than CPUs: to name them, as IREE takes the CPU by default."""
    names = dict.fromkeys(name_of(clause.backend) for clause in kernel.artifacts)
    return "" if not names or "cpu" in names else f", or compile for what it has code for: --target={','.join(names)}"


def _check_one_way(kernel: tree.Kernel, clauses: Sequence[tree.ArtifactClause]) -> None:
    """Raise OpspliceError if a kernel is linked for some CPUs and imported for others: one call cannot be both."""
    imported = [clause for clause in clauses if clause.backend == "cpu" and clause.is_plugin]
    linked = [clause for clause in clauses if clause.backend == "cpu" and not clause.is_plugin]
    if imported and linked:
        raise OpspliceError(
            f"kernel '{kernel.name}' is linked for some CPUs of the program and comes from a plugin for others",
            hint="write `as plugin` in all of its clauses for CPUs, or in none",
            details=f"linked: the clause at {linked[0].span}\nfrom a plugin: the clause at {imported[0].span}",
        )


def _same_arch(left: str, right: str) -> bool:
    return archs.normalize(left) == archs.normalize(right)


def _with_features(target: ProgramTarget) -> str:
    return f" with features {target.features}" if target.features else ""


# ---- signatures --------------------------------------------------------------------------------------------------


class _Signature:
    """A kernel's signature against a match: arguments, dims and types bound."""

    def __init__(
        self,
        match: Match,
        rule: tree.Rule,
        kernel: tree.Kernel,
        views: Views,
        write: CodeWriter,
        launch: Callable[[tree.Launch], KernelCall],
    ) -> None:
        self.match = match
        self.write = write
        self.launch = launch
        self.made: dict[tree.Argument, Written | KernelCall] = {}
        self.views = views
        self.rule = rule
        self.kernel = kernel
        self.dims: dict[str, Size | tuple[Size, ...]] = {}
        self.types: dict[str, str] = {}
        self.variables = {v.name: v for v in kernel.type_variables}

    def call(self, inner: bool = False) -> KernelCall:
        """inner: whether another kernel is given what this one makes."""
        given = dict(zip((p.name for p in self.kernel.parameters), self.rule.args, strict=True))
        for parameter in self.kernel.parameters:
            self._bind(parameter, given[parameter.name])
        results = enumerate(self.kernel.results)
        made = map(self._given_on, self.kernel.results) if inner else itertools.starmap(self._output, results)
        outputs = tuple(made)  # which may say what a type is
        arguments = tuple(self._argument(p, given[p.name]) for p in self.kernel.parameters)
        sizes = {n: _numbers(s) for n, s in self.dims.items()}
        types = {f"bits({name})": vocabulary.bits(element) for name, element in self.types.items()}
        ranks = {f"rank({name})": len(size) for name, size in sizes.items() if isinstance(size, tuple)}
        where = self.kernel.where and dim_conditions.without(self.kernel.where, strides.is_asked)
        _check_condition(self.views, where, self.match, f"kernel {self.kernel.name}'s", {**sizes, **types, **ranks})
        call = KernelCall(
            match=self.match,
            rule=self.rule,
            kernel=self.kernel,
            symbol=self._symbol(),
            arguments=arguments,
            outputs=outputs,
            dims=self._in_order(),
        )
        laid_out = call if inner else strides.nearest(self.views, call)
        if laid_out is None:
            raise _LeaveError(
                "a pack's dims lie apart in one input and together in another, with sizes only known later"
            )
        if unmet := strides.unmet(laid_out):
            raise _LeaveError(f"kernel {self.kernel.name}'s condition {unmet}")
        return laid_out

    def _in_order(self) -> dict[str, Size | tuple[Size, ...]]:
        """The dims in the order of the signature, also where an optional buffer that names them is left out."""
        kinds = [p.type for p in self.kernel.parameters] + [r.type for r in self.kernel.results]
        dims = [dim.name for kind in kinds if isinstance(kind, tree.TensorType) for dim in kind.dims]
        return {name: self.dims[name] for name in dict.fromkeys(dims) if name is not None}

    def scalar_call(self) -> KernelCall:
        """A call for each element. Its dims are those of the pattern that it is told, which are arguments."""
        given = dict(zip((p.name for p in self.kernel.parameters), self.rule.args, strict=True))
        (root,), (sizes,) = self.match.roots, self.match.root_sizes
        if any(isinstance(s, DimSize) and s.value == root for s in sizes):
            raise _LeaveError("the size of its result depends on no input")
        for parameter in self.kernel.parameters:
            self._bind(parameter, given[parameter.name])
        result, made = self.kernel.results[0].type, element_type(root)
        assert isinstance(result, tree.ScalarType)
        self._bind_type(result, made, "the result")
        self.dims = {
            arg.name: self.match.dims[arg.name]
            for arg in self.rule.args
            if isinstance(arg, tree.Name) and arg.name not in self.match.inputs
        }
        types = {f"bits({name})": vocabulary.bits(element) for name, element in self.types.items()}
        _check_condition(self.views, self.kernel.where, self.match, f"kernel {self.kernel.name}'s", types)
        return KernelCall(
            match=self.match,
            rule=self.rule,
            kernel=self.kernel,
            symbol=self._symbol(),
            arguments=tuple(self._element_argument(p, given[p.name]) for p in self.kernel.parameters),
            outputs=(Output(root, sizes, made, ()),),
            dims=self.dims,
        )

    def _element_argument(self, parameter: tree.Parameter, arg: tree.Argument) -> Buffer | Scalar:
        if isinstance(arg, tree.Name) and arg.name in self.match.shapes:
            binding = self.match.inputs[arg.name]
            if binding.value is not None:
                self._check_same_count(arg.name)
                return Buffer(parameter.name, binding.value, binding.element, ())
        return self._argument(parameter, arg)

    def _check_same_count(self, name: str) -> None:
        """An argument has as many elements as the result. The checker has compared their dims by name."""
        own, wanted = _product(flat(self.match.shapes[name])), _product(self.match.root_sizes[0])
        if own is not None and wanted is not None and own != wanted:
            raise _LeaveError(f"{name} has {own} elements, and the result has {wanted}")

    def _bind(self, parameter: tree.Parameter, arg: tree.Argument) -> None:
        """Learn dims and types from an argument that is a value of the program."""
        if isinstance(parameter.type, tree.TensorType):
            self._bind_buffer(parameter.type, arg)
        elif isinstance(arg, tree.Name) and arg.name in self.match.inputs:
            binding, wanted = self.match.inputs[arg.name], self.types.get(parameter.type.name, parameter.type.name)
            if binding.constant is None or not _is_wider_float(wanted, binding.element):
                self._bind_type(parameter.type, binding.element, arg.name)

    def _bind_buffer(self, kind: tree.TensorType, arg: tree.Argument) -> None:
        if isinstance(arg, (tree.Computed, tree.Launch)):
            made = self.made[arg] = self._written(arg) if isinstance(arg, tree.Computed) else self.launch(arg)
            tensor = made if isinstance(made, Written) else made.outputs[0]
            self._bind_dims(kind, tensor.element, tensor.sizes, f"`{arg.span.written}`")
            return
        assert isinstance(arg, tree.Name), "the checker passes only tensors to buffers"
        binding = self.match.inputs.get(arg.name)
        if binding is None:
            return  # it is optional
        self._bind_dims(kind, binding.element, self.match.shapes[arg.name], arg.name)

    def _written(self, arg: tree.Computed) -> Written:
        """The ops for what the rule computes."""
        try:
            return self.write(self.match, self.rule, arg)
        except OpspliceError as failure:
            details = f": {failure.details}" if failure.details else ""
            raise _LeaveError(f"{failure.message}{details}") from None

    def _bind_dims(
        self, kind: tree.TensorType, element: str, sizes: Sequence[Size | tuple[Size, ...]], what: str
    ) -> None:
        self._bind_type(kind.element, element, what)
        for dim, size in paired(kind.dims, sizes):
            if dim.size is not None and dim.size != size:
                raise _LeaveError(f"kernel {self.kernel.name} wants a dim of {dim.size} in {what}")
            if dim.name is None:
                continue
            known = self.dims.setdefault(dim.name, size)
            if _known_unequal(known, size):
                raise _LeaveError(f"kernel {self.kernel.name}'s dim {dim.name} would be two sizes")
            if _product(known) is None and _product(size) is not None:
                self.dims[dim.name] = size

    def _bind_type(self, kind: tree.ScalarType, element: str, what: str) -> None:
        if element not in static_function.supported_elements() and element != "index":
            raise _LeaveError(f"{what} has elements of type {element}, which no kernel can take")
        variable = self.variables.get(kind.name)
        choices = [c.name for c in variable.choices] if variable else []
        if choices and element not in choices:
            raise _LeaveError(f"kernel {self.kernel.name} takes {kind.name} in {{{', '.join(choices)}}}, not {element}")
        wanted = self.types.setdefault(kind.name, element) if variable else kind.name
        if wanted != element:
            raise _LeaveError(f"kernel {self.kernel.name} takes {wanted}, and {what} is {element}")

    def _argument(self, parameter: tree.Parameter, arg: tree.Argument) -> Buffer | Scalar:
        if isinstance(arg, (tree.Computed, tree.Launch)):
            assert isinstance(parameter.type, tree.TensorType), "the checker wants a buffer for what is computed"
            element = self.types.get(parameter.type.element.name, parameter.type.element.name)
            dims, layout = parameter.type.dims, self._dense(parameter.type)
            return Buffer(parameter.name, self.made[arg], element, dims, layout)
        if isinstance(parameter.type, tree.TensorType):
            assert isinstance(arg, tree.Name)
            binding = self.match.inputs.get(arg.name)
            if binding is None:
                return self._absent(parameter.name, parameter.type)
            layout = self._dense(parameter.type)
            copy = binding.places[0][1] if binding.places and parameter.type.copied else None
            if binding.places and layout is None and copy is None:
                message = f"{arg.name} {_NOT_DENSE}, and kernel {self.kernel.name} takes it dense"
                raise _LeaveError(f"{message}: `copied` on the buffer allows a copy")
            return Buffer(parameter.name, binding.value, binding.element, parameter.type.dims, layout, copy=copy)
        element = self.types.get(parameter.type.name, parameter.type.name)
        if isinstance(arg, tree.Literal):
            if not vocabulary.holds(element, arg.value):
                raise _LeaveError(f"kernel {self.kernel.name} takes {element} here, which cannot hold {arg.value}")
            return Scalar(parameter.name, element, number=arg.value)
        if arg.name not in self.match.inputs:
            default = next((p.default for p in self.match.pattern.parameters if p.name == arg.name), None)
            return (
                self._dim_argument(parameter, element, arg) if default is None else self._argument(parameter, default)
            )
        binding = self.match.inputs[arg.name]
        if binding.constant is not None:
            return Scalar(parameter.name, element, number=binding.constant)
        return Scalar(parameter.name, element, value=_holder(binding.value, arg.name))

    def _absent(self, name: str, kind: tree.TensorType) -> Buffer:
        """What an optional buffer is at a match that has none."""
        element = self.types.get(kind.element.name, kind.element.name)
        if kind.element.name in self.variables and kind.element.name not in self.types:
            raise _LeaveError(f"nothing says what {kind.element} of kernel {self.kernel.name} is")
        layout = Layout(NONE, NONE, ((),) * len(kind.dims)) if kind.strided else None
        return Buffer(name, None, element, kind.dims, layout)

    def _dim_argument(self, parameter: tree.Parameter, element: str, arg: tree.Name) -> Scalar:
        """A dim of the pattern for a scalar: a number, or the kernel's own dim of the same size."""
        size = self.match.dims[arg.name]
        number = _product(size)
        bits = vocabulary.bits(element) or 64
        if number is not None and number >= 1 << (bits - 1):
            raise _LeaveError(f"{arg.name} = {number} does not fit into the {element} of kernel {self.kernel.name}")
        if number is not None:
            return Scalar(parameter.name, element, number=number)
        if bits < 32:
            raise _LeaveError(f"the dynamic dim {arg.name} may not fit into the {element} of kernel {self.kernel.name}")
        for name, known in self.dims.items():
            if known == size:
                return Scalar(parameter.name, element, dim=name)
        raise _LeaveError(f"the dynamic dim {arg.name} is no dim of kernel {self.kernel.name}")

    def _given_on(self, result: tree.KernelResult) -> Output:
        """A result that another kernel is given."""
        kind = result.type or next(p.type for p in self.kernel.parameters if p.name == result.alias)
        assert isinstance(kind, tree.TensorType), "the checker lets only buffers be made"
        dims = self._sized(kind.dims)
        sizes = flat(self.dims[dim.name or ""] if dim.size is None else dim.size for dim in dims)
        return Output(None, sizes, self.types.get(kind.element.name, kind.element.name), dims, result.alias)

    def _sized(self, dims: Sequence[tree.Dim]) -> tuple[tree.Dim, ...]:
        """The dims of a result, with the sizes that are computed."""
        known = {name: _numbers(size) for name, size in self.dims.items()}
        found = []
        for dim in dims:
            if dim.sum is None:
                found.append(dim)
                continue
            size = judge.evaluate(dim.sum, known)
            if not isinstance(size, int) or size < 1:
                reason = "is known at run time only" if size is None else f"is {size}"
                raise _LeaveError(f"the size {dim} of what kernel {self.kernel.name} makes {reason}")
            found.append(tree.Dim(dim.span, size=size))
        return tuple(found)

    def _output(self, number: int, result: tree.KernelResult) -> Output:
        root, sizes = self.match.roots[number], self.match.root_sizes[number]
        element = element_type(root)
        if any(isinstance(s, DimSize) and s.value == root for s in sizes):
            raise _LeaveError("the size of its result depends on no input")
        kind: tree.Type | None = result.type
        split = flat(self.match.split)
        shape = sizes if self.match.order is None else tuple(split[axis] for axis in self.match.order)
        if kind is None:
            kind = next(p.type for p in self.kernel.parameters if p.name == result.alias)
        assert isinstance(kind, tree.TensorType), "the checker lets only buffers be overwritten"
        self._bind_type(kind.element, element, "the result")
        if any(dim.symbol is not None and dim.symbol not in self.dims for dim in kind.dims):
            open_rank = any(dim.pack for dim in kind.dims)
            fits = open_rank or len(kind.dims) == len(sizes)
            shape = shape if fits else tuple(size for size in shape if size != 1)
            if len(kind.dims) != len(shape) and not open_rank:
                raise _LeaveError(
                    f"kernel {self.kernel.name} makes rank {len(kind.dims)}, and the result has rank {len(sizes)}"
                )
            if self.match.ones_first and number == 0:
                shape = tuple(sorted(shape, key=lambda size: size != 1))
            for dim, size in paired(kind.dims, shape):
                if dim.symbol is not None:
                    self.dims.setdefault(dim.symbol, size)
        kind = dataclasses.replace(kind, dims=self._sized(kind.dims))
        made, wanted = self._count(kind.dims), _product(sizes)
        if made is not None and wanted is not None and made != wanted:
            raise _LeaveError(f"kernel {self.kernel.name} makes {made} elements, and {wanted} are wanted")
        layout, copy = self._dense(kind), None
        if self.match.order is not None and kind.copied:
            copy = strides.ordered(self.views, self.match.split, self.match.order)
        elif self.match.order is not None and layout is None:
            raise _LeaveError(
                f"its dims are in another order than the pattern's, and kernel {self.kernel.name} takes one"
            )
        return Output(root, sizes, element, kind.dims, result.alias, layout, copy=copy)

    def _dense(self, kind: tree.TensorType) -> Layout | None:
        """Where a strided buffer's elements lie unless the planner finds them elsewhere."""
        if not kind.strided:
            return None
        sizes = [self.dims[dim.name or ""] if dim.size is None else dim.size for dim in kind.dims]
        return strides.dense(self.views, sizes)

    def _count(self, dims: Sequence[tree.Dim]) -> int | None:
        """How many elements a buffer has, None if only known at run time."""
        return _product(tuple(_product(dim.size or self.dims[dim.name or ""]) for dim in dims))

    def _symbol(self) -> str:
        symbol = self.kernel.symbol or self.kernel.name
        for name, element in self.types.items():
            symbol = symbol.replace("{" + name + "}", element)
        return symbol


def _numbers(size: Size | tuple[Size, ...]) -> judge.Known | tuple[judge.Known, ...]:
    """Sizes as numbers, or as what the program assumes of them."""
    if isinstance(size, tuple):
        return tuple(s if isinstance(s, int) else bounds_of(s) for s in size)
    return size if isinstance(size, int) else bounds_of(size)


def _product(size: Size | tuple[Size | None, ...] | None) -> int | None:
    """A size as one number; None if some of it is only known at run time."""
    parts = size if isinstance(size, tuple) else (size,)
    known = [p for p in parts if isinstance(p, int)]
    return math.prod(known) if len(known) == len(parts) else None


def _is_wider_float(wanted: str, element: str) -> bool:
    """Whether each number of one float type is one of another, wider type."""
    bits = (vocabulary.bits(wanted) or 0, vocabulary.bits(element) or 0)
    return vocabulary.is_float(wanted) and vocabulary.is_float(element) and bits[0] > bits[1]


def _known_unequal(left: Size | tuple[Size, ...], right: Size | tuple[Size, ...]) -> bool:
    first, second = _product(left), _product(right)
    return first is not None and second is not None and first != second


def _holder(value: ir.Value, name: str) -> ir.Value:
    """What to pass for a scalar: itself, or the tensor of rank 0 that it is read from.

    That spares the program a read of device memory, and IREE's virtual machine has no 16-bit floats to read.
    """
    op = defining_op(value)
    if op is not None and op.name == "tensor.extract" and len(op.operands) == 1:
        return op.operands[0]
    if op is not None and isinstance(value.type, (ir.F16Type, ir.BF16Type)):
        raise _LeaveError(
            f"{name} is a single {value.type} made by {op.name}, and IREE computes none outside of tensors"
        )
    return value
