"""What a kernel's code is asked for with, and what comes back: plain data for every backend.

It must not know how an artifact is built, checked or stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from opsplice.common.errors import OpspliceError
from opsplice.targets.artifacts import arch as archs

Form = Literal["object", "bitcode", "library", "spirv", "ptx", "hsaco", "metal", "mlir"]


@dataclass(frozen=True)
class CpuTarget:
    """A CPU that code is made for.

    arch:     `x86_64`, `aarch64` or `riscv64`.
    features: LLVM's names of the features that may be used beyond the architecture's baseline, without signs.
    """

    arch: archs.Arch
    features: frozenset[str] = frozenset()

    @staticmethod
    def of(arch: str, features: str | Iterable[str] = ()) -> CpuTarget:
        """A target from any usual name of the architecture, and features as a set or in LLVM's `+a,-b` notation.

        Raises OpspliceError for an unknown architecture.
        """
        text = features if isinstance(features, str) else ",".join(features)
        return CpuTarget(archs.normalize(arch), archs.parse_features(text))


@dataclass(frozen=True)
class SpirvTarget:
    """A Vulkan device that shaders are made for.

    version:      the newest SPIR-V that it takes, (major, minor); Vulkan 1.1 takes (1, 3).
    capabilities: SPIR-V's names of those that it has (`Float16`, `Int64`, ...); None where that is not known, and then
                  nothing is asked of a module.
    """

    version: tuple[int, int] = (1, 3)
    capabilities: frozenset[str] | None = None

    @property
    def vulkan(self) -> str:
        """The first Vulkan that takes this version of SPIR-V, among those that compilers know as environments."""
        if self.version < (1, 1):
            return "vulkan1.0"
        if self.version < (1, 4):
            return "vulkan1.1"
        return "vulkan1.2" if self.version < (1, 6) else "vulkan1.3"


@dataclass(frozen=True)
class CudaTarget:
    """A GPU of NVIDIA's that code is made for.

    sm:  its compute capability without the dot: 80 for 8.0, 120 for 12.0.
    ptx: the newest PTX version that its driver reads, such as (8, 0); None where that is not known.
    """

    sm: int
    ptx: tuple[int, int] | None = None

    @staticmethod
    def of(name: str, ptx: tuple[int, int] | None = None) -> CudaTarget:
        """A target from IREE's name of it, `sm_80`. Raises OpspliceError for names of another kind."""
        found = re.fullmatch(r"sm_(\d{2,3})[af]?", name.strip())
        if found is None:
            raise OpspliceError(f"'{name}' does not say a compute capability", hint="name the target as in sm_80")
        return CudaTarget(int(found.group(1)), ptx)


@dataclass(frozen=True)
class RocmTarget:
    """A GPU of AMD's that code is made for. chip: LLVM's name of it, such as `gfx942`."""

    chip: str


@dataclass(frozen=True)
class ArtifactRequest:
    """A kernel's file as its author named it.

    path:    a source (`.c`, `.cpp`, `.S`, `.ll`, `.cu`; shaders: `.comp`, `.glsl`, `.slang`, `.wgsl`) or a prebuilt
             file (`.o`, `.a`, `.bc`, `.spv`, `.ptx`, `.hsaco`).
    symbols: the functions that it has to define.
    form:    what to make of it; None takes the one form of a GPU, and for a CPU an object from a source and a
             prebuilt file as it is.
    flags:   further compiler flags for a source; relative paths in them start at the source's folder.
    links:   archives that the object of a CPU is linked with.
    """

    path: Path
    symbols: tuple[str, ...]
    form: Form | None = None
    flags: tuple[str, ...] = ()
    links: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Artifact:
    """Checked code on disk, ready to be linked.

    path:      absolute, inside the store; stays valid while the store is not emptied.
    digest:    SHA-256 of the file's bytes, in hex.
    arch:      the architecture that it was made or checked for; None where it does not depend on one.
    toolchain: what built it, such as `clang 14.0.6`; None for a prebuilt file.
    built:     False when it was found in the store.
    notes:     what could not be checked or was taken as given; for the user's eyes.
    entry:     the entry point of a GPU's code; "" where the kernel's symbol is called.
    signatures: the types of its functions as LLVM writes them, `float (float, i32)`, by name; where they were read.
    harmless: its functions that may run on any numbers: they have no loops, read no memory and cannot trap.
    shared: the bytes that a launch gives each workgroup to share, if whatever made the code says so.
    """

    path: Path
    form: Form
    digest: str
    arch: archs.Arch | None
    toolchain: str | None
    built: bool
    notes: tuple[str, ...] = ()
    entry: str = ""
    signatures: Mapping[str, str] = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    shared: int = 0
