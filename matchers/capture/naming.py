"""Names for a captured computation: its inputs, its dims, and the labels of one op.

Names that the program gives come first; else inputs are called after what they do (x, w, bias), dims after where they
stand (m, n, and k where a contraction sums over it).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count

from iree.compiler import ir

from opsplice.matchers.capture.expressions import (
    Arrange,
    Captured,
    Contraction,
    Elementwise,
    Input,
    Label,
    Opaque,
    Part,
    Stack,
    loops_of,
    walk,
)
from opsplice.matchers.explain.pointing import name_of
from opsplice.matchers.ir.op_names import global_of
from opsplice.matchers.terms.terms import Loop, Sum
from opsplice.spec_lang.syntax import vocabulary

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")
# Names that frontends give to whatever they have no name for.
_NO_NAME = re.compile(r"(?:arg|input|output|cst|c|v|val|p_?args)_?\d*|_+\d*|in|out")
# Words of the language, and of C, which is what a kernel's parameters are called in.
_TAKEN = frozenset({
    "and", "as", "at", "auto", "bool", "break", "broadcast", "case", "char", "const", "contract", "continue",
    "default", "do", "double", "else", "enum", "extern", "float", "for", "goto", "grid", "if", "import", "in",
    "inf", "inline", "int", "kernel", "keep", "long", "mlir", "nan", "not", "or", "otherwise", "out", "pattern",
    "reduce", "register", "replace", "restrict", "return", "short", "signed", "size_t", "sizeof", "static",
    "struct", "switch", "symbol", "tensor", "through", "transpose", "typedef", "union", "unsigned", "void",
    "volatile", "when", "where", "while", "with", "workgroup_x",
})  # fmt: skip
_OUTER = "nmhb"
_OTHERS = "klpqrstuvdcjgfioaeLMNPQRSTUVW"
_SPATIAL = "dhw"
_TENSORS = ("x", "y", "z")
_ROLES = {"arith.addf": "bias", "arith.addi": "bias", "arith.mulf": "gain", "arith.muli": "gain"}


@dataclass(frozen=True)
class Names:
    """What inputs and dims are called. made: dims that only results have, but for those whose size the pattern says."""

    inputs: Mapping[Input, str]
    dims: Mapping[Loop, str]
    made: Mapping[Loop, str]


def name(captured: Captured) -> Names:
    """Names for the inputs, and for each dim that an input or a result has."""
    inputs = _inputs(captured)
    dims = _dims(captured, set(inputs.values()))
    given = {captured.axes.dim(axis) for part in captured.inputs for axis in part.axes}
    counted = {captured.axes.dim(part.along) for part in walk(captured.results) if isinstance(part, Stack)}
    return Names(
        inputs,
        {dim: name for dim, name in dims.items() if dim in given},
        {dim: name for dim, name in dims.items() if dim not in given | counted},
    )


def free_name(base: str, taken: Iterable[str]) -> str:
    """The name, with a number behind it if it is taken."""
    known = set(taken)
    return next(n for n in chain((base,), _numbered(base)) if n not in known)


def _numbered(base: str) -> Iterator[str]:
    return (f"{base}{number}" for number in count(1))


class Labels:
    """The labels of one op: an axis is called by its dim, and where two axes are of one dim, the second by a letter.

    windows: whether the op has sums of labels, which may be any words.
    """

    def __init__(self, captured: Captured, names: Names, *, windows: bool = False) -> None:
        self._axes = captured.axes
        self._pack = captured.pack
        self._names = names
        self._dims = {**names.dims, **(names.made if windows else {})}
        self._chosen: dict[Loop, str] = {}

    def text(self, labels: Iterable[Label]) -> str:
        return " ".join(self._label(each) if isinstance(each, Loop) else self._sum(each) for each in labels)

    def _sum(self, label: Sum) -> str:
        loops = [(factor, loop) for factor, loop in label.terms if isinstance(loop, Loop)]
        loops.sort(key=lambda term: self._axes.dim(term[1]) not in self._names.made)
        terms = ((factor, self._label(loop)) for factor, loop in loops)
        return f"({' + '.join(name if factor == 1 else f'{factor}*{name}' for factor, name in terms)})"

    def _label(self, axis: Loop) -> str:
        if axis not in self._chosen:
            dim = self._axes.dim(axis)
            wanted = self._dims.get(dim)
            if wanted is None or wanted in self._chosen.values():
                used = {*self._chosen.values(), *self._names.dims.values(), *self._names.inputs.values()}
                wanted = next(n for n in chain("ijuvpqrst", _OTHERS, _numbered("l")) if n not in used)
            self._chosen[axis] = wanted
        return f"...{self._chosen[axis]}" if self._axes.dim(axis) == self._pack else self._chosen[axis]


# ---- inputs ------------------------------------------------------------------------------------------------------


def _inputs(captured: Captured) -> dict[Input, str]:
    roles = _roles(captured.results)
    found: dict[Input, str] = {}
    for part in captured.inputs:
        taken = {*found.values(), *_TAKEN}
        own = _given(part)
        if own is not None and own not in taken:
            found[part] = own
        elif part.scalar:
            found[part] = free_name("s", taken)
        elif part in roles:
            found[part] = free_name(roles[part], taken)
        else:
            found[part] = next(n for n in chain(_TENSORS, _numbered("x")) if n not in taken)
    return found


def _given(part: Input) -> str | None:
    """The name that the program gives a value, if it is one that a person would."""
    value = part.value
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name == "util.global.load":
        given = global_of(owner.operation).removeprefix("__auto.")
    else:
        given = name_of(value.location if isinstance(owner, ir.Block) else owner.operation.location)
    given = given.rpartition("/")[2].removeprefix("p_").replace(".", "_").replace("-", "_")
    fits = _WORD.fullmatch(given) is not None and len(given) > 1 and vocabulary.find(given) is None
    return given if fits and not _NO_NAME.fullmatch(given) and given not in _TAKEN else None


def _roles(results: tuple[Part, ...]) -> dict[Input, str]:
    """The second operand of a contraction is a weight; a vector that is spread and added or multiplied with, a bias."""
    roles: dict[Input, str] = {}
    for part in walk(results):
        convolution = isinstance(part, Opaque) and part.name.startswith("linalg.conv")
        if isinstance(part, (Contraction, Opaque)) and (convolution or isinstance(part, Contraction)):
            data, weight = _cast_of(part.args[0]), _cast_of(part.args[1])
            windows = convolution or (isinstance(part, Contraction) and _window_of(part) is not None)
            if isinstance(weight, Input) and weight is not data:
                roles.setdefault(weight, "filter" if windows else "w")
        role = "bias" if convolution else _ROLES.get(part.op) if isinstance(part, Elementwise) else None
        for arg in part.args if role and isinstance(part, (Elementwise, Opaque)) else ():
            spread = arg.args[0] if isinstance(arg, Arrange) else None
            if isinstance(spread, Input) and len(spread.axes) == 1:
                roles.setdefault(spread, role or "")
    return roles


def _cast_of(part: Part) -> Part:
    """What a part is, before it was cast and put in another order."""
    while isinstance(part, Arrange) or (isinstance(part, Elementwise) and len(part.args) == 1):
        part = part.args[0]
    return part


# ---- dims --------------------------------------------------------------------------------------------------------


def _dims(captured: Captured, taken: set[str]) -> dict[Loop, str]:
    dim = captured.axes.dim
    known = dict.fromkeys(dim(axis) for part in captured.inputs for axis in part.axes)
    made = dict.fromkeys(dim(axis) for part in captured.results for axis in part.axes)
    found: dict[Loop, str] = {}

    def give(axis: Loop, letters: Iterable[str]) -> None:
        if dim(axis) not in found:
            used = {*found.values(), *taken}
            found[dim(axis)] = next(n for n in chain(letters, _OTHERS, _numbered("d")) if n not in used)

    for part in walk(captured.results):
        if isinstance(part, Contraction) and _window_of(part) is not None:
            for axis, name in _convolved(part):
                if dim(axis) in known or dim(axis) in made:
                    give(axis, (name,))
        elif isinstance(part, Contraction):
            for axis in part.summed:
                if dim(axis) not in made and dim(axis) in known:
                    give(axis, "k")
    widest = max((*captured.results, *captured.inputs), key=lambda part: len(part.axes))
    for axis, letter in zip(reversed(widest.axes), _OUTER, strict=False):
        if dim(axis) in known:
            give(axis, letter)
    for axis in (*known, *made):
        give(axis, "nm")
    return found


def _window_of(part: Contraction) -> tuple[Label, ...] | None:
    """The labels of the operand that is read in windows, if one is."""
    return next((labels for labels in part.labels if any(isinstance(label, Sum) for label in labels)), None)


def _convolved(part: Contraction) -> Iterator[tuple[Loop, str]]:
    """The axes of a convolution, called as people call them: n oh ow f, and c kh kw to sum over."""
    at = next(number for number, labels in enumerate(part.labels) if any(isinstance(label, Sum) for label in labels))
    data, own = part.labels[at], part.args[at].axes
    windows = [(axis, label) for axis, label in zip(own, data, strict=True) if isinstance(label, Sum)]
    for (axis, label), letter in zip(windows, _SPATIAL[-len(windows) :], strict=False):
        yield axis, letter
        yield from ((loop, f"{'o' if loop in part.axes else 'k'}{letter}") for loop in loops_of([label]))
    elsewhere = {loop for number, labels in enumerate(part.labels) if number != at for loop in loops_of(labels)}
    plain = (label for label in data if isinstance(label, Loop))
    yield from ((loop, "c" if loop in elsewhere else "n") for loop in plain)
    yield from ((axis, "f") for axis in part.axes if axis not in set(loops_of(data)))
