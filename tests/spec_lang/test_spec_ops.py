"""The vocabulary is true: checked against the dialects of the compiler that is installed."""

from __future__ import annotations

import math

import pytest

from opsplice.spec_lang.syntax import vocabulary

ir = pytest.importorskip("iree.compiler.ir", reason="needs the IREE compiler")

# What arith and math have besides elementwise ops with one result.
NOT_ELEMENTWISE = {
    "arith.constant",
    "arith.addui_extended",
    "arith.subui_extended",
    "arith.mulsi_extended",
    "arith.mului_extended",
    "math.sincos",
}
TYPES = {"F": "f32", "I": "i32", "B": "i1", "A": "f32", "G": "f64", "J": "i64", "Z": "i32", "H": "f8E8M0FNU"}
# What the result type and the scale are where the usual types do not do.
SPECIAL_TYPES = {
    "truncf": {"G": "f16"},
    "trunci": {"J": "i8"},
    "scaling_truncf": {"G": "f8E5M2"},
    "scaling_extf": {"F": "f8E5M2"},
    "index_cast": {"J": "index"},
    "index_castui": {"J": "index"},
    "convertf": {"F": "f16", "G": "bf16"},
}


def dialect_ops() -> set[str]:
    from iree.compiler.dialects import _arith_ops_gen, _math_ops_gen

    classes = [c for module in (_arith_ops_gen, _math_ops_gen) for c in vars(module).values() if isinstance(c, type)]
    return {c.OPERATION_NAME for c in classes if hasattr(c, "OPERATION_NAME")}


def generic_form(op: vocabulary.Op) -> str:
    """A function that applies the op to tensors."""
    types = {**TYPES, **SPECIAL_TYPES.get(op.name, {})}
    operands = [f"tensor<4x{types[letter]}>" for letter in op.operands]
    result = f"tensor<4x{types[op.result]}>"
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(operands))
    values = ", ".join(f"%a{i}" for i in range(op.arity))
    properties = "<{predicate = 1 : i64}>" if op.predicates else ""
    return f"""func.func @f({arguments}) -> {result} {{
      %r = "{op.full_name}"({values}) {properties} : ({", ".join(operands)}) -> {result}
      return %r : {result}
    }}"""


@pytest.mark.parametrize("op", vocabulary.OPS.values(), ids=vocabulary.OPS)
def test_the_compiler_takes_each_op_as_described(op):
    with ir.Context() as context:
        context.allow_unregistered_dialects = False
        assert ir.Module.parse(generic_form(op)).operation.verify()


def test_no_elementwise_op_is_missing():
    assert {op.full_name for op in vocabulary.OPS.values()} == dialect_ops() - NOT_ELEMENTWISE


@pytest.mark.parametrize("op", [o for o in vocabulary.OPS.values() if o.arity == 2], ids=lambda o: o.name)
def test_commutative_ops_are_those_of_the_compiler(op):
    """Canonicalisation moves the constant of a commutative op to the right."""
    types = {**TYPES, **SPECIAL_TYPES.get(op.name, {})}
    if op.operands[0] != op.operands[1] or op.predicates:
        assert not op.commutative
        return
    element = types[op.operands[0]]
    constant = "77.0 : f32" if element == "f32" else "77 : i32"  # neutral to no op
    text = f"""func.func @f(%a: {element}) -> {types[op.result]} {{
      %c = arith.constant {constant}
      %r = "{op.full_name}"(%c, %a) : ({element}, {element}) -> {types[op.result]}
      return %r : {types[op.result]}
    }}"""
    from iree.compiler.passmanager import PassManager

    with ir.Context():
        module = ir.Module.parse(text)
        PassManager.parse("builtin.module(canonicalize)").run(module.operation)
    (line,) = [line for line in str(module).splitlines() if op.full_name in line]
    assert ("%arg0, %c" in line) == op.commutative


@pytest.mark.parametrize(
    ("op", "predicates"),
    [("cmpf", vocabulary.CMPF_PREDICATES), ("cmpi", vocabulary.CMPI_PREDICATES)],
    ids=["cmpf", "cmpi"],
)
def test_predicates_have_the_compilers_numbers(op, predicates):
    element = "f32" if op == "cmpf" else "i32"
    for number, name in enumerate(predicates):
        text = f"""func.func @f(%a: {element}) -> i1 {{
          %r = arith.{op} {name}, %a, %a : {element}
          return %r : i1
        }}"""
        with ir.Context():
            module = ir.Module.parse(text)  # held while its ops are looked at
            compare = module.body.operations[0].regions[0].blocks[0].operations[0]
            assert ir.IntegerAttr(compare.attributes["predicate"]).value == number


def test_find_takes_short_and_full_names():
    assert vocabulary.find("mulf") is vocabulary.find("arith.mulf") is vocabulary.OPS["mulf"]
    assert vocabulary.find("math.mulf") is None
    assert vocabulary.find("nosuch") is None


@pytest.mark.parametrize(
    ("combiner", "element", "expected"),
    [
        ("addf", "f32", 0.0),
        ("arith.mulf", "bf16", 1.0),
        ("maximumf", "f64", -math.inf),
        ("minnumf", "f16", math.inf),
        ("addi", "index", 0),
        ("maxsi", "i8", -128),
        ("minsi", "i8", 127),
        ("minsi", "i64", 2**63 - 1),
        ("maxui", "i8", 0),
        ("minui", "i8", -1),
        ("andi", "i1", -1),
        ("ori", "i1", 0),
        ("addf", "i32", None),
        ("addi", "f32", None),
        ("subf", "f32", None),
        ("exp", "f32", None),
        ("nosuch", "f32", None),
    ],
)
def test_identities(combiner, element, expected):
    assert vocabulary.identity(combiner, element) == expected


def wrapped(value: int) -> int:
    """As an i8."""
    return (value + 128) % 256 - 128


def unsigned(value: int) -> int:
    return value % 256


INTEGER_MEANINGS = {
    "addi": lambda a, b: wrapped(a + b),
    "muli": lambda a, b: wrapped(a * b),
    "maxsi": max,
    "minsi": min,
    "maxui": lambda a, b: max(a, b, key=unsigned),
    "minui": lambda a, b: min(a, b, key=unsigned),
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
}
FLOAT_MEANINGS = {
    "addf": lambda a, b: a + b,
    "mulf": lambda a, b: a * b,
    **dict.fromkeys(("maximumf", "maxnumf"), max),
    **dict.fromkeys(("minimumf", "minnumf"), min),
}


def test_identities_leave_every_value_alone():
    assert {*INTEGER_MEANINGS, *FLOAT_MEANINGS} == set(vocabulary.COMBINERS)
    for name, combine in INTEGER_MEANINGS.items():
        neutral = vocabulary.identity(name, "i8")
        assert all(combine(neutral, value) == value for value in range(-128, 128)), name
    for name, combine in FLOAT_MEANINGS.items():
        neutral = vocabulary.identity(name, "f32")
        assert all(combine(neutral, v) == v for v in (0.0, 1.5, -2.25, math.inf, -math.inf)), name


@pytest.mark.parametrize(
    ("element", "float_", "integer", "width"),
    [
        ("f32", True, False, 32),
        ("bf16", True, False, 16),
        ("f8E4M3FN", True, False, 8),
        ("f4E2M1FN", True, False, 4),
        ("i1", False, True, 1),
        ("index", False, True, None),
        ("si8", False, False, 8),
        ("ui16", False, False, 16),
    ],
)
def test_element_types(element, float_, integer, width):
    assert vocabulary.is_element(element)
    assert (vocabulary.is_float(element), vocabulary.is_integer(element), vocabulary.bits(element)) == (
        float_,
        integer,
        width,
    )
    with ir.Context():
        ir.Type.parse(element)


@pytest.mark.parametrize("name", ["float", "i", "i0", "f", "xf32", "nxf32", "T", "", "f8", "i32x"])
def test_what_is_no_element_type(name):
    assert not vocabulary.is_element(name)
