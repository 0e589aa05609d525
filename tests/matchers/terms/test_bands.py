"""Bands: what depends on the difference of two indices alone, in any spelling, and what only looks like it."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

M, N = 6, 9
ROW, COLUMN = np.arange(M)[:, None], np.arange(N)[None, :]
LOWEST, HIGHEST = -(2**31), 2**31 - 1
PAYLOAD = """func.func @f(%x: tensor<6x9xf32>, %given: tensor<6x9xi1>, %start: i32, %other: tensor<1xi64>,
    %several: tensor<6xi32>, %short: i16) -> tensor<6x9xf32> {
  %starts = tensor.splat %start : tensor<6x9xi32>
  %e = tensor.empty() : tensor<6x9xi32>
  %r = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<6x9xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    linalg.yield %n : i32
  } -> tensor<6x9xi32>
  %c = linalg.generic {indexing_maps = [affine_map<(a, b) -> (a, b)>], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<6x9xi32>) {
  ^bb0(%o: i32):
    %i = linalg.index 1 : index
    %n = arith.index_cast %i : index to i32
    linalg.yield %n : i32
  } -> tensor<6x9xi32>
  %line = arith.constant dense<LINE> : tensor<9xi32>
  %c3 = linalg.broadcast ins(%line : tensor<9xi32>) outs(%e : tensor<6x9xi32>) dimensions = [0]
  %low = arith.constant dense<-1.0e9> : tensor<6x9xf32>
  %zero = arith.constant dense<0.0> : tensor<6x9xf32>
  %true = arith.constant dense<true> : tensor<6x9xi1>
  BODY
  %y = arith.END
  return %y : tensor<6x9xf32>
}"""
SELECTED = "select %keep, %x, %low : tensor<6x9xi1>, tensor<6x9xf32>"
SPEC = """pattern p(x: tensor<m x n x f32>, low: i32, high: i32, fill: f32) {
  select(band(low, high, 1, 0) : tensor<m x n x i1>, x, fill)
  | addf(x, band(low, high, const(0.0..0.0), fill) : tensor<m x n x f32>)
}"""
STARTING = """pattern p<I in {i32, i64}>(x: tensor<m x n x f32>, low: i32, high: i32, fill: f32, start: I) {
  select(band(low, high, 1, 0, start) : tensor<m x n x i1>, x, fill)
}"""
KIND = "tensor<6x9xi32>"


def compared(predicate: str, left: str, right: str, name: str = "keep") -> str:
    return f"%{name} = arith.cmpi {predicate}, {left}, {right} : {KIND}\n"


def shifted(name: str, source: str, by: int) -> str:
    return f"%s{name} = arith.constant dense<{by}> : {KIND}\n%{name} = arith.addi {source}, %s{name} : {KIND}\n"


def both(op: str, left: str, right: str, name: str = "keep") -> str:
    return f"%{name} = arith.{op} {left}, {right} : tensor<6x9xi1>\n"


SUM = "addf %x, %mask : tensor<6x9xf32>"
CHOSEN = "%mask = arith.select %keep, %zero, %low : tensor<6x9xi1>, tensor<6x9xf32>\n"
OPPOSITE = "%mask = arith.select %keep, %low, %zero : tensor<6x9xi1>, tensor<6x9xf32>\n"
AS_NUMBER = """%u = arith.uitofp %keep : tensor<6x9xi1> to tensor<6x9xf32>
  %again = arith.cmpf une, %u, %zero : tensor<6x9xf32>
"""
APART = """%apart = arith.subi %r, %c : tensor<6x9xi32>
  %far = math.absi %apart : tensor<6x9xi32>
  %three = arith.constant dense<3> : tensor<6x9xi32>
"""
# Minus zero where keys count.
LEFT_OUT = """%u = arith.uitofp %keep : tensor<6x9xi1> to tensor<6x9xf32>
  %one = arith.constant dense<1.0> : tensor<6x9xf32>
  %out = arith.subf %one, %u : tensor<6x9xf32>
  %mask = arith.mulf %out, %low : tensor<6x9xf32>
"""
# The body, how it ends, and from which to which difference keys count.
SPELLINGS: dict[str, tuple[str, str, tuple[int, int]]] = {
    "sle": (compared("sle", "%c", "%r"), SELECTED, (LOWEST, 0)),
    "sge": (compared("sge", "%r", "%c"), SELECTED, (LOWEST, 0)),
    "slt": (shifted("q", "%r", 1) + compared("slt", "%c", "%q"), SELECTED, (LOWEST, 0)),
    "later": (shifted("q", "%r", 3) + compared("sge", "%q", "%c"), SELECTED, (LOWEST, 3)),
    "constants": (compared("sle", "%c3", "%r"), SELECTED, (LOWEST, -3)),
    "diagonal": (compared("eq", "%c", "%r"), SELECTED, (0, 0)),
    "triu": (compared("sgt", "%c", "%r"), SELECTED.replace("%x, %low", "%low, %x"), (LOWEST, 0)),
    "window": (
        shifted("q", "%r", -3)
        + compared("sgt", "%c", "%q", "a")
        + compared("sle", "%c", "%r", "b")
        + both("andi", "%a", "%b"),
        SELECTED,
        (-2, 0),
    ),
    "by de Morgan": (
        shifted("q", "%r", 2)
        + compared("sgt", "%c", "%q", "a")
        + compared("slt", "%c", "%r", "b")
        + both("ori", "%a", "%b", "o")
        + both("xori", "%o", "%true"),
        SELECTED,
        (0, 2),
    ),
    "as a number": (
        compared("sle", "%c", "%r") + AS_NUMBER,
        SELECTED.replace("%keep", "%again"),
        (LOWEST, 0),
    ),
    "added": (compared("sle", "%c", "%r") + CHOSEN, SUM, (LOWEST, 0)),
    "added where not": (compared("slt", "%r", "%c") + OPPOSITE, SUM, (LOWEST, 0)),
    "by distance": (APART + compared("sle", "%far", "%three"), SELECTED, (-3, 3)),
    "below a distance": (APART + compared("sgt", "%three", "%far"), SELECTED, (-2, 2)),
    "beyond a distance": (APART + compared("sge", "%far", "%three"), SELECTED.replace("%x, %low", "%low, %x"), (-2, 2)),
    "on either side": (
        shifted("q", "%r", 3)
        + shifted("p", "%c", 2)
        + compared("sgt", "%c", "%q", "a")
        + compared("sgt", "%r", "%p", "b")
        + both("ori", "%a", "%b"),
        SELECTED.replace("%x, %low", "%low, %x"),
        (-2, 3),
    ),
    "times what is left out": (compared("sle", "%c", "%r") + LEFT_OUT, SUM, (LOWEST, 0)),
    "a table": ("%keep = arith.constant dense<TABLE> : tensor<6x9xi1>\n", SELECTED, (-1, 2)),
    "a table of numbers": ("%mask = arith.constant dense<NUMBERS> : tensor<6x9xf32>\n", SUM, (LOWEST, 1)),
    "with what always holds": (
        shifted("q", "%r", -100)
        + compared("sgt", "%c", "%q", "a")
        + compared("sle", "%c", "%r", "b")
        + both("andi", "%a", "%b"),
        SELECTED,
        (LOWEST, 0),
    ),
}


def written(table: np.ndarray) -> str:
    return str(table.tolist()).lower()


KEPT = (COLUMN - ROW >= -1) & (COLUMN - ROW <= 2)
TABLES = {
    "TABLE": written(KEPT),
    "NUMBERS": written(np.where(COLUMN - ROW <= 1, 0.0, -1.0e9)),
    "OTHER": written(KEPT ^ ((COLUMN == 4) & (ROW == 3))),
    "COLUMNS": written(np.broadcast_to(COLUMN < 3, (M, N))),
}


def payload(body: str, end: str = SELECTED, rows: int = M, columns: int = N) -> str:
    text = PAYLOAD.replace("BODY", body).replace("END", end).replace("LINE", str([*range(3, 3 + columns)]))
    for name, table in TABLES.items():
        text = text.replace(name, table)
    return text.replace("6x9", f"{rows}x{columns}").replace("<9x", f"<{columns}x")


def mask_of(low: int, high: int) -> np.ndarray:
    return (low <= COLUMN - ROW) & (high >= COLUMN - ROW)


@pytest.mark.parametrize("name", SPELLINGS)
def test_a_band_in_any_spelling(find, name):
    body, end, (low, high) = SPELLINGS[name]
    outcome = find(payload(body, end), SPEC)
    found = [match.inputs for match in outcome.found.matches]
    found = [inputs for inputs in found if inputs["x"].value.get_name() == "%arg0"]
    assert [[each[name].constant for name in ("low", "high", "fill")] for each in found] == [[low, high, -1e9]]


# Masks that are none: by another sum of indices, by one index alone, by what is given, by several differences.
OTHERS = {
    "a sum": "%q = arith.addi %r, %c : tensor<6x9xi32>\n" + compared("sle", "%q", "%c3"),
    "twice a row": "%q = arith.addi %r, %r : tensor<6x9xi32>\n" + compared("sle", "%c", "%q"),
    "rows": shifted("q", "%r", 3) + "%z = arith.subi %q, %r : tensor<6x9xi32>\n" + compared("sle", "%r", "%z"),
    "at a distance": APART + compared("eq", "%far", "%three"),
    "a distance and more": APART + "%d = arith.addi %far, %three : tensor<6x9xi32>\n" + compared("sle", "%d", "%three"),
    "another table": "%keep = arith.constant dense<OTHER> : tensor<6x9xi1>\n",
    "a table by columns": "%keep = arith.constant dense<COLUMNS> : tensor<6x9xi1>\n",
    "given": compared("sle", "%c", "%r", "a") + both("andi", "%a", "%given"),
    "unsigned": shifted("q", "%r", -1) + compared("ule", "%c", "%q"),
    "all but one": compared("sle", "%c", "%r", "a") + compared("ne", "%c3", "%r", "b") + both("andi", "%a", "%b"),
    "exclusive": compared("sle", "%c", "%r", "a") + compared("eq", "%c3", "%r", "b") + both("xori", "%a", "%b"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_band(find, name):
    assert find(payload(OTHERS[name]), SPEC).count == 0


def test_the_indices_of_rows_and_columns_are_told_apart(find):
    """A mask that is read across is another band, and of a square one nothing else tells."""
    for predicate, limits in (("sle", (LOWEST, 0)), ("sge", (0, HIGHEST)), ("slt", (LOWEST, -1))):
        found = find(payload(compared(predicate, "%c", "%r"), SELECTED, 6, 6), SPEC).inputs
        assert (found["low"], found["high"]) == limits


def moved(name: str, source: str, by: str = "%starts", op: str = "addi") -> str:
    return f"%{name} = arith.{op} {source}, {by} : {KIND}\n"


WIDER = """%one = tensor.collapse_shape %other [] : tensor<1xi64> into tensor<i64>
  %o = tensor.extract %one[] : tensor<i64>
  %p = arith.trunci %o : i64 to i32
  %others = tensor.splat %p : tensor<6x9xi32>
"""
WINDOW = compared("sle", "%c", "%q", "a") + compared("sgt", "%c", "%w", "b") + both("andi", "%a", "%b")
# With a number that is known at run time only: what is taken off the difference, and the limits of that.
STARTS = {
    "later": (moved("q", "%r") + compared("sle", "%c", "%q"), "%arg2", (LOWEST, 0)),
    "earlier columns": (moved("q", "%c", op="subi") + compared("slt", "%q", "%r"), "%arg2", (LOWEST, -1)),
    "of a tensor": (WIDER + moved("q", "%r", "%others") + compared("sge", "%q", "%c"), "%arg3", (LOWEST, 0)),
    "a window": (moved("q", "%r") + shifted("w", "%q", -3) + WINDOW, "%arg2", (-2, 0)),
    "none": (compared("sle", "%c", "%r"), None, (LOWEST, 0)),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_band_that_starts_where_the_program_says_at_run_time(find, name):
    body, start, limits = STARTS[name]
    outcome = find(payload(body), STARTING)
    found = [match.inputs for match in outcome.found.matches]
    found = [inputs for inputs in found if inputs["x"].value.get_name() == "%arg0"]
    assert [tuple(each[name].constant for name in ("low", "high")) for each in found] == [limits]
    bound = found[0]["start"]
    names = {"%arg3": ("%arg3", "%collapsed", "%extracted")}.get(start, (start,))
    assert bound.constant == 0 if start is None else bound.value.get_name() in names
    assert find(payload(body), SPEC).count == (start is None), "a band that says nothing of a start has none"


@pytest.mark.parametrize(
    "body",
    [
        moved("q", "%r", op="subi") + compared("sle", "%c", "%q"),  # before the start
        moved("q", "%r") + moved("s", "%q") + compared("sle", "%c", "%s"),  # twice the start
        WIDER + moved("q", "%r") + moved("s", "%q", "%others") + compared("sle", "%c", "%s"),  # two of them
        moved("q", "%r") + shifted("w", "%r", -3) + WINDOW,  # one limit alone
        moved("q", "%r") + compared("ule", "%c", "%q"),  # maybe below zero
        compared("sle", "%c", "%starts"),  # by columns alone
        "%b = linalg.broadcast ins(%several : tensor<6xi32>) outs(%e : tensor<6x9xi32>) dimensions = [1]\n"
        + moved("q", "%r", "%b")
        + compared("sle", "%c", "%q"),  # one for each row
        "%l = arith.extsi %short : i16 to i32\n%b = tensor.splat %l : tensor<6x9xi32>\n"
        + "%ls = arith.muli %b, %r : tensor<6x9xi32>\n"
        + compared("sle", "%c", "%ls"),  # times a row
    ],
)
def test_what_has_no_single_start(find, body):
    assert find(payload(body), STARTING).count == 0


def _compare(name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return {"sle": np.less_equal, "slt": np.less, "sge": np.greater_equal, "sgt": np.greater, "eq": np.equal}[name]


def test_what_is_found_is_what_the_program_computes(find):
    """Random comparisons of shifted indices, joined at random: each band that is found is the mask, key by key."""
    random, held, started = np.random.default_rng(0), 0, 0
    for _ in range(80):
        lines, masks, often = "", [], random.random() < 0.5
        for number in range(random.integers(1, 4)):
            by, predicate = int(random.integers(-7, 8)), str(random.choice(["sle", "slt", "sge", "sgt", "eq"]))
            turned, is_later = bool(random.integers(2)), bool(often and random.random() < 0.8)
            row = f"%z{number}" if is_later else "%r"
            lines += moved(f"z{number}", "%r") if is_later else ""
            lines += shifted(f"q{number}", "%c", by)
            lines += compared(predicate, *((row, f"%q{number}") if turned else (f"%q{number}", row)), f"m{number}")

            def mask(start, by=by, predicate=predicate, turned=turned, is_later=is_later):
                sides = (ROW + start * is_later, COLUMN + by)
                return _compare(predicate)(*(sides if turned else sides[::-1]))

            masks.append((f"%m{number}", mask))
        for joined in itertools.count():
            if len(masks) == 1:
                break
            (left, first), (right, second), *masks = masks
            op = str(random.choice(["andi", "ori", "xori"]))
            lines += both(op, left, right, f"j{joined}")

            def made(start, op=op, first=first, second=second):
                join = {"andi": np.logical_and, "ori": np.logical_or, "xori": np.logical_xor}[op]
                return join(first(start), second(start))

            masks.append((f"%j{joined}", made))
        ((name, mask),) = masks
        for match in find(payload(lines, SELECTED.replace("%keep", name)), STARTING).found.matches:
            low, high = [match.inputs[each].constant for each in ("low", "high")]
            is_later = match.inputs["start"].constant is None
            for start in (-4, 0, 3):
                taken_off = start * is_later
                limits = (low if low == LOWEST else low + taken_off, high if high == HIGHEST else high + taken_off)
                np.testing.assert_array_equal(mask(start), mask_of(*limits), err_msg=lines)
            held, started = held + 1, started + is_later
    assert held > 30
    assert started > 10
