"""A transform spec as a `.splice` file: matchers become patterns, what actions put in becomes kernels and rules.

It reads specs whose matchers are templates (`cast_compatible_dag_from_root`) with checks of dims, and whose actions
call a function that dispatches a plain C shim, as those do that `opsplice export` writes. Matchers that come to the
same pattern become one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.rewrites.importing.shims import Call, Size, read_call
from opsplice.rewrites.importing.templates import Template, read_template
from opsplice.spec_lang import formatter

_ENTRY = "__transform_main"
# Ops of the entry that say where to look, and clean up after: rules are applied everywhere, and leave nothing dead.
_ENTRY_OPS = frozenset(
    {
        "transform.structured.match",
        "transform.foreach",
        "transform.foreach_match",
        "transform.apply_dce",
        "transform.apply_cse",
        "transform.yield",
    }
)
_ACTION_OPS = frozenset(
    {
        "transform.get_defining_op",
        "transform.util.get_nearest_symbol_table",
        "transform.util.import_symbol",
        "transform.util.cast_and_call",
        "transform.type_conversion.tensor.cast_shape_dynamic_dims",
        "transform.yield",
    }
)
_DAG = "transform.iree.match.cast_compatible_dag_from_root"


@dataclass(frozen=True)
class Imported:
    """text: the `.splice` file. rules: how many rules it has. unread: what could not be read, with its place."""

    text: str
    rules: int
    unread: tuple[str, ...]


def import_spec(module: ir.Module) -> Imported:
    """Read a parsed transform spec. Needs the module's context to be current."""
    return _Importer(module).read()


class _Importer:
    def __init__(self, module: ir.Module) -> None:
        tops = [op.operation for op in module.body.operations]
        self.symbols = {
            ir.StringAttr(op.attributes["sym_name"]).value: op for op in tops if "sym_name" in op.attributes
        }
        self.unread: dict[str, None] = {}
        self.kernels: dict[str, str] = {}
        self.patterns: dict[str, str] = {}
        self.rules: dict[str, None] = {}

    def read(self) -> Imported:
        for op in _walk(self.symbols[_ENTRY]):
            if op.name not in _ENTRY_OPS:
                self.unread[str(UnreadableError(op, "an op of the entry that rules have no words for"))] = None
            if op.name == "transform.foreach_match":
                for matcher, action in zip(*(_names(op.attributes[n]) for n in ("matchers", "actions")), strict=True):
                    try:
                        self._rule(self.symbols[matcher], self.symbols[action])
                    except UnreadableError as error:
                        self.unread[str(error)] = None
        parts = [*self.kernels, *self.patterns, *self.rules]
        text = formatter.format("\n".join(parts)) if self.rules else ""
        return Imported(text, len(self.rules), tuple(self.unread))

    # ---- one pair -------------------------------------------------------------------------------------------------

    def _rule(self, matcher: ir.Operation, action: ir.Operation) -> None:
        template, conditions = _Matcher(matcher).read()
        call = read_call(self._called(action), self.symbols)
        dims = {i.position: i.dims for i in template.inputs if i.dims is not None}
        text, names = _kernel(call, template, dims)
        name = self._declared(self.kernels, text, "kernel")
        pattern = self._declared(self.patterns, _pattern(template, conditions), "pattern")
        self.rules[f"replace {pattern} with {name}({', '.join(names)})"] = None

    def _declared(self, known: dict[str, str], text: str, kind: str) -> str:
        """The name of a declaration, `NAME` in its text, that is added unless there is an equal one."""
        for other, name in known.items():
            if other == text.replace("NAME", name, 1):
                return name
        name = f"{kind}{len(known)}"
        known[text.replace("NAME", name, 1)] = name
        return name

    def _called(self, action: ir.Operation) -> ir.Operation:
        imported: dict[ir.Value, str] = {}
        called: list[ir.Operation] = []
        for op in _walk(action):
            if op.name not in _ACTION_OPS:
                raise UnreadableError(op, "an action of a kind that rules have no words for")
            if op.name == "transform.util.import_symbol":
                imported[op.results[0]] = ir.FlatSymbolRefAttr(op.attributes["symbol"]).value
            if op.name == "transform.util.cast_and_call":
                called.append(op)
        functions = [imported[v] for op in called for v in op.operands if v in imported]
        if len(functions) != 1:
            raise UnreadableError(action, "an action that calls other than one imported function")
        return self.symbols[functions[0]]


class _Matcher:
    """A matcher: its template and its checks."""

    def __init__(self, sequence: ir.Operation) -> None:
        self.sequence = sequence
        self.block = sequence.regions[0].blocks[0]
        # What handles stand for: ops and values of the template.
        self.handles: dict[ir.Value, ir.Operation | ir.Value] = {}
        self.conditions: list[str] = []

    def read(self) -> tuple[Template, list[str]]:
        ops = [op.operation for op in self.block.operations]
        dags = [op for op in ops if op.name == _DAG]
        if len(dags) != 1:
            raise UnreadableError(self.sequence, f"a matcher without one {_DAG}")
        body = dags[0].regions[0].blocks[0]
        template = read_template(body)
        inner = [op.operation for op in body.operations]
        self.handles[dags[0].operands[0]] = inner[-2]
        self.handles[dags[0].results[1]] = inner[-2].results[0]
        for op in ops:
            if op is not dags[0] and op.name != _DAG:
                self._read(op, template)
        return template, self.conditions

    def _read(self, op: ir.Operation, template: Template) -> None:
        if op.name == "transform.get_producer_of_operand":
            value = self._operation(op).operands[self._position(op, "operand_number")]
            self.handles[op.results[0]] = value.owner.operation
        elif op.name == "transform.get_operand":
            self.handles[op.results[0]] = self._operation(op).operands[self._position(op, "raw_position_list")]
        elif op.name == "transform.iree.match.dim_bounds":
            dim = self._dim(op, template)
            for name, comparison in (("lower_bound", ">="), ("upper_bound", "<=")):
                if name in op.attributes:
                    self.conditions.append(f"{dim} {comparison} {ir.IntegerAttr(op.attributes[name]).value}")
        elif op.name == "transform.iree.match.dim_is_multiple_of":
            self.conditions.append(f"{self._dim(op, template)} % {ir.IntegerAttr(op.attributes['size']).value} == 0")
        elif op.name == "transform.match.operation_name":
            names = [ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["op_names"])]
            if self._operation(op).name not in names:
                raise UnreadableError(op, "a name that is not that of the template's op")
        elif op.name != "transform.yield":
            raise UnreadableError(op, "a check that patterns have no words for")

    def _operation(self, op: ir.Operation) -> ir.Operation:
        found = self.handles.get(op.operands[0])
        if not isinstance(found, ir.Operation):
            raise UnreadableError(op, "a handle that stands for no op of the template")
        return found

    def _position(self, op: ir.Operation, name: str) -> int:
        attribute = op.attributes[name]
        if isinstance(attribute, ir.IntegerAttr):
            return attribute.value
        return next(iter(ir.DenseI64ArrayAttr(attribute)))

    def _dim(self, op: ir.Operation, template: Template) -> str:
        value = self.handles.get(op.operands[0])
        found = None if value is None or isinstance(value, ir.Operation) else template.values.get(value)
        if found is None:
            raise UnreadableError(op, "a check of what is neither the result nor an operand in the template")
        return template.dim(found.axes[ir.IntegerAttr(op.attributes["dim"]).value])


# ---- text --------------------------------------------------------------------------------------------------------


def _pattern(template: Template, conditions: list[str]) -> str:
    parameters = []
    where = list(conditions)
    seen: set[str] = set()
    for each in template.inputs:
        if each.dims is None:
            parameters.append(f"{each.name}: {each.element}")
            continue
        names = [template.dim(axis) for axis in each.dims]
        parameters.append(f"{each.name}: tensor<{' x '.join([*names, each.element])}>")
        for name, axis in zip(names, each.dims, strict=True):
            size = template.axes.size(axis)
            if size is not None and name not in seen:
                seen.add(name)
                where.append(f"{name} == {size}")
    body = "\n".join([*(f"{name} = {expr}" for name, expr in template.lets), template.result])
    joined = f" where {' and '.join(dict.fromkeys(where))}" if where else ""
    return f"pattern NAME({', '.join(parameters)}){joined} {{\n{body}\n}}"


def _kernel(call: Call, template: Template, dims: Mapping[int, tuple[int, ...]]) -> tuple[str, list[str]]:
    """A kernel's declaration, and the arguments of the rule."""
    inputs = {i.position: i for i in template.inputs}
    shapes: list[tuple[int, ...] | None] = []
    parameters, names = [], []
    for number, (argument, scalar) in enumerate(zip(call.arguments, call.scalars, strict=True)):
        known = inputs.get(argument) if isinstance(argument, int) else None
        if known is None:
            raise UnreadableError(template_op(template), "a number for a scalar of the C function")
        names.append(known.name)
        parameters.append((f"a{number}", known.element))
        shapes.append(None if scalar else (known.dims or ()))
    if call.results != 1:
        raise UnreadableError(template_op(template), "a function of several results")
    shapes.append(template.result_dims)
    wanted = tuple(_size_key(size, dims, template) for size in call.sizes)
    for spelled in _shapes(shapes, template):
        if spelled.sizes == wanted:
            break
    else:
        raise UnreadableError(template_op(template), "a C function that is told other sizes than its buffers have")
    written = [
        f"{name}: {element}" if shape is None else f"{name}: {element}[{shape}]"
        for (name, element), shape in zip(parameters, spelled.texts, strict=False)
    ]
    grid = _grid(call, dims, template, spelled)
    clauses = [f'cpu {arch} "{path}"' for arch, path in call.objects]
    result = f"{template.result_element}[{spelled.texts[-1]}]"
    lines = [f"kernel NAME({', '.join(written)}) -> {result} {{", *grid, f'symbol "{call.symbol}"', *clauses, "}"]
    return "\n".join(lines), names


def template_op(template: Template) -> ir.Operation:
    """The last op of a template, for messages."""
    return next(v.owner.operation for v in reversed(template.values) if not isinstance(v.owner, ir.Block))


# A size in terms of the template: a number, or the names of the dims that are multiplied.
_Key = int | tuple[str, ...]


@dataclass(frozen=True)
class _Shapes:
    """One way to declare the buffers' dims, and the sizes that the C function is then told."""

    texts: tuple[str | None, ...]
    sizes: tuple[_Key, ...]
    names: Mapping[_Key, str]


def _shapes(shapes: list[tuple[int, ...] | None], template: Template) -> Iterator[_Shapes]:
    """Ways to declare the buffers: sizes that are known as numbers or names, leading dims apart or as one pack.

    A pack of no dims, which tells the function 1, is only written for the first buffer.
    """
    longest = max((len(s) for s in shapes if s is not None), default=0)
    for numbers, packed in itertools.product((True, False), (None, *range(longest + 1))):
        if packed != 1:
            yield _declared(shapes, template, numbers, packed)


def _declared(shapes: list[tuple[int, ...] | None], template: Template, numbers: bool, packed: int | None) -> _Shapes:
    texts: list[str | None] = []
    sizes: dict[_Key, str] = {}
    lead = next((s[:packed] for s in shapes if s is not None and len(s) >= packed), ()) if packed else ()
    lead_names = tuple(template.dim(axis) for axis in lead)
    for shape in shapes:
        if shape is None:
            texts.append(None)
            continue
        words: list[str] = []
        rest = list(shape)
        if packed == 0 and not any(text is not None for text in texts):
            sizes.setdefault(1, "rows")
            words.append("...rows")
        if packed and tuple(template.dim(axis) for axis in rest[:packed]) == lead_names:
            known = [template.axes.size(axis) for axis in lead]
            key: _Key = lead_names if None in known else math.prod(k for k in known if k is not None)
            sizes.setdefault(key, "rows")
            words.append("...rows")
            rest = rest[packed:]
        for axis in rest:
            size, name = template.axes.size(axis), template.dim(axis)
            if size is not None and numbers:
                words.append(str(size))
                continue
            sizes.setdefault((name,) if size is None else size, name)
            words.append(name)
        texts.append(", ".join(words))
    return _Shapes(tuple(texts), tuple(sizes), sizes)


def _size_key(size: Size, dims: Mapping[int, tuple[int, ...]], template: Template) -> _Key:
    if size.number is not None:
        return size.number
    return tuple(template.dim(dims[argument][axis]) for argument, axis in size.axes)


def _grid(call: Call, dims: Mapping[int, tuple[int, ...]], template: Template, spelled: _Shapes) -> list[str]:
    if not call.grid:
        return []
    words = []
    for size in call.grid_sizes:
        name = spelled.names.get(_size_key(size, dims, template))
        if name is None:
            raise UnreadableError(
                template_op(template), "workgroups counted from a size that the C function is not told"
            )
        words.append(name)
    return [f"grid ({', '.join(text.format(*words) for text in call.grid)})"]


# ---- pieces ------------------------------------------------------------------------------------------------------


def _walk(root: ir.Operation) -> Iterator[ir.Operation]:
    """The ops below an op, those inside of templates left out."""
    for region in root.regions:
        for block in region.blocks:
            for op in block.operations:
                yield op.operation
                if op.operation.name != _DAG:
                    yield from _walk(op.operation)


def _names(attribute: ir.Attribute) -> list[str]:
    return [ir.FlatSymbolRefAttr(symbol).value for symbol in ir.ArrayAttr(attribute)]
