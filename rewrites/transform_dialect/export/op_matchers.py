"""Matchers that ask an op for what it is, without a template: ops by their names, and contractions from any start.

`"linalg.matmul"(x, ...) {...}` asks for the name and the types of operands, `accumulated(contract ...)` for the maps
and element types of `iree.match.contraction`. They hold at more ops than templates, which compare all attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opsplice.rewrites.spelling import dim_bounds
from opsplice.rewrites.spelling.axis_labels import Label, expanded
from opsplice.rewrites.spelling.dim_bounds import Axis, Extent
from opsplice.rewrites.spelling.not_exportable import GapError
from opsplice.rewrites.spelling.spelled_template import Instance
from opsplice.spec_lang.dims import dim_conditions
from opsplice.spec_lang.syntax import tree, vocabulary

_OP, _VALUE = "!transform.any_op", "!transform.any_value"
_ANY = "*.*"
_UNTUNED, _ITERATORS = "lowering_config", "iterator_types"
_GENERIC, _LINALG = "linalg.generic", "linalg.*"
_ATTENTION, _ONLINE = "iree_linalg_ext.attention", "iree_linalg_ext.online_attention"
# Their operands, by the words for their types. The scale of attention has the type of the query.
_ROLES = ("query_type", "key_type", "value_type")
_ONLINE_ROLES = (*_ROLES, "scale_type")
_PRODUCT_ROLES = ("lhs_type", "rhs_type", "output_type")
_RESULT_ROLES = ("output_type", "max_type", "sum_type")
_CASTS = frozenset({"extsi", "extui"})


@dataclass(frozen=True)
class Direct:
    """What is asked of an op.

    lines: the ops of the matcher, in which `%root` is the op. covers: what it holds at. scopes, dims: as of `Template`.
    paths: for each parameter, by its position, the operand positions that lead to it from the root.
    """

    lines: tuple[str, ...]
    covers: str
    scopes: tuple[tuple[tree.Condition, Mapping[str, Extent]], ...]
    dims: Mapping[str, Extent]
    paths: Mapping[int, tuple[int, ...]]


def direct(pattern: tree.Pattern, instance: Instance) -> Direct | None:
    """The matcher of a pattern for one choice of ranks and types; None for a pattern that needs a template.

    Raises GapError for one that needs neither and still asks for what has no counterpart.
    """
    expr = _only(pattern)
    if expr is None:
        return None
    options = expr.options if isinstance(expr, tree.Alternatives) else (expr,)
    asker = _Asker(pattern, instance)
    calls = [each for each in options if isinstance(each, tree.Call) and _is_open(each)]
    if len(calls) == len(options):
        return asker.named(calls)
    if is_any_contraction(pattern):
        return asker.any_contraction()
    if isinstance(expr, tree.Call) and expr.callee in (_ATTENTION, _ONLINE):
        return asker.attention(expr)
    products = [each.arg for each in options if isinstance(each, tree.Uses) and each.kind == "accumulated"]
    contracts = [each for each in products if isinstance(each, tree.Contract) and each.kind == "contract"]
    return asker.contraction(contracts) if len(contracts) == len(options) else None


def is_any_contraction(pattern: tree.Pattern) -> bool:
    """Whether a pattern is of an op of `linalg` that contracts two parameters into a third, wherever their dims are."""
    call = _only(pattern)
    asked = [each.name for each in dim_conditions.conjuncts(pattern.where) if isinstance(each, tree.Predicate)]
    if "contracts" not in asked or not isinstance(call, tree.Call):
        return False
    names = [arg.name if isinstance(arg, tree.Name) else "" for arg in call.args]
    if len(names) != 3 or names != [each.name for each in pattern.parameters]:
        return False
    is_named = call.quoted and (call.callee == _LINALG or "*" not in call.callee)
    is_plain = is_named and call.regions and not (call.rest or call.attributes or call.type)
    kinds = [each.type for each in pattern.parameters]
    return is_plain and all(_is_any_rank(kind) or not any(dim.pack for dim in kind.dims) for kind in kinds)


def _is_any_rank(kind: tree.Type) -> bool:
    return len(kind.dims) == 1 and kind.dims[0].pack is not None


def _only(pattern: tree.Pattern) -> tree.Expr | None:
    """The one op that a pattern is of, whose results it may name; None where it is of more."""
    if not pattern.body:
        return pattern.results[0] if len(pattern.results) == 1 else None
    (let, *more) = pattern.body
    names = [each.name if isinstance(each, tree.Name) else "" for each in pattern.results]
    return let.expr if not more and names[0] == let.names[0] and set(names) <= {*let.names} else None


def _is_open(call: tree.Call) -> bool:
    """Whether a call is of all ops of one name, or of those that have no lowering config, whatever they hold.

    A body tells how many operands there are, and of generic ops the kinds of loops may be asked for.
    """
    if not call.quoted or call.optional or call.type is not None or "*" in call.callee:
        return False
    if call.body is None:
        return call.rest and call.regions and _asks(call, _UNTUNED)
    return call.callee == _GENERIC and _asks(call, _UNTUNED, _ITERATORS)


def _asks(call: tree.Call, *names: str) -> bool:
    """Whether a call asks for no attributes but those of some names, in the one way that there is a matcher for."""
    return all(
        each.name in names and (each.absent if each.name == _UNTUNED else isinstance(each.value, tree.MlirText))
        for each in call.attributes
    )


def _is_untuned(call: tree.Call) -> bool:
    return any(each.name == _UNTUNED for each in call.attributes)


class _Asker:
    def __init__(self, pattern: tree.Pattern, instance: Instance) -> None:
        self.pattern = pattern
        self.instance = instance
        self.parameters = {p.name: (number, p.type) for number, p in enumerate(pattern.parameters)}
        self.lines: list[str] = []
        self.dims: dict[str, Extent] = {}
        self.paths: dict[int, tuple[int, ...]] = {}

    # ---- ops by their names ---------------------------------------------------------------------------------------

    def named(self, calls: list[tree.Call]) -> Direct | None:
        first = calls[0]
        written = {tuple(_text(arg) for arg in call.args) for call in calls}
        alike = {(call.body and call.body.text, tuple(map(_said, call.attributes))) for call in calls}
        names = tuple(dict.fromkeys(call.callee for call in calls))
        if len(written) != 1 or len(alike) != 1 or not self._call(first, names, "%root", ()):
            return None
        if first.body is not None:
            self.lines += _regions(first.body)
        return self._made(f"every {' and '.join(names)}{' without a lowering config' * _is_untuned(first)}")

    def _call(self, call: tree.Call, names: tuple[str, ...], handle: str, path: tuple[int, ...]) -> bool:
        """Ask an op for its name and its operands. False for operands that only a template can ask for."""
        if names != (_ANY,):
            self.lines.append(_named(handle, names))
        if _is_untuned(call):
            self.lines.append(f"transform.iree.match.has_no_lowering_config {handle} : {_OP}")
        for each in call.attributes:
            if isinstance(each.value, tree.MlirText):
                self.lines += _loops(each.value.text)
        return all(self._operand(arg, handle, (*path, number)) for number, arg in enumerate(call.args))

    def _operand(self, arg: tree.Expr, handle: str, path: tuple[int, ...]) -> bool:
        if isinstance(arg, tree.Wildcard):
            return True
        if isinstance(arg, tree.Name) and arg.name in self.parameters:
            number, kind = self.parameters[arg.name]
            if number in self.paths:
                raise GapError.at(arg.span, f"`{arg.name}` twice", "matchers do not compare operands by their names")
            self.paths[number] = path
            self._typed(handle, path, self._type(number, kind))
            return True
        if not isinstance(arg, tree.Call) or not (arg.quoted and arg.rest and arg.regions) or arg.optional:
            return False
        if not _asks(arg, _UNTUNED) or ("*" in arg.callee and arg.callee != _ANY):
            return False
        made = f"%made{'_'.join(map(str, path))}"
        self.lines.append(f"{made} = transform.get_producer_of_operand {handle}[{path[-1]}] : ({_OP}) -> {_OP}")
        if arg.type is not None:
            self._typed(handle, path, self._type(-1, arg.type))
        return self._call(arg, (arg.callee,), made, path)

    def _typed(self, handle: str, path: tuple[int, ...], kind: str) -> None:
        value = f"%operand{'_'.join(map(str, path))}"
        self.lines.append(f"{value} = transform.get_operand {handle}[{path[-1]}] : ({_OP}) -> {_VALUE}")
        self.lines.append(f"transform.iree.match.cast_compatible_type {value} = {kind} : {_VALUE}")

    def _sized(self, path: tuple[int, ...], kind: str) -> None:
        """Ask for a type whose element type and rank are known already, if it says a size."""
        if any(part.isdigit() for part in kind.partition("<")[2].split("x")):
            self._typed("%root", path, kind)

    # ---- contractions ---------------------------------------------------------------------------------------------

    def contraction(self, options: list[tree.Contract]) -> Direct | None:
        """The matcher of a sum of products of two inputs, which IREE takes with signs or without."""
        expr = options[0]
        names = [_input(arg) for arg in expr.args]
        kinds = [self.parameters[name][1] for name in names if name in self.parameters]
        if len(set(names)) != 2 or not all(isinstance(kind, tree.TensorType) for kind in kinds) or len(kinds) != 2:
            return None
        elements = [self._element(kind) for kind in kinds]
        result = elements[0] if expr.type is None else self._element(expr.type)
        casts = {tuple(_cast(arg) for arg in each.args) for each in options}
        widened = vocabulary.is_integer(result) and elements[0] != result
        alike = {(_text(each.subscripts), tuple(map(_input, each.args))) for each in options}
        if len(alike) != 1 or casts != (_SIGNS if widened else {("", "")}):
            why = "IREE takes integers with their signs and without; write all four, as `opsplice import` does"
            raise GapError.at(expr.span, f"`{_text(expr)}`", why)
        maps, is_window = self._maps(expr)
        kind, count = ("convolution", 8) if is_window else ("contraction", 4)
        self._match_sizes(kind, count, [*elements, result], f", indexing_maps = [{', '.join(maps)}]")
        for number, name in enumerate(names):
            position, parameter = self.parameters[name]
            self.paths[position] = (number,)
            written = self._type(position, parameter)
            self._sized((number,), written)
        if isinstance(expr.type, tree.TensorType):  # what it adds to is of the result's type
            self.paths[-1] = (len(names),)
            self._sized((len(names),), self._type(-1, expr.type))
        return self._made(f"every {kind} of {', '.join(elements)} to {result}")

    def any_contraction(self) -> Direct:
        """The matcher of a contraction whose operands may lie in any way."""
        call = _only(self.pattern)
        if isinstance(call, tree.Call) and call.callee != _LINALG:
            self.lines.append(_named("%root", (call.callee,)))
        kinds = [each.type for each in self.pattern.parameters]
        self._match_sizes("contraction", 4, [self._element(kind) for kind in kinds])
        for number, kind in enumerate(kinds):
            self.paths[number] = (number,)
            if not _is_any_rank(kind):
                self._typed("%root", (number,), self._type(number, kind))
        self.dims[dim_bounds.CONTRACTS] = 0
        return self._made("every contraction of these element types")

    def _match_sizes(self, kind: str, count: int, elements: Sequence[str], maps: str = "") -> None:
        sizes = ", ".join(f"%size{number}" for number in range(count))
        types = ", ".join(f"{role} = {each}" for role, each in zip(_PRODUCT_ROLES, elements, strict=True))
        self.lines.append(
            f"{sizes} = transform.iree.match.{kind} %root, {types}{maps} : {_OP} -> !transform.param<i64>"
        )

    def _maps(self, expr: tree.Contract) -> tuple[list[str], bool]:
        """The indexing maps, whose loops are those of the result first, and whether one slides over an operand."""
        operands, result = expr.subscripts.operands, expr.subscripts.result
        packs = {f"...{name}": rank for name, rank in self.instance.packs.items()}
        order = dict.fromkeys(label for labels in (result, *operands) for label in _flat(labels))
        ranks = {la: range(packs.get(la, 1)) for la in order}
        loops = {label: number for number, label in enumerate(expanded([*order], ranks))}

        def text(labels: tuple[str | tree.Window, ...]) -> str:
            places = [place for label in labels for place in self._places(label, ranks, loops)]
            return f"affine_map<({', '.join(f'd{n}' for n in range(len(loops)))}) -> ({', '.join(places)})>"

        return [text(labels) for labels in (*operands, result)], bool(expr.subscripts.windows)

    def _places(
        self, label: str | tree.Window, ranks: Mapping[str, range], loops: Mapping[Label, int]
    ) -> Iterator[str]:
        if isinstance(label, str):
            yield from (f"d{loops[each]}" for each in expanded([label], ranks))
            return
        terms = []
        for factor, name in label.terms:
            number = self.instance.sizes.get(factor) if isinstance(factor, str) else factor
            if number is None:
                why = f"indexing maps say how far a window moves; give {factor} a size, as in `{factor} == 1`"
                raise GapError.at(label.span, f"`{_text(label)}`", why)
            loop = f"d{loops[name, 0]}"
            terms.append(loop if number == 1 else f"{loop} * {number}")
        yield " + ".join(terms)

    # ---- attention ------------------------------------------------------------------------------------------------

    def attention(self, call: tree.Call) -> Direct | None:
        """The matcher of attention by its indexing maps, which make dims of its operands equal.

        What online attention writes to are parameters, too: they say of which types its results are.
        """
        maps = [a.value for a in call.attributes if a.name == "indexing_maps" and isinstance(a.value, tree.MlirText)]
        names = [arg.name if isinstance(arg, tree.Name) else "" for arg in call.args]
        known = [self.parameters[name] for name in names if name in self.parameters]
        online = call.callee == _ONLINE
        results = [kind for _, kind in known[-3:]] if online else [call.type] if call.type is not None else []
        given = len(known) - len(results) * online
        plain = call.quoted and call.rest != online and call.regions and len(call.attributes) == 1
        if not plain or not maps or not results or len(known) != len(names) or given not in (4, 5):
            return None
        roles = zip(_ONLINE_ROLES if online else _ROLES, (kind for _, kind in known), strict=False)
        types = [
            f"{role} = {self._element(kind)}" for role, kind in (*roles, *zip(_RESULT_ROLES, results, strict=False))
        ]
        sizes = ", ".join(f"%size{number}" for number in range(5))
        self.lines += [
            f"{sizes} = transform.iree.match.{call.callee.rpartition('.')[2]} %root, {', '.join(types)},",
            f"    indexing_maps = {maps[0].text} : {_OP} -> !transform.param<i64>",
        ]
        for number, (position, kind) in enumerate(known):
            self.paths[position] = (number,)
            self._sized((number,), self._type(position, kind))
        return self._made(f"every {call.callee} with these indexing maps")

    # ---- types ----------------------------------------------------------------------------------------------------

    def _element(self, kind: tree.Type) -> str:
        return self.instance.types.get(kind.element.name, kind.element.name)

    def _type(self, number: int, kind: tree.Type) -> str:
        """A type as MLIR writes it. number: of the parameter whose dims get to be known by it, -1 for none."""
        if not isinstance(kind, tree.TensorType):
            return self._element(kind)
        sizes: list[str] = []
        for dim in kind.dims:
            sizes += self._dim(dim, number, len(sizes))
        return f"tensor<{''.join(f'{size}x' for size in sizes)}{self._element(kind)}>"

    def _dim(self, dim: tree.Dim, number: int, axis: int) -> list[str]:
        if dim.pack is not None:
            rank = self.instance.packs[dim.pack]
            self._known(dim, dim.pack, tuple(Axis(number, axis + i) for i in range(rank)))
            return ["?"] * rank
        if dim.size is not None or dim.symbol is None:
            return ["?" if dim.size is None else str(dim.size)]
        size = self.instance.sizes.get(dim.symbol)
        if size is not None:
            self.dims[dim.symbol] = size
            return [str(size)]
        self._known(dim, dim.symbol, Axis(number, axis))
        return ["?"]

    def _known(self, dim: tree.Dim, name: str, extent: Extent) -> None:
        self.dims.setdefault(name, extent)
        if self.dims[name] != extent and not self._is_told(name):
            why = "no matcher compares sizes with each other; give it a size, as in `n == 64`"
            raise GapError.at(dim.span, f"the dim {name} twice", why)

    def _is_told(self, name: str) -> bool:
        """Whether the op itself makes dims of one name equal, as the loops of a contraction do."""
        expr = _only(self.pattern)
        first = expr.options[0] if isinstance(expr, tree.Alternatives) else expr
        return not isinstance(first, tree.Call) or first.callee in (_ATTENTION, _ONLINE)

    def _made(self, covers: str) -> Direct:
        for variable in self.pattern.type_variables:
            self.dims[f"bits({variable.name})"] = vocabulary.bits(self.instance.types[variable.name]) or 0
        self.dims.update({f"rank({name})": rank for name, rank in self.instance.packs.items()})
        where = self.pattern.where
        scopes = () if where is None else ((where, self.dims),)
        return Direct(tuple(self.lines), covers, scopes, self.dims, self.paths)


# How both operands are widened in each of the alternatives; without a word it is with the sign.
_HEAD = re.compile(r"\^\w+\s*\(([^)]*)\)\s*:")
_ITERATOR = re.compile(r"iterator_type<(\w+)>")
_INDEX = re.compile(r"linalg\.index\s+(\d+)")
_SIGNS = {("", ""), ("extsi", "extui"), ("extui", "extsi"), ("extui", "extui")}


def _regions(body: tree.Code) -> list[str]:
    """The question for a body, as that of an op on tensors of just so many dims as the body needs."""
    head = _HEAD.search(body.text)
    if head is None:
        raise GapError.at(body.span, "this body", "it begins with no arguments, as in `^bb0(%a: f32, %out: f32):`")
    elements = [argument.rpartition(":")[2].strip() for argument in head[1].split(",")]
    dims = 1 + max((int(number) for number in _INDEX.findall(body.text)), default=-1)
    kinds = [f"tensor<{'?x' * dims}{element}>" for element in elements]
    names = [f"%x{number}" for number in range(len(kinds))]
    loops = ", ".join(f"d{number}" for number in range(dims))
    maps = ", ".join([f"affine_map<({loops}) -> ({loops})>"] * len(kinds))
    parallel = ", ".join(['"parallel"'] * dims)
    made = 1 + body.text.rpartition("linalg.yield")[2].partition(":")[0].count(",")
    ins, outs = (
        f"({', '.join(names[part])} : {', '.join(kinds[part])})" for part in (slice(-made), slice(-made, None))
    )
    given = f"ins{ins} " if len(names) > made else ""
    results = ", ".join(kinds[-made:])
    return [
        f"transform.iree.match.regions %root : {_OP} {{",
        f"^bb0({', '.join(f'{name}: {kind}' for name, kind in zip(names, kinds, strict=True))}):",
        f"  %made:{made} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{parallel}]}}",
        f"      {given}outs{outs} {{{body.text.rstrip()}",
        f"  }} -> {results if made == 1 else f'({results})'}",
        "}",
    ]


def _named(handle: str, names: tuple[str, ...]) -> str:
    listed = ", ".join(f'"{name}"' for name in names)
    return f"transform.match.operation_name {handle} [{listed}] : {_OP}"


def _loops(kinds: str) -> list[str]:
    """The questions for the number and kinds of loops. In short they cannot be written: IREE does not read that."""
    found = _ITERATOR.findall(kinds)
    one = f"({_OP}) -> ()"
    return [
        f"transform.match.structured failures(propagate) %root : {_OP} {{",
        f"^bb0(%loops: {_OP}):",
        f"  %rank = transform.match.structured.rank %loops : ({_OP}) -> !transform.param<i64>",
        f"  %wanted = transform.param.constant {len(found)} : i64 -> !transform.param<i64>",
        "  transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>",
        *(
            f'  "transform.match.structured.dim"(%loops) <{{raw_dim_list = array<i64: {number}>, {kind}}}> : {one}'
            for number, kind in enumerate(found)
        ),
        "  transform.match.structured.yield",
        "}",
    ]


def _said(attribute: tree.Attribute) -> str:
    return f"{attribute.name}{attribute.value}"


def _input(arg: tree.Expr) -> str:
    """The parameter that a contraction multiplies, maybe widened; "" for anything else."""
    if isinstance(arg, tree.Call) and arg.callee in _CASTS and len(arg.args) == 1:
        arg = arg.args[0]
    return arg.name if isinstance(arg, tree.Name) else ""


def _cast(arg: tree.Expr) -> str:
    return arg.callee if isinstance(arg, tree.Call) else ""


def _flat(labels: tuple[str | tree.Window, ...]) -> Iterator[str]:
    for label in labels:
        yield from (label,) if isinstance(label, str) else (name for _, name in label.terms)


def _text(node: tree.Expr | tree.Subscripts | tree.Window) -> str:
    return node.span.written
