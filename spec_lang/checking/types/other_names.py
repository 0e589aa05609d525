"""What frameworks and MLIR's dialects call an op or a computation, and how a spec writes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from opsplice.common.errors import did_you_mean

_PRODUCT = "contract[m k, k n -> m n](x, y)"
_WRITTEN = {
    **dict.fromkeys(("matmul", "mm", "dot", "dot_general", "gemm"), _PRODUCT),
    **dict.fromkeys(("bmm", "batch_matmul"), "contract[b m k, b k n -> b m n](x, y)"),
    **dict.fromkeys(("sum", "reduce_sum"), "reduce addf[m n -> m](x)"),
    **dict.fromkeys(("max", "amax", "reduce_max"), "reduce maximumf[m n -> m](x)"),
    **dict.fromkeys(("min", "amin", "reduce_min"), "reduce minimumf[m n -> m](x)"),
    "add": "addf of floats, addi of integers",
    "sub": "subf of floats, subi of integers",
    "mul": "mulf of floats, muli of integers",
    "div": "divf of floats, divsi or divui of integers",
    "neg": "negf",
    "abs": "absf of floats, absi of integers",
}
_LIBRARY = Path(__file__).parents[2] / "library"
_PATTERN = re.compile(r"^pattern (\w+)", re.MULTILINE)


def hint_for(name: str, known: Iterable[str]) -> str:
    """How a spec writes what others call `name`. known: the names that may be meant."""
    if name in _WRITTEN:
        return f"write {_WRITTEN[name]}"
    for path in sorted(_LIBRARY.glob("*.splice")):
        if name in _PATTERN.findall(path.read_text()):
            return f'import "opsplice:{path.stem}", which has it'
    quoted = f'any op can be named in quotes: "dialect.{name.rpartition(".")[2]}"(...)'
    return did_you_mean(name, known) or quoted
