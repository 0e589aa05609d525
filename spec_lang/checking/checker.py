"""What a syntactically right spec gets wrong: names, ranks, types, dims, and arguments that do not fit.

All errors are found in one go; a declaration with a mistake in it causes no further errors where it is used.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from opsplice.spec_lang.checking import scalar_kernels
from opsplice.spec_lang.checking.contraction_query import asked_sizes
from opsplice.spec_lang.checking.inference import (
    Report,
    Signature,
    check_element,
    children,
    expressions,
    forms,
    infer,
    pattern_factors,
)
from opsplice.spec_lang.checking.op_parameters import instances
from opsplice.spec_lang.checking.signature_binding import Binding, dims_of, element_of, merge_dims, possible_elements
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, did_you_mean, error, warning
from opsplice.spec_lang.syntax.tree import Dim, Expr, ScalarType, Span, TensorType, Type

# Where in IREE's pipeline rules may apply. `start` is the program as the frontend wrote it.
RULE_PHASES = (
    "start", "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow",
)  # fmt: skip
# Threads in a workgroup that CUDA takes, and Vulkan on the usual devices.
MOST_THREADS = 1024
BACKENDS = ("cpu", "cuda", "rocm", "spirv", "vulkan", "metal", "wgsl")
# Buffers that IREE's runtime takes in a dispatch (3.13, runtime/src/iree/modules/hal/module.c).
MOST_BUFFERS = 32
# What is a number of a GPU, for `when`: threads of a subgroup, threads of a workgroup, bytes that a workgroup shares.
LIMITS = ("subgroup", "threads", "memory")
FORMS = ("object", "bitcode", "dispatch", "plugin", "provided", "command", "recorded", "generated")
# The backends of forms that are not for CPUs only.
_BACKENDS_OF = {"provided": BACKENDS, "command": BACKENDS, "recorded": BACKENDS}
# What takes strided buffers on CPUs: functions that are called by what we write.
_STRIDED_FORMS = (None, "object", "bitcode", "plugin")
_GENERATED_FOR = ("cpu", "cuda", "vulkan", "spirv", "wgsl")
_Declared = TypeVar("_Declared", tree.Kernel, tree.Pattern)
_MAX_ERRORS = 100
_PAST_I64 = 1 << 63
# What stands for a type or a size in a rule's MLIR: `$x` or `${n}`.
PLACEHOLDER = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Checked:
    """The declarations of all files together, and what was found. Of a name that is declared twice the first counts."""

    kernels: dict[str, tree.Kernel]
    patterns: dict[str, tree.Pattern]
    rules: tuple[tree.Rule, ...]
    types: dict[Expr, Type | None]
    diagnostics: tuple[Diagnostic, ...]


class _Enough(Exception):  # noqa: N818
    """Raised to stop when a spec has more errors than anybody reads."""


def check(specs: Sequence[tree.Spec]) -> Checked:
    """Judge files that share their names, in the order in which their rules apply. Raises nothing.

    Stops looking after a hundred errors.
    """
    found: list[Diagnostic] = []
    errors = itertools.count(1)

    def report(diagnostic: Diagnostic) -> None:
        found.append(diagnostic)
        if diagnostic.severity == "error" and next(errors) >= _MAX_ERRORS:
            raise _Enough

    rules = sorted((r for s in specs for r in s.rules), key=lambda rule: -rule.priority)
    checked = Checked({}, {}, tuple(rules), {}, ())
    with contextlib.suppress(_Enough):
        _check_all(specs, checked, report)
    position = {id(spec.source): i for i, spec in enumerate(specs)}
    found.sort(key=lambda d: (position.get(id(d.span.source), 0), d.span.start))
    return replace(checked, diagnostics=tuple(found))


def _check_all(specs: Sequence[tree.Spec], checked: Checked, report: Report) -> None:
    kernels, patterns = checked.kernels, checked.patterns
    _collect("kernel", (k for s in specs for k in s.kernels), kernels, report)
    _collect("pattern", (p for s in specs for p in s.patterns), patterns, report)
    made = instances(patterns, checked.rules, report)
    for template in [p for p in patterns.values() if p.op_variables]:
        del patterns[template.name]
    patterns.update(made)
    for kernel in kernels.values():
        _check_kernel(kernel, report)
    # Until a pattern is inferred, as one in a circle never is when it is first used, its results may be anything.
    signatures = {
        p.name: Signature(p.type_variables, p.parameters, (None,) * len(p.results)) for p in patterns.values()
    }
    used: dict[str, set[str]] = {}
    for pattern in _callees_first(patterns, report):
        _check_pattern_names(pattern, report)
        types, results = infer(pattern, signatures, report)
        checked.types.update(types)
        signatures[pattern.name] = Signature(pattern.type_variables, pattern.parameters, results)
        used[pattern.name] = _check_use(pattern, report)
    for rule in checked.rules:
        _check_rule(rule, kernels, patterns, signatures, used, report)
    for run in (r for s in specs for r in s.runs):
        _check_phase(run.phase, run.phase_span, report)
        if not run.passes.strip():
            report(error(run.passes_span, "no pass is named"))


# ---- names across declarations ---------------------------------------------------------------------------------------


def _collect(kind: str, declarations: Iterable[_Declared], found: dict[str, _Declared], report: Report) -> None:
    for declaration in declarations:
        first = found.setdefault(declaration.name, declaration)
        if first is not declaration:
            message = f"{kind} {declaration.name} is declared twice"
            report(error(declaration.name_span, message, "rename one", [(first.name_span, "the first one is here")]))


def _callees_first(patterns: dict[str, tree.Pattern], report: Report) -> list[tree.Pattern]:
    """All patterns, each after those it uses. Those that use themselves are reported and come first, in any order."""
    uses = {name: _used_patterns(pattern, patterns) for name, pattern in patterns.items()}
    circular: list[str] = []
    while True:
        try:
            order = list(TopologicalSorter(uses).static_order())
            break
        except CycleError as failure:
            cycle = failure.args[1][::-1]  # graphlib lists predecessors first
            _report_cycle([patterns[name] for name in cycle], report)
            circular += cycle[:-1]
            for name in cycle[:-1]:
                del uses[name]
            for callees in uses.values():
                callees.difference_update(cycle)
    return [patterns[name] for name in (*circular, *order)]


def _used_patterns(pattern: tree.Pattern, patterns: dict[str, tree.Pattern]) -> set[str]:
    calls = (e for e in expressions(pattern) if isinstance(e, tree.Call) and not e.quoted)
    return {call.callee for call in calls if call.callee in patterns and vocabulary.find(call.callee) is None}


def _report_cycle(cycle: list[tree.Pattern], report: Report) -> None:
    names = [pattern.name for pattern in cycle]
    path = f"{names[0]} uses itself" if len(names) == 2 else " uses ".join(names)
    report(error(cycle[0].name_span, f"patterns cannot be recursive: {path}"))


def attribute_variables(pattern: tree.Pattern) -> dict[str, Span]:
    """The integers that a pattern binds with `{name = ?v}`, and where."""
    calls = (e for e in expressions(pattern) if isinstance(e, tree.Call))
    return {a.variable: a.span for call in calls for a in call.attributes if a.variable is not None}


# ---- what kernels and patterns share ---------------------------------------------------------------------------------


def _check_variables(variables: tuple[tree.TypeVariable, ...], report: Report) -> None:
    for variable in variables:
        if vocabulary.is_element(variable.name):
            report(error(variable.span, f"{variable.name} is an element type and cannot name a variable", "such as T"))
        for choice in variable.choices:
            check_element(choice, (), report)
        names = [choice.name for choice in variable.choices]
        twice = next((c for i, c in enumerate(variable.choices) if c.name in names[:i]), None)
        if twice is not None:
            report(error(twice.span, f"{twice} stands twice among the choices of {variable.name}"))


def _check_parameters(declared: tree.Kernel | tree.Pattern, report: Report) -> dict[str, Dim]:
    """Judge names and types of a signature; return its dims by name."""
    _check_variables(declared.type_variables, report)
    names: dict[str, Span] = {}
    items: list[tree.TypeVariable | tree.Parameter] = [*declared.type_variables, *declared.parameters]
    for item in items:
        if item.name in names:
            first = [(names[item.name], "the first one is here")]
            report(error(_name_span(item), f"{item.name} is declared twice", "rename one", first))
        names.setdefault(item.name, _name_span(item))
    dims: dict[str, Dim] = {}
    for parameter in declared.parameters:
        if parameter.default is not None and (
            isinstance(declared, tree.Kernel) or isinstance(parameter.type, TensorType)
        ):
            report(error(parameter.default.span, "only scalars of patterns have defaults"))
        if check_element(element_of(parameter.type), declared.type_variables, report):
            _check_dims(dims_of(parameter.type), names, dims, report)
    return dims


def _check_dims(used: tuple[Dim, ...], names: dict[str, Span], dims: dict[str, Dim], report: Report) -> None:
    packs = [d for d in used if d.pack is not None]
    if len(packs) > 1:
        report(error(packs[1].span, "a type has one pack at most", "two could not be told apart"))
    for dim in used:
        if dim.name is None:
            if dim.size is not None and not 0 < dim.size < _PAST_I64:
                report(error(dim.span, "a size is at least 1, and less than 2 to the power of 63"))
            continue
        if dim.name in names:
            notes = [(names[dim.name], "which is declared here")]
            report(error(dim.span, f"dim {dim.name} has the name of something else", "rename one", notes))
        first = dims.setdefault(dim.name, dim)
        if (first.pack is None) != (dim.pack is None):
            notes = [(first.span, "the other is here")]
            report(error(dim.span, f"{dim.name} is both one dim and a pack of dims", "rename one", notes))


def _name_span(item: tree.TypeVariable | tree.Parameter) -> Span:
    return Span(item.span.source, item.span.start, item.span.start + len(item.name))


@dataclass(frozen=True)
class _Names:
    """What a condition may speak of: dims (None for integers bound to attributes), type variables, and values."""

    dims: Mapping[str, Dim | None]
    variables: Iterable[str] = ()
    values: Iterable[str] = ()
    forms: bool = False


def _check_condition(condition: tree.Condition | None, names: _Names, report: Report) -> None:
    match condition:
        case tree.Logical():
            for operand in condition.operands:
                _check_condition(operand, names, report)
        case tree.Comparison():
            if not _references(condition.left) | _references(condition.right):
                report(error(condition.span, "this condition names no dim, so it is always the same"))
            _check_arithmetic(condition.left, names, report)
            _check_arithmetic(condition.right, names, report)
        case tree.Membership():
            _check_known("type variable", condition.variable, condition.span, names.variables, report)
            for choice in condition.choices:
                check_element(choice, (), report)
        case tree.Predicate():
            if condition.name == "inside" and "." not in condition.value:
                report(error(condition.span, "an op is named in full", f'such as "scf.{condition.value or "for"}"'))
            elif condition.name == "lacks" and not condition.value:
                report(error(condition.span, "lacks takes an attribute's name", 'such as lacks("lowering_config")'))
            elif condition.name == "contracts":
                _check_contracts(condition, report)
            elif condition.name not in tree.OF_THE_ROOT:
                _check_known("value", condition.value, condition.span, names.values, report)
        case tree.Is():
            _check_known("value", condition.value, condition.span, names.values, report)
            if not names.forms:
                report(error(condition.span, "only a pattern's own condition asks what makes a value"))
            _check_form(condition.form, report)


def _check_contracts(condition: tree.Predicate, report: Report) -> None:
    try:
        asked_sizes(condition.value)
    except ValueError as failure:
        report(error(condition.span, f"contracts: {failure}", 'such as contracts("b ?, m 32, n ?, k 64")'))


def _check_form(form: Expr, report: Report) -> None:
    pending = [form]
    while pending:
        expr = pending.pop()
        if isinstance(expr, tree.Alternatives):
            pending += expr.options
        elif not isinstance(expr, tree.Call) or expr.optional:
            report(
                error(expr.span, "a condition asks for an op or a pattern that makes the value, or for one of several")
            )
    for expr in _within(form):
        if isinstance(expr, tree.Uses) and expr.kind != "accumulated":
            message = f"{expr.kind} asks about parts of a match, and what makes a value is none"
            report(error(expr.span, message, f"give it a name in the pattern and write `where {expr.kind}(name)`"))


def _within(expr: Expr) -> Iterator[Expr]:
    yield expr
    for child in children(expr):
        yield from _within(child)


def _check_known(kind: str, name: str, span: Span, known: Iterable[str], report: Report) -> None:
    names = list(known)
    if name not in names:
        advice = did_you_mean(name, names) or (f"there are {' '.join(names)}" if names else None)
        report(error(span, f"unknown {kind} {name}", advice))


def _check_arithmetic(value: tree.DimExpr, names: _Names, report: Report, *, exact: bool = False) -> None:
    """exact: in const(...), where values need not be whole."""
    if isinstance(value, tree.Literal):
        if isinstance(value.value, float) and not exact:
            report(error(value.span, "dims are whole numbers"))
        elif not exact and abs(value.value) >= _PAST_I64:
            report(error(value.span, "no dim is this large"))
    elif isinstance(value, tree.DimRef):
        if value.name not in names.dims:
            known = list(names.dims)
            advice = did_you_mean(value.name, known) or (f"the dims here are {' '.join(known)}" if known else None)
            report(error(value.span, f"unknown dim {value.name}", advice))
    elif isinstance(value, tree.Property):
        kind, known_names = ("dim", names.dims) if value.kind == "rank" else ("type variable", names.variables)
        _check_known(kind, value.name, value.span, known_names, report)
        if value.kind == "rank" and value.name in names.dims:
            dim = names.dims[value.name]
            if dim is None or dim.pack is None:
                advice = f"write ...{value.name} in a type for any number of dims" if dim is not None else None
                report(error(value.span, f"rank counts the dims of a pack, and {value.name} is none", advice))
    else:
        if value.op == "/" and not exact:
            report(error(value.span, "dims are whole numbers, which / does not keep", "write ceildiv or floordiv"))
        if value.op in ("/", "%", "ceildiv", "floordiv") and value.right == tree.Literal(value.right.span, 0):
            report(error(value.right.span, "this divides by zero"))
        _check_arithmetic(value.left, names, report, exact=exact)
        _check_arithmetic(value.right, names, report, exact=exact)


def _references(value: tree.DimExpr) -> set[str]:
    if isinstance(value, (tree.DimRef, tree.Property)):
        return {value.name}
    return _references(value.left) | _references(value.right) if isinstance(value, tree.Arithmetic) else set()


def _properties(value: tree.DimExpr) -> list[tree.Property]:
    if isinstance(value, tree.Property):
        return [value]
    return _properties(value.left) + _properties(value.right) if isinstance(value, tree.Arithmetic) else []


# ---- kernels ---------------------------------------------------------------------------------------------------------


def _check_kernel(kernel: tree.Kernel, report: Report) -> None:
    dims = _check_parameters(kernel, report)
    for parameter in kernel.parameters:
        _check_kernel_type(parameter.type, kernel, report)
    if kernel.is_scalar:
        scalar_kernels.check(kernel, report)
    else:
        _check_kernel_results(kernel, dims, report)
    names = _Names(dims, [v.name for v in kernel.type_variables])
    _check_condition(kernel.where, names, report)
    for size in kernel.grid:
        _check_arithmetic(size, names, report)
        for asked in _properties(size):
            report(error(asked.span, f"a grid is made of dims, and {asked.kind} is for conditions"))
        if isinstance(size, tree.Literal) and size.value < 1:
            report(error(size.span, f"a grid of {size.value} workgroups runs nothing"))
    if len(kernel.grid) > 3:
        report(error(kernel.grid[3].span, f"a grid has 3 dims at most, found {len(kernel.grid)}"))
    _check_buffers(kernel, report)
    _check_strided(kernel, report)
    if kernel.workgroup_span is not None:
        _check_workgroup(kernel.workgroup, kernel.workgroup_span, report)
    _check_symbol(kernel, report)
    if not kernel.artifacts:
        report(error(kernel.name_span, f"kernel {kernel.name} has no code", f'name its file: cpu "{kernel.name}.c"'))
    for clause in kernel.artifacts:
        if clause.backend not in BACKENDS:
            advice = did_you_mean(clause.backend, BACKENDS) or f"there are {' '.join(BACKENDS)}"
            span = Span(clause.span.source, clause.span.start, clause.span.start + len(clause.backend))
            report(error(span, f"unknown backend {clause.backend}", advice))
        for limit in clause.limits:
            _check_limit(limit, clause, report)
        for name in LIMITS:
            if name in clause.features:
                report(error(clause.span, f"{name} is a number, and is compared", f"write such as `{name} >= 32`"))
        if clause.form is not None and clause.form not in FORMS:
            advice = did_you_mean(clause.form, FORMS) or f"there are {' '.join(FORMS)}"
            report(error(clause.span, f"a kernel's code cannot be taken as {clause.form}", advice))
        elif kernel.is_scalar and clause.form not in (None, "object", "bitcode"):
            scalar_kernels.check_form(clause, report)
        elif clause.is_generated:
            _check_generated(clause, report)
        elif clause.form is not None and clause.backend not in _BACKENDS_OF.get(clause.form, ("cpu",)):
            backends = " and ".join(_BACKENDS_OF.get(clause.form, ("cpu",)))
            message = f"`as {clause.form}` is for {backends}, and this clause is for {clause.backend}"
            report(error(clause.span, message, "its file holds a whole dispatch"))
        elif clause.form is None and clause.path.endswith(".py") and not kernel.is_scalar:
            advice = "write `as generated` if it writes the code, `as command` if the program calls it"
            report(error(clause.path_span, f"{clause.path} is a Python file, and not a kernel's code itself", advice))


def _check_buffers(kernel: tree.Kernel, report: Report) -> None:
    kinds = [p.type for p in kernel.parameters] + [r.type for r in kernel.results if r.alias is None]
    count = sum(isinstance(kind, TensorType) for kind in kinds)
    if count > MOST_BUFFERS and not all(clause.is_command for clause in kernel.artifacts):
        message = f"kernel {kernel.name} has {count} buffers, and a dispatch takes {MOST_BUFFERS}"
        report(error(kernel.name_span, message, "pass several tensors as one"))


def _check_strided(kernel: tree.Kernel, report: Report) -> None:
    """What kernels with strided or optional buffers have to keep to."""
    kinds = [p.type for p in kernel.parameters] + [r.type for r in kernel.results]
    strided = [kind for kind in kinds if isinstance(kind, TensorType) and kind.strided]
    optional = [kind for kind in kinds if isinstance(kind, TensorType) and kind.optional]
    if not strided and not optional:
        return
    present = [kind for kind in kinds if isinstance(kind, TensorType) and not kind.optional]
    given = {None, *(dim.name for kind in present for dim in kind.dims)}
    for kind in optional:
        for dim in (dim for dim in kind.dims if dim.name not in given):
            report(error(dim.span, f"nothing says how large {dim.name} is where this buffer is left out"))
    overwritten = {result.alias: result for result in kernel.results if result.alias is not None}
    for parameter in kernel.parameters:
        if parameter.name in overwritten and parameter.type in (*strided, *optional):
            word = "strided" if parameter.type in strided else "optional"
            message = f"{parameter.name} is {word} and cannot be overwritten"
            report(error(overwritten[parameter.name].span, message, f"make a result of its own, or leave out `{word}`"))
    for result in kernel.results:
        if result.type in optional:
            report(error(result.span, "a result is always there", "leave out `optional`"))
    whole = {size.name for size in kernel.grid if isinstance(size, tree.DimRef)}
    packs = {dim.pack: dim for kind in strided for dim in kind.dims if dim.pack is not None and dim.pack not in whole}
    for pack, dim in packs.items():
        advice = f"make it a dim of the grid, grid ({pack}): the kernel gets the address of its workgroup's part"
        report(error(dim.span, f"no dim of the grid is {pack}, a pack of a strided buffer", advice))
    for clause in kernel.artifacts:
        if clause.backend in BACKENDS and (clause.backend != "cpu" or clause.form not in _STRIDED_FORMS):
            what = clause.backend if clause.backend != "cpu" else f"as {clause.form}"
            word = "strided" if strided else "optional"
            message = f"{word} buffers are for functions on CPUs, and this clause is `{what}`"
            instead = "leave out `strided`: the program then makes dense copies" if strided else None
            report(error(clause.span, message, instead))


def _check_limit(limit: tree.Limit, clause: tree.ArtifactClause, report: Report) -> None:
    word = Span(limit.span.source, limit.span.start, limit.span.start + len(limit.name))
    if limit.name not in LIMITS:
        advice = did_you_mean(limit.name, LIMITS) or f"there are {' '.join(LIMITS)}"
        report(error(word, f"a device has no number {limit.name}", advice))
    elif clause.backend == "cpu":
        report(error(word, f"{limit.name} is a number of GPUs, and this clause is for cpu"))


def _check_generated(clause: tree.ArtifactClause, report: Report) -> None:
    if clause.backend in BACKENDS and clause.backend not in _GENERATED_FOR:
        message = f"`as generated` is for cpu, cuda and vulkan, and this clause is for {clause.backend}"
        report(error(clause.span, message, "name a file that holds the code"))
    elif clause.path and not clause.path.endswith(".py"):
        message = f"{clause.path} is no Python file, and a generator is one"
        report(error(clause.path_span, message, "without `as generated` the file is the code itself"))


def _check_workgroup(workgroup: tuple[int, ...], span: Span, report: Report) -> None:
    if len(workgroup) > 3:
        report(error(span, f"a workgroup has 3 dims at most, found {len(workgroup)}"))
    elif 0 in workgroup:
        report(error(span, "a workgroup has a thread at least in each dim"))
    elif math.prod(workgroup) > MOST_THREADS:
        report(error(span, f"a workgroup has {MOST_THREADS} threads at most, found {math.prod(workgroup)}"))


def _check_kernel_type(written: Type, kernel: tree.Kernel, report: Report) -> None:
    element = element_of(written)
    variable = next((v for v in kernel.type_variables if v.name == element.name), None)
    for choice in variable.choices if variable else (element,):
        scalar_index = choice.name == "index" and isinstance(written, ScalarType)
        if vocabulary.is_element(choice.name) and choice.name not in vocabulary.KERNEL_ELEMENTS and not scalar_index:
            advice = f"there are {' '.join(vocabulary.KERNEL_ELEMENTS)}, and index for a scalar"
            report(error(choice.span, f"kernels take no {choice}", advice))
    for dim in dims_of(written):
        if dim.name is None and dim.size is None:
            report(error(dim.span, "a kernel is told its sizes, so each dim has a name or a size"))


def _check_kernel_results(kernel: tree.Kernel, dims: dict[str, Dim], report: Report) -> None:
    parameters = {p.name: p for p in kernel.parameters}
    elements = {element_of(p.type).name for p in kernel.parameters}
    names = set(parameters)
    aliased: set[str] = set()
    for result in kernel.results:
        if result.alias is not None:
            _check_alias(result, parameters, aliased, report)
            aliased.add(result.alias)
            continue
        assert isinstance(result.type, TensorType), "scalar kernels are judged by themselves"
        if result.name in names:
            report(
                error(result.span, f"{result.name} is declared twice", "give the result a name of its own: y: f32[n]")
            )
        names.add(result.name)
        _check_kernel_type(result.type, kernel, report)
        element = result.type.element
        if not check_element(element, kernel.type_variables, report):
            continue
        if any(v.name == element.name for v in kernel.type_variables) and element.name not in elements:
            report(error(element.span, f"no parameter says what {element} is"))
        for dim in result.type.dims:
            if dim.pack is not None and dim.pack not in dims:
                advice = did_you_mean(dim.pack, dims) or "a result's packs are those of the kernel's buffers"
                report(error(dim.span, f"no buffer has a pack {dim.pack}", advice))
            elif dim.symbol is not None:
                dims.setdefault(dim.symbol, dim)  # what is replaced says how large it is


def _check_alias(
    result: tree.KernelResult, parameters: dict[str, tree.Parameter], aliased: set[str], report: Report
) -> None:
    assert result.alias is not None
    parameter = parameters.get(result.alias)
    if parameter is None:
        advice = did_you_mean(result.alias, parameters) or "a result is a buffer, f32[n], or a parameter to overwrite"
        if vocabulary.is_element(result.alias):
            advice = f"a result is a buffer: {result.alias}[n], or {result.alias}[] for a single value"
        report(error(result.span, f"unknown parameter {result.alias}", advice))
    elif isinstance(parameter.type, ScalarType):
        report(error(result.span, f"{result.alias} is a scalar and cannot be overwritten", "only buffers can"))
    elif result.alias in aliased:
        report(error(result.span, f"{result.alias} is overwritten by two results"))


def _check_symbol(kernel: tree.Kernel, report: Report) -> None:
    symbol = kernel.symbol if kernel.symbol is not None else kernel.name
    span = kernel.symbol_span or kernel.name_span
    known = [v.name for v in kernel.type_variables]
    named = _PLACEHOLDER.findall(symbol)
    for name in named:
        if name not in known:
            advice = did_you_mean(name, known) or "only type variables stand in braces"
            report(error(span, f"the symbol of {kernel.name} has an unknown {{{name}}}", advice))
    rest = _PLACEHOLDER.sub("", symbol)
    if not symbol or re.search(r"[\s{}]", rest):
        report(error(span, f'"{symbol}" is no symbol that code can define'))
    for variable in kernel.type_variables:
        if len(variable.choices) > 1 and variable.name not in named:
            message = f"{kernel.name} calls one symbol, {symbol}, whatever {variable.name} is"
            advice = f'name one for each type: symbol "{symbol}_{{{variable.name}}}"'
            report(warning(variable.span, message, advice, code="shared-symbol"))


# ---- patterns --------------------------------------------------------------------------------------------------------


def _check_pattern_names(pattern: tree.Pattern, report: Report) -> None:
    dims = _check_parameters(pattern, report)
    dims |= _factors(pattern, dims)
    if vocabulary.find(pattern.name) is not None:
        report(error(pattern.name_span, f"{pattern.name} is the name of an op", "choose another name for the pattern"))
    taken = {p.name: _name_span(p) for p in pattern.parameters}
    for let in pattern.body:
        span = Span(let.span.source, let.span.start, let.span.start + len(let.names[0]))
        for name in let.names:
            if name in dims:
                notes = [(dims[name].span, "which is here")]
                report(error(span, f"{name} has the name of a dim", "rename one", notes))
            elif name in taken:
                report(error(span, f"{name} is bound twice", "rename one", [(taken[name], "the first one is here")]))
            taken.setdefault(name, span)
    bound = attribute_variables(pattern)
    for name, span in bound.items():
        if name in dims or name in taken:
            report(error(span, f"{name} has the name of something else", "rename one"))
    names = _Names({**dims, **dict.fromkeys(bound)}, [v.name for v in pattern.type_variables], taken, forms=True)
    _check_condition(pattern.where, names, report)
    for expr in expressions(pattern):
        if isinstance(expr, tree.Constant):
            _check_constant(expr, _Names(dims), report)


def _factors(pattern: tree.Pattern, dims: Iterable[str]) -> dict[str, Dim]:
    """The names of strides and dilations, which are numbers of the pattern as its dims are."""
    return {f: Dim(pattern.span, symbol=f) for f in pattern_factors(pattern) if f not in dims}


def _check_constant(constant: tree.Constant, names: _Names, report: Report) -> None:
    _check_arithmetic(constant.value, names, report, exact=True)
    if constant.high is None:
        return
    _check_arithmetic(constant.high, names, report, exact=True)
    low, high = constant.value, constant.high
    if isinstance(low, tree.Literal) and isinstance(high, tree.Literal) and low.value > high.value:
        report(error(constant.span, "this range is empty", f"write const({high.value}..{low.value})"))


def _check_use(pattern: tree.Pattern, report: Report) -> set[str]:
    """Judge the results, warn of what leads to none of them, and return the parameters that every match binds."""
    lets = {name: let for let in pattern.body for name in let.names}
    for result in pattern.results:
        _check_result(result, pattern, lets, report)
    reached: set[str] = set()
    pending: list[Expr] = [*pattern.results, *(f.form for f in forms(pattern.where))]
    while pending:
        expr = pending.pop()
        pending += children(expr)
        if isinstance(expr, tree.Name) and expr.name not in reached:
            reached.add(expr.name)
            if expr.name in lets:
                pending.append(lets[expr.name].expr)
    for parameter in pattern.parameters:
        if parameter.name not in reached and not parameter.name.startswith("_"):
            message = f"no result of {pattern.name} needs {parameter.name}"
            report(warning(parameter.span, message, "remove it, or begin its name with _", code="unused-input"))
    for let in pattern.body:
        if not any(name in reached or name.startswith("_") for name in let.names):
            message = f"no result of {pattern.name} needs {let.names[0]}"
            report(warning(let.span, message, "it is not looked for; remove it", code="unused-value"))
    known: dict[str, frozenset[str]] = {}
    for let in pattern.body:
        known.update(dict.fromkeys(let.names, _certain(let.expr, known) | set(let.names)))
    certain = frozenset[str]().union(*(_certain(result, known) for result in pattern.results))
    return set(certain & {p.name for p in pattern.parameters})


def _certain(expr: Expr, known: dict[str, frozenset[str]]) -> frozenset[str]:
    """The names that every match of an expression binds: those of all alternatives, and not those of absent ops.

    known: those of the names bound further up.
    """
    if isinstance(expr, tree.Name):
        return known.get(expr.name, frozenset({expr.name}))
    parts = [_certain(child, known) for child in children(expr)]
    if isinstance(expr, tree.Alternatives):
        return frozenset.intersection(*parts)
    if isinstance(expr, tree.Call) and expr.optional:
        return parts[0] if parts else frozenset()
    return frozenset[str]().union(*parts)


def _check_result(result: Expr, pattern: tree.Pattern, lets: dict[str, tree.Let], report: Report) -> None:
    parameters = {p.name for p in pattern.parameters}
    for made in _makers(result, lets, set()):
        if isinstance(made, tree.Constant):
            report(error(result.span, "a result is made by an op, and this is a constant"))
        elif isinstance(made, tree.Wildcard):
            report(error(made.span, "a result is made by an op, and this may be anything"))
        elif isinstance(made, tree.Uses) and made.kind != "accumulated":
            report(error(made.span, "a result is what is replaced, so its uses are not asked about"))
        elif isinstance(made, tree.Name) and made.name in parameters:
            report(error(result.span, f"a result is made by an op, and this is the parameter {made.name}"))


def _makers(expr: Expr, lets: dict[str, tree.Let], seen: set[str]) -> Iterator[Expr]:
    """The expressions that a result may be made by, behind names, alternatives and optional ops."""
    if isinstance(expr, tree.Name) and expr.name in lets and expr.name not in seen:
        yield from _makers(lets[expr.name].expr, lets, {*seen, expr.name})
        return
    if isinstance(expr, tree.Alternatives):
        for option in expr.options:
            yield from _makers(option, lets, seen)
        return
    if isinstance(expr, tree.Call) and expr.optional and expr.args:
        yield from _makers(expr.args[0], lets, seen)
    yield expr


# ---- rules -----------------------------------------------------------------------------------------------------------


def _check_rule(
    rule: tree.Rule,
    kernels: dict[str, tree.Kernel],
    patterns: dict[str, tree.Pattern],
    signatures: dict[str, Signature],
    used: dict[str, set[str]],
    report: Report,
) -> None:
    pattern = patterns.get(rule.pattern)
    if pattern is None and "<" not in rule.pattern:  # with ops put in, it was reported where that failed
        advice = did_you_mean(rule.pattern, patterns)
        if advice is None and rule.pattern in kernels:
            advice = "that is a kernel: write replace pattern with kernel(...)"
        report(error(rule.pattern_span, f"unknown pattern {rule.pattern}", advice))
    _check_phase(rule.phase, rule.phase_span, report)
    known = used.get(rule.pattern, set())
    if pattern is not None:
        dims = {d.name: d for p in pattern.parameters for d in dims_of(p.type) if d.name is not None}
        dims |= _factors(pattern, dims)
        bound = attribute_variables(pattern)
        names = _Names(
            {**dims, **dict.fromkeys(bound)},
            [v.name for v in pattern.type_variables],
            [p.name for p in pattern.parameters],
        )
        _check_condition(rule.where, names, report)
    for attribute in rule.attributes:
        values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
        if any(isinstance(value, int) and not -_PAST_I64 <= value < _PAST_I64 for value in values):
            report(error(attribute.span, "an integer that is set is an i64, which cannot hold this"))
    if rule.attributes:
        return
    if rule.code is not None:
        if pattern is not None:
            _check_code(rule.code, pattern, [*known, *dims, *bound], report)
        return
    kernel = kernels.get(rule.kernel)
    if kernel is None and rule.kernel in patterns:
        if pattern is not None:
            _check_template(rule, patterns[rule.kernel], pattern, signatures, known, report)
        return
    if kernel is None and "<" not in rule.kernel:
        advice = did_you_mean(rule.kernel, [*kernels, *patterns])
        report(error(rule.kernel_span, f"unknown kernel or pattern {rule.kernel}", advice))
    if pattern is None or kernel is None:
        return
    if len(rule.args) != len(kernel.parameters):
        wanted = ", ".join(f"{p.name}: {_kernel_type(p.type)}" for p in kernel.parameters)
        count = "1 argument" if len(kernel.parameters) == 1 else f"{len(kernel.parameters)} arguments"
        notes = [(kernel.name_span, f"it takes ({wanted})")]
        report(error(_args_span(rule), f"{rule.kernel} takes {count}, found {len(rule.args)}", notes=notes))
        return
    binding = Binding(kernel.type_variables, pattern.type_variables, exact=True)
    parameters = {p.name: p for p in pattern.parameters}
    fits = True
    for arg, wanted_parameter in zip(rule.args, kernel.parameters, strict=True):
        reason = _misfit(arg, wanted_parameter, parameters, {*dims, *bound}, known, binding, kernel.is_scalar)
        if reason is not None:
            report(error(arg.span, *reason, notes=[(wanted_parameter.span, "the kernel's parameter is here")]))
            fits = False
    if fits:
        for result, kind in zip(kernel.results, signatures[pattern.name].results, strict=False):
            if result.type is not None:
                binding.settle(result.type, kind)
        _check_numbers(rule, kernel.parameters, binding, "kernel", report)
    if fits and kernel.is_scalar:
        scalar_kernels.check_rule(rule, kernel, parameters, signatures[pattern.name].results, binding, report)
    if fits:
        _check_rule_results(rule, kernel, signatures[pattern.name], binding, report)


def _check_phase(phase: str | None, span: Span | None, report: Report) -> None:
    if phase is not None and span is not None and phase not in RULE_PHASES:
        advice = did_you_mean(phase, RULE_PHASES) or f"rules apply at {', '.join(RULE_PHASES)}"
        report(error(span, f"unknown phase {phase}", advice))


def _check_code(code: tree.Code, pattern: tree.Pattern, known: Iterable[str], report: Report) -> None:
    """A rule's MLIR: it yields something, and its `$names` stand for something."""
    if re.search(r"^[ \t]*yield\b", code.text, re.MULTILINE) is None:
        report(error(code.span, "this MLIR yields nothing", "end it with: yield %0"))
    roots = ["result", *(f"result{i}" for i in range(len(pattern.results)))]
    names = [*known, *(v.name for v in pattern.type_variables), *roots]
    start = code.span.end - 1 - len(code.text)
    for found in PLACEHOLDER.finditer(code.text):
        name = found[1] or found[2]
        if name not in names:
            span = Span(code.span.source, start + found.start(), start + found.end())
            advice = did_you_mean(name, names) or f"there are {' '.join(sorted(names))}"
            if any(name.startswith(known) for known in names):
                advice = "a name that letters follow stands in braces: tensor<${n}x$T>"
            report(error(span, f"${name} stands for nothing", advice))


def _check_template(
    rule: tree.Rule,
    made: tree.Pattern,
    pattern: tree.Pattern,
    signatures: dict[str, Signature],
    known: set[str],
    report: Report,
) -> None:
    """A pattern in the place of another: arguments fit its parameters, and its results those that it replaces."""
    if len(rule.args) != len(made.parameters):
        count = "1 argument" if len(made.parameters) == 1 else f"{len(made.parameters)} arguments"
        notes = [(made.name_span, f"it takes ({', '.join(f'{p.name}: {p.type}' for p in made.parameters)})")]
        report(error(_args_span(rule), f"{rule.kernel} takes {count}, found {len(rule.args)}", notes=notes))
        return
    parameters = {p.name: p for p in pattern.parameters}
    binding = Binding(made.type_variables, pattern.type_variables)
    for arg, wanted in zip(rule.args, made.parameters, strict=True):
        notes = [(wanted.span, "the pattern's parameter is here")]
        if isinstance(arg, tree.Literal):
            if isinstance(wanted.type, TensorType):
                report(error(arg.span, f"{arg.value} is a number, and {wanted.name} is a tensor", notes=notes))
            continue
        given = parameters.get(arg.name)
        if given is None:
            report(error(arg.span, f"the pattern has no {arg.name}", did_you_mean(arg.name, parameters)))
        elif arg.name not in known:
            report(error(arg.span, f"not every match says what {arg.name} is"))
        else:
            reason = binding.match(wanted.type, given.type)
            if reason is not None:
                message = f"{arg.name}: {given.type} does not fit {wanted.name}: {wanted.type}: {reason}"
                report(error(arg.span, message, notes=notes))
                return
    _check_numbers(rule, made.parameters, binding, "pattern", report)
    results, wanted_results = signatures[made.name].results, signatures[pattern.name].results
    if len(results) != len(wanted_results):
        message = f"{made.name} makes {_results(len(results))}, and {pattern.name} has {len(wanted_results)}"
        report(error(rule.kernel_span, message))
        return
    for result, wanted_type in zip(results, wanted_results, strict=True):
        made_type = None if result is None else binding.apply(result)
        if made_type is None or wanted_type is None:
            continue
        same_element = element_of(made_type).name == element_of(wanted_type).name
        if not same_element or merge_dims(dims_of(made_type), dims_of(wanted_type)) is None:
            report(error(rule.kernel_span, f"{made.name} makes {made_type} here, and {pattern.name} is {wanted_type}"))


def _misfit(
    arg: tree.Name | tree.Literal,
    wanted: tree.Parameter,
    parameters: dict[str, tree.Parameter],
    dims: set[str],
    used: set[str],
    binding: Binding,
    elementwise: bool = False,
) -> tuple[str, str | None] | None:
    """Why an argument does not fit a kernel's parameter, and what to do.

    elementwise: tensors fit scalars, element by element.
    """
    wanted_text = f"{wanted.name}: {_kernel_type(wanted.type)}"
    scalar = isinstance(wanted.type, ScalarType)
    if isinstance(arg, tree.Literal):
        return None if scalar else (f"{arg.value} is a number, and {wanted_text} is a buffer", None)
    parameter = parameters.get(arg.name)
    if parameter is None:
        if arg.name not in dims:
            return f"the pattern has no {arg.name}", did_you_mean(arg.name, [*parameters, *dims])
        if not scalar:
            return f"{arg.name} is a dim, and {wanted_text} is a buffer", None
        if not vocabulary.is_integer(element_of(wanted.type).name):
            return f"{arg.name} is a dim, and {wanted_text} is not an integer", None
        return None
    may_lack = parameter.default is not None if scalar else isinstance(wanted.type, TensorType) and wanted.type.optional
    if arg.name not in used and not may_lack:
        advice = f"give it a default, {arg.name}: {parameter.type} = 1.0" if scalar else "make the buffer `optional`"
        return f"not every match says what {arg.name} is", f"no result, or not every alternative, needs it; {advice}"
    if scalar and isinstance(parameter.type, TensorType) and not elementwise:
        return f"{arg.name} is a tensor, and {wanted_text} is a scalar", None
    if not scalar and isinstance(parameter.type, ScalarType):
        return f"{arg.name} is a scalar, and {wanted_text} is a buffer", None
    found = element_of(parameter.type) if elementwise else parameter.type
    reason = binding.match(wanted.type, found)
    return None if reason is None else (f"{arg.name}: {parameter.type} does not fit {wanted_text}: {reason}", None)


def _check_numbers(
    rule: tree.Rule, parameters: Sequence[tree.Parameter], binding: Binding, whose: str, report: Report
) -> None:
    """The numbers among a rule's arguments, once it is known what the type variables are."""
    for arg, wanted in zip(rule.args, parameters, strict=True):
        reason = _misfit_number(arg.value, wanted, binding) if isinstance(arg, tree.Literal) else None
        if reason is not None:
            report(error(arg.span, reason, notes=[(wanted.span, f"the {whose}'s parameter is here")]))


def _misfit_number(value: int | float, wanted: tree.Parameter, binding: Binding) -> str | None:
    """Why no type that a scalar parameter may be of holds a number."""
    elements = binding.elements_of(element_of(wanted.type).name)
    if elements is None:
        return None
    name = f"{wanted.name}: {' or '.join(sorted(elements)) or element_of(wanted.type)}"
    if not elements:
        return f"nothing says which type {name} is"
    if isinstance(value, float) and all(map(vocabulary.is_integer, elements)):
        return f"{value} is not an integer, and {name} is"
    return None if any(vocabulary.holds(element, value) for element in elements) else f"{name} cannot hold {value}"


def _check_rule_results(
    rule: tree.Rule, kernel: tree.Kernel, signature: Signature, binding: Binding, report: Report
) -> None:
    notes = [(kernel.results[0].span, "the kernel's results are here")]
    if len(signature.results) != len(kernel.results):
        made, wanted = len(kernel.results), len(signature.results)
        message = f"{rule.kernel} makes {_results(made)}, and {rule.pattern} has {wanted}"
        report(error(rule.kernel_span, message, notes=notes))
        return
    parameters = {p.name: p.type for p in kernel.parameters}
    for result, wanted_type in zip(kernel.results, signature.results, strict=True):
        written = result.type if result.type is not None else parameters.get(result.alias or "")
        made_type = binding.apply(written) if written is not None else None
        if made_type is None or wanted_type is None:
            continue
        element, wanted_element = element_of(made_type).name, element_of(wanted_type).name
        possible = possible_elements(wanted_element, signature.variables)
        same_element = element == wanted_element or possible is None or element in possible
        same_dims = kernel.is_scalar or merge_dims(dims_of(made_type), dims_of(wanted_type)) is not None
        if not same_element or not same_dims:
            message = f"{rule.kernel} makes {made_type} here, and {rule.pattern} is {wanted_type}"
            report(error(rule.kernel_span, message, notes=[(result.span, "the kernel's result is here")]))


def _args_span(rule: tree.Rule) -> Span:
    if not rule.args:
        return rule.kernel_span
    return Span(rule.span.source, rule.args[0].span.start, rule.args[-1].span.end)


def _kernel_type(written: Type) -> str:
    """A type as kernels write it."""
    if isinstance(written, ScalarType):
        return str(written)
    return f"{written.element}[{', '.join(map(str, written.dims))}]"


def _results(count: int) -> str:
    return "1 result" if count == 1 else f"{count} results"
