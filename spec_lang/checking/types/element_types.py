"""Element types that are written: MLIR's own, or type variables."""

from __future__ import annotations

from collections.abc import Callable

from opsplice.common.errors import did_you_mean
from opsplice.spec_lang.syntax import tree, vocabulary
from opsplice.spec_lang.syntax.spec_errors import Diagnostic, error
from opsplice.spec_lang.syntax.tree import ScalarType

Report = Callable[[Diagnostic], None]


# What people write who come from other languages.
_ELEMENT_ALIASES = {
    "float": "f32", "double": "f64", "half": "f16", "bool": "i1", "int": "i32", "long": "i64", "float32": "f32",
    "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8", "int32": "i32", "int64": "i64",
}  # fmt: skip


def check_element(element: ScalarType, variables: tuple[tree.TypeVariable, ...], report: Report) -> bool:
    """Report an element type that is neither MLIR's nor a type variable."""
    name = element.name
    if vocabulary.is_element(name) or any(v.name == name for v in variables):
        return True
    prefix, _, last = name.rpartition("x")
    if prefix and vocabulary.is_element(last):
        apart = " x ".join([*prefix.split("x"), last])
        report(error(element.span, f"unknown element type {name}", f"write dims apart: tensor<{apart}>"))
        return False
    known = [v.name for v in variables]
    near = _ELEMENT_ALIASES.get(name)
    advice = f"did you mean {near}?" if near else did_you_mean(name, [*known, *vocabulary.COMMON_ELEMENTS])
    if advice is None and name.isupper():
        advice = f"a type variable is declared after the name: <{name}>"
    advice = advice or f"there are {' '.join(vocabulary.COMMON_ELEMENTS)}"
    report(error(element.span, f"unknown element type {name}", advice))
    return False
