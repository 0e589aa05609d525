"""spirv-val, Khronos' validator of SPIR-V: finds it and asks it about a module.

A module that is not valid may hang or crash a driver. It must not know where a module came from.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts.artifact import SpirvTarget
from opsplice.targets.build import programs
from opsplice.targets.formats.spirv import spirv_reader

HOW_TO_GET = "apt-get install spirv-tools"

# What it says of numbers that came into SPIR-V after it was built: no word about the module.
_TOO_OLD = re.compile(r"Invalid (?:[\w ]+ )?operand: \d+|Invalid opcode: \d+|Invalid extended instruction")
_LONGEST_DETAILS = 4000


def find() -> str | None:
    """Its path, or None where it is absent."""
    return shutil.which("spirv-val")


def version(program: str) -> str:
    """`spirv-val v2023.1`. Runs it."""
    release = programs.release_in(programs.run_program([program, "--version"]).stdout, r"\bv?\d{4}\.\d+")
    return f"spirv-val {release}"


def validate(program: str | None, path: Path, name: str, target: SpirvTarget | None) -> tuple[str, ...]:
    """Has the module at `path` validated for `target`, None for any at all; returns notes on what could not be.

    program: from `find`. name: how errors and notes call the file. A copy is written beside `path` and removed.
    Raises OpspliceError, with the validator's own lines, when the module is not valid.
    """
    if program is None:
        return (f"{name} was not validated: spirv-val is not here ({HOW_TO_GET})",)
    copy = path.with_name(f"{path.name}.val")
    copy.write_bytes(spirv_reader.without_sources(path.read_bytes(), name))
    command = [program, "--target-env", _environment(target)]
    done = programs.run_program([*command, str(copy)])
    notes: tuple[str, ...] = ()
    said = (done.stdout + done.stderr).strip()
    if done.returncode != 0 and _TOO_OLD.search(said):
        notes = (f"{name} was not validated: {version(program)} does not know what it uses ({said})",)
    elif done.returncode != 0:
        if programs.run_program([*command, "--scalar-block-layout", str(copy)]).returncode != 0:
            raise OpspliceError(
                f"{name} is not valid SPIR-V for {_environment(target)}",
                hint="drivers may hang or crash on it: correct the shader, or what made the module",
                details=said[:_LONGEST_DETAILS],
            )
        notes = (f"{name} lays out buffers as only devices with Vulkan's scalarBlockLayout take them",)
    copy.unlink()
    return notes


def _environment(asked: SpirvTarget | None) -> str:
    if asked is None:
        return "spv1.6"
    return "vulkan1.1spv1.4" if (1, 4) <= asked.version < (1, 5) else asked.vulkan
