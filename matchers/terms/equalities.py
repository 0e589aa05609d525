"""Equal spellings of scalar ops, in one table, from which the code, the documentation and their tests are made.

A row has two spellings in the language's own terms, how the code uses that they are equal (`Form`), and what may differ
(`Licence`). `x`, `y`, `z`, `low` and `high` stand for any value, `c` for a number, `op` for each op that `each` names.
`matchers.terms.canonical` carries the table out.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from opsplice.spec_lang.syntax import vocabulary

REDUCE = "reduce "
_NUMBERS = {"inf": math.inf, "true": True, "false": False}
_PREDICATE = re.compile(r"\) \{predicate (?:= (\w+)|in \{([\w, ]+)\})\}")
_REDUCE = re.compile(r"\breduce (\w+)\(")


class Form(StrEnum):
    """How an equality is used."""

    ONE = "=>"  # the left becomes the right wherever it stands, in programs and in patterns
    EITHER = "="  # either in a program is read as the other where a pattern asks for that
    READ = "->"  # the left in a program is read as the right where a pattern asks for that
    IDLE = "~>"  # the left in a program is looked through inside a match
    ORDER = "<>"  # a pattern's operands are tried in either order or grouping


@dataclass(frozen=True)
class Licence:
    """What may differ between two spellings, each op of which rounds to the nearest; NaN is NaN, whatever its bits.

    ulps: units in the last place. steps: the rounding of each step, which counts where steps cancel out. zero: the sign
    of a zero. nan: all where an operand is NaN. where: which values all of this holds for; the others are not covered.
    """

    ulps: int = 0
    steps: bool = False
    zero: bool = False
    nan: bool = False
    where: str = ""

    def __str__(self) -> str:
        differs = " or ".join(["in the sign of a zero"] * self.zero + ["where an operand is NaN"] * self.nan)
        amount = "the rounding of each step" if self.steps else f"within {self.ulps} ulp" if self.ulps else "exact"
        words = f"differs {differs}" if differs else amount
        return f"{words} where {self.where}" if self.where else words


@dataclass(frozen=True)
class Node:
    """An op of a spelling. predicates: of a comparison, any of them."""

    op: str
    args: tuple[Shape, ...]
    predicates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Computed:
    """A number that is computed from another one, `-c` or `1 / c`; computed again, it is that one."""

    name: str
    reciprocal: bool

    def of(self, value: float) -> float:
        if not self.reciprocal:
            return -value
        return 1 / value if value else math.copysign(math.inf, value)


# An op, the name of a value, a number, or one computed from `c`.
Shape = Node | str | float | Computed


@dataclass(frozen=True)
class Row:
    """left and right are equal by a licence. when: what a program must be for that, which the code checks."""

    left: str
    form: Form
    right: str
    licence: Licence = Licence()
    when: str = ""
    each: tuple[str, ...] = ()

    def expanded(self) -> Iterator[Row]:
        """Rows of one op and of one predicate for each comparison: what is `in {...}` goes side by side."""
        for name in self.each or ("op",):
            sides = [side.replace("op(", f"{name}(") for side in (self.left, self.right)]
            for number in range(max(len(_predicates(found)) for side in (*sides, "") for found in _compared(side))):
                left, right = (_PREDICATE.sub(functools.partial(_chosen, number=number), side) for side in sides)
                yield replace(self, left=left, right=right, each=())


def _compared(side: str) -> list[re.Match[str] | None]:
    """The comparisons of a spelling, None if there are none."""
    return list(_PREDICATE.finditer(side)) or [None]


def _predicates(compared: re.Match[str] | None) -> list[str]:
    """The predicates that a comparison may have, one that is empty where there is none."""
    return (compared[1] or compared[2]).split(", ") if compared else [""]


def _chosen(compared: re.Match[str], number: int) -> str:
    """A comparison with one of its predicates."""
    names = _predicates(compared)
    return f") {{predicate = {names[number % len(names)]}}}"


_MAXIMUM = Licence(zero=True, nan=True)
_ZERO = Licence(zero=True)
_NAN = "cmpf(x, x) {predicate in {une, uno}}"
_COMMUTATIVE = tuple(op.name for op in vocabulary.OPS.values() if op.commutative and "num" not in op.name)
_BITS = ("addi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui")

TABLE = (
    Row("select(true, x, y)", Form.ONE, "x"),
    Row("select(false, x, y)", Form.ONE, "y"),
    Row("fpowi(x, 2)", Form.ONE, "mulf(x, x)"),
    Row("powf(x, 2.0)", Form.ONE, "mulf(x, x)"),
    Row("ipowi(x, 2)", Form.ONE, "muli(x, x)"),
    Row("fpowi(x, 3)", Form.ONE, "mulf(mulf(x, x), x)", Licence(ulps=1)),
    Row("powf(x, 3.0)", Form.ONE, "mulf(mulf(x, x), x)", Licence(ulps=1)),
    Row("ipowi(x, 3)", Form.ONE, "muli(muli(x, x), x)"),
    Row("powf(x, 0.5)", Form.ONE, "sqrt(x)", Licence(where="x is neither -0 nor -inf")),
    Row("powf(x, -0.5)", Form.ONE, "rsqrt(x)", Licence(where="x is neither -0 nor -inf")),
    Row("divf(1.0, sqrt(x))", Form.ONE, "rsqrt(x)", Licence(ulps=1)),
    Row("select(cmpf(x, y) {predicate in {ogt, oge, ugt, uge}}, x, y)", Form.ONE, "maximumf(x, y)", _MAXIMUM),
    Row("select(cmpf(x, y) {predicate in {olt, ole, ult, ule}}, x, y)", Form.ONE, "minimumf(x, y)", _MAXIMUM),
    Row(f"select(ori(cmpf(x, y) {{predicate in {{ogt, oge}}}}, {_NAN}), x, y)", Form.ONE, "maximumf(x, y)", _ZERO),
    Row(f"select(ori(cmpf(x, y) {{predicate in {{olt, ole}}}}, {_NAN}), x, y)", Form.ONE, "minimumf(x, y)", _ZERO),
    Row("select(cmpi(x, y) {predicate in {sgt, sge}}, x, y)", Form.ONE, "maxsi(x, y)"),
    Row("select(cmpi(x, y) {predicate in {slt, sle}}, x, y)", Form.ONE, "minsi(x, y)"),
    Row("select(cmpi(x, y) {predicate in {ugt, uge}}, x, y)", Form.ONE, "maxui(x, y)"),
    Row("select(cmpi(x, y) {predicate in {ult, ule}}, x, y)", Form.ONE, "minui(x, y)"),
    Row("maxnumf(x, y)", Form.ONE, "maximumf(x, y)", _MAXIMUM),
    Row("minnumf(x, y)", Form.ONE, "minimumf(x, y)", _MAXIMUM),
    Row("maximumnumf(x, y)", Form.ONE, "maximumf(x, y)", Licence(nan=True)),
    Row("minimumnumf(x, y)", Form.ONE, "minimumf(x, y)", Licence(nan=True)),
    Row("clampf(x, low, high)", Form.ONE, "minimumf(maximumf(x, low), high)", Licence(where="low < high")),
    Row("maximumf(x, 0.0)", Form.ONE, "x", when="x is a sum of squares"),
    Row("cmpi(x, false) {predicate = eq}", Form.ONE, "xori(x, true)"),
    Row("cmpi(x, true) {predicate = ne}", Form.ONE, "xori(x, true)"),
    Row("xori(xori(x, true), true)", Form.ONE, "x"),
    Row("ori(x, false)", Form.ONE, "x"),
    Row("andi(x, true)", Form.ONE, "x"),
    Row("mulf(absf(x), absf(x))", Form.READ, "mulf(x, x)"),
    Row("select(cmpi(x, 0) {predicate = sge}, x, subi(0, x))", Form.ONE, "absi(x)"),
    Row("absi(extui(x))", Form.ONE, "extui(x)"),
    Row("sitofp(extsi(x))", Form.ONE, "sitofp(x)"),
    Row("sitofp(extui(x))", Form.ONE, "uitofp(x)"),
    Row("uitofp(extui(x))", Form.ONE, "uitofp(x)"),
    Row(
        "xori(cmpf(x, y) {predicate in {oeq, one, ogt, oge, ord, ueq, une, ugt, uge, uno}}, true)",
        Form.EITHER,
        "cmpf(x, y) {predicate in {une, ueq, ule, ult, uno, one, oeq, ole, olt, ord}}",
    ),
    Row(
        "xori(cmpi(x, y) {predicate in {eq, ne, sgt, sge, ugt, uge}}, true)",
        Form.EITHER,
        "cmpi(x, y) {predicate in {ne, eq, sle, slt, ule, ult}}",
    ),
    Row("select(x, y, z)", Form.READ, "select(xori(x, true), z, y)"),
    Row("divf(x, c)", Form.EITHER, "mulf(x, 1 / c)", Licence(ulps=1), when="c and 1 / c are normal numbers"),
    Row(
        "divf(x, y)",
        Form.EITHER,
        "mulf(x, divf(1.0, y))",
        Licence(ulps=1, where="1 / y is not denormal and does not overflow"),
        when="y is not a number",
    ),
    Row("mulf(x, rsqrt(y))", Form.READ, "divf(x, sqrt(y))", Licence(ulps=2)),
    Row("rsqrt(x)", Form.READ, "divf(1.0, sqrt(x))", Licence(ulps=1)),
    Row("subf(x, c)", Form.EITHER, "addf(x, -c)"),
    Row("subf(x, y)", Form.EITHER, "addf(x, negf(y))", when="y is not a number"),
    Row("addf(x, mulf(y, -1.0))", Form.READ, "subf(x, y)"),
    Row("subf(x, negf(y))", Form.READ, "addf(x, y)"),
    Row("negf(subf(x, y))", Form.READ, "addf(y, negf(x))", _ZERO),
    Row("negf(addf(x, y))", Form.READ, "addf(negf(x), negf(y))", _ZERO),
    Row("negf(x)", Form.EITHER, "mulf(x, -1.0)"),
    Row("negf(x)", Form.EITHER, "subf(-0.0, x)"),
    Row("negf(x)", Form.EITHER, "subf(0.0, x)", _ZERO),
    Row("divf(x, -1.0)", Form.READ, "negf(x)"),
    Row("fma(x, y, z)", Form.EITHER, "addf(mulf(x, y), z)", Licence(steps=True, where="x * y does not overflow")),
    Row(
        "reduce addf(mulf(x, c))",
        Form.READ,
        "mulf(reduce addf(x), c)",
        Licence(steps=True, where="no partial sum overflows"),
        when="c is a normal number",
    ),
    Row("addf(x, 0.0)", Form.IDLE, "x", _ZERO),
    Row("addf(x, -0.0)", Form.IDLE, "x"),
    Row("subf(x, 0.0)", Form.IDLE, "x"),
    Row("subf(x, -0.0)", Form.IDLE, "x", _ZERO),
    Row("subi(x, 0)", Form.IDLE, "x"),
    Row("mulf(x, 1.0)", Form.IDLE, "x"),
    Row("divf(x, 1.0)", Form.IDLE, "x"),
    Row("maximumf(x, -inf)", Form.IDLE, "x"),
    Row("minimumf(x, inf)", Form.IDLE, "x"),
    Row("op(x, y)", Form.ORDER, "op(y, x)", each=_COMMUTATIVE),
    Row("cmpf(x, y) {predicate in {ogt, oge, ugt, uge}}", Form.ORDER, "cmpf(y, x) {predicate in {olt, ole, ult, ule}}"),
    Row(
        "cmpf(x, y) {predicate in {oeq, one, ord, ueq, une, uno}}",
        Form.ORDER,
        "cmpf(y, x) {predicate in {oeq, one, ord, ueq, une, uno}}",
    ),
    Row("cmpi(x, y) {predicate in {sgt, sge, ugt, uge}}", Form.ORDER, "cmpi(y, x) {predicate in {slt, sle, ult, ule}}"),
    Row("cmpi(x, y) {predicate in {eq, ne}}", Form.ORDER, "cmpi(y, x) {predicate in {eq, ne}}"),
    Row("op(op(x, y), z)", Form.ORDER, "op(x, op(y, z))", each=(*_BITS, "maximumf", "minimumf")),
    Row(
        "addf(addf(x, y), z)", Form.ORDER, "addf(x, addf(y, z))", Licence(steps=True, where="no partial sum overflows")
    ),
    Row(
        "subf(addf(x, y), z)", Form.ORDER, "addf(x, subf(y, z))", Licence(steps=True, where="no partial sum overflows")
    ),
    Row(
        "mulf(mulf(x, y), z)",
        Form.ORDER,
        "mulf(x, mulf(y, z))",
        Licence(steps=True, where="no partial product overflows or is denormal"),
    ),
)


def shape(text: str) -> Shape:
    """A spelling as it is matched."""
    python = _REDUCE.sub(r"reduce_\1(", _PREDICATE.sub(lambda m: f", predicate='{m[1] or m[2]}')", text))
    return _shape(ast.parse(python, mode="eval").body)


def _shape(written: ast.expr) -> Shape:
    match written:
        case ast.Name(id=name):
            return _NUMBERS.get(name, name)
        case ast.UnaryOp(operand=ast.Name(id="c" as name)):
            return Computed(name, reciprocal=False)
        case ast.BinOp(right=ast.Name(id=name)):
            return Computed(name, reciprocal=True)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            predicates = tuple(each for key in keywords for each in ast.literal_eval(key.value).split(", "))
            reduction, _, short = name.rpartition("_")
            return Node(
                f"{REDUCE if reduction else ''}{vocabulary.OPS[short].full_name}", tuple(map(_shape, args)), predicates
            )
        case ast.UnaryOp(operand=ast.Name(id="inf")):
            return -math.inf
    number = ast.literal_eval(written)
    assert isinstance(number, (int, float))
    return number
