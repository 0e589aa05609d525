"""A pattern in the place of another: `replace gelu with gelu_tanh(x)`, the second one written out as ops."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.search.matches import Binding, Match, Size, flat
from opsplice.rewrites.plan.actions import Argument, Written
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import Instance, Template
from opsplice.rewrites.spelling.spellings import Spelling
from opsplice.rewrites.spelling.templates import spell_each
from opsplice.spec_lang.checking.computed_arguments import pattern_of
from opsplice.spec_lang.dims.pack_places import places
from opsplice.spec_lang.syntax import tree, vocabulary

# As input conversion writes programs: one generic for each op, views in its maps. IREE fuses them.
_SPELLING = Spelling("generics", "generic", "maps", accumulator=True)


def write(
    match: Match, rule: tree.Rule, computed: tree.Computed | None = None, *, patterns: Mapping[str, tree.Pattern]
) -> Written:
    """The ops of the pattern that a rule puts in the place of a match, or of what it computes for a kernel.

    Raises OpspliceError for a pattern that has none.
    """
    if computed is None:
        return _write(match, patterns[rule.kernel], rule.args, patterns, rule.kernel_span)
    wide = _four_bits_of(computed.expr)
    pattern = pattern_of(match.pattern, computed if wide is None else dataclasses.replace(computed, expr=wide))
    args = [tree.Name(computed.span, parameter.name) for parameter in pattern.parameters]
    code = _write(match, pattern, args, patterns, computed.span)
    return code if wide is None else _paired(code)


def _four_bits_of(expr: tree.Expr) -> tree.Expr | None:
    """The low bits of what is cut to numbers of four bits, in its own type."""
    if not isinstance(expr, tree.Call) or not isinstance(expr.type, tree.ScalarType) or expr.type.name != "i4":
        return None
    op = vocabulary.find(expr.callee)
    if op is None or op.name != "trunci":
        return None
    mask = tree.Constant(expr.span, tree.Literal(expr.span, 15))
    return dataclasses.replace(expr, callee="andi", args=(*expr.args, mask), type=None)


def _paired(code: Written) -> Written:
    """Numbers of four bits, two in a byte. IREE 3.13 would fail to store vectors of i4 under a mask."""
    sizes = [size for size in code.sizes if isinstance(size, int)]
    count, element = math.prod(sizes), code.element
    if len(sizes) < len(code.sizes) or count % 2:
        raise OpspliceError("the size of a buffer of i4 is even and known when compiling")
    flat, pairs, half = (f"tensor<{size}x{element}>" for size in (count, f"{count // 2}x2", count // 2))
    kind, root = f"tensor<{count // 2}xi8>", "%bytes4" if element == "i8" else "%short4"
    lines = (
        f"%flat4 = tensor.collapse_shape {code.root} [{list(range(len(sizes)))}] : {code.kind} into {flat}",
        f"%pairs4 = tensor.expand_shape %flat4 [[0, 1]] output_shape [{count // 2}, 2] : {flat} into {pairs}",
        f"%even4 = tensor.extract_slice %pairs4[0, 0] [{count // 2}, 1] [1, 1] : {pairs} to {half}",
        f"%odd4 = tensor.extract_slice %pairs4[0, 1] [{count // 2}, 1] [1, 1] : {pairs} to {half}",
        f"%four4 = arith.constant dense<4> : {half}",
        f"%up4 = arith.shli %odd4, %four4 : {half}",
        f"%bytes4 = arith.ori %even4, %up4 : {half}",
        *([] if element == "i8" else [f"%short4 = arith.trunci %bytes4 : {half} to {kind}"]),
    )
    return dataclasses.replace(code, lines=(*code.lines, *lines), root=root, kind=kind, is_paired=True)


def _write(
    match: Match,
    pattern: tree.Pattern,
    args: Sequence[tree.Argument],
    patterns: Mapping[str, tree.Pattern],
    span: tree.Span,
) -> Written:
    present = [_present(match, arg) for arg in args]
    pairs = [(a, p) for a, p in zip(present, pattern.parameters, strict=True) if a is not None]
    parameters = [parameter for _, parameter in pairs]
    types = {_element(p): match.inputs[arg.name].element for arg, p in pairs if isinstance(arg, tree.Name)}
    given = _alike(parameters, [_given(match, arg, types.get(_element(p), _element(p))) for arg, p in pairs])
    numbers = {p.name: binding.constant for p, (binding, _) in zip(parameters, given, strict=True)}
    try:
        with match.roots[0].context, ir.Location.unknown():
            template = _template(pattern, patterns, _instance(pattern, parameters, given), numbers)
    except GapError as error:
        details = "\n".join(map(str, error.gaps))
        raise OpspliceError(f"pattern '{pattern.name}' cannot be written as ops", details=details) from None
    named = {f"%{p.name}": each for p, each in zip(parameters, given, strict=True)}
    if any(name not in named for name, _ in template.arguments):
        why = "nothing says what a reduction starts from, or how large a dim is"
        raise OpspliceError(f"pattern '{pattern.name}' cannot be written as ops: {why}")
    arguments = tuple(Argument(name.removeprefix("%"), kind, *named[name]) for name, kind in template.arguments)
    lines = tuple(template.all_lines())
    sizes = tuple(
        s if isinstance(s, int) else named[template.arguments[s.argument][0]][1][s.axis] for s in template.sizes
    )
    return Written(span, arguments, lines, template.root, template.kind, sizes)


def _present(match: Match, arg: tree.Argument) -> tree.Argument | None:
    """An argument, None for one that a match lacks; an integer has its default then."""
    if not isinstance(arg, tree.Name) or arg.name in match.inputs:
        return arg
    usual = (p.default for p in match.pattern.parameters if p.name == arg.name)
    return next((each for each in usual if each is not None and isinstance(each.value, int)), None)


def _template(
    pattern: tree.Pattern, patterns: Mapping[str, tree.Pattern], instance: Instance, numbers: Mapping[str, float | None]
) -> Template:
    """The first of a pattern's alternatives that reads all that is given; if there is none, the first that can be.

    numbers: what is given, None for what is not a constant. Raises GapError if no alternative can be written.
    """
    names = {p.name for p in pattern.parameters}
    failure, some = None, None
    for template in spell_each(pattern, patterns, instance, _SPELLING):
        if isinstance(template, GapError):
            failure = failure or template
            continue
        read = {name.removeprefix("%") for name, _ in template.arguments} & names
        if read <= numbers.keys() and all(numbers.get(n, v) == v for n, v in _said(pattern, template).items()):
            if numbers.keys() <= {*read, *_said(pattern, template)}:
                return template
            some = some or template
    if some is None:
        why = "no alternative has just what the rule passes"
        raise failure or GapError.at(pattern.span, f"pattern '{pattern.name}'", why)
    return some


def _said(pattern: tree.Pattern, template: Template) -> dict[str, float]:
    """The numbers that scalars of a pattern have in what is written, since no op reads them."""
    usual = {p.name: p.default.value for p in pattern.parameters if p.default is not None}
    read = {name.removeprefix("%") for name, _ in template.arguments}
    return {name: value for name, value in (usual | {**template.settings}).items() if name not in read}


def _element(parameter: tree.Parameter) -> str:
    return parameter.type.element.name


def _given(match: Match, arg: tree.Argument, element: str) -> tuple[Binding, tuple[Size, ...]]:
    """What a parameter is at a match, and its sizes axis by axis. element: the type of a number."""
    if isinstance(arg, tree.Literal):
        if not vocabulary.holds(element, arg.value):
            raise OpspliceError(f"{element} cannot hold {arg.value} ({arg.span})")
        return Binding(constant=arg.value, element=element), ()
    assert isinstance(arg, tree.Name), "the checker lets only inputs and numbers pass"
    return match.inputs[arg.name], flat(match.shapes.get(arg.name, ()))


def _alike(
    parameters: Sequence[tree.Parameter], given: list[tuple[Binding, tuple[Size, ...]]]
) -> list[tuple[Binding, tuple[Size, ...]]]:
    """With each pack as the same dims everywhere: several are one, flattened, in some tensors of a program.

    They are the most that they are anywhere, so that all sizes are known.
    """
    most: dict[str, tuple[Size, ...]] = {}
    places = [_pack_of(p.type, sizes) for p, (_, sizes) in zip(parameters, given, strict=True)]
    for place, (_, sizes) in zip(places, given, strict=True):
        if place is not None:
            name, at = place
            most[name] = max(most.get(name, ()), sizes[at], key=len)
    return [
        (binding, sizes if place is None else (*sizes[: place[1].start], *most[place[0]], *sizes[place[1].stop :]))
        for place, (binding, sizes) in zip(places, given, strict=True)
    ]


def _pack_of(kind: tree.Type, sizes: tuple[Size, ...]) -> tuple[str, slice] | None:
    """The pack in a type, and which of the sizes are its own."""
    at = places((dim.pack is not None for dim in kind.dims), len(sizes))
    return next(((dim.pack, place) for dim, place in zip(kind.dims, at, strict=True) if dim.pack is not None), None)


def _instance(
    pattern: tree.Pattern, parameters: Sequence[tree.Parameter], given: list[tuple[Binding, tuple[Size, ...]]]
) -> Instance:
    """The ranks, types and known sizes that the arguments give a pattern."""
    packs: dict[str, int] = {}
    types: dict[str, str] = {}
    known: dict[str, int] = {}
    own = {v.name for v in pattern.type_variables}
    for parameter, (binding, sizes) in zip(parameters, given, strict=True):
        kind = parameter.type
        if _element(parameter) in own:
            types.setdefault(_element(parameter), binding.element)
        at = places((dim.pack is not None for dim in kind.dims), len(sizes))
        for dim, place in zip(kind.dims, at, strict=True):
            if dim.pack is not None:
                packs.setdefault(dim.pack, place.stop - place.start)
            elif dim.symbol is not None and isinstance(size := sizes[place.start], int):
                known.setdefault(dim.symbol, size)
    return Instance(packs, types, known)
