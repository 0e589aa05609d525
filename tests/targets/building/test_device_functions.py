"""Functions on elements for GPUs: which files they are taken from. That they run is tested in tests/rewrites."""

from __future__ import annotations

from pathlib import Path

import pytest

from opsplice.errors import OpspliceError
from opsplice.targets.artifacts.artifact import ArtifactRequest
from opsplice.targets.backends import device_functions
from opsplice.targets.registry.store import Store


@pytest.mark.parametrize("backend", ["vulkan-spirv", "metal-spirv"])
def test_without_a_compiler_of_wgsl_a_file_is_named_that_is_taken(
    backend: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    (tmp_path / "f.wgsl").write_text("fn f(x: f32) -> f32 { return x; }")
    with pytest.raises(OpspliceError, match="needs naga") as failure:
        device_functions.resolve(ArtifactRequest(tmp_path / "f.wgsl", ("f",)), backend, store)
    assert "or give a .mlir that you built elsewhere" in failure.value.hint
    (tmp_path / "f.mlir").write_text('spirv.func @f(%x: f32) -> f32 "None" { spirv.ReturnValue %x : f32 }')
    assert device_functions.resolve(ArtifactRequest(tmp_path / "f.mlir", ("f",)), backend, store).built
