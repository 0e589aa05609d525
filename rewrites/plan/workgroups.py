"""How many workgroups a kernel's grid has: checked where sizes are known, and written as code that makes the counts.

The counts of a dispatch are words of 32 bits, and a CPU's workgroup has 16 bits for its number in the third dim. IREE
drops what is more without a word; so counts that are known at run time only are compared then, and stop the program.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.rewrites.ir import emit
from opsplice.rewrites.ir.executable_targets import ProgramTarget
from opsplice.rewrites.plan.actions import KernelCall
from opsplice.rewrites.plan.known_sizes import product
from opsplice.spec_lang.dims import dim_conditions, judge
from opsplice.spec_lang.syntax import tree

# How many workgroups there may be in each dim of a grid.
MOST = (2**32 - 1,) * 3
MOST_ON_CPUS = (2**32 - 1, 2**32 - 1, 2**16 - 1)

_OPS = {
    "+": "arith.addi",
    "-": "arith.subi",
    "*": "arith.muli",
    "ceildiv": "arith.ceildivsi",
    "floordiv": "arith.floordivsi",
    "min": "arith.minsi",
    "max": "arith.maxsi",
}
_OF_DEVICE = re.compile(r"max_workgroup_counts = \[(\d+), (\d+), (\d+)\]")


def check(call: KernelCall, target: ProgramTarget) -> None:
    """Raises OpspliceError where a count of workgroups is known, and more than the target takes."""
    found = _OF_DEVICE.search(target.text)
    most = tuple(map(int, found.groups())) if found else MOST_ON_CPUS if target.is_cpu else MOST
    sizes = {name: product(size) for name, size in call.dims.items()}
    for number, (size, allowed) in enumerate(zip(call.kernel.grid, most, strict=False)):
        count = judge.evaluate(size, sizes)
        if count is not None and count > allowed:
            raise OpspliceError(
                f"kernel {call.kernel.name} has {count} workgroups in dim {number} of its grid, and {target.backend} "
                f"takes {allowed}",
                details=f"needed by the kernel at {call.kernel.span}",
                hint="spread the grid over more dims, or let each workgroup do more",
            )


def counts(
    kernel: str, grid: Sequence[tree.DimExpr], sizes: Mapping[str, ir.Value], most: Sequence[int]
) -> list[ir.Value]:
    """Write how many workgroups a grid has in each of three dims, for these sizes of the kernel's dims, at the current
    point. All values are of type index; a grid that comes to less than nothing has none.

    most: how many there may be in each dim; code that has more of them fails.
    """
    made = [_count(kernel, number, size, sizes, most[number]) for number, size in enumerate(grid)]
    return made + [emit.index(1)] * (3 - len(made))


def _count(kernel: str, number: int, size: tree.DimExpr, sizes: Mapping[str, ir.Value], most: int) -> ir.Value:
    index = ir.IndexType.get()
    count = emit.value("arith.maxsi", [arithmetic(size, sizes), emit.index(0)], index)
    if isinstance(size, tree.Literal):
        return count
    fits = emit.compared("<=", count, emit.index(most))
    message = f"kernel {kernel} has more than {most} workgroups in dim {number} of its grid"
    emit.op("cf.assert", [fits], attributes={"msg": emit.text(message)})
    return count


def condition(asked: tree.Condition, sizes: Mapping[str, ir.Value]) -> ir.Value:
    """Write whether a condition on dims holds. What divides by zero does not matter: it is not a size of a match."""
    if isinstance(asked, tree.Comparison):
        return emit.compared(asked.op, arithmetic(asked.left, sizes), arithmetic(asked.right, sizes))
    assert isinstance(asked, tree.Logical), "the checker lets only comparisons of dims be judged at run time"
    flag = ir.IntegerType.get_signless(1)
    found = [condition(each, sizes) for each in asked.operands]
    if asked.op == "not":
        return emit.value("arith.xori", [found[0], emit.constant(1, flag)], flag)
    op = {"and": "arith.andi", "or": "arith.ori"}[asked.op]
    return functools.reduce(lambda left, right: emit.value(op, [left, right], flag), found)


def arithmetic(expr: tree.DimExpr, sizes: Mapping[str, ir.Value]) -> ir.Value:
    """Sizes are signed: a difference may be less than nothing before something is added."""
    if isinstance(expr, tree.Literal):
        return emit.index(int(expr.value))
    if isinstance(expr, tree.DimRef):
        return sizes[expr.name]
    assert isinstance(expr, tree.Arithmetic), "the checker lets no properties into a grid"
    index = ir.IndexType.get()
    left, right = arithmetic(expr.left, sizes), arithmetic(expr.right, sizes)
    if expr.op in dim_conditions.DIVISIONS and not isinstance(expr.right, tree.Literal):
        # A dim may be zero, and then there is nothing to compute; the division must not trap all the same.
        right = emit.value("arith.maxsi", [right, emit.index(1)], index)
    if expr.op == "%":
        whole = emit.value("arith.muli", [emit.value("arith.floordivsi", [left, right], index), right], index)
        return emit.value("arith.subi", [left, whole], index)
    return emit.value(_OPS[expr.op], [left, right], index)
