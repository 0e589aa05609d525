"""The kernels of a spec that programs import, built into a plugin: which clauses, which functions, which form.

Kernels with loops of their own become a library for CPUs, functions on elements a module of SPIR-V.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from opsplice.common.errors import OpspliceError, did_you_mean
from opsplice.common.store import Store, key_of
from opsplice.compiling import prebuilt
from opsplice.compiling.spec_files import load_splice
from opsplice.compiling.spec_sources import SpecPath, SpecSource, resolve
from opsplice.spec_lang.loading.loader import LoadedSpec
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.link import function_link
from opsplice.targets.plugins import plugin_build
from opsplice.targets.plugins.plugin_build import Built, Source
from opsplice.targets.plugins.plugin_source import SIZE, Argument, Function

SUFFIXES = (".so", ".sos")
# Part of every key. Raise it when the same plugin is to be kept in another way.
_WRITER = "plugin 1"
FUNCTIONS_SUFFIX = ".spv"


@dataclass(frozen=True)
class BuiltFunctions:
    """A module of functions on elements, what is in it as `name(f32) -> f32`, and what built it."""

    data: bytes
    functions: tuple[str, ...]
    toolchain: str


def build(
    spec: SpecPath, suffix: str, names: Sequence[str] = (), architectures: Sequence[str] = (), features: str = ""
) -> Built | BuiltFunctions:
    """A plugin with the kernels of a spec that are `as plugin`.

    suffix: `.so` for a library of this system, `.sos` for embedded ELF, `.spv` for functions on elements for Vulkan.
    names: only these kernels. architectures: what it is for, by default this machine's. features: LLVM's names of what
    the CPU has (`avx2,fma`), or `host`; they decide which clauses fit, as for a program.

    Raises OpspliceError when there is nothing to build, and what compilers and linkers say.
    """
    if suffix not in (*SUFFIXES, FUNCTIONS_SUFFIX):
        hint = "a system library ends in .so, an embedded one for any system in .sos, functions for Vulkan in .spv"
        raise OpspliceError(f"a plugin's name cannot end in '{suffix}'", hint=hint)
    (source,) = resolve(spec)
    loaded = load_splice(source, hint="plugins are built from specs in our own language")
    if suffix == FUNCTIONS_SUFFIX:
        return _build_functions(_chosen(loaded, source, names, scalar=True), Store())
    targets = _targets(architectures, features)
    kernels = _chosen(loaded, source, names, scalar=False)
    sources = {target: list(_sources(kernels, target)) for target in targets}
    if suffix == ".sos":
        return plugin_build.build_embedded(source.path.stem, sources, Store())
    if len(targets) > 1:
        raise OpspliceError("a .so holds code for one architecture", hint="write a .sos, which holds several")
    return plugin_build.build_system(source.path.stem, sources[targets[0]], targets[0])


def for_program(specs: Iterable[SpecSource], imports: Collection[str]) -> list[Path]:
    """A plugin for this machine with the functions that a program imports, of the kernels of the specs that it was
    compiled with; none where these name no file for one of them.

    Raises OpspliceError for code that may not be built, and what compilers and linkers say.
    """
    (target,) = _targets((), "host")
    kernels: list[tree.Kernel] = []
    for spec in specs:
        if spec.path.suffix == ".splice":
            loaded = prebuilt.only(load_splice(spec, hint=""), no_code=False)
            kernels += [kernel for kernel in loaded.kernels.values() if _has_file(kernel, imports)]
    there = {function.symbol for kernel in kernels for function, _ in functions_of(kernel)}
    if not kernels or not there.issuperset(imports):
        return []
    built = plugin_build.build_system("kernels", list(_sources(kernels, target)), target)
    return [Store().put(key_of(_WRITER, built.data), ".so", built.data).path]


def _has_file(kernel: tree.Kernel, imports: Collection[str]) -> bool:
    """Whether a kernel is one of the functions that a program imports, and says what these are built of."""
    named = any(clause.is_plugin and clause.path for clause in kernel.artifacts)
    return named and not kernel.is_scalar and any(function.symbol in imports for function, _ in functions_of(kernel))


def _targets(architectures: Sequence[str], features: str) -> list[CpuTarget]:
    host = archs.host_arch()
    names = [host if name == "cpu" else name for name in architectures or ("cpu",)]
    if None in names:
        raise OpspliceError("this machine's architecture is not known", hint=f"--target={','.join(archs.ARCHS)}")
    found = [archs.normalize(name) for name in names if name]
    if features and len(set(found)) > 1:
        raise OpspliceError("--features is for one architecture", hint="build each alone, then `opsplice kernel fat`")
    if features == "host" and found != [host]:
        raise OpspliceError(f"--features=host means this machine, which is not {found[0]}", hint="name them: avx2,fma")
    chosen = archs.host_features() if features == "host" else archs.parse_features(features)
    return [CpuTarget(arch, chosen) for arch in dict.fromkeys(found)]


def _chosen(loaded: LoadedSpec, spec: SpecSource, names: Sequence[str], *, scalar: bool) -> list[tree.Kernel]:
    for name in names:
        if name not in loaded.kernels:
            hint = did_you_mean(name, loaded.kernels) or f"it has: {', '.join(loaded.kernels) or 'none'}"
            raise OpspliceError(f"{spec} has no kernel {name}", hint=hint)
        if not any(clause.is_plugin for clause in loaded.kernels[name].artifacts):
            raise _not_imported(f"kernel {name} is")
    kernels = [loaded.kernels[n] for n in names or loaded.kernels]
    imported = [k for k in kernels if any(clause.is_plugin for clause in k.artifacts)]
    if not imported:
        raise _not_imported(f"no kernel of {spec} is")
    fitting = [k for k in imported if k.is_scalar == scalar]
    if not fitting or (names and len(fitting) < len(imported)):
        other = next(k for k in imported if k.is_scalar != scalar)
        hint = "a file ending in .so or .sos" if scalar else "a file ending in .spv, for Vulkan"
        what = "no function on elements" if scalar else "a function on elements"
        raise OpspliceError(f"kernel {other.name} is {what}", hint=f"write it to {hint}")
    return fitting


def _not_imported(who: str) -> OpspliceError:
    return OpspliceError(f"{who} imported from a plugin", hint='write `as plugin` in its clause: cpu "k.c" as plugin')


def _sources(kernels: Iterable[tree.Kernel], target: CpuTarget) -> Iterator[Source]:
    """The files of kernels for a target, each once."""
    files: dict[tuple[Path, tuple[str, ...], tuple[Path, ...]], list[tree.Kernel]] = {}
    for kernel in kernels:
        clause = _clause_for(kernel, target)
        files.setdefault((clause.file, clause.words, clause.linked), []).append(kernel)
    for (path, flags, links), of_file in files.items():
        yield Source(path, flags, partial(_functions_in, path.name, of_file), links)


def _clause_for(kernel: tree.Kernel, target: CpuTarget) -> tree.ArtifactClause:
    fitting = [
        clause
        for clause in kernel.artifacts
        if clause.is_plugin
        and (clause.arch is None or archs.normalize(clause.arch) == target.arch)
        and target.features.issuperset(clause.features)
    ]
    if not fitting:
        raise OpspliceError(
            f"kernel {kernel.name} has no clause `as plugin` for {target.arch}"
            + (f" with {', '.join(sorted(target.features))}" if target.features else ""),
            hint=f'add one to the kernel at {kernel.span}: cpu "{kernel.name}.c" as plugin; '
            "clauses with `when` want --features",
        )
    if not fitting[0].path:
        raise OpspliceError(
            f"the clause of kernel {kernel.name} names no file to build",
            hint=f'cpu "{kernel.name}.c" as plugin',
            details=f"{fitting[0].span}: `as plugin` without a file is for a plugin that is built elsewhere",
        )
    return fitting[0]


# ---- functions on elements ----------------------------------------------------------------------------------------


def _build_functions(kernels: Sequence[tree.Kernel], store: Store) -> BuiltFunctions:
    """The one file that functions for Vulkan are in, as SPIR-V."""
    paths: dict[Path, list[tree.Kernel]] = {}
    for kernel in kernels:
        clause = next((c for c in kernel.artifacts if c.is_plugin and c.backend in ("vulkan", "wgsl")), None)
        if clause is None or not clause.path:
            raise OpspliceError(
                f"kernel {kernel.name} names no file for Vulkan to build",
                hint=f'vulkan "{kernel.name}.wgsl" as plugin, in the kernel at {kernel.span}',
            )
        paths.setdefault(clause.file, []).append(kernel)
    if len(paths) > 1:
        raise OpspliceError(
            f"the functions are in several files: {', '.join(path.name for path in paths)}",
            hint="build one plugin for each, with --kernel=NAME; a program takes several",
        )
    (path,) = paths
    file = function_link.read(path, store)
    if file.form != function_link.SPIRV:
        raise OpspliceError(f"{path.name} is not for Vulkan", hint="functions for Vulkan are in WGSL or SPIR-V")
    there = file.functions()
    found = []
    for kernel in paths[path]:
        signatures = list(_signatures(kernel))
        here = [(symbol, kind) for symbol, kind, _ in signatures if symbol in there]
        absent = [symbol for symbol, _, needed in signatures if symbol not in there and (needed or not here)]
        if absent:
            raise OpspliceError(
                f"{path.name} does not define the function '{absent[0]}'",
                hint=f"it defines {', '.join(sorted(there)) or 'none'}",
            )
        for symbol, kind in here:
            if there[symbol] != kind:
                raise OpspliceError(f"function {symbol} of {path.name} is {there[symbol]}, and the kernel is {kind}")
            found.append(f"{symbol}{kind}")
    return BuiltFunctions(file.code, tuple(found), file.toolchain)


def _signatures(kernel: tree.Kernel) -> Iterator[tuple[str, str, bool]]:
    """Each function that a scalar kernel stands for, its type, and whether it must be there."""
    (result,) = kernel.results
    assert isinstance(result.type, tree.ScalarType), "a scalar kernel"
    for (function, needed), types in zip(functions_of(kernel), types_of(kernel), strict=True):
        inputs = ", ".join(argument.element for argument in function.arguments)
        yield function.symbol, f"({inputs}) -> {types.get(result.type.name, result.type.name)}", needed


# ---- functions ---------------------------------------------------------------------------------------------------


def functions_of(kernel: tree.Kernel) -> Iterator[tuple[Function, bool]]:
    """Each function that a kernel stands for, and whether it must be there: of those for any type, some may lack."""
    for types in types_of(kernel):
        symbol = kernel.symbol or kernel.name
        for name, element in types.items():
            symbol = symbol.replace("{" + name + "}", element)
        yield Function(symbol, tuple(_arguments(kernel, types))), all(v.choices for v in kernel.type_variables)


def types_of(kernel: tree.Kernel) -> Iterator[Mapping[str, str]]:
    """What the type variables of a kernel can stand for, for each of `functions_of`."""
    choices = [[c.name for c in v.choices] or list(vocabulary.KERNEL_ELEMENTS) for v in kernel.type_variables]
    for chosen in itertools.product(*choices):
        yield dict(zip((v.name for v in kernel.type_variables), chosen, strict=True))


def _arguments(kernel: tree.Kernel, types: Mapping[str, str]) -> Iterator[Argument]:
    """The order of docs/kernels.md: parameters, fresh results, dims, strides, workgroup numbers."""
    overwritten = {result.alias for result in kernel.results}
    dims: dict[str, None] = {}
    for parameter in kernel.parameters:
        kind = parameter.type
        if isinstance(kind, tree.TensorType):
            element = types.get(kind.element.name, kind.element.name)
            yield Argument(element, pointer=True, const=parameter.name not in overwritten)
            dims.update(dict.fromkeys(dim.name for dim in kind.dims if dim.name is not None))
        else:
            yield Argument(types.get(kind.name, kind.name))
    for result in kernel.results:
        if isinstance(result.type, tree.TensorType):
            dims.update(dict.fromkeys(dim.symbol for dim in result.type.dims if dim.symbol is not None))
            yield Argument(types.get(result.type.element.name, result.type.element.name), pointer=True)
    kinds = [p.type for p in kernel.parameters] + [result.type for result in kernel.results]
    strided = [kind for kind in kinds if kind is not None and kind.strided]
    strides = sum(dim.pack is None for kind in strided for dim in kind.dims)
    yield from [SIZE] * (len(dims) + strides + len(kernel.grid))


def _functions_in(file: str, kernels: Sequence[tree.Kernel], defined: frozenset[str]) -> list[Function]:
    """The functions of kernels that a file defines. Raises OpspliceError if one that must be there is not."""
    found: list[Function] = []
    for kernel in kernels:
        functions = list(functions_of(kernel))
        here = [function for function, _ in functions if function.symbol in defined]
        absent = [function for function, needed in functions if needed and function.symbol not in defined]
        if absent or not here:
            function = absent[0] if absent else functions[0][0]
            there = sorted(defined)
            hint = did_you_mean(function.symbol, there) or f"it defines {', '.join(there) or 'none'}"
            if any(name.startswith("_Z") and function.symbol in name for name in defined):
                hint = 'it defines it as C++: declare it extern "C"'
            raise OpspliceError(
                f"{file} does not define the function '{function.symbol}'",
                hint=hint,
                details=f"kernel {kernel.name} is called as {function}",
            )
        found += here
    return found
