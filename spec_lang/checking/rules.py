"""What a rule gets wrong: a replacement that does not fit its pattern."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from opsplice.common.errors import counted, did_you_mean, one_of
from opsplice.spec_lang.checking import computed_arguments, scalar_kernels
from opsplice.spec_lang.checking.conditions import (
    PAST_I64,
    Names,
    check_condition,
)
from opsplice.spec_lang.checking.patterns import attribute_variables, check_constants, factors
from opsplice.spec_lang.checking.types.element_types import Report
from opsplice.spec_lang.checking.types.signature_binding import Binding, merge_dims, possible_elements
from opsplice.spec_lang.checking.types.type_inference import Signature, infer
from opsplice.spec_lang.checking.walks import expressions
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, error
from opsplice.spec_lang.syntax.tree import ScalarType, Span, TensorType, Type

# Where in IREE's pipeline rules may apply. `start` is the program as the frontend wrote it.
RULE_PHASES = (
    "start", "input", "abi", "preprocessing", "global-optimization", "dispatch-creation", "flow",
)  # fmt: skip

# Parts that say what a program may have.
_SEVERAL = (tree.Setting, tree.Uses, tree.Wildcard)

# What stands for a type or a size in a rule's MLIR: `$x` or `${n}`.
PLACEHOLDER = re.compile(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\})")


def check_rule(
    rule: tree.Rule,
    kernels: dict[str, tree.Kernel],
    patterns: dict[str, tree.Pattern],
    signatures: dict[str, Signature],
    used: dict[str, set[str]],
    report: Report,
) -> None:
    pattern = patterns.get(rule.pattern)
    if pattern is None and "<" not in rule.pattern:  # with ops put in, it was reported where that failed
        advice = one_of(rule.pattern, patterns)
        if rule.pattern in kernels:
            named = [p for p in patterns if p.rpartition(".")[2] == rule.pattern]
            advice = "that is a kernel" + (f"; the pattern of its name is {named[0]}" if named else "")
        report(error(rule.pattern_span, f"unknown pattern {rule.pattern}", advice))
    check_phase(rule.phase, rule.phase_span, report)
    known = used.get(rule.pattern, set())
    if pattern is not None:
        dims = {d.name: d for p in pattern.parameters for d in p.type.dims if d.name is not None}
        dims |= factors(pattern, dims)
        bound = attribute_variables(pattern)
        scalars = [p for p in pattern.parameters if isinstance(p.type, ScalarType)]
        integers = [p.name for p in scalars if vocabulary.is_integer(p.type.element.name)]
        names = Names(
            {**dims, **dict.fromkeys([*bound, *integers])},
            [v.name for v in pattern.type_variables],
            [p.name for p in pattern.parameters],
            always=known,
        )
        check_condition(rule.where, names, report)
        check_condition(rule.when, names, report)
    _check_when(rule, patterns, report)
    for attribute in rule.attributes:
        values = attribute.value if isinstance(attribute.value, tuple) else (attribute.value,)
        if any(isinstance(value, int) and not -PAST_I64 <= value < PAST_I64 for value in values):
            report(error(attribute.span, "an integer that is set is an i64, which cannot hold this"))
    if not rule.replaces:
        return
    if rule.code is not None:
        if pattern is not None:
            _check_code(rule.code, pattern, [*known, *dims, *bound], report)
        return
    kernel = kernels.get(rule.kernel)
    if kernel is None and rule.kernel in patterns:
        if pattern is not None:
            _check_template(rule, patterns[rule.kernel], pattern, signatures, used, report)
        return
    if kernel is None and "<" not in rule.kernel:
        advice = did_you_mean(rule.kernel, [*kernels, *patterns])
        report(error(rule.kernel_span, f"unknown kernel or pattern {rule.kernel}", advice))
    if pattern is None or kernel is None:
        return
    binding = _Calls(pattern, {*dims, *bound}, known, kernels, signatures, report).bound(rule, kernel)
    if binding is None:
        return
    parameters = {p.name: p for p in pattern.parameters}
    for result, kind in zip(kernel.made, signatures[pattern.name].results, strict=False):
        if result.type is not None:
            binding.settle(result.type, kind)
    _check_numbers(rule, kernel.parameters, binding, "kernel", report)
    if kernel.is_scalar:
        scalar_kernels.check_rule(rule, kernel, parameters, signatures[pattern.name].results, binding, report)
    kinds = {p.name: p.type for p in kernel.parameters}
    written = [each.type or kinds.get(each.alias or "") for each in kernel.made]
    made = [None if kind is None else binding.apply(kind) for kind in written]
    _check_results(rule, made, signatures[pattern.name], report, kernel)


def _check_when(rule: tree.Rule, patterns: Collection[str], report: Report) -> None:
    """A program can judge comparisons of sizes, and choose between kernels."""
    if rule.when is None:
        return
    plain = (tree.Logical, tree.Comparison, tree.Arithmetic, tree.DimRef, tree.Literal)
    parts = list(tree.parts(rule.when))
    others = [p for p in parts if not isinstance(p, plain) or (isinstance(p, tree.Logical) and p.op == "may")]
    if others:
        report(error(others[0].span, "`when` compares dims, which a program can do as it runs", "ask this in `where`"))
    if rule.code is not None or rule.kernel in patterns:
        report(error(rule.when.span, "`when` chooses a kernel, and this rule calls none", "ask this in `where`"))


@dataclass(frozen=True)
class _Calls:
    """The calls of kernels of one rule: the one that takes the place of its pattern, and those among the arguments.

    dims: the numbers of the pattern by name; used: the parameters that every match binds. A buffer may also be given
    a tensor that only some matches bind, or what is computed from it.
    """

    pattern: tree.Pattern
    dims: set[str]
    used: set[str]
    kernels: Mapping[str, tree.Kernel]
    signatures: Mapping[str, Signature]
    report: Report

    def bound(self, rule: tree.Rule, kernel: tree.Kernel) -> Binding | None:
        """What the names of a kernel stand for, None where its arguments do not fit, which is reported."""
        if not _has_all_arguments(rule, kernel, self.report):
            return None
        binding = Binding(kernel.type_variables, self.pattern.type_variables, exact=True)
        parameters = {p.name: p for p in self.pattern.parameters}
        fits = True
        given = zip(rule.args, kernel.parameters, strict=True)
        for arg, parameter in [(each, wanted) for whole, wanted in given for each in _options(whole)]:
            if isinstance(arg, (tree.Computed, tree.Launch)):
                made = self._launched(rule, arg) if isinstance(arg, tree.Launch) else self._computed(rule, arg)
                fits = fits and made is not None
                if made is None:
                    continue
                reason = _misfit_computed(made, parameter, binding, kernel.is_scalar)
            else:
                known = self.used if isinstance(parameter.type, ScalarType) else self._read()
                reason = _misfit(arg, parameter, parameters, self.dims, known, binding, kernel.is_scalar)
            if reason is not None:
                self.report(error(arg.span, *reason, notes=[(parameter.span, "the kernel's parameter is here")]))
                fits = False
        return binding if fits else None

    def _read(self) -> set[str]:
        """The parameters that some match binds."""
        return {e.name for e in expressions(self.pattern) if isinstance(e, tree.Name)}

    def _launched(self, rule: tree.Rule, arg: tree.Launch) -> Type | None:
        """The type of what a kernel makes for another one; None where it cannot, which is reported."""
        kernel, inner = self.kernels[arg.kernel], computed_arguments.launched(rule, arg)
        if kernel.is_scalar or len(kernel.made) != 1:
            self.report(error(arg.span, "a kernel makes one buffer for another kernel", f"{arg.kernel} makes others"))
            return None
        binding = self.bound(inner, kernel)
        if binding is None:
            return None
        _check_numbers(inner, kernel.parameters, binding, "kernel", self.report)
        (result,) = kernel.made
        written = result.type or next(p.type for p in kernel.parameters if p.name == result.alias)
        if written.lies:
            self.report(error(arg.span, "what another kernel is given has its dims in their order", "leave out `as`"))
            return None
        open_ = [dim for dim in written.dims if dim.symbol is not None and dim.symbol not in binding.dims]
        if open_:
            self.report(error(open_[0].span, f"no argument of {kernel.name} says how large {open_[0]} is"))
            return None
        if not binding.elements_of(written.element.name):
            self.report(error(arg.span, f"no argument of {kernel.name} says what {written.element} is"))
            return None
        return binding.apply(written)

    def _computed(self, rule: tree.Rule, arg: tree.Computed) -> Type | None:
        """The type of an argument that is computed; None where that is not known, which is reported."""
        made, found = computed_arguments.pattern_of(self.pattern, arg), list[Diagnostic]()
        for part in tree.parts(made.results):
            is_open = isinstance(part, tree.Call) and (part.optional or part.rest or part.regions)
            if is_open or isinstance(part, _SEVERAL):
                advice = "what a program may have or lack is for patterns to say"
                found.append(error(part.span, "an argument is computed in one way", advice))
        check_constants(made, {d.name: d for p in made.parameters for d in p.type.dims if d.name}, found.append)
        _, (kind,) = infer(made, self.signatures, found.append)
        read = self._read()
        if missing := [p.name for p in made.parameters if p.name not in read]:
            found.append(error(arg.span, f"not every match says what {missing[0]} is"))
        if rule.phase in scalar_kernels.FORMED_PHASES:
            advice = f"{rule.phase} is too late: dispatches are formed"
            found.append(error(arg.span, "arguments are computed at global-optimization or before", advice))
        if not found and kind is None:
            found.append(error(arg.span, "nothing says which type this has"))
        for diagnostic in found:
            self.report(diagnostic)
        return None if found else kind


def _options(arg: tree.Argument) -> list[tree.Argument]:
    """What an argument may come to."""
    options = arg.expr.options if isinstance(arg, tree.Computed) and isinstance(arg.expr, tree.Alternatives) else None
    return [arg] if options is None else [each for option in options for each in _options(tree.argument(option))]


def check_phase(phase: str | None, span: Span | None, report: Report) -> None:
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
    used: Mapping[str, set[str]],
    report: Report,
) -> None:
    """A pattern in the place of another: arguments fit its parameters, and its results those that it replaces."""
    if not _has_all_arguments(rule, made, report):
        return
    parameters = {p.name: p for p in pattern.parameters}
    binding = Binding(made.type_variables, pattern.type_variables)
    for arg, wanted in zip(rule.args, made.parameters, strict=True):
        notes = [(wanted.span, "the pattern's parameter is here")]
        if isinstance(arg, (tree.Computed, tree.Launch)):
            report(error(arg.span, "a pattern is given inputs and numbers", f"compute this inside of {made.name}"))
            return
        if isinstance(arg, tree.Literal):
            if isinstance(wanted.type, TensorType):
                report(error(arg.span, f"{arg.value} is a number, and {wanted.name} is a tensor", notes=notes))
            continue
        given = parameters.get(arg.name)
        if given is None:
            report(error(arg.span, f"the pattern has no {arg.name}", one_of(arg.name, parameters)))
        elif arg.name not in used.get(rule.pattern, ()) and wanted.name in used.get(made.name, ()):
            advice = f"{made.name} has no alternative without {wanted.name}"
            report(error(arg.span, f"not every match says what {arg.name} is", advice))
        else:
            reason = binding.match(wanted.type, given.type)
            if reason is not None:
                message = f"{arg.name}: {given.type} does not fit {wanted.name}: {wanted.type}: {reason}"
                report(error(arg.span, message, notes=notes))
                return
    _check_numbers(rule, made.parameters, binding, "pattern", report)
    results = [None if result is None else binding.apply(result) for result in signatures[made.name].results]
    _check_results(rule, results, signatures[pattern.name], report)


def _misfit_computed(
    made: Type, wanted: tree.Parameter, binding: Binding, elementwise: bool
) -> tuple[str, str | None] | None:
    """Why a value that is computed does not fit a kernel's parameter."""
    wanted_text = f"{wanted.name}: {wanted.type.buffer}"
    if elementwise:
        return "a function on elements takes inputs of the pattern as they are", None
    if not isinstance(made, TensorType) or not isinstance(wanted.type, TensorType):
        return f"this is {made}, and {wanted_text}: only tensors are computed for a kernel, into buffers", None
    reason = binding.match(wanted.type, made)
    return None if reason is None else (f"this is {made}, which does not fit {wanted_text}: {reason}", None)


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
    wanted_text = f"{wanted.name}: {wanted.type.buffer}"
    scalar = isinstance(wanted.type, ScalarType)
    single = scalar or not wanted.type.dims
    if isinstance(arg, tree.Literal):
        return None if scalar else (f"{arg.value} is a number, and {wanted_text} is a buffer", None)
    parameter = parameters.get(arg.name)
    if parameter is None:
        if arg.name not in dims:
            return f"the pattern has no {arg.name}", one_of(arg.name, [*parameters, *sorted(dims)])
        if not scalar:
            return f"{arg.name} is a dim, and {wanted_text} is a buffer", None
        if not vocabulary.is_integer(wanted.type.element.name):
            return f"{arg.name} is a dim, and {wanted_text} is not an integer", None
        return None
    if arg.name not in used and not (single and parameter.default is not None):
        number = 0 if vocabulary.is_integer(parameter.type.element.name) else 1.0
        advice = f"; give it a default, {arg.name}: {parameter.type} = {number}" if scalar else ""
        return f"not every match says what {arg.name} is", f"no result, or not every alternative, needs it{advice}"
    if scalar and isinstance(parameter.type, TensorType) and not elementwise:
        return f"{arg.name} is a tensor, and {wanted_text} is a scalar", None
    if not single and isinstance(parameter.type, ScalarType):
        return f"{arg.name} is a scalar, and {wanted_text} is a buffer with dims", None
    is_put = not scalar and isinstance(parameter.type, ScalarType)  # into a buffer without dims
    found = parameter.type.element if elementwise else parameter.type
    reason = binding.match(wanted.type.element if is_put else wanted.type, found)
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
    elements = binding.elements_of(wanted.type.element.name)
    if elements is None:
        return None
    name = f"{wanted.name}: {' or '.join(sorted(elements)) or wanted.type.element}"
    if not elements:
        return f"nothing says which type {name} is"
    if isinstance(value, float) and all(map(vocabulary.is_integer, elements)):
        return f"{value} is not an integer, and {name} is"
    return None if any(vocabulary.holds(element, value) for element in elements) else f"{name} cannot hold {value}"


def _check_results(
    rule: tree.Rule, made: Sequence[Type | None], wanted: Signature, report: Report, kernel: tree.Kernel | None = None
) -> None:
    """made: what takes the place of the pattern's results. kernel: what makes it, for some of the pattern's types."""
    results = [] if kernel is None else [[(each.span, "the kernel's result is here")] for each in kernel.made]
    if len(wanted.results) != len(made):
        notes = [] if kernel is None else [(kernel.results[0].span, "the kernel's results are here")]
        count = counted(len(made), "result")
        message = f"{rule.kernel} makes {count}, and {rule.pattern} has {len(wanted.results)}"
        own = kernel is not None and len(made) > len(wanted.results)
        advice = "a result that is memory for the kernel alone is `scratch`" if own else None
        report(error(rule.kernel_span, message, advice, notes))
        return
    for number, (kind, wanted_type) in enumerate(zip(made, wanted.results, strict=True)):
        if kind is None or wanted_type is None:
            continue
        element, possible = wanted_type.element.name, possible_elements(wanted_type.element.name, wanted.variables)
        fits = kind.element.name == element
        fits = fits or (kernel is not None and (possible is None or kind.element.name in possible))
        is_scalar = kernel is not None and kernel.is_scalar
        if not fits or not (is_scalar or merge_dims(kind.dims, wanted_type.dims) is not None):
            message = f"{rule.kernel} makes {kind} here, and {rule.pattern} is {wanted_type}"
            report(error(rule.kernel_span, message, notes=results[number] if results else ()))


def _has_all_arguments(rule: tree.Rule, made: tree.Kernel | tree.Pattern, report: Report) -> bool:
    if len(rule.args) == len(made.parameters):
        return True
    kinds = (p.type.buffer if isinstance(made, tree.Kernel) else str(p.type) for p in made.parameters)
    wanted = ", ".join(f"{p.name}: {kind}" for p, kind in zip(made.parameters, kinds, strict=True))
    span = rule.kernel_span
    if rule.args:
        span = Span(span.source, rule.args[0].span.start, rule.args[-1].span.end)
    message = f"{rule.kernel} takes {counted(len(made.parameters), 'argument')}, found {len(rule.args)}"
    report(error(span, message, notes=[(made.name_span, f"it takes ({wanted})")]))
    return False
