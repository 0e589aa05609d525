"""The flags that a spec may give to a compiler: those that say how code is made, and none that names a file to load or
to write, or another program to run.

They are listed, not the others: compilers have hundreds of flags that reach files, and each release brings more. Who
needs another flag puts it into OPSPLICE_CC, which is the user's and not the spec's.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from opsplice.common.errors import OpspliceError

Kind = Literal["C", "library", "CUDA", "GLSL", "Slang", "WGSL"]

# Names of clang's and GCC's `-f` flags, each also with `no-` before it and with a plain value behind it.
_NAMES = """
    align-functions align-jumps align-labels align-loops aligned-allocation approx-func associative-math
    asynchronous-unwind-tables builtin caret-diagnostics cf-protection char8_t color-diagnostics common
    complex-arithmetic concepts constexpr-depth constexpr-loop-limit constexpr-steps coroutines cx-fortran-rules
    cx-limited-range data-sections delete-null-pointer-checks denormal-fp-math denormal-fp-math-f32
    diagnostics-color excess-precision exceptions fast-math finite-loops finite-math-only float-store
    force-emit-vtables fp-contract fp-eval-method fp-exception-behavior fp-int-builtin-inexact fp-model freestanding
    function-sections gcse gnu89-inline honor-infinities honor-nans hosted if-conversion if-conversion2 inline
    inline-functions inline-hint-functions inline-limit inline-small-functions ipa-cp-clone
    isolate-erroneous-paths-dereference ivopts jump-tables lax-vector-conversions loop-interchange
    loop-nest-optimize loop-unroll-and-jam math-errno merge-all-constants ms-extensions new-alignment
    omit-frame-pointer openmp openmp-simd operator-names optimize-sibling-calls partial-inlining peel-loops
    permissive pic PIC pie PIE plt prefetch-loop-arrays protect-parens reciprocal-math rename-registers
    reorder-blocks rounding-math rtti sched-pressure schedule-insns schedule-insns2 semantic-interposition
    short-enums short-wchar signaling-nans signed-char signed-zeros simd-cost-model single-precision-constant
    sized-deallocation slp-vectorize split-loops stack-clash-protection stack-protector stack-protector-all
    stack-protector-strong strict-aliasing strict-enums strict-float-cast-overflow strict-overflow template-depth
    threadsafe-statics trapping-math trapv
    tree-loop-distribute-patterns tree-loop-distribution tree-loop-vectorize tree-pre tree-slp-vectorize
    tree-vectorize trivial-auto-var-init unroll-all-loops unroll-loops unsafe-math-optimizations unsigned-char
    unswitch-loops unwind-tables vect-cost-model vectorize version-loops-for-strides visibility
    visibility-inlines-hidden wrapv zero-call-used-regs zero-initialized-in-bss
"""
_CODE = _NAMES.split()
_NVCC = """
    default-device device-as-default-execution-space device-debug device-int128 dopt expt-relaxed-constexpr
    extended-lambda extra-device-vectorization fmad ftz generate-line-info lineinfo maxrregcount minimal prec-div
    prec-sqrt restrict use_fast_math diag-suppress std Wno-deprecated-gpu-targets
"""

_VALUE = r"(?:=[\w.,+-]*)?"
_DEFINES = r"-[DU].+"
_C = "|".join(
    [
        rf"-f(?:no-)?(?:{'|'.join(map(re.escape, _CODE))}){_VALUE}",
        r"-fno-builtin-\w+",
        # -Wa, -Wl and -Wp hand flags on to other programs, -mllvm and -mmlir to libraries.
        r"-W(?![alp],)[\w+-]*" + _VALUE,
        rf"-m(?!llvm|mlir)[\w.+-]+{_VALUE}",
        r"-O(?:[0-3sgz]|fast)?|-g[0-3]?|-w|-pedantic|-pedantic-errors|-pthread|-std=[\w+]+|--param=[\w-]+=\d+",
        _DEFINES,
    ]
)
_LINKED = r"|-l[\w.+-]+|-Wl,(?:-rpath,[^,@]+|--as-needed|--no-as-needed|-z,[\w-]+)"


@dataclass(frozen=True)
class _Allowed:
    """Flags: `alone` are one word, `valued` have a word behind, `folders` a folder, joined or behind."""

    alone: str
    valued: tuple[str, ...] = ()
    folders: tuple[str, ...] = ("-I",)


_FOLDERS = ("-iquote", "-isystem", "-idirafter", "-I")
_ALLOWED: dict[Kind, _Allowed] = {
    "C": _Allowed(_C, ("-D", "-U", "-include", "--param"), _FOLDERS),
    "library": _Allowed(_C + _LINKED, ("-D", "-U", "-include", "--param"), (*_FOLDERS, "-L")),
    "CUDA": _Allowed(
        rf"{_C}|--?(?:{'|'.join(_NVCC.split())}){_VALUE}|--(?:un)?define-macro=.+|-G",
        ("-D", "-U", "-include", "-maxrregcount", "--maxrregcount"),
        (*_FOLDERS, "--include-path="),
    ),
    "GLSL": _Allowed(
        rf"{_DEFINES}|-O[0sd]?|-g(?:0|VS?)?|-w|-Werror|-std=[\w.]+|--target-(?:env|spv)=[\w.]+|-f(?:entry-point=\w+"
        r"|auto-map-locations|auto-bind-uniforms|preserve-bindings|invert-y|nan-clamp)|--(?:nan-clamp|amb|aml|ku|nsf"
        r"|auto-map-bindings|auto-map-locations|keep-uncalled|no-storage-format)",
        ("--target-env", "-e", "--entry-point", "--source-entrypoint"),
    ),
    "Slang": _Allowed(
        rf"{_DEFINES}|-O[0-3]?|-g[0-3]?|-matrix-layout-(?:row|column)-major|-fvk-(?:use-[\w-]+|invert-y)|-fspv-[\w-]+"
        r"|-force-glsl-scalar-layout|-emit-spirv-(?:directly|via-glsl)|-ignore-capabilities|-loop-inversion",
        ("-D", "-profile", "-capability", "-entry", "-stage", "-fp-mode", "-floating-point-mode", "-warnings-disable"),
    ),
    "WGSL": _Allowed(r"--keep-coordinate-space|--generate-debug-symbols|--compact", (), ()),
}


def checked(flags: Sequence[str], kind: Kind, folder: Path) -> tuple[str, ...]:
    """The flags as they are given to a compiler that runs elsewhere: paths in them are absolute.

    folder: where relative paths start. Raises OpspliceError for a flag that is not among the allowed ones.
    """
    allowed = _ALLOWED[kind]
    made: list[str] = []
    words = iter(flags)
    for word in words:
        value: str | None = ""
        if prefix := next((f for f in allowed.folders if word.startswith(f)), None):
            path = word.removeprefix(prefix) or next(words, None)
            made.append(prefix + os.path.join(folder, path) if path else word)
            value = path
        elif word in allowed.valued:
            value = next(words, None)
            beside = word == "-include" and value is not None and (folder / value).is_file()
            made += [word, str(folder / value) if beside and value is not None else value or ""]
        elif re.fullmatch(allowed.alone, word, re.DOTALL):
            made.append(word)
        else:
            raise _refused(word, allowed)
        if value is None:
            raise OpspliceError(f"the compiler flag {word} lacks what belongs behind it")
        # A word that begins so is the name of a file with more flags, wherever it stands.
        if word.startswith("@") or value.startswith("@"):
            raise _refused(f"{word} {value}".strip(), allowed)
    return tuple(made)


def _refused(flag: str, allowed: _Allowed) -> OpspliceError:
    words = [*allowed.valued, *allowed.folders, *(f"-f{name}" for name in _CODE)]
    near = difflib.get_close_matches(flag, words, n=1, cutoff=0.8)
    of_links = re.fullmatch(_ALLOWED["library"].alone, flag)
    return OpspliceError(
        f"the compiler flag {flag} is not one that a spec may give",
        hint="libraries are linked to what is `as plugin`"
        if of_links
        else (f"did you mean {near[0]}? " if near else "")
        + "a spec's flags say how code is made; those that load or write files, or run programs, are refused "
        "(docs/security.md); your own go into OPSPLICE_CC or OPSPLICE_CUDA_CC",
    )
