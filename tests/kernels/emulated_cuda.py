"""CUDA kernels of `kernels/` on a CPU: a spec in which they are dispatches for CPUs whose threads run in turn."""

from __future__ import annotations

import platform
import re
import shutil
from pathlib import Path

import pytest

from opsplice.targets.build import toolchains

KERNELS = Path(__file__).parents[2] / "kernels" / "opsplice_kernels"
HEADER = Path(__file__).with_suffix(".h")
_KERNEL = re.compile(r"^kernel (\w+).*?^}\n", re.MULTILINE | re.DOTALL)
_CUDA = re.compile(r'  workgroup \((\d+)\)\n(?:  vulkan .*\n)?  cuda "(.*)\.cu"(?: threads (\d+))?\n')
_RULE = re.compile(r"^replace .*? otherwise keep\n", re.MULTILINE | re.DOTALL)


def spec(folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    """Writes `gpu.splice` with `cpu "x.cpp" as dispatch` in place of `cuda "x.cu"` into a folder.

    change: a text in the sources of kernels, and what stands there instead.
    """
    if platform.machine() != "x86_64" or toolchains.find("clang") is None:
        pytest.skip("threads of CUDA are emulated with clang, on x86-64")
    shutil.copytree(KERNELS, folder, dirs_exist_ok=True)
    for file in (folder / "gpu").glob("*.cu*"):
        file.write_text(file.read_text().replace(*change))
    for name in ("quantised.splice", "weight_only.splice"):  # for patterns: their kernels have no code for CUDA
        imported = folder / name
        imported.write_text(_RULE.sub("", imported.read_text()))
    emulated: dict[str, str] = {}

    def replaced(kernel: re.Match[str]) -> str:
        clause = _CUDA.search(kernel[0])
        name, threads, source = kernel[1], clause[3] or clause[1], clause[2]
        before = f'#include "{HEADER}"\nnamespace {{\n#include "{source}.cu"\n}}\n'
        emulated[source] = emulated.get(source, before) + f"EMULATE({name}, {threads})\n"
        return _CUDA.sub(f'  symbol "{name}_emulated"\n  cpu "{source}.cpp" as dispatch flags "-O1"\n', kernel[0])

    text = _KERNEL.sub(replaced, (folder / "gpu.splice").read_text())
    (folder / "gpu.splice").write_text(text)
    for source, code in emulated.items():
        (folder / f"{source}.cpp").write_text(code.replace('"gpu/', '"'))
    return folder / "gpu.splice"
