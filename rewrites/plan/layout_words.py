"""Views in words: which part of which value of the program a buffer is, and how it lies there.

k reads [:, 32:64] of tensor<16x96xf32> of the program's input0, transposed, strides ...b 8, d 1, n 96
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from iree.compiler import ir

from opsplice.matchers.dims.extents import ONE, ZERO, Extent, product
from opsplice.matchers.dims.layouts import Layout
from opsplice.matchers.explain.places import place_of
from opsplice.matchers.ir.tensor_values import shape_of
from opsplice.rewrites.plan.actions import Buffer, KernelCall, Output
from opsplice.spec_lang.syntax import tree, vocabulary


def told(call: KernelCall) -> tuple[str, ...]:
    """In words: what is read, written and copied through views, and how it lies in memory."""
    calls = call.launches
    strided = [in_words(b, b.layout) for c in calls for b in c.strided if b.layout is not None and _is_view(c, b)]
    copies = (b for c in calls for b in c.copied if isinstance(b, Output) or isinstance(b.value, ir.Value))
    return (*strided, *(_copy_in_words(b, b.copy) for b in copies if b.copy is not None))


def _is_view(call: KernelCall, buffer: Buffer | Output) -> bool:
    if isinstance(buffer, Output):
        return bool(buffer.views) or call.match.order is not None
    arg = call.rule_args[buffer.name]
    if not isinstance(arg, tree.Name) or buffer.value is None:
        return False
    return bool(buffer.views or call.match.inputs[arg.name].places)


def in_words(buffer: Buffer | Output, layout: Layout, verb: str = "reads") -> str:
    """Where a buffer lies. verb: what is done with it, but for results, which are written."""
    value = buffer.value if isinstance(buffer, Buffer) else buffer.root
    what = f"{buffer.name} {verb}" if isinstance(buffer, Buffer) else "the result is written as"
    part = part_of(shape_of(value) or (), layout)
    start = f" from element {_amount(layout.offset)}" if part is None and layout.offset != ZERO else ""
    where = f"{part} of {whereabouts(value)}" if part else f"{whereabouts(value)}{start}"
    strides = [
        f"{dim} {' and '.join(_amount(stride) for _, stride in runs) or '0'}"
        for dim, runs in zip(buffer.shape, layout.dims, strict=True)
    ]
    return ", ".join([f"{what} {where}", *_arranged(buffer.shape, layout), f"strides {', '.join(strides)}"])


def whereabouts(value: ir.Value) -> str:
    """Which value of the program it is, in words."""
    place = place_of(value, text=False)
    return f"{value.type} of {place.op}{f' at {place.location}' if place.location else ''}"


def _copy_in_words(buffer: Buffer | Output, layout: Layout) -> str:
    if layout.is_dense:
        return in_words(buffer, layout)
    count = product(size for runs in layout.dims for size, _ in runs)
    size = "" if count.atoms else f": {count.factor * max(8, vocabulary.bits(buffer.element) or 0) // 8} bytes"
    what = "the result's dims are put into the program's order"
    return f"{in_words(buffer, layout, 'copies') if isinstance(buffer, Buffer) else what}{size}"


def _amount(amount: Extent) -> str:
    return "?" if amount.number is None else str(amount.number)


def _arranged(shape: Sequence[tree.Dim], layout: Layout) -> list[str]:
    """What strides say at a glance: that dims lie in another order, and which ones read the same elements again."""
    dims = [(dim, runs) for dim, runs in zip(shape, layout.dims, strict=True) if any(size != ONE for size, _ in runs)]
    again = [str(dim) for dim, runs in dims if all(stride == ZERO for _, stride in runs)]
    steps = [runs[0][1].number for dim, runs in dims if dim.pack is None and str(dim) not in again]
    known = [step for step in steps if step is not None]
    return [
        *["transposed"] * any(near < far for near, far in itertools.pairwise(known)),
        *[f"the same for each {' and '.join(again)}"] * bool(again),
    ]


# ---- which part -----------------------------------------------------------------------------------------------------


def part_of(shape: Sequence[int | None], layout: Layout) -> str | None:
    """The part of a dense value that a layout reads, as Python's slices: "" for all of it, None where it is none.

    Of dims that are known at run time only, and those before them, the whole must be read.
    """
    known = list(itertools.takewhile(lambda size: size is not None, reversed(shape)))[::-1]
    sizes = [size for size in known if size is not None]
    inner = math.prod(sizes)
    runs = [run for dim in layout.dims for run in dim if run[1] != ZERO]

    def is_inner(stride: Extent) -> bool:
        return stride.number is not None and stride.number < inner

    outer = len(shape) - len(sizes)
    read = product(size for size, stride in runs if not is_inner(stride)) * Extent(inner)
    first = layout.offset.number
    if first is None or first >= inner or (outer and read != layout.count):
        return None
    slices = _slices(sizes, first, [run for run in runs if is_inner(run[1])])
    if slices is None:
        return None
    return f"[{', '.join([':'] * outer + slices)}]" if any(each != ":" for each in slices) else ""


def _slices(sizes: Sequence[int], first: int, runs: Iterable[tuple[Extent, Extent]]) -> list[str] | None:
    """What runs read along each axis of a dense value of `sizes`, from its element `first` on. None where it is not so.

    Taken from the last axis to the first: what goes over the end of an axis goes on along the one before it.
    """
    found: list[str] = []
    left: list[tuple[int | None, int | None]] = [(size.number, stride.number) for size, stride in runs]
    below = 1
    for size in reversed(sizes):
        first, start = divmod(first, size)
        steps: list[tuple[int, int]] = []
        further: list[tuple[int | None, int | None]] = []
        for count, stride in left:
            if count is None or stride is None or stride % below:
                return None
            step, whole = stride // below, size * below // stride
            if step >= size:
                further.append((count, stride))
            elif start + (count - 1) * step < size:
                steps.append((step, count))
            elif start == 0 and size % step == count % whole == 0:
                steps.append((step, whole))
                further.append((count // whole, size * below))
            else:
                return None
        read = _slice(start, size, sorted(steps))
        if read is None:
            return None
        found.insert(0, read)
        left, below = further, below * size
    return found


def _slice(start: int, size: int, steps: Sequence[tuple[int, int]]) -> str | None:
    """What steps, the smallest first, read along an axis, each so many times: every element, or every so many."""
    every = steps[0][0] if steps else 1
    last = start
    for step, count in steps:
        if step % every or step > last - start + every:
            return None
        last += (count - 1) * step
    if last >= size:
        return None
    if not steps:
        return ":" if size == 1 else str(start)
    end = "" if last + every >= size else str(last + every)
    return f"{start or ''}:{end}" + (f":{every}" if every != 1 else "")
