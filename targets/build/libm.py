"""The mathematics of C for kernels, as bitcode or objects that go into theirs: made of what the `ziglang` wheel brings.

Zig's own library has some of the functions, its runtime for compilers some, musl's C the rest; `libm_parts/` has those
that are further off in all of these. All are made into one module once, which names no CPU; what a kernel calls of it
becomes part of the kernel, and is inlined in bitcode.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib import metadata
from pathlib import Path

from opsplice.common.errors import MissingToolError
from opsplice.common.store import Store, key_of
from opsplice.targets.artifacts import temporary_folders
from opsplice.targets.artifacts.artifact import CpuTarget
from opsplice.targets.build import llvm, programs
from opsplice.targets.formats import elf

# Part of the key. Raise it when the same sources come to be another library.
_BUILDER = "libm 8"

# In f64, and in f32 with an `f` behind.
NAMES = frozenset(base + suffix for base in elf.MATHEMATICS for suffix in ("", "f"))

# What compilers call by themselves where the CPU has no instruction; IREE has what bitcode needs of it.
_HELPERS = """
    __extendhfsf2 __extendhfdf2 __truncsfhf2 __truncdfhf2 __truncsfbf2 __truncdfbf2 __powisf2 __powidf2
    __popcountsi2 __popcountdi2
"""
HELPERS = frozenset(_HELPERS.split())

# What x86's baseline does by a call, and all other CPUs in an instruction or a few; but for nearbyint on RISC-V.
_ROUNDING = frozenset(
    base + suffix
    for base in ("ceil", "floor", "nearbyint", "rint", "round", "roundeven", "trunc")
    for suffix in ("", "f")
)

# Sources of musl's, by name.
_MUSL = """
    atan2 atan2f erf erff ilogb ilogbf ldexp ldexpf lgamma_r llround llroundf logb logbf nextafter nextafterf
    pow powf remainder remainderf remquo remquof scalbln scalblnf scalbn scalbnf exp_data pow_data
    powf_data exp2f_data __cos __cosdf __sin __sindf __math_divzero __math_divzerof __math_invalid __math_invalidf
    __math_oflow __math_oflowf __math_uflow __math_uflowf __math_xflow __math_xflowf
"""
_ZIG = ("-target", "x86_64-freestanding", "-mcpu=baseline", "-O", "ReleaseFast", "-fstrip", "-fno-emit-bin")
_CLANG = (
    *("--target=x86_64-unknown-linux-musl", "-nostdinc", "-O3", "-ffreestanding", "-fno-stack-protector"),
    *("-fno-math-errno", "-ffp-contract=off", "-w", "-S", "-emit-llvm"),
    *("-Derfc=__erfc", "-Derfcf=__erfcf"),  # libm.zig has better ones; these are in `erf`'s and `erff`'s files
)


def file() -> Path:
    """The library's bitcode, built once and kept in the user's cache.

    Raises OpspliceError where zig is not installed, or cannot build it.
    """
    return Store().get_or_build(key_of(_BUILDER, llvm.version(), _zig_version()), ".bc", _build).path


def called(target: CpuTarget) -> frozenset[str]:
    """The functions that a CPU has no instructions for: code for it calls them where it has their intrinsics."""
    if target.arch == "x86_64" and "sse4.1" not in target.features:
        return NAMES
    left = {"nearbyint", "nearbyintf"} if target.arch == "riscv64" else set()
    return NAMES - (_ROUNDING - left)


def object_file(target: CpuTarget, names: Collection[str] = NAMES) -> Path:
    """An object for a CPU with these functions of the library, by their names in C, weak and hidden.

    Raises OpspliceError as `file` does.
    """

    def build(output: Path) -> dict[str, object]:
        wanted, taken = frozenset(names), frozenset[str]()
        with temporary_folders.folder() as folder:
            part = Path(folder) / "part.bc"
            while wanted != taken:
                llvm.take_part(file(), wanted, part)
                llvm.compile_ir(part, output, target, "object")
                # Where a CPU has no instruction for a step of a function, the code for that calls another one.
                called = elf.read_object(output.read_bytes(), "the library").undefined & NAMES
                wanted, taken = wanted | called, wanted
        return {}

    parts = (_BUILDER, llvm.version(), _zig_version(), target.arch, ",".join(sorted(target.features)), *sorted(names))
    return Store().get_or_build(key_of(*parts), ".o", build).path


@cache
def _zig_version() -> str:
    try:
        return metadata.version("ziglang")
    except metadata.PackageNotFoundError:
        raise MissingToolError(
            "the mathematics of C is made of what zig brings, which is not installed", hint="pip install ziglang"
        ) from None


def _build(output: Path) -> None:
    zig = programs.package_folder("ziglang")
    assert zig is not None, "its version is known"
    musl, headers = zig / "lib" / "libc" / "musl", zig / "lib" / "libc" / "include"
    own = [musl / "src" / "internal", musl / "src" / "include", musl / "arch" / "x86_64", musl / "arch" / "generic"]
    includes = [f"-I{folder}" for folder in (*own, headers / "generic-musl", headers / "x86_64-linux-musl")]
    with temporary_folders.folder() as name:
        folder, program = Path(name), str(zig / "zig")
        caches = ["--cache-dir", name, "--global-cache-dir", name]
        for source in (Path(__file__).with_name("libm.zig"), zig / "lib" / "compiler_rt.zig"):
            made = f"-femit-llvm-ir={folder / source.stem}.ll"
            _run([program, "build-obj", str(source), *_ZIG, *caches, made])
        for source in (musl / "src" / "math" / f"{each}.c" for each in _MUSL.split()):
            _run([program, "clang", *_CLANG, *includes, str(source), "-o", str(folder / f"{source.stem}.ll")])
        llvm.make_library(sorted(folder.glob("*.ll")), NAMES | HELPERS, output)


def _run(command: list[str]) -> None:
    hint = "pip install 'ziglang==0.17.0', with which this was tried"
    programs.must_run(command, "zig does not build the mathematics of C", lambda _: hint)
