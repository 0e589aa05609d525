"""A kernel's file and a CPU in, a checked artifact that IREE's llvm-cpu backend can link out.

Sources are built by a compiler (`.c .cpp .S`) or by llvmlite (`.ll`), prebuilt files (`.o .bc`) are taken as they are;
all are checked, and what passes lives in the store. It must not know what the kernel computes or where it is called.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from opsplice.common.errors import OpspliceError
from opsplice.common.files import read_file
from opsplice.common.store import Entry as StoreEntry
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import source_inputs
from opsplice.targets.artifacts.artifact import Artifact, ArtifactRequest, CpuTarget, Form
from opsplice.targets.backends import cpu_dispatch
from opsplice.targets.backends.backend import Backend, artifact_of
from opsplice.targets.build import compiler_flags, libm, linker, llvm, programs, toolchains
from opsplice.targets.formats import elf
from opsplice.targets.formats.entries import Entry

# Part of every key. Raise it when the same inputs come to build, or to check, something else.
_BUILDER = "cpu 16"

_LANGUAGES: dict[str, toolchains.Language] = {
    ".c": "c",
    ".cc": "c++",
    ".cpp": "c++",
    ".cxx": "c++",
    ".S": "assembler-with-cpp",
    ".s": "assembler-with-cpp",
}
_PREBUILT: dict[str, Form] = {".o": "object", ".a": "object", ".bc": "bitcode"}
_SUFFIX: dict[Form, str] = {"object": ".o", "bitcode": ".bc"}

# What their files begin with, as a compiler writes them.
_MAGIC: dict[Form, bytes] = {"object": b"\x7fELF", "bitcode": b"BC\xc0\xde"}

# What an entry of the store says of an object that does not link, where the file may be bitcode instead.
_AS_BITCODE = "as bitcode"

ACCEPTED = (*_LANGUAGES, ".ll", *_PREBUILT)


def resolve(request: ArtifactRequest, target: CpuTarget, store: Store) -> Artifact:
    """The artifact for `request` on `target`, built or copied into the store unless it is there.

    Raises OpspliceError when the file is absent or of an unknown kind, does not compile, is for another architecture,
    lacks a symbol, or needs what IREE does not link; and when no compiler can build it or the store cannot be written.
    """
    more = f"; {source_inputs.through_c(request.path)}" if request.path.suffix == ".so" else ""
    source_inputs.check_request(request, "CPU", ACCEPTED, _SUFFIX, compiled=_LANGUAGES, more=more)
    for archive in request.links:
        source_inputs.check_file(archive, (".a",))
    suffix = request.path.suffix
    if suffix in _LANGUAGES:
        return _resolve_source(request, target, store)
    if suffix == ".ll":
        return _resolve_ir(request, target, store)
    return _resolve_prebuilt(request, target, store)


def _resolve_source(request: ArtifactRequest, target: CpuTarget, store: Store) -> Artifact:
    form: Form = request.form or "object"
    language = _LANGUAGES[request.path.suffix]
    if form == "bitcode" and language == "assembler-with-cpp":
        raise OpspliceError(f"{request.path.name} is assembly, which has no bitcode", hint="remove 'as bitcode'")
    source = request.path.resolve()
    flags = compiler_flags.checked(request.flags, "C", source.parent)
    inputs = source_inputs.read_inputs(source, flags, toolchains.HEADERS)

    def built_by(toolchain: toolchains.Toolchain) -> Artifact:
        made_from = (source.name, inputs.digest, toolchain.identity, "\0".join(request.flags), llvm.version())

        def compiled(output: Path) -> Mapping[str, Any]:
            included, notes = _compile(toolchain, source, output, target, form, language, flags)
            source_inputs.check_complete(inputs, included, source)
            return notes

        def build(output: Path) -> Mapping[str, Any]:
            # A source may have many kernels, each with its own symbol: it is compiled once.
            alone = _key(replace(request, form=form, symbols=(), links=()), target, form, "compiled", *made_from)
            entry = store.get_or_build(alone, _SUFFIX[form], compiled)
            output.write_bytes(entry.path.read_bytes())
            try:
                found = _check_product(output, request, target, form)
            except OpspliceError as error:
                told = f"the compiler was given flags of the clause: {shlex.join(request.flags)}"
                raise error.noting(told if request.flags else "") from None
            return {**entry.notes, **found}

        key = _key(request, target, form, *made_from)
        return _linkable(store.get_or_build(key, _SUFFIX[form], build), form, request, target, store)

    return toolchains.build_with_first(target, form, built_by)


def _compile(
    toolchain: toolchains.Toolchain,
    source: Path,
    output: Path,
    target: CpuTarget,
    form: Form,
    language: toolchains.Language,
    flags: Sequence[str],
) -> tuple[frozenset[Path], dict[str, Any]]:
    """As `Toolchain.compile`, but that an object is made by llvmlite's LLVM, where it can be, of optimised bitcode.

    A distribution's compiler is years older; IREE's own LLVM, which does so with bitcode, is about as new. To optimise
    again would take twice as long, and products, convolutions and attention would be no faster.
    Returns also what there is to note: what made it, and of objects the types of their functions.
    """
    has_types = form == "object" and language != "assembler-with-cpp"
    made, optimised = None, output.with_name(f"optimised{_SUFFIX['bitcode']}")
    if has_types and "bitcode" in toolchain.forms:
        try:
            included = toolchain.compile(source, optimised, target, "bitcode", language, flags)
            made = llvm.generate_object(optimised, output, target, source.name)
        except programs.TimeLimitError:
            raise
        except OpspliceError:
            pass  # if it is the source's, the compiler says so below
        optimised.unlink(missing_ok=True)
    if made is not None:
        _check_stack(made.large, source.name)
        makers = f"{toolchain.version()}, {llvm.version()}"
        return included, {"toolchain": makers, "signatures": dict(made.signatures)}
    included = toolchain.compile(source, output, target, form, language, flags)
    types = {"signatures": dict(toolchain.types(source, target, language, flags))} if has_types else {}
    return included, {"toolchain": toolchain.version(), **types}


def _resolve_ir(request: ArtifactRequest, target: CpuTarget, store: Store) -> Artifact:
    form: Form = request.form or "object"

    def build(output: Path) -> Mapping[str, Any]:
        module = llvm.compile_ir(request.path, output, target, form)
        _check_stack(module.stack, request.path.name)
        if form == "object":
            noted = _check_object(output, request, target)
        else:
            module, noted = _checked_module(output, module, request, target), {}
        return {"toolchain": llvm.version(), **_noted(module), **noted}

    key = _key(request, target, form, read_file(request.path), llvm.version())
    return _linkable(store.get_or_build(key, _SUFFIX[form], build), form, request, target, store)


def _resolve_prebuilt(request: ArtifactRequest, target: CpuTarget, store: Store) -> Artifact:
    form = _PREBUILT[request.path.suffix]
    if request.form not in (None, form):
        raise OpspliceError(
            f"{request.path.name} cannot be taken as {request.form}", hint=f"it is {form}; give the source instead"
        )
    data = read_file(request.path)

    def build(output: Path) -> Mapping[str, Any]:
        # The copy is what is checked, so that a file that changes meanwhile does no harm.
        output.write_bytes(data)
        if form == "object":
            _check_object(output, request, target, prebuilt=True)
            return {"toolchain": None, "notes": ()}
        module = llvm.import_bitcode(output, request.path.name, target)
        return {"toolchain": None, **_noted(_checked_module(output, module, request, target))}

    key = _key(request, target, form, data, llvm.version() if form == "bitcode" else "")
    return artifact_of(store.get_or_build(key, _SUFFIX[form], build), form, target.arch)


def _check_product(output: Path, request: ArtifactRequest, target: CpuTarget, form: Form) -> dict[str, Any]:
    """Checks what a compiler made of a source; bitcode is also freed of the CPU that the compiler wrote into it.

    Returns what there is to note of it.
    """
    data = output.read_bytes()
    if not data.startswith(_MAGIC[form]):
        raise OpspliceError(
            f"the compiler made no {'bitcode' if form == 'bitcode' else 'object'} of {request.path.name}",
            hint="remove the flags that make it write something else, such as -S or -flto",
        )
    if form == "object":
        return _check_object(output, request, target)
    neutral = output.with_name(f"neutral{output.suffix}")
    module = llvm.import_bitcode(output, request.path.name, target, neutral=neutral)
    if module.symbols is not None:
        os.replace(neutral, output)
    return _noted(_checked_module(output, module, request, target))


def _noted(module: llvm.Module) -> dict[str, Any]:
    return {"notes": module.notes, "signatures": dict(module.signatures), "harmless": module.harmless}


def _linkable(
    entry: StoreEntry,
    form: Form,
    request: ArtifactRequest,
    target: CpuTarget,
    store: Store,
) -> Artifact:
    """What was built, or bitcode of the same file where it calls functions that are inlined there."""
    missing = entry.notes.get(_AS_BITCODE)
    if missing is None:
        return artifact_of(entry, form, target.arch)
    try:
        return resolve(replace(request, form="bitcode"), target, store)
    except OpspliceError as error:
        told = f"{request.path.name} is built as bitcode because it calls {missing}: `as object` makes an object of it"
        raise error.noting(told) from None


def _check_object(
    output: Path, request: ArtifactRequest, target: CpuTarget, *, prebuilt: bool = False
) -> dict[str, Any]:
    """Puts into an object what it takes of archives and of C's mathematics, and what compilers call by themselves.

    Raises OpspliceError for one that does not link, unless the file may be bitcode instead, which is noted.
    """
    name, archives, is_archive = request.path.name, list(request.links), request.path.suffix == ".a"
    if is_archive:
        known = frozenset.union(*map(linker.defined_in, (output, *archives)))
        linker.join([], [output, *archives], request.symbols, output, target)
    code = elf.read_object(output.read_bytes(), name)
    elf.check_arch(code, name, target.arch)
    if is_archive and not code.functions.issuperset(request.symbols):  # then it has no function at all
        code = replace(code, functions=code.functions | (known - {*request.symbols}))
    # Only the kernels of programs are asked for functions; plugins and transform specs know no `as bitcode`.
    choice = bool(request.symbols)
    may_choose = choice and request.form is None and not (prebuilt or archives)
    if archives and not is_archive:
        linker.join([output], archives, request.symbols, output, target)
        name = f"{name} with {' and '.join(archive.name for archive in archives)}"
        code = elf.read_object(output.read_bytes(), name)
    # What IREE gives bitcode nothing for makes the file an object, which gets it here.
    may_choose = may_choose and not code.undefined & (libm.HELPERS - elf.LINKED_INTO_BITCODE)
    if not may_choose and (called := code.undefined & (libm.NAMES | libm.HELPERS | linker.SUPPORT)):
        objects = [output]
        if mathematics := called - linker.SUPPORT:
            with _named(name, mathematics):
                objects.append(libm.object_file(target, mathematics))
        linker.join(objects, [], (), output, target)  # the same file for each kernel of a source
        code = elf.read_object(output.read_bytes(), name)
    left = code.undefined - elf.LINKED_INTO_BITCODE - libm.NAMES if may_choose else code.undefined
    found = replace(code, undefined=left)
    try:
        elf.check_links(found, name, request.symbols, "object", may_be_bitcode=choice)
    except OpspliceError as error:
        if choice and archives:
            linked = " ".join(f'links "{archive.name}"' for archive in archives)
            error.hint = f'what needs a C library goes into a plugin: cpu "{request.path.name}" as plugin {linked}'
        raise
    return {} if left == code.undefined else {_AS_BITCODE: ", ".join(sorted(code.undefined))}


@contextmanager
def _named(name: str, called: Collection[str]) -> Iterator[None]:
    """Say of an error with C's mathematics which file calls what of it."""
    try:
        yield
    except OpspliceError as error:
        listed = ", ".join(f"'{each}'" for each in sorted(called))
        error.message = f"{name} needs {listed}, and {error.message}"
        raise


def _checked_module(output: Path, module: llvm.Module, request: ArtifactRequest, target: CpuTarget) -> llvm.Module:
    """Bitcode with what it calls of the mathematics of C put in, and found to link; not checked if it was not read."""
    if module.symbols is None:
        return module
    name = request.path.name
    _check_stack(module.stack, name)
    intrinsics = libm.called(target)
    called = (libm.NAMES & module.symbols.undefined) | intrinsics.intersection(module.mathematics)
    if called - elf.LINKED_INTO_BITCODE:
        with _named(name, called):
            module = llvm.link_library(output, name, libm.file(), intrinsics)
    assert module.symbols is not None, "it was written here"
    elf.check_links(module.symbols, name, request.symbols, "bitcode")
    return module


def _check_stack(stack: Mapping[str, int], name: str) -> None:
    """Raise OpspliceError for a function that wants more of the stack than there is. stack: the bytes of each."""
    for function, size in stack.items():
        if size > toolchains.MOST_STACK:
            raise OpspliceError(f"{function} of {name} takes {size} bytes of the stack", hint=toolchains.STACK_HINT)


def _key(request: ArtifactRequest, target: CpuTarget, form: Form, *parts: bytes | str) -> str:
    features = ",".join(sorted(target.features))
    asked = request.form or "any"
    parts = (*parts, *(hashlib.sha256(read_file(archive)).hexdigest() for archive in request.links))
    return key_of(_BUILDER, request.path.suffix, form, asked, target.arch, features, "\0".join(request.symbols), *parts)


class Cpu(Backend):
    """CPUs: objects and bitcode of plain functions, and executables of IREE's."""

    name, iree, device = "cpu", "llvm-cpu", "local"
    title, kinds = "CPU", (*ACCEPTED, cpu_dispatch.SUFFIX)

    def build(self, request: ArtifactRequest, arch: str, features: str, store: Store) -> Artifact:
        target = CpuTarget.of(arch, features)
        return (cpu_dispatch.resolve if request.form == "library" else resolve)(request, target, store)

    def entry(self, code: Artifact, name: str) -> Entry:
        return Entry(code.entry, name, threads=(1, 1, 1))
