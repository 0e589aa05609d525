"""Code that is made for one match: what a generator is told, and how a user's file of Python is asked for it.

A generator is called for each distinct request. Its file is executed anew for each compile, so that nothing is left of
an earlier one; what it returns is kept by its content alone, so that only building it is done once.
"""

from __future__ import annotations

import dataclasses
import difflib
import hashlib
import inspect
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import is_file
from opsplice.common.store import Store, key_of
from opsplice.matchers.search.matches import Size
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.layouts import stride_words
from opsplice.rewrites.plan import interface
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output, Scalar
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.backends.backend_table import name_of
from opsplice.targets.build import python_files

# Part of every key. Raise it when the same text is to be kept in another way.
_WRITER = "generated 1"
_ANY = "generate"
_MOST_FRAMES = 8
_DIGITS = 10  # of a digest in a symbol

# The kinds of text that become a kernel, by the backends of requests.
_SUFFIXES: dict[str, tuple[str, ...]] = {
    "cpu": (".c", ".ll"),
    "cuda": (".cu", ".ll", ".ptx"),
    "rocm": (".hsaco",),
    "vulkan": (".comp", ".slang", ".wgsl"),
    "metal": (".metal",),
}
_BINARY = (".hsaco",)
_WITH_INCLUDES = (".c", ".cu", ".comp", ".slang")


@dataclass(frozen=True)
class Request:
    """What a generator is to write code for.

    name:      the symbol that the code must define; it differs wherever anything below but the target does.
    kernel:    the kernel's own symbol, with types filled in.
    dims:      the kernel's dims; a pack is the product; None where only known at run time.
    types:     type variables and the elements that they stand for.
    elements:  of the parameters in order, then of the results that are not written in place. shapes: their dims, as the
               kernel writes them, without the dots of packs; None for scalars.
    numbers:   the scalar parameters that are known numbers.
    layout:    of strided and optional buffers: {"first(x)": 0, "stride(x, n)": 1, "has(bias)": 1}; None where only
               known at run time.
    buffers:   what a dispatch binds, in order: names and elements. words: its words, alike; functions of C on CPUs get
               scalars, dims and strides as their signature says.
    grid:      as the kernel writes it, such as ("ceildiv(m, 16)",). workgroup: its threads, on GPUs.
    target:    "cpu", "cuda", "rocm", "vulkan" or "metal". arch: such as "x86_64" or "sm_80".
    features:  without signs, such as "avx2".
    """

    name: str
    kernel: str
    dims: Mapping[str, int | None]
    types: Mapping[str, str]
    elements: tuple[str, ...]
    numbers: Mapping[str, int | float]
    layout: Mapping[str, int | None]
    buffers: tuple[tuple[str, str], ...]
    words: tuple[tuple[str, str], ...]
    grid: tuple[str, ...]
    workgroup: tuple[int, ...]
    target: str = ""
    arch: str = ""
    features: frozenset[str] = frozenset()
    shapes: tuple[tuple[str, ...] | None, ...] = field(default=(), repr=False)

    def known(self, name: str) -> int | float | None:
        """The number that a scalar, a dim or a word of `layout` is, None where only known at run time."""
        return {**self.numbers, **self.dims, **self.layout}.get(name)


@dataclass(frozen=True)
class Code:
    """What a generator returns: a text, or the bytes of a code object, and its kind, such as ".cu".

    shared: the bytes that a launch gives each workgroup to share, for CUDA and ROCm.
    """

    text: str | bytes
    suffix: str
    shared: int = 0


def request_of(call: KernelCall, count: Callable[[Any], int | None]) -> Request:
    """The request for a call, for no target yet. count: a size as one number, None if only known at run time."""
    sizes: Mapping[str, Size | tuple[Size, ...]] = call.dims
    results = (o.element for o in call.outputs if o.alias is None)
    request = Request(
        name="",
        kernel=call.symbol,
        dims=MappingProxyType({name: count(size) for name, size in sizes.items()}),
        types=MappingProxyType(dict(call.types)),
        elements=(*(a.element for a in call.arguments), *results),
        numbers=MappingProxyType(
            {a.name: a.number for a in call.arguments if isinstance(a, Scalar) and a.number is not None}
        ),
        layout=MappingProxyType({word.name: word.amount.number for word in stride_words.words(call)}),
        buffers=tuple((name, element) for name, element, _ in interface.bindings(call)),
        words=tuple(interface.words(call)),
        grid=tuple(size.span.written for size in call.kernel.grid),
        workgroup=call.kernel.workgroup,
        shapes=tuple(_shape(each) for each in (*call.arguments, *(o for o in call.outputs if o.alias is None))),
    )
    # The text of a number tells -0.0 from 0.0.
    digest = hashlib.sha256(repr(request).encode()).hexdigest()[:_DIGITS]
    return dataclasses.replace(request, name=re.sub(r"\W+", "_", f"{call.symbol}_{digest}"))


def _shape(value: Buffer | Scalar | Output) -> tuple[str, ...] | None:
    return None if isinstance(value, Scalar) else tuple(str(dim).removeprefix("...") for dim in value.shape)


def for_target(request: Request, target: ProgramTarget, workgroup: tuple[int, ...]) -> Request:
    """The request with what the code is to run on. workgroup: that of the clause."""
    arch = str(archs.normalize(target.arch)) if target.is_cpu else target.arch
    backend, features = name_of(target.backend), target.feature_names
    return dataclasses.replace(request, target=backend, arch=arch, features=features, workgroup=workgroup)


@dataclass(frozen=True)
class Generated:
    """What a generator made, in the store. flags: what compiling it needs besides the clause's. shared: see `Code`."""

    path: Path
    flags: tuple[str, ...]
    shared: int = 0


_LEAVES_ALONE = "a condition in the rule, such as `where n > 0`, leaves such matches alone"


class Generators:
    """The generators of one compile. Each file is executed when it is first asked."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._modules: dict[Path, ModuleType] = {}

    def make(self, path: Path, request: Request) -> Generated:
        """Have a file write the code for a request.

        Raises OpspliceError for a file that is missing or does not run, and for a generator that is missing, fails or
        returns something else.
        """
        path = path.absolute()
        if path not in self._modules:
            self._modules[path] = _executed(path)
        function = _function(self._modules[path], path, request)
        try:
            made = function(request)
        except OpspliceError as error:
            error.message = f"{path.name} failed for {told(request)}: {error.message}"
            raise
        except (Exception, SystemExit) as error:
            failure = _failed(f"{path.name} failed for {told(request)}", path, error)
            unknown = ", ".join(dim for dim, size in request.dims.items() if size is None)
            if unknown and "None" in failure.message:
                failure.hint = f"dims that are known at run time alone are None: {unknown}; {_LEAVES_ALONE}"
            raise failure from None
        code = _checked(made, self._modules[path], path, request)
        try:
            data = code.text.encode() if isinstance(code.text, str) else code.text
        except UnicodeEncodeError as error:
            raise OpspliceError(f"what {path.name} returned for {told(request)} is not text: {error}") from None

        def write(output: Path) -> None:
            output.write_bytes(data)

        entry = self._store.get_or_build(key_of(_WRITER, data), code.suffix, write)
        # What it includes stands beside the generator, not in the store.
        included = source_inputs.quoted_names(str(code.text)) if code.suffix in _WITH_INCLUDES else ()
        beside = any(is_file(path.parent / name) for name in included)
        return Generated(entry.path, (f"-I{path.parent}",) if beside else (), code.shared)


def told(request: Request) -> str:
    """A request in words, for errors."""
    known = [f"{name} = {'dynamic' if size is None else size}" for name, size in request.dims.items()]
    known += [f"{name} = {element}" for name, element in request.types.items()]
    known += [f"{name} = {number}" for name, number in request.numbers.items()]
    shown = f" ({', '.join(known)})" if known else ""
    return f"{request.kernel}{shown} on {request.target}"


def _executed(path: Path) -> ModuleType:
    """A file as a module."""
    source_inputs.check_file(path, (".py",))
    # Under a name of its own, for what looks its module up (dataclasses, pickle).
    name = f"opsplice_generator_{hashlib.sha256(os.fsencode(path)).hexdigest()[:_DIGITS]}"
    try:
        return python_files.load(name, path)
    except (Exception, SystemExit) as error:
        raise _failed(f"{path.name} does not load", path, error) from None


def _function(module: ModuleType, path: Path, request: Request) -> Callable[[Request], Any]:
    there = [getattr(module, name, None) for name in (request.kernel, _ANY)]
    callables: list[Callable[[Request], Any]] = [each for each in there if callable(each)]
    # Code that a file writes in Python may have the kernel's name, too, as functions of Triton and Numba do.
    callables.sort(key=lambda each: not inspect.isroutine(each) or len(inspect.signature(each).parameters) != 1)
    if callables:
        return callables[0]
    own = [n for n, v in vars(module).items() if callable(v) and getattr(v, "__module__", "") == module.__name__]
    near = difflib.get_close_matches(request.kernel, own, n=1) or difflib.get_close_matches(_ANY, own, n=1)
    hint = f"did you mean {near[0]}?" if near else f"write `def {request.kernel}(request):`, or `def {_ANY}(request):`"
    raise OpspliceError(f"{path} has no function '{request.kernel}', nor '{_ANY}'", hint=hint)


def _checked(made: Any, module: ModuleType, path: Path, request: Request) -> Code:
    """The code that a generator returned."""
    accepted = _SUFFIXES[request.target]
    hint = f"return (text, suffix), or text alone with SUFFIX in the file; for {request.target} {' or '.join(accepted)}"
    who = f"{path.name} returned"
    text, suffix, shared = made, getattr(module, "SUFFIX", None), 0
    if isinstance(made, Code):
        text, suffix, shared = made.text, made.suffix, made.shared
    elif isinstance(made, tuple) and len(made) == 2:
        text, suffix = made
    elif isinstance(made, str) and suffix is None:
        raise OpspliceError(f"{who} a text for {told(request)} and does not say of what kind", hint=hint)
    if not isinstance(text, bytes if suffix in _BINARY else str) or not isinstance(suffix, str):
        raise OpspliceError(f"{who} {_kind(made)} for {told(request)}", hint=hint)
    if suffix not in accepted:
        raise OpspliceError(f"{who} a {suffix!r} for {told(request)}", hint=hint)
    if shared and request.target != "cuda":
        raise OpspliceError(
            f"{who} code for {told(request)} that shares memory of the launch, and launches on CUDA alone give it",
            hint="write the size into the code",
        )
    return Code(text, suffix, shared)


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(type(part).__name__ for part in value)})"
    return "nothing" if value is None else f"a value of type {type(value).__name__}"


def _failed(what: str, path: Path, error: BaseException) -> OpspliceError:
    """What a user's file raised, with its own lines and none of ours."""
    said = str(error)
    if isinstance(error, SyntaxError) and error.filename == str(path):
        lines = [f"{path}:{error.lineno}: {(error.text or '').strip()}"]
        said = error.msg
    else:
        every: Sequence[traceback.FrameSummary] = traceback.extract_tb(error.__traceback__)
        frames = [f for f in every if f.filename != python_files.__file__ and not f.filename.startswith("<frozen ")]
        start = next((i for i, frame in enumerate(frames) if frame.filename == str(path)), len(frames))
        lines = [f"{f.filename}:{f.lineno}: in {f.name}: {f.line}" for f in frames[start:][-_MOST_FRAMES:]]
    kind = type(error).__name__
    return OpspliceError(f"{what}: {f'{kind}: {said}' if said else kind}", details="\n".join(lines))
