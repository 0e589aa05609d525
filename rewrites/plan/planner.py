"""The planner: which rule, kernel and artifact each match gets, or why it is left alone. It changes nothing.

Rules count in file order: an earlier rule's matches are settled first, and within a rule the program's order decides.
A match is left alone when an earlier choice has taken its place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import held_in
from opsplice.matchers.ir.tensor_values import element_type
from opsplice.matchers.search.matches import Match
from opsplice.matchers.terms.views import Views
from opsplice.rewrites.approaches.annotation import setters
from opsplice.rewrites.approaches.approach_table import approach_of
from opsplice.rewrites.approaches.insertion import Calls, written_by
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.ir.placing import anchor_of, needs
from opsplice.rewrites.layouts import strides
from opsplice.rewrites.plan import generation
from opsplice.rewrites.plan.actions import (
    Action,
    Annotation,
    Choice,
    Insertion,
    KernelCall,
    Written,
)
from opsplice.rewrites.plan.arguments import NOT_DENSE, CodeWriter, LeaveError, Signature, check_condition
from opsplice.rewrites.plan.clause_choice import (
    check_alike,
    clause_for,
    clause_text,
    of_backend,
    or_compile_for,
    unfit,
    with_features,
)
from opsplice.rewrites.plan.known_sizes import product
from opsplice.spec_lang.checking.computed_arguments import launched, passed
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree
from opsplice.targets.artifacts.artifact import Artifact

# Finds or builds the artifact of a kernel's clause for a target of the program.
Resolver = Callable[[tree.ArtifactClause, str, ProgramTarget], Artifact]
# Has the artifact of a clause made for one match.
Generate = Callable[[tree.ArtifactClause, generation.Request, ProgramTarget], Artifact]


_KEPT = "a rule keeps the compiler's code here"


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


class _LostError(LeaveError):
    """Another rule, or an earlier match, has its place."""


@dataclass(eq=False)
class Planner:
    """Chooses a rule, kernel and artifacts for each match: `plan`, once.

    given: of each pattern, the parameters that every match has.
    obstacle: why the program cannot tell its targets apart; `otherwise keep` then leaves a match alone for all of them.
    write: gives the MLIR of a rule that puts another pattern in place. read: compare artifacts with calls of them.
    resolve_function: as `resolve`, for kernels that are called for each element; `resolve` by default.
    generate: makes what is `as generated`; by default `resolve` is asked for it.
    codes: the spec's raw MLIR, which rules' own refers to. views: of the module, where others share what they read. The
    others, which are not given, are what is chosen so far; set: by op, with the place of the rule.
    """

    matches: Sequence[Match]
    rules: Sequence[tree.Rule]
    given: Mapping[str, Collection[str]]
    kernels: Mapping[str, tree.Kernel]
    targets: Sequence[ProgramTarget]
    resolve: Resolver
    obstacle: str = ""
    write: CodeWriter = _no_code
    read: bool = True
    resolve_function: Resolver | None = None
    generate: Generate | None = None
    codes: Sequence[tree.Code] = ()
    views: Views = field(default_factory=Views)
    roots: dict[Any, Action] = field(init=False, default_factory=dict)
    covered: dict[Any, Action] = field(init=False, default_factory=dict)
    resolved: dict[tuple[tree.ArtifactClause, str, ProgramTarget], Artifact] = field(init=False, default_factory=dict)
    needed: dict[Any, list[Action]] = field(init=False, default_factory=dict)
    set: dict[Any, dict[str, str]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.calls = Calls(self.codes)

    def plan(self) -> Plan:
        """Raises OpspliceError when a target has no artifact and the rule does not say `otherwise keep`, and whatever
        `resolve` raises for an artifact that is broken.
        """
        order = {match: i for i, match in enumerate(self.matches)}
        of_pattern: dict[str, list[Match]] = {}
        for match in self.matches:
            of_pattern.setdefault(match.pattern.name, []).append(match)
        for same in of_pattern.values():
            # The longer alternative first. One more factor of a product holds as much, of more ops.
            same.sort(key=lambda match: (-match.held, -len(match.ops), order[match]))
        chosen: dict[Match, list[Action]] = {}
        kept: set[Match] = set()
        annotations: list[Annotation] = []
        reasons: dict[Match, list[Left]] = {}
        for rule in self.rules:
            for match in of_pattern.get(rule.pattern, ()):
                settled = match in kept or (match in chosen and not _is_open(chosen[match]))
                if settled and not rule.attributes:
                    continue
                try:
                    if rule.attributes:
                        check_condition(self.views, rule.where, match, "the rule's")
                        self._annotate(match, rule, annotations)
                    elif not rule.replaces:
                        check_condition(self.views, rule.where, match, "the rule's")
                        kept.add(match)
                        raise LeaveError(_KEPT)
                    else:
                        action = self._action(match, rule)
                        chosen.setdefault(match, []).append(action)
                except LeaveError as left:
                    reasons.setdefault(match, []).append(Left(match, rule, str(left), isinstance(left, _LostError)))
        actions = tuple(action for m in sorted(chosen, key=order.__getitem__) for action in chosen[m])
        alone = tuple(self._as_lost(left) for m in self.matches if m not in chosen for left in reasons.get(m, []))
        laid_out = strides.laid_out(self.views, actions, self.covered)
        coded = [self._generated(each) if isinstance(each, KernelCall) else each for each in laid_out]
        return Plan(tuple(coded), tuple(annotations), alone)

    def _as_lost(self, left: Left) -> Left:
        """What a rule leaves for its condition is lost, not kept, where a later rule takes its place."""
        try:
            self._check_overlap(left.match)
        except _LostError as lost:
            return left if left.lost else dataclasses.replace(left, reason=f"{left.reason}; {lost}", lost=True)
        return left

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
        if not any(use.owner.operation not in match.ops for root in match.roots for use in root.uses):
            raise _LostError("nothing uses its result")  # or nothing any more: its op stands for other results
        self._check_overlap(match)
        self._check_order(match, rule)
        check_condition(self.views, rule.where, match, "the rule's")
        when = self._open_condition(match, rule)
        if rule.code is None:
            _check_passed(match, rule, self.given[match.pattern.name])
        action: Action
        apart = next((name for name, bound in match.inputs.items() if bound.places), None)
        if apart is not None and rule.kernel not in self.kernels:
            raise LeaveError(f"{apart} {NOT_DENSE}")
        if rule.code is not None:
            if "@" in rule.code.text:
                if self.calls.recurses(match, rule.code):
                    raise _LostError("what the rule calls would call itself")
                self.calls.add(match, rule.code)
            action = Insertion(match, rule, rule.code)
        elif rule.kernel in self.kernels:
            action = dataclasses.replace(self._call(match, rule, self.kernels[rule.kernel]), when=when)
        else:
            action = Insertion(match, rule, _fitting(self.write(match, rule, None), match, rule))
        if match.roots[0] in self.roots:
            return action  # beside those of earlier rules, whose conditions are judged at run time
        self.roots.update(dict.fromkeys(match.roots, action))
        if len(match.roots) > 1:
            for value in needs(match):
                self.needed.setdefault(value, []).append(action)
        self.covered.update(dict.fromkeys(match.ops, action))
        return action

    def _open_condition(self, match: Match, rule: tree.Rule) -> tree.Condition | None:
        """What the program has to ask when it runs. Raises LeaveError if it is known not to hold."""
        sizes = match.static_dims(self.views)
        if rule.when is None or judge.holds(rule.when, sizes):
            return None
        if judge.holds(rule.when, sizes) is False or not dim_conditions.names_in(rule.when) <= match.dims.keys():
            check_condition(self.views, rule.when, match, "the rule's")
        return rule.when

    def _call(self, match: Match, rule: tree.Rule, kernel: tree.Kernel) -> KernelCall:
        call = self._chosen(match, rule, kernel)
        kept = tuple(dict.fromkeys(target for each in call.launches for target in each.kept))
        if len(call.launches) > 1 and any(each.is_optional for each in call.launches):
            raise LeaveError("a kernel that is given what another one makes is in the program, and not in a plugin")

        def without(each: KernelCall) -> KernelCall:
            choices = tuple(choice for choice in each.choices if choice.target not in kept)
            made = dataclasses.replace(each.mapped(without), choices=choices, kept=kept)
            return made if made.is_generated else self._ready(made)

        return without(call) if kept and len(call.launches) > 1 else call

    def _chosen(self, match: Match, rule: tree.Rule, kernel: tree.Kernel, inner: bool = False) -> KernelCall:
        """inner: whether another kernel is given what this one makes."""

        def launch(arg: tree.Launch) -> KernelCall:
            return self._chosen(match, launched(rule, arg), self.kernels[arg.kernel], inner=True)

        signature = Signature(match, rule, kernel, self.views, self.write, launch)
        call = signature.scalar_call() if kernel.is_scalar else signature.call(inner)
        choices = self._choices(rule, kernel, call.symbol)
        call = dataclasses.replace(call, choices=choices, kept=self._without(choices))
        return call if call.is_generated else self._ready(call)

    def _generated(self, call: KernelCall) -> KernelCall:
        """The call with the code that is generated for the values that its buffers lie in."""
        call = call.mapped(self._generated)
        if not call.is_generated:
            return call
        request = generation.request_of(call, product)

        def made(choice: Choice) -> Choice:
            if not choice.clause.is_generated or self.generate is None:
                return choice
            key = (choice.clause, request.name, choice.target)
            if key not in self.resolved:
                told = generation.for_target(request, choice.target, choice.clause.workgroup(call.kernel))
                self.resolved[key] = self.generate(choice.clause, told, choice.target)
            return dataclasses.replace(choice, artifact=self.resolved[key])

        on_cpu = any(c.clause.is_generated and c.target.is_cpu for c in call.choices)
        symbol = request.name if on_cpu else call.symbol
        return self._ready(dataclasses.replace(call, symbol=symbol, choices=tuple(map(made, call.choices))))

    def _ready(self, call: KernelCall) -> KernelCall:
        """The call with what its approach needs."""
        approach = approach_of(call)
        approach.check(call)
        return approach.prepared(call) if self.read else call

    # ---- overlaps -------------------------------------------------------------------------------------------------

    def _check_overlap(self, match: Match) -> None:
        if (own := self.roots.get(match.roots[0])) is not None and own.match is match:
            return  # an earlier rule has it for some sizes
        for root in match.roots:
            if root in self.roots:
                raise _LostError(f"rule {_name(self.roots[root].rule)} replaces this value already")
            winner = self.covered.get(root.owner.operation)
            if winner is not None and all(use.owner.operation in self.covered for use in root.uses):
                raise _LostError(f"it lies inside a match of rule {_name(winner.rule)}")
        makers = {root.owner.operation for root in match.roots}
        for op in match.ops:
            if op in makers:
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
            raise LeaveError("its results are made in different blocks")
        anchor = _anchor(match, rule)
        users = [use.owner.operation for root in match.roots for use in root.uses]
        users = [user for user in users if user not in match.ops]
        # What took the place of other matches may stand apart from what it replaces.
        users += [_anchor(a.match, a.rule) for root in match.roots for a in self.needed.get(root, ())]
        makers = [self.roots[value] for value in needs(match) if value in self.roots]
        makers = [maker for maker in makers if len(maker.match.roots) > 1]
        late = [op for op in (_anchor(m.match, m.rule) for m in makers) if op.block == block]
        if any(_is_before(user, anchor) for user in users) or any(not _is_before(op, anchor) for op in late):
            raise LeaveError(
                "one of its results is used before all that it needs is there: "
                "what it is made from, or another of its results, comes too late in the program"
            )

    # ---- artifacts ------------------------------------------------------------------------------------------------

    def _choices(self, rule: tree.Rule, kernel: tree.Kernel, symbol: str) -> tuple[Choice, ...]:
        clauses = {target: clause_for(kernel, target) for target in self.targets}
        self._check_missing(rule, kernel, [target for target, clause in clauses.items() if clause is None])
        on_cpus = (clause for clause in clauses.values() if clause is not None and clause.backend == "cpu")
        check_alike(kernel, ((_way(clause), clause) for clause in on_cpus), "CPUs")
        resolve = self.resolve_function if kernel.is_scalar and self.resolve_function else self.resolve
        return tuple(Choice(t, c, self._artifact(c, symbol, t, resolve)) for t, c in clauses.items() if c is not None)

    def _artifact(
        self, clause: tree.ArtifactClause, symbol: str, target: ProgramTarget, resolve: Resolver
    ) -> Artifact | None:
        if clause.is_plugin or (clause.is_generated and self.generate is not None):
            return None
        key = (clause, symbol, target)
        if key not in self.resolved:
            self.resolved[key] = resolve(*key)
        return self.resolved[key]

    def _check_missing(self, rule: tree.Rule, kernel: tree.Kernel, missing: Sequence[ProgramTarget]) -> None:
        if not missing:
            return
        if rule.keep:
            reason = f"kernel {kernel.name} has no artifact for {', '.join(map(str, missing))}"
            if len(missing) == len(self.targets):
                raise LeaveError(reason)
            if self.obstacle:
                raise LeaveError(f"{reason}, and {self.obstacle}")
            return
        raise OpspliceError(
            f"kernel '{kernel.name}' has no artifact for {missing[0]}{with_features(missing[0])}",
            details="\n".join(unfit(clause, missing[0]) for clause in of_backend(kernel.artifacts, missing[0])),
            hint=f"add a clause such as `{clause_text(missing[0])}` to the kernel at {kernel.span}, "
            f"or write `otherwise keep` on the rule to leave such targets to the compiler{or_compile_for(kernel)}",
        )


# ---- checks ------------------------------------------------------------------------------------------------------


def _way(clause: tree.ArtifactClause) -> str:
    """How a CPU gets a kernel's code, in words."""
    return "generated" if clause.is_generated else "imported from a plugin" if clause.is_plugin else "linked"


def _fitting(code: Written, match: Match, rule: tree.Rule) -> Written:
    """Ops that make what the match does; through casts, a pattern holds for results of other types, too."""
    wanted = element_type(match.roots[0])
    kind = ir.Type.parse(code.kind, match.roots[0].context)
    made = str(kind.element_type) if isinstance(kind, ir.ShapedType) else code.kind
    if made != wanted:
        raise LeaveError(f"pattern {rule.kernel} makes {made}, and the result is {wanted}")
    return code


def _anchor(match: Match, rule: tree.Rule) -> ir.Operation:
    """What a replacement stands before, and a copy of the match where the compiler's own code is kept besides."""
    return anchor_of(match, whole=rule.branches)


def _is_open(actions: Sequence[Action]) -> bool:
    """Whether it is known at run time only if one of these is taken."""
    return all(isinstance(action, KernelCall) and action.when is not None for action in actions)


def _is_before(op: ir.Operation, anchor: ir.Operation) -> bool:
    holder = held_in(anchor.block, op)
    return holder is not None and holder.is_before_in_block(anchor)


def _check_passed(match: Match, rule: tree.Rule, given: Collection[str]) -> None:
    """A part that a match need not have, and has, is part of what it computes: a kernel must be given it.

    So must a scalar that an alternative says, unless the rule's condition says the number; and one with a default, as
    where a band starts, unless it is that. given: the parameters that every match has.
    """
    left = {name for name in match.inputs.keys() - passed(rule) if not name.startswith("_")}
    optional = {p.name: _is_default(p, match) for p in match.pattern.parameters if p.default is not None}
    usual = {name for name, is_default in optional.items() if is_default}
    dropped = sorted(left - ({*given} - optional.keys()) - usual)
    if dropped:
        raise LeaveError(f"it has {' and '.join(dropped)}, which the rule does not pass")


def _is_default(parameter: tree.Parameter, match: Match) -> bool:
    bound = match.inputs.get(parameter.name)
    return bound is None or (parameter.default is not None and bound.constant == parameter.default.value)


def _name(rule: tree.Rule) -> str:
    return f"`{rule.title}`"
