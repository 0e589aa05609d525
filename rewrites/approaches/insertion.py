"""MLIR in the place of a match: a rule's own, or a pattern written out.

    replace neg_abs with mlir {                     %0 = math.absf %x : tensor<4xf32>
      %0 = math.absf %x : $x              =>        %1 = math.exp %0 : tensor<4xf32>
      %1 = math.exp %0 : $x
      yield %1
    }

Inputs of the pattern are values by their names, and so are its dims, as values of type index. `$x` stands for the type
of input x, `$T` for what a type variable is, `${n}` for a dim in a type (a number or `?`), `$result` for the type of
what is replaced (`$result0` and so on where there are several). It is parsed for each match, with its types.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.common.reaching import reachable
from opsplice.matchers.ir.op_names import FUNCTIONS, around, last_op
from opsplice.matchers.ir.tensor_values import defining_op, element_type, shape_of
from opsplice.matchers.search.matches import Binding, Match, Size, flat
from opsplice.matchers.search.uses import taken_by, weights_of
from opsplice.rewrites.approaches.annotation import SETTERS
from opsplice.rewrites.ir import emit, raw_symbols, symbols
from opsplice.rewrites.ir.placing import Placer, bound_type, builtin_type, has_other_axes, has_other_dims, result_type
from opsplice.rewrites.ir.raw_symbols import Block, Helpers
from opsplice.rewrites.layouts.dense_copies import dense_copy
from opsplice.rewrites.plan.actions import (
    Action,
    Argument,
    Buffer,
    Insertion,
    KernelCall,
    Output,
    Scalar,
    Written,
    Zeros,
)
from opsplice.spec_lang.checking.rules import PLACEHOLDER
from opsplice.spec_lang.syntax import tree

# On an op that a rule wrote, while rules are applied: the rules that must not be applied to it again.
WRITERS = "opsplice.written_by"
# The type and the sizes that an input is given, where it has another rank in the program.
_Fitted = tuple[ir.Type, tuple[Size, ...]]
_YIELD = re.compile(r"^[ \t]*yield\b(.*)\Z", re.MULTILINE | re.DOTALL)


def results(placer: Placer, insertion: Insertion, spec: Helpers) -> list[ir.Value]:
    """Build an insertion at the current point. Raises OpspliceError, with the rule's line, for MLIR that is wrong.

    spec: the spec's raw MLIR, which the insertion may refer to by symbol.
    """
    writers = _writers(insertion)
    if isinstance(insertion.code, Written):
        return [_written(placer, insertion.code, writers)]
    code = insertion.code
    body, yielded, kinds = _cut(code)
    known = _names(insertion.match, ranked=bool(kinds))
    used = [name for name in known.values if re.search(rf"%{re.escape(name)}\b", code.text)]
    given = {name: _value(placer, known.values[name], known.fitted.get(name)) for name in used}
    arguments = ", ".join(f"%{name}: {value.type}" for name, value in given.items())
    kinds = _filled(kinds, known.types) or ", ".join(str(builtin_type(root)) for root in insertion.match.roots)
    head = f"{spec.prelude(code)}\nutil.func private @opsplice_insertion({arguments}) -> ({kinds}) {{"
    text = f"{head}{_filled(body, known.types)}\nutil.return {yielded} : {kinds}\n}}"
    parsed = raw_symbols.parse(text, head.count("\n") + 1, code)
    raw_symbols.convert(parsed, insertion.rule.phase)
    spec.rename(last_op(parsed.body), code)
    made = _copied(parsed, list(given.values()), writers)
    for value, root in zip(made, insertion.match.roots, strict=True):
        _check_yielded(value, root, code)
    return made


def _check_yielded(value: ir.Value, root: ir.Value, code: tree.Code) -> None:
    """Raise OpspliceError for a value that cannot take the place of a match's result: of another type, or size."""
    wanted = builtin_type(root)
    shapes = [shape_of(each) or () for each in (value, root)]
    counts = {math.prod(size for size in shape if size is not None) for shape in shapes if None not in shape}
    if element_type(value) != str(ir.RankedTensorType(wanted).element_type) or len(counts) > 1:
        line = code.span.line + code.text[: _end_of(code).start(1)].count("\n")
        shown = f"{code.span.source.name}:{line}: {code.span.source.line(line).strip()}"
        hint = "what a rule yields needs the type $result"
        raise OpspliceError(f"a rule yields {value.type} for {wanted}", details=shown, hint=hint)


def mark(op: ir.Operation, action: Action) -> None:
    """Note that the rule of an action must not be applied to an op."""
    op.attributes[WRITERS] = _writers(action)


def _writers(action: Action) -> ir.Attribute:
    return emit.strings([*written_by(action.match), str(action.rule.span)])


def written_by(match: Match) -> list[str]:
    """The rules, by their places in specs, that wrote the op at the root of a match, or what that was written for."""
    op = match.roots[0].owner.operation
    if not is_written(op):
        return []
    return [ir.StringAttr(a).value for a in ir.ArrayAttr(op.attributes[WRITERS])]


class Calls:
    """Which functions of a module call which, with the calls that rules' MLIR is to add. Rules must close no circle."""

    def __init__(self, codes: Sequence[tree.Code] = ()) -> None:
        """codes: the spec's raw MLIR."""
        self._codes = codes
        self._blocks: tuple[Block, ...] = ()
        self._marks: dict[str, str] = {}
        self._tops: dict[str, ir.Operation] = {}
        self._present: dict[str, set[str]] = {}
        self._planned: dict[str, set[str]] = {}

    def recurses(self, match: Match, code: tree.Code) -> bool:
        """Whether a rule's MLIR, in the place of a match, would be called by what it calls."""
        self._read(match)
        called = reachable(self._named(code), lambda name: self._called_by(name) | self._planned.get(name, set()))
        return match.function in called

    def add(self, match: Match, code: tree.Code) -> None:
        """Note the calls of a rule's MLIR in the place of a match."""
        self._read(match)
        self._planned.setdefault(match.function, set()).update(self._named(code))

    def _read(self, match: Match) -> None:
        if self._tops:
            return
        *_, top = around(match.roots[0].owner.operation)
        self._tops = symbols.defined(top)
        self._marks = raw_symbols.marks(self._tops.values())
        with top.context, ir.Location.unknown():
            self._blocks = raw_symbols.read(self._codes)

    def _named(self, code: tree.Code) -> set[str]:
        """The symbols of the program that a rule's MLIR names; not those of the spec that are yet to be put into it."""
        own = {name: mark for block in raw_symbols.visible(self._blocks, code) for name, mark in block.names.items()}
        named = raw_symbols.symbols_in(code.text)
        return {self._marks[own[n]] if n in own else n for n in named if n not in own or own[n] in self._marks}

    def _called_by(self, name: str) -> set[str]:
        if name not in self._present and name in self._tops:
            text = self._tops[name].get_asm(large_elements_limit=8, large_resource_limit=8)
            self._present[name] = raw_symbols.symbols_in(text)
        return self._present.get(name, set())


def is_written(op: ir.Operation) -> bool:
    """Whether a rule wrote an op."""
    return WRITERS in op.attributes


def forget_rules(module: ir.Module) -> None:
    """Take off the marks that rules leave on ops: by which they were written, and their attributes set."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        for mark in (WRITERS, SETTERS):
            if mark in op.attributes:
                del op.attributes[mark]
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def with_computed(placer: Placer, call: KernelCall, launch: Callable[[KernelCall], ir.Value]) -> KernelCall:
    """A call with what its rule computes for the kernel, and what others make for it, put in at the current point."""

    def given(argument: Buffer | Scalar) -> Buffer | Scalar:
        if isinstance(argument.value, KernelCall):
            return dataclasses.replace(argument, value=launch(argument.value))
        if isinstance(argument.value, Written):
            return dataclasses.replace(argument, value=_before_loops(_written(placer, argument.value)))
        if isinstance(argument.value, Zeros):
            return dataclasses.replace(argument, value=_zeros(placer, argument.value.output))
        return argument

    return dataclasses.replace(call, arguments=tuple(map(given, call.arguments)))


def _before_loops(value: ir.Value) -> ir.Value:
    """A value, moved before the loops around it if it comes from weights alone: what is in loops IREE computes anew."""
    first = defining_op(value)
    if first is None:
        return value
    *_, outermost = itertools.takewhile(lambda op: not op.name.endswith(FUNCTIONS), around(first))
    if outermost == first or weights_of(value) is None:
        return value

    def move(made: ir.Value) -> None:
        maker = made.owner.operation
        if maker != outermost and outermost in around(maker):
            for taken in taken_by(maker):
                move(taken)
            maker.move_before(outermost)

    move(value)
    return value


def _zeros(placer: Placer, output: Output) -> ir.Value:
    """A tensor of zeros of the sizes of a result."""
    kind = ir.RankedTensorType(result_type(output))
    zero = emit.constant(0, kind.element_type)
    return emit.value("flow.tensor.splat", [zero, *placer.open_sizes(kind, output.sizes)], kind)


def _written(placer: Placer, code: Written, writers: ir.Attribute | None = None) -> ir.Value:
    """A pattern's ops. Their text is ours, but for what the pattern says of ops by name."""
    values = [_fitted(placer, argument) for argument in code.arguments]
    arguments = ", ".join(f"%{argument.name}: {argument.kind}" for argument in code.arguments)
    body = "\n".join(code.lines)
    head = f"util.func private @opsplice_insertion({arguments}) -> {code.kind} {{\n"
    try:
        parsed = ir.Module.parse(f"{head}{body}\nutil.return {code.root} : {code.kind}\n}}")
    except ir.MLIRError as failure:
        told = failure.error_diagnostics[0].message if failure.error_diagnostics else str(failure)
        raise OpspliceError(
            "a pattern cannot be written as ops",
            details=f"{code.span}: {told}",
            hint="write what an op by name needs: all its operands, attributes and types",
        ) from None
    return _copied(parsed, values, writers)[0]


def _fitted(placer: Placer, argument: Argument) -> ir.Value:
    """An argument as a value of the type that is wanted."""
    kind = ir.Type.parse(argument.kind)
    binding = argument.binding
    if binding.value is not None:
        value = placer.bound(binding)
        if isinstance(kind, ir.RankedTensorType) and not isinstance(value.type, ir.RankedTensorType):
            return emit.value("tensor.from_elements", [value], kind)
        if binding.places:
            value = dense_copy(value, binding.places[0][1], placer.amount)
        return placer.fitted(value, kind, argument.sizes)
    if isinstance(kind, ir.RankedTensorType):
        attribute = emit.number(binding.constant, kind.element_type)
        return emit.value("arith.constant", [], kind, value=ir.DenseElementsAttr.get_splat(kind, attribute))
    return emit.constant(binding.constant, kind)


@dataclass(frozen=True)
class _Names:
    """What the names in an insertion stand for: inputs and dims as values, and the text of types.

    fitted: those of inputs that have another rank in the program.
    """

    values: Mapping[str, Binding | Size | tuple[Size, ...]]
    types: Mapping[str, str]
    fitted: Mapping[str, _Fitted]


def _names(match: Match, *, ranked: bool) -> _Names:
    """ranked: give inputs the rank that they have in the pattern, whatever dims of size one the program has.

    Inputs that are reshapes of values get it in any case.
    """
    values: dict[str, Binding | Size | tuple[Size, ...]] = {}
    types: dict[str, str] = {}
    fitted: dict[str, _Fitted] = {}
    for name, binding in match.inputs.items():
        values[name] = binding
        kind = None if binding.value is None else bound_type(binding)
        types[name] = binding.element if kind is None else str(kind)
        if isinstance(kind, ir.RankedTensorType) and name in match.shapes:
            sizes = flat(match.shapes[name])
            if has_other_dims(kind, sizes) or (ranked and has_other_axes(kind, sizes)):
                types[name] = f"tensor<{''.join(f'{_size_text(size)}x' for size in sizes)}{binding.element}>"
                fitted[name] = ir.Type.parse(types[name]), sizes
    for name, size in match.dims.items():
        values.setdefault(name, size)
        types.setdefault(name, _size_text(size))
    types.update({n: element for n, element in match.types.items() if n not in types})
    for number, root in enumerate(match.roots):
        types[f"result{number}"] = str(builtin_type(root))
    types["result"] = types["result0"]
    return _Names(values, types, fitted)


def _size_text(size: Size | tuple[Size, ...]) -> str:
    if isinstance(size, tuple):
        return "x".join(map(_size_text, size))
    return str(size) if isinstance(size, int) else "?"


def _value(placer: Placer, named: Binding | Size | tuple[Size, ...], fitted: _Fitted | None) -> ir.Value:
    if not isinstance(named, Binding):
        return emit.size(placer.size(named))
    if named.value is None:
        return emit.constant(named.constant, ir.Type.parse(named.element))
    current = placer.bound(named)
    return current if fitted is None else placer.fitted(current, *fitted)


def _end_of(code: tree.Code) -> re.Match[str]:
    found = _YIELD.search(code.text)
    assert found is not None, "the checker wants a yield"
    return found


def _cut(code: tree.Code) -> tuple[str, str, str]:
    """A block's ops, what it yields, and of which types, "" if it does not say."""
    found = _end_of(code)
    yielded, _, kinds = found[1].partition(":")
    return code.text[: found.start()], yielded.strip(), kinds.strip()


def _filled(text: str, types: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda m: types.get(m[1] or m[2], m[0]), text)


def _copied(module: ir.Module, values: Sequence[ir.Value], writers: ir.Attribute | None) -> list[ir.Value]:
    """A copy of the ops of a module's last function at the current point, on these values. Returns what it returns."""
    block = last_op(module.body).regions[0].blocks[0]
    copies: dict[Any, ir.Value] = dict(zip(block.arguments, values, strict=True))
    *inner, end = block.operations
    location = ir.Location.current
    for op in inner:
        copy = emit.copy(op.operation, copies)
        copy.location = location
        if writers is not None:
            copy.attributes[WRITERS] = writers
    return [copies[value] for value in end.operands]
