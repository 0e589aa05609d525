"""Whether the file of a command has the function that a program is to call, as it is called. None of it is run."""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.rewrites.approaches.command import COMPILED, check_scalars, function_name, is_binding, is_recorded
from opsplice.rewrites.approaches.recorded_command import convention
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Scalar
from opsplice.runtime import tvm_functions
from opsplice.targets.build.python_files import module_of
from opsplice.targets.formats import elf

# With these words a file can define what is not seen in its text.
_DYNAMIC = ("globals", "exec", "setattr", "__getattr__", "vars", "locals")
# Element types that IREE declares with a sign, and those that are passed as others.
_ALIKE = {"index": "i64"}


def check(calls: Iterable[KernelCall]) -> None:
    """Raise OpspliceError if the file of a command lacks the function that is to be called, or is damaged, or the
    function is known to take other values."""
    checked = set()
    for call in calls:
        for path in dict.fromkeys(choice.clause.file for choice in call.choices if choice.clause.is_command):
            # Which types are passed depends on nothing else but where the program has its scalars.
            key = (path, function_name(call), *(a.element for a in call.arguments))
            if key not in checked:
                checked.add(key)
                _check(call, path)


def _check(call: KernelCall, path: Path) -> None:
    try:
        if path.suffix == COMPILED:
            _check_compiled(call, path)
        elif path.suffix == tvm_functions.SUFFIX:
            _check_library(call, path)
        else:
            _check_python(call, path)
    except OpspliceError as error:
        raise error.noting(f"needed by the kernel at {call.kernel.span}") from None


def _check_library(call: KernelCall, path: Path) -> None:
    exports = elf.read_library(read_file(path), path.name).exports or frozenset()
    if tvm_functions.PREFIX + call.symbol in exports:
        return
    there = sorted(name.removeprefix(tvm_functions.PREFIX) for name in exports if name.startswith(tvm_functions.PREFIX))
    raise OpspliceError(
        f"{path} has no function '{call.symbol}' with TVM's interface",
        hint=f"it has {', '.join(there)}" if there else "TVM_FFI_DLL_EXPORT_TYPED_FUNC(NAME, FUNCTION) exports one",
    )


# ---- Python ----------------------------------------------------------------------------------------------------------


def _check_python(call: KernelCall, path: Path) -> None:
    symbol = call.symbol
    try:
        module = ast.parse(read_file(path), filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else str(path)
        raise OpspliceError(f"{where} is not valid Python: {getattr(error, 'msg', error)}") from None
    names = list(_defined(module.body))
    if names.count(symbol) == 1 and not _is_dynamic(module):
        _check_called(call, path, module)
    if symbol in names or not {"*", "__getattr__"}.isdisjoint(names) or _is_dynamic(module):
        return
    functions = sorted(node.name for node in module.body if isinstance(node, ast.FunctionDef))
    raise OpspliceError(
        f"{path} has no function '{symbol}'", hint=f"it has {', '.join(functions)}" if functions else None
    )


def _check_called(call: KernelCall, path: Path, module: ast.Module) -> None:
    """Raise OpspliceError for a plain function of other parameters, or that has no use for one it is to fill."""
    functions = (node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == call.symbol)
    function = next(functions, None)
    if function is None or function.decorator_list:
        return
    results = sum(1 for output in call.outputs if output.alias is None)
    count = len(call.arguments) + results
    own = function.args
    names = [each.arg for each in (*own.posonlyargs, *own.args)]
    wanting = [a.arg for a, default in zip(own.kwonlyargs, own.kw_defaults, strict=True) if default is None]
    most = math.inf if own.vararg is not None else len(names)
    if not len(names) - len(own.defaults) <= count <= most or wanting:
        passed = [a.name for a in call.arguments] + ["one result" if results == 1 else f"{results} results"] * (
            results > 0
        )
        raise OpspliceError(
            f"'{call.symbol}' in {path} takes ({ast.unparse(own)}), and kernel {call.kernel.name} passes "
            f"{count}: {', '.join(passed)}",
            hint="it is called with an array or a number for each parameter, then an array to fill for each result",
        )
    if any(map(_leaves, ast.walk(function))):
        return
    used = set(_used(function))
    for name in names[len(call.arguments) : count]:
        if name not in used:
            raise OpspliceError(
                f"'{call.symbol}' in {path} never fills its result '{name}'", hint=f"write it: {name}[...] = ..."
            )


def _leaves(node: ast.AST) -> bool:
    """Whether a function may raise or return something here; what it returns is refused when it is called."""
    yields = isinstance(node, (ast.Yield, ast.YieldFrom, ast.Raise))
    return yields or (isinstance(node, ast.Return) and node.value is not None)


def _used(function: ast.FunctionDef) -> Iterator[str]:
    """The names whose values a function uses, to change them in place too."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


def _is_dynamic(module: ast.Module) -> bool:
    return any(isinstance(node, ast.Name) and node.id in _DYNAMIC for node in ast.walk(module))


def _defined(body: Iterable[ast.stmt]) -> Iterator[str]:
    """The names that statements define at the top of a module; `*` for those of another module."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            continue
        for each in ast.walk(node):  # in branches, loops and so on as well
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
                yield each.id
            elif each is not node and isinstance(each, ast.stmt):
                yield from _defined([each])


# ---- modules that IREE has compiled ----------------------------------------------------------------------------------


def _check_compiled(call: KernelCall, path: Path) -> None:
    import iree.runtime

    from opsplice.runtime.declared_functions import ValueType, declared_function
    from opsplice.runtime.host_commands import check_compiled
    from opsplice.runtime.loaded_program import read_module

    check_scalars(call)
    module = read_module(read_file(path), str(path), iree.runtime.VmInstance())
    name = function_name(call)
    check_compiled(module, path, module_of(str(path)), [name])
    if is_recorded(call.kernel):
        _check_recorded(call, path, str(module.lookup_function(name)))
        return
    function = declared_function(name, module.lookup_function(name).reflection)
    if not function.takes_fences:
        raise OpspliceError(
            f"{path} is not compiled as a command is",
            hint="compile it with --iree-execution-model=async-external",
        )
    if function.inputs is None or function.outputs is None:
        return
    given = [_told(each) for each in call.arguments]
    made = [_tensor(output.element, len(output.shape)) for output in call.outputs]

    def fits(declared: ValueType, wanted: str) -> bool:
        if declared.element is None:
            return True
        element = _ALIKE.get(declared.element, declared.element)
        rank = None if declared.shape is None else len(declared.shape)
        return wanted == (element if rank is None else _tensor(_signless(element), rank))

    for what, own, wanted in (("takes", function.inputs, given), ("makes", function.outputs, made)):
        if len(own) != len(wanted) or not all(itertools.starmap(fits, zip(own, wanted, strict=True))):
            raise OpspliceError(
                f"'{name}' in {path} {what} ({', '.join(map(str, own))}), and kernel {call.kernel.name} "
                f"{'passes' if what == 'takes' else 'wants'} ({', '.join(wanted)})"
            )


def _check_recorded(call: KernelCall, path: Path, function: str) -> None:
    """function: as IREE prints it, with its calling convention."""
    found, wanted = re.search(r"\((0\w*)\)", function), convention(call)
    if found is None or found[1] == wanted:
        return
    raise OpspliceError(
        f"{function_name(call)} in {path} takes {found[1]}, and kernel {call.kernel.name} passes {wanted}",
        hint="a command buffer (r), for each buffer its slot (I), itself (r), its offset and length (II), "
        "for other scalars i, I, f or F, for each dim I, and then four for each result",
    )


def _told(argument: Buffer | Scalar) -> str:
    """The type that a compiled function gets for an argument."""
    if isinstance(argument, Buffer):
        return _tensor(argument.element, len(argument.shape))
    element = _ALIKE.get(argument.element, argument.element)
    return _tensor(element, 0) if is_binding(argument) else element


def _tensor(element: str, rank: int) -> str:
    return f"tensor<{'?x' * rank}{element}>"


def _signless(element: str) -> str:
    """`i8` of `ui8` and `si8`: kernels know no signs."""
    return element[1:] if element[:2] in ("ui", "si") else element
