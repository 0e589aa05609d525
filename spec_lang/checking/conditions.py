"""Variables, parameters, dims and conditions, which kernels and patterns share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.checking.contraction_query import asked_sizes
from opsplice.spec_lang.checking.types.element_types import Report, check_element
from opsplice.spec_lang.checking.walks import reached
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import error
from opsplice.spec_lang.syntax.tree import Dim, Expr, Span, TensorType

# What is a number of a GPU, for `when`: threads of a subgroup, threads of a workgroup, bytes that a workgroup shares.
LIMITS = ("subgroup", "threads", "memory")


PAST_I64 = 1 << 63


def _check_variables(variables: tuple[tree.TypeVariable, ...], report: Report) -> None:
    for variable in variables:
        if vocabulary.is_element(variable.name):
            report(error(variable.span, f"{variable.name} is an element type and cannot name a variable", "such as T"))
        for choice in variable.choices:
            check_element(choice, (), report)
        names = [choice.name for choice in variable.choices]
        twice = next((c for i, c in enumerate(variable.choices) if c.name in names[:i]), None)
        if twice is not None:
            report(error(twice.span, f"{twice} appears twice among the choices of {variable.name}"))


def check_parameters(declared: tree.Kernel | tree.Pattern, report: Report) -> dict[str, Dim]:
    """Judge names and types of a signature; return its dims by name."""
    _check_variables(declared.type_variables, report)
    names: dict[str, Span] = {}
    items: list[tree.TypeVariable | tree.Parameter] = [*declared.type_variables, *declared.parameters]
    for item in items:
        word = item.span.first(item.name)
        if item.name in names:
            first = [(names[item.name], "the first one is here")]
            report(error(word, f"{item.name} is declared twice", "rename one", first))
        names.setdefault(item.name, word)
    dims: dict[str, Dim] = {}
    for parameter in declared.parameters:
        if parameter.default is not None and (
            isinstance(declared, tree.Kernel) or isinstance(parameter.type, tree.TensorType)
        ):
            report(error(parameter.default.span, "only scalars of patterns have defaults"))
        if check_element(parameter.type.element, declared.type_variables, report):
            _check_dims(parameter.type.dims, names, dims, report)
    return dims


def _check_dims(used: tuple[Dim, ...], names: dict[str, Span], dims: dict[str, Dim], report: Report) -> None:
    packs = [d for d in used if d.pack is not None]
    if len(packs) > 1:
        report(error(packs[1].span, "a type has one pack at most", "two could not be told apart"))
    for dim in used:
        if dim.name is None:
            if dim.size is not None and not 0 < dim.size < PAST_I64:
                report(error(dim.span, "a size is at least 1, and less than 2 to the power of 63"))
            continue
        if dim.name in names:
            notes = [(names[dim.name], "which is declared here")]
            report(error(dim.span, f"dim {dim.name} has the name of something else", "rename one", notes))
        first = dims.setdefault(dim.name, dim)
        if (first.pack is None) != (dim.pack is None):
            notes = [(first.span, "the other is here")]
            report(error(dim.span, f"{dim.name} is both one dim and a pack of dims", "rename one", notes))


@dataclass(frozen=True)
class Names:
    """What a condition may speak of: dims (None for integers bound to attributes), type variables, values, and the
    strided buffers of a kernel. always: of a rule, the values that each match of its pattern has; None elsewhere."""

    dims: Mapping[str, Dim | None]
    variables: Iterable[str] = ()
    values: Iterable[str] = ()
    forms: bool = False
    strided: Mapping[str, TensorType] = field(default_factory=dict)
    always: Collection[str] | None = None


def check_condition(condition: tree.Condition | None, names: Names, report: Report) -> None:
    match condition:
        case tree.Logical() if (numbers := dim_conditions.listed(condition)) is not None:
            check_condition(condition.operands[0], names, report)
            for number in numbers[1][1:]:
                check_arithmetic(number, names, report)
        case tree.Logical():
            if condition.op == "may":
                _check_may(condition, report)
            if condition.op != "and":
                _check_one_buffer(condition, report)
            for operand in condition.operands:
                check_condition(operand, names, report)
        case tree.Comparison():
            if not dim_conditions.numbers_in(condition):
                report(error(condition.span, "this condition names no dim, so it is always the same"))
            _check_one_buffer(condition, report)
            check_arithmetic(condition.left, names, report)
            check_arithmetic(condition.right, names, report)
        case tree.Dynamic():
            if not dim_conditions.names_in(condition):
                report(error(condition.span, "this condition names no dim, so it is always the same"))
            check_arithmetic(condition.size, names, report)
        case tree.Membership():
            _check_known("type variable", condition.variable, condition.span, names.variables, report)
            for choice in condition.choices:
                check_element(choice, (), report)
        case tree.Predicate():
            if condition.name == "inside" and "." not in condition.value:
                report(error(condition.span, "an op needs its full name", f'such as "scf.{condition.value or "for"}"'))
            elif condition.name == "lacks" and not condition.value:
                report(error(condition.span, "lacks takes an attribute's name", 'such as lacks("lowering_config")'))
            elif condition.name == "contracts":
                _check_contracts(condition, report)
            elif condition.name not in tree.OF_THE_ROOT:
                _check_known("value", condition.value, condition.span, names.values, report)
                if condition.name == "has":
                    _check_has(condition, names, report)
        case tree.Is():
            _check_known("value", condition.value, condition.span, names.values, report)
            if not names.forms:
                report(error(condition.span, "only the condition of a pattern can ask what makes a value"))
            _check_form(condition.form, report)


def _check_one_buffer(condition: tree.Condition, report: Report) -> None:
    """Each buffer is chosen by itself, so what is asked of its strides can be decided from these alone."""
    if len({each.name for each in dim_conditions.strides_in(condition)}) > 1:
        report(error(condition.span, "a condition is on the strides of one buffer", "write one for each, with `and`"))


def _check_may(condition: tree.Logical, report: Report) -> None:
    """Only of sizes may something be unknown."""
    plain = (tree.Logical, tree.Comparison, tree.DimExpr)
    other = next((part for part in tree.parts(condition) if not isinstance(part, plain)), None)
    if other is not None:
        report(error(other.span, "may asks about sizes, and this is no question of sizes", "ask it outside of `may`"))


def _check_has(condition: tree.Predicate, names: Names, report: Report) -> None:
    if names.always is None:
        advice = f"write it in a rule: replace ... where has({condition.value}) with ..."
        report(error(condition.span, "only the condition of a rule can ask what a match has", advice))
    elif condition.value in names.always:
        advice = "has asks for what only some alternatives of the pattern have"
        report(error(condition.span, f"each match has {condition.value}, so this always holds", advice))


def _check_contracts(condition: tree.Predicate, report: Report) -> None:
    try:
        asked_sizes(condition.value)
    except ValueError as failure:
        report(error(condition.span, f"contracts: {failure}", 'such as contracts("b ?, m 32, n ?, k 64")'))


def _check_form(form: Expr, report: Report) -> None:
    for expr in reached([form], into=lambda each: each.options if isinstance(each, tree.Alternatives) else ()):
        if not isinstance(expr, tree.Alternatives) and (not isinstance(expr, tree.Call) or expr.optional):
            report(error(expr.span, "write an op or a pattern that makes the value, or alternatives of these"))
    for expr in reached([form]):
        if isinstance(expr, tree.Uses) and expr.kind != "accumulated":
            message = f"{expr.kind} asks about parts of a match, and what makes a value is not part"
            report(error(expr.span, message, f"give it a name in the pattern and write `where {expr.kind}(name)`"))


def _check_known(kind: str, name: str, span: Span, known: Iterable[str], report: Report) -> None:
    names = list(known)
    if name not in names:
        advice = did_you_mean(name, names) or (f"there are {' '.join(names)}" if names else None)
        report(error(span, f"unknown {kind} {name}", advice))


def check_arithmetic(value: tree.DimExpr, names: Names, report: Report, *, exact: bool = False) -> None:
    """exact: in const(...), where values need not be whole."""
    if isinstance(value, tree.Literal):
        if isinstance(value.value, float) and not exact:
            report(error(value.span, "dims are whole numbers"))
        elif not exact and abs(value.value) >= PAST_I64:
            report(error(value.span, "no dim is this large"))
    elif isinstance(value, tree.DimRef):
        if value.name not in names.dims:
            known = list(names.dims)
            advice = did_you_mean(value.name, known) or (f"the dims here are {' '.join(known)}" if known else None)
            report(error(value.span, f"unknown dim {value.name}", advice))
    elif isinstance(value, tree.Property) and value.kind == "stride":
        _check_known("strided buffer", value.name, value.span, names.strided, report)
        if value.name in names.strided:
            dims = [dim.symbol for dim in names.strided[value.name].dims if dim.symbol is not None]
            _check_known(f"dim of {value.name}", value.along, value.span, dims, report)
    elif isinstance(value, tree.Property):
        kind, known_names = ("dim", names.dims) if value.kind == "rank" else ("type variable", names.variables)
        _check_known(kind, value.name, value.span, known_names, report)
        if value.kind == "rank" and value.name in names.dims:
            dim = names.dims[value.name]
            if dim is None or dim.pack is None:
                advice = f"write ...{value.name} in a type for any number of dims" if dim is not None else None
                report(error(value.span, f"rank counts the dims of a pack, but {value.name} is not a pack", advice))
    else:
        if value.op == "/" and not exact:
            report(error(value.span, "dims are whole numbers, and / may give a fraction", "write ceildiv or floordiv"))
        if value.op in dim_conditions.DIVISIONS and value.right == tree.Literal(value.right.span, 0):
            report(error(value.right.span, "this divides by zero"))
        check_arithmetic(value.left, names, report, exact=exact)
        check_arithmetic(value.right, names, report, exact=exact)
