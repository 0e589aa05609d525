"""Random programs that read tensors through views, each value with the array that numpy has for it.

Chains are made from their end: what a view makes is known, and what it may be made from is chosen. So every operand has
the shape that the op behind it wants, and any views may come one after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Dim:
    """The size of a dim: what it is when the program runs, and whether the program's type says so."""

    size: int
    is_open: bool = False

    def __str__(self) -> str:
        return "?" if self.is_open else str(self.size)


Dims = tuple[Dim, ...]


@dataclass(frozen=True)
class Value:
    """A tensor of a program, of f32. array: what it holds."""

    name: str
    dims: Dims
    array: np.ndarray = field(repr=False, compare=False)

    @property
    def type(self) -> str:
        return type_of(self.dims)


def type_of(dims: Dims) -> str:
    return f"tensor<{''.join(f'{dim}x' for dim in dims)}f32>"


def _list(things: Sequence[Any]) -> str:
    return f"[{', '.join(map(str, things))}]"


class Function:
    """A function that is being written, with the arrays to call it with and those that it returns."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.lines: list[str] = []
        self.parameters: list[str] = []
        self.inputs: list[Any] = []
        self.results: list[Value] = []
        self.views: list[str] = []  # the kinds of the views, in the order of the program
        self._made, self._last = 0, 0
        often = (self._split, self._merged, self._sliced)
        seldom = (self._reversed, self._padded, self._joined, self._taken, self._mapped)
        others = (self._transposed, self._without_ones, self._broadcast)
        self._views: list[Callable[[Dims, int], Value | None]] = [*often * 6, *others * 3, *seldom]

    # ---- text

    def text(self) -> str:
        returned = ", ".join(value.name for value in self.results)
        types = ", ".join(value.type for value in self.results)
        head = f"func.func @{self.name}({', '.join(self.parameters)}) -> ({types})"
        return f"{head} {{\n" + "\n".join(f"  {line}" for line in self.lines) + f"\n  return {returned} : {types}\n}}"

    def fresh(self, kind: str = "v") -> str:
        self._made += 1
        return f"%{kind}{self._made}"

    def line(self, text: str, kind: str = "v") -> str:
        name = self.fresh(kind)
        self.lines.append(f"{name} = {text}")
        return name

    def number(self, number: int) -> str:
        return self.line(f"arith.constant {number} : index", "c")

    def told(self, number: int) -> str:
        """A number that the caller gives."""
        name = self.fresh("n")
        self.parameters.append(f"{name}: index")
        self.inputs.append(number)
        return name

    def size(self, value: Value, axis: int) -> str:
        """The size of a dim, as a number of the program."""
        if not value.dims[axis].is_open:
            return self.number(value.dims[axis].size)
        return self.line(f"tensor.dim {value.name}, {self.number(axis)} : {value.type}", "d")

    def empty(self, dims: Dims, sizes: Sequence[str]) -> str:
        """sizes: those of the open dims."""
        return self.line(f"tensor.empty({', '.join(sizes)}) : {type_of(dims)}")

    def argument(self, dims: Dims) -> Value:
        name, shape = self.fresh("a"), tuple(dim.size for dim in dims)
        array = np.random.default_rng(self.rng.getrandbits(32)).integers(-8, 9, shape).astype(np.float32)
        value = Value(name, dims, array)
        self.parameters.append(f"{name}: {value.type}")
        self.inputs.append(array)
        return value

    def made(self, kind: str, name: str, dims: Dims, array: np.ndarray) -> Value:
        assert array.shape == tuple(dim.size for dim in dims), (kind, array.shape, dims)
        self.views.append(kind)
        return Value(name, dims, array)

    def axis(self, axes: Sequence[int]) -> int:
        """One of some axes, mostly the one that was changed last: views of one dim are what is hard to follow."""
        chosen = self._last if self._last in axes and self.rng.random() < 0.7 else self.rng.choice(axes)
        self._last = chosen
        return chosen

    # ---- what is read through views: a tensor of some dims

    def chain(self, dims: Dims, depth: int) -> Value:
        """A tensor that is read through so many views at most."""
        for _ in range(8 if depth > 0 else 0):
            found = self.rng.choice(self._views)(dims, depth - 1)
            if found is not None:
                return found
        return self.argument(dims)

    def _open(self, *dims: Dim) -> bool:
        """Whether what is made from dims, or makes them, is open: where one of them is, it is."""
        return any(dim.is_open for dim in dims)

    def _sizes(self, source: Value, axes: Sequence[int], dims: Dims) -> list[str]:
        """The sizes of the open ones of dims that are those of a source at axes."""
        return [self.size(source, axis) for axis, dim in zip(axes, dims, strict=True) if dim.is_open]

    def _transposed(self, dims: Dims, depth: int) -> Value | None:
        if len(dims) < 2:
            return None
        order = self.rng.sample(range(len(dims)), len(dims))
        self._last = order[self._last % len(dims)]
        source = self.chain(tuple(dims[order.index(axis)] for axis in range(len(dims))), depth)
        return self.transpose(source, order)

    def transpose(self, source: Value, order: Sequence[int]) -> Value:
        dims = tuple(source.dims[axis] for axis in order)
        into = self.empty(dims, self._sizes(source, order, dims))
        name = self.line(
            f"linalg.transpose ins({source.name} : {source.type}) outs({into} : {type_of(dims)}) permutation = "
            f"{_list(order)}"
        )
        return self.made("transpose", name, dims, source.array.transpose(order))

    def _split(self, dims: Dims, depth: int) -> Value | None:
        """Some neighbours out of one dim."""
        if len(dims) < 2:
            return None
        start = self.axis(range(len(dims) - 1))
        stop = self.rng.randint(start + 2, min(len(dims), start + 3))
        group = dims[start:stop]
        if sum(dim.is_open for dim in group) > 1:
            return None
        whole = Dim(int(np.prod([dim.size for dim in group])), self._open(*group))
        source = self.chain((*dims[:start], whole, *dims[stop:]), depth)
        return self.expand(source, start, group)

    def expand(self, source: Value, axis: int, group: Dims) -> Value:
        """At most one dim of the group is open."""
        dims = (*source.dims[:axis], *group, *source.dims[axis + 1 :])
        sizes: list[Any] = []
        for at, dim in enumerate(dims):
            if not dim.is_open:
                sizes.append(dim.size)
            elif axis <= at < axis + len(group):
                known = int(np.prod([each.size for each in group if not each.is_open]))
                whole = self.size(source, axis)
                sizes.append(self.line(f"arith.divui {whole}, {self.number(known)} : index", "s"))
            else:
                sizes.append(self.size(source, at if at < axis else at - len(group) + 1))
        groups = [[at] for at in range(axis)] + [list(range(axis, axis + len(group)))]
        groups += [[at] for at in range(axis + len(group), len(dims))]
        name = self.line(
            f"tensor.expand_shape {source.name} {_list(groups)} output_shape {_list(sizes)} : "
            f"{source.type} into {type_of(dims)}"
        )
        return self.made("expand", name, dims, source.array.reshape([dim.size for dim in dims]))

    def _merged(self, dims: Dims, depth: int) -> Value | None:
        """One dim out of two."""
        if not dims or len(dims) > 5:
            return None
        axis = self.axis(range(len(dims)))
        size = dims[axis].size
        factors = [factor for factor in range(1, size + 1) if size % factor == 0]
        if not size:
            return None
        first = self.rng.choice(factors)
        at = self.rng.choice([(True, False), (False, True), (True, True)]) if dims[axis].is_open else (False, False)
        pair = Dim(first, at[0]), Dim(size // first, at[1])
        return self.collapse(self.chain((*dims[:axis], *pair, *dims[axis + 1 :]), depth), axis, 2)

    def collapse(self, source: Value, axis: int, count: int) -> Value:
        group = source.dims[axis : axis + count]
        whole = Dim(int(np.prod([dim.size for dim in group])), self._open(*group))
        dims = (*source.dims[:axis], whole, *source.dims[axis + count :])
        groups = [[at] for at in range(axis)] + [list(range(axis, axis + count))]
        groups += [[at] for at in range(axis + count, len(source.dims))]
        name = self.line(f"tensor.collapse_shape {source.name} {_list(groups)} : {source.type} into {type_of(dims)}")
        return self.made("collapse", name, dims, source.array.reshape([dim.size for dim in dims]))

    def _without_ones(self, dims: Dims, depth: int) -> Value | None:
        """A dim of size one that comes or goes, by a reshape or a slice of lower rank."""
        ones = [axis for axis, dim in enumerate(dims) if dim == Dim(1)]
        if ones and self.rng.random() < 0.5 and len(dims) > 1:
            axis = self.rng.choice(ones)
            beside = axis - 1 if axis else axis
            source = self.chain((*dims[:axis], *dims[axis + 1 :]), depth)
            return self.expand(source, beside, dims[beside : beside + 2])
        axis = self.rng.randint(0, len(dims))
        length = self.rng.choice([1, 1, 2, 3])
        source = self.chain((*dims[:axis], Dim(length), *dims[axis:]), depth)
        if length == 1 and self.rng.random() < 0.5 and dims:
            return self.collapse(source, max(axis - 1, 0), 2)
        starts = [0] * (len(dims) + 1)
        starts[axis] = self.rng.randrange(length)
        return self.slice(source, starts, dims, [1] * len(starts), drops=axis)

    def _sliced(self, dims: Dims, depth: int) -> Value | None:
        if not dims:
            return None
        starts, steps, source = [0] * len(dims), [1] * len(dims), list(dims)
        for axis in {self.axis(range(len(dims))) for _ in range(self.rng.choice([1, 1, 2]))}:
            size = dims[axis].size
            steps[axis] = self.rng.choice([1, 1, 1, 1, 2, 3])
            starts[axis] = self.rng.choice([0, 0, 0, 0, 1, size, size * steps[axis]])
            least = starts[axis] + max(size - 1, 0) * steps[axis] + 1
            whole = self.rng.choice([least, least + 1, size * 2, size * 2, size * 3, size * steps[axis]])
            source[axis] = Dim(
                max(whole, least, 1), self.rng.random() < 0.2 or (dims[axis].is_open and self.rng.random() < 0.5)
            )
        return self.slice(self.chain(tuple(source), depth), starts, dims, steps)

    def slice(self, source: Value, starts: Sequence[int], dims: Dims, steps: Sequence[int], drops: int = -1) -> Value:
        """drops: an axis of the source, of size one, that is not one of the dims."""
        wide = dims if drops < 0 else (*dims[:drops], Dim(1), *dims[drops:])
        offsets: list[Any] = [self.told(start) if start and self.rng.random() < 0.2 else start for start in starts]
        sizes: list[Any] = []
        for axis, dim in enumerate(wide):
            if not dim.is_open:
                sizes.append(dim.size)
                continue
            own = source.dims[axis]
            if own == dim and steps[axis] == 1 and starts[axis] == 0:
                offsets[axis] = 0
                sizes.append(self.size(source, axis))
            elif own.is_open and own.size > dim.size and self.rng.random() < 0.5:
                less = self.number(own.size - dim.size)
                sizes.append(self.line(f"arith.subi {self.size(source, axis)}, {less} : index", "s"))
            else:
                sizes.append(self.told(dim.size))
        words = f"{_list(offsets)} {_list(sizes)} {_list(steps)}"
        name = self.line(f"tensor.extract_slice {source.name}{words} : {source.type} to {type_of(dims)}")
        cuts = tuple(
            slice(start, start + max(dim.size - 1, 0) * step + (dim.size > 0), step)
            for start, dim, step in zip(starts, wide, steps, strict=True)
        )
        array = source.array[cuts].reshape([dim.size for dim in dims])
        return self.made("slice", name, dims, array)

    def cut(self, source: Value, axis: int, to: Dim) -> Value:
        """The first elements along an axis."""
        dims = (*source.dims[:axis], to, *source.dims[axis + 1 :])
        return self.slice(source, [0] * len(dims), dims, [1] * len(dims))

    def _broadcast(self, dims: Dims, depth: int) -> Value | None:
        if not dims:
            return None
        axis = self.axis(range(len(dims)))
        source = self.chain((*dims[:axis], *dims[axis + 1 :]), depth)
        others = [at for at in range(len(dims)) if at != axis]
        sizes = dict(
            zip(
                [at for at in others if dims[at].is_open],
                self._sizes(source, range(len(others)), source.dims),
                strict=True,
            )
        )
        if dims[axis].is_open:
            sizes[axis] = self.told(dims[axis].size)
        into = self.empty(dims, [sizes[at] for at in sorted(sizes)])
        name = self.line(
            f"linalg.broadcast ins({source.name} : {source.type}) outs({into} : {type_of(dims)}) dimensions = [{axis}]"
        )
        array = np.broadcast_to(np.expand_dims(source.array, axis), [dim.size for dim in dims])
        return self.made("broadcast", name, dims, array)

    def _generic(self, source: Value, dims: Dims, reads: Sequence[str], array: np.ndarray, kind: str) -> Value:
        """A tensor that reads a source at some expressions of its own indices."""
        loops = ", ".join(f"d{at}" for at in range(len(dims)))
        maps = f"affine_map<({loops}) -> ({', '.join(reads)})>, affine_map<({loops}) -> ({loops})>"
        kinds = ", ".join(['"parallel"'] * len(dims))
        name = self.line(
            f"linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}} ins({source.name} : "
            f"{source.type}) outs({self.empty(dims, [])} : {type_of(dims)}) {{ ^bb0(%in: f32, %out: f32): "
            f"linalg.yield %in : f32 }} -> {type_of(dims)}"
        )
        return self.made(kind, name, dims, array)

    def _mapped(self, dims: Dims, depth: int) -> Value | None:
        """A transpose and a broadcast in one op, or windows: two dims out of a sum of indices."""
        if not dims or self._open(*dims):
            return None
        count = len(dims)
        if count > 1 and self.rng.random() < 0.4:
            first, second = self.rng.sample(range(count), 2)
            step = self.rng.choice([1, 2, dims[second].size])
            length = (dims[first].size - 1) * step + dims[second].size
            kept = [axis for axis in range(count) if axis not in (first, second)]
            source = self.chain((*(dims[axis] for axis in kept), Dim(length)), depth)
            grid = np.meshgrid(*(np.arange(dim.size) for dim in dims), indexing="ij")
            array = source.array[(*(grid[axis] for axis in kept), grid[first] * step + grid[second])]
            reads = [f"d{axis}" for axis in kept] + [f"d{first} * {step} + d{second}"]
            return self._generic(source, dims, reads, array, "windows")
        kept = self.rng.sample(range(count), self.rng.randint(max(count - 1, 0), count))
        source = self.chain(tuple(dims[axis] for axis in kept), depth)
        grid = np.meshgrid(*(np.arange(dim.size) for dim in dims), indexing="ij")
        array = np.broadcast_to(source.array[tuple(grid[axis] for axis in kept)], [dim.size for dim in dims])
        return self._generic(source, dims, [f"d{axis}" for axis in kept], array, "map")

    def _reversed(self, dims: Dims, depth: int) -> Value | None:
        if not dims or self._open(*dims):
            return None
        axis = self.axis(range(len(dims)))
        source = self.chain(dims, depth)
        reads = [f"d{at}" if at != axis else f"{dims[axis].size - 1} - d{at}" for at in range(len(dims))]
        return self._generic(source, dims, reads, np.flip(source.array, axis), "reverse")

    def _taken(self, dims: Dims, depth: int) -> Value | None:
        """Rows by their numbers, which are constants."""
        if not dims or self._open(*dims) or dims[0].size == 0:
            return None
        count = self.rng.choice([dims[0].size, dims[0].size * 2, 3])
        source = self.chain((Dim(count), *dims[1:]), depth)
        wanted = [self.rng.randrange(count) for _ in range(dims[0].size)]
        table = self.line(f"arith.constant dense<{wanted}> : tensor<{len(wanted)}xi32>")
        loops = ", ".join(f"d{at}" for at in range(len(dims)))
        kinds = ", ".join(['"parallel"'] * len(dims))
        body = ["%at = arith.index_cast %in : i32 to index"]
        names = ["%at"]
        for at in range(1, len(dims)):
            body.append(f"%i{at} = linalg.index {at} : index")
            names.append(f"%i{at}")
        body.append(f"%e = tensor.extract {source.name}[{', '.join(names)}] : {source.type}")
        name = self.line(
            f"linalg.generic {{indexing_maps = [affine_map<({loops}) -> (d0)>, affine_map<({loops}) -> ({loops})>], "
            f"iterator_types = [{kinds}]}} ins({table} : tensor<{len(wanted)}xi32>) outs({self.empty(dims, [])} : "
            f"{type_of(dims)}) {{ ^bb0(%in: i32, %out: f32):\n    "
            + "\n    ".join(body)
            + f"\n    linalg.yield %e : f32 }} -> {type_of(dims)}"
        )
        return self.made("gather", name, dims, source.array[wanted])

    def _padded(self, dims: Dims, depth: int) -> Value | None:
        axes = [axis for axis, dim in enumerate(dims) if dim.size > 2]
        if not axes:
            return None
        axis = self.axis(axes)
        low = self.rng.randint(0, 1)
        high = self.rng.randint(1 - low, 1)
        inner = Dim(dims[axis].size - low - high, dims[axis].is_open)
        return self.pad(self.chain((*dims[:axis], inner, *dims[axis + 1 :]), depth), axis, low, high)

    def pad(self, source: Value, axis: int, low: int, high: int) -> Value:
        own = source.dims[axis]
        dims = (*source.dims[:axis], Dim(own.size + low + high, own.is_open), *source.dims[axis + 1 :])
        zero = self.line("arith.constant 0.0 : f32", "z")
        lows, highs = ([number if at == axis else 0 for at in range(len(dims))] for number in (low, high))
        indices = ", ".join(f"%i{at}: index" for at in range(len(dims)))
        name = self.line(
            f"tensor.pad {source.name} low{_list(lows)} high{_list(highs)} {{ ^bb0({indices}): tensor.yield {zero} : "
            f"f32 }} : {source.type} to {type_of(dims)}"
        )
        return self.made("pad", name, dims, np.pad(source.array, list(zip(lows, highs, strict=True))))

    def _joined(self, dims: Dims, depth: int) -> Value | None:
        axes = [axis for axis, dim in enumerate(dims) if dim.size > 1 and not dim.is_open]
        if not axes or self._open(*dims):
            return None
        axis = self.axis(axes)
        size = dims[axis].size
        first = self.rng.choice([size // 2, self.rng.randint(1, size - 1)])
        lengths = first, size - first
        parts = [self.chain((*dims[:axis], Dim(length), *dims[axis + 1 :]), depth - 1) for length in lengths]
        return self.join(parts, axis)

    def join(self, parts: Sequence[Value], axis: int) -> Value:
        own = parts[0].dims
        length = sum(part.dims[axis].size for part in parts)
        dims = (*own[:axis], Dim(length), *own[axis + 1 :])
        array = np.concatenate([part.array for part in parts], axis)
        if self.rng.random() < 0.5:
            names, types = ", ".join(part.name for part in parts), ", ".join(part.type for part in parts)
            name = self.line(f"tensor.concat dim({axis}) {names} : ({types}) -> {type_of(dims)}")
            return self.made("concat", name, dims, array)
        into, start = self.empty(dims, []), 0
        for part in parts:
            starts = [start if at == axis else 0 for at in range(len(dims))]
            ones, sizes = [1] * len(dims), [dim.size for dim in part.dims]
            into = self.line(
                f"tensor.insert_slice {part.name} into {into}{_list(starts)} {_list(sizes)} {_list(ones)} : "
                f"{part.type} into {type_of(dims)}"
            )
            start += part.dims[axis].size
        return self.made("insert", into, dims, array)

    # ---- what becomes of results

    def arranged(self, value: Value, depth: int) -> Value:
        """A value behind some views of it."""
        for _ in range(self.rng.randint(0, depth)):
            rank = len(value.dims)
            kind = self.rng.choice(["transpose", "expand", "collapse", "slice", "pad", "join", "transpose", "expand"])
            axis = self.rng.randrange(rank) if rank else 0
            if kind == "transpose" and rank > 1:
                value = self.transpose(value, self.rng.sample(range(rank), rank))
            elif kind == "expand" and 0 < rank < 6:
                own = value.dims[axis]
                factors = [each for each in range(1, own.size + 1) if own.size % each == 0] or [1]
                first = self.rng.choice(factors)
                pair = (Dim(first), Dim(own.size // first, own.is_open))
                value = self.expand(value, axis, pair if self.rng.random() < 0.5 else pair[::-1])
            elif kind == "collapse" and axis + 1 < rank:
                value = self.collapse(value, axis, 2)
            elif kind == "slice" and rank and value.dims[axis].size > 1 and not self._open(*value.dims):
                size = self.rng.randint(1, value.dims[axis].size - 1)
                starts = [0] * rank
                starts[axis] = self.rng.randint(0, value.dims[axis].size - size)
                dims = (*value.dims[:axis], Dim(size), *value.dims[axis + 1 :])
                value = self.slice(value, starts, dims, [1] * rank)
            elif kind == "pad" and rank:
                value = self.pad(value, axis, self.rng.randint(0, 1), 1)
            elif kind == "join" and rank and not self._open(*value.dims):
                other = self.argument((*value.dims[:axis], Dim(self.rng.randint(1, 3)), *value.dims[axis + 1 :]))
                value = self.join(self.rng.sample([value, other], 2), axis)
        return value
