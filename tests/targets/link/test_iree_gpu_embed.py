"""Artifacts for GPUs under IREE's own compiler: what passes our checks is embedded whole. Nothing is run."""

import subprocess
import sys

import pytest

from opsplice.targets.artifacts.artifact import ArtifactRequest, CudaTarget, RocmTarget
from opsplice.targets.backends import cuda, rocm

COMPILER = "import sys; from iree.compiler.tools.scripts.iree_compile.__main__ import main; sys.exit(main())"

# Calls `scale` with two buffers and a word; in the generic form, since the other one has no place for the workgroup.
PROGRAM = """
#layout = #hal.pipeline.layout<constants = 1, bindings = [
  #hal.pipeline.binding<storage_buffer, ReadOnly>, #hal.pipeline.binding<storage_buffer>]>
"hal.executable.source"() <{{sym_name = "exe", sym_visibility = "private", objects = #hal.executable.objects<{{
  #hal.executable.target<{target}> = [#hal.executable.object<{{path = "{path}"}}>]}}>}}> ({{
  "hal.executable.export"() <{{sym_name = "scale", ordinal = 0 : index, layout = #layout,
    workgroup_size = [64 : index, 1 : index, 1 : index]}}> ({{
  ^bb0(%device: !hal.device):
    %c1 = arith.constant 1 : index
    hal.return %c1, %c1, %c1 : index, index, index
  }}, {{}}) : () -> ()
  "hal.executable.source_end"() : () -> ()
}}) : () -> ()
util.func public @main(%x: tensor<64xf32>) -> tensor<64xf32> {{
  %word = arith.constant 64 : i32
  %y = flow.dispatch @exe::@scale(%word, %x) : (i32, tensor<64xf32>) -> tensor<64xf32>
  util.return %y : tensor<64xf32>
}}
"""
IR = "define ptx_kernel void @scale(ptr %in, ptr %out, i32 %n) {\n  store i32 %n, ptr %out\n  ret void\n}\n"


def compile_program(artifact, target, output, *flags):
    text = PROGRAM.format(target=target, path=artifact)
    command = [sys.executable, "-c", COMPILER, "-", *flags, "-o", str(output)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("sm", [80, 90])
def test_ptx_is_embedded_whole(tmp_path, store, sm):
    source, program = tmp_path / "k.ll", tmp_path / "program.vmfb"
    source.write_text(IR)
    artifact = cuda.resolve(ArtifactRequest(source, ("scale",)), CudaTarget(sm), store)
    # IREE's own code generation does not know sm_90; PTX of ours may be newer than the program's target.
    flags = ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"]
    done = compile_program(artifact.path, '"cuda", "cuda-nvptx-fb"', program, *flags)
    assert done.returncode == 0, done.stderr
    assert artifact.path.read_bytes() in program.read_bytes()


def test_a_code_object_is_embedded_whole(tmp_path, store, code_object):
    path, program = tmp_path / "k.hsaco", tmp_path / "program.vmfb"
    path.write_bytes(code_object)
    artifact = rocm.resolve(ArtifactRequest(path, ("scale",)), RocmTarget("gfx942"), store)
    flags = ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"]
    done = compile_program(artifact.path, '"rocm", "rocm-hsaco-fb"', program, *flags)
    assert done.returncode == 0, done.stderr
    assert artifact.path.read_bytes() in program.read_bytes()
