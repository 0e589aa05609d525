"""Functions that marks in code stand for, until `scalar_link.py` puts calls in their place."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from iree.compiler import ir

from opsplice.rewrites.ir.executable_targets import parse_target

# No assembler knows the word, so that a mark that is left over is an error.
WORD = "opsplice.call "


@dataclass(frozen=True)
class Function:
    """A function that marks stand for.

    inputs, output: its types, as MLIR writes them.
    objects: for each executable target of the program, as MLIR writes it, the file with the function's code.
    harmless: those of these targets for which LLVM may inline it and run it on any numbers.
    imported: such targets for which the function comes when the program is loaded.
    origins: the files that the kernel names for these.
    """

    kernel: str
    symbol: str
    inputs: tuple[str, ...]
    output: str
    objects: tuple[tuple[str, Path], ...]
    harmless: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    origins: tuple[tuple[str, Path], ...] = ()

    @property
    def name(self) -> str:
        """A name that no other function has, made of letters and digits."""
        code = (*(f"{target}{path}" for target, path in (*self.objects, *self.origins)), *self.imported)
        parts = (self.symbol, *self.inputs, self.output, *code)
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
        return f"{self.stem}_{digest}"

    @property
    def stem(self) -> str:
        """What the names of all functions of this symbol begin with."""
        return re.sub(r"[^A-Za-z0-9_]", "_", self.symbol)

    def file(self, target: str) -> Path | None:
        """The file for a target given as MLIR writes it, None where there is none."""
        found = dict(self.objects)
        return next((found[key] for key in _keys(target) if key in found), None)

    def is_harmless(self, target: str) -> bool:
        """Whether the function may run on any numbers where the code for a target, as MLIR writes it, has it."""
        return any(key in self.harmless for key in _keys(target))

    def is_imported(self, target: str) -> bool:
        """Whether the function comes later for a target given as MLIR writes it."""
        return any(key in self.imported for key in _keys(target))


Functions = Mapping[str, Function]


def _keys(target: str) -> tuple[str, str]:
    """What a target may be known as: in full, or by its backend and format alone."""
    parsed = parse_target(target)
    return target, f'#hal.executable.target<"{parsed.backend}", "{parsed.format}">'


def name_in(mark: ir.Operation) -> str | None:
    """The name of the function that an op marks a call of, None if it is no mark."""
    if mark.name != "llvm.inline_asm":
        return None
    text = ir.StringAttr(mark.attributes["asm_string"]).value
    return text.removeprefix(WORD) if text.startswith(WORD) else None


def stem_of(name: str) -> str:
    """What a function's name begins with."""
    return name.rpartition("_")[0]
