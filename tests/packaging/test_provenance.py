"""What the kernels of a program are, from its .vmfb alone: on every backend, through other tools, and from a liar."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import iree.compiler.tools
import pytest

import opsplice
from opsplice import provenance
from opsplice.common.errors import OpspliceError
from opsplice.compiling.spec_sources import SpecSource
from opsplice.provenance import KernelUse, Provenance
from opsplice.reports.report import ArtifactUse, PackageUse, Replacement, Report
from opsplice.spec_lang.loading.libraries import Library
from opsplice.targets.build import shaders
from opsplice.targets.registry.trust.trust import Trust

MODEL = """
func.func private @inner(%x: tensor<64xf32>) -> tensor<64xf32> attributes {noinline} {
  %0 = math.absf %x : tensor<64xf32>
  %1 = arith.negf %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = call @inner(%x) : (tensor<64xf32>) -> tensor<64xf32>
  %1 = math.sqrt %0 : tensor<64xf32>
  return %1 : tensor<64xf32>
}
func.func @other(%x: tensor<64xf32>) -> tensor<64xf32> {
  %0 = call @inner(%x) : (tensor<64xf32>) -> tensor<64xf32>
  return %0 : tensor<64xf32>
}
"""
RULE = """
pattern p(x: tensor<n x f32>) { negf(absf(x)) }
replace p with scale(x)
"""
SPEC = f"""
kernel scale(x: f32[n]) -> f32[n] {{
  grid (ceildiv(n, 64))
  workgroup (64)
  cpu "scale.c"
  cuda "scale.ll"
  rocm "scale.hsaco"
  vulkan "scale.comp"
  metal "scale.metal"
}}
{RULE}"""
FILES = {
    "scale.c": """#include <stddef.h>
void scale(const float *x, float *out, size_t n, size_t at) { if (at < n) out[at] = x[at]; }
""",
    "scale.ll": """
define ptx_kernel void @scale(ptr %in, ptr %out, i32 %n) {
  store float 1.0, ptr %out
  ret void
}
""",
    "scale.comp": """#version 450
layout(local_size_x = 64) in;
layout(set = 0, binding = 1) writeonly buffer Out { float result[]; };
void main() { result[gl_GlobalInvocationID.x] = 1; }
""",
    "scale.metal": """
#include <metal_stdlib>
using namespace metal;
struct Buffers { device const float* x [[id(0)]]; device float* out [[id(1)]]; };
kernel void scale(constant Buffers& b [[buffer(0)]], constant uint& n [[buffer(3)]],
                  uint3 at [[thread_position_in_grid]]) {
  if (at.x < n) b.out[at.x] = b.x[at.x];
}
""",
    "plain.splice": f'kernel scale(x: f32[n]) -> f32[n] {{ cpu "plain.c" }}\n{RULE}',
    "plain.c": """#include <stddef.h>
void scale(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = x[i]; }
""",
    "root.splice": """
kernel root(x: f32[n]) -> f32[n] { cpu "root.c" }
pattern q(x: tensor<n x f32>) { sqrt(x) }
replace q with root(x)
""",
    "root.c": """#include <stddef.h>
void root(const float *x, float *out, size_t n) { for (size_t i = 0; i < n; i++) out[i] = x[i]; }
""",
    "nothing.splice": """
kernel scale(x: f32[n]) -> f32[n] { cpu "plain.c" }
pattern p(x: tensor<n x f32>) { tanh(x) }
replace p with scale(x)
""",
}
DIGEST, KEY = "sha256:" + "1" * 64, "a" * 64
ACME = PackageUse("acme_kernels", "1.4", DIGEST, KEY)
USE = KernelUse("scale", "static function", "llvm-cpu embedded-elf-x86_64", "object", "scale.c", DIGEST, ACME)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def read(program: opsplice.Program, folder: Path) -> Provenance | None:
    program.save(folder / "model.vmfb")
    return provenance.read(folder / "model.vmfb")


def test_kernels_on_every_backend(folder: Path, code_object: bytes) -> None:
    targets = ["x86_64", "aarch64", "cuda:sm_80", "rocm:gfx942", "metal"]
    targets += ["vulkan"] if shaders.find("glslang") else []
    (folder / "scale.hsaco").write_bytes(code_object)
    (folder / "all.splice").write_text(SPEC)
    program = opsplice.compile(MODEL, [folder / "all.splice"], targets=targets)
    found = read(program, folder)
    assert found is not None
    assert found.opsplice == opsplice.__version__
    assert found.iree.startswith("3.13")
    assert len({kernel.target for kernel in found.kernels}) == len(targets)
    assert {kernel.kernel for kernel in found.kernels} == {"scale"}
    used = [artifact for each in program.report.replacements for artifact in each.artifacts]
    assert {(use.target, f"sha256:{use.digest}") for use in used} == {(k.target, k.digest) for k in found.kernels}
    for use in used:
        assert hashlib.sha256(Path(use.path).read_bytes()).hexdigest() == use.digest
    # Names and digests, but nothing of this machine's folders.
    assert str(folder) not in found.to_text()
    assert {kernel.file for kernel in found.kernels} <= set(FILES) | {"scale.hsaco"}


def test_the_library_of_a_kernel_is_noted(folder: Path) -> None:
    library = Library("acme_kernels", folder, "oci://registry.example/acme/kernels", "1.4", digest=DIGEST, key=KEY)
    source = SpecSource("acme_kernels", folder / "plain.splice", library)
    program = opsplice.compile(MODEL, [source, folder / "root.splice"])
    scale, *_ = program.report.replacements
    assert scale.artifacts[0].package == ACME
    assert program.report.to_json()["matches"][0]["artifacts"][0]["package"] == dataclasses.asdict(ACME)
    found = read(program, folder)
    assert found is not None
    assert {(kernel.kernel, kernel.package) for kernel in found.kernels} == {("scale", ACME), ("root", None)}


def test_files_of_a_transform_spec_are_noted(samples: Path, folder: Path) -> None:
    sample = samples / "mul_abs_negate"
    program = opsplice.compile(sample / "model.mlir", [sample / "replace.mlir"])
    (used,) = program.report.replacements[0].artifacts
    assert hashlib.sha256(Path(used.path).read_bytes()).hexdigest() == used.digest
    found = read(program, folder)
    assert found is not None
    assert [(use.kernel, use.approach, use.file, use.digest) for use in found.kernels] == [
        ("call_mul_abs_negate", "transform dialect", "functions.c", f"sha256:{used.digest}")
    ]


def test_other_tools_show_the_note(folder: Path) -> None:
    found = read(opsplice.compile(MODEL, [folder / "plain.splice"]), folder)
    assert found is not None
    tool = Path(sys.executable).with_name("iree-dump-module")
    shown = subprocess.run([tool, folder / "model.vmfb"], capture_output=True, text=True, check=True).stdout
    assert shown.count(f"{provenance.NOTE}: {found.to_text()}") == 1
    # What somebody changed, or cut off.
    data = (folder / "model.vmfb").read_bytes()
    (folder / "model.vmfb").write_bytes(data.replace(b'"kernels":', b'"kernelz":'))
    with pytest.raises(OpspliceError, match="the note on the program's kernels, kernels: it is missing"):
        provenance.read(folder / "model.vmfb")
    (folder / "model.vmfb").write_bytes(data[: len(data) // 2])
    with pytest.raises(OpspliceError, match="is not a compiled program, or is damaged"):
        provenance.read(folder / "model.vmfb")


def test_a_program_without_kernels_is_as_it_was(folder: Path) -> None:
    plain = opsplice.compile(MODEL)
    assert provenance.NOTE.encode() not in opsplice.compile(MODEL, [folder / "nothing.splice"]).vmfb
    assert read(plain, folder) is None


def test_a_compile_without_packages_loads_nothing_for_them() -> None:
    code = """
import sys, opsplice.compiling.compilation
rooms = [f"opsplice.targets.registry.{name}" for name in ("trust.trust", "trust.lock", "places.remote")]
print(sorted({"requests", "cryptography", "tomllib", *rooms} & sys.modules.keys()))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


def test_what_a_frontend_compiles_itself_keeps_the_note_and_gets_more(folder: Path) -> None:
    module, report = opsplice.transform(MODEL, [folder / "plain.splice"])
    text = str(module)
    assert text.count(provenance.NOTE) == 1
    flags = ["--iree-hal-target-device=local", "--iree-hal-local-target-device-backends=llvm-cpu"]
    vmfb = iree.compiler.tools.compile_str(text, extra_args=[*flags, "--iree-input-type=none"])
    (folder / "theirs.vmfb").write_bytes(vmfb)
    assert provenance.read(folder / "theirs.vmfb") == provenance.of(report)
    again = opsplice.compile(text, [folder / "root.splice"], ["--iree-input-type=none"])
    found = read(again, folder)
    assert found is not None
    assert [kernel.kernel for kernel in found.kernels] == ["scale", "root"]


def report(**changes: str) -> Report:
    fields = {"target": "t", "source": "/home/me/s.c", "path": "", "form": "object", "digest": "1" * 64}
    use = ArtifactUse(**{**fields, **changes})
    return Report((Replacement("", "", "", "", "", {}, "scale", "static function", artifacts=(use,)),))


def test_what_is_noted_of_an_artifact() -> None:
    found = provenance.of(report())
    assert found is not None
    assert found.kernels == (KernelUse("scale", "static function", "t", "object", "s.c", DIGEST),)
    assert provenance.of(report(form="compiler")) is None
    plugin = provenance.of(report(form="plugin", digest="", source="a plugin"))
    assert plugin is not None
    assert plugin.kernels[0].digest == ""
    odd = provenance.of(report(source="/x/\x1b[31m\udcff\u202e.c"))
    assert odd is not None
    assert odd.kernels[0].file == "\\u001b[31m\\udcff\\u202e.c"
    assert provenance.parse(odd.to_text()) == odd


def test_a_note_is_read_as_it_was_written() -> None:
    whole = Provenance("0.1.0", "3.13.0", (USE, dataclasses.replace(USE, kernel="k", package=None, digest="")))
    assert provenance.parse(whole.to_text()) == whole


def note(**changes: object) -> str:
    return json.dumps({"opsplice": "0.1.0", "iree": "3.13", "kernels": [], "packages": [], **changes})


HOSTILE = {
    "no JSON": ("x", "is not valid JSON"),
    "a list": ("[]", "it is not an object"),
    "large": (f'"{"x" * (4 << 20)}"', "at most 4 MiB are read"),
    "no kernels": ('{"opsplice": "1"}', "packages: it is missing"),
    "kernels as text": (note(kernels="x"), "kernels: it is not a list"),
    "a digest that is none": (note(kernels=[{"digest": "1"}]), r"kernels\[0\].digest: it is not a digest"),
    "a package that is none": (note(kernels=[{"package": 0}]), r"kernels\[0\].package: there is no package 0"),
    "a package before the first": (note(kernels=[{"package": -1}], packages=[{}]), "there is no package -1"),
    "commands to a terminal": (note(kernels=[{"kernel": "\x1b[2J"}]), "has characters that cannot be shown"),
    "text from right to left": (note(packages=[{"name": "\u202e"}]), "has characters that cannot be shown"),
    "a key that is none": (note(packages=[{"key": "x"}]), "it has no digest or key that is one"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_a_note_that_opsplice_did_not_write_is_an_error(text: str, message: str) -> None:
    with pytest.raises(OpspliceError, match=rf"the note on the program's kernels.*{message}"):
        provenance.parse(text)


@pytest.mark.parametrize("data", [b"", b"x" * 100, b"PK\x03\x04" + bytes(100), bytes(8) + b"IREE" + bytes(100)])
def test_what_is_no_program_is_an_error(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.vmfb").write_bytes(data)
    with pytest.raises(OpspliceError, match="is not a compiled program, or is damaged"):
        provenance.read(tmp_path / "x.vmfb")


def test_kernels_are_revoked_by_code_package_and_key() -> None:
    whole = Provenance("", "", (USE, dataclasses.replace(USE, digest="sha256:" + "2" * 64, package=None)))
    assert provenance.revoked(whole, Trust()) == []
    assert [f.kernel for f in provenance.revoked(whole, Trust(revoked_digests={"sha256:" + "2" * 64: ""}))] == [
        whole.kernels[1]
    ]
    for trust in (Trust(revoked_digests={DIGEST: "wrong"}), Trust(revoked_keys={KEY: "wrong"})):
        (finding,) = provenance.revoked(whole, trust)
        assert finding.kernel is whole.kernels[0]
        assert finding.reason.endswith("is revoked: wrong")
