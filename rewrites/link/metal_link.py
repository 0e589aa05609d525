"""Shaders for Metal in the place of the empty functions that stand for them.

    #include <metal_stdlib> ...            the file's own text, in which `scale` is,
    kernel void scale() {}           =>    and how many threads a workgroup has

IREE 3.13 crashes on files for Metal that hold whole dispatches. So a dispatch is compiled around an empty function, and
once IREE has made the executable, at `PHASE`, the shader is put into it. Until then an attribute of the executable
says which file that is, for each of its variants. The layout is the executable's own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from iree.compiler import ir

from opsplice.common.errors import unforeseen
from opsplice.matchers.ir.op_names import symbol_of
from opsplice.rewrites.approaches.dispatch_files import External
from opsplice.rewrites.ir.executables import binaries, code_of, data_of, executables
from opsplice.targets.formats import metal_executable

PHASE = "hal"

_SHADERS = "opsplice.shaders"
_FORMAT = "metal-msl-fb"
# What stands for a shader. Those of targets without an artifact, which are never run, have names of ours.
_EMPTY = re.compile(rb"kernel void (?!opsplice_)\w+\(\)\s*\{\s*\}")


def note(executable: ir.Operation, shaders: Mapping[str, External]) -> None:
    """Write on an executable which shaders are to be put into it, by variant."""
    if shaders:
        told = {variant: (str(each.path), each.entry, each.workgroup) for variant, each in shaders.items()}
        executable.attributes[_SHADERS] = ir.StringAttr.get(json.dumps(told))


def link(module: ir.Module) -> None:
    """Put the shaders in their places. The module must be at `PHASE`.

    Raises OpspliceError for an executable that is not of the format, and for one that would be left empty.
    """
    with module.context, ir.Location.unknown():
        for executable in executables(module):
            shaders = shaders_of(executable)
            if shaders:
                del executable.attributes[_SHADERS]
            for binary in binaries(executable):
                if ir.StringAttr(binary.attributes["format"]).value == _FORMAT:
                    _put_in(binary, shaders.get(symbol_of(binary)))


def shaders_of(executable: ir.Operation) -> dict[str, metal_executable.Kernel]:
    """The shaders that are to be put into an executable, by variant."""
    if _SHADERS not in executable.attributes:
        return {}
    told = json.loads(ir.StringAttr(executable.attributes[_SHADERS]).value)
    return {
        variant: metal_executable.Kernel(Path(path).read_text(encoding="utf-8"), entry, (x, y, z))
        for variant, (path, entry, (x, y, z)) in told.items()
    }


def _put_in(binary: ir.Operation, kernel: metal_executable.Kernel | None) -> None:
    code = code_of(binary)
    if kernel is None:
        if _EMPTY.search(code):
            raise unforeseen(f"the compiler has moved a kernel for Metal to another executable: {symbol_of(binary)}")
        return
    binary.attributes["data"] = data_of(metal_executable.replace(code, kernel))
