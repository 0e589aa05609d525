"""Small helpers to build IR in IREE's generic form, which does not drift between releases as the pretty syntax does."""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from iree.compiler import ir

from opsplice.common import cache
from opsplice.matchers.ir.op_names import ops_in

# Every dialect that a rewrite builds ops of.
_DIALECTS = """
    arith cf complex flow func hal iree_codegen iree_linalg_ext linalg llvm memref scf spirv stream tensor torch_c util
"""

# The numbers of arith's predicates. Of floats NaN is unequal to all, and no other comparison with it holds.
_PREDICATES = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5, "u<": 6, "u>=": 9}
_OF_FLOATS = {"==": 1, ">": 2, ">=": 3, "<": 4, "<=": 5, "!=": 13}

# A buffer with a shape and a type of elements, outside of the program.
VIEW = "!hal.buffer_view"


def load_dialects(context: ir.Context) -> None:
    """Load what rewrites build, before they build it.

    An op that is built before its dialect is loaded keeps a name that loading frees: it would crash the process later.
    """
    for name in _DIALECTS.split():
        context.get_dialect_descriptor(name)


@contextmanager
def building(module: ir.Module) -> Iterator[None]:
    """Where ops can be built in a module: in its context, with all dialects."""
    load_dialects(module.context)
    with module.context, ir.Location.unknown():
        yield


def of_each(*names: str) -> Callable[[Callable[[ir.Operation], object]], Callable[[ir.Module], None]]:
    """Make an edit of one op, before which it builds others, an edit of all ops of these names in a module."""

    def of_module(edit: Callable[[ir.Operation], object]) -> Callable[[ir.Module], None]:
        @functools.wraps(edit)
        def edited(module: ir.Module) -> None:
            with building(module):
                for each in ops_in(module.operation, *names):
                    with each.location, ir.InsertionPoint(each):
                        edit(each)

        return edited

    return of_module


def op(
    name: str,
    operands: Sequence[ir.Value] = (),
    results: Sequence[ir.Type] = (),
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
    at: ir.InsertionPoint | None = None,
) -> Any:
    """Build an op at the insertion point `at` (default: the current one). Needs a current location."""
    return ir.Operation.create(
        name, results=list(results), operands=list(operands), attributes=attributes or {}, regions=regions, ip=at
    )


def value(name: str, operands: Sequence[ir.Value], result: ir.Type, **attributes: ir.Attribute) -> ir.Value:
    """The single result of an op built at the current insertion point."""
    return op(name, operands, [result], attributes).results[0]


def grouped(
    name: str,
    groups: Sequence[Sequence[ir.Value]],
    results: Sequence[ir.Type] = (),
    attributes: dict[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> Any:
    """Build an op that says how large each group of its operands is."""
    sizes = ir.DenseI32ArrayAttr.get(list(map(len, groups)))
    told = {**(attributes or {}), "operandSegmentSizes": sizes}
    return op(name, list(itertools.chain.from_iterable(groups)), results, told, regions)


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """All attributes of an op, for one that is built like it."""
    return {name: op.attributes[name] for name in op.attributes}


def bytecode(op: ir.Operation) -> bytes:
    """An op with all in it, as MLIR's bytecode."""
    buffer = io.BytesIO()
    op.write_bytecode(buffer)
    return buffer.getvalue()


def dispatch(
    entries: Sequence[ir.Attribute],
    workload: Sequence[ir.Value],
    operands: Sequence[ir.Value],
    dims: Sequence[Sequence[ir.Value]],
    results: Sequence[ir.Type],
    result_dims: Sequence[Sequence[ir.Value]],
    tied: Sequence[int],
) -> list[ir.Value]:
    """The results of a `flow.dispatch`.

    entries: the functions, one for each target. dims, result_dims: the dynamic dims of each tensor that goes in, and of
    each that comes out. tied: for each result the operand whose buffer it takes, -1 for a fresh one.
    """
    given, made = ([dim for of_one in each for dim in of_one] for each in (dims, result_dims))
    tied_operands = ir.ArrayAttr.get(list(map(ordinal, tied)))
    attributes = {"entry_points": ir.ArrayAttr.get(list(entries)), "tied_operands": tied_operands}
    return list(grouped("flow.dispatch", [workload, operands, given, made], results, attributes).results)


def copy(original: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    """A copy of an op at the current point, on other values where `values` has them; its results are added to these."""
    made = original.clone().operation
    for inner in ops_in(made):
        for position, operand in enumerate(inner.operands):
            if operand in values:
                inner.operands[position] = values[operand]
    values.update(zip(original.results, made.results, strict=True))
    return made


def replace(old: ir.Operation, *values: ir.Value) -> None:
    """Put values in the place of the results of an op, which is erased."""
    for result, value in zip(old.results, values, strict=True):
        result.replace_all_uses_with(value)
    old.erase()


def put_behind(value: ir.Value, make: Callable[[ir.Value], ir.Value]) -> None:
    """Have what uses the result of an op use what is made of it right behind the op."""
    uses = [(use.owner, use.operand_number) for use in value.uses]
    with value.owner.location, ir.InsertionPoint.after(value.owner):
        made = make(value)
    for user, number in uses:
        user.operands[number] = made


def block(op: ir.Operation, kinds: Sequence[ir.Type] = ()) -> ir.Block:
    """A new block at the end of an op's first region, with arguments of these types."""
    return op.regions[0].blocks.append(*kinds, arg_locs=[ir.Location.unknown()] * len(kinds))


def named(name: str, visibility: str = "private", **more: ir.Attribute) -> dict[str, ir.Attribute]:
    """The attributes of an op that defines a symbol. MLIR takes one without a visibility as public."""
    shown = {} if visibility == "public" else {"sym_visibility": text(visibility)}
    return {"sym_name": text(name), **shown, **more}


def type_of(inputs: Sequence[ir.Type], results: Sequence[ir.Type] = ()) -> ir.Attribute:
    """The type of a function, as an attribute."""
    return ir.TypeAttr.get(ir.FunctionType.get(list(inputs), list(results)))


def ordinal(number: int) -> ir.Attribute:
    """A number of type index, as an attribute."""
    return ir.IntegerAttr.get(ir.IndexType.get(), number)


def plus(left: ir.Value, right: ir.Value) -> ir.Value:
    return value("arith.addi", [left, right], left.type)


def times(left: ir.Value, right: ir.Value) -> ir.Value:
    return value("arith.muli", [left, right], left.type)


def object_file(path: object) -> ir.Attribute:
    """A file that IREE links with an executable's code. Needs a current context."""
    if Path(str(path)).is_absolute() and not is_linkable(path):
        link = cache.temporary() / f"{hashlib.sha256(str(path).encode()).hexdigest()}{Path(str(path)).suffix}"
        if not link.is_symlink():
            link.symlink_to(str(path))
        path = link
    return ir.Attribute.parse(f'#hal.executable.object<{{path = "{escaped(path)}"}}>')


def is_linkable(path: object) -> bool:
    """Whether IREE 3.13, which quotes nothing in the command line of its linker, can link a file of this path."""
    return re.fullmatch(r"[\w./+@%:,=~-]+", str(path), re.ASCII) is not None


def escaped(path: object) -> str:
    """A path as MLIR's strings have it."""
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def unescaped(text: str) -> str:
    """A path from what MLIR's strings have."""
    return text.replace('\\"', '"').replace("\\\\", "\\")


def compared(op: str, left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether a comparison holds: of integers with their signs, or as `u<` and `u>=` without; of floats as C has it."""
    is_float = isinstance(left.type, ir.FloatType)
    asked = number((_OF_FLOATS if is_float else _PREDICATES)[op], ir.IntegerType.get_signless(64))
    name, flag = "arith.cmpf" if is_float else "arith.cmpi", ir.IntegerType.get_signless(1)
    return value(name, [left, right], flag, predicate=asked)


def index(number: int) -> ir.Value:
    """A constant of type index."""
    return constant(number, ir.IndexType.get())


def size(known: int | ir.Value) -> ir.Value:
    """A size, which may be known, as a value."""
    return index(known) if isinstance(known, int) else known


def number(value: int | float | None, kind: ir.Type) -> ir.Attribute:
    """A number, which is known, of an integer, index or float type. Needs a current context."""
    assert value is not None
    if isinstance(kind, (ir.IntegerType, ir.IndexType)):
        return ir.IntegerAttr.get(kind, int(value) - (1 << 64 if value >= 1 << 63 else 0))  # the bindings take an int64
    return ir.FloatAttr.get(kind, float(value), loc=ir.Location.unknown())


def constant(known: int | float | None, kind: ir.Type) -> ir.Value:
    """A constant of an integer, index or float type."""
    return value("arith.constant", [], kind, value=number(known, kind))


def tensor_type(sizes: Sequence[object], element: ir.Type) -> ir.RankedTensorType:
    """The type of a tensor, in which sizes that are no numbers are dynamic."""
    dynamic = ir.ShapedType.get_dynamic_size()
    return ir.RankedTensorType.get([size if isinstance(size, int) else dynamic for size in sizes], element)


def dim(tensor: ir.Value, axis: int) -> ir.Value:
    """The size of a tensor along an axis: a constant where it is fixed."""
    kind = ir.RankedTensorType(tensor.type)
    if not kind.is_dynamic_dim(axis):
        return index(kind.get_dim_size(axis))
    return value("tensor.dim", [tensor, index(axis)], ir.IndexType.get())


def dynamic_dims(value: ir.Value) -> list[ir.Value]:
    """The sizes of a tensor's dims that are only known at run time; of another value none."""
    kind = value.type
    if not isinstance(kind, ir.RankedTensorType):
        return []
    return [dim(value, axis) for axis in range(kind.rank) if kind.is_dynamic_dim(axis)]


def held(tensor: ir.Value, **marks: ir.Attribute) -> ir.Value:
    """A tensor behind a barrier, which has some marks. IREE finds no open sizes behind it, so these are given."""
    behind = value("util.optimization_barrier", [tensor], tensor.type, **marks)
    sizes = dynamic_dims(tensor)
    return value("flow.tensor.tie_shape", [behind, *sizes], tensor.type) if sizes else behind


def reshape(tensor: ir.Value, kind: ir.Type, wanted: Sequence[ir.Value]) -> ir.Value:
    """A tensor's elements in the dims of `kind`, if these are others. wanted: the dynamic sizes of `kind`."""
    if tensor.type == kind:
        return tensor
    return grouped("flow.tensor.reshape", [[tensor], dynamic_dims(tensor), wanted], [kind]).results[0]


def bitcast(tensor: ir.Value, element: ir.Type) -> ir.Value:
    """The same bits as elements of another type of the same width."""
    kind = ir.RankedTensorType(tensor.type)
    if kind.element_type == element:
        return tensor
    dims, wanted = dynamic_dims(tensor), ir.RankedTensorType.get(kind.shape, element)
    return grouped("flow.tensor.bitcast", [[tensor], dims, dims], [wanted]).results[0]


def part(tensor: ir.Value, kind: ir.Type, starts: Sequence[int], sizes: Sequence[int | ir.Value]) -> ir.Value:
    """Elements that lie side by side in a tensor, as one of type `kind`, which may lack dims of size one."""
    known = [size if isinstance(size, int) else ir.ShapedType.get_dynamic_size() for size in sizes]
    attributes: dict[str, ir.Attribute] = {
        f"static_{name}": ir.DenseI64ArrayAttr.get(list(numbers))
        for name, numbers in (("offsets", starts), ("sizes", known), ("strides", [1] * len(known)))
    }
    groups = [[tensor], [], [size for size in sizes if isinstance(size, ir.Value)], []]
    return grouped("tensor.extract_slice", groups, [kind], attributes).results[0]


def exported(tensor: ir.Value) -> ir.Value:
    """A view of a tensor's buffer, as programs hand it out."""
    encoding = ir.TypeAttr.get(tensor.type)
    return value("hal.tensor.export", [tensor, *dynamic_dims(tensor)], ir.Type.parse(VIEW), source_encoding=encoding)


def loop(inputs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], empty: ir.Value) -> tuple[ir.Value, ir.Block]:
    """The result of a parallel `linalg.generic` over a new tensor's elements, and its body, which is to be filled.

    maps: how each input is read.
    """
    made = nest(inputs, [*maps, ir.AffineMap.get_identity(ir.RankedTensorType(empty.type).rank)], empty)
    elements = [getattr(each.type, "element_type", each.type) for each in (*inputs, empty)]
    return made.results[0], block(made, elements)


def over_elements(op: ir.Operation) -> tuple[ir.Value, ir.Block]:
    """What an op on tensors of one shape makes, as a loop over their elements, and its body, which is to be filled."""
    kind = ir.RankedTensorType(op.results[0].type)
    same = ir.AffineMap.get_identity(kind.rank)
    return loop(list(op.operands), [same] * len(op.operands), value("tensor.empty", dynamic_dims(op.operands[0]), kind))


def nest(
    inputs: Sequence[ir.Value], maps: Sequence[ir.AffineMap], *starts: ir.Value, summed: Sequence[int] = ()
) -> Any:
    """A `linalg.generic` without a body, which reduces over some of its loops.

    maps: how each input is read, and each result, which begins as one of `starts`, is written.
    """
    kinds = ["reduction" if loop in summed else "parallel" for loop in range(maps[-1].n_dims)]
    attributes: dict[str, ir.Attribute] = {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(each) for each in maps]),
        "iterator_types": ir.ArrayAttr.get([ir.Attribute.parse(f"#linalg.iterator_type<{kind}>") for kind in kinds]),
    }
    return grouped("linalg.generic", [inputs, starts], [each.type for each in starts], attributes, regions=1)


def text(string: str) -> ir.StringAttr:
    return ir.StringAttr.get(string)


def strings(texts: Sequence[str]) -> ir.ArrayAttr:
    return ir.ArrayAttr.get([ir.StringAttr.get(each) for each in texts])


def symbol(*names: str) -> ir.Attribute:
    return ir.SymbolRefAttr.get(list(names))
