"""Functions that Numba compiles, as kernels for CPUs and CUDA: arrays in, arrays filled, no Python left.

For CPUs Numba's own compiler makes LLVM IR of the function and of one around it, which is called as C functions are
and makes arrays of what it gets. All that is for Python is taken off. A function that fails ends the program, as a
crash does. For CUDA Numba makes PTX of an entry that takes what a dispatch is passed, makes arrays of that and calls
the function. Neither a GPU nor a driver is needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from opsplice.common.errors import OpspliceError
from opsplice.generating import Code, Request

_TYPES = {"f32": "float32", "f64": "float64", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}
_BUFFERS = {**_TYPES, "i1": "boolean"}
# As IREE passes them: in 32 bits if they are narrower, and sizes are as wide as addresses.
_SCALARS = {**_TYPES, "i1": "int32", "i8": "int32", "i16": "int32", "index": "intp"}
# As a dispatch gets them: dims are i32.
_WORDS = {"f32": "float32", "i1": "int32", "i8": "int32", "i16": "int32", "i32": "int32"}
_LETTERS = {"float32": "float", "float64": "double", "int32": "i32", "int64": "i64", "intp": "i64"}
# Counts references of arrays that own memory, of which there are none.
_COUNTING = re.compile(r"^define [^@]*@(NRT_(?:inc|dec)ref)\(.*?^}$", re.MULTILINE | re.DOTALL)
_FOR_PYTHON = ("NRT_", "Py", "numba_", "_Py")
# What an error of Numba's says of Numba, and of the function around the user's.
_OF_ENTRY = ("During: typing of call at <string>", 'File "<string>"', "<source ")
_OF_NUMBA = ("Failed in ", "During: Pass ", "During: resolving ", *_OF_ENTRY)

# The names of dims, and not of what they are given to.
_DIM = re.compile(r"[A-Za-z_]\w*\b(?!\s*\()")
_DIVISIONS = {"ceildiv": lambda x, y: -(-x // y), "floordiv": lambda x, y: x // y}


def compiled(function: Callable[..., Any], request: Request, **options: Any) -> Code:
    """A function as the code for a request: what a generator returns.

    function: plain, or with Numba's `jit` or `njit`, for CUDA `cuda.jit`. It gets an array for each buffer and a number
    for each scalar, in the order of the kernel's parameters, then an array to fill for each result; on CPUs then the
    workgroup's number for each dim of the grid. A pack is one dim. A `cfunc`, for CPUs, gets what a function in C does.
    options: of `numba.njit` or `cuda.jit`, such as `fastmath=True`. For CPUs those of the decorator hold, too.

    Raises OpspliceError for another target, for arrays of strided buffers, for a type that Numba lacks, for a `cfunc`
    with other arguments, for a function that needs Python or allocates memory, and for CUDA where Numba does not find
    NVIDIA's compiler, and for what Numba does not compile.
    """
    import numba
    from numba.core.ccallback import CFunc

    if request.target not in ("cpu", "cuda"):
        raise OpspliceError(f"Numba's functions become kernels for cpu and cuda, and this is for {request.target}")
    if request.layout and not (isinstance(function, CFunc) and request.target == "cpu"):
        raise OpspliceError(
            "Numba's arrays are dense, and this kernel has strided or optional buffers",
            hint="say `copied` of them, or for a CPU write a numba.cfunc, which gets pointers and strides",
        )
    if request.target == "cuda":
        return _for_cuda(function, request, options)
    parts = list(_parameters(request))
    if isinstance(function, CFunc):
        return _of_cfunc(function, [kind for _, kind, _ in parts], request.name)
    own = {name: value for name, value in getattr(function, "targetoptions", {}).items() if name != "nopython"}
    kernel = numba.njit(getattr(function, "py_func", function), **{"error_model": "numpy", **own, **options})
    names = ", ".join(name for name, _, _ in parts)
    passed = ", ".join(given for _, _, given in parts if given)
    scope = {
        "kernel": kernel,
        "carray": numba.carray,
        **{name: numba.njit(by, error_model="numpy") for name, by in _DIVISIONS.items()},
    }
    exec(f"def entry({names}):\n    kernel({passed})\n", scope)
    kinds = [_kind(kind) for _, kind, _ in parts]
    with _told_plainly(function):
        around = numba.cfunc(numba.types.void(*kinds), nopython=True)(scope["entry"])
    return _of_cfunc(around, [kind for _, kind, _ in parts], request.name)


@contextmanager
def _told_plainly(function: Any) -> Iterator[None]:
    """Say what Numba has against a function or an option, without what it says of itself."""
    from numba.core.errors import NumbaError

    try:
        yield
    except (NumbaError, KeyError, TypeError) as failure:
        said = str(failure.args[0] if isinstance(failure, KeyError) else failure).splitlines()
        first, *rest = [line for line in said if line.strip() and not line.startswith(_OF_NUMBA)] or ["no word why"]
        name = getattr(function, "__name__", "the function")
        raise OpspliceError(f"Numba does not compile {name}: {first}", details="\n".join(rest)) from None


def _of_cfunc(function: Any, kinds: list[str], name: str) -> Code:
    from numba import types

    found, wanted = function._sig, types.void(*map(_kind, kinds))
    if (found.return_type, *map(_told, found.args)) != (types.void, *map(_told, wanted.args)):
        raise OpspliceError(f"the cfunc is {found}, and the kernel needs {wanted}", hint="give it these types")
    inner = function.native_name.removeprefix("cfunc.")
    return Code(_alone(function.inspect_llvm(), inner, name, kinds), ".ll")


def _told(kind: Any) -> str:
    """A type without signs, which functions in C are passed alike."""
    return str(kind).replace("uint", "int")


def _parameters(request: Request) -> Iterator[tuple[str, str, str]]:
    """What a C function is passed: its name, its type (`float32*` for a buffer), and what the kernel gets for it."""
    for number, (element, shape) in enumerate(zip(request.elements, request.shapes, strict=True)):
        name, types = f"p{number}", _SCALARS if shape is None else _BUFFERS
        if element not in types:
            raise OpspliceError(f"Numba has no {element} on a CPU", hint="write the kernel in C")
        if shape is None:
            yield name, types[element], name
        else:
            yield name, f"{types[element]}*", f"carray({name}, {_sizes(shape, request)})"
    for dim in request.dims:
        yield f"dim_{dim}", "intp", ""
    for number in range(sum(name.startswith("stride(") for name in request.layout)):
        yield f"stride{number}", "intp", ""
    for number in range(len(request.grid)):
        yield f"workgroup{number}", "intp", f"workgroup{number}"


def _sizes(shape: Sequence[str], request: Request) -> str:
    return f"({''.join(f'{_size(dim, request)}, ' for dim in shape)})"


def _size(dim: str, request: Request) -> str:
    """A dim of a buffer, or arithmetic on dims, in Python: numbers where they are known."""

    def named(match: re.Match[str]) -> str:
        known = request.dims[match[0]]
        return f"dim_{match[0]}" if known is None else str(known)

    return _DIM.sub(named, dim)


def _kind(name: str) -> Any:
    from numba import types

    kind = getattr(types, name.removesuffix("*"))
    return types.CPointer(kind) if name.endswith("*") else kind


def _alone(text: str, inner: str, name: str, kinds: list[str]) -> str:
    """LLVM IR of Numba's with one function that is seen, without what is for Python."""
    from llvmlite import binding as llvm

    given = [f"{_LETTERS.get(kind, 'ptr')} %{number}" for number, kind in enumerate(kinds)]
    shim = f"""
define void @{name}({", ".join(given)}) {{
  %result = alloca ptr
  %raised = alloca ptr
  %status = call i32 @{inner}({", ".join(["ptr %result", "ptr %raised", *given])})
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %done, label %failed
done:
  ret void
failed:
  call void @llvm.trap()
  unreachable
}}
declare void @llvm.trap()
"""
    plain = _COUNTING.sub(r"define internal void @\1(ptr %object) { ret void }", text)
    module = llvm.parse_assembly(plain + shim)
    for function in module.functions:
        if not function.is_declaration and function.name != name:
            function.linkage = "internal"
    machine = llvm.Target.from_default_triple().create_target_machine(opt=3)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    left = sorted(f.name for f in module.functions if f.is_declaration and f.name.startswith(_FOR_PYTHON))
    if left:
        raise OpspliceError(
            f"the function needs {', '.join(left)} from Python's runtime, which a kernel does not have",
            hint="write loops over elements: np.empty, sums of arrays, x[i] = row and x.max() take memory or raise",
        )
    return str(module)


# ---- CUDA ----------------------------------------------------------------------------------------------------------


def _for_cuda(function: Callable[..., Any], request: Request, options: Mapping[str, Any]) -> Code:
    from numba import cuda, types
    from numba.cuda import dispatcher
    from numba.cuda.cudadrv.error import NvvmSupportError

    for name, element in (*request.buffers, *request.words):
        if element not in (_BUFFERS if (name, element) in request.buffers else _WORDS):
            raise OpspliceError(
                f"Numba's kernels for cuda take no {element}: {name}",
                hint="pass scalars as i32 or f32, and write kernels of other buffers in CUDA C",
            )
    buffers = [f"buffer_{name}" for name, _ in request.buffers]
    words = [f"dim_{name}" for name, _ in request.words]  # scalars come first
    left, scalars = iter(buffers), iter(words)
    passed = [
        next(scalars) if shape is None else f"array_at({next(left)}, {_sizes(shape, request)})"
        for shape in request.shapes
    ]
    kinds = [types.CPointer(getattr(types, _BUFFERS[element])) for _, element in request.buffers]
    kinds += [getattr(types, _WORDS[element]) for _, element in request.words]
    device = cuda.jit(getattr(function, "py_func", function), device=True, **options)
    divisions = {name: cuda.jit(by, device=True) for name, by in _DIVISIONS.items()}
    scope = {"kernel": device, "array_at": _array_at(), **divisions}
    exec(f"def entry({', '.join([*buffers, *words])}):\n    kernel({', '.join(passed)})\n", scope)
    major, minor = divmod(int(re.sub(r"\D", "", request.arch)), 10)
    # Numba asks the driver which GPU functions that are called are for, although it is told.
    gpu = SimpleNamespace(compute_capability=(major, minor))
    try:
        with mock.patch.object(dispatcher, "get_current_device", return_value=gpu), _told_plainly(function):
            text, _ = cuda.compile_ptx(scope["entry"], types.void(*kinds), cc=(major, minor), **options)
    except NvvmSupportError as error:
        raise OpspliceError(
            f"Numba finds no NVVM, which makes PTX: {error}", hint="install NVIDIA's CUDA toolkit, and set CUDA_HOME"
        ) from None
    (name,) = re.findall(r"\.entry (\w+)\(", text)
    return Code(re.sub(rf"\b{name}\b", request.name, text), ".ptx")


def _array_at() -> Any:
    """What makes a dense array of a pointer and sizes in Numba's code. `carray` is for CPUs only."""
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic
    from numba.np import arrayobj

    def array_at(context: Any, pointer: Any, shape: Any) -> Any:
        kind = types.Array(pointer.dtype, len(shape), "C")

        def made(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            pointer, sizes = given
            array = context.make_array(kind)(context, builder)
            told = zip(cgutils.unpack_tuple(builder, sizes), signature.args[1].types, strict=True)
            dims = [context.cast(builder, size, of, types.intp) for size, of in told]
            item = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            strides = [item]
            for dim in reversed(dims[1:]):
                strides.insert(0, builder.mul(strides[0], dim))
            data = builder.bitcast(pointer, array.data.type)
            arrayobj.populate_array(array, data=data, shape=dims, strides=strides, itemsize=item, meminfo=None)
            return array._getvalue()

        return kind(pointer, shape), made

    return intrinsic(array_at)
