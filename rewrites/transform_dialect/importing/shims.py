"""What an action puts in, read as a kernel: a function that dispatches an executable with the plain C shim.

It follows the values backwards, from the C call to the bindings of the shim, from there to the operands of the
dispatch, and from these to the arguments of the function. Only shims that hand a C function what ours do can be read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op, ops_in, symbol_of
from opsplice.matchers.ir.tensor_values import defining_op, maker_name
from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError

_OBJECT = re.compile(
    r'#hal\.executable\.target<"([^"]*)", "([^"]*)"[^\[]*> = \[#hal\.executable\.object<\{path = "([^"]*)"\}>\]'
)
_ARCHS = {"x86_64": "x86_64", "arm_64": "aarch64", "riscv_64": "riscv64"}
# Sizes are not negative, so that most signed and unsigned ops say the same of them.
_INFIX = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*", "arith.remui": "%"}
_DIVISIONS = {
    **dict.fromkeys(("arith.ceildivui", "arith.ceildivsi"), "ceildiv"),
    **dict.fromkeys(("arith.divui", "arith.floordivsi"), "floordiv"),
}
_FUNCTIONS = _DIVISIONS | {"arith.minui": "min", "arith.minsi": "min", "arith.maxui": "max", "arith.maxsi": "max"}


# A number, or the product of dims of arguments (argument, axis).
Size = int | tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Call:
    """A call of a C function.

    symbol: its name. arguments: for each value before the results the argument of the function that it is. scalars:
    whether each of these is a scalar. results: how many buffers it fills. sizes: what it is told of sizes, in order.
    grid: workgroup counts, as text with `{0}`, `{1}` for `grid_sizes`. objects: architecture and file.
    """

    symbol: str
    arguments: tuple[int, ...]
    scalars: tuple[bool, ...]
    results: int
    sizes: tuple[Size, ...]
    grid: tuple[str, ...]
    grid_sizes: tuple[Size, ...]
    objects: tuple[tuple[str, str], ...]


def read_call(function: ir.Operation, symbols: Mapping[str, ir.Operation]) -> Call:
    """Read a function and the executable that it dispatches. Raises UnreadableError for what is not a plain C shim."""
    return _Reader(function, symbols).read()


class _Reader:
    def __init__(self, function: ir.Operation, symbols: Mapping[str, ir.Operation]) -> None:
        self.function = function
        dispatches = ops_in(function, "flow.dispatch")
        if len(dispatches) != 1:
            raise UnreadableError(function, "a function that does other than one dispatch")
        self.dispatch = dispatches[0]
        self.returned = list(last_op(function.regions[0].blocks[0]).operands)
        if self.returned != list(self.dispatch.results):
            raise UnreadableError(function, "a function that returns other than what its dispatch makes")
        names = ir.SymbolRefAttr(ir.ArrayAttr(self.dispatch.attributes["entry_points"])[0]).value
        self.executable = symbols.get(names[0])
        if self.executable is None or self.executable.name != "stream.executable":
            raise UnreadableError(self.dispatch, f"there is no stream.executable @{names[0]}")
        exports = ops_in(self.executable, "stream.executable.export")
        self.export = next(op for op in exports if symbol_of(op) == names[-1])
        if len(exports) != 1:
            raise UnreadableError(self.executable, "an executable with several exports, such as for results in place")
        wanted = ir.FlatSymbolRefAttr(self.export.attributes["function_ref"]).value
        shims = ops_in(self.executable, "func.func")
        self.shim = next(op for op in shims if symbol_of(op) == wanted)
        segments = list(ir.DenseI32ArrayAttr(self.dispatch.attributes["operandSegmentSizes"]))
        operands = list(self.dispatch.operands)
        self.workload = operands[: segments[0]]
        self.passed = operands[segments[0] : segments[0] + segments[1]]

    def read(self) -> Call:
        calls = ops_in(self.shim, "func.call")
        if len(calls) != 1:
            raise UnreadableError(self.shim, "a shim that calls other than one function")
        arguments: list[int] = []
        scalars: list[bool] = []
        results, sizes, dimensions = 0, [], []
        for value in calls[0].operands:
            binding = self._binding(value)
            if binding is not None and binding < len(self.passed):
                arguments.append(self._argument(self.passed[binding]))
                scalars.append(str(value.type) != "!llvm.ptr")
            elif binding is not None:
                results += 1
            elif str(value.type) == "index" and maker_name(value) == "stream.dispatch.workgroup.id":
                dimensions.append(ir.IntegerAttr(value.owner.operation.attributes["dimension"]).value)
            elif str(value.type) == "index":
                sizes.append(self._shim_size(value))
            else:
                arguments.append(self._scalar(value))
                scalars.append(True)
        if results != len(self.returned) or dimensions != list(range(len(dimensions))):
            raise UnreadableError(calls[0], "a call that is not handed results and workgroup numbers as ours are")
        grid, grid_sizes = self._grid(len(dimensions))
        symbol = ir.FlatSymbolRefAttr(calls[0].attributes["callee"]).value
        objects = self._objects()
        return Call(symbol, tuple(arguments), tuple(scalars), results, tuple(sizes), grid, grid_sizes, objects)

    # ---- values of the shim ---------------------------------------------------------------------------------------

    def _binding(self, value: ir.Value) -> int | None:
        """The argument of the shim, a binding, that a pointer or a loaded scalar comes from."""
        kind = str(value.type)
        if kind == "index":
            return None
        pending, found = [value], set()
        while pending:
            at = pending.pop()
            if isinstance(at.owner, ir.Block):
                if str(at.type) == "!stream.binding":
                    found.add(ir.BlockArgument(at).arg_number)
            elif at.owner.operation.name != "stream.binding.subspan":
                pending.extend(at.owner.operation.operands)
            else:
                subspan = at.owner.operation
                if _integer(subspan.operands[1]) != 0:
                    raise UnreadableError(subspan, "a binding that is not taken from its start")
                pending.append(subspan.operands[0])
        return found.pop() if len(found) == 1 else None

    def _scalar(self, value: ir.Value) -> int:
        while not isinstance(value.owner, ir.Block):
            op = value.owner.operation
            if op.name not in ("arith.extui", "arith.extsi", "arith.bitcast"):
                raise UnreadableError(op, "a scalar that is made in the shim")
            value = op.operands[0]
        return self._argument(self.passed[ir.BlockArgument(value).arg_number])

    def _shim_size(self, value: ir.Value) -> Size:
        number = _integer(value)
        if number is not None:
            return number
        if not isinstance(value.owner, ir.Block):
            raise UnreadableError(value.owner.operation, "a size that is computed in the shim")
        return self._size(self.passed[ir.BlockArgument(value).arg_number])

    # ---- values of the function -----------------------------------------------------------------------------------

    def _argument(self, value: ir.Value) -> int:
        if not isinstance(value.owner, ir.Block):
            raise UnreadableError(value.owner.operation, "an operand of the dispatch that is not an argument")
        return int(ir.BlockArgument(value).arg_number)

    def _size(self, value: ir.Value) -> Size:
        number = _integer(value)
        if number is not None:
            return number
        if isinstance(value.owner, ir.Block):
            raise UnreadableError(self.function, "a size that is an argument")
        op = value.owner.operation
        if op.name == "arith.muli":
            left, right = map(self._size, op.operands)
            if isinstance(left, tuple) and isinstance(right, tuple):
                return (*left, *right)
        axis = _integer(op.operands[1]) if op.name == "tensor.dim" else None
        if axis is None:
            raise UnreadableError(op, "a size that is not a product of dims")
        return ((self._argument(op.operands[0]), axis),)

    # ---- grid and files -------------------------------------------------------------------------------------------

    def _grid(self, count: int) -> tuple[tuple[str, ...], tuple[Size, ...]]:
        blocks = list(self.export.regions[0].blocks) if len(self.export.regions) else []
        if not blocks:
            return (), ()
        counts = list(last_op(blocks[0]).operands)
        if any(_integer(value) != 1 for value in counts[count:]):
            raise UnreadableError(self.export, "workgroups in a dim whose number the function is not told")
        made = (_behind(value, "arith.maxsi", 0) for value in counts[:count])  # below nothing is nothing
        return tuple(map(self._grid_text, made)), tuple(map(self._size, self.workload))

    def _grid_text(self, value: ir.Value) -> str:
        text = self._part(value)
        return text[1:-1] if text.startswith("(") else text

    def _part(self, value: ir.Value) -> str:
        """A count as text, in brackets where it is a sum or the like."""
        number = _integer(value)
        if number is not None:
            return str(number)
        if isinstance(value.owner, ir.Block):
            return f"{{{ir.BlockArgument(value).arg_number}}}"
        op = value.owner.operation
        if (remainder := _remainder(op)) is not None:
            return f"({self._part(remainder[0])} % {self._part(_divisor(remainder[1]))})"
        if op.name not in _INFIX and op.name not in _FUNCTIONS:
            raise UnreadableError(op, "a workgroup count that our grids cannot say")
        left, right = op.operands
        if op.name in _DIVISIONS or op.name == "arith.remui":
            right = _divisor(right)
        if op.name in _INFIX:
            return f"({self._part(left)} {_INFIX[op.name]} {self._part(right)})"
        return f"{_FUNCTIONS[op.name]}({self._grid_text(left)}, {self._grid_text(right)})"

    def _objects(self) -> tuple[tuple[str, str], ...]:
        assert self.executable is not None
        if "hal.executable.objects" not in self.executable.attributes:
            raise UnreadableError(self.executable, "an executable that names no file")
        text = str(self.executable.attributes["hal.executable.objects"])
        found = []
        for backend, form, path in _OBJECT.findall(text):
            arch = _ARCHS.get(form.removeprefix("embedded-elf-").removeprefix("system-elf-"))
            if backend != "llvm-cpu" or arch is None:
                raise UnreadableError(self.executable, f"a target that is no CPU that we know: {backend} {form}")
            found.append((arch, path))
        if not found or len(found) != text.count("#hal.executable.object<"):
            raise UnreadableError(self.executable, "files that are not named by one path for each target")
        return tuple(found)


# ---- pieces ------------------------------------------------------------------------------------------------------


def _behind(value: ir.Value, name: str, least: int) -> ir.Value:
    """What a value is the larger of with a number, or the value."""
    op = defining_op(value)
    return op.operands[0] if op is not None and op.name == name and _integer(op.operands[1]) == least else value


def _divisor(value: ir.Value) -> ir.Value:
    """What is divided by, without our own guard."""
    return _behind(_behind(value, "arith.maxsi", 1), "arith.maxui", 1)


def _remainder(op: ir.Operation) -> tuple[ir.Value, ir.Value] | None:
    """a and b of `a - floordiv(a, b) * b`, as we write `a % b`."""
    whole = defining_op(op.operands[1]) if op.name == "arith.subi" else None
    times = defining_op(whole.operands[0]) if whole is not None and whole.name == "arith.muli" else None
    if whole is None or times is None or times.name != "arith.floordivsi":
        return None
    left, right = times.operands
    return (left, right) if (left, right) == (op.operands[0], whole.operands[1]) else None


def _integer(value: ir.Value) -> int | None:
    if maker_name(value) != "arith.constant":
        return None
    attribute = value.owner.operation.attributes["value"]
    return ir.IntegerAttr(attribute).value if isinstance(attribute, ir.IntegerAttr) else None
