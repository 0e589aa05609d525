"""What a function of C is in LLVM IR, and whether a function that was read there is one that a call fits.

Elements are by their MLIR names, beside `ADDRESS`. It must not know kernels or who calls.
"""

from __future__ import annotations

from collections.abc import Sequence

from opsplice.common.errors import OpspliceError

ADDRESS = "address"

# The types that take a value as it is passed, the plainest first: narrow integers come widened to 32 bits, and a bf16
# in the register of an f16.
_TYPES = {
    "f32": ("float",),
    "f64": ("double",),
    "f16": ("half",),
    "bf16": ("bfloat", "half"),
    "i1": ("i32", "i8", "i1"),
    "i8": ("i32", "i8"),
    "i16": ("i32", "i16"),
    "i32": ("i32",),
    "i64": ("i64",),
    "index": ("i64",),
    "void": ("void",),
    ADDRESS: ("ptr",),
}

KNOWN = frozenset(_TYPES)


def check(name: str, symbol: str, written: str, result: str, parameters: Sequence[str], caller: str) -> None:
    """Raise OpspliceError if a function does not have the types that it is called with, naming both sides.

    name: how errors call the file. written: the function's type as LLVM writes it, `float (float, ptr)`. result,
    parameters: elements, `ADDRESS` or `void`. caller: who calls it, in words.
    """
    first, _, rest = written.partition(" (")
    found = [first, *filter(None, rest.removesuffix(")").split(", "))]
    wanted = [_TYPES[element] for element in (result, *parameters)]
    if len(found) == len(wanted) and all(kind in fitting for kind, fitting in zip(found, wanted, strict=True)):
        return
    plain = f"{wanted[0][0]} ({', '.join(fitting[0] for fitting in wanted[1:])})"
    raise OpspliceError(
        f"'{symbol}' in {name} is `{written}`, and {caller} calls it as `{plain}`",
        hint="docs/kernels.md says what a kernel is called with",
    )
