"""Triton functions as kernels for CUDA and ROCm: code that IREE can launch, made without a GPU.

    from softmax import softmax_kernel  # @triton.jit, in softmax.py
    from opsplice.generating import Request, triton_code

    def generate(request: Request):
        arguments = ("out", "x", "stride(x, m)", "n", "m", "n")
        return triton_code.compiled(softmax_kernel, request, {"BLOCK": 1024}, arguments, num_warps=4)

A small Triton function around the user's takes what a dispatch is passed, in its order, and calls the user's with what
that wants. Triton's own launcher passes an entry two pointers behind its parameters. IREE does not, so both are taken
out of the code, and functions that need them are refused.
"""

from __future__ import annotations

import dataclasses
import inspect
import linecache
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opsplice.common.errors import OpspliceError, one_of
from opsplice.generating import Code, Request

_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64"}
# Scratch memory that all workgroups share, and that of Triton's profiler.
_HIDDEN = 2
# Buffers begin at a multiple of 64 bytes. More than 16 makes no difference to Triton.
_ALIGNED = 16
_SHARED = re.compile(r"\.extern \.shared \.align \d+ \.b8 \w+\[\];\n?")
_WIDE = "(({1}.to(tl.int64) << 32) | {0}.to(tl.uint32, bitcast=True).to(tl.int64))"
# How a scalar is made of its words. Those of i32 and f32, dims and strides are words as they are.
_SCALARS = {
    "i1": "({0} != 0)",
    "i8": "{0}.to(tl.int8)",
    "i16": "{0}.to(tl.int16)",
    "f16": "{0}.to(tl.int16).to(tl.float16, bitcast=True)",
    "bf16": "{0}.to(tl.int16).to(tl.bfloat16, bitcast=True)",
    "i64": _WIDE,
    "index": _WIDE,
    "f64": f"{_WIDE}.to(tl.float64, bitcast=True)",
}


def compiled(
    function: Any,
    request: Request,
    constants: Mapping[str, Any] | None = None,
    arguments: Sequence[str | int | float | None] | None = None,
    **options: Any,
) -> Code:
    """What a generator returns for a function that is `@triton.jit`, for CUDA or ROCm.

    constants: its parameters that are `tl.constexpr`, as far as neither they nor `@triton.heuristics` say them.
    arguments: what its other parameters get, in order: names of `request.buffers` and `request.words`, numbers, None;
    without them all buffers, then scalars, dims and what is said of strides. options: Triton's own, `num_warps=8`.
    Raises OpspliceError for a function that wants something else, or memory that IREE does not give.
    """
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # as Triton 3.9 does by default, with a warning
    from triton import compiler
    from triton._C.libtriton import llvm

    if arguments is None:
        arguments = list(dict.fromkeys(name for name, _ in (*request.buffers, *request.words)))
    kernel, fixed = _unwrapped(function, request, arguments, constants or {})
    wrapper = _wrapper(kernel, request, fixed, arguments)
    given = [*request.buffers, *request.words]
    types = ["*" + _TYPES.get(element, element) for _, element in request.buffers]
    types += ["fp32" if element == "f32" else "i32" for _, element in request.words]
    signature = dict(zip(wrapper.arg_names, [*types, *["constexpr"] * len(fixed)], strict=True))
    aligned = (at for at, (name, _) in enumerate(given) if at < len(request.buffers) or _is_even(request.known(name)))
    attributes = {(at,): [["tt.divisibility", _ALIGNED]] for at in aligned}
    source = compiler.ASTSource(fn=wrapper, signature=signature, constexprs=dict(fixed), attrs=attributes)
    target = _target(request)
    backend = compiler.make_backend(target)
    _check_options(options, backend)
    try:
        made = compiler.compile(source, target=target, options=options)
    except compiler.errors.CompilationError as failure:
        raise _refused(kernel, fixed, failure) from None
    scratch = sum(getattr(made.metadata, f"{kind}_scratch_size", 0) for kind in ("global", "profile"))
    if scratch:
        raise OpspliceError(
            f"{kernel.__name__} needs {scratch} bytes of scratch memory, which IREE does not give",
            hint="use fewer stages or no tensor descriptors that are made on the device",
        )
    if request.target == "cuda":
        return Code(launchable_ptx(made.asm["ptx"], request.name, made.metadata.shared), ".ptx", made.metadata.shared)
    llvm.init_targets()  # Triton does so where it compiles, not where its cache has what it compiled
    threads = made.metadata.num_warps * made.metadata.warp_size
    text = launchable_amdgcn(made.asm["amdgcn"], len(given), threads, made.metadata.shared)
    return Code(backend.make_hsaco(text, {}, backend.parse_options(options)), ".hsaco")


def _check_options(options: Mapping[str, Any], backend: Any) -> None:
    """Raises OpspliceError for an option that Triton does not have, which it would pass over in silence."""
    known = [each.name for each in dataclasses.fields(backend.parse_options({}))]
    if wrong := next((name for name in options if name not in known), None):
        raise OpspliceError(f"Triton has no option {wrong}", hint=one_of(wrong, known))


def _refused(kernel: Any, fixed: Mapping[str, Any], failure: Any) -> OpspliceError:
    """What Triton says against a function. Each call in it hides what is wrong inside behind an error of its own."""
    while isinstance(failure.__cause__, type(failure)):
        failure = failure.__cause__
    lines = str(failure).removesuffix(said := failure.error_message or "").rstrip()
    unknown = [name for name, value in fixed.items() if value is None]
    return OpspliceError(
        f"Triton does not compile {kernel.__name__}: {said or 'this is not what it knows'}",
        details=lines,
        hint=f"{unknown[0]} is None, as a dim is that is known at run time alone" if unknown else None,
    )


def _target(request: Request) -> Any:
    from triton.backends.compiler import GPUTarget

    if request.target == "cuda":
        return GPUTarget("cuda", int(re.sub(r"\D", "", request.arch)), 32)
    if request.target == "rocm":
        chip = request.arch.partition(":")[0]
        return GPUTarget("hip", chip, 64 if chip.startswith("gfx9") else 32)
    raise OpspliceError(f"Triton functions become kernels for cuda and rocm, and this is for {request.target}")


def _is_even(number: int | float | None) -> bool:
    return isinstance(number, int) and number % _ALIGNED == 0


def _unwrapped(
    function: Any, request: Request, arguments: Sequence[Any], constants: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """The function inside of Triton's decorators, and its constants in order. Raises OpspliceError for others."""
    chosen = dict(constants)
    while not hasattr(function, "params"):
        if not hasattr(function, "fn"):
            raise OpspliceError(
                f"{getattr(function, '__name__', function)} is not a Triton function: decorate it with `@triton.jit`"
            )
        if hasattr(function, "values"):
            names = [name for name in function.arg_names if name not in function.values and name not in chosen]
            numbers = [request.known(a) if isinstance(a, str) else a for a in arguments]
            known = {**dict(zip(names, numbers, strict=False)), **chosen}
            for name in (name for name in function.values if name not in chosen):
                chosen[name] = _heuristic(function.values[name], name, known)
        function = function.fn
    fixed = {p.name: chosen.get(p.name, p.default) for p in function.params if p.is_constexpr}
    unset = [name for name, value in fixed.items() if value is inspect.Parameter.empty]
    if unset or not set(chosen) <= set(fixed):
        raise OpspliceError(
            f"the constants of {function.__name__} are {', '.join(fixed) or 'none'}, and given are "
            f"{', '.join(chosen) or 'none'}"
        )
    return function, fixed


def _heuristic(rule: Any, name: str, known: Mapping[str, Any]) -> Any:
    try:
        return rule(known)
    except Exception as error:
        raise OpspliceError(
            f"the heuristic for {name} fails ({type(error).__name__}: {error}): sizes that are only known at run time "
            "are None",
            hint=f"give {name} as a constant",
        ) from None


def _wrapper(kernel: Any, request: Request, fixed: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
    """A Triton function that takes what a dispatch is passed, and the constants, and calls another."""
    import triton
    import triton.language as tl

    passed: dict[str, list[str]] = {}
    elements = dict((*request.buffers, *request.words))
    for at, (name, _) in enumerate((*request.buffers, *request.words)):
        passed.setdefault(name, []).append(f"passed_{at}")
    buffers = {name for name, _ in request.buffers}
    values = {
        name: words[0] if name in buffers else _SCALARS.get(elements[name], "{0}").format(*words)
        for name, words in passed.items()
    }
    names = [name for name in kernel.arg_names if name not in fixed]
    unknown = [each for each in arguments if isinstance(each, str) and each not in values]
    there = f"there are {', '.join(values)}"
    if unknown:
        raise OpspliceError(f"nothing that {request.kernel} is passed is called {unknown[0]}", hint=there)
    if len(names) != len(arguments):
        raise OpspliceError(
            f"{kernel.__name__} has {len(names)} parameters besides its constants, and is given {len(arguments)}",
            hint=f"say `arguments=`, one for each of {', '.join(names)}; {there}",
        )
    told = [f"{name}={values.get(each, repr(each))}" for name, each in zip(names, arguments, strict=True)]
    told += [f"{name}={name}" for name in fixed]
    parameters = [*(word for words in passed.values() for word in words), *(f"{n}: tl.constexpr" for n in fixed)]
    lines = [f"def {request.name}({', '.join(parameters)}):\n", f"    opsplice_kernel({', '.join(told)})\n"]
    # Triton reads the text of a function from where Python's tracebacks do.
    file = f"<opsplice {request.name}>"
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    scope: dict[str, Any] = {"tl": tl, "opsplice_kernel": kernel, "__name__": __name__}
    exec(compile("".join(lines), file, "exec"), scope)
    return triton.jit(scope[request.name])


def launchable_ptx(text: str, entry: str, shared: int) -> str:
    """Triton's PTX as IREE launches it: without what only Triton passes. shared: bytes.

    Raises OpspliceError for text that needs it.
    """
    head = re.search(rf"(\.entry {re.escape(entry)}\()([^)]*)(\))", text)
    if head is None:
        raise OpspliceError(f"Triton made no entry {entry}")
    parameters = head[2].split(",")
    kept, hidden = parameters[:-_HIDDEN], parameters[-_HIDDEN:]
    rest = text[head.end() :]
    if any(re.search(rf"\b{re.escape(parameter.split()[-1])}\b", rest) for parameter in hidden):
        raise OpspliceError(f"{entry} takes what only Triton's launcher passes")
    before = text[: head.start()] if shared else _SHARED.sub("", text[: head.start()])
    return f"{before}{head[1]}{','.join(kept)}\n{head[3]}{rest}"


def launchable_amdgcn(text: str, passed: int, threads: int, shared: int) -> str:
    """Triton's assembly for AMD as IREE launches it: without what only Triton passes, and with its workgroup.

    passed: how many parameters a dispatch gets. shared: bytes, which Triton's launcher gives. IREE's gives none, so the
    kernel says them itself. What the hardware passes stays where it was.
    Raises OpspliceError for assembly with other parameters.
    """
    text = re.sub(r"(group_segment_fixed_size:?\s+)0\b", rf"\g<1>{shared}", text)
    head, found, listed = text.partition(".args:\n")
    every = re.findall(r"      - (?:.+\n(?:        .+\n)*)", listed[: listed.find("    .group_segment")])
    own = [each for each in every if ".value_kind:     hidden_" not in each]
    if not found or len(own) != passed + _HIDDEN:
        raise OpspliceError(f"Triton made a kernel of {len(own)} parameters, and {passed} are passed")
    for each in own[passed:]:
        listed = listed.replace(each, "", 1)
    sizes = f"    .reqd_workgroup_size:\n      - {threads}\n      - 1\n      - 1\n"
    return f"{head}{found}{listed.replace('    .group_segment_fixed_size', sizes + '    .group_segment_fixed_size', 1)}"
