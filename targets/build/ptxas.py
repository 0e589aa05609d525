"""NVIDIA's assembler as a check: it refuses what the driver would refuse when a program is loaded.

What it makes is thrown away, since the driver assembles PTX for the GPU that is there. It must not know the store.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from opsplice.errors import OpspliceError
from opsplice.targets.build import cuda_compilers, programs

HOW_TO_GET = "pip install nvidia-cuda-nvcc, or install NVIDIA's CUDA toolkit, so that ptxas is on the PATH"

# The largest kernels of known libraries take about half of it; what takes longer is left to the driver, with a note.
_LONGEST_SECONDS = 60.0

# What an assembler says of PTX that is newer than it, or of a GPU that it does not know (any more).
_TOO_NEW = re.compile(r"Unsupported \.version ([\d.]+); current version is '([\d.]+)'")
_UNKNOWN_GPU = re.compile(r"Value '(\w+)' is not defined for option 'gpu-name'")


@dataclass(frozen=True)
class Assembler:
    """A ptxas. path: of its program."""

    path: Path

    @property
    def identity(self) -> str:
        """Changes whenever it may have changed."""
        return programs.identity_of([str(self.path)])

    def version(self) -> str:
        """Its name and version, such as `ptxas 13.0`. Runs it once per process."""
        said = programs.output_of((str(self.path), "--version"))
        return f"ptxas {programs.release_in(said, cuda_compilers.RELEASE)}"


def find() -> Assembler | None:
    """The ptxas on the PATH, else that of the wheel nvidia-cuda-nvcc, or None."""
    path = shutil.which("ptxas")
    if path is not None:
        return Assembler(Path(path))
    wheel = cuda_compilers.wheel_file("bin/ptxas")
    return Assembler(wheel) if wheel is not None and os.access(wheel, os.X_OK) else None


def check(assembler: Assembler | None, module: Path, name: str, target: str) -> tuple[str, ...]:
    """Assembles PTX for a GPU such as `sm_90a`; returns notes on what could not be checked.

    module: PTX in a folder where files may be made. name: how errors call it.
    Raises OpspliceError with the assembler's own lines as details when it refuses the code.
    """
    if assembler is None:
        return (f"{name} was not assembled: there is no ptxas here",)
    product = module.with_name("assembled.cubin")
    command = [str(assembler.path), f"-arch={target}", str(module), "-o", str(product)]
    try:
        done = programs.run_program(command, seconds=_LONGEST_SECONDS)
    except programs.TimeLimitError:
        return (f"{name} was not assembled: ptxas did not end in {_LONGEST_SECONDS:.0f} seconds",)
    finally:
        product.unlink(missing_ok=True)
    if done.returncode == 0:
        return ()
    said = done.stderr + done.stdout
    if (version := _TOO_NEW.search(said)) is not None:
        return (f"{name} was not assembled: it is PTX {version[1]}, and {assembler.version()} knows {version[2]}",)
    if _UNKNOWN_GPU.search(said):
        return (f"{name} was not assembled: {assembler.version()} does not know {target}",)
    # ptxas names the file that it was given, which is the store's.
    details = programs.shown(said.replace(str(module), name), done.returncode)
    raise OpspliceError(f"ptxas refuses {name} for {target}", details=details)
