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

from collections.abc import Sequence
from functools import partial

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.search.matches import Size
from opsplice.rewrites.approaches.approach import Approach, Later
from opsplice.rewrites.approaches.c_function_shim import without_dims
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import Placer, result_type
from opsplice.rewrites.link import scalar_link, spirv_function
from opsplice.rewrites.link.scalar_link import Function
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar

_LLVM_TYPES = {"f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


class Writer:
    """Writes marked loops into the module of a placer. `known` are the functions that they call, by name."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.known: set[str] = set()

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a loop at the current point. Raises OpspliceError for a file in MLIR that does not fit."""
        function = _function(call)
        if function.name not in self.known:
            kinds = (spirv_function.SUFFIX, spirv_function.LINKED)
            for path in sorted({path for _, path in function.objects if path.suffix in kinds}):
                spirv_function.check(path, function.symbol, function.inputs, function.output, call.kernel.span)
            self.known.add(function.name)
        (output,) = call.outputs
        kind = ir.RankedTensorType(result_type(output))
        dims = self.placer.open_sizes(kind, output.sizes)
        given = [self._operand(argument, kind, output.sizes, call) for argument in call.arguments]
        if all(value is None for value in given):
            # A number alone is one that varies, too.
            alone = call.arguments[0]
            assert isinstance(alone, Scalar), "a tensor is an operand"
            number = emit.constant(alone.number, ir.Type.parse(function.inputs[0]))
            given[0] = emit.value("tensor.from_elements", [number], ir.RankedTensorType.get([], number.type))
        operands = iter(self.placer.unfolded([value for value in given if value is not None]))
        given = [None if value is None else next(operands) for value in given]
        empty = emit.value("tensor.empty", dims, kind)
        return [_loop(function, call.arguments, given, empty)]

    def _operand(
        self, argument: Buffer | Scalar, kind: ir.RankedTensorType, sizes: tuple[Size, ...], call: KernelCall
    ) -> ir.Value | None:
        """What a loop over `kind` reads for an argument: a tensor of that shape, one of rank 0, or a scalar.

        None for a number. sizes: those of `kind`.
        """
        if isinstance(argument, Scalar) and argument.dim is not None:
            size = self.placer.size(call.dims[argument.dim])
            assert isinstance(size, ir.Value), "dims that are known are numbers"
            return emit.value("arith.index_cast", [size], ir.Type.parse(argument.element))
        if argument.value is None:
            return None
        value = self.placer.current(argument.value)
        if isinstance(argument, Scalar) or not isinstance(value.type, ir.RankedTensorType):
            return without_dims(value)
        return self.placer.fitted(value, ir.RankedTensorType.get(kind.shape, value.type.element_type), sizes)


def _function(call: KernelCall) -> Function:
    linked = [c for c in call.choices if c.artifact is not None and c.artifact.form == "bitcode"]
    return Function(
        kernel=call.kernel.name,
        symbol=call.symbol,
        inputs=tuple(a.element for a in call.arguments),
        output=call.outputs[0].element,
        objects=tuple(sorted(call.objects.items())),
        harmless=tuple(sorted(call.key(c.target) for c in linked if call.symbol in c.code.harmless)),
        imported=tuple(sorted(call.key(c.target) for c in call.choices if c.artifact is None)),
        origins=tuple(sorted(call.origins.items())),
    )


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
        made = scalar_link.leave_mark(function, values, kind.element_type)
        emit.op("linalg.yield", [made])
    return result


def _map(kind: ir.Type, rank: int) -> ir.AffineMap:
    """How a loop reads an operand: element by element, or the only one that there is."""
    single = not isinstance(kind, ir.RankedTensorType) or kind.rank == 0
    return ir.AffineMap.get(rank, 0, []) if single else ir.AffineMap.get_identity(rank)


class ElementFunction(Approach):
    """A function that IREE's own loops call for each element."""

    title = "static function"
    writer = Writer

    def name(self, call: KernelCall) -> str:
        return "dynamic function" if any(choice.artifact is None for choice in call.choices) else self.title

    def fits(self, call: KernelCall) -> bool:
        return call.kernel.is_scalar

    def check(self, call: KernelCall) -> None:
        """Raise OpspliceError for a function that is known to have other types than the kernel."""
        super().check(call)
        inputs = ", ".join(_LLVM_TYPES.get(a.element, a.element) for a in call.arguments)
        wanted = f"{_LLVM_TYPES.get(call.outputs[0].element, call.outputs[0].element)} ({inputs})"
        for choice in call.choices:
            known = choice.artifact is not None and not choice.target.is_cpu
            written = choice.code.signatures.get(call.symbol, wanted) if known else wanted
            if written != wanted:
                raise OpspliceError(
                    f"function {call.symbol} is `{written}`, and kernel {call.kernel.name} is `{wanted}`",
                    details=f"needed by the kernel at {call.kernel.span}",
                )

    def elements(self, call: KernelCall) -> set[str]:
        return set()

    def later(self, calls: Sequence[KernelCall]) -> Sequence[Later]:
        functions = {function.name: function for function in map(_function, calls)}
        edits = scalar_link.EDITS
        return [Later(phase, what, partial(edit, functions=functions)) for phase, what, edit in edits]
