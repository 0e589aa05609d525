"""The text of a transform spec: matchers, actions and the entry, around templates and what is put in their places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opsplice.rewrites.spelling.dim_bounds import Alternative, Axis, Contracts, Untuned
from opsplice.rewrites.spelling.spelled_template import Template
from opsplice.rewrites.transform_dialect.export.op_matchers import Direct
from opsplice.spec_lang.checking.contraction_query import KINDS
from opsplice.spec_lang.formatting.one_line import quote

_OP, _VALUE, _PARAM = "!transform.any_op", "!transform.any_value", "!transform.any_param"
_SIZES = "!transform.param<i64>"
# On a matcher: the rule that it is one of the matchers of.
RULE = "opsplice.rule"


@dataclass(frozen=True)
class Case:
    """A matcher and its action.

    name:     the matcher's. covers: what it holds at. call: the function that its action puts in, "" for none.
    template: what is looked for, as ops or as questions. checks: what must hold of dims.
    paths:    for each axis of a check, the operand positions that lead from the root to the argument.
    """

    name: str
    covers: str
    template: Template | Direct
    checks: Alternative
    paths: dict[Axis, tuple[int, ...]]
    call: str = ""


@dataclass(frozen=True)
class Group:
    """The cases of one rule, in the order in which they are tried.

    sets: for a rule that puts nothing in, the attributes that it sets: a name, and the value as MLIR writes it, "" for
    a name alone.
    """

    comment: str
    cases: tuple[Case, ...]
    sets: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Pass:
    """A pass that runs before matching or after it: on the module, or on each function."""

    name: str
    on_functions: bool
    is_after: bool


def spec_text(
    groups: Sequence[Group],
    symbols: Sequence[str],
    imports: Mapping[str, Sequence[str]],
    note: str,
    passes: Sequence[Pass] = (),
) -> str:
    """The whole spec.

    symbols: the text of the executables and functions that actions put in. imports: what each function needs of these.
    """
    parts = [f"// {line}".rstrip() for line in note.splitlines()]
    parts.append("module attributes {transform.with_named_sequence} {")
    for text in symbols:
        parts += ["", *_indented(text.splitlines())]
    actions: set[str] = set()
    for group in groups:
        parts += ["", f"  // {group.comment}"]
        for case in group.cases:
            parts += ["", *_indented(_matcher(case, group.comment))]
            if case.call and case.call not in actions:
                actions.add(case.call)
                parts += ["", *_indented(_action(case, imports[case.call]))]
    parts += ["", *_indented(_entry(groups, passes)), "}", ""]
    return "\n".join(parts)


def _indented(lines: Sequence[str], by: int = 2) -> list[str]:
    return [(" " * by + line).rstrip() for line in lines]


def _matcher(case: Case, rule: str) -> list[str]:
    kinds, yielded = _OP, f"%root : {_OP}"
    if isinstance(case.template, Direct):
        asked: Sequence[str] = case.template.lines
    else:
        if case.call:
            kinds, yielded = f"({_VALUE}, {_VALUE})", f"%ins, %out : {_VALUE}, {_VALUE}"
        asked = [
            "%ins, %out = transform.iree.match.cast_compatible_dag_from_root %root {",
            f"^bb0({', '.join(f'{name}: {kind}' for name, kind in case.template.arguments)}):",
            *_indented(case.template.all_lines('{"match.operation_name_only"}')),
            f"}} : ({_OP}) -> ({_VALUE}, {_VALUE})",
        ]
    return [
        f"// {case.covers}",
        f"transform.named_sequence @{case.name}(%root: {_OP} {{transform.readonly}}) -> {kinds}",
        f"    attributes {{{RULE} = {quote(rule)}}} {{",
        *_indented([*asked, *_checks(case), f"transform.yield {yielded}"]),
        "}",
    ]


def _checks(case: Case) -> list[str]:
    lines: list[str] = []
    values: dict[tuple[int, ...], str] = {}
    for check in dict.fromkeys(case.checks):
        if isinstance(check, Untuned):
            lines.append(f"transform.iree.match.has_no_lowering_config %root : {_OP}")
            continue
        if isinstance(check, Contracts):
            for kind, sizes in check.sizes:
                wanted = ", ".join(str(-1 if size is None else size) for size in sizes)
                lines.append(f"transform.iree.match.dims_equal %size{KINDS.index(kind)}, [{wanted}] : {_SIZES}")
            continue
        path = case.paths[check.axis]
        if path not in values:
            values[path] = f"%arg{len(values)}"
            lines += _walk(path, values[path])
        dim = f"{values[path]}[{check.axis.axis}]"
        if check.factor != 1:
            lines.append(f"transform.iree.match.dim_is_multiple_of {dim}, {check.factor} : {_VALUE}")
        if check.low is not None or check.high is not None:
            low = "none" if check.low is None else f"umin = {check.low}"
            high = "none" if check.high is None else f"umax = {check.high}"
            lines.append(f"transform.iree.match.dim_bounds {dim}, {low}, {high} : {_VALUE}")
    return lines


def _walk(path: tuple[int, ...], name: str) -> list[str]:
    """From the root to an argument, operand by operand."""
    at, lines = "%root", []
    for step, position in enumerate(path[:-1]):
        producer = f"{name}_op{step}"
        lines.append(f"{producer} = transform.get_producer_of_operand {at}[{position}] : ({_OP}) -> {_OP}")
        at = producer
    lines.append(f"{name} = transform.get_operand {at}[{path[-1]}] : ({_OP}) -> {_VALUE}")
    return lines


def _action(case: Case, needed: Sequence[str]) -> list[str]:
    imports = [
        f"%symbol{i} = transform.util.import_symbol @{name} into %module if undefined : ({_OP}) -> {_OP}"
        for i, name in enumerate(needed)
    ]
    readonly = "{transform.readonly}"
    return [
        f"transform.named_sequence @{rewriter(case)}(%ins: {_VALUE} {readonly}, %out: {_VALUE} {readonly}) {{",
        f"  %root = transform.get_defining_op %out : ({_VALUE}) -> {_OP}",
        f"  %module = transform.util.get_nearest_symbol_table %root : ({_OP}) -> {_OP}",
        *_indented(imports),
        f"  %function = transform.util.import_symbol @{case.call} into %module if undefined : ({_OP}) -> {_OP}",
        "  transform.util.cast_and_call inline_call %function(%ins) -> %out after %root {",
        "    transform.type_conversion.tensor.cast_shape_dynamic_dims",
        f"  }} : ({_OP}, {_VALUE}, {_VALUE}, {_OP}) -> ()",
        "  transform.yield",
        "}",
    ]


def rewriter(case: Case) -> str:
    """The name of a case's action; cases that put in the same function share it."""
    return f"rewrite_{case.call.removeprefix('opsplice_call_')}"


def _entry(groups: Sequence[Group], passes: Sequence[Pass]) -> list[str]:
    """Passes, then one pass over each function for each rule, so that an earlier rule has its matches before a later
    one looks. Attributes come last, because templates compare them: all places are found before any is set.
    """
    lines = [f"transform.named_sequence @__transform_main(%module: {_OP}) {{"]
    before, module = _passes([each for each in passes if not each.is_after], "%module", "before")
    lines += before
    lines += [
        f'  %functions = transform.structured.match ops{{["util.func", "util.initializer", "func.func"]}} in {module} '
        f": ({_OP}) -> {_OP}",
        f"  transform.foreach %functions : {_OP} {{",
        f"  ^bb0(%function0: {_OP}):",
    ]
    replacing = [group for group in groups if not group.sets]
    for number, group in enumerate(replacing):
        pairs = ",\n".join(f"          @{case.name} -> @{rewriter(case)}" for case in group.cases)
        lines += [
            f"    %function{number + 1} = transform.foreach_match in %function{number}",
            *pairs.splitlines(),
            f"          : ({_OP}) -> {_OP}",
            f"    transform.apply_dce to %function{number + 1} : {_OP}",
        ]
    lines += _indented(_annotations([group for group in groups if group.sets], f"%function{len(replacing)}"), 4)
    after, _ = _passes([each for each in passes if each.is_after], module, "after")
    return [*lines, "  }", *after, "  transform.yield", "}"]


def _passes(passes: Sequence[Pass], module: str, when: str) -> tuple[list[str], str]:
    """The lines that run passes, and the module's name after them."""
    lines = []
    for number, each in enumerate(passes):
        target = module
        if each.on_functions:
            target = f"%functions_{when}{number}"
            lines.append(f'  {target} = transform.structured.match ops{{["util.func"]}} in {module} : ({_OP}) -> {_OP}')
        result = f"%{when}{number}"
        lines.append(f'  {result} = transform.apply_registered_pass "{each.name}" to {target} : ({_OP}) -> {_OP}')
        module = module if each.on_functions else result
    return lines, module


def _annotations(groups: Sequence[Group], function: str) -> list[str]:
    """The attributes that rules set in a function: those of the first rule last, so that they stay."""
    finding, setting = [], []
    for number, group in reversed(list(enumerate(groups))):
        places = [f"%place{number}_{i}" for i in range(len(group.cases))]
        finding += [
            f"{place} = transform.collect_matching @{case.name} in {function} : ({_OP}) -> {_OP}"
            for place, case in zip(places, group.cases, strict=True)
        ]
        found = places[0]
        if len(places) > 1:
            found = f"%places{number}"
            finding.append(f"{found} = transform.merge_handles {', '.join(places)} : {_OP}")
        for i, (name, value) in enumerate(group.sets):
            if not value:
                setting.append(f'transform.annotate {found} "{name}" : {_OP}')
                continue
            given = f"%value{number}_{i}"
            setting.append(f"{given} = transform.param.constant {value} -> {_PARAM}")
            setting.append(f'transform.annotate {found} "{name}" = {given} : {_OP}, {_PARAM}')
    return finding + setting
