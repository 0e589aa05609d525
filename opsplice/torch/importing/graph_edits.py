"""What graphs of PyTorch's are changed to before IREE's importer and compiler see them.

Tensors without elements are taken out: IREE's compiler ends the process on some of them. What computes one is a
constant instead, and so is a product whose sums have no terms. What writes nothing into a tensor is a copy of it.

Numbers below 0 are floats where they meet floats. Where IREE's importer computes with constants itself, it takes whole
ones for huge ones without a sign: 1 - x is x times -1 to it, and a mask of ones becomes anything but zeros. So PyTorch
computes what is made of tensors of one number: 7 // -2 is -1 to the importer, and -7 % 2 is -1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import statically_known_true

from opsplice.frontends.reshapes import is_misread
from opsplice.torch.importing.symbolic_sizes import InputSizes

aten = torch.ops.aten

# ---- tensors without elements ----------------------------------------------------------------------------------------

# Products, and which argument has what is summed over as its last dim.
_PRODUCTS = {aten.mm.default: 0, aten.bmm.default: 0, aten.addmm.default: 1, aten.baddbmm.default: 1}

# What writes values to places of its first argument, at the indices that are another one.
_WRITES = (aten.scatter, aten.scatter_add, aten.scatter_reduce, aten.index_put)


def fill_empty(graph: fx.Graph) -> None:
    """Replace ops by constants where nothing is computed, or nothing is summed. Sizes that may be 0 do not count."""
    tensors = [node for node in graph.nodes if is_tensor(node)]
    if not any(_is_empty(node.meta["val"]) for node in tensors):
        return
    inputs = graph.find_nodes(op="placeholder")
    with graph.inserting_after(inputs[-1] if inputs else graph._root):
        sizes = InputSizes(graph, {node: node for node in inputs})
    for node in tensors:
        if node.op != "call_function":
            continue
        with graph.inserting_before(node):
            instead = _instead_of(graph, node, sizes)
        if instead is not None:
            instead.meta = dict(node.meta)
            node.replace_all_uses_with(instead)
            graph.erase_node(node)
            instead.name = node.name  # by which signatures of programs know it
    graph.eliminate_dead_code()


def _instead_of(graph: fx.Graph, node: fx.Node, sizes: InputSizes) -> fx.Node | None:
    value = node.meta["val"]
    if not sizes.know(value.shape):
        return None
    kind = {"dtype": value.dtype, "device": value.device}
    if _is_empty(value):
        if node.target is aten.full.default:
            return None
        return graph.call_function(aten.full.default, (sizes.written(value.shape), 0), kind)
    source = node.args[0] if node.target is operator.getitem else node
    given = [arg.meta["val"] for arg in source.all_input_nodes if isinstance(arg.meta.get("val"), torch.Tensor)]
    if getattr(node.target, "overloadpacket", None) in _WRITES and any(map(_is_empty, given)):
        return graph.call_function(aten.clone.default, (node.args[0],))
    if given and all(map(_is_empty, given)):
        number = _of_nothing(node, source)
        if number is None:
            return None
        return graph.call_function(aten.full.default, (sizes.written(value.shape), *number), kind)
    summed = _PRODUCTS.get(node.target)
    if summed is None or not _is_none(node.args[summed].meta["val"].shape[-1]):
        return None
    if summed == 0:
        return graph.call_function(aten.full.default, (sizes.written(value.shape), 0), kind)
    scaled = graph.call_function(aten.mul.Scalar, (node.args[0], node.kwargs.get("beta", 1)))
    scaled.meta = dict(node.args[0].meta)
    return graph.call_function(aten.expand.default, (scaled, sizes.written(value.shape)))


def _is_empty(tensor: torch.Tensor) -> bool:
    return any(map(_is_none, tensor.shape))


def _is_none(size: int | torch.SymInt) -> bool:
    """Whether a size is known to be 0: to compare an open one fixes it."""
    return isinstance(size, int) and size == 0


def _of_nothing(node: fx.Node, source: fx.Node) -> tuple[Any] | None:
    """The number that an op makes of tensors without elements alone, if it is one: the mean of nothing is NaN.

    source: the op, of whose results the node may be one.
    """
    with unset_fake_temporarily():
        args, options = fx.node.map_arg((source.args, source.kwargs), _of_same_shape)
        made = source.target(*args, **options)
        made = (made if source is node else made[node.args[1]]).flatten()
        is_one = torch.equal(made.nan_to_num(), made[0].nan_to_num().expand_as(made))
        number = made[0].item()
        number = number.real if isinstance(number, complex) and not number.imag else number
        return (number,) if is_one else None


def _of_same_shape(node: fx.Node) -> torch.Tensor | int:
    """A tensor of the shape of a node's, where open sizes, and numbers that are sizes, are 1."""
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor):
        return 1
    return torch.empty([size if isinstance(size, int) else 1 for size in value.shape], dtype=value.dtype)


# ---- numbers below 0 -------------------------------------------------------------------------------------------------


def write_signs(graph: fx.Graph) -> None:
    """Write the whole numbers below 0 of ops that make floats as floats."""
    for node in graph.nodes:
        value = node.meta.get("val")
        is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
        if is_float and isinstance(node.target, torch._ops.OpOverload):
            wanted = node.target._schema.arguments
            is_number = {each.name for each in wanted if isinstance(each.type, torch.NumberType)}
            node.args = tuple(
                _signed(arg) if each.name in is_number or each.name == "other" else arg
                for each, arg in zip(wanted, node.args, strict=False)
            )
            node.kwargs = {name: _signed(arg) if name in is_number else arg for name, arg in node.kwargs.items()}


def _signed(number: Any) -> Any:
    return float(number) if type(number) is int and number < 0 else number


# ---- tensors of one number -------------------------------------------------------------------------------------------


# Ops on elements that PyTorch does not mark as such.
_COPIES = (aten._to_copy.default, aten.clone.default)


def fill_equal(graph: fx.Graph) -> None:
    """Replace ops on elements by constants where each tensor that they are given has one number in all places."""
    for node in list(graph.nodes):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
            continue
        number = _number_of(node)
        if number is None:
            continue
        with graph.inserting_before(node):
            kind = {"dtype": value.dtype, "device": value.device}
            instead = graph.call_function(aten.full.default, (list(value.shape), number), kind)
        instead.meta = dict(node.meta)
        node.replace_all_uses_with(instead)


def _number_of(node: fx.Node) -> Any:
    """The number that an op makes all elements of its result of constants, None where it is not known."""
    if node.target is aten.full_like.default:
        return None if isinstance(node.args[1], fx.Node) else node.args[1]
    given, tags = node.all_input_nodes, getattr(node.target, "tags", ())
    if not given or not all(each.target is aten.full.default and not each.all_input_nodes for each in given):
        return None
    if torch.Tag.pointwise not in tags and node.target not in _COPIES:
        return None
    with unset_fake_temporarily():
        args, options = fx.node.map_arg((node.args, node.kwargs), _one_element)
        return node.target(*args, **options).item()


def _one_element(filled: fx.Node) -> torch.Tensor:
    value = filled.meta["val"]
    return torch.full([1] * value.dim(), filled.args[1], dtype=value.dtype)


def write_bytes(graph: fx.Graph) -> None:
    """Have ranges of one number in the place of constants of bytes: IREE takes none without a sign."""
    for node in graph.find_nodes(op="call_function", target=aten.full.default):
        value = node.meta["val"]
        if value.dtype != torch.uint8 or isinstance(node.args[1], fx.Node):  # what the program computes is no constant
            continue
        if _is_empty(value):
            node.target, node.args = aten.empty.memory_format, node.args[:1]
            continue
        size, number = node.args
        with graph.inserting_before(node), value.fake_mode:
            wide = value.new_empty(1, dtype=torch.int32)
            wide = put_like(node, aten.arange.start_step, wide, int(number), int(number) + 1)
            wide.kwargs = {"dtype": torch.int32, "device": value.device}
            one = put_like(node, aten._to_copy.default, value.new_empty(1), wide)
            one.kwargs = {"dtype": value.dtype}
            form = (aten.expand.default, value, one, size) if value.dim() else (aten.view.default, value, one, [])
            node.replace_all_uses_with(put_like(node, *form))
        graph.erase_node(node)


# ---- names -----------------------------------------------------------------------------------------------------------


def name_as_iree(graphs: Iterable[fx.Graph]) -> None:
    """Give ops the names by which IREE knows them.

    A view of what nobody else sees is a view as any other. Every sort of IREE is stable. With `dynamic=True` PyTorch
    computes with Python's floats as tensors, after it has taken ops apart, and divides them by an op that is nowhere
    else.
    """
    for graph in graphs:
        for node in graph.find_nodes(op="call_function", target=aten.sort.stable):
            node.target = aten.sort.default
            node.args = (node.args[0], node.kwargs.get("dim", -1), node.kwargs.get("descending", False))
            node.kwargs = {}
        for node in graph.find_nodes(op="call_function", target=aten.true_divide.Tensor):
            node.target = aten.div.Tensor
        for node in graph.find_nodes(op="call_function", target=aten._unsafe_view.default):
            node.target = aten.view.default


# ---- sizes ----------------------------------------------------------------------------------------------------------


def fix_sizes(graph: fx.Graph) -> None:
    """Let views have the sizes that they ask for: PyTorch computes the last one from others where some are open.

    The only open size of a view is a number where the tensor has no open ones: IREE sees that, and mixes up both.
    What is a number in a view is the same number in what is made of the view. A size of an input that a trace turned
    out to need as a number is one in the input, too.
    """
    numbers: dict[Any, int] = {}
    _put_numbers(graph, numbers)
    known = -1
    while known < len(numbers):
        known = len(numbers)
        for node in graph.find_nodes(op="call_function", target=aten.view.default):
            numbers |= _fix_view(node, numbers)
        if numbers:
            _put_numbers(graph, numbers)


def through_one_dim(graph: fx.Graph) -> None:
    """Let views that IREE misreads go through one dim."""
    for node in graph.find_nodes(op="call_function", target=aten.view.default):
        given, value = node.args[0].meta["val"], node.meta["val"]
        if is_misread(_fixed(given.shape), _fixed(value.shape)):
            with graph.inserting_before(node), given.fake_mode:
                flat = put_like(node, node.target, given.new_empty([math.prod(given.shape)]), node.args[0], [-1])
            node.args = (flat, node.args[1])


def _fixed(sizes: Sequence[int | torch.SymInt]) -> list[int | None]:
    """None for open sizes."""
    return [size if isinstance(size, int) else None for size in sizes]


def _put_numbers(graph: fx.Graph, numbers: Mapping[Any, int]) -> None:
    """Have the sizes of all tensors be numbers where they are known."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            sizes = _with_numbers(value.shape, numbers)
            if [type(size) for size in sizes] != [type(size) for size in value.shape]:
                _resize(node, sizes)


def _fix_view(node: fx.Node, numbers: Mapping[Any, int]) -> dict[Any, int]:
    """The sizes of a view as it asks for them; which of those that were open are numbers."""
    value, asked = node.meta["val"], fx.node.map_arg(node.args[1], lambda each: each.meta["val"])
    if any(isinstance(size, int) and size == -1 for size in asked):
        return {}
    sizes = _counted(node.args[0].meta["val"].shape, _with_numbers(asked, numbers))
    if [type(size) for size in sizes] == [type(size) for size in value.shape]:
        return {}
    given = zip(node.args[1], sizes, strict=True)
    node.args = (node.args[0], [new if isinstance(new, int) else old for old, new in given])
    _resize(node, sizes)
    pairs = zip(value.shape, sizes, strict=True)
    return {old.node.expr: new for old, new in pairs if isinstance(new, int) and not isinstance(old, int)}


def _with_numbers(sizes: Sequence[int | torch.SymInt], numbers: Mapping[Any, int]) -> list[int | torch.SymInt]:
    """The sizes, of which PyTorch has come to know some while it traced."""
    return [size if isinstance(size, int) else _number(size, numbers) for size in sizes]


def _number(size: torch.SymInt, numbers: Mapping[Any, int]) -> int | torch.SymInt:
    known = size.node.maybe_as_int()
    return numbers.get(size.node.expr, size) if known is None else known


def _counted(source: Sequence[int | torch.SymInt], sizes: Sequence[int | torch.SymInt]) -> list[int | torch.SymInt]:
    """The sizes of a view, of which one that is open is counted where the tensor has no open ones."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    is_counted = known and sum(not isinstance(size, int) for size in sizes) == 1
    if not is_counted or not all(isinstance(size, int) for size in source):
        return list(sizes)
    return [size if isinstance(size, int) else math.prod(source) // known for size in sizes]


def _resize(node: fx.Node, sizes: Sequence[int | torch.SymInt]) -> None:
    value = node.meta["val"]
    with value.fake_mode:
        node.meta["val"] = value.new_empty(sizes)
    node.meta.pop("tensor_meta", None)


# ---- places ----------------------------------------------------------------------------------------------------------

# What leaves the numbers of an index as they are.
_VIEWS = (aten.view.default, aten.unsqueeze.default, aten.expand.default, aten._to_copy.default, aten.clone.default)


def count_from_front(graph: fx.Graph) -> None:
    """Write the places below 0 of what is written at indices, which count from the end: IREE writes elsewhere there."""
    for node in graph.find_nodes(op="call_function", target=aten.index_put.default):
        tensor, indices, *others = node.args
        if all(each is None or each.meta["val"].dtype in (torch.int32, torch.int64) for each in indices):
            with graph.inserting_before(node):
                counted = [_from_front(tensor, dim, index) for dim, index in enumerate(indices)]
            node.args = (tensor, counted, *others)


def part_zeros(graph: fx.Graph) -> None:
    """Have -0 around what transposed convolutions spread: IREE takes 0 for what it spreads it in, and misplaces it."""
    for node in graph.find_nodes(op="call_function", target=aten.convolution.default):
        tensor, is_transposed = node.args[0], node.args[6]
        if not is_transposed or tensor.target is not aten.constant_pad_nd.default or any(tensor.args[2:]):
            continue
        if tensor.meta["val"].dtype.is_floating_point:
            with graph.inserting_before(node):
                around = put_like(tensor, tensor.target, tensor.meta["val"], *tensor.args[:2], -0.0)
            node.args = (around, *node.args[1:])


def put_like(node: fx.Node, target: Any, value: Any, *args: Any) -> fx.Node:
    """Put in a call of which another node's lines are true. Its value is given: to compute one fixes open sizes."""
    made = node.graph.call_function(target, args)
    made.meta = {**{key: known for key, known in node.meta.items() if key != "tensor_meta"}, "val": value}
    return made


def _from_front(tensor: fx.Node, dim: int, index: fx.Node | None) -> fx.Node | None:
    if index is None or _is_from_front(index):
        return index
    value, size = index.meta["val"], tensor.meta["val"].shape[dim]
    put = partial(put_like, index)
    whole = size if isinstance(size, int) else put(aten.sym_size.int, size, tensor, dim)
    is_below = put(aten.lt.Scalar, value.new_empty(value.shape, dtype=torch.bool), index, 0)
    return put(aten.where.self, value, is_below, put(aten.add.Scalar, value, index, whole), index)


def _is_from_front(index: fx.Node) -> bool:
    """Whether it counts up from a number that is not below 0."""
    while index.target in _VIEWS:
        index = index.all_input_nodes[0]
    is_range = index.target in (aten.arange.start_step, aten.arange.start, aten.arange.default)
    return is_range and all(type(number) is int and number >= 0 for number in index.args)


# ---- what is never there ---------------------------------------------------------------------------------------------


def leave_out_infinities(graph: fx.Graph) -> None:
    """A softmax has none, which `nan_to_num` puts numbers in the place of: what is left is what patterns know."""
    for node in graph.find_nodes(op="call_function", target=aten.where.self):
        condition, _, other = node.args
        is_infinite = condition.target is aten.eq.Scalar and condition.args[1] in (math.inf, -math.inf)
        if is_infinite and _is_share(condition.args[0]) and _is_like(node.meta["val"], other.meta["val"]):
            node.replace_all_uses_with(other)
            graph.erase_node(node)


def _is_like(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors surely have one type and shape."""
    is_alike = one.dtype == other.dtype and one.dim() == other.dim()
    return is_alike and all(statically_known_true(a == b) for a, b in zip(one.shape, other.shape, strict=True))


def _is_share(node: fx.Node) -> bool:
    """Whether a node computes numbers from 0 to 1, or NaN."""
    while node.target in (aten._to_copy.default, torch.ops.prims.convert_element_type.default):
        node = node.args[0]
    return node.target is aten._softmax.default


def is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)
