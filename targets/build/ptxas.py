"""NVIDIA's assembler as a check: it refuses what the driver would refuse when a program is loaded.

What it makes is thrown away, since the driver assembles PTX for the GPU that is there. It must not know the store.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.targets.build import cuda_compilers, programs

HOW_TO_GET = "pip install nvidia-cuda-nvcc, or install NVIDIA's CUDA toolkit, so that ptxas is on the PATH"

# The largest kernels of known libraries take about half of it; what takes longer is left to the driver, with a note.
_LONGEST_SECONDS = 60.0

# What an assembler says of PTX that is newer than it, or of a GPU that it does not know (any more).
_TOO_NEW = re.compile(r"Unsupported \.version ([\d.]+); current version is '([\d.]+)'")
_UNKNOWN_GPU = re.compile(r"Value '(\w+)' is not defined for option 'gpu-name'")


def find() -> str | None:
    """The path of the ptxas on the PATH, else of that of the wheel nvidia-cuda-nvcc, or None."""
    if (path := shutil.which("ptxas")) is not None:
        return path
    wheel = cuda_compilers.wheel_file("bin/ptxas")
    return str(wheel) if wheel is not None and os.access(wheel, os.X_OK) else None


def version(program: str) -> str:
    """`ptxas 13.0`. Runs it once per process."""
    return f"ptxas {programs.release_in(programs.output_of((program, '--version')), cuda_compilers.RELEASE)}"


def check(program: str | None, module: Path, name: str, target: str) -> tuple[str, ...]:
    """Assembles PTX for a GPU such as `sm_90a`; returns notes on what could not be checked.

    program: from `find`. module: PTX in a folder where files may be made. name: how errors call it.
    Raises OpspliceError with the assembler's own lines as details when it refuses the code.
    """
    if program is None:
        return (f"{name} was not assembled: there is no ptxas here",)
    product = module.with_name("assembled.cubin")
    command = [program, f"-arch={target}", str(module), "-o", str(product)]
    try:
        done = programs.run_program(command, seconds=_LONGEST_SECONDS)
    except programs.TimeLimitError:
        return (f"{name} was not assembled: ptxas did not end in {_LONGEST_SECONDS:.0f} seconds",)
    finally:
        product.unlink(missing_ok=True)
    if done.returncode == 0:
        return ()
    said = done.stderr + done.stdout
    if (newer := _TOO_NEW.search(said)) is not None:
        return (f"{name} was not assembled: it is PTX {newer[1]}, and {version(program)} knows {newer[2]}",)
    if _UNKNOWN_GPU.search(said):
        return (f"{name} was not assembled: {version(program)} does not know {target}",)
    # ptxas names the file that it was given, which is the store's.
    details = programs.shown(said.replace(str(module), name), done.returncode)
    raise OpspliceError(f"ptxas refuses {name} for {target}", details=details)
