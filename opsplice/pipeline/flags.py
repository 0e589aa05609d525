"""IREE's compiler flags: which belong to a session, which to the whole process, and the targets taken by default.

A session takes most `--iree-...` flags. The rest (`--mlir-print-...`, `--iree-hal-link-executables`, ...) are LLVM
command line options that a process can set once: a second attempt aborts it. This module keeps count of that.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opsplice.common.errors import OpspliceError
from opsplice.isolation.noise import captured

_DEVICE = "--iree-hal-target-device"
_LOCAL_BACKENDS = "--iree-hal-local-target-device-backends"
# The older way to name targets: it implies the devices.
_BACKENDS = "--iree-hal-target-backends"
_LINKING = "--iree-hal-link-executables"
_ALIGNMENT = "--iree-stream-resource-min-offset-alignment"
_SLP = "--iree-llvmcpu-slp-vectorization"
_GROWTH = "--iree-opt-const-expr-max-size-increase-threshold"
_CONVERSION = re.compile(r"(--iree-input-(?:de|pro)mote-(\w+)-to-\w+)=(?:true|1)")

_PASSED_THROUGH = ("--iree-", "--mlir-")
# With these the user asks IREE to print on stderr, so what it prints there is not noise.
_PRINTING = ("--mlir-print-", "--mlir-timing", "--mlir-pass-statistics")

# Sets process-wide flags in a process of its own, which LLVM ends (with a complaint, or a listing that a flag asks
# for) unless it accepts them all.
_REHEARSAL = """
import sys
from iree.compiler.api import ctypes_dl
ctypes_dl._initializeGlobalCL("opsplice", *sys.argv[1:])
print("accepted")
"""

_lock = threading.Lock()
_process_flags: tuple[str, ...] | None = None


@dataclass(frozen=True)
class FlagSet:
    """Flags in the user's order, by the scope in which IREE takes them."""

    session: tuple[str, ...]
    process: tuple[str, ...]


def with_default_target(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags, with the host's CPU backend as target when they name none.

    A module that names its targets in `hal.device.targets` keeps them: IREE prefers the attribute to the flags.
    """
    names = {_name(flag) for flag in flags}
    if _BACKENDS in names:
        return tuple(flags)
    added: list[str] = []
    if _DEVICE not in names:
        added.append(f"{_DEVICE}=local")
    if "local" in named_devices([*added, *flags]) and _LOCAL_BACKENDS not in names:
        added.append(f"{_LOCAL_BACKENDS}=llvm-cpu")
    return (*added, *flags)


def for_this_cpu(flags: Sequence[str], archs: Sequence[str] = ()) -> tuple[str, ...]:
    """The flags, with this machine's CPU where they and the targets name none: for what is compiled and run here."""
    if archs or any(flag.startswith(("--iree-llvmcpu-target", "--iree-hal-target")) for flag in flags):
        return tuple(flags)
    return (*flags, "--iree-llvmcpu-target-cpu=host")


def with_slp(flags: Sequence[str]) -> tuple[str, ...]:
    """The flags, with the one that has LLVM put scalar instructions that are alike into vectors, unless they have it.

    Calls for each lane of a vector come to be such once they are inlined.
    """
    return _with_default(flags, _SLP, "true")


def with_growth(flags: Sequence[str], size: int) -> tuple[str, ...]:
    """The flags, with the one that has IREE compute constants that grow by up to `size` bytes, unless they have it."""
    return _with_default(flags, _GROWTH, str(size))


def _with_default(flags: Sequence[str], name: str, value: str) -> tuple[str, ...]:
    return tuple(flags) if name in map(_name, flags) else (f"{name}={value}", *flags)


def asks_to_print(flags: Iterable[str]) -> bool:
    """Whether a flag makes IREE print on stderr what the user wants to see."""
    return any(flag.startswith(_PRINTING) for flag in flags)


def links_executables(flags: Iterable[str]) -> bool:
    """Whether IREE links a program's executables with each other, as it does unless a flag says otherwise."""
    said = [flag.partition("=")[2] for flag in flags if _name(flag) == _LINKING]
    return not said or said[-1].lower() not in ("false", "0")


def offset_alignment(flags: Iterable[str]) -> int:
    """To how many bytes buffers are aligned: IREE 3.13's 64, or what a flag asks for where that is more."""
    said = [flag.partition("=")[2] for flag in flags if _name(flag) == _ALIGNMENT]
    return max([64, *(int(each) for each in said[-1:] if each.isdecimal())])


def conversions(flags: Iterable[str]) -> dict[str, str]:
    """The element types that IREE converts all over a program before phase `input`, each with the flag for that.

    flags: all of a session, those that are the defaults too.
    """
    found = filter(None, map(_CONVERSION.fullmatch, flags))
    return {match[2]: match[1] for match in found}


def split_flags(flags: Sequence[str]) -> FlagSet:
    """Sorts flags into those of a session and those of the process, trying each on a scratch session.

    Raises OpspliceError for what is not an IREE or MLIR flag, for a flag that IREE does not know (with its nearest
    name), and for a value that does not parse.
    """
    session: list[str] = []
    process: list[str] = []
    for flag in flags:
        (session if _session_takes(flag) else process).append(flag)
    if process:
        _rehearse(process)
    return FlagSet(tuple(session), tuple(process))


def apply_process_flags(flags: tuple[str, ...]) -> None:
    """Sets process-wide flags, once per process. Raises OpspliceError when this process already has others."""
    global _process_flags
    from iree.compiler.api import ctypes_dl

    with _lock:
        if flags == (_process_flags or ()):
            return
        if _process_flags is not None:
            raise OpspliceError(
                f"this process compiles with {_listed(_process_flags)}, and IREE cannot change these flags later",
                hint="compile with other flags in another process: isolate=True",
            )
        ctypes_dl._initializeGlobalCL("opsplice", *flags)
        _process_flags = flags


def _name(flag: str) -> str:
    return flag.partition("=")[0]


def names_linking(flags: Iterable[str]) -> bool:
    """Whether a flag says that IREE is to link a program's executables with each other, or not to."""
    return any(_name(flag) == _LINKING for flag in flags)


def named_devices(flags: Iterable[str]) -> list[str]:
    """The devices that flags name, `local`, `vulkan`, ..."""
    # The value is an alias (`local`), maybe a named or ordinal one (`cpu=local`, `local[1]`), maybe a list of them.
    return [device.rpartition("=")[2].partition("[")[0].strip() for device in _values(flags, _DEVICE)]


def named_backends(flags: Iterable[str]) -> list[str]:
    """The backends that flags name in the older way, `llvm-cpu`, `vulkan-spirv`, ..."""
    return [backend.strip() for backend in _values(flags, _BACKENDS)]


def named_targets(targets: Sequence[str], flags: Sequence[str]) -> tuple[str, ...]:
    """The targets of a compile: those given, else the devices or backends that its flags name."""
    return tuple(targets or named_devices(flags) or named_backends(flags))


def _values(flags: Iterable[str], name: str) -> list[str]:
    return [one for flag in flags if _name(flag) == name for one in flag.partition("=")[2].split(",")]


def _session_takes(flag: str) -> bool:
    from iree.compiler.api import Session

    if not flag.startswith(_PASSED_THROUGH):
        raise OpspliceError(
            f"'{flag}' is not a flag of IREE's compiler",
            hint="flags are passed on as --iree-name=value or --mlir-name=value, with '=' before a value",
        )
    scratch = Session()
    try:
        # LLVM's option parser explains a bad value on stderr only.
        with captured() as noise:
            scratch.set_flags(flag)
    except ValueError as error:
        if "option not found" in str(error):
            return False
        raise OpspliceError(
            f"IREE does not accept the flag {flag}",
            details=_without_prefix(noise.text) or str(error),
        ) from None
    finally:
        scratch.close()
    return True


def _rehearse(flags: Sequence[str]) -> None:
    trial = subprocess.run([sys.executable, "-P", "-c", _REHEARSAL, *flags], capture_output=True, text=True)
    if trial.stdout.endswith("accepted\n"):
        return
    unknown = re.search(r"Unknown command line argument '([^']*)'", trial.stderr)
    if unknown is None:
        raise OpspliceError(
            f"IREE does not accept {_listed(flags)}", details=_without_prefix(trial.stderr + trial.stdout)
        )
    near = re.search(r"Did you mean '([^']*)'", trial.stderr)
    # LLVM suggests any option of its own, however far; only IREE's and MLIR's can be passed on.
    hint = f"did you mean {near[1]}?" if near and near[1].startswith(_PASSED_THROUGH) else None
    raise OpspliceError(f"IREE has no flag {unknown[1]}", hint=hint or "`iree-compile --help-hidden` lists all of them")


def _without_prefix(text: str) -> str:
    return "\n".join(line.removeprefix("opsplice: ").removeprefix(": ") for line in text.strip().splitlines())


def _listed(flags: Sequence[str]) -> str:
    return " ".join(flags)
