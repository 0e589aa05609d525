"""Functions on elements for GPUs: which files they are taken from. That they run is tested in tests/rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.common.errors import OpspliceError
from opsplice.common.store import Store
from opsplice.targets.artifacts.artifact import ArtifactRequest
from opsplice.targets.backends import device_functions
from tests.targets.formats import spirv_assembly
from tests.targets.link.test_spirv_link import LIBRARY


def test_without_a_compiler_of_wgsl_a_file_is_named_that_is_taken(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "f.wgsl").write_text("fn f(x: f32) -> f32 { return x; }")
    with pytest.raises(OpspliceError, match="needs naga") as failure:
        device_functions.resolve(ArtifactRequest(tmp_path / "f.wgsl", ("f",)), "vulkan-spirv", store)
    assert "or give a .spv that you built elsewhere" in failure.value.hint
    (tmp_path / "f.spv").write_bytes(spirv_assembly.binary(*LIBRARY))
    assert device_functions.resolve(ArtifactRequest(tmp_path / "f.spv", ("f",)), "vulkan-spirv", store).built
