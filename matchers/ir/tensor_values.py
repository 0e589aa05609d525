"""Values of a program: their shapes and element types, and what makes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from iree.compiler import ir

# The public module `dialects.linalg` brings in a named-op generator that takes longer to load than a small compile.
from iree.compiler._mlir_libs._mlirDialectsLinalg import get_indexing_maps

_TORCH_TENSOR = re.compile(r"!torch\.vtensor<\[(?P<dims>[\d?,]*)\],(?P<element>\w+)>")
# In attributes, a number that is known at run time only.
DYNAMIC = ir.ShapedType.get_dynamic_size()
VIEWS = tuple(f"tensor.{each}" for each in ("collapse_shape", "expand_shape", "reshape", "cast", "extract_slice"))
_ELEMENTWISE = ("linalg.broadcast", "linalg.transpose")


def shape_of(value: ir.Value) -> tuple[int | None, ...] | None:
    """The sizes of a ranked tensor (None for a dynamic one); () for a scalar; None for anything else."""
    kind = value.type
    if isinstance(kind, ir.RankedTensorType):
        sizes = tuple(kind.shape)
        return tuple(None if size == DYNAMIC else size for size in sizes) if DYNAMIC in sizes else sizes
    if isinstance(kind, (ir.FloatType, ir.IntegerType, ir.IndexType)):
        return ()
    torch = _TORCH_TENSOR.fullmatch(str(kind))
    if torch is None:
        return None
    return tuple(None if size == "?" else int(size) for size in torch["dims"].split(",") if size)


def element_type(value: ir.Value) -> str:
    """The element type of a tensor, or the type itself of a scalar, as text. Torch's `si64` is `i64`."""
    kind = value.type
    if isinstance(kind, ir.ShapedType):
        return str(kind.element_type)
    torch = _TORCH_TENSOR.fullmatch(str(kind))
    return str(kind) if torch is None else signless(torch["element"])


def ranges_of(op: ir.Operation) -> list[tuple[int, int, int]]:
    """The offset, size and step along each dim of what a slice reads or an insertion writes; `DYNAMIC` for operands."""
    columns = (ir.DenseI64ArrayAttr(op.attributes[f"static_{which}"]) for which in ("offsets", "sizes", "strides"))
    return list(zip(*columns, strict=True))


def is_tensor(value: ir.Value) -> bool:
    """Whether a value is a ranked tensor, of MLIR's own type or of Torch's."""
    return isinstance(value.type, ir.RankedTensorType) or not (is_builtin(value) or shape_of(value) is None)


def is_builtin(value: ir.Value) -> bool:
    """Whether a value's type is MLIR's own, not a frontend's."""
    return isinstance(value.type, (ir.ShapedType, ir.FloatType, ir.IntegerType, ir.IndexType))


def signless(kind: str) -> str:
    """Torch's `si64` is `i64`; unsigned types are others."""
    return kind.removeprefix("s")


def defining_op(value: ir.Value) -> ir.Operation | None:
    """The op that makes the value, or None for a block argument."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def maker_name(value: ir.Value) -> str:
    """The name of the op that makes the value, "" for a block argument."""
    op = defining_op(value)
    return "" if op is None else op.name


# What a value is made of: nothing for one of a kind that is asked for, None for one of another.
Sources = Callable[[ir.Value], Sequence[ir.Value] | None]


def rests_on(value: ir.Value, sources: Sources, known: dict[ir.Value, bool], further: Sources | None = None) -> bool:
    """Whether all that a value is made of is of one kind.

    known: what is known so far. further: what takes longer to tell, and is asked last.
    """
    if value in known:
        return known[value]
    below: dict[ir.Value, ir.Value | None] = {value: None}  # each value with the one that is made of it
    pending, later = [value], list[ir.Value]()
    while pending or later:
        ask, each = (sources, pending.pop()) if pending else (further, later.pop())
        made_of = () if ask is None else ask(each)
        for source in made_of or ():
            is_one = known.get(source)
            if is_one is False:
                made_of = None
                break
            if is_one is None and source not in below:
                below[source] = each
                pending.append(source)
        if made_of is None:
            at: ir.Value | None = each
            while at is not None:  # nor is any that is made of it
                known[at], at = False, below[at]
            return False
        if ask is sources and further is not None:
            later.append(each)
    known.update(dict.fromkeys(below, True))
    return True


def indexing_maps(op: ir.Operation) -> list[ir.AffineMap]:
    """How a linalg op reads and writes its operands; empty for one that does not say."""
    return [ir.AffineMapAttr(each).value for each in get_indexing_maps(op) or ()]


def seen_through(value: ir.Value) -> ir.Value:
    """What a value is a view of."""
    while (op := defining_op(value)) is not None and op.name in VIEWS:
        value = op.operands[0]
    return value


def is_elementwise(op: ir.Operation) -> bool:
    """Whether an op on tensors gives elements that are each made of one of each operand."""
    if op.name != "linalg.generic":
        return op.name in _ELEMENTWISE
    return all("parallel" in str(kind) for kind in ir.ArrayAttr(op.attributes["iterator_types"]))


def is_structured(op: ir.Operation) -> bool:
    """Whether the op has indexing maps and a body (every linalg op but softmax and the like)."""
    return op.name.startswith("linalg.") and len(op.regions) == 1 and get_indexing_maps(op) is not None
