"""What an op does beside making its results: side effects, and code of its own in regions."""

from __future__ import annotations

from iree.compiler import ir

from opsplice.matchers.ir.op_names import last_op

# Structured ops whose name does not say what their body computes.
_OPEN_BODIES = ("linalg.generic", "linalg.map", "linalg.reduce")


def has_effects(op: ir.Operation) -> bool:
    """Whether an op, or one inside it, is known to read or write memory. A call is not: it declares nothing."""
    with op.context:
        try:
            found = bool(ir.MemoryEffectsOpInterface(op).get_effects())
        except ValueError:  # it does not have the interface
            found = False
    return found or any(has_effects(each.operation) for region in op.regions for block in region for each in block)


def has_own_region(op: ir.Operation) -> bool:
    """Whether an op holds code that its name does not imply; a region that only hands on its arguments is none."""
    if op.name.startswith("linalg.") and op.name not in _OPEN_BODIES:
        return False
    return any(not _hands_on(region) for region in op.regions)


def operands(op: ir.Operation, wanted: int) -> list[ir.Value]:
    """The operands of an op; where one more is wanted, also what it puts around the first: that is in its region."""
    found = [*op.operands]
    if op.name != "tensor.pad" or wanted != len(found) + 1:
        return found
    block = op.regions[0].blocks[0]
    value = last_op(block).operands[0]
    maker = None if isinstance(value.owner, ir.Block) else value.owner.operation
    is_inside = value.owner == block if maker is None else maker.block == block and maker.name != "arith.constant"
    return found if is_inside else [*found, value]


def _hands_on(region: ir.Region) -> bool:
    blocks = list(region.blocks)
    if len(blocks) != 1 or len(blocks[0].operations) != 1:
        return not blocks
    return all(value.owner == blocks[0] for value in blocks[0].operations[0].operands)
