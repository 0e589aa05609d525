"""Writes Einsum of tensors whose sizes are not all fixed as sums, products of matrices and transposes.

    Einsum "ibh,hnd->ibnd" (x, w)   =>   Reshape(MatMul(x, Reshape(w, [h, n * d])), [i, b, n, d])

IREE takes a size that is not fixed and that only one side has for 1, and lowers no equation without a result.
"""

from __future__ import annotations

import math
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from opsplice.onnx.rules.node_writer import NodeWriter, attribute

# The sizes of a value by letter: a number, or the name of a tensor of one element.
_Sizes = dict[str, "int | str"]


@dataclass(frozen=True)
class _Tensor:
    """A value, and a letter for each of its dims."""

    name: str
    letters: str


def einsum(on: NodeWriter, node: onnx.NodeProto) -> str | None:
    """None where IREE is right, where a tensor has a letter twice, and where a size of 1 stands for a larger one."""
    shapes = [on.shape(name) for name in node.input]
    equation = attribute(node, "equation", b"").decode().replace(" ", "")
    if any(shape is None for shape in shapes):
        return None
    known = [shape or [] for shape in shapes]
    if (element := on.element(node.input[0])) in (TensorProto.INT8, TensorProto.UINT8):  # IREE's compiler crashes
        wide = (on.put("Cast", name, to=TensorProto.INT32) for name in node.input)
        return on.put("Cast", on.put("Einsum", *wide, equation=equation), to=element)
    if "->" in equation and all(None not in shape for shape in known):
        return None
    read = _letters(equation, [len(shape) for shape in known])
    if read is None:
        return None
    given, result = read
    tensors = [_Tensor(name, letters) for name, letters in zip(node.input, given, strict=True)]
    sizes = _sizes(on, tensors, known)
    if sizes is None:
        return None
    made = tensors[0]
    for number, other in enumerate(tensors[1:], 2):
        later = result + "".join(each.letters for each in tensors[number:])
        made = _product(on, made, other, later, sizes)
    return _transposed(on, _summed(on, made, result), result).name


def _letters(equation: str, ranks: Sequence[int]) -> tuple[list[str], str] | None:
    """The letters of each operand, and of the result."""
    before, _, behind = equation.partition("->")
    operands = before.split(",")
    if len(operands) != len(ranks):
        return None
    more = max(rank - len(each.replace("...", "")) for each, rank in zip(operands, ranks, strict=True))
    spare = [letter for letter in string.ascii_letters if letter not in equation][: max(more, 0)]
    given = []
    for each, rank in zip(operands, ranks, strict=True):
        count = rank - len(each.replace("...", ""))
        given.append(each.replace("...", "".join(spare[len(spare) - count :])) if count else each.replace("...", ""))
    counts = Counter("".join(given))
    if "->" not in equation:
        behind = "..." + "".join(sorted(letter for letter in counts if counts[letter] == 1 and letter not in spare))
    result = behind.replace("...", "".join(spare))
    is_whole = all(
        len(each) == rank == len(set(each)) for each, rank in zip([*given, result], [*ranks, len(result)], strict=True)
    )
    return (given, result) if is_whole and set(result) <= set(counts) else None


def _sizes(on: NodeWriter, tensors: Sequence[_Tensor], shapes: Sequence[Sequence[int | None]]) -> _Sizes | None:
    """None where a letter has two sizes."""
    found: _Sizes = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        for axis, (letter, size) in enumerate(zip(tensor.letters, shape, strict=True)):
            other = found.get(letter)
            if isinstance(size, int) and isinstance(other, int) and size != other:
                return None
            if size is not None:
                found[letter] = size
            elif other is None:
                found[letter] = on.put("Gather", on.put("Shape", tensor.name), [axis])
    return found


def _product(on: NodeWriter, left: _Tensor, right: _Tensor, later: str, sizes: _Sizes) -> _Tensor:
    """The product of two tensors, summed over the letters of both that nobody needs later."""
    left = _summed(on, left, right.letters + later)
    right = _summed(on, right, left.letters + later)
    shared = [letter for letter in left.letters if letter in right.letters]
    batch = "".join(letter for letter in shared if letter in later)
    over = "".join(letter for letter in shared if letter not in later)
    rows = "".join(letter for letter in left.letters if letter not in right.letters)
    columns = "".join(letter for letter in right.letters if letter not in left.letters)
    if not rows + columns:
        both = (_transposed(on, each, batch + over).name for each in (left, right))
        return _summed(on, _Tensor(on.put("Mul", *both), batch + over), batch)
    if not over:
        wide = _transposed(on, left, batch + rows).name
        for _ in columns:
            wide = on.put("Unsqueeze", wide, [-1])
        narrow = _transposed(on, right, batch + columns).name
        for _ in rows:
            narrow = on.put("Unsqueeze", narrow, [len(batch)])
        return _Tensor(on.put("Mul", wide, narrow), batch + rows + columns)
    # Rows of one matrix may have any number of dims.
    groups = [*rows] if not batch and rows else [rows]
    one = _grouped(on, _transposed(on, left, batch + rows + over), [*batch, *groups, over], sizes)
    other = _grouped(on, _transposed(on, right, batch + over + columns), [*batch, over, columns], sizes)
    return _apart(on, on.put("MatMul", one, other), [*batch, *groups, columns], sizes)


def _summed(on: NodeWriter, tensor: _Tensor, kept: str) -> _Tensor:
    """Without the letters that nobody needs."""
    axes = [axis for axis, letter in enumerate(tensor.letters) if letter not in kept]
    if not axes:
        return tensor
    letters = "".join(letter for letter in tensor.letters if letter in kept)
    return _Tensor(on.put("ReduceSum", tensor.name, axes, keepdims=0), letters)


def _transposed(on: NodeWriter, tensor: _Tensor, letters: str) -> _Tensor:
    if tensor.letters == letters:
        return tensor
    order = [tensor.letters.index(letter) for letter in letters]
    return _Tensor(on.put("Transpose", tensor.name, perm=order), letters)


def _grouped(on: NodeWriter, tensor: _Tensor, groups: Sequence[str], sizes: _Sizes) -> str:
    """A tensor as one with a dim for each group of letters, which are next to each other; one of size 1 for none."""
    name = tensor.name
    if any(len(group) > 1 for group in groups):
        name = on.put("Reshape", name, _shape(on, [_merged(on, group, sizes) for group in groups if group]))
    empty = [axis for axis, group in enumerate(groups) if not group]
    return on.put("Unsqueeze", name, empty) if empty else name


def _apart(on: NodeWriter, name: str, groups: Sequence[str], sizes: _Sizes) -> _Tensor:
    empty = [axis for axis, group in enumerate(groups) if not group]
    name = on.put("Squeeze", name, empty) if empty else name
    letters = "".join(groups)
    if any(len(group) > 1 for group in groups):
        name = on.put("Reshape", name, _shape(on, [sizes[letter] for letter in letters]))
    return _Tensor(name, letters)


def _merged(on: NodeWriter, letters: str, sizes: _Sizes) -> int | str:
    """How many elements dims have together."""
    known = [size for letter in letters if isinstance(size := sizes[letter], int)]
    total: int | str = math.prod(known)
    for name in (size for letter in letters if isinstance(size := sizes[letter], str)):
        total = name if total == 1 else on.put("Mul", name, [total] if isinstance(total, int) else total)
    return total


def _shape(on: NodeWriter, sizes: Sequence[int | str]) -> str:
    if all(isinstance(size, int) for size in sizes):
        return on.give(np.array(sizes, np.int64))
    parts = [on.give(np.array([size], np.int64)) if isinstance(size, int) else size for size in sizes]
    return on.put("Concat", *parts, axis=0)
