"""The same kernels under other circumstances, which are to give the same numbers.

On CPUs the workgroups come in the opposite order:  %id  =>  %count - 1 - %id. A whole dispatch gets a copy of IREE's
struct that says so; one in an executable of its own does not.

On Vulkan, too (`turned_shader.py`). And on all GPUs kernels see more than their buffers, so that what they read there
is another each time:

    stream.cmd.dispatch {ro %x[%c0 for %c140]}  =>  stream.cmd.dispatch {ro %x[%c0 for %c16524]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from iree.compiler import ir

from opsplice.matchers.ir.op_names import ops_in, symbol_of
from opsplice.measuring.cutting.turned_shader import asks_for_lengths, turned
from opsplice.measuring.verifying.guarded_memory import BEHIND
from opsplice.rewrites.ir import emit

_EXECUTABLE = re.compile(r"@(\w+)::")
_PATH = re.compile(r'path = "([^"]+)"')
_IDS = ("stream.dispatch.workgroup.id", "hal.interface.workgroup.id")
# A dispatch and a workgroup of targets/build/include/opsplice_dispatch.h, and where a workgroup's numbers are in both.
_DISPATCH = "!llvm.struct<(i32, i32, i16, i16, i32, i32, i16)>"
_WORKGROUP = "!llvm.struct<(i32, i32, i16, i16, i32, ptr, i32)>"
_NUMBERS = ((4, 0, "i32"), (5, 1, "i32"), (6, 2, "i16"))


def backward(module: ir.Module) -> None:
    """Give each workgroup of a kernel the number that it has from the other end."""
    with emit.building(module):
        for executable in ops_in(module.operation, "stream.executable", "hal.executable"):
            for op in list(ops_in(executable, *_IDS)):
                index, attributes = op.results[0].type, {"dimension": op.attributes["dimension"]}
                with ir.InsertionPoint.after(op):
                    count = emit.value(f"{op.name.removesuffix('id')}count", [], index, **attributes)
                    last = emit.op("arith.subi", [count, emit.index(1)], [index])
                    turned = emit.op("arith.subi", [last.results[0], op.results[0]], [index])
                op.results[0].replace_all_uses_except(turned.results[0], [turned])
            for call in list(ops_in(executable, "llvm.call")):
                if call.parent.name == "llvm.func":
                    _turn_around(call)


def _turn_around(call: ir.Operation) -> None:
    """Pass a whole dispatch the number that its workgroup has from the other end."""
    steps = [f"%dispatch = llvm.load %d : !llvm.ptr -> {_DISPATCH}", f"%w0 = llvm.load %w : !llvm.ptr -> {_WORKGROUP}"]
    for at, (count, number, kind) in enumerate(_NUMBERS):
        steps += [
            f"%count{at} = llvm.extractvalue %dispatch[{count}] : {_DISPATCH}",
            f"%number{at} = llvm.extractvalue %w{at}[{number}] : {_WORKGROUP}",
            f"%one{at} = llvm.mlir.constant(1 : {kind}) : {kind}",
            f"%last{at} = llvm.sub %count{at}, %one{at} : {kind}",
            f"%turned{at} = llvm.sub %last{at}, %number{at} : {kind}",
            f"%w{at + 1} = llvm.insertvalue %turned{at}, %w{at}[{number}] : {_WORKGROUP}",
        ]
    function, callee = call.parent, call.attributes["callee"]
    body = "\n".join(steps)
    text = f"""
      llvm.func {callee}(!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
      llvm.func @turned(%e: !llvm.ptr, %d: !llvm.ptr, %w: !llvm.ptr) -> i32 {{
        {body}
        %copy = llvm.alloca %one0 x {_WORKGROUP} : (i32) -> !llvm.ptr
        llvm.store %w{len(_NUMBERS)}, %copy : {_WORKGROUP}, !llvm.ptr
        %0 = llvm.call {callee}(%e, %d, %copy) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> i32
        llvm.return %0 : i32
      }}"""
    made = ir.Module.parse(text)
    turned = made.body.operations[1].operation.clone(ip=ir.InsertionPoint(function))
    turned.attributes["sym_name"] = function.attributes["sym_name"]
    function.erase()


def disturb(module: ir.Module) -> None:
    """Let kernels see the memory behind the buffers that the caller gives, and turn shaders' workgroups around.

    It is done at the end of phase `stream`. A shader that asks how long its buffers are sees what is there.
    """
    emit.load_dialects(module.context)
    asking = set(_turned(module))
    with module.context, ir.Location.unknown():
        for execution in ops_in(module.operation, "stream.cmd.execute"):
            count = int(_segments(execution)[0])
            arguments = execution.regions[0].blocks[0].arguments
            given = [number for number in range(count) if _is_given(execution.operands[number])]
            wider = {arguments[number]: _longer(execution, count + number, execution) for number in given}
            for dispatch in ops_in(execution, "stream.cmd.dispatch"):
                if asking.isdisjoint(_EXECUTABLE.findall(str(dispatch.attributes["entry_points"]))):
                    _widen(dispatch, wider, execution)


def _widen(dispatch: ir.Operation, wider: dict[ir.Value, ir.Value], execution: ir.Operation) -> None:
    workload, words, count, *_ = _segments(dispatch)
    for number in range(count):
        buffer, size, _, length = (workload + words + number + count * part for part in range(4))
        if dispatch.operands[buffer] in wider:
            dispatch.operands[size] = wider[dispatch.operands[buffer]]
            _longer(dispatch, length, execution)


def _longer(op: ir.Operation, number: int, before: ir.Operation) -> ir.Value:
    """Add to an operand that is a size; the sum stands before another op."""
    size = op.operands[number]
    with ir.InsertionPoint(before):
        op.operands[number] = emit.value("arith.addi", [size, emit.index(BEHIND)], size.type)
    return op.operands[number]


def _is_given(value: ir.Value) -> bool:
    """Whether a buffer is the caller's."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "stream.tensor.import"


def _segments(op: ir.Operation) -> list[int]:
    return [*map(int, ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))]


def _turned(module: ir.Module) -> Iterator[str]:
    """Turn the shaders of a module around, and give the executables with those that ask how long their buffers are."""
    for executable in ops_in(module.operation, "hal.executable"):
        for variant in ops_in(executable, "hal.executable.variant"):
            paths = _PATH.findall(str(variant.attributes["objects"])) if "objects" in variant.attributes else []
            shaders = [Path(path).read_bytes() for path in paths if path.endswith(".spv")]
            if any(map(asks_for_lengths, shaders)):
                yield symbol_of(executable)
            if shaders:
                texts = ", ".join(map(_object, map(turned, shaders)))
                variant.attributes["objects"] = ir.Attribute.parse(f"[{texts}]", module.context)


def _object(shader: bytes) -> str:
    data = f'dense<"0x{shader.hex().upper()}"> : vector<{len(shader)}xi8>'
    return f'#hal.executable.object<{{path = "turned.spv", data = {data}}}>'
