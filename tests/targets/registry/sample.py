"""A small package for the tests of the registry: three targets that share a spec."""

from __future__ import annotations

import hashlib
from pathlib import Path

from opsplice.targets.registry.package import About, Part

ABOUT = About("acme_kernels", "1.4", "acme_kernels.splice", "MIT", "3.13.0", ("softmax(x: f32[m, n]) -> f32[m, n]",))
SPEC = b"pattern p(x: f32) { negf(x) }\n"


def noise(size: int, seed: str = "noise") -> bytes:
    """Bytes that no compression makes small, the same each time."""
    return hashlib.shake_256(seed.encode()).digest(size)


def parts(folder: Path, size: int = 3000) -> list[Part]:
    """Files for three targets in `folder`, each artifact of so many bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    (folder / "acme_kernels.splice").write_bytes(SPEC)
    for target, features, path in (
        ("x86_64", (), "x86_64/softmax.o"),
        ("x86_64", ("avx512f", "subgroup>=32"), "x86_64/softmax-avx512f.o"),
        ("cuda:sm_80", (), "cuda-sm_80/softmax.ptx"),
    ):
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(noise(size, path))
        made.append(Part(target, features, {"acme_kernels.splice": folder / "acme_kernels.splice", path: file}))
    return made
