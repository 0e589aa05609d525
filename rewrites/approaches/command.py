"""Command: the host computes the match, in order with what the device does.

    %r = linalg.matmul(%a, %b)      =>      %ready, %done = fences
                                            %a1, %b1 = hal.tensor.barrier join(%a, %b) => %ready
                                            %v = util.call @blas.matmul(%a1, %b1, %ready, %done, %m, %k, %n)
                                            %r = hal.tensor.import wait(%done) => %v

`blas` is a module that is loaded before the program, of a Python file or anything else that IREE can load. The call
gets a view of each buffer in the kernel's own shape, the fence to wait for, the fence to signal, and then the scalars
and the dims, as i64 and f64, and what strides are at run time. It returns a view of each result. IREE's virtual machine
does the call while it records work, so this is not a command inside of a command buffer: it splits one in two, and
costs a submission more.

A module that IREE has compiled (`blas.vmfb`) is called as IREE calls functions whose execution model is async-external:
with views and scalars in the order of the parameters, and then the fences.

What the functions of a program take is noted, as JSON, in the reflection of a function that nobody calls.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.approaches.approach import Approach
from opsplice.rewrites.approaches.c_function_shim import scalar_value, without_dims
from opsplice.rewrites.approaches.static_function import Writer
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.placing import result_type
from opsplice.rewrites.ir.reflection import add_notes, notes_of
from opsplice.rewrites.ir.symbols import defined, symbols
from opsplice.rewrites.layouts import stride_words, strides
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output, Scalar
from opsplice.rewrites.plan.clause_choice import check_alike
from opsplice.spec_lang.syntax import tree
from opsplice.targets.build.python_files import module_of

# The function whose reflection has an entry for each import.
NOTES = "__opsplice_commands"

# What a file ends in whose module IREE has compiled.
COMPILED = ".vmfb"

_FENCE = "!hal.fence"
# Types that IREE's virtual machine does not have.
_NO_SCALARS = ("f16", "bf16")


def is_compiled(kernel: tree.Kernel) -> bool:
    """Whether a kernel that is a command is a function of a module that IREE has compiled."""
    return any(clause.is_command and clause.path.endswith(COMPILED) for clause in kernel.artifacts)


def is_recorded(kernel: tree.Kernel) -> bool:
    """Whether a kernel that is a command records what is to be done, and does nothing itself."""
    return any(clause.is_recorded for clause in kernel.artifacts)


def is_binding(argument: Buffer | Scalar) -> bool:
    """Whether an argument is a buffer that is there, or a scalar that is held in one."""
    if isinstance(argument, Buffer):
        return argument.value is not None
    return isinstance(getattr(argument.value, "type", None), ir.RankedTensorType)


def function_name(call: KernelCall) -> str:
    """What a module has the function of a call as: where the program has its scalars is part of the name."""
    held = [a.name for a in call.arguments if isinstance(a, Scalar) and is_binding(a)]
    return "-".join([call.symbol, *held])


def check_scalars(call: KernelCall) -> None:
    """Raise OpspliceError for a scalar that a module which IREE has compiled cannot take."""
    for argument in call.arguments:
        if isinstance(argument, Scalar) and not is_binding(argument) and argument.element in _NO_SCALARS:
            raise OpspliceError(
                f"a module that IREE has compiled takes no scalar of {argument.element}: {argument.name}",
                hint="pass it as f32, or in a tensor",
            )


class CommandWriter(Writer):
    """Writes calls of the host."""

    def results(self, call: KernelCall) -> Sequence[ir.Value]:
        """Build a call at the current point. The results are of the builtin types of the match's roots."""
        bound = [a for a in call.arguments if is_binding(a)]
        sizes = {name: self.placer.size(size) for name, size in call.dims.items()}
        tensors = [self._shaped(v, a, sizes) for v, a in zip(self._values(bound), bound, strict=True)]
        ready, done = self._fence(), self._fence()
        joined = emit.op("hal.tensor.barrier", [*tensors, ready], [t.type for t in tensors]).results
        views = list(map(emit.exported, joined))
        if is_compiled(call.kernel):
            rest = iter(views)
            given = [next(rest) if is_binding(a) else self._as_it_is(a, sizes) for a in call.arguments]
            operands = [*given, ready, done]
        else:
            own = [a for a in call.arguments if isinstance(a, Scalar) and not is_binding(a)]
            scalars = [self._scalar(a, sizes) for a in own]
            counts = [_wide(emit.size(size)) for size in sizes.values()]
            given = [_wide(self.placer.amount(amount)) for amount in strides.passed(call)]
            operands = [*views, ready, done, *scalars, *counts, *given]
        made = [ir.Type.parse(emit.VIEW)] * len(call.outputs)
        callee = ir.FlatSymbolRefAttr.get(self._declared(call, "util.func", [v.type for v in operands], made))
        returned = emit.op("util.call", operands, made, {"callee": callee}).results
        return [self._result(view, done, o, sizes) for view, o in zip(returned, call.outputs, strict=True)]

    def _values(self, bound: Sequence[Buffer | Scalar]) -> list[ir.Value]:
        """The values of arguments, which IREE is kept from computing when it compiles."""
        return self.placer.unfolded([self.placer.given(argument) for argument in bound])

    def _fence(self) -> ir.Value:
        device = emit.value("hal.devices.get", [emit.index(0)], ir.Type.parse("!hal.device"))
        return emit.value(
            "hal.fence.create", [device], ir.Type.parse(_FENCE), flags=ir.IntegerAttr.get(_signless(64), 0)
        )

    def _shaped(self, value: ir.Value, argument: Buffer | Scalar, sizes: Mapping[str, Any]) -> ir.Value:
        """A tensor in the kernel's own shape, or as it lies in memory."""
        if isinstance(argument, Scalar):
            return without_dims(value)
        if argument.layout is not None:
            return value
        return emit.reshape(value, *kernel_type(argument.shape, value.type, sizes))

    def _as_it_is(self, argument: Buffer | Scalar, sizes: Mapping[str, Any]) -> ir.Value:
        """A scalar of its own type."""
        assert isinstance(argument, Scalar), "buffers are views"
        return scalar_value(self.placer, argument, sizes)

    def _scalar(self, argument: Buffer | Scalar, sizes: Mapping[str, Any]) -> ir.Value:
        if isinstance(argument, Scalar) and argument.number is not None:
            return emit.constant(argument.number, ir.F64Type.get() if argument.element[0] in "fb" else _signless(64))
        return _wide(self._as_it_is(argument, sizes))

    def _result(self, view: ir.Value, done: ir.Value, output: Output, sizes: Mapping[str, Any]) -> ir.Value:
        kind, dims = kernel_type(output.shape, result_type(output), sizes)
        if output.layout is not None:  # its elements, as they lie in memory
            count = output.layout.count
            size = self.placer.amount(count) if count.number is None else count.number
            kind = emit.tensor_type([size], kind.element_type)
            dims = [size] if isinstance(size, ir.Value) else []
        encoding = {"target_encoding": ir.TypeAttr.get(kind)}
        tensor = emit.grouped("hal.tensor.import", [[view], dims, [done], []], [kind], encoding).results[0]
        return self._as_root(tensor, output)

    def _as_root(self, tensor: ir.Value, output: Output) -> ir.Value:
        """A result as the tensor that it takes the place of."""
        kind = ir.RankedTensorType(result_type(output))
        return emit.reshape(tensor, kind, self.placer.open_sizes(kind, output.sizes))

    def _declared(
        self,
        call: KernelCall,
        what: str,
        given: Sequence[ir.Type],
        made: Sequence[ir.Type],
        more: Mapping[str, ir.Attribute] | None = None,
    ) -> str:
        """The function that a call is of, declared by the op `what`, and noted."""
        clauses = [clause for clause in call.kernel.artifacts if clause.is_command]
        check_alike(call.kernel, ((f"a command of {module_of(clause.path)}", clause) for clause in clauses))
        check_alike(call.kernel, ((f"`as {clause.form}`", clause) for clause in clauses))
        module, signature = self.placer.module, _signature(call)
        name = self._free_name(call, f"{module_of(clauses[0].path)}.{function_name(call)}", signature)
        if name not in symbols(module):
            more = {"nosideeffects": ir.UnitAttr.get()} if more is None else more
            attributes = emit.named(name, function_type=emit.type_of(given, made), **more)
            emit.op(what, attributes=attributes, regions=1, at=ir.InsertionPoint.at_block_begin(module.body))
            _note(module, name, signature)
        return name

    def _free_name(self, call: KernelCall, wanted: str, signature: dict[str, Any]) -> str:
        """The name of an import that is noted with this signature, or not yet.

        A function of Python may be called with several; the program then imports it under several names. One of a
        module that IREE has compiled has one name and one signature, of which the kernel's own names are not part.
        """
        notes = _notes(self.placer.module)
        if not is_compiled(call.kernel):
            names = (wanted if number == 1 else f"{wanted}${number}" for number in itertools.count(1))
            return next(name for name in names if json.loads(notes.get(name, "null")) in (None, signature))
        if wanted in notes and _types(json.loads(notes[wanted])) != _types(signature):
            raise OpspliceError(
                f"{wanted} is called with different types by two kernels",
                hint="give each kernel a symbol that no other kernel has",
                details=f"one of them is at {call.kernel.span}",
            )
        return wanted


# ---- notes ---------------------------------------------------------------------------------------------------------


def _signature(call: KernelCall) -> dict[str, Any]:
    """What a function takes and makes, as data."""

    def shape(dims: Sequence[tree.Dim]) -> list[Any]:
        return [dim.size if dim.size is not None else dim.name for dim in dims]

    def lies(each: Buffer | Scalar | Output) -> dict[str, Any]:
        if isinstance(each, Scalar) or each.layout is None:
            return {}
        return {"lies": stride_words.noted(call, each)}

    arguments = [
        {
            "name": a.name,
            "element": a.element,
            "shape": shape(a.shape) if isinstance(a, Buffer) else [],
            "view": is_binding(a),
            **({"absent": True} if isinstance(a, Buffer) and a.value is None else lies(a)),
        }
        for a in call.arguments
    ]
    outputs = [{"element": o.element, "shape": shape(o.shape), "alias": o.alias, **lies(o)} for o in call.outputs]
    signature: dict[str, Any] = {"function": call.symbol, "arguments": arguments, "outputs": outputs}
    signature |= {"dims": list(call.dims), "given": len(strides.passed(call))}
    return signature | ({"compiled": True} if is_compiled(call.kernel) else {})


def _types(signature: dict[str, Any]) -> Any:
    """What a compiled module's function depends on in a signature."""
    arguments = [(a["view"], a["element"], len(a["shape"])) for a in signature["arguments"]]
    return arguments, [(o["element"], len(o["shape"])) for o in signature["outputs"]]


def _notes(module: ir.Module) -> dict[str, str]:
    """What is noted, by name."""
    found = defined(module.operation).get(NOTES)
    return {} if found is None else {name: ir.StringAttr(text).value for name, text in notes_of(found).items()}


def _note(module: ir.Module, name: str, signature: dict[str, Any]) -> None:
    found = defined(module.operation).get(NOTES)
    if found is None:
        with ir.InsertionPoint(module.body):
            attributes = emit.named(NOTES, "public", function_type=emit.type_of([]))
            found = emit.op("util.func", attributes=attributes, regions=1).operation
        with ir.InsertionPoint(emit.block(found)):
            emit.op("util.return")
    add_notes(found, {name: json.dumps(signature)})


# ---- values --------------------------------------------------------------------------------------------------------


def _signless(bits: int) -> ir.Type:
    return ir.IntegerType.get_signless(bits)


def _wide(value: ir.Value) -> ir.Value:
    """A scalar as i64 or f64."""
    long, double = _signless(64), ir.F64Type.get()
    if value.type in (long, double):
        return value
    if isinstance(value.type, ir.IndexType):
        return emit.value("arith.index_cast", [value], long)
    if not isinstance(value.type, ir.IntegerType):
        return emit.value("arith.extf", [_single(value)], double)
    return emit.value("arith.extui" if value.type == _signless(1) else "arith.extsi", [value], long)


def _single(value: ir.Value) -> ir.Value:
    """A float as f32 or f64. IREE's virtual machine has none that are narrower, but their bits."""
    word, single = _signless(32), ir.F32Type.get()
    if value.type in (single, ir.F64Type.get()):
        return value

    def op(name: str, left: ir.Value, right: int) -> ir.Value:
        return emit.value(f"arith.{name}", [left, emit.constant(right, word)], word)

    bits = emit.value("arith.extui", [emit.value("arith.bitcast", [value], _signless(16))], word)
    if isinstance(value.type, ir.BF16Type):
        return emit.value("arith.bitcast", [op("shli", bits, 16)], single)
    sign, rest = op("shli", op("andi", bits, 0x8000), 16), op("shli", op("andi", bits, 0x7FFF), 13)
    # As an f32 these bits are the number times 2**-112, subnormal ones too; what has the largest exponent is none.
    small = emit.value("arith.bitcast", [rest], single)
    scaled = emit.value("arith.mulf", [small, emit.constant(2.0**112, single)], single)
    special = emit.compared("u>=", rest, emit.constant(0x7C00 << 13, word))
    number = emit.value("arith.bitcast", [scaled], word)
    chosen = emit.value("arith.select", [special, op("ori", rest, 0x7F800000), number], word)
    return emit.value("arith.bitcast", [emit.value("arith.ori", [chosen, sign], word)], single)


def kernel_type(
    dims: Sequence[tree.Dim], like: ir.Type, sizes: Mapping[str, Any]
) -> tuple[ir.RankedTensorType, list[ir.Value]]:
    """A tensor type in the kernel's own shape, and the sizes that it does not say. like: one with its elements."""
    shape = [dim.size if dim.size is not None else sizes[dim.name or ""] for dim in dims]
    kind = emit.tensor_type(shape, ir.RankedTensorType(like).element_type)
    return kind, [size for size in shape if isinstance(size, ir.Value)]


class Command(Approach):
    """A function of the host."""

    title = "command"
    writer = CommandWriter
    shares_names = False

    def fits(self, call: KernelCall) -> bool:
        return all(choice.clause.is_command for choice in call.choices)

    def check(self, call: KernelCall) -> None:
        """There are no workgroups, and `opsplice/runtime/command_files.py` compares functions with their calls."""

    def elements(self, call: KernelCall) -> set[str]:
        scalars = (a.element for a in call.arguments if isinstance(a, Scalar))
        passed = {"f64" if element[0] in "fb" else "i64" for element in scalars}
        return passed | ({"i64"} if call.dims or call.kernel.grid else set())
