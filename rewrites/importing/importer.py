"""A transform spec as a `.splice` file: matchers become patterns, what actions put in becomes kernels and rules.

It reads specs whose matchers are templates (`cast_compatible_dag_from_root`) or contractions, with checks of dims, and
whose actions call a function that dispatches a plain C shim, as those do that `opsplice export` writes. Matchers that
come to the same pattern become one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.rewrites.importing.contractions import Contraction, contraction
from opsplice.rewrites.importing.gaps import UnreadableError
from opsplice.rewrites.importing.shims import Call, Size, read_call
from opsplice.rewrites.importing.templates import Input, Template, read_template
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
        "transform.get_operand",
        "transform.get_result",
        "transform.merge_handles",
        "transform.util.get_nearest_symbol_table",
        "transform.util.import_symbol",
        "transform.util.cast_and_call",
        "transform.type_conversion.tensor.cast_shape_dynamic_dims",
        "transform.yield",
    }
)
_NAVIGATION = frozenset(
    {
        "transform.get_defining_op",
        "transform.get_operand",
        "transform.get_producer_of_operand",
        "transform.get_result",
        "transform.merge_handles",
    }
)
_CONTRACTION = "transform.iree.match.contraction"
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

    def _rule(self, sequence: ir.Operation, action: ir.Operation) -> None:
        matcher = _Matcher(sequence)
        template, conditions = matcher.read()
        function, passed = _Action(action, matcher.yielded()).read()
        if function not in self.symbols:
            raise UnreadableError(action, f"there is no function @{function}")
        call = read_call(self.symbols[function], self.symbols)
        inputs = {
            number: each
            for number, value in enumerate(passed)
            for each in template.inputs
            if isinstance(value.owner, ir.Block) and ir.BlockArgument(value).arg_number == each.position
        }
        text, names = _kernel(call, template, inputs)
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


# What a handle stands for: an op of the template, or a tuple of values of it.
_Handle = Any


class _Action:
    """An action: the function that it calls, with what, in the place of the root."""

    def __init__(self, sequence: ir.Operation, given: Sequence[_Handle | None]) -> None:
        """given: what the matcher's results stand for."""
        self.sequence = sequence
        block = sequence.regions[0].blocks[0]
        self.handles = {a: g for a, g in zip(block.arguments, given, strict=True) if g is not None}
        self.imported: dict[ir.Value, str] = {}

    def read(self) -> tuple[str, tuple[ir.Value, ...]]:
        called: list[tuple[str, tuple[ir.Value, ...]]] = []
        for op in _walk(self.sequence):
            if op.name not in _ACTION_OPS:
                raise UnreadableError(op, "an action of a kind that rules have no words for")
            if op.name == "transform.util.import_symbol":
                self.imported[op.results[0]] = ir.FlatSymbolRefAttr(op.attributes["symbol"]).value
            elif op.name == "transform.util.cast_and_call":
                called.append(self._call(op))
            else:
                _follow(op, self.handles)
        if len(called) != 1:
            raise UnreadableError(self.sequence, "an action that calls other than one function")
        return called[0]

    def _call(self, op: ir.Operation) -> tuple[str, tuple[ir.Value, ...]]:
        given = [self.handles.get(v) for v in op.operands if v in self.handles]
        functions = [self.imported[v] for v in op.operands if v in self.imported]
        values = [g for g in given if isinstance(g, tuple)]
        if len(functions) != 1 or len(values) != 2:
            raise UnreadableError(op, "a call of no imported function, or with handles that stand for nothing known")
        passed, replaced = values
        if len(replaced) != 1 or isinstance(replaced[0].owner, ir.Block):
            raise UnreadableError(op, "a call that replaces other than the root's result")
        return functions[0], passed


def _follow(op: ir.Operation, handles: dict[ir.Value, _Handle]) -> bool:
    """Note what the results of a navigating op stand for. Whether it is such an op."""
    source = handles.get(op.operands[0]) if len(op.operands) else None
    if op.name == "transform.merge_handles":
        merged = [handles.get(v) for v in op.operands]
        handles[op.results[0]] = tuple(v for m in merged if isinstance(m, tuple) for v in m)
    elif op.name == "transform.get_defining_op" and isinstance(source, tuple) and len(source) == 1:
        if not isinstance(source[0].owner, ir.Block):
            handles[op.results[0]] = source[0].owner.operation
    elif op.name == "transform.get_producer_of_operand" and isinstance(source, ir.Operation):
        value = source.operands[ir.IntegerAttr(op.attributes["operand_number"]).value]
        if not isinstance(value.owner, ir.Block):
            handles[op.results[0]] = value.owner.operation
    elif op.name in ("transform.get_operand", "transform.get_result") and isinstance(source, ir.Operation):
        values = source.operands if op.name == "transform.get_operand" else source.results
        positions = list(ir.DenseI64ArrayAttr(op.attributes["raw_position_list"]))
        wanted = range(len(values)) if "is_all" in op.attributes else positions
        handles[op.results[0]] = tuple(values[i] for i in wanted)
    else:
        return op.name in _NAVIGATION
    return True


class _Matcher:
    """A matcher: its template and its checks."""

    def __init__(self, sequence: ir.Operation) -> None:
        self.sequence = sequence
        self.block = sequence.regions[0].blocks[0]
        self.handles: dict[ir.Value, _Handle] = {}
        # The sizes of a contraction that a parameter stands for.
        self.sizes: dict[ir.Value, tuple[tuple[int, int], ...]] = {}
        self.conditions: list[str] = []
        self.contraction: Contraction | None = None  # holds the module of its template

    def read(self) -> tuple[Template, list[str]]:
        ops = [op.operation for op in self.block.operations]
        roots = [op for op in ops if op.name in (_DAG, _CONTRACTION)]
        if len(roots) != 1:
            raise UnreadableError(self.sequence, f"a matcher without one {_DAG} or {_CONTRACTION}")
        body = self._template(roots[0])
        template = read_template(body)
        for op in ops:
            if op.name not in (_DAG, _CONTRACTION):
                self._read(op, template)
        return template, self.conditions

    def yielded(self) -> list[_Handle | None]:
        """What the results of the matcher stand for."""
        return [self.handles.get(v) for v in self.block.operations[len(self.block.operations) - 1].operands]

    def _template(self, op: ir.Operation) -> ir.Block:
        if op.name == _DAG:
            body = op.regions[0].blocks[0]
            self.handles[op.results[0]] = tuple(body.arguments)
        else:
            self.contraction = contraction(op)
            body = self.contraction.block
            self.sizes.update(zip(op.results, self.contraction.dims, strict=True))
        root = [each.operation for each in body.operations][-2]
        self.handles[op.operands[0]] = root
        if op.name == _DAG:
            self.handles[op.results[1]] = (root.results[0],)
        return body

    def _read(self, op: ir.Operation, template: Template) -> None:
        if _follow(op, self.handles):
            return
        if op.name == "transform.iree.match.dim_bounds":
            dim = self._dim(op, template)
            for name, comparison in (("lower_bound", ">="), ("upper_bound", "<=")):
                if name in op.attributes:
                    self.conditions.append(f"{dim} {comparison} {ir.IntegerAttr(op.attributes[name]).value}")
        elif op.name == "transform.iree.match.dim_is_multiple_of":
            self.conditions.append(f"{self._dim(op, template)} % {ir.IntegerAttr(op.attributes['size']).value} == 0")
        elif op.name == "transform.iree.match.dims_equal":
            self._equal(op, template)
        elif op.name == "transform.match.operation_name":
            self._named(op)
        elif op.name != "transform.yield":
            raise UnreadableError(op, "a check that patterns have no words for")

    def _named(self, op: ir.Operation) -> None:
        root = self.handles.get(op.operands[0])
        names = [ir.StringAttr(n).value for n in ir.ArrayAttr(op.attributes["op_names"])]
        # A contraction is one under any name: patterns say what is computed.
        if self.contraction is None and not (isinstance(root, ir.Operation) and root.name in names):
            raise UnreadableError(op, "a name that is not that of the template's op")

    def _equal(self, op: ir.Operation, template: Template) -> None:
        axes = self.sizes.get(op.operands[0])
        expected = list(ir.DenseI64ArrayAttr(op.attributes["expected_values"]))
        if axes is None or len(axes) != len(expected):
            raise UnreadableError(op, "sizes of other dims than the indexing maps have")
        for (argument, axis), size in zip(axes, expected, strict=True):
            if size != -1:
                dims = template.inputs[argument].dims or ()
                self.conditions.append(f"{template.dim(dims[axis])} == {size}")

    def _dim(self, op: ir.Operation, template: Template) -> str:
        values = self.handles.get(op.operands[0])
        found = template.values.get(values[0]) if isinstance(values, tuple) and len(values) == 1 else None
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


def _kernel(call: Call, template: Template, inputs: Mapping[int, Input]) -> tuple[str, list[str]]:
    """A kernel's declaration, and the arguments of the rule. inputs: what the function's arguments are."""
    dims = {number: each.dims for number, each in inputs.items() if each.dims is not None}
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
