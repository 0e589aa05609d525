"""What is allowed in a spec and still cannot be meant: names nobody uses, conditions that never or always hold.

Each finding is a warning with a code of `CODES`. None is a guess: a condition is only spoken of when `decide` has a
proof. What rules do to each other is judged by `matchers.overlap.shadow`.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from opsplice.common.reaching import reachable
from opsplice.spec_lang.checking.checker import Checked
from opsplice.spec_lang.checking.computed_arguments import passed
from opsplice.spec_lang.checking.scalar_kernels import FORMED_PHASES
from opsplice.spec_lang.checking.types.signature_binding import Binding, possible_elements
from opsplice.spec_lang.checking.walks import children, expressions, named_values, pattern_factors, reached
from opsplice.spec_lang.dims import decide, dim_conditions, judge
from opsplice.spec_lang.linting.unused import (
    missing_files,
    named,
    unused_declarations,
    unused_imports,
    unused_variables,
)
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, warning
from opsplice.spec_lang.syntax.tree import Dim, Span

# All codes, those of the checker and of matchers.shadow too, with what they say.
CODES: Mapping[str, str] = {
    "always-true": "a condition that holds whatever the dims are",
    "kernel-never-fits": "a rule whose kernel can take no match of the pattern",
    "missing-file": "a kernel's file that is not there",
    "unknown-feature": "a feature that is spelled almost as a device's",
    "never-applies": "a rule whose condition contradicts its pattern's",
    "never-matches": "a pattern that no program can hold",
    "overlapping-rules": "two rules that can want the same ops, and none is the narrower",
    "shared-symbol": "one symbol for several element types",
    "unreachable-rule": "a rule whose matches earlier rules all take",
    "untold-stride": "a kernel that is not told a stride or dilation that its pattern leaves open",
    "unlooked-body": "an op that is replaced whatever its body computes",
    "unrelated-results": "a result that shares no input with those before it",
    "unused-import": "an imported file that nothing is used of",
    "unused-input": "a parameter of a pattern that no result needs",
    "unused-kernel": "a kernel that no rule names",
    "unused-pattern": "a pattern that neither a rule nor a pattern names",
    "unused-type-variable": "a type variable that stands nowhere",
    "unused-value": "a named part of a pattern that no result needs",
}

_MAX_PARTS = 32  # so many parts of a condition are compared with each other


def mistakes(spec: LoadedSpec) -> tuple[Diagnostic, ...]:
    """What keeps a declaration from ever doing anything, or makes results wrong, so that every command says it."""
    return (
        *_impossible_patterns(spec),
        *_unrelated_results(spec),
        *_impossible_rules(spec),
        *_untold_strides(spec),
    )


def untidy(spec: LoadedSpec, linted: Iterable[Path] = ()) -> tuple[Diagnostic, ...]:
    """What does no harm: unused names, conditions that say nothing, files that are not there yet.

    linted: the files that are looked at; those that they import are only looked into. None given means all.
    """
    resolved = {path.resolve() for path in linted}
    files = [f for f in spec.files if not resolved or f.source.path is None or f.source.path.resolve() in resolved]
    return (
        *unused_declarations(spec, files),
        *unused_imports(spec, files),
        *(found for file in files for found in unused_variables(file)),
        *_always_true(spec, files),
        *missing_files(spec, files),
    )


# ---- what a rule asks for -------------------------------------------------------------------------------------------


def demands(rule: tree.Rule, spec: LoadedSpec) -> list[tree.Condition]:
    """All that a rule asks of the dims of its pattern: its own condition, and its kernel's in the pattern's dims; and
    what it asks of types, of parts that matches may lack, and of how buffers lie.
    """
    kernel, pattern = spec.kernels.get(rule.kernel), spec.patterns[rule.pattern]
    own = [*dim_conditions.conjuncts(rule.where), *dim_conditions.conjuncts(rule.when)]
    own += _unpassed(rule, pattern, spec.given[pattern.name])
    if kernel is None:
        return own
    own += _kernel_types(rule, kernel, pattern)
    own += _kernel_buffers(rule, kernel, spec.given[pattern.name])
    return own if kernel.where is None else [*own, *_kernel_conditions(rule, kernel, spec)]


def _unpassed(rule: tree.Rule, pattern: tree.Pattern, given: Collection[str]) -> Iterator[tree.Condition]:
    """That a match lacks the parts that a rule does not pass, and has what is the default of others."""
    told = passed(rule)
    for parameter in pattern.parameters:
        is_usual = parameter.name in given and parameter.default is None
        if rule.code is None and parameter.name not in told and not is_usual:
            yield tree.Logical(rule.span, "not", (_has(rule, parameter.name),))
            if parameter.default is not None and isinstance(parameter.default.value, int):
                yield dim_conditions.equality(tree.DimRef(rule.span, parameter.name), parameter.default)


def _kernel_buffers(rule: tree.Rule, kernel: tree.Kernel, given: Collection[str]) -> Iterator[tree.Condition]:
    """That a match has what goes into buffers that are not `optional`, and that buffers lie as a kernel has them."""
    pairs = zip(rule.args, (p.type for p in kernel.parameters), strict=False)
    named = [(arg.name, kind) for arg, kind in pairs if isinstance(arg, tree.Name)]
    made = [(f"result {at}", result.type) for at, result in enumerate(kernel.made)]
    for name, kind in (*named, *made):
        if isinstance(kind, tree.TensorType):
            if kind.lies and not kind.copied:
                order = " ".join(f"{at}{'...' * (kind.dims[at].pack is not None)}" for at in kind.order)
                yield tree.Membership(rule.span, f"{name} as {order}", ())
            if (name, kind) in named and name not in given and not kind.optional:
                yield _has(rule, name)


def _has(rule: tree.Rule, part: str) -> tree.Condition:
    """That a match has a part: by a name that no type has, which stands for itself."""
    return tree.Membership(rule.span, f"a {part}", ())


def _kernel_types(rule: tree.Rule, kernel: tree.Kernel, pattern: tree.Pattern) -> Iterator[tree.Condition]:
    """What a kernel asks of types that the pattern leaves open. What is known in a program only is asked by a name that
    no type has.
    """
    span, given = rule.span, {p.name: p.type.element.name for p in pattern.parameters}
    bound: dict[str, set[str]] = {variable.name: set() for variable in kernel.type_variables}
    for arg, parameter in zip(rule.args, kernel.parameters, strict=False):
        if isinstance(arg, (tree.Computed, tree.Launch)):
            yield tree.Membership(span, f"{kernel.name}({arg.span.written})", ())
        if not isinstance(arg, tree.Name) or arg.name not in given:
            continue
        found, wanted = given[arg.name], parameter.type.element.name
        bound.get(wanted, set()).add(found)
        possible = possible_elements(found, pattern.type_variables)
        choices = possible_elements(wanted, kernel.type_variables)
        if choices is not None and (possible is None or not possible <= choices):
            each = (tree.Membership(span, found, (tree.ScalarType(span, name),)) for name in sorted(choices))
            yield tree.Logical(span, "or", tuple(each))
    for same in bound.values():
        if len(same) > 1:
            yield tree.Membership(span, " is ".join(sorted(same)), ())


def _kernel_conditions(rule: tree.Rule, kernel: tree.Kernel, spec: LoadedSpec) -> list[tree.Condition]:
    pattern = spec.patterns[rule.pattern]
    given = {p.name: p.type for p in pattern.parameters}
    binding = Binding(kernel.type_variables, pattern.type_variables)
    for arg, parameter in zip(rule.args, kernel.parameters, strict=False):
        if isinstance(arg, tree.Name) and arg.name in given and isinstance(parameter.type, tree.TensorType):
            binding.match(parameter.type, given[arg.name])
    values: dict[str, tree.DimExpr] = {}
    for name in {d.name for p in kernel.parameters for d in p.type.dims if d.name is not None}:
        dims = binding.packs.get(name) if name in binding.packs else None
        if dims is None and name in binding.dims:
            dims = (binding.dims[name],)
        # What the pattern does not name gets a name that no dim has.
        values[name] = product(dims, rule.span) if dims is not None else tree.DimRef(rule.span, f"{kernel.name}.{name}")
    return dim_conditions.conjuncts(dim_conditions.substituted(kernel.where, values))


def product(dims: Sequence[Dim], span: Span) -> tree.DimExpr:
    """The sizes of dims multiplied; one that has no name is a name that no dim has."""
    names = (tree.DimRef(span, dim.name or f"?{dim.span.start}") for dim in dims)
    known = (None if dim.size is None else tree.Literal(span, dim.size) for dim in dims)
    return dim_conditions.product(span, (size or name for size, name in zip(known, names, strict=True)))


# ---- patterns and rules that can never do anything ------------------------------------------------------------------


def _impossible_patterns(spec: LoadedSpec) -> Iterator[Diagnostic]:
    for pattern in spec.patterns.values():
        if pattern.where is not None and decide.impossible([pattern.where]):
            yield never_matches(pattern, "no sizes fulfil its condition", pattern.where.span)
            continue
        parts = dim_conditions.conjuncts(pattern.where)
        opposite = next((part for i, part in enumerate(parts) if any(_opposite(part, p) for p in parts[:i])), None)
        if opposite is not None and not _has_alternatives(pattern, spec):
            yield never_matches(pattern, "its condition asks for this and for the contrary", opposite.span)
        for variable in pattern.type_variables:
            if variable.choices and not any(_may_be(variable.name, c.name, parts) for c in variable.choices):
                why = f"{variable.name} is none of the types that its condition asks for"
                yield never_matches(pattern, why, variable.span)
        yield from _empty_ranges(pattern, spec)


def never_matches(pattern: tree.Pattern, why: str, span: Span) -> Diagnostic:
    return warning(span, f"pattern {pattern.name} can never match: {why}", code="never-matches")


def _has_alternatives(pattern: tree.Pattern, spec: LoadedSpec) -> bool:
    """Whether a match may lack some of a pattern's values, which conditions then ask nothing of."""
    return any(
        isinstance(expr, tree.Alternatives) or (isinstance(expr, tree.Call) and expr.optional)
        for each in (pattern, *reached_patterns(pattern, spec))
        for expr in expressions(each)
    )


def _opposite(left: tree.Condition, right: tree.Condition) -> bool:
    """Whether of two conditions on values or types one is the contrary of the other."""
    if isinstance(left, tree.Predicate) and isinstance(right, tree.Predicate):
        return left.value == right.value and {left.name, right.name} == {"only", "shared"}
    if isinstance(left, tree.Is) and isinstance(right, tree.Is):
        return left.negated != right.negated and _same((left.value, left.form), (right.value, right.form))
    return any(
        isinstance(one, tree.Logical) and one.op == "not" and _same(one.operands[0], other)
        for one, other in ((left, right), (right, left))
    )


def _same(left: object, right: object) -> bool:
    return bool(dim_conditions.key(left) == dim_conditions.key(right))


def _may_be(variable: str, element: str, parts: Sequence[tree.Condition]) -> bool:
    """False if a type variable cannot stand for an element type under conditions that all have to hold."""
    return all(_type_holds(part, variable, element) is not False for part in parts)


def _type_holds(condition: tree.Condition, variable: str, element: str) -> bool | None:
    """Whether a condition holds where a type variable is an element type, None where that depends on more."""

    def is_among(asked: tree.Condition) -> bool | None:
        if not isinstance(asked, tree.Membership) or asked.variable != variable:
            return None
        return element in {choice.name for choice in asked.choices}

    return judge.holds(condition, {f"bits({variable})": vocabulary.bits(element)}, is_among)


def _unrelated_results(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Results are looked for beside the first one: from what that is made of on."""
    for pattern in spec.patterns.values():
        values = named_values(pattern)
        parameters = {p.name for p in pattern.parameters}
        known: set[str] = set()
        for number, result in enumerate(pattern.results):
            inputs = {expr.name for expr in reached([result], values) if isinstance(expr, tree.Name)} & parameters
            if number and inputs and known and not inputs & known:
                message = f"this result of pattern {pattern.name} shares no input with those before it"
                advice = (
                    "look for it by a pattern of its own: it is only found where the program has both from one value"
                )
                yield warning(result.span, message, advice, code="unrelated-results")
            known |= inputs


def _empty_ranges(pattern: tree.Pattern, spec: LoadedSpec) -> Iterator[Diagnostic]:
    for constant in constants(pattern, spec):
        if constant.high is not None:
            full = tree.Comparison(constant.span, "<=", constant.value, constant.high)
            known = [full, *dim_conditions.conjuncts(pattern.where)]
            if not _has_floats(full) and decide.impossible(known):
                yield never_matches(pattern, "this range is empty for all sizes that it allows", constant.span)


def constants(pattern: tree.Pattern, spec: LoadedSpec) -> Iterator[tree.Constant]:
    """The constants and ranges that every match of a pattern has: none of alternatives, nor those of used patterns."""

    def into(expr: tree.Expr) -> tuple[tree.Expr, ...]:
        if isinstance(expr, tree.Call) and expr.optional:
            return expr.args[:1]
        chosen = isinstance(expr, tree.Alternatives) or (isinstance(expr, tree.Call) and expr.callee in spec.patterns)
        return () if chosen else children(expr)

    found = reached(pattern.results, named_values(pattern), into)
    return (expr for expr in found if isinstance(expr, tree.Constant))


def _has_floats(node: object) -> bool:
    def is_float(part: object) -> bool:
        if isinstance(part, tree.Arithmetic):
            return part.op == "/"
        return isinstance(part, tree.Literal) and isinstance(part.value, float)

    return any(map(is_float, tree.parts(node)))


def _impossible_rules(spec: LoadedSpec) -> Iterator[Diagnostic]:
    hopeless = {p.name for p in spec.patterns.values() if p.where is not None and decide.impossible([p.where])}
    for rule in spec.rules:
        pattern, kernel = spec.patterns.get(rule.pattern), spec.kernels.get(rule.kernel)
        conditioned = rule.where is not None or (kernel is not None and kernel.where is not None)
        if pattern is not None and rule.phase in FORMED_PHASES and not _may_end_by_name(pattern, spec):
            message = f"this rule never applies: at {rule.phase}, {pattern.name} is computed inside dispatches"
            advice = 'name an earlier phase, or look for ops such as "flow.dispatch"(...), which are not looked into'
            yield warning(rule.phase_span or rule.span, message, advice, code="never-applies")
            continue
        if pattern is None or not conditioned or pattern.name in hopeless:
            continue
        known = dim_conditions.conjuncts(pattern.where)
        if rule.where is not None and decide.impossible([*known, rule.where]):
            message = f"this rule never applies: no match of {pattern.name} fulfils its condition"
            notes = [(pattern.where.span, "the pattern's condition is here")] if pattern.where is not None else []
            yield warning(rule.where.span, message, notes=notes, code="never-applies")
            continue
        if kernel is None or kernel.where is None:
            continue
        known += dim_conditions.conjuncts(rule.where)
        if decide.impossible([*known, *_kernel_conditions(rule, kernel, spec)]):
            message = f"kernel {kernel.name} takes none of the matches that this rule gives it"
            notes = [(kernel.where.span, "the kernel's condition is here")]
            yield warning(rule.kernel_span, message, notes=notes, code="kernel-never-fits")


# ---- windows that a kernel cannot know of ---------------------------------------------------------------------------


def _untold_strides(spec: LoadedSpec) -> Iterator[Diagnostic]:
    """Rules whose pattern holds for any stride, with a kernel that would have to know which."""
    for rule in spec.rules:
        pattern = spec.patterns.get(rule.pattern)
        if pattern is None or rule.kernel not in spec.kernels:
            continue
        told = {arg.name for arg in rule.args if isinstance(arg, tree.Name)}
        told |= dim_conditions.names_in(rule.where)
        names = [name for name in _open_factors(pattern) if name not in told]
        inner = None if names else next((p for p in reached_patterns(pattern, spec) if _open_factors(p)), None)
        if inner is not None:
            words = _either(_open_factors(inner))
            what = f"{words} of {inner.name}, which {pattern.name} uses for any"
            help_ = f"write the contraction in {pattern.name} itself: then {words} are its own"
        elif names:
            what = f"{_either(names)}, and {pattern.name} holds for any"
            help_ = f"pass {_either(names)} to it, or say in `where` what the kernel takes: `where {names[0]} == 1`"
        else:
            continue
        yield warning(rule.kernel_span, f"kernel {rule.kernel} is not told {what}", help_, code="untold-stride")


def _open_factors(pattern: tree.Pattern) -> list[str]:
    """The strides and dilations of a pattern's own windows that neither its condition nor a dim says anything of."""
    dims = {d.name for p in pattern.parameters for d in p.type.dims}
    return [f for f in pattern_factors(pattern) if f not in dims | dim_conditions.names_in(pattern.where)]


def reached_patterns(pattern: tree.Pattern, spec: LoadedSpec) -> Iterator[tree.Pattern]:
    """The patterns that a pattern uses, and those that these use."""
    uses = _uses(spec.checked)
    return (spec.patterns[name] for name in reachable([pattern.name], uses.__getitem__) if name != pattern.name)


@functools.lru_cache(maxsize=16)
def _uses(checked: Checked) -> Mapping[str, Sequence[str]]:
    """The patterns that each pattern names: all of a spec is walked for it, which is asked of many patterns."""
    patterns = checked.patterns
    return {name: [each for each in named(pattern) if each in patterns] for name, pattern in patterns.items()}


def _either(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _may_end_by_name(pattern: tree.Pattern, spec: LoadedSpec) -> bool:
    """Whether what a pattern ends with may be an op by its full name, and not one of the language."""
    scopes: list[tuple[tree.Pattern, tree.Expr]] = [(pattern, expr) for expr in pattern.results[:1]]
    for _ in range(_MAX_PARTS):
        if not scopes:
            return False
        inside, expr = scopes.pop()
        lets = named_values(inside)
        if isinstance(expr, tree.Name) and expr.name in lets:
            scopes.append((inside, lets[expr.name]))
        elif isinstance(expr, (tree.Setting, tree.Uses, tree.Rearrange)):
            scopes.append((inside, expr.arg))
        elif isinstance(expr, tree.Alternatives):
            scopes += [(inside, option) for option in expr.options]
        elif isinstance(expr, tree.Call) and expr.optional:
            return True
        elif isinstance(expr, tree.Call) and not expr.quoted and expr.callee in spec.patterns:
            used = spec.patterns[expr.callee]
            scopes += [(used, result) for result in used.results[:1]]
        elif not isinstance(expr, (tree.Contract, tree.Reduce)) and not (
            isinstance(expr, tree.Call) and not expr.quoted and vocabulary.find(expr.callee) is not None
        ):
            return True
    return True


# ---- conditions that say nothing ------------------------------------------------------------------------------------


def _always_true(spec: LoadedSpec, files: Sequence[tree.Spec]) -> Iterator[Diagnostic]:
    for file in files:
        for kernel in file.kernels:
            yield from _vacuous(kernel.where, [])
        for pattern in file.patterns:
            yield from _vacuous(pattern.where, [])
        for rule in file.rules:
            declared = spec.patterns.get(rule.pattern)
            yield from _vacuous(rule.where, dim_conditions.conjuncts(declared.where) if declared is not None else [])


def _vacuous(where: tree.Condition | None, known: list[tree.Condition]) -> Iterator[Diagnostic]:
    """The parts of a condition that follow from what is known and from the parts before them."""
    known = list(known)
    if decide.impossible([*known, *dim_conditions.conjuncts(where)]):
        return  # from the impossible all follows
    for part in dim_conditions.conjuncts(where)[:_MAX_PARTS]:
        if decide.implied(part, known):
            pinned = frozenset().union(*map(decide.pinned, known))
            loose = sorted(decide.pinned(part) - pinned)
            message = "this always holds"
            advice = "leave it out"
            if known and not decide.implied(part, []):
                message = "this follows from the other conditions"
            if loose:
                verb = "is" if len(loose) == 1 else "are"
                message += f", so it only asks that {' and '.join(loose)} {verb} known before run time"
                advice = "leave it out, unless that is what it is for"
            yield warning(part.span, message, advice, code="always-true")
        known.append(part)
