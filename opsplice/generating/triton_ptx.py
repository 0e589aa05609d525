"""Triton functions as kernels for CUDA: PTX that IREE can launch, made without a GPU.

    import triton
    import triton.language as tl
    from opsplice.generating import Request, triton_ptx

    @triton.jit
    def softmax(x, out, m, n, BLOCK: tl.constexpr):
        ...

    def generate(request: Request):
        return triton_ptx.compiled(softmax, request, {"BLOCK": 1024}, num_warps=4)

Triton's own launcher passes an entry two pointers behind its parameters, and shared memory of the launch. IREE passes
what the kernel's signature says, so both are taken out of the text where they hold nothing, and refused where they do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opsplice.errors import OpspliceError
from opsplice.generating import Request

_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
# Scratch memory that all workgroups share, and that of Triton's profiler.
_HIDDEN = 2
# What a kernel may share that no launch gives it.
_MOST_SHARED = 48 << 10
_SHARED = re.compile(r"\.extern (\.shared \.align \d+ \.b8 \w+)\[\];")
# Buffers begin at a multiple of 64 bytes.
_ALIGNED = [["tt.divisibility", 16]]


def compiled(
    function: Any, request: Request, constants: Mapping[str, Any] | None = None, **options: Any
) -> tuple[str, str]:
    """What a generator returns for a function that is `@triton.jit`.

    Its parameters are the kernel's buffers, scalars and dims in the order in which a dispatch gets them, under any
    names. constants: those that are `tl.constexpr`. options: Triton's own, such as `num_warps=8`.
    Raises OpspliceError for a function with other parameters, one that needs memory that IREE does not give, and
    another target than CUDA.
    """
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as Triton 3.9 does by default, with a warning
    from triton import compiler
    from triton.backends.compiler import GPUTarget

    if request.target != "cuda":
        raise OpspliceError(f"Triton functions become kernels for cuda, and this is for {request.target}")
    signature = _signature(function, request, constants or {})
    attributes = {(at,): _ALIGNED for at in range(len(request.buffers))}
    source = compiler.ASTSource(fn=function, signature=signature, constexprs=dict(constants or {}), attrs=attributes)
    made = compiler.compile(source, target=GPUTarget("cuda", int(re.sub(r"\D", "", request.arch)), 32), options=options)
    scratch = made.metadata.global_scratch_size + made.metadata.profile_scratch_size
    if scratch:
        raise OpspliceError(
            f"{made.metadata.name} needs {scratch} bytes of scratch memory, which IREE does not give",
            hint="use fewer stages or no tensor descriptors that are made on the device",
        )
    return launchable(made.asm["ptx"], made.metadata.name, request.name, made.metadata.shared), ".ptx"


def _signature(function: Any, request: Request, constants: Mapping[str, Any]) -> dict[str, str]:
    """Triton's types of a function's parameters. Raises OpspliceError where they are not what a dispatch gets."""
    fixed = [parameter.name for parameter in function.params if parameter.is_constexpr]
    if set(fixed) != set(constants):
        raise OpspliceError(
            f"the constants of {function.__name__} are {', '.join(fixed) or 'none'}, and given are "
            f"{', '.join(constants) or 'none'}"
        )
    given = ["*" + _TYPES.get(element, element) for element in request.buffers]
    given += ["fp32" if element == "f32" else "i32" for _, element in request.words]
    names = [name for name in function.arg_names if name not in fixed]
    if len(names) != len(given):
        words = ", ".join(name for name, _ in request.words) or "nothing else"
        raise OpspliceError(
            f"{function.__name__} has {len(names)} parameters besides its constants, and a dispatch gets {len(given)}",
            hint=f"they are {len(request.buffers)} buffers, then {words}; also those that it does not use",
        )
    types = dict(zip(names, given, strict=True))
    return {name: types.get(name, "constexpr") for name in function.arg_names}


def launchable(text: str, entry: str, name: str, shared: int) -> str:
    """Triton's PTX as IREE launches it: under another name, without what only Triton passes. shared: bytes.

    Raises OpspliceError for text that takes something else, and for more shared memory than a kernel can hold.
    """
    if shared > _MOST_SHARED:
        raise OpspliceError(
            f"{entry} shares {shared} bytes in a workgroup, and a kernel holds {_MOST_SHARED}",
            hint="choose smaller blocks or fewer stages",
        )
    head = re.search(rf"(\.entry ){re.escape(entry)}(\()([^)]*)(\))", text)
    if head is None:
        raise OpspliceError(f"Triton made no entry {entry}")
    parameters = head[3].split(",")
    kept, hidden = parameters[:-_HIDDEN], parameters[-_HIDDEN:]
    rest = text[head.end() :]
    if any(_is_used(parameter, rest) for parameter in hidden):
        raise OpspliceError(f"{entry} takes what only Triton's launcher passes")
    memory = rf"\1[{shared}];" if shared else ""
    before = _SHARED.sub(memory, text[: head.start()])
    return f"{before}{head[1]}{name}{head[2]}{','.join(kept)}\n{head[4]}{rest}"


def _is_used(parameter: str, text: str) -> bool:
    name: Sequence[str] = parameter.split()
    return not name or re.search(rf"\b{re.escape(name[-1])}\b", text) is not None
