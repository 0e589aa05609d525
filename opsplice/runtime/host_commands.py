"""Functions that a program calls while it runs: what a kernel `as command` is on the host.

A function of Python gets a numpy array for each buffer, in the kernel's own shape (a pack is one dim), a number for
each scalar, and then an array for each result, to be filled. A strided array has the strides that it has in the
program's memory, and all dims of a pack; None is what a match lacks. What it overwrites is its own copy. The program
notes what it calls, so that a compiled program and the files are all that is needed. Functions of libraries are called
alike (`tvm_functions.py`); those of a module that IREE has compiled it calls itself.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file
from opsplice.runtime import to_host, tvm_functions
from opsplice.runtime.value_text import ELEMENT_TYPES
from opsplice.targets.build import python_files

# The function in whose reflection a program notes what it calls (`rewrites/approaches/command.py` writes it).
_NOTES = "__opsplice_commands"
_COMPILED = ".vmfb"


class Commands:
    """The functions that programs may call, in files by the name of their module.

    Raises OpspliceError for a file that is not there or does not load.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._modules = {name: _loaded(name, path) for name, path in files.items() if path.suffix != _COMPILED}
        self._files = dict(files)
        self.failure: OpspliceError | KeyboardInterrupt | None = None  # of the last call

    def modules(self, program: Any, device: Any, load: Callable[[Path, str], Any]) -> list[Any]:
        """The modules to load before a program. Raises OpspliceError for a function that no file has.

        load: makes a module of a file that IREE has compiled, for messages of a name.
        """
        import iree.runtime

        by_module: dict[str, dict[str, Any]] = {}
        for name, signature in wanted(program).items():
            module, _, function = name.partition(".")
            by_module.setdefault(module, {})[function] = signature
        made = []
        for module, functions in by_module.items():
            if any(signature.get("compiled") for signature in functions.values()):
                made.append(self._compiled(module, functions, load))
                continue
            interface = iree.runtime.PyModuleInterface(module, lambda _interface: self)
            for name, signature in functions.items():
                call = partial(
                    _call, _Command(f"{module}.{name}", self._function(module, signature), signature, device)
                )
                interface.export(name, _convention(signature), _method(call))
            made.append(interface.create())
        return made

    def _compiled(self, module: str, functions: Mapping[str, Any], load: Callable[[Path, str], Any]) -> Any:
        """A module that IREE has compiled, which has the functions that are called."""
        path = self._files.get(module)
        if path is None:
            raise _no_file(next(iter(functions)), module, _COMPILED)
        loaded = load(path, str(path))
        check_compiled(loaded, path, module, functions)
        return loaded

    def _function(self, module: str, signature: Mapping[str, Any]) -> Callable[..., None]:
        name = signature["function"]
        if module not in self._modules:
            raise _no_file(name, module, ".py")
        function: Callable[..., None] | None = getattr(self._modules[module], name, None)
        if function is None or not callable(function):
            raise OpspliceError(f"{self._files[module]} has no function '{name}'", hint="the program calls it")
        return function


def check_compiled(loaded: Any, path: Path, module: str, functions: Iterable[str]) -> None:
    """Raise OpspliceError unless a module that IREE has compiled has the name and the functions that are called."""
    if loaded.name != module:
        raise OpspliceError(
            f"{path} is module @{loaded.name}, and the program calls {module}",
            hint=f"compile it as module @{module} {{ ... }}",
        )
    for name in functions:
        if name not in loaded.function_names:
            there = ", ".join(n for n in loaded.function_names if not n.startswith("__")) or "none"
            raise OpspliceError(f"{path} has no function '{name}'", hint=f"it has {there}")


def named_files(texts: Sequence[str]) -> dict[str, Path]:
    """Files by their module, as users name them: `blas=blas.py`, or the file alone, whose name is the module's."""
    pairs = (text.partition("=") for text in texts)
    return dict(
        (name, Path(path)) if equals else (python_files.module_of(name), Path(name)) for name, equals, path in pairs
    )


def _no_file(name: str, module: str, suffix: str) -> OpspliceError:
    return OpspliceError(
        f"the program calls '{name}' of {module}, and there is no file for it",
        hint=f"name it: --command {module}={module}{suffix}",
    )


class _Command:
    """One function that a program calls."""

    def __init__(self, name: str, function: Callable[..., None], signature: Mapping[str, Any], device: Any) -> None:
        self.name = name
        self.function = function
        self.device = device
        self.arguments = signature["arguments"]
        self.outputs = signature["outputs"]
        self.dims = signature["dims"]
        self.views = [a for a in self.arguments if a["view"]]
        self.scalars = _scalars(signature)


def wanted(program: Any) -> dict[str, Any]:
    """What a program calls on the host: signatures by name, `module.function`."""
    if _NOTES not in program.function_names:
        return {}
    notes = program.lookup_function(_NOTES).reflection
    return {name: json.loads(text) for name, text in notes.items() if "." in name and text.startswith("{")}


def _convention(signature: Mapping[str, Any]) -> str:
    """The types of a function as IREE's virtual machine writes them."""
    views = sum(a["view"] for a in signature["arguments"])
    scalars = ["F" if _is_float(a) else "I" for a in _scalars(signature)]
    counts = len(signature["dims"]) + signature.get("given", 0)
    return f"0{'r' * views}rr{''.join(scalars)}{'I' * counts}_{'r' * len(signature['outputs'])}"


def _scalars(signature: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The arguments that are passed as numbers."""
    return [a for a in signature["arguments"] if not a["view"] and not a.get("absent")]


def _is_float(argument: Mapping[str, Any]) -> bool:
    return argument["element"][0] in "fb"


def _method(call: Callable[..., Any]) -> Callable[..., Any]:
    def method(commands: Commands, *values: Any) -> Any:
        return call(commands, values)

    return method


def _call(command: _Command, commands: Commands, values: Sequence[Any]) -> Any:
    """Wait for what a function reads, call it, and let the program go on."""
    from iree.runtime import HalBufferView, HalFence

    count = len(command.views)
    views, (wait, signal), numbers = values[:count], values[count : count + 2], values[count + 2 :]
    try:
        before, after = (fence and fence.deref(HalFence, True) for fence in (wait, signal))  # either may be none
        if before is not None:
            before.wait()
        scalars = dict(zip((a["name"] for a in command.scalars), numbers, strict=False))
        counts = numbers[len(command.scalars) :]
        place = partial(_place, dict(zip(command.dims, counts, strict=False)), counts[len(command.dims) :])
        arrays = {}
        for argument, view in zip(command.views, views, strict=True):
            arrays[argument["name"]] = _array(command.device, view.deref(HalBufferView), argument, place(argument))
        given = [_given(a, arrays, scalars) for a in command.arguments]
        overwritten = {o["alias"] for o in command.outputs}
        given = [
            to_host.aligned_copy(g) if a["name"] in overwritten else g
            for a, g in zip(command.arguments, given, strict=True)
        ]
        named = dict(zip((a["name"] for a in command.arguments), given, strict=True))
        made_here = [o for o in command.outputs if o["alias"] is None]
        places = list(map(place, made_here))
        fresh = [_unfilled(at.held, _dtype(o)) for at, o in zip(places, made_here, strict=True)]
        passed = [at.found_in(memory) for at, memory in zip(places, fresh, strict=True)]
        returned = command.function(*given, *passed)
        _check_returned(returned, [named[o["alias"]] for o in command.outputs if o["alias"] is not None] + passed)
        _check_filled(fresh, made_here)
        rest = iter(fresh)
        outputs = [named[o["alias"]] if o["alias"] is not None else next(rest) for o in command.outputs]
        made = [to_host.on_device(command.device, np.asarray(each, order="C")).ref for each in outputs]
        if after is not None:
            after.signal()
    except BaseException as error:
        # IREE's binding makes one kind of error of all, so what it was is kept here.
        commands.failure = _failure(command.name, error)
        raise RuntimeError(command.name) from None
    return made[0] if len(made) == 1 else tuple(made)


def _unfilled(shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """An array for a result: NaN, -1 or False. It must not show what the memory held before."""
    array = to_host.aligned(shape, _raw(dtype))
    array.fill(0 if dtype == np.bool_ else _ones(dtype))
    return array.view(dtype)


def _ones(dtype: np.dtype) -> int:
    """A whole number of all ones, as wide as a type: the bits of a NaN that no arithmetic makes, or -1."""
    return (1 << 8 * dtype.itemsize) - 1


def _check_filled(fresh: Sequence[np.ndarray], outputs: Sequence[Mapping[str, Any]]) -> None:
    """Raise OpspliceError for an array of floats that is as it was. Of integers nobody can tell."""
    for number, (array, output) in enumerate(zip(fresh, outputs, strict=True), 1):
        if array.size and _is_float(output) and bool((array.view(_raw(array.dtype)) == _ones(array.dtype)).all()):
            which = f" {number}" if len(fresh) > 1 else ""
            raise OpspliceError(
                f"it did not fill its result{which}",
                hint="a command fills the arrays it gets for results: out[...] = ..., not out = ...",
            )


def _check_returned(returned: Any, outputs: Sequence[np.ndarray]) -> None:
    """Raise OpspliceError if a function returned what it should have filled.

    Only its one result it may return, as functions of numpy do with `out`.
    """
    if returned is None or (len(outputs) == 1 and returned is outputs[0]):
        return
    if inspect.iscoroutine(returned):
        returned.close()  # or Python warns that nobody waited for it
    raise OpspliceError(
        f"it returned a value of type {type(returned).__name__}",
        hint="a command is an ordinary function that fills the arrays it gets for results: out[...] = ...",
    )


def _failure(name: str, error: BaseException) -> OpspliceError | KeyboardInterrupt:
    """What a call failed with, for those who called the program."""
    if isinstance(error, KeyboardInterrupt):
        return KeyboardInterrupt()
    what = f"the command '{name}' failed:"
    if isinstance(error, OpspliceError):
        return OpspliceError(f"{what} {error.message}", hint=error.hint, details=error.details)
    return OpspliceError(f"{what} {type(error).__name__}: {error}", details="".join(traceback.format_exception(error)))


def _given(argument: Mapping[str, Any], arrays: Mapping[str, np.ndarray], scalars: Mapping[str, Any]) -> Any:
    name = argument["name"]
    if name in scalars:
        return bool(scalars[name]) if argument["element"] == "i1" else scalars[name]
    return arrays.get(name)  # none for what the match lacks


@dataclass(frozen=True)
class _Place:
    """Where the elements of an array lie. held: the shape of the memory that has them. strides: in elements."""

    shape: tuple[int, ...]
    held: tuple[int, ...]
    first: int = 0
    strides: tuple[int, ...] = ()

    def found_in(self, memory: np.ndarray) -> np.ndarray:
        """The array in its memory, which may be written to if that may be."""
        if self.shape == self.held and not self.strides:
            return memory
        strides = [stride * memory.itemsize for stride in self.strides]
        start, is_writeable = memory[self.first :], memory.flags.writeable
        return np.lib.stride_tricks.as_strided(start, self.shape, strides, writeable=is_writeable)


def _place(sizes: Mapping[str, int], given: Sequence[int], value: Mapping[str, Any]) -> _Place:
    """Where a buffer's elements lie. sizes: of the kernel's dims. given: what strides are at run time."""

    def number(told: Any) -> int:
        return int(given[told["given"]] if isinstance(told, dict) else sizes[told] if isinstance(told, str) else told)

    lies = value.get("lies")
    if lies is None:
        shape = tuple(map(number, value["shape"]))
        return _Place(shape, shape)
    shape, strides = (tuple(number(axis[at]) for axis in lies["axes"]) for at in (0, 1))
    return _Place(shape, (number(lies["count"]),), number(lies["offset"]), strides)


def _dtype(value: Mapping[str, Any]) -> np.dtype:
    element = value["element"]
    if element not in ELEMENT_TYPES:
        raise OpspliceError(f"numpy has no type for {element}", hint="pip install ml_dtypes")
    return np.dtype(ELEMENT_TYPES[element])


def _array(device: Any, view: Any, argument: Mapping[str, Any], place: _Place) -> np.ndarray:
    """The elements of a view, not to be written to: the device's own memory, or a copy where the host cannot see it."""
    dtype = _dtype(argument)
    if 0 in place.shape:
        return np.empty(place.shape, dtype)
    buffer = view.get_buffer()
    if to_host.is_mappable(buffer):
        found: np.ndarray = view.map().asarray(list(place.held), _raw(dtype)).view(dtype)
    else:
        copied = to_host.to_host(device, buffer, math.prod(place.held) * dtype.itemsize)
        found = to_host.aligned_copy(copied.view(dtype).reshape(place.held))
    found.flags.writeable = False
    return place.found_in(found)


def _raw(dtype: np.dtype) -> np.dtype:
    """Whole numbers of a type's width: IREE's binding knows no 16-bit floats of ml_dtypes."""
    return np.dtype(f"u{dtype.itemsize}")


def _loaded(name: str, path: Path) -> Any:
    """A file as a module of Python."""
    check_file(path, hint=f"the program calls functions of {name} in it")
    # Under a name of its own, and known by it, for what looks its module up (dataclasses, pickle).
    own = f"opsplice_command_{name}_{hashlib.sha256(os.fsencode(path.absolute())).hexdigest()[:12]}"
    if path.suffix == tvm_functions.SUFFIX:
        return tvm_functions.Library(path)
    if path.suffix != ".py":
        raise OpspliceError(
            f"{path} is not a Python file", hint=f"a command's file ends in .py, {tvm_functions.SUFFIX} or {_COMPILED}"
        )
    try:
        return python_files.load(own, path)
    except (Exception, SystemExit) as error:
        raise OpspliceError(
            f"{path} does not load: {type(error).__name__}: {error}", details=traceback.format_exc()
        ) from None
