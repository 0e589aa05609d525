"""Compares what IREE computes for an exported block with what the frontend computed.

Uses IREE's compiler and runtime alone, without any spec: it judges the export, not a replacement.
"""

from __future__ import annotations

from pathlib import Path

import block
import numpy as np
from iree import compiler, runtime


def compare(path: Path, input_type: str, arguments: list[np.ndarray], expected: np.ndarray) -> None:
    """Runs `main` of the module at `path` on the CPU and prints the largest absolute differences.

    expected: the frontend's own result for the same arguments.
    """
    flags = [
        "--iree-hal-target-device=local",
        "--iree-hal-local-target-device-backends=llvm-cpu",
        "--iree-llvmcpu-target-cpu=host",
    ]
    binary = compiler.tools.compile_file(str(path), input_type=input_type, extra_args=flags)
    config = runtime.Config("local-task")
    module = runtime.VmModule.copy_buffer(config.vm_instance, binary)
    result = runtime.load_vm_module(module, config).main(*arguments).to_host()
    exact = block.reference()
    print(f"{path.name}: IREE's result differs by {np.abs(result - expected).max():.1e} from the frontend's")
    print(
        f"from the block in f64: IREE {np.abs(result - exact).max():.1e}, frontend {np.abs(expected - exact).max():.1e}"
    )
