"""The chips that IREE 3.13 knows by name, for each device that has a choice: it crashes on others.

What compiling for a chip means is IREE's own; this module knows only which names there are.
"""

from __future__ import annotations

import difflib
import re

from opsplice.common.errors import OpspliceError

# The CUDA architectures that IREE has numbers of, from the oldest.
SM = (60, 61, 62, 70, 72, 75, 80, 86, 87, 89)

_NVIDIA = """
    pascal volta turing ampere ada a100 rtx3070 rtx3070ti rtx3080 rtx3080ti rtx3090 rtx3090ti rtx4060 rtx4070 rtx4080
    rtx4090
"""
_AMD = """
    gfx908 gfx90a gfx942 gfx950 gfx1100 gfx1101 gfx1103 gfx1150 gfx1151 gfx1200 gfx1201 gfx1250 cdna1 cdna2
    mi100 mi210 mi250 mi250x mi300a mi300x mi308x mi325x mi350x mi355x phoenix r9700 rx7700xt rx7800xt rx7900xt
    rx7900xtx rx9060xt rx9070 rx9070xt strix-halo strix-point v710 w7700 w7800 w7900
"""
# Those that IREE knows for Vulkan only.
_SPIRV = """
    adreno llvmpipe mali-g310 mali-g510 mali-g57 mali-g615 mali-g710 mali-g715 mali-g77 mali-g78
    valhall valhall1 valhall2 valhall3 valhall4 vp_android_baseline_2022
    cdna3 cdna4 rdna1 rdna2 rdna3 rdna4 gfx1010 gfx1011 gfx1012 gfx1013 gfx1030 gfx1031 gfx1032 gfx1033 gfx1034 gfx1035
    gfx1036 gfx1102
"""
_CUDA = (*(f"sm_{number}" for number in SM), *_NVIDIA.split())
CHIPS = {
    "vulkan": (*_SPIRV.split(), *_AMD.split(), *_CUDA),
    "cuda": _CUDA,
    "rocm": tuple(_AMD.split()),
}
_USUAL = {
    "vulkan": "llvmpipe, ada, rdna3, adreno, valhall4",
    "cuda": "sm_80, sm_90, ada",
    "rocm": "gfx942, gfx1100, mi300x",
}
_ADRENO = re.compile(r"adreno-\d{3}l?")
_SM = re.compile(r"sm_(\d{2,3})[af]?")


def normalized(device: str, chip: str) -> str:
    """A chip's name as IREE spells it, in lower case.

    device: `vulkan`, `cuda` or `rocm`. Raises OpspliceError for a name that IREE does not know, with the nearest ones.
    """
    name = chip.strip().lower()
    number = _SM.fullmatch(name) if device == "cuda" else None
    if number is not None and int(number[1]) >= SM[0]:
        return name
    if name in CHIPS[device] or (device == "vulkan" and _ADRENO.fullmatch(name)):
        return name
    if number is not None:
        hint = f"the oldest that IREE 3.13 knows is sm_{SM[0]}"
    else:
        near = difflib.get_close_matches(f"sm_{name}" if name.isdigit() else name, CHIPS[device])
        hint = f"did you mean {' or '.join(near)}?" if near else f"there are such as {_USUAL[device]}"
    raise OpspliceError(f"IREE 3.13 knows no chip '{chip}' for {device}", hint=hint)


def built_for(chip: str) -> str:
    """The chip that IREE makes its own code for where a CUDA architecture is meant: itself or an older one."""
    found = _SM.fullmatch(chip)
    if found is None:
        return chip
    return f"sm_{max(number for number in SM if number <= int(found[1]))}"
