"""Every equal spelling is checked, not believed: the code takes it, and the licence is what the numbers say."""

from __future__ import annotations

import ast
import dataclasses
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opsplice.matchers.terms import canonical as code
from opsplice.matchers.terms.equalities import REDUCE, TABLE, Computed, Form, Licence, Node, Row, shape
from opsplice.matchers.terms.terms import Access, Apply, Constant, Loop, Reduce
from opsplice.spec_lang.syntax import vocabulary
from scripts import equalities as written
from tests.matchers.terms.arithmetic import TYPES, Array, evaluate

ROWS = [row for each in TABLE for row in each.expanded()]


def name_of(row: Row) -> str:
    return f"{row.left} {row.form} {row.right}"


# What stands for a name where a row asks for something special.
AN_OP = "x, which an op makes"
STANDS_FOR = {
    AN_OP: {"x": "absf(a)"},
    "x is a sum of squares": {"x": "divf(reduce addf(mulf(a, a)), 3.0)"},
}
# What casts make.
CASTS = {"arith.extsi": "i32", "arith.extui": "i32", "arith.sitofp": "f32", "arith.uitofp": "f32"}
ALONG = 3  # how many values a reduction runs over
ELEMENT = Loop(0, ALONG)
FACTORS = (3.0, -0.1, 1 / 3, 0.0, -0.0, 1e-4, 6e-8, 6e4, 1e-39, 3e38, 1e38, float("inf"), float("-inf"), float("nan"))
LIMITS = {"f16": (6.104e-5, 65504.0), "f32": (1.1754944e-38, 3.4028235e38)}  # the smallest normal number, the largest


def stands_for(row: Row) -> dict[str, str]:
    return STANDS_FOR.get(AN_OP if row.form is Form.READ and row.right == "x" else row.when, {})


# ---- terms -------------------------------------------------------------------------------------------------------


class Terms:
    """Terms of the spellings of a row: ops on elements of one type, numbers for `c`, accesses for other names."""

    def __init__(self, row: Row, kind: str, factor: float = 3.0) -> None:
        self.names = {name: shape(text) for name, text in stands_for(row).items()}
        self.made: dict[str, Any] = {}
        self.kind, self.factor, self.loops = kind, factor, 0

    def of(self, wanted: Any, at: Loop = ELEMENT) -> Any:
        if isinstance(wanted, str) and wanted in self.names:
            if wanted not in self.made:
                self.made[wanted] = self.of(self.names[wanted], at)
            return self.made[wanted]
        if isinstance(wanted, str):
            return Constant(self.factor, self.kind) if wanted == "c" else Access(wanted, (at,))
        if isinstance(wanted, Node):
            return self._op(wanted, at)
        if isinstance(wanted, bool):
            return Constant(int(wanted), "i1")
        value = wanted.of(self.factor) if isinstance(wanted, Computed) else wanted
        return Constant(value, "i32" if isinstance(value, int) else self.kind)

    def _op(self, wanted: Node, at: Loop) -> Any:
        if wanted.op.startswith(REDUCE):
            self.loops += 1
            loop = Loop(self.loops, ALONG)
            return Reduce(wanted.op.removeprefix(REDUCE), (loop,), self.of(wanted.args[0], loop))
        names = {"arith.cmpf": vocabulary.CMPF_PREDICATES, "arith.cmpi": vocabulary.CMPI_PREDICATES}.get(wanted.op, ())
        attributes = tuple(("predicate", str(names.index(name))) for name in wanted.predicates)
        args = tuple(self.of(a, at) for a in wanted.args)
        kind = next((a.type for a in args if isinstance(a, Apply) and a.op in CASTS), self.kind)  # what a cast gives
        is_truth = names or any(isinstance(arg, bool) for arg in wanted.args)
        return Apply(wanted.op, args, attributes, CASTS.get(wanted.op, "i1" if is_truth else kind))


def alike(left: Any, right: Any) -> bool:
    """Whether two terms are one but for their loops."""
    if isinstance(left, Apply) and isinstance(right, Apply):
        same = (left.op, left.attributes, left.type) == (right.op, right.attributes, right.type)
        return same and all(map(alike, left.args, right.args))
    if isinstance(left, Reduce) and isinstance(right, Reduce):
        return left.combiner == right.combiner and alike(left.body, right.body)
    if isinstance(left, Access) and isinstance(right, Access):
        return left.value == right.value
    return left == right


def names_in(wanted: Any) -> set[str]:
    if isinstance(wanted, Node):
        return set().union(*map(names_in, wanted.args))
    return {wanted} if isinstance(wanted, str) else set()


def ops_in(wanted: Any) -> set[str]:
    if not isinstance(wanted, Node):
        return set()
    return {wanted.op.rpartition(".")[2]}.union(*map(ops_in, wanted.args))


def kinds(row: Row) -> tuple[str, ...]:
    both = row.left + row.right
    truths = any(op in both for op in ("cmpi", "xori", "ori(", "andi")) and ("true" in both or "false" in both)
    if "cmpf" not in both and truths:
        return ("i1",)
    whole = {"I"} <= {vocabulary.OPS[name].operands[0] for name in ops_in(shape(row.left)) if "reduce" not in name}
    return ("i8",) if whole and "cmpf" not in row.left else ("f16", "f32")


def factors(row: Row) -> tuple[float, ...]:
    return FACTORS if "c" in names_in(shape(row.left)) else (3.0,)


def known_as(row: Row, terms: Terms) -> tuple[Any, list[Any]]:
    """The left of a row, and what the code makes of it where it looks for the right."""
    left, right = shape(row.left), shape(row.right)
    term = terms.of(left)

    def resolve(each: Any, **_: Any) -> Any:
        return each

    if row.form is Form.ONE:
        return term, [code.canonical(term, resolve)]
    if row.form is Form.IDLE:
        return term, [code.unchanged(term, resolve)]
    if isinstance(term, Reduce):
        return term, list(code.hoisted(term, resolve))
    wanted = terms.of(right)
    return term, list(code.readings(term, wanted.op, resolve))


# ---- the code takes what the table says ---------------------------------------------------------------------------


@pytest.mark.parametrize("row", [r for r in ROWS if r.form is not Form.ORDER], ids=name_of)
def test_the_code_knows_each_row(row):
    other = dataclasses.replace(row, left=row.right, right=row.left)
    for each in (row, other) if row.form is Form.EITHER else (row,):
        for kind in kinds(row):
            terms = Terms(row, kind)
            _, found = known_as(each, terms)
            wanted = terms.of(shape(each.right))
            assert [term for term in found if alike(term, wanted)], f"{found} is not {wanted}"


def test_the_code_knows_each_order():
    for row in (r for r in ROWS if r.form is Form.ORDER):
        (kind, *_), left, right = kinds(row), shape(row.left), shape(row.right)
        if "cmp" in row.left:
            term, other = (Terms(row, kind).of(side) for side in (left, right))
            assert alike(code.turned(term, other.attributes[0][1]), other)
        elif isinstance(left.args[0], Node):
            assert left.args[0].op in code.ASSOCIATIVE
        else:
            assert vocabulary.OPS[left.op.rpartition(".")[2]].commutative
    lefts = [shape(r.left) for r in ROWS if r.form is Form.ORDER]
    chains = [(left.op, left.args[0]) for left in lefts if isinstance(left, Node)]
    assert {op for op, inner in chains if isinstance(inner, Node) and inner.op == op} == code.ASSOCIATIVE


def test_the_code_knows_no_op_but_by_the_table():
    """Where the code names an op itself, a row says why."""
    rows = {
        "hoisted": "reduce addf(mulf(x, c))",
        "SUMS_AS": "reduce addf(mulf(x, c))",
        "_split": "reduce addf(mulf(x, c))",
        "_is_not_negative": "maximumf(x, 0.0)",
        "WIDTHS": "",  # what casts are is not an equality
        "WIDENINGS": "",
        "_PREDICATES": "",
    }
    named = set()
    for part in ast.parse(inspect.getsource(code)).body:
        texts = [n.value for n in ast.walk(part) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        if any(text.startswith(("arith.", "math.")) for text in texts):
            named.add(part.name if isinstance(part, ast.FunctionDef) else ast.unparse(part.targets[0]))
    assert named == set(rows)
    assert {text for text in rows.values() if text} <= {row.left for row in TABLE}


def test_what_a_row_asks_for_is_asked():
    asked = {row.when for row in TABLE if row.when and not row.left.startswith("reduce ")}
    assert asked == set(code._CONDITIONS)


# ---- the licence is what the numbers say ---------------------------------------------------------------------------


@cache
def numbers(kind: str, count: int) -> Array:
    """Numbers of a type: all of f16 and of i8 for one value, else NaN, zeros, infinities, the ends and some between."""
    if kind in ("i8", "i1"):
        return np.arange(-128, 128, dtype=np.int8) if kind == "i8" else np.array([False, True])
    if kind == "f16" and count == 1:
        return np.arange(65536, dtype=np.uint16).view(np.float16)
    smallest, largest = LIMITS[kind]
    made = TYPES[kind]
    eps = np.finfo(made).eps
    ends = [0.0, np.inf, largest, np.nextafter(made(largest), made(0)), smallest, np.finfo(made).smallest_subnormal]
    ends += [np.nextafter(made(smallest), made(0)), 1, 1 + eps, 1 - eps / 2, 2, 3, 0.1, 1 / 3, np.sqrt(largest)]
    random = np.random.default_rng(0)
    between = np.exp2(random.uniform(np.log2(smallest) - 4, np.log2(largest), (60_000, 170, 12)[count - 1]))
    with np.errstate(over="ignore"):
        positive = np.array([*ends, *between]).astype(made)
    return np.concatenate([positive, -positive, np.array([np.nan], made)])


def operands(row: Row, kind: str) -> dict[str, Array]:
    """All choices of numbers for the names of a row."""
    left = shape(row.left)
    names = sorted(names_in(left).union(*(names_in(shape(text)) for text in stands_for(row).values())))
    names = [name for name in names if name != "c" and name not in stands_for(row)]
    if any("reduce" in text for text in (row.left, *stands_for(row).values())):
        few = numbers(kind, ALONG)
        grid = np.stack([each.ravel() for each in np.meshgrid(*[few] * ALONG)], axis=-1)
        return dict.fromkeys(names, grid)
    few = numbers(kind, len(names))
    return {n: each.ravel() for n, each in zip(names, np.meshgrid(*[few] * len(names)), strict=True)}


def magnitude(term: Any, values: dict[str, Array], kind: str) -> Array:
    """How large what goes into a sum is, where nothing cancels out."""
    if isinstance(term, Apply) and term.op == "arith.negf":
        return magnitude(term.args[0], values, kind)
    if isinstance(term, Apply):
        op = "arith.addf" if term.op == "arith.subf" else term.op
        return evaluate(
            Apply(op, tuple(Access(i, ()) for i in range(len(term.args)))),
            dict(enumerate(magnitude(a, values, kind) for a in term.args)),
            "f64",
        )
    if isinstance(term, Reduce):
        return magnitude(term.body, values, kind).sum(axis=-1, keepdims=True)
    if isinstance(term, Constant):
        return np.asarray(abs(float(term.value)))
    return np.abs(values[term.value].astype(np.float64))


def roundings(term: Any) -> int:
    if isinstance(term, Reduce):
        return ALONG * (1 + roundings(term.body))
    return 1 + sum(map(roundings, term.args)) if isinstance(term, Apply) else 0


def sum_fits(values: dict[str, Array], largest: float) -> Array:
    total = sum(np.abs(each) for name, each in values.items() if name != "c")
    if "c" in values:
        total = np.maximum(1, np.abs(values["c"])) * total.sum(axis=-1, keepdims=True)
    return total <= largest


def products_fit(values: dict[str, Array], smallest: float, largest: float) -> Array:
    x, y, z = (np.abs(values[name]) for name in "xyz")
    return np.all([(p == 0) | ((p >= smallest) & (p <= largest)) for p in (x * y, y * z, x * y * z)], axis=0)


def reciprocal_fits(y: Array, smallest: float, largest: float) -> Array:
    return (y == 0) | np.isinf(y) | ((np.abs(1 / y) >= smallest) & (np.abs(1 / y) <= largest))


# For which values a licence holds: of numbers by name, the smallest normal and the largest number.
WHERE = {
    "x is neither -0 nor -inf": lambda v, *_: ~np.signbit(v["x"]) | ((v["x"] != 0) & np.isfinite(v["x"])),
    "low < high": lambda v, *_: v["low"] < v["high"],
    "1 / y is not denormal and does not overflow": lambda v, *limits: reciprocal_fits(v["y"], *limits),
    "x * y does not overflow": lambda v, _, largest: ~(np.abs(v["x"] * v["y"]) > largest),
    "no partial sum overflows": lambda v, _, largest: sum_fits(v, largest),
    "no partial product overflows or is denormal": products_fit,
}


def broken(row: Row, licence: Licence) -> list[str]:
    """Where the two sides of a row differ by more than a licence has it, in words; nothing if it holds."""
    found = []
    for kind in kinds(row):
        values = operands(row, kind)
        for factor in factors(row):
            terms = Terms(row, kind, factor)
            left = terms.of(shape(row.left))
            if row.form is Form.ORDER:
                rights = [terms.of(shape(row.right))]
            else:
                left, known = known_as(row, terms)
                rights = [term for term in known if alike(term, terms.of(shape(row.right)))]
            for right in rights:  # none where the code asks for another factor
                given = values | ({"c": rounded(factor, kind)} if factors(row) is FACTORS else {})
                wrong = differ(left, right, licence, given, kind)
                if wrong.any():
                    first = np.argwhere(wrong)[0]
                    at = {n: v[tuple(first)[: v.ndim]] for n, v in given.items()}
                    sides = [evaluate(side, values, kind)[tuple(first)] for side in (left, right)]
                    found.append(f"{kind} {at}: {sides[0]} and {sides[1]}")
    return found


def rounded(factor: float, kind: str) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(factor, TYPES[kind])


def differ(left: Any, right: Any, licence: Licence, values: dict[str, Array], kind: str) -> Array:
    one, other = np.broadcast_arrays(*(evaluate(side, values, kind) for side in (left, right)))
    if kind in ("i8", "i1"):
        return one != other
    with np.errstate(all="ignore"):
        exact = {name: each.astype(np.float64) for name, each in values.items()}
        equal = (one == other) & (np.signbit(one) == np.signbit(other)) | (np.isnan(one) & np.isnan(other))
        if licence.zero:
            equal |= (one == 0) & (other == 0)
        if licence.nan:
            equal |= np.any([np.isnan(each) for each in exact.values()], axis=0)
        if licence.where:
            equal |= ~WHERE[licence.where](exact, *LIMITS[kind])
        if licence.ulps or licence.steps:
            near, far = (
                np.where(
                    np.isinf(each),
                    np.sign(each) * 2 * 2.0 ** np.floor(np.log2(LIMITS[kind][1])),
                    each.astype(np.float64),
                )
                for each in (one, other)
            )
            size = magnitude(left, values, kind) if licence.steps else np.maximum(np.abs(near), np.abs(far))
            unit = np.spacing(np.minimum(size, LIMITS[kind][1]).astype(TYPES[kind])).astype(np.float64)
            count = roundings(left) + roundings(right) if licence.steps else licence.ulps
            equal |= np.abs(near - far) <= count * unit
    return ~equal


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_the_licence_holds(row):
    assert not broken(row, row.licence)


@pytest.mark.parametrize("row", [r for r in TABLE if r.licence != Licence()], ids=name_of)
def test_the_licence_asks_for_no_more_than_it_needs(row):
    """Each part of it is needed for some numbers."""
    licence = row.licence
    parts = {name: False for name in ("steps", "zero", "nan") if getattr(licence, name)}
    parts |= {"ulps": licence.ulps - 1} if licence.ulps else {}
    parts |= {"where": ""} if licence.where else {}
    for name, less in parts.items():
        assert any(broken(each, dataclasses.replace(licence, **{name: less})) for each in row.expanded()), name


# ---- rows one in another ---------------------------------------------------------------------------------------------

_FEW = (0.0, -0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -0.5, float("inf"), float("-inf"))
_NAMES = set().union(*(ops_in(shape(row.left)) for row in ROWS if "reduce" not in row.left)) - {"addf"}
_FLOATS = [op for op in map(vocabulary.OPS.get, sorted(_NAMES)) if op.result == "F" and op.full_name not in CASTS]
_OPS = ["addf", "addf", "addf", "select", *(op.name for op in _FLOATS)]


def resolved(term: Any, **_: Any) -> Any:
    return term


def random_term(draw: np.random.Generator, depth: int) -> Any:
    """An expression on three values, each op in its one form, as programs are read; and as it is written."""
    choice = draw.random()
    if depth == 0 or choice < 0.15:
        leaf = Access("xyz"[draw.integers(3)], ()) if choice < 0.5 else Constant(float(draw.choice(_FEW)), "f64")
        return leaf, leaf
    name = str(draw.choice(_OPS))
    known = vocabulary.OPS[name]
    sides = [random_term(draw, depth - 1) for _ in known.operands]
    if name in ("fpowi", "powf"):
        number = Constant(2 + int(draw.integers(2)), "i32") if name == "fpowi" else Constant(3.0, "f64")
        sides[1] = (number, number)
    elif name == "select":
        compared = sides[1:] if draw.random() < 0.7 else [random_term(draw, 1) for _ in "ab"]
        predicate = (("predicate", str(draw.choice([1, 2, 3, 4, 5, 13, 14]))),)
        order = draw.permutation(2)
        pairs = [tuple(compared[i][k] for i in order) for k in (0, 1)]
        sides[0] = tuple(Apply("arith.cmpf", pair, predicate, "i1") for pair in pairs)
    elif name == "clampf":
        sides[1:] = [(number, number) for number in (Constant(-1.0, "f64"), Constant(2.0, "f64"))]
    read, plain = zip(*sides, strict=True)
    made = Apply(known.full_name, read, (), "f64")
    return code.canonical(made, resolved), Apply(known.full_name, plain, (), "f64")


def respelled(term: Any) -> list[Any]:
    """What a term is read as besides, at its outermost op."""
    if not isinstance(term, Apply):
        return []
    wanted = {*code.READ_AS.get(term.op, ()), *(arg.op for arg in term.args if isinstance(arg, Apply))}
    idle = code.unchanged(term, resolved) if term.op in code.NEUTRAL else None
    found = [each for op in sorted(wanted) for each in code.readings(term, op, resolved)]
    return found if idle is None else [*found, idle]


@pytest.mark.parametrize("seed", range(2))
def test_what_random_expressions_become_comes_to_the_same(seed):
    draw = np.random.default_rng(seed)
    values = {name: draw.uniform(-3, 3, 64) for name in "xyz"}
    changed = 0
    for _ in range(1500):
        read, plain = random_term(draw, 3)
        expected = evaluate(plain, values, "f64")
        for other in (read, *respelled(read)):
            changed += other is not read or not alike(read, plain)
            found = evaluate(other, values, "f64")
            sound = np.isfinite(expected) & np.isfinite(found) & (np.abs(expected) < 1e9)
            near = np.isclose(found, expected, rtol=1e-9, atol=1e-6)
            assert np.all(near | ~sound), f"{plain} is not {other}"
    assert changed > 500


# ---- the documentation ----------------------------------------------------------------------------------------------


def test_the_table_in_the_documentation_is_made_of_this_one():
    text = (Path(__file__).parents[3] / "docs" / "language.md").read_text()
    assert written.written_into(text) == text, "run make table"
