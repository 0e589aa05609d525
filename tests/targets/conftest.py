"""Shared by the tests of targets: a store of their own, and the compilers that this machine has."""

from pathlib import Path

import pytest

from opsplice.common.store import Store
from opsplice.targets.build import toolchains

KERNEL = """
#include <stddef.h>
void scale(const float *restrict in, float *restrict out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = in[i] * 2.0f;
}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "kernel.c"
    path.write_text(KERNEL)
    return path


@pytest.fixture(params=toolchains.NAMES)
def compiler(request) -> toolchains.Toolchain:
    """Each compiler in turn; skips those that this machine lacks."""
    found = toolchains.find(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed ({toolchains.HOW_TO_GET[request.param]})")
    return found


@pytest.fixture
def cross() -> dict[str, str]:
    """An environment that chooses a compiler for every architecture."""
    for name in ("zig", "clang"):
        if toolchains.find(name) is not None:
            return {"OPSPLICE_CC": name}
    pytest.skip("no clang here (pip install ziglang)")
