"""PTX whose entry takes parameters in an order and widths of its own, as text whose entry takes what IREE passes.

    .entry k(.param .u64 k_param_0, .param .u64 k_param_1, .param .u64 k_param_2)     out, x, n
      ld.param.u64 %rd3, [k_param_2];

        =>

    .entry k(.param .u64 k_buffer_0, .param .u64 k_buffer_1, .param .u32 k_word_0)    x, out, n
      { .reg .b32 %opsplice_0; ld.param.u32 %opsplice_0, [k_word_0]; cvt.s64.s32 %rd3, %opsplice_0; }

Bodies read parameters by their names, so only these loads are written anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from opsplice.common.errors import OpspliceError
from opsplice.targets.formats import ptx
from opsplice.targets.formats.entries import Entry, Parameter

# Bits of parameters.
_WIDTHS = (8, 16, 32, 64)


@dataclass(frozen=True)
class Given:
    """What a parameter gets: the buffer of a number, or the word or two words of these numbers, or else `number`.

    told: in the words of the kernel. element: the type.
    """

    told: str
    element: str = ""
    buffer: int | None = None
    words: tuple[int, ...] = ()
    number: int = 0

    def fits(self, parameter: Parameter) -> bool:
        """Whether a parameter can get it."""
        if self.words and parameter.told.startswith("f") and parameter.told != self.element:
            return False
        bits = 8 * parameter.size
        if self.buffer is not None or len(self.words) == 2:
            return bits == 64
        if not self.words:
            return bits in _WIDTHS and -(2 ** (bits - 1)) <= self.number < 2**bits
        return bits in _WIDTHS and (bits >= 32 or int(self.element.lstrip("bfi")) <= bits)


def rearranged(text: str, entry: Entry, buffers: int, words: int, given: Sequence[Given]) -> str:
    """The text of a module with an entry that takes so many buffers, then words. given: what its own parameters get.

    Raises OpspliceError for parameters that are others, and for a body that does more with them than loading each.
    """
    own = entry.parameters or ()
    takes = f"{entry.told} takes {len(own)} parameters ({', '.join(each.told for each in own) or 'nothing'})"
    if len(own) != len(given):
        raise OpspliceError(
            f"{takes}, and gets {len(given)}: {', '.join(each.told for each in given)}",
            hint='say what each of them gets, such as takes "out, x, n, 0"',
        )
    for number, (parameter, each) in enumerate(zip(own, given, strict=True), 1):
        if not each.fits(parameter):
            what = f"{each.told} ({each.element})" if each.words else each.told
            message = f"{takes}, and parameter {number}, which is {parameter.told}, gets {what}"
            raise OpspliceError(
                message,
                hint="buffers and scalars of 64 bits take 8 bytes, dims 4 or 8, narrower scalars and numbers as many "
                "as hold them; floats get floats",
            )
    text = ptx.without_comments(text, entry.file)
    head = re.search(rf"\.entry\s+{re.escape(entry.name)}\s*\(([^)]*)\)", text)
    assert head is not None, "the entry was read"
    passed = [f".param .u64 {_buffer(entry, at)}" for at in range(buffers)]
    passed += [f".param .u32 {_word(entry, at)}" for at in range(words)]
    end = ptx.end_of(text, head.end())
    body = text[head.end() : end]
    for number, (listed, each) in enumerate(zip(head[1].split(","), given, strict=True), 1):
        name = re.escape(listed.split()[-1])
        load = rf"ld\.param(?:::entry)?\.([usbf](?:8|16|32|64))\s+([%\w$]+)\s*,\s*\[\s*{name}\s*(?:\+\s*0\s*)?\]\s*;"
        body = re.sub(load, partial(_load, entry, each), body)
        if re.search(rf"(?<![\w$%]){name}(?![\w$])", body):
            raise OpspliceError(
                f"{entry.told} reads its parameter {number} otherwise than whole, and it would get {each.told}",
                hint="let it take what a dispatch is passed: buffers, then words of 32 bits",
            )
    return f"{text[: head.start()]}.entry {entry.name}({', '.join(passed)}){body}{text[end:]}"


def _buffer(entry: Entry, number: int) -> str:
    return f"{entry.name}_buffer_{number}"


def _word(entry: Entry, number: int) -> str:
    return f"{entry.name}_word_{number}"


def _load(entry: Entry, given: Given, found: re.Match[str]) -> str:
    """What stands in the place of the load of a parameter."""
    kind, to = found.groups()
    if given.buffer is not None:
        return f"ld.param.{kind} {to}, [{_buffer(entry, given.buffer)}];"
    if not given.words:
        # A register may be wider than what is loaded into it.
        number, name = float(given.number) if kind[0] == "f" else given.number, f"opsplice_number_{kind}"
        return f"{{ .const .{kind} {name} = {number}; ld.const.{kind} {to}, [{name}]; }}"
    if not kind.endswith("64"):
        return f"ld.param.{kind} {to}, [{_word(entry, given.words[0])}];"
    names = [f"%opsplice_{at}" for at in range(len(given.words))]
    loads = [f"ld.param.u32 {name}, [{_word(entry, at)}];" for name, at in zip(names, given.words, strict=True)]
    wide = f"mov.b64 {to}, {{{', '.join(names)}}};" if len(names) == 2 else f"cvt.s64.s32 {to}, {names[0]};"
    return f"{{ .reg .b32 {', '.join(names)}; {' '.join(loads)} {wide} }}"
