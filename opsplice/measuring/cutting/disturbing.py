"""The same kernels under other circumstances, which are to give the same numbers.

On CPUs the workgroups come in the opposite order:  %id  =>  %count - 1 - %id

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


def backward(module: ir.Module) -> None:
    """Give each workgroup of a kernel the number that it has from the other end."""
    emit.load_dialects(module.context)
    with module.context, ir.Location.unknown():
        for executable in ops_in(module.operation, "stream.executable"):
            for op in list(ops_in(executable, "stream.dispatch.workgroup.id")):
                index, attributes = op.results[0].type, {"dimension": op.attributes["dimension"]}
                with ir.InsertionPoint.after(op):
                    count = emit.value("stream.dispatch.workgroup.count", [], index, **attributes)
                    last = emit.op("arith.subi", [count, emit.index(1)], [index])
                    turned = emit.op("arith.subi", [last.results[0], op.results[0]], [index])
                op.results[0].replace_all_uses_except(turned.results[0], [turned])


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
