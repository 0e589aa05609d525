"""LLVM IR text to objects and bitcode, and bitcode made ready for the link, all through llvmlite: no compiler needed.

The work is done in a child process (`llvm_worker.py`), because LLVM ends its process on some bad input. It must not
know the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts.artifact import CpuTarget, CudaTarget, Form, RocmTarget
from opsplice.targets.build import programs
from opsplice.targets.formats import prototypes
from opsplice.targets.formats.elf import ObjectFile

_WORKER = Path(__file__).with_name("llvm_worker.py")

# Baselines: what IREE itself takes for the architecture when it is given no CPU.
_CPU: dict[archs.Arch, str] = {"x86_64": "x86-64", "aarch64": "generic", "riscv64": "generic-rv64"}
_BASE_FEATURES: dict[archs.Arch, frozenset[str]] = {
    "x86_64": frozenset(),
    "aarch64": frozenset({"reserve-x18"}),
    "riscv64": frozenset("mafdc"),
}
_ABI: dict[archs.Arch, str] = {"x86_64": "", "aarch64": "", "riscv64": "lp64d"}

_MAGIC = b"BC\xc0\xde"
_WRAPPER_MAGIC = b"\xde\xc0\x17\x0b"
_LONGEST_DETAILS = 4000
_MADE_AND_READ_BY = re.compile(r"\(Producer: '([^']*)' Reader: '([^']*)'\)")
_FEATURE = re.compile(r"^  ([\w.+-]+) +- ", re.MULTILINE)
_UNKNOWN_CPU = re.compile(r"'([^'\n]*)' is not a recognized processor")

_LARGE_FRAME = re.compile(r"stack frame size \((\d+)\) exceeds limit \(\d+\) in function '([^'\n]*)'")

_NVPTX = "nvptx64-nvidia-cuda"
_AMDGCN = "amdgcn-amd-amdhsa"


@dataclass(frozen=True)
class Module:
    """A module of LLVM IR that was read.

    symbols: its names; None where this LLVM could not read the module.
    notes:   what the user should know about it.
    signatures: the types of its functions as LLVM writes them, `float (float, i32)`, by name; where they were read.
    harmless: the functions that may run on any numbers, also on ones that no program gave them: they have no loops,
             read no memory and cannot trap.
    mathematics: the functions of C that its intrinsics are where the CPU has no instruction.
    stack: how many bytes of the stack the variables of each of its functions take.
    """

    symbols: ObjectFile | None
    notes: tuple[str, ...] = ()
    signatures: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    mathematics: tuple[str, ...] = ()
    stack: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Generated:
    """What an object was made of.

    signatures: as of a module. large: the functions that take more of the stack than the compiler was told to allow,
    with the bytes.
    """

    signatures: Mapping[str, str]
    large: Mapping[str, int]


def version() -> str:
    """`llvmlite 0.50.0`. Raises OpspliceError when it is not installed."""
    try:
        return f"llvmlite {metadata.version('llvmlite')}"
    except metadata.PackageNotFoundError as error:
        raise MissingToolError("llvmlite is not installed", hint="pip install llvmlite") from error


def compile_ir(source: Path, output: Path, target: CpuTarget, form: Form) -> Module:
    """Compiles a `.ll` file, or bitcode, at -O3 into an object for `target`, or into bitcode that fits any CPU.

    Raises OpspliceError, with LLVM's own words as details, when the text is not valid IR or uses what the target lacks.
    """
    answer = _compile(source, output, form=form, **_machine(target))
    made_for = archs.of_triple(answer["made_for"])
    return _module(answer, _note(made_for, source.name, target.arch, made_for not in (None, target.arch)))


def generate_object(source: Path, output: Path, target: CpuTarget, name: str) -> Generated | None:
    """Makes an object of bitcode that a compiler has optimised: this LLVM may make better code than its own.

    name: how errors call what was compiled. Returns None where no object was made, because the compiler's LLVM is newer
    than this one or the bitcode holds assembly.
    """
    files = {"source": str(source.absolute()), "output": str(output.absolute())}
    answer = _run({"do": "generate", **files, "form": "object", **_machine(target)}, name)
    if "unreadable" in answer:
        return None
    large = {function: int(size) for size, function in _LARGE_FRAME.findall(answer["said"])}
    return Generated(prototypes.of_ir(answer["definitions"]), large)


def _machine(target: CpuTarget) -> dict[str, str]:
    features = archs.feature_string(target.features | _BASE_FEATURES[target.arch])
    triple = archs.llvm_triple(target.arch)
    return {"triple": triple, "cpu": _CPU[target.arch], "features": features, "abi": _ABI[target.arch]}


def compile_ptx(source: Path, output: Path, target: CudaTarget) -> tuple[str, ...]:
    """Compiles a `.ll` file at -O3 into PTX of the smallest version that knows `target`; returns notes.

    Raises OpspliceError, with LLVM's own words as details, when the text is not valid IR or uses what the GPU lacks.
    """
    cpu = f"sm_{target.sm}"
    answer = _compile(source, output, form="assembly", triple=_NVPTX, cpu=cpu, features="", abi="")
    return _note(answer["made_for"], source.name, _NVPTX, _is_foreign(answer["made_for"], _NVPTX))


def compile_amdgcn(source: Path, output: Path, target: RocmTarget) -> Module:
    """Compiles a `.ll` file at -O3 into bitcode for one of AMD's GPUs; otherwise as `compile_ptx`."""
    answer = _compile(source, output, form="bitcode", triple=_AMDGCN, cpu=target.chip, features="", abi="")
    is_other = _is_foreign(answer["made_for"], _AMDGCN)
    return _module(answer, _note(answer["made_for"], source.name, _AMDGCN, is_other))


def _compile(source: Path, output: Path, **options: str) -> dict[str, Any]:
    answer = _run({"do": "compile", "source": str(source.absolute()), "output": str(output), **options}, source.name)
    if "error" in answer:
        details = re.sub(r"<string>:", f"{source}:", answer["error"].removeprefix("LLVM IR parsing error\n"))
        raise OpspliceError(f"{source.name} is not valid LLVM IR", details=details[:_LONGEST_DETAILS])
    return answer


def import_bitcode(source: Path, name: str, target: CpuTarget | RocmTarget, *, neutral: Path | None = None) -> Module:
    """Reads a bitcode file's names; with `neutral`, also writes it there without the CPU that its functions name,
    and without the name of its source.

    A module of a newer LLVM than llvmlite's cannot be read: then the symbols are None, a note says so, and `neutral` is
    not written. name: how errors and notes call the file. Raises OpspliceError when the file is not bitcode, is
    damaged, or is for another architecture: how C passes arguments and what its types are is settled in bitcode.
    """
    _check_magic(source, name)
    output = str(neutral.absolute()) if neutral else None
    answer = _run({"do": "import", "source": str(source.absolute()), "output": output}, name)
    if "unreadable" in answer:
        return _unread(answer, name)
    triple = answer["made_for"]
    if isinstance(target, RocmTarget):
        wanted, is_other = _AMDGCN, _is_foreign(triple, _AMDGCN)
        hint = f"build it with --target={_AMDGCN}, or give LLVM IR (.ll)"
    else:
        wanted = target.arch
        is_other = bool(triple) and not triple.startswith("unknown") and archs.of_triple(triple) != wanted
        hint = f"build it for {wanted}, or give the source, which is built for each target"
    if is_other:
        raise OpspliceError(f"{name} is bitcode for {triple}, but the target is {wanted}", hint=hint)
    return _module(answer)


def make_library(sources: Sequence[Path], names: Collection[str], output: Path) -> None:
    """Make one module of bitcode of files of LLVM IR, with what these names need; it is for no CPU in particular."""
    job = {"do": "library", "sources": [str(source.absolute()) for source in sources]}
    _run({**job, "names": sorted(names), "output": str(output.absolute())}, "the library")


def link_library(source: Path, name: str, library: Path, called: Collection[str]) -> Module:
    """Put into a bitcode file what it calls of a library. called: the functions that its intrinsics are calls of."""
    job = {"do": "link", "source": str(source.absolute()), "library": str(library), "called": sorted(called)}
    return _module(_run({**job, "output": str(source.absolute())}, name))


def take_part(library: Path, names: Collection[str], output: Path) -> None:
    """Write bitcode with these functions of a library, weak and hidden, as other files may have them, too."""
    job = {"do": "part", "library": str(library), "names": sorted(names), "output": str(output.absolute())}
    _run(job, "the library")


def _unread(answer: dict[str, Any], name: str) -> Module:
    """What is left of bitcode that this LLVM cannot read. Raises OpspliceError unless a newer one may read it."""
    reason = answer["unreadable"].replace("LLVM bitcode parsing error\n", "").strip()
    if not _may_be_newer(reason):
        raise OpspliceError(f"{name} is damaged bitcode: {reason}", hint="build or copy it again")
    return Module(None, (f"the symbols of {name} were not checked: {version()} cannot read it ({reason})",))


def _may_be_newer(reason: str) -> bool:
    """Whether a newer LLVM made what this one cannot read. The frame of bitcode, which says who did, never changes."""
    if "Incompatible epoch" in reason:
        return True
    if (found := _MADE_AND_READ_BY.search(reason)) is None:
        return False
    maker, reader = (re.match(r"LLVM ?(\d+)", each) for each in found.groups())
    return maker is None or reader is None or int(maker[1]) > int(reader[1])


def import_device_code(source: Path, name: str, output: Path) -> Module:
    """Reads LLVM IR for a GPU, text or bitcode, and writes it as bitcode that names no processor.

    name: how errors call the file. Raises OpspliceError when it is neither, or not valid.
    """
    is_text = source.suffix == ".ll"
    if not is_text:
        _check_magic(source, name)
    job = {"do": "assemble" if is_text else "import", "source": str(source.absolute())}
    answer = _run({**job, "output": str(output)}, name)
    reason = answer.get("error") or answer.get("unreadable")
    if reason is not None:
        message = f"{name} is not valid LLVM IR" if is_text else f"{version()} cannot read {name}"
        said = re.sub(r"^LLVM \w+ parsing error\n", "", reason).replace("<string>:", f"{source}:")
        raise OpspliceError(message, details=said[:_LONGEST_DETAILS])
    return _module(answer)


def _check_magic(source: Path, name: str) -> None:
    with open(source, "rb") as file:
        magic = file.read(4)
    if magic not in (_MAGIC, _WRAPPER_MAGIC):
        found = "an object, so its name must end in .o" if magic == b"\x7fELF" else "not LLVM bitcode"
        raise OpspliceError(f"{name} is {found}", hint="clang -emit-llvm -c makes bitcode")
    if source.stat().st_size % 4:
        raise OpspliceError(f"{name} is bitcode that was cut off", hint="build or copy it again")


@cache
def known_features(arch: archs.Arch) -> frozenset[str]:
    """The features of an architecture's CPUs by LLVM's names; empty where LLVM cannot be asked."""
    job = {"do": "features", "triple": archs.llvm_triple(arch)}
    return frozenset(_FEATURE.findall(programs.run_worker(_WORKER, job).stderr.partition("Available features")[2]))


def _run(job: dict[str, Any], name: str) -> dict[str, Any]:
    done = programs.run_worker(_WORKER, job)
    if (unknown := _UNKNOWN_CPU.search(done.stderr)) is not None:
        # LLVM goes on without it, with code for no processor in particular.
        raise OpspliceError(
            f"{version()} does not know {unknown[1]}, which {name} is to be compiled for",
            hint="pip install --upgrade llvmlite, or compile for an older processor",
        )
    if done.returncode == 0:
        return {**json.loads(done.stdout), "said": done.stderr}
    raise OpspliceError(
        f"LLVM failed on {name}",
        hint=_crash_hint(done.stderr),
        details=_crash_details(done.stderr, done.returncode),
    )


def _crash_hint(stderr: str) -> str:
    if "No module named 'llvmlite'" in stderr:
        return "pip install llvmlite"
    if "cannot select" in stderr.lower() or "do not know how to" in stderr.lower():
        return "the code uses what this CPU lacks: name the CPU feature that it needs, or write it without"
    return "check the file with LLVM's own 'opt -verify' and 'llc'"


def _crash_details(stderr: str, status: int) -> str:
    lines = stderr.splitlines()
    # LLVM's own line says what was wrong; its stack dump helps nobody here.
    said = [line for line in lines if line.startswith("LLVM ERROR")] or lines[-5:]
    return "\n".join(said)[:_LONGEST_DETAILS] or f"its process ended with status {status}"


def _module(answer: dict[str, Any], notes: tuple[str, ...] = ()) -> Module:
    harmless, mathematics = tuple(answer["harmless"]), tuple(answer["mathematics"])
    return Module(_symbols(answer), notes, answer["signatures"], harmless, mathematics, answer["stack"])


def _symbols(answer: dict[str, Any]) -> ObjectFile:
    found = dict(answer["symbols"])
    names: dict[str, Any] = {kind: frozenset(found.pop(kind)) for kind in ("functions", "data", "local", "undefined")}
    return ObjectFile(archs.of_triple(answer["made_for"]), machine=None, absolute=False, **names, **found)


def _note(made_for: str | None, name: str, wanted: str, is_other: bool) -> tuple[str, ...]:
    return (f"{name} was made for {made_for} and is compiled for {wanted}",) if is_other else ()


def _is_foreign(made_for: str, triple: str) -> bool:
    """Whether a module's triple names another architecture; `nvptx` and `nvptx64`, `amdgcn` and `amdgpu` are one."""
    return bool(made_for) and not made_for.startswith(triple[:4])
