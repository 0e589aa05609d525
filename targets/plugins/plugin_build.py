"""Plain C functions in, a plugin of IREE's CPU runtime out: a shared library of this system, or embedded ELF.

A system library (`.so`) is built for this machine with the system's C library, and may link what it likes. An embedded
ELF (`.sos`) is bare code, as a static function is, for one architecture or, in a FatELF, for several; it runs on any
system. It must not know specs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.common.files import check_file
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts import source_inputs, temporary_folders
from opsplice.targets.artifacts.artifact import ArtifactRequest, CpuTarget
from opsplice.targets.backends import cpu
from opsplice.targets.build import bf16_helpers, compiler_flags, linker, programs, toolchains
from opsplice.targets.formats import elf, fatelf, llvm_types
from opsplice.targets.plugins import plugin_source
from opsplice.targets.plugins.plugin_source import Function

# For the names that a file defines, the functions of it that the plugin is to have; raises OpspliceError if any lack.
Chooser = Callable[[frozenset[str]], Sequence[Function]]

_LANGUAGES = {".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".S": "assembler-with-cpp", ".s": "assembler"}
# What a plugin is linked with.
LINKED = (".a", ".so")
_LINKED = ("-l", "-L", "-Wl,")
# Flags that compilers and linkers both need.
_BOTH = ("-fopenmp", "-pthread")
_LACKING = re.compile(r"(?:cannot find -l|unable to find (?:\w+ )*library '?(?:-l)?)([\w.+-]+)")
_LACKS_OPENMP = re.compile(
    r"cannot find -l(?:omp|gomp)\b|(?:undefined symbol:|undefined reference to) .?(?:__kmpc_|GOMP_|omp_)"
)
_SYSTEM_FLAGS = ("-O3", "-g0", "-fPIC", "-fvisibility=hidden", "-fno-math-errno")
_LINK_FLAGS = (
    *("-flavor", "gnu", "--build-id=none", "-nostdlib", "-static", "-shared", "--no-undefined"),
    *("--no-allow-shlib-undefined", "--gc-sections", "-z", "now", "-z", "relro", "--discard-all"),
    *("--hash-style=sysv", "--strip-debug"),
)


@dataclass(frozen=True)
class Source:
    """A file with kernels. flags: the user's, for the compiler; choose: which functions the plugin takes of it; links:
    the archives that it is linked with, and of a system library also others of the system."""

    path: Path
    flags: tuple[str, ...] = ()
    choose: Chooser = lambda _: ()
    links: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Built:
    """A plugin's bytes, the functions that it has, and what built it."""

    data: bytes
    functions: tuple[Function, ...]
    toolchain: str


def build_system(name: str, sources: Sequence[Source], target: CpuTarget) -> Built:
    """A shared library for this machine.

    name: what IREE calls it. Raises OpspliceError when the target is not this machine, a file does not compile, lacks a
    function or does not link, and when there is no compiler.
    """
    if target.arch != archs.host_arch():
        raise OpspliceError(
            f"a system library for {target.arch} cannot be built on {archs.host_arch() or 'this machine'}",
            hint="write an embedded one, which is built for any: -o kernels.sos",
        )
    return toolchains.build_with_first(
        target, "object", lambda toolchain: _system(name, sources, target, _hosted(toolchain))
    )


def _system(name: str, sources: Sequence[Source], target: CpuTarget, toolchain: toolchains.Toolchain) -> Built:
    with temporary_folders.folder() as folder:
        functions: list[Function] = []
        built: list[Path] = []
        undefined: set[str] = set()
        for number, source in enumerate(sources):
            built.append(_compile_hosted(toolchain, source, Path(folder) / f"{number}.o", target))
            found = elf.read_object(built[-1].read_bytes(), source.path.name)
            elf.check_arch(found, source.path.name, target.arch)
            undefined |= found.undefined
            functions += source.choose(found.functions)
        functions = _distinct(functions)
        for source in sources:
            _check_types(functions, _types_hosted(toolchain, source, target), source.path.name)
        glue = Path(folder) / "plugin.c"
        glue.write_text(plugin_source.write(name, functions, standalone=False), encoding="utf-8")
        built.append(_compile_hosted(toolchain, Source(glue), Path(folder) / "plugin.o", target))
        if helpers := bf16_helpers.code_for(undefined):
            path = Path(folder) / "bf16.c"
            path.write_text(helpers, encoding="utf-8")
            built.append(_compile_hosted(toolchain, Source(path), path.with_suffix(".o"), target))
        output = Path(folder) / "plugin.so"
        runtime = {"zig": "-lc++"}.get(toolchain.name, "-lstdc++")
        given = [compiler_flags.checked(s.flags, "library", s.path.resolve().parent) for s in sources]
        libraries = [word for source in sources for path in source.links for word in _link_words(path)]
        libraries += [f for flags in given for f in flags if f.startswith((*_LINKED, *_BOTH))]
        libraries += [runtime] if any(_LANGUAGES.get(s.path.suffix) == "c++" for s in sources) else []
        _link([*toolchain.command, "-shared", "-Wl,-z,defs", *map(str, built), *libraries, "-lm", "-o", str(output)])
        return Built(output.read_bytes(), tuple(functions), toolchain.version())


def build_embedded(
    name: str,
    sources: Mapping[CpuTarget, Sequence[Source]],
    store: Store,
) -> Built:
    """Embedded ELF for each target, in a FatELF where there are several.

    Raises OpspliceError when a file does not compile, needs what is not there at the link, or lacks a function.
    """
    made = {target: _embedded(name, files, target, store) for target, files in sources.items()}
    first = next(iter(made.values()))
    if len(made) == 1:
        return first
    data = fatelf.write([built.data for built in made.values()], [target.arch for target in made])
    return replace(first, data=data)


def nothing(store: Store) -> Path:
    """The file of an embedded plugin for this machine that has no functions, built once.

    Raises OpspliceError when there is no compiler, or no linker of IREE's.
    """
    arch = archs.host_arch()
    if arch is None:
        raise OpspliceError("this machine's architecture is not known")

    def build(output: Path) -> dict[str, str]:
        built = _embedded("nothing", [], CpuTarget(arch), store)
        output.write_bytes(built.data)
        return {"toolchain": built.toolchain}

    return store.get_or_build(key_of("empty plugin 1", arch), ".sos", build).path


def _embedded(name: str, sources: Sequence[Source], target: CpuTarget, store: Store) -> Built:
    functions: list[Function] = []
    built: list[Path] = []
    types: dict[str, Mapping[str, str]] = {}
    for source in sources:
        request = ArtifactRequest(source.path, (), "object", source.flags, source.links)
        artifact = cpu.resolve(request, target, store)
        built.append(artifact.path)
        types[source.path.name] = artifact.signatures
        functions += source.choose(elf.read_object(artifact.path.read_bytes(), source.path.name).functions)
    functions = _distinct(functions)
    for file, signatures in types.items():
        _check_types(functions, signatures, file)

    def linked(toolchain: toolchains.Toolchain) -> Built:
        with temporary_folders.folder() as folder:
            glue, output = Path(folder) / "plugin.c", Path(folder) / "plugin.so"
            glue.write_text(plugin_source.write(name, functions, standalone=True), encoding="utf-8")
            toolchain.compile(glue, Path(folder) / "plugin.o", target, "object", "c")
            command = [linker.embedded(), *_LINK_FLAGS, *map(str, built), str(Path(folder) / "plugin.o")]
            _link([*command, "-o", str(output)])
            return Built(output.read_bytes(), tuple(functions), toolchain.version())

    return toolchains.build_with_first(target, "object", linked)


def _check_types(functions: Sequence[Function], signatures: Mapping[str, str], name: str) -> None:
    """Raises OpspliceError for a function that is known to have other types than it is called with."""
    for function in functions:
        parameters = [llvm_types.ADDRESS if argument.pointer else argument.element for argument in function.arguments]
        if (written := signatures.get(function.symbol)) is not None:
            llvm_types.check(name, function.symbol, written, "void", parameters, "the plugin")


def _distinct(functions: Sequence[Function]) -> list[Function]:
    """Each function once. Raises OpspliceError if programs would call one in two ways."""
    by_symbol: dict[str, Function] = {}
    for function in functions:
        first = by_symbol.setdefault(function.symbol, function)
        if first.types != function.types:
            raise OpspliceError(
                f"'{function.symbol}' would be called in two ways",
                hint='give each type a function of its own: symbol "name_{T}"',
                details=f"{first}\n{function}",
            )
    return list(by_symbol.values())


# ---- compilers and linkers ---------------------------------------------------------------------------------------


def _hosted(toolchain: toolchains.Toolchain) -> toolchains.Toolchain:
    """The compiler as it builds for this system. Of zig it is the front that knows the C library, at the baseline."""
    if toolchain.name != "zig":
        return toolchain
    return replace(toolchain, command=(toolchain.command[0], "cc", "-mcpu=baseline", "-fno-sanitize=undefined"))


def _compile_hosted(toolchain: toolchains.Toolchain, source: Source, output: Path, target: CpuTarget) -> Path:
    language = _LANGUAGES.get(source.path.suffix)
    check_file(source.path)
    if language is None:
        if source.path.suffix == ".o":
            return source.path.absolute()
        more = "embedded plugins (-o kernels.sos) take .ll too"
        if source.path.suffix in LINKED:
            more = source_inputs.through_c(source.path)
        raise OpspliceError(
            f"{source.path.name} is not a kind of file that a system library is built of",
            hint=f"accepted: {' '.join((*_LANGUAGES, '.o'))}; {more}",
        )
    command = [*_command_hosted(toolchain, source, target), *toolchain.stack_flags, "-c", "-o", str(output)]
    toolchains.run_compiler(toolchain, command, source.path.resolve(), hosted=True)
    return output


def _types_hosted(toolchain: toolchains.Toolchain, source: Source, target: CpuTarget) -> Mapping[str, str]:
    if _LANGUAGES.get(source.path.suffix) not in ("c", "c++"):
        return {}
    return toolchains.types_of(toolchain, _command_hosted(toolchain, source, target), source.path.resolve())


def _command_hosted(toolchain: toolchains.Toolchain, source: Source, target: CpuTarget) -> list[str]:
    path = source.path.resolve()
    given = compiler_flags.checked(source.flags, "library", path.parent)
    flags = [f for f in given if not f.startswith(_LINKED)]
    command = [*toolchain.command, *_SYSTEM_FLAGS, *toolchain.feature_flags(target), *flags]
    language = _LANGUAGES[path.suffix]
    declared = toolchains.DECLARED if language == "c" else []
    return [*command, *declared, *toolchains.incbin_flags(path.parent), "-x", language, str(path)]


def _link_words(path: Path) -> list[str]:
    """What links an archive, or a shared library that is found again where it lies."""
    source_inputs.check_file(path, LINKED)
    path = path.absolute()
    return [str(path)] if path.suffix == ".a" else [str(path), f"-Wl,-rpath,{path.parent}"]


def _link(command: Sequence[str]) -> None:
    done = programs.run_program(command)
    if done.returncode == 0:
        return
    said = done.stderr.strip()
    if _LACKS_OPENMP.search(said) and "-fopenmp" in command:
        raise toolchains.UnfitError("the plugin does not link", details=said, hint=toolchains.OPENMP)
    hint = None
    if _LACKS_OPENMP.search(said):
        hint = 'a plugin with OpenMP says so: cpu "k.c" as plugin flags "-fopenmp"'
    elif "duplicate symbol" in said or "multiple definition" in said:
        hint = "make helpers static, and give each kernel a symbol of its own"
    elif "undefined symbol" in said or "undefined reference" in said:
        hint = (
            'name the library that has it: cpu "k.c" as plugin flags "-lblas", or links "libblas.so" for a file; '
            "embedded plugins have archives only"
        )
    elif (lacking := _LACKING.search(said)) is not None:
        hint = f'install {lacking[1]} with its files for development, or name its file: links "lib{lacking[1]}.so"'
    raise OpspliceError("the plugin does not link", details=said, hint=hint)
