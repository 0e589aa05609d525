"""The vocabulary: elementwise ops, what reductions may combine with, and element types.

This is data about MLIR's arith and math dialects as of LLVM 2026 (IREE 3.13); it needs no MLIR itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

# The word for what depends on how far apart two indices are: `band(low, high, inside, outside) : tensor<m x n x f32>`,
# or with a fifth number, which is taken off the distance.
BAND = "band"

# ---- element types ---------------------------------------------------------------------------------------------------

# What a kernel's buffers may hold. Scalars may be `index` too, and what is linked into a program may read i4.
KERNEL_ELEMENTS = ("f16", "bf16", "f32", "f64", "i1", "i8", "i16", "i32", "i64")
COMMON_ELEMENTS = (*KERNEL_ELEMENTS, "index")

_FLOAT_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64, "tf32": 19, "f80": 80, "f128": 128}
# Of float types: bits of the significand, the exponent of the smallest number, and the largest one.
FLOAT_FORMATS = {
    "f64": (53, -1074, 1.7976931348623157e308),
    "f32": (24, -149, 3.4028234663852886e38),
    "f16": (11, -24, 65504.0),
    "bf16": (8, -133, 3.3895313892515355e38),
    "f8E4M3FN": (4, -9, 448.0),
    "f8E5M2": (3, -16, 57344.0),
    "f8E4M3FNUZ": (4, -10, 240.0),
    "f8E5M2FNUZ": (3, -17, 57344.0),
}
_SMALL_FLOAT = re.compile(r"f([468])E[0-9]M[0-9][A-Z0-9]*")
_INTEGER = re.compile(r"(?:s|u)?i([1-9][0-9]{0,3})")


@lru_cache(maxsize=256)
def is_float(element: str) -> bool:
    return element in _FLOAT_BITS or _SMALL_FLOAT.fullmatch(element) is not None


@lru_cache(maxsize=256)
def is_integer(element: str) -> bool:
    """True for i8, i32, index and the like, which arith ops take; not for si8 and ui8, which they do not."""
    return element == "index" or (element.startswith("i") and _INTEGER.fullmatch(element) is not None)


@lru_cache(maxsize=256)
def is_element(element: str) -> bool:
    """Whether this is the name of an element type of MLIR's."""
    return is_float(element) or element == "index" or _INTEGER.fullmatch(element) is not None


def bits(element: str) -> int | None:
    """The width of an element type, or None for `index` and unknown names."""
    if element in _FLOAT_BITS:
        return _FLOAT_BITS[element]
    found = _SMALL_FLOAT.fullmatch(element) or _INTEGER.fullmatch(element)
    return int(found[1]) if found else None


def is_wider_float(wanted: str, element: str) -> bool:
    """Whether each number of the float type `element` is one of another, wider type."""
    return is_float(wanted) and is_float(element) and (bits(wanted) or 0) > (bits(element) or 0)


def width(element: str) -> int:
    """The width of an integer type; index is 64 bits wide on every target that IREE has."""
    return bits(element) or 64


def holds(element: str, value: float) -> bool:
    """Whether a type has a number: an integer in its bits, signed or not; a float, rounded, but neither to zero nor to
    infinity. Of types that are not known here nothing is said.
    """
    if is_integer(element):
        whole = math.isfinite(value) and value == int(value)
        return whole and -(1 << (width(element) - 1)) <= value < 1 << width(element)
    if element not in FLOAT_FORMATS or value == 0 or not math.isfinite(value):
        return True
    precision, least, largest = FLOAT_FORMATS[element]
    half_unit = math.ldexp(1.0, math.frexp(largest)[1] - precision - 1)
    return math.ldexp(0.5, least) < abs(value) < largest + half_unit


# ---- elementwise ops -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Op:
    """An op that works on each element alone.

    operands and result are letters, one element type per letter: F G H are floats, I J integers, B is i1, A Z are
    anything. A result letter that no operand has, other than B, means that the op converts to a type of its own.
    width: how a conversion's width must relate to its operand's: "wider", "narrower", "equal", or None.
    """

    name: str
    dialect: str
    operands: tuple[str, ...]
    result: str
    commutative: bool = False
    width: str | None = None
    predicates: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        return f"{self.dialect}.{self.name}"

    @property
    def arity(self) -> int:
        return len(self.operands)

    @property
    def is_cast(self) -> bool:
        return self.result != "B" and self.result not in self.operands


# The place of a predicate in its tuple is its number in the IR.
CMPF_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
CMPI_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")

# dialect, operands, result: ops; a star marks the commutative ones.
_TABLE = """
arith  F     F: negf flush_denormals
arith  F F   F: addf* mulf* subf divf remf maximumf* minimumf* maxnumf* minnumf* maximumnumf* minimumnumf*
arith  F F   B: cmpf
arith  I I   I: addi* muli* subi divsi divui remsi remui ceildivsi ceildivui floordivsi andi* ori* xori*
arith  I I   I: shli shrsi shrui maxsi* maxui* minsi* minui*
arith  I I   B: cmpi
arith  B A A A: select
arith  F     G: extf truncf convertf
arith  F H   G: scaling_extf scaling_truncf
arith  I     F: sitofp uitofp
arith  F     I: fptosi fptoui
arith  I     J: extsi extui trunci index_cast index_castui
arith  A     Z: bitcast
math   F     F: absf ceil floor round roundeven trunc exp exp2 expm1 log log1p log2 log10 sqrt rsqrt cbrt erf erfc
math   F     F: sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh
math   F F   F: powf atan2 copysign
math   F F F F: fma clampf
math   F I   F: fpowi
math   F     B: isnan isinf isfinite isnormal
math   I     I: absi ctlz cttz ctpop
math   I I   I: ipowi
"""
_WIDTHS = {
    **dict.fromkeys(("extf", "scaling_extf", "extsi", "extui"), "wider"),
    **dict.fromkeys(("truncf", "scaling_truncf", "trunci"), "narrower"),
    **dict.fromkeys(("convertf", "bitcast"), "equal"),
}
_PREDICATES = {"cmpf": CMPF_PREDICATES, "cmpi": CMPI_PREDICATES}


def _read_table() -> dict[str, Op]:
    found = {}
    for line in _TABLE.strip().splitlines():
        signature, names = line.split(":")
        dialect, *operands, result = signature.split()
        for starred in names.split():
            name = starred.rstrip("*")
            found[name] = Op(
                name, dialect, tuple(operands), result, starred != name, _WIDTHS.get(name), _PREDICATES.get(name, ())
            )
    return found


OPS: dict[str, Op] = _read_table()

# The op to write for integers where somebody wrote the one for floats.
INTEGER_TWINS = {
    "addf": "addi", "subf": "subi", "mulf": "muli", "divf": "divsi", "remf": "remsi", "maximumf": "maxsi",
    "maxnumf": "maxsi", "minimumf": "minsi", "minnumf": "minsi", "cmpf": "cmpi", "absf": "absi", "powf": "ipowi",
    "extf": "extsi", "truncf": "trunci",
}  # fmt: skip
FLOAT_TWINS = {
    "addi": "addf", "subi": "subf", "muli": "mulf", "divsi": "divf", "divui": "divf", "remsi": "remf", "remui": "remf",
    "maxsi": "maximumf", "maxui": "maximumf", "minsi": "minimumf", "minui": "minimumf", "cmpi": "cmpf",
    "absi": "absf", "ipowi": "powf", "extsi": "extf", "extui": "extf", "trunci": "truncf",
}  # fmt: skip


def find(name: str) -> Op | None:
    """The op of a short name, `mulf`, or a full one, `arith.mulf`."""
    dialect, _, short = name.rpartition(".")
    op = OPS.get(short)
    return op if op is not None and dialect in ("", op.dialect) else None


def is_word(name: str) -> bool:
    """Whether a name is the language's own: an op's, or `band`."""
    return name == BAND or find(name) is not None


def commutes(name: str) -> bool:
    """Whether an op may have its two operands either way round."""
    op = find(name)
    return op is not None and op.commutative


def is_elementwise(name: str) -> bool:
    """Whether an op of a full name makes each element of its result from the same ones of its operands."""
    return name.startswith(("arith.", "math.")) and "*" not in name


# ---- reductions ------------------------------------------------------------------------------------------------------

# Of some the number depends on the element type.
_IDENTITIES: dict[str, float | Callable[[str], int]] = {
    "addf": 0.0, "mulf": 1.0, "maximumf": -math.inf, "minimumf": math.inf, "maxnumf": -math.inf, "minnumf": math.inf,
    "addi": 0, "muli": 1,
    "maxsi": lambda element: -(1 << (width(element) - 1)), "minsi": lambda element: (1 << (width(element) - 1)) - 1,
    "maxui": 0, "minui": -1, "andi": -1, "ori": 0, "xori": 0,
}  # fmt: skip
COMBINERS = tuple(_IDENTITIES)
# Reductions that tell where the first of the largest, or the smallest, elements is.
POSITIONS = ("argmax", "argmin")


def identity(combiner: str, element: str) -> int | float | None:
    """The value that a reduction may start from without changing its result.

    combiner: a short or full op name. element: an element type's name. Integers come as two's complement numbers, as
    MLIR prints them, so all ones is -1, for i1 (`true`) too. For addf this is 0.0, as programs write it; -0.0 would
    keep the sign of a sum of negative zeros. For maxnumf and minnumf it is the infinity, which programs write, though
    only NaN leaves a NaN alone.
    None when the op does not combine, or not values of this type.
    """
    op = find(combiner)
    if op is None or op.name not in _IDENTITIES:
        return None
    if not (is_float(element) if op.result == "F" else is_integer(element)):
        return None
    found = _IDENTITIES[op.name]
    return found(element) if callable(found) else found
