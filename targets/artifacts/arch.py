"""CPU architectures under all their names: ours, LLVM's triples, IREE's target keys, ELF machine numbers.

It must not know how anything is built or stored.
"""

from __future__ import annotations

import functools
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from opsplice.common.errors import OpspliceError

Arch = Literal["x86_64", "aarch64", "riscv64"]

ARCHS: tuple[Arch, ...] = ("x86_64", "aarch64", "riscv64")

_ALIASES: dict[str, Arch] = {
    "x86_64": "x86_64",
    "x64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
    "arm_64": "aarch64",
    "riscv64": "riscv64",
    "riscv_64": "riscv64",
    "rv64": "riscv64",
}

# The architecture part of IREE's "embedded-elf-<arch>" executable formats.
_IREE_ARCH: dict[Arch, str] = {"x86_64": "x86_64", "aarch64": "arm_64", "riscv64": "riscv_64"}

# e_machine of the ELF header: EM_X86_64, EM_AARCH64, EM_RISCV in the System V gABI registry.
ELF_MACHINE: dict[Arch, int] = {"x86_64": 62, "aarch64": 183, "riscv64": 243}

# CPU flags that Linux spells otherwise than LLVM does.
_CPUINFO_TO_LLVM = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx_vnni": "avxvnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vnni": "avx512vnni",
    "amx_tile": "amx-tile",
    "amx_int8": "amx-int8",
    "amx_bf16": "amx-bf16",
    "asimddp": "dotprod",
    "asimdhp": "fullfp16",
}
# What a kernel's author chooses between; the many other flags of a host say nothing about which kernel to use.
_NAMED_FEATURES = """
    sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 fma f16c bmi bmi2 lzcnt avxvnni
    avx512f avx512bw avx512cd avx512dq avx512vl avx512bf16 avx512fp16 avx512vnni amx-tile amx-int8 amx-bf16
    dotprod fullfp16 bf16 i8mm sve sve2 sme
"""
NAMED_FEATURES = frozenset(_NAMED_FEATURES.split())
# What of the features that kernels are chosen by LLVM turns off together with another: they need it.
_NEEDED_BY = {
    "sse": "sse2",
    "sse2": "sse3 aes pclmul sha gfni",
    "sse3": "ssse3 sse4a",
    "ssse3": "sse4.1",
    "sse4.1": "sse4.2",
    "sse4.2": "avx",
    "avx": "avx2 fma f16c vaes vpclmulqdq xop fma4",
    "avx2": "avx512f avxvnni avxvnniint8 avxvnniint16 avxifma avxneconvert",
    "fma": "avx512f",
    "f16c": "avx512f",
    "avx512f": "avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vnni avx512vpopcntdq avx512vp2intersect",
    "avx512bw": "avx512bf16 avx512bitalg avx512fp16 avx512vbmi avx512vbmi2",
    "avx512dq": "avx512fp16",
    "avx512vl": "avx512fp16",
    "neon": "dotprod i8mm bf16 fullfp16 sve",
    "fullfp16": "sve fp16fml sme",
    "bf16": "sme",
    "sve": "sve2",
    "sme": "sme2",
}


def normalize(name: str) -> Arch:
    """Our name of an architecture given under any usual name (`arm64`, `amd64`, `x86-64`, ...).

    Raises OpspliceError for a name that is none of the supported architectures.
    """
    found = _ALIASES.get(name.strip().lower().replace("-", "_"))
    if found is None:
        raise OpspliceError(f"unknown CPU architecture '{name}'", hint=f"known architectures: {', '.join(ARCHS)}")
    return found


def host_arch() -> Arch | None:
    """The architecture of this machine, or None when it is not one that kernels can be built for."""
    return _ALIASES.get(platform.machine().lower().replace("-", "_"))


def host_features() -> frozenset[str]:
    """LLVM names of the features of this machine's CPU that kernels are usually chosen by; empty where unknown."""
    for line in _cpuinfo():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(_CPUINFO_TO_LLVM.get(flag, flag) for flag in value.split()).intersection(NAMED_FEATURES)
    return frozenset()


@functools.cache
def host_identity() -> str:
    """What tells this machine's CPU from others that code may not run on, as far as it is known."""
    named = ("model name", "flags", "Features", "isa")
    return "\n".join([platform.machine(), *sorted({line for line in _cpuinfo() if line.startswith(named)})])


def _cpuinfo() -> list[str]:
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


@functools.cache
def parse_features(text: str) -> frozenset[str]:
    """The features that are on in LLVM's notation, as in IREE's `cpu_features = "+avx2,-fma"`; the last one wins.

    What needs a feature that is turned off is off, too: `+avx512bw,-avx512f` are none.
    """
    enabled: set[str] = set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        if item.startswith("-"):
            enabled -= _with_dependents(item[1:])
        else:
            enabled.add(item.removeprefix("+"))
    return frozenset(enabled)


def _with_dependents(feature: str) -> set[str]:
    found = {feature}
    for dependent in _NEEDED_BY.get(feature, "").split():
        found |= _with_dependents(dependent)
    return found


def feature_string(features: Iterable[str]) -> str:
    """LLVM's notation of a set of features, sorted: `+avx2,+fma`."""
    return ",".join(f"+{feature}" for feature in sorted(features))


def iree_key(arch: Arch) -> str:
    """IREE's executable format for embedded ELF code of this architecture, such as `embedded-elf-arm_64`."""
    return f"embedded-elf-{_IREE_ARCH[arch]}"


def from_iree_key(key: str) -> Arch:
    """The architecture of an executable format such as `embedded-elf-arm_64`.

    Raises OpspliceError for other formats (`system-elf-...`, `vulkan-spirv-fb`).
    """
    prefix = "embedded-elf-"
    if not key.startswith(prefix):
        raise OpspliceError(
            f"CPU kernels cannot be linked into '{key}' executables",
            hint=f"the formats that take them: {', '.join(iree_key(arch) for arch in ARCHS)}",
        )
    return normalize(key.removeprefix(prefix))


def llvm_triple(arch: Arch) -> str:
    """The bare-metal triple that kernels are built for: no operating system, ELF."""
    return f"{arch}-none-elf"


def of_triple(triple: str) -> Arch | None:
    """The architecture that an LLVM triple names, or None for an empty or foreign one."""
    return _ALIASES.get(triple.partition("-")[0].lower())


def of_elf_machine(machine: int) -> Arch | None:
    """The architecture of an ELF e_machine number, or None for a foreign one."""
    return next((arch for arch, number in ELF_MACHINE.items() if number == machine), None)
