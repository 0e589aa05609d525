"""Names for what sizes are read from, by which a cut's inputs have sizes in common."""

from __future__ import annotations

from typing import Any

from iree.compiler import ir

from opsplice.matchers.dims.extents import Total
from opsplice.matchers.terms.terms import DimSize


def size_key(atom: Any) -> str:
    """A name for what a size is read from, the same for the same value."""
    if isinstance(atom, Total):
        terms = ((t.factor, sorted((size_key(each), power) for each, power in t.atoms)) for t in atom.terms)
        return " + ".join(sorted(map(str, terms)))
    value, axis = (atom.value, atom.axis) if isinstance(atom, DimSize) else (atom, "")
    owner = value.owner
    if isinstance(owner, ir.Block):
        return f"argument {ir.BlockArgument(value).arg_number} {axis}"
    return f"{value.get_name()} {axis}"
