"""What an action calls as a kernel's declaration: buffers with dims, the sizes that a C function is told, its grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from opsplice.rewrites.transform_dialect.importing.not_importable import UnreadableError
from opsplice.rewrites.transform_dialect.importing.shims import Call, Size
from opsplice.rewrites.transform_dialect.importing.template import Draft, Input


def kernel(call: Call, template: Draft, inputs: Mapping[int, Input]) -> tuple[str, list[str]]:
    """A kernel's declaration, and the arguments of the rule. inputs: what the function's arguments are."""
    dims = {number: each.dims for number, each in inputs.items() if each.dims is not None}
    shapes: list[tuple[str, ...] | None] = []
    parameters, names = [], []
    for number, (argument, scalar) in enumerate(zip(call.arguments, call.scalars, strict=True)):
        known = inputs.get(argument)
        if known is None:
            raise UnreadableError(template.op, "what is no input of the pattern for the C function")
        if known.variable:
            raise UnreadableError(template.op, "a tensor of any type for the C function")
        names.append(known.name)
        parameters.append((f"a{number}", known.element))
        shapes.append(None if scalar else (known.dims or ()))
    if call.results != 1:
        raise UnreadableError(template.op, "a function of several results")
    shapes.append(template.result_dims)
    wanted = tuple(_size_key(size, dims) for size in call.sizes)
    for spelled in _shapes(shapes, template):
        if tuple(spelled.names) == wanted:
            break
    else:
        raise UnreadableError(template.op, "a C function that is told other sizes than its buffers have")
    written = [
        f"{name}: {element}" if shape is None else f"{name}: {element}[{shape}]"
        for (name, element), shape in zip(parameters, spelled.texts, strict=False)
    ]
    grid = _grid(call, dims, template, spelled)
    clauses = [f'cpu {arch} "{path}"' for arch, path in call.objects]
    result = f"{template.result_element}[{spelled.texts[-1]}]"
    lines = [f"kernel NAME({', '.join(written)}) -> {result} {{", *grid, f'symbol "{call.symbol}"', *clauses, "}"]
    return "\n".join(lines), names


# A size in terms of the template: a number, or the names of the dims that are multiplied.
_Key = int | tuple[str, ...]


@dataclass(frozen=True)
class _Shapes:
    """One way to declare the buffers, and the sizes that the C function is then told, in order, by their names."""

    texts: tuple[str | None, ...]
    names: Mapping[_Key, str]


def _shapes(shapes: list[tuple[str, ...] | None], template: Draft) -> Iterator[_Shapes]:
    """Ways to declare the buffers: sizes that are known as numbers or names, leading dims apart or as one pack.

    A pack of no dims, which tells the function 1, is only written for the first buffer.
    """
    longest = max((len(s) for s in shapes if s is not None), default=0)
    for numbers, packed in itertools.product((True, False), (None, *range(longest + 1))):
        if packed != 1:
            yield _declared(shapes, template, numbers, packed)


def _declared(shapes: list[tuple[str, ...] | None], template: Draft, numbers: bool, packed: int | None) -> _Shapes:
    texts: list[str | None] = []
    sizes: dict[_Key, str] = {}
    lead = next((s[:packed] for s in shapes if s is not None and len(s) >= packed), ()) if packed else ()
    for shape in shapes:
        if shape is None:
            texts.append(None)
            continue
        words: list[str] = []
        rest = list(shape)
        if packed == 0 and not any(text is not None for text in texts):
            sizes.setdefault(1, "rows")
            words.append("...rows")
        if packed and tuple(rest[:packed]) == lead:
            known = [template.sizes.get(name) for name in lead]
            key: _Key = lead if None in known else math.prod(k for k in known if k is not None)
            sizes.setdefault(key, "rows")
            words.append("...rows")
            rest = rest[packed:]
        for name in rest:
            size = template.sizes.get(name)
            if size is not None and numbers:
                words.append(str(size))
                continue
            sizes.setdefault((name,) if size is None else size, name)
            words.append(name)
        texts.append(", ".join(words))
    return _Shapes(tuple(texts), sizes)


def _size_key(size: Size, dims: Mapping[int, tuple[str, ...]]) -> _Key:
    return size if isinstance(size, int) else tuple(dims[argument][axis] for argument, axis in size)


def _grid(call: Call, dims: Mapping[int, tuple[str, ...]], template: Draft, spelled: _Shapes) -> list[str]:
    if not call.grid:
        return []
    words = []
    for size in call.grid_sizes:
        name = spelled.names.get(_size_key(size, dims))
        if name is None:
            raise UnreadableError(template.op, "workgroups counted from a size that the C function is not told")
        words.append(name)
    return [f"grid ({', '.join(text.format(*words) for text in call.grid)})"]
