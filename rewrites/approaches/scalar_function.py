"""Static function on elements: IREE makes the loop, fuses it with its neighbours, and calls the function in its body.

    %r = divf(%x, addf(absf(%x), 1))    =>    %r = linalg.generic ins(%x) outs(%empty) {
                                                ^bb0(%e: f32, %o: f32):
                                                  %v = llvm.inline_asm "opsplice.call softsign_1f2e" %e : (f32) -> f32
                                                  yield %v }

The asm is a mark, no code: an op without effects, on scalars of any types, which no pass folds, evaluates or widens to
vectors. (A call in its place counts as an effect, and IREE would keep the loop twice.) `scalar_link.py` puts calls in
the place of the marks, once for each target, when the code around them is made.

What comes from constants alone IREE would compute while it compiles, where there is no function: a barrier keeps it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.errors import OpspliceError
from opsplice.matchers.search.matches import Size
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.rewrites.ir.placing import Placer, builtin_type
from opsplice.rewrites.link import spirv_function
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar
from opsplice.targets.artifacts.artifact import Artifact

# No assembler knows the word, so that a mark that is left over is an error.
_WORD = "opsplice.call "
_LLVM_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


@dataclass(frozen=True)
class Function:
    """A function that marks stand for.

    inputs, output: its types, as MLIR writes them.
    objects: for each executable target of the program, as MLIR writes it, the file with the function's code.
    harmless: those of these targets for which LLVM may inline it and run it on any numbers.
    imported: such targets for which the function comes when the program is loaded.
    origins: the files that the kernel names for these.
    """

    kernel: str
    symbol: str
    inputs: tuple[str, ...]
    output: str
    objects: tuple[tuple[str, Path], ...]
    harmless: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    origins: tuple[tuple[str, Path], ...] = ()

    @property
    def name(self) -> str:
        """A name that no other function has, made of letters and digits."""
        code = (*(f"{target}{path}" for target, path in (*self.objects, *self.origins)), *self.imported)
        parts = (self.symbol, *self.inputs, self.output, *code)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{self.stem}_{digest}"

    @property
    def stem(self) -> str:
        """What the names of all functions of this symbol begin with."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.symbol)

    def file(self, target: str) -> Path | None:
        """The file for a target given as MLIR writes it, None where there is none."""
        found = dict(self.objects)
        return next((found[key] for key in _keys(target) if key in found), None)

    def is_harmless(self, target: str) -> bool:
        """Whether the function may run on any numbers where the code for a target, as MLIR writes it, has it."""
        return any(key in self.harmless for key in _keys(target))

    def is_imported(self, target: str) -> bool:
        """Whether the function comes later for a target given as MLIR writes it."""
        return any(key in self.imported for key in _keys(target))


Functions = Mapping[str, Function]


def _keys(target: str) -> tuple[str, str]:
    """What a target may be known as: in full, or by its backend and format alone."""
    parsed = parse_target(target)
    return target, f'#hal.executable.target<"{parsed.backend}", "{parsed.format}">'


class Writer:
    """Writes marked loops into the module of a placer. `functions` are those that they call.

    varies: whether a value is made from something else than constants.
    """

    def __init__(self, placer: Placer, varies: Callable[[ir.Value], bool]) -> None:
        self.placer = placer
        self.varies = varies
        self.functions: dict[str, Function] = {}

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a loop at the current point. Raises OpspliceError for a file in MLIR that does not fit."""
        function = self._function(call)
        (output,) = call.outputs
        kind = ir.RankedTensorType(builtin_type(output.root))
        dims = [self._size(output.sizes[axis]) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]
        given = [self._operand(argument, kind, dims, call) for argument in call.arguments]
        operands = [value for value in given if value is not None]
        if not operands:
            # A number alone is one that varies, too.
            alone = call.arguments[0]
            assert isinstance(alone, Scalar), "a tensor is an operand"
            number = emit.constant(alone.number, ir.Type.parse(function.inputs[0]))
            given[0] = emit.value("tensor.from_elements", [number], ir.RankedTensorType.get([], number.type))
        if not any(self.varies(value) for value in operands):
            first = next(i for i, value in enumerate(given) if value is not None)
            held = given[first]
            assert held is not None
            given[first] = emit.value("util.optimization_barrier", [held], held.type)
        empty = emit.value("tensor.empty", dims, kind)
        return [_loop(function, call.arguments, given, empty)]

    def _function(self, call: KernelCall) -> Function:
        function = Function(
            kernel=call.kernel.name,
            symbol=call.symbol,
            inputs=tuple(a.element for a in call.arguments),
            output=call.outputs[0].element,
            objects=tuple(sorted(call.objects.items())),
            harmless=call.harmless,
            imported=call.importing,
            origins=tuple(sorted(call.origins.items())),
        )
        if function.name not in self.functions:
            for path in sorted({path for _, path in function.objects if path.suffix == spirv_function.SUFFIX}):
                spirv_function.check(path, function.symbol, function.inputs, function.output, call.kernel.span)
            self.functions[function.name] = function
        return function

    def _operand(
        self, argument: Buffer | Scalar, kind: ir.RankedTensorType, dims: Sequence[ir.Value], call: KernelCall
    ) -> ir.Value | None:
        """What a loop over `kind` reads for an argument: a tensor of that shape, one of rank 0, or a scalar.

        None for a number. dims: the dynamic sizes of `kind`.
        """
        if isinstance(argument, Scalar) and argument.dim is not None:
            size = self.placer.size(call.dims[argument.dim])
            assert isinstance(size, ir.Value), "dims that are known are numbers"
            return emit.value("arith.index_cast", [size], ir.Type.parse(argument.element))
        if argument.value is None:
            return None
        value = self.placer.current(argument.value)
        if not isinstance(value.type, ir.RankedTensorType):
            return value
        element = value.type.element_type
        if isinstance(argument, Scalar):
            return _shaped(value, ir.RankedTensorType.get([], element), [])
        return _shaped(value, ir.RankedTensorType.get(kind.shape, element), dims)

    def _size(self, size: Size) -> ir.Value:
        return emit.index(size) if isinstance(size, int) else self.placer.axis(size)


def check_artifacts(call: KernelCall, artifacts: Sequence[Artifact]) -> None:
    """Raise OpspliceError for a function that is known to have other types than the kernel."""
    inputs = ", ".join(_LLVM_TYPES.get(a.element, a.element) for a in call.arguments)
    wanted = f"{_LLVM_TYPES.get(call.outputs[0].element, call.outputs[0].element)} ({inputs})"
    for artifact in artifacts:
        written = artifact.signatures.get(call.symbol, wanted)
        if written != wanted:
            raise OpspliceError(
                f"function {call.symbol} is `{written}`, and kernel {call.kernel.name} is `{wanted}`",
                details=f"needed by the kernel at {call.kernel.span}",
            )


def name_in(mark: ir.Operation) -> str | None:
    """The name of the function that an op marks a call of, None if it is no mark."""
    if mark.name != "llvm.inline_asm":
        return None
    text = ir.StringAttr(mark.attributes["asm_string"]).value
    return text.removeprefix(_WORD) if text.startswith(_WORD) else None


def stem_of(name: str) -> str:
    """What a function's name begins with."""
    return name.rpartition("_")[0]


def _shaped(value: ir.Value, kind: ir.RankedTensorType, dims: Sequence[ir.Value]) -> ir.Value:
    """A tensor with the shape of `kind`, of as many elements in the same order. dims: the dynamic sizes of `kind`."""
    if value.type == kind:
        return value
    own = ir.RankedTensorType(value.type)
    unknown = ir.ShapedType.get_dynamic_size()
    if own.rank == kind.rank and all(a == b or unknown in (a, b) for a, b in zip(own.shape, kind.shape, strict=True)):
        return emit.value("tensor.cast", [value], kind)
    axes = [axis for axis in range(own.rank) if own.is_dynamic_dim(axis)]
    old = [emit.value("tensor.dim", [value, emit.index(axis)], ir.IndexType.get()) for axis in axes]
    segments = ir.DenseI32ArrayAttr.get([1, len(old), len(dims)])
    return emit.op("flow.tensor.reshape", [value, *old, *dims], [kind], {"operandSegmentSizes": segments}).results[0]


def _loop(
    function: Function, arguments: Sequence[Buffer | Scalar], given: Sequence[ir.Value | None], empty: ir.Value
) -> ir.Value:
    """A loop over all elements of a tensor. given: what it reads for each argument, None for a number."""
    kind = ir.RankedTensorType(empty.type)
    operands = [value for value in given if value is not None]
    maps = [_map(value.type, kind.rank) for value in operands]
    result, block = emit.loop(operands, maps, empty)
    with ir.InsertionPoint(block):
        read = iter(block.arguments)
        values = [
            emit.constant(argument.number, ir.Type.parse(argument.element))
            if value is None and isinstance(argument, Scalar)
            else next(read)
            for argument, value in zip(arguments, given, strict=True)
        ]
        attributes = {
            "asm_string": emit.text(_WORD + function.name),
            "constraints": emit.text(",".join(["=r", *["r"] * len(values)])),
        }
        made = emit.op("llvm.inline_asm", values, [kind.element_type], attributes).results[0]
        emit.op("linalg.yield", [made])
    return result


def _map(kind: ir.Type, rank: int) -> ir.AffineMap:
    """How a loop reads an operand: element by element, or the only one that there is."""
    single = not isinstance(kind, ir.RankedTensorType) or kind.rank == 0
    return ir.AffineMap.get(rank, 0, []) if single else ir.AffineMap.get_identity(rank)
