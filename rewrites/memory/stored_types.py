"""Types that a device does not store are refused where the compiler's own code would read or write them.

    storage = b32      hal.interface.binding.subspan ... : !iree_tensor_ext.dispatch.tensor<readonly:tensor<1024xi8>>

IREE 3.13 packs such elements into words of 32 bits and mixes them up: of 1024 bytes it reads each fourth one, and sums
of f16 are all wrong. Kernels have code of their own, which stores what it says.
"""

from __future__ import annotations

import re

from iree.compiler import ir

from opsplice.common.errors import OpspliceError
from opsplice.matchers.ir.op_names import location_text, ops_in
from opsplice.rewrites.ir.executable_targets import parse_target
from opsplice.spec_lang.syntax import vocabulary

# When each dispatch is an executable for each target.
PHASE = "executable-sources"

_WORD = 32
_ELEMENT = re.compile(r"(?:tensor|memref)<(?:[\d?]+x)*(\w+)[,>]")


def check(module: ir.Module) -> None:
    """Raise OpspliceError if the code that the compiler makes of a module at `PHASE` stores what a target does not."""
    for variant in ops_in(module.operation, "hal.executable.variant"):
        target = parse_target(str(variant.attributes["target"]))
        widths = {_width(binding) for binding in ops_in(variant, "hal.interface.binding.subspan")}
        narrow = sorted(width for width in widths - target.stored_widths if width < _WORD)
        if narrow and target.stored_widths:
            computing = [location_text(op) for op in ops_in(variant) if op.name.startswith("linalg.")]
            raise OpspliceError(
                f"{target.backend} {target.arch} stores no elements of {narrow[0]} bits: "
                f"IREE's own code for {[*computing, location_text(variant)][0]} would give wrong numbers",
                hint="name the device, such as --target=vulkan:ada (Mesa's lavapipe is vulkan:llvmpipe)",
            )


def _width(binding: ir.Operation) -> int:
    """The bits that an element of a buffer takes in memory; a word's where there is no telling."""
    element = _ELEMENT.search(str(binding.results[0].type))
    return max(vocabulary.bits(element[1]) or _WORD, 8) if element is not None else _WORD
