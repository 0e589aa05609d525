"""Compilers for C, C++ and assembly: which are here, what each can make, and how it is run.

clang is preferred, then the clang inside the ziglang wheel, then gcc for the machine's own architecture; the
environment variable OPSPLICE_CC overrides that. It must not know the store, nor what a source is a kernel of.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from opsplice.common.errors import MissingToolError, OpspliceError
from opsplice.targets.artifacts import arch as archs
from opsplice.targets.artifacts import temporary_folders
from opsplice.targets.artifacts.artifact import CpuTarget, Form
from opsplice.targets.build import programs
from opsplice.targets.formats import prototypes

Language = Literal["c", "c++", "assembler-with-cpp"]

# Headers for kernels: the parts of <math.h> and <string.h> that need no library.
HEADERS = Path(__file__).with_name("include")

ENVIRONMENT_VARIABLE = "OPSPLICE_CC"

# In order of preference.
NAMES = ("clang", "zig", "gcc")
HOW_TO_GET = {"clang": "apt-get install clang", "zig": "pip install ziglang", "gcc": "apt-get install gcc"}

# Code that IREE's linker takes: position independent, no C library, no unwinder, no run-time checks. Errors of
# mathematics set no errno, so that sqrtf and its like are instructions.
_COMMON_FLAGS = [
    *("-O3", "-c", "-g0", "-fPIC", "-ffreestanding", "-fvisibility=hidden"),
    *("-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    *("-fno-math-errno", "-fomit-frame-pointer"),
]
# A function that nothing declares would be taken to return an int.
DECLARED = ["-Werror=implicit-function-declaration"]
# What a function may take of the stack of IREE's workers, which has 128 KiB: what stands above it takes some.
MOST_STACK = 120 << 10
STACK_HINT = "IREE's workers have 128 KiB of stack: work in smaller blocks, or on a `scratch` result"
_LANGUAGE_FLAGS: dict[Language, list[str]] = {
    "c": ["-std=c17", *DECLARED],
    "c++": ["-std=c++17", "-fno-exceptions", "-fno-rtti"],
    "assembler-with-cpp": [],
}
# Shadow call stacks use x18 on AArch64, so IREE's code leaves it alone.
_ARCH_FLAGS: dict[archs.Arch, list[str]] = {
    "x86_64": [],
    "aarch64": ["-ffixed-x18"],
    "riscv64": ["-march=rv64gc", "-mabi=lp64d"],
}

FORM_NAMES: dict[Form, str] = {"object": "objects", "bitcode": "bitcode", "ptx": "PTX", "hsaco": "code objects"}

_LACKS = re.compile(
    r"(_Float16|__bf16) is not supported on this target|unknown type name .(_Float16|__bf16)\b"
    r"|use of unknown builtin|implicit declaration of function .__builtin_"
)
_LACKS_OPENMP = re.compile(r"'?omp\.h'?(?:: No such file| file not found)")
OPENMP = "apt-get install libomp-dev for clang, or gcc; zig has no OpenMP"

Made = TypeVar("Made")


class UnfitError(OpspliceError):
    """A compiler lacks what a source needs, and another one may have it."""


@dataclass(frozen=True)
class Toolchain:
    """One compiler.

    name:    how the user calls it.
    family:  whose command line it takes.
    command: how it is started.
    archs:   what it can build for.
    banner:  what it says of its version, where it had to be asked; a wrapper's program says nothing of what it starts.
    """

    name: str
    family: Literal["clang", "gcc"]
    command: tuple[str, ...]
    archs: tuple[archs.Arch, ...]
    banner: str = ""

    @property
    def forms(self) -> tuple[Form, ...]:
        """What it can make: GCC has no LLVM bitcode."""
        return ("object", "bitcode") if self.family == "clang" else ("object",)

    @property
    def identity(self) -> str:
        """Changes whenever the compiler may have changed."""
        return programs.identity_of(self.command, self.banner)

    def version(self) -> str:
        """Its name and version, such as `clang 14.0.6` or `zig (clang 22.1.8)`. Runs it once per process."""
        said = programs.output_of((*self.command, "--version")).partition("\n")[0]
        release = f"{self.family} {programs.release_in(said)}"
        return release if self.name == self.family else f"{self.name} ({release})"

    def compile(
        self, source: Path, output: Path, target: CpuTarget, form: Form, language: Language, flags: Sequence[str] = ()
    ) -> frozenset[Path]:
        """Compiles one source file into `output`; returns the files it included, without the compiler's own headers.

        flags: the user's, after ours, so that they win, as `compiler_flags` gives them.
        Raises OpspliceError with the compiler's own lines as details.
        """
        dependencies = output.with_name(f"{output.name}.d")
        line = self._command_line(source, target, form, language, flags)
        command = [*line, *self.stack_flags, "-o", str(output)]
        run_compiler(self, [*command, "-MMD", "-MF", str(dependencies)], source)
        if not (output.is_file() and dependencies.is_file()):
            raise OpspliceError(
                f"{self.name} made no code from {source.name}",
                hint="remove the flags that make it do something else, such as -fsyntax-only",
            )
        return read_dependencies(dependencies, source.parent)

    def types(
        self, source: Path, target: CpuTarget, language: Language, flags: Sequence[str] = ()
    ) -> Mapping[str, str]:
        """The types of the functions that a source defines, as LLVM writes them: an object does not say them."""
        return types_of(self, self._command_line(source, target, "object", language, flags), source)

    def _command_line(
        self, source: Path, target: CpuTarget, form: Form, language: Language, flags: Sequence[str]
    ) -> list[str]:
        if self.family == "clang":
            # Without the C library's headers, which belong to the host: half of them would be found.
            selection = [f"--target={archs.llvm_triple(target.arch)}", "-nostdlibinc", *_ARCH_FLAGS[target.arch]]
            if form == "bitcode":
                selection.append("-emit-llvm")
        else:
            selection = [*_ARCH_FLAGS[target.arch]]
            if target.arch == "x86_64":
                selection.append("-fcf-protection=none")
        return [
            *self.command,
            *_COMMON_FLAGS,
            *_LANGUAGE_FLAGS[language],
            *selection,
            *self.feature_flags(target),
            "-isystem",
            str(HEADERS),
            *flags,
            *incbin_flags(source.parent),
            "-x",
            language,
            str(source),
        ]

    @property
    def stack_flags(self) -> tuple[str, ...]:
        """The flags by which a function that takes more than `MOST_STACK` is an error."""
        if self.family == "gcc":
            return (f"-Werror=frame-larger-than={MOST_STACK}",)
        return (f"-Wframe-larger-than={MOST_STACK}", "-Werror=frame-larger-than")

    def feature_flags(self, target: CpuTarget) -> list[str]:
        """The flags that turn a target's features on; code goes without those that GCC does not know."""
        if self.family == "clang":
            # The driver's -m flags name other sets in each release; these names are LLVM's, as IREE's are.
            return [w for f in sorted(target.features) for w in ("-Xclang", "-target-feature", "-Xclang", f"+{f}")]
        if target.arch != "x86_64":
            return []
        said = programs.output_of((*self.command, "-Q", "--help=target"))
        known = set(re.findall(r"^\s+(-m[\w.-]+)\s", said, re.MULTILINE))
        return [f"-m{name}" for name in sorted(target.features) if f"-m{name}" in known]


def incbin_flags(folder: Path) -> list[str]:
    """The flags by which `.incbin` looks for files in a folder."""
    return ["-Xassembler", f"-I{folder}"]


def types_of(toolchain: Toolchain, command: Sequence[str], source: Path) -> Mapping[str, str]:
    """As `Toolchain.types`. command: what compiles the source, but for where to."""
    with temporary_folders.folder() as folder:
        listing = Path(folder) / "types"
        if toolchain.family == "clang":
            words = ["-S", "-emit-llvm", "-Xclang", "-disable-llvm-passes", "-o", str(listing)]
        else:
            words = ["-S", "-O0", "-o", str(listing.with_suffix(".s")), f"-fdump-go-spec={listing}"]
        programs.must_run([*command, *words], f"{toolchain.name} cannot list the functions of {source.name}")
        text = listing.read_text(encoding="utf-8", errors="replace")
    return prototypes.of_ir(text) if toolchain.family == "clang" else prototypes.of_go(text)


def run_compiler(toolchain: Toolchain, command: Sequence[str], source: Path, *, hosted: bool = False) -> None:
    """Runs a compiler; raises OpspliceError with its lines when it fails. hosted: it has the system's headers."""
    done = programs.run_program(command)
    if done.returncode != 0:
        lacks = _LACKS.search(done.stderr) or _LACKS_OPENMP.search(done.stderr)
        kind = UnfitError if lacks else OpspliceError
        raise kind(
            f"{toolchain.name} cannot compile {source.name}",
            hint=_hint(done.stderr, toolchain, hosted),
            details=programs.shown(done.stderr, done.returncode),
        )


def find(name: str) -> Toolchain | None:
    """The compiler called `clang`, `zig` or `gcc`, or None where it is absent."""
    return _FINDERS[name]()


def find_all() -> tuple[Toolchain, ...]:
    """The compilers at hand, in order of preference; with OPSPLICE_CC set, that one alone.

    OPSPLICE_CC: `clang`, `zig`, `gcc`, or a command line that starts a clang or a gcc.
    Raises OpspliceError when OPSPLICE_CC names none that is here.
    """
    return tuple(in_order(ENVIRONMENT_VARIABLE, HOW_TO_GET, find, _from_command))


def in_order(
    variable: str, how_to_get: Mapping[str, str], find: Callable[[str], Made | None], other: Callable[[str], Made]
) -> Iterator[Made]:
    """The compilers at hand, each found when it is asked for, or only the one that a variable of the environment names.

    how_to_get: by name, in order of preference. find: by such a name. other: what the variable says else.
    """
    chosen = os.environ.get(variable, "").strip()
    if not chosen:
        yield from (found for name in how_to_get if (found := find(name)) is not None)
        return
    compiler = find(chosen) if chosen in how_to_get else other(chosen)
    if compiler is None:
        hint = f"{how_to_get[chosen]}, or unset {variable}"
        raise OpspliceError(f"{variable} asks for {chosen}, which is not here", hint=hint)
    yield compiler


def choose(target: CpuTarget, form: Form) -> Toolchain:
    """The preferred compiler that makes `form` for `target`. Raises OpspliceError when there is none."""
    return _fitting(target, form)[0]


def build_with_first(target: CpuTarget, form: Form, build: Callable[[Toolchain], Made]) -> Made:
    """What `build` makes with the preferred compiler that makes `form` for `target`.

    Where that one lacks what the source needs, such as a type or OpenMP, with the next. Raises OpspliceError when there
    is no compiler, and what `build` raises.
    """
    *others, last = _fitting(target, form)
    for toolchain in others:
        with contextlib.suppress(UnfitError):
            return build(toolchain)
    return build(last)


def _fitting(target: CpuTarget, form: Form) -> list[Toolchain]:
    """The compilers that make `form` for `target`, at least one. Raises OpspliceError when there is none."""
    found = find_all()
    fitting = [toolchain for toolchain in found if target.arch in toolchain.archs and form in toolchain.forms]
    if fitting:
        return fitting
    here = ", ".join(f"{toolchain.name} ({', '.join(toolchain.archs)})" for toolchain in found) or "none"
    needed = "clang" if form == "bitcode" or target.arch != archs.host_arch() else "clang or gcc"
    unset = f", and unset {ENVIRONMENT_VARIABLE}" if os.environ.get(ENVIRONMENT_VARIABLE, "").strip() else ""
    raise MissingToolError(
        f"no compiler here makes {FORM_NAMES[form]} for {target.arch}; that needs {needed} (found: {here})",
        hint=f"{HOW_TO_GET['zig']} or {HOW_TO_GET['clang']}{unset}",
    )


def _find_clang() -> Toolchain | None:
    path = shutil.which("clang")
    return Toolchain("clang", "clang", (path,), archs.ARCHS) if path else None


def _find_zig() -> Toolchain | None:
    folder = programs.package_folder("ziglang")
    if folder is None:
        return None
    # `zig clang` is clang itself; `zig cc` would take zig's own names of CPUs and targets. It needs to be told where
    # its headers are, which `zig cc` would do.
    command = (str(folder / "zig"), "clang", "-isystem", str(folder / "lib" / "include"))
    return Toolchain("zig", "clang", command, archs.ARCHS)


def _find_gcc() -> Toolchain | None:
    path, host = shutil.which("gcc"), archs.host_arch()
    if path is None or host is None:
        return None
    return _from_command(path, name="gcc")


_FINDERS: dict[str, Callable[[], Toolchain | None]] = {"clang": _find_clang, "zig": _find_zig, "gcc": _find_gcc}


def _from_command(line: str, name: str | None = None) -> Toolchain:
    """The compiler behind a command line, which is asked what it is."""
    try:
        words = shlex.split(line)
    except ValueError as problem:
        raise OpspliceError(
            f"{ENVIRONMENT_VARIABLE} is not a command line: {str(problem).lower()}", hint=f"it is {line}"
        ) from None
    path = shutil.which(words[0]) if words else None
    if path is None:
        raise OpspliceError(
            f"{ENVIRONMENT_VARIABLE} names '{words[0] if words else line}', which is not a program here",
            hint=f"give clang, zig, gcc or a compiler's path, or unset {ENVIRONMENT_VARIABLE}",
        )
    command = (os.path.abspath(path), *words[1:])
    said = programs.output_of((*command, "--version"))
    if "clang" in said:
        return Toolchain(name or Path(path).name, "clang", command, archs.ARCHS, said)
    if "Free Software Foundation" in said:
        arch = archs.of_triple(programs.output_of((*command, "-dumpmachine")).strip())
        return Toolchain(name or Path(path).name, "gcc", command, (arch,) if arch else (), said)
    raise OpspliceError(f"'{line}' is neither clang nor gcc", hint=f"set {ENVIRONMENT_VARIABLE} to one of them")


def read_dependencies(path: Path, folder: Path) -> frozenset[Path]:
    """The prerequisites in a Makefile rule as compilers write them (`out.o: k.c \\\\\\n  k.h`), resolved.

    The file is taken away; none has no prerequisites.
    """
    if not path.is_file():
        return frozenset()
    rule = path.read_text(encoding="utf-8", errors="surrogateescape").replace("\\\n", " ")
    path.unlink()
    _, _, prerequisites = rule.partition(": ")
    names = re.findall(r"(?:\\.|[^\s\\])+", prerequisites)
    return frozenset((folder / re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$")).resolve() for name in names)


def _hint(stderr: str, toolchain: Toolchain, hosted: bool) -> str | None:
    header = re.search(r"fatal error: '?([^':\s]+)'?(?:: No such file| file not found)", stderr)
    if hosted and _LACKS_OPENMP.search(stderr):
        return OPENMP
    if header is not None and hosted:
        return f'install what has <{header.group(1)}>, or name its folder: flags "-I FOLDER"'
    if header is not None:
        return (
            f"kernels are built without a C library: besides your own headers there are <stddef.h>, <stdint.h>, "
            f"<math.h>, <string.h>, <float.h>, <limits.h> and the compiler's intrinsics, not <{header.group(1)}>; "
            "what is `as plugin` has all that is installed"
        )
    if re.search(r"requires target feature|target specific option mismatch|needs target feature", stderr):
        return "the code needs a CPU feature: name it for this artifact ('when avx2') or add the flag (-mavx2)"
    if _LACKS.search(stderr):
        return f"this compiler is too old for that: {HOW_TO_GET['zig']} and set {ENVIRONMENT_VARIABLE}=zig"
    if "frame size" in stderr:
        return STACK_HINT
    if re.search(r"implicit declaration of function|call to undeclared function", stderr):
        return "declare the function, or include the header that does"
    if "cc1plus" in stderr and toolchain.family == "gcc":
        return "apt-get install g++"
    if "o space left on device" in stderr:
        return "make room on the disk, or set OPSPLICE_CACHE to another folder"
    return None
