"""The sample of dynamic dispatches: the program and its kernel apart, put together again in two ways."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import opsplice
from opsplice.frontends import ModuleSource
from opsplice.pipeline.compiler import compile_module
from opsplice.runtime.loaded_program import load_program
from opsplice.runtime.providers import Provider, registry_source


@pytest.fixture(scope="module")
def program(samples: Path) -> opsplice.Program:
    sample = samples / "dynamic_dispatch"
    return opsplice.compile(sample / "model.mlir", [sample / "scale.splice"])


def test_both_factors_use_one_kernel(program: opsplice.Program) -> None:
    assert [r.action for r in program.report.replacements] == ["dynamic dispatch"] * 2
    ((name, _),) = program.provided
    assert name == "scale_add"


@pytest.mark.parametrize("device", ["local-sync", "local-task"])
@pytest.mark.parametrize("way", ["folder", "module"])
def test_from_a_folder_and_from_a_module(program: opsplice.Program, tmp_path: Path, device: str, way: str) -> None:
    source = tmp_path
    if way == "folder":
        program.save_kernels(tmp_path)
    else:
        source = tmp_path / "registry.vmfb"
        source.write_bytes(compile_module(ModuleSource(content=registry_source(program.provided))).vmfb)
    loaded = load_program(program.vmfb, device, provider=Provider([source]))
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    (result,) = loaded.call("main", x, y)
    np.testing.assert_array_equal(result, 5 * (3 * x + y) + x)
